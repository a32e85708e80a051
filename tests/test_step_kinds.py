"""What a step says that it does to the machine is what its command does."""

from __future__ import annotations

import itertools
import re

from cudadoctor.model.recipe import StepTemplate
from tests.cases import every
from tests.prescriptions import STEPS

EVERY = [(f"{recipe.id}-{number}", step) for recipe, number, step in STEPS]
# Programs that only look, as the first word of a command; those of several uses with the words that make them look.
LOOKS = re.compile(
    r"(?:timeout \d+ )?(?:findmnt|df|du|sort -rh|namei|dpkg -S|rpm -qf|grep|dmesg|lspci|ps|cat|ls|modinfo|fuser|journalctl|ausearch|command -v|ip -br addr|aa-status|head|tail|awk|hostname|ulimit -a|true|python3 -m json.tool|nv-fabricmanager --version|ldd --version"
    r"|nvidia-smi(?: -q| -L| topo| nvlink -[se]| --query| mig -lgip?| conf-compute -f| conf-compute -grs|$)|nvidia-container-cli -k -d /dev/stdout info"
    r"|systemctl (?:status|is-enabled)|kubectl (?:describe|get)|runsc nvproxy list|ray status|ollama ps|snap list|docker context ls|dnf (?:check|repolist)|zypper (?:verify|repos)"
    r"|nvidia-bug-report\.sh|\{(?:python|own)\} (?:-I -S )?-c|\{python\} -m (?:site|pip (?:check|list))|rpm-ostree kargs$|powershell\.exe -Command 'Get|wsl\.exe -l"
    r"|Get-|Select-Object|grep |ProviderName)"
)  # fmt: skip
SHELL_ALONE = re.compile(r"(?:export|unset|ulimit|cd|module load|\. /|\$Env:|\$env:|Remove-Item Env:|\w+=\$|stub_folder=)")
RUNS_ONCE = re.compile(r"(?:systemd-inhibit|srun|qsub|bsub|docker run --rm|podman run --rm|cmake -B) ")
TAKES_AWAY = re.compile(r"\b(?:apt-get (?:purge|remove)|(?:dnf|zypper|snap) remove|pacman -R|kill|rmmod|gpu-reset|nvidia-uninstall)\b")
STARTS_ANEW = re.compile(r"^(?:reboot|Restart-Computer)$|systemctl (?:restart|stop)|delete pod", re.MULTILINE)


def commands_of(step: StepTemplate) -> list[str]:
    shells = [step.shell or "", *step.shells.values()]
    return [line.strip() for shell in shells for line in shell.strip().split("\n") if line.strip()]


def parts(line: str) -> list[str]:
    """The commands of a line, at its pipes and separators outside of quotes and brackets."""
    bare = re.sub(r"'[^']*'|\"[^\"]*\"|\$\([^)]*\)", lambda found: "Q" * len(found[0]), line)
    cuts = [0, *(found.end() for found in re.finditer(r"\|\||&&|[|;]", bare)), len(line)]
    return [line[first:last].strip(" |;&") for first, last in itertools.pairwise(cuts) if line[first:last].strip(" |;&")]


@every("name, step", EVERY)
def test_a_command_says_what_it_changes(name: str, step: StepTemplate) -> None:
    assert step.kind is not None or not commands_of(step)
    assert not step.needs_root or step.kind in ("reads", "system", "restart", "destructive")


@every("name, step", [(name, step) for name, step in EVERY if step.kind == "reads"])
def test_what_changes_nothing_only_looks(name: str, step: StepTemplate) -> None:
    for line in commands_of(step):
        for part in parts(line):
            assert LOOKS.match(part), part
        assert not re.search(r"(?<!2)>(?! ?/dev/null|&)", re.sub(r"'[^']*'", "", line)), line


@every("name, step", [(name, step) for name, step in EVERY if step.kind == "session"])
def test_what_is_for_the_shell_changes_its_variables_or_runs_once(name: str, step: StepTemplate) -> None:
    for line in commands_of(step):
        assert SHELL_ALONE.match(line) or RUNS_ONCE.match(line), line


@every("name, step", EVERY)
def test_what_ends_or_removes_something_and_what_restarts_says_so(name: str, step: StepTemplate) -> None:
    for line in commands_of(step):
        assert not TAKES_AWAY.search(line) or step.kind == "destructive", line
        assert not STARTS_ANEW.search(line) or step.kind in ("restart", "destructive"), line


@every("name, step", EVERY)
def test_an_alternative_or_a_condition_is_said_in_words(name: str, step: StepTemplate) -> None:
    assert step.mode != "if" or step.given
    assert step.mode != "do" or step.given is None
    assert step.given is None or not re.match(r"(?i)(if|or|when|only) ", step.given)
    if step.mode == "do":
        assert not re.match(r"(?:If|Or|Otherwise|Instead)\b", step.text), "an alternative: say so with its mode"
