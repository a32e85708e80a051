"""Messages that state their cause: literal, pattern, unless, window; and the causes that come with the package."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cudadoctor.knowledge.load import Knowledge, load
from cudadoctor.model.findings import Clue
from cudadoctor.parsers.base import Text
from cudadoctor.parsers.signs import clues

CAUSE = """
title = "A cause"
layer = "kernel"
row = "driver"
breaks = ["driver"]
effect = "blocks"
why = "Because."
tell_apart = "lsmod"
"""
PACKAGE = load()


def knowledge(**matches: str) -> Knowledge:
    return Knowledge({f"causes/{cause.replace('_', '-')}.toml": CAUSE + match for cause, match in matches.items()})


def found(text: str, known: Knowledge) -> tuple[Clue, ...]:
    return clues(Text(text, source="text"), known)


def causes(text: str, known: Knowledge) -> list[str]:
    return [clue.cause for clue in found(text, known)]


PLAIN = knowledge(asleep="[[match]]\ncontains = 'driver is asleep'")


def test_a_literal_states_its_cause_and_quotes_its_line() -> None:
    (clue,) = found("one\nthe driver is asleep today\nthree", PLAIN)
    assert (clue.cause, clue.basis, clue.subject) == ("asleep", "stated", "machine")
    assert [(quote.first, quote.last, quote.text) for quote in clue.quotes] == [(2, 2, "the driver is asleep today")]


def test_a_literal_is_case_sensitive() -> None:
    assert causes("the Driver is asleep", PLAIN) == []


def test_origin_and_rung_are_passed_on() -> None:
    (clue,) = clues(Text("driver is asleep", source="ladder"), PLAIN, from_rung="init", is_text=True)
    assert (clue.from_rung, clue.text) == ("init", True)


def test_first_and_last_place_are_quoted() -> None:
    text = "1 driver is asleep\n" + "".join(f"n{number} driver is asleep\n" for number in range(500)) + "9 driver is asleep"
    (clue,) = found(text, PLAIN)
    assert [quote.text for quote in clue.quotes] == ["1 driver is asleep", "9 driver is asleep"]


def test_of_a_long_line_the_part_that_matters_is_quoted() -> None:
    (clue,) = found("x" * 900 + " driver is asleep " + "y" * 900, PLAIN)
    (quote,) = clue.quotes
    assert "driver is asleep" in quote.text
    assert len(quote.text) < 320


def test_the_same_words_are_quoted_once() -> None:
    (clue,) = found("driver is asleep\ndriver is asleep", PLAIN)
    assert len(clue.quotes) == 1


def test_a_pattern_must_hold_on_the_line() -> None:
    known = knowledge(asleep="[[match]]\ncontains = 'is asleep'\npattern = 'nvidia|cuda'")
    assert causes("nvidia is asleep", known) == ["asleep"]
    assert causes("nouveau is asleep", known) == []
    assert causes("nvidia\nnouveau is asleep", known) == []


def test_a_window_reaches_to_both_sides() -> None:
    known = knowledge(asleep="[[match]]\ncontains = 'is asleep'\npattern = 'nvidia'\nwindow = 3")
    assert causes("nvidia\n-\nit is asleep", known) == ["asleep"]
    assert causes("it is asleep\n-\nnvidia", known) == ["asleep"]
    assert causes("nvidia\n-\n-\nit is asleep", known) == []
    assert causes("it is asleep\n-\n-\nnvidia", known) == []


def test_the_line_of_the_pattern_is_quoted_with_the_literal_when_close() -> None:
    known = knowledge(asleep="[[match]]\ncontains = 'is asleep'\npattern = 'nvidia'\nwindow = 9")
    (clue,) = found("nvidia\n-\nit is asleep", known)
    assert [(quote.first, quote.last) for quote in clue.quotes] == [(1, 3)]
    (clue,) = found("nvidia\n-\n-\n-\nit is asleep", known)
    assert [(quote.first, quote.last) for quote in clue.quotes] == [(5, 5)]


def test_unless_refuses_a_hit_and_not_another_one() -> None:
    known = knowledge(asleep="[[match]]\ncontains = 'is asleep'\nunless = 'was woken'")
    assert causes("it is asleep but was woken", known) == []
    assert causes("it is asleep but was woken\nit is asleep", known) == ["asleep"]


def test_a_pattern_may_cross_lines() -> None:
    known = knowledge(asleep="[[match]]\ncontains = 'is asleep'\npattern = '(?s)driver.*is asleep'\nwindow = 2")
    assert causes("the driver\nis asleep", known) == ["asleep"]


def test_a_pattern_may_ask_for_the_line_start() -> None:
    known = knowledge(asleep="[[match]]\ncontains = 'is asleep'\npattern = '^it is'\nwindow = 2")
    assert causes("x\nit is asleep", known) == ["asleep"]
    assert causes("x\nand it is asleep", known) == []


def test_named_groups_become_values_and_an_address_the_subject() -> None:
    match = "[[match]]\ncontains = 'has gone away'\npattern = 'GPU (?P<address>[0-9a-f:.]+) has gone away(?: in (?P<seconds>\\d+) s)?'"
    text = "GPU 0000:01:00.0 has gone away in 7 s\nGPU 0000:02:00 has gone away"
    first, second = found(text, knowledge(gone=match))
    assert (first.subject, first.values) == ("gpu:0000:01:00.0", {"seconds": "7"})
    assert (second.subject, second.values) == ("gpu:0000:02:00.0", {})


def test_several_causes_and_literals_within_each_other() -> None:
    known = knowledge(inner="[[match]]\ncontains = 'No module named'", outer="[[match]]\ncontains = \"Error: No module named 'cuda'\"")
    assert sorted(causes("ModuleNotFoundError: No module named 'cuda'", known)) == ["inner", "outer"]


@pytest.mark.parametrize("width", [79, 80])
def test_a_message_that_a_terminal_wrapped(width: int) -> None:
    first = ("x" * width)[: width - len(" driver is as")] + " driver is as"
    (clue,) = found(f"before\n{first}\nleep today", PLAIN)
    assert [(quote.first, quote.last) for quote in clue.quotes] == [(2, 3)]


def test_a_blank_at_the_wrap_was_lost() -> None:
    first = "x" * 69 + " driver is"
    assert len(first) == 79
    assert causes(f"{first}\nasleep today", PLAIN) == ["asleep"]


def test_table_frames_are_not_joined() -> None:
    assert causes("|" + "x" * 64 + "driver is asle" + "\nep", PLAIN) == []


def test_a_whole_message_on_a_full_line_is_quoted_alone() -> None:
    (clue,) = found("driver is asleep".ljust(80, "x") + "\nnext", PLAIN)
    assert [(quote.first, quote.last) for quote in clue.quotes] == [(1, 1)]


@pytest.mark.parametrize(
    "prefix",
    [
        "[  123.456789] ",
        "[Sat Nov 21 10:00:00 2026] ",
        "Nov 21 10:00:00 host kernel: ",
        "2026-11-21 10:00:00,123 ",
        "\x1b[1;31m",
        "web_1  | ",
        "> ",
        "[  812.500001] node-7 kernel: ",
        "2026-11-21T10:00:00.123456+02:00 node kernel: [   55.100000] ",
        "kern  :warn  : [   12.345678] ",
        "[Nov21 10:00] ",
        "Nov 21 10:00:00 host dockerd[1234]: ",
        "E1121 10:00:00.123456   12 server.go:34] ",
        "[pod/trainer-0/main] ",
        "[rank0]: ",
    ],
)
def test_logger_prefixes_are_taken_off(prefix: str) -> None:
    known = knowledge(asleep="[[match]]\ncontains = 'driver is asleep'\npattern = '^driver is asleep$'")
    assert causes(f"{prefix}driver is asleep\r\n", known) == ["asleep"]


@pytest.mark.parametrize(
    "shown",
    [
        "could not open \u201clibx\u201d here",
        "could not open &quot;libx&quot; here",
        '{"log":"could not open \\"libx\\" here\\n","stream":"stderr"}',
        'could\u00a0not open "lib\u200bx" here',
    ],
)
def test_quotes_and_blanks_are_read_as_the_program_wrote_them(shown: str) -> None:
    known = knowledge(asleep="[[match]]\ncontains = 'could not open \"libx\" here'")
    (clue,) = found(f"before\n{shown}", known)
    assert clue.quotes[0].text == shown


# ---------------------------------------------------------------- the causes of the package
def test_every_pattern_of_the_package_compiles_and_every_literal_is_long_enough() -> None:
    for cause in PACKAGE.causes.values():
        for match in cause.match:
            assert all(len(literal) >= 6 for literal in match.literals), (cause.id, match.contains)
            assert match.window >= 1, (cause.id, match.contains)
            for pattern in filter(None, (match.pattern, match.unless)):
                re.compile(pattern)


def test_no_match_stands_behind_another_that_finds_all_it_finds() -> None:
    """A second home for a message is the one that is forgotten when its cause turns out to be another."""
    stated = [(match, match.suspects or (cause.id,), match.advice) for cause in PACKAGE.causes.values() for match in cause.match]
    wide = [entry for entry in stated if entry[0].pattern is None and entry[0].unless is None]
    for narrow, *says in stated:
        if "(?P<" in (narrow.pattern or ""):
            continue  # gives a value besides
        wider = [
            (one, literal)
            for match, *other in wide
            if match is not narrow and other == says
            for one in match.literals
            for literal in narrow.literals
            if one in literal
        ]
        assert not wider, (narrow.contains, wider)


def test_no_match_holds_a_code_or_its_name() -> None:
    """Codes have one home: parsers/error_codes.py and the tables."""
    names = {name for row in PACKAGE.cuda_errors for name in (row.driver_name, row.runtime_name) if name}
    names |= {name for nvml in PACKAGE.nvml_errors for name in (nvml.name, nvml.exception)}
    for cause in PACKAGE.causes.values():
        for match in cause.match:
            assert not any(name in literal for name in names for literal in match.literals), (cause.id, match.contains)


def test_no_match_is_a_message_of_a_code() -> None:
    messages = {message: f"CUDA {row.code}" for row in PACKAGE.cuda_errors if row.code for message in row.messages if not row.generic}
    messages |= {smi.text: "nvidia-smi" for smi in PACKAGE.smi_messages}
    for cause in PACKAGE.causes.values():
        for match in cause.match:
            for message, code in messages.items():
                own = [literal for literal in match.literals if message in literal]
                assert not own, f"{cause.id}: {own!r} is the message of {code}; its row names the causes"


@settings(deadline=None)  # what a machine is busy with is no fault
@given(
    st.lists(
        st.one_of(
            st.sampled_from([*(one for c in PACKAGE.causes.values() for m in c.match for one in m.literals), "\n", " ", "x" * 80]),
            st.text(max_size=9),
        ),
        max_size=12,
    )
)
def test_any_text_is_read_without_an_error(parts: list[str]) -> None:
    shown = Text("".join(parts), source="text")
    for clue in clues(shown, PACKAGE):
        assert clue.quotes
        assert all(1 <= (quote.first or 0) <= (quote.last or 0) <= len(shown.lines) for quote in clue.quotes)
