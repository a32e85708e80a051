"""Launches with their configuration in numbers: read from source lines, put right in the fix, and diagnosed where the smoke test makes one."""

from __future__ import annotations

import json
import re

import msgspec
import pytest

from cudadoctor import api
from cudadoctor.judge.stages import judge
from cudadoctor.model.values import LAUNCH
from cudadoctor.parsers import launches
from cudadoctor.parsers.base import Text
from cudadoctor.report import smoke_text
from cudadoctor.report.text import Style
from tests.command_line import evidence_of
from tests.judging import KNOWLEDGE, cause_of

REFUSED = {
    "numba": "numba.cuda.cudadrv.driver.CudaAPIError: [1] Call to cuLaunchKernel results in CUDA_ERROR_INVALID_VALUE",
    "cuda": "CUDA error: invalid configuration argument",
    "pycuda": "pycuda._driver.LogicError: cuLaunchKernel failed: invalid argument",
}


@pytest.mark.parametrize(
    ("line", "form", "kernel", "grid", "block"),
    [
        ("    add[1, 2048](x, y, out)", "numba", "add", (1,), (2048,)),
        ("    blur[(4, 4), (64, 64)](image)", "numba", "blur", (4, 4), (64, 64)),
        ("    step[8, 1025, stream](d_a)", "numba", "step", (8,), (1025,)),
        ("  scale<<<1, 2000>>>(d, n);", "cuda", "scale", (1,), (2000,)),
        ("  scale<<<dim3(2, 2), dim3(64, 64), 0, s>>>(d, n);", "cuda", "scale", (2, 2), (64, 64)),
        ("func(a_gpu, block=(2048, 1, 1), grid=(1, 1))", "pycuda", "func", (1, 1), (2048, 1, 1)),
    ],
)
def test_a_launch_is_read(line: str, form: str, kernel: str, grid: tuple[int, ...], block: tuple[int, ...]) -> None:
    (fact,) = launches.parse(Text(f"x = 1\n{line}\n", source="text"))
    value = fact.value  # type: ignore[union-attr]
    assert fact.key == LAUNCH.name
    assert (value.form, value.kernel, value.grid, value.block, value.line) == (form, kernel, grid, block, 2)


@pytest.mark.parametrize(
    "line", ["table[3, 5000]", "add[blocks, threads](x)", "f[1](x)", "a <<< b", "block = 5", "add[1, 2048" + "0" * 400 + "](x)"]
)
def test_other_lines_are_none(line: str) -> None:
    assert not list(launches.parse(Text(line, source="text")))


@pytest.mark.parametrize(
    ("form", "line", "fitting"),
    [
        ("numba", "add[1, 2048](x, y, out)", "`add[8, 256](...)`"),
        ("numba", "add[3, 1025](x)", "`add[15, 256](...)`"),
        ("numba", "blur[(4, 5), (64, 33)](image)", "`blur[(16, 15), (16, 16)](...)`"),
        ("cuda", "scale<<<dim3(2, 2), dim3(64, 64)>>>(d);", "`scale<<<dim3(8, 8), dim3(16, 16)>>>(...)`"),
        ("pycuda", "func(a, block=(2048, 1, 1), grid=(1, 1))", "`func(..., block=(8, 1, 1), grid=(256, 1, 1))`"),
    ],
)
def test_the_fix_names_the_right_configuration(form: str, line: str, fitting: str) -> None:
    report = api.explain(f"  File 'a.py', line 3\n    {line}\n{REFUSED[form]}\n")
    assert cause_of(report) == "program-launch-config"
    assert report.prescription is not None
    assert fitting in report.prescription.steps[0].text


@pytest.mark.parametrize("line", ["add[1, 1024](x)", "add[0, 2048](x)"])
def test_a_launch_that_is_not_shown_to_be_too_large_is_not_put_right(line: str) -> None:
    report = api.explain(f"    {line}\n{REFUSED['numba']}\n")
    assert report.prescription is not None
    assert not any("add[" in step.text for step in report.prescription.steps)


def test_the_refusal_that_smoke_asks_for_is_diagnosed() -> None:
    evidence = evidence_of("h200-smoke")
    planted = "write[1, 1025](...)\ncuLaunchKernel returned 1 (CUDA_ERROR_INVALID_VALUE)"
    items = tuple(msgspec.structs.replace(item, stdout=_with(item.stdout or "", planted)) for item in evidence.items)
    report = judge(msgspec.structs.replace(evidence, items=items), KNOWLEDGE)
    assert report.verdict == "healthy"  # what a step provoked is no fault of the machine
    (told,) = [result for result in report.smoke if result.planted is not None]
    assert told.planted is not None
    assert told.planted.cause == "program-launch-config"
    shown = " ".join(smoke_text.steps(report, Style()).split())
    assert re.search(r"diagnosed as program-launch-config: write\[1, 1025\].*`write\[5, 256\]\(\.\.\.\)`", shown)


def _with(output: str, planted: str) -> str:
    """What the worker printed, with these words of the refusal."""
    lines = []
    for line in output.splitlines(keepends=True):
        fields = json.loads(line) if '"launch limits"' in line and '"smoke"' in line else None
        lines.append(line if fields is None else json.dumps({**fields, "planted": planted}) + "\n")
    return "".join(lines)
