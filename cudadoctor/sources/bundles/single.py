"""Files that hold the output of one tool and nothing else: `nvidia-smi -q`, `nvidia-smi -q -x`, `dcgmi diag -j`.

A file that holds anything beside it, a prompt or a program's error, is a text and is read as one.
"""

from __future__ import annotations

import re

from cudadoctor.model.evidence import Evidence
from cudadoctor.sources.bundles import items

_BANNER = re.compile(r"\s{0,16}={8,20}NVSMI LOG={8,20}\s*\n")
_XML = re.compile(r"\s{0,16}(?:<\?xml[^>]{0,200}\?>\s{0,16})?(?:<!DOCTYPE nvidia_smi_log[^>]{0,200}>\s{0,16})?<nvidia_smi_log>")
_DCGM = re.compile(r'"DCGM (?:GPU )?Diagnostic"\s*:')
_FIELD = re.compile(r"^\s{0,80}[A-Za-z0-9][^:]{0,80}(?: :(?: .*)?)?$")
_HEAD = 64 << 10  # characters within which a file shows what it is
_FOREIGN = 2  # lines of -q that are neither field nor heading: a notice of the driver's; more are another text


def evidence(content: bytes, remarks: tuple[str, ...]) -> Evidence | None:
    """The file as evidence of one machine; None where it is no such file."""
    text = items.text_of(content)
    argv = _printed_by(text)
    if argv is None:
        return None
    item = items.command("dcgm-diag" if argv[0] == "dcgmi" else "nvidia-smi-query", *argv, text=text)
    return Evidence(items=(item,), origin="recording", bundle=" ".join(argv).removesuffix(" -j"), remarks=remarks)


def _printed_by(text: str) -> tuple[str, ...] | None:
    """The command line whose output this is."""
    head = text[:_HEAD]
    if _BANNER.match(head):
        lines = (line for line in text.splitlines()[2:] if line.strip() and "NVSMI LOG" not in line)
        return ("nvidia-smi", "-q") if sum(1 for line in lines if _FIELD.match(line) is None) <= _FOREIGN else None
    if _XML.match(head):
        return ("nvidia-smi", "-q", "-x") if text.rstrip().endswith(">") else None
    return ("dcgmi", "diag", "-j") if head.lstrip()[:1] == "{" and _DCGM.search(text) else None
