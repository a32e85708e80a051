"""Loaded kernel modules, from /proc/modules, lsmod, or the names in /sys/module.

A live listing is whole; in a pasted text only those rows of lsmod are taken that concern a GPU, because other tables look alike.
"""

from __future__ import annotations

from typing import Any

from cudadoctor.model.facts import Fact
from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import MODULES, KernelModule, KernelModules
from cudadoctor.parsers.base import Output, Parser, Text

_PROC = lazy(r"[ \t>|]{0,20}(\w{1,64}) \d{1,12} (?:-|-?\d{1,9}) (\S+) (?:Live|Loading|Unloading) 0x[0-9a-f]{1,16}\b")
_HEADER = lazy(r"[ \t>|]{0,20}Module\s{1,60}Size\s{1,20}Used by\b")
_ROW = lazy(r"[ \t>|]{0,20}(\w{1,64})\s{1,60}(\d{3,12})\s{1,20}-?\d{1,9}(?:\s{1,4}([\w,]{1,4000}))?(?: ?\[permanent\])?\s*$")
_NAME = lazy(r"[\w-]{1,64}$")
_WAKES = (
    "lsmod",
    "Module                  Size  Used by", "Module Size Used by", "nvidia_uvm", "nvidia_drm", "nvidia_modeset", "nouveau", "mxm_wmi",
    "vfio_pci", "nvidia_vgpu_vfio",
)  # fmt: skip
_GPU = ("nvidia", "nouveau", "nova", "vfio_pci", "vfio_iommu")


class _Users(dict[str, None]):
    """The modules that use one, in order, and the line that says so."""

    line = 0


def _concerns_gpu(name: str) -> bool:
    return name.startswith(_GPU)


def parse(text: Text) -> Output:
    found: dict[str, _Users] = {}
    whole = text.whole
    for number, line in enumerate(text.lines, 1):
        proc = _PROC.match(line)
        if proc:
            _add(found, proc[1], proc[2].split("[")[0], number)
            continue
        row = _ROW.match(line)
        if row is None:
            # A row that is not understood may be the one that matters.
            whole = whole and (not line or _HEADER.match(line) is not None)
        elif not text.pasted or _concerns_gpu(row[1]) or any(_concerns_gpu(user) for user in (row[3] or "").split(",")):
            _add(found, row[1], row[3] or "", number)
    if found or whole:
        modules = (KernelModule(name=name, used_by=tuple(users), line=users.line) for name, users in found.items())
        yield _fact(text, tuple(modules), whole=whole)


def parse_names(text: Text) -> Output:
    found = tuple(KernelModule(name=line.strip(), line=number) for number, line in enumerate(text.lines, 1) if _NAME.match(line.strip()))
    if found:
        yield _fact(text, found, whole=text.whole)


def _add(found: dict[str, _Users], name: str, users: str, number: int) -> None:
    """A row; the same module again (a second lsmod in the text) adds its users."""
    known = found.setdefault(name, _Users())
    known.line = number
    known.update(dict.fromkeys(user for user in users.split(",") if user and user != "-"))


def _fact(text: Text, found: tuple[KernelModule, ...], *, whole: bool) -> Fact[Any]:
    """All modules; quoted are those that concern a GPU, or their absence in words."""
    modules = KernelModules(modules=found)
    lines = [text.quote(module.line) for module in found if _concerns_gpu(module.name)]
    missing = [name for name in ("nvidia", "nouveau") if modules.find(name) is None]
    if whole and "nvidia" in missing:
        lines.append(text.absent(f"{len(found)} kernel modules, none of them {' or '.join(missing)}"))
    elif not lines:
        lines = [text.quote(found[0].line)]
    return text.fact(MODULES, modules, *lines, whole=whole)


PARSERS = (
    Parser(name="modules", reads=("modules", "lsmod"), keys=(MODULES.name,), parse=parse, wakes=_WAKES),
    Parser(name="sys_modules", reads=("sys-modules",), keys=(MODULES.name,), parse=parse_names),
)
