"""The launch configuration that a refused launch should have had: a condition and values of one recipe."""

from __future__ import annotations

from math import prod

from cudadoctor.model.values import LAUNCH, NVML, SMI, Launch, Launcher
from cudadoctor.prescribe.case import Case, Condition
from cudadoctor.prescribe.places import setting
from cudadoctor.prescribe.shellwords import Found

MOST_THREADS = 1024  # of a block, for every GPU from Fermi on (CUDA C++ Programming Guide, appendix Compute Capabilities)
FITTING = {1: (256,), 2: (16, 16), 3: (8, 8, 4)}  # blocks of 256 threads: they fit whatever registers the kernel takes


def values(case: Case) -> Found:
    launch = _refused(case)
    if launch is not None:
        yield "refused_launch", _written(launch)
        yield "refused_threads", str(prod(launch.block))
        yield "fitting_launch", _written(fitting(launch))
    launcher = _too_many(case)
    if launcher is not None:
        yield "started_processes", str(launcher.processes)
        yield "gpu_count", str(_gpu_count(case))
        yield "launcher", launcher.program
        yield "fitting_option", f"{launcher.option}{_gpu_count(case)}"


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
    """The GPUs that nvidia-smi or NVML lists."""
    smi, nvml = case.get(SMI), case.get(NVML)
    return len(nvml.gpus) if nvml is not None and nvml.gpus else len(smi.gpus) if smi is not None and smi.gpus else None


def _too_many(case: Case) -> Launcher | None:
    """The command that starts more processes than there are GPUs."""
    launcher, count = setting(case).launcher, _gpu_count(case)
    return launcher if launcher is not None and count is not None and launcher.processes > count else None


LAUNCHES: dict[str, Condition] = {
    "launch-refused": lambda case: _refused(case) is not None,
    "more-processes-than-gpus": lambda case: _too_many(case) is not None,
}
