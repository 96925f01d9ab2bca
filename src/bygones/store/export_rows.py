"""What an index has derived, in rows that another engine can hold.

A row names its session by nothing: it is kept with it. Records, texts and purses are
numbered within their session.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from msgspec import Struct

from bygones.model.base import SessionId
from bygones.store.archive_dir import ArchiveDir
from bygones.store.connect import fetch_all
from bygones.store.index_db import IndexDB
from bygones.store.text_index import TextIndex
from bygones.store.tokenizer import PreparedText, tokenize_prepared

Row = tuple[Any, ...]

EXPORTED_TABLES: dict[str, str] = {
    "session": "session project? started_ms#? ended_ms#? is_empty# title lengths!"
    " listed!",
    "booked": "source#",
    "record": "record# uuid# message#? source# start# length#",
    "edit": "place# path uuid# branch# agent? time_ms#? added# removed# is_new#",
    "prompt": "place# record time_ms#? branch# head",
    "rewound": "uuid#",
    "run": "agent type?",
    "purse": "purse# agent? agent_type? model? terms entrypoint?",
    "spend": "purse# uuid# time_ms#? branch# input# output# write_5m# write_1h# read#"
    " searches# estimate#",
    "fill": "tool quarter#? calls# size#",
    "claim": "upto_ms#? claim!",
    "problem": "place# source# start# length# kind detail",
    "drift": "source# what name version count#",
    "summary": "leaf# source# start# record text",
}
"""The rows of a session by table: numbers are marked #, bytes !, what may miss ?."""

_SELECTS = {
    "session": "SELECT number, n.session, project, started_ms, ended_ms, is_empty,"
    " title, lengths, listed FROM session JOIN name AS n USING (number)",
    "booked": "SELECT session, source FROM seen WHERE session IS NOT NULL",
    "edit": "SELECT session, path, record, branch, agent, time_ms, added, removed,"
    " is_new FROM edit ORDER BY rowid",
    "prompt": "SELECT session, record, time_ms, branch, head FROM prompt"
    " ORDER BY rowid",
    "rewound": "SELECT session, record FROM rewound",
    "run": "SELECT session, agent, type FROM run",
    "fill": "SELECT session, tool, quarter, calls, size FROM fill",
    "claim": "SELECT session, upto_ms, claim FROM claim",
    "problem": "SELECT s.session, source, offset, length, kind, detail FROM problem"
    " JOIN seen AS s USING (source) WHERE s.session IS NOT NULL"
    " ORDER BY problem.rowid",
    "drift": "SELECT s.session, source, what, name, version, count FROM drift"
    " JOIN seen AS s USING (source) WHERE s.session IS NOT NULL",
    "summary": "SELECT s.session, leaf, source, offset, record, text FROM summary"
    " JOIN seen AS s USING (source) WHERE s.session IS NOT NULL",
}
_SOURCE_COLUMN = {"booked": 0, "problem": 0, "drift": 0, "summary": 1}
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
        found("SELECT session FROM name"),
        found("SELECT DISTINCT uuid FROM record"),
        found("SELECT DISTINCT message FROM record WHERE message IS NOT NULL"),
    )


def load_leaf_titles(index: IndexDB, sources: Mapping[int, int]) -> list[LeafTitle]:
    """Return what the sources of an index call records.

    ``sources`` tells what they are called elsewhere.
    """
    sql = "SELECT leaf, source, offset, record, text FROM summary"
    rows = map(LeafTitle._make, fetch_all(index.db, sql))
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
        found[number] = {table: [] for table in EXPORTED_TABLES}
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
    sql = "SELECT id, session, uuid, message, source, offset, length FROM record"
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
    for purse, number, *values in fetch_all(
        index.db, f"{sql} FROM purse ORDER BY number"
    ):
        rows = found[number]["purse"]
        places[purse] = (number, len(rows))
        rows.append((len(rows), *values))
    for purse, *values in fetch_all(index.db, "SELECT * FROM spend ORDER BY rowid"):
        number, place = places[purse]
        found[number]["spend"].append((place, *values))


_TABLE_QUERIES = {
    "seen": "SELECT source, generation, upto, n.session FROM seen"
    " LEFT JOIN name AS n ON n.number = seen.session",
    "record": "SELECT uuid, message, n.session, source, offset, length FROM record"
    " JOIN name AS n ON n.number = record.session",
    "problem": "SELECT source, offset, length, kind, detail FROM problem",
    "drift": "SELECT source, what, name, version, count FROM drift",
    "summary": "SELECT leaf, source, offset, record, text FROM summary",
    "said": "SELECT source, lengths FROM said",
    "rewound": "SELECT record, n.session FROM rewound"
    " JOIN name AS n ON n.number = rewound.session",
    "run": "SELECT n.session, agent, type FROM run"
    " JOIN name AS n ON n.number = run.session",
    "session": "SELECT n.session, project, started_ms, ended_ms, is_empty, title,"
    " lengths, listed FROM session JOIN name AS n ON n.number = session.number",
    "family": "SELECT a.session, b.session FROM session AS x"
    " JOIN session AS y ON x.family = y.family"
    " JOIN name AS a ON a.number = x.number JOIN name AS b ON b.number = y.number",
    "spend": "SELECT n.session, agent, agent_type, model, terms, entrypoint, record,"
    " time_ms, branch, input, output, write_5m, write_1h, read, searches, estimate"
    " FROM spend JOIN purse AS p ON p.number = spend.purse"
    " JOIN name AS n ON n.number = p.session",
    "spell": "SELECT n.session, agent, model, terms, entrypoint, quarter, step,"
    " rewound, answers, input, output, write_5m, write_1h, read, searches, guessed,"
    " first_ms, last_ms FROM spell JOIN purse AS p ON p.number = spell.purse"
    " JOIN name AS n ON n.number = p.session",
    "fill": "SELECT n.session, tool, quarter, calls, size FROM fill"
    " JOIN name AS n ON n.number = fill.session",
    "claim": "SELECT n.session, upto_ms, claim FROM claim"
    " JOIN name AS n ON n.number = claim.session",
    "edit": "SELECT n.session, path, record, branch, agent, time_ms, added, removed,"
    " is_new FROM edit JOIN name AS n ON n.number = edit.session",
    "talk": "SELECT n.session, agent, facts FROM talk"
    " JOIN name AS n ON n.number = talk.session",
    "reel": "SELECT n.session, agent, branch, start, frame FROM reel"
    " JOIN name AS n ON n.number = reel.session",
    "prompt": "SELECT n.session, record, time_ms, branch, head FROM prompt"
    " JOIN name AS n ON n.number = prompt.session",
}


def hash_tables(archive_dir: ArchiveDir) -> dict[str, str]:
    """Return a hash of each table, and of the nodes and the words."""
    index = archive_dir.index
    if index is None:
        return {}
    found = {}
    for table, sql in _TABLE_QUERIES.items():
        rows = sorted(map(repr, index.db.execute(sql)))
        found[table] = _hash_rows(rows)
    sources = [row[0] for row in index.db.execute("SELECT source FROM seen")]
    found["node"] = _hash_rows(repr(index.nodes(source)) for source in sorted(sources))
    places = {
        row[0]: (row[1], row[2], row[3])
        for row in index.db.execute(
            "SELECT record.id, source, offset, n.session FROM record"
            " JOIN name AS n ON n.number = record.session"
        )
    }
    names = dict(index.db.execute("SELECT number, session FROM name"))
    words = [
        repr((places.get(record), names.get(session), kind, digest))
        for record, session, kind, digest in archive_dir.text_index.iter_documents()
    ]
    found["text"] = _hash_rows(sorted(words))
    return found


def _hash_rows(rows: object) -> str:
    hashed = hashlib.sha256()
    for row in rows:  # type: ignore[attr-defined]
        hashed.update(row.encode("utf-8", "surrogatepass"))
        hashed.update(b"\n")
    return hashed.hexdigest()
