"""Every parser against its fixture pairs: fixtures/parsers/<parser>/<origin>--<what>.txt and the facts it must give, in .json.

A pair is found by its place alone. A folder named after a module with several parsers serves them all: the one that gives the pair's
facts reads it. `<what>` that begins with `paste` is read as a user's text, anything else as the whole output of the
live command or file. The .json is a list of {key, value, whole}; quotes are checked for being there and for pointing into the text.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
from pathlib import Path

import msgspec
import pytest

import cudadoctor.parsers
from cudadoctor.model.facts import Fact
from cudadoctor.model.guard import Guard
from cudadoctor.model.values import ENVIRONMENT
from cudadoctor.parsers.base import Parser, Text
from cudadoctor.parsers.read import read
from tests.cases import every
from tests.command_line import HEALTHY, changed
from tests.judging import KNOWLEDGE

FOLDER = Path(__file__).parent.parent / "fixtures" / "parsers"
ORIGINS = ("recorded", "seed", "reproduced", "reconstructed")


def all_modules() -> dict[str, list[Parser]]:
    """The parsers that each module of cudadoctor/parsers/ defines, by the module's name."""
    found: dict[str, list[Parser]] = {}
    for info in pkgutil.iter_modules(cudadoctor.parsers.__path__):
        if info.name == "read":  # the list itself
            continue
        module = importlib.import_module(f"cudadoctor.parsers.{info.name}")
        of_knowledge = module.parsers(KNOWLEDGE) if hasattr(module, "parsers") else ()
        found[info.name] = list(of_knowledge or getattr(module, "PARSERS", None) or ([module.PARSER] if hasattr(module, "PARSER") else []))
    return found


MODULES = all_modules()
PARSERS = {parser.name: parser for parsers in MODULES.values() for parser in parsers}
TEXTS = sorted(FOLDER.glob("*/*.txt"))


def read_pair(path: Path) -> tuple[Text, list[dict[str, object]]]:
    """The fixture's text as a parser gets it, and the facts that must come out."""
    answer = path.with_suffix(".json")
    assert answer.is_file(), f"{path.relative_to(FOLDER)} needs its facts in {answer.name}"
    pasted = path.stem.partition("--")[2].startswith("paste")
    text = Text(path.read_bytes().decode(), source=path.parent.name, origin="text" if pasted else "live", whole=not pasted)
    return text, json.loads(answer.read_text())


def facts_of(parser: Parser, text: Text) -> list[Fact[object]]:
    return [entry for entry in parser.parse(text) if isinstance(entry, Fact)]


def stated(facts: list[Fact[object]]) -> object:
    """Facts in the form of the .json files."""
    plain = [{"key": fact.key, "value": msgspec.to_builtins(fact.value, str_keys=True), "whole": fact.whole} for fact in facts]
    return json.loads(json.dumps(plain))


def parser_of(path: Path) -> Parser:
    """The parser called like the folder, or the one of that module that gives the pair's facts."""
    folder = path.parent.name
    candidates = [PARSERS[folder]] if folder in PARSERS else []
    candidates += [parser for parser in MODULES.get(folder, []) if parser not in candidates]
    assert candidates, f"no parser or module of parsers is called {folder}"
    text, expected = read_pair(path)
    if not expected:
        return candidates[0]
    return next((parser for parser in candidates if stated(facts_of(parser, text)) == expected), candidates[0])


@every("path", TEXTS)
def test_fixture(path: Path) -> None:
    assert path.stem.split("--")[0] in ORIGINS, f"{path.name}: begin with one of {ORIGINS} and --"
    parser = parser_of(path)
    text, expected = read_pair(path)
    facts = facts_of(parser, text)
    assert stated(facts) == expected
    for fact in facts:
        assert fact.key in parser.keys, f"{parser.name} does not say in `keys` that it states {fact.key}"
        assert fact.origin == text.origin
        assert fact.quotes, f"{fact.key} is stated without a quote"
        for quote in fact.quotes:
            assert quote.text.strip(), f"{fact.key} quotes an empty line"
            if quote.first is not None and quote.last is not None:
                assert 1 <= quote.first <= quote.last <= len(text.lines)
    if facts and text.origin == "text":
        assert any(literal in text.text for literal in parser.wakes), f"nothing in {path.name} wakes {parser.name}"


def test_no_answer_without_its_text() -> None:
    lonely = [path for path in FOLDER.glob("*/*.json") if not path.with_suffix(".txt").is_file()]
    assert not lonely


def test_every_parser_has_a_fixture_that_shows_something() -> None:
    shown = {parser_of(path).name for path in TEXTS if read_pair(path)[1]}
    missing = sorted(set(PARSERS) - shown)
    assert not missing, f"add a pair to fixtures/parsers/<name>/ for: {', '.join(missing)}"


def test_no_two_parsers_share_a_name() -> None:
    names = [parser.name for parsers in MODULES.values() for parser in parsers]
    assert len(names) == len(set(names)), sorted(names)


def test_the_list_holds_every_parser() -> None:
    from cudadoctor.parsers import read

    forgotten = sorted(set(PARSERS) - {parser.name for parser in read.parsers(KNOWLEDGE)})
    assert not forgotten, f"add to _MODULES in parsers/read.py: {', '.join(forgotten)}"


@every("parser", PARSERS.values())
def test_wakes_are_long_enough_to_tell_something(parser: Parser) -> None:
    assert all(len(literal.encode()) >= 4 for literal in parser.wakes)


@pytest.mark.parametrize("value", ["/opt/a\x1b[31mb", "/opt/a\\x1b[31mb", "/opt/a\rb"])
def test_the_value_of_a_variable_is_all_that_it_holds(value: str) -> None:
    evidence = changed(HEALTHY, {"environment": lambda text: f"{text}CUDA_HOME={value}\n"})
    environment = read(evidence, Guard(), KNOWLEDGE).value(ENVIRONMENT)
    assert environment is not None
    assert environment.variables["CUDA_HOME"] == value
