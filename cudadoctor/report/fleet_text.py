"""Many machines as a person reads them: who did not answer, what is wrong by cause, what drifts, who is slow. -v shows all of it.

Node names are folded (node[001-037]). The first lines say the most; a list that is cut says how much it left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model import units
from cudadoctor.model.fleet import Drift, Fleet, Group, Straggler
from cudadoctor.report import words
from cudadoctor.report.clean import one_line
from cudadoctor.report.page import Style
from cudadoctor.report.text import VERDICTS, Page

_NUMBERED = re.compile(r"\A(.*\D|)(\d{1,9})(\D*)", re.DOTALL)
_LONGEST = 60  # characters of a set of nodes
_MOST = 6  # entries of a list; -v shows all


def folded(names: Iterable[str]) -> str:
    """`node[001-037,040], login`: names that differ in their last number alone stand together."""
    sets: dict[tuple[str, str], list[str]] = {}
    for name in dict.fromkeys(names):
        match = _NUMBERED.fullmatch(name)
        sets.setdefault((match[1], match[3]) if match else (name, ""), []).append(match[2] if match else "")
    return ", ".join(f"{before}{_ranges(numbers)}{after}" for (before, after), numbers in sets.items())


def _ranges(numbers: list[str]) -> str:
    """`[001-037,040]`; a single number as it is. 9 and 10 follow each other, 09 and 9 are two names."""
    if len(numbers) == 1:
        return numbers[0]
    ends: list[list[str]] = []
    for number in sorted(numbers, key=lambda text: (int(text), len(text))):
        last = ends[-1][1] if ends else ""
        grown = len(number) == len(last) or "0" not in (number[0], last[:1])
        if last and int(number) == int(last) + 1 and grown:
            ends[-1][1] = number
        else:
            ends.append([number, number])
    return "[" + ",".join(first if first == last else f"{first}-{last}" for first, last in ends) + "]"


def render(fleet: Fleet, knowledge: Knowledge, style: Style) -> str:
    page = Page(style)
    word, colour = VERDICTS[worst(fleet)]
    page.pair(word, colour, headline(fleet))
    page.raw(models(fleet), "dim")
    page.listed("No report", [f"{_short(folded(sources), style)}: {why}" for why, sources in by_reason(fleet).items()], most=_MOST)
    faults = [group for group in fleet.groups if group.verdict != "healthy"]
    if faults:
        page.heading("By cause")
    for group in page.first(faults, _MOST):
        _group(page, group)
    page.left(faults, _MOST)
    page.listed("Required, and not met", [f"{_short(folded(one.nodes), style)}: {words.asked(one)}" for one in fleet.demands], most=_MOST)
    page.listed("Not the same everywhere", [drifting(one, style) for one in fleet.drift], most=_MOST)
    page.listed("Worse than before", [f"{_short(folded(one.nodes), style)}: {one.what}" for one in fleet.worse], most=_MOST)
    page.listed("Slower than their equals", [*_by_gpu(fleet, knowledge, style)], most=_MOST)
    page.gap()
    for note in fleet.notes:
        page.prose(f"Note: {note}")
    repeated = f"; {fleet.repeated} older reports of the same nodes left out" if fleet.repeated else ""
    page.prose(f"{fleet.nodes} {'node' if fleet.nodes == 1 else 'nodes'}{repeated}; exit code {fleet.exit_code}", "dim")
    return page.text()


def worst(fleet: Fleet) -> str:
    order = ("broken", "undecided", "degraded", "healthy")
    found = next((verdict for verdict in order if fleet.verdicts.get(verdict)), "undecided")
    if found == "healthy":
        return "undecided" if fleet.missing else "degraded" if fleet.stragglers else found
    return found


def headline(fleet: Fleet) -> str:
    said = [f"{count} of {fleet.nodes} nodes {verdict}" for verdict, count in fleet.verdicts.items()]
    said += [f"{len(fleet.missing)} gave no report"] if fleet.missing else []
    gpus = len({(one.node, one.gpu) for one in fleet.stragglers})
    said += [f"{gpus} GPU{'s' if gpus > 1 else ''} slower than {'their' if gpus > 1 else 'its'} equals"] if gpus else []
    return "; ".join(said) or "nothing was read"


def models(fleet: Fleet) -> str:
    return one_line(" | ".join(f"{count} x {model}" for model, count in list(fleet.gpus.items())[:4])) or "no GPU was seen"


def by_reason(fleet: Fleet) -> dict[str, list[str]]:
    """Those without a report, by why."""
    found: dict[str, list[str]] = {}
    for one in fleet.missing:
        found.setdefault(one.why, []).append(one.source)
    return found


def _group(page: Page, group: Group) -> None:
    named = f"{group.title} [{group.cause}]" if group.cause is not None else group.verdict
    page.prose(f"{len(group.nodes)} {'nodes' if len(group.nodes) > 1 else 'node'} {group.verdict}: {named}", indent=2, hang=2)
    page.prose(_short(folded(group.nodes), page.style), "dim", indent=4, hang=2)
    if group.line is not None:
        page.prose(group.line, indent=4, hang=2)
    if group.step is not None:  # also above a command: it says where and when that is right
        page.prose(group.step, indent=6)
    if group.command is not None:
        page.raw(group.command, "cyan", indent=8)


def _short(names: str, style: Style) -> str:
    """A set of nodes that is too long for a line is cut; -v shows the whole."""
    return names if style.verbose or len(names) <= _LONGEST else f"{names[:_LONGEST]}..."


def drifting(drift: Drift, style: Style | None = None) -> str:
    """`style`: whether sets of nodes are cut."""
    odd = "; ".join(f"{one.value}: {folded(one.nodes) if style is None else _short(folded(one.nodes), style)}" for one in drift.odd[:4])
    return f"{drift.setting}: {f'{drift.usual} on {drift.count} nodes; ' if drift.usual is not None else ''}{odd}"


def _by_gpu(fleet: Fleet, knowledge: Knowledge, style: Style) -> Iterator[str]:
    """Of each GPU the figure that is furthest behind; -v shows all."""
    by_gpu: dict[tuple[str, int], list[Straggler]] = {}
    for one in fleet.stragglers:
        by_gpu.setdefault((one.node, one.gpu), []).append(one)
    for first, *others in by_gpu.values():
        if style.verbose:
            yield from (slow(one, knowledge) for one in (first, *others))
        else:
            yield slow(first, knowledge) + (f"; {len(others)} more of its figures (-v)" if others else "")


def slow(one: Straggler, knowledge: Knowledge) -> str:
    """One GPU's figure beside the usual one."""
    than = f"{one.peers} equal GPUs" if one.against == "peers" else "it was before"
    said = f"{units.figure(one.value, one.unit)}, {one.behind:.0%} behind {units.figure(one.usual, one.unit)}"
    return f"{one.node} GPU {one.gpu}: {words.figure(one.figure, knowledge)} {said} ({than})"
