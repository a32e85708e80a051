"""Facts and diagnosis to the parts of a report."""

from __future__ import annotations

from cudadoctor.judge.assemble.figures import benchmark, lessons, smoke, sustained, timing
from cudadoctor.judge.assemble.machine import machine
from cudadoctor.judge.assemble.notes import notes
from cudadoctor.judge.assemble.rows import rows, text_row, without_expected

__all__ = ["benchmark", "lessons", "machine", "notes", "rows", "smoke", "sustained", "text_row", "timing", "without_expected"]
