"""Conversations read by the number of a message.

The index stores the messages of long sessions and previews of short ones. If it has
neither, as in a team store, the session is assembled and windows are cut out of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import takewhile
from typing import TYPE_CHECKING

from bygones.assemble.sessions import assemble_preview
from bygones.errors import NotInArchive
from bygones.ingest.loading import StoreLoader
from bygones.model.base import SessionId, SourceKind
from bygones.model.conversations import (
    ConversationHeader,
    MessageWindow,
    ModelUsage,
    TurnRemainder,
    build_conversation_header,
    build_window,
    collect_remainder,
    strip_message,
)
from bygones.model.nodes import Transcript
from bygones.model.sessions import agent_run_as_session
from bygones.store.derived_tables import DerivedTables, decode_summary
from bygones.store.messages import MessageRange, messages_checksum

if TYPE_CHECKING:
    from bygones.model.conversations import Conversation
    from bygones.model.sessions import Message, Session
    from bygones.model.summary import Loader
    from bygones.store.archive_db import StoredSource
    from bygones.store.messages import MessageStore, SessionPreview
    from bygones.store.protocols import StoreReader

__all__ = [
    "AssembledConversation",
    "PreviewConversation",
    "StoredConversation",
    "open_conversation",
]

_OpenSession = Callable[[SessionId], "Session"]
_CanSum = Callable[[ModelUsage], bool]
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
        if number is not None and not agent:
            with reader.read_transaction():
                preview = _load_preview(reader, tables, number, loader)
            if preview is not None:
                return PreviewConversation(*preview, lambda: open_session(session))
    return AssembledConversation(open_session(session), agent)


def _load_preview(
    reader: StoreReader, tables: DerivedTables, number: int, loader: Loader
) -> tuple[SessionPreview, ConversationHeader, list[Message]] | None:
    """Return the preview of a session, if the index has one and its file still matches."""
    found = tables.previews.load_preview(number)
    if found is None:
        return None
    preview, encoded = found
    summary = decode_summary(encoded)
    stored = _find_own_source(reader, tables, number)
    if stored is None:
        return None
    if isinstance(loader, StoreLoader):
        loader.remember_source(stored)  # loading messages needs it
    nodes = tables.index.iter_nodes(stored.number)
    first_nodes = takewhile(
        lambda node: node.position.offset < preview.end_offset, nodes
    )
    transcript = Transcript(source=stored.source, nodes=tuple(first_nodes))
    session, assembled = assemble_preview(transcript, loader)
    messages = preview.with_agents(
        list(map(strip_message, assembled[: preview.message_count]))
    )
    if session != summary.id or messages_checksum(messages) != preview.checksum:
        return None
    return preview, preview.build_facts(summary, messages), messages


def _find_own_source(
    reader: StoreReader, tables: DerivedTables, number: int
) -> StoredSource | None:
    """Return the file that a session starts in."""
    for source in tables.session_sources(number):
        stored = reader.byte_store.source(source)
        if stored is not None and stored.kind is SourceKind.SESSION:
            return stored
    return None


def _read_rest_of_turn(
    conversation: Conversation, window: MessageWindow
) -> TurnRemainder:
    """Return what follows a window, read by windows."""
    messages: list[Message] = []
    branch = conversation.facts.find_branch(window.branch_number)
    if branch and (
        len(window.turns) > 1 or (window.turns and not window.is_first_turn_partial)
    ):
        start = window.stop
        while start < branch.message_count:
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
    return collect_remainder(messages)


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

    def rest_of_turn(self, window: MessageWindow, can_sum: _CanSum) -> TurnRemainder:  # noqa: ARG002 (no sums)
        return _read_rest_of_turn(self, window)


class PreviewConversation:
    """A conversation with a stored preview; it is assembled if more is needed."""

    def __init__(
        self,
        preview: SessionPreview,
        facts: ConversationHeader,
        messages: Sequence[Message],
        open_session: Callable[[], Session],
    ) -> None:
        self.facts = facts
        self._preview = preview
        self._messages = messages
        self._open = open_session

    @cached_property
    def _cut(self) -> AssembledConversation:
        return AssembledConversation(self._open())

    @property
    def is_assembled(self) -> bool:
        return "_cut" in self.__dict__

    def load_session(self) -> Session:
        """Return the whole session, assembled on the first call."""
        return self._cut.session

    def agent(self, agent: str) -> Conversation:
        return self._cut.agent(agent)

    @property
    def agent_ids(self) -> Sequence[str]:
        return self._cut.agent_ids

    def window(self, branch: int, start: int, stop: int) -> MessageWindow:
        summary, count = self.facts.find_branch(branch), len(self._messages)
        if (
            self.is_assembled
            or summary is None
            or not summary.is_live
            or not (stop <= count or count == summary.message_count)
        ):
            return self._cut.window(branch, start, stop)
        turns = self._preview.build_turns(self._messages[start:stop], start)
        return MessageWindow(
            header=self.facts,
            branch_number=branch,
            start=start,
            turns=tuple(turn for _, turn in turns),
            is_first_turn_partial=bool(turns) and turns[0][0] < start,
        )

    def messages(
        self, branch: int, names: Sequence[str] = ()
    ) -> Iterator[tuple[int, Message]]:
        """Yield all messages of a branch with their numbers."""
        return self._cut.messages(branch, names)

    def rest_of_turn(self, window: MessageWindow, can_sum: _CanSum) -> TurnRemainder:
        summary, rest = self.facts.find_branch(window.branch_number), self._preview.rest
        is_whole_preview = window.start == 0 and window.stop == len(self._messages)
        if (
            summary
            and summary.is_live
            and is_whole_preview
            and all(map(can_sum, rest.usages))
        ):
            return rest
        return _read_rest_of_turn(self, window)


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
        number, agent = key
        facts = message_store.load_facts(number, agent)
        if facts is None:
            raise NotInArchive("agent", agent)
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

    def rest_of_turn(self, window: MessageWindow, can_sum: _CanSum) -> TurnRemainder:  # noqa: ARG002 (no sums)
        return _read_rest_of_turn(self, window)


def _check_branch(facts: ConversationHeader, branch: int) -> None:
    if facts.find_branch(branch) is None:
        raise NotInArchive("branch", str(branch))
