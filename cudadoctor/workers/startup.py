"""The start of an interpreter that was called with -S, as the module site carries it out, but for one file. Loaded by ladder.py."""

from __future__ import annotations

import os
import site

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def start_without(path: str) -> None:
    """All that site does, without the lines of a .pth file or without sitecustomize or usercustomize."""
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
