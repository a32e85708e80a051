"""A word for a shell is one word there, whatever it is, and nothing else."""

from __future__ import annotations

import re
import shlex
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cudadoctor.knowledge.load import load
from cudadoctor.model.judgement import Question
from cudadoctor.prescribe import placeholders, shells
from cudadoctor.prescribe.dialect import fill_powershell, for_cmd
from cudadoctor.within.judging import answered
from tests.command_line import changed
from tests.judging import KNOWLEDGE

SINGLE = "'\u2018\u2019\u201a\u201b"  # what PowerShell takes for a single quote
ATTACKS = (
    "x\u2019;Start-Process calc;\u2018", "x';calc;'", "x\u201a;calc", "$(calc)", "`$x", "a;b", "a|b", "a&b", "@x", "(calc)", "{calc}", "%PATH%", "x\u2013y",
    "O\u2019Brien", "a b", "a,b", "#x", "~", "<x", ">x", '"x"', "\u201cx\u201d", "é", "-e calc", "--%", "--% ; calc", "",
)  # fmt: skip


def words_of_powershell(text: str) -> list[str]:
    """The words of a command of bare and single-quoted words, as PowerShell's own tokenizer takes them (about_Quoting_Rules)."""
    words, at = [], 0
    while at < len(text):
        if text[at] == " ":
            at += 1
            continue
        word = ""
        while at < len(text) and text[at] != " ":
            if text[at] not in SINGLE:
                assert re.match(r"[A-Za-z0-9_.:\\/=+-]", text[at]), f"{text[at]!r} is bare"
                word, at = word + text[at], at + 1
                continue
            at += 1
            while True:
                assert at < len(text), "the quotes stay open"
                if text[at] in SINGLE:
                    if at + 1 < len(text) and text[at + 1] in SINGLE:
                        word, at = word + text[at], at + 2
                        continue
                    at += 1
                    break
                word, at = word + text[at], at + 1
        words.append(word)
    return words


def words_of_fish(text: str) -> list[str]:
    """The words of a command of bare, quoted and escaped parts, as fish takes them: within single quotes \\' and \\\\ are escapes."""
    words, at, word, quote = [], 0, "", ""
    while at < len(text):
        letter = text[at]
        if quote:
            if letter == "\\" and text[at + 1 : at + 2] in (quote, "\\"):
                word, at = word + text[at + 1], at + 1
            elif letter == quote:
                quote = ""
            else:
                assert quote == "'" or letter not in "$\\"
                word += letter
        elif letter == "\\":
            word, at = word + text[at + 1], at + 1
        elif letter in "'\"":
            quote = letter
        elif letter == " ":
            words, word = [*words, word], ""
        else:
            assert re.match(r"[\w@%+=:,./-]", letter), f"{letter!r} is bare"
            word += letter
        at += 1
    assert not quote, "the quotes stay open"
    return [*words, word]


@given(st.text(st.sampled_from("'\"\\;$ ab`#"), max_size=12).filter(bool))
def test_it_stays_one_word_in_fish_and_sh(word: str) -> None:
    assert words_of_fish(shells.sh(word)) == [word]
    assert shlex.split(shells.sh(word)) == [word]


@pytest.mark.parametrize("word", ['/x" --channel evil "', "C:\\My Env\\"])
def test_a_word_that_powershell_takes_apart_is_in_no_command(word: str) -> None:
    """Up to 7.2 it puts double quotes around a word with blanks, and escapes nothing in it."""
    assert fill_powershell("conda install -p {prefix} numba", {"prefix": word}) is None
    assert fill_powershell("conda install -p {prefix} numba", {"prefix": ("a", word)}) is None
    assert fill_powershell("$Env:CUDA_HOME = {cuda_home}", {"cuda_home": "C:\\My Env\\"}) == "$Env:CUDA_HOME = 'C:\\My Env\\'"
    assert fill_powershell("conda install -p {prefix} numba", {"prefix": "C:\\My Env"}) == "conda install -p 'C:\\My Env' numba"


@pytest.mark.parametrize(
    "word", ["C:\\a&calc\\env", "C:\\a|b", "C:\\a^b", "C:\\%TEMP%\\env", "C:\\a %X% b", "numpy<2.5&calc", "a>b", "numpy>=2.5"]
)
def test_of_a_batch_file_cmd_reads_the_line_once_more(word: str) -> None:
    assert fill_powershell("conda install -p {prefix}", {"prefix": word}) is None
    assert fill_powershell("{python} -m pip install {word}", {"python": "C:\\p.exe", "word": word}) is not None


def test_a_bound_and_a_blank_pass_a_batch_file() -> None:
    assert fill_powershell("conda install -p {prefix} {bound}", {"prefix": "C:\\a & b", "bound": "numpy<2.5"}) is not None


def test_powershell_takes_no_path_for_a_pattern() -> None:
    """Move-Item C:\\work[a-z]\\x would move what stands in another folder."""
    windows = [step.shells["windows"] for recipe in load().recipes.values() for step in recipe.steps if "windows" in step.shells]
    moving = [line for line in windows if re.search(r"(?:Move|Rename|Remove|Copy)-Item (?!Env:)", line)]
    assert len(moving) > 3
    assert all("-Item -LiteralPath " in line for line in moving)


@pytest.mark.parametrize("word", ATTACKS)
def test_it_stays_one_word(word: str) -> None:
    assert words_of_powershell(shells.powershell(word)) in ([word], [] if not word else [word])
    assert subprocess.run(["sh", "-c", f"printf %s {shells.sh(word)}"], capture_output=True, check=True, text=True).stdout == word
    in_cmd = shells.cmd(word)
    assert in_cmd is None or not set(in_cmd[1:-1]) & set('"%!^&|<>()\n')


@given(st.text(st.sampled_from(SINGLE + '"`$;&| ab-@(){}'), max_size=12).filter(bool))
def test_it_stays_one_word_whatever_it_is(word: str) -> None:
    assert words_of_powershell(shells.powershell(word)) == [word]
    assert shells.unquoted(shells.powershell(word)[1:-1]) == word or shells.powershell(word) == word


def test_the_form_for_cmd_is_the_same_word() -> None:
    assert for_cmd(f"& {shells.powershell('C:/Users/O’Brien/python.exe')} -m pip list") is None, "there is no safe form"
    assert for_cmd("$Env:X = 'it''s'") == 'set "X=it\'s"'


@pytest.mark.parametrize(
    "path",
    [
        "reboot",
        "python3; reboot",
        "/usr/bin/reboot",
        "/tmp/x",
        "./python3",
        "python3",
        "/usr/bin/python3\nreboot",
        "/usr/bin/notpython",
        "sh -c x /python",
        "C:python.exe",
    ],
)
def test_an_interpreter_is_a_whole_path_with_its_name(path: str) -> None:
    assert not placeholders.fits("python", path, KNOWLEDGE)
    assert placeholders.fits("python", "/home/O\u2019Brien/env/bin/python3.12", KNOWLEDGE)
    assert placeholders.fits("python", "C:\\x\\python.exe", KNOWLEDGE)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("nvcc_folder", "/dev/shm/.evil/bin"),
        ("nvcc_folder", ".:/x/bin"),
        ("cuda_home", "/tmp/cuda"),
        ("path", "/home/a/../b"),
        ("prefix", "relative/env"),
        ("kept_path", "/opt/a:/dev/shm/.evil"),
        ("kept_path", "/opt/a:.:../x"),
        ("kept_path", "/opt/a:"),
        ("python", "\\\\203.0.113.9\\share\\python.exe"),
        ("python", "/dev/shm/x/../x/python3"),
        ("python", "/opt/env/../../tmp/python3"),
        ("new_path", "/lib64/my_ld-linux-x86-64.so.2"),
        ("new_path", "/etc/my_passwd"),
        ("new_path", "/home/a/my_notes.txt"),
        ("numba_config", "/etc/shadow"),
        ("python", "/var/lock/python3"),
        ("python", "/net/evil.example.com/x/python3"),
        ("python", "/private/tmp/python3"),
        ("python", "C:\\Users\\Public\\python.exe"),
        ("kept_path", "/opt/a:/run/lock/cuda"),
        ("python", "/usr/tmp/env/bin/python3"),
        ("python", "C:\\ProgramData.\\python.exe"),
        ("python", "C:\\Temp \\python.exe"),
        ("python", "C:\\PROGRA~3\\python.exe"),
        ("python", "C:\\Users\\All Users\\x\\python.exe"),
        ("libcuda_folder", "/usr/tmp/evil"),
        ("python", "/mnt/c/Users/Public/x/python3"),
        ("python", "C:\\Windows\\System32\\spool\\drivers\\color\\python.exe"),
        ("python", "/mnt/wsl/env/bin/python"),
        ("python", "/afs/evil.com/python3"),
        ("python", "/sysroot/var/tmp/env/bin/python"),
        ("python", "/Tmp/env/bin/python"),
        ("python", "C:\\tmp\\e\\python.exe"),
        ("python", "C:\\Windows\\Registration\\CRMLog\\python.exe"),
        ("python", "C:\\Windows\\System32\\Microsoft\\Crypto\\RSA\\MachineKeys\\python.exe"),
        ("units", "-Hhost.example.service"),
        ("user", "--reference=/etc/shadow"),
        ("set_line", "-x"),
        ("group", "google-sudoers"),
        ("group", "incus-admin"),
        ("group", "docker"),
    ],
)
def test_no_recorded_place_leads_a_command_elsewhere(name: str, value: str) -> None:
    assert not placeholders.fits(name, value, KNOWLEDGE)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("nvcc_folder", "/usr/local/cuda-12.4/bin"),
        ("prefix", "C:\\Users\\a b\\env"),
        ("kept_path", "/usr/local/cuda/lib64:/opt/x/lib"),
        ("path", "/home/a/tmp/numba.py"),
        ("new_path", "/home/a/my_numba.py"),
        ("new_path", "/home/a/my_torch"),
        ("numba_config", "/home/a/.numba_config.yaml"),
        ("group", "video"),
        ("group", "vglusers"),
    ],
)
def test_ordinary_places_stay(name: str, value: str) -> None:
    assert placeholders.fits(name, value, KNOWLEDGE)


@pytest.mark.parametrize("name", ["x\u2019;Start-Process calc;\u2018", "O\u2019Brien"])
def test_a_recorded_path_adds_no_command_to_a_script_for_windows(name: str) -> None:
    evidence = changed(
        "windows-healthy-rtx3060", {"python-env": lambda text: text.replace('"path": "C:\\\\', f'"path": "C:\\\\{name}\\\\', 1)}
    )
    answer = answered(Question(machines=(evidence,), steps_for=("numba-too-old",), shell=True), KNOWLEDGE)
    assert answer.windows
    commands = [step.shell for step in answer.steps["numba-too-old"].steps if step.shell and step.shell.startswith("& ")]  # type: ignore[union-attr]
    assert commands
    for command in commands:
        path = words_of_powershell(command.removeprefix("& ").split(" -m ")[0])
        assert len(path) == 1
        assert name in path[0]
        assert path[0].endswith("python.exe")


@pytest.mark.parametrize(
    "requirement", ["evil @ https://example.org/x.whl", "evil", "numpy; os_name=='posix'", "numpy @ file:///tmp/x", "nump y"]
)
def test_a_message_has_nothing_strange_installed(requirement: str) -> None:
    known = KNOWLEDGE.conditions["packages"]["of-python"]
    assert placeholders._requirement(requirement, known) is None
    assert placeholders._requirement("numpy<2.3", known) == "numpy<2.3"


@pytest.mark.parametrize("word", ATTACKS)
def test_what_is_to_be_typed_on_windows_means_the_same_in_both_its_shells(word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shells, "ON_WINDOWS", True)
    typed = shells.typed(word)
    assert typed in (word, f'"{word}"', "NAME")
    assert not set(typed) & set("$`&|;<>()%^\u2018\u2019\u201c\u201d")
    assert shells.typed("C:\\logs\\a.txt") == "C:\\logs\\a.txt"
    assert shells.typed("C:\\my logs\\a.txt") == '"C:\\my logs\\a.txt"'
