"""Which Python packages fit: numba-cuda's extra for this driver and these GPUs, and the NumPy that Numba accepts."""

from __future__ import annotations

from cudadoctor.model.pattern import lazy
from cudadoctor.model.version import ComputeCapability, PackageVersion, ToolkitVersion
from cudadoctor.prescribe.case import Case

OLDEST_OF_CU13 = ComputeCapability("7.5")  # CUDA 13 dropped Maxwell, Pascal and Volta
OLDEST_OF_CU12 = ComputeCapability("5.0")  # CUDA 12 dropped Kepler
OLDEST_OF_CU11 = ComputeCapability("3.5")
WHEELS_OF_CU11 = ToolkitVersion("11.8")  # the toolkit in the wheels that numba-cuda[cu11] brings
# numba-cuda 0.19 dropped CUDA 11.
REQUIREMENTS = {"cu11": "numba-cuda[cu11]<0.19", "cu12": "numba-cuda[cu12]", "cu13": "numba-cuda[cu13]"}
# numba-cuda up to this release reads numpy.row_stack, which NumPy 2.5 removed; its own metadata does not say so.
LAST_WITH_ROW_STACK, BELOW = PackageVersion("0.30.4"), "2.5"
_BELOW = lazy(r"<\s*(\d+\.\d+)")
# Releases whose own Python refuses pip (PEP 668).
_REFUSING = frozenset(("bookworm", "trixie", "forky", "sid", "lunar", "mantic", "noble", "oracular", "plucky", "questing", "resolute"))
REMARK = (
    " Use the Python that runs your program; where it refuses (externally-managed-environment), "
    "make a virtual environment first: python3 -m venv --system-site-packages FOLDER."
)


def series(case: Case) -> str | None:
    """cu11, cu12 or cu13; None where no toolkit in wheels serves this GPU and this driver.

    cu12 serves every driver from 525 on and GPUs from Maxwell on: it is the answer where nothing more is known, and where CUDA 12
    packages are there already.
    """
    lowest = case.gpus.lowest_capability
    newest = case.cuda.major if case.cuda is not None else None
    if lowest is not None and lowest < OLDEST_OF_CU11:
        return None
    if (lowest is not None and lowest < OLDEST_OF_CU12) or (newest is not None and newest < 12):
        # A driver refuses PTX of a toolkit that is newer than its own CUDA.
        return "cu11" if case.cuda is None or case.cuda.major_minor >= WHEELS_OF_CU11.major_minor else None
    if newest is None or newest < 13 or (lowest is not None and lowest < OLDEST_OF_CU13):
        return "cu12"
    return "cu12" if _has_cuda_12(case) else "cu13"


def _has_cuda_12(case: Case) -> bool:
    python = case.python
    if python is None:
        return True
    bindings = python.package("cuda-bindings")
    if bindings is not None:
        return bindings.version.major < 13
    names = [package.name.lower() for package in python.packages]
    return any(name.endswith("-cu12") for name in names)


def requirement(name: str | None) -> str | None:
    """What pip is asked for."""
    return REQUIREMENTS.get(name or "")


def numpy_requirement(case: Case) -> str:
    """The NumPy that the installed Numba and numba-cuda accept."""
    stated = case.value("numpy_bound")
    if stated is not None:  # what Numba itself says: it compares major and minor version
        major, minor = (int(part) for part in stated.split("."))
        return f"numpy<{major}.{minor + 1}" if case.value("numpy_side") == "less" else f"numpy>={stated}"
    python = case.python
    bounds = [BELOW]
    numba = python.package("numba") if python is not None else None
    target = python.package("numba-cuda") if python is not None else None
    if target is not None and target.version > LAST_WITH_ROW_STACK:
        bounds = []
    chosen = (case.knowledge.numba_release(numba.version) if numba is not None else None) or case.knowledge.numba_releases[0]
    bounds += _BELOW.findall(chosen.numpy)[-1:]
    return f"numpy<{min(bounds, key=lambda text: PackageVersion(text).numbers, default=BELOW)}"


# ---------------------------------------------------------------- who installs
def conda_prefix(case: Case) -> str | None:
    """The folder of the examined conda environment; where no Python was examined, of the one that the user's text shows to be active."""
    if case.python is not None:
        return (case.python.prefix or case.python.conda) if case.python.conda else None
    return case.variable("CONDA_PREFIX") or None


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
    return f"{folder.rstrip('/')}/bin/python" if folder.startswith("/") else None


def refused(case: Case) -> bool:
    """Whether the examined Python belongs to the distribution, which refuses pip in it. Where its mark was not looked for, by release."""
    python = case.python
    if python is None or python.virtual or python.conda or case.windows:
        return False
    if python.externally_managed is not None:
        return python.externally_managed
    return python.path.startswith("/usr/bin/") and case.system.codename in _REFUSING


def by_uv(case: Case) -> bool:
    """Whether uv made the examined environment, which then has no pip."""
    return case.python is not None and case.python.uv
