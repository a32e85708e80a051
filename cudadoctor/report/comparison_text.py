"""What `cudadoctor compare` prints: each difference with both sides, one below the other, and what could not be compared."""

from __future__ import annotations

from collections.abc import Iterable

from cudadoctor.model.comparison import BEARING, Comparison, Difference
from cudadoctor.report.clean import one_line
from cudadoctor.report.page import PlainPage, Style

_HEADINGS = (
    ("Bears on the verdict", BEARING),
    ("Machine and software", frozenset({"machine", "gpu", "setting", "package"})),
    ("Benchmark, beyond the spread of the samples", frozenset({"figure"})),
)
NONE = "-"
LONG = 240  # characters of one value; -v shows all


def render(comparison: Comparison, style: Style) -> str:
    page = PlainPage(style)
    count = len(comparison.differences)
    said = "EQUAL  nothing that matters differs" if comparison.equal else f"DIFFERENT  {count} difference{'s' if count > 1 else ''}"
    page.raw(said, "bold")
    for letter, side in (("A", comparison.a), ("B", comparison.b)):
        page.raw(one_line(f"{letter}  {side.name}: {side.verdict}{', examined with --quick' if side.quick else ''}"), "dim")
    for heading, kinds in _HEADINGS:
        _block(page, heading, [one for one in comparison.differences if one.kind in kinds])
    if comparison.notes:
        page.gap()
        page.notes(comparison.notes)
    return page.text()


def _block(page: PlainPage, heading: str, differences: Iterable[Difference]) -> None:
    chosen = list(differences)
    if not chosen:
        return
    page.heading(heading)
    for one in chosen:
        a, b = _short(one.a, page.style), _short(one.b, page.style)
        what = one_line(one.what)
        if len(what) + len(a) + len(b) + 14 <= page.style.width:
            page.raw(f"{what}:  A {a}  |  B {b}", indent=2)
            continue
        page.raw(what, indent=2)
        page.raw(f"A  {a}", indent=4)
        page.raw(f"B  {b}", indent=4)


def _short(value: str | None, style: Style) -> str:
    shown = one_line(value) if value else NONE
    return shown if style.verbose or len(shown) <= LONG else f"{shown[:LONG]} ... ({len(shown)} characters)"
