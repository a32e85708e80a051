"""The worker python_env in made-up environments, and against the real cuda.pathfinder and ldconfig."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import sys
import venv
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.worker_runs import WORKERS, load, of, run


class Patient:
    """A virtual environment to fill with metadata, and a root for system-wide toolkits."""

    def __init__(self, folder: Path) -> None:
        self.home, self.root, self.project = folder / "env", folder / "root", folder / "project"
        venv.create(self.home, with_pip=False, symlinks=True)
        self.python = str(self.home / "bin" / "python")
        self.site = next(self.home.glob("lib/python3*/site-packages"))
        self.project.mkdir()
        self.root.mkdir()

    def install(self, name: str, version: str, metadata: str = "", site: Path | None = None) -> None:
        folder = (site or self.site) / f"{name}-{version}.dist-info"
        folder.mkdir(parents=True)
        (folder / "METADATA").write_text(metadata)

    def numba(self, cuda: str | None = "0.30.4", paths: str = "from cuda import pathfinder") -> None:
        """Numba, and numba-cuda with a start-up hook that runs."""
        self.install("numba", "0.68.1", "Name: numba\nRequires-Dist: numpy<2.6,>=1.22\n\nRequires-Dist: not one\n")
        if cuda is not None:
            self.install("numba_cuda", cuda)
            self.file("numba_cuda/numba/cuda/cuda_paths.py", paths, self.site)
            self.file("_numba_cuda_redirector.py", "", self.site)
            self.file("_numba_cuda_redirector.pth", "import _numba_cuda_redirector", self.site)

    def file(self, path: str, body: str = "", base: Path | None = None) -> Path:
        target = (base or self.root) / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(body)
        return target

    def look(self, **environ: str | None) -> list[dict[str, Any]]:
        clean = dict.fromkeys(("CUDA_HOME", "CUDA_PATH", "CONDA_PREFIX", "LD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV"))
        return run("python_env", "--root", str(self.root), python=self.python, cwd=self.project, **{**clean, "PATH": "/none", **environ})

    def component(self, name: str, **environ: str | None) -> dict[str, Any]:
        (found,) = [entry for entry in of(self.look(**environ), "component") if entry["name"] == name]
        return found


@pytest.fixture
def patient(tmp_path: Path) -> Patient:
    return Patient(tmp_path)


def test_python_env_says_who_it_is(patient: Patient) -> None:
    head = patient.look()[0]
    assert head["path"] == patient.python
    assert head["prefix"] == str(patient.home)
    assert head["virtual"] is True
    assert head["conda"] is None
    assert head["version"] == sys.version.split()[0]


def test_python_env_packages_and_their_builds(patient: Patient) -> None:
    patient.numba(cuda=None)
    patient.install("torch", "2.11.0")
    patient.file("torch/version.py", "__version__ = '2.11.0'\ncuda: Optional[str] = '12.8'\nhip = None\n", patient.site)
    patient.install("torchvision", "0.26.0+cpu")
    patient.install("nvidia_cuda_nvrtc_cu12", "12.9.86")
    patient.install("requests", "2.32.0")
    packages = {entry["name"]: entry for entry in of(patient.look(), "package")}
    assert set(packages) == {"numba", "torch", "torchvision", "nvidia-cuda-nvrtc-cu12"}
    assert packages["numba"]["requires"] == ["numpy<2.6,>=1.22"]
    assert packages["torch"]["build"] == "cu128"
    assert packages["torchvision"]["build"] == "cpu"
    assert packages["nvidia-cuda-nvrtc-cu12"]["version"] == "12.9.86"


def test_python_env_packages_that_are_links_into_a_cache(patient: Patient, tmp_path: Path) -> None:
    cache = patient.file("METADATA", "Name: numba\n", tmp_path / "cache")
    patient.install("numba", "0.68.1")
    link = patient.site / "numba-0.68.1.dist-info" / "METADATA"
    link.unlink()
    link.symlink_to(cache)
    assert "lost" not in of(patient.look(), "package")[0]
    cache.unlink()
    assert of(patient.look(), "package")[0]["lost"] == str(cache)


def test_python_env_torch_for_the_cpu_without_a_local_version(patient: Patient) -> None:
    patient.install("torch", "2.11.0")
    patient.file("torch/version.py", "cuda = None\nhip = None\n", patient.site)
    assert of(patient.look(), "package")[0]["build"] == "cpu"


def test_python_env_the_first_on_the_path_counts(patient: Patient, tmp_path: Path) -> None:
    patient.install("numpy", "2.5.2")
    patient.install("numpy", "2.4.6", site=tmp_path / "first")
    (numpy,) = of(patient.look(PYTHONPATH=str(tmp_path / "first")), "package")
    assert numpy["version"] == "2.4.6"
    assert numpy["path"] == str(tmp_path / "first")


@pytest.mark.parametrize("old", ["0.17.0", "0.9.2"])
def test_python_env_of_two_in_one_folder_the_newer_counts(old: str, patient: Patient) -> None:
    """An upgrade that broke off leaves the metadata of the release before."""
    patient.install("numba_cuda", old)
    patient.install("numba_cuda", "0.30.4")
    assert [one["version"] for one in of(patient.look(), "package") if one["name"] == "numba-cuda"] == ["0.30.4"]


def test_python_env_a_conda_environment(patient: Patient) -> None:
    patient.install("torch", "2.10.0")
    for name in ("pytorch-2.10.0-cpu_generic_py312h_0", "cuda-nvvm-impl-12.9.86-h1_0", "cuda-version-12.9-h2_3", "zlib-1.3-h_0"):
        patient.file(f"conda-meta/{name}.json", "{}", patient.home)
    nvvm = patient.file("nvvm/lib64/libnvvm.so.4", base=patient.home)
    patient.numba(cuda=None)
    events = patient.look()
    assert events[0]["conda"] == str(patient.home)
    packages = {entry["name"]: entry for entry in of(events, "package")}
    assert packages["torch"]["build"] == "cpu_generic_py312h_0"
    assert packages["cuda-version"]["version"] == "12.9"
    assert "zlib" not in packages
    (found,) = [entry for entry in of(events, "component") if entry["name"] == "nvvm"]
    assert (found["path"], found["version"], found["rule"]) == (str(nvvm), "12.9.86", "conda")
    assert [entry["rule"] for entry in of(events, "toolkit")] == ["conda"]


def test_python_env_wheels_come_before_the_system(patient: Patient) -> None:
    patient.numba()
    patient.install("nvidia_cuda_nvcc_cu12", "12.9.86")
    wheel = patient.file("nvidia/cuda_nvcc/nvvm/lib64/libnvvm.so.4", base=patient.site)
    home = patient.file("/opt/cuda-11.8/nvvm/lib64/libnvvm.so")
    found = patient.component("nvvm", CUDA_HOME=str(patient.root / "opt/cuda-11.8"))
    assert (found["path"], found["version"], found["rule"]) == (str(wheel), "12.9.86", "wheel nvidia-cuda-nvcc-cu12")
    assert found["hides"] == [str(home)]


def test_python_env_the_wheel_of_cuda_13(patient: Patient) -> None:
    patient.numba()
    patient.install("nvidia_cuda_nvrtc", "13.0.88")
    path = patient.file("nvidia/cu13/lib/libnvrtc.so.13", base=patient.site)
    found = patient.component("nvrtc")
    assert (found["path"], found["version"], found["rule"]) == (str(path), "13.0.88", "wheel nvidia-cuda-nvrtc")


def test_python_env_pathfinder_takes_cuda_path_before_cuda_home(patient: Patient) -> None:
    patient.numba()
    first, second = patient.file("/opt/a/lib64/libcudart.so.12"), patient.file("/opt/b/lib64/libcudart.so.12")
    found = patient.component("cudart", CUDA_HOME=str(second.parent.parent), CUDA_PATH=str(first.parent.parent))
    assert (found["path"], found["rule"]) == (str(first), "CUDA_PATH")


def test_python_env_the_loader_comes_before_cuda_home(patient: Patient) -> None:
    patient.numba()
    folder = patient.file("/opt/libs/libnvrtc.so.12").parent
    patient.file("/opt/libs/libnvrtc.so.12.4.127")
    (folder / "libnvrtc.so.12").unlink()
    (folder / "libnvrtc.so.12").symlink_to("libnvrtc.so.12.4.127")
    hidden = patient.file("/opt/cuda/lib64/libnvrtc.so.12")
    found = patient.component("nvrtc", CUDA_HOME=str(patient.root / "opt/cuda"), LD_LIBRARY_PATH=str(folder))
    assert (found["rule"], found["version"], found["hides"]) == ("LD_LIBRARY_PATH", "12.4.127", [str(hidden)])


def test_python_env_nvvm_is_found_beside_the_loaders_cudart(patient: Patient) -> None:
    patient.numba()
    folder = patient.file("/opt/cuda-12.4/targets/x86_64-linux/lib/libcudart.so.12").parent
    nvvm = patient.file("/opt/cuda-12.4/nvvm/lib64/libnvvm.so.4")
    found = patient.component("nvvm", LD_LIBRARY_PATH=str(folder))
    assert (found["path"], found["rule"], found["version"]) == (str(nvvm), "beside cudart", "12.4")


def test_python_env_a_cuda_home_that_is_wrong_ends_the_search(patient: Patient) -> None:
    """So says the search of libdevice in numba-cuda, and all of it in Numba's own target."""
    patient.numba()
    good = patient.file("/usr/local/cuda/nvvm/libdevice/libdevice.10.bc")
    assert patient.component("libdevice")["path"] == str(good)
    found = patient.component("libdevice", CUDA_HOME="/opt/none")
    assert (found["path"], found["rule"], found["hides"]) == (None, "CUDA_HOME", [str(good)])


def test_python_env_the_built_in_target_knows_no_wheels(patient: Patient) -> None:
    patient.numba(cuda=None)
    patient.file("nvidia/cuda_nvcc/nvvm/lib64/libnvvm.so.4", base=patient.site)
    assert patient.component("nvvm")["path"] is None
    usual = patient.file("/usr/local/cuda/nvvm/lib64/libnvvm.so.4.0.0")
    assert patient.component("nvvm")["path"] == str(usual)
    ended = patient.component("nvvm", CUDA_HOME=str(patient.root / "none"))
    assert (ended["path"], ended["hides"]) == (None, [str(usual)])


def test_python_env_an_older_numba_cuda_searches_on_its_own(patient: Patient) -> None:
    patient.numba(cuda="0.20.1", paths="def get_cuda_home(): ...")
    usual = patient.file("/usr/local/cuda/nvvm/lib64/libnvvm.so.4")
    assert patient.component("nvvm")["rule"] == "/usr/local/cuda"
    patient.file("nvidia/cuda_nvcc/nvvm/lib64/libnvvm.so.4", base=patient.site)
    found = patient.component("nvvm")
    assert found["rule"].startswith("wheel")
    assert found["hides"] == [str(usual)]


def test_python_env_without_numba_no_component_is_looked_for(patient: Patient) -> None:
    assert of(patient.look(), "component") == []


def test_python_env_whether_the_start_up_hook_ran(patient: Patient) -> None:
    assert of(patient.look(), "redirect")[0]["value"] is None
    patient.numba()
    assert of(patient.look(), "redirect")[0]["value"] is True
    (patient.site / "_numba_cuda_redirector.pth").unlink()
    assert of(patient.look(), "redirect")[0]["value"] is False


def test_python_env_toolkit_folders(patient: Patient) -> None:
    for path in ("bin/nvcc", "nvvm/lib64/libnvvm.so", "nvvm/libdevice/libdevice.10.bc"):
        patient.file(f"/usr/local/cuda-12.4/{path}")
    patient.file("/usr/local/cuda-12.4/version.json", json.dumps({"cuda": {"name": "CUDA SDK", "version": "12.4.1"}}))
    patient.file("/usr/local/cuda-11.8/lib64/libcudart.so.11.8.89")
    patient.file("/usr/local/cuda-9.0/README")
    (patient.root / "usr/local/cuda").symlink_to(patient.root / "usr/local/cuda-10.2")
    gone = str(patient.root / "opt/cuda-12.1/bin")
    events = of(patient.look(CUDA_HOME="/opt/none", PATH=f"/none:{gone}"), "toolkit")
    found = {(entry["rule"], Path(entry["path"]).name): entry for entry in events}
    keys = ("version", "has_nvcc", "has_nvvm", "has_libdevice", "stale")
    assert [found["/usr/local/cuda-*", "cuda-12.4"][key] for key in keys] == ["12.4.1", True, True, True, False]
    assert [found["/usr/local/cuda-*", "cuda-11.8"][key] for key in keys] == ["11.8.89", False, False, False, False]
    assert found["/usr/local/cuda-*", "cuda-9.0"]["stale"] is True
    assert found["/usr/local/cuda", "cuda"]["stale"] is True
    assert found["CUDA_HOME", "none"]["stale"] is True
    assert found["PATH", "cuda-12.1"]["stale"] is True


def test_python_env_an_nvcc_on_the_path_leads_to_its_toolkit(patient: Patient) -> None:
    nvcc = patient.file("/opt/cuda-12.4/bin/nvcc", "\x7fELF")
    script = patient.file("/opt/bin/nvcc", f'#!/bin/sh\nexec {nvcc} "$@"\n')
    (patient.root / "link").mkdir()
    (patient.root / "link/nvcc").symlink_to(nvcc)
    for folder in (nvcc.parent, script.parent, patient.root / "link"):
        (entry,) = of(patient.look(PATH=str(folder)), "toolkit")
        assert (entry["path"], entry["rule"], entry["has_nvcc"], entry["version"]) == (str(nvcc.parent.parent), "PATH", True, "12.4")


def test_python_env_debians_toolkit(patient: Patient) -> None:
    patient.file("/usr/lib/nvidia-cuda-toolkit/libdevice/libdevice.10.bc")
    patient.file("/usr/bin/nvcc")
    patient.file(f"/usr/lib/{os.uname().machine}-linux-gnu/libcudart.so.12.4.127")
    patient.file(f"/usr/lib/{os.uname().machine}-linux-gnu/libnvvm.so.4.0.0")
    (entry,) = of(patient.look(), "toolkit")
    keys = ("rule", "version", "has_nvcc", "has_nvvm", "has_libdevice")
    assert [entry[key] for key in keys] == ["/usr", "12.4.127", True, True, True]


def test_python_env_shadows(patient: Patient, tmp_path: Path) -> None:
    patient.file("numba.py", base=patient.project)
    patient.file("cuda/__init__.py", base=patient.project)
    patient.file("torch/README", base=patient.project)  # a folder without __init__.py hides nothing
    patient.file("installed/numpy/__init__.py", base=tmp_path)
    patient.install("numpy", "2.4.6", site=tmp_path / "installed")
    patient.file("installed/cupy.py", base=tmp_path)
    found = {(entry["module"], entry["path"]) for entry in of(patient.look(PYTHONPATH=str(tmp_path / "installed")), "shadow")}
    assert found == {
        ("numba", str(patient.project / "numba.py")),
        ("cuda", str(patient.project / "cuda")),
        ("cupy", str(tmp_path / "installed" / "cupy.py")),
    }


@pytest.mark.parametrize(
    ("files", "hidden"),
    [
        (["bindings/__init__.py", "bindings/driver.pyx", "core/__init__.py"], ["bindings", "core"]),
        (["bindings/__init__.py", "bindings/driver.cpython-312-x86_64-linux-gnu.so"], []),  # which was built, and may be meant
        (["bindings/driver.pyx", "pathfinder/__init__.py"], []),
    ],
)
def test_python_env_a_checkout_of_nvidias_bindings_that_was_not_built(patient: Patient, files: list[str], hidden: list[str]) -> None:
    for file in files:
        patient.file(f"cuda/{file}", base=patient.project)
    found = [(entry["module"], entry["path"]) for entry in of(patient.look(), "shadow")]
    assert found == [(f"cuda.{part}", str(patient.project / "cuda" / part)) for part in hidden]


@pytest.mark.parametrize(
    ("text", "beside", "closed"),
    [
        ("", False, True),  # the first folder with a file of its own is taken, wherever in the path it stands
        ("__path__ = __import__('pkgutil').extend_path(__path__, __name__)\n", False, False),
        ("", True, False),  # beside NVIDIA's it hides none of them
        ("__path__ = []\n", True, True),
    ],
)
def test_python_env_a_package_that_closes_the_name_of_nvidias(
    patient: Patient, tmp_path: Path, text: str, beside: bool, closed: bool
) -> None:
    patient.file("cuda/bindings/driver.so", base=patient.site)
    place = patient.site if beside else tmp_path / "site-packages"
    patient.file("cuda/__init__.py", text, base=place)
    patient.install("cuda-stubs", "1.0", site=place)
    patient.file("cuda_stubs-1.0.dist-info/RECORD", "cuda_stubs-1.0.dist-info/METADATA,,\ncuda/__init__.py,sha256=x,0\n", base=place)
    found = [(entry["path"], entry["owner"]) for entry in of(patient.look(PYTHONPATH=str(tmp_path / "site-packages")), "shadow")]
    assert found == ([(str(place / "cuda"), "cuda-stubs")] if closed else [])


def test_python_env_numbas_configuration_file(patient: Patient) -> None:
    patient.file(".numba_config.yaml", "# mine\nenable_cudasim: 1\ncolor_scheme: no\nDISABLE_CUDA: 1\n#disable_cuda: 1\n", patient.project)
    assert [(entry["line"], entry["text"]) for entry in of(patient.look(), "config")] == [(2, "enable_cudasim: 1"), (4, "DISABLE_CUDA: 1")]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can be tricked")
def test_python_env_another_users_link_is_not_followed(patient: Patient) -> None:
    patient.file("real.yaml", "enable_cudasim: 1\n", patient.project)
    link = patient.project / ".numba_config.yaml"
    link.symlink_to("real.yaml")
    assert of(patient.look(), "config")
    os.lchown(link, 1234, 1234)
    assert not of(patient.look(), "config")
    link.unlink()
    os.mkfifo(link)
    assert not of(patient.look(), "config"), "and a pipe holds nobody up"


def test_python_env_lines_that_start_up_runs(patient: Patient) -> None:
    patient.file("aa.pth", "/opt/elsewhere\nimport os; os.environ['CUDA_VISIBLE_DEVICES'] = '-1'\n", patient.site)
    patient.file("sitecustomize.py", "NAME = 'no variable of CUDA'\n", patient.site)
    (hook,) = of(patient.look(), "hook")
    assert (Path(hook["path"]).name, hook["line"]) == ("aa.pth", 2)


def test_python_env_files_that_start_up_runs(patient: Patient) -> None:
    patient.file("aa.pth", "# a comment\n/opt/elsewhere\nimport acme; acme.start()\nimport more\n", patient.site)
    patient.file("bb.pth", "/opt/folders/alone\nimportlib\n", patient.site)
    patient.file("sitecustomize.py", "# of this site\n\nPASSWORD = 'x'\n", patient.site)
    patient.file("cc.pth", "import of.no.site\n", patient.project)  # which is no folder of packages
    found = [
        (Path(entry["path"]).name, entry["line"], entry["text"]) for entry in of(patient.look(PYTHONPATH=str(patient.project)), "startup")
    ]
    own = [entry for entry in found if entry[0] in ("aa.pth", "bb.pth", "cc.pth") or entry[1:] == (3, "")]
    assert own == [("aa.pth", 3, "import acme; acme.start()"), ("sitecustomize.py", 3, "")]


def test_python_env_other_pythons_with_numba(patient: Patient, tmp_path: Path) -> None:
    for name in ("with", "without"):
        python = tmp_path / name / "bin" / "python3"
        python.parent.mkdir(parents=True)
        python.write_text("#!/bin/sh\nexit 1\n")
        python.chmod(0o755)
    (tmp_path / "with/lib/python3.12/site-packages/numba").mkdir(parents=True)
    (patient.site / "numba").mkdir()
    path = ":".join(str(folder) for folder in (patient.home / "bin", tmp_path / "with/bin", tmp_path / "without/bin"))
    assert [entry["path"] for entry in of(patient.look(PATH=path), "other")] == [str(tmp_path / "with/bin/python3")]


# ---------------------------------------------------------------- frameworks
def framework(patient: Patient, name: str, **environ: str | None) -> dict[str, Any]:
    (found,) = [entry for entry in of(patient.look(**environ), "framework") if entry["name"] == name]
    return found


def library(path: Path, *, needs: tuple[str, ...] = (), runpath: str = "") -> Path:
    """A shared object that asks the loader for these, as the linker writes it."""
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("no gcc")
    path.parent.mkdir(parents=True, exist_ok=True)
    wanted = []
    for soname in needs:
        stub = path.parent / f"stub-{soname}"
        subprocess.run([compiler, "-shared", "-nostdlib", "-o", str(stub), f"-Wl,-soname,{soname}", "-x", "c", "/dev/null"], check=True)
        wanted.append(str(stub))
    options = ["-Wl,--no-as-needed", *([f"-Wl,-rpath,{runpath}"] if runpath else [])]
    subprocess.run([compiler, "-shared", "-nostdlib", "-o", str(path), *options, "-x", "c", "/dev/null", "-x", "none", *wanted], check=True)
    for stub in wanted:
        os.unlink(stub)
    return path


TORCH = "__version__ = '2.11.0+cu130'\ndebug = False\ncuda: Optional[str] = '13.0'\nhip: Optional[str] = None\n"


def test_python_env_torch_its_libraries_and_its_architectures(patient: Patient) -> None:
    patient.install("torch", "2.11.0", 'Name: torch\nRequires-Dist: nvidia-cudnn-cu13==9.19.0.56; platform_system == "Linux"\n\n')
    patient.file("torch/version.py", TORCH, patient.site)
    needs = ("libcudart.so.13", "libcudnn.so.9", "libcublas.so.13", "libcuda.so.1", "libc.so.6")
    library(patient.site / "torch/lib/libtorch_cuda.so", needs=needs, runpath="$ORIGIN/../../bundled")
    cudart = patient.file("nvidia/cu13/lib/libcudart.so.13", base=patient.site)
    cublas = patient.file("bundled/libcublas.so.13", base=patient.site)
    (patient.site / "torch/lib/libtorch_python.so").write_bytes(b"\x7fELF\0sm_70\0sm_75 sm_80 sm_90 compute_90\0sm_75\0")
    found = framework(patient, "torch")
    assert (found["kind"], found["cuda"], found["cudnn"]) == ("cuda", "13.0", "9.19.0.56")
    assert found["architectures"] == ["sm_75", "sm_80", "sm_90", "compute_90"]
    there = {name: os.path.realpath(path) if path else None for name, path in found["libraries"].items()}
    assert there == {"libcudart.so.13": os.path.realpath(cudart), "libcublas.so.13": os.path.realpath(cublas), "libcudnn.so.9": None}


def test_python_env_libraries_are_found_where_a_loader_looks(patient: Patient) -> None:
    patient.install("torch", "2.11.0")
    patient.file("torch/version.py", TORCH, patient.site)
    library(patient.site / "torch/lib/libtorch_cuda.so", needs=("libcublas.so.13",))
    places: tuple[tuple[str, dict[str, str | None]], ...] = (
        ("/opt/libs", {"LD_LIBRARY_PATH": str(patient.root / "opt/libs")}),
        ("/usr/local/cuda/lib64", {}),
        ("/opt/cuda/lib64", {"CUDA_PATH": str(patient.root / "opt/cuda")}),
        ("/usr/lib64", {}),
    )
    for folder, environ in places:
        file = patient.file(f"{folder}/libcublas.so.13")
        assert framework(patient, "torch", **environ)["libraries"] == {"libcublas.so.13": str(file)}
        file.unlink()
    assert framework(patient, "torch")["libraries"] == {"libcublas.so.13": None}


def test_python_env_a_file_that_is_no_library_has_no_needs(patient: Patient) -> None:
    module = load("framework_files")
    for content in (b"", b"\x7fELF", b"\x7fELF\x02\x01" + bytes(58), b"\x7fELF\x02\x01" + b"\xff" * 4000, b"#!/bin/sh\n"):
        (patient.root / "x.so").write_bytes(content)
        assert module.needs(str(patient.root / "x.so")) == ([], [])


def test_python_env_tensorflow(patient: Patient) -> None:
    body = (
        "build_info = collections.OrderedDict([('cpu_compiler', 'clang'), ('cuda_compute_capabilities', ['sm_60', 'sm_80', 'compute_90']), "
        "('cuda_version', '12.5.1'), ('cudnn_version', '9'), ('is_cuda_build', True), ('is_rocm_build', False)])\n"
    )
    patient.install("tensorflow", "2.20.0")
    file = patient.file("tensorflow/python/platform/build_info.py", body, patient.site)
    found = framework(patient, "tensorflow")
    assert (found["kind"], found["cuda"], found["cudnn"]) == ("cuda", "12.5.1", "9")
    assert found["architectures"] == ["sm_60", "sm_80", "compute_90"]
    assert found["libraries"] == {"libcublas.so.12": None, "libcudnn.so.9": None}
    file.write_text("build_info = collections.OrderedDict([('is_cuda_build', False), ('is_rocm_build', False)])\n")
    assert framework(patient, "tensorflow")["kind"] == "cpu"


def test_python_env_jax_and_its_plugin(patient: Patient) -> None:
    patient.install("jax", "0.8.1")
    patient.install("jaxlib", "0.8.1")
    assert framework(patient, "jax")["kind"] is None
    asks = 'Name: jax-cuda12-plugin\nRequires-Dist: nvidia-cudnn-cu12<10.0,>=9.8; extra == "with-cuda"\n\n'
    patient.install("jax_cuda12_plugin", "0.8.1", asks)
    found = framework(patient, "jax")
    assert (found["package"], found["kind"], found["cuda"], found["cudnn"]) == ("jax-cuda12-plugin", "cuda", "12", "9.8")
    assert set(found["libraries"]) == {"libcublas.so.12", "libcudnn.so.9"}


def test_python_env_of_two_cupys_the_files_say_which_it_is(patient: Patient) -> None:
    patient.install("cupy_cuda12x", "14.2.0")
    patient.install("cupy_cuda13x", "14.2.0")
    patient.file("cupy/.data/_wheel.json", '{"cuda": "13.x", "packaging": "pip"}', patient.site)
    library(patient.site / "cupy_backends/cuda/libs/cublas.so", needs=("libcublas.so.13", "libcutensor.so.2"))
    found = framework(patient, "cupy")
    assert (found["package"], found["cuda"]) == ("cupy-cuda13x", "13")
    assert set(found["libraries"]) == {"libcublas.so.13", "libnvrtc.so.13"}


def test_python_env_onnxruntime_with_and_without_its_cuda_part(patient: Patient) -> None:
    patient.install("onnxruntime", "1.23.0")
    info = patient.file(
        "onnxruntime/capi/build_and_package_info.py", "package_name = 'onnxruntime'\n__version__ = '1.23.0'\n", patient.site
    )
    assert framework(patient, "onnxruntime")["kind"] == "cpu"
    patient.install("onnxruntime_gpu", "1.23.0", 'Name: x\nRequires-Dist: nvidia-cudnn-cu12~=9.0; extra == "cudnn"\n\n')
    info.write_text("package_name = 'onnxruntime-gpu'\n__version__ = '1.23.0'\ncuda_version = '12.8'\n")
    library(patient.site / "onnxruntime/capi/libonnxruntime_providers_cuda.so", needs=("libcudart.so.12", "libcudnn.so.9"))
    found = framework(patient, "onnxruntime")
    assert (found["package"], found["kind"], found["cuda"], found["cudnn"]) == ("onnxruntime-gpu", "cuda", "12.8", "9.0")
    assert set(found["libraries"]) == {"libcudart.so.12", "libcudnn.so.9"}


def test_python_env_bitsandbytes_and_pycuda(patient: Patient) -> None:
    patient.install("bitsandbytes", "0.50.2")
    for number in ("118", "126", "130"):
        patient.file(f"bitsandbytes/libbitsandbytes_cuda{number}.so", base=patient.site)
    patient.file("bitsandbytes/libbitsandbytes_cpu.so", base=patient.site)
    patient.install("pycuda", "2026.1")
    library(patient.site / "pycuda/_driver.cpython-312-x86_64-linux-gnu.so", needs=("libcuda.so.1", "libcurand.so.10"))
    assert framework(patient, "bitsandbytes")["builds"] == ["11.8", "12.6", "13.0"]
    assert framework(patient, "pycuda")["libraries"] == {"libcurand.so.10": None}


def test_python_env_without_frameworks_says_nothing_of_them(patient: Patient) -> None:
    patient.numba()
    assert of(patient.look(), "framework") == []


def test_python_env_a_step_that_fails_costs_itself(patient: Patient) -> None:
    patient.numba()
    patient.file(".numba_config.yaml", "enable_cudasim: 1\n", patient.project)
    shutil.copytree(WORKERS, patient.root / "workers")
    (patient.root / "workers/toolkit_search.py").write_text("raise OSError('cannot be read')")
    argv = [patient.python, "-u", "-B", str(patient.root / "workers/python_env.py")]
    done = subprocess.run(argv, capture_output=True, text=True, cwd=patient.project, check=True)
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(entry["step"], entry["error"]) for entry in of(events, "error")] == [("components", "OSError: cannot be read")]
    assert of(events, "package")
    assert of(events, "config")


def test_the_search_finds_what_cuda_pathfinder_finds(patient: Patient) -> None:
    """The real one, in this interpreter, with several environments."""
    pytest.importorskip("cuda.pathfinder")
    ask = (
        "from cuda import pathfinder\n"
        "for name in ('nvvm', 'nvrtc', 'nvJitLink', 'cudart'):\n"
        "    try:\n        print(name.lower(), pathfinder.load_nvidia_dynamic_lib(name).abs_path)\n"
        "    except Exception:\n        print(name.lower(), None)\n"
    )
    for home in (None, "/usr/local/cuda", "/none"):
        environ = {key: value for key, value in os.environ.items() if key not in ("CUDA_PATH", "CUDA_HOME", "LD_LIBRARY_PATH")}
        environ.update({"CUDA_HOME": home} if home else {})
        argv = [sys.executable, "-W", "ignore", "-c", ask]
        words = subprocess.run(argv, capture_output=True, text=True, env=environ, check=True).stdout.split()
        theirs = {name: os.path.realpath(path) for name, path in zip(words[::2], words[1::2], strict=True)}
        events = of(run("python_env", CUDA_HOME=home, CUDA_PATH=None, LD_LIBRARY_PATH=None), "component")
        ours = {entry["name"]: os.path.realpath(str(entry["path"])) for entry in events if entry["name"] != "libdevice"}
        assert ours == theirs


def test_entries_of_the_loaders_cache_for_other_machines_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a cache of the old form stands before the new one."""
    paths = {b"/lib32/libnvrtc.so.12": 0x0003, b"/lib64/libnvrtc.so.12": 0x0303, b"/arm/libnvrtc.so.12": 0x0A03}
    strings = b"".join(path + b"\0" for path in paths)
    offset, entries = 48 + 24 * len(paths), b""
    for path, flags in paths.items():
        entries += struct.pack("=iIIIQ", flags, offset, offset, 0, 0)
        offset += len(path) + 1
    head = b"glibc-ld.so.cache1.1" + struct.pack("=II20x", len(paths), len(strings))
    (tmp_path / "cache").write_bytes(b"ld.so-1.7.0\0" + bytes(20) + head + entries + strings)
    module = load("toolkit_search_linux")
    for machine, expected in (("x86_64", "/lib64/libnvrtc.so.12"), ("aarch64", "/arm/libnvrtc.so.12")):
        monkeypatch.setattr(module.os, "uname", lambda machine=machine: SimpleNamespace(machine=machine))
        assert module.read_loader_cache(str(tmp_path / "cache")) == [expected]


def test_the_loaders_cache_is_read_as_ldconfig_reads_it() -> None:
    ldconfig = shutil.which("ldconfig") or "/sbin/ldconfig"
    if not os.path.exists(ldconfig) or not os.path.exists("/etc/ld.so.cache") or os.uname().machine != "x86_64":
        pytest.skip("no loader cache here")
    shown = subprocess.run([ldconfig, "-p"], capture_output=True, text=True, check=True).stdout.splitlines()
    theirs = [line.partition(" => ")[2] for line in shown if "x86-64" in line]
    assert load("toolkit_search_linux").read_loader_cache("/etc/ld.so.cache") == theirs
