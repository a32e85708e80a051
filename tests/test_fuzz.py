"""A short fuzz run: real texts, cut, doubled and mixed with noise, through every parser, the text path, recordings, demands and policies.

    python -m tests.test_fuzz SECONDS [SEED]

runs for as long as one likes and prints executions, exceptions and the slowest input.
"""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path

import pytest

from cudadoctor import policy
from cudadoctor.commands.policy_file import PolicyError, gathered
from cudadoctor.judge.stages import judge
from cudadoctor.parsers.base import Text
from cudadoctor.parsers.read import parsers
from cudadoctor.policy.grammar import RequirementError
from cudadoctor.sources import recording
from cudadoctor.sources.pasted import evidence_of
from tests.command_line import ROOT, host
from tests.judging import KNOWLEDGE

TEXTS = sorted([*(ROOT / "fixtures" / "parsers").glob("*/*.txt"), *(ROOT / "fixtures" / "reports").glob("*/report.txt")])
NOISE = [
    b"\x00",
    b"\x1b[31m",
    b"\xff\xfe",
    b"\xe2\x80\xae",
    b"\r",
    b"\n",
    b"\t",
    b"{",
    b"}",
    b"[",
    b"]]",
    b'"',
    b"9" * 40,
    b"-1",
    b"0x",
    b"%s",
]
NOISE += [
    b"|" * 50,
    b" " * 200,
    b"\xf0\x9f\x98\x80",
    b"<!--",
    b'<gpu id="',
    b"\\" * 30,
    b"'" * 9,
    b"nan",
    b"1e999",
    b"\x85",
    b"\xe2\x80\xa8",
]
LIMIT = 5.0  # seconds for one input: a guard against what is not linear, far above what any takes


def mutated(chance: random.Random, content: bytes, others: list[bytes]) -> bytes:
    text = bytearray(content[:20_000])
    for _ in range(chance.choice((1, 1, 2, 4, 8, 20))):
        start = chance.randrange(len(text) + 1)
        end = min(len(text), start + chance.choice((1, 2, 5, 20, 100, 1000)))
        kind = chance.randrange(7)
        if kind == 0:
            del text[start:end]
        elif kind == 1:
            text[start:start] = chance.choice(NOISE)
        elif kind == 2:
            text[start:end] = text[start:end][::-1]
        elif kind == 3:
            text[start:start] = text[start:end] * chance.choice((2, 5, 50))
        elif kind == 4:
            other = chance.choice(others)
            place = chance.randrange(len(other) + 1)
            text[start:start] = other[place : place + chance.choice((10, 100, 2000))]
        elif kind == 5:
            text = text[:start]
        else:
            text = text.replace(b"\n", chance.choice((b"\r\n", b"\n\n", b" ", b"\r")))
    return bytes(text[:30_000])


def inputs(seed: int) -> tuple[random.Random, list[bytes]]:
    return random.Random(seed), [path.read_bytes() for path in TEXTS]


def parse_all(content: bytes, chance: random.Random) -> None:
    text = content.decode("utf-8", "replace")
    for parser in parsers(KNOWLEDGE):
        list(parser.parse(Text(text, source="fuzz", origin=chance.choice(("live", "text")), whole=chance.random() < 0.5)))


def explain(content: bytes) -> None:
    report = judge(evidence_of(content), KNOWLEDGE)
    assert report.diagnosis.crashes == ()


# ---------------------------------------------------------------- a short run
SEEDS = (0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2, 3)))


@pytest.mark.parametrize("seed", SEEDS)
def test_no_parser_raises(seed: int) -> None:
    chance, texts = inputs(seed)
    for _ in range(60):
        started = time.monotonic()
        parse_all(mutated(chance, chance.choice(texts), texts), chance)
        assert time.monotonic() - started < LIMIT


@pytest.mark.parametrize("seed", SEEDS)
def test_no_text_breaks_the_diagnosis(seed: int) -> None:
    chance, texts = inputs(seed + 100)
    for _ in range(40):
        started = time.monotonic()
        explain(mutated(chance, chance.choice(texts), texts))
        assert time.monotonic() - started < LIMIT


@pytest.mark.parametrize("many", [40, pytest.param(400, marks=pytest.mark.long)])
def test_no_recording_breaks_the_reader(many: int, tmp_path: Path) -> None:
    """A damaged head is refused in words; whatever is read is judged."""
    chance, texts = inputs(7)
    source = Path(host("driver-hung"))
    head = (source / "recording.json").read_bytes()
    folder = tmp_path / "recording"
    (folder / "evidence").mkdir(parents=True)
    for number in range(many):
        (folder / "recording.json").write_bytes(mutated(chance, head, [head]) if number % 2 else head)
        for path in (source / "evidence").iterdir():
            (folder / "evidence" / path.name).write_bytes(
                mutated(chance, path.read_bytes(), texts) if chance.random() < 0.2 else path.read_bytes()
            )
        try:
            evidence = recording.read(str(folder))
        except recording.RecordingError:
            continue
        assert judge(evidence, KNOWLEDGE).diagnosis.crashes == ()


def test_no_demand_and_no_policy_raises_anything_else(tmp_path: Path) -> None:
    chance = random.Random(8)
    demands = [b"gpus>=2", b"h2d_bandwidth>=20GB/s", b"driver==580", b"gpu-name~H200", b"memory>=40GiB", b"smoke", b"torch-cuda>=12"]
    policies = [
        b'require = ["gpus>=2", "ecc"]\nignore = ["driver-hung", {cause = "pcie-link-degraded", reason = "riser", until = 2027-06-30}]\nstrict = true\n'
    ]
    for _ in range(400):
        try:
            policy.requirements([mutated(chance, chance.choice(demands), demands).decode("utf-8", "replace")])
        except RequirementError:
            pass
        path = tmp_path / "cudadoctor.toml"
        path.write_bytes(mutated(chance, policies[0], policies + demands))
        try:
            gathered(str(path), (), KNOWLEDGE.causes)
        except PolicyError:
            pass


# ---------------------------------------------------------------- a long one by hand
def main(seconds: float, seed: int) -> None:
    chance, texts = inputs(seed)
    parsed = explained = 0
    slowest, end = 0.0, time.monotonic() + seconds
    while time.monotonic() < end:
        content = mutated(chance, chance.choice(texts), texts)
        started = time.monotonic()
        parse_all(content, chance)
        parsed += len(parsers(KNOWLEDGE))
        if chance.random() < 0.1:
            explain(content)
            explained += 1
        slowest = max(slowest, time.monotonic() - started)
    print(f"{parsed} executions of parsers and {explained} of the text path, no exception; the slowest input took {slowest:.3f} s in all")


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1)
