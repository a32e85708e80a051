"""A cause's own page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from cudadoctor.model.explanation import CausePage

if TYPE_CHECKING:
    from cudadoctor.knowledge.codes import CudaError, NvmlError, SmiExit
    from cudadoctor.knowledge.load import Knowledge


def page(cause_id: str, knowledge: Knowledge) -> CausePage:
    """KeyError where there is no such cause."""
    cause = knowledge.cause(cause_id)
    stated = (one for match in cause.match if not match.suspects and not match.advice for one in match.literals)
    hinted = (one for match in cause.match if match.suspects or match.advice for one in match.literals)
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
        messages=tuple(dict.fromkeys(stated)),
        hints=tuple(dict.fromkeys(hinted)),
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
