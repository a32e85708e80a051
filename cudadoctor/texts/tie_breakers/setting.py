"""Ties that the place decides where a text's programs run: container and its engine, WSL, batch job, notebook, Mac.

The words of the text around a failure (parsers/setting.py) are weaker than a measurement. They raise a finding only beside a message
that leaves open what they decide, and both are quoted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from cudadoctor.checks.common import variable_quote, variables_of
from cudadoctor.checks.container import linux_packages
from cudadoctor.checks.node_access import CONTROL, FIRST
from cudadoctor.checks.reading import Quotes, merged
from cudadoctor.checks.traces import of_the_driver
from cudadoctor.checks.visible_devices import HIDES, INVALID, NAMES_NOTHING, VARIABLE, resolve
from cudadoctor.model.facts import Fact
from cudadoctor.model.findings import Clue
from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import DEVICE_NODES, ENVIRONMENT, LADDER, LOADED_DRIVER, OFFERED_GPUS, PCI, SMI, Start
from cudadoctor.texts.tie_breakers.case import Case, codes, finding, joined, states, suspects, there

NO_ACCESS, LOST, SANDBOXED = "container-no-gpu-access", "container-lost-devices", "container-engine-sandboxed"
WSL_GPU, WSL_DRIVER = "wsl-gpu-unavailable", "wsl-linux-driver-installed"
HYPER_V = "hyperv-gpu-incomplete"
SCHEDULER, NO_GPU, LIBCUDA = "scheduler-gave-no-gpu", "no-nvidia-gpu", "libcuda-missing"
NODES = "device-nodes-missing"
CAPABILITIES = "container-driver-capabilities"
_SUBMIT = {"#PBS": "qsub", "#BSUB": "bsub", "qsub": "qsub", "bsub": "bsub"}  # elsewhere Slurm's sbatch
MORE_THAN_MACHINES_HAVE = 8  # GPU numbers from here on hardly ever exist
INCOMPLETE = "driver-libraries-incomplete"
_CODEC = lazy(r"libnvcuvid\.so|libnvidia-encode\.so|libnvoptix\.so")
_UNKNOWN_ERROR = codes("nvml 999", words=r"initialize NVML: Unknown Error")
_UNKNOWN_CUDA = codes("cuda 999", words=r"(?i)CUDA[^\n]{0,40}unknown error")
_BLOCKED = lazy(r"GPU access blocked by the operating system|operating system has blocked|initialize NVML: N/A")
_NO_DRIVER = lazy(r"couldn't communicate with the NVIDIA driver|Driver Not Loaded|couldn't find libnvidia-ml")
_NO_DEVICE = codes(
    "cuda 100", "cuda 304",
    words=r"(?i)No CUDA GPUs are available|no .{0,24}(?:GPUs?|devices?)\b.{0,24}(?:found|available|detected|discovered)",
)  # fmt: skip
_NO_HANDLE = lazy(r"Unable to determine the device handle")
_WORKS = lazy(r"(?i)\b(?:works?|runs?|shows?|sees?|lists?|prints?|good|fine|ok(?:ay)?)\b")
_CONTAINER_NAME = lazy(r"\b(?:exec|logs)(?: -{1,2}[\w-]{1,30}(?:=\S{1,60})?){0,6} (?P<name>[\w./-]{1,120})")
_CUSTOM_DEVICE = lazy(r"adding custom device")
_FOR_GPU = lazy(r"(?<=\s)(?:--gpus[ =]\S{1,80}|--runtime[ =]nvidia|--device[ =]nvidia\.com/gpu\S{0,80}|--nv)(?=\s)")
_NONE_FOUND = lazy(r"no GPUs found")
# Faults that only a driver for Linux can have.
LINUX_DRIVER_FAULTS = ("driver-version-mismatch", "driver-packages-conflict", "driver-build-failed", "driver-module-missing-for-kernel")
_TOO_OLD = codes("cuda 35")


# ---------------------------------------------------------------- containers
def not_asked_for(case: Case) -> Iterator[Clue]:
    """The driver's libraries or devices are not found, in a container that was started without asking for a GPU.

    Where nothing at all is stated, such a command is the likeliest reason of a complaint about the GPU.
    """
    if _smi_inside(case) and case.stated(LIBCUDA):
        yield finding(CAPABILITIES, case.stated(LIBCUDA), _smi_inside(case))
        return
    starts = case.setting.containers
    asked = "gpu-asked" in case.setting.words
    lines = case.stated(LIBCUDA) or case.suspected(NO_ACCESS) or case.no_smi()
    if not lines:
        without = _same_without(case, starts) or (case.shown(starts[-1].line) if starts and not asked else ())
        if without and not case.settled:
            yield finding(NO_ACCESS, without, basis="suspected")
        return
    if not case.container or case.says("no-wsl-libs") or case.stated(CAPABILITIES, "container-hook-failed", "container-toolkit-missing"):
        return
    above = [start for start in starts if start.line <= (lines[0].first or 0)]
    start = next(iter(above[-1:] or starts), None)  # of the container in which the line was printed
    if case.says("void"):
        yield finding(NO_ACCESS, lines, case.says("void"))
    elif start is not None:
        if not start.asks:
            yield finding(NO_ACCESS, case.shown(start.line), lines)
    elif not asked and case.stated(LIBCUDA):
        yield finding(NO_ACCESS, lines, case.container)
    elif not asked and not case.settled:
        yield finding(NO_ACCESS, lines, case.container, basis="suspected")


def _same_without(case: Case, starts: tuple[Start, ...]) -> Quotes:
    """A command that asks for no GPU, and the same one with its options for a GPU."""
    written = [(start, case.shown(start.line)) for start in starts]
    bare = {" ".join(_FOR_GPU.sub(" ", quotes[0].text).split()): quotes for start, quotes in written if start.asks and quotes}
    found = ((quotes, bare.get(" ".join(quotes[0].text.split()))) for start, quotes in written if not start.asks and quotes)
    return next((merged(without, asking) for without, asking in found if asking is not None), ())


def _smi_inside(case: Case) -> Quotes:
    """nvidia-smi shows the GPU inside the container: the driver's utilities are there, whatever is not."""
    inside, logs = case.says("smi-inside"), case.says("container-logs")
    names = [found["name"] for quote in (*inside, *logs) if (found := _CONTAINER_NAME.search(quote.text)) is not None]
    if not inside or len(set(names)) > 1:  # it was asked in another container than the one that failed
        return ()
    below = case.answered_below(inside)
    return merged(inside, below) if below or _WORKS.search(inside[0].text) else ()


def no_smi_at_all(case: Case) -> Iterator[Clue]:
    """nvidia-smi is not found, and the text says nothing else: the likeliest reasons, where it was typed."""
    lines = case.no_smi()
    shown = (fact for key in (LADDER, LOADED_DRIVER, SMI) for fact in case.facts.all(key))  # type: ignore[misc]
    bus = case.facts.value(PCI)
    without = bus is not None and not bus.nvidia_gpus
    if not lines or case.said or without or any(fact.value is not None for fact in shown):
        return  # what the machine shows says more than a program that is not there
    if case.says("no-tools-package"):
        yield finding("nvidia-smi-missing", lines, case.says("no-tools-package"))
        return
    causes: tuple[str, ...] = ("driver-not-installed", "nvidia-smi-missing", NO_ACCESS)
    if case.container:
        causes = (NO_ACCESS, "container-toolkit-missing", CAPABILITIES)
    elif case.in_wsl:
        causes = (WSL_GPU, "nvidia-smi-missing")
    for cause in causes:
        yield finding(cause, lines, basis="suspected")


def passed_in(case: Case) -> Iterator[Clue]:
    """No device in a container whose nodes are missing: with the driver's library inside only they were left out, without it everything."""
    lines = case.suspected(NO_ACCESS)
    nodes = case.facts.get(DEVICE_NODES)
    if not lines or not case.container or not isinstance(nodes, Fact):
        return
    listed = nodes.value
    if listed is not None and (listed.nodes or not any(map(listed.said_absent, (CONTROL, FIRST)))):
        return
    library = next((shown[:1] for file, shown in case.libcuda_files() if of_the_driver(file.path)), ())
    if library:
        yield finding(NODES, lines, nodes.some()[:1], library)
    elif case.says("no-libcuda"):
        yield finding(NO_ACCESS, lines, nodes.some()[:1], case.says("no-libcuda"))


def lost_where_it_runs(case: Case) -> Iterator[Clue]:
    """NVML's 'Unknown Error' (or no device after a daemon-reload, or until a restart), and the text speaks of a container."""
    lines = case.suspected(LOST, words=_UNKNOWN_ERROR)
    if not lines and case.says("daemon-reload"):
        lines = case.suspected(NO_ACCESS, words=_NO_DEVICE)
    told = case.says(LOST) if not case.settled else ()
    if not lines and told and case.container and (gone := case.suspected(NO_ACCESS, words=_NO_DEVICE)):
        yield finding(LOST, gone, told, basis="suspected")
    busy = any(clue.cause == "vgpu-problem" for clue in case.said)  # a GPU that is busy or unlicensed is not lost
    where = case.container or case.says("daemon-reload")
    if lines and where and not busy:
        yield finding(LOST, lines, where)


# ---------------------------------------------------------------- WSL
def in_wsl(case: Case) -> Iterator[Clue]:
    """Messages of a missing driver in WSL, where the driver comes from Windows and no Linux driver can be loaded."""
    if not case.in_wsl:
        return
    blocked = case.suspected(WSL_GPU, words=_BLOCKED)
    # Windows keeps a card in its driver model TCC to itself, and where one is, others too (microsoft/WSL#9952, #13027).
    unopened = case.suspected("gpu-fell-off-bus", words=_NO_HANDLE) or (case.says("tcc") if not case.settled else ())
    if blocked or unopened:
        yield finding(WSL_GPU, blocked or unopened, case.in_wsl)
    lines = case.suspected("driver-not-loaded", "driver-not-installed", words=_NO_DRIVER)
    nothing = lines or blocked or case.stated(LIBCUDA) or case.suspected(WSL_GPU, words=_NO_DEVICE)
    packages = case.stated(*LINUX_DRIVER_FAULTS) or linux_packages(case.facts) or (case.says("driver-history") if nothing else ())
    if packages:
        yield finding(WSL_DRIVER, packages, case.in_wsl)
    by_hand = case.says("linux-driver")
    if nothing and case.wsl_1:
        yield finding(WSL_GPU, nothing, case.wsl_1)
    elif lines and by_hand:
        yield finding(WSL_DRIVER, lines, by_hand, case.in_wsl)
    elif by_hand and (unknown := case.suspected("uvm-unavailable", words=_UNKNOWN_CUDA)) and not case.settled:
        yield finding(WSL_DRIVER, unknown, by_hand, case.in_wsl, basis="suspected")
    elif nothing and case.says("linux-libcuda"):
        yield finding(WSL_DRIVER, nothing, case.says("linux-libcuda"), case.in_wsl)
    elif nothing and case.says("no-wsl-libs"):
        yield finding(WSL_GPU, nothing, case.says("no-wsl-libs"), case.in_wsl)
    elif lines or (old_driver := case.suspected(WSL_GPU, words=_NO_DEVICE) or case.suspected("toolkit-newer-than-driver", words=_TOO_OLD)):
        shown = merged(lines or old_driver, case.in_wsl)
        # Windows' own nvidia-smi never says so: it is the one of a Linux package that answers.
        for cause in (WSL_DRIVER, WSL_GPU) if lines else (WSL_GPU, WSL_DRIVER):
            yield finding(cause, shown, basis="suspected")


# ---------------------------------------------------------------- schedulers and the variable
def job_without_gpu(case: Case) -> Iterator[Clue]:
    """No device, no driver library, inside a batch job whose commands ask for no GPU."""
    jobs = case.setting.jobs
    lines = case.suspected(SCHEDULER, words=_NO_DEVICE) or case.stated(LIBCUDA) or case.suspected(SCHEDULER, words=_NONE_FOUND)
    if lines and jobs and not any(start.asks for start in jobs):
        yield finding(SCHEDULER, case.shown(jobs[-1].line), lines)
    elif case.says("batch") and not any(start.asks for start in jobs):
        lines = case.suspected(SCHEDULER, HIDES, words=_NO_DEVICE) or case.suspected("driver-not-loaded", words=_NO_DRIVER)
        if lines:
            yield finding(SCHEDULER, lines, case.says("batch"), basis="suspected")


def written_value(case: Case) -> Iterator[Clue]:
    """No device, and the text shows a value of CUDA_VISIBLE_DEVICES that leaves none, or whose number may not exist."""
    value, shown = _value(case)
    lines = case.suspected(INVALID, words=_NO_DEVICE) or (() if case.said else case.says("none-counted") or case.sees_gpu(available=False))
    if value is None and lines and case.says("visible-placeholder"):
        yield finding(HIDES, lines, case.says("visible-placeholder"), basis="suspected")
    if value is None:
        return
    values = {"variable": VARIABLE, "value": value}
    if case.setting.jobs:
        yield from _over_the_job(case, lines)
        return
    if not lines:
        if resolve(value, None, mig_possible=True).reason in NAMES_NOTHING:
            # Code 3: a binding that passed over what cuInit said and goes on. Or nothing is said at all.
            refused = case.suspected("program-forked-after-init")
            if refused or not case.said:
                yield finding(HIDES, refused, shown, basis="derived" if refused else "suspected", values=values)
        return
    table, uuids = _gpus_listed(case)
    found = resolve(value, uuids, mig_possible=True)
    if found.visible or found.mig:
        number = re.match(r"\s{0,8}\d{1,9}", value)
        if not table and (number is None or int(number[0]) > 0):
            sure = number is not None and int(number[0]) >= MORE_THAN_MACHINES_HAVE
            yield finding(INVALID, lines, shown, basis="derived" if sure else "suspected", values=values)
    elif found.reason in NAMES_NOTHING:
        yield finding(HIDES, lines, shown, values=values)
    elif found.reason is not None:
        yield finding(INVALID, lines, shown, table, values=values)


def only_slices(case: Case) -> Iterator[Clue]:
    """A pod asks for a whole GPU, and the nodes offer none: MIG with the strategy `mixed` has a name of its own for each size.

    https://docs.nvidia.com/datacenter/cloud-native/kubernetes/latest/index.html
    """
    fact = case.facts.there(OFFERED_GPUS)
    slices = {name: count for name, count in (fact.need().offered if fact is not None else {}).items() if name != "gpu" and count}
    if fact is None or not slices or fact.need().offered.get("gpu") or not case.suspected(SCHEDULER):
        return
    names = ", ".join(f"nvidia.com/{name} ({count})" for name, count in slices.items())
    yield finding(SCHEDULER, case.suspected(SCHEDULER), fact.some(), mig_resources=names)


def _over_the_job(case: Case, lines: Quotes) -> Iterator[Clue]:
    """The job's script sets the variable itself, to a GPU that the job does not have: the scheduler had set it to those that it has.

    https://slurm.schedmd.com/gres.html: with ConstrainDevices the numbers of a job's GPUs begin at 0 whatever they are on the node.
    """
    value, (table, uuids) = case.setting.visible, _gpus_listed(case)
    if lines and table and value is not None and resolve(value, uuids, mig_possible=True).reason == "no-such-index":
        submit = next((_SUBMIT[start.program] for start in case.setting.jobs if start.program in _SUBMIT), "sbatch")
        values = {"variable": VARIABLE, "value": value, "submit": submit}
        yield finding(INVALID, lines, case.shown(case.setting.visible_line), table, values=values)


def _gpus_listed(case: Case) -> tuple[Quotes, tuple[str | None, ...] | None]:
    """The GPUs that nvidia-smi lists in this text, by UUID where it prints that: a table, -L or a whole list as CSV."""
    first = next(case.gpus_of_tables(), None)
    if first is not None:
        return first.table.some()[:1], tuple(gpu.uuid for gpu in first.table.need().gpus)
    for fact in case.lists():
        indexes = fact.need().column("index")
        names = fact.need().column("name", "gpu_name") if indexes is None and fact.need().closed else None
        if names or (indexes is not None and indexes == tuple(map(str, range(len(indexes))))):
            return fact.some()[:1], fact.need().column("uuid", "gpu_uuid") or (None,) * len(names or indexes or ())
    return (), None


def _value(case: Case) -> tuple[str | None, Quotes]:
    """The value that the environment shows, else the last one that the text writes out."""
    environment = case.facts.there(ENVIRONMENT)
    if environment is not None and VARIABLE in variables_of(environment):
        return variables_of(environment)[VARIABLE], (variable_quote(environment, VARIABLE),)
    return case.setting.visible, case.shown(case.setting.visible_line)


# ---------------------------------------------------------------- machines without an NVIDIA GPU
def no_card_at_all(case: Case) -> Iterator[Clue]:
    """A Mac, a notebook whose machine has no GPU, or the user's own word that there is no NVIDIA card."""
    lines = case.stated(LIBCUDA) or case.suspected(NO_GPU) or case.suspected("driver-not-loaded", words=_NO_DRIVER)
    cpu_build = case.stated("framework-cpu-build")
    if next(case.gpus_of_tables(), None) is not None or (case.said and not (lines or cpu_build)):
        return
    bare = case.says("mac") or case.says("no-card")
    if not case.said:
        if bare:
            yield finding(NO_GPU, bare, basis="suspected")
    elif bare or (lines and (bare := case.says("virtualbox"))):
        yield finding(NO_GPU, lines or cpu_build, bare)
    elif lines and (notebook := case.says("notebook")) and not case.says("gpu-asked"):
        yield finding(NO_GPU, lines, notebook)


def _none_seen(case: Case) -> Quotes:
    return case.sees_gpu(available=False)


def _held_by_the_job(case: Case) -> Quotes:
    return next((clue.quotes[:1] for clue in case.said if clue.cause == SCHEDULER and clue.basis == "stated" and clue.advice), ())


# What an engine without GPU support, with a failing hook or without devices says.
_REFUSED = (
    states("container-toolkit-missing", "container-hook-failed", "cdi-specification-stale"), states(NODES, words=_CUSTOM_DEVICE),
)  # fmt: skip
FLATPAK = "flatpak-driver-missing"
TIES = (
    # No libcuda in a Flatpak sandbox: it comes from an extension of the runtime alone.
    joined(FLATPAK, states(LIBCUDA), suspects(LIBCUDA), suspects(INCOMPLETE), suspects(CAPABILITIES, words=_CODEC), beside=("flatpak",)),
    # libcuda is not found, and the text's PyTorch is a build for AMD's GPUs: what asks for libcuda belongs on another machine.
    joined(NO_GPU, beside=("rocm-build", suspects(LIBCUDA)), unsettled=True, basis="suspected"),
    *(not_asked_for, no_smi_at_all, passed_in),
    # The nodes are not there, and the instance of Incus or LXD has no GPU among its devices.
    joined(NO_ACCESS, suspects(NO_ACCESS), beside=("lxd-config", "lxd-devices"), unless=("lxd-gpu",)),
    # A library for video or ray tracing is missing and nothing speaks of a container: the host's own packages are incomplete.
    joined(INCOMPLETE, suspects(CAPABILITIES, words=_CODEC), unless=("in container", "in WSL"), unsettled=True, basis="suspected"),
    lost_where_it_runs,
    # It is Docker from snap, or Docker Desktop for Linux; on Windows that one's engine runs in WSL and has the GPU.
    joined(SANDBOXED, *_REFUSED, beside=("snap-docker",)),
    joined(SANDBOXED, *_REFUSED, beside=("docker-desktop",), unless=("snap-docker", "in WSL", "windows")),
    # 'GPU access blocked by the operating system' where the driver's own module runs, which WSL has not: its control node is no use.
    joined(NODES, suspects(WSL_GPU, words=_BLOCKED), beside=(there(LOADED_DRIVER),), unless=("in WSL",), unsettled=True),
    # No access, or no libcuda, in a Linux that was made a guest of Windows' GPU by hand.
    joined(HYPER_V, suspects(WSL_GPU, words=_BLOCKED), states(LIBCUDA), beside=("dxgkrnl-built",), unless=("in WSL",)),
    *(in_wsl, job_without_gpu),
    # No device, and the scheduler's own list of what the job holds has no GPU.
    joined(SCHEDULER, beside=(_held_by_the_job, (suspects(HIDES, words=_NO_DEVICE), suspects(SCHEDULER, words=_NO_DEVICE), _none_seen))),
    *(only_slices, written_value, no_card_at_all),
)
