"""Many machines as JUnit XML: one test case a node, and one for each GPU that is slower than its equals.

A broken node is a failure; one that is undecided or gave no report is an error, for nothing was tested. What is degraded or slow fails
under --strict alone.
"""

from __future__ import annotations

from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.fleet import Group, Node
from cudadoctor.report import fleet_text, junit_xml, words
from cudadoctor.report.fleet_formats import Seen


def render(seen: Seen, knowledge: Knowledge) -> str:
    fleet = seen.fleet
    groups = {(group.verdict, group.cause): group for group in fleet.groups}
    nodes = [_node(node, groups[node.verdict, node.cause], strict=fleet.strict) for node in seen.nodes]
    nodes += [junit_xml.not_passed(junit_xml.head("nodes", one.source), "error", one.why, kind="no-report") for one in fleet.missing]
    suites = {"cudadoctor.nodes": nodes}
    if fleet.stragglers:
        suites["cudadoctor.figures"] = []
    for one in fleet.stragglers:
        head = junit_xml.head("figures", f"{one.node} GPU {one.gpu} {one.figure}")
        said = fleet_text.slow(one, knowledge)
        slow = junit_xml.not_passed(head, "failure", said, kind="slow") if fleet.strict else junit_xml.passed(head, [said])
        suites["cudadoctor.figures"].append(slow)
    counts = {verdict: str(count) for verdict, count in fleet.verdicts.items()}
    return junit_xml.document(suites, {**counts, "exit_code": str(fleet.exit_code)}, 0)


def _node(node: Node, group: Group, *, strict: bool) -> str:
    head = junit_xml.head("nodes", node.name)
    said = [text for text in (node.line, f"Fix: {group.step}" if group.step else None, group.command, group.url) if text]
    message = f"{group.title} [{node.cause}]" if node.cause is not None else node.verdict
    if node.demands and node.verdict != "broken":
        unmet = [words.asked(one) for one in node.demands]
        return junit_xml.not_passed(head, "failure", unmet[0], [*unmet, *said], kind="requirement")
    if node.verdict == "broken" or (strict and node.verdict == "degraded"):
        return junit_xml.not_passed(head, "failure", message, said, kind=node.cause or node.verdict)
    if node.verdict == "undecided":
        return junit_xml.not_passed(head, "error", message, said, kind=node.cause or node.verdict)
    return junit_xml.passed(head, [message, *said])
