"""Facts to the machine of a report: system, driver, Python, GPUs joined by PCI address."""

from __future__ import annotations

from typing import Any, TypeVar

from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model import report
from cudadoctor.model.evidence import Evidence
from cudadoctor.model.facts import Facts
from cudadoctor.model.values import CONTAINER_MARKS, KERNEL, LADDER, LOADED_DRIVER, NVML, OPERATING_SYSTEM, PCI, PCI_NAMES, PYTHON, WSL

T = TypeVar("T")
SHOWN_PACKAGES = ("numba", "numba-cuda", "numpy", "llvmlite", "cuda-bindings", "torch", "cupy", "jax", "tensorflow", "nvidia-ml-py")


def machine(facts: Facts, evidence: Evidence, knowledge: Knowledge) -> report.Machine:
    kernel, system = facts.value(KERNEL), facts.value(OPERATING_SYSTEM)
    nvml, ladder, loaded = facts.value(NVML), facts.value(LADDER), facts.value(LOADED_DRIVER)
    python, marks = facts.value(PYTHON), facts.value(CONTAINER_MARKS)
    library = (ladder.library if ladder else None) or (nvml.library if nvml else None)
    cuda = (ladder.cuda if ladder else None) or (nvml.cuda if nvml else None)
    packages = {entry.name: str(entry.version) for entry in python.packages if entry.name.lower() in SHOWN_PACKAGES} if python else {}
    return report.Machine(
        system=kernel.system if kernel else None,
        kernel=kernel.release if kernel else None,
        distribution=" ".join(part for part in (system.id, system.version_id) if part) or None if system and system.id else None,
        container=", ".join(marks) if marks else None,
        wsl=facts.value(WSL),
        driver=report.MachineDriver(
            module=str(loaded.version) if loaded else None,
            library=str(library) if library else None,
            cuda=str(cuda) if cuda else None,
            flavour=loaded.flavour if loaded else None,
        ),
        python=report.MachinePython(
            path=python.path if python else evidence.python,
            version=python.version if python else None,
            packages=dict(sorted(packages.items())),
        ),
        gpus=_gpus(facts, knowledge),
    )


def _gpus(facts: Facts, knowledge: Knowledge) -> tuple[report.MachineGpu, ...]:
    """One entry for each GPU that the bus, NVML or CUDA shows, joined by PCI address."""
    bus, nvml, ladder = facts.value(PCI), facts.value(NVML), facts.value(LADDER)
    names = facts.value(PCI_NAMES) or {}
    by_address: dict[str, dict[str, Any]] = {}
    for gpu in bus.nvidia_gpus if bus else ():
        chip = knowledge.chip(gpu.device) if gpu.device else None
        by_address[gpu.address] = {
            "name": gpu.name or names.get(gpu.device or ""),
            "architecture": chip.architecture if chip else None,
            "compute_capability": str(chip.compute_capability) if chip and chip.compute_capability else None,
        }
    for entry in nvml.gpus if nvml else ():
        target = by_address.setdefault(entry.address or f"index {entry.index}", {})
        target.update(index=entry.index, uuid=entry.uuid, name=entry.name or target.get("name"), memory_bytes=entry.memory_total_bytes)
        target.update(ecc=entry.ecc_mode, mig=entry.mig_mode, persistence=entry.persistence, vbios=entry.vbios)
        target["power_limit_w"] = entry.power_limit_w
        if entry.compute_capability is not None:
            target["compute_capability"] = str(entry.compute_capability)
    for device in ladder.devices if ladder else ():
        target = by_address.setdefault(device.address or f"CUDA {device.index}", {})
        target["name"] = device.name or target.get("name")
        target.setdefault("uuid", device.uuid)
        target.setdefault("cuda_index", device.index)
        target.setdefault("memory_bytes", device.memory_total_bytes)
        if device.compute_capability is not None:
            target["compute_capability"] = str(device.compute_capability)
            architecture = knowledge.architecture_of(device.compute_capability)
            target.setdefault("architecture", architecture.id if architecture else None)
    looked = ladder is not None and bool(ladder.result("init"))
    return tuple(
        report.MachineGpu(
            address=address if ":" in address else None,
            visible="cuda_index" in known if looked else None,
            **{"index": None, "uuid": None, "architecture": None, "compute_capability": None, "memory_bytes": None, **known},
        )
        for address, known in sorted(by_address.items())
    )
