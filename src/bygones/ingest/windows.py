"""Conversations read by the number of a message: from the index, or of a whole session.

The index has the messages of long sessions as they were assembled, and tells how short
ones begin. Where it does neither, as in a team's store, the session is assembled and a
window is cut out of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import takewhile
from typing import TYPE_CHECKING, Protocol

from bygones.assemble import begin
from bygones.errors import NotArchived
from bygones.ingest.opening import ChunkLoader
from bygones.model.ids import SessionId
from bygones.model.nodes import Transcript
from bygones.model.rest import Paid, Rest, rest_of
from bygones.model.sources import SourceKind
from bygones.model.windows import (
    SessionFacts,
    Window,
    as_session,
    facts_of,
    in_brief,
    window_of,
)
from bygones.store.derived import Derived, decode_listed
from bygones.store.openings import sign_of
from bygones.store.reels import Asked

if TYPE_CHECKING:
    from bygones.model.parts import Loader
    from bygones.model.sessions import Message, Session
    from bygones.store.chunks import Kept
    from bygones.store.openings import Opening
    from bygones.store.reels import Reels
    from bygones.store.shelf import Shelf

__all__ = ["Begun", "Conversation", "Cut", "Reeled", "open_conversation"]

_Open = Callable[[SessionId], "Session"]
_Fits = Callable[[Paid], bool]
_FURTHER = 256
"""Messages that are read at once where a turn is longer than a window."""


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

    def rest(self, window: Window, is_even: _Fits) -> Rest:
        """Return what is behind a window of the last turn that begins in it.

        It is told as a sum only where that ``is_even``.
        """
        ...


def open_conversation(
    shelf: Shelf, place: tuple[SessionId, str], loader: Loader, open_session: _Open
) -> Conversation:
    """Return a session, or one of its agent runs, to be read by windows."""
    derived = shelf.derived
    session, agent = place
    if isinstance(derived, Derived):
        number = derived.number_of(session)
        if number is not None and derived.reels.has(number):
            return Reeled(derived.reels, (number, agent), loader)
        if number is not None and not agent:
            with shelf.at_once():
                begun = _begun(shelf, derived, number, loader)
            if begun is not None:
                return Begun(*begun, lambda: open_session(session))
    return Cut(open_session(session), agent)


def _begun(
    shelf: Shelf, derived: Derived, number: int, loader: Loader
) -> tuple[Opening, SessionFacts, list[Message]] | None:
    """Return how a session begins, if the index tells and its file still says so."""
    told = derived.openings.of(number)
    if told is None:
        return None
    opening, line = told
    listed = decode_listed(line)
    kept = _own_source(shelf, derived, number)
    if kept is None:
        return None
    if isinstance(loader, ChunkLoader):
        loader.know(kept)  # whoever reads the messages asks for it
    nodes = derived.index.each_node(kept.number)
    begun = takewhile(lambda one: one.position.offset < opening.until, nodes)
    beginning = Transcript(source=kept.source, nodes=tuple(begun))
    session, found = begin(beginning, loader)
    messages = opening.within(list(map(in_brief, found[: opening.count])))
    if session != listed.id or sign_of(messages) != opening.sign:
        return None
    return opening, opening.facts(listed, messages), messages


def _own_source(shelf: Shelf, derived: Derived, number: int) -> Kept | None:
    """Return the file that a session begins in."""
    for source in derived.sources_of(number):
        kept = shelf.chunks.source(source)
        if kept is not None and kept.kind is SourceKind.SESSION:
            return kept
    return None


def _behind(talk: Conversation, window: Window) -> Rest:
    """Return what is behind a window, read by windows."""
    found: list[Message] = []
    branch = talk.facts.branch(window.branch)
    if branch and (len(window.turns) > 1 or (window.turns and not window.is_begun)):
        at = window.stop
        while at < branch.total:
            behind = talk.window(branch.number, at, at + _FURTHER)
            if not behind.is_begun:
                break
            found += behind.turns[0].messages
            at = behind.stop if len(behind.turns) == 1 else branch.total
    return rest_of(found)


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

    def rest(self, window: Window, is_even: _Fits) -> Rest:  # noqa: ARG002 (no sums)
        """Return what is behind a window of the last turn that begins in it."""
        return _behind(self, window)


class Begun:
    """A conversation of which it is known how it begins; it is assembled for more."""

    def __init__(
        self,
        opening: Opening,
        facts: SessionFacts,
        messages: Sequence[Message],
        open_session: Callable[[], Session],
    ) -> None:
        self.facts = facts
        self._opening = opening
        self._messages = messages
        self._open = open_session

    @cached_property
    def _cut(self) -> Cut:
        return Cut(self._open())

    @property
    def session(self) -> Session:
        """All of it."""
        return self._cut.session

    @property
    def is_whole(self) -> bool:
        """Whether more was asked for."""
        return "_cut" in self.__dict__

    @property
    def runs(self) -> Sequence[str]:
        """The ids of all agent runs of the session."""
        return self._cut.runs

    def window(self, branch: int, start: int, stop: int) -> Window:
        """Return the messages of a branch from one number up to another."""
        told, count = self.facts.branch(branch), len(self._messages)
        if (
            self.is_whole
            or told is None
            or not told.is_live
            or not (stop <= count or count == told.total)
        ):
            return self._cut.window(branch, start, stop)
        turns = self._opening.turned(self._messages[start:stop], start)
        return Window(
            facts=self.facts,
            branch=branch,
            start=start,
            turns=tuple(turn for _, turn in turns),
            is_begun=bool(turns) and turns[0][0] < start,
        )

    def messages(
        self, branch: int, names: Sequence[str] = ()
    ) -> Iterator[tuple[int, Message]]:
        """Yield messages of a branch with their numbers, whatever names they hold."""
        return self._cut.messages(branch, names)

    def rest(self, window: Window, is_even: _Fits) -> Rest:
        """Return what is behind a window of the last turn that begins in it."""
        told, rest = self.facts.branch(window.branch), self._opening.rest
        is_all = window.start == 0 and window.stop == len(self._messages)
        if told and told.is_live and is_all and all(map(is_even, rest.paid)):
            return rest
        return _behind(self, window)


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

    def rest(self, window: Window, is_even: _Fits) -> Rest:  # noqa: ARG002 (no sums)
        """Return what is behind a window of the last turn that begins in it."""
        return _behind(self, window)


def _check(facts: SessionFacts, branch: int) -> None:
    if facts.branch(branch) is None:
        raise NotArchived("branch", str(branch))
