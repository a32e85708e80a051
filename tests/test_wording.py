"""A text without a known message: its words say what to look at first, and never more than that."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from cudadoctor.judge import wording
from cudadoctor.knowledge.load import load
from cudadoctor.parsers.base import Text
from tests import learn_wording
from tests.command_line import run
from tests.pasted import report, suspects

KNOWLEDGE = load()
ROOT = Path(__file__).parent.parent
PEER = (
    "A model that is split over two A5000 gives garbage: what leaves GPU 0 does not arrive on GPU 1.\n"
    "With NCCL_DEBUG=INFO all_reduce_perf prints nan for the second rank, and every now and then it hangs.\n"
    "The peer to peer copies are wrong whenever the IOMMU is on (AMD board); through the host the same tensors are right.\n"
)

CALM = (
    "A model that is split over two A5000: what leaves GPU 0 arrives on GPU 1.\n"
    "With NCCL_DEBUG=INFO all_reduce_perf prints the changed values for the second rank, by default within a second.\n"
    "The peer to peer copies are right whenever the IOMMU is on (AMD board); through the host the same tensors are right.\n"
)


def test_words_raise_a_suspicion_and_no_more() -> None:
    found = report(PEER)
    assert (found.verdict, found.exit_code, found.diagnosis.root) == ("undecided", 3, None)
    first = found.diagnosis.suspects[0]
    assert (first.cause, first.basis) == ("peer-access-broken", "suspected")
    assert {quote.first for quote in first.evidence} <= {1, 2, 3}
    assert found.diagnosis.ask[0].tells_apart == tuple(one.cause for one in found.diagnosis.suspects)
    assert any(note.startswith("No message of this text is known for certain") for note in found.notes)


def test_a_message_that_is_known_leaves_no_word_to_the_words() -> None:
    known = report(PEER + "RuntimeError: CUDA error: no kernel image is available for execution on the device\n")
    assert known.diagnosis.root is not None
    assert not any("No message of this text" in note for note in known.notes)


@pytest.mark.parametrize(
    "text",
    [
        PEER.replace("cuda", "unit").replace("GPU", "board"),  # nothing of GPUs
        CALM,  # nothing is wrong
        "The GPU hangs: NCCL_DEBUG=INFO all_reduce_perf prints nan.\n",  # too few words
        "",
    ],
)
def test_other_words_raise_none(text: str) -> None:
    assert suspects(text) == []


def test_what_the_questions_rest_on() -> None:
    """The texts above fail one question each, and would pass the others."""
    calm, short = (
        wording.weighed(Text(text, source="text"), KNOWLEDGE)
        for text in (CALM, "The GPU hangs: NCCL_DEBUG=INFO all_reduce_perf prints nan.\n")
    )
    assert calm.known >= wording.FEW
    assert max(calm.causes.values()) >= wording.LEAST
    assert 0 < short.known < wording.FEW
    assert max(short.causes.values()) >= wording.LEAST


@pytest.mark.parametrize(
    "table", sorted((ROOT / "fixtures" / "hosts").glob("*healthy*/evidence/nvidia-smi.out.txt")), ids=lambda path: path.parent.parent.name
)
def test_a_table_of_healthy_gpus_is_no_complaint(table: Path) -> None:
    assert suspects(table.read_text("utf-8")) == []


def test_words_that_point_weakly_point_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wording, "LEAST", 1000.0)
    assert suspects(PEER) == []


def test_the_lines_that_weigh_most_are_quoted() -> None:
    text = Text(PEER, source="text")
    found = report(PEER).diagnosis.suspects[0]
    weights = wording.weighed(text, KNOWLEDGE).lines[found.cause]
    assert {quote.first for quote in found.evidence} == set(sorted(weights, key=lambda number: -weights[number])[: wording.QUOTES])


def test_an_attempt_that_went_well_in_the_end_leaves_no_word() -> None:
    failed = "$ nvidia-smi\nFailed to initialize NVML: Driver/library version mismatch\n"
    table = (ROOT / "fixtures" / "hosts" / "h200-healthy" / "evidence" / "nvidia-smi.out.txt").read_text("utf-8")
    assert suspects(f"{PEER}\n$ nvidia-smi\n{table}") != []
    assert suspects(f"{PEER}{failed}\n$ nvidia-smi\n{table}") == []


@pytest.mark.parametrize(
    ("around", "cause"),
    [
        ("", "libcuda-missing"),
        (
            "The container needs CUDA 10.2 or higher and my GPU driver is too old for it, I think: nvidia-smi says CUDA Version 9.0.\n"
            "Which driver supports CUDA 10? Is it enough to update the driver from NVIDIA's download page to the latest version?\n",
            "toolkit-newer-than-driver",
        ),
    ],
)
def test_the_words_around_a_message_say_which_of_its_causes_comes_first(around: str, cause: str) -> None:
    message = "cudaErrorInsufficientDriver: CUDA driver version is insufficient for CUDA runtime version\n"
    assert suspects(around + message)[0] == cause


def test_what_more_than_the_message_speaks_for_stays_first() -> None:
    around = (
        "I have two cards, an RTX 2080 and an older GTX 1070 for PhysX/folding.\n"
        "Since I switched Kubuntu 24.04 to nvidia-driver-550{} (a guide said it is the future) FAHClient offers me just one of them.\n"
        "dmesg has\nnvidia: probe of 0000:05:00.0 failed with error -1\nNVRM: The NVIDIA probe routine failed for 1 device(s).\n"
        "05:00.0 is the 1070 (GP104). With the Kubuntu USB stick from last year, which has the 550 of then, both show up.\n"
        "I swapped the slots, the fault goes with the 1070, not the slot.\n"
    )
    assert suspects(around.format("-open"))[0] == "open-module-unsupported-gpu"
    assert suspects(around.format(""))[0] == "driver-too-old-for-gpu"


def test_the_words_of_the_message_itself_do_not_order_its_causes() -> None:
    text = Text("first line cuda error\nsecond line cuda error\n", source="text")
    whole, without = wording.weighed(text, KNOWLEDGE), wording.weighed(text, KNOWLEDGE, frozenset({1, 2}))
    assert whole.known > 0
    assert (without.known, without.causes) == (0, {})


def test_words_and_pairs_within_a_line() -> None:
    assert list(wording.cues("GPU 0: has Fallen-off 0.0593261719")) == [
        "gpu", "0", "has", "fallen", "off", "0", "gpu 0", "0 has", "has fallen", "fallen off", "off 0",
    ]  # fmt: skip


def test_of_a_long_text_both_ends_are_read() -> None:
    lines = [str(number) for number in range(10_000)]
    read = list(wording.ends(lines))
    assert read[0] == (1, "0")
    assert read[-1] == (10_000, "9999")
    assert len(read) == 2 * wording.MOST_LINES


def test_the_table_knows_every_cause_by_words_that_stand_for_it() -> None:
    table = msgspec.toml.decode((ROOT / "cudadoctor" / "knowledge" / "tables" / "wording.toml").read_text("utf-8"))["cues"]
    assert set(table) == set(KNOWLEDGE.causes)
    for cause, listed in table.items():
        weights = [float(entry.split()[0]) for entry in listed.split(",")]
        assert len(weights) >= 20, cause
        assert weights == sorted(weights, reverse=True), cause
        assert min(weights) > 0, cause


def test_the_table_was_learnt_with_these_words() -> None:
    """Of the project's own texts, which it was learnt from, the words alone name nearly all: a change of how words are read shows here."""
    right = count = 0
    for case in sorted((ROOT / "fixtures" / "reports").glob("*/case.toml")):
        cause = msgspec.toml.decode(case.read_text("utf-8"))["cause"]
        if cause in KNOWLEDGE.causes:
            found = wording.weighed(Text((case.parent / "report.txt").read_text("utf-8", "replace"), source="text"), KNOWLEDGE)
            right, count = right + (found.first(sorted(found.causes))[:1] == [cause]), count + 1
    assert count > 350
    assert right / count > 0.85


def test_what_a_person_reads() -> None:
    result = run("explain", PEER)
    assert result.code == 3
    assert "Possible causes, likeliest first\n  - Copies between GPUs are wrong" in result.out
    assert "No message of the text is known; its words point there." in " ".join(result.out.split())


@pytest.mark.parametrize("relative", [True, False])
def test_the_words_of_a_measured_folder_are_not_learnt(relative: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The project's own reports and somebody's folder, however the path to either is written."""
    case = tmp_path / "texts" / "one"
    case.mkdir(parents=True)
    (case / "report.txt").write_text("planted words\n")
    (case / "case.toml").write_text('cause = "driver-hung"\n')
    planted = ("planted words\n", "driver-hung")
    own = ROOT / "fixtures" / "reports"
    fixtures = set(learn_wording.reports(own)) - set(learn_wording.own(own))
    assert len(fixtures) > 100
    everything = set(learn_wording.samples([tmp_path / "texts"]))
    assert {planted, *fixtures} <= everything
    monkeypatch.chdir(ROOT if relative else tmp_path)
    assert not fixtures & set(learn_wording.samples([], Path("fixtures/reports") if relative else own))
    assert not fixtures & set(learn_wording.samples([own], Path("fixtures/reports") if relative else own))
    monkeypatch.chdir(tmp_path)
    left_out = Path("texts") if relative else tmp_path / "texts"
    assert set(learn_wording.samples([tmp_path / "texts", Path("texts")], left_out)) == everything - {planted}
