"""What the hooks of `integrate claude --checkpoints` recorded around commands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct

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

    @property
    def changed_files(self) -> Sequence[CheckpointFile]:
        """The files that the command changed."""
        return [f for f in self.files if f.during] if self.event == "post" else ()


Checkpoints = Mapping[ToolUseId, Sequence[Checkpoint]]

_decode = msgspec.json.Decoder(Checkpoint).decode


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
