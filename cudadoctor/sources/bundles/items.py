"""Pieces of evidence as bundles hold them: the same ids as the live probes, so the same parsers read them.

What a bundle does not hold has no item: unknown, never absent. Only where its tool says itself that a thing was not there is it absent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise

import msgspec

from cudadoctor.model.evidence import OUTPUT, Item
from cudadoctor.parsers import kernel_log as kernel_log_parser
from cudadoctor.sources.children import OUTPUT_LIMIT
from cudadoctor.sources.decoding import LONG, NARROWED, decoded, narrow

LOG_LIMIT = LONG  # characters of a kernel log from which only the lines that any reader looks at are kept
# Words of such lines, in small letters; what the rest of a log says concerns nobody here.
_KERNEL_WORDS = (
    "nvidia", "nvrm", "nouveau", "nova", "vfio", "pci-stub", "xid", "linux version", "module", "lockdown", "secure boot", "secureboot",
    "pcieport", "10de", "blocked for more than", "bbswitch", "command line", "-- boot ", "-- reboot ", "successfully reset",
)  # fmt: skip
MOST_LINES = 50_000  # of such a log, at each end
_PIECE = 1 << 20  # characters that are searched at a time: each line that is found costs memory
_LINE = re.compile(r"[^\n]+")
_OF_DRIVERS = ("NVRM", "nvidia", "NVIDIA", "nouveau", "AER:", "pcieport", "blocked for more than", "vfio-pci")
_BESIDE = 1 << 20  # characters of one output that is read as a text


def command(item_id: str, *argv: str, text: str, excerpt: bool = False, status_failed: bool = False) -> Item:
    return Item(
        id=item_id,
        kind="command",
        what=argv,
        status="failed" if status_failed else "ok",
        stdout=text[:LOG_LIMIT],
        origin="recording",
        excerpt=excerpt or len(text) > LOG_LIMIT,
    )


def file(item_id: str, path: str, text: str) -> Item:
    return Item(id=item_id, kind="file", what=path, status="ok", stdout=text[:OUTPUT_LIMIT], origin="recording")


def absent(item_id: str, what: tuple[str, ...] | str, why: str) -> Item:
    """What the tool looked for and did not find."""
    return Item(id=item_id, kind="file" if isinstance(what, str) else "command", what=what, status="absent", why=why, origin="recording")


def text_of(content: bytes, most: int = NARROWED) -> str:
    """The content as text; of more than `most` bytes without letters of other scripts."""
    text = decoded(narrow(content, most))
    return text.replace("\x00", "") if "\x00" in text else text


def kernel_log(*argv: str, text: str, excerpt: bool = False) -> Item:
    """A kernel log. Of a very long one, its lines about drivers, modules and the bus."""
    shortened = _telling(text) if len(text) > LOG_LIMIT else text
    return command("kernel-log", *argv, text=shortened, excerpt=excerpt or shortened is not text)


def merged(logs: list[Item]) -> Item:
    """The first of several logs of one boot with what only the others say: their lines about drivers and the bus, each before the next that
    both have. The kernel's own buffer loses its beginning, and a journal goes on where the buffer was read.
    """
    added = list(lines("\n".join(lines_with(log.stdout or "", *_OF_DRIVERS) for log in logs[1:])))
    own = (logs[0].stdout or "").split("\n") if added else []
    places = {_message(line): place for place, line in enumerate(own) if any(word in line for word in _OF_DRIVERS)}
    before: dict[int, list[str]] = {}
    waiting: list[str] = []
    for line in added:
        place = places.get(_message(line))
        if place is None:
            waiting.append(line)
        elif waiting:
            before.setdefault(place, []).extend(waiting)
            waiting = []
    if not before and not waiting:
        return logs[0]
    whole = [one for place, line in enumerate(own) for one in (*before.get(place, ()), line)]
    return msgspec.structs.replace(logs[0], stdout="\n".join((*whole, *waiting)))


def _message(line: str) -> str:
    """What was said, without the stamps before it."""
    return kernel_log_parser.said(line)[0].strip()


def of_kernel(text: str) -> str:
    """The kernel's lines of a log that holds everybody's, by their speaker: what a program says of the kernel is its user's choice."""
    kept = lines(lines_with(text, " kernel: ", "\n-- "))
    return "".join(f"{line}\n" for line in kept if line.startswith("-- ") or kernel_log_parser.said(line)[1])


def beside(said: str) -> tuple[Item, ...]:
    """What has no place of its own among the evidence, as a text: it shows what failed, and clears nothing."""
    return (Item(id="text", kind="text", what=OUTPUT, status="ok", stdout=said, origin="text"),) if said.strip() else ()


def contradicting(found: Iterable[Item], others: Iterable[Item]) -> tuple[Item, ...]:
    """What nvidia-smi says where it failed once and answered at another time; `others` found no place, for one of the same id was there."""
    asked = [item for item in (*found, *others) if item.id in ("nvidia-smi", "nvidia-smi-query")]
    failed = [(item.stdout or "")[:_BESIDE] for item in asked if item.status == "failed"]
    return beside("\n".join(failed)) if len(failed) < len(asked) else ()


def _telling(text: str) -> str:
    """The lines that hold one of the words, in capitals or not."""
    forms = tuple(form for word in _KERNEL_WORDS for form in (word, word.upper(), word.capitalize()))

    def places(piece: str) -> list[int]:
        small = piece.lower()
        return _places(small, *_KERNEL_WORDS) if len(small) == len(piece) else _places(piece, *forms)

    return _chosen(text, places)


def lines_with(text: str, *words: str) -> str:
    """The lines of a text that hold one of these words, as they stand; at most MOST_LINES at each end."""
    return _chosen(text, lambda piece: _places(piece, *words))


def lines(text: str) -> Iterator[str]:
    """The lines that are not empty, one after another: a list of short ones takes twenty times the memory of their text."""
    return (one[0] for one in _LINE.finditer(text))


def _chosen(text: str, places: Callable[[str], list[int]]) -> str:
    """The lines that begin at these places, at most MOST_LINES at each end: beyond them nothing is searched."""
    bounds = [0]
    while bounds[-1] < len(text) - 1:  # a piece begins with the end of the line before: so may a word
        end = text.find("\n", bounds[-1] + _PIECE)
        bounds.append(end if end >= 0 else len(text))

    def found(pieces: Iterable[tuple[int, int]]) -> Iterator[str]:
        lines = 0
        for begin, end in pieces:
            if lines < MOST_LINES:
                starts = places(piece := text[begin : end + 1])
                lines += len(starts)
                yield _lines(piece, starts)

    pieces = list(pairwise(bounds))
    first = list(found(pieces))
    last = list(found(reversed(pieces[len(first) :])))
    return _ends("".join((*first, *reversed(last))))


def _ends(text: str) -> str:
    """The text without what stands beyond MOST_LINES at each end. Its last line has its end."""
    first = text.split("\n", MOST_LINES)
    last = first.pop().rsplit("\n", MOST_LINES + 1)
    return "\n".join((*first, *last[1:])) if len(last) > MOST_LINES + 1 else text


def _places(text: str, *words: str) -> list[int]:
    """Where the lines begin that hold a word: looked up word by word, which costs little however long the text is."""
    found: set[int] = set()
    for word in words:
        at = text.find(word)
        while at >= 0:
            found.add(text.rfind("\n", 0, at + 1) + 1)
            end = text.find("\n", at + 1)
            at = text.find(word, end) if end >= 0 else -1
    return sorted(found)


def _lines(text: str, starts: list[int]) -> str:
    ends = ((start, text.find("\n", start)) for start in starts)
    return "".join(text[start : end if end >= 0 else len(text)] + "\n" for start, end in ends)
