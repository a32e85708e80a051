"""bench --sustained: what the worker wrote becomes curves, and a GPU that falls more than its equals is named."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from cudadoctor.knowledge.load import load as knowledge_of_package
from cudadoctor.model.evidence import Item
from cudadoctor.model.report import Report, SustainedSample
from cudadoctor.model.values import Ladder
from cudadoctor.parsers import worker_gpu
from cudadoctor.parsers.read import text_of
from cudadoctor.report import bench_text, html
from cudadoctor.report.page import Style
from tests.judging import report_of

KNOWLEDGE = knowledge_of_package()


def samples(gpu: int, fall: float, **more: Any) -> list[SustainedSample]:
    """Twenty seconds, two looks a second, in which the throughput falls evenly."""
    fields: dict[str, Any] = {"clock_mhz": 1400.0, "power_w": 690.0, "temperature_c": 60, "reasons": (), "unit": "TFLOP/s", **more}
    return [SustainedSample(gpu=gpu, seconds=at / 2, value=700 * (1 - fall * at / 40), **fields) for at in range(1, 41)]


def under_load(*found: list[SustainedSample]) -> Report:
    return msgspec.structs.replace(report_of("h200x2-bench"), sustained=tuple(one for some in found for one in some))


def remarks(*falls: float) -> list[tuple[str, ...]]:
    return [one.remarks for one in bench_text.courses(under_load(*(samples(gpu, fall) for gpu, fall in enumerate(falls))))]


def test_who_falls_more_than_its_equal_is_named() -> None:
    assert remarks(0.01, 0.02) == [(), ()]
    steady, falls = remarks(0.01, 0.25)
    assert steady == ()
    assert falls[0].startswith("its throughput fell by 1")
    assert falls[1].startswith("it falls more than the other, by 1%")
    both = remarks(0.25, 0.25)  # a power limit, or a warm room: nobody is apart
    assert [len(one) for one in both] == [1, 1]


def test_what_held_the_clocks_is_said_with_the_limit() -> None:
    report = under_load(samples(0, 0.0, reasons=("sw-power-cap",)), samples(1, 0.0, reasons=("hw-thermal-slowdown",)))
    gpus = tuple(msgspec.structs.replace(gpu, power_limit_w=700.0) for gpu in report.machine.gpus)
    capped, hot = bench_text.courses(msgspec.structs.replace(report, machine=msgspec.structs.replace(report.machine, gpus=gpus)))
    assert capped.remarks == ("clocks held by the power limit of 700 W in 39 of 39 moments",)
    assert hot.remarks == ("clocks held by hw-thermal-slowdown in 39 of 39 moments",)


@pytest.mark.parametrize("ascii_only", [False, True])
def test_curves_stand_in_text_and_fit(ascii_only: bool) -> None:
    out = bench_text.render(under_load(samples(0, 0.2), samples(1, 0.0)), KNOWLEDGE, Style(width=80, ascii=ascii_only))
    lines = out.splitlines()
    assert all(len(line) <= 80 for line in lines[:12])
    first = next(line for line in lines if line.strip().startswith("throughput"))
    assert ("█" in first) is not ascii_only
    assert first.rstrip().endswith("TFLOP/s")


def test_curves_stand_in_html() -> None:
    page = html.render(under_load(samples(0, 0.2)), KNOWLEDGE)
    assert page.count("<polyline") == 4
    assert "throughput: 6" in page


def test_what_a_worker_wrote_until_it_was_ended_is_kept() -> None:
    events = [
        {"event": "start"},
        {"event": "begin", "step": "context", "gpu": 0},
        {"event": "end", "step": "context", "gpu": 0, "status": "pass"},
        *(
            {"event": "sustained", "gpu": 0, "at": at, "value": 700.0, "unit": "TFLOP/s", "clock_mhz": None, "load": {}}
            for at in (0.5, 1.0)
        ),
    ]
    stdout = "".join(json.dumps(event) + "\n" for event in events)
    item = Item(id="sustained-0", kind="worker", what=("python", "on_gpus.py", "sustained"), status="timed-out", stdout=stdout)
    work = next(fact.value for fact in worker_gpu.parse(text_of(item)) if not hasattr(fact, "why"))
    assert isinstance(work, Ladder)
    assert [one.at for one in work.sustained] == [0.5, 1.0]
