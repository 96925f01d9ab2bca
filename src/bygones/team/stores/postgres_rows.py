"""Write, erase and verify the rows of a team store on PostgreSQL."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from bygones.errors import SourceUpdateRejected
from bygones.model.base import SessionId
from bygones.store.encoding import to_milliseconds
from bygones.store.schema import TEAM_TABLES
from bygones.store.text_index import stem_terms
from bygones.team.contract import (
    DerivedSessions,
    ErasureReceipt,
    ErasureSelector,
    RemoteSource,
    SessionRows,
    SourceFragment,
    SourceUpdate,
    StoredSpan,
    TeamSource,
    UploadProgress,
    VerifyReport,
    allocate_numbers,
    select_new_spans,
    tombstone_hashes,
)
from bygones.team.stores.base import (
    fragment_from_row,
    progress_from_row,
    span_from_row,
    span_rows,
    team_source_from_row,
)
from bygones.team.stores.postgres_connection import PostgresConnection
from bygones.team.stores.postgres_search import iter_vectors

_FLUSH_BYTES = 16 * 1024 * 1024
"""Bytes of vectors that wait to be written; more would only take memory."""


def get_or_create_holder(
    db: PostgresConnection, person: str, teams: Sequence[str]
) -> int:
    """Return the number of a person with these teams, a new one where it has none."""
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
    """Put sessions in the place of what was derived of their sources before."""
    with db.transaction():
        # An erasure waits for this, or this for it: no row outlives its source.
        db.execute("LOCK TABLE source, session IN ROW EXCLUSIVE MODE")
        person = {"person": derived.person}
        db.execute(
            "SELECT pg_advisory_xact_lock(hashtextextended(%(person)s, 7))", person
        )
        rows = db.rows(
            "SELECT number, clean, holder FROM source WHERE number = ANY(%(numbers)s)",
            {"numbers": list(derived.sources)},
        )
        if any(clean > derived.sources[number] for number, clean, _ in rows):
            return  # somebody has derived something newer meanwhile
        gone = set(derived.sources) - {row[0] for row in rows}
        if gone:
            return  # erased meanwhile: what is left is derived when more of it comes
        _insert_sessions(
            db,
            derived,
            {row[0]: row[2] for row in rows},
            _replaced_sessions(db, derived),
        )
        db.execute(
            "UPDATE source AS s SET clean = n.revision"
            " FROM unnest(%(numbers)s::bigint[], %(revisions)s::bigint[])"
            " AS n (number, revision) WHERE s.number = n.number",
            {
                "numbers": list(derived.sources),
                "revisions": list(derived.sources.values()),
            },
        )


def _replaced_sessions(db: PostgresConnection, derived: DerivedSessions) -> list[int]:
    rows = db.rows(
        "SELECT number FROM session_source WHERE source = ANY(%(sources)s) UNION"
        " SELECT number FROM session WHERE session = ANY(%(sessions)s) AND holder IN"
        " (SELECT holder FROM holder WHERE person = %(person)s)",
        {
            "sources": list(derived.sources),
            "sessions": [one.session for one in derived.sessions],
            "person": derived.person,
        },
    )
    return [row[0] for row in rows]


def remove_sessions(db: PostgresConnection, numbers: Sequence[int]) -> int:
    """Remove every row of sessions; return how many there were."""
    if not numbers:
        return 0
    _update_term_counts(db, _load_text_counts(db, numbers), {})
    return _delete_rows(db, numbers)


def _delete_rows(db: PostgresConnection, numbers: Sequence[int]) -> int:
    chosen = {"numbers": list(numbers)}
    return sum(
        db.execute(f"DELETE FROM {table} WHERE number = ANY(%(numbers)s)", chosen)  # noqa: S608 (our names)
        for table in (*TEAM_TABLES, "text")
    )


def _insert_sessions(
    db: PostgresConnection,
    derived: DerivedSessions,
    holders: Mapping[int, int],
    old: Sequence[int],
) -> None:
    """Write sessions, and remove those in whose place they are."""
    numbers = allocate_numbers(len(derived.sessions))
    whose = _session_holders(db, derived, holders)
    families: dict[int, int] = {}
    rows: dict[str, list[tuple[object, ...]]] = {table: [] for table in TEAM_TABLES}
    words: dict[int, _TextWriter] = {}
    before = _load_text_counts(db, old)
    if old:
        _delete_rows(db, old)
    for number, holder, one in zip(numbers, whose, derived.sessions, strict=True):
        family = families.setdefault(one.family, number)
        for table, found in one.rows.items():
            first = (holder, number, family) if table == "session" else (holder, number)
            rows[table] += [(*first, *row) for row in found]
        words.setdefault(holder, _TextWriter(db, holder)).add(number, one)
    for table, found in rows.items():
        names = [column.name for column in TEAM_TABLES[table].team_columns]
        first_names = ["holder", "number", *(["family"] if table == "session" else [])]
        db.copy(table, [*first_names, *names], found)
    for texts in words.values():
        texts.flush()
    _update_term_counts(
        db, before, {holder: texts.counts for holder, texts in words.items()}
    )


def _session_holders(
    db: PostgresConnection, derived: DerivedSessions, holders: Mapping[int, int]
) -> list[int]:
    """Return whose each session is: the person's, with teams that may see all of it."""
    rows = db.rows(
        "SELECT holder, teams FROM holder WHERE holder = ANY(%(holders)s)",
        {"holders": list(set(holders.values()))},
    )
    teams = {holder: set(named) for holder, named in rows}
    known: dict[tuple[str, ...], int] = {}
    found: list[int] = []
    for one in derived.sessions:
        shared = [teams[holders[row[0]]] for row in one.rows["session_source"]]
        named = tuple(sorted(set.intersection(*shared))) if shared else ()
        if named not in known:
            known[named] = get_or_create_holder(db, derived.person, named)
        found.append(known[named])
    return found


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


_SELECT_SOURCE = (
    "SELECT s.person, h.teams, machine, home, path, kind, project, session, agent,"
    " mtime_ns, generation, upto, origin, revision, mark"
    " FROM source AS s JOIN holder AS h USING (holder)"
)


def put_update(db: PostgresConnection, update: SourceUpdate) -> UploadProgress:
    """Note spans, once each, and that the source is pending."""
    (told,) = put_updates(db, [update])
    if isinstance(told, SourceUpdateRejected):
        raise told
    return told


def put_updates(
    db: PostgresConnection, updates: Sequence[SourceUpdate]
) -> list[UploadProgress | SourceUpdateRejected]:
    """Put what came at once, a source at most once; the refused keep nothing back."""
    told: dict[int, UploadProgress | SourceUpdateRejected] = {}
    numbers = [batch.source.number for batch in updates]
    with db.transaction():
        # An erasure waits for this, or this for it: nothing slips past its tombstones.
        db.execute("LOCK TABLE source IN ROW EXCLUSIVE MODE")
        told |= _find_erased(db, [batch.source for batch in updates])
        some = {b.source.number: b for b in updates if b.source.number not in told}
        holders = _source_holders(db, [batch.source for batch in some.values()])
        _add_sources(db, [batch.source for batch in some.values()], holders)
        # In the order of their numbers, so that nobody waits for who waits for them.
        sql = (
            "SELECT number, generation, upto, mark, holder, mtime_ns FROM source"
            " WHERE number = ANY(%(numbers)s) ORDER BY number FOR UPDATE"
        )
        before = {row[0]: row[1:] for row in db.rows(sql, {"numbers": list(some)})}
        known = _load_spans(db, [number for number, row in before.items() if row[1]])
        notes: list[_SourceChange] = []
        for number, batch in some.items():
            try:
                new = _new_spans(batch, before[number], known.get(number, []))
            except SourceUpdateRejected as error:
                told[number] = error
                continue
            gone_on = _next_fragment(batch, before[number], new)
            notes.append(
                _SourceChange(batch, new, gone_on, holders[number], before[number])
            )
        _save_changes(db, notes)
        sql = f"{_SELECT_SOURCE} WHERE number = ANY(%(numbers)s)"
        for row in db.rows(sql, {"numbers": list(some.keys() - told.keys())}):
            ack = progress_from_row(row)
            told[ack.source.number] = ack
    return [told[number] for number in numbers]


def _find_erased(
    db: PostgresConnection, sources: Sequence[RemoteSource]
) -> dict[int, SourceUpdateRejected]:
    """Return what is to be said of those that were erased, by their numbers."""
    signs = {one.number: tombstone_hashes(one) for one in sources}
    sql = "SELECT sign FROM tombstone WHERE sign = ANY(%(signs)s)"
    every = [sign for own in signs.values() for sign in own]
    there = {bytes(row[0]) for row in db.rows(sql, {"signs": every})}
    return {
        one.number: SourceUpdateRejected(one.id, "it was erased")
        for one in sources
        if there.intersection(signs[one.number])
    }


def _source_holders(
    db: PostgresConnection, sources: Sequence[RemoteSource]
) -> dict[int, int]:
    """Return whose sources are, by their numbers."""
    known = {
        whose: get_or_create_holder(db, *whose)
        for whose in set(map(_holder_key, sources))
    }
    return {one.number: known[_holder_key(one)] for one in sources}


def _holder_key(sent: RemoteSource) -> tuple[str, tuple[str, ...]]:
    return sent.person, sent.teams


def _new_spans(
    update: SourceUpdate, before: Sequence[Any], known: Sequence[StoredSpan]
) -> list[StoredSpan]:
    """Return what is new in a batch; raise if it does not fit what there was."""
    name = update.source.id
    generation, upto = before[:2]
    if update.generation < generation:
        raise SourceUpdateRejected(name, "a newer generation is there")
    if update.generation > generation:
        known, upto = [], 0
    return select_new_spans(name, update.spans, known, upto)


def _add_sources(
    db: PostgresConnection, sources: Sequence[RemoteSource], holders: Mapping[int, int]
) -> None:
    numbers = [one.number for one in sources]
    sql = "SELECT number FROM source WHERE number = ANY(%(numbers)s)"
    there = {row[0] for row in db.rows(sql, {"numbers": numbers})}
    for one in sorted(sources, key=lambda one: one.number):
        if one.number not in there:
            _add_source(db, one, holders[one.number])


def _add_source(db: PostgresConnection, sent: RemoteSource, holder: int) -> None:
    db.execute(
        "INSERT INTO source (number, holder, person, machine, home, path, id, kind,"
        " project, session, agent, mtime_ns) VALUES (%(number)s, %(holder)s,"
        " %(person)s, %(machine)s, %(home)s, %(path)s, %(id)s, %(kind)s, %(project)s,"
        " %(session)s, %(agent)s, %(mtime_ns)s) ON CONFLICT (number) DO NOTHING",
        {
            "number": sent.number,
            "holder": holder,
            "person": sent.person,
            "machine": sent.machine,
            "home": sent.home,
            "path": sent.path,
            "id": sent.id,
            "kind": sent.kind.value,
            "project": sent.project,
            "session": sent.session,
            "agent": sent.agent,
            "mtime_ns": sent.mtime_ns,
        },
    )


class _SourceChange(NamedTuple):
    """What is to be noted of a source."""

    update: SourceUpdate
    new_spans: Sequence[StoredSpan]
    fragment: SourceFragment | None
    """What stands behind all that from now on; ``None`` for what stood there."""
    holder: int
    previous: Sequence[Any]
    """Generation, up to where it was there, mark, holder and time as they were."""

    @property
    def needs_deriving(self) -> bool:
        """Whether it must be derived."""
        same = (self.holder, self.update.source.mtime_ns)
        is_other = (
            self.fragment is not None and self.fragment.fingerprint != self.previous[2]
        )
        return bool(self.new_spans) or is_other or tuple(self.previous[3:]) != same


def _next_fragment(
    update: SourceUpdate, before: Sequence[Any], new: Sequence[StoredSpan]
) -> SourceFragment | None:
    """Return the unfinished line that a source has now, where that is another one."""
    is_anew = update.generation > before[0]
    upto = new[-1].offset + new[-1].length if new else 0 if is_anew else before[1]
    if update.fragment is not None and update.fragment.offset == upto:
        return update.fragment
    return SourceFragment(offset=upto, fingerprint=b"") if new or is_anew else None


def _save_changes(db: PostgresConnection, changes: Sequence[_SourceChange]) -> None:
    """Write down spans, and up to where sources are there now."""
    columns = ("number", "holder", "generation", "start", "stop", "origin")
    rows = [
        row
        for one in changes
        for row in span_rows(one.update, one.new_spans, one.holder)
    ]
    db.copy("span", (*columns, "sha256", "address"), rows)
    last = [one.new_spans[-1] if one.new_spans else None for one in changes]
    values = {
        "number": [one.update.source.number for one in changes],
        "holder": [one.holder for one in changes],
        "mtime_ns": [one.update.source.mtime_ns for one in changes],
        "generation": [one.update.generation for one in changes],
        "more": [int(one.needs_deriving) for one in changes],
        "upto": [one.offset + one.length if one else None for one in last],
        "origin": [one.client_offset if one else None for one in last],
        "mark": [one.fragment.fingerprint if one.fragment else None for one in changes],
        "frame": [one.fragment.frame if one.fragment else None for one in changes],
    }
    # What came at once waits in the order in which it was sent.
    db.execute(
        "UPDATE source AS s SET holder = n.holder, mtime_ns = n.mtime_ns,"
        " generation = n.generation, revision = revision + n.more,"
        " waits = CASE WHEN n.more = 0 OR clean < revision THEN waits"
        " ELSE now() + n.at * interval '1 microsecond' END,"
        " upto = coalesce(n.upto, s.upto), origin = coalesce(n.origin, s.origin),"
        " mark = coalesce(n.mark, s.mark), fragment = coalesce(n.frame, s.fragment)"
        " FROM unnest(%(number)s::bigint[], %(holder)s::integer[],"
        " %(mtime_ns)s::bigint[], %(generation)s::integer[], %(more)s::integer[],"
        " %(upto)s::bigint[], %(origin)s::bigint[], %(mark)s::bytea[],"
        " %(frame)s::bytea[]) WITH ORDINALITY AS n"
        " (number, holder, mtime_ns, generation, more, upto, origin, mark, frame, at)"
        " WHERE s.number = n.number",
        values,
    )
    moved = [one for one in changes if one.previous[3] != one.holder]
    for one in moved:
        db.execute(
            "UPDATE span SET holder = %(holder)s WHERE number = %(number)s"
            " AND holder <> %(holder)s",
            {"holder": one.holder, "number": one.update.source.number},
        )


def upload_progress(
    db: PostgresConnection,
    person: str,
    machine: str,
    among: Sequence[int] | None = None,
) -> list[UploadProgress]:
    """Return up to where sources of a machine are there: all, or some."""
    sql = f"{_SELECT_SOURCE} WHERE s.person = %(person)s AND machine = %(machine)s"
    sql += " AND number = ANY(%(numbers)s)" if among is not None else ""
    values = {"person": person, "machine": machine, "numbers": list(among or ())}
    return [progress_from_row(row) for row in db.rows(f"{sql} ORDER BY path", values)]


def list_sources(db: PostgresConnection, person: str) -> list[TeamSource]:
    """Return all sources of a person."""
    sql = f"{_SELECT_SOURCE} WHERE s.person = %(person)s ORDER BY machine, home, path"
    return [team_source_from_row(row) for row in db.rows(sql, {"person": person})]


def fragments(
    db: PostgresConnection, sources: Sequence[int]
) -> dict[int, SourceFragment]:
    """Return the unfinished last lines of those sources that have one."""
    rows = db.rows(
        "SELECT number, upto, mark, fragment FROM source"
        " WHERE number = ANY(%(numbers)s) AND mark <> ''",
        {"numbers": list(sources)},
    )
    return {number: fragment_from_row(row) for number, *row in rows}


def spans(db: PostgresConnection, source: int) -> list[StoredSpan]:
    """Return the spans of a source's newest generation, in order."""
    return _load_spans(db, [source]).get(source, [])


def _load_spans(
    db: PostgresConnection, sources: Sequence[int]
) -> dict[int, list[StoredSpan]]:
    """Return the spans of sources' newest generations, in order."""
    found: dict[int, list[StoredSpan]] = {}
    rows = db.rows(
        "SELECT number, start, stop, p.origin, sha256, address FROM span AS p"
        " JOIN source AS s USING (number, generation) WHERE number = ANY(%(numbers)s)"
        " ORDER BY number, start",
        {"numbers": list(sources)},
    )
    for number, *row in rows:
        found.setdefault(number, []).append(span_from_row(row))
    return found


def erase_sessions(
    db: PostgresConnection,
    selector: ErasureSelector,
    holds: Sequence[ErasureSelector],
    now: datetime,
) -> ErasureReceipt:
    """Refuse what fits from now on, then remove every row of it."""
    with db.transaction():
        db.execute("LOCK TABLE source, session IN SHARE ROW EXCLUSIVE MODE")
        chosen = matching_sessions(db, selector)
        kept: set[int] = set()
        sources: set[int] = set()
        for one in holds:
            own = set(matching_sessions(db, one))
            kept |= own
            sources |= _sources_to_erase(db, one, list(own))
        gone = {n: s for n, s in chosen.items() if n not in kept}
        sources = _sources_to_erase(db, selector, list(gone)) - sources
        _insert_tombstones(db, sources, now)
        addresses = _blob_addresses(db, sources)
        rows = remove_sessions(db, list(gone))
        for table in ("span", "source"):
            sql = f"DELETE FROM {table} WHERE number = ANY(%(numbers)s)"  # noqa: S608 (our names)
            rows += db.execute(sql, {"numbers": list(sources)})
        sql = (
            "INSERT INTO stray SELECT a FROM unnest(%(addresses)s::text[]) AS a"
            " WHERE NOT EXISTS (SELECT 1 FROM span WHERE address = a)"
            " ON CONFLICT DO NOTHING RETURNING address"
        )
        stray = db.rows(sql, {"addresses": addresses})
    return ErasureReceipt(
        selector=selector,
        sessions=tuple(sorted(gone.values())),
        sources=len(sources),
        rows=rows,
        blob_addresses=tuple(sorted(row[0] for row in stray)),
        held_sessions=tuple(sorted(s for n, s in chosen.items() if n in kept)),
    )


def matching_sessions(
    db: PostgresConnection, selector: ErasureSelector
) -> dict[int, SessionId]:
    """Return the sessions that fit, by their numbers."""
    limits, values = ["true"], dict[str, Any]()
    if selector.person is not None:
        limits.append("h.person = %(person)s")
        values["person"] = selector.person
    if selector.session is not None:
        limits.append("s.session = %(session)s")
        values["session"] = selector.session
    if selector.project is not None:
        limits.append(
            "(s.project = %(project)s OR s.project LIKE %(below)s OR EXISTS (SELECT 1"
            " FROM session_source AS b JOIN source AS f ON f.number = b.source"
            " WHERE b.number = s.number AND f.project = %(project)s))"
        )
        values["project"] = selector.project
        values["below"] = _escape_like(selector.project.rstrip("/")) + "/%"
    if selector.before is not None:
        limits.append("s.ended_ms < %(before)s")
        values["before"] = to_milliseconds(selector.before)
    rows = db.rows(
        "SELECT s.number, s.session FROM session AS s JOIN holder AS h USING (holder)"  # noqa: S608 (our names)
        f" WHERE {' AND '.join(limits)}",
        values,
    )
    return {number: SessionId(session) for number, session in rows}


def _escape_like(path: str) -> str:
    return path.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def _sources_of_sessions(db: PostgresConnection, numbers: Sequence[int]) -> set[int]:
    """Return all sources of sessions, also what lies beside their transcripts."""
    rows = db.rows(
        "WITH own AS (SELECT f.* FROM source AS f JOIN session_source AS b"
        " ON b.source = f.number WHERE b.number = ANY(%(numbers)s))"
        " SELECT f.number FROM source AS f JOIN own AS o USING (person, machine, home)"
        " WHERE f.number = o.number OR f.session = o.session OR f.path LIKE"
        " replace(replace(regexp_replace(o.path, '\\.jsonl$', ''), '_', '\\_'), '%%',"
        " '\\%%') || '/%%'",
        {"numbers": list(numbers)},
    )
    return {row[0] for row in rows}


def _sources_to_erase(
    db: PostgresConnection, selector: ErasureSelector, numbers: Sequence[int]
) -> set[int]:
    """Return the sources of sessions, and those that are of no session but fit."""
    found = _sources_of_sessions(db, numbers)
    is_whole = selector.person is not None and selector == ErasureSelector(
        person=selector.person
    )
    if is_whole and selector.person is not None:
        found |= {one.number for one in list_sources(db, selector.person)}
    if selector.session is not None:
        # It may have come and not be derived yet.
        sql = "SELECT number FROM source WHERE session = %(session)s"
        values = {"session": selector.session, "person": selector.person}
        sql += " AND person = %(person)s" if selector.person is not None else ""
        found |= {row[0] for row in db.rows(sql, values)}
    return found


def _insert_tombstones(
    db: PostgresConnection, sources: set[int], now: datetime
) -> None:
    rows = db.rows(
        "SELECT DISTINCT person FROM source WHERE number = ANY(%(numbers)s)",
        {"numbers": list(sources)},
    )
    signs = {
        sign
        for (person,) in rows
        for one in list_sources(db, person)
        if one.number in sources
        for sign in tombstone_hashes(one.source)
    }
    db.execute(
        "INSERT INTO tombstone SELECT sign, %(now)s FROM unnest(%(signs)s::bytea[])"
        " AS sign ON CONFLICT DO NOTHING",
        {"signs": list(signs), "now": now},
    )


def _blob_addresses(db: PostgresConnection, sources: set[int]) -> list[str]:
    sql = "SELECT DISTINCT address FROM span WHERE number = ANY(%(numbers)s)"
    return [row[0] for row in db.rows(sql, {"numbers": list(sources)})]


def verify_rows(db: PostgresConnection) -> VerifyReport:
    """Look whether spans are without gaps, and rows belong to something."""
    faults = [
        f"source {row[0]} has a gap before byte {row[1]}"
        for row in db.rows(
            "SELECT number, start FROM (SELECT number, start, lag(stop, 1, 0::bigint)"
            " OVER (PARTITION BY number, generation ORDER BY start) AS before"
            " FROM span) AS spans WHERE start <> before",
            {},
        )
    ]
    faults += [
        f"session {row[0]} is of no source"
        for row in db.rows(
            "SELECT session FROM session AS s WHERE NOT EXISTS (SELECT 1 FROM session_source"
            " AS b JOIN source AS f ON f.number = b.source WHERE b.number = s.number)",
            {},
        )
    ]
    (counts,) = db.rows(
        "SELECT (SELECT count(*) FROM source), (SELECT count(*) FROM session),"
        " (SELECT count(*) FROM text WHERE piece = 0)",
        {},
    )
    return VerifyReport(
        sources=counts[0], sessions=counts[1], texts=counts[2], faults=tuple(faults)
    )
