"""Which GPU is CUDA's device 0, and what nvidia-smi calls it: the lines below row visible-devices where a machine has several GPUs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cudadoctor.checks.common import variables_of
from cudadoctor.inventory.devices import Device, cuda_answered, devices_of, other_order
from cudadoctor.model.facts import Facts
from cudadoctor.model.values import ENVIRONMENT

ORDER, VARIABLE = "CUDA_DEVICE_ORDER", "CUDA_VISIBLE_DEVICES"
UUID_SHOWN = 12  # characters of a UUID (GPU- and eight digits): as a value of CUDA_VISIBLE_DEVICES they do where no other begins so


def numbers(facts: Facts) -> tuple[str, ...]:
    """One line a GPU; none where there is only one, which every number means."""
    devices = devices_of(facts)
    return tuple(_lines(facts, devices)) if len(devices) > 1 else ()


def _lines(facts: Facts, devices: Sequence[Device]) -> Iterator[str]:
    asked = cuda_answered(facts)
    if not asked:
        likewise = variables_of(facts.there(ENVIRONMENT)).get(ORDER) == "PCI_BUS_ID"
        order = ", and CUDA counts likewise (CUDA_DEVICE_ORDER)" if likewise else ""
        yield f"CUDA's own numbers are not known, for it showed no device; nvidia-smi's are{order}:"
    uuids = [device.uuid for device in devices if device.uuid is not None]
    for device in devices:
        known = (_head(device, asked), device.address, _short(device.uuid, uuids), _plain_name(device.name))
        yield ", ".join(part for part in known if part)


def _head(device: Device, asked: bool) -> str:
    """`CUDA 0 (default): nvidia-smi 1`; a GPU that CUDA does not show is hidden from programs."""
    smi = f"nvidia-smi {device.index}" if device.index is not None else "not in nvidia-smi"
    if device.number is not None:
        return f"CUDA {device.number}{' (default)' if device.number == 0 else ''}: {smi}"
    return f"hidden: {smi}" if asked else smi


def _short(uuid: str | None, uuids: Sequence[str]) -> str | None:
    """The beginning of a UUID by which CUDA_VISIBLE_DEVICES may name it, the whole where another begins likewise."""
    if uuid is None:
        return None
    length = UUID_SHOWN
    return uuid[:length] if sum(other[:length] == uuid[:length] for other in uuids) == 1 else uuid


def _plain_name(name: str | None) -> str | None:
    return name.removeprefix("NVIDIA ") if name is not None else None


def note(facts: Facts) -> str | None:
    """That CUDA counts otherwise than nvidia-smi, where nobody asked for that: `GPU 0` then means two cards."""
    devices, chosen = devices_of(facts), VARIABLE in variables_of(facts.there(ENVIRONMENT))
    if facts.why_unknown(ENVIRONMENT) is not None or chosen or not other_order(devices):
        return None
    first = next((device for device in devices if device.number == 0), None)
    if first is None or first.index is None:
        return None
    which = ", ".join(part for part in (_plain_name(first.name), first.address) if part)
    return (
        f"CUDA numbers the GPUs in another order than nvidia-smi: device 0, which programs take by default, is nvidia-smi's GPU "
        f"{first.index} ({which}). With CUDA_DEVICE_ORDER=PCI_BUS_ID both count alike."
    )
