"""The steps for a root cause on this machine. Pure: commands are written here, none is run.

A cause names its recipes (knowledge/recipes); their steps are chosen by conditions, filled with values, and quoted. Where a value is not
known a step keeps its words and has no command. Commands that need root get `sudo` unless the user is root already.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import msgspec

from cudadoctor.model.facts import Facts
from cudadoctor.model.findings import Finding
from cudadoctor.model.recipe import Action, Prescription, Recipe, Step, StepTemplate
from cudadoctor.model.version import ToolkitVersion
from cudadoctor.prescribe.case import Case
from cudadoctor.prescribe.conditions import holds
from cudadoctor.prescribe.distribution import of_facts
from cudadoctor.prescribe.gpus import gpus_of
from cudadoctor.prescribe.packages import choose, need_of
from cudadoctor.prescribe.placeholders import WORDS, placeholders
from cudadoctor.prescribe.shellwords import Value, fill_shell, fill_words, with_sudo

if TYPE_CHECKING:
    from cudadoctor.knowledge.load import Knowledge

CHECK_AGAIN = "cudadoctor check"
MOST_PROCESSES = 8  # a recipe's steps about a process are written for so many of them
# A family without commands of its own uses those of the family it descends from.
_PARENT = {"ubuntu": "debian"}
_OF_PROCESS = re.compile(r"\{(pid|parent)\}")


def prescribe(
    diagnosis_root: Finding | None, values: Mapping[str, str], facts: Facts, knowledge: Knowledge, distro: str | None
) -> Prescription | None:
    """The steps for the root cause. None: there is no root, or no software cures it (the cause's `no_software_fix` says so)."""
    if diagnosis_root is None:
        return None
    case = case_of(diagnosis_root, values, facts, knowledge, distro)
    action: Action | None = None
    steps: list[Step] = []
    for name in knowledge.cause(diagnosis_root.cause).recipes:
        recipe = knowledge.recipe(name)
        rendered = list(render(recipe, case))
        if rendered and action is None:
            action = recipe.action
        steps += rendered
    if action is None:
        return None
    return Prescription(cause=diagnosis_root.cause, action=action, steps=_checked_again(_one_restart(steps)))


def case_of(root: Finding, values: Mapping[str, str], facts: Facts, knowledge: Knowledge, distro: str | None) -> Case:
    """What conditions and placeholders read, put together once."""
    system = of_facts(facts, distro)
    gpus = gpus_of(root, facts, knowledge)
    need = need_of(gpus.architectures, _minimum(root, values, knowledge), _number(values.get("legacy_branch")))
    driver = choose(need, system, knowledge)
    return Case(root=root, values=values, facts=facts, knowledge=knowledge, system=system, gpus=gpus, need=need, driver=driver)


def _minimum(root: Finding, values: Mapping[str, str], knowledge: Knowledge) -> int | None:
    """The oldest branch for the toolkit that is too new for the driver at present."""
    stated = values.get("version", "")
    if root.cause != "toolkit-newer-than-driver" or not re.match(r"\d+\.\d+", stated):
        return None
    full = knowledge.driver_minimum(ToolkitVersion(stated)).full
    return full.major if full is not None else None


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and re.fullmatch(r"\d{2,3}", text) else None


def render(recipe: Recipe, case: Case) -> Iterator[Step]:
    """The steps of one recipe that hold here. Steps about a process come once for each process, together."""
    pids = _pids(case)
    cases = [msgspec.structs.replace(case, pid=pid) for pid in pids]
    written = False
    for template in recipe.steps:
        if not _speaks_of_process(template):
            if holds(template.when, cases[0] if cases else case):
                yield render_step(template, cases[0] if cases else case)
        elif not written:
            written = True
            for one in cases:
                yield from (render_step(entry, one) for entry in recipe.steps if _speaks_of_process(entry) and holds(entry.when, one))


def _speaks_of_process(template: StepTemplate) -> bool:
    return _OF_PROCESS.search(f"{template.text} {template.shell or ''}") is not None


def _pids(case: Case) -> tuple[int, ...]:
    stated = re.findall(r"\d{1,10}", case.value("pids", "pid") or "")
    return tuple(dict.fromkeys(int(pid) for pid in stated))[:MOST_PROCESSES]


def render_step(template: StepTemplate, case: Case) -> Step:
    """One step with its values. `sudo` stands in front where root is needed and the user is not root."""
    values = placeholders(case)
    shell = _command(_for_family(template, case), values, template, case)
    return Step(
        text=fill_words(template.text, values, WORDS),
        shell=shell,
        needs_root=template.needs_root,
        risk=template.risk,
        verify=fill_shell(template.verify, values) if template.verify is not None else None,
        undo=_command(template.undo, values, template, case) if shell is not None else None,
    )


def _for_family(template: StepTemplate, case: Case) -> str | None:
    """The command of this distribution's family, else the one for all."""
    family = case.system.family or ""
    return template.shells.get(family) or template.shells.get(_PARENT.get(family, "")) or template.shell


def _command(text: str | None, values: Mapping[str, Value], template: StepTemplate, case: Case) -> str | None:
    filled = fill_shell(text.strip("\n"), values) if text is not None else None
    if filled is None or not template.needs_root or case.is_root:
        return filled
    return with_sudo(filled)


def _one_restart(steps: list[Step]) -> list[Step]:
    """Recipes end with a restart of their own; of several only the last is kept, when everything is in place."""
    restarts = [place for place, step in enumerate(steps) if (step.shell or "").split(" ")[-1] == "reboot"]
    return [step for place, step in enumerate(steps) if place not in restarts[:-1]]


def _checked_again(steps: list[Step]) -> tuple[Step, ...]:
    """The last step is checked by looking again; where it has a check of its own, one more step says so."""
    if steps[-1].verify is None:
        return (*steps[:-1], msgspec.structs.replace(steps[-1], verify=CHECK_AGAIN))
    again = Step(text="Look again.", shell=None, needs_root=False, risk="safe", verify=CHECK_AGAIN, undo=None)
    return (*steps, again)
