"""What is said before the steps where this shell is not the place for them: inside a container, in a cluster's job, on Windows."""

from __future__ import annotations

from collections.abc import Iterator

from cudadoctor.model.recipe import Step, Who
from cudadoctor.model.values import CONTAINER_MARKS
from cudadoctor.prescribe.case import Case
from cudadoctor.prescribe.places import in_pod, scheduler


def elsewhere(case: Case) -> bool:
    """Whether this is a container, whose driver is its host's."""
    marks = case.get(CONTAINER_MARKS)
    return bool(marks)


def on_the_host(who: Who) -> Step:
    return _words(
        "This shell is inside a container, and the driver is its host's: what follows is to be done on the host, not in here.", who
    )


def of_a_cluster(case: Case, *, forwarded: bool) -> Iterator[Step]:
    """For a job of a scheduler, whose node is its administrator's. `forwarded`: the steps are written as a message to them."""
    name = scheduler(case) or ("Kubernetes" if in_pod(case) else None)
    if name is None:
        return
    job = f"This is a job of {name}: the node's driver is its administrator's."
    if forwarded:
        text, name_of_node = f"{job} Send them the lines below, with the name of the node.", "hostname"
        yield Step(text=text, shell=name_of_node, kind="reads")
    else:
        yield _words(f"{job} Give these lines to them, with the node's name (`hostname`).")


def without_a_step() -> Step:
    return _words(
        "The steps for this cause are for Linux. On Windows install the newest driver for the GPU from https://www.nvidia.com/drivers; "
        "for a program in WSL, or on another machine, name its system: --distro wsl-ubuntu-24.04."
    )


def _words(text: str, who: Who = "user") -> Step:
    return Step(text=text, who=who)
