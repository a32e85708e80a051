"""Environment variables: as `env` prints them, and as a pasted text shows them (export, prefix of a command, `echo $X` with its answer,
PowerShell's table of Env:).
"""

from __future__ import annotations

from collections.abc import Iterator

from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import ENVIRONMENT, SPACED_NAMES, Environment, SpacedName
from cudadoctor.parsers.base import Output, Text, parser
from cudadoctor.parsers.shell import is_prompt, root_command

_LINE = lazy(r"^(?P<declared>declare -[a-zA-Z-]{1,6} )?(?P<name>[A-Za-z_][A-Za-z0-9_]{0,200})=(?P<value>.*)$")
# Of a pasted text, which is full of assignments of all kinds, only the variables that bear on a GPU program are taken.
_WANTED = lazy(
    r"^(?:CUDA_\w+|CUDA(?:HOSTCXX|_?BIN)|NVIDIA_\w+|NUMBA_\w+|NUMBAPRO_\w+|NVCC\w*|NCCL_\w+|LD_LIBRARY_PATH|LD_PRELOAD|PATH|PYTHONPATH|PYTHONHOME"
    r"|VIRTUAL_ENV|CONDA_\w+|SLURM_\w+|PBS_\w+|LSB_\w+|GPU_DEVICE_ORDINAL|WSL_\w+|WSLENV|XLA_\w+|TF_\w+|TORCH_\w+|PYTORCH_\w+|container)$"
)
_NAME = r"[A-Za-z_][A-Za-z0-9_]{1,80}"
_VALUE = r"(?:'[^']{0,4000}'|\"[^\"]{0,4000}\"|[^\s;&|'\"#`()<>][^\s;&|'\"`()<>]{0,4000})?"
_EXPORT = lazy(rf"^(?:export|declare -[a-zA-Z-]{{1,6}}|set -gx|setx?|\$env:) ?(?P<rest>{_NAME} ?= ?.*)$")
_ONE = lazy(rf"(?<![A-Za-z0-9_])(?P<name>{_NAME})=(?P<value>{_VALUE})(?P<ends>(?=[\s;&|]|$))?")
_SETENV = lazy(rf"^(?:setenv|set -gx) (?P<name>{_NAME}) (?P<value>{_VALUE})$")
_PYTHON = lazy(rf"""^\s{{0,40}}os\.environ\[\s?(['"])(?P<name>{_NAME})\1\s?\]\s{{0,4}}=\s{{0,4}}(['"])(?P<value>[^'"]{{0,400}})\3""")
_ECHO = lazy(rf"^(?:echo|printenv) [\"']?\$?\{{?(?P<name>{_NAME})\}}?[\"']?$")
_DRIVE = lazy(r"(?i)^(?:Get-ChildItem|gci|dir|ls|Get-Item) (?:-Path )?env:\S{0,40}(?: ?\|.{0,200})?$")
_ROW = lazy(rf"^(?P<name>{_NAME}) {{2,60}}(?P<value>\S.{{0,4000}}?)(?<!\.\.\.)(?<!…)\s*$")  # it cuts what is too long for the window
_ANSWER = lazy(r"^[^\s#$%>][^\s]{0,4000}$")


def parse(text: Text) -> Output:
    """One fact with all variables; of several statements of one variable the last counts."""
    variables: dict[str, str] = {}
    numbers: dict[str, int] = {}
    statements = [*_from_paste(text), *_of_powershell(text)] if text.pasted else _from_env(text)
    for number, name, value in statements:
        variables[name] = value
        numbers[name] = number
    if not variables:
        return
    shown = [number for name, number in numbers.items() if _WANTED.match(name)] or [next(iter(numbers.values()))]
    quotes = (text.quote(number) for number in sorted(shown)[:60])
    yield text.fact(ENVIRONMENT, Environment(variables=variables, lines=numbers), *quotes)


def _from_env(text: Text) -> list[tuple[int, str, str]]:
    """Every `NAME=value` line, and `declare -x NAME="value"`."""
    # Only line ends may be touched here: a blank at the end of a value is part of it.
    lines = ((number, _LINE.match(line.removesuffix("\r"))) for number, line in enumerate(text.text.split("\n"), 1))
    found = ((number, line) for number, line in lines if line is not None)
    return [(number, line["name"], _unquoted(line["value"]) if line["declared"] else line["value"]) for number, line in found]


def _of_powershell(text: Text) -> Iterator[tuple[int, str, str]]:
    """The rows below `Get-ChildItem Env:`."""
    for number, _, below in text.asked("nv:", _DRIVE):
        rows = ((number + place, _ROW.match(line)) for place, line in enumerate(below, 1))
        yield from ((at, row["name"], row["value"]) for at, row in rows if row is not None and _WANTED.match(row["name"]))


def _from_paste(text: Text) -> list[tuple[int, str, str]]:
    found: list[tuple[int, str, str]] = []
    lines = text.plain_lines
    for number, line in enumerate(lines, 1):
        if "=" not in line and "echo" not in line and "printenv" not in line and "setenv" not in line:
            continue
        python = _PYTHON.match(line)
        if python is not None:
            found += [(number, python["name"], python["value"])] if _WANTED.match(python["name"]) else ()
            continue
        typed = root_command(line)
        said = (typed if typed is not None else line).strip()
        asked = _ECHO.match(said)
        if asked is not None:
            answer = lines[number] if number < len(lines) else ""
            # An empty answer does not tell an unset variable from an empty one.
            if _WANTED.match(asked["name"]) and _ANSWER.match(answer) and not is_prompt(answer):
                found.append((number + 1, asked["name"], answer))
            continue
        found.extend((number, name, value) for name, value in _assigned(said, at_prompt=typed is not None))
    return found


def _assigned(said: str, *, at_prompt: bool) -> list[tuple[str, str]]:
    """The assignments at the head of one line. Values stay as typed: a `$X` in one is not expanded."""
    separate = _SETENV.match(said)
    if separate is not None:
        return [(separate["name"], _unquoted(separate["value"]))] if _WANTED.match(separate["name"]) else []
    exported = _EXPORT.match(said)
    rest = exported["rest"] if exported else said
    found = []
    position = 0
    while (one := _ONE.match(rest, position)) is not None and one["ends"] is not None:
        if _WANTED.match(one["name"]):
            found.append((one["name"], _unquoted(one["value"])))
        position = one.end()
        while position < len(rest) and rest[position] in " \t;":
            position += 1
    if found or exported or at_prompt:
        return found
    # Output of `env | grep`: the value reaches to the end of the line and may hold blanks.
    plain = _LINE.match(said)
    return [(plain["name"], plain["value"])] if plain and _WANTED.match(plain["name"]) and " = " not in said else []


def _unquoted(value: str) -> str:
    if len(value) >= 2 and value[0] == value[-1] and value[0] in "'\"":
        return value[1:-1]
    return value


# ---------------------------------------------------------------- names with a blank
# `SET NAME = 1` in cmd makes a variable that is called "NAME ", which no program reads. In an environment such a name stands as it is; in
# a pasted text it is the command that would make it (cmd), or that fails (export). Other languages may have blanks around the sign.
_HELD_SPACED = lazy(r"^(?P<before>[ \t]{0,8})(?P<name>[A-Za-z_][A-Za-z0-9_]{0,200})(?P<after>[ \t]{0,8})=")
_TYPED_SPACED = lazy(r"^(?P<command>[sS][eE][tT]|export)[ \t]{1,8}\"?(?P<name>[A-Za-z_][A-Za-z0-9_]{0,80})[ \t]{1,8}=(?![=~])")
_CMD = lazy(r"^[A-Za-z]:\\[^>|]{0,200}>")  # cmd's prompt, which has no blank behind it
_MOST_SPACED = 20


def parse_spaced(text: Text) -> Output:
    """One fact with all such names. That an environment has none is said too."""
    found = tuple(_typed_spaced(text) if text.pasted else _held_spaced(text))[:_MOST_SPACED]
    if found:
        yield text.fact(SPACED_NAMES, found, *(text.quote(entry.line) for entry in found))
    elif not text.pasted:
        yield text.fact(SPACED_NAMES, None, text.absent("no variable has a blank in its name"))


def _held_spaced(text: Text) -> Iterator[SpacedName]:
    for number, line in enumerate(text.lines, 1):
        found = _HELD_SPACED.match(line) if "=" in line else None
        if found is not None and (found["before"] or found["after"]):
            yield SpacedName(name=found["name"], command=None, line=number)


def _typed_spaced(text: Text) -> Iterator[SpacedName]:
    for number, line in enumerate(text.plain_lines, 1):
        if "=" not in line:
            continue
        typed = root_command(line)
        found = _TYPED_SPACED.match(_CMD.sub("", typed if typed is not None else line).strip())
        if found is not None:
            yield SpacedName(name=found["name"], command=found["command"].lower(), line=number)


PARSERS = (
    parser(
        "environment", parse, ENVIRONMENT, reads=("environment",),
        wakes=(
            "CUDA_HOME", "CUDA_PATH", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "CUDA_ROOT", "LD_LIBRARY_PATH", "LD_PRELOAD", "NUMBA_",
            "NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES", "SLURM_", "VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONPATH", "container=",
        ),
    ),
    parser(
        "spaced_names", parse_spaced, SPACED_NAMES, reads=("environment",),
        wakes=("NUMBA_", "CUDA_", "NVIDIA_", "LD_LIBRARY_PATH", "TORCH_", "XLA_", "NCCL_"),
    ),
)  # fmt: skip
