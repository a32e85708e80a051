"""README and manual say what the code does: their tables, their commands, their example, their links."""

from __future__ import annotations

import html
import itertools
import platform
import re
import shlex
import sys

import click
import pytest

from cudadoctor.checks.rows import CHECKS
from cudadoctor.commands.cli import cli
from cudadoctor.knowledge.load import load
from tests.cases import every
from tests.command_line import ROOT, run

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

README = (ROOT / "README.md").read_text("utf-8")
GUIDE = {path.name: path.read_text("utf-8") for path in sorted((ROOT / "cudadoctor" / "guide").glob("**/*.md"))}
MANUAL = "\n".join((README, *GUIDE.values()))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", MANUAL, re.DOTALL)


def commands() -> list[str]:
    """Every command line of ours that they show."""
    inline = re.findall(r"(?<!`)`(cudadoctor [a-z][^`]*)`(?!`)", re.sub(r"```.*?```", "", MANUAL, flags=re.DOTALL))
    in_blocks = [line for kind, body in BLOCKS if kind == "sh" for line in body.splitlines() if re.search(r"(^|/| )cudadoctor [a-z]", line)]
    return inline + [re.search(r"(?:^|/| )(cudadoctor [a-z].*)", line).group(1) for line in in_blocks]  # type: ignore[union-attr]


def test_the_table_of_commands_names_them_all() -> None:
    named = set(re.findall(r"^\| `cudadoctor (\w+)", GUIDE["commands.md"], re.MULTILINE))
    assert named == set(cli.commands)


@every("line", commands())
def test_every_command_and_option_exists(line: str) -> None:
    words = shlex.split(re.sub(r'"\$\(.*?\)"', "PATH", line))
    command = cli.commands[words[1]]
    known = {flag for parameter in command.params for flag in parameter.opts if isinstance(parameter, click.Option)}
    for word in itertools.takewhile(lambda word: word != "--", words[2:]):  # what follows `--` is another program's
        if word.startswith("-"):
            assert word in known, f"{line}: {words[1]} has no {word}"


def test_every_option_in_its_prose_exists() -> None:
    known = {flag for command in cli.commands.values() for parameter in command.params for flag in parameter.opts}
    prose = re.sub(r"```.*?```", "", MANUAL, flags=re.DOTALL)
    assert set(re.findall(r"`(--[a-z-]+)`", prose)) <= known


def test_the_exit_codes_are_those_of_the_code() -> None:
    from cudadoctor.model import exit_codes

    table = {int(code) for code in re.findall(r"^\| (\d+) \|", GUIDE["reading-a-report.md"], re.MULTILINE)}
    assert table == {
        exit_codes.HEALTHY,
        exit_codes.BROKEN,
        exit_codes.USAGE,
        exit_codes.UNDECIDED,
        exit_codes.CRASHED,
        exit_codes.INTERRUPTED,
        exit_codes.ENDED,
    }


def test_the_rows_are_named_in_their_order() -> None:
    listed = re.search(r"The rows of `check`: (.*?)\.\n", GUIDE["reading-a-report.md"], re.DOTALL)
    assert listed is not None
    assert re.findall(r"`([^`]+)`", listed.group(1)) == [check.id for check in CHECKS]


def test_the_example_is_what_the_command_prints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    example = next(body for kind, body in BLOCKS if kind == "text" and re.match(r"(BROKEN|DEGRADED|HEALTHY)  ", body))
    source = re.search(r"`cudadoctor check --replay (fixtures/hosts/[^`)]+)`", README)
    assert source is not None, "the README says which recording its picture comes from"
    assert run("check", "--replay", source.group(1)).out == example, "write the example anew"
    picture = html.unescape(re.sub(r"<[^>]+>", "", (ROOT / ".github" / "picture.svg").read_text("utf-8"))).replace("\xa0", " ")
    for line in filter(None, example.splitlines()):
        assert line.strip() in picture, "draw it anew: python .github/scripts/picture.py"


def test_the_pythons_and_extras_are_those_of_the_project() -> None:
    low, high = re.findall(r"3\.(\d+)", PROJECT["requires-python"])
    assert f"Python 3.{low} to 3.{int(high) - 1}" in README
    extras = {extra for group in re.findall(r"(?:\.|cudadoctor)\[([\w,]+)\]", MANUAL) for extra in group.split(",")}
    assert extras
    assert extras <= set(PROJECT["optional-dependencies"])


def test_the_readme_is_short_and_counts_the_causes() -> None:
    assert len(README.encode()) <= 8000
    counted = re.search(r"Some (\d+) causes", README)
    assert counted is not None
    assert abs(int(counted[1]) - len(load().causes)) < 10


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)]+)\)", README):
        assert target.startswith("https://") or (ROOT / target).exists(), target


def test_the_readme_leads_to_every_page() -> None:
    assert set(re.findall(r"\(cudadoctor/guide/([\w-]+\.md)\)", README)) == set(GUIDE) - {"index.md", "SKILL.md"}


@pytest.mark.parametrize("command", ["", *sorted(cli.commands)])
def test_help_answers_and_explains_every_option(command: str) -> None:
    result = run(*([command] if command else []), "--help")
    assert (result.code, result.err) == (0, "")
    for parameter in cli.commands[command].params if command else ():
        if isinstance(parameter, click.Option):
            assert parameter.opts[0] in result.out


def test_version() -> None:
    from cudadoctor import __version__

    said = run("--version").out
    assert said.startswith(f"cudadoctor, version {__version__}\n")
    for word in (platform.python_version(), sys.executable, platform.system(), "numba ", "numba-cuda ", "nvidia-ml-py "):
        assert word in said
    assert PROJECT["dynamic"] == ["version"]  # it stands in cudadoctor/__init__.py alone
