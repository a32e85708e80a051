"""The distribution: /etc/os-release or any part of it, in a pasted text also `lsb_release -a` and /etc/debian_version."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import OPERATING_SYSTEM, OperatingSystem
from cudadoctor.parsers.base import Output, Parser, Text, parser
from cudadoctor.parsers.system_names import Names, names_of

if TYPE_CHECKING:
    from cudadoctor.knowledge.load import Knowledge

_RELEASE_LINE = lazy(
    r"^\s{0,16}(?:/(?:etc|usr/lib)/os-release:)?(?P<name>ID|ID_LIKE|NAME|PRETTY_NAME|VARIANT_ID|VERSION|VERSION_ID|(?:VERSION|UBUNTU|DEBIAN)_CODENAME"
    r"|DISTRIB_(?:ID|RELEASE|CODENAME|DESCRIPTION))=(?P<value>.{1,200})$"
)
_LSB_LINE = lazy(r"^\s{0,16}(?P<name>Distributor ID|Description|Release|Codename):\s{1,16}(?P<value>\S.{0,200})$")
_LSB_NAMES = {
    "Distributor ID": "ID", "Description": "PRETTY_NAME", "Release": "VERSION_ID", "Codename": "VERSION_CODENAME",
    "DISTRIB_ID": "ID", "DISTRIB_DESCRIPTION": "PRETTY_NAME", "DISTRIB_RELEASE": "VERSION_ID", "DISTRIB_CODENAME": "VERSION_CODENAME",
}  # fmt: skip
# Of Debian itself this is a number; Ubuntu has the name of the Debian that it was made from there.
_ASKED_DEBIAN = lazy(r"^cat /etc/debian_version\b")
_DEBIAN = lazy(r"^\s{0,4}(?P<release>\d{1,2})\.\d{1,2}\s*$")
_NUMBER = lazy(r"\d{1,4}(?:\.\d{1,8}){0,2}")
_IN_BRACKETS = lazy(r"\((?P<words>[A-Za-z]{3,20})(?: [A-Za-z]{3,20})?\)")
# lsb_release's own words for some of them.
_DISTRIBUTORS = {
    "manjarolinux": "manjaro", "redhatenterprise": "rhel", "redhatenterpriseserver": "rhel", "redhatenterpriseworkstation": "rhel",
    "centosstream": "centos", "oracleserver": "ol", "oraclelinux": "ol", "amazonami": "amzn",
    "amazon": "amzn", "archlinux": "arch", "suse linux": "sles",
    "kde neon": "neon", "n/a": "",
}  # fmt: skip


def _parse(text: Text, names: Names) -> Output:
    """One fact from all lines of the text that state the distribution; of several statements the last counts."""
    values: dict[str, str] = {}
    numbers: list[int] = []
    for number, line in enumerate(text.plain_lines, 1):
        if "=" not in line and ":" not in line:
            continue
        found = _RELEASE_LINE.match(line) or _LSB_LINE.match(line)
        if found is None:
            continue
        name = _LSB_NAMES.get(found["name"], found["name"])
        value = found["value"].strip().strip("\"'")
        values[name] = _DISTRIBUTORS.get(value.lower(), value.lower()) if found["name"] in ("Distributor ID", "DISTRIB_ID") else value
        numbers.append(number)
    for number, _, below in text.asked("/etc/debian_version", _ASKED_DEBIAN):
        stated = _DEBIAN.match(below[0]) if below else None
        if stated is not None and not values:
            values |= {"ID": "debian", "VERSION_ID": stated["release"]}
            numbers.append(number + 1)
    named = _named(values, names)
    # A lone NAME=, ID= or VERSION= is a line of any shell script, unless it names a system.
    if named.id is None and values.keys() == {"UBUNTU_CODENAME"}:  # a relative of Ubuntu's, which alone has this line
        system = OperatingSystem(codename=values["UBUNTU_CODENAME"], like=("ubuntu",))
        yield text.fact(OPERATING_SYSTEM, system, text.quote(numbers[0]))
        return
    if named.id is None and not (values.keys() & {"PRETTY_NAME", "VERSION_ID"} and values.keys() & {"ID", "PRETTY_NAME"}):
        return
    system = OperatingSystem(
        id=values.get("ID") or named.id,
        version_id=values.get("VERSION_ID") or named.version_id,
        codename=_codename(values, named),
        like=tuple(values.get("ID_LIKE", "").split()),
        variant=values.get("VARIANT_ID") or named.variant,
    )
    yield text.fact(OPERATING_SYSTEM, system, *(text.quote(number) for number in numbers[:12]))


def _named(values: dict[str, str], names: Names) -> OperatingSystem:
    """What the parts say that were made for people: a text often shows these alone (`head -1`, `grep PRETTY`)."""
    own = values.get("ID", "")
    name = values.get("NAME", "")
    said = [names.named(words) for words in (f"{name} {values.get('VERSION', '')}".strip(), values.get("PRETTY_NAME", ""))]
    known = [one for one in said if one is not None]
    found = next((one for one in known if one.version_id is not None), known[0] if known else None)
    if found is None or (own and found.id != own):
        # Of a system that has no words of its own, the number at least is VERSION's, and its name in brackets is one release's alone.
        number, released = _NUMBER.match(values.get("VERSION", "")), _IN_BRACKETS.search(values.get("VERSION", ""))
        owner = own if own in names.ids else names.id_of_name(name) or (names.of_codename(released["words"].lower()) if released else None)
        return OperatingSystem(id=owner, version_id=number[0] if number else None)
    return found


def _codename(values: dict[str, str], named: OperatingSystem) -> str | None:
    """The release of the parent where a derivative names it: that is what its packages go by."""
    stated = values.get("UBUNTU_CODENAME") or values.get("DEBIAN_CODENAME") or values.get("VERSION_CODENAME")
    if stated:
        return None if stated == "n/a" else stated
    # Elsewhere the words in brackets are no name that package sources go by.
    own = values.get("ID") or values.get("NAME", "")
    found = _IN_BRACKETS.search(values.get("VERSION", "")) if own.lower().startswith(("ubuntu", "debian")) else None
    return found["words"].lower() if found else named.codename


def parsers(knowledge: Knowledge) -> tuple[Parser, ...]:
    return (
        parser(
            "os_release",
            partial(_parse, names=names_of(knowledge)),
            OPERATING_SYSTEM,
            reads=("os-release",),
            wakes=("os-release", "VERSION_ID=", "NAME=", "_CODENAME=", "Distributor ID:", "DISTRIB_ID=", "debian_version", "VERSION="),
        ),
    )
