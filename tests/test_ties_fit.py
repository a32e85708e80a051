"""Driver and GPU as a text names them: which branch or flavour does not fit, and what stands beside it (texts/tie_breakers/fit.py)."""

from __future__ import annotations

import pytest

from tests.pasted import first, root

NONE_FOUND = "$ nvidia-smi\nNo devices were found\n"
NO_CONTACT = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest\n"
LOADED = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  525.105.17  Tue Mar 28 18:02:59 UTC 2023\n"
PASSED_BY = "NVRM: The NVIDIA probe routine failed for 1 device(s).\n"
OLD_CARD = "01:00.0 3D controller: NVIDIA Corporation GM107M [GeForce GTX 960M] (rev a2)\n"
PACKAGE = "ii  nvidia-dkms-535{0}   535.183.01-0ubuntu0.22.04.1   amd64  NVIDIA DKMS package\n"


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("RTX 5070 Ti, nvidia-driver-550 from apt.\n" + NONE_FOUND, "driver-too-old-for-gpu"),
        ("RTX 5090, nvidia-driver-570 from apt.\n" + NONE_FOUND, "open-module-required"),
        ("GTX 1080 Ti, I installed nvidia-driver-550-open.\n" + NONE_FOUND, "open-module-unsupported-gpu"),
        ("GTX 1080, nvidia-open-dkms 590.48.01\n" + NO_CONTACT, "driver-too-new-for-gpu"),
        ("my GTX 460 and driver 418.74 on Debian\n" + NONE_FOUND, "driver-too-new-for-gpu"),
        ("The 390.157 driver does not find my GT218.\n", "driver-too-new-for-gpu"),
        ("01:00.0 VGA compatible controller: NVIDIA Corporation GB203 [GeForce RTX 5080] (rev a1)\n" + NONE_FOUND, "open-module-required"),
        (PASSED_BY + "I moved to nvidia-driver-550-open; an RTX 2080 and a GTX 1070.\n", "open-module-unsupported-gpu"),
        (PASSED_BY + "I moved to nvidia-driver-550; an RTX 2080 and a GTX 1070.\n", "driver-too-old-for-gpu"),
        (PASSED_BY + "I moved to nvidia-driver-550-open; an RTX 2080 and an RTX 3070.\n", "driver-too-old-for-gpu"),
        ("nvidia/535.154.05: added\n", "driver-module-missing-for-kernel"),
        (LOADED + "ii  nvidia-utils-525   525.116.04-0ubuntu0.22.04.1  amd64  NVIDIA driver support binaries\n", "driver-version-mismatch"),
        (
            "pci 0000:01:00.0: BAR 1 [mem size 0x800000000 64bit pref]: can't assign; no space\n"
            "NVRM: None of the NVIDIA devices were initialized.\n",
            "pci-bar-unassigned",
        ),
    ],
)
def test_what_does_not_fit_comes_first(text: str, cause: str) -> None:
    assert first(text) == cause


@pytest.mark.parametrize(
    "text",
    [
        "I installed nvidia-driver-535 on my RTX 3090 and CUDA works.\n",
        "GTX 1080 with nvidia-driver-570, all is well.\n",
        "The GTX 460 needs driver 390.157.\n",
        "Either driver 390 or driver 535 for the GTX 460?\n",
        LOADED + "ii  nvidia-utils-525   525.105.17-0ubuntu1  amd64  NVIDIA driver support binaries\n",
        "nvidia/535.154.05, 6.8.0-45-generic, x86_64: installed\nnvidia/535.154.05: added\n",
    ],
)
def test_what_fits_or_is_only_wished_for_raises_no_suspicion(text: str) -> None:
    assert first(text) is None


def test_a_table_that_shows_the_gpu_clears_its_driver() -> None:
    table = "| NVIDIA-SMI 580.95.05    Driver Version: 580.95.05    CUDA Version: 13.0 |\n|   0  NVIDIA GeForce RTX 5090     Off | 00000000:01:00.0 Off |\n"
    assert first("RTX 5090, I had nvidia-driver-550 before.\n" + table) is None


@pytest.mark.parametrize(("packages", "cause"), [(PACKAGE.format("-open"), "open-module-unsupported-gpu"), (PACKAGE.format(""), None)])
def test_the_flavour_of_the_packages_and_a_card_on_the_bus(packages: str, cause: str | None) -> None:
    assert root(packages + OLD_CARD + NO_CONTACT) == cause
