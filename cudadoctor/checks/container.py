"""Row `container`: a container, WSL or a virtual machine, and whether the GPU was passed into it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from cudadoctor.checks import traces
from cudadoctor.checks.base import Check, Line, Rule
from cudadoctor.checks.device_nodes import UVM, WSL_DEVICE, missing
from cudadoctor.checks.reading import (
    Quotes,
    driver_runs,
    first_true,
    gpus,
    line_of,
    lines_with,
    listed,
    marks_of_container,
    merged,
    some,
    statements,
    told,
    unknown,
)
from cudadoctor.model.facts import Fact, Facts, Quote
from cudadoctor.model.findings import Clue
from cudadoctor.model.values import (
    CONTAINER_MARKS,
    DEVICE_NODES,
    DRIVER_PACKAGES,
    ENVIRONMENT,
    HYPERVISOR,
    KERNEL,
    LADDER,
    MODULES,
    PCI,
    WSL,
)

if TYPE_CHECKING:
    from cudadoctor.knowledge.load import Knowledge

CAPABILITIES = "NVIDIA_DRIVER_CAPABILITIES"
WSL_FOLDER = "/usr/lib/wsl/"
_LINUX_DRIVER = re.compile(r"nvidia-driver|libnvidia-compute|cuda-drivers")


# ---------------------------------------------------------------- containers
def no_access(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """In a container of a host with a GPU, neither the driver's libraries nor a usable set of nodes is there."""
    marks = facts[CONTAINER_MARKS]
    if not marks.value or told(facts, WSL, marks):
        return
    gone = missing(facts)
    host = _host_side(facts) if gone else ()
    if not host or traces.any_library(facts):
        return
    nothing = Quote(source="driver libraries", text="libcuda.so.1, libnvidia-ml.so.1: not found")
    quotes = merged((_mark(marks), nothing), _no_nodes(facts, gone), host[:1])
    yield Clue(cause="container-no-gpu-access", quotes=quotes, values={"marks": ", ".join(marks.value)})


def _host_side(facts: Facts) -> Quotes:
    """The lines that show what could have been passed in: NVIDIA's module in the shared kernel, or a GPU on the bus.

    Where the kernel's list of modules is there and holds no NVIDIA driver, nothing could be passed in: images of virtual machines carry
    the marks of a container too. Some sandboxes hide that list; the GPU on the bus then counts.
    """
    running = driver_runs(facts)
    if running or facts[MODULES].present:
        return running
    return next((gpu.quotes for gpu in gpus(facts)), ()) if facts[PCI].present else ()


def _no_nodes(facts: Facts, gone: tuple[str, ...]) -> Quotes:
    nodes = facts[DEVICE_NODES]
    source = nodes.quotes[0].source if nodes.quotes else "/dev"
    return (Quote(source=source, text=f"{', '.join(gone)}: no such file"),)


def _mark(marks: Fact[tuple[str, ...]]) -> Quote:
    return some(marks)[0]


def driver_capabilities(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """Nodes and libnvidia-ml were passed in, libcuda was not: the container asked for other driver capabilities than compute."""
    marks = facts[CONTAINER_MARKS]
    variables = facts[ENVIRONMENT]
    if not marks.value or variables.value is None or told(facts, WSL, marks):
        return
    value = variables.value.variables.get(CAPABILITIES)
    if not value or {"compute", "all"} & {word.strip() for word in value.split(",")}:
        return
    if any(path != UVM for path in missing(facts)) or traces.library(facts, "libcuda.so"):
        return
    management = traces.library(facts, "libnvidia-ml.so")
    if management:
        line = line_of(variables, variables.value.lines.get(CAPABILITIES, 0))
        quotes = merged(line if CAPABILITIES in line[0].text else _variable(value), management)
        yield Clue(cause="container-driver-capabilities", quotes=quotes, values={"capabilities": value})


def _variable(value: str) -> Quotes:
    return (Quote(source="environment", text=f"{CAPABILITIES}={value}"),)


# ---------------------------------------------------------------- WSL
def wsl_without_gpu(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """WSL without /dev/dxg. In a container inside WSL the device may just not have been passed in: then it is a suspicion."""
    wsl, nodes = facts[WSL], facts[DEVICE_NODES]
    if not wsl.value or (nodes.value is not None and nodes.value.find(WSL_DEVICE) is not None):
        return
    if not (nodes.whole or (nodes.value is not None and nodes.value.said_absent(WSL_DEVICE))):
        raise unknown(DEVICE_NODES, "the listing is not whole")
    source = nodes.quotes[0].source if nodes.quotes else "/dev"
    quotes = merged(some(wsl)[:1], (Quote(source=source, text=f"{WSL_DEVICE}: no such file"),))
    if marks_of_container(facts, nodes):
        yield Clue(cause="container-no-gpu-access", quotes=quotes, basis="suspected")
        yield Clue(cause="wsl-gpu-unavailable", quotes=quotes, basis="suspected")
        return
    yield Clue(cause="wsl-gpu-unavailable", quotes=quotes)


def wsl_linux_driver(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """WSL with a driver for Linux: its packages, or a libcuda from outside the folder that Windows lends."""
    wsl = facts[WSL]
    if not wsl.value:
        return
    found = first_true(lambda: _linux_packages(facts), lambda: _foreign_libcuda(facts, wsl))
    if found:
        yield Clue(cause="wsl-linux-driver-installed", quotes=merged(found, some(wsl)[:1]))


def _linux_packages(facts: Facts) -> Quotes:
    listings = statements(facts, DRIVER_PACKAGES)
    for fact in listings:
        for entry in fact.need().packages:
            if _LINUX_DRIVER.match(entry.name) and traces.is_driver_package(entry):
                return line_of(fact, entry.line)
    if listings and not any(fact.whole for fact in listings):
        raise unknown(DRIVER_PACKAGES, "the list of packages is not whole")
    return ()


def _foreign_libcuda(facts: Facts, wsl: Fact[bool]) -> Quotes:
    """The libcuda really loaded, where it is neither Windows' own, nor a stub, nor of cuda-compat; in a container the engine chose it."""
    fact = facts[LADDER]
    path = fact.value.library_path if fact.value is not None else None
    if path is None or path.startswith(WSL_FOLDER) or not traces.of_the_driver(path) or marks_of_container(facts, wsl):
        return ()
    return lines_with(fact, path)[:1]


# ---------------------------------------------------------------- the line
def describe(facts: Facts, knowledge: Knowledge) -> Line:
    wsl, marks = facts[WSL], facts[CONTAINER_MARKS]
    words: list[str] = []
    quotes: Quotes = ()
    if wsl.value:
        words.append(_wsl_kind(facts))
        quotes = some(wsl)[:1]
    if marks.value:
        words.append(f"a container or a machine built from an image ({listed(marks.value)})")
        quotes = merged(quotes, some(marks))
    if not words:
        words.append("no container")
        quotes = some(marks)[:1]
        hypervisor = facts.get(HYPERVISOR)
        if isinstance(hypervisor, Fact) and hypervisor.value is not None:
            words.append(f"a virtual machine ({hypervisor.value})")
            quotes = some(hypervisor)[:1]
    return Line(", ".join(words), quotes)


def _wsl_kind(facts: Facts) -> str:
    """The kernel of WSL 1 is called 4.4.0-19041-Microsoft, that of WSL 2 ...-microsoft-standard-WSL2."""
    kernel = facts.get(KERNEL)
    release = kernel.value.release if isinstance(kernel, Fact) and kernel.value is not None else ""
    return "WSL 1" if release.endswith("-Microsoft") else "WSL 2" if "wsl2" in release.lower() or "microsoft-standard" in release else "WSL"


CHECK = Check(
    id="container",
    title="Container, WSL, virtual machine",
    looks_at="marks of a container, WSL's kernel and /dev/dxg, the hypervisor; driver libraries and nodes inside",
    items=(
        "cgroup", "dockerenv", "containerenv", "environment", "proc-version", "uname", "dmi", "dev", "pci", "modules", "driver-version",
        "ldconfig", "driver-libraries", "wsl-lib", "packages", "ladder", "nvml",
    ),
    rules=(
        Rule("container", ("container-no-gpu-access",), no_access),
        Rule("container", ("container-driver-capabilities",), driver_capabilities),
        Rule("container", ("wsl-gpu-unavailable", "container-no-gpu-access"), wsl_without_gpu),
        Rule("container", ("wsl-linux-driver-installed",), wsl_linux_driver),
    ),
    describe=describe,
)  # fmt: skip
