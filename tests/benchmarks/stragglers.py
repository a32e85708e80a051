"""How often a healthy GPU is called slow, and how often a slow one is found: python -m tests.benchmarks.stragglers [RUNS]

Fleets of 2 to 10,000 equal GPUs whose figures scatter by 0.3 to 8 %, one GPU in 64 (at least one) slower by 3 to 30 %; with and without five
earlier runs. Beside our rule (inventory/equals.py): 5 % below the median, |z| > 3.5 of the median absolute deviation, and 5 % below a GPU's
own median of earlier runs.
"""

from __future__ import annotations

import random
import statistics
import sys
from collections.abc import Callable, Sequence

from cudadoctor.fleet.stragglers import behind_themselves
from cudadoctor.inventory.equals import slow

SIZES = (2, 8, 64, 1000, 10_000)
SPREADS = (0.003, 0.005, 0.01, 0.02, 0.04, 0.08)
SLOWER = (0.03, 0.05, 0.10, 0.20, 0.30)
NOISE = 0.003  # of one GPU from run to run
EARLIER = 5  # runs
Rule = Callable[[Sequence[float], Sequence[Sequence[float]]], set[int]]


def ours(values: Sequence[float], past: Sequence[Sequence[float]]) -> set[int]:
    own = [[run[place] for run in past] for place in range(len(values))]
    return {place for place, _ in (*slow(values), *behind_themselves(values, own))}


def five_percent(values: Sequence[float], past: Sequence[Sequence[float]]) -> set[int]:
    middle = statistics.median(values)
    return {place for place, value in enumerate(values) if value < 0.95 * middle}


def plain_z(values: Sequence[float], past: Sequence[Sequence[float]]) -> set[int]:
    middle = statistics.median(values)
    spread = statistics.median(abs(value - middle) for value in values)
    return {place for place, value in enumerate(values) if spread and 0.6745 * (middle - value) / spread > 3.5}


def own_median(values: Sequence[float], past: Sequence[Sequence[float]]) -> set[int]:
    if not past:
        return set()
    return {place for place, value in enumerate(values) if value < 0.95 * statistics.median(run[place] for run in past)}


RULES: dict[str, Rule] = {"ours": ours, "5 % rule": five_percent, "z > 3.5": plain_z, "own median": own_median}


def fleet(size: int, spread: float, slower: float, earlier: int, chance: random.Random) -> tuple[list[float], list[list[float]], set[int]]:
    """Figures now, figures of earlier runs, and who is slow now (and was not before)."""
    own = [chance.gauss(100.0, 100.0 * spread) for _ in range(size)]
    past = [[value * chance.gauss(1.0, NOISE) for value in own] for _ in range(earlier)]
    bad = set(chance.sample(range(size), max(1, size // 64))) if slower else set()
    now = [value * chance.gauss(1.0, NOISE) * (1 - slower if place in bad else 1.0) for place, value in enumerate(own)]
    return now, past, bad


def rates(rule: Rule, size: int, spread: float, slower: float, earlier: int, runs: int) -> tuple[float, float]:
    """False flags per 1,000 healthy GPUs, and the share of slow ones that is found."""
    chance = random.Random(f"{size} {spread} {slower} {earlier}")
    false = healthy = found = bad = 0
    for _ in range(max(1, runs // size)):
        now, past, slow_ones = fleet(size, spread, slower, earlier, chance)
        flagged = rule(now, past)
        false += len(flagged - slow_ones)
        healthy += size - len(slow_ones)
        found += len(flagged & slow_ones)
        bad += len(slow_ones)
    return 1000 * false / max(1, healthy), found / bad if bad else 0.0


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 40_000
    for earlier in (0, EARLIER):
        print(f"\n{earlier} earlier runs: false flags per 1,000 healthy GPUs / share found of GPUs slower by 3, 5, 10, 20, 30 %")
        for size in SIZES:
            for spread in SPREADS:
                cells = []
                for name, rule in RULES.items():
                    false = rates(rule, size, spread, 0.0, earlier, runs)[0]
                    shares = [rates(rule, size, spread, slower, earlier, runs // 4)[1] for slower in SLOWER]
                    cells.append(f"{name} {false:6.2f} / {' '.join(f'{share:4.0%}' for share in shares)}")
                print(f"{size:6} GPUs, {spread:4.1%}: {'; '.join(cells)}")


if __name__ == "__main__":
    main()
