"""Every recorded machine gets the verdict that its expected.json states; and what a recording lacks never accuses nor absolves."""

from __future__ import annotations

import itertools
import json
import random
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cudadoctor.judge.stages import judge
from cudadoctor.knowledge.load import Knowledge, load
from cudadoctor.model.evidence import NOT_SHOWN, Evidence
from cudadoctor.model.report import Report
from cudadoctor.sources import recording
from cudadoctor.sources.redact import redact
from cudadoctor.sources.sensitive import GONE
from tests.cases import every
from tests.command_line import MISLED, changed, evidence_of
from tests.judging import cause_of, report_of

HOSTS = Path(__file__).resolve().parent.parent / "fixtures" / "hosts"
NAMES = sorted(path.name for path in HOSTS.iterdir() if (path / "recording.json").exists())


@pytest.fixture(scope="module")
def knowledge() -> Knowledge:
    return load()


def ids(report: Report) -> dict[str, list[str]]:
    diagnosis = report.diagnosis
    return {
        "root": [diagnosis.root.cause] if diagnosis.root else [],
        "suspects": [finding.cause for finding in diagnosis.suspects],
        "explains": [finding.cause for finding in diagnosis.explains],
        "also": [finding.cause for finding in diagnosis.also],
    }


@every("name", NAMES)
def test_verdict(name: str) -> None:
    expected: dict[str, Any] = json.loads((HOSTS / name / "expected.json").read_text("utf-8"))
    report = report_of(name)
    assert report.diagnosis.crashes == ()
    assert (report.verdict, cause_of(report)) == (expected["verdict"], expected["root"])
    assert report.exit_code == expected["exit_code"]
    assert report.action == expected["action"]
    assert {row.id: row.status for row in report.checks} == expected["rows"]
    assert sorted(ids(report)["also"]) == sorted(expected.get("also", []))
    blocking = [finding for finding in report.diagnosis.also if finding.effect == "blocks"]
    assert len(blocking) == len(expected.get("also_blocking", []))


@every("name", NAMES)
def test_every_finding_quotes_the_machine(name: str) -> None:
    diagnosis = report_of(name).diagnosis
    for finding in (*((diagnosis.root,) if diagnosis.root else ()), *diagnosis.explains, *diagnosis.also, *diagnosis.suspects):
        assert finding.evidence, f"{finding.cause} shows no line"
        assert all(quote.text.strip() for quote in finding.evidence), f"{finding.cause} quotes an empty line"


def blamed(report: Report) -> set[str]:
    diagnosis = report.diagnosis
    found = (*((diagnosis.root,) if diagnosis.root else ()), *diagnosis.explains, *diagnosis.also)
    return {finding.cause for finding in found if finding.effect == "blocks"}


def found(report: Report) -> set[str]:
    diagnosis = report.diagnosis
    return {finding.cause for finding in (*((diagnosis.root,) if diagnosis.root else ()), *diagnosis.explains, *diagnosis.also)}


def subsets(evidence: Evidence, seed: str) -> list[frozenset[str]]:
    """Each item, each pair, and 100 random subsets (seeded), to be dropped."""
    names = [item.id for item in evidence.items]
    drawn = random.Random(seed)
    some = [frozenset(drawn.sample(names, drawn.randint(2, max(2, len(names) - 1)))) for _ in range(100)]
    return [frozenset({one}) for one in names] + [frozenset(pair) for pair in itertools.combinations(names, 2)] + some


@pytest.mark.parametrize("many", [2, pytest.param(48, marks=pytest.mark.long)])
@every("name", [name for name in NAMES if name not in MISLED])
def test_ignorance_never_accuses_nor_absolves(name: str, many: int, knowledge: Knowledge) -> None:
    evidence, whole = evidence_of(name), report_of(name)
    bad_rows = {row.id for row in whole.checks if row.status in ("fail", "warn")}
    everything = found(whole)
    root = whole.diagnosis.root
    tried = {knowledge.cause(root.cause).row} if root is not None and root.proof is not None else set()  # nothing is tried without a climb
    chosen = subsets(evidence, name)
    for dropped in random.Random(name).sample(chosen, min(len(chosen), many)):
        less = judge(msgspec.structs.replace(evidence, items=tuple(item for item in evidence.items if item.id not in dropped)), knowledge)
        assert blamed(less) <= everything, f"without {sorted(dropped)}: {blamed(less) - everything} is accused"
        unproven = tried if any(item == "ladder" or item.startswith("try-") for item in dropped) else set()
        absolved = {row.id for row in less.checks if row.status == "pass"} & (bad_rows - unproven)
        assert not absolved, f"without {sorted(dropped)}: {absolved} pass"


@every("name", NAMES, share=3)
def test_a_recording_is_read_back_as_it_was(name: str, tmp_path: Path) -> None:
    for target in (name, f"{name}.tar.gz") if name in NAMES[::2] else (name,):
        recording.write(evidence_of(name), str(tmp_path / target))
        assert recording.read(str(tmp_path / target)) == evidence_of(name)


@every("name", NAMES, share=16)
def test_what_names_nobody_is_judged_alike(name: str, knowledge: Knowledge, tmp_path: Path) -> None:
    report = report_of(name)
    recording.write(redact(evidence_of(name)), str(tmp_path / name))
    redacted = judge(recording.read(str(tmp_path / name)), knowledge)
    assert (redacted.verdict, redacted.exit_code, redacted.action, ids(redacted)) == (
        report.verdict,
        report.exit_code,
        report.action,
        ids(report),
    )
    assert redacted.diagnosis.ruled_out == report.diagnosis.ruled_out
    assert [(row.id, row.status) for row in redacted.checks] == [(row.id, row.status) for row in report.checks]


def test_each_row_is_seen_in_each_state() -> None:
    """Some host shows each row passing, some shows it warning or failing, some skipped or unknown."""
    seen: dict[str, set[str]] = {}
    for name in NAMES:
        for row in report_of(name).checks:
            seen.setdefault(row.id, set()).add(row.status)
    lacking = [
        f"{row}: no host where it {word}"
        for row, states in seen.items()
        for word, wanted in (("passes", {"pass"}), ("warns or fails", {"warn", "fail"}), ("is skipped or unknown", {"skip", "unknown"}))
        if not states & wanted
    ]
    assert not lacking, "add host fixtures: " + "; ".join(lacking)


@pytest.mark.parametrize(
    ("name", "cause", "variable"),
    [
        ("h200-libcuda-hidden", "libcuda-missing", "LD_LIBRARY_PATH"),
        ("numba-without-toolkit", "toolkit-missing", "CUDA_HOME"),
        ("h200-cuda-home-absent", "cuda-home-wrong", "CUDA_HOME"),
    ],
)
def test_what_a_child_did_not_get_is_not_absent(name: str, cause: str, variable: str, knowledge: Knowledge) -> None:
    """Where root's children got less than the user's program does, what they did not find is not known to be missing."""
    evidence = recording.read(HOSTS / name)
    assert cause in blamed(judge(evidence, knowledge))
    withheld = tuple(
        msgspec.structs.replace(
            item, stdout=(item.stdout or "").replace('"event": "start",', f'"event": "start", "withheld": ["{variable}"],')
        )
        for item in evidence.items
    )
    report = judge(msgspec.structs.replace(evidence, items=withheld), knowledge)
    assert cause not in blamed(report)
    assert (report.verdict, report.diagnosis.root) == ("undecided", None)
    assert f"entries of {variable} were left out" in str(report.diagnosis.ask)


def test_a_kernel_that_ran_with_another_driver_library_proves_nothing(knowledge: Knowledge) -> None:
    """Where the user's program loads a libcuda that others may write, root's check cannot know what becomes of it."""
    evidence = recording.read(HOSTS / "h200-healthy")
    assert judge(evidence, knowledge).verdict == "healthy"
    replaced = tuple(
        msgspec.structs.replace(
            item, stdout=(item.stdout or "").replace('"event": "start",', '"event": "start", "replaced": ["LD_LIBRARY_PATH"],')
        )
        for item in evidence.items
    )
    report = judge(msgspec.structs.replace(evidence, items=replaced), knowledge)
    assert report.verdict == "undecided"
    assert report.diagnosis.ask[0].command == "printenv LD_LIBRARY_PATH"


@pytest.mark.parametrize(("value", "cause"), [("7", "python-startup-sets-variable"), ("<redacted>", "cuda-visible-devices-hides-all")])
def test_a_value_that_a_recording_does_not_show_is_no_other_value(value: str, cause: str) -> None:
    assert GONE == NOT_SHOWN
    start = f'"event": "start", "given": {{"CUDA_VISIBLE_DEVICES": "{value}"}},'
    evidence = changed(
        "h200-visible-devices-minus-one",
        {"ladder": lambda text: re.sub(r'"given": \{[^}]*\},? ?', "", text).replace('"event": "start",', start)},
    )
    assert cause_of(judge(evidence, load())) == cause


@pytest.mark.parametrize("value", ["/opt/none:", "lib:/opt/none", "/opt/lib"])
def test_a_library_beside_the_user_is_suspected(knowledge: Knowledge, value: str) -> None:
    """An entry that is empty or relative leads programs to it, and no climb: that none of these failed proves nothing."""
    start = '"event": "start", "replaced": ["LD_LIBRARY_PATH"], "beside": ["libstdc++.so.6"],'
    edits = {
        "ladder": lambda text: text.replace('"event": "start",', start),
        "environment": lambda text: f"{text}LD_LIBRARY_PATH={value}\n",
    }
    evidence = changed("h200-healthy", edits)
    report = judge(evidence, knowledge)
    suspects = [finding.cause for finding in report.diagnosis.suspects]
    assert (report.verdict, suspects) == ("undecided", [] if value == "/opt/lib" else ["library-path-conflict"])


@pytest.mark.parametrize(
    ("listed", "opened"),
    [
        ("drwxr-xr-x 2 root root 40 /dev/nvidia1", "EISDIR"),  # made by an engine that was told to mount what was not there
        ("-rw-r--r-- 1 root root 0 /dev/nvidia1", "EACCES"),
        ("lrwxrwxrwx 1 root root 10 /dev/nvidia1 -> /host/gone", "ENOENT"),
    ],
)
def test_what_stands_in_place_of_the_chosen_node_is_no_device(listed: str, opened: str) -> None:
    node = "crw-rw-rw- 1 root root 195, 1 /dev/nvidia1"
    spoiled = {"dev": lambda text: text.replace(node, listed)}
    spoiled["dev-after"] = spoiled["dev"]
    spoiled["ladder"] = lambda text: text.replace('"EACCES", "nodev": true', f'"{opened}", "nodev": false')
    report = judge(changed("h200-chosen-gpu-on-nodev-mount", spoiled), load())
    assert (report.verdict, cause_of(report)) == ("broken", "device-nodes-missing")
    assert "/dev/nvidia1" in str(report.diagnosis.root)


def test_another_gpu_than_the_default_that_is_full_leaves_programs_alone() -> None:
    """What the recording shows of device 0 is shown of device 1 here, and the other way round."""

    def exchanged(text: str) -> str:
        for name in ("gpu", "index"):
            text = re.sub(rf'("{name}"): ([01])\b', lambda found: f"{found[1]}: {1 - int(found[2])}", text)
        return text

    name = "h200x2-default-gpu-full"
    assert report_of(name).verdict == "broken"
    report = judge(changed(name, {"ladder": exchanged}), load())
    assert (report.verdict, cause_of(report)) == ("degraded", "gpu-memory-held-by-others")
    assert report.prescription is not None
    assert any("device 0 by default, which is free" in step.text for step in report.prescription.steps)


def test_no_other_place_than_a_node_is_opened_to_devices(knowledge: Knowledge) -> None:
    """A recording from elsewhere may name any path; the step that mounts with `dev` is root's."""
    name = "h100-node-on-nodev-mount"
    evidence = evidence_of(name)
    assert "mount-option-forbids" in blamed(judge(evidence, knowledge))
    ladder = next(item for item in evidence.items if item.id == "ladder")
    moved = msgspec.structs.replace(ladder, stdout=(ladder.stdout or "").replace("/dev/nvidia", "/home/nvidia"))
    assert "mount-option-forbids" not in blamed(judge(evidence.completed((moved,)), knowledge))
