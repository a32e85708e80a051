"""A real Slurm (slurmctld, slurmd, munge), a real Dask and a real sshd: one node hangs, one is killed, one answers garbage, one has no Python.

Each node is a UTS namespace of this machine. What the nodes' doctor does stands in tests/nodes_answering.py.
"""

from __future__ import annotations

import contextlib
import getpass
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import Result, run
from tests.nodes_answering import SICK, doctor

NODES = 8
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="host names of their own need root on Linux"),
]


def needs(*programs: str) -> pytest.MarkDecorator:
    missing = [name for name in programs if shutil.which(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"no {', '.join(missing)} here")


@contextlib.contextmanager
def daemon(*command: str, host: str | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """A program that runs until the end, under a host name where one is given."""
    words = ["unshare", "--uts", "sh", "-c", 'hostname "$0"; exec "$@"', host, *command] if host is not None else list(command)
    running = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        yield running
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGTERM)
        try:
            running.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, signal.SIGKILL)


def until(holds: Callable[[], bool], seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.2)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def judged(ended: Result) -> dict[str, Any]:
    """Every sick node is named, and each well one is right and counts once."""
    found: dict[str, Any] = json.loads(ended.out)
    why = {one["source"]: one["why"] for one in found["missing"]}
    assert sorted(why) == sorted(SICK)
    assert "time limit" in why["n2"]
    assert why["n3"].startswith("it was killed")
    assert why["n4"] == "no report came, exit code 0: Welcome"
    assert why["n5"] == "no report came, exit code 1: SyntaxError: invalid syntax"
    assert "it is no report" in why["n7"]
    assert [node for group in found["groups"] for node in group["nodes"]] == ["n1", "n6", "n8"]
    return found


# ---------------------------------------------------------------- Slurm
@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("state", "run"):
        (tmp_path / name).mkdir()
    key, places = tmp_path / "munge.key", tmp_path / "munge"
    places.mkdir(mode=0o755)
    key.write_bytes(os.urandom(1024))
    key.chmod(0o400)
    control = free_port()
    ports = [free_port() for _ in range(NODES)]
    nodes = [
        f"NodeName=n{number} NodeHostname=n{number} NodeAddr=127.0.0.1 Port={port} CPUs=2 State=UNKNOWN"
        for number, port in enumerate(ports, 1)
    ]
    settings = {
        "ClusterName": "test", "SlurmctldHost": f"{socket.gethostname()}(127.0.0.1)", "SlurmctldPort": control, "SlurmUser": getpass.getuser(),
        "AuthType": "auth/munge", "AuthInfo": f"socket={places}/socket", "StateSaveLocation": tmp_path / "state",
        "SlurmdSpoolDir": f"{tmp_path}/spool-%n", "SlurmctldPidFile": tmp_path / "run/ctld.pid", "SlurmdPidFile": f"{tmp_path}/run/%n.pid",
        "ProctrackType": "proctrack/linuxproc", "TaskPlugin": "task/none", "SelectType": "select/cons_tres", "MailProg": "/bin/true",
        "ReturnToService": 2,
    }  # fmt: skip
    text = [f"{name}={value}" for name, value in settings.items()] + nodes + ["PartitionName=all Nodes=ALL Default=YES State=UP"]
    (tmp_path / "slurm.conf").write_text("\n".join(text) + "\n")
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "slurm.conf"))
    with contextlib.ExitStack() as stack:
        munge = ["munged", "--foreground", "--force", f"--key-file={key}", f"--socket={places}/socket", f"--pid-file={places}/pid"]
        stack.enter_context(daemon(*munge, f"--log-file={places}/log", f"--seed-file={places}/seed"))
        until((places / "socket").exists)
        stack.enter_context(daemon("slurmctld", "-D"))
        for number in range(1, NODES + 1):
            stack.enter_context(daemon("slurmd", "-D", "-N", f"n{number}", host=f"n{number}"))
        idle = ["sinfo", "--noheader", "--states=idle", "--format=%D"]
        until(lambda: subprocess.run(idle, capture_output=True, text=True, check=False).stdout.strip() == str(NODES), 60)
        yield


@needs("slurmctld", "slurmd", "srun", "munged", "unshare")
def test_eight_nodes_of_slurm_of_which_five_are_sick(slurm: None, tmp_path: Path) -> None:
    began = time.monotonic()
    judged(run("fleet", "--slurm", "all", "--doctor", str(doctor(tmp_path)), "--timeout", "3", "--format", "json"))
    assert time.monotonic() - began < 30
    queue = ["squeue", "--noheader"]
    until(lambda: subprocess.run(queue, capture_output=True, check=True).stdout == b"", 5)  # no job is left behind


# ---------------------------------------------------------------- Dask
@pytest.fixture
def dask() -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    port = free_port()
    address = f"tcp://127.0.0.1:{port}"
    with contextlib.ExitStack() as stack:
        scheduler = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard"]
        stack.enter_context(daemon(*scheduler))
        worker = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--no-dashboard", "--nthreads", "1", "--memory-limit", "0"]
        # Two workers of one node, as with a worker for each GPU, and one without a nanny.
        workers = [stack.enter_context(daemon(*worker, *more, host=host)) for host, more in _workers()]
        from distributed import Client

        with Client(address, timeout=30, set_as_default=False) as client:
            client.wait_for_workers(NODES + 1, timeout=60)
        yield address, workers


def _workers() -> Iterator[tuple[str, list[str]]]:
    yield from ((f"n{number}", []) for number in range(1, NODES + 1))
    yield "n1", ["--no-nanny"]


@needs("unshare")
def test_eight_nodes_of_dask_of_which_five_are_sick(dask: tuple[str, list[subprocess.Popen[bytes]]], tmp_path: Path) -> None:
    began = time.monotonic()
    arguments = ("--dask", dask[0], "--doctor", str(doctor(tmp_path)), "--timeout", "3", "--format", "json")
    found = judged(run("fleet", *arguments))
    assert found["nodes"] == 3
    assert found["repeated"] == 0  # a node of two workers was asked once
    assert time.monotonic() - began < 30


@needs("unshare")
def test_a_worker_that_is_gone_takes_no_answer_along(dask: tuple[str, list[subprocess.Popen[bytes]]], tmp_path: Path) -> None:
    """Between the list of workers and the question."""
    from cudadoctor.sources import engines
    from cudadoctor.sources.engines import dask as engine

    address, running = dask
    workers, silent = engine.nodes(address, 8)
    assert (sorted(workers), silent) == ([f"n{number}" for number in range(1, NODES + 1)], [])
    os.killpg(running[7].pid, signal.SIGKILL)
    answers: dict[str, engines.Answer] = {}
    few = {name: workers[name] for name in ("n1", "n6", "n8")}
    work = engines.Work(3, True, str(doctor(tmp_path)), b"")
    engine.ask(address, few, work, lambda one: answers.__setitem__(one.asked, one))
    assert [name for name in few if answers[name].report is not None] == ["n1", "n6"]
    assert answers["n8"].why is not None


# ---------------------------------------------------------------- ssh
@needs("sshd", "ssh", "ssh-keygen", "unshare", "ip")
def test_eight_nodes_by_ssh_of_which_five_are_sick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One sshd for each node, each on a loopback address of its own."""
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    port = free_port()
    Path("/run/sshd").mkdir(exist_ok=True)
    hosts = []
    with contextlib.ExitStack() as stack:
        for number in range(1, NODES + 1):
            name, address = f"n{number}", f"127.0.0.{number + 10}"
            settings = tmp_path / f"sshd-{name}"
            settings.write_text(
                f"ListenAddress {address}:{port}\nHostKey {key}\nAuthorizedKeysFile {key}.pub\nStrictModes no\nUsePAM no\nPidFile none\n"
                "PermitRootLogin yes\n"
            )
            stack.enter_context(daemon(shutil.which("sshd") or "sshd", "-D", "-f", str(settings), host=name))
            hosts.append(f"Host {name}\n  HostName {address}\n")
        client = tmp_path / "ssh_config"
        common = f"Host *\n  Port {port}\n  User {getpass.getuser()}\n  IdentityFile {key}\n  StrictHostKeyChecking no\n"
        client.write_text("".join(hosts) + common + f"  UserKnownHostsFile {tmp_path}/known\n  BatchMode yes\n  LogLevel ERROR\n")
        answers = ["ssh", "-F", str(client), "n8", "true"]
        until(lambda: subprocess.run(answers, capture_output=True, check=False).returncode == 0)
        arguments = ("--ssh-options", f"-F {client}", "--doctor", str(doctor(tmp_path)), "--timeout", "3", "--format", "json")
        began = time.monotonic()
        judged(run("fleet", "--ssh", "n[1-8]", *arguments))
        assert time.monotonic() - began < 30
