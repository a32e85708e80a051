"""Packages of NVIDIA that a package manager keeps at their version, or out: apt-mark showhold, pins of apt below 0, versionlock of dnf,
locks of zypper, IgnorePkg of pacman.

The files in which these are kept are read of the machine itself under headings as `head` writes them, and in a user's text also where he
shows them. dpkg's own state of a held package (`hi`) is read with the packages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import HELD_PACKAGES, HeldPackage
from cudadoctor.parsers.base import Output, Text, parser
from cudadoctor.parsers.setting_files import shown_files

_NAME = r"[A-Za-z0-9@_+*][\w@.+*-]{1,100}"
_OF_NVIDIA = lazy(rf"(?=[^\s,]{{0,100}}(?:nvidia|cuda)){_NAME}|linux-(?:modules|objects|signatures)-nvidia-[\w.+-]{{1,80}}")
# name-epoch:version-release.architecture, as dnf 4 keeps it and `dnf versionlock list` prints it; dnf 5 keeps TOML and prints headings.
_LOCKED = lazy(rf"^(?!\s{{0,8}}[#!])(?P<name>{_NAME}?)-\d{{1,3}}:\d[^\s-]{{0,60}}-[^\s-]{{1,60}}$")
_OF_DNF5 = lazy(rf"^(?:name = \"|Package name: )(?P<name>{_NAME})\"?$")
_OF_ZYPP = lazy(rf"^solvable_name: (?P<name>{_NAME})$")
_LOCKS = lazy(rf"^\s{{0,3}}\d{{1,4}} {{0,3}}\| (?P<name>{_NAME}) {{1,60}}\| package {{1,20}}\|")
_IGNORES = lazy(r"^\s{0,8}IgnorePkg\s{0,8}=\s{0,8}(?P<names>\S.{0,1000})$")
_IGNORED = lazy(rf"^\s{{0,20}}warning: (?P<name>{_NAME}): ignoring package upgrade \(")
_EXCLUDES = lazy(r"^\s{0,8}exclude(?:pkgs)?\s{0,8}[=+]{1,2}\s{0,8}(?P<names>\S.{0,1000})$")
_OF_PIN = lazy(
    r"(?i)^(?:Package:[ \t]{0,20}(?P<names>\S.{0,1000})|Pin-Priority:[ \t]{0,20}(?P<priority>[+-]?\d{1,9})[ \t]{0,20}"
    r"|[ \t]{1,20}(?P<more>\S.{0,1000}))$"
)
_SHOWHOLD = lazy(r"^(?:sudo )?apt-mark showhold(?: ?\| ?grep \S{1,40})?$")
_BARE = lazy(rf"^(?P<name>{_NAME})(?::\w{{1,12}})?\s{{0,4}}$")
# The end of a file's name to the manager that reads it and the form of its lines. An exclude= in a .repo keeps the driver of that one
# repository out, which is right where another one has it.
_FILES = (
    ("/versionlock.list", "dnf", _LOCKED), ("/versionlock.toml", "dnf", _OF_DNF5), ("/zypp/locks", "zypper", _OF_ZYPP),
    ("/pacman.conf", "pacman", _IGNORES), ("/dnf.conf", "exclude", _EXCLUDES), ("/yum.conf", "exclude", _EXCLUDES),
)  # fmt: skip


def parse(text: Text) -> Output:
    """One fact with every package that is kept. Where none is found nothing is said: a file may not have been readable."""
    found = {(one.name, one.by): one for one in (*_in_files(text), *_pinned(text), *_printed(text))}
    if found:
        yield text.fact(HELD_PACKAGES, tuple(found.values()), *(text.quote(one.line) for one in found.values()), whole=text.whole)


def _in_files(text: Text) -> Iterator[HeldPackage]:
    for shown in shown_files(text):
        for end, by, form in _FILES:
            row = form.match(shown.words) if shown.path.endswith(end) else None
            for name in _names(row.groupdict()) if row is not None else ():
                yield HeldPackage(name=name, by=by, path=shown.path, line=shown.number)


def _pinned(text: Text) -> Iterator[HeldPackage]:
    """apt's preferences: a priority below 0 keeps packages from being installed. A file that speaks of other packages too, or prefers some,
    is not the driver's to move."""
    files: dict[str, list[tuple[int, re.Match[str]]]] = {}
    for shown in shown_files(text):
        field = _OF_PIN.match(shown.words) if "/apt/preferences" in shown.path else None
        if field is not None:
            files.setdefault(shown.path, []).append((shown.number, field))
    for path, fields in files.items():
        priorities = [field["priority"] for _, field in fields if field["priority"]]
        listed = [(number, field["names"] or field["more"]) for number, field in fields if not field["priority"]]
        named = [(number, _names({"names": names}), names.split()) for number, names in listed]
        if priorities and all(int(priority) < 0 for priority in priorities) and all(ours == every for _, ours, every in named):
            yield from (HeldPackage(name=name, by="pin", path=path, line=number) for number, ours, _ in named for name in ours)


def _names(row: dict[str, str]) -> list[str]:
    words = row["name"].split() if "name" in row else row["names"].replace(",", " ").split()
    return [word for word in words if _OF_NVIDIA.fullmatch(word)]


def _printed(text: Text) -> Iterator[HeldPackage]:
    """What the managers say of them in a user's text."""
    if not text.pasted:
        return
    for by, form in (("pacman", _IGNORED), ("zypper", _LOCKS), ("dnf", _LOCKED)):
        yield from (HeldPackage(name=name, by=by, line=number) for number, row in text.rows(form) for name in _names(row.groupdict()))
    for number, _, below in text.asked("showhold", _SHOWHOLD):
        rows = ((number + more, _BARE.match(line)) for more, line in enumerate(below, 1))
        yield from (
            HeldPackage(name=name, by="apt", line=line) for line, row in rows if row is not None for name in _names(row.groupdict())
        )


PARSER = parser(
    "held_packages", parse, HELD_PACKAGES, reads=("held-packages",),
    wakes=(
        "versionlock", "IgnorePkg", "ignoring package upgrade", "exclude", "solvable_name: ", "| package ", "apt-mark showhold",
        "Pin-Priority:", "pin-priority:",
    ),
)  # fmt: skip
