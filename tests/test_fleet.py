"""Many machines in one picture: whatever is handed over is read or named, and each node counts once, under the name in its own report."""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import shutil
import subprocess
import tarfile
import time
import tracemalloc
import warnings
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cudadoctor.commands import reading_nodes
from cudadoctor.commands.fleet import _advise
from cudadoctor.fleet import picture
from cudadoctor.fleet.nodes import read
from cudadoctor.fleet.stragglers import Figures, find
from cudadoctor.model.fleet import Fleet, Measured, Missing, Node, NodeGpu, Straggler
from cudadoctor.report import fleet_text
from cudadoctor.report.json import render
from cudadoctor.report.page import Style
from cudadoctor.sources import fleet_files, inputs
from tests.bug_reports import of_host
from tests.command_line import host, run
from tests.judging import KNOWLEDGE, report_of

BROKEN, HEALTHY = "driver-not-loaded", "h200x2-bench"
LESS = {"d2d": False, "launch_latency": True, "fp32": False}


def report(name: str, node: str, **origin: Any) -> bytes:
    """What `check --format json` printed on a node."""
    body = json.loads(render(report_of(name)))
    body["origin"].update({"host": node, "boot_id": f"boot of {node}", "time": "2026-01-01T00:00:00Z", **origin})
    return json.dumps(body).encode()


def _slow(nodes: Sequence[Node]) -> list[Straggler]:
    return list(find(Figures(nodes, LESS), Figures((), LESS)))


def picture_of(*bodies: bytes) -> Fleet:
    found = [one for number, body in enumerate(bodies) for one in read(f"file{number}", body)]
    nodes, repeated = picture.each_once(one for one in found if isinstance(one, Node))
    missing = [one for one in found if isinstance(one, Missing)]
    return picture.paint(nodes, missing, (), _slow(nodes), _advise, repeated=repeated)


# ---------------------------------------------------------------- what is handed over
def test_whatever_holds_reports_is_read(tmp_path: Path) -> None:
    (tmp_path / "one.json").write_bytes(report(HEALTHY, "node001"))
    (tmp_path / "lines.jsonl").write_bytes(report(HEALTHY, "node002") + b"\n\n" + report(BROKEN, "node003") + b"\n")
    with tarfile.open(tmp_path / "more.tar.gz", "w:gz") as archive:
        body = report(BROKEN, "node004")
        member = tarfile.TarInfo("reports/x.json")
        member.size = len(body)
        archive.addfile(member, io.BytesIO(body))
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "half.json").write_bytes(report(HEALTHY, "node005")[:3000])
    (tmp_path / "deep" / "empty.json").write_bytes(b"")
    (tmp_path / "deep" / "later.json").write_text('{"schema": "cudadoctor.report/9", "verdict": "healthy"}')
    (tmp_path / "deep" / "notes.txt").write_text("not asked for")
    (tmp_path / "link.json").symlink_to(tmp_path / "one.json")
    ended = run("fleet", str(tmp_path), "-", "--format", "json", stdin=report(BROKEN, "node006"))
    found = json.loads(ended.out)
    assert ended.code == 1
    assert (found["nodes"], found["verdicts"]) == (5, {"broken": 3, "healthy": 2})
    assert sorted(Path(one["source"]).name for one in found["missing"]) == ["empty.json", "half.json", "later.json"]
    assert all(one["why"] for one in found["missing"])
    assert {name for group in found["groups"] for name in group["nodes"]} == {f"node00{number}" for number in (1, 2, 3, 4, 6)}


def test_what_is_named_like_a_report_and_is_no_file_is_told(tmp_path: Path) -> None:
    """A node whose report was not read may be the broken one. A link to what is read anyway is none of these."""
    (tmp_path / "outside.json").write_bytes(report(BROKEN, "n2"))
    folder, archive = tmp_path / "d", tmp_path / "t.tar"
    folder.mkdir()
    (folder / "a.json").write_bytes(report(HEALTHY, "n1"))
    (folder / "latest.json").symlink_to("a.json")
    os.link(folder / "a.json", folder / "same.json")
    (folder / "b.json").symlink_to(tmp_path / "outside.json")
    (folder / "d.json.gz").write_bytes(b"")
    os.mkfifo(folder / "c.json")
    with tarfile.open(archive, "w") as packed:
        packed.add(folder, "d")
    for place in (folder, archive):
        ended = run("fleet", str(place), "--format", "json")
        found = json.loads(ended.out)
        assert (ended.code, found["nodes"]) == (3, 1)
        assert {Path(one["source"]).name for one in found["missing"]} == {"b.json", "c.json", "d.json.gz"}


def _archive(path: Path, *members: tuple[str, bytes]) -> None:
    """With members of one name as often as they are given, as `tar rf` and `zip` by a script leave them."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as packed, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for name, body in members:
                packed.writestr(name, body)
        return
    with tarfile.open(path, "w:xz" if path.suffix == ".txz" else "w") as archive:
        for name, body in members:
            member = tarfile.TarInfo(name)
            member.size = len(body)
            archive.addfile(member, io.BytesIO(body))


@pytest.mark.parametrize("name", ["all.tar", "all.zip", "all.txz", "ALL.TAR"])
def test_members_of_one_name_are_reports_each(name: str, tmp_path: Path) -> None:
    """As when each node appends its own report.json."""
    _archive(tmp_path / name, ("report.json", report(BROKEN, "n1")), ("report.json", report(HEALTHY, "n2")))
    found = json.loads(run("fleet", str(tmp_path), "--format", "json").out)
    assert (found["nodes"], found["verdicts"]) == (2, {"broken": 1, "healthy": 1})


def test_a_report_beside_a_recording_is_read_too(tmp_path: Path) -> None:
    folder, archive = tmp_path / "d", tmp_path / "t.tar"
    shutil.copytree(host(HEALTHY), folder)
    (folder / "other.JSON").write_bytes(report(BROKEN, "n2"))
    with tarfile.open(archive, "w") as packed:
        packed.add(folder, "d")
    for place in (folder, archive):
        found = json.loads(run("fleet", str(place), "--format", "json").out)
        assert (found["nodes"], found["verdicts"], found["missing"]) == (2, {"broken": 1, "healthy": 1}, [])


@pytest.mark.parametrize("how", ["an escape", "UTF-16", "a beginning that is lost"])
def test_what_lies_beside_a_recording_and_cannot_be_read_is_told(how: str, tmp_path: Path) -> None:
    """Only JSON that is no report is its owner's note; below the recording too."""
    shutil.copytree(host(HEALTHY), tmp_path / "d")
    (tmp_path / "d" / "sub").mkdir()
    (tmp_path / "d" / "sub" / "slurm.json").write_text('{"job": 7}')
    body = report(BROKEN, "n2")
    body = {
        "an escape": body.replace(b"report/1", b"report\\/1"),
        "UTF-16": body.decode().encode("utf-16"),
        "a beginning that is lost": body[40:],
    }[how]
    (tmp_path / "d" / "n2.json").write_bytes(body)
    found = json.loads(run("fleet", str(tmp_path / "d"), "--format", "json").out)
    assert (found["verdicts"].get("broken"), len(found["missing"])) in ((1, 0), (None, 1))


def test_an_archive_within_one_is_told(tmp_path: Path) -> None:
    _archive(tmp_path / "inner.tgz", ("b.json", report(BROKEN, "n2")))
    _archive(tmp_path / "outer.zip", ("a.json", report(HEALTHY, "n1")), ("inner.tgz", (tmp_path / "inner.tgz").read_bytes()))
    ended = run("fleet", str(tmp_path / "outer.zip"), "--format", "json")
    assert ended.code == 3
    assert [one["source"].rpartition(":")[2] for one in json.loads(ended.out)["missing"]] == ["inner.tgz"]


def test_recordings_are_judged_and_what_is_not_there_is_named() -> None:
    ended = run("fleet", host("h200-healthy"), host(BROKEN), "/no/such/file", "--format", "json")
    found = json.loads(ended.out)
    assert [(group["verdict"], group["cause"]) for group in found["groups"]] == [("broken", BROKEN), ("healthy", None)]
    assert [one["source"] for one in found["missing"]] == ["/no/such/file"]


def test_nothing_but_broken_files_is_no_healthy_fleet(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{")
    ended = run("fleet", str(tmp_path))
    assert ended.code == 3
    assert ended.out.startswith("UNDECIDED")


# ---------------------------------------------------------------- identity
def test_a_node_counts_once_by_its_own_name_and_newest_report() -> None:
    """Whatever the file is called: an engine may hand over one node's answer as another's."""
    found = picture_of(
        report(BROKEN, "node001", time="2026-01-01T00:00:00Z"),
        report(HEALTHY, "node001", time="2026-01-02T00:00:00Z"),
        report(HEALTHY, "node002"),
    )
    assert (found.nodes, found.repeated, found.verdicts) == (2, 1, {"healthy": 2})
    assert found.groups[0].nodes == ("node001", "node002")


def test_a_report_of_a_release_that_did_not_say_its_host_has_the_name_of_its_file() -> None:
    body = json.loads(report(HEALTHY, "x"))
    for name in ("host", "boot_id", "time"):
        del body["origin"][name]
    assert picture_of(json.dumps(body).encode()).groups[0].nodes == ("file0",)


# ---------------------------------------------------------------- causes and drift
def test_the_largest_fault_stands_first_and_one_fix_is_one_command() -> None:
    found = picture_of(*(report(BROKEN, f"node{number:03}") for number in range(3)), report("h200-visible-devices-word", "x"), report(HEALTHY, "y"))  # fmt: skip
    assert [(group.cause, len(group.nodes)) for group in found.groups] == [(BROKEN, 3), ("cuda-visible-devices-hides-all", 1), (None, 1)]
    assert found.groups[1].command == "unset CUDA_VISIBLE_DEVICES"
    assert found.exit_code == 1


def test_a_command_stands_below_the_words_of_its_step() -> None:
    out = run("fleet", host("h200-no-nodes")).out
    assert 0 < out.index("Create the device files") < out.index("mknod")


def test_a_strangers_words_links_and_commands_are_not_taken_over(tmp_path: Path) -> None:
    """Of a report counts which cause it names; what is known of that is our own."""
    bodies = []
    for cause in ("cuda-visible-devices-hides-all", "made-up-cause"):
        body = json.loads(report("h200-visible-devices-word", cause))
        body["diagnosis"]["root"].update(cause=cause, title="All is EVIL", url="javascript:EVIL")
        body["prescription"]["steps"][0].update(shell="curl EVIL | sh\n\nHEALTHY", text="EVIL")
        bodies.append(body)
        (tmp_path / f"{cause}.json").write_text(json.dumps(body))
    found = picture_of(*(json.dumps(body).encode() for body in bodies))
    assert [(group.title, group.command) for group in found.groups] == [
        ("A cause that this release does not know", None),
        ("CUDA_VISIBLE_DEVICES hides every GPU", "unset CUDA_VISIBLE_DEVICES"),
    ]
    for form in ("text", "html", "json", "junit", "prometheus"):
        assert "EVIL" not in run("fleet", str(tmp_path), "--format", form).out


@pytest.mark.parametrize("time", ["~9999", "9999-01-01T00:00:00Z", "2026-01-01T00:00:00Zz", None])
def test_a_report_of_no_time_or_of_tomorrow_replaces_no_other(time: str | None, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(report(BROKEN, "n1"))
    (tmp_path / "b.json").write_bytes(report(HEALTHY, "n1", time=time))
    found = json.loads(run("fleet", str(tmp_path), "--format", "json").out)
    assert (found["verdicts"], found["repeated"]) == ({"broken": 1}, 1)


@pytest.mark.parametrize(
    ("names", "folded"),
    [
        (["node001", "node002", "node003", "node007"], "node[001-003,007]"),
        (["n9", "n10", "n11", "n1"], "n[1,9-11]"),
        (["n09", "n9", "n10"], "n[9,09-10]"),
        (["gpu-a100-01", "gpu-a100-02", "gpu-h100-01"], "gpu-a100-[01-02], gpu-h100-01"),
        (["login", "n1.rack2.site", "n2.rack2.site"], "login, n1.rack2.site, n2.rack2.site"),
        (["a1b", "a2b"], "a[1-2]b"),
        ([], ""),
    ],
)
def test_names_that_differ_in_their_last_number_stand_together(names: list[str], folded: str) -> None:
    assert fleet_text.folded(names) == folded


def test_no_file_brings_more_reports_than_are_merged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (node,) = read("x", report(HEALTHY, "n"))
    assert isinstance(node, Node)
    monkeypatch.setattr(reading_nodes, "MOST_REPORTS", 3 * reading_nodes.weight(node))
    (tmp_path / "all.jsonl").write_bytes(b"\n".join(report(HEALTHY, f"n{number}") for number in range(9)))
    found = json.loads(run("fleet", str(tmp_path), "--format", "json").out)
    assert found["nodes"] == 3
    assert f"{reading_nodes.MOST_REPORTS} reports are as many as are merged" in found["missing"][0]["why"]


def test_no_file_brings_more_demands_than_memory_has_room_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = {**json.loads(report(HEALTHY, "n")), "benchmark": []}
    body["requirements"] = [{}] * 1000 + [{"text": "gpus >= 8", "met": False}] * 20
    assert [len(node.demands) for node in read("x", json.dumps(body).encode()) if isinstance(node, Node)] == [1]
    body["requirements"] = [{"text": f"gpus >= {number}"} for number in range(1000)]
    monkeypatch.setattr(reading_nodes, "MOST_REPORTS", 3 + 2 * 1000 // reading_nodes.PARTS)
    (tmp_path / "all.jsonl").write_text("\n".join(json.dumps({**body, "origin": {"host": f"n{number}"}}) for number in range(9)))
    assert json.loads(run("fleet", str(tmp_path), "--format", "json").out)["nodes"] == 3


def test_a_long_word_of_a_report_counts_wherever_it_stands() -> None:
    """Sixteen files of 288 KB took 3.9 GB: names of 4,000 letters, one of which needs four bytes, and UUIDs of the same kind."""
    body = json.loads(report(HEALTHY, "n"))
    (plain,) = read("x", json.dumps(body).encode())
    long = "\U0001f600" + "a" * 4000
    body["origin"] |= {"host": long, "boot_id": long}
    body["machine"]["gpus"] = [{**gpu, "uuid": long} for gpu in body["machine"]["gpus"]]
    (heavy,) = read("x", json.dumps(body).encode())
    assert isinstance(plain, Node) and isinstance(heavy, Node)  # noqa: PT018
    assert reading_nodes.weight(heavy) >= reading_nodes.weight(plain) + 3 * 4 * 4000 // reading_nodes.LETTERS - 1


def test_two_machines_with_the_name_of_their_image_are_two(tmp_path: Path) -> None:
    """The second one's latest report shows no GPU, and comes before and after others."""
    shown = (("a", "GPU-a", "broken", 1), ("b", "GPU-b", "healthy", 2), ("c", "GPU-b", "broken", 0), ("d", None, "healthy", 3))
    for name, uuid, verdict, minute in (*shown, ("e", "GPU-b", "healthy", 4), ("f", None, "broken", 5)):
        body = json.loads(report(HEALTHY, "localhost"))
        body |= {"verdict": verdict, "machine": {"gpus": [{"index": 0, "uuid": uuid}] if uuid else []}, "benchmark": []}
        body["origin"]["time"] = f"2026-11-20T10:0{minute}:00Z"
        (tmp_path / f"{name}.json").write_text(json.dumps(body))
    found = json.loads(run("fleet", str(tmp_path), "--format", "json").out)
    assert {(group["verdict"], *group["nodes"]) for group in found["groups"]} == {("broken", "localhost"), ("healthy", "localhost (GPU-b)")}


def test_gpus_take_room_like_demands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A zip of 600 kB became 740 MB of GPUs that say nothing."""
    one = {**json.loads(report(HEALTHY, "n")), "machine": {"gpus": [{"index": number} for number in range(1000)]}, "benchmark": []}
    monkeypatch.setattr(reading_nodes, "MOST_REPORTS", 3 + 3 * 1000 // reading_nodes.PARTS)
    (tmp_path / "all.jsonl").write_text("\n".join(json.dumps({**one, "origin": {"host": f"n{number}"}}) for number in range(9)))
    assert json.loads(run("fleet", str(tmp_path), "--format", "json").out)["nodes"] == 3


def test_lines_are_numbered_as_an_editor_does(tmp_path: Path) -> None:
    found = list(read("x", b"\n\n" + report(HEALTHY, "n1") + b"\n \t\n{\n"))
    assert [one.source for one in found] == ["x, line 3", "x, line 5"]


@pytest.mark.parametrize("body", [b"{}\n{" + b"a" * (24 << 20), b" " + b"0" * (24 << 20) + b"\n"])
def test_a_large_file_is_held_once(body: bytes, tmp_path: Path) -> None:
    """With each copy of it on the way a file of a stranger's took half a gigabyte."""
    (tmp_path / "x.json").write_bytes(body)
    tracemalloc.start()
    try:
        assert inputs.of_path(str(tmp_path / "x.json")).body == body
        read_in = tracemalloc.get_traced_memory()[1]
        tracemalloc.reset_peak()
        assert any(isinstance(found, Missing) for found in read("x.json", body))
        judged_in = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert read_in < 1.4 * len(body)
    assert judged_in < 0.4 * len(body)


def test_no_file_ends_the_run_or_holds_it(tmp_path: Path) -> None:
    """A figure beyond all measure, a folder of more than a thousand levels, a file of a million broken lines."""
    body = json.loads(report(HEALTHY, "n1"))
    for figure, value in zip(body["benchmark"], (1e-320, 1e308, -1.0), strict=False):
        figure.update(value=value, clock_mhz=1e-300)
    (tmp_path / "n1.json").write_text(json.dumps(body))
    (tmp_path / "lines.jsonl").write_bytes(b"{\n" * 1_000_000)
    deep = os.open(tmp_path, os.O_RDONLY)
    for _ in range(1100):
        os.mkdir("d", dir_fd=deep)
        inner = os.open("d", os.O_RDONLY, dir_fd=deep)
        os.close(deep)
        deep = inner
    os.close(deep)
    try:
        began = time.process_time()
        ended = run("fleet", str(tmp_path), "--format", "json")
        assert time.process_time() - began < 10
    finally:
        subprocess.run(["rm", "-rf", str(tmp_path / "d")], check=True)
    found = json.loads(ended.out)
    assert (ended.code, found["nodes"]) == (3, 1)
    assert any("not read beyond line" in one["why"] for one in found["missing"])


def test_ten_thousand_gpus_that_are_gone_are_told_soon() -> None:
    base = next(read("x", report(HEALTHY, "n1")))
    assert isinstance(base, Node)
    gpus = [tuple(NodeGpu(number=at, uuid=f"GPU-{of}-{at}", name="H200") for at in range(10_000)) for of in "ab"]
    before, now = (msgspec.structs.replace(base, gpus=some) for some in gpus)
    began = time.process_time()
    assert len(picture.worse([now], [before])) == 10_000
    assert time.process_time() - began < 2


def test_who_drifts_from_the_majority_is_named() -> None:
    bodies = [json.loads(report(HEALTHY, f"n{number}")) for number in range(5)]
    bodies[3]["machine"]["driver"]["module"] = "535.1"
    found = picture_of(*(json.dumps(body).encode() for body in bodies))
    (drift,) = found.drift
    assert (drift.setting, drift.usual, drift.count) == ("driver", "580.159.04", 4)
    assert [(one.value, one.nodes) for one in drift.odd] == [("535.1", ("n3",))]


def test_without_a_majority_all_values_are_told() -> None:
    bodies = [json.loads(report(HEALTHY, f"n{number}")) for number in range(4)]
    for number in (0, 1):
        bodies[number]["machine"]["driver"]["module"] = "535.1"
    (drift,) = picture_of(*(json.dumps(body).encode() for body in bodies)).drift
    assert drift.usual is None
    assert [len(one.nodes) for one in drift.odd] == [2, 2]


def test_a_gpu_that_was_not_measured_beside_others_is_named() -> None:
    body = json.loads(report(HEALTHY, "busy"))
    body["benchmark"] = [figure for figure in body["benchmark"] if figure["gpu"] == 0]
    (note,) = picture_of(report(HEALTHY, "whole"), json.dumps(body).encode()).notes
    assert "busy GPU 1." in note
    assert "--busy" in note


# ---------------------------------------------------------------- stragglers
def nodes_of(values: list[float], figure: str = "d2d", **more: Any) -> list[Node]:
    base = next(read("x", report(HEALTHY, "x")))
    assert isinstance(base, Node)

    def gpu(number: int, value: float) -> NodeGpu:
        measured = Measured(name=figure, value=value, unit="GB/s", equal=("H200", "", ""), **more)
        return NodeGpu(number=number % 8, uuid=f"GPU-{number}", name="H200", figures=(measured,))

    return [msgspec.structs.replace(base, name=f"n{number // 8}", gpus=(gpu(number, value),)) for number, value in enumerate(values)]


def slow_ones(nodes: list[Node], past: Sequence[Node] = ()) -> list[Straggler]:
    return list(find(Figures(nodes, LESS), Figures(past, LESS)))


def flagged(values: list[float], earlier: list[list[float]] | None = None, figure: str = "d2d") -> list[str]:
    past = [node for run_ in earlier or [] for node in nodes_of(run_, figure)]
    return sorted(one.uuid or "" for one in slow_ones(nodes_of(values, figure), past))


def scattered(count: int, spread: float, seed: int = 1) -> list[float]:
    chance = random.Random(seed)
    return [chance.gauss(1000.0, 1000.0 * spread) for _ in range(count)]


@pytest.mark.parametrize(("count", "spread"), [(8, 0.005), (64, 0.02), (1000, 0.02)])
def test_a_gpu_ten_percent_slow_is_found_and_no_other(count: int, spread: float) -> None:
    values = scattered(count, spread)
    values[5] = 900.0 * (1 - spread)
    assert flagged(values) == ["GPU-5"]


def test_several_slow_ones_do_not_hide_each_other() -> None:
    values = scattered(16, 0.005)
    for place in (2, 7, 11):
        values[place] *= 0.85
    assert flagged(values) == ["GPU-11", "GPU-2", "GPU-7"]


def test_where_less_is_better_more_is_slow() -> None:
    values = scattered(12, 0.005)
    values[4] *= 1.25
    assert flagged(values, figure="launch_latency") == ["GPU-4"]
    assert flagged(values, figure="d2d") == []


def test_few_gpus_are_not_judged_against_each_other() -> None:
    assert flagged([1000.0, 500.0]) == []
    assert flagged([1000.0, 1000.0, 1000.0, 700.0]) == []


def test_two_gpus_are_judged_by_what_they_were() -> None:
    assert flagged([1000.0, 900.0], [[1000.0 + number, 1001.0 - number] for number in range(4)]) == ["GPU-1"]


def test_who_falls_behind_itself_is_found_though_others_are_as_slow() -> None:
    """GPU 0 was the fastest of a wide field."""
    usual = [1000.0, 900, 880, 920, 890, 910, 905, 895]
    chance = random.Random(3)
    past = [[value * chance.gauss(1, 0.002) for value in usual] for _ in range(6)]
    found = slow_ones(nodes_of([910.0, *usual[1:]]), [node for one in past for node in nodes_of(one)])
    assert [(one.uuid, one.against) for one in found] == [("GPU-0", "history")]


def test_a_lower_clock_is_no_slower_gpu() -> None:
    nodes = [node for number in range(8) for node in nodes_of([60.0 + number / 100], "fp32", clock_mhz=1980.0)]
    nodes = [msgspec.structs.replace(node, name=f"n{number}") for number, node in enumerate(nodes)]
    slow = nodes_of([60.0 * 1500 / 1980], "fp32", clock_mhz=1500.0)
    assert slow_ones([*nodes, msgspec.structs.replace(slow[0], name="slow")]) == []


def test_equal_figures_and_zeros_are_no_error() -> None:
    assert flagged([1000.0] * 20) == []
    assert flagged([0.0] * 20) == []
    assert flagged([1000.0] * 20 + [900.0]) == ["GPU-20"]


@pytest.mark.parametrize(("key", "count"), [("gpus", 1025), ("requirements", 1025), ("benchmark", (1 << 16) + 1)])
def test_a_report_of_more_than_a_machine_can_have_is_none(key: str, count: int) -> None:
    body = json.loads(report(HEALTHY, "node"))
    held = body["machine"] if key == "gpus" else body
    held[key] = [{"gpu": 0, "name": "h2d"} if key == "benchmark" else {}] * count
    found = list(read("file", json.dumps(body).encode()))
    assert len(found) == 1
    assert isinstance(found[0], Missing)
    assert "no report" in found[0].why


# ---------------------------------------------------------------- what a person reads
def test_two_thousand_nodes_are_one_screen() -> None:
    base = [next(read(name, report(name, name))) for name in (HEALTHY, BROKEN)]
    assert all(isinstance(one, Node) for one in base)
    nodes = [msgspec.structs.replace(base[number % 50 == 0], name=f"node{number:04}") for number in range(2000)]  # type: ignore[type-var]
    found = picture.paint(
        nodes,
        [Missing(source=f"node{number}", why=f"no answer within {number} s") for number in range(9)],
        (),
        _slow(nodes),
        _advise,
    )  # type: ignore[arg-type]
    folded = fleet_text.render(found, KNOWLEDGE, Style(width=80))
    assert "40 of 2000 nodes broken; 1960 of 2000 nodes healthy; 9 gave no report" in folded
    assert "and 3 more (-v)" in folded
    assert len(folded.splitlines()) < 40


def test_node_sets_are_folded(tmp_path: Path) -> None:
    (tmp_path / "all.jsonl").write_bytes(b"\n".join(report(BROKEN, f"node{number:03}") for number in range(1, 38)))
    out = run("fleet", str(tmp_path)).out
    assert "37 nodes broken: The driver is installed but its kernel module is not loaded [driver-not-loaded]" in out
    assert "node[001-037]" in out


def test_words_of_a_node_stay_words(tmp_path: Path) -> None:
    body = json.loads(report(BROKEN, "x\x1b]0;owned\x07\n::error::y"))
    body["diagnosis"]["root"]["evidence"][0]["text"] = "\x1b[2J\u202eevil"
    (tmp_path / "a.json").write_text(json.dumps(body))
    out = run("fleet", str(tmp_path), "--color", "never").out
    assert "\x1b" not in out
    assert "\u202e" not in out
    assert not any(line.startswith("::") for line in out.splitlines())


def test_nodes_that_should_be_there_and_are_not_are_named(tmp_path: Path) -> None:
    (tmp_path / "all.jsonl").write_bytes(b"\n".join(report(HEALTHY, f"n{number}.cluster") for number in (1, 2, 4)))
    ended = run("fleet", str(tmp_path), "--expect", "n[1-6]")
    assert ended.code == 3
    assert "3 gave no report" in ended.out
    assert "n[3,5-6]: no report of this node" in ended.out
    for wrong in ("n[1-", "n[1-9999999]", "n[1-3000]-[1-3000]"):
        assert run("fleet", str(tmp_path), "--expect", wrong).code == 2


@pytest.mark.parametrize("name", ["node[1-999999999]", "@all", "@*", "a,b", "n[1-3]!n2", "x y", "", "n" * 300])
def test_a_hostile_name_is_neither_expanded_nor_looked_up(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ClusterShell would run a command for a group and count a thousand million nodes."""
    from ClusterShell import NodeUtils

    def called(*_: Any, **__: Any) -> None:
        raise AssertionError("a group was looked up")

    monkeypatch.setattr(NodeUtils.UpcallGroupSource, "_upcall_read", called)
    (tmp_path / "a.jsonl").write_bytes(report(BROKEN, name) + b"\n" + report(BROKEN, "n7"))
    out = run("fleet", str(tmp_path), "-v").out
    assert "2 nodes broken" in out
    assert not name or name[:40] in out


# ---------------------------------------------------------------- demands
def test_demands_that_reports_do_not_meet_are_told_once_for_their_nodes(tmp_path: Path) -> None:
    """A report says itself what was demanded; a recording is held against this run's demands."""
    for node, met in (("n1", False), ("n2", False), ("n3", True), ("n4", None)):
        body = json.loads(report(HEALTHY, node))
        said = {"found": "2", "why": None} if met is not None else {"found": None, "why": "nvidia-smi was not recorded"}
        body["requirements"] = [{"text": "gpus>=8", "met": met, **said}]
        (tmp_path / f"{node}.json").write_text(json.dumps(body))
    found = json.loads(run("fleet", str(tmp_path), host(HEALTHY), "--require", "gpus>=4", "--format", "json").out)
    unmet = {(one["text"], one["met"]): one for one in found["demands"]}
    assert unmet["gpus>=8", False]["nodes"] == ["n1", "n2"]
    assert unmet["gpus>=8", None]["nodes"] == ["n4"]
    assert len(unmet["gpus>=4", False]["nodes"]) == 1
    assert "2" in unmet["gpus>=4", False]["found"]
    assert found["exit_code"] == 1
    shown = run("fleet", str(tmp_path)).out
    assert "n[1-2]: gpus>=8: not met (2)" in shown
    assert "n4: gpus>=8: not known (nvidia-smi was not recorded)" in shown
    assert (
        'cudadoctor_fleet_unmet_nodes{requirement="gpus>=8",met="unknown"} 1' in run("fleet", str(tmp_path), "--format", "prometheus").out
    )


def test_what_a_report_was_not_asked_is_not_known_of_its_node(tmp_path: Path) -> None:
    """Silence would pass a gate that nothing was put to."""
    bodies = [json.loads(report(HEALTHY, node)) for node in ("n1", "n2")]
    bodies[1]["requirements"] = [{"text": "gpus>=2", "met": True, "found": "2", "why": None}]
    (tmp_path / "all.jsonl").write_text("\n".join(map(json.dumps, bodies)))
    found = run("fleet", str(tmp_path), "--require", "gpus>=2")
    assert found.code == 1
    assert "n1: gpus>=2: not known (the report was made without this demand" in found.out
    assert run("fleet", str(tmp_path)).code == 0


@pytest.mark.parametrize("host", ["n" * 5000, "\n" * 5000])
def test_a_name_that_no_node_has_floods_nobody(host: str) -> None:
    (missing,) = read("a.json", report(HEALTHY, host))
    assert isinstance(missing, Missing)
    assert len(missing.why) < 200


def test_words_take_room_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A MB of zips became a GB of words with a letter of four bytes in each."""
    body = {**json.loads(report(HEALTHY, "n")), "benchmark": []}
    body["requirements"] = [{"text": f"{number}\U0001f600{'x' * 4000}"} for number in range(10)]
    monkeypatch.setattr(reading_nodes, "MOST_REPORTS", 3 + 4 * 10 * 16_000 // reading_nodes.LETTERS)
    (tmp_path / "all.jsonl").write_text("\n".join(json.dumps({**body, "origin": {"host": f"n{number}"}}) for number in range(9)))
    assert json.loads(run("fleet", str(tmp_path), "--format", "json").out)["nodes"] == 4


def test_a_note_beside_a_recording_is_not_taken_apart() -> None:
    """60 KB of a zip took 1.6 GB."""
    note = fleet_files.Piece("x", body=b'{"a":[' + b"[]," * 300_000 + b"[]]}")
    tracemalloc.start()
    assert not fleet_files._is_no_note(note)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100_000
    assert fleet_files._is_no_note(fleet_files.Piece("x", body=b'{"schema": "cudadoctor.report/9"}'))


def test_what_lies_in_a_folder_and_is_not_read_is_said(tmp_path: Path) -> None:
    """A link is passed over only where what it leads to is read by its own name."""
    folder, elsewhere = tmp_path / "reports", tmp_path / "elsewhere"
    for path in (folder / "run-1", folder / "blobs", elsewhere):
        path.mkdir(parents=True)
    (folder / "run-1" / "a.json").write_bytes(report(HEALTHY, "n1"))
    (folder / "latest").symlink_to("run-1")
    (folder / "a.json").symlink_to("run-1/a.json")
    whole = run("fleet", str(folder))
    assert (whole.code, "Not read" in whole.out) == (0, False)
    (folder / "notes.txt").write_text("mine")
    noted = run("fleet", str(folder))
    assert (noted.code, f"Not read in {folder}: notes.txt." in " ".join(noted.out.split())) == (0, True)
    (folder / "blobs" / "8f7a").write_bytes(report(BROKEN, "n2"))
    (folder / "b.json").symlink_to("blobs/8f7a")
    (folder / "rack-2").symlink_to(elsewhere)
    found = json.loads(run("fleet", str(folder), "--format", "json").out)
    assert [one["source"] for one in found["missing"]] == [str(folder / "b.json"), str(folder / "rack-2")]
    assert found["exit_code"] == 3


def test_a_bug_report_in_a_folder_is_a_node(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(report(HEALTHY, "n1"))
    (tmp_path / "nvidia-bug-report.log.gz").write_bytes(gzip.compress(of_host("gpu-fell-off-bus").encode()))
    found = json.loads(run("fleet", str(tmp_path), "--format", "json").out)
    assert (found["verdicts"], found["missing"]) == ({"broken": 1, "healthy": 1}, [])
