"""The Python packages for driver and GPU, and who installs them: pip, conda, pixi, uv, poetry, a virtual environment."""

from __future__ import annotations

import re
import shlex
from typing import Any

import msgspec
import pytest
from packaging.requirements import Requirement

from cudadoctor.model.values import (
    DRIVER_PACKAGES,
    ENVIRONMENT,
    KERNEL,
    LADDER,
    LOADED_DRIVER,
    NVML,
    PCI,
    PYTHON,
    TOOLKITS,
    Component,
    Environment,
    Ladder,
    LoadedDriver,
    PythonEnvironment,
    PythonPackage,
    Toolkits,
)
from cudadoctor.model.version import ComputeCapability, CudaVersion, ModuleVersion, PackageVersion, ToolkitVersion
from cudadoctor.prescribe import prescribe
from cudadoctor.prescribe.way import way
from tests.command_line import host, run
from tests.facts_builder import bus, facts_of, gpu, nvml, nvml_gpu, packages
from tests.judging import KNOWLEDGE
from tests.pasted import report
from tests.prescriptions import (
    PASCAL,
    RELEASE,
    commands,
    finding,
    shells,
    written,
)


# ---------------------------------------------------------------- Python
def python(*installed: tuple[str, str], conda: str | None = None) -> PythonEnvironment:
    return PythonEnvironment(
        path="/opt/my env/bin/python", version="3.12.3", prefix="/opt/my env", conda=conda,
        packages=tuple(PythonPackage(name=name, version=PackageVersion(version)) for name, version in installed),
    )  # fmt: skip


def machine(capability: str | None, cuda: str | None, *installed: tuple[str, str], conda: str | None = None) -> dict[Any, Any]:
    gpus = (nvml_gpu(compute_capability=ComputeCapability(capability)),) if capability else ()
    return {
        NVML: nvml(gpus=gpus),
        LADDER: Ladder(cuda=CudaVersion(cuda) if cuda else None),
        PYTHON: python(*installed, conda=conda),
    }


def test_wheels_of_a_newer_series_are_taken_out_first() -> None:
    """Seen with cuda-pathfinder 1.9.1: left beside those of CUDA 12 they are found first (tests/cures/test_python_packages.py)."""
    wheels = (
        ("nvidia-cuda-nvrtc", "13.5.37"),
        ("nvidia-nvvm", "13.5.37"),
        ("nvidia-cublas", "13.1"),
        ("nvidia-cuda-nvrtc-cu12", "12.9.86"),
    )
    for conda in (None, "/opt/my env"):
        steps = written("toolkit-dropped-gpu", machine("6.1", "13.0", ("numba", "0.68.1"), *wheels, conda=conda)).steps
        assert steps[0].shell == "'/opt/my env/bin/python' -m pip uninstall -y nvidia-cuda-nvrtc nvidia-nvvm"
        assert steps[0].undo == "'/opt/my env/bin/python' -m pip install nvidia-cuda-nvrtc==13.5.37 nvidia-nvvm==13.5.37"
        assert (steps[1].verify or "").endswith(" 6.1")
    assert "uninstall" not in commands(written("toolkit-dropped-gpu", machine("6.1", "13.0", ("numba", "0.68.1"), *wheels[3:])))


def test_an_old_python_gets_no_package_that_has_nothing_for_it() -> None:
    """pip of Python 3.6 takes numba-cuda 0.0.1, a name without code."""
    old = msgspec.structs.replace(python(("numpy", "1.19.5")), path="/usr/bin/python3", version="3.6.8", prefix="/usr")
    state = {**machine("7.0", "13.0"), PYTHON: old, LOADED_DRIVER: LoadedDriver(version=ModuleVersion("580.159.04"))}
    steps = [step for leg in way(None, {}, facts_of(state), KNOWLEDGE, "rhel-8.10", None) for step in leg.steps]
    assert [step.shell for step in steps][:2] == [
        'uv venv --seed --python 3.12 "$HOME"/gpu-env',
        "\"$HOME\"/gpu-env/bin/python -m pip install 'numba-cuda[cu12]' 'numpy<2.5'",
    ]


@pytest.mark.parametrize("distro", ["rhel-8.10", "windows"])
def test_condas_environment_of_a_newer_python_is_made_on_windows_too(distro: str) -> None:
    old = msgspec.structs.replace(python(("numba", "0.53.1"), conda="/opt/my env"), version="3.6.8")
    found = written("numba-too-old", {**machine("7.0", "13.0"), PYTHON: old}, distro=distro)
    (made,) = [step.shell or "" for step in found.steps if "conda create" in (step.shell or "")]
    assert ("conda env list" in made, " -y " in made) == (distro != "windows",) * 2  # asked without -y, conda says what it would replace


@pytest.mark.parametrize(
    ("capability", "cuda", "installed", "requirement"),
    [
        ("9.0", "13.0", ("cuda-bindings", "13.1.0"), "numba-cuda[cu13]"),
        ("9.0", "13.0", ("cuda-bindings", "12.9.4"), "numba-cuda[cu12]"),
        ("9.0", "13.0", ("nvidia-cublas-cu12", "12.9"), "numba-cuda[cu12]"),
        ("9.0", "13.2", ("numpy", "2.0.0"), "numba-cuda[cu13]"),
        ("9.0", "12.4", ("cuda-bindings", "13.1.0"), "numba-cuda[cu12]"),
        ("6.1", "13.0", ("cuda-bindings", "13.1.0"), "numba-cuda[cu12]"),
        ("7.0", "13.0", ("cuda-bindings", "13.1.0"), "numba-cuda[cu12]"),
        ("7.5", "13.0", ("cuda-bindings", "13.1.0"), "numba-cuda[cu13]"),
        ("5.2", "11.8", ("numpy", "1.26.4"), "numba-cuda[cu11]<0.19"),
        (None, None, ("numpy", "1.26.4"), "numba-cuda[cu12]"),
    ],
)
def test_the_toolkit_that_fits_driver_and_gpu(
    capability: str | None, cuda: str | None, installed: tuple[str, str], requirement: str
) -> None:
    Requirement(requirement)
    found = shells(written("toolkit-missing", machine(capability, cuda, installed)))
    assert shlex.split(found[0]) == ["/opt/my env/bin/python", "-m", "pip", "install", requirement, "numpy<2.5"]


def test_a_driver_of_an_older_cuda_than_any_wheels_gets_a_toolkit_of_its_own_version() -> None:
    found = commands(written("toolkit-missing", machine("3.5", "11.4", ("numpy", "1.26.4"))))
    assert "CUDA_HOME=/usr/local/cuda-11.4" in found
    assert "numba-cuda" not in found
    conda = written("toolkit-missing", machine("3.5", "11.4", ("numpy", "1.26.4"), conda="/opt/conda"))
    assert "numba cudatoolkit=11.4" in commands(conda)


CPU_BUILD = "AssertionError: Torch not compiled with CUDA enabled\n$ nvidia-smi --query-gpu=name,driver_version --format=csv,noheader\nNVIDIA A10, 570.86.15\n"
TORCH_OF_126 = "https://download.pytorch.org/whl/cu126"


@pytest.mark.parametrize(
    ("shown", "lines"),
    [
        (
            "(seg) lena@w4:~$ conda list torch\npytorch   2.5.1   cpu_generic_py311_h1234567_0   conda-forge\n",
            ['conda remove -y -p "$CONDA_PREFIX" --force pytorch-cpu', 'conda install -y -p "$CONDA_PREFIX" -c conda-forge pytorch-gpu cuda-version=12'],
        ),
        (
            '  File "/data/miniconda3/envs/asr/lib/python3.10/site-packages/torch/cuda/__init__.py", line 310, in _lazy_init\n',
            [
                "python3 -m pip uninstall -y torch torchvision torchaudio",
                "conda remove -y -p /data/miniconda3/envs/asr --force pytorch-cpu",
                "conda install -y -p /data/miniconda3/envs/asr -c conda-forge pytorch-gpu cuda-version=12",
            ],
        ),
        (
            "$ conda activate asr\n(asr) $ pip list | grep torch\ntorch   2.6.0+cpu\n",
            [f"python3 -m pip install --force-reinstall 'torch<2.15' torchvision --index-url {TORCH_OF_126}"],
        ),
        (
            "$ conda activate asr\n(asr) $ pip list | grep torch\ntorch   2.6.0+cpu\ntorchaudio   2.6.0+cpu\n",
            [f"python3 -m pip install --force-reinstall 'torch<2.15' torchaudio --index-url {TORCH_OF_126}"],
        ),
        (
            '  File "/home/k/vision/.pixi/envs/default/lib/python3.12/site-packages/torch/cuda/__init__.py", line 310, in _lazy_init\n',
            ["pixi workspace system-requirements add cuda 12", "pixi add pytorch-gpu cuda-version=12"],
        ),
        ("~/asr> uv sync\n", [f"uv add 'torch<2.15' 'torchvision~=0.15' --index pytorch-cu126={TORCH_OF_126}"]),
        ("$ uv pip list\n", [f"uv pip install --force-reinstall 'torch<2.15' torchvision --index-url {TORCH_OF_126}"]),
        (
            "$ ls\npoetry.lock pyproject.toml train.py\n",
            [f"poetry source add --priority=explicit pytorch-cu126 {TORCH_OF_126}", "poetry add --source pytorch-cu126 'torch<2.15' 'torchvision~=0.15'"],
        ),
        # A folder that is called envs makes no environment of conda, nor does a message that names conda.
        (
            '  File "/home/k/envs/asr/lib/python3.10/site-packages/torch/cuda/__init__.py", line 310, in _lazy_init\nDo `conda install cudatoolkit`\n',
            [f"python3 -m pip install --force-reinstall 'torch<2.15' torchvision --index-url {TORCH_OF_126}"],
        ),
    ],
)  # fmt: skip
def test_a_texts_environment_gets_its_packages_from_its_own_manager(shown: str, lines: list[str]) -> None:
    found = report(shown + CPU_BUILD).prescription
    assert found is not None
    assert [line for shell in shells(found) for line in shell.split("\n")] == lines


NVIDIA_SMI_126 = "| NVIDIA-SMI 540.3.0    Driver Version: 540.3.0    CUDA Version: 12.6  |\n"


def test_poetry_keeps_the_version_that_is_listed_and_uv_is_told_whose_its_index_is() -> None:
    found = report(
        "$ ls\npoetry.lock pyproject.toml\n$ poetry run pip list | grep -i tensorflow\ntensorflow   2.20.0\n"
        "Skipping registering GPU devices...\nCannot dlopen some GPU libraries. Please make sure the missing libraries mentioned above are "
        "installed properly if you would like to use GPU.\n"
    ).prescription
    assert found is not None
    assert "poetry add 'tensorflow[and-cuda]==2.20.0'" in commands(found)
    found = report("~/asr> uv sync\n" + CPU_BUILD).prescription
    assert found is not None
    assert "explicit = true" in found.steps[0].text


def test_cudnn_is_of_the_series_that_is_listed() -> None:
    found = report(
        "RuntimeError: cuDNN error: CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH\n$ pip list | grep cudnn\nnvidia-cudnn-cu13   9.20.0.48\n"
    ).prescription
    assert found is not None
    assert "nvidia-cudnn-cu13==9.*" in commands(found)


@pytest.mark.parametrize(
    "shown",
    [
        "# R36 (release), REVISION: 4.0, GCID: 1, BOARD: generic, EABI: aarch64\n",
        f"{NVIDIA_SMI_126}|   0  Orin (nvgpu)                  N/A  | N/A              N/A |                  N/A |\n",
        f"Linux jet 5.15.136-tegra #1 SMP PREEMPT aarch64 aarch64 aarch64 GNU/Linux\n{NVIDIA_SMI_126}",
    ],
)
def test_a_jetson_gets_wheels_of_its_jetpack(shown: str) -> None:
    found = report(f"AssertionError: Torch not compiled with CUDA enabled\n{shown}").prescription
    assert found is not None
    assert shells(found) == [
        "python3 -m pip install --force-reinstall torch torchvision --index-url https://pypi.jetson-ai-lab.io/jp6/cu126"
    ]


def test_an_older_jetpack_is_left_to_words() -> None:
    text = "AssertionError: Torch not compiled with CUDA enabled\n# R32 (release), REVISION: 7.1, GCID: 1, BOARD: t210ref, EABI: aarch64\n"
    found = report(text).prescription
    assert found is not None
    assert shells(found) == []
    assert "download.pytorch.org" not in "".join(step.text for step in found.steps)


SMI_128 = "| NVIDIA-SMI 570.86.15   Driver Version: 570.86.15   CUDA Version: 12.8 |\n|   0  NVIDIA GeForce RTX 5080    Off |  00000000:01:00.0 Off |  N/A |\n"


@pytest.mark.parametrize(
    ("message", "shown", "wanted", "never"),
    [
        ("nvcc fatal   : Unsupported gpu architecture 'compute_120'\n", 'PRETTY_NAME="Ubuntu 22.04.4 LTS"\n', "apt-get install -y cuda-toolkit-12-8", "numba"),
        ("nvcc fatal   : Unsupported gpu architecture 'compute_120'\n", 'PRETTY_NAME="Rocky Linux 9.4 (Blue Onyx)"\n', "dnf install -y cuda-toolkit-12-8", "numba"),
        ("nvcc fatal   : Unsupported gpu architecture 'compute_120'\n", "$ conda activate k\n", "cuda-nvcc cuda-cudart-dev cuda-version=12.8", "numba"),
        ("ptxas fatal   : Value 'sm_120' is not defined for option 'gpu-name'\n", "triton.runtime.errors.PTXASError\n", "", "numba"),
        ("ptxas fatal   : Value 'sm_120' is not defined for option 'gpu-name'\n", '  File "/v/numba/cuda/codegen.py", line 9, in get\n', "'numba-cuda[cu12]'", "cuda-toolkit"),
    ],
)  # fmt: skip
def test_a_newer_toolkit_is_for_the_compiler_that_complains(message: str, shown: str, wanted: str, never: str) -> None:
    found = report(message + shown + SMI_128).prescription
    assert found is not None
    assert wanted in commands(found)
    assert never not in commands(found)


SMI_130 = SMI_128.replace("570.86.15", "580.95.05").replace("12.8", "13.0")
UNKNOWN_ARCHITECTURE = "nvcc fatal   : Unsupported gpu architecture 'compute_120'\n"


@pytest.mark.parametrize(
    ("system", "wanted"),
    [
        ("Ubuntu 26.04 LTS", ("repos/ubuntu2604/x86_64/cuda-keyring", "apt-get install -y cuda-toolkit-13", "CUDA_HOME=/usr/local/cuda-13")),
        ("Fedora Linux 43 (Workstation Edition)", ("repos/fedora43/x86_64/cuda-fedora43.repo", ".exclude=nvidia-driver", "dnf install -y cuda-toolkit-13")),
        ("openSUSE Tumbleweed", ("repos/suse16/x86_64 cuda", "zypper install -y --auto-agree-with-licenses cuda-toolkit-13")),
        ("openSUSE Leap 15.6", ("repos/opensuse15/x86_64 cuda", "zypper install -y --auto-agree-with-licenses cuda-toolkit-13-0")),
        ("SUSE Linux Enterprise Server 15 SP6", ("repos/sles15/x86_64 cuda", "cuda-toolkit-13-0")),
        ("Arch Linux", ("pacman -Syu --needed cuda", "CUDA_HOME=/opt/cuda")),
    ],
)  # fmt: skip
def test_each_distribution_has_its_way_to_a_newer_toolkit(system: str, wanted: tuple[str, ...]) -> None:
    found = report(f'{UNKNOWN_ARCHITECTURE}PRETTY_NAME="{system}"\n{SMI_130}').prescription
    assert found is not None
    assert [words for words in wanted if words not in commands(found)] == []


@pytest.mark.parametrize("system", ["Ubuntu 26.04 LTS", "Fedora Linux 43 (Workstation Edition)", "openSUSE Tumbleweed", "Arch Linux"])
def test_a_driver_of_cuda_12_gets_no_toolkit_of_13(system: str) -> None:
    found = report(f'{UNKNOWN_ARCHITECTURE}PRETTY_NAME="{system}"\n{SMI_128}').prescription
    assert found is not None
    assert shells(found) == []


def test_a_text_that_shows_torch_gets_the_build_of_torch() -> None:
    text = "$ python -c 'import torch; print(torch.ones(2, device=\"cuda\"))'\nRuntimeError: CUDA error: no kernel image is available for execution on the device\n"
    found = report(text + SMI_128).prescription
    assert found is not None
    assert "download.pytorch.org/whl/cu128" in commands(found)


@pytest.mark.parametrize(
    ("library", "wheel"),
    [("libnvrtc.so.12", "nvidia-cuda-nvrtc-cu12"), ("libcudart.so.13", "nvidia-cuda-runtime"), ("libcublas.so.11", "nvidia-cublas-cu11")],
)
def test_a_missing_library_is_called_by_its_own_wheel(library: str, wheel: str) -> None:
    missing = finding("framework-cuda-libs-missing", f"OSError: {library}: cannot open shared object file: No such file or directory")
    found = prescribe(missing, {}, facts_of({}), KNOWLEDGE, None)
    assert found is not None
    assert re.findall(r"nvidia-c\w+(?:-\w+)*", "".join(step.text for step in found.steps)) == [wheel]


def test_a_program_that_the_loader_refuses_is_none_of_numba() -> None:
    found = report(
        "./solver: error while loading shared libraries: libnvrtc.so.12: cannot open shared object file: No such file or directory\n"
    ).prescription
    assert found is not None
    assert "numba" not in commands(found)


def test_an_environment_of_pixi_is_known_by_its_place() -> None:
    made = msgspec.structs.replace(
        python(), prefix="/srv/a b/.pixi/envs/gpu", path="/srv/a b/.pixi/envs/gpu/bin/python", conda="/srv/a b/.pixi/envs/gpu"
    )
    lines = commands(written("toolkit-missing", {PYTHON: made})).split("\n")
    assert lines == ["pixi add --manifest-path '/srv/a b' numba-cuda cuda-nvcc cuda-nvrtc cuda-version=12 'numpy<2.5'"]


def test_whose_project_an_environment_of_poetry_is_its_place_does_not_say() -> None:
    place = "/home/k/.cache/pypoetry/virtualenvs/asr-Ab1-py3.12"
    made = msgspec.structs.replace(python(), prefix=place, path=f"{place}/bin/python", virtual=True)
    assert shells(written("toolkit-missing", {PYTHON: made})) == []


def test_what_uv_made_has_no_pip_and_is_installed_into_by_uv() -> None:
    made = msgspec.structs.replace(python(), uv=True, virtual=True)
    found = written("toolkit-missing", {**machine("9.0", "12.4"), PYTHON: made})
    assert shlex.split(shells(found)[0]) == ["uv", "pip", "install", "--python", "/opt/my env/bin/python", "numba-cuda[cu12]", "numpy<2.5"]
    removed = shells(written("pynvml-conflict", {PYTHON: made}))[0].split("\n")
    assert shlex.split(removed[0]) == ["uv", "pip", "uninstall", "--python", "/opt/my env/bin/python", "pynvml"]
    assert all("-m pip" not in (text or "") for step in found.steps for text in (step.shell, step.verify))
    checked = written("python-abi-mismatch", {**machine("9.0", "12.4"), PYTHON: made}, {"requirement": "llvmlite<0.51"})
    assert "uv pip check --python '/opt/my env/bin/python'" in [step.verify for step in checked.steps]


@pytest.mark.parametrize(
    ("distro", "path", "marked", "refused"),
    [
        ("debian-12", "/usr/bin/python3", True, True), ("debian-12", "/usr/bin/python3", None, True), ("ubuntu-24.04", "/usr/bin/python3", None, True),
        ("ubuntu-22.04", "/usr/bin/python3", None, False), ("ubuntu-24.04", "/usr/bin/python3", False, False), ("ubuntu-24.04", "/opt/py/bin/python3", None, False),
        ("arch", "/usr/bin/python", True, True),
    ],
)  # fmt: skip
def test_where_the_distribution_refuses_pip_a_virtual_environment_comes_first(
    distro: str, path: str, marked: bool | None, refused: bool
) -> None:
    own = PythonEnvironment(path=path, version="3.12.3", prefix="/usr", externally_managed=marked)
    for cause in ("toolkit-missing", "numba-cuda-target-missing", "pynvml-conflict"):
        found = written(cause, {PYTHON: own}, distro=distro)
        text = commands(found)
        assert ('-m venv --system-site-packages "$HOME"/gpu-env' in text) == refused, cause
        assert ('"$HOME"/gpu-env/bin/python -m pip install' in text) == refused, cause
        assert ("sudo apt-get install -y python3-venv" in text) == (refused and distro != "arch"), cause
        assert text.count("-m venv") <= 1, cause
    virtual = msgspec.structs.replace(own, virtual=True)
    assert "venv" not in commands(written("toolkit-missing", {PYTHON: virtual}, distro=distro))
    assert "venv" not in commands(written("numba-cuda-disabled", {PYTHON: own}, distro=distro))


@pytest.mark.parametrize("origin", ["live", "recording"])
def test_an_interpreter_in_a_folder_of_everybodys_is_started_where_it_was_just_examined(origin: Any) -> None:
    """A recording may name any file as its interpreter; on this machine it passed for one that may be started."""
    environment = msgspec.structs.replace(python(("numpy", "2.6.0")), path="/tmp/ci/bin/python", prefix="/tmp/ci")
    fact = msgspec.structs.replace(facts_of({PYTHON: environment}).there(PYTHON), origin=origin)
    found = prescribe(finding("python-package-broken"), {"requirement": "numpy<2.6"}, facts_of({PYTHON: fact}), KNOWLEDGE, "ubuntu-24.04")
    assert found is not None
    step = found.steps[0]
    if origin == "live":
        assert (step.shell or "").startswith("/tmp/ci/bin/python -m pip install")
    else:
        assert step.shell is None
        assert "No command is printed: this interpreter lies where everybody may make files." in step.text


def test_a_python_that_is_not_known_is_called_by_its_usual_name() -> None:
    found = written("toolkit-missing", {})
    assert shells(found)[0] == "python3 -m pip install 'numba-cuda[cu12]' 'numpy<2.5'"
    assert "externally-managed-environment" in found.steps[0].text
    assert "externally-managed-environment" not in written("toolkit-missing", machine("9.0", "12.4")).steps[0].text


def test_an_environment_that_the_text_shows_is_the_one() -> None:
    conda = {ENVIRONMENT: Environment(variables={"CONDA_PREFIX": "/opt/my conda/envs/gpu"}, lines={})}
    assert shlex.split(shells(written("toolkit-missing", conda))[0])[:5] == ["conda", "install", "-y", "-p", "/opt/my conda/envs/gpu"]
    virtual = {ENVIRONMENT: Environment(variables={"VIRTUAL_ENV": "/home/me/env"}, lines={})}
    assert shells(written("toolkit-missing", virtual))[0] == "/home/me/env/bin/python -m pip install 'numba-cuda[cu12]' 'numpy<2.5'"


def test_a_gpu_that_no_toolkit_of_numba_cuda_serves_gets_the_last_that_does_and_a_numba_that_takes_it() -> None:
    assert shells(written("toolkit-missing", machine("3.0", "11.4"))) == [
        "export CUDA_HOME=/usr/local/cuda-10.2",
        "'/opt/my env/bin/python' -m pip install 'numba==0.56.*'",
    ]


def test_an_old_cudatoolkit_is_taken_out_of_a_conda_environment_first() -> None:
    """It excludes the newer parts, and conda keeps what was asked for by name."""
    old = Component(name="nvvm", version=ToolkitVersion("11.3.1"), rule="conda")
    state = {**machine("9.0", "12.4", conda="/opt/my env"), TOOLKITS: Toolkits(components=(old,))}
    first, second, *_ = shells(written("numba-toolkit-mismatch", state))
    assert first == "conda remove -y -p '/opt/my env' --force cudatoolkit"
    assert second.startswith("conda install -y ")
    new = msgspec.structs.replace(old, version=ToolkitVersion("12.9"))
    assert "conda remove" not in commands(written("numba-toolkit-mismatch", {**state, TOOLKITS: Toolkits(components=(new,))}))


def test_what_conda_forge_builds_for_one_series_alone_is_asked_for_up_to_the_drivers() -> None:
    for framework, cuda, words in (
        ("tensorflow", "13.0", "tensorflow-gpu 'cuda-version<14'"),
        ("torch", "13.0", "pytorch-gpu cuda-version=13"),
    ):
        found = written("framework-cpu-build", machine("9.0", cuda, conda="/opt/my env"), {"framework": framework})
        assert words in commands(found)


def test_a_conda_environment_gets_conda() -> None:
    found = shells(written("toolkit-missing", machine("9.0", "12.4", conda="/opt/my env")))
    assert shlex.split(found[0])[:7] == ["conda", "install", "-y", "-p", "/opt/my env", "-c", "conda-forge"]
    assert "cuda-version=12" in shlex.split(found[0])
    assert "pip" not in found[0]


@pytest.mark.parametrize(
    ("numba", "target", "bound"),
    [("0.68.1", "0.30.4", "2.5"), ("0.61.0", "0.20.0", "2.2"), ("0.59.1", None, "1.27"), ("0.68.1", "0.31.0", "2.6")],
)
def test_numpy_below_the_limit_of_numba_and_numba_cuda(numba: str, target: str | None, bound: str) -> None:
    packages_ = (("numba", numba), *((("numba-cuda", target),) if target else ()))
    state = machine("9.0", "12.4", *packages_)
    root = finding("python-abi-mismatch", "ImportError: Numba needs NumPy 2.2 or less. Got NumPy 2.4.")
    found = prescribe(root, {}, facts_of(state), KNOWLEDGE, None)
    assert found is not None
    assert shlex.split(shells(found)[0])[-1] == f"numpy<{bound}"
    Requirement(shlex.split(shells(found)[0])[-1])


def test_the_rules_own_requirement_comes_first() -> None:
    found = written("python-abi-mismatch", machine("9.0", "12.4"), {"requirement": "llvmlite<0.51,>=0.50", "package": "llvmlite"})
    assert Requirement(shlex.split(shells(found)[0])[-1]) == Requirement("llvmlite>=0.50,<0.51")
    assert shells(written("python-abi-mismatch", machine("9.0", "12.4"), {"requirement": "no requirement; at all ("})) == []


def test_a_toolkit_too_new_is_pinned_to_the_driver_or_the_driver_renewed() -> None:
    found = written("toolkit-newer-than-driver", machine("9.0", "12.2"), {"version": "12.8"})
    assert shlex.split(shells(found)[0])[-3:] == ["numba-cuda[cu12]", "numpy<2.5", "cuda-toolkit==12.2.*"]
    assert "reboot" not in commands(found)
    bare = {PCI: bus(gpu(device=PASCAL)), DRIVER_PACKAGES: packages("nvidia-driver-470"), KERNEL: RELEASE}
    assert "nvidia:580" in commands(written("toolkit-newer-than-driver", bare, {"version": "12.8"}))


def test_triton_is_led_to_the_ptxas_that_is_here() -> None:
    """Numba is on this machine too, and is not what failed."""
    said = "PTXASError: PTXAS error: Internal Triton PTX codegen error\n`ptxas` stderr:\nptxas fatal   : Value 'sm_90a' is not defined for option 'gpu-name'\n"
    result = run("fix", "--replay", host("h200-healthy"), "--log", "-", stdin=said.encode())
    assert "export TRITON_PTXAS_PATH=/usr/local/cuda-13.0/bin/ptxas" in result.out
    assert "numba-cuda" not in result.out


@pytest.mark.parametrize(
    ("package", "known"),
    [
        *(
            (name, True)
            for name in ("numpy", "torchvision", "cupy-cuda12x", "jax-cuda13-plugin", "nvidia-cublas-cu12", "nvidia-cuda-nvrtc")
        ),
        *((name, False) for name in ("cupy-evil", "torchevil", "nvidia-evil", "cuda-evil", "jaxevil", "tensorflow-evil", "numba-evil")),
    ],
)
def test_of_a_family_of_packages_only_known_ones_are_installed(package: str, known: bool) -> None:
    """Whoever sends a recording writes the name; anybody may publish a package that begins like a known one."""
    found = written("python-package-damaged", {PYTHON: python(("numba", "0.61.0"))}, {"requirement": f"{package}==6.6.6"})
    assert (package in commands(found)) == known


def test_of_numpy_the_bound_counts_that_no_package_states() -> None:
    """numba-cuda 0.30.4 reads numpy.row_stack, which NumPy 2.5 removed."""
    state = machine("9.0", "13.0", ("numba", "0.68.1"), ("numba-cuda", "0.30.4"))
    found = written("python-package-broken", state, {"requirement": "numpy<2.6,>=1.22"})
    assert "'numpy<2.5,<2.6,>=1.22'" in commands(found)
    newer = machine("9.0", "13.0", ("numba", "0.68.1"), ("numba-cuda", "0.31.0"))
    assert "'numpy<2.6,>=1.22'" in commands(written("python-package-broken", newer, {"requirement": "numpy<2.6,>=1.22"}))
