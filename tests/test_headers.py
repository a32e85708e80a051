"""The tables hold every code of NVIDIA's headers, by an extract of them; and the script that makes the extract can read them."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from cudadoctor.knowledge.load import Knowledge
from tests.judging import KNOWLEDGE
from tests.scripts import SCRIPTS, script

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = SCRIPTS / "headers.py"
CUDA_H = """
typedef enum cudaError_enum {
    /** no error, whatever = 5, it says */
    CUDA_SUCCESS                 = 0,
    CUDA_ERROR_INVALID_VALUE     = 1, // one
    CUDA_ERROR_OUT_OF_MEMORY,
    CUDA_ERROR_OLD CUDA_DEPRECATED = 0x5,
    CUDA_ERROR_ALIAS             = CUDA_ERROR_OLD,
    CUDA_ERROR_UNKNOWN           = 999
} CUresult;
typedef enum other_enum { OTHER = 7 } other;
"""


HEADERS = script("headers")
EXTRACTS = {path.stem: HEADERS.read(path) for path in sorted(HEADERS.EXTRACTS.glob("*.tsv"))}
LEAST = {
    "CUresult": 106, "cudaError_t": 139, "nvmlReturn_t": 32, "nvmlDeviceGpuRecoveryAction_t": 8, "nvmlClocksEventReasons": 11, "xid": 133,
}  # fmt: skip


# ---------------------------------------------------------------- the tables against the extract
def test_there_is_an_extract_of_every_api_that_states_its_version() -> None:
    assert set(EXTRACTS) == set(LEAST) == set(HEADERS.known(KNOWLEDGE))
    for name, codes in EXTRACTS.items():
        assert len(codes) >= LEAST[name]
        first = (HEADERS.EXTRACTS / f"{name}.tsv").read_text("utf-8").splitlines()[0]
        assert re.match(r"# \w+\.h, .+; (?:wheel [a-z-]+ |open-gpu-kernel-modules )\d+\.\d+\.\d+$", first), first


@pytest.mark.parametrize("name", sorted(EXTRACTS))
def test_the_tables_hold_every_code_of_the_headers(name: str) -> None:
    gaps = HEADERS.missing(name, EXTRACTS[name], HEADERS.known(KNOWLEDGE)[name])
    assert not gaps, "\n".join(gaps)


def test_the_tables_name_the_version_of_their_headers() -> None:
    version = {name: (HEADERS.EXTRACTS / f"{name}.tsv").read_text("utf-8").splitlines()[0].split()[-1] for name in EXTRACTS}
    stated = {name: KNOWLEDGE._head(name).meta for name in ("cuda_errors", "nvml_errors", "xid")}
    assert version["CUresult"].startswith(f"{stated['cuda_errors']['cuda_version']}.")
    assert version["cudaError_t"] == version["CUresult"]
    for name in ("nvmlReturn_t", "nvmlDeviceGpuRecoveryAction_t", "nvmlClocksEventReasons"):
        assert version[name] == stated["nvml_errors"]["nvml_header"]
    assert str(stated["xid"]["header"]).endswith(f" {version['xid']}")


def test_a_code_that_the_tables_lack_is_named() -> None:
    without = {name: text for name, text in KNOWLEDGE._texts.items() if name.startswith("tables/")}
    row = "[[error]]\ncode = 919\n"
    assert row in without["tables/cuda_errors.toml"]
    head, rest = without["tables/cuda_errors.toml"].split(row)
    without["tables/cuda_errors.toml"] = head + "[[" + rest.split("\n[[", 1)[1]
    without["tables/xid.toml"] = without["tables/xid.toml"].replace("number = 79\n", "number = 7900\n")
    without["tables/nvml_errors.toml"] = without["tables/nvml_errors.toml"].replace("code = 18\n", "code = 1800\n")
    tables = HEADERS.known(Knowledge(without))
    gaps = [line for name, codes in EXTRACTS.items() for line in HEADERS.missing(name, codes, tables[name])]
    assert any(line.startswith("CUresult 919 ") for line in gaps)
    assert any(line.startswith("cudaError_t 919 ") for line in gaps)
    assert any(line.startswith("xid 79 (ROBUST_CHANNEL_GPU_HAS_FALLEN_OFF_THE_BUS)") for line in gaps)
    assert any("NVML_ERROR_LIB_RM_VERSION_MISMATCH: the table gives it the number 1800" in line for line in gaps)
    assert len(gaps) == 4


# ---------------------------------------------------------------- the script
def test_an_enum_is_read_as_c_reads_it() -> None:
    opening = HEADERS.ENUMS[0].pattern
    assert HEADERS.enum_codes(CUDA_H, opening) == {
        "CUDA_SUCCESS": 0, "CUDA_ERROR_INVALID_VALUE": 1, "CUDA_ERROR_OUT_OF_MEMORY": 2, "CUDA_ERROR_OLD": 5, "CUDA_ERROR_ALIAS": 5,
        "CUDA_ERROR_UNKNOWN": 999,
    }  # fmt: skip
    with pytest.raises(ValueError, match="no enum"):
        HEADERS.enum_codes("int main;", opening)
    with pytest.raises(ValueError, match="not an entry"):
        HEADERS.enum_codes(CUDA_H.replace("= 1,", "= 1 + 1,"), opening)


def test_bits_are_read_without_what_renames_them_and_without_none() -> None:
    bits = next(enum for enum in HEADERS.ENUMS if enum.name == "nvmlClocksEventReasons")
    text = (
        "#define nvmlClocksEventReasonGpuIdle 0x0000000000000001LL //!< GPU is idle.\n"
        "#define nvmlClocksThrottleReasonHwSlowdown   0x0000000000000008LL\n#define nvmlClocksEventReasonNone 0x0LL\n"
        "#define nvmlClocksThrottleReasonGpuIdle nvmlClocksEventReasonGpuIdle\n// #define nvmlClocksEventReasonOld 0x800LL\n"
    )
    assert bits.codes(text, bits.pattern) == {"GpuIdle": 1, "HwSlowdown": 8}
    with pytest.raises(ValueError, match="no line fits"):
        bits.codes("int main;", bits.pattern)


def test_xid_numbers_are_read_without_levels_and_macros() -> None:
    text = "#define A_B (13)\n#define C_D C_E\n#define ROBUST_CHANNEL_ERROR_RECOVERY_LEVEL_FATAL     (2)\n#define F(x) \\\n  (x)\n// #define G (4)\n"
    assert HEADERS.xid_codes(text) == {"A_B": 13}


def wheels(folder: Path, cuda_h: str) -> Path:
    """Wheels with headers that hold the extract, and this cuda.h."""
    folder.mkdir()

    def enum(opening: str, name: str) -> str:
        return opening + " {\n" + ",\n".join(f"  {code} = {number}" for code, number in EXTRACTS[name].items()) + "\n};\n"

    with zipfile.ZipFile(folder / "nvidia_cuda_runtime-99.1.2-py3-none-any.whl", "w") as archive:
        archive.writestr("nvidia/cu99/include/cuda.h", cuda_h)
        archive.writestr("nvidia/cu99/include/driver_types.h", enum("enum __device_builtin__ cudaError", "cudaError_t"))
    with zipfile.ZipFile(folder / "nvidia_nvml_dev-99.1.2-py3-none-any.whl", "w") as archive:
        enums = enum("typedef enum nvmlReturn_enum", "nvmlReturn_t") + enum(
            "typedef enum nvmlDeviceGpuRecoveryAction_s", "nvmlDeviceGpuRecoveryAction_t"
        )
        bits = "".join(f"#define nvmlClocksEventReason{name} {bit:#018x}LL\n" for name, bit in EXTRACTS["nvmlClocksEventReasons"].items())
        archive.writestr("nvidia/cu99/include/nvml.h", enums + bits)
    return folder


def test_the_scheduled_comparison_fails_with_a_readable_list(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    newer = (
        CUDA_H.replace("= 999", "= 999,\n  CUDA_ERROR_BRAND_NEW = 12345")
        .replace("CUDA_DEPRECATED", "")
        .replace("CUDA_ERROR_OLD", "CUDA_ERROR_NO_DEVICE")
    )
    folder = wheels(tmp_path / "new", newer)
    assert HEADERS.main(["compare", "--wheels", str(folder)]) == 1
    out = capsys.readouterr().out
    assert "MISSING CUresult 12345 CUDA_ERROR_BRAND_NEW: no row has this name" in out
    assert "MISSING CUresult 5 CUDA_ERROR_NO_DEVICE: the table gives it the number 100" in out
    assert "wheel nvidia-cuda-runtime 99.1.2" in out
    (tmp_path / "nverror.h").write_text("#define BRAND_NEW_XID (4000)\n", "utf-8")
    plain = "typedef enum cudaError_enum { CUDA_SUCCESS = 0 } CUresult;"
    folder = wheels(tmp_path / "same", plain)
    assert HEADERS.main(["compare", "--wheels", str(folder)]) == 0
    assert HEADERS.main(["compare", "--wheels", str(folder), "--xid", str(tmp_path / "nverror.h")]) == 1
    assert "MISSING xid 4000 (BRAND_NEW_XID): no row in tables/xid.toml" in capsys.readouterr().out


def test_an_extract_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    codes = {"B": 2, "A": 1}
    (tmp_path / "x.tsv").write_text(HEADERS.written("x.h, enum x; wheel y 1.2.3", codes), "utf-8")
    assert HEADERS.read(tmp_path / "x.tsv") == codes


def test_it_runs_from_anywhere(tmp_path: Path) -> None:
    folder = wheels(tmp_path / "wheels", "typedef enum cudaError_enum { CUDA_SUCCESS = 0 } CUresult;")
    ran = subprocess.run(
        [sys.executable, str(SCRIPT), "compare", "--wheels", str(folder)], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, "")


def test_the_weekly_job_calls_it_as_it_is() -> None:
    text = (ROOT / ".github" / "workflows" / "headers.yml").read_text("utf-8")
    assert re.search(r"schedule:\n\s+- cron: ", text)
    wanted = {enum.wheel.replace("_", "-") for enum in HEADERS.ENUMS}
    assert wanted <= set(text.split())
    assert "headers.py compare --wheels wheels" in text
    assert HEADERS.XID_HEADER in text
    assert "pipefail" in text, "tee would hide the exit code"
