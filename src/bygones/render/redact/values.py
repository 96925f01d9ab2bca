"""Sessions of which nothing secret can be read, whoever renders them.

A session is redacted before it is rendered, not afterwards: behind the renderer a
secret may be broken by markup, by a cut or by an escape.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from enum import Enum
from functools import cache, lru_cache
from operator import is_
from types import UnionType
from typing import Any, NewType, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import Raw, Struct, structs

from bygones.model.blocks import Block, MediaSource
from bygones.model.ids import Position
from bygones.model.metadata import FileDelta, FileSnapshot
from bygones.model.parts import Hidden, Loader, Spend
from bygones.model.sessions import (
    AgentRun,
    Branch,
    Message,
    Session,
    ToolCall,
    Turn,
)
from bygones.model.tools import Outcome, ReadOutcome
from bygones.render.redact.brief import brief
from bygones.render.redact.json import Hiding, is_picture, redacted_json
from bygones.render.redact.personal import names_in
from bygones.render.redact.redactor import Found, Redactor

__all__ = ["Finds", "redacted"]

T = TypeVar("T")
_KEPT_OPEN = 16
_SHORT = 200
"""Signs of a text that is remembered."""


class Finds:
    """What was hidden, by the record that it stood in; each record is told once."""

    def __init__(self) -> None:
        self._opened: dict[Position, tuple[Found, ...]] = {}
        self._unopened: dict[Position, tuple[Found, ...]] = {}
        self.private = 0
        """Records that were left out whole."""

    @property
    def records(self) -> dict[Position, tuple[Found, ...]]:
        """What each record held; spans are within a text, not within the line."""
        told = {**self._unopened, **self._opened}
        return {at: found for at, found in told.items() if found}

    def note(self, position: Position, found: tuple[Found, ...]) -> None:
        """Remember what a record held; the same record again counts once."""
        known = self._opened.get(position)
        if known is None or len(found) > len(known):
            self._opened[position] = found

    def note_unopened(self, position: Position, found: tuple[Found, ...]) -> None:
        """Remember what is known of a record that may never be opened."""
        self._unopened[position] = found

    def only(self, places: Container[Position]) -> None:
        """Forget what stood in other records: those were looked at, and not shown."""
        for known in (self._opened, self._unopened):
            for position in [one for one in known if one not in places]:
                del known[position]

    def counts(self) -> dict[str, int]:
        """Return how often each kind was hidden, the most frequent first."""
        counted: dict[str, int] = {}
        for found in self.records.values():
            for one in found:
                counted[one.kind] = counted.get(one.kind, 0) + 1
        return dict(sorted(counted.items(), key=lambda pair: (-pair[1], pair[0])))


def redacted(
    session: Session, redactor: Redactor, finds: Finds | None = None
) -> Session:
    """Return the session with everything hidden in it that must not leave.

    The login names that its directories give away are hidden too. What is opened
    later is redacted then, and noted in ``finds``.
    """
    knowing = redactor.with_names(names_in(session.directories))
    finds = finds if finds is not None else Finds()
    loader = _Redacting(session.loader, knowing, finds)
    return _Mapper(knowing, loader, finds, frozenset(_short(session))).mapped(session)


def _short(session: Session) -> Iterator[str]:
    """Yield most of the texts that a session holds unopened."""
    branches = (
        *session.branches,
        *(b for run in session.all_agents for b in run.branches),
    )
    for turn in (turn for branch in branches for turn in branch.own):
        for message in turn.messages:
            yield message.head
            for call in message.calls:
                yield call.note
                yield call.path or ""


class _Redacting(Loader):
    """Opens what another loader opens, redacted."""

    def __init__(self, inner: Loader, redactor: Redactor, finds: Finds) -> None:
        self._inner = inner
        self._redactor = redactor
        self._finds = finds
        self.blocks = lru_cache(maxsize=_KEPT_OPEN)(self._blocks)  # type: ignore[method-assign]
        self.outcome = lru_cache(maxsize=1)(self._outcome)  # type: ignore[method-assign]

    def _blocks(self, position: Position) -> tuple[Block, ...]:
        blocks = self._inner.blocks(position)
        needed = self._redactor.for_line(self._inner.written(position)[0])
        if needed is None:
            self._finds.note(position, ())
            return blocks
        mapper = _Mapper(needed)
        new = tuple(mapper.block(at, block) for at, block in enumerate(blocks))
        self._finds.note(position, tuple(mapper.met))
        return new

    def extent(self, position: Position) -> ReadOutcome | None:
        return _Mapper(self._redactor).mapped(self._inner.extent(position))

    def glance(self, position: Position, *signs: bytes) -> bool:
        return self._inner.glance(position, *signs)

    def written(self, position: Position) -> tuple[bytes, bytes]:
        content, result = self._inner.written(position)
        hiding = Hiding(self._redactor)
        return redacted_json(content, hiding), redacted_json(result, hiding)

    def _outcome(self, position: Position) -> Outcome | None:
        # What an outcome says stands in the result's text too: noted there.
        outcome = brief(self._inner.outcome(position), self._inner.blocks(position))
        try:
            needed = self._redactor.for_line(msgspec.json.encode(outcome))
        except UnicodeEncodeError:
            needed = self._redactor
        return outcome if needed is None else _Mapper(needed).mapped(outcome)

    def snapshot(self, position: Position) -> FileSnapshot | FileDelta | None:
        return self._told(self._inner.snapshot(position), position)

    def raw(self, position: Position) -> bytes:
        return self._redactor.text(
            self._inner.raw(position).decode("utf-8", "replace")
        ).encode()

    def stored(self, position: Position, path: str) -> str | None:
        text = self._inner.stored(position, path)
        return None if text is None else self._told(text, position)

    def _told(self, value: T, position: Position) -> T:
        mapper = _Mapper(self._redactor)
        new = mapper.mapped(value)
        self._finds.note(position, tuple(mapper.met))
        return new


class _Mapper(Hiding):
    """Maps every text of a value; what is shared stays shared."""

    def __init__(
        self,
        redactor: Redactor,
        loader: Loader | None = None,
        finds: Finds | None = None,
        short: frozenset[str] = frozenset(),
    ) -> None:
        super().__init__(redactor)
        self._short = short
        """Texts that were looked at together."""
        self._cheapest = redactor.for_texts(short) if short else redactor
        self._loader = loader
        self._finds = finds
        self._known: dict[int, tuple[object, object]] = {}
        self._same: set[str] = set()
        """Short texts in which nothing was found: many come again and again."""

    def told(self, text: str, name: str = "") -> str:
        if not name and text in self._same:
            return text
        redactor = self._cheapest if text in self._short else self._redactor
        new, found = redactor.told(text, name)
        if found:
            self.met.extend(found)
        elif not name and len(text) < _SHORT and new == text:
            self._same.add(text)
        return new

    def block(self, at: int, block: Block) -> Block:
        """Map a block of a record, and say where it stands."""
        before = len(self.met)
        new = self.mapped(block)
        if len(self.met) > before:
            self.within(before, f".content[{at}]")
        return new

    def mapped(self, value: T) -> T:
        return self._any(value)  # type: ignore[return-value]

    def _any(self, value: object) -> object:
        if type(value) is str:
            new: object = self.told(value)
        elif isinstance(value, tuple):
            new = self._tuple(value)
        elif isinstance(value, Struct):
            new = self._struct(value)
        elif isinstance(value, Raw):
            raw = bytes(value)
            new = Raw(redacted_json(raw, self)) if raw else value
        elif isinstance(value, bytes):
            new = redacted_json(value, self)
        elif isinstance(value, dict):
            new = {self._any(k): self._any(v) for k, v in value.items()}
        elif isinstance(value, Loader):
            new = self._loader
        else:
            new = value
        return new

    def _tuple(self, value: tuple[object, ...]) -> tuple[object, ...]:
        if value and type(value[0]) is str and self._redactor.is_clean(value):
            return value
        many = [*map(self._any, value)]
        # Most are as they were; a list is made into a tuple only if not.
        return value if all(map(is_, many, value)) else tuple(many)

    def _struct(self, value: Struct) -> object:
        names = _told_fields(type(value))
        if not names:
            return value
        if isinstance(value, MediaSource) and is_picture(value.media_type, value.data):
            names = _BESIDE_PICTURE
        is_shared = isinstance(value, _SHARED)
        if is_shared and (known := self._known.get(id(value))) is not None:
            return known[1]
        changed = {}
        before = last = len(self.met)
        is_inside = not isinstance(value, _AROUND)
        for name in names:
            old = getattr(value, name)
            if not old:
                continue
            new = self.told(old) if type(old) is str else self._any(old)
            if new is not old:
                changed[name] = new
                if is_inside and len(self.met) > last:
                    self.within(last, f".{name}")
                last = len(self.met)
        if len(self.met) > before and isinstance(value, Message):
            self._noted(value, self.met[before:])
        new = structs.replace(value, **changed) if changed else value
        if is_shared:
            # The old value is held so that no other gets its id.
            self._known[id(value)] = (value, new)
        return new

    def _noted(self, message: Message, met: list[Found]) -> None:
        """Note the short texts, which may be shown without a record being opened."""
        if self._finds is not None and message.pieces:
            own = tuple(one for one in met if not one.within.startswith(_AGENTS))
            self._finds.note_unopened(message.pieces[0].position, own)


_BESIDE_PICTURE = ("type", "url", "file_id", "content")
_WITHOUT_TEXT = (Position, Hidden)
"""Of what is hidden only the reason is told, in a word of ours."""
_IDS = ((Spend, "key"),)
"""Made of ids, and shown nowhere."""
_AGENTS = ".calls.agents"
"""Where texts stand that are told by messages of their own."""
_AROUND = (Session, AgentRun, Branch, Turn)
"""What holds messages, and is no part of the place of a text in one."""
_SHARED = (Message, ToolCall, Turn, Branch, AgentRun)
"""What a session holds in several places, and must be told once."""


@cache
def _told_fields(kind: type[Struct]) -> tuple[str, ...]:
    """Return the fields of a struct that can hold a text; ids and places cannot."""
    if kind in _WITHOUT_TEXT:
        return ()
    return tuple(
        name
        for name, hint in _hints(kind)
        if _holds_text(hint, within=(kind,)) and (kind, name) not in _IDS
    )


@cache
def _hints(kind: type[Struct]) -> tuple[tuple[str, Any], ...]:
    return tuple((field.name, field.type) for field in structs.fields(kind))


def _holds_text(hint: Any, within: tuple[type, ...]) -> bool:  # noqa: ANN401 (an annotation can be anything)
    """Whether a value can hold a text; ``within`` are the structs that it is in."""
    if isinstance(hint, NewType) or hint is Position:
        return False
    if get_origin(hint) in {Union, UnionType, tuple, list, dict}:
        return any(_holds_text(one, within) for one in get_args(hint))
    if not isinstance(hint, type):
        return hint is Any
    if issubclass(hint, Enum) or hint in _WITHOUT_TEXT:
        return False
    if issubclass(hint, Struct) and hint not in within:
        return any(_holds_text(one, (*within, hint)) for _, one in _hints(hint))
    return issubclass(hint, str | bytes | Raw | Struct | Loader | msgspec.Raw)
