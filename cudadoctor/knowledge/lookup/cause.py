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
        **{name: getattr(cause, name) for name in CausePage.__struct_fields__ if hasattr(cause, name)},
        codes=tuple(_codes_of(cause_id, knowledge)),
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
