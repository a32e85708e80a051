"""Whether a host's containers would get its GPUs: what the settings of Docker, Podman and containerd say, without starting a container.

A remark of the row `container`, no fault: nobody may want containers there. `--require container-gpu` asks for it.
"""

from __future__ import annotations

import msgspec

from cudadoctor.model.values import CdiSpec, ContainerStack, LoadedDriver

BY_RUNTIME = {"docker": ("/docker/", "/.docker/"), "nerdctl": ("/containerd/",), "containerd": ("/containerd/",), "podman": ()}
SPECIFICATIONS = ("/etc/cdi", "/var/run/cdi")  # read by every engine
SHOWN = {"docker": "Docker", "podman": "Podman", "nerdctl": "nerdctl", "containerd": "containerd"}


class Way(msgspec.Struct, frozen=True, kw_only=True):
    """Whether one engine hands GPUs on. `ready` None: its settings may not be read."""

    engine: str
    ready: bool | None
    why: str

    @property
    def words(self) -> str:
        verb = "may hand" if self.ready is None else "hands" if self.ready else "does not hand"
        return f"{SHOWN[self.engine]} {verb} GPUs on: {self.why}"


def ways(stack: ContainerStack, driver: LoadedDriver | None) -> tuple[Way, ...]:
    """Each engine, the first that is ready before the others."""
    found = [_way(engine.name, stack, driver) for engine in stack.engines if engine.name != "containerd" or len(stack.engines) == 1]
    return tuple(sorted(found, key=lambda way: (way.ready is not True, way.ready is not None)))


def _way(engine: str, stack: ContainerStack, driver: LoadedDriver | None) -> Way:
    entry = stack.find(engine)
    if entry is not None and entry.snap:
        return Way(engine=engine, ready=False, why=f"{entry.path} is a snap, which does not see the host's driver")
    if engine == "docker" and stack.desktop:
        return Way(engine=engine, ready=False, why="Docker Desktop runs containers in a virtual machine without the GPU")
    settings = [path for path in stack.runtimes if _reads(engine, path)]
    denied = [path for path in stack.denied if _reads(engine, path) or path.startswith(SPECIFICATIONS)]
    named = next((spec for spec in stack.specifications if (spec.kind or "").startswith("nvidia.com/")), None)
    rootless = ", rootless" if stack.rootless and engine == "docker" else ""
    if settings and stack.toolkit is None:
        return Way(engine=engine, ready=False, why=f"{settings[0]} names the NVIDIA runtime, and nvidia-container-runtime is not installed")
    if settings:
        return Way(engine=engine, ready=True, why=f"the NVIDIA runtime is configured in {settings[0]}{rootless}")
    if named is not None:
        return _by_specification(engine, named, driver)
    if denied:
        return Way(engine=engine, ready=None, why=f"{denied[0]} may not be read by this user")
    missing = "no NVIDIA runtime and no CDI specification is configured" if engine != "podman" else "there is no CDI specification"
    return Way(engine=engine, ready=False, why=missing + ("" if stack.toolkit else "; the NVIDIA Container Toolkit is not installed"))


def _reads(engine: str, path: str) -> bool:
    """Whether a file of settings is this engine's."""
    return any(part in path for part in BY_RUNTIME[engine])


def _by_specification(engine: str, spec: CdiSpec, driver: LoadedDriver | None) -> Way:
    if spec.driver is not None and driver is not None and spec.driver.text != driver.version.text:
        other = f"{spec.path} lists the files of driver {spec.driver.text}, and {driver.version.text} is loaded"
        return Way(engine=engine, ready=False, why=f"{other}; `nvidia-ctk cdi generate` renews it")
    of_driver = f" of driver {spec.driver.text}" if spec.driver is not None else ""
    offered = ", ".join(spec.devices[:4]) or "GPUs"
    return Way(engine=engine, ready=True, why=f"the CDI specification {spec.path}{of_driver} offers {offered}")
