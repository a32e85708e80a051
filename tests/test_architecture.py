"""The shape of the package: who may import whom, purity of the judging stages, and small rules that a reader could miss."""

from __future__ import annotations

import ast
import functools
import re
import sys
import threading
from pathlib import Path

import pytest

from cudadoctor.checks.rows import CHECKS
from cudadoctor.commands.check import ROWS
from cudadoctor.judge.stages import judge
from cudadoctor.knowledge.load import load
from cudadoctor.sources import recording
from tests.cases import every, todays

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "cudadoctor"
MODULES = sorted(PACKAGE.rglob("*.py"))


@functools.cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def test_import_contracts() -> None:
    from importlinter.cli import lint_imports

    assert lint_imports(config_filename=str(ROOT / "pyproject.toml"), no_cache=True) == 0


def test_the_rows_of_the_command_line_are_the_rows_of_the_pipeline() -> None:
    assert tuple(check.id for check in CHECKS) == ROWS


def test_every_module_says_what_it_is_for() -> None:
    silent = [str(path.relative_to(ROOT)) for path in MODULES if not ast.get_docstring(_tree(path))]
    assert not silent, f"give these modules a docstring that says what they are for: {silent}"


def _conditions(tree: ast.AST) -> list[ast.expr]:
    tests: list[ast.expr] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.If | ast.While | ast.IfExp | ast.Assert):
            tests.append(node.test)
        elif isinstance(node, ast.BoolOp):
            tests.extend(node.values)
        elif isinstance(node, ast.comprehension):
            tests.extend(node.ifs)
    return tests


@pytest.mark.parametrize("path", sorted((PACKAGE / "checks").glob("*.py")), ids=lambda path: path.stem)
def test_no_rule_takes_ignorance_for_an_answer(path: Path) -> None:
    """`facts.get(KEY)` gives an Unknown, which has no truth value: as a condition it is refused here."""
    for test in _conditions(_tree(path)):
        bare = test.operand if isinstance(test, ast.UnaryOp) else test
        is_get = (
            isinstance(bare, ast.Call)
            and isinstance(bare.func, ast.Attribute)
            and bare.func.attr == "get"
            and isinstance(bare.func.value, ast.Name)
            and bare.func.value.id == "facts"
        )
        assert not is_get, f"{path.name}, line {test.lineno}: read facts[KEY] instead, or ask isinstance(found, Unknown)"


def test_every_run_time_dependency_is_imported_somewhere() -> None:
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    block = text.split("dependencies = [", 1)[1].split("\n]", 1)[0]
    names = [re.match(r'\s*"([A-Za-z0-9_-]+)', line) for line in block.splitlines()]
    imports = {"nvidia-ml-py": "pynvml", "numba-cuda": "numba", "tomli": "tomli", "ahocorasick-rs": "ahocorasick_rs"}
    imported = {
        name.split(".")[0]
        for path in MODULES
        for node in ast.walk(_tree(path))
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    unused = [match.group(1) for match in names if match and imports.get(match.group(1), match.group(1)) not in imported]
    # msgspec.toml imports tomli itself on Python 3.10.
    assert [name for name in unused if name != "tomli"] == []


FORBIDDEN_EVENTS = ("open", "os.", "subprocess.", "socket.", "ctypes.", "shutil.", "glob.", "pathlib.")


@pytest.mark.parametrize("one_in", [4, pytest.param(1, marks=pytest.mark.long)])
def test_judging_touches_nothing(one_in: int) -> None:
    """An audit hook watches while a judgement runs: no file, process, socket or library."""
    knowledge = load()
    hosts = sorted((ROOT / "fixtures" / "hosts").iterdir())
    evidence = [recording.read(str(host)) for host in hosts]
    for name in (0, [host.name for host in hosts].index("h100-ptx-jit-disabled")):  # whose experiments name a variable
        judge(evidence[name], knowledge)  # lazy imports happen here, not in what is watched
    watched: list[str] = []
    on = threading.Event()
    thread = threading.get_ident()

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if on.is_set() and threading.get_ident() == thread and event.startswith(FORBIDDEN_EVENTS):
            watched.append(f"{event} {arguments[:1]}")

    sys.addaudithook(hook)
    on.set()
    try:
        for one in todays(evidence, one_in):
            judge(one, knowledge)
    finally:
        on.clear()
    assert watched == []


def test_workers_read_on_python_3_8() -> None:
    for path in sorted((PACKAGE / "workers").glob("*.py")):
        ast.parse(path.read_text("utf-8"), feature_version=(3, 8))


@every("path", MODULES)
def test_no_unix_only_module_at_the_top(path: Path) -> None:
    """explain and --replay work on every system."""
    unix = {"pwd", "grp", "fcntl", "resource", "termios"}
    for node in _tree(path).body:
        names = (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module]
            if isinstance(node, ast.ImportFrom)
            else []
        )
        assert not unix.intersection(name or "" for name in names)


def test_a_rule_belongs_to_the_row_of_its_causes() -> None:
    """The row that shows a cause is the row that its rule leaves undecided."""
    causes = load().causes
    wrong = [
        f"{rule.function.__name__}: {cause} is shown in row {causes[cause].row}, its rule says {rule.row}"
        for check in CHECKS for rule in check.rules for cause in rule.causes[:1] if cause in causes and causes[cause].row != rule.row
    ]  # fmt: skip
    assert not wrong, wrong
