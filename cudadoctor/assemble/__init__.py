"""Facts and diagnosis to the parts of a report."""

from __future__ import annotations

from cudadoctor.assemble.figures import benchmark, lessons, smoke, timing
from cudadoctor.assemble.machine import machine
from cudadoctor.assemble.notes import notes
from cudadoctor.assemble.rows import rows, text_row

__all__ = ["benchmark", "lessons", "machine", "notes", "rows", "smoke", "text_row", "timing"]
