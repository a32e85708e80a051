"""The rest of the way: what comes after the root cause's fix until a Numba kernel runs, as one plan whose versions fit together.

GPU -> driver branch -> CUDA of that driver -> toolkit or wheels -> Numba and its target -> Python and NumPy. Each stage rests on the one
before it. What is there and fits is said; what is missing gets its steps; what cannot be known before a restart says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.facts import Facts
from cudadoctor.model.findings import LAYERS, Finding
from cudadoctor.model.recipe import Leg, Prescription, Step
from cudadoctor.model.values import LADDER, LOADED_DRIVER, NVML, PCI, TOOLKITS
from cudadoctor.model.version import CudaVersion
from cudadoctor.prescribe import pip
from cudadoctor.prescribe.case import Case, Stack
from cudadoctor.prescribe.conditions import installed_branches
from cudadoctor.prescribe.driver_values import ubuntu_driver
from cudadoctor.prescribe.pip import BELOW, in_words, outdated, stack_of, takes
from cudadoctor.prescribe.steps import CHECK_AGAIN, VIRTUAL_ENVIRONMENT, case_of, render

# A fix of these layers ends below the driver, or with it: toolkit and Python come after it.
_BELOW_TOOLKIT = LAYERS[: LAYERS.index("toolkit")]
_OF_A_GPU = ("hardware", "bus", "device")  # what cures a fault of these layers changes no driver
# Where nothing is wrong and yet no kernel ran, the way begins where it stands.
_NO_FAULT = Finding(cause="toolkit-missing", layer="toolkit", title="", subject="machine", effect="advises", basis="suspected", evidence=())
_STAND_IN = "Microsoft Basic"  # the name of Windows' own driver, not of the GPU
_WHEELS, _APART, _PYTHON = "install-numba-cuda", "install-toolkit-apart", "make-newer-python"


def way(
    root: Finding | None, values: Mapping[str, str], facts: Facts, knowledge: Knowledge, distro: str | None, fix: Prescription | None
) -> tuple[Leg, ...]:
    """The stages in their order. Empty where a kernel ran, where the program is at fault, and where GPU, driver or Python are not known."""
    ladder = facts.value(LADDER)
    ran = ladder is not None and any(result.status == "pass" for result in ladder.result("numba-kernel"))
    if (root is not None and root.layer == "program") or ran:
        return ()
    case = case_of(root or _NO_FAULT, values, facts, knowledge, distro)
    if not case.gpus.capabilities or (root is None and (case.python is None or case.get(LOADED_DRIVER) is None)):
        return ()
    return tuple(_legs(case, fix))


def _legs(case: Case, fix: Prescription | None) -> Iterator[Leg]:
    kinds = ", ".join(architecture.name for architecture in case.gpus.architectures)
    numbers = ", ".join(capability.text for capability in case.gpus.capabilities)
    yield Leg(stage="gpu", state="fits", text=f"{_names(case)}: {kinds}, compute capability {numbers}")
    driver, branch = _driver(case, fix)
    yield driver
    row = case.knowledge.branch(branch) if branch is not None else None
    cuda = case.cuda if driver.state == "fits" else row.cuda if row is not None else None
    yield _cuda(case, cuda, branch, there=driver.state == "fits")
    if case.python is None and case.told_by_text:  # what its programs are written with is not known either
        yield _again(fix, driver, left=False)
        return
    planned = msgspec.structs.replace(case, planned=cuda)
    stack = stack_of(planned)
    if stack is None:
        yield Leg(stage="toolkit", state="later", text="No toolkit that Numba takes serves this GPU with that driver.")
        return
    software = tuple(_software(msgspec.structs.replace(planned, stack=stack), stack, fixed=fix is not None))
    yield from software
    yield _again(fix, driver, left=any(leg.steps for leg in software))


# ---------------------------------------------------------------- GPU, driver, CUDA
def _names(case: Case) -> str:
    bus, nvml = case.get(PCI), case.get(NVML)
    answered = [gpu.name for gpu in nvml.gpus if gpu.name] if nvml else []
    own = [gpu for gpu in bus.nvidia_gpus if gpu.name and _STAND_IN not in gpu.name] if bus else []
    listed = [f"{gpu.name} [10de:{gpu.device}]" if gpu.device else gpu.name or "" for gpu in own]
    ids = [f"the GPU [10de:{gpu.device}]" for gpu in bus.nvidia_gpus] if bus else []
    return "; ".join(dict.fromkeys(answered or listed or ids)) or "the GPU"


def _driver(case: Case, fix: Prescription | None) -> tuple[Leg, int | None]:
    """The driver's stage, and the branch that will serve, as far as it is known."""
    version = case.module
    if version is not None and case.need.fits(version.major):
        return Leg(stage="driver", state="fits", text=f"{version} drives it"), version.major
    if fix is not None and case.root.layer in _BELOW_TOOLKIT and case.root.layer not in _OF_A_GPU:
        names = case.driver.packages
        asked = (*names, *([f" {tool}"] if (tool := ubuntu_driver(case)) is not None else []))  # of Ubuntu's tool
        installs = any(name in (step.shell or "") for step in fix.steps for name in asked)
        there = max(filter(case.need.fits, installed_branches(case)), default=None)
        if there is not None and not installs:
            return Leg(stage="driver", state="by-the-fix", text=f"branch {there}, which is installed"), there
        if names and not installs:
            return Leg(stage="driver", state="later", text="no step above installs one, and none is known to be installed"), None
        return Leg(stage="driver", state="by-the-fix", text=case.driver.words), case.driver.branch or case.need.high
    return Leg(stage="driver", state="later", text="which driver is loaded is not known"), None


def _cuda(case: Case, cuda: CudaVersion | None, branch: int | None, *, there: bool) -> Leg:
    if cuda is None:
        text = "which CUDA the driver supports is known once it is loaded; wheels of CUDA 12 fit every driver from branch 525 on"
        return Leg(stage="cuda", state="later", text=text)
    number = "{}.{}".format(*cuda.major_minor)
    words = "the driver" if there or branch is None else f"branch {branch}"
    return Leg(stage="cuda", state="fits" if there else "by-the-fix", text=f"{words} supports CUDA up to {number}")


# ---------------------------------------------------------------- toolkit, Numba, Python
def _software(case: Case, stack: Stack, *, fixed: bool) -> Iterator[Leg]:
    python = case.python
    if outdated(case, stack) and stack.release is not None:
        here = f"; this one is {python.version}" if python is not None else ""
        text = f"{stack.numba} runs on Python {in_words(stack.release.python)}{here}"
        yield Leg(stage="python", state="to-do", text=text, steps=_steps(_PYTHON, case))
    if fixed and case.root.layer not in _BELOW_TOOLKIT:
        yield Leg(stage="toolkit", state="by-the-fix", text=_wanted(stack))
        return
    found = _toolkit_there(case, stack)
    if found is not None:
        yield Leg(stage="toolkit", state="fits", text=found)
    else:
        steps = _steps(_WHEELS if stack.wheels is not None else _APART, case)
        yield Leg(stage="toolkit", state="to-do", text=f"{_wanted(stack)}{_unused(case)}", steps=steps)
    yield Leg(stage="numba", state="fits" if _numba_there(case, stack) else "to-do", text=_target(case, stack))


def _steps(recipe: str, case: Case) -> tuple[Step, ...]:
    names = (*((VIRTUAL_ENVIRONMENT,) if recipe != _PYTHON and pip.refused(case) else ()), recipe)
    return tuple(step for name in names for step in render(case.knowledge.recipe(name), case))


def _wanted(stack: Stack) -> str:
    if stack.wheels is not None:
        return f"the wheels of {stack.wheels} bring it"
    return f"CUDA {stack.toolkit}, no newer: the driver refuses the PTX of newer ones"


def _target(case: Case, stack: Stack) -> str:
    target = "the target of numba-cuda" if stack.wheels is not None else f"Numba's own CUDA target, {stack.numba}"
    if stack.release is None:
        return target
    numpy = f"below {BELOW}" if stack.wheels is not None else in_words(stack.release.numpy)
    return f"{target}: Python {in_words(stack.release.python)}, NumPy {numpy}"


def _toolkit_there(case: Case, stack: Stack) -> str | None:
    """The toolkit that the examined Numba would load, where it is there and neither driver nor GPU rules it out."""
    toolkits, python = case.get(TOOLKITS), case.python
    nvvm = toolkits.component("nvvm") if toolkits is not None else None
    if python is None or python.package("numba") is None or nvvm is None or nvvm.path is None or nvvm.version is None:
        return None
    known = case.knowledge.toolkit(nvvm.version)
    lowest = case.gpus.lowest_capability
    serves = known is None or lowest is None or known.cc_min <= lowest
    newer = case.cuda is not None and nvvm.version.major_minor > case.cuda.major_minor
    return f"CUDA {nvvm.version} at {nvvm.path}" if serves and not newer else None


def _unused(case: Case) -> str:
    """A toolkit on the machine that is newer than the driver: not to be used for Numba, and harmless beside another."""
    toolkits = case.get(TOOLKITS)
    for entry in toolkits.toolkits if toolkits is not None else ():
        if entry.version is not None and case.cuda is not None and entry.version.major_minor > case.cuda.major_minor:
            number = "{}.{}".format(*entry.version.major_minor)
            return f". {entry.path} holds CUDA {number}, newer than the driver's CUDA: it may stay, but Numba must not use it"
    return ""


def _numba_there(case: Case, stack: Stack) -> bool:
    python = case.python
    numba = python.package("numba") if python is not None else None
    if python is None or numba is None:
        return False
    if stack.toolkit is None:
        return python.package("numba-cuda") is not None
    row = case.knowledge.numba_release(numba.version)
    return row is not None and takes(row, stack.toolkit)


def _again(fix: Prescription | None, driver: Leg, *, left: bool) -> Leg:
    """The last look. Where nothing is `left` to do, the fix ends with it already."""
    text = "a kernel on every GPU, its result compared"
    if left and driver.state == "by-the-fix" and fix is not None and any(step.kind == "restart" for step in fix.steps):
        text = f"after the restart run it once before the stages below the driver: what it then sees may change them; at the end: {text}"
    if not left:
        return Leg(stage="check", state="by-the-fix" if fix is not None else "to-do", text=text)
    step = Step(text="Check the machine again.", shell=CHECK_AGAIN, kind="reads")
    return Leg(stage="check", state="to-do", text=text, steps=(step,))
