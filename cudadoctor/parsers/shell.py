"""What a shell leaves in a pasted text: prompts, typed commands, answers, exit codes. Shared by the parsers of this package."""

from __future__ import annotations

import re

from cudadoctor.model.pattern import lazy
from cudadoctor.parsers import other_languages

# A prompt is recognised only with a blank behind its sign, so that "$HOME" or "#include" are none. cmd's has none: C:\Users\x>nvcc -V
_ENVIRONMENTS = r"(?:\([\w./ :-]{1,60}\)[ \t]*){0,3}"
_PROMPT = lazy(
    r"^[ \t]{0,16}(?:>[ \t])?" + _ENVIRONMENTS + r"(?:"
    r"\[[^\]\[]{1,120}\][ \t]?[$#%]"  # [user@host dir]$
    r"|[\w.-]{1,64}@[\w.-]{1,64}[: ][^$#%|]{0,200}[$#%]"  # user@host:~/dir$
    r"|[\w.-]{1,64}:[~/][^\s#$%|>]{0,200} #"  # host:~ # of root on SUSE
    r"|(?:[\w.-]{1,64}@[\w.-]{1,64} )?~(?:/[\w./@+-]{0,200})?(?: ?[$%❯➜]|(?: \[\d{1,3}\])?>)(?=[ \t]{1,8}[A-Za-z./_(])"  # ~/dir$, ~/dir>
    r"|/[\w./@+-]{0,200}\$(?=[ \t]{1,8}[a-z./])|~ ?#(?=[ \t]{1,8}[a-z./])"  # /dir$, ~#
    r"|(?=[\w.-]{0,40}\d)[a-z][\w.-]{1,40}\$(?=[ \t]{1,8}[A-Za-z./])"  # node7$
    r"|[\w.-]{1,64}@[\w.-]{1,64}:[~/][^\s#$%|>]{0,200}>"  # user@host:~> of others there
    r"|PS [A-Za-z]:\\[^>|]{0,200}>"
    r"|\+{1,4}|[$%❯]|➜[ \t]+\S{1,120}"  # set -x trace, bare sign, zsh themes
    r"|(?:ba|z|da)?sh-\d[\d.]{0,8}[$#]"  # bash-4.2$
    r")[ \t]+(?P<command>\S.{0,2000})$"
    r"|^[ \t]{0,16}" + _ENVIRONMENTS + r"[A-Za-z]:\\[^>|\"]{0,200}>[ \t]*(?P<typed>[^\s>].{0,2000})$"  # C:\Users\x>
)
_EMPTY_PROMPT = lazy(
    r"^[ \t]{0,16}" + _ENVIRONMENTS + r"(?:\[[^\]\[]{1,120}\][ \t]?[$#%]|[\w.-]{1,64}@[\w.-]{1,64}[: ][^$#%|]{0,200}[$#%]|[$%❯]"
    r"|(?:PS )?[A-Za-z]:\\[^>|\"]{0,200}>)$"
)
_NOTEBOOK = lazy(r"^[ \t]{0,16}!(?P<command>[a-z][\w./-]{0,60}(?: .{0,2000})?)(?P<typed>)$")
_ROOT_SIGN = lazy(r"^[ \t]{0,16}#[ \t]+(?P<command>\S.{0,2000})$")
_NUMBER = lazy(r"^\s{0,16}(\d{1,3})$")


def command(line: str) -> str | None:
    """The command typed on this line, if it begins with a prompt (or a notebook's `!`)."""
    found = _PROMPT.match(line) or _NOTEBOOK.match(line)
    return (found["command"] or found["typed"]).strip() if found else None


def root_command(line: str) -> str | None:
    """As `command`, also behind a bare `#`, which may as well be a comment: only for a command that the caller knows."""
    typed = command(line)
    if typed is not None:
        return typed
    found = _ROOT_SIGN.match(line)
    return found["command"].strip() if found else None


def is_prompt(line: str) -> bool:
    return bool(_EMPTY_PROMPT.match(line)) or command(line) is not None


def exit_code(lines: list[str], start: int, reach: int = 6) -> int | None:
    """The answer to an `echo $?` within `reach` lines from index `start`, before any other command."""
    for index in range(start, min(start + reach, len(lines))):
        typed = command(lines[index])
        if typed is None:
            continue
        if typed.replace('"', "") not in ("echo $?", "echo $? "):
            return None
        found = _NUMBER.match(lines[index + 1]) if index + 1 < len(lines) else None
        return int(found[1]) if found and int(found[1]) < 256 else None
    return None


def not_found(name: str) -> re.Pattern[str]:
    """Lines by which shells say that there is no program of this name."""
    quoted = re.escape(name)
    return lazy(
        rf"(?:^|[\s:/])['\"`]?{quoted}['\"`]?: (?:command )?not found"
        rf"|command not found: {quoted}\b"
        rf"|[Cc]ommand ['\"`]{quoted}['\"`] not found"
        rf"|Unknown command:? ['\"`]?{quoted}\b"
        rf"|['\"`]{quoted}['\"`] is not recognized as"
        rf"|['\"]{quoted}['\"]: executable file not found"
        rf"|The term '{quoted}' is not recognized"
        rf"|\b{quoted}: No such file or directory"
        rf"|(?:^|\s){quoted} not found\b"
        rf"|{other_languages.not_found(quoted)}"
    )
