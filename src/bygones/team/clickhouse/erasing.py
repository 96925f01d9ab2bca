"""Erasing for good, and looking whether all is whole."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from bygones.model.ids import SessionId
from bygones.store.derived import decode_listed
from bygones.store.numbers import milliseconds
from bygones.team.clickhouse.connect import ClickHouse
from bygones.team.clickhouse.receiving import held as held_of
from bygones.team.clickhouse.schema import DERIVED
from bygones.team.clickhouse.writing import bury, sweep
from bygones.team.contract import Receipt, Selector, Verdict
from bygones.team.packing import new_numbers
from bygones.team.refusing import signs_of

__all__ = ["erase", "fitting", "verify"]

_LIVE = "number NOT IN (SELECT number FROM dead)"
_WAIT = "SETTINGS mutations_sync = 2"


def erase(
    db: ClickHouse, selector: Selector, held: Sequence[Selector], now: datetime
) -> Receipt:
    """Refuse what fits from now on, then remove every row of it."""
    chosen = fitting(db, selector)
    kept: set[int] = set()
    spared: set[int] = set()
    for one in held:
        own = set(fitting(db, one))
        kept |= own
        spared |= _sources(db, one, own)
    gone = {n: s for n, s in chosen.items() if n not in kept}
    sources = _sources(db, selector, gone) - spared
    _refuse(db, sources, now)
    addresses = _addresses(db, sources)
    rows = _count(db, gone, sources)
    bury(db, list(gone))
    sweep(db)
    for table in ("span", "source", "cleaned") if sources else ():
        sql = f"ALTER TABLE {table} DELETE WHERE number IN %(numbers)s {_WAIT}"
        db.execute(sql, {"numbers": list(sources)})
    used = db.rows(
        "SELECT DISTINCT address FROM span WHERE address IN %(addresses)s",
        {"addresses": addresses},
    )
    stray = sorted(set(addresses) - {row[0] for row in used})
    (revision,) = new_numbers(1)
    columns = ("address", "is_over", "revision")
    db.insert("stray", columns, [(one, 0, revision) for one in stray])
    return Receipt(
        selector=selector,
        sessions=tuple(sorted(gone.values())),
        sources=len(sources),
        rows=rows,
        addresses=tuple(stray),
        held=tuple(sorted(s for n, s in chosen.items() if n in kept)),
    )


def fitting(db: ClickHouse, selector: Selector) -> dict[int, SessionId]:
    """Return the sessions that fit, by their numbers."""
    rows = db.rows(
        "SELECT s.number, s.session, h.person, s.ended_ms, s.project, listed"  # noqa: S608 (our names)
        f" FROM (SELECT * FROM session WHERE {_LIVE}) AS s"
        " JOIN (SELECT * FROM holder FINAL) AS h ON h.holder = s.holder",
        {},
    )
    return {
        number: SessionId(session)
        for number, session, person, ended, project, listed in rows
        if selector.person in {None, person}
        and selector.session in {None, session}
        and _is_before(selector, ended)
        and _is_in(selector, project, listed)
    }


def _is_before(selector: Selector, ended: int | None) -> bool:
    limit = milliseconds(selector.before)
    return limit is None or (ended is not None and ended < limit)


def _is_in(selector: Selector, project: str | None, listed: bytes) -> bool:
    wanted = selector.project
    if wanted is None:
        return True
    path = project or ""
    is_below = path == wanted or path.startswith(wanted.rstrip("/") + "/")
    return is_below or wanted in decode_listed(listed).keys


def _sources(db: ClickHouse, selector: Selector, numbers: Iterable[int]) -> set[int]:
    """Return the sources of sessions, what lies beside them, and what else fits."""
    booked = db.rows(
        "SELECT DISTINCT source FROM booked WHERE number IN %(numbers)s",
        {"numbers": list(numbers)},
    )
    own = {row[0] for row in booked}
    people = db.rows("SELECT DISTINCT person FROM source", {})
    found: set[int] = set()
    for (person,) in people:
        sources = held_of(db, person)
        mine = [one.sent for one in sources if one.number in own]
        stems = {(s.place, s.path.removesuffix(".jsonl") + "/") for s in mine}
        names = {s.session for s in mine if s.session is not None}
        is_whole = selector == Selector(person=person)
        is_named = selector.session is not None and selector.person in {None, person}
        for one in sources:
            sent = one.sent
            beside = any(
                sent.place == place and sent.path.startswith(stem)
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


def _refuse(db: ClickHouse, sources: set[int], now: datetime) -> None:
    people = db.rows("SELECT DISTINCT person FROM source", {})
    signs = {
        sign
        for (person,) in people
        for one in held_of(db, person)
        if one.number in sources
        for sign in signs_of(one.sent)
    }
    db.insert("tombstone", ("sign", "erased"), [(sign, now) for sign in signs])


def _addresses(db: ClickHouse, sources: set[int]) -> list[str]:
    rows = db.rows(
        "SELECT DISTINCT address FROM span WHERE number IN %(numbers)s",
        {"numbers": list(sources)},
    )
    return [row[0] for row in rows]


def _count(db: ClickHouse, sessions: Iterable[int], sources: Iterable[int]) -> int:
    values = {"sessions": list(sessions), "sources": list(sources)}
    total = 0
    for tables, key in ((DERIVED, "sessions"), (("span", "source"), "sources")):
        for table in tables:
            sql = f"SELECT count(*) FROM {table} WHERE number IN %({key})s"  # noqa: S608 (our names)
            total += int(db.rows(sql, values)[0][0])
    return total


def verify(db: ClickHouse) -> Verdict:
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
        f"SELECT session FROM session WHERE {_LIVE} AND number NOT IN"  # noqa: S608 (our names)
        " (SELECT number FROM booked WHERE source IN (SELECT number FROM source))",
        {},
    )
    faults += [f"session {row[0]} is of no source" for row in lost]
    (counts,) = db.rows(
        "SELECT (SELECT count(*) FROM source FINAL),"  # noqa: S608 (our names)
        f" (SELECT count(*) FROM session WHERE {_LIVE}),"
        f" (SELECT count(*) FROM said WHERE {_LIVE})",
        {},
    )
    return Verdict(
        sources=int(counts[0]),
        sessions=int(counts[1]),
        texts=int(counts[2]),
        faults=tuple(faults),
    )
