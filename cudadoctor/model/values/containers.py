"""Fact values: the engines for containers on a host, and how they are set up for NVIDIA GPUs."""

from __future__ import annotations

import msgspec

from cudadoctor.model.facts import Key
from cudadoctor.model.values.base import Value
from cudadoctor.model.version import ModuleVersion


class ContainerEngine(Value, frozen=True, kw_only=True):
    name: str  # docker, podman, nerdctl, containerd
    path: str
    snap: bool = False  # confined: it sees neither the host's driver nor its settings
    line: int = 0


class CdiSpec(Value, frozen=True, kw_only=True):
    """A CDI specification: which devices it offers, and the driver whose files it lists."""

    path: str
    kind: str | None = None  # nvidia.com/gpu
    driver: ModuleVersion | None = None
    devices: tuple[str, ...] = ()
    line: int = 0


class ContainerStack(Value, frozen=True, kw_only=True):
    """`runtimes`: files of settings that name the NVIDIA runtime -> the line that does."""

    engines: tuple[ContainerEngine, ...]
    toolkit: str | None = None  # where nvidia-ctk or nvidia-container-runtime is
    runtimes: dict[str, int] = msgspec.field(default_factory=dict)
    rootless: bool = False
    desktop: bool = False  # Docker Desktop: a virtual machine of its own
    denied: tuple[str, ...] = ()  # files that this user may not read
    specifications: tuple[CdiSpec, ...] = ()

    def find(self, name: str) -> ContainerEngine | None:
        return next((engine for engine in self.engines if engine.name == name), None)


CONTAINER_STACK: Key[ContainerStack] = Key("container-stack")
