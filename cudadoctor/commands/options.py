"""Groups of options that several commands share, and what they mean: a policy, and the formats that a report is written in."""

from __future__ import annotations

import datetime as dt
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import click

from cudadoctor.commands import terminal
from cudadoctor.report.formats import FORMATS

if TYPE_CHECKING:
    from cudadoctor.commands.policy_file import Found
    from cudadoctor.knowledge.load import Knowledge
    from cudadoctor.model.report import Report
    from cudadoctor.model.requirements import Policy
    from cudadoctor.report.page import Style

    _Word = click.ParamType[str]
else:
    _Word = click.ParamType  # older releases of Click know no type of the value

F = TypeVar("F", bound=Callable[..., Any])
SUMMARY = "GITHUB_STEP_SUMMARY"
NPD_SECONDS = 4.0  # node-problem-detector ends a plugin after 5 s


def group(*decorators: Callable[[F], F], heading: str = "") -> Callable[[F], F]:
    """Several options as one decorator, in the order in which --help shows them, below a heading of their own."""

    def apply(function: F) -> F:
        before = len(getattr(function, "__click_params__", ()))
        for decorator in reversed(decorators):
            function = decorator(function)
        for option in getattr(function, "__click_params__", ())[before:]:
            if heading and not hasattr(option, "heading"):
                option.heading = heading
        return function

    return apply


def completing(names: Callable[[], Iterable[str]]) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """What a shell completes: those of these names that begin so."""
    return lambda context, parameter, begun: [name for name in names() if name.startswith(begun)]


class Seconds(click.FloatRange):
    """A time that ends."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        seconds = float(super().convert(value, param, ctx))
        if not math.isfinite(seconds):
            self.fail(f"{value!r} is no number of seconds", param, ctx)
        return seconds


class Distro(_Word):
    """A distribution that is known; what is not is a typing error, never another machine's commands."""

    name = "name"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from cudadoctor.commands import gathering
        from cudadoctor.prescribe import distribution

        knowledge, word = gathering.knowledge(), str(value)
        if not distribution.known_word(word, knowledge):
            name = re.sub(r"[-:_ ]?\d[\w.]{0,20}$", "", word[:80])
            near = terminal.nearest(name, distribution.words(knowledge))
            self.fail(f"{word!r} is no distribution that is known{near or ', such as ubuntu-24.04, debian-13, rhel-9'}", param, ctx)
        return word


timeout_option = click.option("--timeout", type=Seconds(min=1), default=60.0, show_default=True, help="Seconds for the whole run.")
text_or_json_option = click.option("--format", "form", type=click.Choice(("text", "json")), default="text", show_default=True)
distro_option = click.option("--distro", type=Distro(), metavar="NAME", help="Print commands for this distribution, such as ubuntu-24.04.")
format_options = group(
    click.option("--format", "form", type=click.Choice(tuple(FORMATS)), default="text", show_default=True, help="What goes to stdout."),
    click.option(
        "--output",
        multiple=True,
        metavar="FORMAT=FILE",
        help="Write another format to a file; may be repeated. nagios and npd go to stdout only.",
    ),
    click.option("--strict", is_flag=True, help="Exit 1 when the machine is degraded."),
    heading="Output",
)
policy_options = group(
    click.option(
        "--require", multiple=True, metavar="REQUIREMENT", help="Demand such as 'gpus>=2'; may be repeated. Not met: exit code 1."
    ),
    click.option(
        "--policy",
        metavar="FILE",
        help="Read demands and expected findings here. Else: cudadoctor.toml or [tool.cudadoctor] of pyproject.toml, found upward.",
    ),
    heading="Demands",
)
nodes_options = group(
    click.option("--slurm", metavar="NODES", help="By srun: node[001-037], or all: the job's nodes in a job, else the cluster's."),
    click.option("--ssh", metavar="NODES", help="By ssh, which asks no questions: node[001-037]."),
    click.option(
        "--dask", metavar="ADDRESS", help="By a Dask cluster's workers (each of which can run code as you): the scheduler's address."
    ),
    click.option("--kubernetes", metavar="SELECTOR", help="By pods with this label that print reports: app=cudadoctor (see hook)."),
    click.option("--quick", is_flag=True, help="Nodes launch no kernel and measure nothing."),
    click.option("--busy", is_flag=True, help="Nodes measure GPUs too on which another process computes."),
    click.option("--timeout", type=Seconds(min=1), default=60.0, show_default=True, help="Seconds of a node's check; it is ended then."),
    click.option("--fanout", type=click.IntRange(1, 1024), default=64, show_default=True, help="Nodes that are asked at a time."),
    click.option("--doctor", metavar="PATH", default="cudadoctor", show_default=True, help="The doctor on the nodes."),
    click.option("--srun", metavar="OPTIONS", help="Options of srun, in place of --exclusive (in a job: --overlap)."),
    click.option("--kubectl", metavar="OPTIONS", help="Options of kubectl, such as '--namespace gpu'."),
    click.option("--ssh-options", metavar="OPTIONS", help="Options of ssh, such as '-l admin'."),
    click.option("--save", metavar="FOLDER", help="Keep each node's report here, for --history of a later run."),
    heading="Ask the nodes",
)

shown = group(
    click.option(
        "--color", type=click.Choice(["auto", "always", "never"]), default="auto", help="Colour; NO_COLOR and FORCE_COLOR count too."
    ),
    click.option("--ascii", "plain", is_flag=True, help="Write plain ASCII."),
    click.option("--quiet", is_flag=True, help="No text on stdout, which another format still writes to; the exit code speaks."),
    click.option("-v", "--verbose", is_flag=True, help="Show all rows with their times."),
    heading="Output",
)


# ---------------------------------------------------------------- policy
def found_policy(options: dict[str, Any]) -> Found | None:
    """What the options and the policy file demand; None for a command without a policy. A wrong demand ends the run before it begins."""
    if "require" not in options:
        return None
    from cudadoctor.commands.policy_file import PolicyError, gathered

    try:
        found = gathered(options["policy"], options["require"], _causes())
    except PolicyError as error:
        raise terminal.usage(str(error)) from error
    if found.refused is not None:
        terminal.say(f"Warning: {found.refused}\n")
    return found


def _causes() -> Iterator[str]:
    """All causes; they are read only where a policy names one."""
    from cudadoctor.commands import gathering

    yield from gathering.knowledge().causes


def asked_policy(found: Found | None) -> Policy | None:
    """The policy, where there is anything in it to put beside a report."""
    if found is None or (found.refused is None and found.policy.source is None and not found.policy.requirements):
        return None
    return found.policy


def today() -> dt.date:
    return dt.datetime.now(tz=dt.timezone.utc).date()


# ---------------------------------------------------------------- formats
def settled(options: dict[str, Any]) -> dict[str, Any]:
    """The options with what a format needs: node-problem-detector waits 5 s at most."""
    if options["form"] == "npd" and "quick" in options:
        return {**options, "quick": True, "timeout": min(options["timeout"], NPD_SECONDS)}
    return options


def outputs(options: dict[str, Any]) -> list[tuple[str, str]]:
    return terminal.outputs(options["output"], tuple(name for name, form in FORMATS.items() if not form.only_stdout))


def write_stdout(report: Report, knowledge: Knowledge, options: dict[str, Any], style: Style) -> None:
    """The chosen format but text, to stdout."""
    form = FORMATS[options["form"]]
    body = form.render(report, knowledge, style)
    if form.is_json:
        terminal.write_json(body, options["plain"])
    else:
        terminal.write(body, commands=options["form"] == "github")


def write_files(report: Report, knowledge: Knowledge, options: dict[str, Any], style: Style) -> None:
    """Every --output, and the summary of a GitHub job where Markdown was asked for."""
    written = outputs(options)
    for form, path in written:
        body = FORMATS[form].render(report, knowledge, style)
        terminal.write_file(path, body, json=FORMATS[form].is_json, commands=form == "github")
    summary, of_pages = os.environ.get(SUMMARY), [path for form, path in written if form == "markdown"]
    if summary and (options["form"] == "markdown" or of_pages) and not any(_is_one_file(path, summary) for path in of_pages):
        terminal.write_file(summary, FORMATS["markdown"].render(report, knowledge, style), mode="a")


def _is_one_file(one: str, other: str) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False


def exit_code(report: Report, options: dict[str, Any]) -> int:
    """The report's, or that which the readers of the format agreed on."""
    own = FORMATS[options["form"]].exit_code
    return own(report) if own is not None else report.exit_code
