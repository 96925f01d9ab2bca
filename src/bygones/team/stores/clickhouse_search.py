"""Text search on ClickHouse: one row per term and text.

The table ``posting`` is sorted by term, so that its primary index is the inverted
index. ClickHouse's own text index stores no positions and no frequencies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bygones.store.text_index import form_prefix, stem_terms
from bygones.team.contract import AccessScope, ScopedDatabase
from bygones.team.text_engine import TermFilter
from bygones.team.text_query import (
    MatchQuery,
    SessionPostings,
    SqlCondition,
    TermSequence,
    TextQuery,
    split_required_match,
)

_LAST_CHARACTER = "\U0010ffff"
_SELECT_TEXTS = "SELECT number, text, kind, record FROM {posting} AS p"


class ClickHouseTextSearch:
    """The :class:`TextSearchBackend` of ClickHouse for one scope."""

    def __init__(self, database: ScopedDatabase, scope: AccessScope) -> None:
        self._database = database
        self._scope = scope

    def refresh_scope(self) -> object:
        rows = self._database.db.rows(
            "SELECT holder, person, teams FROM holder FINAL ORDER BY holder", {}
        )
        self._database.set_holders(
            [
                holder
                for holder, person, teams in rows
                if self._scope.can_see(person, teams)
            ]
        )
        # No number is used twice, so this changes whenever a session is replaced.
        sql = "SELECT count(*), groupBitXor(number) FROM {session} AS s"
        return self._database.rows(sql)

    def totals(self) -> tuple[int, int]:
        row = self._database.first_row("SELECT count(*), sum(length) FROM {text} AS t")
        return (int(row[0]), int(row[1])) if row else (0, 0)

    def terms(self, wanted: TermFilter) -> list[tuple[str, int]]:
        values: dict[str, object] = {"exact": list(wanted.exact)}
        conditions = ["term IN %(exact)s"] if wanted.exact else []
        prefixes = [form_prefix(stem) for stem in wanted.stems]
        prefixes += [wanted.prefix] if wanted.prefix is not None else []
        for index, prefix in enumerate(prefixes):
            values |= {f"low{index}": prefix, f"high{index}": prefix + _LAST_CHARACTER}
            conditions.append(f"(term >= %(low{index})s AND term < %(high{index})s)")
        if wanted.substring is not None:
            values["substring"] = wanted.substring
            conditions.append("position(term, %(substring)s) > 0")
        if not conditions:
            return []
        rows = self._database.rows(
            "SELECT term, count(*) FROM {posting} AS p"  # noqa: S608 (constants)
            f" WHERE {' OR '.join(conditions)} GROUP BY term ORDER BY term",
            **values,
        )
        found = [(term, int(count)) for term, count in rows]
        return _filter_by_stem(found, wanted) if wanted.stems else found

    def count_texts(
        self, queries: Sequence[TextQuery]
    ) -> list[tuple[int, int, int, int]]:
        condition = SqlCondition(self._database.db, _match_source_sql)
        statements: list[str] = []
        for index, query in enumerate(queries):
            match, rest = split_required_match(query)
            source = "{text}" if match is None else condition.match_source(match)
            where = f" WHERE {condition.compile(rest)}" if rest is not None else ""
            statements.append(
                f"SELECT {index:d}, number, kind, uniqExact(text)"  # noqa: S608 (constants)
                f" FROM {source} AS t{where} GROUP BY number, kind"
            )
        rows = self._database.rows(" UNION ALL ".join(statements), **condition.values)
        return [
            (int(index), number, int(kind), int(count))
            for index, number, kind, count in rows
        ]

    def load_postings(
        self, sessions: Sequence[int], terms: Sequence[str], *, include_unmatched: bool
    ) -> dict[int, SessionPostings]:
        found = {session: SessionPostings({}, {}) for session in sessions}
        if terms:
            rows = self._database.rows(
                "SELECT number, text, record, kind, length, term, positions"
                " FROM {posting} AS p"
                " WHERE term IN %(terms)s AND number IN %(sessions)s",
                sessions=list(sessions),
                terms=list(terms),
            )
            for number, text, record, kind, length, term, positions in rows:
                found[number].text_facts[text] = (record, kind, length)
                found[number].positions.setdefault(term, {})[text] = positions
        if include_unmatched:
            rows = self._database.rows(
                "SELECT number, text, record, kind, length FROM {text} AS t"
                " WHERE number IN %(sessions)s",
                sessions=list(sessions),
            )
            for number, text, record, kind, length in rows:
                found[number].text_facts[text] = (record, kind, length)
        return found


def _filter_by_stem(
    found: Sequence[tuple[str, int]], wanted: TermFilter
) -> list[tuple[str, int]]:
    """Drop terms that start like a form of a stem, but have another one."""
    exact, stems = set(wanted.exact), set(wanted.stems)
    own_stems = stem_terms([term for term, _ in found])
    return [
        row
        for row, stem in zip(found, own_stems, strict=True)
        if stem in stems
        or row[0] in exact
        or (wanted.prefix is not None and row[0].startswith(wanted.prefix))
    ]


def _match_source_sql(query: MatchQuery, bind: Callable[[object], str]) -> str:
    single = [phrase[0] for phrase in query.phrases if len(phrase) == 1]
    parts = [f"{_SELECT_TEXTS} WHERE term IN {bind(single)}"] if single else []
    parts += [_phrase_sql(phrase, bind) for phrase in query.phrases if len(phrase) > 1]
    return f"({' UNION ALL '.join(parts)})"


def _phrase_sql(phrase: TermSequence, bind: Callable[[object], str]) -> str:
    """Return the statement for texts in which terms follow one another."""
    positions = ", ".join(
        f"anyIf(positions, term = {bind(term)}) AS p{index}"
        for index, term in enumerate(phrase)
    )
    follows = " AND ".join(
        f"has(p{step}, start + {step})" for step in range(1, len(phrase))
    )
    return (
        "SELECT number, text, kind, record FROM (SELECT number, text,"  # noqa: S608 (constants)
        f" any(kind) AS kind, any(record) AS record, {positions} FROM {{posting}} AS p"
        f" WHERE term IN {bind(sorted(set(phrase)))} GROUP BY number, text)"
        f" WHERE arrayExists(start -> {follows}, p0)"
    )
