"""Many machines as a person reads them: who did not answer, what is wrong by cause, what drifts, who is slow. -v shows all of it.

Node names are folded (node[001-037]) by `fold`. The first lines say the most; a list that is cut says how much it left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model import units
from cudadoctor.model.fleet import Drift, Fleet, Group, Straggler
from cudadoctor.report.clean import one_line
from cudadoctor.report.page import Style
from cudadoctor.report.text import VERDICTS, Page

Fold = Callable[[Iterable[str]], str]
_LONGEST = 60  # characters of a set of nodes
_MOST = 6  # entries of a list; -v shows all


def plain(names: Iterable[str]) -> str:
    """Names one after the other, where nothing folds them."""
    return ", ".join(names)


def render(fleet: Fleet, knowledge: Knowledge, style: Style, fold: Fold = plain) -> str:
    page = Page(style)
    word, colour = VERDICTS[_worst(fleet)]
    page.pair(word, colour, _headline(fleet))
    page.raw(one_line(" | ".join(f"{count} x {model}" for model, count in list(fleet.gpus.items())[:4])) or "no GPU was seen", "dim")
    _list(page, "No report", list(_missing(fleet, fold, style)))
    faults = [group for group in fleet.groups if group.verdict != "healthy"]
    if faults:
        _head(page, "By cause")
    for group in _some(faults, style):
        _group(page, group, fold)
    _left(page, faults)
    _list(page, "Not the same everywhere", [_drift(one, fold, style) for one in fleet.drift])
    _list(page, "Slower than their equals", [_slow(one, knowledge) for one in fleet.stragglers])
    page.gap()
    for note in fleet.notes:
        page.prose(f"Note: {note}")
    repeated = f"; {fleet.repeated} older reports of the same nodes left out" if fleet.repeated else ""
    page.prose(f"{fleet.nodes} {'node' if fleet.nodes == 1 else 'nodes'}{repeated}; exit code {fleet.exit_code}", "dim")
    return page.text()


def _worst(fleet: Fleet) -> str:
    order = ("broken", "undecided", "degraded", "healthy")
    found = next((verdict for verdict in order if fleet.verdicts.get(verdict)), "undecided")
    if found == "healthy":
        return "undecided" if fleet.missing else "degraded" if fleet.stragglers else found
    return found


def _headline(fleet: Fleet) -> str:
    said = [f"{count} of {fleet.nodes} nodes {verdict}" for verdict, count in fleet.verdicts.items()]
    said += [f"{len(fleet.missing)} gave no report"] if fleet.missing else []
    slow = len({(one.node, one.gpu) for one in fleet.stragglers})
    said += [f"{slow} GPU{'s' if slow > 1 else ''} slower than {'their' if slow > 1 else 'its'} equals"] if slow else []
    return "; ".join(said) or "nothing was read"


def _head(page: Page, head: str) -> None:
    page.gap()
    page.raw(head, "bold")


def _some(entries: Sequence[Group], style: Style) -> Sequence[Group]:
    return entries if style.verbose else entries[:_MOST]


def _left(page: Page, entries: Sequence[object]) -> None:
    if len(entries) > _MOST and not page.style.verbose:
        page.raw(f"and {len(entries) - _MOST} more (-v)", "dim", indent=2)


def _list(page: Page, head: str, lines: Sequence[str]) -> None:
    if lines:
        _head(page, head)
        for line in lines if page.style.verbose else lines[:_MOST]:
            page.prose(line, indent=2, hang=2)
        _left(page, lines)


def _group(page: Page, group: Group, fold: Fold) -> None:
    named = f"{group.title} [{group.cause}]" if group.cause is not None else group.verdict
    page.prose(f"{len(group.nodes)} {'nodes' if len(group.nodes) > 1 else 'node'} {group.verdict}: {named}", indent=2, hang=2)
    page.prose(_short(fold(group.nodes), page.style), "dim", indent=4, hang=2)
    if group.line is not None:
        page.prose(group.line, indent=4, hang=2)
    if group.command is not None:
        page.raw(group.command, "cyan", indent=6)
    elif group.step is not None:
        page.prose(group.step, indent=6)
    elif group.cause is not None:
        page.raw("the first step differs: cudadoctor fix on each", indent=6)


def _missing(fleet: Fleet, fold: Fold, style: Style) -> Iterator[str]:
    """Those with the same reason together."""
    by_why: dict[str, list[str]] = {}
    for one in fleet.missing:
        by_why.setdefault(one.why, []).append(one.source)
    for why, sources in by_why.items():
        yield f"{_short(fold(sources), style)}: {why}"


def _short(names: str, style: Style) -> str:
    """A set of nodes that is too long for a line is cut; -v shows the whole."""
    return names if style.verbose or len(names) <= _LONGEST else f"{names[:_LONGEST]}..."


def _drift(drift: Drift, fold: Fold, style: Style) -> str:
    odd = "; ".join(f"{one.value}: {_short(fold(one.nodes), style)}" for one in drift.odd[:4])
    return f"{drift.setting}: {f'{drift.usual} on {drift.count} nodes; ' if drift.usual is not None else ''}{odd}"


def _slow(one: Straggler, knowledge: Knowledge) -> str:
    row = knowledge.figure(one.figure)
    than = f"{one.peers} equal GPUs" if one.against == "peers" else "it was before"
    said = f"{units.figure(one.value, one.unit)}, {one.behind:.0%} behind {units.figure(one.usual, one.unit)}"
    return f"{one.node} GPU {one.gpu}: {row.title if row is not None else one.figure} {said} ({than})"
