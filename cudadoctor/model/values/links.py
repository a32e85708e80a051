"""Fact values: what a user's text shows of each GPU's health and links (sections of nvidia-smi -q, lspci -vv, copy benchmarks, the tests
that `dcgmi diag` ran)."""

from __future__ import annotations

import msgspec

from cudadoctor.model.facts import Key
from cudadoctor.model.values.base import Shown, Value
from cudadoctor.model.values.driver import GpuHealth


class GpuDetails(GpuHealth, frozen=True, kw_only=True):
    """One GPU as sections of `nvidia-smi -q`, its XML, `--query-gpu` or `nvlink -s` describe it; None: not shown."""

    index: int | None = None
    ecc_uncorrected: int | None = None  # since the driver was loaded
    temperature_limit_c: float | None = None  # the lowest temperature from which the clocks are held down
    temperature_margin_c: float | None = None  # what newer branches show instead: degrees that are left
    utilization_percent: int | None = None
    lines: dict[str, int] = msgspec.field(default_factory=dict)  # field -> the line that shows it
    line: int = 0


class PciLink(Shown, frozen=True, kw_only=True):
    """The PCIe link of one function as lspci -vv prints it: what it can do (LnkCap) and what it does (LnkSta)."""

    address: str
    rate: float | None = None  # GT/s at present; at idle a GPU trains its link down
    width: int | None = None
    rate_max: float | None = None
    width_max: int | None = None
    narrowed: bool = False  # lspci itself says "(downgraded)" of the width
    lines: tuple[int, ...] = ()


class PciLinks(Value, frozen=True, kw_only=True):
    """`links` of NVIDIA's display functions; `slots` of the bridges that the same text shows."""

    links: tuple[PciLink, ...]
    slots: tuple[PciLink, ...] = ()


class CopyRates(Value, frozen=True, kw_only=True):
    """What CUDA's bandwidthTest measured with pinned memory, in GB/s."""

    to_device: float | None = None
    from_device: float | None = None


class DcgmError(Shown, frozen=True, kw_only=True):
    """One complaint of a test: DCGM's words, and its number for them (dcgmError_t)."""

    text: str
    code: int | None = None


class DcgmFailure(Shown, frozen=True, kw_only=True):
    """A test that failed, on one GPU or entity; None: on the whole machine."""

    test: str
    entity: str | None = None  # GPU 0
    errors: tuple[DcgmError, ...] = ()


class DcgmDiag(Value, frozen=True, kw_only=True):
    """One run. Tests that were skipped or only warned are counted, and accuse nobody."""

    failures: tuple[DcgmFailure, ...] = ()
    passed: tuple[str, ...] = ()  # names of tests that passed somewhere
    skipped: tuple[str, ...] = ()
    runtime_error: str | None = None  # DCGM itself did not come to its tests


SMI_DETAILS = Key[tuple[GpuDetails, ...]]("nvidia-smi-details")
PCI_LINKS = Key[PciLinks]("pci-links")
COPY_RATES = Key[CopyRates]("copy-rates")
DCGM = Key[DcgmDiag]("dcgm-diag")
