"""What the worker processes.py wrote: the process table, and who of it holds a GPU."""

from __future__ import annotations

import msgspec

from cudadoctor.model.facts import Quote
from cudadoctor.model.values import PROCESSES, Process, Processes
from cudadoctor.parsers.base import Output, Text, parser
from cudadoctor.parsers.json_lines import build, every, nothing_read, records, said

SOURCE = "process table"
COMMAND_LENGTH = 120  # characters of a command line in a quote
UNUSUAL = ("stopped", "orphaned", "defunct", "uninterruptible")


def _quote(process: Process) -> Quote:
    """pid, parent, user and state; what it holds and runs, where that was read."""
    words = [f"process {process.pid}", f"parent {process.ppid if process.ppid is not None else 'unknown'}"]
    words += [f"user {process.user or 'unknown'}", process.state]
    if process.service:
        words.append("a service")
    if process.devices:
        words.append("holds " + " ".join(process.devices))
    if process.waits is not None:
        words.append(f"waits in {process.waits}")
    line = ", ".join(words) + (f": {process.command[:COMMAND_LENGTH]}" if process.command else "")
    return said(SOURCE, process.line, line)


def parse(text: Text) -> Output:
    """The table. Quoted are those that hold a device or are in an unusual state."""
    entries = list(records(text))
    heads = [(build(Processes, entry.fields, processes=()), entry.line) for entry in entries if entry.event == "processes"]
    head, head_line = next((found for found in heads if found[0] is not None), (None, None))
    processes: dict[int, Process] = {}
    for process in every(Process, "process", entries):
        processes.setdefault(process.pid, process)
    if head is None and not processes:
        yield from nothing_read(text, "the process table", PROCESSES)
        return
    head = head or Processes(processes=(), complete=False)  # it was not at its end in time
    readable = "could be read" if head.complete else "could not all be read"
    words = f"{head.provider or 'processes'}: open files of other users' processes {readable}"
    quotes = [said(SOURCE, head_line, words + (f"; {head.provider_error}" if head.provider_error else ""))]
    quotes += [_quote(process) for process in processes.values() if process.devices or process.state in UNUSUAL]
    yield text.fact(
        PROCESSES, msgspec.structs.replace(head, processes=tuple(processes.values())), *quotes, whole=text.whole and head.complete
    )


PARSER = parser("worker_processes", parse, PROCESSES, reads=("processes",))
