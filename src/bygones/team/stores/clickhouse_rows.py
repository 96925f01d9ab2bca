"""Write, erase and verify the rows of a team store on ClickHouse."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from bygones.errors import SourceUpdateRejected
from bygones.model.base import SessionId
from bygones.store.compression import sha256_digest
from bygones.store.derived_tables import decode_summary
from bygones.store.encoding import to_milliseconds
from bygones.store.schema import SESSION, TEAM_TABLES
from bygones.team.contract import (
    DerivedSessions,
    ErasureReceipt,
    ErasureSelector,
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
from bygones.team.stores.clickhouse_connection import (
    DERIVED_TABLES,
    ClickHouseConnection,
)

_SOURCE_COLUMNS = (
    "number",
    "holder",
    "person",
    "machine",
    "home",
    "path",
    "id",
    "kind",
    "project",
    "session",
    "agent",
    "mtime_ns",
    "generation",
    "upto",
    "origin",
    "revision",
    "mark",
    "fragment",
)
_SPAN_COLUMNS = ("number", "holder", "generation", "start", "stop", "origin", "sha256")
_SELECT_SOURCE = (
    "SELECT s.person, h.teams, s.machine, s.home, s.path, s.kind, s.project,"
    " s.session, s.agent, s.mtime_ns, s.generation, s.upto, s.origin, s.revision,"
    " s.mark FROM (SELECT * FROM source FINAL WHERE {where}) AS s"
    " JOIN (SELECT * FROM holder FINAL) AS h ON h.holder = s.holder"
    " ORDER BY s.machine, s.home, s.path"
)


def get_or_create_holder(
    db: ClickHouseConnection, person: str, teams: Sequence[str]
) -> int:
    """Return the number of a person with these teams, the same wherever it is made."""
    named = sorted(set(teams))
    told = "\0".join((person, *named))
    sign = sha256_digest(told.encode("utf-8", "surrogatepass"))
    holder = int.from_bytes(sign[:8], "big") >> 1
    sql = "SELECT 1 FROM holder WHERE holder = %(holder)s"
    if not db.rows(sql, {"holder": holder}):
        db.insert("holder", ("holder", "person", "teams"), [(holder, person, named)])
    return holder


def put_update(db: ClickHouseConnection, update: SourceUpdate) -> UploadProgress:
    """Note spans, once each, and that the source is pending.

    Spans come first: how far a source is there is read from them, so that a source
    whose row was not written any more gets it with the next batch.
    """
    sent = update.source
    erased = "SELECT 1 FROM tombstone WHERE hex(sign) IN %(signs)s"
    signs = [sign.hex().upper() for sign in tombstone_hashes(sent)]
    if db.rows(erased, {"signs": signs}):
        raise SourceUpdateRejected(sent.id, "it was erased")
    before = _select_sources(db, "number = %(number)s", {"number": sent.number})
    generation = before[0][10] if before else 0
    if update.generation < generation:
        raise SourceUpdateRejected(sent.id, "a newer generation is there")
    known = spans(db, sent.number, update.generation)
    upto = known[-1].offset + known[-1].length if known else 0
    new = select_new_spans(sent.id, update.spans, known, upto)
    holder = get_or_create_holder(db, sent.person, sent.teams)
    (revision,) = allocate_numbers(1)
    _add_spans(db, update, new, (holder, revision))
    there = [*known, *new]
    upto = there[-1].offset + there[-1].length if there else 0
    behind = _next_fragment(db, update, before, upto)
    ack = UploadProgress(
        source=sent,
        generation=update.generation,
        stored_bytes=upto,
        client_offset=there[-1].client_offset if there else 0,
        fingerprint=behind.fingerprint,
    )
    if not before or progress_from_row(before[0]) != ack:
        row = (*_source_row(ack, holder, revision), behind.fingerprint, behind.frame)
        db.insert("source", _SOURCE_COLUMNS, [row])
        if before and set(before[0][1]) != set(sent.teams):
            _add_spans(db, update, known, (holder, revision))
    return ack


def _next_fragment(
    db: ClickHouseConnection,
    update: SourceUpdate,
    previous: Sequence[Any],
    stored_bytes: int,
) -> SourceFragment:
    """Return the unfinished line that a source has now, if it has one still."""
    if update.fragment is not None and update.fragment.offset == stored_bytes:
        return update.fragment
    number = update.source.number
    if previous and (previous[0][10], previous[0][11]) == (
        update.generation,
        stored_bytes,
    ):
        return fragments(db, [number]).get(number) or SourceFragment(
            offset=stored_bytes, fingerprint=b""
        )
    return SourceFragment(offset=stored_bytes, fingerprint=b"")


def fragments(
    db: ClickHouseConnection, sources: Sequence[int]
) -> dict[int, SourceFragment]:
    """Return the unfinished last lines of those sources that have one."""
    rows = db.rows(
        "SELECT number, upto, mark, fragment FROM source FINAL"
        " WHERE number IN %(numbers)s AND mark <> ''",
        {"numbers": list(sources)},
    )
    return {number: fragment_from_row(row) for number, *row in rows}


def _source_row(
    progress: UploadProgress, holder: int, revision: int
) -> tuple[object, ...]:
    sent = progress.source
    return (
        sent.number,
        holder,
        sent.person,
        sent.machine,
        sent.home,
        sent.path,
        sent.id,
        sent.kind.value,
        sent.project,
        sent.session,
        sent.agent,
        sent.mtime_ns,
        progress.generation,
        progress.stored_bytes,
        progress.client_offset,
        revision,
    )


def _add_spans(
    db: ClickHouseConnection,
    update: SourceUpdate,
    some: Sequence[StoredSpan],
    whose: tuple[int, int],
) -> None:
    holder, revision = whose
    rows = span_rows(update, some, holder, revision)
    db.insert("span", (*_SPAN_COLUMNS, "address", "revision"), rows)


def upload_progress(
    db: ClickHouseConnection,
    person: str,
    machine: str,
    among: Sequence[int] | None = None,
) -> list[UploadProgress]:
    """Return up to where sources of a machine are there: all, or some."""
    if among is not None and not among:
        return []
    where = "person = %(person)s AND machine = %(machine)s"
    where += " AND number IN %(numbers)s" if among is not None else ""
    values = {"person": person, "machine": machine, "numbers": list(among or ())}
    rows = _select_sources(db, where, values)
    return [progress_from_row(row) for row in rows]


def list_sources(db: ClickHouseConnection, person: str) -> list[TeamSource]:
    """Return all sources of a person."""
    return [
        team_source_from_row(row)
        for row in _select_sources(db, "person = %(person)s", {"person": person})
    ]


def spans(
    db: ClickHouseConnection, source: int, generation: int | None = None
) -> list[StoredSpan]:
    """Return the spans of a source's newest generation, in order, up to a gap."""
    newest = "(SELECT max(generation) FROM source FINAL WHERE number = %(number)s)"
    chosen = newest if generation is None else "%(generation)s"
    rows = db.rows(
        "SELECT start, stop, origin, sha256, address FROM span FINAL"  # noqa: S608 (our names)
        f" WHERE number = %(number)s AND generation = {chosen} ORDER BY start",
        {"number": source, "generation": generation},
    )
    found: list[StoredSpan] = []
    for span in map(span_from_row, rows):
        if span.offset != (found[-1].offset + found[-1].length if found else 0):
            break
        found.append(span)
    return found


def _select_sources(
    db: ClickHouseConnection, where: str, values: dict[str, Any]
) -> list[Any]:
    return db.rows(_SELECT_SOURCE.replace("{where}", where), values)


_TEXT_COLUMNS = ("holder", "number", "text", "record", "kind", "length")
_POSTING_COLUMNS = (
    "holder",
    "number",
    "text",
    "record",
    "kind",
    "length",
    "term",
    "places",
)
_MAX_DEAD_SESSIONS = 2_000
"""Numbers that may be dead before their rows are removed."""
_INSERT_BATCH = 200_000


def write_sessions(db: ClickHouseConnection, derived: DerivedSessions) -> None:
    """Put sessions in the place of what was derived of their sources before.

    For a moment there is neither: a session that is seen twice, or by who may no
    longer see it, would be worse. Whoever is stopped here leaves the sources touched.
    """
    rows = db.rows(
        "SELECT s.number, s.holder, c.clean FROM"
        " (SELECT number, holder FROM source FINAL WHERE number IN %(numbers)s) AS s"
        " LEFT JOIN (SELECT * FROM cleaned FINAL) AS c ON c.number = s.number",
        {"numbers": list(derived.sources)},
    )
    holders = {number: holder for number, holder, _ in rows}
    if any(clean > derived.sources[number] for number, _, clean in rows):
        return  # somebody has derived something newer meanwhile
    if set(derived.sources) - set(holders):
        return  # erased meanwhile: what is left is derived when more of it comes
    old = _replaced_sessions(db, derived)
    teams = dict(db.rows("SELECT holder, teams FROM holder FINAL", {}))
    found: dict[str, list[tuple[object, ...]]] = {table: [] for table in TEAM_TABLES}
    families: dict[int, int] = {}
    numbers = allocate_numbers(len(derived.sessions))
    for number, one in zip(numbers, derived.sessions, strict=True):
        shared = [set(teams[holders[row[0]]]) for row in one.rows["session_source"]]
        common = sorted(set.intersection(*shared)) if shared else []
        holder = get_or_create_holder(db, derived.person, common)
        family = families.setdefault(one.family, number)
        for table, some in one.rows.items():
            first = (holder, number, family) if table == "session" else (holder, number)
            found[table] += [(*first, *row) for row in some]
        _add_texts(db, one, (holder, number))
    sessions = found.pop("session")
    for table, some in found.items():
        names = [column.name for column in TEAM_TABLES[table].team_columns]
        db.insert(table, ("holder", "number", *names), some)
    mark_dead(db, old)
    names = [column.name for column in SESSION.team_columns]
    db.insert("session", ("holder", "number", "family", *names), sessions)
    db.insert("cleaned", ("number", "clean"), list(derived.sources.items()))
    if len(old) and db.rows("SELECT count(*) FROM dead", {})[0][0] > _MAX_DEAD_SESSIONS:
        delete_dead_rows(db)


def _replaced_sessions(db: ClickHouseConnection, derived: DerivedSessions) -> list[int]:
    rows = db.rows(
        "SELECT DISTINCT number FROM session_source WHERE source IN %(sources)s UNION DISTINCT"
        " SELECT number FROM session WHERE session IN %(sessions)s AND holder IN"
        " (SELECT holder FROM holder WHERE person = %(person)s)",
        {
            "sources": list(derived.sources),
            "sessions": [one.session for one in derived.sessions],
            "person": derived.person,
        },
    )
    return [row[0] for row in rows]


def _add_texts(
    db: ClickHouseConnection, one: SessionRows, whose: tuple[int, int]
) -> None:
    said: list[tuple[object, ...]] = []
    waiting: list[tuple[object, ...]] = []
    for text, row in enumerate(one.texts):
        terms = row.terms
        facts = (*whose, text, row.record, row.kind, len(terms))
        said.append(facts)
        places: dict[str, list[int]] = {}
        for at, term in enumerate(terms):
            places.setdefault(term, []).append(at)
        waiting += [(*facts, term, found) for term, found in places.items()]
        if len(waiting) >= _INSERT_BATCH:
            db.insert("posting", _POSTING_COLUMNS, waiting)
            waiting = []
    db.insert("text", _TEXT_COLUMNS, said)
    db.insert("posting", _POSTING_COLUMNS, waiting)


def mark_dead(db: ClickHouseConnection, numbers: Sequence[int]) -> None:
    """Let sessions be seen by nobody from now on."""
    db.insert("dead", ("number",), [(number,) for number in numbers])


def delete_dead_rows(db: ClickHouseConnection) -> None:
    """Remove the rows of all that is dead, and wait until they are gone."""
    for table in DERIVED_TABLES:
        db.execute(
            f"ALTER TABLE {table} DELETE WHERE number IN (SELECT number FROM dead)"  # noqa: S608 (our names)
            " SETTINGS mutations_sync = 2, allow_nondeterministic_mutations = 1"
        )
    db.execute("TRUNCATE TABLE dead")


_IS_LIVE = "number NOT IN (SELECT number FROM dead)"
_SYNC_MUTATION = "SETTINGS mutations_sync = 2"


def erase_sessions(
    db: ClickHouseConnection,
    selector: ErasureSelector,
    holds: Sequence[ErasureSelector],
    now: datetime,
) -> ErasureReceipt:
    """Refuse what fits from now on, then remove every row of it."""
    chosen = matching_sessions(db, selector)
    kept: set[int] = set()
    spared: set[int] = set()
    for one in holds:
        own = set(matching_sessions(db, one))
        kept |= own
        spared |= _sources_to_erase(db, one, own)
    gone = {n: s for n, s in chosen.items() if n not in kept}
    sources = _sources_to_erase(db, selector, gone) - spared
    _insert_tombstones(db, sources, now)
    addresses = _blob_addresses(db, sources)
    rows = _count_rows(db, gone, sources)
    mark_dead(db, list(gone))
    delete_dead_rows(db)
    for table in ("span", "source", "cleaned") if sources else ():
        sql = f"ALTER TABLE {table} DELETE WHERE number IN %(numbers)s {_SYNC_MUTATION}"
        db.execute(sql, {"numbers": list(sources)})
    used = db.rows(
        "SELECT DISTINCT address FROM span WHERE address IN %(addresses)s",
        {"addresses": addresses},
    )
    stray = sorted(set(addresses) - {row[0] for row in used})
    (revision,) = allocate_numbers(1)
    columns = ("address", "is_over", "revision")
    db.insert("stray", columns, [(one, 0, revision) for one in stray])
    return ErasureReceipt(
        selector=selector,
        sessions=tuple(sorted(gone.values())),
        sources=len(sources),
        rows=rows,
        blob_addresses=tuple(stray),
        held_sessions=tuple(sorted(s for n, s in chosen.items() if n in kept)),
    )


def matching_sessions(
    db: ClickHouseConnection, selector: ErasureSelector
) -> dict[int, SessionId]:
    """Return the sessions that fit, by their numbers."""
    rows = db.rows(
        "SELECT s.number, s.session, h.person, s.ended_ms, s.project, summary"  # noqa: S608 (our names)
        f" FROM (SELECT * FROM session WHERE {_IS_LIVE}) AS s"
        " JOIN (SELECT * FROM holder FINAL) AS h ON h.holder = s.holder",
        {},
    )
    return {
        number: SessionId(session)
        for number, session, person, ended, project, listed in rows
        if selector.person in {None, person}
        and selector.session in {None, session}
        and _is_before(selector, ended)
        and _is_in_project(selector, project, listed)
    }


def _is_before(selector: ErasureSelector, ended: int | None) -> bool:
    limit = to_milliseconds(selector.before)
    return limit is None or (ended is not None and ended < limit)


def _is_in_project(
    selector: ErasureSelector, project: str | None, listed: bytes
) -> bool:
    wanted = selector.project
    if wanted is None:
        return True
    path = project or ""
    is_below = path == wanted or path.startswith(wanted.rstrip("/") + "/")
    return is_below or wanted in decode_summary(listed).project_keys


def _sources_to_erase(
    db: ClickHouseConnection, selector: ErasureSelector, numbers: Iterable[int]
) -> set[int]:
    """Return the sources of sessions, what lies beside them, and what else fits."""
    booked = db.rows(
        "SELECT DISTINCT source FROM session_source WHERE number IN %(numbers)s",
        {"numbers": list(numbers)},
    )
    own = {row[0] for row in booked}
    people = db.rows("SELECT DISTINCT person FROM source", {})
    found: set[int] = set()
    for (person,) in people:
        sources = list_sources(db, person)
        mine = [one.source for one in sources if one.number in own]
        stems = {(s.machine_home, s.path.removesuffix(".jsonl") + "/") for s in mine}
        names = {s.session for s in mine if s.session is not None}
        is_whole = selector == ErasureSelector(person=person)
        is_named = selector.session is not None and selector.person in {None, person}
        for one in sources:
            sent = one.source
            beside = any(
                sent.machine_home == place and sent.path.startswith(stem)
                for place, stem in stems
            )
            is_asked = is_named and sent.session == selector.session
            if (
                one.number in own
                or beside
                or sent.session in names
                or is_whole
                or is_asked
            ):
                found.add(one.number)
    return found


def _insert_tombstones(
    db: ClickHouseConnection, sources: set[int], now: datetime
) -> None:
    people = db.rows("SELECT DISTINCT person FROM source", {})
    signs = {
        sign
        for (person,) in people
        for one in list_sources(db, person)
        if one.number in sources
        for sign in tombstone_hashes(one.source)
    }
    db.insert("tombstone", ("sign", "erased"), [(sign, now) for sign in signs])


def _blob_addresses(db: ClickHouseConnection, sources: set[int]) -> list[str]:
    rows = db.rows(
        "SELECT DISTINCT address FROM span WHERE number IN %(numbers)s",
        {"numbers": list(sources)},
    )
    return [row[0] for row in rows]


def _count_rows(
    db: ClickHouseConnection, sessions: Iterable[int], sources: Iterable[int]
) -> int:
    values = {"sessions": list(sessions), "sources": list(sources)}
    total = 0
    for tables, key in ((DERIVED_TABLES, "sessions"), (("span", "source"), "sources")):
        for table in tables:
            sql = f"SELECT count(*) FROM {table} WHERE number IN %({key})s"  # noqa: S608 (our names)
            total += int(db.rows(sql, values)[0][0])
    return total


def verify_rows(db: ClickHouseConnection) -> VerifyReport:
    """Look whether spans are without gaps, and rows belong to something."""
    faults = []
    upto: dict[tuple[int, int], int] = {}
    for number, generation, start, stop in db.rows(
        "SELECT number, generation, start, stop FROM span FINAL"
        " ORDER BY number, generation, start",
        {},
    ):
        if start != upto.get((number, generation), 0):
            faults.append(f"source {number} has a gap before byte {start}")
        upto[number, generation] = stop
    lost = db.rows(
        f"SELECT session FROM session WHERE {_IS_LIVE} AND number NOT IN"  # noqa: S608 (our names)
        " (SELECT number FROM session_source WHERE source IN (SELECT number FROM source))",
        {},
    )
    faults += [f"session {row[0]} is of no source" for row in lost]
    (counts,) = db.rows(
        "SELECT (SELECT count(*) FROM source FINAL),"  # noqa: S608 (our names)
        f" (SELECT count(*) FROM session WHERE {_IS_LIVE}),"
        f" (SELECT count(*) FROM text WHERE {_IS_LIVE})",
        {},
    )
    return VerifyReport(
        sources=int(counts[0]),
        sessions=int(counts[1]),
        texts=int(counts[2]),
        faults=tuple(faults),
    )
