"""What of the kernel's interface a process is refused: read, recorded, and only that."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

from cudadoctor.model.values import KERNEL_INTERFACE, OF_PYTHON
from cudadoctor.parsers import user
from cudadoctor.parsers.base import Text
from cudadoctor.sources import kernel_interface
from cudadoctor.sources.spawning import PipeStream

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the calls are Linux's")


def refused(text: str) -> list[str]:
    fact = next(iter(user.parse_refused(Text(text, source="system calls"))))
    assert fact.key == KERNEL_INTERFACE.name
    return [entry.name for entry in fact.value]  # type: ignore[union-attr]


def test_here_all_is_answered() -> None:
    assert kernel_interface.read_kernel_interface("") == "all answered\n"
    assert refused("all answered\n") == []


@pytest.mark.parametrize(("error", "found"), [(PermissionError(1, "x"), ["pipe2"]), (OSError(38, "x"), ["pipe2"]), (OSError(24, "x"), [])])
def test_a_refused_call_is_named_and_a_failed_one_is_not(monkeypatch: pytest.MonkeyPatch, error: OSError, found: list[str]) -> None:
    def refuse() -> None:
        raise error

    monkeypatch.setitem(kernel_interface._CALLS, "pipe2", refuse)
    assert refused(kernel_interface.read_kernel_interface("")) == found


def test_what_an_ended_child_had_not_asked_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(kernel_interface._CALLS, "pipe2", lambda: os.kill(os.getpid(), 9))
    with pytest.raises(OSError, match="the child that asked was ended"):
        kernel_interface._asked_apart()


def test_without_proc(monkeypatch: pytest.MonkeyPatch) -> None:
    there = os.path.exists
    monkeypatch.setattr(os.path, "exists", lambda path: path != "/proc/self/stat" and there(path))
    text = kernel_interface.read_kernel_interface("")
    assert text == "/proc: not the kernel's\n"
    assert refused(text) == ["/proc"]


def test_the_proc_of_another_pid_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    """bwrap --unshare-pid without --proc: /proc is there and counts processes otherwise."""
    monkeypatch.setattr(os, "getpid", lambda: 1)
    assert refused(kernel_interface.read_kernel_interface("")) == ["/proc"]


# Answers so to every ioctl of type 'F', NVIDIA's own: struct sock_filter is code, jt, jf, k (linux/filter.h).
FILTERED = """
import ctypes, struct, sys
rules = [(32,0,0,0), (21,0,4,16), (32,0,0,24), (84,0,0,0xff00), (21,0,1,0x4600), (6,0,0,int(sys.argv[1], 16)), (6,0,0,0x7fff0000)]
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *rule) for rule in rules))
class Program(ctypes.Structure): _fields_ = [("length", ctypes.c_ushort), ("rules", ctypes.c_void_p)]
libc, program = ctypes.CDLL(None), Program(len(rules), ctypes.addressof(code))
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, ctypes.byref(program)) == 0
from cudadoctor.sources import kernel_interface
print(kernel_interface.read_kernel_interface(""), end="")
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="system calls have other numbers")
@pytest.mark.parametrize(("action", "said"), [("50001", "EPERM"), ("80000000", "killed by SIGSYS")])
def test_a_filter_on_what_is_said_to_the_driver_alone(action: str, said: str) -> None:
    done = subprocess.run([sys.executable, "-c", FILTERED, action], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == f"ioctl: {said}\n", done.stderr


def test_a_pipe_is_read_where_no_ioctl_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(25, "Inappropriate ioctl for device")

    monkeypatch.setattr(os, "set_blocking", refuse)
    source, sink = os.pipe()
    stream = PipeStream(os.fdopen(source, "rb"))
    assert stream.take() is None
    os.write(sink, b"x")
    assert stream.take() == b"x"
    stream.close()
    os.close(sink)


def test_the_calls_of_python_are_asked() -> None:
    """Of a name that nobody asks for, a refusal would count as the driver's."""
    assert set(OF_PYTHON) < set(kernel_interface._CALLS)
