"""Every session on a hub has a person, by which it can be searched and summed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bygones.archive import Archive
from bygones.mcp.server import McpDispatcher
from bygones.mcp.tool_service import Caller, ToolService
from bygones.schema.encoding import encode_object
from bygones.schema.summaries import SessionObject
from bygones.team.contract import AccessRole, AccessScope, BlobStore
from bygones.team.stores.base import TeamStore
from tests.team.homes import PEOPLE

StoreAndBlobs = tuple[TeamStore, BlobStore]
NOW = datetime(2026, 11, 15, tzinfo=UTC)


@pytest.fixture
def open_all(filled: StoreAndBlobs) -> Callable[[], Archive]:
    store, objects = filled
    scope = AccessScope(person="", role=AccessRole.AUDITOR)
    return lambda: Archive.from_store(store.open_reader(scope, objects))


@pytest.mark.req("ME2")
def test_every_session_names_its_person(open_all: Callable[[], Archive]) -> None:
    with open_all() as archive:
        summaries = list(archive.sessions(include_empty=True))
        assert {one.person for one in summaries} == set(PEOPLE)
        uploaded = Counter(one.id for one in summaries)
        some = next(
            one for one in summaries if not one.is_empty and uploaded[one.id] == 1
        )
        assert archive.session(some.id).person == some.person
        # If several people uploaded a session, the first one counts.
        for shared in (one.id for one in summaries if uploaded[one.id] > 1):
            holders = {one.person for one in summaries if one.id == shared}
            person = archive.session(shared).person
            assert person in holders
            assert person == archive.session_summary(shared).person
        found = archive.search("the", limit=50)
        assert found.sessions
        assert all(one.summary.person in PEOPLE for one in found.sessions)
        row = json.loads(encode_object(SessionObject.from_summary(some)))
        assert row["person"] == some.person


def test_sessions_are_selected_by_person(open_all: Callable[[], Archive]) -> None:
    with open_all() as archive:
        every = list(archive.sessions(include_empty=True))
        own = list(archive.sessions("person:ann", include_empty=True))
        assert own == [one for one in every if one.person == "ann"]
        found = archive.search("the person:ben", limit=50)
        assert found.sessions
        assert {one.summary.person for one in found.sessions} == {"ben"}


def test_usage_is_summed_by_person(open_all: Callable[[], Archive]) -> None:
    with open_all() as archive:
        report = archive.usage("person", now=NOW)
        assert {row.key for row in report.rows} <= set(PEOPLE)
        assert sum(row.tokens for row in report.rows) == report.total.tokens
        own = archive.usage("day", query="person:ann", now=NOW).total.tokens
        assert own == next(row.tokens for row in report.rows if row.key == "ann")


def test_agents_read_who_it_was(open_all: Callable[[], Archive]) -> None:
    caller = Caller(directory=Path("/"), clock=lambda: NOW, zone=UTC)
    dispatcher = McpDispatcher(ToolService(Path(), caller, open_all))

    started = dispatcher.dispatch("initialize", {})
    call = {"name": "search", "arguments": {"query": "the", "max_bytes": 9000}}
    (content,) = dispatcher.dispatch("tools/call", call)["content"]

    assert "your team's" in started["instructions"]
    assert "this user" not in started["instructions"]
    rows = [line for line in content["text"].splitlines() if line[:8].isalnum()]
    assert any(f" · {person} · " in row for row in rows for person in PEOPLE)
