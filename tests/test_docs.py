"""The documentation agrees with the code."""

from __future__ import annotations

import doctest
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bygones.archive import Archive
from bygones.cli.commands.demo import write_demo_home
from docs.make import all_pages

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])

FENCE = re.compile(r"^```.*$", re.MULTILINE)
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!\w+:)([^)#\s]+)(?:#[^)]*)?\)")
PATH = re.compile(r"`((?:\.ci|src|tests|docs|benchmarks)/[\w./-]*)`")


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def prose(document: Path) -> str:
    return FENCED.sub("", document.read_text("utf-8"))


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_every_link_leads_somewhere(document: Path) -> None:
    links = LINK.findall(prose(document))

    assert [link for link in links if not (document.parent / link).exists()] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_every_path_named_exists(document: Path) -> None:
    paths = PATH.findall(prose(document))

    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_architecture_lists_every_package() -> None:
    package = ROOT / "src" / "bygones"
    rows = re.findall(
        r"^\| ((?:`\w+`(?:, )?)+) \|",
        (ROOT / "ARCHITECTURE.md").read_text("utf-8"),
        re.MULTILINE,
    )
    listed = {part for names in rows for part in re.findall(r"\w+", names)}
    existing = {path.stem for path in package.glob("*.py")}
    existing |= {path.parent.name for path in package.glob("*/*.py")}

    assert existing - {"__init__", "__main__"} <= listed


@pytest.fixture(scope="module")
def pages() -> dict[Path, str]:
    return all_pages()


def test_generated_pages_are_current(pages: dict[Path, str]) -> None:
    stale = [
        name_of(path)
        for path, text in pages.items()
        if not path.exists() or path.read_text("utf-8") != text
    ]

    assert stale == [], "run: python -m docs.make"


def test_no_generated_page_is_left_over(pages: dict[Path, str]) -> None:
    existing = {*(ROOT / "docs" / "reference").glob("*.md")}
    existing |= {*(ROOT / "docs" / "man").iterdir()}

    assert existing == set(pages)


@pytest.mark.parametrize("name", ["library"])
def test_the_examples_of_a_guide_hold(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    demo = Path("demo").absolute()
    home = write_demo_home(demo, datetime(2026, 1, 31, 12, tzinfo=UTC))
    Archive.ingest(demo / "archive", [home])
    page = FENCE.sub("", (ROOT / f"docs/guide/{name}.md").read_text("utf-8"))
    examples = doctest.DocTestParser().get_doctest(page, {}, name, None, 0)

    output: list[str] = []
    doctest.DocTestRunner().run(examples, out=output.append)

    assert examples.examples
    assert output == []
