"""`dcgmi diag -j`: the tests that DCGM ran, and what the failed ones say. Of DCGM 1 to 4, whose JSON differs in small things.

A test that was skipped or only warned is counted and nothing more: DCGM warns of settings, and skips what a GPU does not offer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from cudadoctor.model.values import DCGM, DcgmDiag, DcgmError, DcgmFailure
from cudadoctor.parsers.base import Output, Text, parser

HEADS = ("DCGM Diagnostic", "DCGM GPU Diagnostic")
_MOST = 500  # failures that are kept


def parse(text: Text) -> Output:
    """One fact for the last run that the text shows; nothing where it is no such JSON."""
    document = _document(text.text)
    runs = [run for run in _runs(document) if any(isinstance(run.get(head), dict) for head in HEADS)]
    if not runs:
        error = document.get("runtime_error") if isinstance(document, dict) else None
        if isinstance(error, str) and error:
            yield text.fact(DCGM, DcgmDiag(runtime_error=error), text.quote(_Places(text).of(error)), whole=False)
        return
    found = _diag(runs[-1], _Places(text))
    quotes = [text.quote(error.line) for failure in found.failures[:8] for error in failure.errors if error.line]
    if not quotes:
        words = f"{len(found.passed)} tests passed, {len(found.failures)} failed, {len(found.skipped)} skipped"
        quotes = [text.quote(failure.line) for failure in found.failures[:4] if failure.line] or [text.absent(words)]
    yield text.fact(DCGM, found, *quotes, whole=False)


def _document(text: str) -> Any:
    """The JSON of the text, also where lines of a log stand before or behind it."""
    start, end = text.find("{"), text.rfind("}")
    if not 0 <= start < end:
        return None
    try:
        return msgspec.json.decode(text[start : end + 1])
    except (msgspec.MsgspecError, RecursionError):
        return None


def _runs(document: Any) -> list[dict[str, Any]]:
    """`--iterations` makes a list of them."""
    if not isinstance(document, dict):
        return []
    repeated = document.get("iterations")
    return [run for run in repeated if isinstance(run, dict)] if isinstance(repeated, list) else [document]


class _Places:
    """Finds the lines of the text that show a message. Messages come in the order of the text."""

    def __init__(self, text: Text) -> None:
        self.text = text
        self.at = 0  # where the line of the last one begins

    def of(self, words: str) -> int:
        """The next line that holds these words as JSON writes them, counted from 1; the first of all where none follows."""
        wanted, whole = msgspec.json.encode(words).decode()[1:-1][:120], self.text.joined
        found = next((at for at in (whole.find(wanted, self.at), whole.find(wanted)) if at >= 0), None)
        if not wanted or found is None:
            return 1
        self.at = whole.rfind("\n", 0, found) + 1
        return self.text.line_at(found)


def _diag(run: dict[str, Any], places: _Places) -> DcgmDiag:
    body = next(run[head] for head in HEADS if isinstance(run.get(head), dict))
    results = [(name, result, str(result.get("status", "")).lower()) for name, result in _results(body)]
    failed = [(name, result) for name, result, status in results if status == "fail"]
    return DcgmDiag(
        failures=tuple(_failure(name, result, places) for name, result in failed[:_MOST]),
        passed=tuple(dict.fromkeys(name for name, _, status in results if status.startswith("pass"))),
        skipped=tuple(dict.fromkeys(name for name, _, status in results if status.startswith("skip"))),
        runtime_error=_text(run.get("runtime_error")) or _text(body.get("runtime_error")),
    )


def _results(body: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every result with its test's name; the summary of a test counts where it has no result of its own."""
    for category in _dicts(body.get("test_categories")):
        for test in _dicts(category.get("tests")):
            name = _text(test.get("name")) or _text(category.get("category")) or "a test"
            results = _dicts(test.get("results"))
            summary = test.get("test_summary")
            for result in results or ([summary] if isinstance(summary, dict) else []):
                yield name, result


def _failure(test: str, result: dict[str, Any], places: _Places) -> DcgmFailure:
    warnings = result.get("warnings")
    entries = warnings if isinstance(warnings, list) else [warnings]
    errors = []
    for entry in entries:
        words = _text(entry.get("warning")) if isinstance(entry, dict) else _text(entry)
        code = entry.get("error_id") if isinstance(entry, dict) else None
        if words:
            errors.append(DcgmError(text=words, code=code if isinstance(code, int) else None, line=places.of(words)))
    return DcgmFailure(test=test, entity=_entity(result), errors=tuple(errors), line=errors[0].line if errors else places.of(test))


def _entity(result: dict[str, Any]) -> str | None:
    group, number = _text(result.get("entity_group")), result.get("entity_id")
    if group and isinstance(number, int):
        return f"{group} {number}"
    gpus = result.get("gpu_ids", result.get("gpu_id"))
    return f"GPU {gpus}" if isinstance(gpus, str | int) and str(gpus).strip() else None


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value.strip() else None


PARSER = parser("dcgm", parse, DCGM, reads=("dcgm-diag",))
