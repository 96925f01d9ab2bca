"""Pages and index of an exported folder."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bygones.export import folder
from bygones.export.folder import (
    ExportedSession,
    render_index_pages,
    render_session_pages,
)
from bygones.export.formats import ExportFormat
from bygones.model.sessions import Session
from tests.build import prompt, reply, thread
from tests.export.shared import export_options
from tests.render.html.outline import attributes, outline, tags
from tests.render.shared import session_of

HTML = export_options(ExportFormat.HTML)


@pytest.fixture
def long(tmp_path: Path) -> Session:
    """Return a session of twelve turns."""
    talk = (r for n in range(12) for r in (prompt(f"ask {n}"), reply(f"say {n}")))
    return session_of(tmp_path, thread(*talk))


def split_pages(session: Session) -> dict[str, str]:
    return {
        name: "".join(pieces)
        for name, pieces in render_session_pages(session, "sessions/x", HTML)
    }


def test_long_session_is_split_into_pages(
    long: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    (whole,) = split_pages(long).values()
    monkeypatch.setattr(folder, "_MAX_PAGE_CHARS", 1500)

    pages = split_pages(long)

    assert list(pages)[:2] == ["sessions/x.html", "sessions/x-2.html"]
    texts = [re.findall(r"(?:ask|say) \d+(?=<)", text) for text in pages.values()]
    assert len(texts) > 3
    in_main = re.findall(r"say \d+(?=<)", "".join(pages.values()))
    assert in_main == re.findall(r"say \d+(?=<)", whole)
    for text in pages.values():
        assert "html" in tags(text)  # and every element is closed


def test_pages_link_to_each_other_and_list_their_prompts(
    long: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder, "_MAX_PAGE_CHARS", 1500)

    attribute_lists = [attributes(text) for text in split_pages(long).values()]

    assert ("a", "href", "x-2.html") in attribute_lists[0]
    assert ("a", "href", "x.html") in attribute_lists[1]
    for text in attribute_lists:
        names = {value for _, name, value in text if name == "id"}
        links = {v[1:] for t, n, v in text if t == "a" and n == "href" and v[:1] == "#"}
        assert links <= names


def rows(*projects: str) -> list[ExportedSession]:
    return [
        ExportedSession(
            page=f"sessions/{n}.html",
            title=f"<t{n}>",
            project=project,
            search_text="</script>",
        )
        for n, project in enumerate(projects)
    ]


def test_index_lists_sessions_and_projects() -> None:
    html = dict(render_index_pages(rows("~/a", "~/b", "~/a"), HTML))

    index = outline(html["index.html"].decode())
    assert "3 sessions in 2 projects" in index
    assert re.search(r"<a href=sessions/0.html>\s+<t0>", index)
    assert len([name for name in html if name.startswith("projects/")]) == 2


def test_single_project_has_no_project_list() -> None:
    html = dict(render_index_pages(rows("~/a", "~/a"), HTML))

    assert not any(name.startswith("projects/") for name in html)
    assert "<h1>\n" in outline(html["index.html"].decode())
    assert "~/a" in html["index.html"].decode()


def test_search_index_cannot_end_its_script_element() -> None:
    script = dict(render_index_pages(rows("~/a"), HTML))["assets/index.js"].decode()

    assert "<" not in script
    entries = json.loads(
        script.removeprefix("globalThis.bygonesIndex = ").rstrip(";\n")
    )
    assert entries == [["sessions/0.html", "<t0>", "~/a · 0 prompts", "</script>"]]


def test_empty_session_has_a_page(tmp_path: Path) -> None:
    session = session_of(tmp_path, thread(prompt("x")))

    assert len(split_pages(session)) == 1


def test_index_groups_sessions_by_project_and_day() -> None:
    def listed(title: str, project: str, day: int) -> ExportedSession:
        time = datetime(2026, 1, day, 9, tzinfo=UTC)
        return ExportedSession(
            page=f"{title}.html", title=title, project=project, started=time, ended=time
        )

    sessions = [
        listed("newest", "~/a", 7),
        listed("middle", "~/b", 6),
        listed("same day", "~/a", 7),
        listed("oldest", "~/a", 5),
    ]
    text = dict(render_index_pages(sessions, HTML))["index.html"].decode()
    entries = re.findall(
        r"<(?:h2 class=\"group\"|h3|li)[^>]*>(?:<a[^>]*>)?([^<]+)", text
    )

    assert entries[:9] == [
        "~/a",
        "Wednesday, January 7, 2026",
        "newest",
        "same day",
        "Monday, January 5, 2026",
        "oldest",
        "~/b",
        "Tuesday, January 6, 2026",
        "middle",
    ]
