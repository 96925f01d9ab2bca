"""Contents that the hooks of `integrate claude --checkpoints` stored around commands."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from bygones.files.events import (
    EventKind,
    FileEvent,
    PlacedCall,
    PlacedEvent,
    decode_bytes,
    load_command,
)
from bygones.model.checkpoints import Checkpoints

LoadContent = Callable[[str], bytes | None]
"""Returns a stored content by its name."""


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
