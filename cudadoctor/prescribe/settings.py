"""Where the variable at fault is set, and the commands that take it out there and put it back. Part of conditions and placeholders.

A line is commented out only where it sets this variable and does nothing else, and the command looks at the line again before it changes
it. In files of shells a no-op stays in its place (`: # export ...`): the line may be the only one of an `if`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import ENVIRONMENT, SET_IN, SetIn
from cudadoctor.prescribe.case import Case
from cudadoctor.prescribe.shells import printable, sh
from cudadoctor.prescribe.shellwords import Script, Value

Condition = Callable[[Case], bool]
_SYSTEM = lazy(r"/(?:etc|usr|run|lib|opt)/")
_UNIT = lazy(r"/systemd/system/(?P<unit>[\w@.:\\-]{1,200}\.service)(?:$|\.d/)")
# Files of plain NAME=value lines, where `:` would be no command.
_NO_SHELL = lazy(r"/environment$|/environment\.d/|\.service(?:$|\.d/)|\.pam_environment$|/etc/(?:default|sysconfig)/|\.env$")
_NAME = lazy(r"[A-Za-z_]\w{0,100}")


_OF_CAUSE = {
    "numba-simulator-enabled": "NUMBA_ENABLE_CUDASIM",
    "numba-cuda-disabled": "NUMBA_DISABLE_CUDA",
    "library-path-conflict": "LD_LIBRARY_PATH",
}


def variable(case: Case) -> str:
    """The variable that the steps speak of."""
    return case.value("variable") or _OF_CAUSE.get(case.root.cause, "CUDA_VISIBLE_DEVICES")


def places(case: Case) -> tuple[SetIn, ...]:
    """The lines that set the variable, in the order in which a shell reads them."""
    name = variable(case)
    return tuple(place for place in case.get(SET_IN) or () if place.name == name and printable(place.path))


def _of_system(place: SetIn) -> bool:
    return _SYSTEM.match(place.path) is not None


def _simple(place: SetIn) -> bool:
    return place.alone and _NAME.fullmatch(place.name) is not None


def _removed(case: Case) -> bool:
    """The variable goes altogether, rather than getting another value."""
    return "kept" not in case.values and case.root.cause != "cuda-home-wrong"


def _edits(case: Case, *, system: bool) -> tuple[SetIn, ...]:
    return tuple(place for place in places(case) if _removed(case) and _simple(place) and _of_system(place) is system)


def _by_hand(case: Case) -> tuple[SetIn, ...]:
    return tuple(place for place in places(case) if not (_removed(case) and _simple(place)))


def _units(case: Case) -> tuple[str, ...]:
    found = [(place.unit, _UNIT.search(place.path)) for place in places(case)]
    named = [unit or (own["unit"] if own is not None else None) for unit, own in found]
    return tuple(dict.fromkeys(unit for unit in named if unit is not None))


def _commands(edits: tuple[SetIn, ...], *, out: bool) -> Script | None:
    return Script("\n".join(_sed(place, out=out) for place in edits)) if edits else None


def _sed(place: SetIn, *, out: bool) -> str:
    """Follows links, for profiles often are some; changes nothing where the line is another by now."""
    mark = "# " if _NO_SHELL.search(place.path) else ": # "
    named = rf"\b{place.name}\b"
    change = f"s/^/{mark}/" if out else f"s/^{mark}//"
    return f"sed -i --follow-symlinks '{place.line}{{/{named}/{change}}}' {_quoted(place.path)}"


def _quoted(path: str) -> str:
    """A shell word. Only a shell knows whose home `~` is."""
    return f"~/{sh(path[2:])}" if path.startswith("~/") else sh(path)


def _files(places: tuple[SetIn, ...]) -> Script | None:
    return Script(" ".join(dict.fromkeys(_quoted(place.path) for place in places))) if places else None


def _listed(places: tuple[SetIn, ...]) -> str | None:
    return " and ".join(f"{place.path}, line {place.line}" for place in places) or None


def _looked(case: Case) -> bool:
    """The files of this machine that set variables were read."""
    return case.absent(SET_IN) or case.get(SET_IN) is not None


def _may_be_set(case: Case) -> bool:
    return case.get(ENVIRONMENT) is None or case.variable(variable(case)) is not None


def values(case: Case) -> Iterator[tuple[str, Value | None]]:
    own, system, left = _edits(case, system=False), _edits(case, system=True), _by_hand(case)
    yield "own_lines", _listed(own)
    yield "own_files", _files(own)
    yield "comment_out_own", _commands(own, out=True)
    yield "put_back_own", _commands(own, out=False)
    yield "system_lines", _listed(system)
    yield "system_files", _files(system)
    yield "comment_out_system", _commands(system, out=True)
    yield "put_back_system", _commands(system, out=False)
    yield "lines_left", _listed(left)
    yield "files_left", _files(left)
    yield "units", _units(case)


SETTINGS: dict[str, Condition] = {
    "set-in-own": lambda case: bool(_edits(case, system=False)),
    "set-in-system": lambda case: bool(_edits(case, system=True)),
    "set-in-left": lambda case: bool(_by_hand(case)),
    "not-set-in-unit": lambda case: not _units(case),
    "set-in-unit": lambda case: bool(_units(case)),
    "set-in-unknown": lambda case: not places(case) and _may_be_set(case) and not _looked(case),
    "set-in-no-file": lambda case: not places(case) and _may_be_set(case) and _looked(case),
}
