"""The last outcome of a text counts: what was changed below a failure, and computes then, is over; all else stands."""

from __future__ import annotations

import pytest

from tests.judging import cause_of
from tests.pasted import report, root, suspects

ADA = "ada@box:~$ "
MISMATCH = "Failed to initialize NVML: Driver/library version mismatch"
IMAGE = "RuntimeError: CUDA error: no kernel image is available for execution on the device"
TRAINS = "device cuda:0\nstep 100 | loss 2.31 | 3.4 it/s"
LOST = "NVRM: Xid (PCI:0000:02:00): 79, pid=12, name=python3, GPU has fallen off the bus."


def session(*lines: str) -> str:
    return "\n".join(lines) + "\n"


FAILS = session(f"{ADA}python a.py", IMAGE)
OVER = {
    "another wheel": session(FAILS, f"{ADA}pip install torch==2.9.1", f"{ADA}python b.py", TRAINS),
    "a log that tells of it": session("=== run 1 ===", IMAGE, "=== run 2 ===", "torch 2.9.1 installed", TRAINS),
    "a fault of the host, in a container": session(
        f"{ADA}nvidia-smi", MISMATCH, f"{ADA}sudo modprobe nvidia", f"{ADA}docker run --gpus all img", TRAINS
    ),
    "a driver that lists its GPU": session(
        f"{ADA}sudo modprobe nvidia", "modprobe: ERROR: could not insert 'nvidia': Key was rejected by service", f"{ADA}sudo reboot",
        f"{ADA}nvidia-smi -L", "GPU 0: NVIDIA A10 (UUID: GPU-6f1c2f0e-3a57-52c9-9a7c-1ad6d6c10a3c)",
    ),
}  # fmt: skip
STANDS = {
    "nothing was changed": session(FAILS, f"{ADA}python b.py", TRAINS),
    "changed before it failed": session(f"{ADA}pip install torch==2.9.1", FAILS, f"{ADA}python b.py", TRAINS),
    "it fails again": session(FAILS, f"{ADA}pip install torch==2.9.1", f"{ADA}python b.py", TRAINS, f"{ADA}python a.py", IMAGE),
    "it computes and ends badly": session(FAILS, f"{ADA}pip install -U numpy", f"{ADA}python b.py", TRAINS, "Killed"),
    "on another host": session(FAILS, f"{ADA}pip install torch==2.9.1", "ada@other:~$ python a.py", TRAINS),
    "of a Python, in a container": session(FAILS, f"{ADA}pip install -U numpy", f"{ADA}docker run --gpus all img", TRAINS),
    "on the processor": session(FAILS, f"{ADA}pip install -U numpy", f"{ADA}python b.py", "falling back to CPU", TRAINS),
    "no GPU is named": session(FAILS, f"{ADA}pip install -U numpy", f"{ADA}python b.py", "step 100 | loss 2.31 | 3.4 it/s"),
    "somebody asks on": session(FAILS, f"{ADA}pip install -U numpy", f"{ADA}python b.py", TRAINS, "", "How do I get a.py to run?"),
    "one of several GPUs": session(f"{ADA}dmesg | tail -n 1", LOST, f"{ADA}sudo systemctl restart app", f"{ADA}python b.py", TRAINS),
}


@pytest.mark.parametrize("name", OVER)
def test_what_was_changed_and_computes_is_over(name: str) -> None:
    assert (root(OVER[name]), suspects(OVER[name])) == (None, [])


def test_what_fails_further_below_is_what_counts() -> None:
    text = session(FAILS, f"{ADA}pip install torch==2.9.1", f"{ADA}python b.py", TRAINS, f"{ADA}nvidia-smi", MISMATCH)
    assert root(text) == "driver-version-mismatch"
    assert "framework-lacks-gpu-arch" not in {finding.cause for finding in report(text).diagnosis.also}


ELSEWHERE = {
    "on the processor": f"{ADA}./nbody -benchmark -cpu\n= 50.943 single-precision GFLOP/s at 20 flops per interaction",
    "in a source": f"{ADA}grep -rn Result samples\nsamples/deviceQuery.cpp:312: Result = PASS",
    "on another host": f"{ADA}ssh gpu2 ./deviceQuery\nResult = PASS",
    "at another time": f"{ADA}journalctl -u ollama\nload_tensors: offloaded 33/33 layers to GPU",
    "in a guide": "Expected output:\n\nResult = PASS",
    "in a sentence": "On my other computer torch.ones(3) says tensor([1., 1., 1.], device='cuda:0'), as the manual tells.",
}


@pytest.mark.parametrize("name", ELSEWHERE)
def test_what_computes_elsewhere_is_no_word_of_health(name: str) -> None:
    found = report(f"{ADA}nvidia-smi\n{MISMATCH}\n\n{ELSEWHERE[name]}\n")
    assert (found.verdict, cause_of(found)) == ("broken", "driver-version-mismatch")


NONE_USED = {
    "tests that leave it out": "pytest -q -m 'not gpu'\ncollected 12 items\n12 passed, 3 deselected in 1.2s",
    "tests that skip it": "pytest -q -rs\nSKIPPED [3] t.py:4: needs a CUDA device\n12 passed, 3 skipped in 1.2s",
    "an option against it": "python train.py --no-cuda\nepoch 1 loss 0.31 12 it/s",
    "a log that has none": "python train.py\nGPU available: False, used: False\nepoch 1 loss 0.31 12 it/s",
    "a banner that names it": "ffmpeg -i a -c:v libx264 b\nconfiguration: --enable-cuda-nvcc\nframe= 90 fps= 30 speed=1.2x",
}


@pytest.mark.parametrize("name", NONE_USED)
def test_what_computes_without_a_gpu_ends_no_failure(name: str) -> None:
    assert root(session(FAILS, f"{ADA}pip install -U numpy", f"{ADA}{NONE_USED[name]}")) == "framework-lacks-gpu-arch"


@pytest.mark.parametrize("name", STANDS)
def test_all_else_stands(name: str) -> None:
    assert root(STANDS[name]) == ("gpu-fell-off-bus" if LOST in STANDS[name] else "framework-lacks-gpu-arch")
