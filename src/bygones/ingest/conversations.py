"""Conversations read by the number of a message.

The index stores the messages of all sessions. If it has none, as in a team store, the
session is assembled and windows are cut out of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from bygones.errors import NotInArchive
from bygones.model.base import SessionId
from bygones.model.conversations import (
    ConversationHeader,
    MessageWindow,
    build_conversation_header,
    build_window,
    strip_message,
)
from bygones.model.sessions import agent_run_as_session
from bygones.store.derived_tables import DerivedTables
from bygones.store.messages import MessageRange

if TYPE_CHECKING:
    from bygones.model.conversations import Conversation
    from bygones.model.sessions import Message, Session
    from bygones.model.summary import Loader
    from bygones.store.messages import MessageStore
    from bygones.store.protocols import StoreReader

__all__ = [
    "AssembledConversation",
    "StoredConversation",
    "open_conversation",
]

_OpenSession = Callable[[SessionId], "Session"]
_WINDOW_SIZE = 256
"""Messages to read at once if a turn is longer than a window."""


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
            return StoredConversation(
                tables.messages,
                (number, agent),
                loader,
                lambda: open_session(session),
            )
    return AssembledConversation(open_session(session), agent)


def _read_rest_of_turn(
    conversation: Conversation, window: MessageWindow, limit: int
) -> list[Message] | None:
    """Return what follows a window, read by windows."""
    messages: list[Message] = []
    branch = conversation.facts.find_branch(window.branch_number)
    if branch and (
        len(window.turns) > 1 or (window.turns and not window.is_first_turn_partial)
    ):
        start = window.stop
        while start < branch.message_count:
            if len(messages) > limit:
                return None
            next_window = conversation.window(
                branch.number, start, start + _WINDOW_SIZE
            )
            if not next_window.is_first_turn_partial:
                break
            messages += next_window.turns[0].messages
            start = (
                next_window.stop
                if len(next_window.turns) == 1
                else branch.message_count
            )
    return messages


class AssembledConversation:
    """A conversation of an assembled session."""

    def __init__(self, session: Session, agent: str = "") -> None:
        self.agent_ids = [run.id for run in session.all_agents]
        if agent:
            run = next(
                (
                    agent_run
                    for agent_run in session.all_agents
                    if agent_run.id == agent
                ),
                None,
            )
            if run is None:
                raise NotInArchive("agent", agent)
            session = agent_run_as_session(session, run)
            self.facts = build_conversation_header(session, run.id)
        else:
            self.facts = build_conversation_header(session)
        self.session = session

    @property
    def is_assembled(self) -> bool:
        """Whether all messages are in memory."""
        return True

    def load_session(self) -> Session:
        """Return all of it."""
        return self.session

    def agent(self, agent: str) -> Conversation:
        """Return an agent run of the session."""
        return AssembledConversation(self.session, agent)

    def window(self, branch: int, start: int, stop: int) -> MessageWindow:
        _check_branch(self.facts, branch)
        return build_window(self.session, self.facts, (branch, start, stop))

    def messages(
        self,
        branch: int,
        names: Sequence[str] = (),  # noqa: ARG002 (all messages are loaded)
    ) -> Iterator[tuple[int, Message]]:
        """Yield all messages of a branch with their numbers."""
        _check_branch(self.facts, branch)
        chosen = next(
            candidate
            for candidate in self.session.branches
            if candidate.number == branch
        )
        yield from enumerate(map(strip_message, chosen.messages))

    def rest_of_turn(self, window: MessageWindow, limit: int) -> list[Message] | None:
        return _read_rest_of_turn(self, window, limit)


class StoredConversation:
    """A conversation whose messages are stored in the index."""

    def __init__(
        self,
        message_store: MessageStore,
        key: tuple[int, str],
        loader: Loader,
        open_session: Callable[[], Session],
    ) -> None:
        self._message_store = message_store
        self._key = key
        self._loader = loader
        self._open_session = open_session
        self._assembled: AssembledConversation | None = None
        facts = message_store.load_facts(key, loader)
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

    def load_session(self) -> Session:
        """Return the whole session, assembled on the first call."""
        if self._assembled is None:
            self._assembled = AssembledConversation(self._open_session(), self._key[1])
        return self._assembled.session

    def agent(self, agent: str) -> Conversation:
        """Return an agent run of the session."""
        if self._assembled is not None:
            return self._assembled.agent(agent)
        key = (self._key[0], agent)
        return StoredConversation(
            self._message_store, key, self._loader, self._open_session
        )

    def window(self, branch: int, start: int, stop: int) -> MessageWindow:
        message_range = MessageRange(branch, start, stop)
        window = self._message_store.load_window(self._key, message_range, self._loader)
        if window is None:
            raise NotInArchive("branch", str(branch))
        return window

    def messages(
        self, branch: int, names: Sequence[str] = ()
    ) -> Iterator[tuple[int, Message]]:
        """Yield messages of a branch with their numbers, near names if given."""
        _check_branch(self.facts, branch)
        return self._message_store.messages_naming(
            self._key, branch, names, self._loader
        )

    def rest_of_turn(self, window: MessageWindow, limit: int) -> list[Message] | None:
        return _read_rest_of_turn(self, window, limit)


def _check_branch(facts: ConversationHeader, branch: int) -> None:
    if facts.find_branch(branch) is None:
        raise NotInArchive("branch", str(branch))
