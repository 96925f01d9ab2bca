"""What an index has derived, in rows that another engine can hold.

A row names its session by nothing: it is kept with it. Records, texts and purses are
numbered within their session.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from msgspec import Struct

from bygones.model.ids import SessionId
from bygones.store.connect import every
from bygones.store.index import Index
from bygones.store.text import TextIndex
from bygones.store.words import Words, terms_in

__all__ = [
    "TABLES",
    "Harvest",
    "Listening",
    "Marks",
    "Named",
    "TextRow",
    "harvested",
    "marks_of",
    "named_in",
]

Row = tuple[Any, ...]

TABLES: dict[str, str] = {
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

_SQL = {
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
_SOURCE = {"booked": 0, "problem": 0, "drift": 0, "summary": 1}
"""Where a row names its source."""
_PLACED = {"edit", "prompt", "problem"}
"""Tables whose rows come in an order that must be kept."""


class TextRow(NamedTuple):
    """What a record says in one part."""

    record: int
    kind: int
    text: str
    """As the engine of a folder would have it; terms take ten times its room."""

    @property
    def terms(self) -> list[str]:
        """The terms of the text, in their order; made whenever they are asked for."""
        return terms_in(self.text)


class Harvest(Struct, frozen=True):
    """All that is derived of one session."""

    session: SessionId
    family: int
    """The same number for all that were derived together."""
    rows: dict[str, list[Row]]
    texts: list[TextRow]


class Marks(Struct, frozen=True):
    """By what sessions are known to be related, by numbers as an index has them."""

    sessions: list[SessionId]
    records: list[int]
    messages: list[int]
    leaves: list[int] = []
    """Records to which a title was given."""


class Named(NamedTuple):
    """What a file calls a record: the record's number, where, its id, and the words."""

    leaf: int
    source: int
    start: int
    record: str
    text: str


class Listening(TextIndex):
    """Stands where the text index does, and remembers texts instead of indexing."""

    def __init__(self) -> None:
        self.said: dict[int, list[tuple[int, str]]] = {}
        """Kinds and texts of what is said, by record."""

    def add(self, record: int, session: int, kind: int, words: Words) -> None:
        """Remember what a record says in one of its parts."""
        del session
        self.said.setdefault(record, []).append((kind, words[1]))

    def remove(self, records: Iterable[int]) -> None:
        """Forget what records say."""
        for record in records:
            self.said.pop(record, None)

    def remove_after(self, record: int) -> None:
        """Forget what all records with a higher id say."""
        self.remove([one for one in self.said if one > record])

    def commit(self) -> None:
        """Nothing waits."""

    def reload(self) -> None:
        """Nothing is read."""

    def close(self) -> None:
        """Nothing is open."""


def marks_of(index: Index) -> Marks:
    """Return what relates the sessions of an index to others."""

    def found(sql: str) -> list[Any]:
        return [row[0] for row in every(index.db, sql)]

    return Marks(
        found("SELECT session FROM name"),
        found("SELECT DISTINCT uuid FROM record"),
        found("SELECT DISTINCT message FROM record WHERE message IS NOT NULL"),
    )


def named_in(index: Index, sources: Mapping[int, int]) -> list[Named]:
    """Return what the sources of an index call records.

    ``sources`` tells what they are called elsewhere.
    """
    sql = "SELECT leaf, source, offset, record, text FROM summary"
    rows = map(Named._make, every(index.db, sql))
    return [
        one._replace(source=sources[one.source])
        for one in rows
        if one.source in sources
    ]


def harvested(
    index: Index, words: Listening, sources: Mapping[int, int]
) -> Iterator[Harvest]:
    """Yield what an index has derived, session by session, in the order of numbers.

    ``sources`` tells what the sources are called elsewhere.
    """
    db = index.db
    found: dict[int, dict[str, list[Row]]] = {}
    for (number,) in every(db, "SELECT number FROM session ORDER BY number"):
        found[number] = {table: [] for table in TABLES}
    for table, sql in _SQL.items():
        for number, *values in every(db, sql):
            if number in found:
                rows = found[number][table]
                if table in _SOURCE:
                    at = _SOURCE[table]
                    values[at] = sources[values[at]]
                place = (len(rows),) if table in _PLACED else ()
                rows.append((*place, *values))
    texts = _records(index, words, sources, found)
    _purses(index, found)
    families = dict(every(db, "SELECT number, family FROM session"))
    for number, tables in found.items():
        (session,) = tables["session"]
        yield Harvest(
            SessionId(session[0]), families[number], tables, texts.get(number, [])
        )


def _records(
    index: Index,
    words: Listening,
    sources: Mapping[int, int],
    found: dict[int, dict[str, list[Row]]],
) -> dict[int, list[TextRow]]:
    texts: dict[int, list[TextRow]] = {}
    sql = "SELECT id, session, uuid, message, source, offset, length FROM record"
    for id_, number, *values in every(index.db, f"{sql} ORDER BY id"):
        if number not in found:
            continue
        rows = found[number]["record"]
        values[2] = sources[values[2]]
        for kind, text in words.said.get(id_, ()):
            texts.setdefault(number, []).append(TextRow(len(rows), kind, text))
        rows.append((len(rows), *values))
    return texts


def _purses(index: Index, found: dict[int, dict[str, list[Row]]]) -> None:
    places: dict[int, tuple[int, int]] = {}
    sql = "SELECT number, session, agent, agent_type, model, terms, entrypoint"
    for purse, number, *values in every(index.db, f"{sql} FROM purse ORDER BY number"):
        rows = found[number]["purse"]
        places[purse] = (number, len(rows))
        rows.append((len(rows), *values))
    for purse, *values in every(index.db, "SELECT * FROM spend ORDER BY rowid"):
        number, place = places[purse]
        found[number]["spend"].append((place, *values))
