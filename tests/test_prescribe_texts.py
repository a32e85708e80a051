"""What is prescribed for a text alone, where its words decide which step fits and no machine is known."""

from __future__ import annotations

import pytest

from tests.pasted import report

OF_TORCH = "ImportError: /x/flash_attn_2_cuda.cpython-312-x86_64-linux-gnu.so: undefined symbol: _ZN3c105ErrorC2ENS_14SourceLocationE\n"
OF_TRITON = "AttributeError: module 'triton.language' has no attribute 'libdevice'\n"
PTXAS = "ptxas fatal   : Value 'sm_121a' is not defined for option 'gpu-name'\n"
NVCC = "nvcc fatal   : Unsupported gpu architecture 'compute_120'\n"
APART = "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 570.124\n"
OTHER_CUDA = "ImportError: libcudart.so.13: cannot open shared object file: No such file or directory\n\nvllm 0.21.0\n"
DROPPED = (
    "NVRM: The NVIDIA GeForce GTX 1050 GPU installed in this system is\nNVRM:  supported through the NVIDIA 580.xx Legacy drivers. Please\n"
    "NVRM:  information.  The 595.58.03 NVIDIA driver will ignore\nNVRM:  this GPU.  Continuing probe...\n"
)
NIX = DROPPED + "I have hardware.nvidia.package = config.boot.kernelPackages.nvidiaPackages.stable;\n"
SLOW = "RuntimeError: CUDA error: the launch timed out and was terminated\n"
WSL = "I run it in WSL2, Ubuntu 22.04.\n" + SLOW


def steps(text: str) -> str:
    found = report(text).prescription
    assert found is not None
    return "\n".join(f"{step.text} {step.shell or ''}" for step in found.steps)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (OF_TORCH, "Reinstall the extension that the message names, for the PyTorch that is here"),
        (OF_TRITON, "NumPy with Numba"),
        (PTXAS, "TRITON_PTXAS_PATH"),
        (APART, "install both of one version, to the last number"),
        (OTHER_CUDA, "both must be of one major version"),
        (WSL, "TdrDelay"),
        (SLOW, "TCC"),
        (NIX, "legacy_580"),
    ],
)
def test_the_step_that_cures_it_is_there(text: str, words: str) -> None:
    assert words in steps(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [(OF_TORCH, "NumPy with Numba"), (NVCC, "TRITON_PTXAS_PATH"), (WSL, "TCC"), (WSL, "systemctl isolate"), (NIX, "nvidia-driver-580")],
)
def test_a_step_that_makes_no_sense_there_is_not(text: str, words: str) -> None:
    assert words not in steps(text)


def test_an_extension_of_pytorch_is_not_explained_by_numpy_alone() -> None:
    root = report(OF_TORCH).diagnosis.root
    assert root is not None
    assert "NumPy" not in root.title


NO_RUNTIME = "docker: Error response from daemon: could not select device driver \"\" with capabilities: [[gpu]]\n"
DESKTOP = NO_RUNTIME + "$ docker context show\ndesktop-linux\n"
ENGINE = "$ dpkg -l | grep docker\nii  docker-ce  5:28.5.1-1~ubuntu.24.04~noble  amd64  Docker: the open-source application container engine\n"
KNOWN = "$ sudo docker info | grep Runtimes\n Runtimes: io.containerd.runc.v2 nvidia runc\n"


@pytest.mark.parametrize(
    ("text", "first", "installs", "configures"),
    [
        (DESKTOP, "command -v docker", True, True),
        (DESKTOP + ENGINE.replace("docker-ce", "docker-ce-cli"), "command -v docker", True, True),
        (DESKTOP + ENGINE, "docker context use default", False, True),
        (DESKTOP + ENGINE + KNOWN, "docker context use default", False, False),
    ],
)
def test_docker_engine_beside_docker_desktop_is_selected(text: str, first: str, installs: bool, configures: bool) -> None:
    found = report(text + "Ubuntu 24.04\n").prescription
    assert found is not None
    commands = [step.shell or "" for step in found.steps]
    assert commands[0].startswith(first)
    assert any("docker.io" in command for command in commands) is installs
    assert any("nvidia-ctk" in command for command in commands) is configures


NO_DRIVER = (
    "sh-5.2$ lspci | grep -i nvidia\n00:1e.0 3D controller: NVIDIA Corporation GA102GL [A10G] (rev a1)\nsh-5.2$ nvidia-smi; modinfo nvidia\n"
    "sh: nvidia-smi: command not found\nmodinfo: ERROR: Module nvidia not found.\nOS-IMAGE Amazon Linux 2023.9.20250929\n"
)


def test_a_managed_node_is_not_given_a_driver_by_hand() -> None:
    assert "dnf install" in steps(NO_DRIVER)
    of_group = steps(NO_DRIVER + '    "ami": "AL2023_x86_64_STANDARD",\n')
    assert "AL2023_x86_64_NVIDIA" in of_group
    assert "dnf" not in of_group
