"""Codes in a program's own words, and codes that stand in source code or in a list and were met by nobody."""

from __future__ import annotations

import pytest

from cudadoctor.parsers.base import Text
from cudadoctor.parsers.code_words import LIST_CODES, LIST_LINES, in_lists
from cudadoctor.parsers.error_codes import codes_in
from tests.judging import KNOWLEDGE

NAMES = [row.driver_name for row in KNOWLEDGE.cuda_errors if row.driver_name and row.code]


def codes(text: str) -> list[tuple[str, int | None]]:
    return [(hit.api, hit.number) for hit in codes_in(Text(text, source="text"), KNOWLEDGE)]


@pytest.mark.parametrize(
    ("line", "number"),
    [
        ("pycuda._driver.RuntimeError: cuInit failed: no device", 100),
        ("pycuda._driver.LaunchError: cuLaunchGrid failed: launch out of resources", 701),
        ("pycuda._driver.LaunchError: cuCtxSynchronize failed: launch failed", 719),
        ("pycuda._driver.LogicError: cuMemcpyHtoD failed: invalid value", 1),
        ("CUDA error: Illegal address in cuCtxSynchronize(), line 1909", 700),
        ("CUDA error at cuCtxCreate: Launch exceeded timeout", 702),
        ("CUDA error: Launch exceeded resources in cuLaunchKernel(cuPathTrace)", 701),
        ("CUDA cuInit: No CUDA-capable device available", 100),
        ("CUDA cuInit: Unknown error", 999),
        ("CUDA error: Out of memory in cuMemAlloc(&device_pointer, size), line 590", 2),
    ],
)
def test_names_in_words_of_their_own(line: str, number: int) -> None:
    assert codes(line) == [("cuda", number)]


@pytest.mark.parametrize("line", ["cuInit failed: see the log", "CUDA error: it does not work", "CUDA error:", "copy failed: not found"])
def test_other_words_are_no_code(line: str) -> None:
    assert codes(line) == []


@pytest.mark.parametrize(
    "line",
    [
        "RuntimeError: No CUDA GPUs are available",
        'level=INFO source=gpu.go:199 msg="no compatible GPUs were discovered"',
        "Check failed: device_count_ > 0 (-1 vs. 0) : GPU usage requires at least 1 GPU",
        "RuntimeError: Failed to infer device type",
    ],
)
def test_other_programs_say_that_there_is_no_device(line: str) -> None:
    assert codes(line) == [("cuda", 100)]


@pytest.mark.parametrize(
    "line",
    [
        "    CUDA_ERROR_ILLEGAL_ADDRESS                = 700,",
        "#define CUDA_ERROR_ILLEGAL_ADDRESS 700",
        "    case cudaErrorIllegalAddress: abort();",
        "    return CUDA_ERROR_ILLEGAL_ADDRESS;",
        '    { CUDA_ERROR_ILLEGAL_ADDRESS, "bad" },',
        "        cudaErrorIllegalAddress => Err(Bad),",
        "if (status == cudaErrorIllegalAddress) {",
        "If you see `RuntimeError: CUDA error: device-side assert triggered`, look at the labels.",
        "When you encounter CUDA_ERROR_ILLEGAL_ADDRESS, use compute-sanitizer.",
    ],
)
def test_source_code_reports_no_code(line: str) -> None:
    assert codes(line) == []


def test_a_report_that_begins_with_if_is_a_report() -> None:
    assert codes("If I run it twice: RuntimeError: CUDA error: device-side assert triggered") == [("cuda", 710)]
    assert codes("if you see, it fails. RuntimeError: CUDA error: device-side assert triggered") == [("cuda", 710)]


def test_what_a_call_gave_is_reported_beside_source_code() -> None:
    assert codes("check(cudaErrorIllegalAddress);\ncase cudaErrorNoDevice: break;") == [("cuda", 700)]


def test_a_list_of_codes_reports_none() -> None:
    page = "\n\n".join(f"{name}\n    what it means" for name in NAMES[:LIST_CODES])
    assert codes(page) == []
    fewer = "\n\n".join(f"{name}\n    what it means" for name in NAMES[: LIST_CODES - 1])
    assert len(codes(fewer)) == LIST_CODES - 1


def test_a_code_far_from_the_list_is_reported() -> None:
    page = "\n".join(NAMES[:LIST_CODES]) + "\n" * (LIST_LINES + 1) + "RuntimeError: CUDA error: device-side assert triggered"
    assert codes(page) == [("cuda", 710)]


def test_numbers_that_calls_gave_stay_beside_a_list() -> None:
    assert codes("\n".join(NAMES[:LIST_CODES]) + "\ncuInit returned 100") == [("cuda", 100)]


def test_a_table_of_xids_reports_none_and_the_kernels_lines_do() -> None:
    table = "\n".join(f"| Xid {number} | meaning |" for number in (13, 31, 43, 48, 63, 79))
    assert codes(table) == []
    log = "\n".join(f"NVRM: Xid (PCI:0000:01:00): {number}, pid=1" for number in (13, 31, 43, 48, 63, 79))
    assert len(codes(log)) == 6


def test_lists_are_seen_by_different_codes_close_together() -> None:
    assert in_lists((line, 700) for line in range(1, 30)) == frozenset()
    assert in_lists((line, line) for line in range(1, LIST_CODES + 1)) == frozenset(range(1, LIST_CODES + 1))
    assert in_lists((line * LIST_LINES, line) for line in range(1, 20)) == frozenset()


@pytest.mark.parametrize(
    ("line", "number"),
    [
        ("cuda runtime error (4)", 719),
        ("CUDA error 6", 702),
        ("CUDA error 7", 701),
        ("cudaGetLastError() returned 8", 98),
        ("cudaSetDevice failed with error code 10", 101),
        ("cuCtxSynchronize() returned 4", 4),  # the driver never used the runtime's old numbers
        ("CUDA error = 999at main.cu:196", 999),
        ("cuda driver library failed to get device context 999", 999),
    ],
)
def test_numbers_of_old_runtimes(line: str, number: int) -> None:
    assert codes(line) == [("cuda", number)]
