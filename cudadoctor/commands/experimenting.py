"""The loop of a live check: try what the judgement would like to know, until it knows or the time is over."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cudadoctor.knowledge.load import Knowledge
    from cudadoctor.model.evidence import Evidence
    from cudadoctor.model.judgement import Answer


def tried(answer: Answer, evidence: Evidence, knowledge: Knowledge, *, timeout: float) -> Evidence:
    """The evidence with what the experiments came to. Ctrl-C ends them, and what is known by then stays."""
    from cudadoctor.judge.experiments import next_try
    from cudadoctor.model.evidence import Item
    from cudadoctor.model.experiments import SAME
    from cudadoctor.parsers import tries
    from cudadoctor.sources.experiments import Laboratory

    assert answer.plan is not None
    items: list[Item] = []
    try:
        laboratory = Laboratory(evidence, knowledge.experiments, toolkits=answer.plan.toolkits, timeout=timeout)
        with closing(laboratory):
            # One that there is no time for would be ended half way, and say nothing.
            while (wanted := next_try(answer.plan, [run for run in map(tries.ran, items) if run is not None])) is not None:
                longest = max((item.seconds for item in items), default=0.0)
                item = laboratory.carry_out(wanted, least=longest if wanted.change != SAME else 0.0)  # which fails soon
                if item is None:
                    break
                items.append(item)
    except KeyboardInterrupt:
        return evidence.completed(tuple(items), ("The experiments were interrupted.",))
    return evidence.completed(tuple(items))


def completed(evidence: Evidence, *, timeout: float) -> Evidence:
    """Evidence of a live machine with the experiments that it calls for: for a command that judges nothing itself."""
    from cudadoctor.commands import gathering
    from cudadoctor.model.judgement import Question
    from cudadoctor.within.asking import Judge

    with closing(Judge()) as judge:
        answer = judge.answer(Question(machines=(evidence,)))
    return evidence if answer.plan is None else tried(answer, evidence, gathering.knowledge(), timeout=timeout)
