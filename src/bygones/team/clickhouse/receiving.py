"""Taking what was sent: spans, once each, whatever is done twice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bygones.errors import BatchRefused
from bygones.store.press import digest
from bygones.team.clickhouse.connect import ClickHouse
from bygones.team.contract import Ack, Batch, Fragment, Held, Span
from bygones.team.keeping import (
    ack_of,
    fragment_of,
    held_of,
    span_of,
    span_rows,
)
from bygones.team.packing import new_numbers
from bygones.team.refusing import check_spans, signs_of

__all__ = ["acks", "fragments", "held", "holder_of", "put", "spans"]

_SOURCE = (
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
_SPAN = ("number", "holder", "generation", "start", "stop", "origin", "sha256")
_SENT = (
    "SELECT s.person, h.teams, s.machine, s.home, s.path, s.kind, s.project,"
    " s.session, s.agent, s.mtime_ns, s.generation, s.upto, s.origin, s.revision,"
    " s.mark FROM (SELECT * FROM source FINAL WHERE {where}) AS s"
    " JOIN (SELECT * FROM holder FINAL) AS h ON h.holder = s.holder"
    " ORDER BY s.machine, s.home, s.path"
)


def holder_of(db: ClickHouse, person: str, teams: Sequence[str]) -> int:
    """Return the number of a person with these teams, the same wherever it is made."""
    named = sorted(set(teams))
    told = "\0".join((person, *named))
    sign = digest(told.encode("utf-8", "surrogatepass"))
    holder = int.from_bytes(sign[:8], "big") >> 1
    sql = "SELECT 1 FROM holder WHERE holder = %(holder)s"
    if not db.rows(sql, {"holder": holder}):
        db.insert("holder", ("holder", "person", "teams"), [(holder, person, named)])
    return holder


def put(db: ClickHouse, batch: Batch) -> Ack:
    """Note spans, once each, and that the source is touched.

    Spans come first: how far a source is there is read from them, so that a source
    whose row was not written any more gets it with the next batch.
    """
    sent = batch.source
    erased = "SELECT 1 FROM tombstone WHERE hex(sign) IN %(signs)s"
    signs = [sign.hex().upper() for sign in signs_of(sent)]
    if db.rows(erased, {"signs": signs}):
        raise BatchRefused(sent.id, "it was erased")
    before = _rows(db, "number = %(number)s", {"number": sent.number})
    generation = before[0][10] if before else 0
    if batch.generation < generation:
        raise BatchRefused(sent.id, "a newer generation is there")
    known = spans(db, sent.number, batch.generation)
    upto = known[-1].offset + known[-1].length if known else 0
    new = check_spans(sent.id, batch.spans, known, upto)
    holder = holder_of(db, sent.person, sent.teams)
    (revision,) = new_numbers(1)
    _add_spans(db, batch, new, (holder, revision))
    there = [*known, *new]
    upto = there[-1].offset + there[-1].length if there else 0
    behind = _behind(db, batch, before, upto)
    ack = Ack(
        source=sent,
        generation=batch.generation,
        upto=upto,
        origin=there[-1].origin if there else 0,
        mark=behind.mark,
    )
    if not before or ack_of(before[0]) != ack:
        row = (*_row(ack, holder, revision), behind.mark, behind.frame)
        db.insert("source", _SOURCE, [row])
        if before and set(before[0][1]) != set(sent.teams):
            _add_spans(db, batch, known, (holder, revision))
    return ack


def _behind(db: ClickHouse, batch: Batch, before: Sequence[Any], upto: int) -> Fragment:
    """Return the unfinished line that a source has now, if it has one still."""
    if batch.fragment is not None and batch.fragment.offset == upto:
        return batch.fragment
    number = batch.source.number
    if before and (before[0][10], before[0][11]) == (batch.generation, upto):
        return fragments(db, [number]).get(number) or Fragment(offset=upto, mark=b"")
    return Fragment(offset=upto, mark=b"")


def fragments(db: ClickHouse, sources: Sequence[int]) -> dict[int, Fragment]:
    """Return the unfinished last lines of those sources that have one."""
    rows = db.rows(
        "SELECT number, upto, mark, fragment FROM source FINAL"
        " WHERE number IN %(numbers)s AND mark <> ''",
        {"numbers": list(sources)},
    )
    return {number: fragment_of(row) for number, *row in rows}


def _row(ack: Ack, holder: int, revision: int) -> tuple[object, ...]:
    sent = ack.source
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
        ack.generation,
        ack.upto,
        ack.origin,
        revision,
    )


def _add_spans(
    db: ClickHouse, batch: Batch, some: Sequence[Span], whose: tuple[int, int]
) -> None:
    holder, revision = whose
    rows = span_rows(batch, some, holder, revision)
    db.insert("span", (*_SPAN, "address", "revision"), rows)


def acks(
    db: ClickHouse, person: str, machine: str, among: Sequence[int] | None = None
) -> list[Ack]:
    """Return up to where sources of a machine are there: all, or some."""
    if among is not None and not among:
        return []
    where = "person = %(person)s AND machine = %(machine)s"
    where += " AND number IN %(numbers)s" if among is not None else ""
    values = {"person": person, "machine": machine, "numbers": list(among or ())}
    rows = _rows(db, where, values)
    return [ack_of(row) for row in rows]


def held(db: ClickHouse, person: str) -> list[Held]:
    """Return all sources of a person."""
    return [
        held_of(row) for row in _rows(db, "person = %(person)s", {"person": person})
    ]


def spans(db: ClickHouse, source: int, generation: int | None = None) -> list[Span]:
    """Return the spans of a source's newest generation, in order, up to a gap."""
    newest = "(SELECT max(generation) FROM source FINAL WHERE number = %(number)s)"
    chosen = newest if generation is None else "%(generation)s"
    rows = db.rows(
        "SELECT start, stop, origin, sha256, address FROM span FINAL"  # noqa: S608 (our names)
        f" WHERE number = %(number)s AND generation = {chosen} ORDER BY start",
        {"number": source, "generation": generation},
    )
    found: list[Span] = []
    for span in map(span_of, rows):
        if span.offset != (found[-1].offset + found[-1].length if found else 0):
            break
        found.append(span)
    return found


def _rows(db: ClickHouse, where: str, values: dict[str, Any]) -> list[Any]:
    return db.rows(_SENT.replace("{where}", where), values)
