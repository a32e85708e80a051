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
        (UNKNOWN + "$ ulimit -v\n8388608\n", "process-limits"),
        (UNKNOWN + "systemd unit with LimitNOFILE=24\n", "process-limits"),
        (UNKNOWN + "podman run --device nvidia.com/gpu=all --pids-limit=20 cupy/cupy:v12.3.0\n", "process-limits"),
        (UNKNOWN + "# cat /sys/fs/cgroup/pids.max /sys/fs/cgroup/pids.current\n20\n17\n", "process-limits"),
        (REFUSED.format("2684", "515.65.01"), "driver-too-old-for-gpu"),  # Ada
        (REFUSED.format("1292", "535.129.03"), "driver-too-new-for-gpu"),  # Kepler
        (REFUSED.format("1eb8", "525.85.12") + "The guest runs on VMware ESXi.\n", "vgpu-problem"),
        (REFUSED.format("25a0", "520.56.06") + "XPS 9520 laptop\n", "gpu-powered-off"),
        (INSUFFICIENT + "rootless podman, --userns=keep-id\n", "security-policy-denies-devices"),
        (INSUFFICIENT + "docker run --privileged works\n", "security-policy-denies-devices"),
        ("$ ls -l /dev/nvidia*\n" + NODES.format("-rw-", "-rw-") + "open /dev/nvidiactl: permission denied\n", "security-policy-denies-devices"),
        (INSUFFICIENT, "device-permission-denied"),
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
        (REFUSED.format("2882", "525.60.13"), "driver-too-old-for-gpu"),  # a late card of the generation
    ],
)
def test_what_stays_open(text: str, suspect: str) -> None:
    assert named(text) == (None, suspect)
