"""What was booted: the kernel, the tree of a system that is an image (OSTree, bootc), and the loader that gave the kernel its parameters.

An image's packages are layered or the image is exchanged; dnf, akmods and dracut do not change what is booted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from cudadoctor.model.facts import Fact
from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import BOOT_LOADER, BOOTED_IMAGE, KEEPING_FILES, KEEPING_OUT, KERNEL, Kernel
from cudadoctor.parsers.base import Output, Text, first_line, parser

# `rpm-ostree status` and `bootc status` name the booted deployment first among their lines.
_DEPLOYMENT = lazy(r"^[ \t>|]{0,40}(?:● (?:Booted image: )?|\* )(?P<tree>\S{1,300}[:/]\S{1,300})$")
# ostree=/ostree/boot.1/fedora/<checksum>/0: how the boot loader names the tree to ostree-prepare-root(1).
_PARAMETER = lazy(r"(?:^|[\s'\"])ostree=/ostree/boot\.[\d.]{1,10}/(?P<tree>[\w.-]{1,80})/")
# dnf 5 refuses to install there.
_REFUSED = lazy(r"(?i:\bthis bootc system is configured to be read-only\b)")
# GRUB hands on the name of the kernel's file, a loader of EFI the path of the initrd; `proxmox-boot-tool` keeps it in a folder of its own.
_HANDED_ON = lazy(r"^(?:.{0,80}[Cc]ommand line: ?)?(?:(?P<grub>BOOT_IMAGE=[(/])|initrd=\\EFI\\(?P<owner>\w[\w.-]{0,60})\\)")
_KEEPS_OUT = lazy(
    r"(?:modprobe\.blacklist|module_blacklist|rd\.driver\.blacklist)=(?:[\w-]{1,30},){0,12}nvidia(?:[-_]current)?(?:,|$)"
    r"|(?:vfio-pci|pci-stub)\.ids=(?:[0-9a-f]{4}:[0-9a-f]{4},){0,12}10de:[0-9a-f]{4}(?:,|$)"
)


def _image(form: re.Pattern[str]) -> Callable[[Text], Output]:
    """The name of the tree on the first line of this form; empty where it has none."""
    tree = lambda line: found.groupdict().get("tree", "") if (found := form.search(line)) is not None else None  # noqa: E731
    return first_line(BOOTED_IMAGE, tree, whole=False)


def _loader(line: str) -> str | None:
    found = _HANDED_ON.match(line) if "=" in line else None
    if found is None:
        return None
    return "grub" if found["grub"] else "proxmox-boot-tool" if found["owner"] == "proxmox" else "systemd-boot"


def parse_modprobe_lines(text: Text) -> Output:
    """As `grep -r` shows them."""
    lines = ((number, _MODPROBE_LINE.match(line)) for number, line in enumerate(text.plain_lines, 1))
    files = {found["file"]: text.quote(number) for number, found in lines if found is not None}
    if files:
        yield text.fact(KEEPING_FILES, tuple(files), *files.values(), whole=False)


def _keeping_out(line: str) -> str | None:
    """https://docs.kernel.org/admin-guide/kernel-parameters.html: module_blacklist, modprobe.blacklist of kmod's modprobe.d(5), and the
    ids of vfio-pci and pci-stub where they are built into the kernel. `rpm-ostree kargs` prints the line without what the loader adds."""
    words = line.split() if _HANDED_ON.match(line) is not None or _PARAMETER.search(line) is not None else []
    return next((word for word in words if _KEEPS_OUT.match(word) is not None), None)


def parse_mark(text: Text) -> Output:
    """/run/ostree-booted, an empty file of the machine itself. What system it is /etc/os-release says there."""
    yield text.fact(BOOTED_IMAGE, "", text.absent("/run/ostree-booted: there"), whole=False)


# ---------------------------------------------------------------- the running kernel: uname, /proc/version, mhwd-kernel, inxi, pveversion
_UNAME = lazy(r"^\s{0,16}Linux \S{1,100} (?P<release>\d{1,3}\.\d{1,4}\S{0,100}) (?P<rest>.{1,400})$")
_MACHINE = lazy(r" (x86_64|aarch64|ppc64le|armv[678]l|i[3-6]86|riscv64|s390x)(?= |$)")
_ANSWERS = 12  # lines below it that are looked at
_PROC_VERSION = lazy(r"^\s{0,16}Linux version (?P<release>\d{1,3}\.\d{1,4}\S{0,100}) ")
_TOLD = lazy(
    r"(?:^\s{0,16}Currently running:|^\s{0,16}(?:Host: \S{1,100} )?Kernel:|^pve-manager/\S{1,80} \(running kernel:)"
    r" (?P<release>\d{1,3}\.\d{1,4}\.[^\s)]{1,100})(?: \(linux[\w-]{1,20}\)$| (?:arch: )?x86_64\b|\)$)"
)
_MODPROBE_LINE = lazy(
    r"^\s{0,16}(?P<file>/(?:etc|run|lib|usr/lib)/modprobe\.d/[\w.-]{1,80}\.conf):(?:\d{1,4}:)?[ \t]{0,8}"
    r"(?:blacklist nvidia|install nvidia /(?:usr/)?bin/(?:false|true)|alias nvidia off)[ \t]{0,8}$"
)
# uname -r, uname -rm, also at the end of a line of several commands.
_ASKS_RELEASE = lazy(r"^(?P<more>[^#\n]{1,200}(?:;|&&) ?)?uname -[mos]{0,3}r[mos]{0,3}\s{0,8}(?(more)$|(?:;|&&|$))")
_RELEASE = lazy(
    r"^\s{0,16}(?:Linux )?(?P<release>\d\.\d{1,3}\.\d\S{0,100})(?: (?P<machine>x86_64|aarch64|ppc64le|riscv64|s390x))?(?: GNU/Linux)?$"
)


def parse_kernel(text: Text) -> Output:
    """One fact for every kernel named, in the text's order."""
    yield from sorted(_kernels(text), key=lambda fact: fact.quotes[0].first or 0)


def _kernels(text: Text) -> Iterator[Fact[Kernel]]:
    """A source that leaves the machine out counts after one that tells it (`whole`)."""
    for number, line in enumerate(text.plain_lines, 1):
        if not any(word in line for word in ("Linux ", "running", "Kernel: ")):
            continue
        full, version = _UNAME.match(line), _PROC_VERSION.match(line) or _TOLD.match(line)
        if full is not None:
            machines = _MACHINE.findall(f" {full['rest']}")
            kernel = Kernel(system="Linux", release=full["release"], machine=machines[-1] if machines else None)
            yield text.fact(KERNEL, kernel, text.quote(number), whole=text.whole and bool(machines))
        elif version is not None:
            yield text.fact(KERNEL, Kernel(system="Linux", release=version["release"]), text.quote(number), whole=False)
    for number, asked, below in text.asked("uname -", _ASKS_RELEASE):
        written = [at for at, line in enumerate(below[:_ANSWERS]) if line.strip()]
        # Behind other commands its answer is the last; what they print may look like it (ls /lib/modules).
        at = next(iter(written[-1:] if asked["more"] else written[:1]), None)
        answer = _RELEASE.match(below[at]) if at is not None else None
        if at is not None and answer is not None:
            kernel = Kernel(system="Linux", release=answer["release"], machine=answer["machine"])
            yield text.fact(KERNEL, kernel, text.quote(number, number + 1 + at), whole=False)


# The name of an image says most: it is what a system is rebased from.
PARSERS = (
    parser(
        "uname",
        parse_kernel,
        KERNEL,
        reads=("uname", "proc-version"),
        wakes=("GNU/Linux", "Linux version ", "uname -", "Currently running: ", "Kernel: ", "(running kernel: "),
    ),
    parser("deployments", _image(_DEPLOYMENT), BOOTED_IMAGE, wakes=("rpm-ostree status", "bootc status")),
    parser("ostree_parameter", _image(_PARAMETER), BOOTED_IMAGE, wakes=("ostree=/ostree/",)),
    parser(
        "kernel_parameters",
        first_line(KEEPING_OUT, _keeping_out, whole=False),
        KEEPING_OUT,
        reads=("kernel-parameters",),
        wakes=("modprobe.blacklist=", "module_blacklist=", "driver.blacklist=", "vfio-pci.ids=", "pci-stub.ids="),
    ),
    parser(
        "modprobe_lines",
        parse_modprobe_lines,
        KEEPING_FILES,
        wakes=("/modprobe.d/",),
    ),
    parser(
        "boot_loader",
        first_line(BOOT_LOADER, _loader, whole=False),
        BOOT_LOADER,
        reads=("kernel-parameters",),
        wakes=("BOOT_IMAGE=", "initrd=\\EFI\\"),
    ),
    parser("ostree_booted", parse_mark, BOOTED_IMAGE, reads=("ostree-booted",), absent=True),
    parser("image_refusal", _image(_REFUSED), BOOTED_IMAGE, wakes=("bootc system is configured",)),
)
