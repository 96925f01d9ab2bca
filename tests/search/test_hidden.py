"""Warm-ups and replays are left out of search, and `is:hidden` finds them."""

from __future__ import annotations

from pathlib import Path

import pytest

from bygones.archive import Archive
from bygones.cli.main import main
from tests.build import Home, jsonl, prompt, reply, session_id, thread
from tests.search.searching import SearchArchive, open_archive

WARM_UP = thread(prompt("Warmup"), reply("Ready to explore the walrus"), start=60)
REPLAY = thread(prompt("Feed the walrus"), reply("A replayed walrus"), start=120)


def make_home(folder: Path) -> Home:
    """Write a session with a task, a warm-up and a replay, and one with a warm-up."""
    home = Home(folder)
    home.session(session_id(1), thread(prompt("Feed the walrus"), reply("Fed.")))
    task = thread(prompt("Look for a walrus"), reply("Here is one"), start=30)
    home.agent(session_id(1), "a1", task)
    home.agent(session_id(1), "acompact-1", REPLAY)
    home.agent(session_id(2), "b2", WARM_UP, flat=True)
    return home


def found(search_archive: SearchArchive, query: str) -> list[tuple[str, list[str]]]:
    return [
        (one.summary.id, [hit.excerpt.text for hit in one.hits])
        for one in search_archive.search(query).sessions
    ]


@pytest.mark.req("A3", "F6")
def test_hidden_agents_are_searched_only_on_request(tmp_path: Path) -> None:
    with open_archive(make_home(tmp_path / "home"), tmp_path / "archive") as archive:
        (visible,) = found(archive, "walrus")
        assert visible[0] == session_id(1)
        assert sorted(visible[1]) == ["Feed the walrus", "Look for a walrus"]
        assert found(archive, "walrus -is:hidden") == [visible]
        hidden = dict(found(archive, "walrus is:hidden"))
        assert hidden == {
            session_id(2): ["Ready to explore the walrus"],
            session_id(1): ["Feed the walrus", "A replayed walrus"],
        }
        assert found(archive, "explore is:hidden")[0][0] == session_id(2)
        assert found(archive, "sealion is:hidden") == []
        only = archive.search("explore walrus is:hidden", limit=1)
        assert (only.session_count, only.full_match_count) == (2, 1)
        assert only.sessions[0].summary.id == session_id(2)


@pytest.mark.req("A3", "F6")
def test_sessions_with_hidden_agents_can_be_listed(tmp_path: Path) -> None:
    with open_archive(make_home(tmp_path / "home"), tmp_path / "archive") as archive:

        def listed(query: str) -> set[str]:
            return {one.id for one in archive.archive.sessions(query)}

        assert listed("is:hidden") == {session_id(1), session_id(2)}
        assert listed("is:hidden explore") == {session_id(2)}
        assert listed("-is:hidden") == set()


@pytest.mark.req("A3")
@pytest.mark.parametrize("lines", range(1, 3))
def test_growing_warm_up_stays_hidden(tmp_path: Path, lines: int) -> None:
    home = make_home(tmp_path / "home")
    before = reply("A walrus before any prompt", uuid="early")
    path = home.agent(session_id(2), "b2", [before, *WARM_UP], flat=True)
    whole = path.read_bytes()
    path.write_bytes(b"".join(whole.splitlines(keepends=True)[:lines]))
    Archive.ingest(tmp_path / "archive", [home.path])
    path.write_bytes(whole)

    with open_archive(home, tmp_path / "archive") as archive:
        assert [id_ for id_, _ in found(archive, "walrus")] == [session_id(1)]
    assert Archive.verify(tmp_path / "archive", deep=True).differences == []


@pytest.mark.req("A3")
def test_prompt_without_a_newline_makes_a_warm_up(tmp_path: Path) -> None:
    home = make_home(tmp_path / "home")
    path = home.agent(session_id(2), "b2", [], flat=True)
    own = {"isSidechain": True, "agentId": "b2", "sessionId": session_id(2)}
    first = [record | own for record in (reply("A walrus"), WARM_UP[0])]
    path.write_bytes(jsonl(first).rstrip(b"\n"))

    with open_archive(home, tmp_path / "archive") as archive:
        assert [id_ for id_, _ in found(archive, "walrus")] == [session_id(1)]


@pytest.mark.req("A3")
def test_hit_in_a_hidden_agent_is_shown_in_its_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = make_home(tmp_path / "home")
    options = ["--archive", str(tmp_path / "archive"), "--home", str(home.path)]
    Archive.ingest(tmp_path / "archive", [home.path])

    assert main([*options, "search", "explore is:hidden"]) == 0
    assert main([*options, "show", "1.1"]) == 0
    assert "Ready to explore the walrus" in capsys.readouterr().out


def with_inline_warm_up() -> list[dict[str, object]]:
    """Return a session of an old version, with a warm-up and a task inside it."""
    main = thread(prompt("Feed the otter"), reply("Fed the otter."))
    task = thread(prompt("Look for a walrus"), reply("Here is one"), start=30)
    inside = {"isSidechain": True}
    return [
        *(record | inside for record in WARM_UP),
        *main,
        *(record | inside for record in task),
    ]


@pytest.mark.req("A3", "F6")
def test_warm_up_inside_a_session_is_searched_only_on_request(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.session(session_id(1), with_inline_warm_up())
    with open_archive(home, tmp_path / "archive") as archive:
        assert found(archive, "walrus") == [(session_id(1), ["Look for a walrus"])]
        assert found(archive, "explore") == []
        assert found(archive, "walrus is:hidden") == [
            (session_id(1), ["Ready to explore the walrus"])
        ]
        assert found(archive, "otter is:hidden") == []


@pytest.mark.req("A3")
@pytest.mark.parametrize(("lines", "order"), [(2, (0, 1)), (3, (0, 1)), (2, (1, 0))])
def test_warm_up_inside_a_growing_session_is_hidden(
    tmp_path: Path, lines: int, order: tuple[int, int]
) -> None:
    records = with_inline_warm_up()
    first, second = (records[number] for number in order)
    home = Home(tmp_path / "home")
    path = home.session(session_id(1), [records[2], first, second, *records[3:]])
    whole = path.read_bytes()
    path.write_bytes(b"".join(whole.splitlines(keepends=True)[:lines]))
    Archive.ingest(tmp_path / "archive", [home.path])
    path.write_bytes(whole.rstrip(b"\n"))

    with open_archive(home, tmp_path / "archive") as archive:
        assert found(archive, "explore") == []
        assert found(archive, "look one") != []
    assert Archive.verify(tmp_path / "archive", deep=True).differences == []
