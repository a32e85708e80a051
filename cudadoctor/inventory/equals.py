"""Which of some equal GPUs are slower than the others. Pure.

Each is held against the others, itself left out: its distance from their mean in their own standard deviations is Student-distributed, so
the cut-off that lets 8 healthy GPUs in 10,000 through is known for every number of GPUs. What lies far off is left out of mean and
deviation first, so that several slow GPUs do not hide each other. The deviation has a floor, for equal GPUs may by chance agree better than
they do the next time, and a difference that nobody would feel is none.

Source of the method: studentised deleted residuals (Cook and Weisberg, Residuals and Influence in Regression, 1982); expansion of Student's
quantiles: Abramowitz and Stegun 26.7.5. tests/benchmarks/stragglers.py simulates it beside other rules.
"""

from __future__ import annotations

from collections.abc import Sequence

LET_THROUGH = 0.0008  # of healthy GPUs and figures that are flagged
MANY = 24  # GPUs; of fewer less is let through, for leaving out what lies far off makes their deviation look small
LEAST_PEERS = 4  # with fewer nobody can say what is usual
FLOOR = 0.004  # of the figure: the least deviation that is assumed
FELT = 0.03  # of the figure: who is nearer to the usual than this is not slow
LINKS = ("PCIe", "NVLink")  # with these begins what limits a figure where a link does
FAR = 4.0  # robust deviations from which a value is not used to say what is usual; more where they are known from few values


def link_of(limit_from: str | None) -> str:
    """The link that limits a figure, `PCIe 5.0 x16` of `PCIe 5.0 x16: 63.0 GB/s`; empty where none does.

    GPUs on different links are no equals.
    """
    link = (limit_from or "").partition(":")[0]
    return link if link.startswith(LINKS) else ""


def usual_clock(clocks: Sequence[float | None]) -> float:
    """The usual clock under a load, in MHz, to which its figures are brought; 0 where it was not measured on all."""
    from statistics import median  # slow to import, and most machines have no equals

    known = [clock for clock in clocks if clock]
    return median(known) if len(known) == len(clocks) else 0.0


def comparable(values: Sequence[float], clocks: Sequence[float | None], usual: float, *, less: bool) -> list[float]:
    """Figures of which higher is better, each brought to the usual clock, if that is known: who runs at a lower one is throttled, which has
    causes of its own. `less`: of these figures less is better."""
    brought = [value * usual / clock if usual and clock else value for value, clock in zip(values, clocks, strict=True)]
    return [1 / value for value in brought] if less else brought


def cut_off(freedom: int) -> float:
    """Student's quantile of 1 - LET_THROUGH. `freedom`: degrees of it, 3 or more."""
    from statistics import NormalDist

    z, v = NormalDist().inv_cdf(1 - LET_THROUGH * min(1.0, freedom / MANY)), float(freedom)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum(term / v**power for power, term in enumerate(terms, 1))


def slow(values: Sequence[float], more: Sequence[float] = ()) -> list[tuple[int, float]]:
    """The places of the values that are too low, each with the usual value. `more`: others of which none is in question."""
    known = [*values, *more]
    if len(known) - 1 < LEAST_PEERS:
        return []
    from statistics import median

    middle = median(known)
    low = [(place, value) for place, value in enumerate(values) if value <= (1 - FELT) * middle]
    if not low:
        return []
    distances = [abs(value - middle) for value in known]
    spread = max(1.4826 * median(distances), FLOOR * middle)
    far = max(FAR, cut_off(len(known) - 2)) * spread
    usual = [value for value, distance in zip(known, distances, strict=True) if distance <= far]
    count, total, squares = len(usual), sum(usual), sum([(value - middle) ** 2 for value in usual])
    found = []
    for place, value in low:
        inside = abs(value - middle) <= far
        others = count - inside
        if others < LEAST_PEERS:
            continue
        mean = (total - value * inside) / others
        variance = (squares - (value - middle) ** 2 * inside) / others - (mean - middle) ** 2
        deviation = max((max(variance, 0.0) * others / (others - 1)) ** 0.5, FLOOR * middle)
        if (mean - value) / (deviation * (1 + 1 / others) ** 0.5) > cut_off(others - 1):
            found.append((place, mean))
    return found
