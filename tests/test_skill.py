"""The skill for coding agents: what it promises is so. Its commands run, its error strings are known, and what is not its business is left alone."""

from __future__ import annotations

import json
import re
import shlex

import pytest

from cudadoctor.commands import manual
from tests.command_line import host, run

SKILL = manual.page(manual.SKILL)
_, HEAD, BODY = SKILL.split("---\n", 2)
DESCRIPTION = HEAD.partition("description: ")[2]
NOT_OURS = (
    "RuntimeError: mat1 and mat2 shapes cannot be multiplied (4x3 and 4x3)",
    "IndexError: list index out of range",
    "ModuleNotFoundError: No module named 'requests'",
    "hipErrorNoDevice: no ROCm-capable device is detected",
    "ValueError: Input contains NaN",
    "fatal: not a git repository (or any of the parent directories): .git",
)


def test_the_head_is_what_agents_read() -> None:
    assert re.fullmatch(r"name: [a-z0-9-]{1,64}\ndescription: [^\n<>]{1,1024}\n", HEAD)
    assert len(SKILL.splitlines()) < 500


@pytest.mark.parametrize("said", [said for said in DESCRIPTION.split('"')[1::2] if len(said) > 10])
def test_each_error_of_the_description_is_known(said: str) -> None:
    found = json.loads(run("explain", said, "--format", "json").out)
    assert found["diagnosis"]["root"] or found["diagnosis"]["suspects"]


@pytest.mark.parametrize("said", NOT_OURS)
def test_what_is_not_its_business_accuses_nothing(said: str) -> None:
    found = json.loads(run("explain", said, "--format", "json").out)
    assert (found["verdict"], found["diagnosis"]["root"], found["diagnosis"]["suspects"]) == ("undecided", None, [])


def test_the_first_command_answers_as_promised() -> None:
    line = next(line.strip() for line in BODY.splitlines() if "--format brief --python" in line)
    words = shlex.split(re.sub(r' --python "\$\(.*?\)"', "", line))[1:]
    found = json.loads(run(*words, "--replay", host("h200-visible-devices-word")).out)
    for field in re.findall(r"`(verdict|cause|line|command|kind|proof)`", BODY):
        assert field in found
    assert (found["verdict"], found["kind"]) == ("broken", "session")


def test_every_kind_of_step_is_spoken_of() -> None:
    from cudadoctor.report.words import KINDS

    assert set(KINDS) <= set(re.findall(r"`(\w+)`", BODY))


def test_the_exit_codes_are_those_of_the_code() -> None:
    from cudadoctor.model import exit_codes

    said = BODY.rpartition("Exit codes: ")[2]
    assert {int(number) for number in re.findall(r"\b\d\b", said)} == {
        exit_codes.HEALTHY, exit_codes.BROKEN, exit_codes.USAGE, exit_codes.UNDECIDED, exit_codes.CRASHED,
    }  # fmt: skip
