"""What the picker shows: the sessions that a query finds, and previews of them.

Both are looked up in a thread of their own, which answers the newest request only: while
you type, requests for what you typed before are dropped.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from bygones.archive import Archive
from bygones.cli.picker.listing import (
    FoundSession,
    FoundSessions,
    PickerQuery,
    list_sessions,
)
from bygones.errors import QueryError
from bygones.model.base import SessionId
from bygones.model.query import MAIN_AGENT, FieldValue, Query
from bygones.model.summary import CountBound
from bygones.query.parser import and_terms, parse_query
from bygones.render.headers import search_notes
from bygones.render.text.primitives import StyledLine, sanitize_line

if TYPE_CHECKING:
    from bygones.cli.picker.preview import SessionPreviewer


class PreviewRequest(Struct, frozen=True):
    query: PickerQuery
    session_id: SessionId
    width: int


class Preview(Struct, frozen=True, kw_only=True):
    """Lines of a session around what was found in it."""

    request: PreviewRequest
    lines: tuple[StyledLine, ...] = ()


Answer = FoundSessions | Preview


class SessionFinder:
    """Answers the requests of the picker from one archive, in the caller's thread."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._previewer: SessionPreviewer | None = None

    def find(self, query: PickerQuery) -> FoundSessions:
        """Return the sessions that a query finds; all of them if nothing was typed."""
        try:
            parsed = self._parse(query)
        except QueryError as error:
            return FoundSessions(query=query, note=str(error), is_invalid=True)
        if parsed.root is None:
            return list_sessions(self._archive, query)
        with_words = self._complete(parsed, query.text)
        results = self._archive.search(
            self._limit_to(with_words, query),
            limit=query.limit,
            hits_per_session=0,
            sort=query.sort,
        )
        notes = [*search_notes(results)] if results.corrections else []
        annotations = self._archive.annotations()
        starred = {id_ for id_, one in annotations.items() if one.is_starred}
        added = with_words.plain_words[len(parsed.plain_words) - 1 :]
        if with_words.plain_words != parsed.plain_words:
            notes.insert(0, f"searching for {', '.join(added)}")
        return FoundSessions(
            query=query,
            rows=tuple(
                with_star(
                    FoundSession(match.summary, match.highlighted_title),
                    is_starred=match.summary.id in starred,
                )
                for match in results.sessions
            ),
            count=results.session_count,
            is_estimate=results.session_count_bound is not CountBound.EXACT,
            note=sanitize_line("; ".join(notes)),
        )

    def preview(
        self, request: PreviewRequest, is_canceled: Callable[[], bool]
    ) -> Preview | None:
        """Return a preview, unless it is not needed any more."""
        with suppress(QueryError):
            query = self._complete(self._parse(request.query), request.query.text)
            if self._previewer is None:
                # Markdown and highlighting are imported after the first paint.
                from bygones.cli.picker.preview import SessionPreviewer

                self._previewer = SessionPreviewer(self._archive)
            found = self._previewer.render(
                request.session_id,
                self._limit_to(query, request.query),
                request.width,
                is_canceled,
            )
            if found is None:
                return None
            return Preview(request=request, lines=found)
        return None

    def find_text(self, query: PickerQuery) -> str:
        """Return the query for what was found: an incomplete word matches as a prefix."""
        with suppress(QueryError):
            parsed = self._parse(query)
            if self._complete(parsed, query.text) != parsed:
                return f"{query.text}*"
        return query.text

    @staticmethod
    def _parse(query: PickerQuery) -> Query:
        now = datetime.now(UTC)  # noqa: TID251 (an interface reads the clock)
        return parse_query(query.text, now=now, zone=now.astimezone().tzinfo or UTC)

    def _complete(self, parsed: Query, text: str) -> Query:
        """Complete the last word unless a space or an operator follows it."""
        is_complete = not _ends_in_word(parsed, text)
        return parsed if is_complete else self._archive.complete_last_word(parsed)

    @staticmethod
    def _limit_to(parsed: Query, query: PickerQuery) -> Query:
        if parsed.root is None:
            return parsed
        terms = [parsed.root]
        if query.directory is not None:
            terms.append(FieldValue("project", query.directory))
        if not query.include_agents:
            terms.append(FieldValue("agent", MAIN_AGENT))
        return Query(and_terms(terms), parsed.notes)


class BackgroundFinder:
    """Answers requests in a thread; a new request replaces one that waits.

    Requests for sessions come before those for previews. A preview that is being made is
    canceled; a search that is running is finished, and its answer ignored.
    """

    def __init__(
        self, folder: Path | str, on_answer: Callable[[Answer | Exception], None]
    ) -> None:
        self._folder = folder
        self._on_answer = on_answer
        self._changed = threading.Condition()
        self._query: PickerQuery | None = None
        self._preview: PreviewRequest | None = None
        self._is_stopped = False
        self._needs_refresh = False
        self._thread = threading.Thread(target=self._run, daemon=True, name="picker")

    def start(self) -> None:
        self._thread.start()

    def request_sessions(self, query: PickerQuery) -> None:
        with self._changed:
            self._query, self._preview = query, None
            self._changed.notify()

    def request_preview(self, request: PreviewRequest) -> None:
        with self._changed:
            self._preview = request
            self._changed.notify()

    def refresh(self) -> None:
        """Open the archive again before the next request, because it was changed."""
        with self._changed:
            self._needs_refresh = True

    def stop(self) -> None:
        with self._changed:
            self._is_stopped = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join(_MAX_JOIN_SECONDS)

    def _has_newer(self) -> bool:
        return self._is_stopped or self._query is not None or self._preview is not None

    def _run(self) -> None:
        try:
            with Archive.open(self._folder) as archive:
                self._answer_requests(archive)
        except Exception as error:  # noqa: BLE001 (raised again in the other thread)
            self._on_answer(error)

    def _answer_requests(self, archive: Archive) -> None:
        finder = SessionFinder(archive)
        while True:
            with self._changed:
                self._changed.wait_for(self._has_newer)
                if self._is_stopped:
                    return
                request: PickerQuery | PreviewRequest | None = self._query
                if request is None:
                    request, self._preview = self._preview, None
                self._query = None
                if self._needs_refresh:
                    archive.refresh()
                    self._needs_refresh = False
            answer: Answer | None = None
            if isinstance(request, PickerQuery):
                answer = finder.find(request)
            elif request is not None:
                answer = finder.preview(request, self._has_newer)
            if answer is not None:
                self._on_answer(answer)


_MAX_JOIN_SECONDS = 2.0


def _ends_in_word(parsed: Query, text: str) -> bool:
    words = parsed.plain_words
    return bool(words) and text.endswith(words[-1])


def with_star(row: FoundSession, *, is_starred: bool) -> FoundSession:
    """Return a row whose session is starred, or not."""
    summary = replace(row.summary, is_starred=is_starred)
    return replace(row, summary=summary)
