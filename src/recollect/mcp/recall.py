"""Recall: the tools' answers, each from an archive opened for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, tzinfo
from itertools import islice
from pathlib import Path

from msgspec import Struct

from recollect.archive import Archive
from recollect.errors import CursorUnreadable, NotArchived
from recollect.mcp.asking import Asked, OutlineAsked, ReadAsked, RecentAsked
from recollect.mcp.naming import project_of, short_session, way_to
from recollect.mcp.quoting import Cursor, Quoted, answer, read_cursor
from recollect.model.listing import Listed
from recollect.model.sessions import Session
from recollect.render.figures import several
from recollect.render.redact import Finds, Redactor, redacted
from recollect.render.safe import safe_line

__all__ = ["Caller", "Recall"]

# A client waits for the first answer: what only some answers need is imported by them.


class Caller(Struct, frozen=True, kw_only=True):
    """Who asks: from which directory, and in which session of its own."""

    directory: Path
    session: str | None = None
    clock: Callable[[], datetime]
    zone: tzinfo


class Recall:
    """Answers from the archive in a folder; changes nothing."""

    def __init__(self, folder: Path, caller: Caller) -> None:
        self._folder = folder
        self._caller = caller
        self._redactor = Redactor()

    @contextmanager
    def _archive(self) -> Iterator[Archive]:
        # Opened anew for each answer: an ingestion may have made a new index.
        with Archive.open(self._folder) as archive:
            yield archive

    def recent(self, asked: RecentAsked) -> str:
        """Return the newest sessions."""
        with self._archive() as archive:
            project = self._project(archive) if asked.scope == "project" else None
            found = list(self._others(archive, project))
            where = "in this project" if project else "in all projects"
            counted = several(len(found), "session")
            rows = (self._listed_row(archive, one) for one in found)
            return self._list(
                f"Recollect: {counted} {where}, newest first.", rows, asked
            )

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

    def outline(self, asked: OutlineAsked) -> str:
        """Return a session's turns at a glance."""
        with self._archive() as archive:
            session, finds = self._session(archive, asked.session)
            way_to(session, "", asked.branch, "")
            from recollect.mcp.outline import outline_rows  # noqa: PLC0415 (see above)

            rows = outline_rows(session, asked.branch)
            return self._list("Recollect: outline of a session.", rows, asked, finds)

    def read(self, asked: ReadAsked) -> str:
        """Return what was said in a session, from a place on."""
        with self._archive() as archive:
            session, finds = self._session(archive, asked.session)
            cursor = read_cursor(asked.cursor)
            wanted = cursor.place if cursor else asked.at
            way, start = way_to(session, wanted, asked.branch, asked.agent)
            if cursor is None:
                start = max(0, start - asked.before)
            from recollect.mcp.telling import Teller  # noqa: PLC0415 (see above)

            teller = Teller(session, way, asked.detail)
            count = several(len(way.messages), "message")
            place = f"message {start + 1} of {count}" if way.messages else "no message"
            where = "live branch" if way.is_live else f"rewound branch {way.branch}"
            if way.agent is not None:
                where = "agent run"
            return answer(
                f"Recollect: {place}, {where}, {_budget(asked)}.",
                teller.rows(start),
                cursor.offset if cursor else 0,
                budget=asked.max_bytes,
                tail=lambda rest: _tail(rest, finds),
            )

    def _session(self, archive: Archive, name: str) -> tuple[Session, Finds]:
        finds = Finds()
        session = archive.session(name.removeprefix("#"))
        if session.id == self._caller.session:
            # Whoever asks has it before them.
            raise NotArchived("other session", name)
        return redacted(session, self._redactor, finds), finds

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

    def _list(
        self,
        head: str,
        rows: Iterator[Quoted],
        asked: Asked,
        finds: Finds | None = None,
    ) -> str:
        """Return an answer of rows that are found again by their number."""
        cursor = read_cursor(asked.cursor) or Cursor("0")
        if not cursor.place.isdecimal():
            raise CursorUnreadable(asked.cursor)
        start = int(cursor.place)
        numbered = (
            Quoted(str(number), row.text)
            for number, row in enumerate(rows)
            if number >= start
        )
        return answer(
            f"{head} {_budget(asked).capitalize()}.",
            numbered,
            cursor.offset,
            budget=asked.max_bytes,
            tail=lambda rest: _tail(rest, finds),
        )


def _budget(asked: Asked) -> str:
    return f"at most {asked.max_bytes} bytes"


def _tail(rest: Cursor | None, finds: Finds | None) -> Sequence[str]:
    told = [
        "This is all of it."
        if rest is None
        else f"Cut here: there is more. To go on: cursor {rest}"
    ]
    hidden = finds.counts() if finds else {}
    if hidden:
        told.append(f"Hidden as private: {several(sum(hidden.values()), 'text')}.")
    return told
