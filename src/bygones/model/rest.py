"""The rest of a turn: what is told of messages that are not at hand, what they cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from msgspec import Struct

from bygones.model.ids import AgentId
from bygones.model.sessions import AgentRun, Message
from bygones.model.usage import Usage

__all__ = ["Paid", "Rest", "called_runs", "each_run", "rest_of", "summed"]


class Paid(Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """The usage of answers of one model, and between what they are.

    A price may hold from a context or a day on: whoever knows prices can tell whether
    one of them holds for all.
    """

    model: str | None
    usage: Usage
    least: int
    """The smallest context of an answer."""
    most: int
    first: datetime | None = None
    last: datetime | None = None


class Rest(Struct, frozen=True, array_like=True):
    """What messages cost, and the agents that were first called in them."""

    paid: tuple[Paid, ...] = ()
    runs: tuple[AgentId, ...] = ()


def rest_of(messages: Sequence[Message]) -> Rest:
    """Return what messages cost, each by itself."""
    paid = (
        Paid(
            model=message.model,
            usage=message.usage,
            least=message.usage.context,
            most=message.usage.context,
            first=message.time,
            last=message.time,
        )
        for message in messages
        if message.usage is not None and message.usage.total
    )
    runs = tuple(dict.fromkeys(run.id for run in each_run(called_runs(messages))))
    return Rest(tuple(paid), runs)


def summed(rest: Rest) -> Rest:
    """Return the same in few words: one for each model, and for what has no time."""
    sums: dict[tuple[str | None, bool], Paid] = {}
    for one in rest.paid:
        key = (one.model, one.last is None)
        sums[key] = _both(sums[key], one) if key in sums else one
    return Rest(tuple(sums.values()), rest.runs)


def _both(one: Paid, other: Paid) -> Paid:
    firsts = [time for time in (one.first, other.first) if time is not None]
    lasts = [time for time in (one.last, other.last) if time is not None]
    return Paid(
        model=one.model,
        usage=one.usage + other.usage,
        least=min(one.least, other.least),
        most=max(one.most, other.most),
        first=min(firsts, default=None),
        last=max(lasts, default=None),
    )


def called_runs(messages: Iterable[Message]) -> list[AgentRun]:
    """Return the agents that were called in messages, each where it first was."""
    return [
        run
        for message in messages
        for call in message.calls
        for run in call.agents
        if not run.calls or run.calls[0] == call.id
    ]


def each_run(runs: Sequence[AgentRun]) -> Iterator[AgentRun]:
    """Yield runs and those below them, each once."""
    seen: set[AgentId] = set()
    waiting = list(runs)
    while waiting:
        run = waiting.pop()
        if run.id not in seen:
            seen.add(run.id)
            yield run
            waiting += run.agents
