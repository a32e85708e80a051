"""Where package managers keep packages of NVIDIA at their version: the lines of their files that name one, under the file's own heading."""

from __future__ import annotations

import glob
import re

from cudadoctor.sources.plain_files import beginning

# apt keeps its holds in dpkg's database, which tells them with the packages.
_FILES = (
    "/etc/dnf/plugins/versionlock.list", "/etc/yum/pluginconf.d/versionlock.list", "/etc/dnf/versionlock.toml", "/etc/dnf/dnf.conf",
    "/etc/yum.conf", "/etc/zypp/locks", "/etc/pacman.conf", "/etc/apt/preferences", "/etc/apt/preferences.d/*",
)  # fmt: skip
_LIMIT = 1 << 16  # characters of one file
_MOST = 100  # lines of one file
_KEEPS = re.compile(r"[ \t]{0,8}(?:exclude|IgnorePkg|solvable_name|Package: |name = |[^#=\s]{1,120}$)")
_OF_PIN = re.compile(r"(?i)(?:package|pin-priority):|[ \t]+\S")


def list_held_packages(_: str) -> str:
    """`==> FILE <==` and below it the lines that keep a package whose name speaks of NVIDIA or CUDA."""
    told: list[str] = []
    for path in (path for pattern in _FILES for path in sorted(glob.glob(pattern)) if path.isprintable()):
        lines = beginning(path, _LIMIT).split("\n")
        kept = [line[:1000] for line in lines if ("nvidia" in line or "cuda" in line) and _KEEPS.match(line) is not None]
        if "/apt/" in path:  # all that it says of packages, for it may speak of others too
            fields = [line[:1000] for line in lines if _OF_PIN.match(line) is not None]
            kept = fields if any("nvidia" in field or "cuda" in field for field in fields) else []
        told += [f"==> {path} <==", *kept[:_MOST]] if kept else []
    return "".join(f"{line}\n" for line in told)
