"""Helpers of the tests about prescriptions: a finding, the prescription for it, and its commands."""

from __future__ import annotations

from typing import Any

from cudadoctor.knowledge.load import load
from cudadoctor.model.facts import Quote
from cudadoctor.model.findings import Finding
from cudadoctor.model.recipe import Prescription
from cudadoctor.model.values import (
    Kernel,
)
from cudadoctor.prescribe import prescribe
from tests.facts_builder import facts_of, user

KNOWLEDGE = load()
RELEASES = (
    "ubuntu-20.04", "ubuntu-22.04", "ubuntu-24.04", "ubuntu-25.10", "ubuntu-26.04", "debian-12", "debian-13", "fedora-42", "rhel-9.4", "rocky-10",
    "arch", "opensuse-leap-15.6", "opensuse-tumbleweed", None, "plan9-4",
)  # fmt: skip
KEPLER, PASCAL, VOLTA, AMPERE, HOPPER, BLACKWELL = "1292", "1d13", "1db5", "2204", "2335", "2d04"
STEPS = [(recipe, number, step) for recipe in KNOWLEDGE.recipes.values() for number, step in enumerate(recipe.steps, 1)]
STEP_NAMES = [f"{recipe.id}-{number}" for recipe, number, _ in STEPS]
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
