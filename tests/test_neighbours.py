"""Causes that one text may leave open, on every side: what stays open, and what the answer to the asked command decides.

A tie is a folder `fixtures/ties/<first id>--<second id>/`:
  case.toml    ids; `open`: the verdict "undecided", or the cause that the tie gives to the open text; `says`: where the text comes from;
               `rule`: what decides
  open.txt     a text that leaves the tie open
  <id>.txt     what the user adds for each id: a prompt line with a command that `ask` holds, and its output
"""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from cudadoctor.judge.stages import judge
from cudadoctor.model.report import Report
from cudadoctor.sources.pasted import evidence_of
from tests.cases import every
from tests.judging import KNOWLEDGE, cause_of

ROOT = Path(__file__).resolve().parent.parent / "fixtures"
UNDECIDED = "undecided"
_SEPARATORS = re.compile(r"\s*(?:;|&&|\|\|)\s*")


class Case(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tie's folder. `ids` may leave out those that no text can show; `left_out` then says why."""

    ids: tuple[str, ...]
    open: str
    says: str
    rule: str
    left_out: str | None = None


FOLDERS = {path.name: path for path in sorted((ROOT / "ties").iterdir()) if path.is_dir()}
CASES = {name: msgspec.toml.decode((path / "case.toml").read_text("utf-8"), type=Case) for name, path in FOLDERS.items()}
SIDES = [(name, cause) for name, case in CASES.items() for cause in case.ids]


def text(name: str, *parts: str) -> bytes:
    return b"\n".join((FOLDERS[name] / f"{part}.txt").read_bytes() for part in parts)


def report(content: bytes) -> Report:
    found = judge(evidence_of(content), KNOWLEDGE)
    assert found.diagnosis.crashes == ()
    return found


def commands(line: str) -> set[str]:
    """The single commands of a line, without what is merely redirected."""
    return {part.replace(" 2>/dev/null", "").strip() for part in _SEPARATORS.split(line)}


@every("name", CASES)
def test_a_tie_is_named_after_its_causes(name: str) -> None:
    case = CASES[name]
    assert name.split("--")[0] in (case.ids[0], *(case.left_out or "").split())
    assert set(case.ids) <= set(KNOWLEDGE.causes)


@every("name", CASES)
def test_the_open_text(name: str) -> None:
    found, case = report(text(name, "open")), CASES[name]
    if case.open != UNDECIDED:
        assert cause_of(found) == case.open
        return
    assert found.verdict == UNDECIDED
    assert found.diagnosis.root is None
    assert {finding.cause for finding in found.diagnosis.suspects} & set(case.ids)
    assert found.diagnosis.ask, "an open question names the command that settles it"


@every("name, cause", SIDES)
def test_the_answer_decides(name: str, cause: str) -> None:
    found = report(text(name, "open", cause))
    shown = found.diagnosis.root.cause if found.diagnosis.root is not None else [one.cause for one in found.diagnosis.suspects]
    assert shown == cause


@pytest.mark.parametrize(
    ("name", "cause"), [side for side in SIDES if CASES[side[0]].open == UNDECIDED], ids=lambda value: value if "--" in value else None
)
def test_the_answer_is_to_a_command_that_was_asked(name: str, cause: str) -> None:
    asked = {part for ask in report(text(name, "open")).diagnosis.ask for part in commands(ask.command)}
    typed = re.findall(r"^\S*[$#] (.+)$", text(name, cause).decode(), re.MULTILINE)
    assert typed, "the added text begins with the command that was asked"
    given = {part for line in typed for part in commands(line)}
    assert given & asked, f"{given} is not among what was asked: {asked}"
