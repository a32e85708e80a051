"""What the must-gather of NVIDIA's GPU operator collects: a bug report of each node with a running driver, and the logs of its pods.

One node is one machine. The logs and descriptions of its pods that are not ready are read as a text, which shows what failed and clears
nothing. Where a node has no bug report (its driver pod does not run) they are all that speaks of it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from itertools import islice

import msgspec

from cudadoctor.model.evidence import Evidence, Item
from cudadoctor.sources.bundles import bug_report, items
from cudadoctor.sources.bundles.packed import MIB, Allowance, BundleError, TooMuchError
from cudadoctor.sources.bundles.unpacking import expanded, in_short
from cudadoctor.sources.decoding import NARROWED

NAME = "GPU operator must-gather"
_REPORT = re.compile(r"(?:^|/)nvidia-bug-report(?:[_-](?P<node>[\w.-]+?))?\.log(?:\.gz)?$")
_POD = re.compile(r"(?:^|/)gpu_operand_pod_(?P<pod>[\w.-]+?)\.(?P<kind>log|previous\.log|descr)$")
_USAGE = re.compile(r"(?:^|/)gpu_device_usage_(?P<node>[\w.-]+)\.log$")
_NODES = re.compile(r"(?:^|/)gpu_nodes\.status$")
_NODE_LINE = re.compile(r"^(?P<node>[a-z0-9][a-z0-9.-]{0,252}) .*$", re.MULTILINE)
_MARKS = ("gpu_operand_pods.", "cluster_policy.", "gpu_operator_pod.", "gpu_nodes.")
_NODE = re.compile(r"^Node:\s+(?P<node>[\w.-]+?)(?:/\S*)?$", re.MULTILINE)
_NOT_READY = re.compile(
    r"^[ \t]{1,40}(?:Ready:\s{1,40}False|Reason:\s{1,40}(?:CrashLoopBackOff|Error|ImagePullBackOff|ErrImagePull))", re.MULTILINE
)
_FAILS = re.compile(  # now, not at its last start
    r"^[ \t]{1,40}State:[^\n]{0,80}\n[ \t]{1,40}Reason:\s{1,40}(?:CrashLoopBackOff|Error|ImagePullBackOff|ErrImagePull)", re.MULTILINE
)
_POD_LIMIT = 1 << 20  # bytes kept of the end of one pod's log, and of the beginning of its description
_TABLE_FROM, _TABLE_TO = "# nvidia-smi output", "\n# lsof"
MOST_NODES = 128
_IN_FULL = 32 * MIB  # of them in which letters of other scripts are read: one makes all of its report four times as large in memory
MOST_UNPACKED = 512 * MIB  # bytes of all bug reports


def is_gather(names: list[str]) -> bool:
    return any(mark in name.rpartition("/")[2] for name in names for mark in _MARKS)


def wanted(name: str) -> bool:
    return any(pattern.search(name) for pattern in (_REPORT, _POD, _USAGE, _NODES))


def is_bug_report(name: str) -> bool:
    return _REPORT.search(name) is not None


def evidence(members: Mapping[str, bytes], allowance: Allowance, said: list[str]) -> tuple[Evidence, ...]:
    """One piece of evidence for each node, in the order of their names. What could not be read is added to what is `said`."""
    reports = dict(islice(_reports(members, allowance, said), MOST_NODES))
    pods = _pods(members, reports)
    usage = {match["node"]: items.text_of(content) for name, content in members.items() if (match := _USAGE.search(name))}
    known = {node.partition(".")[0] for node in (*reports, *pods)}
    listed = {node: line for node, line in _listed(members) if node.partition(".")[0] not in known}
    nodes = sorted({*reports, *pods, *listed})
    count = max(len(nodes), sum(map(is_bug_report, members)))
    if count > MOST_NODES:
        said.append(f"{count} nodes are in it; the first {MOST_NODES} by name were read.")
        nodes = nodes[:MOST_NODES]
    remarks = in_short(said)
    said_of = {**listed, **pods}
    return tuple(_of_node(node, reports.get(node), said_of.get(node, ""), usage.get(node), remarks) for node in nodes)


def _reports(members: Mapping[str, bytes], allowance: Allowance, said: list[str]) -> Iterator[tuple[str, Evidence]]:
    """Node -> its bug report. One after another: unpacked, they are far larger than what is kept of each."""
    allowance.no_more_than(MOST_UNPACKED)
    read = 0
    for name, content in sorted(members.items()):
        match = _REPORT.search(name)
        if match is None:
            continue
        node = match["node"] or name.rpartition("/")[0] or "the node"
        try:
            plain, cut = expanded(content, allowance)
        except TooMuchError as error:
            said.append(f"{name}: {error}, nor were the reports after it.")
            return
        except BundleError as error:
            said.append(f"{name}: {error}.")
            continue
        said += [f"{name}: {remark}" for remark in cut]
        read += len(plain)
        if bug_report.is_report(plain):
            yield node, bug_report.evidence(plain, (), node, NARROWED if read < _IN_FULL else 0)
        else:
            said.append(f"{name} is no bug report of NVIDIA's; not read.")


def _listed(members: Mapping[str, bytes]) -> Iterator[tuple[str, str]]:
    """Each node with a GPU that the cluster lists, with its line."""
    for name in filter(_NODES.search, members):
        head, _, rows = items.text_of(members[name]).lstrip().partition("\n")
        if head.startswith("NAME "):
            yield from ((match["node"], match[0]) for match in _NODE_LINE.finditer(rows))


def _pods(members: Mapping[str, bytes], reports: Collection[str]) -> dict[str, str]:
    """Node -> what the pods that are not ready there say, the driver's first, for the others wait for it. Beside a report only those that
    fail now: one that waited at the last start is well."""
    by_pod: dict[str, dict[str, str]] = {}
    for name, content in members.items():
        match = _POD.search(name)
        if match is not None:
            part = content[:_POD_LIMIT] if match["kind"] == "descr" else content[-_POD_LIMIT:]
            by_pod.setdefault(match["pod"], {})[match["kind"]] = items.text_of(part)
    by_node: dict[str, list[str]] = {}
    for pod in sorted(by_pod, key=lambda pod: ("driver" not in pod, pod)):
        node = _NODE.search(by_pod[pod].get("descr", ""))
        if node is None or (_FAILS if node["node"] in reports else _NOT_READY).search(by_pod[pod].get("descr", "")) is None:
            continue
        logs = [by_pod[pod][kind] for kind in ("previous.log", "log", "descr") if by_pod[pod].get(kind, "").strip()]
        by_node.setdefault(node["node"], []).append(f"# pod {pod}\n" + "\n".join(logs))
    return {node: "\n".join(texts) for node, texts in by_node.items()}


def _of_node(node: str, report: Evidence | None, said: str, usage: str | None, remarks: tuple[str, ...]) -> Evidence:
    """`said`: by its pods that are not ready, else by the cluster of the node."""
    if report is None:
        text = items.beside(said)
        why = f"Node {node} has no bug report in the bundle; only the cluster and the logs of its pods speak of it."
        return Evidence(items=text, origin="text", platform="unknown", bundle=NAME, node=node, remarks=(*remarks, why))
    table = _table(usage) if usage is not None else None
    more = () if table is None or any(item.id == "nvidia-smi" for item in report.items) else (table,)
    of_tools = (*(item for item in report.items if item.kind != "text"), *more)
    beside = (*items.contradicting(of_tools, ()), *(item for item in report.items if item.kind == "text"))
    text = items.beside("\n".join((*dict.fromkeys(item.stdout or "" for item in beside), said)))
    return msgspec.structs.replace(report, items=(*of_tools, *text), bundle=NAME, remarks=(*remarks, *report.remarks))


def _table(usage: str) -> Item | None:
    """nvidia-smi's table, which the bug report has not: it lists the processes on the GPUs."""
    start = usage.find(_TABLE_FROM)
    body = usage[start:].partition("\n")[2].partition(_TABLE_TO)[0] if start >= 0 else ""
    return items.command("nvidia-smi", "nvidia-smi", text=body, status_failed="| NVIDIA-SMI" not in body) if body.strip() else None
