"""Lines of documents that a format tells apart from what happened on a machine: a manual page (man-pages(7)), a changelog of Debian
(deb-changelog(5)), the comments of a Dockerfile and of YAML, a list of terms and their meaning, a file of settings, what a list in YAML
defines, a mapping from messages to advice, and what git and a search tell of a source.

What stands in one is so in general. A page, a list and a comment end where their form ends: what somebody writes below is his own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

from cudadoctor.model.pattern import lazy
from cudadoctor.parsers.shell import command, is_prompt

_PAGE = lazy(r"[\w.:+-]{1,60}\(\d\w{0,6}\)")  # NAME(section), at both ends of a manual page's first line and of its last
_RELEASE = lazy(r"^[a-z\d][a-z\d+.-]{1,60} \([^()\s]{1,80}\) [\w -]{1,60}; urgency=\w")
_SIGNED = lazy(r"^ -- \S.{0,120}<[^<>\s]{1,80}>  ")
_INSTRUCTION = lazy(
    r"^(?:FROM|RUN|COPY|ADD|ENV|ARG|CMD|ENTRYPOINT|WORKDIR|USER|EXPOSE|VOLUME|LABEL|SHELL|HEALTHCHECK|ONBUILD|STOPSIGNAL) \S"
)
_BEGINS_IMAGE = "FROM "
_KEY = lazy(r"^\s{0,40}(?:- )?[A-Za-z][\w./-]{0,60}:(?: .{0,300})?$|^\s{0,40}- \S")
_COMMENT = lazy(r"^\s{0,40}# ")
_BEHIND_KEY = lazy(r"^\s{0,40}(?:- )?[A-Za-z][\w./-]{0,60}:(?: [^#\n]{0,200})? # |^\s{0,40}- [^#\n]{1,200} # ")
_REMARK = lazy(r"^\s{0,8}(?:#|;|//) ")
_SETTING = lazy(
    r"^\s{0,8}(?:export )?[A-Za-z_][\w.-]{0,60}\s{0,3}=|^(?:options|blacklist|install|alias|remove|softdep) \S|^\[[\w. -]{1,60}\]$"
)
_NAMED = lazy(r"^\s{0,12}- (?:name|id|alert|rule|title): \S")
_TERM = lazy(r"[A-Z][A-Z\d]{0,40}(?:_[A-Z\d]{1,40}){1,8}")
_EXPLAINED = lazy(r"^\s{2,12}\S.{6,2000}\.$")
_ADVISED = lazy(
    r"^\s{0,40}(?:\"(?:[^\s\"]{1,60} ){3,30}[^\s\"]{1,60}\"|'(?:[^\s']{1,60} ){3,30}[^\s']{1,60}')\s{0,4}(?::|=>)\s{0,8}[\"'(\[{]"
)
_PAST = lazy(r"^git (?:--no-pager )?(?:log|show|blame|annotate|diff|grep)\b")
_SEARCH = lazy(r"^(?:e?grep|rg|ag|ack)\b[^|]*$")  # what a pipe hands on is no source
_QUOTED = lazy(r"'[^']{0,400}'|\"[^\"]{0,400}\"")
SOURCES = "c|h|cc|cpp|cxx|cu|cuh|hpp|inl|py|pyi|rs|go|java|kt|js|ts|sh|md|rst|adoc|toml|po|pot"  # endings of their names
_PLACE = lazy(rf"^(?:\./|/)?(?:[\w.+-]{{1,80}}/){{0,16}}[\w.+-]{{1,80}}\.(?:{SOURCES})[:-]\d{{1,6}}[:-]")
_OF_COMMIT = lazy(r"^(?:commit [0-9a-f]{7,40}\b|Merge: |Author: |Date: |diff --git |index |@@ |[ +-])")
_FEW = 3  # lines that make a block


def lines_of(lines: Sequence[str]) -> Iterator[int]:
    """Indexes (from 0) of the lines of such documents; a line that is an answer to a command of the shell is part of none but git's."""
    for kind in (_pages, _changelogs, _comments, _settings, _definitions, _terms, _history):
        yield from kind(lines)
    rows = [index for index, line in enumerate(lines) if _ADVISED.match(line)]  # whole sentences as keys: no program names fields so
    yield from rows if len(rows) > 1 else ()


def _pages(lines: Sequence[str]) -> Iterator[int]:
    """From the first line of a manual page to the last, or to the first line that is neither indented nor a heading in capitals."""
    inside: str | None = None
    for index, line in enumerate(lines):
        words = line.split() if ")" in line else []
        name = words[0] if len(words) > 1 and words[0] == words[-1] and _PAGE.fullmatch(words[0]) else None
        if inside is not None and line[:1].strip() and name is None and line != line.upper():
            inside = None
        if inside is not None:
            yield index
        if name is not None:
            inside = None if name == inside else name


def _changelogs(lines: Sequence[str]) -> Iterator[int]:
    inside = False
    for index, line in enumerate(lines):
        if _RELEASE.match(line):
            inside = True
        elif _SIGNED.match(line) or line[:1].strip():
            inside = False
        if inside:
            yield index


def _comments(lines: Sequence[str]) -> Iterator[int]:
    """What stands behind the sign of a comment: of a Dockerfile from its FROM on, and of YAML where nearly every line has its form."""
    for block in runs(lines, lambda index: bool(lines[index].strip())):
        instructions = [index for index in block if _INSTRUCTION.match(lines[index])]
        if len(instructions) > 1 and any(lines[index].startswith(_BEGINS_IMAGE) for index in instructions):
            yield from (index for index in block if _COMMENT.match(lines[index]))
    keys = [index for index, line in enumerate(lines) if _KEY.match(line)]
    remarks = [index for index, line in enumerate(lines) if _COMMENT.match(line)]
    written = sum(1 for line in lines if line.strip())
    if len(keys) >= _FEW and len({*keys, *remarks}) == written:
        yield from (index for index in {*keys, *remarks} if index in remarks or _BEHIND_KEY.match(lines[index]))


def _settings(lines: Sequence[str]) -> Iterator[int]:
    """The comments of a file of settings, which holds nothing else."""
    for block in runs(lines, lambda index: bool(lines[index].strip())):
        remarks = [index for index in block if _REMARK.match(lines[index])]
        if remarks and len(remarks) < len(block) and all(index in remarks or _SETTING.match(lines[index]) for index in block):
            yield from remarks


def _definitions(lines: Sequence[str]) -> Iterator[int]:
    """A list in YAML of what is named: tasks, rules, alerts. No program reports so."""
    heads = [index for index, line in enumerate(lines) if _NAMED.match(line)]
    depths = {len(line) - len(line.lstrip()) for line in (lines[index] for index in heads)}
    for head in heads if len(heads) > 1 and len(depths) == 1 and not any(line.startswith("@@ ") for line in lines) else ():
        end = head + 1
        while end < len(lines) and (not lines[end].strip() or lines[end].startswith(" " * (min(depths) + 2))):
            end += 1
        yield from range(head, end)


def _terms(lines: Sequence[str]) -> Iterator[int]:
    """Names of codes, each with indented sentences below it."""
    heads = [index for index, line in enumerate(lines) if _TERM.fullmatch(line)]
    meant = {index: _explanation(lines, index) for index in heads}
    explained = [index for index in heads if meant[index]]
    if len(explained) >= _FEW and len(explained) == len(heads):
        yield from (row for index in explained for row in (index, *meant[index]))


def _explanation(lines: Sequence[str], head: int) -> range:
    """The indented lines right below a term, if they end as a sentence does."""
    end = head + 1
    while end < len(lines) and lines[end][:2] == "  ":
        end += 1
    return range(head + 1, end) if end > head + 1 and _EXPLAINED.match(lines[end - 1]) else range(0)


def _history(lines: Sequence[str]) -> Iterator[int]:
    """What git prints of a source's past, and the places that a search shows, up to the next prompt or to somebody's own words."""
    belongs: re.Pattern[str] | None = None
    for index, line in enumerate(lines):
        typed = command(line)
        if typed is not None:
            belongs = _OF_COMMIT if _PAST.match(typed) else _PLACE if _SEARCH.match(_QUOTED.sub("", typed)) else None
            if belongs is _OF_COMMIT:
                yield index
        elif belongs is not None and not is_prompt(line):
            if line.strip() and not belongs.match(line) and not (index and lines[index - 1].strip() and belongs is _OF_COMMIT):
                belongs = None
            elif line.strip():
                yield index


def runs(lines: Sequence[str], belongs: Callable[[int], bool]) -> Iterator[range]:
    """Ranges of lines, one after another, that belong together."""
    for so, run in groupby(range(len(lines)), key=belongs):
        indexes = list(run)
        if so:
            yield range(indexes[0], indexes[-1] + 1)
