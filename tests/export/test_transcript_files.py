"""Exporting transcripts as JSONL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bygones.export.files import iter_transcript_files
from bygones.model.base import SourceId
from bygones.reader import read_source_file
from bygones.redact.engine import Redactor
from bygones.redact.session import RedactionLog
from tests.build import meta, prompt, session_id, thread
from tests.export.shared import KEY, make_home, sessions


def test_without_redactor_transcripts_are_byte_identical(
    tmp_path: Path,
) -> None:
    session = sessions(make_home(tmp_path).path)[0]

    contents = {
        file.name: b"".join(file.chunks)
        for file in iter_transcript_files(
            session, read_source_file, None, RedactionLog()
        )
    }

    assert set(contents) == {"", "subagents/agent-a1.jsonl"}
    for source in session.sources:
        assert Path(source.id).read_bytes() in contents.values()


def test_with_redactor_only_redacted_lines_differ(tmp_path: Path) -> None:
    session = sessions(make_home(tmp_path).path)[0]
    log = RedactionLog()

    first, _ = (
        b"".join(file.chunks)
        for file in iter_transcript_files(session, read_source_file, Redactor(), log)
    )

    before = Path(session.sources[0].id).read_bytes().split(b"\n")
    after = first.split(b"\n")
    differ = [old for old, new in zip(before, after, strict=True) if old != new]
    assert len(differ) == 2
    assert KEY.encode() in differ[0]
    assert KEY.encode() not in first
    assert {p.offset for p in log.records} <= {
        sum(len(line) + 1 for line in before[:number]) for number in range(len(before))
    }


def private_home(folder: Path) -> Path:
    home = make_home(folder, 1)
    secret = meta("bridge-session", bridgeSessionId="b")
    home.session(session_id(0), [secret, *thread(prompt("hello"))])
    return home.path


def test_private_records_are_left_out_and_counted(tmp_path: Path) -> None:
    (session,) = sessions(private_home(tmp_path))
    log = RedactionLog()

    exported = [
        b"".join(file.chunks)
        for file in iter_transcript_files(session, read_source_file, Redactor(), log)
    ]

    assert b"bridge-session" not in b"".join(exported)
    assert log.private_records == 1


def test_private_records_are_kept_on_request_without_redactor(tmp_path: Path) -> None:
    session = sessions(private_home(tmp_path))[0]
    whole = b"".join(
        b"".join(read_source_file(source.id)) for source in session.sources
    )
    log = RedactionLog()

    exported = b"".join(
        b"".join(file.chunks)
        for file in iter_transcript_files(session, read_source_file, None, log)
    )
    every = b"".join(
        b"".join(file.chunks)
        for file in iter_transcript_files(
            session, read_source_file, None, RedactionLog(), include_private=True
        )
    )

    private = [line for line in whole.splitlines(True) if b"bridge-session" in line]
    assert log.private_records == len(private) == 1
    assert exported == whole.replace(private[0], b"")
    assert every == whole


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(st.lists(st.integers(1, 40), max_size=30))
def test_lines_are_split_independently_of_chunks(
    tmp_path_factory: object, sizes: list[int]
) -> None:
    folder = tmp_path_factory.mktemp("home")  # type: ignore[attr-defined]
    session = sessions(make_home(folder, 1).path)[0]

    def pieces(source: SourceId) -> Iterator[bytes]:
        whole = b"".join(read_source_file(source))
        at = 0
        for size in sizes:
            yield whole[at : at + size]
            at += size
        yield whole[at:]

    in_parts = [
        b"".join(o.chunks)
        for o in iter_transcript_files(session, pieces, Redactor(), RedactionLog())
    ]
    at_once = [
        b"".join(o.chunks)
        for o in iter_transcript_files(
            session, read_source_file, Redactor(), RedactionLog()
        )
    ]

    assert in_parts == at_once
