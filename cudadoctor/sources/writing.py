"""Files that the user asked for. What another user put in their way is not followed: he would choose which file root overwrites."""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from cudadoctor.sources import inherited

SAFELY = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_NO_ROOM = (errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC))
MOST_LINKS = 40  # as Linux counts
_OPEN_FILES = "/proc/self/fd"
_OF_SYSTEM = re.compile(r"/dev/(?:stdout|stderr|fd/\d+)|/proc/self/fd/\d+")  # also of >(program): their links are the kernel's


def text(path: str, body: str, *, mode: str = "w") -> None:
    """Writes or, with mode "a", appends. OSError where it cannot be written, or where a link of another user leads elsewhere."""
    content = body.encode("utf-8", "backslashreplace")
    with _opened(path, mode, len(content)) as stream:
        stream.write(content)


def _opened(path: str, mode: str, size: int) -> IO[bytes]:
    """`size`: the bytes that will be written. Where there is no room for them, what was in the file before stays."""
    if not hasattr(os, "O_PATH") or _OF_SYSTEM.fullmatch(path):
        return open(path, f"{mode}b")
    descriptor = _walked(path, os.O_WRONLY | os.O_CREAT, 0o666)
    try:
        info = os.fstat(descriptor)
        if not stat.S_ISREG(info.st_mode) and info.st_uid not in (0, os.geteuid()):
            raise OSError(errno.EPERM, "it is a pipe or a device of another user", path)
        os.set_blocking(descriptor, True)
        if stat.S_ISREG(info.st_mode):
            start = info.st_size if mode == "a" else 0
            _make_room(descriptor, info.st_size, start + size)
            os.lseek(descriptor, start, os.SEEK_SET)
        return open(descriptor, "wb")
    except BaseException:
        os.close(descriptor)
        raise


def _make_room(descriptor: int, before: int, size: int) -> None:
    """The file gets this size. OSError where the disk, a quota or a limit does not allow it; the file is as it was then."""
    try:
        os.posix_fallocate(descriptor, 0, max(1, size))
    except OSError as error:
        if error.errno in _NO_ROOM:  # other file systems cannot tell before they write
            os.ftruncate(descriptor, before)
            raise
    os.ftruncate(descriptor, size)


def _walked(path: str, flags: int, mode: int, made: list[str] | None = None) -> int:
    """The file, opened folder by folder. A link is followed by hand, where root or this user made it: what is asked and what is followed is
    one and the same open link, so nobody can put another in its place in between. `made`: folders that are not there are made, and noted.
    """
    parts, links = _whole(path).split(os.sep)[::-1], 0
    folder = os.open(os.sep, os.O_PATH)
    try:
        while True:
            part = parts.pop() if parts else os.curdir
            if part in ("", os.curdir) and parts:
                continue
            last = not any(parts)
            try:
                inner = os.open(part, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            except FileNotFoundError:
                if made is not None:
                    os.mkdir(part, mode, dir_fd=folder)
                    made.append(part)
                    parts.append(part)
                    continue
                if not last:
                    raise
                return _own(folder, part, flags, mode)
            info = os.fstat(inner)
            if not stat.S_ISLNK(info.st_mode):
                if last:
                    os.close(inner)
                    return _own(folder, part, flags, mode)
                os.close(folder)
                folder = inner
                continue
            target = os.readlink("", dir_fd=inner)
            os.close(inner)
            if info.st_uid not in (0, os.geteuid()):
                raise OSError(errno.EPERM, f"{part} is a link that another user made", path)
            links += 1
            if links > MOST_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
            parts.extend(target.split(os.sep)[::-1])
            if target.startswith(os.sep):
                os.close(folder)
                folder = os.open(os.sep, os.O_PATH)
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from error
    finally:
        os.close(folder)


def _whole(path: str) -> str:
    """OSError where it begins in a folder that was deleted."""
    if not os.path.isabs(path) and inherited.left:
        raise FileNotFoundError(errno.ENOENT, f"the working directory {inherited.left[0]}", path)
    return path if os.path.isabs(path) else os.path.join(os.getcwd(), path)


@contextmanager
def held(folder: str, made: list[str] | None = None, mode: int = 0o700) -> Iterator[str]:
    """A way to this folder that stays one to it, whatever somebody puts in its place meanwhile. OSError as for a file.

    `made`: where it is not there it is made, with those above it, whose names are noted in this list.
    """
    if not hasattr(os, "O_PATH") or not os.path.isdir(_OPEN_FILES):
        if made is not None and not os.path.isdir(folder):
            os.makedirs(folder, mode)
            made.append(os.path.basename(folder))
        yield folder
        return
    descriptor = _walked(folder, os.O_PATH | os.O_DIRECTORY, mode, made)
    try:
        yield f"{_OPEN_FILES}/{descriptor}"
    finally:
        os.close(descriptor)


def _own(folder: int, name: str, flags: int, mode: int) -> int:
    """The file in this folder. OSError where another user laid it out there: he could change what is written, or it is another file by a
    second name. The kernel says the same where fs.protected_regular and fs.protected_hardlinks are on."""
    descriptor = os.open(name, flags | SAFELY, mode, dir_fd=folder)
    place, info = os.fstat(folder), os.fstat(descriptor)
    of_all = place.st_mode & stat.S_IWOTH and place.st_mode & stat.S_ISVTX
    why = None
    if stat.S_ISREG(info.st_mode) and of_all and info.st_uid not in (0, os.geteuid()):
        why = "it is a file of another user, in a folder where everybody may make some"
    elif stat.S_ISREG(info.st_mode) and info.st_nlink > 1 and (of_all or place.st_uid not in (0, os.geteuid())):
        why = "it is a file that has another name besides, in a folder of others"
    if why is not None:
        os.close(descriptor)
        raise OSError(errno.EPERM, why)
    return descriptor


def new(path: str) -> IO[bytes]:
    """A file that was not there before: FileExistsError otherwise, whatever is in its place."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    return os.fdopen(os.open(path, flags, 0o600), "wb")


def remove(path: str) -> None:
    """A file, a link itself, or a folder without following links in it."""
    try:
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            os.unlink(path)
    except FileNotFoundError:
        pass
