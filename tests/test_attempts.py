"""Several attempts and several machines in one text: the last state decides, and what is history is said to be."""

from __future__ import annotations

import pytest

from cudadoctor.model.report import Report
from cudadoctor.parsers.attempts import machines, prompts, replaced
from cudadoctor.parsers.base import Text
from tests import pasted
from tests.judging import cause_of

MISMATCH = "Failed to initialize NVML: Driver/library version mismatch"
FELL = "NVRM: GPU 0000:0b:00.0: GPU has fallen off the bus."
NO_NVVM = "numba.cuda.cudadrv.error.NvmlSupportError: libNVVM cannot be found."
TABLE = """\
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 550.54.15              Driver Version: 550.54.15      CUDA Version: 12.4     |
|-----------------------------------------+------------------------+----------------------+
|   0  NVIDIA GeForce RTX 3090        Off |   00000000:01:00.0 Off |                  N/A |
|  0%   38C    P8             21W /  350W |       1MiB /  24576MiB |      0%      Default |
+-----------------------------------------------------------------------------------------+"""


def report(*lines: str) -> Report:
    return pasted.report("\n".join(lines))


def root(*lines: str) -> str | None:
    return pasted.root("\n".join(lines))


def text(*lines: str) -> Text:
    return Text("\n".join(lines), source="text", origin="text")


# ---------------------------------------------------------------- attempts
def test_a_command_that_was_typed_again_shows_the_newer_state() -> None:
    before = ("$ nvidia-smi", MISMATCH, "", "after a restart:")
    assert root(*before) == "driver-version-mismatch"
    found = report(*before, "$ nvidia-smi", TABLE)
    assert found.diagnosis.root is None
    assert [finding.cause for finding in found.diagnosis.also] == ["driver-version-mismatch"]
    assert any("earlier attempt" in note and MISMATCH in note for note in found.notes)


def test_it_still_fails_in_the_same_way() -> None:
    found = report("$ nvidia-smi", MISMATCH, "$ sudo modprobe nvidia", "$ nvidia-smi", MISMATCH)
    assert found.diagnosis.root is not None
    assert (found.diagnosis.root.cause, found.diagnosis.root.evidence[-1].first) == ("driver-version-mismatch", 5)
    assert found.notes == ()


def test_what_is_asked_again_in_python_shows_the_newer_state() -> None:
    too_old = "UserWarning: CUDA initialization: The NVIDIA driver on your system is too old (found version 11040)."
    old = f">>> torch.cuda.is_available()\n{too_old}\nFalse\n"
    text = f"{old}>>> exit()\n$ pip install torch==1.12.1+cu113\n$ python3\n>>> torch.cuda.is_available()\nTrue\n"
    assert root(old) == "toolkit-newer-than-driver"
    assert root(text) is None
    assert root(f"{old}>>> torch.cuda.is_available()\nFalse\n") == "toolkit-newer-than-driver"  # in one session Python warns once


def test_another_command_replaces_nothing() -> None:
    assert root("$ nvidia-smi", MISMATCH, "$ python train.py", "step 1") == "driver-version-mismatch"


def test_a_second_prompt_without_output_replaces_nothing() -> None:
    assert replaced(text("$ nvidia-smi", MISMATCH, "$ nvidia-smi", "")) == frozenset()


def test_the_lines_of_the_earlier_run_are_replaced_with_their_prompt() -> None:
    assert replaced(text("intro", "$ nvidia-smi", MISMATCH, "more", "$ ls", "$ nvidia-smi", "fine")) == frozenset({1, 2, 3})


# ---------------------------------------------------------------- machines
def test_the_last_failing_machine_is_diagnosed() -> None:
    first, second = ("ada@one:~$ dmesg", FELL), ("ada@two:~$ nvidia-smi", MISMATCH)
    found = report(*first, *second)
    assert cause_of(found) == "driver-version-mismatch"
    assert [finding.cause for finding in found.diagnosis.also] == ["gpu-fell-off-bus"]
    assert root(*second, *first) == "gpu-fell-off-bus"


def test_a_machine_that_works_does_not_excuse_the_one_that_fails() -> None:
    assert root("ada@one:~$ dmesg", FELL, "ada@two:~$ nvidia-smi", TABLE) == "gpu-fell-off-bus"


def test_a_container_belongs_to_its_machine() -> None:
    assert machines(text("ada@one:~$ docker run -it x", "root@098b49afe624:/# nvidia-smi", "x", "ada@one:~$ ls", "y")) == ()


def test_machines_are_ordered_by_their_last_prompt() -> None:
    assert machines(text("a@one:~$ x", "1", "a@two:~$ x", "2", "a@one:~$ y", "3")) == (frozenset({2, 3}), frozenset({0, 1, 4, 5}))


# ---------------------------------------------------------------- the loud last line
def test_what_is_only_the_aftermath_is_said_to_be() -> None:
    found = report(FELL, "RmInitAdapter: next", "$ nvidia-smi", "Unable to determine the device handle for GPU 0000:0B:00.0: Unknown Error",
                   "NVRM: GPU 0000:0b:00.0: RmInitAdapter failed! (0x26:0x65:1401)")  # fmt: skip
    assert cause_of(found) == "gpu-fell-off-bus"
    assert any("RmInitAdapter failed" in note and "consequence" in note for note in found.notes)


# ---------------------------------------------------------------- texts without a failure
def test_a_text_that_shows_a_computing_gpu_is_healthy() -> None:
    found = report("$ ./deviceQuery", "Result = PASS")
    assert (found.verdict, found.exit_code) == ("healthy", 0)


def test_a_failure_outweighs_an_earlier_success() -> None:
    assert root("Result = PASS", "$ nvidia-smi", MISMATCH) == "driver-version-mismatch"


def test_a_text_without_any_failure_points_to_the_machine() -> None:
    (ask,) = report("ValueError: shapes (3,) and (4,) not aligned").diagnosis.ask
    assert ask.command == "cudadoctor check"


# ---------------------------------------------------------------- a boot before the last, and what the kernel's log no longer shows
ERROR = "Nov 11 19:26:31 tarn kernel: NVRM: Xid (PCI:0000:09:00): 79, pid=8121, GPU has fallen off the bus."
NOW = ("$ nvidia-smi", TABLE)


@pytest.mark.parametrize(
    ("command", "is_now"),
    [
        ("journalctl -k -b -4 --no-pager | grep NVRM", False),
        ("sudo journalctl -kb -2", False),
        ("journalctl --boot=-12 -k", False),
        ("journalctl -k -b -1", True),  # what ended the last boot is what is asked about
        ("journalctl -k -b 0", True),
    ],
)
def test_a_boot_long_ago_is_history_where_the_present_is_shown(command: str, is_now: bool) -> None:
    found = report(f"$ {command}", ERROR, *NOW).diagnosis
    assert (found.root is not None or found.suspects != ()) is is_now
    assert root(f"$ {command}", ERROR) == "gpu-fell-off-bus"


@pytest.mark.parametrize(
    ("below", "is_now"),
    [
        (("$ dmesg -T | grep -iE 'xid|AER'", "$ uptime"), False),
        (("$ sudo journalctl -k | grep -i xid", "$ uptime"), False),
        (("$ dmesg -T | grep -iE 'xid|AER'",), True),  # the text ends before the answer
        (("$ dmesg -T | grep -iE 'xid|AER'", ERROR, "$ uptime"), True),
        (("$ journalctl -k -b -1 | grep -i xid", "$ uptime"), True),
        (("$ dmesg -T | grep -i nouveau", "$ uptime"), True),
        (("$ dmesg | grep xid", "$ uptime"), True),  # it is written Xid
        (("$ dmesg | grep -i 'xid 13'", "$ uptime"), True),
        (("$ dmesg | grep -v -i xid", "$ uptime"), True),
        (("$ dmesg | grep -i xid > /tmp/x", "$ uptime"), True),
        (("$ journalctl -u nginx | grep -i xid", "$ uptime"), True),
    ],
)
def test_xids_above_an_empty_answer_are_of_another_time_or_machine(below: tuple[str, ...], is_now: bool) -> None:
    assert root(ERROR, *below) == ("gpu-fell-off-bus" if is_now else None)
    assert root("$ journalctl -k", ERROR, *below) == "gpu-fell-off-bus"  # the machine's own journal, which dmesg may have dropped


# ---------------------------------------------------------------- what is no sign of a failure
WSL = (
    "/dev/nvidia0 doesn't exist here, which driver package do I install?", "kai@LAPTOP-R9AB12:~$ ls /dev/nvidia*",
    "ls: cannot access '/dev/nvidia*': No such file or directory", "kai@LAPTOP-R9AB12:~$ uname -r", "6.6.114.1-microsoft-standard-WSL2",
)  # fmt: skip
COMPUTES = ("kai@LAPTOP-R9AB12:~$ nvidia-smi", TABLE, "kai@LAPTOP-R9AB12:~$ ./deviceQuery", "Result = PASS")


def test_what_is_asked_above_a_gpu_that_computes_is_no_suspicion() -> None:
    assert report(*WSL).diagnosis.suspects
    assert (report(*WSL, *COMPUTES).verdict, report(*WSL, *COMPUTES).diagnosis.suspects) == ("healthy", ())


def test_a_message_of_another_machine_is_refuted_by_no_prompt() -> None:
    told = ("gpu07 says:", "modprobe: FATAL: Module nvidia not found in directory /lib/modules/6.1.0")
    assert report(*told, *COMPUTES).verdict != "healthy"


def test_a_reason_that_a_gpu_does_not_tell_is_none() -> None:
    below = "* Device #1: NVIDIA GeForce GTX 980, 3859/4037 MB, 16MCU"
    assert report("            HW Thermal Slowdown           : N/A", below).diagnosis.suspects == ()


# ---------------------------------------------------------------- what the text's later lines answer
OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 392.00 MiB. GPU 0 has a total capacity of 9.63 GiB of which 130.06 MiB is free. "
    "Including non-PyTorch memory, this process has 8.92 GiB memory in use. Of the allocated memory 8.10 GiB is allocated by PyTorch"
)
NO_UVM = ("$ modprobe nvidia_uvm", "modprobe: FATAL: Module nvidia_uvm not found in directory /usr/lib/modules/6.14.6-arch1-1")
LOADED = ("$ lsmod | grep ^nvidia", "nvidia_uvm           4026368  0", "nvidia              16039936  79 nvidia_uvm")
REMAPPER = (
    "$ nvidia-smi -q -d ROW_REMAPPER,ECC", "GPU 00000000:C1:00.0", "    ECC Errors", "        Volatile", "            DRAM Uncorrectable            : 0",
    "    Remapped Rows", "        Uncorrectable Error               : 1", "        Pending                           : {}",
    "        Remapping Failure Occurred        : No",
)  # fmt: skip
REMAPPED = "Mar 02 04:17:55 dgn2 kernel: NVRM: Xid (PCI:0000:c1:00): 63, Row Remapper: New row (0x4a3f7) marked for remapping, reset gpu to activate."


@pytest.mark.parametrize(
    ("below", "is_over"),
    [
        (("epoch 1 step  500 loss 1.2886  846 img/s",), True),
        (("`Trainer.fit` stopped: `max_epochs=10` reached.",), True),
        ((), False),
        (("Restoring states",), False),
        (("step 500 loss 1.2886", "RuntimeError: CUDA error: out of memory"), False),
        (("$ python other.py", "step 500 loss 1.2886"), False),  # another program
    ],
)
def test_what_a_program_survives_is_no_failure(below: tuple[str, ...], is_over: bool) -> None:
    assert (root("$ python fit.py", OOM, *below) is None) is is_over


def test_a_module_that_was_sought_for_a_kernel_before_is_not_missing() -> None:
    assert root(*NO_UVM, "$ uname -r", "6.14.6-arch1-1") is not None
    assert root(*NO_UVM, "$ uname -r", "6.14.7-arch2-1") is None
    assert root(*NO_UVM, *LOADED) != "driver-module-missing-for-kernel"


@pytest.mark.parametrize(("pending", "cause"), [("No", None), ("Yes", "row-remap-needed")])
def test_a_row_that_was_remapped_is_history(pending: str, cause: str | None) -> None:
    shown = [line.format(pending) for line in REMAPPER]
    assert root(*shown, "$ journalctl -k | grep Xid", REMAPPED) == cause
    assert root("$ journalctl -k | grep Xid", REMAPPED) == "row-remap-needed"


# ---------------------------------------------------------------- what works below
REFUSED = "head: cannot open '/dev/nvidia3' for reading: Operation not permitted"


@pytest.mark.parametrize(
    ("command", "answer", "works"),
    [
        ('python -c "import torch; print([torch.ones(9, device=i).sum().item() for i in (0, 1)])"', "[9.0, 9.0]", True),
        ('python3.11 -c "import torch; x = torch.eye(3).cuda(); print(x.sum())"', "tensor(3.)", True),
        ('python -c "import cupy as c; a = c.random.rand(99); print(float(a.mean()))"', "0.5008", True),
        ("podman run --rm --device nvidia.com/gpu=all x python -c \"import torch; print(torch.eye(3, device='cuda').sum())\"", "3.0", True),
        ("python -c \"import torch; print(torch.eye(3, device='cuda').sum())\"", "RuntimeError: No CUDA GPUs are available", False),
        ("python -c \"import torch; print(torch.eye(3, device='cuda').sum())\"", "", False),
        ("python -c \"import torch; print(torch.eye(3, device='cuda:1').sum())\"", "3.0", False),  # one that is known to work
        ("CUDA_VISIBLE_DEVICES=1 python -c \"import torch; print(torch.eye(3, device='cuda').sum())\"", "3.0", False),
        ("python -c \"import torch; print(torch.eye(3, device='cpu').sum())\"", "3.0", False),
        ('python -c "import cupy; print(cupy.cuda.runtime.getDeviceCount())"', "2", False),
    ],
)  # fmt: skip
def test_a_command_that_computed_shows_that_the_machine_works(command: str, answer: str, works: bool) -> None:
    found = report("ada@gn17:~$ head -c 1 /dev/nvidia3", REFUSED, f"ada@gn17:~$ {command}", answer, "ada@gn17:~$ date", "Mon Mar  2")
    assert (found.verdict == "healthy") is works


def test_what_computed_in_a_container_says_nothing_of_the_python_beside_it() -> None:
    host = ("ada@a:~$ python -c 'import torch; torch.eye(3).cuda()'", "AssertionError: Torch not compiled with CUDA enabled")
    typed = "python -c \"import torch; print(torch.eye(3, device='cuda').sum())\""
    assert root(*host, f"ada@a:~$ docker run --gpus all x {typed}", "3.0") == "framework-cpu-build"
    assert root(*host, f"ada@a:~$ {typed}", "3.0") is None


LOST_LICENCE = "nvidia-gridd[1204]: Failed to acquire license from dls.example (Info: NVIDIA RTX Virtual Workstation - Error: x)"
LICENSED = "nvidia-gridd[1204]: License acquired successfully. (Info: dls.example, NVIDIA RTX Virtual Workstation)"


def test_what_a_program_says_to_be_over_is_no_fault() -> None:
    assert root("$ journalctl -u nvidia-gridd", LOST_LICENCE) == "vgpu-problem"
    assert root("$ journalctl -u nvidia-gridd", LOST_LICENCE, LICENSED) is None
    assert root("$ journalctl -u nvidia-gridd", LICENSED, LOST_LICENCE) == "vgpu-problem"


@pytest.mark.parametrize(("given", "cause"), [("0000:01:00", None), ("0000:02:00", "vfio-bound")])
def test_a_gpu_of_a_guest_is_meant_to_be_held(given: str, cause: str | None) -> None:
    held = ("# dmesg | grep NVRM", "[    5.240041] NVRM: GPU 0000:01:00.0 is already bound to vfio-pci.")
    assert root(*held, "root@pve:~# grep hostpci /etc/pve/qemu-server/101.conf", f"hostpci0: {given},pcie=1") == cause


ASLEEP = (
    "$ lspci -nnk",
    "01:00.0 VGA compatible controller [0300]: NVIDIA Corporation AD106M [GeForce RTX 4070 Max-Q / Mobile] [10de:2860] (rev ff)",
    "\tKernel driver in use: nvidia",
)


def test_a_gpu_that_answers_below_was_asleep() -> None:
    assert root(*ASLEEP) == "gpu-fell-off-bus"
    assert root(*ASLEEP, "$ nvidia-smi", TABLE) is None
    assert root("$ nvidia-smi", TABLE, *ASLEEP) == "gpu-fell-off-bus"
    assert root(*ASLEEP, "$ nvidia-smi", TABLE.replace("00000000:01:00.0", "00000000:41:00.0")) == "gpu-fell-off-bus"


def test_what_root_is_answered_replaces_no_users_answer() -> None:
    denied = "Failed to initialize NVML: Insufficient Permissions"
    assert root("[ada@viz ~]$ nvidia-smi", denied, "[root@viz ~]# nvidia-smi", TABLE) == "device-permission-denied"
    assert root("[root@viz ~]# nvidia-smi", denied, "[root@viz ~]# nvidia-smi", TABLE) is None


def test_a_line_of_the_module_is_of_the_gpu_that_it_names() -> None:
    """Of the other one nothing is said, and the reason above accounts for what it led to."""
    two = ("$ nvidia-smi -L", "GPU 0: NVIDIA GeForce RTX 3090 (UUID: GPU-1)", "$ lspci -nn | grep NVIDIA",
           *(f"{slot}:00.0 VGA compatible controller [0300]: NVIDIA Corporation GA102 [GeForce RTX 3090] [10de:2204] (rev a1)" for slot in ("0a", "0b")))  # fmt: skip
    log = ("$ dmesg | grep NVRM", "NVRM: GPU 0000:0b:00.0: GPU does not have the necessary power cables connected.",
           "NVRM: GPU 0000:0b:00.0: RmInitAdapter failed! (0x24:0x1c:1436)")  # fmt: skip
    found = report(*two, *log).diagnosis.root
    assert found is not None
    assert (found.cause, found.subject) == ("gpu-power-cable-missing", "gpu:0000:0b:00.0")


# ---------------------------------------------------------------- what is over
NO_RUNTIME = 'docker: Error response from daemon: could not select device driver "" with capabilities: [[gpu]].'


@pytest.mark.parametrize(
    ("below", "is_over"),
    [
        (("$ docker run --rm --gpus all b nbody -benchmark", "= 5034.943 single-precision GFLOP/s at 20 flops per interaction"), True),
        (("$ sudo docker run --rm --gpus all b nvidia-smi", TABLE), False),  # root's engine
        (("$ docker run --rm --gpus all b nvidia-smi", TABLE), True),
        (("$ podman run --rm --device nvidia.com/gpu=all b nvidia-smi", TABLE), False),
        (("$ nvidia-smi", TABLE), False),
    ],
)
def test_an_engine_that_gave_one_container_a_gpu_can_do_it(below: tuple[str, ...], is_over: bool) -> None:
    failed = ("$ docker run --rm --gpus all a nvidia-smi", NO_RUNTIME)
    assert root(*failed) == "container-toolkit-missing"
    assert (root(*failed, *below) is None) is is_over


@pytest.mark.parametrize(
    ("command", "engine"),
    [
        ("docker run a", "docker"), ("sudo -u kai podman run a", "podman"), ("srun -p gpu --gres=gpu:1 apptainer exec a.sif b", "apptainer"),
        ("env A=1 srun -n 1 singularity exec a.sif b", "singularity"), ("sudo apt-get install -y docker", ""), ("srun python build.py docker", ""),
        ("sudo systemctl restart docker", ""),
    ],
)  # fmt: skip
def test_an_engine_is_what_a_launcher_starts_and_no_word_of_another_command(command: str, engine: str) -> None:
    prompt = prompts(text(f"$ {command}", "ok"))(2)
    assert prompt is not None
    assert prompt.engine == engine


REJECTED = "modprobe: ERROR: could not insert 'nvidia': Key was rejected by service"


@pytest.mark.parametrize(("place", "is_over"), [("ada@pc", True), ("ada@other", False)])
def test_what_works_for_a_user_works_for_root(place: str, is_over: bool) -> None:
    failed = ("[ada@pc ~]$ sudo modprobe nvidia", REJECTED)
    assert root(*failed) == "secure-boot-blocks-module"
    assert (root(*failed, f"[{place} ~]$ nvidia-smi", TABLE) is None) is is_over


@pytest.mark.parametrize(
    ("below", "works"),
    [
        (("$ ollama ps", "NAME        ID              SIZE      PROCESSOR    CONTEXT    UNTIL",
          "qwen3:8b    500a1f067a9f    6.2 GB    100% GPU     4096       4 minutes from now"), True),
        (("$ ollama ps", "qwen3:8b    500a1f067a9f    6.2 GB    100% CPU     4096       4 minutes from now"), False),
        (("$ tail -1 vllm.log", "INFO 06-18 10:25:08 [core.py:171] init engine (profile, create kv cache, warmup model) took 46.80 seconds"), True),
        (("$ all_reduce_perf -g 8", "# Out of bounds values : 0 OK", "# Avg bus bandwidth    : 749.423"), True),
        (("$ all_reduce_perf -g 8", "# Avg bus bandwidth    : 0"), False),
        (("$ ./nbody -benchmark", "= 5034.943 single-precision GFLOP/s at 20 flops per interaction"), True),
        (("$ ./llama-bench -m a.gguf", "| llama 7B Q4_K - Medium |   4.07 GiB |     7.25 B | CUDA       |  99 |         pp512 |      4512.08 ± 37.90 |"), True),
        (("$ ./llama-bench -m a.gguf", "| llama 7B Q4_K - Medium |   4.07 GiB |     7.25 B | CPU        |  99 |         pp512 |        12.08 ± 0.90 |"), False),
        (("$ python fft.py", "fft2  :    CPU:    84.917 us   +/- 11.204 (min:    75.532) us     GPU-0:  3361.882 us   +/- 24.119 (min:  3325.952) us"), True),
        (("$ python -c 'import jax; print(jax.devices())'", "[CudaDevice(id=0)]"), True),
        (("$ python -c 'import jax; print(jax.devices())'", "[CpuDevice(id=0)]"), False),
    ],
)  # fmt: skip
def test_what_programs_print_once_a_gpu_computed(below: tuple[str, ...], works: bool) -> None:
    failed = ("$ python -c 'import ctypes'", "CUDA error 802: system not yet initialized")
    assert root(*failed) is not None or pastes_suspect(*failed)
    assert (report(*failed, *below).verdict == "healthy") is works


@pytest.mark.parametrize(
    ("first", "then", "is_same"),
    [
        ("python -m train --batch 8", "python -m train --batch 4", True),
        ("python -m train", "python -m evaluate", False),
        ("python train.py 2>/dev/null", "nohup python train.py --batch 4 2> err.txt", True),
        ("LR=1 python -u train.py", "LR=2 time python train.py", True),
        ("python -c 'import a'", "python -c 'import b'", False),
        ("python train.py", "cat train.py", False),
        ("tail -n 5 a.log", "tail -n 5 b.log", False),
        ("grep loss a.log", "grep loss b.log", False),
        ("cd a && python -u train.py", "cd a && python -u other.py", False),
        ("docker run a", "docker run b", False),
        ("ssh b python train.py", "ssh c python train.py", False),
        ("yolo detect train batch=32", "yolo detect train batch=16", True),
    ],
)
def test_what_makes_two_runs_one_program(first: str, then: str, is_same: bool) -> None:
    failed = (f"ada@box:~$ {first}", OOM)
    assert root(*failed) == "program-out-of-memory"
    assert (root(*failed, f"ada@box:~$ {then}", "step 500 loss 1.2886") is None) is is_same


def test_a_log_shows_the_run_that_wrote_it() -> None:
    failed = ("$ python train.py --batch 8 > a.log 2>&1", "$ tail -n 1 a.log", OOM)
    assert root(*failed) == "program-out-of-memory"
    assert root(*failed, "$ python train.py --batch 4", "step 500 loss 1.2886") is None
    again = (*failed, "$ python train.py --batch 4 > b.log 2>&1")
    assert root(*again, "$ tail -n 1 b.log", "step 500 loss 1.2886") is None
    assert root(*again, "$ grep loss a.log", "step 10 loss 2.2886") == "program-out-of-memory"  # what it did before it failed


FALLEN = ("ada@box:~$ sudo dmesg | grep Xid", "[ 90.1] NVRM: Xid (PCI:0000:41:00): 79, pid=1, name=x, GPU has fallen off the bus.")


@pytest.mark.parametrize(
    ("below", "cause"),
    [
        (("ada@box:~$ sudo reboot", "ada@pc:~$ ssh box", "ada@box:~$ uptime", " 10:06:13 up 3 min,  1 user"), None),
        (("ada@box:~$ sudo reboot", "ada@pc:~$ ssh box"), "gpu-fell-off-bus"),  # what came of it is not shown
        (
            ("ada@box:~$ sudo reboot", "ada@pc:~$ ssh box", "ada@box:~$ uptime", "It is the same again after the restart."),
            "gpu-fell-off-bus",
        ),
        (("ada@other:~$ sudo reboot", "ada@other:~$ uptime", " 10:06:13 up 3 min,  1 user"), "gpu-fell-off-bus"),
        (("ada@box:~$ sudo reboot", "ada@box:~$ journalctl -k", FALLEN[1]), "gpu-fell-off-bus"),
    ],
)
def test_a_restart_makes_what_was_before_a_suspicion(below: tuple[str, ...], cause: str | None) -> None:
    assert root(*FALLEN) == "gpu-fell-off-bus"
    found = report(*FALLEN, *below).diagnosis
    assert (found.root.cause if found.root is not None else None) == cause
    assert cause or "gpu-fell-off-bus" in {one.cause for one in found.suspects}


@pytest.mark.parametrize(
    ("failed", "cause", "over"),
    [
        ("systemd[1]: Failed to start NVIDIA fabric manager service.", "fabric-manager-not-running",
         "systemd[1]: Started NVIDIA fabric manager service."),
        ("  Could not find nvcc, please set CUDAToolkit_ROOT.", "toolkit-missing",
         '-- Found CUDAToolkit: /usr/local/cuda-12.6/include (found version "12.6.85")'),
        ("CMake Error: CUDA Toolkit not found", "toolkit-missing", "-- The CUDA compiler identification is NVIDIA 12.6.85"),
        ("-- Could NOT find CUDAToolkit (missing: CUDAToolkit_NVCC_EXECUTABLE)", "toolkit-missing",
         "-- The CUDA compiler identification is NVIDIA 12.6.85"),
    ],
)  # fmt: skip
def test_a_program_says_that_it_is_over(failed: str, cause: str, over: str) -> None:
    assert root(failed) == cause
    assert root(failed, over) is None
    assert root(over, failed) == cause


def pastes_suspect(*lines: str) -> bool:
    return bool(pasted.suspects("\n".join(lines)))


BUSY = "RuntimeError: CUDA error: CUDA-capable device(s) is/are busy or unavailable"
EXCLUSIVE = TABLE.replace("|      0%      Default |", "|      0%   E. Process |")
COMPUTED = ("$ python -c \"import torch; print(torch.ones(3, device='cuda').sum())\"", "tensor(3., device='cuda:0')")


def test_with_one_gpu_what_computes_is_that_gpu() -> None:
    failed = ("$ grep CUDA try.log", BUSY, "$ nvidia-smi", EXCLUSIVE)
    assert root(*failed) == "compute-mode-blocks"
    assert root(*failed, *COMPUTED) is None
    lines = EXCLUSIVE.split("\n")
    second = [line.replace("|   0 ", "|   1 ").replace("00000000:01", "00000000:02") for line in lines[3:5]]
    other = "\n".join((*lines[:5], *second, *lines[5:]))
    assert root("$ grep CUDA try.log", BUSY, "$ nvidia-smi", other, *COMPUTED) == "compute-mode-blocks"


@pytest.mark.parametrize(("asks", "cause"), [("--gres=gpu:1 ", None), ("", "no-nvidia-gpu")])
def test_a_node_to_log_in_on_has_no_gpu(asks: str, cause: str | None) -> None:
    login = ("[ada@login2 ~]$ lspci | grep -i nvidia", "[ada@login2 ~]$ python -c 'import torch; torch.zeros(1).cuda()'",
             "RuntimeError: Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU and installed a driver")  # fmt: skip
    assert root(*login, f"[ada@login2 ~]$ srun {asks}nvidia-smi", TABLE) == cause


OLD_XID = "Aug 29 17:20:41 dgx kernel: NVRM: Xid (PCI:0000:01:00): 31, pid=2219874, name=python3, Ch 00000008, intr 00000000. MMU Fault"
OLD_KILL = "[Wed Nov 27 22:10:48 2024] Memory cgroup out of memory: Killed process 488120 (python) total-vm:212004112kB"


@pytest.mark.parametrize(
    ("line", "now", "cause"),
    [
        (OLD_XID, "Tue Feb 18 10:05:33 2025", None),
        (OLD_XID, "Fri Aug 29 17:25:33 2025", "program-memory-fault"),
        (OLD_KILL, "Mon Dec  2 16:44:19 2024", None),
        (OLD_KILL, "Wed Nov 27 23:44:19 2024", "process-limits"),
    ],
)
def test_what_the_kernel_said_long_before_the_table_is_history(line: str, now: str, cause: str | None) -> None:
    assert root("$ nvidia-smi", now, TABLE, "$ sudo journalctl -k", line) == cause


ARCH = ("UserWarning:", "    Found GPU1 NVIDIA GeForce GT 710 which is of cuda capability 3.5.", "    PyTorch no longer supports this GPU because it is too old.")  # fmt: skip


def test_a_gpu_that_pytorch_passes_over_is_no_fault_of_a_run_on_another() -> None:
    assert root("$ head run.log", *ARCH) == "framework-lacks-gpu-arch"
    assert root("$ head run.log", *ARCH, "epoch 1 loss 0.2213 (212 s)") is None


def test_the_same_program_with_less_is_the_newer_state() -> None:
    failed = ("$ python train.py --batch 8", OOM)
    assert root(*failed) == "program-out-of-memory"
    assert root(*failed, "$ python train.py --batch 4", "step 500 loss 1.2886") is None
    assert root(*failed, "$ python train.py --batch 4", OOM) == "program-out-of-memory"
    below = ("$ nohup python train.py --batch 4 > run.log 2>&1 &", "[1] 771204")
    assert root(*failed, *below, "$ tail -n 1 run.log", "it 2000 loss 0.442 mem 44.8G") is None
    assert root(*failed, *below, "$ tail -n 1 run.log", "3/3 1.404 38 640: 100%|████| 313/313 [01:09<00:00,  4.50it/s]") is None
    assert root(*failed, *below, "$ tail -n 2 run.log", "it 20 loss 0.442", OOM) == "program-out-of-memory"
    assert root(*failed, *below, "$ tail -n 1 old.log", "it 2000 loss 0.442 mem 44.8G") == "program-out-of-memory"
    assert root(*failed, *below, "$ tail -n 1 run.log", "RuntimeError: error in it 12 loss 0.4") == "program-out-of-memory"
    rows = ("$ last -x reboot", "reboot   system boot  6.8.0-49-generic Thu Nov 21 07:30   still running")
    assert root(*failed, *below, "$ tail -n 1 run.log", "it 2000 loss 0.442 mem 44.8G", *rows) is None
    assert root(*failed, "$ python other.py", "step 500 loss 1.2886") == "program-out-of-memory"


def test_cards_for_the_bus_have_no_fabric() -> None:
    off = ("$ systemctl status nvidia-fabricmanager", "○ nvidia-fabricmanager.service - NVIDIA fabric manager service",
           "     Loaded: loaded (/lib/systemd/system/nvidia-fabricmanager.service; disabled; vendor preset: enabled)", "     Active: inactive (dead)")  # fmt: skip
    card = TABLE.replace("NVIDIA GeForce RTX 3090 ", "NVIDIA H100 PCIe        ")
    assert root("$ nvidia-smi", TABLE.replace("NVIDIA GeForce RTX 3090 ", "NVIDIA H100 80GB HBM3   "), *off) == "fabric-manager-not-running"
    assert root("$ nvidia-smi", card, *off) is None


def test_a_package_that_was_installed_below_can_be_located() -> None:
    failed = ("$ sudo apt-get install -y nvidia-container-toolkit", "E: Unable to locate package nvidia-container-toolkit")
    assert root(*failed) == "container-toolkit-missing"
    assert (
        root(*failed, "$ sudo apt-get install -y nvidia-container-toolkit -q", "Setting up nvidia-container-toolkit (1.17.4-1) ...") is None
    )


def test_rocm_answers_to_cudas_name() -> None:
    shown = "2.5.1+rocm6.2 None 6.2.41133-dd7f95766 True Radeon RX 7900 XTX"
    assert root("$ nvidia-smi", "Command 'nvidia-smi' not found, but can be installed with:", "$ python v.py", shown) is None
