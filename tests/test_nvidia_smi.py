"""nvidia-smi in pasted texts: several runs, exit codes, prompts, broken lines, and what must not be taken for its output."""

from __future__ import annotations

from pathlib import Path

import pytest

from cudadoctor.model.evidence import Item
from cudadoctor.model.facts import Fact
from cudadoctor.model.values import Smi
from cudadoctor.parsers.base import Text
from cudadoctor.parsers.nvidia_smi import PARSER
from tests.judging import report_of

FIXTURES = Path(__file__).parent.parent / "fixtures" / "parsers" / "nvidia_smi"
FAILED = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. "
    "Make sure that the latest NVIDIA driver is installed and running.\n"
)
MISMATCH = "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 550.120\n"
TABLE = (FIXTURES / "recorded--h200-580-table.txt").read_text()


def facts(body: str, *, item: Item | None = None) -> list[Fact[Smi]]:
    origin = "text" if item is None else item.origin
    text = Text(body, source="text", origin=origin, whole=item is not None and item.whole, item=item)
    found = list(PARSER.parse(text))
    assert all(isinstance(fact, Fact) and fact.quotes for fact in found)
    return found  # type: ignore[return-value]


def values(body: str) -> list[Smi]:
    return [fact.need() for fact in facts(body)]


def one(body: str) -> Smi:
    found = values(body)
    assert len(found) == 1, found
    return found[0]


def live(stdout: str, code: int) -> Item:
    return Item(id="nvidia-smi", kind="command", what=("nvidia-smi",), status="ok" if code == 0 else "failed", exit=code, stdout=stdout)


def test_a_live_run_keeps_its_exit_code() -> None:
    (fact,) = facts(FAILED, item=live(FAILED, 9))
    assert fact.need().exit == 9
    assert fact.need().failure == "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver"
    assert not fact.whole


def test_a_live_table_is_whole_and_a_pasted_one_is_not() -> None:
    assert facts(TABLE, item=live(TABLE, 0))[0].whole
    assert not facts(TABLE)[0].whole


@pytest.mark.parametrize("noise", ["", "\n", "Segmentation fault\n", "usage: nvidia-smi [OPTION]\n"])
def test_live_noise_is_said_to_be_not_recognised(noise: str) -> None:
    (fact,) = facts(noise, item=live(noise, 139))
    assert fact.need() == Smi(recognised=False, exit=139)
    assert facts(noise) == []


def test_a_failure_comes_before_the_table_that_followed_the_cure() -> None:
    found = values(f"$ nvidia-smi\n{FAILED}\n$ sudo apt install nvidia-driver-580\n$ nvidia-smi\n{TABLE}")
    assert [smi.failure is not None for smi in found] == [True, False]
    assert found[1].gpus[0].name == "NVIDIA H200"


def test_the_last_of_several_failures_comes_first() -> None:
    found = values(f"{TABLE}\n$ nvidia-smi\n{FAILED}\n\n$ nvidia-smi\n{MISMATCH}\n")
    assert [smi.failure and smi.failure[:18] for smi in found] == ["Failed to initiali", "NVIDIA-SMI has fai", None]
    assert found[0].library is not None
    assert found[0].library.text == "550.120"


@pytest.mark.parametrize(
    ("below", "code"),
    [
        ("\nuser@box:~$ echo $?\n9\n", 9),
        ("(base) user@box:~$ echo $?\n9\nuser@box:~$ \n", 9),
        ("command terminated with exit code 6\n", 6),
        ("\nuser@box:~$ ls\na b\nuser@box:~$ echo $?\n0\n", None),
        ("\nsome prose with 9 in it\n", None),
    ],
)
def test_exit_code_that_the_text_shows(below: str, code: int | None) -> None:
    assert one(f"user@box:~$ nvidia-smi\n{FAILED}{below}").exit == code


@pytest.mark.parametrize(
    "line",
    [
        "bash: nvidia-smi: command not found",
        "-bash: nvidia-smi: command not found",
        "sudo: nvidia-smi: command not found",
        "zsh: command not found: nvidia-smi",
        "sh: 1: nvidia-smi: not found",
        "/bin/sh: nvidia-smi: not found",
        "Command 'nvidia-smi' not found, but can be installed with:",
        "'nvidia-smi' is not recognized as an internal or external command,",
        'OCI runtime exec failed: exec failed: exec: "nvidia-smi": executable file not found in $PATH: unknown',
        "bash: /usr/bin/nvidia-smi: No such file or directory",
        "fish: Unknown command: nvidia-smi",
    ],
)
def test_a_shell_that_finds_no_nvidia_smi_is_known_absence(line: str) -> None:
    (fact,) = facts(f"$ nvidia-smi\n{line}\n$ \n")
    assert fact.value is None
    assert fact.quotes[0].text == line


@pytest.mark.parametrize(
    "line",
    [
        "$ which nvidia-smi",
        "You can run nvidia-smi to see whether no devices were found.",
        "import os; os.system('nvidia-smi')",
        "nvidia-container-cli: initialization error: nvml error: driver/library version mismatch: unknown",
        "| Problem | `No devices were found` |",
        "adb: no devices found",
    ],
)
def test_what_is_no_output_of_nvidia_smi(line: str) -> None:
    assert facts(line + "\n") == []


def test_wrapped_at_eighty_columns() -> None:
    wrapped = "".join(f"{line[:80].rstrip()}\n{line[80:]}\n" if len(line) > 80 else f"{line}\n" for line in TABLE.splitlines())
    assert "CUDA Version: 13.0" not in wrapped
    whole, broken = one(TABLE), one(wrapped)
    assert broken.cuda == whole.cuda
    assert broken.module == whole.module
    first, second = whole.gpus[0], broken.gpus[0]
    assert (second.name, second.address, second.memory_total_bytes, second.mig, second.ecc_uncorrected, second.compute_mode) == (
        first.name, first.address, first.memory_total_bytes, first.mig, first.ecc_uncorrected, first.compute_mode,
    )  # fmt: skip


def test_blanks_lost_in_a_web_page() -> None:
    smi = one(
        "+------------------------------------------------------+ \n"
        "| NVIDIA-SMI 352.39 Driver Version: 352.39 | \n"
        "|-------------------------------+----------------------+----------------------+\n"
        "| GPU Name Persistence-M| Bus-Id Disp.A | Volatile Uncorr. ECC |\n"
        "| 0 GeForce GTX 780 Off | 0000:01:00.0 N/A | N/A |\n"
        "| 34% 33C P0 N/A / N/A | 137MiB / 3068MiB | N/A Default |\n"
    )
    assert (smi.gpus[0].name, smi.gpus[0].memory_total_bytes, smi.gpus[0].temperature_c) == ("GeForce GTX 780", 3068 << 20, 33.0)
    assert smi.gpus[0].compute_mode == "Default"


@pytest.mark.parametrize("prefix", ["    ", "> ", "# ", "\t"])
def test_table_behind_a_prefix(prefix: str) -> None:
    assert one("".join(f"{prefix}{line}\n" for line in TABLE.splitlines())).gpus[0].address == "0000:00:06.0"


def test_windows_line_ends_and_colours_change_nothing() -> None:
    assert values(TABLE.replace("\n", "\r\n").replace("NVIDIA H200", "\x1b[1mNVIDIA H200\x1b[0m")) == values(TABLE)


def test_rows_without_their_header() -> None:
    smi = one(
        "|   5  NVIDIA H100 80GB HBM3          On  |   00000000:97:00.0 N/A |                  N/A |\n"
        "|ERR!   50C    P0            N/A  /  N/A  |       0MiB /  81559MiB |     N/A      Default |\n"
        "|                                         |                        |                 ERR! |\n"
    )
    assert smi.module is None
    assert smi.gpus[0].index == 5
    assert smi.gpus[0].errors == ("fan: ERR!", "MIG: ERR!")


@pytest.mark.parametrize("reading", ["N/A", "ERR!", "Unknown Error", "GPU is lost"])
def test_memory_that_cannot_be_read(reading: str) -> None:
    body = TABLE.replace("      0MiB / 143771MiB ", f"{reading} / {reading}".center(22))
    gpu = one(body).gpus[0]
    assert gpu.memory_total_bytes is None
    assert gpu.memory_used_bytes is None
    assert bool(gpu.errors) == (reading != "N/A")


def test_two_runs_of_one_loop_stay_apart() -> None:
    found = values(TABLE + TABLE.replace("   0MiB / 143771MiB", " 512MiB / 143771MiB"))
    assert [smi.gpus[0].memory_used_bytes for smi in found] == [512 << 20, 0]


def test_tool_and_driver_of_different_versions() -> None:
    smi = one("| NVIDIA-SMI 418.67       Driver Version: 410.79       CUDA Version: 10.0     |\n")
    assert smi.library is not None
    assert smi.module is not None
    assert (smi.library.text, smi.module.text) == ("418.67", "410.79")


def test_a_cut_xml_document_counts_as_far_as_it_goes() -> None:
    document = (FIXTURES / "recorded--h200-580-xml.txt").read_text()
    smi = one(document[: document.index("<ecc_errors>")])
    assert smi.gpus[0].uuid == "GPU-11111111-2222-3333-4444-555555555555"
    assert smi.gpus[0].ecc_uncorrected is None


def test_xml_on_one_line() -> None:
    smi = one(
        '<?xml version="1.0" ?><nvidia_smi_log><driver_version>535.1</driver_version><cuda_version>12.2</cuda_version>'
        '<gpu id="00000000:01:00.0"><product_name>NVIDIA A10</product_name>'
        "<fb_memory_usage><total>24 MiB</total><used>1 MiB</used><free>23 MiB</free></fb_memory_usage>"
        "<bar1_memory_usage><total>99 MiB</total></bar1_memory_usage></gpu></nvidia_smi_log>"
    )
    assert (smi.gpus[0].name, smi.gpus[0].memory_total_bytes, smi.gpus[0].index) == ("NVIDIA A10", 24 << 20, None)


def test_gpus_without_end_are_no_machine() -> None:
    """A document of a few kilobytes, packed, may have a million of them."""
    smi = one('<?xml version="1.0"?>\n<nvidia_smi_log>\n' + '<gpu id="0"><uuid>GPU-1</uuid></gpu>\n' * 5000 + "</nvidia_smi_log>\n")
    assert 1000 < len(smi.gpus) < 1100


def test_a_query_ends_at_the_next_prompt() -> None:
    log = (FIXTURES / "reconstructed--418-query.txt").read_text()
    smi = one(f"$ nvidia-smi -q\n{log}$ cat notes\nCompute Mode : Prohibited\n")
    assert smi.gpus[0].compute_mode == "Exclusive_Process"
    assert smi.gpus[1].compute_mode is None


def test_a_query_whose_indentation_was_lost() -> None:
    log = (FIXTURES / "reconstructed--418-query.txt").read_text()
    flat = one("\n".join(line.strip() for line in log.splitlines()))
    assert flat.gpus[0].memory_total_bytes == 16130 << 20
    assert flat.gpus[0].ecc_uncorrected == 2
    assert [process.pid for process in flat.processes] == [4021, 4022]


def test_a_listed_gpu_whose_line_was_removed_is_only_missing() -> None:
    body = (FIXTURES / "reconstructed--mig-list.txt").read_text()
    kept = one("\n".join(body.splitlines()[3:]))
    assert [(gpu.index, gpu.uuid) for gpu in kept.gpus] == [(1, "GPU-77777777-2222-3333-4444-555555555555")]


@pytest.mark.parametrize(
    "body",
    ["|" * 5000, "| " * 5000, "NVIDIA-SMI " * 5000, "| 0 a | 0000:00:00.0 |\n" * 5000, "<gpu " * 5000, "+" + "-" * 9000, "|\n+\n" * 4000],
)
def test_strange_texts_do_not_raise(body: str) -> None:
    facts(body)


def test_where_all_computes_a_failure_of_nvidia_smi_is_not_passed_over() -> None:
    report = report_of("h200-nvidia-smi-shim")
    assert report.verdict == "healthy"
    assert any(note.startswith('nvidia-smi failed ("Unable to determine the device handle') for note in report.notes)
