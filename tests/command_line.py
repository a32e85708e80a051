"""How tests call the command line: in this process (fast), or as a process of its own where streams and signals count.

run("check", "--replay", host("driver-hung"))        -> Result(code, out, err)
start("check", "--quick", environment={...})         -> a Popen
changed("driver-hung", {"environment": function})    -> the host's evidence with texts changed
"""

from __future__ import annotations

import functools
import io
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import msgspec

from cudadoctor.commands.cli import main
from cudadoctor.model.evidence import Evidence, Item
from cudadoctor.sources import recording

ROOT = Path(__file__).resolve().parent.parent
HOSTS = ROOT / "fixtures" / "hosts"
DOCTOR = str(ROOT / "tests" / "doctor.py")
NAMES = sorted(path.name for path in HOSTS.iterdir() if (path / "recording.json").exists())
# Something stands between these machines and what asks them: without the evidence that shows it, words mean what they mean elsewhere.
MISLED = (
    "h100-ioctl-of-driver-filtered", "h100-nvml-of-another-driver", "h100-preload-guard", "h100-seccomp-clone3",
    "h200-nvidia-smi-shim",
)  # fmt: skip
COLOUR_VARIABLES = ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "PYTHONIOENCODING", "CUDA_VISIBLE_DEVICES")
HEALTHY, HUNG, NOUVEAU, DEGRADED = "desktop-rtx3090-healthy", "driver-hung", "seed-gt740m-nouveau", "h200-nvidia-smi-absent"


class Result(NamedTuple):
    code: int
    out: str
    err: str


def host(name: str) -> str:
    """The path of a recorded host."""
    return str(HOSTS / name)


def environment(changes: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's variables without those that change the output, with these added."""
    kept = {name: value for name, value in os.environ.items() if name not in COLOUR_VARIABLES}
    return {**kept, "TERM": "xterm", **(changes or {})}


def run(*arguments: str, stdin: bytes = b"", variables: Mapping[str, str] | None = None, encoding: str = "utf-8") -> Result:
    """The command in this process, with streams that are no terminal."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding=encoding) for _ in range(2))
    given = io.TextIOWrapper(io.BytesIO(stdin))
    with (
        mock.patch.object(sys, "argv", ["cudadoctor", *arguments]),
        mock.patch.object(sys, "stdin", given),
        mock.patch.dict(os.environ, environment(variables), clear=True),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        code: Any = 0
        try:
            main()
        except SystemExit as stop:
            code = stop.code
    texts = []
    for stream in (out, err):
        stream.flush()
        texts.append(stream.buffer.getvalue().decode(encoding))  # type: ignore[attr-defined]
    return Result(0 if code is None else int(code), *texts)


def start(*arguments: str, variables: Mapping[str, str] | None = None, **streams: Any) -> subprocess.Popen[bytes]:
    """The command as a process of its own. One that only replays a recording judges in it."""
    argv = [sys.executable, *((DOCTOR,) if "--replay" in arguments else ("-m", "cudadoctor")), *arguments]
    return subprocess.Popen(argv, env={**environment(variables), "PYTHONPATH": str(ROOT)}, **{"cwd": ROOT, **streams})


def finished(*arguments: str, variables: Mapping[str, str] | None = None, **streams: Any) -> Result:
    """The same, when it has ended."""
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = start(*arguments, variables=variables, **{**pipes, **streams})
    out, err = process.communicate(timeout=120)
    return Result(process.returncode, (out or b"").decode("utf-8", "replace"), (err or b"").decode("utf-8", "replace"))


@functools.cache
def evidence_of(name: str) -> Evidence:
    """A recorded host; read once, for many look at it."""
    return recording.read(host(name))


def changed(name: str, changes: Mapping[str, Callable[[str], str]]) -> Evidence:
    """A host's evidence with the texts of these items changed; "*" is every other item."""
    evidence = evidence_of(name)

    def alter(item: Item) -> Item:
        function = changes.get(item.id, changes.get("*"))
        return item if function is None or item.stdout is None else msgspec.structs.replace(item, stdout=function(item.stdout))

    return msgspec.structs.replace(evidence, items=tuple(alter(item) for item in evidence.items))


def records(text: str) -> list[dict[str, Any]]:
    """A worker's lines."""
    return [msgspec.json.decode(line) for line in text.splitlines() if line.strip()]


def lines(entries: Sequence[Mapping[str, Any]]) -> str:
    return "".join(msgspec.json.encode(entry).decode() + "\n" for entry in entries)
