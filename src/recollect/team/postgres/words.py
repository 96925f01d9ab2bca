"""Texts and terms, as PostgreSQL finds them for one scope."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from recollect.team.asking import (
    All,
    Any,
    Every,
    Kinds,
    Level,
    Match,
    Nothing,
    Posting,
    Question,
    Records,
    Sessions,
    Unscored,
    Without,
)
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

    def counts(self, asked: Question) -> list[tuple[int, int, int]]:
        """Return how many texts are found, by session and kind."""
        condition = _Condition(self._sight)
        found, rest = _widest(asked)
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
                own = places.setdefault(text, {}).setdefault(term, [])
                ahead = piece * (PIECE - OVERLAP)
                known = set(own[-OVERLAP:])
                own += [at + ahead for at in found if at + ahead not in known]
        sql = "SELECT text, record, kind, length FROM {said} AS s"
        sql += " WHERE number = %(number)s AND piece = 0"
        sql += "" if everything else " AND text = ANY(%(texts)s)"
        rows = self._sight.rows(sql, number=session, texts=list(places))
        return [
            Posting(text, record, kind, length, places.get(text, {}))
            for text, record, kind, length in rows
        ]


def _widest(asked: Question) -> tuple[Match | None, Question | None]:
    """Return a match that all texts have to fit, and what else they have to."""
    if isinstance(asked, Match):
        return asked, None
    if isinstance(asked, Unscored | Level):
        return _widest(asked.asked)
    if isinstance(asked, All):
        for at, part in enumerate(asked.asked):
            found, rest = _widest(part)
            if found is not None:
                others = (*asked.asked[:at], *asked.asked[at + 1 :])
                others += (rest,) if rest is not None else ()
                return found, All(others) if others else None
    return None, asked


class _Condition:
    """Turns a question into a condition on texts."""

    def __init__(self, sight: Sight) -> None:
        self._db = sight.db
        self.values: dict[str, object] = {}

    def matching(self, asked: Match) -> str:
        return f"matching({self._add(query_of(asked.runs))}::tsquery)"

    def _add(self, value: object) -> str:
        return f"%({self._key(value)})s"

    def _key(self, value: object) -> str:
        key = f"v{len(self.values)}"
        self.values[key] = value
        return key

    def of(self, asked: Question) -> str:
        if isinstance(asked, Match):
            found = self.matching(asked)
            return f"(t.number, t.text) IN (SELECT number, text FROM {found})"  # noqa: S608 (our names)
        if isinstance(asked, Any | All):
            joint = " OR " if isinstance(asked, Any) else " AND "
            return f"({joint.join(self._each(asked))})"
        if isinstance(asked, Unscored | Level | Without):
            sign = "NOT " if isinstance(asked, Without) else ""
            return sign + self.of(asked.asked)
        return self._fact(asked)

    def _fact(self, asked: Every | Nothing | Sessions | Records | Kinds) -> str:
        if isinstance(asked, Sessions):
            return f"({self._db.among('t.number', self._key(list(asked.numbers)))})"
        if isinstance(asked, Kinds):
            kinds = self._db.among("t.kind", self._key(list(asked.kinds)))
            return f"(t.number = {self._add(asked.session)} AND {kinds})"
        if isinstance(asked, Records):
            pairs = self._key(sorted(asked.pairs))
            return f"({self._db.pairs('t.number, t.record', pairs)})"
        return "true" if isinstance(asked, Every) else "false"

    def _each(self, asked: Any | All) -> Iterator[str]:
        return map(self.of, asked.asked)
