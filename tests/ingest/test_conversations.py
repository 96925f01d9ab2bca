"""Windows of messages equal slices of the assembled session."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from msgspec.structs import replace

from bygones.archive import Archive
from bygones.errors import NotInArchive
from bygones.ingest import derive
from bygones.ingest.conversations import (
    AssembledConversation,
    PreviewConversation,
    StoredConversation,
)
from bygones.render.html.markup import Html
from bygones.render.html.session import (
    HtmlFragment,
    HtmlOptions,
    render_fragments,
    render_window_fragments,
)
from bygones.render.markdown import (
    render_branch_markdown,
    render_session_markdown,
)
from bygones.render.walk import SessionView
from bygones.store import messages
from tests.build import Home, prompt, reply, session_id, thread
from tests.cases.archives import CaseArchives
from tests.cases.make import stories
from tests.ingest.window_checks import check, iter_conversations
from tests.properties.homes import LONGER, kept_in, lay, layouts

every_case = pytest.mark.parametrize("name", sorted(stories()))


@pytest.fixture(autouse=True)
def _store_all_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Store the messages of short sessions too, in small blocks."""
    monkeypatch.setattr(derive, "MIN_STORED_MESSAGES", 0)
    monkeypatch.setattr(messages, "MESSAGES_PER_BLOCK", 3)


@pytest.fixture(scope="module")
def stored_cases(tmp_path_factory: pytest.TempPathFactory) -> CaseArchives:
    """Return archives of the cases in which all messages are stored."""
    return CaseArchives(tmp_path_factory.mktemp("stored"))


@every_case
def test_windows_of_each_case_are_slices_of_the_session(
    name: str, stored_cases: CaseArchives
) -> None:
    with Archive.open(stored_cases.archive(name)) as archive:
        everything = archive.sessions(include_empty=True)
        kinds = {type(archive.conversation(listed.id)) for listed in everything}
        assert kinds == {StoredConversation}
        assert check(archive)


@settings(
    max_examples=10 * LONGER,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(layouts())
def test_windows_of_any_session_are_slices(layout: dict[str, bytes]) -> None:
    with kept_in() as keeping:
        lay(keeping, layout)
        keeping.ingest()

        with Archive.open(keeping.archive) as archive:
            check(archive)


def _without_position(fragment: HtmlFragment) -> HtmlFragment:
    """Return a line to a branch without its position, which the whole session lacks."""
    return replace(fragment, html=Html(re.sub(r"&amp;at=[^\"]+", "", fragment.html)))


@every_case
def test_windows_are_rendered_like_the_whole_session(
    name: str, stored_cases: CaseArchives
) -> None:
    setting = HtmlOptions(agent_url="/agent/", branch_url="?branch=")
    with Archive.open(stored_cases.archive(name)) as archive:
        for listed in archive.sessions(include_empty=True):
            session = archive.session(listed.id)
            for conversation, cut in iter_conversations(archive, session):
                for branch in cut.facts.branches:
                    for start in range(0, branch.message_count, 3):
                        view = SessionView(
                            branch=branch.number,
                            first_message=start,
                            stop_message=start + 3,
                            include_thinking=True,
                            include_tools=True,
                        )
                        drawn = render_fragments(cut.session, view, setting)
                        window = conversation.window(branch.number, start, start + 3)
                        rendered = [
                            _without_position(one)
                            for one in render_window_fragments(window, setting)
                        ]
                        assert rendered == list(drawn)


@every_case
def test_all_windows_joined_are_the_markdown_of_the_session(
    name: str, stored_cases: CaseArchives
) -> None:
    with Archive.open(stored_cases.archive(name)) as archive:
        for listed in archive.sessions(include_empty=True):
            session = archive.session(listed.id)
            for conversation, cut in iter_conversations(archive, session):
                for branch in cut.facts.branches:
                    view = SessionView(branch=branch.number, include_tools=True)
                    starts = range(0, max(branch.message_count, 1), 3)
                    windows = (
                        conversation.window(branch.number, n, n + 3) for n in starts
                    )
                    rendered = "".join(render_branch_markdown(windows))
                    assert rendered == "".join(
                        render_session_markdown(cut.session, view)
                    )


def test_window_grows_with_its_session(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    messages_written = [
        one for at in range(9) for one in (prompt(f"Ask {at}"), reply(f"Say {at}"))
    ]
    records = thread(*messages_written)
    for count in (1, 2, 7, 18):
        home.session(session_id(1), records[:count])
        Archive.ingest(tmp_path / "archive", [home.path])

        with Archive.open(tmp_path / "archive") as archive:
            check(archive)
            conversation = archive.conversation(session_id(1))
            assert conversation.facts.branches[0].message_count == count


def test_messages_with_a_name_are_found(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    messages_written = [
        one for at in range(9) for one in (prompt(f"Ask {at}"), reply(f"Say {at}"))
    ]
    home.session(session_id(1), thread(*messages_written))
    Archive.ingest(tmp_path / "archive", [home.path])

    with Archive.open(tmp_path / "archive") as archive:
        conversation = archive.conversation(session_id(1))
        seventh = conversation.window(0, 7, 8).messages[0]
        near = dict(conversation.messages(0, [seventh.id]))

    assert near[7] == seventh
    assert len(near) <= messages.MESSAGES_PER_BLOCK


def test_messages_of_short_sessions_are_not_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(derive, "MIN_STORED_MESSAGES", 7)
    home = Home(tmp_path / "home")
    messages_written = [
        one for at in range(4) for one in (prompt(f"Ask {at}"), reply(f"Say {at}"))
    ]
    records = thread(*messages_written)
    kinds = []
    for count in (6, 7, 8):
        home.session(session_id(1), records[:count])
        Archive.ingest(tmp_path / "archive", [home.path])
        with Archive.open(tmp_path / "archive") as archive:
            conversation = archive.conversation(session_id(1))
            kinds.append(type(conversation))
            assert conversation.window(0, 2, 4) == AssembledConversation(
                archive.session(session_id(1))
            ).window(0, 2, 4)

    assert kinds == [PreviewConversation, StoredConversation, StoredConversation]


def test_unknown_branch_or_agent_raises_an_error(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.session(session_id(1), thread(prompt("Ask"), reply("Say")))
    Archive.ingest(tmp_path / "archive", [home.path])

    with Archive.open(tmp_path / "archive") as archive:
        conversation = archive.conversation(session_id(1))
        whole = AssembledConversation(archive.session(session_id(1)))
        for one in (conversation, whole):
            with pytest.raises(NotInArchive):
                one.window(3, 0, 1)
            with pytest.raises(NotInArchive):
                list(one.messages(3))
        with pytest.raises(NotInArchive):
            archive.conversation(session_id(1), "nobody")
        with pytest.raises(NotInArchive):
            AssembledConversation(archive.session(session_id(1)), "nobody")
