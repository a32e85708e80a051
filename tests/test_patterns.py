"""No text makes a pattern slow: each is run over 1 MB of noise that is made of what the pattern itself looks for.

The slowest are printed (`pytest -s`). The limit is far from what a linear pattern needs and far below what a quadratic one would take.
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
import random
import re
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

import cudadoctor.checks
import cudadoctor.parsers
from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.evidence import Evidence, Item
from cudadoctor.parsers import error_codes, out_of_memory, signs
from cudadoctor.parsers.base import Text
from cudadoctor.parsers.lines import prepared
from cudadoctor.sources import vocabulary
from cudadoctor.sources.redact import redact
from tests.cases import every
from tests.judging import KNOWLEDGE

pytestmark = pytest.mark.long  # every pattern on 100 kB of noise; tests/test_pumping.py looks at a share of them in each run

SIZE = 1_000_000  # characters
LIMIT = 20.0  # seconds; a quadratic pattern takes hours
FILLERS = ("", " ", "\n", "a", "0", ".", "/", " x ", "\n  ")
TIMES: dict[str, float] = {}


def pieces(pattern: str) -> list[str]:
    """Words that a pattern holds literally."""
    return [
        piece
        for piece in re.findall(r"[A-Za-z0-9_ /.:'\"-]{2,}", re.sub(r"\\[.()\[\]/-]", lambda found: found[0][1], pattern))
        if piece.strip()
    ]


def noises(literals: list[str], fillers: tuple[str, ...] = FILLERS) -> Iterator[str]:
    """Texts of SIZE characters: the literals again and again with each filler, and shuffled."""
    for filler in fillers:
        unit = filler.join([*literals, ""]) or "x"
        yield (unit * (SIZE // len(unit) + 1))[:SIZE]
    chance = random.Random(1)
    parts = [*literals, *FILLERS, "x" * 40]
    yield "".join(chance.choice(parts) for _ in range(SIZE // 8))[:SIZE]


def timed(name: str, run, text: object) -> None:  # type: ignore[no-untyped-def]
    started = time.perf_counter()
    run(text)
    TIMES[name] = max(TIMES.get(name, 0.0), time.perf_counter() - started)
    assert TIMES[name] < LIMIT, f"{name}: {TIMES[name]:.1f} s for 1 MB of noise"


class One:
    """A knowledge of one match."""

    def __init__(self, cause: str, match) -> None:  # type: ignore[no-untyped-def]
        self.causes = {cause: msgspec.structs.replace(KNOWLEDGE.cause(cause), match=(match,))}

    def once(self, name: str, make):  # type: ignore[no-untyped-def]
        return make()


@every("cause", sorted(KNOWLEDGE.causes))
def test_the_matches_of_a_cause(cause: str) -> None:
    for match in KNOWLEDGE.cause(cause).match:
        if not re.search(r"[*+{]", (match.pattern or "") + (match.unless or "")):
            continue  # without repetition a pattern is as fast as a literal
        known: Knowledge = One(cause, match)  # type: ignore[assignment]
        literals = [*match.literals, *pieces(match.pattern or ""), *pieces(match.unless or "")]
        third = SIZE // 3
        text = "\n".join(noise[:third] for noise in noises(literals, ("", "\n")))  # 1 MB of all three, for preparing a text takes longest
        timed(f"{cause}: {match.contains!r}", lambda shown, known=known: signs.clues(Text(shown, source="text"), known), text)


def patterns_in(name: str) -> Iterator[tuple[str, re.Pattern[str]]]:
    """The compiled patterns that a module holds at its top level, alone or in a tuple."""
    module = importlib.import_module(name)
    source = ast.parse(Path(module.__file__ or "").read_text("utf-8"))
    for target in (target for node in source.body if isinstance(node, ast.Assign) for target in node.targets):
        value = getattr(module, target.id) if isinstance(target, ast.Name) else None
        for number, one in enumerate(value if isinstance(value, tuple) else (value,)):
            if hasattr(one, "finditer"):
                yield f"{name}.{ast.unparse(target)}" + (f"[{number}]" if isinstance(value, tuple) else ""), one


def patterns_of(package) -> Iterator[tuple[str, re.Pattern[str]]]:  # type: ignore[no-untyped-def]
    """Those of the modules of a package."""
    for entry in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        yield from patterns_in(entry.name)


def of_redaction() -> Iterator[tuple[str, re.Pattern[str]]]:
    yield from ((name, getattr(vocabulary.PATTERNS, name)) for name in vocabulary.TABLE["parts"])
    yield from (
        (f"{name}[{number}]", form.pattern) for name in vocabulary.TABLE["forms"] for number, form in enumerate(vocabulary.forms(name))
    )


@every("name, pattern", lambda: patterns_of(cudadoctor.parsers))
def test_a_pattern_of_a_parser(name: str, pattern: re.Pattern[str]) -> None:
    """Parsers apply their patterns line by line."""
    for text in noises(pieces(pattern.pattern) or ["x"]):
        lines = [line[:20_000] for line in text.split("\n")]
        timed(name, lambda _, lines=lines: [pattern.search(line) for line in lines[:2000]], text)


SEARCHED = frozenset(
    name
    for path in Path(cudadoctor.__file__).parent.glob("sources/*.py")
    for name in re.findall(r"PATTERNS\.(\w+)\.(?:search|finditer|sub)", path.read_text())
)


@every("name, pattern", of_redaction)
def test_a_pattern_of_the_redaction(name: str, pattern: re.Pattern[str]) -> None:
    """Most run over a whole text at once. What is only matched where something else ended begins at every fourth place at most: a key and a
    sign stand before a value.
    """
    for text in noises(pieces(pattern.pattern) or ["x"]):
        if name in SEARCHED or name not in vocabulary.TABLE["parts"]:
            timed(name, lambda shown: [0 for _ in pattern.finditer(shown)], text[: SIZE // 5])
        else:
            timed(name, lambda shown: [pattern.match(shown, at) for at in range(0, len(shown), 4)], text[: SIZE // 5])


@pytest.mark.parametrize(
    "words",
    [
        "user=uid=1(",
        "groups=1(1(1(1(",
        "1(",
        "USER PID x\na 1 b\n",
        "PID USER x\n1 a b\n",
        "password='a ",
        "password=\\'a token=\"b ",
        "9",
        "A=b\n",
    ],
)
def test_the_redaction_of_a_text(words: str) -> None:
    """What begins again and again and never ends, and tables of one line each."""
    text = Item(id="text", kind="text", what="text", status="ok", stdout=f"groups={words * (SIZE // len(words))}"[: SIZE // 2])
    timed(f"redaction: {words!r}", lambda items: redact(Evidence(items=items)), (text,))


@pytest.mark.parametrize(
    "words", [["CUDA_ERROR_", "cudaError"], ["CUDA error code=100 cuInit returned ", "35"], ["Xid (PCI:0000:01:00): 79, "]]
)
def test_codes(words: list[str]) -> None:
    for text in noises(words, ("", "\n", " x ")):
        timed(f"codes: {words[0]}", lambda shown: error_codes.clues(Text(shown, source="text"), KNOWLEDGE), text)


def test_memory() -> None:
    for text in noises(["CUDA out of memory. Tried to allocate ", "GiB", "of which"]):
        timed("out of memory", lambda shown: out_of_memory.clues(Text(shown, source="text")), text)


def test_the_preparation_of_a_text() -> None:
    for text in noises(["[  12.345678] ", "Nov 21 10:00:00 host kernel: ", "x" * 80]):
        timed("preparation", lambda shown: prepared(Text(shown, source="text")), text)


def test_the_slowest() -> None:
    slowest = sorted(TIMES.items(), key=lambda entry: -entry[1])[:5]
    print("\nslowest on 1 MB of noise:", *(f"  {seconds:.2f} s {name}" for name, seconds in slowest), sep="\n")
    assert slowest or not TIMES
