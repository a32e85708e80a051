"""An example of a check of others: the cluster's jobs keep their data in /scratch, and a full /scratch looks like a broken GPU.

One question (df), one parser, one row, one cause, one recipe. A package would name EXTENSION in its pyproject.toml:

    [project.entry-points."cudadoctor.checks"]
    scratch = "cudadoctor_scratch:EXTENSION"
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from cudadoctor.extensions import Check, Clue, Extension, Fact, Facts, Key, Line, Parser, Probe, Rule, Text

LEAST_FREE = 5  # percent
FREE = Key[int]("scratch-free")  # percent of /scratch
CAUSE = """
title = "The scratch folder is full"
layer = "node"
row = "scratch"
breaks = ["program"]
effect = "degrades"
why = "Jobs on this cluster write to /scratch. Where nothing is left there, programs end with messages of all kinds."
tell_apart = "df -h /scratch"
recipes = ["clean-scratch"]
sources = ["the cluster's handbook"]

[[match]]
contains = "/scratch: No space left on device"
"""
RECIPE = """
action = "ask-administrator"

[[steps]]
text = "See what fills it, and delete what no job needs any more."
shell = "du -xh --max-depth=1 /scratch | sort -h | tail"
"""


def parse(text: Text) -> Iterator[Fact[int]]:
    """The share that is free, from the last line of `df -P`."""
    for number, line in enumerate(text.lines, 1):
        used = re.search(r"\s(\d{1,3})%\s+\S+$", line)
        if used is not None:
            yield text.fact(FREE, 100 - int(used[1]), text.quote(number))


def full(facts: Facts, knowledge: object) -> Iterator[Clue]:
    fact = facts[FREE]
    if fact.value is not None and fact.value < LEAST_FREE:
        yield Clue(cause="scratch-full", quotes=fact.quotes)


def describe(facts: Facts, knowledge: object) -> Line:
    fact = facts[FREE]
    return Line("there is no /scratch" if fact.value is None else f"{fact.value} % of /scratch is free", fact.quotes)


EXTENSION = Extension(
    probes=(Probe(id="scratch", wave="look", kind="command", what=("df", "-P", "/scratch")),),
    parsers=(Parser(name="scratch", reads=("scratch",), keys=(FREE.name,), parse=parse, absent=(FREE.name,)),),
    checks=(
        Check(
            id="scratch",
            title="Scratch folder",
            looks_at="room in /scratch",
            items=("scratch",),
            rules=(Rule("scratch", ("scratch-full",), full),),
            describe=describe,
        ),
    ),
    causes={"scratch-full": CAUSE},
    recipes={"clean-scratch": RECIPE},
)
