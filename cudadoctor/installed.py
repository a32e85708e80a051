"""The doctor's knowledge with what the installed extensions add (extensions.py says what one is)."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cudadoctor.knowledge.load import Knowledge

GROUP = "cudadoctor.checks"  # of entry points


@functools.cache
def knowledge() -> Knowledge:
    """What is known apart from any machine; one for the whole process. An extension that cannot be used is left out, and a note says so."""
    from cudadoctor.knowledge.load import load

    found = load()
    entries = _entries()
    if entries:
        from cudadoctor import extensions

        for name, read in entries:
            try:
                with _apart_from_streams():
                    found = extensions.joined(found, name, extensions.within(extensions.LIMIT, read))
            except Exception as error:
                found = found.without(f"extension {name} is left out: {extensions.words_of(error)}")
    return found


@contextmanager
def _apart_from_streams() -> Iterator[None]:
    """What a library writes to descriptor 1 meanwhile, or a program that it starts, goes to stderr: no report is out yet. And nothing is
    there for it to read: what stands on descriptor 0 is the user's text."""
    with ExitStack() as back:
        nowhere = os.open(os.devnull, os.O_RDONLY)
        back.callback(os.close, nowhere)
        for stream, instead in ((0, nowhere), (1, 2)):
            try:
                kept = os.dup(stream)
                os.dup2(instead, stream)
            except OSError:  # it is closed
                continue
            back.callback(os.close, kept)
            back.callback(os.dup2, kept, stream)
        yield


def is_extended() -> bool:
    """Whether an extension is installed."""
    return bool(_entries())


@functools.cache
def _entries() -> list[tuple[str, Callable[[], object]]]:
    """The entry points by name. importlib.metadata is slow: it is asked only where a file of the group is there."""
    if not any(_declares(folder) for folder in dict.fromkeys(sys.path)):
        return []
    from importlib.metadata import entry_points

    return sorted(((entry.name, entry.load) for entry in entry_points(group=GROUP)), key=lambda entry: entry[0])


def _declares(folder: str) -> bool:
    """Whether a distribution in this folder has an entry point of the group."""
    try:
        names = [name for name in os.listdir(folder or ".") if name.endswith((".dist-info", ".egg-info"))]
    except OSError:
        return False
    for name in names:
        try:
            with open(os.path.join(folder, name, "entry_points.txt"), encoding="utf-8", errors="replace") as file:
                if GROUP in file.read():
                    return True
        except OSError:
            continue
    return False
