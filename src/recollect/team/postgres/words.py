"""Texts and terms, as PostgreSQL finds them for one scope."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from recollect.team.asking import Match, Posting, Question
from recollect.team.conditions import Condition, widest
from recollect.team.database import Sight
from recollect.team.postgres.terms import OVERLAP, PIECE, query_of

__all__ = ["PostgresWords"]

_LAST = "\U0010ffff"


class PostgresWords:
    """What one scope may know of texts and terms."""

    def __init__(self, sight: Sight) -> None:
        self._sight = sight

    def totals(self) -> tuple[int, int]:
        """Return how many texts there are, and how many terms in all of them."""
        row = self._sight.first(
            "SELECT coalesce(sum(texts), 0)::bigint, coalesce(sum(terms), 0)::bigint"
            " FROM {total} AS t"
        )
        return (row[0], row[1]) if row else (0, 0)

    def frequencies(self, terms: Sequence[str]) -> dict[str, int]:
        """Return how many texts have each of some terms."""
        rows = self._sight.rows(
            "SELECT term, sum(texts)::bigint FROM {word} AS w"
            " WHERE term = ANY(%(terms)s) GROUP BY term",
            terms=list(terms),
        )
        return dict(rows)

    def beginning(self, start: str) -> list[tuple[str, int]]:
        """Return terms that begin so in their order, and how many texts have each."""
        return self._sight.rows(
            "SELECT term, sum(texts)::bigint FROM {word} AS w"
            " WHERE term >= %(start)s AND term < %(last)s GROUP BY term ORDER BY term",
            start=start,
            last=start + _LAST,
        )

    def containing(self, piece: str) -> list[str]:
        """Return terms that have a piece somewhere in them."""
        rows = self._sight.rows(
            "SELECT DISTINCT term FROM {word} AS w WHERE strpos(term, %(piece)s) > 0"
            " ORDER BY term",
            piece=piece,
        )
        return [row[0] for row in rows]

    def _matched(self, session: int, terms: Sequence[str]) -> list[Posting]:
        """Return the texts of a session that have a term, in one question."""
        rows = self._sight.rows(
            "SELECT s.text, s.piece, u.lexeme, u.positions, s.record, s.kind,"
            " s.length, r.uuid, r.source, r.start, r.length"
            " FROM {said} AS s JOIN {record} AS r"
            " ON r.number = s.number AND r.record = s.record,"
            " unnest(s.tsv) AS u WHERE s.number = %(number)s"
            " AND s.tsv @@ %(asked)s::tsquery AND u.lexeme = ANY(%(terms)s)"
            " ORDER BY s.text, s.piece",
            number=session,
            asked=query_of([(term,) for term in terms]),
            terms=list(terms),
        )
        facts: dict[int, tuple[Any, ...]] = {}
        places: dict[int, dict[str, list[int]]] = {}
        for text, piece, term, found, *rest in rows:
            _add_places(places.setdefault(text, {}), piece, term, found)
            if text not in facts or not piece:
                facts[text] = tuple(rest)
        return [
            Posting(text, record, kind, length, places[text], tuple(where))
            for text, (record, kind, length, *where) in facts.items()
        ]

    def counts(self, asked: Question) -> list[tuple[int, int, int]]:
        """Return how many texts are found, by session and kind."""
        condition = Condition(self._sight.db, _matching)
        found, rest = widest(asked)
        if found is None:
            table = "(SELECT * FROM {said} AS a WHERE piece = 0)"
        else:
            table = condition.matching(found)
        where = f" WHERE {condition.of(rest)}" if rest is not None else ""
        return self._sight.rows(
            f"SELECT number, kind, count(DISTINCT text) FROM {table} AS t{where}"  # noqa: S608 (our names)
            " GROUP BY number, kind",
            **condition.values,
        )

    def postings(
        self, session: int, terms: Sequence[str], *, everything: bool
    ) -> list[Posting]:
        """Return the texts of a session that have a term, or all of its texts."""
        if terms and not everything:
            return self._matched(session, terms)
        places: dict[int, dict[str, list[int]]] = {}
        if terms:
            rows = self._sight.rows(
                "SELECT s.text, s.piece, u.lexeme, u.positions"
                " FROM {said} AS s, unnest(s.tsv) AS u WHERE s.number = %(number)s"
                " AND s.tsv @@ %(asked)s::tsquery AND u.lexeme = ANY(%(terms)s)"
                " ORDER BY s.text, s.piece",
                number=session,
                asked=query_of([(term,) for term in terms]),
                terms=list(terms),
            )
            for text, piece, term, found in rows:
                _add_places(places.setdefault(text, {}), piece, term, found)
        sql = "SELECT text, record, kind, length FROM {said} AS s"
        sql += " WHERE number = %(number)s AND piece = 0"
        sql += "" if everything else " AND text = ANY(%(texts)s)"
        rows = self._sight.rows(sql, number=session, texts=list(places))
        return [
            Posting(text, record, kind, length, places.get(text, {}))
            for text, record, kind, length in rows
        ]


def _add_places(
    places: dict[str, list[int]], piece: int, term: str, found: Sequence[int]
) -> None:
    """Add where a term stands in a piece; what two pieces share counts once."""
    own = places.setdefault(term, [])
    ahead = piece * (PIECE - OVERLAP)
    known = set(own[-OVERLAP:])
    own += [at + ahead for at in found if at + ahead not in known]


def _matching(asked: Match, add: Callable[[object], str]) -> str:
    return f"matching({add(query_of(asked.runs))}::tsquery)"
