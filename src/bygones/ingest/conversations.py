"""Conversations read by the number of a message: from the index, or of a whole session.

The index has the messages of long sessions as they were assembled, and tells how short
ones begin. Where it does neither, as in a team's store, the session is assembled and a
window is cut out of it.
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
from bygones.model.nodes import Transcript
from bygones.model.sessions import (
    ConversationHeader,
    MessageWindow,
    ModelUsage,
    TurnRemainder,
    agent_run_as_session,
    build_conversation_header,
    build_window,
    collect_remainder,
    strip_message,
)
from bygones.store.derived_tables import DerivedTables, decode_summary
from bygones.store.messages import MessageRange, messages_checksum

if TYPE_CHECKING:
    from bygones.model.sessions import Conversation, Message, Session
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
"""Messages that are read at once where a turn is longer than a window."""


def open_conversation(
    reader: StoreReader,
    session_and_agent: tuple[SessionId, str],
    loader: Loader,
    open_session: _OpenSession,
) -> Conversation:
    """Return a session, or one of its agent runs, to be read by windows."""
    derived = reader.sessions
    session, agent = session_and_agent
    if isinstance(derived, DerivedTables):
        number = derived.session_number(session)
        if number is not None and derived.messages.has_session(number):
            return StoredConversation(
                derived.messages,
                (number, agent),
                loader,
                lambda: open_session(session),
            )
        if number is not None and not agent:
            with reader.read_transaction():
                begun = _load_preview(reader, derived, number, loader)
            if begun is not None:
                return PreviewConversation(*begun, lambda: open_session(session))
    return AssembledConversation(open_session(session), agent)


def _load_preview(
    reader: StoreReader, tables: DerivedTables, number: int, loader: Loader
) -> tuple[SessionPreview, ConversationHeader, list[Message]] | None:
    """Return how a session begins, if the index tells and its file still says so."""
    told = tables.previews.load_preview(number)
    if told is None:
        return None
    opening, line = told
    listed = decode_summary(line)
    kept = _find_own_source(reader, tables, number)
    if kept is None:
        return None
    if isinstance(loader, StoreLoader):
        loader.remember_source(kept)  # whoever reads the messages asks for it
    nodes = tables.index.iter_nodes(kept.number)
    begun = takewhile(lambda one: one.position.offset < opening.end_offset, nodes)
    beginning = Transcript(source=kept.source, nodes=tuple(begun))
    session, found = assemble_preview(beginning, loader)
    messages = opening.with_agents(
        list(map(strip_message, found[: opening.message_count]))
    )
    if session != listed.id or messages_checksum(messages) != opening.checksum:
        return None
    return opening, opening.build_facts(listed, messages), messages


def _find_own_source(
    reader: StoreReader, tables: DerivedTables, number: int
) -> StoredSource | None:
    """Return the file that a session begins in."""
    for source in tables.session_sources(number):
        kept = reader.byte_store.source(source)
        if kept is not None and kept.kind is SourceKind.SESSION:
            return kept
    return None


def _read_rest_of_turn(
    conversation: Conversation, window: MessageWindow
) -> TurnRemainder:
    """Return what is behind a window, read by windows."""
    found: list[Message] = []
    branch = conversation.facts.find_branch(window.branch_number)
    if branch and (
        len(window.turns) > 1 or (window.turns and not window.is_first_turn_partial)
    ):
        at = window.stop
        while at < branch.message_count:
            behind = conversation.window(branch.number, at, at + _WINDOW_SIZE)
            if not behind.is_first_turn_partial:
                break
            found += behind.turns[0].messages
            at = behind.stop if len(behind.turns) == 1 else branch.message_count
    return collect_remainder(found)


class AssembledConversation:
    """A conversation of a session that was assembled."""

    def __init__(self, session: Session, agent: str = "") -> None:
        self.agent_ids = [run.id for run in session.all_agents]
        if agent:
            run = next((one for one in session.all_agents if one.id == agent), None)
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
        """Return the messages of a branch from one number up to another."""
        _check_branch(self.facts, branch)
        return build_window(self.session, self.facts, (branch, start, stop))

    def messages(
        self,
        branch: int,
        names: Sequence[str] = (),  # noqa: ARG002 (all messages are at hand)
    ) -> Iterator[tuple[int, Message]]:
        """Yield messages of a branch with their numbers, whatever names they hold."""
        _check_branch(self.facts, branch)
        found = next(one for one in self.session.branches if one.number == branch)
        yield from enumerate(map(strip_message, found.messages))

    def rest_of_turn(self, window: MessageWindow, can_sum: _CanSum) -> TurnRemainder:  # noqa: ARG002 (no sums)
        """Return what is behind a window of the last turn that begins in it."""
        return _read_rest_of_turn(self, window)


class PreviewConversation:
    """A conversation of which it is known how it begins; it is assembled for more."""

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
        """Whether more than the preview was needed."""
        return "_cut" in self.__dict__

    def load_session(self) -> Session:
        """Return the whole session, assembled on the first call."""
        return self._cut.session

    def agent(self, agent: str) -> Conversation:
        """Return an agent run of the session."""
        return self._cut.agent(agent)

    @property
    def agent_ids(self) -> Sequence[str]:
        """The ids of all agent runs of the session."""
        return self._cut.agent_ids

    def window(self, branch: int, start: int, stop: int) -> MessageWindow:
        """Return the messages of a branch from one number up to another."""
        told, count = self.facts.find_branch(branch), len(self._messages)
        if (
            self.is_assembled
            or told is None
            or not told.is_live
            or not (stop <= count or count == told.message_count)
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
        """Yield messages of a branch with their numbers, whatever names they hold."""
        return self._cut.messages(branch, names)

    def rest_of_turn(self, window: MessageWindow, can_sum: _CanSum) -> TurnRemainder:
        """Return what is behind a window of the last turn that begins in it."""
        told, rest = self.facts.find_branch(window.branch_number), self._preview.rest
        is_all = window.start == 0 and window.stop == len(self._messages)
        if told and told.is_live and is_all and all(map(can_sum, rest.usages)):
            return rest
        return _read_rest_of_turn(self, window)


class StoredConversation:
    """A conversation that the index has."""

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
        """The ids of all agent runs of the session."""
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
        """Return the messages of a branch from one number up to another."""
        asked = MessageRange(branch, start, stop)
        found = self._message_store.load_window(self._key, asked, self._loader)
        if found is None:
            raise NotInArchive("branch", str(branch))
        return found

    def messages(
        self, branch: int, names: Sequence[str] = ()
    ) -> Iterator[tuple[int, Message]]:
        """Yield messages of a branch with their numbers, those near names if given."""
        _check_branch(self.facts, branch)
        return self._message_store.messages_naming(
            self._key, branch, names, self._loader
        )

    def rest_of_turn(self, window: MessageWindow, can_sum: _CanSum) -> TurnRemainder:  # noqa: ARG002 (no sums)
        """Return what is behind a window of the last turn that begins in it."""
        return _read_rest_of_turn(self, window)


def _check_branch(facts: ConversationHeader, branch: int) -> None:
    if facts.find_branch(branch) is None:
        raise NotInArchive("branch", str(branch))
