"""Sessions that are too long to be assembled are read by windows, and say the same."""

from __future__ import annotations

import re

import pytest

from recollect.archive import Archive
from recollect.web import api, reading
from recollect.web.pages import tree
from recollect.web.readers import Readers
from recollect.web.reading import reading_of
from tests.web.asking import Asking, asking
from tests.web.places import AGENT, EDITED, LONG, REWOUND, Kept, furnished


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    return furnished(tmp_path_factory.mktemp("reading"))


@pytest.fixture
def page(kept: Kept) -> Asking:
    return asking(kept)


def _lines(text: str) -> list[str]:
    found = re.findall(r'<li class="(k-[^"]*)"><a href="([^"]*)">([^<]*)', text)
    return ["|".join(one) for one in found]


def _unread(*_: object) -> None:
    raise AssertionError("it was assembled")


@pytest.mark.parametrize("session", [LONG, REWOUND, AGENT, EDITED])
def test_a_page_comes_before_its_session_is_assembled(
    kept: Kept, monkeypatch: pytest.MonkeyPatch, session: str
) -> None:
    after = asking(kept)
    after.get(f"/session/{session}/outline")
    wanted = after.get(f"/session/{session}").text
    monkeypatch.setattr(Archive, "_session", _unread)

    assert asking(kept).get(f"/session/{session}").text == wanted
    assert asking(kept).get(f"/session/{session}/outline").status == 500


@pytest.mark.parametrize("session", [LONG, AGENT, EDITED])
def test_the_map_of_a_long_session_is_that_of_any(
    page: Asking, monkeypatch: pytest.MonkeyPatch, session: str
) -> None:
    whole = page.get(f"/session/{session}/map").text
    monkeypatch.setattr(tree, "LONGEST", 0)

    text = page.get(f"/session/{session}/map").text

    assert "without cost" in text
    assert "without cost" not in whole
    assert _lines(text) == _lines(whole)


def test_the_map_of_a_long_session_names_other_branches(
    page: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree, "LONGEST", 0)

    text = page.get(f"/session/{REWOUND}/map").text

    (other,) = re.findall(r'class="k-branch[^>]*><a href="([^"]*)"', text)
    assert page.get(other).status == 200


@pytest.mark.parametrize("session", [LONG, REWOUND])
def test_the_interface_gives_the_same_turns_of_a_long_session(
    page: Asking, monkeypatch: pytest.MonkeyPatch, session: str
) -> None:
    asked = f"/api/sessions/{session}?first=1&tools=1"
    whole = page.get(asked)
    monkeypatch.setattr(api, "LONGEST", 0)

    assert page.get(asked).body == whole.body
    assert page.get(f"{asked}&branch=77").status == 404


@pytest.mark.parametrize("size", [1, 3, 7])
def test_turns_are_whole_wherever_windows_end(
    kept: Kept, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(reading, "_FURTHER", size)
    with Archive.open(kept.folder) as archive:
        for listed in archive.sessions():
            turns = archive.session(listed.id).live.turns
            with Readers(kept.folder).session(listed.id) as held:
                found = list(reading_of(held, "", 0).turns())
            assert [turn.number for turn in found] == [turn.number for turn in turns]
            assert [len(turn.messages) for turn in found] == [
                len(turn.messages) for turn in turns
            ]


def test_a_change_of_a_file_is_shown_as_it_was_made(page: Asking, kept: Kept) -> None:
    with Archive.open(kept.folder) as archive:
        edits = archive.session(EDITED).edits
    (path,) = {edit.path for edit in edits}

    text = page.get(f"/files?session={EDITED}&path={path}").text

    assert len(re.findall(r'<h2 class="turn"', text)) == len(edits)
