"""Rules of the rows gpu, driver, device-nodes, container and health: each cause fires, does not fire, and is undecided."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from cudadoctor.checks import container, device_nodes, driver, driver_fit, gpu, health, node_access
from cudadoctor.checks.reading import plain_address, same_address
from cudadoctor.checks.traces import is_driver_module, is_driver_package
from cudadoctor.model.facts import Facts, Key, NotKnown
from cudadoctor.model.findings import Clue
from cudadoctor.model.values import (
    CAP_DAC_OVERRIDE,
    CAP_MKNOD,
    CAPABILITIES,
    CONTAINER_MARKS,
    DEVICE_NODES,
    DEVICE_NODES_AFTER,
    DKMS,
    DRIVER_FILES,
    DRIVER_PACKAGES,
    ENVIRONMENT,
    HANGS,
    HYPERVISOR,
    KERNEL,
    KERNEL_LOG,
    LADDER,
    LIBRARIES,
    LOADED_DRIVER,
    MAJORS,
    MODULE_FILES,
    MODULES,
    NVIDIA_MODPROBE,
    NVML,
    PCI,
    SECURE_BOOT,
    SMI,
    TEGRA,
    USER,
    WSL,
    DeviceNodes,
    Environment,
    Kernel,
    LoadedDriver,
    ModuleFile,
    Package,
    PciFunction,
)
from cudadoctor.model.version import ModuleVersion
from tests import facts_builder as make
from tests.cases import every, todays
from tests.facts_builder import ADDRESS, ALL_NODES, BLACKWELL, PASCAL, RELEASE, State, fact, host, text
from tests.judging import KNOWLEDGE

CHECKS = (gpu.CHECK, driver.CHECK, device_nodes.CHECK, container.CHECK, health.CHECK)
OTHER = "0000:02:00.0"
MARKS = ("/.dockerenv",)


OPEN = "nvidiactl, nvidia0: read and write for everyone"


def judged(facts: Facts) -> tuple[dict[str, Clue], set[str]]:
    return make.judged(CHECKS, facts)


def causes(facts: Facts) -> set[str]:
    return set(judged(facts)[0])


def version(number: str) -> LoadedDriver:
    return LoadedDriver(version=ModuleVersion(number))


XID_79 = f"NVRM: Xid (PCI:{ADDRESS}): 79, pid=1, GPU has fallen off the bus."
NO_GPU: State = {**make.no_driver(), PCI: make.bus()}
LOST: State = {
    KERNEL_LOG: make.log(XID_79, xid=79, address=ADDRESS),
    NVML: make.nvml(gpus=(make.nvml_gpu(address=None, handle_error="GPU is lost"),)),
    LADDER: make.ladder("init", code=999),
}
IN_CONTAINER: State = {**make.no_driver(), PCI: make.bus(make.gpu()), MODULES: make.modules("nvidia"), CONTAINER_MARKS: MARKS}
HALF_CONTAINER: State = {
    CONTAINER_MARKS: MARKS,
    DRIVER_FILES: make.libraries("libnvidia-ml.so.1"),
    LIBRARIES: make.libraries("libnvidia-ml.so.1"),
    LADDER: make.ladder("libcuda"),
    ENVIRONMENT: Environment(variables={"NVIDIA_DRIVER_CAPABILITIES": "utility,graphics"}, lines={"NVIDIA_DRIVER_CAPABILITIES": 1}),
}
IN_WSL: State = {
    **make.no_driver(),
    PCI: make.bus(),
    WSL: True,
    DEVICE_NODES: make.nodes("dxg"),
    DRIVER_FILES: make.libraries(),
    LADDER: make.ladder(path="/usr/lib/wsl/lib/libcuda.so.1"),
    NVML: make.nvml(),
    SMI: make.smi(),
}
MISMATCH: State = {
    LOADED_DRIVER: version("580.82.07"),
    NVML: make.nvml(18, message="Driver/library version mismatch"),
    SMI: make.smi("Failed to initialize NVML: Driver/library version mismatch", library="580.159"),
    LADDER: make.ladder("init", code=803),
}
NO_UVM: State = {
    DEVICE_NODES: make.nodes("nvidiactl", "nvidia0"),
    DEVICE_NODES_AFTER: make.nodes("nvidiactl", "nvidia0"),
    NVIDIA_MODPROBE: None,
    MODULES: make.modules("nvidia"),
    LADDER: make.ladder("init", code=999),
}
NO_NODES: State = {
    DEVICE_NODES: make.nodes(),
    DEVICE_NODES_AFTER: make.nodes(),
    NVIDIA_MODPROBE: None,
    NVML: make.nvml(9),
    LADDER: make.ladder("init", code=100),
}
CLOSED: State = {
    DEVICE_NODES: make.nodes(*ALL_NODES, mode="crw-rw----", group="video"),
    LADDER: make.ladder("init", code=100, openings={"/dev/nvidiactl": "EACCES"}),
    NVML: make.nvml(4),
}
BOUNDED_ROOT: State = {
    USER: make.user("root", 0, ("root",)),
    CAPABILITIES: (CAP_MKNOD,),
    DEVICE_NODES: make.nodes(*ALL_NODES, mode="crw-rw----", owner="nvidia", group="video"),
}
ROOT: State = {USER: make.user("root", 0, ("root",)), CAPABILITIES: (CAP_DAC_OVERRIDE, CAP_MKNOD)}
UNSIGNED: State = {
    **make.not_loaded(),
    SECURE_BOOT: True,
    KERNEL_LOG: make.log("[    5.1] Lockdown: modprobe: unsigned module loading is restricted; see man kernel_lockdown.7"),
}


def unfit(device: str, number: str) -> State:
    """A driver that passes the GPU by: it is loaded, and counts none."""
    return {
        PCI: make.bus(make.gpu(driver=None, device=device)),
        LOADED_DRIVER: version(number),
        NVML: make.nvml(gpus=(), library=number),
        SMI: make.smi("No devices were found", library=None),
        LADDER: make.ladder("init", code=100, library=number),
    }


OLD_GPU: State = unfit(PASCAL, "595.45.04")
NEW_GPU: State = unfit(BLACKWELL, "535.183.01")
INIT_FAILED: State = {
    KERNEL_LOG: make.log(f"NVRM: GPU {ADDRESS}: RmInitAdapter failed! (0x22:0x56:884)", address=ADDRESS),
    NVML: make.nvml(gpus=()),
    SMI: make.smi("No devices were found"),
    LADDER: make.ladder("init", code=100),
}

HYPER_V: State = {
    **make.no_driver(), PCI: make.bus(), DEVICE_NODES: make.nodes("dxg"), NVML: make.nvml(17, gpus=()), LADDER: make.ladder("libcuda"),
}  # fmt: skip

# Each cause, the machine that shows it, what else is found there on its own facts, and the facts that decide it.
FIRES: list[tuple[str, State, set[str], tuple[Key[Any], ...]]] = [
    ("no-nvidia-gpu", NO_GPU, set(), (PCI, NVML, LADDER, WSL, TEGRA, DEVICE_NODES)),
    ("gpu-fell-off-bus", LOST, set(), ()),
    ("gpu-fell-off-bus", {**LOST, NVML: make.nvml(999)}, set(), (KERNEL_LOG, NVML, LADDER)),
    ("gpu-fell-off-bus", {**LOST, KERNEL_LOG: make.log()}, set(), (NVML,)),
    ("nouveau-bound", {**make.no_driver(), PCI: make.bus(make.gpu(driver="nouveau"))}, set(), (PCI,)),
    ("nouveau-bound", {**make.no_driver(), PCI: make.bus(make.gpu(driver="NovaCore"))}, set(), (PCI,)),
    ("vfio-bound", {**make.no_driver(), PCI: make.bus(make.gpu(driver="vfio-pci"))}, set(), (PCI,)),
    (
        "driver-not-installed", make.no_driver(), set(),
        (PCI, MODULES, LOADED_DRIVER, MODULE_FILES, DKMS, DRIVER_PACKAGES, SMI, LIBRARIES, DRIVER_FILES, WSL, TEGRA, LADDER, NVML),
    ),
    (
        "driver-module-missing-for-kernel",
        {**make.not_loaded(), MODULE_FILES: make.module_files("6.8.0-31-generic"), DKMS: make.dkms("6.8.0-31-generic")},
        {"driver-not-loaded"},
        (PCI, MODULES, LOADED_DRIVER, KERNEL, MODULE_FILES, WSL, TEGRA),
    ),
    ("driver-not-loaded", make.not_loaded(), set(), (PCI, MODULES, LOADED_DRIVER, WSL, TEGRA)),
    ("secure-boot-blocks-module", UNSIGNED, {"driver-not-loaded"}, (KERNEL_LOG, SECURE_BOOT, MODULES, LOADED_DRIVER, WSL, TEGRA)),
    ("driver-version-mismatch", MISMATCH, set(), (LOADED_DRIVER, WSL, TEGRA)),
    ("driver-too-new-for-gpu", OLD_GPU, set(), (PCI, LOADED_DRIVER, NVML, LADDER, WSL, TEGRA)),
    ("driver-too-old-for-gpu", NEW_GPU, set(), (PCI, LOADED_DRIVER, NVML, LADDER, WSL, TEGRA)),
    ("driver-hung", {HANGS: make.hangs("nvidia-smi"), NVML: make.nvml(999)}, set(), (HANGS,)),
    ("device-nodes-missing", NO_NODES, set(), (DEVICE_NODES, PCI, CONTAINER_MARKS, NVIDIA_MODPROBE, WSL, TEGRA)),
    ("uvm-unavailable", NO_UVM, set(), (DEVICE_NODES, NVIDIA_MODPROBE, WSL, TEGRA)),
    ("device-permission-denied", CLOSED, set(), (DEVICE_NODES, USER, LADDER, WSL, TEGRA)),
    ("device-permission-denied", {**CLOSED, **BOUNDED_ROOT}, set(), (DEVICE_NODES, USER, CAPABILITIES, LADDER, WSL, TEGRA)),
    (
        "container-lost-devices",
        {CONTAINER_MARKS: MARKS, LADDER: make.ladder("init", code=999, openings={"/dev/nvidiactl": "EPERM"}), NVML: make.nvml(999)},
        set(),
        (CONTAINER_MARKS, LADDER, WSL, TEGRA),
    ),
    ("container-no-gpu-access", IN_CONTAINER, set(), (CONTAINER_MARKS, DEVICE_NODES, LIBRARIES, DRIVER_FILES, LADDER, NVML, WSL)),
    ("container-driver-capabilities", HALF_CONTAINER, set(), (CONTAINER_MARKS, ENVIRONMENT, DEVICE_NODES, LIBRARIES, DRIVER_FILES, LADDER)),
    ("wsl-gpu-unavailable", {**IN_WSL, DEVICE_NODES: make.nodes(), LADDER: make.ladder("libcuda")}, set(), (WSL, DEVICE_NODES)),
    ("wsl-linux-driver-installed", {**IN_WSL, DRIVER_PACKAGES: make.packages("libnvidia-compute-535")}, set(), (WSL, DRIVER_PACKAGES)),
    ("wsl-linux-driver-installed", {**IN_WSL, LADDER: make.ladder("init")}, set(), (WSL, LADDER)),
    ("hyperv-gpu-incomplete", HYPER_V, set(), (WSL, DEVICE_NODES, LADDER)),
    ("gpu-init-failed", INIT_FAILED, set(), (KERNEL_LOG, NVML, LADDER)),
]  # fmt: skip


@every("cause, state, beside, deciding", FIRES)
def test_fires(cause: str, state: State, beside: set[str], deciding: tuple[Key[Any], ...]) -> None:
    found, _ = judged(host(state))
    assert set(found) == {cause} | beside
    assert found[cause].basis == "derived"


@every("cause, state, beside, deciding", FIRES)
def test_undecided_where_a_deciding_fact_is_unknown(cause: str, state: State, beside: set[str], deciding: tuple[Key[Any], ...]) -> None:
    for key in deciding:
        found, undecided = judged(host(state, unknown=(key,)))
        assert cause not in found, f"{cause} was blamed without {key.name}"
        assert cause in undecided, f"{cause} was absolved without {key.name}"


def test_a_rule_belongs_to_the_row_that_shows_its_cause() -> None:
    for check in CHECKS:
        for rule in check.rules:
            assert {KNOWLEDGE.causes[cause].row for cause in rule.causes} == {rule.row}, rule.function.__name__


def test_the_healthy_machine_has_nothing() -> None:
    assert judged(host()) == ({}, set())


@pytest.mark.parametrize("one_in", [16, pytest.param(1, marks=pytest.mark.long)])
@every("cause, state, beside, deciding", [*FIRES, ("none", {}, set(), ())])
def test_ignorance_never_accuses(cause: str, state: State, beside: set[str], deciding: tuple[Key[Any], ...], one_in: int) -> None:
    """With any one or two facts unknown, no cause is derived that was not found with all of them."""
    whole = causes(host(state))
    keys = list(make.healthy())
    for unknown in (*((key,) for key in keys), *todays(list(itertools.combinations(keys, 2)), one_in)):
        fewer = causes(host(state, unknown=unknown))
        assert fewer <= whole, f"without {[key.name for key in unknown]}: {fewer - whole}"


def no_blame(state: State, *blamed: str) -> None:
    found, undecided = judged(host(state))
    assert not found.keys() & set(blamed)
    assert not undecided & set(blamed)


# ---------------------------------------------------------------- gpu
@pytest.mark.parametrize(
    "state",
    [
        {WSL: True},
        {TEGRA: True},
        {NVML: make.nvml()},
        {LADDER: make.ladder()},
        {SMI: make.smi()},
        {DEVICE_NODES: make.nodes("dxg")},
        {PCI: make.bus(make.gpu(driver=None))},
    ],
)
def test_a_gpu_that_is_elsewhere_is_not_missing(state: State) -> None:
    no_blame({**NO_GPU, **state}, "no-nvidia-gpu")


def test_an_nvidia_smi_that_was_not_run_hides_no_gpu() -> None:
    assert "no-nvidia-gpu" in causes(host(NO_GPU, unknown=[SMI]))


@pytest.mark.parametrize("state", [{CONTAINER_MARKS: MARKS}, {DEVICE_NODES: make.nodes("nvidiactl")}, {MODULES: None}])
def test_marks_a_stray_node_and_hidden_modules_change_nothing(state: State) -> None:
    assert "no-nvidia-gpu" in causes(host({**NO_GPU, **state}))


def test_a_bus_that_was_not_listed_whole_decides_nothing() -> None:
    for listing in (fact(PCI, make.bus(), whole=False), None):
        found, undecided = judged(host({**NO_GPU, PCI: listing}))
        assert "no-nvidia-gpu" not in found
        assert "no-nvidia-gpu" in undecided


def test_a_name_without_numbers_may_be_nvidias() -> None:
    named = PciFunction(address=ADDRESS, class_code="0302", name="NVIDIA Corporation Device")
    assert "no-nvidia-gpu" in judged(host({**NO_GPU, PCI: make.bus(named)}))[1]


def test_a_gpu_that_any_listing_shows_is_there() -> None:
    no_blame({**NO_GPU, PCI: [fact(PCI, make.bus()), fact(PCI, make.bus(make.gpu(driver=None)))]}, "no-nvidia-gpu")


def test_the_audio_function_of_a_card_is_no_gpu() -> None:
    audio = PciFunction(address="0000:01:00.1", vendor="10de", device="10fa", class_code="0403", driver_known=True)
    assert "no-nvidia-gpu" in causes(host({**NO_GPU, PCI: make.bus(audio)}))


def test_a_log_line_is_not_blamed_where_the_gpu_works_now() -> None:
    """Past and present: the Xid happened before the reset that brought the GPU back."""
    no_blame({KERNEL_LOG: make.log(XID_79, xid=79, address=ADDRESS)}, "gpu-fell-off-bus")
    no_blame({KERNEL_LOG: INIT_FAILED[KERNEL_LOG]}, "gpu-init-failed")


def test_one_of_two_gpus_fell_off() -> None:
    state = {
        PCI: make.bus(make.gpu(), make.gpu(address=OTHER)),
        KERNEL_LOG: make.log(XID_79.replace(ADDRESS, OTHER), xid=79, address=OTHER),
    }
    found, _ = judged(host(state))
    assert found["gpu-fell-off-bus"].subject == f"gpu:{OTHER}"


def test_a_hung_nvml_does_not_contradict_the_log() -> None:
    state = {**LOST, HANGS: make.hangs("nvml", "ladder", step="init")}
    found, _ = judged(host(state, unknown=(NVML, LADDER)))
    assert {"gpu-fell-off-bus", "driver-hung"} <= found.keys()


def test_the_log_saw_a_gpu_that_the_bus_does_not_hold() -> None:
    seen = make.log(f"[ 1.2] nvidia {ADDRESS}: enabling device", address=ADDRESS)
    assert causes(host({**NO_GPU, KERNEL_LOG: seen})) == {"no-nvidia-gpu", "gpu-fell-off-bus"}  # the first yields to the second
    audio = make.log("[ 1.2] nvidia-gpu 0000:00:02.0: i2c timeout", address="0000:00:02.0")
    no_blame({**NO_GPU, KERNEL_LOG: audio}, "gpu-fell-off-bus")


def test_revision_ff() -> None:
    gone = make.bus(make.gpu(revision="ff"))
    assert "gpu-fell-off-bus" in causes(host({**LOST, KERNEL_LOG: make.log(), NVML: make.nvml(999), PCI: gone}))
    no_blame({PCI: gone}, "gpu-fell-off-bus")
    assert judged(text({PCI: gone}))[0]["gpu-fell-off-bus"].basis == "derived"
    switched = judged(text({PCI: gone, MODULES: make.modules("bbswitch")}))[0]
    assert switched["gpu-fell-off-bus"].basis == "suspected"


def test_a_text_is_left_to_the_signs() -> None:
    """What a pasted log says of the past is a stated sign; rules judge the machine at hand."""
    said = make.log(XID_79, INIT_FAILED[KERNEL_LOG].events[0].text, xid=79, address=ADDRESS)
    assert not causes(text({KERNEL_LOG: said}))
    broken = {**LOST, NVML: make.nvml(999), KERNEL_LOG: fact(KERNEL_LOG, said, origin="text")}
    no_blame(broken, "gpu-fell-off-bus", "gpu-init-failed")


# ---------------------------------------------------------------- driver
def test_nouveau_on_the_second_gpu_only() -> None:
    found, _ = judged(host({PCI: make.bus(make.gpu(), make.gpu(driver="nouveau", address=OTHER))}))
    assert set(found) == {"nouveau-bound"}
    assert found["nouveau-bound"].subject == f"gpu:{OTHER}"


def test_nouveau_took_over_where_the_module_was_built_for_another_kernel() -> None:
    """Where nobody looked for the module of this kernel it may be there, and what is shown is that nouveau holds the GPU."""
    built = (Package(name="kmod-nvidia-6.1.0-1.fc42.x86_64", version="580.95.05", line=1),)
    state = {**make.no_driver(), PCI: make.bus(make.gpu(driver="nouveau")), DRIVER_PACKAGES: built}
    assert causes(host(state)) == {"driver-module-missing-for-kernel"}
    assert causes(host(state, unknown=(MODULE_FILES,))) == {"nouveau-bound"}


def test_nouveau_loaded_in_a_text() -> None:
    assert causes(text({MODULES: make.modules("nouveau")})) == {"nouveau-bound"}
    assert not causes(text({MODULES: make.modules("nouveau", "nvidia")}))
    assert causes(host({MODULES: make.modules("nouveau"), LOADED_DRIVER: None})) == set()  # sysfs says that nvidia holds the GPU


@pytest.mark.parametrize(
    "trace",
    [
        {SMI: make.smi("failed")},
        {LIBRARIES: make.libraries("libcuda.so.1")},
        {DRIVER_FILES: make.libraries("libnvidia-ml.so.1")},
        {DRIVER_PACKAGES: make.packages("nvidia-dkms-580")},
        {DKMS: make.dkms("6.8.0-31-generic")},
        {DKMS: make.dkms(None, state="added")},
        {MODULE_FILES: make.module_files("6.8.0-31-generic")},
        {LADDER: make.ladder("init")},
    ],
)
def test_any_trace_of_a_driver_means_that_the_module_is_missing(trace: State) -> None:
    found = causes(host({**make.no_driver(), **trace}))
    assert found == {"driver-module-missing-for-kernel"}


@pytest.mark.parametrize(
    "state",
    [
        {DRIVER_PACKAGES: make.packages("nvidia-cuda-toolkit", "nvidia-container-toolkit", "libnvidia-container1", "nvidia-settings")},
        {LIBRARIES: make.libraries("libcuda.so", folder="/usr/local/cuda/lib64/stubs")},
        {DRIVER_FILES: make.libraries("libcuda.so.1", folder="/usr/local/cuda-13.0/compat")},
        {LADDER: make.ladder("init", path="/usr/local/cuda/lib64/stubs/libcuda.so")},
    ],
)
def test_a_toolkit_is_no_trace_of_a_driver(state: State) -> None:
    assert causes(host({**make.no_driver(), **state})) == {"driver-not-installed"}


def test_a_trace_that_is_seen_outweighs_places_that_are_unknown() -> None:
    state = {**make.not_loaded(), MODULE_FILES: make.module_files(), DKMS: make.dkms("6.8.0-31-generic")}
    assert "driver-module-missing-for-kernel" in causes(host(state, unknown=(SMI, LIBRARIES, DRIVER_FILES, DRIVER_PACKAGES, LADDER, NVML)))


@pytest.mark.parametrize("key", [MODULES, MODULE_FILES, DRIVER_PACKAGES, LIBRARIES, DRIVER_FILES])
def test_a_list_that_is_not_whole_shows_no_absence(key: Key[Any]) -> None:
    state = make.no_driver()
    found, undecided = judged(host({**state, key: fact(key, state[key], whole=False)}))
    assert not found
    assert "driver-not-installed" in undecided


def test_what_holds_the_gpu_comes_first() -> None:
    for name in ("nouveau", "vfio-pci"):
        state = {**make.not_loaded(), PCI: make.bus(make.gpu(driver=name)), MODULES: make.modules(name.replace("-", "_"))}
        found = causes(host(state))
        assert found == {f"{name.split('-')[0]}-bound", "driver-not-loaded"}  # the latter is what is left, and yields


def test_a_driver_that_drives_is_not_missing() -> None:
    """The module was loaded from elsewhere: no file for this kernel, no package, and the GPU works."""
    state = {MODULE_FILES: make.module_files(), DKMS: None, DRIVER_PACKAGES: make.packages()}
    assert judged(host(state)) == ({}, set())


def test_the_same_from_a_text() -> None:
    bus = make.bus(make.gpu(driver=None, driver_known=False))
    assert judged(text({PCI: bus, SMI: None}))[0]["driver-not-installed"].basis == "suspected"
    both = {PCI: bus, SMI: None, DRIVER_PACKAGES: make.packages()}
    assert judged(text(both))[0]["driver-not-installed"].basis == "derived"
    assert not causes(text({**both, DKMS: make.dkms("6.8.0-31-generic")}))
    kernel = {DKMS: make.dkms("6.8.0-31-generic"), KERNEL: Kernel(system="Linux", release=RELEASE)}
    assert causes(text(kernel)) == {"driver-module-missing-for-kernel"}
    assert not causes(text({**kernel, DKMS: make.dkms("6.8.0-31-generic", RELEASE)}))
    assert not causes(text({**kernel, SMI: make.smi()}))
    no_contact = {PCI: bus, SMI: make.smi("couldn't communicate with the NVIDIA driver", library=None)}
    assert judged(text(no_contact))[0]["driver-not-loaded"].basis == "suspected"


def test_secure_boot_needs_the_log_and_a_module_that_is_out() -> None:
    named = make.log("nvidia: Loading of unsigned module is rejected")
    assert "secure-boot-blocks-module" in causes(host({**UNSIGNED, KERNEL_LOG: named, SECURE_BOOT: False}))
    no_blame({**UNSIGNED, SECURE_BOOT: False}, "secure-boot-blocks-module")
    no_blame({**UNSIGNED, KERNEL_LOG: make.log("[ 3.1] vboxdrv: loading of unsigned module is rejected")}, "secure-boot-blocks-module")
    no_blame({KERNEL_LOG: UNSIGNED[KERNEL_LOG], SECURE_BOOT: True}, "secure-boot-blocks-module")
    taint = make.log("[ 4.5] nvidia: module verification failed: signature and/or required key missing - tainting kernel")
    assert "secure-boot-blocks-module" in causes(host({**UNSIGNED, KERNEL_LOG: taint}))
    no_blame({**UNSIGNED, KERNEL_LOG: taint, SECURE_BOOT: False}, "secure-boot-blocks-module")
    no_blame({KERNEL_LOG: taint, SECURE_BOOT: True}, "secure-boot-blocks-module")


@pytest.mark.parametrize(
    "state",
    [
        {NVML: make.nvml(4), SMI: None, LADDER: make.ladder("init", code=100)},  # fails, but of one version
        {LOADED_DRIVER: version("580.82.07")},  # a library that started was accepted by this module
        {**MISMATCH, WSL: True},
        {**MISMATCH, LOADED_DRIVER: None},
        {**MISMATCH, NVML: make.nvml(18, library=None), SMI: make.smi("no", library="580.82"), LADDER: make.ladder("libcuda")},
    ],
)
def test_no_version_mismatch(state: State) -> None:
    no_blame(state, "driver-version-mismatch")


def test_a_compat_library_differs_on_purpose() -> None:
    compat = make.ladder("init", code=804, path="/usr/local/cuda-13.0/compat/libcuda.so.580.95.05", library="580.95.05")
    no_blame({LOADED_DRIVER: version("535.183.01"), LADDER: compat, NVML: make.nvml(), SMI: make.smi()}, "driver-version-mismatch")


def test_each_library_is_enough_for_a_mismatch() -> None:
    for keep in (NVML, SMI, LADDER):
        others = tuple(key for key in (NVML, SMI, LADDER) if key is not keep)
        assert "driver-version-mismatch" in causes(host(MISMATCH, unknown=others))
    by_name = make.ladder("init", code=803, library=None)
    found, _ = judged(host({LOADED_DRIVER: version("580.82.07"), LADDER: by_name, NVML: make.nvml(12, library=None), SMI: None}))
    assert found["driver-version-mismatch"].values["library"] == make.VERSION


def test_a_release_that_nobody_told_is_that_of_nvml_where_the_module_took_it() -> None:
    """Without /proc nobody knows which libcuda was loaded; a mismatch in the kernel log is then some other program's."""

    def fits(path: str | None, code: int, nvml: Any) -> bool | None:
        climb = msgspec.structs.replace(make.ladder("init", code=code, library=None), library_path=path)
        return driver_fit.libcuda_fits(host({LOADED_DRIVER: version(make.VERSION), LADDER: climb, NVML: nvml}))

    assert [fits(None, 304, nvml) for nvml in (make.nvml(), make.nvml(18), None)] == [True, None, None]
    assert fits(None, 803, make.nvml()) is None  # cuInit itself says that they differ
    assert fits("/usr/lib/libcuda.so.535.183.01", 304, make.nvml()) is False


def test_branch_and_gpu() -> None:
    no_blame({PCI: make.bus(make.gpu(device=PASCAL))}, "driver-too-new-for-gpu")  # 580 is Pascal's last branch
    no_blame({**OLD_GPU, NVML: make.nvml()}, "driver-too-new-for-gpu")  # it works, whatever the table says
    no_blame({**NEW_GPU, LADDER: make.ladder()}, "driver-too-old-for-gpu")
    no_blame({PCI: make.bus(make.gpu(device="ffff")), NVML: make.nvml(999)}, "driver-too-new-for-gpu", "driver-too-old-for-gpu")
    found, _ = judged(host(OLD_GPU))
    assert found["driver-too-new-for-gpu"].subject == f"gpu:{ADDRESS}"


def test_a_chip_that_came_later_needs_a_later_driver_than_its_architecture() -> None:
    no_blame(unfit("20b0", "450.248.02"), "driver-too-old-for-gpu")  # A100
    found, _ = judged(host(unfit("2206", "450.248.02")))  # RTX 3080
    assert "driver-too-old-for-gpu" in found


def test_an_installed_driver_counts_like_a_loaded_one() -> None:
    state = {**make.not_loaded(), PCI: make.bus(make.gpu(driver=None, device=PASCAL))}
    assert "driver-too-new-for-gpu" not in causes(host(state))
    for change in (
        {MODULE_FILES: make.module_files(RELEASE, version="595.45.04")},
        {DKMS: make.dkms(RELEASE, version="595.45.04")},
        {DKMS: None, DRIVER_PACKAGES: make.packages("nvidia-driver-595", version="595.45.04-0ubuntu1")},
        {DKMS: None, DRIVER_PACKAGES: make.packages("kmod-nvidia", version="3:595.45.04-1.el9")},
    ):
        assert "driver-too-new-for-gpu" in causes(host({**state, **change}))


def test_a_hang_elsewhere_is_not_the_drivers() -> None:
    for step, blamed in (("init", True), ("context", True), ("numba-kernel", False), (None, False)):
        assert ("driver-hung" in causes(host({HANGS: make.hangs("ladder", step=step)}))) is blamed


@pytest.mark.parametrize("place", [{WSL: True}, {TEGRA: True}])
def test_kernel_rules_do_not_apply_elsewhere(place: State) -> None:
    for state in (make.no_driver(), make.not_loaded(), NO_NODES, NO_UVM, MISMATCH, OLD_GPU):
        found = causes(host({**state, **place}))
        # The packages of this machine are those of a desktop: on a Jetson that is the fault.
        assert not {name for name in found if not name.startswith("wsl-") and name != "driver-wrong-platform"}


@pytest.mark.parametrize(
    ("name", "brings"),
    [
        ("nvidia-driver-580-open", True), ("linux-modules-nvidia-580-generic", True), ("libcuda1", True),
        ("libnvidia-ml1", True), ("akmod-nvidia", True), ("xorg-x11-drv-nvidia-cuda", True),
        ("nvidia-open-dkms", True), ("nvidia-580xx-dkms", True), ("nvidia", True),
        ("nvidia-driver-G06-kmp-default", True), ("cuda-drivers-580", True), ("nvidia-utils", True),
        ("nvidia-driver-local-repo-ubuntu2404-580.65.06", False), ("nvidia-driver-assistant", False), ("libnvidia-ml-dev", False),
        ("nvidia-cuda-toolkit", False), ("nvidia-container-toolkit", False), ("libnvidia-egl-wayland1", False),
        ("nvidia-gpu-firmware", False), ("cuda-compat-13-0", False), ("nvidia-prime", False),
        ("nvidia-modprobe", False), ("cuda-toolkit-12-8", False),
    ],
)  # fmt: skip
def test_packages_of_the_driver(name: str, brings: bool) -> None:
    assert is_driver_package(Package(name=name, version="580.65.06-1")) is brings
    assert not is_driver_package(Package(name=name, version="580.65.06-1", state="rc"))


@pytest.mark.parametrize(
    ("name", "core"),
    [
        ("nvidia.ko", True), ("nvidia.ko.zst", True), ("nvidia-current.ko", True), ("nvidia-tesla-470.ko", True), ("nvidia_470.ko", True),
        ("nvidiafb.ko", False), ("nvidia-wmi-ec-backlight.ko.zst", False), ("nvidia_cspmu.ko", False), ("nouveau.ko", False),
    ],
)  # fmt: skip
def test_module_files_of_the_driver(name: str, core: bool) -> None:
    assert is_driver_module(ModuleFile(path=f"/lib/modules/{RELEASE}/{name}")) is core


# ---------------------------------------------------------------- device nodes
def test_only_uvm_missing_is_its_own_cause() -> None:
    no_blame(NO_UVM, "device-nodes-missing")
    no_blame(NO_NODES, "uvm-unavailable")
    assert "device-nodes-missing" in causes(host({**NO_NODES, DEVICE_NODES: make.nodes("nvidia0", "nvidia-uvm")}))
    assert "device-nodes-missing" in causes(host({**NO_NODES, DEVICE_NODES: make.nodes("nvidiactl", "nvidia-uvm")}))


def test_nodes_made_by_nvidia_modprobe_are_no_fault() -> None:
    helper = {NVIDIA_MODPROBE: "/usr/bin/nvidia-modprobe"}
    made = {DEVICE_NODES_AFTER: make.nodes(*ALL_NODES)}
    for state, cause in ((NO_NODES, "device-nodes-missing"), (NO_UVM, "uvm-unavailable")):
        no_blame({**state, **helper, **made}, cause)
        assert cause in causes(host({**state, **helper}))  # it is there and did not help
        assert cause in causes(host({**state, **made}))  # only root's rights made them
        assert cause in judged(host({**state, **helper}, unknown=(DEVICE_NODES_AFTER,)))[1]


def test_nodes_that_ls_says_are_not_there() -> None:
    said = fact(DEVICE_NODES, make.nodes("nvidiactl", "nvidia0", absent=("/dev/nvidia-uvm",)), whole=False)
    assert causes(text({DEVICE_NODES: said, SMI: make.smi()})) == set()  # live fact beside a text: the rest is unknown
    shown = fact(DEVICE_NODES, make.nodes("nvidiactl", "nvidia0", absent=("/dev/nvidia-uvm",)), whole=False, origin="text")
    assert causes(text({DEVICE_NODES: shown, SMI: make.smi()})) == {"uvm-unavailable"}
    partial = fact(DEVICE_NODES, make.nodes("nvidiactl", "nvidia0"), whole=False, origin="text")
    assert not causes(text({DEVICE_NODES: partial, SMI: make.smi()}))


def test_a_driver_that_holds_no_gpu_makes_no_node_for_it() -> None:
    for listing in (make.nodes("nvidiactl"), make.nodes()):
        passed_by = {**OLD_GPU, DEVICE_NODES: listing, DEVICE_NODES_AFTER: listing, NVIDIA_MODPROBE: None}
        assert causes(host(passed_by)) == {"driver-too-new-for-gpu"}
    assert "device-nodes-missing" in causes(host({**NO_NODES, PCI: None}))
    held = {**NO_NODES, DEVICE_NODES: make.nodes("nvidiactl", "nvidia-uvm")}
    assert "device-nodes-missing" in causes(host(held))
    assert "device-nodes-missing" in judged(host(held, unknown=(PCI,)))[1]


def test_no_driver_no_missing_nodes() -> None:
    no_blame(make.no_driver(), "device-nodes-missing", "uvm-unavailable")
    no_blame(make.not_loaded(), "device-nodes-missing", "uvm-unavailable")
    stray = {**make.no_driver(), DEVICE_NODES: make.nodes("nvidiactl", "nvidia0")}
    no_blame(stray, "uvm-unavailable")


def test_nodes_and_containers() -> None:
    """Libraries passed in: the nodes are missing. Neither libraries nor nodes: the container got no GPU."""
    with_libraries = {**NO_NODES, CONTAINER_MARKS: MARKS}
    assert causes(host(with_libraries)) == {"device-nodes-missing"}
    assert causes(host({**with_libraries, CONTAINER_MARKS: ("container=lxc",)})) == {"container-no-gpu-access"}, "it has its own libraries"
    assert causes(host(IN_CONTAINER)) == {"container-no-gpu-access"}
    assert "container-no-gpu-access" in causes(host({**IN_CONTAINER, DEVICE_NODES: make.nodes("nvidiactl", "nvidia0")}))
    no_blame({**IN_CONTAINER, DEVICE_NODES: make.nodes(*ALL_NODES)}, "container-no-gpu-access", "device-nodes-missing")


def test_a_slow_machine_without_gpu_and_driver_hangs_in_none() -> None:
    """A node with more work than processors gave no answer of NVML in time: there is no driver that could hang."""
    late = {HANGS: make.hangs("nvml", "ladder", step="init")}
    no_blame({**NO_GPU, **late}, "driver-hung")
    assert "driver-hung" in causes(host({**NO_GPU, **late, MODULES: make.modules("nvidia")}))


def test_nvidia_smi_that_is_slow_is_no_driver_that_hangs() -> None:
    """NVML and cuInit answered: without persistence mode nvidia-smi starts every GPU anew."""
    no_blame({HANGS: make.hangs("nvidia-smi")}, "driver-hung")
    for changes in ({NVML: make.nvml(999)}, {LADDER: make.ladder("init", code=999)}):
        assert "driver-hung" in causes(host({HANGS: make.hangs("nvidia-smi"), **changes}))
    for key in (NVML, LADDER):  # who answered is not known
        assert "driver-hung" in judged(host({HANGS: make.hangs("nvidia-smi")}, unknown=(key,)))[1]


def test_a_node_with_the_number_of_another_driver_leads_nowhere() -> None:
    def listing(control: int, uvm: int) -> DeviceNodes:
        numbers = {"/dev/nvidiactl": control, "/dev/nvidia0": control, "/dev/nvidia-uvm": uvm}
        return DeviceNodes(nodes=tuple(msgspec.structs.replace(make.node(path), major=number) for path, number in numbers.items()))

    majors = fact(MAJORS, {"nvidia": 195, "nvidia-uvm": 510}, "195 nvidia", "510 nvidia-uvm")
    failing = {LADDER: make.ladder("init", code=100), MAJORS: majors}
    assert causes(host({**failing, DEVICE_NODES: listing(195, 509)})) == {"uvm-unavailable"}
    assert causes(host({**failing, DEVICE_NODES: listing(234, 510)})) == {"device-nodes-missing"}
    no_blame({**failing, DEVICE_NODES: listing(195, 510)}, "uvm-unavailable", "device-nodes-missing")
    no_blame({MAJORS: majors, DEVICE_NODES: listing(195, 509)}, "uvm-unavailable")  # cuInit passed: somebody put it right
    unknown = host({LADDER: make.ladder("init", code=999), DEVICE_NODES: listing(195, 509)}, unknown=(MAJORS,))
    assert "uvm-unavailable" in judged(unknown)[1]
    assert "device-nodes-missing" in causes(host({**failing, DEVICE_NODES: listing(234, 510)}, unknown=(MAJORS,)))  # that number is fixed


def test_uvm_that_is_there_and_does_not_serve() -> None:
    stale = {LADDER: make.ladder("init", code=999, openings={"/dev/nvidiactl": None, "/dev/nvidia-uvm": "ENODEV"}), NVML: make.nvml()}
    assert causes(host(stale)) == {"uvm-unavailable"}
    unloaded = {LADDER: make.ladder("init", code=999), MODULES: make.modules("nvidia")}
    assert causes(host(unloaded)) == {"uvm-unavailable"}
    no_blame({LADDER: make.ladder("init", code=999)}, "uvm-unavailable")
    no_blame({LADDER: make.ladder(openings={"/dev/nvidia-uvm": "ENODEV"})}, "uvm-unavailable")
    both = {LADDER: make.ladder("init", code=999, openings={"/dev/nvidiactl": "ENODEV", "/dev/nvidia-uvm": "ENODEV"})}
    no_blame(both, "uvm-unavailable")


def test_a_gpu_that_is_closed_to_this_user_is_a_note_where_another_serves() -> None:
    """Two people who wrote such machines meant opposite things by it: a job's share, and a mistake."""
    closed = make.node("/dev/nvidia1", "crw-------")
    state: State = {DEVICE_NODES: DeviceNodes(nodes=(*make.nodes(*ALL_NODES).nodes, closed)), USER: make.user()}
    said = node_access.note(host(state))
    assert said is not None
    assert said.startswith("This user (ada) may not open /dev/nvidia1 (crw------- root root): programs see 1 GPU of 2.")
    assert "device-permission-denied" not in causes(host(state))
    listed = msgspec.structs.replace(closed, mode="crw-------+")  # an access list, which ls does not print
    others = (
        {DEVICE_NODES: make.nodes(*ALL_NODES, "nvidia1")},
        {DEVICE_NODES: DeviceNodes(nodes=(*make.nodes(*ALL_NODES).nodes, listed))},
        {USER: make.user("root", 0)},
        {LADDER: make.ladder("init", code=100)},
    )
    for other in others:
        assert node_access.note(host({**state, **other})) is None


@pytest.mark.parametrize(
    "state",
    [
        ROOT,
        {USER: make.user(groups=("ada", "video"))},
        {LADDER: make.ladder()},  # it starts, whatever the mode says
        {DEVICE_NODES: make.nodes(*ALL_NODES)},  # EACCES though the mode allows: a security policy
        {LADDER: make.ladder("init", code=100, openings={f"/dev/{name}": None for name in ALL_NODES})},
        {WSL: True},
    ],
)
def test_permission_is_not_the_cause(state: State) -> None:
    no_blame({**CLOSED, **state}, "device-permission-denied")


def test_root_is_not_asked_for_a_mode_by_its_capability() -> None:
    others = make.DeviceNodes(nodes=tuple(make.node(f"/dev/{name}", "crw-rw----", "nvidia", "nvidia") for name in ALL_NODES))
    no_blame({**CLOSED, DEVICE_NODES: others, **ROOT}, "device-permission-denied")
    assert causes(host({**CLOSED, DEVICE_NODES: others, **ROOT, CAPABILITIES: (CAP_MKNOD,)})) == {"device-permission-denied"}
    no_blame({**CLOSED, DEVICE_NODES: others, USER: make.user("nvidia")}, "device-permission-denied")
    assert "device-permission-denied" in causes(host({**CLOSED, DEVICE_NODES: others}))


def test_the_mode_is_enough_where_no_opening_was_tried() -> None:
    assert "device-permission-denied" in causes(host({**CLOSED, LADDER: make.ladder("init", code=100)}))


def test_an_access_list_is_not_printed_by_ls() -> None:
    listed = {**CLOSED, DEVICE_NODES: make.nodes(*ALL_NODES, mode="crw-rw----+", group="video")}
    assert "device-permission-denied" in causes(host(listed))  # EACCES was seen
    untried = {**listed, LADDER: make.ladder("init", code=100)}
    assert "device-permission-denied" in judged(host(untried))[1]


def test_an_access_list_may_shut_out_a_user_whom_the_mode_lets_in() -> None:
    listed = {**CLOSED, DEVICE_NODES: make.nodes(*ALL_NODES, mode="crw-rw-rw-+")}
    assert causes(host(listed)) == {"device-permission-denied"}
    assert "device-permission-denied" not in causes(host({**listed, LADDER: make.ladder("init", code=100)}))  # it let this user in


def test_where_nobody_may_say_whether_there_is_an_access_list_no_policy_is_blamed() -> None:
    hidden = {**CLOSED, DEVICE_NODES: make.nodes(*ALL_NODES, mode="crw-rw-rw-?")}
    assert causes(host(hidden)) == set()
    assert "security-policy-denies-devices" in judged(host(hidden))[1]
    assert causes(host({**hidden, DEVICE_NODES: make.nodes(*ALL_NODES)})) == {"security-policy-denies-devices"}


def test_caps_nodes_are_not_needed() -> None:
    closed = make.nodes(*ALL_NODES)
    extra = make.DeviceNodes(nodes=(*closed.nodes, make.node("/dev/nvidia-caps/nvidia-cap1", "cr--------")))
    no_blame({**CLOSED, DEVICE_NODES: extra}, "device-permission-denied")


def test_the_errno_tells_lost_devices_from_permission() -> None:
    lost = make.ladder("init", code=999, openings={"/dev/nvidiactl": "EPERM"})
    denied = make.ladder("init", code=100, openings={"/dev/nvidiactl": "EACCES"})
    no_blame({CONTAINER_MARKS: MARKS, LADDER: lost}, "device-permission-denied")
    no_blame({CONTAINER_MARKS: MARKS, LADDER: denied}, "container-lost-devices")
    no_blame({LADDER: lost}, "container-lost-devices")


# ---------------------------------------------------------------- container, WSL
@pytest.mark.parametrize(
    "state",
    [
        {CONTAINER_MARKS: None},
        {LIBRARIES: make.libraries("libcuda.so.1")},
        {LADDER: make.ladder("init")},  # found through LD_LIBRARY_PATH, in no cache and no usual folder
        {PCI: make.bus(), MODULES: make.modules("ext4")},  # nothing on the host either
        {PCI: make.bus(make.gpu(driver=None)), MODULES: make.modules("ext4")},  # a machine built from an image, without a driver
    ],
)
def test_container_marks_alone_prove_nothing(state: State) -> None:
    no_blame({**IN_CONTAINER, **state}, "container-no-gpu-access")


def test_a_sandbox_that_hides_modules() -> None:
    state = {**IN_CONTAINER, PCI: make.bus(make.gpu(driver=None)), MODULES: None, LOADED_DRIVER: None}
    assert "container-no-gpu-access" in causes(host(state))


@pytest.mark.parametrize("value", ["compute,utility", "all", "", None, "utility, compute"])
def test_capabilities_with_compute(value: str | None) -> None:
    variables = {"NVIDIA_DRIVER_CAPABILITIES": value} if value is not None else {}
    no_blame({**HALF_CONTAINER, ENVIRONMENT: Environment(variables=variables, lines={})}, "container-driver-capabilities")


@pytest.mark.parametrize("state", [{LADDER: make.ladder()}, {CONTAINER_MARKS: None}, {DEVICE_NODES: make.nodes()}])
def test_capabilities_are_not_the_cause(state: State) -> None:
    no_blame({**HALF_CONTAINER, **state}, "container-driver-capabilities")


def test_wsl() -> None:
    assert judged(host(IN_WSL)) == ({}, set())
    no_blame({DEVICE_NODES: make.nodes()}, "wsl-gpu-unavailable")
    missing = {**IN_WSL, DEVICE_NODES: make.nodes(), LADDER: make.ladder("init", path="/usr/lib/wsl/lib/libcuda.so.1")}
    inside, _ = judged(host({**missing, CONTAINER_MARKS: MARKS}))
    assert {clue.basis for clue in inside.values()} == {"suspected"}
    assert set(inside) == {"wsl-gpu-unavailable", "container-no-gpu-access"}


@pytest.mark.parametrize(
    "path", ["/usr/lib/wsl/lib/libcuda.so.1", "/usr/local/cuda/compat/libcuda.so.1", "/usr/local/cuda/lib64/stubs/libcuda.so", None]
)
def test_libcuda_in_wsl_that_is_no_linux_driver(path: str | None) -> None:
    no_blame({**IN_WSL, LADDER: make.ladder(path=path)}, "wsl-linux-driver-installed")


# ---------------------------------------------------------------- health
@pytest.mark.parametrize("reason", ["GPU does not have the necessary power cables", "GSP firmware failed to load", "BAR1 is 0M @ 0x0"])
def test_a_reason_in_the_log_outranks_the_failed_start(reason: str) -> None:
    lines = make.log(f"NVRM: {reason}", f"NVRM: GPU {ADDRESS}: RmInitAdapter failed! (0x24:0x72:1568)", address=ADDRESS)
    assert judged(host({**INIT_FAILED, KERNEL_LOG: lines}))[0]["gpu-init-failed"].basis == "suspected"


# ---------------------------------------------------------------- lines
def line(check: Any, state: State | None = None, unknown: Iterable[Key[Any]] = ()) -> Any:
    return check.describe(host(state, unknown), KNOWLEDGE)


@pytest.mark.parametrize(
    ("check", "state", "words"),
    [
        (gpu, {}, "1 NVIDIA GPU: 10de:2335 (Hopper, 9.0) at 0000:01:00.0"),
        (gpu, {PCI: make.bus(make.gpu(), make.gpu(address=OTHER))}, f"2 NVIDIA GPUs: 10de:2335 (Hopper, 9.0) at {ADDRESS} and {OTHER}"),
        (gpu, {PCI: make.bus(make.gpu(device="ffff"))}, "1 NVIDIA GPU: 10de:ffff at 0000:01:00.0"),
        (gpu, {PCI: make.bus()}, "no NVIDIA GPU among 2 PCI functions, but ASPEED 1a03:2000 (ast)"),
        (driver, {}, "nvidia 580.159.04 (open) drives 0000:01:00.0"),
        (driver, {PCI: make.bus(make.gpu(driver="nouveau")), LOADED_DRIVER: None}, "nouveau drives 0000:01:00.0"),
        (driver, make.no_driver(), "no kernel driver holds 0000:01:00.0"),
        (driver, {PCI: make.bus(make.gpu(driver=None))}, "no kernel driver holds 0000:01:00.0; nvidia 580.159.04 (open) is loaded"),
        (device_nodes, {}, "nvidiactl, nvidia0, nvidia-uvm: read and write for everyone"),
        (device_nodes, CLOSED, "nvidiactl, nvidia0, nvidia-uvm: read and write for group video"),
        (device_nodes, NO_UVM, "nvidiactl, nvidia0: read and write for everyone; /dev/nvidia-uvm missing"),
        (
            device_nodes, {**NO_UVM, DEVICE_NODES_AFTER: make.nodes(*ALL_NODES)},
            f"{OPEN}; /dev/nvidia-uvm missing before the driver was asked, made by root's rights since",
        ),
        (device_nodes, NO_NODES, "no /dev/nvidia* node"),
        (device_nodes, IN_WSL, "/dev/dxg: read and write for everyone"),
        (container, {}, "no container"),
        (container, {HYPERVISOR: "KVM"}, "no container, a virtual machine (KVM)"),
        (container, {CONTAINER_MARKS: MARKS}, "a container or a machine built from an image (/.dockerenv)"),
        (container, {WSL: True, KERNEL: Kernel(system="Linux", release="5.15.167.4-microsoft-standard-WSL2")}, "WSL 2"),
        (container, {WSL: True, KERNEL: Kernel(system="Linux", release="4.4.0-19041-Microsoft")}, "WSL 1"),
        (
            health, {NVML: make.nvml(gpus=(make.nvml_gpu(ecc_uncorrected_volatile=0, throttle_reasons=("gpu-idle",)),))},
            "28 C, no throttling, ECC 0",
        ),
        (
            health, {NVML: make.nvml(gpus=(make.nvml_gpu(), make.nvml_gpu(1, OTHER, throttle_reasons=("hw-thermal-slowdown",))))},
            "GPU 0: 28 C, no throttling; GPU 1: 28 C, clocks held down: hw-thermal-slowdown",
        ),
    ],
)  # fmt: skip
def test_line(check: Any, state: State, words: str) -> None:
    found = line(check.CHECK, state)
    assert found.summary == words
    assert found.skip is None
    assert "OK" not in found.summary


def test_rows_that_do_not_apply() -> None:
    for check in (gpu.CHECK, driver.CHECK):
        assert line(check, IN_WSL).skip == "WSL"
        assert line(check, {TEGRA: True}).skip == "Jetson"
    assert line(device_nodes.CHECK, {TEGRA: True}).skip == "Jetson"
    assert line(driver.CHECK, {PCI: make.bus()}).skip == "no NVIDIA GPU"


@pytest.mark.parametrize(
    ("check", "key"), [(gpu, PCI), (driver, PCI), (device_nodes, DEVICE_NODES), (container, CONTAINER_MARKS), (health, NVML)]
)
def test_a_line_about_an_unknown_fact_is_unknown(check: Any, key: Key[Any]) -> None:
    with pytest.raises(NotKnown):
        line(check.CHECK, unknown=(key,))


def test_health_without_nvml_is_unknown() -> None:
    for state in ({NVML: make.nvml(9)}, {NVML: make.nvml(gpus=())}):
        with pytest.raises(NotKnown):
            line(health.CHECK, state)


# ---------------------------------------------------------------- addresses
@pytest.mark.parametrize("spelling", ["0000:01:00.0", "00000000:01:00.0", "01:00.0", "0000:01:00", "PCI:0000:01:00"])
def test_addresses(spelling: str) -> None:
    assert plain_address(spelling) == ADDRESS
    assert same_address(spelling, ADDRESS)
    assert not same_address(spelling, "0000:02:00.0")
    assert not same_address(spelling, None)
