"""Families: sessions that share records or answers are derived together."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import pytest

from bygones.archive import Archive
from bygones.store import derived_tables as deriving
from bygones.store.derived_tables import DerivedTables
from bygones.store.encoding import id_key, id_key_range
from tests.build import Written, jsonl, prompt, reply, session, session_id, summary
from tests.store.sandbox import Sandbox, differing_tables


def uuid(number: int) -> str:
    return f"{number:08}-0000-4000-8000-000000000000"


def prompt_chain(*numbers: int) -> list[Written]:
    """Return a chain of prompts with these ids."""
    above = [None, *map(uuid, numbers)]
    return [
        prompt(f"said {number}", uuid=uuid(number), parent=parent)
        for number, parent in zip(numbers, above, strict=False)
    ]


@pytest.fixture(params=[200, -1], ids=["few", "many"])
def sandbox(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Sandbox:
    monkeypatch.setattr(deriving, "_FULL_SCAN_MIN", request.param)
    return Sandbox(tmp_path)


def families(sandbox: Sandbox) -> set[tuple[int, ...]]:
    """Return the families by the last digits of their sessions."""
    rows = sandbox.index_rows(
        "SELECT group_concat(substr(s.id, -1)) FROM session"
        " JOIN session_id AS s ON s.number = session.number GROUP BY family"
    )
    return {tuple(sorted(map(int, str(row[0]).split(",")))) for row in rows}


def test_sessions_that_share_a_record_are_one_family(sandbox: Sandbox) -> None:
    sandbox.home.session(session_id(1), prompt_chain(1, 2))
    sandbox.home.session(session_id(2), prompt_chain(2, 3))
    sandbox.home.session(session_id(3), prompt_chain(2, 4))
    sandbox.home.session(session_id(4), prompt_chain(4, 5))
    sandbox.home.session(session_id(5), prompt_chain(6))
    sandbox.ingest()

    assert families(sandbox) == {(1, 2, 3, 4), (5,)}


def test_sessions_that_share_an_answer_are_one_family(sandbox: Sandbox) -> None:
    for number in (1, 2, 3):
        answer = reply("well", uuid=uuid(number), message_id="msg_" + "x" * 20)
        sandbox.home.session(session_id(number), [answer])
    sandbox.ingest()

    assert families(sandbox) == {(1, 2, 3)}
    with Archive.open(sandbox.archive) as archive:
        totals = [line.usage.output for line in archive.sessions(include_empty=True)]
    assert sorted(totals) == [0, 0, 40]


def test_family_without_shared_records_is_split(sandbox: Sandbox) -> None:
    sandbox.home.session(session_id(1), prompt_chain(1, 2))
    path = sandbox.home.session(session_id(2), prompt_chain(2, 3))
    sandbox.ingest()
    assert families(sandbox) == {(1, 2)}

    path.write_bytes(jsonl(prompt_chain(7, 8)))
    sandbox.ingest()

    assert families(sandbox) == {(1,), (2,)}
    assert differing_tables(sandbox) == []


def test_sessions_with_a_new_shared_record_become_one_family(sandbox: Sandbox) -> None:
    sandbox.home.session(session_id(1), prompt_chain(1, 2))
    sandbox.home.session(session_id(2), prompt_chain(3, 4))
    sandbox.ingest()
    assert families(sandbox) == {(1,), (2,)}

    sandbox.home.session(session_id(3), prompt_chain(2, 3))
    sandbox.ingest()

    assert families(sandbox) == {(1, 2, 3)}
    assert differing_tables(sandbox) == []


def leave(path: Path) -> None:
    path.write_bytes(jsonl(prompt_chain(9)))


def unname(path: Path) -> None:
    path.write_bytes(jsonl([*prompt_chain(9), summary("newer", uuid(2))]))


@pytest.mark.parametrize(("act", "title"), [(leave, "said 1"), (unname, "newer")])
def test_title_from_another_file_follows_changes_of_that_file(
    sandbox: Sandbox, act: Callable[[Path], None], title: str
) -> None:
    sandbox.home.session(session_id(1), prompt_chain(1, 2))
    other = sandbox.home.session(
        session_id(2), [*prompt_chain(9), summary("older", uuid(2))]
    )
    sandbox.ingest()
    with Archive.open(sandbox.archive) as archive:
        assert archive.session(session_id(1)).title.text == "older"

    act(other)
    sandbox.ingest()

    with Archive.open(sandbox.archive) as archive:
        assert archive.session(session_id(1)).title.text == title
    assert differing_tables(sandbox) == []


@pytest.mark.req("F6")
def test_empty_sessions_are_listed_on_request_only(sandbox: Sandbox) -> None:
    sandbox.home.session(session_id(1), session("a", "b<a"))
    sandbox.home.session(session_id(2), [])
    sandbox.home.session(session_id(3), [summary("only a title", "gone")])
    sandbox.home.agent(session_id(4), "abc1234", [prompt("Warmup"), reply("Ready")])
    sandbox.ingest()

    with sandbox.open_dir() as archive_dir:
        assert archive_dir.index is not None
        derived = DerivedTables(archive_dir.index)
        ids = {line.id for line in derived.iter_summaries()}
        everything = {line.id for line in derived.iter_summaries(include_empty=True)}

    assert ids == {session_id(1)}
    assert everything == {session_id(number) for number in (1, 2, 3, 4)}


def test_sessions_with_equal_end_times_are_sorted_by_id(sandbox: Sandbox) -> None:
    for number in (3, 1, 2):  # in which order they are numbered
        records = [prompt("At once", uuid=uuid(number))]
        sandbox.home.session(session_id(number), records)
        sandbox.ingest()

    with sandbox.open_dir() as archive_dir:
        assert archive_dir.index is not None
        ids = [line.id for line in DerivedTables(archive_dir.index).iter_summaries()]

    assert ids == [session_id(number) for number in (1, 2, 3)]


@pytest.mark.parametrize(
    ("name", "prefix"),
    [
        ("0a1b2c3d-4e5f-4a6b-8c7d-000000000000", "0a1b2c3d"),
        ("0a1b2c3d-4e5f-4a6b-8c7d-000000000000", "0A1B2C3D-4e5f-4a6b-8"),
        ("ffffffff-ffff-4fff-8fff-ffffffffffff", "f"),
    ],
)
def test_uuid_prefix_is_a_range_of_keys(name: str, prefix: str) -> None:
    between = id_key_range(prefix)

    assert between is not None
    assert between[0] <= id_key(name) <= between[1]


def test_other_prefixes_have_no_key_range() -> None:
    assert id_key_range("") is None
    assert id_key_range("xyz") is None


def test_every_id_key_is_a_valid_sqlite_integer() -> None:
    odd = ["a", "", "g" * 36, "f" * 36, "-" * 36, "ü", "0" * 36]

    assert all(0 <= id_key(name) < 2**63 for name in odd)
    assert len({id_key(name) for name in odd}) == len(odd)


def test_sequential_uuids_have_different_keys() -> None:
    names = [str(UUID(int=(1 << 122) + count)) for count in range(1000)]

    assert len({id_key(name) for name in names}) == len(names)
