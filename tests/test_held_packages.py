"""Packages that a package manager keeps at their version: what is read of its files, on a machine of this kind."""

from __future__ import annotations

from pathlib import Path

import pytest

from cudadoctor.model.facts import Fact
from cudadoctor.parsers.base import Text
from cudadoctor.parsers.held_packages import PARSER
from cudadoctor.sources import held_packages

FILES = {
    "etc/dnf/plugins/versionlock.list": "# Added lock\nkmod-nvidia-0:570.144-1.el9_5.elrepo.*\nfirefox-0:128.1-1.el9.*\n",
    "etc/pacman.conf": "[options]\n#IgnorePkg = nvidia-lts\nIgnorePkg = linux nvidia-open\nServer = https://mirror.example/nvidia\n",
    "etc/apt/preferences.d/no-open": "Package: nvidia-driver-580-open\nPin: release *\nPin-Priority: -1\n",
    "etc/apt/preferences.d/cuda-repository-pin-600": "Package: nvidia-settings\nPin: release l=NVIDIA CUDA\nPin-Priority: 600\n",
    "etc/apt/preferences.d/secret": "Package: payroll\nPin: version 1\nPin-Priority: -1\n",
}


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(held_packages, "_FILES", tuple(f"{tmp_path}{pattern}" for pattern in held_packages._FILES))
    return tmp_path


def test_the_lines_that_keep_a_package_are_told_and_no_others(machine: Path) -> None:
    told = held_packages.list_held_packages("").replace(str(machine), "")
    assert "kmod-nvidia" in told
    assert "firefox-0" not in told
    assert "mirror" not in told
    assert "payroll" not in told
    assert "# Added" not in told
    (fact,) = PARSER.parse(Text(told, source="held-packages"))
    assert isinstance(fact, Fact)
    kept = [(one.name, one.by, one.path) for one in fact.need()]
    assert kept == [
        ("kmod-nvidia", "dnf", "/etc/dnf/plugins/versionlock.list"),
        ("nvidia-open", "pacman", "/etc/pacman.conf"),
        ("nvidia-driver-580-open", "pin", "/etc/apt/preferences.d/no-open"),
    ]


def test_what_preferences_say_of_others_is_told_with_what_they_say_of_the_driver(machine: Path) -> None:
    both = "package:  telnetd\n systemd-sysv\npin: release *\npin-priority: -1\n"
    with (machine / "etc/apt/preferences.d/no-open").open("a") as file:
        file.write(both)
    told = held_packages.list_held_packages("")
    assert {"package:  telnetd", " systemd-sysv", "pin-priority: -1"} <= {*told.split("\n")}
    (fact,) = PARSER.parse(Text(told, source="held-packages"))
    assert isinstance(fact, Fact)
    assert "pin" not in {one.by for one in fact.need()}


def test_nothing_is_said_where_no_file_keeps_one() -> None:
    """A file that may not be read looks the same."""
    assert not list(PARSER.parse(Text("", source="held-packages")))
