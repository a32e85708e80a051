"""`cudadoctor smoke`: the whole ladder and more kernels on every visible GPU; 0 only when all of it was right. `cudadoctor bench`: every
visible GPU measured beside what its link, memory and clocks can do.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any

import click

from cudadoctor.commands import examining, helping, terminal
from cudadoctor.commands import options as groups

if TYPE_CHECKING:
    from cudadoctor.model.report import Report

SIZE = re.compile(r"\d{1,15}(?:\.\d{1,15})? ?(?:%|[kmg]i?b|[mg])", re.IGNORECASE)


@helping.command(
    "Measure",
    "Run test kernels on every GPU; each result is checked.",
    ("cudadoctor smoke", "0 only where all were right"),
    ("cudadoctor smoke --memory 90% --duration 60", "more memory, longer"),
)
@click.option("--memory", default="256MiB", show_default=True, metavar="SIZE", help="Device memory to test: a size or a share as 90%.")
@click.option("--duration", type=groups.Seconds(min=0), default=0.0, metavar="SECONDS", help="Keep each GPU under load for so long.")
@examining.report_options
def smoke(memory: str, duration: float, **options: Any) -> None:
    """Run test kernels on every visible GPU: arithmetic, memory, streams. Exits 0 only when every result was right."""
    share = memory.strip()
    if SIZE.fullmatch(share) is None or (share.endswith("%") and not 0 < float(share[:-1]) <= 90):
        raise click.UsageError(f"--memory {memory!r}: give a size such as 256MiB or 8GiB, or a share of the free memory up to 90%")
    arguments = ("--memory", share, "--duration", f"{duration:g}", *(("--detailed",) if options["verbose"] else ()))
    options = {**options, "on_gpus": {"smoke": arguments}, "timeout": examining.limit_beside(duration, options["timeout"])}
    answer, knowledge = examining.judge(options, kernel=True)
    from cudadoctor.report import smoke_text

    report = required(answer.report)
    examining.finish(report, knowledge, options, smoke_text.render(report, knowledge, examining.style(options)))
    sys.exit(groups.exit_code(report, options))


def required(report: Report) -> Report:
    """The report with an exit code that is 0 only if the smoke test passed."""
    import msgspec

    from cudadoctor.report.smoke_text import passed

    return report if passed(report) or report.exit_code != 0 else msgspec.structs.replace(report, exit_code=1)


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
@examining.report_options
def bench(save: str | None, against: str | None, sustained: float | None, **options: Any) -> None:
    """Measure every visible GPU beside what its link, memory and clocks can do: copies, arithmetic, launches, copies between GPUs."""
    if save is not None:
        terminal.check_file(save, f"--save {save}")
    from cudadoctor.commands import saved_figures
    from cudadoctor.report import bench_text

    saved = saved_figures.read(against) if against is not None else None
    more: dict[str, Any] = {"on_gpus": {"bench": ()}}
    if sustained is not None:
        limit = examining.limit_beside(sustained, options["timeout"])
        more = {"on_gpus": {"sustained": ("--seconds", f"{sustained:g}")}, "timeout": limit}
    answer, knowledge = examining.judge({**options, **more})
    report = saved_figures.compared(answer.report, saved, knowledge, strict=options["strict"])
    if save is not None:
        saved_figures.save(report, save)
    examining.finish(report, knowledge, options, bench_text.render(report, knowledge, examining.style(options), against=against))
    sys.exit(groups.exit_code(report, options))
