"""Ties that rest on what a person says in plain words beside a message: memory that stays, a card that others use, a tool alone missing.

Such words are the weakest evidence. They name what is likeliest and put it before the other suspects; they state nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from cudadoctor.checks.reading import Quotes, line_of, merged, some
from cudadoctor.checks.ties.said import Said, finding, stated, suspected
from cudadoctor.model.facts import Fact, Facts
from cudadoctor.model.findings import Clue
from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import FRAMEWORKS, KERNEL, MODULES, SETTING, SMI, SMI_CSV, WSL

if TYPE_CHECKING:
    from cudadoctor.knowledge.load import Knowledge

NO_ACCESS, SCHEDULER = "container-no-gpu-access", "scheduler-gave-no-gpu"
ZOMBIE, OTHERS, OWN = "zombie-gpu-process", "gpu-memory-held-by-others", "program-out-of-memory"
WSL_GPU, WSL_DRIVER, HOOK = "wsl-gpu-unavailable", "wsl-linux-driver-installed", "container-hook-failed"
SLOWED = ("hw_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown", "sw_thermal_slowdown")
# Kind of place -> why a program sees no GPU there, likeliest first.
_WHERE = (
    ("batch", ("scheduler-gave-no-gpu", "cuda-visible-devices-hides-all")),
    ("wsl", ("wsl-gpu-unavailable", "wsl-linux-driver-installed")),
    ("container", ("container-no-gpu-access", "container-toolkit-missing", "container-driver-capabilities")),
)
_NO_DEVICE = lazy(r"(?i)no[ _]?CUDA.capable device|NO_?DEVICE|No CUDA GPUs are available")
_NO_GPU = lazy(r"False|is_available|no GPU|No GPU")
_NOT_RUNNING = lazy(r"kernel driver does not appear to be running")
_NO_REQUEST = lazy(r"driver error: failed to process request")
_OF_MICROSOFT = lazy(r"-[Mm]icrosoft\b|-microsoft-standard")
_FIRST_WSL = lazy(r"4\.4\.0-\d{5}-Microsoft")


def _word(facts: Facts, kind: str) -> Quotes:
    """The line with the first word of this kind, () where the text has none."""
    found = facts.get(SETTING)
    if not isinstance(found, Fact) or found.value is None or kind not in found.value.words:
        return ()
    return line_of(found, found.value.words[kind])[:1]


# ---------------------------------------------------------------- memory
def memory_that_stays(said: Said, facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """The memory stays in use after its program ended: left-over processes, unless the text states another cause."""
    shown = _word(facts, "left-over")
    if shown and not any(clue.basis != "suspected" for clue in said):
        for cause in (ZOMBIE, OTHERS):
            yield finding(cause, shown, basis="suspected")


def memory_of_others(said: Said, facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """Out of memory without figures, and the text says that somebody else uses the card."""
    shown, lines = _word(facts, "held"), suspected(said, OTHERS)
    if shown and lines and not stated(said, OWN):
        yield finding(OTHERS, lines, shown, basis="suspected")


# ---------------------------------------------------------------- nvidia-smi alone
def only_the_tool(said: Said, facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """nvidia-smi is not found, and the text says that CUDA works."""
    absent = next((some(fact)[:1] for fact in facts.all(SMI) if fact.value is None), ()) or _word(facts, "no-smi")
    works = _word(facts, "gpu-works") or _answer(facts, available=True) or _module(facts)
    if absent and works and not any(clue.basis != "suspected" for clue in said):
        yield finding("nvidia-smi-missing", absent, works)


def _answer(facts: Facts, *, available: bool) -> Quotes:
    """The line with PyTorch's answer to the question whether CUDA is available."""
    state = facts.get(FRAMEWORKS)
    if not isinstance(state, Fact) or state.value is None or state.value.available is not available or state.value.built_with_cuda is False:
        return ()
    return line_of(state, state.value.available_line)[:1] if state.value.available_line else some(state)[:1]


def _module(facts: Facts) -> Quotes:
    """The driver's modules in a list of lsmod."""
    for fact in facts.all(MODULES):
        module = fact.value.find("nvidia") if fact.value is not None else None
        if module is not None:
            return line_of(fact, module.line)
    return ()


# ---------------------------------------------------------------- nothing but words
def none_seen(said: Said, facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """No message at all, and the text says that a program sees no GPU: the likeliest reasons in a batch job, a container, WSL."""
    shown = _word(facts, "none-seen")
    if said or not shown:
        return
    for kind, causes in _WHERE:
        place = _word(facts, kind)
        for cause in causes if place else ():
            yield finding(cause, shown, place, basis="suspected")
        if place:
            return


def not_passed_in(said: Said, facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """No device, or a framework that finds no GPU, in a container or batch job that is not said to have asked for one."""
    if any(clue.basis != "suspected" for clue in said) or _word(facts, "gpu-asked") or _word(facts, "wsl"):
        return
    lines = suspected(said, NO_ACCESS, _NO_DEVICE) or suspected(said, "framework-cpu-build", _NO_GPU) or _answer(facts, available=False)
    if not lines:
        return
    place = facts.get(SETTING)
    jobs = place.value.jobs if isinstance(place, Fact) and place.value is not None else ()
    if (batch := _word(facts, "batch")) and not any(start.asks for start in jobs):
        yield finding(SCHEDULER, lines, batch, basis="suspected")
    elif not batch and (inside := _word(facts, "container")):
        yield finding(NO_ACCESS, lines, inside, basis="suspected")


# ---------------------------------------------------------------- WSL
def windows_driver(said: Said, facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """In WSL the hook's request to the driver fails where Windows' driver is too old for WSL."""
    lines, wsl = stated(said, HOOK, _NO_REQUEST), _in_wsl(facts)
    if lines and wsl:
        yield finding(WSL_GPU, lines, wsl)


def no_module_in_wsl(said: Said, facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """TensorFlow's word that the kernel driver does not run, in WSL: there it never runs, for the driver is Windows' own."""
    lines, wsl = stated(said, "driver-not-loaded", _NOT_RUNNING), _in_wsl(facts)
    if lines and wsl:
        yield finding(WSL_GPU, lines, wsl)


def first_wsl(said: Said, facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """Any complaint that no GPU is to be had, in WSL 1, which has none."""
    kernel = facts.get(KERNEL)
    old = some(kernel)[:1] if isinstance(kernel, Fact) and kernel.value is not None and _FIRST_WSL.search(kernel.value.release) else ()
    old = old or _word(facts, "wsl-1")
    if old and not any(clue.basis != "suspected" for clue in said):
        yield finding(WSL_GPU, old, basis="suspected")


def module_for_wsl(said: Said, facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """A module of the Linux driver is looked for in Microsoft's kernel, which cannot load it."""
    lines = stated(said, "driver-module-missing-for-kernel", _OF_MICROSOFT) or suspected(
        said, "driver-module-missing-for-kernel", _OF_MICROSOFT
    )
    if lines:
        yield finding(WSL_DRIVER, lines)


def _in_wsl(facts: Facts) -> Quotes:
    found = facts.get(WSL)
    return some(found)[:1] if isinstance(found, Fact) and found.value else _word(facts, "wsl")


# ---------------------------------------------------------------- clocks
def slowed_in_a_list(said: Said, facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """A list of nvidia-smi in which one of the reasons that hold the clocks down is active."""
    for fact in facts.all(SMI_CSV):
        for name in SLOWED if fact.value is not None else ():
            column = fact.need().column(f"clocks_throttle_reasons.{name}", f"clocks_event_reasons.{name}")
            if any(value.strip() == "Active" for value in column or ()):
                yield finding("thermal-or-power-throttling", merged(some(fact))[:2])
                return


TIES = (
    memory_that_stays, memory_of_others, only_the_tool, none_seen, not_passed_in, first_wsl, no_module_in_wsl, windows_driver,
    module_for_wsl, slowed_in_a_list,
)  # fmt: skip
