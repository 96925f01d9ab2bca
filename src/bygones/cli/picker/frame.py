"""What the picker looks like: how its parts share the screen, its styles, its first frame.

The first frame is painted before prompt_toolkit is imported, which takes longer than all
that comes before it: the newest sessions appear after half of the time. The arrangement
and the styles are those that prompt_toolkit uses afterwards.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, NamedTuple, Self

from bygones.cli.output import ANSI_CODES
from bygones.cli.picker.listing import FoundSessions
from bygones.cli.picker.rows import (
    Fragments,
    KeyLabel,
    key_fragments,
    row_fragments,
    state_line,
    wrap_keys,
)
from bygones.render.text.primitives import sanitize_line, truncate_end

_SIDE_BY_SIDE_WIDTH = 100
_MIN_HEIGHT_FOR_PREVIEW = 14
_KEY_ROWS = ((20, 3), (_MIN_HEIGHT_FOR_PREVIEW, 2), (0, 1))
"""Heights of screens from which there are so many lines of keys."""
_LINES_ABOVE = 2
"""The search and the line of state."""

STYLES = {
    **{str(style): codes for style, codes in ANSI_CODES.items()},
    "prompt-mark": "1;36",
    "pointer": "1;36",
    "selected": "7",
    "project": "36",
    "note": "33",
    "key": "1",
    "separator": "2",
}
"""Classes of texts, and their SGR codes: colors of the user's theme, light or dark."""
_COLOR_CODES = range(30, 50)

QUERY_KEYS = (
    KeyLabel("^r", "resume", "resume"),
    KeyLabel("^o", "browser", "open"),
    KeyLabel("^s", "star", "star"),
    KeyLabel("^t", "project/all", "scope"),
    KeyLabel("tab", "more keys", "focus"),
    KeyLabel("esc", "quit", "quit"),
)
LIST_KEYS = (
    KeyLabel("r", "resume", "resume"),
    KeyLabel("f", "fork", "fork"),
    KeyLabel("o", "browser", "open"),
    KeyLabel("y", "copy id", "copy"),
    KeyLabel("s", "star", "star"),
    KeyLabel("p", "project/all", "scope"),
    KeyLabel("t", "sort", "sort"),
    KeyLabel("a", "agents", "agents"),
    KeyLabel("/", "search", "focus"),
    KeyLabel("q", "quit", "quit"),
)
_OTHER_ACTIONS = {"resume", "fork", "open"}


class PickerOptions(NamedTuple):
    """How a picker starts."""

    action: str = "show"
    """What Enter does."""
    text: str = ""
    directory: str | None = None
    """The directory to which the list can be limited."""
    is_vi: bool = False
    is_colored: bool = True
    allows_actions: bool = True
    """Whether other actions than that of Enter are offered."""

    @property
    def directory_name(self) -> str:
        directory = self.directory or ""
        return os.path.basename(directory) or directory  # noqa: PTH119 (no file)

    def keys(self, labels: Sequence[KeyLabel]) -> list[KeyLabel]:
        """Return the keys that are offered, Enter first."""
        left_out = set() if self.allows_actions else _OTHER_ACTIONS
        enter = KeyLabel("enter", self.action, self.action)
        offered = [enter, *(one for one in labels if one.action not in left_out)]
        if self.is_vi:  # where Escape leaves insert mode
            return [one._replace(key=one.key.replace("esc", "^c")) for one in offered]
        return offered


class Arrangement(NamedTuple):
    """How the parts share a screen."""

    list_width: int
    list_height: int
    preview_width: int
    preview_height: int
    """Lines of the preview; 0 if there is no room for it."""
    is_beside: bool
    """Whether the preview is on the right of the list, and not below it."""
    keys: list[list[KeyLabel]]


def arrange(columns: int, rows: int, labels: Sequence[KeyLabel]) -> Arrangement:
    """Divide a screen: list and preview side by side if it is wide enough."""
    has_room = rows >= _MIN_HEIGHT_FOR_PREVIEW
    max_key_rows = next(count for least, count in _KEY_ROWS if rows >= least)
    keys = wrap_keys(labels, columns)[:max_key_rows]
    height = max(rows - _LINES_ABOVE - len(keys), 1)
    if columns >= _SIDE_BY_SIDE_WIDTH:
        left = (columns - 2) * 5 // 11
        right = columns - left - 2
        return Arrangement(left, height, right, height, is_beside=True, keys=keys)
    above = (height - 1) * 2 // 5 if has_room else height
    below = height - 1 - above if has_room else 0
    return Arrangement(columns, above, columns, below, is_beside=False, keys=keys)


class FirstFrame:
    """The first frame, on the terminal until prompt_toolkit paints over it.

    Keys that are typed meanwhile are not echoed, and are read later.
    """

    def __init__(
        self, found: FoundSessions, options: PickerOptions, now: datetime
    ) -> None:
        self._found = found
        self._options = options
        self._now = now
        self._attributes: list[Any] | None = None
        self._is_alternate_screen = False

    def __enter__(self) -> Self:
        if os.name != "nt":
            self._disable_echo()
            self._paint()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.restore()

    def hand_over(self) -> None:
        """Leave the screen to prompt_toolkit, which also leaves it."""
        self._is_alternate_screen = False

    def restore(self) -> None:
        """Restore the terminal; the second call does nothing."""
        if self._is_alternate_screen:
            self._is_alternate_screen = False
            self._write("\x1b[?1049l")
        if self._attributes is not None:
            import termios

            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, self._attributes)
            self._attributes = None

    def _disable_echo(self) -> None:
        import termios

        attributes = termios.tcgetattr(sys.stdin)
        self._attributes = [*attributes]
        # As prompt_toolkit does later; Ctrl-C is a key like others.
        attributes[0] &= ~(termios.ICRNL | termios.IXON)
        attributes[3] &= ~(
            termios.ECHO | termios.ICANON | termios.IEXTEN | termios.ISIG
        )
        termios.tcsetattr(sys.stdin, termios.TCSANOW, attributes)

    def _paint(self) -> None:
        columns, rows = os.get_terminal_size(sys.stdout.fileno())
        size = (columns, rows)
        lines = first_lines(self._found, self._options, size, self._now)
        self._is_alternate_screen = True
        painted = [
            f"\x1b[{number};1H{self._styled(line)}"
            for number, line in enumerate(lines, 1)
        ]
        self._write("\x1b[?1049h\x1b[2J" + "".join(painted) + "\x1b[1;3H")

    def _styled(self, line: Fragments) -> str:
        pieces = []
        for style, text in line:
            names = style.replace("class:", "").split()
            codes = ";".join(filter(None, (self._codes(name) for name in names)))
            pieces.append(f"\x1b[{codes}m{text}\x1b[0m" if codes else text)
        return "".join(pieces)

    def _codes(self, name: str) -> str:
        codes = STYLES.get(name, "")
        if self._options.is_colored:
            return codes
        kept = [code for code in codes.split(";") if int(code or 0) not in _COLOR_CODES]
        return ";".join(kept)

    @staticmethod
    def _write(text: str) -> None:
        encoding = sys.stdout.encoding or "utf-8"
        sys.stdout.flush()
        sys.stdout.buffer.write(text.encode(encoding, "replace"))
        sys.stdout.buffer.flush()


def first_lines(
    found: FoundSessions,
    options: PickerOptions,
    size: tuple[int, int],
    now: datetime,
) -> list[Fragments]:
    """Return the lines of the first frame, without a preview."""
    columns, rows = size
    parts = arrange(columns, rows, options.keys(QUERY_KEYS))
    text = truncate_end(sanitize_line(options.text), columns - 2)
    lines: list[Fragments] = [
        [("class:prompt-mark", "> "), ("", text)],
        state_line(
            found, directory_name=options.directory_name, status="", width=columns
        ),
    ]
    shown: list[Fragments] = [
        row_fragments(row, parts.list_width, now, is_selected=at == 0)
        for at, row in enumerate(found.rows[: parts.list_height])
    ]
    shown += [[] for _ in range(parts.list_height - len(shown))]
    if parts.is_beside:
        for line in shown:
            line.append(("", f"\x1b[{parts.list_width + 1}G"))
            line.append(("class:separator", "│"))
    lines += shown
    if not parts.is_beside and parts.preview_height:
        lines.append([("class:separator", "─" * columns)])
        lines += [[] for _ in range(parts.preview_height)]
    return lines + [key_fragments(row) for row in parts.keys]
