"""Who else may change a place, or what is looked up on the way to it: its owner, whoever mounted its file system, the members of its group,
and whom its access list names.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import lru_cache

_FIRST_PERSON = 1000  # user ids below it are the system's own
_NAMED_BY = ("passwd", "group", "initgroups", "subid")  # databases of /etc/nsswitch.conf
_LOCAL = frozenset(("files", "compat", "systemd", "[NOTFOUND=return]", "[SUCCESS=merge]"))
_MOST_LINKS = 40  # as in the kernel
_OF_PROCESSES = ("/proc/", "/run/user/")  # below it a place may become another user's a moment later, or be another for each process
_ESCAPED = re.compile(r"\\([0-7]{3})")  # a blank in the table of mounts
_OF_A_PERSON = re.compile(r"(?:^|,)(?:uhelper=|user=(?!root(?:,|$)))")  # who mounted a file system, as libmount notes it


def belongs_to_root(info: os.stat_result) -> bool:
    return (info.st_uid == 0 or is_unmapped(info.st_uid)) and info.st_dev not in mounted_by_others().values()


@lru_cache(maxsize=None)
def mounted_by_others(table: str = "/proc/self/mountinfo", helped: str = "/run/mount/utab") -> dict[str, int]:
    """Where another user mounted a file system of his own (FUSE, a disk that was plugged in), and its device: its files belong to whomever
    he says.

    Source of the formats: proc_pid_mountinfo(5), mount.fuse(8); util-linux: libmount/src/tab_parse.c, and mount(8), uhelper.
    """
    mounts = [fields for fields in _lines(table) if len(fields) > 6 and "-" in fields]
    by_helper = {_value(fields, "TARGET=") for fields in _lines(helped) if _OF_A_PERSON.search(_value(fields, "OPTS="))}
    theirs = [
        fields
        for fields in mounts
        if fields[4] in by_helper or (fields[fields.index("-") + 1].startswith("fuse") and "user_id=0" not in fields[-1].split(","))
    ]
    return {_ESCAPED.sub(lambda code: chr(int(code[1], 8)), fields[4]): os.makedev(*map(int, fields[2].split(":"))) for fields in theirs}


def _lines(table: str) -> list[list[str]]:
    try:
        with open(table, encoding="utf-8", errors="surrogateescape") as stream:
            return [line.split() for line in stream]
    except OSError:
        return []


def _value(fields: list[str], name: str) -> str:
    return next((field[len(name) :] for field in fields if field.startswith(name)), "")


def open_to_others(place: str, info: os.stat_result) -> bool:
    """Whether everybody may write there, or a group in which somebody is. With an access list the group's bits are those of everybody whom
    it names."""
    if info.st_mode & stat.S_IWOTH:
        return True
    return bool(info.st_mode & stat.S_IWGRP) and not (_is_nobodys(info.st_gid) and not _has_list(place))


def _has_list(place: str) -> bool:
    try:
        return "system.posix_acl_access" in os.listxattr(place)
    except AttributeError:
        return False  # no such lists on this system
    except OSError as error:
        return error.errno != errno.ENOTSUP  # on this file system; where it may not be read there may be one


@lru_cache(maxsize=None)
def _is_nobodys(group: int) -> bool:
    """Whether a group has no member (`staff`, whose /usr/local is on an older Debian), or is root's and nobody's who logs in. A directory
    service need not list who is in a group: beside one, only root's group is nobody's.
    """
    try:
        import grp
        import pwd
    except ImportError:
        return group == 0
    entries = [entry for entry in grp.getgrall() if entry.gr_gid == group]  # several may have one number
    members = {name for entry in entries for name in entry.gr_mem} - {"root"}
    others = [user for user in pwd.getpwall() if user.pw_gid == group and user.pw_uid != 0]
    if members or _is_lent(group) or _joined_by_shadow({entry.gr_name for entry in entries}):
        return False
    if any(_is_password(entry.gr_passwd) for entry in entries):
        return False
    return not others and _all_are_listed() if group else all(user.pw_uid < _FIRST_PERSON for user in others)


def _is_lent(group: int, path: str = "/etc/subgid") -> bool:
    """Whether a user may take on this number in a user namespace of his own. Source of the format: subgid(5)."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as stream:
            rows = [line.strip().split(":") for line in stream]
        return any(int(row[1]) <= group < int(row[1]) + int(row[2]) for row in rows if len(row) == 3 and row[0] not in ("root", "0"))
    except FileNotFoundError:
        return False
    except (OSError, ValueError):
        return True


def _joined_by_shadow(groups: Collection[str], path: str = "/etc/gshadow") -> bool:
    """Whether that file gives one of these groups a member, somebody who may add some, or a password by which anybody joins it.

    Source of the format: gshadow(5); newgrp(1) and sg(1) go by it.
    """
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as stream:
            rows = [line.rstrip("\n").split(":") for line in stream]
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return any(
        row[0] in groups and (any(set(word.split(",")) - {"", "root"} for word in row[2:4]) or _is_password(row[1]))
        for row in rows
        if len(row) > 3
    )


def _is_password(written: str | None) -> bool:
    """Whether anybody who knows it joins the group. Without a line in gshadow newgrp goes by /etc/group."""
    return written not in (None, "", "x") and not written.startswith(("!", "*"))


def _all_are_listed(switch: str = "/etc/nsswitch.conf", lists: Iterable[str] = ("/etc/passwd", "/etc/group")) -> bool:
    """Whether users and groups come from this machine's own files alone."""
    try:
        with open(switch, encoding="utf-8", errors="replace") as stream:
            named = [line.partition("#")[0].partition(":") for line in stream]
        if not {word for name, _, words in named if name.strip() in _NAMED_BY for word in words.split()} <= _LOCAL:
            return False
        return not any(map(_asks_nis, lists))
    except FileNotFoundError:
        return True  # without the first the libraries ask the files alone
    except OSError:
        return False


def _asks_nis(path: str) -> bool:
    with open(path, encoding="utf-8", errors="replace") as stream:
        return any(line.startswith("+") for line in stream)


@lru_cache(maxsize=None)
def is_unmapped(user: int) -> bool:
    """Whether this is the owner of what belongs to nobody inside a user namespace: the host's own root, for whoever is root in here, and
    all others who have no number here; where the host's root has one, others alone.
    """
    try:
        with open("/proc/self/uid_map", encoding="ascii") as stream:
            mapped = [tuple(map(int, line.split())) for line in stream]
        with open("/proc/sys/kernel/overflowuid", encoding="ascii") as stream:
            overflow = int(stream.read())
    except (OSError, ValueError):
        return False
    return user == overflow and not any(first <= overflow < first + count or outside == 0 for first, outside, count in mapped)


def leads_to(place: str) -> str | None:
    """Where a link leads; None where the place is none."""
    return os.readlink(place) if stat.S_ISLNK(os.lstat(place).st_mode) else None


def of_root_alone(place: str) -> bool:
    info = os.lstat(place)
    if not belongs_to_root(info):
        return False
    if stat.S_ISLNK(info.st_mode):
        return not place.startswith(_OF_PROCESSES)  # the mode of a link means nothing
    if stat.S_ISDIR(info.st_mode) and info.st_mode & stat.S_ISVTX:
        return True  # what is in it is removed and renamed by its owner alone, and each of these is asked about too
    return not open_to_others(place, info)


def is_roots(path: str, of_root_alone: Callable[[str], bool] = of_root_alone, leads_to: Callable[[str], str | None] = leads_to) -> bool:
    """Whether every folder and link on the way to a file, and the file, are root's alone. In a folder where everybody may make files
    (/tmp) only what is there and root's counts, not the folder, nor what another user may still make. Nobody finds anything in /dev/null.
    """
    last = os.sep
    try:
        for last in way(path, leads_to):
            if last != os.devnull and not of_root_alone(last):
                return False
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError:
        return False  # what may not be looked at is not known to be root's
    return last == os.devnull or not (_is_everybodys(last) or f"{last}/".startswith(_OF_PROCESSES))


def _is_everybodys(place: str) -> bool:
    info = os.lstat(place)
    return stat.S_ISDIR(info.st_mode) and open_to_others(place, info)


def way(path: str, leads_to: Callable[[str], str | None] = leads_to) -> Iterator[str]:
    """All that is looked up between / and the file, in the order of the looking up. Links are followed by hand, so each is among them."""
    parts, here, links = path.split(os.sep)[::-1], "/", 0
    yield here
    while parts:
        part = parts.pop()
        if part in ("", os.curdir):
            continue
        if part == os.pardir:
            here = os.path.dirname(here)
            continue
        place = f"/{part}" if here == "/" else f"{here}/{part}"
        target = leads_to(place)
        yield place
        if target is None:
            here = place
            continue
        links += 1
        if links > _MOST_LINKS:
            raise OSError("too many links")
        here = "/" if os.path.isabs(target) else here
        parts.extend(target.split(os.sep)[::-1])
