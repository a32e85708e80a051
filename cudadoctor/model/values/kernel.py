"""Fact values: the PCI bus, Windows' list of display adapters, kernel modules, packages and the kernel log."""

from __future__ import annotations

from typing import Literal

import msgspec

from cudadoctor.model.facts import Key
from cudadoctor.model.pattern import lazy
from cudadoctor.model.values.base import Shown, Value
from cudadoctor.model.version import ModuleVersion


class PciFunction(Shown, frozen=True, kw_only=True):
    """One function on the PCI bus. Ids are four lower-case hex digits without 0x, `class_code` too ("0302" is a 3D controller)."""

    address: str  # normalised: 0000:01:00.0
    vendor: str | None = None
    device: str | None = None
    class_code: str | None = None
    name: str | None = None
    driver: str | None = None  # the kernel driver bound to it; None where none is, or where this source does not say
    driver_known: bool = False  # whether `driver` None means "no driver"
    revision: str | None = None

    @property
    def is_nvidia_gpu(self) -> bool:
        if self.vendor is not None and self.class_code is not None:
            return self.vendor == "10de" and self.class_code.startswith("03")
        return False

    @property
    def is_adapter(self) -> bool:
        """A display adapter (class 03) or an accelerator without a screen (class 12), whoever made it."""
        return (self.class_code or "").startswith(("03", "12"))


class PciBus(Value, frozen=True, kw_only=True):
    functions: tuple[PciFunction, ...]

    @property
    def nvidia_gpus(self) -> tuple[PciFunction, ...]:
        return tuple(function for function in self.functions if function.is_nvidia_gpu)


class KernelModule(Shown, frozen=True, kw_only=True):
    name: str
    used_by: tuple[str, ...] = ()


class KernelModules(Value, frozen=True, kw_only=True):
    modules: tuple[KernelModule, ...]

    def find(self, name: str) -> KernelModule | None:
        wanted = name.replace("-", "_")
        return next((module for module in self.modules if module.name.replace("-", "_") == wanted), None)


class LoadedDriver(Value, frozen=True, kw_only=True):
    """The NVIDIA kernel module in memory (/proc/driver/nvidia/version)."""

    version: ModuleVersion
    flavour: Literal["open", "proprietary"] | None = None


class ModuleFile(Value, frozen=True, kw_only=True):
    """An nvidia.ko on disk. `kernel` is the release it belongs to."""

    path: str
    kernel: str | None = None
    version: ModuleVersion | None = None
    flavour: Literal["open", "proprietary"] | None = None


class DkmsEntry(Shown, frozen=True, kw_only=True):
    module: str
    version: str
    kernel: str | None
    state: str  # added | built | installed | ...


_RELEASE = lazy(r"(?:^|:)(\d{3}\.\d{1,3}(?:\.\d{1,2})?)")


class Package(Shown, frozen=True, kw_only=True):
    name: str
    version: str
    state: str = "ii"
    repository: str | None = None  # that it came from, as dnf writes it

    @property
    def release(self) -> str | None:
        """The driver's own version in that of one of its packages, without epoch and revision: 580.95.05 of 3:580.95.05-1.fc42."""
        found = _RELEASE.search(self.version)
        return found[1] if found is not None else None


class HeldPackage(Shown, frozen=True, kw_only=True):
    """A package that is to stay at its version. A name that a file keeps may hold wildcards."""

    name: str
    by: str  # apt | pin (of apt, below 0) | dnf | exclude (of dnf's configuration) | zypper | pacman
    path: str | None = None  # of the file that says so


class KernelEvent(Value, frozen=True, kw_only=True):
    """One line of the kernel log that speaks of the GPU. `seconds` since boot where the line has it."""

    text: str
    line: int
    seconds: float | None = None
    xid: int | None = None
    address: str | None = None


class KernelLog(Value, frozen=True, kw_only=True):
    """`present_from`: the line with which the running driver's time begins (last boot, last load of the module); what is before is past.

    `cleared`: GPUs that were reset or declared well again, each with the line that says so.
    """

    events: tuple[KernelEvent, ...]
    present_from: int = 0
    cleared: dict[str, int] = msgspec.field(default_factory=dict)

    def past(self, line: int, address: str | None) -> bool:
        """Whether a line speaks of a time before the present."""
        return line < self.present_from or (address is not None and line < self.cleared.get(address, 0))


class DisplayAdapter(Value, frozen=True, kw_only=True):
    """One device of class display, or of NVIDIA's and without a driver. A field that is None was not stated by that source."""

    name: str | None = None
    instance: str  # PNPDeviceID, in capitals: PCI\VEN_10DE&DEV_1299&...
    vendor: str | None = None
    device: str | None = None
    address: str | None = None
    driver: ModuleVersion | None = None  # NVIDIA's number: 546.01, of DriverVersion 31.0.15.4601
    driver_text: str | None = None  # DriverVersion as Windows prints it
    service: str | None = None  # the kernel service that holds the device: nvlddmkm, BasicDisplay; "" where none does
    problem: int | None = None  # ConfigManagerErrorCode: 0 works, 28 has no driver, 43 was stopped by its driver ...
    lines: tuple[int, ...] = ()  # where it is told

    @property
    def is_nvidia(self) -> bool:
        return self.vendor == "10de"


PCI = Key[PciBus]("pci")
PCI_NAMES = Key[dict[str, str]]("pci-names")  # device id -> what this machine's pci.ids calls the product
MODULES = Key[KernelModules]("kernel-modules")
LOADED_DRIVER = Key[LoadedDriver]("loaded-driver")
MODULE_FILES = Key[tuple[ModuleFile, ...]]("module-files")
MODULE_FOR_RUNNING = Key[bool]("module-for-running-kernel")  # whether modinfo found NVIDIA's module; of other kernels it says nothing
DKMS = Key[tuple[DkmsEntry, ...]]("dkms")
SECURE_BOOT = Key[bool]("secure-boot")
DRIVER_PACKAGES = Key[tuple[Package, ...]]("driver-packages")  # installed ones of the distribution whose names speak of NVIDIA or CUDA
HELD_PACKAGES = Key[tuple[HeldPackage, ...]]("held-packages")
KERNEL_LOG = Key[KernelLog]("kernel-log")
DISPLAY_ADAPTERS = Key[tuple[DisplayAdapter, ...]]("display-adapters")
