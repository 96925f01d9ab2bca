"""Write derived rows into PostgreSQL, and search its text table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from operator import add

from bygones.ingest.derive import NotDivisible
from bygones.store.schema import TEAM_TABLES
from bygones.store.tantivy_engine import WordSessions
from bygones.store.word_forms import stem_terms
from bygones.team.contract import (
    AccessRole,
    AccessScope,
    DerivedSessions,
    OwnerAccess,
    PartRows,
    ScopedDatabase,
    SettledRows,
    allocate_numbers,
)
from bygones.team.stores.postgres_connection import (
    PostgresConnection,
    array_literal,
)
from bygones.team.text_engine import TEXT_SATURATION, TermFilter, words_of
from bygones.team.text_query import (
    MatchQuery,
    SessionPostings,
    SqlCondition,
    TextQuery,
    split_required_match,
    split_sessions,
)

_FLUSH_BYTES = 16 * 1024 * 1024
"""Bytes of vectors that are buffered before they are written."""
_MAX_TERMS = 500_000
"""Distinct terms of which the counts are held in memory."""


def get_or_create_owner(
    db: PostgresConnection, person: str, access: OwnerAccess
) -> int:
    """Return the number of a person with some teams and limited projects."""
    values = {
        "person": person,
        "teams": sorted(access.teams),
        "projects": sorted(access.projects),
    }
    sql = (
        "SELECT owner FROM owner WHERE person = %(person)s"
        " AND teams = %(teams)s::text[] AND projects = %(projects)s::text[]"
    )
    rows = db.rows(sql, values)
    if not rows:
        db.execute(
            "INSERT INTO owner (person, teams, projects)"
            " VALUES (%(person)s, %(teams)s, %(projects)s) ON CONFLICT DO NOTHING",
            values,
        )
        rows = db.rows(sql, values)
    return int(rows[0][0])


def load_access(
    db: PostgresConnection, owners: Collection[int]
) -> dict[int, OwnerAccess]:
    """Return with whom the rows of owners are shared."""
    rows = db.rows(
        "SELECT owner, teams, projects FROM owner WHERE owner = ANY(%(owners)s)",
        {"owners": list(owners)},
    )
    return {
        owner: OwnerAccess(frozenset(teams), frozenset(projects))
        for owner, teams, projects in rows
    }


def move_sources(
    db: PostgresConnection, person: str, access: OwnerAccess, numbers: Sequence[int]
) -> None:
    """Share sources with others than before."""
    values = {
        "owner": get_or_create_owner(db, person, access),
        "numbers": list(numbers),
    }
    for table in ("source", "span"):
        db.execute(
            f"UPDATE {table} SET owner = %(owner)s WHERE number = ANY(%(numbers)s)"  # noqa: S608 (constants)
            " AND owner <> %(owner)s",
            values,
        )


def write_sessions(
    db: PostgresConnection, derived: DerivedSessions, rules: Callable[[], Iterable[str]]
) -> None:
    """Replace what was derived from the same sources before.

    ``rules`` returns the names of projects that are limited.
    """
    with db.transaction():
        # This and erasures wait for each other: no row outlives its source.
        db.execute("LOCK TABLE source, session IN ROW EXCLUSIVE MODE")
        db.execute(
            "SELECT pg_advisory_xact_lock(hashtextextended(%(person)s, 7))",
            {"person": derived.person},
        )
        rows = db.rows(
            "SELECT number, derived_revision, owner FROM source"
            " WHERE number = ANY(%(numbers)s)",
            {"numbers": list(derived.sources)},
        )
        if any(revision > derived.sources[number] for number, revision, _ in rows):
            return  # another hub has derived a newer revision
        if len(rows) < len(derived.sources):
            return  # erased meanwhile: the rest is derived when more of it comes
        owners = {number: owner for number, _, owner in rows}
        _insert_sessions(db, derived, owners, list(rules()))
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
    db: PostgresConnection,
    derived: DerivedSessions,
    owners: Mapping[int, int],
    rules: Sequence[str],
) -> None:
    """Insert sessions, and delete those that they replace."""
    grown = {session.number for session in derived.sessions if session.settled}
    replaced = [n for n in _replaced_sessions(db, derived) if n not in grown]
    writer = _BatchWriter(db, _load_text_counts(db, replaced))
    _delete_rows(db, replaced)
    families: dict[int, int] = {}
    session_owners = _session_owners(db, derived, owners, rules)
    for session, owner in zip(derived.sessions, session_owners, strict=True):
        family = families.setdefault(session.family, session.number)
        for index, part in enumerate(session.parts):
            if index:
                writer.flush()  # the next part depends on rows of this one
            elif session.settled is not None:
                if owner != session.settled.owner:
                    raise NotDivisible
                writer.subtract(_delete_last_part(db, session.settled, part))
            writer.add((owner, session.number, family), part)
    writer.finish()


def _delete_last_part(
    db: PostgresConnection, settled: SettledRows, follower: PartRows
) -> dict[int, _TextCounts]:
    """Delete the rows that follow the settled ones; return the counts of its texts."""
    values = {
        "number": settled.number,
        "part": settled.parts[-1],
        "text": follower.first_text,
        "record": follower.first_record,
    }
    if not db.execute(
        "DELETE FROM session WHERE number = %(number)s AND part = %(part)s", values
    ):
        raise NotDivisible  # another hub has written it
    counts = _load_text_counts(db, [settled.number], follower.first_text)
    # Whole sessions are in the indexes of these two by the numbers of their rows.
    by_number = {"text": " AND text >= %(text)s", "record": " AND record >= %(record)s"}
    for table in (*TEAM_TABLES, "text", "session_word"):
        db.execute(
            f"DELETE FROM {table} WHERE number = %(number)s AND part = %(part)s"  # noqa: S608 (constants)
            f"{by_number.get(table, '')}",
            values,
        )
    return counts


class _BatchWriter:
    """Writes the rows of many sessions in batches, and counts their terms."""

    def __init__(
        self, db: PostgresConnection, old_counts: dict[int, _TextCounts]
    ) -> None:
        self._db = db
        self._old_counts = old_counts
        self._rows: dict[str, list[tuple[object, ...]]] = {t: [] for t in TEAM_TABLES}
        self._writers: dict[int, _TextWriter] = {}

    def subtract(self, counts: Mapping[int, _TextCounts]) -> None:
        """Remember what was deleted."""
        for owner, one in counts.items():
            own = self._old_counts.setdefault(owner, _TextCounts())
            own.texts += one.texts
            own.terms += one.terms
            own.texts_by_term.update(one.texts_by_term)

    def add(self, place: tuple[int, int, int], part: PartRows) -> None:
        """Add rows of an owner, a session and its family."""
        owner, number, family = place
        (part_number,) = allocate_numbers(1)
        key = (owner, number, part_number)
        for table, rows in part.rows.items():
            first = (*key, family) if table == "session" else key
            self._rows[table] += [(*first, *row) for row in rows]
        writer = self._writers.setdefault(owner, _TextWriter(self._db, owner))
        writer.add((number, part_number), part)

    def flush(self) -> None:
        for table, rows in self._rows.items():
            columns = ["owner", "number", "part"]
            columns += ["family"] if table == "session" else []
            columns += [column.name for column in TEAM_TABLES[table].team_columns]
            self._db.copy(table, columns, rows)
            self._rows[table] = []
        for writer in self._writers.values():
            writer.flush()
        if (
            sum(len(w.counts.texts_by_term) for w in self._writers.values())
            > _MAX_TERMS
        ):
            self._update_counts()

    def finish(self) -> None:
        self.flush()
        self._update_counts()

    def _update_counts(self) -> None:
        new_counts = {owner: writer.counts for owner, writer in self._writers.items()}
        _update_term_counts(self._db, self._old_counts, new_counts)
        self._old_counts, self._writers = {}, {}


def _replaced_sessions(db: PostgresConnection, derived: DerivedSessions) -> list[int]:
    rows = db.rows(
        "SELECT number FROM session_source WHERE source = ANY(%(sources)s) UNION"
        " SELECT number FROM session WHERE session = ANY(%(sessions)s) AND owner IN"
        " (SELECT owner FROM owner WHERE person = %(person)s)",
        {
            "sources": list(derived.sources),
            "sessions": [session.session for session in derived.sessions],
            "person": derived.person,
        },
    )
    return [row[0] for row in rows]


def _session_owners(
    db: PostgresConnection,
    derived: DerivedSessions,
    owners: Mapping[int, int],
    rules: Sequence[str],
) -> list[int]:
    """Return the owner of each session: the person, with teams that may see it all.

    A source whose client did not name its project follows its session.
    """
    access = load_access(db, set(owners.values()))
    by_source = {source: access[owner] for source, owner in owners.items()}
    known: dict[OwnerAccess, int] = {}
    found: list[int] = []
    for session in derived.sessions:
        own = session.access(by_source, rules)
        if own not in known:
            known[own] = get_or_create_owner(db, derived.person, own)
        found.append(known[own])
        for source in session.sources:
            before = by_source[source]
            if not own.projects <= before.projects:
                after = OwnerAccess(before.teams, before.projects | own.projects)
                by_source[source] = after
                move_sources(db, derived.person, after, [source])
    return found


def delete_sessions(db: PostgresConnection, numbers: Sequence[int]) -> int:
    """Delete all rows of sessions; return how many there were."""
    _update_term_counts(db, _load_text_counts(db, numbers), {})
    return _delete_rows(db, numbers)


def _delete_rows(db: PostgresConnection, numbers: Sequence[int]) -> int:
    values = {"numbers": list(numbers)}
    return sum(
        db.execute(f"DELETE FROM {table} WHERE number = ANY(%(numbers)s)", values)  # noqa: S608 (constants)
        for table in (*TEAM_TABLES, "text", "session_word")
    )


class _TextCounts:
    """The number of texts, of terms in them, and of texts per term."""

    def __init__(self) -> None:
        self.texts = self.terms = 0
        self.texts_by_term: Counter[str] = Counter()


class _TextWriter:
    """Writes the texts of an owner's sessions in batches, and counts their terms."""

    def __init__(self, db: PostgresConnection, owner: int) -> None:
        self._db = db
        self._owner = owner
        self._lines: list[str] = []
        self._word_lines: list[str] = []
        self._pending_bytes = 0
        self._word_by_term: dict[str, str] = {}
        self.counts = _TextCounts()

    def add(self, place: tuple[int, int], part: PartRows) -> None:
        """Add the texts of a part of a session."""
        number, part_number = place
        key = f"{self._owner}\t{number}\t{part_number}"
        texts_by_word: dict[tuple[str, int], tuple[list[int], list[int]]] = {}
        for index, text in enumerate(part.texts, part.first_text):
            terms = text.terms
            for piece, vector in enumerate(iter_vectors(terms)):
                # Numbers and terms contain nothing that COPY would have to escape.
                self._lines.append(
                    f"{key}\t{index}\t{piece}\t{text.record}"
                    f"\t{text.kind}\t{len(terms)}\t{vector}\n"
                )
                self._pending_bytes += len(vector)
            self.counts.texts += 1
            self.counts.terms += len(terms)
            distinct = set(terms)
            self.counts.texts_by_term.update(distinct)
            for word in self._words(distinct):
                records, lengths = texts_by_word.setdefault((word, text.kind), ([], []))
                records.append(text.record)
                lengths.append(len(terms))
            if self._pending_bytes > _FLUSH_BYTES:
                self.flush()
        self._word_lines += [
            f"{key}\t{word}\t{kind}\t{len(records)}"
            f"\t{_copy_array(records)}\t{_copy_array(lengths)}\n"
            for (word, kind), (records, lengths) in texts_by_word.items()
        ]

    def _words(self, terms: AbstractSet[str]) -> set[str]:
        """Return the words that terms are forms of."""
        known = self._word_by_term
        # The difference of a set and keys would read all keys.
        new = [term for term in terms if term not in known]
        known.update(zip(new, words_of(new), strict=True))
        return {known[term] for term in terms}

    def flush(self) -> None:
        self._db.copy_lines("text", _TEXT_COLUMNS, self._lines)
        self._db.copy_lines("session_word", _WORD_COLUMNS, self._word_lines)
        self._lines, self._word_lines, self._pending_bytes = [], [], 0


def _load_text_counts(
    db: PostgresConnection, numbers: Sequence[int], first_text: int = 0
) -> dict[int, _TextCounts]:
    """Count the stored texts and terms of sessions, by owner."""
    found: dict[int, _TextCounts] = {}
    if not numbers:
        return found
    values = {"numbers": list(numbers), "first": first_text}
    rows = db.rows(
        "SELECT owner, count(*), sum(length)::bigint FROM text WHERE number ="
        " ANY(%(numbers)s) AND text >= %(first)s AND piece = 0 GROUP BY owner",
        values,
    )
    for owner, texts, terms in rows:
        counts = found[owner] = _TextCounts()
        counts.texts, counts.terms = texts, terms
    rows = db.rows(
        "SELECT owner, lexeme, count(DISTINCT (number, text)) FROM text AS t"
        " CROSS JOIN LATERAL unnest(t.terms) WHERE number = ANY(%(numbers)s)"
        " AND text >= %(first)s GROUP BY owner, lexeme",
        values,
    )
    for owner, term, texts in rows:
        found[owner].texts_by_term[term] = texts
    return found


def _update_term_counts(
    db: PostgresConnection,
    old: Mapping[int, _TextCounts],
    new: Mapping[int, _TextCounts],
) -> None:
    """Subtract the counts of removed sessions, and add those of new ones."""
    changes: list[tuple[str, int, int]] = []
    for owner in sorted({*old, *new}):
        before = old.get(owner, _TextCounts())
        after = new.get(owner, _TextCounts())
        changes += [
            (term, owner, change)
            for term in before.texts_by_term.keys() | after.texts_by_term.keys()
            if (change := after.texts_by_term[term] - before.texts_by_term[term])
        ]
        db.execute(
            "INSERT INTO owner_stats AS s VALUES (%(owner)s, %(texts)s, %(terms)s, 1)"
            " ON CONFLICT (owner) DO UPDATE SET texts = s.texts + excluded.texts,"
            " terms = s.terms + excluded.terms, version = s.version + 1",
            {
                "owner": owner,
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
        f"{owner}\t{term}\t{stems[term] or _COPY_NULL}\t{change}\n"
        for term, owner, change in changes
    ]
    db.copy_lines("term_change", _TERM_COLUMNS, lines)
    db.execute(
        "INSERT INTO term AS t SELECT * FROM term_change"
        " ON CONFLICT (term, owner) DO UPDATE SET texts = t.texts + excluded.texts"
    )
    db.execute("DROP TABLE term_change")
    db.execute("DELETE FROM term WHERE texts <= 0")


def _copy_array(numbers: Sequence[int]) -> str:
    """Return an array in the text format of ``COPY``."""
    return "{" + ",".join(map(str, numbers)) + "}"


_COPY_NULL = "\\N"
_TERM_COLUMNS = ("owner", "term", "stem", "texts")
_WORD_COLUMNS = (
    "owner",
    "number",
    "part",
    "word",
    "kind",
    "texts",
    "records",
    "lengths",
)
_TEXT_COLUMNS = (
    "owner",
    "number",
    "part",
    "text",
    "piece",
    "record",
    "kind",
    "length",
    "terms",
)


PIECE_TERMS = 8_000
"""Terms per vector. PostgreSQL stores no position above 16,383, so the terms of longer
texts are split into several rows (pieces)."""
PIECE_OVERLAP = 32
"""Terms that two consecutive pieces share, so that short phrases are never split."""
_PIECE_STEP = PIECE_TERMS - PIECE_OVERLAP
_POSITIONS = [f":{position}" for position in range(1, PIECE_TERMS + 1)]
_LAST_CHARACTER = "\U0010ffff"


def iter_vectors(terms: Sequence[str]) -> Iterator[str]:
    """Yield the vectors of a text as literals, one per piece.

    Terms consist of letters and digits, so nothing needs to be escaped. PostgreSQL
    merges the positions of repeated terms.
    """
    start = 0
    while True:
        yield " ".join(map(add, terms[start : start + PIECE_TERMS], _POSITIONS))
        start += _PIECE_STEP
        if start + PIECE_OVERLAP >= len(terms):
            return


def format_tsquery(phrases: Sequence[Sequence[str]]) -> str:
    """Return the ``tsquery`` for texts that contain one of some phrases."""
    return " | ".join(
        "(" + " <-> ".join(f"'{term}'" for term in phrase) + ")" for phrase in phrases
    )


class PostgresTextSearch:
    """The :class:`TextSearchBackend` of PostgreSQL for one scope."""

    def __init__(self, database: ScopedDatabase, scope: AccessScope) -> None:
        self._database = database
        self._scope = scope
        self._totals = (0, 0)

    def refresh_scope(self) -> object:
        scope = self._scope
        rows = self._database.db.rows(
            "SELECT * FROM visible_owners(%(person)s, %(teams)s::text[], %(all)s)",
            {
                "person": scope.person,
                "teams": list(scope.teams) if scope.role is AccessRole.TEAM else [],
                "all": scope.role is AccessRole.AUDITOR,
            },
        )
        self._database.set_owners([row[0] for row in rows])
        self._totals = sum(row[1] for row in rows), sum(row[2] for row in rows)
        return rows

    def totals(self) -> tuple[int, int]:
        return self._totals

    def terms(self, wanted: TermFilter) -> list[tuple[str, int]]:
        conditions: list[str] = []
        if wanted.exact:
            conditions.append("term = ANY(%(exact)s)")
        if wanted.stems:
            conditions.append("stem = ANY(%(stems)s)")
        if wanted.prefix is not None:
            conditions.append("(term >= %(prefix)s AND term < %(end)s)")
        if wanted.substring is not None:
            conditions.append("strpos(term, %(substring)s) > 0")
        if not conditions:
            return []
        return self._database.rows(
            "SELECT term, sum(texts)::bigint FROM {term} AS t"  # noqa: S608 (constants)
            f" WHERE {' OR '.join(conditions)} GROUP BY term ORDER BY term",
            exact=list(wanted.exact),
            stems=list(wanted.stems),
            prefix=wanted.prefix,
            end=(wanted.prefix or "") + _LAST_CHARACTER,
            substring=wanted.substring,
        )

    def count_texts(
        self, queries: Sequence[TextQuery]
    ) -> list[tuple[int, int, int, int]]:
        condition = SqlCondition(self._database.db, _match_source_sql)
        statements: list[str] = []
        for index, query in enumerate(queries):
            match, rest = split_required_match(query)
            if match is None:
                source = "(SELECT * FROM {text} AS a WHERE piece = 0)"
            else:
                sessions, rest = split_sessions(rest)
                if match.word is not None and rest is None:
                    statements.append(
                        f"SELECT {index:d}, number, kind, texts::bigint"  # noqa: S608 (constants)
                        f" FROM {{session_word}} AS w WHERE word = {condition.bind(match.word)}"
                    )
                    if sessions is not None:
                        numbers = condition.bind(array_literal(sessions))
                        statements[-1] += f" AND number = ANY({numbers}::bigint[])"
                    continue
                arguments = f"{condition.bind(format_tsquery(match.phrases))}::tsquery"
                if sessions is not None:
                    arguments += (
                        f", {condition.bind(array_literal(sessions))}::bigint[]"
                    )
                if rest is None:
                    statements.append(
                        f"SELECT {index:d}, number, kind, texts"  # noqa: S608 (constants)
                        f" FROM count_matching({arguments})"
                    )
                    continue
                source = f"matching({arguments})"
            where = f" WHERE {condition.compile(rest)}" if rest is not None else ""
            statements.append(
                f"SELECT {index:d}, number, kind, count(*)"  # noqa: S608 (constants)
                f" FROM {source} AS t{where} GROUP BY number, kind"
            )
        return self._database.rows(" UNION ALL ".join(statements), **condition.values)

    def find_sessions(
        self,
        words: Sequence[str],
        total: int,
        limit: int,
        sessions: Sequence[int] | None,
    ) -> WordSessions:
        """Count the sessions that have words, and return the best by their texts."""
        among = "" if sessions is None else " AND number = ANY(%(sessions)s::bigint[])"
        rows = self._database.rows(
            "WITH found AS MATERIALIZED (SELECT number, at, sum(texts)::float8 AS texts"  # noqa: S608 (constants)
            " FROM {session_word} AS w JOIN unnest(%(words)s::text[]) WITH ORDINALITY"
            f" AS q (own, at) ON word = own{among} GROUP BY number, at),"
            # The weight of a word is computed once, not per session: it was half of
            # the time of a search.
            " counts AS MATERIALIZED (SELECT at, sessions, ln(1 + greatest("
            "%(total)s - sessions + 0.5, 0)::float8 / (sessions + 0.5)::float8)"
            " AS weight FROM (SELECT at, count(*) AS sessions FROM found GROUP BY at)"
            " AS c), scored AS (SELECT number, count(*) AS words, sum(texts / (texts +"
            f" {TEXT_SATURATION:d}) * weight) AS score FROM found JOIN counts"
            " USING (at) GROUP BY number)"
            " SELECT 0 AS what, at, sessions FROM counts UNION ALL"
            " SELECT 1, words, count(*) FROM scored GROUP BY words UNION ALL"
            " (SELECT 2, number, 0 FROM scored ORDER BY score DESC, number DESC"
            " LIMIT %(limit)s)",
            words=list(words),
            total=total,
            limit=limit,
            sessions=array_literal(sessions or ()),
        )
        counts = {at: count for what, at, count in rows if what == 0}
        by_size = {size: count for what, size, count in rows if what == 1}
        return WordSessions(
            [counts.get(at, 0) for at in range(1, len(words) + 1)],
            sum(by_size.values()),
            by_size.get(len(words), 0),
            [number for what, number, _ in rows if what == 2],  # noqa: PLR2004 (third part)
        )

    def match_words(
        self, words: Sequence[str], sessions: Sequence[int] | None, limit: int
    ) -> list[tuple[int, int, int, int, int]]:
        """Return session, record, kind, bits of words, and length of texts."""
        among = "" if sessions is None else " AND number = ANY(%(sessions)s::bigint[])"
        # One row: reading it takes a fraction of the time of thousands of rows.
        ((*columns,),) = self._database.rows(
            "SELECT array_agg(number)::text, array_agg(record)::text,"  # noqa: S608 (constants)
            " array_agg(kind)::text, array_agg(mask)::text, array_agg(length)::text"
            " FROM (SELECT number, record, kind, length,"
            " bit_or(1::bigint << (at - 1)::integer) AS mask"
            " FROM {session_word} AS w JOIN unnest(%(words)s::text[]) WITH ORDINALITY"
            f" AS q (own, at) ON word = own{among}"
            " CROSS JOIN LATERAL unnest(records, lengths) AS u (record, length)"
            " GROUP BY number, record, kind, length"
            " ORDER BY mask DESC, length, number, record, kind LIMIT %(limit)s) AS t",
            words=list(words),
            sessions=array_literal(sessions or ()),
            limit=limit,
        )
        if columns[0] is None:
            return []
        return list(zip(*map(_parse_array, columns), strict=True))

    def load_postings(
        self,
        sessions: Sequence[int],
        terms: Mapping[str, int],
        *,
        include_unmatched: bool,
    ) -> dict[int, SessionPostings]:
        found = {session: SessionPostings({}, {}) for session in sessions}
        if terms:
            rows = self._database.db.rows(
                "SELECT * FROM term_positions(%(terms)s::text[], %(query)s::tsquery,"
                " %(sessions)s::bigint[], %(frequency)s)",
                {
                    "frequency": sum(terms.values()),
                    "terms": list(terms),
                    "query": format_tsquery([(term,) for term in terms]),
                    "sessions": array_literal(sessions),
                },
            )
            for number, text, piece, *facts, term, positions in rows:
                postings = found[number]
                by_text = postings.positions.setdefault(term, {})
                offset = piece * _PIECE_STEP - 1
                # The first terms of a piece are the last ones of the piece before.
                overlap = PIECE_OVERLAP if piece else 0
                own = [offset + at for at in positions if at > overlap]
                if text in by_text:
                    by_text[text] = [*by_text[text], *own]
                elif own:
                    by_text[text] = own
                postings.text_facts[text] = (facts[0], facts[1], facts[2])
        if include_unmatched:
            rows = self._database.rows(
                "SELECT number, text, record, kind, length FROM {text} AS t"
                " WHERE number = ANY(%(sessions)s) AND piece = 0",
                sessions=list(sessions),
            )
            for number, text, record, kind, length in rows:
                found[number].text_facts[text] = (record, kind, length)
        return found


def _parse_array(literal: str) -> list[int]:
    return list(map(int, literal[1:-1].split(",")))


def _match_source_sql(query: MatchQuery, bind: Callable[[object], str]) -> str:
    return f"matching({bind(format_tsquery(query.phrases))}::tsquery)"
