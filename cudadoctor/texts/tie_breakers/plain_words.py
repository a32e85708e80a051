"""Ties that rest on what a person says in plain words beside a message: memory that stays, a card that others use, a tool alone missing.

Such words are the weakest evidence. They name what is likeliest and put it before the other suspects; they state nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from cudadoctor.checks.reading import Quotes
from cudadoctor.model.findings import Clue
from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import LOADED_DRIVER
from cudadoctor.texts.tie_breakers.case import Case, finding, joined, states, suspects, there

ZOMBIE, OTHERS, OWN = "zombie-gpu-process", "gpu-memory-held-by-others", "program-out-of-memory"
ON_CPU, CPU_BUILD = "program-not-on-gpu", "framework-cpu-build"
WSL_GPU, WSL_DRIVER, HOOK = "wsl-gpu-unavailable", "wsl-linux-driver-installed", "container-hook-failed"
MODULE_MISSING = "driver-module-missing-for-kernel"
ELSEWHERE = ("in container", "in WSL", "windows")  # not all of the machine's processes are listed there
# Kind of place -> why a program sees no GPU there, likeliest first.
_WHERE = (
    ("batch", ("scheduler-gave-no-gpu", "cuda-visible-devices-hides-all")),
    ("wsl", ("wsl-gpu-unavailable", "wsl-linux-driver-installed")),
    ("container", ("container-no-gpu-access", "container-toolkit-missing", "container-driver-capabilities")),
)
_NO_REQUEST = lazy(r"driver error: failed to process request")
_OF_MICROSOFT = lazy(r"-[Mm]icrosoft\b|-microsoft-standard")


# ---------------------------------------------------------------- a program beside the GPU
def left_on_the_cpu(case: Case) -> Iterator[Clue]:
    """CUDA is available and the program says that its model is on the CPU; or nothing is said at all, and a card that works lies idle."""
    if any(clue.cause != CPU_BUILD and not clue.advice for clue in case.said):
        return
    works, shown = case.sees_gpu(available=True), case.says("on-cpu")
    if works and shown:
        yield finding(ON_CPU, shown, works, basis="suspected")
        return
    table = next((listed.table.some()[:1] for listed in case.gpus_of_tables()), ()) or case.nobody_computes()
    if not case.said and table and case.says("idle"):
        for cause in (ON_CPU, CPU_BUILD):
            yield finding(cause, case.says("idle"), table, basis="suspected")


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


def _sees_gpu(case: Case) -> Quotes:
    return case.sees_gpu(available=True)


def _has_module(case: Case) -> Quotes:
    return case.module("nvidia")


TIES = (
    *(told, left_on_the_cpu),
    # The memory stays in use after its program ended: left-over processes, unless the text states another cause.
    joined((ZOMBIE, OTHERS), beside=("left-over",), unsettled=True, basis="suspected"),
    joined((ZOMBIE, OTHERS), beside=("nobody-listed",), unless=("left-over", *ELSEWHERE), unsettled=True, basis="suspected"),
    # Out of memory without figures, and the text says that somebody else uses the card.
    joined(OTHERS, suspects(OTHERS), beside=("held",), unless_stated=(OWN,), basis="suspected"),
    # nvidia-smi is not found, and the text says that CUDA works, or that the driver is loaded.
    joined("nvidia-smi-missing", Case.no_smi, beside=(("gpu-works", _sees_gpu, _has_module, there(LOADED_DRIVER)),), unsettled=True),
    none_seen,
    # In WSL the hook's request to the driver fails where Windows' driver is too old for WSL.
    joined(WSL_GPU, states(HOOK, words=_NO_REQUEST), beside=("in WSL",)),
    # A module of the Linux driver is looked for in Microsoft's kernel, which cannot load it.
    joined(WSL_DRIVER, states(MODULE_MISSING, words=_OF_MICROSOFT), suspects(MODULE_MISSING, words=_OF_MICROSOFT)),
)
