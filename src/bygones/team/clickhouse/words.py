"""Texts and terms, as ClickHouse finds them for one scope: by postings."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence

from bygones.model.buckets import KINDS
from bygones.store.search import start_of_forms
from bygones.team.asking import All, Match, Posted, Question, Run
from bygones.team.conditions import Condition, widest
from bygones.team.contract import Scope
from bygones.team.database import Sight
from bygones.team.engine import Learned, group_of

__all__ = ["ClickHouseWords"]

_LAST = "\U0010ffff"
_POSTINGS = "SELECT number, text, kind, record FROM {post} AS p"


class ClickHouseWords:
    """What one scope may know of texts and terms."""

    def __init__(self, sight: Sight, scope: Scope) -> None:
        self._sight = sight
        self._scope = scope

    def standing(self) -> object:
        """Look whose rows may be seen; return what changes when these do."""
        rows = self._sight.db.rows(
            "SELECT holder, person, teams FROM holder FINAL ORDER BY holder", {}
        )
        scope = self._scope
        self._sight.look([row[0] for row in rows if scope.sees(row[1], row[2])])
        # No number is used twice: whatever is replaced changes what they make together.
        sql = "SELECT count(*), groupBitXor(number) FROM {session} AS s"
        return self._sight.rows(sql)

    def totals(self) -> tuple[int, int]:
        """Return how many texts there are, and how many terms in all of them."""
        row = self._sight.first("SELECT count(*), sum(length) FROM {said} AS s")
        return (int(row[0]), int(row[1])) if row else (0, 0)

    def learn(
        self, groups: Sequence[str], terms: Sequence[str], alive: Container[int]
    ) -> Learned:
        """Return all terms of some groups with where they stand, and other terms."""
        del alive  # what is dead is seen by nobody
        single = {group[1:] for group in groups if group[0] == "="} | set(terms)
        values: dict[str, object] = {"terms": sorted(single)}
        parts = ["term IN %(terms)s"] if single else []
        for at, stem in enumerate(one for one in groups if one[0] != "="):
            values |= {f"low{at}": start_of_forms(stem)}
            values |= {f"high{at}": start_of_forms(stem) + _LAST}
            parts.append(f"(term >= %(low{at})s AND term < %(high{at})s)")
        if not parts:
            return Learned({}, {})
        rows = self._sight.rows(
            f"SELECT term, count(*) FROM {{post}} AS p WHERE {' OR '.join(parts)}"  # noqa: S608 (our names)
            " GROUP BY term",
            **values,
        )
        names = [row[0] for row in rows]
        found = dict(zip(names, group_of(names), strict=True))
        chosen = {term: group for term, group in found.items() if group in set(groups)}
        kept = chosen.keys() | single
        return Learned(
            {term: int(count) for term, count in rows if term in kept},
            self._tallies(chosen),
        )

    def _tallies(self, chosen: dict[str, str]) -> dict[str, dict[int, int]]:
        """Return how many texts have a term of each group, by bucket."""
        tallies: dict[str, dict[int, int]] = {}
        if not chosen:
            return tallies
        rows = self._sight.rows(
            "SELECT transform(term, %(terms)s, %(groups)s, '') AS forms, number, kind,"
            " uniqExact(text) FROM {post} AS p WHERE term IN %(terms)s"
            " GROUP BY forms, number, kind",
            terms=list(chosen),
            groups=list(chosen.values()),
        )
        for forms, number, kind, count in rows:
            own = tallies.setdefault(forms, {})
            own[int(number) * KINDS + int(kind)] = int(count)
        return tallies

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

    def counts(self, asked: Sequence[Question]) -> list[tuple[int, int, int, int]]:
        """Return how many texts are found, by question, session and kind."""
        condition = Condition(self._sight.db, _matching)
        parts: list[str] = []
        for at, one in enumerate(asked):
            found, rest = widest(one)
            table = "{said}" if found is None else condition.matching(found)
            where = f" WHERE {condition.of(rest)}" if rest is not None else ""
            parts.append(
                f"SELECT {at:d}, number, kind, uniqExact(text) FROM {table} AS t{where}"  # noqa: S608 (our names)
                " GROUP BY number, kind"
            )
        rows = self._sight.rows(" UNION ALL ".join(parts), **condition.values)
        return [(int(at), number, int(kind), int(n)) for at, number, kind, n in rows]

    def shared(self, one: Match, other: Match) -> list[tuple[int, int, int]]:
        """Return how many texts two matches both find, by session and kind."""
        return [row[1:] for row in self.counts([All((one, other))])]

    def postings(
        self, sessions: Sequence[int], terms: Sequence[str], *, everything: bool
    ) -> dict[int, Posted]:
        """Return where terms stand in the texts of sessions."""
        found = {session: Posted({}, {}) for session in sessions}
        if terms:
            rows = self._sight.rows(
                "SELECT number, text, record, kind, length, term, places"
                " FROM {post} AS p WHERE term IN %(terms)s AND number IN %(numbers)s",
                numbers=list(sessions),
                terms=list(terms),
            )
            for number, text, *facts, term, places in rows:
                record, kind, length = facts
                found[number].facts[text] = (record, kind, length)
                found[number].places.setdefault(term, {})[text] = places
        if everything:
            sql = "SELECT number, text, record, kind, length FROM {said} AS s"
            sql += " WHERE number IN %(numbers)s"
            for number, text, *facts in self._sight.rows(sql, numbers=list(sessions)):
                record, kind, length = facts
                found[number].facts[text] = (record, kind, length)
        return found


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
