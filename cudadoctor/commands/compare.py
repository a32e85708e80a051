"""`cudadoctor compare`: what differs between two reports, recordings or machines."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from cudadoctor.commands import examining, gathering, helping, terminal
from cudadoctor.commands import options as groups

if TYPE_CHECKING:
    from cudadoctor.fleet.comparing import Compared
    from cudadoctor.model.evidence import Evidence


@helping.command(
    "Measure",
    "Say what differs between two machines or two runs.",
    ("cudadoctor compare good.json bad.json", "two reports"),
    ("cudadoctor compare recording.tar.gz -", "a recording and this machine"),
)
@click.argument("a")
@click.argument("b")
@groups.text_or_json_option
@click.option("--quick", is_flag=True, help="For `-`: stop before anything that imports Numba or launches a kernel.")
@click.option("--python", metavar="PATH", help="For `-`: examine this interpreter.")
@click.option("--timeout", type=groups.Seconds(min=1), default=60.0, show_default=True, help="For `-`: seconds for the whole run.")
@groups.shown
def compare(a: str, b: str, form: str, **options: Any) -> None:
    """Say what differs between A and B: before and after an upgrade, inside and outside a container, a good node and a bad one.

    A and B are reports (`check --format json`), recordings or bundles; `-` is this machine now. Exits 0 when nothing that matters differs,
    1 when something does.
    """
    if a == b == "-":
        raise terminal.usage("this machine now is one side: give a report or a recording as the other")
    from cudadoctor.fleet import comparing
    from cudadoctor.report import comparison_text, json

    comparison = comparing.compare(_side(a, options), _side(b, options), gathering.knowledge())
    style = examining.style(options)
    terminal.write_as(form, json.render(comparison) if form == "json" else comparison_text.render(comparison, style), options)
    sys.exit(0 if comparison.equal else 1)


def _side(what: str, options: dict[str, Any]) -> Compared:
    from cudadoctor.fleet.comparing import Compared
    from cudadoctor.model.judgement import Question
    from cudadoctor.sources import bundles, recording, saved_reports

    with gathering.judging(warm=what == "-") as judge:
        if what == "-":
            from cudadoctor.model.requirements import Requirements

            machines: tuple[Evidence, ...] = (gathering.live({**options, "distro": None}, Requirements(), judge=judge),)
        else:
            try:
                saved = saved_reports.read(what)
                if saved is not None:
                    return Compared(name=what, report=saved)
                machines = bundles.replayed(what)
            except (saved_reports.SavedReportError, recording.RecordingError, bundles.BundleError) as error:
                raise terminal.usage(str(error)) from error
        answer = judge.answer(Question(machines=machines))
    return Compared(name="this machine now" if what == "-" else what, report=answer.report, evidence=machines[answer.machine])
