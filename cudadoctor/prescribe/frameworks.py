"""What fits a framework here: which one a finding speaks of, PyTorch's index, cuDNN's package, the host compiler, architecture lists."""

from __future__ import annotations

import re
from collections.abc import Iterable

from cudadoctor.knowledge.software import TorchIndex
from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import FRAMEWORK_BUILDS, FRAMEWORKS, LISTED_PACKAGES, NVCC, TEGRA, TOOLKITS
from cudadoctor.model.version import ComputeCapability, ToolkitVersion
from cudadoctor.prescribe import managers, pip
from cudadoctor.prescribe.case import Case
from cudadoctor.prescribe.shells import Found

_CUDNN = lazy(r"libcudnn\w{0,40}\.so\.(\d)|cudnn\w{0,40}64_(\d)|\((\d), \d{1,9}, \d{1,9}\)|cuDNN version (\d)")
_BUILT_WITH_CUDNN = lazy(r"compiled {1,2}(?:with: |against )\(?(\d{1,2})(?:\.|, )(\d{1,2})")
_WHEEL = lazy(r"^nvidia-[a-z0-9-]+?(?:-cu(?P<major>1\d))?$")
NOT_OF_CUDA = ("nvidia-ml-py",)  # NVIDIA's packages that belong to no series
_EXTRA = lazy(r"([a-z][\w-]{0,40})\[[\w,-]{1,40}\]")
_LIBRARY = lazy(r"\blib\w{3,20}\.so\.\d{1,2}(?:\.\d(?!\.?\d))?\b")
UNKNOWN_DRIVER = (12, 99)  # the CUDA that is taken to be served where nothing says which
# An ONNX model of one Identity (IR 8, opset 13) in hexadecimal digits: the smallest for which a session loads its providers.
ONNX_MODEL = (
    "08083a370a100a017812017922084964656e746974791201675a0f0a0178120a0a08080112040a020801620f0a0179120a0a08080112040a0208014202100d"
)
OF_CUDA_13 = 580  # the oldest branch that serves CUDA 13, and the first of GPUs of which each driver does
THOR = ComputeCapability("11.0")


def framework(case: Case) -> str | None:
    """The framework that the finding speaks of, None where no line names one."""
    shown = "torch" if case.get(FRAMEWORKS) is not None or "torch-shown" in case.setting.words else None
    return case.value("framework") or named_in(case) or shown


def named_in(case: Case) -> str | None:
    return next((name for name, form in case.forms["frameworks"].items() if case.quotes(form)), None)


def speaks_of(case: Case, name: str) -> bool:
    """Whether the finding is about this framework, perhaps among others."""
    several = case.value("frameworks")
    return name in several.split(", ") if several is not None else framework(case) == name


def on_windows(case: Case) -> bool:
    """Windows, or a finding whose lines speak of its compiler and files."""
    return (
        case.windows
        or re.search(r"Visual Studio|\bcl\.exe|compiler version for cl\b|STL1002|WinError|\.dll\b|\b[A-Z]:\\", case.words) is not None
    )


def torch_index(case: Case) -> tuple[str, str] | None:
    """PyTorch's index whose wheels run on this driver and hold code for every GPU, and what pip is asked for. None: not known, or none."""
    stated = case.value("capability")  # of the GPU that the finding is about: a text may name others beside it
    own = (ComputeCapability(stated),) if stated is not None and re.fullmatch(r"\d{1,2}\.\d", stated) else ()
    capabilities = (*case.gpus.capabilities, *own) or _of_thor(case)
    if on_jetson(case) or (case.cuda is None and not capabilities):
        return None
    fits = [row for row in case.knowledge.torch_indexes if all(row.serves(one) for one in capabilities)]
    # CUDA 12 serves most drivers: the answer where the driver is not known, unless the GPU came with CUDA 13.
    driver = case.cuda.major_minor if case.cuda is not None else (13, 0) if _came_with_cuda_13(capabilities, case) else UNKNOWN_DRIVER
    served = [row for row in fits if row.toolkit.major <= driver[0]]
    fits = served or (fits if case.cuda is None else [])
    if not fits:
        return None
    newest = [row for row in fits if row.toolkit.major == fits[-1].toolkit.major]
    # Those that the driver knows itself; an older driver of the same major version serves them too, the oldest with the least risk.
    known = [row for row in newest if row.toolkit.major_minor <= driver] or newest[:1]
    state = case.get(FRAMEWORKS)
    built = state.toolkit if state is not None else None
    row = max(reversed([row for row in known if built is None or row.toolkit.major_minor >= built.major_minor] or known), key=_last_release)
    return row.tag, f"torch<{_last_release(row)[0]}.{_last_release(row)[1] + 1}" if row.last_torch is not None else "torch"


def _of_thor(case: Case) -> tuple[ComputeCapability, ...]:
    """The capability of the one Jetson that JetPack 7 was first for, where its release alone is known."""
    release = _jetson_linux(case)
    return (THOR,) if release is not None and release[0] >= OF_SERVERS_FROM and case.cuda is None else ()


def _came_with_cuda_13(capabilities: Iterable[ComputeCapability], case: Case) -> bool:
    """GB10 and Thor: each of their drivers serves CUDA 13."""
    rows = (case.knowledge.capability(one) for one in capabilities)
    return any(row is not None and (row.first_driver_branch or 0) >= OF_CUDA_13 for row in rows)


# From this release of Jetson Linux (JetPack 7) on a Jetson takes the wheels for servers with ARM.
# Source: https://developer.nvidia.com/blog/whats-new-in-cuda-toolkit-13-0-for-jetson-thor-unified-arm-ecosystem-and-more/
OF_SERVERS_FROM = 38
_L4T = lazy(r"# R(\d{2}) \(release\), REVISION: (\d{1,2})")


def on_jetson(case: Case) -> bool:
    """A Jetson whose wheels are its own."""
    release = _jetson_linux(case)
    return (case.get(TEGRA) is True or "jetson" in case.setting.words) and (release is None or release[0] < OF_SERVERS_FROM)


def _jetson_linux(case: Case) -> tuple[int, int] | None:
    lines = (quote.text for fact in case.facts.all(TEGRA) for quote in fact.quotes)
    found = next((found for line in lines if (found := _L4T.search(line)) is not None), None)
    return (int(found[1]), int(found[2])) if found is not None else None


def jetson_index(case: Case) -> str | None:
    """The index for this JetPack: by its CUDA, else by the release of Jetson Linux."""
    if not on_jetson(case):
        return None
    release = _jetson_linux(case)
    named = f"{release[0]}.{release[1]}" if release is not None else None
    cuda = "{}.{}".format(*case.cuda.major_minor) if case.cuda is not None else None
    return next(
        (row.tag for row in case.knowledge.frameworks.jetson_index if row.cuda == cuda or (cuda is None and row.l4t == named)), None
    )


def _last_release(row: TorchIndex) -> tuple[int, int]:
    """The last PyTorch that an index got; beyond any where it still gets them."""
    major, minor = (row.last_torch or "99.0").split(".")
    return int(major), int(minor)


def cudnn_requirement(case: Case) -> str:
    """cuDNN's wheel of the major version that the message asks for."""
    stated = case.value("requirement")
    if stated is not None and stated.startswith("nvidia-cudnn"):
        return stated
    built, found, wheel = _cudnn_of_build(case), _CUDNN.search(case.words), _cudnn_wheel(case)
    asked = case.value("cuda_series")
    series = f"cu{asked}" if asked is not None else wheel[0] if wheel is not None else pip.series(case) or "cu12"
    if built is not None:  # a later one of the same major version serves
        major, bound = built[0], ">={}.{},<{}".format(*built, built[0] + 1)
    else:
        major = int(next(group for group in found.groups() if group)) if found is not None else 9
        bound = f"=={major}.*"
    return f"nvidia-cudnn-{'cu12' if series == 'cu11' and major >= 9 else series}{bound}"


def _cudnn_wheel(case: Case) -> tuple[str, str] | None:
    """The series and the version of the wheel that is installed."""
    name = "nvidia-cudnn-"
    return next(((one.removeprefix(name), version) for one, version in _listed(case).items() if one.startswith(f"{name}cu")), None)


def python_headers(case: Case) -> str | None:
    """The package of Python's headers. RHEL names those of the releases beside its own by their number, from 3.11 on."""
    release, family = case.value("system_python"), case.system.family
    if family in ("debian", "ubuntu"):
        return f"python{release or 3}-dev"
    if family is None:
        return None
    own = release is None or int(release.split(".")[1]) < 11 or (release == "3.12" and (case.system.version or "").startswith("10"))
    return "python3-devel" if own or family != "rhel" else f"python{release}-devel"


def for_ctranslate2(case: Case) -> bool:
    """CTranslate2 alone is spoken of or listed: PyTorch beside it brings cuDNN and loads it first."""
    there = _listed(case)
    return speaks_of(case, "ctranslate2") or ("ctranslate2" in there and "torch" not in there)


def cudnn_wheel_is_old(case: Case) -> bool:
    """The wheel that is installed is older than the cuDNN that the framework was built with: no library path hides another one."""
    built, wheel = _cudnn_of_build(case), _cudnn_wheel(case)
    numbers = re.match(r"(\d{1,2})\.(\d{1,2})", wheel[1]) if wheel is not None else None
    return built is not None and numbers is not None and (int(numbers[1]), int(numbers[2])) < built


def _cudnn_of_build(case: Case) -> tuple[int, int] | None:
    """The cuDNN that the framework was built with, as it says itself: 9.8.0, (9, 8, 0), or as cudnn_version.h counts (90800, 8904)."""
    counted, said = case.value("cudnn_built"), _BUILT_WITH_CUDNN.search(case.words)
    if counted is not None and counted.isdigit():
        major, rest = divmod(int(counted), 10000 if len(counted) > 4 else 1000)
        return major, rest // 100
    return (int(said[1]), int(said[2])) if said is not None else None


def wheel_series(case: Case) -> str | None:
    """The series of wheels that bring machine code: unlike PTX it runs on every driver of its CUDA's major version."""
    found, lowest = pip.series(case), case.gpus.lowest_capability
    if found is None and case.cuda is not None and case.cuda.major == 11 and (lowest is None or lowest >= pip.OLDEST_OF_CU11):
        return "cu11"
    return found


def surplus_wheels(case: Case) -> tuple[str, ...] | None:
    """CUDA's wheels of the series for which no framework here is built. None where several are in use, or nothing says which."""
    builds, python = case.get(FRAMEWORK_BUILDS), case.python
    replaced = "cupy" if case.value("framework") == "cupy" else None  # the steps before bring one of the driver's series
    kept_builds = [build for build in (builds.builds if builds is not None else ()) if build.kind == "cuda" and build.name != replaced]
    majors = {build.cuda.major for build in kept_builds if build.cuda is not None}
    bindings = python.package("cuda-bindings") if python is not None else None
    if bindings is not None:
        majors.add(bindings.version.major)  # those that Numba's target compiles with
    if python is None or len(majors) != 1:
        return None
    kept = majors.pop()
    found = []
    for package in python.packages:
        wheel = _WHEEL.match(package.name)
        if wheel is not None and package.name not in NOT_OF_CUDA and int(wheel["major"] or 13) != kept:
            found.append(package.name)
    return tuple(found) or None


def nvcc_folder(case: Case) -> str | None:
    toolkits = case.get(TOOLKITS)
    if not case.absent(NVCC) or toolkits is None:
        return None
    return next((entry.path.rstrip("/") + "/bin" for entry in toolkits.toolkits if entry.has_nvcc and not entry.stale), None)


def toolkit_in_use(case: Case) -> ToolkitVersion | None:
    """The compiler that builds here: nvcc, as far as anything names its version."""
    nvcc = case.get(NVCC)
    if nvcc is not None:
        return nvcc.version
    stated = re.search(r"(?i)cuda[-_/\\]{1,2}v?(\d{1,2}\.\d)[/\\]", case.words)
    return ToolkitVersion(stated[1]) if stated is not None else None


def newest_gcc(case: Case) -> str | None:
    """The newest gcc that this nvcc accepts: as its own message says, else by the tables."""
    said = re.search(r"gcc versions later than (\d{1,2})(?:\.\d)? are not supported", case.words)
    if said is not None:
        return said[1]
    version = toolkit_in_use(case)
    row = case.knowledge.toolkit(version) if version is not None else None
    return str(row.gcc_max) if row is not None else None


def _listed(case: Case) -> dict[str, str]:
    """The packages of the examined Python, else those that a text lists, with their versions."""
    if case.python is not None:
        return {package.name: package.version.text for package in case.python.packages}
    listed = case.get(LISTED_PACKAGES)
    return {package.name: package.version.text for package in (listed.packages if listed is not None else ())}


def _beside_torch(case: Case) -> tuple[str, ...]:
    """The packages that have to come with another PyTorch: those that are there. A text that lists torch alone (pip show) tells of none; a
    project that lists it gets no requirement that it did not have.
    """
    there, owned = _listed(case), managers.owns_project(case)
    none = "torch" in there and (owned or case.python is not None)
    found = tuple(name for name in ("torchvision", "torchaudio") if name in there) or (() if none else ("torchvision",))
    return tuple(managers.UNPINNED[name] for name in found) if owned else found


def jax_of_jaxlib(case: Case) -> str | None:
    """JAX with the plugin of the jaxlib that the message names: jax[cuda12]==0.7.2 asks for all of them in one version."""
    plugin, version = case.value("jax_plugin"), case.value("jaxlib")
    return f"jax[{plugin}]=={version}" if plugin is not None and version is not None else None


def _as_listed(requirement: str | None, case: Case) -> str | None:
    """A package with an extra in the version that a project has: Poetry would take the newest."""
    found = _EXTRA.fullmatch(requirement or "") if managers.owns_project(case) else None
    version = _listed(case).get(found[1]) if found is not None else None
    return requirement if version is None else f"{requirement}=={version}"


def values(case: Case) -> Found:
    index = torch_index(case)
    yield "torch_index", index[0] if index is not None else None
    asked = index[1] if index is not None else None
    torch = managers.UNPINNED.get(asked or "", asked) if managers.owns_project(case) else asked
    yield "torch_packages", (torch, *_beside_torch(case)) if torch is not None else None
    yield "jetson_index", jetson_index(case)
    missing = _LIBRARY.search(case.words)
    yield "library_wheel", case.knowledge.frameworks.libraries.get(missing[0]) if missing is not None else None
    series = wheel_series(case)
    yield "jax_requirement", f"jax[{'cuda13' if series == 'cu13' else 'cuda12'}]" if series in ("cu12", "cu13") else None
    requirements = case.knowledge.frameworks.requirements
    yield from ((f"{name}_requirement", _as_listed(asked.get(series or ""), case)) for name, asked in requirements.items())
    yield "surplus_wheels", surplus_wheels(case)
    yield "pip_copies", tuple((case.value("pip_copies") or "").split()) or None
    yield "nvcc_folder", nvcc_folder(case)
    yield "cudnn_requirement", cudnn_requirement(case)
    yield "onnx_model", ONNX_MODEL
    yield "python_headers", python_headers(case)
    yield "gcc", newest_gcc(case)
    architectures = ";".join(capability.text for capability in case.gpus.capabilities)
    yield "arch_list", architectures or None
    yield "cmake_architectures", architectures.replace(".", "") or None
    yield "torch_cuda", torch_cuda(case)


def torch_cuda(case: Case) -> str | None:
    """The CUDA that PyTorch was built with: as the finding, its lines or PyTorch itself tell."""
    stated, state = re.search(r"PyTorch \((\d{1,2}\.\d)\)", case.words), case.get(FRAMEWORKS)
    built = state.toolkit if state is not None else None
    return case.value("torch_cuda") or (stated[1] if stated is not None else built.text if built is not None else None)
