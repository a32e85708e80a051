"""`cudadoctor bench`: every visible GPU measured beside what its link, memory and clocks can do."""

from __future__ import annotations

import sys
import time
from typing import Any

import click

from cudadoctor.commands import examining, helping, terminal
from cudadoctor.commands import options as groups


@helping.command(
    "Measure",
    "Measure every GPU beside what its hardware can do.",
    ("cudadoctor bench --save before.json", "keep the figures"),
    ("cudadoctor bench --against before.json", "compare with them"),
    ("cudadoctor bench --sustained 60", "which GPU slows down when warm"),
)
@click.option("--save", metavar="FILE", help="Keep the figures of this run, for --against.")
@click.option("--against", metavar="FILE", help="Compare with figures that --save kept.")
@click.option(
    "--sustained",
    type=groups.Seconds(min=1),
    metavar="SECONDS",
    help="In place of the figures: all GPUs under the load of their tensor cores at once, with clock, power and heat over time.",
)
@groups.policy_options
@examining.evidence_options
@groups.shown
def bench(save: str | None, against: str | None, sustained: float | None, **options: Any) -> None:
    """Measure every visible GPU beside what its link, memory and clocks can do: copies, arithmetic, launches, copies between GPUs."""
    started = time.monotonic()
    groups.outputs(options)
    if save is not None:
        terminal.check_file(save, f"--save {save}")
    from cudadoctor.commands import saved_figures
    from cudadoctor.report import bench_text

    saved = saved_figures.read(against) if against is not None else None
    more: dict[str, Any] = {"on_gpus": {"bench": ()}}
    if sustained is not None:
        limit = examining.limit_beside(sustained, options["timeout"])
        more = {"on_gpus": {"sustained": ("--seconds", f"{sustained:g}")}, "timeout": limit}
    answer, knowledge = examining.judge({**options, **more}, examining.requirements(options), started)
    report = saved_figures.compared(answer.report, saved, knowledge, strict=options["strict"])
    if save is not None:
        saved_figures.save(report, save)
    examining.finish(report, knowledge, options, bench_text.render(report, knowledge, examining.style(options), against=against))
    sys.exit(groups.exit_code(report, options))
