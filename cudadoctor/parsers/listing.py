"""Listings: one line of `ls -l`, in the form of this tool's own (full path, no date) and of a user's, and the folder in which it stands."""

from __future__ import annotations

import msgspec

from cudadoctor.model.pattern import lazy

_ENTRY = lazy(
    r"^\s{0,16}(?P<mode>[bcdlps-][r-][w-][xsS-][r-][w-][xsS-][r-][w-][xtT-][+?]?)[.@]?\s{1,20}\d{1,10}"
    r"\s{1,40}(?P<owner>[^\s/]{1,100})\s{1,40}(?P<group>[^\s/]{1,100})\s{1,40}"
    r"(?:(?P<major>\d{1,10}),\s{0,20}(?P<minor>\d{1,10})|\d{1,20}[KMGT]?)\s{1,40}(?P<rest>\S.{0,600})$"
)
_DATE = lazy(
    r"^(?:[^\W\d]{1,10}\.?\s{1,3}\d{1,2}|\d{1,2}\.?\s{1,3}[^\W\d]{1,10}\.?|\d{4}-\d\d-\d\d|\d{1,2}月\s{1,3}\d{1,2}(?:日)?)\s{1,4}"
    r"(?:\d{1,2}:\d\d(?::\d\d(?:\.\d+)?)?(?: [+-]\d{4})?|\d{4})\s{1,4}"
)
# Not found, in the languages whose users paste most; "Permission denied" on the same line is ignorance, not absence.
_MISSING = lazy(
    r"(?:cannot access|无法访问|Zugriff auf) ?['\"‘`]?(?P<path>/[^'\"’`:]{1,300})['\"’`]?(?: nicht möglich)?: "
    r"(?:No such file|没有那个文件|Datei oder Verzeichnis nicht)"
)

_HEADER = lazy(r"^\s{0,16}(?P<path>/(?:[\w.+@-]{1,100}/){0,20}[\w.+@-]{0,100}):$")
_LS = lazy(
    r"^(?:sudo )?(?:ls|ll|dir)(?: --?[\w=-]{1,24}){0,4}(?: (?P<path>/(?:[\w.+@-]{1,100}/){0,20}[\w.+@-]{0,100})(?=\s|$|[|;])|(?! /))"
)
_CD = lazy(r"^cd (?P<path>/(?:[\w.+@-]{1,100}/){0,20}[\w.+@-]{0,100})(?: ?(?:&&|;) (?P<then>\S.{0,400}))?$")


class Folder:
    """The folder whose names the lines of a text list, as far as headers and typed commands tell."""

    def __init__(self) -> None:
        self.listed: str | None = None
        self._here: str | None = None  # where `cd` led

    def typed(self, command: str) -> None:
        moved = _CD.match(command)
        if moved is not None:
            self._here, command = moved["path"].rstrip("/"), moved["then"] or ""
        asked = _LS.match(command)
        self.listed = None if asked is None else asked["path"].rstrip("/") if asked["path"] else self._here

    def header(self, line: str) -> bool:
        """Whether the line is the header that ls puts over each of several folders."""
        found = _HEADER.match(line)
        if found is not None:
            self.listed = found["path"].rstrip("/")
        return found is not None


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """What one line of a long listing says. `path` is as printed: a bare name where the folder was listed."""

    mode: str
    owner: str
    group: str
    path: str
    target: str | None = None
    major: int | None = None
    minor: int | None = None


def entry_of(line: str) -> Entry | None:
    """The entry on this line, or None if it is no line of a long listing."""
    found = _ENTRY.match(line)
    if found is None:
        return None
    rest = _DATE.sub("", found["rest"], count=1)
    path, arrow, target = rest.partition(" -> ")
    return Entry(
        mode=found["mode"],
        owner=found["owner"],
        group=found["group"],
        path=path.strip(),
        target=target.strip() if arrow else None,
        major=int(found["major"]) if found["major"] else None,
        minor=int(found["minor"]) if found["minor"] else None,
    )


def missing_path(line: str) -> str | None:
    found = _MISSING.search(line) if "/" in line else None
    return found["path"] if found else None
