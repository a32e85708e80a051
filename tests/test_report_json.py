"""The report as JSON: it fits the published schema, every key is there, and it can be written whatever a machine says."""

from __future__ import annotations

import functools
import json
import math
from typing import Any

import jsonschema
import msgspec
import pytest

from cudadoctor.judge.stages import judge
from cudadoctor.knowledge.lookup import explain_code
from cudadoctor.model.evidence import Evidence
from cudadoctor.model.recipe import Action
from cudadoctor.model.report import BenchmarkResult
from cudadoctor.report.json import ascii_only, render, schema
from cudadoctor.sources import pasted
from tests import judging
from tests.cases import every
from tests.command_line import HEALTHY, NAMES, evidence_of, run
from tests.judging import KNOWLEDGE

SCHEMA: dict[str, Any] = json.loads(schema())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
REPORT = {
    "schema", "tool", "origin", "verdict", "exit_code", "action", "machine", "checks", "diagnosis", "prescription", "requirements",
    "smoke", "benchmark", "timing",
}  # fmt: skip
QUOTE = {"source", "first", "last", "text"}
FINDING = {"cause", "layer", "title", "subject", "effect", "basis", "evidence"}
# The keys of every object, by the place where it stands; [] is an entry of a list.
KEYS = {
    "": REPORT,
    "tool": {"name", "version"},
    "origin": {"kind", "python", "quick", "redacted"},
    "machine": {"system", "kernel", "distribution", "container", "wsl", "driver", "python", "gpus"},
    "machine.driver": {"module", "library", "cuda", "flavour"},
    "machine.python": {"path", "version", "packages"},
    "machine.gpus[]": {"address", "index", "uuid", "name", "architecture", "compute_capability", "memory_bytes", "visible"},
    "checks[]": {"id", "title", "status", "summary", "because", "evidence"},
    "checks[].evidence[]": QUOTE,
    "diagnosis": {"root", "suspects", "explains", "also", "ruled_out", "undecided", "ask", "crashes"},
    "diagnosis.root": FINDING,
    "diagnosis.root.evidence[]": QUOTE,
    "diagnosis.suspects[]": FINDING,
    "diagnosis.explains[]": FINDING,
    "diagnosis.also[]": FINDING,
    "diagnosis.undecided[]": {"row", "missing"},
    "diagnosis.ask[]": {"command", "why", "tells_apart"},
    "prescription": {"cause", "action", "steps"},
    "prescription.steps[]": {"id", "text", "shell", "needs_root", "kind", "mode", "when", "verify", "undo", "who", "values"},
    "smoke[]": {"gpu", "step", "status", "why", "seconds"},
    "benchmark[]": {"gpu", "name", "value", "unit", "limit", "limit_from", "share", "verdict", "why"},
    "timing": {"total_s", "rows"},
}
ACTIONS = {
    "none", "set-environment", "install-package", "install-driver", "reload-driver", "reboot", "reset-gpu", "restart-container",
    "fix-program", "free-gpu", "firmware-setup", "inspect-hardware", "ask-administrator", "request-gpu", "collect-evidence",
}  # fmt: skip


@functools.cache
def report_of(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(render(judging.report_of(name)))
    return found


def objects(thing: Any, place: str = "") -> Any:
    """Every object with its place."""
    if isinstance(thing, dict):
        yield place, thing
        for name, value in thing.items():
            yield from objects(value, f"{place}.{name}" if place else name)
    elif isinstance(thing, list):
        for value in thing:
            yield from objects(value, f"{place}[]")


@every("name", NAMES, share=4)
def test_every_report_fits_the_schema(name: str) -> None:
    VALIDATOR.validate(report_of(name))


@pytest.mark.parametrize("text", ["nothing of the kind", "Failed to initialize NVML: Driver/library version mismatch"])
def test_the_report_on_a_text_fits_the_schema(text: str) -> None:
    found = json.loads(render(judge(pasted.evidence_of(text.encode()), KNOWLEDGE)))
    VALIDATOR.validate(found)
    assert found["origin"]["kind"] == "text"
    assert {name for place, thing in objects(found) if not place for name in thing} >= REPORT


@every("name", NAMES)
def test_every_key_is_there(name: str) -> None:
    for place, thing in objects(report_of(name)):
        if place in KEYS:
            assert KEYS[place] <= set(thing), f"{place} lacks {KEYS[place] - set(thing)}"


def test_the_fixtures_show_every_object() -> None:
    """Otherwise the test above looks at nothing."""
    seen = {place for name in NAMES for place, _ in objects(report_of(name))}
    seen |= {place for place, _ in objects(json.loads(run("explain", "CUDA_ERROR_NO_DEVICE in cuInit", "--format", "json").out))}
    assert set(KEYS) <= seen, set(KEYS) - seen


def test_the_schema_asks_for_every_key_and_leaves_room_for_more() -> None:
    with pytest.raises(jsonschema.ValidationError):
        VALIDATOR.validate({name: value for name, value in report_of(HEALTHY).items() if name != "smoke"})
    root = next(name for name in NAMES if report_of(name)["diagnosis"]["root"])
    less = json.loads(json.dumps(report_of(root)))
    for part, key in ((less, "schema"), (less["diagnosis"], "suspects"), (less["diagnosis"]["root"], "basis")):
        value = part.pop(key)
        with pytest.raises(jsonschema.ValidationError):
            VALIDATOR.validate(less)
        part[key] = value
    VALIDATOR.validate(less)
    VALIDATOR.validate({**report_of(HEALTHY), "added_later": 1})
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_the_command_prints_this_schema() -> None:
    assert json.loads(run("schema").out) == SCHEMA


def test_the_closed_lists() -> None:
    assert set(Action.__args__) == ACTIONS
    for name in NAMES:
        found = report_of(name)
        assert found["action"] in ACTIONS
        if found["prescription"] is not None:
            assert found["prescription"]["action"] == found["action"]
        assert (found["diagnosis"]["root"] is None) == (found["verdict"] in ("healthy", "undecided"))
        for row in found["checks"]:
            assert (row["because"] is not None) == (row["status"] in ("skip", "unknown")), (name, row)


def test_an_absent_thing_is_quoted_without_line_numbers() -> None:
    quotes = [thing for name in NAMES for place, thing in objects(report_of(name)) if place.endswith("evidence[]") and "source" in thing]
    absent = [quote for quote in quotes if quote["first"] is None]
    assert absent
    assert all(quote["last"] is None and quote["text"] for quote in absent)
    assert all(1 <= quote["first"] <= quote["last"] for quote in quotes if quote["first"] is not None)


def test_explanations_have_their_own_schema() -> None:
    found = json.loads(render(explain_code("cuda 100", KNOWLEDGE)))  # type: ignore[arg-type]
    assert found["schema"] == "cudadoctor.explanation/1"
    assert {"kind", "matches", "cause"} <= set(found)
    assert {"api", "number", "name", "meaning", "causes", "tell_apart"} <= set(found["matches"][0])


@every("name", NAMES, share=8)
def test_the_same_evidence_gives_the_same_bytes(name: str) -> None:
    assert render(judge(evidence_of(name), KNOWLEDGE)) == render(judging.report_of(name))


@pytest.mark.parametrize("figure", [math.nan, math.inf])
def test_a_figure_that_is_no_number_is_an_error(figure: float) -> None:
    report = judge(Evidence(items=()), KNOWLEDGE)
    bad = BenchmarkResult(
        gpu=0, name="d2d", value=figure, unit="GB/s", limit=None, limit_from=None, share=None, verdict="cannot judge", why=None
    )
    with pytest.raises(ValueError, match="finite"):
        render(msgspec.structs.replace(report, benchmark=(bad,)))


def test_bytes_that_are_no_text_do_not_stop_it() -> None:
    report = judge(Evidence(items=(), python="/opt/\udcff/python"), KNOWLEDGE)
    assert json.loads(render(report))["origin"]["python"] == "/opt/?/python"


def test_ascii_is_the_same_json() -> None:
    body = json.dumps({"é": '™ 日本 \U0001f600 \\ " \u202e'}, ensure_ascii=False)
    assert ascii_only(body).isascii()
    assert json.loads(ascii_only(body)) == json.loads(body)
