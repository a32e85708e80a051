"""Nodes that are asked: each one's silence has its line, and what came is whole. srun and ssh are stand-ins; tests/clusters has real ones."""

from __future__ import annotations

import base64
import datetime as dt
import functools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cudadoctor.commands import asking_nodes, policy_file
from cudadoctor.fleet import nodes
from cudadoctor.fleet.picture import each_once
from cudadoctor.model.fleet import Node
from cudadoctor.sources import collecting, engines
from cudadoctor.sources.engines import calling, distant, kubernetes
from tests.command_line import finished, host, run, start
from tests.nodes_answering import SICK, doctor
from tests.test_fleet import report

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the stand-ins are shell scripts")

# Takes srun's and ssh's arguments apart as far as the engine uses them, and runs the command here as that node.
_STAND_IN = """#!/bin/sh
case ${0##*/} in
  srun) for part; do
          shift
          case $part in --nodelist=*) NODE=${part#*=} ;; sh) set -- sh "$@"; break ;; esac
        done ;;
  ssh) while [ "${1#-}" != "$1" ]; do shift; done; NODE=$1; shift; set -- sh -c "$1" ;;
esac
export NODE
case $NODE in n9) echo "ssh: connect to host n9 port 22: No route to host" >&2; exit 255 ;; esac
exec "$@"
"""


SCRIPT = functools.cache(collecting.script)


@pytest.fixture(autouse=True)
def written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collecting, "script", SCRIPT)


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The doctor of the nodes; srun, ssh and sinfo stand first on PATH."""
    for name in ("srun", "ssh"):
        (tmp_path / name).write_text(_STAND_IN)
    (tmp_path / "sinfo").write_text("#!/bin/sh\necho 'n1|idle|none'; echo 'n1|idle|none'; echo 'n8|drained|bad fan'; echo 'n3|down*|x'\n")
    for name in ("srun", "ssh", "sinfo"):
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    monkeypatch.delenv("SLURM_JOB_NODELIST", raising=False)
    return doctor(tmp_path)


@pytest.mark.parametrize("engine", ["--slurm", "--ssh"])
def test_each_node_that_gave_nothing_is_named_and_the_others_are_right(
    engine: str, cluster: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(distant, "_PATIENCE", 1)
    monkeypatch.setattr(engines, "_GRACE", 0.5)
    kept = tmp_path / "kept"
    arguments = (engine, "n[1-7],n9", "--doctor", str(cluster), "--timeout", "2", "--save", str(kept), "--format", "json")
    ended = run("fleet", *arguments)
    found = json.loads(ended.out)
    why = {one["source"]: one["why"] for one in found["missing"]}
    assert sorted(why) == sorted((*SICK, "n9"))
    assert "time limit" in why["n2"]
    assert why["n3"].startswith("it was killed")
    assert why["n4"] == "no report came, exit code 0: Welcome"
    assert why["n5"] == "no report came, exit code 1: SyntaxError: invalid syntax"
    assert "No route to host" in why["n9"]
    assert "it is no report" in why["n7"]
    assert [node for group in found["groups"] for node in group["nodes"]] == ["n1", "n6"]
    assert sorted(path.name for path in kept.iterdir()) == ["n1.json", "n6.json"]
    assert ended.code == 3
    for name in ("n2", "n3"):
        assert f"{name}: " in ended.err  # said as it came


def test_more_nodes_than_a_number_counts_are_refused_in_words() -> None:
    with pytest.raises(engines.EngineError, match=r"^n\[1-9\]"):
        distant.names("n[1-9]" * 64)


def test_what_hangs_on_a_node_is_ended_there(cluster: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The node's own limit: what an engine's local end kills is its local end."""
    monkeypatch.setattr(engines, "_GRACE", 0.5)
    work = engines.Work(1, True, str(cluster), b"")
    began = time.monotonic()
    ended = subprocess.run(["sh", "-c", engines.program(work)], env={**os.environ, "NODE": "n2"}, check=False, capture_output=False)
    assert ended.returncode in (124, 137, -9)
    assert time.monotonic() - began < 10


def test_a_node_is_told_whether_to_measure_gpus_in_use() -> None:
    work = engines.Work(20, False, "cudadoctor", b"", busy=True)
    assert engines.program(work).count(" --busy") == 2  # the doctor's way, and the collector's
    assert " --busy" not in engines.program(work._replace(busy=False))


def test_nodes_are_handed_the_demands(cluster: Path, tmp_path: Path) -> None:
    """As a file of their own, for that of this machine is not there."""
    policy = tmp_path / "demands.toml"
    policy.write_text(
        """require = ["gpus>=2", "driver>='1'"]
[[ignore]]
cause = "toolkit-missing"
reason = "it's \\"wanted\\" here"
until = 2099-01-01
""".replace("'1'", "1")
    )
    seen = tmp_path / "seen"
    asks = tmp_path / "asks"
    asks.write_text(f'#!/bin/sh\nwhile [ "$1" != --policy ]; do shift; done\ncat "$2" >{seen}\nexec {cluster}\n')
    asks.chmod(0o755)
    assert json.loads(run("fleet", "--ssh", "n1", "--doctor", str(asks), "--policy", str(policy), "--format", "json").out)["nodes"] == 1
    own, again = (policy_file.gathered(str(path), (), ["toolkit-missing"]).policy for path in (policy, seen.rename(tmp_path / "seen.toml")))
    assert msgspec.structs.replace(again, source=own.source) == own


def test_who_is_slow_is_measured_again_before_it_is_blamed(cluster: Path, tmp_path: Path) -> None:
    """n2 is slow each time, n3 the first time alone; the others are asked once. Kept is each one's first report."""
    log = tmp_path / "log"
    asks = tmp_path / "asks"
    figures = {"body": json.loads((tmp_path / "report.json").read_text())}
    for name, share in (("good", 1.0), ("slow", 0.8)):
        body = json.loads(json.dumps(figures["body"]))
        for figure in body["benchmark"]:
            if figure["name"] == "d2d" and figure["value"] is not None:
                figure["value"] *= share
        (tmp_path / f"{name}.json").write_text(json.dumps(body))
    asks.write_text(
        f'#!/bin/sh\nbefore=$(grep -c "^$NODE$" {log})\necho $NODE >>{log}\n'
        f'case $NODE-$before in n2-*|n3-0) which=slow ;; *) which=good ;; esac\nsed "s/NAME/$NODE/g" {tmp_path}/$which.json\n'
    )
    asks.chmod(0o755)
    log.touch()
    ended = run("fleet", "--ssh", "n[1-8]", "--doctor", str(asks), "--save", str(tmp_path / "kept"), "--format", "json")
    assert sorted({one["node"] for one in json.loads(ended.out)["stragglers"]}) == ["n2"]
    assert sorted(log.read_text().split()) == sorted([f"n{number}" for number in range(1, 9)] + ["n2", "n3"])
    first, slow = (json.loads(path.read_text())["benchmark"] for path in (tmp_path / "kept" / "n3.json", tmp_path / "slow.json"))
    assert first == slow


def test_a_node_without_the_doctor_is_recorded_and_judged_here(cluster: Path, tmp_path: Path) -> None:
    """The collector comes by standard input; what it leaves in the node's temporary folder is nothing."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    work = engines.Work(20, True, "no-such-doctor", engines.packed(collecting.script()))
    variables = {**os.environ, "TMPDIR": str(scratch)}
    ended = subprocess.run(["sh", "-c", engines.program(work)], input=work.collector, env=variables, check=True, capture_output=True)
    answer = engines.answer("here", ended.stdout, ended.stderr, 0)
    assert answer.recording is not None
    assert base64.b64decode(ended.stdout) == answer.recording
    assert list(scratch.iterdir()) == []


def test_a_recording_that_an_engine_brought_is_judged(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import tarfile

    with tarfile.open(tmp_path / "r.tar.gz", "w:gz") as archive:
        archive.add(host("driver-not-loaded"), "recording")
    answers = [engines.Answer("n1", recording=(tmp_path / "r.tar.gz").read_bytes()), engines.Answer("n2", recording=b"\x1f\x8bno archive")]
    monkeypatch.setattr(distant, "srun", lambda nodes, own, work, took: [took(answer) for answer in answers])
    found = json.loads(run("fleet", "--slurm", "n[1-2]", "--format", "json").out)
    assert [group["cause"] for group in found["groups"]] == ["driver-not-loaded"]
    assert [one["source"] for one in found["missing"]] == ["n2"]


def test_an_answer_of_another_node_counts_for_that_node(cluster: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = (cluster.parent / "report.json").read_bytes().replace(b"NAME", b"n1")
    answers = [engines.Answer("n1", report=report), engines.Answer("n2", report=report)]
    monkeypatch.setattr(distant, "ssh", lambda nodes, own, work, took: [took(answer) for answer in answers])
    found = json.loads(run("fleet", "--ssh", "n[1-2]", "--format", "json").out)
    assert found["nodes"] == 1
    assert found["missing"] == [{"source": "n2", "why": "the answer that came is of n1"}]


def test_an_answer_for_which_was_waited_long_is_no_report_of_tomorrow(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Half an hour in Slurm's queue: the answer is newer than the saved report that it replaces."""

    class Clock(dt.datetime):
        late = dt.timedelta()

        @classmethod
        def now(cls, tz: dt.tzinfo | None = None) -> Any:
            return super().now(tz) + cls.late

    def srun(nodes: list[str], own: str, work: engines.Work, took: engines.Took) -> None:
        Clock.late = dt.timedelta(minutes=30)
        time = Clock.now(dt.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        took(engines.Answer("n1", report=report("h200x2-bench", "n1", time=time)))

    (tmp_path / "saved.json").write_bytes(report("driver-not-loaded", "n1"))
    monkeypatch.setattr(distant, "srun", srun)
    monkeypatch.setattr("datetime.datetime", Clock)
    found = json.loads(run("fleet", str(tmp_path), "--slurm", "n1", "--format", "json").out)
    assert (found["verdicts"], found["repeated"]) == ({"healthy": 1}, 1)


def test_nodes_that_slurm_gives_to_nobody_are_named_with_its_reason(cluster: Path) -> None:
    found = json.loads(run("fleet", "--slurm", "all", "--doctor", str(cluster), "--format", "json").out)
    assert {one["source"]: one["why"] for one in found["missing"]} == {
        "n8": "Slurm has it as drained: bad fan",
        "n3": "Slurm has it as down: x",
    }
    assert found["nodes"] == 1


def test_an_interrupt_keeps_what_came(cluster: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    asked = start(
        "fleet", "--slurm", "n[1-2]", "--doctor", str(cluster), "--timeout", "60", "--format", "json", "--save", str(kept),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    end = time.monotonic() + 30
    while not (kept / "n1.json").exists() and time.monotonic() < end:
        time.sleep(0.1)
    os.killpg(asked.pid, signal.SIGINT)
    out, _ = asked.communicate(timeout=20)
    found = json.loads(out)
    assert found["nodes"] == 1
    assert found["missing"] == [{"source": "n2", "why": "it was interrupted before it answered"}]


@pytest.mark.parametrize("nodes", ["$(touch x)", "a b", "-oProxyCommand=x", "n1;id", "@all", "", "n[1-"])
def test_a_name_that_no_node_has_reaches_no_shell(nodes: str) -> None:
    ended = run("fleet", "--ssh", nodes)
    assert ended.code == 2 or (nodes == "" and ended.code != 0)


def test_an_endless_answer_is_cut(cluster: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calling, "_ANSWER", 1000)
    ended = run("fleet", "--slurm", "n1", "--doctor", str(cluster), "--format", "json")
    assert "too large" in json.loads(ended.out)["missing"][0]["why"]


@pytest.mark.parametrize("arguments", [("--slurm", "all"), ("--slurm", "n1"), ("--ssh", "n1"), ("--kubernetes", "app=x")])
@pytest.mark.parametrize("way", ["", ".", "open"])
def test_no_program_of_the_working_directory_or_of_others_is_run(
    way: str, arguments: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty and a relative entry of PATH, and as root a folder that everybody may write."""
    place = tmp_path / "clone"
    place.mkdir()
    for name in ("sinfo", "srun", "timeout", "ssh", "kubectl", "sh"):
        (place / name).write_text(f"#!/bin/sh\necho {name} >>{tmp_path}/ran\n")
        (place / name).chmod(0o755)
    monkeypatch.chdir(place)
    if way == "open":
        if os.geteuid() != 0:
            pytest.skip("who is not root may run what is on PATH")
        place.chmod(0o777)
        monkeypatch.chdir("/")
    monkeypatch.setenv("PATH", f"{place if way == 'open' else way}{os.pathsep}/usr/bin{os.pathsep}/bin")
    run("fleet", *arguments, "--timeout", "1", "--quick")
    assert not (tmp_path / "ran").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="who is not root has its own environment")
def test_as_root_an_engine_gets_nothing_that_a_shell_would_execute(cluster: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And it stands in /, whatever the working directory is."""
    hostile = tmp_path / "hostile"
    hostile.write_text(f"touch {tmp_path}/ran\n")
    (tmp_path / "sinfo").write_text(f"#!/bin/bash\npwd >{tmp_path}/where\necho 'n1|down|x'\n")
    monkeypatch.setenv("BASH_ENV", str(hostile))
    monkeypatch.setenv("ENV", str(hostile))
    (tmp_path / "clone").mkdir()
    monkeypatch.chdir(tmp_path / "clone")
    assert json.loads(run("fleet", "--slurm", "all", "--format", "json").out)["missing"] == [
        {"source": "n1", "why": "Slurm has it as down: x"}
    ]
    assert (tmp_path / "where").read_text() == "/\n"
    assert not (tmp_path / "ran").exists()


def test_settings_of_clustershell_are_not_read(tmp_path: Path) -> None:
    """They can name a module to import."""
    settings = tmp_path / "clustershell"
    settings.mkdir()
    (settings / "defaults.conf").write_text("[task.default]\nfanout: x\nlocal_workername: this\n")
    variables = {"XDG_CONFIG_HOME": str(tmp_path), "PATH": "/nowhere"}
    ended = finished("fleet", "--ssh", "n[1-2]", "--timeout", "1", variables=variables, cwd=tmp_path)
    assert ended.code in (2, 3)
    assert "itself failed" not in ended.err
    assert "Zen of Python" not in ended.err + ended.out


def test_nobody_to_ask_and_nothing_to_read_is_an_error() -> None:
    assert run("fleet").code == 2


# ---------------------------------------------------------------- Kubernetes
# What kubectl prints, cut down to the keys that differ: one pod that ended, and one for each way not to.
def _pod(
    name: str, node: str | None, phase: str, *, terminated: object = None, waiting: object = None, **status: object
) -> dict[str, object]:
    state = {"terminated": terminated} if terminated is not None else {"waiting": waiting} if waiting is not None else {"running": {}}
    containers = [{"name": "cudadoctor", "state": state, "image": "registry.example/cudadoctor"}]
    named = {} if node is None else {"nodeName": node}
    return {
        "metadata": {"name": name, "namespace": "gpu", "labels": {"app": "cudadoctor"}},
        "spec": {**named, "containers": [{"name": "cudadoctor"}]},
        "status": {"phase": phase, **({"containerStatuses": containers} if node is not None else {}), **status},
    }


_UNSCHEDULABLE = "0/9 nodes are available: 9 node(s) didn't match Pod's node affinity/selector."
_PODS = [
    _pod("cudadoctor-0-abcde", "n1", "Succeeded", terminated={"exitCode": 0, "reason": "Completed"}),
    _pod("cudadoctor-1-abcde", "n4", "Succeeded", terminated={"exitCode": 0, "reason": "Completed"}),
    _pod("cudadoctor-2-abcde", "n5", "Failed", terminated={"exitCode": 137, "reason": "OOMKilled"}),
    _pod("cudadoctor-3-abcde", "n8", "Pending", waiting={"reason": "ImagePullBackOff", "message": "Back-off pulling image"}),
    _pod("cudadoctor-4-abcde", None, "Pending", conditions=[
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": _UNSCHEDULABLE}]),
    _pod("cudadoctor-5-abcde", "n9", "Failed", reason="Evicted", message="The node was low on resource: memory."),
    _pod("cudadoctor-6-abcde", "n2", "Running"),
]  # fmt: skip
_KUBECTL = """#!/bin/sh
case "$*" in
  *"get pods"*) cat FOLDER/pods.json ;;
  *logs*cudadoctor-0-*) NODE=n1 exec DOCTOR ;;
  *logs*cudadoctor-1-*) echo Welcome ;;
  *logs*) echo "Error from server (BadRequest): container is waiting to start" >&2; exit 1 ;;
esac
"""


def test_pods_that_printed_no_report_are_named_in_the_words_of_kubernetes(
    cluster: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "_GRACE", 0.5)
    (tmp_path / "pods.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": _PODS}))
    (tmp_path / "kubectl").write_text(_KUBECTL.replace("FOLDER", str(tmp_path)).replace("DOCTOR", str(cluster)))
    (tmp_path / "kubectl").chmod(0o755)
    ended = run("fleet", "--kubernetes", "app=cudadoctor", "--kubectl=-n gpu", "--timeout", "1", "--format", "json")
    found = json.loads(ended.out)
    assert [node for group in found["groups"] for node in group["nodes"]] == ["n1"]
    assert {one["source"]: one["why"] for one in found["missing"]} == {
        "n4": "no report came, exit code 0: Welcome",
        "n5": "its pod was ended: OOMKilled",
        "n8": "its pod does not start: ImagePullBackOff: Back-off pulling image",
        "cudadoctor-4-abcde": f"its pod has no node: Unschedulable: {_UNSCHEDULABLE}",
        "n9": "its pod was ended: Evicted: The node was low on resource: memory.",
        "n2": "its pod is Running and printed no report",
    }
    assert ended.code == 3


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("echo '{\"items\": []}'", "no pod has the label app=x"),
        ("echo 'error: You must be logged in to the server (Unauthorized)' >&2; exit 1", "You must be logged in"),
        ("echo no JSON", "kubectl lists no pods"),
    ],
)
def test_a_cluster_that_lists_no_pods_is_an_error(script: str, why: str, cluster: Path, tmp_path: Path) -> None:
    (tmp_path / "kubectl").write_text(f"#!/bin/sh\n{script}\n")
    (tmp_path / "kubectl").chmod(0o755)
    ended = run("fleet", "--kubernetes", "app=x")
    assert (ended.code, why in ended.err) == (2, True)


@pytest.mark.parametrize("arguments", [("--slurm", "n1", "--srun", "x'"), ("--ssh", "n1", "--ssh-options", "x'")])
def test_options_that_are_no_shell_words_are_a_wrong_command_line(arguments: tuple[str, ...], cluster: Path) -> None:
    ended = run("fleet", *arguments, "--doctor", str(cluster))
    assert (ended.code, "No closing quotation" in ended.err) == (2, True)


def test_two_nodes_that_say_to_be_one_are_neither() -> None:
    def node(source: str, boot_id: str | None, host: str = "h200-healthy") -> Node:
        body = json.loads(report(host, "gpu1"))
        body["origin"]["boot_id"] = boot_id
        found = nodes.one(source, json.dumps(body).encode())
        assert isinstance(found, Node)
        return found

    # A number of its start is read by every user of a node: two that say other things of it are not one.
    for other in (node("10.0.0.2", "another"), node("10.0.0.2", None), node("10.0.0.2", "one", "h200-numba-simulator")):
        found, missing = asking_nodes._each_for_itself([node("10.0.0.1", "one"), other])
        assert found == []
        assert [one.why for one in missing] == ["10.0.0.1 and 10.0.0.2 both say that they are gpu1"] * 2
    twice = [node("gpu1", "one"), node("gpu1.example", "one")]
    assert asking_nodes._each_for_itself(twice) == (twice, [])


def test_an_answer_in_the_name_of_a_node_that_was_not_asked_takes_no_reports_place() -> None:
    def node(source: str, host: str, time: str) -> Node:
        body = json.loads(report(host, "n7"))
        body["origin"]["time"] = time
        found = nodes.one(source, json.dumps(body).encode())
        assert isinstance(found, Node)
        return found

    known = node("reports/n7.json", "driver-not-loaded", "2026-01-01T00:00:00Z")
    for asked, counts in (("n1", "broken"), ("n7", "healthy"), ("n7.example", "healthy")):
        answered = asking_nodes._of_its_own(node(asked, "h200-healthy", "2026-01-02T00:00:00Z"), [asked])
        assert isinstance(answered, Node)
        (one,), _ = each_once((known, answered))
        assert one.verdict == counts


def test_an_address_is_no_name_with_a_domain() -> None:
    assert [asking_nodes._short(name) for name in ("10.0.0.1", "gpu1.example", "gpu1")] == ["10.0.0.1", "gpu1", "gpu1"]


def test_of_what_a_client_says_of_its_failure_the_end_is_kept() -> None:
    """64 nodes that wrote 23 MB each to stderr took 1.5 GB."""
    calling.watch([child := calling._child("n", ["/bin/sh", "-c", "yes | head -c 5000000 >&2; echo last >&2"], 9, None, most=1000)])
    assert (len(child.buffers["stderr"]) <= calling._ERRORS, child.text("stderr").split()[-1], child.dropped) == (True, "last", 0)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="setsid(1)")
def test_a_client_that_never_reads_holds_nobody_up(tmp_path: Path) -> None:
    """Its grandchild in a session of its own keeps the pipe open, and what is fed into it is never taken."""
    client = tmp_path / "client"
    client.write_text("#!/bin/sh\nexec setsid -w sleep 30\n")
    client.chmod(0o755)
    ended = list[str]()
    began = time.monotonic()
    calling.side_by_side({"n1": [str(client)]}, b"x" * 1_000_000, 1.0, 4, lambda node, _: ended.append(node))
    assert ended == ["n1"]
    assert time.monotonic() - began < 15


@pytest.mark.parametrize("name", ["--kubeconfig=/tmp/evil", "a b", "", "Upper", "-x"])
def test_what_is_no_name_of_kubernetes_is_no_pod(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would stand among the words of the next kubectl, where it may be an option."""
    listed = json.dumps({"items": [{"metadata": {"name": name, "namespace": "default"}}]})
    monkeypatch.setattr(calling, "said", lambda *_: listed)
    with pytest.raises(engines.EngineError):
        kubernetes.Pods(("kubectl",), "app=x").listed()
