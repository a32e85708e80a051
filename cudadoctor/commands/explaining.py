"""What `cudadoctor explain` answers: first that fits of `-`, a cause id, a code, a thing, a file, a text."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import IO, TYPE_CHECKING

import msgspec

from cudadoctor.commands import terminal
from cudadoctor.knowledge import lookup
from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.explanation import CauseDocument, Explanation, Fix
from cudadoctor.model.findings import Finding
from cudadoctor.model.recipe import Prescription, Step
from cudadoctor.report import explanation_text
from cudadoctor.report.page import Style

if TYPE_CHECKING:
    from cudadoctor.model.evidence import Evidence
    from cudadoctor.model.report import Report
    from cudadoctor.report import screen
    from cudadoctor.sources.bundles import Opened
    from cudadoctor.within.asking import Judge

RECORDING = "recording.json"
# One system of each family whose commands are known, the release that most people run.
SYSTEMS = {
    "ubuntu-24.04": "Ubuntu", "debian-13": "Debian", "fedora-42": "Fedora", "silverblue-42": "Fedora's images",
    "rhel-9": "RHEL and its kin", "arch": "Arch", "opensuse-leap-15.6": "openSUSE", "nixos-25.05": "NixOS", "windows-11": "Windows",
}  # fmt: skip
_HEAD_END = re.compile(r";|\.(?:\s|$)")  # where the first words of a step end
_NUMBERED = re.compile(r"(?i)^(s?xid)[-_#](\d{1,6})$")  # Xid-79
_CODE, _KINDS = re.compile(r"(?P<kind>[A-Za-z]{2,5})[ :#_-]?(?P<number>\d{1,6})"), ("Xid", "SXid", "CUDA", "NVML")
_FILE = re.compile(r"[\w.+-]{1,200}\.(?:log|txt|out|err|gz|zip|xz|html?|json|ya?ml)")
_BRACKETS = re.compile(r" \([^()]*\)")  # words beside the sentence; those of a call have no blank before them
_COMMON = re.compile(
    r"(?!Linux|Windows|Docker|Numba|Python|Kubernetes|Podman)[A-Z][a-z]*\b(?![A-Z])"
)  # a first word that is small within a sentence


class NotUnderstoodError(Exception):
    """What was asked is none of these; the message names the nearest."""


def answer(
    what: str, knowledge: Knowledge, judge: Callable[[], Judge], *, form: str, style: Style, distro: str | None, stdin: IO[bytes]
) -> tuple[str, int]:
    """The output and the exit code. `judge` gives the child that judges, which only a text needs."""
    found = _named(what, knowledge)
    if found is not None:
        return (_json(found) if form == "json" else _page(found, knowledge, style, distro)), 0
    machines = _machines(what, knowledge, stdin)
    return _text(what, machines, judge(), knowledge, form, style, distro)


def _named(what: str, knowledge: Knowledge) -> Explanation | None:
    """The code, cause or thing that is asked about; None where it is a text or a file."""
    if what == "-" or _has_separator(what):
        return None
    what = _NUMBERED.sub(r"\1 \2", what)
    try:
        return lookup.explain_code(what, knowledge)
    except lookup.NoSuchError as error:
        if not os.path.exists(what):
            raise NotUnderstoodError(str(error)) from error
        return None


# ---------------------------------------------------------------- texts and files
def _machines(what: str, knowledge: Knowledge, stdin: IO[bytes]) -> tuple[Evidence, ...]:
    """What is to be judged: the machines of a bundle, or a text as the only evidence."""
    from cudadoctor.sources import bundles, pasted

    try:
        if what == "-":
            return _of_opened(bundles.of_stream(stdin), "standard input", "PATH")
        if _is_path(what):
            folder = os.path.dirname(what) or os.curdir if os.path.basename(what) == RECORDING else what
            found = bundles.Opened(recording=True) if os.path.exists(os.path.join(folder, RECORDING)) else bundles.opened(what)
            return _of_opened(found, what, folder)
    except bundles.BundleError as error:
        raise NotUnderstoodError(str(error)) from error
    mistyped = _CODE.fullmatch(what)
    if mistyped is not None and terminal.nearest(mistyped["kind"], _KINDS):
        raise NotUnderstoodError(f"{what!r} is no code{terminal.nearest(what, (f'{kind} {mistyped[2]}' for kind in _KINDS))}")
    if what.strip() and any(letter.isspace() for letter in what):
        return (pasted.evidence_of(os.fsencode(what)),)
    if _FILE.fullmatch(what):
        raise NotUnderstoodError(f"there is no file {what} in this folder")
    raise NotUnderstoodError(f"{what!r} is no cause, code, variable, GPU, version, file or text{terminal.nearest(what, _names(knowledge))}")


def _of_opened(found: Opened, name: str, folder: str) -> tuple[Evidence, ...]:
    """A recording is refused with the command that reads it."""
    if found.recording:
        raise NotUnderstoodError(f"{name} is a recording: use `{terminal.called()} check --replay {_typed(folder)}`")
    from cudadoctor.sources import pasted

    if found.text is not None and not found.machines and not pasted.is_text(found.text.body):
        raise NotUnderstoodError(f"{name} holds no text: give what a program printed, a recording or a bundle")
    return found.machines or (pasted.evidence_of(found.text or b""),)


def _typed(path: str) -> str:
    """A path in a command; PATH where it would not stand on one line."""
    from cudadoctor.prescribe import shells

    return shells.typed(f"./{path}" if path.startswith("-") else path) if shells.printable(path) else "PATH"


def _has_separator(what: str) -> bool:
    """Whether it may be a path: Windows has two signs."""
    return any(sign in what for sign in (os.sep, os.altsep) if sign)


def _is_path(what: str) -> bool:
    """What exists; else what has a separator, unless its blanks show that it is a sentence in which a path occurs."""
    if os.path.exists(what):
        return True
    if not _has_separator(what) or "\n" in what:
        return False
    if any(letter.isspace() for letter in what):
        return ": " not in what and os.path.isdir(os.path.dirname(what))
    return True


def _text(
    what: str, machines: Sequence[Evidence], judge: Judge, knowledge: Knowledge, form: str, style: Style, distro: str | None
) -> tuple[str, int]:
    from cudadoctor.model.judgement import Question
    from cudadoctor.report import screen, text

    asked = Question(machines=tuple(msgspec.structs.replace(machine, distro=distro) for machine in machines))
    report = judge.answer(asked).report
    if form == "json":
        return _json(report), report.exit_code
    whole = text.render(report, knowledge, style)
    if style.verbose or screen.fits(whole, style):
        return whole, report.exit_code
    return screen.render(report, knowledge, style, _more(what, report, distro)), report.exit_code


def _more(what: str, report: Report, distro: str | None) -> screen.Commands:
    """What shows all. What was piped or typed has to be given once more."""
    from cudadoctor.report import screen

    asked = f" --distro {_typed(distro)}" if distro is not None else ""
    if what != "-" and _is_path(what):
        more, given = f"{terminal.called()} explain -v{asked} {_typed(what)}", ""
    elif report.diagnosis.root is None and not report.diagnosis.suspects:
        more, given = f"{terminal.called()} check", ""
    else:
        more, given = f"{terminal.called()} explain -v{asked} -", ", with the same text"
    return screen.Commands(more, more, more, given=given)


def _json(value: Report | Explanation) -> str:
    from cudadoctor.report import json

    return json.render(value)


# ---------------------------------------------------------------- what nothing fits
def _names(knowledge: Knowledge) -> list[str]:
    from cudadoctor.knowledge.lookup import topics

    cuda = (name for error in knowledge.cuda_errors for name in (error.driver_name, error.runtime_name) if name)
    return [*knowledge.causes, *cuda, *(error.name for error in knowledge.nvml_errors), *topics.names(knowledge)]


# ---------------------------------------------------------------- pages
def _page(found: Explanation, knowledge: Knowledge, style: Style, distro: str | None) -> str:
    if found.kind == "cause":
        return explanation_text.of_cause(document(found.query, knowledge, distro or own_system(knowledge)), style)
    named = [cause for match in found.matches for cause in match.causes] + [cause for thing in found.topics for cause in thing.causes]
    gpu = next((thing.compute_capability for thing in found.topics if thing.compute_capability is not None), None)
    causes = {cause: _in_short(cause, knowledge, distro, gpu) for cause in dict.fromkeys(named) if cause in knowledge.causes}
    if found.kind == "topic":
        return explanation_text.of_topics(found.topics, causes, style)
    return explanation_text.of_codes(found.matches, causes, style)


def steps_of(cause_id: str, knowledge: Knowledge, distro: str | None, gpu: str | None = None) -> Prescription | None:
    """What is known of the fix without a machine; `gpu`: the compute capability that the page is about."""
    from cudadoctor import prescribe
    from cudadoctor.model.facts import Fact, Facts
    from cudadoctor.model.values import NAMED_GPUS, NamedGpu
    from cudadoctor.model.version import ComputeCapability

    named = (NamedGpu(capability=ComputeCapability(gpu)),) if gpu is not None else None
    facts = Facts(() if named is None else (Fact[object](key=NAMED_GPUS.name, value=named, quotes=(), origin="text"),))
    cause = knowledge.cause(cause_id)
    finding = Finding(
        cause=cause.id, layer=cause.layer, title=cause.title, subject="machine", effect=cause.effect, basis="suspected", evidence=()
    )
    return prescribe.prescribe(finding, {}, facts, knowledge, distro)


def _in_short(cause_id: str, knowledge: Knowledge, distro: str | None, gpu: str | None) -> explanation_text.InShort:
    """A cause on the page of something else."""
    cause = knowledge.cause(cause_id)
    steps = steps_of(cause_id, knowledge, distro, gpu)
    curable = steps is not None and cause.no_software_fix is None
    fix = cause.no_software_fix or ("none is known" if steps is None else _heads(steps.steps))
    return explanation_text.InShort(title=cause.title, tell_apart=cause.tell_apart, fix=fix, curable=curable)


def _heads(steps: Iterable[Step]) -> str:
    """The words of each step before its first full stop or semicolon, without what stands in brackets, in one sentence."""
    heads = (_HEAD_END.split(_BRACKETS.sub("", step.text), maxsplit=1)[0].strip() for step in steps)
    first, *others = dict.fromkeys(heads)
    return "; ".join([first, *(_COMMON.sub(lambda word: word[0].lower(), head, count=1) for head in others)]) + "."


# ---------------------------------------------------------------- a cause's page, for the terminal and as a file
def document(cause_id: str, knowledge: Knowledge, distro: str | None = None) -> CauseDocument:
    """Everything that a cause's page says. Without a distribution: the steps of every family that has any, alike ones together."""
    found = lookup.explain_code(cause_id, knowledge)
    if found is None or found.cause is None:
        raise KeyError(cause_id)
    others = [other for other in knowledge.causes_naming(cause_id) if cause_id in knowledge.cause(other).yields_to]
    named = (*found.cause.yields_to, *others)
    written = {system: steps_of(cause_id, knowledge, system) for system in (*SYSTEMS, *filter(None, (distro,)))}
    lists = {name: one.steps for name, one in written.items() if one is not None and any(step.id for step in one.steps)}
    alike: dict[str, list[str]] = {}
    for name, steps in lists.items():
        alike.setdefault(repr(steps), []).append(name)
    shown = [names for names in alike.values() if distro is None or distro in names]
    called = {} if len(alike) == 1 else SYSTEMS if distro is None else {distro: distro}
    return CauseDocument(
        page=found.cause,
        titles={other: knowledge.cause(other).title for other in named if other in knowledge.causes},
        yielded_by=tuple(others),
        fixes=tuple(Fix(systems=tuple(called[name] for name in names if name in called), steps=lists[names[0]]) for names in shown),
    )


def own_system(knowledge: Knowledge) -> str | None:
    """This machine's distribution, in the words of --distro; None where it is not known."""
    import platform

    from cudadoctor.prescribe import distribution

    if sys.platform == "win32":
        return "windows-11"
    try:
        said = platform.freedesktop_os_release()
    except OSError:
        return None
    word = "-".join(filter(None, ("wsl" if "microsoft" in platform.release().lower() else "", said.get("ID"), said.get("VERSION_ID"))))
    return word if distribution.known_word(word, knowledge) else None


def listing(knowledge: Knowledge, form: str) -> str:
    causes = knowledge.causes.values()
    if form == "json":
        from cudadoctor.report import json

        return json.indented([{"cause": cause.id, "layer": cause.layer, "row": cause.row, "title": cause.title} for cause in causes])
    return "".join(f"{cause.id:<34} {cause.layer:<12} {cause.title}\n" for cause in causes)
