"""Where the variable at fault is set, and the edit that takes it out there and puts it back. Part of conditions and placeholders.

A line is commented out only where it sets this variable and does nothing else, and the command looks at the line again before it changes
it. In files of shells a no-op stays in its place (`: # export ...`): the line may be the only one of an `if`.
"""

from __future__ import annotations

from collections.abc import Callable

from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import ENVIRONMENT, SET_IN, SetIn
from cudadoctor.prescribe.case import Case, Condition
from cudadoctor.prescribe.shells import Found, Script, printable

_SYSTEM = lazy(r"/(?:etc|usr|run|lib|opt)/")
_UNIT = lazy(r"/systemd/system/(?P<unit>\w[\w@.:\\-]{0,199}\.service)(?:$|\.d/)")
# Files of plain NAME=value lines, where `:` would be no command.
_NO_SHELL = lazy(r"/environment$|/environment\.d/|\.service(?:$|\.d/)|\.pam_environment$|/etc/(?:default|sysconfig)/|nccl\.conf$|\.env$")
_NAME = lazy(r"[A-Za-z_]\w{0,100}")
_OF_SHELL = lazy(r"(?:~|\$CONDA_PREFIX)(?:/\.?\w[\w.-]{0,80}){1,10}")  # as a user types it: the shell puts the folder there


_OF_CAUSE = {
    "cuda-visible-devices-hides-all": "CUDA_VISIBLE_DEVICES",
    "cuda-visible-devices-invalid": "CUDA_VISIBLE_DEVICES",
    "numba-simulator-enabled": "NUMBA_ENABLE_CUDASIM",
    "numba-cuda-disabled": "NUMBA_DISABLE_CUDA",
    "libcuda-stub-loaded": "LD_LIBRARY_PATH",
    "library-path-conflict": "LD_LIBRARY_PATH",
    "nccl-interface-missing": "NCCL_SOCKET_IFNAME",
}


def variable(case: Case) -> str:
    """The variable that the steps speak of; empty where the cause is not known to be one's doing."""
    return case.value("variable") or _OF_CAUSE.get(case.root.cause, "")


def places(case: Case) -> tuple[SetIn, ...]:
    """The lines that set the variable, in the order in which a shell reads them."""
    name = variable(case)
    return tuple(place for place in case.get(SET_IN) or () if place.name == name and printable(place.path))


def _of_variable(case: Case) -> bool:
    """A variable does it, known by name or not."""
    return variable(case) != "" or case.root.cause == "environment-variable-breaks-cuda"


def _removed(case: Case) -> bool:
    """The variable goes altogether, rather than getting another value."""
    changed = case.root.cause == "cuda-home-wrong" or case.quotes(case.forms["says"]["names-mig-instance"])
    return "kept" not in case.values and not changed


def _units(case: Case) -> tuple[str, ...]:
    found = [(place.unit, _UNIT.search(place.path)) for place in places(case)]
    named = [unit or (own["unit"] if own is not None else None) for unit, own in found]
    return tuple(dict.fromkeys(unit for unit in named if unit is not None))


def _may_be_set(case: Case) -> bool:
    name = variable(case)
    return name != "" and (case.get(ENVIRONMENT) is None or case.variable(name) is not None)


def values(case: Case) -> Found:
    yield "units", _units(case)
    place = case.place
    if place is None:
        return
    mark = "# " if _NO_SHELL.search(place.path) else ": # "
    yield "set_file", Script(place.path.replace("$CONDA_PREFIX", '"$CONDA_PREFIX"')) if _OF_SHELL.fullmatch(place.path) else place.path
    yield "set_line", str(place.line)
    if _NAME.fullmatch(place.name):
        # sed looks at the line again: where it is another by now nothing is changed, and the verify fails.
        yield "comment_out", rf"{place.line}{{/\(^\|[^${{]\)\b{place.name}[= ]/s/^/{mark}/}}"
        yield "commented", rf"{place.line}{{/^{mark}.*\b{place.name}\b/{{p;q}}}};$q1"
        # The stub folders of a list of folders, behind another one or before it: an empty entry would be the working directory.
        named = rf"\(^\|[^${{]\)\b{place.name}[= ]"
        yield "without_stubs", rf'{place.line}{{/{named}/{{s#:[^:"]*/stubs\b/*##g;s#\(="\?\)[^:="]*/stubs\b/*:#\1#}}}}'
        yield "stubless", rf"{place.line}{{/{named}/!q1;/stubs/q1}}"
        yield "put_back", rf"{place.line}{{/\b{place.name}\b/s/^{mark}//}}"


def _place(wanted: Callable[[Case, SetIn], bool]) -> Condition:
    return lambda case: case.place is not None and wanted(case, case.place)


def _of_conda(place: SetIn) -> bool:
    """`conda env config vars` keeps it in the environment, and sets it when that is activated."""
    return place.path.endswith("/conda-meta/state")


def _in_image(case: Case) -> bool:
    """A text shows the line of a Dockerfile, or of a file for docker compose, that sets it."""
    return "visible-set-in-image" in case.setting.words


CONDITIONS: dict[str, Condition] = {
    "of-variable": _of_variable,
    "whole-variable": lambda case: _of_variable(case) and "kept" not in case.values,
    "set-in-own": _place(lambda case, place: _removed(case) and place.alone and not _of_conda(place) and _SYSTEM.match(place.path) is None),
    "set-in-conda": _place(lambda case, place: _removed(case) and _of_conda(place)),
    "set-in-system": _place(lambda case, place: _removed(case) and place.alone and _SYSTEM.match(place.path) is not None),
    "set-once": lambda case: len(places(case)) == 1,
    "line-of-system": _place(lambda case, place: _SYSTEM.match(place.path) is not None),
    "set-in-left": _place(lambda case, place: not (_removed(case) and place.alone)),
    "set-in-unit": lambda case: bool(_units(case)),
    "set-in-image": _in_image,
    "set-in-unknown": lambda case: not places(case) and _may_be_set(case) and not case.told(SET_IN) and not _in_image(case),
    "set-in-no-file": lambda case: not places(case) and _may_be_set(case) and case.told(SET_IN),
}
