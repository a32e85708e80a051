"""Who runs this and what the kernel lets it do: `id`, prompts of a paste that are all root's, /proc/self/status, refused system calls."""

from __future__ import annotations

from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import CAPABILITIES, KERNEL_INTERFACE, USER, Refusal, User
from cudadoctor.parsers.base import Output, Text, first_line, parser

_IDENTITY = lazy(
    r"\buid=(?P<uid>\d{1,10})(?:\((?P<name>[^)]{1,100})\))? gid=(?P<gid>\d{1,10})(?:\([^)]{1,100}\))?"
    r"(?: groups=(?P<groups>[^\s=]{1,4000}(?: [^\s=,()]{1,60}\)[^\s=]{0,4000}){0,20}))?"
)
_GROUP = lazy(r"(\d{1,10})(?:\(([^)]{1,100})\))?")
_CAPABILITIES = lazy(r"^\s{0,16}CapEff:\s{1,16}(?P<bits>[0-9A-Fa-f]{8,16})$")
_PROMPT = lazy(r"^\s{0,16}(?:\([^()\n]{1,40}\) ?)?\[?(?P<user>[\w.-]{1,64})@(?P<host>[\w.-]{1,64})[: ][^$#%>|]{0,200}[$#%>](?: |$)")
_CONTAINER = lazy(r"[0-9a-f]{12}")


def parse_user(text: Text) -> Output:
    for number, line in enumerate(text.plain_lines, 1):
        found = _IDENTITY.search(line) if "uid=" in line else None
        if found is None:
            continue
        groups = tuple(name or digits for digits, name in _GROUP.findall(found["groups"] or ""))
        user = User(name=found["name"] or found["uid"], uid=int(found["uid"]), gid=int(found["gid"]), groups=groups)
        yield text.fact(USER, user, text.quote(number))


def parse_prompts(text: Text) -> Output:
    """Root, where each prompt of a paste that names a user names root. A container's own root (its host's name is hexadecimal) is none."""
    named = [
        (number, found) for number, line in enumerate(text.plain_lines, 1) if "@" in line and (found := _PROMPT.match(line)) is not None
    ]
    if text.pasted and named and all(found["user"] == "root" and not _CONTAINER.fullmatch(found["host"]) for _, found in named):
        yield text.fact(USER, User(name="root", uid=0, gid=0), text.quote(named[0][0]), whole=False)


def _capabilities(line: str) -> tuple[int, ...] | None:
    """The capabilities of the effective set."""
    found = _CAPABILITIES.match(line)
    bits = int(found["bits"], 16) if found is not None else 0
    return None if found is None else tuple(number for number in range(bits.bit_length()) if bits >> number & 1)


_REFUSED = lazy(r"^(?P<name>[\w/]{2,40}): (?P<answer>[^\n]{1,120})$")


def parse_refused(text: Text) -> Output:
    """Which system calls of the driver's, and which parts of /proc, the process is refused (sources/kernel_interface.py)."""
    found = [Refusal(**refused.groupdict(), line=number) for number, refused in text.rows(_REFUSED)]
    quotes = [text.quote(entry.line) for entry in found] or [text.absent("every system call was answered")]
    yield text.fact(KERNEL_INTERFACE, tuple(found), *quotes)


PARSERS = (
    parser("user", parse_user, USER, reads=("user",), wakes=("groups=",)),
    parser("prompts", parse_prompts, USER, wakes=("root@",)),
    parser("capabilities", first_line(CAPABILITIES, _capabilities), CAPABILITIES, reads=("capabilities",), wakes=("CapEff:",)),
    parser("kernel_interface", parse_refused, KERNEL_INTERFACE, reads=("kernel-interface",)),
)
