"""Ties about systemd units: what a unit's file that is shown keeps from its program, or sets at every boot."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from cudadoctor.checks.reading import Quotes
from cudadoctor.model.findings import Clue
from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import UNIT_FILES, Directive
from cudadoctor.texts.tie_breakers.case import Case, Look, Tie, codes, finding, suspects

SERVICE, MODE, MPS, UVM = "service-without-devices", "compute-mode-blocks", "mps-problem", "uvm-unavailable"
_YES, _CLOSED, _ALLOWS_ALL = lazy(r"yes|true|1|on"), lazy(r"closed|strict"), lazy(r"(?:/dev/nvidia-uvm|char-nvidia(?:\*|-uvm))(?: .{1,4})?")
_SETS_MODE = lazy(r"\S{0,40}nvidia-smi (?:-i \S{1,60} )?(?:-c|--compute-mode)[ =](?:EXCLUSIVE_\w{6,7}|PROHIBITED|[123])")
_STARTS, _OF_SMI = ("ExecStart", "ExecStartPre", "ExecStartPost"), lazy(r"-?(?:/\S{1,40}/)?nvidia-smi ")
_NO_GPU = frozenset(("driver", "nodes", "libcuda", "init", "devices", "nvml"))  # rungs that break where no device file is there
BUSY = codes("cuda 46")
UNKNOWN = codes("cuda 999", "cuda 304", words=r"unknown error")


def _gpu_missed(case: Case) -> Quotes:
    """A program reaches no GPU."""
    said = (clue for clue in case.said if clue.cause != SERVICE and not clue.advice)
    return next((clue.quotes[:1] for clue in said if _NO_GPU & {*case.knowledge.causes[clue.cause].breaks}), ())


def hidden_by_unit(case: Case) -> Iterator[Clue]:
    """A program reaches no GPU, and the unit that starts it has PrivateDevices=yes: a /dev without hardware."""
    unit, lines = next((clue for clue in case.said if clue.cause == SERVICE), None), _gpu_missed(case)
    if unit is not None and lines:
        yield finding(SERVICE, lines, unit.quotes, values=unit.values)


def _units(case: Case) -> Iterator[list[Directive]]:
    """The lines of each unit that is shown with what it starts: of one that is not, others may be missing too."""
    found = case.facts.value(UNIT_FILES) or ()
    for unit in dict.fromkeys(one.unit for one in found):
        lines = [one for one in found if one.unit == unit]
        if any(one.name == "ExecStart" for one in lines):
            yield lines


def _set(lines: list[Directive], name: str, form: re.Pattern[str]) -> Directive | None:
    """The line by which a unit has such a value: the last one counts (systemd.syntax(7))."""
    last = next((one for one in reversed(lines) if one.name == name), None)
    return last if last is not None and form.fullmatch(last.value) else None


def _closed(case: Case) -> Directive | None:
    """A unit that may open some devices, and not the one of the memory module."""
    for lines in _units(case):
        closed = _set(lines, "DevicePolicy", _CLOSED)
        if closed is not None and not any(one.name == "DeviceAllow" and _ALLOWS_ALL.fullmatch(one.value) for one in lines):
            return closed
    return None


def _own_tmp(case: Case) -> Directive | None:
    """A unit with a /tmp of its own, where the pipes of the MPS daemon are not."""
    return next(filter(None, (_set(lines, "PrivateTmp", _YES) for lines in _units(case))), None) if case.says("mps") else None


def _sets_mode(case: Case) -> Directive | None:
    """A unit that does nothing but that."""
    for lines in _units(case):
        started = [one for one in lines if one.name in _STARTS]
        found = next((one for one in started if _SETS_MODE.fullmatch(one.value)), None)
        if found is not None and all(_OF_SMI.match(one.value) for one in started):
            return found
    return None


def by_unit(cause: str, value: str, directive: Callable[[Case], Directive | None], *looks: Look) -> Tie:
    """The first line that a look finds, and the line of a unit that brings it about; its recipe takes the unit as `value`."""

    def tie(case: Case) -> Iterator[Clue]:
        lines, found = case.shows(*looks), directive(case)
        if lines and found is not None:
            yield finding(cause, lines, case.line(UNIT_FILES, found.line), values={value: found.unit})

    return tie


def of_unit(case: Case) -> Quotes:
    """The line of a unit to which a busy GPU is due."""
    found = _own_tmp(case) or _sets_mode(case)
    return case.line(UNIT_FILES, found.line) if found is not None else ()


TIES: tuple[Tie, ...] = (
    # A unit gives its program a /dev without hardware, or lets it open no more than some device files.
    hidden_by_unit,
    by_unit(SERVICE, "closed_unit", _closed, _gpu_missed, suspects(UVM, words=UNKNOWN)),
    # The device is unavailable (46) to a service, MPS runs, and the service has a /tmp of its own, where the daemon's pipes are not.
    by_unit(MPS, "unit", _own_tmp, suspects(MODE, words=BUSY)),
    # It is, and a unit sets the mode at every boot.
    by_unit(MODE, "mode_unit", _sets_mode, suspects(MODE, words=BUSY)),
)
