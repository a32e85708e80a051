"""`fix --apply` and `--undo` at work: programs run, files change, and what an attacker or a bad moment may do to them."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from cudadoctor import __version__
from cudadoctor.commands import applying as command
from cudadoctor.commands.applying import Asking, StoppedError
from cudadoctor.model.recipe import Prescription, Step
from cudadoctor.prescribe import undo_of
from cudadoctor.prescribe.shells import with_sudo
from cudadoctor.report import words
from cudadoctor.sources import applying, journal, python_packages, trust
from tests.command_line import ROOT, host
from tests.command_line import run as cudadoctor
from tests.judging import KNOWLEDGE
from tests.prescriptions import STEPS
from tests.test_applying_plan import live, step

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Linux and WSL")
EVERY = ("reads", "environment", "system")
NAME = "CUDA_VISIBLE_DEVICES"


@pytest.fixture(autouse=True)
def own_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for name in [name for name in os.environ if name.startswith(("SLURM_", "KUBERNETES_"))]:
        monkeypatch.delenv(name)


def apply(*steps: Step, yes: tuple[str, ...] = EVERY, dry: bool = False, asking: Asking | None = None) -> bool:
    report = live()
    assert report.prescription is not None
    given = msgspec.structs.replace(report, prescription=Prescription(cause="x", action="set-environment", steps=steps))
    return command.apply(given, KNOWLEDGE, asking or Asking(yes), dry=dry)


def undo(*, yes: tuple[str, ...] = EVERY, dry: bool = False) -> int:
    render: Callable[[journal.Entry], str | None] = lambda entry: undo_of(entry.step, entry.values, KNOWLEDGE, root=True)  # noqa: E731
    return command.undo(KNOWLEDGE, Asking(yes), dry=dry, render=render)


def undone(script: str) -> bool:
    """The step at the end of the journal is taken back by these commands."""
    entry = journal.last_run(journal.read())[0]
    return command._take_back(entry, KNOWLEDGE, Asking(EVERY), dry=False, render=lambda _: script)


def states() -> list[str]:
    return [entry.state for entry in journal.read()]


class Person(Asking):
    """A terminal with somebody who types these answers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *answers: str, yes: tuple[str, ...] = ()) -> None:
        super().__init__(yes)
        self.terminal = True
        lines: Iterator[str] = iter(answers)
        monkeypatch.setattr(command.sys, "stdin", type("Stdin", (), {"readline": lambda _: next(lines) + "\n"})())


# ---------------------------------------------------------------- agreed to, run, verified
def test_a_step_runs_is_verified_and_stands_in_the_journal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = tmp_path / "made"
    assert apply(step(f"touch {made}", verify=f"test -e {made}"))
    assert made.exists()
    assert states() == ["begun", "done"]
    assert journal.read()[0].version == __version__
    assert f"touch {made}" in capsys.readouterr().out


def test_nothing_runs_that_nobody_agreed_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = tmp_path / "made"
    assert not apply(step(f"touch {made}"), yes=("reads", "system"))
    assert not made.exists()
    assert states() == []
    assert command.NO_TERMINAL in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["restart", "destructive"])
def test_no_option_agrees_to_what_ends_something(kind: str, tmp_path: Path) -> None:
    assert not apply(step(f"touch {tmp_path}/made", kind), yes=EVERY)
    assert not (tmp_path / "made").exists()
    assert cudadoctor("fix", "--apply", "--yes", kind).code == 2


def test_a_condition_is_for_a_person_to_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = step(f"touch {tmp_path}/made", mode="if", when="it is yours")
    assert not apply(given)
    assert apply(given, asking=Person(monkeypatch, yes=EVERY))


def test_each_answer_of_a_person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = [step(f"touch {tmp_path}/{name}") for name in ("a", "b", "c")]
    with pytest.raises(StoppedError, match="Ended on request"):
        apply(*steps, asking=Person(monkeypatch, "n", "y", "q"))
    assert sorted(path.name for path in tmp_path.iterdir() if path.name in "abc") == ["b"]


def test_the_end_of_the_input_is_no_agreement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StoppedError):
        apply(step(f"touch {tmp_path}/made"), asking=Person(monkeypatch, ""))
    assert not (tmp_path / "made").exists()


def test_what_was_typed_before_a_step_was_shown_agrees_to_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    person, ours = os.openpty()
    with open(ours, encoding="utf-8") as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        asking = Asking(())
        asking.terminal = True
        os.write(person, b"y\ny\n")
        time.sleep(0.1)
        later = threading.Timer(0.3, os.write, (person, b"n\n"))
        later.start()
        assert asking.agreed("Run it?", "system") is False
        later.join()
    os.close(person)


def test_what_a_program_left_of_the_terminal_is_put_right_to_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without lines (stty cbreak), one answer would be read together with what stands behind it."""
    import tty

    person, ours = os.openpty()
    with open(ours, encoding="utf-8") as stdin:
        tty.setcbreak(ours)
        monkeypatch.setattr(sys, "stdin", stdin)
        asking = Asking(())
        asking.terminal = True
        for typed, agreed in ((b"y\ny\n", True), (b"n\n", False)):
            later = threading.Timer(0.3, os.write, (person, typed))
            later.start()
            assert asking.agreed("Run it?", "system") is agreed
            later.join()
    os.close(person)


def test_two_at_once_do_not_change_one_machine(tmp_path: Path) -> None:
    with journal.alone(), pytest.raises(StoppedError, match="another cudadoctor"):
        apply(step(f"touch {tmp_path}/ran"))
    assert not (tmp_path / "ran").exists()
    assert apply(step(f"touch {tmp_path}/ran"))


def test_what_goes_wrong_beside_the_journal_is_not_laid_to_it() -> None:
    with pytest.raises(OSError, match="elsewhere"), journal.alone():
        raise OSError("elsewhere")


@pytest.mark.parametrize("name", ["pin", "a pin"])
def test_a_file_that_the_undo_would_remove_is_not_written_over(name: str, tmp_path: Path) -> None:
    file = tmp_path / name
    file.write_text("the user's own\n")
    quoted = shlex.quote(str(file))
    with pytest.raises(StoppedError, match="is there already"):
        apply(step(f"cp /etc/passwd {quoted}", undo=f"rm {quoted}"))
    assert file.read_text() == "the user's own\n"


@pytest.mark.parametrize("how", ["rm {0}", "mv {0}.before {0}"])
def test_an_undo_throws_away_nothing_that_was_written_since(how: str, tmp_path: Path) -> None:
    file = tmp_path / "a file"
    taking = how.format(shlex.quote(str(file)))
    assert apply(step(f"touch {shlex.quote(str(file))}", undo=taking))
    entries = journal.last_run(journal.read())
    file.write_text("the user's work\n")
    os.utime(file, (entries[0].time + 60, entries[0].time + 60))
    with pytest.raises(StoppedError, match="was changed after this step"):
        command._take_back(entries[0], KNOWLEDGE, Asking(EVERY), dry=False, render=lambda _: taking)
    assert file.read_text() == "the user's work\n"


def test_an_undo_that_cannot_be_noted_does_not_begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: journal.Entry) -> None:
        raise journal.JournalError("disk full")

    assert apply(step("true", undo="true"))
    entries = journal.last_run(journal.read())
    monkeypatch.setattr(journal, "write", full)
    with pytest.raises(StoppedError, match="Nothing was run"):
        command._take_back(entries[0], KNOWLEDGE, Asking(EVERY), dry=False, render=lambda _: f"touch {tmp_path}/ran")
    assert not (tmp_path / "ran").exists()


def test_an_undo_that_ran_is_not_said_not_to_have_run(profile: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = journal.write

    def full(entry: journal.Entry) -> None:
        if entry.state == "undone":
            raise journal.JournalError("disk full")
        write(entry)

    before = profile.read_bytes()
    assert apply(editing(profile))
    monkeypatch.setattr(journal, "write", full)
    with pytest.raises(StoppedError, match="The undo ran"):
        undo()
    assert profile.read_bytes() == before


def test_where_nobody_reads_what_is_shown_nothing_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone() -> None:
        raise BrokenPipeError

    with monkeypatch.context() as changed:
        changed.setattr(command.terminal, "_unread", False)
        changed.setattr(sys.stdout, "flush", gone)
        with pytest.raises(StoppedError, match="nobody reads"):
            apply(step(f"touch {tmp_path}/ran"))
    assert not (tmp_path / "ran").exists()


def test_a_second_interruption_waits_for_the_program_too(tmp_path: Path) -> None:
    def interrupt() -> None:
        for _ in range(2):
            time.sleep(0.4)
            os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        applying.run(f"sh -c 'trap \"\" INT; sleep 1.5; touch {tmp_path}/done'")
    assert (tmp_path / "done").exists()


def test_an_undo_that_is_interrupted_says_so(tmp_path: Path) -> None:
    assert apply(step("true", undo="true"))
    threading.Timer(0.4, os.kill, (os.getpid(), signal.SIGINT)).start()
    entries = journal.last_run(journal.read())
    with pytest.raises(StoppedError, match="may be done in part") as end:
        command._take_back(
            entries[0], KNOWLEDGE, Asking(EVERY), dry=False, render=lambda _: f"touch {tmp_path}/first\nsleep 1\ntouch {tmp_path}/second"
        )
    assert end.value.code == 130
    assert not (tmp_path / "second").exists()
    assert states()[-1] == "done"


def test_a_step_that_ran_is_undone_before_it_runs_again(tmp_path: Path) -> None:
    """The copy that its undo puts back would become one of the changed file."""
    file = tmp_path / "grub"
    file.write_text("quiet splash\n")
    change = step(f"sed -i.before 's/ splash//' {file}", undo=f"mv {file}.before {file}")
    assert apply(change)
    with pytest.raises(StoppedError, match="is there already"):
        apply(change)
    assert Path(f"{file}.before").read_text() == "quiet splash\n"


def test_a_dry_run_runs_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert not apply(step(f"touch {tmp_path}/made"), step("true", "destructive"), dry=True)
    assert not (tmp_path / "made").exists()
    assert states() == []
    said = capsys.readouterr().out
    assert "Would run." in said
    assert "Would ask" in said


# ---------------------------------------------------------------- what goes wrong on the way
def test_a_step_that_fails_ends_the_run_and_says_how_to_undo_it(tmp_path: Path) -> None:
    with pytest.raises(StoppedError, match=r"Failed: it ended with 3\. To undo it: echo back"):
        apply(step("sh -c 'exit 3'", undo="echo back"), step(f"touch {tmp_path}/made"))
    assert not (tmp_path / "made").exists()
    assert states() == ["begun", "failed"]


def test_later_lines_of_a_step_wait_for_the_earlier(tmp_path: Path) -> None:
    with pytest.raises(StoppedError):
        apply(step(f"false\ntouch {tmp_path}/made"))
    assert not (tmp_path / "made").exists()


def test_a_verify_that_fails_is_a_failed_step() -> None:
    with pytest.raises(StoppedError, match=r"its verify ended with 1\. It has no undo"):
        apply(step("true", verify="false"))
    assert states() == ["begun", "failed"]


@pytest.mark.parametrize("verify", ["! test -e {folder}/other", "command -v sh", "ulimit -n"])
def test_a_word_of_the_shell_verifies_too(verify: str, tmp_path: Path) -> None:
    assert apply(step(f"touch {tmp_path}/made", verify=verify.format(folder=tmp_path)))
    assert states() == ["begun", "done"]


@pytest.mark.parametrize("program", ["no-such-program", "{folder}/damaged"])
def test_a_verify_that_cannot_run_does_not_hide_what_was_done(program: str, tmp_path: Path) -> None:
    (tmp_path / "damaged").write_bytes(b"\0\1")
    (tmp_path / "damaged").chmod(0o755)
    with pytest.raises(StoppedError, match=r"its commands ended well, but its verify was not run \(.*\)\. To undo it: rm"):
        apply(step(f"touch {tmp_path}/made", verify=program.format(folder=tmp_path), undo=f"rm {tmp_path}/made"))
    assert (tmp_path / "made").exists()
    assert states() == ["begun", "failed"]


def test_a_program_that_cannot_be_started_ends_the_step_and_that_is_said(tmp_path: Path) -> None:
    (tmp_path / "damaged").write_text("#!/no/such/interpreter\n")
    (tmp_path / "damaged").chmod(0o755)
    with pytest.raises(StoppedError, match=r"^Stopped: .*damaged cannot be started: .*\. To undo it: rm"):
        apply(step(f"touch {tmp_path}/made\n{tmp_path}/damaged", undo=f"rm {tmp_path}/made"))
    assert states() == ["begun", "failed"]


def test_an_undo_whose_last_program_is_not_there_does_not_begin(tmp_path: Path) -> None:
    made = tmp_path / "made"
    assert apply(step(f"touch {made}", undo=f"rm {made}\nno-such-program"))
    entry = journal.last_run(journal.read())[0]
    with pytest.raises(StoppedError, match="Nothing was run: no-such-program is not installed"):
        command._take_back(entry, KNOWLEDGE, Asking(EVERY), dry=False, render=lambda _: f"rm {made}\nno-such-program")
    assert made.exists()


def test_an_interruption_between_step_and_verify_is_told(tmp_path: Path) -> None:
    timer = threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(StoppedError, match=r"may be done in part\. To undo it: rm"):
        apply(step(f"touch {tmp_path}/made", verify="sleep 2", undo=f"rm {tmp_path}/made"), step(f"touch {tmp_path}/second"))
    assert (tmp_path / "made").exists()
    assert not (tmp_path / "second").exists()
    assert states() == ["begun", "failed"]  # so that undo takes it back


@pytest.mark.parametrize("full", ["begun", "done"])
def test_without_a_journal_nothing_runs_or_it_is_said(full: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = journal.write

    def fails(entry: journal.Entry) -> None:
        if entry.state == full:
            raise journal.JournalError("no space left on device")
        write(entry)

    monkeypatch.setattr(journal, "write", fails)
    words = "Nothing was run" if full == "begun" else "The step ran, and the journal cannot be written"
    with pytest.raises(StoppedError, match=words):
        apply(step(f"touch {tmp_path}/made"))
    assert (tmp_path / "made").exists() == (full == "done")


def test_a_program_that_others_may_change_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "pip"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/made\n")
    program.chmod(0o777)
    monkeypatch.setattr(trust, "as_root", lambda: True)
    with pytest.raises(StoppedError, match="may be written by another user; it was not run"):
        apply(step(f"{program} install x"))
    assert not (tmp_path / "made").exists()


def test_a_file_that_another_user_could_swap_is_not_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither by the step nor by its undo: a link in its place would lead root's edit elsewhere."""
    profile = tmp_path / "profile"
    profile.write_text("one\n")
    values = {"set_file": (str(profile),)}
    given = step(f"sed -i --follow-symlinks 's/^/x/' {profile}", values=values, undo="true")
    monkeypatch.setattr(trust, "changeable", lambda path: "may be written by another user" if path == str(profile) else None)
    with pytest.raises(StoppedError, match=r"Nothing was run: .*profile may be written by another user; it is not changed"):
        apply(given)
    assert (profile.read_text(), states()) == ("one\n", [])

    monkeypatch.setattr(trust, "changeable", lambda _: None)
    monkeypatch.setattr(trust, "strange_link", lambda path: path if path == str(profile) else None)
    with pytest.raises(StoppedError, match="a link that another user made"):
        apply(given)
    assert (profile.read_text(), states()) == ("one\n", [])

    monkeypatch.setattr(trust, "strange_link", lambda _: None)
    assert apply(given)
    monkeypatch.setattr(trust, "strange_link", lambda path: path if path == str(profile) else None)
    render: Callable[[journal.Entry], str | None] = lambda _: f"sed -i 's/^x//' {profile}"  # noqa: E731
    with pytest.raises(StoppedError, match="Nothing was run"):
        command.undo(KNOWLEDGE, Asking(EVERY), dry=False, render=render)
    assert profile.read_text() == "xone\n"


def test_the_working_directory_is_never_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "touch").write_text(f"#!/bin/sh\necho bad > {tmp_path}/made\n")
    (tmp_path / "touch").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"::.:{os.environ['PATH']}")
    assert apply(step(f"touch {tmp_path}/made"))
    assert (tmp_path / "made").read_text() == ""


def test_programs_are_found_first_and_run_by_their_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(applying.programs, "found", {"sudo": "/usr/bin/sudo", "systemctl": "/usr/bin/systemctl", "sh": "/bin/sh"}.get)
    monkeypatch.setattr(trust, "refusal", lambda path: None)
    assert applying.argv_of("sudo systemctl restart docker") == ["/usr/bin/sudo", "/usr/bin/systemctl", "restart", "docker"]
    assert applying.argv_of("systemctl status | head") == ["/bin/sh", "-euc", "systemctl status | head"]


def test_installers_get_the_index_and_the_proxy_of_the_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As root too, where a child gets little else; a file that another user may change is not among it."""
    monkeypatch.setattr(trust, "as_root", lambda: True)
    wheels, others = tmp_path / "wheels", tmp_path / "others"
    for folder in (wheels, others):
        folder.mkdir()
    others.chmod(0o777)
    given = {
        "PIP_INDEX_URL": "https://ada:x@index.example/simple",
        "https_proxy": "http://proxy.example:3128",
        "no_proxy": "localhost,.example",
    }
    for name, value in {
        **given,
        "PIP_FIND_LINKS": f"{wheels} https://a.example",
        "PIP_CONFIG_FILE": str(others),
        "PYTHONSTARTUP": "/x",
        "PIP_TARGET": "/x",  # would install where nobody looks afterwards
        "PIP_USER": "1",
    }.items():
        monkeypatch.setenv(name, value)
    out = tmp_path / "out"
    assert applying.run(f"env > {out}") == 0
    got = dict(line.partition("=")[::2] for line in out.read_text().splitlines())
    assert {name: got.get(name) for name in given} == given
    mine = os.geteuid() == 0  # else the folder is not root's
    assert (got.get("PIP_FIND_LINKS") is not None) == mine
    assert "PIP_CONFIG_FILE" not in got
    assert not {"PYTHONSTARTUP", "PIP_TARGET", "PIP_USER"} & got.keys()


# ---------------------------------------------------------------- words that want to be more
HOSTILE = [
    "$(touch /tmp/owned)", "`id`", "a; touch b", "it's", '"', "a\\", "-rf", "~root", "*", "a&&b", "|cat", "{a,b}", "!x", "#c", "$HOME", "é\u202e", "a=b",
]  # fmt: skip


@pytest.mark.parametrize("word", HOSTILE)
def test_a_quoted_word_stays_one_word(word: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert applying.run(f"printf '[%s]' {shlex.quote(word)} end") == 0
    assert capfd.readouterr().out == f"[{word}][end]"


def test_every_line_of_every_step_can_be_run_alone() -> None:
    """Lines are carried out one by one: none may begin what a later one ends."""
    written = [step.shell for _, _, step in STEPS] + [
        shell for _, _, step in STEPS for name, shell in step.shells.items() if name != "windows"
    ]
    lines = {
        line
        for shell in written
        if shell is not None
        for line in shell.strip("\n").split("\n")
        if re.search(r"['\"(){}<\\\\]|\b(?:if|for|while|case)\b", line)
    }
    assert len(lines) > 50
    for line in lines:
        done = subprocess.run(["sh", "-n"], input=line, text=True, capture_output=True, check=False)
        assert (done.returncode, done.stderr) == (0, ""), line


@pytest.mark.parametrize("arguments", [("--replay", host("driver-hung")), ("--log", "-"), ("--distro", "debian-12"), ("nouveau-bound",)])
@pytest.mark.parametrize("option", ["--apply", "--undo"])
def test_only_this_machine_is_acted_on(option: str, arguments: tuple[str, ...]) -> None:
    result = cudadoctor("fix", option, *arguments)
    assert result.code == 2
    assert "they act on what is found on this machine" in result.err


# ---------------------------------------------------------------- undo
@pytest.fixture
def profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A profile, in the folder of the tests, which no step names otherwise."""
    monkeypatch.setitem(KNOWLEDGE.placeholder_forms, "set_file", re.compile("/.+"))
    path = tmp_path / "it's a .bashrc"
    path.write_text(f"first\nexport {NAME}=7\nlast\n")
    return path


def editing(path: Path) -> Step:
    """The step of the recipe, as `check` would write it for this line."""
    from cudadoctor.model.values import ENVIRONMENT, SET_IN, USER, Environment, SetIn
    from cudadoctor.prescribe import prescribe
    from tests.facts_builder import facts_of, user
    from tests.prescriptions import finding

    setting = SetIn(name=NAME, path=str(path), line=2)
    state = {SET_IN: (setting,), ENVIRONMENT: Environment(variables={NAME: "7"}, lines={}), USER: user()}
    found = prescribe(finding("cuda-visible-devices-invalid"), {"variable": NAME}, facts_of(state), KNOWLEDGE, "debian-13")
    assert found is not None
    return next(one for one in found.steps if one.id == "remove-setting/1")


def test_a_profile_is_edited_and_comes_back_byte_for_byte(profile: Path) -> None:
    before = profile.read_bytes()
    assert apply(editing(profile))
    assert profile.read_text() == f"first\n: # export {NAME}=7\nlast\n"
    assert undo() == 0
    assert profile.read_bytes() == before
    assert states() == ["begun", "done", "done", "undone"], "noted once more before the undo begins"
    assert undo() == 0  # and there is nothing left


def test_a_profile_that_changed_in_between_is_left_alone_and_that_is_said(profile: Path) -> None:
    given = editing(profile)
    profile.write_text(f"new\nfirst\nexport {NAME}=7\n")
    with pytest.raises(StoppedError, match="its verify ended with 1"):
        apply(given)
    assert profile.read_text() == f"new\nfirst\nexport {NAME}=7\n"
    assert undo() == 3  # it had not been carried out
    assert states()[-1] == "kept"
    assert undo() == 0


@pytest.mark.parametrize("line", [f'if [ -z "${NAME}" ]; then', f"[ ${NAME} = 7 ] || {{", f"echo ${{{NAME}}} (", "two"])
def test_a_line_that_sets_it_no_longer_is_left_alone(line: str, profile: Path) -> None:
    given = editing(profile)
    profile.write_text(f"first\n{line}\nlast\n")
    with pytest.raises(StoppedError, match="its verify ended with 1"):
        apply(given)
    assert profile.read_text() == f"first\n{line}\nlast\n"


def test_a_line_that_moved_since_is_not_undone_elsewhere(profile: Path) -> None:
    assert apply(editing(profile))
    profile.write_text("new\n" + profile.read_text())
    moved = profile.read_text()
    with pytest.raises(StoppedError, match="was changed after this step, so its line may be another by now"):
        undo()
    assert profile.read_text() == moved
    assert states()[-1] == "done"  # it can be tried again


def test_a_line_that_stood_as_a_comment_before_is_not_made_one_that_counts(profile: Path) -> None:
    """The step's own line was deleted, and an older one that somebody had commented out came to its number."""
    profile.write_text(f"first\nexport {NAME}=7\n# export {NAME}=3\n")
    assert apply(editing(profile))
    profile.write_text(f"first\n# export {NAME}=3\n")
    with pytest.raises(StoppedError, match="was changed after this step"):
        undo()
    assert profile.read_text() == f"first\n# export {NAME}=3\n"


def test_undo_asks_too(profile: Path) -> None:
    assert apply(editing(profile))
    assert undo(yes=()) == 3
    assert undo(dry=True) == 3
    assert f": # export {NAME}" in profile.read_text()


def test_another_versions_step_is_undone_only_by_a_person(profile: Path) -> None:
    assert apply(editing(profile))
    journal.write(msgspec.structs.replace(journal.read()[-1], version="0.0.1"))
    assert undo(yes=EVERY) == 3
    assert f": # export {NAME}" in profile.read_text()


def test_values_of_the_journal_are_quoted_anew_or_refused(tmp_path: Path) -> None:
    for path in ("/home/ada/$(id)", "/home/ada/x; id", "relative", "/home/ada/\nid"):
        values = {"set_file": (path,), "set_line": ("2",), "put_back": (rf"2{{/\b{NAME}\b/s/^: # //}}",), "commented": ("1,$w /x",)}
        assert undo_of("remove-setting/1", values, KNOWLEDGE, root=True) is None, path
    assert undo_of("no-such-recipe/1", {}, KNOWLEDGE, root=True) is None
    assert undo_of("load-module/" + "9" * 5000, {}, KNOWLEDGE, root=True) is None
    number = next(
        place for place, step in enumerate(KNOWLEDGE.recipe("install-driver").steps, 1) if "purge -y {driver_stream}" in (step.undo or "")
    )
    purged = [
        undo_of(f"install-driver/{number}", {"driver_stream": (name,)}, KNOWLEDGE, root=True)
        for name in ("bash", "nvidia-driver-pinning-580")
    ]
    assert purged == [None, "apt-get purge -y nvidia-driver-pinning-580"]


def test_a_step_without_undo_is_named_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert apply(step("true", id="name-existing-gpus/1"))
    assert undo() == 3
    assert "It has no undo." in capsys.readouterr().out
    assert undo() == 0


# ---------------------------------------------------------------- packages
PIP = "{python} -m pip install --force-reinstall --no-deps 'numpy<2.5'"


@pytest.mark.parametrize(
    ("script", "found"),
    [
        (PIP.format(python="/opt/my/bin/python"), ("/opt/my/bin/python", "pip")),
        (PIP.format(python="'/home/ada/my env/bin/python'"), ("/home/ada/my env/bin/python", "pip")),
        ("uv pip install --reinstall --python /opt/v/bin/python numba", ("/opt/v/bin/python", "uv")),
        ("/no/such/bin/python -m pip install x", None),  # which the step itself makes
        ("sudo apt-get install -y python3-numba", None),
        ("echo python -m pip install x", None),
    ],
)
def test_which_packages_a_step_changes(script: str, found: tuple[str, str] | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(python_packages.os.path, "lexists", lambda path: not path.startswith("/no/"))
    assert python_packages.changed_by(script) == found


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment with three packages, and pip's own in place of it: a program that writes down what it was asked for."""
    monkeypatch.setattr(trust, "as_root", lambda: False)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "my env")], check=True)
    site = Path(sysconfig.get_path("purelib", vars={"base": str(tmp_path / "my env"), "platbase": str(tmp_path / "my env")}))
    for name, version in (("numpy", "2.3.1"), ("numba", "0.62.1"), ("oldest", "1.0")):
        package(site, name, version)
    return site


def package(site: Path, name: str, version: str) -> None:
    for old in site.glob(f"{name}-*"):
        (old / "METADATA").unlink()
        old.rmdir()
    (site / f"{name}-{version}.dist-info").mkdir()
    (site / f"{name}-{version}.dist-info" / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")


def python_of(site: Path) -> str:
    return str(site.parents[2] / "bin" / "python")


def way(python: str, before: tuple[str, ...] | None, after: tuple[str, ...] | None = None, tool: str = "pip") -> str | None:
    found = python_packages.back_to(python, before, after, tool)
    return None if found is None else found.commands


def state_of(python: str) -> tuple[str, ...]:
    found = python_packages.pins(python_packages.installed(python))
    assert found is not None
    return found


def test_packages_come_back_as_they_were(scratch: Path) -> None:
    python = python_of(scratch)
    package(scratch, "pip", "24.0")
    before = state_of(python)
    assert before == ("numba==0.62.1", "numpy==2.3.1", "oldest==1.0", "pip==24.0")
    assert way(python, before) == ""
    package(scratch, "numpy", "2.4.0")
    package(scratch, "added", "3.0")
    (scratch / "oldest-1.0.dist-info" / "METADATA").unlink()
    (scratch / "oldest-1.0.dist-info").rmdir()
    quoted = shlex.quote(python)
    back = "--no-deps numpy==2.3.1 oldest==1.0"
    assert (way(python, before) or "").split("\n") == [
        f"{quoted} -m pip install --dry-run {back}",  # what may fail comes first
        f"{quoted} -m pip uninstall -y added",
        f"{quoted} -m pip install {back}",
    ]
    package(scratch, "pip", "22.0.2")  # which has no --dry-run
    assert "--dry-run" not in (way(python, before, state_of(python)) or "--dry-run")
    package(scratch, "pip", "24.0")
    assert f"uv pip uninstall --python {quoted} added" in (way(python, before, tool="uv") or "")


def test_what_the_user_changed_since_is_the_users(scratch: Path) -> None:
    python = python_of(scratch)
    package(scratch, "pip", "24.0")
    before = state_of(python)
    package(scratch, "numpy", "2.4.0")
    package(scratch, "added", "3.0")
    package(scratch, "numba", "0.63.0")
    after = state_of(python)
    package(scratch, "numba", "0.64.0")
    package(scratch, "mine", "1.0")
    quoted = shlex.quote(python)
    back = "--no-deps numpy==2.3.1"
    lines = (f"install --dry-run {back}", "uninstall -y added", f"install {back}")
    assert way(python, before, after) == "\n".join(f"{quoted} -m pip {line}" for line in lines)


def test_a_package_that_a_release_spells_differently_is_the_same(scratch: Path) -> None:
    """PEP 503. Its undo would have taken it away."""
    python = python_of(scratch)
    package(scratch, "Data_Tools", "1.0")
    before = state_of(python)
    for left in scratch.glob("Data_Tools-*/METADATA"):
        left.unlink()
        left.parent.rmdir()
    package(scratch, "data-tools", "2.0")
    back = f"{shlex.quote(python)} -m pip install --no-deps data-tools==1.0"
    assert way(python, before, state_of(python)) == back
    # As journals kept them before: by the names of the releases.
    older = tuple(line.replace("data-tools==1.0", "Data_Tools==1.0") for line in before)
    assert way(python, older, tuple(line.replace("data-tools", "Data_Tools") for line in state_of(python))) == back


def test_a_package_of_which_files_are_gone_is_named(scratch: Path) -> None:
    python = python_of(scratch)
    record = scratch / "numpy-2.3.1.dist-info" / "RECORD"
    record.write_text("numpy/core.py,,\nnumpy/__pycache__/core.cpython-312.pyc,,\n")
    assert python_packages.torn(python) == ("numpy==2.3.1",)
    (scratch / "numpy").mkdir()
    (scratch / "numpy" / "core.py").touch()
    assert python_packages.torn(python) == ()


def test_what_no_index_has_is_named_and_not_taken_from_one(scratch: Path) -> None:
    """Of a package's own folder, or of an address, the index may have a stranger's of that name."""
    python = python_of(scratch)
    (scratch / "oldest-1.0.dist-info" / "direct_url.json").write_text('{"url": "file:///home/ada/oldest", "dir_info": {"editable": true}}')
    package(scratch, "torch", "2.6.0+cpu")
    package(scratch, "odd", "1.0~rc1")
    before = state_of(python)
    assert "oldest @ file:///home/ada/oldest" in before
    for name in ("torch", "odd"):
        package(scratch, name, "9.0")
    (scratch / "oldest-1.0.dist-info" / "direct_url.json").unlink()
    package(scratch, "oldest", "9.0")
    found = python_packages.back_to(python, before, state_of(python), "pip")
    assert found is not None
    assert found.commands == (
        f"{shlex.quote(python)} -m pip install --no-deps --index-url https://download.pytorch.org/whl/cpu torch==2.6.0+cpu"
    )
    assert found.by_hand == ("odd (1.0~rc1)", "oldest (file:///home/ada/oldest)")


def test_what_is_not_known_is_not_brought_back(scratch: Path) -> None:
    python = python_of(scratch)
    assert way(python, None) is None
    assert way(python, ("numpy 1; id",)) is None
    assert way(str(scratch / "no-python"), ("numpy==1",)) is None


def test_only_what_pip_may_change_is_listed(scratch: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Packages of another folder on its path are not this environment's: pip would not take them away."""
    (tmp_path / "others").mkdir()
    package(tmp_path / "others", "foreign", "1.0")
    package(tmp_path / "others", "numpy", "1.0")
    (scratch / "others.pth").write_text(f"{tmp_path / 'others'}\n")
    assert python_packages.installed(python_of(scratch)) == {"numba": "0.62.1", "numpy": "2.3.1", "oldest": "1.0"}


def test_packages_are_noted_before_pip_runs_and_nothing_differs_after(scratch: Path) -> None:
    with pytest.raises(StoppedError, match="To bring the packages back: cudadoctor fix --undo"):
        apply(step(f"{shlex.quote(python_of(scratch))} -m pip install nothing"))  # there is no pip
    first = journal.read()[0]
    assert (first.tool, first.python, first.packages) == ("pip", python_of(scratch), ("numba==0.62.1", "numpy==2.3.1", "oldest==1.0"))
    assert undo() == 0
    assert states()[-1] == "undone"


def test_what_a_step_that_was_killed_did_is_taken_back_only_where_a_person_agrees(scratch: Path) -> None:
    """Since then the user may have installed a package: the journal cannot tell."""
    python = python_of(scratch)
    at = {"run": "1", "time": 1.0, "cause": "x", "number": 1, "values": {}, "version": __version__}
    begun = journal.Entry(**at, step="install-numba-cuda/1", python=python, tool="pip", packages=state_of(python), state="begun")  # type: ignore[arg-type]
    journal.write(begun)
    package(scratch, "mine", "1.0")
    assert undo() == 3
    assert states() == ["begun"]
    assert "mine" in (python_packages.installed(python) or {})


# ---------------------------------------------------------------- the system's package manager
APT = """NOTE: This is only a simulation!
The following packages will be DOWNGRADED:
  libnvidia-ml1
Remv nvidia-driver [550.1]
Remv cuda-drivers [550.1] []
Inst nvidia-driver-570 (570.1 Ubuntu:24.04)
"""
DNF = """Installing:
 nvidia-driver-cuda x86_64 3:570.86-1.el9 cuda-rhel9 10 M
     replacing  nvidia-x11-drv.x86_64 550.1-1.el9
Removing:
 kmod-nvidia x86_64 3:570 cuda 1 M
Removing unused dependencies:
 nvidia-libs x86_64 550.1-1.el9 @elrepo 200 M

Transaction Summary
"""


def test_a_transaction_that_removes_something_asks_whatever_was_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[tuple[str, ...]] = []

    def simulated(*words: str) -> str:
        asked.append(words)
        return APT

    monkeypatch.setattr(applying, "_simulated", simulated)
    assert applying.removed_by("sudo apt-get install -y nvidia-driver-570") == ("nvidia-driver", "cuda-drivers", "libnvidia-ml1")
    assert asked == [("apt-get", "-s", "install -y nvidia-driver-570")]
    assert not apply(step("apt-get install -y nvidia-driver-570", "system"), yes=EVERY)
    assert states() == []


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("apt-get -y --fix-broken install", ("nvidia-driver", "cuda-drivers", "libnvidia-ml1")),
        ("dnf distro-sync -y --allowerasing '*nvidia*'", ("kmod-nvidia", "nvidia-libs", "nvidia-x11-drv.x86_64")),
        ("sudo yum install -y kmod-nvidia", ("kmod-nvidia",)),
        ("zypper install -y --force-resolution nvidia-driver-G06", ("nvidia-computeG05", "nvidia-gfxG05")),
        ("ubuntu-drivers install nvidia:580-open", ("what `ubuntu-drivers install nvidia:580-open` decides",)),
        ("pacman -Syu --needed nvidia-open", ("what `pacman -Syu --needed nvidia-open` decides",)),
        ("dnf install -y nvidia-driver-cuda", ("kmod-nvidia", "nvidia-libs", "nvidia-x11-drv.x86_64")),
        ("sudo zypper update -y nvidia-driver-G06", ("nvidia-computeG05", "nvidia-gfxG05")),
        ("dnf update -y x", ("kmod-nvidia", "nvidia-libs", "nvidia-x11-drv.x86_64")),
        ("sudo sh -c 'dnf reinstall -y x || dnf install -y x'", ("what `sudo sh -c 'dnf reinstall -y x || dnf install -y x'` decides",)),
        ("rpm -qa | xargs -r dnf remove -y", ("what `rpm -qa | xargs -r dnf remove -y` decides",)),
        ("zypper repos cuda > /dev/null || zypper addrepo --refresh https://x.example cuda", ()),
        ("zypper --gpg-auto-import-keys refresh", ()),
        ("zypper verify", ("nvidia-computeG05", "nvidia-gfxG05")),
        ("ls -l /var/lib/dpkg /etc/dnf", ()),
        ("apt-get update", ()),
        ("apt-mark unhold nvidia-driver-570", ()),
        ("dpkg --configure -a", ()),
        ("zypper addrepo https://x.example y", ()),
    ],
)
def test_what_each_manager_would_remove_is_told(line: str, told: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    said = {
        "apt-get": APT,
        "dnf": DNF,
        "yum": "Removing:\n kmod-nvidia x86_64 3:570 cuda 1 M\n",
        "zypper": "The following 2 packages are going to be REMOVED:\n  nvidia-computeG05 nvidia-gfxG05\n",
    }
    monkeypatch.setattr(applying, "_simulated", lambda program, *_, **__: said[program])
    assert applying.removed_by(line) == told


@pytest.mark.parametrize(
    ("program", "said", "code", "told"),
    [
        ("apt-get", APT, 0, ("nvidia-driver", "cuda-drivers", "libnvidia-ml1")),
        ("apt-get", "", 100, ("what `apt-get install -y x` decides",)),  # a lock is held, no such package
        ("dnf", DNF, 1, ("kmod-nvidia", "nvidia-libs", "nvidia-x11-drv.x86_64")),
        ("dnf", "", 1, ("what `dnf install -y x` decides",)),
        ("zypper", "", 104, ("what `zypper install -y x` decides",)),
    ],
)
def test_a_simulation_that_failed_tells_nothing(
    program: str, said: str, code: int, told: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(applying.programs, "found", lambda name: f"/usr/bin/{name}")
    ended = subprocess.CompletedProcess([], code, said.encode(), b"")
    monkeypatch.setattr(applying.children, "asked", lambda *_: ended)
    assert applying.removed_by(f"{program} install -y x") == told


@pytest.mark.parametrize("before", ["apt-get update", "dnf config-manager --add-repo https://x.example/y.repo", "zypper refresh"])
def test_what_the_lines_before_it_make_a_line_remove_stops_it(before: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[list[str]] = []
    monkeypatch.setattr(applying, "_run", lambda argv, lock: ran.append(argv) or 0)
    monkeypatch.setattr(applying, "argv_of", lambda line, **_: line.split())
    monkeypatch.setattr(applying, "_simulated", lambda *_: APT if ran else "")
    script = f"{before}\napt-get install -y nvidia-driver-570"
    with pytest.raises(StoppedError, match=r"Stopped: after the lines before it") as end:
        apply(step(script, "system"))
    assert "Nothing was run" not in str(end.value)
    assert ran == [before.split()]
    assert applying.run(script, ("nvidia-driver", "cuda-drivers", "libnvidia-ml1")) == 0
    assert applying.run(script) == 0  # an undo: what it removes is what it is for


# ---------------------------------------------------------------- run --cured
def test_what_the_steps_do_to_a_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GONE", "1")
    monkeypatch.setenv("PATH", "/opt/mine:relative::/usr/bin:/bin")
    found = applying.after("unset GONE\nexport NEW='a b'\nexport PATH=\"/usr/local/cuda/bin:$PATH\"")
    assert found is not None
    assert "GONE" not in found
    assert found["NEW"] == "a b"
    assert found["PATH"] == "/usr/local/cuda/bin:/opt/mine:relative::/usr/bin:/bin"
    assert applying.after("false") is None


def test_the_shell_and_its_programs_get_what_every_child_gets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They stand in /, load nothing from the working directory, and the result still is the user's own shell with the steps done."""
    monkeypatch.chdir(tmp_path)
    own = {"LD_LIBRARY_PATH": ":relative:/opt/mine", "LD_PRELOAD": "", "KEPT": "a\nb"} | (
        {"BASH_ENV": "/tmp/x"} if os.geteuid() == 0 else {}
    )
    for name, value in own.items():
        monkeypatch.setenv(name, value)
    found = applying.after('export SEEN="$(pwd; env)"')
    assert found is not None
    assert found["SEEN"].startswith("/\n")
    assert re.search("relative|BASH_ENV", found["SEEN"]) is None
    assert {name: found[name] for name in own} == own
    found = applying.after('export LD_LIBRARY_PATH=/cuda/lib64:"$(env | grep relative)${LD_LIBRARY_PATH}"\nunset KEPT')
    assert found is not None
    assert found["LD_LIBRARY_PATH"] == "/cuda/lib64::relative:/opt/mine"
    assert "KEPT" not in found


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("export CURE=found", "found"),
        ("ulimit -S -c 0\nexport CURE=limited", "limited"),
        pytest.param("", "none", marks=pytest.mark.long),
        ("false", "none"),
    ],
)
def test_the_program_gets_the_cure(script: str, said: str, tmp_path: Path) -> None:
    """`session_steps` answers as on a machine with that fault; the rest is the command itself."""
    told = "import sys; from cudadoctor.commands import run; from cudadoctor.commands.cli import main; "
    told += f"run.session_steps = lambda command: ({script!r}, 'A cause'); sys.argv = ['cudadoctor', *sys.argv[1:]]; main()"
    argv = ["run", "--cured", "--", "sh", "-c", "echo ${CURE-none}; exit 4"]
    done = subprocess.run([sys.executable, "-c", told, *argv], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (4, f"{said}\n")
    assert "cudadoctor: A cause" in done.stderr


def test_a_configuration_that_numba_cannot_read_is_set_aside_and_brought_back(tmp_path: Path) -> None:
    config = tmp_path / ".numba_config.yaml"
    config.write_text("\tdebug: 1\n")
    template = KNOWLEDGE.recipe("mend-numba-config").steps[0]
    assert template.verify is not None
    shell, verify, back = (str(line).replace("{numba_config}", str(config)) for line in (template.shell, template.verify, template.undo))
    assert applying.run(verify) != 0
    assert (applying.run(shell), applying.run(verify)) == (0, 0)
    assert (applying.run(back), config.exists()) == (0, True)


# ---------------------------------------------------------------- who holds a GPU
HOLDER = """
import ctypes, os, sys, threading, time
os.dup2(os.open(sys.argv[1], os.O_RDONLY), 200)
def churn():
    while True:
        for _ in range(50):
            os.close(os.open("/dev/null", os.O_RDONLY))
def wait():
    print("ready", flush=True)
    time.sleep(60)
threading.Thread(target=wait, daemon=True).start()
if sys.argv[2] == "churns":
    churn()
ctypes.CDLL(None).syscall(60, 0)  # the first thread alone ends
"""


@pytest.mark.skipif(sys.platform != "linux" or os.uname().machine != "x86_64", reason="the number of a system call")
@pytest.mark.parametrize("how", ["churns", "lost its first thread"])
def test_a_busy_holder_of_a_gpu_is_seen(how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = tmp_path / "nvidia0"
    node.touch()
    monkeypatch.setattr(applying, "_NODES", re.compile(re.escape(str(node))))
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(node), how], stdout=subprocess.PIPE, text=True) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "ready\n"
            time.sleep(0.2)
            assert [applying.held_by() for _ in range(30)] == [f"process {holder.pid} holds a GPU"] * 30
        finally:
            holder.kill()


def test_a_gpu_that_somebody_took_meanwhile_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = iter([None, "process 7 holds a GPU"])
    monkeypatch.setattr(applying, "held_by", lambda: next(looks))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(StoppedError, match="process 7 holds a GPU"):
        apply(step(f"touch {tmp_path}/gpu-reset"))
    assert not (tmp_path / "gpu-reset").exists()


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can be tricked")
def test_undoing_runs_no_interpreter_whose_packages_another_may_write(tmp_path: Path) -> None:
    python = tmp_path / "env" / "bin" / "python"
    packages = tmp_path / "env" / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    python.parent.mkdir(parents=True)
    packages.mkdir(parents=True)
    python.symlink_to(sys.executable)
    (tmp_path / "env" / "pyvenv.cfg").write_text(f"home = {os.path.dirname(os.path.realpath(sys.executable))}\n")
    (packages / "x.pth").write_text(f"import os; open({str(tmp_path / 'executed')!r}, 'w')\n")
    os.chown(packages, 1000, 1000)
    entry = journal.Entry(
        run="1", time=journal.now(), cause="x", number=1, step="reinstall-numba/1", values={}, python=str(python), tool="pip",
        packages=("numpy==1.0",), state="done", version=__version__,
    )  # fmt: skip
    journal.write(entry)
    with pytest.raises(StoppedError, match="may be written by another user"):
        undo(dry=True)
    assert not (tmp_path / "executed").exists()


# ---------------------------------------------------------------- a signal that ends the doctor alone
_SIGNALLED = """
import signal
import sys
signal.signal(signal.SIGQUIT, signal.SIG_DFL)  # a shell's background job ignores it, and what is ignored stays so
import msgspec
from cudadoctor.commands import cli, examining
from cudadoctor.model.recipe import Prescription
from tests.judging import KNOWLEDGE
from tests.test_applying_plan import live, step
slow, never = step("touch {mark}.begun; sleep 1; touch {mark}", undo="rm {mark}"), step("touch {mark}.never")
found = msgspec.structs.replace(live(), prescription=Prescription(cause="x", action="set-environment", steps=(slow, never)))
answer = type("Answer", (), {{"report": found, "steps": {{}}, "windows": False}})
examining.judge = lambda *_, **__: (answer, KNOWLEDGE)
sys.argv = ["cudadoctor", "fix", "--apply", *(word for kind in ("environment", "system", "reads") for word in ("--yes", kind))]
cli.main()
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 143), (signal.SIGQUIT, 143), (signal.SIGINT, 130)])
def test_a_signal_waits_for_the_step_and_says_what_it_may_have_done(number: signal.Signals, code: int, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    argv = [sys.executable, "-c", _SIGNALLED.format(mark=mark)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "XDG_STATE_HOME": str(tmp_path / "state")}
    process = subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
    end = time.monotonic() + 30
    while not Path(f"{mark}.begun").exists() and time.monotonic() < end:
        time.sleep(0.02)
    os.kill(process.pid, number)
    out, _ = process.communicate(timeout=30)
    assert process.returncode == code, out
    assert "Interrupted: this step may be done in part." in out
    assert f"rm {mark}" in out, "its undo"
    assert mark.exists(), "the step was let end"
    assert not Path(f"{mark}.never").exists()


@pytest.mark.parametrize("named", ["install-nvcc/99", "install-nvcc/abc", "install-nvcc/0", "install-nvcc", "no-such-recipe/1"])
def test_a_step_that_this_version_does_not_know_is_one_that_no_option_agrees_to(named: str) -> None:
    entry = journal.Entry(
        run="x", time="x", cause="x", number=1, step=named, values={}, python="", tool="", packages=None, state="done", version=__version__
    )
    assert command._kind_of(entry, KNOWLEDGE) == "destructive"


# ---------------------------------------------------------------- what an undo rests on
@pytest.mark.parametrize(
    "undo_command",
    ['rm -r "$HOME"/gpu-env', "rm -r {} && true", with_sudo("rm -r {} && ldconfig"), "mv {}.off {}", "true; rm -rf {}"],
)
def test_what_is_there_already_is_seen_however_the_undo_is_written(
    undo_command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "tom's"
    kept = home / "gpu-env"
    monkeypatch.setenv("HOME", str(home))
    given = (
        with_sudo(f"rm -r {shlex.quote(str(kept))} && ldconfig")
        if "sh -c" in undo_command
        else undo_command.replace("{}", shlex.quote(str(kept)))
    )
    assert applying.kept_already(given) is None
    (home / "gpu-env.off" if "mv" in given else kept).mkdir(parents=True)
    assert "is there already" in (applying.kept_already(given) or "")


@pytest.mark.parametrize("command_", ["rm -r $(pwd)/x", "rm /tmp/*.conf", "rm $OTHER/x"])
def test_an_undo_that_nobody_can_foresee_is_refused(command_: str) -> None:
    assert "not known beforehand" in (applying.kept_already(command_) or "")


# ---------------------------------------------------------------- what an undo must not take away
def ago(path: Path, seconds: float = 1e7) -> None:
    os.utime(path, (time.time() - seconds,) * 2)


def test_a_folder_that_a_step_made_is_moved_aside_with_what_came_into_it(tmp_path: Path) -> None:
    folder = tmp_path / "gpu-env"
    undo = f"mv --backup=numbered -T {folder} {folder}.undone"
    for name in ("thesis", "letters"):
        assert apply(step(f"mkdir {folder}", undo=undo))
        (folder / name).write_text("years of work")
        assert undone(undo)
    assert (tmp_path / "gpu-env.undone.~1~" / "thesis").read_text() == "years of work"
    assert (tmp_path / "gpu-env.undone" / "letters").read_text() == "years of work"
    assert not any("rm -r" in (one.undo or "") for recipe in KNOWLEDGE.recipes.values() for one in recipe.steps)


def profile_of(folder: Path, *, linked: bool) -> tuple[Path, str]:
    """A profile, by a link where one keeps such files elsewhere, and the undo of a step that copies it first."""
    profile = folder / ".bashrc"
    (folder / "real").write_text("export A=1\n")
    if linked:
        profile.symlink_to(folder / "real")
    else:
        (folder / "real").rename(profile)
    return profile, f"cp -p {profile}.kept {profile}\nrm {profile}.kept"


@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("old", [False, True])
def test_a_profile_that_was_changed_since_is_not_replaced(linked: bool, old: bool, tmp_path: Path) -> None:
    profile, undo = profile_of(tmp_path, linked=linked)
    assert applying.kept_already(undo) is None
    assert apply(step(f"cp -p {profile} {profile}.kept\nsed -i --follow-symlinks s/A=1/A=2/ {profile}", undo=undo))
    with profile.open("a") as stream:
        stream.write("mine\n")
    if old:
        ago(profile)
    with pytest.raises(StoppedError, match="was changed after this step"):
        undone(undo)
    assert profile.read_text() == "export A=2\nmine\n"
    profile.write_text("export A=2\n")
    assert undone(undo)
    assert (profile.read_text(), profile.is_symlink(), list(tmp_path.glob("*.kept"))) == ("export A=1\n", linked, [])


@pytest.mark.parametrize(
    ("shell", "undo"),
    [
        # A full disk ended the copy of a profile, and the undo cut the profile to it.
        ("head -c 5 {file} > {file}.kept\nfalse", "cp -p {file}.kept {file}\nrm {file}.kept"),
        # Docker's settings: the copy failed, and the undo would have removed the only one.
        ("test -e {file}.nothing\ncp {file} {file}.kept", "rm -f {file}\n[ ! -e {file}.kept ] || mv {file}.kept {file}"),
    ],
)
def test_where_no_whole_copy_was_kept_nothing_is_put_back_or_removed(shell: str, undo: str, tmp_path: Path) -> None:
    file = tmp_path / "settings"
    file.write_text("export A=1\n")
    undo = undo.format(file=file)
    with pytest.raises(StoppedError, match="Failed: it ended with"):
        apply(step(shell.format(file=file), undo=undo))
    with pytest.raises(StoppedError, match="as it was before this step, so it is not put back"):
        undone(undo)
    assert file.read_text() == "export A=1\n"


def test_what_was_done_to_a_file_before_the_end_was_noted_is_not_known(tmp_path: Path) -> None:
    """The journal's disk was full: nobody can tell the user's own lines from the step's."""
    profile, undo = profile_of(tmp_path, linked=False)
    before = applying.files_of(undo)
    assert applying.changed_since(undo, before, None) is not None  # there is no copy to put back
    profile.with_name(".bashrc.kept").write_text("export A=1\n")
    assert "it is not known what this step" in (applying.changed_since(undo, before, None) or "")


@pytest.mark.parametrize("touched", [False, True])
def test_a_file_that_root_alone_may_read_is_known_by_its_size_and_time(
    touched: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(path: str, mode: str) -> None:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(applying, "open", denied, raising=False)
    profile, undo = profile_of(tmp_path, linked=False)
    assert apply(step(f"cp -p {profile} {profile}.kept\nsed -i s/A=1/A=2/ {profile}", undo=undo))
    if touched:
        profile.write_text("export A=3\n")
        with pytest.raises(StoppedError, match="was changed after this step"):
            undone(undo)
    else:
        assert undone(undo)
    assert profile.read_text() == f"export A={3 if touched else 1}\n"


def test_where_nobody_can_look_nothing_is_taken_back(tmp_path: Path) -> None:
    """Unknown before and unknown after is not unchanged."""
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    undo = f"rm {loop}/file"
    left = applying.files_of(undo)
    assert "is not known: " in (applying.changed_since(undo, left, left) or "")


def test_an_undo_of_several_commands_is_shown_as_one_that_does_the_same() -> None:
    """Put one behind the other without a sign between, two runs of sed were one that emptied the file."""
    assert words.typed("sed -n p a\nsed -i s/x/y/ a") == "sed -n p a && sed -i s/x/y/ a"
    assert (
        words.typed("rm -f a\n[ ! -e b ] || mv b a\nsystemctl restart c") == "rm -f a && { [ ! -e b ] || mv b a; } && systemctl restart c"
    )
    assert words.typed("rm a") == "rm a"


@pytest.mark.parametrize("how", ["sed -i.before s/A/B/ {file}", "cp -p {file} {file}.before", "[ ! -e {file} ] || cp {file} {file}.before"])
def test_a_copy_of_somebodys_is_not_written_over(how: str, tmp_path: Path) -> None:
    file = tmp_path / "settings"
    file.write_text("A")
    assert applying.kept_already("", how.format(file=file)) is None
    (tmp_path / "settings.before").write_text("mine")
    with pytest.raises(StoppedError, match=r"Nothing was run: .*settings\.before is there already"):
        apply(step(how.format(file=file)))
    assert (tmp_path / "settings.before").read_text() == "mine"


def test_a_file_that_the_undo_puts_back_may_be_there(tmp_path: Path) -> None:
    """Docker's settings: the undo removes them, and puts the former ones back where there were some."""
    file = tmp_path / "daemon.json"
    file.write_text("{}")
    assert applying.kept_already(f"rm -f {file}\n[ ! -e {file}.before ] || mv {file}.before {file}") is None
    assert applying.kept_already(f"rm -f {file}") is not None


def test_an_undo_that_moved_nothing_back_is_not_called_done(tmp_path: Path) -> None:
    """mv -nT of coreutils 9.1 ends well where something stands there already."""
    kept, file = tmp_path / "x.off", tmp_path / "x"
    kept.write_text("")
    assert applying.not_put_back(f"mv -nT {kept} {file}") == str(kept)
    kept.unlink()
    assert applying.not_put_back(f"mv -nT {kept} {file}") is None


def test_what_is_not_to_be_overwritten_was_moved_away() -> None:
    """`mv -n` puts nothing back where the step left its file in its place, as sed -i does."""
    for recipe, _, one in STEPS:
        for line in (one.undo or "").split("\n"):
            words = line.split()
            if words[:1] == ["mv"] and words[1].startswith("-n"):
                scripts = (one.shell or "", *one.shells.values())
                away = f"{words[1]} {words[3]} {words[2]}"
                assert any(away in script for script in scripts), f"{recipe.id}: {one.undo}"


def test_every_program_of_an_undo_that_changes_files_is_known() -> None:
    """What else an undo writes to is not looked at before and after."""
    unknown = {"dd", "install", "ln", "rsync", "truncate", "tee", "unlink"}
    for recipe, _, one in STEPS:
        programs = {words[0] for line in (one.undo or "").split("\n") for words in applying._commands(line)}
        assert not programs & unknown, f"{recipe.id}: {one.undo}"


def test_every_undo_of_a_recipe_can_be_foreseen() -> None:
    for recipe, _, one in STEPS:
        for _, path in applying._put_back(re.sub(r"\{\w+\}", "/x", one.undo or "")):
            assert not applying._UNKNOWN.search(path), f"{recipe.id}: {one.undo}"


def test_lines_that_hand_a_variable_on_are_run_together(tmp_path: Path) -> None:
    assert apply(step(f'folder={tmp_path}\ntouch "$folder"/made', verify=f"test -e {tmp_path}/made"))


def test_a_line_may_install_the_program_of_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    script = f"install -m 755 /bin/true {tools}/new-tool\nnew-tool"
    with pytest.raises(StoppedError, match="Nothing was run: new-tool is not installed"):
        apply(step("new-tool"))
    assert apply(step(script, id="x"))
    with pytest.raises(StoppedError, match="Stopped: other-tool is not installed"):
        apply(step(f"touch {tmp_path}/made\nother-tool"))


def test_nothing_is_made_in_a_home_that_others_may_lead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(applying.inherited, "settings_off", lambda *_: {"HOME": "/nonexistent"})
    with pytest.raises(StoppedError, match="nothing is made there"):
        apply(step('mkdir "$HOME"/gpu-env'))
    assert not Path("/nonexistent").exists()


@pytest.mark.parametrize(
    "script", ["uv sync", "docker compose up -d", "pixi workspace system-requirements add cuda 13", "sed -i s/a/b/ pyproject.toml"]
)
def test_what_works_on_a_project_is_for_who_stands_in_it(script: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert not apply(step(script))
    assert "it is for the folder of your project" in capsys.readouterr().out


def test_the_verify_is_shown_before_anybody_agrees(capsys: pytest.CaptureFixture[str]) -> None:
    assert not apply(step("true", verify="test -e /etc"), dry=True)
    assert "Verify: test -e /etc" in capsys.readouterr().out
