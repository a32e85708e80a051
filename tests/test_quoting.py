"""Blocks that quote messages and report none: nothing is claimed of them, and everything of the same words where a program says them."""

from __future__ import annotations

import pytest

from cudadoctor.knowledge.load import load
from cudadoctor.parsers import quoting
from cudadoctor.parsers.discourse import speech_of
from tests.cases import every
from tests.pasted import report

TOO = speech_of(load()).too
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
    assert quoting.lines_of(inspect.split("\n"), TOO) == frozenset()
    smi = (
        "|-----------------------------------------+----------------------+\n| GPU  Name       | Fix |\n|=========+=====|\n| 0 Tesla |  x |"
    )
    assert quoting.lines_of(smi.split("\n"), TOO) == frozenset()


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
    assert quoting.lines_of((heading + table).split("\n"), TOO) == rows
