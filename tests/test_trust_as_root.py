"""What root executes, imports and hands on to its children: nothing that somebody else could have changed (sources/trust.py, inherited.py)."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cudadoctor.commands import manual
from cudadoctor.knowledge.load import load
from cudadoctor.model.evidence import Evidence
from cudadoctor.sources import applying, host, inherited, interpreters, keeping, listings, owners, programs, recording, trust, writing
from cudadoctor.sources.interpreters import examined_python
from cudadoctor.sources.probes import Probe
from tests.command_line import ROOT
from tests.test_interpreters import interpreter

AS_ROOT = hasattr(os, "geteuid") and os.geteuid() == 0
pytestmark = pytest.mark.skipif(not AS_ROOT, reason="only root can be tricked")


def forget() -> None:
    """What was looked at once is looked at again."""
    inherited._seen_once.cache_clear()
    inherited._environment.cache_clear()


def test_what_is_refused_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "nvcc"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o777)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert programs.found("nvcc") is None
    assert programs.refused("nvcc") == f"{tool} may be written by another user; it was not run"
    tool.chmod(0o755)
    assert programs.found("nvcc") == str(tool)
    assert programs.refused("nvcc") is None


@pytest.mark.parametrize("first", ["#!{0}", "#! {0} -x", "#!/usr/bin/env -S {0}", "#!{1}", "#!/bin/sh -x{0}"])
def test_root_runs_no_script_whose_interpreter_is_another_users(first: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As pip writes them into /usr/local/bin where root ran a user's."""
    strange, own, tool = tmp_path / "strange", tmp_path / "own", tmp_path / "nvcc"
    for file, text in ((strange, "#!/bin/sh"), (own, f"#!{strange}"), (tool, first.format(strange, own))):
        file.write_text(f"{text}\n")
        file.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert programs.found("nvcc") == str(tool)
    os.chown(strange, 1000, 1000)
    assert programs.found("nvcc") is None
    assert f"{strange}, which may be written by another user; it was not run" in (programs.refused("nvcc") or "")


@pytest.mark.parametrize(
    "line",
    [
        '-S"/x/perl"', "-vS/x/perl", "--split-string=/x/perl", r"-iS\_/x/perl", "-S '/x/zz'", "-S ${HOME}/x", "-S PATH=/x perl",
        "-S --chdir=/x ./zz", "-S -C/x ./zz", "PYTHONPATH=/x python3", "-S LD_PRELOAD=/x/e.so sh", "-i sh",
    ],
)  # fmt: skip
def test_what_env_is_told_besides_a_program_is_not_followed(line: str, tmp_path: Path) -> None:
    tool = tmp_path / "nvcc"
    for said, refused in ((line, True), ("sh", False), ("-S sh -e", False)):
        tool.write_text(f"#!/usr/bin/env {said}\n")
        tool.chmod(0o755)
        assert (trust.refusal(str(tool)) == "begins with a line for env that names more than a program") is refused, said


@pytest.mark.parametrize("first", ["#!{}/bin/python3 -E", "#!/usr/bin/env python3"])
def test_root_runs_no_script_whose_python_has_packages_of_another_user(first: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    env = tmp_path / "env"
    packages = env / "lib/python3.11/site-packages"
    packages.mkdir(parents=True)
    (env / "bin").mkdir()
    (env / "pyvenv.cfg").write_text(f"home = {env}/bin\n")
    (env / "bin/python3").symlink_to(interpreter(tmp_path / "python3"))
    (packages / "hook.pth").write_text("")
    tool = tmp_path / "nvcc"
    tool.write_text(f"{first.format(env)}\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{env}/bin")
    assert programs.found("nvcc") == str(tool)
    os.chown(packages / "hook.pth", 1000, 1000)
    assert programs.found("nvcc") is None
    assert f"is run by {env}/bin/python3, which reads {env}/lib" in (programs.refused("nvcc") or "")


def test_root_loads_no_library_that_another_user_may_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{tmp_path}/open:/usr/lib")
    assert inherited.environment()["LD_LIBRARY_PATH"] == "/usr/lib"
    assert any("LD_LIBRARY_PATH" in said for said in inherited.left_out())


@pytest.mark.parametrize("place", ["lib", "lib/python3.11/site-packages", "pyvenv.cfg"])
def test_root_runs_no_python_with_packages_of_another_user(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    env = tmp_path / "env"
    (env / "bin").mkdir(parents=True)
    (env / "lib/python3.11/site-packages").mkdir(parents=True)
    (env / "pyvenv.cfg").write_text("")
    for name in ("python", "python3"):
        (env / "bin" / name).symlink_to(interpreter(tmp_path / name))
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(env / "bin"))
    assert examined_python(None)[0] == str(env / "bin" / "python3")
    os.chown(env / place, 1000, 1000)
    assert examined_python(None)[0] is None


def test_a_member_of_roots_group_is_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import grp

    tool = tmp_path / "nvcc"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o775)
    assert trust.refusal(str(tool)) is None
    owners._is_nobodys.cache_clear()
    # A second line of /etc/group may give the number another name, with other members.
    monkeypatch.setattr(
        grp, "getgrall", lambda: [grp.struct_group((name, "x", 0, who)) for name, who in (("root", []), ("b", ["mallory"]))]
    )
    assert trust.refusal(str(tool)) == "may be written by another user"
    monkeypatch.undo()
    owners._is_nobodys.cache_clear()
    monkeypatch.setattr(os, "listxattr", lambda path: ["system.posix_acl_access"] if path == str(tool) else [])
    assert trust.refusal(str(tool)) == "may be written by another user"


@pytest.mark.parametrize(
    ("line", "open_to_some"),
    [
        ("staff:!::", False),
        ("staff:*:root:root", False),
        ("other:!::mallory", False),
        ("staff:!::mallory", True),
        ("staff:!:mallory:", True),
        ("staff:$y$j9T$x:: ", True),
    ],
)
def test_who_may_join_a_group_by_its_shadow_is_another_user(line: str, open_to_some: bool, tmp_path: Path) -> None:
    shadow = tmp_path / "gshadow"
    shadow.write_text(f"root:*::\n{line}\n")
    assert owners._joined_by_shadow({"staff"}, str(shadow)) is open_to_some


@pytest.mark.skipif(shutil.which("cc") is None, reason="no compiler")
def test_a_library_of_roots_that_loads_another_users_is_not_handed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own, others = Path(tempfile.mkdtemp(dir="/root")), tmp_path / "others"
    try:
        others.mkdir()
        (tmp_path / "x.c").write_text("int x;\n")
        (own / "sub").mkdir()
        for name, folder in (("libcuda.so.1", others), ("sub/libown.so", own / "sub")):
            argv = ["cc", "-shared", "-o", str(own / name), str(tmp_path / "x.c"), f"-Wl,-rpath,{folder}"]
            subprocess.run(argv, check=True)
        os.chown(others, 1000, 1000)
        for folder, handed_on in ((own, False), (own / "sub", True)):
            monkeypatch.setenv("LD_LIBRARY_PATH", str(folder))
            assert ("LD_LIBRARY_PATH" in inherited.environment()) is handed_on
    finally:
        shutil.rmtree(own)


def _library(file: Path, *linked: str) -> None:
    """A shared library with these options of the linker's."""
    file.parent.mkdir(parents=True, exist_ok=True)
    source = file.with_suffix(".c")
    source.write_text("int x;\n")
    subprocess.run(["cc", "-shared", "-o", str(file), str(source), *linked], check=True)


@pytest.fixture
def roots_folder() -> Iterator[Path]:
    """Outside of /tmp, where everybody may make files."""
    folder = Path(tempfile.mkdtemp(dir="/root"))
    yield folder
    shutil.rmtree(folder)


@pytest.mark.skipif(shutil.which("cc") is None, reason="no compiler")
@pytest.mark.parametrize("place", ["lib/python3.11/site-packages/torch/_C.so", "lib/libpython3.11.so.1.0", "lib64/deep/er/libx.so.2"])
def test_what_extension_modules_load_is_looked_at(place: str, roots_folder: Path, tmp_path: Path) -> None:
    """As a framework's that was built from source leads into its builder's home."""
    python = interpreter(roots_folder)
    assert interpreters.refusal(str(python)) is None
    _library(roots_folder / "base" / place, f"-Wl,-rpath,{tmp_path}")
    assert interpreters.refusal(str(python)) is None
    os.chown(tmp_path, 1000, 1000)
    try:
        assert f"{place}, which loads {tmp_path}, which may be written by another user" in (interpreters.refusal(str(python)) or "")
    finally:
        os.chown(tmp_path, 0, 0)


@pytest.mark.skipif(shutil.which("cc") is None, reason="no compiler")
@pytest.mark.parametrize("name", ["LD_LIBRARY_PATH", "NUMBA_CUDA_DRIVER", "CUDA_INJECTION64_PATH", "CUDA_HOME", "TRITON_LIBCUDA_PATH"])
@pytest.mark.parametrize("how", ["link", "needed", "below"])
def test_what_a_library_loads_counts_for_every_variable(name: str, how: str, roots_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By $ORIGIN of the link by which it is found, by a library in a folder that it names, or in one of the loader's own subfolders."""
    plugins, lib = roots_folder / "lib" / "plugins", roots_folder / "lib" / "nvvm"
    plugins.mkdir(parents=True)
    file = lib / "libcuda.so.1"
    if how == "link":
        _library(roots_folder / "store" / "a" / "libcuda.so.1", "-Wl,-rpath,$ORIGIN/../plugins")
        lib.mkdir()
        file.symlink_to(roots_folder / "store" / "a" / "libcuda.so.1")
    elif how == "needed":
        _library(file, f"-Wl,-rpath,{roots_folder / 'more'}")
        _library(roots_folder / "more" / "libneeded.so", f"-Wl,-rpath,{plugins}")
    else:
        _library(lib / "glibc-hwcaps" / "x86-64-v2" / "libcuda.so.1", f"-Wl,-rpath,{plugins}")
        _library(file)
    value = roots_folder / "lib" if name == "CUDA_HOME" else lib if name == "LD_LIBRARY_PATH" or how == "below" else file
    monkeypatch.setenv(name, str(value))
    forget()
    assert inherited.environment().get(name) == str(value)
    os.chown(plugins, 1000, 1000)
    forget()
    assert name not in inherited.environment()


@pytest.mark.parametrize("line", ["tools:$6$salt$hash:4242:", "tools:xy/gRonXQz8UE:4242:", "tools:x:4242:", "tools:!$6$off:4242:"])
def test_a_password_in_the_list_of_groups_lets_anybody_join(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """newgrp goes by it where gshadow has no line of that group."""
    import grp

    monkeypatch.setattr(grp, "getgrall", lambda: [grp.struct_group((*line.split(":")[:2], 4242, []))])
    owners._is_nobodys.cache_clear()
    try:
        assert owners._is_nobodys(4242) is (len(line.split(":")[1].lstrip("!")) < 2 or "!" in line)
    finally:
        owners._is_nobodys.cache_clear()


def test_root_runs_no_script_of_python_beside_a_module_of_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python looks there first."""
    tool, module = tmp_path / "bin" / "nvcc", tmp_path / "bin" / "json.py"
    tool.parent.mkdir()
    tool.write_text(f"#!{sys.base_prefix}/bin/python3\n")
    tool.chmod(0o755)
    module.write_text("")
    assert trust.refusal(str(tool)) is None
    os.chown(module, 1000, 1000)
    assert "is a script of Python, which looks for modules beside it" in (trust.refusal(str(tool)) or "")


def test_a_program_of_another_user_beside_a_script_of_python_is_no_module(tmp_path: Path) -> None:
    """As Debian's /usr/bin/at, which is daemon's; and /usr/bin/X11 leads back to the folder."""
    tool, other = tmp_path / "bin" / "nvcc", tmp_path / "bin" / "at"
    tool.parent.mkdir()
    tool.write_text(f"#!{sys.base_prefix}/bin/python3\n")
    tool.chmod(0o755)
    other.write_text("")
    os.chown(other, 1, 1)
    (tool.parent / "X11").symlink_to(".")
    assert trust.refusal(str(tool)) is None


@pytest.mark.skipif(shutil.which("cc") is None, reason="no compiler")
def test_a_way_through_a_link_is_followed_before_it_goes_up(roots_folder: Path) -> None:
    python, suite = interpreter(roots_folder), roots_folder / "suite"
    package = roots_folder / "base" / "lib" / "python3.11" / "site-packages" / "x"
    _library(package / "x.so", "-Wl,-rpath,$ORIGIN/suite/../plugins")
    (package / "plugins").mkdir()
    (suite / "v1").mkdir(parents=True)
    (suite / "plugins").mkdir()
    (package / "suite").symlink_to(suite / "v1")
    assert interpreters.refusal(str(python)) is None
    os.chown(suite / "plugins", 1000, 1000)
    assert "which loads" in (interpreters.refusal(str(python)) or "")


@pytest.mark.skipif(shutil.which("cc") is None, reason="no compiler")
@pytest.mark.parametrize(
    "folder", ["/usr/", "/usr/local/lib", "/lib/x86_64-linux-gnu/", "$$ORIGIN/x", "$ORIGIN/../../../../../../../../.."]
)
def test_a_folder_in_which_every_program_looks_is_not_looked_through(folder: str, roots_folder: Path) -> None:
    python = interpreter(roots_folder)
    _library(roots_folder / "base" / "lib" / "python3.11" / "x.so", f"-Wl,-rpath,{folder}")
    before = set(trust._ahead)
    assert interpreters.refusal(str(python)) is None
    assert set(trust._ahead) == before


@pytest.mark.parametrize("place", ["local/lib64/python3.11/site-packages", "elsewhere"])
def test_every_place_in_which_an_interpreter_looks_is_looked_at(place: str, tmp_path: Path) -> None:
    """Fedora's below /usr/local, and what a file beside the interpreter says."""
    python, folder = interpreter(tmp_path), tmp_path / "base" / place
    folder.mkdir(parents=True)
    (tmp_path / "base" / "bin" / "python3._pth").write_text("../elsewhere\n")
    assert interpreters.refusal(str(python)) is None
    os.chown(folder, 1000, 1000)
    assert place in (interpreters.refusal(str(python)) or "")


def test_in_a_file_system_that_another_user_mounted_nothing_is_roots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever mounts it says whose its files are."""
    root = Path(tempfile.mkdtemp(dir="/root"))
    try:
        (root / "in here").mkdir()
        device = os.stat(root).st_dev
        line = "36 35 {}:{} / {} rw,nosuid,nodev - fuse.sshfs x rw,user_id={},group_id=0,allow_other\n"
        table = tmp_path / "mountinfo"
        table.write_text(line.format(0, 1, root / "in\\040here", 1000) + line.format(os.major(device), os.minor(device), "/mnt", 0))
        assert owners.mounted_by_others(str(table), "/nonexistent") == {str(root / "in here"): os.makedev(0, 1)}
        assert trust.tree(str(root)) is None
        with monkeypatch.context() as within:
            within.setattr(owners, "mounted_by_others", lambda: {str(root / "in here"): 1})
            assert "which another user mounted" in (trust.tree(str(root)) or "")
            within.setattr(owners, "mounted_by_others", lambda: {"/mnt": device})
            assert trust.changeable(str(root / "x")) is not None
    finally:
        shutil.rmtree(root)


@pytest.mark.parametrize("error", [13, 5, 40])
def test_what_may_not_be_looked_at_is_not_trusted(error: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(owners, "way", refuse)
    assert trust.refusal("/usr/bin/cat") == "may be written by another user"


@pytest.mark.parametrize("name", ["CUDA_HOME", "HOME", "PYTHONUSERBASE", "LD_LIBRARY_PATH"])
def test_children_of_root_get_no_folder_that_others_may_write(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o777)
    monkeypatch.setenv(name, str(tmp_path))
    assert name not in inherited.environment()
    assert inherited.WITHHELD not in inherited.environment()  # nothing is there
    (tmp_path / "libcuda.so.1").touch()
    inherited._environment.cache_clear()
    assert inherited.environment()[inherited.WITHHELD] == name
    tmp_path.chmod(0o755)
    forget()
    assert inherited.environment()[name] == str(tmp_path)


@pytest.mark.parametrize(
    ("name", "value", "file"),
    [
        ("PYTHONUSERBASE", "{}", "lib/python3.11/site-packages/usercustomize.py"),
        ("PYTHONHOME", "{}", "lib/python3.11/site.py"),
        ("CONDA_PREFIX", "{}", "lib/libcudart.so.13"),
        ("LD_LIBRARY_PATH", "{}", "glibc-hwcaps/x86-64-v2/libcuda.so.1"),
        ("PYTHONUSERBASE", "{}/Ada Lovelace", "Ada Lovelace/lib/python3.11/site-packages/usercustomize.py"),
        ("XLA_FLAGS", "--xla_gpu_cuda_data_dir={}", "bin/ptxas"),
        ("CUPY_INCLUDE", "-I{}", "include/cuda.h"),
        ("CUDA_HOME", "{}", "nvvm/lib64/libnvvm.so.4"),
        ("CUDA_PATH", "{}", "targets/x86_64-linux/lib/libcudart.so.13"),
    ],
)
def test_places_of_variables_are_roots_to_the_last_file(
    name: str, value: str, file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = tmp_path / file
    found.parent.mkdir(parents=True)
    found.touch()
    monkeypatch.setenv(name, value.format(tmp_path))
    forget()
    assert inherited.environment()[name] == value.format(tmp_path)
    os.chown(found, 1000, 1000)
    forget()
    assert name not in inherited.environment()
    assert any(name in said for said in inherited.left_out())


def test_the_folders_of_an_absolute_path_begin_no_other_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """/usr/local/nvidia/lib64, which every image of NVIDIA's names, has nobody look through all of /lib64; an option's letters do end."""
    looked: list[str] = []
    monkeypatch.setattr(trust, "tree", looked.append)
    monkeypatch.setenv("LD_LIBRARY_PATH", "/usr/local/nvidia/lib64:/usr/local/nvidia/lib")
    monkeypatch.setenv("CUPY_INCLUDE", f"-I{tmp_path}")
    forget()
    inherited.some_of_it(("LD_LIBRARY_PATH", "CUPY_INCLUDE"))
    assert not {"/lib", "/lib64", "/usr/lib", "/usr/lib64", "/nvidia/lib64"} & {*looked}
    assert {"/usr/local/nvidia/lib64", str(tmp_path)} <= {*looked}


def test_of_a_toolkit_counts_what_programs_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "nsight-compute").mkdir()
    (tmp_path / "nsight-compute" / "ncu").touch()
    os.chown(tmp_path / "nsight-compute" / "ncu", 1000, 1000)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    forget()
    assert inherited.environment()["CUDA_HOME"] == str(tmp_path)


@pytest.mark.parametrize("value", ["~ada/rpm", "/etc", "-I/etc", "@/etc/options", "|/usr/bin/less"])
def test_children_of_root_get_no_path_that_no_check_needs(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RPM_CONFIGDIR", value)
    assert "RPM_CONFIGDIR" not in inherited.environment()


def test_a_tree_goes_on_where_its_links_lead(tmp_path: Path) -> None:
    packages, source = tmp_path / "site-packages", tmp_path / "src" / "torch"
    packages.mkdir()
    source.mkdir(parents=True)
    (source / "back").symlink_to(packages)  # round and round
    (source / "__init__.py").touch()
    (packages / "torch").symlink_to(source)
    (packages / "nothing").symlink_to(os.devnull)
    assert trust.tree(str(packages)) is None
    os.chown(source / "__init__.py", 1000, 1000)
    assert trust.tree(str(packages)) == f"holds {source}/__init__.py, which may be written by another user"


def test_a_link_of_another_user_counts_even_where_it_leads_back(tmp_path: Path) -> None:
    packages, strange = tmp_path / "site-packages", tmp_path / "strange"
    packages.mkdir()
    strange.mkdir()
    (packages / "good.py").touch()
    (packages / "used.py").symlink_to(strange / "link")
    (strange / "link").symlink_to(packages / "good.py")
    assert trust.tree(str(packages)) is None
    os.chown(strange / "link", 1000, 1000, follow_symlinks=False)
    os.chown(strange, 1000, 1000)
    assert trust.tree(str(packages)) is not None


def test_children_of_root_search_no_folder_with_a_program_of_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "uname").touch()
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin")
    forget()
    assert inherited.environment()["PATH"] == f"{tmp_path}:/usr/bin"
    os.chown(tmp_path / "uname", 1000, 1000)
    forget()
    assert inherited.environment()["PATH"] == "/usr/bin"


@pytest.mark.parametrize(
    "line",
    ["import os, _edm", "import os; __import__('_edm')", "import _edp", "import _edn", "{strange}\n{root}/packages"],
)
def test_what_a_pth_file_leads_to_is_looked_through(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packages, strange = tmp_path / "env/lib/python3.11/site-packages", tmp_path / "strange"
    for folder in (packages / "_edp", tmp_path / "env/bin", strange, tmp_path / "packages"):
        folder.mkdir(parents=True)
    (tmp_path / "env/bin/python").symlink_to(interpreter(tmp_path))
    code = f"import sys; sys.path.insert(0, '{strange}')\n"
    for name, text in (("_edm.py", code), ("_edp/__init__.py", code), ("_edn.py", "import _edm\n")):
        (packages / name).write_text(text)
    (packages / "a.pth").write_text(line.format(strange=tmp_path / "link", root=tmp_path) + "\n")
    (tmp_path / "link").symlink_to(tmp_path / "packages")
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    monkeypatch.setenv("CONDA_PREFIX", str(tmp_path / "env"))
    assert examined_python(None)[0] == str(tmp_path / "env/bin/python")
    os.chown(strange, 1000, 1000)
    os.chown(tmp_path / "link", 1000, 1000, follow_symlinks=False)
    assert examined_python(None)[0] is None


def test_the_base_of_an_environment_is_looked_through_where_it_really_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("env/bin", "base/bin", "real/bin", "real/lib/python3.11"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "env/bin/python").symlink_to(interpreter(tmp_path / "other"))
    (tmp_path / "env/pyvenv.cfg").write_text(f"home = {tmp_path}/base/bin\n")
    (tmp_path / "real/bin/python3.11").touch()
    (tmp_path / "base/bin/python3.11").symlink_to(tmp_path / "real/bin/python3.11")
    (tmp_path / "real/lib/python3.11/sitecustomize.py").touch()
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "env"))
    assert examined_python(None)[0] == str(tmp_path / "env/bin/python")
    os.chown(tmp_path / "real/lib/python3.11/sitecustomize.py", 1000, 1000)
    assert examined_python(None)[0] is None


@pytest.mark.parametrize("whole", [True, False])
def test_trees_are_listed_together_and_one_within_another_with_it(whole: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where not all can be seen, each is listed by itself."""
    outer, apart = tmp_path / "outer", tmp_path / "apart"
    strange, sound = outer / "inner/strange", outer / "inner-beside"
    for folder in (strange.parent, sound, apart):
        folder.mkdir(parents=True)
    strange.touch()
    os.chown(strange, 1000, 1000)
    started: list[list[str]] = []
    monkeypatch.setattr(trust, "_ahead", {})
    popen = subprocess.Popen

    def counted(argv: list[str], **settings: object) -> subprocess.Popen[bytes]:
        started.append(argv[1 : argv.index("(")])
        return popen(["/bin/false"] if str(outer) in argv and not whole else argv, **settings)  # type: ignore[call-overload]

    monkeypatch.setattr(subprocess, "Popen", counted)
    trust.begin(map(str, (strange.parent, sound)))
    trust.begin(map(str, (outer, apart)))
    assert trust.tree(str(strange.parent)) == f"holds {strange}, which may be written by another user"
    assert trust.tree(str(sound)) is None
    assert trust.tree(str(apart)) is None
    assert (trust.tree(str(outer)) or "") == (
        f"holds {strange}, which may be written by another user"
        if whole
        else "cannot be looked through (not every folder of it can be read)"
    )
    together = [[str(strange.parent), str(sound)], [str(apart), str(outer)]]
    assert started == together + ([] if whole else [[str(apart)], [str(outer)]])
    assert trust._ahead == {}, "a listing serves once"


def test_a_tree_within_another_is_not_listed_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "outer/inner").mkdir(parents=True)
    monkeypatch.setattr(trust, "_ahead", {})
    trust.begin([str(tmp_path / "outer")])
    trust.begin([str(tmp_path / "outer/inner")])
    assert len({id(listing) for listing in trust._ahead.values()}) == 1
    trust.begin([str(tmp_path), str(tmp_path / "outer")])
    assert trust._ahead[str(tmp_path)].roots == [str(tmp_path)]
    trust._end_all()


def test_a_tree_that_cannot_be_looked_through_in_time_is_not_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listings, "_PATIENCE", 0.0)
    monkeypatch.setattr(listings, "_LEAST", 0.0)
    slow = tmp_path / "find"
    slow.write_text("#!/bin/sh\nexec sleep 20\n")
    slow.chmod(0o755)
    monkeypatch.setattr(trust, "_find", lambda: str(slow))
    assert trust.tree(str(tmp_path)) == "cannot be looked through (it takes longer than 0 s)"


@pytest.mark.parametrize("changed", ["lib/libffi.so.8", "elsewhere/torch/__init__.py"])
def test_root_runs_no_python_that_loads_what_another_user_may_write(changed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A library beside conda's Python; and what the module names by which setuptools installs a project that is being worked on."""
    packages = tmp_path / "lib/python3.11/site-packages"
    for folder in (packages, tmp_path / "bin", tmp_path / "elsewhere" / "torch"):
        folder.mkdir(parents=True)
    (tmp_path / "bin" / "python").symlink_to(interpreter(tmp_path))
    (tmp_path / "lib" / "libffi.so.8").touch()
    (tmp_path / "elsewhere" / "torch" / "__init__.py").touch()
    (packages / "__editable__.torch-2.5.1.pth").write_text("import __editable___torch_finder; __editable___torch_finder.install()\n")
    (packages / "__editable___torch_finder.py").write_text(f"MAPPING = {{'torch': '{tmp_path}/elsewhere/torch'}}\n")
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    monkeypatch.setenv("CONDA_PREFIX", str(tmp_path))
    assert examined_python(None)[0] == str(tmp_path / "bin" / "python")
    os.chown(tmp_path / changed, 1000, 1000)
    assert examined_python(None)[0] is None


MODULES = {
    "a module of a package": ("import foo.bar", {"foo/__init__.py": "", "foo/bar.py": "LEADS"}),
    "what a package takes from its own": ("import foo", {"foo/__init__.py": "from .bar import *", "foo/bar.py": "LEADS"}),
    "what a package takes by its name": ("import foo", {"foo/__init__.py": "from foo.bar import *", "foo/bar.py": "LEADS"}),
    "an import of several lines": ("import foo", {"foo/__init__.py": "from foo import (\n    bar,\n)", "foo/bar.py": "LEADS"}),
    "an import that goes on": ("import foo", {"foo/__init__.py": "from . import \\\n    bar", "foo/bar.py": "LEADS"}),
    "behind a sign for a comment": ("import foo", {"foo.py": "x = '#'; import bar", "bar.py": "LEADS"}),
    "the second module of a line": ("import foo", {"foo.py": "import sys, bar", "bar.py": "LEADS"}),
    "a folder with an apostrophe": ("import foo", {"foo.py": "LEADS".replace("LEADS", 'MAPPING = {"p": "{strange}/o\'brien"}')}),
    "a list of folders": ("import foo", {"foo.py": "for one in '/usr/lib:{strange}'.split(':'): pass"}),
    "what Python imports unasked": ("", {"sitecustomize.py": "LEADS"}),
}


@pytest.mark.parametrize("name", MODULES)
def test_root_runs_no_python_whose_modules_lead_to_another_user(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    line, files = MODULES[name]
    strange, packages = tmp_path / "strange", tmp_path / "own/lib/python3.11/site-packages"
    for folder in (packages, tmp_path / "own/bin", strange / "o'brien"):
        folder.mkdir(parents=True)
    (tmp_path / "own/bin/python").symlink_to(interpreter(tmp_path))
    (packages / "x.pth").write_text(f"{line}\n")
    for file, text in files.items():
        (packages / file).parent.mkdir(exist_ok=True)
        (packages / file).write_text(text.replace("LEADS", "sys.path.insert(0, '{strange}')").replace("{strange}", str(strange)) + "\n")
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    monkeypatch.setenv("CONDA_PREFIX", str(tmp_path / "own"))
    assert examined_python(None)[0] == str(tmp_path / "own/bin/python")
    os.chown(strange / "o'brien" if "apostrophe" in name else strange, 1000, 1000)
    assert examined_python(None)[0] is None


def test_a_folder_that_is_only_unmounted_is_not_kept_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another user may stand in it and make a file there; only one without a name is nobody's any more."""
    monkeypatch.setattr(inherited, "_deleted", [])
    monkeypatch.chdir(tmp_path)
    inherited.keep_deleted()
    assert inherited._deleted == []


def test_any_variable_of_roots_that_names_such_a_place_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.chown(tmp_path, 1000, 1000)
    monkeypatch.setenv("BASH_ENV", str(tmp_path / "x.sh"))
    monkeypatch.setenv("XLA_FLAGS", f"--a=1 --xla_gpu_cuda_data_dir={tmp_path}")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin")
    given = inherited.environment()
    assert "BASH_ENV" not in given
    assert "XLA_FLAGS" not in given
    assert given["PATH"] == "/usr/bin"


def test_nothing_is_handed_on_where_everybody_may_make_files() -> None:
    assert trust.changeable("/tmp") is not None
    assert trust.changeable("/tmp/not/there/yet") is not None


@pytest.mark.parametrize(
    "how", ["sticky and the group's", "up through a link", "a file of another user's", "the loader's word", "two homes"]
)
def test_no_list_leads_root_to_another_users_place(how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, other, name = tmp_path / "lib", tmp_path / "other", "LD_LIBRARY_PATH"
    folder.mkdir()
    (other / "app").mkdir(parents=True)
    (other / "lib").mkdir()
    os.chown(other, 1000, 1000)
    value = str(folder)
    if how.startswith("sticky"):
        os.chown(folder, 0, 1000)
        folder.chmod(0o3775)
        monkeypatch.setattr(owners, "_is_nobodys", lambda group: False)
    elif how.startswith("up"):
        (tmp_path / "current").symlink_to(other / "app")
        value = f"{tmp_path}/current/../lib"
    elif how.startswith("a file"):
        (folder / "libcuda.so.1").touch()
        os.chown(folder / "libcuda.so.1", 1000, 1000)
    elif how.startswith("the loader"):
        value = f"{folder}/$LIB"
    else:
        name, value = "PYTHONHOME", f"{folder}:{other}"
    monkeypatch.setenv(name, value)
    assert name not in inherited.environment()


def executed_by_root(folder: Path) -> str | None:
    """Why root imports nothing from this folder."""
    return trust.tree(str(folder))


@pytest.mark.parametrize("how", ["deep", "open to all", "a link out", "a folder open to all"])
def test_root_imports_nothing_that_another_user_may_change(how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, strange = tmp_path / "packages", tmp_path / "strange"
    (folder / "a" / "b").mkdir(parents=True)
    (folder / "link").symlink_to("a")  # its own, and harmless
    strange.mkdir()
    file = folder / "a" / "b" / "__init__.py"
    file.touch()
    assert executed_by_root(folder) is None
    if how == "deep":
        os.chown(file, 1000, 1000)
    elif how == "open to all":
        file.chmod(0o666)
    elif how == "a link out":
        (strange / "sitecustomize.py").touch()
        os.chown(strange, 1000, 1000)
        (folder / "sitecustomize.py").symlink_to(strange / "sitecustomize.py")
    else:
        (folder / "a").chmod(0o777)
    assert "may be written by another user" in (executed_by_root(folder) or "")
    monkeypatch.setenv("PYTHONPATH", str(folder))
    assert "PYTHONPATH" not in inherited.environment()


@pytest.mark.parametrize(("how", "mode"), [("a file open to all", 0o777), ("a link", 0o644)])
def test_root_loads_no_library_that_another_user_may_change(how: str, mode: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, strange = tmp_path / "lib", tmp_path / "strange"
    folder.mkdir()
    strange.mkdir()
    (strange / "evil.so").touch()
    os.chown(strange, 1000, 1000)
    if how == "a link":
        (folder / "libcuda.so.1").symlink_to(strange / "evil.so")
    else:
        (folder / "libcuda.so.1").touch()
        (folder / "libcuda.so.1").chmod(mode)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(folder))
    assert "LD_LIBRARY_PATH" not in inherited.environment()


def test_a_library_that_takes_the_place_of_the_drivers_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root's children do without what others may write; with it the user's program may do otherwise than they."""
    agent = tmp_path / "agent.so"
    agent.touch()
    monkeypatch.setenv("CUDA_INJECTION64_PATH", str(agent))
    assert inherited.environment()["CUDA_INJECTION64_PATH"] == str(agent)
    assert inherited.REPLACED not in inherited.environment()
    os.chown(agent, 1000, 1000)
    forget()
    assert inherited.environment()[inherited.REPLACED] == "CUDA_INJECTION64_PATH"
    (tmp_path / "libjpeg.so.8").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CUDA_INJECTION64_PATH", "./agent.so")  # of the working directory, which is not that of children
    assert inherited.environment()[inherited.REPLACED] == "CUDA_INJECTION64_PATH"
    monkeypatch.setenv("LD_LIBRARY_PATH", ":/usr/lib")
    assert inherited.environment()[inherited.REPLACED] == "CUDA_INJECTION64_PATH"
    (tmp_path / "libcuda.so.1").touch()
    inherited._environment.cache_clear()
    assert inherited.environment()[inherited.REPLACED] == "CUDA_INJECTION64_PATH LD_LIBRARY_PATH"


@pytest.mark.parametrize(("entries", "named"), [(":/usr/lib", True), ("/usr/lib:", True), ("games:/usr/lib", False), ("/usr/lib", False)])
def test_libraries_that_lie_where_the_user_stands_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entries: str, named: bool
) -> None:
    for name in ("libstdc++.so.6", "libjpeg.so.8", "libcudart.so.13", "notes.txt"):
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LD_LIBRARY_PATH", entries)
    given = inherited.environment()
    expected = ("libcudart.so.13 libstdc++.so.6", "LD_LIBRARY_PATH") if named else (None, None)
    assert (given.get(inherited.BESIDE), given.get(inherited.REPLACED)) == expected
    assert given.get("LD_LIBRARY_PATH") == "/usr/lib"


def test_roots_own_folder_of_pipes_may_be_open_to_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As nvidia-cuda-mps-control makes it."""
    pipes = tmp_path / "pipes"
    pipes.mkdir()
    pipes.chmod(0o777)
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", str(pipes))
    assert inherited.environment()["CUDA_MPS_PIPE_DIRECTORY"] == str(pipes)
    inherited._environment.cache_clear()
    os.chown(pipes, 1000, 1000)
    assert "CUDA_MPS_PIPE_DIRECTORY" not in inherited.environment()
    inherited._environment.cache_clear()
    os.chown(pipes, 0, 0)
    tmp_path.chmod(0o777)
    assert "CUDA_MPS_PIPE_DIRECTORY" not in inherited.environment()


def test_a_tilde_in_a_toolkits_place_is_a_name_for_some_and_a_home_for_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CUDA_HOME", "~/cuda")
    assert inherited.environment()["CUDA_HOME"] == "~/cuda"  # what a shell that quoted it hands on
    inherited._environment.cache_clear()
    tmp_path.chmod(0o777)
    assert "CUDA_HOME" not in inherited.environment()


def test_what_an_image_asks_of_the_driver_is_no_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NVIDIA_REQUIRE_CUDA", "cuda>=13.0 brand=tmp,driver>=535")
    assert inherited.left_out() == ()


@pytest.mark.parametrize(
    ("name", "value"),
    [("BASH_ENV", "tmp/x.sh"), ("BASH_ENV", "$(id)"), ("BASH_FUNC_echo%%", "() { id; }"), ("PYTHONPLATLIBDIR", "../tmp/x"),
     ("NVTX_INJECTION64_PATH", "libx.so"), ("OPENSSL_CONF", "x.cnf"), ("PERL5OPT", "-Mx")],
)  # fmt: skip
def test_what_is_executed_whatever_it_looks_like_reaches_no_child_of_root(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    assert name not in inherited.environment()


def test_a_relative_place_is_one_below_the_root_of_the_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "strange").mkdir()
    os.chown(tmp_path / "strange", 1000, 1000)
    monkeypatch.setenv("XLA_FLAGS", f"--xla_gpu_cuda_data_dir={str(tmp_path)[1:]}/strange")
    assert "XLA_FLAGS" not in inherited.environment()


@pytest.mark.parametrize("name", ["rec", "rec.tar.gz"])
@pytest.mark.parametrize("force", [False, True])
def test_a_recording_goes_where_it_was_begun(name: str, force: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever owns the folder around it puts a link in its place while it is written."""
    theirs, target = tmp_path / "theirs", tmp_path / "target"
    (theirs / "in").mkdir(parents=True)
    target.mkdir()
    place = theirs / "in" / name
    new = writing.new

    def swapped(path: str) -> Any:
        swap = place if name == "rec" else place.parent
        if not swap.is_symlink():
            swap.rename(theirs / "aside")
            swap.symlink_to(target)
            os.chown(swap, 1000, 1000, follow_symlinks=False)
        return new(path)

    monkeypatch.setattr(writing, "new", swapped)
    with contextlib.suppress(OSError, recording.RecordingError):
        recording.write(Evidence(items=(), platform="linux"), str(place), force=force)
    assert list(target.iterdir()) == []


def test_a_new_folder_is_written_only_where_it_is_still_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever owns the folder around it puts a folder of his own in its place, and could lead on from there; nothing of his is removed."""
    theirs, make = tmp_path / "theirs", os.mkdir
    theirs.mkdir()

    def swapped(name: str, *mode: int, **more: int) -> None:
        make(name, *mode, **more)
        if name == "rec":
            (theirs / "rec").rename(theirs / "aside")
            make(theirs / "rec", 0o777)
            (theirs / "rec" / "precious").touch()
            os.chown(theirs / "rec", 1000, 1000)

    monkeypatch.setattr(os, "mkdir", swapped)
    with pytest.raises(recording.RecordingError, match=r"belongs to another user.*name a \.tar\.gz"):
        recording.write(Evidence(items=(), platform="linux"), str(theirs / "rec"))
    assert [path.name for path in (theirs / "rec").iterdir()] == ["precious"]


def test_no_folder_is_made_through_a_link_of_another_user(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "target")
    os.chown(tmp_path / "link", 1000, 1000, follow_symlinks=False)
    with pytest.raises(OSError, match="a link that another user made"):
        manual.write_files(str(tmp_path / "link" / "pages"), load())
    assert list((tmp_path / "target").iterdir()) == []


def test_a_file_that_another_user_laid_out_is_not_written(tmp_path: Path) -> None:
    """Where everybody may make files, whoever made one may change what is written there; nor is what a file is besides, by another name."""
    shared, own = tmp_path / "shared", tmp_path / "own"
    shared.mkdir()
    own.mkdir()
    for place in (shared / "theirs", own / "theirs", shared / "ours"):
        place.write_text("before")
    os.chmod(shared, 0o1777)
    os.chown(own, 1000, 1000)
    os.chown(shared / "theirs", 1000, 1000)
    os.chown(own / "theirs", 1000, 1000)
    for mode in "wa":
        with pytest.raises(OSError, match="file of another user"):
            writing.text(str(shared / "theirs"), "x", mode=mode)
    os.link(shared / "ours", shared / "also")
    with pytest.raises(OSError, match="another name"):
        writing.text(str(shared / "also"), "x")
    os.unlink(shared / "also")
    for place in (own / "theirs", shared / "ours", shared / "new"):
        writing.text(str(place), "after")
        assert place.read_text() == "after"


def test_no_link_of_another_user_leads_what_is_written(tmp_path: Path) -> None:
    (tmp_path / "strange").mkdir()
    target, link = tmp_path / "target", tmp_path / "strange" / "out.json"
    target.write_text("kept")
    link.symlink_to(target)
    os.chown(link, 1000, 1000, follow_symlinks=False)
    with pytest.raises(OSError, match="a link that another user made"):
        writing.text(str(link), "{}")
    assert target.read_text() == "kept"
    own = tmp_path / "own.json"
    own.symlink_to(target)
    writing.text(str(own), "{}")
    assert target.read_text() == "{}"


def test_a_link_that_comes_between_the_look_and_the_opening_is_not_followed(tmp_path: Path) -> None:
    """Somebody swaps his file and a link of his all the time: root writes his file or nothing."""
    target, path, link = tmp_path / "target", tmp_path / "strange" / "out.json", tmp_path / "strange" / "link"
    path.parent.mkdir()
    target.write_text("kept")
    path.touch()
    link.symlink_to(target)
    os.chown(link, 1000, 1000, follow_symlinks=False)
    over = threading.Event()

    def swap() -> None:
        while not over.is_set():
            path.rename(path.parent / "aside")
            link.rename(path)
            path.rename(link)
            (path.parent / "aside").rename(path)

    swapping = threading.Thread(target=swap)
    swapping.start()
    try:
        for _ in range(300):
            with contextlib.suppress(OSError):
                writing.text(str(path), "{}")
    finally:
        over.set()
        swapping.join()
    assert target.read_text() == "kept"


def test_a_folder_below_dev_is_a_folder_like_others(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        (tmp_path / "target").write_text("kept")
        link = Path(folder) / "out.json"
        link.symlink_to(tmp_path / "target")
        os.chown(link, 1000, 1000, follow_symlinks=False)
        with pytest.raises(OSError, match="a link that another user made"):
            writing.text(str(link), "{}")
    writing.text("/dev/null", "{}")


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        ("error", True),
        ("default,error::DeprecationWarning", True),
        ("error::", True),
        ("ignore::mine.Warning", False),
        ("error::a.b:x", False),
    ],
)
def test_warnings_made_errors_reach_a_child_of_root_unless_they_name_a_module(
    value: str, kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trust, "as_root", lambda: True)
    monkeypatch.setenv("PYTHONWARNINGS", value)
    assert (inherited.environment().get("PYTHONWARNINGS") == value) is kept
    assert any("PYTHONWARNINGS leads programs to code" in sentence for sentence in inherited.left_out()) is not kept


def test_what_leads_programs_to_code_and_was_left_out_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """The user's own program still gets it: a check that is healthy without it must not be silent about it."""
    monkeypatch.setenv("NVTX_INJECTION64_PATH", "libx.so")
    monkeypatch.setenv("BASH_ENV", "/etc/x")  # no program for CUDA meets it
    said = " ".join(inherited.left_out())
    assert "NVTX_INJECTION64_PATH leads programs to code" in said
    assert "BASH_ENV" not in said


def test_a_tree_of_which_a_part_cannot_be_seen_is_not_said_to_hold_anything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(find: str, root: str) -> Iterator[str]:
        raise PermissionError(13, "Permission denied")
        yield

    monkeypatch.setattr(trust, "_listed", refuses)
    assert trust.tree(str(tmp_path)) == "cannot be looked through (Permission denied)"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PYTHONUSERBASE", "tmp"),
        ("HOME", "tmp"),
        ("TRITON_CACHE_DIR", "tmp"),
        ("RPM_CONFIGDIR", "tmp"),
        ("MODPROBE_OPTIONS", "-C tmp"),
        ("RPM_OPTS", "-t''mp"),
        ("SOME_FLAG", "-Ctmp"),
    ],
)
def test_a_bare_word_is_a_place_below_the_root(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Children stand in /, where `tmp` is /tmp."""
    monkeypatch.setenv(name, value)
    assert name not in inherited.environment()


def test_a_word_that_names_a_folder_of_roots_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "root")
    monkeypatch.setenv("NCCL_DEBUG", "INFO")
    assert {"LOGNAME": "root", "NCCL_DEBUG": "INFO"}.items() <= inherited.environment().items()


def test_what_a_variable_names_is_read_as_a_path_as_a_list_and_as_words(tmp_path: Path) -> None:
    own, strange = (Path(tempfile.mkdtemp(dir="/root")), tmp_path / "my pip.conf")
    for path in (strange, strange.with_name("x")):
        path.write_text("")
        os.chown(path, 65534, 65534)
    (tmp_path / "others").mkdir()
    os.chown(tmp_path / "others", 65534, 65534)
    try:
        (own / "pip.conf").write_text("")
        good = (f"{own}/pip.conf", f"https://index.example/simple {own}", "https://index.example/simple", "cert", "")
        bad = (
            str(strange),
            f"{own}/pip.conf:{strange}",
            f"{own} {strange.with_name('x')}",
            f"{tmp_path}/others/absent",
            "wheels/x",
            f"file://{strange}",
            "tmp",
            f"{own},{strange.with_name('x')}",
            f"https://index.example/x,{strange.with_name('x')}",
            "file:%2ftmp%2fx",
            "$HOME/x",
        )
        assert [inherited.leads_to_own(value) for value in (*good, *bad)] == [True] * len(good) + [False] * len(bad)
        assert not inherited.leads_to_own(f"https://zz:{strange.with_name('x')}", addresses=False)
    finally:
        shutil.rmtree(own)


def test_settings_of_others_below_a_home_of_roots_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    home = Path(tempfile.mkdtemp(dir="/root"))
    try:
        (home / ".kube").mkdir()
        monkeypatch.setenv("HOME", str(home))
        monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
        assert inherited.settings_off(".kube", ".config/pip") == {}
        os.chown(home / ".kube", 65534, 65534)
        assert inherited.settings_off(".config/pip") == {}
        assert inherited.settings_off(".kube")["HOME"] == "/nonexistent"
        (home / ".dpkg.cfg").write_text("pre-invoke=id")
        os.chown(home / ".dpkg.cfg", 65534, 65534)
        assert inherited.settings_off(".config/pip")["HOME"] == "/nonexistent"
        (home / ".dpkg.cfg").unlink()
        (home / "elsewhere" / "pip").mkdir(parents=True)
        os.chown(home / "elsewhere" / "pip", 65534, 65534)
        monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "elsewhere"))
        assert inherited.settings_off(".config/uv") == {}
        assert set(inherited.settings_off(".config/pip")) == {"HOME", "XDG_CONFIG_HOME"}
    finally:
        shutil.rmtree(home)


def test_what_another_process_finds_elsewhere_is_not_handed_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Children stand in /: there /proc/self/cwd/tmp is /tmp, here it may be nothing."""
    monkeypatch.chdir(tempfile.mkdtemp(dir=tmp_path))
    for place in ("/proc/self/cwd/tmp/x", f"/proc/{os.getpid()}/cwd/tmp/x", "/dev/fd/0/x", "/tmp/../proc/thread-self/root/tmp/x"):
        for name in ("HOME", "PATH", "CUDA_HOME", "LD_LIBRARY_PATH"):
            monkeypatch.setenv(name, place)
            assert place not in inherited.environment().get(name, ""), (name, place)
        assert not inherited.leads_to_own(place)


def test_the_settings_of_a_virtual_environment_may_lie_beside_its_interpreter(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    environment = Path(tempfile.mkdtemp(dir="/root"))
    try:
        (environment / "bin").mkdir()
        (environment / "bin" / "python").symlink_to(os.path.realpath("/usr/bin/python3"))
        base = tmp_path / "base" / "bin"
        base.mkdir(parents=True)
        (base / "python3").write_text("")
        os.chown(base / "python3", 65534, 65534)
        monkeypatch.setenv("VIRTUAL_ENV", str(environment))
        assert interpreters.examined_python(None)[0] == str(environment / "bin" / "python")
        (environment / "bin" / "pyvenv.cfg").write_text(f"home = {base}\n")
        assert interpreters.examined_python(None)[0] is None
        (environment / "bin" / "pyvenv.cfg").write_text("")
        os.chown(environment / "bin" / "pyvenv.cfg", 65534, 65534)
        assert interpreters.examined_python(None)[0] is None
    finally:
        shutil.rmtree(environment)


def test_repairs_get_no_variable_that_names_a_program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    hostile = {
        "SYSTEMD_PAGER": "sh -c echo${IFS}x",
        "GIT_SSH_COMMAND": "touch x",
        "CONDARC": "${HOME}tmp",
        "DEBIAN_FRONTEND": "Teletype; BEGIN { print 1 }",
        "PIP_FIND_LINKS": "file:tmp%2Fx",
        "PIP_REQUIREMENT": "file:%2Ftmp%2Fx",
    }
    for name, value in {**hostile, "LANG": "C", "CUDA_VISIBLE_DEVICES": "0"}.items():
        monkeypatch.setenv(name, value)
    assert applying.run(f"env > {tmp_path / 'out'}") == 0
    got = dict(line.partition("=")[::2] for line in (tmp_path / "out").read_text().splitlines())
    assert not hostile.keys() & got.keys()
    assert {"LANG", "CUDA_VISIBLE_DEVICES", "PATH"} <= got.keys()
    monkeypatch.setenv("DEBIAN_FRONTEND", "noninteractive")
    assert applying.run(f"env > {tmp_path / 'out'}") == 0
    assert "DEBIAN_FRONTEND=noninteractive" in (tmp_path / "out").read_text()


@pytest.mark.parametrize("value", ["/$x", "/root/~", "/proc/self/cwd"])
def test_the_users_own_packages_are_those_of_the_home_that_a_child_finds(
    value: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A child that gets no HOME asks the list of users, whose home holds a .pth into another user's folder."""
    listed, strange = Path(tempfile.mkdtemp(dir="/root")), tmp_path / "strange"
    try:
        packages = listed / ".local" / "lib" / "python3.11" / "site-packages"
        packages.mkdir(parents=True)
        strange.mkdir()
        os.chown(strange, 65534, 65534)
        monkeypatch.setattr("pwd.getpwuid", lambda user: type("Entry", (), {"pw_dir": str(listed)}))
        monkeypatch.setenv("HOME", value)
        monkeypatch.setenv("PATH", "/usr/bin:/bin")
        assert interpreters.examined_python(None)[0] is not None
        (packages / "x.pth").write_text(f"{strange}\n")
        path, why = interpreters.examined_python(None)
        assert path is None
        assert str(strange) in why
    finally:
        shutil.rmtree(listed)


def test_what_may_become_anothers_is_not_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    for place in ("/proc/4194000/cwd", "/run/user/4194000/x"):
        for name in ("HOME", "PYTHONPATH", "LD_LIBRARY_PATH", "PATH", "CUDA_HOME"):
            monkeypatch.setenv(name, place)
            assert inherited.environment().get(name, "") == "", (name, place)


def test_a_tree_is_listed_once_in_a_question_and_again_in_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[list[str]] = []
    popen = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda argv, **settings: started.append(argv) or popen(argv, **settings))
    with trust.one_question():
        assert [trust.tree(str(tmp_path)), trust.tree(str(tmp_path))] == [None, None]
    assert len(started) == 1
    (tmp_path / "strange").touch()
    os.chown(tmp_path / "strange", 1000, 1000)
    assert trust.tree(str(tmp_path)) is not None


# ---------------------------------------------------------------- the doctor's own interpreter
def test_the_doctors_own_interpreter_starts_at_once_and_is_taken_back_where_its_packages_are_anothers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is trusted as it runs; what lies in its packages is not imported before it was looked through."""
    began: list[str] = []
    start = host.Collector.start

    def noted(collector: host.Collector, probe: Probe) -> object:
        began.append(probe.id if collector.chosen is None else "")
        return start(collector, probe)

    monkeypatch.setattr(host.Collector, "start", noted)
    monkeypatch.setattr(host, "own_on_path", lambda: (sys.executable, "the first on PATH"))
    monkeypatch.setattr(host, "examined_python", lambda given: (None, "reads /x, which may be written by another user"))
    items = {item.id: item for item in host.collect(host.Plan(timeout=60)).items}
    assert {"ladder", "python-env"} <= set(began)
    for name in ("ladder", "python-env"):
        assert items[name].status == "not-run"
        assert "another user" in (items[name].why or "")
        assert not items[name].stdout


def test_with_quick_nobody_looks_through_packages_that_nobody_imports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "own_on_path", lambda: (sys.executable, "the first on PATH"))
    monkeypatch.setattr(host, "examined_python", lambda given: pytest.fail("it was looked through"))
    evidence = host.collect(host.Plan(quick=True))
    assert (evidence.python, evidence.python_why) == (sys.executable, "the first on PATH")
    assert next(item for item in evidence.items if item.id == "python-env").status == "ok"


def test_another_interpreter_waits_until_it_was_looked_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python3").symlink_to(sys.executable)
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    monkeypatch.delenv("CONDA_PREFIX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert interpreters.own_on_path() is None, "another environment, though of the same Python"
    monkeypatch.setenv("VIRTUAL_ENV", str(Path(sys.executable).parent.parent))
    assert interpreters.own_on_path() is not None


def test_the_supervisor_gets_no_relative_place_of_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    """It stands in /, where such an entry leads elsewhere than for the doctor."""
    given: list[dict[str, str]] = []
    start = subprocess.Popen

    def started(argv: list[str], **rest: Any) -> Any:
        if not any(word.endswith("supervisor.py") for word in argv):
            return start(argv, **rest)  # that looks whether others may write in a folder
        given.append(rest["env"])
        raise OSError

    monkeypatch.setattr(keeping.subprocess, "Popen", started)
    monkeypatch.setenv("LD_LIBRARY_PATH", f"tmp/x:..:/usr/lib:{tempfile.gettempdir()}")
    monkeypatch.setenv("LD_AUDIT", "x.so")
    keeping.Keeper()
    assert [{name: value for name, value in one.items() if name.startswith("LD_")} for one in given] == [{"LD_LIBRARY_PATH": "/usr/lib"}]


@pytest.mark.parametrize("mode", [0o755, 0o777])
def test_root_takes_no_extension_from_where_others_may_write(mode: int, roots_folder: Path) -> None:
    marks = roots_folder / "evil-1.0.dist-info"
    marks.mkdir()
    (marks / "METADATA").write_text("Name: evil\nVersion: 1.0\n")
    (marks / "entry_points.txt").write_text("[cudadoctor.checks]\nevil = evil_module:EXTENSION\n")
    (roots_folder / "evil_module.py").write_text(f"open({str(roots_folder / 'ran')!r}, 'w')\n")
    (roots_folder / "evil_module.py").chmod(mode)
    variables = {**os.environ, "PYTHONPATH": f"{roots_folder}:{ROOT}"}
    subprocess.run([sys.executable, "-m", "cudadoctor", "causes"], env=variables, capture_output=True, check=True, cwd=ROOT)
    assert (roots_folder / "ran").exists() is (mode == 0o755)


@pytest.mark.parametrize(
    ("row", "lent"), [("ada:100000:65536", True), ("ada:200000:65536", False), ("root:100000:65536", False), ("", False)]
)
def test_a_number_that_a_user_may_take_on_is_that_users(row: str, lent: bool, tmp_path: Path) -> None:
    (tmp_path / "subgid").write_text(f"{row}\n")
    assert owners._is_lent(100_500, str(tmp_path / "subgid")) is lent
