"""Nodes of Kubernetes: pods that `cudadoctor hook kubernetes-job` or `kubernetes-daemonset` started have each printed a report.

kubectl lists the pods by a label and hands over their logs, as they end. What keeps a pod from running is why its node has no report.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Annotated, NamedTuple

import msgspec

from cudadoctor.sources.children import Child
from cudadoctor.sources.engines import INTERRUPTED, Answer, EngineError, Took, Work, answer, calling

CONTAINER = "cudadoctor"
_PATIENCE = 30  # seconds of one kubectl
_PAUSE = 2.0  # seconds between two looks at the pods
# Reasons for which the kubelet does not start a container before somebody changes something.
_STUCK = ("ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "CreateContainerConfigError", "CreateContainerError")


class _Reason(msgspec.Struct, rename="camel"):
    """Why a container waits or ended, or how a condition of a pod stands."""

    exit_code: int = 0
    status: str = ""
    reason: str = ""
    message: str = ""


class _State(msgspec.Struct):
    terminated: _Reason | None = None
    waiting: _Reason | None = None


class _Container(msgspec.Struct):
    name: str
    state: _State = msgspec.field(default_factory=_State)


class _Status(msgspec.Struct, rename="camel"):
    phase: str = ""
    reason: str = ""
    message: str = ""
    conditions: list[_Reason] = []
    init_container_statuses: list[_Container] = []
    container_statuses: list[_Container] = []


# What Kubernetes calls its objects (RFC 1123, subdomain names): no name is taken for an option.
_Label = Annotated[str, msgspec.Meta(pattern=r"\A[a-z0-9][a-z0-9.-]{0,252}\Z")]


class _Name(msgspec.Struct):
    name: _Label
    namespace: _Label = "default"


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str | None = None


class _Pod(msgspec.Struct):
    metadata: _Name
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)

    @property
    def node(self) -> str:
        """Its node's name; its own as long as it has none."""
        return self.spec.node_name or self.metadata.name

    @property
    def key(self) -> str:
        """What no other pod is called: a name is used again in another namespace."""
        return f"{self.metadata.namespace}/{self.metadata.name}"


class _Pods(msgspec.Struct):
    items: list[_Pod]


class Pods(NamedTuple):
    """The pods of a label. `kubectl`: the program with the user's options."""

    kubectl: tuple[str, ...]
    selector: str

    def listed(self) -> list[_Pod]:
        words = [*self.kubectl, "get", "pods", f"--selector={self.selector}", "--output=json"]
        listed = calling.said(words, _PATIENCE, "kubectl lists no pods")
        try:
            return msgspec.json.decode(listed, type=_Pods).items
        except msgspec.MsgspecError as error:
            raise EngineError(f"kubectl lists no pods: {error}") from error

    def log(self, pod: _Pod) -> list[str]:
        """The command that prints it."""
        name = pod.metadata
        return [*self.kubectl, "logs", f"--namespace={name.namespace}", f"--container={CONTAINER}", name.name]


def nodes(selector: str, options: str | None) -> tuple[Pods, list[str]]:
    """The pods of this label, and their nodes. `options`: kubectl's own. EngineError where there are none."""
    pods = Pods((calling.path_of("kubectl"), *calling.words_of(options or "")), selector)
    there = pods.listed()
    if not there:
        raise EngineError(f"no pod has the label {selector}: cudadoctor hook kubernetes-daemonset prints what starts one on each GPU node")
    return pods, [pod.node for pod in there]


def ask(pods: Pods, work: Work, took: Took) -> None:
    """Each pod's report as it ends; what has not ended by the limit is named with what keeps it."""
    until = time.monotonic() + work.given_up_after
    left: dict[str, _Pod] = {}
    done: set[str] = set()

    def over(name: str, child: Child) -> None:
        done.add(name)
        took(_answer(left.pop(name), child))

    try:
        while True:
            left = {pod.key: pod for pod in pods.listed() if pod.key not in done}
            ended = {name: pods.log(pod) for name, pod in left.items() if _is_over(pod)}
            calling.side_by_side(ended, b"", _PATIENCE, work.fanout, over)
            if not left or time.monotonic() >= until:
                break
            time.sleep(_PAUSE)
    except (KeyboardInterrupt, EngineError) as error:
        for pod in left.values():
            took(Answer(pod.node, why=INTERRUPTED if isinstance(error, KeyboardInterrupt) else str(error)))
        if isinstance(error, KeyboardInterrupt):
            raise
        return
    for pod in left.values():
        took(Answer(pod.node, why=_kept(pod) or f"its pod is {pod.status.phase or 'unknown'} and printed no report"))


def _answer(pod: _Pod, child: Child) -> Answer:
    code = child.process.returncode if child.process is not None else None
    ended = _ended(pod)
    out, errors = (bytes(child.buffers[name]) for name in ("stdout", "stderr"))
    found = answer(pod.node, out, errors, code or (ended.exit_code if ended is not None else None))
    return found if found.report is not None else found._replace(why=_kept(pod) or found.why)


def _containers(pod: _Pod) -> Iterator[_Container]:
    yield from (one for one in (*pod.status.init_container_statuses, *pod.status.container_statuses) if one.name == CONTAINER)


def _ended(pod: _Pod) -> _Reason | None:
    return next((one.state.terminated for one in _containers(pod) if one.state.terminated is not None), None)


def _is_over(pod: _Pod) -> bool:
    """Whether the report was printed, or never will be."""
    stuck = any(one.state.waiting is not None and one.state.waiting.reason in _STUCK for one in _containers(pod))
    return stuck or _ended(pod) is not None or pod.status.phase in ("Succeeded", "Failed")


def _kept(pod: _Pod) -> str | None:
    """What kept the pod from printing a report, in Kubernetes' own words."""
    for one in _containers(pod):
        if one.state.waiting is not None and one.state.waiting.reason not in ("", "PodInitializing", "ContainerCreating"):
            return _said("its pod does not start", one.state.waiting.reason, one.state.waiting.message)
        if one.state.terminated is not None and one.state.terminated.reason not in ("", "Completed", "Error"):
            return _said("its pod was ended", one.state.terminated.reason, "")
    if pod.status.reason:
        return _said("its pod was ended", pod.status.reason, pod.status.message)
    waits = next((one for one in pod.status.conditions if one.status == "False" and one.reason == "Unschedulable"), None)
    return _said("its pod has no node", waits.reason, waits.message) if waits is not None else None


def _said(what: str, *words: str) -> str:
    return ": ".join(part for part in (what, *words) if part)[:300]
