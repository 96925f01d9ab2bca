"""Outcomes without what nobody is shown of them: it need not be looked through."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from enum import Enum
from functools import cache, lru_cache
from operator import is_
from types import UnionType
from typing import Any, NewType, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import Raw, Struct, structs

from bygones.model.base import Position
from bygones.model.metadata import FileDeltaRecord, FileSnapshotRecord
from bygones.model.outcomes import (
    BashOutcome,
    EditOutcome,
    FileSearchOutcome,
    FileText,
    Outcome,
    ReadOutcome,
)
from bygones.model.records import Block, MediaSource, TextBlock, ToolResultBlock
from bygones.model.sessions import AgentRun, Branch, Message, Session, ToolCall, Turn
from bygones.model.summary import HiddenRecord, Loader, MessageUsage
from bygones.redact.engine import Redaction, Redactor
from bygones.redact.json import TextRedactor, is_base64_media, redact_json
from bygones.redact.personal import login_names_in


def trim_outcome(outcome: Outcome | None, blocks: Iterable[Block]) -> Outcome | None:
    """Return an outcome without whole files, and without what the result says too.

    ``blocks`` are those of the record that holds the outcome.
    """
    match outcome:
        case ReadOutcome(file=FileText() as file):
            file = structs.replace(file, content=None, base64=None, cells=Raw())
            return structs.replace(outcome, file=file)
        case EditOutcome() if outcome.structured_patch:
            # The patch says what changed, and where.
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
    """Whether a result says, or shows, anything at all."""
    return any(
        _has_content(b.content) for b in blocks if isinstance(b, ToolResultBlock)
    )


def _has_content(content: str | tuple[Block, ...] | None) -> bool:
    if content is None or isinstance(content, str):
        return bool(content and content.strip())
    return any(not isinstance(b, TextBlock) or _has_content(b.text) for b in content)


T = TypeVar("T")
_BLOCK_CACHE_SIZE = 16
_MAX_CACHED_LENGTH = 200
"""Signs of a text that is remembered."""


class RedactionLog:
    """What was hidden, by the record that it stood in; each record is told once."""

    def __init__(self) -> None:
        self._by_opened_record: dict[Position, tuple[Redaction, ...]] = {}
        self._by_unopened_record: dict[Position, tuple[Redaction, ...]] = {}
        self.private_records = 0
        """Records that were left out whole."""

    @property
    def records(self) -> dict[Position, tuple[Redaction, ...]]:
        """What each record held; spans are within a text, not within the line."""
        told = {**self._by_unopened_record, **self._by_opened_record}
        return {at: found for at, found in told.items() if found}

    def add(self, position: Position, redactions: tuple[Redaction, ...]) -> None:
        """Remember what a record held; the same record again counts once."""
        known = self._by_opened_record.get(position)
        if known is None or len(redactions) > len(known):
            self._by_opened_record[position] = redactions

    def add_unopened(
        self, position: Position, redactions: tuple[Redaction, ...]
    ) -> None:
        """Remember what is known of a record that may never be opened."""
        self._by_unopened_record[position] = redactions

    def keep_only(self, positions: Container[Position]) -> None:
        """Forget what stood in other records: those were looked at, and not shown."""
        for known in (self._by_opened_record, self._by_unopened_record):
            for position in [one for one in known if one not in positions]:
                del known[position]

    def count_by_kind(self) -> dict[str, int]:
        """Return how often each kind was hidden, the most frequent first."""
        counted: dict[str, int] = {}
        for found in self.records.values():
            for one in found:
                counted[one.kind] = counted.get(one.kind, 0) + 1
        return dict(sorted(counted.items(), key=lambda pair: (-pair[1], pair[0])))


def redact_session(
    session: Session, redactor: Redactor, log: RedactionLog | None = None
) -> Session:
    """Return the session with everything hidden in it that must not leave.

    The login names that its directories give away are hidden too. What is opened
    later is redacted then, and noted in ``finds``.
    """
    knowing = redactor.with_names(login_names_in(session.directories))
    log = log if log is not None else RedactionLog()
    loader = _RedactingLoader(session.loader, knowing, log)
    return _ValueRedactor(
        knowing, loader, log, frozenset(_unopened_texts(session))
    ).redact_value(session)


def _unopened_texts(session: Session) -> Iterator[str]:
    """Yield most of the texts that a session holds unopened."""
    branches = (
        *session.branches,
        *(b for run in session.all_agents for b in run.branches),
    )
    for turn in (turn for branch in branches for turn in branch.own_turns):
        for message in turn.messages:
            yield message.preview
            for call in message.tool_calls:
                yield call.label
                yield call.path or ""


class _RedactingLoader(Loader):
    """Opens what another loader opens, redacted."""

    def __init__(self, inner: Loader, redactor: Redactor, log: RedactionLog) -> None:
        self._inner = inner
        self._redactor = redactor
        self._log = log
        self.load_blocks = lru_cache(maxsize=_BLOCK_CACHE_SIZE)(self._redacted_blocks)  # type: ignore[method-assign]
        self.load_outcome = lru_cache(maxsize=1)(self._redacted_outcome)  # type: ignore[method-assign]

    def _redacted_blocks(self, position: Position) -> tuple[Block, ...]:
        blocks = self._inner.load_blocks(position)
        needed = self._redactor.for_line(self._inner.load_json(position)[0])
        if needed is None:
            self._log.add(position, ())
            return blocks
        mapper = _ValueRedactor(needed)
        new = tuple(mapper.redact_block(at, block) for at, block in enumerate(blocks))
        self._log.add(position, tuple(mapper.redactions))
        return new

    def load_read_extent(self, position: Position) -> ReadOutcome | None:
        return _ValueRedactor(self._redactor).redact_value(
            self._inner.load_read_extent(position)
        )

    def outcome_contains(self, position: Position, *needles: bytes) -> bool:
        return self._inner.outcome_contains(position, *needles)

    def load_json(self, position: Position) -> tuple[bytes, bytes]:
        content, result = self._inner.load_json(position)
        hiding = TextRedactor(self._redactor)
        return redact_json(content, hiding), redact_json(result, hiding)

    def _redacted_outcome(self, position: Position) -> Outcome | None:
        # What an outcome says stands in the result's text too: noted there.
        outcome = trim_outcome(
            self._inner.load_outcome(position), self._inner.load_blocks(position)
        )
        try:
            needed = self._redactor.for_line(msgspec.json.encode(outcome))
        except UnicodeEncodeError:
            needed = self._redactor
        return (
            outcome if needed is None else _ValueRedactor(needed).redact_value(outcome)
        )

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
        mapper = _ValueRedactor(self._redactor)
        new = mapper.redact_value(value)
        self._log.add(position, tuple(mapper.redactions))
        return new


class _ValueRedactor(TextRedactor):
    """Maps every text of a value; what is shared stays shared."""

    def __init__(
        self,
        redactor: Redactor,
        loader: Loader | None = None,
        log: RedactionLog | None = None,
        batch_texts: frozenset[str] = frozenset(),
    ) -> None:
        super().__init__(redactor)
        self._batch_texts = batch_texts
        """Texts that were looked at together."""
        self._batch_redactor = (
            redactor.for_texts(batch_texts) if batch_texts else redactor
        )
        self._loader = loader
        self._log = log
        self._redacted_by_id: dict[int, tuple[object, object]] = {}
        self._clean_texts: set[str] = set()
        """Short texts in which nothing was found: many come again and again."""

    def redact(self, text: str, field_name: str = "") -> str:
        if not field_name and text in self._clean_texts:
            return text
        redactor = self._batch_redactor if text in self._batch_texts else self._redactor
        new, found = redactor.redact(text, field_name)
        if found:
            self.redactions.extend(found)
        elif not field_name and len(text) < _MAX_CACHED_LENGTH and new == text:
            self._clean_texts.add(text)
        return new

    def redact_block(self, at: int, block: Block) -> Block:
        """Map a block of a record, and say where it stands."""
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
        elif isinstance(value, Struct):
            new = self._redact_struct(value)
        elif isinstance(value, Raw):
            raw = bytes(value)
            new = Raw(redact_json(raw, self)) if raw else value
        elif isinstance(value, bytes):
            new = redact_json(value, self)
        elif isinstance(value, dict):
            new = {self._redact_any(k): self._redact_any(v) for k, v in value.items()}
        elif isinstance(value, Loader):
            new = self._loader
        else:
            new = value
        return new

    def _redact_tuple(self, value: tuple[object, ...]) -> tuple[object, ...]:
        if value and type(value[0]) is str and self._redactor.is_clean(value):
            return value
        many = [*map(self._redact_any, value)]
        # Most are as they were; a list is made into a tuple only if not.
        return value if all(map(is_, many, value)) else tuple(many)

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
        changed = {}
        before = last = len(self.redactions)
        is_inside = not isinstance(value, _CONTAINER_TYPES)
        for name in names:
            old = getattr(value, name)
            if not old:
                continue
            new = self.redact(old) if type(old) is str else self._redact_any(old)
            if new is not old:
                changed[name] = new
                if is_inside and len(self.redactions) > last:
                    self.prefix_paths(last, f".{name}")
                last = len(self.redactions)
        if len(self.redactions) > before and isinstance(value, Message):
            self._log_unopened(value, self.redactions[before:])
        new = structs.replace(value, **changed) if changed else value
        if is_shared:
            # The old value is held so that no other gets its id.
            self._redacted_by_id[id(value)] = (value, new)
        return new

    def _log_unopened(self, message: Message, redactions: list[Redaction]) -> None:
        """Note the short texts, which may be shown without a record being opened."""
        if self._log is not None and message.record_refs:
            own = tuple(
                one for one in redactions if not one.path.startswith(_AGENTS_PATH)
            )
            self._log.add_unopened(message.record_refs[0].position, own)


_FIELDS_BESIDE_MEDIA = ("type", "url", "file_id", "content")
_TEXTLESS_TYPES = (Position, HiddenRecord)
"""Of what is hidden only the reason is told, in a word of ours."""
_ID_FIELDS = ((MessageUsage, "key"),)
"""Made of ids, and shown nowhere."""
_AGENTS_PATH = ".tool_calls.agents"
"""Where texts stand that are told by messages of their own."""
_CONTAINER_TYPES = (Session, AgentRun, Branch, Turn)
"""What holds messages, and is no part of the place of a text in one."""
_SHARED_TYPES = (Message, ToolCall, Turn, Branch, AgentRun)
"""What a session holds in several places, and must be told once."""


@cache
def _text_fields(kind: type[Struct]) -> tuple[str, ...]:
    """Return the fields of a struct that can hold a text; ids and places cannot."""
    if kind in _TEXTLESS_TYPES:
        return ()
    return tuple(
        name
        for name, hint in _field_types(kind)
        if _holds_text(hint, within=(kind,)) and (kind, name) not in _ID_FIELDS
    )


@cache
def _field_types(kind: type[Struct]) -> tuple[tuple[str, Any], ...]:
    return tuple((field.name, field.type) for field in structs.fields(kind))


def _holds_text(hint: Any, within: tuple[type, ...]) -> bool:  # noqa: ANN401 (an annotation can be anything)
    """Whether a value can hold a text; ``within`` are the structs that it is in."""
    if isinstance(hint, NewType) or hint is Position:
        return False
    if get_origin(hint) in {Union, UnionType, tuple, list, dict}:
        return any(_holds_text(one, within) for one in get_args(hint))
    if not isinstance(hint, type):
        return hint is Any
    if issubclass(hint, Enum) or hint in _TEXTLESS_TYPES:
        return False
    if issubclass(hint, Struct) and hint not in within:
        return any(_holds_text(one, (*within, hint)) for _, one in _field_types(hint))
    return issubclass(hint, str | bytes | Raw | Struct | Loader | msgspec.Raw)
