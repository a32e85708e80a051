"""The GPUs that a user's text names: products (GeForce RTX 3090), and compute capabilities that programs print for a device."""

from __future__ import annotations

import re
from collections.abc import Iterator

from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import NAMED_GPUS, NamedGpu
from cudadoctor.model.version import ComputeCapability
from cudadoctor.parsers.base import Output, Parser, Text

_QUOTES = 40
_MOST = 40
_END = r"(?![\w.])"
_PRODUCT = lazy(
    r"(?i)(?<![\w-])(?:(?:NVIDIA |GeForce |Quadro |Tesla ){0,3})"
    r"(?:(?P<series>GTX|RTX|GTS|GT) ?(?P<model>(?:PRO )?(?:TITAN(?: ?X)?|A?\d{3,4}))(?P<more>M\b|(?: ?(?:Ti|SUPER|Ada|D)\b){0,2})"
    r"|(?P<whole>TITAN (?:RTX|Xp?|V|Black|Z)\b|(?:Tesla|Quadro) (?:RTX )?[A-Z]{0,2}\d{1,4}[a-zM]?\b|MX[1-5]\d0\b"
    r"|GTX TITAN(?: X| Black| Z)?\b|(?:A100|A800|H100|H200|H800|H20|V100|P100|B200|B300|GH200|GB200|GB300|K80|GB10)\b"
    r"|(?<=NVIDIA )(?:A|L|T|P|M|K|B)\d{1,4}[SG]?\b|(?:A10G|A40|L40S?|T4) GPU"
    r"|(?<![\w.-])(?P<bare>(?:[67]50|9[568]0|10[5-8]0|16[56]0|20[678]0|30[5-9]0|40[6-9]0|50[6-9]0) ?(?:Ti|SUPER))\b"
    r"|Jetson (?:AGX |Orin |Xavier )?(?:Orin|Xavier|Nano|TX1|TX2)|DGX Spark))"
)
_CAPABILITY = lazy(
    r"(?i)(?:compute[ _]?capability|cuda capability|capability version number|computecapability|compute_cap)\w{0,3}"
    r"(?: \(?(?:Major/Minor )?version(?: number)?\)?)?\s{0,4}(?:is |of |=|:)?\s{0,6}"
    rf"[(\[]?(?P<major>\d{{1,2}})(?:\.|, )(?P<minor>\d){_END}"
)
_SM = lazy(r"with CUDA capability sm_(?P<major>\d{1,2})(?P<minor>\d)\b")
_CSV = lazy(r"^\s{0,8}(?P<name>[A-Z][\w -]{3,60}), (?P<major>\d{1,2})\.(?P<minor>\d)\s*$")
_MAJOR_MINOR = lazy(r"major[=:] ?(?P<major>\d{1,2}),? {1,2}minor[=:] ?(?P<minor>\d)\b")
# A minimum is no property of this GPU.
_OF_NO_GPU = lazy(
    r"(?i)minimum|maximum|at least|or (?:newer|higher|above|greater)|requires?\b|>=|support(?:s|ed)? (?:compute|cuda) capabilit"
)
_NEAR = (
    "NVIDIA", "GeForce", "eforce", "esla", "uadro", "RTX", "rtx", "GTX", "gtx", "GT ", "TITAN", "Titan", "apabilit", "compute_cap", "ajor",
    "A100", "A800", "H100", "H200", "V100", "P100", "B200", "B300", "K80", "GB10", "Jetson", "MX1", "MX2", "MX3", "MX4", "DGX", "GPU",
    "0 Ti", "0Ti", "SUPER",
)  # fmt: skip
_NUMBERED = lazy(r"(\d) ?(Ti|SUPER|Ada)\b", re.IGNORECASE)


def parse(text: Text) -> Output:
    """One fact with each name and each capability once, in their order."""
    found: dict[tuple[str | None, str | None], NamedGpu] = {}
    for number, line in text.lines_with(_NEAR):
        for gpu in _on_line(line[:2000], number):
            if len(found) < _MOST:
                found.setdefault((gpu.name, gpu.capability.text if gpu.capability is not None else None), gpu)
    if found:
        quotes = [text.quote(gpu.line) for gpu in found.values()]
        yield text.fact(NAMED_GPUS, tuple(found.values()), *quotes[:_QUOTES], whole=False)


def _on_line(line: str, number: int) -> Iterator[NamedGpu]:
    csv = _CSV.match(line)
    if csv is not None:
        yield NamedGpu(name=csv["name"].strip(), capability=ComputeCapability(f"{csv['major']}.{csv['minor']}"), line=number)
        return
    names = [_name(match) for match in _PRODUCT.finditer(line)]
    numbers: list[ComputeCapability] = []
    for pattern in (_CAPABILITY, _SM, _MAJOR_MINOR):
        for match in pattern.finditer(line):
            if pattern is not _CAPABILITY or not _OF_NO_GPU.search(line[max(0, match.start() - 40) : match.end() + 20]):
                numbers.append(ComputeCapability(f"{int(match['major'])}.{match['minor']}"))
    if len(names) == 1 and numbers:
        yield NamedGpu(name=names[0], capability=numbers[0], line=number)
        return
    yield from (NamedGpu(name=name, line=number) for name in names)
    yield from (NamedGpu(capability=capability, line=number) for capability in numbers)


def _name(match: re.Match[str]) -> str:
    """The product as NVIDIA writes it: rtx3090ti -> RTX 3090 Ti."""
    if match["bare"] is not None:
        number, suffix = match["bare"][:-2].rstrip(" SUP"), "Ti" if match["bare"].lower().endswith("ti") else "SUPER"
        return f"{'RTX' if number.startswith(('20', '30', '40', '50')) else 'GTX'} {number} {suffix}"
    if match["series"] is None:
        whole = re.sub(r"(?i)^titan", "TITAN", match["whole"])
        return re.sub(r"(?i)^(?:tesla|quadro|jetson)", lambda word: word[0].title(), whole)
    model = match["model"].upper()
    more = _NUMBERED.sub(r"\1 \2", "0" + match["more"].strip())[1:].strip()
    end = {"ti": "Ti", "super": "SUPER", "ada": "Ada", "m": "M"}.get(more.lower(), more)
    return f"{match['series'].upper()} {model}{'' if end in ('', 'M') else ' '}{end}"


# A series alone is too short a word to wake a parser; with the first digits of a model it is not.
_MODELS = {
    "RTX": ("20", "30", "40", "50", "60", "A2", "A4", "A5", "A6", "PR"),
    "GTX": ("10", "16", "47", "48", "58", "65", "66", "67", "68", "69"),
}
_OLD = ("GTX 75", "GTX 76", "GTX 77", "GTX 78", "GTX 95", "GTX 96", "GTX 97", "GTX 98", "gtx 96", "gtx 97", "gtx 98")
_WAKES = (
    "NVIDIA", "Nvidia", "nvidia", "GeForce", "geforce", "Quadro", "Tesla ", "TITAN ", "Titan ", "apability", "nvcc fatal", "CUDA error",
    "PyTorch", "Jetson", *_OLD,
    *(f"{name} {model}" for series, models in _MODELS.items() for name in (series, series.lower()) for model in models),
    *(f"{name}{model}" for name in ("RTX", "rtx") for model in ("207", "208", "306", "307", "308", "309", "406", "407", "408", "409")),
)  # fmt: skip
PARSER = Parser(name="gpu_names", keys=(NAMED_GPUS.name,), parse=parse, wakes=_WAKES)
