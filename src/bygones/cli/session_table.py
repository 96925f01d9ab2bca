"""Sessions below each other, in columns that a terminal has room for."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from bygones.cli.terminal import fit_right, width
from bygones.render.figures import price, tokens
from bygones.render.safe import safe_line, safe_name

if TYPE_CHECKING:
    from bygones.cli.screen import Screen
    from bygones.model.ids import SessionId
    from bygones.model.listing import Listed
    from bygones.model.usage import Cost

__all__ = ["SessionTable", "model_name"]

_TITLE = 32
"""The least room for a title before columns are left out."""
_NARROW = 20
_SHORT_ID = 8
_DATED = r"-\d{8}$"


class _Column(NamedTuple):
    name: str
    text: Callable[[Listed], str]
    rank: int
    """Columns of a high rank are left out first."""
    is_right: bool = False


class SessionTable(NamedTuple):
    """How to set a list: for a terminal of some width, or whole."""

    screen: Screen
    costs: Mapping[SessionId, Cost] = {}

    def lines(self, sessions: Sequence[Listed]) -> list[str]:
        """Return a heading and a line for each session."""
        columns = [
            (column, self._cells(column, sessions)) for column in self._columns()
        ]
        columns = [(c, cells) for c, cells in columns if any(cells[1:])]
        titles = ["TITLE", *(_title(one) for one in sessions)]
        # By its id a session is named: where there is room for little, that stays.
        while columns and self._left(columns) < (_TITLE if len(columns) > 1 else 1):
            columns.remove(max(columns, key=lambda pair: pair[0].rank))
        if self.screen.room is not None:
            left = max(self._left(columns), 1)
            titles = [fit_right(title, left) for title in titles]
        return [
            self._line(number, columns, titles) for number in range(len(sessions) + 1)
        ]

    def _columns(self) -> tuple[_Column, ...]:
        return (
            _Column("SESSION", lambda one: _short(one.id), 0),
            _Column("WHEN", lambda one: self.screen.when(one.ended), 1),
            _Column("PROJECT", lambda one: _name(one.project), 2),
            _Column("MSGS", _messages, 4, is_right=True),
            _Column("AGENTS", lambda one: _some(one.agents), 5, is_right=True),
            _Column("BRANCHES", lambda one: _some(one.branches, 1), 6, is_right=True),
            _Column("MODEL", _models, 7),
            _Column("TOKENS", _tokens, 8, is_right=True),
            _Column("COST", self._cost, 3, is_right=True),
        )

    def _cost(self, one: Listed) -> str:
        return price(self.costs.get(one.id)) if one.usage.total else ""

    def _cells(self, column: _Column, sessions: Sequence[Listed]) -> list[str]:
        cells = [column.name, *(safe_line(column.text(one)) for one in sessions)]
        if self.screen.room is None or column.name not in {"PROJECT", "MODEL"}:
            return cells
        return [fit_right(cell, _NARROW) for cell in cells]

    def _left(self, columns: Sequence[tuple[_Column, list[str]]]) -> int:
        if self.screen.room is None:
            return _TITLE
        return self.screen.room - sum(
            max(map(width, cells)) + 2 for _, cells in columns
        )

    def _line(
        self,
        number: int,
        columns: Sequence[tuple[_Column, list[str]]],
        titles: Sequence[str],
    ) -> str:
        parts = []
        for column, cells in columns:
            blank = " " * (max(map(width, cells)) - width(cells[number]))
            cell = cells[number]
            parts.append(blank + cell if column.is_right else cell + blank)
        line = "  ".join((*parts, titles[number]))
        if number == 0:
            return self.screen.paint.faint(line)
        parts[:1] = map(self.screen.paint.place, parts[:1])
        return "  ".join((*parts, self.screen.paint.heading(titles[number])))


def _title(one: Listed) -> str:
    star = "★ " if one.is_starred else ""
    tags = "".join(f" #{tag}" for tag in one.tags)
    return safe_line(f"{star}{one.title.text}{tags}")


def _short(id_: str) -> str:
    return safe_name(id_[:_SHORT_ID])


def _name(path: str | None) -> str:
    return PurePosixPath(path.replace("\\", "/")).name or path if path else ""


def _some(number: int, usual: int = 0) -> str:
    return f"{number:,}" if number > usual else ""


def _messages(one: Listed) -> str:
    return f"{one.prompts}/{one.messages}"


def _tokens(one: Listed) -> str:
    return tokens(one.usage.total) if one.usage.total else ""


def _models(one: Listed) -> str:
    names = [model_name(model) for model in one.models]
    return f"{names[0]} +{len(names) - 1}" if len(names) > 1 else "".join(names)


def model_name(model: str) -> str:
    """Return a model's name without what all of them have."""
    return re.sub(_DATED, "", model.removeprefix("claude-"))
