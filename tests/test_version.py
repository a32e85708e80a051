"""Versions of one kind compare by their numbers; versions of different kinds do not compare at all."""

from __future__ import annotations

import pytest

from cudadoctor.model.version import CudaVersion, LibraryVersion, ModuleVersion, ToolkitVersion


def test_order_by_numbers() -> None:
    old, new = ModuleVersion("580.65.06"), ModuleVersion("580.159.04")
    assert old < new
    assert old <= new
    assert new > old
    assert new >= old
    assert ModuleVersion("470.161.03") == ModuleVersion("470.161.3")
    assert len({old, ModuleVersion("580.65.6")}) == 1


def test_different_quantities_do_not_compare() -> None:
    with pytest.raises(TypeError):
        _ = ModuleVersion("580.1") < LibraryVersion("580.2")
    assert ModuleVersion("580.1") != LibraryVersion("580.1")


def test_a_toolkit_against_a_driver() -> None:
    assert ToolkitVersion("12.4.1").newer_than_driver(CudaVersion("12.2"))
    assert not ToolkitVersion("12.2.9").newer_than_driver(CudaVersion("12.2"))
