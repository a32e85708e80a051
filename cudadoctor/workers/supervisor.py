"""Starts the doctor's children and is their parent, so that none of them outlives the doctor, however that ends.

usage: supervisor.py DESCRIPTOR        a stream socket to the doctor (sources/keeping.py)

Orphans of its children, those that made a session of their own too, become its own children (PR_SET_CHILD_SUBREAPER); when the doctor's
end of the socket is closed, by kill -9 as well, all of them are killed. It is two processes that watch over each other, so that kill -9 of
either leaves nothing behind. Linux only. Every frame is a length and a value of `marshal`:

    from the doctor   (id, argv, environment) as bytes, with the descriptors of stdin, stdout and stderr
    to the doctor     ("started", id, pid), ("refused", id, errno), ("ended", id, code or -signal)
"""

from __future__ import annotations

import array
import ctypes
import marshal
import os
import select
import signal
import socket
import struct
import sys
import time

LENGTH = struct.Struct(">Q")
DEATH_SIGNAL, SUBREAPER = 1, 36  # prctl
LAST = 3.0  # seconds after which what cannot be killed (uninterruptible sleep) is left
LIBC = ctypes.CDLL(None)


def start(argv: list[bytes], environment: dict[bytes, bytes], descriptors: list[int]) -> tuple[int, int]:
    """The number of the process, or 0 and the error of its start. A session of its own, ended with us."""
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            LIBC.prctl(DEATH_SIGNAL, int(signal.SIGKILL), 0, 0, 0)
            for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD):
                signal.signal(number, signal.SIG_DFL)
            for target, descriptor in enumerate(descriptors):
                os.dup2(descriptor, target)
            os.execve(argv[0], argv, environment)  # noqa: S606 - what the doctor asked for
        except OSError as error:
            os.write(theirs, b"%d" % (error.errno or 0))
        finally:
            os._exit(127)
    os.close(theirs)
    refused = os.read(ours, 16)
    os.close(ours)
    if refused:
        os.waitpid(pid, 0)
        return 0, int(refused)
    return pid, 0


def reap() -> list[tuple[int, int]]:
    """Who has ended, and how."""
    ended = []  # type: list[tuple[int, int]]
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended
        if pid == 0:
            return ended
        ended.append((pid, -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)))


def children() -> list[int]:
    own = os.getpid()
    try:
        with open("/proc/%d/task/%d/children" % (own, own)) as stream:
            return [int(pid) for pid in stream.read().split()]
    except OSError:
        return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if parent(pid) == own]


def parent(pid: int) -> int:
    try:
        with open("/proc/%d/stat" % pid, "rb") as stream:
            return int(stream.read().rpartition(b")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return 0


def end_all() -> None:
    """Kill the children, then those that become ours by that, until there are none."""
    end = time.monotonic() + LAST
    while time.monotonic() < end:
        reap()
        left = children()
        if not left:
            return
        for pid in left:
            for kill in (os.killpg, os.kill):
                try:
                    kill(pid, signal.SIGKILL)
                except OSError:
                    pass  # it leads no group, or it ended meanwhile
        time.sleep(0.005)


class Line:
    def __init__(self, descriptor: int) -> None:
        os.set_inheritable(descriptor, False)
        self.socket = socket.socket(fileno=descriptor)
        self.buffer = bytearray()
        self.descriptors = []  # type: list[int]

    def receive(self) -> bool:
        """Take what is there; False where nobody is at the other end any more."""
        try:
            chunk, ancillary, _, _ = self.socket.recvmsg(1 << 16, socket.CMSG_SPACE(3 * 4), socket.MSG_CMSG_CLOEXEC)
        except OSError:
            return False
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                numbers = array.array("i")
                numbers.frombytes(data[: len(data) - len(data) % numbers.itemsize])
                self.descriptors.extend(numbers)
        self.buffer += chunk
        return bool(chunk)

    def frames(self) -> list[tuple[int, list[bytes], dict[bytes, bytes]]]:
        found = []
        while len(self.buffer) >= LENGTH.size:
            end = LENGTH.size + LENGTH.unpack_from(self.buffer)[0]
            if len(self.buffer) < end:
                break
            found.append(marshal.loads(bytes(self.buffer[LENGTH.size : end])))  # noqa: S302 - the doctor's own words
            del self.buffer[:end]
        return found

    def send(self, *words: str | int) -> None:
        body = marshal.dumps(words)
        try:
            self.socket.sendall(LENGTH.pack(len(body)) + body)
        except OSError:
            pass  # its end is seen when we read


def serve(line: Line, wake: int) -> None:
    names = {}  # type: dict[int, int]
    while True:
        ready, _, _ = select.select([line.socket.fileno(), wake], [], [])
        if line.socket.fileno() in ready:
            if not line.receive():
                return
            for name, argv, environment in line.frames():
                given, line.descriptors = line.descriptors[:3], line.descriptors[3:]
                pid, error = start(argv, environment, given)
                for descriptor in given:
                    os.close(descriptor)
                if pid:
                    names[pid] = name
                    line.send("started", name, pid)
                else:
                    line.send("refused", name, error)
        if wake in ready:
            os.read(wake, 4096)
        for pid, code in reap():
            if pid in names:
                line.send("ended", names.pop(pid), code)


def end_if_it_fails() -> None:
    """Go on in a child; here wait for it, and end what it leaves where it is killed."""
    own = os.getpid()
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit())
        LIBC.prctl(DEATH_SIGNAL, int(signal.SIGTERM), 0, 0, 0)
        if os.getppid() != own:
            sys.exit()
        return
    os.close(int(sys.argv[1]))
    if os.waitpid(pid, 0)[1]:
        end_all()
    os._exit(0)


def main() -> None:
    LIBC.prctl(SUBREAPER, 1, 0, 0, 0)
    end_if_it_fails()
    LIBC.prctl(SUBREAPER, 1, 0, 0, 0)  # no fork inherits it
    wake, told = os.pipe()
    for descriptor in (wake, told):
        os.set_blocking(descriptor, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(told)
    try:
        serve(Line(int(sys.argv[1])), wake)
    finally:
        end_all()


if __name__ == "__main__":
    main()
