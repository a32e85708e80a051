"""Codes of every API, by number and by name: CUDA's driver and runtime (today's numbers and those before 10.1), NVML, nvidia-smi, Xid."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from cudadoctor.knowledge.lookup.pages import NoSuchError, either, neighbours, tell_apart
from cudadoctor.model.explanation import ApiName, CodeMeaning

if TYPE_CHECKING:
    from cudadoctor.knowledge.codes import Code, CudaError, NvmlError, OldRuntimeError, SmiExit, Xid
    from cudadoctor.knowledge.load import Knowledge

_WORDS = r"(?:error|code|exit|status|result)"
_CODE = re.compile(rf"(?:(?P<api>[a-z_-]{{1,40}})[\s:=#(]{{0,8}})?(?:{_WORDS}[\s:=#(]{{0,8}}){{0,4}}(?P<number>\d{{1,9}})\)?")
_REVERSED = re.compile(r"(?P<number>\d{1,9}) (?P<api>[a-z_-]+)")
_NAME = re.compile(r"(?:\w{1,60}\.)?(?P<name>[A-Za-z]\w{3,120})(?:[\s:=]{0,8}\(?\d{1,9}\)?)?")
_APIS = {
    "cuda": "cuda", "cudart": "cuda", "cudaerror": "cuda", "cudaerror_t": "cuda", "curesult": "cuda", "cuda_error": "cuda",
    "nvml": "nvml", "nvmlreturn_t": "nvml", "nvml_error": "nvml", "nvmlerror": "nvml",
    "xid": "xid",
    "nvidia-smi": "nvidia-smi", "smi": "nvidia-smi",
}  # fmt: skip
_ANY_API = ("error", "code", "exit", "status")
LARGEST_SERIES = 30  # of CUDA toolkits: beyond it nobody means one
_NAMES = {"cuda": "CUDA", "nvml": "NVML", "xid": "Xid", "nvidia-smi": "nvidia-smi"}


def read(asked: str, knowledge: Knowledge) -> tuple[CodeMeaning, ...]:
    """What a code means; nothing where the question is none. NoSuchError: an API's name with a number that it does not have."""
    lower = asked.lower()
    match = _CODE.fullmatch(lower) or _REVERSED.fullmatch(lower)
    if match is not None and (match["api"] is None or match["api"] in _ANY_API or match["api"] in _APIS):
        api = _APIS.get(match["api"]) if match["api"] else None
        found = tuple(_by_number(api, int(match["number"]), knowledge))
        if not found:
            raise NoSuchError(_unknown(api, int(match["number"]), knowledge))
        return _or_a_toolkit(found, knowledge) if api == "cuda" else found
    named = _NAME.fullmatch(asked)
    return tuple(_by_name(named["name"].lower(), knowledge)) if named is not None else ()


def _or_a_toolkit(found: tuple[CodeMeaning, ...], knowledge: Knowledge) -> tuple[CodeMeaning, ...]:
    """Who writes "cuda 12" may mean the toolkit, whose versions have a dot."""
    number = found[0].number
    versions = [row.cuda for row in knowledge.toolkits if row.version.major == number] if number < LARGEST_SERIES else []
    if not versions:
        return found
    hint = f"For the toolkit ask with its dot: `cuda {versions[-1]}`."
    return (msgspec.structs.replace(found[0], advice=" ".join(filter(None, (found[0].advice, hint)))), *found[1:])


def _by_number(api: str | None, number: int, knowledge: Knowledge) -> Iterator[CodeMeaning]:
    for name, table in TABLES:
        for row in table.rows(knowledge) if api in (None, name) else ():
            if getattr(row, table.number) == number:
                yield table.meaning(row, knowledge)


def _by_name(name: str, knowledge: Knowledge) -> Iterator[CodeMeaning]:
    """By a name as an API writes it, in any case."""
    for _, table in TABLES if "_" in name or name.startswith("cuda") else ():  # no name of a code is another word
        for row in table.rows(knowledge):
            if any(name in (getattr(row, field) or "").lower().split(" / ") for field in table.names):
                yield table.meaning(row, knowledge)


def _unknown(api: str | None, number: int, knowledge: Knowledge) -> str:
    """The sentence about a number that an API does not have."""
    if api is None:
        branch = f". A driver branch: `driver {number}`" if knowledge.branch(number) is not None else ""
        return f"no API here has the code {number}: neither CUDA nor NVML, Xid or nvidia-smi{branch}"
    table = next(table for name, table in TABLES if name == api)
    known = (getattr(row, table.number) for row in table.rows(knowledge))
    return f"{_NAMES[api]} has no {table.what} {number} in these tables. Nearest: {either(f'{api} ', neighbours(number, known))}"


# ---------------------------------------------------------------- what a row means
def _cuda_meaning(row: CudaError, knowledge: Knowledge) -> CodeMeaning:
    words = [row.explanation, row.note, "The context is dead afterwards: only a new process helps." if row.sticky else None]
    before = next((old.code for old in knowledge.old_runtime_errors if old.code_today == row.code and old.code != row.code), None)
    return _meaning(
        "cuda", row, knowledge, number=row.code, name=row.name, meaning=" ".join(filter(None, words)), messages=row.messages,
        aliases=(row.runtime_name,) if row.driver_name and row.runtime_name else (),
        number_before_10_1=before, sources=knowledge.sources("cuda_errors", row.source),
    )  # fmt: skip


def _old_meaning(old: OldRuntimeError, knowledge: Knowledge) -> CodeMeaning:
    today = knowledge.cuda_error(old.code_today)
    assert today is not None  # both stand in one table, and a test holds them together
    unused = "" if knowledge.cuda_error(old.code) is not None else " Since 10.1 no CUDA code has this number."
    words = f"As a number of the runtime before CUDA 10.1 (today {old.code_today}): {today.explanation}{unused}"
    return _meaning(
        "cuda-before-10.1", today, knowledge, number=old.code, name=old.runtime_name, meaning=words,
        messages=today.messages, sources=knowledge.sources("cuda_errors", None, "old_runtime"),
    )  # fmt: skip


def _nvml_meaning(row: NvmlError, knowledge: Knowledge) -> CodeMeaning:
    return _meaning(
        "nvml", row, knowledge, number=row.code, name=row.name, meaning=row.meaning, aliases=(row.exception,),
        messages=row.messages, sources=knowledge.sources("nvml_errors", row.source),
    )  # fmt: skip


def _xid_meaning(row: Xid, knowledge: Knowledge) -> CodeMeaning:
    asked = ", then ".join(dict.fromkeys(filter(None, (row.nvidia_immediate, row.nvidia_investigate))))
    catalogued = f"NVIDIA's catalogue ({', '.join(row.applies_to)}): {asked}." if asked and row.applies_to else None
    return _meaning(
        "xid", row, knowledge, number=row.number, name=row.name, meaning=row.meaning,
        advice=" ".join(filter(None, (row.action, row.follow_up, catalogued))) or None, sources=knowledge.sources("xid", row.source),
    )  # fmt: skip


def _smi_meaning(row: SmiExit, knowledge: Knowledge) -> CodeMeaning:
    said = tuple(message.text for message in knowledge.smi_messages if message.code == row.code and not message.generic)
    return _meaning(
        "nvidia-smi", row, knowledge, number=row.code, name=None, meaning=row.meaning,
        messages=said, sources=knowledge.sources("nvidia_smi", row.source),
    )  # fmt: skip


def _meaning(
    api: ApiName, row: Code, knowledge: Knowledge, *, number: int, advice: str | None = None, aliases: tuple[str, ...] = (),
    messages: tuple[str, ...] = (), **more: Any,
) -> CodeMeaning:  # fmt: skip
    if advice is None and not row.causes:
        advice = knowledge.advice("cuda" if api == "cuda-before-10.1" else api, success=number == 0)
    return CodeMeaning(
        api=api, number=number, causes=row.causes, certain=len(row.causes) == 1 and not row.suspect_only, advice=advice, aliases=aliases,
        tell_apart=tell_apart(row.causes, knowledge), messages=tuple(dict.fromkeys(messages)), **more,
    )  # fmt: skip


class Codes(NamedTuple):
    """The codes of an API: its rows, the fields in which a row has its number and its names, and the page that a row makes."""

    rows: Callable[[Knowledge], Iterable[Any]]
    meaning: Callable[[Any, Knowledge], CodeMeaning]
    names: tuple[str, ...] = ()
    number: str = "code"
    what: str = "code"


TABLES: tuple[tuple[str, Codes], ...] = (
    ("cuda", Codes(lambda knowledge: knowledge.cuda_errors, _cuda_meaning, ("driver_name", "runtime_name"))),
    ("cuda", Codes(lambda knowledge: knowledge.old_runtime_errors, _old_meaning)),
    ("nvml", Codes(lambda knowledge: knowledge.nvml_errors, _nvml_meaning, ("name", "exception"))),
    ("xid", Codes(lambda knowledge: knowledge.xids, _xid_meaning, ("name",), "number", "number")),
    ("nvidia-smi", Codes(lambda knowledge: knowledge.smi_exits, _smi_meaning, what="exit code")),
)
