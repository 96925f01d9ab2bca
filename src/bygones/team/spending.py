"""What was spent, summed by a team's engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec
from msgspec import Struct

from bygones.model.fills import QUARTER
from bygones.model.ids import AgentId, SessionId
from bygones.model.parts import Title
from bygones.model.query import And, Fact, Not, Or, Period, Scoped, Term
from bygones.model.usage import Claim
from bygones.store.numbers import milliseconds
from bygones.store.spending import Among, Clock, FillSum, Purse, Sum
from bygones.team.database import Sight
from bygones.team.packing import pack, unpack

__all__ = ["TeamSpending"]

_decode_claim = msgspec.msgpack.Decoder(Claim).decode
_CONTEXT = "(e.input + e.write_5m + e.write_1h + e.read)"
_COUNTED = ("input", "output", "write_5m", "write_1h", "read", "searches")
_SUMS = ", ".join(f"CAST(sum(e.{name}) AS bigint)" for name in _COUNTED)
_GUESSED = "CAST(sum(greatest(e.estimate - e.output, 0)) AS bigint)"


class _Titled(Struct, frozen=True, gc=False, array_like=True):
    """Of a session's line its title, and nothing that takes longer to read."""

    id: SessionId
    title: Title


_decode_title = msgspec.msgpack.Decoder(_Titled).decode


class TeamSpending:
    """The rows about tokens."""

    def __init__(self, sight: Sight) -> None:
        self._sight = sight

    def purses(self, sessions: Iterable[int] | None = None) -> list[Purse]:
        """Return all purses, or those of sessions by their numbers."""
        sql = (
            "SELECT number, purse, agent, agent_type, model, terms, entrypoint"
            " FROM {purse} AS p"
        )
        if sessions is None:
            rows = self._sight.rows(sql)
        else:
            among = self._sight.db.among("number", "numbers")
            numbers = [*sessions, 0]
            rows = self._sight.rows(f"{sql} WHERE {among}", numbers=numbers)
        return [
            Purse(
                pack(number, purse),
                number,
                AgentId(agent) if agent is not None else None,
                kind,
                model,
                tuple(terms.split()),
                entrypoint,
            )
            for number, purse, agent, kind, model, terms, entrypoint in rows
        ]

    def names(self) -> dict[int, tuple[SessionId, str | None]]:
        """Return the id and the project of each session, by its number."""
        rows = self._sight.rows("SELECT number, session, project FROM {session} AS s")
        return {row[0]: (SessionId(row[1]), row[2]) for row in rows}

    def claims(self) -> list[tuple[int, Claim]]:
        """Return what Claude Code claims, by the session's number."""
        rows = self._sight.rows("SELECT number, claim FROM {claim} AS c")
        return [(row[0], _decode_claim(row[1])) for row in rows]

    def bounds(self) -> tuple[int, int] | None:
        """Return two times between which about everything was said."""
        row = self._sight.first(
            "SELECT min(started_ms), max(ended_ms) FROM {session} AS s"
        )
        return (row[0], row[1]) if row and None not in row else None

    def titles(self) -> dict[SessionId, str]:
        """Return the titles of all sessions."""
        rows = self._sight.rows("SELECT session, listed FROM {session} AS s")
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
        """Yield what was spent, parted as far as a price or a report needs it."""
        limits = _Limits(self._sight, among, "e.time_ms")
        slot = self._sight.db.whole(_wall("e.time_ms", clock), unit) if unit else "NULL"
        parts = [
            "e.number",
            "e.purse",
            slot,
            _summed(f"{_CONTEXT} > {step:d}" for step in steps),
            _summed(f"e.time_ms >= {age:d}" for age in ages),
            _flag("e.branch > 0") if by_branch else "0",
        ]
        keys = [
            str(at) for at, part in enumerate(parts, 1) if part not in {"NULL", "0"}
        ]
        sql = (
            f"SELECT {', '.join(parts)}, count(*), {_SUMS}, {_GUESSED},"  # noqa: S608 (our names)
            " min(e.time_ms), max(e.time_ms) FROM {spend} AS e"
        )
        if only_claimed:
            sql += " JOIN {claim} AS c ON c.number = e.number"
        told = [limits.condition(where)] if where is not None else []
        told += ["e.time_ms <= c.upto_ms"] if only_claimed else []
        sql += f" WHERE {' AND '.join(told)}" if told else ""
        for row in self._sight.rows(
            f"{sql} GROUP BY {', '.join(keys)}", **limits.values
        ):
            number, purse, slot_of, step, age, rewound, answers = row[:7]
            guessed, first, last = row[13:]
            yield Sum(
                purse=pack(number, purse),
                slot=slot_of,
                step=step,
                age=age,
                rewound=rewound,
                answers=answers,
                counts=tuple(row[7:13]),
                guessed=guessed,
                first_ms=first,
                last_ms=last,
            )

    def tools(self) -> list[tuple[int, str]]:
        """Return which tools each session called, by its number."""
        rows = self._sight.rows("SELECT DISTINCT number, tool FROM {fill} AS e")
        return [(number, tool) for number, tool in rows]

    def fills(
        self, *, where: Term | None, among: Callable[[Fact | Scoped], Among]
    ) -> list[FillSum]:
        """Return what each tool put into contexts."""
        limits = _Limits(self._sight, among, f"(e.quarter * {QUARTER * 1000})")
        sql = (
            "SELECT tool, CAST(sum(calls) AS bigint), CAST(sum(size) AS bigint)"
            " FROM {fill} AS e"
        )
        if where is not None:
            sql += f" WHERE {limits.condition(where)}"
        rows = self._sight.rows(f"{sql} GROUP BY tool", **limits.values)
        return [FillSum(*row) for row in rows]


class _Limits:
    """Turns a query into a condition, and remembers what it compares with."""

    def __init__(
        self, sight: Sight, among: Callable[[Fact | Scoped], Among], time: str
    ) -> None:
        self._db = sight.db
        self._among = among
        self._time = time
        self.values: dict[str, object] = {}

    def condition(self, term: Term) -> str:
        if isinstance(term, And | Or):
            joint = " AND " if isinstance(term, And) else " OR "
            return f"({joint.join(map(self.condition, term.terms))})"
        if isinstance(term, Not):
            return f"NOT {self.condition(term.term)}"
        if isinstance(term, Period):
            sides = [
                f"coalesce({self._time} {sign} {milliseconds(moment):d}, false)"
                for moment, sign in ((term.start, ">="), (term.end, "<"))
                if moment is not None
            ]
            return f"({' AND '.join(sides) or 'true'})"
        if isinstance(term, Fact | Scoped):
            return self._chosen(self._among(term))
        raise TypeError(term)

    def _chosen(self, found: Among) -> str:
        if found.column == "rewound":
            return f"({_flag('e.branch > 0')} IN ({_listed(found.values)}))"
        if not found.values:
            return "(1 = 0)"
        key = f"chosen{len(self.values)}"
        if found.column == "session":
            self.values[key] = sorted(found.values)
            return f"({self._db.among('e.number', key)})"
        self.values[key] = [unpack(number) for number in sorted(found.values)]
        return f"({self._db.pairs('e.number, e.purse', key)})"


def _listed(values: frozenset[int]) -> str:
    return ", ".join(str(int(value)) for value in sorted(values)) or "-1"


def _flag(condition: str) -> str:
    return f"CASE WHEN {condition} THEN 1 ELSE 0 END"


def _summed(conditions: Iterator[str]) -> str:
    return " + ".join(map(_flag, conditions)) or "0"


def _wall(time: str, clock: Clock | None) -> str:
    """Return what a clock on the wall shows, in milliseconds since 1970."""
    if clock is None or not (clock.changes or clock.last):
        return time
    if not clock.changes:
        return f"({time} + {clock.last:d})"
    whens = " ".join(f"WHEN {time} < {t:d} THEN {o:d}" for t, o in clock.changes)
    return f"({time} + CASE {whens} ELSE {clock.last:d} END)"
