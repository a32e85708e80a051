"""The program that `record --script` prints: it runs on old Pythons with nothing installed and records what the doctor itself would."""

from __future__ import annotations

import ast
import functools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cudadoctor.installed import knowledge
from cudadoctor.judge.stages import judge
from cudadoctor.model.evidence import Evidence
from cudadoctor.sources import collect_template, collecting, recording
from cudadoctor.sources.probes import Probe

from .command_line import run as doctor
from .worker_runs import STUBS, driver_stubs, wait_until

OLD = (3, 6)
PYTHONS = sorted(Path.home().glob(".pyenv/versions/3.*/bin/python3"), key=lambda path: int(path.parts[-3].split(".")[1])) + [
    Path(found) for minor in range(6, 15) if (found := shutil.which(f"python3.{minor}", path="/usr/bin:/usr/local/bin"))
]
BARE = ("-S", "-E", "-s")  # nothing that is installed can be imported
LIMIT = 100  # seconds for a run, far above what any needs
on_linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the program records Linux")


# ---------------------------------------------------------------- the text
@pytest.fixture(scope="module")
def text() -> str:
    result = doctor("record", "--script")
    assert result.code == 0
    return result.out


@functools.cache
def embedded() -> list[tuple[str, str]]:
    return [(name, body) for name, body in (*collecting.modules().items(), *collecting.files().items()) if not name.endswith("/")]


def whole_program(text: str) -> list[tuple[str, str]]:
    return [("collect.py", text), *embedded()]


def test_python_3_6_reads_every_part(text: str) -> None:
    for name, body in whole_program(text):
        ast.parse(body, filename=name, feature_version=OLD)
        assert body.isascii(), name  # whatever encoding the terminal has into which it is pasted


# What ast.parse lets through although 3.6 has it not, and what only newer standard libraries have.
NEWER = re.compile(
    r"removeprefix|removesuffix|capture_output|missing_ok|dirs_exist_ok|cached_property|fromisoformat|time_ns|math\.prod|math\.dist"
    r"|shlex\.join|nullcontext|graphlib|zoneinfo|dataclass|importlib\.metadata|annotations\b.*__future__|__future__ import annotations"
)


TEMPLATE = collecting.older(Path(collecting.__file__).with_name("collect_template.py").read_text("utf-8"))
# Modules that came with 3.7 or later, whichever Python runs these tests.
LATER = frozenset(
    {
        "contextvars", "dataclasses", "importlib.resources", "importlib.metadata", "multiprocessing.shared_memory", "graphlib", "zoneinfo",
        "tomllib", "annotationlib", "compression", "concurrent.interpreters", "string.templatelib", "pathlib.types", "profiling",
    }
)  # fmt: skip
# Classes that take [...] from 3.9 on only, as a module's attribute; those of typing always did.
_SUBSCRIPTED = re.compile(
    r"(?:collections\.)?abc\.\w+|collections\.(?:deque|OrderedDict|defaultdict|Counter|ChainMap)|re\.(?:Pattern|Match)|os\.PathLike|queue\.\w+"
)


def test_nothing_of_newer_pythons_is_used(text: str) -> None:
    for name, body in whole_program(text):
        if name == "packages/pynvml.py":
            continue  # NVIDIA's own, which serves Python 2 as well
        for node in running(tree(body)):
            assert not newer_syntax(node, body), f"{name}:{getattr(node, 'lineno', 0)}"
        own = TEMPLATE if name == "collect.py" else body  # the other texts stand in it too, NVIDIA's among them
        assert not NEWER.search(own), (name, NEWER.search(own))


tree = functools.cache(ast.parse)


def written(node: ast.expr, body: str) -> str:
    """What stands there: ast.get_source_segment goes through the whole text for each."""
    lines = rows_of(body)[node.lineno - 1 : node.end_lineno]
    return "\n".join([*lines[:-1], lines[-1][: node.end_col_offset]])[node.col_offset :]


@functools.cache
def rows_of(body: str) -> list[str]:
    return body.split("\n")


def running(parent: ast.AST) -> Iterator[ast.AST]:
    """All that is there for more than type checkers."""
    for node in ast.iter_child_nodes(parent):
        if not (isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"):
            yield node
            yield from running(node)


def newer_syntax(node: ast.AST, body: str) -> bool:
    """Whether Python 3.6 would refuse it, or fail where it runs."""
    if isinstance(node, ast.JoinedStr):
        return bool(re.search(r"\{[^{}]*[\w)]=[}!:]", written(node, body)))  # f"{name=}"
    if isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple):
        return starred_and_bare(node.value, body)
    if isinstance(node, ast.Subscript):
        return newer_brackets(node.value, body)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("isinstance", "issubclass"):
        return any(isinstance(part, ast.BinOp) for part in ast.walk(node.args[-1]))  # int | str
    if isinstance(node, (ast.BinOp, ast.AugAssign)) and isinstance(node.op, ast.BitOr):
        sides = (node.left, node.right) if isinstance(node, ast.BinOp) else (node.value,)
        return any(isinstance(side, (ast.Dict, ast.DictComp)) for side in sides)
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return bool(LATER.intersection(imported(node)))
    return isinstance(node, ast.NamedExpr) or (isinstance(node, ast.arguments) and bool(node.posonlyargs))


def newer_brackets(value: ast.expr, body: str) -> bool:
    """`list[int]` as a value, not as an annotation; what comes from collections.abc is not taken from typing where others come along."""
    if isinstance(value, ast.Name):
        of_abc = re.search(rf"^\s*from collections\.abc import [^\n]*\b{value.id}\b", body, re.MULTILINE)
        return value.id in ("dict", "frozenset", "list", "set", "tuple", "type") or of_abc is not None
    return isinstance(value, ast.Attribute) and _SUBSCRIPTED.fullmatch(ast.unparse(value)) is not None


def imported(node: ast.Import | ast.ImportFrom) -> set[str]:
    """The modules that are named, and their packages: `from a import b` may import a.b."""
    names = [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        names = [node.module or "", *(f"{node.module}.{name}" for name in names)]
    return {".".join(name.split(".")[:count]) for name in names for count in range(1, name.count(".") + 2)}


@pytest.mark.parametrize(
    "body",
    [
        "(a := 1)", "def f(a, /): ...", "def f():\n    return *a, 1", "x = dict[str, int]", 'f"{name=}"', 'f"{a.b=!r}"',
        "isinstance(x, int | str)", "issubclass(x, (int | str, float))", "{} | {}", "a | {1: 2}", "a |= {}", "import tomllib",
        "import contextvars", "from importlib import resources", "import compression.zstd", "x = collections.abc.Callable[[int], str]",
        "from collections.abc import Callable, Hashable\nx = Callable[[int], str]", "x = re.Pattern[str]",
    ],
)  # fmt: skip
def test_newer_syntax_is_seen(body: str) -> None:
    assert any(newer_syntax(node, body) for node in running(ast.parse(body)))


@pytest.mark.parametrize(
    "body",
    ["isinstance(x, (int, str))", "a | b", "{1} | {2}", "import importlib.util", "x = typing.Callable[[int], str]", "x = os.environ['A']"],
)
def test_what_python_3_6_knows_is_let_through(body: str) -> None:
    assert not any(newer_syntax(node, body) for node in running(ast.parse(body)))


def starred_and_bare(value: ast.Tuple, body: str) -> bool:
    """`return *a, b` needs Python 3.8, `return (*a, b)` does not."""
    return any(isinstance(part, ast.Starred) for part in value.elts) and not written(value, body).startswith("(")


def test_only_the_standard_library_is_imported(text: str) -> None:
    ours = {"cudadoctor", *collecting.modules()}
    # Frameworks, Numba and psutil are looked at where they are installed, each behind a guard.
    allowed = {"msgspec", "cudadoctor", "cudadoctor_lines", "psutil", "pynvml", "numba", "numpy", "numba_cuda", "cuda", "llvmlite"}
    for name, body in whole_program(text):
        for node in ast.walk(tree(body)):
            if isinstance(node, ast.Import):
                found = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                found = [node.module or ""]
            else:
                continue
            for module in found:
                top = module.partition(".")[0]
                assert (top in sys.stdlib_module_names and not LATER & imported(node)) or top in allowed, (name, module)
                if top in ("cudadoctor", "msgspec"):
                    assert module in ours, (name, module)  # it goes along
                if top in allowed - {"cudadoctor", "msgspec"}:
                    assert name.startswith("cudadoctor/workers/") or (name, top) == ("cudadoctor.sources.spawning", "psutil"), (
                        name,
                        module,
                    )


def test_annotations_become_texts_and_nothing_else_changes() -> None:
    before = (
        "from __future__ import annotations\n"
        "from collections.abc import Callable\n"
        "def f(a: dict[str, 'x'], b: int | None = 3) -> list[\n    str]:  # kept\n"
        "    c: tuple[int, ...] = ()  # kept, with an accent: \u00e9\n"
        "    return g(lambda d: d)\n"
    )
    assert collecting.older(before) == (
        "\n"
        "from typing import Callable\n"
        'def f(a: "dict[str, \'x\']", b: "int | None" = 3) -> "list[str]":  # kept\n'
        '    c: "tuple[int, ...]" = ()  # kept, with an accent: \u00e9\n'
        "    return g(lambda d: d)\n"
    )


@pytest.mark.parametrize(
    "body", ["a", "it's '''quoted'''", "ends with '", "back\\slash", "\\'", "''''", "a''", "ends with \\", "'''", "\\'''", "line\n\t'''\n"]
)
def test_a_text_is_embedded_as_it_is(body: str) -> None:
    assert ast.literal_eval(collecting.quoted(body)) == body


def test_every_part_that_a_worker_loads_goes_along() -> None:
    paths = dict(embedded())
    for path, body in paths.items():
        for name in re.findall(r'sibling\("(\w+)"', body):
            assert f"cudadoctor/workers/{name}.py" in paths or "windows" in name, (path, name)


@pytest.mark.parametrize(
    "given",
    [("-o", "x"), ("--quick",), ("--frameworks",), ("--no-redact",), ("--python", "/x"), ("--timeout", "60"), ("--quick", "--no-redact")],
)
def test_the_options_of_the_program_are_not_lost_where_it_is_printed(given: tuple[str, ...]) -> None:
    refused = doctor("record", "--script", *given)
    assert (refused.code, refused.out) == (2, "")
    names = ", ".join(word for word in given if word.startswith("-"))
    assert f"--script prints the program; {names} " in refused.err
    assert "of the program itself" in refused.err


def test_help_names_options_of_its_own() -> None:
    """Also in what it says of another option."""
    for command in ("check", "fix", "smoke", "bench", "record", "explain", "compare", "run"):
        page = re.sub(r"`[^`]*`", "", doctor(command, "--help").out).partition("Examples:")[0]  # other commands stand there too
        options = set(re.findall(r"^  (?:-\w, )?(--[\w-]+)", page, re.MULTILINE))
        assert options
        assert set(re.findall(r"(?<![\w-])--[a-z][\w-]+", page)) <= options, command


def test_a_recording_needs_a_place() -> None:
    missing = doctor("record")
    assert missing.code == 2
    assert "-o names the recording" in missing.err


# ---------------------------------------------------------------- runs
@pytest.fixture(scope="module")
def program(text: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("script") / "collect.py"
    path.write_text(text)
    return path


def variables(work: Path, **changes: str) -> dict[str, str]:
    """This process's variables, with a folder for temporary files that can be looked into afterwards."""
    (work / "tmp").mkdir(exist_ok=True)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "CUDA", "NUMBA", "LD_", "PYENV"))}
    return {**kept, "TMPDIR": str(work / "tmp"), **changes}


def start(program: Path, work: Path, *arguments: str, python: str = sys.executable, **changes: str) -> subprocess.Popen[str]:
    argv = [python, *BARE, str(program), *arguments]
    return subprocess.Popen(argv, cwd=work, env=variables(work, **changes), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def collect(program: Path, work: Path, *arguments: str, python: str = sys.executable, **changes: str) -> subprocess.CompletedProcess[str]:
    running = start(program, work, *arguments, python=python, **changes)
    out, err = running.communicate(timeout=LIMIT)
    assert not list((work / "tmp").iterdir())  # whatever happened
    return subprocess.CompletedProcess(running.args, running.returncode, out, err)


def by_doctor(work: Path, *arguments: str, **changes: str) -> Evidence:
    argv = [sys.executable, "-m", "cudadoctor", "record", "-o", str(work / "by-doctor.tar.gz"), *arguments]
    environment = {**variables(work, **changes), "PYTHONPATH": str(STUBS.parent.parent)}
    done = subprocess.run(argv, cwd=work, env=environment, capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stderr
    return recording.read(str(work / "by-doctor.tar.gz"))


def judged(evidence: Evidence) -> tuple[str, str | None, list[tuple[str, str]]]:
    report = judge(evidence, knowledge())
    root = report.diagnosis.root
    return report.verdict, root.cause if root is not None else None, [(row.id, row.status) for row in report.checks]


def unsalted(path: str | None) -> str:
    """The pseudonyms of two recordings differ."""
    return re.sub(r"-[0-9a-f]{6}(?=/)", "", path or "")


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    return by_doctor(tmp_path_factory.mktemp("ours"), "--python", sys.executable)


@on_linux
@pytest.mark.parametrize(
    "python", [sys.executable, *(pytest.param(str(path), marks=() if path == PYTHONS[0] else pytest.mark.long) for path in PYTHONS)]
)
def test_it_records_what_the_doctor_records(python: str, program: Path, ours: Evidence, tmp_path: Path) -> None:
    if subprocess.run([python, "-c", ""], capture_output=True, timeout=LIMIT).returncode:
        pytest.skip("this Python does not start")
    target = tmp_path / "recording.tar.gz"
    done = collect(program, tmp_path, "-o", str(target), "--python", sys.executable, python=python)
    assert (done.returncode, done.stderr) == (0, "")
    theirs = recording.read(str(target))
    assert f"{len(theirs.items)} pieces of evidence written to {target}, redacted\n" in done.stdout
    assert f"cudadoctor check --replay {target}\n" in done.stdout
    assert theirs.redacted
    assert [(item.id, item.status) for item in theirs.items] == [(item.id, item.status) for item in ours.items]
    assert (theirs.platform, theirs.python_why, theirs.quick) == (ours.platform, ours.python_why, ours.quick)
    assert unsalted(theirs.python) == unsalted(ours.python)
    assert judged(theirs) == judged(ours)


@on_linux
@pytest.mark.parametrize("python", [sys.executable, *(pytest.param(str(path), marks=pytest.mark.long) for path in PYTHONS)])
def test_workers_answer_in_the_collecting_python(python: str, program: Path, tmp_path: Path) -> None:
    """The examined Python may be as old as the collecting one; the doctor's own workers may not all be read by it."""
    if subprocess.run([python, "-c", "import ctypes"], capture_output=True, timeout=LIMIT).returncode:
        pytest.skip("this Python does not start")
    collect(program, tmp_path, "-o", "recording", "--python", python, python=python)
    evidence = recording.read(str(tmp_path / "recording"))
    for name in ("python-env", "ladder", "nvml", "processes"):
        item = evidence.get(name)
        assert item is not None
        assert (item.status, item.stderr) == ("ok", None), item
        lines = (item.stdout or "").splitlines()
        assert lines, name
        assert all(json.loads(line)["event"] != "error" for line in lines)


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder with a driver's libraries that answer as the environment says."""
    return str(driver_stubs(tmp_path_factory.mktemp("driver")))


def events(evidence: Evidence, name: str) -> list[dict[str, Any]]:
    """A worker's lines without what differs from run to run."""
    item = evidence.get(name)
    assert item is not None
    assert item.status == "ok", item
    text = re.sub(r'[^"\s]*/cudadoctor/workers/', "", item.stdout or "")  # where the workers lie stands in tracebacks
    lines = [json.loads(line) for line in text.splitlines()]
    return [
        {key: value for key, value in line.items() if not key.startswith(("seconds", "free", "used"))}
        for line in lines
        if line["event"] != "benchmark"
    ]


@on_linux
@pytest.mark.parametrize(
    "changes",
    [
        {"FAKE_CUDA_INIT": "999"},
        *(pytest.param(one, marks=pytest.mark.long) for one in ({}, {"FAKE_CUDA_DEVICES": "0"}, {"FAKE_CUDA_FAIL": "cuCtxCreate_v2"})),
    ],
)
def test_driver_and_nvml_are_asked_alike(changes: dict[str, str], driver: str, program: Path, tmp_path: Path) -> None:
    arguments = ("--python", sys.executable, "--no-redact")
    done = collect(program, tmp_path, "-o", "recording", *arguments, LD_LIBRARY_PATH=driver, **changes)
    assert done.returncode == 0, done.stderr
    theirs, ours = recording.read(str(tmp_path / "recording")), by_doctor(tmp_path, *arguments, LD_LIBRARY_PATH=driver, **changes)
    assert not theirs.redacted
    for name in ("ladder", "nvml"):
        assert events(theirs, name) == events(ours, name)
    first = events(theirs, "nvml")[0]
    assert first["code"] == 0
    if collecting.files().get("packages/pynvml.py"):
        assert first["provider"].startswith("nvidia-ml-py ")
        assert first["provider_error"] is None
    assert judged(theirs)[:2] == judged(ours)[:2]


@on_linux
def test_it_names_nobody(program: Path, tmp_path: Path) -> None:
    secrets = {
        "LOGNAME": "plantedname",
        "USER": "plantedname",
        "HOSTNAME": "plantedhost",
        "HOME": "/home/plantedname",
        "API_TOKEN": "planted-token",
    }
    paths = {"CUDA_HOME": "/home/plantedname/cuda"}
    target = tmp_path / "recording.tar.gz"
    assert collect(program, tmp_path, "-o", str(target), "--quick", **secrets, **paths).returncode == 0
    with tarfile.open(target) as archive:
        for member in archive:
            stream = archive.extractfile(member)
            assert stream is not None
            assert b"planted" not in stream.read(), member.name
    environment = recording.read(str(target)).get("environment")
    assert environment is not None
    assert "CUDA_HOME=/home/user-" in (environment.stdout or "")


def hung_program(folder: Path) -> tuple[str, Path]:
    """A PATH on which nvidia-smi sleeps, and the file that holds its number."""
    folder.mkdir()
    noted = folder / "pid"
    program = folder / "nvidia-smi"
    program.write_text(f"#!/bin/sh\necho $$ > {noted}.new\nmv {noted}.new {noted}\nexec sleep 600\n")
    program.chmod(0o755)
    return f"{folder}:{os.environ['PATH']}", noted


def gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


@on_linux
def test_a_hung_probe_ends_at_its_limit(program: Path, tmp_path: Path) -> None:
    path, noted = hung_program(tmp_path / "bin")
    started = time.monotonic()
    assert collect(program, tmp_path, "-o", "recording", "--quick", PATH=path).returncode == 0
    assert time.monotonic() - started < 20
    item = recording.read(str(tmp_path / "recording")).get("nvidia-smi")
    assert item is not None
    assert item.status == "timed-out"
    # 3 s behind NVML's answer, or what is left of 4 s
    assert re.fullmatch(r"no answer within (?:3|[12]\.\d) s", item.why or ""), item.why
    assert gone(int(noted.read_text()))


@on_linux
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_leaves_nothing_behind(number: signal.Signals, code: int, program: Path, tmp_path: Path) -> None:
    path, noted = hung_program(tmp_path / "bin")
    running = start(program, tmp_path, PATH=path)
    wait_until(noted.exists)
    assert list((tmp_path / "tmp").iterdir())
    running.send_signal(number)
    running.communicate(timeout=LIMIT)
    assert running.returncode == code
    wait_until(lambda: gone(int(noted.read_text())))
    assert not list((tmp_path / "tmp").iterdir())
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["bin", "tmp"]


@on_linux
def test_nothing_is_overwritten_and_that_is_told_first(program: Path, tmp_path: Path) -> None:
    (tmp_path / "a.tar.gz").write_text("mine")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").write_text("mine")
    (tmp_path / "b.tar.gz.partial").symlink_to(tmp_path / "folder" / "file")
    for target in ("a.tar.gz", "folder"):
        done = collect(program, tmp_path, "-o", target, "--quick")
        assert done.returncode == 2
        assert "is there already" in done.stderr
    assert collect(program, tmp_path, "-o", "b.tar.gz", "--quick").returncode == 0
    assert (tmp_path / "a.tar.gz").read_text() == (tmp_path / "folder" / "file").read_text() == "mine"


@on_linux
@pytest.mark.parametrize("target", ["/proc/recording.tar.gz", "/proc/recording", "file/recording.tar.gz", "none/recording.tar.gz"])
def test_a_target_that_cannot_be_written_is_told_first(target: str, program: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = collect(program, tmp_path, "-o", target)
    assert done.returncode == 2
    assert re.match(r"Error: the recording could not be written: \S+( is no folder|: [A-Z])", done.stderr)
    assert done.stderr.count("\n") == 1


@on_linux
@pytest.mark.parametrize("path", [None, ":/nonexistent"])
def test_it_imports_nothing_of_the_working_directory(path: str | None, program: Path, tmp_path: Path) -> None:
    for name in ("argparse", "json", "tempfile", "numba", "psutil", "pynvml", "cudadoctor", "msgspec"):
        (tmp_path / f"{name}.py").write_text(f"import sys; print({name!r}, sys.argv, file=open('was-run', 'a'))\n")
    shutil.copy(program, tmp_path / "collect.py")
    # An empty entry of PYTHONPATH is the working directory; the examined Python has it as its user has it, without site no earlier.
    changes = {"PYTHONPATH": path} if path is not None else {}
    argv = [sys.executable, "-S", "collect.py", "-o", "recording", "--quick"]
    done = subprocess.run(argv, cwd=tmp_path, env=variables(tmp_path, **changes), capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stderr
    said = (tmp_path / "was-run").read_text() if path is not None and (tmp_path / "was-run").exists() else ""
    assert path is not None or not (tmp_path / "was-run").exists()
    assert not re.search(r"collect\.py|nvml\.py|processes\.py", said)
    assert not list(tmp_path.rglob("__pycache__"))


@on_linux
def test_it_runs_where_the_temporary_folder_cannot_be_used(program: Path, tmp_path: Path) -> None:
    done = collect(program, tmp_path, "-o", "recording", "--quick", TMPDIR="/proc/none")
    assert done.returncode == 0, done.stderr


@on_linux
def test_questions_of_extensions_go_along(tmp_path: Path) -> None:
    asked = Probe(id="example-file", wave="look", kind="command", what=("echo", "it's"), limit=3)
    (tmp_path / "collect.py").write_text(collecting.script([asked]))
    assert collect(tmp_path / "collect.py", tmp_path, "-o", "recording", "--quick").returncode == 0
    item = recording.read(str(tmp_path / "recording")).get("example-file")
    assert item is not None
    assert (item.status, item.what, item.stdout) == ("ok", ("echo", "it's"), "it's\n")


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root can be tricked")
def test_workers_lie_in_no_folder_of_another_user(program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "other"
    other.mkdir()
    os.chown(other, 1000, 1000)
    monkeypatch.setattr("tempfile.tempdir", str(other))
    assert str(other) not in collect_template.folders_for_work(str(tmp_path / "recording"))
    assert collect_template.folders_for_work(str(other / "recording")) == ["/dev/shm"]
    run = collect(program, tmp_path, "--quick", "-o", str(tmp_path / "recording"), TMPDIR=str(other))
    assert run.returncode == 0, run.stderr
    os.chown(other, 0, 0)
    other.chmod(0o1777)
    assert collect_template.folders_for_work(str(tmp_path / "recording"))[0] == str(other)
