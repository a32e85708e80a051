"""What `cudadoctor fix --apply` may do of a prescription on this machine: pure, the deed is commands/applying.py's.

A step is carried out, shown, or refused with the reason. Words, steps of the calling shell and restarts of the machine are shown; the
machine's own system is left alone where it is not the user's: in a container, in a job of a scheduler, on a system that is configured
elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

from cudadoctor.model.pattern import lazy
from cudadoctor.model.recipe import Kind, Prescription, Step
from cudadoctor.model.report import Report
from cudadoctor.prescribe.places import JOBS

Does = Literal["run", "show", "refuse", "stop"]
RESTARTS = lazy(r"^(?:sudo )?(?:reboot|systemctl reboot|Restart-Computer)$")
_CONFIGURED = lazy(r"(?i)nixos|flatcar|talos|bottlerocket|container-optimized")
_OF_SHELL = lazy(r"(?:unset|export|ulimit) |[A-Za-z_]\w{0,100}=[^ ]")  # how a line begins that changes the shell and nothing else
# What works on the project in whose folder it is typed; programs that are started from here stand in /.
_OF_FOLDER = lazy(
    r"(?m)^(?:uv (?:lock|sync|add|run)|pixi (?![^\n]{0,200}--manifest-path)|docker[ -]compose|\./)|(?<![\w./-])pyproject\.toml"
)
_TOUCHES_GPU = lazy(r"\b(?:rmmod|gpu-reset)\b|driver/unbind")
AGREEABLE: tuple[Kind, ...] = ("reads", "environment", "system")  # what --yes may name: neither restarts nor what ends or removes something


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """One step and what is done with it. `why`: the end of a sentence that begins with "Not done here:"; empty where it is run."""

    step: Step
    number: int
    does: Does
    why: str = ""


def refusal(report: Report, own: Iterable[str]) -> str | None:
    """Why nothing is carried out for this report; None where something may be. `own`: the causes that this doctor knows by itself."""
    root = report.diagnosis.root
    if report.origin.kind != "live":
        return "steps are carried out for a fault that was found on this machine, in this very run"
    if root is None:
        return "nothing is wrong" if report.verdict == "healthy" else "the cause is not certain"
    if root.basis == "suspected":
        return "the cause is only suspected"
    if root.cause not in own:
        return f"the cause {root.cause} comes from an extension, whose steps are shown and never carried out"
    if any(quote.source == "text" for quote in root.evidence):
        return "the cause rests on a text, and a text's words are never carried out"
    if report.prescription is None or not report.prescription.steps:
        return "no step is known for it"
    hardware = report.prescription.no_software_fix
    return hardware.rstrip(".") if hardware is not None else None


def plan(prescription: Prescription, report: Report, variables: Mapping[str, str], held: str | None) -> tuple[Planned, ...]:
    """Every step in its order. `held`: who holds a GPU beside this process, in words; None: nobody."""
    place = _not_ours(report, variables)
    decided = ((number, step, _decided(step, place, held)) for number, step in enumerate(prescription.steps, 1))
    return tuple(Planned(step=step, number=number, does=does, why=why) for number, step, (does, why) in decided)


def of_the_shell(prescription: Prescription | None) -> str:
    """What the steps without a condition do to the calling shell. Those that start a program in it (srun, docker) are for whoever types."""
    steps = prescription.steps if prescription is not None and prescription.no_software_fix is None else ()
    scripts = (step.shell for step in steps if step.kind == "session" and step.mode == "do" and step.shell)
    return "\n".join(filter(_changes_shell, scripts))


def _changes_shell(script: str) -> bool:
    return all(map(_OF_SHELL.match, script.split("\n")))


def _decided(step: Step, place: str | None, held: str | None) -> tuple[Does, str]:
    if step.who == "administrator":
        return "refuse", "it is for the administrator of this machine"
    if step.shell is None or step.kind is None:
        return ("stop", "restart the machine by hand") if step.kind == "restart" and step.mode == "do" else ("show", "")
    if step.kind == "session":
        cured = "; `cudadoctor run --cured -- COMMAND` does it for one program" if _changes_shell(step.shell) else ""
        return "show", f"only the shell that starts your program can do it{cured}"
    if _OF_FOLDER.search(step.shell):
        return "show", "it is for the folder of your project"
    if any(RESTARTS.match(line) for line in step.shell.split("\n")):
        return "stop", "the machine is not restarted from here"
    if step.kind in ("system", "restart", "destructive") and place is not None:
        return "refuse", place
    if held is not None and touches_gpu(step):
        return "refuse", held
    return "run", ""


def touches_gpu(step: Step) -> bool:
    """Whether a step takes the GPU from whoever holds it."""
    return _TOUCHES_GPU.search(step.shell or "") is not None


def _not_ours(report: Report, variables: Mapping[str, str]) -> str | None:
    """Why the system itself is not changed from here."""
    if report.machine.container:
        return "this is a container, and the system is its host's"
    if any(variables.get(name) for name in JOBS):
        return "this is a job of a scheduler, and the node is its administrator's"
    if variables.get("KUBERNETES_SERVICE_HOST"):
        return "this is a pod, and the node is its administrator's"
    if report.machine.distribution is not None and _CONFIGURED.search(report.machine.distribution):
        return "this system is changed in its configuration, not in place"
    return None
