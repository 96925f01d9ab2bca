"""What was spent: written when a session is derived, summed when somebody asks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec import Struct

from bygones.model.base import AgentId, SessionId
from bygones.model.query import And, FieldTerm, FieldValue, Not, Or, Term, TimeRange
from bygones.model.summary import Title
from bygones.model.usage import QUARTER_HOUR_SECONDS, ReportedCost
from bygones.store.connect import fetch_all
from bygones.store.encoding import to_milliseconds
from bygones.store.index_db import IndexDB
from bygones.store.schema import REPORTED_COST, TOOL_CONTEXT, USAGE, USAGE_TABLES

if TYPE_CHECKING:  # whoever sums rows writes none
    from bygones.store.derived_rows import DerivedRows

__all__ = [
    "Payer",
    "RowFilter",
    "ToolContextSum",
    "UsageSum",
    "UsageTables",
    "UtcOffsets",
]

_decode_claim = msgspec.msgpack.Decoder(ReportedCost).decode
_json = msgspec.json.Encoder().encode
_CONTEXT = "(input + cache_write_5m + cache_write_1h + cache_read)"
_MS_PER_SECOND = 1000
_QUARTER_MS = QUARTER_HOUR_SECONDS * _MS_PER_SECOND
_CONTEXT_STEP = 100_000
"""Tokens of context by which spells are parted."""


class _UsageTable(NamedTuple):
    """How to say the same of answers one by one, and of spells."""

    name: str
    time: str
    exceeds_context: Callable[[int], str]
    abandoned: str
    sums: str


_COUNTS = (
    "sum(input), sum(output), sum(cache_write_5m), sum(cache_write_1h),"
    " sum(cache_read), sum(web_searches)"
)
_PER_ANSWER = _UsageTable(
    name="usage",
    time="time_ms",
    exceeds_context=lambda step: f"{_CONTEXT} > {step:d}",
    abandoned="(branch > 0)",
    sums=f"count(*), {_COUNTS}, sum(max(estimated_output - output, 0)),"
    " min(time_ms), max(time_ms)",
)
_PER_15_MINUTES = _UsageTable(
    name="usage_15min",
    time=f"(quarter_hour * {_QUARTER_MS})",
    exceeds_context=lambda step: f"context_step >= {step // _CONTEXT_STEP:d}",
    abandoned="is_abandoned",
    sums=f"sum(answers), {_COUNTS}, sum(unrecorded_output), min(first_ms),"
    " max(last_ms)",
)
_INSERT_15_MINUTES = (
    f"INSERT INTO usage_15min SELECT payer, time_ms / {_QUARTER_MS},"  # noqa: S608 (our names)
    f" ({_CONTEXT} - 1) / {_CONTEXT_STEP}, branch > 0, {_PER_ANSWER.sums} FROM usage"
    " WHERE payer BETWEEN ? AND ? GROUP BY 1, 2, 3, 4"
)
_IS_REPORTED = (
    "payer IN (SELECT p.number FROM payer AS p JOIN reported_cost USING (session))"
    " AND time_ms <= (SELECT until_ms FROM reported_cost AS c JOIN payer AS p"
    " ON p.session = c.session WHERE p.number = usage.payer)"
)


class _TitleOnly(Struct, frozen=True, gc=False, array_like=True):
    """Of a session's line its title, and nothing that takes longer to read."""

    id: SessionId
    title: Title


_decode_title = msgspec.msgpack.Decoder(_TitleOnly).decode


class Payer(Struct, frozen=True):
    """Who spends, and on what."""

    number: int
    session: int
    agent: AgentId | None
    agent_type: str | None
    model: str | None
    terms: tuple[str, ...]
    entrypoint: str | None


class RowFilter(Struct, frozen=True):
    """A condition on rows: one of their numbers is one of these."""

    column: str
    """`payer`, `session` or `is_abandoned`, which is 1 on an abandoned branch."""
    values: frozenset[int]


class UtcOffsets(Struct, frozen=True):
    """How far a clock on the wall is ahead of UTC: up to a time, and last for good."""

    transitions: tuple[tuple[int, int], ...] = ()
    """Until when (milliseconds) it is how far (milliseconds) ahead."""
    final_offset: int = 0


class UsageSum(Struct, frozen=True):
    """What came out of one purse, in one slot of time, at one price."""

    payer: int
    slot: int | None
    """Hours or days since 1970, on the clock that was asked for."""
    context_step: int
    """How many of the context sizes that were asked for are surpassed."""
    price_period: int
    """How many of the moments that were asked for have passed."""
    abandoned: int
    answers: int
    token_counts: tuple[int, ...]
    """Input, output, cache writes of both kinds, cache reads, web searches."""
    estimated_output: int
    """Output tokens that an estimate has beyond those recorded."""
    first_ms: int | None
    last_ms: int | None


class ToolContextSum(Struct, frozen=True):
    """What a tool put into contexts."""

    tool: str
    calls: int
    size: int


class UsageTables:
    """The rows about tokens, read and written."""

    def __init__(self, index: IndexDB) -> None:
        self._db = index.db

    def insert_usage(self, number: int, derived_rows: DerivedRows) -> None:
        """Write what a session spent, what filled its contexts and what it claims."""
        payers = [self._insert_payer(number, *payer) for payer in derived_rows.payers]
        self._db.executemany(
            USAGE.insert_sql(),
            [(payers[index], *row) for index, *row in derived_rows.usage],
        )
        if payers:
            self._db.execute(_INSERT_15_MINUTES, (min(payers), max(payers)))
        self._db.executemany(
            TOOL_CONTEXT.insert_sql(),
            [(number, *row) for row in derived_rows.tool_contexts],
        )
        if derived_rows.reported_cost is not None:
            row = (number, *derived_rows.reported_cost)
            self._db.execute(REPORTED_COST.insert_sql(), row)

    def _insert_payer(self, session: int, *values: str | None) -> int:
        self._db.execute(
            "INSERT INTO payer (session, agent, agent_type, model, terms, entrypoint)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (session, *values),
        )
        return self._db.last_insert_rowid()

    def delete_usage(self, number: int) -> None:
        """Delete the rows of a session's payers."""
        payers = "SELECT number FROM payer WHERE session = ?"
        for table in USAGE_TABLES:
            sql = f"DELETE FROM {table.name} WHERE payer IN ({payers})"  # noqa: S608 (our names)
            self._db.execute(sql, (number,))

    def load_payers(self, sessions: Iterable[int] | None = None) -> list[Payer]:
        """Return all purses, or those of sessions."""
        sql = (
            "SELECT number, session, agent, agent_type, model, terms, entrypoint"
            " FROM payer"
        )
        if sessions is not None:
            sql += " WHERE session IN (SELECT value FROM json_each(?))"
        chosen = () if sessions is None else (_json(list(sessions)).decode(),)
        rows = self._db.execute(sql, chosen)
        return [
            Payer(number, session, agent, kind, model, tuple(terms.split()), entrypoint)
            for number, session, agent, kind, model, terms, entrypoint in rows
        ]

    def session_projects(self) -> dict[int, tuple[SessionId, str | None]]:
        """Return the id and the project of each session, by its number."""
        rows = self._db.execute(
            "SELECT number, s.id, project FROM session JOIN session_id AS s"
            " USING (number)"
        )
        return {row[0]: (SessionId(row[1]), row[2]) for row in rows}

    def reported_costs(self) -> list[tuple[int, ReportedCost]]:
        """Return what Claude Code claims, by the session's number."""
        rows = fetch_all(self._db, "SELECT session, cost FROM reported_cost")
        return [(row[0], _decode_claim(row[1])) for row in rows]

    def time_range(self) -> tuple[int, int] | None:
        """Return two times between which about everything was said."""
        sql = "SELECT min(started_ms), max(ended_ms) FROM session"
        ((first, last),) = fetch_all(self._db, sql)
        return (first, last) if first is not None and last is not None else None

    def session_titles(self) -> dict[SessionId, str]:
        """Return the titles of all sessions."""
        rows = fetch_all(
            self._db,
            "SELECT s.id, summary FROM session JOIN session_id AS s USING (number)",
        )
        return {SessionId(name): _decode_title(blob).title.text for name, blob in rows}

    def sum_usage(  # noqa: PLR0913 (each a way to part the sums, all by name)
        self,
        *,
        where: Term | None = None,
        row_filter: Callable[[FieldValue | FieldTerm], RowFilter],
        slot_ms: int = 0,
        utc_offsets: UtcOffsets | None = None,
        context_steps: Sequence[int] = (),
        price_changes: Sequence[int] = (),
        by_branch: bool = False,
        only_reported: bool = False,
    ) -> Iterator[UsageSum]:
        """Yield what was spent, parted as far as a price or a report needs it.

        ``unit`` is the length of a slot in milliseconds; without one there are no
        slots. ``among`` says which rows have a field's value. ``only_claimed`` leaves
        out what was spent after Claude Code wrote its own total, or without one.
        """
        table = _PER_15_MINUTES
        if only_reported or not _fits_15_minutes(
            where, utc_offsets, context_steps, price_changes
        ):
            table = _PER_ANSWER
        values: list[object] = []
        parts = [
            "payer",
            f"{_local_time_sql(table.time, utc_offsets)} / {slot_ms:d}"
            if slot_ms
            else "NULL",
            " + ".join(f"({table.exceeds_context(step)})" for step in context_steps)
            or "0",
            " + ".join(f"ifnull({table.time} >= {age:d}, 0)" for age in price_changes)
            or "0",
            table.abandoned if by_branch else "0",
        ]
        keys = [
            str(at) for at, part in enumerate(parts, 1) if part not in {"NULL", "0"}
        ]
        sql = f"SELECT {', '.join(parts)}, {table.sums} FROM {table.name}"  # noqa: S608 (our names)
        limits = [_condition_sql(where, table, row_filter, values)] if where else []
        limits += [_IS_REPORTED] if only_reported else []
        sql += f" WHERE {' AND '.join(limits)}" if limits else ""
        for row in self._db.execute(f"{sql} GROUP BY {', '.join(keys)}", values):
            payer, slot, step, age, abandoned, answers = row[:6]
            guessed, first, last = row[12:]
            yield UsageSum(
                payer=payer,
                slot=slot,
                context_step=step,
                price_period=age,
                abandoned=abandoned,
                answers=answers,
                token_counts=row[6:12],
                estimated_output=guessed,
                first_ms=first,
                last_ms=last,
            )

    def session_tools(self) -> Iterator[tuple[int, str]]:
        """Yield which tools each session called, by its number."""
        yield from self._db.execute("SELECT DISTINCT session, tool FROM tool_context")

    def sum_tool_context(
        self,
        *,
        where: Term | None,
        row_filter: Callable[[FieldValue | FieldTerm], RowFilter],
    ) -> list[ToolContextSum]:
        """Return what each tool put into contexts."""
        values: list[object] = []
        sql = "SELECT tool, sum(calls), sum(result_bytes) FROM tool_context"
        if where is not None:
            sql += (
                f" WHERE {_condition_sql(where, _PER_15_MINUTES, row_filter, values)}"
            )
        rows = self._db.execute(f"{sql} GROUP BY tool", values)
        return [ToolContextSum(*row) for row in rows]


def _fits_15_minutes(
    where: Term | None,
    utc_offsets: UtcOffsets | None,
    context_steps: Sequence[int],
    price_changes: Sequence[int],
) -> bool:
    """Whether all that is asked for changes at quarter hours, and at our steps."""
    times = [*price_changes, *(_query_times(where) if where else ())]
    if utc_offsets is not None:
        times += [
            utc_offsets.final_offset,
            *(time for change in utc_offsets.transitions for time in change),
        ]
    return not any(time % _QUARTER_MS for time in times) and not any(
        step % _CONTEXT_STEP for step in context_steps
    )


def _query_times(term: Term) -> Iterator[int]:
    if isinstance(term, And | Or):
        for part in term.terms:
            yield from _query_times(part)
    elif isinstance(term, Not):
        yield from _query_times(term.term)
    elif isinstance(term, TimeRange):
        yield from (to_milliseconds(m) or 0 for m in (term.start, term.end) if m)


def _local_time_sql(time: str, utc_offsets: UtcOffsets | None) -> str:
    """Return what a clock on the wall shows, in milliseconds since 1970."""
    if utc_offsets is None or not (utc_offsets.transitions or utc_offsets.final_offset):
        return time
    if not utc_offsets.transitions:
        return f"({time} + {utc_offsets.final_offset:d})"
    whens = " ".join(
        f"WHEN {time} < {t:d} THEN {o:d}" for t, o in utc_offsets.transitions
    )
    return f"({time} + CASE {whens} ELSE {utc_offsets.final_offset:d} END)"


def _condition_sql(
    term: Term,
    table: _UsageTable,
    row_filter: Callable[[FieldValue | FieldTerm], RowFilter],
    values: list[object],
) -> str:
    """Return a query as SQL; what it compares with is added to ``values``."""
    if isinstance(term, And | Or):
        joint = " AND " if isinstance(term, And) else " OR "
        inner = (_condition_sql(part, table, row_filter, values) for part in term.terms)
        return f"({joint.join(inner)})"
    if isinstance(term, Not):
        return f"NOT {_condition_sql(term.term, table, row_filter, values)}"
    if isinstance(term, TimeRange):
        sides = []
        for moment, sign in ((term.start, ">="), (term.end, "<")):
            if moment is not None:
                sides.append(f"ifnull({table.time} {sign} ?, 0)")
                values.append(to_milliseconds(moment))
        return f"({' AND '.join(sides) or '1'})"
    if isinstance(term, FieldValue | FieldTerm):
        found = row_filter(term)
        values.append(_json(sorted(found.values)).decode())
        column = table.abandoned if found.column == "is_abandoned" else found.column
        return f"({column} IN (SELECT value FROM json_each(?)))"  # noqa: S608 (our names)
    raise TypeError(term)
