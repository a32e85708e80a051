"""What is said before the steps where this shell is not the place for them: inside a container, in a cluster's job, on Windows."""

from __future__ import annotations

from cudadoctor.model.recipe import Step
from cudadoctor.model.values import CONTAINER_MARKS
from cudadoctor.prescribe.case import Case

_SCHEDULERS = {
    "SLURM_JOB_ID": "Slurm", "SLURM_JOBID": "Slurm", "PBS_JOBID": "PBS", "LSB_JOBID": "LSF", "KUBERNETES_SERVICE_HOST": "Kubernetes",
}  # fmt: skip


def elsewhere(case: Case) -> bool:
    """Whether this is a container, whose driver is its host's."""
    marks = case.get(CONTAINER_MARKS)
    return bool(marks)


def on_the_host() -> Step:
    return _words("This shell is inside a container, and the driver is its host's: what follows is to be done on the host, not in here.")


def of_a_cluster(case: Case) -> str | None:
    """The sentence for a job of a scheduler; None where this is none."""
    name = next((words for variable, words in _SCHEDULERS.items() if case.variable(variable) is not None), None)
    if name is None:
        return None
    return (
        f"This is a job of {name}: the node's driver is its administrator's. Give these lines to them, with the node's name (`hostname`)."
    )


def without_a_step() -> Step:
    return _words(
        "The steps for this cause are for Linux. On Windows install the newest driver for the GPU from https://www.nvidia.com/drivers; "
        "for a program in WSL, or on another machine, name its system: --distro wsl-ubuntu-24.04."
    )


def _words(text: str) -> Step:
    return Step(text=text, shell=None, needs_root=False, risk="safe", verify=None, undo=None)
