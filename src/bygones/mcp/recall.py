"""Recall: the tools' answers, each from an archive opened for it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, tzinfo
from itertools import islice
from pathlib import Path

from msgspec import Struct

from bygones.archive import Archive
from bygones.errors import CursorUnreadable, NotArchived
from bygones.mcp.asking import (
    Asked,
    FileHistoryAsked,
    OutlineAsked,
    ReadAsked,
    RecentAsked,
    SearchAsked,
)
from bygones.mcp.naming import project_of, short_session, way_to
from bygones.mcp.quoting import Cursor, Quoted, Slice, answer, read_cursor
from bygones.model.hits import Found
from bygones.model.listing import Listed
from bygones.model.sessions import Session
from bygones.render.figures import several
from bygones.render.redact import Redactor, redacted
from bygones.render.safe import safe_line

__all__ = ["Caller", "Recall"]

_SIGNS = range(0xF0000, 0xFFFFE)
"""Signs that nobody writes: one of them, drawn by lot, stands before what was hidden
until it is counted. What a transcript has in place of a secret does not count."""

# A client waits for the first answer: what only some answers need is imported by them.


class Caller(Struct, frozen=True, kw_only=True):
    """Who asks: from which directory, and in which session of its own."""

    directory: Path
    session: str | None = None
    clock: Callable[[], datetime]
    zone: tzinfo


class Recall:
    """Answers from the archive in a folder, or as it is opened; changes nothing."""

    def __init__(
        self,
        folder: Path,
        caller: Caller,
        opening: Callable[[], Archive] | None = None,
        redactor: Redactor | None = None,
    ) -> None:
        self._opening = opening or (lambda: Archive.open(folder))
        self._caller = caller
        self._sign = chr(_SIGNS[int.from_bytes(os.urandom(8)) % len(_SIGNS)])
        self._redactor = (redactor or Redactor()).with_sign(self._sign)

    @contextmanager
    def _archive(self) -> Iterator[Archive]:
        # Opened anew for each answer: an ingestion may have made a new index.
        with self._opening() as archive, archive.at_once():
            yield archive

    def recent(self, asked: RecentAsked) -> str:
        """Return the newest sessions."""
        with self._archive() as archive:
            project = self._project(archive) if asked.scope == "project" else None
            found = list(self._others(archive, project))
            where = "in this project" if project else "in all projects"
            counted = several(len(found), "session")
            rows = (self._listed_row(archive, one) for one in found)
            return self._list(f"Bygones: {counted} {where}, newest first.", rows, asked)

    def newest(self, most: int) -> list[tuple[str, str, str]]:
        """Return the newest sessions here: a name, when it ended, how many prompts."""
        with self._archive() as archive:
            found = islice(self._others(archive, self._project(archive)), most)
            return [
                (
                    short_session(archive, one),
                    f"{one.ended:%Y-%m-%d %H:%M}" if one.ended else "an unknown time",
                    several(one.prompts, "prompt"),
                )
                for one in found
            ]

    def _others(self, archive: Archive, project: str | None) -> Iterator[Listed]:
        for listed in archive.sessions(project=project):
            if listed.id != self._caller.session:
                yield listed

    def search(self, asked: SearchAsked) -> str:
        """Return sessions that answer a query, with lines that say why."""
        from bygones.mcp.finding import Finding  # noqa: PLC0415 (see above)
        from bygones.query import parse  # noqa: PLC0415

        caller = self._caller
        query = parse(asked.query, now=caller.clock(), zone=caller.zone)
        with self._archive() as archive:
            finding = Finding(
                archive,
                query,
                hits=asked.hits,
                caller=caller.session,
                hide=self._told,
            )
            is_only = asked.scope == "project"
            scopes = finding.scopes(self._project(archive), is_only=is_only)
            begun = [finding.found(scopes[0], 0)]
            if not begun[0].total:
                begun += [finding.found(scope, 0) for scope in scopes[1:]]
            cursor = self._cursor(asked)
            rows = finding.rows(scopes, begun, int(cursor.place) if cursor else 0)
            head = f"Bygones: {_counted(begun, len(scopes))}. {finding.left_out}."
            return self._answer(head, rows, cursor, asked)

    def file_history(self, asked: FileHistoryAsked) -> str:
        """Return who changed a file, when and why."""
        from bygones.mcp.files import file_rows, newest_first  # noqa: PLC0415

        with self._archive() as archive:
            edits = archive.edits(path=asked.path)
            sessions = newest_first(edits, self._caller.session)
            counted = several(len(sessions), "session")
            rows = file_rows(
                archive, sessions, lambda one: redacted(one, self._redactor)
            )
            head = f"Bygones: {counted} changed this path, newest first."
            return self._list(head, rows, asked)

    def outline(self, asked: OutlineAsked) -> str:
        """Return a session's turns at a glance."""
        with self._archive() as archive:
            session = self._session(archive, asked.session)
            way_to(session, "", asked.branch, "")
            from bygones.mcp.outline import outline_rows  # noqa: PLC0415 (see above)

            rows = outline_rows(session, asked.branch)
            return self._list("Bygones: outline of a session.", rows, asked)

    def read(self, asked: ReadAsked) -> str:
        """Return what was said in a session, from a place on."""
        with self._archive() as archive:
            session = self._session(archive, asked.session)
            cursor = read_cursor(asked.cursor)
            wanted = cursor.place if cursor else asked.at
            try:
                way, start = way_to(session, wanted, asked.branch, asked.agent)
            except NotArchived as error:
                if cursor is None or error.what != "record":
                    raise
                raise CursorUnreadable(asked.cursor) from error
            if cursor is None:
                start = max(0, start - asked.before)
            from bygones.mcp.telling import Teller  # noqa: PLC0415 (see above)

            teller = Teller(session, way, asked.detail)
            count = several(len(way.messages), "message")
            place = f"message {start + 1} of {count}" if way.messages else "no message"
            where = "live branch" if way.is_live else f"rewound branch {way.branch}"
            if way.agent is not None:
                where = "agent run"
            head = f"Bygones: {place}, {where}."
            return self._answer(head, teller.rows(start), cursor, asked)

    def _session(self, archive: Archive, name: str) -> Session:
        session = archive.session(name.removeprefix("#"))
        if session.id == self._caller.session:
            # Whoever asks has it before them.
            raise NotArchived("other session", name)
        return redacted(session, self._redactor)

    def _project(self, archive: Archive) -> str | None:
        return project_of(archive, self._caller.directory)

    def _listed_row(self, archive: Archive, listed: Listed) -> Quoted:
        facts = [
            short_session(archive, listed),
            f"{listed.ended:%Y-%m-%d %H:%M}" if listed.ended else "",
            several(listed.prompts, "prompt"),
            several(listed.agents, "agent") if listed.agents else "",
            several(listed.branches, "branch", "branches")
            if listed.branches > 1
            else "",
            self._told(listed.project or ""),
            self._told(listed.title.text),
        ]
        return Quoted("", " · ".join(map(safe_line, filter(None, facts))) + "\n")

    def _told(self, text: str) -> str:
        return self._redactor.text(text)

    def _cursor(self, asked: Asked) -> Cursor | None:
        """Return the cursor of a list, which has the number of a row."""
        cursor = read_cursor(asked.cursor)
        if cursor is not None and not cursor.place.isdecimal():
            raise CursorUnreadable(asked.cursor)
        return cursor

    def _list(self, head: str, rows: Iterator[Quoted], asked: Asked) -> str:
        """Return an answer of rows that are found again by their number."""
        cursor = self._cursor(asked)
        start = int(cursor.place) if cursor else 0
        numbered = (
            Quoted(str(number), row.text)
            for number, row in enumerate(rows)
            if number >= start
        )
        return self._answer(head, numbered, cursor, asked)

    def _answer(
        self, head: str, rows: Iterator[Quoted], cursor: Cursor | None, asked: Asked
    ) -> str:
        told = answer(
            f"{head} At most {asked.max_bytes} bytes.",
            rows if cursor is None else _from(rows, cursor),
            cursor.offset if cursor else 0,
            budget=asked.max_bytes,
            tail=self._tail,
        )
        return told.replace(self._sign, "")

    def _tail(self, told: Slice) -> Sequence[str]:
        """Return what an answer leaves out, and how it goes on."""
        hidden = told.body.count(self._sign)
        return [
            *([f"Hidden as secret or private: {hidden}."] if hidden else ()),
            "This is all of it."
            if told.rest is None
            else f"Cut here: there is more. To go on: cursor {told.rest}",
        ]


def _from(rows: Iterator[Quoted], cursor: Cursor) -> Iterator[Quoted]:
    """Yield rows, if there is one in which an answer can go on."""
    first = next(rows, None)
    if first is None or 0 < len(first.text) <= cursor.offset:
        raise CursorUnreadable(str(cursor))
    yield first
    yield from rows


def _counted(begun: Sequence[Found], scopes: int) -> str:
    """Return how many sessions were found, here and elsewhere."""
    here, *others = begun
    told = f"{here.bound.before(several(here.total, 'session'))} found"
    if others and others[0].total:
        told += f" in this project, {others[0].bound.before(f'{others[0].total:,}')}"
        told += " elsewhere"
    elif others:
        told += ", here and elsewhere"
    elif scopes > 1:
        told += " in this project, others behind them"
    is_partial = any(one.is_partial for one in begun)
    return f"{told}; not all was looked at" if is_partial else told
