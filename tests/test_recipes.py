"""The recipes: every step renders for every distribution, no value can add a command, and every cause is answered."""

from __future__ import annotations

import itertools
import re
import shlex
import subprocess
from functools import cache
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cudadoctor.model.facts import Facts
from cudadoctor.model.recipe import Recipe, StepTemplate
from cudadoctor.model.values import (
    DEVICE_NODES,
    DRIVER_PACKAGES,
    KERNEL,
    LADDER,
    NVML,
    PCI,
    PROCESSES,
    PYTHON,
    TOOLKITS,
    USER,
    ConfigLine,
    Ladder,
    Process,
    Processes,
    PythonEnvironment,
    PythonPackage,
    Toolkit,
    Toolkits,
)
from cudadoctor.model.version import ComputeCapability, CudaVersion, PackageVersion
from cudadoctor.prescribe import CHECK_AGAIN, CONDITIONS, placeholders, prescribe, render_step
from cudadoctor.prescribe.shells import fill_shell, names, quoted, with_sudo
from cudadoctor.prescribe.steps import case_of
from tests.cases import every
from tests.facts_builder import ADDRESS, bus, facts_of, gpu, nodes, nvml, nvml_gpu, packages, user
from tests.judging import KNOWLEDGE
from tests.prescriptions import (
    ALWAYS_KNOWN,
    HOPPER,
    KEPLER,
    RELEASE,
    RELEASES,
    ROOT_USER,
    STEPS,
    commands,
    finding,
    shells,
    written,
)

PACKAGES = {"debian", "ubuntu", "fedora", "rhel", "arch", "suse"}  # families by how packages are installed
SYSTEMS = {"ostree", "transactional", "nixos", "windows"}  # what sets a system apart besides
FAMILIES = PACKAGES | SYSTEMS


# ---------------------------------------------------------------- the files
def test_every_condition_is_used_and_every_use_is_known() -> None:
    words = {word.lstrip("!") for _, _, step in STEPS for asked in (step.when, step.known_by) for word in (asked or "").split()}
    assert {word for word in words if ":" not in word} == CONDITIONS.keys() | KNOWLEDGE.conditions["says"].keys()
    assert not CONDITIONS.keys() & KNOWLEDGE.conditions["says"].keys(), "the words would never be asked"
    assert {word.partition(":")[0] for word in words if ":" in word} == {"has", "value"}
    assert {word.partition(":")[2] for word in words if word.startswith("has:")} <= set(KNOWLEDGE.placeholder_words)


def test_every_placeholder_has_words_for_when_it_is_not_known() -> None:
    texts = [text for _, _, step in STEPS for text in (step.text, step.shell, step.verify, step.undo, *step.shells.values()) if text]
    used = {name for text in texts for name in names(text)}
    assert used <= set(KNOWLEDGE.placeholder_words) | ALWAYS_KNOWN
    assert set(KNOWLEDGE.placeholder_words) <= used


@every("recipe, number, step", STEPS)
def test_a_step_is_well_formed(recipe: Recipe, number: int, step: StepTemplate) -> None:
    assert set(step.shells) <= FAMILIES
    assert not (step.shell and set(step.shells) - SYSTEMS), "a command for all, and others for families of packages"
    assert re.search("!", step.text) is None
    for text in (step.shell, step.undo, *step.shells.values()):
        if text:
            assert "sudo" not in text, "sudo is put in front when the step is written"
            if re.search(
                r"(?:^|[;&|] *)(apt-get|dnf|zypper|pacman|modprobe|mknod|reboot|ldconfig$|dmesg|mokutil|usermod)\b|> /(etc|sys)/",
                text,
                re.MULTILINE,
            ):
                assert step.needs_root


def test_powershell_stands_apart() -> None:
    """What is written for Windows is not for a Linux shell, and the other way round."""
    for recipe, _, step in STEPS:
        for family, text in step.shells.items():
            foreign = re.search(r"\b(?:Get|Set|Remove|New|Move|Restart|Stop)-[A-Z]\w+|\$Env:|SilentlyContinue", text)
            assert (family == "windows") >= (foreign is not None), f"{recipe.id}: {text}"
        assert re.search(r"\b(?:Get|Remove|Move)-[A-Z]\w+ ", (step.shell or "").split("'")[0]) is None, (
            f"{recipe.id}: a shell of its own: windows"
        )


DIGITS = {"pid", "parent", "start_low", "start_high", "parent_start_low", "parent_start_high", "major", "old_major", "lxc"}


def _outside_quotes(text: str) -> str:
    return re.sub(r"""'[^']*'|"(?:\\.|[^"\\])*\"""", "", text)


@every("recipe, number, step", STEPS)
def test_no_placeholder_stands_inside_quotes(recipe: Recipe, number: int, step: StepTemplate) -> None:
    """A quoted value inside quotes would be unquoted again. Numbers are checked to be numbers and may stand anywhere."""
    for text in (step.shell, step.verify, step.undo, *step.shells.values()):
        for name in names(text or ""):
            assert name in DIGITS or (text or "").count(f"{{{name}}}") == _outside_quotes(text or "").count(f"{{{name}}}")


# ---------------------------------------------------------------- every step, every distribution, hostile values
EVIL = "x'; touch /tmp/evil; $(id) `id` \"&& id #"
PLAIN = "plain"


def state_with(word: str) -> dict[Any, Any]:
    """Facts of which every text that may hold anything holds this word."""
    folder = f"/opt/{word}"
    process = Process(pid=4711, ppid=4710, user=word, own=True, start_time=1.7e9, state="defunct")
    python = PythonEnvironment(
        path=f"{folder}/bin/python", version="3.12.3", prefix=folder, conda=word,
        packages=(PythonPackage(name="numba", version=PackageVersion("0.66.0")),),
        numba_config=(ConfigLine(path=f"{folder}/.numba_config.yaml", line=1, text="enable_cudasim: 1"),),
    )  # fmt: skip
    return {
        PCI: bus(gpu(device=HOPPER)),
        KERNEL: RELEASE,
        USER: user(word, 1000),
        DEVICE_NODES: nodes("nvidia0", "nvidiactl", mode="crw-rw----", group=word),
        PYTHON: python,
        PROCESSES: Processes(processes=(process, Process(pid=4710, start_time=1.6e9))),
        TOOLKITS: Toolkits(toolkits=(Toolkit(path=folder, has_nvcc=True, rule="/usr/local/cuda"),)),
        NVML: nvml(gpus=(nvml_gpu(compute_capability=ComputeCapability("9.0")),)),
        DRIVER_PACKAGES: packages("nvidia-utils-535", "libnvidia-compute-535", "linux-modules-nvidia-535-open-6.8.0-40-generic"),
        LADDER: Ladder(cuda=CudaVersion("12.4"), library_path=f"{folder}/stubs/libcuda.so.1"),
    }


def values_with(word: str) -> dict[str, str]:
    return {
        "pid": "4711", "pids": "4711", "address": ADDRESS, "kept": f"/a/{word}:/b", "path": f"/opt/{word}/libcuda.so.1",
        "requirement": "numpy<2.5", "variable": "CUDA_HOME", "library": "580.1", "module": "570.2",
    }  # fmt: skip


@cache
def all_rendered(word: str, distro: str | None, root: bool) -> tuple[tuple[str | None, ...], ...]:
    """Command, check and way back of every step, with this word in every place that may hold anything."""
    state = {**state_with(word), **({USER: ROOT_USER} if root else {})}
    case = msgspec.structs.replace(case_of(finding("libcuda-missing"), values_with(word), facts_of(state), KNOWLEDGE, distro), pid=4711)
    found = []
    for _, _, step in STEPS:
        made = render_step(step, case)
        assert made.text
        assert "{" not in re.sub(r"`[^`]*`", "", made.text), "a placeholder is left"
        found.append((made.shell, made.verify, made.undo))
    return tuple(found)


def test_names_of_other_systems_do_not_leak_into_texts() -> None:
    for _, _, step in STEPS:
        assert "{" not in re.sub(r"\{[a-z][a-z0-9_]*\}|`[^`]*`", "", step.text), step.text


@cache
def _words(text: str) -> tuple[str, ...]:
    """The words of a command as a shell splits them; what is handed to `sh -c` is split once more."""
    words = shlex.split(text.replace("\n", " ; "), posix=True)
    parts = (_words(word) if words[max(0, at - 2) : at] == ["sh", "-c"] else (word,) for at, word in enumerate(words))
    return tuple(word for part in parts for word in part)


# One of each way to write a command; the derivatives differ in the choice of the driver alone.
DIALECTS = (
    "ubuntu-24.04", "debian-12", "fedora-42", "silverblue-42", "rhel-9.4", "centos-7", "arch", "manjaro", "opensuse-leap-15.6", "opensuse-microos",
    "nixos-25.05", "gentoo", "wsl-ubuntu-22.04",
)  # fmt: skip


@every("distro", DIALECTS)
def test_every_step_renders_and_no_value_adds_a_command(distro: str) -> None:
    for root in (False, True):
        both = zip(STEPS, all_rendered(EVIL, distro, root), all_rendered(PLAIN, distro, root), strict=True)
        for (recipe, number, _), evil, plain in both:
            for bad, good in zip(evil, plain, strict=True):
                assert bad is None or good is not None, f"{recipe.id}, step {number}"  # what has no such form adds nothing
                if bad is not None and good is not None and bad != good:
                    assert _words(bad) == tuple(word.replace(PLAIN, EVIL) for word in _words(good)), f"{recipe.id}, step {number}"


@every("distro", DIALECTS)
def test_every_command_parses(distro: str) -> None:
    lines = [text for word in (EVIL, PLAIN) for root in (False, True) for step in all_rendered(word, distro, root) for text in step if text]
    for text in dict.fromkeys(lines):
        shlex.split(text)  # an open quote, which the next text would close
    for shell in ("bash", "sh"):
        result = subprocess.run([shell, "-n"], input="\n".join(dict.fromkeys(lines)), text=True, capture_output=True, check=False)
        assert result.returncode == 0, result.stderr


EVILS = (
    EVIL,
    "$(reboot)",
    "`reboot`",
    "x;reboot",
    "x&&reboot",
    "x|reboot",
    "x\nreboot",
    "x>/etc/passwd",
    "-rf",
    "--index-url=http://x",
    "{path}",
)


_WRITTEN: dict[
    tuple[str, tuple[tuple[str, Any], ...]], list[str | None]
] = {}  # many evils fit the same places: the plain words there, once


@every("evil", EVILS)
@pytest.mark.parametrize("distro", ["ubuntu-24.04", "fedora-42", "arch", "nixos-25.05"])
def test_whatever_every_parameter_holds_stays_one_word(distro: str, evil: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each placeholder at once, past the sources that give it: either its form refuses the value, or it is quoted."""
    plain = "plain-word"

    def written(given: tuple[tuple[str, Any], ...]) -> list[str | None]:
        if (distro, given) not in _WRITTEN:
            monkeypatch.setattr(placeholders, "_SOURCES", (lambda case: given,))
            case = case_of(finding("libcuda-missing"), {}, facts_of(state_with(PLAIN)), KNOWLEDGE, distro)
            steps = [render_step(step, case) for _, _, step in STEPS]
            _WRITTEN[distro, given] = [text for step in steps for text in (step.shell, step.verify, step.undo)]
        return _WRITTEN[distro, given]

    for values in (lambda word: word, lambda word: (word, word)):
        fitting = [name for name in KNOWLEDGE.placeholder_words if placeholders.fits(name, values(evil), KNOWLEDGE)]
        bads, goods = (written(tuple((name, values(word)) for name in fitting)) for word in (evil, plain))
        for bad, good in zip(bads, goods, strict=True):
            if bad is not None and good is not None and bad != good:
                assert _words(bad) == tuple(word.replace(plain, evil) for word in _words(good))


# ---------------------------------------------------------------- Windows
def test_windows_gets_powershell_without_sudo() -> None:
    for (recipe, number, _), step in zip(STEPS, all_rendered(PLAIN, "windows-11", False), strict=True):
        for text in step:
            for sign in ("sudo", "/etc/", "apt-get", "$(", "2>/dev/null", "export ", "unset "):
                assert sign not in (text or "").replace("vars unset", ""), f"{recipe.id}, step {number}: {text}"


def _unquoted(text: str) -> str:
    """What PowerShell reads outside of single quotes, where '' is one."""
    return re.sub(r"'(?:[^']|'')*'", "", text)


def test_no_value_adds_a_command_in_powershell() -> None:
    """A double quote would end the word on its way to a program: such a value is in no command but one that sets a variable."""
    seen = 0
    evil = EVIL.replace('"', "")
    rendered = (all_rendered(value, "windows", False) for value in (evil, PLAIN, EVIL))
    for (recipe, number, _), bad_step, good_step, torn_step in zip(STEPS, *rendered, strict=True):
        for bad, good, torn in zip(bad_step, good_step, torn_step, strict=True):
            assert (bad is None) == (good is None)
            assert torn is None or torn == good or torn.startswith("$Env:")
            if bad is not None and good is not None and bad != good:
                seen += 1
                assert "touch" not in _unquoted(bad), f"{recipe.id}, step {number}: {bad}"
                assert evil.replace("'", "''") in bad
    assert seen


def test_a_program_in_quotes_is_called_in_powershell() -> None:
    python = PythonEnvironment(path="C:\\My Files\\env\\python.exe", version="3.12.3", prefix="C:\\My Files\\env", virtual=True)
    found = shells(written("toolkit-missing", {PYTHON: python}, distro="windows"))
    assert found[0] == "& 'C:\\My Files\\env\\python.exe' -m pip install 'numba-cuda[cu12]' 'numpy<2.5'"
    moved = shells(written("python-module-shadowed", {}, {"path": "C:\\My Files\\numba.py"}, distro="windows"))
    assert moved == ["Move-Item -LiteralPath 'C:\\My Files\\numba.py' -Destination 'C:\\My Files\\my_numba.py'"]


def test_a_value_of_the_wrong_form_leaves_the_step_in_words() -> None:
    found = written("gpu-memory-held-by-others", {}, {"pid": "1; reboot", "start_time": "soon"})
    assert "1; reboot" not in commands(found)
    for path in ("/tmp/a\nreboot", "-rf", "/tmp/\x1b[2J"):
        found = written("python-module-shadowed", {}, {"path": path})
        assert shells(found) == []


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1))
def test_quoting_keeps_a_value_one_word(value: str) -> None:
    assert shlex.split(quoted(value)) == [value]
    command = fill_shell("echo {path}", {"path": value})
    assert command is not None
    assert shlex.split(command) == ["echo", value]


# ---------------------------------------------------------------- sudo
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("modprobe nvidia", "sudo modprobe nvidia"),
        ("apt-get install -y 'a b'", "sudo apt-get install -y 'a b'"),
        (
            'mknod /dev/x c "$(awk \'$2 == "u" {print $1}\' /proc/devices)" 0',
            'sudo mknod /dev/x c "$(awk \'$2 == "u" {print $1}\' /proc/devices)" 0',
        ),
        ("echo a > /etc/b", "echo a | sudo tee /etc/b > /dev/null"),
        ("printf '%s\\n' 'a b' > /etc/b.conf", "printf '%s\\n' 'a b' | sudo tee /etc/b.conf > /dev/null"),
        ("echo a > /etc/b > /etc/c", "sudo sh -c 'echo a > /etc/b > /etc/c'"),
        ("cat a > /etc/b", "sudo sh -c 'cat a > /etc/b'"),
        ("dmesg | grep -iE 'a|b'", "sudo sh -c \"dmesg | grep -iE 'a|b'\""),
        ("dmesg | grep '$'", "sudo sh -c 'dmesg | grep '\"'\"'$'\"'\"''"),
        ("dmesg | tail", "sudo sh -c 'dmesg | tail'"),
        ("[ -c /dev/x ] || true", "sudo sh -c '[ -c /dev/x ] || true'"),
        ("echo `id`", "sudo sh -c 'echo `id`'"),
        ("a\nb; c", "sudo a\nsudo sh -c 'b; c'"),
    ],
)
def test_sudo_covers_the_whole_command(line: str, expected: str) -> None:
    assert with_sudo(line) == expected


def test_root_needs_no_sudo() -> None:
    assert "sudo" in commands(written("driver-not-loaded", {USER: user()}))
    assert "sudo" in commands(written("driver-not-loaded", {}))
    assert "sudo" not in commands(written("driver-not-loaded", {USER: ROOT_USER}))


# ---------------------------------------------------------------- causes and recipes
def test_as_root_no_line_sets_a_name_for_the_next() -> None:
    """sudo stands before each line: a name that one sets is unknown to the next."""
    scripts = (text for recipe in KNOWLEDGE.recipes.values() for step in recipe.steps if step.needs_root
               for text in (step.shell, step.undo, *step.shells.values()) if text is not None and "\n" in text.strip())  # fmt: skip
    assert [text for text in scripts if re.search(r"^\s*\w+=\S", text, re.MULTILINE)] == []


@every("distro, cause", itertools.product(RELEASES, sorted(KNOWLEDGE.causes)), share=7)
def test_every_cause_gives_steps_that_end_with_looking_again(distro: str, cause: str) -> None:
    for state in ({PCI: bus(gpu()), KERNEL: RELEASE}, {}):
        found = prescribe(finding(cause), {}, facts_of(state), KNOWLEDGE, distro)
        assert found is not None
        assert found.no_software_fix == KNOWLEDGE.cause(cause).no_software_fix
        assert found.cause == cause
        assert [step.verify for step in found.steps][-1] == CHECK_AGAIN
        assert [step.verify for step in found.steps].count(CHECK_AGAIN) == 1
        restarts = [step for step in found.steps if (step.shell or "").endswith(("reboot", "Restart-Computer"))]
        assert len(restarts) <= 1
        assert all(step.kind == "restart" for step in restarts)
        for step in found.steps:
            assert step.text
            assert not names(step.text), step.text
            assert "None" not in step.text, step.text


def test_no_root_no_steps() -> None:
    assert prescribe(None, {}, Facts(()), KNOWLEDGE, "ubuntu-24.04") is None


def test_an_unknown_distribution_gets_words_and_the_users_word_fills_them_in() -> None:
    state = {PCI: bus(gpu(device=KEPLER)), KERNEL: RELEASE}
    words = written("driver-not-installed", state, distro=None)
    assert "install" not in commands(words)
    text = " ".join(step.text for step in words.steps)
    assert "470" in text
    assert "nvidia-driver-470" in text
    assert "akmod-nvidia-470xx" in text
    assert "ubuntu-drivers install nvidia:470" in commands(written("driver-not-installed", state, distro="ubuntu-22.04"))
