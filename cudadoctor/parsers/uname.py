"""The running kernel: `uname -a`, `uname -r` with its answer, /proc/version, and the lines in which Manjaro's
`mhwd-kernel -li`, `inxi -S` and Proxmox VE's `pveversion` tell it.
"""

from __future__ import annotations

from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import KERNEL, Kernel
from cudadoctor.parsers.base import Output, Parser, Text
from cudadoctor.parsers.shell import root_command

_UNAME = lazy(r"^\s{0,16}Linux \S{1,100} (?P<release>\d{1,3}\.\d{1,4}\S{0,100}) (?P<rest>.{1,400})$")
_MACHINE = lazy(r" (x86_64|aarch64|ppc64le|armv[678]l|i[3-6]86|riscv64|s390x)(?= |$)")
_PROC_VERSION = lazy(r"^\s{0,16}Linux version (?P<release>\d{1,3}\.\d{1,4}\S{0,100}) ")
_TOLD = lazy(
    r"(?:^\s{0,16}Currently running:|^\s{0,16}(?:Host: \S{1,100} )?Kernel:|^pve-manager/\S{1,80} \(running kernel:)"
    r" (?P<release>\d{1,3}\.\d{1,4}\.[^\s)]{1,100})(?: \(linux[\w-]{1,20}\)$| (?:arch: )?x86_64\b|\)$)"
)
_RELEASE = lazy(r"^\s{0,16}(?P<release>\d{1,3}\.\d{1,4}\.\S{1,100})$")


def parse(text: Text) -> Output:
    """One fact for every kernel named. A source that leaves the machine out counts after one that tells it (`whole`)."""
    lines = text.plain_lines
    for number, line in enumerate(lines, 1):
        if not any(word in line for word in ("Linux ", "uname", "running", "Kernel: ")):
            continue
        full, version = _UNAME.match(line), _PROC_VERSION.match(line) or _TOLD.match(line)
        if full is not None:
            machines = _MACHINE.findall(f" {full['rest']}")
            kernel = Kernel(system="Linux", release=full["release"], machine=machines[-1] if machines else None)
            yield text.fact(KERNEL, kernel, text.quote(number), whole=text.whole and bool(machines))
        elif version is not None:
            yield text.fact(KERNEL, Kernel(system="Linux", release=version["release"]), text.quote(number), whole=False)
        elif (
            (root_command(line) or "").partition(";")[0].strip() == "uname -r"
            and number < len(lines)
            and (answer := _RELEASE.match(lines[number])) is not None
        ):
            yield text.fact(KERNEL, Kernel(system="Linux", release=answer["release"]), text.quote(number, number + 1), whole=False)


PARSER = Parser(
    name="uname",
    reads=("uname", "proc-version"),
    keys=(KERNEL.name,),
    parse=parse,
    wakes=("GNU/Linux", "Linux version ", "uname -r", "uname -a", "Currently running: ", "Kernel: ", "(running kernel: "),
)
