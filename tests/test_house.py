"""Rules about the shape of the code base. Each test returns the list of offenders."""

from __future__ import annotations

import ast
import re
import tokenize
import tomllib
import warnings
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "bygones"
INTERFACES = ("cli", "web", "mcp", "hub")

MODULES = sorted(PACKAGE.rglob("*.py"))
SCRIPTS = sorted([ROOT / "start.py", *(ROOT / "docs").glob("*.py")])
BENCHMARKS = sorted((ROOT / "benchmarks").rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
ALL_FILES = [*MODULES, *SCRIPTS, *BENCHMARKS, *TESTS]

WARN_MODULE_LINES = 600
MAX_MODULE_LINES = 900
MAX_FUNCTION_LINES = 60


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def read(path: Path) -> str:
    return path.read_text("utf-8")


class Facts(NamedTuple):
    """What the rules ask about a file; its syntax tree would take much memory."""

    statements: int
    long_functions: list[str]
    classes: list[str]
    calls: set[str]
    imports: list[str]


@cache
def facts(path: Path) -> Facts:
    module = ast.parse(read(path))
    nodes = list(ast.walk(module))
    return Facts(
        statements=len(module.body),
        long_functions=[
            node.name
            for node in nodes
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            and (node.end_lineno or 0) - node.lineno >= MAX_FUNCTION_LINES
        ],
        classes=[node.name for node in nodes if isinstance(node, ast.ClassDef)],
        calls={dotted_name(node.func) for node in nodes if isinstance(node, ast.Call)},
        imports=list(runtime_imports(nodes)),
    )


def dotted_name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{dotted_name(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def runtime_imports(nodes: list[ast.AST]) -> Iterator[str]:
    """Yield what a module imports at run time, also inside functions."""
    skipped: set[int] = set()
    for node in nodes:
        if isinstance(node, ast.If) and dotted_name(node.test) == "TYPE_CHECKING":
            skipped.update(id(child) for child in ast.walk(node))
    for node in nodes:
        if id(node) in skipped:
            continue
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def strongly_connected(graph: dict[str, set[str]]) -> list[list[str]]:
    """Return the cycles of a graph as lists of nodes (Tarjan)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    cycles: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for target in sorted(graph[node]):
            if target not in index:
                visit(target)
                low[node] = min(low[node], low[target])
            elif target in stack:
                low[node] = min(low[node], index[target])
        if low[node] == index[node]:
            cut = stack.index(node)
            component, stack[cut:] = stack[cut:], []
            if len(component) > 1:
                cycles.append(sorted(component))

    for node in sorted(graph):
        if node not in index:
            visit(node)
    return cycles


def test_no_module_is_too_long() -> None:
    lengths = {relative(path): read(path).count("\n") for path in ALL_FILES}
    long = {name: n for name, n in lengths.items() if n > WARN_MODULE_LINES}
    if long:
        warnings.filterwarnings("default", message="long modules")
        warnings.warn(f"long modules: {long}", stacklevel=1)

    assert [name for name, n in lengths.items() if n > MAX_MODULE_LINES] == []


def test_no_function_is_too_long() -> None:
    offenders = [
        f"{relative(path)}: {name}"
        for path in ALL_FILES
        for name in facts(path).long_functions
    ]

    assert offenders == []


def test_no_class_name_is_used_twice() -> None:
    places = defaultdict(list)
    for path in MODULES:
        for name in facts(path).classes:
            places[name].append(relative(path))

    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_no_import_cycle_inside_the_package() -> None:
    names = {module_name(path) for path in MODULES}
    graph = {
        module_name(path): names.intersection(facts(path).imports) - {module_name(path)}
        for path in MODULES
    }
    # A package's __init__ is imported with every module in it.
    packages = {module_name(path) for path in MODULES if path.name == "__init__.py"}
    graph = {
        name: {target for target in targets if target not in packages}
        for name, targets in graph.items()
    }

    assert strongly_connected(graph) == []


def test_annotations_are_not_evaluated_at_run_time() -> None:
    offenders = [
        relative(path)
        for path in MODULES
        if facts(path).statements > 1
        and "from __future__ import annotations" not in read(path)
    ]

    assert offenders == []


def test_databases_are_opened_in_one_module() -> None:
    openers = {"sqlite3.connect", "apsw.Connection", "Connection"}

    assert [relative(p) for p in MODULES if facts(p).calls & openers] == [
        "src/bygones/store/connect.py"
    ]


def test_only_interfaces_print() -> None:
    offenders = [
        relative(path)
        for path in MODULES
        if path.relative_to(PACKAGE).parts[0] not in INTERFACES
        and "print" in facts(path).calls
    ]

    assert offenders == []


def test_every_part_has_a_layer() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    (contract,) = (
        contract
        for contract in settings["tool"]["importlinter"]["contracts"]
        if contract["type"] == "layers"
    )
    layers = set(re.findall(r"\w+", " ".join(contract["layers"])))
    parts = {
        path.stem
        for path in PACKAGE.iterdir()
        if path.suffix == ".py" or (path.is_dir() and any(path.glob("*.py")))
    }

    assert contract["exhaustive"] is True
    assert parts - {"__init__"} <= layers


def test_the_former_name_appears_only_in_the_changelog() -> None:
    former = "recol" + "lect"
    suffixes = {".py", ".md", ".toml", ".json", ".js", ".css", ".svg", ".sql", ".1"}
    folders = ("src", "docs", "tests", "benchmarks", "plugin", ".ci")
    files = [path for name in folders for path in (ROOT / name).rglob("*")]
    files += [path for path in ROOT.iterdir() if path.name != "CHANGELOG.md"]
    offenders = [
        relative(path)
        for path in files
        if path.is_file()
        and "node_modules" not in path.parts
        and (
            former in path.name.lower()
            or (
                (path.suffix in suffixes or path.suffix == "")
                and former in path.read_text("utf-8", "replace").lower()
            )
        )
    ]
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8").lower()

    assert offenders == []
    assert sum(former in line for line in changelog.splitlines()) == 1


ODD_WORDS = re.compile(
    r"\b(whoever|nobody|somebody|anew|begun|parted|litter|deeds?|purses?|slips are"
    r"|one a line|goes on|signs|stands? (?:in|nowhere)|dear(?:er|est)?|as such"
    r"|as it was(?= ?[.,;:)])|fits(?! (?:in|into|on|the|a)\b)"
    r"|(?:tak(?:e|es|en|ing)|took) in(?! (?:the|a|order|proportion)\b)"
    r"|(?:is|are|was|were|be|been) told(?! apart)|tells? of"
    r"|(?<!there )(?:is|are|was|were) no (?!longer|more\b|less\b|fewer\b|\w+er than)"
    r"|(?:comes?|came|written|hours?|days?|minutes?|seconds?) behind"
    r"|or else|(?<=, )else|(?<=\()else)\b",
    re.IGNORECASE,
)
"""Words that documentation and messages avoid; see the glossary for the usual terms."""


def find_odd_words(text: str) -> list[str]:
    """Return the odd words in a text, also where a line ends between two words."""
    joined = " ".join(word for word in text.split() if word != "#")
    return [match[0] for match in ODD_WORDS.finditer(joined)]


@pytest.mark.parametrize(
    "text",
    [
        *("at most 80 signs", "it stands in settings.toml", "they are taken in"),
        *("the hub is told", "a line tells of it", "x is no number", "as such"),
        *("kept as it was.", "a word that fits", "an hour behind", "dearer"),
        *("a terminal, else all", "the id, or else the name", "there\n    was begun"),
    ],
)
def test_odd_words_are_found(text: str) -> None:
    assert len(find_odd_words(text)) == 1


@pytest.mark.parametrize(
    "text",
    [
        *("there\n    is no index", "a line fits in the window", "is no longer used"),
        *("a prompt as it was typed", "behind a proxy", "nothing else", "told apart"),
    ],
)
def test_plain_words_are_not_reported(text: str) -> None:
    assert find_odd_words(text) == []


def find_documents() -> list[Path]:
    """Return the files that people read and that are not Python."""
    documents = [*ROOT.glob("*.md"), *ROOT.glob("*.toml")]
    for name in ("docs", "plugin", "benchmarks"):
        documents += (ROOT / name).rglob("*.md")
        documents += (ROOT / name).rglob("*.toml")
    for suffix in ("js", "css", "html", "sql", "toml"):
        documents += PACKAGE.rglob(f"*.{suffix}")
    # Results are kept as they were written.
    return [path for path in documents if path.parent.name != "results"]


def test_prose_uses_plain_words() -> None:
    """Documents, docstrings, comments and messages avoid stilted words."""
    offenders = [
        f"{relative(path)}: {words}"
        for path in find_documents()
        if (words := find_odd_words(read(path)))
    ]
    sample_data = {"demo.py", "personal.py", "test_house.py"}
    for path in ALL_FILES:
        # Tokens are read only if the file as a whole contains such a word.
        if path.name in sample_data or not find_odd_words(read(path)):
            continue
        is_test = path in TESTS
        with path.open("rb") as file:
            offenders += [
                f"{relative(path)}:{token.start[0]}: {words}"
                for token in tokenize.tokenize(file.readline)
                if token.type in (tokenize.COMMENT, tokenize.STRING)
                # Tests quote texts of any kind; their documentation is checked.
                if not is_test
                or token.type == tokenize.COMMENT
                or token.string.startswith('"""')
                if (words := find_odd_words(token.string))
            ]

    assert offenders == []


AVOIDED_TERMS = re.compile(
    r"\b((?:the|our) web page(?! of)|web ?(?:UIs?|apps?)|team(?:'s)? (?:stores?|servers?|archives?)"
    r"|(?:last|final|first|Claude's|next|previous) answers?|last-answer"
    r"|prompts (?:and|or|nor) answers|ingest(?:ed|ing|ion|s)|(?:an|first) ingest"
    r"|Claude(?:'s| Code(?:'s)?)? (?:folder|directory)|(?:was|were) read again"
    r"|cached tokens|(?:rewound|dead|discarded) branch(?:es)?|snippets?|log(?:ged)? in"
    r"|sub-agents?|tool invocations?|scrub(?:s|bed)?|anonymi[sz]e[ds]?|favou?rites?"
    r"|chats?)\b",
    re.IGNORECASE,
)
"""Other words for concepts that have a term; see the glossary."""

INTERFACE_PARTS = ("cli", "web", "mcp", "hub", "errors", "integrations", "schema")


def find_avoided_terms(text: str) -> list[str]:
    """Return words for which the glossary has another term."""
    return [match[0] for match in AVOIDED_TERMS.finditer(" ".join(text.split()))]


@pytest.mark.parametrize(
    "text",
    [
        *("shown on the web page", "a team\n store", "Claude's last answer", "snippet"),
        *("sessions were ingested", "the first ingest", "the Claude Code folder"),
        *("log in first", "a sub-agent", "no prompts or answers"),
    ],
)
def test_avoided_terms_are_found(text: str) -> None:
    assert len(find_avoided_terms(text)) == 1


def read_prose(path: Path) -> str:
    """Return a document without the figures that the fault harnesses write."""
    text = path.read_text("utf-8")
    if path.name == "CHANGELOG.md":  # It quotes former names.
        text = re.sub(r"`[^`]*`", "", text)
    if path.name == "reliability.md":
        lines = text.splitlines()
        text = "\n".join(
            line for line in lines if not re.search(r"\| [\d,]+ \|$", line)
        )
    return text


def test_users_read_one_term_per_concept() -> None:
    """Documents and the texts of interfaces use the terms of the glossary."""
    documents = [
        *(ROOT / name for name in ("README.md", "CHANGELOG.md")),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "plugin").rglob("*.md"),
        ROOT / "benchmarks" / "README.md",
        *(PACKAGE / "web" / "static").glob("*.js"),
    ]
    # The glossary names the terms to avoid, the requirements quote documents.
    exempt = {"glossary.md", "requirements.md"}
    offenders = [
        f"{relative(path)}: {words}"
        for path in documents
        if path.name not in exempt
        if (words := find_avoided_terms(read_prose(path)))
    ]
    for path in MODULES:
        if path.relative_to(PACKAGE).parts[0] not in INTERFACE_PARTS:
            continue
        with path.open("rb") as file:
            offenders += [
                f"{relative(path)}:{token.start[0]}: {words}"
                for token in tokenize.tokenize(file.readline)
                if token.type == tokenize.STRING and path.name != "demo.py"
                if not token.string.startswith('"--')
                if (words := find_avoided_terms(token.string))
            ]

    assert offenders == []


def test_no_merge_conflict_is_committed() -> None:
    marks = re.compile(r"^(?:<{7}|>{7}) ", re.MULTILINE)
    files = [*find_documents(), *MODULES, *SCRIPTS, *BENCHMARKS]

    assert [relative(p) for p in files if marks.search(p.read_text("utf-8"))] == []


BRITISH_SPELLINGS = re.compile(
    r"(?:(?:col|neighb|behavi|fav|hon)our|licence|artefact|acknowledgement|catalogue"
    r"|(?:label|model|travel)l(?:ed(?!by)|ing)|\bgrey|\bcentre|defence"
    r"|(?:anal|paral)ys(?:e|ed|es|ing)\b"
    r"|(?:author|capital|categor|custom|emphas|final|general|initial|local|maxim"
    r"|memor|minim|normal|optim|organ|penal|prior|real|recogn|sanit|serial|special"
    r"|standard|summar|synchron|token|util|visual)is(?:e[ds]?|ing|able|ation)$)",
)
QUOTES_BRITISH_WORDS = {"corpus", "test_house.py"}


def test_spelling_is_american() -> None:
    places = defaultdict(list)
    for path in [*find_documents(), *ALL_FILES]:
        if not QUOTES_BRITISH_WORDS.intersection(path.parts):
            for word in set(re.findall("[a-z]+", read(path).lower())):
                places[word].append(relative(path))

    assert {
        word: found for word, found in places.items() if BRITISH_SPELLINGS.search(word)
    } == {}


def test_both_lock_files_pin_the_same_versions() -> None:
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


def test_every_locked_file_has_a_hash() -> None:
    packages = tomllib.loads((ROOT / "uv.lock").read_text("utf-8"))["package"]
    without_hash = []
    for package in packages:
        files = [*package.get("wheels", []), *filter(None, [package.get("sdist")])]
        is_ours = package["name"] == "bygones"
        assert bool(files) is not is_ours, package["name"]
        without_hash += [
            file["url"]
            for file in files
            if not re.fullmatch("sha256:[0-9a-f]{64}", file.get("hash", ""))
        ]

    assert without_hash == []


def test_lock_files_name_public_hosts_only() -> None:
    text = (ROOT / "uv.lock").read_text("utf-8")

    assert set(re.findall(r"\w+://[^/\"]*", text)) == {
        "https://files.pythonhosted.org",
        "https://pypi.org",
    }
    assert "://" not in (ROOT / "requirements-dev.txt").read_text("utf-8")


def test_continuous_integration_runs_the_command_of_the_readme() -> None:
    command = "python3 start.py test"

    assert command in (ROOT / "README.md").read_text("utf-8")
    assert (ROOT / ".ci" / "run").read_text("utf-8").rstrip().endswith(command)
