"""Erasing for good, and looking whether all is whole."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from bygones.model.ids import SessionId
from bygones.store.numbers import milliseconds
from bygones.team.contract import Receipt, Selector, Verdict
from bygones.team.postgres.connect import Postgres
from bygones.team.postgres.receiving import held as held_of
from bygones.team.postgres.segments import forget_dead
from bygones.team.postgres.writing import remove_sessions
from bygones.team.refusing import signs_of

__all__ = ["erase", "fitting", "verify"]


def erase(
    db: Postgres, selector: Selector, held: Sequence[Selector], now: datetime
) -> Receipt:
    """Refuse what fits from now on, then remove every row of it."""
    with db.at_once():
        db.execute("LOCK TABLE source, session IN SHARE ROW EXCLUSIVE MODE")
        chosen = fitting(db, selector)
        kept: set[int] = set()
        sources: set[int] = set()
        for one in held:
            own = set(fitting(db, one))
            kept |= own
            sources |= _sources(db, one, list(own))
        gone = {n: s for n, s in chosen.items() if n not in kept}
        sources = _sources(db, selector, list(gone)) - sources
        _refuse(db, sources, now)
        addresses = _addresses(db, sources)
        people = _people(db, selector, sources, list(gone))
        rows = remove_sessions(db, list(gone))
        forget_dead(db, people)
        for table in ("span", "source"):
            sql = f"DELETE FROM {table} WHERE number = ANY(%(numbers)s)"  # noqa: S608 (our names)
            rows += db.execute(sql, {"numbers": list(sources)})
        sql = (
            "INSERT INTO stray SELECT a FROM unnest(%(addresses)s::text[]) AS a"
            " WHERE NOT EXISTS (SELECT 1 FROM span WHERE address = a)"
            " ON CONFLICT DO NOTHING RETURNING address"
        )
        stray = db.rows(sql, {"addresses": addresses})
    return Receipt(
        selector=selector,
        sessions=tuple(sorted(gone.values())),
        sources=len(sources),
        rows=rows,
        addresses=tuple(sorted(row[0] for row in stray)),
        held=tuple(sorted(s for n, s in chosen.items() if n in kept)),
    )


def _people(
    db: Postgres, selector: Selector, sources: set[int], sessions: Sequence[int]
) -> list[str]:
    """Return whose segments may say something of what is erased."""
    rows = db.rows(
        "SELECT person FROM source WHERE number = ANY(%(sources)s) UNION"
        " SELECT person FROM session JOIN holder USING (holder)"
        " WHERE number = ANY(%(sessions)s)",
        {"sources": list(sources), "sessions": list(sessions)},
    )
    return sorted({selector.person or "", *(row[0] for row in rows)})


def fitting(db: Postgres, selector: Selector) -> dict[int, SessionId]:
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
            " FROM booked AS b JOIN source AS f ON f.number = b.source"
            " WHERE b.number = s.number AND f.project = %(project)s))"
        )
        values["project"] = selector.project
        values["below"] = _literal(selector.project.rstrip("/")) + "/%"
    if selector.before is not None:
        limits.append("s.ended_ms < %(before)s")
        values["before"] = milliseconds(selector.before)
    rows = db.rows(
        "SELECT s.number, s.session FROM session AS s JOIN holder AS h USING (holder)"  # noqa: S608 (our names)
        f" WHERE {' AND '.join(limits)}",
        values,
    )
    return {number: SessionId(session) for number, session in rows}


def _literal(path: str) -> str:
    return path.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def _booked(db: Postgres, numbers: Sequence[int]) -> set[int]:
    """Return all sources of sessions, also what lies beside their transcripts."""
    rows = db.rows(
        "WITH own AS (SELECT f.* FROM source AS f JOIN booked AS b"
        " ON b.source = f.number WHERE b.number = ANY(%(numbers)s))"
        " SELECT f.number FROM source AS f JOIN own AS o USING (person, machine, home)"
        " WHERE f.number = o.number OR f.session = o.session OR f.path LIKE"
        " replace(replace(regexp_replace(o.path, '\\.jsonl$', ''), '_', '\\_'), '%%',"
        " '\\%%') || '/%%'",
        {"numbers": list(numbers)},
    )
    return {row[0] for row in rows}


def _sources(db: Postgres, selector: Selector, numbers: Sequence[int]) -> set[int]:
    """Return the sources of sessions, and those that are of no session but fit."""
    found = _booked(db, numbers)
    is_whole = selector.person is not None and selector == Selector(
        person=selector.person
    )
    if is_whole and selector.person is not None:
        found |= {one.number for one in held_of(db, selector.person)}
    if selector.session is not None:
        # It may have come and not be derived yet.
        sql = "SELECT number FROM source WHERE session = %(session)s"
        values = {"session": selector.session, "person": selector.person}
        sql += " AND person = %(person)s" if selector.person is not None else ""
        found |= {row[0] for row in db.rows(sql, values)}
    return found


def _refuse(db: Postgres, sources: set[int], now: datetime) -> None:
    rows = db.rows(
        "SELECT DISTINCT person FROM source WHERE number = ANY(%(numbers)s)",
        {"numbers": list(sources)},
    )
    signs = {
        sign
        for (person,) in rows
        for one in held_of(db, person)
        if one.number in sources
        for sign in signs_of(one.sent)
    }
    db.execute(
        "INSERT INTO tombstone SELECT sign, %(now)s FROM unnest(%(signs)s::bytea[])"
        " AS sign ON CONFLICT DO NOTHING",
        {"signs": list(signs), "now": now},
    )


def _addresses(db: Postgres, sources: set[int]) -> list[str]:
    sql = "SELECT DISTINCT address FROM span WHERE number = ANY(%(numbers)s)"
    return [row[0] for row in db.rows(sql, {"numbers": list(sources)})]


def verify(db: Postgres) -> Verdict:
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
            "SELECT session FROM session AS s WHERE NOT EXISTS (SELECT 1 FROM booked"
            " AS b JOIN source AS f ON f.number = b.source WHERE b.number = s.number)",
            {},
        )
    ]
    (counts,) = db.rows(
        "SELECT (SELECT count(*) FROM source), (SELECT count(*) FROM session),"
        " (SELECT count(*) FROM said WHERE piece = 0)",
        {},
    )
    return Verdict(
        sources=counts[0], sessions=counts[1], texts=counts[2], faults=tuple(faults)
    )
