"""Conversations read by the number of a message: from the index, or of a whole session.

The index has the messages of a folder's sessions as they were assembled. Where it has
none, as in a team's store, the session is assembled and a window is cut out of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from recollect.errors import NotArchived
from recollect.model.ids import SessionId
from recollect.model.windows import (
    SessionFacts,
    Window,
    as_session,
    facts_of,
    in_brief,
    window_of,
)
from recollect.store.derived import Derived
from recollect.store.reels import Asked

if TYPE_CHECKING:
    from recollect.model.parts import Loader
    from recollect.model.sessions import Message, Session
    from recollect.store.reels import Reels
    from recollect.store.shelf import Deriving

__all__ = ["Conversation", "Cut", "open_conversation"]

_Open = Callable[[SessionId], "Session"]


class Conversation(Protocol):
    """A session, or an agent run in it, read by windows."""

    @property
    def facts(self) -> SessionFacts:
        """What is told of it without its messages."""
        ...

    @property
    def runs(self) -> Sequence[str]:
        """The ids of all agent runs of the session."""
        ...

    def window(self, branch: int, start: int, stop: int) -> Window:
        """Return the messages of a branch from one number up to another."""
        ...

    def messages(
        self, branch: int, names: Sequence[str] = ()
    ) -> Iterator[tuple[int, Message]]:
        """Yield messages of a branch with their numbers.

        With names only those that may hold one of them, and perhaps some beside.
        """
        ...


def open_conversation(
    derived: Deriving,
    place: tuple[SessionId, str],
    loader: Loader,
    open_session: _Open,
) -> Conversation:
    """Return a session, or one of its agent runs, to be read by windows."""
    session, agent = place
    if isinstance(derived, Derived):
        number = derived.number_of(session)
        if number is not None and derived.reels.has(number):
            return Reeled(derived.reels, (number, agent), loader)
    return Cut(open_session(session), agent)


class Cut:
    """A conversation of a session that was assembled."""

    def __init__(self, session: Session, agent: str = "") -> None:
        self.runs = [run.id for run in session.all_agents]
        if agent:
            run = next((one for one in session.all_agents if one.id == agent), None)
            if run is None:
                raise NotArchived("agent", agent)
            session = as_session(session, run)
            self.facts = facts_of(session, run.id)
        else:
            self.facts = facts_of(session)
        self.session = session

    def window(self, branch: int, start: int, stop: int) -> Window:
        """Return the messages of a branch from one number up to another."""
        _check(self.facts, branch)
        return window_of(self.session, self.facts, (branch, start, stop))

    def messages(
        self,
        branch: int,
        names: Sequence[str] = (),  # noqa: ARG002 (all messages are at hand)
    ) -> Iterator[tuple[int, Message]]:
        """Yield messages of a branch with their numbers, whatever names they hold."""
        _check(self.facts, branch)
        found = next(one for one in self.session.branches if one.number == branch)
        yield from enumerate(map(in_brief, found.messages))


class Reeled:
    """A conversation that the index has."""

    def __init__(self, reels: Reels, place: tuple[int, str], loader: Loader) -> None:
        self._reels = reels
        self._place = place
        self._loader = loader
        number, agent = place
        facts = reels.facts(number, agent)
        if facts is None:
            raise NotArchived("agent", agent)
        self.facts = facts

    @property
    def runs(self) -> Sequence[str]:
        """The ids of all agent runs of the session."""
        return self._reels.agents(self._place[0])

    def window(self, branch: int, start: int, stop: int) -> Window:
        """Return the messages of a branch from one number up to another."""
        asked = Asked(branch, start, stop)
        found = self._reels.window(self._place, asked, self._loader)
        if found is None:
            raise NotArchived("branch", str(branch))
        return found

    def messages(
        self, branch: int, names: Sequence[str] = ()
    ) -> Iterator[tuple[int, Message]]:
        """Yield messages of a branch with their numbers, those near names if given."""
        _check(self.facts, branch)
        return self._reels.holding(self._place, branch, names, self._loader)


def _check(facts: SessionFacts, branch: int) -> None:
    if facts.branch(branch) is None:
        raise NotArchived("branch", str(branch))
