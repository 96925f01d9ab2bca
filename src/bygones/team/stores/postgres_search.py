"""Text search on PostgreSQL: one term vector per text, found by a GIN index.

A vector holds the terms of our own tokenizer with their positions; PostgreSQL's parsers
and dictionaries are not used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import add

from bygones.team.contract import AccessRole, AccessScope, ScopedDatabase
from bygones.team.text_engine import TermFilter
from bygones.team.text_query import (
    MatchQuery,
    SessionPostings,
    SqlCondition,
    TextQuery,
    split_required_match,
    split_sessions,
)

PIECE_TERMS = 8_000
"""Terms per vector. PostgreSQL stores no position above 16,383, so the terms of longer
texts are split into several rows (pieces)."""
PIECE_OVERLAP = 32
"""Terms that two consecutive pieces share, so that short phrases are never split."""
_PIECE_STEP = PIECE_TERMS - PIECE_OVERLAP
_POSITIONS = [f":{position}" for position in range(1, PIECE_TERMS + 1)]
_LAST_CHARACTER = "\U0010ffff"


def iter_vectors(terms: Sequence[str]) -> Iterator[str]:
    """Yield the vectors of a text as literals, one per piece.

    Terms consist of letters and digits, so nothing needs to be escaped. PostgreSQL
    merges the positions of repeated terms.
    """
    start = 0
    while True:
        yield " ".join(map(add, terms[start : start + PIECE_TERMS], _POSITIONS))
        start += _PIECE_STEP
        if start + PIECE_OVERLAP >= len(terms):
            return


def format_tsquery(phrases: Sequence[Sequence[str]]) -> str:
    """Return the ``tsquery`` for texts that contain one of some phrases."""
    return " | ".join(
        "(" + " <-> ".join(f"'{term}'" for term in phrase) + ")" for phrase in phrases
    )


class PostgresTextSearch:
    """The :class:`TextSearchBackend` of PostgreSQL for one scope."""

    def __init__(self, database: ScopedDatabase, scope: AccessScope) -> None:
        self._database = database
        self._scope = scope
        self._totals = (0, 0)

    def refresh_scope(self) -> object:
        scope = self._scope
        rows = self._database.db.rows(
            "SELECT * FROM visible_holders(%(person)s, %(teams)s::text[], %(all)s)",
            {
                "person": scope.person,
                "teams": list(scope.teams) if scope.role is AccessRole.TEAM else [],
                "all": scope.role is AccessRole.AUDITOR,
            },
        )
        self._database.set_holders([row[0] for row in rows])
        self._totals = sum(row[1] for row in rows), sum(row[2] for row in rows)
        return rows

    def totals(self) -> tuple[int, int]:
        return self._totals

    def terms(self, wanted: TermFilter) -> list[tuple[str, int]]:
        conditions: list[str] = []
        if wanted.exact:
            conditions.append("term = ANY(%(exact)s)")
        if wanted.stems:
            conditions.append("stem = ANY(%(stems)s)")
        if wanted.prefix is not None:
            conditions.append("(term >= %(prefix)s AND term < %(end)s)")
        if wanted.substring is not None:
            conditions.append("strpos(term, %(substring)s) > 0")
        if not conditions:
            return []
        return self._database.rows(
            "SELECT term, sum(texts)::bigint FROM {term} AS t"  # noqa: S608 (constants)
            f" WHERE {' OR '.join(conditions)} GROUP BY term ORDER BY term",
            exact=list(wanted.exact),
            stems=list(wanted.stems),
            prefix=wanted.prefix,
            end=(wanted.prefix or "") + _LAST_CHARACTER,
            substring=wanted.substring,
        )

    def count_texts(
        self, queries: Sequence[TextQuery]
    ) -> list[tuple[int, int, int, int]]:
        condition = SqlCondition(self._database.db, _match_source_sql)
        statements: list[str] = []
        for index, query in enumerate(queries):
            match, rest = split_required_match(query)
            if match is None:
                source = "(SELECT * FROM {text} AS a WHERE piece = 0)"
            else:
                sessions, rest = split_sessions(rest)
                arguments = f"{condition.bind(format_tsquery(match.phrases))}::tsquery"
                if sessions is not None:
                    arguments += f", {condition.bind(list(sessions))}::bigint[]"
                if rest is None:
                    statements.append(
                        f"SELECT {index:d}, number, kind, texts"  # noqa: S608 (constants)
                        f" FROM count_matching({arguments})"
                    )
                    continue
                source = f"matching({arguments})"
            where = f" WHERE {condition.compile(rest)}" if rest is not None else ""
            statements.append(
                f"SELECT {index:d}, number, kind, count(*)"  # noqa: S608 (constants)
                f" FROM {source} AS t{where} GROUP BY number, kind"
            )
        return self._database.rows(" UNION ALL ".join(statements), **condition.values)

    def load_postings(
        self, sessions: Sequence[int], terms: Sequence[str], *, include_unmatched: bool
    ) -> dict[int, SessionPostings]:
        found = {session: SessionPostings({}, {}) for session in sessions}
        if terms:
            rows = self._database.rows(
                "SELECT number, text, piece, record, kind, length, lexeme, positions"
                " FROM {text} AS t"
                " CROSS JOIN LATERAL unnest(keep_terms(t.terms, %(terms)s))"
                " WHERE number = ANY(%(sessions)s) AND t.terms @@ %(query)s::tsquery"
                " ORDER BY number, text, piece",
                sessions=list(sessions),
                query=format_tsquery([(term,) for term in terms]),
                terms=list(terms),
            )
            for number, text, piece, *facts, term, positions in rows:
                postings = found[number]
                by_text = postings.positions.setdefault(term, {})
                offset = piece * _PIECE_STEP - 1
                # The first terms of a piece are the last ones of the piece before.
                overlap = PIECE_OVERLAP if piece else 0
                own = [offset + at for at in positions if at > overlap]
                if text in by_text:
                    by_text[text] = [*by_text[text], *own]
                elif own:
                    by_text[text] = own
                postings.text_facts[text] = (facts[0], facts[1], facts[2])
        if include_unmatched:
            rows = self._database.rows(
                "SELECT number, text, record, kind, length FROM {text} AS t"
                " WHERE number = ANY(%(sessions)s) AND piece = 0",
                sessions=list(sessions),
            )
            for number, text, record, kind, length in rows:
                found[number].text_facts[text] = (record, kind, length)
        return found


def _match_source_sql(query: MatchQuery, bind: Callable[[object], str]) -> str:
    return f"matching({bind(format_tsquery(query.phrases))}::tsquery)"
