"""CUDA's devices and nvidia-smi's GPUs as one list: which number of the one is which number of the other.

CUDA numbers the visible GPUs from 0, the fastest first unless CUDA_DEVICE_ORDER=PCI_BUS_ID; NVML and nvidia-smi number all of them by
their place on the bus. What joins the two is the PCI address, and the UUID where an address is missing.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from cudadoctor.model.addresses import normal_address
from cudadoctor.model.facts import Facts
from cudadoctor.model.values import LADDER, NVML, CudaDevice, NvmlGpu


def plain_address(address: str) -> str:
    """0000:01:00.0 from any usual spelling; what is none stays as it is, and is the same as nothing but itself."""
    return normal_address(address.lower().removeprefix("pci:")) or address


def same_address(one: str | None, other: str | None) -> bool:
    """Whether two spellings name the same PCI device: 00000000:01:00.0, 0000:01:00 and 01:00.0."""
    return one is not None and other is not None and plain_address(one) == plain_address(other)


class Device(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU, or a slice of one: as CUDA shows it, as NVML does, or both."""

    cuda: CudaDevice | None = None  # None: CUDA does not show it, or was not asked
    nvml: NvmlGpu | None = None

    @property
    def number(self) -> int | None:
        """CUDA's number, as a program writes it: cuda.select_device(0)."""
        return self.cuda.index if self.cuda is not None else None

    @property
    def index(self) -> int | None:
        """nvidia-smi's number."""
        return self.nvml.index if self.nvml is not None else None

    @property
    def address(self) -> str | None:
        stated = self._stated("address")
        return plain_address(stated) if stated is not None else None

    @property
    def uuid(self) -> str | None:
        """A slice has one of its own, which only CUDA states here."""
        return self._stated("uuid")

    @property
    def name(self) -> str | None:
        return self._stated("name")

    def _stated(self, field: str) -> str | None:
        return next((value for part in (self.cuda, self.nvml) if part is not None and (value := getattr(part, field))), None)

    @property
    def is_slice(self) -> bool:
        return (self.uuid or "").startswith("MIG-")


def devices_of(facts: Facts) -> tuple[Device, ...]:
    """The machine's devices as far as somebody named them: CUDA's in their order, then the GPUs that only NVML shows."""
    ladder, nvml = facts.value(LADDER), facts.value(NVML)
    shown = ladder.devices if ladder is not None else ()
    gpus = nvml.gpus if nvml is not None and nvml.code == 0 else ()
    pairs = tuple(Device(cuda=device, nvml=_of_nvml(device, gpus)) for device in shown)
    met = {pair.nvml.index for pair in pairs if pair.nvml is not None}
    return (*pairs, *(Device(nvml=gpu) for gpu in gpus if gpu.index not in met))


def _of_nvml(device: CudaDevice, gpus: Iterable[NvmlGpu]) -> NvmlGpu | None:
    by_address = next((gpu for gpu in gpus if same_address(gpu.address, device.address)), None)
    return by_address or next((gpu for gpu in gpus if gpu.uuid is not None and gpu.uuid == device.uuid), None)


def cuda_answered(facts: Facts) -> bool:
    """Whether CUDA listed its devices, so that one which it does not show is hidden and not merely unasked."""
    ladder = facts.value(LADDER)
    return ladder is not None and bool(ladder.devices)


def other_order(devices: Iterable[Device]) -> bool:
    """Whether some number of CUDA's is another GPU's number in nvidia-smi. Slices share the number of their GPU."""
    return any(None not in (device.number, device.index) and device.number != device.index and not device.is_slice for device in devices)
