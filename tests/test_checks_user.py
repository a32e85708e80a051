"""Rules of the rows nvidia-smi, nvml, libcuda, toolkit, cuda-home, python, numba, processes, smoke, benchmark.

Each cause fires, does not fire, and is undecided where the fact that decides is unknown.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import pytest

from cudadoctor.checks import benchmark, cuda_home, libcuda, numba, nvidia_smi, nvml, processes, python, smoke, toolkit
from cudadoctor.checks.base import Line
from cudadoctor.model.facts import Facts, Key, NotKnown
from cudadoctor.model.findings import Clue
from cudadoctor.model.values import (
    CONTAINER_MARKS,
    DRIVER_FILES,
    ENVIRONMENT,
    FRAMEWORK_BUILDS,
    HANGS,
    KERNEL_INTERFACE,
    KERNEL_LOG,
    LADDER,
    LIBRARIES,
    LIMITS,
    LOADED_DRIVER,
    MODULES,
    NVCC,
    NVML,
    PCI,
    PROCESSES,
    PYTHON,
    PYTHON_RAN,
    SMI,
    TEGRA,
    TOOLKITS,
    WSL,
    Changed,
    Component,
    ConfigLine,
    CudaDevice,
    Environment,
    FrameworkBuilds,
    GpuProcess,
    InstalledFile,
    Ladder,
    Limit,
    LoadedDriver,
    Measurement,
    NumbaState,
    Nvcc,
    Nvml,
    NvmlGpu,
    Process,
    Processes,
    PythonEnvironment,
    PythonPackage,
    Refusal,
    Refused,
    RungResult,
    Shadow,
    Silent,
    Smi,
    SmokeStep,
    Toolkit,
    Toolkits,
)
from cudadoctor.model.version import ComputeCapability, CudaVersion, LibraryVersion, ModuleVersion, PackageVersion, ToolkitVersion
from cudadoctor.parsers.framework_builds import builds_of
from tests import facts_builder as make
from tests.cases import every, todays
from tests.facts_builder import ADDRESS, PASCAL, VERSION, State, fact
from tests.judging import KNOWLEDGE
from tests.prescriptions import shells, written

CHECKS = (nvidia_smi.CHECK, nvml.CHECK, libcuda.CHECK, toolkit.CHECK, cuda_home.CHECK, python.CHECK, numba.CHECK, processes.CHECK)
ROWS = (*CHECKS, smoke.CHECK, benchmark.CHECK)
PATH = "/home/ada/env/bin/python"
SUBJECT = f"python:{PATH}"
GIB = 1 << 30


# ---------------------------------------------------------------- values
def environment(**variables: str) -> Any:
    lines = {name: number for number, name in enumerate(variables, 1)}
    return fact(ENVIRONMENT, Environment(variables=variables, lines=lines), *(f"{name}={value}" for name, value in variables.items()))


def package(name: str, version: str, *requires: str) -> PythonPackage:
    return PythonPackage(name=name, version=PackageVersion(version), requires=requires)


NUMBA = package("numba", "0.68.1", "llvmlite<0.51,>=0.50.0dev0", "numpy<2.6,>=1.22")
TARGET = package("numba-cuda", "0.30.4", "numba>=0.60.0", "cuda-bindings<14.0.0,>=12.9.1", 'cuda-toolkit==13.*; extra == "cu13"')
OTHERS = (package("llvmlite", "0.50.0"), package("cuda-bindings", "12.9.4"), package("cuda-core", "0.5.1"))
NUMPY = package("numpy", "2.4.6")


def interpreter(*packages: PythonPackage, **more: Any) -> Any:
    """An interpreter with exactly these packages."""
    value = PythonEnvironment(path=PATH, version="3.12.3", packages=packages, **more)
    return fact(PYTHON, value, "Python 3.12.3", *(f"{entry.name} {entry.version}" for entry in packages))


def with_numba(*changed: PythonPackage, without: tuple[str, ...] = (), **more: Any) -> Any:
    """The healthy set, with some packages in another version."""
    chosen = {entry.name: entry for entry in (NUMBA, TARGET, *OTHERS, NUMPY, *changed)}
    return interpreter(*(entry for name, entry in chosen.items() if name not in without), **more)


def built_in(numba: PythonPackage = NUMBA, *more: PythonPackage) -> Any:
    """Numba with its own target."""
    return interpreter(numba, NUMPY, package("llvmlite", "0.50.0"), *more)


def parts(version: str | None = "12.9.86", missing: tuple[str, ...] = ()) -> tuple[Component, ...]:
    number = ToolkitVersion(version) if version is not None else None
    return tuple(
        Component(name=name) if name in missing else Component(name=name, path=f"/env/{name}", version=number, rule="wheel")
        for name in ("nvvm", "libdevice", "nvrtc", "nvjitlink", "cudart")
    )


def folder(path: str, rule: str = "/usr/local/cuda", version: str = "13.0.2", **more: Any) -> Toolkit:
    content = more or {"has_nvcc": True, "has_nvvm": True, "has_libdevice": True}
    return Toolkit(path=path, rule=rule, version=ToolkitVersion(version), **content)


def toolkits(*folders: Toolkit, components: tuple[Component, ...] | None = None) -> Any:
    return Toolkits(toolkits=folders, components=parts() if components is None else components)


def climb(fails: str | None = None, *, state: NumbaState | None = None, **more: Any) -> Ladder:
    """A ladder; `more` are fields of the failing rung."""
    ladder = make.ladder(fails)
    rungs = tuple(msgspec.structs.replace(entry, **more) if entry.rung == fails else entry for entry in ladder.rungs)
    return msgspec.structs.replace(ladder, rungs=rungs, numba=state)


def found_gpu(used: int = 0, total: int = 140 * GIB, index: int = 0, address: str = ADDRESS, **more: Any) -> NvmlGpu:
    return make.nvml_gpu(index, address, memory_used_bytes=used, memory_total_bytes=total, memory_reserved_bytes=615 << 20, **more)


def on_gpu(*entries: GpuProcess, gpu: NvmlGpu | None = None, **more: Any) -> Nvml:
    chosen = gpu or found_gpu(sum(entry.memory_bytes or 0 for entry in entries))
    return Nvml(code=0, library=LibraryVersion(VERSION), cuda=CudaVersion("13.0"), gpus=(chosen,), processes=entries, **more)


def listed(pid: int = 4242, memory: int | None = 120 * GIB, kind: str = "C", **more: Any) -> GpuProcess:
    return GpuProcess(gpu=ADDRESS, pid=pid, kind=kind, memory_bytes=memory, **{"name": "/usr/bin/train", **more})


def table(*entries: Process, complete: bool = True) -> Any:
    lines = [f"process {entry.pid}, parent {entry.ppid}, user {entry.user}, {entry.state}" for entry in entries]
    return fact(PROCESSES, Processes(processes=(Process(pid=1), *entries), complete=complete), "psutil 7.2.2", *lines)


def process(pid: int = 4242, state: Any = "running", ppid: int = 1000, **more: Any) -> Process:
    given = {
        "user": "ada",
        "own": True,
        "start_time": 1763721234.56,
        "devices": ("/dev/nvidia0", "/dev/nvidia-uvm", "/dev/nvidiactl"),
        **more,
    }
    return Process(pid=pid, ppid=ppid, state=state, command="train.py", **given)


def healthy() -> State:
    return {
        KERNEL_INTERFACE: (),
        PYTHON: with_numba(),
        PYTHON_RAN: None,
        TOOLKITS: toolkits(),
        NVCC: None,
        PROCESSES: table(),
        NVML: on_gpu(),
        SMI: Smi(library=LibraryVersion(VERSION), cuda=CudaVersion("13.0"), module=ModuleVersion(VERSION), gpus=make.smi().gpus),
        ENVIRONMENT: environment(HOME="/home/ada"),
        LADDER: climb(state=NumbaState(version="0.68.1", implementation="NVIDIA", line=20)),
    }


def host(changes: State | None = None, unknown: Iterable[Key[Any]] = ()) -> Facts:
    """The machine with these changes. The frameworks are those among its packages, and unknown where these are."""
    state = {**healthy(), **(changes or {})}
    packages = {entry.name: entry for entry in state[PYTHON].value.packages} if state[PYTHON].value is not None else {}
    builds = FrameworkBuilds(builds=builds_of(packages, (), whole=state[PYTHON].whole))
    lacking = (*unknown, *((FRAMEWORK_BUILDS,) if PYTHON in unknown else ()))
    return make.host({FRAMEWORK_BUILDS: builds, **state}, lacking)


def judged(facts: Facts) -> tuple[dict[str, Clue], set[str]]:
    return make.judged(CHECKS, facts)


def causes(changes: State | None = None, unknown: Iterable[Key[Any]] = ()) -> set[str]:
    return set(judged(host(changes, unknown))[0])


def undecided(changes: State | None = None, unknown: Iterable[Key[Any]] = ()) -> set[str]:
    return judged(host(changes, unknown))[1]


def clue(cause: str, changes: State, unknown: Iterable[Key[Any]] = ()) -> Clue:
    return judged(host(changes, unknown))[0][cause]


# ---------------------------------------------------------------- each cause, and the facts that decide it
NOT_FOUND = "libcuda.so.1: cannot open shared object file: No such file or directory"
STUB_PATH = "/usr/local/cuda/lib64/stubs/libcuda.so"
COMPAT_PATH = "/usr/local/cuda-13.0/compat/libcuda.so.580.95.05"
NO_TARGET: State = {LADDER: climb("numba-kernel", output="No module named 'cuda'")}
FAILED: State = {LADDER: climb("numba-kernel", output="an error")}
CUT = InstalledFile(path="/v/site-packages/llvmlite/ir/types.py", package="llvmlite", differs="10 of 20 bytes")
HALF_GONE = """Traceback (most recent call last):
  File "/opt/doctor/workers/numba_steps.py", line 250, in start
    import numba
  File "/home/ada/env/lib/python3.12/site-packages/numba/__init__.py", line 19, in <module>
    from llvmlite import binding
  File "/home/ada/env/lib/python3.12/site-packages/llvmlite/binding/__init__.py", line 4, in <module>
    from .dylib import *
ModuleNotFoundError: No module named 'llvmlite.binding.dylib'
"""
NO_SHARED_MEMORY = "NVRM: nvCheckOkFailedNoLog: Check failed: Out of memory [NV_ERR_NO_MEMORY] (0x00000051) returned from _memdescAllocInternal(pMemDesc) @ mem_desc.c:1359"
GB10 = on_gpu(gpu=make.nvml_gpu(name="NVIDIA GB10", memory_used_bytes=None, errors={"memory": "Not Supported"}))


def changed_at_start(name: str, rung: str | None, code: int | None) -> Ladder:
    return msgspec.structs.replace(make.ladder(rung, code=code), changed=(Changed(name=name, value="-1", line=2),))


def cut_short(name: str) -> tuple[Component, ...]:
    return tuple(msgspec.structs.replace(part, damage="no LLVM bitcode") if part.name == name else part for part in parts())


NOT_MAPPED = "OSError: /scratch/x.so: failed to map segment from shared object"
FAULTS: dict[str, tuple[State, tuple[Key[Any], ...]]] = {
    "kernel-interface-withheld": (
        {LADDER: climb("init", code=304), KERNEL_INTERFACE: (Refusal(name="eventfd2", answer="EPERM", line=1),)}, (KERNEL_INTERFACE, LADDER),
    ),
    "python-does-not-start": ({PYTHON_RAN: Silent(path="/v/bin/python", words="ended with exit code 3", at_all=True)}, (PYTHON_RAN,)),
    "python-startup-sets-variable": ({LADDER: changed_at_start("CUDA_VISIBLE_DEVICES", "init", 100)}, (LADDER,)),
    "unified-memory-exhausted": ({NVML: GB10, KERNEL_LOG: make.log(NO_SHARED_MEMORY)}, (KERNEL_LOG,)),
    "nvidia-smi-missing": ({SMI: None}, (SMI, WSL, TEGRA)),
    "libcuda-missing": ({LADDER: climb("libcuda", output=NOT_FOUND)}, (LADDER,)),
    "vgpu-manager-without-cuda": (
        {LADDER: climb("libcuda", output=NOT_FOUND), MODULES: make.modules("nvidia", "nvidia_vgpu_vfio")}, (LADDER, MODULES),
    ),
    "libcuda-stub-loaded": ({LADDER: msgspec.structs.replace(climb("init", code=34), library_path=STUB_PATH)}, (LADDER,)),
    "driver-libraries-incomplete": ({LADDER: climb("libcuda", output="/usr/lib/libcuda.so.1: file too short")}, (LADDER,)),
    "forward-compat-unsupported": ({LADDER: msgspec.structs.replace(climb("init", code=803), library_path=COMPAT_PATH)}, (LADDER,)),
    "toolkit-damaged": ({TOOLKITS: toolkits(components=cut_short("libdevice")), **FAILED}, (TOOLKITS, LADDER)),
    "toolkit-missing": ({TOOLKITS: toolkits(components=parts(missing=("nvvm", "libdevice"))), **FAILED}, (TOOLKITS,)),
    "toolkit-newer-than-driver": (
        {TOOLKITS: toolkits(components=parts("13.0.88")), NVML: msgspec.structs.replace(on_gpu(), cuda=CudaVersion("12.4")), SMI: None,
         LADDER: msgspec.structs.replace(climb("numba-kernel", output="222"), cuda=CudaVersion("12.4"))},
        (TOOLKITS, PYTHON),
    ),
    "toolkit-dropped-gpu": (
        {TOOLKITS: toolkits(components=parts("13.0.88")), LADDER: climb("numba-kernel", output="compute_61"),
         NVML: on_gpu(gpu=found_gpu(compute_capability=ComputeCapability("6.1")))},
        (TOOLKITS, PYTHON),
    ),
    "toolkit-too-old-for-gpu": (
        {TOOLKITS: toolkits(components=parts("12.4.1")), LADDER: climb("numba-kernel", code=209),
         NVML: on_gpu(gpu=found_gpu(compute_capability=ComputeCapability("12.0")))},
        (LADDER, TOOLKITS, PYTHON),
    ),
    "cuda-home-wrong": (
        {ENVIRONMENT: environment(CUDA_HOME="/opt/cuda-11"), TOOLKITS: toolkits(folder("/usr/local/cuda"))},
        (ENVIRONMENT, TOOLKITS),
    ),
    "python-abi-mismatch": ({PYTHON: with_numba(package("numpy", "2.5.2"))}, (PYTHON,)),
    "python-environment-detached": ({LADDER: climb("numba-kernel", output="/home/ada/env has no pyvenv.cfg, so this Python")}, (PYTHON, LADDER)),
    "file-not-readable": (
        {PYTHON: with_numba(refused=(Refused(path="/usr/local/cuda", why="unreadable"),)), LADDER: climb("numba-kernel", output="x")}, (LADDER,),
    ),
    "mount-option-forbids": (
        {PYTHON: with_numba(refused=(Refused(path="/scratch", why="noexec"),)), LADDER: climb("numba-kernel", output=NOT_MAPPED)}, (LADDER,),
    ),
    "python-package-broken": ({LADDER: climb("numba-kernel", output=HALF_GONE)}, (PYTHON, LADDER)),
    "system-library-missing": (
        {LADDER: climb("numba-kernel", output="ImportError: /lib/x86_64-linux-gnu/libstdc++.so.6: file too short")}, (LADDER,),
    ),
    "python-package-damaged": ({LADDER: msgspec.structs.replace(climb("numba-kernel", output=HALF_GONE), installed=(CUT,))}, (PYTHON, LADDER)),
    "python-module-shadowed": ({PYTHON: with_numba(shadows=(Shadow(module="numba", path="/home/ada/work/numba.py"),))}, (PYTHON,)),
    "pynvml-conflict": ({PYTHON: with_numba(package("pynvml", "11.5.3"), package("nvidia-ml-py", "13.615.71"))}, (PYTHON,)),
    "numba-simulator-enabled": ({ENVIRONMENT: environment(NUMBA_ENABLE_CUDASIM="1")}, (ENVIRONMENT,)),
    "numba-cuda-disabled": ({ENVIRONMENT: environment(NUMBA_DISABLE_CUDA="1")}, (ENVIRONMENT,)),
    "numba-cuda-target-missing": ({PYTHON: with_numba(without=("cuda-bindings",)), **NO_TARGET}, (PYTHON,)),
    "numba-too-old": (
        {PYTHON: built_in(package("numba", "0.61.2")), LADDER: climb("numba-kernel", status="crash", why="SIGSEGV")},
        (PYTHON,),
    ),
    "numba-toolkit-mismatch": (
        {PYTHON: built_in(package("numba", "0.58.1")), TOOLKITS: toolkits(components=parts("10.2")), **FAILED},
        (PYTHON, TOOLKITS),
    ),
    "framework-cpu-build": ({PYTHON: with_numba(msgspec.structs.replace(package("torch", "2.9.1"), build="cpu"))}, (PYTHON,)),
    "toolkit-libraries-mixed": ({PYTHON: with_numba(package("cupy-cuda11x", "13.6.0"), package("cupy-cuda12x", "13.6.0"))}, (PYTHON,)),
    "library-path-conflict": (
        {PYTHON: with_numba(package("nvidia-cuda-runtime-cu12", "12.9.79")), ENVIRONMENT: environment(LD_LIBRARY_PATH="/usr/local/cuda-12.1/lib64"),
         TOOLKITS: toolkits(folder("/usr/local/cuda-12.1", version="12.1.1"))},
        (PYTHON, ENVIRONMENT, TOOLKITS),
    ),
    "gpu-memory-held-by-others": ({NVML: on_gpu(listed()), PROCESSES: table(process())}, (NVML, PROCESSES)),
    "zombie-gpu-process": ({NVML: on_gpu(listed()), PROCESSES: table(process(state="orphaned", ppid=1))}, (NVML, PROCESSES)),
    "driver-hung": ({HANGS: make.hangs("nvml"), PROCESSES: table(process(state="uninterruptible"))}, (HANGS, PROCESSES)),
}  # fmt: skip


def test_a_healthy_machine() -> None:
    found, open_ = judged(host())
    assert (set(found), open_) == (set(), set())


@every("cause", FAULTS)
def test_each_cause_is_found(cause: str) -> None:
    assert cause in causes(FAULTS[cause][0])


@pytest.mark.parametrize(("cause", "key"), [(cause, key) for cause, (_, keys) in FAULTS.items() for key in keys], ids=str)
def test_ignorance_does_not_accuse(cause: str, key: Key[Any]) -> None:
    changes = FAULTS[cause][0]
    found, open_ = judged(host(changes, (key,)))
    assert cause not in found
    assert cause in open_


def test_nothing_known_finds_nothing() -> None:
    assert causes(unknown=(*healthy(), *make.healthy())) == set()


@pytest.mark.parametrize("one_in", [16, pytest.param(1, marks=pytest.mark.long)])
@every("cause", FAULTS)
def test_less_evidence_finds_no_more(cause: str, one_in: int) -> None:
    """With any one or two facts unknown, no cause is found that was not found with all of them; toolkits alone may be missed less."""
    changes = FAULTS[cause][0]
    keys = sorted({*healthy(), *make.healthy()}, key=lambda key: key.name)
    whole = causes(changes)
    for unknown in (*((key,) for key in keys), *todays(list(itertools.combinations(keys, 2)), one_in)):
        more = causes(changes, unknown) - whole
        assert all(KNOWLEDGE.cause(one).effect != "blocks" for one in more), (unknown, more)


# Tested in test_checks_state.py: what these rows take over from checks/device_state.py and checks/withheld.py.
STATE = {"preloaded-library-interferes", "compute-mode-blocks", "mps-problem", "mig-without-instances", "vgpu-problem", "process-limits"}


@pytest.mark.parametrize(
    ("last", "module", "words"),
    [
        ("ModuleNotFoundError: No module named 'typing_extensions'", "typing_extensions", "typing-extensions"),
        ("ImportError: cannot import name 'driver' from 'cuda.bindings' (unknown location)", "cuda.bindings", "cuda-bindings"),
        ("AttributeError: module 'llvmlite.ir' has no attribute 'PointerType'", "llvmlite.ir", "llvmlite"),
        ("ImportError: libffi.so.8: cannot open shared object file", "llvmlite.binding.__init__", "llvmlite"),
        ("EOFError: marshal data too short", "llvmlite.binding.__init__", "llvmlite"),
        (
            "OSError: /lib/libm.so.6: version `GLIBC_2.99' not found (required by /v/site-packages/llvmlite/binding/libllvmlite.so)",
            "llvmlite.binding.__init__",
            "llvmlite",
        ),
    ],
)
def test_which_package_is_broken(last: str, module: str, words: str) -> None:
    output = HALF_GONE.replace("ModuleNotFoundError: No module named 'llvmlite.binding.dylib'", last)
    values = clue("python-package-broken", {LADDER: climb("numba-kernel", output=output)}).values
    assert (values["module"], values["package"]) == (module, words)


def test_a_neighbour_that_is_too_old_is_what_has_to_be_installed() -> None:
    output = HALF_GONE.replace(
        "ModuleNotFoundError: No module named 'llvmlite.binding.dylib'",
        "ImportError: Numba requires SciPy version 1.0 or greater. Got SciPy 0.19.1.",
    )
    values = clue("python-package-broken", {LADDER: climb("numba-kernel", output=output)}).values
    assert (values["package"], values["requirement"]) == ("scipy", "scipy>=1.0")


def test_packages_that_lead_into_a_cache_that_is_gone() -> None:
    """Numba's words are of no use then: nothing of it is there. Where the kernel runs, nothing is claimed."""
    gone = with_numba(msgspec.structs.replace(package("numba-cuda", "0.30.4"), lost="../../cache/numba_cuda/METADATA"))
    no_jit = climb("numba-kernel", output="AttributeError: module 'numba.cuda' has no attribute 'jit'")
    found = clue("python-package-damaged", {PYTHON: gone, LADDER: no_jit})
    assert (found.values["package"], found.values["lost"]) == ("numba-cuda", "../../cache/numba_cuda/METADATA")
    assert "python-package-damaged" not in causes({PYTHON: gone})
    assert "python-package-damaged" not in causes({PYTHON: with_numba(), LADDER: no_jit})


def test_a_file_that_is_not_what_was_installed() -> None:
    """It outranks versions that do not fit: they seem not to where half of a module is gone."""
    path = "/v/lib/python3.12/site-packages/llvmlite/ir/types.py"
    changed = InstalledFile(path=path, package="llvmlite", version="0.46.0", differs="10 of 20 bytes", line=9)
    failed = climb("numba-kernel", output=HALF_GONE)
    found = clue("python-package-damaged", {LADDER: msgspec.structs.replace(failed, installed=(changed,))})
    assert (found.values["package"], found.values["requirement"], found.values["path"]) == ("llvmlite", "llvmlite==0.46.0", path)
    assert found.quotes[0].text == f"{path}: 10 of 20 bytes, by the RECORD of llvmlite 0.46.0"
    same = msgspec.structs.replace(changed, differs=None)
    far = msgspec.structs.replace(failed, installed=(same, same, same, changed))
    assert "python-package-damaged" not in causes({LADDER: far})
    assert clue("python-package-broken", {LADDER: msgspec.structs.replace(failed, installed=(same,))})
    of_driver = climb(
        "numba-kernel", output=HALF_GONE.replace("ModuleNotFoundError: No module named 'llvmlite.binding.dylib'", "KeyError: 1")
    )
    assert "python-package-damaged" not in causes({LADDER: msgspec.structs.replace(of_driver, installed=(changed,))})


def test_byte_code_of_another_source_is_damage_too() -> None:
    path, kept = "/v/lib/python3.12/site-packages/numba_cuda/error.py", "/v/lib/python3.12/site-packages/numba_cuda/__pycache__/error.pyc"
    stale = InstalledFile(path=path, package="numba-cuda", version="0.30.4", byte_code=kept)
    failed = climb("numba-kernel", output=HALF_GONE)
    found = clue("python-package-damaged", {LADDER: msgspec.structs.replace(failed, installed=(stale,))})
    assert (found.values["byte_code"], found.values["path"]) == (kept, path)
    assert found.quotes[0].text.startswith(f"{kept}: byte code of another source than {path}")
    assert shells(written("python-package-damaged", values=dict(found.values))) == [f"rm {kept}"]


def test_a_file_that_lowers_another_limit_is_not_named() -> None:
    """Many a start-up file switches core dumps off."""
    line = ConfigLine(path="/v/guard.pth", line=1, text="import resource; resource.setrlimit(resource.RLIMIT_{}, (1, 1))")
    low = msgspec.structs.replace(climb("init", code=2), limits=(Limit(name="address space", value=1 << 30, line=3),))
    for resource, path in (("AS", "/v/guard.pth"), ("CORE", None)):
        hook = msgspec.structs.replace(line, text=line.text.format(resource))
        state: State = {LADDER: low, LIMITS: (), PYTHON: with_numba(hooks=(hook,))}
        values = clue("process-limits", state).values
        assert (values["own"], values.get("path")) == ("yes", path)
    assert "own" not in clue("process-limits", {LADDER: low, LIMITS: (Limit(name="address space", value=1 << 30, line=1),)}).values


def test_a_stack_that_overflows() -> None:
    crash = climb("numba-kernel", status="crash", why="SIGSEGV")
    low, enough = ((Limit(name="stack size", value=value, line=1),) for value in (88 << 10, 1 << 20))
    assert clue("process-limits", {LADDER: crash, LIMITS: low}).values == {"limit": "stack size", "amount": "88 KiB"}
    assert "process-limits" not in causes({LADDER: crash, LIMITS: enough})
    assert "process-limits" not in causes({LADDER: climb("numba-kernel", output="x"), LIMITS: low})


def test_threads_that_a_limit_or_a_filter_refuses() -> None:
    none: State = {KERNEL_INTERFACE: (Refusal(name="clone3", answer="can't start new thread", line=1),), LADDER: climb("init", code=304)}
    assert causes(none) == {"kernel-interface-withheld"}
    few = (Limit(name="processes", value=3, line=1),)
    assert causes({**none, LIMITS: few}) == {"process-limits"}
    assert causes({**none, LADDER: climb("init", code=100)}) == set()
    assert causes({**none, ENVIRONMENT: environment(LD_PRELOAD="/opt/guard.so")}) == set()  # it may refuse as well
    assert "kernel-interface-withheld" in undecided(none, unknown=(ENVIRONMENT,))


def test_proc_of_another_namespace_is_not_mounted_by_hand() -> None:
    """There `mount -t proc proc /proc` would cover the one of the whole machine."""
    for answer, said in (("not the kernel's", "proc"), ("of another PID namespace", "namespace")):
        state: State = {KERNEL_INTERFACE: (Refusal(name="/proc", answer=answer, line=1),), LADDER: climb("init", code=304)}
        values = clue("kernel-interface-withheld", state).values
        assert values.keys() & {"proc", "namespace"} == {said}


def test_a_filter_that_ends_the_process() -> None:
    ended = climb("init", status="crash", why="ended by SIGSYS")
    state: State = {KERNEL_INTERFACE: (Refusal(name="ioctl", answer="killed by SIGSYS", line=1),), LADDER: ended}
    assert causes(state) == {"kernel-interface-withheld"}
    assert causes({**state, LADDER: climb("init", status="crash", why="ended by SIGSEGV")}) == set()


ASKED = """Traceback (most recent call last):
  File "/v/lib/python3.12/site-packages/numba/core/config.py", line 505, in process_environ
    NUMBA_DEFAULT_NUM_THREADS = num_threads_default()
                                ^^^^^^^^^^^^^^^^^^^^^
  File "/v/lib/python3.12/site-packages/numba/core/config.py", line 497, in num_threads_default
    return max(1, len(sched_getaffinity(0)))
                      ^^^^^^^^^^^^^^^^^^^^
PermissionError: [Errno 1] Operation not permitted"""


def test_a_call_of_python_that_a_filter_refuses() -> None:
    refused: State = {KERNEL_INTERFACE: (Refusal(name="sched_getaffinity", answer="EPERM", line=1),)}
    found = clue("kernel-interface-withheld", {**refused, LADDER: climb("numba-kernel", output=ASKED)})
    assert (found.values["call"], found.from_rung) == ("sched_getaffinity", "numba-kernel")
    others = ("ENOSYS", "sched_getaffinity"), ("EPERM", "num_threads_default"), ("EPERM", "statfs")
    for answer, name in others:  # answered otherwise, not in the last frame, not there at all
        state: State = {KERNEL_INTERFACE: (Refusal(name=name, answer=answer, line=1),), LADDER: climb("numba-kernel", output=ASKED)}
        assert "kernel-interface-withheld" not in causes(state)
    of_file = ASKED + ": '/etc/numba'"
    assert "kernel-interface-withheld" not in causes({**refused, LADDER: climb("numba-kernel", output=of_file)})
    assert causes({**refused, LADDER: climb("init", code=304)}) == set()  # the driver makes no use of it


def test_what_is_no_libcuda_but_is_called_so() -> None:
    named = msgspec.structs.replace(climb("init", output="libcuda has no function cuInit"), library_path="/opt/lib/libcudart.so.13")
    assert clue("driver-libraries-incomplete", {LADDER: named}).quotes[1].text == "loaded /opt/lib/libcudart.so.13"


def test_no_variable_is_blamed_or_cleared_where_none_is_known() -> None:
    """A stub that the loader's cache names is its doing only where the environment was seen not to lead there."""
    facts = {**FAULTS["libcuda-stub-loaded"][0], LIBRARIES: make.libraries("libcuda.so", folder="/usr/local/cuda/lib64/stubs")}
    assert clue("libcuda-stub-loaded", facts).values["cached"] == "yes"
    assert "cached" not in clue("libcuda-stub-loaded", facts, unknown=(ENVIRONMENT,)).values


def test_a_stub_that_numba_alone_loads() -> None:
    failing = climb("numba-kernel", output="FunctionNotFoundError: function cuInit is not found")
    mapped = msgspec.structs.replace(failing, numba=NumbaState(components={"libcuda": STUB_PATH}))
    found = clue("libcuda-stub-loaded", {LADDER: mapped, ENVIRONMENT: environment(LD_LIBRARY_PATH="/usr/local/cuda/lib64/stubs:/x")})
    assert (found.values["path"], found.values["kept"], found.from_rung) == (STUB_PATH, "/x", "numba-kernel")
    other = msgspec.structs.replace(failing, numba=NumbaState(components={"libcuda": "/opt/driver/libcuda.so"}))
    assert "libcuda-stub-loaded" not in causes({LADDER: other})


def test_numba_that_should_be_there_and_is_not() -> None:
    output = (
        'Traceback (most recent call last):\n  File "/w/numba_steps.py", line 298, in start\n    import numba\n'
        "ModuleNotFoundError: No module named 'numba'\n"
    )
    left = "numba was removed and not installed again: /v/lib/python3.12/site-packages/~umba is what pip left of it\n"
    found = clue("python-package-broken", {LADDER: climb("numba-kernel", output=output + left)})
    assert found.values["package"] == "numba"
    assert "~umba" in found.quotes[-1].text
    assert "python-package-broken" not in causes({LADDER: climb("numba-kernel", output=output)})


@pytest.mark.parametrize(
    "last", ["ValueError: llvmlite", "EOFError: Ran out of input", "KeyboardInterrupt", "ImportErrors: No module named 'x'"]
)
def test_another_error_is_no_broken_package(last: str) -> None:
    output = HALF_GONE.replace("ModuleNotFoundError: No module named 'llvmlite.binding.dylib'", last)
    assert "python-package-broken" not in causes({LADDER: climb("numba-kernel", output=output)})
    own = HALF_GONE.replace("site-packages", "work")  # no package of the interpreter's
    assert "python-package-broken" not in causes({LADDER: climb("numba-kernel", output=own)})


# llvmlite 0.50 whose library cannot be loaded: the last error does not say why, the one before it does.
OF_LLVMLITE = """Traceback (most recent call last):
  File "/venv/lib/python3.12/site-packages/llvmlite/binding/ffi.py", line 125, in _load_lib
    self._lib_handle = ctypes.CDLL(str(lib_path))
  File "/usr/lib/python3.12/ctypes/__init__.py", line 379, in __init__
    self._handle = _dlopen(self._name, mode)
OSError: {}

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/venv/lib/python3.12/site-packages/numba/core/config.py", line 17, in <module>
    import llvmlite.binding as ll
  File "/venv/lib/python3.12/site-packages/llvmlite/binding/ffi.py", line 137, in _load_lib
    raise OSError(msg)
OSError: Could not find/load shared object file 'libllvmlite.so' from resource location: 'llvmlite.binding'.
"""
OWN_LIBRARY = "/venv/lib/python3.12/site-packages/llvmlite/binding/libllvmlite.so"


@pytest.mark.parametrize(
    "reason",
    [
        "file too short",
        "invalid ELF header",
        "ELF load command address/offset not page-aligned",
        "cannot open shared object file: No such file or directory",
    ],
)
def test_a_package_whose_library_is_damaged(reason: str) -> None:
    output = OF_LLVMLITE.format(f"{OWN_LIBRARY}: {reason}")
    values = clue("python-package-broken", {LADDER: climb("numba-kernel", output=output)}).values
    assert (values["module"], values["package"]) == ("llvmlite.binding.libllvmlite", "llvmlite")


LOADING = """Fatal Python error: Bus error

Current thread 0x00007f5cdc09a140 (most recent call first):
  File "/usr/lib/python3.12/ctypes/__init__.py", line 379 in __init__
  File "/venv/lib/python3.12/site-packages/llvmlite/binding/ffi.py", line 125 in _load_lib
  File "/venv/lib/python3.12/site-packages/llvmlite/binding/ffi.py", line 150 in _lib
"""


def test_a_package_whose_library_ends_the_process_that_loads_it() -> None:
    """Cut in half the loader still maps it, and reading on is a bus error."""
    values = clue("python-package-broken", {LADDER: climb("numba-kernel", status="crash", output=LOADING)}).values
    assert values["package"] == "llvmlite"
    computing = LOADING.replace("/usr/lib/python3.12/ctypes/__init__.py", "/venv/lib/python3.12/site-packages/llvmlite/ir/x.py")
    assert "python-package-broken" not in causes({LADDER: climb("numba-kernel", status="crash", output=computing)})


@pytest.mark.parametrize(
    ("words", "path"),
    [
        ("/lib/x86_64-linux-gnu/libstdc++.so.6: file too short", "/lib/x86_64-linux-gnu/libstdc++.so.6"),
        ("/usr/lib64/libz.so.1.3.1: invalid ELF header", "/usr/lib64/libz.so.1.3.1"),
        ("libgcc_s.so.1: cannot open shared object file: No such file or directory", None),
    ],
)
def test_a_library_of_the_system_that_cannot_be_used(words: str, path: str | None) -> None:
    found = clue("system-library-missing", {LADDER: climb("numba-kernel", output=OF_LLVMLITE.format(words))})
    assert found.values.get("path") == path


def test_the_drivers_own_library_lies_on_a_mount_without_execution() -> None:
    climbed = climb("libcuda", output="libcuda.so.1: failed to map segment from shared object")
    found = clue(
        "mount-option-forbids", {LADDER: msgspec.structs.replace(climbed, refused=(Refused(path="/opt/nv/libcuda.so.1", why="noexec"),))}
    )
    assert found.values["place"] == "/opt/nv/libcuda.so.1"
    assert "mount-option-forbids" not in causes({LADDER: climbed})


def test_a_library_from_elsewhere_is_not_the_systems() -> None:
    for words in ("/opt/app/lib/libstdc++.so.6: file too short", "libmine.so.1: cannot open shared object file: No such file or directory"):
        assert "system-library-missing" not in causes({LADDER: climb("numba-kernel", output=OF_LLVMLITE.format(words))})


@pytest.mark.parametrize(
    "words",
    [
        "libz.so.1: cannot open shared object file: No such file or directory",  # the system's
        f"{OWN_LIBRARY}: failed to map segment from shared object",  # noexec, or no memory left
        f"{OWN_LIBRARY}: cannot open shared object file: Permission denied",  # it may be whole
        f"[Errno 28] No space left on device: '{OWN_LIBRARY}'",
    ],
)
def test_a_library_that_is_not_the_packages_fault(words: str) -> None:
    assert "python-package-broken" not in causes({LADDER: climb("numba-kernel", output=OF_LLVMLITE.format(words))})


# numpy 2.4.6 without numpy/_core/multiarray.py: the exception at the end has an empty first line, the one before it says what is missing.
OF_NUMPY = """Traceback (most recent call last):
  File "/venv/lib/python3.12/site-packages/numpy/_core/__init__.py", line 24, in <module>
    from . import multiarray
ImportError: cannot import name 'multiarray' from partially initialized module 'numpy._core' (most likely due to a circular import)

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/venv/lib/python3.12/site-packages/numba/__init__.py", line 34, in _ensure_critical_deps
    import numpy as np
  File "/venv/lib/python3.12/site-packages/numpy/_core/__init__.py", line 85, in <module>
    raise ImportError(msg) from exc
ImportError:{}

IMPORTANT: PLEASE READ THIS FOR ADVICE ON HOW TO SOLVE THIS ISSUE!

Original error was: cannot import name 'multiarray' from partially initialized module 'numpy._core'
""".format(" ")  # Python writes a blank behind the colon


def test_an_exception_that_says_nothing_hands_over_to_its_cause() -> None:
    state = {LADDER: climb("numba-kernel", output=OF_NUMPY), PYTHON: with_numba(package("numpy", "2.4.6"))}
    found = clue("python-package-broken", state)
    assert (found.values["package"], found.values["requirement"]) == ("numpy", "numpy<2.6,>=1.22")
    assert "'multiarray'" in found.quotes[-1].text
    other = OF_NUMPY.split("ImportError:\x20")[0] + "ZeroDivisionError: division by zero\n"
    assert "python-package-broken" not in causes({LADDER: climb("numba-kernel", output=other)})


def test_the_version_to_install_is_what_numba_asks_for() -> None:
    asks = msgspec.structs.replace(package("numba", "0.62.1"), requires=("llvmlite<0.46,>=0.45.0dev0", "numpy<2.4,>=1.22"))
    state = {LADDER: climb("numba-kernel", output=HALF_GONE), PYTHON: with_numba(asks, package("llvmlite", "0.45.1"))}
    assert clue("python-package-broken", state).values["requirement"] == "llvmlite<0.46,>=0.45.0dev0"


def test_a_number_of_thousands_of_digits_rules_nothing_out() -> None:
    """Python makes no such number: metadata that nobody can compare crashed the rule."""
    huge = "9" * 5000
    for version, asked, found in (("1.26.4", huge, set()), (huge, "2.4", {"python-abi-mismatch"})):
        asks = package("numba", "0.62.1", f"numpy<{asked}")
        assert causes({PYTHON: with_numba(asks, package("numpy", version))}) == found


def test_every_cause_of_these_rows_is_tested() -> None:
    assert {cause for check in CHECKS for rule in check.rules for cause in rule.causes} - STATE == set(FAULTS)


@pytest.mark.parametrize("check", ROWS, ids=lambda check: check.id)
def test_every_row_says_what_it_found(check: Any) -> None:
    line = check.describe(host(), KNOWLEDGE)
    assert isinstance(line, Line)
    assert line.summary
    assert line.because is None
    for key in (*healthy(), *make.healthy()):
        try:
            assert check.describe(host(unknown=(key,)), KNOWLEDGE).summary
        except NotKnown:
            pass


# ---------------------------------------------------------------- nvidia-smi, NVML
def test_nvidia_smi_is_no_fault_elsewhere() -> None:
    assert causes({SMI: None, WSL: True}) == set()
    assert causes({SMI: None, TEGRA: True}) == set()
    without = {SMI: None, LOADED_DRIVER: None, LADDER: climb("init", code=100)}
    assert "nvidia-smi-missing" not in causes(without)
    # A container shows its host's module: there libcuda must answer.
    assert "nvidia-smi-missing" not in causes(
        {**without, LOADED_DRIVER: LoadedDriver(version=ModuleVersion(VERSION)), CONTAINER_MARKS: ("x",)}
    )
    assert causes({SMI: None, CONTAINER_MARKS: ("/.dockerenv",)}) == {"nvidia-smi-missing"}


def test_one_sign_of_a_working_driver_is_enough() -> None:
    assert "nvidia-smi-missing" in causes({SMI: None}, (LADDER,))
    assert "nvidia-smi-missing" in causes({SMI: None}, (LOADED_DRIVER,))
    assert "nvidia-smi-missing" in undecided({SMI: None}, (LOADED_DRIVER, LADDER))


@pytest.mark.parametrize(
    ("smi", "words"),
    [
        (None, "nvidia-smi is not installed"),
        (Smi(failure="No devices were found", exit=6), "nvidia-smi says: No devices were found (exit 6)"),
        (Smi(recognised=False), "nvidia-smi printed something that is not understood"),
        (healthy()[SMI], f"nvidia-smi {VERSION}, driver {VERSION}, CUDA 13.0, 1 GPU"),
    ],
)
def test_nvidia_smi_line(smi: Smi | None, words: str) -> None:
    assert nvidia_smi.CHECK.describe(host({SMI: smi}), KNOWLEDGE).summary == words


def test_nvml_line() -> None:
    one = found_gpu(name="NVIDIA H200")
    say = lambda value: nvml.CHECK.describe(host({NVML: value}), KNOWLEDGE).summary  # noqa: E731
    assert say(on_gpu(gpu=one)) == f"NVML of driver {VERSION} answers for 1 GPU: NVIDIA H200 (140.0 GiB)"
    assert say(Nvml(code=18, message="mismatch")) == "NVML does not start: mismatch (code 18)"
    lost = Nvml(code=0, gpus=(one, make.nvml_gpu(1, handle_error="GPU is lost")))
    assert say(lost) == "NVML answers for 1 GPU: NVIDIA H200 (140.0 GiB); 1 GPU cannot be opened (GPU is lost)"
    assert say(Nvml(code=0)) == "NVML answers and lists no GPU"
    unread = nvml.CHECK.describe(host({NVML: make.fact(NVML, Nvml(code=0), whole=False)}), KNOWLEDGE)
    assert unread.because == unread.summary == "NVML answers, and its list of GPUs could not be read"


# ---------------------------------------------------------------- libcuda
def test_a_libcuda_outside_the_path_is_named() -> None:
    found = clue(
        "libcuda-missing", {**FAULTS["libcuda-missing"][0], DRIVER_FILES: make.libraries("libcuda.so.1", folder="/opt/nvidia/lib")}
    )
    assert found.values["path"] == "/opt/nvidia/lib/libcuda.so.1"
    stub_only = {DRIVER_FILES: make.libraries("libcuda.so", folder="/usr/local/cuda/lib64/stubs"), LIBRARIES: make.libraries()}
    assert "path" not in clue("libcuda-missing", {**FAULTS["libcuda-missing"][0], **stub_only}).values


def test_what_the_loader_says_decides() -> None:
    other = {LADDER: climb("libcuda", output="libnvidia-ptxjitcompiler.so.1: cannot open shared object file: No such file or directory")}
    assert causes(other) == {"driver-libraries-incomplete"}
    assert "libcuda-missing" not in causes({LADDER: climb("libcuda", output="something else")})


def test_the_module_of_the_vgpu_manager_alone_accuses_nobody() -> None:
    assert causes({MODULES: make.modules("nvidia", "nvidia_vgpu_vfio")}) == set()
    other = {LADDER: climb("libcuda", output="something else"), MODULES: make.modules("nvidia_vgpu_vfio")}
    assert "vgpu-manager-without-cuda" not in causes(other)


def test_nvml_missing_beside_a_working_cuda() -> None:
    gone: State = {NVML: make.nvml(12, library=None)}
    assert causes(gone) == {"driver-libraries-incomplete"}
    assert causes({**gone, ENVIRONMENT: environment(NVIDIA_DRIVER_CAPABILITIES="compute")}) == set()
    assert causes({**gone, ENVIRONMENT: environment(NVIDIA_DRIVER_CAPABILITIES="compute,utility")}) == {"driver-libraries-incomplete"}
    assert "driver-libraries-incomplete" not in causes({**gone, LADDER: climb("init", code=100)})
    assert "driver-libraries-incomplete" in undecided(gone, (ENVIRONMENT,))


def test_stub_by_its_answer_or_its_path() -> None:
    path = environment(LD_LIBRARY_PATH="/usr/local/cuda/lib64/stubs:/opt/lib")
    found = clue("libcuda-stub-loaded", {LADDER: climb("init", code=34), ENVIRONMENT: path})
    assert (found.values["variable"], found.values["kept"]) == ("LD_LIBRARY_PATH", "/opt/lib")
    assert found.quotes[-1].text == "LD_LIBRARY_PATH=/usr/local/cuda/lib64/stubs:/opt/lib"
    assert "libcuda-stub-loaded" not in causes({ENVIRONMENT: path})  # the folder is in the path, and something else was loaded


def test_compat_library() -> None:
    plain = {LADDER: climb("init", code=803), SMI: Smi(cuda=CudaVersion("13.0"))}
    assert "forward-compat-unsupported" not in causes(plain)
    above = {**plain, LOADED_DRIVER: LoadedDriver(version=ModuleVersion("535.129.03"))}
    assert "forward-compat-unsupported" in causes(above)
    assert "forward-compat-unsupported" in undecided(above, (SMI,))
    assert "forward-compat-unsupported" not in causes({LADDER: msgspec.structs.replace(climb(), library_path=COMPAT_PATH)})


def test_libcuda_line() -> None:
    say = lambda ladder: libcuda.CHECK.describe(host({LADDER: ladder}), KNOWLEDGE).summary  # noqa: E731
    path = "/usr/lib/x86_64-linux-gnu/libcuda.so.1"
    assert say(climb()) == f"libcuda {VERSION} ({path}), CUDA 13.0: cuInit finds 1 GPU"
    refused = climb("init", code=100, name="CUDA_ERROR_NO_DEVICE")
    assert say(refused) == f"libcuda {VERSION} ({path}): cuInit ends with CUDA_ERROR_NO_DEVICE (100)"
    assert say(climb("libcuda", output=NOT_FOUND)) == f"libcuda.so.1 cannot be loaded: {NOT_FOUND}"


# ---------------------------------------------------------------- toolkit
def test_wheels_alone_are_healthy() -> None:
    assert causes({TOOLKITS: toolkits(), NVCC: None}) == set()


def test_nothing_needs_a_toolkit() -> None:
    assert causes({PYTHON: interpreter(NUMPY), TOOLKITS: Toolkits()}) == set()
    assert toolkit.CHECK.describe(host({PYTHON: interpreter(NUMPY), TOOLKITS: Toolkits()}), KNOWLEDGE).summary.startswith("no toolkit")


@pytest.mark.parametrize("name", ["nvvm", "libdevice", "nvrtc"])
def test_each_part_that_numba_cuda_needs(name: str) -> None:
    found = clue("toolkit-missing", {TOOLKITS: toolkits(components=parts(missing=(name,))), **FAILED})
    assert (f"{name}: not found" in found.quotes[0].text, found.subject) == (True, SUBJECT)


def test_parts_that_it_does_not_need() -> None:
    assert causes({TOOLKITS: toolkits(components=parts(missing=("cudart",))), **FAILED}) == set()
    own = {PYTHON: built_in(), TOOLKITS: toolkits(components=parts(missing=("nvrtc", "nvjitlink"))), **FAILED}
    assert "toolkit-missing" not in causes(own)
    assert "toolkit-missing" in causes({**own, TOOLKITS: toolkits(components=parts(missing=("cudart",)))})


def test_a_part_that_nobody_looked_for_is_not_missing() -> None:
    cut = {TOOLKITS: toolkits(components=parts()[:1]), **FAILED}
    assert "toolkit-missing" not in causes(cut)
    assert "toolkit-missing" in undecided(cut)


def test_a_kernel_that_ran_found_its_toolkit() -> None:
    gone = {TOOLKITS: toolkits(components=parts(missing=("nvvm",)))}
    assert causes(gone) == set()
    named = climb("numba-kernel", state=NumbaState(version="0.68.1", components={"nvvm": "/opt/libnvvm.so"}))
    assert causes({**gone, LADDER: named}) == set()
    # What the doctor's own Python ran says nothing about the examined one.
    elsewhere = climb(state=NumbaState(version="0.68.1", python="/opt/doctor/bin/python"))
    assert causes({**gone, LADDER: elsewhere}) == {"toolkit-missing"}


def test_stale_folders() -> None:
    gone = folder("/usr/local/cuda", stale=True)
    assert causes({TOOLKITS: toolkits(gone)}) == {"toolkit-missing"}
    old = folder("/usr/local/cuda-11.8", "/usr/local/cuda-*", stale=True)
    assert causes({TOOLKITS: toolkits(old, folder("/usr/local/cuda"))}) == set()
    entry = folder("/usr/local/cuda-11.8", "PATH", stale=True)
    assert causes({TOOLKITS: toolkits(entry)}) == {"toolkit-missing"}
    assert causes({TOOLKITS: toolkits(entry), NVCC: Nvcc(version=ToolkitVersion("13.0"))}) == set()
    assert "toolkit-missing" in undecided({TOOLKITS: toolkits(entry)}, (NVCC,))


def test_minor_versions_serve_each_other() -> None:
    older = {**FAULTS["toolkit-newer-than-driver"][0], TOOLKITS: toolkits(components=parts("12.9.86"))}
    assert "toolkit-newer-than-driver" not in causes(older)
    found = clue("toolkit-newer-than-driver", FAULTS["toolkit-newer-than-driver"][0])
    assert found.values["driver_cuda"] == "12.4"


def test_numbas_own_target_is_warned_of_ptx_that_is_newer_than_the_driver() -> None:
    """nvcc 11.5 beside a driver of CUDA 11.4: a warning where Numba's own target would use it, nothing where another toolkit is in use."""
    driver = {
        NVML: msgspec.structs.replace(on_gpu(), cuda=CudaVersion("11.4")),
        LADDER: msgspec.structs.replace(climb("ptx-kernel"), cuda=CudaVersion("11.4")),
        SMI: None,
        PYTHON: built_in(),
    }
    in_use = clue("toolkit-newer-than-driver", {**driver, TOOLKITS: toolkits(components=parts("11.5.119"))})
    assert in_use.advice
    assert any("nvvm" in quote.text for quote in in_use.quotes)
    assert "toolkit-newer-than-driver" not in causes(
        {**driver, TOOLKITS: toolkits(components=parts("11.4.152")), NVCC: Nvcc(version=ToolkitVersion("11.5"))}
    )
    assert "toolkit-newer-than-driver" not in causes({**driver, TOOLKITS: toolkits(components=parts("11.5.119")), PYTHON: with_numba()})


def test_the_driver_cuda_has_three_sources() -> None:
    changes = FAULTS["toolkit-newer-than-driver"][0]
    assert "toolkit-newer-than-driver" in causes(changes, (NVML, SMI))
    assert "toolkit-newer-than-driver" in causes(changes, (LADDER, SMI))
    assert "toolkit-newer-than-driver" in undecided(changes, (LADDER, NVML, SMI))


def test_a_newer_nvcc_harms_no_numba() -> None:
    old = msgspec.structs.replace(climb(), cuda=CudaVersion("12.4"))
    assert causes({NVCC: Nvcc(version=ToolkitVersion("13.0")), LADDER: old, NVML: make.nvml()}) == set()


def test_dropped_gpu_by_any_source() -> None:
    changes = FAULTS["toolkit-dropped-gpu"][0]
    found = clue("toolkit-dropped-gpu", changes)
    assert (found.subject, found.values["capability"]) == (f"gpu:{ADDRESS}", "6.1")
    device = CudaDevice(index=0, address=ADDRESS, compute_capability=ComputeCapability("6.1"))
    by_libcuda = msgspec.structs.replace(climb("numba-kernel"), devices=(device,))
    assert "toolkit-dropped-gpu" in causes({**changes, NVML: make.nvml(9), LADDER: by_libcuda})
    by_chip = {**changes, NVML: make.nvml(9), PCI: make.bus(make.gpu(device=PASCAL)), LADDER: climb("init", code=100)}
    assert "toolkit-dropped-gpu" in causes(by_chip)
    assert "toolkit-dropped-gpu" in undecided(by_chip, (PCI,))
    assert "toolkit-dropped-gpu" not in causes({**changes, TOOLKITS: toolkits(components=parts("12.9.86"))})
    only_nvcc = {**changes, PYTHON: interpreter(NUMPY), NVCC: Nvcc(version=ToolkitVersion("13.0"))}
    assert "toolkit-dropped-gpu" in causes(only_nvcc)
    assert "toolkit-dropped-gpu" in undecided({**changes, TOOLKITS: toolkits(components=parts(None))})


def test_age_alone_is_no_fault() -> None:
    changes = FAULTS["toolkit-too-old-for-gpu"][0]
    assert "toolkit-too-old-for-gpu" not in causes({**changes, LADDER: climb("numba-kernel", output="else")})
    assert "toolkit-too-old-for-gpu" not in causes({**changes, TOOLKITS: toolkits(components=parts("12.9.86"))})


# ---------------------------------------------------------------- CUDA_HOME
@pytest.mark.parametrize(
    "value",
    [":/usr/local/cuda", "/usr/local/cuda:", "'/usr/local/cuda'", "$CUDA/x", "${HOME}/cuda", "/a:/b", "/usr/local/cuda ", " /x", "~/cuda"],
)
def test_malformed_homes(value: str) -> None:
    for name in ("CUDA_HOME", "CUDA_PATH"):
        found = clue("cuda-home-wrong", {ENVIRONMENT: environment(**{name: value})})
        assert found.quotes[0].text == f"{name}={value}"
        assert found.values["variable"] == name
        assert "cuda-home-wrong" in causes({ENVIRONMENT: environment(**{name: value})}, (TOOLKITS, NVCC, PYTHON))


def test_good_homes() -> None:
    there = toolkits(folder("/usr/local/cuda", "CUDA_HOME"), folder("/usr/local/cuda"))
    assert causes({ENVIRONMENT: environment(CUDA_HOME="/usr/local/cuda"), TOOLKITS: there}) == set()
    assert causes({ENVIRONMENT: environment(CUDA_HOME="/usr/local/cuda/"), TOOLKITS: toolkits(folder("/usr/local/cuda"))}) == set()
    assert causes({ENVIRONMENT: environment(CUDA_HOME="")}) == set()
    # A runtime image: libraries without a compiler, and wheels for Numba.
    runtime = folder("/usr/local/cuda", "CUDA_HOME", has_nvcc=False)
    assert causes({ENVIRONMENT: environment(CUDA_HOME="/usr/local/cuda"), TOOLKITS: toolkits(runtime)}) == set()
    assert causes({ENVIRONMENT: environment(CUDA_HOME="/usr/local/cuda"), TOOLKITS: toolkits(runtime, folder("/opt/cuda"))}) == {
        "cuda-home-wrong"
    }


def test_a_home_that_is_not_there() -> None:
    gone = environment(CUDA_HOME="/nonexistent")
    stale = folder("/nonexistent", "CUDA_HOME", stale=True)
    found = clue("cuda-home-wrong", {ENVIRONMENT: gone, TOOLKITS: toolkits(stale, folder("/usr/local/cuda"))})
    assert "/usr/local/cuda" in found.quotes[2].text
    assert "nvvm" in clue("cuda-home-wrong", {ENVIRONMENT: gone, TOOLKITS: toolkits(stale)}).quotes[2].text
    nothing = toolkits(stale, components=parts(missing=("nvvm", "libdevice")))
    assert causes({ENVIRONMENT: gone, TOOLKITS: nothing, **FAILED}) == {"toolkit-missing"}
    assert causes({ENVIRONMENT: gone, TOOLKITS: Toolkits(toolkits=(stale,)), PYTHON: interpreter()}) == {"toolkit-missing"}
    assert causes({ENVIRONMENT: gone, TOOLKITS: nothing, NVCC: Nvcc(version=ToolkitVersion("13.0")), **FAILED}) >= {"cuda-home-wrong"}


def test_cuda_home_line() -> None:
    say = lambda changes: cuda_home.CHECK.describe(host(changes), KNOWLEDGE).summary  # noqa: E731
    assert say({}) == "CUDA_HOME and CUDA_PATH are not set"
    home = {ENVIRONMENT: environment(CUDA_HOME="/usr/local/cuda"), TOOLKITS: toolkits(folder("/usr/local/cuda", "CUDA_HOME"))}
    assert say(home) == "CUDA_HOME=/usr/local/cuda holds toolkit 13.0.2 (nvcc, NVVM, libdevice)"
    assert say({ENVIRONMENT: environment(CUDA_HOME="/x:")}) == "CUDA_HOME=/x:: a colon that joins it to nothing"


# ---------------------------------------------------------------- Python
def test_numpy_bounds() -> None:
    found = clue("python-abi-mismatch", FAULTS["python-abi-mismatch"][0])
    assert (found.subject, found.values["requirement"]) == (SUBJECT, "numpy<2.5")
    assert causes({PYTHON: with_numba(package("numpy", "2.5.2"), package("numba-cuda", "0.31.0"))}) == set()
    assert causes({PYTHON: with_numba(package("numpy", "2.5.2"), without=("numba-cuda",)), **FAILED}) == set()


def test_stated_requirements() -> None:
    old = interpreter(NUMBA, package("numpy", "1.21.0"), package("llvmlite", "0.50.0"))
    assert clue("python-abi-mismatch", {PYTHON: old}).values["package"] == "numpy"
    other = interpreter(NUMBA, NUMPY, package("llvmlite", "0.44.0"))
    assert clue("python-abi-mismatch", {PYTHON: other}).values["package"] == "llvmlite"
    bindings = with_numba(package("cuda-bindings", "11.8.7"))
    assert clue("python-abi-mismatch", {PYTHON: bindings}).values["package"] == "cuda-bindings"


@pytest.mark.parametrize(
    ("release", "numpy", "fits"),
    [("0.55.1", "1.21.6", True), ("0.55.1", "1.22.0", False), ("0.55.2", "1.22.4", True), ("0.58.0", "1.26.0", False),
     ("0.60.0", "2.0.1", True), ("0.60.0", "2.1.0", False), ("0.61.2", "2.2.6", True), ("0.61.2", "1.27.0", False), ("0.68.1", "2.5.0", True), ("0.99.0", "9.0", True)],
)  # fmt: skip
def test_the_table_of_releases(release: str, numpy: str, fits: bool) -> None:
    found = causes({PYTHON: interpreter(package("numba", release), package("numpy", numpy)), **FAILED})
    assert ("python-abi-mismatch" not in found) == fits


@pytest.mark.parametrize(
    ("listed", "kept"),
    [("/opt/old", None), ("/opt/a:/opt/old/:/opt/b", "/opt/a:/opt/b"), ("/opt/a", "-"), ("", "-")],
)
def test_the_entry_of_pythonpath_that_brings_the_file_is_named(listed: str, kept: str | None) -> None:
    hidden = with_numba(shadows=(Shadow(module="numba", path="/opt/old/numba"),))
    found = clue("python-module-shadowed", {PYTHON: hidden, ENVIRONMENT: environment(PYTHONPATH=listed)})
    named = kept != "-"
    assert (found.values.get("variable"), found.values.get("kept")) == (("PYTHONPATH", kept) if named else (None, None))
    assert (f"PYTHONPATH={listed}" in [quote.text for quote in found.quotes]) == named


def test_shadows_hide_what_is_installed() -> None:
    cuda = (Shadow(module="cuda", path="/home/ada/cuda.py"),)
    assert clue("python-module-shadowed", {PYTHON: with_numba(shadows=cuda)}).values["path"] == "/home/ada/cuda.py"
    assert causes({PYTHON: interpreter(NUMPY, shadows=cuda)}) == set()
    closed = (Shadow(module="cuda", path="/opt/v/lib/python3.12/site-packages/cuda", owner="cuda-stubs"),)
    found = clue("python-module-shadowed", {PYTHON: with_numba(shadows=closed)})
    assert found.values["owning_package"] == "cuda-stubs"
    assert "of cuda-stubs" in found.quotes[0].text
    checkout = (Shadow(module="cuda.bindings", path="/home/ada/src/cuda/bindings"),)
    unbuilt = {
        PYTHON: with_numba(package("cuda-bindings", "13.0.1"), shadows=checkout),
        ENVIRONMENT: environment(PYTHONPATH="/x:/home/ada/src"),
    }
    assert clue("python-module-shadowed", unbuilt).values["kept"] == "/x"
    torch = (Shadow(module="torch", path="/home/ada/torch.py"),)
    assert causes({PYTHON: with_numba(shadows=torch)}) == set()


def test_wrong_nvml_bindings() -> None:
    for error, conflict in (
        ("/x/pynvml.py has no nvmlInit: not the NVML binding", True),
        ("/x/pynvml.py is of the deprecated distribution pynvml 11.5.3, without nvidia-ml-py", True),
        ("ModuleNotFoundError: No module named 'pynvml'", False),
    ):
        assert ("pynvml-conflict" in causes({NVML: on_gpu(provider_error=error)})) == conflict
    assert causes({PYTHON: with_numba(package("nvidia-ml-py", "13.615.71"))}) == set()
    assert causes({PYTHON: with_numba(package("pynvml", "11.5.3"))}) == set()


def test_python_line() -> None:
    line = python.CHECK.describe(host(), KNOWLEDGE)
    said = "numba 0.68.1, numba-cuda 0.30.4, numpy 2.4.6, llvmlite 0.50.0, cuda-bindings 12.9.4"
    assert line.summary == f"Python 3.12.3 at {PATH}: {said}"


# ---------------------------------------------------------------- Numba
@pytest.mark.parametrize(
    ("value", "on"), [("1", True), ("2", True), (" 1 ", True), ("0", False), ("", False), ("true", False), ("yes", False)]
)
def test_switches_as_numba_reads_them(value: str, on: bool) -> None:
    assert ("numba-simulator-enabled" in causes({ENVIRONMENT: environment(NUMBA_ENABLE_CUDASIM=value)})) == on
    assert ("numba-cuda-disabled" in causes({ENVIRONMENT: environment(NUMBA_DISABLE_CUDA=value)})) == on


def configured(*lines: str) -> State:
    entries = tuple(ConfigLine(path="/w/.numba_config.yaml", line=number, text=text) for number, text in enumerate(lines, 1))
    return {PYTHON: with_numba(numba_config=entries), **FAILED}


def test_switches_in_the_file() -> None:
    assert clue("numba-simulator-enabled", configured("enable_cudasim: 1")).values["numba_config"] == "/w/.numba_config.yaml"
    assert causes(configured("disable_cuda: true")) == {"numba-cuda-disabled"}
    assert causes(configured("enable_cudasim: 0", "# disable_cuda: 1")) == set()
    # The environment outranks the file, and a kernel that ran on a GPU shows that the file was not read.
    assert causes({**configured("enable_cudasim: 1"), ENVIRONMENT: environment(NUMBA_ENABLE_CUDASIM="0")}) == set()
    assert causes({**configured("enable_cudasim: 1"), LADDER: climb()}) == set()


def test_the_simulator_answers() -> None:
    ladder = climb("numba-kernel", output="simulator", state=NumbaState(version="0.68.1", simulator=True))
    assert causes({LADDER: ladder}) == {"numba-simulator-enabled"}
    assert "numba-simulator-enabled" in causes({LADDER: ladder}, (ENVIRONMENT, PYTHON))


def test_numba_cuda_without_its_needs() -> None:
    found = clue("numba-cuda-target-missing", {PYTHON: with_numba(without=("cuda-bindings", "cuda-core")), **NO_TARGET})
    assert (found.quotes[1].text, found.subject) == ("cuda-bindings and cuda-core: not installed", SUBJECT)
    old = with_numba(package("numba-cuda", "0.15.0"), without=("cuda-bindings", "cuda-core"))
    assert "numba-cuda-target-missing" not in causes({PYTHON: old, **NO_TARGET})
    # A list of packages that broke off does not say what is missing.
    partial = msgspec.structs.replace(with_numba(without=("cuda-bindings",)), whole=False)
    assert "numba-cuda-target-missing" in undecided({PYTHON: partial, **NO_TARGET})


def test_the_start_up_hook() -> None:
    answers = climb(state=NumbaState(version="0.68.1", implementation="Built-in"))
    assert causes({LADDER: answers}) == {"numba-cuda-target-missing"}
    assert causes({LADDER: answers, PYTHON: built_in()}) == set()
    assert causes({PYTHON: with_numba(numba_cuda_redirects=False), LADDER: climb("init", code=100)}) >= {"numba-cuda-target-missing"}
    assert causes({PYTHON: with_numba(numba_cuda_redirects=False)}) == set()  # numba-cuda answered all the same


def test_the_start_up_hook_in_a_folder_of_pythonpath() -> None:
    """`pip install --target`: to install it once more changes nothing."""
    answers = climb(state=NumbaState(version="0.68.1", implementation="Built-in"))
    there = with_numba(msgspec.structs.replace(package("numba-cuda", "0.30.4"), path="/srv/pk"))
    state: State = {LADDER: answers, PYTHON: there, ENVIRONMENT: environment(PYTHONPATH="/x:/srv/pk/")}
    assert clue("numba-cuda-target-missing", state).values["path"] == "/srv/pk"
    assert "unhooked" not in clue("numba-cuda-target-missing", {**state, ENVIRONMENT: environment(PYTHONPATH="/x")}).values


def test_old_numba() -> None:
    wants = with_numba(package("numba", "0.59.0"))
    assert [quote.text for quote in clue("numba-too-old", {PYTHON: wants}).quotes] == ["numba-cuda 0.30.4", "numba 0.59.0"]
    own = {PYTHON: built_in(), TOOLKITS: toolkits(components=parts("13.0.88")), **FAILED}
    assert "numba-too-old" in causes(own)
    assert "numba-too-old" not in causes({**own, TOOLKITS: toolkits(components=parts("12.9.86"))})
    target = with_numba(package("numba-cuda", "0.18.0"))
    assert "numba-too-old" in causes({PYTHON: target, TOOLKITS: toolkits(components=parts("13.0.88")), **FAILED})


def test_numbas_own_target_on_new_drivers() -> None:
    crash = FAULTS["numba-too-old"][0]
    mended = {**crash, PYTHON: built_in(package("numba", "0.63.1"))}
    assert "numba-too-old" in causes(mended)  # seen to crash
    assert "numba-too-old" not in causes({**mended, **FAILED})
    assert "numba-too-old" in causes({**crash, **FAILED})
    assert "numba-too-old" not in causes({**crash, **FAILED, ENVIRONMENT: environment(NUMBA_CUDA_USE_NVIDIA_BINDING="1")})
    older = {**crash, LADDER: msgspec.structs.replace(climb("numba-kernel"), cuda=CudaVersion("12.4"))}
    assert "numba-too-old" not in causes(older)
    assert "numba-too-old" in undecided({**crash, **FAILED}, (LADDER, NVML, SMI))


@pytest.mark.parametrize(
    ("changes", "words", "skip"),
    [
        ({}, "Numba 0.68.1 with numba-cuda 0.30.4 sees 1 GPU", None),
        ({PYTHON: built_in()}, "Numba 0.68.1 with its own CUDA target sees 1 GPU", None),
        ({LADDER: climb("init", code=100)}, "Numba 0.68.1 with numba-cuda 0.30.4; its kernel was not reached", None),
        (
            {LADDER: climb("numba-kernel", output="x\nNvvmError: y")},
            "Numba 0.68.1 with numba-cuda 0.30.4: a kernel ends with NvvmError: y",
            None,
        ),
        ({LADDER: Ladder(quick=True)}, "Numba 0.68.1 with numba-cuda 0.30.4; not imported", "--quick"),
        ({PYTHON: interpreter()}, "no Numba in the examined Python; Numba 0.68.1 of the doctor's own Python ran instead", "no Numba here"),
    ],
)
def test_numba_line(changes: State, words: str, skip: str | None) -> None:
    line = numba.CHECK.describe(host(changes), KNOWLEDGE)
    assert (line.summary, line.skip) == (words, skip)


# ---------------------------------------------------------------- processes
def test_small_listed_and_running_is_healthy() -> None:
    small: State = {NVML: on_gpu(listed(memory=29 << 20)), PROCESSES: table(process())}
    assert causes(small) == set()
    desktop: State = {NVML: on_gpu(listed(kind="G", memory=30 * GIB)), PROCESSES: table(process())}
    assert causes(desktop) == set()
    daemon: State = {PROCESSES: table(process(devices=("/dev/nvidia0", "/dev/nvidiactl"), state="orphaned"))}
    assert causes(daemon) == set()


def test_out_of_memory_needs_only_somebody() -> None:
    small: State = {NVML: on_gpu(listed(memory=29 << 20)), PROCESSES: table(process()), LADDER: climb("context", code=2)}
    found = clue("gpu-memory-held-by-others", small)
    assert (found.subject, found.values["pid"], found.values["start_time"]) == (f"gpu:{ADDRESS}", "4242", "1763721234.56")
    by_text = {**small, LADDER: climb("numba-kernel", output="CudaAPIError: [2] Call to cuMemAlloc results in CUDA_ERROR_OUT_OF_MEMORY")}
    assert "gpu-memory-held-by-others" in causes(by_text)
    assert "gpu-memory-held-by-others" not in causes({**small, LADDER: climb("context", code=1)})


def test_out_of_memory_in_a_container() -> None:
    full: State = {NVML: on_gpu(gpu=found_gpu(130 * GIB)), LADDER: climb("context", code=2)}
    assert "gpu-memory-held-by-others" not in causes(full)
    assert causes({**full, CONTAINER_MARKS: ("/.dockerenv",)}) == {"gpu-memory-held-by-others"}
    assert causes({**full, WSL: True}) == {"gpu-memory-held-by-others"}


def test_memory_without_a_figure() -> None:
    hidden: State = {NVML: on_gpu(listed(memory=None), gpu=found_gpu(120 * GIB)), PROCESSES: table(process())}
    assert causes(hidden) == {"gpu-memory-held-by-others"}
    assert causes({**hidden, NVML: on_gpu(listed(memory=None), gpu=found_gpu(GIB))}) == set()


@pytest.mark.parametrize("state", ["orphaned", "defunct"])
def test_dead_holders_are_no_others(state: str) -> None:
    changes: State = {NVML: on_gpu(listed()), PROCESSES: table(process(state=state, ppid=1))}
    assert causes(changes) == {"zombie-gpu-process"}
    found = clue("zombie-gpu-process", changes)
    assert state in found.quotes[1].text
    assert len(found.quotes) == 2
    # Not listed by NVML, but its files are open.
    assert causes({PROCESSES: table(process(state=state, ppid=1))}) == {"zombie-gpu-process"}


def test_stopped_holders() -> None:
    stopped = process(state="stopped", ppid=999)
    assert causes({NVML: on_gpu(listed()), PROCESSES: table(stopped)}) == {"zombie-gpu-process"}
    assert causes({NVML: on_gpu(listed()), PROCESSES: table(stopped, Process(pid=999))}) == {"gpu-memory-held-by-others"}


def test_memory_that_nobody_holds() -> None:
    used: State = {NVML: on_gpu(gpu=found_gpu(40 * GIB))}
    assert causes(used) == {"zombie-gpu-process"}
    assert "pid" not in clue("zombie-gpu-process", used).values
    assert causes({NVML: on_gpu(gpu=found_gpu(250 << 20))}) == set()
    assert causes({**used, WSL: True}) == set()
    assert causes({NVML: on_gpu(gpu=found_gpu(40 * GIB, mig_mode="enabled", mig_uuids=("MIG-1",)))}) == set()
    assert causes({NVML: on_gpu(gpu=make.nvml_gpu(memory_used_bytes=GIB, memory_total_bytes=9 * GIB))}) == set()
    for open_ in ({CONTAINER_MARKS: ("/.dockerenv",)}, {PROCESSES: table(complete=False)}):
        assert causes({**used, **open_}) == set()
        assert "zombie-gpu-process" in undecided({**used, **open_})
    for key in (WSL, CONTAINER_MARKS, PROCESSES):
        assert "zombie-gpu-process" in undecided(used, (key,))
    assert causes({**used, PROCESSES: table(process())}) == set()
    gone: State = {NVML: on_gpu(listed(name="[Not Found]"))}
    assert "zombie-gpu-process" in causes(gone)
    assert "zombie-gpu-process" not in causes({**gone, CONTAINER_MARKS: ("/.dockerenv",)})


def test_a_gpu_with_room_for_others_is_shared() -> None:
    assert causes({NVML: on_gpu(listed(memory=105 * GIB)), PROCESSES: table(process())}) == set()


def test_each_gpu_for_itself() -> None:
    first, second = found_gpu(), found_gpu(120 * GIB, index=1, address="0000:02:00.0")
    other = msgspec.structs.replace(listed(), gpu="0000:02:00.0")
    two = Nvml(code=0, gpus=(first, second), processes=(other,))
    shown = msgspec.structs.replace(climb(), devices=(CudaDevice(index=0, address=ADDRESS), CudaDevice(index=1, address="0000:02:00.0")))
    assert clue("gpu-memory-held-by-others", {NVML: two, PROCESSES: table(process()), LADDER: shown}).subject == "gpu:0000:02:00.0"


def test_memory_runs_out_on_one_of_two_gpus() -> None:
    second = "0000:02:00.0"
    gpus = (found_gpu(29 << 20), found_gpu(29 << 20, index=1, address=second))
    entries = (listed(memory=29 << 20), msgspec.structs.replace(listed(pid=4343, memory=29 << 20), gpu=second))
    rungs = tuple(
        RungResult(rung="context", gpu=number, status=status, code=code) for number, status, code in ((0, "fail", 2), (1, "pass", None))
    )  # type: ignore[arg-type]
    # The visible devices are in another order than NVML's.
    devices = (CudaDevice(index=0, address=second), CudaDevice(index=1, address=ADDRESS))
    state: State = {
        NVML: Nvml(code=0, gpus=gpus, processes=entries),
        PROCESSES: table(process(), process(pid=4343)),
        LADDER: msgspec.structs.replace(climb(), rungs=rungs, devices=devices),
    }
    found = clue("gpu-memory-held-by-others", state)
    assert (found.subject, found.values["pid"]) == (f"gpu:{second}", "4343")


def test_open_files_name_a_gpu_only_where_they_can() -> None:
    """A CUDA program opens the nodes of all GPUs: with two, its files alone do not say which it holds."""
    two = Nvml(code=0, gpus=(found_gpu(), found_gpu(index=1, address="0000:02:00.0")))
    both = process(state="orphaned", devices=("/dev/nvidia0", "/dev/nvidia1", "/dev/nvidia-uvm"))
    assert causes({NVML: two, PROCESSES: table(both)}) == set()
    one = process(state="orphaned", devices=("/dev/nvidia1", "/dev/nvidia-uvm"))
    assert clue("zombie-gpu-process", {NVML: two, PROCESSES: table(one)}).subject == "gpu:0000:02:00.0"


def test_a_numba_without_a_target_of_its_own() -> None:
    """A release of which the table says that it ships no CUDA target."""
    release = msgspec.structs.replace(KNOWLEDGE.numba_releases[0], builtin_cuda=False)
    future = type("Future", (), {"numba_release": lambda self, version: release})()
    found = list(numba._no_target(host({PYTHON: built_in()}), future))
    assert [entry.cause for entry in found] == ["numba-cuda-target-missing"]
    assert list(numba._no_target(host({PYTHON: built_in()}), KNOWLEDGE)) == []
    assert list(numba._no_target(host(), future)) == []


def test_waiting_is_not_hanging() -> None:
    assert causes({PROCESSES: table(process(state="uninterruptible"))}) == set()
    assert causes({HANGS: make.hangs("nvml")}) == set()


@pytest.mark.parametrize(
    ("more", "accused"),
    [
        ({"waits": "os_acquire_mutex [nvidia]", "in_driver": True}, True),
        ({"waits": "uvm_va_space_destroy [nvidia_uvm]", "in_driver": True, "devices": ()}, True),
        ({"waits": "rpc_wait_bit_killable [sunrpc]", "in_driver": False}, False),  # it holds a GPU, and waits for a file server
        ({"waits": "folio_wait_bit_common", "in_driver": False}, False),
        ({"waits": "rwsem_down_read_slowpath"}, True),  # a lock, whose is not told
        ({"waits": "rwsem_down_read_slowpath", "devices": ()}, False),
    ],
)
def test_in_what_a_process_waits_tells_the_driver_from_a_disk(more: dict[str, Any], accused: bool) -> None:
    found = causes({HANGS: make.hangs("nvml"), PROCESSES: table(process(state="uninterruptible", **more))})
    silent = causes({HANGS: make.hangs("nvml"), PROCESSES: table()})
    assert ("driver-hung" in found) == (accused or "driver-hung" in silent)
    clues = list(
        processes._waiting_for_the_driver(
            host({HANGS: make.hangs("nvml"), PROCESSES: table(process(state="uninterruptible", **more))}), KNOWLEDGE
        )
    )
    assert bool(clues) == accused


def test_for_a_moment_a_process_waits_in_a_driver_that_answers() -> None:
    waits = table(process(state="uninterruptible", waits="os_acquire_mutex [nvidia]", in_driver=True))
    assert list(processes._waiting_for_the_driver(host({HANGS: make.hangs("nvidia-smi"), PROCESSES: waits}), KNOWLEDGE)) == []
    silent = {HANGS: make.hangs("nvidia-smi", "ladder"), PROCESSES: waits, LADDER: None}
    assert list(processes._waiting_for_the_driver(host(silent), KNOWLEDGE))


def test_many_that_wait_are_counted_and_the_first_named() -> None:
    many = table(
        *(process(pid=5000 + number, state="uninterruptible", waits="os_acquire_mutex [nvidia]", in_driver=True) for number in range(9))
    )
    clue = next(processes._waiting_for_the_driver(host({HANGS: make.hangs("nvml"), PROCESSES: many}), KNOWLEDGE))
    assert [quote.text for quote in clue.quotes][-1] == "9 processes wait in the driver"
    assert len(clue.quotes) == 5
    assert clue.values["pid"] == "5000"


def test_memory_that_cpu_and_gpu_share() -> None:
    """On a card with memory of its own the same line says that this card's, or the host's, ran out."""
    assert causes({NVML: on_gpu(), KERNEL_LOG: make.log(NO_SHARED_MEMORY)}) == set()
    assert causes({NVML: GB10, KERNEL_LOG: make.log("NVRM: loading NVIDIA UNIX Open Kernel Module")}) == set()
    untold = on_gpu(gpu=make.nvml_gpu(memory_used_bytes=None, errors={"memory": "Unknown Error"}))
    assert causes({NVML: untold, KERNEL_LOG: make.log(NO_SHARED_MEMORY)}) == set()


def test_processes_line() -> None:
    say = lambda changes: processes.CHECK.describe(host(changes), KNOWLEDGE).summary  # noqa: E731
    assert say({}) == "GPU 0: no process listed, 0 MiB of 140.0 GiB in use"
    one = say({NVML: on_gpu(listed())})
    assert one == "GPU 0: 1 process holds 120.0 GiB of 140.0 GiB: /usr/bin/train (4242)"


# ---------------------------------------------------------------- smoke test, benchmark
STEPS = ("device print", "increment", "vector add", "float32 exp")


def smoked(**changed: Any) -> Ladder:
    steps = tuple(SmokeStep(gpu=0, step=name, status="pass", line=number) for number, name in enumerate(STEPS, 30))
    return msgspec.structs.replace(climb(), smoke=tuple(msgspec.structs.replace(step, **changed.get(step.step, {})) for step in steps))


def test_smoke_line() -> None:
    say = lambda ladder: smoke.CHECK.describe(host({LADDER: ladder}), KNOWLEDGE)  # noqa: E731
    assert say(smoked()).summary == "16 threads printed; increment, vector add, exp right on 1 GPU"
    assert [quote.first for quote in say(smoked()).quotes] == [30, 31, 32, 33]
    wrong = smoked(**{"vector add": {"status": "fail", "why": "element 7 is 3, 4 is right"}})
    assert say(wrong).summary == "vector add went wrong on GPU 0: element 7 is 3, 4 is right"
    skipped = smoked(increment={"status": "skip", "why": "needs 80 MB"})
    assert say(skipped).summary == "16 threads printed; vector add, exp right on 1 GPU; 1 step skipped (needs 80 MB)"
    assert say(Ladder(quick=True)).skip == "--quick"
    own = msgspec.structs.replace(smoked(), numba=NumbaState(version="0.68.1", python="/opt/doctor/bin/python"))
    assert say(own).summary.endswith("on 1 GPU (in the doctor's own Python /opt/doctor/bin/python: no Numba in the examined one)")
    assert say(climb("init", code=100)).summary == "no kernel was run"


def measured(name: str, value: float | None, limit: float | None = None, **more: Any) -> Measurement:
    return Measurement(
        gpu=0, name=name, value=value, unit="GB/s", limit=limit, limit_from="PCIe 5.0 x16: the card's maximum" if limit else None, **more
    )


@pytest.mark.parametrize(
    ("figure", "verdict", "share"),
    [
        (measured("h2d_pinned", 55.5, 63.0), "ok", 0.881),
        (measured("h2d_pinned", 44.0, 63.0), "slow", 0.6984),
        (measured("d2d", 75.0, 100.0), "ok", 0.75),
        (measured("d2d", 74.9, 100.0), "slow", 0.749),
        (measured("d2h_pageable", 5.0, 63.0), "cannot judge", 0.0794),
        (measured("h2d_pinned", 55.5), "cannot judge", None),
        (measured("h2d_pinned", None, 63.0, why="no memory"), "cannot judge", None),
        (measured("h2d_pinned", float("nan"), 63.0), "cannot judge", None),
        (measured("h2d_pinned", 55.5, 0.0), "cannot judge", None),
    ],
)
def test_figures(figure: Measurement, verdict: str, share: float | None) -> None:
    result = benchmark.assess(figure, KNOWLEDGE)
    assert (result.verdict, result.share) == (verdict, share)
    assert result.why is not None or verdict == "ok"
    assert b"NaN" not in msgspec.json.encode(result)


def test_benchmark_line() -> None:
    figures = (
        measured("h2d_pinned", 55.5, 63.0),
        measured("d2h_pinned", 30.0, 63.0),
        measured("h2d_pageable", 9.0),
        measured("d2d", None, why="why"),
    )
    ladder = msgspec.structs.replace(climb(), benchmark=figures)
    line = benchmark.CHECK.describe(host({LADDER: ladder}), KNOWLEDGE)
    good, slow = "55.5 GB/s to the device (88 % of PCIe 5.0 x16)", "30 GB/s from the device (48 % of PCIe 5.0 x16, slow)"
    assert line.summary == f"{good}, {slow}, within the device: not measured (why)"
    assert causes({LADDER: ladder}) == set()
    assert benchmark.CHECK.describe(host({LADDER: climb("init")}), KNOWLEDGE).summary == "nothing was measured"


def test_rungs_are_quoted_by_their_line() -> None:
    """Two climbs may use the same line number; the rung of the doctor's own Python is quoted from the later one."""
    rung = RungResult(rung="numba-kernel", gpu=0, status="fail", line=2, code=209)
    ladder = msgspec.structs.replace(climb(), rungs=(*climb().rungs[:-1], rung), numba=NumbaState(python="/opt/doctor/bin/python"))
    lines: Mapping[int, str] = {1: "one", 2: "examined"}
    state = fact(LADDER, ladder, *lines.values())
    again = msgspec.structs.replace(state, quotes=(*state.quotes, msgspec.structs.replace(state.quotes[1], text="own")))
    from cudadoctor.checks.common import rung_quote

    assert rung_quote(again, rung).text == "own"
    assert rung_quote(state, rung).text == "examined"


# ---------------------------------------------------------------- start-up hooks
@pytest.mark.parametrize(
    ("name", "rung", "code", "bases"),
    [
        ("CUDA_VISIBLE_DEVICES", "init", 100, ["derived"]),
        ("CUDA_VISIBLE_DEVICES", "init", 999, ["suspected"]),
        ("NUMBA_DISABLE_JIT", "numba-kernel", None, ["suspected"]),
        ("CUDA_VISIBLE_DEVICES", None, None, []),
    ],
)
def test_a_variable_that_the_interpreters_start_sets(name: str, rung: str | None, code: int | None, bases: list[str]) -> None:
    found = list(python.set_at_start(make.host({LADDER: changed_at_start(name, rung, code)}), KNOWLEDGE))
    assert [clue.basis for clue in found] == bases
    assert all(clue.values["variable"] == name for clue in found)


def test_a_preloaded_library_may_have_set_it() -> None:
    climbed = changed_at_start("CUDA_VISIBLE_DEVICES", "init", 100)
    climbed = msgspec.structs.replace(climbed, changed=(msgspec.structs.replace(climbed.changed[0], preloaded=("/opt/guard.so",)),))
    found = next(python.set_at_start(make.host({LADDER: climbed}), KNOWLEDGE))
    assert found.values["preloaded"] == "/opt/guard.so"
    assert "preloaded: /opt/guard.so" in [quote.text for quote in found.quotes]
