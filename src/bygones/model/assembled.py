"""Conversations of sessions that are in memory, read by the number of a message."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING

from msgspec import structs

from bygones.errors import NotInArchive
from bygones.model.base import AgentId, SourceFile, SourceKind
from bygones.model.conversations import (
    BranchSummary,
    ConversationHeader,
    MessageWindow,
    StoredTurn,
    build_conversation_header,
    strip_message,
)
from bygones.model.sessions import (
    AgentRun,
    Branch,
    Message,
    Session,
    Turn,
    TurnPath,
    agent_run_as_session,
    list_called_agents,
    own_messages,
)

if TYPE_CHECKING:
    from bygones.model.conversations import Conversation
    from bygones.model.summary import Loader

_WINDOW_SIZE = 256
"""Messages to read at once if a turn is longer than a window."""
_FIRST_REST_SIZE = 32
"""Messages that are read first for the rest of a turn; most turns are shorter."""


def as_conversation(source: Session | Conversation) -> Conversation:
    """Return a session as a conversation; a conversation is returned unchanged."""
    return AssembledConversation(source) if isinstance(source, Session) else source


def find_branch_of(
    source: Session | Conversation, record_id: str
) -> BranchSummary | None:
    """Return the branch with this leaf, otherwise the one with this record."""
    conversation = as_conversation(source)
    branches = conversation.facts.branches
    for branch in branches:
        if branch.id == record_id:
            return branch
    for branch in branches:
        own = conversation.messages(branch.number, [record_id], own=True)
        if any(record_id in message.record_ids for _, message in own):
            return branch
    return None


class AssembledConversation:
    """A conversation of an assembled session."""

    def __init__(
        self,
        session: Session,
        agent: str = "",
        runs: Mapping[AgentId, AgentRun] | None = None,
    ) -> None:
        """Open a session, or an agent run in it; ``runs`` are its runs, if known."""
        if runs is None:
            runs = {run.id: run for run in list_called_agents(session)}
        self._runs = runs
        self._whole = session
        self._agent = agent
        self.session = session
        if agent:
            run = self._runs.get(AgentId(agent))
            if run is None:
                raise NotInArchive("agent", agent)
            self.session = agent_run_as_session(session, run)
        self._turns: dict[tuple[int, bool], tuple[Sequence[Turn], list[int]]] = {}
        """By branch and whether shared turns are included."""

    @cached_property
    def facts(self) -> ConversationHeader:
        """What is known of it without its messages."""
        return build_conversation_header(
            self.session, AgentId(self._agent) if self._agent else None
        )

    @property
    def agent_ids(self) -> Sequence[str]:
        return list(self._runs)

    @property
    def loader(self) -> Loader:
        """Loads the content of messages."""
        return self.session.loader

    @property
    def sources(self) -> Sequence[SourceFile]:
        return sort_sources(self.session.sources)

    @property
    def is_assembled(self) -> bool:
        """Whether all messages are in memory."""
        return True

    def load_session(self) -> Session:
        """Return all of it."""
        return self.session

    def agent(self, agent: str) -> Conversation:
        """Return an agent run of the session."""
        return AssembledConversation(self._whole, agent, self._runs)

    def window(self, branch: int, start: int, stop: int) -> MessageWindow:
        path_turns, starts = self._turns_from(branch, start)
        turns = []
        is_partial = False
        for at in range(max(bisect_right(starts, start) - 1, 0), len(path_turns)):
            turn = path_turns[at]
            first, last = max(start - starts[at], 0), stop - starts[at]
            if last <= 0:
                break
            messages = turn.messages[first:last]
            if messages:
                is_partial |= bool(first) or self._is_rest(branch, start, at)
                turns.append(_cut_turn(turn, messages, is_whole=not first))
        return MessageWindow(
            header=self.facts,
            branch_number=branch,
            start=start,
            turns=tuple(turns),
            is_first_turn_partial=is_partial,
        )

    def turns(self, branch: int) -> Sequence[StoredTurn]:
        """Return the turns of a branch without their messages."""
        turns, starts = self._turns_from(branch, 0)
        return list(map(_without_messages, turns, starts))

    def messages(
        self,
        branch: int,
        names: Sequence[str] = (),  # noqa: ARG002 (all messages are loaded)
        *,
        own: bool = False,
    ) -> Iterator[tuple[int, Message]]:
        """Yield messages of a branch with their numbers."""
        chosen = self._find_branch(branch)
        messages: Sequence[Message] = chosen.messages
        start = 0
        if own:
            messages = own_messages(chosen)
            start = chosen.path.message_count - len(messages)
        yield from enumerate(map(strip_message, messages), start)

    def prompts(self, branch: int) -> Iterator[tuple[int, Message]]:
        """Yield the prompts of a branch with their numbers."""
        numbered = enumerate(self._find_branch(branch).messages)
        return (found for found in numbered if found[1].is_prompt)

    def rest_of_turn(self, window: MessageWindow, limit: int) -> list[Message] | None:
        return read_rest_of_turn(self, window, limit)

    def _find_branch(self, number: int) -> Branch:
        branch = self._branches.get(number)
        if branch is None:
            raise NotInArchive("branch", str(number))
        return branch

    @cached_property
    def _branches(self) -> dict[int, Branch]:
        return {branch.number: branch for branch in self.session.branches}

    def _is_rest(self, branch: int, start: int, at: int) -> bool:
        """Whether turn `at` of `_turns_from` is the rest of one before the fork."""
        path = self._find_branch(branch).path
        is_continued = path.cut is not None and path.cut.is_continued
        return is_continued and not at and start >= path.own_message_start

    def _turns_from(
        self, number: int, start: int
    ) -> tuple[Sequence[Turn], Sequence[int]]:
        """Return turns of a branch that contain all messages from a number on.

        The other numbers are those of the first messages of the turns.
        """
        path = self._find_branch(number).path
        is_shared = start < path.own_message_start
        key = (number, is_shared)
        if key not in self._turns:
            turns = path.turns if is_shared else _own_turns(path)
            first = 0 if is_shared else path.own_message_start
            counts = (len(turn.messages) for turn in turns)
            self._turns[key] = turns, [*accumulate(counts, initial=first)]
        return self._turns[key]


def _own_turns(path: TurnPath) -> tuple[Turn, ...]:
    """Return the turns of a path after its fork, with the facts of the whole turns."""
    cut = path.cut
    if cut is None or not cut.is_continued:
        return path.own
    first, *others = path.own
    whole = structs.replace(first, usage=cut.usage, duration=cut.duration)
    return (whole, *others)


def _cut_turn(turn: Turn, messages: Iterable[Message], *, is_whole: bool) -> Turn:
    """Return a turn with some of its messages, which include the first one or not."""
    return structs.replace(
        turn,
        prompt=turn.prompt and strip_message(turn.prompt) if is_whole else None,
        messages=tuple(map(strip_message, messages)),
    )


def stored_turns(branch: Branch) -> list[StoredTurn]:
    """Return the turns that a branch does not share, without their messages."""
    path, cut = branch.path, branch.path.cut
    counts = (len(turn.messages) for turn in path.own)
    starts = accumulate(counts, initial=path.own_message_start)
    turns = list(map(_without_messages, path.own, starts))
    if cut is None:
        return turns
    first = StoredTurn(
        *(path.shared_message_count, path.shared_turn_count, cut.has_prompt),
        *(cut.usage, cut.duration),
    )
    return [first, *turns[cut.is_continued :]]


def _without_messages(turn: Turn, start: int) -> StoredTurn:
    has_prompt = turn.prompt is not None
    return StoredTurn(start, turn.number, has_prompt, turn.usage, turn.duration)


def sort_sources(sources: Iterable[SourceFile]) -> list[SourceFile]:
    """Return the transcripts of a session, then those of its agents, by path."""
    return sorted(sources, key=lambda one: (one.kind is not SourceKind.SESSION, one.id))


def read_rest_of_turn(
    conversation: Conversation, window: MessageWindow, limit: int
) -> list[Message] | None:
    """Return what follows a window in its last turn; `None` if more than the limit."""
    messages: list[Message] = []
    branch = conversation.facts.find_branch(window.branch_number)
    if branch and (
        len(window.turns) > 1 or (window.turns and not window.is_first_turn_partial)
    ):
        start, size = window.stop, _FIRST_REST_SIZE
        while start < branch.message_count:
            if len(messages) > limit:
                return None
            next_window = conversation.window(branch.number, start, start + size)
            size = _WINDOW_SIZE
            if not next_window.is_first_turn_partial:
                break
            messages += next_window.turns[0].messages
            start = (
                next_window.stop
                if len(next_window.turns) == 1
                else branch.message_count
            )
    return messages if len(messages) <= limit else None
