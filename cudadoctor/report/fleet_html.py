"""Many machines as one HTML file: groups by cause, who is worse or slow, and a heat map of every GPU, from which a node is opened.

The page is templates/fleet.html.jinja. The map's data are one byte a GPU and figure (percent of the usual), so that 80,000 GPUs fit.
"""

from __future__ import annotations

import base64

import msgspec
from markupsafe import Markup

from cudadoctor.knowledge.load import Knowledge
from cudadoctor.report import fleet_text, templates, words
from cudadoctor.report.clean import one_line
from cudadoctor.report.fleet_formats import Seen


def render(seen: Seen, knowledge: Knowledge) -> str:
    fleet, fold = seen.fleet, fleet_text.folded
    groups = {(group.verdict, group.cause): group for group in fleet.groups}
    context = {
        "fleet": fleet,
        "verdict": fleet_text.worst(fleet),
        "headline": fleet_text.headline(fleet),
        "models": fleet_text.models(fleet),
        "missing": [(fold(sources), why) for why, sources in fleet_text.by_reason(fleet).items()],
        "groups": [(group, fold(group.nodes)) for group in fleet.groups],
        "demands": [(fold(one.nodes), words.asked(one)) for one in fleet.demands],
        "worse": [(fold(one.nodes), one.what) for one in fleet.worse],
        "slow": [("", fleet_text.slow(one, knowledge)) for one in fleet.stragglers],
        "drift": [("", fleet_text.drifting(one)) for one in fleet.drift],
        "sick": [(node, groups[node.verdict, node.cause]) for node in seen.nodes if node.verdict != "healthy"],
        "heat": _heat(seen, knowledge),
    }
    return templates.render("fleet.html.jinja", context)


def _heat(seen: Seen, knowledge: Knowledge) -> Markup:
    """The data of the map as JSON that may stand in a page; empty where nothing was measured."""
    nodes, shares = seen.nodes, seen.heat()
    rows = sorted((row for row in knowledge.figures if row.name in shares), key=lambda row: min(shares[row.name]))
    if not rows:
        return Markup("")
    data = {
        "names": [one_line(node.name) for node in nodes],
        "states": [node.verdict if node.cause is None else f"{node.verdict}: {one_line(node.cause)}" for node in nodes],
        "gpus": [[gpu.number for gpu in node.gpus] for node in nodes],
        "maps": [{"title": row.title, "shares": base64.b64encode(shares[row.name]).decode()} for row in rows],
    }
    body = msgspec.json.encode(data).decode()
    return Markup(body.replace("<", "\\u003c"))  # noqa: S704 - JSON without a tag
