"""What a text's own facts decide about driver, device nodes and the state of a device (texts/tie_breakers/driver.py and device.py)."""

from __future__ import annotations

import pytest

from tests.cases import todays
from tests.judging import KNOWLEDGE
from tests.pasted import first, root, suspects

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
OPEN_MODULES = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (dvs-builder@U22)\n"
NO_NODES = (
    "# incus config show {}\n{}\n  eth0:\n    type: nic\n# incus exec ml -- bash\n# ls /dev/nvidia*\n"
    "ls: cannot access '/dev/nvidia*': No such file or directory\n# python3 -c 'import torch; print(torch.cuda.is_available())'\nFalse\n"
)
BLOCKED = "$ nvidia-smi\nFailed to initialize NVML: GPU access blocked by the operating system\n"
VERSION = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  510.85.02  Tue Jul 12 16:51:23 UTC 2022\n"
NOT_ON_JETSON = "nvidia-headless-525-server/now 525.147.05-0ubuntu0.20.04.1 arm64 [installed,local]\nNVRM: No NVIDIA GPU found.\n"
INIT_FAILED = "NVRM: GPU 0000:00:08.0: RmInitAdapter failed! (0x22:0x65:1436)\n"
NO_UVM = "no NVIDIA GPU device is present: /dev/nvidia0 does not exist\n"


ADDED = "$ dpkg -l | grep nvidia\nii  linux-modules-nvidia-535-{}  1.2+1  amd64  modules\nii  nvidia-utils-535  535.161.07-0ubuntu0.22.04.1  amd64  x\n"
RUNNING = "$ uname -r\n6.5.0-1014-aws\n"
NO_DRIVER = "RuntimeError: Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU\n"
A_CARD = "3b:00.0 3D controller: NVIDIA Corporation TU104GL [Tesla T4] (rev a1)\n"
ASKED_BUS = "$ lspci -d 10de:\n$ uptime\n"
AT_BOOT = "[    0.5] pci 0000:09:00.0: [10de:1b81] type 00 class 0x030000\n"
CARD_OFF = "01:00.0 3D controller: NVIDIA Corporation GP108M [GeForce MX150] (rev ff)\n"
NUC = (
    "$ lspci\n00:00.0 Host bridge: Intel Corporation 11th Gen Core Processor Host Bridge/DRAM Registers (rev 01)\n"
    "00:02.0 VGA compatible controller: Intel Corporation TigerLake-LP GT2 [Iris Xe Graphics] (rev 01)\n"
)
NO_SUPPORT = "WARNING: You do not appear to have an NVIDIA GPU supported by the 470.57.02 NVIDIA Linux graphics driver\n"
NO_OWNER = (
    "ERROR: Unable to load the kernel module 'nvidia.ko'.  This happens most frequently when this kernel module was built against the\n"
    "wrong kernel sources, or if another driver is present and prevents the NVIDIA kernel module from obtaining ownership of the NVIDIA GPU(s)\n"
)
BY_NOUVEAU = "[    2.601180] nouveau 0000:01:00.0: NVIDIA GP107 (137000a1)\n"
INSERT = "modprobe: ERROR: could not insert 'nvidia': No such device\n"
TWO_CARDS = (
    "01:00.0 VGA compatible controller: NVIDIA Corporation TU117 [GeForce GTX 1650] (rev a1)\n"
    "05:00.0 VGA compatible controller: NVIDIA Corporation GK107 [GeForce GT 640] (rev a1)\n"
)


@pytest.mark.parametrize("one_in", [4, pytest.param(1, marks=pytest.mark.long)])
def test_a_line_that_says_no_more_than_no_such_device_dilutes_none(one_in: int) -> None:
    """Beside any line that states why a driver finds no device, before or behind it."""
    causes = [cause for cause in KNOWLEDGE.causes.values() if {"driver", "pci"} & set(cause.breaks)]
    said = [
        (cause.id, line) for cause in causes for match in cause.match for line in match.examples if not (match.suspects or match.advice)
    ]
    clear = [(cause, line) for cause, line in todays(said, one_in) if (root(line), suspects(line)) == (cause, [])]
    assert len(clear) > 80 / one_in
    for cause, line in clear:
        for text in (f"{INSERT}{line}\n", f"{line}\n{INSERT}"):
            assert (root(text), suspects(text)) == (cause, []), text


def named(text: str) -> tuple[str | None, str | None]:
    """The root, and the likeliest suspect."""
    return root(text), next(iter(suspects(text)), None)


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (NOT_FOUND + "$ dkms status\nnvidia/535.183.01, 6.5.0-28-generic, x86_64: installed\n", "driver-module-missing-for-kernel"),
        (NOT_FOUND + "$ dpkg -l | grep nvidia\n$ \n", "driver-not-installed"),
        (A_CARD + NO_SMI + NOT_FOUND, "driver-not-installed"),
        (A_CARD + NO_SMI, None),
        (A_CARD + NOT_FOUND, None),
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
        (RUNNING + ADDED.format("6.5.0-21-generic") + NO_CONTACT, "driver-module-missing-for-kernel"),
        (RUNNING + ADDED.format("6.5.0-1014-aws") + NO_CONTACT, None),
        (RUNNING + "/lib/modules/6.5.0-21-generic/updates/dkms/nvidia.ko\n" + NO_CONTACT, "driver-module-missing-for-kernel"),
        ("/lib/modules/6.5.0-21-generic/updates/dkms/nvidia.ko\n" + NO_CONTACT, None),
        (NO_DRIVER + A_CARD + "$ find /lib/modules -name 'nvidia*.ko*'\n$ uptime\n", "driver-not-installed"),
        (NO_DRIVER + A_CARD + "$ find /lib/modules -name 'nvidia*.ko*'\nfind: '/lib/modules': No such file or directory\n$ ls\n", "libcuda-missing"),
        (NO_DRIVER + A_CARD + "$ find /lib/modules -name 'nvidia*.ko*' 2>/dev/null\n$ ls\n", "libcuda-missing"),
        (NO_DRIVER + A_CARD + "$ find /lib/modules -name 'nvidia*.ko*'\n/lib/modules/6.8.0-45-generic/nvidia.ko\n$ ls\n", "libcuda-missing"),
        (NO_DRIVER + A_CARD + "$ dpkg -l '*nvidia*'\ndpkg-query: no packages found matching *nvidia*\n", "driver-not-installed"),
        (NO_DRIVER + ASKED_BUS, "no-nvidia-gpu"),
        (NO_DRIVER + "$ lspci -d 10de:\n" + A_CARD + "$ uptime\n", "libcuda-missing"),
        (NO_DRIVER + ASKED_BUS + "It is a laptop.\n", "libcuda-missing"),
        (NO_DRIVER + ASKED_BUS + AT_BOOT, "gpu-fell-off-bus"),
        ("[root@a1 ~]# lspci\n" + A_CARD + NO_DRIVER + "[root@a2 ~]# lspci -d 10de:\n[root@a2 ~]# exit\n", "no-nvidia-gpu"),
        (NO_DRIVER + A_CARD + ASKED_BUS, "libcuda-missing"),
        ("[root@a1 ~]# ls\n" + NO_DRIVER + "[root@a2 ~]# lspci -d 10de:\n" + A_CARD + "[root@a2 ~]# exit\n", "libcuda-missing"),
        (NO_SUPPORT + NUC + "\nWhich file do I need?\n", "no-nvidia-gpu"),
        (NO_SUPPORT + NUC, None),
        (NO_OWNER + BY_NOUVEAU, "nouveau-bound"),
        (NO_OWNER, None),
        (CARD_OFF + "[    9.8] bbswitch: disabling discrete graphics\n", "gpu-powered-off"),
        (CARD_OFF, "gpu-fell-off-bus"),
        ("0000:25:00.0 nvidia\n0000:65:00.0 vfio-pci\n", "vfio-bound"),
        ("0000:25:00.0 snd_hda_intel\n0000:65:00.0 vfio-pci\n", None),
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
        (INSERT, "nouveau-bound"),
        (INSERT + "I gave the card to a Windows VM, this is the guest.\n", "nouveau-bound"),
        (OPEN_MODULES + "cuInit failed: 3 (CUDA_ERROR_NOT_INITIALIZED)\n", "uvm-unavailable"),  # or kaslr-breaks-hmm
        (NO_NODES.format("ml", "devices:"), "container-no-gpu-access"),  # its profile may have one
        (NO_NODES.format("ml --expanded", "config:"), "container-no-gpu-access"),  # shows no devices
    ],
)
def test_what_stays_open(text: str, suspect: str | None) -> None:
    assert named(text) == (None, suspect)


HELD = "01:00.0 VGA compatible controller: NVIDIA Corporation GA102 [GeForce RTX 3080] (rev a1)\n\tKernel driver in use: {}\n"


@pytest.mark.parametrize(
    ("driver", "words"),
    [
        ("nouveau", "I use nouveau on purpose."),
        ("nouveau", "I don't want NVIDIA's driver here."),
        ("vfio-pci", "The Windows guest works perfectly."),
    ],
)
def test_a_driver_that_its_owner_wants_is_no_more_than_a_suspect(driver: str, words: str) -> None:
    assert root(HELD.format(driver)) is not None
    assert root(HELD.format(driver) + words) is None
    assert first(HELD.format(driver) + words) == root(HELD.format(driver))


TWO_SIDES = "$ cat /sys/module/nvidia/version\n470.182.03\nUpgrade: libnvidia-compute-470:amd64 (470.129.06-0ubuntu1, {}-0ubuntu1)\n"


def test_an_upgrade_since_the_module_was_loaded_is_a_mismatch() -> None:
    assert root(UNKNOWN + TWO_SIDES.format("470.199.02")) == "driver-version-mismatch"
    assert root(UNKNOWN + TWO_SIDES.format("470.182.03")) is None


@pytest.mark.parametrize(
    ("version", "cause"),
    [
        ("$ cat /sys/module/nvidia/version\n525.89.02\n", "driver-too-new-for-gpu"),
        ("$ cat /sys/module/nvidia/version\n470.199.02\n", None),
        ("name, driver_version\nNVIDIA GeForce GTX 1650, 525.89.02\n", "driver-too-new-for-gpu"),
        ("name, driver_version\nNVIDIA GeForce GTX 1650, 470.199.02\n", None),
    ],
)
def test_a_second_card_that_the_loaded_driver_has_dropped(version: str, cause: str | None) -> None:
    assert first(TWO_CARDS + version) == cause


BAD_RETURN = "Error! Bad return status for module build on kernel: 6.8.0-40-generic (x86_64)\nConsult /var/lib/dkms/{}/make.log for more\n"
D3COLD = "{} 0000:2d:00.0: Unable to change power state from D3cold to D0, device inaccessible\nNVIDIA's nvidia-smi is asked.\n"
NO_CABLE = "NVRM: GPU 0000:b3:00.0: GPU does not have the necessary power cables connected.\n"
NO_START = "NVRM: GPU 0000:b3:00.0: rm_init_adapter failed, device minor number 1\n"
TWO_A5000 = "".join(f"{bus}:00.0 VGA compatible controller: NVIDIA Corporation GA102GL [RTX A5000] (rev a1)\n" for bus in ("65", "b3"))
NO_BACKEND = "Unable to initialize backend 'cuda': module 'jaxlib.xla_extension' has no attribute 'GpuAllocatorConfig'\n"
LIMITED = (
    "pci 0000:01:00.0: 15.752 Gb/s available PCIe bandwidth, limited by 8.0 GT/s PCIe {} link at 0000:00:01.0 "
    "(capable of 252.048 Gb/s with 16.0 GT/s PCIe x16 link)\n"
)


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (BAD_RETURN.format("nvidia/550.90.07/build"), "driver-build-failed"),
        (BAD_RETURN.format("virtualbox/6.1.50/build") + "nvidia-smi works as always.\n", None),
        (BAD_RETURN.format("virtualbox/6.1.50/build") + BAD_RETURN.format("nvidia/550.90.07/build"), "driver-build-failed"),
        (D3COLD.format("nvidia"), "gpu-fell-off-bus"),
        (D3COLD.format("xhci_hcd"), None),
        (D3COLD.format("xhci_hcd") + D3COLD.format("nvidia"), "gpu-fell-off-bus"),
        (TWO_A5000 + NO_CABLE + NO_START, "gpu-power-cable-missing"),
        (TWO_A5000 + NO_START, "gpu-init-failed"),
        (NO_BACKEND, "framework-cpu-build"),
        ("jax.devices() lists 4 TpuDevice\n" + NO_BACKEND, None),
        ("nvidia: " + LIMITED.format("x2"), "pcie-link-degraded"),
        ("$ cat /proc/cmdline\nro modprobe.blacklist=nouveau,nvidia,nvidia_drm quiet\n", "driver-not-loaded"),
    ],
)
def test_a_message_counts_where_it_is_about_the_gpu(text: str, cause: str | None) -> None:
    assert (root(text) if cause is None else first(text)) == cause


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (LIMITED.format("x8"), "pcie-link-degraded"),
        ("$ cat /proc/cmdline\nro modprobe.blacklist=nouveau,nvidiafb quiet\n", "driver-not-loaded"),
    ],
)
def test_what_a_slot_or_another_module_explains_raises_no_suspicion(text: str, cause: str) -> None:
    assert cause not in suspects(text)


FOR_GUESTS = "41:00.0 3D controller [0302]: NVIDIA Corporation GA102GL [A10] [10de:2236] (rev a1)\n\tKernel driver in use: vfio-pci\n"


@pytest.mark.parametrize(("slot", "cause"), [("0000:41:00", None), ("41:00.0", None), ("0000:42:00", "vfio-bound")])
def test_a_guest_that_has_this_gpu_says_that_it_is_meant_so(slot: str, cause: str | None) -> None:
    assert root(f"# lspci -nnk\n{FOR_GUESTS}# cat /etc/pve/qemu-server/110.conf\nhostpci0: {slot},pcie=1\n") == cause


BRIDGE = "n1:57:57 [0] NCCL INFO Bootstrap: Using docker0:172.17.0.1<0>\n"
REFUSED_BY_IT = "{}:61:68 [0] misc/socket.cc:492 NCCL WARN socketStartConnect: Connect to 172.17.0.1<52317> failed : Connection refused\n"


@pytest.mark.parametrize(("node", "cause"), [("n2", "nccl-interface-missing"), ("n1", None)])
def test_a_bridge_is_in_the_way_between_nodes_alone(node: str, cause: str | None) -> None:
    """On the node itself its address is reached: there the process behind it has ended."""
    assert root(BRIDGE + BRIDGE.replace("n1", node) + REFUSED_BY_IT.format(node)) == cause
