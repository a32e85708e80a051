"""The software that fits a GPU and the driver that is or will be there: toolkit or wheels, Numba's release and target, NumPy, Python.

The architecture, driver, compatibility and Numba tables are joined here. A driver refuses PTX that is newer than the CUDA it supports, and
Numba makes PTX: so the toolkit must not be newer than the driver's CUDA, except where the wheels link to machine code (CUDA 12 and later).
"""

from __future__ import annotations

import ntpath
import re

from cudadoctor.knowledge.numba_rows import LAST_WITH_ROW_STACK, NUMPY_WITHOUT_ROW_STACK, NumbaRelease
from cudadoctor.model.facts import Unknown
from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import SETTING
from cudadoctor.model.version import ComputeCapability, PackageVersion, ToolkitVersion
from cudadoctor.prescribe.case import Case, Stack
from cudadoctor.prescribe.managers import conda_prefix
from cudadoctor.prescribe.shells import Script

OLDEST_OF_CU13 = ComputeCapability("7.5")  # CUDA 13 dropped Maxwell, Pascal and Volta
OLDEST_OF_CU12 = ComputeCapability("5.0")  # CUDA 12 dropped Kepler
OLDEST_OF_CU11 = ComputeCapability("3.5")
WHEELS_OF_CU11 = ToolkitVersion("11.8")  # the toolkit in the wheels that numba-cuda[cu11] brings
# What pip is asked for. numba-cuda 0.19 dropped CUDA 11.
REQUIREMENTS = {"cu11": "numba-cuda[cu11]<0.19", "cu12": "numba-cuda[cu12]", "cu13": "numba-cuda[cu13]"}
BELOW = str(NUMPY_WITHOUT_ROW_STACK)
_BOUNDED_NUMPY = lazy(r"numpy ?[<>=!~]")
_BELOW = lazy(r"<\s*(\d+\.\d+)")
# Releases whose own Python refuses pip (PEP 668).
_REFUSING = frozenset(("bookworm", "trixie", "forky", "sid", "lunar", "mantic", "noble", "oracular", "plucky", "questing", "resolute"))
NEAR = " Run it in the folder from which that Python was called."
REMARK = (
    " Use the Python that runs your program; where it refuses (externally-managed-environment), "
    "make a virtual environment first: python3 -m venv --system-site-packages FOLDER."
)
OLDEST_OF_CONDA = ToolkitVersion("10.0")  # of conda-forge's cudatoolkit, which ends with 11.8
_OF_SERIES = lazy(r"nvidia-(?:cuda-(?:cccl|crt|cudart|nvcc|nvrtc|runtime)|nvjitlink|nvvm)")  # since CUDA 13 without -cu12 or the like
_LOW = lazy(r"(?P<a>\d\.\d{1,2})\s*<=\s*version|>=\s*(?P<b>\d\.\d{1,2})")
_UPPER = lazy(r"<\s*(\d\.\d{1,2})")
_OF_CUDA_13 = lazy(r"\blib(?:cu|nv)\w{1,20}\.so\.13\b|\b(?:cu|nv)[\w-]{1,20}64_13\d{0,2}(?:_0)?\.dll")  # what the program was built for


def series(case: Case) -> str | None:
    """cu11, cu12 or cu13; None where no toolkit in wheels serves this GPU and this driver.

    cu12 serves every driver from 525 on and GPUs from Maxwell on: it is the answer where nothing more is known, and where CUDA 12
    packages are there already.
    """
    lowest = case.gpus.lowest_capability
    built_for_13 = _OF_CUDA_13.search(case.words) is not None
    newest = case.cuda.major if case.cuda is not None else 13 if built_for_13 else None
    if lowest is not None and lowest < OLDEST_OF_CU11:
        return None
    if (lowest is not None and lowest < OLDEST_OF_CU12) or (newest is not None and newest < 12):
        # A driver refuses PTX of a toolkit that is newer than its own CUDA.
        return "cu11" if case.cuda is None or case.cuda.major_minor >= WHEELS_OF_CU11.major_minor else None
    if newest is None or newest < 13 or (lowest is not None and lowest < OLDEST_OF_CU13):
        return "cu12"
    return "cu13" if built_for_13 or not _has_cuda_12(case) else "cu12"


def _has_cuda_12(case: Case) -> bool:
    python = case.python
    if python is None:
        return True
    bindings = python.package("cuda-bindings")
    if bindings is not None:
        return bindings.version.major < 13
    return any(package.name.lower().endswith("-cu12") for package in python.packages)


def newer_wheels(case: Case) -> dict[str, PackageVersion]:
    """NVIDIA's wheels of CUDA 13 that stay when those of an older series are installed: cuda-pathfinder finds theirs first.

    Seen: with nvidia-cuda-nvrtc 13.5 left beside nvidia-cuda-nvrtc-cu12 the first is loaded, and refuses compute capability 6.1.
    """
    if series(case) == "cu13" or case.python is None or refused(case):
        return {}
    packages = (package for package in case.python.packages if _OF_SERIES.fullmatch(package.name))
    return {package.name: package.version for package in packages if package.version.major >= 13}


def bounded(stated: str | None, case: Case) -> str | None:
    """What neighbours state of NumPy, with the bound that numba-cuda's own metadata lacks."""
    target = _numba_cuda(case)
    is_unbounded = target is not None and target <= LAST_WITH_ROW_STACK
    return f"{stated},<{BELOW}" if is_unbounded and stated is not None and _BOUNDED_NUMPY.match(stated) else stated


def _numba_cuda(case: Case) -> PackageVersion | None:
    target = case.python.package("numba-cuda") if case.python is not None else None
    return target.version if target is not None else None


def numpy_requirement(case: Case) -> str:
    """The NumPy that the installed Numba and numba-cuda accept."""
    stated = case.value("numpy_bound")
    if stated is not None:  # what Numba itself says: it compares major and minor version
        major, minor = (int(part) for part in stated.split("."))
        return f"numpy<{major}.{minor + 1}" if case.value("numpy_side") == "less" else f"numpy>={stated}"
    numba, target = case.python.package("numba") if case.python is not None else None, _numba_cuda(case)
    bounds = [] if target is not None and target > LAST_WITH_ROW_STACK else [BELOW]
    chosen = (case.knowledge.numba_release(numba.version) if numba is not None else None) or case.knowledge.numba_releases[0]
    bounds += _BELOW.findall(chosen.numpy)[-1:]
    return f"numpy<{min(bounds, key=lambda text: PackageVersion(text).numbers, default=BELOW)}"


# ---------------------------------------------------------------- who installs
_OF_WHEEL = lazy(r"cpu|cu\d{2,3}|rocm[\d.]{1,8}|xpu")


def torch_of_pip(case: Case) -> bool:
    """Whether the PyTorch of a conda environment is a wheel: conda's builds have other marks (cuda126_py311h...)."""
    python = case.python
    torch = python.package("torch") if python is not None and conda_prefix(case) is not None else None
    return torch is not None and (torch.build is None or _OF_WHEEL.fullmatch(torch.build) is not None)


def interpreter(case: Case) -> str | None:
    """The examined Python, else that of the environment that the user's text shows to be active."""
    if case.python is not None:
        return case.python.path
    folder = case.variable("VIRTUAL_ENV") or case.variable("CONDA_PREFIX") or ""
    return f"{folder.rstrip('/')}/bin/python" if folder.startswith("/") else _typed(case)


def _typed(case: Case) -> str | None:
    """The interpreter that a text's commands call: what an environment that is not active is used by. What is no whole path has a form
    (tables/circumstances.toml) of which no shell takes a part for more than it is."""
    setting = case.facts.get(SETTING)
    if isinstance(setting, Unknown) or "interpreter" not in case.setting.words:
        return None
    forms = [lazy(pattern) for one in case.knowledge.circumstances if one.kind == "interpreter" for pattern in one.patterns]
    lines = [line for quote in setting.quotes for line in quote.text.split("\n")]
    found = [match.groupdict() for line in lines for form in forms if (match := form.match(line)) is not None]
    called = next((one for one in reversed(found) if bool({"here", "launcher"} & {*one}) == case.windows), None)
    if called is None:
        return None
    if "here" in called:
        return ntpath.join(called["here"], ntpath.normpath(called["typed"])) + ".exe"
    if "below" in called:
        return Script(f'"$HOME"{called["below"]}')
    return called.get("python") or Script(*(called[name] for name in ("near", "called", "launcher") if name in called))


def is_near(interpreter: str | None) -> bool:
    """Whether it is named from the folder in which it was called."""
    return interpreter is not None and "/" in interpreter and interpreter[0] not in '/"'


def refused(case: Case) -> bool:
    """Whether the examined Python belongs to the distribution, which refuses pip in it. Where its mark was not looked for, by release."""
    python = case.python
    if python is None or python.virtual or python.conda or case.windows:
        return False
    if python.externally_managed is not None:
        return python.externally_managed
    return python.path.startswith("/usr/bin/") and case.system.codename in _REFUSING


# ---------------------------------------------------------------- one fitting set
def _range(words: str) -> tuple[PackageVersion | None, PackageVersion | None]:
    low, below = _LOW.search(words), _UPPER.search(words)
    return PackageVersion(low["a"] or low["b"]) if low is not None else None, PackageVersion(below[1]) if below is not None else None


def _within(words: str, python: PackageVersion) -> bool:
    low, below = _range(words)
    return (low is None or python >= low) and (below is None or python < below)


def stack_of(case: Case) -> Stack | None:
    """What fits this case's GPUs and the driver that it counts with; None where no toolkit that Numba takes serves them."""
    rows = case.knowledge.numba_releases
    python = PackageVersion(case.python.version) if case.python is not None else None
    here = [row for row in rows if python is None or _within(row.python, python)] or list(rows)
    wheels = REQUIREMENTS.get(series(case) or "")
    if wheels is not None:
        targets = [row for row in case.knowledge.numba_cuda_releases if series(case) in row.extras]
        served = python is None or any(_within(row.python, python) for row in targets)  # of an older Python pip takes an empty 0.0.1
        return Stack(wheels=wheels, release=next(iter(here if served else rows), None))
    toolkit = _newest_toolkit(case)
    row = next((row for row in here if toolkit is not None and takes(row, toolkit)), None)
    row = row or next((row for row in rows if toolkit is not None and takes(row, toolkit)), None)
    if toolkit is None or row is None:
        return None
    # pip and conda take the newest that this Python allows: a bound is needed only where that one does not take the toolkit.
    series_of_row = ".".join(re.findall(r"\d+", row.numba)[:2])
    return Stack(toolkit=toolkit, numba="numba" if row is here[0] else f"numba=={series_of_row}.*", release=row)


def _newest_toolkit(case: Case) -> ToolkitVersion | None:
    """The newest that neither the driver nor a GPU rules out."""
    last = [row.last_toolkit for row in map(case.knowledge.capability, case.gpus.capabilities) if row is not None and row.last_toolkit]
    driver = [ToolkitVersion("{}.{}".format(*case.cuda.major_minor))] if case.cuda is not None else []
    return min((*last, *driver), key=lambda version: version.major_minor, default=None)


def outdated(case: Case, stack: Stack) -> bool:
    """Whether the examined Python is outside of what this Numba runs on; where none is known, whether that is an old one."""
    if case.python is None:
        return stack.numba != "numba"  # an older one than the newest is asked for
    return stack.release is not None and not _within(stack.release.python, PackageVersion(case.python.version))


def takes(row: NumbaRelease, toolkit: ToolkitVersion) -> bool:
    """Whether the release's own CUDA target works with this toolkit."""
    if row.toolkits is None:
        return False
    first, last = row.toolkits
    return first.major_minor <= toolkit.major_minor <= last.major_minor


def in_words(ranges: str) -> str:
    """A table's ranges (`1.22 <= version < 1.27 ; version == 2.0`, `>= 3.10`) as a reader says them."""
    said = []
    for part in re.sub(r"\([^)]{0,200}\)", "", ranges).split(";"):
        low, below = _LOW.search(part), _UPPER.search(part)
        one = re.search(r"==\s*([\d.]+)", part)
        words = [one[1]] if one else [f"from {low['a'] or low['b']} on"] if low else []
        said.append(", ".join([*words, *([f"below {below[1]}"] if below else [])]))
    return " or ".join(said)


def newest_python(stack: Stack) -> str:
    """The newest Python that the release states to run on; where it states no upper bound, the newest that its neighbours state."""
    _, below = _range(stack.release.python if stack.release is not None else "")
    return f"3.{below.numbers[1] - 1}" if below is not None else "3.12"
