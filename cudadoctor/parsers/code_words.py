"""Codes in other clothes, and codes that nobody met: names in a program's own words, and names that stand in source code or in a list.

Used by parsers/error_codes.py, which alone says what a code in a text means.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from cudadoctor.knowledge.codes import CudaError
from cudadoctor.model.pattern import lazy
from cudadoctor.parsers.lines import Hit, Lines

if TYPE_CHECKING:
    from cudadoctor.knowledge.load import Knowledge

CUDA_WORD = lazy(r"CUDA|[Cc]uda|\bcu[A-Z][a-z]|\bPTX\b|\b[Gg][Pp][Uu][Aa]ssert\b")
# Before a name: source code that compares with a code or gives it a value does not report one. Behind it likewise.
_COMPARED = lazy(r"(?:[=!]=|\bcase|#define|^\s{0,40}(?:return|\{))\s{0,20}[\"'(]?[\w.:]{0,60}$")
_DECLARED = lazy(r"[\"']?\s{0,40}(?:=>|=\s{0,8}(?:0x)?\d|:\s{0,8}(?:return|break)\b|\)\s{0,4}(?:\{|return|throw|continue)|,\s{0,8}//)")
_ADVICE = lazy(
    r"(?i)\b(?:if|when(?:ever)?|in case) (?:you|users?) "
    r"(?:see|get|got|encounter|face|run into|hit|receive|meet|have|are getting)\b[^.?\n]{0,90}$"
)
_OTHER_API = lazy(
    r"\b(?:HIP|hip|MIOpen|rocBLAS|Metal|SYCL|Vulkan)(?: runtime)? (?:error|ERROR):? {0,2}$"
)  # AMD's copy of the runtime uses its words
_COUNTERS = lazy(r"(?i)\bcounters?\b[^\n]{0,80}$")  # an administrator's alone by default; the GPU works without them
_BEFORE = 60  # characters before a name that are looked at
_BEFORE_ADVICE = 140
LIST_CODES, LIST_LINES = 6, 40  # so many different codes so close to each other are a list of codes, not what a program met
# PyCUDA and Blender say a code's name in words of their own: "cuInit failed: no device", "CUDA error: Illegal address in cuCtxSynchronize".
_OWN_WORDS = lazy(
    r"(?:\bcu[A-Z]\w{2,40} failed|\bCUDA error(?: at \w{2,40})?|\bCUDA cuInit): "
    r"(?P<words>[A-Za-z][\w-]{1,20}(?: [\w-]{1,16}){0,4}?)(?= in cu|[,:.(\"]|$)"
)
_OWN_ANCHORS = (" failed: ", "CUDA error", "CUDA cuInit: ")
# managedCuda and CUDA.jl leave the prefix out: ErrorIllegalAddress, ERROR_JIT_COMPILER_NOT_FOUND.
_SHORT_NAME = lazy(r"(?<![A-Za-z_])(?:ERROR_(?P<driver>[A-Z][A-Z_]{3,48})|Error(?P<runtime>[A-Z][a-z][A-Za-z]{2,40}))(?![A-Za-z_(])")
_SHORT_ANCHORS = ("ERROR_", "Error")
LITERALS = (*_OWN_ANCHORS, *_SHORT_ANCHORS)
_OF_CUDA = lazy(r"CUDA|[Cc]uda|\bcu[A-Z][a-z]|GPU")
_OWN_NAMES = {
    "NO_CUDA_CAPABLE_DEVICE_AVAILABLE": "NO_DEVICE",
    "LAUNCH_EXCEEDED_RESOURCES": "LAUNCH_OUT_OF_RESOURCES",
    "LAUNCH_EXCEEDED_TIMEOUT": "LAUNCH_TIMEOUT",
    "UNKNOWN_ERROR": "UNKNOWN",
}


def is_source_code(lines: Lines, hit: Hit) -> bool:
    """Whether a name is compared with or declared here, or spoken of in advice."""
    entry = lines.entries[hit.entry]
    before = entry[max(0, hit.start - _BEFORE) : hit.start]
    return _COMPARED.search(before) is not None or _DECLARED.match(entry, hit.end) is not None or is_advice(lines, hit)


def is_advice(lines: Lines, hit: Hit) -> bool:
    """Whether the words are no report of CUDA's: advice for those who meet them, another API's error, counters."""
    before = lines.entries[hit.entry][max(0, hit.start - _BEFORE_ADVICE) : hit.start]
    return any(form.search(before) is not None for form in (_ADVICE, _OTHER_API, _COUNTERS))


def own_words(lines: Lines, knowledge: Knowledge) -> Iterator[tuple[Hit, CudaError]]:
    """CUDA's codes that a program names in its own words, with the line of each."""
    for anchor in _OWN_ANCHORS:
        for hit in lines.ends(anchor):
            for match in _OWN_WORDS.finditer(lines.line(hit)):
                name = match["words"].upper().replace(" ", "_").replace("-", "_")
                row = knowledge.cuda_error("CUDA_ERROR_" + _OWN_NAMES.get(name, name))
                if row is not None and row.code:
                    yield hit, row


def short_names(lines: Lines, knowledge: Knowledge) -> Iterator[tuple[Hit, CudaError]]:
    """CUDA's codes whose names stand without their prefix, on a line that speaks of CUDA."""
    for anchor in _SHORT_ANCHORS:
        for hit in lines.ends(anchor):
            match = _SHORT_NAME.match(lines.entries[hit.entry], hit.start)
            if match is None or not _OF_CUDA.search(lines.window(hit, 2)[0]) or is_source_code(lines, hit):
                continue
            row = knowledge.cuda_error(f"CUDA_ERROR_{match['driver']}" if match["driver"] else f"cudaError{match['runtime']}")
            if row is not None and row.code:
                yield hit, row


def in_lists(places: Iterable[tuple[int, int]]) -> frozenset[int]:
    """The lines of a list of codes (documentation, an enumeration, a table of messages), from (line, code) of one API."""
    listed: set[int] = set()
    near: list[tuple[int, int]] = []
    for line, code in sorted(places):
        near = [place for place in near if line - place[0] < LIST_LINES]
        near.append((line, code))
        if len({number for _, number in near}) >= LIST_CODES:
            listed.update(place[0] for place in near)
    return frozenset(listed)
