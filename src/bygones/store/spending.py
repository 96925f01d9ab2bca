"""What was spent: written when a session is derived, summed when somebody asks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec import Struct

from bygones.model.fills import QUARTER
from bygones.model.ids import AgentId, SessionId
from bygones.model.parts import Title
from bygones.model.query import And, Fact, Not, Or, Period, Scoped, Term
from bygones.model.usage import Claim
from bygones.store.connect import every
from bygones.store.index import Index
from bygones.store.numbers import milliseconds

if TYPE_CHECKING:  # whoever sums rows writes none
    from bygones.store.sheets import Sheet

__all__ = ["Among", "Clock", "FillSum", "Purse", "Spending", "Sum"]

_decode_claim = msgspec.msgpack.Decoder(Claim).decode
_json = msgspec.json.Encoder().encode
_CONTEXT = "(input + write_5m + write_1h + read)"
_THOUSAND = 1000
_QUARTER_MS = QUARTER * _THOUSAND
_STEP = 100_000
"""Tokens of context by which spells are parted."""


class _Table(NamedTuple):
    """How to say the same of answers one by one, and of spells."""

    name: str
    time: str
    above: Callable[[int], str]
    rewound: str
    sums: str


_COUNTS = "sum(input), sum(output), sum(write_5m), sum(write_1h), sum(read)"
_EACH = _Table(
    name="spend",
    time="time_ms",
    above=lambda step: f"{_CONTEXT} > {step:d}",
    rewound="(branch > 0)",
    sums=f"count(*), {_COUNTS}, sum(searches), sum(max(estimate - output, 0)),"
    " min(time_ms), max(time_ms)",
)
_SPELLS = _Table(
    name="spell",
    time=f"(quarter * {_QUARTER_MS})",
    above=lambda step: f"step >= {step // _STEP:d}",
    rewound="rewound",
    sums=f"sum(answers), {_COUNTS}, sum(searches), sum(guessed), min(first_ms),"
    " max(last_ms)",
)
_ADD_SPELLS = (
    f"INSERT INTO spell SELECT purse, time_ms / {_QUARTER_MS},"  # noqa: S608 (our names)
    f" ({_CONTEXT} - 1) / {_STEP}, branch > 0, {_EACH.sums} FROM spend"
    " WHERE purse BETWEEN ? AND ? GROUP BY 1, 2, 3, 4"
)
_CLAIMED = (
    "purse IN (SELECT p.number FROM purse AS p JOIN claim USING (session))"
    " AND time_ms <= (SELECT upto_ms FROM claim AS c JOIN purse AS p"
    " ON p.session = c.session WHERE p.number = spend.purse)"
)


class _Titled(Struct, frozen=True, gc=False, array_like=True):
    """Of a session's line its title, and nothing that takes longer to read."""

    id: SessionId
    title: Title


_decode_title = msgspec.msgpack.Decoder(_Titled).decode


class Purse(Struct, frozen=True):
    """Who spends, and on what."""

    number: int
    session: int
    agent: AgentId | None
    agent_type: str | None
    model: str | None
    terms: tuple[str, ...]
    entrypoint: str | None


class Among(Struct, frozen=True):
    """A condition on rows: one of their numbers is one of these."""

    column: str
    """``purse`` or ``session``, or ``rewound``: 1 on a branch that was left."""
    values: frozenset[int]


class Clock(Struct, frozen=True):
    """How far a clock on the wall is ahead of UTC: up to a time, and last for good."""

    changes: tuple[tuple[int, int], ...] = ()
    """Until when (milliseconds) it is how far (milliseconds) ahead."""
    last: int = 0


class Sum(Struct, frozen=True):
    """What came out of one purse, in one slot of time, at one price."""

    purse: int
    slot: int | None
    """Hours or days since 1970, on the clock that was asked for."""
    step: int
    """How many of the context sizes that were asked for are surpassed."""
    age: int
    """How many of the moments that were asked for have passed."""
    rewound: int
    answers: int
    counts: tuple[int, ...]
    """Input, output, cache writes of both kinds, cache reads, web searches."""
    guessed: int
    """Output tokens that an estimate has beyond those recorded."""
    first_ms: int | None
    last_ms: int | None


class FillSum(Struct, frozen=True):
    """What a tool put into contexts."""

    tool: str
    calls: int
    size: int


class Spending:
    """The rows about tokens, read and written."""

    def __init__(self, index: Index) -> None:
        self._db = index.db

    def write(self, number: int, sheet: Sheet) -> None:
        """Write what a session spent, what filled its contexts and what it claims."""
        purses = [self._add_purse(number, *purse) for purse in sheet.purses]
        self._db.executemany(
            "INSERT INTO spend VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [(purses[who], *row) for who, *row in sheet.spends],
        )
        if purses:
            self._db.execute(_ADD_SPELLS, (min(purses), max(purses)))
        self._db.executemany(
            "INSERT INTO fill VALUES (?, ?, ?, ?, ?)",
            [(number, *fill) for fill in sheet.fills],
        )
        if sheet.claim is not None:
            sql = "INSERT INTO claim VALUES (?, ?, ?)"
            self._db.execute(sql, (number, *sheet.claim))

    def _add_purse(self, session: int, *purse: str | None) -> int:
        self._db.execute(
            "INSERT INTO purse (session, agent, agent_type, model, terms, entrypoint)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (session, *purse),
        )
        return self._db.last_insert_rowid()

    def remove(self, number: int) -> None:
        """Remove what is known of a session."""
        purses = "SELECT number FROM purse WHERE session = ?"
        for table in ("spend", "spell"):
            sql = f"DELETE FROM {table} WHERE purse IN ({purses})"  # noqa: S608 (our names)
            self._db.execute(sql, (number,))
        for table in ("purse", "fill", "claim"):
            self._db.execute(f"DELETE FROM {table} WHERE session = ?", (number,))  # noqa: S608 (our names)

    def purses(self, sessions: Iterable[int] | None = None) -> list[Purse]:
        """Return all purses, or those of sessions."""
        sql = (
            "SELECT number, session, agent, agent_type, model, terms, entrypoint"
            " FROM purse"
        )
        if sessions is not None:
            sql += " WHERE session IN (SELECT value FROM json_each(?))"
        chosen = () if sessions is None else (_json(list(sessions)).decode(),)
        rows = self._db.execute(sql, chosen)
        return [
            Purse(number, session, agent, kind, model, tuple(terms.split()), entrypoint)
            for number, session, agent, kind, model, terms, entrypoint in rows
        ]

    def names(self) -> dict[int, tuple[SessionId, str | None]]:
        """Return the id and the project of each session, by its number."""
        rows = self._db.execute(
            "SELECT number, n.session, project FROM session JOIN name AS n"
            " USING (number)"
        )
        return {row[0]: (SessionId(row[1]), row[2]) for row in rows}

    def claims(self) -> list[tuple[int, Claim]]:
        """Return what Claude Code claims, by the session's number."""
        rows = every(self._db, "SELECT session, claim FROM claim")
        return [(row[0], _decode_claim(row[1])) for row in rows]

    def bounds(self) -> tuple[int, int] | None:
        """Return two times between which about everything was said."""
        sql = "SELECT min(started_ms), max(ended_ms) FROM session"
        ((first, last),) = every(self._db, sql)
        return (first, last) if first is not None and last is not None else None

    def titles(self) -> dict[SessionId, str]:
        """Return the titles of all sessions."""
        rows = every(
            self._db,
            "SELECT n.session, listed FROM session JOIN name AS n USING (number)",
        )
        return {SessionId(name): _decode_title(blob).title.text for name, blob in rows}

    def sums(  # noqa: PLR0913 (each a way to part the sums, all by name)
        self,
        *,
        where: Term | None = None,
        among: Callable[[Fact | Scoped], Among],
        unit: int = 0,
        clock: Clock | None = None,
        steps: Sequence[int] = (),
        ages: Sequence[int] = (),
        by_branch: bool = False,
        only_claimed: bool = False,
    ) -> Iterator[Sum]:
        """Yield what was spent, parted as far as a price or a report needs it.

        ``unit`` is the length of a slot in milliseconds; without one there are no
        slots. ``among`` says which rows have a field's value. ``only_claimed`` leaves
        out what was spent after Claude Code wrote its own total, or without one.
        """
        table = _SPELLS
        if only_claimed or not _is_coarse(where, clock, steps, ages):
            table = _EACH
        values: list[object] = []
        parts = [
            "purse",
            f"{_wall(table.time, clock)} / {unit:d}" if unit else "NULL",
            " + ".join(f"({table.above(step)})" for step in steps) or "0",
            " + ".join(f"ifnull({table.time} >= {age:d}, 0)" for age in ages) or "0",
            table.rewound if by_branch else "0",
        ]
        keys = [
            str(at) for at, part in enumerate(parts, 1) if part not in {"NULL", "0"}
        ]
        sql = f"SELECT {', '.join(parts)}, {table.sums} FROM {table.name}"  # noqa: S608 (our names)
        limits = [_condition(where, table, among, values)] if where else []
        limits += [_CLAIMED] if only_claimed else []
        sql += f" WHERE {' AND '.join(limits)}" if limits else ""
        for row in self._db.execute(f"{sql} GROUP BY {', '.join(keys)}", values):
            purse, slot, step, age, rewound, answers = row[:6]
            guessed, first, last = row[12:]
            yield Sum(
                purse=purse,
                slot=slot,
                step=step,
                age=age,
                rewound=rewound,
                answers=answers,
                counts=row[6:12],
                guessed=guessed,
                first_ms=first,
                last_ms=last,
            )

    def tools(self) -> Iterator[tuple[int, str]]:
        """Yield which tools each session called, by its number."""
        yield from self._db.execute("SELECT DISTINCT session, tool FROM fill")

    def fills(
        self, *, where: Term | None, among: Callable[[Fact | Scoped], Among]
    ) -> list[FillSum]:
        """Return what each tool put into contexts."""
        values: list[object] = []
        sql = "SELECT tool, sum(calls), sum(size) FROM fill"
        if where is not None:
            sql += f" WHERE {_condition(where, _SPELLS, among, values)}"
        rows = self._db.execute(f"{sql} GROUP BY tool", values)
        return [FillSum(*row) for row in rows]


def _is_coarse(
    where: Term | None,
    clock: Clock | None,
    steps: Sequence[int],
    ages: Sequence[int],
) -> bool:
    """Whether all that is asked for changes at quarter hours, and at our steps."""
    times = [*ages, *(_moments(where) if where else ())]
    if clock is not None:
        times += [clock.last, *(time for change in clock.changes for time in change)]
    return not any(time % _QUARTER_MS for time in times) and not any(
        step % _STEP for step in steps
    )


def _moments(term: Term) -> Iterator[int]:
    if isinstance(term, And | Or):
        for part in term.terms:
            yield from _moments(part)
    elif isinstance(term, Not):
        yield from _moments(term.term)
    elif isinstance(term, Period):
        yield from (milliseconds(m) or 0 for m in (term.start, term.end) if m)


def _wall(time: str, clock: Clock | None) -> str:
    """Return what a clock on the wall shows, in milliseconds since 1970."""
    if clock is None or not (clock.changes or clock.last):
        return time
    if not clock.changes:
        return f"({time} + {clock.last:d})"
    whens = " ".join(f"WHEN {time} < {t:d} THEN {o:d}" for t, o in clock.changes)
    return f"({time} + CASE {whens} ELSE {clock.last:d} END)"


def _condition(
    term: Term,
    table: _Table,
    among: Callable[[Fact | Scoped], Among],
    values: list[object],
) -> str:
    """Return a query as SQL; what it compares with is added to ``values``."""
    if isinstance(term, And | Or):
        joint = " AND " if isinstance(term, And) else " OR "
        inner = (_condition(part, table, among, values) for part in term.terms)
        return f"({joint.join(inner)})"
    if isinstance(term, Not):
        return f"NOT {_condition(term.term, table, among, values)}"
    if isinstance(term, Period):
        sides = []
        for moment, sign in ((term.start, ">="), (term.end, "<")):
            if moment is not None:
                sides.append(f"ifnull({table.time} {sign} ?, 0)")
                values.append(milliseconds(moment))
        return f"({' AND '.join(sides) or '1'})"
    if isinstance(term, Fact | Scoped):
        found = among(term)
        values.append(_json(sorted(found.values)).decode())
        column = table.rewound if found.column == "rewound" else found.column
        return f"({column} IN (SELECT value FROM json_each(?)))"  # noqa: S608 (our names)
    raise TypeError(term)
