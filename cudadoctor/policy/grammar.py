"""A requirement's text to a typed value: NAME, or NAME OPERATOR VALUE with a unit. What is wrong is told with its column.

    gpus>=2   driver>=535   driver-branch==580   memory>=40GiB   h2d-bandwidth>=20GB/s   h2d-bandwidth>=80%   ecc==on   smoke

A name may be written with - or _. A name alone asks that a switch is on, or that a package is there.
"""

from __future__ import annotations

from collections.abc import Mapping

from cudadoctor.model.pattern import lazy
from cudadoctor.model.requirements import Kind, Operator, Requirement

OPERATORS: tuple[Operator, ...] = (">=", "<=", "==", "!=", ">", "<", "~")
_NAME = lazy(r"[A-Za-z][A-Za-z0-9_-]*")
_SIGNS = lazy(r"[<>=!~]+")
_NUMBER = lazy(r"[0-9]+(?:\.[0-9]+)?")
_VERSION = lazy(r"[0-9]+(?:\.[0-9]+)*")
_UNIT = lazy(r"[A-Za-z%\u00b5\u03bc/]*")
_DECIMAL = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}
_BYTES = {f"{prefix}B": factor for prefix, factor in {**_DECIMAL, "K": 1e3, **_BINARY}.items()}
# The units of each kind, and how many of the kind's own unit one of them is.
UNITS: Mapping[Kind, Mapping[str, float]] = {
    "count": {"": 1.0},
    "size": _BYTES,
    "rate": {f"{unit}/s": factor / 1e9 for unit, factor in _BYTES.items()},
    "time": {"ns": 1e-3, "us": 1.0, "\u00b5s": 1.0, "\u03bcs": 1.0, "ms": 1e3, "s": 1e6},
    "flops": {"GFLOP/s": 1e-3, "TFLOP/s": 1.0, "PFLOP/s": 1e3, "GFLOPS": 1e-3, "TFLOPS": 1.0, "PFLOPS": 1e3},
    "operations": {"Mop/s": 1e-3, "Gop/s": 1.0, "Top/s": 1e3},
}
EXAMPLES: Mapping[Kind, str] = {
    "count": "a whole number such as 2", "version": "a version such as 535 or 12.4", "size": "a size such as 40GiB",
    "rate": "a rate such as 20GB/s, or a share of what the hardware can do such as 80%", "time": "a time such as 10us",
    "flops": "a rate such as 50TFLOP/s", "operations": "a rate such as 2Gop/s", "switch": "on or off", "words": "a name",
}  # fmt: skip
_SHARED: tuple[Kind, ...] = ("rate", "flops", "operations")  # figures whose limit is known
_SWITCH = {"on": "on", "yes": "on", "true": "on", "enabled": "on", "off": "off", "no": "off", "false": "off", "disabled": "off"}


class RequirementError(ValueError):
    """A requirement that says nothing that can be looked at. `column` counts from 1."""

    def __init__(self, text: str, column: int, why: str) -> None:
        super().__init__(f"requirement {text!r}, column {column}: {why}")
        self.text, self.column, self.why = text, column, why


def parsed(text: str, kinds: Mapping[str, Kind], may_stand_alone: frozenset[str]) -> Requirement:
    """The requirement that a text states. `kinds`: the names that there are; `may_stand_alone`: those that need no value."""
    start = len(text) - len(text.lstrip())
    found = _NAME.match(text, start)
    if found is None:
        raise RequirementError(text, start + 1, "a name has to stand here, such as gpus or driver")
    name = found.group().lower().replace("_", "-")
    if name not in kinds:
        raise RequirementError(text, start + 1, f"{found.group()!r} is nothing that can be required{_nearest(name, kinds)}")
    kind = kinds[name]
    place = _after_blanks(text, found.end())
    if place == len(text):
        if name not in may_stand_alone:
            raise RequirementError(text, place + 1, f"{name} needs an operator ({' '.join(OPERATORS)}) and {EXAMPLES[kind]}")
        return Requirement(text=text.strip(), name=name, kind="switch", operator="==", words="on")
    operator, place = _operator(text, place, name, kind)
    return _value(text, _after_blanks(text, place), name, kind, operator)


def _after_blanks(text: str, place: int) -> int:
    while place < len(text) and text[place].isspace():
        place += 1
    return place


def _operator(text: str, place: int, name: str, kind: Kind) -> tuple[Operator, int]:
    found = _SIGNS.match(text, place)
    if found is None:
        raise RequirementError(text, place + 1, f"an operator has to stand here: {' '.join(OPERATORS)}")
    signs = "==" if found.group() == "=" else found.group()
    operator = next((known for known in OPERATORS if known == signs), None)
    if operator is None:
        raise RequirementError(text, place + 1, f"{found.group()!r} is no operator; there are {' '.join(OPERATORS)}")
    fitting: tuple[Operator, ...] = ("==", "!=", "~") if kind == "words" else ("==", "!=") if kind == "switch" else OPERATORS[:-1]
    if operator not in fitting:
        raise RequirementError(text, place + 1, f"{name} does not take {operator}, only {' '.join(fitting)}")
    return operator, found.end()


def _value(text: str, place: int, name: str, kind: Kind, operator: Operator) -> Requirement:
    if place == len(text):
        raise RequirementError(text, place + 1, f"{EXAMPLES[kind]} has to stand here")
    body = text[place:].rstrip()
    if kind == "words":
        words = body[1:-1] if len(body) > 1 and body[0] == body[-1] and body[0] in "\"'" else body
        if not words.strip():
            raise RequirementError(text, place + 1, "a name has to stand here")
        return Requirement(text=text.strip(), name=name, kind=kind, operator=operator, words=words)
    if kind == "switch":
        state = _SWITCH.get(body.lower())
        if state is None:
            raise RequirementError(text, place + 1, f"{body!r} is neither on nor off")
        return Requirement(text=text.strip(), name=name, kind=kind, operator=operator, words=state)
    if kind == "version":
        found = _VERSION.match(text, place)
        if found is None or found.end() != place + len(body):
            raise RequirementError(text, (found.end() if found else place) + 1, f"{EXAMPLES[kind]} has to stand here")
        return Requirement(text=text.strip(), name=name, kind=kind, operator=operator, words=body)
    return _measured(text, place, name, kind, operator)


def _measured(text: str, place: int, name: str, kind: Kind, operator: Operator) -> Requirement:
    """A number with its unit, converted to the kind's own unit."""
    found = _NUMBER.match(text, place)
    if found is None:
        raise RequirementError(text, place + 1, f"{EXAMPLES[kind]} has to stand here")
    at = _after_blanks(text, found.end())
    unit_match = _UNIT.match(text, at)
    unit = unit_match.group() if unit_match is not None else ""
    number, rest = float(found.group()), _after_blanks(text, at + len(unit))
    is_share = unit == "%" and kind in _SHARED
    units = UNITS[kind]
    if unit not in units and not is_share:
        told = f"{unit!r} is no unit of {name}" if unit else f"{name} needs a unit"
        raise RequirementError(text, at + 1, f"{told}: {EXAMPLES[kind]}")
    if rest < len(text):
        raise RequirementError(text, rest + 1, f"{text[rest:].strip()!r} is too much")
    if is_share:
        return Requirement(text=text.strip(), name=name, kind=kind, operator=operator, number=number / 100, share=True)
    if kind == "count" and not number.is_integer():
        raise RequirementError(text, place + 1, f"{name} counts: {EXAMPLES[kind]}")
    return Requirement(text=text.strip(), name=name, kind=kind, operator=operator, number=number * units[unit])


def _nearest(name: str, names: Mapping[str, Kind]) -> str:
    import difflib

    near = difflib.get_close_matches(name, names, n=3)
    return f"; near it: {', '.join(near)}" if near else f"; there are {', '.join(sorted(names))}"
