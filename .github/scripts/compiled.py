"""Build hook: a wheel holds the knowledge a second time, as JSON, which is decoded five times as fast. A checkout has the TOML alone."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import tomli
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FOLDERS = ("causes", "recipes", "tables")  # those that knowledge/load.py reads
PLACE = "cudadoctor/knowledge"


def compiled(knowledge: Path) -> str:
    """The knowledge below this folder: {"causes/nouveau-bound.toml": {...}, ...}."""
    files = (file for folder in FOLDERS for file in sorted((knowledge / folder).glob("*.toml")))
    tables = {file.relative_to(knowledge).as_posix(): tomli.loads(file.read_text("utf-8")) for file in files}
    return json.dumps(tables, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


class Compiled(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version != "editable":
            self.folder = tempfile.TemporaryDirectory()
            file = Path(self.folder.name, "compiled.json")
            file.write_text(compiled(Path(self.root, PLACE)), "utf-8")
            build_data["force_include"][str(file)] = f"{PLACE}/{file.name}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if version != "editable":
            self.folder.cleanup()
