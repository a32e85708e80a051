"""`cudadoctor bench`: every visible GPU measured beside what its link, memory and clocks can do."""

from __future__ import annotations

import sys
import time
from typing import Any

import click

from cudadoctor.commands import examining, helping
from cudadoctor.commands import options as groups


@click.command(
    cls=helping.Command,
    group="Measure",
    summary="Measure every GPU beside what its hardware can do.",
    examples=(
        ("cudadoctor bench --save before.json", "keep the figures"),
        ("cudadoctor bench --against before.json", "compare with them"),
    ),
)
@click.option("--save", metavar="FILE", help="Keep the figures of this run, for --against.")
@click.option("--against", metavar="FILE", help="Compare with figures that --save kept.")
@groups.policy_options
@examining.evidence_options
@groups.shown
def bench(save: str | None, against: str | None, **options: Any) -> None:
    """Measure every visible GPU beside what its link, memory and clocks can do: copies, arithmetic, launches, copies between GPUs."""
    started = time.monotonic()
    groups.outputs(options)
    from cudadoctor.commands import saved_figures
    from cudadoctor.report import bench_text

    saved = saved_figures.read(against) if against is not None else None
    answer, knowledge = examining.judge({**options, "on_gpus": ("bench",)}, examining.requirements(options), started)
    report = saved_figures.compared(answer.report, saved, knowledge, strict=options["strict"])
    if save is not None:
        saved_figures.save(report, save)
    examining.finish(report, knowledge, options, bench_text.render(report, knowledge, examining.style(options), against=against))
    sys.exit(groups.exit_code(report, options))
