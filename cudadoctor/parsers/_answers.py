"""What a command answered, or a file that a text shows, where the line alone says too little: read by parsers/setting.py.

Each look gives the line that shows its kind, None where the text does not show it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile

from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import Start
from cudadoctor.parsers.shell import is_prompt, root_command

_ANSWER = 60  # lines that an answer may have
_FILE = 400  # lines of a file for docker compose
_COMMAND_LENGTH = 2000

_LISTS_KERNELS = lazy(r"^(?:sudo )?ls (?:-\w{1,6} )?(?:/usr)?/lib/modules/?$")
_RELEASE = lazy(r"(?<!\S)\d{1,2}\.\d{1,3}\.\d{1,4}[\w.+~-]{0,60}/?(?!\S)")
_OWN_RELEASE = lazy(r"^\d{1,2}\.\d{1,3}\.\d{1,4}[\w.+~-]{0,60}$")
_UNAME = lazy(r"^Linux \S{1,64} (\d{1,2}\.\d{1,3}\.\d{1,4}[\w.+~-]{0,60}) ")
_ASKS_UNAME = lazy(r"^uname -\w{0,3}r\w{0,3}$")
_KERNEL_OF_ARCH = lazy(r"^linux(?P<flavour>-lts|-zen|-hardened)? (?P<version>\d{1,2}\.\d{1,3}[\w.]{0,30}-\d{1,3})\s{0,4}$")
_ARCH = lazy(r"(?:-(?P<flavour>lts|zen|hardened)|-arch\d{1,2}-\d{1,3})$")
_ASKS_REQUEST = lazy(r"\b(?:docker|podman)\b[^\n]{0,20} inspect\b[^\n]{0,200}\.HostConfig\.DeviceRequests\b")
_NO_REQUEST = lazy(r"^\s{0,8}(?:null|\[\]|<nil>|<no value>)(?=\s|$)")
_NO_REQUEST_LINE = lazy(r"^\s{0,40}\"DeviceRequests\": (?:null|\[\]),?\s{0,4}$")
_OTHER_WAY = lazy(r"\"?Runtime\"?: ?\"nvidia|\bnvidia\b|\bcdi\b|NVIDIA_VISIBLE_DEVICES")
_SERVICES = lazy(r"^(?P<indent>\s{0,8})services:\s{0,4}$")
_IMAGE = lazy(r"^\s{1,16}(?:image|build):")
_CUT = lazy(r"^\s{0,24}(?:\.\.\.|…|#? ?\[\.\.\.\]|# ?\.\.\.)")
_ASKS_GPU = lazy(
    r"\bruntime: ?[\"']?nvidia|\bdriver: ?[\"']?(?:nvidia|cdi)|\bcapabilities:|\bgpus:|nvidia\.com/"
    r"|/dev/nvidia|\bextends:|\bdevice_requests|<<:"
)


def words(lines: Sequence[str], text: str) -> Iterator[tuple[str, int]]:
    """Each kind that the answers of a text show, with its line."""
    for kind, hint, look in _LOOKS:
        line = look(lines) if hint in text else None
        if line is not None:
            yield kind, line


def _typed(line: str) -> str | None:
    return root_command(line[:_COMMAND_LENGTH])


def _answer(lines: Sequence[str], index: int) -> list[str]:
    """The lines below a command, up to the next prompt or an empty line."""
    return list(takewhile(lambda line: line.strip() and not is_prompt(line), lines[index + 1 : index + 1 + _ANSWER]))


# ---------------------------------------------------------------- the running kernel and those on the disk
def _running(lines: Sequence[str]) -> str | None:
    """The release of the running kernel, by the last uname of the text."""
    found = None
    for index, line in enumerate(lines):
        if "uname -" in line and _ASKS_UNAME.match(_typed(line) or "") and index + 1 < len(lines):
            below = lines[index + 1].strip()
            found = below if _OWN_RELEASE.match(below) else found
        elif line.startswith("Linux ") and (named := _UNAME.match(line)) is not None:
            found = named[1]
    return found


def _kernel_gone(lines: Sequence[str]) -> int | None:
    """Where the modules' folders, or the kernel's package of Arch Linux, are all of other releases than the running kernel."""
    running = _running(lines)
    if running is None:
        return None
    for index, line in enumerate(lines):
        if "/lib/modules" in line and _LISTS_KERNELS.match(_typed(line) or ""):
            releases = [found[0].rstrip("/") for row in _answer(lines, index) for found in _RELEASE.finditer(row[:_COMMAND_LENGTH])]
            if releases and running not in releases:
                return index + 1
    return _other_package(lines, running)


def _other_package(lines: Sequence[str], running: str) -> int | None:
    """Where the package of the running kernel's flavour is listed with another release."""
    style = _ARCH.search(running)
    if style is None:
        return None
    suffix = f"-{style['flavour']}" if style["flavour"] else ""
    listed = [(number, found) for number, line in enumerate(lines, 1) if (found := _KERNEL_OF_ARCH.match(line[:200])) is not None]
    same = [(number, found["version"]) for number, found in listed if (found["flavour"] or "") == suffix]
    if not same or any(_plain(version + suffix) == _plain(running) for _, version in same):
        return None
    return same[0][0]


def _plain(release: str) -> str:
    """6.8.2.arch2-1 is the package of kernel 6.8.2-arch2-1."""
    return release.replace(".", "-")


# ---------------------------------------------------------------- what a container was started with
def _not_requested(lines: Sequence[str]) -> int | None:
    """Where docker inspect shows that a container asked for no device, and nothing speaks of NVIDIA's runtime."""
    for index, line in enumerate(lines):
        if "DeviceRequests" not in line:
            continue
        if _NO_REQUEST_LINE.match(line[:200]):
            return (
                None
                if any(_OTHER_WAY.search(other[:400]) for other in lines if '"Runtime"' in other or "VISIBLE_DEV" in other)
                else index + 1
            )
        answer = _answer(lines, index) if _ASKS_REQUEST.search(_typed(line) or "") else []
        if answer and _NO_REQUEST.match(answer[0]) and not _OTHER_WAY.search(answer[0][:400]):
            return index + 2
    return None


def composed(lines: Sequence[str], text: str) -> Iterator[Start]:
    """A file of docker compose that is shown whole, as the start of its containers."""
    if "services:" not in text or "default-runtime" in text:
        return
    for index, line in enumerate(lines):
        head = _SERVICES.match(line[:100])
        block = list(_deeper(lines[index + 1 : index + _FILE], len(head["indent"]))) if head is not None else []
        if any(_IMAGE.match(one[:200]) for one in block) and not any(_CUT.match(one[:100]) for one in block):
            asks = any(_ASKS_GPU.search(one[:400]) for one in block)
            yield Start(program="compose", asks=asks, line=index + 1)


def _deeper(lines: Sequence[str], indent: int) -> Iterator[str]:
    """The lines of a block: deeper than its heading."""
    return takewhile(lambda line: not line.strip() or len(line) - len(line.lstrip()) > indent, lines)


_LOOKS: tuple[tuple[str, str, Callable[[Sequence[str]], int | None]], ...] = (
    ("kernel-gone", "uname", _kernel_gone),
    ("container-no-gpu-access", "DeviceRequests", _not_requested),
)
