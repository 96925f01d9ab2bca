"""Of very many short records the first are used; all bytes are kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from bygones.archive import Archive
from bygones.model.base import SessionId
from bygones.model.problem_runs import count_problems
from bygones.parse import light
from bygones.reader import read_sessions
from tests.build import jsonl, progress, prompt, reply, session_id, thread
from tests.store.sandbox import Sandbox, differing_tables

ID = SessionId(session_id(1))
USED, COUNT = 10, 40


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the path of a session of which few short records are used."""
    monkeypatch.setattr(light, "_MAX_LIMITED_RECORDS", USED)
    monkeypatch.setattr(light, "_BYTES_PER_LIMITED_RECORD", 1_000_000)
    path = tmp_path / "home" / "projects" / "-x" / f"{ID}.jsonl"
    path.parent.mkdir(parents=True)
    return path


def lines(count: int) -> list[bytes]:
    both = [
        one
        for at in range(count)
        for one in (prompt(f"kiwi {at}"), reply(f"heron {at}"))
    ]
    return jsonl(both[:count]).splitlines(keepends=True)


def count_left_out(archive: Archive) -> int:
    found = [problem for _, problem in archive.problems()]
    return count_problems(one for one in found if one.kind == "too-many-records")


def test_further_records_are_kept_and_reported_but_not_used(path: Path) -> None:
    sandbox = Sandbox(path.parents[3])
    path.write_bytes(b"".join(lines(COUNT)))

    sandbox.ingest()

    assert sandbox.generations(path) == [path.read_bytes()]
    with Archive.open(sandbox.archive) as archive:
        assert archive.session_summary(ID).message_count == USED
        assert count_left_out(archive) == COUNT - USED
        assert archive.search("kiwi").sessions[0].hit_count == USED // 2
    (session,) = read_sessions(path)
    assert len(session.live_branch.messages) == USED
    found = [one for one in session.problems if one.kind == "too-many-records"]
    assert count_problems(found) == COUNT - USED


@pytest.mark.parametrize("parts", [1, 7, 13])
def test_the_same_records_are_used_if_a_file_grows(path: Path, parts: int) -> None:
    sandbox = Sandbox(path.parents[3])
    for start in range(0, COUNT, parts):
        path.write_bytes(b"".join(lines(COUNT)[: start + parts]))
        sandbox.ingest()

    with Archive.open(sandbox.archive) as archive:
        assert archive.session_summary(ID).message_count == USED
        assert count_left_out(archive) == COUNT - USED
    assert differing_tables(sandbox) == []


def test_files_with_longer_records_are_used_as_a_whole(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(light, "_BYTES_PER_LIMITED_RECORD", 100)
    sandbox = Sandbox(path.parents[3])
    path.write_bytes(b"".join(lines(COUNT)))

    sandbox.ingest()

    with Archive.open(sandbox.archive) as archive:
        assert archive.session_summary(ID).message_count == COUNT
        assert count_left_out(archive) == 0


def test_long_records_without_a_parent_are_used_as_a_whole(path: Path) -> None:
    sandbox = Sandbox(path.parents[3])
    path.write_bytes(jsonl(prompt(f"kiwi {at} " * 100) for at in range(COUNT)))

    sandbox.ingest()

    with Archive.open(sandbox.archive) as archive:
        assert archive.session_summary(ID).message_count == COUNT
        assert count_left_out(archive) == 0


def test_threads_of_any_number_of_records_are_used_as_a_whole(path: Path) -> None:
    sandbox = Sandbox(path.parents[3])
    path.write_bytes(jsonl(thread(*(prompt(f"kiwi {at}") for at in range(COUNT)))))

    sandbox.ingest()

    with Archive.open(sandbox.archive) as archive:
        assert archive.session_summary(ID).message_count == COUNT
        assert count_left_out(archive) == 0
    (session,) = read_sessions(path)
    assert len(session.live_branch.messages) == COUNT


def short_thread(count: int) -> bytes:
    return b"".join(
        b'{"type":"user","uuid":"%d","parentUuid":"%d","message":{"content":"kiwi"}}\n'
        % (at + 1, at)
        for at in range(count)
    )


def test_records_too_short_to_be_real_are_limited_although_they_have_a_parent(
    path: Path,
) -> None:
    sandbox = Sandbox(path.parents[3])
    path.write_bytes(short_thread(COUNT))

    sandbox.ingest()

    with Archive.open(sandbox.archive) as archive:
        assert archive.session_summary(ID).message_count == USED
        assert count_left_out(archive) == COUNT - USED
    assert differing_tables(sandbox) == []


@pytest.mark.parametrize("parts", [1, 40])
def test_records_of_agents_in_progress_records_are_limited(
    path: Path, parts: int
) -> None:
    sandbox = Sandbox(path.parents[3])
    raw = thread(
        prompt("kiwi"),
        *(
            progress(
                "agent_progress",
                agentId="one",
                message={
                    "type": "user",
                    "uuid": f"inner-{at}",
                    "message": {"role": "user", "content": f"heron {at}"},
                },
            )
            for at in range(COUNT)
        ),
        prompt("last kiwi"),
    )
    whole = jsonl(raw).splitlines(keepends=True)
    for start in range(0, len(whole), parts):
        path.write_bytes(b"".join(whole[: start + parts]))
        sandbox.ingest()

    with Archive.open(sandbox.archive) as archive:
        session = archive.session(ID)
        assert len(session.agents[0].live_branch.messages) == USED - 1
        assert [one.text for one in session.live_branch.messages] == [
            "kiwi",
            "last kiwi",
        ]
        assert count_left_out(archive) == COUNT - USED + 1
    assert differing_tables(sandbox) == []


def test_only_the_last_of_many_texts_in_a_progress_record_are_read(path: Path) -> None:
    texts = [
        {"type": "user", "message": {"role": "user", "content": f"heron {at}"}}
        for at in range(50)
    ]
    raw = progress(
        "agent_progress",
        agentId="one",
        message=texts[-1],
        normalizedMessages=texts,
    )
    path.write_bytes(jsonl([prompt("kiwi"), raw]))

    (session,) = read_sessions(path)

    assert len(session.agents[0].live_branch.messages) == 21
