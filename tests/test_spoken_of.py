"""Lines that only speak of a message: what counts as one, and what stays."""

from __future__ import annotations

import pytest

from cudadoctor.parsers.base import Text
from cudadoctor.parsers.spoken_of import lines_of
from tests.cases import every
from tests.pasted import report

SPOKEN = (
    'Earlier today I had "Driver/library version mismatch" after an update, a reboot solved that, all good since:',
    '        raise AssertionError("Torch not compiled with CUDA enabled")',
    '    throw std::runtime_error("CUDA driver version is insufficient for CUDA runtime version");',
    '    case CUDA_ERROR_NO_DEVICE: return "no CUDA-capable device is detected";',
    '  fprintf(stderr, "Failed to dlopen libcuda.so.1: is the driver installed?\\n");',
    '        if "Driver/library version mismatch" in str(error):',
    '    ("NVRM: Xid (PCI:0000:01:00): 79, pid=1, GPU has fallen off the bus.", "bus"),',
    '* Fixed a bug that could cause "GPU has fallen off the bus" messages.',
    "* Clearer words for `libcuda.so.1: cannot open shared object file` (#1204)",
    '**Q: I get `could not select device driver "" with capabilities: [[gpu]]`.**',
    '- "CUDA driver version is insufficient for CUDA runtime version" -> ask to update the driver',
    "It would be great if a hint came with `CUDA out of memory`.",
    '<!-- e.g. "CUDA out of memory" -->',
    '# "libcuda.so.1: cannot open shared object file" is normal while building',
    'Solved: "Driver/library version mismatch" was gone after a reboot.',
    "tests/test_gpu.py::test_mul SKIPPED (requires a GPU with compute capability 8.0 or higher)",
    'Is "Xid 79" always a hardware fault?',
    '- Retry when nvmlInit fails, so "Failed to initialize NVML: Unknown Error" no longer crashes the plugin',
    "**`Failed to initialize NVML: Driver/library version mismatch`** - you updated the driver; reboot.",
    'Right now people can choose it and only later read "requires use of the NVIDIA open kernel modules".',
    "Update: solved! After suspend it was CUDA_ERROR_UNKNOWN, a reload of the module brought it back.",
    "* No `GPU has fallen off the bus`",
    "**`RmInitAdapter failed!`** - look at the line above.",
    'Update: the "Driver/library version mismatch" from my first post went away with the reboot.',
    "- Fixed: the probe printed `Driver/library version mismatch` twice.",
    "2. `GPU has fallen off the bus` (Xid 79): drain, power cycle",
    'FATAL = {48: "DBE", 79: "GPU has fallen off the bus", 119: "GSP RPC timeout"}',
    'When somebody runs it without a card they see "Found no NVIDIA driver on your system".',
    "* If modprobe prints `Key was rejected by service`, enroll the key.",
    "1. `Driver/library version mismatch` after patch day: reboot",
    'The "Driver/library version mismatch" from yesterday is gone, the reboot did it.',
)
SHOWN = (
    'I had "Driver/library version mismatch" after an update, a reboot fixed it, but today it came again.',
    'I had "Driver/library version mismatch" after an update and a reboot does not help.',
    "**`RmInitAdapter failed!`** - on the second node as well",
    'It says "Driver/library version mismatch" and the card went off.',
    "AssertionError: Torch not compiled with CUDA enabled",
    "RuntimeError: CUDA error: no kernel image is available for execution on the device",
    'I get "CUDA driver version is insufficient for CUDA runtime version".',
    "- nvidia-smi: Failed to initialize NVML: Driver/library version mismatch",
    "What does Xid 79 mean? The GPU is gone.",
    '{"error": "CUDA out of memory"}',
    "I followed the guide, and now get `libcuda.so.1: cannot open shared object file`.",
    "        return self.lst[devnum]",
    "No CUDA GPUs are available",
    '- Since the update "Failed to initialize NVML: Unknown Error" crashes the plugin',
    "**`Failed to initialize NVML: Driver/library version mismatch`** - since yesterday.",
    'The people here read "requires use of the NVIDIA open kernel modules".',
    "Update: not solved! It is CUDA_ERROR_UNKNOWN again.",
    "1. `Driver/library version mismatch`: restart does not help",
    '79: "GPU has fallen off the bus"',
    'When I run it I see "Found no NVIDIA driver on your system".',
    "* modprobe prints `Key was rejected by service`, I enrolled the key.",
    "1. `Driver/library version mismatch`: every morning",
    'The "Driver/library version mismatch" from yesterday is gone after a reboot, but returns each night.',
)


@every("line", SPOKEN)
def test_a_line_that_speaks_of_a_message(line: str) -> None:
    assert report(f"above\n{line}\nbelow").diagnosis.root is None


@every("line", SHOWN)
def test_a_line_that_shows_one(line: str) -> None:
    assert not lines_of(Text(f"above\n{line}\nbelow", source="text"))


CHANGES = '- Print a hint where `libcuda.so.1` is missing\n- CI: drop CUDA 11.3 ("Unsupported gpu architecture")\n- Docs: explain it\n'


@pytest.mark.parametrize("heading", ["## 0.9.4 (2024-03-12)", "v1.2 - 2024-03-12\n", "[0.9.4] 2024-03-12"])
def test_every_item_below_a_release_and_its_day(heading: str) -> None:
    text = Text(f"{heading}\n{CHANGES}\n- another list", source="text")
    assert {text.lines[index][:3] for index in lines_of(text)} == {"- P", "- C", "- D"}


@pytest.mark.parametrize("heading", ["What I tried:", "numba 0.60.0"])
def test_a_list_of_something_else_stays(heading: str) -> None:
    assert lines_of(Text(f"{heading}\n{CHANGES}", source="text")) == frozenset()


def test_code_below_a_frame_is_part_of_a_traceback() -> None:
    frame = '  File "/usr/lib/python3/dist-packages/torch/cuda/__init__.py", line 239, in _lazy_init\n'
    assert not lines_of(Text(frame + SPOKEN[0], source="text"))


def test_a_long_paragraph_stays() -> None:
    assert not lines_of(Text(SPOKEN[12] + " And then it fails." * 30, source="text"))


def test_what_is_only_spoken_of_is_no_earlier_attempt() -> None:
    found = report(
        'raise RuntimeError("CUDA driver version is insufficient for CUDA runtime version")\nFailed to initialize NVML: GPU is lost\n'
    )
    assert found.diagnosis.root is not None
    assert found.diagnosis.root.cause == "gpu-fell-off-bus"
    assert found.diagnosis.also == () == found.notes
