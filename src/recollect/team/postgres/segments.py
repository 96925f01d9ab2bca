"""Segments: counts of words by session, packed for those that were written together.

A session is filed in the segment in which it was written. Whenever a holder has many
segments of a level they are joined to one of the next, so that a word is read from few
rows. A segment of which most sessions are no more is made anew of what is left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from recollect.team.packing import new_numbers
from recollect.team.postgres.connect import Postgres

__all__ = ["add_segment", "leave_segments"]

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
        _make_anew(db, [segment], is_all=False)


def leave_segments(db: Postgres, numbers: Sequence[int], *, is_erased: bool) -> None:
    """Take sessions out of their segments; if erased, nothing of them stays there.

    Their texts must be gone already.
    """
    rows = db.rows(
        "WITH gone AS (DELETE FROM filed WHERE number = ANY(%(numbers)s)"
        " RETURNING segment), left_by AS (SELECT segment, count(*) AS dead FROM gone"
        " GROUP BY segment) UPDATE segment AS s SET dead = s.dead + l.dead"
        " FROM left_by AS l WHERE s.segment = l.segment RETURNING s.segment",
        {"numbers": list(numbers)},
    )
    _make_anew(db, [row[0] for row in rows], is_all=is_erased)


def _make_anew(db: Postgres, segments: Sequence[int], *, is_all: bool) -> None:
    """Make segments anew that are empty or mostly dead, or all of them."""
    rows = db.rows(
        "SELECT segment FROM segment WHERE segment = ANY(%(segments)s)"
        " AND (dead >= size OR dead > 0 AND (dead * 2 > size OR %(is_all)s))",
        {"segments": list(segments), "is_all": is_all},
    )
    values = {"segments": [row[0] for row in rows]}
    if not rows:
        return
    db.execute("DELETE FROM post WHERE segment = ANY(%(segments)s)", values)
    db.execute(
        "INSERT INTO post SELECT holder, segment, forms, string_agg(int8send(number)"
        " || int4send(kind::integer << 24 | texts::integer), '')"
        " FROM (SELECT s.holder, f.segment, w.forms, s.number, s.kind,"
        " count(DISTINCT s.text) AS texts FROM filed AS f"
        " JOIN said AS s USING (number) CROSS JOIN LATERAL unnest(s.tsv) AS u"
        " JOIN word AS w ON w.term = u.lexeme AND w.holder = s.holder"
        " WHERE f.segment = ANY(%(segments)s)"
        " GROUP BY 1, 2, 3, 4, 5) AS counted GROUP BY holder, segment, forms",
        values,
    )
    db.execute(
        "DELETE FROM segment WHERE segment = ANY(%(segments)s)"
        " AND NOT EXISTS"
        " (SELECT 1 FROM filed AS f WHERE f.segment = segment.segment)",
        values,
    )
    db.execute(
        "UPDATE segment SET dead = 0, size = (SELECT count(*) FROM filed AS f"
        " WHERE f.segment = segment.segment) WHERE segment = ANY(%(segments)s)",
        values,
    )
