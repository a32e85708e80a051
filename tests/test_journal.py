"""The journal of `fix --apply`: on the disk before a step begins, trusted only where nobody else may write it."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cudadoctor.sources import journal, trust
from cudadoctor.sources.journal import Entry, JournalError, State

resource = pytest.importorskip("resource", reason="Unix")
AS_ROOT = os.geteuid() == 0


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "cudadoctor"


def entry(run: str = "1", number: int = 1, state: State = "done", step: str = "remove-setting/1") -> Entry:
    return Entry(run=run, time=1.0, cause="x", number=number, step=step, values={"set_line": ("3",)}, state=state, version="1")


@contextmanager
def most_bytes(size: int) -> Iterator[None]:
    """A disk that takes no more than this."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)


def test_what_was_written_is_read_and_is_the_users_alone(folder: Path) -> None:
    assert journal.read() == ()
    journal.write(entry())
    assert journal.read() == (entry(),)
    assert (folder.stat().st_mode & 0o777, (folder / journal.NAME).stat().st_mode & 0o777) == (0o700, 0o600)


def test_a_full_disk_is_an_error_and_costs_no_later_entry(folder: Path) -> None:
    journal.write(entry())
    size = (folder / journal.NAME).stat().st_size
    with most_bytes(size), pytest.raises(JournalError):
        journal.write(entry(number=2))
    with most_bytes(size + 10), pytest.raises(JournalError, match="only a part"):
        journal.write(entry(number=2))
    journal.write(entry(number=3))
    assert [found.number for found in journal.read()] == [1, 3]


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file")
    with pytest.raises(JournalError):
        journal.write(entry())


@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_a_journal_that_others_may_write_is_not_used(folder: Path, mode: int) -> None:
    journal.write(entry())
    (folder / journal.NAME).chmod(mode)
    for use in (journal.read, lambda: journal.write(entry())):
        with pytest.raises(JournalError, match="may be written by another user"):
            use()


def test_a_folder_that_others_may_write_is_not_used(folder: Path) -> None:
    journal.write(entry())
    folder.chmod(0o777)
    for use in (journal.read, lambda: journal.write(entry())):
        with pytest.raises(JournalError, match="may be written by another user"):
            use()


@pytest.mark.skipif(not AS_ROOT, reason="only root can give a file away")
def test_another_users_journal_is_not_used(folder: Path) -> None:
    journal.write(entry())
    os.chown(folder / journal.NAME, 65534, 65534)
    with pytest.raises(JournalError):
        journal.read()


def test_a_link_is_not_followed(folder: Path, tmp_path: Path) -> None:
    journal.write(entry())
    kept = tmp_path / "elsewhere"
    (folder / journal.NAME).rename(kept)
    (folder / journal.NAME).symlink_to(kept)
    for use in (journal.read, lambda: journal.write(entry())):
        with pytest.raises(JournalError):
            use()
    assert kept.read_bytes().count(b"\n") == 1


@pytest.mark.skipif(not AS_ROOT, reason="only root can make a link another user's")
def test_a_link_of_another_user_on_the_way_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root who kept the HOME of another user (sudo -E): he would choose where root makes folders and files."""
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    victim, link = tmp_path / "victim", tmp_path / "home" / ".local" / "state"
    victim.mkdir()
    link.parent.mkdir(parents=True)
    link.symlink_to(victim)
    os.chown(link, 65534, 65534, follow_symlinks=False)
    for use in (lambda: journal.write(entry()), journal.read):
        with pytest.raises(JournalError, match="a link that another user made"):
            use()
    assert list(victim.iterdir()) == []


@pytest.mark.skipif(not AS_ROOT, reason="only root can be tricked")
def test_a_folder_of_another_user_on_the_way_is_not_used(folder: Path) -> None:
    journal.write(entry())
    os.chown(folder.parent, 65534, 65534)
    for use in (lambda: journal.write(entry()), journal.read):
        with pytest.raises(JournalError, match="may be written by another user"):
            use()


@pytest.mark.skipif(not hasattr(os, "O_PATH") or not AS_ROOT, reason="only root can make a link another user's")
def test_a_link_that_comes_after_the_look_is_not_followed(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal.write(entry())
    folder.parent.rename(tmp_path / "elsewhere")
    folder.parent.symlink_to(tmp_path / "elsewhere")
    os.chown(folder.parent, 65534, 65534, follow_symlinks=False)
    monkeypatch.setattr(trust, "led_elsewhere", lambda _: None)  # as it was a moment ago
    for use in (lambda: journal.write(entry()), journal.read):
        with pytest.raises(JournalError):
            use()


def test_parts_of_lines_are_passed_over(folder: Path) -> None:
    journal.write(entry())
    with (folder / journal.NAME).open("ab") as stream:
        stream.write(b'\xff\xfe\n{"run":')
    journal.write(entry(run="3"))
    assert [found.run for found in journal.read()] == ["1", "3"]


def test_behind_a_line_that_another_release_wrote_nothing_is_undone(folder: Path) -> None:
    """What it did is not known, and an older run must not be taken back before it."""
    journal.write(entry())
    line = (folder / journal.NAME).read_bytes()
    for other in (line.replace(b'"run":', b'"more":1,"run":'), b'{"run": "2"}\n'):
        (folder / journal.NAME).write_bytes(line + other)
        with pytest.raises(JournalError, match="is no entry of this release"):
            journal.read()


def test_a_program_that_outlasts_the_doctor_keeps_others_out(folder: Path) -> None:
    with journal.alone() as lock:
        child = subprocess.Popen(["sleep", "60"], pass_fds=(lock,))
    try:
        with pytest.raises(JournalError, match="at this moment"), journal.alone():
            pass
    finally:
        child.kill()
        child.wait()
    with journal.alone():
        pass


def test_the_last_run_is_undone_backwards_without_what_was_undone() -> None:
    entries = (entry("1", 1), entry("2", 1, "begun"), entry("2", 1, "done"), entry("2", 2, "failed"), entry("2", 4, "begun"))
    assert [(found.run, found.number, found.state) for found in journal.last_run(entries)] == [
        ("2", 4, "begun"), ("2", 2, "failed"), ("2", 1, "done"),
    ]  # fmt: skip
    after = (*entries, entry("2", 4, "undone"), entry("2", 2, "kept"))
    assert [found.number for found in journal.last_run(after)] == [1]
    assert [found.run for found in journal.last_run((*after, entry("2", 1, "undone")))] == ["1"]


def test_of_a_journal_that_grew_long_the_end_counts(folder: Path) -> None:
    """With the packages of an environment in each entry it does within a hundred steps."""
    journal.write(entry(run="old", state="begun"))
    with (folder / journal.NAME).open("ab") as stream:
        stream.write(b"x" * journal._MOST + b"\n")
    journal.write(entry(run="old", state="undone"))
    journal.write(entry(run="new"))
    assert journal.last_run(journal.read()) == (entry(run="new"),)


def test_without_a_home_there_is_no_journal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    monkeypatch.setenv("HOME", "nowhere")
    with pytest.raises(JournalError, match="no home folder"):
        journal.write(entry())


def test_a_line_with_what_no_word_holds_is_passed_over(folder: Path) -> None:
    journal.write(entry())
    path = folder / journal.NAME
    path.write_bytes(path.read_bytes() * 2 + path.read_bytes().replace(b'"x"', b'"x\\u0000"'))
    assert journal.read() == (entry(), entry())
