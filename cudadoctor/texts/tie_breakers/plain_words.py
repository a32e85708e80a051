"""Ties that rest on what a person says in plain words beside a message: memory that stays, a card that others use, a tool alone missing.

Such words are the weakest evidence. They name what is likeliest and put it before the other suspects; they state nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from cudadoctor.checks.reading import Quotes, merged
from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.facts import Facts
from cudadoctor.model.findings import Clue
from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import FRAMEWORKS, MODULES, SMI
from cudadoctor.texts.tie_breakers.joining import joined, states, suspects
from cudadoctor.texts.tie_breakers.place import place_of
from cudadoctor.texts.tie_breakers.said import (
    Said,
    codes,
    finding,
    gpus_of_tables,
    in_words,
    lists,
    nobody_computes,
    settled,
    suspected,
)

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
def left_on_the_cpu(said: Said, facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """CUDA is available and the program says that its model is on the CPU; or nothing is said at all, and a card that works lies idle."""
    if any(clue.cause != CPU_BUILD and not clue.advice for clue in said):
        return
    place = place_of(facts)
    works, shown = _answer(facts, available=True), place.said("on-cpu")
    if works and shown:
        yield finding(ON_CPU, shown, works, basis="suspected")
        return
    table = next((listed.table.some()[:1] for listed in gpus_of_tables(facts)), ()) or nobody_computes(facts)
    if not said and table and place.said("idle"):
        for cause in (ON_CPU, CPU_BUILD):
            yield finding(cause, place.said("idle"), table, basis="suspected")


# ---------------------------------------------------------------- nvidia-smi alone
def only_the_tool(said: Said, facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """nvidia-smi is not found, and the text says that CUDA works."""
    place = place_of(facts)
    absent = next((fact.some()[:1] for fact in facts.all(SMI) if fact.value is None and fact.origin == "text"), ()) or place.said("no-smi")
    works = place.said("gpu-works") or _answer(facts, available=True) or _module(facts)
    if absent and works and not settled(said):
        yield finding("nvidia-smi-missing", absent, works)


def _answer(facts: Facts, *, available: bool) -> Quotes:
    """The line with PyTorch's answer to the question whether CUDA is available."""
    found = facts.there(FRAMEWORKS)
    if found is None or found.need().available is not available or found.need().built_with_cuda is False:
        return ()
    line = found.need().available_line
    return found.line_of(line)[:1] if line else found.some()[:1]


def _module(facts: Facts) -> Quotes:
    """The driver's modules in a list of lsmod."""
    for fact in facts.all(MODULES):
        module = fact.value.find("nvidia") if fact.value is not None else None
        if module is not None:
            return fact.line_of(module.line)
    return ()


# ---------------------------------------------------------------- nothing but words
def told(said: Said, facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """The user describes what a cause looks like, and no message states any."""
    place = place_of(facts)
    for cause in place.setting.words if not settled(said) else ():
        if cause in knowledge.causes:
            lines = place.said(cause)
            yield in_words(cause, lines) if cause in place.setting.prose else finding(cause, lines, basis="suspected")


def none_seen(said: Said, facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """No message at all, and the text says that a program sees no GPU: the likeliest reasons in a batch job, a container, WSL."""
    place = place_of(facts)
    shown = place.said("none-seen")
    if said or not shown:
        return
    for kind, causes in _WHERE:
        word = place.said(kind)
        for cause in causes if word else ():
            yield in_words(cause, shown, word)
        if word:
            return


def not_passed_in(said: Said, facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """No device, or a framework that finds no GPU, in a container or batch job that is not said to have asked for one."""
    place = place_of(facts)
    if settled(said) or place.said("gpu-asked") or place.said("wsl"):
        return
    lines = suspected(said, NO_ACCESS, _NO_DEVICE) or suspected(said, "framework-cpu-build", _NO_GPU) or _answer(facts, available=False)
    if not lines:
        return
    jobs = place.setting.jobs
    if (batch := place.said("batch")) and not any(start.asks for start in jobs):
        yield finding(SCHEDULER, lines, batch, basis="suspected")
    elif not batch and (inside := place.said("container")):
        yield finding(NO_ACCESS, lines, inside, basis="suspected")


# ---------------------------------------------------------------- clocks
def slowed_in_a_list(said: Said, facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """A list of nvidia-smi in which one of the reasons that hold the clocks down is active."""
    for fact in lists(facts):
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
    joined(WSL_DRIVER, states(MODULE_MISSING, words=_OF_MICROSOFT), suspects(MODULE_MISSING, _OF_MICROSOFT)),
    slowed_in_a_list,
)
