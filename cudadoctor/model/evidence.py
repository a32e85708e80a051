"""Evidence: what was read from a machine, each piece with its status. Nothing here interprets it."""

from __future__ import annotations

from typing import Literal

import msgspec

from cudadoctor.model.pattern import lazy

Kind = Literal["command", "file", "link", "listing", "environment", "processes", "worker", "text"]
# ok: it answered. failed: it ran and ended with a non-zero code or a signal (its output still counts).
# absent: known not to be there. denied, timed-out, abandoned, not-run: ignorance, `why` says which.
LONGEST_LINE = 64 << 10  # characters of a line of a user's text: of a longer one both ends are read
SPARED = "--quick: it is run where NVML or cuInit does not answer"  # the `why` of an item that nobody missed
Status = Literal["ok", "failed", "absent", "denied", "timed-out", "abandoned", "not-run"]
Origin = Literal["live", "recording", "text"]
NOT_SHOWN = "<redacted>"  # what stands in a recording for what it keeps to itself (sources/sensitive.py)


_LONE = lazy("[\ud800-\udfff]")  # how Python keeps a byte of a name or a variable that is not UTF-8


def writable(text: str) -> str:
    """The text as it can be sent and written: bytes that are not UTF-8 as `\\xff`."""
    return _LONE.sub(lambda one: f"\\x{ord(one.group()) & 0xFF:02x}", text)


OUTPUT = "output"  # `what` of a text that a program printed; "text" where somebody may have written it


class Item(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One piece of evidence: a command's output, a file, a listing, a worker's lines, or a user's text."""

    id: str
    kind: Kind
    what: tuple[str, ...] | str  # argv of a command or worker, path of anything else
    status: Status
    why: str | None = None
    exit: int | None = None
    signal: int | None = None
    stdout: str | None = None
    stderr: str | None = None
    dropped_bytes: int = 0
    seconds: float = 0.0
    origin: Origin = "live"
    lines_before: int = 0  # of a file whose end alone was read
    excerpt: bool = False  # a part of what was asked for (a filtered log, a choice of devices): what it lacks may be there all the same

    @property
    def source(self) -> str:
        """What a person would call it: the command line, the path, `environment` or `text`."""
        if self.kind in ("environment", "text"):
            return self.kind
        if isinstance(self.what, str):
            return self.what
        return " ".join(self.what).replace("\n", "\\n")

    def writable(self) -> Item:
        """With nothing in it that cannot be written."""
        what = writable(self.what) if isinstance(self.what, str) else tuple(map(writable, self.what))
        texts = {"why": self.why, "stdout": self.stdout, "stderr": self.stderr}
        sound = {name: writable(text) for name, text in texts.items() if text is not None}
        return msgspec.structs.replace(self, what=what, **sound)

    @property
    def answered(self) -> bool:
        return self.status in ("ok", "failed")

    @property
    def useful(self) -> bool:
        """Whether it answered with anything: an empty answer leaves room for the next way to ask (dpkg on a Fedora, a closed dmesg)."""
        return self.answered and bool((self.stdout or "").strip() or self.kind == "file")

    @property
    def whole(self) -> bool:
        """Whether what is not in this text is known to be absent on the machine."""
        return self.origin != "text" and self.status == "ok" and self.dropped_bytes == 0 and not self.excerpt


class Evidence(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All evidence of one run, and where it came from."""

    items: tuple[Item, ...]
    origin: Origin = "live"
    platform: str = "linux"
    python: str | None = None  # the examined interpreter
    python_why: str | None = None  # the rule that chose it
    quick: bool = False
    redacted: bool = False
    distro: str | None = None  # --distro: the user's word, overrides os-release
    bundle: str | None = None  # the tool whose report this was cut from: no program of ours ran there, so no ladder was climbed
    host: str | None = None  # the machine's name, or its pseudonym
    boot_id: str | None = None  # one for each start of a Linux machine
    time: str | None = None  # when the collection began, UTC, ISO 8601
    node: str | None = None  # the machine's name, where a bundle holds several
    remarks: tuple[str, ...] = ()  # what a reader should know of the source: a part that could not be read
    cut_short: bool = False  # a piece took too long to be read and was left out: what remains proves a fault, never health

    def get(self, item_id: str) -> Item | None:
        return next((item for item in self.items if item.id == item_id), None)

    def completed(self, extra: tuple[Item, ...], remarks: tuple[str, ...] = ()) -> Evidence:
        """With items of the user's own, such as --log, in place of those of the same id."""
        kept = tuple(item for item in self.items if item.id not in {own.id for own in extra})
        return msgspec.structs.replace(self, items=kept + extra, remarks=self.remarks + remarks)
