"""Facts and diagnosis to the parts of a report: machine, rows with their status, smoke test, benchmark, timing, notes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import msgspec

from cudadoctor.checks.base import Check, Line
from cudadoctor.checks.benchmark import assess
from cudadoctor.checks.rows import CHECKS, describe
from cudadoctor.diagnose import Judged
from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model import report
from cudadoctor.model.evidence import Evidence
from cudadoctor.model.facts import Facts, Key, Quote, Unknown
from cudadoctor.model.findings import LAYERS, Finding
from cudadoctor.model.guard import Guard
from cudadoctor.model.requirements import Requirements
from cudadoctor.model.values import (
    CONTAINER_MARKS,
    DEVICE_NODES,
    DEVICE_NODES_AFTER,
    HANGS,
    KERNEL,
    KERNEL_LOG,
    LADDER,
    LOADED_DRIVER,
    NVIDIA_MODPROBE,
    NVML,
    OPERATING_SYSTEM,
    PCI,
    PROCESSES,
    PYTHON,
    SMI,
    WSL,
    Ladder,
    Measurement,
    RungName,
)
from cudadoctor.rungs import LADDER_ORDER, Rungs, below

T = TypeVar("T")
# The rungs whose success or failure a row reports.
ROW_RUNGS: dict[str, tuple[RungName, ...]] = {
    "gpu": ("pci",),
    "driver": ("driver",),
    "device-nodes": ("nodes",),
    "nvml": ("nvml",),
    "libcuda": ("libcuda", "init", "devices", "context", "memory", "ptx-kernel"),
    "toolkit": ("toolkit",),
    "numba": ("numba-kernel",),
    "smoke": ("numba-kernel",),
}
LADDER_ROWS = ("libcuda", "numba", "smoke", "benchmark")
KERNEL_ROWS = ("numba", "smoke", "benchmark")  # --quick ends before them
SHOWN_PACKAGES = ("numba", "numba-cuda", "numpy", "llvmlite", "cuda-bindings", "torch", "cupy", "jax", "tensorflow", "nvidia-ml-py")


def value(facts: Facts, key: Key[T]) -> T | None:
    """The value where it is known and there; None otherwise. For showing, not for judging."""
    found = facts.get(key)
    return None if isinstance(found, Unknown) else found.value


# ---------------------------------------------------------------- machine
def machine(facts: Facts, evidence: Evidence, knowledge: Knowledge) -> report.Machine:
    kernel, system = value(facts, KERNEL), value(facts, OPERATING_SYSTEM)
    nvml, ladder, loaded = value(facts, NVML), value(facts, LADDER), value(facts, LOADED_DRIVER)
    python, marks = value(facts, PYTHON), value(facts, CONTAINER_MARKS)
    library = (ladder.library if ladder else None) or (nvml.library if nvml else None)
    cuda = (ladder.cuda if ladder else None) or (nvml.cuda if nvml else None)
    packages = {entry.name: str(entry.version) for entry in python.packages if entry.name.lower() in SHOWN_PACKAGES} if python else {}
    return report.Machine(
        system=kernel.system if kernel else None,
        kernel=kernel.release if kernel else None,
        distribution=" ".join(part for part in (system.id, system.version_id) if part) or None if system and system.id else None,
        container=", ".join(marks) if marks else None,
        wsl=value(facts, WSL),
        driver=report.MachineDriver(
            module=str(loaded.version) if loaded else None,
            library=str(library) if library else None,
            cuda=str(cuda) if cuda else None,
            flavour=loaded.flavour if loaded else None,
        ),
        python=report.MachinePython(
            path=python.path if python else evidence.python,
            version=python.version if python else None,
            packages=dict(sorted(packages.items())),
        ),
        gpus=_gpus(facts, knowledge),
    )


def _gpus(facts: Facts, knowledge: Knowledge) -> tuple[report.MachineGpu, ...]:
    """One entry for each GPU that the bus, NVML or CUDA shows, joined by PCI address."""
    bus, nvml, ladder = value(facts, PCI), value(facts, NVML), value(facts, LADDER)
    by_address: dict[str, dict[str, object]] = {}
    for gpu in bus.nvidia_gpus if bus else ():
        chip = knowledge.chip(gpu.device) if gpu.device else None
        by_address[gpu.address] = {
            "name": gpu.name,
            "architecture": chip.architecture if chip else None,
            "compute_capability": str(chip.compute_capability) if chip and chip.compute_capability else None,
        }
    for entry in nvml.gpus if nvml else ():
        target = by_address.setdefault(entry.address or f"index {entry.index}", {})
        target.update(index=entry.index, uuid=entry.uuid, name=entry.name or target.get("name"), memory_bytes=entry.memory_total_bytes)
        if entry.compute_capability is not None:
            target["compute_capability"] = str(entry.compute_capability)
    for device in ladder.devices if ladder else ():
        target = by_address.setdefault(device.address or f"CUDA {device.index}", {})
        target.update(name=device.name or target.get("name"), visible=True)
        target.setdefault("uuid", device.uuid)
        target.setdefault("memory_bytes", device.memory_total_bytes)
        if device.compute_capability is not None:
            target["compute_capability"] = str(device.compute_capability)
            architecture = knowledge.architecture_of(device.compute_capability)
            target.setdefault("architecture", architecture.id if architecture else None)
    looked = ladder is not None and bool(ladder.result("init"))
    return tuple(
        report.MachineGpu(
            address=address if ":" in address else None,
            index=_as(int, known.get("index")),
            uuid=_as(str, known.get("uuid")),
            name=_as(str, known.get("name")),
            architecture=_as(str, known.get("architecture")),
            compute_capability=_as(str, known.get("compute_capability")),
            memory_bytes=_as(int, known.get("memory_bytes")),
            visible=bool(known.get("visible")) if looked else None,
        )
        for address, known in sorted(by_address.items())
    )


def _as(kind: type[T], thing: object) -> T | None:
    return thing if isinstance(thing, kind) else None


# ---------------------------------------------------------------- rows
def rows(
    facts: Facts, evidence: Evidence, knowledge: Knowledge, judged: Judged, rungs: Rungs, wanted: Requirements, guard: Guard
) -> tuple[report.Row, ...]:
    """Every chosen row with its status, computed after the diagnosis."""
    out = []
    for check in CHECKS:
        if not wanted.wants(check.id):
            continue
        crashed = Line("this row could not be described: see crashes", because="a part of the doctor failed")
        line = guard.run("describe", check.id, crashed, describe, check, facts, knowledge)
        status, because = _status(check, line, facts, evidence, knowledge, judged, rungs)
        summary = _found_in(check, judged, knowledge) if status == "fail" and line.because is not None else None
        out.append(
            report.Row(
                id=check.id,
                title=check.title,
                status=status,
                summary=summary or line.summary,
                because=because,
                evidence=tuple(line.quotes[:4]),
            )
        )
    text = _text_row(evidence, knowledge, judged)
    return (*out, text) if text is not None else tuple(out)


def _found_in(check: Check, judged: Judged, knowledge: Knowledge) -> str | None:
    """What a row fails for, where its own facts are not known: a text named it."""
    found = (*((judged.diagnosis.root,) if judged.diagnosis.root is not None else ()), *judged.diagnosis.also)
    named = _rows_of([finding for finding in found if finding.effect == "blocks"], knowledge, check.id)
    return named[0].title if named else None


def _rows_of(findings: Sequence[Finding], knowledge: Knowledge, row: str) -> list[Finding]:
    return [finding for finding in findings if knowledge.causes[finding.cause].row == row]


def _status(
    check: Check, line: Line, facts: Facts, evidence: Evidence, knowledge: Knowledge, judged: Judged, rungs: Rungs
) -> tuple[report.RowStatus, str | None]:
    diagnosis = judged.diagnosis
    root = diagnosis.root
    blocking = [finding for finding in diagnosis.also if finding.effect == "blocks"]
    if root is not None and root.effect == "blocks" and knowledge.causes[root.cause].row == check.id:
        return "fail", None
    if _rows_of(blocking, knowledge, check.id):
        return "fail", None
    explained = _rows_of(diagnosis.explains, knowledge, check.id)
    failed = [rung for rung in ROW_RUNGS.get(check.id, ()) if rungs.failed(rung)] or _smi_failed(check, facts)
    own_degrading = root is not None and root.effect != "blocks" and knowledge.causes[root.cause].row == check.id
    if root is not None and not own_degrading and (explained or _accounts(root, failed, knowledge)):
        return "skip", root.cause
    if line.skip is not None and not explained:
        return "skip", line.skip
    not_run = _not_run(check, facts, evidence, judged, rungs)
    if not_run is not None:
        return "skip", not_run
    beside = [finding for finding in (*diagnosis.also, *((root,) if root is not None else ())) if finding.effect != "blocks"]
    if _rows_of(beside, knowledge, check.id) or (check.id == "benchmark" and any(entry.verdict == "slow" for entry in benchmark(facts))):
        return "warn", None
    if failed:
        return "fail", None  # seen to fail, and nothing known explains it
    if line.because is not None:
        return "unknown", line.because
    missing = _missing(check, judged, rungs)
    return ("unknown", f"{', '.join(missing)} not known") if missing else ("pass", None)


def _missing(check: Check, judged: Judged, rungs: Rungs) -> list[str]:
    """Facts that a rule of this row needed and nobody knows: such a row does not pass.

    Where the GPU was initialised two things are excepted: the kernel log, because a line of the past could not accuse what works
    now, and the rows of bus and driver, whose causes cannot lie dormant below a rung that works as a missing node can.
    """
    works = rungs.worked("init")
    lacking = [fact for entry in judged.diagnosis.undecided if entry.row == check.id for fact in entry.missing]
    return [fact for fact in lacking if not (works and (fact == KERNEL_LOG.name or (check.id in ("gpu", "driver") and fact != HANGS.name)))]


def _accounts(root: Finding, failed: Sequence[RungName], knowledge: Knowledge) -> bool:
    """Whether the root is the reason of a row's failure: it breaks the row's rung, or blocks at one that this rung needs."""
    breaks = set(knowledge.causes[root.cause].breaks)
    if root.effect == "blocks" and "nvml" in failed and LAYERS.index(root.layer) <= LAYERS.index("container"):
        return True  # below the libraries NVML and CUDA stand on the same ground
    needed = {rung for one in failed for rung in below(one)} if root.effect == "blocks" else set()
    return bool(breaks & (set(failed) | needed))


def _smi_failed(check: Check, facts: Facts) -> list[RungName]:
    """nvidia-smi is no rung of the ladder, but NVML's own program: absent, or ended with a failure message."""
    if check.id != "nvidia-smi":
        return []
    smi = facts.get(SMI)
    return ["nvml"] if not isinstance(smi, Unknown) and (smi.value is None or smi.value.failure is not None) else []


def _not_run(check: Check, facts: Facts, evidence: Evidence, judged: Judged, rungs: Rungs) -> str | None:
    """Why a row's probe was not run: --quick, the row whose rung broke before it, or the root cause."""
    if check.id not in KERNEL_ROWS:
        return None
    ladder = facts.get(LADDER)
    if isinstance(ladder, Unknown) or ladder.value is None:
        return None
    if ladder.value.result("numba-kernel") and check.id != "benchmark":
        return None
    if check.id == "benchmark" and ladder.value.benchmark:
        return None
    broken = next((rung for rung in LADDER_ORDER[3:-1] if rungs.failed(rung)), None)
    if broken is not None:
        return judged.diagnosis.root.cause if judged.diagnosis.root is not None and judged.verdict == "broken" else "libcuda"
    if evidence.quick:
        return "--quick"
    return None


def _text_row(evidence: Evidence, knowledge: Knowledge, judged: Judged) -> report.Row | None:
    """The 17th row: what the user's program said."""
    item = evidence.get("text")
    if item is None:
        return None
    diagnosis = judged.diagnosis
    past = (judged.not_now,) if judged.not_now is not None else ()
    everything = (*((diagnosis.root,) if diagnosis.root else ()), *diagnosis.explains, *past, *diagnosis.also, *diagnosis.suspects)
    said = [finding for finding in everything if any(quote.source == "text" for quote in finding.evidence)]
    quotes: tuple[Quote, ...] = tuple(quote for finding in said for quote in finding.evidence if quote.source == "text")[:4]
    lines = len((item.stdout or "").splitlines())
    if not said:
        summary = f"{lines} line{'s' if lines != 1 else ''}, none of which names a known cause"
        return report.Row(
            id="text", title="What the program said", status="unknown", summary=summary, because="not understood", evidence=()
        )
    sure = any(finding.basis != "suspected" for finding in said)
    status: report.RowStatus = "fail" if sure and judged.verdict == "broken" else "warn"
    summary = f"{_said(said[0])}: not so at present" if past and said[0] == past[0] else said[0].title
    return report.Row(id="text", title="What the program said", status=status, summary=summary, because=None, evidence=quotes)


def _said(finding: Finding) -> str:
    """What a text states; where it only hints at a cause, its own words."""
    return finding.title if finding.basis != "suspected" else finding.evidence[0].text.strip()


# ---------------------------------------------------------------- smoke test and benchmark
def smoke(facts: Facts) -> tuple[report.SmokeResult, ...]:
    """Each step on each visible GPU, from the context to the last Numba kernel."""
    ladder = value(facts, LADDER)
    if ladder is None:
        return ()
    rungs = [
        report.SmokeResult(
            gpu=entry.gpu,
            step=entry.rung,
            status="pass" if entry.status == "pass" else "skip" if entry.status == "skip" else "fail",
            why=entry.why or (entry.name if entry.status != "pass" else None),
            seconds=entry.seconds,
        )
        for entry in ladder.rungs
        if entry.rung in ("context", "memory", "ptx-kernel", "numba-kernel")
    ]
    steps = [
        report.SmokeResult(gpu=step.gpu, step=step.step, status=step.status, why=step.why, seconds=step.seconds) for step in ladder.smoke
    ]
    return tuple(rungs + steps)


def benchmark(facts: Facts) -> tuple[report.BenchmarkResult, ...]:
    """Each figure with its share of what the hardware can do."""
    ladder = value(facts, LADDER)
    if ladder is None:
        return ()
    return tuple(assess(_with_memory_limit(figure, ladder, facts)) for figure in ladder.benchmark)


def _with_memory_limit(figure: Measurement, ladder: Ladder, facts: Facts) -> Measurement:
    """Newer drivers tell CUDA no memory clock; NVML knows it."""
    if figure.name != "d2d" or figure.limit is not None:
        return figure
    limit, limit_from = _memory_limit(figure.gpu, ladder, facts)
    return msgspec.structs.replace(figure, limit=limit, limit_from=limit_from)


def _memory_limit(index: int, ladder: Ladder, facts: Facts) -> tuple[float | None, str | None]:
    """Memory clock x bus width x 2 (double data rate), in GB/s, as NVML states them."""
    nvml = value(facts, NVML)
    address = next((device.address for device in ladder.devices if device.index == index), None)
    gpu = next((entry for entry in nvml.gpus if entry.address == address), None) if nvml is not None else None
    if gpu is None or not gpu.memory_clock_max_mhz or not gpu.memory_bus_bits:
        return None, None
    rate = 2 * gpu.memory_clock_max_mhz * 1e6 * gpu.memory_bus_bits / 8 / 1e9
    return rate, f"2 x {gpu.memory_clock_max_mhz} MHz x {gpu.memory_bus_bits} bit (NVML)"


# ---------------------------------------------------------------- timing and notes
def timing(evidence: Evidence) -> report.Timing:
    seconds = {item.id: item.seconds for item in evidence.items}
    per_row = {check.id: round(max((seconds.get(item, 0.0) for item in check.items), default=0.0), 3) for check in CHECKS}
    return report.Timing(total_s=None, rows=per_row)


def notes(facts: Facts, evidence: Evidence, judged: Judged, past: Sequence[str]) -> tuple[str, ...]:
    """What a reader should know that is no finding."""
    out: list[str] = []
    if evidence.python_why and evidence.python is None:
        out.append(f"No Python was examined: {evidence.python_why}.")
    out.extend(_nodes_note(facts))
    out.extend(_stand_ins(facts))
    python = value(facts, PYTHON)
    if python is not None and python.package("numba") is None and python.others_with_numba:
        out.append(
            f"The examined Python has no Numba, but {', '.join(python.others_with_numba)} has: "
            "name it with --python if your program runs there."
        )
    ladder = value(facts, LADDER)
    if ladder is not None and ladder.numba is not None and ladder.numba.python and ladder.result("numba-kernel"):
        out.append(f"The examined Python has no Numba; the Numba kernels ran in the doctor's own ({ladder.numba.python}).")
    hangs = value(facts, HANGS)
    for hang in hangs.entries if hangs is not None else ():
        stuck = " and could not be ended" if hang.uninterruptible else ""
        out.append(f"{hang.what} gave no answer within {hang.seconds:g} s{stuck}.")
    out.extend(_history(judged))
    if judged.not_now is not None:
        out.append(
            f"The text says: {_said(judged.not_now)}. That is not so at present: what it breaks works now. "
            "Run the program again; if it fails, give the new text with --log."
        )
    out.extend(f"From the kernel log, of the past: {line}" for line in past)
    return tuple(out)


def _history(judged: Judged) -> list[str]:
    """What in a text is only the aftermath of the root, and what is the state of before."""
    out = []
    root, last = judged.diagnosis.root, _last_line(judged.diagnosis.explains)
    if root is not None and last is not None and last[0] > (_line_of(root) or 0):
        words = last[1].text.strip().splitlines()[-1]
        out.append(f'The last error of the text ("{words}") is a consequence of the cause: {root.title}.')
    for finding in judged.past:
        quote = finding.evidence[-1]
        words = quote.text.strip().splitlines()[0]
        out.append(f'Line {quote.first} ("{words}") is of an earlier attempt or another machine; the last state decides.')
    return out


def _line_of(finding: Finding) -> int | None:
    return max((quote.last for quote in finding.evidence if quote.source == "text" and quote.last is not None), default=None)


def _last_line(findings: Sequence[Finding]) -> tuple[int, Quote] | None:
    """The last line of the user's text that shows one of these."""
    quotes = [quote for finding in findings for quote in finding.evidence if quote.source == "text" and quote.last is not None]
    return max(((quote.last or 0, quote) for quote in quotes), key=lambda entry: entry[0], default=None)


def _stand_ins(facts: Facts) -> list[str]:
    """A package of the doctor's own that is missing or broken, and what served instead."""
    nvml, processes = value(facts, NVML), value(facts, PROCESSES)
    out = []
    if nvml is not None and nvml.provider_error is not None:
        asked = nvml.provider or "nobody"
        out.append(f"The package nvidia-ml-py could not be used as it should ({nvml.provider_error}); NVML was asked by {asked}.")
    if processes is not None and processes.provider_error is not None:
        out.append(f"The package psutil could not be used ({processes.provider_error}); {processes.provider or '/proc'} served instead.")
    return out


def _nodes_note(facts: Facts) -> list[str]:
    before, after = value(facts, DEVICE_NODES), value(facts, DEVICE_NODES_AFTER)
    if (before is None and isinstance(facts.get(DEVICE_NODES), Unknown)) or after is None:
        return []
    had = {node.path for node in before.nodes} if before is not None else set()
    made = [node.path for node in after.nodes if node.path not in had and node.path.startswith("/dev/nvidia")]
    if not made:
        return []
    helper = value(facts, NVIDIA_MODPROBE)
    by = "nvidia-modprobe" if helper else "the driver's libraries, with the rights of root"
    return [f"Opening the driver made {', '.join(made)} (by {by}); the rows show the machine as it was before."]
