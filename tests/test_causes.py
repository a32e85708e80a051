"""The cause files: they agree with the vocabulary, each can be found and cured or says why not, and their messages are real and their own."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import msgspec
import pytest

from cudadoctor.commands.check import ROWS
from cudadoctor.model.recipe import Cause, Match
from cudadoctor.parsers import signs
from cudadoctor.parsers.base import Text
from cudadoctor.parsers.read import parsers
from tests.cases import every
from tests.judging import KNOWLEDGE

ROOT = Path(__file__).resolve().parent.parent
CAUSES = sorted(KNOWLEDGE.causes.values(), key=lambda cause: cause.id)
NAMED = KNOWLEDGE.causes
# What programs print that states no cause, however much it looks like it.
NO_CAUSE = msgspec.toml.decode((ROOT / "fixtures" / "messages_without_cause.toml").read_text("utf-8"))["messages"]
CONTAINER = {
    "container-no-gpu-access",
    "container-lost-devices",
    "scheduler-gave-no-gpu",
    "wsl-gpu-unavailable",
    "wsl-linux-driver-installed",
}
CODE = re.compile(r"CUDA_ERROR_|cudaError|NVML_ERROR|NVMLError|\bXid\b|CUDNN_STATUS")


each_cause = every("cause", CAUSES)


@each_cause
def test_it_says_all_that_a_reader_needs(cause) -> None:  # type: ignore[no-untyped-def]
    assert cause.row in (*ROWS, "text")
    assert cause.breaks
    assert cause.signs
    assert 1 <= cause.why.count(". ") + 1 <= 4
    assert cause.why.endswith(".")
    assert not re.search("!", cause.why + cause.title)


@each_cause
def test_it_has_a_cure_or_says_that_there_is_none(cause) -> None:  # type: ignore[no-untyped-def]
    assert cause.recipes or cause.no_software_fix
    assert [name for name in cause.recipes if name not in KNOWLEDGE.recipes] == []
    if cause.no_software_fix:  # beside it stands only what works without a cure
        assert {KNOWLEDGE.recipe(name).action for name in cause.recipes} <= {"none"}


@each_cause
def test_the_command_that_tells_it_apart_is_shell(cause) -> None:  # type: ignore[no-untyped-def]
    assert "\n" not in cause.tell_apart
    subprocess.run(["bash", "-n", "-c", cause.tell_apart], check=True)


@each_cause
def test_it_yields_to_causes_of_the_vocabulary(cause) -> None:  # type: ignore[no-untyped-def]
    assert set(cause.yields_to) <= set(NAMED) - {cause.id}
    assert len(set(cause.yields_to)) == len(cause.yields_to)


def test_nobody_yields_in_a_circle() -> None:
    def reach(start: str, seen: frozenset[str] = frozenset()) -> set[str]:
        found: set[str] = set()
        for other in KNOWLEDGE.causes[start].yields_to if start in KNOWLEDGE.causes else ():
            if other not in seen:
                found |= {other} | reach(other, seen | {other})
        return found

    assert [cause.id for cause in CAUSES if cause.id in reach(cause.id)] == []


KERNEL = {cause.id for cause in CAUSES if cause.layer == "kernel"}
BUS = {cause.id for cause in CAUSES if cause.layer == "bus"}


@pytest.mark.parametrize(
    ("cause", "least"),
    [
        ("driver-not-loaded", KERNEL - {"driver-not-loaded"} | CONTAINER),
        ("driver-module-missing-for-kernel", {"driver-build-failed", "secure-boot-blocks-module"}),
        ("driver-not-installed", {"nouveau-bound", "driver-module-missing-for-kernel"} | CONTAINER),
        ("device-nodes-missing", CONTAINER),
        ("libcuda-missing", CONTAINER | {"driver-not-installed"}),
        ("numba-cuda-target-missing", {"python-module-shadowed"}),
        ("gpu-init-failed", KERNEL | BUS),
    ],
)
def test_residual_causes_step_back(cause: str, least: set[str]) -> None:
    assert least <= set(KNOWLEDGE.cause(cause).yields_to)


def test_every_recipe_serves_a_cause() -> None:
    used = {name for cause in CAUSES for name in cause.recipes}
    assert set(KNOWLEDGE.recipes) - used == set()


# ---------------------------------------------------------------- messages
MATCHES = [(cause.id, match) for cause in CAUSES for match in cause.match]
LITERALS = [(cause, literal) for cause, match in MATCHES for literal in match.literals]


@each_cause
def test_a_message_is_a_literal_and_no_code(cause: Cause) -> None:
    for match in cause.match:
        assert 1 <= match.window <= 60, match
        for literal in match.literals:
            assert len(literal.strip()) >= 6
            assert "\n" not in literal
            assert not CODE.search(literal + (match.pattern or "")), "codes and their names are recognised through the error tables"
        for pattern in filter(None, (match.pattern, match.unless)):
            assert re.compile(pattern, re.MULTILINE).search("") is None, "a pattern that fits nothing at all fits everything"


def test_no_message_stands_in_two_causes() -> None:
    """Two causes may share a literal where the pattern of each tells them apart."""
    owners: dict[str, set[str]] = {}
    for cause, literal in LITERALS:
        owners.setdefault(literal, set()).add(cause)
    bare = {literal for _, match in MATCHES if match.pattern is None for literal in match.literals}
    assert {literal: names for literal, names in owners.items() if len(names) > 1 and literal in bare} == {}


def test_no_message_is_one_of_an_error_table() -> None:
    """One home for each: what an API says about a code is recognised by parsers/error_codes.py."""
    said = [text for row in KNOWLEDGE.cuda_errors for text in row.messages]
    said += [text for row in KNOWLEDGE.nvml_errors for text in row.messages]
    said += [row.text for row in KNOWLEDGE.smi_messages]
    twice = {
        (cause, literal, text)
        for cause, match in MATCHES
        for literal in match.literals
        for text in said
        if len(text) >= 16 and (literal in text or text in literal)
        if match.pattern is None or re.search(match.pattern, text, re.MULTILINE)
    }
    assert twice == set()


def test_no_literal_wakes_a_parser() -> None:
    """A line whose values somebody compares belongs to a parser, one that only states its cause to the cause."""
    assert {literal for _, literal in LITERALS} & {literal for parser in parsers(KNOWLEDGE) for literal in parser.wakes} == set()


def clues(text: str) -> set[str]:
    return {clue.cause for clue in signs.clues(Text(text, source="text"), KNOWLEDGE) if clue.basis == "stated"}


def test_a_message_with_several_causes_raises_suspicion_of_causes_of_the_vocabulary() -> None:
    for cause, match in MATCHES:
        assert set(match.suspects) <= set(NAMED)
        assert not match.suspects or (len(match.suspects) > 1 and cause in match.suspects)
    line = "modprobe: FATAL: Module nvidia not found in directory /lib/modules/6.8.0-45-generic"
    found = signs.clues(Text(line, source="text"), KNOWLEDGE)
    assert [(clue.cause, clue.basis) for clue in found] == [
        ("driver-not-installed", "suspected"), ("driver-module-missing-for-kernel", "suspected"),
    ]  # fmt: skip


@each_cause
def test_what_programs_print_names_the_cause_and_no_other(cause: Cause) -> None:
    for match in cause.match:
        for example in match.examples:
            named = clues(example)
            assert named <= {cause.id}, example
            assert match.suspects or named, example


def test_what_states_no_cause_names_none() -> None:
    assert {text: named for text in NO_CAUSE if (named := clues(text))} == {}


class One:
    """A knowledge of one match with one of its literals."""

    def __init__(self, cause: Cause, match: Match) -> None:
        self.causes = {cause.id: msgspec.structs.replace(cause, match=(match,))}

    def once(self, name: str, make):  # type: ignore[no-untyped-def]
        return make()


@each_cause
def test_every_message_has_its_program_and_an_example(cause: Cause) -> None:
    """Without any of its literals a cause is still found by the others; so each is tried alone."""
    for match in cause.match:
        assert match.program, f"causes/{cause.id}.toml does not say which program prints {match.contains!r}"
        for literal in match.literals:
            known = One(cause, msgspec.structs.replace(match, contains=literal))
            shown = any(signs.clues(Text(text, source="text"), known) for text in match.examples)  # type: ignore[arg-type]
            assert shown, f"causes/{cause.id}.toml has no example for {literal!r}"


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("NVRM:  supported through the NVIDIA 470.xx Legacy drivers. Please", {"legacy_branch": "470"}),
        (
            "kernel version 510.73.5 does not match DSO version 515.48.7 -- cannot",
            {"module_version": "510.73.5", "library_version": "515.48.7"},
        ),
        ("(consider renaming '/home/ada/numba.py' since it has the same name", {"path": "/home/ada/numba.py"}),
    ],
)
def test_a_message_hands_on_what_its_recipe_needs(text: str, values: dict[str, str]) -> None:
    (clue,) = signs.clues(Text(text, source="text"), KNOWLEDGE)
    assert clue.values == values
