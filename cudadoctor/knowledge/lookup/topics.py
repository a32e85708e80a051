"""Which thing a question names: one pattern for each form in which people write it. The first that fits answers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from cudadoctor.knowledge.lookup import hardware, numba, software, variables
from cudadoctor.knowledge.lookup.pages import NoSuchError
from cudadoctor.model.explanation import Topic

if TYPE_CHECKING:
    from cudadoctor.knowledge.load import Knowledge

Reader = Callable[[re.Match[str], "Knowledge"], Topic | None]
NVIDIA = "10de"
MAX_WORDS = 8  # of a product's or an architecture's name
_MORE = r"(?:\.\d{1,6}){0,3}"
_TOOLKIT = r"(?:cuda[ _-]{0,8}toolkit|toolkit|cuda(?:[ -](?:version|runtime))?|nvcc)"


def _capability(match: re.Match[str], knowledge: Knowledge) -> Topic:
    digits = match["digits"]
    text = digits if "." in digits else f"{digits}.0" if len(digits) == 1 else f"{digits[:-1]}.{digits[-1]}"
    return hardware.capability(text, knowledge)


def _device(match: re.Match[str], knowledge: Knowledge) -> Topic:
    vendor = match["vendor"]
    if vendor not in (None, NVIDIA):
        raise NoSuchError(f"vendor {vendor} is not NVIDIA, whose PCI ids begin with {NVIDIA}")
    return hardware.device(match["device"], knowledge)


# Each is tried on the whole question, in small letters.
_FORMS: tuple[tuple[str, Reader], ...] = (
    (r"(?:sm|compute|cc|capability|compute[ _]capability)[ _:-]{0,8}(?P<digits>\d{1,2}\.\d|\d{1,3})[af]?", _capability),
    (r"(?:pci\\)?ven_(?P<vendor>[0-9a-f]{4})&dev_(?P<device>[0-9a-f]{4})\S*", _device),
    (r"(?:pci(?:[ _-]?id)?|device(?:[ _-]?id)?)?[ :]{0,8}\[?(?P<vendor>[0-9a-f]{4}):(?P<device>[0-9a-f]{4})\]?", _device),
    (r"(?:(?:pci(?:[ _-]?id)?|device(?:[ _-]?id)?)[ :]{0,8}(?:0x)?|0x)(?P<vendor>(?!))?(?P<device>[0-9a-f]{4})", _device),
    (
        rf"(?:nvidia[ -]*)?(?:driver(?:[ -](?:branch|version))?|branch|r)[ :-]*(?P<version>\d{{2,4}}{_MORE})(?:-server)?(?:-open)?",
        lambda match, knowledge: software.driver(match["version"], knowledge),
    ),
    (r"(?P<version>\d{3}\.\d{2,3}(?:\.\d{2})?)", lambda match, knowledge: software.driver(match["version"], knowledge)),
    (
        rf"(?:nvidia[ -]*)?{_TOOLKIT}[ _:=-]{{0,8}}v?(?P<version>\d{{1,2}}\.\d{{1,2}}){_MORE}(?: ?(?:update|u) ?\d)?",
        lambda match, knowledge: software.toolkit(match["version"], knowledge),
    ),
    (r"(?:cuda[ _-]{0,8})?toolkit[ _:=-]{0,8}v?(\d{1,2})", lambda match, knowledge: software.toolkit_series(match[1], knowledge)),
    (
        r"(?:ptx(?:[ _-]isa)?(?:[ _-]version)?|\.version)[ :=]{0,8}(?P<version>\d{1,2}\.\d)",
        lambda match, knowledge: software.ptx(match["version"], knowledge),
    ),
    (
        rf"(?P<name>gcc|g\+\+|clang\+\+|clang|msvc|cl|_msc_ver)[ _=:-]*(?P<version>\d{{1,4}}{_MORE})",
        lambda match, knowledge: software.compiler(match["name"], match["version"], knowledge),
    ),
    (rf"numba[-_]cuda[ =~<>v]{{0,8}}(?P<version>\d{{1,4}}{_MORE})", lambda match, knowledge: numba.numba_cuda(match["version"], knowledge)),
    (rf"numba[ =~<>v]{{0,8}}(?P<version>\d{{1,4}}{_MORE})", lambda match, knowledge: numba.numba(match["version"], knowledge)),
)
_COMPILED = tuple((re.compile(pattern), reader) for pattern, reader in _FORMS)
_BARE = re.compile(r"\d{1,2}\.\d{1,2}")
_VARIABLE = re.compile(r"\$?\{?(?P<name>[A-Za-z_]\w{2,80})\}?(?:=\S{0,200})?")
_CHIP = re.compile(r"(?P<name>[A-Za-z]{1,3}\d{1,3}[A-Za-z0-9]{0,3})(?: \[.{1,80}\])?")
_ARCHITECTURE = re.compile(r"(?:architecture )?(?P<name>[a-z]+(?:[ -][a-z]+)??)(?: architecture| gpus?)?")
_PRODUCT = re.compile(r"[A-Za-z0-9 -]{2,80}")
# A word that needs a number behind it, and a question that has one.
_NEEDS_NUMBER = {
    "cuda": "cuda 100` or `cuda 12.4", "curesult": "cuda 100", "nvml": "nvml 3", "xid": "xid 79", "nvidia-smi": "nvidia-smi 9",
    "sm": "sm_90", "cc": "cc 8.9", "compute capability": "cc 8.9", "pci id": "10de:1292", "driver": "driver 470",
    "toolkit": "toolkit 12.4", "cuda toolkit": "toolkit 12.4", "nvcc": "toolkit 12.4", "ptx": "ptx 8.5", "gcc": "gcc 13", "g++": "g++ 13",
    "clang": "clang 17", "msvc": "msvc 1940", "numba": "numba 0.60", "numba-cuda": "numba-cuda 0.20",
}  # fmt: skip


def read(asked: str, knowledge: Knowledge) -> tuple[Topic, ...]:
    """The things that the question names; none where it names none. NoSuchError: a kind of thing, but none of these."""
    lower = asked.lower()
    for pattern, reader in _COMPILED:
        match = pattern.fullmatch(lower)
        if match is not None:
            found = reader(match, knowledge)
            if found is not None:
                return (found,)
    if _BARE.fullmatch(lower):
        return _of_number(lower, knowledge)
    if lower in _NEEDS_NUMBER:
        raise NoSuchError(f"{asked} needs a number: `{_NEEDS_NUMBER[lower]}`")
    named = _by_name(asked, knowledge)
    return () if named is None else (named,)


def _of_number(version: str, knowledge: Knowledge) -> tuple[Topic, ...]:
    """Everything that a version alone may mean."""
    found: list[Topic] = []
    for read_one in (software.toolkit, hardware.capability, software.ptx):
        try:
            found.append(read_one(version, knowledge))
        except NoSuchError:
            continue
    if not found:
        raise NoSuchError(f"{version} is no toolkit, compute capability or PTX version in these tables")
    return tuple(found)


def _by_name(asked: str, knowledge: Knowledge) -> Topic | None:
    """What has a name of its own."""
    variable = _VARIABLE.fullmatch(asked)
    if variable is not None and ("_" in variable["name"] or variable["name"].isupper()):
        found = variables.read(variable["name"], knowledge)
        if found is not None:
            return found
    chip = _CHIP.fullmatch(asked)
    if chip is not None:
        found = hardware.chip(chip["name"], knowledge)
        if found is not None:
            return found
    if len(asked.split()) > MAX_WORDS:
        return None
    architecture = _ARCHITECTURE.fullmatch(asked.lower())
    if architecture is not None:
        return hardware.architecture(architecture["name"], knowledge)
    is_name = _PRODUCT.fullmatch(asked) is not None and any(letter.isdigit() for letter in asked)
    return hardware.product(asked, knowledge) if is_name else None


def names(knowledge: Knowledge) -> Iterator[str]:
    """Everything of this kind that has a name, for those who misspell it."""
    yield from (row.name for row in knowledge.env_vars)
    yield from (row.name for row in knowledge.numba_env)
    yield from (row.id for row in knowledge.architectures)
