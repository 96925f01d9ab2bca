"""Assembled messages in the index, read by number.

Each conversation, of a session or an agent run, has a row of facts, and each of its
branches has a row for every turn and for every 64 messages that it adds. What a branch
shares with its parent is stored there. So reading a window only costs the window, and a
message that is added only changes the rows of the last messages and of the last turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec
from msgspec import Struct, structs

from bygones.errors import ArchiveClosed
from bygones.model.assembled import stored_turns
from bygones.model.conversations import (
    BranchSummary,
    ConversationHeader,
    MessageWindow,
    StoredTurn,
    build_conversation_header,
    strip_message,
)
from bygones.model.sessions import (
    Branch,
    Message,
    Session,
    Turn,
    agent_run_as_session,
    list_called_agents,
    own_messages,
)
from bygones.model.summary import Loader, Title, TitleKind
from bygones.store.compression import compress
from bygones.store.connect import fetch_all, fetch_one
from bygones.store.index_db import decode_frame

if TYPE_CHECKING:
    import apsw

    from bygones.store.index_db import IndexDB


MESSAGES_PER_BLOCK = 64
_MAX_OPEN_CONVERSATIONS = 4
"""Conversations that stay open: a session, an agent run, and an agent run in that."""
_MAX_OPEN_BLOCKS = 8
"""Blocks of an open conversation that stay decoded."""
_NO_LIMIT = 1 << 62


ConversationKey = tuple[int, str]
"""The number of a session, and the id of an agent run in it or ""."""


T = TypeVar("T")


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


class _ConversationFacts(Struct, frozen=True, array_like=True):
    """The facts of a conversation, and turns that are cut by a fork."""

    facts: ConversationHeader
    forked_turns: dict[int, StoredTurn]
    """By branch: the turn in which it leaves its parent."""


class _OpenConversation:
    """The facts of a conversation, and blocks of it that were decoded."""

    def __init__(self, version: tuple[object, ...], facts: _ConversationFacts) -> None:
        self.version = version
        """Changes whenever the rows may have changed."""
        self.facts = facts
        self.blocks: dict[tuple[int, int], list[Message]] = {}
        """By branch and number of the first message."""
        self.branches = {branch.number: branch for branch in facts.facts.branches}

    def keep(self, branch: int, start: int, block: list[Message]) -> None:
        if len(self.blocks) >= _MAX_OPEN_BLOCKS:
            del self.blocks[next(iter(self.blocks))]
        self.blocks[branch, start] = block


class MessageStore:
    """The assembled messages of sessions.

    The conversations that were read last stay open: a page reads several windows of one,
    most of them from one block, and an export goes from a session to its agents and
    back. They are dropped when anything in the index changes.
    """

    def __init__(self, index: IndexDB) -> None:
        self._index = index
        self._loader = Loader()
        self._facts_decoder = msgspec.msgpack.Decoder(
            _ConversationFacts, dec_hook=self._decode_loader
        )
        self._block_decoder = msgspec.msgpack.Decoder(
            list[Message], dec_hook=self._decode_loader
        )
        self._open: dict[ConversationKey, _OpenConversation] = {}

    @property
    def _db(self) -> apsw.Connection:
        # Conversations keep this, and may be read after their archive was closed.
        if self._index.is_closed:
            raise ArchiveClosed(self._index.folder)
        return self._index.db

    def has_session(self, number: int) -> bool:
        """Whether the messages of a session are stored."""
        sql = "SELECT 1 FROM conversation WHERE session = ? AND agent = ''"
        return fetch_one(self._db, sql, (number,)) is not None

    def load_facts(
        self, key: ConversationKey, loader: Loader
    ) -> ConversationHeader | None:
        """Return the facts of a conversation, if it is stored."""
        conversation = self._open_conversation(key, loader)
        return conversation.facts.facts if conversation else None

    def agent_ids(self, number: int) -> list[str]:
        """Return the agent runs of a session that are stored."""
        sql = "SELECT agent FROM conversation WHERE session = ? AND agent > ''"
        return [row[0] for row in fetch_all(self._db, sql, (number,))]

    def _open_conversation(
        self, key: ConversationKey, loader: Loader
    ) -> _OpenConversation | None:
        self._loader = loader
        version = (loader, *self._data_version())
        known = self._open.pop(key, None)
        if known is None or known.version != version:
            facts = self._load_facts(key, loader)
            if facts is None:
                return None
            known = _OpenConversation(version, facts)
            if len(self._open) >= _MAX_OPEN_CONVERSATIONS:
                del self._open[next(iter(self._open))]
        self._open[key] = known  # the last one is dropped last
        return known

    def _load_facts(
        self, key: ConversationKey, loader: Loader
    ) -> _ConversationFacts | None:
        number, agent = key
        sql = "SELECT facts FROM conversation WHERE session = ? AND agent = ?"
        row = fetch_one(self._db, sql, key)
        if row is None:
            return None
        facts: _ConversationFacts = self._facts_decoder.decode(row[0])
        if not agent:
            return facts
        session = self._open_conversation((number, ""), loader)
        if session is None:
            return None
        header = _with_session_facts(facts.facts, session.facts.facts)
        return structs.replace(facts, facts=header)

    def load_window(
        self, key: ConversationKey, message_range: MessageRange, loader: Loader
    ) -> MessageWindow | None:
        """Return messages of a conversation, if it is stored and has such a branch."""
        with self._db:  # a consistent state, even while others write
            conversation = self._open_conversation(key, loader)
            if conversation is None:
                return None
            header = conversation.facts.facts
            if message_range.branch not in conversation.branches:
                return None
            turns_by_start, messages = self._read(key, conversation, message_range)
        ordered = [turns_by_start[start] for start in sorted(turns_by_start)]
        found = list(build_turns(ordered, messages, message_range.start))
        return MessageWindow(
            header=header,
            branch_number=message_range.branch,
            start=message_range.start,
            turns=tuple(turn for _, turn in found),
            is_first_turn_partial=bool(found) and found[0][0] < message_range.start,
        )

    def load_turns(
        self, key: ConversationKey, branch: int, loader: Loader
    ) -> list[StoredTurn]:
        """Return the turns of a branch, if the conversation is stored."""
        with self._db:
            conversation = self._open_conversation(key, loader)
            if conversation is None:
                return []
            turns: dict[int, StoredTurn] = {}
            whole = MessageRange(branch, 0, _NO_LIMIT)
            for part, stop in _branch_parts(conversation.branches, whole):
                own = MessageRange(part.number, part.shared_count, stop)
                turns = self._join_turns(key, conversation, turns, (part, own))
        return [turns[start] for start in sorted(turns)]

    def _join_turns(
        self,
        key: ConversationKey,
        conversation: _OpenConversation,
        earlier: dict[int, StoredTurn],
        part_and_range: tuple[BranchSummary, MessageRange],
    ) -> dict[int, StoredTurn]:
        """Return earlier turns of a path, and those of a branch in a range."""
        part, message_range = part_and_range
        forked = conversation.facts.forked_turns.get(part.number)
        limit = forked.start if forked else part.shared_count
        turns = {start: row for start, row in earlier.items() if start < limit}
        if forked:
            turns[forked.start] = forked
        turns.update({row.start: row for row in self._load_turns(key, message_range)})
        return turns

    def messages_naming(
        self,
        key: ConversationKey,
        branch: int,
        names: Sequence[str],
        loader: Loader,
        *,
        own: bool = False,
    ) -> Iterator[tuple[int, Message]]:
        """Yield messages in blocks that contain one of some names, with numbers.

        Without names, yield all messages of a branch; with ``own``, without those of
        its parent.
        """
        patterns = [name.encode("utf-8", "surrogatepass") for name in names]
        conversation = self._open_conversation(key, loader)
        if conversation is None:
            return
        whole = MessageRange(branch, 0, _NO_LIMIT)
        parts = _branch_parts(conversation.branches, whole)
        for part, stop in parts[-1:] if own else parts:
            message_range = MessageRange(part.number, part.shared_count, stop)
            for start, frame in self._frames(key, message_range, part.shared_count):
                raw = self._decode(frame, bytes)
                if not patterns or any(pattern in raw for pattern in patterns):
                    messages = self._block_decoder.decode(raw)
                    yield from enumerate(messages[: stop - start], start)

    def _read(
        self,
        key: ConversationKey,
        conversation: _OpenConversation,
        message_range: MessageRange,
    ) -> tuple[dict[int, StoredTurn], list[Message]]:
        """Return the requested messages, and the turns around them."""
        turns: dict[int, StoredTurn] = {}
        messages: list[Message] = []
        for part, stop in _branch_parts(conversation.branches, message_range):
            first = max(message_range.start, part.shared_count)
            own = MessageRange(part.number, first, stop)
            turns = self._join_turns(key, conversation, turns, (part, own))
            for start, block in self._blocks(key, conversation, own, part.shared_count):
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

    def _blocks(
        self,
        key: ConversationKey,
        conversation: _OpenConversation,
        message_range: MessageRange,
        shared: int,
    ) -> Iterator[tuple[int, list[Message]]]:
        """Yield the blocks with some messages that a branch adds."""
        branch, start, stop = message_range
        start -= (start - shared) % MESSAGES_PER_BLOCK
        while start < stop and (branch, start) in conversation.blocks:
            yield start, conversation.blocks[branch, start]
            start += MESSAGES_PER_BLOCK
        rest = MessageRange(branch, max(start, message_range.start), stop)
        for number, frame in self._frames(key, rest, shared):
            block = self._decode(frame, self._block_decoder.decode)
            conversation.keep(branch, number, block)
            yield number, block

    def _decode(self, frame: bytes, decode: Callable[[bytes], T]) -> T:
        return decode_frame(frame, decode, self._index.archive_folder)

    def _frames(
        self, key: ConversationKey, message_range: MessageRange, shared: int
    ) -> Iterator[tuple[int, bytes]]:
        """Yield the compressed blocks with some messages that a branch adds."""
        branch, start, stop = message_range
        if start >= stop:
            return
        first_start = start - (start - shared) % MESSAGES_PER_BLOCK
        sql = (
            "SELECT start, frame FROM message_block WHERE session = ? AND agent = ?"
            " AND branch = ? AND start >= ? AND start < ? ORDER BY start"
        )
        yield from fetch_all(self._db, sql, (*key, branch, first_start, stop))

    def _data_version(self) -> tuple[int, int]:
        """Return numbers that change with any change of the index.

        The first counts those of other connections, the second those of this one.
        """
        row = fetch_one(self._db, "PRAGMA data_version")
        return row[0], self._db.total_changes()

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
    return decode_frame(frame, _decode_block)


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
    for run in list_called_agents(session):
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
        directories=(),
        summaries=(),
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
        directories=session.directories,
        summaries=session.summaries,
        git_branches=session.git_branches,
        versions=session.versions,
        entrypoints=session.entrypoints,
        models=session.models,
    )


def _add_conversation(
    rows: ConversationRows, session: Session, facts: ConversationHeader
) -> None:
    agent = facts.agent_id or ""
    forked: dict[int, StoredTurn] = {}
    for branch, summary in zip(session.branches, facts.branches, strict=True):
        cut_turns, own_turns = split_stored_turns(branch, summary)
        if cut_turns:
            forked[branch.number] = cut_turns[-1]
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
    forked = {}
    for branch, summary in zip(session.branches, facts.branches, strict=True):
        cut_turns, _ = split_stored_turns(branch, summary)
        if cut_turns:
            forked[branch.number] = cut_turns[-1]
    return forked


def split_stored_turns(
    branch: Branch, summary: BranchSummary
) -> tuple[list[StoredTurn], list[StoredTurn]]:
    """Return the turns of a branch that start before its own messages, and the others.

    Turns that its parent has too are left out.
    """
    turns = stored_turns(branch)
    count = sum(1 for turn in turns if turn.start < summary.shared_count)
    return turns[:count], turns[count:]


def _branch_parts(
    branches: Mapping[int, BranchSummary], message_range: MessageRange
) -> list[tuple[BranchSummary, int]]:
    """Return the branches that messages belong to, and where the part of each stops.

    The root branch comes first.
    """
    number, start, stop = message_range
    parts = []
    branch = branches.get(number)
    while branch is not None:
        parts.append((branch, min(stop, branch.message_count)))
        stop = min(stop, branch.shared_count)
        parent = branch.parent_number
        if parent is None or start >= stop:
            break
        branch = branches.get(parent)
    return parts[::-1]


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


def _no_loader(kind: type, _: object) -> Loader:
    if kind is not Loader:
        raise NotImplementedError
    return Loader()


_decode_block = msgspec.msgpack.Decoder(list[Message], dec_hook=_no_loader).decode
