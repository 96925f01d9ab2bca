"""One session in one file, or in the files that it was written in."""

from __future__ import annotations

from pathlib import Path

from bygones.export.files import encoded, write_whole
from bygones.export.making import Format, Making, made
from bygones.export.transcripts import transcripts
from bygones.model.sessions import Session
from bygones.render.redact import Finds

__all__ = ["export_session"]


def export_session(
    session: Session, path: Path, making: Making, finds: Finds
) -> list[Path]:
    """Write a session and return the files, the one that was asked for first.

    As JSONL, what its agents said goes into a folder of the same name beside it, as
    Claude Code lays it out.
    """
    is_private = making.redactor is None
    if making.format is not Format.JSONL:
        pieces = made(session, making, finds)
        write_whole(path, encoded(pieces), private=is_private)
        return [path]
    written = []
    for transcript in transcripts(
        session, making.raws, making.redactor, finds, private=making.private
    ):
        place = _beside(path) / transcript.name if transcript.name else path
        write_whole(place, transcript.raws, private=is_private)
        written.append(place)
    return written


def _beside(path: Path) -> Path:
    """Return the folder for what belongs to a transcript."""
    stem = path.name.removesuffix(Format.JSONL.suffix)
    return path.with_name(stem if stem and stem != path.name else f"{path.name}-agents")
