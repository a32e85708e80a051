"""lspci in all its usual forms (plain, -n, -nn, -k, -nnk, -v): functions of the PCI bus and the kernel driver in use.

A pasted text proves that something is missing only where it shows the unfiltered command, its output and another prompt.
"""

from __future__ import annotations

import msgspec

from cudadoctor.model.addresses import normal_address
from cudadoctor.model.facts import Quote
from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import PCI, PciFunction
from cudadoctor.parsers._pci import CLASS_WORDS, NVIDIA, Bus, is_nvidia
from cudadoctor.parsers.base import Output, Text, parser
from cudadoctor.parsers.shell import is_prompt, root_command

# No pipe, no choice of devices.
_UNFILTERED = lazy(r"^(?:sudo )?(?:/\S{1,20}/)?lspci(?: -[nkv]{1,5}){0,3}$")
_HOST_BRIDGE = lazy(r"^(?:0000:)?00:00\.0 ")
_HEADER = lazy(r"[ \t>|]{0,40}((?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])[ \t]{1,8}(\S.*)")
_CODED = lazy(r"[^:\[\]]{1,80}\[(?P<code>[0-9a-f]{4})\]: ?(?P<rest>.*)")  # -nn: VGA compatible controller [0300]: ...
_NUMERIC = lazy(r"(?:Class )?(?P<code>[0-9a-f]{4}): (?P<rest>.*)")  # -n: 0302: 10de:1292 (rev a1)
_PLAIN = lazy(r"([A-Z0-9][^:\[\]]{2,80}): (.*)")  # 3D controller: NVIDIA Corporation ...
_BY_SYSFS = lazy(
    r"(?P<class>[0-9a-f]{4})[0-9a-f]{2}: Vendor (?P<vendor>[0-9a-f]{4}) Device (?P<device>[0-9a-f]{4}) \(rev (?:0x)?(?P<rev>[0-9a-f]{2})\)"
)
_IDS = lazy(r"\[([0-9a-f]{4}):([0-9a-f]{4})\]")
_BARE_IDS = lazy(r"(?:Device )?([0-9a-f]{4}):([0-9a-f]{4})\b")
_UNNAMED = lazy(r"Device ([0-9a-f]{4})\b")
_REVISION = lazy(r"\(rev ([0-9a-f]{2})\)")
_TAIL = lazy(r" ?\((?:rev|prog-if) ")
_DRIVER = lazy(r"[ \t>|]{0,40}Kernel driver in use: (\S+)")
_ONCE = ("Subsystem", "Flags", "Control", "Kernel driver in use", "Kernel modules")  # at most one of each below a header
# Drivers that bind an NVIDIA GPU. In a filtered paste another function's driver line may stand below the GPU's header.
_GPU_DRIVERS = ("nvidia", "nouveau", "nova", "Nova", "vfio", "stub", "pciback", "uio_")


Below = list[tuple[int, str]]  # the lines below a header, with their numbers


def parse(text: Text) -> Output:
    """One fact with all functions; whole for live lspci -nnk whose every line was understood, and for an unfiltered paste.

    Where a text shows a function with another driver later on, the later one counts; how it was before is a second fact.
    """
    blocks, broken = _blocks(text)
    if not any(function.vendor or function.class_code for function, _ in blocks):
        return
    whole = text.whole and not broken if not text.pasted else _shown_whole(text)
    bus = Bus()
    live = _tells_drivers(text)
    for function, below in blocks:
        named = ((match[1], number) for number, words in below if (match := _DRIVER.match(words)) is not None)
        driver, line = next(named, (None, 0))
        if driver and not live and function.is_nvidia_gpu and not any(word in driver for word in _GPU_DRIVERS):
            driver, line = None, 0
        found = msgspec.structs.replace(function, driver=driver, driver_known=driver is not None or live)
        bus.add(found, _quotes(text, function.line, line))
    yield from bus.facts(text, whole=whole)


def _tells_drivers(text: Text) -> bool:
    """Whether a function below which no driver stands has none: options -k and -v print it, a paste may have lost the line."""
    if text.pasted or not (text.whole or (text.item is not None and text.item.excerpt and text.item.status == "ok")):
        return False
    argv = text.item.what if text.item is not None and not isinstance(text.item.what, str) else ()
    options = "".join(word[1:] for word in argv[1:] if word[:1] == "-" and word[1:2] != "-")
    return not argv or "k" in options or "v" in options


def _shown_whole(text: Text) -> bool:
    """Whether a paste shows all that lspci said: an unfiltered command, only its lines below, the host bridge, a prompt or words."""
    lines = text.lines
    typed = [index for index, line in enumerate(lines) if _UNFILTERED.match(root_command(line) or "")]
    if len(typed) != 1:
        return False
    below = lines[typed[0] + 1 :]
    end = next((index for index, line in enumerate(below) if is_prompt(line) or _goes_on(below, index)), None)
    listing = below[:end] if end is not None else []
    understood = all(line[:1] in (" ", "\t", "") or _HEADER.match(line) for line in listing)
    return understood and any(map(_HOST_BRIDGE.match, listing))


def _goes_on(lines: list[str], index: int) -> bool:
    """Whether an empty line here ends the listing: the user's own words follow it."""
    if lines[index].strip() or index + 1 >= len(lines):
        return False
    after = lines[index + 1]
    return bool(after.strip()) and not after[0].isspace() and _HEADER.match(after) is None


def _quotes(text: Text, first: int, driver: int) -> list[Quote]:
    """The header and the driver's line, in one piece where they are neighbours."""
    if driver and driver - first <= 3:
        return [text.quote(first, driver)]
    return [text.quote(first), text.quote(driver)] if driver else [text.quote(first)]


def _blocks(text: Text) -> tuple[list[tuple[PciFunction, Below]], bool]:
    """The functions with the lines below their headers, and whether a line looked like a function's header but was cut off."""
    blocks: list[tuple[PciFunction, Below]] = []
    below: Below | None = None
    broken = False
    for number, line in enumerate(text.lines, 1):
        header = _HEADER.match(line)
        function = _function(header[1], header[2], number) if header is not None else None
        broken = broken or (header is not None and function is None)
        if function is not None:
            below = []
            blocks.append((function, below))
        elif header is None and below is not None and _belongs(line, below):
            below.append((number, line))
        else:
            below = None
    return blocks, broken


def _belongs(line: str, below: Below) -> bool:
    """Whether the function goes on: an empty line ends it (-v), `--` (grep -A), or a second line of a kind."""
    key = _key(line)
    return line.lstrip(" \t>|") not in ("", "--") and (key not in _ONCE or all(_key(before) != key for _, before in below))


def _key(line: str) -> str:
    return line.lstrip(" \t>|").partition(":")[0]


def _function(address: str, description: str, number: int) -> PciFunction | None:
    """A function from its header, or None where the line was cut or is no header at all."""
    place = normal_address(address)
    if place is None:
        return None
    sysfs = _BY_SYSFS.match(description)  # as nvidia-bug-report.sh lists the bus where lspci is missing
    if sysfs:
        return PciFunction(
            address=place, vendor=sysfs["vendor"], device=sysfs["device"], class_code=sysfs["class"], revision=sysfs["rev"], line=number
        )
    coded, plain = _CODED.match(description) or _NUMERIC.match(description), _PLAIN.match(description)
    if coded:
        return _described(place, coded["code"], coded["rest"], number)
    return _described(place, CLASS_WORDS.get(plain[1].strip()), plain[2], number) if plain else None


def _described(address: str, class_code: str | None, rest: str, number: int) -> PciFunction:
    """`rest` is what follows the class: vendor, name, ids, revision, as far as this form of lspci prints them."""
    ids, bare = next(reversed(list(_IDS.finditer(rest))), None), _BARE_IDS.match(rest)
    found = ids or bare
    vendor, device = (found[1], found[2]) if found is not None else (None, None)
    name = rest[: ids.start()].strip() if ids else "" if bare else _TAIL.split(rest, maxsplit=1)[0].strip()
    if is_nvidia(name):
        vendor = vendor or NVIDIA
        name = name[18:].strip()
        unnamed = _UNNAMED.match(name)
        device = device or (unnamed[1] if unnamed else None)
    name = "" if name == "Device" else name  # what lspci prints for an id that it has no name for
    revision = _REVISION.search(rest)
    return PciFunction(
        address=address, vendor=vendor, device=device, class_code=class_code, name=name or None,
        revision=revision[1] if revision else None, line=number,
    )  # fmt: skip


PARSER = parser(
    "lspci",
    parse,
    PCI,
    reads=("lspci", "lspci-nvidia"),
    wakes=("VGA compatible controller", "3D controller", "Display controller", "0302: 10de:", "0300: 10de:"),
)
