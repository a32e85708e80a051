"""Row `container`: a container, WSL or a virtual machine, and whether the GPU was passed into it."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from cudadoctor.checks import traces
from cudadoctor.checks.base import Check, Line, Rule
from cudadoctor.checks.common import driver_cuda, variable_quote, variables_of
from cudadoctor.checks.device_nodes import WSL_DEVICE, has, missing, without_nodes_in_lxc
from cudadoctor.checks.node_access import UVM
from cudadoctor.checks.reading import (
    WINDOWS,
    Quotes,
    driver_runs,
    elsewhere,
    first_true,
    gpus,
    listed,
    marks_of_container,
    merged,
    need_whole_list,
    passed,
    told,
)
from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.facts import Fact, Facts, Quote
from cudadoctor.model.findings import Clue
from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import (
    CONTAINER_MARKS,
    CONTAINER_STACK,
    DEVICE_NODES,
    DRIVER_PACKAGES,
    ENVIRONMENT,
    HYPERVISOR,
    KERNEL,
    LADDER,
    LIBRARIES,
    LOADED_DRIVER,
    MODULES,
    PCI,
    WSL,
    WSL_LIBRARIES,
    CdiSpec,
    ContainerStack,
    LoadedDriver,
)
from cudadoctor.model.version import CudaVersion

BY_RUNTIME = {"docker": ("/docker/", "/.docker/"), "nerdctl": ("/containerd/",), "containerd": ("/containerd/",), "podman": ()}
SPECIFICATIONS = ("/etc/cdi", "/var/run/cdi")  # read by every engine
SHOWN = {"docker": "Docker", "podman": "Podman", "nerdctl": "nerdctl", "containerd": "containerd"}
CAPABILITIES = "NVIDIA_DRIVER_CAPABILITIES"
WSL_FOLDER = "/usr/lib/wsl/"
REQUIRE = "NVIDIA_REQUIRE_CUDA"
_MINIMUM = lazy(r"cuda>=(\d{1,2}\.\d{1,2})")
_CONDITION = lazy(r"(cuda|driver)(>=|<=|!=|<|>|=)(\d{1,4}(?:\.\d{1,3})?)")
_LINUX_DRIVER = lazy(r"nvidia-driver|libnvidia-compute|cuda-drivers")


# ---------------------------------------------------------------- containers
def no_access(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """In a container of a host with a GPU, neither the driver's libraries nor a usable set of nodes is there.

    One of LXC has libraries of its own: there it is the nodes alone.
    """
    marks = facts[CONTAINER_MARKS]
    if not marks.value or told(facts, WSL, marks):
        return
    gone = missing(facts)
    host = _host_side(facts) if gone else ()
    if not host:
        return
    libraries = traces.any_library(facts)
    if libraries and not without_nodes_in_lxc(facts, knowledge, gone):
        return
    nothing = () if libraries else (Quote(source="driver libraries", text="libcuda.so.1, libnvidia-ml.so.1: not found"),)
    nodes = Quote(source=facts[DEVICE_NODES].source("/dev"), text=f"{', '.join(gone)}: no such file")
    yield Clue(cause="container-no-gpu-access", quotes=merged((*marks.some()[:1], *nothing, nodes), host[:1]))


def _host_side(facts: Facts) -> Quotes:
    """The lines that show what could have been passed in: NVIDIA's module in the shared kernel, or a GPU on the bus.

    Where the kernel's list of modules is there and holds no NVIDIA driver, nothing could be passed in: images of virtual machines carry
    the marks of a container too. Some sandboxes hide that list; the GPU on the bus then counts.
    """
    running = driver_runs(facts)
    if running or facts[MODULES].present:
        return running
    return next((gpu.quotes for gpu in gpus(facts)), ()) if facts[PCI].present else ()


def driver_capabilities(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """Nodes and libnvidia-ml were passed in, libcuda was not: the container asked for other driver capabilities than compute."""
    marks = facts[CONTAINER_MARKS]
    variables = facts[ENVIRONMENT]
    if not marks.value or told(facts, WSL, marks):
        return
    value = variables_of(variables).get(CAPABILITIES)
    if not value or {"compute", "all"} & {word.strip() for word in value.split(",")}:
        return
    if any(path != UVM for path in missing(facts)) or traces.library(facts, "libcuda.so"):
        return
    management = traces.library(facts, "libnvidia-ml.so")
    if management:
        yield Clue(cause="container-driver-capabilities", quotes=merged((variable_quote(variables, CAPABILITIES),), management))


# ---------------------------------------------------------------- WSL
def wsl_without_gpu(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """WSL without /dev/dxg. In a container inside WSL the device may just not have been passed in: then it is a suspicion."""
    wsl, nodes = facts[WSL], facts[DEVICE_NODES]
    if not wsl.value or has(nodes.value, WSL_DEVICE):
        return
    if not (nodes.whole or (nodes.value is not None and nodes.value.said_absent(WSL_DEVICE))):
        raise DEVICE_NODES.unknown("the listing is not whole")
    quotes = merged(wsl.some()[:1], (Quote(source=nodes.source("/dev"), text=f"{WSL_DEVICE}: no such file"),))
    inside = bool(marks_of_container(facts, nodes))
    for cause in ("container-no-gpu-access", "wsl-gpu-unavailable") if inside else ("wsl-gpu-unavailable",):
        yield Clue(cause=cause, quotes=quotes, basis="suspected" if inside else "derived")


def wsl_of_version_1(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """WSL 1 translates system calls: it has no kernel of its own, and no GPU."""
    if _wsl_kind(facts) == "WSL 1":
        yield Clue(cause="wsl-gpu-unavailable", quotes=facts[KERNEL].some()[:1])


def wsl_linux_driver(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """WSL with a driver for Linux: its packages, or a libcuda from outside the folder that Windows lends."""
    wsl = facts[WSL]
    if not wsl.value:
        return
    found = first_true(lambda: _linux_packages(facts), lambda: _foreign_libcuda(facts, wsl), lambda: _listed_libcuda(facts, wsl))
    if found:
        yield Clue(cause="wsl-linux-driver-installed", quotes=merged(found, wsl.some()[:1]))


def linux_packages(facts: Facts) -> Quotes:
    """The line of a list of packages that shows a driver for Linux."""
    for fact in facts.all(DRIVER_PACKAGES):
        for entry in fact.value or ():
            if _LINUX_DRIVER.match(entry.name) and traces.is_driver_package(entry):
                return fact.line_of(entry.line)
    return ()


def _linux_packages(facts: Facts) -> Quotes:
    found = linux_packages(facts)
    if not found:
        need_whole_list(facts, DRIVER_PACKAGES, "the list of packages is not whole")
    return found


def _foreign_libcuda(facts: Facts, wsl: Fact[bool]) -> Quotes:
    """The libcuda really loaded, where it is neither Windows' own, nor a stub, nor of cuda-compat; in a container the engine chose it."""
    fact = facts[LADDER]
    path = fact.value.library_path if fact.value is not None else None
    if path is None or path.startswith(WSL_FOLDER) or not traces.of_the_driver(path) or marks_of_container(facts, wsl):
        return ()
    return fact.lines_with(path)[:1]


def _listed_libcuda(facts: Facts, wsl: Fact[bool]) -> Quotes:
    """The first libcuda of the loader's list, in a text that shows it: the one that a program gets."""
    listing = told(facts, LIBRARIES, wsl)
    if wsl.origin != "text" or listing is None or marks_of_container(facts, wsl):
        return ()
    first = next(iter(listing.find("libcuda.so.1")), None)
    foreign = first is not None and not first.path.startswith(WSL_FOLDER) and traces.of_the_driver(first.path)
    return facts[LIBRARIES].line_of(first.line) if first is not None and foreign else ()


def wsl_without_library(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """WSL with /dev/dxg, and the folder that Windows lends holds no libcuda: Windows has no NVIDIA driver, or an old one."""
    wsl, nodes = facts[WSL], facts[DEVICE_NODES]
    if not wsl.value or not has(nodes.value, WSL_DEVICE) or marks_of_container(facts, nodes):
        return
    if passed(facts.value(LADDER), "libcuda"):
        return  # one was loaded, wherever it lies
    lent = facts[WSL_LIBRARIES]
    if lent.value is not None and not lent.whole:
        raise WSL_LIBRARIES.unknown("the listing is not whole")
    if lent.value is None or not lent.value.find("libcuda.so"):
        nothing = Quote(source=lent.source(WSL_FOLDER), text=f"{WSL_FOLDER}lib: no libcuda.so")
        yield Clue(cause="wsl-gpu-unavailable", quotes=merged(wsl.some()[:1], (nothing,)))


# ---------------------------------------------------------------- Hyper-V
def lent_by_hyper_v(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """/dev/dxg outside WSL, where nobody brings the driver's files along, and CUDA counts no device."""
    wsl, nodes, ladder = facts[WSL], facts[DEVICE_NODES], facts[LADDER]
    device = nodes.value.find(WSL_DEVICE) if nodes.value is not None else None
    if device is None or wsl.value or marks_of_container(facts, nodes) or passed(ladder.value, "devices"):
        return
    yield Clue(cause="hyperv-gpu-incomplete", quotes=merged(nodes.line_of(device.line), ladder.some()[-1:]))


# ---------------------------------------------------------------- what the image asks for
def image_too_new(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """The image's condition is not met, and nobody checked it: the check was switched off, or the engine (CDI, WSL) makes none."""
    wanted = variables_of(facts[ENVIRONMENT]).get(REQUIRE) if facts[CONTAINER_MARKS].value else None
    found = driver_cuda(facts) if wanted else None
    if not wanted or found is None:
        return
    loaded = facts.value(LOADED_DRIVER)
    branch = loaded.version.major if loaded is not None else None
    if any(_met(alternative, found[0], branch) for alternative in wanted.split()):
        return
    version = _MINIMUM.search(wanted)
    quotes = (variable_quote(facts[ENVIRONMENT], REQUIRE), found[1])
    yield Clue(cause="container-cuda-too-new", quotes=quotes, values={"version": version[1]} if version is not None else {})


def _met(alternative: str, cuda: CudaVersion, branch: int | None) -> bool:
    """Whether conditions joined by commas may all hold. A brand or an architecture is not compared, and neither is an unknown driver."""
    for name, sign, number in _CONDITION.findall(alternative):
        have: tuple[int, ...] | None = cuda.major_minor if name == "cuda" else (branch,) if branch is not None else None
        if have is None:
            continue
        want = tuple(int(part) for part in number.split("."))[: len(have)]
        order = (have > want) - (have < want[: len(have)])
        if not {">=": order >= 0, "<": order < 0, ">": order > 0, "<=": order <= 0, "=": order == 0, "!=": order != 0}[sign]:
            return False
    return True


# ---------------------------------------------------------------- whether a host's containers would get its GPUs
# What the settings of Docker, Podman and containerd say, without starting a container. A remark of the row, no fault: nobody may want
# containers there. `--require container-gpu` asks for it.
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
        return _by_specification(engine, named, stack.specifications, driver)
    if denied:
        return Way(engine=engine, ready=None, why=f"{denied[0]} may not be read by this user")
    missing = "no NVIDIA runtime and no CDI specification is configured" if engine != "podman" else "there is no CDI specification"
    return Way(engine=engine, ready=False, why=missing + ("" if stack.toolkit else "; the NVIDIA Container Toolkit is not installed"))


def _reads(engine: str, path: str) -> bool:
    """Whether a file of settings is this engine's."""
    return any(part in path for part in BY_RUNTIME[engine])


def _by_specification(engine: str, spec: CdiSpec, every: tuple[CdiSpec, ...], driver: LoadedDriver | None) -> Way:
    folder = spec.path.rpartition("/")[0]  # the priority: two of one folder that name a device take it from each other
    beside = (one for one in every if one is not spec and one.kind == spec.kind and one.path.rpartition("/")[0] == folder)
    other = next((one.path for one in beside if set(one.devices) & set(spec.devices)), None)
    if other is not None:
        why = f"{spec.path} and {other} name the same devices, so that neither counts; the one that is not the toolkit's has to go"
        return Way(engine=engine, ready=False, why=why)
    if spec.driver is not None and driver is not None and spec.driver.text != driver.version.text:
        other = f"{spec.path} lists the files of driver {spec.driver.text}, and {driver.version.text} is loaded"
        return Way(engine=engine, ready=False, why=f"{other}; `nvidia-ctk cdi generate` renews it")
    of_driver = f" of driver {spec.driver.text}" if spec.driver is not None else ""
    offered = ", ".join(spec.devices[:4]) or "GPUs"
    return Way(engine=engine, ready=True, why=f"the CDI specification {spec.path}{of_driver} offers {offered}")


# ---------------------------------------------------------------- the line
def describe(facts: Facts, knowledge: Knowledge) -> Line:
    wsl, marks = facts[WSL], facts[CONTAINER_MARKS]
    words: list[str] = []
    quotes: Quotes = ()
    if wsl.value:
        words.append(_wsl_kind(facts))
        quotes = wsl.some()[:1]
    if marks.value:
        words.append(f"a container or a machine built from an image ({listed(marks.value)})")
        quotes = merged(quotes, marks.some())
    if not words:
        words.append("no container" if elsewhere(facts) != WINDOWS else "Windows itself")
        quotes = marks.some()[:1]
        hypervisor = facts.there(HYPERVISOR)
        if hypervisor is not None:
            words.append(f"a virtual machine ({hypervisor.value})")
            quotes = hypervisor.some()[:1]
    stack, driver = facts.value(CONTAINER_STACK), facts.value(LOADED_DRIVER)
    engines = [way.words for way in ways(stack, driver)] if stack is not None and driver is not None else []
    return Line("; ".join([", ".join(words), *engines[:1]]), quotes, details=tuple(engines[1:]))


def _wsl_kind(facts: Facts) -> str:
    """The kernel of WSL 1 is called 4.4.0-19041-Microsoft, that of WSL 2 ...-microsoft-standard-WSL2."""
    kernel = facts.value(KERNEL)
    release = kernel.release if kernel is not None else ""
    return "WSL 1" if release.endswith("-Microsoft") else "WSL 2" if "wsl2" in release.lower() or "microsoft-standard" in release else "WSL"


CHECK = Check(
    id="container",
    title="Container, WSL, virtual machine",
    looks_at="marks of a container, WSL's kernel and /dev/dxg, the hypervisor; driver libraries and nodes inside",
    items=(
        "cgroup", "dockerenv", "containerenv", "environment", "proc-version", "uname", "dmi", "dev", "pci", "modules", "driver-version",
        "ldconfig", "driver-libraries", "wsl-lib", "container-stack", "packages", "ladder", "nvml", "nvidia-smi",
    ),
    rules=(
        Rule("container", ("container-no-gpu-access",), no_access),
        Rule("container", ("container-driver-capabilities",), driver_capabilities),
        Rule("container", ("wsl-gpu-unavailable", "container-no-gpu-access"), wsl_without_gpu),
        Rule("container", ("wsl-gpu-unavailable",), wsl_without_library),
        Rule("container", ("wsl-gpu-unavailable",), wsl_of_version_1),
        Rule("container", ("wsl-linux-driver-installed",), wsl_linux_driver),
        Rule("container", ("hyperv-gpu-incomplete",), lent_by_hyper_v),
        Rule("container", ("container-cuda-too-new",), image_too_new),
    ),
    describe=describe,
)  # fmt: skip
