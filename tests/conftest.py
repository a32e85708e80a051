"""What holds for the whole suite: names of test cases, and the signals that end a program."""

import compileall
import os
import signal
from typing import Any

import pytest

import cudadoctor
from cudadoctor.within.asking import Judge


def pytest_configure(config: pytest.Config) -> None:
    """What the programs need that tests start: byte code, made once for a run of many; and signals that interrupt.

    A shell starts what runs in the background with Ctrl-C ignored, nohup with SIGHUP: so would every program be that a test interrupts.
    """
    if not hasattr(config, "workerinput") and config.getoption("numprocesses", None):
        compileall.compile_dir(os.path.dirname(cudadoctor.__file__), quiet=2)
    for name, handler in (("SIGINT", signal.default_int_handler), ("SIGHUP", signal.SIG_DFL)):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)


def pytest_make_parametrize_id(val: object) -> str | None:
    """The same name in every process: pytest-xdist refuses to run where two workers name a case differently.

    Bytes are named by their kind alone (pytest numbers them): what they hold may have the time of day in it, as an archive's header has.
    """
    return "bytes" if isinstance(val, bytes) else None


@pytest.fixture(autouse=True)
def judged_here(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands that run in this process judge in it too: a child for each would take longer than all else. `judge_child` leaves it so."""
    if "judge_child" not in request.keywords:
        from cudadoctor import installed
        from cudadoctor.model.guard import Guard
        from cudadoctor.model.judgement import Job
        from cudadoctor.within import answering

        def once(self: Judge, asked: Any, too_long: frozenset[str], seconds: float, kind: type, until: float | None = None) -> Any:
            job = Job(asked=asked, too_long=too_long, seconds=seconds)
            return answering.answer(job, installed.knowledge(), Guard().begins)

        monkeypatch.setattr(Judge, "__init__", lambda self, **_: setattr(self, "child", None))
        monkeypatch.setattr(Judge, "_once", once)
