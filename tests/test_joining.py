"""Sentences that a terminal, a mail program, a kernel module or a table broke over lines are read, and their lines quoted."""

from __future__ import annotations

import pytest

from cudadoctor.parsers.joining import joined_lines
from tests.pasted import first, report, root

ARCH = "RuntimeError: CUDA error: no kernel image is available for execution on the device"
MISMATCH = (
    "NVRM: API mismatch: the client 'nvidia-smi' (pid 4120)\n"
    "NVRM: has the version 570.86.15, but this kernel module has\n"
    "NVRM: the version 550.54.14.  Please make sure that this\n"
    "NVRM: kernel module and all NVIDIA driver components have the same version.\n"
)
DCGM = """\
+---------------------------+------------------------------------------------+
| Diagnostic                | Result                                         |
+===========================+================================================+
| Memory - GPU: 0           | Fail                                           |
| Warning                   | CUDA APIs have indicated that a double-bit EC  |
|                           | C error has occured on GPU 0. Run a field dia  |
|                           | gnostic on the GPU.                            |
+---------------------------+------------------------------------------------+
"""


@pytest.mark.parametrize("at", [28, 40, 51, 64])
@pytest.mark.parametrize("indent", ["", "    "])
def test_a_line_that_was_wrapped_between_words(at: int, indent: str) -> None:
    cut = ARCH.rindex(" ", 0, at)
    assert first(f"It says\n{indent}{ARCH[:cut]}\n{indent}{ARCH[cut + 1 :]}\n") == "framework-lacks-gpu-arch"


@pytest.mark.parametrize("sign", ["> ", ">> ", "> > ", ">"])
def test_a_wrapped_line_within_quoted_mail(sign: str) -> None:
    cut = ARCH.rindex(" ", 0, 51)
    assert first(f"It is still so:\n{sign}{ARCH[:cut]}\n{sign}{ARCH[cut + 1 :]}\n{sign}Thanks\n") == "framework-lacks-gpu-arch"


def test_all_lines_of_the_sentence_are_quoted() -> None:
    found = report(f"It says\n{ARCH[:58]}\n{ARCH[59:]}\n").diagnosis.root
    assert found is not None
    assert [(quote.first, quote.last) for quote in found.evidence] == [(2, 3)]


def test_lines_in_which_only_the_pattern_stands_are_quoted_too() -> None:
    text = "Then it says:\nValueError: Only 2 GPUs are visible, ordinal 5\nis invalid for this program.\n"
    found = report(text).diagnosis.root
    assert found is not None
    assert (found.cause, [(quote.first, quote.last) for quote in found.evidence]) == ("cuda-visible-devices-invalid", [(2, 3)])


@pytest.mark.parametrize("prefix", ["", "[   12.345678] ", "Nov 21 10:00:00 node7 kernel: "])
def test_the_pieces_of_a_kernel_modules_sentence(prefix: str) -> None:
    assert root("".join(f"{prefix}{line}\n" for line in MISMATCH.splitlines())) == "driver-version-mismatch"


def test_the_pieces_of_an_x_drivers_sentence() -> None:
    text = (
        "[    25.1] (EE) NVIDIA(GPU-0): The NVIDIA GPU at PCI:1:0:0 is not supported by the\n"
        "[    25.1] (EE) NVIDIA(GPU-0):     535.183.01 NVIDIA driver.  For supported GPUs, see the README\n"
    )
    (joined,) = joined_lines(text.splitlines(), [line[11:] for line in text.splitlines()], whole=False)
    assert joined.text.endswith("is not supported by the 535.183.01 NVIDIA driver.  For supported GPUs, see the README")


def test_the_cells_of_dcgms_table_are_cut_in_the_middle_of_a_word() -> None:
    found = report(DCGM).diagnosis.root
    assert found is not None
    assert found.cause == "ecc-uncorrectable"


@pytest.mark.parametrize(
    "text",
    [
        f"{ARCH[:58]}\n\n{ARCH[59:]}\n",  # another paragraph
        f"{ARCH[:58]}\nNov 21 10:00:00 node7 kernel: {ARCH[59:]}\n",  # a message of its own
        f"{ARCH[:58]}.\n{ARCH[59:]}\n",  # the sentence was over
        f"{ARCH[:58]}\n- {ARCH[59:]}\n",  # an item of a list
        DCGM.replace("|                           | C error", "| Other                     | C error"),  # a row of its own
    ],
)
def test_what_is_no_sentence_stays_apart(text: str) -> None:
    assert root(text) is None


def test_a_long_text_is_not_looked_at_in_every_pair_of_lines() -> None:
    lines = ["an ordinary line of a training run, which goes on", "in the next one"]
    assert len(list(joined_lines(lines, lines, whole=True))) == 1
    assert list(joined_lines(lines, lines, whole=False)) == []


def test_of_a_long_log_that_a_driver_filled_the_ends_are_joined() -> None:
    lines = [f"NVRM: line {number} of many goes on and on" for number in range(9000)]
    firsts = [joined.first for joined in joined_lines(lines, lines, whole=False)]
    assert len(firsts) < 2100
    assert (firsts[0], firsts[-1]) == (1, 8999)


def test_where_lines_end_and_begin() -> None:
    lines = ["the first line of a sentence", "the second of it which is long", "the third"]
    whole, rest = joined_lines(lines, lines, whole=True)
    assert whole.text == " ".join(lines)
    assert [whole.text[end:begin] for end, begin in zip(whole.ends, whole.begins, strict=True)] == [" ", " "]
    assert (whole.first, rest.first) == (1, 2)
