"""What turns and agents cost, by themselves and with the agents they called."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from recollect.model.ids import AgentId
from recollect.model.sessions import AgentRun, Message, Turn
from recollect.model.usage import Cost, sum_of
from recollect.render.figures import Coster, price, several

__all__ = ["Bill", "each_run"]


class Bill(Struct, frozen=True):
    """Tells what something cost, in words; nothing where nobody knows prices."""

    cost: Coster | None
    runs: Mapping[AgentId, Cost]
    """What agents cost whose answers are not at hand."""
    rest: Mapping[int, Sequence[Message]]
    """What else was said in turns, by their numbers, that is not shown here."""

    def turn(self, turn: Turn) -> str:
        """Return what a turn cost; an agent counts where it was first called."""
        messages = (*turn.messages, *self.rest.get(turn.number, ()))
        own = self._cost(messages)
        called = [
            run
            for message in messages
            for call in message.calls
            for run in call.agents
            if not run.calls or run.calls[0] == call.id
        ]
        return _words(own, [self.of(run) for run in each_run(called)])

    def run(self, run: AgentRun) -> str:
        """Return what an agent run cost, and with those runs below it that it names."""
        return _words(self.of(run), [self.of(one) for one in each_run(run.agents)])

    def of(self, run: AgentRun) -> Cost | None:
        """Return what an agent run cost by itself."""
        return self.runs.get(run.id) or self._cost(run.live.messages)

    def _cost(self, messages: Iterable[Message]) -> Cost | None:
        nanos = self.cost(messages) if self.cost else None
        return None if nanos is None else Cost(nanos=nanos)


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


def _words(own: Cost | None, below: Sequence[Cost | None]) -> str:
    told = price(own) if own and (own.nanos or own.nanos is None) else ""
    if not any(cost and (cost.nanos or cost.unpriced_tokens) for cost in below):
        return told
    whom = several(len(below), "agent")
    return f"{told or '$0.00'}, {price(sum_of([own, *below]))} with {whom}"
