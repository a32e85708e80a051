"""Conditions about the place where programs run: the container engine, the scheduler, Windows, the kind of machine. Part of conditions.py.

They are read from the quoted lines of the finding and from what a user's text says of its setting; where neither speaks of an engine,
Docker is taken.
"""

from __future__ import annotations

import re

from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import BOOT_LOADER, CONTAINER_MARKS, CONTAINER_STACK, HYPERVISOR, KERNEL, NVML, SETTING, SMI, WSL, Setting
from cudadoctor.prescribe import frameworks
from cudadoctor.prescribe.case import Case, Condition

_CDI = lazy(r"(?i)podman|libpod|\bCDI\b|nvidia\.com/gpu=|no known GPU vendor")
_KUBERNETES = lazy(
    r"pod sandbox|kubepods|GPU node|runtime handler|NVML library|device discovery strategy|no runtime for|nodes are available|\bkube"
    r"|KUBERNETES_"
)
_APPTAINER = lazy(r"(?i)singularity|apptainer|nv files on this host")
_LXC = lazy(r"(?i)\blxc\b|\blxd\b|\bincus\b")
_NSPAWN = lazy(r"systemd-nspawn")
_GVISOR = lazy(r"(?i)gvisor|\brunsc\b")
_SNAP = lazy(r"\bsnap\b")
_DESKTOP = lazy(r"(?i)desktop")
_ENGINES = (
    ("kubernetes", _KUBERNETES), ("apptainer", _APPTAINER), ("cdi", _CDI), ("lxc", _LXC), ("nspawn", _NSPAWN), ("gvisor", _GVISOR),
)  # fmt: skip


def evidence(pattern: str) -> Condition:
    """A quoted line of the finding says this, or what was taken from it: a long line is quoted in part only."""
    form = re.compile(pattern)
    return lambda case: any(form.search(words) for words in _words(case))


def _words(case: Case) -> tuple[str, ...]:
    return (*(quote.text for quote in case.root.evidence), *case.values.values())


def setting(case: Case) -> Setting:
    return case.get(SETTING) or Setting()


def _speaks(case: Case, form: re.Pattern[str]) -> bool:
    programs = [start.program for start in setting(case).containers]
    marks = case.get(CONTAINER_MARKS) or ()
    return any(form.search(words) for words in (*_words(case), *programs, *marks))


def _engine(name: str) -> Condition:
    """The first engine that is spoken of."""
    return lambda case: _engine_of(case) == name


def _engine_of(case: Case) -> str:
    for name, form in _ENGINES:
        if _speaks(case, form):
            return name
    return "docker"


def in_wsl(case: Case) -> bool:
    return case.get(WSL) is True or case.system.wsl or "wsl" in setting(case).words


def in_windows(case: Case) -> bool:
    """The driver is Windows' own: WSL, or a text that speaks of either."""
    return in_wsl(case) or case.windows or "windows" in setting(case).words


def _windows_possible(case: Case) -> bool:
    return frameworks.on_windows(case) or (case.system.family is None and case.get(KERNEL) is None)


# The variables by which a program knows that it is a job of a batch scheduler.
JOBS = {
    "SLURM_JOB_ID": "Slurm", "SLURM_JOBID": "Slurm", "PBS_JOBID": "PBS", "LSB_JOBID": "LSF", "FLUX_JOB_ID": "Flux",
    "_CONDOR_SLOT": "HTCondor",
}  # fmt: skip


def scheduler(case: Case) -> str | None:
    """The batch scheduler whose job this is; None where this is none."""
    return next((name for variable, name in JOBS.items() if case.variable(variable)), None)


def in_pod(case: Case) -> bool:
    return case.variable("KUBERNETES_SERVICE_HOST") is not None


RAY = evidence(r"resource request|number of required GPUs|node has no GPU available")
KUBERNETES = evidence(r"nvidia\.com/(?:gpu|mig)|nodes are available")
SLURM_WORDS = evidence(r"\b(?:srun|sbatch|salloc|slurm\w*|SLURM_\w+|gres)\b|#SBATCH")


_OF_COMPOSE = lazy(r"^[a-z][\w.-]{0,63}[-_]\d{1,2}  \||\bcompose\b")


def _composed(case: Case) -> bool:
    """The container is a service of docker compose: its file, its command or its log."""
    return any(_OF_COMPOSE.search(mark) for mark in case.get(CONTAINER_MARKS) or ()) or any(
        _OF_COMPOSE.search(start.program) for start in setting(case).containers
    )


# ---------------------------------------------------------------- what kind of machine this may be: where nobody knows, the step is offered
def _own_module(case: Case) -> bool:
    """The kernel's modules are this machine's to take out and load: no container, no WSL, not Windows."""
    return not case.windows and not case.get(WSL) and (case.host or not case.get(CONTAINER_MARKS))


def _run_installer_possible(case: Case) -> bool:
    """NVIDIA's .run installer serves neither NixOS, images nor WSL, and where packages hold the driver it was not used."""
    packaged = any("container" not in package.name for package in case.packages)
    return _own_module(case) and case.system.family != "nixos" and case.system.image is None and not packaged


def _gpus_listed(case: Case) -> bool:
    smi, nvml = case.get(SMI), case.get(NVML)
    return bool((smi is not None and smi.gpus) or (nvml is not None and nvml.gpus))


def _container_toolkit_installed(case: Case) -> bool:
    stack = case.get(CONTAINER_STACK)
    return (stack is not None and stack.toolkit is not None) or any(package.name == "nvidia-container-toolkit" for package in case.packages)


PLACES: dict[str, Condition] = {
    **{f"engine-{name}": _engine(name) for name in ("docker", *(name for name, _ in _ENGINES))},
    "composed": _composed,
    # The host's driver was seen to list its GPUs.
    "gpus-listed": _gpus_listed,
    "toolkit-installed": _container_toolkit_installed,
    "in-lxc": lambda case: any(_LXC.search(mark) for mark in case.get(CONTAINER_MARKS) or ()),
    "engine-of-images": lambda case: _engine_of(case) in ("docker", "cdi", "kubernetes", "gvisor"),
    "docker-snap": lambda case: _speaks(case, _SNAP),
    "docker-desktop": lambda case: _speaks(case, _DESKTOP),
    "hook-library": evidence(r"load library failed|libnvidia-ml|libcuda\.so|ERROR_LIBRARY_NOT_FOUND|driver libraries"),
    "build-error-shown": evidence(r"\bfatal error: (?:linux|asm|drm)/\S{1,60}: No such file"),  # a header that this kernel no longer has
    "hook-ldcache": evidence(r"ldcache error|ldconfig"),
    "hook-cgroup": evidence(r"cgroup|BPF|overflowuid"),
    "hook-file-exists": evidence(r"file exists"),
    "hook-host-run": evidence(r"file creation failed:.{0,300}socket: no such device"),
    "socket-of-daemon": evidence(r"nvidia-persistenced/socket"),
    "hook-slow": evidence(r"timed out|rpc error"),
    "hook-direct": evidence(r"Runtime Hook directly"),
    "hook-gvisor": evidence(r"unsupported Nvidia driver version"),
    "boots-by-proxmox": lambda case: case.get(BOOT_LOADER) == "proxmox-boot-tool",
    "boots-unknown": lambda case: case.get(BOOT_LOADER) is None,
    "driver-of-windows": in_windows,
    "wsl-said": in_wsl,
    "watchdog-of-windows": lambda case: in_windows(case) or _windows_possible(case),
    "windows": lambda case: case.windows,
    "ray": RAY,
    "kubernetes": KUBERNETES,
    "container-possible": lambda case: not case.host and not case.absent(CONTAINER_MARKS) and case.get(CONTAINER_MARKS) != (),
    "virtual-possible": lambda case: not case.absent(HYPERVISOR),
    "virtual": lambda case: case.get(HYPERVISOR) is not None,
    "own-module": _own_module,
    "run-installer-possible": _run_installer_possible,
    "windows-possible": _windows_possible,
    "blackwell-possible": lambda case: (
        not case.gpus.architectures or any(row.id.startswith("blackwell") for row in case.gpus.architectures)
    ),
}
