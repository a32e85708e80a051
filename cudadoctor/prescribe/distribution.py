"""Which distribution the steps are for: its family, its codename, and how its packages are installed.

The names are those of knowledge/tables/distributions.toml. A derivative counts as its parent, with the parent's codename.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from cudadoctor.knowledge.load import Knowledge
from cudadoctor.knowledge.systems import DistributionRow
from cudadoctor.model.facts import Facts, Unknown
from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import BOOTED_IMAGE, OPERATING_SYSTEM, SETTING, TEGRA, WSL, OperatingSystem

# Words of ID_LIKE; of several the first of this order that is named counts (Rocky says "rhel centos fedora").
_FAMILIES = {"ubuntu": "ubuntu", "debian": "debian", "rhel": "rhel", "centos": "rhel", "fedora": "fedora", "arch": "arch", "suse": "suse",
             "opensuse": "suse", "sles": "suse", "nixos": "nixos"}  # fmt: skip
# Variants of Fedora's VARIANT_ID that are images.
_IMAGES = ("silverblue", "kinoite", "sericea", "onyx", "coreos", "iot", "atomic", "ostree", "bazzite", "bluefin", "aurora")
_HEADLESS = {"server": True, "headless": True, "cloud": True, "desktop": False, "workstation": False, "laptop": False}
_WSL = ("wsl", "wsl1", "wsl2")
_SILENT = ("linux", "gnu", "gnu/linux", "os", "lts", "release")
_LONGEST = 200  # characters of the user's word for a distribution that are looked at
_WORDS = lazy(r"[a-z0-9][a-z0-9.]*")
_GLUED = lazy(r"([a-z]{1,40})(\d[\d.]{0,20})")
_SERVICE_PACK = lazy(r"sp(\d)")
_TREE, _FROM = lazy(r"[/:@]+"), "docker://"
# Universal Blue's images with NVIDIA's driver: NAME-nvidia and NAME-nvidia-open.
_VARIANT = lazy(r"-nvidia(?:-open)?(?=[:@]|$)")
_OF_UBLUE = lazy(r"[a-z][a-z0-9-]{2,60}")
# How Debian and Ubuntu call their releases besides the codename.
_SUITES = {"stable": "trixie", "testing": "forky", "unstable": "sid", "oldstable": "bookworm"}


class Distribution(msgspec.Struct, frozen=True, kw_only=True):
    """What the choice of packages needs to know. `family` None: no commands are known for it, so steps are words."""

    family: str | None = None  # debian | ubuntu | fedora | rhel | arch | suse | nixos | windows
    id: str | None = None
    version: str | None = None
    codename: str | None = None
    image: str | None = None  # rpm-ostree | transactional-update
    ready_image: str | None = None  # the image without NVIDIA's driver, by its reference: variants with the driver stand beside it
    wsl: bool = False
    headless: bool | None = None  # stated: a server without a screen, or a desktop
    repository: str | None = None  # the folder of NVIDIA's repository
    series_only: bool = False  # it has a package for each series of CUDA, and not each release
    toolkit: tuple[str, str] | None = None  # the distribution's own package of the newest CUDA, and its folder
    from_nvidia: bool = False  # the driver that is installed came from NVIDIA's repository, which is there
    older_drivers: int | None = None
    new_libc: bool = False  # glibc 2.41 or newer
    driver: str | None = None  # words, where no package is known
    branch_driver: str | None = None

    @property
    def major(self) -> str | None:
        """The first number of the version ("9" of "9.4")."""
        found = re.match(r"\d+", self.version or "")
        return found[0] if found else None

    @property
    def named(self) -> str:
        return " ".join(part for part in (self.id, self.version or self.codename) if part) or "this distribution"


# ---------------------------------------------------------------- the user's own word
def from_word(word: str, knowledge: Knowledge) -> Distribution:
    """The user's own word: `ubuntu-24.04`, `debian:12`, `Linux Mint 21.3`, `rhel9`, `wsl-ubuntu-22.04`, `ubuntu-24.04-server`, `arch`."""
    parts = _WORDS.findall(word[:_LONGEST].lower().replace("pop!", "pop"))
    rows = _by_name(knowledge)
    wsl = any(part in _WSL for part in parts)
    headless = next((_HEADLESS[part] for part in parts if part in _HEADLESS), None)
    parts = [part for part in parts if part not in _WSL and part not in _SILENT]
    names, version, codename = _split(parts, rows, _codes(knowledge))
    plain = [name for name in names if name not in _HEADLESS]
    row = _row(names, rows) or _row(plain, rows)
    if row is None and not names and (codename or wsl):
        row = rows["ubuntu" if wsl and codename is None else _family_of_code(codename, knowledge)]
    if row is not None and row.id == "windows":
        wsl = False
    return msgspec.structs.replace(_made(row, "-".join(plain or names) or None, version, codename, knowledge), wsl=wsl, headless=headless)


def known_word(word: str, knowledge: Knowledge) -> bool:
    """Whether steps can be written for what the user named, in commands or in words."""
    found = from_word(word, knowledge)
    return found.family is not None or found.driver is not None


def words(knowledge: Knowledge) -> tuple[str, ...]:
    return tuple(_by_name(knowledge))


def _split(parts: list[str], rows: Mapping[str, DistributionRow], codes: frozenset[str]) -> tuple[list[str], str | None, str | None]:
    """Names, version and codename of the words. `rhel9` and `ubuntu22.04` are a name with its version."""
    names: list[str] = []
    version: str | None = None
    codename: str | None = None
    for part in parts:
        glued = _GLUED.fullmatch(part)
        pack = _SERVICE_PACK.fullmatch(part)
        if part in codes:
            codename = part
        elif part in _SUITES and "debian" in names:
            codename = _SUITES[part]
        elif version is not None:
            version += f".{pack[1]}" if pack is not None else ""
        elif part[0].isdigit():
            version = part
        elif glued is not None and part not in rows and "-".join((*names, glued[1])) in rows:
            names.append(glued[1])
            version = glued[2]
        else:
            names.append(part)
    if version is not None and re.fullmatch(r"\d{4}", version) and names[:1] == ["ubuntu"]:
        version = f"{version[:2]}.{version[2:]}"
    return names, version, codename


def _row(names: list[str], rows: Mapping[str, DistributionRow]) -> DistributionRow | None:
    """The longest run of words, from the first on, that is a name: "opensuse-leap" before "opensuse"."""
    runs = ("-".join(names[:end]) for end in range(len(names), 0, -1))
    return next((rows[run] for run in runs if run in rows), None)


# ---------------------------------------------------------------- what the machine says
def of_facts(facts: Facts, word: str | None, knowledge: Knowledge) -> Distribution:
    """The distribution to write steps for: the user's word outranks what the machine says of itself."""
    if word:
        return from_word(word, knowledge)
    system = facts.value(OPERATING_SYSTEM)
    made = of_system(system, knowledge) if system is not None else Distribution()
    if facts.value(TEGRA) is True:
        return msgspec.structs.replace(made, driver=_by_name(knowledge)["l4t"].driver)
    tree = facts.value(BOOTED_IMAGE)
    made = made if tree is None else _of_tree(made, tree, knowledge)
    wsl, setting = facts.get(WSL), facts.value(SETTING)  # the kernel is WSL's, or a text says so and no kernel contradicts it
    in_wsl = wsl.value is True if not isinstance(wsl, Unknown) else setting is not None and "wsl" in setting.words
    return msgspec.structs.replace(made, wsl=in_wsl and made.family != "windows")


def is_windows(facts: Facts, word: str | None, knowledge: Knowledge) -> bool:
    """Whether commands are for Windows, whose shell is PowerShell."""
    return of_facts(facts, word, knowledge).family == "windows"


def _of_tree(made: Distribution, tree: str, knowledge: Knowledge) -> Distribution:
    """What is booted is an image. Its reference names the system too, and the variant: `docker://ghcr.io/ublue-os/bazzite-nvidia-open:stable`."""
    parts = _TREE.split(tree.lower())
    rows = _by_name(knowledge)
    row = next(
        (rows[name] for part in reversed(parts) for name in (part, part.partition("-")[0]) if name in rows and rows[name].image), None
    )
    if row is not None and made.family in (None, row.family):
        version = made.version or next((part for part in parts if part.isdigit()), None)
        made = msgspec.structs.replace(_made(row, row.id, version, None, knowledge), headless=made.headless)
    plain = made.ready_image
    if plain is not None and ":" in tree:
        plain = f"{plain.partition(_FROM)[0]}{_FROM}{_VARIANT.sub('', tree.rpartition(_FROM)[2])}"
    return msgspec.structs.replace(made, image=made.image or "rpm-ostree", ready_image=plain)


def of_system(system: OperatingSystem, knowledge: Knowledge) -> Distribution:
    rows = _by_name(knowledge)
    identifier = (system.id or "").lower()
    row = rows.get(identifier) or _like(system.like, rows)
    if identifier.startswith(("opensuse", "sle")) and identifier not in rows:
        row = rows["sles" if identifier.startswith("sle") else "opensuse-leap"]
    variant = (system.variant or "").lower()
    stated = system.codename if system.codename in _codes(knowledge) else None
    made = _made(row, identifier or None, system.version_id, stated, knowledge)
    image = "rpm-ostree" if made.family == "fedora" and any(name in variant for name in _IMAGES) else made.image
    plain = made.ready_image
    if plain is not None and made.id is not None and _OF_UBLUE.fullmatch(variant) and variant.startswith(made.id):
        plain = plain.replace(f"/{made.id}:", f"/{_VARIANT.sub('', variant)}:")  # Universal Blue writes the image's name there
    return msgspec.structs.replace(made, image=image, ready_image=plain, headless=_HEADLESS.get(variant))


def _like(like: tuple[str, ...], rows: Mapping[str, DistributionRow]) -> DistributionRow | None:
    """The parent that a relative names: a row without codenames of its own, for the versions are the relative's."""
    named = {_FAMILIES[word] for word in like if word in _FAMILIES}
    family = next((name for name in _FAMILIES.values() if name in named), None)
    if family is None:
        return None
    parent = {"suse": "opensuse-leap", "rhel": "centos"}.get(family, family)
    return msgspec.structs.replace(rows[parent], codenames={}, repository=None)


# ---------------------------------------------------------------- rows of the table
def _made(
    row: DistributionRow | None, identifier: str | None, version: str | None, codename: str | None, knowledge: Knowledge
) -> Distribution:
    if row is None:
        return Distribution(id=identifier, version=version)
    mapped = _of_version(row.codenames, version) or codename or row.codename
    family = row.family
    if family in ("ubuntu", "debian") and mapped is not None:
        family = _family_of_code(mapped, knowledge)
    major = re.match(r"\d+", version or "")
    usual = f"rhel{major[0]}" if family == "rhel" and row.repository is None and major and major[0] in ("8", "9", "10") else None
    repository = _of_version(row.repository or {}, version) or (row.repository or {}).get("*") or usual
    return Distribution(
        family=family,
        id=row.id if identifier is None or identifier.startswith(row.names) else identifier,
        version=version,
        codename=mapped,
        image=row.image,
        ready_image=row.ready_image,
        repository=repository,
        series_only=repository in row.series_only,
        toolkit=row.toolkit,
        older_drivers=row.older_drivers,
        new_libc=row.rolling or (row.new_libc is not None and _numbers(version) >= _numbers(row.new_libc)),
        driver=row.driver,
        branch_driver=row.branch_driver,
    )


def _numbers(version: str | None) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d{1,4}", version or ""))


def _of_version(table: Mapping[str, str], version: str | None) -> str | None:
    """By the whole version, else by its first two numbers, else by its first."""
    if version is None:
        return None
    parts = version.split(".")
    return next((table[key] for key in (version, ".".join(parts[:2]), parts[0]) if key in table), None)


def _by_name(knowledge: Knowledge) -> Mapping[str, DistributionRow]:
    return knowledge.once("distributions by name", lambda: {name: row for row in knowledge.distributions for name in (row.id, *row.names)})


def _codes(knowledge: Knowledge) -> frozenset[str]:
    """The codenames of Ubuntu and Debian."""
    rows = _by_name(knowledge)
    return frozenset((*rows["ubuntu"].codenames.values(), *rows["debian"].codenames.values(), "sid"))


def _family_of_code(codename: str | None, knowledge: Knowledge) -> str:
    rows = _by_name(knowledge)
    return "debian" if codename == "sid" or codename in rows["debian"].codenames.values() else "ubuntu"
