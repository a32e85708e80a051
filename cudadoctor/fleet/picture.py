"""Nodes to one picture: grouped by cause, settings that drift, who did not answer. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from cudadoctor.model import exit_codes
from cudadoctor.model.fleet import Demand, Drift, Fleet, Group, Missing, Node, Odd, Straggler, Worse
from cudadoctor.model.report import RequirementResult


class Advice(NamedTuple):
    title: str
    url: str
    step: str | None
    command: str | None


_ORDER = {"broken": 0, "undecided": 1, "degraded": 2, "healthy": 3}
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
MOST_NAMED = 4
MOST_VALUES = 12  # of a setting that drifts: with more of them it is no setting but a number of its own on each node


def paint(
    once: Sequence[Node],
    missing: Sequence[Missing],
    earlier: Sequence[Node],
    slow: Iterable[Straggler],
    advise: Callable[[str, str | None], Advice | None],
    *,
    strict: bool = False,
    repeated: int = 0,
    notes: tuple[str, ...] = (),
) -> Fleet:
    """`once`: each node once, `slow`: GPUs of theirs. `earlier`: as other runs saw them. `advise`: of a cause, on a distribution where all
    nodes have the same."""
    stragglers = tuple(sorted(slow, key=lambda one: -one.behind))
    models = Counter(gpu.name or "unnamed GPU" for node in once for gpu in node.gpus)
    verdicts = Counter[str](node.verdict for node in once)
    return Fleet(
        exit_code=_exit_code(verdicts, missing, unmet=any(node.demands for node in once), slow=bool(stragglers), strict=strict),
        nodes=len(once),
        gpus=dict(models.most_common()),
        verdicts={verdict: verdicts[verdict] for verdict in _ORDER if verdicts[verdict]},
        missing=tuple(missing),
        groups=tuple(_groups(once, advise)),
        drift=tuple(_drift(once)),
        stragglers=stragglers,
        worse=worse(once, each_once(earlier)[0]) if earlier else (),
        demands=tuple(_demands(once)),
        repeated=repeated,
        strict=strict,
        notes=(*notes, *unmeasured(once)),
    )


def unmeasured(nodes: Sequence[Node]) -> Iterator[str]:
    """The GPUs of working nodes of which nobody knows how fast they are, where others were measured."""
    names = [
        f"{node.name} GPU {gpu.number}"
        for node in nodes
        if node.verdict in ("healthy", "degraded") and any(gpu.figures for gpu in node.gpus)
        for gpu in node.gpus
        if not gpu.figures
    ]
    if names:
        shown = ", ".join(names[:MOST_NAMED]) + (f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else "")
        yield f"Not measured, beside GPUs that were: {shown}. Other processes were using them, or no kernel ran there; --busy measures all."


def _exit_code(verdicts: Mapping[str, int], missing: Sequence[Missing], *, unmet: bool, slow: bool, strict: bool) -> int:
    """As for one machine: the gravest counts, and what did not answer is not known."""
    if verdicts.get("broken") or unmet or (strict and (verdicts.get("degraded") or slow)):
        return exit_codes.BROKEN
    return exit_codes.UNDECIDED if verdicts.get("undecided") or missing or not verdicts else exit_codes.HEALTHY


def each_once(nodes: Iterable[Node], now: str | None = None) -> tuple[list[Node], int]:
    """Each machine once, by its newest report, and how many were left out. The name stands in the report itself, whoever brought it.

    A report whose time is none, or lies after `now` (UTC, as reports write it), takes the place of another only where it is graver; of two
    that say the same time the graver counts. Reports with one name and no GPU in common are of several machines (`localhost`, the name
    of an image): all but one get the UUID of a GPU into their names. A report that shows no GPU may be of any of them.
    """

    def told(node: Node) -> str:
        return node.time if node.time and _TIME.fullmatch(node.time) and (now is None or node.time <= now) else ""

    every = sorted(nodes, key=lambda node: (not told(node), told(node), -_ORDER[node.verdict]))
    machine_of = _machines(every)
    plain: dict[str, str] = {}  # of each name the machine that keeps it as it is
    for name, uuid in sorted(machine_of.values()):
        plain.setdefault(name, uuid)
    newest: dict[tuple[str, str], Node] = {}
    for node in every:
        shown = (machine_of[node.name, gpu.uuid] for gpu in node.gpus if gpu.uuid is not None)
        machine = next(shown, (node.name, plain.get(node.name, "")))
        if machine not in newest or told(node) or _ORDER[node.verdict] < _ORDER[newest[machine].verdict]:
            newest[machine] = node
    apart = [
        msgspec.structs.replace(node, name=f"{name} ({uuid})") if uuid != plain.get(name, "") else node
        for (name, uuid), node in newest.items()
    ]
    return sorted(apart, key=lambda node: node.name), len(every) - len(apart)


def _machines(nodes: Iterable[Node]) -> dict[tuple[str, str], tuple[str, str]]:
    """By name and GPU, which machine that is: the name, and the least UUID of all GPUs that any report shows together with this one."""
    above: dict[tuple[str, str], tuple[str, str]] = {}

    def top(one: tuple[str, str]) -> tuple[str, str]:
        while above[one] != one:
            above[one] = one = above[above[one]]
        return one

    for node in nodes:
        own = [(node.name, gpu.uuid) for gpu in node.gpus if gpu.uuid is not None]
        for one in own:
            above.setdefault(one, one)
            least, other = sorted((top(own[0]), top(one)))
            above[other] = least
    return {one: top(one) for one in above}


def _groups(nodes: Sequence[Node], advise: Callable[[str, str | None], Advice | None]) -> list[Group]:
    """The gravest and largest first."""
    by_cause: dict[tuple[str, str | None], list[Node]] = {}
    for node in nodes:
        by_cause.setdefault((node.verdict, node.cause), []).append(node)
    groups = [_group(found, advise) for found in by_cause.values()]
    return sorted(groups, key=lambda group: (_ORDER[group.verdict], -len(group.nodes), group.title))


def _group(nodes: Sequence[Node], advise: Callable[[str, str | None], Advice | None]) -> Group:
    first = nodes[0]
    systems = {node.settings.get("distribution") for node in nodes}
    advice = advise(first.cause, systems.pop() if len(systems) == 1 else None) if first.cause is not None else None
    return Group(
        verdict=first.verdict,
        cause=first.cause,
        title=advice.title if advice is not None else first.verdict if first.cause is None else "A cause that this release does not know",
        url=advice.url if advice is not None else None,
        action=first.action if len({node.action for node in nodes}) == 1 else "differs",
        nodes=tuple(node.name for node in nodes),
        line=first.line,
        step=advice.step if advice is not None else None,
        command=advice.command if advice is not None else None,
    )


def _demands(nodes: Sequence[Node]) -> list[Demand]:
    """What is demanded and not met, then what nobody could answer; of each the demand of most nodes first."""
    of: dict[tuple[str, bool | None], list[tuple[str, RequirementResult]]] = {}
    for node in nodes:
        for unmet in node.demands:
            of.setdefault((unmet.text, unmet.met), []).append((node.name, unmet))
    found = [Demand(**msgspec.structs.asdict(pairs[0][1]), nodes=tuple(name for name, _ in pairs)) for pairs in of.values()]
    return sorted(found, key=lambda one: (one.met is None, -len(one.nodes)))


def _drift(nodes: Sequence[Node]) -> list[Drift]:
    """Settings of which most nodes have one value and some another."""
    by_setting: dict[str, dict[str, list[str]]] = {}
    for node in nodes:
        for setting, value in node.settings.items():
            by_setting.setdefault(setting, {}).setdefault(value, []).append(node.name)
    found = []
    for setting, values in by_setting.items():
        if not 1 < len(values) <= MOST_VALUES:
            continue
        ranked = sorted(values.items(), key=lambda pair: (-len(pair[1]), pair[0]))
        total = sum(map(len, values.values()))
        usual = ranked[0] if len(ranked[0][1]) * 2 > total else None
        odd = tuple(Odd(value=value, nodes=tuple(names)) for value, names in ranked if usual is None or value != usual[0])
        found.append(Drift(setting=setting, usual=usual[0] if usual else None, count=len(usual[1]) if usual else 0, odd=odd))
    return found


# ---------------------------------------------------------------- what got worse
def worse(nodes: Iterable[Node], earlier: Sequence[Node]) -> tuple[Worse, ...]:
    """`nodes` and `earlier`: each node once. The same change of many nodes is one, the commonest first."""
    before = {node.name: node for node in earlier}
    by_what: dict[str, list[str]] = {}
    seen = set()
    for node in nodes:
        seen.add(node.name)
        for what in _changes(before[node.name], node) if node.name in before else ():
            by_what.setdefault(what, []).append(node.name)
    gone = [name for name in before if name not in seen]
    if gone:
        by_what["no report this time"] = gone
    found = [Worse(what=what, nodes=tuple(names)) for what, names in by_what.items()]
    return tuple(sorted(found, key=lambda one: -len(one.nodes)))


def _changes(before: Node, now: Node) -> Iterator[str]:
    if _ORDER[now.verdict] < _ORDER[before.verdict] or (now.verdict == before.verdict and now.cause not in (before.cause, None)):
        yield f"{_state(before)} before, now {_state(now)}"
    there = _uuids(now)
    yield from (f"GPU {uuid} is gone" for uuid in _uuids(before) if uuid not in there)


def _state(node: Node) -> str:
    return node.verdict if node.cause is None else f"{node.verdict} ({node.cause})"


def _uuids(node: Node) -> dict[str, None]:
    return dict.fromkeys(gpu.uuid for gpu in node.gpus if gpu.uuid is not None)
