"""Chooses the driver that fits these GPUs on this distribution. Names come from the tables.

The newest production branch that drives every GPU is taken: a branch of short life (NVIDIA's new features) only where no other does.
Open kernel modules are taken where every GPU supports them (Turing and later), and never for older GPUs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudadoctor.prescribe.distribution import Distribution
from cudadoctor.prescribe.families import BY_FAMILY, UBUNTU_DRIVER, debian_names, suits, windows
from cudadoctor.prescribe.packages import Driver, Need, branch_words, flavour_words, in_words, said_of

if TYPE_CHECKING:
    from cudadoctor.knowledge.load import Knowledge

ELSEWHERE = (
    "NVIDIA's own repository (https://developer.download.nvidia.com/compute/cuda/repos/) "
    "or installer (https://www.nvidia.com/drivers) has it"
)
LAST_OF_OLD = 470  # no repository of NVIDIA's for a present release goes back so far
OLD_ELSEWHERE = "NVIDIA's installer of that branch (https://www.nvidia.com/drivers) may not build for a new kernel"
OLD_FOR_RHEL = "the repository ELRepo (https://elrepo.org) has kmod-nvidia-{}xx for RHEL 8 and 9"


def choose(need: Need, system: Distribution, knowledge: Knowledge, *, headless: bool = False) -> Driver:
    """The driver for this distribution, or the words that say what to install where no package is known."""
    if need.conflict:
        return Driver(words="no single driver serves all of these GPUs; " + in_words(need, knowledge))
    if system.wsl or system.family == "windows":
        return windows(need, system, knowledge)
    if system.driver is not None:
        words = system.branch_driver.replace("NNN", str(need.high)) if system.branch_driver and need.high else system.driver
        return Driver(words=words + (said_of(need, knowledge) if system.branch_driver is not None else ""))
    if system.family is None:
        return Driver(words=in_words(need, knowledge))
    return BY_FAMILY[system.family](need, system, knowledge, headless) or Driver(words=_not_packaged(need, system, knowledge))


def _not_packaged(need: Need, system: Distribution, knowledge: Knowledge) -> str:
    last = last_release(need, system, knowledge)
    where = f"; {last} is the last release that has one" if last is not None else ""
    elsewhere = ELSEWHERE if need.high is None or need.high > LAST_OF_OLD else OLD_ELSEWHERE
    if elsewhere == OLD_ELSEWHERE and system.family == "rhel":
        elsewhere = f"{OLD_FOR_RHEL.format(need.high)}; {OLD_ELSEWHERE}"
    return (
        f"NVIDIA's driver, {branch_words(need, knowledge)}{flavour_words(need)}; "
        f"no package for it is known in {system.named}{where}; {elsewhere}"
    )


def last_release(need: Need, system: Distribution, knowledge: Knowledge) -> str | None:
    """The newest release of Ubuntu or Debian whose archive has a driver that fits."""
    parent = next((row for row in knowledge.distributions if row.id == system.family), None)
    if parent is None or need.flavour is None or system.family not in ("ubuntu", "debian"):
        return None
    for version, codename in sorted(parent.codenames.items(), key=lambda entry: tuple(map(int, entry[0].split("."))), reverse=True):
        if system.family == "ubuntu":
            names = [row.package for row in knowledge.ubuntu_packages(codename)]
            has = any((found := UBUNTU_DRIVER.match(name)) is not None and suits(found, need) for name in names)
        else:
            has = any(need.fits(row.branch) and any(True for _ in debian_names(row, codename)) for row in knowledge.branches)
        if has:
            return f"{parent.id.capitalize()} {version} ({codename})"
    return None
