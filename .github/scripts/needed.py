"""How many messages, entries of the lexicon and circumstances no text needs: leaving one out changes neither the findings nor the steps of
the fix on any recorded text.

    needed.py [--list KIND]        KIND: messages, lexicon, circumstances

Texts are those of fixtures/: reports, hosts and ties, none of which was written for one entry alone. A message has an example of its own
besides, which does not count here. Which entry may be left out is no verdict on it: a message whose source is known may stay; one without,
that nothing needs, goes first. tests/test_needed.py holds the figures, which may only fall.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from cudadoctor.judge.stages import judge, weighed
from cudadoctor.knowledge.load import Knowledge, load
from cudadoctor.knowledge.wording import Circumstance, Says
from cudadoctor.model.evidence import Evidence
from cudadoctor.model.facts import Unknown
from cudadoctor.model.guard import Guard
from cudadoctor.model.requirements import Requirements
from cudadoctor.model.values import SETTING
from cudadoctor.parsers import signs
from cudadoctor.sources import pasted, recording

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
DERIVED = {"lexicon": ("setting", "wakes"), "circumstances": ("setting", "wakes")}  # what is made of a table, and anew without an entry


class Read(NamedTuple):
    """A recorded text or host: all that its pieces say, the report in short, and what its words speak of."""

    evidence: Evidence
    words: str
    verdict: tuple[object, ...]
    kinds: frozenset[str]


class Unneeded(NamedTuple):
    """Of one kind of knowledge: how many entries there are, and the names of those that no text needs."""

    entries: int
    names: tuple[str, ...]


def unneeded() -> dict[str, Unneeded]:
    """By kind of knowledge."""
    knowledge = load()
    texts = [_read(evidence, knowledge) for evidence in _recorded()]
    return {"messages": _messages(knowledge, texts), **{kind: _of_table(kind, knowledge, texts) for kind in DERIVED}}


def _recorded() -> Iterator[Evidence]:
    for path in sorted((FIXTURES / "hosts").iterdir()):
        if (path / "recording.json").exists():
            yield recording.read(str(path))
    for path in sorted((*FIXTURES.glob("reports/*/report.txt"), *FIXTURES.glob("ties/*/*.txt"))):
        yield pasted.evidence_of(path.read_bytes())


def _verdict(evidence: Evidence, knowledge: Knowledge) -> tuple[object, ...]:
    report = judge(evidence, knowledge)
    shown, fix = report.diagnosis, report.prescription
    causes = [one.cause for one in (*shown.suspects, *shown.also, *shown.explains)]
    return report.verdict, shown.root and shown.root.cause, causes, fix and fix.steps


def _read(evidence: Evidence, knowledge: Knowledge) -> Read:
    setting = weighed(evidence, knowledge, Requirements(), Guard()).facts.get(SETTING)
    kinds = frozenset() if isinstance(setting, Unknown) or setting.value is None else frozenset(setting.value.words)
    words = "\n".join(f"{item.stdout or ''}\n{item.stderr or ''}" for item in evidence.items)
    return Read(evidence, words, _verdict(evidence, knowledge), kinds)


def _changes(texts: Iterator[Read], without: Knowledge) -> bool:
    return any(_verdict(text.evidence, without) != text.verdict for text in texts)


def _less(knowledge: Knowledge, made: Mapping[str, object], *, derived: tuple[str, ...] = ()) -> Knowledge:
    """The knowledge with other tables or indexes."""
    other = Knowledge(knowledge._texts)
    other._made = {name: value for name, value in {**knowledge._made, **made}.items() if name not in derived}
    return other


def _messages(knowledge: Knowledge, texts: list[Read]) -> Unneeded:
    index = signs._signs(knowledge)
    every = [(cause.id, match) for cause in knowledge.causes.values() for match in cause.match]
    names = []
    for cause, match in every:
        rest = {literal: [sign for sign in found if sign.match is not match] for literal, found in index.items()}
        held = (text for text in texts if any(literal in text.words for literal in match.literals))
        if not _changes(held, _less(knowledge, {"signs": rest})):
            names.append(f"{cause}: {match.literals[0]}")
    return Unneeded(len(every), tuple(names))


def _of_table(kind: str, knowledge: Knowledge, texts: list[Read]) -> Unneeded:
    """Each entry of a table whose entries name the kinds that they stand for."""
    file = f"tables/{kind}.toml"
    table = knowledge._made[file]
    field = "says" if kind == "lexicon" else "circumstance"
    entries = getattr(table, field)
    names = []
    for entry in entries:
        rest = msgspec.structs.replace(table, **{field: tuple(one for one in entries if one is not entry)})
        held = (text for text in texts if text.kinds & set(_kinds(entry)))
        if not _changes(held, _less(knowledge, {file: rest}, derived=DERIVED[kind])):
            names.append(", ".join(_kinds(entry)))
    return Unneeded(len(entries), tuple(names))


def _kinds(entry: Says | Circumstance) -> tuple[str, ...]:
    return entry.kinds if isinstance(entry, Says) else (entry.kind,)


def main() -> None:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    arguments.add_argument("--list", choices=("messages", *DERIVED), default=None)
    chosen = arguments.parse_args().list
    for kind, found in unneeded().items():
        print(f"{kind}: {len(found.names)} of {found.entries} are needed by no text")
        if kind == chosen:
            print(*(f"  {name}" for name in found.names), sep="\n")


if __name__ == "__main__":
    main()
