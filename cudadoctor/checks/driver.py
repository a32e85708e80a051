"""Row `driver`: which kernel driver holds the GPU, and whether NVIDIA's module is installed and loaded.

Whether that module, its flavour and the packages fit the GPU and the user-space driver is asked in driver_fit.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from cudadoctor.checks import driver_fit, traces, windows
from cudadoctor.checks.base import Check, Line, Rule
from cudadoctor.checks.reading import (
    WINDOWS,
    Gpu,
    Quotes,
    driver_is_out,
    elsewhere,
    first_true,
    gpus,
    line_if,
    listed,
    merged,
    module_named,
    not_loaded_line,
    told,
    unbound,
)
from cudadoctor.inventory import module_packages
from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.facts import Fact, Facts, Key, NotKnown, Quote
from cudadoctor.model.findings import Basis, Clue
from cudadoctor.model.values import DKMS, DRIVER_PACKAGES, KERNEL, LOADED_DRIVER, MODULE_FILES, MODULES, NVML, PCI, SETTING, SMI

NOUVEAU = ("nouveau", "nova", "novacore", "novadrm")  # without - and _, in small letters: the kernel spelt nova in several ways
PASSTHROUGH = ("vfiopci", "pcistub")
DRIVER_NOT_LOADED = 9  # NVML_ERROR_DRIVER_NOT_LOADED
NO_CONTACT = "communicate with the NVIDIA driver"


# ---------------------------------------------------------------- another driver holds the GPU
def _held_by(cause: str, drivers: tuple[str, ...], meant: str, facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """`meant`: the kind of words (tables/lexicon.toml), or of lines that name the GPU (circumstances.toml), by which a text says that it is
    to be held so: what its writer asks may then be quite another thing."""
    for gpu in gpus(facts):
        name = gpu.driver or ""
        if _plain(name) in drivers:
            wanted = facts[PCI].origin == "text" and _is_meant(facts, gpu, meant)
            naming, others = ([quote for quote in gpu.quotes if (name in quote.text) is names_it] for names_it in (True, False))
            yield Clue(cause=cause, quotes=(*naming, *others), subject=gpu.subject, basis="suspected" if wanted else "derived")


def _plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")


def _is_meant(facts: Facts, gpu: Gpu, kind: str) -> bool:
    found = facts.there(SETTING)
    if found is None or kind not in found.need().words:
        return False
    shown = next((quote.text for quote in found.quotes if quote.first == found.need().words[kind]), "")
    return kind in found.need().prose or gpu.address.partition(":")[2].partition(".")[0] in shown


def held_by_nouveau(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """Not where NVIDIA's module was never built for this kernel: nouveau took what was left over, and without it there is no driver."""
    try:
        unbuilt = any(built_for_other_kernel(facts, knowledge))
    except NotKnown:
        unbuilt = False
    if not unbuilt:
        yield from _held_by("nouveau-bound", NOUVEAU, "nouveau-meant", facts, knowledge)


def nouveau_loaded(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """nouveau is loaded, NVIDIA's module is not, and no listing says what holds the GPU."""
    modules = facts[MODULES]
    nouveau = module_named(facts, "nouveau")
    if not nouveau or module_named(facts, "nvidia") or told(facts, LOADED_DRIVER, modules) is not None:
        return
    if told(facts, PCI, modules) is not None and (any(gpu.driver_known for gpu in gpus(facts)) or not gpus(facts)):
        return
    yield Clue(cause="nouveau-bound", quotes=nouveau)


# ---------------------------------------------------------------- no driver holds it
def not_installed(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """A GPU without a driver, on a system where nothing of NVIDIA's driver is found."""
    free = _without_driver(facts)
    if free is None:
        return
    basis = _as_told(facts) if facts[PCI].origin == "text" else None if traces.any_trace(facts) else "derived"
    if basis is not None:
        yield Clue(cause="driver-not-installed", quotes=merged(free.quotes, _nothing(facts)), basis=basis)


def _without_driver(facts: Facts) -> Gpu | None:
    """The first GPU of a machine on which no kernel driver holds any, and NVIDIA's is not in memory."""
    bus = facts[PCI]
    if elsewhere(facts, bus) is not None:
        return None
    found = unbound(facts)
    return found[0] if found and driver_is_out(facts, bus) else None


def _as_told(facts: Facts) -> Basis | None:
    """How far a text says that nothing is installed: nvidia-smi is not found, and packages or module files were looked for."""
    asked = [_answer(facts, question) for question in (traces.package, traces.any_module_file, traces.dkms_entry, traces.any_library)]
    looked = asked[0] is not None or asked[1] is not None
    if any(asked) or (facts[SMI].present if not looked else told(facts, SMI, facts[PCI]) is not None):
        return None
    return "derived" if looked else "suspected"


def _answer(facts: Facts, question: Callable[[Facts], Quotes]) -> Quotes | None:
    """The question's lines, None where the text does not say."""
    try:
        return question(facts)
    except NotKnown:
        return None


def _nothing(facts: Facts) -> Quotes:
    """For wording: one line from each place that was looked at and holds nothing of a driver."""
    empty: tuple[Key[Any], ...] = (SMI, MODULE_FILES) if facts.value(DRIVER_PACKAGES) else (SMI, MODULE_FILES, DRIVER_PACKAGES)
    return tuple(quote for key in empty if isinstance(found := facts.get(key), Fact) for quote in found.quotes[:1])


def module_missing(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """A driver was installed, but no module for the running kernel."""
    free = _without_driver(facts) if facts[PCI].origin != "text" else None
    if free is None:
        return
    release = facts[KERNEL].need().release
    if traces.module_for_kernel(facts, release):
        return
    trace = traces.any_trace(facts)
    if trace:
        quotes = merged(free.quotes, (Quote(source="/lib/modules", text=f"/lib/modules/{release}: no nvidia module"),), trace)
        yield Clue(cause="driver-module-missing-for-kernel", quotes=quotes, values={"kernel": release})


def built_for_other_kernel(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """The same from a text, and where nouveau took the GPU meanwhile: DKMS or a package has the module for other kernels only, and nothing
    shows the driver at work."""
    known = facts.value(PCI)
    drivers = {_plain(gpu.driver) for gpu in known.nvidia_gpus if gpu.driver is not None} if known is not None else set()
    taken = bool(drivers) and drivers <= set(NOUVEAU)
    built = [entry for entry in (*_of_dkms(facts), *_of_packages(facts)) if taken or entry[0].origin == "text"]
    base = built[0][0] if built else facts[DKMS]
    if not built or elsewhere(facts, base) is not None or not (taken or driver_is_out(facts, base)):
        return
    bus, nvml, smi = told(facts, PCI, base), told(facts, NVML, base), told(facts, SMI, base)
    held = bus is not None and not taken and (not gpus(facts) or any(gpu.driver is not None for gpu in gpus(facts)))
    if held or (nvml is not None and nvml.code == 0) or (smi is not None and smi.gpus):
        return
    kernel = facts[KERNEL]
    release = kernel.need().release
    for_it = [fits(release) for _, fits, _ in built]
    if any(for_it) or not any(one is False for one in for_it):
        return
    if told(facts, MODULE_FILES, base) is not None and traces.module_for_kernel(facts, release):
        return
    others = [fact.line_of(line) for (fact, _, line), one in zip(built, for_it, strict=True) if one is False]
    yield Clue(cause="driver-module-missing-for-kernel", quotes=merged(kernel.some()[:1], *others[:3]), values={"kernel": release})


# Where it is said, whether the module is for the kernel of this release (None: nobody says), the line
_Built = tuple[Fact[Any], Callable[[str], bool | None], int]


def _of_dkms(facts: Facts) -> Iterator[_Built]:
    fact = facts.there(DKMS)
    for entry in fact.need() if fact is not None else ():
        if fact is not None and entry.module.startswith("nvidia"):
            yield fact, partial(_built_for, entry.kernel if entry.state.startswith("installed") else None), entry.line


def _built_for(kernel: str | None, release: str) -> bool:
    return kernel is not None and f"{release}.".startswith(f"{kernel}.")


def _of_packages(facts: Facts) -> Iterator[_Built]:
    """Those that hold a module ready-made. Where one builds it, DKMS says for which kernels."""
    fact = facts.there(DRIVER_PACKAGES)
    installed = [package for package in fact.need() if not package.state.startswith("r")] if fact is not None else []
    if fact is not None and not any(module_packages.BUILDER.search(package.name) for package in installed):
        yield from ((fact, partial(module_packages.fits, package.name), package.line) for package in installed)


def not_loaded(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """What is left: the GPU is there and so is a module for this kernel, or the user-space side finds no module; none is loaded."""
    bus = facts[PCI]
    if elsewhere(facts, bus) is not None:
        return
    found = gpus(facts)
    if not found or any(gpu.driver == "nvidia" for gpu in found) or not driver_is_out(facts, bus):
        return
    reason = first_true(
        lambda: _module_there(facts),
        lambda: line_if(facts, NVML, lambda nvml: nvml.code == DRIVER_NOT_LOADED),
        lambda: line_if(facts, SMI, lambda smi: NO_CONTACT in (smi.failure or "")),
    )
    if reason:
        # "couldn't communicate" in a text may have any of the causes that leave the module out of memory.
        sure = bus.origin != "text" or _answer(facts, _module_there)
        quotes = merged(found[0].quotes, reason, not_loaded_line(facts, "nvidia") if facts.why_unknown(MODULES) is None else ())
        yield Clue(cause="driver-not-loaded", quotes=quotes, basis="derived" if sure else "suspected")


def _module_there(facts: Facts) -> Quotes:
    return traces.module_for_kernel(facts, facts[KERNEL].need().release)


# ---------------------------------------------------------------- the line
def describe(facts: Facts, knowledge: Knowledge) -> Line:
    place = elsewhere(facts, facts[PCI]) if facts.why_unknown(PCI) is None else elsewhere(facts)
    if place == WINDOWS:
        return windows.describe_driver(facts, knowledge)
    if place == "WSL":
        return Line("WSL uses the driver of Windows: /usr/lib/wsl/lib and /dev/dxg", skip="WSL")
    if place is not None:
        return Line(f"{place}: the driver is part of the system image", skip=place)
    if not gpus(facts):
        return Line("no NVIDIA GPU to drive", facts[PCI].some()[:1], skip="no NVIDIA GPU")
    version, loaded = facts.there(LOADED_DRIVER), facts.value(LOADED_DRIVER)
    flavour = f" ({loaded.flavour})" if loaded is not None and loaded.flavour is not None else ""
    name = f"nvidia {loaded.version}{flavour}" if loaded is not None else "nvidia"
    held: dict[str, list[str]] = {}
    for gpu in gpus(facts):
        held.setdefault(gpu.driver or ("" if gpu.driver_known else "?"), []).append(gpu.address)
    words = [_drives(driver, listed(addresses), name) for driver, addresses in held.items()]
    if version is not None and "nvidia" not in held:
        words.append(f"{name} is loaded")
    return Line("; ".join(words), merged(version.some()[:1] if version is not None else (), *(gpu.quotes for gpu in gpus(facts)[:4])))


def _drives(driver: str, addresses: str, name: str) -> str:
    if driver == "?":
        return f"what drives {addresses} is not shown"
    if not driver:
        return f"no kernel driver holds {addresses}"
    return f"{name if driver == 'nvidia' else driver} drives {addresses}"


CHECK = Check(
    id="driver",
    title="Kernel driver",
    looks_at="the driver bound to each GPU, loaded modules, module files, DKMS, packages, Secure Boot, and the versions on both sides",
    items=(
        "pci", "lspci", "lshw", "modules", "lsmod", "sys-modules", "driver-version", "sys-driver-version", "module-files", "modinfo",
        "dkms", "mokutil", "packages", "uname", "proc-version", "tegra", "kernel-log", "nvidia-smi", "nvml", "ladder", "ldconfig",
        "driver-libraries", "pnp-devices", "video-controllers",
    ),
    rules=(
        Rule("driver", ("nouveau-bound",), held_by_nouveau),
        Rule("driver", ("nouveau-bound",), nouveau_loaded),
        Rule("driver", ("vfio-bound",), partial(_held_by, "vfio-bound", PASSTHROUGH, "guest-works")),
        Rule("driver", ("driver-not-installed",), not_installed),
        Rule("driver", ("driver-module-missing-for-kernel",), module_missing),
        Rule("driver", ("driver-module-missing-for-kernel",), built_for_other_kernel),
        Rule("driver", ("driver-not-loaded",), not_loaded),
        *driver_fit.RULES,
        *windows.RULES,
    ),
    describe=describe,
)  # fmt: skip
