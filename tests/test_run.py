"""`cudadoctor run`: the program runs as it would alone, and what is said of its GPUs is what NVML's stand-in said."""

from __future__ import annotations

import json
import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from cudadoctor.commands import runner
from cudadoctor.judge import machines as nodes
from cudadoctor.knowledge.load import load
from cudadoctor.model.evidence import Evidence
from cudadoctor.model.judgement import Question
from cudadoctor.model.use import Ended, Outcome, Reason, Watched
from cudadoctor.report import run_text
from cudadoctor.report.page import Style
from cudadoctor.sources import passing, pasted, use_watch
from cudadoctor.within.judging import answered
from tests.command_line import ROOT, environment, evidence_of
from tests.worker_runs import load as worker
from tests.worker_runs import wait_until

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals and terminals of POSIX")
LIMIT = 60  # seconds, far above what any needs
US = (sys.executable, "-m", "cudadoctor", "run", "--quiet")


def variables(**more: str) -> dict[str, str]:
    return {**environment(more), "PYTHONPATH": str(ROOT)}


def alone_and_with(program: Sequence[str], **more: Any) -> tuple[Any, Any]:
    """The program by itself, and under the doctor, which says nothing of its own."""
    found = []
    for before in ((), (*US, "--")):
        process = subprocess.run([*before, *program], env=variables(), timeout=LIMIT, check=False, **more)
        found.append(process)
    return found[0], found[1]


def python(code: str) -> tuple[str, ...]:
    return sys.executable, "-c", code


# ---------------------------------------------------------------- output, exit code, input
BYTES = "import os\nfor n in range(300):\n os.write(1, bytes(range(256)) * 40)\n os.write(2, bytes(reversed(range(256))) * 40)\n"


def test_every_byte_of_both_streams_arrives() -> None:
    alone, under = alone_and_with(python(BYTES), capture_output=True)
    assert (under.stdout, under.stderr) == (alone.stdout, alone.stderr)
    assert len(under.stderr) == 300 * 40 * 256


def test_the_order_stays_where_both_streams_are_one() -> None:
    code = "import os\nfor n in range(2000):\n os.write(1 + n % 2, b'%d\\n' % n)"
    alone, under = alone_and_with(python(code), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert under.stdout == alone.stdout == b"".join(b"%d\n" % n for n in range(2000))


def test_a_program_whose_name_begins_like_pythons_is_started_once(tmp_path: Path) -> None:
    job = tmp_path / "python_job.sh"
    job.write_text(f"#!/bin/sh\necho started >> {tmp_path}/times\n")
    job.chmod(0o755)
    subprocess.run([*US[:-1], "--", str(job)], env=variables(), timeout=LIMIT, check=False, capture_output=True)
    assert (tmp_path / "times").read_text() == "started\n"


@pytest.mark.parametrize(
    ("name", "is_one"),
    [("python", True), ("python3.12", True), ("/x/pypy3", True), ("python3.13t", True), ("Python.exe", True), ("pythonw.exe", True)]
    + [(name, False) for name in ("python_job.sh", "python3-config", "pypy-train", "python.sh", "mypython")],
)
def test_what_is_an_interpreter_by_its_name(name: str, is_one: bool) -> None:
    assert runner._is_python(name) is is_one


def test_behind_a_shim_the_interpreter_is_examined_that_it_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shim, real = tmp_path / "shims" / "python3", tmp_path / "versions" / "3.12.1" / "bin" / "python3"
    for file, text in ((shim, "#!/usr/bin/env bash\nexec pyenv exec python3\n"), (real, "")):
        file.parent.mkdir(parents=True)
        file.write_text(text)
        file.chmod(0o755)
    monkeypatch.setenv("PATH", str(shim.parent))
    monkeypatch.setenv("PYENV_VERSION", "3.12.1")
    assert runner.interpreter(["python3", "job.py"]) == str(real)
    monkeypatch.setenv("PYENV_VERSION", "3.9.9")
    monkeypatch.chdir(tmp_path)
    assert runner.interpreter(["python3", "job.py"]) is None


def test_a_pipe_in_the_place_of_the_program_holds_nobody_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "job", 0o755)
    assert (
        subprocess.run([*US, "--", str(tmp_path / "job")], env=variables(), timeout=LIMIT, check=False, capture_output=True).returncode
        == 126
    )


def test_the_file_of_the_outcome_commands_no_ci_system(tmp_path: Path) -> None:
    said = "import sys; sys.stderr.write('##vso[task.setvariable variable=x]1\\nRuntimeError: CUDA error: unspecified launch failure\\n'); sys.exit(1)"
    output = tmp_path / "outcome.json"
    subprocess.run(
        [*US[:-1], "--output", str(output), "--", *python(said)], env=variables(), timeout=LIMIT, check=False, capture_output=True
    )
    assert "vso[" in output.read_text("utf-8")
    assert "##vso[" not in output.read_text("utf-8")


@pytest.mark.parametrize("limit", ["ulimit -n 10", "ulimit -n 16", "ulimit -n 24"])
def test_a_limit_that_the_doctor_meets_leaves_the_program_its_exit_code(limit: str) -> None:
    wrapped = ["sh", "-c", f'{limit}; exec "$@"', "sh", *US, "--", "sh", "-c", "exit 7"]
    assert subprocess.run(wrapped, env=variables(), timeout=LIMIT, check=False, capture_output=True).returncode == 7


def test_without_a_thread_for_signals_the_program_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    assert passing.run(python("raise SystemExit(7)"), lambda _: None).code == 7


def test_who_ignores_the_end_of_children_learns_the_exit_code_all_the_same() -> None:
    ignoring = python("import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])")
    under = subprocess.run([*ignoring, *US, "--", "sh", "-c", "exit 7"], env=variables(), timeout=LIMIT, check=False)
    assert under.returncode == 7


def test_the_watch_of_gpus_leaves_no_child() -> None:
    """Whatever NVML does in it: the supervisor of all children has this one too."""
    watch = use_watch.UseWatch(os.getpid())
    assert watch.child.process is not None
    assert sys.platform != "linux" or type(watch.child.process).__name__ == "Kept"
    watch.ended(1.0)


def test_input_is_the_programs() -> None:
    alone, under = alone_and_with(python("import sys; sys.stdout.write(sys.stdin.read()[::-1])"), input=b"abc", capture_output=True)
    assert under.stdout == alone.stdout == b"cba"


@pytest.mark.parametrize("code", [2, 255, *(pytest.param(code, marks=pytest.mark.long) for code in (0, 1, 77))])
def test_the_exit_code_is_the_programs(code: int) -> None:
    under = subprocess.run([*US, "--", *python(f"raise SystemExit({code})")], env=variables(), timeout=LIMIT, check=False)
    assert under.returncode == code


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM, pytest.param(signal.SIGABRT, marks=pytest.mark.long)])
def test_an_end_by_a_signal_is_seen_as_such(number: signal.Signals) -> None:
    killed = python(f"import os; os.kill(os.getpid(), {int(number)})")
    under = subprocess.run([*US, "--", *killed], env=variables(), timeout=LIMIT, check=False, capture_output=True)
    assert under.returncode == -number


def test_arguments_are_the_programs_from_the_first_word_on() -> None:
    say = python("import sys; print(sys.argv[1:])")
    _, under = alone_and_with((*say, "--quiet", "--", "-x", "--help"), capture_output=True)
    assert under.stdout == b"['--quiet', '--', '-x', '--help']\n"


def test_open_files_are_handed_on() -> None:
    mine, theirs = os.pipe()
    os.set_inheritable(theirs, True)
    subprocess.run([*US, "--", *python(f"import os; os.write({theirs}, b'here')")], env=variables(), pass_fds=(theirs,), check=True)
    os.close(theirs)
    with os.fdopen(mine, "rb") as stream:
        assert stream.read() == b"here"


def test_signals_that_the_caller_ignores_stay_ignored_and_the_others_do_not() -> None:
    code = "import signal; print([signal.getsignal(n) for n in (1, 13, 15)] == [signal.SIG_IGN, signal.SIG_IGN, signal.SIG_DFL])"
    code += "; print(signal.pthread_sigmask(signal.SIG_BLOCK, ()))"
    ignoring = ("sh", "-c", 'trap "" HUP; exec "$@"', "sh")
    done = subprocess.run([*ignoring, *US, "--", *python(code)], env=variables(), capture_output=True, timeout=LIMIT, check=False)
    assert done.stdout == b"True\nset()\n"


def test_there_is_no_such_program() -> None:
    done = subprocess.run([*US, "--", "/no/such/program"], env=variables(), capture_output=True, timeout=LIMIT, check=False)
    assert (done.returncode, done.stderr) == (127, b"cudadoctor: /no/such/program: command not found\n")
    done = subprocess.run([*US, "--", str(ROOT)], env=variables(), capture_output=True, timeout=LIMIT, check=False)
    assert done.returncode == 126


def test_a_script_without_a_first_line_runs_as_from_a_shell(tmp_path: Path) -> None:
    job, other = tmp_path / "job", tmp_path / "other"
    job.write_text('echo "it ran with $1"\nexit 3\n')
    other.write_bytes(b"\0\0 a program for another machine")
    for file in (job, other):
        file.chmod(0o755)
    done = subprocess.run([*US, "--", str(job), "a b"], env=variables(), capture_output=True, timeout=LIMIT, check=False)
    assert (done.returncode, done.stdout) == (3, b"it ran with a b\n")
    done = subprocess.run([*US, "--", str(other)], env=variables(), capture_output=True, timeout=LIMIT, check=False)
    assert done.returncode == 126
    assert b"Exec format error" in done.stderr


def test_a_reader_that_goes_away_ends_the_program_as_it_would_alone() -> None:
    endless = "import os\nwhile True:\n os.write(2, b'x' * 4096)"
    process = subprocess.Popen([*US, "--", *python(endless)], env=variables(), stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
    assert process.stderr is not None
    assert process.stderr.read(10) == b"x" * 10
    process.stderr.close()
    assert process.wait(LIMIT) == 1  # Python's BrokenPipeError


def test_a_child_that_goes_on_keeps_its_stderr(tmp_path: Path) -> None:
    """The program has ended; what it left behind still writes where it always did, and nobody waits for it."""
    go_on = f"(while [ ! -e {tmp_path}/go ]; do sleep 0.05; done; echo late >&2; touch {tmp_path}/done) & echo early >&2"
    out = tmp_path / "err"
    with out.open("wb") as stream:
        done = subprocess.run([*US, "--", "sh", "-c", go_on], env=variables(), stderr=stream, timeout=LIMIT, check=False)
    assert done.returncode == 0
    assert out.read_bytes() == b"early\n"
    (tmp_path / "go").touch()
    wait_until((tmp_path / "done").exists)
    wait_until(lambda: out.read_bytes() == b"early\nlate\n")


# ---------------------------------------------------------------- signals
WAITS = """
import os, signal, sys, time
def told(number, frame):
    os.write(1, b"got %d\\n" % number)
    if number != signal.SIGUSR1: raise SystemExit(40 + number)
for name in "INT TERM USR1 HUP ABRT XCPU ALRM PROF".split(): signal.signal(getattr(signal, "SIG" + name), told)
signal.signal(signal.SIGRTMIN + 3, told)
os.write(1, b"ready\\n")
while True: time.sleep(0.05)
"""


@pytest.mark.parametrize("number", [*["INT", "TERM", "HUP", "ABRT", "XCPU", "ALRM", "PROF"], "RTMIN"])
def test_a_signal_to_the_doctor_reaches_the_program_once(number: str) -> None:
    process = subprocess.Popen([*US, "--", *python(WAITS)], env=variables(), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(signal.SIGUSR1)
    assert process.stdout.readline() == b"got %d\n" % signal.SIGUSR1
    sent = getattr(signal, f"SIG{number}") + (3 if number == "RTMIN" else 0)
    process.send_signal(sent)
    rest, errors = process.communicate(timeout=LIMIT)
    assert (rest, errors, process.returncode) == (b"got %d\n" % sent, b"", 40 + sent)


class Terminal:
    """A session with a terminal of its own, in which a command runs."""

    def __init__(self, command: Sequence[str], **more: str) -> None:
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execvpe(command[0], list(command), variables(**more))
        self.text = b""

    def read_until(self, words: bytes) -> bytes:
        end = time.monotonic() + LIMIT
        while words not in self.text and time.monotonic() < end:
            if select.select([self.fd], [], [], 0.1)[0]:
                try:
                    chunk = os.read(self.fd, 65536)
                except OSError:
                    break
                self.text += chunk
        assert words in self.text, self.text
        return self.text

    def code(self) -> int:
        try:
            while os.read(self.fd, 65536):
                pass
        except OSError:
            pass
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def test_ctrl_c_reaches_the_program_once() -> None:
    terminal = Terminal([*US, "--", *python(WAITS.replace("raise SystemExit(40 + number)", "time.sleep(1); raise SystemExit(42)"))])
    terminal.read_until(b"ready")
    os.write(terminal.fd, b"\x03")
    text = terminal.read_until(b"got 2")
    assert terminal.code() == 42
    assert text.count(b"got") == 1


@pytest.mark.parametrize(("origin", "sent"), [(passing._FROM_KERNEL, []), (0, [signal.SIGINT])])
def test_what_the_terminal_sent_is_not_sent_twice(origin: int, sent: list[int]) -> None:
    """The kernel gave Ctrl-C to the whole foreground group; a signal of a process came to the doctor alone."""
    got: list[int] = []
    signals = passing._Signals(SimpleNamespace(send_signal=got.append), -1, os.pipe())  # type: ignore[arg-type]
    signals._pass_on(SimpleNamespace(si_signo=signal.SIGINT, si_code=origin))
    assert (got, signals.asked) == (sent, True)
    os.close(signals.wake)
    os.close(signals._waker)


def test_a_terminal_stays_one_and_its_lines_are_unchanged() -> None:
    code = (
        "import os, sys; print([os.isatty(n) for n in (0, 1, 2)], os.get_terminal_size(2), flush=True); sys.stderr.write('a\\nb\\r\\nend')"
    )
    texts = []
    for before in ((), (*US, "--")):
        terminal = Terminal(["sh", "-c", 'stty rows 33 cols 77; exec "$@"', "sh", *before, *python(code)])
        texts.append(terminal.read_until(b"end"))
        assert terminal.code() == 0
    assert texts[0] == texts[1]
    assert b"[True, True, True] os.terminal_size(columns=77, lines=33)" in texts[0]


def test_ctrl_z_stops_both_and_both_go_on() -> None:
    terminal = Terminal(["sh", "-mc", f"{' '.join(US)} -- sh -c 'echo ready; sleep 1.5; echo end; exit 7'; echo stopped; fg; echo code $?"])
    terminal.read_until(b"ready")
    os.write(terminal.fd, b"\x1a")
    terminal.read_until(b"code 7")
    assert terminal.text.index(b"stopped") < terminal.text.index(b"end\r\n")
    terminal.code()


# ---------------------------------------------------------------- which GPUs were used
@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> str:
    if shutil.which("gcc") is None:
        pytest.skip("needs gcc")
    folder = tmp_path_factory.mktemp("nvml")
    source = str(ROOT / "tests" / "stubs" / "fakenvml.c")
    flags = ["-shared", "-fPIC", "-Wl,-soname,libnvidia-ml.so.1", "-o", str(folder / "libnvidia-ml.so.1")]
    subprocess.run(["gcc", *flags, source], check=True)
    return str(folder)


# A state of the GPUs lasts until the watch has read it several times, however busy the machine is.
USES = """
import os, sys, time
path = os.environ["NVIDIA_FAKE_USE"]
def looks():
    return os.path.getsize(path + ".looks") if os.path.exists(path + ".looks") else 0
for line in sys.argv[1:]:
    with open(path + ".new", "w") as file: file.write(line.replace("ME", str(os.getpid())).replace(";", "\\n") + "\\n")
    os.replace(path + ".new", path)
    enough, end = looks() + 12, time.monotonic() + 40
    while looks() < enough and time.monotonic() < end: time.sleep(0.05)
"""
NOBODY = "0 0 0"  # the file's line where no process computes


def used(library: str, tmp_path: Path, program: Sequence[str], *options: str, **more: str) -> tuple[dict[str, Any], str, int]:
    """The JSON, what is said, and the exit code of a program under the stand-in for NVML."""
    target = tmp_path / "outcome.json"
    settings = variables(LD_LIBRARY_PATH=library, NVIDIA_FAKE_USE=str(tmp_path / "use"), **more)
    argv = [sys.executable, "-m", "cudadoctor", "run", "--output", str(target), *options, "--", *program]
    done = subprocess.run(argv, env=settings, capture_output=True, text=True, timeout=LIMIT, check=False)
    return json.loads(target.read_text("utf-8")), done.stderr, done.returncode


def test_use_is_told_with_its_peak_and_its_utilisation(library: str, tmp_path: Path) -> None:
    program = (*python(USES), "1 ME 512", "1 ME 3072", "1 ME 1024")
    outcome, said, code = used(library, tmp_path, program, "--require-gpu", FAKE_NVML_GPUS="2", FAKE_NVML_BUSY="70")
    assert (code, outcome["used"]) == (0, "yes")
    (gpu,) = outcome["gpus"]
    assert (gpu["index"], gpu["name"], gpu["peak_bytes"], gpu["basis"]) == (1, "NVIDIA GeForce RTX 3090", 3072 << 20, "process")
    assert (gpu["mean_percent"], gpu["peak_percent"], gpu["others"]) == (70.0, 70, 0)
    assert set(gpu["course"]) <= {70, None}
    assert "the program used a GPU for" in said
    assert "peak memory 3.0 GiB of 24.0 GiB; busy 70 % on average" in " ".join(said.split())


def test_a_childs_use_counts_and_a_strangers_does_not(library: str, tmp_path: Path) -> None:
    script = tmp_path / "uses.py"
    script.write_text(USES, "utf-8")
    lines = f"0 ME 256;0 {os.getpid()} 9000"
    outcome, _, _ = used(library, tmp_path, ("sh", "-c", f"sh -c '{sys.executable} {script} \"{lines}\"; true'; true"))
    (gpu,) = outcome["gpus"]
    assert (gpu["peak_bytes"], gpu["others"]) == (256 << 20, 1)
    stranger, said, code = used(library, tmp_path, (*python(USES), f"0 {os.getpid()} 9000"), "--require-gpu")
    assert (stranger["used"], code) == ("no", 1)
    assert "cudadoctor: the program never used a GPU" in said


def test_require_gpu_turns_nothing_but_a_zero(library: str, tmp_path: Path) -> None:
    for own, theirs in ((0, 1), (5, 5)):
        outcome, _, code = used(library, tmp_path, (*python(f"{USES}\nraise SystemExit({own})"), NOBODY), "--require-gpu")
        assert (outcome["used"], outcome["code"], outcome["exit_code"], code) == ("no", own, theirs, theirs)
    assert used(library, tmp_path, python("pass"))[2] == 0


def test_memory_that_grows_stands_for_processes_that_are_not_shown() -> None:
    """In another PID namespace NVML names nobody: what grew while the program held the driver's compute device is its own."""
    gpu_use = worker("gpu_use")
    emitted: list[dict[str, Any]] = []
    gpu_use.emit = lambda event, **fields: emitted.append({"event": event, **fields})

    class Nobody:
        """NVML without processes; 1 GiB at first, 3 GiB later."""

        bytes_now, handle = 1 << 30, None

        def processes(self, query: str) -> list[Any]:
            return []

        def ask(self, kind: Any, function: str, *_: Any) -> Any:
            return kind(used=self.bytes_now, total=8 << 30) if function == "nvmlDeviceGetMemoryInfo" else None

        def percent(self) -> None:
            return None

    watch = Nobody()
    gpu, family = gpu_use.Gpu(0, watch), gpu_use.Family(os.getpid())
    gpu.look(family, {"/dev/nvidia-uvm"}, 0.1)
    assert gpu.basis is None, "nothing grew yet"
    watch.bytes_now = 3 << 30
    gpu.look(family, set(), 0.2)
    assert gpu.basis is None, "the program does not hold the driver"
    gpu.look(family, {"/dev/nvidia-uvm"}, 0.3)
    assert (gpu.basis, gpu.peak) == ("growth", 2 << 30)
    assert [entry["event"] for entry in emitted] == ["use"]


def test_the_course_stays_bounded() -> None:
    course = worker("gpu_use").Course()
    for step in range(20000):
        course.add(step * 0.2, 100 if step < 10000 else 0)
    shown = course.shown()
    assert len(shown) <= 60
    assert (shown[0], shown[-1]) == (100, 0)
    assert None not in shown


def test_an_orphan_stays_the_programs_own(tmp_path: Path) -> None:
    """A child whose parent ended belongs to the program if it was seen before."""
    family = worker("gpu_use").Family(os.getpid())
    note = tmp_path / "pid"
    parent = subprocess.Popen(["sh", "-c", f"sleep 30 & echo $! > {note}.new; mv {note}.new {note}; read x"], stdin=subprocess.PIPE)
    wait_until(note.exists)
    orphan = int(note.read_text())
    assert family.refresh(5.0)
    parent.communicate(b"\n")
    assert family.holds(orphan)
    assert not family.holds(1)
    os.kill(orphan, signal.SIGKILL)


def concluded(*events: dict[str, Any], seconds: float = 5.0, early: str | None = None) -> Watched:
    return use_watch.concluded(list(events), seconds, early)


WATCHING = {"event": "watching", "after_s": 0.5, "gpus": [0]}


def test_what_the_watch_comes_to() -> None:
    end = {"event": "end", "looks": 9, "gpus": 1, "opened": []}
    assert concluded(WATCHING, end).used == "no"
    assert concluded(WATCHING, {**end, "opened": ["/dev/nvidia-uvm"]}).why == "it opened the driver, but no memory of a GPU was seen in use"
    assert concluded(WATCHING, end, seconds=0.4).used == "unknown"  # it ended before the first look
    assert concluded(WATCHING, end, seconds=0.05).used == "no"  # too short for any context
    assert concluded(WATCHING, early="it crashed").used == "unknown"
    assert concluded(WATCHING, {"event": "use", "gpu": 0}, early="it crashed").used == "yes"
    assert concluded({"event": "error", "error": "no NVML", "devices": ["nvidia0"]}).used == "unknown"
    assert concluded({"event": "error", "error": "no NVML", "devices": []}).used == "no"
    assert concluded({"event": "error", "error": "no NVML", "devices": None}).used == "unknown"
    assert concluded().used == "unknown"


# ---------------------------------------------------------------- why not, and why it failed
def on_host(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """The machine that is examined is a recorded one."""
    found = examined(evidence_of(name))
    monkeypatch.setattr(runner.Examination, "result", lambda self: found)


def examined(evidence: Evidence) -> runner.Examined:
    return runner.Examined(answered(Question(machines=(evidence,), every_step=True), load()), evidence)


def told(argv: Sequence[str], *, tail: bytes = b"", code: int = 0, used: str = "no", asked: bool = False) -> Any:
    run = runner.Run(argv, load)
    ended = Ended(code=code, signal=None, seconds=3.0, tail=tail, asked=asked)
    return run._told(ended, Watched(used=used), require_gpu=False)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("host", "cause"),
    [
        ("h200-numba-simulator", "numba-simulator-enabled"),
        ("h200-torch-cpu", "framework-cpu-build"),
        ("h200-visible-devices-empty", "cuda-visible-devices-hides-all"),
        ("h200-visible-devices-7", "cuda-visible-devices-invalid"),
        ("h200-numba-cuda-disabled", "numba-cuda-disabled"),
        ("container-no-gpu-access", "container-no-gpu-access"),
        ("driver-not-loaded", "driver-not-loaded"),
    ],
)
def test_why_no_gpu_was_used(monkeypatch: pytest.MonkeyPatch, host: str, cause: str) -> None:
    on_host(monkeypatch, host)
    outcome = told(["train"])
    assert outcome.not_used[0].cause == cause
    assert outcome.not_used[0].lines
    assert outcome.not_used[0].steps


def test_a_healthy_machine_is_not_blamed(monkeypatch: pytest.MonkeyPatch) -> None:
    on_host(monkeypatch, "h200-healthy")
    outcome = told(["train"])
    assert outcome.not_used == ()
    assert "Nothing that is known keeps this program from a GPU" in run_text.render(outcome, Style())
    assert told(["train"], used="yes").not_used == ()
    assert told(["train"], asked=True).notes == (), "nobody looked for a reason"


def test_what_was_not_looked_at_is_not_called_sound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner.Examination, "result", lambda self: None)
    (note,) = told(["train"]).notes
    assert note.startswith("Why is not known: a machine is examined on Linux")
    assert note in run_text.render(told(["train"]), Style(width=200))
    nothing = examined(msgspec.structs.replace(evidence_of("h200-healthy"), items=()))
    assert nothing.answer.report.verdict == "undecided"
    monkeypatch.setattr(runner.Examination, "result", lambda self: nothing)
    (note,) = told(["train"]).notes
    assert note.startswith("Why is not known: not enough of this machine could be seen")


def test_the_source_that_asks_the_processors_compiler_for_a_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    on_host(monkeypatch, "h200-healthy")
    script = tmp_path / "first.py"
    script.write_text("from numba import jit\n\n@jit(target_backend='cuda')\ndef func(a):\n    a += 1\n", "utf-8")
    (reason,) = told(["python3", str(script)]).not_used
    assert reason.cause == "program-not-on-gpu"
    assert reason.lines[0] == f"{script}, line 3:"
    assert any("@cuda.jit" in step for step in reason.steps)
    script.write_text("from numba import cuda\n# CUDA_ERROR_NO_DEVICE: jit(\n\n@cuda.jit\ndef func(a):\n    a[0] += 1\n", "utf-8")
    assert told(["python3", str(script)]).not_used == (), "other words of a source say nothing"


KEY_ERROR = b"""Traceback (most recent call last):
  File "first.py", line 9, in <module>
KeyError: "Unrecognized options: {'target_backend'}. Known options are dict_keys(['_dbg_extend_lifetimes'])"
"""
ILLEGAL = b"numba.cuda.cudadrv.driver.CudaAPIError: [700] Call to cuCtxSynchronize results in CUDA_ERROR_ILLEGAL_ADDRESS\n"


@pytest.mark.parametrize(("tail", "cause"), [(KEY_ERROR, "program-not-on-gpu"), (ILLEGAL, "program-memory-fault")])
def test_the_cause_of_a_failure_stands_in_its_words(monkeypatch: pytest.MonkeyPatch, tail: bytes, cause: str) -> None:
    on_host(monkeypatch, "h200-healthy")
    outcome = told(["python3", "x.py"], tail=tail, code=1)
    assert outcome.failure is not None
    assert outcome.failure.cause == cause
    assert outcome.failure.lines[0].startswith("stderr, line ")
    assert outcome.failure.steps
    assert (outcome.exit_code, outcome.not_used) == (1, ())


def test_words_alone_are_no_reason_and_hide_none(monkeypatch: pytest.MonkeyPatch) -> None:
    tail = b"since this morning nvidia-smi never comes back, and nothing else is to be seen.\n"
    words = nodes.judged((pasted.evidence_of(tail),), load())[0].diagnosis
    assert words.by_words
    assert words.suspects
    on_host(monkeypatch, "driver-not-loaded")
    ended = told(["x"], tail=tail, code=1)
    assert ended.failure is None
    assert [one.cause for one in ended.not_used] == ["driver-not-loaded"]


def test_words_that_name_nothing_and_a_program_that_was_asked_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    on_host(monkeypatch, "h200-healthy")
    assert told(["x"], tail=b"ValueError: no\n", code=1).failure is None
    ended = told(["x"], tail=KEY_ERROR, code=1, asked=True)
    assert (ended.failure, ended.not_used) == (None, ())


def test_a_failure_is_told_below_the_programs_own_words(library: str, tmp_path: Path) -> None:
    words = KEY_ERROR.decode()
    outcome, said, code = used(library, tmp_path, python(f"import sys; sys.stderr.write({words!r}); raise SystemExit(3)"))
    assert code == 3
    assert said.startswith(words)
    assert said.index("Why it failed: ") > len(words)
    assert outcome["failure"]["cause"] == "program-not-on-gpu"


# ---------------------------------------------------------------- the command line of a program
def test_the_interpreter_and_the_script_of_a_program(tmp_path: Path) -> None:
    script = tmp_path / "tool"
    script.write_text(f"#!{sys.executable}\nprint(1)\n", "utf-8")
    script.chmod(0o755)
    assert runner.interpreter([sys.executable, "x.py"]) == sys.executable
    assert runner.interpreter([str(script)]) == sys.executable
    assert runner.interpreter(["sh", "x.py"]) is None
    assert runner.interpreter(["/no/such/program"]) is None
    assert runner.script([str(script), "a.py"]) == str(script)
    assert runner.script([sys.executable, "-m", "json.tool"]) is None
    assert runner.script([sys.executable, "no-such-file.py"]) is None


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["own.py", "other.py"], True),
        (["-u", "-X", "dev", "-Wignore", "own.py"], True),
        (["-uX", "dev", "-Ximporttime", "--check-hash-based-pycs", "never", "own.py"], True),
        (["-c", "pass", "own.py"], False),
        (["-uc", "pass", "own.py"], False),
        (["-cpass", "own.py"], False),
        (["-m", "json.tool", "own.py"], False),
        (["-", "own.py"], False),
        (["tool", "own.py"], False),  # a folder or file without the ending is the program; what follows it are its arguments
    ],
)
def test_the_source_is_the_file_that_python_runs(words: list[str], found: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own.py").write_text("")
    monkeypatch.chdir(tmp_path)
    assert runner.script(["python3", *words]) == ("own.py" if found else None)


def test_the_end_of_stderr_is_kept() -> None:
    tail = passing.Tail()
    for _ in range(5):
        tail.add(b"x" * passing.TAIL)
    tail.add(b"the end")
    assert len(tail.content()) == passing.TAIL
    assert len(tail.kept) <= 2 * passing.TAIL
    assert tail.content().endswith(b"xthe end")


def test_the_machine_is_examined_beside_a_program_without_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[float] = []
    monkeypatch.setattr(runner.Examination, "_examine", lambda self: begun.append(time.monotonic()))
    started = time.monotonic()
    outcome, _ = runner.Run(["sleep", "0.8"], load, idle=0.2).outcome(require_gpu=False)
    assert outcome.code == 0
    assert len(begun) == 1
    assert begun[0] - started < 0.7


def test_verbose_says_every_reason() -> None:
    reasons = tuple(Reason(cause=f"cause-{number}", title="t", why="w", lines=(), steps=()) for number in range(5))
    outcome = Outcome(
        command=("true",),
        code=0,
        signal=None,
        exit_code=0,
        seconds=1.0,
        used="no",
        why_unknown=None,
        gpus=(),
        not_used=reasons,
        failure=None,
    )
    assert run_text.render(outcome, Style()).count("[cause-") == run_text.MOST_REASONS
    assert run_text.render(outcome, Style(verbose=True)).count("[cause-") == len(reasons)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="setsid")
def test_a_child_that_goes_on_to_write_does_not_hold_us(tmp_path: Path) -> None:
    command = f"setsid sh -c 'echo $$ > {tmp_path}/pid; exec yes >&2' & while [ ! -s {tmp_path}/pid ]; do sleep 0.05; done; sleep 0.5"
    argv = [sys.executable, "-P", "-m", "cudadoctor", "run", "--quiet", "--", "sh", "-c", command]
    running = subprocess.Popen(argv, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, cwd=ROOT)
    assert running.stderr is not None
    try:
        until = time.monotonic() + 40
        while running.poll() is None and time.monotonic() < until:
            os.read(running.stderr.fileno(), 1 << 12)  # slower than it is written
            time.sleep(0.005)
        assert running.returncode == 0
    finally:
        running.kill()
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
        running.stderr.close()
