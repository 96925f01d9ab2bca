"""Rows of the tools blame and file_at."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

from bygones.archive import Archive
from bygones.files.blame import BlamedLine
from bygones.files.history import FileAt
from bygones.files.library import FileLibrary
from bygones.files.origins import LineOrigin
from bygones.files.report import origin_label
from bygones.mcp.quoting import QuotedRow, cite_record, short_session_id
from bygones.render.text.primitives import sanitize, sanitize_line, truncate_line

_PROMPT_CHARS = 300
_COMMAND_CHARS = 120
_LINES_PER_ROW = 20


class FileRows:
    """Quotes files with citations; `redact` is applied to all texts."""

    def __init__(self, archive: Archive, redact: Callable[[str], str]) -> None:
        self._archive = archive
        self._redact = redact
        self._library: FileLibrary = archive.file_library

    def blame_rows(self, lines: Sequence[BlamedLine]) -> Iterator[QuotedRow]:
        """Yield consecutive lines of the same origin as one row."""
        for origin, group in groupby(lines, key=lambda line: line.origin):
            block = list(group)
            first, last = block[0].number, block[-1].number
            where = f"line {first}" + (f"-{last}" if last > first else "")
            text = "\n".join(line.text for line in block)
            facts = [where, origin_label(origin), *self._citation(origin)]
            yield QuotedRow("", f"{' · '.join(facts)}\n{self._quote(text)}")

    def _citation(self, origin: LineOrigin) -> Iterator[str]:
        place = origin.place
        if place is not None:
            summary = self._archive.session_summary(place.session_id)
            turn = (
                f"{short_session_id(self._archive, summary)} t{place.turn_number + 1}"
            )
            yield f"noticed at {turn}" if origin.is_noticed else turn
            if place.message_id:
                yield cite_record(place.message_id)
        if origin.time is not None:
            yield f"{origin.time:%Y-%m-%d %H:%M}"
        if origin.commit:
            yield f"commit {origin.commit[:10]}"
        if origin.command:
            yield f"command: {self._line(origin.command, _COMMAND_CHARS)}"
        if place is not None and not origin.is_noticed:
            prompt = self._library.prompt(place)
            if prompt:
                yield f"asked: {self._line(prompt, _PROMPT_CHARS)}"

    def content_rows(self, file: FileAt) -> Iterator[QuotedRow]:
        """Yield what is known of a file at a turn, and its lines."""
        version = file.version
        facts = [self._line(file.path, 500)]
        if version is not None:
            place = version.place
            summary = self._archive.session_summary(place.session_id)
            session = short_session_id(self._archive, summary)
            facts.append(f"last changed at {session} t{place.turn_number + 1}")
            if place.message_id:
                facts.append(cite_record(place.message_id))
        if version is None or not version.is_known:
            facts.append("content not known")
        elif not file.exists:
            facts.append("did not exist")
        elif not file.is_certain:
            facts.append("not certain")
        facts += (
            f"maybe changed since by: {self._line(doubt.command, _COMMAND_CHARS)}"
            for doubt in file.doubts[-1:]
        )
        yield QuotedRow("", " · ".join(facts) + "\n")
        if file.text is None:
            return
        lines = self._redact(file.text).removesuffix("\n").split("\n")
        for start in range(0, len(lines), _LINES_PER_ROW):
            yield QuotedRow("", _prefixed(lines[start : start + _LINES_PER_ROW]))

    def _quote(self, text: str) -> str:
        return _prefixed(self._redact(text).split("\n"))

    def _line(self, text: str, max_chars: int) -> str:
        return truncate_line(sanitize_line(self._redact(text)), max_chars)


def _prefixed(lines: Sequence[str]) -> str:
    return "".join(f"| {sanitize(line)}\n" for line in lines)
