"""How a recipe's command reads on this system: by family, layered on an image, and for PowerShell."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping

from cudadoctor.model.pattern import lazy
from cudadoctor.model.recipe import StepTemplate
from cudadoctor.prescribe import shells
from cudadoctor.prescribe.distribution import Distribution
from cudadoctor.prescribe.shells import PLACEHOLDER, Script, Value, is_plain, names

# A family without commands of its own uses those of the family it descends from.
_PARENT = {"ubuntu": "debian"}
# On a system that is an image, packages are layered over it; what has no such form has no command there.
_LAYERED = {
    "rpm-ostree": (
        (lazy(r"^dnf install -y (?:--allowerasing )?"), "rpm-ostree install -y --idempotent "),
        # It knows what was asked for by name alone, no pattern and nothing that came along, and refuses the rest without --idempotent.
        (lazy(r"^dnf remove -y "), "rpm-ostree uninstall -y --idempotent "),
    ),
    "transactional-update": (
        (lazy(r"^zypper install -y "), "transactional-update --non-interactive --continue pkg install "),
        (lazy(r"^zypper remove -y "), "transactional-update --non-interactive --continue pkg remove "),
        (lazy(r"^(?=dracut --force$)"), "transactional-update --continue run "),
        (lazy(r"^(?=zypper (?:addrepo|--gpg-auto-import-keys refresh))"), "transactional-update --continue run "),
    ),
}
# RHEL 7 and older: yum, and its own names for the plugin that adds a repository.
_YUM = (
    (lazy(r"(?<![\w-])dnf config-manager(?= )"), "yum-config-manager"),
    (lazy(r"(?<![\w-])dnf-plugins-core(?![\w-])"), "yum-utils"),
    (lazy(r"(?<![\w-])dnf(?![\w-])"), "yum"),
)
_MANAGERS = lazy(r"^(?:.{1,600}xargs -r )?(?:dnf|yum|zypper|apt-get|dracut|update-initramfs|dkms|akmods|grubby)\b")
# Programs that Windows has under the same name. `{python}` is the interpreter's path.
_EVERYWHERE = ("{python}", "nvidia-smi", "conda", "pixi", "poetry", "uv", "nvcc", "pip", "cudadoctor", "docker", "wsl", "cmake")
_BATCH_FILES = ("conda ", "poetry ")  # as some installations have them
_TAKEN_AWAY = lazy(r"Remove-Item Env:(?P<name>\w+) -ErrorAction SilentlyContinue")
_SET = lazy(r"\$[Ee]nv:(?P<name>\w+) ?= ?(?:'(?P<quoted>(?:[^']|'')*)'|(?P<bare>[\w.:\\/;-]+))")
_CALLED = lazy(r"(?:& )?(?P<line>(?:[\w.:\\/+-]+|'[^'\"]*')(?: (?:[\w.:\\/=+,-]+|'[^'\"]*'))*)")
_CMDLET = lazy(r"[A-Z][a-z]+-[A-Z]\w+")  # Get-CimInstance
_EXPORT = lazy(r"export (?P<name>\w+)=(?P<value>(?:\.\.\.|[^\s`,;().]|\.(?=[\w/]))+)")
_WORDS = lazy(r"'[^'\"]*'|\S+")
_NAME = lazy(r"[A-Za-z_]\w*|\d+")
PIP = lazy(r"\{python\} -m pip (?:install|uninstall)\b")


_FAMILY_WORDS = {"Ubuntu": "ubuntu", "Debian": "debian", "Fedora": "fedora", "RHEL": "rhel", "Arch": "arch", "openSUSE": "suse"}
_ONE_FAMILY = lazy(rf"(?P<family>{'|'.join(_FAMILY_WORDS)}): (?P<words>[^;()]+)")
_BY_FAMILY = lazy(rf" \((?:(?:{'|'.join(_FAMILY_WORDS)}): [^;()]+(?:; |(?=\))))+\)")


def words_of(text: str, system: Distribution) -> str:
    """What stands in brackets for several families ("(Ubuntu: a; Fedora: b)") is this system's alone; all where its family is not known."""
    if system.family is None:
        return text

    def own(match: re.Match[str]) -> str:
        listed = {_FAMILY_WORDS[one["family"]]: one["words"] for one in _ONE_FAMILY.finditer(match[0])}
        found = listed.get(system.family or "") or listed.get(_PARENT.get(system.family or "", ""))
        return f" ({found})" if found is not None else ""

    return _BY_FAMILY.sub(own, text)


def template_of(step: StepTemplate, system: Distribution) -> str | None:
    """The command for this system, before its values are put in. None: no command is known here, the words remain."""
    family = system.family or ""
    if family == "windows":
        return step.shells.get("windows") or portable(step.shell)
    if system.image is not None:
        own = step.shells.get("ostree" if system.image == "rpm-ostree" else "transactional")
        return own or _layered(step.shells.get(family) or step.shell, system.image)
    found = step.shells.get(family) or step.shells.get(_PARENT.get(family, "")) or step.shell
    if found is not None and family == "rhel" and (system.major or "8") in ("6", "7"):
        for pattern, words in _YUM:
            found = pattern.sub(words, found)
    return found


def _layered(text: str | None, tool: str) -> str | None:
    """Each line in the tool's form. Lines without package managers stay as they are."""
    if text is None:
        return None
    lines = []
    for line in text.strip("\n").split("\n"):
        for pattern, words in _LAYERED[tool]:
            line, changed = pattern.subn(words, line, count=1)
            if changed:
                break
        else:
            if _MANAGERS.match(line):
                return None
        lines.append(line)
    return "\n".join(lines)


# ---------------------------------------------------------------- Windows
def portable(text: str | None) -> str | None:
    """A command that reads the same in PowerShell: on each line one program that Windows has too."""
    lines = text.strip("\n").split("\n") if text is not None else []
    same = all("$" not in line and is_plain(line) and line.split(" ")[0] in _EVERYWHERE for line in lines)
    return text if lines and same else None


def fill_powershell(template: str, values: Mapping[str, Value]) -> str | None:
    """The command with its values quoted for PowerShell. None where a value is missing, or would not reach the program as one word.

    A portable command is taken apart into words first; a command written for Windows has its values put in where they stand.
    """
    if any(name not in values for name in names(template)):
        return None
    words = [word for name in names(template) if not isinstance(values[name], Script) for word in shells.each(values[name])]
    if not template.startswith("$Env:") and not all(map(shells.reaches_program, words)):
        return None
    if any(line.startswith(_BATCH_FILES) for line in template.split("\n")) and not all(map(shells.reaches_batch_file, words)):
        return None
    if portable(template) is None:
        return PLACEHOLDER.sub(lambda found: _in_expression(values[found[1]]), template)
    return "\n".join(_filled(line, values) for line in template.strip("\n").split("\n"))


def _filled(line: str, values: Mapping[str, Value]) -> str:
    words: list[str] = []
    for word in shlex.split(line):
        whole = PLACEHOLDER.fullmatch(word)
        if whole is not None:
            words.append(shells.quoted(values[whole[1]], shells.powershell))
        else:
            words.append(shells.powershell(PLACEHOLDER.sub(lambda found: " ".join(shells.each(values[found[1]])), word)))
    return f"& {' '.join(words)}" if words[0].startswith("'") else " ".join(words)


def _in_expression(value: Value) -> str:
    """Where a command for Windows has its value: behind `=` a bare word would be a command, so only names and numbers stay bare."""
    if isinstance(value, Script) or (isinstance(value, str) and _NAME.fullmatch(value)):
        return str(value)
    quoted = shells.quoted(value, shells.powershell)
    return f"'{value}'" if quoted == value else quoted


def for_cmd(shell: str) -> str | None:
    """How a command for PowerShell reads in cmd. None where it reads the same there, and where cmd has no such thing."""
    taken, set_to, called = _TAKEN_AWAY.fullmatch(shell), _SET.fullmatch(shell), _CALLED.fullmatch(shell)
    if taken is not None:
        return f"set {taken['name']}="
    if set_to is not None:
        return shells.cmd(f"{set_to['name']}={set_to['bare'] or shells.unquoted(set_to['quoted'] or '')}", before="set ")
    if called is None or "'" not in called["line"] or _CMDLET.match(called["line"]) is not None:
        return None
    words = [shells.cmd(word[1:-1]) if word.startswith("'") else word for word in _WORDS.findall(called["line"])]
    return None if None in words else " ".join(filter(None, words))


def in_powershell(words: str) -> str:
    """A sentence with commands for a Linux shell, for people in front of PowerShell."""
    return _EXPORT.sub(lambda found: f"$Env:{found['name']} = '{found['value']}'", words.replace("sudo ", ""))
