"""A recording is written anew, through no link, for its owner alone, and replaces nothing without being told to."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import stat
import sys
import time
from pathlib import Path

import msgspec
import pytest

from cudadoctor.judge.stages import judge
from cudadoctor.sources import archives, recording, torn
from tests.command_line import HEALTHY, evidence_of, host, run
from tests.judging import KNOWLEDGE

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="modes and links of POSIX")
EVIDENCE = evidence_of(HEALTHY)


def files(target: Path) -> list[Path]:
    return [path for path in (target.rglob("*") if target.is_dir() else (target,)) if path.is_file()]


@pytest.mark.parametrize("name", ["r", "a/b/r", "r.tar.gz", "r.tgz"])
def test_for_its_owner_alone(name: str, tmp_path: Path) -> None:
    if "/" in name:
        (tmp_path / name).parent.mkdir(parents=True)
    before = os.umask(0)
    try:
        recording.write(EVIDENCE, str(tmp_path / name))
    finally:
        os.umask(before)
    assert files(tmp_path / name)
    assert {stat.S_IMODE(path.stat().st_mode) for path in files(tmp_path / name)} == {0o600}
    assert recording.read(str(tmp_path / name)).items


@pytest.mark.parametrize("name", ["r", "r.tar.gz"])
def test_nothing_is_replaced_in_silence(name: str, tmp_path: Path) -> None:
    target = tmp_path / name
    recording.write(EVIDENCE, str(target))
    before = {path: path.read_bytes() for path in files(target)}
    for command in (["record", "--quick", "-o", str(target)], ["check", "--replay", host(HEALTHY), "--record", str(target)]):
        result = run(*command)
        assert result.code == 2
        assert "--force" in result.err
    assert {path: path.read_bytes() for path in files(target)} == before
    other = evidence_of("driver-not-loaded")
    recording.write(other, str(target), force=True)
    assert {item.id for item in recording.read(str(target)).items} == {item.id for item in other.items}
    assert list(tmp_path.iterdir()) == [target]


def test_no_folder_is_used_in_which_others_may_give_names(tmp_path: Path) -> None:
    """Whoever may rename what is written there leads the rest of it elsewhere; a folder like /tmp lets nobody do that."""
    for mode in (0o777, 0o1777, 0o755):
        (tmp_path / oct(mode)).mkdir()
        (tmp_path / oct(mode)).chmod(mode)
    with pytest.raises(recording.RecordingError, match="may be written by other users"):
        recording.write(EVIDENCE, str(tmp_path / oct(0o777)))
    assert list((tmp_path / oct(0o777)).iterdir()) == []
    for mode in (0o1777, 0o755):
        recording.write(EVIDENCE, str(tmp_path / oct(mode)))
        assert recording.read(str(tmp_path / oct(mode))).items


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("place", ["r", "r/evidence", "r/recording.json", "r.tar.gz", "r.tar.gz.partial"])
def test_no_link_is_followed(place: str, force: bool, tmp_path: Path) -> None:
    """What somebody planted stays a link, or is taken away where --force says so; what it points at is never written."""
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "recording.json").write_text("precious")
    (victim / "file").write_text("precious")
    planted = tmp_path / place
    planted.parent.mkdir(exist_ok=True)
    planted.symlink_to(victim if place in ("r", "r/evidence") else victim / "file")
    target = tmp_path / ("r.tar.gz" if "tar" in place else "r")
    try:
        recording.write(EVIDENCE, str(target), force=force)
    except (recording.RecordingError, OSError):
        assert place != "r.tar.gz.partial"
    assert sorted(path.name for path in victim.iterdir()) == ["file", "recording.json"]
    assert {path.read_text() for path in victim.iterdir()} == {"precious"}


def test_a_dangling_link_is_no_free_place(tmp_path: Path) -> None:
    for name in ("r", "r.tar.gz"):
        (tmp_path / name).symlink_to(tmp_path / "nowhere")
        with pytest.raises(recording.RecordingError, match="is a link"):
            recording.write(EVIDENCE, str(tmp_path / name))
    assert not (tmp_path / "nowhere").exists()


def test_what_is_broken_off_takes_nothing_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "r.tar.gz"
    recording.write(EVIDENCE, str(target))
    before = target.read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tarfile.TarFile.addfile", full)
    with pytest.raises(OSError, match="No space"):
        recording.write(EVIDENCE, str(target), force=True)
    assert target.read_bytes() == before
    with pytest.raises(OSError, match="No space"):
        recording.write(EVIDENCE, str(tmp_path / "new.tar.gz"))
    assert list(tmp_path.iterdir()) == [target]


def test_a_folder_of_the_users_own_is_not_emptied(tmp_path: Path) -> None:
    """Where no recording is, `evidence` is somebody's."""
    (tmp_path / "evidence").mkdir()
    (tmp_path / "evidence" / "notes.txt").write_text("mine")
    with pytest.raises(recording.RecordingError, match="not empty"):
        recording.write(EVIDENCE, str(tmp_path), force=True)
    assert (tmp_path / "evidence" / "notes.txt").read_text() == "mine"


def test_members_without_content_take_no_longer_than_an_archive_may(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A gzip of nothing, millions of times, gives nothing that could be counted: 60 MB took half a minute."""
    recording.write(evidence_of(HEALTHY), str(tmp_path / "whole.tar.gz"))
    whole = gzip.decompress((tmp_path / "whole.tar.gz").read_bytes())
    (tmp_path / "long.tar.gz").write_bytes(gzip.compress(whole[:8192]) + gzip.compress(b"") * 200_000 + gzip.compress(whole[8192:]))
    monkeypatch.setattr(archives, "MAX_SECONDS", 0.5)
    with pytest.raises(recording.RecordingError, match=r"it takes more than 0\.5 s to unpack"):
        recording.read(str(tmp_path / "long.tar.gz"))


def test_what_no_probe_says_is_not_read(tmp_path: Path) -> None:
    """One letter of another script makes a text of 60 MB four times as large, and as many lines of JSON two gigabytes."""
    evidence = evidence_of(HEALTHY)
    ladder = next(item for item in evidence.items if item.id == "ladder")
    longer = msgspec.structs.replace(ladder, stdout="\U0001f600\n" + '{"event": "x"}\n' * 700_000)
    recording.write(evidence.completed((longer,)), str(tmp_path / "r"))
    read = recording.read(str(tmp_path / "r")).get("ladder")
    assert read is not None
    assert len(read.stdout or "") == (8 << 20) - len("\U0001f600".encode()) + len("?")
    assert read.dropped_bytes == len((longer.stdout or "").encode()) - (8 << 20)
    assert not read.whole


@pytest.mark.parametrize(("lost", "sized"), [(600, True), (1, True), (600, False)])
def test_evidence_that_was_cut_since_proves_no_health(lost: int, sized: bool, tmp_path: Path) -> None:
    """Older recordings do not say how long their files were; there half a line of a worker shows it."""
    target = tmp_path / "r"
    recording.write(EVIDENCE, str(target))
    head = json.loads((target / recording.MEMBER).read_bytes())
    assert run("check", "--replay", str(target)).code == 0
    for item in [] if sized else head["evidence"]:
        del item["size"], item["crc32"]
    del head["crc32"]
    (target / recording.MEMBER).write_text(json.dumps(head))
    nvml = target / "evidence" / "nvml.out.txt"
    nvml.write_bytes(nvml.read_bytes()[:-lost])
    read = recording.read(str(target))
    item = read.get("nvml")
    assert item is not None
    assert not item.whole
    assert read.remarks == ("nvml is not whole: the recording lost a part of it",)
    assert run("check", "--replay", str(target)).code == 3


@pytest.mark.parametrize(("summed", "bit"), [(True, b'index": 0'), (False, b'{"event": "gpu"')])
def test_one_damaged_bit_proves_no_health(summed: bool, bit: bytes, tmp_path: Path) -> None:
    """An older recording has no checksum; there a worker's line that is no object shows it."""
    target = tmp_path / "r"
    recording.write(EVIDENCE, str(target))
    head = json.loads((target / recording.MEMBER).read_bytes())
    for item in [] if summed else head["evidence"]:
        del item["crc32"]
    del head["crc32"]
    (target / recording.MEMBER).write_text(json.dumps(head))
    nvml = target / "evidence" / "nvml.out.txt"
    body = nvml.read_bytes()
    at = body.index(bit)
    nvml.write_bytes(body[:at] + bytes([body[at] ^ 0x10]) + body[at + 1 :])
    assert recording.read(str(target)).cut_short
    assert run("check", "--replay", str(target)).code == 3


@pytest.mark.parametrize("bit", [0x01, 0x04, 0x20])
def test_a_damaged_bit_of_the_list_of_evidence_is_seen(bit: int, tmp_path: Path) -> None:
    """Anywhere: of a status, of an exit, of the checksum itself. What is read as it was, or not at all, is no harm."""
    target = tmp_path / "r"
    recording.write(EVIDENCE, str(target))
    member, whole = target / recording.MEMBER, recording.read(str(target))
    body = member.read_bytes()
    assert not whole.cut_short
    for at in range(0, len(body), 7):
        member.write_bytes(body[:at] + bytes([body[at] ^ bit]) + body[at + 1 :])
        try:
            read = recording.read(str(target))
        except recording.RecordingError:
            continue
        assert read.cut_short or read == whole, body[max(0, at - 40) : at + 20]


def test_a_recording_with_zeros_in_it_is_not_whole(tmp_path: Path) -> None:
    """As after a crash of a file system: of the size that was noted, and nothing in it."""
    shutil.copytree(host("h200-healthy"), tmp_path / "r")
    file = tmp_path / "r" / "evidence" / "python-env.out.txt"
    body = file.read_bytes()
    half = len(body) // 2
    file.write_bytes(bytes(half) + body[half:])
    evidence = recording.read(str(tmp_path / "r"))
    assert (evidence.cut_short, judge(evidence, KNOWLEDGE).verdict) == (True, "undecided")


@pytest.mark.parametrize("at", range(1, 6))
@pytest.mark.parametrize("before", [True, False])
def test_a_recording_that_is_to_be_replaced_stays_until_the_new_one_is_there(
    at: int, before: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal may come before or behind each of its moves."""
    target, rename, count = tmp_path / "r", os.rename, iter(range(1, 100))
    recording.write(EVIDENCE, str(target))

    def renamed(source: str, goal: str) -> None:
        now = next(count) == at
        if not (now and before):
            rename(source, goal)
        if now:
            raise KeyboardInterrupt

    monkeypatch.setattr(recording.os, "rename", renamed)
    newer = msgspec.structs.replace(EVIDENCE, time="2026-11-30T00:00:00Z")
    try:
        recording.write(newer, str(target), force=True)
    except KeyboardInterrupt:
        pass
    assert recording.read(str(target)).time == (EVIDENCE.time if at < 5 else newer.time)
    assert sorted(path.name for path in target.iterdir()) == ["evidence", recording.MEMBER]


@pytest.mark.parametrize("name", ["node", "python", "python_why", "distro", "host", "boot_id", "time"])
def test_what_is_said_of_a_recordings_origin_is_short(name: str, tmp_path: Path) -> None:
    """A megabyte of one word in 1,300 bytes of an archive took 47 s to be written on lines, outside of any limit."""
    recording.write(msgspec.structs.replace(EVIDENCE, **{name: "a" * 6000}), str(tmp_path / "r"))
    with pytest.raises(recording.RecordingError, match=f"has a {name} of more than 5000 characters"):
        recording.read(str(tmp_path / "r"))


def test_what_lies_behind_the_end_of_an_archive_is_read_no_longer_than_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recording.write(EVIDENCE, str(tmp_path / "r.tar.gz"))
    packed = gzip.decompress((tmp_path / "r.tar.gz").read_bytes()) + bytes(64 << 20)
    (tmp_path / "r.tar.gz").write_bytes(gzip.compress(packed))
    assert not recording.read(str(tmp_path / "r.tar.gz")).cut_short
    clock = iter(range(0, 10_000_000, 1))
    monkeypatch.setattr(archives.time, "process_time", lambda: next(clock) / 100)
    with pytest.raises(recording.RecordingError, match="it takes more than 5 s to unpack"):
        recording.read(str(tmp_path / "r.tar.gz"))


def test_blanks_are_gone_through_once() -> None:
    """64 MB of 599 blanks and a letter took nine seconds, before any limit counts."""
    began = time.process_time()
    assert torn.bytes_lost(None, (b" " * 599 + b"x") * 20_000, worker=False) == 0
    assert torn.bytes_lost(None, b"x" + b" " * 600, worker=False) == 1
    assert time.process_time() - began < 0.5


def test_a_last_line_longer_than_any_workers_is_not_taken_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """60 KB of an archive took 1.6 GB."""
    monkeypatch.setattr(torn, "json_object", lambda line: pytest.fail("read") if len(line) > 1 << 20 else {})
    long = b'{"a":[' + b"[]," * (1 << 19) + b"[]]"
    assert torn.bytes_lost(None, long + b"}\n", worker=True) == 0
    assert torn.bytes_lost(None, long + b"\n", worker=True) == 1


def test_of_many_remarks_as_many_are_read_as_anybody_reads(tmp_path: Path) -> None:
    """A head of 3.6 MB with a remark in every four bytes took two minutes to redact."""
    recording.write(EVIDENCE, str(tmp_path / "r"))
    head = json.loads((tmp_path / "r" / recording.MEMBER).read_bytes())
    head["origin"]["remarks"] = ["a" * 2000] * 1000
    del head["crc32"]
    (tmp_path / "r" / recording.MEMBER).write_text(json.dumps(head))
    assert sum(map(len, recording.read(str(tmp_path / "r")).remarks)) <= 200_000


@pytest.mark.parametrize(("path", "text"), [("evidence/notes.txt", "mine"), ("evidence/case/notes.txt", "mine"), ("recording.json", "{}")])
def test_force_replaces_what_is_a_recording_alone(path: str, text: str, tmp_path: Path) -> None:
    """What else lies among the evidence is somebody's own, and so is all of it where the list of it is none."""
    target = tmp_path / "case"
    recording.write(evidence_of("h200-healthy"), str(target))
    (target / path).parent.mkdir(exist_ok=True)
    (target / path).write_text(text)
    with pytest.raises(recording.RecordingError, match="is not empty: name another place"):
        recording.write(evidence_of("h200-healthy"), str(target), force=True)
    assert (target / path).read_text() == text
