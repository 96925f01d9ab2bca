"""Segments: counts of words by session, packed for those that were written together.

A session is filed in the segment in which it was written. Whenever a holder has many
segments of a level they are joined to one of the next, so that a word is read from few
rows. A segment of which most sessions are no more is stripped of them; after an
erasure none may say anything of a session that is no more, as it may be an earlier
state of what was erased.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bygones.team.packing import new_numbers
from bygones.team.postgres.connect import Postgres
from bygones.team.postgres.terms import living_in

__all__ = ["add_segment", "forget_dead", "leave_segments"]

_JOINED = 16
"""Segments of a level that are joined to one."""
_POST = ("holder", "segment", "forms", "packed")
_TYPES = ("int4", "int8", "text", "bytea")


def add_segment(
    db: Postgres, holder: int, numbers: Sequence[int], packed: Mapping[str, bytearray]
) -> None:
    """File sessions, with what they have of each group of forms."""
    if not packed:
        return
    (segment,) = new_numbers(1)
    rows = [(holder, segment, forms, bytes(told)) for forms, told in packed.items()]
    db.copy("post", _POST, rows, _TYPES)
    db.execute(
        "INSERT INTO segment VALUES (%(segment)s, %(holder)s, 0, %(size)s)",
        {"segment": segment, "holder": holder, "size": len(numbers)},
    )
    db.execute(
        "INSERT INTO filed SELECT number, %(segment)s"
        " FROM unnest(%(numbers)s::bigint[]) AS number",
        {"segment": segment, "numbers": list(numbers)},
    )
    _join(db, holder)


def _join(db: Postgres, holder: int) -> None:
    """Join the segments of a level that has many of them."""
    rows = db.rows(
        "SELECT level, array_agg(segment), sum(size)::integer, sum(dead)::integer"
        " FROM segment WHERE holder = %(holder)s GROUP BY level"
        " HAVING count(*) >= %(most)s ORDER BY level",
        {"holder": holder, "most": _JOINED},
    )
    for level, segments, size, dead in rows:
        (segment,) = new_numbers(1)
        values = {
            "old": segments,
            "new": segment,
            "holder": holder,
            "level": level + 1,
            "size": size,
            "dead": dead,
        }
        db.execute(
            "INSERT INTO post SELECT holder, %(new)s, forms, string_agg(packed, '')"
            " FROM post WHERE segment = ANY(%(old)s) GROUP BY holder, forms",
            values,
        )
        for table in ("post", "segment"):
            sql = f"DELETE FROM {table} WHERE segment = ANY(%(old)s)"  # noqa: S608 (our names)
            db.execute(sql, values)
        db.execute(
            "UPDATE filed SET segment = %(new)s WHERE segment = ANY(%(old)s)", values
        )
        db.execute(
            "INSERT INTO segment"
            " VALUES (%(new)s, %(holder)s, %(level)s, %(size)s, %(dead)s)",
            values,
        )
        _tidy(db, [segment])


def leave_segments(db: Postgres, numbers: Sequence[int]) -> None:
    """Take sessions out of their segments; their texts must be gone already."""
    rows = db.rows(
        "WITH gone AS (DELETE FROM filed WHERE number = ANY(%(numbers)s)"
        " RETURNING segment), left_by AS (SELECT segment, count(*) AS dead FROM gone"
        " GROUP BY segment) UPDATE segment AS s SET dead = s.dead + l.dead"
        " FROM left_by AS l WHERE s.segment = l.segment RETURNING s.segment",
        {"numbers": list(numbers)},
    )
    _tidy(db, [row[0] for row in rows])


def _tidy(db: Postgres, segments: Sequence[int]) -> None:
    """Strip segments of which most is dead."""
    rows = db.rows(
        "SELECT segment FROM segment WHERE segment = ANY(%(segments)s)"
        " AND (dead >= size OR dead * 2 > size)",
        {"segments": list(segments)},
    )
    for (segment,) in rows:
        _strip(db, segment)


def forget_dead(db: Postgres, people: Sequence[str]) -> None:
    """Leave nothing in the segments of people of sessions that are no more."""
    rows = db.rows(
        "SELECT segment FROM segment WHERE dead > 0 AND holder IN"
        " (SELECT holder FROM holder WHERE person = ANY(%(people)s))",
        {"people": list(people)},
    )
    for (segment,) in rows:
        _strip(db, segment)


def _strip(db: Postgres, segment: int) -> None:
    """Take out of a segment what it says of sessions that are no more."""
    values = {"segment": segment}
    filed = db.rows("SELECT number FROM filed WHERE segment = %(segment)s", values)
    alive = {row[0] for row in filed}
    sql = "SELECT forms, packed FROM post WHERE segment = %(segment)s"
    changed = {
        forms: left
        for forms, packed in db.rows(sql, values)
        if len(left := living_in(packed, alive)) < len(packed)
    }
    db.execute(
        "UPDATE post AS p SET packed = c.packed"
        " FROM unnest(%(forms)s::text[], %(packed)s::bytea[]) AS c (forms, packed)"
        " WHERE p.segment = %(segment)s AND p.forms = c.forms",
        {**values, "forms": list(changed), "packed": list(changed.values())},
    )
    db.execute("DELETE FROM post WHERE segment = %(segment)s AND packed = ''", values)
    if not alive:
        db.execute("DELETE FROM segment WHERE segment = %(segment)s", values)
    db.execute(
        "UPDATE segment SET dead = 0, size = %(size)s WHERE segment = %(segment)s",
        {**values, "size": len(alive)},
    )
