"""What `nvidia-smi --query-gpu=... --format=csv` and `--query-compute-apps=...` print: a heading of field names and one line for each."""

from __future__ import annotations

from collections.abc import Iterator

from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import SMI_CSV, SmiCsv
from cudadoctor.parsers.base import Output, Text, parser
from cudadoctor.parsers.shell import is_prompt

# A heading is made of these names alone. Others are taken too, where one of these stands beside them.
_KNOWN = frozenset(
    (
        "index", "name", "uuid", "pci.bus_id", "memory.used", "memory.free", "memory.total", "utilization.gpu", "compute_cap",
        "compute_mode", "display_active", "driver_version", "temperature.gpu", "persistence_mode", "mig.mode.current", "gpu_uuid",
        "gpu_bus_id", "gpu_name", "pid", "process_name", "used_gpu_memory", "used_memory",
    )
)  # fmt: skip
_HEADING = lazy(r"^[a-z][a-z0-9_.]{1,60}(?: \[[A-Za-z%]{1,8}\])?(?:, ?[a-z][a-z0-9_.]{1,60}(?: \[[A-Za-z%]{1,8}\])?){0,40}$")
_UNIT = lazy(r" \[[A-Za-z%]{1,8}\]$")
_COMMAND = lazy(
    r"nvidia-smi .{0,200}?--query-(?:gpu|compute-apps)=\"?(?P<fields>[a-z][a-z0-9_.]{1,60}(?:, ?[a-z][a-z0-9_.]{1,60}){0,40})\"? "
)
_REMARK = lazy(r"\s{2,20}(?:<[=-]|#|//).{0,200}$")  # what people write behind a line
_LONGEST = 2000  # characters of a heading


def parse(text: Text) -> Output:
    """One fact for each list."""
    for table in tables(text):
        yield text.fact(SMI_CSV, table, text.quote(table.line, table.line + len(table.rows)), whole=False)


def tables(text: Text) -> Iterator[SmiCsv]:
    """Each heading with the lines below it that have as many fields."""
    lines = text.plain_lines
    for number, line in enumerate(lines, 1):
        fields = _fields(line.strip(), asked="--query-" in lines[number - 2] if number > 1 else False) or _asked(line)
        if not fields:
            continue
        rows, end = _rows(lines, number, len(fields))
        yield SmiCsv(fields=fields, rows=tuple(rows), closed=_closed(lines, end), line=number)


def _fields(line: str, *, asked: bool = False) -> tuple[str, ...]:
    """The names of a heading. A single name without a unit is one only right below the command."""
    if len(line) > _LONGEST or _HEADING.match(line) is None:
        return ()
    fields = tuple(_UNIT.sub("", field.strip()) for field in line.split(","))
    known = sum(field in _KNOWN for field in fields)
    units = sum(_UNIT.search(field) is not None for field in line.split(","))
    return fields if known and (known > 1 or units or asked) else ()


def _asked(line: str) -> tuple[str, ...]:
    """The names that a command without a heading asks for."""
    command = _COMMAND.search(line) if "noheader" in line and len(line) <= _LONGEST else None
    return tuple(field.strip() for field in command["fields"].split(",")) if command is not None else ()


def _rows(lines: list[str], start: int, width: int) -> tuple[list[tuple[str, ...]], int]:
    """The lines from index `start` that have `width` fields, and the index behind them."""
    rows: list[tuple[str, ...]] = []
    for index in range(start, len(lines)):
        line = _REMARK.sub("", lines[index]).strip()
        values = tuple(value.strip() for value in line.split(","))
        if not line or len(line) > _LONGEST or len(values) != width or _fields(line) or is_prompt(lines[index]):
            return rows, index
        rows.append(values)
    return rows, len(lines)


def _closed(lines: list[str], end: int) -> bool:
    """Whether the list is known to end here: a prompt or another heading follows."""
    while end < len(lines) and not lines[end].strip():
        end += 1
    return end < len(lines) and (is_prompt(lines[end]) or bool(_fields(lines[end].strip())))


PARSER = parser(
    "nvidia_smi_csv", parse, SMI_CSV,
    wakes=(
        "pcie.link.", "remapped_rows.", "retired_pages.", "clocks_throttle_reasons.", "clocks_event_reasons.", "ecc.errors.",
        "memory.used", "memory.total", "memory.free", "used_gpu_memory", "process_name", "compute_mode", "compute_cap", "display_active",
        "gpu_recovery_action", "driver_version",
    ),
)  # fmt: skip
