"""Where a text's programs run decides what its messages mean: containers, WSL, batch jobs, notebooks; and what an image asks of a driver."""

from __future__ import annotations

import pytest

from cudadoctor.checks import container
from cudadoctor.model.values import (
    CONTAINER_MARKS,
    DEVICE_NODES,
    ENVIRONMENT,
    LADDER,
    WSL,
    WSL_LIBRARIES,
    Environment,
    Libraries,
    LibraryFile,
)
from cudadoctor.model.version import CudaVersion
from tests.facts_builder import State, host, ladder, nodes
from tests.judging import KNOWLEDGE
from tests.pasted import report, root, suspects
from tests.prescriptions import commands, written

NO_LIBCUDA = "ImportError: libcuda.so.1: cannot open shared object file: No such file or directory\n"
NO_DEVICE = "RuntimeError: No CUDA GPUs are available\n"
UNKNOWN = "Failed to initialize NVML: Unknown Error\n"
BLOCKED = "Failed to initialize NVML: GPU access blocked by the operating system\n"
NO_DRIVER = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver is installed\n"
)
NO_RUNTIME = 'docker: Error response from daemon: could not select device driver "" with capabilities: [[gpu]].\n'
HOOK = "nvidia-container-cli: initialization error: load library failed: libnvidia-ml.so.1: cannot open shared object file: no such file\n"
TABLE = """\
| NVIDIA-SMI 535.104.05             Driver Version: 535.104.05   CUDA Version: 12.2     |
|   0  NVIDIA GeForce RTX 3090        On  | 00000000:01:00.0 Off |                  N/A |
|  0%   38C    P8              21W / 350W |      1MiB / 24576MiB |      0%      Default |
"""
CPU_BUILD = "AssertionError: Torch not compiled with CUDA enabled\n"
WSL_1 = "Linux PC 4.4.0-19041-Microsoft #2311-Microsoft x86_64 GNU/Linux\n"
WSL_2 = "Python platform: Linux-5.15.153.1-microsoft-standard-WSL2-x86_64-with-glibc2.35\n"


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("$ docker run -it team/train:1 python a.py\n" + NO_LIBCUDA, "container-no-gpu-access"),
        ("root@0f1e2d3c4b5a:/# nvidia-smi\n" + TABLE + NO_LIBCUDA, "container-driver-capabilities"),
        ("root@0f1e2d3c4b5a:/# ls\n" + NO_LIBCUDA + TABLE, "container-no-gpu-access"),
        ("nvidia-smi works fine inside the container.\n" + NO_LIBCUDA, "container-driver-capabilities"),
        ("Ubuntu 18.04 in VirtualBox on Windows.\nCUDA error: no CUDA-capable device is detected\n", "no-nvidia-gpu"),
        ("sudo apt-get install nvidia-headless-535\nsh: nvidia-smi: command not found\n", "nvidia-smi-missing"),
        ("I start it with docker run -v /data:/data team/train:1\n" + NO_DEVICE, "container-no-gpu-access"),
        ("$ docker run -it \\\n  --shm-size=8g \\\n  --gpus all team/train:1\n" + NO_LIBCUDA, "libcuda-missing"),
        ("$ nvidia-docker run -it team/train:1\n" + NO_LIBCUDA, "libcuda-missing"),
        ("$ docker run --gpus all cuda nvidia-smi\n$ docker run team/train:1\n" + NO_LIBCUDA, "container-no-gpu-access"),
        ("After the docker build:\n" + NO_LIBCUDA, "container-no-gpu-access"),
        ("# env | grep NVIDIA\nNVIDIA_VISIBLE_DEVICES=void\nin my pod:\n" + NO_DEVICE, "container-no-gpu-access"),
        ("After systemctl daemon-reload the containers say\nin the container: " + NO_DEVICE, "container-lost-devices"),
        ("Proxmox, LXC with the nodes bound in:\n" + UNKNOWN, "container-lost-devices"),
        ("docker-compose.yml has runtime: nvidia\n" + NO_LIBCUDA, "libcuda-missing"),
        ("[ada@gpu3 ~]$ apptainer exec train.sif python a.py\n" + NO_LIBCUDA, "container-no-gpu-access"),
        ("[ada@gpu3 ~]$ apptainer exec --nv train.sif python a.py\n" + NO_LIBCUDA, "libcuda-missing"),
        (NO_LIBCUDA, "libcuda-missing"),
        ("In the container:\n" + UNKNOWN, "container-lost-devices"),
        (UNKNOWN, None),
        (NO_RUNTIME, "container-toolkit-missing"),
        ("$ sudo snap install docker\n" + NO_RUNTIME, "container-engine-sandboxed"),
        ("$ docker context show\ndesktop-linux\n" + HOOK, "container-engine-sandboxed"),
        ("Windows 11, Docker Desktop\n" + HOOK, "container-hook-failed"),
        (HOOK, "container-hook-failed"),
        ("On WSL2:\n" + BLOCKED, "wsl-gpu-unavailable"),
        (BLOCKED, None),
        (WSL_1 + NO_LIBCUDA, "wsl-gpu-unavailable"),
        (WSL_2 + NO_LIBCUDA, "libcuda-missing"),
        ("WSL2, after sudo apt install nvidia-utils-535:\n" + NO_DRIVER, "wsl-linux-driver-installed"),
        ("WSL2 Ubuntu\nFailed to initialize NVML: Driver/library version mismatch\n", "wsl-linux-driver-installed"),
        ("$ srun -p gpu --pty bash\n" + NO_DEVICE, "scheduler-gave-no-gpu"),
        ("$ srun -p gpu --gres=gpu:1 --pty bash\n" + NO_DEVICE, None),
        ("#!/bin/bash\n#SBATCH -p gpu\n#SBATCH --gpus-per-node=1\n" + NO_DEVICE, None),
        ("`CUDA_VISIBLE_DEVICES=$0 ./demo.py` says\n" + NO_DEVICE, "cuda-visible-devices-hides-all"),
        ('os.environ["CUDA_VISIBLE_DEVICES"] = "-1"\n' + NO_DEVICE, "cuda-visible-devices-hides-all"),
        ("export CUDA_VISIBLE_DEVICES=-1\n$ pytest -q\nIndexError: list index out of range\n", None),
        ("export CUDA_VISIBLE_DEVICES=0\n" + NO_DEVICE, None),
        ("OS: macOS 14.5 (arm64)\n" + CPU_BUILD, "no-nvidia-gpu"),
        ('  File "/content/a.py", line 1, in <module>\n' + NO_LIBCUDA, "no-nvidia-gpu"),
        ("It works in Colab.\n" + NO_LIBCUDA, "libcuda-missing"),
        ("If you do not have an NVIDIA GPU, use the CPU build.\n" + NO_DEVICE, None),
    ],
)
def test_the_place_decides(text: str, cause: str | None) -> None:
    assert root(text) == cause


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("$ nvidia-smi\nbash: nvidia-smi: command not found\n", "driver-not-installed"),
        ("$ docker exec -it train bash\n# nvidia-smi\nbash: nvidia-smi: command not found\n", "container-no-gpu-access"),
        (WSL_2 + NO_DRIVER, "wsl-linux-driver-installed"),
        (WSL_2 + NO_DEVICE, "wsl-gpu-unavailable"),
        ("On our Slurm cluster\n" + NO_DEVICE, "scheduler-gave-no-gpu"),
        ("export CUDA_VISIBLE_DEVICES=2\n" + NO_DEVICE, "cuda-visible-devices-invalid"),
        ("CUDA_VISIBLE_DEVICES=GPU-0f2b8c11 ./serve\n" + NO_DEVICE, "cuda-visible-devices-invalid"),
        ("(pid=4711, ip=10.0.0.7) ray::Worker.run()\n" + NO_DEVICE, "scheduler-gave-no-gpu"),
        ("ada@DESKTOP-930EG0A:~$ nvidia-smi\n" + NO_DRIVER, "wsl-linux-driver-installed"),
        ("docker run -it team/train:1\nMy GPU is not seen in there.\n", "container-no-gpu-access"),
    ],
)
def test_the_place_says_what_to_suspect_first(text: str, first: str) -> None:
    assert root(text) is None
    assert suspects(text)[0] == first


def test_a_place_without_a_complaint_suspects_nothing() -> None:
    for text in ("$ srun -p gpu --pty bash\n", WSL_2, "OS: macOS 14.5 (arm64)\n", "$ docker run --gpus all cuda nvidia-smi\n"):
        assert root(text) is None
        assert suspects(text) == []


# ---------------------------------------------------------------- what an image asks for
@pytest.mark.parametrize(
    ("wanted", "cuda", "branch", "met"),
    [
        ("cuda>=12.8", "12.4", 550, False),
        ("cuda>=12.8", "12.8", 570, True),
        ("cuda>=12.8", "13.0", 580, True),
        ("cuda>=12.8 brand=tesla,driver>=535,driver<536", "12.2", 535, True),
        ("cuda>=12.8 brand=tesla,driver>=535,driver<536", "12.4", 550, False),
        ("cuda>=12.8 brand=tesla,driver>=535,driver<536", "12.4", None, True),
        ("cuda<11.0", "12.4", 550, False),
    ],
)
def test_conditions_of_an_image(wanted: str, cuda: str, branch: int | None, met: bool) -> None:
    assert any(container._met(part, CudaVersion(cuda), branch) for part in wanted.split()) is met


def image(required: str, cuda: str, **changes: State) -> list[str]:
    state: State = {
        CONTAINER_MARKS: ("/.dockerenv",),
        ENVIRONMENT: Environment(variables={"NVIDIA_REQUIRE_CUDA": required}, lines={"NVIDIA_REQUIRE_CUDA": 1}),
    }
    facts = host({**state, **changes.get("state", {})})
    ladder = facts[LADDER].need()
    assert ladder.cuda is not None
    assert ladder.cuda.text == cuda
    return [clue.cause for clue in container.image_too_new(facts, KNOWLEDGE)]


def test_an_image_that_nobody_checked() -> None:
    cuda = host()[LADDER].need().cuda
    assert cuda is not None
    assert image("cuda>=99.0", cuda.text) == ["container-cuda-too-new"]
    assert image(f"cuda>={cuda.text}", cuda.text) == []
    assert image("cuda>=99.0", cuda.text, state={CONTAINER_MARKS: None}) == [], "outside a container the variable means nothing"


def test_wsl_whose_windows_lends_no_libcuda() -> None:
    lent = Libraries(files=(LibraryFile(name="libdxcore.so", path="/usr/lib/wsl/lib/libdxcore.so"),))
    full = Libraries(files=(LibraryFile(name="libcuda.so.1", path="/usr/lib/wsl/lib/libcuda.so.1"),))
    state: State = {WSL: True, CONTAINER_MARKS: None, DEVICE_NODES: nodes("dxg"), LADDER: ladder("libcuda")}
    found = [list(container.wsl_without_library(host({**state, WSL_LIBRARIES: value}), KNOWLEDGE)) for value in (lent, None, full)]
    assert [[clue.cause for clue in clues] for clues in found] == [["wsl-gpu-unavailable"], ["wsl-gpu-unavailable"], []]


# ---------------------------------------------------------------- the engine's own steps
@pytest.mark.parametrize(
    ("line", "command", "foreign"),
    [
        (NO_RUNTIME, "nvidia-ctk runtime configure --runtime=docker", "cdi generate"),
        ("Error: setting up CDI devices: unresolvable CDI devices nvidia.com/gpu=all", "nvidia-ctk cdi generate", "--runtime=docker"),
        ('failed to get sandbox runtime: no runtime for "nvidia" is configured', "--runtime=containerd", "--runtime=docker"),
    ],
)
def test_the_steps_are_those_of_the_engine(line: str, command: str, foreign: str) -> None:
    found = report(line)
    assert found.prescription is not None
    shown = "\n".join(step.shell or "" for step in found.prescription.steps)
    assert command in shown
    assert foreign not in shown


@pytest.mark.parametrize(
    ("distro", "command"),
    [
        ("ubuntu-24.04", "apt-get install -y nvidia-container-toolkit"),
        ("debian-12", "apt-get install -y nvidia-container-toolkit"),
        ("fedora-42", "dnf install -y nvidia-container-toolkit"),
        ("rocky-9", "dnf install -y nvidia-container-toolkit"),
        ("arch", "pacman -Syu --needed nvidia-container-toolkit"),
        ("opensuse-leap-15.6", "zypper --gpg-auto-import-keys install -y nvidia-container-toolkit"),
    ],
)
def test_the_toolkit_is_installed_everywhere(distro: str, command: str) -> None:
    shown = commands(written("container-toolkit-missing", distro=distro))
    assert command in shown
    assert "nvidia.github.io/libnvidia-container" in shown or distro == "arch"


def test_a_driver_for_the_image() -> None:
    text = "nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.8, please update your driver to a newer version\n"
    found = report(text)
    assert found.prescription is not None
    words = " ".join(step.text for step in found.prescription.steps)
    assert "CUDA 12.8" in words
    assert "branch 570" in words, "the first branch that supports it"


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (
            "root@web-7f8fb6d678-bdzdd:/# env | grep NVIDIA\nNVIDIA_DRIVER_CAPABILITIES=utility\nthe pod does not start\n",
            "container-driver-capabilities",
        ),
        ("[Version 10.0.17763.292] Ubuntu in WSL\n" + NO_DRIVER, "wsl-gpu-unavailable"),
        ("services:\n  environment:\n    CUDA_VISIBLE_DEVICES: all\n" + NO_DEVICE, "cuda-visible-devices-hides-all"),
        ("export CUDA_VISIBLE_DEVICES=''\nnvidia-smi shows no program of mine\n", "cuda-visible-devices-hides-all"),
        ("I am on osx 10.9 with an Intel GPU, the nvidia CUDA installer fails.\n", "no-nvidia-gpu"),
        ("In the docker image: NVIDIA-SMI couldn't find libnvidia-ml.so library in your system.\n", "container-no-gpu-access"),
    ],
)
def test_the_place_puts_a_cause_first(text: str, cause: str) -> None:
    assert root(text) in (None, cause)
    assert (root(text), *suspects(text))[1 if root(text) is None else 0] == cause
