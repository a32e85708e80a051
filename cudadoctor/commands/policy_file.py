"""The file that holds a policy: cudadoctor.toml, or [tool.cudadoctor] of pyproject.toml, found upward from the working directory.

require = ["gpus>=2", "driver>=535"]
ignore = ["toolkit-missing", {cause = "pcie-link-degraded", reason = "riser with 8 lanes", until = 2027-06-30}]
strict = true
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any

import msgspec

from cudadoctor.model.evidence import writable
from cudadoctor.model.requirements import Ignore, Policy, Requirement
from cudadoctor.sources import inputs, plain_files, trust

OWN, PROJECT, TABLE = "cudadoctor.toml", "pyproject.toml", "cudadoctor"
LARGEST = 256 << 10  # bytes; a policy is a page
_LARGEST_PROJECT = 4 << 20  # of a project's file, which has more in it
DEEPEST = 64  # parts of a dotted key
_MOST_KEYS = 100_000  # their signs in a file; a large project has some thousands
# The head of the table, or a key of it, also in a file that is no TOML.
_DEMANDS = re.compile(rf"{TABLE}[\"' \t]*(?:\]|\.[ \t]*\w+[ \t]*=)")
# Also within texts: which is which, only a reader of TOML knows. The first finds what looks like a key, the last one with any quoted part.
_KEYS = re.compile(r"[\w \t.'\"-]+")
_PART = re.compile(r"[\w'\"][ \t]*\.")
_QUOTED = r"""(?:[\w-]+|"(?:[^"\\\n]|\\.){0,200}"|'[^'\n]{0,200}')[ \t]*\.[ \t]*"""
_DEEP = re.compile(rf"(?<![\w-])(?:{_QUOTED}){{{DEEPEST}}}")


class PolicyError(Exception):
    """A policy that cannot be read or says something that does not exist; the message names file and place."""


_MOST = msgspec.Meta(max_length=1000)  # of each list, and letters of an entry, which an error repeats
_Word = Annotated[str, _MOST]


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    require: Annotated[list[_Word], _MOST] = []
    ignore: Annotated[list[_Word | Ignore], _MOST] = []
    strict: bool = False


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """What is demanded, whether a degraded machine fails, and what a reader should know of files that were not read."""

    policy: Policy
    strict: bool = False
    refused: str | None = None


def gathered(given: str | None, texts: Sequence[str], causes: Iterable[str], folder: str | None = None, *, search: bool = True) -> Found:
    """The requirements of the command line with the policy of --policy, or else of the file found upward from the working directory.

    Without `search` no file is looked for.
    """
    asked = _requirements(texts, "--require ")
    refused = None
    if given is not None:
        path: str | None = given
        table = _table(given, _text(given))
        if table is None:
            raise PolicyError(f"--policy {given}: it has no [tool.{TABLE}]")
    elif search:
        path, table, refused = _found(folder or trust.working_directory())
    else:
        path = table = None
    if path is None or table is None:
        return Found(policy=Policy(requirements=asked), refused=refused)
    own, strict = _policy(path, table, causes)
    return Found(policy=msgspec.structs.replace(own, requirements=(*own.requirements, *asked)), strict=strict, refused=refused)


def written(asked: Policy | None) -> str:
    """The policy as the text of such a file; empty where nothing is demanded or expected. A text in JSON is one in TOML."""
    if asked is None or not (asked.requirements or asked.ignores):
        return ""
    import json

    lines = [f"require = {json.dumps([one.text for one in asked.requirements])}"]
    for one in asked.ignores:
        lines += ["[[ignore]]", f"cause = {json.dumps(one.cause)}"]
        lines += [f"reason = {json.dumps(one.reason)}"] if one.reason is not None else []
        lines += [f"until = {one.until.isoformat()}"] if one.until is not None else []
    return "\n".join(lines) + "\n"


# ---------------------------------------------------------------- finding it
def _found(folder: str | None) -> tuple[str | None, dict[str, Any] | None, str | None]:
    """The nearest file with a policy. None that another user has, and as root none that one may write, who would decide what counts."""
    passed_over = None
    for path in _candidates(folder):
        own = os.path.basename(path) == OWN
        if not os.path.lexists(path) or not (own or os.path.isfile(path)):
            continue
        try:
            project = "" if own else plain_files.text(path, _LARGEST_PROJECT).replace("\0", "")
        except PermissionError:  # most likely somebody's project that does not concern us
            passed_over = passed_over or f"{path} was not read, and may demand something: permission denied."
            continue
        except OSError:  # as root another user's link, whose demands do not count
            continue
        if not own and TABLE not in project:
            continue
        by = trust.changeable(os.path.abspath(path)) or _of_a_stranger(path)
        if by is not None:
            said = "a policy that nobody named counts only where no other user decides what is in it"
            refused = f"{path} was not read: {said}. It {by}: name it with --policy."
            return None, None, refused
        if os.path.exists(path) and not os.path.isfile(path):  # a pipe would wait for whoever writes to it
            raise PolicyError(f"{path}: it is no plain file")
        try:
            table = _table(path, _text(path))
        except PolicyError:
            if not own and _DEMANDS.search(project) is None:
                continue
            raise
        if table is not None:
            return path, table, passed_over
    return None, None, passed_over


def _of_a_stranger(path: str) -> str | None:
    """Whether another user than this one and root has it, or may put another in its place, a moment later too. Git asks the same of a
    repository (safe.directory)."""
    if not hasattr(os, "geteuid"):
        return None
    try:
        folder = os.stat(os.path.dirname(os.path.abspath(path)))
        owners = {info.st_uid for info in (folder, os.lstat(path), os.stat(path))}
    except OSError:  # a link that leads nowhere: reading it says so
        return None
    if folder.st_mode & stat.S_IWOTH and not folder.st_mode & stat.S_ISVTX:
        return "lies in a folder where every user may replace it"
    return "or its folder belongs to another user" if owners - {0, os.geteuid()} else None


def _candidates(folder: str | None) -> Iterator[str]:
    while folder is not None:
        yield os.path.join(folder, OWN)
        yield os.path.join(folder, PROJECT)
        parent = os.path.dirname(folder)
        folder = parent if parent != folder else None


# ---------------------------------------------------------------- reading it
def _text(path: str) -> str:
    try:
        content = inputs.of_path(path, lambda _: _LARGEST_PROJECT if path.endswith(PROJECT) else LARGEST)
        if content.left_out is not None:
            raise PolicyError(f"{path}: too large for a policy")
        return content.body.decode("utf-8-sig")  # Notepad writes the mark
    except inputs.InputError as error:
        raise PolicyError(str(error)) from error
    except UnicodeDecodeError as error:
        raise PolicyError(f"{path}: it is not UTF-8") from error


def _table(path: str, text: str) -> dict[str, Any] | None:
    """The policy's table; None where a project's file has none."""
    if text.count("[") + text.count("=") + text.count(".") > _MOST_KEYS:
        raise PolicyError(f"{path}: too many keys for a policy")  # each part of one takes a thousand bytes
    if any(len(_PART.findall(keys)) > DEEPEST for keys in _KEYS.findall(text)) or _DEEP.search(text):
        raise PolicyError(f"{path}: a key with more than {DEEPEST} parts")  # the time that one takes grows with their square
    try:
        whole = msgspec.toml.decode(text)
    except (ValueError, RecursionError) as error:  # a DecodeError is one, and so is a number of thousands of digits
        raise PolicyError(f"{path}: {'nested too deeply' if isinstance(error, RecursionError) else error}") from error
    if os.path.basename(path) != PROJECT:
        return dict(whole)
    tools = whole.get("tool")
    table = tools.get(TABLE) if isinstance(tools, dict) else None
    if table is not None and not isinstance(table, dict):
        raise PolicyError(f"{path}: tool.{TABLE} is no table")
    return table


def _policy(path: str, table: dict[str, Any], causes: Iterable[str]) -> tuple[Policy, bool]:
    known = frozenset(causes)
    try:
        file = msgspec.convert(table, type=_File)
    except msgspec.ValidationError as error:
        raise PolicyError(f"{path}: {error}") from error
    ignores = []
    for place, entry in enumerate(file.ignore, 1):
        one = Ignore(cause=entry) if isinstance(entry, str) else entry
        if one.cause not in known:
            from cudadoctor.commands.terminal import nearest

            raise PolicyError(f"{path}: ignore, entry {place}: {one.cause!r} is no cause{nearest(one.cause, known)}")
        ignores.append(one)
    asked = _requirements(file.require, f"{path}: ")
    return Policy(requirements=asked, ignores=tuple(ignores), source=writable(path)), file.strict


def _requirements(texts: Sequence[str], where: str) -> tuple[Requirement, ...]:
    if not texts:
        return ()
    from cudadoctor import policy  # asks about everything that can be required: slow to import, and most runs demand nothing

    try:
        return policy.requirements(texts)
    except policy.RequirementError as error:
        line = error.text.replace("\n", " ").replace("\t", " ")  # with a mark under the column
        raise PolicyError(f"{where}{error}\n    {line}\n    {' ' * (error.column - 1)}^") from error
