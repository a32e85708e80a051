"""dkms status: which modules DKMS knows, for which kernels they are built and installed, and which are only added."""

from __future__ import annotations

from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import DKMS, DkmsEntry, DkmsStatus
from cudadoctor.parsers.base import Output, Parser, Text

# Until DKMS 2: `nvidia, 470.161.03, 5.15.0-56-generic, x86_64: installed`; since DKMS 3: `nvidia/535.129.03, 6.2.0-39-generic, ...`.
_LINE = lazy(
    r"[ \t>|]{0,20}([\w.+-]{1,80})(?:/|, )([\w.:~+-]{1,80})(?:, ([\w.~+-]{1,120}), (\w{1,20}))?: "
    r"(added|built|installed(?:-weak)?|broken)\b(?: from ([\w.~+-]{1,120}))?(?: ?\([^()]{0,200}\))*\s*$"
)


def parse(text: Text) -> Output:
    """One fact with all entries. Empty live output is knowledge: DKMS knows no module."""
    found: dict[tuple[str, ...], DkmsEntry] = {}
    whole = text.whole
    for number, line in enumerate(text.lines, 1):
        match = _LINE.match(line) if ": " in line else None
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
        yield text.fact(DKMS, DkmsStatus(entries=entries), *lines, whole=whole)


PARSER = Parser(
    name="dkms",
    reads=("dkms",),
    keys=(DKMS.name,),
    parse=parse,
    wakes=(": installed", ": added", "_64: built", "aarch64: built", ": broken"),
    absent=(DKMS.name,),
)
