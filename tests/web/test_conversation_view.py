"""Sessions that are too long to be assembled give the same pages."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bygones.archive import Archive
from bygones.web import conversation_view
from bygones.web.conversation_view import open_view
from bygones.web.pages import session_map
from bygones.web.pool import ArchivePool
from tests.build import Home, prompt, reply, thread
from tests.web.archives import AGENT, EDITED, LONG, REWOUND, WebArchive, build_archive
from tests.web.client import WebClient, web_client


@pytest.fixture(scope="module")
def web_archive(tmp_path_factory: pytest.TempPathFactory) -> WebArchive:
    return build_archive(tmp_path_factory.mktemp("reading"))


@pytest.fixture
def page(web_archive: WebArchive) -> WebClient:
    return web_client(web_archive)


def _lines(text: str) -> list[str]:
    matches = re.findall(r'<li class="(k-[^"]*)"><a href="([^"]*)">([^<]*)', text)
    return ["|".join(one) for one in matches]


def _unread(*_: object) -> None:
    raise AssertionError("it was assembled")


@pytest.mark.parametrize("session", [LONG, REWOUND, AGENT, EDITED])
def test_page_does_not_assemble_its_session(
    web_archive: WebArchive, monkeypatch: pytest.MonkeyPatch, session: str
) -> None:
    monkeypatch.setattr(Archive, "_load_session", _unread)
    client = web_client(web_archive)

    for part in ("", "/header", "/window?from=0", "/outline", "/timeline"):
        assert client.get(f"/session/{session}{part}").status == 200, part
    assert client.get(f"/session/{session}/map").status == 500


def test_page_that_starts_later_has_room_for_what_is_before(page: WebClient) -> None:
    at_start = page.get(f"/session/{LONG}").text
    later = page.get(f"/session/{LONG}?from=40").text

    assert "spacer" not in at_start
    assert re.search(r'<svg class="spacer only-scripted"[^>]* height="4200"', later)


@pytest.mark.parametrize("session", [LONG, AGENT, EDITED])
def test_map_of_a_long_session_equals_that_of_a_short_one(
    page: WebClient, monkeypatch: pytest.MonkeyPatch, session: str
) -> None:
    whole = page.get(f"/session/{session}/map").text
    monkeypatch.setattr(session_map, "MAX_ASSEMBLED_MESSAGES", 0)

    text = page.get(f"/session/{session}/map").text

    assert "without cost" in text
    assert "without cost" not in whole
    assert _lines(text) == _lines(whole)


def test_map_of_a_long_session_names_other_branches(
    page: WebClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_map, "MAX_ASSEMBLED_MESSAGES", 0)

    text = page.get(f"/session/{REWOUND}/map").text

    (other,) = re.findall(r'class="k-branch[^>]*><a href="([^"]*)"', text)
    assert page.get(other).status == 200


def test_map_of_a_long_session_has_branches_at_their_forks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path / ".claude")
    query = [prompt("Begin", uuid="p1"), reply("Begun", uuid="r1")]
    first = thread(*query, prompt("First", uuid="p2"), reply("One", uuid="r2"))
    inner = [prompt("Inner", uuid="p4", parent="r2"), reply("In", uuid="r4")]
    other = [prompt("Other", uuid="p5", parent="r2"), reply("Out", uuid="r5")]
    last = [prompt("Last", uuid="p3", parent="r1"), reply("Two", uuid="r3")]
    ways = (thread(*way, start=60 * at) for at, way in enumerate((inner, other, last)))
    home.session(REWOUND, [*first, *(one for way in ways for one in way)])
    Archive.ingest(tmp_path / "archive", [home.path])
    page = web_client(WebArchive(home, tmp_path / "archive"))
    whole = _lines(page.get(f"/session/{REWOUND}/map").text)
    monkeypatch.setattr(session_map, "MAX_ASSEMBLED_MESSAGES", 0)

    lines = _lines(page.get(f"/session/{REWOUND}/map").text)

    outer = [line for line in whole if not re.match("k-turn d[1-9]", line)]
    kinds = [line.partition("|")[0] for line in lines]
    assert kinds == ["k-turn d0", "k-branch d0", "k-branch d1", "k-turn d0"]
    assert lines == outer


def test_long_map_has_pages(page: WebClient, monkeypatch: pytest.MonkeyPatch) -> None:
    path = f"/session/{LONG}/map"
    whole = _lines(page.get(path).text)
    monkeypatch.setattr(session_map, "_PAGE_SIZE", 40)
    lines: list[str] = []
    while path:
        text = page.get(path).text
        assert 0 < len(_lines(text)) <= 40
        lines += _lines(text)
        links = dict(re.findall(r'<a href="([^"]*)">(← Earlier|Later →)', text))
        assert ("← Earlier" in links.values()) is (len(lines) > 40)
        path = next((to for to, result in links.items() if result == "Later →"), "")

    assert lines == whole


@pytest.mark.parametrize("size", [1, 3, 7])
def test_turns_are_complete_across_windows(
    web_archive: WebArchive, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(conversation_view, "_BATCH_SIZE", size)
    with Archive.open(web_archive.folder) as archive:
        for listed in archive.sessions():
            turns = archive.session(listed.id).live_branch.turns
            with ArchivePool(web_archive.folder).session(listed.id) as open_session:
                all_turns = list(open_view(open_session, "", 0).iter_turns())
            assert [turn.number for turn in all_turns] == [
                turn.number for turn in turns
            ]
            assert [len(turn.messages) for turn in all_turns] == [
                len(turn.messages) for turn in turns
            ]


def test_file_change_is_shown_as_a_diff(
    page: WebClient, web_archive: WebArchive
) -> None:
    with Archive.open(web_archive.folder) as archive:
        edits = archive.session(EDITED).edits
    (path,) = {edit.path for edit in edits}

    text = page.get(f"/files?session={EDITED}&path={path}").text

    assert len(re.findall(r'<h2 class="turn"', text)) == len(edits)
