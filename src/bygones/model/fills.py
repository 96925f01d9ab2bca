"""What tools put into the contexts of a session."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # whoever sums rows needs no whole sessions
    from bygones.model.sessions import AgentRun, Branch, Session

__all__ = ["QUARTER", "fills_of"]

QUARTER = 900
"""Seconds: the grain at which every time zone in use begins its days."""

Fills = Mapping[tuple[str, int | None], tuple[int, int]]


def fills_of(session: Session) -> Fills:
    """Return how many results there were and their bytes, by tool and quarter hour.

    Those of agents and of branches that were left count too.
    """
    found: dict[tuple[str, int | None], tuple[int, int]] = {}
    runs: Iterable[Session | AgentRun] = (session, *_shown(session))
    for branch in (branch for run in runs for branch in run.branches):
        for name, time, size in _results(branch):
            key = (name, int(time.timestamp()) // QUARTER if time else None)
            calls, sizes = found.get(key, (0, 0))
            found[key] = (calls + 1, sizes + size)
    return found


def _shown(session: Session) -> Iterable[AgentRun]:
    return (run for run in session.all_agents if run.kind.is_shown)


def _results(branch: Branch) -> Iterable[tuple[str, datetime | None, int]]:
    for turn in branch.own:
        for message in turn.messages:
            for call in message.calls:
                if call.is_answered:
                    yield call.name, call.answer_time or call.time, call.result_size
