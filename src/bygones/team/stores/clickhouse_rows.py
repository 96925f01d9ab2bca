"""Write derived rows into ClickHouse, and search its posting table."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from bygones.ingest.derive import NotDivisible
from bygones.store.compression import sha256_digest
from bygones.store.schema import TEAM_TABLES
from bygones.store.word_forms import form_prefix, stem_terms
from bygones.team.contract import (
    PROJECT_RULE_KIND,
    AccessScope,
    DerivedSessions,
    OwnerAccess,
    PartRows,
    ProjectRule,
    ScopedDatabase,
    SessionRows,
    allocate_numbers,
    decode_rule,
)
from bygones.team.stores.clickhouse_connection import (
    DERIVED_TABLES,
    IS_LIVE_SESSION,
    ClickHouseConnection,
)
from bygones.team.text_engine import TermFilter
from bygones.team.text_query import (
    MatchQuery,
    SessionPostings,
    SqlCondition,
    TermSequence,
    TextQuery,
    split_required_match,
)

_TEXT_COLUMNS = ("owner", "number", "part", "text", "record", "kind", "length")
_POSTING_COLUMNS = (*_TEXT_COLUMNS, "term", "positions")
_MAX_DEAD_SESSIONS = 2_000
"""Replaced sessions after which their rows are deleted."""
_INSERT_BATCH = 200_000


def get_or_create_owner(
    db: ClickHouseConnection, person: str, access: OwnerAccess
) -> int:
    """Return the number of a person with some teams and limited projects.

    It is a hash, the same everywhere.
    """
    names, projects = sorted(access.teams), sorted(access.projects)
    key = "\0".join((person, *names, *(f"project {one}" for one in projects)))
    digest = sha256_digest(key.encode("utf-8", "surrogatepass"))
    owner = int.from_bytes(digest[:8], "big") >> 1
    sql = "SELECT 1 FROM owner WHERE owner = %(owner)s"
    if not db.rows(sql, {"owner": owner}):
        columns = ("owner", "person", "teams", "projects")
        db.insert("owner", columns, [(owner, person, names, projects)])
    return owner


def load_access(
    db: ClickHouseConnection, sources: Collection[int]
) -> dict[int, OwnerAccess]:
    """Return with whom sources are shared."""
    if not sources:
        return {}
    rows = db.rows(
        "SELECT s.number, o.teams, o.projects FROM"
        " (SELECT number, owner FROM source FINAL WHERE number IN %(numbers)s) AS s"
        " JOIN (SELECT * FROM owner FINAL) AS o ON o.owner = s.owner",
        {"numbers": list(sources)},
    )
    return {
        number: OwnerAccess(frozenset(teams), frozenset(projects))
        for number, teams, projects in rows
    }


def move_source(
    db: ClickHouseConnection, person: str, access: OwnerAccess, number: int
) -> int:
    """Share a source with others than before; return its new revision."""
    (revision,) = allocate_numbers(1)
    values = {
        "owner": get_or_create_owner(db, person, access),
        "revision": revision,
        "number": number,
    }
    for table in ("source", "span"):
        db.execute(
            f"INSERT INTO {table} SELECT * REPLACE (toInt64(%(owner)s) AS owner,"  # noqa: S608 (constants)
            f" toInt64(%(revision)s) AS revision) FROM {table} FINAL"
            " WHERE number = %(number)s",
            values,
        )
    return revision


def write_sessions(
    db: ClickHouseConnection,
    derived: DerivedSessions,
    rules: Callable[[], Iterable[str]],
) -> None:
    """Replace what was derived from the same sources before.

    ``rules`` returns the names of projects that are limited.

    ClickHouse has no transactions. For a moment neither the old nor the new sessions
    are visible; that is better than seeing a session twice, or showing it to a person
    who may no longer see it. If this is interrupted, the sources stay pending.
    """
    rows = db.rows(
        "SELECT s.number, d.derived_revision FROM"
        " (SELECT number FROM source FINAL WHERE number IN %(numbers)s) AS s"
        " LEFT JOIN (SELECT * FROM derived_source FINAL) AS d ON d.number = s.number",
        {"numbers": list(derived.sources)},
    )
    if any(revision > derived.sources[number] for number, revision in rows):
        return  # another hub has derived a newer revision
    if len(rows) < len(derived.sources):
        return  # erased meanwhile: the rest is derived when more of it comes
    grown = {session.number for session in derived.sessions if session.settled}
    replaced = [n for n in _replaced_sessions(db, derived) if n not in grown]
    access = load_access(db, derived.sources)
    names = list(rules())
    revisions = dict(derived.sources)
    writer = _PartWriter(db)
    families: dict[int, int] = {}
    for session in derived.sessions:
        own = session.access(access, names)
        owner = get_or_create_owner(db, derived.person, own)
        for source in session.sources:
            before = access[source]
            if not own.projects <= before.projects:
                # A source whose client did not name its project follows its session.
                after = OwnerAccess(before.teams, before.projects | own.projects)
                access[source] = after
                moved = move_source(db, derived.person, after, source)
                revisions[source] = moved
        family = families.setdefault(session.family, session.number)
        writer.write((owner, session.number, family), session)
    mark_dead(db, [*replaced, *grown])
    writer.finish()
    sources = list(revisions.items())
    db.insert("derived_source", ("number", "derived_revision"), sources)
    if replaced or grown:
        ((dead,),) = db.rows("SELECT count(*) FROM dead", {})
        if dead > _MAX_DEAD_SESSIONS:
            delete_dead_rows(db)


class _PartWriter:
    """Writes the rows of sessions; those of the table ``session`` at the end.

    Until then nothing that was written is visible.
    """

    def __init__(self, db: ClickHouseConnection) -> None:
        self._db = db
        self._rows: dict[str, list[tuple[object, ...]]] = {t: [] for t in TEAM_TABLES}
        self._session_rows: list[tuple[object, ...]] = []

    def write(self, place: tuple[int, int, int], session: SessionRows) -> None:
        """Write the rows of an owner, a session and its family."""
        owner, number, family = place
        settled = session.settled
        if settled is not None and (
            owner != settled.owner or _live_part(self._db, number) != settled.parts[-1]
        ):
            raise NotDivisible
        parts = list(settled.parts[:-1]) if settled else []
        try:
            for index, part in enumerate(session.parts):
                if index:
                    self._flush()  # the next part depends on rows of this one
                parts += allocate_numbers(1)
                key = (owner, number, parts[-1])
                for table, rows in part.rows.items():
                    if table != "session":
                        self._rows[table] += [(*key, *row) for row in rows]
                self._session_rows += [
                    (*key, parts, family, *row) for row in part.rows.get("session", ())
                ]
                _insert_texts(self._db, part, key)
        except NotDivisible:
            if settled is None:
                delete_sessions(self._db, [number])
            raise

    def _flush(self) -> None:
        for table, rows in self._rows.items():
            columns = [column.name for column in TEAM_TABLES[table].team_columns]
            self._db.insert(table, ("owner", "number", "part", *columns), rows)
            self._rows[table] = []

    def finish(self) -> None:
        """Write the rest, and make everything visible."""
        self._flush()
        columns = [column.name for column in TEAM_TABLES["session"].team_columns]
        names = ("owner", "number", "part", "parts", "family", *columns)
        self._db.insert("session", names, self._session_rows)


def _live_part(db: ClickHouseConnection, number: int) -> int | None:
    rows = db.rows(
        f"SELECT part FROM session WHERE number = %(number)s AND {IS_LIVE_SESSION}",  # noqa: S608 (constants)
        {"number": number},
    )
    return rows[0][0] if len(rows) == 1 else None


def _replaced_sessions(db: ClickHouseConnection, derived: DerivedSessions) -> list[int]:
    rows = db.rows(
        "SELECT DISTINCT number FROM session_source WHERE source IN %(sources)s"
        " UNION DISTINCT SELECT number FROM session WHERE session IN %(sessions)s"
        " AND owner IN (SELECT owner FROM owner WHERE person = %(person)s)",
        {
            "sources": list(derived.sources),
            "sessions": [session.session for session in derived.sessions],
            "person": derived.person,
        },
    )
    return [row[0] for row in rows]


def _insert_texts(
    db: ClickHouseConnection, part: PartRows, key: tuple[int, int, int]
) -> None:
    texts: list[tuple[object, ...]] = []
    postings: list[tuple[object, ...]] = []
    for index, text in enumerate(part.texts, part.first_text):
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
    if numbers:
        db.execute(
            "INSERT INTO dead SELECT part FROM session WHERE number IN %(numbers)s"  # noqa: S608 (constants)
            f" AND {IS_LIVE_SESSION}",
            {"numbers": list(numbers)},
        )


def delete_dead_rows(db: ClickHouseConnection) -> None:
    """Delete the rows of all dead sessions, and wait until they are gone."""
    dead = [row[0] for row in db.rows("SELECT part FROM dead", {})]
    rows = db.rows(
        f"SELECT number, parts, {IS_LIVE_SESSION} FROM session WHERE number IN"  # noqa: S608 (constants)
        " (SELECT number FROM session WHERE part IN (SELECT part FROM dead))",
        {},
    )
    live = {number: set(parts) for number, parts, is_live in rows if is_live}
    # Also rows that a hub was about to write when it stopped.
    delete_sessions(db, {row[0] for row in rows} - live.keys())
    gone = {
        part
        for number, parts, is_live in rows
        if not is_live and number in live
        for part in parts
        if part not in live[number]
    }
    for table in DERIVED_TABLES:
        _delete_rows(db, table, "part", gone)
    # Others may have been marked meanwhile.
    _delete_rows(db, "dead", "part", dead)


def delete_sessions(db: ClickHouseConnection, numbers: Collection[int]) -> None:
    """Delete all rows of sessions, and wait until they are gone."""
    for table in DERIVED_TABLES:
        _delete_rows(db, table, "number", numbers)


def _delete_rows(
    db: ClickHouseConnection, table: str, column: str, values: Collection[int]
) -> None:
    if values:
        db.execute(
            f"ALTER TABLE {table} DELETE WHERE {column} IN %(values)s"
            " SETTINGS mutations_sync = 2",
            {"values": list(values)},
        )


_LAST_CHARACTER = "\U0010ffff"
_SELECT_TEXTS = "SELECT number, text, kind, record FROM {posting} AS p"


class ClickHouseTextSearch:
    """The :class:`TextSearchBackend` of ClickHouse for one scope."""

    def __init__(self, database: ScopedDatabase, scope: AccessScope) -> None:
        self._database = database
        self._scope = scope

    def refresh_scope(self) -> object:
        rows = self._database.db.rows(
            "SELECT owner, person, teams, projects FROM owner FINAL ORDER BY owner", {}
        )
        rules = self._load_rules() if any(row[3] for row in rows) else {}
        owners = [
            owner
            for owner, person, teams, projects in rows
            if self._scope.can_see(
                person, teams, [rules[one] for one in projects if one in rules]
            )
        ]
        self._database.set_owners(owners)
        # No number is used twice, so this changes whenever a session changes.
        sql = "SELECT count(*), groupBitXor(part) FROM {session} AS s"
        return owners, self._database.rows(sql)

    def _load_rules(self) -> dict[str, ProjectRule]:
        rows = self._database.db.rows(
            "SELECT key, value FROM note FINAL WHERE kind = %(kind)s"
            " AND is_deleted = 0",
            {"kind": PROJECT_RULE_KIND},
        )
        return {key: decode_rule(value) for key, value in rows}

    def totals(self) -> tuple[int, int]:
        row = self._database.first_row("SELECT count(*), sum(length) FROM {text} AS t")
        return (int(row[0]), int(row[1])) if row else (0, 0)

    def terms(self, wanted: TermFilter) -> list[tuple[str, int]]:
        values: dict[str, object] = {"exact": list(wanted.exact)}
        conditions = ["term IN %(exact)s"] if wanted.exact else []
        prefixes = [form_prefix(stem) for stem in wanted.stems]
        prefixes += [wanted.prefix] if wanted.prefix is not None else []
        for index, prefix in enumerate(prefixes):
            values |= {f"low{index}": prefix, f"high{index}": prefix + _LAST_CHARACTER}
            conditions.append(f"(term >= %(low{index})s AND term < %(high{index})s)")
        if wanted.substring is not None:
            values["substring"] = wanted.substring
            conditions.append("position(term, %(substring)s) > 0")
        if not conditions:
            return []
        rows = self._database.rows(
            "SELECT term, count(*) FROM {posting} AS p"  # noqa: S608 (constants)
            f" WHERE {' OR '.join(conditions)} GROUP BY term ORDER BY term",
            **values,
        )
        found = [(term, int(count)) for term, count in rows]
        return _filter_by_stem(found, wanted) if wanted.stems else found

    def match_term_texts(
        self, masks: Mapping[str, int], sessions: Sequence[int] | None, limit: int
    ) -> list[tuple[int, int, int, int, int]]:
        if not masks or (sessions is not None and not sessions):
            return []
        among = "" if sessions is None else " AND number IN %(sessions)s"
        bits = "transform(term, %(terms)s, %(masks)s, toInt64(0))"
        rows = self._database.rows(
            f"SELECT number, record, kind, groupBitOr({bits}) AS mask, length"  # noqa: S608 (constants)
            f" FROM {{posting}} AS p WHERE term IN %(terms)s{among}"
            " GROUP BY number, record, kind, length"
            " ORDER BY mask DESC, length, number, record, kind LIMIT %(limit)s",
            terms=list(masks),
            masks=list(masks.values()),
            sessions=list(sessions or ()),
            limit=limit,
        )
        return [(row[0], *map(int, row[1:])) for row in rows]

    def count_texts(
        self, queries: Sequence[TextQuery]
    ) -> list[tuple[int, int, int, int]]:
        condition = SqlCondition(self._database.db, _match_source_sql)
        statements: list[str] = []
        for index, query in enumerate(queries):
            match, rest = split_required_match(query)
            source = "{text}" if match is None else condition.match_source(match)
            where = f" WHERE {condition.compile(rest)}" if rest is not None else ""
            statements.append(
                f"SELECT {index:d}, number, kind, uniqExact(text)"  # noqa: S608 (constants)
                f" FROM {source} AS t{where} GROUP BY number, kind"
            )
        rows = self._database.rows(" UNION ALL ".join(statements), **condition.values)
        return [
            (int(index), number, int(kind), int(count))
            for index, number, kind, count in rows
        ]

    def load_postings(
        self,
        sessions: Sequence[int],
        terms: Mapping[str, int],
        *,
        include_unmatched: bool,
    ) -> dict[int, SessionPostings]:
        found = {session: SessionPostings({}, {}) for session in sessions}
        if terms:
            rows = self._database.rows(
                "SELECT number, text, record, kind, length, term, positions"
                " FROM {posting} AS p"
                " WHERE term IN %(terms)s AND number IN %(sessions)s",
                sessions=list(sessions),
                terms=list(terms),
            )
            for number, text, record, kind, length, term, positions in rows:
                found[number].text_facts[text] = (record, kind, length)
                found[number].positions.setdefault(term, {})[text] = positions
        if include_unmatched:
            rows = self._database.rows(
                "SELECT number, text, record, kind, length FROM {text} AS t"
                " WHERE number IN %(sessions)s",
                sessions=list(sessions),
            )
            for number, text, record, kind, length in rows:
                found[number].text_facts[text] = (record, kind, length)
        return found


def _filter_by_stem(
    found: Sequence[tuple[str, int]], wanted: TermFilter
) -> list[tuple[str, int]]:
    """Drop terms that start like a form of a stem, but have another one."""
    exact, stems = set(wanted.exact), set(wanted.stems)
    own_stems = stem_terms([term for term, _ in found])
    return [
        row
        for row, stem in zip(found, own_stems, strict=True)
        if stem in stems
        or row[0] in exact
        or (wanted.prefix is not None and row[0].startswith(wanted.prefix))
    ]


def _match_source_sql(query: MatchQuery, bind: Callable[[object], str]) -> str:
    single = [phrase[0] for phrase in query.phrases if len(phrase) == 1]
    parts = [f"{_SELECT_TEXTS} WHERE term IN {bind(single)}"] if single else []
    parts += [_phrase_sql(phrase, bind) for phrase in query.phrases if len(phrase) > 1]
    # A query without terms matches nothing.
    return f"({' UNION ALL '.join(parts) or f'{_SELECT_TEXTS} WHERE 0'})"


def _phrase_sql(phrase: TermSequence, bind: Callable[[object], str]) -> str:
    """Return the statement for texts in which terms follow one another."""
    positions = ", ".join(
        f"anyIf(positions, term = {bind(term)}) AS p{index}"
        for index, term in enumerate(phrase)
    )
    follows = " AND ".join(
        f"has(p{step}, start + {step})" for step in range(1, len(phrase))
    )
    return (
        "SELECT number, text, kind, record FROM (SELECT number, text,"  # noqa: S608 (constants)
        f" any(kind) AS kind, any(record) AS record, {positions} FROM {{posting}} AS p"
        f" WHERE term IN {bind(sorted(set(phrase)))} GROUP BY number, text)"
        f" WHERE arrayExists(start -> {follows}, p0)"
    )
