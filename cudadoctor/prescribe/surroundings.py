"""Conditions about what kind of machine this may be: a step for containers is left out where there is none. Part of conditions.py.

Where nobody knows, the step is offered.
"""

from __future__ import annotations

from collections.abc import Callable

from cudadoctor.model.values import CONTAINER_MARKS, DRIVER_PACKAGES, HYPERVISOR, KERNEL, WSL
from cudadoctor.prescribe import frameworks
from cudadoctor.prescribe.case import Case

Condition = Callable[[Case], bool]


def _container_possible(case: Case) -> bool:
    return not case.host and not case.absent(CONTAINER_MARKS) and case.get(CONTAINER_MARKS) != ()


def _virtual_possible(case: Case) -> bool:
    return not case.absent(HYPERVISOR)


def _own_module(case: Case) -> bool:
    """The kernel's modules are this machine's to take out and load: no container, no WSL, not Windows."""
    return not case.windows and not case.get(WSL) and (case.host or not case.get(CONTAINER_MARKS))


def _run_installer_possible(case: Case) -> bool:
    """NVIDIA's .run installer serves neither NixOS, images nor WSL, and where packages hold the driver it was not used."""
    packages = case.get(DRIVER_PACKAGES)
    named = [package for package in packages.packages if "container" not in package.name] if packages is not None else []
    return _own_module(case) and case.system.family != "nixos" and case.system.image is None and not named


def _blackwell_possible(case: Case) -> bool:
    return not case.gpus.architectures or any(row.id.startswith("blackwell") for row in case.gpus.architectures)


def _windows_possible(case: Case) -> bool:
    return frameworks.on_windows(case) or (case.system.family is None and case.get(KERNEL) is None)


SURROUNDINGS: dict[str, Condition] = {
    "container-possible": _container_possible,
    "virtual-possible": _virtual_possible,
    "virtual": lambda case: case.get(HYPERVISOR) is not None,
    "own-module": _own_module,
    "run-installer-possible": _run_installer_possible,
    "windows-possible": _windows_possible,
    "blackwell-possible": _blackwell_possible,
}
