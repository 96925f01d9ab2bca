"""The requirements, and the tests that carry their numbers.

Marks are read from the tests' source, so nothing has to run.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "docs" / "requirements.toml"
SEEDS = ROOT / "docs" / "seeds.toml"
CASES = ROOT / "tests" / "cases"
PENDING = ROOT / "tests" / "pending.toml"


class SeedRule(Struct, frozen=True):
    """A rule of a document, and the tests that show it."""

    rule: str
    tests: tuple[str, ...]
    evidence: str = ""
    """How real data differs, if it does."""


class SeedDocument(Struct, frozen=True):
    title: str
    rules: tuple[SeedRule, ...]


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


def seed_documents() -> dict[str, SeedDocument]:
    """Return the documents that describe the format, with all their rules."""
    return msgspec.toml.decode(SEEDS.read_bytes(), type=dict[str, SeedDocument])


def find_missing_tests(names: Iterable[str]) -> list[str]:
    """Return the tests that do not exist: a path, a name, and perhaps a case."""
    return [name for name in names if not _exists(name)]


def _exists(test: str) -> bool:
    file, _, name = test.partition("::")
    name, _, case = name.partition("[")
    path = ROOT / file
    return (
        path.is_file()
        and (not name or f"def {name}(" in path.read_text("utf-8"))
        and (not case or (CASES / case.removesuffix("]")).is_dir())
    )


def _name(path: Path, folder: Path) -> str:
    return path.relative_to(folder.parent).as_posix()
