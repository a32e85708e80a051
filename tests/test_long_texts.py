"""A long log is read without its repetitions: nothing rare is lost, blocks stay whole, and the report names the lines of the full text."""

from __future__ import annotations

import hashlib
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cudadoctor.judge.experiments import planning
from cudadoctor.judge.stages import judge
from cudadoctor.parsers import literals
from cudadoctor.parsers.condense import CONTEXT, ENOUGH, HEAD, KEPT, LIMIT, TAIL, TELLING, condensed
from cudadoctor.parsers.error_codes import number_places
from cudadoctor.parsers.literals import Literals, each
from cudadoctor.parsers.quoting import Quoting
from cudadoctor.sources import decoding, inputs, pasted
from cudadoctor.sources.pasted import evidence_of
from tests.command_line import HEALTHY, host, run
from tests.judging import KNOWLEDGE

STEP = "2026-11-21 10:00:00,000 INFO worker {}: step {} loss 0.1234 and some more words to fill the line"
NO_DEVICE = "RuntimeError: CUDA error: no CUDA-capable device is detected"
RARE = "nvidia-container-cli: something that stands here once"


def log(lines: int = 20_000) -> list[str]:
    return [STEP.format(number % 8, number) for number in range(lines)]


def nothing() -> Literals:
    return Literals(())


def codes(line: str) -> Iterator[tuple[int, int]]:
    return number_places(line, KNOWLEDGE)


def unlike(lines: int) -> list[str]:
    """Lines that are all different, with words that recognisers wake at."""
    return [f"{hashlib.md5(str(number).encode()).hexdigest()} cuda driver {'x' * (number % 97)}" for number in range(lines)]


def test_a_short_text_stays_as_it_is() -> None:
    assert condensed("a\nb\n" * 100, nothing, codes) == ("a\nb\n" * 100, None, True)


def test_repetitions_are_left_out_and_a_rare_line_stays_with_its_context() -> None:
    lines = log()
    lines[9_000] = RARE
    text, numbers, repeated = condensed("\n".join(lines), nothing, codes)
    assert numbers is not None
    assert repeated
    kept = text.split("\n")
    assert len(kept) == len(numbers) < HEAD + TAIL + 5_000
    assert [lines[number - 1] for number in numbers] == kept
    assert set(range(9_001 - CONTEXT, 9_002 + CONTEXT)) <= set(numbers)
    assert set(range(1, HEAD + 1)) <= set(numbers)
    assert set(range(len(lines) - TAIL + 1, len(lines) + 1)) <= set(numbers)


@pytest.mark.parametrize(
    ("line", "usual", "rare"),
    [
        ("10:00:{:02} worker: step {} done, CUDA error {} at train.cu:55", "100", "700"),
        ("[ {:02}.{}] NVRM: Xid (PCI:0000:06:00): {}, pid=1234, name=python", "45", "79"),
        ("10:00:{:02} step {}: cuInit returned {}", "100", "999"),
        ("10:00:{:02} step {}: CudaAPIError: [{}] Call to cuLaunchKernel", "100", "700"),
        ("10:00:{:02} step {} ends, CUDA ERROR {}. Going on", "100", "700"),
    ],
)
def test_a_code_is_no_digit_like_another(line: str, usual: str, rare: str) -> None:
    lines = [line.format(number % 60, number, usual) + " and some more words to fill the line" for number in range(10_000)]
    lines[5_000] = line.format(5_000 % 60, 5_000, rare) + " and some more words to fill the line"
    numbers = condensed("\n".join(lines), nothing, codes).numbers
    assert numbers is not None
    assert 5_001 in numbers
    assert len(numbers) < HEAD + TAIL + 500


def test_what_is_no_repetition_is_left_whole() -> None:
    text = "\n".join(f"{'x' * (number % 977)}{chr(97 + number % 26)}{'y' * (number // 977)}" for number in range(1_500))
    assert LIMIT < len(text) <= ENOUGH
    assert condensed(text, nothing, codes) == (text, None, True)


def test_a_block_that_is_printed_often_stays_whole_where_it_is_first_and_last_shown() -> None:
    block = [f"row {letter * 60}" for letter in "abcdefgh"]
    lines = [line for _ in range(2_000) for line in [*block, *log(4)]]
    text, numbers, _ = condensed("\n".join(lines), nothing, codes)
    assert numbers is not None
    whole = "\n".join(block)
    assert KEPT[-1] * 2 <= text.count(whole) < 400


def test_the_report_names_the_lines_of_the_full_text() -> None:
    lines = log()
    lines[9_000] = "NVRM: GPU at 0000:0b:00.0: GPU has fallen off the bus."
    report = judge(evidence_of("\n".join(lines).encode()), KNOWLEDGE)
    assert report.diagnosis.root is not None
    (quote,) = report.diagnosis.root.evidence
    assert (quote.first, quote.last, quote.text) == (9_001, 9_001, lines[9_000])
    assert "20000 lines" not in report.checks[-1].summary


def test_of_lines_that_are_all_different_the_first_and_the_last_of_each_literal_are_read() -> None:
    lines = unlike(40_000)
    lines[9_000] = RARE
    text, numbers, repeated = condensed("\n".join(lines), lambda: Literals(["nvidia-container-cli: ", "cuda ", "not there"]), codes)
    assert numbers is not None
    assert not repeated
    assert len(text) < TELLING + 10_000
    assert [lines[number - 1] for number in numbers] == text.split("\n")
    assert {1, 24, 8_989, 9_001, 9_013, 39_980, 40_000} <= set(numbers)


def test_the_one_message_in_a_long_text_of_unlike_lines_is_found_and_the_report_says_what_was_read() -> None:
    lines = unlike(40_000)
    lines[21_000] = "NVRM: GPU at 0000:0b:00.0: GPU has fallen off the bus."
    report = judge(evidence_of("\n".join(lines).encode()), KNOWLEDGE)
    assert report.diagnosis.root is not None
    assert (report.diagnosis.root.cause, report.diagnosis.root.evidence[-1].first) == ("gpu-fell-off-bus", 21_001)
    (note,) = report.notes
    assert note.startswith("Of the text ")
    assert "lines were read" in note


def test_a_note_names_the_lines_of_the_full_text() -> None:
    lines = log()
    attempt = "me@box:~$ nvidia-smi"
    lines[9_000:9_002] = [attempt, "Failed to initialize NVML: Driver/library version mismatch"]
    lines += [attempt, "Failed to initialize NVML: GPU is lost"]
    report = judge(evidence_of("\n".join(lines).encode()), KNOWLEDGE)
    (note,) = [note for note in report.notes if "earlier attempt" in note]
    assert note.startswith('Line 9002 ("Failed to initialize NVML: Driver/library')


def test_carriage_returns_count_as_lines_as_the_parsers_count_them() -> None:
    text, numbers, _ = condensed("\r".join(log()), nothing, codes)
    assert numbers is not None
    assert text.count("\n") == len(numbers) - 1


# ---------------------------------------------------------------- many literals in one pass
WORD = st.text(alphabet="ab:. ", min_size=1, max_size=4)


@given(st.text(alphabet="ab:. \n\té\U0001f600", max_size=60), st.lists(WORD, max_size=8), WORD)
def test_the_pass_finds_what_a_search_for_each_finds(text: str, literals: list[str], other: str) -> None:
    places = Literals(literals).places(text)
    for literal in (*literals, other):
        assert list(places.of(literal)) == each(literal, text)
        assert (literal in places) == (literal in text)


def test_a_block_is_cut_at_the_end_of_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(literals, "BLOCK", 7)
    text = "Xid 79\nXid\n" * 3 + "a line that is longer than a block: Xid 31 and Xid 48"
    assert list(Literals(["Xid", "Xid 48", "longer than a"]).places(text).of("Xid")) == each("Xid", text)
    assert "longer than a" in Literals(["longer than a"]).places(text)


def test_a_line_that_is_longer_than_a_block_is_cut_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """The places of one block are held in memory as objects, which took 50 bytes for each letter of the text."""

    class Spied:
        def find_matches_as_indexes(self, text: str, *, overlapping: bool) -> list[tuple[int, int, int]]:
            sizes.append(len(text))
            return inner.find_matches_as_indexes(text, overlapping=overlapping)

    sizes: list[int] = []
    monkeypatch.setattr(literals, "BLOCK", 50)
    many = Literals(["CUDA", "DA: x CU"])
    inner, many._automaton = many._automaton, Spied()
    text = "CUDA: x " * 100
    assert [list(many.places(text).of(one)) for one in ("CUDA", "DA: x CU")] == [each("CUDA", text), each("DA: x CU", text)]
    assert max(sizes) <= 50 + len("DA: x CU")


def test_lines_of_a_file_whose_end_alone_is_read_keep_their_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever part of it is left out: none, less than the head, or much."""
    path = tmp_path / "train.log"
    for count in (10, 3000, 30_000):
        path.write_text("".join(f"epoch {number} loss {number * 7919 % 104729}\n" for number in range(1, count)) + f"{NO_DEVICE}\n")
        monkeypatch.setattr(inputs, "TEXT", 50_000)
        report = judge(pasted.evidence_of(inputs.of_path(str(path))), KNOWLEDGE)
        quote = report.diagnosis.suspects[0].evidence[0]
        assert (quote.first, quote.text) == (count, NO_DEVICE)
    monkeypatch.setattr(inputs, "COUNTED", 0)
    assert "lines are counted from there" in (inputs.of_path(str(path)).left_out or "")


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_of_a_text_of_too_many_lines_the_last_are_read_and_keep_their_numbers(end: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that draws its progress writes millions of them: 20 MB took 700."""
    monkeypatch.setattr(pasted, "MOST_LINES", 1000)
    evidence = pasted.evidence_of("".join(f"{number}%{end}" for number in range(1, 5000)).encode() + f"{NO_DEVICE}{end}".encode())
    assert "last 1000 lines" in evidence.remarks[0]
    assert (evidence.items[0].stdout or "").count(end) == 1000
    quote = judge(evidence, KNOWLEDGE).diagnosis.suspects[0].evidence[0]
    assert (quote.first, quote.text) == (5000, NO_DEVICE)
    assert pasted.output_of(b"x" + end.encode() * 2000).dropped_bytes > 0


def test_a_log_that_was_not_read_whole_leaves_no_machine_healthy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pasted, "MOST_LINES", 1000)
    (tmp_path / "train.log").write_text("all is fine\n" * 900)
    (tmp_path / "long.log").write_text("all is fine\n" * 1100)
    asked = ("check", "--replay", str(host(HEALTHY)), "--log")
    assert run(*asked, str(tmp_path / "train.log")).code == 0
    cut = run(*asked, str(tmp_path / "long.log"))
    assert (cut.code, "a part was not read" in cut.out) == (3, True)
    (tmp_path / "holed.log").write_bytes(b"all is fine\n" * 400 + bytes(4096) + b"all is fine\n" * 400)
    holed = run(*asked, str(tmp_path / "holed.log"))
    assert (holed.code, "A part of the text is lost" in holed.out) == (3, True)


def test_letters_of_four_bytes_are_replaced_piece_by_piece() -> None:
    """All at once a log of 32 MB with many of them took 1.2 GB."""
    body = "\U0001f600ab".encode() * (3 << 20)
    tracemalloc.start()
    try:
        text = evidence_of(body).items[0].stdout or ""
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (text[:6], "\U0001f600" in text) == ("?ab?ab", False)
    assert peak < 8 * len(body)


def test_a_line_of_many_messages_takes_as_long_as_as_many_lines() -> None:
    seconds = []
    for end in (" ", "\n"):
        text = f'"TdrDelay"=dword:0000003c{end}' * 2000
        began = time.process_time()
        judge(evidence_of(text.encode()), KNOWLEDGE)
        seconds.append(time.process_time() - began)
    assert seconds[0] < 10 * seconds[1] + 2


HOSTILE = {
    "a question as often as there are lines": "cuda-drivers\n" + "# apt-mark showhold\n" * 3000,
    "sentences of others below as many passages": "Thanks; my own box.\n"
    + "It is so\n| CUDA error\n" * 1000
    + ("he was. " * 240 + "\n") * 60,
    "a sign in windows full of its words": "nvidia CUDA error:\n" + f"{'MiB' * 300} <defunct> {'MiB' * 300}\n" * 12,
    "tables of nothing but rules": "\n".join(f"nvidia cuda error here {number}" for number in range(1500)) + "\n|--|--|" * 1500,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=list(HOSTILE))
def test_no_arrangement_takes_much_longer_than_its_length(text: str) -> None:
    """Each took 5 to 20 s, or hundreds of megabytes: a limit that only such growth exceeds."""
    evidence = evidence_of(text.encode())
    began = time.process_time()
    judge(evidence, KNOWLEDGE)
    assert time.process_time() - began < 4


def test_the_way_of_a_traceback_of_many_places_is_left_out_at_once() -> None:
    began = time.process_time()
    assert len(list(planning._without_way(['File "'] * 20_000))) == 1
    assert time.process_time() - began < 1


def test_mail_of_many_beginnings_is_quoted_once() -> None:
    lines = ["nvidia cuda error", *["--original message"] * 3000]
    assert len(Quoting(KNOWLEDGE.discourse)._mail(lines)) < 2 * len(lines)


def test_letters_of_other_scripts_are_taken_out_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    text = ("\u043e\u0448 CUDA \u201c\u9a71\u52a8\u201d \U0001f600 Ger\u00e4t\n" * 50).encode()
    whole = decoding._OTHER_SCRIPTS.sub(b"?", text)
    for piece in range(1, 40):
        monkeypatch.setattr(decoding, "_PIECE", piece)
        assert decoding.narrow(text, 10) == whole


@pytest.mark.parametrize(("line", "told"), [("x" * 70_000, True), ("x" * 60_000, False), (f"{'x' * 60_000}\r{'x' * 60_000}", False)])
def test_what_is_not_read_of_a_long_line_is_told(line: str, told: bool) -> None:
    evidence = pasted.evidence_of(f"first\n{line}\nlast\n".encode())
    assert any("very long line" in remark for remark in evidence.remarks) is told
