"""The report, and the picture of many machines, in Prometheus' text format: for the textfile collector of node_exporter, or a push.

Values are in base units: bytes, seconds, ratios.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.findings import Finding
from cudadoctor.model.report import BenchmarkResult, Report
from cudadoctor.report.clean import one_line
from cudadoctor.report.formats import Seen

VERDICTS = ("healthy", "degraded", "broken", "undecided")
STATUSES = ("pass", "warn", "fail", "unknown", "skip")
_FACTORS = {"GB/s": 1e9, "TFLOP/s": 1e12, "Gop/s": 1e9, "ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
_METRICS = {
    "GB/s": ("cudadoctor_benchmark_bytes_per_second", "A rate that the benchmark measured."),
    "TFLOP/s": ("cudadoctor_benchmark_flops", "Floating-point operations per second that the benchmark measured."),
    "Gop/s": ("cudadoctor_benchmark_operations_per_second", "Operations per second that the benchmark measured."),
    **dict.fromkeys(("ns", "us", "ms", "s"), ("cudadoctor_benchmark_seconds", "A time that the benchmark measured.")),
}
Labels = Mapping[str, str]


class Page:
    """Metrics in order, each once; a series that comes twice keeps its first value, for the collector refuses the file otherwise."""

    def __init__(self) -> None:
        self._metrics: dict[str, tuple[str, dict[str, float]]] = {}

    def add(self, name: str, meaning: str, value: float, labels: Labels | None = None) -> None:
        inner = ",".join(f'{key}="{_label(text)}"' for key, text in (labels or {}).items())
        self._metrics.setdefault(name, (meaning, {}))[1].setdefault(f"{{{inner}}}" if inner else "", value)

    def text(self) -> str:
        return "".join(f"{line}\n" for line in self._lines())

    def _lines(self) -> Iterator[str]:
        for name, (meaning, series) in self._metrics.items():
            yield f"# HELP {name} {meaning}"
            yield f"# TYPE {name} gauge"
            for labels, value in series.items():
                yield f"{name}{labels} {value:.15g}"


def _label(text: str) -> str:
    return one_line(text).replace("\\", "\\\\").replace('"', '\\"')


def render(report: Report, knowledge: Knowledge) -> str:
    page = Page()
    page.add("cudadoctor_info", "The program that wrote this.", 1, {"version": report.tool.version})
    for verdict in VERDICTS:
        page.add("cudadoctor_verdict", "1 for the verdict of this run.", report.verdict == verdict, {"verdict": verdict})
    page.add("cudadoctor_exit_code", "The exit code of this run.", report.exit_code)
    page.add("cudadoctor_crashes", "Parts of cudadoctor that failed in this run.", len(report.diagnosis.crashes))
    _findings(page, report)
    for row in report.checks:
        for status in STATUSES:
            page.add("cudadoctor_row", "1 for the status of a row.", row.status == status, {"row": row.id, "status": status})
    for result in report.requirements:
        meaning = "Whether a requirement is met; 0 where it is not known either."
        page.add("cudadoctor_requirement_met", meaning, result.met is True, {"requirement": result.text})
    _gpus(page, report)
    for figure in report.benchmark:
        _figure(page, figure)
    if report.timing.total_s is not None:
        page.add("cudadoctor_run_seconds", "How long this run took.", report.timing.total_s)
    return page.text()


def _findings(page: Page, report: Report) -> None:
    diagnosis = report.diagnosis
    roles: tuple[tuple[str, tuple[Finding, ...]], ...] = (
        ("root", (diagnosis.root,) if diagnosis.root is not None else ()),
        ("explained", diagnosis.explains),
        ("also", diagnosis.also),
        ("suspected", diagnosis.suspects),
    )
    for role, findings in roles:
        for finding in findings:
            labels = {"cause": finding.cause, "subject": finding.subject, "effect": finding.effect}
            labels["role"] = "expected" if finding.ignored is not None else role
            page.add("cudadoctor_finding", "1 for each finding, by cause and role.", 1, labels)


def _gpus(page: Page, report: Report) -> None:
    for place, gpu in enumerate(report.machine.gpus):
        where = gpu.address or gpu.uuid or str(gpu.index if gpu.index is not None else place)
        known = {"address": where, "uuid": gpu.uuid, "name": gpu.name, "architecture": gpu.architecture}
        labels = {**known, "compute_capability": gpu.compute_capability}
        page.add("cudadoctor_gpu_info", "1 for each GPU.", 1, {key: text or "" for key, text in labels.items()})
        if gpu.visible is not None:
            page.add("cudadoctor_gpu_visible", "Whether CUDA shows the GPU.", gpu.visible, {"address": where})
        if gpu.memory_bytes is not None:
            page.add("cudadoctor_gpu_memory_bytes", "Memory of the GPU.", gpu.memory_bytes, {"address": where})


def _figure(page: Page, figure: BenchmarkResult) -> None:
    if figure.value is None or figure.unit not in _METRICS:
        return
    name, meaning = _METRICS[figure.unit]
    labels = {"gpu": str(figure.gpu), "figure": figure.name, **({"peer": str(figure.peer)} if figure.peer is not None else {})}
    page.add(name, meaning, figure.value * _FACTORS[figure.unit], labels)
    if figure.share is not None:
        page.add("cudadoctor_benchmark_limit_ratio", "A figure's share of what the hardware can do.", figure.share, labels)


def render_fleet(seen: Seen, knowledge: Knowledge) -> str:
    """Who is well, why not, who is slow."""
    fleet, page = seen.fleet, Page()
    for verdict in VERDICTS:
        page.add("cudadoctor_fleet_nodes", "Nodes by verdict.", fleet.verdicts.get(verdict, 0), {"verdict": verdict})
    page.add("cudadoctor_fleet_missing", "Nodes and files that gave no report.", len(fleet.missing))
    page.add("cudadoctor_fleet_exit_code", "The exit code of this run.", fleet.exit_code)
    for node in seen.nodes:
        labels = {"node": node.name, "verdict": node.verdict, "cause": node.cause or ""}
        page.add("cudadoctor_node_ok", "1 for a node that is healthy, 0 for any other.", node.verdict == "healthy", labels)
    for one in fleet.missing:
        page.add("cudadoctor_node_missing", "1 for each node or file without a report.", 1, {"node": one.source})
    for slow in fleet.stragglers:
        labels = {"node": slow.node, "gpu": str(slow.gpu), "figure": slow.figure, "against": slow.against}
        meaning = "By which share of the usual figure a GPU is slower; GPUs that are not slow have none."
        page.add("cudadoctor_gpu_behind_ratio", meaning, slow.behind, labels)
    for demand in fleet.demands:
        labels = {"requirement": demand.text, "met": "unknown" if demand.met is None else "no"}
        page.add("cudadoctor_fleet_unmet_nodes", "Nodes that do not meet a requirement.", len(demand.nodes), labels)
    for drift in fleet.drift:
        odd = sum(len(one.nodes) for one in drift.odd)
        page.add("cudadoctor_fleet_drift_nodes", "Nodes whose setting is not the usual one.", odd, {"setting": drift.setting})
    return page.text()
