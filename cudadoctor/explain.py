"""What a code or a cause id means, from the knowledge alone: the pages behind `cudadoctor explain`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from cudadoctor.model.explanation import ApiName, CausePage, CodeMeaning, Explanation

if TYPE_CHECKING:
    from cudadoctor.knowledge.codes import CudaError, NvmlError, SmiExit
    from cudadoctor.knowledge.load import Knowledge

_CODE = re.compile(r"(?:(?P<api>[a-z_-]+)[\s:=#(]*)?(?:(?:error|code|exit|status|result)[\s:=#(]*)*(?P<number>\d{1,5})\)?")
_APIS = {
    "cuda": "cuda", "cudart": "cuda", "cudaerror": "cuda", "cudaerror_t": "cuda", "curesult": "cuda", "cuda_error": "cuda",
    "nvml": "nvml", "nvmlreturn_t": "nvml", "nvml_error": "nvml",
    "xid": "xid",
    "nvidia-smi": "nvidia-smi", "smi": "nvidia-smi",
}  # fmt: skip


def explain_code(query: str, knowledge: Knowledge) -> Explanation | None:
    """The page of a cause id, of a code with or without its API, or of a code's name. None where the query is none of these.

    A number without an API has every API's meaning, CUDA's first.
    """
    asked = query.strip()
    if not asked:
        return None
    if asked in knowledge.causes:
        return Explanation(kind="cause", query=asked, cause=_page(asked, knowledge))
    matches = tuple(_by_number(asked, knowledge)) or tuple(_by_name(asked, knowledge))
    return Explanation(kind="code", query=asked, matches=matches) if matches else None


def _by_number(asked: str, knowledge: Knowledge) -> Iterator[CodeMeaning]:
    match = _CODE.fullmatch(asked.lower())
    if match is None:
        return
    number = int(match["number"])
    api = _APIS.get(match["api"]) if match["api"] else None
    if api is None and match["api"] not in (None, "error", "code", "exit", "status"):
        return
    readers: tuple[tuple[str, Callable[[int, Knowledge], Iterable[CodeMeaning]]], ...] = (
        ("cuda", _cuda),
        ("cuda", _old_cuda),
        ("nvml", _nvml),
        ("xid", _xid),
        ("nvidia-smi", _smi),
    )
    for name, read in readers:
        if api in (None, name):
            yield from read(number, knowledge)


def _by_name(asked: str, knowledge: Knowledge) -> Iterator[CodeMeaning]:
    """By a name as an API writes it, in any case."""
    name = asked.lower()
    for cuda in knowledge.cuda_errors:
        if name in ((cuda.driver_name or "").lower(), (cuda.runtime_name or "").lower()):
            yield _cuda_meaning(cuda, knowledge)
    for nvml in knowledge.nvml_errors:
        if name in (nvml.name.lower(), nvml.exception.lower()):
            yield _nvml_meaning(nvml, knowledge)


def _cuda(number: int, knowledge: Knowledge) -> Iterator[CodeMeaning]:
    row = knowledge.cuda_error(number)
    if row is not None:
        yield _cuda_meaning(row, knowledge)


def _cuda_meaning(row: CudaError, knowledge: Knowledge) -> CodeMeaning:
    aliases = (row.runtime_name,) if row.driver_name and row.runtime_name else ()
    words = [row.explanation, row.note, "The context is dead afterwards: only a new process helps." if row.sticky else None]
    return _meaning(
        "cuda", row.code, row.name, " ".join(filter(None, words)), row.causes, knowledge, suspect=row.suspect_only, aliases=aliases
    )


def _old_cuda(number: int, knowledge: Knowledge) -> Iterator[CodeMeaning]:
    old = knowledge.old_runtime_error(number)
    today = None if old is None else knowledge.cuda_error(old.code_today)
    if old is not None and today is not None:
        words = f"As a number of the runtime before CUDA 10.1 (today {old.code_today}): {today.explanation}"
        suspect = today.suspect_only
        yield _meaning("cuda-before-10.1", number, old.runtime_name, words, today.causes, knowledge, suspect=suspect)


def _nvml(number: int, knowledge: Knowledge) -> Iterator[CodeMeaning]:
    row = knowledge.nvml_error(number)
    if row is not None:
        yield _nvml_meaning(row, knowledge)


def _nvml_meaning(row: NvmlError, knowledge: Knowledge) -> CodeMeaning:
    return _meaning("nvml", row.code, row.name, row.meaning, row.causes, knowledge, suspect=row.suspect_only, aliases=(row.exception,))


def _xid(number: int, knowledge: Knowledge) -> Iterator[CodeMeaning]:
    row = knowledge.xid(number)
    if row is not None:
        words = " ".join(filter(None, (row.meaning, row.action, row.follow_up)))
        yield _meaning("xid", number, row.name, words, row.causes, knowledge, suspect=row.suspect_only)


def _smi(number: int, knowledge: Knowledge) -> Iterator[CodeMeaning]:
    row = knowledge.smi_exit(number)
    if row is not None:
        words = f"Exit code of nvidia-smi: {row.meaning}."
        yield _meaning("nvidia-smi", number, None, words, row.causes, knowledge, suspect=row.suspect_only)


def _meaning(
    api: ApiName,
    number: int,
    name: str | None,
    meaning: str,
    causes: tuple[str, ...],
    knowledge: Knowledge,
    *,
    suspect: bool,
    aliases: tuple[str, ...] = (),
) -> CodeMeaning:
    known = knowledge.causes
    return CodeMeaning(
        api=api,
        number=number,
        name=name,
        aliases=aliases,
        meaning=meaning,
        causes=causes,
        certain=len(causes) == 1 and not suspect,
        tell_apart={cause: known[cause].tell_apart if cause in known else None for cause in causes},
    )


def _page(cause_id: str, knowledge: Knowledge) -> CausePage:
    cause = knowledge.cause(cause_id)
    return CausePage(
        id=cause.id,
        title=cause.title,
        layer=cause.layer,
        row=cause.row,
        breaks=cause.breaks,
        effect=cause.effect,
        why=cause.why,
        tell_apart=cause.tell_apart,
        yields_to=cause.yields_to,
        recipes=cause.recipes,
        no_software_fix=cause.no_software_fix,
        codes=tuple(_codes_of(cause_id, knowledge)),
        sources=cause.sources,
    )


def _codes_of(cause_id: str, knowledge: Knowledge) -> Iterator[str]:
    """The codes that may mean this cause."""
    rows: tuple[tuple[str, Iterable[CudaError | NvmlError | SmiExit]], ...] = (
        ("cuda", knowledge.cuda_errors),
        ("nvml", knowledge.nvml_errors),
        ("nvidia-smi", knowledge.smi_exits),
    )
    for api, table in rows:
        yield from (f"{api} {row.code}" for row in table if cause_id in row.causes)
    yield from (f"xid {row.number}" for row in knowledge.xids if cause_id in row.causes)
