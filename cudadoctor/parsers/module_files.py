"""NVIDIA's kernel module on disk: a listing of paths below /lib/modules, or what modinfo says of one file.

Only the core module counts (nvidia.ko, nvidia-current.ko, nvidia_470.ko); the kernel's own nvidiafb.ko is no driver for CUDA.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from cudadoctor.model.facts import Fact
from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import MODULE_FILES, MODULE_FOR_RUNNING, ModuleFile
from cudadoctor.model.version import ModuleVersion
from cudadoctor.parsers.base import Output, Text, parser

_CORE = lazy(r"nvidia(?:[-_](?:current|legacy|tesla|open|srv|server|\d{3}(?:xx|srv)?)){0,4}\.ko(?:\.(?:gz|xz|zst|bz2))?$")
_PATH = lazy(r"[ \t>|]{0,20}(/\S{1,400}\.ko(?:\.\w{2,3})?)\s*$")
_KERNEL = lazy(r"(?:/usr)?/lib/modules/(\d[^/\s]*)/")
_FIELD = lazy(r"[ \t>|]{0,20}(filename|version|license|vermagic):\s{1,20}(\S.*)")
_MODULE = r"(nvidia(?:[-_](?:current|open|\d{3}))?)"
_ASKED = lazy(rf"(?:sudo )?(?:/s?bin/)?modinfo (?:-F ?(version|license) {_MODULE}$|{_MODULE} ?\| ?grep .{{0,20}}version)")
# MODULE_LICENSE of open-gpu-kernel-modules, kernel-open/nvidia/nv.c, and of the proprietary modules
_FLAVOURS: dict[str, Literal["open", "proprietary"]] = {"Dual MIT/GPL": "open", "NVIDIA": "proprietary"}
_LOOKED_FOR = lazy(r"^(?:sudo )?find /(?:usr/)?lib/modules/? (?:-type f )?-i?name [\"']?\*?nvidia[\w.*-]{0,12}[\"']?(?: ?;|$)")
_NUMBER = lazy(r"\d{2,4}\.\d{1,4}(?:\.\d{1,4})?$")


def parse(text: Text) -> Output:
    """One fact from a listing of paths. A whole listing without NVIDIA's module is knowledge: there is none."""
    found: dict[str, int] = {}
    seen = False
    for number, line in enumerate(text.lines, 1):
        match = _PATH.match(line)
        seen = seen or match is not None
        if match and _CORE.match(match[1].rsplit("/", 1)[1]):
            found.setdefault(match[1], number)
    if found:
        files = tuple(ModuleFile(path=path, kernel=_kernel(path)) for path in found)
        yield text.fact(MODULE_FILES, files, *(text.quote(number) for number in found.values()))
    elif text.pasted:
        yield from _found_nothing(text)
    elif text.whole and (seen or not text.text.strip()):
        yield text.fact(MODULE_FILES, (), text.absent(f"{text.source}: no nvidia.ko for any kernel"))


def _found_nothing(text: Text) -> Iterator[Fact[Any]]:
    """`find /lib/modules -name 'nvidia*.ko*'` of a paste, and no file before the next prompt: there is no module for any kernel.

    Where find complains, or its complaints are thrown away, nobody knows.
    """
    for number, _, below in text.asked("/modules", _LOOKED_FOR):
        answered = number + len(below) < len(text.lines) or any(answer.strip() for answer in below)  # else the paste may end here
        if answered and not any(".ko" in answer or answer.startswith("find: ") for answer in below):
            yield text.fact(MODULE_FILES, (), text.quote(number), whole=True)
            return


def parse_modinfo(text: Text) -> Output:
    """One fact with the files that modinfo describes. Never whole: modinfo looks at the running kernel only."""
    blocks: list[dict[str, tuple[str, int]]] = []
    for number, match in text.rows(_FIELD):
        if match[1] == "filename":
            blocks.append({})
        if blocks:
            blocks[-1].setdefault(match[1], (match[2], number))
    yield from _asked_for(text)
    yield from _magic_alone(text)
    chosen = [block for block in blocks if _CORE.match(block["filename"][0].rsplit("/", 1)[-1])]
    if chosen:
        files = dict.fromkeys(_described(block) for block in chosen)
        quotes = [text.quote(number) for block in chosen for key, (_, number) in block.items() if key != "vermagic"]
        yield text.fact(MODULE_FILES, tuple(files), *quotes, whole=False)


def _asked_for(text: Text) -> Iterator[Fact[Any]]:
    """`modinfo -F version nvidia` in a paste, or license: the answer is the value alone. Or `modinfo nvidia | grep version`."""
    for number, asked, below in text.asked("modinfo ", _ASKED):
        answer, field = below[0].strip() if below else "", asked[1] or "version"
        answer = answer.removeprefix("version:").strip() if asked[1] is None else answer
        if _NUMBER.match(answer) if field == "version" else answer in _FLAVOURS:
            file = _described({"filename": (f"{asked[2] or asked[3]}.ko", number), field: (answer, number + 1)})
            yield text.fact(MODULE_FILES, (file,), text.quote(number, number + 1), whole=False)


def _magic_alone(text: Text) -> Iterator[Fact[Any]]:
    """`modinfo nvidia | grep vermagic` of a bug report: the kernel that the module is for, or nothing where there is no module."""
    if text.item is None or isinstance(text.item.what, str) or "vermagic" not in text.item.what or "filename:" in text.text:
        return
    number, shown = next(text.rows(_FIELD), (0, None))
    if shown is not None:
        yield text.fact(MODULE_FILES, (ModuleFile(path="nvidia.ko", kernel=shown[2].split()[0]),), text.quote(number), whole=False)
    elif not text.text.strip():
        yield text.fact(MODULE_FOR_RUNNING, False, text.absent("modinfo nvidia: no module for the running kernel"))


def _kernel(path: str) -> str | None:
    match = _KERNEL.match(path)
    return match[1] if match else None


def _described(block: dict[str, tuple[str, int]]) -> ModuleFile:
    path, _ = block["filename"]
    version, _ = block.get("version", ("", 0))
    magic, _ = block.get("vermagic", ("", 0))
    return ModuleFile(
        path=path,
        kernel=_kernel(path) or (magic.split()[0] if magic else None),
        version=ModuleVersion(version) if _NUMBER.match(version) else None,
        flavour=_FLAVOURS.get(block.get("license", ("", 0))[0]),
    )


PARSERS = (
    parser(
        "module_files",
        parse,
        MODULE_FILES,
        reads=("module-files",),
        absent=True,
        wakes=("/nvidia.ko", "/nvidia-current.ko", "find /lib/modules", "find /usr/lib/modules"),
    ),
    parser(
        "modinfo", parse_modinfo, MODULE_FILES, reads=("modinfo",), wakes=("filename:       /", "vermagic:", "modinfo -F", "modinfo nvidia")
    ),
)
