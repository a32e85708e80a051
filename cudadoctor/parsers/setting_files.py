"""The files in which the variables of the environment are set: of the machine itself, and those that a user's text shows.

A text shows them by `cat ~/.bashrc`, `grep -n`, `systemctl cat` or `head` of several. A unit's EnvironmentFile= belongs to that unit.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import SET_IN, UNIT_FILES, Directive, SetIn
from cudadoctor.parsers.base import Output, Text, parser
from cudadoctor.parsers.shell import command, is_prompt, root_command

_LINE = lazy(r"^(?P<path>/.{1,1000}):(?P<number>\d{1,7}): (?P<name>[A-Za-z_]\w{0,100})(?P<more> \.\.\.)?$")
_PATH = r"(?P<path>(?:/|~/|\$CONDA_PREFIX/)[\w./@:+-]{1,300})"
_CAT = lazy(rf"(?:sudo )?(?:cat|less|more|tail(?: -n \+1)?|head) {_PATH}(?:;.{{0,200}})?$")
_HEADING = lazy(rf"^(?:# (?=/(?:etc|run|usr/lib|lib)/systemd/)|==> ){_PATH}(?: <==)?$")
_GREP = lazy(
    rf"(?:sudo )?grep (?:-\w{{0,4}}n\w{{0,4}} )(?:-\w{{1,6}} ){{0,3}}(?:\"[^\"]{{1,80}}\"|'[^']{{1,80}}'|[^\s'\"-]\S{{0,80}}) {_PATH}$"
)
_NUMBERED = lazy(r"^(?P<number>\d{1,6}):(?P<rest>.{1,2000})$")
_FOUND = lazy(rf"^{_PATH}:(?P<number>\d{{1,6}}):(?P<rest>.{{1,2000}})$")
_SETS = lazy(
    r"^[ \t]{0,40}(?:export |declare -x |setenv |set -gx |Environment=)?[\"']?"
    r"(?P<name>[A-Z][A-Z0-9_]{3,60})(?:=| (?=\S))(?P<rest>.{0,2000})"
)
_OF_CONDA = lazy(r"^(?:conda|mamba|micromamba) env config vars list\b")
_VARIABLE = lazy(r"^(?P<name>[A-Z][A-Z0-9_]{3,60}) = \S")
_STATE = "$CONDA_PREFIX/conda-meta/state"
_MORE = lazy(r"[;&|`]|\$\(|\\$|[ \t][\"']?[A-Z][A-Z0-9_]{3,60}=")
_READ_BY = lazy(r"^[ \t]{0,40}EnvironmentFile=-?(?P<path>/\S{1,300})$")
_DIRECTIVE = lazy(r"^(?P<name>PrivateTmp|DevicePolicy|DeviceAllow|ExecStart(?:Pre|Post)?)=(?P<value>.{0,1000})$")
_QUOTED = 60  # lines
_UNIT = lazy(r"/(?P<unit>\w[\w@.:\\-]{0,199}\.service)(?:$|\.d/)")


def parse_settings(text: Text) -> Output:
    """All lines that set one, in the order in which a shell reads them."""
    found = list(text.rows(_LINE))
    places = (SetIn(name=one["name"], path=one["path"], line=int(one["number"]), alone=one["more"] is None) for _, one in found)
    if found:
        yield text.fact(SET_IN, tuple(places), *(text.quote(number) for number, _ in found if number <= _QUOTED))
    elif text.whole:
        yield text.fact(SET_IN, None, text.absent("no profile and no file in /etc sets a variable of this environment"))


def parse_shown(text: Text) -> Output:
    """Every line that sets a variable in a file whose name is shown, in the text's order."""
    places: list[tuple[int, SetIn]] = []
    readers: dict[str, str] = {}  # a file to the unit that reads it
    for number, _, below in text.asked("config vars list", _OF_CONDA):
        rows = ((number + more, _VARIABLE.match(line)) for more, line in enumerate(below, 1))
        places += [(line, SetIn(name=row["name"], path=_STATE, line=1, alone=True)) for line, row in rows if row is not None]
    for shown in shown_files(text):
        found = _SETS.match(shown.words)
        if found is not None:
            alone = _MORE.search(found["rest"]) is None
            places.append((shown.number, SetIn(name=found["name"], path=shown.path, line=shown.line, alone=alone)))
        unit, reads = _UNIT.search(shown.path), _READ_BY.match(shown.words)
        if unit is not None and reads is not None:
            readers[reads["path"]] = unit["unit"]
    if places:
        settled = tuple(msgspec.structs.replace(place, unit=readers.get(place.path)) for _, place in places)
        yield text.fact(SET_IN, settled, *(text.quote(number) for number, _ in places[:_QUOTED]), whole=False)


def parse_units(text: Text) -> Output:
    """What the files of services that are shown say of devices, of /tmp and of what they start."""
    found: list[Directive] = []
    for shown in shown_files(text):
        unit, line = _UNIT.search(shown.path), _DIRECTIVE.match(shown.words)
        if unit is not None and line is not None and "/systemd/" in shown.path:
            found.append(Directive(unit=unit["unit"], name=line["name"], value=line["value"].strip(), line=shown.number))
    if found:
        yield text.fact(UNIT_FILES, tuple(found), *(text.quote(one.line) for one in found[:_QUOTED]), whole=False)


class ShownLine(NamedTuple):
    """A line of a file, as a text shows it: its place in the text and in the file."""

    number: int
    path: str
    line: int
    words: str


def shown_files(text: Text) -> Iterator[ShownLine]:
    """The lines below `cat FILE` and below the headings of `head` and `systemctl cat`, and those that grep found in a file."""
    path, first, by_grep = None, 0, False
    for number, line in enumerate(text.plain_lines, 1):
        opened = _opened(line)
        if opened is not None:
            path, first, by_grep = opened, number, False
        elif is_prompt(line):
            searched = _GREP.match((command(line) or root_command(line) or "").strip())
            path, by_grep = searched["path"] if searched is not None else None, True
        elif (found := _FOUND.match(line)) is not None:
            yield ShownLine(number, found["path"], int(found["number"]), found["rest"])
        elif path is not None and by_grep:  # which numbers the lines of the file itself
            numbered = _NUMBERED.match(line)
            if numbered is not None:
                yield ShownLine(number, path, int(numbered["number"]), numbered["rest"])
        elif path is not None:
            yield ShownLine(number, path, number - first, line)


def _opened(line: str) -> str | None:
    """The file whose lines follow."""
    heading = _HEADING.match(line)
    typed = None if heading is not None else command(line) or root_command(line)
    found = heading if heading is not None else _CAT.match(typed.strip()) if typed is not None else None
    return found["path"] if found is not None else None


_SHOWN = (
    "cat /", "cat ~/", "cat $CONDA", "config vars list", "tail -n +1 ", "less /", "less ~/", "# /etc/systemd/", "# /lib/systemd/",
    "# /usr/lib/systemd/", "# /run/systemd/", "==> ", "grep -", ":export ", ":CUDA", ":NUMBA",
)  # fmt: skip
PARSERS = (
    parser("setting_files", parse_settings, SET_IN, reads=("setting-files",)),
    parser("shown_files", parse_shown, SET_IN, wakes=_SHOWN),
    parser("unit_files", parse_units, UNIT_FILES, wakes=("PrivateTmp=", "DevicePolicy=", "nvidia-smi -c")),
)
