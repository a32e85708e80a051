"""The screen of `check`: at 80 x 24, and at 40 x 24 too, verdict, cause and first command of every recorded host are in sight, it last."""

from __future__ import annotations

import json
import re

import msgspec
import pytest

from cudadoctor.model.report import Report
from cudadoctor.report import brief, screen
from cudadoctor.report.page import Style
from tests.cases import every
from tests.command_line import HEALTHY, NAMES, ROOT, host, run
from tests.judging import KNOWLEDGE, report_of

SIZES = ((80, 24), (120, 40), (200, 50), (40, 24))


def test_a_row_that_does_not_pass_says_what_is_wrong_first() -> None:
    """What its probes measured may look well: 41 C and no throttling beside a Fabric Manager that does not run."""
    for name in NAMES:
        report = report_of(name)
        found = [one for one in (report.diagnosis.root, *report.diagnosis.also) if one is not None]
        for row in report.checks:
            titles = [one.title for one in found if KNOWLEDGE.causes[one.cause].row == row.id]
            if row.status in ("fail", "warn") and titles:
                assert row.summary.startswith(tuple(titles)), (name, row.id, row.summary)


def test_figures_that_do_not_fit_side_by_side_are_a_paragraph_for_each_gpu() -> None:
    shown = "\n".join(lines_of("h200x2-bench", 40, 60))
    assert "GPU 0: to GPU 55 GB/s" in shown
    assert "GPU 1: to GPU" in shown
    assert max(map(len, shown.splitlines())) <= 40


def lines_of(name: str, width: int = 80, height: int = 24, **more: bool) -> list[str]:
    return screen.render(report_of(name), KNOWLEDGE, Style(width=width, height=height, terminal=True, **more)).splitlines()


def seen(lines: list[str], width: int, height: int) -> list[str]:
    """What is left on a terminal of this size with the prompt below."""
    rows = [line[at : at + width] for line in lines for at in range(0, max(1, len(line)), width)]
    return rows[-(height - 1) :]


@every("name", NAMES, share=3)
def test_the_screen_of(name: str) -> None:
    """All in one test a host: to judge it takes longer than the rest."""
    for size in SIZES:
        _in_sight(name, size)
    _nothing_that_ends_or_restarts_something_stands_beside_the_prompt(name)
    _the_first_quoted_line_is_there_at_any_size(name)
    _colour_and_signs_change_no_word(name)
    _the_brief_is_short_and_says_what_the_screen_says(name)


def _in_sight(name: str, size: tuple[int, int]) -> None:
    report, lines = report_of(name), lines_of(name, *size)
    shown = seen(lines, *size)
    assert shown[0].startswith(report.verdict.upper())
    root = report.diagnosis.root
    if root is not None:
        assert f"[{root.cause}]" in "".join(shown[:4])
    last = lines[-1].strip() if report.verdict != "healthy" else " ".join(lines).rpartition("; ")[2]
    assert _command_of(report).split("\n")[-1].strip() == last


def _command_of(report: Report) -> str:
    """What has to stand last."""
    what, root = report.prescription, report.diagnosis.root
    if report.verdict == "healthy":
        return "all rows: cudadoctor check -v"
    if root is None:
        return report.diagnosis.ask[0].command if report.diagnosis.ask else "cudadoctor check -v"
    if what is None or not what.steps:
        return f"cudadoctor explain {root.cause}"
    first = what.steps[0]
    if first.who == "administrator":
        return "cudadoctor fix --for-admin"
    plain = first.mode == "do" and first.kind in ("reads", "session", "environment", "system")
    return first.shell if plain and first.shell is not None and first.shell.count("\n") < 6 else "cudadoctor fix"


def _nothing_that_ends_or_restarts_something_stands_beside_the_prompt(name: str) -> None:
    last = lines_of(name)[-1]
    assert not any(word in last for word in ("reboot", "rmmod", "purge", "kill ", "systemctl restart", "gpu-reset"))


def _the_first_quoted_line_is_there_at_any_size(name: str) -> None:
    root = report_of(name).diagnosis.root
    for size in SIZES:
        if root is not None and root.evidence:
            assert root.evidence[0].source.split()[0] in "\n".join(lines_of(name, *size))


def _colour_and_signs_change_no_word(name: str) -> None:
    plain = lines_of(name)
    assert [re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip() for line in lines_of(name, color=True)] == plain
    assert [line.encode("ascii", "backslashreplace").decode() for line in plain] == lines_of(name, ascii=True)


def test_a_healthy_machine_is_a_few_lines_with_a_column_for_each_figure() -> None:
    lines = lines_of("h200x2-bench")
    assert len(lines) == 6  # five with one GPU
    (head,) = (number for number, line in enumerate(lines) if line.split()[:1] == ["GPU"])
    assert [line.split()[0] for line in lines[head : head + 3]] == ["GPU", "0", "1"]


def test_more_room_shows_more() -> None:
    wordy = max(NAMES, key=lambda name: len("".join(lines_of(name, 200, 200))))
    assert len(lines_of(wordy, 80, 24)) < len(lines_of(wordy, 80, 60))


def test_requirements_that_are_not_met_stand_below_the_verdict() -> None:
    out = run("check", "--replay", host(HEALTHY), "--require", "gpus>=9").out.splitlines()
    assert "Required: 1 of 1 not met" in out[:5]
    assert any(line.startswith("  gpus>=9: not met") for line in out[:6])
    assert "what is required is not met" in out[0]
    assert any("exit code 1 (a requirement is not met)" in line for line in out)


def test_the_other_commands_look_at_the_same() -> None:
    out = " ".join(run("check", "--replay", host("h200-visible-devices-word")).out.split())
    assert f"All steps: cudadoctor fix --replay {host('h200-visible-devices-word')}" in out
    assert "--apply" not in out  # what was recorded is not carried out


def test_verbose_is_the_whole_report() -> None:
    short, whole = (run("check", "--replay", host("driver-hung"), *more).out for more in ((), ("-v",)))
    assert len(short.splitlines()) < 24 < len(whole.splitlines())


def test_hostile_words_stay_words() -> None:
    report = report_of("h200-visible-devices-word")
    assert report.diagnosis.root is not None
    quote = msgspec.structs.replace(report.diagnosis.root.evidence[0], text="\x1b[2J\x1b]0;x\x07HEALTHY \u202e\nBROKEN\r\n" + "x" * 5000)
    root = msgspec.structs.replace(report.diagnosis.root, evidence=(quote,))
    bad = msgspec.structs.replace(report, diagnosis=msgspec.structs.replace(report.diagnosis, root=root))
    lines = screen.render(bad, KNOWLEDGE, Style()).splitlines()
    assert not any(sign in line for line in lines for sign in ("\x1b", "\u202e", "\r", "\x07"))
    assert len(seen(lines, 80, 24)) < 24
    assert not any(line.startswith("HEALTHY") for line in lines)


# ---------------------------------------------------------------- for scripts and agents
def _the_brief_is_short_and_says_what_the_screen_says(name: str) -> None:
    report = report_of(name)
    body = brief.render(report, KNOWLEDGE)
    assert len(body.encode()) <= 1500
    found = json.loads(body)
    root = report.diagnosis.root
    assert (found["verdict"], found["exit_code"], found["cause"]) == (report.verdict, report.exit_code, root.cause if root else None)
    lines = "\n".join(line.strip() for line in lines_of(name))
    if found["command"] is not None:
        assert "\n".join(line.strip() for line in found["command"].split("\n")) in lines
        assert not (found["kind"] == "reads" and "install" in re.sub("'[^']*'", "''", found["command"]))  # grep may look for the word
    assert found["next_command"] is None  # it was recorded elsewhere


def test_what_to_run_next_examines_the_same_interpreter() -> None:
    report = report_of("h200-visible-devices-word")
    live = msgspec.structs.replace(report, origin=msgspec.structs.replace(report.origin, kind="live"))
    assert json.loads(brief.render(live, KNOWLEDGE))["next_command"] == "cudadoctor fix --python /opt/patient/bin/python"


@pytest.mark.parametrize("sign", ["\u20ac", "\U0001f600", '"', "\\"])
def test_the_brief_holds_with_the_longest_words(sign: str) -> None:
    report = report_of("h200-visible-devices-word")
    assert report.diagnosis.root is not None
    assert report.prescription is not None
    quote = msgspec.structs.replace(report.diagnosis.root.evidence[0], text="\x1b[2J" + sign * 5000)
    root = msgspec.structs.replace(report.diagnosis.root, evidence=(quote,), title=sign * 2000)
    step = msgspec.structs.replace(report.prescription.steps[0], text=sign * 3000, shell="c" * 3000)
    prescription = msgspec.structs.replace(report.prescription, steps=(step,))
    bad = msgspec.structs.replace(report, diagnosis=msgspec.structs.replace(report.diagnosis, root=root), prescription=prescription)
    body = brief.render(bad, KNOWLEDGE)
    assert len(body.encode()) <= 1500
    assert json.loads(body)["command"] is None  # half a command is none
    assert "\x1b" not in body


# ---------------------------------------------------------------- texts
@every("name", sorted(path.name for path in (ROOT / "fixtures" / "reports").iterdir())[::12])
def test_a_text_is_answered_on_one_screen_too(name: str) -> None:
    """All of it where it fits, else the screen, whose last line shows the rest or is the first command."""
    file = str(ROOT / "fixtures" / "reports" / name / "report.txt")
    shown, whole = (run("explain", *more, file, variables={"COLUMNS": "80"}).out for more in ((), ("-v",)))
    lines = shown.splitlines()
    assert sum(max(1, -(-len(line) // 80)) for line in lines) <= 23
    assert lines[0] == whole.splitlines()[0]
    if not lines[-1].startswith("verdict "):  # the last line of the whole
        assert lines[-1].startswith("    ")
        assert lines[-1].strip() in whole or lines[-1].strip() == f"cudadoctor explain -v {file}"


def test_a_quote_of_several_lines_has_no_gaps_between_them() -> None:
    log = "[Sat Aug 30 08:02:41 2025] NVRM: API mismatch: the client has the version 570.172.08, but\n" + "".join(
        f"{' ' * 27}NVRM: {words}\n"
        for words in ("this kernel module has the version 570.169.  Please", "make sure that this kernel module")
    )
    shown = run("explain", "-", stdin=log.encode()).out
    assert "but NVRM: this kernel module" in shown


@pytest.mark.parametrize(
    "what", ["-", "NVRM: API mismatch: the client has the version 550.54.15, but this kernel module has the version 535.161.07."]
)
def test_of_what_was_piped_or_typed_all_steps_are_shown_with_its_own_values(what: str) -> None:
    """The cause's page would show those of any machine."""
    piped = b"NVRM: API mismatch: the client has the version 550.54.15, but this kernel module has the version 535.161.07.\n"
    lines = run("explain", what, stdin=piped).out.splitlines()
    last = lines[-1].split()
    assert (lines[-3], last) == ("All of it, with the same text:", ["cudadoctor", "explain", "-v", "-"])
    assert "550.54.15" in run(*last[1:], stdin=piped).out.partition("Fix")[2]


def test_a_step_that_is_only_for_some_does_not_stand_for_the_cure() -> None:
    text = (
        b"Error! Bad return status for module build on kernel: 6.14.0-35-generic (x86_64)\nnvidia-drm-drv.c:748:22: error: no member named 'date'\n"
        b"01:00.0 VGA compatible controller: NVIDIA Corporation GP106 [GeForce GTX 1060 6GB] (rev a1)\nUbuntu 24.04.3 LTS\n"
        b"nvidia/470.256.02: added\n"
    )
    out = run("explain", "-", stdin=text).out
    assert "Fix, step 2 of " in out
    assert out.splitlines()[-1].strip().startswith("sudo ubuntu-drivers install nvidia:")
