"""What an index has derived, in rows that another engine can hold.

A row names its session by nothing: it is kept with it. Records, texts and payers are
numbered within their session.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from msgspec import Struct

from bygones.model.base import SessionId
from bygones.store.connect import fetch_all
from bygones.store.index_db import IndexDB
from bygones.store.schema import TEAM_TABLES
from bygones.store.text_index import TextIndex
from bygones.store.tokenizer import PreparedText, tokenize_prepared

Row = tuple[Any, ...]

_SELECTS = {
    "session": "SELECT number, s.id, project, started_ms, ended_ms, is_empty, title,"
    " text_lengths, summary FROM session JOIN session_id AS s USING (number)",
    "session_source": "SELECT session, source FROM source_state"
    " WHERE session IS NOT NULL",
    "edit": "SELECT * FROM edit ORDER BY rowid",
    "prompt": "SELECT * FROM prompt ORDER BY rowid",
    "abandoned_record": "SELECT * FROM abandoned_record",
    "agent_run": "SELECT * FROM agent_run",
    "tool_context": "SELECT * FROM tool_context",
    "reported_cost": "SELECT * FROM reported_cost",
    "problem": "SELECT s.session, problem.* FROM problem"
    " JOIN source_state AS s USING (source) WHERE s.session IS NOT NULL"
    " ORDER BY problem.rowid",
    "drift": "SELECT s.session, drift.* FROM drift"
    " JOIN source_state AS s USING (source) WHERE s.session IS NOT NULL",
    "leaf_title": "SELECT s.session, leaf_title.* FROM leaf_title"
    " JOIN source_state AS s USING (source) WHERE s.session IS NOT NULL",
}
_SOURCE_COLUMN = {"session_source": 0, "problem": 0, "drift": 0, "leaf_title": 1}
"""Where a row names its source."""
_ORDERED_TABLES = {"edit", "prompt", "problem"}
"""Tables whose rows come in an order that must be kept."""


class ExportedText(NamedTuple):
    """What a record says in one part."""

    record: int
    kind: int
    text: str
    """As the engine of a folder would have it; terms take ten times its room."""

    @property
    def terms(self) -> list[str]:
        """The terms of the text, in their order; made whenever they are asked for."""
        return tokenize_prepared(self.text)


class SessionRows(Struct, frozen=True):
    """All that is derived of one session."""

    session: SessionId
    family: int
    """The same number for all that were derived together."""
    rows: dict[str, list[Row]]
    texts: list[ExportedText]


class RelationKeys(Struct, frozen=True):
    """By what sessions are known to be related, by numbers as an index has them."""

    sessions: list[SessionId]
    records: list[int]
    messages: list[int]
    leaves: list[int] = []
    """Records to which a title was given."""


class LeafTitle(NamedTuple):
    """What a file calls a record: the record's number, where, its id, and the words."""

    leaf: int
    source: int
    start: int
    record: str
    text: str


class RecordingTextIndex(TextIndex):
    """Stands where the text index does, and remembers texts instead of indexing."""

    def __init__(self) -> None:
        self.texts_by_record: dict[int, list[tuple[int, str]]] = {}
        """Kinds and texts of what is said, by record."""

    def add(
        self, record: int, session: int, kind: int, prepared_text: PreparedText
    ) -> None:
        """Remember what a record says in one of its parts."""
        del session
        self.texts_by_record.setdefault(record, []).append((kind, prepared_text[1]))

    def remove(self, records: Iterable[int]) -> None:
        """Forget what records say."""
        for record in records:
            self.texts_by_record.pop(record, None)

    def remove_after(self, record: int) -> None:
        """Forget what all records with a higher id say."""
        self.remove([one for one in self.texts_by_record if one > record])

    def commit(self) -> None:
        """Nothing waits."""

    def reload(self) -> None:
        """Nothing is read."""

    def close(self) -> None:
        """Nothing is open."""


def load_relation_keys(index: IndexDB) -> RelationKeys:
    """Return what relates the sessions of an index to others."""

    def found(sql: str) -> list[Any]:
        return [row[0] for row in fetch_all(index.db, sql)]

    return RelationKeys(
        found("SELECT id FROM session_id"),
        found("SELECT DISTINCT key FROM record"),
        found("SELECT DISTINCT message_key FROM record WHERE message_key IS NOT NULL"),
    )


def load_leaf_titles(index: IndexDB, sources: Mapping[int, int]) -> list[LeafTitle]:
    """Return what the sources of an index call records.

    ``sources`` tells what they are called elsewhere.
    """
    rows = map(LeafTitle._make, fetch_all(index.db, "SELECT * FROM leaf_title"))
    return [
        one._replace(source=sources[one.source])
        for one in rows
        if one.source in sources
    ]


def export_rows(
    index: IndexDB, text_index: RecordingTextIndex, sources: Mapping[int, int]
) -> Iterator[SessionRows]:
    """Yield what an index has derived, session by session, in the order of numbers.

    ``sources`` tells what the sources are called elsewhere.
    """
    db = index.db
    found: dict[int, dict[str, list[Row]]] = {}
    for (number,) in fetch_all(db, "SELECT number FROM session ORDER BY number"):
        found[number] = {table: [] for table in TEAM_TABLES}
    for table, sql in _SELECTS.items():
        for number, *values in fetch_all(db, sql):
            if number in found:
                rows = found[number][table]
                if table in _SOURCE_COLUMN:
                    at = _SOURCE_COLUMN[table]
                    values[at] = sources[values[at]]
                place = (len(rows),) if table in _ORDERED_TABLES else ()
                rows.append((*place, *values))
    texts = _export_records(index, text_index, sources, found)
    _export_usage(index, found)
    families = dict(fetch_all(db, "SELECT number, family FROM session"))
    for number, tables in found.items():
        (session,) = tables["session"]
        yield SessionRows(
            SessionId(session[0]), families[number], tables, texts.get(number, [])
        )


def _export_records(
    index: IndexDB,
    text_index: RecordingTextIndex,
    sources: Mapping[int, int],
    found: dict[int, dict[str, list[Row]]],
) -> dict[int, list[ExportedText]]:
    texts: dict[int, list[ExportedText]] = {}
    sql = "SELECT id, session, key, message_key, source, start, length FROM record"
    for id_, number, *values in fetch_all(index.db, f"{sql} ORDER BY id"):
        if number not in found:
            continue
        rows = found[number]["record"]
        values[2] = sources[values[2]]
        for kind, text in text_index.texts_by_record.get(id_, ()):
            texts.setdefault(number, []).append(ExportedText(len(rows), kind, text))
        rows.append((len(rows), *values))
    return texts


def _export_usage(index: IndexDB, found: dict[int, dict[str, list[Row]]]) -> None:
    places: dict[int, tuple[int, int]] = {}
    sql = "SELECT number, session, agent, agent_type, model, terms, entrypoint"
    for payer, number, *values in fetch_all(
        index.db, f"{sql} FROM payer ORDER BY number"
    ):
        rows = found[number]["payer"]
        places[payer] = (number, len(rows))
        rows.append((len(rows), *values))
    for payer, *values in fetch_all(index.db, "SELECT * FROM usage ORDER BY rowid"):
        number, place = places[payer]
        found[number]["usage"].append((place, *values))
