"""The requirements, and the tests that carry their numbers.

Marks are read from the tests' source, so nothing has to run.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "docs" / "requirements.toml"
PENDING = ROOT / "tests" / "pending.toml"


def requirements() -> dict[str, dict[str, str]]:
    """Return sentence by number, under the title of their group."""
    groups = tomllib.loads(TABLE.read_text("utf-8"))
    return {group.pop("title"): group for group in groups.values()}


def pending() -> dict[str, str]:
    """Return the step that will bring it, by number, for what has no test yet."""
    return tomllib.loads(PENDING.read_text("utf-8"))


def showing_tests(folder: Path = ROOT / "tests") -> dict[str, dict[str, list[str]]]:
    """Return the names of tests by number, then by file.

    A mark outside any test, such as a module's ``pytestmark``, counts for the file.
    """
    found: dict[str, dict[str, list[str]]] = {}
    for path in sorted(folder.rglob("test_*.py")):
        text = path.read_text("utf-8")
        if "mark.req" not in text:
            continue
        for test, number in marks(ast.parse(text), None):
            names = found.setdefault(number, {}).setdefault(_name(path, folder), [])
            if test and test not in names:
                names.append(test)
    return found


def marks(node: ast.AST, test: str | None) -> Iterator[tuple[str | None, str]]:
    """Yield each mark below ``node`` as the test it is on and a number."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        test = test or node.name
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.req":
        for argument in node.args:
            if isinstance(argument, ast.Constant):
                yield test, str(argument.value)
    for child in ast.iter_child_nodes(node):
        yield from marks(child, test)


def _name(path: Path, folder: Path) -> str:
    return path.relative_to(folder.parent).as_posix()
