"""Many machines in Prometheus' text format, for a textfile collector or a push: who is well, why not, who is slow."""

from __future__ import annotations

from cudadoctor.knowledge.load import Knowledge
from cudadoctor.report.fleet_formats import Seen
from cudadoctor.report.prometheus import VERDICTS, Page


def render(seen: Seen, knowledge: Knowledge) -> str:
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
