"""What an answer, a file or a second GPU of a text decides (parsers/answers.py, texts/tie_breakers/fit.py), and where it does not."""

from __future__ import annotations

import pytest

from tests.pasted import first, root

NO_CONTACT = "$ nvidia-smi\nNVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest\n"
NONE = "RuntimeError: no CUDA-capable device is detected\n"
NO_DRIVER = "RuntimeError: Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU\n"
KERNEL = "driver-module-missing-for-kernel"
UNAME = "$ uname -r\n6.8.1-arch1-1\n"
TABLE = (
    "| NVIDIA-SMI {}      Driver Version: {}      CUDA Version: 10.2     |\n"
    "|   0  GeForce GTX 108...  Off  | 00000000:0A:00.0  On |                  N/A |\n"
    "|  0%   48C    P8    18W / 250W |    611MiB / 11177MiB |      2%      Default |\n"
)
TWO = (
    "09:00.0 VGA compatible controller: NVIDIA Corporation Device 2204 (rev a1)\n"
    "0a:00.0 VGA compatible controller: NVIDIA Corporation GP102 [GeForce GTX 1080 Ti] (rev a1)\n"
)
NEW_AND_OLD = (
    "01:00.0 VGA compatible controller [0300]: NVIDIA Corporation {} [10de:{}] (rev a1)\n"
    "42:00.0 VGA compatible controller [0300]: NVIDIA Corporation GP107 [GeForce GT 1030] [10de:1d01] (rev a1)\n"
)
LOADED = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.120  Fri Sep 13 10:01:08 UTC 2024\n$ nvidia-smi\nNo devices were found\n"
COMPOSE = "services:\n  api:\n    image: org/api:1\n    ports: ['80:80']\n{}\napi_1  | " + NO_DRIVER
INSPECT = "$ docker inspect ollama --format '{{json .HostConfig.DeviceRequests}} {{.HostConfig.Runtime}}'\n"
NO_NODES = (
    "Inside the container libcuda.so.1: cannot open shared object file: No such file or directory\nimage nvidia/cuda:12.4 --gpus all\n"
)
IDS = "$ cat /proc/cmdline\nro quiet vfio-pci.ids=10de:{},10de:10ef\n42:00.0 VGA compatible controller [0300]: NVIDIA Corporation GP102 [10de:1b06]\n"
NVCUDA = "CUDA: Not detected: Failed to open dynamic library 'nvcuda.dll': The specified module could not be found.\n"
REFUSED = "$ nvidia-smi -L\nFailed to initialize NVML: Insufficient Permissions\n"
OF_A_LINK = (
    "Run kernel on GPU1, taking source data from GPU0 and writing to GPU1...\nVerification error @ element 1: val = 0.000000, ref = 4.000000\n"
    "\t Link 4: Replay Errors: {}\n"
)
BUILD = "Error! Bad return status for module build on kernel: {} (aarch64)\nBuilding module nvidia-dkms-535\n"
JETSON = "$ cat /etc/nv_tegra_release\n# R32 (release), REVISION: 6.1\n" + NONE
IN_WSL = "In my WSL2 Ubuntu nvidia-smi works.\nUserWarning: CUDA initialization: CUDA unknown error - this may be due to an incorrectly set up environment\n"


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (UNAME + "$ ls /lib/modules\n6.8.2-arch2-1\n" + NO_CONTACT, KERNEL),
        (UNAME + "$ ls /lib/modules\n6.8.1-arch1-1  6.8.2-arch2-1\n" + NO_CONTACT, None),
        (UNAME + "$ pacman -Q linux\nlinux 6.8.2.arch2-1\n" + NO_CONTACT, KERNEL),
        (UNAME + "$ pacman -Q linux\nlinux 6.8.1.arch1-1\n" + NO_CONTACT, None),
        (UNAME + "$ pacman -Q linux-lts\nlinux-lts 6.6.22-1\n" + NO_CONTACT, None),
        (TABLE.format("440.100", "440.100") + TWO, "driver-too-old-for-gpu"),
        (TABLE.format("535.183.01", "535.183.01") + TWO, None),
        (COMPOSE.format(""), "container-no-gpu-access"),
        (COMPOSE.format("    runtime: nvidia\n"), "libcuda-missing"),
        ("docker run --rm --gpus all nvidia/cuda:11.8 nvidia-smi\n" + COMPOSE.format("    ...\n"), "libcuda-missing"),
        (NO_NODES, "libcuda-missing"),
        (IDS.format("1b06") + NO_CONTACT, "vfio-bound"),
        (IDS.format("2204") + NO_CONTACT, None),
        (NVCUDA + "Device Manager has Microsoft Basic Display Adapter.\n", "driver-not-installed"),
        (NVCUDA, "libcuda-missing"),
        (REFUSED + "$ sudo setenforce 0\n$ nvidia-smi -L\nGPU 0: NVIDIA RTX A4000 (UUID: GPU-7d7f9f5a)\n", "security-policy-denies-devices"),
        (REFUSED + "$ sudo setenforce 0\n" + REFUSED, "device-permission-denied"),
        (OF_A_LINK.format(4391), "nvlink-error"),
        (OF_A_LINK.format(0), "peer-access-broken"),
        (BUILD.format("5.10.120-tegra"), "driver-wrong-platform"),
        (BUILD.format("6.8.0-45-generic"), "driver-build-failed"),
        (JETSON + "sudo apt install nvidia-driver-470\n", "driver-wrong-platform"),
        (JETSON + "sudo apt install nvidia-cuda-toolkit\n", None),
        ("ENV NVIDIA_DRIVER_CAPABILITIES graphics,utility\n" + "libcuda.so.1: cannot open shared object file: No such file or directory\n", "container-driver-capabilities"),
    ],
)  # fmt: skip
def test_what_is_compared_decides(text: str, cause: str | None) -> None:
    assert root(text) == cause


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (INSPECT + "null runc\n", "container-no-gpu-access"),
        (INSPECT + "null nvidia\n", None),
        ('container, nvidia\n  "DeviceRequests": null,\n', "container-no-gpu-access"),
        ('container, nvidia\n  "DeviceRequests": null,\n  "Runtime": "nvidia",\n', None),
        (NEW_AND_OLD.format("GB202", "2b85") + LOADED, "driver-too-old-for-gpu"),
        (NO_CONTACT + "I did rmmod nvidia_uvm nvidia before.\n", "driver-not-loaded"),
        (NO_CONTACT + "The previous kernel works.\n", KERNEL),
        (IN_WSL + "I typed sudo apt install cuda\n", "wsl-linux-driver-installed"),
        (IN_WSL + "I typed sudo apt install cuda-toolkit-12-4\n", "uvm-unavailable"),
    ],
)
def test_what_is_compared_comes_first(text: str, cause: str | None) -> None:
    assert first(text) == cause


def test_a_driver_that_drives_all_of_them_is_not_too_old() -> None:
    assert first(NEW_AND_OLD.format("GA102", "2204") + LOADED) != "driver-too-old-for-gpu"
