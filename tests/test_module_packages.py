"""Whether a package with a ready-made module is for the running kernel, by its name alone."""

from __future__ import annotations

import pytest

from cudadoctor.inventory.module_packages import fits, for_kernel


@pytest.mark.parametrize(
    ("name", "release", "expected"),
    [
        ("linux66-nvidia", "6.12.58-1-MANJARO", False),
        ("linux612-nvidia", "6.12.58-1-MANJARO", True),
        ("linux612-nvidia", "6.12.57-rt13-1-MANJARO", None),
        ("nvidia-open-driver-G06-signed-kmp-default", "6.4.0-150600.8.52-azure", False),
        ("nvidia-open-driver-G06-signed-kmp-default", "6.4.0-150600.23.73-default", True),
        ("nvidia-open", "6.12.58-1-lts", False),
        ("nvidia-lts-open", "6.12.58-1-lts", True),
        ("nvidia-open", "6.17.8-zen1-1-zen", False),
        ("nvidia-open", "6.17.8-arch1-1", True),
        ("nvidia-open", "6.8.0-45-generic", None),  # a package of NVIDIA's for Debian and Ubuntu
        ("kmod-nvidia-6.15.10-200.fc42.x86_64", "6.16.8-200.fc42.x86_64", False),
        ("nvidia-utils", "6.12.58-1-MANJARO", None),
    ],
)
def test_which_kernel_a_module_package_is_for(name: str, release: str, expected: bool | None) -> None:
    assert fits(name, release) is expected


def test_the_package_of_the_running_kernel_keeps_its_driver() -> None:
    assert for_kernel("linux66-nvidia-570xx", "6.12.58-1-MANJARO") == "linux612-nvidia-570xx"
    assert for_kernel("nvidia-gfxG05-kmp-default", "6.4.0-150600.8.52-azure") == "nvidia-gfxG05-kmp-azure"
    assert for_kernel("linux-modules-nvidia-580-6.8.0-45-generic", "6.8.0-48-generic") is None
