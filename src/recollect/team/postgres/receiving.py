"""Taking what was sent: spans, once each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from recollect.errors import BatchRefused
from recollect.team.contract import Ack, Batch, Held, Sent, Span
from recollect.team.keeping import ack_of, held_of, span_of, span_rows
from recollect.team.postgres.connect import Postgres
from recollect.team.postgres.writing import holder_of
from recollect.team.refusing import check_spans, signs_of

__all__ = ["acks", "held", "put", "spans"]

_SENT = (
    "SELECT s.person, h.teams, machine, home, path, kind, project, session, agent,"
    " mtime_ns, generation, upto, origin, revision"
    " FROM source AS s JOIN holder AS h USING (holder)"
)


def put(db: Postgres, batch: Batch) -> Ack:
    """Note spans, once each, and that the source is touched."""
    sent = batch.source
    with db.at_once():
        # An erasure waits for this, or this for it: nothing slips past its tombstones.
        db.execute("LOCK TABLE source IN ROW EXCLUSIVE MODE")
        erased = "SELECT 1 FROM tombstone WHERE sign = ANY(%(signs)s)"
        if db.rows(erased, {"signs": list(signs_of(sent))}):
            raise BatchRefused(sent.id, "it was erased")
        holder = holder_of(db, sent.person, sent.teams)
        _add_source(db, sent, holder)
        before = db.rows(
            "SELECT generation, upto, holder, mtime_ns FROM source"
            " WHERE number = %(number)s FOR UPDATE",
            {"number": sent.number},
        )[0]
        generation, upto = before[:2]
        if batch.generation < generation:
            raise BatchRefused(sent.id, "a newer generation is there")
        known = spans(db, sent.number) if batch.generation == generation else []
        if batch.generation > generation:
            upto = 0
        new = check_spans(sent.id, batch.spans, known, upto)
        _add_spans(db, batch, new, holder)
        is_touched = bool(new) or before[2:] != (holder, sent.mtime_ns)
        _note(db, batch, new, holder, is_touched=is_touched)
        (row,) = db.rows(f"{_SENT} WHERE number = %(number)s", {"number": sent.number})
    return ack_of(row)


def _add_source(db: Postgres, sent: Sent, holder: int) -> None:
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


def _add_spans(db: Postgres, batch: Batch, new: Sequence[Span], holder: int) -> None:
    columns = ("number", "holder", "generation", "start", "stop", "origin")
    rows = span_rows(batch, new, holder)
    db.copy("span", (*columns, "sha256", "address"), rows)


def _note(
    db: Postgres, batch: Batch, new: Sequence[Span], holder: int, *, is_touched: bool
) -> None:
    values: dict[str, Any] = {
        "number": batch.source.number,
        "holder": holder,
        "mtime_ns": batch.source.mtime_ns,
        "generation": batch.generation,
        "more": int(is_touched),
    }
    sql = (
        "UPDATE source SET holder = %(holder)s, mtime_ns = %(mtime_ns)s,"
        " revision = revision + %(more)s, generation = %(generation)s"
    )
    if is_touched:
        sql += ", waits = CASE WHEN clean < revision THEN waits ELSE now() END"
    if new:
        values["upto"] = new[-1].offset + new[-1].length
        values["origin"] = new[-1].origin
        sql += ", upto = %(upto)s, origin = %(origin)s"
    db.execute(f"{sql} WHERE number = %(number)s", values)
    db.execute(
        "UPDATE span SET holder = %(holder)s WHERE number = %(number)s"
        " AND holder <> %(holder)s",
        values,
    )


def acks(db: Postgres, person: str, machine: str) -> list[Ack]:
    """Return up to where each source of a machine is there."""
    sql = f"{_SENT} WHERE s.person = %(person)s AND machine = %(machine)s ORDER BY path"
    return [ack_of(row) for row in db.rows(sql, {"person": person, "machine": machine})]


def held(db: Postgres, person: str) -> list[Held]:
    """Return all sources of a person."""
    sql = f"{_SENT} WHERE s.person = %(person)s ORDER BY machine, home, path"
    return [held_of(row) for row in db.rows(sql, {"person": person})]


def spans(db: Postgres, source: int) -> list[Span]:
    """Return the spans of a source's newest generation, in order."""
    rows = db.rows(
        "SELECT start, stop, p.origin, sha256, address FROM span AS p"
        " JOIN source AS s USING (number, generation) WHERE number = %(number)s"
        " ORDER BY start",
        {"number": source},
    )
    return [span_of(row) for row in rows]
