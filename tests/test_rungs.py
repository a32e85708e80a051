"""The ladder: what needs what, what is seen to work or to fail, and what a working rung clears."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from cudadoctor.inventory.rungs import LADDER_ORDER, NEEDS, ORDER, below, observe
from cudadoctor.model.facts import Facts
from cudadoctor.model.values import (
    DEVICE_NODES,
    HANGS,
    LADDER,
    LOADED_DRIVER,
    NVML,
    PCI,
    PYTHON,
    TEGRA,
    TOOLKITS,
    WSL,
    Component,
    Ladder,
    PythonEnvironment,
    PythonPackage,
    RungResult,
    Toolkits,
)
from cudadoctor.model.version import PackageVersion
from tests.facts_builder import ADDRESS, bus, fact, facts_of, gpu, hangs, host, ladder, nodes, nvml, nvml_gpu

OTHER = "0000:02:00.0"


def seen(facts: Facts, **more: Any) -> dict[str, str]:
    return dict(observe(facts, **more).seen)


# ---------------------------------------------------------------- needs
def test_each_rung_needs_the_one_before_it() -> None:
    for before, rung in itertools.pairwise(LADDER_ORDER):
        assert before in NEEDS[rung]
    assert set(NEEDS) == set(ORDER)


@pytest.mark.parametrize(
    ("rung", "needed"),
    [
        ("pci", set()),
        ("toolkit", set()),
        ("nvml", {"pci", "driver", "nodes"}),
        ("numba-kernel", {*LADDER_ORDER[:-1], "toolkit"}),
        ("program", {*LADDER_ORDER[:8]}),
        ("framework", {*LADDER_ORDER[:8]}),
        ("speed", {*LADDER_ORDER[:8]}),
    ],
)
def test_all_that_a_rung_needs(rung: Any, needed: set[str]) -> None:
    assert below(rung) == needed


# ---------------------------------------------------------------- what is seen
def test_a_healthy_machine_works_on_every_rung() -> None:
    rungs = observe(host())
    assert all(rungs.worked(rung) for rung in (*LADDER_ORDER, "nvml"))
    assert rungs.first_failed() is None


def test_nothing_known_is_nothing_seen() -> None:
    assert seen(Facts(())) == {}


@pytest.mark.parametrize("fails", ["libcuda", "init", "devices", "context", "memory", "ptx-kernel", "numba-kernel"])
def test_the_rung_that_breaks_is_the_first_that_failed(fails: str) -> None:
    rungs = observe(host({LADDER: ladder(fails)}))
    assert rungs.first_failed() == fails
    later = LADDER_ORDER[LADDER_ORDER.index(fails) + 1 :]  # type: ignore[arg-type]
    assert not any(rungs.worked(rung) or rungs.failed(rung) for rung in later)


def test_a_checked_kernel_clears_every_rung_below() -> None:
    """Missing nodes, no driver file, no GPU on the bus: whatever was not seen cannot block a kernel that ran."""
    facts = host({PCI: bus(), DEVICE_NODES: nodes(), LOADED_DRIVER: None, NVML: nvml(9)})
    assert all(observe(facts).worked(rung) for rung in LADDER_ORDER)


def test_nvml_that_answers_clears_what_it_needs() -> None:
    facts = host({PCI: bus(), DEVICE_NODES: nodes(), LOADED_DRIVER: None, LADDER: ladder("libcuda")})
    assert all(observe(facts).worked(rung) for rung in ("pci", "driver", "nodes", "nvml"))


def test_a_module_that_outlived_its_gpu_does_not_clear_the_bus() -> None:
    facts = host({PCI: bus(), LADDER: ladder("init", code=100), NVML: nvml(9)})
    assert (seen(facts)["pci"], seen(facts)["driver"]) == ("failed", "worked")


def test_a_kernel_clears_the_toolkit_too() -> None:
    packages = (PythonPackage(name="numba", version=PackageVersion("0.61")),)
    parts = Toolkits(components=tuple(Component(name=name) for name in ("nvvm", "cudart", "libdevice")))
    python = PythonEnvironment(path="/usr/bin/python3", version="3.12.3", packages=packages)
    assert seen(host({PYTHON: python, TOOLKITS: parts}))["toolkit"] == "worked"
    assert seen(host({PYTHON: python, TOOLKITS: parts, LADDER: ladder("numba-kernel")}))["toolkit"] == "failed"


def test_a_library_that_loads_proves_nothing_below_it() -> None:
    facts = host({PCI: bus(), DEVICE_NODES: nodes(), LOADED_DRIVER: None, LADDER: ladder("init", code=100), NVML: nvml(9)})
    assert (seen(facts)["pci"], seen(facts)["nodes"], seen(facts)["libcuda"]) == ("failed", "failed", "worked")


@pytest.mark.parametrize("driver", [None, "nouveau", "vfio-pci"])
def test_a_module_that_drives_no_gpu_is_no_working_driver(driver: str | None) -> None:
    assert seen(host({PCI: bus(gpu(driver=driver)), LADDER: ladder("init"), NVML: nvml(9)}))["driver"] == "failed"


def test_a_driver_that_holds_one_gpu_of_two_works() -> None:
    both = bus(gpu(), gpu(driver="vfio-pci", address=OTHER))
    assert seen(host({PCI: both, LADDER: ladder("init"), NVML: nvml(9)}))["driver"] == "worked"


def test_a_listing_that_is_not_whole_shows_no_absence() -> None:
    cut = facts_of({PCI: fact(PCI, bus(), whole=False), DEVICE_NODES: fact(DEVICE_NODES, nodes(), whole=False)})
    assert seen(cut) == {}


@pytest.mark.parametrize("place", [WSL, TEGRA])
def test_no_bus_and_no_nodes_are_asked_of_wsl_and_jetson(place: Any) -> None:
    facts = host({place: True, PCI: bus(), DEVICE_NODES: nodes(), LOADED_DRIVER: None, LADDER: ladder("init"), NVML: nvml(9)})
    assert not {"pci", "driver", "nodes"} & set(seen(facts))


def test_nvml_that_hangs_has_failed_and_nvml_that_is_unknown_has_not() -> None:
    state = {HANGS: hangs("nvml"), LADDER: ladder("init")}
    assert seen(host(state, unknown=(NVML,)))["nvml"] == "failed"
    assert "nvml" not in seen(host({LADDER: ladder("init")}, unknown=(NVML,)))


def test_nvml_without_a_gpu_that_opens_has_not_worked() -> None:
    lost = nvml(gpus=(nvml_gpu(handle_error="GPU is lost"),))
    assert "nvml" not in seen(host({NVML: lost, LADDER: ladder("init")}))


def test_what_a_failing_rung_says_is_broken_is_broken() -> None:
    facts = host({LADDER: ladder("numba-kernel")})
    assert seen(facts, shown_failing=("toolkit",))["toolkit"] == "failed"


def test_what_is_listed_stays_there_whatever_a_rung_says() -> None:
    facts = host({LADDER: ladder("init", code=100), NVML: nvml(9)})
    found = seen(facts, shown_failing=("pci", "init", "devices"))
    assert (found["pci"], found["init"], found["devices"]) == ("worked", "failed", "failed")
    assert seen(host({LADDER: ladder("init")}, unknown=(PCI, LOADED_DRIVER, NVML)), shown_failing=("pci",))["pci"] == "failed"


# ---------------------------------------------------------------- several GPUs
def two_gpus(*, first_fails: str) -> Ladder:
    """GPU 0 stops at a rung, GPU 1 goes all the way."""
    whole = ladder(devices=(ADDRESS, OTHER))
    stop = LADDER_ORDER.index(first_fails)  # type: ignore[arg-type]
    rungs: list[RungResult] = []
    for entry in whole.rungs:
        place = LADDER_ORDER.index(entry.rung)
        if entry.gpu == 0 and place == stop:
            rungs.append(RungResult(rung=entry.rung, gpu=0, status="fail", code=2, name="CUDA_ERROR_OUT_OF_MEMORY", output="code 2"))
        elif entry.gpu != 0 or place < stop:
            rungs.append(entry)
    return Ladder(**{field: getattr(whole, field) for field in whole.__struct_fields__ if field != "rungs"}, rungs=tuple(rungs))


@pytest.mark.parametrize("fails", ["context", "memory", "ptx-kernel"])
def test_a_kernel_on_one_gpu_does_not_clear_what_failed_on_another(fails: str) -> None:
    rungs = observe(host({PCI: bus(gpu(), gpu(address=OTHER)), LADDER: two_gpus(first_fails=fails)}))
    assert rungs.failed(fails)  # type: ignore[arg-type]
    assert rungs.first_failed() == fails
    assert all(rungs.worked(rung) for rung in ("pci", "driver", "nodes", "libcuda", "init", "devices"))
