"""A variable that was set to no effect, because a blank stands beside its name.

This is a note and no finding: no cause of the vocabulary is about a variable that is *not* set (the simulator that somebody wanted is off,
the GPU that somebody chose is not chosen), nothing fails for it, and what does fail has a cause of its own.
"""

from __future__ import annotations

from cudadoctor.judge.assemble.known import value
from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.facts import Facts, Unknown
from cudadoctor.model.values import SPACED_NAMES, SpacedName


def notes(facts: Facts, knowledge: Knowledge) -> list[str]:
    """One note for each known variable, with the words that show it."""
    entries = value(facts, SPACED_NAMES) or ()
    if not entries:
        return []
    known = ({row.name for row in knowledge.env_vars} | {row.name for row in knowledge.numba_env}) - {"PATH"}  # csh sets that one so
    return list(dict.fromkeys(_note(entry, _line(facts, entry)) for entry in entries if entry.name.upper() in known))


def _line(facts: Facts, entry: SpacedName) -> str:
    found = facts.get(SPACED_NAMES)
    quotes = () if isinstance(found, Unknown) else found.quotes
    return next((quote.text.strip("\r\n") for quote in quotes if quote.first == entry.line), entry.name)


def _note(entry: SpacedName, line: str) -> str:
    name = entry.name
    if entry.command == "export":
        return f'"{line.strip()}" sets nothing: a shell refuses blanks around the = sign. Write: export {name}=VALUE'
    if entry.command == "set":
        return (
            f'"{line.strip()}" sets a variable whose name ends in a blank, and no program reads that one. In cmd write set {name}=VALUE, '
            f'without blanks around the = sign; in PowerShell $env:{name}="VALUE"; in a Linux shell export {name}=VALUE.'
        )
    return (
        f'The environment holds a variable whose name has a blank beside it ("{line}"): no program reads that one. '
        f"{name} has to be set without blanks around the = sign."
    )
