"""What a user's text names: GPUs and compute capabilities, drivers and chips by their code names, toolkits.

They are words, not measurements: the text may speak of another machine. The rules of texts/tie_breakers weigh them where the driver does
not find its GPU or a compiler does not fit it. nvidia-smi's CUDA Version is the driver's and names no toolkit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import CUDA_MENTIONS, NAMED_DRIVERS, NAMED_GPUS, CudaMention, NamedChip, NamedDriver, NamedDrivers, NamedGpu
from cudadoctor.model.version import ComputeCapability, ToolkitVersion
from cudadoctor.parsers.base import Output, Parser, Text

# ---------------------------------------------------------------- GPUs
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
_GPU_NEAR = (
    "NVIDIA", "GeForce", "eforce", "esla", "uadro", "RTX", "rtx", "GTX", "gtx", "GT ", "TITAN", "Titan", "apabilit", "compute_cap", "ajor",
    "A100", "A800", "H100", "H200", "V100", "P100", "B200", "B300", "K80", "GB10", "Jetson", "MX1", "MX2", "MX3", "MX4", "DGX", "GPU",
    "0 Ti", "0Ti", "SUPER",
)  # fmt: skip
_NUMBERED = lazy(r"(\d) ?(Ti|SUPER|Ada)\b", re.IGNORECASE)


def gpus(text: Text) -> Output:
    """One fact with each name and each capability once, in their order."""
    found: dict[tuple[str | None, str | None], NamedGpu] = {}
    for number, line in text.lines_with(_GPU_NEAR):
        for gpu in _gpus_on(line[:2000], number):
            if len(found) < _MOST:
                found.setdefault((gpu.name, gpu.capability.text if gpu.capability is not None else None), gpu)
    if found:
        quotes = [text.quote(gpu.line) for gpu in found.values()]
        yield text.fact(NAMED_GPUS, tuple(found.values()), *quotes[:_MOST], whole=False)


def _gpus_on(line: str, number: int) -> Iterator[NamedGpu]:
    csv = _CSV.match(line)
    if csv is not None:
        yield NamedGpu(name=csv["name"].strip(), capability=ComputeCapability(f"{csv['major']}.{csv['minor']}"), line=number)
        return
    names = [_product(match) for match in _PRODUCT.finditer(line)]
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


def _product(match: re.Match[str]) -> str:
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
_GPU_WAKES = (
    "NVIDIA", "Nvidia", "nvidia", "GeForce", "geforce", "Quadro", "Tesla ", "TITAN ", "Titan ", "apability", "nvcc fatal", "CUDA error",
    "PyTorch", "Jetson", *_OLD,
    *(f"{name} {model}" for series, models in _MODELS.items() for name in (series, series.lower()) for model in models),
    *(f"{name}{model}" for name in ("RTX", "rtx") for model in ("207", "208", "306", "307", "308", "309", "406", "407", "408", "409")),
)  # fmt: skip


# ---------------------------------------------------------------- drivers and chips
_LONGEST = 600  # characters of a line that are looked at
_OLDEST, _NEWEST = 96, 999
_PACKAGE = lazy(
    r"\b(?:lib)?nvidia-(?:driver|dkms|headless|utils|compute-utils|kernel-(?:source|common))-(?P<branch>\d{3})(?:xx)?(?:-server)?(?P<open>-open)?\b"
    r"|\b(?:a?kmod-)?nvidia-(?P<old>\d{3})(?:xx\b|\b(?=[\s`'\",.)]|$))"
    r"|\bNVIDIA-Linux-\w{3,8}-(?P<file>\d{2,3}\.\d{2,3}(?:\.\d{2})?)"
)
_PHRASE = lazy(
    r"(?i)\b(?:drivers?|nvidia)(?: (?:version|release|branch|series))?:? ?\(?v?"
    r"(?P<after>\d{3}(?:\.\d{2,3}(?:\.\d{1,2})?)?)(?P<open>-open)?"
    r"(?![\w.]{0,20}\d|xx|-\d| ?(?:gpus?|cards?|mb|mib|ti|m|super)\b|\.\d)"
    r"|\b(?P<before>\d{3}\.\d{2,3}(?:\.\d{2})?)(?: (?:nvidia|linux|proprietary|open|graphics|kernel)){0,3} (?:driver|modules?)\b"
    r"|\bdrivers?\b[^.\n]{0,80} is (?P<told>\d{3}\.\d{2,3}(?:\.\d{2})?)"
    r"|\blegacy ?(?P<legacy>\d{3})\b"
)
_OPEN = lazy(r"\bnvidia-open(?:-dkms|-lts)?\b(?:[ =-]{1,2}v?(?P<branch>\d{3})(?:\.\d+)*)?")
_FLAVOUR = lazy(r"^license:\s{1,20}(?P<licence>NVIDIA|Dual MIT/GPL)\s*$")
_CHIP = lazy(r"\b(?:GT2\d\d|GF1[01]\d|GK[12]\d\d|GM[12]\d\d|GP10\d|GV100|TU1[01]\d|GA10\d|AD10\d|GB20\d)[A-Z]{0,3}\b")
# Wishes, advice and comparisons name drivers that are not there.
_NOT_HERE = lazy(
    r"(?i)\b(?:needs?|needed|requires?|required|works? (?:\w+ )?(?:with|on)|worked (?:with|on)|at least|or (?:newer|later|higher|above)"
    r"|recommend\w*"
    r"|should|would|could|can be installed|supported by|only supported|before|previous\w*|used to|downgrad\w+|older|instead|candidate"
    r"|distro (?:non-)?free|purge|remove|uninstall\w*|unable to locate|tried|legacy drivers series)\b"
)


def drivers_and_chips(text: Text) -> Output:
    """One fact with each branch and each chip once."""
    drivers: dict[tuple[int | None, bool | None], NamedDriver] = {}
    chips: dict[str, NamedChip] = {}
    for number, line in enumerate(text.plain_lines, 1):
        words = line[:_LONGEST]
        for match in _CHIP.finditer(words):
            chips.setdefault(match[0], NamedChip(name=match[0], line=number))
        if len(drivers) < _MOST:
            for driver in _drivers_on(words, number):
                drivers.setdefault((driver.branch, driver.is_open), driver)
    if drivers:
        named = NamedDrivers(drivers=tuple(drivers.values()), chips=tuple(chips.values())[:_MOST])
        lines = sorted({*(driver.line for driver in named.drivers), *(chip.line for chip in named.chips)})
        yield text.fact(NAMED_DRIVERS, named, *(text.quote(line) for line in lines), whole=False)


def _drivers_on(line: str, number: int) -> Iterator[NamedDriver]:
    flavour = _FLAVOUR.match(line)
    if flavour is not None:
        yield NamedDriver(is_open=flavour["licence"] != "NVIDIA", line=number)
        return
    for pattern in (_OPEN, _PACKAGE, _PHRASE):
        for match in pattern.finditer(line):
            if not _NOT_HERE.search(_clause(line, match)):
                driver = _driver(match, pattern is _OPEN, number)
                if driver is not None:
                    yield driver


def _clause(line: str, match: re.Match[str]) -> str:
    """The words around a name, up to the next comma or full stop."""
    start = max(line.rfind(mark, 0, match.start()) for mark in (", ", ". ", "; ", ": ")) + 1
    ends = [at for at in (line.find(mark, match.end()) for mark in (", ", ". ", "; ")) if at >= 0]
    return line[start : min(ends, default=len(line))]


def _driver(match: re.Match[str], is_open: bool, number: int) -> NamedDriver | None:
    named = match.groupdict()
    version = next((named[name] for name in ("branch", "old", "file", "after", "before", "told", "legacy") if named.get(name)), None)
    branch = int(version.split(".")[0]) if version is not None else None
    if branch is not None and not _OLDEST <= branch <= _NEWEST:
        return None
    opened = True if is_open or named.get("open") else None
    return NamedDriver(branch=branch, is_open=opened, line=number)


# ---------------------------------------------------------------- toolkits
_MOST_TOOLKITS = 12
_MENTION = lazy(
    r"(?i)(?<![\w.])(?:cuda(?:[ -]?(?:toolkit|tools|sdk))?|cudatoolkit|nvcc)(?: version| release)?"
    r"(?: \([^()\n]{1,30}\))?(?:[ :=]{1,3}|[-_@/]|==?)[v(]?"
    r"(?P<version>\d{1,2}\.\d)(?![.\d]{0,6}%)"
)
# The CUDA of a framework's wheel, which brings its own NVRTC: +cu110, mxnet-cu102, cupy-cuda101.
_TAG = lazy(r"(?:\+cu|(?<![\w.])cu|mxnet-cu|cupy-cuda)(?P<major>\d{1,2})(?P<minor>\d)\b")
_IN_BRACKETS = lazy(r"\bnvcc\b(?! ?-)[^.;\n]{1,60}?\(v?(?P<version>\d{1,2}\.\d)\)")  # nvcc is the one of the old machine (9.2)
_FOLDER = lazy(r"CUDA\\{1,2}v(?P<version>\d{1,2}\.\d)\\")  # C:\Program Files\NVIDIA GPU Computing Toolkit\CUDA\v12.4\bin
_DRIVERS_OWN = lazy(r"CUDA Version(?: {2,}:|: {1,4}\S{1,6} {1,12}\|)|CUDA (?:UMD|Driver) Version|[Dd]river [Vv]ersion")
_CUDA_NEAR = ("uda", "UDA", "nvcc", "NVCC", "+cu", " cu", "-cu")


def toolkits(text: Text) -> Output:
    """One fact with each version once."""
    found: dict[str, CudaMention] = {}
    for number, line in text.lines_with(_CUDA_NEAR):
        words = line[:1000]
        if len(found) >= _MOST_TOOLKITS or _DRIVERS_OWN.search(words):
            continue
        versions = [match["version"] for pattern in (_MENTION, _FOLDER, _IN_BRACKETS) for match in pattern.finditer(words)]
        versions += [f"{match['major']}.{match['minor']}" for match in _TAG.finditer(words)]
        for version in versions:
            if 4 <= int(version.split(".")[0]) <= 20:
                found.setdefault(version, CudaMention(version=ToolkitVersion(version), line=number))
    if found:
        quotes = [text.quote(mention.line) for mention in found.values()]
        yield text.fact(CUDA_MENTIONS, tuple(found.values()), *quotes, whole=False)


_CUDA_WAKES = (
    "cudatoolkit", "CUDA toolkit", "CUDA Toolkit", "CUDA version", "cuda version", "cuda-toolkit",
    *(f"{word}{mark}{digit}" for word in ("CUDA", "cuda", "Cuda", "nvcc") for mark in " -_=/v" for digit in "1456789"),
    "+cu1",
    "CUDA\\v", "CUDA: ", "cuda: ", "Cuda: ", "NVCC: ", "nvcc: ", "CUDA Version: ", "cupy-cuda", "mxnet-cu", "--gpu-architecture", " nvcc ",
)  # fmt: skip

PARSERS = (
    Parser(name="gpu_names", keys=(NAMED_GPUS.name,), parse=gpus, wakes=_GPU_WAKES),
    Parser(
        name="driver_names",
        keys=(NAMED_DRIVERS.name,),
        parse=drivers_and_chips,
        wakes=(
            "nvidia-driver-", "nvidia-dkms", "nvidia-open", "NVIDIA-Linux-", "driver", "Driver", "nvidia-3", "nvidia-4", "nvidia-5",
            "license:  ",
        ),
    ),
    Parser(name="cuda_mentions", keys=(CUDA_MENTIONS.name,), parse=toolkits, wakes=_CUDA_WAKES),
)  # fmt: skip
