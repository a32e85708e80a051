"""Row nvidia-smi: the command that everybody tries first. Its absence is a finding only where the driver itself is at work."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from cudadoctor.checks.base import Check, Line, Rule
from cudadoctor.checks.common import QUICK, plural, rung_quote, variables_of
from cudadoctor.checks.reading import Quotes, first_true, line_if, marks_of_container, merged, off_the_bus, passed
from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.evidence import SPARED
from cudadoctor.model.facts import Fact, Facts, Unknown
from cudadoctor.model.findings import Clue
from cudadoctor.model.values import ENVIRONMENT, LADDER, LOADED_DRIVER, SMI, Smi
from cudadoctor.model.values.driver import UNFIT

MISSING = "nvidia-smi-missing"
NO_PATH = "PATH is empty, and nvidia-smi is in none of the usual folders"


def _missing(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """nvidia-smi is not there although the driver is. In WSL it lies in a folder of its own; Jetson has none by design."""
    smi = facts[SMI]
    if smi.present or off_the_bus(facts, smi) is not None:
        return
    if _no_path(facts):
        raise SMI.unknown(NO_PATH)
    # The loaded module may be the host's where this could be a container: there libcuda must answer.
    loaded_here = partial(line_if, facts, LOADED_DRIVER, lambda driver: not marks_of_container(facts, smi))
    works = first_true(loaded_here, lambda: _cuda_answers(facts))
    if works:
        yield Clue(cause=MISSING, quotes=merged(smi.some(), works), values={"unfit": "nvidia-smi"} if _unfit(smi) else {})


def _unfit(smi: Fact[Smi]) -> bool:
    """Whether a file of that name is there, and is no program of this machine."""
    return any(UNFIT in quote.text for quote in smi.quotes)


def _no_path(facts: Facts) -> bool:
    """PATH names no folder: then nobody knows where nvidia-smi would be."""
    return variables_of(facts.there(ENVIRONMENT)).get("PATH") == ""


def _cuda_answers(facts: Facts) -> Quotes:
    ladder = facts[LADDER]
    results = ladder.need().result("init") if passed(ladder.value, "init") else ()
    return tuple(rung_quote(ladder, result) for result in results[:1])


def _describe(facts: Facts, knowledge: Knowledge) -> Line:
    asked = facts.get(SMI)
    if isinstance(asked, Unknown) and SPARED in asked.why:
        return Line("not run: NVML and cuInit answered", skip=QUICK)
    found = facts[SMI]
    if found.value is None:
        skip = off_the_bus(facts) if found.origin != "text" else None
        if skip is None and _no_path(facts):
            return Line(NO_PATH, found.some(), skip=NO_PATH)
        return Line("nvidia-smi cannot be executed here" if _unfit(found) else "nvidia-smi is not installed", found.some(), skip=skip)
    smi = found.value
    if smi.failure is not None:
        ended = f" (exit {smi.exit})" if smi.exit is not None else ""
        return Line(f"nvidia-smi says: {smi.failure}{ended}", found.lines_with(smi.failure.split("\n")[0][:40]))
    if not smi.recognised:
        return Line("nvidia-smi printed something that is not understood", found.some(), because="not understood")
    said = [f"nvidia-smi {smi.library}" if smi.library is not None else "nvidia-smi answers"]
    said += [f"driver {smi.module}"] if smi.module is not None else []
    said += [f"CUDA {smi.cuda}"] if smi.cuda is not None else []
    said.append(plural(len(smi.gpus), "GPU"))
    errors = sum(len(gpu.errors) for gpu in smi.gpus)
    return Line(", ".join(said) + (f"; {plural(errors, 'value')} could not be read" if errors else ""), found.some())


CHECK = Check(
    id="nvidia-smi",
    title="nvidia-smi",
    looks_at="the command nvidia-smi: its table, its message and its exit code",
    items=("nvidia-smi", "environment", "driver-version", "ladder"),
    rules=(Rule("nvidia-smi", (MISSING,), _missing),),
    describe=_describe,
)
