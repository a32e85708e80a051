"""The values that recipes speak of as {name}, as far as they are known here.

A value that does not have the form its place asks for is left out, and the step becomes words: nothing half-understood enters a command.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping

from cudadoctor.inventory.devices import plain_address
from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import (
    DEVICE_NODES,
    DRAINED_NODE,
    DRIVER_FILES,
    LADDER,
    LIBRARIES,
    LISTED_TOOLKITS,
    LOADED_DRIVER,
    NVCC,
    PYTHON,
    SETTING,
    SMI,
    TOOLKIT_MODULES,
    TOOLKITS,
    USER,
    WSL_DISTRIBUTIONS,
)
from cudadoctor.model.version import ComputeCapability, ToolkitVersion
from cudadoctor.prescribe import frameworks, free_gpu, kernel_module, managers, one_recipe, pip, places, processes, settings
from cudadoctor.prescribe.case import Case, Stack
from cudadoctor.prescribe.driver_values import docker, driver, fabric_manager, libraries, linux_driver
from cudadoctor.prescribe.pip import newest_python, stack_of
from cudadoctor.prescribe.shells import Found, Script, Value, each, printable

NEWEST_SERIES = 13  # of CUDA: a driver of it runs machine code of each of its toolkits


def placeholders(case: Case) -> Mapping[str, Value]:
    """Every value that is known and has the right form. Looked for once in each case: all steps ask."""
    return _looked_for(case)[0]


def refused(name: str, case: Case) -> bool:
    """Whether such a value is known and may not stand in a command."""
    return name in _looked_for(case)[1]


def _looked_for(case: Case) -> tuple[Mapping[str, Value], frozenset[str]]:
    """The values, and the names of those that have not the right form."""
    made: dict[str, tuple[Mapping[str, Value], frozenset[str]]] = vars(case)
    if "placeholders" not in made:
        found: dict[str, Value] = {}
        named = set()
        for source in _SOURCES:
            for name, value in source(case):
                if value:
                    named.add(name)
                    own = name not in _UNITS or fits("unit_of_others", value, case.knowledge) or case.found_here
                    if own and (isinstance(value, Script) or fits(name, value, case.knowledge, anywhere=_ran_here(name, value, case))):
                        found[name] = value
        made["placeholders"] = found, frozenset(named - found.keys())
    return made["placeholders"]


# What a text or a recording calls a service may be the one that the network hangs on.
_UNITS = ("units", "unit", "closed_unit", "mode_unit")


def _ran_here(name: str, value: Value, case: Case) -> bool:
    """Whether it is the interpreter that was just examined on this machine: it passed for one that may be started, wherever it lies."""
    fact = case.facts.there(PYTHON)
    return name == "python" and fact is not None and fact.origin == "live" and value in (fact.need().named, fact.need().path)


def fits(name: str, value: Value, knowledge: Knowledge, *, anywhere: bool = False) -> bool:
    """Whether a value has the form that its place asks for; no value stands for an option. `anywhere`: whatever folder it lies in."""
    form = knowledge.placeholder_forms.get(name) if not anywhere else None
    return all(printable(part) and part[:1] != "-" and (form is None or form.fullmatch(part) is not None) for part in each(value))


def for_commands(values: Mapping[str, Value], knowledge: Knowledge) -> dict[str, Value]:
    """Those that may stand in a command: without a form of its own a value is a name or a version, for most come from a machine's lists."""
    forms, plain = knowledge.placeholder_forms, knowledge.placeholder_forms[_PLAIN]

    def may(name: str, value: Value) -> bool:
        return name in forms or isinstance(value, Script) or all(plain.fullmatch(part) is not None for part in each(value))

    return {name: value for name, value in values.items() if may(name, value)}


_PLAIN = "plain"


# ---------------------------------------------------------------- files and variables
def _files(case: Case) -> Found:
    own = case.root.subject.removeprefix("gpu:") if case.root.subject.startswith("gpu:") else None
    only = case.gpus.addresses if case.root.cause != "mig-without-instances" else _without_instances(case)
    yield "gpu_address", case.value("address") or own or (only[0] if len(only) == 1 else None)
    yield "variable", settings.variable(case)
    yield "libcuda_folder", _libcuda_folder(case)
    ladder = case.get(LADDER)
    loaded = case.value("path") or (ladder.library_path if ladder is not None else None)
    folder = posixpath.dirname(loaded) if loaded is not None and loaded.startswith("/") else None
    yield "stub_folder", folder
    # A folder with other libraries, in which somebody put the stub or a link to it.
    yield "stub_file", loaded if folder is not None and "stubs" not in folder.split("/") else None
    yield from _cuda_home(case)
    yield "numba_config", _numba_config(case)
    path = case.value("path") or (case.python.shadows[0].path if case.python is not None and case.python.shadows else None)
    yield "path", path
    yield "software", path
    if path is not None:
        separator = "\\" if case.windows and "\\" in path else "/"
        folder, found, name = path.rstrip(separator).rpartition(separator)
        yield "new_path", f"{folder}{found}my_{name}"


def _without_instances(case: Case) -> tuple[str, ...]:
    """The GPUs in MIG mode below which nvidia-smi lists no instance."""
    smi = case.get(SMI)
    listed = (gpu for gpu in (smi.gpus if smi is not None else ()) if gpu.mig == "Enabled" and not gpu.mig_uuids)
    return tuple(plain_address(gpu.address) for gpu in listed if gpu.address is not None)


_WRITTEN_TO = lazy(r"-- Build files have been written to: (?P<folder>/\S{1,300})$")
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
    owned, folder = case.system.toolkit or (None, None)  # where no toolkit was looked for: the distribution's package is listed
    good += [folder] if known is None and folder is not None and any(one.name == owned for one in case.packages) else []
    yield "cuda_home", next((path for path in good if path.rstrip("/") != (case.value("value") or "").rstrip("/")), None)


def _numba_config(case: Case) -> str | None:
    stated = case.value("numba_config") or case.value("path")
    if stated is not None and stated.endswith((".yaml", ".yml")):
        return stated
    lines = case.python.numba_config if case.python is not None else ()
    return lines[0].path if lines else None


def _people(case: Case) -> Found:
    user = case.get(USER)
    name = case.value("user") if case.root.cause == "device-permission-denied" else None
    yield "user", name or (user.name if user is not None else None)
    yield "group", case.value("group") or node_group(case)
    old = sorted((one for one in case.get(WSL_DISTRIBUTIONS) or () if one.version == 1), key=lambda one: not one.default)
    yield "wsl_distribution", old[0].name if old else None  # what `wsl` starts, else the first of these
    yield "drained_node", case.get(DRAINED_NODE)
    yield "slurm_partition", places.partition(case)


# What a rule found and a step names as it is.
_STATED = (
    "place", "option", "opposite", "own", "packages", "byte_code", "startup_file", "kernel_compiler",
    "repository", "submit", "mig_resources", "l4t", "l4t_major", "major", "old_major", "lxc", "instance", "amount", "call", "unit",
    "second_spec", "closed_unit", "mode_unit", "glibc", "cxx_file", "cxx_version", "interface", "lacking",
)  # fmt: skip


def _stated(case: Case) -> Found:
    yield from ((name, case.value(name)) for name in _STATED)
    seen = case.facts.there(PYTHON)  # a recording may name any package, and this one would be uninstalled
    yield "owning_package", case.value("owning_package") if seen is None or seen.origin == "live" else None
    yield "kept_path", case.value("kept")
    yield "wrong_value", case.value("value")
    yield "l4t_image", case.value("image") if case.value("l4t") else None


def node_group(case: Case) -> str | None:
    """The group that may open the device files, where there is one besides root's."""
    nodes = case.get(DEVICE_NODES)
    for node in nodes.nodes if nodes is not None else ():
        if node.path.startswith("/dev/nvidia") and node.group not in ("root", "0", ""):
            return node.group
    return None


# ---------------------------------------------------------------- Python
def _python(case: Case) -> Found:
    python = case.python
    yield "python", _interpreter(case)
    yield "prefix", managers.conda_prefix(case) or (python.prefix if python is not None else None)
    yield "project", managers.project(case)
    series = pip.series(case)
    yield "requirement", pip.REQUIREMENTS.get(series or "")
    loaded = case.get(LOADED_DRIVER)  # what the choice rests on, where it rests on something
    capabilities = ", ".join(one.text for one in case.gpus.capabilities)
    yield "fits", f" It fits driver {loaded.version} and compute capability {capabilities}." if loaded and capabilities else None
    newer = pip.newer_wheels(case)
    yield "newer_wheels", tuple(newer) or None
    yield "same_wheels", tuple(f"{name}=={version.text}" for name, version in newer.items()) or None
    yield "lowest_capability", case.gpus.lowest_capability.text if case.gpus.lowest_capability is not None else None
    yield "numpy_bound", f"numpy<{pip.BELOW}"  # numba-cuda does not state it
    major = series.removeprefix("cu") if series is not None else None
    yield "cuda_major", major
    # For what conda-forge builds for one series alone: a driver runs those of the series before its own too.
    yield "cuda_bound", f"cuda-version<{int(major) + 1}" if major is not None else None
    yield "minimum_driver", _minimum_driver(case)
    yield "driver_cuda", None if case.cuda is None else "{}.{}".format(*case.cuda.major_minor)
    if case.cuda is not None and case.cuda.major >= 12:
        yield "toolkit_requirement", "cuda-toolkit=={}.{}.*".format(*case.cuda.major_minor)
    aligning = "align-python-packages" in case.cause.recipes  # what fits is read from a large table
    stated = pip.bounded(case.value("requirement"), case) or frameworks.jax_of_jaxlib(case)
    wanted = stated or (pip.numpy_requirement(case) if aligning else None)
    yield "fitting_requirement", _requirement(wanted, case.forms["packages"]["of-python"])
    yield from _toolkits(case)
    stack = case.stack or (stack_of(case) if series is None or case.root.cause == "numba-too-old" else None)  # its recipe names a Python
    if stack is not None:
        yield from _stack(stack, windows=case.windows)
    if case.root.cause == "container-cuda-too-new" and re.fullmatch(r"\d{1,2}\.\d{1,2}", case.value("version") or ""):
        yield "container_cuda", f"CUDA {case.values['version']}"


def _minimum_driver(case: Case) -> str | None:
    """The oldest driver for the build that is wanted: machine code runs within a major version, so that one counts. A driver that is
    as new as that was asked for more: PTX, or a function of the newer CUDA.
    """
    wanted, here = case.wanted_cuda, case.module
    least = case.knowledge.driver_minimum(wanted, windows=case.windows) if wanted is not None else None
    if least is None:
        return None
    version = least.minor if least.minor is not None and (here is None or here < least.minor) else least.full
    return version.text if version is not None else None


def _interpreter(case: Case) -> Value:
    """The Python that packages go into: the examined one, or the environment that is made because that one refuses them or is too old."""
    too_old = case.stack is not None and pip.outdated(case, case.stack) and managers.conda_prefix(case) is None
    if pip.refused(case) or too_old:
        return Script('"$HOME"/gpu-env/bin/python')
    started = managers.RUNS.get(managers.manager(case) or "") if case.python is None else None
    return case.value("python") or pip.interpreter(case) or Script(started or ("python" if case.windows else "python3"))


def _stack(stack: Stack, *, windows: bool) -> Found:
    yield "numba_requirement", stack.numba
    yield "wanted_python", newest_python(stack)
    if stack.toolkit is not None:
        number = "{}.{}".format(*stack.toolkit.major_minor)
        yield "numba_toolkit", number
        there = "C:\\Program Files\\NVIDIA GPU Computing Toolkit\\CUDA\\v" if windows else "/usr/local/cuda-"
        yield "numba_toolkit_folder", f"{there}{number}"


def _toolkits(case: Case) -> Found:
    """The oldest and the newest toolkit that knows every GPU: by compute capability where it is known, else by architecture."""
    rows = [row for row in map(case.knowledge.capability, case.gpus.capabilities) if row is not None] or case.gpus.architectures
    last = min((row.last_toolkit for row in rows if row.last_toolkit is not None), default=None)
    number = case.value("sm")  # of the architecture that the compiler refused, which need not be a GPU's here: "100" is 10.0
    refused = case.knowledge.capability(ComputeCapability(f"{number[:-1]}.{number[-1]}")) if number is not None else None
    firsts = [row.first_toolkit for row in (*rows, *((refused,) if refused is not None else ())) if row.first_toolkit is not None]
    first = max(firsts, default=None)
    yield "last_toolkit", last.text if last is not None else None
    yield "first_toolkit", first.text if first is not None else None
    here = _toolkit_here(case, first, last)
    yield "toolkit_here", here
    yield "ptxas", f"{here}/bin/ptxas" if here is not None else None
    yield "toolkit_module", _toolkit_module(case, first, last)
    nvcc = case.get(NVCC)
    if nvcc is not None and first is not None and nvcc.version.major_minor >= first.major_minor:
        yield "nvcc_version", nvcc.version.text
        yield "build_folder", _build_folder(case)
    torch = case.value("torch_cuda")  # an extension is built with the CUDA of the PyTorch that loads it
    if torch is not None and re.fullmatch(r"\d{1,2}\.\d", torch) and not case.system.series_only:
        yield "toolkit_package", f"cuda-toolkit-{torch.replace('.', '-')}"
        yield "toolkit_folder", f"/usr/local/cuda-{torch}"
        return
    if case.system.toolkit is not None and last is None and (case.cuda is None or case.cuda.major >= NEWEST_SERIES):
        yield from zip(("toolkit_package", "toolkit_folder"), case.system.toolkit, strict=True)
    if first is not None and case.cuda is not None and first.major_minor <= case.cuda.major_minor:
        # The newest that the driver serves and every GPU takes: the repository has the driver's for every release that it is packaged for.
        major, minor = min(case.cuda.major_minor, last.major_minor) if last is not None else case.cuda.major_minor
        yield "toolkit_number", f"{major}.{minor}"
        if case.system.toolkit is None and (major >= NEWEST_SERIES or not case.system.series_only):
            release = str(major) if case.system.series_only else f"{major}.{minor}"
            yield "toolkit_package", f"cuda-toolkit-{release.replace('.', '-')}"
            yield "toolkit_folder", f"/usr/local/cuda-{release}"


def _toolkit_here(case: Case, first: ToolkitVersion | None, last: ToolkitVersion | None) -> str | None:
    """The folder of the newest toolkit on this machine that knows every GPU and is of a series that the driver serves."""
    found, series = case.get(TOOLKITS), case.cuda.major if case.cuda is not None else NEWEST_SERIES
    kits = (*(found.toolkits if found is not None else ()), *(case.get(LISTED_TOOLKITS) or ()))
    fit = [
        (kit.version.major_minor, kit.path.rstrip("/"))
        for kit in kits
        if kit.has_nvcc and not kit.stale and kit.version is not None and kit.version.major <= series
        if first is not None and kit.version.major_minor >= first.major_minor
        if last is None or kit.version.major_minor <= last.major_minor
    ]
    return max(fit, default=(None, None))[1]


def _build_folder(case: Case) -> str | None:
    """Where CMake wrote its files, as a user's text shows."""
    if "cmake-folder" not in case.setting.words:
        return None
    found = (_WRITTEN_TO.match(quote.text) for quote in getattr(case.facts.get(SETTING), "quotes", ()))
    return next((one["folder"] for one in found if one is not None), None)


def _toolkit_module(case: Case, first: ToolkitVersion | None, last: ToolkitVersion | None) -> str | None:
    """The cluster's module of the CUDA that PyTorch was built with; else of the newest that the GPUs and the driver take."""
    named = ((name, ToolkitVersion(name.rpartition("/")[2])) for name in case.get(TOOLKIT_MODULES) or ())
    found = sorted(named, key=lambda one: one[1].numbers)
    torch = frameworks.torch_cuda(case)
    if torch is not None:
        found = [one for one in found if "{}.{}".format(*one[1].major_minor) == torch]
    low = first.major_minor if first is not None else (0, 0)
    high = min((one.major_minor for one in (last, case.cuda) if one is not None), default=None)
    fit = [name for name, version in found if low <= version.major_minor and (high is None or version.major_minor <= high)]
    return fit[-1] if fit else None


def _requirement(text: str | None, known: re.Pattern[str]) -> str | None:
    if not text:
        return None
    from packaging.requirements import Requirement  # slow to import, seldom needed

    try:
        wanted = Requirement(text)
    except ValueError:
        return None
    return str(wanted) if wanted.url is None and wanted.marker is None and known.fullmatch(wanted.name.lower()) else None


_SOURCES: tuple[Callable[[Case], Found], ...] = (
    driver, kernel_module.values, libraries, linux_driver, _files, _people, _stated, processes.values, _python, frameworks.values,
    free_gpu.values, one_recipe.values, settings.values, fabric_manager, docker,
)  # fmt: skip
