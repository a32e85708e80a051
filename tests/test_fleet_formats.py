"""Many machines for other readers: HTML with its map in a real Chromium, JUnit, Prometheus, JSON with its schema; and what got worse."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import run
from tests.test_fleet import BROKEN, HEALTHY, report
from tests.test_html_browser import FAINT, Open, check_width, chromium, opened  # noqa: F401 - fixtures
from tests.test_html_browser import pytestmark as browser

EVIL = "</script><script>alert(1)</script>"
SLOW = 7  # the node whose GPU 1 is slow


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve nodes: one broken with a hostile name, one with a slow GPU; and half a report."""
    folder = tmp_path_factory.mktemp("reports")
    for number in range(12):
        body = json.loads(report(BROKEN, f"node003{EVIL}") if number == 3 else report(HEALTHY, f"node{number:03}"))
        for gpu in body["machine"]["gpus"]:
            gpu["uuid"] = f"GPU-{number}-{gpu['index']}"
        for figure in body["benchmark"]:
            if figure["value"] is not None and (number, figure["gpu"], figure["name"]) == (SLOW, 1, "fp32"):
                figure["value"] *= 0.8
        (folder / f"{number}.json").write_text(json.dumps(body))
    (folder / "half.json").write_text("{")
    return folder


def shown(form: str, *arguments: object) -> str:
    return run("fleet", *map(str, arguments), "--format", form).out


# ---------------------------------------------------------------- HTML
def page(reports: Path) -> str:
    return shown("html", reports)


def test_the_page_runs_nothing_of_a_machine(reports: Path) -> None:
    body = page(reports)
    assert EVIL not in body
    assert body.count("<script>") == 2
    assert "node003" in body


@pytest.mark.browser
@browser[1]
@pytest.mark.parametrize(("width", "theme"), [(360, "light"), (1200, "dark")])
def test_the_map_is_walked_by_keys_and_opens_a_node(width: int, theme: str, reports: Path, opened: Open) -> None:  # noqa: F811
    view = opened(page(reports), width=width, unfold=True, color_scheme=theme)
    check_width(view)
    figure = view.locator("figure.map", has_text="FP32")
    canvas = figure.locator("canvas")
    canvas.focus()
    for key in ["ArrowRight"] * 6 + ["ArrowDown"]:
        canvas.press(key)
    assert figure.locator("output").text_content() == "node007 GPU 1: 80 % of the usual; healthy"
    canvas.press("Enter")
    node = view.locator("#node")
    assert node.locator("h3").text_content() == "node007"
    assert "FP32 multiply-add\t100\t80" in node.inner_text()
    assert view.evaluate("document.activeElement.id") == "node"
    seen, faint = view.evaluate(FAINT)
    assert seen > 30
    assert faint == []


@pytest.mark.browser
@browser[1]
def test_without_scripts_the_lists_say_it(reports: Path, opened: Open) -> None:  # noqa: F811
    view = opened(page(reports), java_script_enabled=False)
    words = view.locator("main").inner_text()
    assert "node007 GPU 1: FP32 multiply-add" in words
    assert "The map needs scripts" in words


def test_a_fleet_without_figures_has_no_map(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(report(BROKEN, "node1"))
    body = shown("html", tmp_path)
    assert 'id="maps"' not in body
    assert "node1" in body


# ---------------------------------------------------------------- JUnit, Prometheus, JSON
def test_junit_has_a_case_for_each_node_and_each_slow_figure(reports: Path) -> None:
    suites = {suite.get("name"): suite for suite in ET.fromstring(shown("junit", reports))}
    nodes, figures = suites["cudadoctor.nodes"], suites["cudadoctor.figures"]
    assert (nodes.get("tests"), nodes.get("failures"), nodes.get("errors")) == ("13", "1", "1")
    assert [case.get("type") for case in nodes.iter("failure")] == [BROKEN]
    assert [case.get("name") for case in figures.iter("testcase")] == ["node007 GPU 1 fp32"]
    assert figures.get("failures") == "0"
    strict = {suite.get("name"): suite for suite in ET.fromstring(shown("junit", reports, "--strict"))}
    assert strict["cudadoctor.figures"].get("failures") == "1"


def test_prometheus_counts_nodes_and_names_the_slow_gpu(reports: Path) -> None:
    lines = shown("prometheus", reports).splitlines()
    assert 'cudadoctor_fleet_nodes{verdict="healthy"} 11' in lines
    assert "cudadoctor_fleet_missing 1" in lines
    assert f'cudadoctor_node_ok{{node="node003{EVIL}",verdict="broken",cause="{BROKEN}"}} 0' in lines
    assert 'cudadoctor_gpu_behind_ratio{node="node007",gpu="1",figure="fp32",against="peers"} 0.2' in lines


def test_json_keeps_its_schema(reports: Path) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads(run("schema", "fleet").out)
    body: dict[str, Any] = json.loads(shown("json", reports))
    jsonschema.validate(body, schema)
    body["groups"][0].pop("nodes")
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(body, schema)


def test_every_format_goes_to_a_file_beside_the_text(reports: Path, tmp_path: Path) -> None:
    forms = ("json", "html", "junit", "prometheus", "text")
    ended = run("fleet", str(reports), *(word for form in forms for word in ("--output", f"{form}={tmp_path / form}")))
    assert ended.code == 1
    assert ended.out.startswith("BROKEN  1 of 12 nodes broken")
    for form in forms[:-1]:
        assert (tmp_path / form).read_text("utf-8") == shown(form, reports), form
    assert "node007 GPU 1" in (tmp_path / "text").read_text("utf-8")
    assert run("fleet", str(reports), "--output", "html=/no/such/folder/x").code == 2


# ---------------------------------------------------------------- an earlier run
def test_what_got_worse_is_told_once_for_all_its_nodes(reports: Path, tmp_path: Path) -> None:
    before = tmp_path / "before"
    before.mkdir()
    for number in range(12):
        body = json.loads(report(HEALTHY, f"node003{EVIL}" if number == 3 else f"node{number:03}"))
        for gpu in body["machine"]["gpus"]:
            gpu["uuid"] = f"GPU-{number}-{gpu['index']}"
        if number == 5:
            body["machine"]["gpus"].append({**body["machine"]["gpus"][0], "index": 2, "cuda_index": 2, "uuid": "GPU-lost"})
        (before / f"{number}.json").write_text(json.dumps(body))
    for number in (20, 21):
        (before / f"{number}.json").write_bytes(report(HEALTHY, f"node{number:03}"))
    found = json.loads(shown("json", reports, "--history", before))
    worse = {one["what"]: one["nodes"] for one in found["worse"]}
    assert worse["no report this time"] == ["node020", "node021"]
    assert worse[f"healthy before, now broken ({BROKEN})"] == [f"node003{EVIL}"]
    assert worse["GPU GPU-lost is gone"] == ["node005"]
    assert "Worse than before" in shown("text", reports, "--history", before)
    assert json.loads(shown("json", reports, "--history", reports))["worse"] == []
