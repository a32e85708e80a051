"""What a text's own facts decide about driver, device nodes and the state of a device (checks/ties/driver.py and device.py)."""

from __future__ import annotations

import pytest

from tests.pasted import root, suspects

NO_CONTACT = "$ nvidia-smi\nNVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest\n"
SELECTED = "libnvidia-compute-510:amd64                     install\n"
NOT_FOUND = "modprobe: FATAL: Module nvidia not found in directory /lib/modules/6.8.0-45-generic\n"
BUSY = "RuntimeError: CUDA error: CUDA-capable device(s) is/are busy or unavailable\n"
UNKNOWN = "cuInit returned 999\n"
REFUSED = (
    "NVRM: The NVIDIA GPU 0000:01:00.0 (PCI ID: 10de:{})\n"
    "NVRM: installed in this system is not supported by the\n"
    "NVRM: NVIDIA {} driver release.\n"
)
INSUFFICIENT = "Failed to initialize NVML: Insufficient Permissions\n"
NODES = "".join(f"crw-rw{{}} 1 root video 195, {number} Nov 21 10:00 /dev/{name}\n" for number, name in enumerate(("nvidia0", "nvidiactl")))

OPEN_NODES = NODES.format("-rw-", "-rw-")
MINORS = (
    "/proc/driver/nvidia/gpus/0000:19:00.0/information:Device Minor: \t 0\n"
    "/proc/driver/nvidia/gpus/0000:1a:00.0/information:Device Minor: \t 1\n"
)
BLOCKED = "$ nvidia-smi\nFailed to initialize NVML: GPU access blocked by the operating system\n"
VERSION = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  510.85.02  Tue Jul 12 16:51:23 UTC 2022\n"
NOT_ON_JETSON = "nvidia-headless-525-server/now 525.147.05-0ubuntu0.20.04.1 arm64 [installed,local]\nNVRM: No NVIDIA GPU found.\n"
INIT_FAILED = "NVRM: GPU 0000:00:08.0: RmInitAdapter failed! (0x22:0x65:1436)\n"
NO_UVM = "no NVIDIA GPU device is present: /dev/nvidia0 does not exist\n"


def named(text: str) -> tuple[str | None, str | None]:
    """The root, and the likeliest suspect."""
    return root(text), next(iter(suspects(text)), None)


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (NOT_FOUND + "$ dkms status\nnvidia/535.183.01, 6.5.0-28-generic, x86_64: installed\n", "driver-module-missing-for-kernel"),
        (NOT_FOUND + "$ dpkg -l | grep nvidia\n$ \n", "driver-not-installed"),
        ("make: /usr/local/cuda/bin/nvcc: Command not found\n$ which nvcc\n/usr/bin/nvcc\n", "cuda-home-wrong"),
        ("make: /usr/local/cuda/bin/nvcc: Command not found\n", "toolkit-missing"),
        ("CUDA does not work in WSL 2.\n$ dpkg --get-selections | grep nvidia\n" + SELECTED, "wsl-linux-driver-installed"),
        ("CUDA does not work.\n$ dpkg --get-selections | grep nvidia\n" + SELECTED, None),
        (NO_CONTACT + "$ modinfo -F version nvidia\n580.105.08\n", "driver-not-loaded"),
        (NO_CONTACT + "$ modinfo -F version nvidia\n580.105.08\n$ mokutil --sb-state\nSecureBoot enabled\n", "secure-boot-blocks-module"),
        (BUSY + "$ nvidia-smi -c 3\n", "compute-mode-blocks"),
        (BUSY + "index, compute_mode\n0, Exclusive_Process\n", "compute-mode-blocks"),
        (BUSY + "GRID licensing issue on this vGPU\n", "vgpu-problem"),
        (UNKNOWN + "It broke after the laptop resumed from suspend.\n", "uvm-unavailable"),
        (UNKNOWN + "nvidia_drm 61440 0\nnvidia_modeset 1064960 1 nvidia_drm\nnvidia 4501504 1 nvidia_modeset\n", "uvm-unavailable"),
        (UNKNOWN + "$ ulimit -v 8388608\n", "process-limits"),
        (REFUSED.format("2684", "515.65.01"), "driver-too-old-for-gpu"),  # Ada
        (REFUSED.format("1292", "535.129.03"), "driver-too-new-for-gpu"),  # Kepler
        (REFUSED.format("1eb8", "525.85.12") + "The guest runs on VMware ESXi.\n", "vgpu-problem"),
        (REFUSED.format("25a0", "520.56.06") + "XPS 9520 laptop\n", "gpu-powered-off"),
        (INSUFFICIENT + "rootless podman, --userns=keep-id\n", "security-policy-denies-devices"),
        (INSUFFICIENT + "docker run --privileged works\n", "security-policy-denies-devices"),
        ("$ ls -l /dev/nvidia*\n" + NODES.format("-rw-", "-rw-") + "open /dev/nvidiactl: permission denied\n", "security-policy-denies-devices"),
        (INSUFFICIENT, "device-permission-denied"),
        (UNKNOWN + "$ ls -l /dev/nvidia*\n" + OPEN_NODES, "uvm-unavailable"),
        (UNKNOWN + "$ ls /dev/nv*\n/dev/nvidia0  /dev/nvidiactl  /dev/nvidia-modeset  /dev/nvram\n", "uvm-unavailable"),
        (MINORS + "$ ls /dev/nvidia*\n/dev/nvidia0  /dev/nvidiactl  /dev/nvidia-uvm\n", "device-nodes-missing"),
        (BLOCKED + VERSION, "device-nodes-missing"),
        (NOT_ON_JETSON + "5.10.120-tegra aarch64\n", "driver-wrong-platform"),
        (INIT_FAILED + "|      3251634213  GRID T4-4Q     | 2b5c...   guest  |      0%    |\n", "vgpu-problem"),
        (INIT_FAILED, "gpu-init-failed"),
        (NO_UVM, "device-nodes-missing"),
        (NO_UVM + "$ ls /dev/nv*\n/dev/nvidia0  /dev/nvidiactl  /dev/nvidia-uvm\n", None),
        ("a program without multiprocessing: cuInit returned 3\n", "uvm-unavailable"),
    ],
)  # fmt: skip
def test_the_text_decides(text: str, cause: str) -> None:
    assert named(text)[0] == cause


@pytest.mark.parametrize(
    ("text", "suspect"),
    [
        (NOT_FOUND, "driver-not-installed"),
        (NO_CONTACT, "driver-not-loaded"),
        (BUSY, "compute-mode-blocks"),
        (BUSY + "Not in compute-exclusive mode.  Suggestion: use 'nvidia-smi -c 3' to set compute exclusive mode\n", "compute-mode-blocks"),
        (UNKNOWN, "uvm-unavailable"),
        (UNKNOWN + "$ ls /dev/nv*\n/dev/nvidia0  /dev/nvidiactl  /dev/nvidia-uvm\n", "uvm-unavailable"),
        (UNKNOWN + "$ ls -l /dev/nvidiactl /dev/nvidia0\n" + OPEN_NODES, "uvm-unavailable"),
        (MINORS + "$ ls /dev/nvidia*\n/dev/nvidia0  /dev/nvidia1  /dev/nvidiactl  /dev/nvidia-uvm\n", None),
        (BLOCKED, "wsl-gpu-unavailable"),
        (NOT_ON_JETSON, "no-nvidia-gpu"),
        (NOT_ON_JETSON + "5.10.120-tegra aarch64, Jetson Thor\n", "no-nvidia-gpu"),
        ("a program with multiprocessing: cuInit returned 3\n", "program-forked-after-init"),
        (REFUSED.format("2882", "525.60.13"), "driver-too-old-for-gpu"),  # a late card of the generation
    ],
)
def test_what_stays_open(text: str, suspect: str) -> None:
    assert named(text) == (None, suspect)
