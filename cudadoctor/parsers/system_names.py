"""The distribution by what a pasted text calls it: neofetch, a bug report's form, /etc/issue, a kernel's release, a prompt of Windows.

Where the text holds /etc/os-release or `lsb_release -a` the parser os_release comes first. A name in prose counts least.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import msgspec

from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import OPERATING_SYSTEM, OperatingSystem
from cudadoctor.parsers.base import Output, Parser, Text

_WORDS = (
    "Ubuntu", "ubuntu 1", "ubuntu 2", "Debian", "Fedora", "CentOS", "Red Hat", "RHEL 7", "RHEL 8", "RHEL 9", "RHEL 10", "Rocky Linux",
    "AlmaLinux", "Amazon Linux", "Oracle Linux", "Arch Linux", "Manjaro", "EndeavourOS", "Garuda", "CachyOS", "openSUSE", "Tumbleweed",
    "SUSE Linux", "Linux Mint", "Pop!_OS", "elementary OS", "Zorin OS", "KDE neon", "Kali GNU", "Kali Linux", "Raspbian", "MX Linux",
    "Nobara", "Bazzite", "Silverblue", "Kinoite", "-NixOS", "NixOS ", "NixOS\n", "Gentoo", "Void Linux", "Alpine Linux", "Windows",
    "-generic", "-amd64 ", ".x86_64", ".aarch64", "-arch1", "-arch2", "-MANJARO", "-cachyos", "-default", "-gentoo", 'File "C:\\',
    "PS C:\\", "C:\\Users\\", "C:\\WINDOWS",
)  # fmt: skip
# The same for waking: fewer, for each of them costs a search of the whole text.
_WAKES = (
    "Ubuntu", "ubuntu 1", "ubuntu 2", "Debian", "Fedora", "CentOS", "Red Hat", "RHEL 7", "RHEL 8", "RHEL 9", " Linux", "Linux ",
    "Windows", "x86_64", "aarch64", "-generic", "-default", "-amd64", "-arch1", "Tumbleweed", "openSUSE", "Pop!_OS", "Manjaro", "MANJARO",
    "EndeavourOS", "elementary OS", "Zorin OS", "KDE neon", "Raspbian", "CachyOS", "Bazzite", "NixOS ", "PS C:\\", "C:\\Users\\",
)  # fmt: skip
_MOST_HITS = 400  # of one word; a log that repeats a name says nothing new by it
_ENDS = 200_000  # characters at the head and at the end of a text; what lies between is a log
_LONGEST = 500  # characters of a line that are read

# ---------------------------------------------------------------- names
_VERSION = r"(?P<version>\d{1,4}(?:\.\d{1,8}){0,2})"
_WORDS_OF = {
    "ubuntu": r"[KXL]?[Uu]buntu(?: (?:MATE|Budgie|Studio|Server|Desktop|Linux|LTS))?",
    "debian": r"Debian(?: GNU/Linux)?",
    "fedora": r"Fedora(?: Linux)?(?: (?:Workstation|Server|KDE|Silverblue|Kinoite|CoreOS))?",
    "centos": r"CentOS(?: Stream| Linux)?",
    "rhel": r"Red ?Hat(?: Enterprise Linux)?(?: Server)?|RHEL",
    "rocky": r"Rocky(?: Linux)?",
    "almalinux": r"AlmaLinux|Alma Linux",
    "ol": r"Oracle Linux(?: Server)?",
    "amzn": r"Amazon Linux",
    "arch": r"Arch(?: Linux|Linux)",
    "manjaro": r"Manjaro(?: Linux)?",
    "endeavouros": r"EndeavourOS",
    "garuda": r"Garuda(?: Linux)?",
    "cachyos": r"CachyOS(?: Linux)?",
    "opensuse-tumbleweed": r"(?:openSUSE )?Tumbleweed",
    "opensuse-leap": r"openSUSE(?: Leap)?",
    "sles": r"SUSE Linux Enterprise(?: Server| Desktop)?|SLES",
    "linuxmint": r"Linux Mint|LMDE",
    "pop": r"Pop!_OS",
    "elementary": r"elementary OS",
    "zorin": r"Zorin OS",
    "neon": r"KDE neon(?: User(?: Edition)?)?",
    "kali": r"Kali(?: GNU/Linux| Linux)",
    "raspbian": r"Raspbian(?: GNU/Linux)?",
    "mx": r"MX Linux",
    "nobara": r"Nobara(?: Linux)?",
    "bazzite": r"Bazzite",
    "nixos": r"NixOS",
    "gentoo": r"Gentoo(?: Linux)?",
    "void": r"Void Linux",
    "alpine": r"Alpine Linux",
    "windows": r"(?:Microsoft )?Windows(?: Server)?(?: NT)?",
}
_NAMES: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (name, lazy(rf"(?<![\w/:.-])(?:{words})(?:[ \t:,v(-]{{1,3}}|(?=\d)|\b)(?:release |[Vv]ersion |Linux |GNU/Linux )?{_VERSION}?"))
    for name, words in _WORDS_OF.items()
)
_ROLLING = frozenset(("arch", "manjaro", "endeavouros", "garuda", "cachyos", "opensuse-tumbleweed", "nixos", "gentoo", "void", "bazzite"))
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
_RELEASES = {
    "16.04": "xenial", "18.04": "bionic", "20.04": "focal", "22.04": "jammy", "24.04": "noble", "25.10": "questing", "26.04": "resolute",
}  # fmt: skip
# The kernel that a release came with; later ones carry the release's number themselves (#40~22.04.1-Ubuntu).
_SERIES = {
    "4.4": "xenial", "4.15": "bionic", "5.4": "focal", "5.15": "jammy", "6.8": "noble", "6.11": "oracular", "6.14": "plucky",
    "6.17": "questing", "7.0": "resolute",
}  # fmt: skip
_LIBRARIES = {"2.23": "xenial", "2.27": "bionic", "2.31": "focal", "2.35": "jammy", "2.39": "noble"}
_DEBIAN_SERIES = {"5.10": "bullseye", "6.1": "bookworm", "6.12": "trixie"}
_DEBIAN = lazy(r"\b(\d\.\d{1,2})\.\d{1,3}(?:-\d{1,3}|\+deb(?P<release>\d\d))?(?:-cloud)?-(?:amd64|arm64)\b")
_KERNELS: tuple[tuple[re.Pattern[str], str | None, tuple[str, ...]], ...] = tuple(
    (lazy(form), name, like)
    for form, name, like in (
        (r"\.el(?P<version>\d{1,2}(?:_\d{1,2})?)uek\b", "ol", ()),
        (r"\.el(?P<version>\d{1,2}(?:_\d{1,2})?)\b", None, ("rhel",)),
        (r"\.fc(?P<version>\d\d)\b", "fedora", ()),
        (r"\.amzn(?P<version>2023|2)\b", "amzn", ()),
        (r"-arch\d-\d", "arch", ()),
        (r"-zen\d-\d", None, ("arch",)),
        (r"-MANJARO\b", "manjaro", ()),
        (r"-cachyos\b", "cachyos", ()),
        (r"-(?P<version>1[56]0[0-9]00)\.[\d.]{1,12}-default\b", None, ("suse",)),
        (r"\b\d\.\d{1,2}\.\d{1,2}-\d{1,2}-default\b", "opensuse-tumbleweed", ()),
        (r"-gentoo\b", "gentoo", ()),
        (r"#1-NixOS\b", "nixos", ()),
    )
)

Statement = tuple[int, int, OperatingSystem]  # rank (less is better), line index, what is said


def parse(text: Text) -> Output:
    """One fact, from the best statement: a form or neofetch, a release file, the kernel, a prompt of Windows, a name in prose."""
    if not text.pasted and (text.item is None or text.item.id != "issue"):
        return
    lines = [_COMPILER.sub("", line) if "(" in line else line for line in text.plain_lines]
    found = [statement for index in _spots("\n".join(lines)) for statement in _statements(lines[index][:_LONGEST], index)]
    if any(_WSL.search(lines[index]) is not None for _, index, _ in found) or "WSL" in text.text:
        # Windows is then the system around: the program's own is Linux.
        found = [entry for entry in found if entry[2].id != "windows"]
    if not found:
        return
    rank = min(entry[0] for entry in found)
    best = [entry for entry in found if entry[0] == rank]
    _, index, system = best[0] if rank >= PROSE else best[-1]
    yield text.fact(OPERATING_SYSTEM, _completed(system, found), text.quote(index + 1), whole=False)


FORM, HEAD, KERNEL, PROMPT, PROSE, ROLLING = range(6)


def _spots(body: str) -> list[int]:
    """The lines that hold one of the words, counted from 0."""
    places: set[int] = set()
    for start, end in ((0, _ENDS), (max(_ENDS, len(body) - _ENDS), len(body))):
        for word in _WORDS:
            at = body.find(word, start, end)
            for _ in range(_MOST_HITS):
                if at < 0:
                    break
                places.add(at)
                at = body.find(word, at + len(word), end)
    found: list[int] = []
    number = before = 0
    for place in sorted(places):
        number += body.count("\n", before, place)
        before = place
        if not found or found[-1] != number:
            found.append(number)
    return found


def _statements(line: str, index: int) -> Iterator[Statement]:
    """What one line says, by each way in which it may say it."""
    label = _LABEL.search(line)
    head = _HEAD.match(line)
    for rank, words in ((FORM, label["rest"] if label else ""), (HEAD, head["rest"] if head else "")):
        system = _named(words, whole=rank == FORM) if words else None
        if system is not None:
            yield rank, index, system
    kernel = _of_kernel(line)
    if kernel is not None:
        yield KERNEL, index, kernel
    if _PROMPT.match(line) is not None:
        yield PROMPT, index, OperatingSystem(id="windows")
    # Beside Windows a second name is that of WSL's Linux.
    for system in (_named(line, whole=False), _named(line, whole=False, besides="windows") if "Windows" in line else None):
        if system is not None:
            yield (PROSE if system.version_id or system.codename else ROLLING), index, system


def id_of_name(name: str) -> str | None:
    """The distribution that /etc/os-release calls by this name."""
    return "void" if name == "Void" else next((found for found, words in _WORDS_OF.items() if re.fullmatch(words, name)), None)


def _named(words: str, *, whole: bool, besides: str = "") -> OperatingSystem | None:
    """The first name of these words. In prose it needs its version, unless the system has none."""
    names = ((name, form.search(words)) for name, form in _NAMES if name != besides)
    hits = [(found.start(), -len(found[0]), name, found) for name, found in names if found is not None]
    if not hits:
        return None
    _, _, name, found = min(hits, key=lambda hit: hit[:2])
    version, rest = found["version"], words[found.end() : found.end() + 60]
    codename = _CODENAME.search(rest) if name in ("ubuntu", "debian") else None
    build = _BUILD.search(words) if name == "windows" else None
    if not whole and version is None and codename is None and build is None and name not in _ROLLING:
        return None
    if not whole and name == "windows" and build is None and version not in _WINDOWS:
        return None
    return _system(name, version, codename[0].lower() if codename else None, words[found.start() : found.end() + 60])


def _system(name: str, version: str | None, codename: str | None, words: str) -> OperatingSystem:
    if name == "windows":
        build = _BUILD.search(words)
        if build is not None:
            version = "11" if int(build["build"] or build["other"]) >= 22000 else "10"
    if name == "ubuntu" and version is not None:
        version = f"{version}.04" if version in ("16", "18", "20", "22", "24", "26") else ".".join(version.split(".")[:2])
    pack = _SERVICE_PACK.search(words) if name == "sles" and version is not None else None
    variant = _VARIANT.search(words) if name == "fedora" else None
    return OperatingSystem(
        id=name,
        version_id=f"{version}.{pack[1]}" if pack else version,
        codename=codename,
        variant=variant[1].lower() if variant else None,
    )


def _of_kernel(line: str) -> OperatingSystem | None:
    """What a kernel's release says. Much of it stays open: many systems use Ubuntu's kernels."""
    stated = _WITH.search(line)
    if stated is not None:
        return OperatingSystem(id={"redhat": "rhel"}.get(stated[1].lower(), stated[1].lower()), version_id=stated[2])
    base, own, library = _UBUNTU_BASE.search(line), _UBUNTU_OWN.search(line), _GLIBC.search(line)
    if base is not None:
        version = base[1] or base[2]
        return OperatingSystem(id="pop" if base[2] else None, version_id=version, codename=_RELEASES.get(version), like=("ubuntu",))
    if own is not None or library is not None:
        codename = _SERIES.get(own[1]) if own is not None else _LIBRARIES.get(library[1]) if library is not None else None
        return OperatingSystem(codename=codename, like=("ubuntu",))
    debian = _DEBIAN.search(line)
    if debian is not None:
        kali = "kali" in line
        codename = None if kali or "~bpo" in line else _DEBIAN_SERIES.get(debian[1])
        return OperatingSystem(id="kali" if kali else None, version_id=debian["release"], codename=codename, like=("debian",))
    for form, name, like in _KERNELS:
        found = form.search(line)
        if found is not None:
            return OperatingSystem(id=name, version_id=_kernel_version(found.groupdict().get("version")), like=like)
    return OperatingSystem(like=("ubuntu",)) if re.search(r"\b\d\.\d{1,2}\.\d{1,2}-\d{1,6}-generic\b", line) else None


def _kernel_version(text: str | None) -> str | None:
    """`9_3` is 9.3; `150600` is 15.6."""
    if text is None:
        return None
    if len(text) == 6:
        return f"{text[:2]}.{int(text[2:4])}"
    return text.replace("_", ".")


def _completed(system: OperatingSystem, found: Iterable[Statement]) -> OperatingSystem:
    """A name without its version takes it from another statement about the same system."""
    if system.version_id is not None or system.codename is not None:
        return system
    for _, _, other in sorted(found, key=lambda entry: entry[0]):
        same = other.id == system.id or (other.id is None and system.id is not None and other.like == (system.id,))
        if same and (other.version_id or other.codename):
            return msgspec.structs.replace(system, version_id=other.version_id, codename=other.codename)
    return system


PARSER = Parser(name="system_names", reads=("issue",), keys=(OPERATING_SYSTEM.name,), parse=parse, wakes=_WAKES)
