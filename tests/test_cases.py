"""Golden cases: homes, and the sessions that they contain.

A case is a folder of ``tests/cases``: ``input`` is written by its function,
``session.json`` is the reviewed result, and ``plain.txt`` is how it is displayed.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from bygones.render.text.session import render_text
from bygones.render.walk import SessionView
from tests.cases.archives import CaseArchives
from tests.cases.make import CASES, stories, write
from tests.cases.shape import written

every_case = pytest.mark.parametrize("name", sorted(stories()))
Golden = Callable[[Path, str], None]


def files(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@every_case
def test_an_input_is_what_its_story_tells(
    name: str, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    if pytestconfig.getoption("--golden"):
        write(name, CASES / name / "input")
    write(name, tmp_path)

    assert files(CASES / name / "input") == files(tmp_path)


@every_case
def test_a_case_reads_as_it_really_was(
    name: str, case_archives: CaseArchives, golden: Golden
) -> None:
    home = case_archives.home(name)

    text = written(case_archives.sessions(name)).replace(str(home), "")

    golden(CASES / name / "session.json", text)


@every_case
def test_a_case_is_shown_as_it_really_was(
    name: str, case_archives: CaseArchives, golden: Golden
) -> None:
    home = case_archives.home(name)
    view = SessionView(include_branches=True, include_agents=True)

    sessions = case_archives.sessions(name)
    text = "\n".join(render_text(session, view) for session in sessions)

    golden(CASES / name / "plain.txt", text.replace(str(home), ""))


def test_every_case_has_its_story() -> None:
    folders = {path.parent.name for path in CASES.glob("*/input")}

    assert folders == set(stories())
