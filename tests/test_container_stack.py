"""The engines for containers on a host: what is read of their settings, and whether they hand GPUs on."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import msgspec
import pytest

from cudadoctor.checks.container import ways
from cudadoctor.judge.stages import judge
from cudadoctor.knowledge.load import load
from cudadoctor.model.evidence import Item
from cudadoctor.model.facts import Fact
from cudadoctor.model.report import Report
from cudadoctor.model.values import ContainerStack, LoadedDriver
from cudadoctor.model.version import ModuleVersion
from cudadoctor.parsers.base import Text
from cudadoctor.parsers.container_stack import PARSER
from cudadoctor.sources import container_stack, programs
from tests import pasted
from tests.command_line import evidence_of, host, run

DOCKER = "docker: /usr/bin/docker\n"
PODMAN = "podman: /usr/bin/podman\n"
TOOLKIT = "nvidia-container-runtime: /usr/bin/nvidia-container-runtime\n"
RUNTIME = '/etc/docker/daemon.json:        "nvidia": {\n'
CDI = '/etc/cdi/nvidia.yaml:kind: nvidia.com/gpu\n/etc/cdi/nvidia.yaml:- name: "0"\n'
LIBRARY = "/etc/cdi/nvidia.yaml:    - hostPath: /usr/lib/x86_64-linux-gnu/libcuda.so.{}\n"


def stack(text: str) -> ContainerStack:
    (fact,) = PARSER.parse(Text(text, source="container engines"))
    assert isinstance(fact, Fact)
    return fact.need()  # type: ignore[no-any-return]


DENIED = "/etc/docker/daemon.json: Permission denied\n"


@pytest.mark.parametrize(
    ("text", "ready", "words"),
    [
        (DOCKER, False, "no NVIDIA runtime and no CDI specification is configured; the NVIDIA Container Toolkit is not installed"),
        (DOCKER + TOOLKIT, False, "no NVIDIA runtime and no CDI specification is configured"),
        (DOCKER + TOOLKIT + RUNTIME, True, "the NVIDIA runtime is configured in /etc/docker/daemon.json"),
        (DOCKER + TOOLKIT + RUNTIME + "socket: /run/user/1000/docker.sock\n", True, "daemon.json, rootless"),
        (DOCKER + RUNTIME, False, "nvidia-container-runtime is not installed"),
        (DOCKER + DENIED, None, "/etc/docker/daemon.json may not be read by this user"),
        (DOCKER + "/root/.docker/config.json: Permission denied\n", None, "/root/.docker/config.json may not be read"),
        (DOCKER + "/etc/cdi: Permission denied\n", None, "/etc/cdi may not be read by this user"),
        (PODMAN + DENIED, False, "there is no CDI specification"),  # nor does it matter to Podman who may read them
        (PODMAN + "/etc/cdi/nvidia.yaml: Permission denied\n", None, "/etc/cdi/nvidia.yaml may not be read by this user"),
        (DOCKER + "/etc/containerd/config.toml: Permission denied\n", False, "no NVIDIA runtime"),
        ("docker: /snap/bin/docker -> /usr/bin/snap\n" + TOOLKIT + RUNTIME, False, "is a snap"),
        (DOCKER + TOOLKIT + RUNTIME + "context: desktop-linux\n", False, "Docker Desktop"),
        (PODMAN + TOOLKIT, False, "there is no CDI specification"),
        (PODMAN + TOOLKIT + RUNTIME, False, "there is no CDI specification"),  # Docker's settings are not Podman's
        (PODMAN + CDI, True, "/etc/cdi/nvidia.yaml offers 0"),
        (PODMAN + CDI + LIBRARY.format("580.159.04"), True, "of driver 580.159.04 offers 0"),
        (PODMAN + CDI + LIBRARY.format("570.86.15"), False, "lists the files of driver 570.86.15, and 580.159.04 is loaded"),
        (PODMAN + CDI + CDI.replace("nvidia.yaml", "nvidia-570.yaml"), False, "/etc/cdi/nvidia-570.yaml name the same devices"),
        (PODMAN + CDI + CDI.replace("/etc/cdi", "/var/run/cdi"), True, "offers 0"),  # of another priority
        (PODMAN + CDI.replace("nvidia.com/gpu", "vendor.com/net"), False, "there is no CDI specification"),
    ],
)
def test_whether_an_engine_hands_gpus_on(text: str, ready: bool | None, words: str) -> None:
    (way,) = ways(stack(text), LoadedDriver(version=ModuleVersion("580.159.04")))
    assert way.ready is ready
    assert words in way.why


def test_the_engine_that_is_ready_comes_first() -> None:
    found = ways(stack(DOCKER + PODMAN + TOOLKIT + RUNTIME), None)
    assert [(way.engine, way.ready) for way in found] == [("docker", True), ("podman", False)]


# ---------------------------------------------------------------- in a report
def judged(text: str) -> Report:
    evidence = evidence_of("h200-healthy")
    items = tuple(item for item in evidence.items if item.id != "container-stack")
    item = Item(id="container-stack", kind="listing", what="container engines", status="ok", stdout=text)
    return judge(msgspec.structs.replace(evidence, items=(*items, item)), load())


def test_the_row_says_so_and_nothing_is_wrong() -> None:
    report = judged(DOCKER + PODMAN)
    (row,) = [row for row in report.checks if row.id == "container"]
    assert row.status == "pass"
    assert "; Docker does not hand GPUs on: no NVIDIA runtime" in row.summary
    assert any(detail.startswith("Podman does not hand GPUs on") for detail in row.details)
    assert report.verdict == "healthy"


def test_a_demand_asks_for_it(tmp_path: Path) -> None:
    result = run("check", "--replay", host("h200-healthy"), "--require", "container-gpu")
    assert result.code == 1
    assert "container-gpu" in result.out
    assert "not recorded" in result.out  # the recording is older than the question


# ---------------------------------------------------------------- what is read
@pytest.mark.skipif(sys.platform == "win32", reason="engines of Linux")
def test_only_lines_that_matter_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("docker", "nvidia-ctk"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    settings, folder = tmp_path / "daemon.json", tmp_path / "cdi"
    settings.write_text(
        '{\n"proxies": {"http-proxy": "http://me:secret@proxy"},\n"runtimes": {\n"nvidia": {"path": "nvidia-container-runtime"}}}\n'
    )
    folder.mkdir()
    (folder / "nvidia.yaml").write_text("cdiVersion: 0.5.0\nkind: nvidia.com/gpu\ncontainerEdits:\n  env:\n  - TOKEN=abc\n")
    (tmp_path / "config.json").write_text('{"auths": {"registry": {"auth": "c2VjcmV0"}}, "currentContext": "desktop-linux"}')
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(programs, "PROGRAM_FOLDERS", ())
    monkeypatch.setattr(container_stack, "SETTINGS", (str(settings), str(tmp_path / "absent")))
    monkeypatch.setattr(container_stack, "SPECIFICATIONS", (str(folder),))
    monkeypatch.setattr(container_stack, "SOCKETS", ())
    monkeypatch.setattr(container_stack, "CONTEXT", str(tmp_path / "config.json"))
    text = container_stack.read_container_stack("")
    assert "secret" not in text
    assert "c2VjcmV0" not in text
    assert "TOKEN" not in text
    found = stack(text)
    assert [engine.name for engine in found.engines] == ["docker"]
    assert found.toolkit == str(tmp_path / "nvidia-ctk")
    assert found.desktop
    assert found.runtimes == {str(settings): 5}
    assert [spec.kind for spec in found.specifications] == []  # a folder of another name is none of CDI's
    assert f"{folder}/nvidia.yaml:kind: nvidia.com/gpu" in text


@pytest.mark.skipif(sys.platform == "win32", reason="engines of Linux")
def test_without_an_engine_it_is_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(programs, "PROGRAM_FOLDERS", ())
    if os.path.exists("/snap/bin/docker"):
        pytest.skip("a snap of Docker is installed here")
    with pytest.raises(FileNotFoundError):
        container_stack.read_container_stack("")


MOUNT = "nvidia-container-cli: mount error: file creation failed: /var/lib/docker/overlay2/ab/merged{}: unknown"


@pytest.mark.parametrize(
    ("text", "first"),
    [
        (MOUNT.format("/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1: file exists"), "The image holds driver files of its own"),
        (MOUNT.format("/run/nvidia-persistenced/socket: no such device or address"), "The container gets the host's /run"),
        (
            'error mounting "/run/nvidia-persistenced/socket" to rootfs at "/run/nvidia-persistenced/socket": mount src=/run/'
            "nvidia-persistenced/socket: no such file or directory",
            "Start the daemon whose socket the specification lists",
        ),
    ],
)
def test_what_could_not_be_put_into_the_container_says_what_to_change(text: str, first: str) -> None:
    """Neither the host's driver nor its loader's cache is at fault where the container itself is in the way."""
    prescription = pasted.report(text).prescription
    assert prescription is not None
    steps = [step.text for step in prescription.steps]
    assert steps[0].startswith(first)
    assert not any("loader's cache" in step or "must show the GPU on the host" in step for step in steps)
