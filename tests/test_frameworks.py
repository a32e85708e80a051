"""Frameworks against driver and GPU: what files and tables show, what a trial in a child shows, and what the user asked for."""

from __future__ import annotations

from typing import Any

import pytest

from cudadoctor.checks import frameworks, wheels
from cudadoctor.inventory.rungs import observe
from cudadoctor.judge.diagnose import Seen, diagnose, rungs_shown_failing
from cudadoctor.judge.stages import judge
from cudadoctor.model.evidence import Evidence, Item
from cudadoctor.model.facts import Facts, NotKnown, Quote
from cudadoctor.model.findings import Clue
from cudadoctor.model.frameworks import NAMES, named_in
from cudadoctor.model.requirements import Requirements
from cudadoctor.model.values import (
    ENVIRONMENT,
    FRAMEWORK_BUILDS,
    FRAMEWORK_RUNS,
    KERNEL,
    LADDER,
    NVCC,
    NVML,
    PCI,
    PYTHON,
    SMI,
    TOOLKITS,
    CudaDevice,
    FrameworkBuild,
    FrameworkBuilds,
    FrameworkRun,
    FrameworkRuns,
    Kernel,
    Ladder,
    Nvml,
    PciBus,
    PythonEnvironment,
    PythonPackage,
    Smi,
    Toolkit,
    Toolkits,
)
from cudadoctor.model.version import ComputeCapability, CudaVersion, PackageVersion, ToolkitVersion
from cudadoctor.prescribe import frameworks as cures
from cudadoctor.prescribe.steps import case_of
from tests.facts_builder import facts_of, host
from tests.judging import KNOWLEDGE
from tests.prescriptions import finding

PATH = "/opt/env/bin/python"


def build(name: str = "torch", cuda: str | None = "13.0", version: str = "2.11.0", kind: Any = "cuda", **more: Any) -> FrameworkBuild:
    made = ToolkitVersion(cuda) if cuda is not None else None
    return FrameworkBuild(name=name, package=more.pop("package", name), version=PackageVersion(version), kind=kind, cuda=made, **more)


def python(*packages: tuple[str, str], conda: bool = False) -> PythonEnvironment:
    listed = tuple(PythonPackage(name=name, version=PackageVersion(version)) for name, version in packages)
    return PythonEnvironment(path=PATH, version="3.12.3", packages=listed, conda="/opt/env" if conda else None)


def ladder(cuda: str = "13.0", capability: str = "9.0") -> Ladder:
    device = CudaDevice(index=0, name="a GPU", address="0000:01:00.0", compute_capability=ComputeCapability(capability))
    return Ladder(cuda=CudaVersion(cuda), devices=(device,))


def machine(*builds: FrameworkBuild, gpu: Ladder | None = None, **more: Any) -> Facts:
    runs = more.pop("runs", ())
    state: dict[Any, Any] = {
        FRAMEWORK_BUILDS: FrameworkBuilds(builds=builds),
        PYTHON: more.pop("python", python()),
        LADDER: gpu or ladder(),
        NVML: Nvml(code=0, message=None),
        SMI: Smi(),
        KERNEL: Kernel(system="Linux", release="6.8.0", machine=more.pop("machine", "x86_64")),
    }
    if runs:
        state[FRAMEWORK_RUNS] = FrameworkRuns(runs=tuple(runs))
    return facts_of({**state, **more.pop("state", {})})


def run(name: str = "torch", status: Any = "fail", **more: Any) -> FrameworkRun:
    return FrameworkRun(name=name, status=status, **more)


def causes(rule: Any, facts: Facts) -> list[str]:
    return [clue.cause for clue in rule(facts, KNOWLEDGE)]


# ---------------------------------------------------------------- driver
@pytest.mark.parametrize(
    ("built_for", "driver", "newer"),
    [
        ("13.0", "12.8", True),
        ("13.2", "13.0", False),  # minor versions of one major version are served
        ("12.8", "12.2", False),
        ("12.1", "11.4", True),
        ("11.8", "13.0", False),
        ("10.2", "10.1", True),  # before 11 they were not
    ],
)
def test_a_build_for_a_cuda_that_the_driver_does_not_serve(built_for: str, driver: str, newer: bool) -> None:
    facts = machine(build(cuda=built_for), gpu=ladder(driver))
    assert causes(frameworks.newer_than_driver, facts) == ["toolkit-newer-than-driver"] * newer


def test_a_framework_that_computed_is_not_doubted() -> None:
    facts = machine(build(cuda="13.0", libraries={"libcublas.so.13": None}), gpu=ladder("12.8"), runs=[run(status="pass")])
    for rule in frameworks.RULES:
        assert list(rule.function(facts, KNOWLEDGE)) == []


def test_without_a_gpu_no_build_is_wrong() -> None:
    facts = machine(build(cuda="13.0", libraries={"libcudnn.so.9": None}), gpu=Ladder(), state={PCI: PciBus(functions=())})
    for rule in frameworks.RULES:
        assert list(rule.function(facts, KNOWLEDGE)) == []


def test_whether_there_is_a_gpu_may_be_unknown() -> None:
    facts = facts_of({FRAMEWORK_BUILDS: FrameworkBuilds(builds=(build(),)), PYTHON: python()}, unknown=(LADDER, PCI))
    with pytest.raises(NotKnown):
        list(frameworks.libraries_missing(facts, KNOWLEDGE))


# ---------------------------------------------------------------- architectures
@pytest.mark.parametrize(
    ("architectures", "capability", "fits"),
    [
        (("sm_75", "sm_80", "sm_90"), "8.9", True),
        (("sm_75", "sm_80", "sm_90"), "6.1", False),
        (("sm_75", "sm_80", "sm_90"), "12.0", False),
        (("sm_75", "compute_90"), "12.0", True),  # PTX is compiled for newer GPUs
        (("sm_75", "compute_90"), "8.6", False),
        (("sm_86",), "8.0", False),
        (("sm_90a",), "9.0", True),
        (("sm_100a",), "10.3", False),
        (("sm_100f",), "10.3", True),
        (("gfx90a",), "8.0", True),  # nothing of this list is understood: it accuses nobody
    ],
)
def test_which_gpus_a_list_of_architectures_serves(architectures: tuple[str, ...], capability: str, fits: bool) -> None:
    assert frameworks.holds_code(architectures, ComputeCapability(capability)) is fits
    facts = machine(build(architectures=architectures), gpu=ladder(capability=capability))
    assert causes(frameworks.lacks_architecture, facts) == ([] if fits else ["framework-lacks-gpu-arch"])


@pytest.mark.parametrize(
    ("cuda", "capability", "lacks"),
    [
        ("12.6", "12.0", True),
        ("13.0", "6.1", True),
        ("12.8", "7.0", False),  # some releases of this index had Volta
        ("12.6", "8.9", False),
        ("12.4", "12.0", True),  # no row: its compiler knew no such GPU
        ("12.4", "9.0", False),  # no row, and the compiler knew it: nobody knows
        ("11.1", "12.0", False),  # builds of CUDA 11 may hold PTX
    ],
)
def test_pytorchs_index_tells_where_its_files_do_not(cuda: str, capability: str, lacks: bool) -> None:
    facts = machine(build(cuda=cuda), gpu=ladder(capability=capability))
    assert causes(frameworks.lacks_architecture, facts) == ["framework-lacks-gpu-arch"] * lacks
    assert causes(frameworks.lacks_architecture, machine(build(cuda=cuda), gpu=ladder(capability=capability), machine="aarch64")) == []


# ---------------------------------------------------------------- libraries
def test_libraries_that_are_nowhere() -> None:
    facts = machine(build(libraries={"libcudart.so.13": "/x/libcudart.so.13", "libcublas.so.13": None, "libcudnn.so.9": None}))
    (clue,) = frameworks.libraries_missing(facts, KNOWLEDGE)
    assert (clue.cause, clue.values["library"], clue.seen) == ("framework-cuda-libs-missing", "libcublas.so.13", "unseen")
    assert causes(frameworks.cudnn, facts) == ["cudnn-missing-or-mismatched"]


@pytest.mark.parametrize(("installed", "old"), [("9.1.0.70", 1), ("9.20.0.48", 0), ("9.21.1.3", 0)])
def test_a_cudnn_older_than_the_framework_accepts(installed: str, old: int) -> None:
    there = {"libcudnn.so.9": "/x/libcudnn.so.9"}
    facts = machine(build(cudnn=PackageVersion("9.20.0.48"), libraries=there), python=python(("nvidia-cudnn-cu13", installed)))
    assert causes(frameworks.cudnn, facts) == ["cudnn-missing-or-mismatched"] * old


def test_bitsandbytes_without_a_library_for_pytorchs_cuda() -> None:
    own = build("bitsandbytes", None, "0.45.0", builds=(ToolkitVersion("11.8"), ToolkitVersion("12.6")))
    assert causes(frameworks.libraries_missing, machine(build(cuda="13.0"), own)) == ["framework-cuda-libs-missing"]
    assert causes(frameworks.libraries_missing, machine(build(cuda="12.8"), own)) == []


def test_pycuda_without_nvcc() -> None:
    facts = machine(build("pycuda", None, "2026.1"), state={NVCC: None, TOOLKITS: Toolkits()})
    assert causes(frameworks.nvcc_missing, facts) == ["toolkit-missing"]
    assert causes(frameworks.nvcc_missing, machine(build("torch"), state={NVCC: None})) == []


# ---------------------------------------------------------------- builds without CUDA
def test_a_cpu_build_degrades_a_machine_with_a_gpu() -> None:
    cpu = build(cuda=None, kind="cpu")
    (clue,) = wheels.cpu_build(machine(cpu, python=python(("torch", "2.11.0"))), KNOWLEDGE)
    assert judged(clue).root_effect == "degrades"


def test_each_cpu_build_is_named_and_gets_its_steps() -> None:
    builds = (build(cuda=None, kind="cpu"), build("jax", cuda=None, kind="cpu"))
    clues = list(wheels.cpu_build(machine(*builds, python=python(("torch", "2.11.0"), ("jax", "0.9"))), KNOWLEDGE))
    assert {clue.values["frameworks"] for clue in clues} == {"torch, jax"}


def test_two_series_beside_which_all_computed_are_an_advice() -> None:
    double = python(("nvidia-cublas-cu12", "12.9.1.4"), ("nvidia-cublas", "13.1.0.3"))
    for runs, advice in (((), False), ((run(status="pass"),), True), ((run(status="pass"), run("jax")), False)):
        (clue,) = wheels.mixed(machine(build(), python=double, runs=runs), KNOWLEDGE)
        assert clue.advice is advice
    cupys = python(("cupy-cuda12x", "14.2.0"), ("cupy-cuda13x", "14.2.0"))
    (clue,) = wheels.mixed(machine(build(), python=cupys, runs=(run(status="pass"),)), KNOWLEDGE)
    assert not clue.advice


# ---------------------------------------------------------------- effects and the verdict
class Judged:
    def __init__(self, verdict: str, found: dict[str, str]) -> None:
        self.verdict, self.found = verdict, found

    @property
    def root_effect(self) -> str:
        return next(iter(self.found.values()))


def judged(*clues: Clue, runs: tuple[FrameworkRun, ...] = ()) -> Judged:
    facts = host({FRAMEWORK_RUNS: FrameworkRuns(runs=runs)} if runs else {})
    rungs = observe(facts, shown_failing=rungs_shown_failing(clues, KNOWLEDGE))
    result = diagnose(Seen(clues=clues, outcomes=(), facts=facts, rungs=rungs, goal="numba-kernel"), KNOWLEDGE, Requirements())
    diagnosis = result.diagnosis
    every = (*((diagnosis.root,) if diagnosis.root else ()), *diagnosis.explains, *diagnosis.also)
    return Judged(result.verdict, {one.cause: one.effect for one in every})


def test_what_files_show_degrades_and_what_failed_blocks() -> None:
    facts = machine(build(libraries={"libcublas.so.13": None}))
    assert judged(*frameworks.libraries_missing(facts, KNOWLEDGE)).verdict == "degraded"
    failed = run(step="import", why="ImportError: libcublas.so.13")
    facts = machine(build(libraries={"libcublas.so.13": None}), runs=[failed])
    clues = tuple(frameworks.libraries_missing(facts, KNOWLEDGE))
    assert judged(*clues, runs=(failed,)).verdict == "broken"


def test_one_frameworks_failure_is_not_anothers() -> None:
    failed = run("tensorflow", step="import", why="ImportError")
    facts = machine(build(libraries={"libcublas.so.13": None}), runs=[failed])
    assert judged(*frameworks.libraries_missing(facts, KNOWLEDGE), runs=(failed,)).found["framework-cuda-libs-missing"] == "degrades"


def test_a_failure_that_nothing_explains_leaves_the_verdict_open() -> None:
    assert judged(runs=(run(step="compute", why="RuntimeError: strange"),)).verdict == "undecided"
    assert judged(runs=(run(status="pass"),)).verdict == "healthy"
    assert judged(runs=(run(status="hang", why="no answer within 45 s"),)).verdict == "healthy"


def test_a_framework_speaks_for_itself_and_not_for_numba() -> None:
    """The same cause stated by a Numba kernel breaks that rung; stated by a framework it leaves it standing."""
    said = Clue(
        cause="toolkit-newer-than-driver", quotes=(Quote(source="import torch", text="too old"),), basis="stated", from_rung="framework"
    )
    assert rungs_shown_failing([said], KNOWLEDGE) == ()
    assert judged(said, runs=(run(),)).verdict == "broken"


# ---------------------------------------------------------------- texts of failed trials
def replayed(output: str, *, devices: bool = True) -> dict[str, str]:
    """What a trial's output leads to, on a machine whose ladder answered or did not."""
    end = {"event": "end", "step": "devices", "status": "fail", "output": output, "why": output.splitlines()[-1]}
    start, begin = {"event": "start", "framework": "torch"}, {"event": "begin", "step": "devices"}
    import json

    lines = "".join(json.dumps(entry) + "\n" for entry in (start, begin, end, {"event": "done"}))
    items = [Item(id="framework-torch", kind="worker", what=(PATH, "frameworks.py"), status="ok", exit=0, stdout=lines)]
    steps = [{"event": "start", "python": PATH}, {"event": "end", "step": "libcuda", "status": "pass"}]
    device = {"index": 0, "name": "a GPU", "address": "0000:01:00.0", "compute_capability": "9.0"}
    ending = {"event": "end", "step": "devices", "status": "pass", "cuda": "12.4", "devices": [device]}
    steps += [{"event": "end", "step": "init", "status": "pass"}, ending] if devices else []
    climbed = "".join(json.dumps(entry) + "\n" for entry in steps)
    items.append(Item(id="ladder", kind="worker", what=(PATH, "ladder.py"), status="ok", exit=0, stdout=climbed))
    diagnosis = judge(Evidence(items=tuple(items)), KNOWLEDGE).diagnosis
    every = (*((diagnosis.root,) if diagnosis.root else ()), *diagnosis.explains, *diagnosis.also, *diagnosis.suspects)
    return {one.cause: one.effect for one in every}


OLD = "RuntimeError: The NVIDIA driver on your system is too old (found version 11040). Please update your GPU driver"
NO_DRIVER = "RuntimeError: Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU"


def test_the_words_of_a_failed_trial_are_recognised() -> None:
    assert replayed("ImportError: libcudnn.so.9: cannot open shared object file")["cudnn-missing-or-mismatched"] == "blocks"
    assert replayed("AssertionError: Torch not compiled with CUDA enabled")["framework-cpu-build"] == "degrades"
    assert replayed("AttributeError: module 'pynvml' has no attribute 'nvmlInit'").get("pynvml-conflict") == "degrades"
    assert replayed(OLD)["toolkit-newer-than-driver"] == "blocks"


def test_of_the_driver_the_ladder_knows_more() -> None:
    assert replayed(NO_DRIVER) == {}
    assert "toolkit-newer-than-driver" not in replayed(OLD, devices=False)


# ---------------------------------------------------------------- the line of the row
def test_the_row_names_the_frameworks_that_are_there() -> None:
    builds = (build(), build("jax", None, "0.8.1", kind="cpu"), build("cupy", "12", "14.2.0", package="cupy-cuda12x"))
    facts = machine(*builds, python=python(("numpy", "2.4.6")), runs=[run(status="pass", devices=("NVIDIA H200",))])
    said, quotes = frameworks.described(facts)
    assert said == [
        "torch 2.11.0 for CUDA 13.0: computed on NVIDIA H200",
        "jax 0.8.1, built without CUDA",
        "cupy 14.2.0 for CUDA 12",
    ]
    assert quotes
    assert "tensorflow" not in " ".join(said)


# ---------------------------------------------------------------- which frameworks a text names
@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("import torch\nimport jax.numpy as jnp\n", ("torch", "jax")),
        ('File "/x/site-packages/onnxruntime/capi/x.py"', ("onnxruntime",)),
        ("pytorch-lightning and torchvision", ()),
        ("ImportError: CuPy failed to load libnvrtc.so.12", ("cupy",)),
        ("jaxb and torchlight", ()),
        ("pycuda._driver.LogicError: cuInit failed", ("pycuda",)),
    ],
)
def test_frameworks_that_a_text_names(text: str, named: tuple[str, ...]) -> None:
    assert named_in(text) == named
    assert set(named) <= set(NAMES)


# ---------------------------------------------------------------- what to install
@pytest.mark.parametrize(
    ("cuda", "capability", "wanted"),
    [
        ("13.0", "9.0", ("jax[cuda13]", "cupy-cuda13x[ctk]", "tensorflow[and-cuda]", "onnxruntime-gpu[cuda,cudnn]>=1.28")),
        ("12.4", "8.6", ("jax[cuda12]", "cupy-cuda12x[ctk]", "tensorflow[and-cuda]", "onnxruntime-gpu[cuda,cudnn]<1.27")),
        ("13.0", "6.1", ("jax[cuda12]", "cupy-cuda12x[ctk]", "tensorflow[and-cuda]", "onnxruntime-gpu[cuda,cudnn]<1.27")),
        ("11.4", "7.5", (None, "cupy-cuda11x", "tensorflow[and-cuda]==2.14.*", "onnxruntime-gpu<1.19")),
    ],
)
def test_the_wheels_fit_driver_and_gpu(cuda: str, capability: str, wanted: tuple[str | None, ...]) -> None:
    facts = facts_of({LADDER: ladder(cuda, capability), PYTHON: python()})
    values = dict(cures.values(case_of(finding("framework-cpu-build"), {}, facts, KNOWLEDGE, "ubuntu-24.04")))
    names = ("jax_requirement", "cupy_requirement", "tensorflow_requirement", "onnxruntime_requirement")
    assert tuple(values[name] for name in names) == wanted


def test_the_wheels_of_the_series_that_nothing_is_built_for() -> None:
    packages = python(("nvidia-cublas-cu12", "12.9.1.4"), ("nvidia-cublas", "13.1.0.3"), ("nvidia-ml-py", "13.590.44"))
    for cuda, surplus in (("13.0", ("nvidia-cublas-cu12",)), ("12.8", ("nvidia-cublas",))):
        facts = machine(build(cuda=cuda), python=packages)
        assert cures.surplus_wheels(case_of(finding("toolkit-libraries-mixed"), {}, facts, KNOWLEDGE, None)) == surplus
    both = machine(build(cuda="13.0"), build("cupy", "12", "14.2.0"), python=packages)
    assert cures.surplus_wheels(case_of(finding("toolkit-libraries-mixed"), {}, both, KNOWLEDGE, None)) is None


def test_the_wheels_that_numba_compiles_with_are_in_use() -> None:
    """Seen with two CuPys beside numba-cuda[cu13]: the series of the CuPy that goes is no reason to remove the one that Numba uses."""
    packages = python(("nvidia-cuda-nvrtc", "13.5.37"), ("cuda-bindings", "13.3.1"), ("cupy-cuda11x", "13.6.0"), ("cupy-cuda12x", "14.2.0"))
    facts = machine(build("cupy", "12", "14.2.0"), python=packages)
    found = case_of(finding("toolkit-libraries-mixed"), {"framework": "cupy"}, facts, KNOWLEDGE, None)
    assert cures.surplus_wheels(found) is None
    beside = machine(
        build(cuda="12.8"), python=python(("nvidia-cublas-cu12", "12.8"), ("nvidia-cublas", "13.1"), ("cuda-bindings", "13.3.1"))
    )
    assert cures.surplus_wheels(case_of(finding("toolkit-libraries-mixed"), {}, beside, KNOWLEDGE, None)) is None


def test_an_nvcc_off_the_path_is_named() -> None:
    there = Toolkits(toolkits=(Toolkit(path="/usr/local/cuda", has_nvcc=True),))
    for nvcc, folder in ((None, "/usr/local/cuda/bin"),):
        facts = facts_of({NVCC: nvcc, TOOLKITS: there, ENVIRONMENT: None})
        assert cures.nvcc_folder(case_of(finding("toolkit-missing"), {}, facts, KNOWLEDGE, None)) == folder


# ---------------------------------------------------------------- the command line
def test_what_the_options_ask_for() -> None:
    import click

    from cudadoctor.commands import gathering
    from cudadoctor.sources.pasted import output_of

    log = (output_of(b'File "/x/site-packages/torch/__init__.py"\nRuntimeError: CUDA error\n'),)
    assert gathering.frameworks({}, ()) == ()
    assert gathering.frameworks({}, log) == ("torch",)
    assert gathering.frameworks({"frameworks": True}, log) == NAMES
    with pytest.raises(click.UsageError):
        gathering.frameworks({"frameworks": True, "quick": True}, ())
