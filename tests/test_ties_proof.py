"""What a text does not show is not taken for absent: a tie between lines needs the listing, the unit or the question that proves it."""

from __future__ import annotations

import pytest

from cudadoctor import api
from tests.command_line import ROOT
from tests.prescriptions import commands

DROP_IN = "DevicePolicy=closed\nDeviceAllow=/dev/nvidia0 rw\nDeviceAllow=/dev/nvidiactl rw\n"
EXEC = "ExecStart=/opt/whisper-api/venv/bin/uvicorn app:app --host 127.0.0.1 --port 9000\n"
OTHER = "\n# /etc/systemd/system/other.service\n[Service]\nExecStart=/usr/bin/x\nDevicePolicy=closed\nDeviceAllow=char-nvidia* rw\n"
GREP = "pacman -Q | grep -E '^(ollama|cuda|nvidia|linux |opencl)'"


def told(name: str, *changes: tuple[str, str]) -> tuple[str | None, str]:
    """The cause that a recorded text names once these words are others, and the commands against it."""
    text = (ROOT / "fixtures" / "reports" / name / "report.txt").read_text()
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    report = api.explain(text)
    root = report.diagnosis.root
    return root.cause if root is not None else None, commands(report.prescription) if report.prescription is not None else ""


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ((), True),
        (((DROP_IN, f"{DROP_IN}DevicePolicy=auto\n"),), False),  # the last one counts
        (((EXEC, ""), ("ExecStartPre=/usr/bin/nvidia-smi -L\n", "")), False),  # a part of the unit
        (((DROP_IN, f"{DROP_IN}DeviceAllow=char-nvidia* rw\n"),), False),
        (((DROP_IN, DROP_IN + OTHER),), True),  # what another unit allows
    ],
)
def test_what_a_unit_shuts_out(changes: tuple[tuple[str, str], ...], named: bool) -> None:
    assert (told("service-without-devices--memory-node-not-allowed", *changes)[0] == "service-without-devices") is named


@pytest.mark.parametrize(
    ("asks", "named"),
    [(GREP, True), ("pacman -Q", True), ("pacman -Qs ollama", True), ("pacman -Q ollama", False), ("pacman -Q | grep 'ollama '", False)],
)
def test_only_a_listing_of_all_shows_that_a_package_is_not_here(asks: str, named: bool) -> None:
    assert (told("framework-cpu-build--ollama-without-its-part-for-gpus", (GREP, asks))[0] == "framework-cpu-build") is named


def test_one_specification_alone_is_not_two() -> None:
    name, row = "cdi-specification-stale--two-of-one-kind", "-rw-r--r--. 1 root root 25644 Sep  6 11:19 nvidia.yaml\n"
    assert "mv -nT /etc/cdi/nvidia-570.yaml" in told(name)[1]
    assert "mv -nT /etc/cdi" not in told(name, (row, ""))[1]
    assert "mv -nT /etc/cdi" not in told(name, (row, f"\n/run/cdi:\n{row}"))[1]  # of another priority


def test_another_modules_signer_says_nothing_of_nvidias() -> None:
    name = "secure-boot-blocks-module--nouveau-took-the-card-meanwhile"
    assert "modinfo -F signer" not in told(name)[1]
    assert "modinfo -F signer" in told(name, ("modinfo nvidia |", "modinfo vboxdrv |"))[1]


@pytest.mark.parametrize("says", ["^C\n", "AssertionError: Torch not compiled with CUDA enabled\n"])
def test_an_index_for_processors_beside_one_for_gpus_is_not_changed(says: str) -> None:
    name, edit = "framework-cpu-build--index-of-a-uv-project", "sed -i.before 's|download.pytorch.org/whl/cpu"
    own = 'url = "https://download.pytorch.org/whl/cpu"\nexplicit = true\n'
    both = f'{own}\n[[tool.uv.index]]\nname = "gpu"\nurl = "https://download.pytorch.org/whl/cu128"\n'
    assert edit in told(name, ("^C\n", says))[1]
    cause, cure = told(name, ("^C\n", says), (own, both))
    assert edit not in cure
    assert (cause == "framework-cpu-build") is says.startswith("AssertionError")  # which index counts is not known
