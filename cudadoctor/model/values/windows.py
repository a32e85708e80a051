"""Fact values: the display adapters as Windows' inventory lists them."""

from __future__ import annotations

from cudadoctor.model.facts import Key
from cudadoctor.model.values.base import Value
from cudadoctor.model.version import ModuleVersion


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


class DisplayAdapters(Value, frozen=True, kw_only=True):
    adapters: tuple[DisplayAdapter, ...]


DISPLAY_ADAPTERS = Key[DisplayAdapters]("display-adapters")
