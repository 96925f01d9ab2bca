"""Previews equal the start of the assembled session."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from bygones.archive import Archive
from bygones.errors import NotInArchive
from bygones.ingest import derive
from bygones.ingest.conversations import (
    AssembledConversation,
    PreviewConversation,
    StoredConversation,
)
from bygones.model.base import SessionId
from bygones.model.conversations import PREVIEW_MESSAGES, merge_by_model
from bygones.model.records import TextBlock
from bygones.store import messages
from bygones.store.derived_tables import DerivedTables
from tests.build import Home, prompt, reply, session_id, thread, tool_result, tool_use
from tests.cases.archives import CaseArchives
from tests.cases.make import stories
from tests.properties.homes import LONGER, kept_in, lay, layouts

every_case = pytest.mark.parametrize("name", sorted(stories()))


def check(archive: Archive) -> list[type]:
    """Compare the start of all sessions; return how each is read."""
    return [
        _check_session(archive, listed.id)
        for listed in archive.sessions(include_empty=True)
    ]


def _check_session(archive: Archive, name: SessionId) -> type:
    conversation, cut = (
        archive.conversation(name),
        AssembledConversation(archive.session(name)),
    )
    assert conversation.facts == cut.facts
    if not isinstance(conversation, PreviewConversation):
        return type(conversation)
    (live,) = (branch for branch in cut.facts.branches if branch.is_live)
    count = min(PREVIEW_MESSAGES, live.message_count)
    for start in range(count + 1):
        for stop in range(start, count + 1):
            opened = (live.number, start, stop)
            assert conversation.window(*opened) == cut.window(*opened)
    started = conversation.window(live.number, 0, count)
    rest = cut.rest_of_turn(started, bool)
    assert conversation.rest_of_turn(started, bool) == merge_by_model(rest)
    assert not conversation.is_assembled
    assert conversation.rest_of_turn(started, lambda _: not rest.usages) == rest
    assert conversation.window(live.number, 0, 99) == cut.window(live.number, 0, 99)
    return PreviewConversation


@every_case
def test_preview_of_each_case_equals_the_start_of_the_session(
    name: str, case_archives: CaseArchives
) -> None:
    with Archive.open(case_archives.archive(name)) as archive:
        assert set(check(archive)) <= {PreviewConversation, AssembledConversation}


def test_nearly_all_short_sessions_have_a_preview(case_archives: CaseArchives) -> None:
    kinds = []
    for name in sorted(stories()):
        with Archive.open(case_archives.archive(name)) as archive:
            kinds += [type(archive.conversation(one.id)) for one in archive.sessions()]

    assert kinds.count(PreviewConversation) > 0.9 * len(kinds)


@settings(
    max_examples=10 * LONGER,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(layouts())
def test_preview_of_any_session_equals_the_start_of_the_session(
    layout: dict[str, bytes],
) -> None:
    with kept_in() as keeping:
        lay(keeping, layout)
        keeping.ingest()

        with Archive.open(keeping.archive) as archive:
            check(archive)


def test_preview_is_updated_when_its_session_grows(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    lines_written = [
        one for at in range(9) for one in (prompt(f"Ask {at}"), reply(f"Say {at}"))
    ]
    records = thread(*lines_written)
    for count in (1, 2, 7, 18):
        home.session(session_id(1), records[:count])
        Archive.ingest(tmp_path / "archive", [home.path])

        with Archive.open(tmp_path / "archive") as archive:
            assert check(archive) == [PreviewConversation]
            conversation = archive.conversation(session_id(1))
            assert conversation.facts.branches[0].message_count == count


def test_preview_includes_agent_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path / "home")
    task = tool_use("Task", id="toolu_1", description="Look around")
    done = tool_result("toolu_1", "Done", toolUseResult={"agentId": "a1"})
    home.session(session_id(1), thread(prompt("Look"), reply([task]), done))
    home.agent(session_id(1), "a1", thread(prompt("Look"), reply("Seen")))
    Archive.ingest(tmp_path / "archive", [home.path])

    with Archive.open(tmp_path / "archive") as archive:
        assert check(archive) == [PreviewConversation]
        monkeypatch.setattr(archive, "_load_session", None)
        conversation = archive.conversation(session_id(1))
        (call,) = conversation.window(0, 0, 2).messages[1].tool_calls
        assert [run.id for run in call.agents] == ["a1"]
        assert conversation.facts.agent_count == 1


def test_preview_remembers_its_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path / "home")
    home.session(session_id(1), thread(prompt("Ask"), reply("Say")))
    Archive.ingest(tmp_path / "archive", [home.path])

    with Archive.open(tmp_path / "archive") as archive:
        conversation = archive.conversation(session_id(1))
        monkeypatch.setattr(type(archive._archive_dir.byte_store), "source_by_id", None)
        lines_written, answered = conversation.window(0, 0, 2).messages
        assert lines_written.blocks == (TextBlock(text="Ask"),)
        assert answered.blocks == (TextBlock(text="Say"),)


def test_session_with_an_outdated_preview_is_assembled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path / "home")
    home.session(session_id(1), thread(prompt("Ask"), reply("Say")))
    with monkeypatch.context() as patched:
        patched.setattr(messages, "messages_checksum", lambda _: b"wrong")
        Archive.ingest(tmp_path / "archive", [home.path])

    with Archive.open(tmp_path / "archive") as archive:
        assert isinstance(archive.conversation(session_id(1)), AssembledConversation)
        assert check(archive) == [AssembledConversation]


def test_session_in_several_files_is_assembled(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    records = thread(prompt("Ask"), reply("Say"), prompt("More"), reply("Said"))
    home.session(session_id(1), records[:2])
    home.session(session_id(1), records[2:], project="-elsewhere")
    Archive.ingest(tmp_path / "archive", [home.path])

    with Archive.open(tmp_path / "archive") as archive:
        assert check(archive) == [AssembledConversation]


def test_unknown_branch_raises_an_error(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.session(session_id(1), thread(prompt("Ask"), reply("Say")))
    Archive.ingest(tmp_path / "archive", [home.path])

    with Archive.open(tmp_path / "archive") as archive:
        conversation = archive.conversation(session_id(1))
        assert isinstance(conversation, PreviewConversation)
        with pytest.raises(NotInArchive):
            conversation.window(3, 0, 1)
        with pytest.raises(NotInArchive):
            list(conversation.messages(3))
        with pytest.raises(NotInArchive):
            archive.conversation(session_id(1), "nobody")


def test_session_that_became_long_has_no_preview(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(derive, "MIN_STORED_MESSAGES", 3)
    home = Home(tmp_path / "home")
    records = thread(prompt("Ask"), reply("Say"), prompt("More"), reply("Said"))
    for count, wanted in ((2, PreviewConversation), (4, StoredConversation)):
        home.session(session_id(1), records[:count])
        Archive.ingest(tmp_path / "archive", [home.path])

        with Archive.open(tmp_path / "archive") as archive:
            assert type(archive.conversation(session_id(1))) is wanted
            rows = archive._reader.sessions
            number = rows.session_number(SessionId(session_id(1)))
            assert isinstance(rows, DerivedTables)
            assert number is not None
            assert (rows.previews.load_preview(number) is None) is (
                wanted is StoredConversation
            )
