"""Contents that the hooks of `integrate claude --checkpoints` stored around commands."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime

import msgspec
from msgspec import Struct

from bygones.files.events import (
    EventKind,
    FileEvent,
    PlacedCall,
    PlacedEvent,
    decode_bytes,
    load_command,
)
from bygones.model.base import DECODE_ERRORS, ToolUseId

CHECKPOINT_LOG = "log.jsonl"


class CheckpointFile(Struct, frozen=True, kw_only=True):
    """A file at a checkpoint."""

    path: str
    hash: str | None = None
    """The name of its content; empty if it does not exist, none if it is not stored."""
    during: bool = False
    """Whether it changed while the command ran, and not before."""
    before: str | None = None
    """Its content before the command, if git had it; empty if it did not exist."""


class Checkpoint(Struct, frozen=True, kw_only=True):
    """What was seen before or after a command."""

    call_id: ToolUseId
    event: str
    at: float
    files: tuple[CheckpointFile, ...] = ()


_decode = msgspec.json.Decoder(Checkpoint).decode
Checkpoints = Mapping[ToolUseId, Sequence[Checkpoint]]
LoadContent = Callable[[str], bytes | None]
"""Returns a stored content by its name."""


def parse_checkpoints(raw: bytes) -> dict[ToolUseId, list[Checkpoint]]:
    """Return the checkpoints of a log by their call; damaged lines are left out."""
    found: dict[ToolUseId, list[Checkpoint]] = {}
    for line in raw.splitlines():
        try:
            checkpoint = _decode(line)
        except DECODE_ERRORS:
            continue
        found.setdefault(checkpoint.call_id, []).append(checkpoint)
    return found


def checkpoint_events(
    placed: PlacedCall,
    checkpoints: Checkpoints,
    keys: Callable[[str], bool],
    load_content: LoadContent,
) -> Iterator[PlacedEvent]:
    """Yield what checkpoints say about selected files around a command.

    What changed before the command was seen, not written by it.
    """
    for checkpoint in checkpoints.get(placed.call.id, ()):
        for file in checkpoint.files:
            if file.hash is None or not keys(file.path):
                continue
            raw = load_content(file.hash) if file.hash else None
            if file.hash and raw is None:
                continue  # not imported
            is_own = file.during and checkpoint.event == "post"
            before = load_content(file.before) if file.before else None
            event = FileEvent(
                path=file.path,
                kind=EventKind.SNAPSHOT if is_own else EventKind.BACKUP,
                place=placed.place,
                time=datetime.fromtimestamp(checkpoint.at, UTC),
                before=decode_bytes(before) if before is not None else None,
                is_new=is_own and file.before == "",
                text=decode_bytes(raw) if raw is not None else None,
                raw=raw,
                is_absent=not file.hash,
                command=load_command(placed.call) if is_own else "",
            )
            order = placed.order
            if not is_own:
                start = placed.call.called_at
                order = min(order, start.timestamp() if start else order)
            yield PlacedEvent(event, order)
