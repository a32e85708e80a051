"""Ties that rest on what a person says in plain words beside a message: memory that stays, a card that others use, a tool alone missing.

Such words are the weakest evidence. They name what is likeliest and put it before the other suspects; they state nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from cudadoctor.checks.reading import Quotes, merged
from cudadoctor.model.findings import Clue
from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import FRAMEWORKS, MODULES, SMI
from cudadoctor.texts.tie_breakers.case import Case, codes, finding, joined, states, suspects

NO_ACCESS, SCHEDULER = "container-no-gpu-access", "scheduler-gave-no-gpu"
ZOMBIE, OTHERS, OWN = "zombie-gpu-process", "gpu-memory-held-by-others", "program-out-of-memory"
ON_CPU, CPU_BUILD = "program-not-on-gpu", "framework-cpu-build"
WSL_GPU, WSL_DRIVER, HOOK = "wsl-gpu-unavailable", "wsl-linux-driver-installed", "container-hook-failed"
MODULE_MISSING = "driver-module-missing-for-kernel"
ELSEWHERE = ("in container", "in WSL", "windows")  # not all of the machine's processes are listed there
SLOWED = ("hw_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown", "sw_thermal_slowdown")
# Kind of place -> why a program sees no GPU there, likeliest first.
_WHERE = (
    ("batch", ("scheduler-gave-no-gpu", "cuda-visible-devices-hides-all")),
    ("wsl", ("wsl-gpu-unavailable", "wsl-linux-driver-installed")),
    ("container", ("container-no-gpu-access", "container-toolkit-missing", "container-driver-capabilities")),
)
_NO_DEVICE = codes("cuda 100", words=r"No CUDA GPUs are available")
_NO_GPU = lazy(r"False|is_available|no GPU|No GPU")
_NOT_RUNNING = lazy(r"kernel driver does not appear to be running")
_NO_REQUEST = lazy(r"driver error: failed to process request")
_OF_MICROSOFT = lazy(r"-[Mm]icrosoft\b|-microsoft-standard")


# ---------------------------------------------------------------- a program beside the GPU
def left_on_the_cpu(case: Case) -> Iterator[Clue]:
    """CUDA is available and the program says that its model is on the CPU; or nothing is said at all, and a card that works lies idle."""
    if any(clue.cause != CPU_BUILD and not clue.advice for clue in case.said):
        return
    works, shown = _answer(case, available=True), case.says("on-cpu")
    if works and shown:
        yield finding(ON_CPU, shown, works, basis="suspected")
        return
    table = next((listed.table.some()[:1] for listed in case.gpus_of_tables()), ()) or case.nobody_computes()
    if not case.said and table and case.says("idle"):
        for cause in (ON_CPU, CPU_BUILD):
            yield finding(cause, case.says("idle"), table, basis="suspected")


# ---------------------------------------------------------------- nvidia-smi alone
def only_the_tool(case: Case) -> Iterator[Clue]:
    """nvidia-smi is not found, and the text says that CUDA works."""
    absent = next((fact.some()[:1] for fact in case.facts.all(SMI) if fact.value is None and fact.origin == "text"), ()) or case.says(
        "no-smi"
    )
    works = case.says("gpu-works") or _answer(case, available=True) or _module(case)
    if absent and works and not case.settled:
        yield finding("nvidia-smi-missing", absent, works)


def _answer(case: Case, *, available: bool) -> Quotes:
    """The line with PyTorch's answer to the question whether CUDA is available."""
    found = case.facts.there(FRAMEWORKS)
    if found is None or found.need().available is not available or found.need().built_with_cuda is False:
        return ()
    line = found.need().available_line
    return found.line_of(line)[:1] if line else found.some()[:1]


def _module(case: Case) -> Quotes:
    """The driver's modules in a list of lsmod."""
    for fact in case.facts.all(MODULES):
        module = fact.value.find("nvidia") if fact.value is not None else None
        if module is not None:
            return fact.line_of(module.line)
    return ()


# ---------------------------------------------------------------- nothing but words
def told(case: Case) -> Iterator[Clue]:
    """The user describes what a cause looks like, and no message states any."""
    for cause in case.setting.words if not case.settled else ():
        if cause in case.knowledge.causes:
            lines = case.says(cause)
            yield finding(cause, lines, basis="suspected", prose=cause in case.setting.prose)


def none_seen(case: Case) -> Iterator[Clue]:
    """No message at all, and the text says that a program sees no GPU: the likeliest reasons in a batch job, a container, WSL."""
    shown = case.says("none-seen")
    if case.said or not shown:
        return
    for kind, causes in _WHERE:
        word = case.says(kind)
        for cause in causes if word else ():
            yield finding(cause, shown, word, basis="suspected", prose=True)
        if word:
            return


def not_passed_in(case: Case) -> Iterator[Clue]:
    """No device, or a framework that finds no GPU, in a container or batch job that is not said to have asked for one."""
    if case.settled or case.says("gpu-asked") or case.says("wsl"):
        return
    lines = (
        case.suspected(NO_ACCESS, words=_NO_DEVICE)
        or case.suspected("framework-cpu-build", words=_NO_GPU)
        or _answer(case, available=False)
    )
    if not lines:
        return
    jobs = case.setting.jobs
    if (batch := case.says("batch")) and not any(start.asks for start in jobs):
        yield finding(SCHEDULER, lines, batch, basis="suspected")
    elif not batch and (inside := case.says("container")):
        yield finding(NO_ACCESS, lines, inside, basis="suspected")


# ---------------------------------------------------------------- clocks
def slowed_in_a_list(case: Case) -> Iterator[Clue]:
    """A list of nvidia-smi in which one of the reasons that hold the clocks down is active."""
    for fact in case.lists():
        for name in SLOWED:
            column = fact.need().column(f"clocks_throttle_reasons.{name}", f"clocks_event_reasons.{name}")
            if any(value.strip() == "Active" for value in column or ()):
                yield finding("thermal-or-power-throttling", merged(fact.some()[:1], fact.lines_with("Active")[:1]))
                return


TIES = (
    *(told, left_on_the_cpu),
    # The memory stays in use after its program ended: left-over processes, unless the text states another cause.
    joined((ZOMBIE, OTHERS), beside=("left-over",), unsettled=True, basis="suspected"),
    joined((ZOMBIE, OTHERS), beside=("nobody-listed",), unless=("left-over", *ELSEWHERE), unsettled=True, basis="suspected"),
    # Out of memory without figures, and the text says that somebody else uses the card.
    joined(OTHERS, suspects(OTHERS), beside=("held",), unless_stated=(OWN,), basis="suspected"),
    *(only_the_tool, none_seen, not_passed_in),
    # Any complaint that no GPU is to be had, in WSL 1, which has none.
    joined(WSL_GPU, beside=("in WSL 1",), unsettled=True, basis="suspected"),
    # TensorFlow's word that the kernel driver does not run, in WSL: there it never runs, for the driver is Windows' own.
    joined(WSL_GPU, states("driver-not-loaded", words=_NOT_RUNNING), beside=("in WSL",)),
    # In WSL the hook's request to the driver fails where Windows' driver is too old for WSL.
    joined(WSL_GPU, states(HOOK, words=_NO_REQUEST), beside=("in WSL",)),
    # A module of the Linux driver is looked for in Microsoft's kernel, which cannot load it.
    joined(WSL_DRIVER, states(MODULE_MISSING, words=_OF_MICROSOFT), suspects(MODULE_MISSING, words=_OF_MICROSOFT)),
    slowed_in_a_list,
)
