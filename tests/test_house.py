"""The shape of the code: what keeps it readable, checked by machine."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from bygones.cli.table import COMMANDS, CommandRow

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "bygones"
FACES = ("cli", "web", "mcp", "hub")

MODULES = sorted(PACKAGE.rglob("*.py"))
SCRIPTS = sorted([ROOT / "start.py", *(ROOT / "docs").glob("*.py")])
BENCHMARKS = sorted((ROOT / "benchmarks").rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))

MAX_MODULE = 500
MAX_FUNCTION = 60
MAX_COMMAND = 120
FORBIDDEN = frozenset(
    (
        "data",
        "info",
        "item",
        "entry",
        "manager",
        "handler",
        "helper",
        "util",
        "utils",
        "process",
        "do",
        "misc",
        "common",
        "base",
    )
)


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def names(path: Path) -> Iterator[str]:
    """Yield the names a module gives: its own, its classes, functions, arguments."""
    yield path.parent.name if path.name == "__init__.py" else path.stem
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg


def words(name: str) -> set[str]:
    name = re.sub(r"base_?\d+", "", name)  # a number's base says something
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)}


def calls(path: Path) -> set[str]:
    return {
        ast.unparse(node.func)
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call)
    }


def layers() -> set[str]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    (contract,) = (
        contract
        for contract in settings["tool"]["importlinter"]["contracts"]
        if contract["type"] == "layers"
    )
    assert contract["exhaustive"] is True
    return set(re.findall(r"\w+", " ".join(contract["layers"])))


every_file = pytest.mark.parametrize(
    "path", [*MODULES, *SCRIPTS, *BENCHMARKS, *TESTS], ids=name_of
)
# A package may consist of nothing but what its docstring says.
WRITTEN = [path for path in MODULES if len(tree_of(path).body) > 1]
every_module = pytest.mark.parametrize("path", WRITTEN, ids=name_of)


@every_file
def test_a_module_fits_in_one_reading(path: Path) -> None:
    assert len(path.read_text("utf-8").splitlines()) <= MAX_MODULE


@pytest.mark.parametrize("row", COMMANDS, ids=lambda row: row.name)
def test_a_command_is_a_face_and_no_more(row: CommandRow) -> None:
    path = ROOT / "src" / f"{row.module.replace('.', '/')}.py"

    assert len(path.read_text("utf-8").splitlines()) <= MAX_COMMAND


@every_file
def test_a_function_fits_on_a_screen(path: Path) -> None:
    long = [
        function.name
        for function in functions(path)
        if (function.end_lineno or 0) - function.lineno >= MAX_FUNCTION
    ]

    assert long == []


@every_file
def test_a_module_says_what_it_is(path: Path) -> None:
    assert ast.get_docstring(tree_of(path))


@pytest.mark.parametrize("path", [*MODULES, *SCRIPTS, *BENCHMARKS], ids=name_of)
def test_names_use_no_word_that_says_nothing(path: Path) -> None:
    assert [name for name in names(path) if words(name) & FORBIDDEN] == []


@every_module
def test_annotations_are_not_evaluated_early(path: Path) -> None:
    assert "from __future__ import annotations" in path.read_text("utf-8")


@every_module
def test_a_public_module_lists_its_names(path: Path) -> None:
    listed = any(
        isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
        for node in tree_of(path).body
    )

    assert listed or path.stem == "__main__" or path.stem.startswith("_")


@every_module
def test_databases_are_opened_in_one_place(path: Path) -> None:
    opened = calls(path) & {"sqlite3.connect", "apsw.Connection", "Connection"}

    assert not opened or path == PACKAGE / "store" / "connect.py"


@every_module
def test_only_faces_print(path: Path) -> None:
    assert "print" not in calls(path) or path.relative_to(PACKAGE).parts[0] in FACES


def test_every_part_has_its_layer() -> None:
    parts = {
        path.stem
        for path in PACKAGE.iterdir()
        if path.suffix == ".py" or (path.is_dir() and any(path.glob("*.py")))
    }

    assert parts - {"__init__"} <= layers()


def test_both_locks_pin_the_same_versions() -> None:
    locked = {
        package["name"]: package["version"]
        for package in tomllib.loads((ROOT / "uv.lock").read_text("utf-8"))["package"]
        if "version" in package
    }
    pinned = dict(
        re.findall(
            r"^([\w.-]+)==([^\s;]+)",
            (ROOT / "requirements-dev.txt").read_text("utf-8"),
            re.MULTILINE,
        )
    )

    assert pinned == locked


def test_every_file_that_may_be_installed_has_its_hash() -> None:
    packages = tomllib.loads((ROOT / "uv.lock").read_text("utf-8"))["package"]
    unhashed = []
    for package in packages:
        files = [*package.get("wheels", []), *filter(None, [package.get("sdist")])]
        is_ours = package["name"] == "bygones"
        assert bool(files) is not is_ours, package["name"]
        signs = [file.get("hash", "") for file in files]
        unhashed += [
            one for one in signs if not re.fullmatch("sha256:[0-9a-f]{64}", one)
        ]

    assert unhashed == []


def test_the_locks_name_public_places_only() -> None:
    text = (ROOT / "uv.lock").read_text("utf-8")

    assert set(re.findall(r"\w+://[^/\"]*", text)) == {
        "https://files.pythonhosted.org",
        "https://pypi.org",
    }
    assert "://" not in (ROOT / "requirements-dev.txt").read_text("utf-8")


def test_the_pipeline_runs_the_command_of_the_readme() -> None:
    command = "python3 start.py test"

    assert command in (ROOT / "README.md").read_text("utf-8")
    assert (ROOT / ".ci" / "run").read_text("utf-8").rstrip().endswith(command)
