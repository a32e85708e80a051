"""Helpers of the tests about prescriptions: a finding, the prescription for it, and its commands."""

from __future__ import annotations

from typing import Any

from cudadoctor.model.facts import Quote
from cudadoctor.model.findings import Finding
from cudadoctor.model.recipe import Prescription
from cudadoctor.model.values import (
    Kernel,
)
from cudadoctor.prescribe import prescribe
from tests.facts_builder import facts_of, user
from tests.judging import KNOWLEDGE

# Each family, its derivatives, and systems of which no commands are known. All but the last two groups speak a Linux shell.
LINUX = (
    "ubuntu-20.04", "ubuntu-22.04", "ubuntu-24.04", "ubuntu-25.10", "ubuntu-26.04", "ubuntu-18.04", "ubuntu", "pop-22.04", "linuxmint-22.1",
    "lmde-6", "debian-11", "debian-12", "debian-13", "debian-sid", "kali", "fedora-42", "silverblue-42", "bazzite", "rhel", "centos-7", "rhel-8.10",
    "rhel-9.4", "rocky-10", "amzn-2023", "openeuler-24.03", "arch", "manjaro", "opensuse-leap-15.6", "opensuse-leap-16.0", "opensuse-tumbleweed",
    "opensuse-microos", "sles-15-sp6", "nixos-25.05", "gentoo", "alpine-3.20", "wsl-ubuntu-22.04", "plan9-4",
)  # fmt: skip
RELEASES = (*LINUX, None, "windows-11")
DEVICES = {
    "tesla": "05e2", "fermi": "06cd", "kepler": "1292", "maxwell": "1380", "pascal": "1d13", "volta": "1db5", "turing": "1f08", "ampere": "2204",
    "ada": "2684", "hopper": "2335", "blackwell": "2d04",
}  # fmt: skip
FERMI, KEPLER, PASCAL, VOLTA = (DEVICES[name] for name in ("fermi", "kepler", "pascal", "volta"))
AMPERE, HOPPER, BLACKWELL = (DEVICES[name] for name in ("ampere", "hopper", "blackwell"))
STEPS = [(recipe, number, step) for recipe in KNOWLEDGE.recipes.values() for number, step in enumerate(recipe.steps, 1)]
ALWAYS_KNOWN = {"driver_words", "library_words", "smi_words"}
ROOT_USER = user("root", 0)
RELEASE = Kernel(system="Linux", release="6.8.0-45-generic", machine="x86_64")


def finding(cause: str, *lines: str) -> Finding:
    known = KNOWLEDGE.cause(cause)
    quotes = tuple(Quote(source="test", first=1, last=1, text=line) for line in lines)
    return Finding(
        cause=cause, layer=known.layer, title=known.title, subject="machine", effect=known.effect, basis="derived", evidence=quotes
    )


def written(
    cause: str, state: dict[Any, Any] | None = None, values: dict[str, str] | None = None, distro: str | None = "ubuntu-24.04"
) -> Prescription:
    found = prescribe(finding(cause), values or {}, facts_of(state or {}), KNOWLEDGE, distro)
    assert found is not None
    return found


def shells(found: Prescription) -> list[str]:
    return [step.shell for step in found.steps if step.shell]


def commands(found: Prescription) -> str:
    return "\n".join(shells(found))
