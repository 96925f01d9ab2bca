"""Helpers that create sessions to export."""

from __future__ import annotations

from pathlib import Path

from bygones.export.folder import ExportItem
from bygones.export.formats import ExportFormat, ExportOptions
from bygones.model.sessions import Session
from bygones.reader import read_sessions, read_source_file
from bygones.redact.engine import Redactor
from bygones.store.archive_dir import ArchiveDir
from tests.build import Home, prompt, reply, session_id, thread, tool_result, tool_use

KEY = "gh" + "p_" + "a1B2c3D4e5F6" * 3
OPEN = ExportOptions(open_source=read_source_file)
"""Options for an export without redaction."""


def make_home(folder: Path, count: int = 3) -> Home:
    """Return a home with sessions that contain a secret."""
    home = Home(folder)
    for number in range(count):
        records = thread(
            prompt(f"Use {KEY} for number {number}"),
            reply([tool_use("Bash", command="ls /home/ada/src")]),
            tool_result("toolu_1", "one\ntwo"),
            reply(f"Number {number} is *done*."),
            start=3600 * number,
        )
        home.session(session_id(number), records)
    home.agent(session_id(0), "a1", thread(prompt("Look around"), reply("Seen")))
    return home


def sessions(folder: Path) -> list[Session]:
    return sorted(read_sessions(folder), key=lambda session: session.id)


def export_items(folder: Path) -> list[ExportItem]:
    return [
        ExportItem(
            id=session.id,
            fingerprint=repr(
                [(source.size, source.mtime_ns) for source in session.sources]
            ).encode(),
            load=lambda session=session: session,  # type: ignore[misc]
        )
        for session in sessions(folder)
    ]


def damage_session(folder: Path, session: str) -> None:
    """Overwrite the bytes of a session's transcript in an archive with zeros."""
    with ArchiveDir(folder, write=True) as archive_dir:
        byte_store = archive_dir.byte_store
        (number,) = (one.number for one in byte_store.sources() if session in one.id)
        sql = "UPDATE chunk SET frame = zeroblob(length(frame)) WHERE source = ?"
        byte_store.db.execute(sql, (number,))


def export_options(form: ExportFormat, *, redact: bool = True) -> ExportOptions:
    return ExportOptions(
        format=form,
        redactor=Redactor() if redact else None,
        open_source=read_source_file,
    )
