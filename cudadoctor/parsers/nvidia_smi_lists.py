"""What `nvidia-smi -L` and `nvidia-smi --version` print."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import Smi, SmiGpu
from cudadoctor.model.version import CudaVersion, ModuleVersion

LISTED = lazy(r"^\s{0,16}GPU (?P<index>\d{1,3}): (?P<name>.{1,100}?) \(UUID: (?P<uuid>GPU-[0-9A-Fa-f-]{4,40})\)?")
_LISTED_MIG = lazy(r"^\s{0,16}MIG .{1,60}Device\s{1,6}\d{1,3}: \(UUID: (?P<uuid>MIG-[\w/-]{4,80})")
_VERSION = lazy(r"^\s{0,16}(?P<name>DRIVER version|CUDA(?: UMD)? Version)\s{1,20}: (?P<version>\d{1,4}(?:\.\d{1,4}){1,3})$")


def versions(lines: list[str]) -> Iterator[tuple[Smi, int, int]]:
    """`nvidia-smi --version`: a line each for the program, NVML, the driver and its CUDA."""
    for number, line in enumerate(lines, 1):
        driver = _VERSION.match(line) if "DRIVER version" in line else None
        cuda = _VERSION.match(lines[number]) if driver is not None and number < len(lines) else None
        if driver is not None:
            named = cuda is not None and cuda["name"].startswith("CUDA")
            newest = CudaVersion(cuda["version"]) if cuda is not None and named else None
            yield Smi(module=ModuleVersion(driver["version"]), cuda=newest), number, number + named


def lists(lines: list[str]) -> Iterator[tuple[Smi, int, int]]:
    """Every run of lines of `nvidia-smi -L`."""
    gpus: list[SmiGpu] = []
    last = 0
    for number, line in enumerate(lines, 1):
        found = LISTED.match(line) if "UUID: GPU-" in line else None
        instance = _LISTED_MIG.match(line) if gpus and found is None else None
        if gpus and instance is None and (found is None or int(found["index"]) <= (gpus[-1].index or 0)):
            yield Smi(gpus=tuple(gpus)), gpus[0].line, last
            gpus = []
        if found is not None:
            gpus.append(SmiGpu(index=int(found["index"]), name=found["name"], uuid=found["uuid"], line=number))
        elif instance is not None:
            gpus[-1] = msgspec.structs.replace(gpus[-1], mig_uuids=(*gpus[-1].mig_uuids, instance["uuid"]))
        last = number if gpus else last
    if gpus:
        yield Smi(gpus=tuple(gpus)), gpus[0].line, last
