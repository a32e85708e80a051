"""What a command answered, where the line alone says too little: read by parsers/setting.py.

Each look gives the line that shows its kind, None where the text does not show it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import groupby, islice, takewhile
from operator import itemgetter

from cudadoctor.model.pattern import lazy
from cudadoctor.parsers.attempts import typed
from cudadoctor.parsers.base import Text
from cudadoctor.parsers.literals import Literals
from cudadoctor.parsers.shell import is_prompt, root_command

_ANSWER = 60  # lines that an answer may have
_REACH = 400  # characters of a line looked at on each side of a hint
_PLACES = 60  # places of one hint that are looked at
_CONTINUED = 40  # lines of one command
COMMAND_LENGTH = 6000

_ASKS_LOADER = lazy(r"ldconfig -p ?\| ?grep (?:-\w{1,4} )?['\"]?libcuda(?:\.so(?:\.1)?)?['\"]?(?: *;|$| )")
_RULE = lazy(r"^\s{0,8}[abc] [\d*]{1,4}:[\d*]{1,4} [rwm]{1,3}\s{0,4}$")
_LETS_IN = lazy(r"^\s{0,8}(?:c (?:195|\*):|a )(?!\S{0,4} m\s{0,4}$)")
_MINOR = lazy(r"\b(?:Device Minor|Minor Number)\s{0,20}:\s{1,8}(\d{1,2})\s{0,4}$")
_LISTED_NODE = lazy(r"(?:^|\s)/dev/nvidia(\d{1,2})(?=\s|$)")
_ASKS_BUS = lazy(
    r"^(?:sudo )?(?:/\S{1,20}/)?lspci (?:-[nkv]{1,5} )?"
    r"(?:-d 10[dD][eE]:(?::03\d\d)?|\| ?e?grep (?:-\w{1,3} )?[\"']?(?i:nvidia|10de)[\"']?)$"
)
_ASKS_PROCESS = lazy(r"^(?:sudo )?ps (?:-[a-zA-Z]{1,4} ){0,2}-[a-zA-Z]{0,3}p ?\d{2,10}(?: -o \S{1,60})?$")
_PS_HEADING = lazy(r"^\s{0,12}(?:(?:[A-Z%]{1,8}|F S)\s{1,12}){0,14}(?:CMD|COMMAND)\s*$")
_PS_ROW = lazy(r"^\s{0,12}(?:\S{1,32}\s{1,12}){0,3}\d{2,10}\s")
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
_LISTS_SPECS = lazy(r"^(?:sudo )?ls (?:-\w{1,6} )?/etc/cdi/?(?: (?:/var)?/run/cdi/?)?$")
_SPEC = lazy(r"^(?:-[rwx-]{9}\S? .{1,80} )?(?P<name>nvidia[\w.-]{0,60}\.(?:yaml|json))\s{0,4}$")
# All packages, or those whose names hold the word: a question for `ollama` by itself says nothing of others.
_LISTS_OLLAMA = lazy(
    r"^pacman -Q(?:s ollama|(?: ?\| ?e?grep (?:-\w{1,4} )?(?![^\n]{0,80}ollama[ $])"
    r"(?:'[^'\n]{1,120}'|\"[^\"\n]{1,120}\"|[^\s'\"|]{1,80})))?$"
)
_OLLAMA = lazy(r"^(?:local/)?(?P<name>ollama(?:-\w{1,20})?) \d[\w.]{1,20}-\d{1,3}")
_ASKS_MODULE = lazy(r"^(?:sudo )?modinfo (?:-k \S{1,60} )?nvidia(?:[-_]current)?(?: ?\|[^\n]{1,120})?$")
_SIGNER = lazy(r"^signer: {1,12}\S")
_OTHER_WAY = lazy(r"\"?Runtime\"?: ?\"nvidia|\bnvidia\b|\bcdi\b|NVIDIA_VISIBLE_DEVICES")


class Body:
    """The text, and where each hint stands in it."""

    def __init__(self, text: Text, hints: Literals) -> None:
        self.text, self.lines, self.whole = text, text.lines, text.joined
        self.hints = hints.places(self.whole)

    def places(self, hint: str) -> Iterator[tuple[int, int]]:
        """Each place of a hint with its line's number, at most one on a line."""
        found = ((at, self.text.line_at(at)) for at in self.hints.of(hint))
        for number, of_line in islice(groupby(found, key=itemgetter(1)), _PLACES):
            yield next(of_line)[0], number

    def numbers(self, *hints: str) -> list[int]:
        """The lines that hold one of the hints."""
        return sorted({number for hint in hints for _, number in self.places(hint)})

    def asked(self, hint: str, form: re.Pattern[str]) -> Iterator[tuple[int, list[str], bool]]:
        """Each line on which a command of this form is typed: number, the lines below up to the next prompt, whether there is one."""
        for _, number in self.places(hint):
            command = root_command(self.lines[number - 1][:COMMAND_LENGTH])
            if command is not None and form.search(command) is not None:
                below = list(takewhile(lambda text: not is_prompt(text), self.lines[number : number + _ANSWER]))
                yield number, below, any(map(is_prompt, self.lines[number + len(below) : number + len(below) + 1]))

    def around(self, at: int) -> str:
        """The line of a place, cut to what lies near it."""
        start = self.whole.rfind("\n", max(0, at - _REACH), at) + 1 or max(0, at - _REACH)
        end = self.whole.find("\n", at, at + _REACH)
        return self.whole[start : end if end >= 0 else at + _REACH]

    def command(self, number: int) -> str:
        """A line with the lines that continue it."""
        joined: list[str] = []
        for line in self.lines[number - 1 : number - 1 + _CONTINUED]:
            cut = line[:COMMAND_LENGTH].rstrip()
            joined.append(cut.rstrip("\\`^"))
            if not cut.endswith(("\\", " `", " ^")):
                break
        return " ".join(joined)[:COMMAND_LENGTH]


def shown(body: Body) -> dict[str, int]:
    """Each kind that the answers of a text show, with its line."""
    lines = {kind: look(body) for hint, looks in _LOOKS.items() if hint in body.hints for kind, look in looks.items()}
    return {kind: line for kind, line in lines.items() if line is not None}


def _libcuda_not_listed(body: Body) -> int | None:
    """Where the loader was last asked for libcuda and named none before the next prompt: a look that found nothing prints nothing."""
    line = None
    for number, answer, _ in body.asked("ldconfig -p", _ASKS_LOADER):
        line = None if any("libcuda.so" in text and "cannot access" not in text for text in answer) else number
    return line


def _rules_without_a_gpu(body: Body) -> int | None:
    """Where devices.list of a cgroup is shown and has rules, none of them for NVIDIA's devices (major number 195) or for all."""
    for number in body.numbers("devices.list"):
        rules = list(takewhile(lambda line: _RULE.match(line) is not None, body.lines[number : number + _ANSWER]))
        if len(rules) > 2 and not any(_LETS_IN.match(rule) for rule in rules):
            return number
    return None


def _process_not_listed(body: Body) -> int | None:
    """Where ps was asked for one process by its number and gave its heading alone, or nothing, before the next prompt."""
    for number, below, closed in body.asked("ps -", _ASKS_PROCESS):
        answer = [text for text in below if text.strip()]
        # Without a prompt behind it the answer may be cut off.
        if closed and (not answer or _PS_HEADING.match(answer[0])) and not any(_PS_ROW.match(text) for text in answer[1:2]):
            return number
    return None


def _minor_without_a_node(body: Body) -> int | None:
    """The line with a GPU's minor number where all nodes are listed and the one with this number is not among them."""
    minors = {int(found[1]): number for number in body.numbers("Minor") if (found := _MINOR.search(body.lines[number - 1])) is not None}
    listed = body.numbers("/dev/nvidia") if minors else ()
    nodes = {int(one[1]) for number in listed for one in _LISTED_NODE.finditer(body.lines[number - 1][:COMMAND_LENGTH])}
    missing = sorted(minors.keys() - nodes)
    return minors[missing[0]] if missing and nodes else None


def _bus_without_nvidia(body: Body, *, elsewhere: bool) -> int | None:
    """Where the bus was last asked for NVIDIA's devices and the next prompt follows at once. `elsewhere`: this was another machine than
    the one that an earlier prompt names."""
    prompts = typed(body.text)
    asked = [entry for entry in prompts if entry.command is not None and _ASKS_BUS.match(entry.command)]
    if not asked or asked[-1].end != asked[-1].index + 1 or asked[-1].end >= len(body.lines):
        return None
    last = asked[-1]
    others = {entry.host for entry in prompts if entry.index < last.index and entry.host is not None} - {last.host}
    return last.index + 1 if elsewhere is (last.host is not None and bool(others)) else None


# ---------------------------------------------------------------- the running kernel and those on the disk
def _running(body: Body) -> str | None:
    """The release of the running kernel, by the last uname of the text."""
    found = {number: answer[0].strip() for number, answer, _ in body.asked("uname -", _ASKS_UNAME) if answer}
    found = {number: release for number, release in found.items() if _OWN_RELEASE.match(release)}
    found |= {number: named[1] for number, named in body.text.rows(_UNAME)}
    return found[max(found)] if found else None


def _kernel_gone(body: Body) -> int | None:
    """Where the modules' folders, or the kernel's package of Arch Linux, are all of other releases than the running kernel."""
    running = _running(body)
    if running is None:
        return None
    for number, answer, _ in body.asked("/lib/modules", _LISTS_KERNELS):
        rows = takewhile(str.strip, answer)
        releases = [found[0].rstrip("/") for row in rows for found in _RELEASE.finditer(row[:COMMAND_LENGTH])]
        if releases and running not in releases:
            return number
    return _other_package(body, running)


def _other_package(body: Body, running: str) -> int | None:
    """Where the package of the running kernel's flavour is listed with another release."""
    style = _ARCH.search(running)
    if style is None:
        return None
    same = {number: found["version"] for number, found in body.text.rows(_KERNEL_OF_ARCH) if found["flavour"] == _suffix(style["flavour"])}
    if any(_plain(version + (_suffix(style["flavour"]) or "")) == _plain(running) for version in same.values()):
        return None
    return min(same, default=None)


def _suffix(flavour: str | None) -> str | None:
    return f"-{flavour}" if flavour else None


def _plain(release: str) -> str:
    """6.8.2.arch2-1 is the package of kernel 6.8.2-arch2-1."""
    return release.replace(".", "-")


# ---------------------------------------------------------------- what a container was started with
def _not_requested(body: Body) -> int | None:
    """Where docker inspect shows that a container asked for no device, and nothing speaks of NVIDIA's runtime."""
    answers = {number: answer[0] for number, answer, _ in body.asked("DeviceRequests", _ASKS_REQUEST) if answer}
    for number in body.numbers("DeviceRequests"):
        if _NO_REQUEST_LINE.match(body.lines[number - 1][:200]):
            others = (line[:400] for line in body.lines if '"Runtime"' in line or "VISIBLE_DEV" in line)
            return None if any(map(_OTHER_WAY.search, others)) else number
        answer = answers.get(number, "")[:400]
        if _NO_REQUEST.match(answer) and not _OTHER_WAY.search(answer):
            return number + 1
    return None


def _second_specification(body: Body) -> int | None:
    """Where /etc/cdi is listed, and beside the toolkit's own nvidia.yaml has another of NVIDIA's: of one priority, neither counts."""
    for number, below, _ in body.asked("/etc/cdi", _LISTS_SPECS):
        rows = takewhile(lambda line: not line.endswith("run/cdi:"), below)
        names = {found["name"]: place for place, line in enumerate(rows, number + 1) if (found := _SPEC.match(line)) is not None}
        own = names.pop("nvidia.yaml", None)
        if own is not None and names:
            return min(names.values())
    return None


def _ollama_alone(body: Body) -> int | None:
    """Where pacman lists what it has of Ollama, and that is the package for processors: what computes on a GPU has one of its own."""
    for number, below, _ in body.asked("pacman -Q", _LISTS_OLLAMA):
        names = {found["name"]: place for place, line in enumerate(below, number + 1) if (found := _OLLAMA.match(line)) is not None}
        if [*names] == ["ollama"]:
            return names["ollama"]
    return None


def _signed(body: Body) -> int | None:
    """Where modinfo shows that a key has signed NVIDIA's module."""
    for number, below, _ in body.asked("modinfo", _ASKS_MODULE):
        line = next((place for place, line in enumerate(below, number + 1) if _SIGNER.match(line)), None)
        if line is not None:
            return line
    return None


# By the hint without which there is nothing to look for.
_LOOKS: dict[str, dict[str, Callable[[Body], int | None]]] = {
    "ldconfig -p": {"no-libcuda": _libcuda_not_listed},
    "devices.list": {"no-gpu-rule": _rules_without_a_gpu},
    "Minor": {"node-of-minor": _minor_without_a_node},
    "lspci": {
        "none-listed-there": lambda body: _bus_without_nvidia(body, elsewhere=True),
        "none-listed": lambda body: _bus_without_nvidia(body, elsewhere=False),
    },
    "ps -": {"gone": _process_not_listed},
    "uname": {"kernel-gone": _kernel_gone},
    "DeviceRequests": {"container-no-gpu-access": _not_requested},
    "/etc/cdi": {"second-cdi-spec": _second_specification},
    "pacman -Q": {"ollama-alone": _ollama_alone},
    "modinfo": {"module-signed": _signed},
}
HINTS = (*_LOOKS, "/dev/nvidia", "uname -", "/lib/modules")
