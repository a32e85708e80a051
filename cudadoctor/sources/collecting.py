"""Writes the one file of `record --script`: collect_template.py with the texts of the doctor's own modules and workers in it.

Nothing is written a second time: the modules that a live check runs are taken as they are, with their imports, and `older` makes of them
what Python 3.6 reads. msgspec is replaced by small_structs.py; NVML's binding goes along where it is installed, as the doctor asks by it.
"""

from __future__ import annotations

import ast
import importlib.util
import re
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path

import msgspec

from cudadoctor import __version__
from cudadoctor.knowledge.load import load
from cudadoctor.model.frameworks import NAMES
from cudadoctor.sources.probes import LINUX, Probe, framework

PACKAGE = Path(__file__).parent.parent
ROOTS = ("cudadoctor.sources.host", "cudadoctor.sources.redact", "cudadoctor.sources.recording")
TEMPLATE, STRUCTS = "cudadoctor.sources.collect_template", "cudadoctor.sources.small_structs"
BINDING, DISTRIBUTION = "pynvml", "nvidia-ml-py"
_MAIN = '\n\nif __name__ == "__main__":\n    sys.exit'
_IN_TYPING = frozenset({"Callable", "Iterable", "Iterator", "Mapping", "Sequence"})


def script(more: Iterable[Probe] = ()) -> str:
    """The text of the file. `more`: what extensions ask."""
    program, found, end = older(_text(TEMPLATE)).partition(_MAIN)
    assert found
    data = [
        f"\n\n# {'-' * 63} the doctor {__version__}, module by module",
        *(f"MODULES[{name!r}] = {quoted(text)}" for name, text in modules().items()),
        f"# {'-' * 63} workers, which run as children, and what they import",
        *(f"FILES[{name!r}] = {quoted(text)}" for name, text in files(more).items()),
        f"FRAMEWORKS = {NAMES!r}",
        f"MORE = {tuple(msgspec.to_builtins(probe) for probe in more)!r}",
    ]
    return program + "\n".join(data) + found + end


# ---------------------------------------------------------------- what goes along
def _file(module: str) -> Path:
    path = PACKAGE.joinpath(*module.split(".")[1:])
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def _text(module: str) -> str:
    return _file(module).read_text(encoding="utf-8")


def modules() -> dict[str, str]:
    """The modules of a live check with all that they import of ours, and what stands for msgspec and for the knowledge of redaction."""
    found = {
        "msgspec": older(_text(STRUCTS)),
        "cudadoctor": f'"""The doctor, as far as a recording needs it."""\n\n__version__ = {__version__!r}\n',
        "cudadoctor.knowledge": "",
        "cudadoctor.knowledge.load": f"class load:\n    redaction = {load().redaction!a}\n",
    }
    waiting = list(ROOTS)
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        text = _text(name)
        found[name] = older(text)
        waiting += [name.rpartition(".")[0], *_imports(ast.parse(text))]
    return dict(sorted(found.items()))


def _imports(node: ast.AST) -> Iterator[str]:
    """Modules of ours that are imported when it runs, not for type checkers alone."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and isinstance(child.test, ast.Name) and child.test.id == "TYPE_CHECKING":
            continue
        if isinstance(child, ast.ImportFrom) and (child.module or "").split(".")[0] == "cudadoctor":
            for alias in child.names:
                inner = f"{child.module}.{alias.name}"
                yield inner if _file(inner).is_file() else child.module or ""
        yield from _imports(child)


def files(more: Iterable[Probe] = ()) -> dict[str, str]:
    """The workers of all probes with the parts that they load, and NVML's binding; their paths in the temporary folder."""
    found: dict[str, str] = {}
    asked = (*LINUX, *(framework(name) for name in NAMES), *more)
    waiting = [Path(probe.what).stem for probe in asked if probe.kind == "worker" and isinstance(probe.what, str)] + ["supervisor"]
    while waiting:
        name = waiting.pop()
        path = f"cudadoctor/workers/{name}.py"
        if path in found:
            continue
        text = (PACKAGE / "workers" / f"{name}.py").read_text(encoding="utf-8")
        found[path] = older(text)
        waiting += _parts(ast.parse(text))
    return {**dict(sorted(found.items())), **_binding()}


def _parts(tree: ast.AST) -> Iterator[str]:
    """The files of its folder that a worker imports or loads: every text in it that is such a name. Those for Windows are left out."""
    names = {path.stem for path in (PACKAGE / "workers").glob("[a-z]*.py") if "windows" not in path.stem}
    for node in ast.walk(tree):
        name = node.value if isinstance(node, ast.Constant) else node.module if isinstance(node, ast.ImportFrom) else None
        if name in names:
            yield str(name)


def _binding() -> dict[str, str]:
    """NVML's binding as it is installed here, under the name of its distribution: the worker says which one it asked by."""
    try:
        version = metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return {}
    spec = importlib.util.find_spec(BINDING)
    if spec is None or not spec.origin or not spec.origin.endswith("pynvml.py"):
        return {}
    folder = f"packages/{DISTRIBUTION.replace('-', '_')}-{version}.dist-info/"
    return {folder: "", f"packages/{BINDING}.py": Path(spec.origin).read_text(encoding="utf-8")}


# ---------------------------------------------------------------- texts
def quoted(text: str) -> str:
    """A text as a literal that can be read as the text itself."""
    if "'''" not in text and not text.endswith(("'", "\\")):
        return f"r'''{text}'''"
    body = re.sub(r"'(?='|\Z)", r"\'", text.replace("\\", "\\\\"))  # no two quotes in a row, none at the end
    return f"'''{body}'''"


def older(text: str) -> str:
    """The same program for Python 3.6: annotations as texts, and no `from __future__ import annotations`, which says just that.

    Only these places are changed, so comments and the rest stay as they were written.
    """
    lines = text.encode().split(b"\n")
    for place, (new, node) in sorted(_changes(ast.parse(text)), key=lambda change: change[0], reverse=True):
        first, last = place[0] - 1, (node.end_lineno or 0) - 1
        rest = lines[last][node.end_col_offset or 0 :]
        lines[first : last + 1] = [lines[first][: place[1]] + new.encode() + rest]
    # An empty line stays for it: a traceback of a worker names the lines that it has where the doctor is installed.
    return b"\n".join(line if line != b"from __future__ import annotations" else b"" for line in lines).decode()


def _changes(tree: ast.AST) -> Iterator[tuple[tuple[int, int], tuple[str, ast.expr | ast.ImportFrom]]]:
    """Where, and what is to stand there instead of which part."""
    for node in ast.walk(tree):
        note = getattr(node, "returns", None) or getattr(node, "annotation", None)
        if isinstance(note, ast.expr) and not isinstance(note, ast.Constant):
            text = ast.unparse(note)
            yield (note.lineno, note.col_offset), (repr(text) if '"' in text else f'"{text}"', note)
        if (
            isinstance(node, ast.ImportFrom)
            and node.module == "collections.abc"
            and _IN_TYPING.issuperset(alias.name for alias in node.names)
        ):
            # Those of collections.abc take no [...] before Python 3.9.
            yield (node.lineno, node.col_offset), (ast.unparse(node).replace("collections.abc", "typing", 1), node)
