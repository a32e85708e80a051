"""Conditions about the driver's library, the toolkit, compilers, Python and its frameworks. Part of conditions.py."""

from __future__ import annotations

import re

from cudadoctor.model.values import DRIVER_FILES, LIBRARIES, TOOLKITS
from cudadoctor.prescribe import frameworks, managers, pip
from cudadoctor.prescribe.case import Case, Condition
from cudadoctor.prescribe.pip import OLDEST_OF_CONDA, outdated, stack_of
from cudadoctor.prescribe.placeholders import placeholders

OLDEST_OF_TILEIRAS = 80  # tileiras 13.1 to 13.4: --help lists sm_80 and later, no release an earlier one


def _libcuda_on_disk(case: Case) -> bool:
    files, cache = case.get(DRIVER_FILES), case.get(LIBRARIES)
    here = files is not None and any("/stubs" not in file.path and "/compat" not in file.path for file in files.find("libcuda.so"))
    return here or (cache is not None and bool(cache.find("libcuda.so"))) or case.value("path") is not None


def _numba(case: Case) -> bool:
    """Numba is what compiles here: the text shows it, or the machine has it. A text that shows none speaks of another compiler."""
    here = case.python is not None and case.python.package("numba") is not None
    return (
        here
        or not case.told_by_text
        or case.quotes(case.forms["words"]["numba"])
        or ("numba-shown" in case.setting.words and not case.quotes(case.forms["words"]["build"]))
    )


def _toolkit_packaged(case: Case) -> bool:
    """NVIDIA's repository for this release, or the distribution's own, has the toolkit that GPU and driver ask for, and it is not here."""
    known = placeholders(case)
    there = "nvcc_folder" in known and "install-nvcc" in case.cause.recipes
    found = "toolkit_package" in known and ("nvidia_repository" in known or case.system.toolkit is not None)
    return found and not there and not frameworks.on_jetson(case) and case.system.image is None


def _tileiras_knows(case: Case) -> bool:
    """The GPU that tileiras was asked to compile for is of a generation that some release of it knows, or nobody says which it is."""
    number = re.match(r"\d{2,3}", case.value("capability") or "")
    return number is None or int(number[0]) >= OLDEST_OF_TILEIRAS


def _compat_in_loader(case: Case) -> bool:
    cache = case.get(LIBRARIES)
    return cache is None or any("/compat" in file.path for file in cache.files)


# ---------------------------------------------------------------- Python
def toolkit_pin(case: Case) -> bool:
    return case.cuda is None or case.cuda.major >= 12


def of_none(case: Case) -> bool:
    """No framework and no video encoder, which asks the driver for an API of its own, whatever the toolkit."""
    return frameworks.framework(case) is None and case.value("encoder") is None


def _conda_toolkit(case: Case) -> bool:
    """A conda environment, and conda-forge has the toolkit that fits."""
    stack = case.stack or stack_of(case)
    return managers.conda_prefix(case) is not None and stack is not None and stack.toolkit is not None and stack.toolkit >= OLDEST_OF_CONDA


def _old_cudatoolkit(case: Case) -> bool:
    """The toolkit in a conda environment is of the time before it came in parts."""
    known = case.get(TOOLKITS)
    found = [(one.rule, one.version) for group in (known.toolkits, known.components) for one in group] if known is not None else []
    return any(rule == "conda" and version is not None and version.major < 12 for rule, version in found)


def _python_outdated(case: Case) -> bool:
    stack = case.stack or stack_of(case)
    return stack is not None and outdated(case, stack)


def _by_file(key: str) -> Condition:
    def by_file(case: Case) -> bool:
        stated = (case.value("path") or "").endswith((".yaml", ".yml"))
        return stated or (case.python is not None and any(key in line.text.lower() for line in case.python.numba_config))

    return by_file


def _by_variable(variable: str, key: str) -> Condition:
    """The variable is set, or no file is known to set it."""
    by_file = _by_file(key)
    return lambda case: case.variable(variable) is not None or not by_file(case)


GCC_OF_AMAZON = 11


_LAST_OF_CUDA_12 = 14  # the newest gcc that CUDA 12.9 accepts


def _libc_too_new(case: Case) -> bool:
    """The C library's headers and those of the CUDA that is meant do not go together, whatever the compiler."""
    gcc = frameworks.newest_gcc(case)
    return case.system.new_libc and gcc is not None and int(gcc) <= _LAST_OF_CUDA_12


def _gcc_packaged(case: Case) -> bool:
    """Whether the distribution may have an older gcc beside its own that serves: RHEL 10 begins with gcc-toolset-15, Amazon has 11 and 14.

    Source: RHEL 10.1 release notes, https://docs.aws.amazon.com/linux/al2023/ug/c-cplusplus.html
    """
    without = case.system.family == "rhel" and (case.system.id == "amzn" or int(case.system.major or 9) >= 10)
    return not without and not _libc_too_new(case)


def _of(name: str) -> Condition:
    return lambda case: frameworks.speaks_of(case, name)


def _kept_by(name: str) -> Condition:
    return lambda case: managers.manager(case) == name


CONDITIONS: dict[str, Condition] = {
    "gcc-packaged": _gcc_packaged,
    "libc-too-new": _libc_too_new,
    "own-gcc-fits": lambda case: case.system.id == "amzn" and int(frameworks.newest_gcc(case) or 0) >= GCC_OF_AMAZON,
    "pip-refused": pip.refused,
    "libcuda-on-disk": _libcuda_on_disk,
    "path-split": lambda case: "kept" in case.values,
    "kept-nothing": lambda case: case.values.get("kept") == "",
    "compat-in-loader": _compat_in_loader,
    "toolkits-known": lambda case: case.told(TOOLKITS),
    # CUDA_PATH is set too, and holds the same wrong value as CUDA_HOME.
    "both-variables": lambda case: case.variable("CUDA_PATH") is not None and case.variable("CUDA_PATH") == case.variable("CUDA_HOME"),
    "conda": lambda case: managers.conda_prefix(case) is not None,
    # conda-forge's JAX has no plugin of this name; PyPI's has.
    "conda-jax": lambda case: managers.conda_prefix(case) is not None and "jax-of-pip" not in case.setting.words,
    "cxx-of-conda": lambda case: case.value("cxx_version") is not None and managers.conda_prefix(case) is not None,
    **{name: _kept_by(name) for name in ("pixi", "poetry")},
    "python-outdated": _python_outdated,
    "wheels": lambda case: pip.series(case) is not None,
    "conda-toolkit": _conda_toolkit,
    "old-cudatoolkit": _old_cudatoolkit,
    "toolkit-pin": toolkit_pin,
    "older-series": lambda case: pip.series(case) != "cu13",
    **{f"of-{name}": _of(name) for name in ("torch", "jax", "tensorflow", "onnxruntime", "cupy", "ctranslate2", "bitsandbytes")},
    "of-none": of_none,
    # No other framework is spoken of, and nothing that nvcc or CMake compiles: wheels for Numba are no help there.
    "for-numba": lambda case: (
        case.value("framework") is None and not case.quotes(case.forms["words"]["build"]) and frameworks.named_in(case) is None
    ),
    "numba": _numba,
    "cudnn-wheel-old": frameworks.cudnn_wheel_is_old,
    "for-ctranslate2": frameworks.for_ctranslate2,
    "library-absent": lambda case: bool(case.quotes(case.forms["words"]["not-there"])),
    "jetson": frameworks.on_jetson,
    "toolkit-packaged": _toolkit_packaged,
    # Of mixed toolkits only a build for PyTorch says which one is wanted.
    "toolkit-of-build": lambda case: case.root.cause != "toolkit-libraries-mixed" or case.value("torch_cuda") is not None,
    "pip-torch": pip.torch_of_pip,
    # Of a text's environment nobody knows which PyTorch is in it.
    "pip-torch-possible": lambda case: (
        case.python is None and managers.manager(case) == "conda" and "torch-of-conda" not in case.setting.words
    ),
    "conda-overridden": lambda case: case.variable("CONDA_OVERRIDE_CUDA") is not None or "conda-overridden" in case.setting.words,
    "windows-said": frameworks.on_windows,
    "tileiras-knows": _tileiras_knows,
    # A requirement was handed on, or the message speaks of NumPy.
    "fitting-known": lambda case: (
        case.value("requirement") is not None or case.value("jaxlib") is not None or "numpy" in case.words.lower()
    ),
    "simulator-by-variable": _by_variable("NUMBA_ENABLE_CUDASIM", "enable_cudasim"),
    "simulator-by-file": _by_file("enable_cudasim"),
    "cuda-disabled-by-variable": _by_variable("NUMBA_DISABLE_CUDA", "disable_cuda"),
    "cuda-disabled-by-file": _by_file("disable_cuda"),
}
