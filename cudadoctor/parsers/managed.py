"""What the manager of a machine or of a cluster answers about it in a user's text: `wsl -l -v`, `scontrol show node`, the GPUs that a node
of Kubernetes offers, the toolkits that environment modules have.
"""

from __future__ import annotations

from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import DRAINED_NODE, OFFERED_GPUS, TOOLKIT_MODULES, WSL_DISTRIBUTIONS, OfferedGpus, WslDistribution
from cudadoctor.parsers.base import Output, Text, parser

# The head of the list is in the language of Windows; the last column is 1 or 2 everywhere.
_DISTRIBUTION = lazy(r"^(?P<default>\*| ) (?P<name>[A-Za-z][\w.-]{1,60})\s{2,60}(?P<state>\S{2,30})\s{2,60}(?P<version>[12])$")
_NODE = lazy(r"^\s{0,12}NodeName=(?P<name>[\w.-]{1,80})\b")
_ASKED_NODE = lazy(r"\bscontrol (?:-\w )?show node (?P<name>[\w.-]{1,80})")
_DRAINED = lazy(r"^\s{0,12}State=\S{0,60}(?:DRAIN|DOWN)")
_RESOURCE = lazy(r"^\s{0,16}\"?nvidia\.com/(?P<name>gpu|mig-\d\w{0,4}\.\d{1,3}gb(?:\.me)?)\"?:\s{1,12}\"?(?P<count>\d{1,3})\"?,?$")
_LISTS_NODE = lazy(r"[Aa]llocatable|[Cc]apacity")
# Lmod and Environment Modules: names with versions in columns, `(D)` and `(default)` behind some, and nothing else in the line.
_ROW_OF_MODULES = lazy(r"^\s{0,12}(?:[\w.+-]{1,40}(?:/[\w.+-]{1,40}){1,3}(?:\s{0,3}[(<][\w,:]{1,12}[)>])?(?:\s{1,60}|$))+$")
_TOOLKIT_MODULE = lazy(r"(?<!\S)(?:\w[\w.-]{0,39}/){0,2}(?i:cuda|cuda-?toolkit)/\d{1,2}\.\d{1,2}(?:\.\d{1,3})?(?![^\s(<])")


def parse_distributions(text: Text) -> Output:
    found = tuple(
        WslDistribution(name=row["name"], version=int(row["version"]), default=row["default"] == "*", line=number)
        for number, row in text.rows(_DISTRIBUTION)
    )
    if found:
        yield text.fact(WSL_DISTRIBUTIONS, found, *(text.quote(entry.line) for entry in found), whole=False)


def parse_node(text: Text) -> Output:
    """The node that Slurm gives no jobs to."""
    name = None
    for number, line in enumerate(text.plain_lines, 1):
        named = _NODE.match(line) or _ASKED_NODE.search(line)
        name = named["name"] if named is not None else name
        if name is not None and _DRAINED.match(line):
            yield text.fact(DRAINED_NODE, name, text.quote(number), whole=False)
            return


def parse_offered(text: Text) -> Output:
    """The counts below `Allocatable` or `Capacity`; elsewhere the same line is what a pod asks for."""
    offered: dict[str, int] = {}
    asked = 0
    lines: list[int] = []
    listing = False
    for number, line in enumerate(text.plain_lines, 1):
        found = _RESOURCE.match(line)
        if found is None:
            listing = _LISTS_NODE.search(line) is not None or (listing and (line[:1].isspace() or line[:1] == "{"))
        elif listing:
            offered[found["name"]] = int(found["count"])
            lines.append(number)
        elif found["name"] == "gpu" and int(found["count"]) > 0:
            asked = asked or number
    if offered:
        yield text.fact(OFFERED_GPUS, OfferedGpus(offered=offered, asked_line=asked), *map(text.quote, lines), whole=False)


def parse_modules(text: Text) -> Output:
    found: dict[str, int] = {}
    for number, line in text.lines_with(("uda/", "CUDA/", "oolkit/")):
        if _ROW_OF_MODULES.match(line[:1000]):
            found |= {match[0]: number for match in _TOOLKIT_MODULE.finditer(line)}
    if found:
        yield text.fact(TOOLKIT_MODULES, tuple(found), *map(text.quote, dict.fromkeys(found.values())), whole=False)


PARSERS = (
    parser("wsl_list", parse_distributions, WSL_DISTRIBUTIONS, wakes=("wsl -l", "wsl --list", "wsl.exe -l", "wsl.exe --list")),
    parser("slurm_node", parse_node, DRAINED_NODE, wakes=("scontrol show node", "NodeName=")),
    parser("toolkit_modules", parse_modules, TOOLKIT_MODULES, wakes=("module av", "module spider", "ml av", "ml spider")),
    parser("offered_gpus", parse_offered, OFFERED_GPUS, wakes=("nvidia.com/mig-",)),
)
