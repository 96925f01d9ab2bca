"""Errors in a query, with their position."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from bygones.errors.base import BygonesError, ExitCode


class QuerySpan(NamedTuple):
    """A range of characters in a query."""

    query: str
    offset: int
    length: int


class QueryError(BygonesError):
    """A query is invalid at a position."""

    span: QuerySpan

    exit_code = ExitCode.USAGE_ERROR
    context_width: ClassVar[int] = 30
    """Characters before and after the span that `marked_excerpt` shows."""
    max_width: ClassVar[int] = 100
    """Width of `marked_excerpt` at most."""

    @property
    def text(self) -> str:
        """The invalid part of the query."""
        query, offset, length = self.span
        return query[offset : offset + length]

    @property
    def marked_excerpt(self) -> str:
        """Two lines: the query around the span, and marks below the span."""
        query, offset, length = self.span
        first = max(0, offset - self.context_width)
        last = min(offset + length + self.context_width, first + self.max_width)
        shown = "".join(c if c.isprintable() else " " for c in query[first:last])
        marks = max(1, min(length, last - offset))
        return f"{shown}\n{' ' * (offset - first)}{'^' * marks}"

    @property
    def _character(self) -> int:
        return self.span.offset + 1

    @property
    def _quoted(self) -> str:
        cut = "…" if self.span.length > self.context_width else ""
        quoted = self.text[: self.context_width] + cut
        return f"{quoted!r} at character {self._character}"


class QueryTooLong(QueryError):
    """A query exceeds the maximum length."""

    hint = "search for a few words of it, or for one line in quotation marks"

    def __init__(self, query: str, limit: int) -> None:
        super().__init__(QuerySpan(query, limit, len(query) - limit))
        self.limit = limit

    def __str__(self) -> str:
        length = len(self.span.query)
        return (
            f"the query has {length:,} characters; at most {self.limit:,} are allowed"
        )


class QueryTooDeep(QueryError):
    """Groups are nested too deeply."""

    limit: int

    message = (
        "the parenthesis at character {self._character} is nested more than"
        " {self.limit} deep"
    )
    hint = (
        "leave out parentheses that are not needed, or put the text in quotation marks"
    )


class MissingFieldValue(QueryError):
    """A field of a query has no value."""

    field: str
    example: str

    message = (
        "{self.field}: at character {self._character} has no value;"
        " write it like {self.example}"
    )
    hint = "put a value after the colon, or \\ before the name to search for the word"


class InvalidFieldValue(QueryError):
    """A field that allows a few values was given another one."""

    field: str
    allowed_values: Sequence[str]
    suggestion: str = ""

    hint = "`bygones help query` lists the fields and their values"

    def __str__(self) -> str:
        suggestion = f"; did you mean {self.suggestion}?" if self.suggestion else ""
        return (
            f"{self._quoted} is not a value of {self.field}:;"
            f" use {', '.join(self.allowed_values)}{suggestion}"
        )


class InvalidTime(QueryError):
    """The value of a time field is not a time."""

    field: str

    message = "{self._quoted} is not a valid time for {self.field}:"
    hint = 'use 2025-12-01, 2025-12, 3h, 2d, yesterday or "last week"'


class InvalidRegex(QueryError):
    """A regular expression is invalid, or could take too long."""

    detail: str

    message = "the regular expression is invalid at character {self._character}: {self.detail}"
    hint = "put the text in quotation marks to search for it literally"


class UngroupableField(QueryError):
    """Usage cannot be filtered by a field that only texts have."""

    hint = (
        "filter by project, session, title, tag, git or time, and (except with --by tool)"
        " by model, entrypoint, agent or branch"
    )

    def __init__(self, term: str, grouping: str = "") -> None:
        super().__init__(QuerySpan(term, 0, len(term)))
        self.grouping = grouping

    def __str__(self) -> str:
        grouped = f" by {self.grouping}" if self.grouping else ""
        return f"usage{grouped} cannot be filtered by {self.text!r}"


class UnknownGrouping(BygonesError, ValueError):
    """Usage is to be grouped by something unknown."""

    grouping: str

    message = "usage cannot be grouped by {self.grouping!r}"
    hint = "`bygones usage --help` lists the groupings after --by"
    exit_code = ExitCode.USAGE_ERROR


class SqlError(BygonesError):
    """An SQL query is invalid."""

    detail: str

    message = "SQL: {self.detail}"
    hint = "`bygones sql --schema` lists the views and their columns"
    exit_code = ExitCode.USAGE_ERROR


class SqlForbidden(SqlError):
    """An SQL query does something else than reading the views."""

    message = "SQL: {self.detail} is not allowed"
    hint = "write one SELECT over the views that `bygones sql --schema` lists"


class SqlLimitExceeded(BygonesError):
    """An SQL query took too long, or needed too much memory."""

    limit: str

    message = "the query needs more than {self.limit}"
    hint = "add a WHERE or LIMIT, leave out text columns, or raise the limit"
