"""Archives and words of strangers: an archive ends with a clear error in bounded time and memory, and no word steers what shows it."""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import sys
import tarfile
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec
import pytest

from cudadoctor.fleet import comparing
from cudadoctor.fleet.comparing import Compared
from cudadoctor.judge.stages import judge
from cudadoctor.model.evidence import Evidence, Item
from cudadoctor.model.use import GpuProcess, GpuUse, Outcome, Reason, Used
from cudadoctor.report import comparison_text, run_text
from cudadoctor.report.clean import clean
from cudadoctor.report.formats import FORMATS
from cudadoctor.report.page import Style
from cudadoctor.sources import pasted, recording
from tests.cases import every
from tests.command_line import ROOT, changed, environment, evidence_of, host, run
from tests.judging import KNOWLEDGE

MIB = 1 << 20
MOST_MEMORY = 300 * MIB
MOST_SECONDS = 90.0  # a guard against what never ends, on a machine that does other things too; most need less than one
HEAD = json.dumps(
    {"format": "cudadoctor-recording/1", "tool": "x", "origin": {"platform": "linux", "redacted": False}, "evidence": []}
).encode()


# ---------------------------------------------------------------- archives
def _file(name: str, content: bytes = b"x", **more: object) -> bytes:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    for key, value in more.items():
        setattr(member, key, value)
    return member.tobuf(tarfile.GNU_FORMAT) + content + bytes(-len(content) % 512)


def _special(kind: bytes, name: str = "evidence/uname.out.txt", link: str = "/etc/passwd") -> bytes:
    return _file(name, b"", type=kind, linkname=link)


def _claiming(size: int, name: str = "evidence/a.out.txt", kind: bytes = tarfile.REGTYPE) -> bytes:
    """A header alone, of a member that claims to be so large."""
    member = tarfile.TarInfo(name)
    member.size, member.type = size, kind
    return member.tobuf(tarfile.GNU_FORMAT)


def _pax(records: bytes, kind: bytes = tarfile.XHDTYPE) -> bytes:
    return _file("././@PaxHeader", records, type=kind)


def _record(key: str, value: str) -> bytes:
    body = f" {key}={value}\n".encode()
    size = len(body)
    while len(str(size)) + len(body) != size:
        size = len(str(size)) + len(body)
    return str(size).encode() + body


def _zeros(path: Path, before: bytes, size: int, after: bytes = b"") -> None:
    """`before`, then zeros that gzip makes small, then `after`."""
    with gzip.open(path, "wb", compresslevel=9) as stream:
        stream.write(before)
        for _ in range(size // MIB):
            stream.write(bytes(MIB))
        stream.write(after)


def _gzipped(*parts: bytes, end: bool = True) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        with gzip.open(path, "wb", compresslevel=1) as stream:
            for part in parts:
                stream.write(part)
            stream.write(bytes(1024) if end else b"")

    return write


def _bomb(name: str, kind: bytes = tarfile.REGTYPE) -> Callable[[Path], None]:
    return lambda path: _zeros(path, _claiming(1024 * MIB, name, kind), 1024 * MIB, _file("recording.json", HEAD))


def _many(thousands: int) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        thousand = b"".join(_file(f"evidence/{number}.out.txt", b"") for number in range(1000))
        with gzip.open(path, "wb", compresslevel=1) as stream:
            for _ in range(thousands):
                stream.write(thousand)

    return write


def _sparse(path: Path) -> None:
    """A map of holes of which the numbers never come: old tarfile reads on, and looks through all that it has, for each block."""
    records = _record("GNU.sparse.major", "1") + _record("GNU.sparse.minor", "0") + _record("GNU.sparse.realsize", "9")
    _zeros(path, _pax(records) + _claiming(512 * MIB), 512 * MIB)


def _negative(path: Path) -> None:
    """One member takes off what all others add."""
    taken = _pax(_record("GNU.sparse.size", str(-(1 << 50)))) + _file("evidence/a.txt", b"x")
    others = _claiming(96 * MIB, "evidence/b.txt"), _claiming(96 * MIB, "evidence/c.txt")
    with gzip.open(path, "wb", compresslevel=1) as stream:
        stream.write(R + taken)
        for other in others:
            stream.write(other + bytes(96 * MIB))
        stream.write(bytes(1024))


def _same_text_many_times(path: Path) -> None:
    """Each item names the same file: 400 times 32 MiB."""
    items = [{"id": f"a{number}", "kind": "file", "what": "x", "status": "ok", "stdout": "evidence/a.txt"} for number in range(400)]
    head = json.dumps({**json.loads(HEAD), "evidence": items}).encode()
    _zeros(path, _file("recording.json", head) + _claiming(32 * MIB, "evidence/a.txt"), 32 * MIB, bytes(1024))


def _names(*names: str) -> bytes:
    items = [{"id": name, "kind": "file", "what": "x", "status": "ok", "stdout": "evidence/a.txt"} for name in names]
    return _file("recording.json", json.dumps({**json.loads(HEAD), "evidence": items}).encode()) + _file("evidence/a.txt")


def _cut(path: Path) -> None:
    recording.write(evidence_of("h200-healthy"), str(path))
    path.write_bytes(path.read_bytes()[:-2000])


def _damaged(path: Path) -> None:
    recording.write(evidence_of("h200-healthy"), str(path))
    body = bytearray(path.read_bytes())
    body[len(body) // 2 : len(body) // 2 + 64] = bytes(64)
    path.write_bytes(bytes(body))


R = _file("recording.json", HEAD)
ARCHIVES: dict[str, tuple[Callable[[Path], None], str | tuple[str, ...]]] = {
    "absolute path": (_gzipped(R, _file("/tmp/owned")), "lies outside"),
    "up and out": (_gzipped(R, _file("../../owned")), "lies outside"),
    "up within": (_gzipped(R, _file("evidence/../../owned")), "lies outside"),
    "symbolic link": (_gzipped(R, _special(tarfile.SYMTYPE)), "link or device"),
    "hard link": (_gzipped(R, _special(tarfile.LNKTYPE)), "link or device"),
    "link as the head": (_gzipped(_special(tarfile.SYMTYPE, "recording.json")), "0 files, among them neither"),
    "character device": (_gzipped(R, _special(tarfile.CHRTYPE)), "link or device"),
    "block device": (_gzipped(R, _special(tarfile.BLKTYPE)), "link or device"),
    "fifo": (_gzipped(R, _special(tarfile.FIFOTYPE)), "link or device"),
    "bomb in evidence": (_bomb("evidence/a.out.txt"), "times its size; not read"),
    "bomb as the head": (_bomb("recording.json"), "MiB; not read"),
    "bomb in a long name": (_bomb("././@LongLink", tarfile.GNUTYPE_LONGNAME), "header that claims"),
    "bomb in a pax header": (_bomb("././@PaxHeader", tarfile.XHDTYPE), "header that claims"),
    "map of holes": (_sparse, "holes"),
    "old map of holes": (_gzipped(R, _special(tarfile.GNUTYPE_SPARSE)), "holes"),
    "one text for many items": (_same_text_many_times, "texts have more than"),
    "a million members": (_many(1000), "100000 members"),
    "a thousand members behind the head": (lambda path: _prefixed(path, R, _many(1)), "500 files"),
    "a huge declared size": (_gzipped(R, _claiming(1 << 60)), "claims more than 4 GiB"),
    "a size of many digits": (_gzipped(_pax(_record("size", "9" * 40)), _file("evidence/a.txt"), R), "claims more than 4 GiB"),
    "many digits in extended headers": (_gzipped(R, *[_pax(_record("mtime", "9" * 65_000)), _file("evidence/a.txt")] * 60), "number of many digits"),
    "a negative size": (_gzipped(R, _claiming(-512)), "claims -512 bytes"),
    "a negative size in an extended header": (_negative, "smaller than nothing"),
    "no command": (lambda path: _gzipped(_names("uname").replace(b'"what": "x"', b'"what":  []'))(path), "names no piece of evidence"),
    "a chain of headers": (_gzipped(*[_pax(_record("path", "x"))] * 5000, R), "no whole archive (too many headers in a row)"),
    "a chain of headers behind the head": (_gzipped(R, *[_pax(_record("path", "x"))] * 5000, R), "not a whole .tar.gz (too many headers in a row)"),
    "headers of many MiB": (_gzipped(R, *[part for n in range(90) for part in (_pax(_record("comment", "x" * 60_000)), _file(f"evidence/{n}"))]),
        "extended headers of more than 4 MiB"),
    "duplicate names": (_gzipped(R, R), "in it twice"),
    "duplicate items": (_gzipped(_names("uname", "uname")), "twice"),
    "an item called like a path": (_gzipped(_names("../../owned")), "names no piece of evidence"),
    "head that is not UTF-8": (_gzipped(_file("recording.json", HEAD.replace(b'"x"', b'"\xff\xfe"'))), "not of format"),
    "names that are not UTF-8": (_gzipped(R, _file("\udcff\udcfe/../x", b"")), "lies outside"),
    "deep JSON": (_gzipped(_file("recording.json", b'{"format":' + b"[" * 100_000)), "not of format"),
    "a head of many MiB": (_gzipped(_file("recording.json", HEAD[:-1] + b" " * (6 * MIB) + b"}")), "larger than"),
    "truncated": (_cut, "not a whole"),
    "damaged": (_damaged, ("not a whole", "is missing from the archive")),  # which, the compression decides
    "nothing": (_gzipped(), "there is nothing in it"),
}  # fmt: skip


# Bombs; the quickest two are defused in every run.
SLOW = ("bomb in evidence", "bomb as the head", "bomb in a long name", "bomb in a pax header", "a million members")


def _prefixed(path: Path, before: bytes, write: Callable[[Path], None]) -> None:
    write(path)
    path.write_bytes(gzip.compress(before, 1) + path.read_bytes())


# A process for each, that its memory is its own: a fork of one that has read the modules. Libraries alone take some 100 MiB of address space.
READER = f"""
import json, os, resource, sys, time
from tests.command_line import run
from tests.doctor import judge_here
judge_here()
run("check", "--replay", "no such file")  # which reads the modules
for folder in sys.argv[1:]:
    if os.fork():
        os.wait()
        continue
    os.chdir(folder)
    resource.setrlimit(resource.RLIMIT_AS, ({MOST_MEMORY}, {MOST_MEMORY}))
    started = time.monotonic()
    result = run("check", "--replay", "a.tar.gz", "--record", os.path.join(folder, "out"))
    print(json.dumps([folder, *result, time.monotonic() - started]), flush=True)
    os._exit(0)
"""


@pytest.mark.parametrize("names", [[name for name in ARCHIVES if name not in SLOW], pytest.param(SLOW, marks=pytest.mark.long)], ids=len)
def test_hostile_archives_end_with_a_clear_error(names: Sequence[str], tmp_path: Path) -> None:
    folders = [tmp_path / str(number) / "in" / "here" for number in range(len(names))]
    for name, folder in zip(names, folders, strict=True):
        folder.mkdir(parents=True)
        ARCHIVES[name][0](folder / "a.tar.gz")
    before = set(tmp_path.rglob("*"))
    done = subprocess.run(
        [sys.executable, "-B", "-c", READER, *map(str, folders)], env={**environment(), "PYTHONPATH": str(ROOT)}, capture_output=True,
        text=True, timeout=120 * len(SLOW), check=False,
    )  # fmt: skip
    results = {folder: result for folder, *result in map(json.loads, done.stdout.splitlines())}
    for name, folder in zip(names, map(str, folders), strict=True):
        assert folder in results, (name, done.stderr)
        (code, out, err, seconds), words = results[folder], ARCHIVES[name][1]
        assert (code, out) == (2, ""), (name, err)
        assert "a.tar.gz" in err, name
        assert any(one in err for one in ((words,) if isinstance(words, str) else words)), (name, err)
        assert "Traceback" not in err, name
        assert len(err) < 1000, name
        assert seconds < MOST_SECONDS, name
    assert set(tmp_path.rglob("*")) == before, "something was written"
    assert not Path("/tmp/owned").exists()


def test_a_name_with_a_path_in_it_is_written_inside(tmp_path: Path) -> None:
    """What an extension calls its evidence is its own affair; the file that holds it is ours."""
    odd = Item(id="../../owned", kind="file", what="x", status="ok", stdout="x")
    recording.write(Evidence(items=(odd,)), str(tmp_path / "a" / "b"))
    assert sorted(path.name for path in tmp_path.rglob("*.txt")) == [".._.._owned.out.txt"]


@pytest.mark.parametrize("kind", ["link", "fifo", "outside", "zero byte"])
def test_a_hostile_folder_ends_with_a_clear_error(kind: str, tmp_path: Path) -> None:
    folder = tmp_path / "r"
    recording.write(evidence_of("driver-not-loaded"), str(folder))
    target = folder / "evidence" / "uname.out.txt"
    target.unlink()
    if kind == "link":
        target.symlink_to("/etc/hostname")
    elif kind == "fifo":
        os.mkfifo(target)
    else:
        (folder / "evidence" / "x").symlink_to("/")
        head = folder / "recording.json"
        named = "evidence/x/etc/hostname" if kind == "outside" else "evidence/uname\\u0000.out.txt"
        head.write_text(head.read_text("utf-8").replace("evidence/uname.out.txt", named), "utf-8")
    result = run("check", "--replay", str(folder))
    assert (result.code, result.out) == (2, "")
    assert "is missing or lies outside" in result.err


# ---------------------------------------------------------------- words
BIDI = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c"
INVISIBLE = "\u200b\u200c\u200d\u2060\ufeff\u00ad\u180e\u2028\u2029\u034f\u115f\u3164\uffa0\ufe00\ufe0e\U000e0101\U000e01ef"
EVIL = f"a\x1b[31mb\x1b]0;owned\x07c\x9b2Jd\x9d0;x\x9ce{BIDI}f{INVISIBLE}g\x00\x08\x0b\x0c\x7f\x85h\U000e0041i"
ALLOWED = {"\n", "\t"}


def steering(text: str) -> list[str]:
    """Characters that could steer a terminal, reorder a line or hide in one."""
    return sorted(
        {
            f"U+{ord(letter):04X}"
            for letter in set(text)
            if letter in INVISIBLE or (letter not in ALLOWED and unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Zl", "Zp"))
        }
    )


def in_json(text: str) -> str:
    return json.dumps(text)[1:-1]


PLACES: dict[str, tuple[str, Callable[[str], str]]] = {
    "process names": ("processes", lambda text: text.replace('"command": "', f'"command": "{in_json(EVIL)}').replace('"user": "', f'"user": "{in_json(EVIL)}')),
    "GPU names": ("nvml", lambda text: text.replace("NVIDIA H200", in_json(f"NVIDIA H200 {EVIL}"))),
    "GPU names of the ladder": ("ladder", lambda text: text.replace("NVIDIA H200", in_json(f"NVIDIA H200 {EVIL}")).replace("PCIe 5.0", in_json(f"PCIe {EVIL}"))),
    "UUIDs": ("nvml", lambda text: text.replace('"uuid": "', f'"uuid": "{in_json(EVIL)}')),
    "paths": ("python-env", lambda text: text.replace('"path": "', f'"path": "/opt/{in_json(EVIL)}')),
    "package names": ("python-env", lambda text: text.replace('"name": "', f'"name": "{in_json(EVIL)}')),
    "package versions": ("python-env", lambda text: text.replace('"version": "', f'"version": "1{in_json(EVIL)}')),
    "log lines": ("kernel-log", lambda text: text + f"[ 5.0] NVRM: Xid (PCI:0000:00:06): 79, pid=7, name={EVIL}, GPU has fallen off the bus.\n"),
    "kernel names": ("uname", lambda text: text.replace("6.18.44-gpu", f"6.18.44{EVIL}")),
    "distributions": ("os-release", lambda text: f'ID="{EVIL}"\nVERSION_ID="{EVIL}"\n'),
    "variables": ("environment", lambda text: text + f"CUDA_VISIBLE_DEVICES={EVIL}\nCUDA_HOME=/x{EVIL}\nLD_LIBRARY_PATH=/x{EVIL}/stubs\n"),
    "versions of drivers": ("driver-version", lambda text: text.replace("580.159.04", f"535.1{EVIL}")),
    "groups": ("dev", lambda text: text.replace("crw-rw-rw- 1 root root", f"crw-rw---- 1 root {EVIL}")),
    "library paths": ("driver-libraries", lambda text: text.replace("/usr/", f"/usr/{EVIL}/")),
    "texts": ("text", lambda text: f"{EVIL}\nRuntimeError: CUDA error: out of memory {EVIL}\nnumba.cuda.cudadrv.driver.CudaAPIError: [100] {EVIL}\n"),
    "errors of frameworks": ("framework-torch", lambda text: '{"event": "begin", "name": "torch"}\n' + f'{{"event": "error", "step": "{in_json(EVIL)}", "error": "{in_json(EVIL)}"}}\n'),
    "standard errors": ("nvidia-smi.err", lambda text: f"Failed to initialize NVML: {EVIL}\n"),
    "reasons": ("why", lambda text: EVIL),
}  # fmt: skip
HOSTS = ("h200-healthy", "h200x2-default-gpu-full", "h200-memory-held-by-orphan", "h200-bench")


def planted(name: str, places: Iterator[str] | tuple[str, ...]) -> Evidence:
    evidence = evidence_of(name)
    items = {item.id: item for item in evidence.items}
    for place in places:
        item_id, change = PLACES[place]
        if item_id == "why":
            items = {key: msgspec.structs.replace(item, why=change("")) for key, item in items.items()}
        elif item_id.endswith(".err"):
            before = items[item_id[:-4]]
            items[item_id[:-4]] = msgspec.structs.replace(before, stderr=change(""), status="failed", exit=9)
        elif item_id in items:
            items[item_id] = msgspec.structs.replace(items[item_id], stdout=change(items[item_id].stdout or ""), status="ok")
        else:
            made = Item(id=item_id, kind="worker", what=item_id, status="ok", stdout=change(""), origin="recording")
            items[item_id] = msgspec.structs.replace(made, kind="text", origin="text") if item_id == "text" else made
    where = f"/opt/{EVIL}/python"
    return msgspec.structs.replace(evidence, items=tuple(items.values()), python=where, python_why=EVIL, node=EVIL, remarks=(EVIL,))


def _pages(evidence: Evidence) -> Iterator[tuple[str, str]]:
    report = judge(evidence, KNOWLEDGE)
    for form, known in FORMATS.items():
        for style in (Style(verbose=True), Style(verbose=True, ascii=True)):
            yield form, known.render(report, KNOWLEDGE, style)


@pytest.mark.parametrize("place", PLACES)
@every("name", HOSTS)
def test_no_word_of_a_machine_steers_a_report(name: str, place: str) -> None:
    for form, body in _pages(planted(name, (place,))):
        assert steering(body) == [], form


@every("name", HOSTS)
def test_all_at_once(name: str) -> None:
    for form, body in _pages(planted(name, tuple(PLACES))):
        assert steering(body) == [], form


def test_an_annotation_stays_one_line_each() -> None:
    """A line break in a word could begin a command of GitHub's own."""
    evil = "x\n::error::owned\r\n##[error]owned\n::set-output name=a::b"
    report = judge(planted("h200-healthy", ()), KNOWLEDGE)
    for field in ("kernel", "distribution"):
        report = msgspec.structs.replace(report, machine=msgspec.structs.replace(report.machine, **{field: evil}))
    gpu = msgspec.structs.replace(report.machine.gpus[0], name=evil)
    report = msgspec.structs.replace(report, machine=msgspec.structs.replace(report.machine, gpus=(gpu,)), notes=(evil,))
    for form in ("github", "gitlab", "nagios", "npd", "prometheus", "text", "junit"):
        for line in FORMATS[form].render(report, KNOWLEDGE, Style(verbose=True)).split("\n"):
            assert not line.lstrip().startswith(("::set-output", "##[")), form
            assert form == "github" or not line.lstrip().startswith("::"), form
    assert FORMATS["github"].render(report, KNOWLEDGE, Style()).count("\n") == 1


def test_the_text_of_run() -> None:
    reason = Reason(cause=EVIL, title=EVIL, why=EVIL, lines=(EVIL,), steps=(EVIL,))
    use = GpuUse(
        index=0, uuid=EVIL, name=EVIL, memory_bytes=1 << 34, peak_bytes=1 << 30, basis="process", first_s=0.0, last_s=9.0, mean_percent=50.0,
        peak_percent=90, course=(10, 90), course_s=1.0, processes=(GpuProcess(pid=7, command=EVIL),), others=1,
    )  # fmt: skip
    cases: tuple[tuple[Used, tuple[GpuUse, ...], tuple[Reason, ...]], ...] = (
        ("yes", (use,), ()),
        ("no", (), (reason,)),
        ("unknown", (), ()),
    )
    for used, gpus, not_used in cases:
        outcome = Outcome(
            command=(EVIL,), code=1, signal=None, exit_code=1, seconds=9.0, used=used, why_unknown=EVIL, gpus=gpus,
            not_used=not_used, failure=reason, notes=(EVIL,),
        )  # fmt: skip
        for style in (Style(verbose=True), Style(ascii=True)):
            assert steering(run_text.render(outcome, style)) == []


@pytest.mark.parametrize("name", HOSTS[:2])
def test_the_text_of_compare(name: str) -> None:
    odd = planted(name, tuple(PLACES))
    sides = [
        Compared(name=f"{words}{EVIL}", report=judge(one, KNOWLEDGE), evidence=one) for words, one in (("a", evidence_of(name)), ("b", odd))
    ]
    comparison = comparing.compare(sides[0], sides[1], KNOWLEDGE)
    assert comparison.differences
    for style in (Style(verbose=True), Style(ascii=True)):
        assert steering(comparison_text.render(comparison, style)) == []


@pytest.mark.parametrize(
    "words", [EVIL, f"CUDA error: out of memory {EVIL}", f"{EVIL}\nnumba.cuda.cudadrv.error.CudaSupportError: {EVIL}\n[100] x"]
)
def test_the_text_of_explain(words: str) -> None:
    for form in ("text", "json"):
        result = run("explain", "-", "--format", form, "--verbose", stdin=words.encode())
        assert len(result.out) > 100, form
        assert steering(result.out) == [], form


def test_what_is_not_understood_is_said_in_safe_words() -> None:
    word = "".join(letter for letter in EVIL if letter != "\x00" and not letter.isspace())
    for arguments in (
        ("explain", f"x{word}"),
        ("check", "--replay", f"/none{word}"),
        ("compare", f"/none{word}", "x"),
        ("check", "--only", word),
    ):
        result = run(*arguments)
        assert result.code == 2, arguments
        assert steering(result.err) == []
        assert steering(result.out) == []


def test_no_json_that_is_shown_steers_a_terminal(tmp_path: Path) -> None:
    """A program undoes the escapes; a person who reads it in a terminal sees them."""
    recording.write(planted("h200-healthy", tuple(PLACES)), str(tmp_path / "a"))
    for arguments in (("check", "--replay", str(tmp_path / "a")), ("compare", str(tmp_path / "a"), host("h200-healthy")), ("explain", "-")):
        result = run(*arguments, "--format", "json", stdin=f"CUDA error: out of memory {EVIL}".encode())
        assert steering(result.out) == [], arguments
        json.loads(result.out)
    report = FORMATS["json"].render(judge(planted("h200-healthy", ("kernel names",)), KNOWLEDGE), KNOWLEDGE, Style())
    assert "\u202e" in json.loads(report)["origin"]["python"]


@pytest.mark.parametrize("letter", [*BIDI, *INVISIBLE, "\x1b", "\x9b", "\x00", "\x7f", "\x85", "\U000e0041", "\ud800"])
def test_each_is_written_as_an_escape(letter: str) -> None:
    shown = clean(f"a{letter}b")
    assert letter not in shown
    assert shown.isascii()
    assert shown.isprintable()
    assert re.fullmatch(r"a\\(?:x|u|U000)[0-9a-f]+b", shown)


# ---------------------------------------------------------------- words that would be typed
@pytest.mark.parametrize("payload", ["LD_PRELOAD; touch /tmp/x #", "$(id)", "--version; id", "a b", 3])
def test_no_word_of_a_recording_is_a_command_that_would_settle_it(payload: object) -> None:
    start = {"event": "start", "python": "/x/python", "version": "3.12.1", "quick": False, "replaced": [payload, "LD_PRELOAD"]}
    ladder = next(item for item in evidence_of("h200-healthy").items if item.id == "ladder")
    lines = [line for line in (ladder.stdout or "").splitlines() if '"start"' not in line]
    changed = msgspec.structs.replace(ladder, stdout="\n".join([json.dumps(start), *lines]))
    evidence = evidence_of("h200-healthy")
    items = tuple(changed if item.id == "ladder" else item for item in evidence.items)
    report = judge(msgspec.structs.replace(evidence, items=items), KNOWLEDGE)
    assert [ask.command for ask in report.diagnosis.ask] == ["printenv LD_PRELOAD"]


@pytest.mark.parametrize("given", ["utility,$(touch /tmp/x)", "utility --privileged evil/image #", "utility], privileged: true, x: [y"])
def test_no_word_of_a_recording_is_an_option_of_a_container(given: str) -> None:
    def with_it(text: str) -> str:
        kept = [line for line in text.splitlines() if not line.startswith("NVIDIA_DRIVER_CAPABILITIES=")]
        return "\n".join([*kept, f"NVIDIA_DRIVER_CAPABILITIES={given}"]) + "\n"

    report = judge(changed("container-utility-only", {"environment": with_it}), KNOWLEDGE)
    assert report.prescription is not None
    texts = [step.text for step in report.prescription.steps]
    assert any("NVIDIA_DRIVER_CAPABILITIES=compute,utility ..." in text for text in texts)
    assert not any("privileged" in text or "touch" in text for text in texts)


@pytest.mark.parametrize(
    ("folder", "prefix"),
    [
        ("~/miniconda3/envs/ml", '"$HOME"/miniconda3/envs/ml'),
        ("~/../../tmp/evil/envs/ml", '"$CONDA_PREFIX"'),
        ("~/a\\b/envs/ml", '"$CONDA_PREFIX"'),
    ],
)
def test_the_folder_of_an_environment_leads_nowhere_else(folder: str, prefix: str) -> None:
    text = f'File "{folder}/lib/python3.11/site-packages/torch/cuda/__init__.py", line 310, in _lazy_init\nAssertionError: Torch not compiled with CUDA enabled\n'
    report = judge(pasted.evidence_of(f"(ml) $ conda list pytorch\npytorch 2.5.1 py3.11_cpu_0 conda-forge\n{text}".encode()), KNOWLEDGE)
    assert report.prescription is not None
    commands = "\n".join(step.shell or "" for step in report.prescription.steps)
    assert f"-p {prefix} " in commands
