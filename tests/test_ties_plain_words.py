"""What a person says in plain words beside a message: it names what is likeliest, and states nothing."""

from __future__ import annotations

import pytest

from tests.pasted import first, root

ZOMBIE, OTHERS, SMI = "zombie-gpu-process", "gpu-memory-held-by-others", "nvidia-smi-missing"
NO_ACCESS, SCHEDULER, WSL_GPU, WSL_DRIVER = (
    "container-no-gpu-access",
    "scheduler-gave-no-gpu",
    "wsl-gpu-unavailable",
    "wsl-linux-driver-installed",
)
FULL = "numba.cuda.cudadrv.driver.CudaAPIError: [2] Call to cuMemAlloc results in CUDA_ERROR_OUT_OF_MEMORY\n"
NONE_HERE = "RuntimeError: No CUDA GPUs are available\n"
WSL = "Linux version 5.15.90.1-microsoft-standard-WSL2 (root@1c602f52c2e4) (gcc 11.2.0)\n"
ON_CPU = "program-not-on-gpu"
AVAILABLE = "torch.cuda.is_available(): True\n"
IDLE = (
    "| NVIDIA-SMI 550.120                Driver Version: 550.120        CUDA Version: 12.4     |\n"
    "|=========================================+========================+======================|\n"
    "|   0  NVIDIA GeForce RTX 4070        Off |   00000000:01:00.0 Off |                  N/A |\n"
    "|  0%   33C    P8              9W /  200W |       2MiB /  12282MiB |      0%      Default |\n"
)
CODEC = "[h264_nvenc @ 0x55d0c1a2bc80] Cannot load libnvidia-encode.so.1\n"
REASONS = "index, clocks_throttle_reasons.hw_slowdown, clocks_throttle_reasons.sw_thermal_slowdown\n"
LIST = (
    "$ nvidia-smi --query-gpu=index,clocks_throttle_reasons.hw_slowdown,clocks_throttle_reasons.sw_thermal_slowdown --format=csv\n"
    + REASONS
)
STARTED = "docker: OCI runtime create failed: error running hook #0: error running hook: exit status 1\n"
TABLE = "| NVIDIA-SMI 535.104.12    Driver Version: 535.104.12   CUDA Version: {} |\n"
NO_LIBCUDA = "docker run --gpus all my/image\nerror while loading shared libraries: libcuda.so.1: cannot open shared object file\n"
VOID = "kubectl exec triton-0 -- env\nNVIDIA_VISIBLE_DEVICES=void\n"
NEITHER = "In the Dev Container:\nRuntimeError: Found no NVIDIA driver on your system.\n$ nvidia-smi\nbash: nvidia-smi: command not found\n"
RULES = "docker run --gpus all my/image\n# cat /sys/fs/cgroup/devices/docker/3ff0/devices.list\nc *:* m\nb *:* m\nc 1:5 rwm\n{}\n"
CUSTOM = 'docker: Error response from daemon: error gathering device information while adding custom device "/dev/nvidia0": no such file or directory.\n'


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("The GPU memory is not released after I kill the script, nvidia-smi shows it.", ZOMBIE),
        ("nvidia-smi: 程序被 kill 之后显存没有释放", ZOMBIE),
        ("Der GPU-Speicher wird nach kill -9 nicht freigegeben, nvidia-smi zeigt keinen Prozess", ZOMBIE),
        ("nvidia-smi says no running processes found but 22 GB are used", ZOMBIE),
        ("nvidia-smi says 38 GB of 40 are used but the process list is empty.", ZOMBIE),
        ("nvidia-smi zeigt 11 GB als belegt und unten keinen einzigen Eintrag, CUDA geht nicht.", ZOMBIE),
        (FULL + "11 GB are taken and the process table is empty. We have no Docker here.", ZOMBIE),
        (FULL + "11 GB are taken and the process table is empty. We use Docker here.", "program-out-of-memory"),
        (AVAILABLE + "next(model.parameters()).device: cpu", ON_CPU),
        (AVAILABLE + "[10:00:31] model on cuda, 88.1M parameters", None),
        (IDLE + "During the training there is nothing on the card.", ON_CPU),
        ("nvidia-smi shows how much GPU memory each process uses", None),
        (FULL + "another user's process uses 20 GB of it", OTHERS),
        (FULL + "my colleague's notebook still holds 10 GB", OTHERS),
        (FULL + "with another batch size too", "program-out-of-memory"),
        ("In the Slurm cluster srun sees no GPU.", SCHEDULER),
        ("The docker container does not see the GPU.", NO_ACCESS),
        ("In WSL2 no CUDA devices are visible, docker is not used.", WSL_GPU),
        (NONE_HERE + "It runs in a Proxmox LXC.", NO_ACCESS),
        (NONE_HERE + "docker run --gpus all x; after a day it is gone, docker compose restart and it is back.", "container-lost-devices"),
        (NONE_HERE + "It runs as a Slurm job.", SCHEDULER),
        (NONE_HERE, "driver-not-loaded"),
        ("AttributeError: module 'jax' has no attribute 'devices'", "python-module-shadowed"),
        ("AttributeError: module 'jax' has no attribute 'xla_computation'", "python-abi-mismatch"),
        (CODEC, "driver-libraries-incomplete"),
        (CODEC + "It is the docker image of Jellyfin.", "container-driver-capabilities"),
    ],
)
def test_what_is_likeliest(text: str, cause: str | None) -> None:
    assert (root(text), first(text)) == (None, cause)


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("$ nvidia-smi\nbash: nvidia-smi: command not found\n$ ./deviceQuery\nResult = PASS", SMI),
        ("$ nvidia-smi\nbash: nvidia-smi: command not found\ntorch.cuda.is_available() returns True", SMI),
        ("$ nvidia-smi\nbash: nvidia-smi: command not found\n", None),
        (WSL + "modprobe: FATAL: Module nvidia not found in directory /lib/modules/5.15.90.1-microsoft-standard-WSL2", WSL_DRIVER),
        (WSL + "nvidia-container-cli: initialization error: driver error: failed to process request: unknown", WSL_GPU),
        ("nvidia-container-cli: initialization error: driver error: failed to process request: unknown", "container-hook-failed"),
        (STARTED + "NVIDIA_REQUIRE_CUDA=cuda>=12.4\n" + TABLE.format("12.2"), "container-cuda-too-new"),
        (STARTED + "NVIDIA_REQUIRE_CUDA=cuda>=12.4\n" + TABLE.format("12.4"), None),
        (STARTED + "NVIDIA_REQUIRE_CUDA=cuda>=12.4 brand=tesla,driver>=535,driver<536\n" + TABLE.format("12.2"), None),
        (NO_LIBCUDA + "-e NVIDIA_DRIVER_CAPABILITIES=graphics,utility\n", "container-driver-capabilities"),
        (NO_LIBCUDA + "-e NVIDIA_DRIVER_CAPABILITIES=graphics,utility,compute\n", "libcuda-missing"),
        (VOID + "CUDA driver version is insufficient for CUDA runtime version\n", NO_ACCESS),
        (VOID.replace("void", "all") + "CUDA driver version is insufficient for CUDA runtime version\n", None),
        (NEITHER + "With docker run --gpus all the same image does not work.\n", "libcuda-missing"),
        (RULES.format("c 1:3 rwm") + NONE_HERE, "container-lost-devices"),
        (RULES.format("c 195:* rwm") + NONE_HERE, None),
        (CUSTOM + "Context: desktop-linux\n", "container-engine-sandboxed"),
        (CUSTOM, "device-nodes-missing"),
        (WSL + NONE_HERE + "Install: libnvidia-compute-550:amd64 (550.54.14, automatic), cuda:amd64 (12.4.0-1)\n", WSL_DRIVER),
        (WSL + NONE_HERE + "$ readlink -f libcuda.so.1\n/usr/lib/x86_64-linux-gnu/libcuda.so.535.183.01\n", WSL_DRIVER),
        (WSL + NONE_HERE + "ls: cannot access '/usr/lib/wsl': No such file or directory\n", WSL_GPU),
        (WSL + NONE_HERE + "/usr/lib/wsl/lib/libcuda.so.1\n", None),
        (LIST + "0, Not Active, Active", "thermal-or-power-throttling"),
        (LIST + "0, Not Active, Not Active", None),
    ],
)
def test_what_two_lines_together_show(text: str, cause: str | None) -> None:
    assert root(text) == cause
