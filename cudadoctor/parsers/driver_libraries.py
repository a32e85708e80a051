"""The GPU's libraries: what the loader knows by `ldconfig -p`, and the driver's own on disk.

A listing shows those of the usual folders, of System32 on Windows, or of the folder that Windows lends to WSL.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import DRIVER_FILES, LIBRARIES, WSL_LIBRARIES, Libraries, LibraryFile
from cudadoctor.parsers.base import Output, Text, parser
from cudadoctor.parsers.listing import Folder, entry_of
from cudadoctor.parsers.shell import command

WSL_FOLDER = "/usr/lib/wsl/lib"
_NAME = lazy(r"^lib(?:cuda|nvidia-ml)\.so[\d.]{0,40}$")
_BARE = lazy(r"^\s{0,16}(?P<path>/(?:[\w.+@-]{1,100}/){1,20}lib(?:cuda|nvidia-ml)\.so[\d.]{0,40})$")
_COLUMNS = lazy(r"^(?:[\w.+@-]{1,120}(?:\s{1,120}|$)){1,40}$")  # `ls` without -l
_FOREIGN = lazy(r"^(?P<path>/\S{1,300}): ELF for (?P<machine>[\w-]{1,20}), this machine runs [\w-]{1,20}$")
_DLL = lazy(r"^\s{0,16}(?P<path>[A-Za-z]:\\(?:[^\\/:*?\"<>|]{1,100}\\){1,20}(?P<name>nvcuda|nvml)\.dll)$")
_NOTHING = {"System32": "System32: neither nvcuda.dll nor nvml.dll"}  # by the item's name; elsewhere there are several folders
_WSL_NAME = lazy(r"^\s{0,16}(?P<name>lib[\w.+-]{1,100}\.so[\d.]{0,40}|nvidia-smi)$")


def parse(text: Text) -> Output:
    """One fact from all lines that show such a file with its full path: `ls -l`, `find`, `locate`."""
    files: dict[str, LibraryFile] = {}
    folder = Folder()
    for number, line in enumerate(text.plain_lines, 1):
        if "/" in line and not folder.header(line) and (typed := command(line)) is not None:
            folder.typed(typed)
        dll = _DLL.match(line) if ".dll" in line else None
        if dll is not None:
            files[dll["path"]] = LibraryFile(name=f"{dll['name']}.dll", path=dll["path"], line=number)
        if ".so" not in line:
            continue
        foreign = _FOREIGN.match(line) if ": ELF for " in line else None
        if foreign is not None and foreign["path"] in files:
            files[foreign["path"]] = msgspec.structs.replace(files[foreign["path"]], foreign=foreign["machine"], line=number)
            continue
        for path, target in _shown(line, folder.listed):
            name = path.rpartition("/")[2]
            if _NAME.match(name):
                files[path] = LibraryFile(name=name, path=path, target=target, line=number)
    if files:
        quotes = (text.quote(file.line) for file in files.values())
        yield text.fact(DRIVER_FILES, Libraries(files=tuple(files.values())), *quotes)
    elif text.whole and not text.text.strip():
        words = _NOTHING.get(text.source, "no libcuda.so or libnvidia-ml.so in the usual library folders")
        yield text.fact(DRIVER_FILES, Libraries(files=()), text.absent(words))


def _shown(line: str, folder: str | None) -> Iterator[tuple[str, str | None]]:
    """The full paths on this line, with what a link leads to. A bare name stands in the folder that is listed."""
    bare, entry = _BARE.match(line), entry_of(line)
    if bare is not None:
        yield bare["path"], None
    elif entry is not None and entry.path.startswith("/"):
        yield entry.path, entry.target
    elif folder is not None and entry is not None and "/" not in entry.path:
        yield f"{folder}/{entry.path}", entry.target
    elif folder is not None and _COLUMNS.match(line):
        yield from ((f"{folder}/{name}", None) for name in line.split())


def parse_wsl(text: Text) -> Output:
    """The names in /usr/lib/wsl/lib. Names alone do not tell which folder they stand in, so no paste wakes this one."""
    rows = text.rows(_WSL_NAME)
    files = tuple(LibraryFile(name=found["name"], path=f"{WSL_FOLDER}/{found['name']}", line=number) for number, found in rows)
    quotes = [text.quote(file.line) for file in files] or [text.absent(f"{WSL_FOLDER}: no library in it")]
    yield text.fact(WSL_LIBRARIES, Libraries(files=files), *quotes)


# ---------------------------------------------------------------- ldconfig -p: libraries of other kinds are left out
_ENTRY = lazy(r"^[\s|>#]{0,20}(?P<name>lib[\w.+-]{1,120}) \((?P<flags>[^)]{1,120})\) =>\s{0,20}(?P<path>/\S{1,400})?$")
_PATH = lazy(r"^\s{0,20}(?P<path>/\S{1,400})$")
_NAMES = ("libcu", "libnv", "libnccl", "libnpp", "libOpenCL", "libGLX_nvidia", "libEGL_nvidia", "libGLESv", "libvdpau_nvidia")
_COUNT = lazy(r"\d{1,6} libs found in cache")


def parse_cache(text: Text) -> Output:
    """One fact from all entries. 32-bit copies are no use to a 64-bit program and are left out where the listing tells them apart."""
    found: list[tuple[LibraryFile, str]] = []
    native = False
    count: int | None = None
    lines = text.plain_lines
    for number, line in enumerate(lines, 1):
        entry = _ENTRY.match(line) if " =>" in line else None
        if count is None and "libs found in" in line and _COUNT.search(line):
            count = number
        if entry is None:
            continue
        native = native or "," in entry["flags"]
        below = _PATH.match(lines[number]) if entry["path"] is None and number < len(lines) else None  # broken at 80 columns
        path = entry["path"] or (below["path"] if below is not None else None)
        if path is not None and entry["name"].startswith(_NAMES):
            found.append((LibraryFile(name=entry["name"], path=path, line=number), entry["flags"]))
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


PARSERS = (
    parser(
        "driver_libraries",
        parse,
        DRIVER_FILES,
        reads=("driver-libraries",),
        wakes=("/libcuda.so", "/libnvidia-ml.so", "-> libcuda.so", "-> libnvidia-ml.so", "libcuda.so  "),
    ),
    parser("wsl_lib", parse_wsl, WSL_LIBRARIES, reads=("wsl-lib",), absent=True),
    parser("ldconfig", parse_cache, LIBRARIES, reads=("ldconfig",), wakes=("libc6,x86-64", "libc6,AArch64", "libs found in cache")),
)
