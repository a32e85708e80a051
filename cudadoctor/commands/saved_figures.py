"""Figures of an earlier `cudadoctor bench`: kept with --save, compared with --against."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from typing import Any

import msgspec

from cudadoctor import __version__
from cudadoctor.commands import terminal
from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model import units
from cudadoctor.model.report import LARGEST, Report
from cudadoctor.sources import inputs

FORMAT = "cudadoctor-benchmark/1"
_MOST_NAMED = 8  # GPUs of a saved file


class Saved(msgspec.Struct, frozen=True):
    """Figures by the GPU's UUID (its number where there is none), name and peer; and the names of the GPUs."""

    figures: dict[tuple[str, str, str], float]
    gpus: tuple[str, ...]
    path: str


def _keys(gpus: Iterable[Any]) -> dict[int, str]:
    """CUDA's number of each GPU -> its UUID."""
    found = {}
    for gpu in gpus:
        index = gpu.get("cuda_index") if gpu.get("cuda_index") is not None else gpu.get("index")
        if isinstance(index, int):
            found[index] = str(gpu.get("uuid") or index)
    return found


def save(report: Report, path: str) -> None:
    """Write the figures of a run. Of a run that measured nothing there is nothing to keep."""
    if not any(result.value is not None for result in report.benchmark):
        terminal.unwritten(f"--save {path}: nothing was measured")
        return
    body = {
        "format": FORMAT,
        "tool": __version__,
        "gpus": [msgspec.to_builtins(gpu) for gpu in report.machine.gpus],
        "benchmark": [msgspec.to_builtins(result) for result in report.benchmark],
    }
    terminal.write_file(path, json.dumps(body, indent=1) + "\n", json=True, option="--save")


def read(path: str) -> Saved:
    """Figures that --save kept, or the JSON report of an earlier run."""
    try:
        body = msgspec.json.decode(inputs.of_path(path, lambda _: LARGEST).body)  # takes no NaN, which no figure is behind
        gpus = body["machine"]["gpus"] if "machine" in body else body["gpus"]
        keys = _keys(gpus)
        figures = {
            (keys.get(one["gpu"], str(one["gpu"])), str(one["name"]), _peer(one.get("peer"), keys)): float(one["value"])
            for one in body["benchmark"]
            if type(one.get("value")) in (int, float)
        }
    except inputs.InputError as error:
        raise terminal.usage(f"--against {error}") from error
    except (msgspec.MsgspecError, ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError) as error:
        raise terminal.usage(f"--against {path}: no figures of `cudadoctor bench --save` are in it") from error
    return Saved(figures=figures, gpus=tuple(str(gpu.get("name")) for gpu in gpus), path=os.path.basename(path))


def _peer(peer: int | None, keys: dict[int, str]) -> str:
    return "" if peer is None else keys.get(peer, str(peer))


def compared(report: Report, saved: Saved | None, knowledge: Knowledge, *, strict: bool) -> Report:
    """The report with each figure's change; those that fell behind are told, and under --strict exit with 1."""
    if saved is None:
        return report
    keys = _keys(msgspec.to_builtins(gpu) for gpu in report.machine.gpus)
    results, behind = [], []
    for result in report.benchmark:
        before = saved.figures.get((keys.get(result.gpu, str(result.gpu)), result.name, _peer(result.peer, keys)))
        if before is None or before <= 0 or result.value is None:
            results.append(result)
            continue
        change = round(result.value / before - 1, 4)
        results.append(msgspec.structs.replace(result, saved=before, change=change))
        row = knowledge.figure(result.name)
        if row is not None and (change > row.drift if row.less else change < -row.drift):
            now, then = units.figure(result.value, result.unit), units.figure(before, result.unit)
            behind.append(f"{row.title} on GPU {result.gpu}: {now}, {then} before ({change:+.0%})")
    notes = tuple(f"Worse than in {saved.path}: {words}" for words in behind)
    if not any(result.saved is not None for result in results):
        notes = (f"{saved.path} holds no figures of these GPUs, but of {', '.join(saved.gpus[:_MOST_NAMED]) or 'none'}",)
    code = 1 if behind and strict and report.exit_code == 0 else report.exit_code
    return msgspec.structs.replace(report, benchmark=tuple(results), notes=(*notes, *report.notes), exit_code=code)
