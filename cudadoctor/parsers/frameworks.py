"""What PyTorch says of itself in a user's text: collect_env, printed versions, `torch.cuda.is_available()` with its answer.

gcc's version stands in the same reports and is compared with nvcc's.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from cudadoctor.model.frameworks import LITERALS, named_in
from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import ASKED_FRAMEWORKS, FRAMEWORKS, Framework
from cudadoctor.model.version import ComputeCapability, ModuleVersion, PackageVersion, ToolkitVersion
from cudadoctor.parsers.base import Output, Parser, Text
from cudadoctor.parsers.lines import without_prefix

_NEAR, _ANSWERS = (
    ("orch", "UDA", "cuda", "gcc", "GCC", "vidia d", "gpu_d"),
    ("True", "False", "True)", "False)"),
)  # else nothing is stated
_LONGEST = 2000  # characters of a line that is read
_NUMBER = r"\d{1,2}\.\d{1,2}(?:\.\d{1,4})?"
_TORCH = r"(?P<version>\d\.\d{1,2}(?:\.\w{1,14}){0,3})(?:\+(?P<build>[\w.]{1,24}))?"
_VERSION = lazy(
    r"(?:PyTorch [Vv]ersion(?: \(GPU\?\))?|[Tt]orch [Vv]ersion|pytorch_version|torch\.__version__\)?|^\s{0,8}(?:PyTorch|pytorch|torch))"
    rf" {{0,4}}(?:is |[:=]{{1,2}}) ?['\"]?v?{_TORCH}"
)
# YOLOv5  v6.0-147-g628817d torch 1.10.1+cpu CPU; Ultralytics 8.3.40 Python-3.11.9 torch-2.5.1+cpu CPU (AMD Ryzen 5 5600X 6-Core Processor)
_BANNER = lazy(rf"(?:YOLO|Ultralytics)[^\n]{{0,60}}[ -]torch[ -]{_TORCH} C(?:PU|UDA)\b")
_ANSWERED = lazy(rf"^['\"]?{_TORCH}['\"]?$")
_ASKED_VERSION = lazy(r"torch\.__version__\)?\s*$")
_BUILT = lazy(rf"CUDA used to build PyTorch: (?P<cuda>{_NUMBER}|None|Could not collect|N/A)")
_AVAILABLE = lazy(
    r"(?i)(?:Is CUDA available|CUDA available|cuda\.is_available(?:\(\))?|cuda_available|GPU available)\W{0,4}"
    r"(?:is |returns? |returning |gives |always )?\W{0,4}(?:(?P<yes>True|Yes)|(?P<no>False|No))\b"
)
# transformers-cli env
_WITH_GPU = lazy(rf"PyTorch version \(GPU\?\): {_TORCH} \((?:(?P<yes>True)|(?P<no>False))\)")
_GCC = lazy(r"(?:GCC version: \([^)\n]{1,60}\) |^gcc \([^)\n]{1,60}\) |\bgcc(?:-| version |: ?|==)v?)(?P<gcc>\d{1,2})\.\d{1,2}(?:\.\d)?\b")
_ASKED_AVAILABLE = lazy(r"is_available\(\)\)?\s{0,8}['\"]?\s{0,8}$")
_ASKED_DEVICE = lazy(r"(?:get_device_name\(\d?\)|[gG]et_?[dD]evice_?[cC]ount\(\)|device_count\(\))\)?\s{0,8}['\"]?\s{0,8}$")
_DEVICE = lazy(r"^['\"]?(?:(?P<yes>(?:NVIDIA|GeForce|Quadro|Tesla) [\w /-]{2,50}|[1-9]\d?)|(?P<no>0))['\"]?$")
_YES_NO = lazy(r"^\s{0,4}(?P<yes>True)?(?P<no>False)?$")
_RUNTIME = lazy(rf"CUDA runtime version: (?P<cuda>{_NUMBER})")
# PyTorch's collect_env, and the system report of faceswap.
_DRIVER = lazy(r"(?:Nvidia driver version|gpu_driver): {1,12}(?P<driver>\d{3}\.\d{1,3}(?:\.\d{1,3})?)")
# What torch.__version__, torch.version.cuda, torch.cuda.is_available() give: printed, or as the tuple that Python and IPython echo.
_THREE = lazy(
    rf"^\s{{0,4}}(?:Out\[\d{{1,4}}\]: ?)?\(?['\"]?{_TORCH}['\"]?,? ['\"]?(?P<cuda>{_NUMBER}|None)['\"]?,? (?P<yes>True)?(?P<no>False)?\)?$"
)
_TWO = lazy(rf"^\s{{0,4}}(?:Out\[\d{{1,4}}\]: ?)?\(?['\"]?(?=[^ ]{{1,30}}\+){_TORCH}['\"]?,? (?:(?P<yes>True)|(?P<no>False))\)?$")
# What `print(torch.__version__, torch.cuda.get_device_capability(), torch.cuda.get_arch_list())` gives.
_ARCH_LIST = lazy(rf"^\s{{0,4}}{_TORCH},? \(\d{{1,2}}, \d\),? \[")
# Several of them in any order, as the line above asks for them, behind Python's >>> (which looks like mail quoted three times, and is gone
# here). One value may be a tuple or a list.
_ITEM = r"torch\.[\w.()\[\]:-]{1,60}"
_PRINT = lazy(rf"print\((?P<items>{_ITEM}(?:, ?{_ITEM}){{0,5}})\)\s{{0,8}}['\"]?\s{{0,8}}$|^(?P<typed>{_ITEM}(?:, ?{_ITEM}){{0,5}})$")
_VALUE = lazy(r"\([^()]{0,40}\)|\[[^\[\]]{0,400}\]|[^\s()\[\]]{1,80}")
_ITEMS = {
    "torch.__version__": lazy(rf"['\"]?{_TORCH}['\"]?$"),
    "torch.version.cuda": lazy(rf"['\"]?(?P<cuda>{_NUMBER}|None)['\"]?$"),
    "torch.cuda.is_available()": lazy(r"(?P<yes>True)?(?P<no>False)?$"),
    "torch.cuda.device_count()": lazy(r"(?P<yes>[1-9]\d?)?(?P<no>0)?$"),
    "torch.cuda.get_device_capability()": lazy(r"\((?P<major>\d{1,2}), (?P<minor>\d)\)$"),
    "torch.cuda.get_arch_list()": lazy(r"\[(?P<architectures>'\w{4,14}'(?:, '\w{4,14}'){0,24})\]$"),
}


def parse(text: Text) -> Output:
    """One fact; of several statements of one thing the last counts."""
    state: dict[str, Any] = {}
    shown: list[int] = []
    lines = text.plain_lines
    before = ""
    known: dict[tuple[str, str], dict[str, Any]] = {}
    for number, raw in enumerate(lines, 1):
        asked, before = before, raw if "torch" in raw or "evice" in raw else ""
        if len(raw) > _LONGEST or not (asked or raw.endswith(_ANSWERS) or any(word in raw for word in _NEAR)):
            continue
        if (raw, asked) not in known:  # logs repeat themselves
            known[raw, asked] = _said(without_prefix(raw), asked)
        if known[raw, asked]:
            state.update({name: number if name in ("line", "available_line") else value for name, value in known[raw, asked].items()})
            shown.append(number)
    if str(state.get("build") or "").startswith("rocm"):
        state.pop("available", None)  # AMD's GPUs answer to CUDA's name there
    if state:
        quotes = [text.quote(number) for number in shown[:6]]
        yield text.fact(FRAMEWORKS, msgspec.structs.replace(Framework(), **state), *quotes, whole=False)


def _said(line: str, before: str) -> dict[str, Any]:
    """What one line states; 0 where its number is to be put. `before` is the line above, which may hold the question."""
    said: dict[str, Any] = {}
    if (printed := _printed(line, before)) is not None:
        said |= printed
    elif (three := _THREE.match(line)) is not None:
        said |= _version(three) | _cuda(three["cuda"]) | _answer(three)
    elif (two := _TWO.match(line)) is not None:
        said |= _version(two) | _answer(two)
    elif (
        version := _VERSION.search(line)
        or _BANNER.search(line)
        or _ARCH_LIST.match(line)
        or (_ANSWERED.match(line) if _ASKED_VERSION.search(before) else None)
    ) is not None:
        said |= _version(version)
    if (built := _BUILT.search(line)) is not None:
        said |= {**_cuda(built["cuda"]), "line": 0}
    available = _AVAILABLE.search(line) or _WITH_GPU.search(line) or (_YES_NO.match(line) if _ASKED_AVAILABLE.search(before) else None)
    available = available or (_DEVICE.match(line) if _ASKED_DEVICE.search(before) else None)
    if available is not None:
        said |= _answer(available)
    if (gcc := _GCC.search(line)) is not None:
        said["gcc"] = int(gcc["gcc"])
    if (runtime := _RUNTIME.search(line)) is not None:
        said["runtime"] = ToolkitVersion(runtime["cuda"])
    if (driver := _DRIVER.search(line)) is not None:
        said["driver"] = ModuleVersion(driver["driver"])
    return said


def _printed(line: str, before: str) -> dict[str, Any] | None:
    """The answers of `print(torch.cuda.is_available(), torch.version.cuda)`, by the order of its questions. None: this is no such line."""
    asked = _PRINT.search(before)
    items = re.split(r", ?", (asked["items"] or asked["typed"]).replace("(0)", "()")) if asked is not None else []  # GPU 0 is the default
    named = bool(items) and items[-1].startswith("torch.cuda.get_device_name")  # its answer has blanks
    echoed = asked is not None and len(items) > 1 and asked["typed"] is not None  # as a tuple
    values = _VALUE.findall(line.strip()[1:-1].replace(", ", " ") if echoed else line)
    values = values[: len(items) - 1] + values[len(items) - 1 :][:1] if named else values
    if asked is None or len(items) != len(values) or not any(item in _ITEMS for item in items):
        return None
    said: dict[str, Any] = {}
    for item, value in zip(items, values, strict=True):
        if item not in _ITEMS:
            continue
        found = _ITEMS[item].match(value)
        if found is None:
            return None
        said |= _answered(found)
    return said


def _answered(found: re.Match[str]) -> dict[str, Any]:
    known = found.groupdict()
    if "major" in known:
        return {"capability": ComputeCapability(f"{int(known['major'])}.{known['minor']}")}
    if "architectures" in known:
        return {"architectures": tuple(re.findall(r"\w+", known["architectures"])), "line": 0}
    return _cuda(known["cuda"]) if "cuda" in known else _version(found) if "version" in known else _answer(found)


def _version(found: re.Match[str]) -> dict[str, Any]:
    return {"version": PackageVersion(found["version"]), "build": found["build"], "line": 0}


def _cuda(words: str) -> dict[str, Any]:
    if re.match(r"\d", words):
        return {"cuda": ToolkitVersion(words), "built_with_cuda": True}
    return {"built_with_cuda": False} if words in ("None", "Could not collect") else {}


def _answer(found: re.Match[str]) -> dict[str, Any]:
    if not found["yes"] and not found["no"]:
        return {}
    return {"available": bool(found["yes"]), "available_line": 0}


def parse_names(text: Text) -> Output:
    """Which frameworks the text names, what the complaint is about: quoted by the first line that names each."""
    names = named_in(text.text)
    open_ = list(names)
    quotes = []
    for number, line in enumerate(text.lines, 1):
        found = [name for name in open_ if name in named_in(line)]
        if found:
            quotes.append(text.quote(number, about=found[0]))
            open_ = [name for name in open_ if name not in found]
        if not open_:
            break
    if quotes:
        yield text.fact(ASKED_FRAMEWORKS, tuple(name for name in names if name not in open_), *quotes, whole=False)


PARSERS = (
    Parser(
        name="frameworks",
        keys=(FRAMEWORKS.name,),
        parse=parse,
        wakes=(
            "PyTorch", "pytorch", "torch.", "torch ", "torch=", "torch:", "torch-", "get_device_name", "etDeviceCount", "device_count",
            "CUDA available", "GCC version", "gpu_driver", "gcc version", "gcc (U", "gcc (D", " False",
        ),
    ),
    Parser(name="framework_names", keys=(ASKED_FRAMEWORKS.name,), parse=parse_names, wakes=LITERALS),
)  # fmt: skip
