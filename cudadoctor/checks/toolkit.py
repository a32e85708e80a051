"""Row toolkit: the parts of a CUDA toolkit that Numba loads (NVVM, libdevice, NVRTC, cudart), nvcc, and whether they fit driver and GPU.

A machine that has only wheels, without nvcc and CUDA_HOME, is healthy; so is one without any toolkit where nothing needs one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from cudadoctor.checks.base import Check, Line, Rule
from cudadoctor.checks.common import (
    any_of,
    driver_cuda,
    in_python,
    need_whole,
    numba_kernel_worked,
    numba_state,
    package_of,
    package_quote,
    rung_quote,
)
from cudadoctor.checks.reading import broken, subject_of
from cudadoctor.inventory.rungs import needed_parts
from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.facts import Fact, Facts, Quote
from cudadoctor.model.findings import Clue
from cudadoctor.model.values import (
    LADDER,
    NVCC,
    NVML,
    PCI,
    PYTHON,
    TOOLKITS,
    Component,
    CudaDevice,
    NvmlGpu,
    PythonEnvironment,
    Toolkit,
    Toolkits,
)
from cudadoctor.model.version import ComputeCapability, ToolkitVersion

MISSING, NEWER, DAMAGED = "toolkit-missing", "toolkit-newer-than-driver", "toolkit-damaged"
DROPPED, TOO_OLD = "toolkit-dropped-gpu", "toolkit-too-old-for-gpu"
NO_BINARY_FOR_GPU, NO_BINARY = 209, "CUDA_ERROR_NO_BINARY_FOR_GPU"
HOME_VARIABLES = ("CUDA_HOME", "CUDA_PATH")


def usable(toolkit: Toolkit) -> bool:
    """Whether a toolkit folder holds a compiler of some kind."""
    return not toolkit.stale and (toolkit.has_nvcc or toolkit.has_nvvm)


def _parts(facts: Facts) -> tuple[Fact[PythonEnvironment], Fact[Toolkits], dict[str, Component]] | None:
    """What the Numba of the examined interpreter would load; None where there is no Numba in it."""
    python = facts[PYTHON]
    if python.value is None or package_of(python, "numba") is None:
        return None
    toolkits = facts[TOOLKITS]
    parts: dict[str, Component] = {}
    for name in needed_parts(python.value):
        entry = toolkits.value.component(name) if toolkits.value is not None else None
        if entry is None:
            raise TOOLKITS.unknown(f"nobody looked for {name}")
        parts[name] = entry
    return python, toolkits, parts


def component_quote(toolkits: Fact[Toolkits], part: Component) -> Quote:
    """The line that says where a part was found, or that it was not."""
    words = f"{part.name}: {part.path or 'not found'}"
    return toolkits.line_with(words if part.path is None else part.path, words=words)


def folder_quote(toolkits: Fact[Toolkits], folder: Toolkit) -> Quote:
    """The line that says what a toolkit folder holds."""
    words = f"{folder.rule or 'toolkit'}: {folder.path}"
    return toolkits.line_with(words, words=words)


# ---------------------------------------------------------------- toolkit-damaged
def _damaged(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """A file of the toolkit that Numba loads is not whole. A plain kernel may run all the same: what it needs of NVRTC is little."""
    climb = facts[LADDER]
    failed = broken(climb.value, "numba-kernel") if climb.value is not None else []
    found = _parts(facts) if failed or numba_kernel_worked(facts) else None
    if found is None:
        return
    python, toolkits, parts = found
    for part in parts.values():
        if part.damage is not None:
            quotes = (*(rung_quote(climb, one) for one in failed[:1]), component_quote(toolkits, part))
            yield in_python(DAMAGED, python, quotes, {"path": part.path or ""})


# ---------------------------------------------------------------- toolkit-missing
def _parts_missing(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """Numba is installed and a part that it needs is nowhere."""
    found = _parts(facts)
    if found is None or numba_kernel_worked(facts):
        return
    need_whole(facts, "LD_LIBRARY_PATH", *HOME_VARIABLES, "NUMBAPRO_NVVM", "NUMBAPRO_LIBDEVICE")
    python, toolkits, parts = found
    state = numba_state(facts)  # its own search may have named a file
    resolved = [name for name, path in state.components.items() if path.startswith("/")] if state is not None else []
    missing = [part for part in parts.values() if part.path is None and part.name not in resolved]
    target = python.need().package("numba-cuda") or python.need().package("numba")
    if missing and target is not None:
        yield in_python(MISSING, python, (*(component_quote(toolkits, part) for part in missing), package_quote(python, target)))


def _stale(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """A toolkit folder or PATH entry whose content is gone. Leftovers beside a working toolkit harm nobody."""
    toolkits = facts[TOOLKITS]
    if toolkits.value is None:
        return
    good = [entry for entry in toolkits.value.toolkits if usable(entry)]
    for entry in toolkits.value.toolkits:
        if not entry.stale or entry.rule in HOME_VARIABLES:
            continue  # a variable that points there is row cuda-home's
        harmless = facts[NVCC].present if entry.rule == "PATH" else bool(good) and entry.rule != "/usr/local/cuda"
        if not harmless:
            yield Clue(cause=MISSING, quotes=(folder_quote(toolkits, entry),), values={"path": entry.path})
            return


# ---------------------------------------------------------------- toolkit against driver and GPU
def _newer_than_driver(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """What Numba loads is of a newer CUDA than the driver's.

    A newer minor version of the same major works where Numba links to machine code, as numba-cuda does. Numba's own target hands the driver
    PTX, and a driver refuses PTX of a newer version than its own: a warning, for the kernel itself says whether it did.
    """
    found = _parts(facts)
    if found is None or numba_kernel_worked(facts):
        return
    python, toolkits, parts = found
    driver = driver_cuda(facts)
    if driver is None:
        return
    cuda, shown = driver
    known = [(part, part.version) for part in parts.values() if part.version is not None]
    newer = [pair for pair in known if pair[1].major > cuda.major]
    own = not newer and package_of(python, "numba-cuda") is None
    refused = [pair for pair in known if own and pair[0].name == "nvvm" and pair[1].major_minor > cuda.major_minor]
    for part, version in (*newer, *refused)[:1]:
        values = {"version": str(version), "path": part.path or "", "driver_cuda": cuda.text}
        yield in_python(NEWER, python, (component_quote(toolkits, part), shown), values, advice=not newer)


class Capable(NamedTuple):
    """One GPU, the generation of its instructions, and the line that says so."""

    subject: str
    capability: ComputeCapability
    quote: Quote


def capabilities(facts: Facts, knowledge: Knowledge) -> list[Capable]:
    """The GPUs' compute capabilities: from libcuda, else NVML, else the PCI ids."""
    ladder, nvml = facts.there(LADDER), facts.there(NVML)
    of_cuda = _capable(ladder, ladder.need().devices) if ladder is not None else []
    return of_cuda or (_capable(nvml, nvml.need().gpus) if nvml is not None else []) or _by_chip(facts, knowledge)


def _capable(fact: Fact[Any], gpus: Iterable[CudaDevice | NvmlGpu]) -> list[Capable]:
    known = []
    for gpu in gpus:
        if gpu.address is not None and gpu.compute_capability is not None:
            words = f"{gpu.address} {gpu.name or 'GPU'}: compute capability {gpu.compute_capability}"
            known.append(Capable(subject_of(gpu.address), gpu.compute_capability, Quote(source=fact.source(), text=words)))
    return known


def _by_chip(facts: Facts, knowledge: Knowledge) -> list[Capable]:
    bus = facts[PCI]
    known = []
    for function in bus.value.nvidia_gpus if bus.value is not None else ():
        chip = knowledge.chip(function.device) if function.device is not None else None
        if chip is not None and chip.compute_capability is not None:
            quote = bus.line_with(function.address, words=f"{function.address}: device {function.device}")
            known.append(Capable(subject_of(function.address), chip.compute_capability, quote))
    return known


def _compiler(facts: Facts) -> tuple[ToolkitVersion, Quote] | None:
    """The compiler whose list of GPUs counts: Numba's where Numba is installed, else nvcc. None where there is none."""
    found = _parts(facts)
    if found is None:
        nvcc = facts[NVCC]
        if nvcc.value is None:
            return None
        version = nvcc.value.version
        return version, nvcc.line_with(version.text, words=f"nvcc {version}")
    _, toolkits, parts = found
    for name in ("nvrtc", "nvvm", "cudart"):
        part = parts.get(name)
        if part is not None and part.version is not None:
            return part.version, component_quote(toolkits, part)
    if any(part.path is not None for part in parts.values()):
        raise TOOLKITS.unknown("the version of Numba's compiler is not known")
    return None


def _dropped(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """The GPU is older than the oldest that this toolkit compiles for."""
    compiler = _compiler(facts)
    if compiler is not None and not numba_kernel_worked(facts):
        yield from _unserved(DROPPED, compiler, (), facts, knowledge)


def _too_old(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """A Numba kernel had no code for this GPU (209), and the GPU is newer than the newest that the toolkit compiles for.

    Both are asked for: from a known older target the driver compiles for a newer GPU, so the age alone breaks nothing.
    """
    ladder = facts[LADDER]
    tries = broken(ladder.value, "numba-kernel")
    failed = [entry for entry in tries if entry.code == NO_BINARY_FOR_GPU or NO_BINARY in entry.output]
    compiler = _compiler(facts) if failed else None
    if compiler is not None:
        yield from _unserved(TOO_OLD, compiler, (rung_quote(ladder, failed[0]),), facts, knowledge)


def _unserved(
    cause: str, compiler: tuple[ToolkitVersion, Quote], first: tuple[Quote, ...], facts: Facts, knowledge: Knowledge
) -> Iterator[Clue]:
    """The GPUs beyond what this compiler compiles for: older than the oldest, or newer than the newest."""
    version, shown = compiler
    info = knowledge.toolkit(version)
    if info is None:
        return
    bound = ComputeCapability(str(info.cc_min if cause == DROPPED else info.cc_max))
    for gpu in capabilities(facts, knowledge):
        if gpu.capability < bound if cause == DROPPED else gpu.capability > bound:
            values = {"version": version.text, "capability": gpu.capability.text}
            yield Clue(cause=cause, quotes=(*first, shown, gpu.quote), subject=gpu.subject, values=values)


# ---------------------------------------------------------------- the row's line
def _describe(facts: Facts, knowledge: Knowledge) -> Line:
    toolkits = facts[TOOLKITS]
    said = []
    found = _parts(facts)
    if found is not None:
        said.append(f"Numba finds {_listed(found[2])}")
    folders = [entry for entry in (toolkits.value.toolkits if toolkits.value is not None else ()) if usable(entry)]
    for entry in folders[:1]:
        said.append(f"toolkit {entry.version or 'of unknown version'} in {entry.path}")
    nvcc = facts.value(NVCC)
    if nvcc is not None:
        said.append(f"nvcc {nvcc.version}")
    return Line("; ".join(said) or "no toolkit, and nothing in the examined Python needs one", toolkits.some())


def _listed(parts: dict[str, Component]) -> str:
    words = [f"{name} {part.version or ''}".strip() for name, part in parts.items() if part.path is not None]
    missing = [name for name, part in parts.items() if part.path is None]
    rules = sorted({part.rule for part in parts.values() if part.path is not None and part.rule is not None})
    said = ", ".join(words) or "nothing"
    said += f" ({', '.join(rules)})" if rules else ""
    return said + (f"; not {', '.join(missing)}" if missing else "")


CHECK = Check(
    id="toolkit",
    title="CUDA toolkit",
    looks_at="NVVM, libdevice, NVRTC and cudart as Numba finds them, toolkit folders, nvcc",
    items=("python-env", "nvcc", "ladder", "nvml", "pci"),
    rules=(
        Rule("toolkit", (MISSING,), any_of(_parts_missing, _stale)),
        Rule("toolkit", (DAMAGED,), _damaged),
        Rule("toolkit", (NEWER,), _newer_than_driver),
        Rule("toolkit", (DROPPED,), _dropped),
        Rule("toolkit", (TOO_OLD,), _too_old),
    ),
    describe=_describe,
)
