"""The way through a window: the steps that a whole session would have there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from bygones.model.ids import RecordId
from bygones.model.sessions import Branch
from bygones.model.usage import Usage
from bygones.model.windows import BranchFacts, Window
from bygones.render.walk import Orphans, Paths, Step, TurnStart, View, Way, agent

__all__ = ["Beside", "beside", "walk_window"]

_VIEW = View(thinking=True, tools=True)
_PATH = Branch(id=RecordId(""), number=0, is_live=True, turns=(), own=(), usage=Usage())
"""Stands for the branch, of which a window knows only its own part."""


class Beside(Struct, frozen=True):
    """A branch leaves the way, or the way left it."""

    branch: BranchFacts
    after: RecordId | None = None
    """The last message that both have."""


def walk_window(
    window: Window, seen: set[str] | None = None
) -> Iterator[Step | Beside]:
    """Yield the steps through a window; agents and other branches are told in brief.

    ``seen`` are agents that windows before it have met; those of this one are added.
    """
    seen = set() if seen is None else seen
    waiting: list[Iterator[Step | Beside | Way]] = [_steps(window, seen)]
    while waiting:
        step = next(waiting[-1], None)
        if step is None:
            waiting.pop()
        elif isinstance(step, Iterator):
            waiting.append(step)
        else:
            yield step


def _steps(window: Window, seen: set[str]) -> Iterator[Step | Beside | Way]:
    paths = Paths((), _VIEW, seen)
    leaving = beside(window.facts.branches, window.branch)
    if not window.start:
        yield from (Beside(one) for one in leaving.get(None, ()))
    for at, turn in enumerate(window.turns):
        if at or not window.is_begun:
            yield TurnStart(turn, _PATH)
        for message in turn.messages:
            yield from paths.message(message, turn)
            yield from (Beside(one, message.id) for one in leaving.get(message.id, ()))
    branch = window.facts.branch(window.branch)
    orphans = window.facts.orphans
    if orphans and branch is not None and window.stop >= branch.total:
        yield Orphans(orphans)
        for run in orphans:
            yield from agent(run, None, _VIEW, seen)


def beside(
    branches: Sequence[BranchFacts], number: int
) -> dict[RecordId | None, list[BranchFacts]]:
    """Return the branches that leave a way, by the last message they share."""
    by_number = {branch.number: branch for branch in branches}
    found: dict[RecordId | None, list[BranchFacts]] = {}
    numbers = [number]
    below = by_number[number]
    while below.parent in by_number and below.parent not in numbers:
        # Where the way left another, that one goes on without it.
        above = by_number[below.parent]
        found.setdefault(below.last_shared, []).append(above)
        numbers.append(above.number)
        below = above
    for other in sorted(branches, key=lambda one: one.number):
        if other.parent in numbers and other.number not in numbers:
            found.setdefault(other.last_shared, []).append(other)
    return found
