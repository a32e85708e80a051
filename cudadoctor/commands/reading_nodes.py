"""Nodes out of whatever `cudadoctor fleet` was handed: files, standard input, or answers of nodes that were asked."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from itertools import chain
from typing import TYPE_CHECKING

from cudadoctor.commands import gathering, options, terminal
from cudadoctor.model.fleet import Missing, Node

if TYPE_CHECKING:
    from cudadoctor.model.evidence import Evidence
    from cudadoctor.model.report import Report
    from cudadoctor.model.requirements import Policy
    from cudadoctor.sources.engines import Answer
    from cudadoctor.sources.fleet_files import Piece
    from cudadoctor.within.asking import Judge

Found = Iterator[Node | Missing]
MOST_REPORTS = 250_000  # of one run; a file may hold a million that say nothing
PARTS = 8  # demands, GPUs or figures take as much memory as a report
SHORT, LETTERS = 128, 1024  # bytes of a word that is counted so; and of longer ones those that take as much


class Reader:
    """Reads reports as they are, and has recordings judged by one child, which reports alone never start.

    `policy`: what is demanded of recordings, and of nodes that are asked; a report can only say whether it was demanded of it.
    """

    def __init__(self, policy: Policy | None = None) -> None:
        self.policy = policy
        self._demands = tuple(one.text for one in policy.requirements) if policy is not None else ()
        self.notes: list[str] = []  # on what was not read and nobody missed
        self._left = MOST_REPORTS
        self._ends = ExitStack()
        self._judge: Judge | None = None

    def close(self) -> None:
        self._ends.close()

    def files(self, paths: Iterable[str]) -> Found:
        from cudadoctor.sources import fleet_files

        for piece in fleet_files.pieces(paths, sys.stdin.buffer):
            for one in self._piece(piece):
                yield one
                self._left -= weight(one) if isinstance(one, Node) else 1
                if self._left <= 0:
                    yield Missing(
                        source=piece.source,
                        why=f"nothing was read beyond its place: {MOST_REPORTS} reports are as many as are merged, fewer with figures",
                    )
                    return

    def _piece(self, piece: Piece) -> Found:
        from cudadoctor.fleet import nodes

        if piece.note is not None:
            self.notes.append(piece.note)
        elif piece.why is not None:
            yield Missing(source=piece.source, why=piece.why)
        elif piece.body is not None:
            yield from (self._asked(one) for one in nodes.read(piece.source, piece.body))
        else:
            yield from self._recording(piece.source, piece.recording or "")

    def _asked(self, one: Node | Missing) -> Node | Missing:
        return one.asked(self._demands) if isinstance(one, Node) else one

    def _recording(self, source: str, path: str) -> Found:
        from cudadoctor.fleet import nodes
        from cudadoctor.report import json
        from cudadoctor.sources import bundles, recording

        try:
            for machine in bundles.replayed(path):
                yield nodes.one(source, json.render(self._report(machine)).encode())
        except (recording.RecordingError, bundles.BundleError) as error:
            yield Missing(source=source, why=str(error))

    def _report(self, machine: Evidence) -> Report:
        from cudadoctor.model.judgement import Question

        if self._judge is None:
            self._judge = self._ends.enter_context(gathering.judging())
        return self._judge.answer(Question(machines=(machine,), policy=self.policy, today=options.today())).report

    def report_of(self, answer: Answer) -> bytes | Missing:
        """The JSON of the report that an engine brought, or whose recording it brought."""
        from cudadoctor.report import json
        from cudadoctor.sources import recording

        if answer.report is not None:
            return answer.report
        if answer.recording is None:
            return Missing(source=answer.asked, why=answer.why or "no report came")
        try:
            return json.render(self._report(recording.read("its recording", answer.recording))).encode()
        except recording.RecordingError as error:
            return Missing(source=answer.asked, why=str(error))


def weight(node: Node) -> int:
    """The reports without demands and GPUs that take as much memory."""
    import msgspec

    body = msgspec.json.encode(node)
    letters = _letters(node) if len(body) > LETTERS or not body.isascii() else 0
    return 1 + (len(node.met) + len(node.demands) + sum(1 + len(gpu.figures) for gpu in node.gpus)) // PARTS + letters // LETTERS


def _letters(value: object) -> int:
    """Bytes of the long words in it."""
    if isinstance(value, str):
        return max(0, sys.getsizeof(value) - SHORT)
    if isinstance(value, Mapping):
        return sum(map(_letters, chain(value, value.values())))
    if isinstance(value, (tuple, list)):
        return sum(map(_letters, value))
    return sum(_letters(getattr(value, name)) for name in getattr(value, "__struct_fields__", ()))


def parted(found: Iterable[Node | Missing]) -> tuple[list[Node], list[Missing]]:
    nodes: list[Node] = []
    missing: list[Missing] = []
    for one in found:
        if isinstance(one, Node):
            nodes.append(one)
        else:
            missing.append(one)
    return nodes, missing


def absent(expect: str | None, nodes: Iterable[Node], missing: Iterable[Missing]) -> list[Missing]:
    """The nodes that should have been there and were neither seen nor named as missing."""
    if expect is None:
        return []
    from cudadoctor.sources.engines import EngineError

    try:
        from cudadoctor.sources.engines import distant

        wanted = distant.names(expect)
    except ImportError as error:
        raise terminal.usage("--expect needs ClusterShell, which the extra `fleet` brings: pip install 'cudadoctor[fleet]'") from error
    except EngineError as error:
        raise terminal.usage(f"--expect {error}") from error
    seen = {name for node in nodes for name in (node.name, node.name.partition(".")[0])} | {one.source for one in missing}
    return [Missing(source=name, why="no report of this node") for name in wanted if name not in seen]
