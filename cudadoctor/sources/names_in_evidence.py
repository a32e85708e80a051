"""Whose evidence it is: the names of users, hosts, groups and accounts that its pieces show, and the secrets among its variables.

A name that is a word of the trade, or that stands in evidence on packages, modules and devices, is told apart: replaced wherever it stands
it would take away what a diagnosis reads.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import groupby

from cudadoctor.model.evidence import Evidence
from cudadoctor.sources.decoding import json_objects
from cudadoctor.sources.private_paths import known
from cudadoctor.sources.sensitive import GONE
from cudadoctor.sources.vocabulary import GROUPS, ITEMS, PATTERNS, USERS, WORDS, forms

MOST_NAMES = 10_000  # of one kind
_MOST_SEARCHED = 200_000_000  # characters of technical texts that are gone through for names with signs in them
_MOST_PLACES = 1000  # at which it is looked whether a name stands there by itself


def keeps(name: str, value: str) -> bool:
    """Whether a diagnosis reads this variable and its value is no secret."""
    if PATTERNS.KEPT_VARIABLES.match(name) is None or PATTERNS.SECRET_NAME.search(name) or re.search(r"://[^/\s]*@", value):
        return False
    if PATTERNS.OF_WORDS.fullmatch(name) and not all(known(word) for word in value.split() if "/" not in word):
        return False
    return PATTERNS.LOCALE.fullmatch(value) is not None if name.startswith("LC_") else PATTERNS.OF_PERSONS.search(name) is None


class Names:
    """The names of one evidence, by their kind. `technical`: its texts on hardware and software."""

    def __init__(self, technical: str) -> None:
        self.of: dict[str, set[str]] = {kind: set() for kind in ("user", "host", "group", "account", "secret")}
        self.technical, self.lower = technical, technical.lower()
        self._words = frozenset(re.findall(r"[a-z0-9]+", self.lower))
        self._known: dict[str, bool] = {}
        self._left = _MOST_SEARCHED

    def distinct(self, kind: str) -> set[str]:
        return {name for name in _longest(self.of[kind]) if not self._is_ordinary(name)}

    def ordinary(self, kind: str) -> set[str]:
        return {name for name in _longest(self.of[kind]) if self._is_ordinary(name) and name.lower() not in WORDS}

    def siblings(self) -> set[str]:
        """What the names of numbered hosts begin with: where one is node-17, node-31 is one too."""
        found = (re.fullmatch(r"([A-Za-z][\w-]{2,60}?)\d{1,6}", host) for host in self.distinct("host"))
        return {one[1] for one in found if one is not None and PATTERNS.BEFORE_NUMBERS.fullmatch(one[1]) is None}

    def _is_ordinary(self, name: str) -> bool:
        word = name.lower()
        if word not in self._known:
            self._known[word] = len(word) < 3 or word in WORDS or self.is_technical(word)
        return self._known[word]

    def is_technical(self, word: str) -> bool:
        """Whether it stands in the technical texts between letters and digits of no other word. A part of very many words is a name, and so
        is what would be looked for when very much was."""
        word = word.lower()
        parts = re.findall("[a-z0-9]+", word)
        if parts == [word] or not self._words.issuperset(parts):
            return parts == [word] and word in self._words
        self._left -= len(self.lower)
        at = self.lower.find(word) if self._left > 0 else -1
        for _ in range(_MOST_PLACES):
            if at < 0:
                return False
            around = self.lower[max(0, at - 1) : at] + self.lower[at + len(word) : at + len(word) + 1]
            if not re.search("[a-z0-9]", around):
                return True
            at = self.lower.find(word, at + 1)
        return False

    def add(self, form: str, text: str, *, common: frozenset[str] = frozenset()) -> None:
        """What the groups of these forms name (vocabulary.py), but for common words."""
        for pattern in (one.pattern for one in forms(form)):
            for match in pattern.finditer(text):
                for kind, name in match.groupdict().items():
                    if name.lower() not in common:
                        self.of[kind].add(name)


def _longest(names: Iterable[str]) -> list[str]:
    """As many as are looked for wherever they stand; what its place says to be a name is replaced there in any case."""
    return sorted(names, key=lambda name: (-len(name), name))[:MOST_NAMES]


def personal(name: str) -> bool:
    """Whether a user's name tells who somebody is."""
    bare = name.rpartition("\\")[2]
    return bare.lower() not in USERS and not bare.isdigit() and PATTERNS.SERVICES.match(bare) is None and bool(bare)


def of(evidence: Evidence) -> Names:
    """All names, of every piece of evidence."""
    names = Names(_technical(evidence))
    for item in evidence.items:
        for text in (item.stdout, item.stderr, item.why):
            if text and item.id not in ITEMS["technical"] and item.id != "packages":
                _from_text(names, text, item.id)
        if item.kind == "environment" and item.stdout:
            _from_environment(names, item.stdout)
        if item.id == "processes" and item.stdout:
            owners = [entry.get("user") for entry in json_objects(item.stdout.split("\n"))]
            names.of["user"].update(owner.rpartition("\\")[2] for owner in owners if isinstance(owner, str))
        if item.id == "uname" and item.stdout:
            names.of["host"].update(item.stdout.split()[1:2])
    if evidence.node is not None:
        names.of["host"].add(evidence.node)
    users = {name for name in names.of["user"] if personal(name) and len(name) > 1 and not PATTERNS.PSEUDONYM.fullmatch(name)}
    names.of = {
        "user": users,
        "host": {name for host in names.of["host"] for name in _host_names(host)},
        "account": {name for name in names.of["account"] if name.lower() not in USERS | WORDS and (name.isdigit() or not known(name))},
        "group": {name for name in names.of["group"] - users - GROUPS if not name.isdigit() and PATTERNS.SERVICES.match(name) is None},
        "secret": {secret for secret in names.of["secret"] if not names.is_technical(secret)},
    }
    return names


def _technical(evidence: Evidence) -> str:
    """What evidence on hardware and software says, and the keys and single words of the workers' lines."""
    parts = [item.stdout or "" for item in evidence.items if item.id in ITEMS["technical"]]
    for item in evidence.items:
        if item.id == "packages":
            parts += [line for line in (item.stdout or "").split("\n") if "nvidia" in line or "cuda" in line]
        elif item.id.startswith("nvidia-smi"):
            parts.append((item.stdout or "").partition("Processes")[0])
        elif item.kind == "worker" and item.id != "processes":
            parts += _words_of(item.stdout or "")
    return PATTERNS.HOME_OF_WINDOWS.sub(r"\1", PATTERNS.HOME.sub(r"\1", "\n".join(parts)))


def _words_of(text: str) -> Iterator[str]:
    for entry in json_objects(text.split("\n")):
        for key, value in entry.items():
            yield key
            if isinstance(value, str) and (key == "name" or re.fullmatch(r"[\w.+-]{1,60}", value)):
                yield value


def _host_names(host: str) -> Iterator[str]:
    """A host's name, its first label, and the domain behind it. Slurm's lists (gpu[01-04]) give what stands before the bracket."""
    host = host.split("[")[0].strip(".,:")
    if PATTERNS.PUBLIC.search(host) or re.fullmatch(r"[\d.]+", host):
        return
    if PATTERNS.PSEUDONYM.fullmatch(host) or host.endswith((".py", ".so", ".cpp", ".cu", ".log")):
        return
    first, _, domain = host.partition(".")
    for name in (host, first, domain if "." in domain else ""):
        if len(name) > 2 and name.lower() not in USERS and not name.isdigit():
            yield name


def _from_environment(names: Names, text: str) -> None:
    for line in text.split("\n"):
        found = PATTERNS.VARIABLE.match(line)
        if found is None or found[3] in ("", GONE):
            continue
        name, value = found[2], found[3].strip("\"'")
        if PATTERNS.USER_VARIABLES.match(name):
            names.of["user"].add(value)
        elif PATTERNS.HOST_VARIABLES.match(name):
            names.of["host"].add(value)
        elif PATTERNS.ACCOUNT_VARIABLES.match(name):
            names.of["account"].add(value)
        elif name in ("HOME", "USERPROFILE"):
            names.of["user"].add(os.path.basename(value.replace("\\", "/").rstrip("/")))
        elif PATTERNS.GIVES_ACCESS.search(name) and len(value) > 5 and not value.startswith(("/", "~", "file:")) and not value.isdigit():
            names.of["secret"].update({value} if value.lower() not in WORDS | USERS else ())


def _from_text(names: Names, text: str, item: str) -> None:
    for pattern in (PATTERNS.HOME, PATTERNS.HOME_OF_WINDOWS):
        names.of["user"].update(match["user"] for match in pattern.finditer(text) if re.fullmatch(r"[^\W\d][\w .-]*", match["user"]))
    names.add("prompts", text)
    names.add("names", text, common=WORDS)
    groups = re.search(r"\bgroups=(\S+)", text)
    names.of["group"].update(re.findall(r"\d\(([^)]{1,256})\)", groups[1]) if groups else ())
    if item in ITEMS["listings"] or item == "text":
        names.add("listings", text)
    if item == "text":
        for kind, column, form in (
            ("user", PATTERNS.COLUMN, f"(?:{PATTERNS.LOGIN.pattern})$"),
            ("host", PATTERNS.COLUMN_OF_HOSTS, PATTERNS.HOST.pattern),
            ("account", PATTERNS.COLUMN_OF_PODS, f"(?:{PATTERNS.POD.pattern})$"),
        ):
            found = _of_tables(text, column)
            names.of[kind].update(name for name in found if re.match(form, name) and name.lower() not in WORDS)


def _of_tables(text: str, column: re.Pattern[str]) -> Iterator[str]:
    """What stands below such a heading, up to the first line that is no row of the table: ps, top, squeue, sacct, ls of jobs."""
    heads: list[tuple[int, int]] = []
    wanted: list[int] = []
    for line in text.split("\n"):
        found = [head.span(1) for head in column.finditer(line)] if PATTERNS.TABLE.match(line) else []
        if found:
            heads = [word.span() for word in PATTERNS.CELL.finditer(line)]
            wanted = [start for start, _ in found]
        elif heads and not PATTERNS.RULE.match(line):
            cells = [word.span() for word in PATTERNS.CELL.finditer(line)]
            heads = heads if _is_row(line, cells, heads) else []
            starts = [start for start, _ in heads]
            for start, stop in cells if heads else ():
                begin, end = heads[max(0, bisect_left(starts, stop) - 1)]  # the last heading that begins before the word ends
                # In line with its heading on one side, or longer than the column.
                if begin in wanted and (start == begin or stop == end or start < begin < end < stop or len(cells) == len(heads)):
                    yield line[start:stop].rstrip("+")


def _is_row(line: str, cells: list[tuple[int, int]], heads: list[tuple[int, int]]) -> bool:
    """Whether a line has its gaps where most headings have theirs; or as many words as there are headings, some with digits."""
    if len(cells) == len(heads) and 3 * sum(any(map(str.isdigit, line[start:stop])) for start, stop in cells) >= len(cells):
        return True
    line = line.ljust(heads[-1][1] + 1)
    apart = sum(start == 0 or line[start - 1].isspace() or line[stop].isspace() for start, stop in heads)
    return 2 * len(cells) >= len(heads) and 5 * apart >= 3 * len(heads)


def without_dumped_variables(text: str) -> str:
    """A text that shows `env`: three and more lines in a row that set a variable keep the values that a recording of this machine keeps.
    Where none of the variables is in capitals it is a list of settings (a unit of systemd, wmic): of these the words go that are free."""
    lines: list[str] = []
    for sets, group in groupby(text.split("\n"), key=lambda line: PATTERNS.DUMPED.match(line) is not None):
        block = list(group)
        if not sets or len(block) < 3:
            lines += block
        elif any(map(PATTERNS.IN_CAPITALS.match, block)):
            lines += map(_dumped, block)
        else:
            lines += (_of_unit(line) if PATTERNS.OF_FREE_WORDS.match(line) else line for line in block)
    return "\n".join(lines)


def _of_unit(line: str) -> str:
    """A line of a unit, whose `Environment=` holds settings of its own, each of which may stand in quotes."""
    name, sign, words = line.partition("=")
    if name != "Environment":
        return _dumped(line)

    def kept(word: re.Match[str]) -> str:
        bare = word.group().strip("\"'")
        return word.group().replace(bare, _dumped(bare) if "=" in bare else GONE) if bare else word.group()

    return name + sign + PATTERNS.WORD_OF_UNIT.sub(kept, words)


def _dumped(line: str) -> str:
    found = PATTERNS.VARIABLE.match(line)
    return line if found is None or _builds(found[2]) or keeps(found[2], found[3]) else found[1] + GONE


@lru_cache(maxsize=1000)
def _builds(name: str) -> bool:
    return PATTERNS.BUILDS.match(name) is not None and PATTERNS.SECRET_NAME.search(name) is None
