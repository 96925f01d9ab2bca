"""Selecting sessions: one meaning of a query in every interface.

The numbered tests are about the 14 points in which lists, searches, usage reports,
prompts, exports and pages used to disagree.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bygones.archive import Archive
from bygones.model.query import And, FieldValue, Not, Query
from bygones.model.summary import Annotations
from tests.build import (
    Home,
    Written,
    compact,
    moment,
    prompt,
    reply,
    session_id,
    thread,
    title,
    tool_result,
    tool_use,
)

NOW = datetime(2026, 1, 20, tzinfo=UTC)
DAY = 86_400
SHOP, SHOP2, API, KEYED, EMPTY, COPY = range(1, 7)
NAMES = ("SHOP", "SHOP2", "API", "KEYED", "EMPTY", "COPY")
OPUS = "claude-opus-4-5-20251101"


def in_folder(folder: str | None, records: list[Written]) -> list[Written]:
    return [
        record | {"cwd": folder} if "parentUuid" in record else record
        for record in records
    ]


def write_home(home: Home) -> None:
    shop = thread(
        prompt("Why does the login fail?"),
        reply([tool_use("Bash", command="pytest -k login")]),
        tool_result("toolu_1", "ok"),
        reply("A retry helps.", uuid="helps"),
        compact("helps"),
        prompt("Retry with a jitter"),
        reply("Done", model=OPUS),
    )
    titled = title("Fix the flaky tests", custom=True)
    home.session(session_id(SHOP), [*in_folder("/work/shop", shop), titled])
    shop2 = thread(prompt("Paint the login page"), reply("Painted"), start=DAY)
    home.session(session_id(SHOP2), in_folder("/work/shop2", shop2), project="-shop2")
    api = thread(
        prompt("Document the API"), reply("Documented", model=OPUS), start=2 * DAY
    )
    home.agent(
        session_id(API), "a1", thread(prompt("Look"), reply("Seen")), project="-api"
    )
    home.session(session_id(API), in_folder("/work/shop/api", api), project="-api")
    keyed = thread(prompt("Nowhere in particular"), reply("Yes"), start=3 * DAY)
    for record in keyed:
        del record["cwd"]
    home.session(session_id(KEYED), keyed, project="-keyed")
    empty = in_folder("/work/shop", [prompt("/clear", isMeta=True)])
    empty[0]["timestamp"] = moment(4 * DAY)
    home.session(session_id(EMPTY), empty)
    more = prompt("Once more", parent=shop[-1]["uuid"], timestamp=moment(5 * DAY))
    home.session(
        session_id(COPY), in_folder("/work/copy", [*shop, more]), project="-copy"
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder_path = tmp_path_factory.mktemp("selection")
    home = Home(folder_path / "home")
    write_home(home)
    Archive.ingest(folder_path / "archive", [home.path])
    with Archive.open(folder_path / "archive") as archive:
        marks = Annotations(tags=("release",), is_starred=True)
        archive.annotate([archive.session_summary(session_id(API)).id], lambda _: marks)
    return folder_path / "archive"


@pytest.fixture
def archive(folder: Path) -> Iterator[Archive]:
    with Archive.open(folder) as archive:
        yield archive


def selected(archive: Archive, query: str, project: str | None = None) -> set[str]:
    """Return the names of the sessions that a query selects."""
    found = archive.sessions(query, project=project, now=NOW, timezone=UTC)
    return {NAMES[int(one.id[-4:]) - 1] for one in found}


def found(archive: Archive, query: str) -> set[str]:
    """Return the names of the sessions that a search finds."""
    results = archive.search(query, limit=100, now=NOW, timezone=UTC)
    ids = {id_ for one in results.sessions for id_ in one.session_ids}
    return {NAMES[int(id_[-4:]) - 1] for id_ in ids}


def spent(archive: Archive, query: str) -> set[str]:
    """Return the names of the sessions that a usage report sums."""
    rows = archive.usage("session", query=query, timezone=UTC, now=NOW).rows
    return {NAMES[int(row.key[-4:]) - 1] for row in rows}


def typed(archive: Archive, query: str, project: str | None = None) -> set[str]:
    """Return the prompts that match a query."""
    prompts = archive.prompts(query, project=project, now=NOW, timezone=UTC)
    return {one.text for one in prompts}


def test_01_tags_of_users_count_everywhere(archive: Archive) -> None:
    assert selected(archive, "tag:release") == {"API"}
    assert found(archive, "tag:release") == {"API"}
    assert spent(archive, "tag:release") == {"API"}
    assert typed(archive, "tag:release") == {"Document the API"}


@pytest.mark.parametrize("query", ["title:test", "title:TESTS", 'title:"flaky tests"'])
def test_02_words_of_titles_are_found_in_all_their_forms(
    archive: Archive, query: str
) -> None:
    assert selected(archive, query) == {"SHOP"}
    assert found(archive, query) == {"SHOP"}
    assert spent(archive, query) == {"SHOP"}


def test_03_agent_main_is_what_was_said_outside_of_agent_runs(archive: Archive) -> None:
    usage = {
        query: archive.usage("agent", query=query, timezone=UTC, now=NOW).total.replies
        for query in ("agent:main", "is:agent", "")
    }

    assert usage["agent:main"] == usage[""] - usage["is:agent"] > 0
    assert usage["is:agent"] > 0
    assert "API" in selected(archive, "agent:main")


def test_04_flags_of_sessions_hold_for_their_prompts(archive: Archive) -> None:
    assert selected(archive, "is:compacted") == {"SHOP", "COPY"}
    assert found(archive, "is:compacted") == {"SHOP", "COPY"}
    assert "Retry with a jitter" in typed(archive, "is:compacted")
    assert "Paint the login page" in typed(archive, "-is:compacted")
    assert "Retry with a jitter" not in typed(archive, "-is:compacted")


@pytest.mark.parametrize("path", ["/work/shop", "/work/shop/"])
def test_05_a_directory_includes_all_below_it_and_nothing_beside_it(
    archive: Archive, path: str
) -> None:
    below = {"SHOP", "API"}

    assert selected(archive, "", project=path) == below
    assert selected(archive, f"project:{path}") == below
    assert found(archive, f"project:{path}") == below
    assert spent(archive, f"project:{path}") == below
    assert typed(archive, f"project:{path}") == typed(archive, "", project=path)
    assert selected(archive, "project:shop") == {*below, "SHOP2"}  # part of the path


def test_05_a_path_below_the_home_directory_starts_with_a_tilde(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/work")
    monkeypatch.setenv("USERPROFILE", "/work")

    assert selected(archive, "project:~/shop") == {"SHOP", "API"}
    assert selected(archive, "", project="~/shop") == {"SHOP", "API"}


def test_05_a_path_relative_to_the_current_directory_starts_with_a_dot(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.getcwd", lambda: "/work/shop")

    assert selected(archive, "project:.") == {"SHOP", "API"}
    assert selected(archive, "project:./api") == {"API"}
    assert selected(archive, "", project="..") == {"SHOP", "SHOP2", "API", "COPY"}


def test_06_a_project_without_a_directory_is_selected_by_its_key(
    archive: Archive,
) -> None:
    project = archive.project("-keyed")

    assert project.path is None
    assert selected(archive, "", project=project.name) == {"KEYED"}
    assert selected(archive, 'project:"-keyed"') == {"KEYED"}
    assert found(archive, 'project:"-keyed"') == {"KEYED"}
    assert typed(archive, "", project="-keyed") == {"Nowhere in particular"}


def test_07_a_time_alone_selects_the_sessions_that_overlap_it(archive: Archive) -> None:
    assert selected(archive, "on:2026-01-06") == {
        "SHOP2",
        "COPY",
    }  # COPY lasts for days
    assert selected(archive, "before:2026-01-06") == {"SHOP", "COPY"}
    assert selected(archive, "login on:2026-01-06") == {"SHOP2"}  # said on that day
    assert typed(archive, "on:2026-01-06") == {"Paint the login page"}


def test_08_models_are_compared_without_case(archive: Archive) -> None:
    assert selected(archive, "model:OPUS") == {"SHOP", "API"}
    assert found(archive, "model:OPUS") == {"SHOP", "API"}
    # Usage is filtered by answer: SHOP has answers of two models.
    by_model = archive.usage("model", query="model:OPUS", timezone=UTC, now=NOW)
    assert {row.key for row in by_model.rows} == {OPUS}


@pytest.mark.parametrize("query", ["tool:Bash", "tool:bash", "tool:B*"])
def test_09_a_tool_selects_the_sessions_that_called_it(
    archive: Archive, query: str
) -> None:
    assert selected(archive, query) == {"SHOP", "COPY"}
    assert found(archive, query) == {"SHOP", "COPY"}
    assert selected(archive, f"{query} project:/work/shop") == {"SHOP"}
    assert selected(archive, f"-{query}") == {"SHOP2", "API", "KEYED"}


def test_10_all_words_have_to_be_in_a_session_and_copies_count(
    archive: Archive,
) -> None:
    assert selected(archive, "login") == {"SHOP", "SHOP2", "COPY"}
    assert selected(archive, "login jitter") == {"SHOP", "COPY"}
    assert found(archive, "login jitter") == {"SHOP", "SHOP2", "COPY"}  # any word
    assert typed(archive, "login jitter") == set()  # all words in one prompt


def test_11_an_excluded_word_excludes_the_sessions_that_have_it(
    archive: Archive,
) -> None:
    assert selected(archive, "login -jitter") == {"SHOP2"}
    assert selected(archive, "-login") == {"API", "KEYED"}
    assert selected(archive, '-"login page"') == {"SHOP", "API", "KEYED", "COPY"}


def test_12_typos_are_corrected_and_reported_but_not_in_what_is_excluded(
    archive: Archive,
) -> None:
    selection = archive.select("paintt", now=NOW, timezone=UTC)

    assert {one.id for one in selection.sessions} == {session_id(SHOP2)}
    assert [one.corrected for one in selection.corrections] == ["paint"]
    assert len(selected(archive, "-paintt")) == 5
    assert archive.select("-paintt", now=NOW, timezone=UTC).corrections == ()


def test_12_a_phrase_that_no_text_has_is_relaxed_but_not_if_it_is_excluded(
    archive: Archive,
) -> None:
    selection = archive.select('"page login"', now=NOW, timezone=UTC)

    assert {one.id for one in selection.sessions} == {session_id(SHOP2)}
    assert selection.is_phrase_relaxed
    assert len(selected(archive, '-"page login"')) == 5


def test_13_sessions_without_a_message_are_left_out_unless_asked_for(
    archive: Archive,
) -> None:
    assert "EMPTY" not in selected(archive, "project:/work/shop")
    assert "EMPTY" not in found(archive, "project:/work/shop")
    assert selected(archive, "is:empty") == {"EMPTY"}
    assert len(list(archive.sessions(include_empty=True))) == len(NAMES)
    assert len(list(archive.sessions("-is:empty"))) == len(NAMES) - 1


def test_14_stars_are_part_of_the_query_language(archive: Archive) -> None:
    assert selected(archive, "is:starred") == {"API"}
    assert found(archive, "is:starred") == {"API"}
    assert spent(archive, "is:starred") == {"API"}
    assert typed(archive, "is:starred") == {"Document the API"}
    assert "API" not in selected(archive, "-is:starred")


def test_a_selection_is_sorted_newest_first(archive: Archive) -> None:
    ends = [one.ended_at for one in archive.sessions("login OR document")]

    assert len(ends) == 4
    assert ends == sorted(ends, key=str, reverse=True)


def test_a_parsed_query_selects_the_same_as_its_text(archive: Archive) -> None:
    project = FieldValue("project", "/work/shop")
    query = Query(And((project, Not(FieldValue("session", session_id(API))))))

    assert [one.id for one in archive.sessions(query)] == [session_id(SHOP)]


def test_notes_about_the_query_come_with_the_selection(archive: Archive) -> None:
    selection = archive.select("login )", now=NOW, timezone=UTC)

    assert [note.kind for note in selection.notes] == ["parenthesis"]
    assert not selection.is_partial
