"""Where the variables of this environment are set: profiles of shells, /etc/environment, conda's activate.d, the unit of a service.

Only places and names are told, never a value: `/home/ada/.bashrc:12: CUDA_VISIBLE_DEVICES`.
"""

from __future__ import annotations

import glob
import json
import os
import re
from collections.abc import Iterator

from cudadoctor.sources.plain_files import beginning

_LIMIT = 1 << 18  # characters of one file
_MOST = 400  # lines in all
_SYSTEM = (
    "/etc/environment", "/etc/profile", "/etc/profile.d/*.sh", "/etc/bash.bashrc", "/etc/bashrc", "/etc/zsh/zshenv", "/etc/zsh/zshrc",
)  # fmt: skip
_OF_USER = (
    ".bashrc", ".bash_profile", ".bash_login", ".profile", ".zshrc", ".zshenv", ".zprofile", ".kshrc", ".config/fish/config.fish",
    ".config/environment.d/*.conf", ".pam_environment",
)  # fmt: skip
_UNITS = ("/etc/systemd/system", "/run/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system")
_EXPORTS = re.compile(r"^[ \t]{0,40}(?:export|declare -x|typeset -x|setenv|set -gx|set -Ux|Environment=)[ \t]{0,40}")
_SETS = re.compile(r"^[ \t]{0,40}[\"']?([A-Za-z_][A-Za-z0-9_]{0,100})(?:[ \t]{0,40}=|[ \t])")
_MORE = re.compile(r"[ \t][\"']?([A-Za-z_][A-Za-z0-9_]{0,100})=")  # further ones of the same line
_DOES_MORE = re.compile(r"[;&|`]|\$\(|\\$")  # another command, or a line that goes on
# What opens something that a later line ends: quotes, brackets, a here-document; and what hides such a sign.
_SIGN = re.compile(r"""\\.|<<<|<<-?[ \t]{0,9}["'\\]?([A-Za-z_]\w{0,60})["']?|(?:^|(?<=[ \t;]))#|\\$|["'`()]""")
_ENDS = {"'": re.compile("'"), '"': re.compile(r'\\.|"|\\$'), "`": re.compile(r"\\.|`|\\$")}
_FILE = re.compile(r"^[ \t]{0,40}EnvironmentFile=-?(/\S{1,1000})")
_UNIT = re.compile(r"/(\w[\w@.:\\-]{0,199}\.service)")


def list_settings(_: str) -> str:
    """`path:line: NAME` for each line that sets a variable of this process; `NAME ...` where that line does more."""
    lines: list[str] = []
    for path in dict.fromkeys(filter(str.isprintable, _files())):  # a name with a line feed would make lines of its own
        lines.extend(f"{path}:{number}: {name}" for number, name in _set_in(path) if name.split(" ")[0] in os.environ.keys() - {"PATH"})
        if len(lines) > _MOST:
            break
    lines += [f"{path}:1: {name}" for path, name in _of_conda() if name in os.environ and name.isidentifier() and path.isprintable()]
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


def _of_conda() -> Iterator[tuple[str, str]]:
    """What `conda env config vars` keeps in the active environment, a JSON of its own."""
    prefix = os.environ.get("CONDA_PREFIX", "")
    path = os.path.join(prefix, "conda-meta", "state")
    try:
        kept = json.loads(beginning(path, _LIMIT)) if os.path.isabs(prefix) else None
    except ValueError:
        return
    kept = kept.get("env_vars") if isinstance(kept, dict) else None
    yield from ((path, name) for name in kept if isinstance(name, str)) if isinstance(kept, dict) else ()


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


class _Open:
    """What is open between two lines of a shell's file: a line within it is no line alone, and is left as it is."""

    def __init__(self) -> None:
        self.quote, self.depth, self.goes_on = "", 0, False
        self.documents: list[str] = []  # the ends of here-documents

    def __bool__(self) -> bool:
        return bool(self.quote or self.depth or self.goes_on or self.documents)

    def read(self, line: str) -> None:
        """One line more."""
        self.goes_on = False
        if self.documents:
            if line.strip() == self.documents[0]:
                del self.documents[0]
            return
        found = self._sign(line, 0)
        while found is not None:
            sign = found.group()
            self.goes_on = sign == "\\"
            if self.quote:
                self.quote = "" if sign == self.quote else self.quote
            elif sign == "#":
                return
            elif sign.startswith("<<"):
                self.documents += [found.group(1)] if found.group(1) else []
            elif sign in ("(", ")"):
                self.depth = max(0, self.depth + (1 if sign == "(" else -1))
            elif sign in _ENDS:
                self.quote = sign
            found = self._sign(line, found.end())

    def _sign(self, line: str, at: int) -> re.Match[str] | None:
        return (_ENDS[self.quote] if self.quote else _SIGN).search(line, at)


def _set_in(path: str) -> Iterator[tuple[int, str]]:
    """(number, name) of each line that sets a variable, the name with dots behind it where the line does more, or is a part of more."""
    still = _Open()
    for number, line in enumerate(beginning(path, _LIMIT).split("\n"), 1):
        part = bool(still)
        still.read(line)
        part = part or bool(still)
        exported = _EXPORTS.match(line[:2000])
        rest = line[exported.end() if exported is not None else 0 : 2000]
        found = _SETS.match(rest)
        if found is not None:
            names = dict.fromkeys((found[1], *(_MORE.findall(rest) if exported is not None else ())))
            yield from ((number, f"{name} ..." if part or len(names) > 1 or _DOES_MORE.search(line) else name) for name in names)
