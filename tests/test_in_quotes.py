"""A message in quotation marks counts where somebody says that he met it; nothing is claimed where a text only speaks of it."""

from __future__ import annotations

import pytest

from cudadoctor.parsers.in_quotes import Beside, InQuotes, opened
from tests.judging import KNOWLEDGE
from tests.pasted import report, root

MESSAGE = "CUDA error: device-side assert triggered"


def reported(line: str, previous: str = "") -> bool:
    start = line.index(MESSAGE)
    return InQuotes(KNOWLEDGE.discourse).standing(line, start, start + len(MESSAGE), Beside(above=previous)) is not None


@pytest.mark.parametrize(
    "line",
    [
        MESSAGE,
        f"RuntimeError: {MESSAGE}",
        f"[rank0]: RuntimeError: {MESSAGE}",
        f"I get `{MESSAGE}` in the second epoch",
        f'The program stops with "{MESSAGE}".',
        f"Es kommt immer „{MESSAGE}“, seit gestern",
        f"程序报错“{MESSAGE}”",
        f"「{MESSAGE}」と表示されます",
        f'RuntimeError: "{MESSAGE}"',
        f"Failed to import from custom_ar with ImportError('{MESSAGE}')",
        f'{{"level":"error","msg":"{MESSAGE}","ts":1}}',
        f'ts=12 level=error msg="worker: {MESSAGE}"',
        f"cp: '/tmp/x {MESSAGE}",
        f"the user's program printed {MESSAGE}",
        f"""ValueError: can't go on: 'x' is 3, '{MESSAGE}'""",
    ],
)
def test_what_somebody_met_counts(line: str) -> None:
    assert reported(line)


@pytest.mark.parametrize(
    "line",
    [
        f'What does "{MESSAGE}" mean?',
        f"Could somebody explain the difference between {MESSAGE} and Xid 43 to me",
        f'    {{7, "{MESSAGE}"}},',
        f'message = "{MESSAGE}"',
        f'error = ImportError("{MESSAGE}")',
        f'    *"{MESSAGE}"*) drain ;;',
        f"Why '{MESSAGE}' is the worst message of all",
        f"- `{MESSAGE}` - an index is out of range",
        f'a student sees "{MESSAGE}"? -> set CUDA_LAUNCH_BLOCKING',
        f'I see "{MESSAGE}" means an index is wrong',
        f'A customer gets "{MESSAGE}" on his own machine',
        f"Ein Kunde bekommt „{MESSAGE}“",
        f'You are paged, a job died with "{MESSAGE}"',
        f'Our sheet has a row with the remark "{MESSAGE}"',
    ],
)
def test_what_is_only_spoken_of_does_not(line: str) -> None:
    assert not reported(line)


def test_the_sentence_may_have_begun_on_the_line_above() -> None:
    assert reported(f'"{MESSAGE}"', "Since the update every run ends with")
    assert not reported(f'"{MESSAGE}"', "These are the texts of the table:")


@pytest.mark.parametrize(
    ("line", "at", "expected"),
    [
        ('a "b c', 5, 2),
        ('a "b" c', 6, None),
        ("don't do 'x y", 12, 9),
        ("module 'a' has no 'b", 19, 18),
        ("it's", 4, None),
        ("«a»b", 3, None),
    ],
)
def test_where_a_quotation_begins(line: str, at: int, expected: int | None) -> None:
    assert opened(line, at) == expected


@pytest.mark.parametrize(
    "text",
    [
        f'Is "{MESSAGE}" translated anywhere? What does "{MESSAGE}" mean exactly?\n',
        f'static const char *const texts[] = {{\n    "{MESSAGE}",\n    "out of memory",\n}};\n',
        f"[ RUN      ] Guard.Asserts\ncaught as wanted: {MESSAGE}\n[       OK ] Guard.Asserts (3 ms)\n[  PASSED  ] 1 test.\n",
        "<regexp>\n  pattern /NVRM: RmInitAdapter failed!/\n</regexp>\n",
        "Ben wrote:\n> nvidia-smi says No devices were found\n> Any idea?\n\nNot here, I took the same kernel and both cards are fine.\n",
    ],
)
def test_nothing_is_claimed_of_such_a_text(text: str) -> None:
    assert root(text) is None


def test_a_run_of_tests_that_passed_hides_nothing_that_came_after() -> None:
    text = f"$ pytest\n=== 3 passed in 1.2s ===\n$ python train.py\nRuntimeError: {MESSAGE}\n"
    assert root(text) == "program-device-assert"


MISMATCH = "Failed to initialize NVML: Driver/library version mismatch"
WRAPPED = (
    "`{}`",
    "`{}`.",
    "- `{}`",
    "        `{}`",
    '"{}"',
    "'{}'",
    "“{}”",
    "```{}```",
    "Since the update the node prints this error:\n\n`{}`",
    "Hello,\n\nwhen I start the job on our cluster I get\n\n\n“{}”\n\nAny ideas? It is Ubuntu 24.04.",
    "### What happens\n`{}`\n\n### Versions\ntorch 2.9",
    "`{}`\n\nUbuntu 24.04, kernel 6.8",
    "```{}\nmore of the log\n```",
    "Since the update:\n\n`{}\nNVML library version: 550.144`\n\nUbuntu 24.04",
    "`$ nvidia-smi\n{}\nNVML library version: 550.144`",
    '"{}"\n\nHow can it be repaired?',
    "`{}`\n\nIs there a fix?",
    "**`{}`**",
    "I took the driver off twice.\n'{}'\nThen I booted again.",
    "`$ nvidia-smi`\n`{}`",
    "Output of nvidia-smi:\n\n`{}`",
    '"{}"\n\nI have tried two drivers. What is wrong here?',
)
ONLY_SPOKEN_OF = (
    'What does this mean?\n\n"{}"\n',
    '"{}"\n\nWhat does it mean exactly?\n',
    '"{}"\n\nIs it dangerous?\n',
    "The text `{}\nand the version` means that the driver was updated.\n",
    "# Troubleshooting\n\n`{}`\n\nReboot the machine.\n",
    "These are the texts of the table:\n\n`{}`\n\n`out of memory`\n",
    "The texts of the new table are:\n\n`{}`\n",
    "`{}`\n\nThis means that the driver was updated under the loaded module.\n",
    '"{}",\n',
    "- `{}`\n- `out of memory`\n- `no device`\n",
    "## NVML errors\n\n`{}`\n\nReload the module.\n\n`CUDA error: no device`\n\nLook for the module.\n",
    "It prints one of these.\n\n`{}`\n\n`CUDA error: no device`\n",
    "Stop early where the driver does not fit\n\nUntil now the agent died. With this patch it prints\n\n`{}`\n\nand exits with 3.\n",
    "- [ ] Take the library away\n- [ ] See that the page shows\n\n`{}`\n",
    "The agent no longer stops at\n\n`{}`\n",
    "The alert fires on\n\n'{}'\n\nin the journal.\n",
    "I would word this in another way:\n\n“{}”\n\nIt is too long.\n",
)


@pytest.mark.parametrize("text", WRAPPED)
def test_a_paragraph_that_is_one_quotation_counts(text: str) -> None:
    assert root(text.format(MISMATCH)) == "driver-version-mismatch"


@pytest.mark.parametrize("text", ONLY_SPOKEN_OF)
def test_a_paragraph_that_only_speaks_of_a_message_does_not(text: str) -> None:
    found = report(text.format(MISMATCH)).diagnosis
    assert (found.root, found.suspects) == (None, ())


@pytest.mark.parametrize(
    ("before", "cause"),
    [
        ("I want to use it with the newest torch.\n\nThe wheel installs fine. At runtime though:", "python-abi-mismatch"),
        ("I keep a page of such things, and our nodes are all fine.\n\nA line of such a log:", None),
        ("A line of such a log:", None),
    ],
)
def test_what_a_colon_introduces_is_the_writers_own_where_he_tells_of_himself_and_is_not_content(before: str, cause: str | None) -> None:
    found = "ImportError: /x/flash_attn_2_cuda.so: undefined symbol: _ZN3c105ErrorC2ENS_14SourceLocationE"
    assert root(f"# flash-attn and torch 2.7\n\n{before}\n\n`{found}`\n\nUbuntu 24.04, torch 2.7.0, a wheel of 2.7.3.\n") == cause


@pytest.mark.parametrize("ids", ["N/A  N/A      4121", "     4121"])
def test_a_processs_name_in_nvidia_smis_table_is_its_users_choice(ids: str) -> None:
    """Any user may call a program so."""
    name = "Failed to initialize NVML: Driver/library version mismatch"
    assert root(name) == "driver-version-mismatch"
    assert root(f"|    0   {ids}      C   {name}     1MiB |") is None
