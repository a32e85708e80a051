"""Recordings: written and read back, refused where they are not what they claim, and redacted without losing what a diagnosis reads."""

from __future__ import annotations

import io
import json
import re
import tarfile
from pathlib import Path

import msgspec
import pytest

from cudadoctor.judge.stages import judge
from cudadoctor.model.evidence import Evidence, Item
from cudadoctor.sources import recording
from cudadoctor.sources.bundles import packed, unpacking
from cudadoctor.sources.redact import redact
from tests.command_line import HEALTHY, evidence_of
from tests.judging import KNOWLEDGE

UUID = "GPU-5b1e0c7a-90ab-4d12-8f3e-1c2d3e4f5a6b"


def evidence() -> Evidence:
    environment = (
        f"API_TOKEN=hunter2\nCUDA_VISIBLE_DEVICES=GPU-5b1e\nHOME=/home/ada\nPATH=/home/ada/bin:/usr/bin\nUSER=ada\nNV_KEY=abc\nX={UUID}\n"
    )
    return Evidence(
        items=(
            Item(id="environment", kind="environment", what="environment", status="ok", stdout=environment),
            Item(id="uname", kind="command", what=("uname", "-a"), status="ok", stdout="Linux analytical 6.8.0 #1 SMP x86_64 GNU/Linux\n"),
            Item(id="user", kind="command", what=("id",), status="ok", stdout="uid=1000(ada) gid=1000(ada) groups=1000(ada)\n"),
            Item(id="nvidia-smi", kind="command", what=("nvidia-smi",), status="failed", exit=9, stdout=f"{UUID}\n", stderr="oops ada@example.org\n"),
            Item(id="modules", kind="file", what="/proc/modules", status="absent", why="/proc/modules: No such file or directory"),
            Item(
                id="processes", kind="worker", what=("python", "processes.py"), status="ok",
                stdout='{"event": "process", "pid": 7, "user": "ada", "command": "python train.py --token hunter2"}\n',
            ),
        ),
        python="/home/ada/env/bin/python",
    )  # fmt: skip


@pytest.mark.parametrize("name", ["folder", "file.tar.gz"])
def test_written_and_read_back(name: str, tmp_path: Path) -> None:
    recording.write(evidence(), str(tmp_path / name))
    back = recording.read(str(tmp_path / name))
    assert [(item.id, item.status, item.why, item.exit, item.stdout, item.stderr) for item in back.items] == [
        (item.id, item.status, item.why, item.exit, item.stdout, item.stderr) for item in evidence().items
    ]
    assert {item.origin for item in back.items} == {"recording"}


@pytest.mark.parametrize("how", ["cut before a header", "a header of which a bit is wrong", "an end in the middle"])
def test_an_archive_of_which_something_is_missing_is_not_whole(how: str, tmp_path: Path) -> None:
    carried = io.BytesIO()
    with tarfile.open(fileobj=carried, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name in ("a.json", "b.json"):
            member = tarfile.TarInfo(name)
            member.size = 5
            archive.addfile(member, io.BytesIO(b"hello"))
    body = bytearray(carried.getvalue())
    if how == "cut before a header":
        del body[1024:]
    elif how == "an end in the middle":
        body[1024:1536] = bytes(512)
    else:
        body[1024 + 150] ^= 1
    found = unpacking.unpacked(bytes(body), lambda name: True, packed.Allowance(len(body)))
    assert list(found.members) == ["a.json"]
    assert "cut off or damaged" in found.remarks[0]
    whole = unpacking.unpacked(carried.getvalue(), lambda name: True, packed.Allowance(len(body)))
    assert (list(whole.members), whole.remarks) == (["a.json", "b.json"], [])


def test_of_what_is_longer_than_any_machine_says_no_health_follows(tmp_path: Path) -> None:
    """Of the kernel's log what came last is read."""
    found = evidence_of(HEALTHY)
    for name, at_end in (("kernel-log", True), ("nvml", False)):
        items = tuple(
            msgspec.structs.replace(item, stdout="x" * (9 << 20) + "\n" + (item.stdout or "")) if item.id == name else item
            for item in found.items
        )
        recording.write(msgspec.structs.replace(found, items=items), str(tmp_path / name))
        back = recording.read(str(tmp_path / name))
        kept = next(item.stdout or "" for item in back.items if item.id == name)
        assert kept.endswith(next(item.stdout or "" for item in found.items if item.id == name)) is at_end
        assert back.cut_short is not at_end
        assert (judge(back, KNOWLEDGE).verdict == "healthy") is at_end


def test_a_strangers_name_for_his_tool_is_short(tmp_path: Path) -> None:
    """Each report names it."""
    recording.write(msgspec.structs.replace(evidence(), bundle="x" * 201), str(tmp_path / "rec"))
    with pytest.raises(recording.RecordingError, match="names a tool in more than 200 characters"):
        recording.read(str(tmp_path / "rec"))


def test_redaction_takes_names_and_keeps_what_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cudadoctor.sources.sensitive.secrets.token_bytes", bytes)  # drawn anew, one of fifty pseudonyms has "ada" in it
    redacted = redact(evidence())
    texts = "".join((item.stdout or "") + (item.stderr or "") for item in redacted.items) + str(redacted.python)
    for secret in ("hunter2", "ada", "analytical", UUID, "example.org", "abc"):
        assert secret not in texts, secret
    environment = redacted.get("environment")
    assert environment is not None
    assert environment.stdout is not None
    lines = dict(line.split("=", 1) for line in environment.stdout.splitlines())
    assert lines["API_TOKEN"] == lines["NV_KEY"] == "<redacted>"
    assert (environment.stdout or "").count("\n") == 7
    smi = redacted.get("nvidia-smi")
    assert smi is not None
    # A prefix of a UUID stays a prefix of its pseudonym, so that CUDA_VISIBLE_DEVICES still names the GPU.
    assert (smi.stdout or "").startswith(lines["CUDA_VISIBLE_DEVICES"])
    assert lines["PATH"].endswith("/bin:/usr/bin")
    assert (redacted.python or "").endswith("/env/bin/python")


def test_names_of_windows_leave_and_paths_keep_their_tail() -> None:
    def item(name: str, kind: str, out: str) -> Item:
        return Item(id=name, kind=kind, what=name, status="ok", stdout=out)  # type: ignore[arg-type]

    home = "C:\\Users\\Jane Roe"
    path = f"{home}\\env\\Scripts\\python.exe"
    evidence = Evidence(
        items=(
            item(
                "environment", "environment", f"COMPUTERNAME=JANES-PC\nUSERNAME=Jane Roe\nPATH={home}\\bin;C:\\Windows;{home.upper()}\\x\n"
            ),
            item("python-env", "worker", json.dumps({"event": "python", "path": path}) + "\n"),
            item("processes", "worker", json.dumps({"event": "process", "pid": 1, "user": "JANES-PC\\Jane Roe"}) + "\n"),
            item(
                "pnp-devices",
                "command",
                json.dumps({"PNPDeviceID": "PCI\\VEN_10DE&DEV_2C58&SUBSYS_30111A58&REV_A1\\B73A356AA12DB04800"}) + "\n",
            ),
            item("text", "text", f'File "{path}", line 1 on JANES-PC\nC:/Users/Jane/x and C:\\Users\\Public\\y\n'),
        ),
        python=path,
    )
    taken = redact(evidence)
    body = "\n".join(one.stdout or "" for one in taken.items) + (taken.python or "")
    for word in ("Jane", "jane", "JANE", "B73A356AA12DB04800"):
        assert word not in body
    environment = taken.items[0].stdout or ""
    pseudonym = re.search(r"C:\\Users\\(user-\w+)\\bin", environment)
    assert pseudonym is not None
    assert f"C:\\USERS\\{pseudonym[1]}\\x" in environment, "the same name in other letters"
    assert taken.python == f"C:\\Users\\{pseudonym[1]}\\env\\Scripts\\python.exe"
    assert f"C:\\\\Users\\\\{pseudonym[1]}\\\\env" in (taken.items[1].stdout or "")
    assert "VEN_10DE&DEV_2C58" in (taken.items[3].stdout or "")
    assert "C:\\Users\\Public\\y" in (taken.items[4].stdout or "")


def test_a_missing_recording_says_so() -> None:
    with pytest.raises(recording.RecordingError, match="no such file"):
        recording.read("/nonexistent/recording")


def test_a_recording_is_not_overwritten(tmp_path: Path) -> None:
    recording.write(evidence(), str(tmp_path / "folder"))
    with pytest.raises(recording.RecordingError, match="already holds"):
        recording.write(evidence(), str(tmp_path / "folder"))


def test_a_truncated_archive_is_refused(tmp_path: Path) -> None:
    target = tmp_path / "file.tar.gz"
    recording.write(evidence(), str(target))
    target.write_bytes(target.read_bytes()[:200])
    with pytest.raises(recording.RecordingError, match=r"not a whole|missing"):
        recording.read(str(target))


def _archive(path: Path, member: tarfile.TarInfo, content: bytes = b"") -> None:
    with tarfile.open(path, "w:gz") as archive:
        archive.addfile(member, io.BytesIO(content))


def test_a_link_in_an_archive_is_refused(tmp_path: Path) -> None:
    member = tarfile.TarInfo("recording.json")
    member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
    _archive(tmp_path / "a.tar.gz", member)
    with pytest.raises(recording.RecordingError, match="link or device"):
        recording.read(str(tmp_path / "a.tar.gz"))


@pytest.mark.parametrize("name", ["recording.json", "evidence/uname.out.txt"])
def test_a_link_that_leads_to_itself_is_an_error_of_the_recording(name: str, tmp_path: Path) -> None:
    recording.write(evidence(), str(tmp_path / "folder"))
    place = tmp_path / "folder" / name
    place.unlink()
    place.symlink_to(place.name)
    with pytest.raises(recording.RecordingError):
        recording.read(str(tmp_path / "folder"))


def test_a_path_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    recording.write(evidence(), str(tmp_path / "folder"))
    head = tmp_path / "folder" / "recording.json"
    head.write_text(head.read_text().replace("evidence/uname.out.txt", "../../../../../../etc/passwd"))
    with pytest.raises(recording.RecordingError, match="outside"):
        recording.read(str(tmp_path / "folder"))


def test_a_wrong_format_is_refused(tmp_path: Path) -> None:
    (tmp_path / "recording.json").write_text('{"format": "something/9", "tool": "x", "origin": {}, "evidence": []}')
    with pytest.raises(recording.RecordingError, match="not of format"):
        recording.read(str(tmp_path))


@pytest.mark.parametrize(("field", "number"), [("exit", 10**23), ("signal", 1 << 64), ("dropped_bytes", 1 << 63), ("size", 1 << 70)])
def test_a_number_that_no_exit_or_signal_has_is_refused(field: str, number: int, tmp_path: Path) -> None:
    item = {"id": "user", "kind": "command", "what": ["id"], "status": "failed", field: number}
    origin = {"platform": "linux", "redacted": True}
    (tmp_path / "recording.json").write_text(json.dumps({"format": recording.FORMAT, "tool": "x", "origin": origin, "evidence": [item]}))
    with pytest.raises(recording.RecordingError, match="names no piece of evidence"):
        recording.read(str(tmp_path))


def test_one_file_is_not_four_hundred_texts(tmp_path: Path) -> None:
    """2,000 bytes took 35 seconds and half a gigabyte to judge."""
    (tmp_path / "evidence").mkdir()
    (tmp_path / "evidence" / "a.txt").write_text("CUDA error: out of memory\n" * 100)
    item = {"kind": "text", "what": "x", "status": "ok", "stdout": "evidence/a.txt"}
    head = {"format": recording.FORMAT, "tool": "x", "origin": {"platform": "linux", "redacted": False}}
    for count in (recording.MAX_TEXTS, recording.MAX_TEXTS + 1):
        (tmp_path / "recording.json").write_text(json.dumps({**head, "evidence": [{**item, "id": f"t{at}"} for at in range(count)]}))
        if count == recording.MAX_TEXTS:
            assert len(recording.read(str(tmp_path)).items) == count
    with pytest.raises(recording.RecordingError, match="more than 4 texts"):
        recording.read(str(tmp_path))


def _redacted(**texts: str) -> dict[str, str]:
    kinds = {
        "environment": "environment",
        "kernel-log": "command",
        "os-release": "file",
        "modules": "file",
        "uname": "command",
        "user": "command",
    }
    items = tuple(
        Item(id=name, kind=kinds[name], what=name, status="ok", stdout=body)  # type: ignore[arg-type]
        for name, body in ((key.replace("_", "-"), value) for key, value in texts.items())
    )
    return {item.id: item.stdout or "" for item in redact(Evidence(items=items)).items}


def test_secrets_leave_with_their_variables() -> None:
    out = _redacted(
        environment="SLURM_JWT=eyJx\nNVIDIA_API_PAT=pat\nCONDA_CHANNEL_ALIAS=https://bob:pw@x\nSLURM_JOB_ID=7\nCUDA_HOME=http://bob:pw@x\n"
    )
    assert out["environment"] == (
        "SLURM_JWT=<redacted>\nNVIDIA_API_PAT=<redacted>\nCONDA_CHANNEL_ALIAS=<redacted>\nSLURM_JOB_ID=7\nCUDA_HOME=<redacted>\n"
    )


def test_the_kernel_log_keeps_only_what_a_diagnosis_reads() -> None:
    log = "[1.0] NVRM: loading NVIDIA UNIX\n[2.0] [UFW BLOCK] SRC=203.0.113.5 DST=192.168.1.10\n[3.0] usb 1-1: SerialNumber: A1B2\n"
    assert _redacted(kernel_log=log)["kernel-log"] == "[1.0] NVRM: loading NVIDIA UNIX\n<redacted>\n<redacted>\n"


@pytest.mark.parametrize("name", ["ubuntu", "nvidia", "gpu", "python"])
def test_a_user_with_an_ordinary_name_loses_no_evidence(name: str) -> None:
    body = f"ID={name}\nnvidia_uvm 16384 0\n"
    user = f"uid=1000({name}) gid=1000({name}) groups=1000({name})\n"
    out = _redacted(os_release=body, modules=body, user=user, uname=f"Linux {name} 6.8.0 x86_64\n")
    assert (out["os-release"], out["modules"]) == (body, body)


def test_the_short_name_of_a_host_goes_too() -> None:
    out = _redacted(uname="Linux crunch7.corp.example.com 6.8.0 x86_64\n", kernel_log="Nov 21 crunch7 kernel: NVRM: loading\n")
    assert "crunch7" not in out["uname"] + out["kernel-log"]
