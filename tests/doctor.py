"""`python tests/doctor.py check ...`: the doctor as a program, but for the child that judges: half of what a replay costs is its start.

For tests of streams, and of scripts that start a doctor many times. What the child is good for is tested in test_within.py.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

if __name__ == "__main__":
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def judge_here(change: Callable[[object, str, object], None] = setattr) -> None:
    """Judge in this process from now on; `change` may be monkeypatch's, which takes it back."""
    from cudadoctor import installed
    from cudadoctor.model.guard import Guard
    from cudadoctor.model.judgement import Job
    from cudadoctor.within import answering
    from cudadoctor.within.asking import Judge

    def once(self: Judge, asked: Any, too_long: frozenset[str], seconds: float, kind: type, until: float | None = None) -> Any:
        job = Job(asked=asked, too_long=too_long, seconds=seconds)
        return answering.answer(job, installed.knowledge(), Guard().begins)

    change(Judge, "__init__", lambda self, **_: setattr(self, "child", None))
    change(Judge, "_once", once)


if __name__ == "__main__":
    from cudadoctor.commands.cli import main

    judge_here()
    main()
