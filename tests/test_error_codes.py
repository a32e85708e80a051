"""Codes of every API in texts: what counts, what does not, and what it says about causes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cudadoctor.knowledge import lookup
from cudadoctor.model.evidence import Item
from cudadoctor.model.facts import Quote
from cudadoctor.parsers.base import Text
from cudadoctor.parsers.error_codes import CodeHit, clues, code_clues, codes_in
from tests.cases import every
from tests.judging import KNOWLEDGE
from tests.pasted import report


def codes(text: str, item: Item | None = None) -> list[tuple[str, int | None]]:
    return [(hit.api, hit.number) for hit in codes_in(Text(text, source="text", item=item), KNOWLEDGE)]


def smi(exit_code: int, stdout: str = "") -> Item:
    return Item(id="nvidia-smi", kind="command", what=("nvidia-smi",), status="failed", exit=exit_code, stdout=stdout)


@pytest.mark.parametrize(
    ("line", "number"),
    [
        # names, by themselves and with their number or message
        ("numba.cuda.cudadrv.driver.CudaAPIError: [100] Call to cuInit results in CUDA_ERROR_NO_DEVICE", 100),
        ("CudaSupportError: Error at driver init: Call to cuInit results in CUDA_ERROR_NO_DEVICE (100)", 100),
        ("CUDARuntimeError: cudaErrorInsufficientDriver: CUDA driver version is insufficient for CUDA runtime version", 35),
        ('CUDA error at main.cu:12 code=100(cudaErrorNoDevice) "cudaSetDevice(0)"', 100),
        ("failed call to cuInit: CUDA_ERROR_UNKNOWN: unknown error", 999),
        # numbers in their contexts
        ("CUDA error 100", 100),
        ("CUDA: error code 35", 35),
        ("CUDA driver error: 35", 35),
        ("Error at driver init: Call to cuInit results in UNKNOWN_CUDA_ERROR (34)", 34),
        ("[999] Call to cuInit results in UNKNOWN", 999),
        ("failed call to cuInit: UNKNOWN ERROR (303)", 303),
        ("cuInit returned 100", 100),
        ("cuInit(0) = 999", 999),
        ("cuInit = 802", 802),
        ("A C program which calls only cuInit(0) in main prints 3 too.", 3),
        ("$ python3 -c \"import ctypes; print(ctypes.CDLL('libcuda.so.1').cuInit(0))\"\n999", 999),
        ("cuDevicePrimaryCtxRetain failed with error code 2", 2),
        ("cudaGetDeviceCount returned 35", 35),
        ("Check failed: error == cudaSuccess (35 vs. 0)", 35),
        ("CUDA initialization failure with error: 35", 35),
        ("CUDA error: (code 999, ERROR_UNKNOWN)", 999),
        ("CUresult 304", 304),
        ("Cuda API error detected: cudaLaunchKernel returned (0xd1)", 209),
        # messages
        ("RuntimeError: no CUDA-capable device is detected", 100),
        ("torch.AcceleratorError: CUDA error: no kernel image is available for execution on the device", 209),
        ("CUDA error: out of memory", 2),
        ("cuInit failed: unknown error", 999),
        ("CUDA unknown error - this may be due to an incorrectly set up environment", 999),
        ("Error 804: forward compatibility was attempted on non supported HW", 804),
        ("libcuda.so.1: CUDA driver is a stub library", 34),
        # numbers of the runtime before CUDA 10.1
        ("cuda runtime error (38) : no CUDA-capable device is detected at /pytorch/aten/src/THC/THCGeneral.cpp:50", 100),
        ("cuda runtime error (30) : unknown error at THCGeneral.cpp:50", 999),
        ("cuda runtime error (77)", 700),
        ("cudaGetDeviceCount returned 38", 100),
        (
            "Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before? Error 804: forward compatibility was att",
            804,
        ),
        ("CUDA initialization fails with 802 on each start", 802),
    ],
)
def test_cuda_codes(line: str, number: int) -> None:
    assert codes(line) == [("cuda", number)]


@pytest.mark.parametrize(
    "line",
    [
        "",
        "CUDA_SUCCESS",
        "cudaSuccess (0 vs. 0)",
        "cuInit returned 0",
        "cuInit = 0",
        "On the other machine cuInit(0) prints 0.",
        "print(cuda.cuInit(0))\n0",
        "print(cuda.cuInit(0))\n999 files were read",
        "print(cuda.cuInit(0), flush=True) is line\n999",
        "if (status == CUDA_ERROR_NO_DEVICE) {",
        "    case CUDA_ERROR_OUT_OF_MEMORY: return retry();",
        "if err != cudaErrorNotReady:",
        "Out of memory: Killed process 4711 (python)",
        "sqlite3.OperationalError: out of memory",
        "mount: invalid argument",
        "runtime error: load of misaligned address 0x7ffd for type int",
        "error: command '/usr/local/cuda/bin/nvcc' failed with exit code 1",
        "make: *** [CMakeFiles/cuda_compile.dir/all] Error 2",
        "CUDA kernel errors might be asynchronously reported at some other API call",
        "cudaGetDeviceCount() returned 2",
        "CUDA Version: 12.4",
        "nvcc -gencode arch=compute_86,code=sm_86",
        "cuDNN error 3",
        "cuSolverDnCreate returned 7",
        "HTTP error code 404",
        "error code 35",
        "[38] Call to cuInit results in something",  # the driver never used the runtime's old numbers
        "CUDA error 12345",
        "No devices found.",
        "nvidia-container-cli: initialization error: load library failed: libnvidia-ml.so.1",
        "docker run nvidia/cuda: nvidia-container-cli: initialization error: load library failed: libnvidia-ml.so.1",
        "Driver Not Loaded",
    ],
)
def test_lines_without_a_code(line: str) -> None:
    assert codes(line) == []


@pytest.mark.parametrize(
    ("line", "api", "number"),
    [
        ("Failed to initialize NVML: Driver/library version mismatch", "nvidia-smi", 18),
        ("Failed to initialize NVML: Driver Not Loaded", "nvml", 9),
        ("pynvml.NVMLError_LibRmVersionMismatch: RM has detected an NVML/RM version mismatch.", "nvml", 18),
        ("NVML_ERROR_NO_PERMISSION", "nvml", 4),
        ("nvmlInit_v2() returned 9", "nvml", 9),
        ("NVML error 999", "nvml", 999),
        ('msg="Unable to load NVML management library /usr/lib/libnvidia-ml.so.550.90.07: nvml vram init failure: 18"', "nvml", 18),
        ("nvmlInit_v2 err: 9", "nvml", 9),
        ('msg="error looking up CUDA GPU memory: unable to get device handle 0: 15"', "nvml", 15),
        ("nvidia-container-cli: initialization error: nvml error: driver not loaded: unknown.", "nvml", 9),
        ("nvidia-container-cli: initialization error: nvml error: driver/library version mismatch", "nvml", 18),
        ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that", "nvidia-smi", 9),
        ("No devices were found", "nvidia-smi", 6),
        ("$ nvidia-smi -L\nNo devices found.", "nvidia-smi", 6),
        ("NVRM: Xid (PCI:0000:01:00): 79, pid=1, GPU has fallen off the bus.", "xid", 79),
        ("[  123.456789] NVRM: Xid (0000:65:00.0): 31, Ch 00000010", "xid", 31),
        ("NVRM: Xid (PCI:0000:01:00 GPU-I:05): 43, pid=7", "xid", 43),
        ("XidCriticalError: Xid=48 on Device=GPU-1234, the device will go unhealthy.", "xid", 48),
        ("dmesg says Xid 119", "xid", 119),
        ("NVRM: Xid (PCI:0000:0a:00): 48", "xid", 48),
        ("NVRM: Xid (0005:00): 13, 0001 00000000", "xid", 13),
        ('DCGM_FI_DEV_XID_ERRORS{gpu="0",UUID="GPU-1"} 79', "xid", 79),
        ("Detected XID 95 for GPU 0", "xid", 95),
        ("NVRM: Xid (PCI:0000:01:00): 999, new in this driver", "xid", 999),
    ],
)
def test_other_apis(line: str, api: str, number: int) -> None:
    assert codes(line) == [(api, number)]


def test_a_name_outranks_the_number_and_the_message_beside_it() -> None:
    assert codes("CUDA error 2: cudaErrorNoDevice: out of memory") == [("cuda", 100)]
    assert codes("CUDA error 2: no CUDA-capable device is detected") == [("cuda", 100)]


def test_a_message_within_a_longer_one_is_part_of_it() -> None:
    assert codes("CUDA error: operation not permitted when stream is capturing") == [("cuda", 900)]
    line = "No devices were found. Please make sure /dev/nvidia* files are readable by current user."
    assert [clue.cause for clue in clues(Text(line, source="text"), KNOWLEDGE)] == ["device-permission-denied"]


def test_device_query_puts_its_message_below_the_call() -> None:
    assert codes("cudaGetDeviceCount returned 3\n-> initialization error\nResult = FAIL") == [("cuda", 3)]
    assert codes("step one\n-> initialization error") == []


def test_an_error_code_beside_a_line_of_cuda() -> None:
    assert codes("cuInit failed\nerror code 35") == [("cuda", 35)]
    assert codes("cuInit failed\n\n\n\nerror code 35") == []
    entry_point = "ERROR: The NVIDIA Driver is present, but CUDA failed to initialize.\n   [[ System not yet initialized (error 802) ]]"
    assert codes(entry_point) == [("cuda", 802)]
    assert codes(entry_point.partition("\n")[2]) == []


def test_every_line_counts_and_has_its_number() -> None:
    text = Text("fine\nCUDA error 2\nfine\nCUDA error 700\n", source="text")
    assert [(hit.number, hit.line) for hit in codes_in(text, KNOWLEDGE)] == [(2, 2), (700, 4)]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("width", [79, 80])
def test_a_name_that_a_terminal_wrapped(width: int, end: str) -> None:
    line = "x" * (width - 15) + " CUDA_ERROR_NO_"
    hits = codes_in(Text(f"before{end}{line}{end}DEVICE (100){end}", source="text"), KNOWLEDGE)
    assert [(hit.number, hit.line, hit.last) for hit in hits] == [(100, 2, 3)]


def test_lines_that_are_no_wrap_are_not_joined() -> None:
    assert codes("x" * 55 + " CUDA_ERROR_NO_\nDEVICE") == []


def test_a_whole_code_on_a_full_line_is_seen_once() -> None:
    assert codes("CUDA error 100 ".ljust(80, "x") + "\nnext line") == [("cuda", 100)]


@pytest.mark.parametrize(
    "prefix",
    ["\x1b[31m", "2026-11-21T10:00:00.123Z ", "web-1  | ", "[rank0]: ", "(worker pid=12) ", "E   ", "> ", "Nov 21 10:00:00 host kernel: "],
)
def test_logger_prefixes_and_colours_change_nothing(prefix: str) -> None:
    for line in ("CUDA error 100", "NVRM: Xid (PCI:0000:01:00): 79, x", "Failed to initialize NVML: Unknown Error"):
        assert codes(prefix + line) == codes(line) != []


def test_exit_status_of_nvidia_smi() -> None:
    assert codes("", smi(9)) == [("nvidia-smi", 9)]
    (clue, *_) = clues(Text("", source="nvidia-smi", item=smi(9)), KNOWLEDGE)
    assert clue.cause == "driver-not-loaded"
    assert clue.quotes == (Quote(source="nvidia-smi", text="exit status 9"),)
    assert codes("", smi(0)) == []
    assert codes("", smi(99)) == []


def test_nvidia_smi_words_outrank_its_exit_status() -> None:
    assert codes("Failed to initialize NVML: Driver/library version mismatch", smi(18)) == [("nvidia-smi", 18)]
    assert codes("No devices found.", smi(6)) == [("nvidia-smi", 6)]


def test_the_kernel_log_has_xids_alone() -> None:
    item = Item(id="kernel-log", kind="command", what=("dmesg",), status="ok")
    assert codes("NVRM: Xid (PCI:0000:01:00): 79, x\nprogram: CUDA error 100", item) == [("xid", 79)]


def test_one_candidate_states_several_only_suspect() -> None:
    (stated,) = clues(Text("CUDA error 804", source="text"), KNOWLEDGE)
    assert (stated.cause, stated.basis) == ("forward-compat-unsupported", "stated")
    suspected = clues(Text("CUDA error 100", source="text"), KNOWLEDGE)
    row = KNOWLEDGE.cuda_error(100)
    assert row is not None
    assert tuple(clue.cause for clue in suspected) == row.causes
    assert {clue.basis for clue in suspected} == {"suspected"}


def test_a_single_candidate_may_be_a_suspicion_only() -> None:
    (clue,) = clues(Text("CUDA error: invalid argument", source="text"), KNOWLEDGE)
    assert (clue.cause, clue.basis) == ("program-launch-config", "suspected")


def test_a_code_without_a_cause_gives_no_clue() -> None:
    assert codes("CUDA error 801") == [("cuda", 801)]
    assert clues(Text("CUDA error 801", source="text"), KNOWLEDGE) == ()


def test_a_clue_quotes_the_first_place_and_the_last() -> None:
    text = Text("run 1\nCUDA error 804\nrun 2\nstep 7: CUDA error 804\n", source="job.log")
    (clue,) = clues(text, KNOWLEDGE, is_text=True)
    assert [(quote.source, quote.first, quote.text) for quote in clue.quotes] == [
        ("job.log", 2, "CUDA error 804"),
        ("job.log", 4, "step 7: CUDA error 804"),
    ]
    assert clue.text is True
    assert clue.from_rung is None


def test_the_same_words_are_quoted_once() -> None:
    (clue,) = clues(Text("CUDA error 804\nCUDA error 804", source="x"), KNOWLEDGE, from_rung="init")
    assert len(clue.quotes) == 1
    assert clue.from_rung == "init"


@pytest.mark.parametrize(
    ("line", "causes"),
    [
        ("154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)", ("gpu-needs-reset",)),
        ("154, GPU recovery action changed from 0x0 (None) to 0x4 (Drain and Reset)", ("row-remap-needed",)),
        ("154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)", ()),
        ("154, text of a later branch", ("gpu-needs-reset",)),
        ("45, pid=1, name=a, channel 0x3 caused by previous Xid 145", ("nvlink-error",)),
        ("45, pid=1, name=a, Ch 00000010", ()),
    ],
)
def test_an_xid_whose_words_tell_more_than_its_number(line: str, causes: tuple[str, ...]) -> None:
    found = codes_in(Text(f"NVRM: Xid (PCI:0000:01:00): {line}", source="text"), KNOWLEDGE)
    assert found[0].causes == causes


@pytest.mark.parametrize(
    "line",
    [
        "nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 12028, Non-fatal, Link 32 egress non-posted PRIV error",
        'DCGM_FI_DEV_XID_ERRORS{gpu="0"} 0',
        "xmin 731 xid 742",
        "at Xid 12:30:11",
    ],
)
def test_what_is_no_xid(line: str) -> None:
    assert codes(line) == []


def test_an_xid_speaks_of_its_gpu() -> None:
    text = "NVRM: Xid (PCI:0000:01:00): 79, a\nNVRM: Xid (PCI:0000:c1:00): 79, b\n"
    assert [clue.subject for clue in clues(Text(text, source="dmesg"), KNOWLEDGE)] == ["gpu:0000:01:00.0", "gpu:0000:c1:00.0"]


def test_a_number_from_a_worker() -> None:
    quotes = (Quote(source="nvml", first=1, last=1, text="{}"),)
    (clue,) = code_clues("nvml", 18, quotes, KNOWLEDGE, from_rung="nvml")
    assert (clue.cause, clue.basis, clue.quotes, clue.from_rung) == ("driver-version-mismatch", "stated", quotes, "nvml")
    assert code_clues("cuda", 12345, quotes, KNOWLEDGE) == ()


def test_every_message_and_name_of_the_tables_is_recognised() -> None:
    for row in KNOWLEDGE.cuda_errors:
        if row.code:
            for name in filter(None, (row.driver_name, row.runtime_name)):
                assert codes(f"x: {name}") == [("cuda", row.code)]
            assert codes(f"cuInit returned {row.code}")[:1] == [("cuda", row.code)]
            for message in row.messages:
                found = codes(f"CUDA error: {message}")
                assert len(found) == 1, message
                # 300 has the message of 200
                assert found[0] == ("cuda", 200 if row.code == 300 else row.code), message
    for nvml in KNOWLEDGE.nvml_errors:
        if nvml.code:
            assert codes(nvml.exception) == codes(nvml.name) == [("nvml", nvml.code)]
            for message in nvml.messages:
                assert codes(f"NVML: {message}") == [("nvml", nvml.code)], message
    for smi_message in KNOWLEDGE.smi_messages:
        assert codes(smi_message.text, smi(1))[0] == ("nvidia-smi", smi_message.code)


ALONE = {
    **{name: f"CUDA error: {name}\n" for error in KNOWLEDGE.cuda_errors for name in (error.driver_name, error.runtime_name) if name},
    **{error.name: f"NVML error: {error.name}\n" for error in KNOWLEDGE.nvml_errors},
    **{f"Xid {xid.number}": f"NVRM: Xid (PCI:0000:01:00): {xid.number}, pid=1234, name=python\n" for xid in KNOWLEDGE.xids},
}
# What a text says by naming nothing else: no driver (35), no cuda-compat package (803).
WEIGHED = ("cudaErrorInsufficientDriver", "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "cudaErrorSystemDriverMismatch")


@every("name", ALONE)
def test_a_text_and_the_page_of_its_code_lead_to_the_same_causes(name: str) -> None:
    diagnosis = report(ALONE[name]).diagnosis
    text = [finding.cause for finding in (*((diagnosis.root,) if diagnosis.root is not None else ()), *diagnosis.suspects)]
    page = list(lookup.explain_code(name, KNOWLEDGE).matches[0].causes)
    assert set(text) <= set(page) if name in WEIGHED else text == page


FRAGMENTS = st.sampled_from(
    [
        *("CUDA error ", "cuInit(", "Xid (", "PCI:0000:01:00): ", "79,", "nvml error: ", "NVML ", "code=", "100", ")", "->", " "),
        *("\n", "\r\n", "\x1b[0m", "é", "\x00", "x" * 79, "cudaError", "CUDA_ERROR_NO_DEVICE", "out of memory"),
        "Failed to initialize NVML: Unknown Error",
    ]
)


@given(st.lists(st.one_of(FRAGMENTS, st.text(max_size=20)), max_size=30).map("".join))
def test_any_text_is_read_without_an_error_and_quotes_what_it_says(text: str) -> None:
    shown = Text(text, source="text")
    for hit in codes_in(shown, KNOWLEDGE):
        assert isinstance(hit, CodeHit)
        assert 1 <= hit.line <= hit.last <= len(shown.lines)
    for clue in clues(shown, KNOWLEDGE):
        assert clue.quotes
        assert all(quote.text for quote in clue.quotes)


@given(st.lists(st.one_of(FRAGMENTS, st.text(max_size=20)), max_size=12).map("".join), st.sampled_from(["a\nb\n\n", "$ ls\n\n"]))
def test_noise_around_a_text_hides_nothing(text: str, noise: str) -> None:
    assert set(codes(text)) <= set(codes(noise + text + "\n\n" + noise))
