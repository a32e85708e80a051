"""Conditions and values of one recipe each: the launch configuration that a refused launch should have had; what a machine without an
NVIDIA GPU has instead, and where a GPU is to be had from there.
"""

from __future__ import annotations

from math import prod

from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import ENVIRONMENT, LAUNCH, NVML, SLURM_CLIENT, SMI, Launch, Launcher
from cudadoctor.prescribe.case import Case, Condition
from cudadoctor.prescribe.places import speaks_of_slurm
from cudadoctor.prescribe.shells import Found

MOST_THREADS = 1024  # of a block, for every GPU from Fermi on (CUDA C++ Programming Guide, appendix Compute Capabilities)
FITTING = {1: (256,), 2: (16, 16), 3: (8, 8, 4)}  # blocks of 256 threads: they fit whatever registers the kernel takes
CAPABILITIES = "NVIDIA_DRIVER_CAPABILITIES"
_GIVEN = lazy(rf"{CAPABILITIES}[=:] ?['\"]?((?:[a-z0-9]{{3,10}},?){{1,8}})")
_COLAB = ("COLAB_GPU", "COLAB_RELEASE_TAG", "COLAB_BACKEND_VERSION")
_KAGGLE = ("KAGGLE_KERNEL_RUN_TYPE", "KAGGLE_URL_BASE", "KAGGLE_CONTAINER_NAME")
_SPEAKS_OF_COLAB, _SPEAKS_OF_KAGGLE = lazy(r"google\.colab|(?<!\w)/content/"), lazy(r"/kaggle/")
_MAC = lazy(r"macOS|Darwin|MacBook|\bMac OS\b|Apple M\d|/Users/")


def values(case: Case) -> Found:
    yield "other_gpus", other_gpus(case)
    launch = _refused(case)
    if launch is not None:
        yield "refused_launch", _written(launch)
        yield "refused_threads", str(prod(launch.block))
        yield "fitting_launch", _written(fitting(launch))
    if case.root.cause == "container-driver-capabilities":
        yield from _capabilities(case)
    launcher = _too_many(case)
    if launcher is not None:
        yield "started_processes", str(launcher.processes)
        yield "gpu_count", str(_gpu_count(case))
        yield "launcher", launcher.program
        yield "fitting_option", f"{launcher.option}{_gpu_count(case)}"


def _capabilities(case: Case) -> Found:
    """The list that the container has, with what the library asks for that was not passed in; and that library."""
    # Where nobody says what the container has, it is to have what a program on the GPU needs in any case.
    given = case.variable(CAPABILITIES) or next((found[1] for found in _GIVEN.finditer(case.words)), "compute,utility")
    libraries = {name: found[0] for name, form in case.forms["capabilities"].items() if (found := form.search(case.words)) is not None}
    wanted = tuple(dict.fromkeys((*filter(None, given.split(",")), *(libraries or ("compute",)), "utility")))
    yield "driver_capabilities", ",".join(wanted)
    yield "compose_capabilities", ", ".join(("gpu", *wanted))
    yield "driver_library", next(iter(libraries.values()), "libcuda.so.1")


def _refused(case: Case) -> Launch | None:
    """The launch in the text, where its numbers alone show that no GPU takes it."""
    launch = case.get(LAUNCH)
    return launch if launch is not None and prod(launch.block) > MOST_THREADS and prod(launch.grid) > 0 else None


def fitting(launch: Launch) -> Launch:
    """At least as many threads in every direction, in blocks of at most 256."""
    most = FITTING[len(launch.block)]
    block = tuple(min(*pair) for pair in zip(launch.block, most, strict=True))
    padded = (*launch.grid, *(1 for _ in launch.block[len(launch.grid) :]))
    wider = tuple(-(-old // new) for old, new in zip(launch.block, block, strict=True))
    grid = tuple(blocks * times for blocks, times in zip(padded, (*wider, *(1 for _ in padded[len(wider) :])), strict=True))
    return Launch(kernel=launch.kernel, form=launch.form, grid=grid, block=block)


def _written(launch: Launch) -> str:
    grid, block = _shape(launch.grid, launch.form), _shape(launch.block, launch.form)
    if launch.form == "numba":
        return f"{launch.kernel}[{grid}, {block}](...)"
    if launch.form == "cuda":
        return f"{launch.kernel}<<<{grid}, {block}>>>(...)"
    return f"{launch.kernel}(..., block={block}, grid={grid})"


def _shape(numbers: tuple[int, ...], form: str) -> str:
    if len(numbers) == 1 and form != "pycuda":
        return str(numbers[0])
    return f"{'dim3' if form == 'cuda' else ''}({', '.join(map(str, numbers))}{',' if len(numbers) == 1 else ''})"


def _gpu_count(case: Case) -> int | None:
    smi, nvml = case.get(SMI), case.get(NVML)
    return len(nvml.gpus) if nvml is not None and nvml.gpus else len(smi.gpus) if smi is not None and smi.gpus else None


def _too_many(case: Case) -> Launcher | None:
    """The command that starts more processes than there are GPUs."""
    launcher, count = case.setting.launcher, _gpu_count(case)
    return launcher if launcher is not None and count is not None and launcher.processes > count else None


# ---------------------------------------------------------------- without an NVIDIA GPU
def other_gpus(case: Case) -> str | None:
    """GPUs of other makers: as the bus shows them, else as the finding's own lines name them."""
    makers = case.knowledge.makers
    gpus = [maker.name for maker in makers if maker.kind == "gpu"]
    if case.values.get("adapters"):
        return case.values["adapters"] if set((case.value("makers") or "").split(",")) & set(gpus) else None
    named = [maker.name for maker in makers if maker.kind == "gpu" and any(word in case.words for word in maker.words)]
    if case.says(_MAC) and "Apple" not in named:
        named.append("Apple")
    return f"GPUs of {' and '.join(named)}" if named else None


def _slurm(case: Case) -> bool:
    """Slurm's programs are here, or its variables: a login node, or a node whose jobs get no GPU."""
    environment = case.get(ENVIRONMENT)
    variables = environment.variables if environment is not None else {}
    told = speaks_of_slurm(case) or "slurm" in case.setting.words
    return told or case.get(SLURM_CLIENT) is not None or any(name.startswith("SLURM_") for name in variables)


CONDITIONS: dict[str, Condition] = {
    "launch-refused": lambda case: _refused(case) is not None,
    "more-processes-than-gpus": lambda case: _too_many(case) is not None,
    "other-gpus": lambda case: other_gpus(case) is not None,
    "slurm-client": _slurm,
    "colab": lambda case: (
        "colab" in case.setting.words or any(case.variable(name) is not None for name in _COLAB) or case.says(_SPEAKS_OF_COLAB)
    ),
    "kaggle": lambda case: any(case.variable(name) is not None for name in _KAGGLE) or case.says(_SPEAKS_OF_KAGGLE),
}
