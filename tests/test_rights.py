"""Who needs an administrator, and what they get to forward: every recipe in two parts."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from cudadoctor.judge.stages import judge
from cudadoctor.knowledge.load import load
from cudadoctor.model.evidence import Item
from cudadoctor.model.values import (
    CONTAINER_MARKS,
    ENVIRONMENT,
    NVML,
    PROCESSES,
    SETTING,
    USER,
    GpuProcess,
    Nvml,
    Process,
    Processes,
    Setting,
)
from cudadoctor.prescribe import prescribe
from cudadoctor.report.text import ADMINISTRATOR, AFTERWARDS, Style, render
from tests.cases import every
from tests.command_line import evidence_of, host, run
from tests.facts_builder import environment, facts_of, user
from tests.judging import KNOWLEDGE
from tests.prescriptions import finding

# ---------------------------------------------------------------- who can become root
NOBODY_ELSE: dict[Any, Any] = {NVML: Nvml(code=0), PROCESSES: Processes(processes=())}
SHARED: dict[Any, Any] = {
    NVML: Nvml(code=0, processes=(GpuProcess(gpu="0", pid=7, kind="C"),)),
    PROCESSES: Processes(processes=(Process(pid=7, user="eve", own=False),)),
}
DESKTOP: dict[Any, Any] = {NVML: Nvml(code=0, processes=(GpuProcess(gpu="0", pid=8, kind="G"), GpuProcess(gpu="0", pid=9, kind="C"))),
    PROCESSES: Processes(processes=(Process(pid=8, user="gdm", own=False), Process(pid=9, user="root", own=False)))}  # fmt: skip
OWNER, GUEST, ROOT = user(groups=("ada", "sudo")), user(groups=("ada", "video")), user("root", 0, ("root",))


def parts(state: dict[Any, Any], cause: str = "driver-not-loaded", distro: str = "ubuntu-24.04") -> list[str]:
    found = prescribe(finding(cause), {}, facts_of(state), KNOWLEDGE, distro)
    assert found is not None
    return [step.who for step in found.steps]


@pytest.mark.parametrize(
    ("state", "distro", "forwarded"),
    [
        ({USER: OWNER}, "ubuntu-24.04", False),
        ({USER: GUEST}, "ubuntu-24.04", True),
        ({USER: ROOT}, "ubuntu-24.04", False),
        ({}, "ubuntu-24.04", False),  # nobody knows who runs this
        ({USER: user(groups=())}, "ubuntu-24.04", False),
        ({USER: user(groups=("ada", "wheel"))}, "fedora-42", False),
        ({USER: GUEST}, "fedora-42", True),
        # On Debian and SUSE an owner need not be in any group.
        ({USER: GUEST, ENVIRONMENT: environment(DISPLAY=":0")}, "debian-12", False),
        ({USER: GUEST, ENVIRONMENT: environment(WAYLAND_DISPLAY="wayland-0")}, "opensuse-tumbleweed", False),
        ({USER: GUEST, ENVIRONMENT: environment(DISPLAY="localhost:10.0", SSH_CONNECTION="a b")}, "debian-12", True),
        ({USER: GUEST, ENVIRONMENT: environment(DISPLAY=":0")}, "ubuntu-24.04", True),
        ({USER: GUEST, ENVIRONMENT: environment(DISPLAY=":0"), **SHARED}, "debian-12", True),
        # Other people's programs say that it is shared; root's and the screen's do not.
        ({USER: user(groups=()), **SHARED}, "ubuntu-24.04", True),
        ({USER: user(groups=()), **DESKTOP}, "ubuntu-24.04", False),
        ({USER: OWNER, **SHARED}, "ubuntu-24.04", False),
        # A job's node is its administrator's, whoever the user is.
        ({USER: OWNER, ENVIRONMENT: environment(SLURM_JOB_ID="7")}, "ubuntu-24.04", True),
        ({USER: ROOT, ENVIRONMENT: environment(SLURM_JOB_ID="7")}, "ubuntu-24.04", False),
        ({USER: ROOT, CONTAINER_MARKS: ("/.dockerenv",), ENVIRONMENT: environment(SLURM_JOB_ID="7")}, "ubuntu-24.04", True),
        # A container: root of it may own its host, an ordinary user of it can become nobody else.
        ({USER: ROOT, CONTAINER_MARKS: ("/.dockerenv",)}, "ubuntu-24.04", False),
        ({USER: GUEST, CONTAINER_MARKS: ("/.dockerenv",)}, "ubuntu-24.04", True),
        ({USER: user(groups=()), CONTAINER_MARKS: ("/.dockerenv",)}, "ubuntu-24.04", True),
        # sudo itself says no.
        ({SETTING: Setting(words={"no-sudo": 1})}, "ubuntu-24.04", True),
    ],
)
def test_who_needs_an_administrator(state: dict[Any, Any], distro: str, forwarded: bool) -> None:
    assert ("administrator" in parts({**NOBODY_ELSE, **state}, distro=distro)) == forwarded


def test_windows_is_not_told_apart() -> None:
    assert set(parts({USER: GUEST}, "cuda-visible-devices-invalid", "windows-11")) == {"user"}


@every("cause", sorted(KNOWLEDGE.causes))
def test_every_recipe_is_parted(cause: str) -> None:
    """What the user does alone stands first, what needs root is forwarded, and both are the steps that an owner gets."""
    for distro in ("ubuntu-24.04", "fedora-42", "arch"):
        own, guest = (prescribe(finding(cause), {}, facts_of({USER: one}), KNOWLEDGE, distro) for one in (OWNER, GUEST))
        assert own is not None
        assert guest is not None
        assert {step.who for step in own.steps} == {"user"}
        order = [("user", "administrator", "afterwards").index(step.who) for step in guest.steps]
        assert order == sorted(order)
        assert all(step.who == "administrator" for step in guest.steps if step.needs_root or step.kind == "restart")
        assert not any("sudo " in (step.shell or "") for step in guest.steps if step.who != "administrator")
        plain = {(step.text, step.shell) for step in own.steps} - {("Check the machine again.", None)}
        assert plain == {(step.text, step.shell) for step in guest.steps} - {("Check the machine again.", None)}
        assert guest.steps[-1].verify == "cudadoctor check"
        assert guest.steps[-1].who != "administrator"


def test_the_owner_of_a_laptop_sees_the_steps_in_their_order() -> None:
    found = prescribe(finding("device-permission-denied"), {}, facts_of({USER: OWNER}), KNOWLEDGE, "ubuntu-24.04")
    assert found is not None
    assert found.steps[0].needs_root
    assert {step.who for step in found.steps} == {"user"}


def test_a_job_is_told_to_name_its_node() -> None:
    state = {USER: OWNER, ENVIRONMENT: environment(SLURM_JOB_ID="7")}
    found = prescribe(finding("driver-not-loaded"), {}, facts_of(state), KNOWLEDGE, "ubuntu-24.04")
    assert found is not None
    assert (found.steps[0].who, found.steps[0].shell) == ("user", "hostname")
    assert "Slurm" in found.steps[0].text


def test_the_text_has_one_heading_for_the_administrator() -> None:
    out = run("fix", "--replay", host("h200-nodes-for-root-only")).out
    assert out.count(ADMINISTRATOR) == 1
    own, forwarded = out.split(ADMINISTRATOR)
    assert "sudo" not in own
    assert "sudo chmod a+rw" in forwarded.split(AFTERWARDS)[0]
    assert "cause: device-permission-denied" in forwarded
    assert ADMINISTRATOR not in run("fix", "--replay", host("driver-not-loaded")).out


def test_nothing_to_do_alone_is_said() -> None:
    def guest(item: Item) -> Item:
        return msgspec.structs.replace(item, stdout="uid=1001(eve) gid=1001(eve) groups=1001(eve)\n") if item.id == "user" else item

    evidence = evidence_of("driver-upgraded-under-running-kernel")
    out = render(judge(msgspec.structs.replace(evidence, items=tuple(map(guest, evidence.items))), KNOWLEDGE), load(), Style())
    assert "This needs root, so there is nothing that you can do alone." in " ".join(out.split())


def test_json_says_who() -> None:
    found = json.loads(run("check", "--replay", host("h200-nodes-for-root-only"), "--format", "json").out)
    assert [step["who"] for step in found["prescription"]["steps"]].count("administrator") >= 1


def test_the_script_stops_before_what_is_the_administrators() -> None:
    script = run("fix", "--script", "--replay", host("h200-nodes-for-root-only")).out
    own, forwarded = script.split(f"# {ADMINISTRATOR}\n")
    assert "sudo" not in own
    assert forwarded.startswith('[ "$(id -u)" = 0 ] || ')
    assert "id -u" not in run("fix", "--script", "--replay", host("driver-not-loaded")).out
