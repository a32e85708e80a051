"""Which packages a Python has, and the commands that bring another state of them back. For `fix --apply`, which pip gives no undo."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence

from cudadoctor.sources import inherited, spawning, trust

# The folders that pip itself installs into: what stands elsewhere on sys.path is not pip's to change.
_LIST = """
import importlib.metadata as metadata, json, site, sys, sysconfig
own = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")] + [site.getusersitepackages()] * bool(site.ENABLE_USER_SITE)
found = {}
for one in metadata.distributions(path=[path for path in dict.fromkeys(sys.path) if path in own]):
    if one.metadata["Name"]:
        found.setdefault(one.metadata["Name"], one.version)
print(json.dumps(found))
"""
_PATIENCE = 30.0  # seconds
_PIN = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]{0,100})==(?P<version>[A-Za-z0-9][\w.+!-]{0,80})")


def changed_by(script: str) -> tuple[str, str] | None:
    """(interpreter, pip or uv) where a script changes an interpreter's packages; None where it changes none."""
    for line in script.split("\n"):
        try:
            words = shlex.split(line)
        except ValueError:
            continue
        changes = "install" in words or "uninstall" in words
        if changes and words[1:3] == ["-m", "pip"]:
            return words[0], "pip"
        if changes and words[:2] == ["uv", "pip"] and "--python" in words[:-1]:
            return words[words.index("--python") + 1], "uv"
    return None


def installed(python: str) -> dict[str, str] | None:
    """Name to version, of what pip may change; None where it cannot be asked."""
    done = spawning.asked([python, "-c", _LIST], inherited.environment(), _PATIENCE) if trust.refusal(python) is None else None
    try:
        found = json.loads(done.stdout) if done is not None else None
    except ValueError:
        return None
    return {str(name): str(version) for name, version in found.items()} if isinstance(found, dict) else None


def pins(packages: Mapping[str, str] | None) -> tuple[str, ...] | None:
    return None if packages is None else tuple(f"{name}=={version}" for name, version in sorted(packages.items()))


def back_to(python: str, before: Sequence[str] | None, tool: str) -> str | None:
    """The commands that bring these packages back, for what differs from them now: empty where nothing does. None where it is not known
    what there was, or what there is."""
    now = installed(python)
    found = [_PIN.fullmatch(pin) for pin in before or ()]
    wanted = {pin["name"]: pin["version"] for pin in found if pin is not None}
    if before is None or now is None or len(wanted) != len(before):
        return None
    added = [name for name in sorted(now) if name not in wanted and _PIN.fullmatch(f"{name}==0") is not None]
    lost = [f"{name}=={version}" for name, version in sorted(wanted.items()) if now.get(name) != version]
    path = shlex.quote(python)
    uninstall, install = (
        (f"uv pip uninstall --python {path}", f"uv pip install --python {path}")
        if tool == "uv"
        else (f"{path} -m pip uninstall -y", f"{path} -m pip install")
    )
    lines = [f"{uninstall} {' '.join(added)}"] if added else []
    lines += [f"{install} --no-deps {' '.join(map(shlex.quote, lost))}"] if lost else []
    return "\n".join(lines)
