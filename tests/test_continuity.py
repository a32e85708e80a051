"""What earlier releases wrote stays readable; what later ones add is passed over; another format says what it is.

fixtures/continuity/ is kept as it was written: recording-1 is a recording of format 1 of a quick check, report-1.json a report whose schema
had the same number and fewer fields. Neither is ever written anew.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cudadoctor.model.report import Report
from cudadoctor.sources import recording, saved_reports
from tests.command_line import HEALTHY, ROOT, host, run

KEPT = ROOT / "fixtures" / "continuity"
RECORDING, REPORT = KEPT / "recording-1", KEPT / "report-1.json"
LATER = ("planted", "said", "way", "lessons", "cuda_index", "details", "bundle", "who")  # fields that the old report has not


def keys_of(value: Any) -> set[str]:
    if isinstance(value, dict):
        return set(value).union(*map(keys_of, value.values()))
    return set().union(*map(keys_of, value)) if isinstance(value, list) else set()


# ---------------------------------------------------------------- recordings
def test_the_recording_of_format_1_gives_its_verdict() -> None:
    result = run("check", "--replay", str(RECORDING), "--format", "json")
    report = json.loads(result.out)
    assert (result.code, report["verdict"], report["diagnosis"]["root"]["cause"]) == (1, "broken", "driver-not-loaded")
    assert report["origin"]["quick"]
    assert report["diagnosis"]["crashes"] == []
    assert run("fix", "--suggest", "--replay", str(RECORDING)).code == 0


def copied(folder: Path, change: Callable[[dict[str, Any]], None]) -> str:
    (folder / "evidence").mkdir()
    for path in (RECORDING / "evidence").iterdir():
        (folder / "evidence" / path.name).write_bytes(path.read_bytes())
    head = json.loads((RECORDING / "recording.json").read_text("utf-8"))
    change(head)
    (folder / "recording.json").write_text(json.dumps(head), "utf-8")
    return str(folder)


def test_fields_that_a_later_release_added_to_a_recording_are_passed_over(tmp_path: Path) -> None:
    def change(head: dict[str, Any]) -> None:
        head["compressed_by"], head["origin"]["cloud"] = "x", {"name": "y"}
        for item in head["evidence"]:
            item["attempts"] = [1, 2]

    assert recording.read(copied(tmp_path, change)) == recording.read(str(RECORDING))


def test_fields_that_an_earlier_release_did_not_write_are_not_missed(tmp_path: Path) -> None:
    def change(head: dict[str, Any]) -> None:
        for name in ("bundle", "node", "remarks", "distro", "python_why"):
            head["origin"].pop(name, None)
        for item in head["evidence"]:
            item.pop("excerpt", None)

    assert {item.id for item in recording.read(copied(tmp_path, change)).items} == {
        item.id for item in recording.read(str(RECORDING)).items
    }


def test_another_format_says_so(tmp_path: Path) -> None:
    result = run("check", "--replay", copied(tmp_path, lambda head: head.update(format="cudadoctor-recording/2")))
    assert (result.code, result.out) == (2, "")
    assert "cudadoctor-recording/2" in result.err
    assert "cudadoctor-recording/1" in result.err
    assert "Traceback" not in result.err


# ---------------------------------------------------------------- reports
def test_the_old_report_is_read_with_what_it_says() -> None:
    written = json.loads(REPORT.read_text("utf-8"))
    assert not keys_of(written) & set(LATER)
    report = saved_reports.read(str(REPORT))
    assert report is not None
    assert (report.verdict, report.diagnosis.root and report.diagnosis.root.cause) == ("broken", "gpu-computes-wrong")
    assert [one.step for one in report.smoke] == [one["step"] for one in written["smoke"]]
    assert (report.way, report.lessons, report.smoke[0].planted) == ((), (), None)
    assert [step.text for step in report.prescription.steps] == [step["text"] for step in written["prescription"]["steps"]]  # type: ignore[union-attr]


def test_the_old_report_is_compared() -> None:
    same = run("compare", str(REPORT), str(REPORT))
    assert (same.code, same.err) == (0, "")
    other = run("compare", str(REPORT), host(HEALTHY))
    assert (other.code, other.err) == (1, "")
    assert "gpu-computes-wrong" in other.out


@pytest.mark.parametrize("field", ["machine", "verdict", "checks", "timing"])
def test_what_no_release_left_out_is_missed(field: str, tmp_path: Path) -> None:
    body = json.loads(REPORT.read_text("utf-8"))
    del body[field]
    (tmp_path / "report.json").write_text(json.dumps(body), "utf-8")
    if field == "checks":  # a list may be empty
        assert isinstance(saved_reports.read(str(tmp_path / "report.json")), Report)
        return
    with pytest.raises(saved_reports.SavedReportError, match=field):
        saved_reports.read(str(tmp_path / "report.json"))


def test_fields_that_a_later_release_added_to_a_report_are_passed_over(tmp_path: Path) -> None:
    tables = ("rows", "packages")  # of names and figures: a new name there is one more entry

    def grown(value: Any) -> Any:
        if isinstance(value, dict):
            return {**{name: inner if name in tables else grown(inner) for name, inner in value.items()}, "added_later": [{"x": 1}]}
        return [grown(inner) for inner in value] if isinstance(value, list) else value

    body = json.loads(REPORT.read_text("utf-8"))
    later = grown(body)
    assert (later["timing"]["rows"], later["machine"]["python"]["packages"]) == (
        body["timing"]["rows"],
        body["machine"]["python"]["packages"],
    )
    assert all(
        "added_later" in part for part in (later["timing"], later["machine"], later["machine"]["driver"], later["machine"]["gpus"][0])
    )
    (tmp_path / "report.json").write_text(json.dumps(later), "utf-8")
    assert saved_reports.read(str(tmp_path / "report.json")) == saved_reports.read(str(REPORT))


def test_a_report_of_another_schema_says_so(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text(REPORT.read_text("utf-8").replace("cudadoctor.report/1", "cudadoctor.report/2"), "utf-8")
    with pytest.raises(saved_reports.SavedReportError, match=r"schema cudadoctor\.report/2; this release reads cudadoctor\.report/1"):
        saved_reports.read(str(path))
    result = run("compare", str(path), host(HEALTHY))
    assert (result.code, result.out) == (2, "")
    assert "cudadoctor.report/2" in result.err
