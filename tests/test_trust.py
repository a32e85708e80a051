"""Nothing is executed that comes from the working directory, nor, as root, what somebody else could have changed."""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
import sys
from itertools import chain
from pathlib import Path

import pytest

from cudadoctor.sources import applying, inherited, linked, owners, programs, writing
from cudadoctor.sources.host import Collector, Plan, collect
from tests.command_line import ROOT
from tests.command_line import run as command

PROGRAM = str(Path(sys.executable).with_name("cudadoctor"))
AS_ROOT = hasattr(os, "geteuid") and os.geteuid() == 0
TOOLS = (
    "nvidia-smi",
    "nvcc",
    "ldconfig",
    "dmesg",
    "dpkg-query",
    "dkms",
    "modinfo",
    "mokutil",
    "rpm",
    "lspci",
    "journalctl",
    "python3",
    "python",
)

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="folders and owners of POSIX")


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stranger's folder as the working directory: programs with every name that a check runs, modules that Python imports unasked."""
    for name in TOOLS:
        (tmp_path / name).write_text(f"#!/bin/sh\necho {name} >> {tmp_path}/ran\n")
        (tmp_path / name).chmod(0o755)
    for name in ("sitecustomize", "usercustomize", "click", "msgspec", "psutil", "json", "pynvml", "numba"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write('{name}.py\\n')\n")
    monkeypatch.chdir(tmp_path)
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def ran(folder: Path) -> list[str]:
    return (folder / "ran").read_text().split() if (folder / "ran").exists() else []


HERE = ("", ".", "./", "{here}", "{here}/../{name}")


@pytest.mark.parametrize("entry", HERE)
@pytest.mark.parametrize("path", ["{entry}:/usr/bin", "/usr/bin:{entry}"])
def test_no_tool_is_one_of_the_working_directory(path: str, entry: str, repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`{here}`: the folder's full name on PATH, as `PATH=$PWD:$PATH` writes it."""
    monkeypatch.setenv("PATH", path.format(entry=entry.format(here=repository, name=repository.name)))
    for tool in TOOLS:
        found = programs.found(tool)
        assert found is None or found.startswith("/usr/")
    assert [folder for folder in inherited.environment()["PATH"].split(":") if folder != "/usr/bin"] == []


@pytest.mark.parametrize("entries", [HERE, HERE[::-1]], ids=["forwards", "backwards"])
def test_a_check_runs_no_program_of_the_working_directory(entries: tuple[str, ...], repository: Path) -> None:
    given = ":".join([*entries, os.environ["PATH"], ""]).format(here=repository, name=repository.name)
    run = subprocess.run([PROGRAM, "check", "--quick"], env={**os.environ, "PATH": given}, capture_output=True, text=True, timeout=60)
    assert run.returncode in (1, 3), run.stderr
    assert ran(repository) == []


@pytest.mark.parametrize("value", [":", "/nonexistent:", "{here}", *(pytest.param(value, marks=pytest.mark.long) for value in (".", "./"))])
def test_the_doctor_imports_nothing_of_the_working_directory(value: str, repository: Path) -> None:
    """What Python imports before the doctor's first line (sitecustomize) is Python's own; .github/SECURITY.md says so."""
    for name in ("sitecustomize", "usercustomize", "json"):
        (repository / f"{name}.py").unlink()
    environment = {**os.environ, "PYTHONPATH": value.format(here=repository), "PYTHONSAFEPATH": ""}
    for program in ([PROGRAM], [sys.executable, "-m", "cudadoctor"])[value not in (":", "{here}") :]:
        run = subprocess.run(
            [*program, "check", "--quick", "--python", sys.executable], env=environment, capture_output=True, text=True, timeout=60
        )
        assert run.returncode in (1, 3), run.stderr
        # Who writes the folder's full name into PYTHONPATH wants it for the examined Python, whose own business it is.
        assert [name for name in ran(repository) if value != "{here}" or name in ("click.py", "msgspec.py")] == []


@pytest.mark.parametrize("entries", ["", ".", "/nowhere:", ":/nowhere"])
@pytest.mark.parametrize("page", [".github/SECURITY.md", "cudadoctor/guide/privacy.md"])
def test_what_the_pages_offer_starts_ours_in_a_folder_with_another(page: str, entries: str, tmp_path: Path) -> None:
    (tmp_path / "cudadoctor").mkdir()
    for name in ("__init__", "__main__"):
        (tmp_path / "cudadoctor" / f"{name}.py").write_text("print('theirs')")
    offered = set(re.findall(r"`python (-\w) -m cudadoctor", (ROOT / page).read_text("utf-8")))
    assert offered
    for option in offered:
        argv = [sys.executable, option, "-m", "cudadoctor", "--version"]
        ran = subprocess.run(argv, cwd=tmp_path, env={**os.environ, "PYTHONPATH": entries}, capture_output=True, text=True, check=False)
        assert "theirs" not in ran.stdout, option
        assert ran.returncode == 0


def changeable(how: str, root: Path, repository: Path) -> Path:
    """A folder of programs in which another user may write."""
    folder = root / "outer" / "bin"
    folder.mkdir(parents=True)
    for name in TOOLS:
        shutil.copy(repository / name, folder)
    shown = folder
    if how == "mode 777":
        folder.chmod(0o777)
    elif how == "mode 775 of a group":
        folder.chmod(0o775)
        os.chown(folder, 0, 1)  # which is the user daemon's own
    elif how == "owner":
        os.chown(folder, 1000, 1000)
    elif how == "parent":
        folder.parent.chmod(0o777)
    else:
        shown = root / "link"
        shown.symlink_to(folder)
        folder.parent.chmod(0o777)
    return shown


CHANGEABLE = ("mode 777", "mode 775 of a group", "owner", "parent", "link")


@pytest.mark.skipif(not AS_ROOT, reason="only root can be tricked")
@pytest.mark.parametrize("how", CHANGEABLE)
def test_no_tool_of_root_is_one_that_another_user_may_write(how: str, repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    folder = changeable(how, repository, repository)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin")
    for tool in TOOLS:
        found = programs.found(tool)
        assert found is None or found.startswith("/usr/")
    assert inherited.environment()["PATH"] == "/usr/bin"


@pytest.mark.skipif(not AS_ROOT, reason="only root can be tricked")
def test_root_runs_no_program_that_another_user_may_write(repository: Path) -> None:
    folders = [changeable(how, repository / str(number), repository) for number, how in enumerate(CHANGEABLE)]
    given = ":".join(map(str, [*folders, os.environ["PATH"]]))
    run = subprocess.run(
        [PROGRAM, "check", "--quick"], env={**os.environ, "PATH": given}, cwd="/", capture_output=True, text=True, timeout=60
    )
    assert ran(repository) == [], run.stderr


def program(path: Path, loader: str, folders: str, *more: tuple[int, str]) -> None:
    """A program of 64 bits that names these, and `more` by the tags of their entries: three segments, and the strings behind them."""
    named = ((29, folders), *more)
    texts, entries = f"{loader}\0".encode(), b""
    for tag, text in named:
        entries += struct.pack("<qQ", tag, len(texts))
        texts += f"{text}\0".encode()
    dynamic, strings, base = 64 + 3 * 56, 64 + 3 * 56 + (len(named) + 2) * 16, 0x400000
    size = strings + len(texts)
    head = b"\x7fELF\x02\x01\x01".ljust(16, b"\0") + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0, 0, 64, 56, 3, 0, 0, 0)
    rows = ((1, 0, base, size), (3, strings, base + strings, len(loader) + 1), (2, dynamic, base + dynamic, strings - dynamic))
    table = b"".join(struct.pack("<IIQQQQQQ", kind, 4, at, memory, memory, length, length, 1) for kind, at, memory, length in rows)
    path.write_bytes(head + table + struct.pack("<qQ", 5, base + strings) + entries + bytes(16) + texts)
    path.chmod(0o755)


@pytest.mark.skipif(not AS_ROOT, reason="only root can be tricked")
@pytest.mark.parametrize("named", ["loader", "folder", "folder beside it", "folder that anybody may make"])
def test_root_runs_no_program_that_loads_what_is_another_users(named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As who builds below a home, with -Wl,-rpath, and has it installed by root."""
    (tmp_path / "lib").mkdir()
    (tmp_path / "ld.so").write_bytes(b"")
    tool, theirs = tmp_path / "nvcc", tmp_path / ("ld.so" if named == "loader" else "lib")
    folder = {"folder beside it": "$ORIGIN/lib", "folder that anybody may make": "/tmp/nobody-made-this/lib"}.get(
        named, str(tmp_path / "lib")
    )
    program(tool, str(tmp_path / "ld.so"), f"/usr/lib:{folder}")
    assert linked.places(str(tool))[:2] == (("/usr/lib", folder.replace("$ORIGIN", str(tmp_path))), (str(tmp_path / "ld.so"),))
    monkeypatch.setenv("PATH", str(tmp_path))
    if "make" not in named:
        assert programs.found("nvcc") == str(tool)
        os.chown(theirs, 1000, 1000)
    assert programs.found("nvcc") is None
    assert "which may be written by another user; it was not run" in (programs.refused("nvcc") or "")


@pytest.mark.skipif(not AS_ROOT, reason="only root can be tricked")
@pytest.mark.parametrize(
    "how", ["needed", "auxiliary", "filter", "audit", "in a folder", "below a folder", "of a library", "the loader's word"]
)
def test_root_loads_no_library_of_another_user_that_a_program_names(how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A library without a name of its own is named by the path by which it was linked."""
    folder, tool = tmp_path / "lib", tmp_path / "nvcc"
    theirs = folder / ("glibc-hwcaps/x86-64-v3" if how == "below a folder" else "") / "libq.so"
    theirs.parent.mkdir(parents=True)
    program(theirs, "/lib/ld.so", "")
    tags = {"needed": 1, "auxiliary": 0x7FFFFFFD, "filter": 0x7FFFFFFF, "audit": 0x6FFFFEFC}
    if how in tags:
        program(tool, "/lib/ld.so", "/usr/lib", (tags[how], str(theirs)))
    elif how == "of a library":
        program(folder / "libown.so", "/lib/ld.so", "", (1, str(theirs)))
        program(tool, "/lib/ld.so", "", (1, str(folder / "libown.so")))
    else:
        program(tool, "/lib/ld.so", f"{tmp_path}/$LIB" if "word" in how else "$ORIGIN/lib", (1, "libother.so"))
    monkeypatch.setenv("PATH", str(tmp_path))
    if "word" not in how:
        assert programs.found("nvcc") == str(tool)
        os.chown(theirs, 1000, 1000)
    assert programs.found("nvcc") is None
    assert re.search("which (may be|holds .* may be) written by another|the loader alone can read", programs.refused("nvcc") or "")


def test_what_a_damaged_program_names_is_nothing(tmp_path: Path) -> None:
    program(tmp_path / "whole", "/lib/ld.so", "/opt/lib")
    whole = (tmp_path / "whole").read_bytes()
    for end in range(len(whole)):
        (tmp_path / "cut").write_bytes(whole[:end])
        assert all(map(os.path.isabs, chain(*linked.places(str(tmp_path / "cut"))[:2])))
    (tmp_path / "large").write_bytes(whole[:32] + b"\xff" * 8 + whole[40:])
    assert linked.places(str(tmp_path / "large")) == linked.Places()


def test_the_systems_own_folders_may_be_the_working_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/usr/bin")
    monkeypatch.setenv("PATH", "/usr/bin")
    assert programs.found("cat") == "/usr/bin/cat"


@pytest.mark.parametrize(
    ("name", "value", "kept"),
    [
        ("PYTHONPATH", ":/opt/x", "/opt/x"),
        ("PYTHONPATH", ".", None),
        ("PYTHONPATH", "/a:/b", "/a:/b"),
        ("LD_LIBRARY_PATH", "/a::b:/c", "/a:/c"),
        ("LD_LIBRARY_PATH", "$ORIGIN/x:/c", "/c" if AS_ROOT else "$ORIGIN/x:/c"),
        ("LD_PRELOAD", "libjemalloc.so ./evil.so", "libjemalloc.so"),
        ("LD_PRELOAD", "/a.so /b.so", "/a.so /b.so"),
    ],
)
def test_children_get_no_entry_that_means_the_working_directory(
    name: str, value: str, kept: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    assert inherited.environment().get(name) == kept
    said = [remark for remark in Collector(Plan()).evidence().remarks if name in remark]
    assert bool(said) == (kept != value)


def test_an_owner_that_is_not_mapped_is_the_hosts_root(tmp_path: Path) -> None:
    """Inside a user namespace nothing of the system belongs to the namespace's root, and it has to run all the same; but for the host's
    root, who is root there too: what has no number there is somebody else's."""
    code = "from cudadoctor.sources import owners, programs, trust; print(trust.as_root(), programs.found('cat'), owners.is_unmapped(0), owners.is_unmapped(65534))"
    run = subprocess.run(
        ["unshare", "--user", "--map-root-user", sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": "/usr/bin"},
    )
    if run.returncode and "unshare" in run.stderr:
        pytest.skip(f"no user namespaces here: {run.stderr.strip()}")
    assert run.stdout.split() == ["True", "/usr/bin/cat", "False", str(os.geteuid() != 0)], run.stderr


# ---------------------------------------------------------------- what a second attacker found
def test_a_shim_is_no_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """asdf's nvcc runs whatever .tool-versions of the working directory names."""
    shims = tmp_path / "shims"
    shims.mkdir()
    (shims / "nvcc").write_text("#!/bin/sh\n")
    (shims / "nvcc").chmod(0o755)
    (tmp_path / "tools").symlink_to(shims)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "nvcc").symlink_to(shims / "nvcc")
    for folder in (shims, tmp_path / "tools", tmp_path / "bin"):
        monkeypatch.setenv("PATH", str(folder))
        assert programs.found("nvcc") is None
        assert "is a shim" in (programs.refused("nvcc") or "")


@pytest.mark.parametrize("command", [["completion", "bash"], []])
def test_completion_asks_no_shell(command: list[str], repository: Path) -> None:
    (repository / "bash").write_text(f"#!/bin/sh\necho bash >> {repository}/ran\n")
    (repository / "bash").chmod(0o755)
    variables = {} if command else {"_CUDADOCTOR_COMPLETE": "bash_source"}
    run = subprocess.run(
        [PROGRAM, *command], env={**os.environ, **variables, "PATH": f".:{os.environ['PATH']}"}, capture_output=True, text=True
    )
    assert "_cudadoctor_completion" in run.stdout
    assert ran(repository) == []


@pytest.mark.parametrize("value", ["src", "./src:/nonexistent", "../{name}/src"])
def test_a_relative_folder_of_modules_is_not_searched(value: str, repository: Path) -> None:
    (repository / "src").mkdir()
    for name in ("click", "msgspec", "argparse"):
        (repository / "src" / f"{name}.py").write_text(f"open({str(repository / 'ran')!r}, 'a').write('{name}.py\\n')\n")
    environment = {**os.environ, "PYTHONPATH": value.format(name=repository.name)}
    subprocess.run([PROGRAM, "explain", "Xid 79"], env=environment, capture_output=True, check=True)
    (repository / "collect.py").write_text(command("record", "--script").out)
    subprocess.run([sys.executable, "collect.py", "--help"], env=environment, capture_output=True, check=True)
    assert ran(repository) == []


@pytest.mark.parametrize(
    ("name", "value", "kept"),
    [
        ("LD_LIBRARY_PATH", "/usr/lib;.", "/usr/lib"),
        ("LD_LIBRARY_PATH", "/usr/lib;", "/usr/lib"),
        ("LD_LIBRARY_PATH", "$LIB:/usr/lib", "/usr/lib"),
        ("LD_PRELOAD", "$LIB/p.so", None),
        ("CUDA_HOME", ".", "."),  # a child stands in /, and its own word on this value is wanted
        ("CUDA_HOME", '"/usr/local/cuda"', '"/usr/local/cuda"'),
        ("CUDA_HOME", "/usr/local/cuda", "/usr/local/cuda"),
    ],
)
def test_the_loader_finds_nothing_here_either(name: str, value: str, kept: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    assert inherited.environment().get(name) == kept


@pytest.mark.parametrize(
    ("switch", "users", "whole"),
    [
        (None, "", True),
        ("passwd: files systemd\ngroup: files [SUCCESS=merge] systemd  # as Debian\nhosts: files dns\n", "", True),
        ("passwd: files sss\ngroup: files\n", "", False),
        ("passwd: files\ngroup: files\ninitgroups: ldap\n", "", False),
        ("passwd: compat\ngroup: compat\n", "root:x:0:0::/root:/bin/sh\n+::::::\n", False),
    ],
)
def test_a_directory_service_need_not_list_who_is_in_a_group(switch: str | None, users: str, whole: bool, tmp_path: Path) -> None:
    (tmp_path / "passwd").write_text(users)
    if switch is not None:
        (tmp_path / "nsswitch.conf").write_text(switch)
    assert owners._all_are_listed(str(tmp_path / "nsswitch.conf"), (str(tmp_path / "passwd"),)) is whole


def test_a_disk_that_a_person_plugged_in_is_not_roots(tmp_path: Path) -> None:
    """udisks mounts ext4 for whoever sits there, and `user` in fstab for everybody: that its files say root was written elsewhere."""
    mounts, helped = tmp_path / "mountinfo", tmp_path / "utab"
    line = "36 35 7:{} / {} rw,nosuid,nodev shared:1 - ext4 /dev/loop{} rw\n"
    mounts.write_text(
        "".join(line.format(number, place, number) for number, place in enumerate(("/media/ada/a\\040b", "/mnt/x", "/srv", "/mnt/y")))
    )
    helped.write_text(
        "ID=1 SRC=/dev/loop0 TARGET=/media/ada/a\\040b ROOT=/ ATTRS= OPTS=uhelper=udisks2\n"
        "SRC=/dev/loop1 TARGET=/mnt/x ROOT=/ OPTS=noauto,user=ada\n"
        "SRC=/dev/loop2 TARGET=/srv ROOT=/ OPTS=_netdev\n"
        "SRC=/dev/loop3 TARGET=/mnt/y ROOT=/ OPTS=user=root\n"
        "broken\n"
    )
    assert owners.mounted_by_others(str(mounts), str(helped)) == {"/media/ada/a b": os.makedev(7, 0), "/mnt/x": os.makedev(7, 1)}


def test_what_a_relative_entry_finds_is_refused_and_not_absent(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", ".:/nonexistent")
    assert programs.found("nvcc") is None
    assert programs.refused("nvcc") == "./nvcc is found by a relative entry of PATH; it was not run"
    (repository / "nvcc").unlink()
    assert programs.refused("nvcc") is None


SPY = """#!/bin/sh
echo "$0 ran in $PWD" >> {mark}
"""


def test_children_stand_in_no_folder_of_the_users(tmp_path: Path) -> None:
    """A program that looks for something in its working directory finds nothing of a stranger's there."""
    program, folder = tmp_path / "bin" / "nvidia-smi", tmp_path / "project"
    folder.mkdir()
    program.parent.mkdir()
    program.write_text(SPY.format(mark=tmp_path / "mark"))
    program.chmod(0o755)
    subprocess.run(
        [PROGRAM, "check", "--quick"],
        env={**os.environ, "PATH": f"{program.parent}:/usr/bin:/bin"},
        cwd=folder,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (tmp_path / "mark").read_text().splitlines()[:1] == [f"{program} ran in /"]


def test_what_is_written_replaces_or_follows_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    for mode, body, expected in (("w", "long", "long"), ("w", "ab", "ab"), ("a", "c", "abc")):
        writing.text(str(path), body, mode=mode)
        assert path.read_text() == expected


def test_a_pipe_that_nobody_reads_holds_nothing_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "out.json")
    with pytest.raises(OSError, match="No such device"):
        writing.text(str(tmp_path / "out.json"), "{}")


def _program(place: Path, body: str, owner: int = 0) -> None:
    place.parent.mkdir(exist_ok=True)
    place.write_text(f"#!/bin/sh\n{body}\n")
    place.chmod(0o755)
    os.chown(place, owner, owner) if owner else None


def test_what_is_refused_is_not_run_for_lying_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shim; and for root, in a folder of its own, a program that another user may change."""
    ran = tmp_path / "ran"
    _program(tmp_path / "shims" / "nvcc", f"touch {ran}")
    _program(tmp_path / "own" / "dkms", f"touch {ran}", 1000 if AS_ROOT else 0)
    monkeypatch.setenv("PATH", f"{tmp_path / 'shims'}:{tmp_path / 'own' if AS_ROOT else '/none'}:/usr/bin:/bin")
    items = {item.id: item for item in collect(Plan(quick=True)).items}
    assert not ran.exists()
    assert (items["nvcc"].status, "is a shim" in (items["nvcc"].why or "")) == ("denied", True)
    if AS_ROOT:
        assert (items["dkms"].status, "another user" in (items["dkms"].why or "")) == ("denied", True)
        (tmp_path / "own" / "dkms").chmod(0o644)
        assert {item.id: item for item in collect(Plan(quick=True)).items}["dkms"].status == "denied"


@pytest.mark.skipif(not AS_ROOT, reason="only root can be tricked")
def test_a_tool_that_is_a_script_finds_no_program_of_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = tmp_path / "ran"
    _program(tmp_path / "a" / "nvcc", "helper; echo $PATH")
    _program(tmp_path / "b" / "helper", f"touch {ran}", 1000)
    monkeypatch.setenv("PATH", f"{tmp_path / 'a'}:{tmp_path / 'b'}:/usr/bin:/bin")
    items = {item.id: item for item in collect(Plan(quick=True)).items}
    assert str(tmp_path / "a") in (items["nvcc"].stdout or "")
    assert applying.run("helper || true") == 0
    applying.after("helper || true")
    assert not ran.exists()
