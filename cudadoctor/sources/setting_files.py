"""Where the variables of this environment are set: profiles of shells, /etc/environment, conda's activate.d, the unit of a service.

Only places and names are told, never a value: `/home/ada/.bashrc:12: CUDA_VISIBLE_DEVICES`.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator

from cudadoctor.sources.decoding import beginning

_LIMIT = 1 << 18  # characters of one file
_MOST = 400  # lines in all
_SYSTEM = (
    "/etc/environment",
    "/etc/profile",
    "/etc/profile.d/*.sh",
    "/etc/bash.bashrc",
    "/etc/bashrc",
    "/etc/zsh/zshenv",
    "/etc/zsh/zshrc",
)
_OF_USER = (
    ".bashrc", ".bash_profile", ".bash_login", ".profile", ".zshrc", ".zshenv", ".zprofile", ".kshrc", ".config/fish/config.fish",
    ".config/environment.d/*.conf", ".pam_environment",
)  # fmt: skip
_UNITS = ("/etc/systemd/system", "/run/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system")
_EXPORTS = re.compile(r"^[ \t]{0,40}(?:export|declare -x|typeset -x|setenv|set -gx|set -Ux|Environment=)[ \t]{0,40}")
_SETS = re.compile(r"^[ \t]{0,40}[\"']?([A-Za-z_][A-Za-z0-9_]{0,100})(?:[ \t]{0,40}=|[ \t])")
_MORE = re.compile(r"[ \t][\"']?([A-Za-z_][A-Za-z0-9_]{0,100})=")  # further ones of the same line
_DOES_MORE = re.compile(r"[;&|`]|\$\(|\\$")  # another command, or a line that goes on
# What opens or closes a text that may go on in the next line, and what hides such a sign: an escaped one, a comment.
_OPENS = re.compile(r"\\.|\\$|['\"]|(?<!<)<<-?[ \t]*(?:'[^'\n]{1,100}'|\"[^\"\n]{1,100}\"|\\?[A-Za-z_]\w{0,100})|(?:^|(?<=[\s;]))#")
_FILE = re.compile(r"^[ \t]{0,40}EnvironmentFile=-?(/\S{1,1000})")
_UNIT = re.compile(r"/(\w[\w@.:\\-]{0,199}\.service)")


def list_settings(_: str) -> str:
    """`path:line: NAME` for each line that sets a variable of this process; `NAME ...` where that line does more."""
    lines: list[str] = []
    for path in dict.fromkeys(filter(str.isprintable, _files())):  # a name with a line feed would make lines of its own
        lines.extend(f"{path}:{number}: {name}" for number, name in _set_in(path) if name.split(" ")[0] in os.environ.keys() - {"PATH"})
        if len(lines) > _MOST:
            break
    return "".join(f"{line}\n" for line in lines[:_MOST])


def _files() -> Iterator[str]:
    """In the order in which a shell reads them: what is set last counts."""
    for pattern in _SYSTEM:
        yield from sorted(glob.glob(pattern))
    home = os.path.expanduser("~")
    for name in _OF_USER if os.path.isabs(home) else ():
        yield from sorted(glob.glob(os.path.join(glob.escape(home), name)))
    for variable, pattern in (("CONDA_PREFIX", "etc/conda/activate.d/*.sh"), ("VIRTUAL_ENV", "bin/activate")):
        prefix = os.environ.get(variable, "")
        if os.path.isabs(prefix):
            yield from sorted(glob.glob(os.path.join(glob.escape(prefix), pattern)))
    yield from _of_unit()


def _of_unit() -> Iterator[str]:
    """The unit of the service in which this process runs, its additions, and the files that these name."""
    unit = _UNIT.search(beginning("/proc/self/cgroup", _LIMIT))
    if unit is None or unit[1].startswith("user@"):
        return
    for folder in _UNITS:
        for path in (f"{folder}/{unit[1]}", *sorted(glob.glob(glob.escape(f"{folder}/{unit[1]}.d") + "/*.conf"))):
            if os.path.isfile(path):
                yield path
                yield from (found[1] for found in map(_FILE.match, beginning(path, _LIMIT).split("\n")) if found is not None)


def _set_in(path: str) -> Iterator[tuple[int, str]]:
    """(number, name) of each line that sets a variable, the name with dots behind it where the line does more, or is part of more."""
    for number, (line, alone) in enumerate(_lines(beginning(path, _LIMIT)), 1):
        exported = _EXPORTS.match(line[:2000])
        rest = line[exported.end() if exported is not None else 0 : 2000]
        found = _SETS.match(rest)
        if found is not None:
            names = dict.fromkeys((found[1], *(_MORE.findall(rest) if exported is not None else ())))
            more = len(names) > 1 or not alone or _DOES_MORE.search(line) is not None
            yield from ((number, f"{name} ..." if more else name) for name in names)


def _lines(text: str) -> Iterator[tuple[str, bool]]:
    """Each line, and whether it begins and ends as a command does: not within quotes or a here-document, and no other one goes on in it."""
    quote, ends, goes_on = "", [], False  # type: str, list[str], bool
    for line in text.split("\n"):
        within = bool(quote or ends or goes_on)
        if ends and not quote:
            if line.strip() == ends[0]:
                del ends[0]
        else:
            quote, opened, goes_on = _open_after(line, quote)
            ends += opened
        yield line, not (within or quote or ends or goes_on)


def _open_after(line: str, quote: str) -> tuple[str, list[str], bool]:
    """The quote that is open at the end of a line that begins within `quote`, the here-documents that follow it, and whether it goes on."""
    opened = []  # type: list[str]
    for sign in (match[0] for match in _OPENS.finditer(line)):
        if quote:
            if sign == quote or (quote == "'" and sign == "\\'") or (sign.startswith("<<") and quote in sign):
                quote = ""
        elif sign in ("'", '"'):
            quote = sign
        elif sign.startswith("<<"):
            opened.append(sign.lstrip("<- \t").strip("'\"\\"))
        elif sign == "#":
            break
        elif sign == "\\":
            return "", opened, True
    return quote, opened, False
