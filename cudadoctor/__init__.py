"""cudadoctor: evidence in, root cause out, with the fix for this machine and a real kernel run to prove it.

Map of the package, in the order in which data flows; each room imports only what stands below it in `pyproject.toml`'s layers:

    commands/    the command line: one module per command; they gather evidence, ask for a judgement, print and exit
    sources/     a live host, a recording, another tool's bundle or a pasted text -> Evidence; the only room that touches a machine
    workers/     scripts that run as children and ask one library each (NVML, libcuda and Numba, Python's packages, processes)
    parsers/     texts -> Facts (three-valued: known, absent, unknown)
    inventory/   facts of several tools about one thing -> that thing: the rungs of the ladder, the GPUs
    checks/      Facts -> Clues, one module per row of the pipeline
    texts/       what failing rungs, logs and a user's text say of themselves -> Clues; what decides between neighbours
    judge/       Clues -> the root cause, what it explains, what is open; stages.py joins all stages to one Report; experiments.py says
                 what a live check tries next (sources/experiments.py carries it out, commands/examining.py has the loop)
    within/      the judgement of what a stranger may have written, in a child with a limit of time and memory
    prescribe/   root cause + facts -> steps for this machine
    policy/      what a team demands of its machines, put beside a report
    fleet/       several reports -> one picture
    report/      Report -> text, JSON, HTML and the formats of pipelines; the pages of codes, things and causes
    knowledge/   causes, recipes and tables as TOML, their loader, and lookup/: a code, a cause, a variable, a GPU -> what is known of it
    model/       the values that flow
    api.py       check, explain and require, for programs and notebooks; pytest_plugin.py and extensions.py are the doors for other programs
"""

from __future__ import annotations

TYPE_CHECKING = False  # nothing is imported before __main__.py has put the search path right
if TYPE_CHECKING:
    from typing import Any

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
