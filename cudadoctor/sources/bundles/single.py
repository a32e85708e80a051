"""Files that hold the output of one tool and nothing else: `nvidia-smi -q`, `nvidia-smi -q -x`, `dcgmi diag -j`.

A file that holds anything beside it, a prompt or a program's error, is a text and is read as one.
"""

from __future__ import annotations

import re

from cudadoctor.model.evidence import Evidence, Item
from cudadoctor.sources.bundles import items

_BANNER = re.compile(r"\s{0,16}={8,20}NVSMI LOG={8,20}\s*\n")
_XML = re.compile(r"\s{0,16}(?:<\?xml[^>]{0,200}\?>\s{0,16})?(?:<!DOCTYPE nvidia_smi_log[^>]{0,200}>\s{0,16})?<nvidia_smi_log>")
_DCGM = re.compile(r'"DCGM (?:GPU )?Diagnostic"\s*:')
_FIELD = re.compile(r"^\s{0,80}[A-Za-z0-9][^:]{0,80}(?: :(?: .*)?)?$")
_HEAD = 64 << 10  # characters within which a file shows what it is
_FOREIGN = 2  # lines of -q that are neither field nor heading: a notice of the driver's; more are another text
_NAMES = {"query": "nvidia-smi -q", "xml": "nvidia-smi -q -x", "dcgm": "dcgmi diag"}


def evidence(content: bytes, remarks: tuple[str, ...]) -> Evidence | None:
    """The file as evidence of one machine; None where it is no such file."""
    text = items.text_of(content)
    kind = _kind(text)
    if kind is None:
        return None
    return Evidence(items=(_item(kind, text),), origin="recording", bundle=_NAMES[kind], remarks=remarks)


def _kind(text: str) -> str | None:
    head = text[:_HEAD]
    if _BANNER.match(head):
        lines = (line for line in text.splitlines()[2:] if line.strip() and "NVSMI LOG" not in line)
        return "query" if sum(1 for line in lines if _FIELD.match(line) is None) <= _FOREIGN else None
    if _XML.match(head):
        return "xml" if text.rstrip().endswith(("</nvidia_smi_log>", ">")) else None
    return "dcgm" if head.lstrip()[:1] == "{" and _DCGM.search(text) else None


def _item(kind: str, text: str) -> Item:
    if kind == "dcgm":
        return items.command("dcgm-diag", "dcgmi", "diag", "-j", text=text)
    argv = ("nvidia-smi", "-q", "-x") if kind == "xml" else ("nvidia-smi", "-q")
    return items.command("nvidia-smi-query", *argv, text=text)
