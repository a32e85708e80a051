"""The kernel-side parsers where the status of a command matters, and the pieces that fixtures do not reach."""

from __future__ import annotations

import pytest

from cudadoctor.model.addresses import normal_address
from cudadoctor.model.evidence import Item, Status
from cudadoctor.model.facts import Fact
from cudadoctor.model.values import KernelLog, PciBus
from cudadoctor.parsers import kernel_log, module_files, modules, packages, pci_sysfs
from cudadoctor.parsers.base import Parser, Text

DPKG = ("dpkg-query", "-W", "-f", "${db:Status-Abbrev} ${Package} ${Version}\\n", "*nvidia*", "*cuda*")
NO_CUDA = "dpkg-query: no packages found matching *cuda*\n"


def facts(parser: Parser, item: Item) -> list[Fact[object]]:
    text = Text(item.stdout or "", source=item.source, origin=item.origin, whole=item.whole, item=item)
    return [entry for entry in parser.parse(text) if isinstance(entry, Fact)]


def query(stdout: str, stderr: str, code: int, what: tuple[str, ...] = DPKG, dropped: int = 0) -> list[Fact[object]]:
    status: Status = "ok" if code == 0 else "failed"
    item = Item(id="packages", kind="command", what=what, status=status, exit=code, stdout=stdout, stderr=stderr, dropped_bytes=dropped)
    return facts(packages.PARSER, item)


@pytest.mark.parametrize(
    ("written", "address"),
    [
        ("01:00.0", "0000:01:00.0"),
        ("0000:3B:00", "0000:3b:00.0"),
        ("00000000:01:00.0", "0000:01:00.0"),
        ("00010000:01:00.0", "00010000:01:00.0"),
        ("10000:e1:00.0", "10000:e1:00.0"),
        ("1:00.0", None),
        ("01:00.9", None),
    ],
)
def test_addresses_have_one_form(written: str, address: str | None) -> None:
    assert normal_address(written) == address


def test_a_pattern_that_matches_nothing_is_no_gap() -> None:
    (fact,) = query("ii  nvidia-driver-535 535.183.01-0ubuntu1\n", NO_CUDA, 1)
    assert fact.whole
    assert fact.value is not None
    assert [package.name for package in fact.value] == ["nvidia-driver-535"]


def test_of_a_history_the_last_line_of_a_package_counts() -> None:
    told = (
        "[2025-11-01T09:00:00+0100] [ALPM] installed nvidia-utils (575.64.05-2)",
        "[2025-11-01T09:00:00+0100] [ALPM] installed nvidia-settings (575.64.05-1)",
        "[2025-11-14T09:03:49+0100] [ALPM] upgraded nvidia-utils (575.64.05-2 -> 580.105.08-1)",
        "[2025-11-15T10:00:00+0100] [ALPM] removed nvidia-settings (575.64.05-1)",
        "2025-11-01 09:00:00 upgrade nvidia-driver-570:amd64 570.1 570.2",
        "2025-11-02 09:00:00 purge nvidia-driver-570:amd64 570.2 <none>",
        "Install: cuda-drivers:amd64 (580.82.07-1), nvidia-dkms-580:amd64 (580.82.07-1, automatic)",
        "Remove: cuda-drivers:amd64 (580.82.07-1)",
        "2025-10-02 08:15:13|install|nvidia-gl-G06|570.1-1|x86_64||NVIDIA|55aa|",
        "2025-10-03 08:15:13|remove |nvidia-gl-G06|570.1-1|x86_64|root@tux|",
    )
    (fact,) = packages.PARSER.parse(Text("\n".join(told), source="text", origin="text", whole=False))
    assert isinstance(fact, Fact)
    assert {(package.name, package.version) for package in fact.value} == {
        ("nvidia-utils", "580.105.08-1"),
        ("nvidia-dkms-580", "580.82.07-1"),
    }


def test_no_packages_at_all_is_known() -> None:
    (fact,) = query("", "dpkg-query: no packages found matching *nvidia*\n" + NO_CUDA, 1)
    assert fact.whole
    assert fact.value == ()
    assert "no installed package" in fact.quotes[0].text


@pytest.mark.parametrize(
    ("stderr", "code", "dropped"),
    [("dpkg-query: error: failed to open package info file\n", 2, 0), ("", 1, 0), (NO_CUDA, 1, 9), (NO_CUDA + "Killed\n", 1, 0)],
)
def test_a_query_that_failed_says_nothing_about_absence(stderr: str, code: int, dropped: int) -> None:
    assert query("", stderr, code, dropped=dropped) == []


def test_pacman_says_by_its_exit_code_that_nothing_matches() -> None:
    (fact,) = query("", "", 1, what=("pacman", "-Qs", "nvidia"))
    assert fact.whole
    assert query("", "error: could not open database\n", 1, what=("pacman", "-Qs", "nvidia")) == []


def test_an_empty_bus_is_known_to_be_empty() -> None:
    item = Item(id="pci", kind="file", what="/sys/bus/pci/devices", status="ok", stdout="\n")
    (fact,) = facts(pci_sysfs.PARSERS[0], item)
    assert fact.whole
    assert fact.value == PciBus(functions=())
    assert fact.quotes[0].text == "0 functions on the PCI bus, none of vendor 0x10de with class 0x03xx"


def test_a_bus_that_lost_bytes_proves_no_absence() -> None:
    lines = "/sys/bus/pci/devices/0000:00:00.0/vendor:0x8086\n/sys/bus/pci/devices/0000:00:00.0/class:0x060000\n"
    item = Item(id="pci", kind="file", what="/sys/bus/pci/devices", status="ok", stdout=lines, dropped_bytes=1)
    (fact,) = facts(pci_sysfs.PARSERS[0], item)
    assert not fact.whole
    assert isinstance(fact.value, PciBus)
    assert not fact.value.functions[0].driver_known


def test_a_row_that_is_not_understood_takes_wholeness_away() -> None:
    item = Item(id="modules", kind="file", what="/proc/modules", status="ok", stdout="ext4 100000 1 - Live 0x0\nnvid\n")
    (fact,) = facts(modules.PARSERS[0], item)
    assert not fact.whole


def test_modules_that_cannot_be_listed_are_not_absent() -> None:
    item = Item(id="module-files", kind="listing", what="/lib/modules", status="ok", stdout="find: permission denied\n")
    assert facts(module_files.PARSERS[0], item) == []


def test_a_kernel_log_without_its_beginning_is_not_whole() -> None:
    started = "[    0.000000] Linux version 6.8.0-45-generic\n"
    late = "[ 9000.000000] EXT4-fs (sda1): mounted\n"
    for body, whole in ((started + late, True), (late, False)):
        (fact,) = facts(kernel_log.PARSER, Item(id="kernel-log", kind="command", what=("dmesg",), status="ok", stdout=body))
        assert fact.whole is whole
    assert facts(kernel_log.PARSER, Item(id="kernel-log", kind="command", what=("dmesg",), status="ok", stdout="")) == []


XID = "NVRM: Xid (PCI:0000:04:00): 79, pid=1, GPU has fallen off the bus."


@pytest.mark.parametrize(
    ("line", "counts"),
    [
        (f"[    9.000001] {XID}", True),
        (f"[    9.000001] [   T4121] {XID}", True),
        (f"<4>[    9.000001][    C3] {XID}", True),
        (f"Nov 21 10:00:00 host kernel: {XID}", True),
        (f"[    9.000001] overlayfs: failed to resolve '/tmp/{XID}': -2", False),
        (f"Nov 21 10:00:00 host kernel: BTRFS: device label {XID} devid 1", False),
    ],
)
def test_behind_a_kernels_stamp_only_the_driver_speaks_for_the_driver(line: str, counts: bool) -> None:
    """What another part of the kernel quotes, a path or a label, anybody may have chosen."""
    (fact,) = facts(kernel_log.PARSER, Item(id="kernel-log", kind="command", what=("dmesg",), status="ok", stdout=f"{line}\n"))
    assert isinstance(fact.value, KernelLog)
    assert [event.xid for event in fact.value.events] == [79] * counts
