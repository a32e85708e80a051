"""cudadoctor: evidence in, root cause out, with the fix for this machine and a real kernel run to prove it.

Map of the package, in the order in which data flows:

    sources/     a live host, a recording, another tool's bundle or a pasted text -> Evidence
    workers/     scripts that run as children and ask one library each (NVML, libcuda and Numba, Python's packages, processes)
    parsers/     texts -> Facts (three-valued: known, absent, unknown)
    rungs.py     the ladder from the PCI bus to a Numba kernel: what was seen to work or to fail
    devices.py   CUDA's devices and nvidia-smi's GPUs as one list
    checks/      Facts -> Clues, one module per row of the pipeline
    diagnose.py  Clues -> the root cause, what it explains; open_questions.py: what is still open
    long_texts.py long logs without their repetitions
    texts.py     what failing rungs, logs and a user's text say of themselves -> Clues
    prescribe/   root cause + facts -> steps for this machine
    report/      Report -> text, JSON, HTML and the formats of pipelines; the pages of codes, things and causes
    meanings/    a code, a cause, a variable, a GPU, a version -> what is known of it
    assemble/    facts and diagnosis -> the parts of a report
    slowness.py  what slow figures mean for the verdict
    app.py       judge(): the function that joins these stages
    judging.py   what is asked of evidence, with policy and steps; within/ has it answered in a child, within a limit of time
    nodes.py     one report on the machines of a bundle: the worst is told, the others are named
    knowledge/   causes, recipes and tables as TOML, and their loader
    model/       the values that flow
    runner.py    a program that runs as it is, and what it did with the GPUs
    comparing.py what differs between two reports
    policy/      what a team demands of its machines and what it allows, put beside a report
    api.py       check, explain and require, for programs and notebooks
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cudadoctor.api import Report, RequirementError, RequirementNotMet, check, explain, require

__version__ = "0.1.0"
__all__ = ["Report", "RequirementError", "RequirementNotMet", "__version__", "check", "explain", "require"]


def __getattr__(name: str) -> Any:
    """The functions for programs are imported when one is used: the command line starts without them."""
    if name in __all__:
        from cudadoctor import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
