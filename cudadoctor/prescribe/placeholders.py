"""The values that recipes speak of as {name}, as far as they are known here.

A value that does not have the form its place asks for is left out, and the step becomes words: nothing half-understood enters a command.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping

from packaging.requirements import InvalidRequirement, Requirement

from cudadoctor.model.values import (
    DEVICE_NODES,
    DRIVER_FILES,
    DRIVER_PACKAGES,
    KERNEL,
    LADDER,
    LIBRARIES,
    LOADED_DRIVER,
    TOOLKITS,
    USER,
)
from cudadoctor.prescribe import pip
from cudadoctor.prescribe.case import Case
from cudadoctor.prescribe.packages import resolved, suse_group
from cudadoctor.prescribe.shellwords import Value, one_line

_FORMS: dict[str, re.Pattern[str]] = {
    name: re.compile(pattern)
    for names, pattern in (
        (("pid", "parent", "start_low", "start_high", "parent_start_low", "parent_start_high", "rhel_major", "cuda_major"), r"\d{1,12}"),
        (("variable", "cuda_variable"), r"[A-Za-z_]\w*"),
        (("gpu_address",), r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]"),
        (("kernel",), r"[\w.+~-]+"),
        (("python", "prefix", "cuda_home", "libcuda_folder", "stub_folder", "numba_config", "path", "new_path"), r"[^-].*"),
        (("user", "group", "owner"), r"[^-].*"),
    )
    for name in names
}
# What a sentence says where the value is not known.
WORDS: dict[str, str] = {
    "cuda_home": "the folder that holds bin/nvcc", "cuda_major": "12 or 13, as the driver allows", "cuda_variable": "CUDA_HOME",
    "driver_cuda": "its `CUDA Version` in nvidia-smi", "driver_packages": "the driver's packages", "driver_stream": "nvidia-driver",
    "first_toolkit": "of the release that introduced this GPU's generation", "fitting_requirement": "the version that the message asks for",
    "gpu_address": "that lspci shows", "group": "that `ls -l /dev/nvidia0` shows", "kernel": "(uname -r)",
    "kernel_headers": "the kernel's headers", "kept_path": "the other folders", "last_toolkit": "it depends on its generation",
    "libcuda_folder": "the folder with libcuda.so.1",
    "library_packages": "the driver's library package", "library_version": "see modinfo -F version nvidia",
    "linux_driver_packages": "nvidia-driver, libnvidia-compute, cuda-drivers", "module_version": "see /proc/driver/nvidia/version",
    "new_path": "another name", "numba_config": ".numba_config.yaml", "owner": "another user", "parent": "(its PPID)",
    "parent_start_high": "", "parent_start_low": "", "path": "with the package's name", "pid": "(its PID)",
    "prebuilt_module": "linux-modules-nvidia-...", "prefix": "this environment", "python": "python3", "repository_machine": "x86_64",
    "requirement": "numba-cuda[cu12]", "rhel_major": "", "smi_packages": "the driver's tools", "start_high": "", "start_low": "",
    "stub_folder": ".../stubs", "toolkit_requirement": "cuda-toolkit of that version", "user": "who runs the program",
    "variable": "CUDA_VISIBLE_DEVICES",
}  # fmt: skip

Found = Iterator[tuple[str, "Value | None"]]


def placeholders(case: Case) -> Mapping[str, Value]:
    """Every value that is known and has the right form."""
    found: dict[str, Value] = {}
    for source in _SOURCES:
        for name, value in source(case):
            if value and _fits(name, value):
                found[name] = value
    return found


def _fits(name: str, value: Value) -> bool:
    parts = (value,) if isinstance(value, str) else value
    form = _FORMS.get(name)
    return all(one_line(part) and (form is None or form.fullmatch(part) is not None) for part in parts)


# ---------------------------------------------------------------- the driver and its packages
def _driver(case: Case) -> Found:
    yield "driver_words", case.driver.words
    yield "driver_packages", case.driver.packages
    yield "driver_stream", case.driver.stream
    yield "rhel_major", case.system.major
    kernel = case.get(KERNEL)
    release = kernel.release if kernel is not None else case.value("kernel", "release")
    machine = kernel.machine if kernel is not None and kernel.machine else "x86_64"
    yield "repository_machine", "sbsa" if machine in ("aarch64", "arm64") else machine
    yield "kernel", release
    if release is not None and _FORMS["kernel"].fullmatch(release):
        yield "kernel_headers", _headers(case, release)
        yield "prebuilt_module", _prebuilt(case, release)
    loaded = case.get(LOADED_DRIVER)
    yield "module_version", loaded.version.text if loaded is not None else case.value("module", "module_version")
    yield "library_version", case.value("library", "library_version")


def _headers(case: Case, release: str) -> tuple[str, ...]:
    if case.system.family in ("fedora", "rhel"):
        return (f"kernel-devel-{release}",)
    if case.system.family == "suse":
        return ("kernel-default-devel",)
    if case.system.family == "arch":
        flavour = next((name for name in ("lts", "zen", "hardened", "rt") if f"-{name}" in release), None)
        return (f"linux-{flavour}-headers",) if flavour else ("linux-headers",)
    return (f"linux-headers-{release}",)


def _prebuilt(case: Case, release: str) -> str | None:
    """Ubuntu's signed modules: the package of the running kernel, named after the one that is installed for another kernel."""
    packages = case.get(DRIVER_PACKAGES)
    for package in packages.packages if packages is not None else ():
        found = re.match(r"(linux-modules-nvidia-\d+(?:-server)?(?:-open)?)-\d", package.name)
        if found is not None:
            return f"{found[1]}-{release}"
    return None


def _branch_here(case: Case) -> tuple[int | None, str]:
    """The branch whose libraries belong to this machine, and Ubuntu's suffix of it (-server)."""
    loaded = case.get(LOADED_DRIVER)
    packages = case.get(DRIVER_PACKAGES)
    names = [package.name for package in packages.packages] if packages is not None else []
    if loaded is not None:
        branch = loaded.version.major
        server = any(name.endswith(f"-{branch}-server") or f"-{branch}-server-" in name for name in names)
        return branch, "-server" if server else ""
    found = next((match for match in (re.match(r"nvidia-driver-(\d+)(-server)?", name) for name in names) if match), None)
    return (int(found[1]), found[2] or "") if found else (case.driver.branch, "")


def _libraries(case: Case) -> Found:
    branch, server = _branch_here(case)
    family = case.system.family
    library: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    if family == "ubuntu" and branch is not None:
        package = resolved(f"nvidia-driver-{branch}{server}", case.system.codename, case.knowledge)
        end = package.removeprefix("nvidia-driver-").removesuffix("-open")
        library, tools = (f"libnvidia-compute-{end}",), (f"nvidia-utils-{end}",)
    elif family == "debian":
        library, tools = ("libcuda1", "libnvidia-ml1", "libnvidia-ptxjitcompiler1"), ("nvidia-smi",)
    elif family == "fedora":
        legacy = "-470xx" if branch == 470 else "-390xx" if branch == 390 else ""
        library, tools = (f"xorg-x11-drv-nvidia{legacy}-cuda-libs",), (f"xorg-x11-drv-nvidia{legacy}-cuda",)
    elif family == "rhel":
        library, tools = ("nvidia-driver-cuda-libs",), ("nvidia-driver-cuda",)
    elif family == "arch":
        library = tools = (f"nvidia-{branch}xx-utils",) if branch in (390, 470, 580) and case.driver.origin == "aur" else ("nvidia-utils",)
    elif family == "suse":
        group = suse_group(branch)
        library, tools = (f"nvidia-compute-{group}",), (f"nvidia-compute-utils-{group}",)
    yield "library_packages", library
    yield "smi_packages", tools
    number = "NNN" if branch is None else str(branch)
    anywhere = "Fedora: xorg-x11-drv-nvidia-cuda{}; Arch: nvidia-utils"
    yield "library_words", " ".join(library) or f"Ubuntu: libnvidia-compute-{number}; Debian: libcuda1; {anywhere.format('-libs')}"
    yield "smi_words", " ".join(tools) or f"Ubuntu: nvidia-utils-{number}; Debian: nvidia-smi; {anywhere.format('')}"


_LINUX_DRIVER = re.compile(
    r"nvidia-(driver|dkms|kernel|utils|compute|firmware|open|prime|settings)|libnvidia-(?!container)|libcuda1|cuda-drivers|xserver-xorg-video-nvidia"
)


def _linux_driver(case: Case) -> Found:
    packages = case.get(DRIVER_PACKAGES)
    found = [package.name for package in packages.packages if _LINUX_DRIVER.match(package.name)] if packages is not None else []
    yield "linux_driver_packages", tuple(name for name in found if re.fullmatch(r"[a-z0-9][\w.+:-]*", name))


# ---------------------------------------------------------------- files and variables
def _files(case: Case) -> Found:
    yield "gpu_address", case.value("address") or (case.gpus.addresses[0] if len(case.gpus.addresses) == 1 else None)
    yield "variable", case.value("variable") or "CUDA_VISIBLE_DEVICES"
    yield "kept_path", case.value("kept")
    yield "libcuda_folder", _libcuda_folder(case)
    ladder = case.get(LADDER)
    loaded = case.value("path") or (ladder.library_path if ladder is not None else None)
    yield "stub_folder", posixpath.dirname(loaded) if loaded is not None and loaded.startswith("/") else None
    yield from _cuda_home(case)
    yield "numba_config", _numba_config(case)
    path = case.value("path") or (case.python.shadows[0].path if case.python is not None and case.python.shadows else None)
    yield "path", path
    if path is not None:
        clean = path.rstrip("/")
        yield "new_path", posixpath.join(posixpath.dirname(clean), "my_" + posixpath.basename(clean))


_LIBRARY_FOLDERS = ("lib", "lib64", "lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu")
STANDARD_FOLDERS = tuple(f"{root}/{name}" for root in ("", "/usr") for name in _LIBRARY_FOLDERS)


def _libcuda_folder(case: Case) -> str | None:
    """A folder with the driver's libcuda that the loader does not search by itself."""
    listed = case.get(DRIVER_FILES) or case.get(LIBRARIES)
    paths = [case.value("path") or "", *(file.path for file in (listed.find("libcuda.so") if listed is not None else ()))]
    folders = [posixpath.dirname(path) for path in paths if posixpath.basename(path).startswith("libcuda.so")]
    special = (folder for folder in folders if "/stubs" not in folder and "/compat" not in folder)
    return next((folder for folder in special if folder not in STANDARD_FOLDERS), None)


def _cuda_home(case: Case) -> Found:
    name = case.value("variable")
    yield "cuda_variable", name if name in ("CUDA_HOME", "CUDA_PATH", "CUDA_ROOT") else "CUDA_HOME"
    if case.root.cause == "cuda-home-wrong" and "path" in case.values:
        yield "cuda_home", case.values["path"] or None
        return
    known = case.get(TOOLKITS)
    good = [entry.path for entry in (known.toolkits if known is not None else ()) if entry.has_nvcc and not entry.stale]
    yield "cuda_home", next((path for path in good if path.rstrip("/") != (case.value("value") or "").rstrip("/")), None)


def _numba_config(case: Case) -> str | None:
    stated = case.value("path")
    if stated is not None and stated.endswith((".yaml", ".yml")):
        return stated
    lines = case.python.numba_config if case.python is not None else ()
    return lines[0].path if lines else None


def _people(case: Case) -> Found:
    user = case.get(USER)
    name = case.value("user") if case.root.cause == "device-permission-denied" else None
    yield "user", name or (user.name if user is not None else None)
    yield "group", case.value("group") or node_group(case)


def node_group(case: Case) -> str | None:
    """The group that may open the device files, where there is one besides root's."""
    nodes = case.get(DEVICE_NODES)
    for node in nodes.nodes if nodes is not None else ():
        if node.path.startswith("/dev/nvidia") and node.group not in ("root", "0", ""):
            return node.group
    return None


# ---------------------------------------------------------------- processes
def _process(case: Case) -> Found:
    if case.pid is None:
        return
    yield "pid", str(case.pid)
    process = case.process
    start = process.start_time if process is not None else None
    if start is None and case.value("pid") == str(case.pid):
        stated = case.value("start_time") or ""
        start = float(stated) if re.fullmatch(r"\d{1,12}(\.\d+)?", stated) else None
    yield from _start("start", start)
    yield "owner", (process.user if process is not None else None) or case.value("user")
    if process is not None and process.ppid is not None and process.ppid > 1:
        parent = _parent(case, process.ppid)
        yield "parent", str(process.ppid)
        yield from _start("parent_start", parent)


def _parent(case: Case, pid: int) -> float | None:
    import msgspec

    process = msgspec.structs.replace(case, pid=pid).process
    return process.start_time if process is not None else None


def _start(name: str, start: float | None) -> Found:
    """Two seconds of grace on both sides: ps and the process table round differently."""
    if start is not None and start == start and 0 < start < 10**11:
        yield f"{name}_low", str(int(start) - 2)
        yield f"{name}_high", str(int(start) + 2)


# ---------------------------------------------------------------- Python
def _python(case: Case) -> Found:
    python = case.python
    yield "python", case.value("python") or (python.path if python is not None else None)
    yield "prefix", python.prefix if python is not None else None
    series = pip.series(case)
    yield "requirement", pip.requirement(series)
    yield "cuda_major", series.removeprefix("cu") if series is not None else None
    yield "driver_cuda", None if case.cuda is None else "{}.{}".format(*case.cuda.major_minor)
    if case.cuda is not None and case.cuda.major >= 12:
        yield "toolkit_requirement", "cuda-toolkit=={}.{}.*".format(*case.cuda.major_minor)
    yield "fitting_requirement", _requirement(case.value("requirement") or pip.numpy_requirement(case))
    yield from _toolkits(case)


def _toolkits(case: Case) -> Found:
    """The oldest and the newest toolkit that knows every GPU: by compute capability where it is known, else by architecture."""
    rows = [row for row in map(case.knowledge.capability, case.gpus.capabilities) if row is not None] or case.gpus.architectures
    last = min((row.last_toolkit for row in rows if row.last_toolkit is not None), default=None)
    first = max((row.first_toolkit for row in rows if row.first_toolkit is not None), default=None)
    yield "last_toolkit", last.text if last is not None else None
    yield "first_toolkit", first.text if first is not None else None


def _requirement(text: str | None) -> str | None:
    try:
        return str(Requirement(text)) if text else None
    except InvalidRequirement:
        return None


_SOURCES: tuple[Callable[[Case], Found], ...] = (_driver, _libraries, _linux_driver, _files, _people, _process, _python)
