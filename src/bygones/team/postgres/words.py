"""Texts and terms, as PostgreSQL finds them for one scope."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence

from bygones.team.asking import Match, Posted, Question
from bygones.team.conditions import Condition, widest
from bygones.team.contract import Role, Scope
from bygones.team.database import Sight
from bygones.team.engine import Learned
from bygones.team.postgres.terms import counts_in, posted_in, query_of, sign_of

__all__ = ["PostgresWords"]

_LAST = "\U0010ffff"


class PostgresWords:
    """What one scope may know of texts and terms."""

    def __init__(self, sight: Sight, scope: Scope) -> None:
        self._sight = sight
        self._scope = scope
        self._totals = (0, 0)

    def standing(self) -> object:
        """Look whose rows may be seen; return what changes when these do."""
        scope = self._scope
        rows = self._sight.db.rows(
            "SELECT * FROM standing(%(person)s, %(teams)s::text[], %(all)s)",
            {
                "person": scope.person,
                "teams": list(scope.teams) if scope.role is Role.TEAM else [],
                "all": scope.role is Role.AUDITOR,
            },
        )
        self._sight.look([row[0] for row in rows])
        self._totals = sum(row[1] for row in rows), sum(row[2] for row in rows)
        return rows

    def totals(self) -> tuple[int, int]:
        """Return how many texts there are, and how many terms in all of them."""
        return self._totals

    def learn(
        self, groups: Sequence[str], terms: Sequence[str], alive: Container[int]
    ) -> Learned:
        """Return all terms of some groups with where they stand, and other terms."""
        rows = self._sight.rows(
            "SELECT term, NULL::bytea, sum(texts)::bigint FROM {word} AS w"
            " WHERE forms = ANY(%(groups)s) OR term = ANY(%(terms)s) GROUP BY term"
            " UNION ALL SELECT forms, packed, NULL FROM {post} AS p"
            " WHERE forms = ANY(%(groups)s)",
            groups=list(groups),
            terms=list(terms),
        )
        found = Learned({}, {})
        for name, packed, texts in rows:
            if packed is None:
                found.words[name] = texts
            else:
                found.tallies.setdefault(name, {}).update(counts_in(packed, alive))
        return found

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

    def counts(self, asked: Sequence[Question]) -> list[tuple[int, int, int, int]]:
        """Return how many texts are found, by question, session and kind."""
        condition = Condition(self._sight.db, _matching)
        parts: list[str] = []
        for at, one in enumerate(asked):
            found, rest = widest(one)
            table = "(SELECT * FROM {said} AS a WHERE piece = 0)"
            if found is not None:
                table = condition.matching(found)
            where = f" WHERE {condition.of(rest)}" if rest is not None else ""
            parts.append(
                f"SELECT {at:d}, number, kind, count(DISTINCT text)"  # noqa: S608 (our names)
                f" FROM {table} AS t{where} GROUP BY number, kind"
            )
        return self._sight.rows(" UNION ALL ".join(parts), **condition.values)

    def shared(self, one: Match, other: Match) -> list[tuple[int, int, int]]:
        """Return how many texts two matches both find, by session and kind."""
        return self._sight.rows(
            "SELECT number, kind, count(*) FROM"
            " matching_both(%(one)s::tsquery, %(other)s::tsquery) AS t"
            " GROUP BY number, kind",
            one=query_of(one.runs),
            other=query_of(other.runs),
        )

    def postings(
        self, sessions: Sequence[int], terms: Sequence[str], *, everything: bool
    ) -> dict[int, Posted]:
        """Return where terms stand in the texts of sessions."""
        rows = self._sight.rows(
            "SELECT s.number, s.slot, s.packed FROM {stand} AS f JOIN {stand} AS s"
            " ON s.number = f.number AND (s.slot = 0 OR s.slot IN"
            " (SELECT 1 + mod(sign, f.slots) FROM unnest(%(signs)s::bigint[]) AS sign))"
            " WHERE f.slot = 0 AND f.number = ANY(%(numbers)s)",
            numbers=list(sessions),
            signs=[sign_of(term) for term in terms],
        )
        slots: dict[int, dict[int, bytes]] = {}
        for number, slot, packed in rows:
            slots.setdefault(number, {})[slot] = packed
        return {
            number: posted_in(own, terms, everything=everything)
            for number, own in slots.items()
        }


def _matching(asked: Match, add: Callable[[object], str]) -> str:
    return f"matching({add(query_of(asked.runs))}::tsquery)"
