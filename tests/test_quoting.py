"""Blocks that quote messages and report none: nothing is claimed of them, and everything of the same words where a program says them."""

from __future__ import annotations

import pytest

from cudadoctor.knowledge.load import load
from cudadoctor.parsers.discourse import speech_of
from cudadoctor.prescribe import placeholders
from tests.cases import every
from tests.judging import KNOWLEDGE, cause_of
from tests.pasted import report

FORMS = speech_of(load()).quoting
MISMATCH = "Failed to initialize NVML: Driver/library version mismatch"
NO_IMAGE = "RuntimeError: CUDA error: no kernel image is available for execution on the device"
QUOTING = {
    "grep": f'$ grep -rn mismatch src/\nsrc/nvml.c:120:    case 18: return "{MISMATCH}";\nsrc/py/e.py:33:    18: "{MISMATCH}",\n',
    "rg": 'rg "off the bus" drivers/\ndrivers/nv.c\n1045:            "NVRM: GPU at %s has fallen off the bus\\n",\n1046-            addr);\n',
    "C": f'static const char *msg(int e) {{\n    switch (e) {{\n    case 18: return "{MISMATCH}";\n    default: return "?";\n    }}\n}}\n',
    "Python": f'def check(e):\n    if e == 100:\n        raise RuntimeError("no CUDA-capable device is detected")\n    log.error("{MISMATCH}")\n'
    "    return True\n",
    "tests": f"tests/test_nvml.py::test_says['{MISMATCH}'] PASSED\ntests/test_x.py::test_y PASSED\n",
    "table": f"| Message | Meaning |\n|---|---|\n| {MISMATCH} | the driver was upgraded |\n",
    "checklist": f'Node checklist\n\n1. nvidia-smi does not print "{MISMATCH}"\n2. dmesg shows no Xid 79\n3. the fans turn\n',
    "runbook": f"## Runbook\n\n- `{MISMATCH}`: reboot the node.\n- `Xid 79`: drain it.\n- out of memory: ask the owner.\n",
    "changes": f'v2.3.1\n- Fix crash with "{NO_IMAGE}"\n- Report {MISMATCH}\n- Add a flag\n',
    "mail": f"On Mon, Bob wrote:\n> I get {NO_IMAGE}\n> on my RTX 5090\n\nInstall the cu128 build, that is all there is to it.\n",
    "solved": f"nvidia-smi said {MISMATCH}.\nAfter a reboot everything works again. Thanks all!\n",
    "mail without a head": f"Hello Ann,\n\n> my training stops with {NO_IMAGE}\n> since we changed the card\n\nThat wheel is of last year.\n",
    "mail in mail": f"> > {NO_IMAGE}\n> Which wheel is that?\n\nThe one of last year.\n",
    "a manual page": "TOOL(1)          Vendor          TOOL(1)\n\nRETURN VALUE\n       ·   Code 15 - The GPU has fallen off the bus\n"
    f"       ·   Code 18 - {MISMATCH}\n",
    "a changelog of Debian": f"foo (580.1-1) unstable; urgency=medium\n\n  * New release:\n    - {NO_IMAGE}\n      is no longer possible\n\n"
    " -- Ann <ann@example.org>  Mon, 02 Feb 2026 10:00:00 +0100\n",
    "git log": f"$ git log --oneline -- src/nvml.c\n1a2b3c4d5e {MISMATCH}: say which\n2b3c4d5e6f {NO_IMAGE}\n",
    "git log, what is looked for": f"$ git log -S'{MISMATCH}' --oneline\n1a2b3c4d5e say which\n",
    "git blame": f"$ git blame e.py\n1a2b3c4d (Ann 2026-01-02 10:11:12 +0100 7)   {NO_IMAGE}\n",
    "a search with its prompt": f'$ grep -rn "kernel|image" torch\ntorch/cuda/a.py:318:{{}} of sm_{{}}\ntorch/cuda/b.py:412:{NO_IMAGE}\n',
    "a search that finds a log among sources": f'a/nv.h:7:#define E_BUS "the GPU is gone"\na/nv.h:8:#define E_OLD "too old"\na/t.c:9:    {{ 7, "x" }},\n'
    f"a/data/dmesg-1.log:3:{MISMATCH}\n",
    "records of tests that passed": "------------------------------ live log call ------------------------------\n"
    "ERROR    app.gpu:gpu.py:42 NVRM: Xid (PCI:0000:65:00): 79, GPU has fallen off the bus.\nPASSED          [100%]\n\n"
    "============================ 2 passed in 1.31s ============================\n",
    "tests that passed, told in few words": f"$ pytest -q -rA\n..    [100%]\n==================== PASSES ====================\n________ test_old ________\n"
    f"RuntimeError: {NO_IMAGE}\nPASSED tests/test_a.py::test_old\n2 passed in 1.31s\n",
    "tests that passed, behind the time": "2026-02-17T07:14:03.44Z Test project /home/ann/build\n2026-02-17T07:14:03.70Z     Start 1: sums\n"
    f"2026-02-17T07:14:03.80Z {NO_IMAGE}\n2026-02-17T07:14:03.81Z 1/1 Test #1: sums .......***Skipped\n"
    "2026-02-17T07:14:04.03Z 100% tests passed, 0 tests failed out of 1\n",
    "a commit": f"commit 1a2b3c4d5e6f70819203a4b5c6d7e8f901234567\nAuthor: Ann <ann@example.org>\nDate:   Tue Jan 20 16:08:55 2026 +0100\n\n"
    f"    errors: say more\n\n        {NO_IMAGE}\n",
    "alerts in a group": "groups:\n  - name: gpus\n    rules:\n      - alert: Driver\n        expr: x > 0\n        annotations:\n"
    f"          summary: {MISMATCH}\n      - alert: Bus\n        expr: y > 0\n",
    "a mapping": f'HINTS = {{\n    "{MISMATCH}": "Restart.",\n    "{NO_IMAGE}": "Take a newer build.",\n}}\n',
    "a Dockerfile": "FROM nvidia/cuda:12.8.1-devel-ubuntu24.04\nENV CUDA_HOME=/usr/local/cuda\nRUN apt-get update\n"
    f"# without the runtime: libcuda.so.1: cannot open shared object file: No such file or directory\n# {NO_IMAGE}\n",
    "YAML": "resources:\n  limits:\n    nvidia.com/gpu: 1\nruntimeClassName: nvidia  # else libcuda.so.1: cannot open shared object file: "
    "No such file or directory\n",
    "terms": f"4.2 Codes\n\nE_NO_IMAGE\n    {NO_IMAGE}. Rebuild it.\n\nE_MISMATCH\n    {MISMATCH}. Restart it.\n\nE_OTHER\n    All else.\n",
    "solved below": f"{NO_IMAGE}\n\nEDIT: solved by installing the cu128 wheel.\n",
}
REPORTING = {
    "of a place in a source": "main.cu:511: CUDA runtime error 209: no kernel image is available for execution on the device\n"
    "main.cu:512: CUDA runtime error 209: no kernel image is available for execution on the device\n",
    "of a compiler": "a.cu:12:5: error: x\nnvcc fatal   : Unsupported gpu architecture 'compute_35'\na.cu:13:5: error: y\n",
    "below a traceback": f'Traceback (most recent call last):\n  File "x.py", line 3, in <module>\n    raise f(x);\n    return g(y);\n{NO_IMAGE}\n',
    "in a list of one's own": f"What I tried:\n- nvidia-smi: {MISMATCH}\n- fixed the PATH\n- added a variable\n",
    "in a table of one's own": f"| Error | Node |\n|---|---|\n| {MISMATCH} | gpu-3 |\n",
    "by whoever answers": f"On Mon, Bob wrote:\n> {MISMATCH}\n\nI have the same here. Any idea?\n",
    "set off by a sign": f"My card is new.\n\n> {NO_IMAGE}\n\nThe driver is of this month.\n",
    "a search in logs alone": f"var/log/a.log:3:{MISMATCH}\nvar/log/b.log:7:{MISMATCH}\n",
    "below a manual page": f"TOOL(1)          Vendor          TOOL(1)\n\nRETURN VALUE\n       Code 18 - {NO_IMAGE}\n\nI see it here:\n{MISMATCH}\n",
    "behind git": f"$ git pull\nAlready up to date.\n$ python a.py\n{NO_IMAGE}\n",
    "below a pipe": f"$ dmesg | grep -i nvrm\n{MISMATCH}\n",
    "a build of an image": f"Step 3/4 : RUN nvidia-smi\n ---> Running in 1a2b3c4d5e6f\n{MISMATCH}\n",
    "a record of a test that failed": "---------- live log call ----------\nERROR    app.gpu:gpu.py:42 NVRM: Xid (PCI:0000:65:00): 79, GPU has "
    "fallen off the bus.\nFAILED          [100%]\n=========== 1 failed, 2 passed in 1.31s ===========\n",
    "a quiet test that failed": f"==================== PASSES ====================\n________ test_old ________\nRuntimeError: {NO_IMAGE}\n"
    "FAILED tests/test_a.py::test_old\n1 failed, 2 passed in 1.31s\n",
    "a record in JSON": f'{{\n  "error": "{MISMATCH}",\n  "exit code": 18\n}}\n',
    "not solved": f"{MISMATCH}\nA reboot did not help, so this is not solved.\n",
    "solved for a while": f"{MISMATCH}\nAfter a reboot it works again, but only until the next upgrade.\n",
    "a test that failed": f"tests/test_gpu.py::test_nvml FAILED\n{MISMATCH}\n",
}


@every("name", QUOTING)
def test_nothing_is_claimed(name: str) -> None:
    found = report(QUOTING[name]).diagnosis
    assert (found.root, found.suspects) == (None, ())


@every("name", REPORTING)
def test_what_is_reported_counts(name: str) -> None:
    found = report(REPORTING[name]).diagnosis
    assert found.root is not None or found.suspects


def test_values_and_tables_of_tools_are_no_code() -> None:
    inspect = '{\n  "Runtime": "runc",\n  "DeviceRequests": null,\n  "Devices": [],\n}\n'
    assert FORMS.lines_of(inspect.split("\n")) == frozenset()
    smi = (
        "|-----------------------------------------+----------------------+\n| GPU  Name       | Fix |\n|=========+=====|\n| 0 Tesla |  x |"
    )
    assert FORMS.lines_of(smi.split("\n")) == frozenset()


@pytest.mark.parametrize(
    ("heading", "rows"),
    [
        ("| Message | What to do |\n|---|---|\n", {2, 3}),
        ("| Error | Cause | Fix |\n| :--- | --- | --- |\n", {2, 3}),
        ("| Error | Node |\n|---|---|\n", set()),
        ("| Message | What to do |\n\n", set()),
    ],
)
def test_the_rows_of_a_table_of_advice_speak(heading: str, rows: set[int]) -> None:
    table = "| `CUDA out of memory` | a smaller batch |\n| `Torch not compiled with CUDA enabled` | Install it again |\nThat is all.\n"
    assert FORMS.lines_of((heading + table).split("\n")) == rows


# ---------------------------------------------------------------- lines that are one alone
SPOKEN = (
    'Earlier today I had "Driver/library version mismatch" after an update, a reboot solved that, all good since:',
    '        raise AssertionError("Torch not compiled with CUDA enabled")',
    '    throw std::runtime_error("CUDA driver version is insufficient for CUDA runtime version");',
    '    case CUDA_ERROR_NO_DEVICE: return "no CUDA-capable device is detected";',
    '  fprintf(stderr, "Failed to dlopen libcuda.so.1: is the driver installed?\\n");',
    '        if "Driver/library version mismatch" in str(error):',
    '    ("NVRM: Xid (PCI:0000:01:00): 79, pid=1, GPU has fallen off the bus.", "bus"),',
    '* Fixed a bug that could cause "GPU has fallen off the bus" messages.',
    'TASK [nvidia : reboot if "Driver/library version mismatch"] ****',
    "TASK [nvidia : fail if Xid 48, 64 or 95 in the kernel log] ****",
    "(1) RuntimeError: CUDA error: no kernel image is available for execution on the device",
    "Pau: and with the old power supply Xid 79 will come",
    "Short description: node 19 GPU 5 Xid 64 row remapper failure",
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
    assert not FORMS.lines_of(("above", line, "below"))


CHANGES = '- Print a hint where `libcuda.so.1` is missing\n- CI: drop CUDA 11.3 ("Unsupported gpu architecture")\n- Docs: explain it\n'


@pytest.mark.parametrize("heading", ["## 0.9.4 (2024-03-12)", "v1.2 - 2024-03-12\n", "[0.9.4] 2024-03-12"])
def test_every_item_below_a_release_and_its_day(heading: str) -> None:
    lines = f"{heading}\n{CHANGES}\n- another list".split("\n")
    assert {lines[index][:3] for index in FORMS.lines_of(lines)} == {"- P", "- C", "- D"}


@pytest.mark.parametrize("heading", ["What I tried:", "numba 0.60.0"])
def test_a_list_of_something_else_stays(heading: str) -> None:
    assert FORMS.lines_of(f"{heading}\n{CHANGES}".split("\n")) == frozenset()


def test_what_is_only_spoken_of_is_no_earlier_attempt() -> None:
    found = report(
        'raise RuntimeError("CUDA driver version is insufficient for CUDA runtime version")\nFailed to initialize NVML: GPU is lost\n'
    )
    assert cause_of(found) == "gpu-fell-off-bus"
    assert found.diagnosis.also == () == found.notes


@pytest.mark.parametrize("path", ['C:\\a" -M "b', "C:\\a|b", "C:\\a*"])
def test_no_path_of_windows_has_what_windows_has_in_no_name(path: str) -> None:
    assert placeholders.fits("cuda_home", "C:\\a b", KNOWLEDGE)
    assert not placeholders.fits("cuda_home", path, KNOWLEDGE)
