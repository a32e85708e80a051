"""Conditions about the place where programs run: the container engine, the scheduler, Windows, the kind of machine. Part of conditions.py.

They are read from the quoted lines of the finding and from what a user's text says of its setting; where neither speaks of an engine,
Docker is taken.
"""

from __future__ import annotations

from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import BOOT_LOADER, CONTAINER_MARKS, CONTAINER_STACK, HYPERVISOR, KERNEL, NVML, SMI, WSL
from cudadoctor.prescribe import frameworks
from cudadoctor.prescribe.case import Case, Condition

_ENGINES = ("docker", "kubernetes", "apptainer", "cdi", "lxc", "nspawn", "gvisor")
_SNAP = lazy(r"\bsnap\b")
_DESKTOP = lazy(r"(?i)desktop")
_SLURM = lazy(r"\b(?:srun|sbatch|salloc|slurm\w*|SLURM_\w+|gres)\b|#SBATCH")
_PARTITION = lazy(  # among Slurm's own options: behind the first word begin those of the program
    r"(?:\b(?:srun|salloc|sbatch)|#SBATCH)\s(?:-{1,2}\w[\w-]{0,40}(?:[= ](?!-)\S{1,80})?\s){0,12}(?:-p |--partition[= ])"
    r"(?P<name>(?![\w.-]{0,60}cpu)[\w.-]{1,60})(?!\S)"
)
_COMPOSE = lazy(r"^[a-z][\w.-]{0,63}[-_]\d{1,2}  \||\bcompose\b")
# The variables by which a program knows that it is a job of a batch scheduler.
JOBS = {
    "SLURM_JOB_ID": "Slurm", "SLURM_JOBID": "Slurm", "PBS_JOBID": "PBS", "LSB_JOBID": "LSF", "FLUX_JOB_ID": "Flux",
    "_CONDOR_SLOT": "HTCondor",
}  # fmt: skip


def _marks(case: Case) -> tuple[str, ...]:
    """What started containers, and what shows that this is one."""
    return (*(start.program for start in case.setting.containers), *(case.get(CONTAINER_MARKS) or ()))


def _engine_of(case: Case) -> str:
    usual = "kubernetes" if "pod" in case.setting.words and not case.setting.containers else "docker"
    return next((name for name, form in case.forms["engines"].items() if case.says(form, *_marks(case))), usual)


def _engine(name: str) -> Condition:
    return lambda case: _engine_of(case) == name


def by_run_installer(case: Case) -> bool:
    """The driver came without a package, as the text shows."""
    return "by-run-installer" in case.setting.words


def partition(case: Case) -> str | None:
    """Where the job without a GPU was sent, as the last line that is quoted says."""
    return next((found["name"] for line in reversed(case.words.splitlines()) if (found := _PARTITION.search(line)) is not None), None)


def in_wsl(case: Case) -> bool:
    return case.get(WSL) is True or case.system.wsl or "wsl" in case.setting.words


def _in_windows(case: Case) -> bool:
    """The driver is Windows' own: WSL, or a text that speaks of either."""
    return in_wsl(case) or case.windows or "windows" in case.setting.words


def _windows_possible(case: Case) -> bool:
    return frameworks.on_windows(case) or (case.system.family is None and case.get(KERNEL) is None)


def scheduler(case: Case) -> str | None:
    """The batch scheduler whose job this is; None where this is none."""
    return next((name for variable, name in JOBS.items() if case.variable(variable)), None)


def speaks_of_slurm(case: Case) -> bool:
    return case.says(_SLURM)


def in_pod(case: Case) -> bool:
    return case.variable("KUBERNETES_SERVICE_HOST") is not None


# ---------------------------------------------------------------- what kind of machine this may be: where nobody knows, the step is offered
def _own_module(case: Case) -> bool:
    """The kernel's modules are this machine's to take out and load: no container, no WSL, not Windows."""
    return not case.windows and not case.get(WSL) and (case.host or not case.get(CONTAINER_MARKS))


def _run_installer_possible(case: Case) -> bool:
    """NVIDIA's .run installer serves neither NixOS, images nor WSL, and where packages hold the driver it was not used."""
    packaged = any("container" not in package.name for package in case.packages)
    return _own_module(case) and case.system.family != "nixos" and case.system.image is None and not packaged


def _gpus_listed(case: Case) -> bool:
    """The host's driver was seen to list its GPUs."""
    return any(listed is not None and listed.gpus for listed in (case.get(SMI), case.get(NVML)))


def _container_toolkit_installed(case: Case) -> bool:
    stack = case.get(CONTAINER_STACK)
    if "container-toolkit-answers" in case.setting.words:
        return True
    return (stack is not None and stack.toolkit is not None) or any(package.name == "nvidia-container-toolkit" for package in case.packages)


CONDITIONS: dict[str, Condition] = {
    **{f"engine-{name}": _engine(name) for name in _ENGINES},
    "engine-of-images": lambda case: _engine_of(case) in ("docker", "cdi", "kubernetes", "gvisor"),
    # The container is a service of docker compose: its file, its command or its log.
    "composed": lambda case: any(map(_COMPOSE.search, _marks(case))),
    "gpus-listed": _gpus_listed,
    "toolkit-installed": _container_toolkit_installed,
    "toolkit-before-1.18": lambda case: "container-toolkit-before-1.18" in case.setting.words,
    "in-lxc": lambda case: any(case.forms["engines"]["lxc"].search(mark) for mark in case.get(CONTAINER_MARKS) or ()),
    "docker-snap": lambda case: "snap-docker" in case.setting.words or case.says(_SNAP, *_marks(case)),
    "docker-desktop": lambda case: case.says(_DESKTOP, *_marks(case)),
    "boots-by-proxmox": lambda case: case.get(BOOT_LOADER) == "proxmox-boot-tool",
    "boots-by-systemd": lambda case: (case.get(BOOT_LOADER) or "grub") != "grub",
    "by-kernelstub": lambda case: case.system.id == "pop",
    "boots-unknown": lambda case: case.get(BOOT_LOADER) is None,
    "driver-of-windows": _in_windows,
    "wsl-said": in_wsl,
    "watchdog-of-windows": lambda case: _in_windows(case) or _windows_possible(case),
    "windows": lambda case: case.windows,
    "container-possible": lambda case: not case.host and not case.absent(CONTAINER_MARKS) and case.get(CONTAINER_MARKS) != (),
    "virtual-possible": lambda case: not case.absent(HYPERVISOR),
    # The configuration of a guest that has a GPU is shown where the guest is what fails.
    "virtual": lambda case: case.get(HYPERVISOR) is not None or "guest-works" in case.setting.words,
    "container-shown": lambda case: bool(_marks(case)),
    "own-module": _own_module,
    "by-run-installer": by_run_installer,
    "vfio-in-files": lambda case: "vfio-in-files" in case.setting.words,
    "run-installer-possible": _run_installer_possible,
    "windows-possible": _windows_possible,
    "blackwell-possible": lambda case: (
        not case.gpus.architectures or any(row.id.startswith("blackwell") for row in case.gpus.architectures)
    ),
}
