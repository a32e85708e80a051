"""What holds for parsers whatever the text: none raises, noise changes nothing, and fewer lines never show more.

"Present" is every value that a fact states, without line numbers: what a text shows to be there. Absence needs a whole text, so a text
that lost lines is read as a paste.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cudadoctor.model.evidence import Origin
from cudadoctor.model.facts import Fact, Unknown
from cudadoctor.parsers.base import Parser, Text
from tests.cases import every
from tests.test_parsers import PARSERS, TEXTS, read_pair

# Parsers of lists of things seen; mokutil is not one of them: a second line of its output revokes the first.
# Texts called `cut` have lost lines already, in the one way that makes the next loss mislead.
SEEN = (
    "pci_sysfs", "lspci", "lshw", "modules", "sys_modules", "driver_version", "sys_driver_version", "module_files", "modinfo", "dkms",
    "packages", "kernel_log",
)  # fmt: skip
SEEN_TEXTS = [path for path in TEXTS if path.parent.name in SEEN and "--paste-cut" not in path.stem]
# Two are never read from a paste: the bare names of a folder, the bare number of a file.
QUIET_TEXTS = [path for path in TEXTS if path.parent.name in (*SEEN, "mokutil") and not path.parent.name.startswith("sys_")]
RELAXED = settings(deadline=None, database=None, max_examples=60)
BODIES = [path.read_bytes().decode() for path in TEXTS]
PROMPT = "user@host:~$ "


def present(parser: Parser, body: str, *, origin: Origin = "text", whole: bool = False) -> set[tuple[str, str]]:
    """Each value that the facts state, with the path to it."""
    text = Text(body, source=parser.name, origin=origin, whole=whole)
    facts = [entry for entry in parser.parse(text) if isinstance(entry, Fact)]
    return {leaf for fact in facts for leaf in leaves(fact.key, msgspec.to_builtins(fact.value, str_keys=True))}


def leaves(path: str, value: object) -> Iterator[tuple[str, str]]:
    """Scalars below a value. None, False and line numbers state nothing that is there."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key not in ("line", "lines", "present_from", "cleared"):
                yield from leaves(f"{path}.{key}", inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from leaves(path, inner)
    elif value is not None and value is not False:
        yield path, repr(value)


ASKED = re.compile(r"\blspci\b|\bdpkg\b|\brpm -qa|\bpacman -Q|\bapt list|\bfind /(?:usr/)?lib/modules|/sys/bus/pci/devices/\*; ?do\b")


def check_total(parser: Parser, body: str) -> None:
    for origin, whole in (("live", True), ("text", False)):
        text = Text(body, source=parser.name, origin=origin, whole=whole)  # type: ignore[arg-type]
        for entry in parser.parse(text):
            assert isinstance(entry, (Fact, Unknown))
            if isinstance(entry, Fact):
                assert entry.quotes
                assert all(quote.text for quote in entry.quotes)
                assert origin == "live" or not entry.whole or ASKED.search(body), "a paste is whole only where it shows what was asked"


@settings(RELAXED, max_examples=120)
@given(body=st.text(max_size=400))
def test_any_text_is_read_without_an_exception(body: str) -> None:
    for parser in PARSERS.values():
        check_total(parser, body)


@settings(RELAXED, max_examples=100)  # others in each run
@given(data=st.data())
def test_any_piece_of_real_output_is_read_without_an_exception(data: st.DataObject) -> None:
    """By every parser; that of a text reads most of its pieces."""
    body = data.draw(st.sampled_from(BODIES))
    first, last = sorted((data.draw(st.integers(0, len(body))), data.draw(st.integers(0, len(body)))))
    filler = data.draw(st.text(max_size=12))
    for parser in PARSERS.values():
        check_total(parser, body[:first] + filler + body[last:])
        check_total(parser, body[first:last])


@every("path", QUIET_TEXTS)
@pytest.mark.parametrize("noise", ["crlf", "ansi", "prompts", "quoted", "all"])
def test_noise_changes_nothing(path: Path, noise: str) -> None:
    parser = PARSERS[path.parent.name]
    text, _ = read_pair(path)
    lines = text.text.split("\n")
    if noise in ("quoted", "all"):
        lines = [f"> {line}" for line in lines]
    if noise in ("ansi", "all"):
        lines = [f"\x1b[01;31m\x1b[K{line[:3]}\x1b[m\x1b[K{line[3:]}" for line in lines]
    if noise in ("prompts", "all"):
        lines = [PROMPT + "some command", *lines, PROMPT + "exit", "logout"]
    body = ("\r\n" if noise in ("crlf", "all") else "\n").join(lines)
    clean = present(parser, text.text, origin=text.origin, whole=text.whole)
    noisy = present(parser, body, origin=text.origin, whole=text.whole)
    if noise in ("quoted", "all"):  # a kernel event is quoted as it stands, so with the mark of quotation
        clean, noisy = ({leaf for leaf in leafs if leaf[0] != "kernel-log.events.text"} for leafs in (clean, noisy))
    assert noisy == clean


@every("path", SEEN_TEXTS)
@settings(RELAXED, max_examples=20)  # others in each run
@given(data=st.data())
def test_fewer_lines_never_show_more(path: Path, data: st.DataObject) -> None:
    parser = PARSERS[path.parent.name]
    text, _ = read_pair(path)
    lines = text.text.split("\n")
    kept = data.draw(st.lists(st.booleans(), min_size=len(lines), max_size=len(lines)))
    fewer = "\n".join(line for line, keep in zip(lines, kept, strict=True) if keep)
    assert present(parser, fewer) <= present(parser, text.text, origin=text.origin, whole=text.whole)
