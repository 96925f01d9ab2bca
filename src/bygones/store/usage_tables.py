"""Write and read the tables of usage: tokens per answer and per quarter hour."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec import Struct, structs

from bygones.model.base import AgentId, SessionId
from bygones.model.projects import ProjectDirectories
from bygones.model.query import And, FieldTerm, FieldValue, Not, Or, Term, TimeRange
from bygones.model.summary import MessageUsage, Title
from bygones.model.usage import QUARTER_HOUR_SECONDS, ReportedCost
from bygones.store.connect import fetch_all
from bygones.store.encoding import to_milliseconds
from bygones.store.index_db import IndexDB
from bygones.store.schema import (
    REPORTED_COST,
    TOOL_CONTEXT,
    USAGE,
    USAGE_TABLES,
)

if TYPE_CHECKING:  # start-up time of `list`
    from bygones.store.derived_rows import DerivedRows


_decode_cost = msgspec.msgpack.Decoder(ReportedCost).decode
WARM_UP_SQL = (
    "warm_up_usage FROM {agent_run} AS r WHERE length(warm_up_usage) > 0 ORDER BY 1"
)
_json = msgspec.json.Encoder().encode
_CONTEXT = "(input + cache_write_5m + cache_write_1h + cache_read)"
_MS_PER_SECOND = 1000
_QUARTER_MS = QUARTER_HOUR_SECONDS * _MS_PER_SECOND
_CONTEXT_STEP = 100_000
"""The size in tokens by which contexts are grouped in `usage_15min`."""


class _UsageTable(NamedTuple):
    """SQL expressions for the same facts in `usage` and in `usage_15min`."""

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
    " WHERE payer IN (SELECT number FROM payer WHERE session = ?) AND rowid > ?"
    " GROUP BY 1, 2, 3, 4"
)
_USAGE_AFTER = (
    "FROM usage WHERE payer IN (SELECT number FROM payer WHERE session = ?)"
    " AND rowid > ?"
)
_IS_REPORTED = (
    "payer IN (SELECT p.number FROM payer AS p JOIN reported_cost USING (session))"
    " AND time_ms <= (SELECT until_ms FROM reported_cost AS c JOIN payer AS p"
    " ON p.session = c.session WHERE p.number = usage.payer)"
)


class _TitleOnly(Struct, frozen=True, gc=False, array_like=True):
    """The title of a summary, without decoding the rest."""

    id: SessionId
    title: Title


_decode_title = msgspec.msgpack.Decoder(_TitleOnly).decode


class Payer(Struct, frozen=True):
    """Who uses tokens: a session or an agent run, with a model and its terms."""

    number: int
    session: int
    agent: AgentId | None
    agent_type: str | None
    model: str | None
    terms: tuple[str, ...]
    entrypoint: str | None


class RowFilter(Struct, frozen=True):
    """A condition on rows: a column has one of some values."""

    column: str
    """`payer`, `session` or `is_abandoned`, which is 1 on an abandoned branch."""
    values: frozenset[int]


class UtcOffsets(Struct, frozen=True):
    """The offset of local time from UTC, which may change."""

    transitions: tuple[tuple[int, int], ...] = ()
    """Pairs in milliseconds: until when, and the offset."""
    final_offset: int = 0


class UsageDivision(Struct, frozen=True, kw_only=True):
    """How sums of usage are divided, besides by payer."""

    slot_ms: int = 0
    """The length of a time slot; 0 for none."""
    utc_offsets: UtcOffsets | None = None
    context_steps: tuple[int, ...] = ()
    price_changes: tuple[int, ...] = ()
    """The times in milliseconds at which prices change."""
    by_branch: bool = False
    only_reported: bool = False
    """Leaves out usage that is not part of a total reported by Claude Code."""


class UsageSum(Struct, frozen=True):
    """The usage of a payer in a time slot, at one price."""

    payer: int
    slot: int | None
    """Hours or days since 1970, in the requested time zone."""
    context_step: int
    """How many of the requested context sizes are exceeded."""
    price_period: int
    """How many of the requested price changes were before."""
    abandoned: int
    answers: int
    token_counts: tuple[int, ...]
    """Input, output, cache writes of both kinds, cache reads, web searches."""
    estimated_output: int
    """Estimated output tokens beyond those recorded."""
    first_ms: int | None
    last_ms: int | None


class ToolContextSum(Struct, frozen=True):
    """How much the results of a tool added to contexts."""

    tool: str
    calls: int
    size: int


class RowBounds(Struct, frozen=True, kw_only=True, array_like=True):
    """The last rows of the settled part of a session, by table.

    New rows always get higher numbers, so what follows can be replaced.
    """

    payer: int = 0
    usage: int = 0
    summed_usage: int = 0
    """The last row of `usage` whose quarter of an hour is settled."""
    usage_15min: int = 0
    tool_context: int = 0
    edit: int = 0
    prompt: int = 0
    open_since_ms: int = 0
    """The start of the quarter of an hour to which more may be added."""
    message_block: int = 0
    """The first message of the live branch whose block may change."""
    turn: int = 0
    """The first message of the turn that may change."""
    agents: tuple[str, ...] = ()
    """The agent runs after the settled part."""
    message: int = 0
    """The first message of the live branch after the settled part."""


class UsageTables:
    """Reads and writes token usage."""

    def __init__(
        self, index: IndexDB, directories: ProjectDirectories | None = None
    ) -> None:
        self._db = index.db
        self._directories = directories or ProjectDirectories()

    def insert_usage(
        self, number: int, derived_rows: DerivedRows, after_usage: int = 0
    ) -> None:
        """Insert the usage, tool contexts and reported cost of a session.

        Rows of `usage` up to `after_usage` are summed in settled rows.
        """
        payers = self._ensure_payers(number, derived_rows)
        rows = [(payers[index], *row) for index, *row in derived_rows.usage]
        self._db.executemany(USAGE.insert_sql(), rows)
        self._db.execute(_INSERT_15_MINUTES, (number, after_usage))
        self._insert_tool_contexts(number, derived_rows)
        if derived_rows.reported_cost is not None:
            row = (number, *derived_rows.reported_cost)
            self._db.execute(REPORTED_COST.insert_sql(), row)

    def insert_settled_usage(
        self, number: int, derived_rows: DerivedRows, bounds: RowBounds
    ) -> RowBounds:
        """Insert the usage of a settled part; return the last rows.

        Sums of the last quarter of an hour may still change. Their rows come last.
        """
        payers = self._ensure_payers(number, derived_rows)
        sql = f"SELECT * {_USAGE_AFTER} ORDER BY rowid"
        rows = fetch_all(self._db, sql, (number, bounds.summed_usage))
        self._db.execute(f"DELETE {_USAGE_AFTER}", (number, bounds.summed_usage))
        rows += [(payers[index], *row) for index, *row in derived_rows.usage]
        summed: list[tuple[object, ...]] = []
        others: list[tuple[object, ...]] = []
        for row in rows:
            is_summed = row[2] is not None and row[2] < bounds.open_since_ms
            (summed if is_summed else others).append(row)
        self._db.executemany(USAGE.insert_sql(), summed)
        summed_usage = self._last_rowid(summed, bounds.summed_usage)
        self._db.execute(_INSERT_15_MINUTES, (number, bounds.summed_usage))
        usage_15min = self._last_rowid(summed, bounds.usage_15min)
        self._db.executemany(USAGE.insert_sql(), others)
        usage = self._last_rowid(others, summed_usage)
        self._insert_tool_contexts(number, derived_rows)
        return structs.replace(
            bounds,
            payer=max(bounds.payer, *payers, 0),
            usage=usage,
            summed_usage=summed_usage,
            usage_15min=usage_15min,
            tool_context=self._last_rowid(
                derived_rows.tool_contexts, bounds.tool_context
            ),
        )

    def delete_open_usage(self, number: int, bounds: RowBounds) -> None:
        """Delete the usage of a session after its settled part."""
        payers = "payer IN (SELECT number FROM payer WHERE session = ?)"
        for table, last in (
            ("usage", bounds.usage),
            ("usage_15min", bounds.usage_15min),
        ):
            sql = f"DELETE FROM {table} WHERE {payers} AND rowid > ?"  # noqa: S608 (our names)
            self._db.execute(sql, (number, last))
        sql = "DELETE FROM payer WHERE session = ? AND number > ?"
        self._db.execute(sql, (number, bounds.payer))
        sql = "DELETE FROM tool_context WHERE session = ? AND rowid > ?"
        self._db.execute(sql, (number, bounds.tool_context))
        self._db.execute(REPORTED_COST.delete_sql("session"), (number,))

    def _last_rowid(self, inserted: Sequence[object], last: int) -> int:
        """Return the number of the row that was inserted last, if any was."""
        return self._db.last_insert_rowid() if inserted else last

    def _insert_tool_contexts(self, number: int, derived_rows: DerivedRows) -> None:
        self._db.executemany(
            TOOL_CONTEXT.insert_sql(),
            [(number, *row) for row in derived_rows.tool_contexts],
        )

    def _ensure_payers(self, number: int, derived_rows: DerivedRows) -> list[int]:
        """Return the numbers of payers; those that are new are inserted."""
        sql = (
            "SELECT agent, agent_type, model, terms, entrypoint, number FROM payer"
            " WHERE session = ?"
        )
        known = {tuple(row[:-1]): row[-1] for row in self._db.execute(sql, (number,))}
        return [
            known[payer] if payer in known else self._insert_payer(number, *payer)
            for payer in derived_rows.payers
        ]

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
        """Return all payers, or those of sessions."""
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

    def session_people(self) -> dict[int, str]:
        """Return nothing: everything in a local archive is of one person."""
        return {}

    def session_projects(self) -> dict[int, tuple[SessionId, str | None]]:
        """Return id and main directory of the project of each session, by number."""
        rows = self._db.execute(
            "SELECT number, s.id, project FROM session JOIN session_id AS s"
            " USING (number)"
        )
        main_path = self._directories.main_path
        return {
            number: (SessionId(id_), main_path(project) if project else project)
            for number, id_, project in rows
        }

    def reported_costs(self) -> list[tuple[int, ReportedCost]]:
        """Return the costs that Claude Code reported, with the session's number."""
        rows = fetch_all(self._db, "SELECT session, cost FROM reported_cost")
        return [(row[0], _decode_cost(row[1])) for row in rows]

    def warm_up_usages(self) -> list[tuple[int, MessageUsage]]:
        """Return the replies of warm-ups, with the session's number."""
        sql = f"SELECT session, {WARM_UP_SQL}"
        rows = fetch_all(self._db, sql.format(agent_run="agent_run"))
        return decode_warm_ups(rows)

    def time_range(self) -> tuple[int, int] | None:
        """Return two times that include nearly all sessions."""
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

    def sum_usage(
        self,
        division: UsageDivision,
        *,
        where: Term | None = None,
        row_filter: Callable[[FieldValue | FieldTerm], RowFilter],
    ) -> Iterator[UsageSum]:
        """Yield usage, divided as far as prices and reports need it.

        `row_filter` translates a field of the query into a condition on rows.
        """
        has_slots = _is_answered_by_15_minutes(where, division)
        table = _PER_15_MINUTES if has_slots else _PER_ANSWER
        values: list[object] = []
        dimensions = [
            "payer",
            f"{_local_time_sql(table.time, division.utc_offsets)} / {division.slot_ms:d}"
            if division.slot_ms
            else "NULL",
            _count_sql(map(table.exceeds_context, division.context_steps)),
            _count_sql(
                f"ifnull({table.time} >= {ms:d}, 0)" for ms in division.price_changes
            ),
            table.abandoned if division.by_branch else "0",
        ]
        keys = [
            str(position)
            for position, dimension in enumerate(dimensions, 1)
            if dimension not in {"NULL", "0"}
        ]
        sql = f"SELECT {', '.join(dimensions)}, {table.sums} FROM {table.name}"  # noqa: S608 (our names)
        conditions = [_condition_sql(where, table, row_filter, values)] if where else []
        conditions += [_IS_REPORTED] if division.only_reported else []
        sql += f" WHERE {' AND '.join(conditions)}" if conditions else ""
        for row in self._db.execute(f"{sql} GROUP BY {', '.join(keys)}", values):
            payer, slot, context_step, price_change, abandoned, answers = row[:6]
            estimated, first, last = row[12:]
            yield UsageSum(
                payer=payer,
                slot=slot,
                context_step=context_step,
                price_period=price_change,
                abandoned=abandoned,
                answers=answers,
                token_counts=row[6:12],
                estimated_output=estimated,
                first_ms=first,
                last_ms=last,
            )

    def session_tools(self) -> Iterator[tuple[int, str]]:
        """Yield which tools each session called, by number."""
        yield from self._db.execute("SELECT DISTINCT session, tool FROM tool_context")

    def sum_tool_context(
        self,
        *,
        where: Term | None,
        row_filter: Callable[[FieldValue | FieldTerm], RowFilter],
    ) -> list[ToolContextSum]:
        """Return how much the results of each tool added to contexts."""
        values: list[object] = []
        sql = "SELECT tool, sum(calls), sum(result_bytes) FROM tool_context"
        if where is not None:
            sql += (
                f" WHERE {_condition_sql(where, _PER_15_MINUTES, row_filter, values)}"
            )
        rows = self._db.execute(f"{sql} GROUP BY tool", values)
        return [ToolContextSum(*row) for row in rows]


def _count_sql(conditions: Iterable[str]) -> str:
    """Return SQL for the number of conditions that are true."""
    return " + ".join(f"({condition})" for condition in conditions) or "0"


def _is_answered_by_15_minutes(where: Term | None, division: UsageDivision) -> bool:
    """Whether all limits are at quarter hours and at multiples of the context step."""
    if division.only_reported:
        return False
    times = [*division.price_changes, *(_query_times(where) if where else ())]
    if division.utc_offsets is not None:
        times += [
            division.utc_offsets.final_offset,
            *(time for change in division.utc_offsets.transitions for time in change),
        ]
    return not any(time % _QUARTER_MS for time in times) and not any(
        step % _CONTEXT_STEP for step in division.context_steps
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
    """Return SQL for the local time, in milliseconds since 1970."""
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
    """Return a query as SQL; values to compare with are added to `values`."""
    if isinstance(term, And | Or):
        separator = " AND " if isinstance(term, And) else " OR "
        parts = (_condition_sql(part, table, row_filter, values) for part in term.terms)
        return f"({separator.join(parts)})"
    if isinstance(term, Not):
        return f"NOT {_condition_sql(term.term, table, row_filter, values)}"
    if isinstance(term, TimeRange):
        limits = []
        for time, operator in ((term.start, ">="), (term.end, "<")):
            if time is not None:
                limits.append(f"ifnull({table.time} {operator} ?, 0)")
                values.append(to_milliseconds(time))
        return f"({' AND '.join(limits) or '1'})"
    if isinstance(term, FieldValue | FieldTerm):
        condition = row_filter(term)
        values.append(_json(sorted(condition.values)).decode())
        column = (
            table.abandoned if condition.column == "is_abandoned" else condition.column
        )
        return f"({column} IN (SELECT value FROM json_each(?)))"  # noqa: S608 (our names)
    raise TypeError(term)


def decode_warm_ups(
    rows: Iterable[tuple[int, bytes]],
) -> list[tuple[int, MessageUsage]]:
    """Return the replies of warm-ups with their session, from its number and a blob."""
    decode = msgspec.msgpack.Decoder(tuple[MessageUsage, ...]).decode
    return [(number, usage) for number, blob in rows for usage in decode(bytes(blob))]
