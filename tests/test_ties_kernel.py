"""What a text's own facts decide about driver, device nodes and the state of a device (checks/ties/driver.py and device.py)."""

from __future__ import annotations

import pytest

from tests.pasted import root, suspects

NO_CONTACT = "$ nvidia-smi\nNVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest\n"
NONE = "RuntimeError: no CUDA-capable device is detected\n"
LISTED = "$ nvidia-smi -L\nGPU 0: NVIDIA GeForce RTX 4060 Ti (UUID: GPU-5f1d2e94-21aa-0f4c-d1a3-9b3c2b6c8d70)\n"
NAMED = "export CUDA_VISIBLE_DEVICES=GPU-{}\n" + NONE
ROWS = "$ nvidia-smi --query-gpu=index,memory.used --format=csv\nindex, memory.used [MiB]\n0, 4 MiB\n1, 4 MiB\n"
NOT_RUNNING = "I cuda_diagnostics.cc:156] kernel driver does not appear to be running on this host (node07): /proc/driver/nvidia/version does not exist\n"
NO_COMPILER = "/bin/sh: 1: /usr/local/cuda/bin/nvcc: not found\n"
STUB = "/usr/bin/ld: warning: libcuda.so.1, needed by libenc.so, not found (try using -rpath)\nError: cuInit failed with error code 34\n"
NO_SMI = "$ nvidia-smi\nbash: nvidia-smi: command not found\n"
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
        (NAMED.format("0e8e8a6b-5b2c-7d31-a5fb-2c4c0f0b7e11") + LISTED, "cuda-visible-devices-invalid"),
        (NAMED.format("5f1d2e94") + LISTED, None),
        ('$ CUDA_VISIBLE_DEVICES=2 python -c "import torch;print(torch.cuda.device_count(), torch.cuda.is_available())"\n0 False\n' + ROWS, "cuda-visible-devices-invalid"),
        ('$ CUDA_VISIBLE_DEVICES=1 python -c "import torch;print(torch.cuda.device_count(), torch.cuda.is_available())"\n0 False\n' + ROWS, None),
        ('julia> ENV["CUDA_VISIBLE_DEVICES"]=""\nERROR: CUDA error: initialization error (code 3)\n', "cuda-visible-devices-hides-all"),
        ('julia> ENV["CUDA_VISIBLE_DEVICES"]="0"\nERROR: CUDA error: initialization error (code 3)\n', None),
        (NOT_RUNNING, "driver-not-loaded"),
        (NOT_RUNNING + LISTED, None),  # it runs
        (NO_COMPILER, "cuda-home-wrong"),
        ("FROM nvidia/cuda:12.1.1-runtime-ubuntu22.04\n" + NO_COMPILER, "toolkit-missing"),
        ("FROM nvidia/cuda:12.1.1-devel-ubuntu22.04\n" + NO_COMPILER, "cuda-home-wrong"),
        (STUB, "libcuda-stub-loaded"),
        (NO_SMI + "OpenGL vendor string: NVIDIA Corporation\n", "nvidia-smi-missing"),
        (NO_SMI + "OpenGL vendor string: Mesa\n", None),
        ('$ python -c "import torch; print(torch.cuda.get_device_name(0))"\nNVIDIA GeForce RTX 2060\n' + NO_SMI, "nvidia-smi-missing"),
        ('$ python -c "import cupy; print(cupy.cuda.runtime.getDeviceCount())"\n0\n' + NO_SMI, None),
        ("CUDA_ERROR_INVALID_DEVICE (101)\nThe GPUs here are in compute exclusive mode.\n", "compute-mode-blocks"),
        ("CUDA_ERROR_INVALID_DEVICE (101)\n", "cuda-visible-devices-invalid"),
        ("nvcc fatal   : Unsupported gpu architecture 'compute_61'\nrelease 13.0, V13.0.48\nCuda compilation tools, release 13.0, V13.0.48\n"
         "It is a 1080 Ti.\n", "toolkit-dropped-gpu"),
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
def test_the_text_decides(text: str, cause: str | None) -> None:
    assert named(text)[0] == cause


@pytest.mark.parametrize(
    ("text", "suspect"),
    [
        (NOT_FOUND, "driver-not-installed"),
        (NO_CONTACT, "driver-not-loaded"),
        (BUSY, "compute-mode-blocks"),
        (BUSY + "Not in compute-exclusive mode.  Suggestion: use 'nvidia-smi -c 3' to set compute exclusive mode\n", "compute-mode-blocks"),
        (UNKNOWN, "uvm-unavailable"),
        ('msg="Unable to load cudart library libcuda.so.575.57.08: cuda driver library init failure: 3"\n', "uvm-unavailable"),
        (
            "Your CUDA samples see nothing.\n| NVIDIA-SMI 470.223.02   Driver Version: 470.223.02   CUDA Version: 12.2     |\n",
            "forward-compat-unsupported",
        ),
        ("Your CUDA samples see nothing.\n| NVIDIA-SMI 470.223.02   Driver Version: 470.223.02   CUDA Version: 11.4     |\n", None),
        (
            "$ env\nSLURM_JOB_ID=90\njax.errors.JaxRuntimeError: INTERNAL: no supported devices found for platform CUDA\n",
            "scheduler-gave-no-gpu",
        ),
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
def test_what_stays_open(text: str, suspect: str | None) -> None:
    assert named(text) == (None, suspect)
