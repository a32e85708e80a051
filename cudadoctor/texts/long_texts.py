"""A long text is read without its repetitions; the report then names the lines of the full text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import msgspec

from cudadoctor.model.evidence import Evidence
from cudadoctor.model.facts import Quote
from cudadoctor.model.findings import Diagnosis, Finding, Judged
from cudadoctor.model.report import Row
from cudadoctor.parsers.condense import Places, condensed
from cudadoctor.parsers.literals import Literals

T = TypeVar("T")
Numbering = Mapping[str, Sequence[int]]  # source of a text -> for each line that was read, its number in the full text


class Short(NamedTuple):
    """Evidence with condensed texts, how their lines were numbered before, and what a reader should know of what was left out."""

    evidence: Evidence
    numbering: Numbering = MappingProxyType({})
    remarks: tuple[str, ...] = ()


def shortened(evidence: Evidence, literals: Callable[[], Literals], codes: Places) -> Short:
    """The evidence with its long texts condensed. `literals`: what any recogniser looks for; `codes`: where codes stand on a line."""
    items = []
    numbering: dict[str, Sequence[int]] = {}
    remarks = []
    for item in evidence.items:
        if (item.kind == "text" or item.id == "kernel-log") and item.stdout:
            text, numbers, repeated = condensed(item.stdout, literals, codes)
            before = item.lines_before
            if numbers is not None:
                numbering[item.source] = tuple(number + before for number in numbers)
                item = msgspec.structs.replace(item, stdout=text)
            elif before:
                numbering[item.source] = range(before + 1, before + len(text) + 2)  # no text has more lines than letters
            if not repeated and numbers is not None:
                remarks.append(
                    f"Of the {item.source} {len(numbers)} lines were read, where what is known here stands first and last: "
                    "it is long, and all its lines are different."
                )
        items.append(item)
    return Short(msgspec.structs.replace(evidence, items=tuple(items)), numbering, tuple(remarks)) if numbering else Short(evidence)


def renumbered(found: T, numbering: Numbering) -> T:
    """What a judgement or the rows of the checks hold, with the line numbers of the full texts in its quotes."""
    return _with(found, numbering) if numbering else found


def _with(found: Any, numbering: Numbering) -> Any:
    if isinstance(found, Quote):
        numbers = numbering.get(found.source)
        if numbers is None or found.first is None or found.last is None:
            return found
        return msgspec.structs.replace(found, first=numbers[found.first - 1], last=numbers[found.last - 1])
    if isinstance(found, tuple):
        return tuple(_with(one, numbering) for one in found)
    if isinstance(found, Judged | Diagnosis | Finding | Row):
        return msgspec.structs.replace(found, **{name: _with(getattr(found, name), numbering) for name in found.__struct_fields__})
    return found
