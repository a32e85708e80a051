"""What of NVIDIA's driver is on the disk: packages, DKMS entries, module files, libraries, nvidia-smi; and which branch it is."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple, TypeVar

from cudadoctor.checks.reading import Quotes, climbed, first_true, line_if, need_whole_list, passed, statements, told
from cudadoctor.model.facts import Fact, Facts, Key
from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import (
    DKMS,
    DRIVER_FILES,
    DRIVER_PACKAGES,
    KERNEL,
    LADDER,
    LIBRARIES,
    LOADED_DRIVER,
    MODULE_FILES,
    MODULE_FOR_RUNNING,
    NVML,
    SMI,
    Libraries,
    ModuleFile,
    Package,
)

T = TypeVar("T")
NO_FILE = "cannot open shared object file: No such file or directory"  # the loader's words
NO_LIBRARY = 12  # NVML_ERROR_LIBRARY_NOT_FOUND
# nvidia.ko under the names that distributions give it. nvidiafb, nvidia-wmi-ec-backlight and nvidia_cspmu are the kernel's own.
_MODULE_FILE = lazy(r"(?:^|/)nvidia(?:[-_](?:current|open|tesla|legacy|server|srv|\d)[^/]*)?\.ko(?:\.\w+)?$")
_DRIVER_PACKAGE = lazy(
    r"nvidia(?:-(?:driver|dkms|kernel|headless|open|utils|compute|smi|kmod|current|legacy|tesla|lts|x11|video-g0|gl-g0|libs|\d{3}(?:xx)?)\b.*)?$"
    r"|linux-(?:modules|objects|signatures)-nvidia|(?:a?kmod|dkms)-nvidia|xorg-x11-drv-nvidia|x11-video-nvidia|xserver-xorg-video-nvidia"
    r"|cuda-drivers|libcuda1$|libnvidia-(?:compute|ml|gl|decode|encode|cfg|extra|common)"
)
# Tools and repositories that carry "driver" or "kernel" in their name and bring no driver.
_NO_DRIVER = lazy(r"local-repo|driver-assistant|driver-selector|fabricmanager|-dev(el)?$")
_BRANCH_IN_NAME = lazy(r"(?:^|-)(\d{3})(?:xx)?(?:-|$)")
_VERSION = lazy(r"(?:^|:)(\d{3})\.\d+")


def is_driver_package(package: Package) -> bool:
    """Whether a package brings a part of the driver and is installed (dpkg keeps removed packages as rc)."""
    gone = len(package.state) > 1 and package.state[1] in "cn"
    return not gone and _DRIVER_PACKAGE.match(package.name) is not None and _NO_DRIVER.search(package.name) is None


def is_driver_module(file: ModuleFile) -> bool:
    return _MODULE_FILE.search(file.path) is not None


def of_the_driver(path: str) -> bool:
    """Whether a libcuda or libnvidia-ml belongs to the installed driver: neither a toolkit's stub nor a cuda-compat package."""
    return "/stubs" not in path and "compat" not in path


# ---------------------------------------------------------------- questions, each with the lines that answer it yes
def package(facts: Facts) -> Quotes:
    for fact in statements(facts, DRIVER_PACKAGES):
        for entry in fact.need():
            if is_driver_package(entry):
                return fact.line_of(entry.line)
    need_whole_list(facts, DRIVER_PACKAGES)
    return ()


def dkms_entry(facts: Facts) -> Quotes:
    fact = facts[DKMS]
    entries = [entry for entry in fact.value or () if entry.module.startswith("nvidia")]
    return fact.line_of(entries[0].line) if entries else ()


def modules_on_disk(facts: Facts) -> tuple[tuple[Fact[tuple[ModuleFile, ...]], ModuleFile], ...]:
    """NVIDIA's module files, for whichever kernel."""
    found = tuple((fact, file) for fact in statements(facts, MODULE_FILES) for file in fact.need() if is_driver_module(file))
    if not found:
        need_whole_list(facts, MODULE_FILES)
    return found


def module_for_kernel(facts: Facts, release: str) -> Quotes:
    """The lines of a module file that the running kernel can load."""
    if facts.value(MODULE_FOR_RUNNING) is False:
        return ()
    for fact, file in modules_on_disk(facts):
        if file.kernel == release:
            return fact.lines_with(file.path)[:1]
    need_whole_list(facts, MODULE_FILES)
    return ()


def any_module_file(facts: Facts) -> Quotes:
    return next((fact.lines_with(file.path)[:1] for fact, file in modules_on_disk(facts)), ())


def smi(facts: Facts) -> Quotes:
    return line_if(facts, SMI, lambda smi: True)


def library(facts: Facts, name: str) -> Quotes:
    """The lines that show a library of the driver (libcuda.so, libnvidia-ml.so)."""

    def among(key: Key[Libraries]) -> Quotes:
        for fact in statements(facts, key):
            for file in fact.need().find(name):
                if of_the_driver(file.path):
                    return fact.line_of(file.line) if file.line else fact.lines_with(file.path)[:1]
        need_whole_list(facts, key)
        return ()

    def listed() -> Quotes:
        """ldconfig lists what was there when its cache was written; the loader knows what is there now."""
        nvml = facts.value(NVML)
        said = [entry.output for entry in climbed(facts).result("libcuda") if entry.status == "fail"]
        said += [nvml.message or ""] if nvml is not None else []
        return () if any(f"{name}.1: {NO_FILE}" in words for words in said) else among(LIBRARIES)

    loaded = loaded_libcuda if name == "libcuda.so" else loaded_libnvidia_ml
    return first_true(lambda: among(DRIVER_FILES), listed, lambda: loaded(facts))


def loaded_libcuda(facts: Facts) -> Quotes:
    """The lines that show that the driver's libcuda was loaded, wherever it lies."""
    fact = facts[LADDER]
    good = passed(fact.value, "libcuda") and of_the_driver(fact.need().library_path or "")
    return fact.lines_with("libcuda")[:1] if good else ()


def loaded_libnvidia_ml(facts: Facts) -> Quotes:
    return line_if(facts, NVML, lambda nvml: nvml.code >= 0 and nvml.code != NO_LIBRARY)


def any_library(facts: Facts) -> Quotes:
    return first_true(*(partial(library, facts, name) for name in ("libcuda.so", "libnvidia-ml.so")))


def any_trace(facts: Facts) -> Quotes:
    """The lines of the first trace of a driver, () where every place was looked at and holds none."""
    return first_true(*(partial(question, facts) for question in (dkms_entry, any_module_file, package, smi, any_library)))


# ---------------------------------------------------------------- which branch
class Installed(NamedTuple):
    """The driver branch that is loaded, or would be."""

    branch: int
    version: str
    quotes: Quotes


def installed_branch(facts: Facts, base: Fact[T]) -> Installed | None:
    """The loaded module's branch; else the running kernel's module file, DKMS, the driver packages, in this order of trust."""
    if told(facts, LOADED_DRIVER, base) is not None:
        fact = facts[LOADED_DRIVER]
        version = fact.need().version
        return Installed(version.major, version.text, fact.some()[:1])
    return next(_on_disk(facts, base), None)


def _on_disk(facts: Facts, base: Fact[T]) -> Iterator[Installed]:
    if told(facts, MODULE_FILES, base) is not None:
        kernel = told(facts, KERNEL, base)
        for fact, file in modules_on_disk(facts):
            if file.version is not None and (file.kernel is None or kernel is None or file.kernel == kernel.release):
                yield Installed(file.version.major, file.version.text, fact.lines_with(file.version.text)[:1])
    for entry in told(facts, DKMS, base) or ():
        number = _VERSION.search(entry.version)
        if entry.module.startswith("nvidia") and number is not None:
            yield Installed(int(number[1]), entry.version, facts[DKMS].line_of(entry.line))
    for listing in statements(facts, DRIVER_PACKAGES) if told(facts, DRIVER_PACKAGES, base) is not None else ():
        for package in listing.need():
            number = _BRANCH_IN_NAME.search(package.name) or _VERSION.search(package.version)
            if is_driver_package(package) and number is not None:
                yield Installed(int(number[1]), package.version, listing.line_of(package.line))
