"""Codes that stand in a text as numbers, in a context that says whose numbers they are: "[100] Call to cuInit", "nvmlInit_v2 err: 18".

Used by parsers/error_codes.py, which alone says what a code in a text means.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import msgspec

from cudadoctor.knowledge.codes import CudaError, NvmlError
from cudadoctor.model.pattern import lazy
from cudadoctor.parsers.code_words import CUDA_WORD
from cudadoctor.parsers.lines import Hit, Lines

if TYPE_CHECKING:
    from cudadoctor.knowledge.load import Knowledge

_CALL = r"\bcu(?:da)?[A-Z][a-z]\w*"
_ARGUMENTS = r"\([^()\n]{0,80}\)"
_N = r"(?P<n>\d{1,5})(?:\b|(?=at ))(?![.:/]\d)"
_ERROR_WORD = r"(?:[Ee]rror|ERROR|[Ff]ailure|[Ff]ail(?:ed|s))"
_ANSWERED = r"(?:returned|returns|failed(?: with)?|gives|gave|->)"
_PART = r"(?:[ _-](?:[Dd]river|[Rr]untime|API|[Ii]nitiali[sz]ation|[Cc]all))?"
_CUDA_NUMBERS = (
    # [100] Call to cuInit
    lazy(r"\[(?P<n>\d{1,5})\] Call to cu\w+"),
    # Call to cuInit results in UNKNOWN_CUDA_ERROR (34)
    lazy(rf"{_CALL}[^\n()]{{0,60}}?(?:ERROR|[Ee]rror)[^()\n./\d]{{0,24}}\((?P<n>\d{{1,5}})\)"),
    # CUDA error 100; cuda runtime error (35); CUDA initialization failure with error: 35
    lazy(rf"(?:CUDA|[Cc]uda){_PART}[ _-]{_ERROR_WORD}(?: with)?(?: error)?(?: code| number| status)?[ :=#('\"]{{0,4}}{_N}"),
    # cuInit returned 100; cuInit() failed with error code 3
    lazy(rf"(?P<call>{_CALL})(?:{_ARGUMENTS})?:? {{0,4}}{_ANSWERED} {{0,4}}(?:error|status|result)?(?: ?code)?[ :=(#]{{0,4}}{_N}(?!x)"),
    # cuInit err: 999; nvcuda init failure: 999
    lazy(
        rf"(?:{_CALL} err(?:or)?|(?:nvcuda|cuda driver library|cudart) init failure|library failed to get device context)[ :=]{{1,3}}{_N}"
    ),
    # cuInit(0) = 999
    lazy(rf"(?P<call>{_CALL}){_ARGUMENTS} {{0,4}}(?:==? {{0,4}}|=> {{0,4}}|: {{1,4}}){_N}(?!x)"),
    # cuInit = 802; cuInit(0) in main prints 3
    lazy(rf"(?P<call>\bcuInit)(?:_v2)? {{0,2}}==? {{0,2}}{_N}(?!x)"),
    lazy(rf"(?P<call>\bcuInit)\b(?:\(0\))?[`'\"]{{0,2}}(?: (?:in|from|of) [^.,;:\d\n]{{1,24}})? (?:prints?|printed|says|yields|is) {_N}"),
    # CUDA error at main.cu:12 code=100(cudaErrorNoDevice); (code 999, ERROR_UNKNOWN)
    lazy(rf"(?<!exit )(?<!status )(?<!return )\bcode ?[=:( ] ?{_N}"),
    # Unexpected error from cudaGetDeviceCount(). Did you ... Error 804: (c10/cuda/CUDAFunctions.cpp of PyTorch), also where it is cut
    lazy(r"Unexpected error from cudaGetDeviceCount[^\n]{0,200}? Error (?P<n>\d{1,5})\b"),
    # Error 34: unrecognized error code (a library that does not know the number)
    lazy(r"\bError (?P<n>\d{1,5}): unrecognized error code"),
    # Encountered a CUDA error: cudaDriver().CuMemcpyDtoHAsync( dstHost, hStream.get() ) returned (702): Launch timeout (OptiX)
    lazy(r"Encountered a CUDA error: [^\n]{0,300}? returned \((?P<n>\d{1,5})\)"),
    # Failed to get current CUDA context: 100 (cuDF)
    lazy(rf"Failed to (?:get current|initialize) CUDA context: {_N}"),
    # Check failed: error == cudaSuccess (35 vs. 0)
    lazy(r"cudaSuccess \((?P<n>\d{1,5}) vs\. 0\)"),
    lazy(rf"(?:cudaError_t|CUresult)[ :=(.]{{1,3}}{_N}"),
)
# What every one of these has: most lines are seen by this alone.
_MAYBE_NUMBER = lazy(
    r"(?:rror|\berr\b|ERROR|ailure|ailed|ails|return|code|gives|gave|->|\) {0,4}[=:]|cudaSuccess|CUresult"
    r"|cuInit ?=|prints?|printed|says|yields|cuInit.{0,32} is)[^\d\n]{0,40}\d|\d\] Call to cu"
)
_API_CALL = lazy(r"cu(?:da)?[A-Z][a-z]")
# Today's meaning of these numbers is not met any more: who prints them used a runtime from before CUDA 10.1.
_OLD_FOR_SURE = (4, 6, 7, 8, 10)
_NOT_CUDA_CALLS = ("cuSolver", "cuFile", "cudaGraphExecUpdateResult")
_LARGEST_COUNT = 30
_DRIVER_CALL = lazy(r"\bcu[A-Z]|[Dd]river")
# Numbers on lines that need not speak of CUDA themselves: the line beside them does.
_NUMBERS_BESIDE = (
    ("rror code", lazy(r"rror code[ :=(]{1,3}(?P<n>\d{1,5})\b(?!\.\d)")),
    # [[ System not yet initialized (error 802) ]] of the entry point of NVIDIA's images
    ("[[ ", lazy(r"\[\[ [^\n\]]{1,120}\(error (?P<n>\d{1,5})\)")),
    # Cuda API error detected: cudaLaunchKernel returned (0xd1) of cuda-gdb
    ("API error detected", lazy(r"API error detected: cu\w{2,60} returned \(0x(?P<hex>[0-9a-f]{1,4})\)")),
)
# A command that calls cuInit prints what it gave on the next line: print(ctypes.CDLL('libcuda.so.1').cuInit(0))
_ASKS_CUINIT = lazy(r"cuInit\(0\)\)[`'\")]{0,3}\s{0,4}$")
_BARE_NUMBER = lazy(r"^\s{0,4}(?P<n>\d{1,3})\s{0,4}$")
_NVML_NUMBERS = (
    lazy(rf"\bnvml[A-Z]\w*(?:{_ARGUMENTS})?:? {{0,4}}(?:returned|failed(?: with)?|gives|gave|->|=|:)[a-z :=(]{{0,16}}(?P<n>\d{{1,3}})\b"),
    lazy(r"NVML (?:[Ee]rror|ERROR|return code|status)(?: code)?[ :=#(]{0,4}(?P<n>\d{1,3})\b"),
    # Ollama's: nvml vram init failure: 18; nvmlInit_v2 err: 18; looking up CUDA GPU memory: unable to get device handle 0: 15
    lazy(r"(?:\bnvml vram init failure|\bnvml[A-Z]\w{0,40} err|GPU memory: unable to get device handle \d{1,3}): (?P<n>\d{1,3})\b"),
)


_OF_CUDA = ("CUDA", "Cuda", "cuda", "CUresult")
_OF_NVML = ("NVML", "nvml", "unable to get device handle")
_PRINTS = "cuInit(0)"
LITERALS = (*_OF_CUDA, *_OF_NVML, _PRINTS, *(literal for literal, _ in _NUMBERS_BESIDE))


def of_cuda(lines: Lines, knowledge: Knowledge) -> Iterator[tuple[Hit, CudaError]]:
    """The places where CUDA's codes stand as numbers, with their rows."""
    seen: dict[str, list[tuple[int, int, CudaError]]] = {}  # logs repeat themselves
    for entry, offset in _lines_with(lines, _OF_CUDA, _API_CALL):
        words = lines.entries[entry]
        if words not in seen:
            seen[words] = list(_numbers_of(words, knowledge))
        for start, end, row in seen[words]:
            hit = lines.hit(offset + start, offset + end)
            if hit is not None:
                yield hit, row
    for literal, form in _NUMBERS_BESIDE:
        for hit in lines.all(literal):
            number = form.match(lines.entries[hit.entry], hit.start)
            named = {} if number is None else number.groupdict()
            code = _by_number(int(named.get("n") or named.get("hex") or "0", 16 if named.get("hex") else 10), "", knowledge)
            if code is not None and CUDA_WORD.search(lines.window(hit, 2)[0]):
                yield hit, code
    yield from _printed(lines, knowledge)


def places(line: str) -> Iterator[tuple[int, int]]:
    """Where a number stands on a line that is read as a code, whatever it means."""
    beside = (((literal,), form) for literal, form in _NUMBERS_BESIDE)
    forms = (*((_OF_CUDA, form) for form in _CUDA_NUMBERS), *((_OF_NVML, form) for form in _NVML_NUMBERS), *beside)
    for words, form in forms:
        if any(word in line for word in words) or (words is _OF_CUDA and _API_CALL.search(line)):
            yield from (match.span("n" if "n" in form.groupindex else "hex") for match in form.finditer(line))


def _printed(lines: Lines, knowledge: Knowledge) -> Iterator[tuple[Hit, CudaError]]:
    """The bare number below a command that prints what cuInit gave."""
    for hit in lines.all(_PRINTS):
        if hit.first != hit.last or _ASKS_CUINIT.search(lines.entries[hit.first - 1]) is None:
            continue
        below = lines.window(hit, 2)[0].split("\n")[-1]
        number = _BARE_NUMBER.match(below)
        row = None if number is None else _by_number(int(number["n"]), "cuInit", knowledge)
        if row is not None:
            yield msgspec.structs.replace(hit, last=hit.last + 1), row


def of_nvml(lines: Lines, knowledge: Knowledge) -> Iterator[tuple[Hit, NvmlError]]:
    """The same of NVML's codes."""
    for entry, offset in _lines_with(lines, _OF_NVML, None):
        for pattern in _NVML_NUMBERS:
            for match in pattern.finditer(lines.entries[entry]):
                place = lines.hit(offset + match.start(), offset + match.end())
                row = knowledge.nvml_error(int(match["n"]))
                if place is not None and row is not None and row.code:
                    yield place, row


def _numbers_of(words: str, knowledge: Knowledge) -> Iterator[tuple[int, int, CudaError]]:
    """Where a line gives a CUDA code as a number, with the code's row."""
    if _MAYBE_NUMBER.search(words) is None:
        return
    for pattern in _CUDA_NUMBERS:
        for match in pattern.finditer(words):
            call, number = match.groupdict().get("call") or "", int(match["n"])
            if call.startswith(_NOT_CUDA_CALLS) or (call.endswith("Count") and number < _LARGEST_COUNT):
                continue  # what such a function returns may be the count itself
            row = _by_number(number, match[0], knowledge)
            if row is not None:
                yield match.start(), match.end(), row


def _lines_with(lines: Lines, words: Iterable[str], pattern: re.Pattern[str] | None) -> list[tuple[int, int]]:
    """The entries that hold a word or the pattern, each with its offset in the text."""
    found = {lines.entry_at(match.start()) for match in pattern.finditer(lines.text)} if pattern is not None else set()
    for word in words:
        found.update(map(lines.entry_at, lines.at(word)))
    return sorted(found)


def _by_number(number: int, context: str, knowledge: Knowledge) -> CudaError | None:
    """The code's row; a number that CUDA does not know today may be the runtime's from before CUDA 10.1, but not the driver's."""
    if number == 0:
        return None
    row = knowledge.cuda_error(number)
    if (row is None or number in _OLD_FOR_SURE) and not _DRIVER_CALL.search(context):
        old = knowledge.old_runtime_error(number)
        return None if old is None else knowledge.cuda_error(old.code_today)
    return row
