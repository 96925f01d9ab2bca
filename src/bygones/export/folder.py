"""Many sessions in one folder; what has not changed is not written again."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from hashlib import sha256
from pathlib import Path

import msgspec
from msgspec import Struct, structs

from bygones.export.files import encoded, file_name, write_changed, write_whole
from bygones.export.making import Format, Making, prepared
from bygones.export.pages import index_pages, session_pages
from bygones.export.report import Tally
from bygones.export.rows import Row, row_of
from bygones.export.single import export_session
from bygones.model.ids import SessionId
from bygones.model.sessions import Session
from bygones.render.redact import Finds

__all__ = ["Chosen", "Exported", "export_folder"]

_MANIFEST = ".bygones-export.json"
_VERSION = 3
"""Counts up when pages change: all are written anew then."""


class Chosen(Struct, frozen=True, kw_only=True):
    """A session to be written, opened when it is its turn."""

    id: SessionId
    stamp: bytes
    """Another one if the session has changed."""
    open: Callable[[], Session]


class Exported(Struct, kw_only=True):
    """What an export did."""

    written: int = 0
    same: int = 0
    """Sessions that had not changed."""
    bytes: int = 0
    tally: Tally = msgspec.field(default_factory=Tally)
    finds: Finds = msgspec.field(default_factory=Finds)
    """Of the session that was written last."""


class _Known(Struct, frozen=True):
    stamp: str
    row: Row


class _Manifest(Struct, frozen=True):
    """What a folder holds, so that it need not be made again."""

    version: int
    sessions: dict[str, _Known]


def export_folder(
    chosen: Iterable[Chosen],
    folder: Path,
    making: Making,
    *,
    report: bool = False,
) -> Exported:
    """Write sessions into a folder: as pages with lists and a search, or file by file.

    A folder that was written before is brought up to date: what has not changed stays,
    and so do sessions that are not chosen this time.
    """
    done = Exported()
    known = _known(folder)
    for one in chosen:
        stamp = _stamp(one, making)
        before = known.get(one.id)
        if before is not None and before.stamp == stamp and _is_there(folder, before):
            done.same += 1
        else:
            row = _written(one, folder, making, done)
            done.tally.add(one.id, done.finds, keep=report)
            known[one.id] = _Known(stamp, row)
            done.written += 1
    is_private = making.redactor is None
    if making.format is Format.HTML:
        newest = sorted((one.row for one in known.values()), key=_age, reverse=True)
        for name, raw in index_pages(newest, making):
            write_changed(folder / name, raw, private=is_private)
    manifest = msgspec.json.encode(_Manifest(_VERSION, known))
    write_changed(folder / _MANIFEST, manifest, private=True)
    return done


def _written(one: Chosen, folder: Path, making: Making, done: Exported) -> Row:
    finds = done.finds = Finds()
    session = one.open()
    stem = f"sessions/{file_name(one.id)}"
    page = f"{stem}{making.format.suffix}"
    if making.format is Format.HTML:
        told = prepared(session, making, finds)
        for name, pieces in session_pages(told, stem, making):
            done.bytes += write_whole(
                folder / name, encoded(pieces), private=making.redactor is None
            )
        row = row_of(told, page)
    else:
        files = export_session(session, folder / page, making, finds)
        done.bytes += sum(path.stat().st_size for path in files)
        row = row_of(prepared(session, making, Finds()), page)
    return row


def _known(folder: Path) -> dict[str, _Known]:
    try:
        found = msgspec.json.decode((folder / _MANIFEST).read_bytes(), type=_Manifest)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return {}
    return dict(found.sessions) if found.version == _VERSION else {}


def _is_there(folder: Path, known: _Known) -> bool:
    return (folder / known.row.page).is_file()


def _stamp(one: Chosen, making: Making) -> str:
    view = structs.astuple(making.view)
    hides = making.redactor and (
        sorted(making.redactor.names),
        making.redactor.patterns,
    )
    told = f"{making.format} {view} {hides} {making.private} {making.zone}"
    return sha256(one.stamp + told.encode()).hexdigest()[:32]


def _age(row: Row) -> tuple[bool, datetime | str, str]:
    return row.ended is not None, row.ended or "", row.page
