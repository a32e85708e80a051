"""What is prescribed for a text alone, where its words decide which step fits and no machine is known."""

from __future__ import annotations

import re

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


TABLE = (
    "| NVIDIA-SMI 580.95.05              Driver Version: 580.95.05      CUDA Version: 13.0     |\n"
    "|   0  NVIDIA GeForce RTX 4090        Off |   00000000:01:00.0 Off |                  Off |\n"
)


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


NO_RUNTIME = 'docker: Error response from daemon: could not select device driver "" with capabilities: [[gpu]]\n'
DESKTOP = NO_RUNTIME + "$ docker context show\ndesktop-linux\n"
ENGINE = (
    "$ dpkg -l | grep docker\nii  docker-ce  5:28.5.1-1~ubuntu.24.04~noble  amd64  Docker: the open-source application container engine\n"
)
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


FABRIC = (
    "Nov 11 07:02:01 tarn nv-fabricmanager[1877]: fabric manager NVIDIA GPU driver interface version 570.195.03 don't match with driver version "
    "570.172.08. Please update with matching NVIDIA driver package.\nUbuntu 22.04.5 LTS\n"
)
KEPT = "$ apt-mark showhold\nnvidia-dkms-570-server-open\n"
SUBNET = (
    'Jan 15 12:31:09 tarn nvidia-fabricmanager-start.sh[3431]: Kernel module "ib_umad" has not been loaded, fabric manager cannot be started\n'
    "Ubuntu 24.04.1 LTS\n"
)
PLUGIN = (
    "E0918 09:12:08.191293       1 factory.go:114] If this is a GPU node, did you configure the NVIDIA Container Toolkit?\n"
    "Ubuntu 22.04.5 LTS\n"
)
BUILD = (
    "Error! Bad return status for module build on kernel: 6.8.0-87-generic (x86_64)\n"
    "Consult /var/lib/dkms/nvidia/580.95.05/build/make.log for more information.\nUbuntu 22.04.5 LTS\n"
)
NO_SPACE = (
    "/var/lib/dkms/nvidia/580.95.05/build/nvidia/nv-pci.c:2216:1: fatal error: error writing to /tmp/ccW2xk0Q.s: No space left on device\n"
)
NEWER = (
    "[tove@nyx ~]$ modprobe nvidia\nmodprobe: FATAL: Module nvidia not found in directory /lib/modules/6.17.7-arch1-2\n"
    "[tove@nyx ~]$ uname -r\n6.17.7-arch1-2\n[tove@nyx ~]$ pacman -Q nvidia-open nvidia-utils\nnvidia-open 580.105.08-5\nnvidia-utils 580.105.08-5\n"
)
MADE = "[tove@nyx ~]$ find /lib/modules -name 'nvidia.ko*'\n/lib/modules/6.17.9-arch1-1/extramodules/nvidia.ko.zst\n"
FULL = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 15.57 GiB of which 17.06 MiB is free. "
    "Process 41177 has 13.02 GiB memory in use. Including non-PyTorch memory, this process has 1.81 GiB memory in use. Of the allocated memory 1.10 GiB is allocated by PyTorch\n"
)
PS = "$ ps -o pid,ppid,stat,etime,cmd -p 41177\n    PID    PPID STAT     ELAPSED CMD\n  41177    2085 {}      1-03:40:12 python finetune.py\n"
LEAP = (
    'cad03:~ # cat /etc/os-release\nPRETTY_NAME="openSUSE Leap 15.6"\ncad03:~ # uname -r\n6.4.0-150600.23.73-default\ncad03:~ # lspci -nnk -d 10de:\n'
    "65:00.0 VGA compatible controller [0300]: NVIDIA Corporation GA106 [RTX A2000 12GB] [10de:2571] (rev a1)\n\tKernel driver in use: nouveau\n"
)
KMP = (
    "cad03:~ # rpm -qa | grep -i nvidia\nnvidia-compute-utils-G06-570.195.03-lp156.45.1.x86_64\n"
    "nvidia-open-driver-G06-signed-kmp-default-570.195.03_k6.4.0_150600.23.65-150600.3.70.1.x86_64\n"
)
MIG = "$ nvidia-smi -L\nGPU 0: NVIDIA H200 NVL (UUID: GPU-35d2b8d5-0a8c-4d6e-91f2-5b2d7fcf6e10)\n$ nvidia-smi mig -i 3 -lgi\nNo GPU instances found: Not Found\n"


@pytest.mark.parametrize(
    ("text", "there", "absent"),
    [
        (FABRIC + KEPT, "apt-get install -y --no-remove --allow-downgrades 'nvidia-fabricmanager-570=570.172.08*'", "unhold"),
        (SUBNET, "apt-get install -y nvlsm", None),
        (SUBNET + "ii nvlsm 2025.06.11-1\n", "modprobe ib_umad", "install -y nvlsm"),
        (PLUGIN, "apt-get install -y nvidia-container-toolkit", None),
        (PLUGIN + "$ nvidia-ctk --version\nNVIDIA Container Toolkit CLI version 1.17.8\n", "--runtime=containerd", "apt-get install"),
        (BUILD, "ubuntu-drivers install", "df -h"),
        (BUILD + NO_SPACE, "df -h", "ubuntu-drivers install"),
        (NEWER, "pacman -Syu", None),
        (NEWER + MADE, "reboot", "pacman"),
        (FULL + PS.format("Tl"), "kill 41177", "belongs to"),
        (FULL + PS.format("Sl"), "ps -o pid", "kill 41177"),
        (LEAP, "zypper install", None),
        (LEAP + KMP, "blacklist nouveau", "zypper install"),
        (MIG, "nvidia-smi mig -cgi 0 -C", "-i {gpu"),
        (
            APART + "Bazzite 42 (FROM Fedora Kinoite)\nID=bazzite\nVARIANT_ID=bazzite-nvidia\nVERSION_ID=42\n",
            "rpm-ostree rollback",
            "dracut",
        ),
    ],
)
def test_what_the_text_shows_to_be_there_is_not_done_again(text: str, there: str, absent: str | None) -> None:
    found = steps(text)
    assert there in found
    assert absent is None or absent not in found


def test_mig_is_made_and_switched_off_on_the_gpu_that_the_table_shows_alone() -> None:
    row = "|   {0}  NVIDIA H200 NVL                On  |   00000000:{1}:00.0 Off |                    0 |\n"
    row += "| N/A   44C    P0            121W /  600W |  121044MiB / 143771MiB |      0%      Default |\n"
    row += "|                                         |                        |             {2} |\n+---+---+---+\n"
    head = "| NVIDIA-SMI 570.158.01             Driver Version: 570.158.01     CUDA Version: 12.8     |\n|===+===+===|\n"
    table = head + row.format(0, "2A", "Disabled") + row.format(3, "BD", " Enabled")
    found = steps(table + "$ nvidia-smi mig -lgi\nNo GPU instances found: Not Found\n")
    assert "nvidia-smi mig -i 0000:bd:00.0 -cgi 0 -C" in found
    assert "nvidia-smi -i 0000:bd:00.0 -mig 0" in found
    assert "nvidia-smi -mig" not in steps(MIG)  # it would switch the other GPUs' instances off too


K80 = (
    "RuntimeError: The NVIDIA driver on your system is too old (found version 11040).\n>>> torch.version.cuda\n'12.4'\n"
    "06:00.0 3D controller [0302]: NVIDIA Corporation GK210GL [Tesla K80] [10de:102d] (rev a1)\nDebian GNU/Linux 12\n"
)


def test_a_newer_driver_is_no_way_out_where_no_newer_one_drives_the_gpu() -> None:
    assert "download.pytorch.org/whl/cu118" in steps(K80)
    assert "or newer, which serves older toolkits" not in steps(K80)
    assert "or newer, which serves older toolkits" in steps(K80.replace("GK210GL [Tesla K80] [10de:102d]", "GA102GL [A10] [10de:2236]"))


BRAKED = (
    "    Clocks Event Reasons\n        HW Slowdown                       : Active\n            HW Power Brake Slowdown       : Active\n"
)
WATCHED = "14:07:11 gpu5 sm=345MHz temp=58C reasons: hw_power_brake_slowdown=Active\n"
NO_WINDOW = "NVRM: This PCI I/O region assigned to your NVIDIA device is invalid:\nNVRM: BAR1 is 0M @ 0x0 (PCI:0000:00:10.0)\n"
UNPINNED = "NCCL WARN Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory\n"
COMPAT = (
    "RuntimeError: Error 804: forward compatibility was attempted on non supported HW\n$ ldconfig -p | grep libcuda.so.1\n"
    "\tlibcuda.so.1 (libc6,x86-64) => /usr/local/cuda-12.8/compat/libcuda.so.1\n"
)
STARTED = "$ docker run --gpus all --ipc=host image python train.py\n"
OF_UNIT = (
    '$ cat /etc/systemd/system/ollama.service.d/override.conf\n[Service]\nEnvironment="CUDA_VISIBLE_DEVICES=GPU-0aa5c5a7"\n'
    "$ nvidia-smi -L\nGPU 0: NVIDIA GeForce RTX 3090 (UUID: GPU-b0c4e5d2-1111-2222-3333-444455556666)\n"
    '$ journalctl -u ollama\nlevel=WARN msg="user overrode visible devices" CUDA_VISIBLE_DEVICES=GPU-0aa5c5a7\nRuntimeError: No CUDA GPUs are available\n'
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "words", "known"),
    [
        (BRAKED, "power supplies of the server", True),
        (BRAKED, "Restore the airflow", False),
        (BRAKED.replace("HW Power Brake", "HW Thermal"), "Restore the airflow", True),
        (WATCHED, "power supplies of the server", True),
        (WATCHED, "Restore the airflow", False),  # a temperature is in each such line
        (WATCHED.replace("power_brake", "thermal"), "Restore the airflow", True),
        (NO_WINDOW, "the firmware OVMF", False),
        (NO_WINDOW + "bios: seabios\nhostpci0: 0000:84:00,rombar=0\nmachine: pc-i440fx-9.2\n", "the firmware OVMF", True),
        (UNPINNED, "--ulimit memlock=-1", False),
        (STARTED + UNPINNED, "--ulimit memlock=-1", True),
        (STARTED + COMPAT, "-e LD_LIBRARY_PATH", True),
    ],
)
def test_a_condition_that_the_text_shows_is_none(text: str, words: str, known: bool) -> None:
    found = report(text).prescription
    assert found is not None
    step = next(one for one in found.steps if words in one.text)
    assert (step.mode, step.when is None) == (("do", True) if known else ("if", False))


def test_in_a_container_the_machines_own_limits_come_later() -> None:
    found = report(STARTED + UNPINNED).prescription
    assert found is not None
    assert "--ulimit memlock=-1" in found.steps[0].text
    assert "-e LD_LIBRARY_PATH" not in steps(COMPAT)


def test_where_the_variable_is_set_comes_before_what_the_program_may_ask() -> None:
    found = report(OF_UNIT).prescription
    assert found is not None
    assert "It is set in /etc/systemd/system/ollama.service.d/override.conf, line 2" in found.steps[0].text


def test_a_batch_jobs_script_is_what_asks_for_the_gpu() -> None:
    said = "$ sbatch train.sbatch\nSubmitted batch job 77\n$ cat slurm-77.out\nRuntimeError: No CUDA GPUs are available\n$ scontrol show job 77\nJobId=77 JobName=train\n   NodeList=gn1\n"
    said += "   ReqTRES=cpu=8,mem=64G,node=1,billing=8\n   AllocTRES=cpu=8,mem=64G,node=1,billing=8\n"
    script = "$ cat train.sbatch\n#!/bin/bash\n#SBATCH --partition=gpu\n#SBATCH --mem=64G\npython train.py\n"
    assert "srun --gpus=1" in steps(said)
    found = steps(script + said)
    assert "Add `#SBATCH --gpus=1`" in found
    assert "srun --" not in found


@pytest.mark.parametrize(("shown", "there"), [("release 13.0, V13.0.88", True), ("release 12.4, V12.4.131", False)])
def test_triton_uses_the_ptxas_that_was_asked_for_its_version(shown: str, there: bool) -> None:
    of_triton = "triton.runtime.errors.PTXASError: PTXAS error: Internal Triton PTX codegen error\n`ptxas` stderr:\n" + PTXAS
    found = steps(of_triton + f"$ /usr/local/cuda/bin/ptxas --version | tail -2\nCuda compilation tools, {shown}\n")
    assert ("export TRITON_PTXAS_PATH=/usr/local/cuda/bin/ptxas" in found) is there


@pytest.mark.parametrize(
    "machine",
    [
        "# R38 (release), REVISION: 2.0, GCID: 41844464, BOARD: generic, EABI: aarch64, DATE: Fri Aug 22 00:55:42 UTC 2025",
        "GPU 0: NVIDIA GB10 (UUID: GPU-5d0c3a1e-6f2b-4c1d-9e8f-0a1b2c3d4e5f)",
    ],
)
def test_gpus_that_came_with_cuda_13_take_its_wheels_whoever_knows_the_driver(machine: str) -> None:
    """Thor's code is in no wheel of CUDA 12, and GB10's compiler neither."""
    text = f'{machine}\n$ python3 -c "import torch; print(torch.__version__, torch.cuda.is_available())"\n2.9.1+cpu False\n'
    assert "--index-url https://download.pytorch.org/whl/cu130" in steps(text)


def test_a_driver_that_is_too_old_for_pytorch_keeps_its_place_beside_another_wheel() -> None:
    """PyTorch's own words name no PyTorch."""
    text = (
        "RuntimeError: The NVIDIA driver on your system is too old (found version 12020). Please update your GPU driver by downloading\n"
        "torch 2.9.1+cu130\n| NVIDIA-SMI 535.183.01              Driver Version: 535.183.01      CUDA Version: 12.2     |\n"
        "|   0  NVIDIA L40S                    Off |   00000000:61:00.0 Off |                    0 |\n"
    )
    assert re.search(
        r"pip install --force-reinstall 'torch[^ ]*' torchvision --index-url https://download.pytorch.org/whl/cu12\d", steps(text)
    )


@pytest.mark.parametrize(
    ("called", "printed"),
    [
        (".venv/bin/python", ".venv/bin/python -m pip"),
        ("~/venv/bin/python", '"$HOME"/venv/bin/python -m pip'),
        ("$HOME/venv/bin/python", '"$HOME"/venv/bin/python -m pip'),
        ("conda run -n ml python", "conda run -n ml python -m pip"),
        ("python3.11", "python3.11 -m pip"),
        ("../../tmp/evil/bin/python", "python3 -m pip"),
        ("-x/bin/python", "python3 -m pip"),
        ("~/../evil/bin/python", "python3 -m pip"),
        ("a;reboot/bin/python", "python3 -m pip"),
        ("/tmp/evil/bin/python", None),
    ],
)
def test_the_interpreter_that_was_called_is_the_one_that_gets_the_packages(called: str, printed: str | None) -> None:
    text = f"$ {called} train.py\nAssertionError: Torch not compiled with CUDA enabled\n$ nvidia-smi\n{TABLE}"
    prescription = report(text).prescription
    assert prescription is not None
    found = [step.shell for step in prescription.steps if step.shell and "pip install" in step.shell]
    assert [printed is not None and (shell or "").startswith(printed) for shell in found] == ([True] if printed is not None else [])


def test_in_wsl_no_package_of_linux_brings_libcuda() -> None:
    text = "Linux version 5.15.167.4-microsoft-standard-WSL2\nUbuntu 22.04.4 LTS\nRuntimeError: Found no NVIDIA driver on your system. Please check\n"
    steps = report(text).prescription
    assert steps is not None
    assert not any("libnvidia-compute" in step.text for step in steps.steps)
    outside = report(text.replace("-microsoft-standard-WSL2", "")).prescription
    assert outside is not None
    assert any("libnvidia-compute" in step.text for step in outside.steps)


def test_fabric_manager_is_of_the_drivers_packages_where_no_driver_answers() -> None:
    text = (
        "RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 802: system not yet initialized\n"
        "Unit nvidia-fabricmanager.service could not be found.\nUbuntu 24.04.2 LTS\n"
        "ii  nvidia-driver-575-server-open  575.57.08-0ubuntu0.24.04.2  amd64\nii  nvidia-dkms-575-server-open  {}  amd64\n"
    )
    same = report(text.format("575.57.08-0ubuntu0.24.04.2")).prescription
    assert same is not None
    assert any("nvidia-fabricmanager-575" in (step.shell or "") for step in same.steps)
    other = report(text.format("575.64.03-0ubuntu0.24.04.1")).prescription
    assert other is not None
    assert not any(version in f"{step.text}{step.shell}" for step in other.steps for version in ("575.57.08", "575.64.03"))
