"""What can be wrong with a query, and where in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from bygones.errors.root import BygonesError, ExitCode

__all__ = [
    "FieldEmpty",
    "NotSummed",
    "Place",
    "QueryError",
    "QueryTooDeep",
    "QueryTooLong",
    "RegexRefused",
    "TimeUnreadable",
    "ValueUnknown",
]


class Place(NamedTuple):
    """Some characters of a query."""

    query: str
    at: int
    length: int


class QueryError(BygonesError):
    """A query asks for something that cannot be, at a place that it names."""

    exit_code = ExitCode.ASKED_WRONGLY
    margin: ClassVar[int] = 30
    """Characters before and behind the place that :attr:`pointed` shows."""
    width: ClassVar[int] = 100
    """Characters that it shows at most."""

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self.query, self.at, self.length = place

    @property
    def found(self) -> str:
        """What stands at the place."""
        return self.query[self.at : self.at + self.length]

    @property
    def pointed(self) -> str:
        """Two lines: the query around the place, and marks under the place."""
        first = max(0, self.at - self.margin)
        last = min(self.at + self.length + self.margin, first + self.width)
        shown = "".join(c if c.isprintable() else " " for c in self.query[first:last])
        marks = max(1, min(self.length, last - self.at))
        return f"{shown}\n{' ' * (self.at - first)}{'^' * marks}"

    @property
    def _told(self) -> str:
        cut = "…" if self.length > self.margin else ""
        return f"{self.found[: self.margin] + cut!r} at character {self.at + 1}"


class QueryTooLong(QueryError):
    """A query is longer than any that a person types."""

    hint = "search for a few words of it, or for one line in quotation marks"

    def __init__(self, query: str, limit: int) -> None:
        super().__init__(Place(query, limit, len(query) - limit))
        self.limit = limit

    def __str__(self) -> str:
        return f"a query has at most {self.limit:,} characters, not {len(self.query):,}"


class QueryTooDeep(QueryError):
    """Groups stand in groups more often than is allowed."""

    hint = (
        "leave out parentheses that are not needed, or put the text in quotation marks"
    )

    def __init__(self, place: Place, limit: int) -> None:
        super().__init__(place)
        self.limit = limit

    def __str__(self) -> str:
        return (
            f"the parenthesis at character {self.at + 1} is inside {self.limit} others"
        )


class FieldEmpty(QueryError):
    """A field has no value."""

    hint = "put a value right behind the colon, or \\ before the name to find the word"

    def __init__(self, place: Place, *, field: str, example: str) -> None:
        super().__init__(place)
        self.field = field
        self.example = example

    def __str__(self) -> str:
        return (
            f"{self.field}: at character {self.at + 1} has no value;"
            f" write it like {self.example}"
        )


class ValueUnknown(QueryError):
    """A field that has only a few values was given another one."""

    hint = "`bygones help query` lists the fields and their values"

    def __init__(
        self, place: Place, *, field: str, known: Sequence[str], meant: str = ""
    ) -> None:
        super().__init__(place)
        self.field = field
        self.known = known
        self.meant = meant

    def __str__(self) -> str:
        meant = f"; did you mean {self.meant}?" if self.meant else ""
        return (
            f"{self._told} is no value of {self.field}:,"
            f" which has {', '.join(self.known)}{meant}"
        )


class TimeUnreadable(QueryError):
    """The value of a field of times is none."""

    hint = 'times are like 2025-12-01, 2025-12, 3h, 2d, yesterday, "last week"'

    def __init__(self, place: Place, *, field: str) -> None:
        super().__init__(place)
        self.field = field

    def __str__(self) -> str:
        return f"{self._told} is no time that {self.field}: can use"


class RegexRefused(QueryError):
    """A regular expression is wrong, or could take for ever."""

    hint = "put the text in quotation marks to find it as it stands"

    def __init__(self, place: Place, *, detail: str) -> None:
        super().__init__(place)
        self.detail = detail

    def __str__(self) -> str:
        return f"the regular expression fails at character {self.at + 1}: {self.detail}"


class NotSummed(QueryError):
    """A query asks usage for what is known of texts only."""

    hint = (
        "project, session, title, tag, git and times work here; unless by tool also"
        " model, entrypoint, agent and branch"
    )

    def __init__(self, asked: str, grouping: str = "") -> None:
        super().__init__(Place(asked, 0, len(asked)))
        self.grouping = grouping

    def __str__(self) -> str:
        behind = f" by {self.grouping}" if self.grouping else ""
        return f"usage{behind} cannot be limited to {self.found!r}"
