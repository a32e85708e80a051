"""`cudadoctor check --watch`: look again and again while somebody repairs the machine. A terminal shows the last look; a pipe gets a line
for each change."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from cudadoctor.commands import terminal
from cudadoctor.report.clean import one_line
from cudadoctor.report.words import headline

if TYPE_CHECKING:
    from cudadoctor.model.report import Report


def watch(look: Callable[[], Report], page: Callable[[Report], str], *, every: float, screen: bool) -> Report | None:
    """The last report, when Ctrl-C ends it; None where none was finished. `page`: the report as text. `screen`: stdout is a terminal."""
    last: Report | None = None
    shown = ""
    try:
        while True:
            report = look()
            now = time.strftime("%H:%M:%S")
            line = one_line(f"{report.verdict}: {headline(report)}")
            if screen:
                terminal.screen(f"{page(report)}\nLooked at {now}; again in {every:g} s. Ctrl-C ends.\n")
            elif line != shown:
                terminal.write(f"{now} {line}\n")
            last, shown = report, line
            time.sleep(every)
    except KeyboardInterrupt:
        return last
