"""Facts built by hand, for tests of rules: a healthy machine, and the same with some facts changed or unknown.

host()                                         a machine whose one GPU works
host({PCI: bus(gpu(driver="nouveau"))})        the same, but for the bus
host({SMI: None}, unknown=(KERNEL_LOG,))       nvidia-smi is known to be absent, the kernel log is unknown
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from cudadoctor.checks.base import Check
from cudadoctor.model.evidence import Origin
from cudadoctor.model.facts import Fact, Facts, Key, NotKnown, Quote, Unknown
from cudadoctor.model.findings import Clue
from cudadoctor.model.values import (
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
    CudaDevice,
    DeviceNode,
    DeviceNodes,
    DkmsEntry,
    Environment,
    Hang,
    Hangs,
    Kernel,
    KernelEvent,
    KernelLog,
    KernelModule,
    KernelModules,
    Ladder,
    Libraries,
    LibraryFile,
    LoadedDriver,
    ModuleFile,
    Nvml,
    NvmlGpu,
    Opening,
    Package,
    PciBus,
    PciFunction,
    RungResult,
    Smi,
    SmiGpu,
    User,
)
from cudadoctor.model.version import CudaVersion, LibraryVersion, ModuleVersion
from tests.judging import KNOWLEDGE

VERSION = "580.159.04"
RELEASE = "6.8.0-45-generic"
ADDRESS = "0000:01:00.0"
HOPPER, PASCAL, BLACKWELL = "2335", "1b80", "2b85"
State = Mapping[Key[Any], Any]


def fact(key: Key[Any], value: Any, *lines: str, origin: Origin = "live", whole: bool = True) -> Fact[Any]:
    """A fact with one quote a line; a known absence says so in words."""
    texts = lines or (f"{key.name}: {value}"[:200],)
    numbered = range(1, len(texts) + 1) if value is not None else [None] * len(texts)
    quotes = tuple(Quote(source=key.name, first=number, last=number, text=text) for number, text in zip(numbered, texts, strict=True))
    return Fact(key=key.name, value=value, quotes=quotes, origin=origin, whole=whole)


def facts_of(state: State, unknown: Iterable[Key[Any]] = (), origin: Origin = "live") -> Facts:
    """Facts from values; a value may also be a ready `Fact`, or a list of facts that several sources state."""
    missing = {key.name for key in unknown}
    known: list[Fact[Any]] = []
    for key, value in state.items():
        if key.name in missing:
            continue
        for one in value if isinstance(value, list) else [value]:
            known.append(one if isinstance(one, Fact) else fact(key, one, origin=origin))
    return Facts(known, [Unknown(key=name, why="not recorded") for name in missing])


def host(changes: State | None = None, unknown: Iterable[Key[Any]] = ()) -> Facts:
    """The healthy machine with these changes, and these facts unknown."""
    return facts_of({**healthy(), **(changes or {})}, unknown)


def judged(checks: Iterable[Check], facts: Facts) -> tuple[dict[str, Clue], set[str]]:
    """The first clue of each cause that the rules of these checks find, and the causes of rules that could not run to their end."""
    found: dict[str, Clue] = {}
    undecided: set[str] = set()
    for rule in (rule for check in checks for rule in check.rules):
        try:
            for clue in rule.function(facts, KNOWLEDGE):
                assert clue.cause in rule.causes
                assert clue.quotes, f"{clue.cause} has no quoted line"
                assert all(quote.text and quote.source for quote in clue.quotes)
                assert all(isinstance(value, str) and value for value in clue.values.values() if value is not None)
                found.setdefault(clue.cause, clue)
        except NotKnown:
            undecided.update(rule.causes)
    return found, undecided - found.keys()


def text(state: State) -> Facts:
    """What a pasted text says; all else is unknown."""
    return facts_of(state, origin="text")


# ---------------------------------------------------------------- values
def gpu(driver: str | None = "nvidia", device: str = HOPPER, address: str = ADDRESS, **more: Any) -> PciFunction:
    return PciFunction(address=address, vendor="10de", device=device, class_code="0302", driver=driver, **{"driver_known": True, **more})


def bus(*functions: PciFunction) -> PciBus:
    """A bus with a bridge, a display controller of another vendor, and these functions."""
    others = (
        PciFunction(address="0000:00:00.0", vendor="8086", device="0d57", class_code="0600", driver_known=True),
        PciFunction(address="0000:00:02.0", vendor="1a03", device="2000", class_code="0300", driver="ast", driver_known=True),
    )
    return PciBus(functions=(*others, *functions))


def modules(*names: str) -> KernelModules:
    return KernelModules(modules=tuple(KernelModule(name=name) for name in names))


def module_files(*releases: str, version: str | None = None) -> tuple[ModuleFile, ...]:
    number = ModuleVersion(version) if version is not None else None
    return tuple(
        ModuleFile(path=f"/lib/modules/{release}/updates/dkms/nvidia.ko.zst", kernel=release, version=number) for release in releases
    )


def dkms(*kernels: str | None, version: str = VERSION, state: str = "installed") -> tuple[DkmsEntry, ...]:
    return tuple(DkmsEntry(module="nvidia", version=version, kernel=kernel, state=state) for kernel in kernels)


def packages(*names: str, version: str = f"{VERSION}-0ubuntu1") -> tuple[Package, ...]:
    return tuple(Package(name=name, version=version) for name in names)


def log(*lines: str, xid: int | None = None, address: str | None = None) -> KernelLog:
    """A kernel log whose lines all carry this Xid and address."""
    return KernelLog(events=tuple(KernelEvent(text=line, line=number, xid=xid, address=address) for number, line in enumerate(lines, 1)))


def node(path: str, mode: str = "crw-rw-rw-", owner: str = "root", group: str = "root") -> DeviceNode:
    return DeviceNode(path=path, mode=mode, owner=owner, group=group)


def nodes(*names: str, mode: str = "crw-rw-rw-", owner: str = "root", group: str = "root", absent: tuple[str, ...] = ()) -> DeviceNodes:
    return DeviceNodes(nodes=tuple(node(f"/dev/{name}", mode, owner, group) for name in names), absent=absent)


ALL_NODES = ("nvidiactl", "nvidia0", "nvidia-uvm", "nvidia-uvm-tools")


def libraries(*names: str, folder: str = "/usr/lib/x86_64-linux-gnu", version: str = VERSION) -> Libraries:
    return Libraries(
        files=tuple(LibraryFile(name=name, path=f"{folder}/{name}", target=name.replace(".so.1", f".so.{version}")) for name in names)
    )


DRIVER_LIBRARIES = ("libcuda.so.1", "libnvidia-ml.so.1")
RUNGS = ("libcuda", "init", "devices", "context", "memory", "ptx-kernel", "numba-kernel")


def ladder(
    fails: str | None = None,
    *,
    code: int | None = None,
    openings: Mapping[str, str | None] | None = None,
    path: str | None = "/usr/lib/x86_64-linux-gnu/libcuda.so.1",
    library: str | None = VERSION,
    devices: tuple[str, ...] = (ADDRESS,),
) -> Ladder:
    """A climb on every device, stopped at the rung that fails."""
    rungs: list[RungResult] = []
    for rung in RUNGS:
        status: Any = "fail" if rung == fails else "pass"
        single = rung in ("libcuda", "init", "devices")
        for index in [None] if single else range(len(devices)):
            rungs.append(RungResult(rung=rung, gpu=index, status=status, code=code if status == "fail" else None))  # type: ignore[arg-type]
        if rung == fails:
            break
    counted = fails is None or RUNGS.index(fails) > RUNGS.index("devices")
    return Ladder(
        python="/usr/bin/python3",
        library_path=path if fails != "libcuda" else None,
        library=LibraryVersion(library) if library is not None and fails != "libcuda" else None,
        cuda=CudaVersion("13.0"),
        rungs=tuple(rungs),
        devices=tuple(CudaDevice(index=index, address=address) for index, address in enumerate(devices)) if counted else (),
        openings=tuple(Opening(path=path, errno_name=name) for path, name in (openings or {}).items()),
    )


def nvml(code: int = 0, *, library: str | None = VERSION, gpus: tuple[NvmlGpu, ...] | None = None, message: str | None = None) -> Nvml:
    found = (nvml_gpu(),) if gpus is None else gpus
    number = LibraryVersion(library) if library is not None else None
    return Nvml(code=code, message=message, library=number, gpus=found if code == 0 else ())


def nvml_gpu(index: int = 0, address: str | None = ADDRESS, **more: Any) -> NvmlGpu:
    state: dict[str, Any] = {"temperature_c": 28.0, "memory_used_bytes": 0} if "handle_error" not in more else {}
    return NvmlGpu(index=index, address=address, **{**state, **more})


def smi(failure: str | None = None, *, library: str | None = VERSION) -> Smi:
    number = LibraryVersion(library) if library is not None else None
    return Smi(library=number, failure=failure, gpus=() if failure else (SmiGpu(index=0, address=ADDRESS),), exit=9 if failure else 0)


def user(name: str = "ada", uid: int = 1000, groups: tuple[str, ...] = ("ada",)) -> User:
    return User(name=name, uid=uid, gid=uid, groups=groups)


def hangs(*items: str, step: str | None = None) -> Hangs:
    return Hangs(entries=tuple(Hang(item=item, what=item, seconds=10.0, step=step) for item in items))


def healthy() -> dict[Key[Any], Any]:
    """Everything that the kernel side reads, on a plain Linux machine with one H200 that works."""
    return {
        PCI: bus(gpu()),
        MODULES: modules("nvidia_uvm", "nvidia"),
        LOADED_DRIVER: LoadedDriver(version=ModuleVersion(VERSION), flavour="open"),
        MODULE_FILES: module_files(RELEASE),
        DKMS: dkms(RELEASE),
        SECURE_BOOT: False,
        DRIVER_PACKAGES: packages("nvidia-driver-580", "libnvidia-compute-580"),
        KERNEL_LOG: log(f"nvidia {ADDRESS}: enabling device (0000 -> 0002)", address=ADDRESS),
        DEVICE_NODES: nodes(*ALL_NODES),
        DEVICE_NODES_AFTER: nodes(*ALL_NODES),
        MAJORS: {"nvidia": 195, "nvidia-uvm": 510},
        USER: user(),
        CAPABILITIES: (),
        KERNEL: Kernel(system="Linux", release=RELEASE),
        ENVIRONMENT: Environment(variables={}, lines={}),
        LIBRARIES: libraries(*DRIVER_LIBRARIES),
        DRIVER_FILES: libraries(*DRIVER_LIBRARIES),
        SMI: smi(),
        NVML: nvml(),
        LADDER: ladder(),
        NVIDIA_MODPROBE: "/usr/bin/nvidia-modprobe",
        CONTAINER_MARKS: None,
        WSL: False,
        TEGRA: None,
        HYPERVISOR: None,
        HANGS: hangs(),
    }


def no_driver() -> dict[Key[Any], Any]:
    """Changes that leave no trace of a driver."""
    return {
        PCI: bus(gpu(driver=None)),
        MODULES: modules("ext4"),
        LOADED_DRIVER: None,
        MODULE_FILES: module_files(),
        DKMS: None,
        DRIVER_PACKAGES: packages(),
        KERNEL_LOG: log(),
        DEVICE_NODES: nodes(),
        DEVICE_NODES_AFTER: nodes(),
        LIBRARIES: libraries(),
        DRIVER_FILES: libraries(),
        SMI: None,
        NVML: nvml(12, library=None),
        LADDER: ladder("libcuda"),
        NVIDIA_MODPROBE: None,
    }


def not_loaded() -> dict[Key[Any], Any]:
    """Changes for a driver that is installed and not loaded."""
    return {
        PCI: bus(gpu(driver=None)),
        MODULES: modules("ext4"),
        LOADED_DRIVER: None,
        KERNEL_LOG: log(),
        DEVICE_NODES: nodes(),
        DEVICE_NODES_AFTER: nodes(),
        SMI: smi("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", library=None),
        NVML: nvml(9),
        LADDER: ladder("init", code=100),
    }


def environment(**variables: str) -> Environment:
    return Environment(variables=variables, lines=dict.fromkeys(variables, 1))
