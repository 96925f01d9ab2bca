"""Write the rows that are derived from sessions into ClickHouse."""

from __future__ import annotations

from collections.abc import Sequence

from bygones.store.compression import sha256_digest
from bygones.store.schema import TEAM_TABLES
from bygones.team.contract import DerivedSessions, SessionRows, allocate_numbers
from bygones.team.stores.clickhouse_connection import (
    DERIVED_TABLES,
    ClickHouseConnection,
)

_TEXT_COLUMNS = ("holder", "number", "text", "record", "kind", "length")
_POSTING_COLUMNS = (*_TEXT_COLUMNS, "term", "positions")
_MAX_DEAD_SESSIONS = 2_000
"""Replaced sessions after which their rows are deleted."""
_INSERT_BATCH = 200_000


def get_or_create_holder(
    db: ClickHouseConnection, person: str, teams: Sequence[str]
) -> int:
    """Return the number of a person with some teams; a hash, the same everywhere."""
    names = sorted(set(teams))
    key = "\0".join((person, *names))
    digest = sha256_digest(key.encode("utf-8", "surrogatepass"))
    holder = int.from_bytes(digest[:8], "big") >> 1
    sql = "SELECT 1 FROM holder WHERE holder = %(holder)s"
    if not db.rows(sql, {"holder": holder}):
        db.insert("holder", ("holder", "person", "teams"), [(holder, person, names)])
    return holder


def write_sessions(db: ClickHouseConnection, derived: DerivedSessions) -> None:
    """Replace what was derived from the same sources before.

    ClickHouse has no transactions. For a moment neither the old nor the new sessions
    are visible; that is better than seeing a session twice, or showing it to a person
    who may no longer see it. If this is interrupted, the sources stay pending.
    """
    rows = db.rows(
        "SELECT s.number, s.holder, d.derived_revision FROM"
        " (SELECT number, holder FROM source FINAL WHERE number IN %(numbers)s) AS s"
        " LEFT JOIN (SELECT * FROM derived_source FINAL) AS d ON d.number = s.number",
        {"numbers": list(derived.sources)},
    )
    if any(revision > derived.sources[number] for number, _, revision in rows):
        return  # another hub has derived a newer revision
    if len(rows) < len(derived.sources):
        return  # erased meanwhile: the rest is derived when more of it comes
    replaced = _replaced_sessions(db, derived)
    teams = dict(db.rows("SELECT holder, teams FROM holder FINAL", {}))
    teams_by_source = {number: set(teams[holder]) for number, holder, _ in rows}
    rows_by_table: dict[str, list[tuple[object, ...]]] = {t: [] for t in TEAM_TABLES}
    families: dict[int, int] = {}
    numbers = allocate_numbers(len(derived.sessions))
    for number, session in zip(numbers, derived.sessions, strict=True):
        names = session.common_teams(teams_by_source)
        holder = get_or_create_holder(db, derived.person, names)
        family = families.setdefault(session.family, number)
        for table, own_rows in session.rows.items():
            first = (holder, number, family) if table == "session" else (holder, number)
            rows_by_table[table] += [(*first, *row) for row in own_rows]
        _insert_texts(db, session, (holder, number))
    session_rows = rows_by_table.pop("session")
    for table, all_rows in rows_by_table.items():
        columns = [column.name for column in TEAM_TABLES[table].team_columns]
        db.insert(table, ("holder", "number", *columns), all_rows)
    mark_dead(db, replaced)
    columns = [column.name for column in TEAM_TABLES["session"].team_columns]
    db.insert("session", ("holder", "number", "family", *columns), session_rows)
    sources = list(derived.sources.items())
    db.insert("derived_source", ("number", "derived_revision"), sources)
    if replaced:
        ((dead,),) = db.rows("SELECT count(*) FROM dead", {})
        if dead > _MAX_DEAD_SESSIONS:
            delete_dead_rows(db)


def _replaced_sessions(db: ClickHouseConnection, derived: DerivedSessions) -> list[int]:
    rows = db.rows(
        "SELECT DISTINCT number FROM session_source WHERE source IN %(sources)s"
        " UNION DISTINCT SELECT number FROM session WHERE session IN %(sessions)s"
        " AND holder IN (SELECT holder FROM holder WHERE person = %(person)s)",
        {
            "sources": list(derived.sources),
            "sessions": [session.session for session in derived.sessions],
            "person": derived.person,
        },
    )
    return [row[0] for row in rows]


def _insert_texts(
    db: ClickHouseConnection, session: SessionRows, key: tuple[int, int]
) -> None:
    texts: list[tuple[object, ...]] = []
    postings: list[tuple[object, ...]] = []
    for index, text in enumerate(session.texts):
        terms = text.terms
        facts = (*key, index, text.record, text.kind, len(terms))
        texts.append(facts)
        positions: dict[str, list[int]] = {}
        for position, term in enumerate(terms):
            positions.setdefault(term, []).append(position)
        postings += [(*facts, term, own) for term, own in positions.items()]
        if len(postings) >= _INSERT_BATCH:
            db.insert("posting", _POSTING_COLUMNS, postings)
            postings = []
    db.insert("text", _TEXT_COLUMNS, texts)
    db.insert("posting", _POSTING_COLUMNS, postings)


def mark_dead(db: ClickHouseConnection, numbers: Sequence[int]) -> None:
    """Hide the rows of sessions from all readers."""
    db.insert("dead", ("number",), [(number,) for number in numbers])


def delete_dead_rows(db: ClickHouseConnection) -> None:
    """Delete the rows of all dead sessions, and wait until they are gone."""
    for table in DERIVED_TABLES:
        db.execute(
            f"ALTER TABLE {table} DELETE WHERE number IN (SELECT number FROM dead)"  # noqa: S608 (constants)
            " SETTINGS mutations_sync = 2, allow_nondeterministic_mutations = 1"
        )
    db.execute("TRUNCATE TABLE dead")
