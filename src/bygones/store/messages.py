"""Reels: the messages of sessions as they were assembled, to be read by number.

Each conversation, a session's own or an agent run's, has a row with its facts, and each
of its branches a row for every few dozen messages of its own. What a branch shares with
the one that it left stands there. So a window costs the window.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec import Struct, structs

from bygones.model.base import Position, ToolUseId
from bygones.model.sessions import (
    PREVIEW_MESSAGES,
    AgentRun,
    Branch,
    BranchSummary,
    ConversationHeader,
    Message,
    MessageWindow,
    Session,
    Turn,
    TurnRemainder,
    agent_run_as_session,
    build_conversation_header,
    collect_remainder,
    merge_by_model,
    own_messages,
    strip_message,
)
from bygones.model.summary import Loader
from bygones.model.usage import Usage
from bygones.store.compression import compress, decompress
from bygones.store.connect import fetch_all, fetch_one

if TYPE_CHECKING:
    from bygones.store.index_db import IndexDB


MESSAGES_PER_BLOCK = 64
"""Messages of a row."""
_NO_LIMIT = 1 << 62


ConversationKey = tuple[int, str]
"""A session by its number, and an agent run in it or none."""


class MessageRange(NamedTuple):
    """Messages of a branch: the first, and the one behind the last."""

    branch: int
    start: int
    stop: int


ConversationRow = tuple[str, bytes]
"""An agent run or none, and the facts."""
MessageBlockRow = tuple[str, int, int, bytes]
"""An agent run or none, a branch, the number of the first message, and messages."""


class StoredTurn(Struct, frozen=True, array_like=True, gc=False):
    """A turn without its messages."""

    start: int
    """The number of its first message on the branch."""
    number: int
    has_prompt: bool
    usage: Usage
    duration: timedelta | None


class _MessageBlock(Struct, frozen=True, array_like=True):
    """Messages, and the turns that they are of; the first may have begun before."""

    turns: list[StoredTurn]
    messages: list[Message]


class _ConversationFacts(Struct, frozen=True, array_like=True):
    """The facts of a conversation, and the turns that forks cut short."""

    facts: ConversationHeader
    forked_turns: dict[int, StoredTurn]
    """By the branch that left there: the turn as far as both share it, and on."""


class MessageStore:
    """The messages of sessions, read by number."""

    def __init__(self, index: IndexDB) -> None:
        self._db = index.db
        self._loader = Loader()
        self._facts_decoder = msgspec.msgpack.Decoder(
            _ConversationFacts, dec_hook=self._decode_loader
        )
        self._block_decoder = msgspec.msgpack.Decoder(
            _MessageBlock, dec_hook=self._decode_loader
        )

    def has_session(self, number: int) -> bool:
        """Whether a session has rows."""
        sql = "SELECT 1 FROM conversation WHERE session = ? AND agent = ''"
        return fetch_one(self._db, sql, (number,)) is not None

    def load_facts(self, number: int, agent: str = "") -> ConversationHeader | None:
        """Return what is told of a conversation, if it has rows."""
        talk = self._load_conversation(number, agent)
        return talk.facts if talk else None

    def agent_ids(self, number: int) -> list[str]:
        """Return the agent runs of a session that have rows."""
        sql = "SELECT agent FROM conversation WHERE session = ? AND agent > ''"
        return [row[0] for row in fetch_all(self._db, sql, (number,))]

    def _load_conversation(self, number: int, agent: str) -> _ConversationFacts | None:
        sql = "SELECT facts FROM conversation WHERE session = ? AND agent = ?"
        row = fetch_one(self._db, sql, (number, agent))
        if row is None:
            return None
        return self._facts_decoder.decode(row[0])

    def load_window(
        self, key: ConversationKey, message_range: MessageRange, loader: Loader
    ) -> MessageWindow | None:
        """Return messages of a conversation, if it has rows and such a branch."""
        self._loader = loader
        talk, rows, messages = self._read_in_transaction(key, message_range)
        if talk is None:
            return None
        ordered = [rows[at] for at in sorted(rows)]
        turns = list(build_turns(ordered, messages, message_range.start))
        return MessageWindow(
            header=talk.facts,
            branch_number=message_range.branch,
            start=message_range.start,
            turns=tuple(turn for _, turn in turns),
            is_first_turn_partial=bool(turns) and turns[0][0] < message_range.start,
        )

    def messages_naming(
        self, key: ConversationKey, branch: int, names: Sequence[str], loader: Loader
    ) -> Iterator[tuple[int, Message]]:
        """Yield the messages near which one of some names stands, by their numbers.

        Without names all messages of a branch come, from its root on.
        """
        self._loader = loader
        signs = [name.encode("utf-8", "surrogatepass") for name in names]
        talk = self._load_conversation(*key)
        if talk is None:
            return
        for one, until in _branch_parts(talk.facts, branch, _NO_LIMIT):
            asked = MessageRange(one.number, one.shared_count, until)
            for at, raw in self._raw_blocks(key, asked, one.shared_count):
                if not signs or any(sign in raw for sign in signs):
                    messages = self._block_decoder.decode(raw).messages
                    yield from enumerate(messages[: until - at], at)

    def _read_in_transaction(
        self, key: ConversationKey, message_range: MessageRange
    ) -> tuple[_ConversationFacts | None, dict[int, StoredTurn], list[Message]]:
        """Return what is asked for as it was at one moment, whoever writes."""
        with self._db:
            talk = self._load_conversation(*key)
            if (
                talk is not None
                and talk.facts.find_branch(message_range.branch) is not None
            ):
                return talk, *self._read(key, talk, message_range)
        return None, {}, []

    def _read(
        self,
        key: ConversationKey,
        conversation: _ConversationFacts,
        message_range: MessageRange,
    ) -> tuple[dict[int, StoredTurn], list[Message]]:
        """Return the messages that are asked for, and the turns around them."""
        rows: dict[int, StoredTurn] = {}
        messages: list[Message] = []
        for one, until in _branch_parts(
            conversation.facts, message_range.branch, message_range.stop
        ):
            opened = conversation.forked_turns.get(one.number)
            limit = opened.start if opened else one.shared_count
            rows = {at: row for at, row in rows.items() if at < limit}
            if opened:
                rows[opened.start] = opened
            low = max(message_range.start, one.shared_count)
            own = MessageRange(one.number, low, until)
            for at, raw in self._raw_blocks(key, own, one.shared_count):
                frame = self._block_decoder.decode(raw)
                rows.update({row.start: row for row in frame.turns})
                messages += frame.messages[max(low - at, 0) : until - at]
        return rows, messages

    def _raw_blocks(
        self, key: ConversationKey, message_range: MessageRange, shared: int
    ) -> Iterator[tuple[int, bytes]]:
        """Yield the frames that hold some messages of a branch's own."""
        if message_range.start >= message_range.stop:
            return
        lowest = (
            message_range.start - (message_range.start - shared) % MESSAGES_PER_BLOCK
        )
        sql = (
            "SELECT start, frame FROM message_block WHERE session = ? AND agent = ?"
            " AND branch = ? AND start >= ? AND start < ? ORDER BY start"
        )
        for at, frame in fetch_all(
            self._db, sql, (*key, message_range.branch, lowest, message_range.stop)
        ):
            yield at, decompress(frame)

    def _decode_loader(self, kind: type, _: object) -> Loader:
        if kind is not Loader:
            raise NotImplementedError
        return self._loader


def conversation_rows(
    session: Session,
) -> tuple[list[ConversationRow], list[MessageBlockRow]]:
    """Return the rows of a session and of its agent runs; they name it by nothing."""
    talks: list[ConversationRow] = []
    reels: list[MessageBlockRow] = []
    _add_conversation(talks, reels, session, build_conversation_header(session))
    for run in session.all_agents:
        inner = agent_run_as_session(session, run)
        _add_conversation(talks, reels, inner, build_conversation_header(inner, run.id))
    return talks, reels


def _add_conversation(
    conversations: list[ConversationRow],
    message_blocks: list[MessageBlockRow],
    session: Session,
    facts: ConversationHeader,
) -> None:
    """Add the rows of one conversation."""
    agent = facts.agent_id or ""
    paths = {branch.number: branch for branch in session.branches}
    opened = {}
    for branch, told in zip(session.branches, facts.branches, strict=True):
        rows = stored_turns(branch)
        above = (
            paths.get(branch.parent_number)
            if branch.parent_number is not None
            else None
        )
        if above is not None:
            known = {id(turn) for turn in above.turns}
            for row, turn in zip(rows, branch.turns, strict=True):
                if row.start < told.shared_count and id(turn) not in known:
                    opened[branch.number] = row
        for start, frame in _message_blocks(
            rows, own_messages(branch), told.shared_count
        ):
            message_blocks.append(
                (agent, branch.number, start, compress(encode_assembled(frame)))
            )
    conversations.append((agent, encode_assembled(_ConversationFacts(facts, opened))))


def _branch_parts(
    facts: ConversationHeader, number: int, stop: int
) -> list[tuple[BranchSummary, int]]:
    """Return the branches whose own messages a path is made of, and up to where.

    The one that all others left comes first.
    """
    found = []
    branch = facts.find_branch(number)
    while branch is not None:
        until = min(stop, branch.message_count)
        found.append((branch, until))
        stop = min(stop, branch.shared_count)
        branch = (
            facts.find_branch(branch.parent_number)
            if branch.parent_number is not None
            else None
        )
    return found[::-1]


def stored_turns(branch: Branch) -> list[StoredTurn]:
    """Return the turns of a branch without their messages."""
    rows = []
    start = 0
    for turn in branch.turns:
        has_prompt = turn.prompt is not None
        rows.append(
            StoredTurn(start, turn.number, has_prompt, turn.usage, turn.duration)
        )
        start += len(turn.messages)
    return rows


def _message_blocks(
    rows: Sequence[StoredTurn], own: Sequence[Message], shared: int
) -> Iterator[tuple[int, _MessageBlock]]:
    """Yield the messages of a branch's own in frames, and where each begins."""
    at = 0
    for low in range(0, len(own), MESSAGES_PER_BLOCK):
        start = shared + low
        stop = start + MESSAGES_PER_BLOCK
        while at + 1 < len(rows) and rows[at + 1].start <= start:
            at += 1
        last = at
        while last + 1 < len(rows) and rows[last + 1].start < stop:
            last += 1
        messages = [
            strip_message(message) for message in own[low : low + MESSAGES_PER_BLOCK]
        ]
        yield start, _MessageBlock(list(rows[at : last + 1]), messages)


def build_turns(
    rows: Sequence[StoredTurn], messages: Sequence[Message], start: int
) -> Iterator[tuple[int, Turn]]:
    """Yield messages in their turns, and where each turn began."""
    stop = start + len(messages)
    ends = [row.start for row in rows[1:]] + [stop]
    for row, end in zip(rows, ends, strict=bool(rows)):
        inside = messages[max(row.start - start, 0) : max(min(end, stop) - start, 0)]
        if inside:
            is_whole = row.has_prompt and row.start >= start
            yield (
                row.start,
                Turn(
                    number=row.number,
                    prompt=inside[0] if is_whole else None,
                    messages=tuple(inside),
                    usage=row.usage,
                    duration=row.duration,
                ),
            )


def encode_assembled(value: Struct | list[Message]) -> bytes:
    """Return what was assembled as bytes, without what opens its text."""
    return _ENCODER.encode(value)


def _omit_loader(value: Any) -> None:  # noqa: ANN401 (whatever is met)
    """Leave loaders out: whoever reads has one."""
    if not isinstance(value, Loader):
        raise NotImplementedError


_ENCODER = msgspec.msgpack.Encoder(enc_hook=_omit_loader)


if TYPE_CHECKING:
    from bygones.model.summary import SessionSummary
    from bygones.store.index_db import IndexDB


class SessionPreview(Struct, frozen=True, kw_only=True, array_like=True):
    """How a session begins."""

    end_offset: int
    """Where the lines of its file end that its first messages are made of."""
    message_count: int
    """How many messages these are."""
    checksum: bytes
    """Of the messages, as they stand in the whole session."""
    turns: tuple[StoredTurn, ...]
    rest: TurnRemainder = TurnRemainder()
    """What is behind them of the last turn that begins in them."""
    branches: tuple[BranchSummary, ...]
    """The live one does not tell how its first prompt begins, if that is in them."""
    files: int = 0
    models: tuple[str, ...] | None = None
    """Where its line has others: those of its agents too."""
    agent_runs: dict[ToolUseId, tuple[AgentRun, ...]] = {}
    """What the calls in them started, in brief."""
    orphans: tuple[AgentRun, ...] = ()

    def build_facts(
        self, summary: SessionSummary, messages: Sequence[Message]
    ) -> ConversationHeader:
        """Return what is told of the session."""
        return ConversationHeader(
            id=summary.id,
            title=summary.title,
            project=summary.project,
            git_branches=summary.git_branches,
            versions=summary.versions,
            entrypoints=summary.entrypoints,
            models=summary.models if self.models is None else self.models,
            started_at=summary.started_at,
            ended_at=summary.ended_at,
            usage=summary.usage,
            lineage=summary.lineage,
            agent_count=summary.agent_count,
            problem_count=summary.problem_count,
            file_count=self.files,
            branches=tuple(_with_quote(one, messages) for one in self.branches),
            orphan_agents=self.orphans,
        )

    def with_agents(self, messages: Sequence[Message]) -> list[Message]:
        """Return messages with the agents that their calls started."""
        return [self._with_call_agents(message) for message in messages]

    def _with_call_agents(self, message: Message) -> Message:
        if not any(
            call.id in self.agent_runs or call.agents for call in message.tool_calls
        ):
            return message
        calls = (
            structs.replace(call, agents=self.agent_runs.get(call.id, ()))
            for call in message.tool_calls
        )
        return structs.replace(message, tool_calls=tuple(calls))

    def build_turns(
        self, messages: Sequence[Message], start: int
    ) -> list[tuple[int, Turn]]:
        """Return messages from a number on in their turns, and where each began."""
        return list(build_turns(self.turns, messages, start))


class PreviewStore:
    """How sessions begin."""

    def __init__(self, index: IndexDB) -> None:
        self._db = index.db

    def load_preview(self, number: int) -> tuple[SessionPreview, bytes] | None:
        """Return how a session begins, and its line; nothing if that is not known."""
        sql = (
            "SELECT preview, summary FROM session_preview"
            " JOIN session ON number = session"
            " WHERE session = ?"
        )
        row = fetch_one(self._db, sql, (number,))
        return (_decode(row[0]), row[1]) if row else None


def encode_preview(session: Session, summary: SessionSummary) -> bytes | None:
    """Return how a session begins, if that can be read out of one file."""
    turns = session.live_branch.turns
    messages = [message for turn in turns for message in turn.messages]
    begun = [strip_message(message) for message in messages[:PREVIEW_MESSAGES]]
    until = _find_end_offset(begun, messages[PREVIEW_MESSAGES : PREVIEW_MESSAGES + 1])
    facts = build_conversation_header(session)
    if until is None or any(_lacks_quote(one, begun) for one in facts.branches):
        return None
    count = len(begun)
    rows = [row for row in stored_turns(session.live_branch) if row.start < count]
    behind = rows[-1].start + len(turns[len(rows) - 1].messages)
    agents = {
        call.id: call.agents for m in begun for call in m.tool_calls if call.agents
    }
    return encode_assembled(
        SessionPreview(
            end_offset=until,
            message_count=count,
            checksum=messages_checksum(begun),
            turns=tuple(rows),
            rest=merge_by_model(
                collect_remainder([strip_message(m) for m in messages[count:behind]])
            ),
            branches=tuple(_without_quote(one, begun) for one in facts.branches),
            files=facts.file_count,
            models=None if summary.models == facts.models else facts.models,
            agent_runs=agents,
            orphans=facts.orphan_agents,
        )
    )


def messages_checksum(messages: Sequence[Message]) -> bytes:
    """Return by what messages are known to be the same."""
    return blake2b(encode_assembled(list(messages)), digest_size=8).digest()


def _find_end_offset(
    first_messages: Sequence[Message], next_messages: Sequence[Message]
) -> int | None:
    """Return where the lines of messages end; none where they are in several files.

    What stands before the next message may say something of them.
    """
    places = [place for message in first_messages for place in _positions(message)]
    if len({(place.source_id, place.generation) for place in places}) != 1:
        return None
    end = max(place.offset + place.length for place in places)
    after = [place for message in next_messages for place in _positions(message)]
    return max(end, min((place.offset for place in after), default=end))


def _positions(message: Message) -> Iterator[Position]:
    for piece in (*message.record_refs, *message.attached_refs):
        yield piece.position
    for call in message.tool_calls:
        yield call.position
        if call.result_position is not None:
            yield call.result_position
        yield from (piece.position for piece in call.attached_refs)


def _first_prompt(messages: Sequence[Message]) -> str:
    return next((message.preview for message in messages if message.is_prompt), "")


def _with_quote(branch: BranchSummary, messages: Sequence[Message]) -> BranchSummary:
    if branch.preview or not branch.is_live:
        return branch
    return structs.replace(branch, preview=_first_prompt(messages))


def _without_quote(branch: BranchSummary, messages: Sequence[Message]) -> BranchSummary:
    if not branch.is_live or branch.preview != _first_prompt(messages):
        return branch
    return structs.replace(branch, preview="")


def _lacks_quote(branch: BranchSummary, messages: Sequence[Message]) -> bool:
    """Whether a branch quotes nothing though what is said on it could be quoted."""
    return branch.is_live and not branch.preview and bool(_first_prompt(messages))


def _no_loader(kind: type, _: object) -> Loader:
    if kind is not Loader:
        raise NotImplementedError
    return Loader()


_decode = msgspec.msgpack.Decoder(SessionPreview, dec_hook=_no_loader).decode
