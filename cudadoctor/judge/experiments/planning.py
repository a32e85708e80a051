"""What may be tried on a machine, likeliest first: the plan, which follows from the first judgement."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from cudadoctor.checks.common import variables_of
from cudadoctor.checks.reading import climbed, hung
from cudadoctor.inventory.rungs import LADDER_ORDER
from cudadoctor.judge.diagnose import Seen
from cudadoctor.knowledge.experiments import Experiments, Grouped
from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.evidence import Evidence
from cudadoctor.model.experiments import START, Change, Entry, Failure, Plan, Proposal
from cudadoctor.model.facts import Facts
from cudadoctor.model.findings import Finding, Judged
from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import ENVIRONMENT, LADDER, LIMITS, NVML, PYTHON, SMI, TOOLKITS, GpuProcess, Nvml, Smi
from cudadoctor.parsers import tries
from cudadoctor.parsers.worker_ladder import HANGING

Places = Mapping[str, Sequence[int]]  # by variable that lists places, the numbers of those that may be left out
UNFORESEEN = "environment-variable-breaks-cuda"
STARTUP = "python-startup-breaks-cuda"
_SELECTING = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")
_BELOW = ("hardware", "bus", "kernel", "node", "container")  # layers that no variable cures
_BY_THE_LOADER = (START, "libcuda")
_WITH_CONTEXT = LADDER_ORDER[LADDER_ORDER.index("context") :]
_ROOM = 2 << 30  # bytes that are free on a GPU
_OF_MPS = "nvidia-cuda-mps"  # with these words begin the names of its daemon and its server
_TELLING = 5  # characters of a value that are enough to be meant; a shorter one is in quotation marks
_ALIKE = 3  # variables with a value that is quoted
_OF_PACKAGE = lazy(r"(?:site|dist)-packages[/\\]([A-Za-z]\w{1,60})[/\\.]")
_SUSPECTS, _EACH = 6, 6  # causes that are tried for, and places of one list that are tried one by one
_STARTS = 4  # files that the interpreter runs at its start


def plan(seen: Seen, judged: Judged, evidence: Evidence, knowledge: Knowledge) -> Plan | None:
    """What may be tried; None where nothing failed that a change of surroundings could cure, or nothing may be touched."""
    if evidence.origin == "text" or evidence.bundle is not None or evidence.quick or evidence.python is None:
        return None
    failure = _failure(seen.facts, evidence)
    root = judged.diagnosis.root
    if failure is None or _untouchable(seen, root, knowledge) or judged.verdict not in ("broken", "undecided"):
        return None
    # A try may climb to a kernel; where others compute, no further than the first climb came.
    goal = _goal(seen.facts, failure.rung)
    if goal is None:
        return None
    table, variables = knowledge.experiments, variables_of(seen.facts.there(ENVIRONMENT))
    job = table.is_job(variables)
    named = " ".join(knowledge.cause(root.cause).tries) if root is not None else ""
    # To show another GPU than one that cannot be used cures nothing.
    shown = {name for name in _SELECTING if root is not None and name not in named}
    free = {name: text for name, text in variables.items() if name not in shown and not table.kept(name, text, job=job)}
    lists = [name for name in table.lists if name in variables and not table.fixed(name, job=job)]
    places = {name: table.movable(name, variables[name]) for name in lists}
    if root is not None and failure.rung not in (START, *knowledge.cause(root.cause).breaks):
        root = None  # it is no cause of what failed here
    accused = (root,) if root is not None else judged.diagnosis.suspects[:_SUSPECTS]
    causes = [one.cause for one in accused]
    if root is None and failure.rung in _BY_THE_LOADER:
        causes.append(UNFORESEEN)  # one place of a list may be at fault, and another be needed: taking all away helps nobody
    python = seen.facts.value(PYTHON)
    startup = tuple(one.path for one in python.startup) if python is not None else ()
    proposals = tuple(_proposals(causes, failure.rung, free, places, seen.facts, knowledge))
    if root is None or "environment" in knowledge.cause(root.cause).tries:
        proposals = (*_named_first(proposals, _named(free, seen.facts, evidence, table)), *_starts(startup, table, failure.rung))
    stated = root is not None and root.basis == "stated"  # by what the rung itself said: then only its own changes are tried
    units = table.grouped(free, failure.rung, _packages(seen.facts)) if root is None or (proposals and not stated) else Grouped((), 0)
    in_python = failure.rung in (START, "numba-kernel") and (root is None or root.layer in ("python", "environment"))
    if not proposals and not units.groups:
        return None
    entries = {name: len(table.entries(name, text)) for name, text in free.items() if name in table.lists}
    toolkits, steps = seen.facts.value(TOOLKITS), climbed(seen.facts).smoke
    return Plan(
        failure=failure,
        goal=goal,
        step=next((step.step for step in steps if step.status == "fail"), "first"),  # the Numba kernel that failed first
        proposals=proposals,
        units=units.groups,
        likely=units.likely,
        entries=entries,
        toolkits=tuple(one.path for one in toolkits.toolkits) if toolkits is not None else (),
        own_python=in_python,
        startup=startup,
    )


def kept_out(facts: Facts, evidence: Evidence) -> bool:
    """Whether a try might explain the failure, and is not made because it would need a context on a GPU where others are known to
    compute.
    """
    failure = _failure(facts, evidence) if evidence.python is not None else None
    if failure is None or failure.rung not in _WITH_CONTEXT or _goal(facts, failure.rung) is not None:
        return False
    return bool(climbed(facts).guests or _computing(_listings(facts)))


def _listings(facts: Facts) -> list[Nvml | Smi]:
    """The answers that list who uses the GPUs."""
    nvml, smi = facts.value(NVML), facts.value(SMI)
    listed: list[Nvml | Smi] = [nvml] if nvml is not None and nvml.code == 0 else []
    return [*listed, smi] if smi is not None and smi.process_list else listed


def _computing(listed: Sequence[Nvml | Smi]) -> list[GpuProcess]:
    return [process for one in listed for process in one.processes if process.kind != "G"]


def _failure(facts: Facts, evidence: Evidence) -> Failure | None:
    """The first rung that broke in the examined interpreter, unless it hung or was killed."""
    climb, item = facts.value(LADDER), evidence.get("ladder")
    if item is None or item.signal == 9 or item.status in HANGING:
        return None
    if climb is None or not tries.started(item):
        return tries.start_failure(item)
    if climb.numba is not None and climb.numba.python is not None:
        return None  # the doctor's own Numba failed: nobody's surroundings are at fault
    result = tries.first_failure(climb.rungs)
    if result is None or result.status == "hang":
        return None
    return tries.failure(result, gpu=next((device.uuid for device in climb.devices if device.index == result.gpu), None))


def _untouchable(seen: Seen, root: Finding | None, knowledge: Knowledge) -> bool:
    """Whether something lies deeper than any surroundings, or the GPU is in a state in which nobody should ask it more."""
    silent = hung(seen.facts, "ladder") or hung(seen.facts, "nvml")
    of_gpu = any(not clue.past and clue.code is not None and clue.code.startswith("xid") for clue in seen.clues)
    return silent or of_gpu or (root is not None and root.layer in _BELOW and not knowledge.cause(root.cause).tries)


def _goal(facts: Facts, rung: str) -> str | None:
    """How far a try may climb: to a kernel where nobody computes; beside others no further than the first climb came, which made a context
    and ran the driver's own kernel there. None: not even so far.
    """
    listed, climb = _listings(facts), climbed(facts)
    processes = _computing(listed)
    modes = {gpu.compute_mode.lower() for one in listed for gpu in one.gpus if gpu.compute_mode is not None}
    if listed and not climb.guests and not processes and modes <= {"default"}:
        return "numba-kernel"
    if rung not in _WITH_CONTEXT:
        return "devices"
    # A context of ours takes nobody's memory where so much is free on each GPU that the climb saw.
    room = bool(climb.devices) and all((device.memory_free_bytes or 0) >= _ROOM for device in climb.devices)
    return rung if rung != "context" and modes == {"default"} and _shared_alike(processes, facts.value(NVML)) and room else None


def _shared_alike(processes: Sequence[GpuProcess], nvml: Nvml | None) -> bool:
    """Whether these processes have contexts of their own. Clients of MPS share one, and who has no name or is not listed, as a process of
    another PID namespace, may be its server: then NVML has to say that MPS has no clients.
    """
    clients = [gpu.mps_clients for gpu in nvml.gpus] if nvml is not None else []
    known = bool(processes) and all(one.name is not None for one in processes)
    counted = bool(clients) and None not in clients
    alike = all(one.kind == "C" and _OF_MPS not in (one.name or "") for one in processes)
    return (known or counted) and alike and not any(clients)


def _proposals(
    causes: Sequence[str], rung: str, free: Collection[str], places: Places, facts: Facts, knowledge: Knowledge
) -> Iterator[Proposal]:
    """What the files of these causes name; where one may come from the environment, what may bring it. Each change once."""
    seen: list[Change] = []
    for cause in causes:
        meant = (cause, UNFORESEEN) if "environment" in knowledge.cause(cause).tries else (cause,)
        for one in meant if rung in (START, *knowledge.cause(cause).breaks) else ():
            for change in _changes(one, free, places, facts, knowledge):
                if change not in seen:
                    seen.append(change)
                    yield Proposal(cause=one, change=change)


def _starts(startup: Sequence[str], table: Experiments, rung: str) -> Iterator[Proposal]:
    """To start without a file that the interpreter runs, one after the other."""
    unknown = [number for number, path in enumerate(startup) if not table.starts_well(path)]
    for number in unknown[:_STARTS] if rung != START else ():
        yield Proposal(cause=STARTUP, change=Change(without_start=number))


def _named_first(proposals: Sequence[Proposal], named: Iterator[Change]) -> Iterator[Proposal]:
    """What the failure itself names comes first: time may be over before the last is tried. What a cause's file names too is that cause."""
    for_cause = {one.change: one for one in proposals}
    yield from (*[for_cause.pop(change, Proposal(cause=UNFORESEEN, change=change)) for change in named], *for_cause.values())


def _named(free: dict[str, str], facts: Facts, evidence: Evidence, table: Experiments) -> Iterator[Change]:
    """The variables, and places in lists, that the words of the failure name, or whose value they hold."""
    item = evidence.get("ladder")
    outputs = [*(one.output for one in climbed(facts).rungs if one.status != "pass"), (item.stderr or "") if item is not None else ""]
    said = "\n".join(_without_way("\n".join(outputs).split("\n")))
    likely = sorted(free, key=lambda name: not table.is_grouped(name))  # many variables may hold the word that is quoted
    short = [name for name in likely if 0 < len(free[name]) < _TELLING]  # quoted as Python writes them
    quoted = [name for name in short if f"'{free[name]}'" in said or f'"{free[name]}"' in said][:_ALIKE]
    for name, text in free.items():
        places = table.entries(name, text)
        held = [number for number, place in enumerate(places) if name in quoted or (len(place) >= _TELLING and _names(said, place))]
        if (len(name) >= _TELLING and name in said) or (held and len(places) == 1):
            yield Change(unset=(name,))
        elif len(held) == 1:
            yield Change(left_out=(Entry(variable=name, number=held[0]),))


def _packages(facts: Facts) -> tuple[str, ...]:
    """The packages in which the failing rung was, as its tracebacks name them."""
    said = "\n".join(one.output for one in climbed(facts).rungs if one.status != "pass")
    return tuple(dict.fromkeys(_OF_PACKAGE.findall(said)))


def _names(said: str, place: str) -> bool:
    """Whether words hold this value whole: `/opt/cuda-13.0/lib` does not hold `/opt/cuda`."""
    bare = place.rstrip("/")
    return bare in said and re.search(re.escape(bare) + r"(?![\w.-])", said) is not None


def _without_way(lines: Sequence[str]) -> Iterator[str]:
    """The words without the places of a traceback but the last: where it failed, not how it came there."""
    places = [number for number, line in enumerate(lines) if line.lstrip().startswith('File "')]
    way = frozenset(places[:-1])
    yield from (line for number, line in enumerate(lines) if number not in way)


def _changes(cause: str, free: Collection[str], places: Places, facts: Facts, knowledge: Knowledge) -> Iterator[Change]:
    """The changes that a cause's file names, as far as there is anything to change here."""
    for word, _, rest in (one.partition(" ") for one in knowledge.cause(cause).tries):
        names = [name for name in rest.split() if name in free]
        if word == "unset":
            yield from (Change(unset=(name,)) for name in names)
        elif word == "entries":
            for name, numbers in ((name, places[name]) for name in rest.split() if name in places):
                if name in free and not 1 < len(numbers) <= _EACH:
                    yield Change(unset=(name,))  # with a single place, or many, the whole variable; else one after the other
                else:
                    yield from (Change(left_out=(Entry(variable=name, number=number),)) for number in numbers[:_EACH])
        elif word == "toolkit":
            found = facts.value(TOOLKITS)
            listed = enumerate(found.toolkits if found is not None else ())
            whole = {one.version: number for number, one in listed if one.has_nvvm and one.has_libdevice and not one.stale}
            yield from (Change(toolkit=number) for number in list(whole.values())[:3])
        elif word == "limits" and facts.value(LIMITS) is not None:
            yield Change(raised_limits=True)
        elif word == "no-user-site":
            yield Change(no_user_site=True)
