"""Windows: what is read by number is what a whole session has there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from msgspec.structs import replace

from bygones.archive import Archive
from bygones.errors import NotArchived
from bygones.ingest import tasks
from bygones.ingest.windows import Begun, Cut, Reeled
from bygones.render.html import Setting, fragments, window_fragments
from bygones.render.html.fragments import Fragment
from bygones.render.html.markup import Html
from bygones.render.markdown import branch_markdown, markdown
from bygones.render.walk import View
from bygones.store import reels
from tests.build import Home, prompt, reply, session_id, thread
from tests.cases.make import CASES, copied, stories
from tests.ingest.slices import check, talks
from tests.properties.archives import LONGER, kept_in, lay, layouts

every_case = pytest.mark.parametrize("name", sorted(stories()))


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write down also what is short, a few messages in a row."""
    monkeypatch.setattr(tasks, "LONG", 0)
    monkeypatch.setattr(reels, "FRAME", 3)


@every_case
def test_every_window_of_a_case_is_a_slice_of_its_session(
    name: str, tmp_path: Path
) -> None:
    Archive.ingest(tmp_path / "archive", [copied(CASES / name, tmp_path)])

    with Archive.open(tmp_path / "archive") as archive:
        everything = archive.sessions(empty=True)
        kinds = {type(archive.conversation(listed.id)) for listed in everything}
        assert kinds == {Reeled}
        assert check(archive)


@settings(
    max_examples=25 * LONGER,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(layouts())
def test_every_window_of_any_home_is_a_slice(layout: dict[str, bytes]) -> None:
    with kept_in() as keeping:
        lay(keeping, layout)
        keeping.ingest()

        with Archive.open(keeping.archive) as archive:
            check(archive)


def _unled(fragment: Fragment) -> Fragment:
    """Return a line to a branch without the place there, which a whole has none of."""
    return replace(fragment, html=Html(re.sub(r"&amp;at=[^\"]+", "", fragment.html)))


@every_case
def test_windows_are_drawn_as_the_whole_is(name: str, tmp_path: Path) -> None:
    Archive.ingest(tmp_path / "archive", [copied(CASES / name, tmp_path)])
    setting = Setting(agents="/agent/", branches="?branch=")
    with Archive.open(tmp_path / "archive") as archive:
        for listed in archive.sessions(empty=True):
            session = archive.session(listed.id)
            for talk, cut in talks(archive, session):
                for branch in cut.facts.branches:
                    for start in range(0, branch.total, 3):
                        view = View(
                            branch=branch.number,
                            start=start,
                            stop=start + 3,
                            thinking=True,
                            tools=True,
                        )
                        drawn = fragments(cut.session, view, setting)
                        window = talk.window(branch.number, start, start + 3)
                        made = [
                            _unled(one) for one in window_fragments(window, setting)
                        ]
                        assert made == list(drawn)


@every_case
def test_all_windows_are_the_markdown_of_the_whole(name: str, tmp_path: Path) -> None:
    Archive.ingest(tmp_path / "archive", [copied(CASES / name, tmp_path)])
    with Archive.open(tmp_path / "archive") as archive:
        for listed in archive.sessions(empty=True):
            session = archive.session(listed.id)
            for talk, cut in talks(archive, session):
                for branch in cut.facts.branches:
                    view = View(branch=branch.number, tools=True)
                    starts = range(0, max(branch.total, 1), 3)
                    windows = (talk.window(branch.number, n, n + 3) for n in starts)
                    made = "".join(branch_markdown(windows))
                    assert made == "".join(markdown(cut.session, view))


def test_a_window_grows_with_its_session(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    said = [one for at in range(9) for one in (prompt(f"Ask {at}"), reply(f"Say {at}"))]
    records = thread(*said)
    for count in (1, 2, 7, 18):
        home.session(session_id(1), records[:count])
        Archive.ingest(tmp_path / "archive", [home.path])

        with Archive.open(tmp_path / "archive") as archive:
            check(archive)
            talk = archive.conversation(session_id(1))
            assert talk.facts.branches[0].total == count


def test_names_are_found_where_they_stand(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    said = [one for at in range(9) for one in (prompt(f"Ask {at}"), reply(f"Say {at}"))]
    home.session(session_id(1), thread(*said))
    Archive.ingest(tmp_path / "archive", [home.path])

    with Archive.open(tmp_path / "archive") as archive:
        talk = archive.conversation(session_id(1))
        seventh = talk.window(0, 7, 8).messages[0]
        near = dict(talk.messages(0, [seventh.id]))

    assert near[7] == seventh
    assert len(near) <= reels.FRAME


def test_what_is_short_is_not_written_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "LONG", 7)
    home = Home(tmp_path / "home")
    said = [one for at in range(4) for one in (prompt(f"Ask {at}"), reply(f"Say {at}"))]
    records = thread(*said)
    kinds = []
    for count in (6, 7, 8):
        home.session(session_id(1), records[:count])
        Archive.ingest(tmp_path / "archive", [home.path])
        with Archive.open(tmp_path / "archive") as archive:
            talk = archive.conversation(session_id(1))
            kinds.append(type(talk))
            assert talk.window(0, 2, 4) == Cut(archive.session(session_id(1))).window(
                0, 2, 4
            )

    assert kinds == [Begun, Reeled, Reeled]


def test_a_branch_or_an_agent_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.session(session_id(1), thread(prompt("Ask"), reply("Say")))
    Archive.ingest(tmp_path / "archive", [home.path])

    with Archive.open(tmp_path / "archive") as archive:
        talk = archive.conversation(session_id(1))
        whole = Cut(archive.session(session_id(1)))
        for one in (talk, whole):
            with pytest.raises(NotArchived):
                one.window(3, 0, 1)
            with pytest.raises(NotArchived):
                list(one.messages(3))
        with pytest.raises(NotArchived):
            archive.conversation(session_id(1), "nobody")
        with pytest.raises(NotArchived):
            Cut(archive.session(session_id(1)), "nobody")
