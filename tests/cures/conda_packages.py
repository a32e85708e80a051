"""conda-forge's packages, empty, with the names and relations of the real ones, as a channel in a folder.

The relations are those of the recipes in conda-forge's feedstocks, read in November 2026 (cuda-version, cuda-nvcc-impl, cuda-cudart,
cuda-python, numba-cuda, numba, cudatoolkit, cudnn, cupy, pytorch-cpu, jaxlib, tensorflow, onnxruntime, bitsandbytes, ctng-compilers); which builds there
are, from the variants below .ci_support: JAX, TensorFlow and bitsandbytes are built for CUDA 12.9 alone.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path

import msgspec


class Stub(msgspec.Struct, frozen=True):
    name: str
    version: str = "1.0"
    depends: tuple[str, ...] = ()
    build: str = "0"
    constrains: tuple[str, ...] = ()


CUDA = ("11.8", "12.0", "12.2", "12.4", "12.6", "12.8", "12.9", "13.0", "13.2")
OLD_TOOLKITS = ("10.0", "10.1", "10.2", "11.0", "11.1", "11.2", "11.3", "11.4", "11.5", "11.6", "11.7", "11.8")
SERIES = ("12.9", "13.0")  # what conda-forge compiles for now


def _below(version: str) -> str:
    return f"<{int(version.split('.')[0]) + 1}.0a0"


def _within(version: str) -> str:
    """What nvcc of this version leaves in a package that it compiled."""
    return f"cuda-version >={version},{_below(version)}"


def _toolkit(version: str) -> Iterator[Stub]:
    same = f"cuda-version {version}.*"
    for name in ("cuda-nvrtc", "cuda-nvvm-impl", "cuda-cudart-dev", "cuda-nvcc-tools"):
        yield Stub(name, version, (same,))
    yield Stub("cuda-nvcc-impl", version, (same, f"cuda-nvvm-impl {version}", f"cuda-nvcc-tools {version}", "cuda-cudart-dev"))
    yield Stub("cuda-nvcc", version, (f"cuda-nvcc-impl {version}", "gxx_linux-64"))


def _bindings(major: str, version: str) -> Stub:
    within = f">={major},{_below(major)}"
    return Stub("cuda-bindings", version, ("python", *(f"{name} {within}" for name in ("cuda-version", "cuda-nvrtc", "cuda-nvvm-impl"))))


def _torch(version: str, *series: str) -> Iterator[Stub]:
    for cuda in series:
        mark = f"cuda{cuda.replace('.', '')}"
        other = (f"pytorch-gpu {version}", "pytorch-cpu <0.0a0")
        toolkit = (f"cudatoolkit >={cuda},{_below(cuda)}",) if cuda < "12" else ()
        yield Stub("pytorch", version, ("python", "__cuda", _within(cuda), *toolkit), f"{mark}_mkl_py312_h0_1", other)
        yield Stub("pytorch-gpu", version, (f"pytorch {version} cuda*_mkl*1",), f"{mark}_mkl_h0_1")
    yield Stub("pytorch", version, ("python",), "cpu_mkl_py312_h0_1", (f"pytorch-cpu {version}", "pytorch-gpu <0.0a0"))
    yield Stub("pytorch-cpu", version, (f"pytorch {version} cpu_mkl*1",), "cpu_mkl_h0_1")


def _builds(name: str, version: str, form: str, *series: str, depends: tuple[str, ...] = ()) -> Iterator[Stub]:
    """One package, compiled without CUDA and for each series."""
    yield Stub(name, version, ("python", *depends), form.format("cpu"))
    for cuda in series:
        yield Stub(name, version, ("python", "__cuda", _within(cuda), *depends), form.format(f"cuda{cuda.replace('.', '')}"))


PYTHON = ("python",)
STUBS = (
    *(Stub("python", version) for version in ("3.9.20", "3.10.15", "3.11.10", "3.12.7", "3.13.1", "3.14.0")),
    *(Stub(name, depends=PYTHON) for name in ("pip", "nvidia-ml-py", "cuda-core", "cuda-pathfinder", "scipy")),
    *(Stub("numpy", version, PYTHON) for version in ("1.21.6", "1.26.4", "2.2.6", "2.3.1", "2.4.0", "2.5.0")),
    *(Stub("gxx_linux-64", f"{version}.1.0") for version in range(9, 16)), Stub("c-compiler"), Stub("cxx-compiler"),
    *(
        Stub("cuda-version", version, constrains=(f"__cuda >={version.split('.')[0]}", f"cudatoolkit {version}|{version}.*"))
        for version in dict.fromkeys((*OLD_TOOLKITS, *CUDA))
    ),
    *(Stub("cudatoolkit", f"{version}.1", constrains=(f"__cuda >={version.split('.')[0]}",)) for version in OLD_TOOLKITS),
    *(stub for version in CUDA if version > "12" for stub in _toolkit(version)),
    *(Stub("cudnn", "9.25.0", (f"cuda-version >={major},{_below(major)}",), f"h{major}_0") for major in ("12", "13")),
    Stub("libstdcxx", "15.2.0"),
    Stub("libstdcxx-ng", "15.2.0", ("libstdcxx 15.2.0",)),
    Stub("numba", "0.57.1", ("python", "numpy >=1.21,<1.25"), constrains=("cudatoolkit >=11.2",)),
    *(
        Stub("numba", version, ("python", f"numpy >=1.22.3,<{numpy}"), constrains=("cuda-version >=11.2", "cudatoolkit >=11.2"))
        for version, numpy in (("0.61.2", "2.3"), ("0.65.1", "2.5"))
    ),
    _bindings("12", "12.9.4"), _bindings("13", "13.3.1"),
    Stub(
        "numba-cuda", "0.30.2",
        ("python", "numba >=0.60.0", "numpy >=1.22", "cuda-bindings >=12.9.1,<14.0.0", "cuda-core", "cuda-cudart-dev", "cuda-pathfinder",
         "cuda-version >=12", "cuda-nvcc-impl"),
    ),
    *_torch("2.13.0", *SERIES), *_torch("2.1.2", "11.2", "11.8", "12.0"),
    Stub("jax", "0.9.2", ("python", "jaxlib >=0.9.2")), *_builds("jaxlib", "0.9.2", "{}_py312h0_0", "12.9", depends=("scipy",)),
    *_builds("tensorflow", "2.19.1", "{}_py312h0_0", "12.9"), *(
        Stub(f"tensorflow-{kind}", "2.19.1", (f"tensorflow 2.19.1 {build}*_0",), f"{build}h0_0") for kind, build in (("gpu", "cuda129"), ("cpu", "cpu"))
    ),
    *_builds("onnxruntime", "1.26.0", "py312h0_0_{}", *SERIES), *_builds("bitsandbytes", "0.49.2", "{}_py312h0_0", "12.9", depends=("pytorch", "scipy")),
    *(
        Stub("cupy", "14.1.1", ("python", "cuda-nvrtc", "numpy >=2.0", f"cuda-version >={major},{_below(major)}"), f"py312h{major}_0")
        for major in ("12", "13")
    ),
)  # fmt: skip


def write_channel(folder: Path) -> None:
    """The index of the channel and its packages: archives that hold nothing but what they say of themselves."""
    listed: dict[str, dict[str, object]] = {}
    for subdir in ("linux-64", "noarch"):
        (folder / subdir).mkdir(parents=True)
    for stub in STUBS:
        about: dict[str, object] = {**msgspec.to_builtins(stub), "build_number": 0, "subdir": "linux-64", "license": "none", "timestamp": 0}
        path = folder / f"linux-64/{stub.name}-{stub.version}-{stub.build}.tar.bz2"
        assert path.name not in listed
        with tarfile.open(path, "w:bz2") as archive:
            for name, text in (("index.json", json.dumps(about)), ("files", ""), ("paths.json", '{"paths": [], "paths_version": 1}')):
                entry = tarfile.TarInfo(f"info/{name}")
                entry.size = len(text)
                archive.addfile(entry, io.BytesIO(text.encode()))
        data = path.read_bytes()
        listed[path.name] = {**about, "size": len(data), "md5": hashlib.md5(data).hexdigest(), "sha256": hashlib.sha256(data).hexdigest()}
    for subdir, found in (("linux-64", listed), ("noarch", {})):
        (folder / subdir / "repodata.json").write_text(json.dumps({"info": {"subdir": subdir}, "packages": found, "packages.conda": {}}))
