"""Kernel modules: those that are loaded, what DKMS knows, and whether Secure Boot checks their signatures.

A live listing is whole; in a pasted text only those rows of lsmod are taken that concern a GPU, because other tables look alike.
"""

from __future__ import annotations

from typing import Any

from cudadoctor.model.facts import Fact
from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import DKMS, MODULES, SECURE_BOOT, DkmsEntry, KernelModule, KernelModules
from cudadoctor.parsers.base import Output, Text, parser

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


def _concerns_gpu(name: str) -> bool:
    return name.startswith(_GPU)


def parse(text: Text) -> Output:
    found: dict[str, KernelModule] = {}
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
        yield _fact(text, tuple(found.values()), whole=whole)


def parse_names(text: Text) -> Output:
    found = tuple(KernelModule(name=line.strip(), line=number) for number, line in enumerate(text.lines, 1) if _NAME.match(line.strip()))
    if found:
        yield _fact(text, found, whole=text.whole)


def _add(found: dict[str, KernelModule], name: str, users: str, number: int) -> None:
    """A row; the same module again (a second lsmod in the text) adds its users."""
    known = found[name].used_by if name in found else ()
    named = (user for user in users.split(",") if user and user != "-")
    found[name] = KernelModule(name=name, used_by=tuple(dict.fromkeys((*known, *named))), line=number)


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


# ---------------------------------------------------------------- dkms status: for which kernels modules are built and installed
# Until DKMS 2: `nvidia, 470.161.03, 5.15.0-56-generic, x86_64: installed`; since DKMS 3: `nvidia/535.129.03, 6.2.0-39-generic, ...`.
_DKMS_LINE = lazy(
    r"[ \t>|]{0,20}([\w.+-]{1,80})(?:/|, )([\w.:~+-]{1,80})(?:, ([\w.~+-]{1,120}), (\w{1,20}))?: "
    r"(added|built|installed(?:-weak)?|broken)\b(?: from ([\w.~+-]{1,120}))?(?: ?\([^()]{0,200}\))*\s*$"
)


def parse_dkms(text: Text) -> Output:
    """One fact with all entries. Empty live output is knowledge: DKMS knows no module."""
    found: dict[tuple[str, ...], DkmsEntry] = {}
    whole = text.whole
    for number, line in enumerate(text.lines, 1):
        match = _DKMS_LINE.match(line) if ": " in line else None
        if match is None:
            whole = whole and not line  # a complaint of dkms may stand in for entries
            continue
        module, version, kernel, state = match[1], match[2], match[3], match[5]
        found[(module, version, kernel or "", state)] = DkmsEntry(module=module, version=version, kernel=kernel, state=state, line=number)
    entries = tuple(found.values())
    lines = [text.quote(entry.line) for entry in entries if "nvidia" in entry.module]
    if not lines and whole:
        lines = [text.absent(f"{text.source}: {len(entries)} entries, none of them nvidia")]
    elif not lines and entries:
        lines = [text.quote(entries[0].line)]
    if lines:
        yield text.fact(DKMS, entries, *lines, whole=whole)


# ---------------------------------------------------------------- mokutil --sb-state, and the line of bootctl
_STATE = lazy(r"[ \t>|:]{0,20}Secure ?Boot:? {1,4}(enabled|disabled)\b")
_NOT_IN_SHIM = "SecureBoot validation is disabled in shim"
# Said on machines that booted without EFI, and also in containers that do not see the firmware's variables.
_NO_EFI = ("EFI variables are not supported on this system", "This system doesn't support Secure Boot")


def parse_secure_boot(text: Text) -> Output:
    """One fact. Secure Boot whose validation is switched off in shim does not refuse modules, so it counts as off."""
    states: list[tuple[bool, int]] = []
    shim = no_efi = 0
    for number, line in enumerate(text.lines, 1):
        if "Secure" not in line and "EFI" not in line:
            continue
        match = _STATE.match(line)
        if match:
            states.append((match[1] == "enabled", number))
        elif _NOT_IN_SHIM in line:
            shim = number
        elif not no_efi and any(words in line for words in _NO_EFI):
            no_efi = number
    if states:
        enabled, number = states[-1]
        quotes = [text.quote(number), text.quote(shim)] if shim else [text.quote(number)]
        yield text.fact(SECURE_BOOT, enabled and not shim, *quotes)
    elif no_efi:
        yield text.fact(SECURE_BOOT, False, text.quote(no_efi), whole=False)


PARSERS = (
    parser("modules", parse, MODULES, reads=("modules", "lsmod"), wakes=_WAKES),
    parser("sys_modules", parse_names, MODULES, reads=("sys-modules",)),
    parser(
        "dkms", parse_dkms, DKMS, reads=("dkms",), absent=True, wakes=(": installed", ": added", "_64: built", "aarch64: built", ": broken")
    ),
    parser(
        "mokutil",
        parse_secure_boot,
        SECURE_BOOT,
        reads=("mokutil",),
        reads_stderr=True,
        wakes=("SecureBoot enabled", "SecureBoot disabled", "Secure Boot: enabled", "Secure Boot: disabled", *_NO_EFI),
    ),
)
