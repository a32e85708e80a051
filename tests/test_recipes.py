"""The recipes: every step renders for every distribution, no value can add a command, and every cause is answered."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator
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
from cudadoctor.prescribe import CHECK_AGAIN, CONDITIONS, prescribe, render_step
from cudadoctor.prescribe.placeholders import WORDS
from cudadoctor.prescribe.shellwords import fill_shell, names, quoted, with_sudo
from cudadoctor.prescribe.steps import case_of
from tests.facts_builder import ADDRESS, bus, facts_of, gpu, nodes, nvml, nvml_gpu, packages, user
from tests.prescriptions import (
    ALWAYS_KNOWN,
    HOPPER,
    KEPLER,
    KNOWLEDGE,
    RELEASE,
    RELEASES,
    ROOT_USER,
    STEP_NAMES,
    STEPS,
    commands,
    finding,
    shells,
    written,
)


# ---------------------------------------------------------------- the files
def test_every_condition_is_used_and_every_use_is_known() -> None:
    used = {name for _, _, step in STEPS for name in (step.when or "").split()}
    assert used == set(CONDITIONS)


def test_every_placeholder_has_words_for_when_it_is_not_known() -> None:
    texts = [text for _, _, step in STEPS for text in (step.text, step.shell, step.verify, step.undo, *step.shells.values()) if text]
    used = {name for text in texts for name in names(text)}
    assert used <= set(WORDS) | ALWAYS_KNOWN
    assert set(WORDS) <= used


@pytest.mark.parametrize(("recipe", "number", "step"), STEPS, ids=STEP_NAMES)
def test_a_step_is_well_formed(recipe: Recipe, number: int, step: StepTemplate) -> None:
    assert set(step.shells) <= {"debian", "ubuntu", "fedora", "rhel", "arch", "suse"}
    assert not (step.shell and step.shells)
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


DIGITS = {"pid", "parent", "start_low", "start_high", "parent_start_low", "parent_start_high"}


def _outside_quotes(text: str) -> str:
    return re.sub(r"""'[^']*'|"(?:\\.|[^"\\])*\"""", "", text)


@pytest.mark.parametrize(("recipe", "number", "step"), STEPS, ids=STEP_NAMES)
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


def rendered(step: StepTemplate, word: str, distro: str | None, *, root: bool) -> tuple[str | None, ...]:
    state = {**state_with(word), **({USER: ROOT_USER} if root else {})}
    case = case_of(finding("libcuda-missing"), values_with(word), facts_of(state), KNOWLEDGE, distro)
    found = render_step(step, msgspec.structs.replace(case, pid=4711))
    assert found.text
    assert "{" not in re.sub(r"`[^`]*`", "", found.text), "a placeholder is left"
    return found.shell, found.verify, found.undo


def _words(text: str) -> Iterator[str]:
    """The words of a command as a shell splits them; what is handed to `sh -c` is split once more."""
    before = ["", ""]
    for word in shlex.split(text.replace("\n", " ; "), posix=True):
        if before == ["sh", "-c"]:
            yield from _words(word)
        else:
            yield word
        before = [before[1], word]


@pytest.mark.parametrize("distro", RELEASES)
@pytest.mark.parametrize(("recipe", "number", "step"), STEPS, ids=STEP_NAMES)
def test_a_step_renders_everywhere_and_no_value_adds_a_command(recipe: Recipe, number: int, step: StepTemplate, distro: str | None) -> None:
    for root in (False, True):
        evil, plain = rendered(step, EVIL, distro, root=root), rendered(step, PLAIN, distro, root=root)
        for bad, good in zip(evil, plain, strict=True):
            assert (bad is None) == (good is None)
            if bad is not None and good is not None:
                assert list(_words(bad)) == [word.replace(PLAIN, EVIL) for word in _words(good)]


def test_every_command_parses() -> None:
    """All commands at once: one `bash -n` for each recipe, distribution and value."""
    for distro in RELEASES:
        for word in (EVIL, PLAIN):
            lines = [text for _, _, step in STEPS for root in (False, True) for text in rendered(step, word, distro, root=root) if text]
            for shell in ("bash", "sh"):
                result = subprocess.run([shell, "-n"], input="\n".join(lines), text=True, capture_output=True, check=False)
                assert result.returncode == 0, result.stderr


def test_a_value_of_the_wrong_form_leaves_the_step_in_words() -> None:
    found = written("gpu-memory-held-by-others", {}, {"pid": "1; reboot", "start_time": "soon"})
    assert "1; reboot" not in commands(found)
    for path in ("/tmp/a\nreboot", "-rf", "/tmp/\x1b[2J"):
        found = written("python-module-shadowed", {}, {"path": path})
        assert shells(found) == []


def test_missing_values_leave_words_without_braces() -> None:
    for cause in KNOWLEDGE.causes.values():
        if cause.recipes:
            found = prescribe(finding(cause.id), {}, Facts(()), KNOWLEDGE, None)
            assert found is not None
            for step in found.steps:
                assert not names(step.text), step.text
                assert "None" not in step.text


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
        ("echo a > /etc/b", "sudo sh -c 'echo a > /etc/b'"),
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
@pytest.mark.parametrize("cause", sorted(KNOWLEDGE.causes))
def test_every_cause_gives_steps_that_end_with_looking_again(cause: str) -> None:
    for distro in RELEASES:
        found = prescribe(finding(cause), {}, facts_of({PCI: bus(gpu()), KERNEL: RELEASE}), KNOWLEDGE, distro)
        if KNOWLEDGE.cause(cause).no_software_fix:
            assert found is None
            continue
        assert found is not None
        assert found.cause == cause
        assert [step.verify for step in found.steps][-1] == CHECK_AGAIN
        assert [step.verify for step in found.steps].count(CHECK_AGAIN) == 1
        restarts = [step for step in found.steps if (step.shell or "").endswith("reboot")]
        assert len(restarts) <= 1
        assert all(step.risk == "reboot" for step in restarts)


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
    assert "apt-get install -y nvidia-driver-470" in commands(written("driver-not-installed", state, distro="ubuntu-22.04"))
