"""What is made of figures: limits, verdicts, causes, the verdict of a slow machine, saved figures, and what a person reads. On recorded H200s."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from cudadoctor.checks import benchmark
from cudadoctor.commands import cli
from cudadoctor.judge.stages import judge
from cudadoctor.model.evidence import Evidence, Item
from cudadoctor.model.report import BenchmarkResult, Report
from cudadoctor.model.requirements import Requirements
from cudadoctor.model.values import CudaDevice, Guest, Ladder, LessonResult, Load, Measurement
from cudadoctor.model.version import ComputeCapability
from cudadoctor.report import bench_text, smoke_text
from cudadoctor.report.page import Style
from cudadoctor.sources import recording
from tests.judging import KNOWLEDGE, cause_of

HOSTS = Path(__file__).parent.parent / "fixtures" / "hosts"
HOPPER = ComputeCapability("9.0")


def evidence_of(name: str, **changed: Callable[[str], str]) -> Evidence:
    """A recorded host, the text of some items changed (`benchmark_0` stands for benchmark-0)."""
    evidence = recording.read(HOSTS / name)

    def change(item: Item) -> Item:
        how = changed.get(item.id.replace("-", "_"))
        return item if how is None else msgspec.structs.replace(item, stdout=how(item.stdout or ""))

    return msgspec.structs.replace(evidence, items=tuple(change(item) for item in evidence.items))


def report_of(name: str, **changed: Callable[[str], str]) -> Report:
    return judge(evidence_of(name, **changed), KNOWLEDGE, Requirements())


def with_figures(**values: Any) -> Callable[[str], str]:
    """The worker's lines with other fields for some figures: fp32={"value": 30.0}. A callable is given the run."""

    def change(text: str) -> str:
        lines = []
        for line in text.splitlines():
            entry = json.loads(line)
            fields = values.get(entry.get("name", ""), {}) if entry["event"] == "benchmark" else {}
            entry.update(fields(entry["run"]) if callable(fields) else fields)
            lines.append(json.dumps(entry))
        return "\n".join(lines) + "\n"

    return change


def figure(report: Report, name: str, gpu: int = 0) -> BenchmarkResult:
    return next(result for result in report.benchmark if (result.name, result.gpu, result.peer) == (name, gpu, None))


def measured(name: str = "fp32", value: float | None = 65.3, **more: Any) -> Measurement:
    known: dict[str, Any] = {"unit": "TFLOP/s", "sm_count": 132, "clock_mhz": 1980.0, "compute_capability": HOPPER, "spread": 0.001}
    return Measurement(gpu=0, name=name, value=value, **{**known, **more})


def verdict_of(measurement: Measurement, *guests: Guest) -> str:
    return benchmark.assess(measurement, KNOWLEDGE, Ladder(guests=guests)).verdict


# ---------------------------------------------------------------- recorded machines
@pytest.mark.parametrize("host", ["h200-bench", "h200x2-bench"])
def test_a_healthy_h200_is_near_what_it_can_do(host: str) -> None:
    report = report_of(host)
    judged = [result for result in report.benchmark if result.verdict != "cannot judge"]
    assert len(judged) >= 11
    assert all(result.verdict == "ok" for result in judged)
    assert (report.verdict, report.diagnosis.root) == ("healthy", None)
    for name, least in (("fp32", 0.95), ("fp64", 0.95), ("d2d", 0.87), ("d2d_kernel", 0.87), ("device_read", 0.94), ("h2d_pinned", 0.85)):
        assert (figure(report, name).share or 0.0) >= least, name
    assert figure(report, "fp32").limit_from == "132 SMs x 128 lanes x 2 x 1980 MHz, measured under this load"
    assert figure(report, "d2d").limit_from == "2 x 3201 MHz memory clock x 6016 bit"
    assert figure(report, "h2d_pinned").limit_from == "PCIe 5.0 x16: the card's maximum"
    assert len(figure(report, "fp32").runs) == 2


def test_two_gpus_have_a_matrix() -> None:
    report = report_of("h200x2-bench")
    between = {(result.name, result.gpu, result.peer): result for result in report.benchmark if result.peer is not None}
    assert set(between) == {("peer", 0, 1), ("peer", 1, 0), ("peer_both", 0, 1), ("peer_latency", 0, 1), ("peer_latency", 1, 0)}
    assert between["peer", 0, 1].value == pytest.approx(394.7, abs=0.2)
    text = bench_text.render(report, KNOWLEDGE, Style(width=100, ascii=True))
    assert "  GPU 0         -    394.7" in text
    assert "GPU 1  NVIDIA H200  0000:00:07.0" in text
    assert text.isascii()


def test_a_guest_measures_nothing() -> None:
    report = report_of("h200-in-use")
    row = next(row for row in report.checks if row.id == "benchmark")
    assert (row.status, row.because) == ("skip", "GPU 0 is in use by PID 1274; --busy measures anyway")
    assert report.benchmark == ()
    assert next(row.status for row in report.checks if row.id == "smoke") == "pass"


def test_the_smoke_test_tells_what_it_did() -> None:
    report = report_of("h200-smoke")
    assert smoke_text.passed(report)
    said = {result.step: result.said for result in report.smoke}
    assert said["memory pattern"] == "256 MiB, 4 patterns"
    assert said["cooperative groups"] == "132 blocks met"
    text = smoke_text.steps(report, Style(width=100))
    assert "What a timer measures (microseconds)" in text
    assert "elements the CPU is faster: copying takes longer than computing." in " ".join(text.split())


# ---------------------------------------------------------------- verdicts
@pytest.mark.parametrize(("source", "words"), [("battery", "its battery"), ("undersized", "a power supply that is too small for it")])
def test_a_laptop_that_saves_power_is_not_slow(source: Any, words: str) -> None:
    result = benchmark.assess(measured(value=40.0, load=Load(power_source=source)), KNOWLEDGE)
    assert (result.verdict, result.why) == ("cannot judge", f"slow, while the machine runs on {words}")
    assert verdict_of(measured(value=65.3, load=Load(power_source=source))) == "ok"


def test_a_mig_slice_is_not_judged_by_the_limit_of_the_whole_gpu() -> None:
    def verdict(uuid: str) -> str:
        return benchmark.assess(measured(value=20.0), KNOWLEDGE, Ladder(devices=(CudaDevice(index=0, uuid=uuid),))).verdict

    assert verdict("GPU-0") == "slow"
    assert verdict("MIG-0") == "cannot judge"


def test_a_figure_is_judged_by_the_clock_measured_with_it() -> None:
    assert verdict_of(measured(value=65.3)) == "ok"
    assert verdict_of(measured(value=40.0)) == "slow"
    assert verdict_of(measured(value=40.0, load=Load(power_source="ac"))) == "slow"
    assert verdict_of(measured(value=40.0, clock_mhz=1250.0)) == "ok"  # held clocks are another matter: they have a cause of their own


def test_fp64_goes_by_the_ratio_that_the_driver_states() -> None:
    board = benchmark.assess(measured("fp64", 1.0, single_to_double=64), KNOWLEDGE)
    assert (board.limit, board.verdict) == (pytest.approx(1.045, abs=0.001), "ok")


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"runs": (65.0, 40.0)}, "slow in one of 2 runs"),
        ({"spread": 0.3}, "noisy: the samples differ by 30%"),
        ({"distorted": ("CUDA_LAUNCH_BLOCKING",)}, "CUDA_LAUNCH_BLOCKING set"),
        ({"clock_mhz": None}, "the clock under load is not known"),
        (
            {"compute_capability": ComputeCapability("99.0")},
            "what a multiprocessor of compute capability 99.0 does in a cycle is not known",
        ),
        ({"value": 400.0}, "the limit cannot be right"),
        ({"value": None, "why": "CUDA_ERROR_OUT_OF_MEMORY"}, "CUDA_ERROR_OUT_OF_MEMORY"),
    ],
)
def test_what_cannot_be_judged_is_never_slow(changes: dict[str, Any], why: str) -> None:
    result = benchmark.assess(measured(**{"value": 40.0, **changes}), KNOWLEDGE)
    assert result.verdict == "cannot judge"
    assert why in (result.why or "")


def test_a_figure_on_a_gpu_in_use_is_good_or_open() -> None:
    guest = Guest(gpu=0, pids=(4242,))
    assert verdict_of(measured(value=65.0), guest) == "ok"
    assert verdict_of(measured(value=40.0), guest) == "cannot judge"
    assert verdict_of(measured(value=40.0), Guest(gpu=1, pids=(4242,))) == "slow"


def test_copies_between_gpus_go_by_their_links() -> None:
    between = {"unit": "GB/s", "peer": 1, "links": 18, "limit_from": "NVLink"}
    good = benchmark.assess(measured("peer", 394.7, **between), KNOWLEDGE)
    assert (good.verdict, good.limit, good.limit_from) == ("ok", pytest.approx(478.1, abs=0.1), "18 NVLinks x 26.562 GB/s")
    assert benchmark.assess(measured("peer_both", 780.0, **between), KNOWLEDGE).verdict == "ok"
    assert verdict_of(measured("peer", 200.0, **between)) == "slow"
    assert verdict_of(measured("peer", 200.0, **{**between, "compute_capability": ComputeCapability("8.0")})) == "cannot judge"


# ---------------------------------------------------------------- slow machines
def test_slow_in_every_run_is_degraded_without_a_root() -> None:
    report = report_of("h200-bench", benchmark_0=with_figures(d2d={"value": 2000.0}))
    assert (report.verdict, report.diagnosis.root, report.exit_code) == ("degraded", None, 0)
    assert figure(report, "d2d").verdict == "slow"
    assert next(row.status for row in report.checks if row.id == "benchmark") == "warn"
    assert {cause for ask in report.diagnosis.ask for cause in ask.tells_apart} == {"row-remap-needed", "thermal-or-power-throttling"}
    assert "device memory (read + written) is slow on GPU 0" in report.diagnosis.ask[0].why
    text = bench_text.render(report, KNOWLEDGE, Style(width=100))
    assert "figures of the benchmark are slow in every run" in text


def test_slow_in_one_run_is_open() -> None:
    report = report_of("h200-bench", benchmark_0=with_figures(d2d=lambda run: {"value": 2000.0} if run == 2 else {}))
    assert (report.verdict, figure(report, "d2d").verdict) == ("healthy", "ok")  # the better run counts
    assert len(figure(report, "d2d").runs) == 2


def test_clocks_that_the_hardware_held_under_load_are_the_cause() -> None:
    held = {
        "value": 30.0,
        "clock_mhz": 900.0,
        "load": {"sm_clock_mhz": 900, "sm_clock_max_mhz": 1980, "temperature_c": 91, "reasons": ["hw-thermal-slowdown"]},
    }
    report = report_of("h200-bench", benchmark_0=with_figures(fp32=held))
    root = report.diagnosis.root
    assert root is not None
    assert (report.verdict, root.cause, root.subject) == ("degraded", "thermal-or-power-throttling", "gpu:0000:00:06.0")
    assert "hw-thermal-slowdown, 900 of 1980 MHz, 91 C" in root.evidence[0].text


@pytest.mark.parametrize(("reason", "verdict"), [("hw-power-brake-slowdown", "healthy"), ("hw-thermal-slowdown", "degraded")])
def test_on_battery_heat_alone_is_a_cause(reason: str, verdict: str) -> None:
    load_ = msgspec.to_builtins(Load(sm_clock_mhz=900, sm_clock_max_mhz=1980, power_source="battery", reasons=(reason,)))
    assert report_of("h200-bench", benchmark_0=with_figures(fp32={"value": 30.0, "load": load_})).verdict == verdict


def test_a_power_limit_of_software_is_no_fault() -> None:
    load_ = {"load": msgspec.to_builtins(Load(sm_clock_mhz=1700, reasons=("sw-power-cap",)))}
    assert report_of("h200-bench", benchmark_0=with_figures(fp32=load_)).verdict == "healthy"


def test_a_link_that_is_narrow_while_it_copies_is_the_cause() -> None:
    narrow = {"value": 13.0, "why": "link while copying: PCIe 5.0 x4"}
    assert cause_of(report_of("h200-bench", benchmark_0=with_figures(h2d_pinned=narrow, d2h_pinned=narrow))) == "pcie-link-degraded"


# ---------------------------------------------------------------- faults
def failed(rung: str, output: str, code: int | None = None) -> Callable[[str], str]:
    begin = json.dumps({"event": "begin", "step": rung, "gpu": 0})
    end = json.dumps({"event": "end", "step": rung, "gpu": 0, "status": "fail", "code": code, "output": output, "why": None})
    return lambda text: text.replace('{"event": "done"}', f'{begin}\n{end}\n{{"event": "done"}}')


def test_a_wrong_result_is_the_gpus_fault() -> None:
    words = (
        "memory pattern on GPU 0: kernel verify, pattern address: element 7 is 0x1, 0x0 is right; wrong again when repeated (2 of 2 times)"
    )
    for host, item in (("h200-smoke", "smoke_0"), ("h200-bench", "benchmark_0")):
        assert cause_of(report_of(host, **{item: failed("memory", words)})) == "gpu-computes-wrong"


def test_an_illegal_address_is_a_memory_fault() -> None:
    words = "load on GPU 0: cuStreamSynchronize returned 700 (CUDA_ERROR_ILLEGAL_ADDRESS): an illegal memory access was encountered"
    report = report_of("h200-smoke", smoke_0=failed("ptx-kernel", words, 700))
    found = [finding.cause for finding in (report.diagnosis.root, *report.diagnosis.suspects) if finding is not None]
    assert "program-memory-fault" in found
    assert report.verdict != "healthy"


# ---------------------------------------------------------------- saved figures
def run(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(cli.cli, ["bench", "--replay", str(HOSTS / "h200-bench"), *arguments])
    return done.exit_code, done.output


def test_figures_are_kept_and_compared(tmp_path: Path) -> None:
    kept = tmp_path / "good-day.json"
    assert run("--save", str(kept))[0] == 0
    code, text = run("--against", str(kept))
    assert code == 0
    assert "+0.0% against" in text
    assert "Worse than" not in text


def test_what_fell_behind_is_told_and_strict_exits_with_1(tmp_path: Path) -> None:
    kept = tmp_path / "good-day.json"
    run("--save", str(kept))
    body = json.loads(kept.read_text())
    for one in body["benchmark"]:
        one["value"] = one["value"] * (0.5 if one["name"] == "memory_latency" else 1.2 if one["name"] == "fp32" else 1.0)
    kept.write_text(json.dumps(body))
    code, text = run("--against", str(kept))
    assert code == 0
    assert "Worse than in good-day.json: FP32 multiply-add on GPU 0" in " ".join(text.split())
    assert "device memory, one dependent load on GPU 0" in " ".join(text.split())
    assert run("--against", str(kept), "--strict")[0] == 1


def test_figures_of_another_gpu_are_not_compared(tmp_path: Path) -> None:
    kept = tmp_path / "other.json"
    run("--save", str(kept))
    body = json.loads(kept.read_text())
    body["gpus"] = [{**gpu, "uuid": "GPU-of-another", "name": "NVIDIA L4"} for gpu in body["gpus"]]
    kept.write_text(json.dumps(body))
    code, text = run("--against", str(kept))
    assert code == 0
    assert "holds no figures of these GPUs, but of NVIDIA L4" in " ".join(text.split())


@pytest.mark.parametrize(
    "content",
    ["", "{}", "[]", '{"benchmark": 3, "gpus": []}', '{"benchmark": [{"gpu": 0, "name": "fp32", "value": NaN}], "gpus": []}', "no json"],
)
def test_a_file_without_figures_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(content)
    code, text = run("--against", str(path))
    assert code == 2
    assert "no figures of" in text


def test_the_report_itself_can_be_compared_with(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    run("--output", f"json={path}", "--quiet")
    assert "+0.0% against" in run("--against", str(path))[1]


# ---------------------------------------------------------------- what a person reads
@pytest.mark.parametrize(("share", "filled"), [(0.0, 0), (0.5, 10), (1.0, 20), (3.0, 20)])
def test_a_bar_is_as_long_as_the_share(share: float, filled: int) -> None:
    assert bench_text.bar(share, ascii_only=True) == "#" * filled + "." * (20 - filled)
    assert len(bench_text.bar(None, ascii_only=False)) == 20


def lesson(cpu: float, gpu: float, elements: int) -> LessonResult:
    return LessonResult(gpu=0, step="exp", elements=elements, cpu_us=cpu, gpu_us=gpu, kernel_us=1.0, launch_us=1.0, first_us=9.0)


def test_the_break_even_is_between_the_sizes() -> None:
    rows = [lesson(1, 100, 1000), lesson(10, 110, 10_000), lesson(400, 200, 100_000)]
    assert smoke_text.break_even(rows) == "Below about 31,623 elements the CPU is faster: copying takes longer than computing."
    assert smoke_text.break_even(rows[2:]) == "Already at 100,000 elements the GPU is faster, copies included."
    assert smoke_text.break_even(rows[:2]) == "Up to 10,000 elements the CPU is faster: copying takes longer than computing."


@pytest.mark.parametrize(
    ("size", "good"), [("256MiB", True), ("90%", True), ("8 GiB", True), ("95%", False), ("0%", False), ("much", False), ("-1MiB", False)]
)
def test_the_memory_to_test(size: str, good: bool) -> None:
    done = CliRunner().invoke(cli.cli, ["smoke", "--memory", size, "--replay", str(HOSTS / "h200-smoke")])
    assert (done.exit_code != 2) == good, done.output


def test_a_gpu_behind_its_equals_is_told_whatever_the_limit() -> None:
    """Eight of one model: the fifth is 12 % slower in copies, and at a lower clock as fast in arithmetic as the others."""
    devices = tuple(CudaDevice(index=index, name="NVIDIA H100") for index in range(8))
    measured = [
        Measurement(gpu=gpu, name=name, value=value * (0.88 if gpu == 4 else 1 + gpu / 1000), unit="GB/s", clock_mhz=clock)
        for gpu in range(8)
        for name, value, clock in (("d2d", 3000.0, None), ("fp32", 60.0, 1980.0 * (0.88 if gpu == 4 else 1.0)))
    ]
    results = benchmark.assess_all(measured, Ladder(devices=devices), KNOWLEDGE)
    assert [(one.gpu, one.name) for one in results if one.behind is not None] == [(4, "d2d")]
    assert [one.behind for one in benchmark.assess_all(measured[:6], Ladder(devices=devices), KNOWLEDGE)] == [None] * 6  # three are too few


def _beside_equals(clock: float | None = None, limit_from: str | None = None, value: float = 56.0) -> list[int]:
    """Which of eight equal GPUs are behind in a figure, where the fifth has this value, clock and link and the others 60 at 1,980 MHz."""
    devices = tuple(CudaDevice(index=index, name="NVIDIA H100") for index in range(8))
    measured = [
        Measurement(
            gpu=gpu, name="fp32", value=60.0 + gpu / 100, unit="TFLOP/s", clock_mhz=1980.0, limit=70.0, limit_from="PCIe 5.0 x16: 63 GB/s"
        )
        for gpu in range(8)
    ]
    measured[4] = msgspec.structs.replace(measured[4], value=value, clock_mhz=clock, limit_from=limit_from or measured[4].limit_from)
    results = benchmark.assess_all(measured, Ladder(devices=devices), KNOWLEDGE)
    return [one.gpu for one in results if one.behind is not None]


def test_equal_gpus_are_compared_at_one_clock_or_as_they_are() -> None:
    """Where the clock of one was not measured nobody's is used: neither is that one fast for it, nor the others."""
    assert _beside_equals(clock=1980.0) == [4]
    assert _beside_equals(clock=1980.0 * 56 / 60) == [], "at its clock it is as fast"
    assert _beside_equals(clock=None) == [4]
    assert _beside_equals(clock=None, value=60.0) == []


def test_gpus_on_another_link_are_no_equals() -> None:
    assert _beside_equals(clock=1980.0, limit_from="PCIe 4.0 x8: 15.8 GB/s") == []
