"""The way from the root cause's fix to a running kernel: one plan whose versions fit each other, for the machines that the project began with."""

from __future__ import annotations

import json
from collections.abc import Sequence

import msgspec
import pytest

from cudadoctor.judge.stages import judge
from cudadoctor.model.recipe import Leg
from cudadoctor.model.values import PCI
from cudadoctor.model.version import ComputeCapability, CudaVersion
from cudadoctor.prescribe import prescribe, way
from cudadoctor.prescribe.gpus import Gpus
from cudadoctor.prescribe.pip import in_words, stack_of
from cudadoctor.prescribe.steps import case_of
from cudadoctor.sources import recording
from tests.command_line import HOSTS, changed, records, run
from tests.facts_builder import bus, facts_of, gpu
from tests.judging import KNOWLEDGE
from tests.prescriptions import finding

MX250, FERMI_CARD = "1d13", "0dc4"
KEPLER_PLAN = """\
gpu (fits): GK208M [GeForce GT 740M]: Kepler, compute capability 3.5
driver (by-the-fix): nvidia-driver-470 (branch 470, the last that drives this GPU, with the proprietary kernel modules)
cuda (by-the-fix): branch 470 supports CUDA up to 11.4
toolkit (to-do): CUDA 11.4, no newer: the driver refuses the PTX of newer ones. /usr/lib/nvidia-cuda-toolkit holds CUDA 11.5, newer than the driver's CUDA: it may stay, but Numba must not use it
    conda install -y -p /home/user-1/anaconda3 -c conda-forge numba cudatoolkit=11.4
numba (fits): Numba's own CUDA target, numba: Python from 3.9 on, below 3.13, NumPy from 1.22 on, below 1.27 or 2.0
check (to-do): after the restart run it once before the stages below the driver: what it then sees may change them; at the end: a kernel on every GPU, its result compared
    cudadoctor check
"""
PASCAL_PLAN = """\
gpu (fits): GP108M [GeForce MX250] [10de:1d13]: Pascal, compute capability 6.1
driver (by-the-fix): the one that Manjaro's own tool mhwd chooses for this GPU (branch 580, the last that drives this GPU, with the proprietary kernel modules)
cuda (by-the-fix): branch 580 supports CUDA up to 13.0
toolkit (to-do): the wheels of numba-cuda[cu12] bring it
    python3 -m pip install 'numba-cuda[cu12]' 'numpy<2.5'
numba (to-do): the target of numba-cuda: Python from 3.10 on, NumPy below 2.5
check (to-do): after the restart run it once before the stages below the driver: what it then sees may change them; at the end: a kernel on every GPU, its result compared
    cudadoctor check
"""
HOPPER_PLAN = """\
gpu (fits): NVIDIA H200: Hopper, compute capability 9.0
driver (fits): 580.159.04 drives it
cuda (fits): the driver supports CUDA up to 13.0
toolkit (by-the-fix): the wheels of numba-cuda[cu13] bring it
check (by-the-fix): a kernel on every GPU, its result compared
"""
WINDOWS_PLAN = """\
gpu (fits): the GPU [10de:1299]: Kepler, compute capability 3.5
driver (by-the-fix): NVIDIA's driver for Windows, branch 470, the last that drives this GPU; the last for Windows is 475.14, of notebooks 425.31, from https://www.nvidia.com/drivers
cuda (by-the-fix): branch 470 supports CUDA up to 11.4
toolkit (fits): CUDA 11.3.1 at C:\\Users\\user-1\\anaconda3\\Library\\bin\\nvvm64_40_0.dll
numba (fits): Numba's own CUDA target, numba: Python from 3.9 on, below 3.13, NumPy from 1.22 on, below 1.27 or 2.0
check (by-the-fix): a kernel on every GPU, its result compared
"""
FERMI_PLAN = """\
gpu (fits): the GPU [10de:0dc4]: Fermi, compute capability 2.1
driver (by-the-fix): nvidia-driver-390 (branch 390, the last that drives this GPU, with the proprietary kernel modules); `ubuntu-drivers list` names what ubuntu 18.04 has
cuda (by-the-fix): branch 390 supports CUDA up to 9.1
python (to-do): numba==0.50.* runs on Python from 3.6 on, below 3.9
    uv venv --seed --python 3.8 "$HOME"/gpu-env
toolkit (to-do): CUDA 8.0, no newer: the driver refuses the PTX of newer ones
    Install the toolkit of CUDA 8.0 without its driver (in the installer choose the toolkit alone): https://developer.nvidia.com/cuda-toolkit-archive.
    export CUDA_HOME=/usr/local/cuda-8.0
    "$HOME"/gpu-env/bin/python -m pip install 'numba==0.50.*'
numba (to-do): Numba's own CUDA target, numba==0.50.*: Python from 3.6 on, below 3.9, NumPy from 1.15 on, below 1.19
check (to-do): after the restart run it once before the stages below the driver: what it then sees may change them; at the end: a kernel on every GPU, its result compared
    cudadoctor check
"""


def said(legs: Sequence[Leg]) -> str:
    lines = []
    for leg in legs:
        lines.append(f"{leg.stage} ({leg.state}): {leg.text}")
        lines += [f"    {line}" for step in leg.steps for line in (step.shell or step.text).split("\n")]
    return "\n".join(lines) + "\n"


def of_host(name: str) -> str:
    return said(judge(recording.read(str(HOSTS / name)), KNOWLEDGE).way)


def planned(cause: str, device: str, distro: str, **state: object) -> str:
    facts = facts_of({PCI: bus(gpu(driver=None, device=device, name="GP108M [GeForce MX250]" if device == MX250 else None)), **state})  # type: ignore[arg-type]
    root = finding(cause)
    fix = prescribe(root, {}, facts, KNOWLEDGE, distro)
    return said(way(root, {}, facts, KNOWLEDGE, distro, fix))


# ---------------------------------------------------------------- the machines of the seeds
def test_gt_740m_on_ubuntu_22_04() -> None:
    assert of_host("seed-gt740m-nouveau") == KEPLER_PLAN


def test_920m_on_windows_10() -> None:
    assert of_host("windows-basic-display-adapter") == WINDOWS_PLAN


def test_mx250_on_manjaro() -> None:
    assert planned("driver-not-installed", MX250, "manjaro") == PASCAL_PLAN


def test_h200() -> None:
    assert of_host("h200-toolkit-hidden") == HOPPER_PLAN


# ---------------------------------------------------------------- others
@pytest.mark.parametrize(
    ("host", "driver", "wheels"),
    [
        ("driver-not-loaded", "driver (by-the-fix): branch 535, which is installed\n", "numba-cuda[cu12]"),
        ("secure-boot-blocks-module", "driver (by-the-fix): branch 535, which is installed\n", "numba-cuda[cu12]"),
        ("vfio-bound", "driver (later): no step above installs one, and none is known to be installed\n", "numba-cuda[cu12]"),
    ],
)
def test_no_driver_is_counted_on_that_no_step_installs(host: str, driver: str, wheels: str) -> None:
    assert driver in of_host(host)
    assert wheels in of_host(host)


def test_a_fermi_card_needs_an_old_numba_and_an_old_python() -> None:
    assert planned("driver-not-installed", FERMI_CARD, "ubuntu-18.04") == FERMI_PLAN


def test_nothing_is_planned_where_a_kernel_ran_or_the_program_is_at_fault() -> None:
    assert judge(recording.read(str(HOSTS / "h200-healthy")), KNOWLEDGE).way == ()
    assert planned("program-memory-fault", MX250, "manjaro") == "\n"


def test_nothing_is_planned_for_a_gpu_that_nobody_knows() -> None:
    assert of_host("no-gpu-container-marks") == "\n"
    assert planned("driver-not-installed", "ffff", "manjaro") == "\n"


@pytest.mark.parametrize(
    ("ranges", "words"),
    [
        (">= 3.10", "from 3.10 on"),
        ("3.9 <= version < 3.13", "from 3.9 on, below 3.13"),
        ("1.22 <= version < 1.27 ; version == 2.0 (2.0: binary compatibility only)", "from 1.22 on, below 1.27 or 2.0"),
        (">= 1.22, < 2.6", "from 1.22 on, below 2.6"),
    ],
)
def test_ranges_in_words(ranges: str, words: str) -> None:
    assert in_words(ranges) == words


@pytest.mark.parametrize(
    ("capability", "driver", "wheels", "toolkit", "numba"),
    [
        ("9.0", "13.0", "numba-cuda[cu12]", None, "numba"),
        ("9.0", "12.2", "numba-cuda[cu12]", None, "numba"),
        ("6.1", "13.0", "numba-cuda[cu12]", None, "numba"),
        ("5.0", "11.8", "numba-cuda[cu11]<0.19", None, "numba"),
        ("5.0", "11.4", None, "11.4", "numba"),
        ("3.5", "11.4", None, "11.4", "numba"),
        ("3.0", "11.4", None, "10.2", "numba==0.56.*"),
        ("2.1", "9.1", None, "8.0", "numba==0.50.*"),
    ],
)
def test_toolkit_and_numba_for_gpu_and_driver(capability: str, driver: str, wheels: str | None, toolkit: str | None, numba: str) -> None:
    gpus = Gpus(capabilities=(ComputeCapability(capability),))
    case = msgspec.structs.replace(
        case_of(finding("toolkit-missing"), {}, facts_of({}), KNOWLEDGE, None), gpus=gpus, planned=CudaVersion(driver)
    )
    stack = stack_of(case)
    assert stack is not None
    assert (stack.wheels, stack.toolkit.text if stack.toolkit else None, stack.numba) == (wheels, toolkit, numba)


# ---------------------------------------------------------------- as it is printed
def test_the_numbers_of_the_steps_go_on_behind_the_fix() -> None:
    out = run("fix", "--suggest", "--replay", str(HOSTS / "seed-gt740m-nouveau")).out
    fix, rest = out.split("The rest of the way to a running kernel")
    assert "  5. Check the machine again." in fix
    assert "  6. Install Numba with the toolkit of CUDA 11.4." in rest
    assert "cudatoolkit=11.4" in rest


def test_where_nothing_is_left_one_sentence_says_so() -> None:
    rest = run("fix", "--suggest", "--replay", str(HOSTS / "h200-toolkit-hidden")).out.split("The rest of the way")[1]
    assert "fit each other" in rest
    assert "cudadoctor check" not in rest


def test_another_cause_that_is_asked_for_has_no_plan() -> None:
    assert "The rest of the way" not in run("fix", "nouveau-bound", "--replay", str(HOSTS / "h200-toolkit-hidden")).out


# ---------------------------------------------------------------- a doctor without a compiler
def without_compiler(text: str) -> str:
    """The doctor's own climb, whose Numba finds no compiler."""
    why = "the doctor's own Numba found no compiler: its extra cu12 or cu13 brings one"
    lines = []
    for record in records(text):
        if record.get("step") == "numba-kernel" and record["event"] == "end":
            record.update(status="skip", why=why)
        if record["event"] != "smoke":
            lines.append(json.dumps(record))
    return "\n".join(lines)


def test_a_doctor_without_a_compiler_accuses_nothing_and_names_what_fits() -> None:
    report = judge(changed("h200-numba-in-the-doctors-python", {"ladder-own": without_compiler}), KNOWLEDGE)
    assert (report.verdict, report.diagnosis.root) == ("undecided", None)
    assert [ask.command for ask in report.diagnosis.ask] == ["cudadoctor fix --suggest"]
    shells = [step.shell or "" for leg in report.way for step in leg.steps]
    assert any("'numba-cuda[cu13]'" in shell for shell in shells)
    assert "venv" in shells[0] + shells[1], "the distribution's Python refuses pip"
    assert any("extra cu12 or cu13" in note for note in report.notes)
