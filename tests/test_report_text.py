"""The report as text: golden outputs, one content in black and white and in colour, commands whole, and nothing that steers a terminal."""

from __future__ import annotations

import difflib
import os
import re
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cudadoctor.judge.stages import judge
from cudadoctor.model.evidence import Evidence
from cudadoctor.model.report import Report
from cudadoctor.report import fixing, smoke_text, text
from cudadoctor.report.clean import clean, one_line
from cudadoctor.report.text import Style
from cudadoctor.sources import pasted
from tests.cases import every
from tests.command_line import HOSTS, NAMES, changed, evidence_of, lines, records
from tests.judging import KNOWLEDGE, report_of

GOLDEN = ("seed-gt740m-nouveau", "desktop-rtx3090-healthy", "driver-hung", "container-no-gpu-access", "numba-0.56-crashes-on-580")
SGR = re.compile(r"\x1b\[[0-9;]*m")
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202eevil\u2066\u200b\r\nHEALTHY  all is well\n\x08"


def shown(report: Report, **style: Any) -> str:
    return text.render(report, KNOWLEDGE, Style(**{"width": 100, **style}))


# ---------------------------------------------------------------- golden
@pytest.mark.parametrize("name", GOLDEN)
def test_golden_report(name: str) -> None:
    """UPDATE_GOLDEN=1 writes the files anew; read the difference before you commit it."""
    path = HOSTS / name / "report.txt"
    now = shown(report_of(name))
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(now, "utf-8")
    before = path.read_text("utf-8")
    before, now = (re.sub(r"and \d+ more \(-v", "and some more (-v", one) for one in (before, now))  # a new cause changes no golden text
    changes = "\n".join(difflib.unified_diff(before.splitlines(), now.splitlines(), "report.txt", "now", lineterm="", n=1))
    assert now == before, f"{changes}\nif this is better, write it with UPDATE_GOLDEN=1"


# ---------------------------------------------------------------- what every report holds
@every("name", NAMES)
def test_the_first_line_is_the_verdict(name: str) -> None:
    report = report_of(name)
    first = shown(report).splitlines()[0]
    assert first.split()[0] == report.verdict.upper()
    if report.diagnosis.root is not None:
        assert first.endswith(f"{report.diagnosis.root.title} [{report.diagnosis.root.cause}]")


@every("name", NAMES)
def test_blocks_come_in_order(name: str) -> None:
    report, out = report_of(name), shown(report_of(name))
    blocks = [
        "What shows it" if report.diagnosis.root else None,
        "\nFix\n" if report.prescription and report.prescription.steps else None,
        "Consequences, nothing to do" if report.diagnosis.explains else None,
        "Also found" if report.diagnosis.also else None,
        "rows pass",
        f"verdict {report.verdict}, action {report.action}, exit code {report.exit_code}",
    ]
    places = [out.index(block) for block in blocks if block is not None]
    assert places == sorted(places)


@every("name", NAMES)
def test_every_line_that_shows_the_cause_is_quoted_with_its_source(name: str) -> None:
    report, out = report_of(name), shown(report_of(name))
    for quote in report.diagnosis.root.evidence if report.diagnosis.root else ():
        assert one_line(quote.source) in out
        for line in clean(quote.text).expandtabs(8).splitlines():
            assert line.strip() in out


@every("name", NAMES)
def test_colour_only_repeats_what_the_words_say(name: str) -> None:
    plain, bright = shown(report_of(name)), shown(report_of(name), color=True)
    assert "\x1b" not in plain
    assert "\x1b[" in bright
    assert [line.rstrip() for line in SGR.sub("", bright).splitlines()] == plain.splitlines()


@every("name", NAMES)
def test_commands_are_never_wrapped(name: str) -> None:
    report = report_of(name)
    if report.prescription is None:
        return
    narrow = [line.strip() for line in shown(report, width=40).splitlines()]
    fixed = [line.strip() for line in fixing.as_text(report, report.prescription, KNOWLEDGE, Style(width=40)).splitlines()]
    for step in report.prescription.steps:
        for command in (step.shell, step.verify, step.undo):
            for line in (command or "").splitlines():
                assert any(one.endswith(line.strip()) for one in narrow)
                assert any(one.endswith(line.strip()) for one in fixed)


def test_prose_is_wrapped_at_the_width() -> None:
    why = KNOWLEDGE.cause("nouveau-bound").why
    assert why not in shown(report_of("seed-gt740m-nouveau"), width=40)
    assert why in " ".join(shown(report_of("seed-gt740m-nouveau"), width=40).split())


@every("name", NAMES)
def test_ascii_has_the_same_words(name: str) -> None:
    assert shown(report_of(name), ascii=True).isascii()


def test_verbose_shows_every_row_with_its_time() -> None:
    report = report_of("seed-gt740m-nouveau")
    out = shown(report, verbose=True)
    for row in report.checks:
        assert re.search(rf"^{row.status} +{row.id} .*\[\d+\.\d\d s\]$", out, re.MULTILINE)
    assert "rows pass" not in out
    assert all(cause in out for cause in report.diagnosis.ruled_out)


def test_rows_that_pass_are_one_line() -> None:
    report, out = report_of("seed-gt740m-nouveau"), shown(report_of("seed-gt740m-nouveau"))
    passed = [row.id for row in report.checks if row.status == "pass"]
    assert f"{len(passed)} of {len(report.checks)} rows pass: {', '.join(passed)}." in " ".join(out.split())
    assert not re.search(r"^pass ", out, re.MULTILINE)


def test_a_text_has_no_line_for_every_row_that_nobody_could_look_at() -> None:
    out = shown(judge(pasted.evidence_of(b"Failed to initialize NVML: Driver/library version mismatch"), KNOWLEDGE))
    assert not re.search(r"^unknown ", out, re.MULTILINE)
    assert "The text does not say enough about: gpu, " in out


def test_a_text_that_says_nothing_gets_no_list() -> None:
    report = judge(pasted.evidence_of(b"Dear all, lunch is at noon. The card machine is broken again.\n"), KNOWLEDGE)
    assert len(shown(report).split("\n")) < 10
    assert "device-nodes" not in shown(report)
    assert "device-nodes" in shown(report, verbose=True)


# ---------------------------------------------------------------- undecided says why
def test_a_log_that_does_not_hold_now_is_told_in_the_first_line() -> None:
    log = pasted.output_of(b"CUDA error: CUDA_ERROR_NO_DEVICE\n")
    out = shown(judge(evidence_of("desktop-rtx3090-healthy").completed((log,)), KNOWLEDGE))
    assert out.splitlines()[0] == "UNDECIDED  what the text says is not so at present"
    assert "That is not so at present" in out


# ---------------------------------------------------------------- hostile words
def infected(name: str) -> Evidence:
    """A host whose every text that a machine's owner can choose carries words that steer a terminal."""
    keep = {"event", "step", "status", "implementation", "version", "kind", "state", "compute_capability", "cuda", "library", "name"}

    def alter(value: Any, key: str) -> Any:
        if isinstance(value, dict):
            return {name: alter(inner, name) for name, inner in value.items()}
        if isinstance(value, list):
            return [alter(inner, key) for inner in value]
        return value + HOSTILE if isinstance(value, str) and key not in keep else value

    def worker(body: str) -> str:
        found = records(body)
        for record in found:
            if record.get("event") in ("gpu", "process"):
                record["name"] = (record.get("name") or "") + HOSTILE
            for device in record.get("devices") or ():
                if isinstance(device, dict):
                    device["name"] = (device.get("name") or "") + HOSTILE
        return lines([alter(record, "") for record in found])

    every = dict.fromkeys(("nvml", "ladder", "processes", "python-env"), worker)
    evidence = changed(name, {**every, "*": lambda body: re.sub(r"$", HOSTILE.replace("\n", ""), body, flags=re.MULTILINE)})
    return msgspec.structs.replace(evidence, python=(evidence.python or "") + HOSTILE, python_why=HOSTILE)


@every("name", NAMES, share=3)
def test_words_of_the_machine_never_steer_the_terminal(name: str) -> None:
    report = judge(infected(name), KNOWLEDGE)
    style = Style(width=60)
    outputs = [
        shown(report, verbose=True),
        smoke_text.render(report, KNOWLEDGE, style),
        smoke_text.steps(report, style),
        fixing.as_text(report, report.prescription, KNOWLEDGE, style),
        fixing.as_script(report, report.prescription),
    ]
    for out in outputs:
        assert not CONTROL.search(out), CONTROL.search(out)
    for out in outputs[:3]:
        assert not re.search(r"^HEALTHY  all is well", out, re.MULTILINE)
    assert "owned" in outputs[0]


def test_a_gpu_cannot_write_a_verdict() -> None:
    out = shown(judge(infected("desktop-rtx3090-healthy"), KNOWLEDGE))
    first, second = out.splitlines()[:2]
    assert first.startswith("HEALTHY  NVIDIA GeForce RTX 3090")
    assert "\\u202eevil\\u2066\\u200b HEALTHY  all is well" in first
    assert second.startswith("NVIDIA GeForce RTX 3090")
    assert "\x9b" not in second


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("plain é 日本\tand\nlines", "plain é 日本\tand\nlines"),
        ("\x1b[31m", "\\x1b[31m"),
        ("a\rb", "a\\x0db"),
        ("\u202e\u2066\ufeff", "\\u202e\\u2066\\ufeff"),
        ("\x85\x9b", "\\x85\\x9b"),
        ("\udcff", "\\udcff"),
        ("\U000e0041\xad", "\\U000e0041\\xad"),
    ],
)
def test_clean(given: str, wanted: str) -> None:
    assert clean(given) == wanted


def test_golden_files_belong_to_these_hosts() -> None:
    assert sorted(path.parent.name for path in Path(HOSTS).glob("*/report.txt")) == sorted(GOLDEN)


def test_a_very_long_word_is_cut_in_a_time_that_grows_with_its_length() -> None:
    for letter, width in (("a", 80), ("\u4e2d", 40)):
        began = time.process_time()
        found = list(text._wrapped(f"x {letter * 400_000}  y", 80))
        assert (found[0], found[1]) == ("x", letter * width)
        assert "".join(found).replace(" ", "") == f"x{letter * 400_000}y"
        assert time.process_time() - began < 3
