"""What an experiment changes in this process before it climbs: its limits, or the start of its interpreter. Loaded by ladder.py."""

from __future__ import annotations

import os
import site

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


LIMITS = ("RLIMIT_AS", "RLIMIT_DATA", "RLIMIT_MEMLOCK", "RLIMIT_NOFILE", "RLIMIT_NPROC", "RLIMIT_STACK")


def raise_limits() -> None:
    """Every soft limit that is lower than its hard one, up to that. Windows has none of them."""
    try:
        import resource
    except ImportError:
        return
    for name in LIMITS:
        try:
            _, most = resource.getrlimit(getattr(resource, name))
            resource.setrlimit(getattr(resource, name), (most, most))
        except (AttributeError, OSError, ValueError):
            pass  # not on this system, or refused: what is left as it is shows in the run


def start_without(path: str) -> None:
    """All that site does, in an interpreter that was called with -S, but for a .pth file or for sitecustomize or usercustomize."""
    folder, name = os.path.split(path)
    add_package: Any = site.addpackage

    def add_others(sitedir: str, pth: str, *known: Any) -> Any:
        same = pth == name and os.path.realpath(sitedir) == os.path.realpath(folder)
        return (known[0] if known else None) if same else add_package(sitedir, pth, *known)

    site.addpackage = add_others  # type: ignore[assignment]
    execute = "exec" + name.partition(".")[0]  # execsitecustomize, execusercustomize
    if hasattr(site, execute):
        setattr(site, execute, lambda: None)
    site.main()
