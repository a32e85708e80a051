"""What several formats say in the same words: the line after the verdict, quotes, steps, requirements, expected findings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.experiments import UNCHANGED
from cudadoctor.model.facts import Quote
from cudadoctor.model.findings import Ask, Diagnosis, Finding
from cudadoctor.model.recipe import Kind, Prescription, Step
from cudadoctor.model.report import Report, RequirementResult, Row
from cudadoctor.report.clean import clean, one_line

MET = {True: "met", False: "not met", None: "not known"}
# What a step's command does to the machine, beside the command in every format.
KINDS: dict[Kind, str] = {
    "reads": "changes nothing",
    "session": "for this shell or container only",
    "environment": "changes your packages or settings",
    "system": "changes the system, as root",
    "restart": "restarts a service or the machine: save your work",
    "destructive": "ends programs or removes something",
}


def headline(report: Report) -> str:
    """The line after the verdict. It may hold a machine's words: show it through `one_line`."""
    root = report.diagnosis.root
    if root is not None:
        return root.named
    if report.verdict == "degraded":
        return "figures of the benchmark are slow in every run, and no cause that is known agrees"
    if report.verdict != "healthy":
        return _undecided(report)
    return f"{_healthy(report)}; what is required is not met" if unmet(report) else _healthy(report)


def gpus(report: Report) -> str:
    """`2 x NVIDIA H200`; where nothing names a GPU its architecture. It may hold a machine's words."""
    families = [(gpu.name, (gpu.architecture or "").title()) for gpu in report.machine.gpus]
    named = Counter(name or f"NVIDIA GPU ({family})" for name, family in families if name or family)
    return " + ".join(f"{number} x {name}" if number > 1 else name for name, number in named.items())


def figure(name: str, knowledge: Knowledge) -> str:
    row = knowledge.figure(name)
    return row.title if row is not None else name


def _undecided(report: Report) -> str:
    if report.diagnosis.crashes:
        return "a part of cudadoctor failed, and nothing that it saw explains a fault"
    if report.diagnosis.suspects:
        return "the cause is not certain yet"
    if any(row.id == "text" and row.status == "warn" for row in report.checks):
        return "what the text says is not so at present"
    failed = [row.id for row in report.checks if row.status == "fail"]
    if report.origin.kind == "text" and not failed:
        return "the text shows no failure that is known"
    return f"{' and '.join(failed)} failed, and nothing that was seen explains it" if failed else "too little could be seen for a verdict"


def _healthy(report: Report) -> str:
    expected = next((one for one in report.diagnosis.also if one.ignored is not None and one.effect == "blocks"), None)
    if expected is not None:
        return f"nothing but what the policy expects: {expected.named}"
    if report.origin.kind == "text":
        return "the text shows that a GPU computed, and no failure that is known"
    if report.origin.bundle is not None:
        return f"{_named(report)}: NVML answers, and the report of {report.origin.bundle} shows no failure that is known"
    ran = "CUDA answers" if report.origin.quick else "a Numba kernel ran and its results were right"
    return f"{_named(report)}: {ran}"


def _named(report: Report) -> str:
    """The GPUs that a program sees; in a bundle, where none looked, those that there are."""
    gpus = [gpu for gpu in report.machine.gpus if gpu.visible or report.origin.bundle is not None]
    names = ", ".join(dict.fromkeys(gpu.name or "GPU" for gpu in gpus))
    return f"{len(gpus)} GPUs ({names})" if len(gpus) > 1 else names or "the GPU"


# ---------------------------------------------------------------- experiments
def proof(report: Report) -> str | None:
    """The first line of the fix where an experiment showed the cause."""
    root = report.diagnosis.root
    if root is None or root.proof is None:
        return None
    return f"Tried here: with {root.proof.change}, {root.proof.after} ({root.proof.seconds:.1f} s); without it, the failure came back."


def experiments(report: Report) -> Iterator[str]:
    """What was tried besides: where it worked, and what did not help."""
    root, tried = report.diagnosis.root, report.diagnosis.tried
    shown = root.proof.change if root is not None and root.proof is not None else None
    others = [one for one in tried if one.change != shown]
    for one in others if shown is None else ():
        if one.worked and one.change == UNCHANGED:
            yield f"Run again with {UNCHANGED}, it worked: {one.said}. The failure comes and goes."
        elif one.worked:
            yield f"Tried: with {one.change}, {one.said} ({one.seconds:.1f} s)."
    vain = list(dict.fromkeys(one.change for one in others if one.worked is False and one.change != UNCHANGED))
    if vain and shown is None:
        yield f"Tried without effect: {'; '.join(vain[:4])}" + (f" and {len(vain) - 4} more" if len(vain) > 4 else "") + "."


def because(row: Row) -> str:
    """Why a row stands as it does, where its summary does not say so already; empty else."""
    told = not row.because or row.because.removesuffix(" here") in row.summary or row.summary.startswith("not known")
    return "" if told else f" (because: {row.because})"


# ---------------------------------------------------------------- policy
def unmet(report: Report) -> tuple[RequirementResult, ...]:
    """The requirements that are not met or not known to be."""
    return tuple(result for result in report.requirements if not result.met)


def degraded_fails(report: Report) -> bool:
    """Whether a degraded machine was asked to fail (--strict), as far as its exit code shows it."""
    return report.verdict == "degraded" and report.exit_code == 1 and not unmet(report)


def asked(result: RequirementResult) -> str:
    """`gpus>=2: not met (1 visible to CUDA)`."""
    return one_line(f"{result.text}: {MET[result.met]}" + (f" ({result.said})" if result.said else ""))


def expected(finding: Finding) -> str:
    """`expected: riser with 8 lanes, until 2027-06-30`; empty where the finding counts."""
    if finding.ignored is None:
        return ""
    reason = finding.ignored.reason or "the policy gives no reason"
    until = f", until {finding.ignored.until}" if finding.ignored.until else ""
    by = f" with {finding.ignored.cause}" if finding.ignored.cause != finding.cause else ""
    return one_line(f"expected{by}: {reason}{until}")


# ---------------------------------------------------------------- evidence and steps
def where(quote: Quote) -> str:
    """`nvidia-smi, line 3`."""
    if quote.first is None:
        return one_line(quote.source)
    lines = f"line {quote.first}" if quote.first == quote.last else f"lines {quote.first} to {quote.last}"
    return f"{one_line(quote.source)}, {lines}"


def quoted(quotes: Sequence[Quote]) -> Iterator[str]:
    """Each quote on lines of plain text: where it stands, then its words, four columns in."""
    for quote in quotes:
        yield f"{where(quote)}:"
        yield from (f"    {line}" for line in clean(quote.text).split("\n"))


def fix(report: Report) -> Iterator[str]:
    """Under a heading what was tried, and the steps; nothing where there are none."""
    if report.prescription is None:
        return
    yield from ("", "Fix:")
    shown = proof(report)
    if shown is not None:
        yield one_line(shown)
    yield from steps(report.prescription)


def typed(script: str) -> str:
    """Commands as one line that a shell reads as the same: each only where the one before it ended well."""
    lines = [line for line in script.split("\n") if line]
    return " && ".join(f"{{ {line}; }}" if len(lines) > 1 and ("||" in line or ";" in line) else line for line in lines)


def told(step: Step) -> str:
    """The step's words. Before those of an alternative, and of a step with a condition, stands when they count."""
    if step.mode == "do":
        return step.text
    lead = {"or": "Or, where", "if": "If"}[step.mode] if step.when else "Or"
    return f"{lead} {step.when}: {step.text}" if step.when else f"{lead}: {step.text}"


def standing(cause: str, diagnosis: Diagnosis) -> str:
    """What the diagnosis says of one cause that is not its root."""
    found = {
        "is suspected here": diagnosis.suspects,
        "was found here too": diagnosis.also,
        "was found here, as a consequence": diagnosis.explains,
    }
    for words, findings in found.items():
        if any(finding.cause == cause for finding in findings):
            after = f" of {diagnosis.root.cause}" if diagnosis.root is not None and words.endswith("consequence") else ""
            return f"{cause} {words}{after}"
    return f"{cause} was not found here" if cause in diagnosis.ruled_out else f"nothing that was seen here points to {cause}"


_MOST_COMMANDS = 6  # lines of a command that is shown alone


def first_step(what: Prescription) -> Step:
    """The first of all; where that is only for some, the first with a command that is for everybody. IndexError where there is none."""
    first = what.steps[0]
    return first if first.mode == "do" else next((step for step in what.steps if step.mode == "do" and step.shell is not None), first)


def first_command(what: Prescription | None) -> Step | None:
    """The first step, if its command may be shown alone: nothing that ends, removes or restarts something, nothing that somebody else or a
    condition decides, and no script."""
    step = first_step(what) if what is not None and what.steps else None
    if step is None or step.shell is None or step.shell.count("\n") >= _MOST_COMMANDS:
        return None
    return step if step.who == "user" and step.mode == "do" and step.kind not in ("restart", "destructive") else None


def settles(ask: Ask) -> str:
    """What the output of a command would tell."""
    if len(ask.tells_apart) < 2:
        return f"it shows whether it is {ask.tells_apart[0]}" if ask.tells_apart else ask.why
    return f"it tells apart {', '.join(ask.tells_apart[:4])}"


def labelled(head: str, command: str) -> str:
    """`Verify: nvidia-smi`; several lines stand under their label."""
    return f"{head}: {command}" if "\n" not in command else f"{head}:\n{command}"


def steps(prescription: Prescription) -> Iterator[str]:
    """The steps as lines of plain text, commands four columns in."""
    if prescription.no_software_fix is not None:
        yield one_line(f"{prescription.no_software_fix} What can be done without:")
    for number, step in enumerate(prescription.steps, 1):
        yield one_line(f"{number}. {told(step)}")
        verify = labelled("Verify", step.verify) if step.verify else ""
        for command in (step.shell, verify):
            yield from (f"    {line}" for line in clean(command or "").split("\n") if line)
