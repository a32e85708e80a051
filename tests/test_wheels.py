"""Package lists of the examined interpreter: what is no fault must not be blamed, and PyTorch's index fits driver and GPU."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from cudadoctor.checks.wheels import CPU, MIXED, PATH, cpu_build, library_path, mixed
from cudadoctor.model.frameworks import build_words
from cudadoctor.model.values import (
    ENVIRONMENT,
    FRAMEWORK_BUILDS,
    LADDER,
    NAMED_GPUS,
    NVCC,
    PCI,
    PYTHON,
    TOOLKITS,
    CudaDevice,
    Environment,
    FrameworkBuilds,
    Ladder,
    NamedGpu,
    Nvcc,
    PythonEnvironment,
    PythonPackage,
    Toolkit,
    Toolkits,
)
from cudadoctor.model.version import CudaVersion, PackageVersion, ToolkitVersion
from cudadoctor.parsers.framework_builds import builds_of
from cudadoctor.prescribe import frameworks
from cudadoctor.prescribe.steps import case_of
from tests.facts_builder import bus, facts_of
from tests.judging import KNOWLEDGE
from tests.prescriptions import finding

GPU = Ladder(devices=(CudaDevice(index=0, name="NVIDIA GeForce RTX 3090"),))


def environment(*packages: tuple[str, str, str | None]) -> PythonEnvironment:
    listed = tuple(PythonPackage(name=name, version=PackageVersion(version), build=build) for name, version, build in packages)
    return PythonEnvironment(path="/opt/env/bin/python", version="3.12.3", packages=listed)


def installed(*packages: tuple[str, str, str | None]) -> dict[Any, Any]:
    """The interpreter with these packages, and the frameworks among them."""
    made = environment(*packages)
    builds = builds_of({entry.name: entry for entry in made.packages}, (), whole=True)
    return {PYTHON: made, FRAMEWORK_BUILDS: FrameworkBuilds(builds=builds)}


TORCH_CPU, JAXLIB = ("torch", "2.9.1", "cpu"), ("jaxlib", "0.8.1", None)


@pytest.mark.parametrize(
    ("packages", "found"),
    [
        ((TORCH_CPU,), 1),
        ((("torch", "2.9.1", "cu128"),), 0),
        ((JAXLIB,), 1),
        ((JAXLIB, ("jax-cuda12-plugin", "0.8.1", None)), 0),
        ((("onnxruntime", "1.23.0", None),), 0),  # often meant
        ((("onnxruntime", "1.23.0", None), ("onnxruntime-gpu", "1.23.0", None)), 1),
        ((("tensorflow-cpu", "2.20.0", None),), 1),
    ],
)
def test_a_build_without_cuda_is_named_beside_a_gpu(packages: tuple[tuple[str, str, str | None], ...], found: int) -> None:
    facts = facts_of({**installed(*packages), LADDER: GPU})
    assert [clue.cause for clue in cpu_build(facts, KNOWLEDGE)] == [CPU] * found


def test_without_a_gpu_a_build_for_the_processor_is_right() -> None:
    facts = facts_of({**installed(TORCH_CPU), LADDER: Ladder(), PCI: bus()})
    assert list(cpu_build(facts, KNOWLEDGE)) == []


@pytest.mark.parametrize(
    ("packages", "words"),
    [
        ((("torch", "2.9.1", "cu128"),), "torch 2.9.1 for CUDA 12.8"),
        ((("torch", "1.8.1", "cu102"),), "torch 1.8.1 for CUDA 10.2"),
        ((("torch", "2.9.1", "rocm6.4"),), "torch 2.9.1, built for ROCm"),
        ((("pytorch", "2.10.0", "cpu_generic_py312h_0"),), "torch 2.10.0, built without CUDA"),
        ((("torch", "2.10.0", "cuda129_generic_py312h_200"),), "torch 2.10.0 for CUDA 12.9"),
        ((("torch", "2.9.0a0+145a3a7bda.nv25.10", None),), "torch 2.9.0a0"),
        ((("cupy-cuda102", "8.0.0", None),), "cupy 8.0.0 for CUDA 10.2"),
        ((("cupy-cuda12x", "13.6.0", None),), "cupy 13.6.0 for CUDA 12"),
        ((JAXLIB, ("jax", "0.8.1", None), ("jax-cuda13-plugin", "0.8.1", None)), "jax 0.8.1 for CUDA 13"),
        ((("jaxlib", "0.4.13+cuda12.cudnn89", "cuda12.cudnn89"),), "jax 0.4.13 for CUDA 12"),
        ((("onnxruntime-gpu", "1.23.0", None),), "onnxruntime 1.23.0"),
        ((("tensorflow", "2.20.0", "cuda128py312h_200"),), "tensorflow 2.20.0 for CUDA 12.8"),
    ],
)
def test_what_names_and_tags_say_of_a_build(packages: tuple[tuple[str, str, str | None], ...], words: str) -> None:
    (build,) = installed(*packages)[FRAMEWORK_BUILDS].builds
    assert build_words(build) == words


@pytest.mark.parametrize(
    ("packages", "found"),
    [
        ((("nvidia-cublas-cu11", "11.10.3.66", None), ("nvidia-cublas-cu12", "12.1.3.1", None)), 1),
        ((("nvidia-cublas-cu11", "11.10.3.66", None), ("nvidia-cudnn-cu12", "9.1.0.70", None)), 0),  # they do not meet
        ((("cupy-cuda11x", "13.6.0", None), ("cupy-cuda12x", "13.6.0", None)), 1),
        ((("cupy-cuda12x", "13.6.0", None),), 0),
        ((("nvidia-cublas-cu12", "12.9.1.4", None), ("nvidia-cublas", "13.1.0.3", None)), 1),  # CUDA 13's have no series in their names
        ((("nvidia-cublas-cu12", "12.9.1.4", None), ("nvidia-cublas", "0.0.1.dev5", None)), 0),  # a stand-in without content
        ((("nvidia-ml-py", "13.590.44", None), ("nvidia-cudnn-cu13", "9.19.0.56", None)), 0),
    ],
)
def test_one_library_of_two_series(packages: tuple[tuple[str, str, str | None], ...], found: int) -> None:
    assert [clue.cause for clue in mixed(facts_of({PYTHON: environment(*packages)}), KNOWLEDGE)] == [MIXED] * found


@pytest.mark.parametrize(
    ("wheel", "found", "advice"),
    [
        ("12.4.5.8", 1, False),
        ("12.9.1.4", 1, True),  # the same release twice does no harm yet
        (None, 0, False),
    ],
)
def test_one_library_from_conda_and_from_pip(wheel: str | None, found: int, advice: bool) -> None:
    python = environment(("libcublas", "12.9.1.4", "h676940d_1"), *((("nvidia-cublas-cu12", wheel, None),) if wheel is not None else ()))
    packages = tuple(
        msgspec.structs.replace(entry, path="/opt/env/conda-meta" if entry.build else "/opt/env/lib") for entry in python.packages
    )
    facts = facts_of({PYTHON: msgspec.structs.replace(python, conda="/opt/env", packages=packages)})
    clues = list(mixed(facts, KNOWLEDGE))
    assert [(clue.cause, clue.advice) for clue in clues] == [(MIXED, advice)] * found
    assert [clue.values["pip_copies"] for clue in clues] == ["nvidia-cublas-cu12"] * found


@pytest.mark.parametrize(
    ("version", "path", "found"),
    [
        ("12.1", "/usr/local/cuda-12.1/lib64", 1),
        ("12.8", "/usr/local/cuda-12.8/lib64", 0),  # the same files
        ("11.8", "/usr/local/cuda-11.8/lib64", 0),  # other names of files
        ("12.1", "/opt/other/lib", 0),
    ],
)
def test_an_older_toolkit_in_the_library_path(version: str, path: str, found: int) -> None:
    toolkits = Toolkits(toolkits=(Toolkit(path=f"/usr/local/cuda-{version}", version=ToolkitVersion(version)),))
    variables = Environment(variables={"LD_LIBRARY_PATH": path}, lines={"LD_LIBRARY_PATH": 1})
    facts = facts_of({PYTHON: environment(("torch", "2.9.1", "cu128")), TOOLKITS: toolkits, ENVIRONMENT: variables})
    assert [clue.cause for clue in library_path(facts, KNOWLEDGE)] == [PATH] * found


@pytest.mark.parametrize(
    ("gpu", "cuda", "index"),
    [
        ("RTX 5090", "13.0", "cu130"),
        ("RTX 5090", "12.8", "cu128"),
        ("RTX 5090", "13.2", "cu132"),
        ("RTX 3090", "13.0", "cu130"),
        ("RTX 3090", "12.8", "cu126"),  # the index for 12.8 got no PyTorch after 2.11
        ("RTX 3090", "12.4", "cu126"),
        ("GTX 1080", "13.0", "cu126"),
        ("GTX 1080", "12.4", "cu126"),
        ("GTX 1080", "11.4", "cu118"),
        ("Tesla K80", "11.4", "cu118"),
        ("GTX 580", "9.1", None),
        (None, "11.4", "cu118"),
    ],
)
def test_the_index_of_pytorch_fits_driver_and_gpu(gpu: str | None, cuda: str, index: str | None) -> None:
    named = {NAMED_GPUS: (NamedGpu(name=gpu),)} if gpu is not None else {}
    case = case_of(finding(CPU), {}, facts_of({LADDER: Ladder(cuda=CudaVersion(cuda)), **named}), KNOWLEDGE, "ubuntu-24.04")
    found = frameworks.torch_index(case)
    assert (found[0] if found is not None else None) == index


@pytest.mark.parametrize(("nvcc", "gcc"), [("12.0.140", "12"), ("13.0.48", "15"), ("11.0.194", "9")])
def test_the_host_compiler_is_the_newest_that_nvcc_accepts(nvcc: str, gcc: str) -> None:
    facts = facts_of({NVCC: Nvcc(version=ToolkitVersion(nvcc))})
    assert frameworks.newest_gcc(case_of(finding("host-compiler-unsupported"), {}, facts, KNOWLEDGE, "ubuntu-24.04")) == gcc
