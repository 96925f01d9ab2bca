"""Real transcripts: every record with text is reachable.

The transcripts are not part of the project; without them the tests are skipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from bygones.archive import Archive
from bygones.export.files import iter_transcript_files
from bygones.export.formats import ExportFormat, ExportOptions, render_session
from bygones.model.base import RecordId, SourceFile, SourceKind
from bygones.model.sessions import Branch, Session
from bygones.reader import load_transcript, read_sessions, read_source_file
from bygones.redact.engine import Redactor
from bygones.redact.json import redact_line, remove_private
from bygones.redact.session import RedactionLog
from bygones.sources.walk import discover_sources
from tests.ingest.window_checks import check
from tests.properties.trees import reachable_records
from tests.render.shared import check_sums

CORPUS = Path(__file__).resolve().parent.parent / ".." / "shared" / "corpus"
FOLDERS = sorted(path for path in CORPUS.glob("*") if path.is_dir())
REDACTOR = Redactor()
PERSONS = {"home", "user", "email"}
SIZE = 10
"""Records that a session needs to be judged by shares."""

pytestmark = pytest.mark.skipif(
    not FOLDERS, reason=f"no transcripts at {CORPUS}: they are not part of the project"
)
every_folder = pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)


@cache
def sessions_of(folder: Path) -> tuple[Session, ...]:
    """Return the sessions of a folder, read once for all tests."""
    return tuple(read_sessions(folder))


def records_with_text(source: SourceFile) -> set[RecordId]:
    """Return the records of a file that have text."""
    nodes = load_transcript(source).nodes
    return {n.uuid for n in nodes if n.is_conversation and n.uuid is not None}


def displayed_records(*branches: Branch) -> set[RecordId]:
    """Return the records that are part of a message in these branches."""
    messages = (message for branch in branches for message in branch.messages)
    return {record for message in messages for record in message.record_ids}


def iter_sessions(folder: Path) -> Iterator[tuple[Session, set[RecordId]]]:
    """Yield sessions with the records that have text in any of their files."""
    for session in sessions_of(folder):
        everything: set[RecordId] = set()
        for source in session.sources:
            everything |= records_with_text(source)
        if len(everything) >= SIZE:
            yield session, everything


@every_folder
@pytest.mark.req("T2")
def test_everything_that_was_said_is_reached(folder: Path) -> None:
    lost = {
        session.id: everything - reachable_records(session)
        for session, everything in iter_sessions(folder)
    }

    assert {name: records for name, records in lost.items() if records} == {}


@every_folder
@pytest.mark.req("T2")
def test_without_a_rewind_the_live_branch_reaches_nearly_all(folder: Path) -> None:
    shares = {}
    for session, _ in iter_sessions(folder):
        own = [s for s in session.sources if s.kind is SourceKind.SESSION]
        expected = set().union(*map(records_with_text, own))
        expected -= {one.record_id for one in session.hidden_records if one.record_id}
        for run in session.all_agents:
            expected -= displayed_records(*run.branches)
        live = displayed_records(session.live_branch)
        if len(session.branches) == 1 and expected:
            shares[session.id] = len(expected & live) / len(expected)

    assert {name: share for name, share in shares.items() if share < 0.99} == {}


@pytest.mark.req("T2")
def test_the_only_rewind_is_the_one_that_was_made_by_hand() -> None:
    found = [
        (branch.fork_id, branch.first_prompt_id)
        for folder in FOLDERS
        for session in sessions_of(folder)
        for branch in session.branches[1:]
    ]

    assert found == [("a1", "b1u")]


def test_every_file_is_part_of_some_session() -> None:
    for folder in FOLDERS:
        files = {
            source.id
            for source in discover_sources(folder)
            if isinstance(source, SourceFile) and source.kind.is_transcript
        }
        read_of = {
            source.id for session in sessions_of(folder) for source in session.sources
        }

        assert files == read_of


@every_folder
@pytest.mark.parametrize(
    "form", [form for form in ExportFormat if form is not ExportFormat.JSONL]
)
def test_every_session_can_be_exported(
    folder: Path, form: ExportFormat, step: int
) -> None:
    making = ExportOptions(format=form, redactor=REDACTOR)

    for session in sessions_of(folder)[::step]:
        finds = RedactionLog()
        whole = "".join(render_session(session, making, finds))

        assert session.id in whole.replace("\\_", "_")  # as Markdown has it
        assert REDACTOR.find(whole) == () or form is ExportFormat.HTML


@every_folder
def test_the_lines_of_every_session_are_exported_as_they_were(folder: Path) -> None:
    for session in sessions_of(folder):
        sources = {
            source.id: Path(source.id).read_bytes() for source in session.sources
        }
        found = iter_transcript_files(
            session, read_source_file, None, RedactionLog(), include_private=True
        )
        public = iter_transcript_files(session, read_source_file, None, RedactionLog())

        assert sorted(b"".join(one.chunks) for one in found) == sorted(sources.values())
        # Private records are exported only on request; the rest is unchanged.
        assert sorted(b"".join(one.chunks) for one in public) == sorted(
            b"".join(
                stripped + line[len(line.rstrip(b"\n")) :]
                for line in re.findall(rb"[^\n]*\n|[^\n]+", raw)
                if (stripped := remove_private(line.rstrip(b"\n"))) is not None
            )
            for raw in sources.values()
        )


def test_few_messages_are_flagged_without_a_reason(step: int) -> None:
    records = flagged = 0
    for folder in FOLDERS:
        for path in sorted(folder.rglob("*.jsonl"))[::step]:
            for line in path.read_bytes().splitlines():
                records += 1
                _, found = redact_line(line, REDACTOR)
                flagged += any(
                    one.kind not in {"home", "user", "email"} for one in found
                )

    # All matches count as false positives here, though some are real.
    assert flagged <= records / 1000


@every_folder
def test_the_lines_of_a_drawing_add_up(folder: Path) -> None:
    for session in sessions_of(folder):
        check_sums(session)


@every_folder
def test_every_window_is_a_slice_of_its_session(
    folder: Path, tmp_path: Path, step: int
) -> None:
    if Archive.ingest(tmp_path, [folder]).derived_sessions == 0:
        pytest.skip("no session here")

    with Archive.open(tmp_path) as archive:
        assert check(archive, (16,), step)
