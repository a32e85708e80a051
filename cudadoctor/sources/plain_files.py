"""Opens files whose place somebody else may have filled: a pipe or a device holds nobody up, and root follows no other user's link.

A link to /proc/kmsg would take the kernel's messages from the system's log, and one to a pipe would wait for ever.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import IO

from cudadoctor.sources import trust

# Windows lacks the first two of these, and nothing else has the last.
_AT_ONCE = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


def opened(path: str) -> IO[bytes]:
    """OSError where it is no plain file, or for root where another user's link leads to it."""
    if trust.as_root() and trust.strange_link(path, to_read=True) is not None:
        raise OSError(errno.ELOOP, "reached through another user's link", path)
    descriptor = os.open(path, _AT_ONCE)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    raise OSError(errno.EINVAL, "no plain file", path)


def text(path: str, length: int) -> str:
    """As many bytes of a file, as text."""
    with opened(path) as stream:
        return stream.read(length).decode("utf-8", "replace")


def beginning(path: str, length: int) -> str:
    """The same of a small file, with plain line ends; empty where it is none or may not be read."""
    try:
        return text(path, length).replace("\r\n", "\n")
    except OSError:
        return ""
