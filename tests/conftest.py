"""What holds for the whole suite: names of test cases, and the signals that end a program."""

import signal


def pytest_configure() -> None:
    """A shell starts what runs in the background with Ctrl-C ignored, nohup with SIGHUP: so would every program be that a test interrupts."""
    for name, handler in (("SIGINT", signal.default_int_handler), ("SIGHUP", signal.SIG_DFL)):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)


def pytest_make_parametrize_id(val: object) -> str | None:
    """The same name in every process: pytest-xdist refuses to run where two workers name a case differently.

    Bytes are named by their kind alone (pytest numbers them): what they hold may have the time of day in it, as an archive's header has.
    """
    return "bytes" if isinstance(val, bytes) else None
