"""Out-of-memory messages that count memory: whose is it. Both sides are compared by what the message itself says.

Either the program already holds most of what is in use (then it asks for more than there is), or others hold it. A message without
figures, and one whose figures do not decide, is left to parsers/error_codes.py, which suspects both.

Read are PyTorch's message in all its versions, PaddlePaddle's, vLLM's check at start, the memory that TensorFlow 1 finds free when it
starts, where the same text runs out of memory, and the buffer that llama.cpp asks for beside what it found free or there is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from cudadoctor.model.findings import Clue
from cudadoctor.model.pattern import lazy
from cudadoctor.parsers.base import Text
from cudadoctor.parsers.lines import Hit, Lines, prepared

OWN, OTHERS = "program-out-of-memory", "gpu-memory-held-by-others"
MOST = 0.8  # of what is in use: from here on the program itself is what fills the GPU
LITTLE = 0.2
HALF = 0.5
MUCH = 8 << 30  # bytes: no program keeps so much beside its allocator
FEW = 0.1
CONTEXT = 300 << 20  # bytes that a process's CUDA context and kernels take beside what its allocator counts
BESIDE_ALLOCATOR = 1 << 30  # and at most, with the work space of libraries
_UNITS = {"bytes": 1, "MB": 1 << 20, "GB": 1 << 30, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_SIZE = r"(\d{1,8}(?:\.\d{1,6})?) ?(bytes|KiB|MiB|GiB|TiB|MB|GB)"
_TOTAL = lazy(rf"(?:{_SIZE} total capacity|total capaci?ty of {_SIZE})")  # PyTorch 2.1 writes capacty
_FREE = lazy(rf"{_SIZE} (?:is )?free")
_WANTED = lazy(rf"Tried to allocate {_SIZE}")
_ALLOCATED = lazy(rf"{_SIZE} (?:already allocated|is allocated by PyTorch)")
_RESERVED = lazy(rf"{_SIZE} (?:reserved in total by PyTorch|is reserved by PyTorch but unallocated|cached)")
_BESIDE = ("but unallocated", " cached)")  # these figures are counted beside what is allocated
_PROCESS = lazy(rf"Process (?P<pid>\d{{1,10}}) has {_SIZE} memory in use")
_THIS = lazy(rf"this process has {_SIZE} memory in use")
_ALLOWED = lazy(rf"{_SIZE} allowed;")
_NOT_CUDA = lazy(r"\b(?:HIP|MPS|XPU|NPU) (?:backend )?out of memory")
REACH = 6  # lines over which a terminal may have broken the message


def clues(text: Text, *, from_rung: str | None = None, is_text: bool = False) -> tuple[Clue, ...]:
    """One clue for each message whose figures decide."""
    lines = prepared(text)
    return tuple(
        Clue(
            cause=cause, quotes=(text.quote(hit.first, hit.last),), basis="stated", from_rung=from_rung, text=is_text,
            values=values,
        )
        for cause, hit, values in _found(lines)
    )  # fmt: skip


def _found(lines: Lines) -> Iterator[tuple[str, Hit, dict[str, str]]]:
    for wake, judge in _FORMS:
        for hit in lines.ends(wake):
            message = _message(lines, hit)
            cause = judge(message, lines)
            # The one other process that is named. In a container the program itself may be the one, by its number on the host.
            named = {number for number, _, _ in _PROCESS.findall(message)} if "this process has" in message else ()
            if cause is not None:
                yield cause, hit, {"pid": next(iter(named))} if cause == OTHERS and len(named) == 1 else {}


def _message(lines: Lines, hit: Hit) -> str:
    """The hit's line, with those below it where a terminal broke the message."""
    message = lines.line(hit)
    return message if _TOTAL.search(message) else " ".join((message, *lines.entries[hit.last : hit.last + REACH]))


def judged(message: str, lines: Lines | None = None) -> str | None:
    """PyTorch: the cause that the message's figures show; None where they do not decide."""
    total, free = _bytes(_TOTAL, message), _bytes(_FREE, message)
    allocated = _bytes(_ALLOCATED, message)
    if total is None or free is None or allocated is None or _NOT_CUDA.search(message):
        return None
    reserved = _bytes(_RESERVED, message) or 0.0
    own = allocated + reserved if any(word in message for word in _BESIDE) else max(allocated, reserved)
    allowed, used, wanted = _bytes(_ALLOWED, message), total - free, _bytes(_WANTED, message) or 0.0
    if wanted >= total or (allowed is not None and own >= MOST * allowed):
        return OWN
    if used <= 0 or free > max(wanted, LITTLE * total):
        return None  # there was room: a limit of another kind
    return _whose(used, total, max(own, _bytes(_THIS, message) or 0.0), _foreign(message, own))


def _whose(used: float, total: float, own: float, foreign: float) -> str | None:
    elsewhere = used - own - BESIDE_ALLOCATOR
    if own >= MOST * used or (elsewhere <= FEW * total and own > HALF * used):
        return OWN
    return OTHERS if used >= HALF * total and (max(elsewhere, foreign) > own or elsewhere > MUCH) else None


def _foreign(message: str, own: float) -> float:
    """What the other processes hold. In a container the program itself is listed as one of them, by its number on the host."""
    listed = [float(number) * _UNITS[unit] for _, number, unit in _PROCESS.findall(message)]
    if "this process has" not in message:
        itself = [size for size in listed if own <= size <= own + 4 * CONTEXT]
        if itself:
            listed.remove(min(itself))
    return sum(listed)


# ---------------------------------------------------------------- other programs
_PADDLE = lazy(rf"{_SIZE} memory has been allocated and available memory is only {_SIZE}")
_STARTUP = lazy(r"Free memory on device [\w:]{0,12} ?\((\d{1,6}(?:\.\d{1,4})?)/(\d{1,6}(?:\.\d{1,4})?) GiB\) on startup is less than")
_AT_START = lazy(rf"totalMemory: {_SIZE} {{0,4}}freeMemory: {_SIZE}")
_AT_START_OLD = lazy(rf"Total memory: {_SIZE}\s{{0,4}}Free memory: {_SIZE}")
_BUFFER = lazy(r"allocating (?P<mib>\d{1,8}(?:\.\d{1,3})?) MiB on device (?P<device>\d{1,2}): cudaMalloc failed")
_FREE_OF_LLAMA = lazy(r"using device CUDA(?P<device>\d{1,2}) \([^\n]{1,80}\) - (?P<mib>\d{1,8}) MiB free")
_TOTAL_OF_LLAMA = lazy(r"Device (?P<device>\d{1,2}): [^\n]{1,120}, VRAM: (?P<mib>\d{1,8}) MiB")
_CARDS = (2, 3, 4, 6, 8, 10, 11, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96)  # GiB
_EMPTY = 0.95  # of a card's memory is free where nothing runs on it
_RAN_OUT = ("CUDA_ERROR_OUT_OF_MEMORY", "OOM when allocating", "ran out of memory", "ResourceExhausted")


def _paddle(message: str, lines: Lines) -> str | None:
    found = _PADDLE.search(message)
    if found is None:
        return None
    own, free = _size(found[1], found[2]), _size(found[3], found[4])
    return OWN if own > free else None


def _vllm(message: str, lines: Lines) -> str | None:
    """vLLM asks for a share of the whole GPU before it starts: what is not free then belongs to others."""
    found = _STARTUP.search(message)
    if found is None or not float(found[2]):
        return None
    return OWN if float(found[1]) / float(found[2]) >= MOST else OTHERS


def _tensorflow(message: str, lines: Lines) -> str | None:
    """TensorFlow 1 says what it finds before it allocates anything; on a GPU of its own nearly all is free."""
    found = _AT_START.search(message) or _AT_START_OLD.search(message)
    if found is None or not any(word in lines.text for word in _RAN_OUT):
        return None
    total, free = _size(found[1], found[2]), _size(found[3], found[4])
    return OTHERS if free < HALF * total else None


def _llama(message: str, lines: Lines) -> str | None:
    """llama.cpp asks for one buffer; before, it says how much is free on that device or how much there is."""
    found = _BUFFER.search(message)
    if found is None:
        return None
    wanted, device = float(found["mib"]), found["device"]
    free, total = _mebibytes(_FREE_OF_LLAMA, device, lines), _mebibytes(_TOTAL_OF_LLAMA, device, lines)
    if total is None and free is not None:
        # Nearly as much is free as a card of some size has: nobody else is there.
        total = next((float(size << 10) for size in _CARDS if _EMPTY * (size << 10) <= free <= size << 10), None)
    if total is None:
        return None
    if wanted >= total:
        return OWN
    return None if free is None or wanted < free else OWN if free >= MOST * total else OTHERS if free < HALF * total else None


def _mebibytes(pattern: re.Pattern[str], device: str, lines: Lines) -> float | None:
    return next((float(found["mib"]) for found in pattern.finditer(lines.text) if found["device"] == device), None)


def _size(number: str, unit: str) -> float:
    return float(number) * _UNITS[unit]


def _bytes(pattern: re.Pattern[str], message: str) -> float | None:
    found = pattern.search(message)
    if found is None:
        return None
    number, unit = [group for group in found.groups() if group is not None]
    return _size(number, unit)


_FORMS: tuple[tuple[str, Callable[[str, Lines], str | None]], ...] = (
    ("Tried to allocate", judged),
    # PyTorch's message of which somebody left the beginning out.
    (" total capacity; ", lambda message, lines: None if _WANTED.search(message) else judged(message, lines)),
    ("memory has been allocated and available memory is only", _paddle),
    ("on startup is less than", _vllm),
    ("totalMemory: ", _tensorflow),
    ("Total memory: ", _tensorflow),
    ("cudaMalloc failed: out of memory", _llama),
)
LITERALS = tuple(wake for wake, _ in _FORMS)
