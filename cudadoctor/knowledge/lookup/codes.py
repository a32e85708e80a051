"""Codes of every API, by number and by name: CUDA's driver and runtime (today's numbers and those before 10.1), NVML, nvidia-smi, Xid."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from cudadoctor.knowledge.lookup.pages import NoSuchError, neighbours, tell_apart
from cudadoctor.model.explanation import ApiName, CodeMeaning

if TYPE_CHECKING:
    from cudadoctor.knowledge.codes import CudaError, NvmlError, OldRuntimeError, SmiExit, Xid
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
    for name, find, meaning in _READERS:
        row = find(number, knowledge) if api in (None, name) else None
        if row is not None:
            yield meaning(row, knowledge)


def _by_name(name: str, knowledge: Knowledge) -> Iterator[CodeMeaning]:
    """By a name as an API writes it, in any case."""
    if name.startswith("cuda"):
        for cuda in knowledge.cuda_errors:
            if name in ((cuda.driver_name or "").lower(), (cuda.runtime_name or "").lower()):
                yield _cuda_meaning(cuda, knowledge)
    elif name.startswith("nvml"):
        for nvml in knowledge.nvml_errors:
            if name in (nvml.name.lower(), nvml.exception.lower()):
                yield _nvml_meaning(nvml, knowledge)
    elif "_" in name:
        for xid in knowledge.xids:
            if name in xid.name.lower().split(" / "):
                yield _xid_meaning(xid, knowledge)


def _unknown(api: str | None, number: int, knowledge: Knowledge) -> str:
    """The sentence about a number that an API does not have."""
    if api is None:
        branch = f". A driver branch: `driver {number}`" if knowledge.branch(number) is not None else ""
        return f"no API here has the code {number}: neither CUDA nor NVML, Xid or nvidia-smi{branch}"
    known: dict[str, Callable[[], Iterable[int]]] = {
        "cuda": lambda: (row.code for row in knowledge.cuda_errors),
        "nvml": lambda: (row.code for row in knowledge.nvml_errors),
        "xid": lambda: (row.number for row in knowledge.xids),
        "nvidia-smi": lambda: (row.code for row in knowledge.smi_exits),
    }
    near = " and ".join(f"`{api} {other}`" for other in neighbours(number, known[api]()))
    what = "exit code" if api == "nvidia-smi" else "number" if api == "xid" else "code"
    return f"{_NAMES[api]} has no {what} {number} in these tables. Nearest: {near}"


# ---------------------------------------------------------------- CUDA
def _cuda_meaning(row: CudaError, knowledge: Knowledge) -> CodeMeaning:
    aliases = (row.runtime_name,) if row.driver_name and row.runtime_name else ()
    words = [row.explanation, row.note, "The context is dead afterwards: only a new process helps." if row.sticky else None]
    before = next((old.code for old in knowledge.old_runtime_errors if old.code_today == row.code and old.code != row.code), None)
    return _meaning(
        "cuda", row.code, row.name, " ".join(filter(None, words)), row.causes, knowledge, suspect=row.suspect_only, aliases=aliases,
        messages=row.messages, before=before, sources=knowledge.sources("cuda_errors", row.source),
    )  # fmt: skip


def _old_meaning(old: OldRuntimeError, knowledge: Knowledge) -> CodeMeaning:
    today = knowledge.cuda_error(old.code_today)
    assert today is not None  # both stand in one table, and a test holds them together
    unused = "" if knowledge.cuda_error(old.code) is not None else " Since 10.1 no CUDA code has this number."
    words = f"As a number of the runtime before CUDA 10.1 (today {old.code_today}): {today.explanation}{unused}"
    return _meaning(
        "cuda-before-10.1", old.code, old.runtime_name, words, today.causes, knowledge, suspect=today.suspect_only,
        messages=today.messages, sources=knowledge.sources("cuda_errors", None, "old_runtime"),
    )  # fmt: skip


# ---------------------------------------------------------------- NVML, Xid, nvidia-smi
def _nvml_meaning(row: NvmlError, knowledge: Knowledge) -> CodeMeaning:
    return _meaning(
        "nvml", row.code, row.name, row.meaning, row.causes, knowledge, suspect=row.suspect_only, aliases=(row.exception,),
        messages=row.messages, sources=knowledge.sources("nvml_errors", row.source),
    )  # fmt: skip


def _xid_meaning(row: Xid, knowledge: Knowledge) -> CodeMeaning:
    advice = " ".join(filter(None, (row.action, row.follow_up))) or None
    return _meaning(
        "xid", row.number, row.name, row.meaning, row.causes, knowledge, suspect=row.suspect_only,
        advice=advice, sources=knowledge.sources("xid", row.source),
    )  # fmt: skip


def _smi_meaning(row: SmiExit, knowledge: Knowledge) -> CodeMeaning:
    said = tuple(message.text for message in knowledge.smi_messages if message.code == row.code and not message.generic)
    return _meaning(
        "nvidia-smi", row.code, None, row.meaning, row.causes, knowledge, suspect=row.suspect_only,
        messages=said, sources=knowledge.sources("nvidia_smi", row.source),
    )  # fmt: skip


# Each API's row of a number, and the page that it makes.
_READERS: tuple[tuple[str, Callable[[int, Knowledge], Any], Callable[[Any, Knowledge], CodeMeaning]], ...] = (
    ("cuda", lambda number, knowledge: knowledge.cuda_error(number), _cuda_meaning),
    ("cuda", lambda number, knowledge: knowledge.old_runtime_error(number), _old_meaning),
    ("nvml", lambda number, knowledge: knowledge.nvml_error(number), _nvml_meaning),
    ("xid", lambda number, knowledge: knowledge.xid(number), _xid_meaning),
    ("nvidia-smi", lambda number, knowledge: knowledge.smi_exit(number), _smi_meaning),
)


def _meaning(
    api: ApiName,
    number: int,
    name: str | None,
    meaning: str,
    causes: tuple[str, ...],
    knowledge: Knowledge,
    *,
    suspect: bool,
    sources: tuple[str, ...],
    aliases: tuple[str, ...] = (),
    messages: tuple[str, ...] = (),
    advice: str | None = None,
    before: int | None = None,
) -> CodeMeaning:
    if advice is None and not causes:
        advice = knowledge.advice("cuda" if api == "cuda-before-10.1" else api, success=number == 0)
    return CodeMeaning(
        api=api,
        number=number,
        name=name,
        aliases=aliases,
        meaning=meaning,
        causes=causes,
        certain=len(causes) == 1 and not suspect,
        tell_apart=tell_apart(causes, knowledge),
        messages=tuple(dict.fromkeys(messages)),
        advice=advice,
        number_before_10_1=before,
        sources=sources,
    )
