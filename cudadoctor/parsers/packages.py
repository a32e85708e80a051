"""Installed packages whose name speaks of NVIDIA or CUDA, as dpkg, apt list, rpm -qa, dnf list, zypper, and pacman -Q and -Qs list them.

A package that dpkg merely remembers (`un`, `rc`) is not installed and not listed; a half-installed one is, with its state.
Histories say it too, the last line of a package counts: /var/log/apt/history.log, dpkg.log, pacman.log, dnf.rpm.log, yum.log, zypp/history,
`dnf history info`, and what dnf prints while it works. In a paste a list filtered for nvidia with nothing below it says that there is none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cudadoctor.model.facts import Fact
from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import DRIVER_PACKAGES, Package
from cudadoctor.parsers.base import Output, Text, parser

_ARCHITECTURES = r"\.(?:x86_64|noarch|i[36]86|aarch64|ppc64le)"
_LISTED = (
    # dpkg
    lazy(
        r"[ \t>|]{0,20}(?P<state>[uihrp][nciUFHWt])R? {1,4}(?P<name>[a-z0-9][a-z0-9+.-]{1,120})(?::[\w-]{0,12})?\s{1,120}"
        r"(?P<version>\d\S{0,120})(?:\s|$)"
    ),
    lazy(r"[ \t>|]{0,20}(?P<name>[a-z0-9][a-z0-9+.-]{1,120})(?::[\w-]{0,12})?(?:\t| {2})\s{0,120}install\s*$"),
    # dpkg -S: the package that a file is from
    lazy(r"[ \t>|]{0,20}(?P<name>(?:lib)?nvidia-[a-z0-9+.-]{1,100})(?::[\w-]{1,12})?: /(?:usr/)?(?:lib|bin)/\S{1,200}\s*$"),
    # apt list --installed
    lazy(
        r"[ \t>|]{0,20}(?P<name>[a-z0-9][a-z0-9+.-]{1,120})/\S{1,120} (?P<version>\d\S{0,120}) [a-z0-9]{2,8}"
        r" \[installed(?:,[a-z-]{1,12}){0,2}\]\s*$"
    ),
    # dnf, rpm
    lazy(
        rf"[ \t>|]{{0,20}}(?P<name>[\w.+-]{{2,120}}){_ARCHITECTURES}\s{{1,120}}(?P<version>\d\S{{0,100}}-\S{{1,60}})"
        r"\s{1,60}@(?P<repository>\S{1,80})\s*$"
    ),
    lazy(rf"[ \t>|]{{0,20}}(?P<name>[^\s/]{{1,120}})-(?P<version>\d[^\s/-]{{0,80}}-[^\s/-]{{1,80}}){_ARCHITECTURES}\s*$"),
    # zypper
    lazy(
        r"[ \t>|]{0,8}i\+? {0,4}\| (?P<name>[a-zA-Z0-9][\w.+-]{2,80}) {1,60}\|(?: [^|\n]{0,60}\|)? package {1,20}\|"
        r" (?P<version>\d[\w.:+~-]{1,60}) {0,40}(?:\||$)"
    ),
    # pacman
    lazy(
        r"[ \t>|]{0,20}(?:local/)?(?P<name>[a-z0-9@_+][a-z0-9@._+-]{1,120}) (?P<version>\d[\w.:+~]{0,80}-\d{1,4}(?:\.\d{1,4})?)"
        r"(?: \([^()]{1,80}\))?\s*$"
    ),
)
# dnf 5 writes no @ before the repository from which an installed package came: as it writes those that may be installed.
_OF_DNF5 = lazy(
    rf"(?P<name>[\w.+-]{{2,120}}){_ARCHITECTURES}\s{{1,120}}(?P<version>\d\S{{0,100}}-\S{{1,60}})\s{{1,60}}@?(?P<repository>[\w.:-]{{2,80}})$"
)
_INSTALLED_OF_DNF = lazy(r"^(?:sudo )?(?:dnf5?|yum) (?:-q )?list (?:-q )?(?:--)?installed\b")
# Names and versions alone, which awk leaves of what dpkg -l calls installed.
_OF_DPKG = lazy(r"(?P<name>[a-z0-9][a-z0-9+.-]{1,120})(?::[\w-]{1,12})?[ \t]{1,40}(?P<version>\d[^\s,]{0,80})\s*$")
_INSTALLED_OF_DPKG = lazy(r"^(?:sudo )?dpkg -l\b.{0,300}(?:/\^ii/|\{print ?\$2, ?\$3\})")
# apt writes all packages of a run on one line, those that it upgraded with both versions.
_APT = lazy(r"(?:^|[\s:])(?:(?P<out>Remove|Purge)|Upgrade|Downgrade|Install|Reinstall): (?=[a-z0-9][\w+.-]{1,120}(?::[\w-]{1,12})? \()")
_APT_ENTRY = lazy(r" ([a-z0-9][a-z0-9+.-]{1,120})(?::[\w-]{1,12})? \((?:\d[^\s,()]{0,80}, )?(\d[^\s,()]{0,80})(?:, automatic)?\)")
# Other histories have a line for each package: `out` where it left, `version` the one since then. dnf's lines of the version before
# (Upgraded, Replaced) match none of these.
_HISTORY = (
    lazy(
        r"^[ \t>|]{0,20}\d{4}-\d\d-\d\d \d\d:\d\d:\d\d (?:(?P<out>remove|purge)|upgrade|install) (?P<name>[a-z0-9][a-z0-9+.-]{1,120})"
        r"(?::[\w-]{1,12})? \S{1,81} (?P<version>[\d<]\S{0,80})\s*$"
    ),
    lazy(
        r"\[ALPM\] (?:(?P<out>removed)|upgraded|downgraded|installed|reinstalled) (?P<name>[a-z0-9@_+][a-z0-9@._+-]{1,120})"
        r" \((?:\S{1,80} -> )?(?P<version>\d\S{0,80})\)"
    ),
    lazy(
        r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\|(?:(?P<out>remove )|install)\|(?P<name>[a-zA-Z0-9][\w.+-]{1,80})\|(?P<version>\d[^|\s]{0,80})\|"
    ),
    lazy(
        r"(?:^|[\s\]|])(?:(?P<out>Remov(?:e|ed|ing)|Eras(?:e|ed|ing))|(?:Up|Down)grad(?:e|ing)|(?:Rei|I)nstall(?:ed|ing)?|Updated)"
        r"\s{0,12}:?\s{1,40}(?:\d{1,3}:)?(?P<name>[\w.+-]{2,120}?)-(?P<version>(?:\d{1,3}:)?\d[\w.~^+]{0,60}-[\w.~^+]{1,60})"
        rf"{_ARCHITECTURES}(?:\s|$)"
    ),
)
# rpm-ostree status: what is layered over an image, without versions.
_LAYERED = lazy(r"^[ \t>|]{0,40}LayeredPackages: (?P<names>[\w.+ -]{1,2000})$")
_INSTALLED = "iUFHWt"  # second letter of dpkg's state: installed, unpacked, half-configured, half-installed, triggers
_QUOTES = 12
_WAKES = (
    "libnvidia-", "nvidia-driver", "nvidia-utils", "nvidia-dkms", "nvidia-kernel", "nvidia-open", "nvidia-x11", "cuda-drivers",
    "kmod-nvidia", "xorg-x11-drv-nvidia", "cuda-toolkit", "local/nvidia", "nvidia-compute-utils", "nvidia-gl-G0", "nvidia-video-G0",
    "[ALPM] ", "nvidia-container-toolkit", "LayeredPackages: ",
    "grep nvidia", "grep -i nvidia", "rpm -qa |", "dpkg -l |", "pacman -Q", "| package ", "no packages found matching",
)  # fmt: skip
_FILTERED = lazy(
    r"^(?:sudo )?(?:dpkg (?:-l|--list|--get-selections)|rpm -qa|pacman -Q|apt list --installed(?: 2>/dev/null)?)"
    r" ?\| ?grep (?:-[iE]{1,2} )?['\"]?(?:[\w-]{1,20}\|){0,4}nvidia(?:\|[\w-]{1,20}){0,4}['\"]?(?: ?\| ?sort)?$"
)
_NO_MATCH = "no packages found matching"
_ASKED_BY_NAME = lazy(r"^(?:sudo )?dpkg(?:-query)? (?:-l|--list) (?:[\"']?\*?[\w-]{0,12}nvidia[\w-]{0,12}\*[\"']? ?){1,3}$")
_LONGEST_HISTORY = 20000  # characters of one line of apt's history


def parse(text: Text) -> Output:
    """One fact. A live list that names none is knowledge, also where dpkg-query says so by its exit code."""
    found: dict[tuple[str, str, str], Package] = {}
    history: dict[str, Package | None] = {}  # None: taken out
    of_dnf, of_dpkg = (
        {one for number, _, below in text.asked(hint, form) for one in range(number + 1, number + 1 + len(below))}
        for hint, form in (("installed", _INSTALLED_OF_DNF), ("dpkg", _INSTALLED_OF_DPKG))
    )
    for number, line in enumerate(text.lines, 1):
        if "nvidia" not in line and "cuda" not in line:
            continue
        row = _OF_DNF5.match(line) if number in of_dnf else _OF_DPKG.match(line) if number in of_dpkg else None
        if row is not None:
            package = Package(name=row["name"], version=row["version"], repository=row.groupdict().get("repository"), line=number)
            found.setdefault((package.name, package.version, package.state), package)
            continue
        told = _told(line, number)
        history.update(told)
        for package in () if told else _packages(line, number):
            if _of_nvidia(package.name):
                found.setdefault((package.name, package.version, package.state), package)
    whole = text.whole or _only_unmatched(text)
    listed = {package.name for package in found.values()}
    since = (package for package in history.values() if package is not None and package.name not in listed)
    packages = (*found.values(), *since)
    if packages:
        quotes = [text.quote(entry.line) for entry in packages[:_QUOTES]]
        yield text.fact(DRIVER_PACKAGES, packages, *quotes, whole=whole)
    elif text.pasted:
        yield from _shown_empty(text)
    elif whole:
        yield text.fact(DRIVER_PACKAGES, packages, text.absent(f"{text.source}: no installed package of NVIDIA or CUDA"), whole=True)


def _shown_empty(text: Text) -> Iterator[Fact[Any]]:
    """A filter that names NVIDIA, with none of its packages between it and the next prompt."""
    filtered = (
        number
        for number, _, below in text.asked("nvidia", _FILTERED)
        if number + len(below) < len(text.lines) and not any("nvidia" in line or "cuda" in line for line in below)
    )
    by_name = (number for number, _, below in text.asked("nvidia", _ASKED_BY_NAME) if below and _NO_MATCH in below[0])
    for numbers, lines in ((filtered, 0), (by_name, 1)):
        if (number := next(numbers, None)) is not None:
            yield text.fact(DRIVER_PACKAGES, (), text.quote(number, number + lines), whole=True)
            return


def _of_nvidia(name: str) -> bool:
    return "nvidia" in name or "cuda" in name


def _told(line: str, number: int) -> dict[str, Package | None]:
    """What a line of a history says became of packages of NVIDIA: the one that is there since, None where it was taken out."""
    run = _APT.search(line) if len(line) <= _LONGEST_HISTORY else None
    if run is not None:
        entries = ((found[1], found[2]) for found in _APT_ENTRY.finditer(line, run.end() - 1))
        return {
            name: None if run["out"] else Package(name=name, version=version, line=number) for name, version in entries if _of_nvidia(name)
        }
    done = next((found for form in _HISTORY if (found := form.search(line)) is not None), None)
    if done is None or not _of_nvidia(done["name"]):
        return {}
    return {done["name"]: None if done["out"] else Package(name=done["name"], version=done["version"], line=number)}


def _packages(line: str, number: int) -> Iterator[Package]:
    layered = _LAYERED.match(line) if "Layered" in line else None
    if layered is not None:
        yield from (Package(name=name, version="", line=number) for name in layered["names"].split())
        return
    listed = next((found.groupdict() for form in _LISTED if (found := form.match(line)) is not None), None)
    if listed is not None and listed.get("state", "ii")[1] in _INSTALLED:
        yield Package(
            name=listed["name"],
            version=listed.get("version", ""),
            state=listed.get("state", "ii"),
            repository=listed.get("repository"),
            line=number,
        )


def _only_unmatched(text: Text) -> bool:
    """Whether a live query failed for no other reason than that a pattern matched nothing (dpkg-query and pacman then exit with 1)."""
    item = text.item
    if item is None or item.origin == "text" or item.status != "failed" or item.exit != 1 or item.dropped_bytes:
        return False
    complaints = [line for line in (item.stderr or "").splitlines() if line.strip()]
    if item.what and item.what[0] == "pacman":
        return not complaints
    return bool(complaints) and all(_NO_MATCH in line for line in complaints)


PARSER = parser("packages", parse, DRIVER_PACKAGES, reads=("packages",), wakes=_WAKES)
