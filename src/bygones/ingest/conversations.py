"""Conversations read by the number of a message.

The index stores the messages of all sessions. If it has none, as in a team store, the
session is assembled and windows are cut out of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from bygones.errors import NotInArchive
from bygones.model.assembled import (
    AssembledConversation,
    read_rest_of_turn,
    sort_sources,
)
from bygones.model.base import SessionId, SourceFile
from bygones.model.conversations import MessageWindow, StoredTurn
from bygones.model.sessions import PROMPT_ORIGINS
from bygones.store.derived_tables import DerivedTables
from bygones.store.messages import MessageRange

if TYPE_CHECKING:
    from bygones.model.conversations import Conversation
    from bygones.model.sessions import Message, Session
    from bygones.model.summary import Loader
    from bygones.store.messages import MessageStore
    from bygones.store.protocols import StoreReader

_OpenSession = Callable[[SessionId], "Session"]


def open_conversation(
    reader: StoreReader,
    session_and_agent: tuple[SessionId, str],
    loader: Loader,
    open_session: _OpenSession,
) -> Conversation:
    """Return a session, or one of its agent runs, to be read by windows."""
    tables = reader.sessions
    session, agent = session_and_agent
    if isinstance(tables, DerivedTables):
        number = tables.session_number(session)
        if number is not None and tables.messages.has_session(number):
            origin = _Origin(
                loader,
                lambda: open_session(session),
                lambda: _load_sources(reader, number),
            )
            return StoredConversation(tables.messages, (number, agent), origin)
    return AssembledConversation(open_session(session), agent)


def _load_sources(reader: StoreReader, number: int) -> list[SourceFile]:
    """Return the transcripts of a session."""
    with reader.read_transaction():
        stored = map(reader.byte_store.source, reader.sessions.session_sources(number))
        return sort_sources(one.source for one in stored if one is not None)


class _Origin(NamedTuple):
    """What a stored conversation is part of."""

    loader: Loader
    open_session: Callable[[], Session]
    load_sources: Callable[[], Sequence[SourceFile]]


class StoredConversation:
    """A conversation whose messages are stored in the index."""

    def __init__(
        self,
        message_store: MessageStore,
        key: tuple[int, str],
        origin: _Origin,
    ) -> None:
        self._message_store = message_store
        self._key = key
        self._origin = origin
        self.loader = origin.loader
        self._assembled: AssembledConversation | None = None
        facts = message_store.load_facts(key, origin.loader)
        if facts is None:
            raise NotInArchive("agent", key[1])
        self.facts = facts

    @property
    def is_assembled(self) -> bool:
        """Whether :meth:`load_session` was called."""
        return self._assembled is not None

    @property
    def agent_ids(self) -> Sequence[str]:
        return self._message_store.agent_ids(self._key[0])

    @property
    def sources(self) -> Sequence[SourceFile]:
        return self._origin.load_sources()

    def load_session(self) -> Session:
        """Return the whole session, assembled on the first call."""
        if self._assembled is None:
            session = self._origin.open_session()
            self._assembled = AssembledConversation(session, self._key[1])
        return self._assembled.session

    def agent(self, agent: str) -> Conversation:
        """Return an agent run of the session."""
        if self._assembled is not None:
            return self._assembled.agent(agent)
        key = (self._key[0], agent)
        return StoredConversation(self._message_store, key, self._origin)

    def window(self, branch: int, start: int, stop: int) -> MessageWindow:
        message_range = MessageRange(branch, start, stop)
        window = self._message_store.load_window(self._key, message_range, self.loader)
        if window is None:
            raise NotInArchive("branch", str(branch))
        return window

    def turns(self, branch: int) -> Sequence[StoredTurn]:
        """Return the turns of a branch without their messages."""
        self._check_branch(branch)
        return self._message_store.load_turns(self._key, branch, self.loader)

    def messages(
        self, branch: int, names: Sequence[str] = (), *, own: bool = False
    ) -> Iterator[tuple[int, Message]]:
        """Yield messages of a branch with their numbers, near names if given."""
        self._check_branch(branch)
        return self._message_store.messages_naming(
            self._key, branch, names, self.loader, own=own
        )

    def prompts(self, branch: int) -> Iterator[tuple[int, Message]]:
        """Yield the prompts of a branch with their numbers."""
        names = [origin.value for origin in PROMPT_ORIGINS]
        return (found for found in self.messages(branch, names) if found[1].is_prompt)

    def rest_of_turn(self, window: MessageWindow, limit: int) -> list[Message] | None:
        return read_rest_of_turn(self, window, limit)

    def _check_branch(self, branch: int) -> None:
        if self.facts.find_branch(branch) is None:
            raise NotInArchive("branch", str(branch))
