"""The workers of `bench` and `smoke` against a stub libcuda: what they measure, whose turn it is, and that each planted fault is named."""

from __future__ import annotations

import ctypes
import functools
import io
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cudadoctor.checks.rows import CHECKS
from cudadoctor.commands.progress import Progress
from cudadoctor.judge.stages import judge
from cudadoctor.knowledge.load import load as knowledge_of_package
from cudadoctor.model.evidence import Item
from cudadoctor.model.guard import Guard
from cudadoctor.model.requirements import Requirements
from cudadoctor.model.values import GPU_WORK, Ladder
from cudadoctor.parsers import worker_gpu
from cudadoctor.parsers.read import text_of
from cudadoctor.sources import gpu_workers
from cudadoctor.sources.children import Child
from cudadoctor.sources.host import Collector, Plan
from cudadoctor.within.asking import Judge
from tests.worker_runs import WORKERS, driver_stubs, load, of

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the workers load Linux libraries")

Events = list[dict[str, Any]]
Run = Callable[..., Events]
KNOWLEDGE = knowledge_of_package()
HOST = ("h2d_pinned", "d2h_pinned", "both_pinned", "h2d_pageable", "d2h_pageable", "both_pageable")


@pytest.fixture(scope="session")
def stubs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return driver_stubs(tmp_path_factory.mktemp("stubs"))


def environment(stubs: Path, **changes: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA", "CUDA", "PYTHON", "LD_", "FAKE"))}
    return {**kept, "LD_LIBRARY_PATH": str(stubs), "FAKE_CUDA_FREE": "128", **changes}


def started(stubs: Path, name: str, *arguments: str, say: str = "turn\n", **changes: str) -> Events:
    script = ("ladder.py",) if name == "ladder" else ("on_gpus.py", name)
    argv = [sys.executable, "-S", "-u", "-B", str(WORKERS / script[0]), *script[1:], *arguments]
    if name == "bench":  # the stub copies for real, an eighth of what is free, thousands of times
        changes = {"FAKE_CUDA_FREE": "16", **changes}
    done = subprocess.run(argv, input=say, capture_output=True, text=True, env=environment(stubs, **changes), timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture
def run(stubs: Path) -> Run:
    return functools.partial(started, stubs)


def work_of(events: Events) -> Ladder:
    """What the parser makes of a worker's lines."""
    item = Item(
        id="benchmark-0",
        kind="worker",
        what=("python", "on_gpus.py", "bench"),
        status="ok",
        exit=0,
        stdout="".join(json.dumps(event) + "\n" for event in events),
    )
    (fact,) = Guard().run("parse", "worker_gpu", [], lambda: list(worker_gpu.parse(text_of(item))))
    assert fact.key == GPU_WORK.name
    assert isinstance(fact.value, Ladder)
    return fact.value


# ---------------------------------------------------------------- bench
@pytest.mark.long
def test_every_figure_is_measured_twice_and_joined(run: Run) -> None:
    events = run("bench", "--gpu", "0")
    figures = of(events, "benchmark")
    assert [entry["why"] for entry in figures if entry["value"] is None] == []
    once = [entry["name"] for entry in figures if entry["run"] == 1]
    assert sorted(once) == sorted({entry["name"] for entry in figures})
    assert len(figures) == 2 * len(once) - 2  # what starting costs is measured once
    for entry in work_of(events).benchmark:
        assert len(entry.runs) in (0, 2)
        assert not entry.runs or entry.value in entry.runs
    fp32 = next(entry for entry in figures if entry["name"] == "fp32")
    assert (fp32["clock_mhz"], fp32["sm_count"]) == (1700.0, 1)
    assert events[-1] == {"event": "done"}


@pytest.fixture(scope="module")
def distorted(stubs: Path) -> Events:
    """A whole run of the benchmark, with a variable that distorts it, on battery."""
    return started(stubs, "bench", "--gpu", "0", CUDA_LAUNCH_BLOCKING="1", FAKE_NVML_SOURCE="1")


def test_copies_wait_for_their_turn(distorted: Events) -> None:
    events = distorted
    places = {entry["state"]: events.index(entry) for entry in of(events, "turn")}
    copies = [place for place, entry in enumerate(events) if entry.get("name") in HOST]
    assert places["ask"] < min(copies)
    assert max(copies) < places["done"]
    assert len(copies) == 2 * len(HOST)


@pytest.mark.parametrize("kernel", ["fp32", *(pytest.param(name, marks=pytest.mark.long) for name in ("add", "chase"))])
def test_a_kernel_that_computes_wrong_is_named_by_the_benchmark(run: Run, kernel: str) -> None:
    events = run("bench", "--gpu", "0", FAKE_CUDA_WRONG=kernel)
    failed = [entry for entry in of(events, "end") if entry["status"] == "fail"]
    assert failed
    assert all("; wrong again when repeated" in entry["output"] for entry in failed)
    assert all(entry["value"] is None for entry in of(events, "benchmark") if "wrong again" in (entry["why"] or ""))


@pytest.mark.long
@pytest.mark.parametrize(
    "refused", ["cuMemAlloc_v2=2", "cuMemHostAlloc=2", "cuStreamCreate=2", "cuModuleLoadDataEx=218", "cuGraphInstantiateWithFlags=1"]
)
def test_what_the_driver_refuses_is_a_reason_and_ends_nothing(run: Run, refused: str) -> None:
    events = run("bench", "--gpu", "0", FAKE_CUDA_FAIL=refused)
    bad = [entry for entry in of(events, "benchmark") if entry["value"] is None]
    assert bad
    assert all("CUDA_ERROR" in entry["why"] or "returned" in entry["why"] for entry in bad)
    assert not of(events, "error")
    assert not any("the worker itself failed" in (entry["why"] or "") for entry in bad)


def test_variables_that_distort_are_named(distorted: Events) -> None:
    figures = of(distorted, "benchmark")
    assert all(entry["distorted"] == ["CUDA_LAUNCH_BLOCKING"] for entry in figures)


def test_the_power_source_under_load_is_told(distorted: Events) -> None:
    loads = [entry.load for entry in work_of(distorted).benchmark if entry.load is not None]
    assert {load.power_source for load in loads} == {"battery"}


def test_copies_between_gpus(run: Run) -> None:
    events = run("bench", "--peers", "0,1", FAKE_CUDA_DEVICES="2")
    pairs = {(entry["name"], entry["gpu"], entry["peer"]) for entry in of(events, "benchmark")}
    assert pairs == {("peer", 0, 1), ("peer", 1, 0), ("peer_latency", 0, 1), ("peer_latency", 1, 0), ("peer_both", 0, 1)}
    assert {entry["status"] for entry in of(events, "smoke")} == {"pass"}


def test_a_wrong_copy_between_gpus_is_a_failed_step_without_figures(run: Run) -> None:
    events = run("bench", "--peers", "0,1", FAKE_CUDA_DEVICES="2", FAKE_CUDA_WRONG="peer")
    assert not of(events, "benchmark")
    assert {entry["status"] for entry in of(events, "smoke")} == {"fail"}
    assert "first at byte 99" in of(events, "smoke")[0]["why"]


def test_a_copy_between_gpus_that_never_ends_is_a_failed_step() -> None:
    lines = ({"event": "start"}, {"event": "begin", "step": "peer copy to GPU 1", "gpu": 0})
    item = Item(
        id="smoke-peers",
        kind="worker",
        what=("python",),
        status="timed-out",
        why="no answer within 9 s",
        stdout="".join(json.dumps(line) + "\n" for line in lines),
    )
    (fact,) = worker_gpu.parse(text_of(item))
    assert isinstance(fact.value, Ladder)
    (step,) = fact.value.smoke
    assert (step.status, step.why) == ("fail", "GPU 0: peer copy to GPU 1: it did not end (no answer within 9 s)")


# ---------------------------------------------------------------- side by side
@pytest.mark.long
def test_workers_run_side_by_side_and_take_turns(stubs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environment(stubs, FAKE_CUDA_DEVICES="2").items():
        monkeypatch.setenv(name, value)
    heard: list[tuple[float, str, str]] = []
    children: list[Child] = []

    def started(child: Child) -> None:
        children.append(child)
        before = child.on_line

        def hear(line: str) -> None:
            if '"turn"' in line:
                heard.append((time.monotonic(), child.item, json.loads(line)["state"]))
            before(line)  # type: ignore[misc]

        child.on_line = hear

    gpu_workers.Workers(
        "bench", (), python=sys.executable, end=time.monotonic() + 90, keeper=None, started=started, on_over=lambda child: None
    ).run((0, 1))
    assert [child.item for child in children] == ["benchmark-0", "benchmark-1", "benchmark-peers"]
    assert all(child.status == "ok" for child in children)
    done = [item for _, item, state in heard if state == "done"]
    assert sorted(done) == ["benchmark-0", "benchmark-1"]


@pytest.mark.long
def test_the_collection_measures_long_and_not_twice(stubs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environment(stubs).items():
        monkeypatch.setenv(name, value)
    evidence = Collector(Plan(python=sys.executable, on_gpus={"bench": ()}, busy=True)).collect()
    ladder, worker = evidence.get("ladder"), evidence.get("benchmark-0")
    assert ladder is not None
    assert '"benchmark"' not in (ladder.stdout or "")
    assert worker is not None
    assert (worker.stdout or "").count('"benchmark"') > 40
    report = judge(evidence, KNOWLEDGE, Requirements())
    assert len(report.benchmark) > 20
    text = io.StringIO()
    progress = Progress(text, color=False, rows=lambda: {row.id: row.items for row in CHECKS}, judge=Judge(), on_gpus=("bench",))
    for item in evidence.items:
        progress(item)
    assert "nothing was measured" not in text.getvalue()
    assert re.search(r"^benchmark +GPU 0: done in \d", text.getvalue(), re.MULTILINE)
    progress.update(final=True)
    assert len(re.findall("^benchmark ", text.getvalue(), re.MULTILINE)) == 2


def test_turns_go_to_the_next_when_their_holder_ends() -> None:
    class Fake:
        def __init__(self) -> None:
            self.said: list[str] = []

        def say(self, line: str) -> None:
            self.said.append(line)

    turns, first, second = gpu_workers.Turns(), Fake(), Fake()
    ask = json.dumps({"event": "turn", "state": "ask"})
    turns.hear(first, ask)  # type: ignore[arg-type]
    turns.hear(second, ask)  # type: ignore[arg-type]
    assert (first.said, second.said) == (["turn\n"], [])
    turns.gone(first)  # type: ignore[arg-type]
    assert second.said == ["turn\n"]


# ---------------------------------------------------------------- a guest
@pytest.mark.parametrize(("busy", "pid", "guest"), [("90", "4242", True), ("90", "0", True), ("0", "0", False)])
def test_nothing_is_measured_where_another_process_computes(run: Run, busy: str, pid: str, guest: bool) -> None:
    events = run("ladder", say="go\n", FAKE_NVML_PID=pid, FAKE_NVML_BUSY=busy)
    assert bool(of(events, "guest")) == guest
    assert bool(of(events, "benchmark")) != guest
    if guest:
        assert of(events, "guest")[0]["pids"] == ([4242] if pid != "0" else [])


def test_a_management_library_that_does_not_answer_holds_nothing_up(run: Run) -> None:
    events = run("ladder", say="go\n", FAKE_NVML_SLEEP="30", FAKE_NVML_PID="4242", FAKE_NVML_BUSY="90")
    assert of(events, "benchmark")
    assert events[-1] == {"event": "done"}


def test_busy_measures_anyway(run: Run) -> None:
    events = run("ladder", "--busy", say="go\n", FAKE_NVML_PID="4242", FAKE_NVML_BUSY="90")
    assert not of(events, "guest")
    assert of(events, "benchmark")


# ---------------------------------------------------------------- smoke
def test_every_step_of_the_driver_alone(run: Run) -> None:
    events = run("smoke", "--gpu", "0", "--memory", "16MiB", "--duration", "0.3")
    steps = {entry["step"]: entry["status"] for entry in of(events, "smoke")}
    assert list(steps) == [
        "launch limits",
        "shared-memory reduction",
        "atomics",
        "FP64",
        "FP16",
        "cooperative groups",
        "repeat test",
        "memory pattern",
        "load for 0.3 s",
    ]
    assert set(steps.values()) == {"pass"}
    said = {entry["step"]: entry["said"] for entry in of(events, "smoke")}
    assert said["launch limits"] == "1024 threads a block ran; 1025 are refused"
    refused = next(entry["planted"] for entry in of(events, "smoke") if entry["step"] == "launch limits")
    assert re.fullmatch(r"write\[1, 1025\]\(\.\.\.\)\ncuLaunchKernel returned 1 \(CUDA_ERROR_INVALID_VALUE\).*", refused)
    assert said["memory pattern"] == "16 MiB, 4 patterns"


@pytest.mark.parametrize(("say", "steps"), [("go\n", 8), ("", 0), ("no\n", 0)])
def test_a_worker_that_was_started_ahead_makes_no_context_before_the_word(run: Run, say: str, steps: int) -> None:
    events = run("smoke", "--gpu", "0", "--memory", "16MiB", "--ahead", say=say)
    assert len(of(events, "smoke")) == steps
    assert bool(of(events, "begin")) == (steps > 0)
    assert events[-1] == {"event": "done"}


@pytest.mark.parametrize(("processors", "fails", "tested"), [(64, "", (0, 1)), (64, "cuCtxSynchronize=700", ()), (4, "", (0, 1))])
def test_the_smoke_test_waits_ahead_where_there_are_processors(
    stubs: Path, processors: int, fails: str, tested: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment(stubs, FAKE_CUDA_DEVICES="2", FAKE_CUDA_FAIL=fails).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(os, "cpu_count", lambda: processors)
    begun: list[tuple[str, bool]] = []
    start, devices = gpu_workers.Workers.start, gpu_workers.devices

    def noted(self: gpu_workers.Workers, place: str, arguments: list[str]) -> Child:
        begun.append((place, gpu_workers.AHEAD in arguments))
        return start(self, place, arguments)

    monkeypatch.setattr(gpu_workers.Workers, "start", noted)
    monkeypatch.setattr(gpu_workers, "devices", lambda said, rung="": devices(said))  # Numba can do nothing with the stub
    plan = Plan(python=sys.executable, on_gpus={"smoke": ("--memory", "16MiB", "--no-numba")}, busy=True, benchmark=False)
    evidence = Collector(plan).collect()
    ahead = processors > 4
    assert begun == [("0", ahead), ("1", ahead), ("peers", False)][: 3 if tested else 2]
    kept = {item.id: (item.status, (item.stdout or "").count('"smoke"')) for item in evidence.items if item.id.startswith("smoke-")}
    assert {name: status for name, (status, _) in kept.items()} == {
        name: "ok" for name in (*(f"smoke-{gpu}" for gpu in tested), "smoke-peers") if tested
    }
    assert all(kept[f"smoke-{gpu}"][1] == 8 for gpu in tested)


@pytest.mark.parametrize(
    ("planted", "step", "words"),
    [
        ("reduce", "shared-memory reduction", r"kernel reduce: the sum of 1048576 numbers is \d+, \d+ is right"),
        ("add", "atomics", r"kernel add: element 0 is 257, 256 is right"),
        ("half", "FP16", r"kernel half: element 0 is 2\.0, 1\.0 is right"),
        ("mix", "repeat test", r"kernel mix: 40 runs of the same computation gave 2 checksums"),
        ("memory", "memory pattern", r"kernel verify, pattern address: element \d+ is 0x[0-9a-f]+, 0x[0-9a-f]+ is right"),
        ("write", "launch limits", r"kernel write\[8, 128\] of 1000 elements: element 500 is \d+, \d+ is right"),
    ],
)
def test_a_planted_fault_is_caught_and_named(run: Run, planted: str, step: str, words: str) -> None:
    events = run("smoke", "--gpu", "0", "--memory", "16MiB", FAKE_CUDA_WRONG=planted)
    bad = next(entry for entry in of(events, "smoke") if entry["status"] == "fail")
    assert bad["step"] == step
    assert re.search(words, bad["why"])
    assert bad["why"].startswith(f"{step} on GPU 0: ")
    assert bad["why"].endswith("wrong again when repeated (2 of 2 times)")
    broken = work_of(events).rungs[-1]
    assert any(result.status == "fail" and "wrong again" in result.output for result in work_of(events).rungs), broken


def test_a_write_out_of_bounds_ends_the_steps_with_the_drivers_words(run: Run) -> None:
    events = run("smoke", "--gpu", "0", FAKE_CUDA_FAIL="cuStreamSynchronize=700")
    (bad,) = [entry for entry in of(events, "smoke") if entry["status"] == "fail"]
    assert "cuStreamSynchronize returned 700" in bad["why"]
    assert [entry["code"] for entry in of(events, "end") if entry["status"] == "fail"] == [700]


# ---------------------------------------------------------------- kernels
def test_what_the_faults_on_a_gpu_spoil_stands_in_a_kernel() -> None:
    """tests/faults/meddle.c replaces words of PTX: where a kernel is written otherwise, it would replace nothing."""
    bench_ptx, smoke_ptx = load("bench_ptx"), load("smoke_ptx")
    kernels = [load("gpu_steps").ptx("sm_50"), *(body for _, body in {**bench_ptx.MODULES, **smoke_ptx.MODULES}.values())]
    faults = (Path(__file__).parent / "faults" / "test_gpu_faults.py").read_text("utf-8")
    spoiled = re.findall(r'MEDDLE_PTX="([^"]+?)=>', faults)
    assert spoiled
    assert [words for words in spoiled if not any(words in kernel for kernel in kernels)] == []


def test_the_kernels_compile_for_every_family_that_a_compiler_knows(tmp_path: Path) -> None:
    ptxas = shutil.which("ptxas")
    if ptxas is None:
        pytest.skip("no ptxas")
    bench_ptx, smoke_ptx = load("bench_ptx"), load("smoke_ptx")
    modules = {**bench_ptx.MODULES, **smoke_ptx.MODULES}
    for name, ((version, oldest, needed), kernels) in modules.items():
        source = tmp_path / f"{name}.ptx"
        source.write_text(bench_ptx.head(version, oldest) + kernels, encoding="ascii")
        for target in ("sm_75", "sm_80", "sm_90", "sm_120"):
            number = int(target[3:])
            if (number // 10, number % 10) < needed:
                continue
            done = subprocess.run([ptxas, f"-arch={target}", str(source), "-o", os.devnull], capture_output=True, text=True, check=False)
            assert done.returncode == 0 or "is not defined for option" in done.stderr, f"{name} for {target}: {done.stderr}"


def test_the_factors_of_the_arithmetic_kernels_are_minus_one_and_the_same_number() -> None:
    factors = load("bench_compute").FACTORS
    assert (factors["fp32"][1:], factors["fp64"][1:]) == ((-1.0, 11.375), (-1.0, 11.375))
    import struct

    half = [struct.unpack("<e", struct.pack("<H", word & 0xFFFF))[0] for word in factors["fp16"][1:]]
    brain = [struct.unpack("<f", struct.pack("<I", (word & 0xFFFF) << 16))[0] for word in factors["bf16"][1:]]
    assert half == brain == [-1.0, 11.375]


def test_the_pattern_of_python_is_that_of_the_kernel_in_words() -> None:
    kernels = load("smoke_kernels")
    assert kernels.expected(3, 8, 0x1000, 63, 0) == 0x1018  # its own address
    assert kernels.expected(3, 8, 0x1000, 63, kernels.MASK) == 0x1018 ^ kernels.MASK
    values = {kernels.expected(index, kernels.GOLDEN, 1, 29, 0) for index in range(1000)}
    assert len(values) == 1000
    assert ctypes.sizeof(ctypes.c_uint64) == 8
