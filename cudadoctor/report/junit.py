"""The report as JUnit XML: one test case for each row, and one for each requirement; of many machines one for each node, and for each GPU
that is slower than its equals.

A row that failed is a failure; one that nobody could look at is skipped, for a requirement is the way to demand it. A requirement that is
not met, or that nobody can answer, is a failure. So is a broken node. Where the machine or a node is undecided, or gave no report, that is
an error, for nothing was tested there. What is degraded or slow fails under --strict alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape

from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.findings import Finding
from cudadoctor.model.fleet import Group, Node
from cudadoctor.model.pattern import lazy
from cudadoctor.model.report import Report, RequirementResult, Row
from cudadoctor.report import words
from cudadoctor.report.clean import clean, one_line
from cudadoctor.report.formats import Seen

_NOT_XML = lazy("[\ufffe\uffff]")  # what XML 1.0 refuses and `clean` leaves
_COUNTED = {"failures": "failure", "errors": "error", "skipped": "skipped"}


def render(report: Report, knowledge: Knowledge) -> str:
    suites = {"cudadoctor.rows": [_row(row, report, knowledge) for row in report.checks]}
    if report.verdict == "undecided":
        said = [f"{ask.command}: {ask.why}" for ask in report.diagnosis.ask]
        suites["cudadoctor.verdict"] = [_not_passed(_head("verdict", "verdict"), "error", words.headline(report), said, kind="undecided")]
    if report.requirements:
        suites["cudadoctor.requirements"] = [_requirement(result) for result in report.requirements]
    root = report.diagnosis.root
    properties = {
        "verdict": report.verdict, "cause": root.cause if root is not None else "", "action": report.action,
        "url": (root.url or "") if root is not None else "",
        "exit_code": str(report.exit_code), "version": report.tool.version,
    }  # fmt: skip
    return _document(suites, properties, report.timing.total_s or 0)


def _row(row: Row, report: Report, knowledge: Knowledge) -> str:
    head = _head("rows", row.id, report.timing.rows.get(row.id) or 0)
    own = _findings(row, report, knowledge)
    failed = row.status == "fail" or (row.status == "warn" and words.degraded_fails(report) and _is_root(own, report))
    if failed:
        first = own[0] if own else None
        message = first.named if first is not None else row.summary
        body = [row.summary, *words.quoted(row.evidence)]
        body += words.fix(report) if _is_root(own, report) else []
        body += [f"Page of this cause: {first.url}"] if first is not None and first.url else []
        return _not_passed(head, "failure", message, body, kind=first.cause if first is not None else row.id)
    if row.status in ("skip", "unknown"):
        why = f"{row.summary} (because: {row.because})" if row.because and row.because not in row.summary else row.summary
        return _not_passed(head, "skipped", why)
    return _passed(head, [row.summary, *words.quoted(row.evidence)])


def _findings(row: Row, report: Report, knowledge: Knowledge) -> list[Finding]:
    """The findings that a row shows, the root first."""
    diagnosis = report.diagnosis
    every = (*((diagnosis.root,) if diagnosis.root is not None else ()), *diagnosis.also, *diagnosis.suspects)
    counted = [finding for finding in every if finding.ignored is None and finding.effect != "advises"]
    return [finding for finding in counted if finding.cause in knowledge.causes and knowledge.cause(finding.cause).row == row.id]


def _is_root(findings: list[Finding], report: Report) -> bool:
    return report.diagnosis.root is not None and report.diagnosis.root in findings


def _requirement(result: RequirementResult) -> str:
    head, asked = _head("requirements", result.text), words.asked(result)
    if result.met:
        return _passed(head, [asked])
    return _not_passed(head, "failure", result.why or asked, [asked], kind="requirement")


# ---------------------------------------------------------------- many machines
def render_fleet(seen: Seen, knowledge: Knowledge) -> str:
    from cudadoctor.report import fleet_text  # draws by Rich: slow to import

    fleet = seen.fleet
    groups = {(group.verdict, group.cause): group for group in fleet.groups}
    nodes = [_node(node, groups[node.verdict, node.cause], strict=fleet.strict) for node in seen.nodes]
    nodes += [_not_passed(_head("nodes", one.source), "error", one.why, kind="no-report") for one in fleet.missing]
    suites = {"cudadoctor.nodes": nodes}
    if fleet.stragglers:
        suites["cudadoctor.figures"] = []
    for one in fleet.stragglers:
        head = _head("figures", f"{one.node} GPU {one.gpu} {one.figure}")
        said = fleet_text.slow(one, knowledge)
        slow = _not_passed(head, "failure", said, kind="slow") if fleet.strict else _passed(head, [said])
        suites["cudadoctor.figures"].append(slow)
    counts = {verdict: str(count) for verdict, count in fleet.verdicts.items()}
    return _document(suites, {**counts, "exit_code": str(fleet.exit_code)}, 0)


def _node(node: Node, group: Group, *, strict: bool) -> str:
    head = _head("nodes", node.name)
    said = [text for text in (node.line, f"Fix: {group.step}" if group.step else None, group.command, group.url) if text]
    message = f"{group.title} [{node.cause}]" if node.cause is not None else node.verdict
    if node.demands and node.verdict != "broken":
        unmet = [words.asked(one) for one in node.demands]
        return _not_passed(head, "failure", unmet[0], [*unmet, *said], kind="requirement")
    if node.verdict == "broken" or (strict and node.verdict == "degraded"):
        return _not_passed(head, "failure", message, said, kind=node.cause or node.verdict)
    if node.verdict == "undecided":
        return _not_passed(head, "error", message, said, kind=node.cause or node.verdict)
    return _passed(head, [message, *said])


# ---------------------------------------------------------------- XML: every word is cleaned and escaped here
def _document(suites: Mapping[str, Sequence[str]], properties: Mapping[str, str], seconds: float) -> str:
    """`suites`: the cases of each, by name; the first has the properties."""
    every = [one for cases in suites.values() for one in cases]
    inner = [_suite(name, cases, properties if number == 0 else {}) for number, (name, cases) in enumerate(suites.items())]
    head = f'<testsuites name="cudadoctor" {_counts(every)} time="{seconds:.3f}">\n'
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{head}{"".join(inner)}</testsuites>\n'


def _head(suite: str, name: str, seconds: float = 0.0) -> str:
    return f'classname="cudadoctor.{suite}" name="{_attribute(name)}" time="{seconds:.3f}"'


def _passed(of: str, said: Iterable[str]) -> str:
    return f"    <testcase {of}>\n      <system-out>{_body(said)}</system-out>\n    </testcase>\n"


def _not_passed(of: str, tag: str, message: str, said: Sequence[str] = (), *, kind: str = "") -> str:
    """`tag`: failure, error or skipped; `kind`: what a reader groups failures by."""
    named = f'{tag} type="{_attribute(kind)}"' if kind else tag
    inner = f'<{named} message="{_attribute(message)}"' + (f">{_body(said)}</{tag}>" if said else "/>")
    return f"    <testcase {of}>\n      {inner}\n    </testcase>\n"


def _suite(name: str, cases: Sequence[str], properties: Mapping[str, str]) -> str:
    entries = "".join(f'      <property name="{key}" value="{_attribute(value)}"/>\n' for key, value in properties.items())
    known = f"    <properties>\n{entries}    </properties>\n" if properties else ""
    return f'  <testsuite name="{name}" {_counts(cases)}>\n{known}{"".join(cases)}  </testsuite>\n'


def _counts(cases: Sequence[str]) -> str:
    numbers = {name: sum(f"<{tag} " in case for case in cases) for name, tag in _COUNTED.items()}
    return f'tests="{len(cases)}" ' + " ".join(f'{name}="{number}"' for name, number in numbers.items())


def _attribute(text: str) -> str:
    return _xml(one_line(text))


def _body(lines: Iterable[str]) -> str:
    return _xml(clean("\n".join(lines)))


def _xml(text: str) -> str:
    return escape(_NOT_XML.sub(lambda match: f"\\u{ord(match.group()):04x}", text), quote=True)
