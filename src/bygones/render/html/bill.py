"""What turns and agents cost, by themselves and with the agents they called."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from bygones.model.ids import AgentId
from bygones.model.rest import Paid, Rest, called_runs, each_run
from bygones.model.sessions import AgentRun, Message, Turn
from bygones.model.usage import Cost, sum_of
from bygones.render.figures import Coster, price, several

__all__ = ["Bill"]


class Bill(Struct, frozen=True):
    """Tells what something cost, in words; nothing where nobody knows prices."""

    cost: Coster | None
    runs: Mapping[AgentId, Cost]
    """What agents cost whose answers are not at hand."""
    rest: Mapping[int, Rest]
    """What else was said in turns, by their numbers, that is not shown here."""

    def turn(self, turn: Turn) -> str:
        """Return what a turn cost; an agent counts where it was first called."""
        rest = self.rest.get(turn.number, Rest())
        own = self._cost((*turn.messages, *rest.paid))
        below = {run.id: self.of(run) for run in each_run(called_runs(turn.messages))}
        below |= {
            name: self.runs.get(name) or self._cost(())
            for name in rest.runs
            if name not in below
        }
        return _words(own, list(below.values()))

    def run(self, run: AgentRun) -> str:
        """Return what an agent run cost, and with those runs below it that it names."""
        return _words(self.of(run), [self.of(one) for one in each_run(run.agents)])

    def of(self, run: AgentRun) -> Cost | None:
        """Return what an agent run cost by itself."""
        return self.runs.get(run.id) or self._cost(run.live.messages)

    def _cost(self, messages: Iterable[Message | Paid]) -> Cost | None:
        nanos = self.cost(messages) if self.cost else None
        return None if nanos is None else Cost(nanos=nanos)


def _words(own: Cost | None, below: Sequence[Cost | None]) -> str:
    told = price(own) if own and (own.nanos or own.nanos is None) else ""
    if not any(cost and (cost.nanos or cost.unpriced_tokens) for cost in below):
        return told
    whom = several(len(below), "agent")
    return f"{told or '$0.00'}, {price(sum_of([own, *below]))} with {whom}"
