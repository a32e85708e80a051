"""Windows itself, by its version as `ver` prints it; and what a machine with Windows has none of, by its nature.

No pasted text wakes this: the version stands at the head of every session of cmd, also of one that goes on to WSL.
"""

from __future__ import annotations

from typing import Any

from cudadoctor.model.facts import Key
from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import (
    CONTAINER_MARKS,
    DEVICE_NODES,
    DEVICE_NODES_AFTER,
    DKMS,
    DRIVER_PACKAGES,
    KERNEL,
    KERNEL_LOG,
    LIBRARIES,
    MODULE_FILES,
    MODULES,
    NVIDIA_MODPROBE,
    OPERATING_SYSTEM,
    TEGRA,
    WSL,
    Kernel,
    OperatingSystem,
)
from cudadoctor.parsers.base import Output, Text, parser

_VERSION = lazy(r"^\s{0,8}Microsoft Windows \[\w{1,12} (?P<version>\d{1,2}\.\d{1,2}\.(?P<build>\d{4,6})(?:\.\d{1,6})?)\]")
_FIELD = lazy(r"^\s{0,8}(?P<name>Edition|Machine): (?P<value>\S.{0,60})$")
_SERVERS = ((26100, "2025"), (20348, "2022"), (17763, "2019"), (14393, "2016"))  # first build of each release
_CLIENTS = ((22000, "11"), (10240, "10"), (9600, "8.1"), (9200, "8"), (7600, "7"))
# Kernel modules, packages, device files: Windows has other things in their place, and rules about these say nothing there.
NOT_THERE: tuple[Key[Any], ...] = (
    MODULES, MODULE_FILES, DKMS, DRIVER_PACKAGES, KERNEL_LOG, LIBRARIES, NVIDIA_MODPROBE, DEVICE_NODES, DEVICE_NODES_AFTER,
    CONTAINER_MARKS, TEGRA,
)  # fmt: skip


def parse(text: Text) -> Output:
    fields = {found["name"]: found["value"] for _, found in text.rows(_FIELD)}
    for number, found in text.rows(_VERSION):
        quote = text.quote(number)
        release, edition = found["version"], fields.get("Edition", "")
        version = _release(int(found["build"]), server=edition.startswith("Server"))
        yield text.fact(KERNEL, Kernel(system="Windows", release=release, machine=fields.get("Machine")), quote)
        yield text.fact(OPERATING_SYSTEM, OperatingSystem(id="windows", version_id=version), quote)
        yield text.fact(WSL, False, quote)
        for key in NOT_THERE:
            yield text.fact(key, None, quote)
        return


def _release(build: int, *, server: bool) -> str | None:
    """11, 10, 2022: the name by which people call it."""
    return next((name for first, name in (_SERVERS if server else _CLIENTS) if build >= first), None)


PARSER = parser("windows_version", parse, KERNEL, OPERATING_SYSTEM, WSL, *NOT_THERE, reads=("windows-version",))
