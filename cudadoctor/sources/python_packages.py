"""Which packages a Python has, and the commands that bring another state of them back. For `fix --apply`, which pip gives no undo."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from cudadoctor.sources import children, inherited, trust

# The folders that pip itself installs into: what stands elsewhere on sys.path is not pip's to change.
_LIST = """
import importlib.metadata as metadata, json, re, site, sys, sysconfig
own = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")] + [site.getusersitepackages()] * bool(site.ENABLE_USER_SITE)
found = {}
for one in metadata.distributions(path=[path for path in dict.fromkeys(sys.path) if path in own]):
    if one.metadata["Name"]:
        origin = one.read_text("direct_url.json")
        name = re.sub("[-_.]+", "-", one.metadata["Name"]).lower()  # PEP 503: releases spell it differently
        found.setdefault(name, "@ " + json.loads(origin)["url"] if origin else one.version)
print(json.dumps(found))
"""
# The packages of which files are gone: two packages may own the same ones. Byte code is written anew.
_TORN = """
import importlib.metadata as metadata, json, os, re, sysconfig
own = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
found = {}
for one in metadata.distributions(path=list(own)):
    if one.read_text("RECORD") and any(not str(file).endswith(".pyc") and not os.path.lexists(file.locate()) for file in one.files or ()):
        found[one.metadata["Name"]] = one.version
print(json.dumps(found))
"""
_PATIENCE = 30.0  # seconds
_FIRST_TO_TRY = (22, 2)  # the pip that has --dry-run
_SIGNS = re.compile(r"[-_.]+")  # PEP 503: one and the same in a name
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,100}")
_VERSION = re.compile(r"[A-Za-z0-9][\w.+!-]{0,80}")
_INDEX = re.compile(r"[\w.!-]{1,60}\+(?P<name>cpu|cu\d{2,3}|rocm\d\.\d(?:\.\d)?|xpu)")  # PyTorch's wheels are named after their index
_OF_PYTORCH = ("torch", "torchvision", "torchaudio")
_INDEXES = "https://download.pytorch.org/whl/"


def changed_by(script: str) -> tuple[str, str] | None:
    """(interpreter, pip or uv) where a script changes an interpreter's packages; None where it changes none, or makes the interpreter."""
    for line in script.split("\n"):
        try:
            words = [inherited.in_home(word) for word in shlex.split(line)]
        except ValueError:
            continue
        changes = "install" in words or "uninstall" in words
        found = None
        if changes and words[1:3] == ["-m", "pip"]:
            found = words[0], "pip"
        if changes and words[:2] == ["uv", "pip"] and "--python" in words[:-1]:
            found = words[words.index("--python") + 1], "uv"
        if found is not None:
            return found if os.path.lexists(found[0]) else None
    return None


def installed(python: str) -> dict[str, str] | None:
    """Name to version, of what pip may change; None where it cannot be asked."""
    return _asked(python, _LIST)


def torn(python: str) -> tuple[str, ...]:
    """The packages of which files are gone, name==version."""
    return pins(_asked(python, _TORN)) or ()


def _asked(python: str, script: str) -> dict[str, str] | None:
    done = children.asked([python, "-c", script], inherited.environment(), _PATIENCE) if trust.refusal(python) is None else None
    try:
        found = json.loads(done.stdout) if done is not None else None
    except ValueError:
        return None
    return {str(name): str(version) for name, version in found.items()} if isinstance(found, dict) else None


def pins(packages: Mapping[str, str] | None) -> tuple[str, ...] | None:
    if packages is None:
        return None
    return tuple(f"{name} {version}" if version.startswith("@ ") else f"{name}=={version}" for name, version in sorted(packages.items()))


def _unpinned(found: Sequence[str]) -> dict[str, str] | None:
    """Name to version, or to `@ ` and an address; None where one is no such line. An older journal has the names as releases spell them."""
    pairs = [line.partition(" @ " if " @ " in line else "==") for line in found]
    out = {
        _SIGNS.sub("-", name).lower(): f"@ {rest}" if sign == " @ " else rest
        for name, sign, rest in pairs
        if sign and _NAME.fullmatch(name)
    }
    return out if len(out) == len(found) else None


def _major_minor(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit())


class Way(NamedTuple):
    """How packages come back: commands, nothing where all is as it was; and what no command brings back."""

    commands: str
    by_hand: tuple[str, ...] = ()


def back_to(python: str, before: Sequence[str] | None, after: Sequence[str] | None, tool: str) -> Way | None:
    """The way back to these packages for what the step changed, which ended with those of `after`: what changed since is the user's. None
    where it is not known what there was, or what there is."""
    now, wanted = installed(python), _unpinned(before) if before is not None else None
    made = now if after is None else _unpinned(after)
    if now is None or wanted is None or made is None:
        return None
    ours = {name for name in {*wanted, *made} if wanted.get(name) != made.get(name) == now.get(name)}
    added = [name for name in sorted(ours - wanted.keys()) if _NAME.fullmatch(name)]
    lost = {name: wanted[name] for name in sorted(ours & wanted.keys())}
    known = {name: version for name, version in lost.items() if _VERSION.fullmatch(version)}
    by_hand = tuple(f"{name} ({version.removeprefix('@ ')})" for name, version in lost.items() if name not in known)
    path = shlex.quote(python)
    install = f"uv pip install --python {path}" if tool == "uv" else f"{path} -m pip install"
    uninstall = f"uv pip uninstall --python {path}" if tool == "uv" else f"{path} -m pip uninstall -y"
    of_index: dict[str, list[str]] = {}
    for name, version in known.items():
        own = _INDEX.fullmatch(version) if name in _OF_PYTORCH else None
        of_index.setdefault(f" --index-url {_INDEXES}{own['name']}" if own is not None else "", []).append(f"{name}=={version}")
    back = [f"--no-deps{index} {' '.join(map(shlex.quote, some))}" for index, some in sorted(of_index.items())]
    # What cannot come back stops it before anything goes; what goes goes first, for it may own the same files.
    can_try = tool == "uv" or _major_minor(now.get("pip", "")) >= _FIRST_TO_TRY
    tries = [f"{install} --dry-run {one}" for one in back] if added and can_try else []
    goes = [f"{uninstall} {' '.join(added)}"] if added else []
    return Way("\n".join((*tries, *goes, *(f"{install} {one}" for one in back))), by_hand)
