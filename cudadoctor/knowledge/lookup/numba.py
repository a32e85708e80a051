"""Releases of Numba and of numba-cuda."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from cudadoctor.knowledge.lookup.pages import NoSuchError, facts, topic
from cudadoctor.model.explanation import Fact, Topic
from cudadoctor.model.version import PackageVersion

if TYPE_CHECKING:
    from cudadoctor.knowledge.load import Knowledge

_NUMBER = re.compile(r"\d+(?:\.\d+)*")


def numba(version: str, knowledge: Knowledge) -> Topic:
    """By version ("0.60"). NoSuchError where the tables hold no such release."""
    wanted = PackageVersion(version)
    rows = [row for row in knowledge.numba_releases if PackageVersion(row.numba).major_minor == wanted.major_minor]
    # The newest that is not newer than what was asked for; "0.60" alone is the newest of its series.
    row = next((row for row in rows if len(wanted.numbers) < 3 or _first(row.numba) <= wanted), rows[-1] if rows else None)
    if row is None:
        raise NoSuchError(f"these tables hold no Numba {version}. {_range([row.numba for row in knowledge.numba_releases], 'numba')}")
    lines = facts(
        ("release", row.numba),
        ("released", row.released),
        ("Python", row.python),
        ("NumPy", row.numpy),
        ("llvmlite", row.llvmlite),
        ("toolkits of its built-in CUDA target", row.builtin_ctk),
        ("compute capabilities of that target", row.builtin_cc),
    )
    facts_of, rests_on = _behaviour("numba", knowledge)
    return topic(
        "numba", f"numba {version}", f"Numba {version}", knowledge, facts=(*lines, *facts_of),
        sources=[*knowledge.sources("numba_support", row.source), *rests_on],
        conditions={"builtin": row.builtin_ctk},
        values={"builtin_ctk": row.builtin_ctk, "numpy": row.numpy, "python": row.python},
    )  # fmt: skip


def numba_cuda(version: str, knowledge: Knowledge) -> Topic:
    """By version ("0.20"). NoSuchError where the tables hold no such release."""
    wanted = PackageVersion(version)
    row = next((row for row in knowledge.numba_cuda_releases if _holds(row.numba_cuda, wanted)), None)
    if row is None:
        known = [row.numba_cuda for row in reversed(knowledge.numba_cuda_releases)]
        raise NoSuchError(f"these tables hold no numba-cuda {version}. {_range(known, 'numba-cuda')}")
    lines = facts(
        ("releases", row.numba_cuda),
        ("released", row.released),
        ("Numba", row.numba),
        ("toolkits of CUDA", row.ctk_majors),
        ("Python", row.python),
        ("compute capabilities", row.cc),
        ("extras", row.extras),
        ("requires", row.requires),
        ("cu12 brings", row.extra_cu12),
        ("cu13 brings", row.extra_cu13),
    )
    facts_of, rests_on = _behaviour("numba-cuda", knowledge)
    return topic(
        "numba-cuda", f"numba-cuda {version}", f"numba-cuda {version}", knowledge, facts=(*lines, *facts_of),
        sources=[*knowledge.sources("numba_support", row.source), *rests_on], note=row.note,
        conditions={"needs-bindings": row.requires},
        values={"majors": " and ".join(row.ctk_majors), "numba": row.numba, "python": row.python},
    )  # fmt: skip


def _behaviour(package: str, knowledge: Knowledge) -> tuple[tuple[Fact, ...], list[str]]:
    """How this package behaves, whatever its version, and what that rests on."""
    rows = [row for row in knowledge.numba_facts if package in row.about]
    return facts(*((row.topic, row.fact) for row in rows)), knowledge.sources_of("numba_support", rows)


def _first(text: str) -> PackageVersion:
    found = _NUMBER.search(text)
    return PackageVersion(found.group() if found is not None else "0")


def _holds(span: str, wanted: PackageVersion) -> bool:
    """Whether a row ("0.15 - 0.17", "0.14") holds this version; each end holds all releases of its own series."""
    ends = [PackageVersion(text).numbers for text in _NUMBER.findall(span)]
    low, high = ends[0], ends[-1]
    # A version with fewer numbers stands for the whole of its series.
    return wanted.numbers >= low[: len(wanted.numbers)] and wanted.numbers[: len(high)] <= high


def _range(names: list[str], word: str) -> str:
    return f"The newest is {names[0]}, the oldest {names[-1]}: for example `{word} {_first(names[0])}`"
