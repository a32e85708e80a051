"""What a policy can ask of driver, toolkit and the packages of the examined Python."""

from __future__ import annotations

import msgspec

from cudadoctor.checks.container import ways
from cudadoctor.model.facts import Unknown
from cudadoctor.model.values import (
    CONTAINER_STACK,
    FRAMEWORK_BUILDS,
    LADDER,
    LOADED_DRIVER,
    NVCC,
    NVML,
    PYTHON,
    SMI,
    TOOLKITS,
    FrameworkBuild,
)
from cudadoctor.policy.base import Answer, Answers, Question, View


def _driver_text(view: View) -> tuple[str | None, str]:
    """The kernel module's version; where the module is out of sight (WSL, sandboxes) that of a library through which the GPU answers."""
    loaded, ladder, nvml, smi = view.value(LOADED_DRIVER), view.value(LADDER), view.value(NVML), view.value(SMI)
    if loaded is not None:
        return str(loaded.version), ""
    stated = (
        ladder.library if ladder is not None and ladder.devices else None,
        nvml.library if nvml is not None and nvml.code == 0 else None,
        smi.library if smi is not None and smi.gpus else None,
    )
    library = next((str(version) for version in stated if version is not None), None)
    return library, " (its library)" if library is not None else ""


def driver(view: View) -> Answers:
    text, of_library = _driver_text(view)
    if text is None:
        why = view.why(LOADED_DRIVER, "")
        return (Answer(why=why) if why else Answer(is_fault=True, shown="no driver is loaded"),)
    return (Answer(value=text, shown=text + of_library),)


def branch(view: View) -> Answers:
    for answer in driver(view):
        yield msgspec.structs.replace(answer, value=float(answer.value.split(".")[0])) if isinstance(answer.value, str) else answer


def cuda(view: View) -> Answers:
    ladder, nvml, smi = view.value(LADDER), view.value(NVML), view.value(SMI)
    stated = (part.cuda for part in (ladder, nvml, smi) if part is not None)
    text = next((str(version) for version in stated if version is not None), None)
    if text is not None:
        return (Answer(value=text, shown=f"{text} (the newest that the driver supports)"),)
    why = view.why(LADDER, "")
    if why:
        return (Answer(why=why),)
    return (Answer(is_fault=True, shown="no driver says which CUDA it supports"),)


def toolkit(view: View) -> Answers:
    """What nvcc says; else what Numba would load; else the newest folder with a compiler."""
    nvcc, found = view.known(NVCC), view.known(TOOLKITS)
    if not isinstance(nvcc, Unknown) and nvcc is not None:
        return (Answer(value=str(nvcc.version), shown=f"{nvcc.version} (nvcc)"),)
    if isinstance(found, Unknown):
        return (Answer(why=found.why),)
    for part in found.components if found is not None else ():
        if part.path is not None and part.version is not None:
            return (Answer(value=str(part.version), shown=f"{part.version} ({part.name} at {part.path})"),)
    folders = [entry for entry in (found.toolkits if found is not None else ()) if entry.version is not None and not entry.stale]
    if folders:
        best = max(folders, key=lambda entry: entry.version.numbers if entry.version is not None else ())
        return (Answer(value=str(best.version), shown=f"{best.version} ({best.path})"),)
    return (Answer(is_fault=True, shown="no toolkit was found"),)


def container_gpu(view: View) -> Answers:
    """Whether Docker, Podman or containerd would hand the GPUs on; no container is started for that."""
    stack = view.known(CONTAINER_STACK)
    if isinstance(stack, Unknown):
        return (Answer(why=stack.why),)
    if stack is None:
        return (Answer(value="off", shown="neither Docker nor Podman nor containerd is installed"),)
    best = ways(stack, view.value(LOADED_DRIVER))[0]
    if best.ready is None:
        return (Answer(why=best.words),)
    return (Answer(value="on" if best.ready else "off", shown=best.words),)


# ---------------------------------------------------------------- Python
def package(name: str) -> Question:
    def question(view: View) -> Answers:
        found = view.facts.get(PYTHON)
        python = view.value(PYTHON)
        if isinstance(found, Unknown) or python is None:
            return (Answer(why=view.why(PYTHON, "no Python was examined")),)
        entry = python.package(name)
        build = _build(view, name)
        version = str(entry.version) if entry is not None else str(build.version) if build is not None else None
        if version is not None:
            return (Answer(value=version, shown=f"{version} in {python.path}"),)
        missing = f"not installed in {python.path}"
        return (Answer(is_fault=True, shown=missing) if found.whole else Answer(why="the packages could not all be listed"),)

    return question


def _build(view: View, name: str) -> FrameworkBuild | None:
    builds = view.value(FRAMEWORK_BUILDS)
    return builds.find(name) if builds is not None else None


def built_for(name: str) -> Question:
    def question(view: View) -> Answers:
        build = _build(view, name)
        if build is None:
            return tuple(
                answer if answer.is_fault else Answer(why=answer.why or f"how {name} was built is not known")
                for answer in package(name)(view)
            )
        if build.kind in ("cpu", "rocm"):
            return (Answer(is_fault=True, shown=f"{name} {build.version}, built {'for ROCm' if build.kind == 'rocm' else 'without CUDA'}"),)
        cuda = build.cuda or (build.builds[-1] if build.builds else None)
        if build.kind is None:
            return (Answer(why=f"how {name} {build.version} was built is not known"),)
        told = str(cuda) if cuda is not None else ""
        return (Answer(value=told or None, shown=f"{name} {build.version} for CUDA {told}".rstrip(), why="for which CUDA is not known"),)

    return question
