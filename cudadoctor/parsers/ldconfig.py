"""`ldconfig -p`: which GPU libraries the loader knows, and where. Libraries of other kinds are left out."""

from __future__ import annotations

from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import LIBRARIES, Libraries, LibraryFile
from cudadoctor.parsers.base import Output, Parser, Text

_ENTRY = lazy(r"^[\s|>#]{0,20}(?P<name>lib[\w.+-]{1,120}) \((?P<flags>[^)]{1,120})\) =>\s{0,20}(?P<path>/\S{1,400})?$")
_PATH = lazy(r"^\s{0,20}(?P<path>/\S{1,400})$")
_NAMES = ("libcu", "libnv", "libnccl", "libnpp", "libOpenCL", "libGLX_nvidia", "libEGL_nvidia", "libGLESv", "libvdpau_nvidia")
_COUNT = lazy(r"\d{1,6} libs found in cache")


def parse(text: Text) -> Output:
    """One fact from all entries. 32-bit copies are no use to a 64-bit program and are left out where the listing tells them apart."""
    found: list[tuple[LibraryFile, str]] = []
    native = False
    count: int | None = None
    lines = text.plain_lines
    for number, line in enumerate(lines, 1):
        if " =>" not in line:
            if count is None and "libs found in" in line and _COUNT.search(line):
                count = number
            continue
        entry = _ENTRY.match(line)
        if entry is None:
            continue
        native = native or "," in entry["flags"]
        if not entry["name"].startswith(_NAMES):
            continue
        path, last = entry["path"], number
        if path is None and number < len(lines):  # a terminal of 80 columns broke the line here
            below = _PATH.match(lines[number])
            path = below["path"] if below else None
        if path is not None:
            found.append((LibraryFile(name=entry["name"], path=path, line=last), entry["flags"]))
    files = tuple(file for file, flags in found if not _is_32_bit(file.path, flags, native))
    quotes = [text.quote(file.line) for file in files]
    if count is not None:
        quotes.insert(0, text.quote(count))
    if files or (count is not None and not text.pasted):
        yield text.fact(LIBRARIES, Libraries(files=files), *quotes, whole=text.whole and count is not None)


def _is_32_bit(path: str, flags: str, native: bool) -> bool:
    """On 64-bit machines the flags of a native library name the architecture ("libc6,x86-64"), those of a 32-bit one do not."""
    if "," in flags:
        return "x32" in flags or "hard-float" in flags
    return native or any(part in path for part in ("i386", "/lib32/", "i686"))


PARSER = Parser(
    name="ldconfig",
    reads=("ldconfig",),
    keys=(LIBRARIES.name,),
    parse=parse,
    wakes=("libc6,x86-64", "libc6,AArch64", "libs found in cache"),
)
