"""Exports of stored sessions, compared with those of sessions in memory."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from msgspec import structs

from bygones.archive import Archive
from bygones.export.files import TranscriptFile, iter_transcript_files
from bygones.export.formats import (
    ExportFormat,
    ExportInput,
    ExportOptions,
    render_session,
)
from bygones.ingest.conversations import StoredConversation
from bygones.model.sessions import Session
from bygones.redact.engine import Redactor
from bygones.redact.session import RedactionLog
from bygones.render import walk
from bygones.render.walk import SHOW_ALL, SessionView
from bygones.usage.message_costs import make_message_pricer
from bygones.usage.prices import load_prices
from tests.cases.archives import CaseArchives
from tests.cases.make import stories

PRICES = load_prices()
PLAIN = ExportOptions(
    message_pricer=make_message_pricer(PRICES), usage_pricer=PRICES.compute_cost
)
FORMATS = [form for form in ExportFormat if form is not ExportFormat.JSONL]


def views(session: Session) -> Iterator[SessionView]:
    yield SHOW_ALL
    yield SessionView(first_turn=1, last_turn=2, include_tools=True)
    for branch in session.branches[1:3]:
        yield SessionView(branch=branch.number, include_thinking=True)


def render(
    source: Session | ExportInput, options: ExportOptions
) -> tuple[str, dict[str, int]]:
    log = RedactionLog()
    return "".join(render_session(source, options, log)), log.count_by_kind()


def stored_input(archive: Archive, session: Session) -> ExportInput:
    conversation = archive.conversation(session.id)
    assert isinstance(conversation, StoredConversation)
    summary = archive.recorded_summary(session.id)
    cost = archive.costs([summary], PRICES)[session.id]
    return ExportInput(conversation=conversation, summary=summary, cost=cost)


def compare(archive: Archive, session: Session) -> None:
    source = stored_input(archive, session)
    for view in views(session):
        for form in FORMATS:
            for redactor in (None, Redactor()):
                options = structs.replace(
                    PLAIN, format=form, view=view, redactor=redactor
                )
                assert render(source, options) == render(session, options)
    assert not source.conversation.is_assembled
    assert [file.name for file in transcripts(archive, source)] == [
        file.name for file in transcripts(archive, session)
    ]


def transcripts(
    archive: Archive, source: Session | ExportInput
) -> Iterator[TranscriptFile]:
    inner = source.conversation if isinstance(source, ExportInput) else source
    return iter_transcript_files(inner, archive.read_source, None, RedactionLog())


@pytest.mark.parametrize("size", [2, 256])
@pytest.mark.parametrize("name", sorted(stories()))
def test_stored_sessions_are_exported_like_those_in_memory(
    name: str, size: int, case_archives: CaseArchives, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Archive.open(case_archives.archive(name)) as archive:
        for listed in archive.sessions(include_empty=True):
            session = archive.session(listed.id)
            monkeypatch.setattr(walk, "_WINDOW_SIZE", size)
            compare(archive, session)
