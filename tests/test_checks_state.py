"""Rules about a driver that does not fit and a device that refuses work: each cause fires, does not fire, and is undecided.

Flavours and packages (driver_fit.py), MIG, compute mode, MPS, fabric, confidential computing and vGPU (device_state.py), limits
(withheld.py), policies (node_access.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from cudadoctor.checks import device_state, driver_fit, history, node_access, withheld
from cudadoctor.checks.withheld import tight
from cudadoctor.inventory.rungs import Rungs
from cudadoctor.model.facts import Facts, Key, NotKnown, Quote, Unknown
from cudadoctor.model.findings import Clue
from cudadoctor.model.values import (
    CGROUP_LIMITS,
    DEVICE_NODES,
    DRIVER_PACKAGES,
    ENVIRONMENT,
    KILLED_FOR_MEMORY,
    KILLED_FOR_MEMORY_AFTER,
    LADDER,
    LIMITS,
    LOADED_DRIVER,
    MODULES,
    NVML,
    PCI,
    PROCESSES,
    TEGRA,
    WSL,
    Environment,
    GpuProcess,
    Ladder,
    Limit,
    LoadedDriver,
    Nvml,
    NvmlGpu,
    Package,
    PciFunction,
    Process,
    Processes,
    RungResult,
)
from cudadoctor.model.version import ModuleVersion
from tests import facts_builder as make
from tests.facts_builder import ADDRESS, BLACKWELL, PASCAL, host, text
from tests.judging import KNOWLEDGE

AMPERE = "2204"
NO_GPU = {LADDER: make.ladder("init", code=100), NVML: make.nvml(gpus=())}
Function = Callable[[Facts, Any], Iterator[Clue]]


def found(function: Function, state: dict[Any, Any], unknown: tuple[Key[Any], ...] = ()) -> list[str]:
    return [clue.cause for clue in function(host(state, unknown), KNOWLEDGE)]


def loaded(flavour: Any, version: str = "580.95.05") -> LoadedDriver:
    return LoadedDriver(version=ModuleVersion(version), flavour=flavour)


# ---------------------------------------------------------------- open and proprietary modules
@pytest.mark.parametrize(
    ("device", "driver", "causes"),
    [
        (BLACKWELL, loaded("proprietary"), ["open-module-required"]),
        (BLACKWELL, loaded("open"), []),
        (AMPERE, loaded("proprietary"), []),
        (PASCAL, loaded("open"), ["open-module-unsupported-gpu"]),
        (PASCAL, loaded("proprietary"), []),
        (PASCAL, loaded("open", "595.45.04"), []),  # that branch dropped it in either flavour
        (BLACKWELL, loaded(None), []),
    ],
)
def test_the_flavour_fits_the_generation(device: str, driver: LoadedDriver, causes: list[str]) -> None:
    state = {PCI: make.bus(make.gpu(device=device, driver=None)), LOADED_DRIVER: driver, **NO_GPU}
    assert found(driver_fit.open_required, state) + found(driver_fit.open_unsupported, state) == causes


def test_a_gpu_that_works_has_the_right_flavour() -> None:
    state = {PCI: make.bus(make.gpu(device=BLACKWELL)), LOADED_DRIVER: loaded("proprietary")}
    assert found(driver_fit.open_required, state) == []


def test_the_flavour_is_not_judged_without_the_bus() -> None:
    with pytest.raises(NotKnown):
        found(driver_fit.open_required, {LOADED_DRIVER: loaded("proprietary")}, (PCI,))


# ---------------------------------------------------------------- packages
def packages(*entries: tuple[str, str, str]) -> tuple[Package, ...]:
    return tuple(Package(state=state, name=name, version=version) for state, name, version in entries)


@pytest.mark.parametrize(
    ("entries", "causes"),
    [
        ([("iU", "libnvidia-compute-550", "550.54.15-0ubuntu1")], ["driver-packages-conflict"]),
        ([("iF", "nvidia-dkms-550", "550.54.15-0ubuntu1")], ["driver-packages-conflict"]),
        (
            [("ii", "libnvidia-compute-550", "550.54.15-0ubuntu1"), ("ii", "nvidia-utils-535", "535.161.07-0ubuntu1")],
            ["driver-packages-conflict"],
        ),
        ([("ii", "libnvidia-compute-550", "550.54.15-0ubuntu1"), ("rc", "nvidia-utils-535", "535.161.07-0ubuntu1")], []),
        ([("ii", "libnvidia-compute-550", "550.54.15-1"), ("ii", "nvidia-settings", "510.47.03-0ubuntu1")], []),
        ([("ii", "nvidia-utils-550", "550.54.15-1"), ("ii", "linux-modules-nvidia-550-6.8.0-45-generic", "6.8.0-45.45")], []),
        ([("iU", "nvidia-container-toolkit", "1.17.0-1")], []),
        ([("iF", "nvidia-cuda-toolkit", "12.0.140~12.0.1-4build4")], []),
    ],
)
def test_driver_packages_belong_together(entries: list[tuple[str, str, str]], causes: list[str]) -> None:
    assert found(driver_fit.packages_conflict, {DRIVER_PACKAGES: packages(*entries)}) == causes


def test_packages_in_wsl_are_another_fault() -> None:
    assert found(driver_fit.packages_conflict, {DRIVER_PACKAGES: packages(("iU", "nvidia-utils-550", "550.54.15")), WSL: True}) == []


def test_a_jetson_has_its_own_driver() -> None:
    desktop, own = packages(("ii", "nvidia-driver-535", "535.183.01")), packages(("ii", "nvidia-l4t-core", "36.4.3"))
    assert found(driver_fit.wrong_platform, {TEGRA: True, DRIVER_PACKAGES: desktop}) == ["driver-wrong-platform"]
    assert found(driver_fit.wrong_platform, {TEGRA: True, DRIVER_PACKAGES: own}) == []
    assert found(driver_fit.wrong_platform, {DRIVER_PACKAGES: desktop}) == []
    with pytest.raises(NotKnown):
        found(driver_fit.wrong_platform, {DRIVER_PACKAGES: desktop}, (TEGRA,))


# ---------------------------------------------------------------- compute mode, MPS
HELD = GpuProcess(gpu=ADDRESS, pid=4711, kind="C")
TABLE = Processes(processes=(Process(pid=4711, state="running"),))


def nvml_with(gpu: NvmlGpu, *processes: GpuProcess) -> Nvml:
    return Nvml(code=0, gpus=(gpu,), processes=processes)


@pytest.mark.parametrize(
    ("mode", "held", "climb", "causes"),
    [
        ("exclusive-process", True, make.ladder("context", code=46), ["compute-mode-blocks"]),
        ("exclusive-process", False, make.ladder("context", code=46), ["compute-mode-blocks"]),
        ("exclusive-process", False, make.ladder("context", code=2), []),
        ("exclusive-process", True, make.ladder(), []),  # the context was had all the same
        ("prohibited", False, make.ladder("context", code=46), ["compute-mode-blocks"]),
        ("default", True, make.ladder("context", code=46), []),
        (None, True, make.ladder("context", code=46), []),
    ],
)
def test_compute_mode(mode: str | None, held: bool, climb: Any, causes: list[str]) -> None:
    gpu = make.nvml_gpu(compute_mode=mode)
    state = {NVML: nvml_with(gpu, *((HELD,) if held else ())), LADDER: climb, PROCESSES: TABLE if held else Processes(processes=())}
    assert found(device_state.compute_mode, state) == causes


def pipes(value: str = "/tmp/nvidia-mps") -> Environment:
    return Environment(variables={"CUDA_MPS_PIPE_DIRECTORY": value}, lines={})


@pytest.mark.parametrize(("code", "causes"), [(805, ["mps-problem"]), (807, ["mps-problem"]), (999, ["mps-problem"]), (100, [])])
def test_mps(code: int, causes: list[str]) -> None:
    assert found(device_state.mps, {ENVIRONMENT: pipes(), LADDER: make.ladder("init", code=code)}) == causes


def test_mps_is_no_fault_where_cuda_starts_or_nobody_asked_for_it() -> None:
    assert found(device_state.mps, {ENVIRONMENT: pipes()}) == []
    assert found(device_state.mps, {LADDER: make.ladder("init", code=999)}) == []


# ---------------------------------------------------------------- MIG, fabric, confidential computing, vGPU
def test_mig_without_an_instance() -> None:
    assert found(device_state.mig, {NVML: nvml_with(make.nvml_gpu(mig_mode="enabled"))}) == ["mig-without-instances"]
    assert found(device_state.mig, {NVML: nvml_with(make.nvml_gpu(mig_mode="enabled", mig_uuids=("MIG-1",)))}) == []
    assert found(device_state.mig, {NVML: nvml_with(make.nvml_gpu(mig_mode="disabled"))}) == []
    with pytest.raises(NotKnown):
        found(device_state.mig, {NVML: nvml_with(make.nvml_gpu(mig_mode="enabled", errors={"mig_uuids": "No Permission"}))})
    with pytest.raises(NotKnown):
        found(device_state.mig, {NVML: make.nvml(9)})


@pytest.mark.parametrize(
    ("state", "status", "climb", "causes"),
    [
        ("in-progress", "Success", make.ladder("init", code=802), ["fabric-manager-not-running"]),
        ("completed", "Unknown Error", make.ladder("init", code=802), []),
        ("completed", "Success", make.ladder("init", code=802), []),
        ("not-supported", None, make.ladder("init", code=802), []),
        ("in-progress", "Success", make.ladder(), []),
        (None, None, make.ladder("init", code=802), []),
    ],
)
def test_fabric(state: str | None, status: str | None, climb: Any, causes: list[str]) -> None:
    gpu = make.nvml_gpu(fabric_state=state, fabric_status=status)
    assert found(device_state.fabric, {NVML: nvml_with(gpu), LADDER: climb}) == causes


@pytest.mark.parametrize(
    ("state", "status", "causes"),
    [
        ("completed", "Insufficient Resources", ["nvlink-fabric-incomplete"]),
        ("completed", "Success", []),
        ("completed", None, []),
        ("in-progress", "Unknown Error", []),
        ("not-supported", "Success", []),
    ],
)
def test_fabric_refused(state: str, status: str | None, causes: list[str]) -> None:
    """Whether cuInit works decides nothing: a GPU without the fabric works alone."""
    gpu = make.nvml_gpu(fabric_state=state, fabric_status=status)
    for climb in (make.ladder(), make.ladder("init", code=802)):
        assert found(device_state.fabric_refused, {NVML: nvml_with(gpu), LADDER: climb}) == causes


PORT = PciFunction(address="0000:05:00.0", vendor="15b3", device="1021", class_code="0207")


@pytest.mark.parametrize(
    ("name", "modules", "ports", "cause"),
    [
        ("NVIDIA B200", ("mlx5_core",), (PORT,), "nvlink-subnet-manager-missing"),
        ("NVIDIA B300 SXM6 AC", ("mlx5_core", "mlx5_ib"), (PORT,), "nvlink-subnet-manager-missing"),
        ("NVIDIA B200", ("mlx5_core", "mlx5_ib", "ib_umad"), (PORT,), "fabric-manager-not-running"),
        ("NVIDIA B200", ("mlx5_core",), (), "fabric-manager-not-running"),  # a guest: its host manages the switches
        ("NVIDIA H200", (), (PORT,), "fabric-manager-not-running"),
        ("NVIDIA GB200", (), (PORT,), "fabric-manager-not-running"),  # its switches stand in the rack
    ],
)
def test_what_the_fabric_waits_for(name: str, modules: tuple[str, ...], ports: tuple[PciFunction, ...], cause: str) -> None:
    gpu = make.nvml_gpu(name=name, fabric_state="in-progress")
    state = {NVML: nvml_with(gpu), LADDER: make.ladder("init", code=802), PCI: make.bus(make.gpu(), *ports)}
    assert found(device_state.fabric, {**state, MODULES: make.modules("nvidia", *modules)}) == [cause]
    assert found(device_state.fabric, state, (MODULES,)) == ["fabric-manager-not-running"]


@pytest.mark.parametrize(
    ("mode", "ready", "causes"),
    [("on", False, ["confidential-compute-not-ready"]), ("on", True, []), ("on", None, []), ("off", False, []), (None, None, [])],
)
def test_confidential(mode: str | None, ready: bool | None, causes: list[str]) -> None:
    value = Nvml(code=0, gpus=(make.nvml_gpu(),), confidential_compute=mode, confidential_compute_ready=ready)
    assert found(device_state.confidential, {NVML: value, LADDER: make.ladder("init", code=802)}) == causes
    assert found(device_state.confidential, {NVML: value}) == []  # cuInit works


@pytest.mark.parametrize(
    ("mode", "licence", "causes"),
    [("vgpu", "unlicensed", ["vgpu-problem"]), ("vgpu", "licensed", []), ("passthrough", "unlicensed", []), ("vgpu", None, [])],
)
def test_vgpu_licence(mode: str, licence: str | None, causes: list[str]) -> None:
    gpu = make.nvml_gpu(vgpu_mode=mode, vgpu_license=licence)
    assert found(device_state.vgpu, {NVML: nvml_with(gpu), LADDER: make.ladder("context", code=46)}) == causes


# ---------------------------------------------------------------- policies
@pytest.mark.parametrize(
    ("mode", "errno", "causes"),
    [
        ("crw-rw-rw-", "EACCES", ["security-policy-denies-devices"]),
        ("crw-rw----", "EACCES", []),
        ("crw-rw-rw-", "EPERM", []),
        ("crw-rw-rw-+", "EACCES", []),  # an access list that ls does not print
    ],
)
def test_a_policy_denies_what_the_mode_allows(mode: str, errno: str, causes: list[str]) -> None:
    climb = make.ladder("init", code=304, openings={"/dev/nvidiactl": errno})
    assert found(node_access.denied_by_policy, {DEVICE_NODES: make.nodes(*make.ALL_NODES, mode=mode), LADDER: climb}) == causes


# ---------------------------------------------------------------- limits
def ceiling(name: str, value: int) -> tuple[Limit, ...]:
    return (Limit(name=name, value=value),)


NONE = ()
STARVED = Ladder(rungs=(RungResult(rung="numba-kernel", gpu=0, status="hang"),))


@pytest.mark.parametrize(
    ("own", "group", "climb", "causes"),
    [
        (ceiling("address space", 8 << 30), NONE, make.ladder("init", code=2), ["process-limits"]),
        (ceiling("address space", 8 << 30), NONE, make.ladder("context", code=304), ["process-limits"]),
        (ceiling("address space", 8 << 30), NONE, make.ladder("init", code=100), []),
        (ceiling("address space", 8 << 30), NONE, make.ladder(), []),
        (ceiling("open files", 1024), NONE, make.ladder("init", code=2), []),
        (NONE, ceiling("memory of the control group", 512 << 20), make.ladder("init", code=999), ["process-limits"]),
        (NONE, ceiling("memory of the control group", 64 << 30), make.ladder("init", code=999), []),
        (NONE, None, make.ladder("init", code=999), []),
        (ceiling("address space", 8 << 30), ceiling("memory of the control group", 300 << 20), STARVED, []),
    ],
)
def test_limits(own: tuple[Limit, ...], group: tuple[Limit, ...] | None, climb: Any, causes: list[str]) -> None:
    assert found(withheld.limited, {LIMITS: own, CGROUP_LIMITS: group, LADDER: climb}) == causes


@pytest.mark.parametrize(("limit", "causes"), [(300 << 20, ["process-limits"]), (300 << 30, [])])
def test_a_kernel_that_does_not_end_in_a_group_with_little_memory(limit: int, causes: list[str]) -> None:
    assert found(withheld.starved, {LADDER: STARVED, CGROUP_LIMITS: ceiling("memory of the control group", limit)}) == causes
    assert found(withheld.starved, {LADDER: make.ladder(), CGROUP_LIMITS: ceiling("memory of the control group", limit)}) == []


@pytest.mark.parametrize(
    ("why", "before", "after", "causes"),
    [
        ("ended by SIGKILL", 2, 3, ["process-limits"]),
        ("ended by SIGKILL before it began", 0, 1, ["process-limits"]),
        ("ended by SIGKILL", 3, 3, []),  # somebody else's signal
        ("ended by SIGSEGV", 2, 3, []),
    ],
)
def test_killed_for_the_memory_of_its_group(why: str, before: int, after: int, causes: list[str]) -> None:
    crash = RungResult(rung="numba-kernel", gpu=0, status="crash", why=why)
    state = {
        LADDER: Ladder(rungs=(crash,)),
        KILLED_FOR_MEMORY: before,
        KILLED_FOR_MEMORY_AFTER: after,
        CGROUP_LIMITS: ceiling("memory of the control group", 200 << 20),
    }
    assert found(withheld.killed, state) == causes


@pytest.mark.parametrize(
    ("seconds", "why", "causes"),
    [
        (1, "ended by SIGKILL", ["process-limits"]),
        (20, "ended by SIGXCPU", ["process-limits"]),
        (86400, "ended by SIGKILL", []),
        (1, "ended by SIGSEGV", []),
    ],
)
def test_killed_for_its_cpu_time(seconds: int, why: str, causes: list[str]) -> None:
    crash = RungResult(rung="init", gpu=None, status="crash", why=why)
    assert found(withheld.out_of_time, {LADDER: Ladder(rungs=(crash,)), LIMITS: ceiling("CPU time", seconds)}) == causes


@pytest.mark.parametrize(
    ("why", "processes", "causes"),
    [
        ("not-run: /usr/bin/python3: Resource temporarily unavailable", 3, ["process-limits"]),
        ("the ladder gave no answer: ended with exit code 1 (RuntimeError: can't start new thread)", 3, ["process-limits"]),
        ("not-run: /usr/bin/python3: Resource temporarily unavailable", 96365, []),
        ("not-run: /usr/bin/python3: Permission denied", 3, []),
    ],
)
def test_no_process_may_be_started(why: str, processes: int, causes: list[str]) -> None:
    known = (make.fact(LIMITS, ceiling("processes", processes)), make.fact(CGROUP_LIMITS, NONE))
    facts = Facts(known, (Unknown(key=LADDER.name, why=why),))
    assert [clue.cause for clue in withheld.refused(facts, KNOWLEDGE)] == causes


def test_a_full_gpu_is_no_limit() -> None:
    gpu = make.nvml_gpu(memory_used_bytes=95 << 30, memory_total_bytes=96 << 30)
    state = {LIMITS: ceiling("address space", 8 << 30), CGROUP_LIMITS: None, LADDER: make.ladder("context", code=2), NVML: nvml_with(gpu)}
    assert found(withheld.limited, state) == []


def test_limits_that_nobody_knows_leave_it_open() -> None:
    with pytest.raises(NotKnown):
        found(withheld.limited, {LADDER: make.ladder("init", code=304)}, (LIMITS,))


def test_what_is_too_low_is_said_in_its_unit() -> None:
    low = tight(ceiling("address space", 8 << 30))
    assert low is not None
    assert (low.name, low.words) == ("address space", "8.0 GiB")
    assert tight(ceiling("processes", 127235)) is None


# ---------------------------------------------------------------- texts
def test_a_text_with_packages_of_two_branches_raises_no_more_than_suspicion() -> None:
    two = packages(("ii", "libnvidia-compute-550", "550.54.15-0ubuntu1"), ("ii", "nvidia-utils-535", "535.161.07-0ubuntu1"))
    clues = list(driver_fit.packages_conflict(text({DRIVER_PACKAGES: two}), KNOWLEDGE))
    assert [(clue.cause, clue.basis) for clue in clues] == [("driver-packages-conflict", "suspected")]


@pytest.mark.parametrize(("after", "over"), [(3, True), (4, False)])
def test_a_kill_in_another_group_is_of_the_past(after: int, over: bool) -> None:
    """The kernel log tells of every control group's kills; the count of this one says whether it was ours."""
    line = "[   76.855474] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=few,oom_memcg=/few,task=python,pid=758,uid=0"
    clue = Clue(cause="process-limits", quotes=(Quote(source="dmesg", first=469, last=469, text=line),))
    facts = make.facts_of({KILLED_FOR_MEMORY: 3, KILLED_FOR_MEMORY_AFTER: after, LADDER: make.ladder("init", code=100)})
    now, past = history.split([clue], facts, KNOWLEDGE, Rungs(seen={"init": "failed"}, quotes={}))
    assert (bool(past), bool(now)) == (over, not over)
