"""Which distribution the steps are for: its family, its codename, and how its packages are grouped."""

from __future__ import annotations

import re

import msgspec

from cudadoctor.model.facts import Facts, Unknown
from cudadoctor.model.values import OPERATING_SYSTEM, OperatingSystem

_FAMILIES: dict[str, str] = {
    "ubuntu": "ubuntu", "debian": "debian", "fedora": "fedora", "arch": "arch", "suse": "suse", "opensuse": "suse", "sles": "suse",
    "rhel": "rhel", "centos": "rhel", "rocky": "rhel", "almalinux": "rhel", "ol": "rhel", "oracle": "rhel", "scientific": "rhel",
    "manjaro": "arch", "endeavouros": "arch", "raspbian": "debian",
}  # fmt: skip
# Relatives whose `like` names several families: the first of these that is named counts (Rocky says "rhel centos fedora").
_ORDER = ("ubuntu", "debian", "rhel", "fedora", "arch", "suse")
_CODENAMES: dict[str, dict[str, str]] = {
    "ubuntu": {"20.04": "focal", "22.04": "jammy", "24.04": "noble", "25.10": "questing", "26.04": "resolute"},
    "debian": {"11": "bullseye", "12": "bookworm", "13": "trixie", "14": "forky"},
    "pop": {"20.04": "focal", "22.04": "jammy", "24.04": "noble"},
    "linuxmint": {"20": "focal", "21": "jammy", "22": "noble"},
}
_NUMBER = re.compile(r"\d[\w.]*$")


class Distribution(msgspec.Struct, frozen=True, kw_only=True):
    """What the choice of packages needs to know. `family` None: unknown, so steps are words."""

    family: str | None = None  # debian | ubuntu | fedora | rhel | arch | suse
    id: str | None = None
    version: str | None = None
    codename: str | None = None

    @property
    def major(self) -> str | None:
        """The first number of the version ("9" of "9.4")."""
        found = re.match(r"\d+", self.version or "")
        return found[0] if found else None


def family_of(identifier: str | None, like: tuple[str, ...] = ()) -> str | None:
    """The family of a distribution by its id, else by those that it says it is like."""
    for name in (identifier or "", *(entry for entry in _ORDER if entry in {_family(word) for word in like})):
        found = _family(name)
        if found is not None:
            return found
    return None


def _family(name: str) -> str | None:
    word = name.lower()
    return _FAMILIES.get(word) or next((_FAMILIES[key] for key in ("opensuse", "sles") if word.startswith(key)), None)


def from_word(word: str) -> Distribution:
    """The user's own word: `ubuntu-24.04`, `debian:12`, `fedora-41`, `arch`."""
    name = word.strip().lower().replace(":", "-").replace(" ", "-")
    found = _NUMBER.search(name)
    version = found[0] if found else None
    identifier = name[: found.start()].rstrip("-") if found else name
    last = identifier.rsplit("-", 1)[-1]
    codename = _codename(identifier, version)
    if version is None and last in {code for codes in _CODENAMES.values() for code in codes.values()}:
        identifier, codename = identifier[: -len(last)].rstrip("-"), last
    return Distribution(family=family_of(identifier), id=identifier or None, version=version, codename=codename)


def of_facts(facts: Facts, word: str | None) -> Distribution:
    """The distribution to write steps for: the user's word outranks what the machine says of itself."""
    if word:
        return from_word(word)
    found = facts.get(OPERATING_SYSTEM)
    if isinstance(found, Unknown) or found.value is None:
        return Distribution()
    return _of_system(found.value)


def _of_system(system: OperatingSystem) -> Distribution:
    identifier = (system.id or "").lower()
    family = family_of(identifier, system.like)
    codename = _codename(identifier, system.version_id)
    known = {code for codes in _CODENAMES.values() for code in codes.values()}
    if codename is None and family in ("ubuntu", "debian") and system.codename in known:
        codename = system.codename
    return Distribution(family=family, id=identifier or None, version=system.version_id, codename=codename)


def _codename(identifier: str, version: str | None) -> str | None:
    codes = _CODENAMES.get(identifier, {})
    if version is None:
        return None
    return codes.get(version) or codes.get(version.split(".")[0])
