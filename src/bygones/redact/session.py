"""Redact a session, lazily loaded parts included."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from enum import Enum
from functools import cache, cached_property, lru_cache
from itertools import islice
from operator import is_
from types import UnionType
from typing import Any, NewType, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import Raw, Struct, structs

from bygones.model.assembled import read_rest_of_turn
from bygones.model.base import Position, Problem, SourceFile
from bygones.model.conversations import (
    Conversation,
    ConversationHeader,
    MessageWindow,
    StoredTurn,
)
from bygones.model.metadata import FileDeltaRecord, FileSnapshotRecord
from bygones.model.outcomes import (
    BashOutcome,
    EditOutcome,
    FileSearchOutcome,
    FileText,
    Outcome,
    PatchHunk,
    ReadOutcome,
)
from bygones.model.records import (
    Block,
    MediaSource,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from bygones.model.sessions import (
    AgentRun,
    Branch,
    CutTurn,
    Message,
    Session,
    ToolCall,
    Turn,
    TurnPath,
)
from bygones.model.summary import HiddenRecord, Loader, MessageUsage
from bygones.redact.engine import Redaction, Redactor
from bygones.redact.json import (
    ENUM_FIELDS,
    TextRedactor,
    build_object,
    is_base64_media,
    redact_json,
)
from bygones.redact.personal import login_names_in


def trim_outcome(outcome: Outcome | None, blocks: Iterable[Block]) -> Outcome | None:
    """Drop whole files, and text that the tool result contains as well.

    Nothing shows these parts, so they need not be redacted. ``blocks`` are those of the
    record that the outcome belongs to.
    """
    match outcome:
        case ReadOutcome(file=FileText() as file):
            file = structs.replace(file, content=None, base64=None, cells=Raw())
            return structs.replace(outcome, file=file)
        case EditOutcome() if outcome.structured_patch:
            # The patch is enough to show what changed.
            return EditOutcome(
                type=outcome.type,
                file_path=outcome.file_path,
                structured_patch=outcome.structured_patch,
            )
        case BashOutcome() if _has_result_content(blocks):
            return structs.replace(
                outcome, stdout=None, stderr=None, structured_content=Raw()
            )
        case FileSearchOutcome():
            return structs.replace(outcome, content=None)
        case _:
            return outcome


def _has_result_content(blocks: Iterable[Block]) -> bool:
    return any(
        _has_content(b.content) for b in blocks if isinstance(b, ToolResultBlock)
    )


def _has_content(content: str | tuple[Block, ...] | None) -> bool:
    if content is None or isinstance(content, str):
        return bool(content and content.strip())
    return any(not isinstance(b, TextBlock) or _has_content(b.text) for b in content)


T = TypeVar("T")
_BLOCK_CACHE_SIZE = 16
_BATCH_SIZE = 64
_MAX_CACHED_LENGTH = 200


class RedactionLog:
    """What was redacted, by record. Loading a record again adds nothing."""

    def __init__(self) -> None:
        self._by_opened_record: dict[Position, tuple[Redaction, ...]] = {}
        self._by_unopened_record: dict[Position, tuple[Redaction, ...]] = {}
        self.private_records = 0
        """Private records that were left out."""

    @property
    def records(self) -> dict[Position, tuple[Redaction, ...]]:
        """Redactions by position. Their offsets are within a text, not in the line."""
        by_record = {**self._by_unopened_record, **self._by_opened_record}
        return {at: redactions for at, redactions in by_record.items() if redactions}

    def add(self, position: Position, redactions: tuple[Redaction, ...]) -> None:
        if not redactions and position not in self._by_unopened_record:
            return  # most records contain nothing to redact
        previous = self._by_opened_record.get(position)
        if previous is None or len(redactions) > len(previous):
            self._by_opened_record[position] = redactions

    def add_unopened(
        self, position: Position, redactions: tuple[Redaction, ...]
    ) -> None:
        """Add what was redacted in the preview of a record that may never be opened."""
        self._by_unopened_record[position] = redactions

    def keep_only(self, positions: Container[Position]) -> None:
        """Drop redactions in other records, which were loaded but not shown."""
        for by_record in (self._by_opened_record, self._by_unopened_record):
            for position in [at for at in by_record if at not in positions]:
                del by_record[position]

    def count_by_kind(self) -> dict[str, int]:
        """Return the number of redactions by kind, the most frequent first."""
        counts = Counter(
            redaction.kind
            for redactions in self.records.values()
            for redaction in redactions
        )
        return dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))


def redact_session(
    session: Session, redactor: Redactor, log: RedactionLog | None = None
) -> Session:
    """Return the session with secrets and personal data redacted.

    Login names in the session's directories are redacted too. Content that is loaded
    later is redacted then and added to ``log``.
    """
    redactor = redactor.with_accounts(login_names_in(session.directories))
    log = log if log is not None else RedactionLog()
    loader = RedactingLoader(session.loader, redactor, log)
    # Keys are encoded paths of this machine, and ids are not redacted.
    session = structs.replace(session, project_keys=())
    return _ValueRedactor(
        redactor, loader, log, frozenset(_unopened_texts(session))
    ).redact_value(session)


def redact_conversation(
    conversation: Conversation, redactor: Redactor, log: RedactionLog
) -> RedactedConversation:
    """Return the conversation with secrets and personal data redacted."""
    redactor = redactor.with_accounts(login_names_in(conversation.facts.directories))
    loader = RedactingLoader(conversation.loader, redactor, log)
    return RedactedConversation(conversation, redactor, loader, log)


class RedactedConversation:
    """A conversation whose secrets and personal data are redacted when it is read."""

    def __init__(
        self,
        inner: Conversation,
        redactor: Redactor,
        loader: Loader,
        log: RedactionLog,
    ) -> None:
        self._inner = inner
        self._redactor = redactor
        self._log = log
        self.loader = loader

    @cached_property
    def facts(self) -> ConversationHeader:
        """What is known of it without its messages."""
        return self.redact_value(self._inner.facts)

    @property
    def agent_ids(self) -> Sequence[str]:
        return self._inner.agent_ids

    @property
    def sources(self) -> Sequence[SourceFile]:
        return self.redact_value(tuple(self._inner.sources))

    @property
    def is_assembled(self) -> bool:
        return self._inner.is_assembled

    def redact_value(self, value: T) -> T:
        """Redact a value that is not part of a message."""
        return _ValueRedactor(self._redactor, self.loader).redact_value(value)

    def load_session(self) -> Session:
        """Return the whole session, redacted."""
        return redact_session(self._inner.load_session(), self._redactor, self._log)

    def agent(self, agent: str) -> RedactedConversation:
        """Return an agent run of the session."""
        return RedactedConversation(
            self._inner.agent(agent), self._redactor, self.loader, self._log
        )

    def window(self, branch: int, start: int, stop: int) -> MessageWindow:
        window = self._inner.window(branch, start, stop)
        redactor = self._message_redactor(window.messages)
        return structs.replace(
            window, header=self.facts, turns=redactor.redact_value(window.turns)
        )

    def turns(self, branch: int) -> Sequence[StoredTurn]:
        """Return the turns of a branch without their messages."""
        return self._inner.turns(branch)

    def messages(
        self, branch: int, names: Sequence[str] = (), *, own: bool = False
    ) -> Iterator[tuple[int, Message]]:
        """Yield messages of a branch with their numbers, near names if given."""
        return self._redact_numbered(self._inner.messages(branch, names, own=own))

    def prompts(self, branch: int) -> Iterator[tuple[int, Message]]:
        """Yield the prompts of a branch with their numbers."""
        return self._redact_numbered(self._inner.prompts(branch))

    def rest_of_turn(
        self, window: MessageWindow, limit: int
    ) -> Sequence[Message] | None:
        return read_rest_of_turn(self, window, limit)

    def _redact_numbered(
        self, messages: Iterator[tuple[int, Message]]
    ) -> Iterator[tuple[int, Message]]:
        while batch := list(islice(messages, _BATCH_SIZE)):
            redactor = self._message_redactor([message for _, message in batch])
            for number, message in batch:
                yield number, redactor.redact_value(message)

    def _message_redactor(self, messages: Iterable[Message]) -> _ValueRedactor:
        """Return a redactor for messages, which knows those that it has redacted."""
        texts = frozenset(_texts_of_messages(messages))
        return _ValueRedactor(self._redactor, self.loader, self._log, texts)


def _unopened_texts(session: Session) -> Iterator[str]:
    """Yield most of the texts that a session has without loading a record."""
    branches = (
        *session.branches,
        *(b for run in session.all_agents for b in run.branches),
    )
    for turn in (turn for branch in branches for turn in branch.own_turns):
        yield from _texts_of_messages(turn.messages)


def _texts_of_messages(messages: Iterable[Message]) -> Iterator[str]:
    for message in messages:
        yield message.preview
        for call in message.tool_calls:
            yield call.label
            yield call.path or ""


class RedactingLoader(Loader):
    """Redacts what another loader loads."""

    def __init__(self, inner: Loader, redactor: Redactor, log: RedactionLog) -> None:
        self._inner = inner
        self._redactor = redactor
        self._log = log
        self.load_blocks = lru_cache(maxsize=_BLOCK_CACHE_SIZE)(self._redacted_blocks)  # type: ignore[method-assign]
        self.load_outcome = lru_cache(maxsize=1)(self._redacted_outcome)  # type: ignore[method-assign]

    def _redacted_blocks(self, position: Position) -> tuple[Block, ...]:
        blocks = self._inner.load_blocks(position)
        line_redactor = self._redactor.for_line(self._inner.load_json(position)[0])
        if line_redactor is None:
            self._log.add(position, ())
            return blocks
        redactor = _ValueRedactor(line_redactor)
        new = tuple(redactor.redact_block(at, block) for at, block in enumerate(blocks))
        self._log.add(position, tuple(redactor.redactions))
        return new

    def load_read_extent(self, position: Position) -> ReadOutcome | None:
        return _ValueRedactor(self._redactor).redact_value(
            self._inner.load_read_extent(position)
        )

    def outcome_contains(self, position: Position, *needles: bytes) -> bool:
        return self._inner.outcome_contains(position, *needles)

    def load_json(self, position: Position) -> tuple[bytes, bytes]:
        content, result = self._inner.load_json(position)
        redactor = TextRedactor(self._redactor)
        return redact_json(content, redactor), redact_json(result, redactor)

    def _redacted_outcome(self, position: Position) -> Outcome | None:
        # Not logged: the text of an outcome is also in the result, which is.
        outcome = trim_outcome(
            self._inner.load_outcome(position), self._inner.load_blocks(position)
        )
        try:
            redactor = self._redactor.for_line(msgspec.json.encode(outcome))
        except UnicodeEncodeError:
            redactor = self._redactor
        if redactor is None:
            return outcome
        return _ValueRedactor(redactor).redact_value(outcome)

    def load_snapshot(
        self, position: Position
    ) -> FileSnapshotRecord | FileDeltaRecord | None:
        return self._redact_value(self._inner.load_snapshot(position), position)

    def read_raw(self, position: Position) -> bytes:
        return self._redactor.redact_text(
            self._inner.read_raw(position).decode("utf-8", "replace")
        ).encode()

    def load_stored_output(self, position: Position, path: str) -> str | None:
        text = self._inner.load_stored_output(position, path)
        return None if text is None else self._redact_value(text, position)

    def _redact_value(self, value: T, position: Position) -> T:
        redactor = _ValueRedactor(self._redactor)
        new = redactor.redact_value(value)
        self._log.add(position, tuple(redactor.redactions))
        return new


class _ValueRedactor(TextRedactor):
    """Redacts every text in a value. Objects that are shared stay shared."""

    def __init__(
        self,
        redactor: Redactor,
        loader: Loader | None = None,
        log: RedactionLog | None = None,
        batch_texts: frozenset[str] = frozenset(),
    ) -> None:
        super().__init__(redactor)
        self._batch_texts = batch_texts
        """Texts that the prefilter checks together."""
        self._batch_redactor = (
            redactor.for_texts(batch_texts) if batch_texts else redactor
        )
        self._loader = loader
        self._log = log
        self._redacted_by_id: dict[int, tuple[object, object]] = {}
        self._clean_texts: set[str] = set()
        """Short texts without redactions; many of them repeat."""

    def redact(self, text: str, field_name: str = "") -> str:
        if not field_name and text in self._clean_texts:
            return text
        redactor = self._batch_redactor if text in self._batch_texts else self._redactor
        new, redactions = redactor.redact(text, field_name)
        if redactions:
            self.redactions.extend(redactions)
        elif not field_name and len(text) < _MAX_CACHED_LENGTH and new == text:
            self._clean_texts.add(text)
        return new

    def redact_block(self, at: int, block: Block) -> Block:
        """Redact block number ``at`` of a record."""
        before = len(self.redactions)
        new = self.redact_value(block)
        if len(self.redactions) > before:
            self.prefix_paths(before, f".content[{at}]")
        return new

    def redact_value(self, value: T) -> T:
        return self._redact_any(value)  # type: ignore[return-value]

    def _redact_any(self, value: object) -> object:
        if type(value) is str:
            new: object = self.redact(value)
        elif isinstance(value, tuple):
            new = self._redact_tuple(value)
        elif isinstance(value, PatchHunk):
            lines = tuple(self.redact_lines(value.lines))
            is_same = lines == value.lines
            new = value if is_same else structs.replace(value, lines=lines)
        elif isinstance(value, TurnPath):
            new = self._redact_path(value)
        elif isinstance(value, Struct):
            new = self._redact_struct(value)
        elif isinstance(value, Raw):
            raw = bytes(value)
            new = Raw(redact_json(raw, self)) if raw else value
        elif isinstance(value, bytes):
            new = redact_json(value, self)
        elif isinstance(value, dict):
            new = build_object(
                (self.redact_identifier(name), self._redact_any(item))
                for name, item in value.items()
            )
        elif isinstance(value, Loader):
            new = self._loader
        else:
            new = value
        return new

    def _redact_tuple(self, value: tuple[object, ...]) -> tuple[object, ...]:
        if value and type(value[0]) is str and self._redactor.is_clean(value):
            return value
        items = [*map(self._redact_any, value)]
        # Most tuples are unchanged and need not be created again.
        return value if all(map(is_, items, value)) else tuple(items)

    def _redact_path(self, path: TurnPath) -> object:
        """Redact a path after those that it shares turns with.

        There may be more of them than calls can be nested.
        """
        paths = [path]
        while (cut := paths[-1].cut) and id(cut.path) not in self._redacted_by_id:
            paths.append(cut.path)
        return [self._redact_struct(one) for one in reversed(paths)][-1]

    def _redact_struct(self, value: Struct) -> object:
        names = _text_fields(type(value))
        if not names:
            return value
        if isinstance(value, MediaSource) and is_base64_media(
            value.media_type, value.data
        ):
            names = _FIELDS_BESIDE_MEDIA
        is_shared = isinstance(value, _SHARED_TYPES)
        if is_shared and (known := self._redacted_by_id.get(id(value))) is not None:
            return known[1]
        changed: dict[str, object] = {}
        before = last = len(self.redactions)
        is_inside = not isinstance(value, _CONTAINER_TYPES)
        enums = _ENUM_FIELDS_OF_CALL if isinstance(value, _CALL_TYPES) else ENUM_FIELDS
        for name in names:
            old = getattr(value, name)
            if not old:
                continue
            new = self._redact_enum(old) if name in enums else self._redact_any(old)
            if new is not old:
                changed[name] = new
                if is_inside and len(self.redactions) > last:
                    self.prefix_paths(last, f".{name}")
                last = len(self.redactions)
        if isinstance(value, Message):
            changed |= self._redacted_message_facts(value, before)
        new = structs.replace(value, **changed) if changed else value
        if is_shared:
            # The old value is kept alive so that its id is not reused.
            self._redacted_by_id[id(value)] = (value, new)
        return new

    def _redact_enum(self, value: object) -> object:
        if type(value) is str:
            new = self.redact_identifier(value)
            return value if new == value else new
        if isinstance(value, tuple):
            items = [*map(self._redact_enum, value)]
            return value if all(map(is_, items, value)) else tuple(items)
        return self._redact_any(value)

    def _redacted_message_facts(self, message: Message, before: int) -> dict[str, bool]:
        """Log what was redacted in a preview; keep whether the preview was cut."""
        if len(self.redactions) > before:
            self._log_unopened(message, self.redactions[before:])
        return {} if message.has_whole_preview else {"is_preview_cut": True}

    def _log_unopened(self, message: Message, redactions: list[Redaction]) -> None:
        """Log redactions in previews, which are shown without loading the record."""
        if self._log is not None and message.record_refs:
            own_redactions = tuple(
                redaction
                for redaction in redactions
                if not redaction.path.startswith(_AGENTS_PATH)
            )
            self._log.add_unopened(message.record_refs[0].position, own_redactions)


_FIELDS_BESIDE_MEDIA = ("type", "url", "file_id", "content")
_TEXTLESS_TYPES = (Position, HiddenRecord)
"""The only text of a hidden record is the reason, which Bygones sets."""
_TEXTLESS_FIELDS = (
    (MessageUsage, "key"),
    (Problem, "kind"),
    (AgentRun, "linked_by"),
)
"""Fields that contain ids that are never shown, or words that Bygones sets."""
_CALL_TYPES = (ToolCall, ToolUseBlock)
_ENUM_FIELDS_OF_CALL = ENUM_FIELDS | {"name"}
_AGENTS_PATH = ".tool_calls.agents"
"""Path of texts that belong to the messages of agents."""
_CONTAINER_TYPES = (Session, AgentRun, Branch, TurnPath, CutTurn, Turn)
"""Containers of messages; they are not part of a path."""
_SHARED_TYPES = (Message, ToolCall, Turn, TurnPath, Branch, AgentRun)
"""Objects that a session references in several places."""


@cache
def _text_fields(kind: type[Struct]) -> tuple[str, ...]:
    """Return the fields of a struct that can contain text; ids and positions cannot."""
    if kind in _TEXTLESS_TYPES:
        return ()
    return tuple(
        name
        for name, hint in _field_types(kind)
        if _holds_text(hint, within=(kind,)) and (kind, name) not in _TEXTLESS_FIELDS
    )


@cache
def _field_types(kind: type[Struct]) -> tuple[tuple[str, Any], ...]:
    return tuple((field.name, field.type) for field in structs.fields(kind))


def _holds_text(hint: Any, within: tuple[type, ...]) -> bool:  # noqa: ANN401 (an annotation can be anything)
    """Whether a value of this type can contain text.

    ``within`` are the enclosing structs, which end the recursion.
    """
    if isinstance(hint, NewType) or hint is Position:
        return False
    if get_origin(hint) in {Union, UnionType, tuple, list, dict}:
        return any(_holds_text(inner, within) for inner in get_args(hint))
    if not isinstance(hint, type):
        return hint is Any
    if issubclass(hint, Enum) or hint in _TEXTLESS_TYPES:
        return False
    if issubclass(hint, Struct) and hint not in within:
        return any(
            _holds_text(inner, (*within, hint)) for _, inner in _field_types(hint)
        )
    return issubclass(hint, str | bytes | Raw | Struct | Loader | msgspec.Raw)
