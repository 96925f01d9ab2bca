"""Taking what was sent: spans, once each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from bygones.errors import BatchRefused
from bygones.team.contract import Ack, Batch, Fragment, Held, Sent, Span
from bygones.team.keeping import (
    ack_of,
    fragment_of,
    held_of,
    span_of,
    span_rows,
)
from bygones.team.postgres.connect import Postgres
from bygones.team.postgres.writing import holder_of
from bygones.team.refusing import check_spans, signs_of

__all__ = ["acks", "fragments", "held", "put", "put_all", "spans"]

_SENT = (
    "SELECT s.person, h.teams, machine, home, path, kind, project, session, agent,"
    " mtime_ns, generation, upto, origin, revision, mark"
    " FROM source AS s JOIN holder AS h USING (holder)"
)


def put(db: Postgres, batch: Batch) -> Ack:
    """Note spans, once each, and that the source is touched."""
    (told,) = put_all(db, [batch])
    if isinstance(told, BatchRefused):
        raise told
    return told


def put_all(db: Postgres, batches: Sequence[Batch]) -> list[Ack | BatchRefused]:
    """Put what came at once, a source at most once; the refused keep nothing back."""
    told: dict[int, Ack | BatchRefused] = {}
    numbers = [batch.source.number for batch in batches]
    with db.at_once():
        # An erasure waits for this, or this for it: nothing slips past its tombstones.
        db.execute("LOCK TABLE source IN ROW EXCLUSIVE MODE")
        told |= _erased(db, [batch.source for batch in batches])
        some = {b.source.number: b for b in batches if b.source.number not in told}
        holders = _holders(db, [batch.source for batch in some.values()])
        _add_sources(db, [batch.source for batch in some.values()], holders)
        # In the order of their numbers, so that nobody waits for who waits for them.
        sql = (
            "SELECT number, generation, upto, mark, holder, mtime_ns FROM source"
            " WHERE number = ANY(%(numbers)s) ORDER BY number FOR UPDATE"
        )
        before = {row[0]: row[1:] for row in db.rows(sql, {"numbers": list(some)})}
        known = _spans(db, [number for number, row in before.items() if row[1]])
        notes: list[_Note] = []
        for number, batch in some.items():
            try:
                new = _new(batch, before[number], known.get(number, []))
            except BatchRefused as error:
                told[number] = error
                continue
            gone_on = _behind(batch, before[number], new)
            notes.append(_Note(batch, new, gone_on, holders[number], before[number]))
        _note(db, notes)
        sql = f"{_SENT} WHERE number = ANY(%(numbers)s)"
        for row in db.rows(sql, {"numbers": list(some.keys() - told.keys())}):
            ack = ack_of(row)
            told[ack.source.number] = ack
    return [told[number] for number in numbers]


def _erased(db: Postgres, sources: Sequence[Sent]) -> dict[int, BatchRefused]:
    """Return what is to be said of those that were erased, by their numbers."""
    signs = {one.number: signs_of(one) for one in sources}
    sql = "SELECT sign FROM tombstone WHERE sign = ANY(%(signs)s)"
    every = [sign for own in signs.values() for sign in own]
    there = {bytes(row[0]) for row in db.rows(sql, {"signs": every})}
    return {
        one.number: BatchRefused(one.id, "it was erased")
        for one in sources
        if there.intersection(signs[one.number])
    }


def _holders(db: Postgres, sources: Sequence[Sent]) -> dict[int, int]:
    """Return whose sources are, by their numbers."""
    known = {whose: holder_of(db, *whose) for whose in set(map(_whose, sources))}
    return {one.number: known[_whose(one)] for one in sources}


def _whose(sent: Sent) -> tuple[str, tuple[str, ...]]:
    return sent.person, sent.teams


def _new(batch: Batch, before: Sequence[Any], known: Sequence[Span]) -> list[Span]:
    """Return what is new in a batch; raise if it does not fit what there was."""
    name = batch.source.id
    generation, upto = before[:2]
    if batch.generation < generation:
        raise BatchRefused(name, "a newer generation is there")
    if batch.generation > generation:
        known, upto = [], 0
    return check_spans(name, batch.spans, known, upto)


def _add_sources(
    db: Postgres, sources: Sequence[Sent], holders: Mapping[int, int]
) -> None:
    numbers = [one.number for one in sources]
    sql = "SELECT number FROM source WHERE number = ANY(%(numbers)s)"
    there = {row[0] for row in db.rows(sql, {"numbers": numbers})}
    for one in sorted(sources, key=lambda one: one.number):
        if one.number not in there:
            _add_source(db, one, holders[one.number])


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


class _Note(NamedTuple):
    """What is to be noted of a source."""

    batch: Batch
    new: Sequence[Span]
    fragment: Fragment | None
    """What stands behind all that from now on; ``None`` for what stood there."""
    holder: int
    before: Sequence[Any]
    """Generation, up to where it was there, mark, holder and time as they were."""

    @property
    def is_touched(self) -> bool:
        """Whether it must be derived."""
        same = (self.holder, self.batch.source.mtime_ns)
        is_other = self.fragment is not None and self.fragment.mark != self.before[2]
        return bool(self.new) or is_other or tuple(self.before[3:]) != same


def _behind(
    batch: Batch, before: Sequence[Any], new: Sequence[Span]
) -> Fragment | None:
    """Return the unfinished line that a source has now, where that is another one."""
    is_anew = batch.generation > before[0]
    upto = new[-1].offset + new[-1].length if new else 0 if is_anew else before[1]
    if batch.fragment is not None and batch.fragment.offset == upto:
        return batch.fragment
    return Fragment(offset=upto, mark=b"") if new or is_anew else None


def _note(db: Postgres, notes: Sequence[_Note]) -> None:
    """Write down spans, and up to where sources are there now."""
    columns = ("number", "holder", "generation", "start", "stop", "origin")
    rows = [row for one in notes for row in span_rows(one.batch, one.new, one.holder)]
    db.copy("span", (*columns, "sha256", "address"), rows)
    last = [one.new[-1] if one.new else None for one in notes]
    values = {
        "number": [one.batch.source.number for one in notes],
        "holder": [one.holder for one in notes],
        "mtime_ns": [one.batch.source.mtime_ns for one in notes],
        "generation": [one.batch.generation for one in notes],
        "more": [int(one.is_touched) for one in notes],
        "upto": [one.offset + one.length if one else None for one in last],
        "origin": [one.origin if one else None for one in last],
        "mark": [one.fragment.mark if one.fragment else None for one in notes],
        "frame": [one.fragment.frame if one.fragment else None for one in notes],
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
    moved = [one for one in notes if one.before[3] != one.holder]
    for one in moved:
        db.execute(
            "UPDATE span SET holder = %(holder)s WHERE number = %(number)s"
            " AND holder <> %(holder)s",
            {"holder": one.holder, "number": one.batch.source.number},
        )


def acks(
    db: Postgres, person: str, machine: str, among: Sequence[int] | None = None
) -> list[Ack]:
    """Return up to where sources of a machine are there: all, or some."""
    sql = f"{_SENT} WHERE s.person = %(person)s AND machine = %(machine)s"
    sql += " AND number = ANY(%(numbers)s)" if among is not None else ""
    values = {"person": person, "machine": machine, "numbers": list(among or ())}
    return [ack_of(row) for row in db.rows(f"{sql} ORDER BY path", values)]


def held(db: Postgres, person: str) -> list[Held]:
    """Return all sources of a person."""
    sql = f"{_SENT} WHERE s.person = %(person)s ORDER BY machine, home, path"
    return [held_of(row) for row in db.rows(sql, {"person": person})]


def fragments(db: Postgres, sources: Sequence[int]) -> dict[int, Fragment]:
    """Return the unfinished last lines of those sources that have one."""
    rows = db.rows(
        "SELECT number, upto, mark, fragment FROM source"
        " WHERE number = ANY(%(numbers)s) AND mark <> ''",
        {"numbers": list(sources)},
    )
    return {number: fragment_of(row) for number, *row in rows}


def spans(db: Postgres, source: int) -> list[Span]:
    """Return the spans of a source's newest generation, in order."""
    return _spans(db, [source]).get(source, [])


def _spans(db: Postgres, sources: Sequence[int]) -> dict[int, list[Span]]:
    """Return the spans of sources' newest generations, in order."""
    found: dict[int, list[Span]] = {}
    rows = db.rows(
        "SELECT number, start, stop, p.origin, sha256, address FROM span AS p"
        " JOIN source AS s USING (number, generation) WHERE number = ANY(%(numbers)s)"
        " ORDER BY number, start",
        {"numbers": list(sources)},
    )
    for number, *row in rows:
        found.setdefault(number, []).append(span_of(row))
    return found
