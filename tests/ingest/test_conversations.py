"""Windows of messages equal slices of the assembled session."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from bygones.archive import Archive
from bygones.errors import NotInArchive
from bygones.ingest.conversations import StoredConversation
from bygones.model.assembled import AssembledConversation
from bygones.model.records import TextBlock
from bygones.render.html.session import (
    HtmlOptions,
    render_fragments,
    render_window_fragments,
)
from bygones.render.walk import SessionView
from bygones.store import messages
from tests.build import Home, prompt, reply, session_id, thread, tool_result, tool_use
from tests.cases.archives import CaseArchives
from tests.cases.make import stories
from tests.ingest.window_checks import check, iter_conversations
from tests.properties.homes import LONGER, layouts, temporary_sandbox, write_layout

every_case = pytest.mark.parametrize("name", sorted(stories()))


@pytest.fixture(autouse=True)
def _store_small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "MESSAGES_PER_BLOCK", 3)


@pytest.fixture(scope="module")
def stored_cases(tmp_path_factory: pytest.TempPathFactory) -> CaseArchives:
    """Return archives of the cases with small blocks."""
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
    with temporary_sandbox() as sandbox:
        write_layout(sandbox, layout)
        sandbox.ingest()

        with Archive.open(sandbox.archive) as archive:
            check(archive)


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
                        drawn = render_fragments(cut, view, setting)
                        window = conversation.window(branch.number, start, start + 3)
                        rendered = render_window_fragments(window, setting)
                        assert list(rendered) == list(drawn)


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


def test_first_messages_are_read_without_assembling_the_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path / "home")
    task = tool_use("Task", id="toolu_1", description="Look around")
    done = tool_result("toolu_1", "Done", toolUseResult={"agentId": "a1"})
    home.session(session_id(1), thread(prompt("Look"), reply([task]), done))
    home.agent(session_id(1), "a1", thread(prompt("Around"), reply("Seen")))
    Archive.ingest(tmp_path / "archive", [home.path])

    with Archive.open(tmp_path / "archive") as archive:
        monkeypatch.setattr(archive, "_load_session", None)
        conversation = archive.conversation(session_id(1))
        (call,) = conversation.window(0, 0, 2).messages[1].tool_calls
        assert [run.id for run in call.agents] == ["a1"]
        assert conversation.facts.agent_count == 1
        (_, answer) = conversation.agent("a1").window(0, 0, 2).messages
        assert answer.blocks == (TextBlock(text="Seen"),)


def test_window_shows_what_was_added_since_the_last_one(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    call = tool_use("Bash", id="toolu_1", command="ls")
    records = thread(
        prompt("Look"), reply([call]), tool_result("toolu_1", "a.txt"), reply("Seen")
    )
    # A result without a timestamp changes only the row of its call.
    records[2].pop("timestamp")
    home.session(session_id(1), records[:2])
    Archive.ingest(tmp_path / "archive", [home.path])

    with Archive.open(tmp_path / "archive") as archive:
        conversation = archive.conversation(session_id(1))
        for count, has_result in ((2, False), (3, True), (4, True)):
            home.session(session_id(1), records[:count])
            Archive.ingest(tmp_path / "archive", [home.path])
            messages = conversation.window(0, 0, 9).messages
            assert len(messages) == max(count - 1, 2)
            assert (messages[1].tool_calls[0].result_position is not None) is has_result


def test_rest_of_a_turn_is_read_up_to_a_limit(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    answers = [reply(f"Say {at}") for at in range(9)]
    more = [prompt("More"), reply("Said")]
    home.session(session_id(1), thread(prompt("Ask"), *answers, *more))
    Archive.ingest(tmp_path / "archive", [home.path])

    with Archive.open(tmp_path / "archive") as archive:
        conversation = archive.conversation(session_id(1))
        cut = AssembledConversation(archive.session(session_id(1)))
        for one in (conversation, cut):
            rest = one.rest_of_turn(one.window(0, 0, 4), 99)
            assert rest is not None
            assert [message.blocks for message in rest] == [
                (TextBlock(text=f"Say {at}"),) for at in range(3, 9)
            ]
            assert one.rest_of_turn(one.window(0, 0, 4), 5) is None


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
