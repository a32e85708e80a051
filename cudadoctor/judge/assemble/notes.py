"""What a reader should know that is no finding: what was asked of whom, what is of the past, what gave no answer."""

from __future__ import annotations

from collections.abc import Sequence

from cudadoctor.checks import node_access, visible_devices
from cudadoctor.checks.reading import climbed, driver_answers
from cudadoctor.judge.assemble.rows import said
from cudadoctor.judge.experiments import kept_out
from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.evidence import Evidence
from cudadoctor.model.facts import Facts, NotKnown, Quote
from cudadoctor.model.findings import Finding, Judged
from cudadoctor.model.values import (
    DCGM,
    DEVICE_NODES,
    DEVICE_NODES_AFTER,
    HANGS,
    KERNEL_LOG,
    NVIDIA_MODPROBE,
    NVML,
    PROCESSES,
    PYTHON,
    SMI,
    SPACED_NAMES,
    Ladder,
    SpacedName,
)

_SLOW = (
    ", while NVML and cuInit answered: the driver is well. Without persistence mode nvidia-smi starts every GPU again, a second "
    "or more for each (nvidia-smi -pm 1, or the service nvidia-persistenced, keeps them started)"
)


def notes(facts: Facts, evidence: Evidence, judged: Judged, past: Sequence[str], knowledge: Knowledge) -> tuple[str, ...]:
    """What a reader should know that is no finding."""
    out: list[str] = []
    if judged.excused:
        out.append(f"{'CUDA did not answer' if evidence.quick else 'No Numba kernel was seen to be right'} because of what is expected.")
    if evidence.python_why and evidence.python is None:
        out.append(f"No Python was examined: {evidence.python_why}.")
    out.extend(_nodes_note(facts))
    out.extend(_stand_ins(facts))
    python = facts.value(PYTHON)
    if python is not None and python.package("numba") is None and python.others_with_numba:
        out.append(
            f"The examined Python has no Numba, but {', '.join(python.others_with_numba)} has: "
            "name it with --python if your program runs there."
        )
    ladder = climbed(facts)
    if ladder.numba is not None and ladder.numba.python and ladder.result("numba-kernel"):
        out.append(_stand_in(ladder, ladder.numba.python))
    hangs = facts.value(HANGS)
    for hang in hangs.entries if hangs is not None else ():
        stuck = " and could not be ended" if hang.uninterruptible else ""
        slow = hang.item == "nvidia-smi" and _driver_answers(facts)
        out.append(f"{hang.what} gave no answer within {round(hang.seconds, 1):g} s{stuck}{_SLOW if slow else ''}.")
    out.extend(one for one in (node_access.note(facts), visible_devices.note(facts)) if one is not None)
    out.extend(_spaced(facts, knowledge))
    out.extend(_history(judged))
    if judged.verdict == "undecided" and evidence.origin != "text" and not evidence.quick and kept_out(facts, evidence):
        out.append("Nothing was tried, for others compute on the GPU: check again when it is free.")
    if judged.not_now is not None:
        out.append(
            f"The text says: {said(judged.not_now)}. That is not so at present: what it breaks works now. "
            "Run the program again; if it fails, give the new text with --log."
        )
    if judged.diagnosis.by_words:
        out.append(
            "No message of this text is known: the possible causes rest on its words alone, likeliest first. "
            "Ask the machine before you change anything."
        )
    smi = facts.value(SMI)
    if judged.verdict == "healthy" and smi is not None and smi.failure is not None:
        out.append(f'nvidia-smi failed ("{smi.failure.splitlines()[0]}"), and every GPU that was asked answered all the same.')
    out.extend(_of_bundle(facts, evidence, judged))
    out.extend(f"From the kernel log, of the past: {line}" for line in past)
    return tuple(out)


def _of_bundle(facts: Facts, evidence: Evidence, judged: Judged) -> list[str]:
    """Where the evidence is another tool's report: what that cannot show, and what in it is open."""
    out = list(evidence.remarks)
    for finding in judged.unsettled:
        quote = finding.evidence[-1]
        words = f'{quote.source} says: "{quote.text.strip().splitlines()[0]}"'
        out.append(f"{words[:1].upper()}{words[1:]}. That may be {finding.cause}; NVML answers all the same, and no line settles it.")
    diag = facts.value(DCGM)
    if diag is not None and diag.skipped:
        out.append(f"DCGM skipped {', '.join(diag.skipped[:6])}.")
    if evidence.bundle is not None and judged.verdict in ("healthy", "degraded"):
        if facts.why_unknown(KERNEL_LOG) is not None:
            out.append(f"No kernel log is in {evidence.bundle}: what the driver reported there (Xid) is not known.")
        out.append(f"{evidence.bundle} runs no CUDA program; `cudadoctor check` on the machine itself also tries kernels.")
    return out


def _stand_in(ladder: Ladder, python: str) -> str:
    """Whose Numba ran where the examined Python has none, or why nobody's did."""
    skipped = next((entry.why for entry in ladder.result("numba-kernel") if entry.status == "skip"), None)
    if skipped is not None:
        return f"The examined Python has no Numba, and {skipped} ({python}). No Numba kernel ran; `cudadoctor fix` prints what is missing."
    return f"The examined Python has no Numba; the Numba kernels ran in the doctor's own ({python})."


def _history(judged: Judged) -> list[str]:
    """What in a text is only the aftermath of the root, and what is the state of before."""
    out = []
    root, last = judged.diagnosis.root, max(_lines_of(*judged.diagnosis.explains), key=lambda entry: entry[0], default=None)
    if root is not None and last is not None and last[0] > max((line for line, _ in _lines_of(root)), default=0):
        words = last[1].text.strip().splitlines()[-1]
        out.append(f'The last error of the text ("{words}") is a consequence of the cause: {root.title}.')
    for finding in judged.past:
        quote = finding.evidence[-1]
        words = quote.text.strip().splitlines()[0]
        out.append(f'Line {quote.first} ("{words}") is of an earlier attempt or another machine; the last state decides.')
    return out


def _lines_of(*findings: Finding) -> list[tuple[int, Quote]]:
    """The quotes of the user's text that show these, each with its last line."""
    quotes = (quote for finding in findings for quote in finding.evidence if quote.source == "text")
    return [(quote.last, quote) for quote in quotes if quote.last is not None]


def _stand_ins(facts: Facts) -> list[str]:
    """A package of the doctor's own that is missing or broken, and what served instead."""
    nvml, processes = facts.value(NVML), facts.value(PROCESSES)
    out = []
    if nvml is not None and nvml.provider_error is not None:
        asked = nvml.provider or "nobody"
        out.append(f"The package nvidia-ml-py could not be used as it should ({nvml.provider_error}); NVML was asked by {asked}.")
    if processes is not None and processes.provider_error is not None:
        out.append(f"The package psutil could not be used ({processes.provider_error}); {processes.provider or '/proc'} served instead.")
    return out


def _nodes_note(facts: Facts) -> list[str]:
    before, after = facts.value(DEVICE_NODES), facts.value(DEVICE_NODES_AFTER)
    had = {node.path for node in before.nodes} if before is not None else set()
    known = after.nodes if after is not None and facts.why_unknown(DEVICE_NODES) is None else ()
    made = [node.path for node in known if node.path not in had and node.path.startswith("/dev/nvidia")]
    if not made:
        return []
    by = "nvidia-modprobe" if facts.value(NVIDIA_MODPROBE) else "the driver's libraries, with the rights of root"
    return [f"Opening the driver made {', '.join(made)} (by {by}); the rows show the machine as it was before."]


def _spaced(facts: Facts, knowledge: Knowledge) -> list[str]:
    """Variables that were set to no effect, because a blank stands beside their name: one note for each that is known.

    A note and no finding: no cause of the vocabulary is about a variable that is *not* set (the simulator that somebody wanted is off, the
    GPU that somebody chose is not chosen), nothing fails for it, and what does fail has a cause of its own.
    """
    fact = facts.there(SPACED_NAMES)
    if fact is None:
        return []
    known = ({row.name for row in knowledge.env_vars} | {row.name for row in knowledge.numba_env}) - {"PATH"}  # csh sets that one so
    lines = {quote.first: quote.text.strip("\r\n") for quote in reversed(fact.quotes)}
    named = [entry for entry in fact.need() if entry.name.upper() in known]
    return list(dict.fromkeys(_spaced_note(entry, lines.get(entry.line, entry.name)) for entry in named))


def _spaced_note(entry: SpacedName, line: str) -> str:
    name = entry.name
    if entry.command == "export":
        return f'"{line.strip()}" sets nothing: a shell refuses blanks around the = sign. Write: export {name}=VALUE'
    if entry.command == "set":
        return (
            f'"{line.strip()}" sets a variable whose name ends in a blank, and no program reads that one. In cmd write set {name}=VALUE, '
            f'without blanks around the = sign; in PowerShell $env:{name}="VALUE"; in a Linux shell export {name}=VALUE.'
        )
    return (
        f'The environment holds a variable whose name has a blank beside it ("{line}"): no program reads that one. '
        f"{name} has to be set without blanks around the = sign."
    )


def _driver_answers(facts: Facts) -> bool:
    try:
        return driver_answers(facts)
    except NotKnown:
        return False
