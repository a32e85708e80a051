"""Faults and odd machines of written_apart.toml: a plain kernel and the doctor run in the same shell, and what the doctor says must be right.

    CUDADOCTOR_PATIENT=/path/to/python pytest -m gpu_faults tests/faults/test_written_apart.py

`setup` is sourced in a mount namespace of its own, with $D for a fresh folder and $PATIENT for the interpreter, which it may replace;
`prefix` starts both programs.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tests.faults import test_gpu_faults as faults
from tests.faults.test_gpu_faults import PATIENT, said

pytestmark = faults.pytestmark
ROOT = Path(__file__).resolve().parents[2]
KERNEL = """
import math, numpy as np
from numba import cuda
@cuda.jit
def exponential(a, b):
    i = cuda.grid(1)
    if i < a.size: b[i] = math.exp(a[i]) + 1
a = np.linspace(-3, 3, 1 << 16).astype(np.float32)
d = cuda.to_device(a); r = cuda.device_array_like(d)
exponential[256, 256](d, r); cuda.synchronize()
assert np.allclose(r.copy_to_host(), np.exp(a) + 1, rtol=1e-5)
"""


class Written(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    gpus: int
    verdict: str
    setup: str
    root: str | None = None
    prefix: str = ""


class Listed(msgspec.Struct, frozen=True):
    fault: tuple[Written, ...]


EVERY = msgspec.toml.decode(Path(__file__).with_name("written_apart.toml").read_text("utf-8"), type=Listed).fault
HERE = sum(1 for name in os.listdir("/dev") if name.startswith("nvidia") and name[6:].isdigit()) if os.path.isdir("/dev") else 0


def script(fault: Written, folder: Path) -> str:
    doctor = f"{sys.executable} -m cudadoctor check --format json --timeout 60"
    return f"""export D={folder} PATIENT={PATIENT}; chmod 1777 $D; chmod a+rx $D/.. $D/../.. $D/../../..; cd /; HELPER=
{fault.setup}
{fault.prefix} timeout 60 "$PATIENT" $D/kernel.py > $D/kernel.out 2>&1; echo $? > $D/kernel.rc
{fault.prefix} env PYTHONPATH={ROOT}${{PYTHONPATH:+:$PYTHONPATH}} {doctor} --python "$PATIENT" > $D/report.json 2> $D/report.err
[ -n "$HELPER" ] && kill $HELPER; true"""


@pytest.mark.parametrize("fault", EVERY, ids=[fault.name for fault in EVERY])
def test_it_is_named(fault: Written, tmp_path: Path) -> None:
    if fault.gpus != HERE:
        pytest.skip(f"needs {fault.gpus} GPUs, here are {HERE}")
    (tmp_path / "kernel.py").write_text(KERNEL)
    argv = ["unshare", "-m", "--propagation", "private", "bash", "-c", script(fault, tmp_path)]
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, start_new_session=True) as shell:
        shell.wait(200)
    try:
        os.killpg(shell.pid, signal.SIGKILL)  # what was started in the background
    except OSError:
        pass
    text = (tmp_path / "report.json").read_text("utf-8")
    assert text.strip(), (tmp_path / "report.err").read_text("utf-8")
    assert said(dict(json.loads(text))) == (fault.root, fault.verdict)
    ran = (tmp_path / "kernel.rc").read_text().strip() == "0"
    # Undecided is right only where the doctor may not look where the kernel fails.
    assert ran == (fault.verdict not in ("broken", "undecided")), (tmp_path / "kernel.out").read_text("utf-8", "replace")
