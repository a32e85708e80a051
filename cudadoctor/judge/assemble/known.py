"""A fact's value for showing: what is not known is left out of what is shown."""

from __future__ import annotations

from typing import TypeVar

from cudadoctor.model.facts import Facts, Key, Unknown
from cudadoctor.model.findings import Finding

T = TypeVar("T")


def value(facts: Facts, key: Key[T]) -> T | None:
    """The value where it is known and there; None otherwise."""
    found = facts.get(key)
    return None if isinstance(found, Unknown) else found.value


def said(finding: Finding) -> str:
    """What a text states; where it only hints at a cause, its own words."""
    return finding.title if finding.basis != "suspected" else finding.evidence[0].text.strip()
