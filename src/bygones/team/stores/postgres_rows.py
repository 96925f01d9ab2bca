"""Write the rows that are derived from sessions into PostgreSQL."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from bygones.store.schema import TEAM_TABLES
from bygones.store.text_index import stem_terms
from bygones.team.contract import DerivedSessions, SessionRows, allocate_numbers
from bygones.team.stores.postgres_connection import PostgresConnection
from bygones.team.stores.postgres_search import iter_vectors

_FLUSH_BYTES = 16 * 1024 * 1024
"""Bytes of vectors that are buffered before they are written."""


def get_or_create_holder(
    db: PostgresConnection, person: str, teams: Sequence[str]
) -> int:
    """Return the number of a person with some teams."""
    values = {"person": person, "teams": sorted(set(teams))}
    sql = "SELECT holder FROM holder WHERE person = %(person)s AND teams = %(teams)s"
    rows = db.rows(sql, values)
    if not rows:
        db.execute(
            "INSERT INTO holder (person, teams) VALUES (%(person)s, %(teams)s)"
            " ON CONFLICT DO NOTHING",
            values,
        )
        rows = db.rows(sql, values)
    return int(rows[0][0])


def write_sessions(db: PostgresConnection, derived: DerivedSessions) -> None:
    """Replace what was derived from the same sources before."""
    with db.transaction():
        # This and erasures wait for each other: no row outlives its source.
        db.execute("LOCK TABLE source, session IN ROW EXCLUSIVE MODE")
        db.execute(
            "SELECT pg_advisory_xact_lock(hashtextextended(%(person)s, 7))",
            {"person": derived.person},
        )
        rows = db.rows(
            "SELECT number, derived_revision, holder FROM source"
            " WHERE number = ANY(%(numbers)s)",
            {"numbers": list(derived.sources)},
        )
        if any(revision > derived.sources[number] for number, revision, _ in rows):
            return  # another hub has derived a newer revision
        if len(rows) < len(derived.sources):
            return  # erased meanwhile: the rest is derived when more of it comes
        holders = {number: holder for number, _, holder in rows}
        _insert_sessions(db, derived, holders)
        db.execute(
            "UPDATE source AS s SET derived_revision = n.revision"
            " FROM unnest(%(numbers)s::bigint[], %(revisions)s::bigint[])"
            " AS n (number, revision) WHERE s.number = n.number",
            {
                "numbers": list(derived.sources),
                "revisions": list(derived.sources.values()),
            },
        )


def _insert_sessions(
    db: PostgresConnection, derived: DerivedSessions, holders: Mapping[int, int]
) -> None:
    """Insert sessions, and delete those that they replace."""
    replaced = _replaced_sessions(db, derived)
    old_counts = _load_text_counts(db, replaced)
    _delete_rows(db, replaced)
    families: dict[int, int] = {}
    rows: dict[str, list[tuple[object, ...]]] = {table: [] for table in TEAM_TABLES}
    writers: dict[int, _TextWriter] = {}
    numbers = allocate_numbers(len(derived.sessions))
    session_holders = _session_holders(db, derived, holders)
    for number, holder, session in zip(
        numbers, session_holders, derived.sessions, strict=True
    ):
        family = families.setdefault(session.family, number)
        for table, own_rows in session.rows.items():
            first = (holder, number, family) if table == "session" else (holder, number)
            rows[table] += [(*first, *row) for row in own_rows]
        writers.setdefault(holder, _TextWriter(db, holder)).add(number, session)
    for table, all_rows in rows.items():
        columns = ["holder", "number", *(["family"] if table == "session" else [])]
        columns += [column.name for column in TEAM_TABLES[table].team_columns]
        db.copy(table, columns, all_rows)
    for writer in writers.values():
        writer.flush()
    new_counts = {holder: writer.counts for holder, writer in writers.items()}
    _update_term_counts(db, old_counts, new_counts)


def _replaced_sessions(db: PostgresConnection, derived: DerivedSessions) -> list[int]:
    rows = db.rows(
        "SELECT number FROM session_source WHERE source = ANY(%(sources)s) UNION"
        " SELECT number FROM session WHERE session = ANY(%(sessions)s) AND holder IN"
        " (SELECT holder FROM holder WHERE person = %(person)s)",
        {
            "sources": list(derived.sources),
            "sessions": [session.session for session in derived.sessions],
            "person": derived.person,
        },
    )
    return [row[0] for row in rows]


def _session_holders(
    db: PostgresConnection, derived: DerivedSessions, holders: Mapping[int, int]
) -> list[int]:
    """Return the holder of each session: the person, with teams that may see it all."""
    rows = db.rows(
        "SELECT holder, teams FROM holder WHERE holder = ANY(%(holders)s)",
        {"holders": list(set(holders.values()))},
    )
    teams = {holder: frozenset(names) for holder, names in rows}
    teams_by_source = {source: teams[holder] for source, holder in holders.items()}
    known: dict[tuple[str, ...], int] = {}
    found: list[int] = []
    for session in derived.sessions:
        names = session.common_teams(teams_by_source)
        if names not in known:
            known[names] = get_or_create_holder(db, derived.person, names)
        found.append(known[names])
    return found


def delete_sessions(db: PostgresConnection, numbers: Sequence[int]) -> int:
    """Delete all rows of sessions; return how many there were."""
    _update_term_counts(db, _load_text_counts(db, numbers), {})
    return _delete_rows(db, numbers)


def _delete_rows(db: PostgresConnection, numbers: Sequence[int]) -> int:
    values = {"numbers": list(numbers)}
    return sum(
        db.execute(f"DELETE FROM {table} WHERE number = ANY(%(numbers)s)", values)  # noqa: S608 (constants)
        for table in (*TEAM_TABLES, "text")
    )


class _TextCounts:
    """The number of texts, of terms in them, and of texts per term."""

    def __init__(self) -> None:
        self.texts = self.terms = 0
        self.texts_by_term: Counter[str] = Counter()


class _TextWriter:
    """Writes the texts of a holder's sessions in batches, and counts their terms."""

    def __init__(self, db: PostgresConnection, holder: int) -> None:
        self._db = db
        self._holder = holder
        self._lines: list[str] = []
        self._pending_bytes = 0
        self.counts = _TextCounts()

    def add(self, number: int, session: SessionRows) -> None:
        for index, text in enumerate(session.texts):
            terms = text.terms
            for piece, vector in enumerate(iter_vectors(terms)):
                # Numbers and terms contain nothing that COPY would have to escape.
                self._lines.append(
                    f"{self._holder}\t{number}\t{index}\t{piece}\t{text.record}"
                    f"\t{text.kind}\t{len(terms)}\t{vector}\n"
                )
                self._pending_bytes += len(vector)
            self.counts.texts += 1
            self.counts.terms += len(terms)
            self.counts.texts_by_term.update(set(terms))
            if self._pending_bytes > _FLUSH_BYTES:
                self.flush()

    def flush(self) -> None:
        self._db.copy_lines("text", _TEXT_COLUMNS, self._lines)
        self._lines, self._pending_bytes = [], 0


def _load_text_counts(
    db: PostgresConnection, numbers: Sequence[int]
) -> dict[int, _TextCounts]:
    """Count the stored texts and terms of sessions, by holder."""
    found: dict[int, _TextCounts] = {}
    if not numbers:
        return found
    values = {"numbers": list(numbers)}
    rows = db.rows(
        "SELECT holder, count(*), sum(length)::bigint FROM text"
        " WHERE number = ANY(%(numbers)s) AND piece = 0 GROUP BY holder",
        values,
    )
    for holder, texts, terms in rows:
        counts = found[holder] = _TextCounts()
        counts.texts, counts.terms = texts, terms
    rows = db.rows(
        "SELECT holder, lexeme, count(DISTINCT (number, text)) FROM text AS t"
        " CROSS JOIN LATERAL unnest(t.terms) WHERE number = ANY(%(numbers)s)"
        " GROUP BY holder, lexeme",
        values,
    )
    for holder, term, texts in rows:
        found[holder].texts_by_term[term] = texts
    return found


def _update_term_counts(
    db: PostgresConnection,
    old: Mapping[int, _TextCounts],
    new: Mapping[int, _TextCounts],
) -> None:
    """Subtract the counts of removed sessions, and add those of new ones."""
    changes: list[tuple[str, int, int]] = []
    for holder in sorted({*old, *new}):
        before = old.get(holder, _TextCounts())
        after = new.get(holder, _TextCounts())
        changes += [
            (term, holder, change)
            for term in before.texts_by_term.keys() | after.texts_by_term.keys()
            if (change := after.texts_by_term[term] - before.texts_by_term[term])
        ]
        db.execute(
            "INSERT INTO holder_stats AS s VALUES (%(holder)s, %(texts)s, %(terms)s, 1)"
            " ON CONFLICT (holder) DO UPDATE SET texts = s.texts + excluded.texts,"
            " terms = s.terms + excluded.terms, version = s.version + 1",
            {
                "holder": holder,
                "texts": after.texts - before.texts,
                "terms": after.terms - before.terms,
            },
        )
    # In the same order in every transaction, so that two cannot deadlock.
    changes.sort()
    terms = list(dict.fromkeys(term for term, _, _ in changes))
    stems = dict(zip(terms, stem_terms(terms), strict=True))
    db.execute(
        "CREATE TEMPORARY TABLE term_change (LIKE term INCLUDING DEFAULTS)"
        " ON COMMIT DROP"
    )
    lines = [
        f"{holder}\t{term}\t{stems[term] or _COPY_NULL}\t{change}\n"
        for term, holder, change in changes
    ]
    db.copy_lines("term_change", _TERM_COLUMNS, lines)
    db.execute(
        "INSERT INTO term AS t SELECT * FROM term_change"
        " ON CONFLICT (term, holder) DO UPDATE SET texts = t.texts + excluded.texts"
    )
    db.execute("DROP TABLE term_change")
    db.execute("DELETE FROM term WHERE texts <= 0")


_COPY_NULL = "\\N"
_TERM_COLUMNS = ("holder", "term", "stem", "texts")
_TEXT_COLUMNS = (
    "holder",
    "number",
    "text",
    "piece",
    "record",
    "kind",
    "length",
    "terms",
)
