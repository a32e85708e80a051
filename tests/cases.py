"""One test for many cases: the same look at every host, step or file. All cases that fail are named together.

    @every("name", NAMES)                 like pytest.mark.parametrize, but one test: twenty thousand tests cost more than what they look at
    @every("name", NAMES, share=8)        one case in eight, others each day; `pytest -m long` looks at all of them

`CASES=h200 pytest tests/test_hosts.py` looks at those cases alone that have h200 in their name, `pytest -k every_case` at these tests.
A table of examples stays pytest.mark.parametrize: there each case is a thought of its own.
"""

from __future__ import annotations

import datetime as dt
import functools
import inspect
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest

T = TypeVar("T")
MOST = 20  # cases that a message names
ONLY = os.environ.get("CASES", "")


def todays(cases: Sequence[T], one_in: int) -> Sequence[T]:
    """One case in so many, others each day."""
    return cases[dt.datetime.now(dt.timezone.utc).toordinal() % one_in :: one_in]


def every(
    names: str, values: Iterable[Any] | Callable[[], Iterable[Any]], *, share: int = 1
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """`values` may be a function, where they take long to be found: each process that runs tests reads every module."""
    parameters = [name.strip() for name in names.split(",")]

    @functools.cache
    def cases() -> list[dict[str, Any]]:
        found = values() if callable(values) else values
        made = (dict(zip(parameters, one if len(parameters) > 1 else (one,), strict=True)) for one in found)
        return [case for case in made if ONLY in _name(case)]

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(function)
        def look(**fixtures: Any) -> None:
            chosen = todays(cases(), fixtures.pop("one_in")) if share > 1 else cases()
            _look(function, chosen, fixtures)

        kept = [one for name, one in inspect.signature(function).parameters.items() if name not in parameters]
        if share > 1:
            kept.append(inspect.Parameter("one_in", inspect.Parameter.KEYWORD_ONLY))
        look.__signature__ = inspect.Signature(kept)  # type: ignore[attr-defined]
        look.every_case = True  # type: ignore[attr-defined]
        return pytest.mark.parametrize("one_in", [share, pytest.param(1, marks=pytest.mark.long)])(look) if share > 1 else look

    return decorate


def _look(function: Callable[..., None], cases: Sequence[dict[str, Any]], fixtures: dict[str, Any]) -> None:
    failed: list[tuple[str, BaseException]] = []
    skipped: list[BaseException] = []
    for case in cases:
        try:
            function(**case, **fixtures)
        except pytest.skip.Exception as reason:
            skipped.append(reason)
        except (Exception, pytest.fail.Exception) as error:
            failed.append((_name(case), error))
    if failed:
        lines = [f"  {name}: {type(error).__name__}: {error}" for name, error in failed[:MOST]]
        raise AssertionError("\n".join([f"{len(failed)} of {len(cases)} cases fail:", *lines])) from failed[0][1]
    assert cases or ONLY, "no cases"
    if len(skipped) == len(cases):
        raise skipped[0] if skipped else pytest.skip.Exception(f"no case has {ONLY!r} in its name")


def _name(case: dict[str, Any]) -> str:
    return ", ".join(_called(value) for value in case.values())


def _called(value: object) -> str:
    """As a reader calls it: a file by its folder and name, what has an id by that, all else by the beginning of what it prints as."""
    if isinstance(value, Path):
        return f"{value.parent.name}/{value.name}"
    return str(getattr(value, "id", None) or getattr(value, "name", None) or value)[:80]
