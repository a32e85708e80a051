"""`cudadoctor compare`: what bears on the verdict first, figures beyond their spread, and nothing of what always differs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cudadoctor.fleet.comparing import Compared, compare
from cudadoctor.judge import machines
from cudadoctor.knowledge.load import load
from cudadoctor.model.comparison import KINDS, Comparison, Difference
from cudadoctor.model.report import LARGEST, Report
from cudadoctor.report import comparison_text
from cudadoctor.report.json import render
from cudadoctor.report.page import Style
from cudadoctor.sources import recording, saved_reports
from tests.cases import every
from tests.command_line import DEGRADED, HEALTHY, NAMES, NOUVEAU, changed, evidence_of, host, run
from tests.judging import report_of

BENCH, H200 = "h200-bench", "h200-healthy"


def side(name: str, evidence: Any = None) -> Compared:
    if evidence is None:
        return Compared(name=name, report=report_of(name), evidence=evidence_of(name))
    report, _ = machines.judged((evidence,), load())
    return Compared(name=name, report=report, evidence=evidence)


def found(a: Compared, b: Compared) -> Comparison:
    return compare(a, b, load())


def of(comparison: Comparison, kind: str) -> list[Difference]:
    return [one for one in comparison.differences if one.kind == kind]


# ---------------------------------------------------------------- what is equal
@every("name", NAMES, share=4)
def test_a_machine_equals_itself(name: str) -> None:
    one = side(name)
    assert found(one, one).equal


def test_what_always_differs_is_left_out() -> None:
    """Another day on the same kind of machine: UUIDs, addresses, heat, power, clocks, process numbers, times."""

    def another_day(text: str) -> str:
        for old, new in (
            ("GPU-fbb38cdd-1fea-f2dc-b8a6-befea0a47ba2", "GPU-11111111-2222-3333-4444-555555555555"),
            ("0000:00:06.0", "0000:00:09.0"), ("00:06.0", "00:09.0"), ('"temperature_c": 32.0', '"temperature_c": 51.0'),
            ('"power_w": 120.207', '"power_w": 333.1'),
        ):  # fmt: skip
            text = text.replace(old, new)
        return text

    other = changed(H200, {"*": another_day})
    items = tuple(msgspec.structs.replace(item, seconds=item.seconds + 1) for item in other.items)
    comparison = found(side(H200), side(H200, msgspec.structs.replace(other, items=items)))
    assert comparison.differences == ()
    assert comparison.equal


def test_a_redacted_recording_equals_its_machine(tmp_path: Path) -> None:
    from cudadoctor.sources.redact import redact

    def own_home(text: str) -> str:
        return text + ("" if text.endswith("\n") else "\n") + "CUDA_CACHE_PATH=/home/somebody/cache\nCUDA_MODULE=GPU-11111111-2222-3333\n"

    evidence = changed(H200, {"environment": own_home})
    assert "somebody" not in str(redact(evidence).get("environment"))
    assert found(side("live", evidence), side("recorded", redact(evidence))).equal


# ---------------------------------------------------------------- what differs
def test_the_verdict_comes_first() -> None:
    comparison = found(side(H200), side("h200-no-uvm-node"))
    assert [one.kind for one in comparison.differences] == sorted((one.kind for one in comparison.differences), key=KINDS.index)
    verdict, cause = comparison.differences[:2]
    assert (verdict.what, verdict.a, verdict.b) == ("verdict", "healthy", "broken")
    assert cause.a is None
    assert "[uvm-unavailable]" in (cause.b or "")
    assert [one.what for one in of(comparison, "row")] == ["device-nodes"], "rows that stepped back for this cause are not told as well"


def test_before_and_after_an_upgrade() -> None:
    def upgraded(text: str) -> str:
        return text.replace("580.159.04", "590.44.01")

    comparison = found(side(H200), side(H200, changed(H200, {"*": upgraded})))
    assert {(one.what, one.a, one.b) for one in of(comparison, "machine")} >= {("driver, library", "580.159.04", "590.44.01")}
    assert not of(comparison, "gpu")


def test_packages_and_settings_of_two_environments() -> None:
    def with_variable(text: str) -> str:
        return text + "CUDA_LAUNCH_BLOCKING=1\nHOSTNAME=other\n"

    a, b = side(H200), side(H200, changed(H200, {"environment": with_variable}))
    packages = dict(b.report.machine.python.packages)
    version = packages.pop("numba")
    python = msgspec.structs.replace(b.report.machine.python, packages={**packages, "no-such-package": "2.11.0"}, path="/elsewhere/python")
    machine = msgspec.structs.replace(b.report.machine, python=python)
    b = msgspec.structs.replace(b, report=msgspec.structs.replace(b.report, machine=machine))
    comparison = found(a, b)
    assert {(one.what, one.a, one.b) for one in of(comparison, "package")} == {
        ("numba", version, None),
        ("no-such-package", None, "2.11.0"),
    }
    assert [(one.what, one.a, one.b) for one in of(comparison, "setting")] == [("CUDA_LAUNCH_BLOCKING", None, "1")]
    assert not of(comparison, "machine")


def with_figure(one: Compared, name: str, factor: float, spread: float) -> Compared:
    results = tuple(
        msgspec.structs.replace(result, value=result.value * factor, spread=spread)
        if result.name == name and result.value is not None
        else result
        for result in one.report.benchmark
    )
    return msgspec.structs.replace(one, report=msgspec.structs.replace(one.report, benchmark=results))


def test_figures_differ_only_beyond_their_spread() -> None:
    one = side(BENCH)
    (slower,) = of(found(one, with_figure(one, "fp32", 0.7, 0.01)), "figure")
    assert slower.what.endswith("GPU 0")
    assert "(-30%)" in (slower.b or "")
    assert found(one, with_figure(one, "fp32", 0.97, 0.01)).equal, "the table's own drift"
    assert found(one, with_figure(one, "fp32", 0.7, 0.4)).equal, "samples that lay far apart prove nothing"


def test_a_quick_run_has_no_differences_by_being_quick() -> None:
    evidence = evidence_of(H200)
    quick = msgspec.structs.replace(evidence, quick=True)
    a, b = side(H200), side(H200, quick)
    comparison = found(a, msgspec.structs.replace(b, name="short"))
    assert not of(comparison, "row")
    assert comparison.notes[0].startswith("short was examined with --quick")


def test_another_number_of_gpus() -> None:
    comparison = found(side(BENCH), side("h200x2-bench"))
    assert ("GPUs", "1", "2") in {(one.what, one.a, one.b) for one in of(comparison, "gpu")}


# ---------------------------------------------------------------- reports as JSON
def test_a_report_of_a_later_release_is_read(tmp_path: Path) -> None:
    report = side(BENCH).report
    body = json.loads(render(report))
    body["new"], body["machine"]["new"], body["benchmark"][0]["new"] = 1, {}, []
    body["diagnosis"]["also"] = [{**one, "new": 1} for one in body["diagnosis"]["also"]]
    path = tmp_path / "report.json"
    path.write_text(json.dumps(body), "utf-8")
    assert saved_reports.read(str(path)) == report


@every("name", NAMES[::7])
def test_every_report_is_read_back(name: str, tmp_path: Path) -> None:
    report = side(name).report
    (tmp_path / "report.json").write_text(render(report), "utf-8")
    assert saved_reports.read(str(tmp_path / "report.json")) == report


def test_what_is_no_report(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    for body in ("", "{}", "words", '{"schema": "cudadoctor.explanation/1"}'):
        path.write_text(body, "utf-8")
        assert saved_reports.read(str(path)) is None
    path.write_text('{"schema": "cudadoctor.report/1", "verdict": "splendid"}', "utf-8")
    with pytest.raises(saved_reports.SavedReportError, match=r"x\.json is not a report that this release reads"):
        saved_reports.read(str(path))
    path.write_text('{"schema": "cudadoctor.report/1", "x": [' + "[]," * (LARGEST // 3) + "[]]}", "utf-8")
    with pytest.raises(saved_reports.SavedReportError, match="larger than 4 MiB"):  # as values 30 MB took a gigabyte
        saved_reports.read(str(path))
    path.write_text('{"schema": "cudadoctor.report/1", "checks": [' + "{}," * (1 << 17) + "{}]}", "utf-8")
    with pytest.raises(saved_reports.SavedReportError, match="more than 131072 parts"):  # each became a whole row
        saved_reports.read(str(path))
    path.write_text('{"schema": "cudadoctor.report/1", ', "utf-8")
    with pytest.raises(saved_reports.SavedReportError):
        saved_reports.read(str(path))


# ---------------------------------------------------------------- the command
def test_exit_codes_and_streams(tmp_path: Path) -> None:
    same = run("compare", host(HEALTHY), host(HEALTHY))
    assert (same.code, same.err) == (0, "")
    assert same.out.startswith("EQUAL  nothing that matters differs\n")
    other = run("compare", host(HEALTHY), host(NOUVEAU))
    assert (other.code, other.err) == (1, "")
    assert other.out.index("Bears on the verdict") < other.out.index("Machine and software")
    assert run("compare", host(HEALTHY), host(NOUVEAU), "--quiet") == (1, "", "")
    (tmp_path / "report.json").write_text(run("check", "--replay", host(HEALTHY), "--format", "json").out, "utf-8")
    assert run("compare", str(tmp_path / "report.json"), host(HEALTHY)).code == 0


@pytest.mark.parametrize("turned", [False, True])
def test_what_one_side_does_not_say_is_no_difference(turned: bool) -> None:
    whole = side(H200)
    python = msgspec.structs.replace(whole.report.machine.python, version=None, packages={})
    rows = tuple(msgspec.structs.replace(row, status="unknown") if row.id == "gpu" else row for row in whole.report.checks)
    machine = msgspec.structs.replace(whole.report.machine, python=python, gpus=())
    silent = Compared(name="silent", report=msgspec.structs.replace(whole.report, machine=machine, checks=rows))
    comparison = found(silent, whole) if turned else found(whole, silent)
    assert of(comparison, "package") == of(comparison, "gpu") == []
    assert "silent does not say which GPUs it has, so that is not compared." in comparison.notes
    assert "silent does not say which Python it has, so that is not compared." in comparison.notes


def test_none_is_not_the_same_as_unsaid() -> None:
    """A Python without packages and a machine without a GPU are differences."""
    whole = side(H200)
    bare = msgspec.structs.replace(whole.report.machine.python, packages={})
    machine = msgspec.structs.replace(whole.report.machine, python=bare, gpus=())
    comparison = found(whole, Compared(name="bare", report=msgspec.structs.replace(whole.report, machine=machine)))
    assert {one.what for one in of(comparison, "package")} == set(whole.report.machine.python.packages)
    assert [(one.a, one.b) for one in of(comparison, "gpu")] == [("1", "0")]


def test_json(tmp_path: Path) -> None:
    body = json.loads(run("compare", host(HEALTHY), host(DEGRADED), "--format", "json").out)
    assert body["schema"] == "cudadoctor.comparison/1"
    assert not body["equal"]
    assert set(body["differences"][0]) == {"kind", "what", "a", "b"}
    assert msgspec.convert(body, Comparison).differences


def test_the_live_machine_equals_its_own_recording(tmp_path: Path) -> None:
    target = str(tmp_path / "recording")
    assert run("record", "-o", target, "--quick").code == 0
    result = run("compare", "-", target, "--quick")
    assert result.code == 0, result.out
    assert recording.read(target).redacted


@pytest.mark.parametrize(
    "arguments",
    [("-", "-"), ("/no/such/file", host(HEALTHY)), (host(HEALTHY),), (__file__, host(HEALTHY))],
    ids=lambda value: str(len(value)),
)
def test_wrong_usage(arguments: tuple[str, ...]) -> None:
    result = run("compare", *arguments)
    assert (result.code, result.out) == (2, "")
    assert "Traceback" not in result.err


def test_a_machines_words_steer_no_terminal_and_long_ones_are_cut() -> None:
    report = side(HEALTHY).report
    machine = msgspec.structs.replace(report.machine, kernel="\x1b[31m" + "k" * 1000)
    odd: Report = msgspec.structs.replace(report, machine=machine)
    comparison = found(Compared(name="a\x1b]0;", report=report), Compared(name="b", report=odd))
    text = comparison_text.render(comparison, Style())
    assert "\x1b" not in text
    assert "(1008 characters)" in text
    assert "k" * 1000 in comparison_text.render(comparison, Style(verbose=True))


def test_a_report_with_a_figure_that_nothing_has_is_none(tmp_path: Path) -> None:
    report = json.loads(run("check", "--replay", host(HEALTHY), "--format", "json").out)
    report["machine"]["gpus"][0]["memory_bytes"] = 10**400
    (tmp_path / "a.json").write_text(json.dumps(report))
    result = run("compare", str(tmp_path / "a.json"), host(HEALTHY))
    assert result.code == 2
    assert "is not a report" in result.err
