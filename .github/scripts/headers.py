"""The error codes that NVIDIA's headers define, and whether the knowledge tables hold them all.

    headers.py extract --wheels FOLDER [--xid nverror.h --xid-version 595.45.04]   writes fixtures/headers/*.tsv anew
    headers.py compare --wheels FOLDER [--xid nverror.h]                           exit 1 with a list of what the tables lack

FOLDER holds wheels as `pip download --no-deps nvidia-cuda-runtime nvidia-nvml-dev` leaves them. Numbers and names of an enum are facts;
nothing else of the headers is kept. `extract` needs the standard library alone, `compare` msgspec too, which reads the tables.
"""

from __future__ import annotations

import argparse
import re
import sys
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
EXTRACTS = ROOT / "fixtures" / "headers"
Codes = dict[str, int]

_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_ENTRY = re.compile(r"\s*([A-Za-z_]\w*)(?:\s+(?!=)[^=,]*)?\s*(?:=\s*(0[xX][0-9a-fA-F]+|\d+|[A-Za-z_]\w*))?\s*")
_XID = re.compile(r"^#define[ \t]+([A-Z]\w*)[ \t]+\(?(\d+)\)?[ \t]*$", re.MULTILINE)
_NO_XID = re.compile(r"ERROR_RECOVERY_LEVEL|LAST_ERROR")  # levels; the end of the list


def enum_codes(text: str, opening: str) -> Codes:
    """Name -> number of an enum's entries; one without a number counts on from the one before, as in C."""
    bare = _COMMENT.sub(" ", text)
    start = re.search(opening, bare)
    if start is None:
        raise ValueError(f"no enum that opens with {opening}")
    codes: Codes = {}
    following = 0
    for part in bare[start.end() : bare.index("}", start.end())].split(","):
        entry = _ENTRY.fullmatch(part)
        if entry is None:
            if part.strip():
                raise ValueError(f"not an entry of an enum: {part.strip()[:80]!r}")
            continue
        name, value = entry[1], entry[2]
        number = following if value is None else codes[value] if value in codes else int(value, 0)
        codes[name], following = number, number + 1
    return codes


def bit_codes(text: str, pattern: str) -> Codes:
    """Name -> bit of names that are defined one by one; the pattern's groups are both. Zero is no bit."""
    found = {name: int(value, 16) for name, value in re.findall(pattern, _COMMENT.sub(" ", text), re.MULTILINE)}
    if not found:
        raise ValueError(f"no line fits {pattern}")
    return {name: bit for name, bit in found.items() if bit}


class Enum(NamedTuple):
    """Where an enum, or names that are defined one by one, stand in a header."""

    name: str
    header: str
    pattern: str
    wheel: str
    codes: Callable[[str, str], Codes] = enum_codes

    @property
    def title(self) -> str:
        return f"{self.header}, {'enum' if self.codes is enum_codes else 'bits'} {self.name}"


ENUMS = (
    Enum("CUresult", "cuda.h", r"typedef\s+enum\s+cudaError_enum\s*\{", "nvidia_cuda_runtime"),
    Enum("cudaError_t", "driver_types.h", r"enum\s+(?:__device_builtin__\s+)?cudaError\s*\{", "nvidia_cuda_runtime"),
    Enum("nvmlReturn_t", "nvml.h", r"typedef\s+enum\s+nvmlReturn_enum\s*\{", "nvidia_nvml_dev"),
    Enum("nvmlDeviceGpuRecoveryAction_t", "nvml.h", r"typedef\s+enum\s+nvmlDeviceGpuRecoveryAction_s\s*\{", "nvidia_nvml_dev"),
    Enum(
        "nvmlClocksEventReasons", "nvml.h", r"^#define[ \t]+nvmlClocks(?:Event|Throttle)Reason(\w+)[ \t]+(0x[0-9a-fA-F]+)(?:LL)?\b",
        "nvidia_nvml_dev", bit_codes,
    ),
)  # fmt: skip
# Xid numbers are no enum; the driver's open sources define them one by one.
XID_HEADER = "nverror.h"


def xid_codes(text: str) -> Codes:
    """Name -> Xid of the driver's header."""
    return {name: int(number) for name, number in _XID.findall(_COMMENT.sub(" ", text)) if not _NO_XID.search(name)}


def of_wheels(folder: Path) -> Iterator[tuple[Enum, str, Codes]]:
    """(enum, the wheel's version, its codes) for every enum."""
    for enum in ENUMS:
        # nvidia_cuda_runtime-13.5.37-py3-none-... ; the wheels of older series end in _cu11 or _cu12
        wheels = sorted(path for path in folder.glob("*.whl") if re.match(rf"{enum.wheel}(?:_cu\d+)?-", path.name))
        if not wheels:
            raise FileNotFoundError(f"no wheel of {enum.wheel} in {folder}")
        version = wheels[-1].name.split("-")[1]
        with zipfile.ZipFile(wheels[-1]) as archive:
            name = next(name for name in archive.namelist() if name.endswith(f"/{enum.header}"))
            yield enum, version, enum.codes(archive.read(name).decode("utf-8", "replace"), enum.pattern)


# ---------------------------------------------------------------- the extract
def written(title: str, codes: Mapping[str, int]) -> str:
    rows = sorted(codes.items(), key=lambda row: (row[1], row[0]))
    return f"# {title}\n" + "".join(f"{number}\t{name}\n" for name, number in rows)


def read(path: Path) -> Codes:
    """An extract as `written` wrote it."""
    rows = [line.split("\t") for line in path.read_text("utf-8").splitlines() if line and not line.startswith("#")]
    return {name: int(number) for number, name in rows}


# ---------------------------------------------------------------- the tables
def known(knowledge: object) -> dict[str, Codes]:
    """What the tables hold, under the names of the extracts. An Xid may have several names in its row.

    The reasons for low clocks stand in the worker that asks NVML for them.
    """
    from cudadoctor.knowledge.load import Knowledge
    from cudadoctor.workers.nvml_health import EVENT_REASONS

    assert isinstance(knowledge, Knowledge)
    rows = knowledge.cuda_errors
    return {
        "CUresult": {row.driver_name: row.code for row in rows if row.driver_name},
        "cudaError_t": {row.runtime_name: row.code for row in rows if row.runtime_name},
        "nvmlReturn_t": {row.name: row.code for row in knowledge.nvml_errors},
        "nvmlDeviceGpuRecoveryAction_t": {row.nvml: row.value for row in knowledge.recovery_actions},
        "nvmlClocksEventReasons": {"".join(map(str.capitalize, words.split("-"))): bit for bit, words in EVENT_REASONS},
        "xid": {f"{row.number}": row.number for row in knowledge.xids},
    }


def missing(what: str, header: Mapping[str, int], table: Mapping[str, int]) -> list[str]:
    """One line for each code of the header that the table lacks or has under another number."""
    numbers = set(table.values())
    lines = []
    for name, number in sorted(header.items(), key=lambda row: row[1]):
        if what == "xid":
            if number not in numbers:
                lines.append(f"xid {number} ({name}): no row in tables/xid.toml")
        elif name not in table:
            lines.append(f"{what} {number} {name}: no row has this name")
        elif table[name] != number:
            lines.append(f"{what} {number} {name}: the table gives it the number {table[name]}")
    return lines


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=("extract", "compare"))
    parser.add_argument("--wheels", type=Path, required=True)
    parser.add_argument("--xid", type=Path, help="nverror.h of open-gpu-kernel-modules")
    parser.add_argument("--xid-version", default="")
    options = parser.parse_args(arguments)
    found = [(enum.name, f"{enum.title}; wheel {enum.wheel.replace('_', '-')} {version}", codes)
             for enum, version, codes in of_wheels(options.wheels)]  # fmt: skip
    if options.xid is not None:
        title = f"{XID_HEADER}, Xid numbers; open-gpu-kernel-modules {options.xid_version}".strip()
        found.append(("xid", title, xid_codes(options.xid.read_text("utf-8"))))
    if options.what == "extract":
        EXTRACTS.mkdir(exist_ok=True)
        for name, title, codes in found:
            (EXTRACTS / f"{name}.tsv").write_text(written(title, codes), "utf-8")
            print(f"{name}: {len(codes)} codes from {title}")
        return 0
    sys.path.insert(0, str(ROOT))
    from cudadoctor.knowledge.load import load

    tables = known(load())
    lines = []
    for name, title, codes in found:
        gaps = missing(name, codes, tables[name])
        print(f"{title}: {len(codes)} codes, {len(gaps)} missing in the tables")
        lines += gaps
    for line in lines:
        print(f"MISSING {line}")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
