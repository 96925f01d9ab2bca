"""Texts and terms, as ClickHouse finds them for one scope: by postings."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from recollect.team.asking import Match, Posting, Question, Run
from recollect.team.conditions import Condition, widest
from recollect.team.database import Sight

__all__ = ["ClickHouseWords"]

_LAST = "\U0010ffff"
_POSTINGS = "SELECT number, text, kind, record FROM {post} AS p"


class ClickHouseWords:
    """What one scope may know of texts and terms."""

    def __init__(self, sight: Sight) -> None:
        self._sight = sight

    def totals(self) -> tuple[int, int]:
        """Return how many texts there are, and how many terms in all of them."""
        row = self._sight.first("SELECT count(*), sum(length) FROM {said} AS s")
        return (int(row[0]), int(row[1])) if row else (0, 0)

    def frequencies(self, terms: Sequence[str]) -> dict[str, int]:
        """Return how many texts have each of some terms."""
        rows = self._sight.rows(
            "SELECT term, count(*) FROM {post} AS p WHERE term IN %(terms)s"
            " GROUP BY term",
            terms=list(terms),
        )
        return {term: int(count) for term, count in rows}

    def beginning(self, start: str) -> list[tuple[str, int]]:
        """Return terms that begin so in their order, and how many texts have each."""
        rows = self._sight.rows(
            "SELECT term, count(*) FROM {post} AS p"
            " WHERE term >= %(start)s AND term < %(last)s GROUP BY term ORDER BY term",
            start=start,
            last=start + _LAST,
        )
        return [(term, int(count)) for term, count in rows]

    def containing(self, piece: str) -> list[str]:
        """Return terms that have a piece somewhere in them."""
        rows = self._sight.rows(
            "SELECT DISTINCT term FROM {post} AS p"
            " WHERE position(term, %(piece)s) > 0 ORDER BY term",
            piece=piece,
        )
        return [row[0] for row in rows]

    def counts(self, asked: Question) -> list[tuple[int, int, int]]:
        """Return how many texts are found, by session and kind."""
        condition = Condition(self._sight.db, _matching)
        found, rest = widest(asked)
        table = "{said}" if found is None else condition.matching(found)
        where = f" WHERE {condition.of(rest)}" if rest is not None else ""
        rows = self._sight.rows(
            f"SELECT number, kind, uniqExact(text) FROM {table} AS t{where}"  # noqa: S608 (our names)
            " GROUP BY number, kind",
            **condition.values,
        )
        return [(number, int(kind), int(count)) for number, kind, count in rows]

    def postings(
        self, session: int, terms: Sequence[str], *, everything: bool
    ) -> list[Posting]:
        """Return the texts of a session that have a term, or all of its texts."""
        places: dict[int, dict[str, Sequence[int]]] = {}
        if terms:
            rows = self._sight.rows(
                "SELECT text, term, places FROM {post} AS p"
                " WHERE term IN %(terms)s AND number = %(number)s",
                number=session,
                terms=list(terms),
            )
            for text, term, found in rows:
                places.setdefault(text, {})[term] = found
        if not places and not everything:
            return []
        sql = "SELECT text, record, kind, length FROM {said} AS s"
        sql += " WHERE number = %(number)s"
        sql += "" if everything else " AND text IN %(texts)s"
        rows = self._sight.rows(sql, number=session, texts=list(places))
        return [
            Posting(text, record, kind, length, places.get(text, {}))
            for text, record, kind, length in rows
        ]


def _matching(asked: Match, add: Callable[[object], str]) -> str:
    single = [run[0] for run in asked.runs if len(run) == 1]
    parts = [f"{_POSTINGS} WHERE term IN {add(single)}"] if single else []
    parts += [_row(run, add) for run in asked.runs if len(run) > 1]
    return f"({' UNION ALL '.join(parts)})"


def _row(run: Run, add: Callable[[object], str]) -> str:
    """Return the texts in which terms stand one right behind the other."""
    each = ", ".join(
        f"anyIf(places, term = {add(term)}) AS p{at}" for at, term in enumerate(run)
    )
    later = " AND ".join(f"has(p{step}, at + {step})" for step in range(1, len(run)))
    return (
        "SELECT number, text, kind, record FROM (SELECT number, text,"  # noqa: S608 (our names)
        f" any(kind) AS kind, any(record) AS record, {each} FROM {{post}} AS p"
        f" WHERE term IN {add(sorted(set(run)))} GROUP BY number, text)"
        f" WHERE arrayExists(at -> {later}, p0)"
    )
