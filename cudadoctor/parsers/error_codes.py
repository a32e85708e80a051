"""Recognises the codes of every API in a text: CUDA's driver and runtime, NVML, nvidia-smi, Xid. No other module does.

A code shows itself as a name (CUDA_ERROR_NO_DEVICE, NVMLError_Unknown), as the message that the API gives for it, or as a number in
a context that says whose number it is ("[100] Call to cuInit", "cuda runtime error (35)"). On one line a name outranks a message and a
message a number, for they state the same thing and numbers changed with CUDA 10.1. What a code means is in the tables: with one candidate
cause it states that cause, with several it only raises suspicion.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Literal

import msgspec

from cudadoctor.knowledge.codes import CudaError, NvmlError, SmiExit, SmiMessage, Xid
from cudadoctor.model.addresses import normal_address
from cudadoctor.model.facts import Quote
from cudadoctor.model.findings import Clue
from cudadoctor.model.pattern import lazy
from cudadoctor.parsers import code_numbers, code_words
from cudadoctor.parsers.base import Text
from cudadoctor.parsers.lines import Hit, Lines, prepared

if TYPE_CHECKING:
    from cudadoctor.knowledge.load import Knowledge

Api = Literal["cuda", "nvml", "xid", "nvidia-smi"]
Meaning = CudaError | NvmlError | SmiExit | SmiMessage | Xid
Literally = tuple[Api, CudaError | NvmlError | SmiMessage]  # whose message some words are, and its row
NAME, MESSAGE, NUMBER = 0, 1, 2  # how surely a line's code is read
CHANNEL_REMOVED, RECOVERY_CHANGED = 45, 154  # Xids

_OF_HOOK = "nvml error: "  # nvidia-container-cli
_ANCHORS: tuple[tuple[str, Api], ...] = (
    ("CUDA_ERROR_", "cuda"),
    ("cudaError", "cuda"),
    ("NVML_ERROR_", "nvml"),
    ("NVMLError_", "nvml"),
)
_WORD = lazy(r"\w+")
_NVML_WORD = lazy(r"NVML|nvml")
_GPUSTAT = lazy(r"Error on querying NVIDIA devices|An error while retrieving ")  # gpustat prints NVML's bare message beside it
_SMI_WORD = lazy(r"nvidia-smi")
_HOOK = lazy(r"nvidia-container-cli(?:\.real)?: $")  # its "initialization error" is no code of CUDA
_HOOK_NVML = lazy(r"nvml error: ([a-z/ ]+)")  # libnvidia-container prints NVML's message in small letters

# The forms of programs beside the kernel's: of Kubernetes' device plugin, of DCGM, of its exporter.
_XID_OF_PROGRAM = lazy(r"\bXid=(\d{1,3}) on Device=|\bDetected XID (\d{1,3}) for GPU|XID_ERRORS\{[^}\n]{0,600}\} ([1-9]\d{0,2})\b")
_XID_NAMED = lazy(r"\bX(?:id|ID)s?(?: (?:[Ee]rrors?|code|number|event))?(?:[ :#]{1,3}(\d{1,3})\b(?!:\d)|\((\d{1,3})\))")  # by people
_REST = 400  # characters of an Xid's own line that are looked at behind its number
_NEW_ACTION = lazy(r"recovery action changed from .{1,60}? to 0x(?P<action>[0-9a-f]{1,4}) \(")
_EARLIER_XID = lazy(r"previous Xid (\d{1,3})\b")


class CodeHit(msgspec.Struct, frozen=True, kw_only=True):
    """One code on one line (`last` differs where a wrap splits it; both 0: not in the text, but the program's exit status)."""

    api: Api
    number: int | None
    name: str | None
    line: int
    last: int
    subject: str = "machine"
    causes: tuple[str, ...] = ()
    suspect_only: bool = False


class _Found(msgspec.Struct, frozen=True):
    hit: Hit
    code: CodeHit
    rank: int


def literals(knowledge: Knowledge) -> Iterator[str]:
    yield from (anchor for anchor, _ in _ANCHORS)
    yield from knowledge.once("error messages", lambda: _literals(knowledge))
    yield from (_OF_HOOK, *code_words.LITERALS, *code_numbers.LITERALS)


def codes_in(text: Text, knowledge: Knowledge) -> tuple[CodeHit, ...]:
    """Every code that the text shows, in the order of its lines. Success is not a code."""
    lines = prepared(text)
    found = list(_xids(lines, knowledge))
    if text.item is None or text.item.id != "kernel-log":  # the kernel prints Xids and no code of another API
        words = chain(code_words.own_words(lines, knowledge), code_words.short_names(lines, knowledge))
        ranked: tuple[tuple[int, Iterable[tuple[Hit, Literally]]], ...] = (
            (NAME, _names(lines, knowledge)),
            (MESSAGE, chain(_messages(lines, knowledge, text), _hook_messages(lines, knowledge))),
            (MESSAGE, ((hit, ("cuda", row)) for hit, row in words)),
            (NUMBER, ((hit, ("cuda", row)) for hit, row in code_numbers.of_cuda(lines, knowledge))),
            (NUMBER, ((hit, ("nvml", row)) for hit, row in code_numbers.of_nvml(lines, knowledge))),
        )
        found += (_Found(hit, _code(api, row, hit), rank) for rank, places in ranked for hit, (api, row) in places)
    best: dict[tuple[int, Api], int] = {}
    for entry in found:
        key = (entry.hit.first, entry.code.api)
        best[key] = min(entry.rank, best.get(key, NUMBER))
    kept = _without_lists([entry for entry in found if entry.rank == best[entry.hit.first, entry.code.api]], lines)
    unique = dict.fromkeys(entry.code for entry in sorted(kept, key=lambda entry: (entry.hit.first, entry.hit.last, entry.hit.start)))
    return (*unique, *_exit_status(text, knowledge, tuple(unique)))


def clues(text: Text, knowledge: Knowledge, *, from_rung: str | None = None, is_text: bool = False) -> tuple[Clue, ...]:
    """The causes that the text's codes name: stated where a code has one candidate, else suspected, likeliest first."""
    places: dict[CodeHit, list[CodeHit]] = {}
    for code in codes_in(text, knowledge):
        places.setdefault(msgspec.structs.replace(code, line=0, last=0), []).append(code)
    return tuple(
        clue for code, shown in places.items() for clue in _clues_of(code, _quotes(text, shown), from_rung=from_rung, is_text=is_text)
    )


def code_clues(
    api: Api, number: int, quotes: tuple[Quote, ...], knowledge: Knowledge, *, from_rung: str | None = None, is_text: bool = False
) -> tuple[Clue, ...]:
    """The same for a code that some worker gave as a number."""
    tables = {"cuda": knowledge.cuda_error, "nvml": knowledge.nvml_error, "xid": knowledge.xid, "nvidia-smi": knowledge.smi_exit}
    row: Meaning | None = tables[api](number)
    return () if row is None else _clues_of(_code(api, row), quotes, from_rung=from_rung, is_text=is_text)


def _clues_of(code: CodeHit, quotes: tuple[Quote, ...], *, from_rung: str | None, is_text: bool) -> tuple[Clue, ...]:
    basis: Literal["stated", "suspected"] = "stated" if len(code.causes) == 1 and not code.suspect_only else "suspected"
    by = f"{code.api} {code.number}" if code.number is not None else None
    return tuple(
        Clue(cause=cause, quotes=quotes, basis=basis, subject=code.subject, from_rung=from_rung, text=is_text, code=by)
        for cause in code.causes
    )


def _quotes(text: Text, shown: list[CodeHit]) -> tuple[Quote, ...]:
    """The first place and the last, the last only where its words differ."""
    made = [text.quote(code.line, code.last) if code.line else text.absent(f"exit status {code.number}") for code in (shown[0], shown[-1])]
    return (made[0],) if made[0].text == made[1].text else tuple(made)


def _code(api: Api, row: Meaning, hit: Hit | None = None, subject: str = "machine") -> CodeHit:
    return CodeHit(
        api=api,
        number=row.number if isinstance(row, Xid) else row.code,
        name=None if isinstance(row, SmiExit | SmiMessage) else row.name,
        line=0 if hit is None else hit.first,
        last=0 if hit is None else hit.last,
        subject=subject,
        causes=row.causes,
        suspect_only=row.suspect_only,
    )


def _without_lists(found: list[_Found], lines: Lines) -> list[_Found]:
    """Without the codes that merely stand in a list. A number that a call gave, and an Xid that the kernel printed, are reported."""
    for api in ("cuda", "nvml", "xid"):
        named = {
            entry.hit.first: entry.code.number or 0
            for entry in found
            if entry.code.api == api and entry.rank != NUMBER and not (api == "xid" and "Xid (" in lines.entries[entry.hit.entry])
        }
        listed = code_words.in_lists(named.items())
        found = [entry for entry in found if entry.hit.first not in listed or entry.code.api != api] if listed else found
    return found


# ---------------------------------------------------------------- names
def _names(lines: Lines, knowledge: Knowledge) -> Iterator[tuple[Hit, Literally]]:
    for anchor, api in _ANCHORS:
        end = 0
        for at in lines.at(anchor):
            if at < end:
                continue  # within the word before
            word = _WORD.match(lines.text, at)
            end = at + len(anchor) if word is None else word.end()
            hit = lines.hit(at, end)
            row = knowledge.cuda_error(lines.text[at:end]) if api == "cuda" else knowledge.nvml_error(lines.text[at:end])
            if hit is not None and row is not None and not code_words.is_source_code(lines, hit):
                yield hit, (api, row)


# ---------------------------------------------------------------- messages
def _literals(knowledge: Knowledge) -> dict[str, Literally]:
    """Every message by its words."""
    every: Iterator[tuple[str, Literally]] = chain(
        ((row.text, ("nvidia-smi", row)) for row in knowledge.smi_messages),
        ((words, ("nvml", row)) for row in knowledge.nvml_errors if row.code for words in row.messages),
        ((words, ("cuda", row)) for row in knowledge.cuda_errors if row.code for words in row.messages),
    )
    return dict(reversed(list(every)))  # of two with the same words the first counts


def _messages(lines: Lines, knowledge: Knowledge, text: Text) -> Iterator[tuple[Hit, Literally]]:
    taken: dict[int, list[Hit]] = {}
    known = knowledge.once("error messages", lambda: _literals(knowledge))
    longest_first = sorted(lines.present(known), key=lambda words: (-len(words), words))  # one within another is seen as part of it
    for words in longest_first:
        api, row = known[words]
        for hit in lines.all(words):
            others = taken.setdefault(hit.entry, [])
            if any(other.start <= hit.start and hit.end <= other.end for other in others) or not _whole_words(lines, hit):
                continue
            if code_words.is_advice(lines, hit) or (row.generic and not _in_context(api, lines, hit, text)):
                continue
            others.append(hit)
            yield hit, (api, row)


def _whole_words(lines: Lines, hit: Hit) -> bool:
    entry = lines.entries[hit.entry]
    before = entry[hit.start - 1 : hit.start] if hit.start else ""
    return not before.isalnum() and not (entry[hit.end - 1].isalnum() and entry[hit.end : hit.end + 1].isalnum())


def _in_context(api: Api, lines: Lines, hit: Hit, text: Text) -> bool:
    """Whether words that other software prints too are this API's here."""
    before = lines.before(hit)
    if api == "nvml":
        return _NVML_WORD.search(before) is not None or _GPUSTAT.search(lines.previous(hit, 3) + before) is not None
    if api == "nvidia-smi":
        own = text.item is not None and text.item.id == "nvidia-smi"
        return own or _SMI_WORD.search(lines.previous(hit, 2)) is not None
    if _HOOK.search(before):
        return False
    # deviceQuery prints the call on one line and "-> message" on the next.
    return code_words.CUDA_WORD.search(lines.previous(hit, 1) if before.strip() == "->" else before) is not None


def _hook_messages(lines: Lines, knowledge: Knowledge) -> Iterator[tuple[Hit, Literally]]:
    for start in lines.all(_OF_HOOK):
        match = _HOOK_NVML.match(lines.entries[start.entry], start.start)
        if match is None:
            continue
        fits = [row for row in knowledge.nvml_errors if row.code and match[1].startswith(row.message.lower())]
        if fits:
            yield start, ("nvml", max(fits, key=lambda row: len(row.message)))


# ---------------------------------------------------------------- Xid and the exit status
def _xids(lines: Lines, knowledge: Knowledge) -> Iterator[_Found]:
    if "Xid" not in lines.text and "XID" not in lines.text:
        return
    for match in re.finditer(knowledge.xid_line.regex, lines.text):
        address = normal_address(match["bdf"])
        subject = "machine" if address is None else f"gpu:{address}"
        yield from _xid(int(match["xid"]), lines.hit(*match.span()), lines, knowledge, subject)
    for form in (_XID_OF_PROGRAM, _XID_NAMED):
        for match in form.finditer(lines.text):
            hit = lines.hit(*match.span(), named=form is _XID_NAMED)
            yield from _xid(int(match[match.lastindex or 0]), hit, lines, knowledge, "machine")


def number_places(line: str, knowledge: Knowledge) -> Iterator[tuple[int, int]]:
    """Where a number stands on a line that is read as a code of any API, whatever it means."""
    yield from code_numbers.places(line)
    if "Xid" in line or "XID" in line:
        yield from (match.span("xid") for match in re.finditer(knowledge.xid_line.regex, line))
        yield from (match.span(match.lastindex or 0) for form in (_XID_OF_PROGRAM, _XID_NAMED) for match in form.finditer(line))


def xids_named(text: Text, knowledge: Knowledge) -> Iterator[tuple[int, tuple[str, ...]]]:
    """The lines on which somebody names an Xid, met or not, with its causes."""
    lines = prepared(text)
    for match in _XID_NAMED.finditer(lines.text) if "Xid" in lines.text or "XID" in lines.text else ():
        row, place = knowledge.xid(int(match[match.lastindex or 0])), lines.place(*match.span())
        if row is not None and place is not None:
            yield place.first, row.causes


def _xid(number: int, hit: Hit | None, lines: Lines, knowledge: Knowledge, subject: str) -> Iterator[_Found]:
    if hit is None:
        return
    row = knowledge.xid(number)
    unknown = CodeHit(api="xid", number=number, name=None, line=hit.first, last=hit.last, subject=subject)
    code = unknown if row is None else _code("xid", row, hit, subject)
    causes = _causes_behind(number, lines.entries[hit.entry][hit.end : hit.end + _REST], knowledge)
    yield _Found(hit, code if causes is None else msgspec.structs.replace(code, causes=causes), NAME)


def _causes_behind(number: int, rest: str, knowledge: Knowledge) -> tuple[str, ...] | None:
    """The causes of an Xid whose own line tells more than its number: the recovery that is needed now, or the Xid that it follows."""
    if number == RECOVERY_CHANGED:
        action = _NEW_ACTION.search(rest)
        wanted = None if action is None else int(action["action"], 16)
        return next((row.causes for row in knowledge.recovery_actions if row.value == wanted), None)
    earlier = _EARLIER_XID.search(rest) if number == CHANNEL_REMOVED else None
    row = knowledge.xid(int(earlier[1])) if earlier is not None else None
    return None if row is None else row.causes


def _exit_status(text: Text, knowledge: Knowledge, found: tuple[CodeHit, ...]) -> Iterator[CodeHit]:
    """nvidia-smi's own exit status, where its words did not say as much."""
    if text.item is None or text.item.id != "nvidia-smi" or not text.item.exit or any(code.api in ("nvidia-smi", "nvml") for code in found):
        return
    row = knowledge.smi_exit(text.item.exit)
    if row is not None:
        yield _code("nvidia-smi", row)
