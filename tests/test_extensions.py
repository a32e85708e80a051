"""Checks of others: the example package adds a row, a cause and a recipe; one that misbehaves costs its own row and nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cudadoctor import extensions
from cudadoctor.extensions import Check, Clue, Extension, ExtensionError, Key, Line, Parser, Rule
from cudadoctor.judge.stages import judge
from cudadoctor.model.evidence import Item
from cudadoctor.model.report import Report
from tests.command_line import ROOT, environment, evidence_of, host
from tests.judging import KNOWLEDGE

EXAMPLE = ROOT / "tests" / "extension_example"
FULL = "Filesystem 1024-blocks Used Available Capacity Mounted on\n/dev/sdb1 1000 990 10 99% /scratch\n"


def command(*arguments: str, folder: Path = EXAMPLE, stdin: str = "") -> subprocess.CompletedProcess[str]:
    variables = {**environment(), "PYTHONPATH": f"{folder}:{ROOT}"}
    argv = [sys.executable, "-m", "cudadoctor", *arguments]
    return subprocess.run(argv, env=variables, input=stdin, capture_output=True, text=True, timeout=60, check=False)


# ---------------------------------------------------------------- the example
def test_the_row_is_listed_and_can_be_chosen() -> None:
    assert command("check", "--list").stdout.splitlines()[-1].startswith("scratch ")
    rows = json.loads(command("check", "--only", "scratch", "--replay", host("h200-healthy"), "--format", "json").stdout)["checks"]
    assert [(row["id"], row["status"]) for row in rows] == [("scratch", "unknown")]  # the recording was made without it


def test_it_asks_the_machine() -> None:
    report = json.loads(command("check", "--quick", "--format", "json").stdout)
    (row,) = [row for row in report["checks"] if row["id"] == "scratch"]
    assert row["status"] in ("pass", "warn", "unknown")
    assert row["summary"] != "not known: scratch-free (not recorded)"


def test_its_cause_is_found_and_has_its_steps() -> None:
    found = command("explain", "-", stdin="OSError: /scratch: No space left on device\n")
    assert found.stdout.startswith("BROKEN  The scratch folder is full [scratch-full]")
    assert "du -xh --max-depth=1 /scratch" in found.stdout
    assert "scratch-full" in command("causes").stdout
    assert command("fix", "scratch-full", "--replay", host("h200-healthy")).returncode == 0


def test_its_rule_reads_its_evidence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLE))
    import cudadoctor_scratch  # type: ignore[import-not-found]

    known = extensions.joined(KNOWLEDGE, "scratch", cudadoctor_scratch.EXTENSION)
    evidence = evidence_of("h200-healthy")
    item = Item(id="scratch", kind="command", what=("df", "-P", "/scratch"), status="ok", exit=0, stdout=FULL)
    report = judge(msgspec.structs.replace(evidence, items=(*evidence.items, item)), known)
    assert (report.verdict, report.diagnosis.root and report.diagnosis.root.cause) == ("degraded", "scratch-full")
    assert report.checks[-1].summary == "The scratch folder is full; 1 % of /scratch is free"
    assert KNOWLEDGE.extensions == ()


# ---------------------------------------------------------------- those that misbehave
def never(*_: object) -> Any:
    while True:
        time.sleep(0.01)


def raises(*_: object) -> Any:
    raise ZeroDivisionError("boom")


def leaves(*_: object) -> Any:
    raise SystemExit(7)


def prints(*_: object) -> Line:
    print("hello from the extension")
    return Line("printed")


def nothing(*_: object) -> Iterator[Clue]:
    return iter(())


def with_row(describe: Callable[..., Any], rule: Callable[..., Any] = nothing) -> Extension:
    check = Check(id="mine", title="Mine", looks_at="mine", items=(), rules=(Rule("mine", ("gpu-powered-off",), rule),), describe=describe)
    return Extension(checks=(check,))


def judged(extension: Extension, monkeypatch: pytest.MonkeyPatch) -> Report:
    monkeypatch.setattr(extensions, "LIMIT", 0.3)
    return judge(evidence_of("h200-healthy"), extensions.joined(KNOWLEDGE, "mine", extension))


@pytest.mark.parametrize(
    ("wrong", "why"),
    [(raises, "ZeroDivisionError: boom"), (never, "TimeoutError: it did not return within 0.3 s"), (leaves, "RuntimeError: SystemExit: 7")],
)
@pytest.mark.parametrize("place", ["describe", "rule"])
def test_a_function_that_fails_costs_its_row(wrong: Callable[..., Any], why: str, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    extension = with_row(wrong) if place == "describe" else with_row(lambda *_: Line("fine"), wrong)
    report, without = judged(extension, monkeypatch), judge(evidence_of("h200-healthy"), KNOWLEDGE)
    assert (report.verdict, report.exit_code, report.diagnosis.crashes) == ("healthy", 0, ())
    assert report.checks[:-1] == without.checks
    row = report.checks[-1]
    if place == "describe":
        assert (row.id, row.status, row.because) == ("mine", "unknown", f"mine: extension mine: {why}")
    assert report.diagnosis.ruled_out == without.diagnosis.ruled_out


@pytest.mark.parametrize(
    ("made", "why"),
    [(7, "TypeError: int is no Line"), (Line(7), "ValidationError: Expected `str`, got `int` - at `$.summary`")],  # type: ignore[arg-type]
)
def test_what_is_of_the_wrong_type_costs_its_row(made: Any, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    report = judged(with_row(lambda *_: made), monkeypatch)
    assert (report.verdict, report.exit_code, report.diagnosis.crashes) == ("healthy", 0, ())
    assert report.checks[-1].because == f"mine: extension mine: {why}"


def test_a_rule_cannot_name_what_is_no_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    report = judged(with_row(lambda *_: Line("fine"), lambda *_: [Clue(cause="no-such", quotes=())]), monkeypatch)
    assert (report.verdict, report.diagnosis.crashes) == ("healthy", ())


def test_what_it_prints_is_lost(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    report = judged(with_row(prints), monkeypatch)
    assert (report.checks[-1].status, report.checks[-1].summary) == ("pass", "printed")
    assert capsys.readouterr() == ("", "")


def test_others_may_write_while_an_extension_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The doctor prints its report while a judgement in the background still asks an extension."""
    monkeypatch.setattr(extensions, "LIMIT", 5.0)
    slow = threading.Thread(target=lambda: extensions.within(5.0, lambda: (time.sleep(0.3), print("mine"))))
    slow.start()
    time.sleep(0.1)
    print("the report")
    slow.join()
    assert capsys.readouterr().out == "the report\n"


def test_a_parser_that_fails_leaves_its_facts_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    key = Key[int]("mine")
    parser = Parser(name="mine", reads=("uname",), keys=("mine",), parse=raises)
    row = with_row(lambda facts, _: Line(str(facts[key].value)))
    report = judged(msgspec.structs.replace(row, parsers=(parser,)), monkeypatch)
    assert report.checks[-1].because == "mine: extension mine: ZeroDivisionError: boom"
    assert report.verdict == "healthy"


@pytest.mark.parametrize(
    ("extension", "words"),
    [
        (5, "it is a int, not an Extension"),
        (Extension(causes={"nouveau-bound": ""}), "there is a cause 'nouveau-bound' already"),
        (Extension(recipes={"install-driver": ""}), "there is a recipe 'install-driver' already"),
        (Extension(causes={"mine": "title = 3"}), "causes/mine.toml"),
        (msgspec.structs.replace(with_row(prints), checks=(msgspec.structs.replace(with_row(prints).checks[0], id="gpu"),)), "a row 'gpu'"),
    ],
)
def test_what_does_not_fit_is_refused(extension: object, words: str) -> None:
    with pytest.raises(ExtensionError, match=words):
        extensions.joined(KNOWLEDGE, "mine", extension)


def written(folder: Path, source: str) -> None:
    """An installed distribution with an extension of this text."""
    info = folder / "mine-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[cudadoctor.checks]\nmine = mine_module:EXTENSION\n")
    (folder / "mine_module.py").write_text(source)


@pytest.mark.parametrize("source", ["import sys; sys.stdin.read()", "import os; os.read(0, 1 << 16)", "import os; os.system('cat')"])
def test_an_extension_reads_neither_the_users_text_nor_the_question(source: str, tmp_path: Path) -> None:
    written(tmp_path, f"{source}\nEXTENSION = 5\n")
    began = time.monotonic()
    done = command(
        "explain",
        "-",
        "--format",
        "json",
        folder=tmp_path,
        stdin="modprobe: ERROR: could not insert 'nvidia': Key was rejected by service\n",
    )
    assert json.loads(done.stdout)["diagnosis"]["root"]["cause"] == "secure-boot-blocks-module"
    assert time.monotonic() - began < 30


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("raise ValueError('boom')", "ValueError: boom"),
        ("import no_such_module", "ModuleNotFoundError"),
        ("import os; os.write(1, b'noise'); os.system('echo noise'); EXTENSION = 5", "it is a int"),
    ],
)
def test_an_extension_that_cannot_be_used_is_named_in_a_note(source: str, why: str, tmp_path: Path) -> None:
    written(tmp_path, f"print('noise')\n{source}\n")
    done = command("check", "--replay", host("h200-healthy"), "--format", "json", folder=tmp_path)
    report = json.loads(done.stdout)
    assert (done.returncode, report["verdict"]) == (0, "healthy")
    (note,) = [note for note in report["notes"] if note.startswith("extension mine is left out: ")]
    assert why in note
