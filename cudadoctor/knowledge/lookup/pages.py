"""What the pages share: a thing that the tables do not hold, neighbours of a number, and how a page is put together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, TypeVar

from cudadoctor.model.explanation import Fact, Subject, Topic, Trouble

if TYPE_CHECKING:
    from cudadoctor.knowledge.load import Knowledge

T = TypeVar("T")
Value = str | int | bool | tuple[str, ...] | None


class NoSuchError(LookupError):
    """An API or a kind of thing that is known, and one of it that is not. The message is a whole sentence, with the nearest."""


def neighbours(number: T, known: Iterable[T]) -> tuple[T, ...]:
    """The next smaller and the next greater of those that are known."""
    below, above = None, None
    for other in sorted(known):  # type: ignore[type-var]
        if other < number:  # type: ignore[operator]
            below = other
        elif above is None:
            above = other
    return tuple(other for other in (below, above) if other is not None)


def either(before: str, near: Iterable[object]) -> str:
    """The questions that lead to these: "`cc 6.2` and `cc 7.0`"."""
    return " and ".join(f"`{before}{one}`" for one in near)


def tell_apart(causes: Iterable[str], knowledge: Knowledge) -> dict[str, str | None]:
    """For each cause the command that shows whether it is that one; None where the cause has no file."""
    known = knowledge.causes
    return {cause: known[cause].tell_apart if cause in known else None for cause in causes}


def facts(*rows: tuple[str, Value]) -> tuple[Fact, ...]:
    """The lines that say something."""
    return tuple(Fact(name=name, value=_words(value)) for name, value in rows if value not in (None, "", ()))


def _words(value: Value) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(value) if isinstance(value, tuple) else str(value)


def topic(
    subject: Subject,
    identity: str,
    title: str,
    knowledge: Knowledge,
    *,
    facts: tuple[Fact, ...],
    sources: Iterable[str],
    meaning: str | None = None,
    note: str | None = None,
    conditions: Mapping[str, object] | None = None,
    values: Mapping[str, Value] | None = None,
    troubles: tuple[Trouble, ...] = (),
    compute_capability: str | None = None,
) -> Topic:
    """A thing's page: what its kind is, what is known of this one, and what usually goes wrong where a condition holds."""
    kind = knowledge.topic(subject)
    rows = knowledge.pitfalls(subject, frozenset(name for name, holds in (conditions or {}).items() if holds))
    words = {name: _words(value) for name, value in (values or {}).items()}
    found = (*troubles, *(Trouble(text=row.text.format_map(words), causes=row.causes) for row in rows))
    causes = tuple(dict.fromkeys(cause for trouble in found for cause in trouble.causes))
    rests_on = [*sources, *knowledge.sources_of("topics", (kind, *rows))]
    return Topic(
        subject=subject,
        id=identity,
        title=title,
        meaning=" ".join(filter(None, (meaning or kind.meaning, note))),
        compute_capability=compute_capability,
        facts=facts,
        troubles=found,
        causes=causes,
        tell_apart=tell_apart(causes, knowledge),
        sources=tuple(dict.fromkeys(rests_on)),
    )
