"""Consistent reads of a local archive while others write."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC
from pathlib import Path

import apsw
import pytest

from bygones.archive import Archive
from bygones.maintenance.verify import rebuild
from bygones.query.parser import parse_query
from bygones.store import index_db as indexing
from bygones.store.connect import open_index_db
from bygones.store.derived_tables import DerivedTables
from bygones.store.local_reader import LocalReader
from bygones.store.protocols import StoreReader
from tests.build import jsonl, prompt, session_id, thread, tool_use
from tests.store.sandbox import Sandbox
from tests.usage.usage_archive import NOW, OPUS, SONNET, answer

SESSIONS = 3
Ask = Callable[[Archive], object]


def test_local_reader_implements_the_protocol() -> None:
    named = {name for name in dir(StoreReader) if not name.startswith("_")}

    assert named - {"byte_store"} <= set(dir(LocalReader))


def test_records_are_looked_up_by_key_not_among_all_of_a_session(
    tmp_path: Path,
) -> None:
    sandbox = Sandbox(tmp_path)
    sandbox.home.session(session_id(1), thread(prompt("one"), prompt("two")))
    sandbox.ingest()
    statements: list[str] = []
    with sandbox.open_dir() as archive_dir:
        assert archive_dir.index is not None
        db = archive_dir.index.db
        facts = LocalReader(archive_dir).search_facts
        tables = DerivedTables(archive_dir.index)

        def record(_: object, sql: str, __: object) -> bool:
            statements.append(sql)
            return True

        db.exec_trace = record
        facts.find_record(1, 2)
        facts.abandoned_records()
        tables.has_summaries(1)
        db.exec_trace = None
        for sql in statements:
            values = (1,) * sql.count("?")
            plan = str(db.execute(f"EXPLAIN QUERY PLAN {sql}", values).fetchall())
            assert "INDEX record_key" in plan, sql
    assert len(statements) == 3


class WriterDuringRead:
    """Writes before the n-th statement of a reader."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._keeping = sandbox
        self._said = 0
        self.before = 0
        self.statements = 0

    def grow(self) -> None:
        """Append to every session, and derive it again."""
        for number in range(1, SESSIONS + 1):
            self._said += 1
            more = answer(self._said, model=(OPUS, SONNET)[number % 2], output=7)
            calls = answer(self._said, output=7)
            calls["message"]["content"] = [tool_use("Read", id=f"toolu_{self._said}")]
            records = thread(prompt(f"words {self._said}"), more, calls)
            name = session_id(number)
            path = self._keeping.home.path / f"projects/-work-demo/{name}.jsonl"
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("ab") as file:
                file.write(jsonl(record | {"sessionId": name} for record in records))
        self._keeping.ingest()

    def opened(self, path: Path, *, write: bool) -> apsw.Connection:
        """Open an index, and count the statements of the reader."""
        db = open_index_db(path, write=write)
        if not write:
            db.exec_trace = self._count_statement
        return db

    def _count_statement(self, *_: object) -> bool:
        self.statements += 1
        if self.statements == self.before:
            self.before = 0
            self.grow()
        return True


@pytest.fixture
def meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WriterDuringRead:
    writer = WriterDuringRead(Sandbox(tmp_path))
    writer.grow()
    monkeypatch.setattr(indexing, "open_index_db", writer.opened)
    return writer


def _loaded(archive: Archive) -> object:
    one = archive.session(session_id(1))
    message_ids = [message.id for message in one.live_branch.messages]
    return message_ids, one.usage, [spend.usage for spend in one.message_usages]


def _costs(archive: Archive) -> object:
    return archive.costs(archive.sessions())


def _both(archive: Archive) -> object:
    with archive.read_transaction():
        totals = {one.id: one.usage.total for one in archive.sessions()}
        report = archive.usage("session", now=NOW)
        return sum(totals.values()), report.total.tokens


def _found(archive: Archive) -> object:
    query = parse_query("words after:2020-01-01 project:demo", now=NOW, zone=UTC)
    return [one.summary.id for one in archive.search(query).sessions]


def _by(by: str) -> Ask:
    return lambda archive: archive.usage(by, now=NOW)


QUESTIONS: dict[str, Ask] = {
    **{by: _by(by) for by in ("day", "block", "model", "session", "project", "tool")},
    "costs": _costs,
    "tools": Archive.sessions_by_tool,
    "session": _loaded,
    "several": _both,
    "search": _found,
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_reads_are_consistent_while_others_write(
    meanwhile: WriterDuringRead, tmp_path: Path, question: str, step: int
) -> None:
    ask, folder = QUESTIONS[question], tmp_path / "archive"

    def answered(before: int = 0) -> object:
        with Archive.open(folder) as archive:
            meanwhile.statements, meanwhile.before = 0, before
            return ask(archive)

    old = answered()
    for number in range(1, meanwhile.statements + 1, step // 2 or 1):
        result = answered(number)
        new = answered()
        assert result in (old, new), number
        old = new


def test_read_transaction_survives_a_replaced_index(
    meanwhile: WriterDuringRead, tmp_path: Path
) -> None:
    folder = tmp_path / "archive"
    with Archive.open(folder) as archive, archive.read_transaction():
        before = list(archive.sessions())
        rebuild(folder)
        found = _found(archive)
        after = list(archive.sessions())
        meanwhile.grow()
        assert list(archive.sessions()) == after == before

    assert found
