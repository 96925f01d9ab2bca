"""Assembled messages in the index, read by number.

Each conversation, of a session or an agent run, has a row of facts, and each of its
branches has a row for every turn and for every 64 messages that it adds. What a branch
shares with its parent is stored there. So reading a window only costs the window, and a
message that is added only changes the rows of the last messages and of the last turn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec import Struct, structs

from bygones.model.base import Position, ToolUseId
from bygones.model.conversations import (
    PREVIEW_MESSAGES,
    BranchSummary,
    ConversationHeader,
    MessageWindow,
    TurnRemainder,
    build_conversation_header,
    collect_remainder,
    merge_by_model,
    strip_message,
)
from bygones.model.sessions import (
    AgentRun,
    Branch,
    Message,
    Session,
    Turn,
    agent_run_as_session,
    own_messages,
)
from bygones.model.summary import Loader, Title, TitleKind
from bygones.model.usage import Usage
from bygones.store.compression import compress, decompress
from bygones.store.connect import fetch_all, fetch_one

if TYPE_CHECKING:
    from bygones.model.summary import SessionSummary
    from bygones.store.index_db import IndexDB


MESSAGES_PER_BLOCK = 64
_NO_LIMIT = 1 << 62


ConversationKey = tuple[int, str]
"""The number of a session, and the id of an agent run in it or ""."""


class MessageRange(NamedTuple):
    """Messages of a branch, from `start` up to `stop`."""

    branch: int
    start: int
    stop: int


ConversationRow = tuple[str, bytes]
"""The id of an agent run or "", and the encoded facts."""
MessageBlockRow = tuple[str, int, int, bytes]
"""The id of an agent run or "", branch, number of the first message, compressed block.
"""
TurnRow = tuple[str, int, int, bytes]
"""The id of an agent run or "", branch, number of the first message, encoded turn."""


class StoredTurn(Struct, frozen=True, array_like=True, gc=False):
    """A turn without its messages."""

    start: int
    """The number of its first message on the branch."""
    number: int
    has_prompt: bool
    usage: Usage
    duration: timedelta | None


class _ConversationFacts(Struct, frozen=True, array_like=True):
    """The facts of a conversation, and turns that are cut by a fork."""

    facts: ConversationHeader
    forked_turns: dict[int, StoredTurn]
    """By branch: the turn in which it leaves its parent."""


class MessageStore:
    """The assembled messages of sessions."""

    def __init__(self, index: IndexDB) -> None:
        self._db = index.db
        self._loader = Loader()
        self._facts_decoder = msgspec.msgpack.Decoder(
            _ConversationFacts, dec_hook=self._decode_loader
        )
        self._block_decoder = msgspec.msgpack.Decoder(
            list[Message], dec_hook=self._decode_loader
        )

    def has_session(self, number: int) -> bool:
        """Whether the messages of a session are stored."""
        sql = "SELECT 1 FROM conversation WHERE session = ? AND agent = ''"
        return fetch_one(self._db, sql, (number,)) is not None

    def load_facts(self, number: int, agent: str = "") -> ConversationHeader | None:
        """Return the facts of a conversation, if it is stored."""
        conversation = self._load_conversation(number, agent)
        return conversation.facts if conversation else None

    def agent_ids(self, number: int) -> list[str]:
        """Return the agent runs of a session that are stored."""
        sql = "SELECT agent FROM conversation WHERE session = ? AND agent > ''"
        return [row[0] for row in fetch_all(self._db, sql, (number,))]

    def _load_conversation(self, number: int, agent: str) -> _ConversationFacts | None:
        sql = "SELECT facts FROM conversation WHERE session = ? AND agent = ?"
        row = fetch_one(self._db, sql, (number, agent))
        if row is None:
            return None
        conversation = self._facts_decoder.decode(row[0])
        if not agent:
            return conversation
        main = fetch_one(self._db, sql, (number, ""))
        session = self._facts_decoder.decode(main[0]).facts
        facts = _with_session_facts(conversation.facts, session)
        return structs.replace(conversation, facts=facts)

    def load_window(
        self, key: ConversationKey, message_range: MessageRange, loader: Loader
    ) -> MessageWindow | None:
        """Return messages of a conversation, if it is stored and has such a branch."""
        self._loader = loader
        conversation, turns_by_start, messages = self._read_in_transaction(
            key, message_range
        )
        if conversation is None:
            return None
        ordered = [turns_by_start[start] for start in sorted(turns_by_start)]
        found = list(build_turns(ordered, messages, message_range.start))
        return MessageWindow(
            header=conversation.facts,
            branch_number=message_range.branch,
            start=message_range.start,
            turns=tuple(turn for _, turn in found),
            is_first_turn_partial=bool(found) and found[0][0] < message_range.start,
        )

    def messages_naming(
        self, key: ConversationKey, branch: int, names: Sequence[str], loader: Loader
    ) -> Iterator[tuple[int, Message]]:
        """Yield messages in blocks that contain one of some names, with numbers.

        Without names, yield all messages of a branch.
        """
        self._loader = loader
        patterns = [name.encode("utf-8", "surrogatepass") for name in names]
        conversation = self._load_conversation(*key)
        if conversation is None:
            return
        for part, stop in _branch_parts(conversation.facts, branch, _NO_LIMIT):
            message_range = MessageRange(part.number, part.shared_count, stop)
            for start, raw in self._raw_blocks(key, message_range, part.shared_count):
                if not patterns or any(pattern in raw for pattern in patterns):
                    messages = self._block_decoder.decode(raw)
                    yield from enumerate(messages[: stop - start], start)

    def _read_in_transaction(
        self, key: ConversationKey, message_range: MessageRange
    ) -> tuple[_ConversationFacts | None, dict[int, StoredTurn], list[Message]]:
        """Return a consistent state of the requested messages, even while others write."""
        with self._db:
            conversation = self._load_conversation(*key)
            if (
                conversation is not None
                and conversation.facts.find_branch(message_range.branch) is not None
            ):
                return conversation, *self._read(key, conversation, message_range)
        return None, {}, []

    def _read(
        self,
        key: ConversationKey,
        conversation: _ConversationFacts,
        message_range: MessageRange,
    ) -> tuple[dict[int, StoredTurn], list[Message]]:
        """Return the requested messages, and the turns around them."""
        turns: dict[int, StoredTurn] = {}
        messages: list[Message] = []
        for part, stop in _branch_parts(
            conversation.facts, message_range.branch, message_range.stop
        ):
            forked = conversation.forked_turns.get(part.number)
            limit = forked.start if forked else part.shared_count
            turns = {start: row for start, row in turns.items() if start < limit}
            if forked:
                turns[forked.start] = forked
            first = max(message_range.start, part.shared_count)
            own = MessageRange(part.number, first, stop)
            turns.update({row.start: row for row in self._load_turns(key, own)})
            for start, raw in self._raw_blocks(key, own, part.shared_count):
                block = self._block_decoder.decode(raw)
                messages += block[max(first - start, 0) : stop - start]
        return turns, messages

    def _load_turns(
        self, key: ConversationKey, message_range: MessageRange
    ) -> Iterator[StoredTurn]:
        """Yield the turns that contain messages, as far as they start on the branch."""
        if message_range.start >= message_range.stop:
            return
        branch = (*key, message_range.branch)
        where = "FROM turn WHERE session = ? AND agent = ? AND branch = ?"
        sql = (
            f"SELECT facts {where} AND start < ? AND start >= coalesce("
            f"(SELECT max(start) {where} AND start <= ?), 0) ORDER BY start"
        )
        values = (*branch, message_range.stop, *branch, message_range.start)
        for (raw,) in fetch_all(self._db, sql, values):
            yield _decode_turn(raw)

    def _raw_blocks(
        self, key: ConversationKey, message_range: MessageRange, shared: int
    ) -> Iterator[tuple[int, bytes]]:
        """Yield the blocks with some messages that a branch adds."""
        if message_range.start >= message_range.stop:
            return
        first_start = (
            message_range.start - (message_range.start - shared) % MESSAGES_PER_BLOCK
        )
        sql = (
            "SELECT start, frame FROM message_block WHERE session = ? AND agent = ?"
            " AND branch = ? AND start >= ? AND start < ? ORDER BY start"
        )
        for start, frame in fetch_all(
            self._db, sql, (*key, message_range.branch, first_start, message_range.stop)
        ):
            yield start, decompress(frame)

    def _decode_loader(self, kind: type, _: object) -> Loader:
        if kind is not Loader:
            raise NotImplementedError
        return self._loader


class ConversationRows(Struct, frozen=True, array_like=True):
    """The rows of a session's conversations."""

    conversations: list[ConversationRow] = []
    turns: list[TurnRow] = []
    message_blocks: list[MessageBlockRow] = []


def decode_messages(frame: bytes) -> list[Message]:
    """Return the messages of a stored block, without a loader."""
    return _decode_block(decompress(frame))


class EarlierMessages(Struct, frozen=True, array_like=True):
    """What is stored of a session's live branch, if only its end is assembled."""

    message_count: int
    last_messages: list[Message]
    """The messages in the last block, if that is not full."""
    turns: list[StoredTurn]
    """The last turn, which continues, and all that follow."""
    forked_turns: dict[int, StoredTurn] = {}


def conversation_rows(
    session: Session,
    header: ConversationHeader | None = None,
    earlier: EarlierMessages | None = None,
) -> ConversationRows:
    """Return the rows of a session and of its agent runs.

    If only the end of the session is assembled, pass the header of the whole session
    and what is stored.
    """
    rows = ConversationRows([], [], [])
    if earlier is None:
        _add_conversation(rows, session, header or build_conversation_header(session))
    elif header is not None:
        _add_end(rows, session, header, earlier)
    for run in session.all_agents:
        run_session = agent_run_as_session(session, run)
        run_header = build_conversation_header(run_session, run.id)
        _add_conversation(rows, run_session, _without_session_facts(run_header))
    return rows


def _without_session_facts(header: ConversationHeader) -> ConversationHeader:
    """Leave out what an agent run has from its session, which may still change."""
    return structs.replace(
        header,
        title=Title(header.title.text, TitleKind.ID),
        project=None,
        git_branches=(),
        versions=(),
        entrypoints=(),
        models=(),
    )


def _with_session_facts(
    header: ConversationHeader, session: ConversationHeader
) -> ConversationHeader:
    return structs.replace(
        header,
        title=structs.replace(session.title, text=header.title.text),
        project=session.project,
        git_branches=session.git_branches,
        versions=session.versions,
        entrypoints=session.entrypoints,
        models=session.models,
    )


def _add_conversation(
    rows: ConversationRows, session: Session, facts: ConversationHeader
) -> None:
    agent = facts.agent_id or ""
    forked = find_forked_turns(session, facts)
    for branch, summary in zip(session.branches, facts.branches, strict=True):
        own_turns = [
            turn for turn in stored_turns(branch) if turn.start >= summary.shared_count
        ]
        messages = list(map(strip_message, own_messages(branch)))
        _add_branch(
            rows, (agent, branch.number), own_turns, (summary.shared_count, messages)
        )
    rows.conversations.append(
        (agent, encode_assembled(_ConversationFacts(facts, forked)))
    )


def _add_end(
    rows: ConversationRows,
    session: Session,
    header: ConversationHeader,
    earlier: EarlierMessages,
) -> None:
    """Add the end of a session's live branch."""
    start = earlier.message_count - len(earlier.last_messages)
    added = map(strip_message, own_messages(session.live_branch))
    messages = [*earlier.last_messages, *added]
    _add_branch(rows, ("", 0), earlier.turns, (start, messages))
    facts = _ConversationFacts(header, earlier.forked_turns)
    rows.conversations.append(("", encode_assembled(facts)))


def _add_branch(
    rows: ConversationRows,
    branch: tuple[str, int],
    turns: Sequence[StoredTurn],
    numbered: tuple[int, Sequence[Message]],
) -> None:
    """Add turns and messages of a branch, with the number of the first message."""
    for turn in turns:
        rows.turns.append((*branch, turn.start, _encode_turn(turn)))
    first, messages = numbered
    for offset in range(0, len(messages), MESSAGES_PER_BLOCK):
        block = list(messages[offset : offset + MESSAGES_PER_BLOCK])
        rows.message_blocks.append(
            (*branch, first + offset, compress(encode_assembled(block)))
        )


def find_forked_turns(
    session: Session, facts: ConversationHeader
) -> dict[int, StoredTurn]:
    """Return the turns in which branches leave their parents, by branch."""
    branches = {branch.number: branch for branch in session.branches}
    forked = {}
    for branch, summary in zip(session.branches, facts.branches, strict=True):
        parent = (
            branches.get(branch.parent_number)
            if branch.parent_number is not None
            else None
        )
        if parent is None:
            continue
        parent_turns = {id(turn) for turn in parent.turns}
        for stored_turn, turn in zip(stored_turns(branch), branch.turns, strict=True):
            if (
                stored_turn.start < summary.shared_count
                and id(turn) not in parent_turns
            ):
                forked[branch.number] = stored_turn
    return forked


def _branch_parts(
    facts: ConversationHeader, number: int, stop: int
) -> list[tuple[BranchSummary, int]]:
    """Return the branches whose messages make up a path, and where each part stops.

    The root branch comes first.
    """
    parts = []
    branch = facts.find_branch(number)
    while branch is not None:
        end = min(stop, branch.message_count)
        parts.append((branch, end))
        stop = min(stop, branch.shared_count)
        branch = (
            facts.find_branch(branch.parent_number)
            if branch.parent_number is not None
            else None
        )
    return parts[::-1]


def stored_turns(branch: Branch) -> list[StoredTurn]:
    """Return the turns of a branch without their messages."""
    turns = []
    start = 0
    for turn in branch.turns:
        has_prompt = turn.prompt is not None
        turns.append(
            StoredTurn(start, turn.number, has_prompt, turn.usage, turn.duration)
        )
        start += len(turn.messages)
    return turns


def build_turns(
    rows: Sequence[StoredTurn], messages: Sequence[Message], start: int
) -> Iterator[tuple[int, Turn]]:
    """Yield messages grouped by turn, with the number where each turn starts."""
    stop = start + len(messages)
    ends = [stored_turn.start for stored_turn in rows[1:]] + [stop]
    for stored_turn, end in zip(rows, ends, strict=bool(rows)):
        turn_messages = messages[
            max(stored_turn.start - start, 0) : max(min(end, stop) - start, 0)
        ]
        if turn_messages:
            is_whole = stored_turn.has_prompt and stored_turn.start >= start
            yield (
                stored_turn.start,
                Turn(
                    number=stored_turn.number,
                    prompt=turn_messages[0] if is_whole else None,
                    messages=tuple(turn_messages),
                    usage=stored_turn.usage,
                    duration=stored_turn.duration,
                ),
            )


def encode_assembled(value: Struct | list[Message]) -> bytes:
    """Encode assembled values without their loader."""
    return _ENCODER.encode(value)


def _omit_loader(value: Any) -> None:  # noqa: ANN401 (msgspec's hook)
    """Leave out loaders: the reader has one."""
    if not isinstance(value, Loader):
        raise NotImplementedError


_ENCODER = msgspec.msgpack.Encoder(enc_hook=_omit_loader)
_encode_turn = _ENCODER.encode
_decode_turn = msgspec.msgpack.Decoder(StoredTurn).decode


class SessionPreview(Struct, frozen=True, kw_only=True, array_like=True):
    """How a short session starts."""

    end_offset: int
    """Where the lines of the first messages end in their file."""
    message_count: int
    checksum: bytes
    """Of the messages, as they are in the whole session."""
    turns: tuple[StoredTurn, ...]
    rest: TurnRemainder = TurnRemainder()
    """What follows them in the last turn that starts in them."""
    branches: tuple[BranchSummary, ...]
    """The live one lacks its preview if the first prompt is among the messages."""
    files: int = 0
    models: tuple[str, ...] | None = None
    """If they differ from those of the summary: with those of agents."""
    agent_runs: dict[ToolUseId, tuple[AgentRun, ...]] = {}
    """The agent runs that their tool calls started, without messages."""
    orphans: tuple[AgentRun, ...] = ()
    summary_count: int = 0
    """At most one: a session with more has no preview."""

    def build_facts(
        self, summary: SessionSummary, messages: Sequence[Message]
    ) -> ConversationHeader:
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
            summary_count=self.summary_count,
            empty_reason=summary.empty_reason,
        )

    def with_agents(self, messages: Sequence[Message]) -> list[Message]:
        """Return messages with the agent runs that their tool calls started."""
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
        """Return messages grouped by turn, with the number where each turn starts."""
        return list(build_turns(self.turns, messages, start))


class PreviewStore:
    def __init__(self, index: IndexDB) -> None:
        self._db = index.db

    def load_preview(self, number: int) -> tuple[SessionPreview, bytes] | None:
        """Return the preview of a session and its encoded summary, if there is one."""
        sql = (
            "SELECT preview, summary FROM session_preview"
            " JOIN session ON number = session"
            " WHERE session = ?"
        )
        row = fetch_one(self._db, sql, (number,))
        return (_decode(row[0]), row[1]) if row else None


def encode_preview(session: Session, summary: SessionSummary) -> bytes | None:
    """Return the preview of a session, if it can be read from a single file."""
    turns = session.live_branch.turns
    messages = [message for turn in turns for message in turn.messages]
    first = [strip_message(message) for message in messages[:PREVIEW_MESSAGES]]
    end_offset = _find_end_offset(
        first, messages[PREVIEW_MESSAGES : PREVIEW_MESSAGES + 1]
    )
    facts = build_conversation_header(session)
    has_summaries = (
        facts.summary_count or facts.branch_summaries or facts.other_summaries
    )
    if (
        end_offset is None
        or has_summaries
        or any(_lacks_quote(branch, first) for branch in facts.branches)
    ):
        return None
    count = len(first)
    first_turns = [
        stored_turn
        for stored_turn in stored_turns(session.live_branch)
        if stored_turn.start < count
    ]
    turn_end = first_turns[-1].start + len(turns[len(first_turns) - 1].messages)
    agents = {
        call.id: call.agents
        for message in first
        for call in message.tool_calls
        if call.agents
    }
    return encode_assembled(
        SessionPreview(
            end_offset=end_offset,
            message_count=count,
            checksum=messages_checksum(first),
            turns=tuple(first_turns),
            rest=merge_by_model(
                collect_remainder(
                    [strip_message(message) for message in messages[count:turn_end]]
                )
            ),
            branches=tuple(_without_quote(branch, first) for branch in facts.branches),
            files=facts.file_count,
            models=None if summary.models == facts.models else facts.models,
            agent_runs=agents,
            orphans=facts.orphan_agents,
            summary_count=facts.summary_count,
        )
    )


def messages_checksum(messages: Sequence[Message]) -> bytes:
    return blake2b(encode_assembled(list(messages)), digest_size=8).digest()


def _find_end_offset(
    first_messages: Sequence[Message], next_messages: Sequence[Message]
) -> int | None:
    """Return where the lines of messages end, or `None` if they are in several files.

    Lines before the next message may belong to them.
    """
    positions = [
        position for message in first_messages for position in _positions(message)
    ]
    if len({(position.source_id, position.generation) for position in positions}) != 1:
        return None
    end = max(position.offset + position.length for position in positions)
    next_positions = [
        position for message in next_messages for position in _positions(message)
    ]
    return max(end, min((position.offset for position in next_positions), default=end))


def _positions(message: Message) -> Iterator[Position]:
    for ref in (*message.record_refs, *message.attached_refs):
        yield ref.position
    for call in message.tool_calls:
        yield call.position
        if call.result_position is not None:
            yield call.result_position
        yield from (ref.position for ref in call.attached_refs)


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
    """Whether a branch has no preview although the first messages have a prompt."""
    return branch.is_live and not branch.preview and bool(_first_prompt(messages))


def _no_loader(kind: type, _: object) -> Loader:
    if kind is not Loader:
        raise NotImplementedError
    return Loader()


_decode = msgspec.msgpack.Decoder(SessionPreview, dec_hook=_no_loader).decode
_decode_block = msgspec.msgpack.Decoder(list[Message], dec_hook=_no_loader).decode
