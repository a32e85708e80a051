"""The distribution by what a pasted text calls it: neofetch, a bug report's form, /etc/issue, a kernel's release, a prompt of Windows.

Where the text holds /etc/os-release or `lsb_release -a` the parser os_release comes first. A name in prose counts least.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import TYPE_CHECKING

import msgspec

from cudadoctor.knowledge.systems import Distributions
from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import OPERATING_SYSTEM, OperatingSystem
from cudadoctor.parsers.base import Output, Parser, Text
from cudadoctor.parsers.literals import Literals

if TYPE_CHECKING:
    from cudadoctor.knowledge.load import Knowledge

_MOST_HITS = 400  # of one word; a log that repeats a name says nothing new by it
_ENDS = 200_000  # characters at the head and at the end of a text; what lies between is a log
_LONGEST = 500  # characters of a line that are read

# ---------------------------------------------------------------- names
_BEFORE = r"(?<![\w/:.-])"
_BEHIND = (
    r"(?:[ \t:,v(-]{1,3}|(?=\d)|\b)(?:release |[Vv]ersion |Linux |GNU/Linux )?"
    r"(?P<version>\d{1,4}(?:\.\d{1,8}){0,2})?"
)
_CODENAME = lazy(
    r"\b(?:bullseye|bookworm|trixie|forky|sid|xenial|bionic|focal|jammy|noble|oracular|plucky|questing|resolute)\b", re.IGNORECASE
)
_SERVICE_PACK = lazy(r"\bSP(\d)\b")
_VARIANT = lazy(r"\b(Silverblue|Kinoite|CoreOS|Workstation|Server)\b")
_WINDOWS = ("7", "8", "8.1", "10", "11", "2016", "2019", "2022", "2025")
_BUILD = lazy(r"\[Version 10\.0\.(?P<build>\d{5})|^Windows-1[01]-10\.0\.(?P<other>\d{5})")

# ---------------------------------------------------------------- where a name stands
# A form's label, also in the middle of neofetch's picture: "OS: Ubuntu 22.04", "- **Operating System**: ...", "Distro: ...".
_LABEL = lazy(
    r"(?:^|[\s*|_`>-])(?:Host |Guest )?(?:OS(?: Name| Version| Platform and Distribution[^:]{0,60})?|Operating [Ss]ystem|Linux [Dd]istro|"
    r"Linux [Dd]istribution|Distro(?:bution)?|System|Platform|Description)[\s*_`]{0,6}(?:[:=]|=>|-{1,2}>)[\s*_`]{0,30}(?P<rest>\S.{0,160})$"
)
_HEAD = lazy(
    r"^\s{0,8}(?:Welcome to )?(?P<rest>(?:Ubuntu|Debian|Fedora|CentOS|Red Hat|Rocky|Alma|Oracle|Amazon|Arch|Microsoft Windows \[)"
    r".{0,120})$"
)
_PROMPT = lazy(r"^\s{0,8}(?:\([\w. -]{1,40}\) )?(?:PS [A-Z]:\\[^>]{0,200}>|[A-Z]:\\[^>|\"*]{0,200}>)|^\s{0,8}File \"[A-Z]:\\")
# gcc 13.2.0 (Ubuntu 13.2.0-23ubuntu4): who packed a compiler, and perhaps built a module with it on another machine.
_COMPILER = lazy(r"\([A-Z][\w/. -]{1,30} \d{1,2}\.\d{1,2}\.\d{1,2}-[\w.~+-]{1,40}\)")
_WSL = lazy(r"\bWSL|microsoft-standard|\bwsl\b")

# ---------------------------------------------------------------- kernels
_UBUNTU_BASE = lazy(r"#\d{1,6}~(\d\d\.\d\d)\.\d|~\d{6,}~(\d\d\.\d\d)~")
_UBUNTU_OWN = lazy(r"\b(\d{1,2}\.\d{1,2})\.\d{1,3}-\d{1,6}-\w{2,12}\b.{0,60}#\d{1,6}-Ubuntu")
_GLIBC = lazy(r"-generic-(?:x86_64|aarch64)-with-glibc(2\.\d\d)")
_WITH = lazy(r"-with-(Ubuntu|debian|fedora|arch|centos|redhat)-?(\d[\d.]*)?")
_DEBIAN = lazy(r"\b(\d\.\d{1,2})\.\d{1,3}(?:-\d{1,3}|\+deb(?P<release>\d\d))?(?:-cloud)?-(?:amd64|arm64)\b")
# A package source that is Debian's own, in sources.list or in what apt prints.
_SOURCE = lazy(r"\bdeb\.debian\.org/debian/? (?P<codename>[a-z]{3,12})\b")
Statement = tuple[int, int, OperatingSystem]  # rank (less is better), line index, what is said
FORM, HEAD, KERNEL, PROMPT, PROSE, ROLLING = range(6)


class Names:
    """Systems by what texts and kernels call them, as tables/distributions.toml has it."""

    def __init__(self, known: Distributions) -> None:
        named = {row.id: row for row in known.distribution}
        self.words = {row.id: row.words for row in known.distribution if row.words is not None}
        self.forms = {name: lazy(rf"{_BEFORE}(?:{words}){_BEHIND}") for name, words in self.words.items()}
        self.ids = frozenset(name for row in known.distribution for name in (row.id, *row.names))
        self._families = {row.id: row.family for row in known.distribution}
        self._rolling = frozenset(row.id for row in known.distribution if row.rolling)
        self._hints, self.kernels = Literals(known.words["hints"]), [(lazy(row.form), row) for row in known.kernel]
        self._ubuntu, self._debian = named["ubuntu"], named["debian"]

    def parse(self, text: Text) -> Output:
        """One fact, from the best statement: a form or neofetch, a release file, the kernel, a prompt of Windows, a name in prose."""
        if not text.pasted and (text.item is None or text.item.id != "issue"):
            return
        lines = [_COMPILER.sub("", line) if "(" in line else line for line in text.plain_lines]
        found = [statement for index in self._spots("\n".join(lines)) for statement in self._statements(lines[index][:_LONGEST], index)]
        if any(_WSL.search(lines[index]) is not None for _, index, _ in found) or "WSL" in text.text:
            # Windows is then the system around: the program's own is Linux.
            found = [entry for entry in found if entry[2].id != "windows"]
        if not found:
            return
        rank = min(entry[0] for entry in found)
        best = [entry for entry in found if entry[0] == rank]
        _, index, system = best[0] if rank >= PROSE else best[-1]
        yield text.fact(OPERATING_SYSTEM, self._completed(system, found), text.quote(index + 1), whole=False)

    def _completed(self, system: OperatingSystem, found: Iterable[Statement]) -> OperatingSystem:
        """A name without its version takes it from another statement about the same system; a kernel's family takes a name of it."""
        if system.id is not None and (system.version_id is not None or system.codename is not None):
            return system
        for _, _, other in sorted(found, key=lambda entry: entry[0]):
            if not (other.version_id or other.codename):
                continue
            if system.id is not None and (other.id == system.id or (other.id is None and other.like == (system.id,))):
                return msgspec.structs.replace(system, version_id=other.version_id, codename=other.codename)
            if system.id is None and self._families.get(other.id or "") in system.like and _same_release(system, other):
                return other
        return system

    def _spots(self, body: str) -> list[int]:
        """The lines that hold one of the words, counted from 0."""
        ends = ((0, body[:_ENDS]), (max(_ENDS, len(body) - _ENDS), body[max(_ENDS, len(body) - _ENDS) :]))
        places = {start + at for start, end in ends for found in self._hints.places(end).each() for at in found[:_MOST_HITS]}
        starts = list(accumulate((len(line) + 1 for line in body.split("\n")), initial=0))
        return sorted({bisect_right(starts, place) - 1 for place in places})

    def _statements(self, line: str, index: int) -> Iterator[Statement]:
        """What one line says, by each way in which it may say it."""
        label = _LABEL.search(line)
        head = _HEAD.match(line)
        for rank, words in ((FORM, label["rest"] if label else ""), (HEAD, head["rest"] if head else "")):
            system = self._named(words, whole=rank == FORM) if words else None
            if system is not None:
                yield rank, index, system
        kernel = self._of_kernel(line)
        if kernel is not None:
            yield KERNEL, index, kernel
        if _PROMPT.match(line) is not None:
            yield PROMPT, index, OperatingSystem(id="windows")
        if (source := _SOURCE.search(line)) is not None and source["codename"] in self._debian.codenames.values():
            yield PROSE, index, OperatingSystem(id="debian", codename=source["codename"])
        # Beside Windows a second name is that of WSL's Linux.
        for system in (self._named(line, whole=False), self._named(line, whole=False, besides="windows") if "Windows" in line else None):
            if system is not None:
                yield (PROSE if system.version_id or system.codename else ROLLING), index, system

    def id_of_name(self, name: str) -> str | None:
        """The distribution that /etc/os-release calls by this name."""
        return "void" if name == "Void" else next((found for found, words in self.words.items() if re.fullmatch(words, name)), None)

    def of_codename(self, word: str) -> str | None:
        """Debian's id, where one of its releases is called so: bookworm. Its descendants repeat the name beside their own."""
        return self._debian.id if word in self._debian.codenames.values() else None

    def named(self, words: str) -> OperatingSystem | None:
        """The system whose name these words begin with: PRETTY_NAME, or NAME with VERSION."""
        found = self._named(words, whole=True)
        name = self.forms[found.id].match(words) if found is not None and found.id is not None else None
        return found if name is not None else None

    def _named(self, words: str, *, whole: bool, besides: str = "") -> OperatingSystem | None:
        """The first name of these words. In prose it needs its version, unless the system has none."""
        names = ((name, form.search(words)) for name, form in self.forms.items() if name != besides)
        hits = [(found.start(), -len(found[0]), name, found) for name, found in names if found is not None]
        if not hits:
            return None
        _, _, name, found = min(hits, key=lambda hit: hit[:2])
        version, rest = found["version"], words[found.end() : found.end() + 60]
        codename = _CODENAME.search(rest) if name in ("ubuntu", "debian") else None
        build = _BUILD.search(words) if name == "windows" else None
        if not whole and version is None and codename is None and build is None and name not in self._rolling:
            return None
        if not whole and name == "windows" and build is None and version not in _WINDOWS:
            return None
        return _system(name, version, codename[0].lower() if codename else None, words[found.start() : found.end() + 60])

    def _of_kernel(self, line: str) -> OperatingSystem | None:
        """What a kernel's release says. Much of it stays open: many systems use Ubuntu's kernels."""
        stated = _WITH.search(line)
        if stated is not None:
            return OperatingSystem(id={"redhat": "rhel"}.get(stated[1].lower(), stated[1].lower()), version_id=stated[2])
        base, own, library = _UBUNTU_BASE.search(line), _UBUNTU_OWN.search(line), _GLIBC.search(line)
        if base is not None:
            version = base[1] or base[2]
            codename = self._ubuntu.codenames.get(version)
            return OperatingSystem(id="pop" if base[2] else None, version_id=version, codename=codename, like=("ubuntu",))
        if own is not None or library is not None:
            codenames, series = (self._ubuntu.kernels, own) if own is not None else (self._ubuntu.libraries, library)
            return OperatingSystem(codename=codenames.get(series[1]) if series is not None else None, like=("ubuntu",))
        debian = _DEBIAN.search(line)
        if debian is not None:
            kali = "kali" in line
            codename = None if kali or "~bpo" in line else self._debian.kernels.get(debian[1])
            return OperatingSystem(id="kali" if kali else None, version_id=debian["release"], codename=codename, like=("debian",))
        for form, row in self.kernels:
            found = form.search(line)
            if found is not None:
                return OperatingSystem(id=row.id, version_id=_kernel_version(found.groupdict().get("version")), like=row.like)
        return OperatingSystem(like=("ubuntu",)) if re.search(r"\b\d\.\d{1,2}\.\d{1,2}-\d{1,6}-generic\b", line) else None


def _system(name: str, version: str | None, codename: str | None, words: str) -> OperatingSystem:
    if name == "windows":
        build = _BUILD.search(words)
        if build is not None:
            version = "11" if int(build["build"] or build["other"]) >= 22000 else "10"
    if name == "ubuntu" and version is not None:
        version = f"{version}.04" if version in ("16", "18", "20", "22", "24", "26") else ".".join(version.split(".")[:2])
    if name == "fedora" and version is not None:
        version = version.split(".")[0]  # an image's name has the day of its build behind it
    pack = _SERVICE_PACK.search(words) if name == "sles" and version is not None else None
    variant = _VARIANT.search(words) if name == "fedora" else None
    return OperatingSystem(
        id=name,
        version_id=f"{version}.{pack[1]}" if pack else version,
        codename=codename,
        variant=variant[1].lower() if variant else None,
    )


def _same_release(system: OperatingSystem, other: OperatingSystem) -> bool:
    """Neither says of its release what the other denies."""
    return all(
        one is None or two is None or one == two for one, two in ((system.version_id, other.version_id), (system.codename, other.codename))
    )


def _kernel_version(text: str | None) -> str | None:
    """`9_3` is 9.3; `150600` is 15.6."""
    if text is None:
        return None
    if len(text) == 6:
        return f"{text[:2]}.{int(text[2:4])}"
    return text.replace("_", ".")


def names_of(knowledge: Knowledge) -> Names:
    """Made once for all texts."""
    return knowledge.once("system names", lambda: Names(knowledge.system_names))


def parsers(knowledge: Knowledge) -> tuple[Parser, ...]:
    names, wakes = names_of(knowledge), knowledge.system_names.words["wakes"]
    return (Parser(name="system_names", reads=("issue",), keys=(OPERATING_SYSTEM.name,), parse=names.parse, wakes=wakes),)
