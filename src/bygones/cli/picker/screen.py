"""The picker on the terminal: a query, the sessions that it finds, and a preview."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace
from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.data_structures import Point
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.filters import Condition, has_focus, vi_navigation_mode
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.layout import (
    BufferControl,
    ConditionalContainer,
    DynamicContainer,
    FormattedTextControl,
    HSplit,
    Layout,
    UIContent,
    UIControl,
    VSplit,
    Window,
)
from prompt_toolkit.layout.dimension import Dimension
from prompt_toolkit.mouse_events import MouseEvent, MouseEventType
from prompt_toolkit.output import ColorDepth, create_output
from prompt_toolkit.styles import Style as PromptStyle

from bygones.cli.picker.clipboard import copy_text
from bygones.cli.picker.frame import (
    LIST_KEYS,
    QUERY_KEYS,
    STYLES,
    Arrangement,
    FirstFrame,
    PickerOptions,
    arrange,
)
from bygones.cli.picker.listing import (
    PAGE_SIZE,
    FoundSession,
    FoundSessions,
    PickerQuery,
)
from bygones.cli.picker.lookup import (
    Answer,
    BackgroundFinder,
    Preview,
    PreviewRequest,
    SessionFinder,
    with_star,
)
from bygones.cli.picker.new_data import NewDataCheck
from bygones.cli.picker.rows import (
    Fragments,
    fragments,
    key_fragments,
    row_fragments,
    state_line,
)
from bygones.cli.signals import stopped_by_signals
from bygones.model.summary import Annotations
from bygones.render.text.primitives import SpanStyle

if TYPE_CHECKING:
    from prompt_toolkit.formatted_text import StyleAndTextTuples
    from prompt_toolkit.key_binding import KeyPressEvent
    from prompt_toolkit.key_binding.key_bindings import NotImplementedOrNone

    from bygones.cli.open_archive import OpenedArchive

_SORTS = ("best", "newest", "oldest")
_WHEEL_LINES = 3
_MIN_WINDOW_WIDTH = 2
_MAX_ECHO_SECONDS = 0.03
"""How long a key waits for its results before it is painted without them."""
_ESCAPE_SECONDS = 0.05
_KEY_SEQUENCE_SECONDS = 0.3
_NAMES_OF_CODES = {
    "1": "bold",
    "2": "dim",
    "3": "italic",
    "7": "reverse",
    "9": "strike",
    "30": "ansiblack",
    "31": "ansired",
    "32": "ansigreen",
    "33": "ansiyellow",
    "34": "ansiblue",
    "35": "ansimagenta",
    "36": "ansicyan",
    "43": "bg:ansiyellow",
}
"""What prompt_toolkit calls the SGR codes of the styles."""


def _style() -> PromptStyle:
    styles = {
        name: " ".join(_NAMES_OF_CODES[code] for code in codes.split(";"))
        for name, codes in STYLES.items()
    }
    # A match is visible in the selected row, too, which is reversed.
    styles[SpanStyle.MATCH] = f"noreverse {styles[SpanStyle.MATCH]}"
    return PromptStyle.from_dict(styles)


class PickedSession(NamedTuple):
    """The session that was chosen, and what to do with it."""

    action: str
    session_id: str
    query: str = ""
    """What was searched for, as `show --find` takes it."""


class _PickerApplication(Application["PickedSession | None"]):
    """Paints a key together with its results if they come soon.

    Painting takes as long as a search, and would compete with it.
    """

    _is_postponing = False

    def postpone_painting(self) -> None:
        """Paint nothing until the results are there, but not for long."""
        if self.loop is not None and not self._is_postponing:
            self._is_postponing = True
            self.loop.call_later(_MAX_ECHO_SECONDS, self._paint)

    def stop_postponing(self) -> None:
        self._is_postponing = False

    def invalidate(self) -> None:
        """Paint the screen again, soon."""
        if not self._is_postponing:
            super().invalidate()

    def _paint(self) -> None:
        if self._is_postponing:
            self.stop_postponing()
            self.invalidate()


class Picker:
    """Lets the user choose a session."""

    def __init__(
        self,
        opened: OpenedArchive,
        options: PickerOptions,
        found: FoundSessions,
        first_frame: FirstFrame,
    ) -> None:
        self._archive = archive = opened.archive
        self._first_frame = first_frame
        self._options = options
        self._now = datetime.now(UTC)  # noqa: TID251 (an interface reads the clock)
        self._query = found.query
        self._local_finder = SessionFinder(archive)
        self._found = found
        self._answered = PickerQuery() if found.is_pending else found.query
        self._waiting_action = ""
        """What Enter will do when the newest query has been answered."""
        self._is_last_wanted = False
        """Whether the last row is to be selected then."""
        self._drawn: dict[tuple[str, int, bool], Fragments] = {}
        self._drawn_of = found
        self._selected = 0
        self._top = 0
        self._preview: Preview | None = None
        self._preview_top = 0
        self._requested: PreviewRequest | None = None
        self._status = ""
        self._output = create_output()
        self._buffer = Buffer(multiline=False)
        self._list_window = Window(
            _LinesControl(self.list_lines, self.move, self.select),
            height=lambda: Dimension.exact(self._arranged().list_height),
        )
        self._input_window = Window(
            BufferControl(self._buffer, focus_on_click=True),
            width=lambda: Dimension.exact(max(self._columns() - 2, 1)),
            height=1,
        )
        self._layout: Layout | None = None
        self._app = self._make_application()
        self._layout = self._app.layout
        self._finder = BackgroundFinder(archive.folder, self._receive)
        self._new_data = NewDataCheck(opened)
        self._buffer.text = options.text
        self._buffer.cursor_position = len(options.text)
        self._buffer.on_text_changed += self._text_changed

    def run(self) -> PickedSession | None:
        """Return the choice; none if the user quits.

        The next run starts as this one ended.
        """
        self._finder = BackgroundFinder(self._archive.folder, self._receive)
        self._requested, self._status, self._waiting_action = None, "", ""
        self._first_frame.hand_over()
        try:
            with stopped_by_signals(self._quit_at_signal, "SIGTERM") as received:
                picked = self._app.run(pre_run=self._start_lookups)
        finally:
            self._first_frame.restore()
            self._new_data.stop()
            self._finder.stop()
        for number in received[:1]:
            signal.raise_signal(number)
        return picked

    def _quit_at_signal(self) -> None:
        """Quit, so that the terminal is as it was before the picker."""
        if self._app.loop is not None:
            self._app.loop.call_soon_threadsafe(self.act, "quit")

    # What is shown.

    def _make_application(self) -> _PickerApplication:
        mark = Window(
            FormattedTextControl([("class:prompt-mark", "> ")]), width=2, height=1
        )
        state = Window(FormattedTextControl(self._state_fragments), height=1)
        keys = Window(
            FormattedTextControl(self._key_fragments),
            height=lambda: Dimension.exact(len(self._arranged().keys)),
        )
        # Exact sizes: prompt_toolkit shares out others column by column.
        preview = Window(
            _LinesControl(self.preview_lines, self.scroll_preview),
            width=lambda: Dimension.exact(self._arranged().preview_width),
            height=lambda: Dimension.exact(self._arranged().preview_height),
        )
        rule = Window(height=1, char="─", style="class:separator")
        has_room = Condition(lambda: self._arranged().preview_height > 0)
        stacked = HSplit(
            [
                self._list_window,
                ConditionalContainer(HSplit([rule, preview]), filter=has_room),
            ]
        )
        column = Window(width=1, char="│", style="class:separator")
        gap = Window(width=1)
        left = HSplit(
            [self._list_window],
            width=lambda: Dimension.exact(self._arranged().list_width),
        )
        beside = VSplit([left, column, gap, preview])
        body = DynamicContainer(
            lambda: beside if self._arranged().is_beside else stacked
        )
        content = HSplit([VSplit([mark, self._input_window]), state, body, keys])
        application = _PickerApplication(
            layout=Layout(content, focused_element=self._input_window),
            key_bindings=self._make_bindings(),
            style=_style(),
            output=self._output,
            full_screen=True,
            mouse_support=True,
            editing_mode=EditingMode.VI if self._options.is_vi else EditingMode.EMACS,
            color_depth=None if self._options.is_colored else ColorDepth.DEPTH_1_BIT,
        )
        application.ttimeoutlen = _ESCAPE_SECONDS
        application.timeoutlen = _KEY_SEQUENCE_SECONDS
        return application

    def _columns(self) -> int:
        return self._output.get_size().columns

    def _arranged(self) -> Arrangement:
        layout = self._layout
        is_list = layout is not None and layout.has_focus(self._list_window)
        labels = self._options.keys(LIST_KEYS if is_list else QUERY_KEYS)
        size = self._output.get_size()
        return arrange(size.columns, size.rows, labels)

    def _state_fragments(self) -> StyleAndTextTuples:
        line = state_line(
            self._found,
            directory_name=self._options.directory_name,
            status=self._status or self._new_data.status,
            width=self._columns(),
        )
        return [*line]

    def _key_fragments(self) -> StyleAndTextTuples:
        pieces: StyleAndTextTuples = []
        for number, row in enumerate(self._arranged().keys):
            pieces += [("", "\n")] if number else []
            for label in row:
                handler = partial(self._clicked_key, label.action)
                pieces += [
                    (style, text, handler) for style, text in key_fragments([label])
                ]
        return pieces

    def list_lines(self, width: int, height: int) -> list[Fragments]:
        """Return the visible rows, of which the selected one is visible."""
        rows = self._found.rows
        if not rows:
            text = "no sessions found" if self._query.text else "no sessions yet"
            text = "" if self._found.is_pending else text
            return [[("class:fact", f"  {text}")]]
        self._top = max(min(self._top, self._selected), self._selected - height + 1)
        self._top = max(min(self._top, len(rows) - height), 0)
        shown = rows[self._top : self._top + height]
        return [
            self._row_lines(row, width, is_selected=at == self._selected)
            for at, row in enumerate(shown, self._top)
        ]

    def _row_lines(
        self, row: FoundSession, width: int, *, is_selected: bool
    ) -> Fragments:
        """Return a row; it is the same in most frames."""
        key = (row.summary.id, width, is_selected)
        if self._drawn_of is not self._found:
            self._drawn, self._drawn_of = {}, self._found
        if key not in self._drawn:
            self._drawn[key] = row_fragments(
                row, width, self._now, is_selected=is_selected
            )
        return self._drawn[key]

    def preview_lines(self, width: int, height: int) -> list[Fragments]:
        """Return the visible lines of the preview, and request it if it is missing."""
        self._request_preview(width)
        preview, row = self._preview, self._current
        if preview is None or row is None:
            return []
        if preview.request.session_id != row.summary.id:
            return []
        last = max(len(preview.lines) - height, 0)
        self._preview_top = min(self._preview_top, last)
        shown = preview.lines[self._preview_top : self._preview_top + height]
        return [fragments(line) for line in shown]

    # Requests and answers.

    def _start_lookups(self) -> None:
        """Start the other threads, now that their answers can be passed on."""
        self._finder.start()
        if self._found.is_pending:
            self._finder.request_sessions(self._query)
        self._new_data.start(self._receive_status)

    @property
    def _current(self) -> FoundSession | None:
        rows = self._found.rows
        return rows[self._selected] if self._selected < len(rows) else None

    def _text_changed(self, _buffer: Buffer) -> None:
        if self._buffer.text != self._query.text:
            self._search(replace(self._query, text=self._buffer.text, limit=PAGE_SIZE))

    def _search(self, query: PickerQuery) -> None:
        self._query, self._status = query, ""
        self._waiting_action, self._is_last_wanted = "", False
        self._app.postpone_painting()
        self._finder.request_sessions(query)

    def _request_preview(self, width: int) -> None:
        row = self._current
        if row is None or width < _MIN_WINDOW_WIDTH:
            return
        request = PreviewRequest(self._found.query, row.summary.id, width)
        if request != self._requested:
            self._requested = request
            self._finder.request_preview(request)

    def _receive(self, answer: Answer | Exception) -> None:
        """Pass an answer of the other thread to this one."""
        if self._app.loop is not None:
            self._app.loop.call_soon_threadsafe(self._accept_answer, answer)

    def _receive_status(self, *, is_changed: bool) -> None:
        """Show in this thread the status of the check for new data."""
        if self._app.loop is not None:
            self._app.loop.call_soon_threadsafe(self._show_new_data, is_changed)

    def _show_new_data(self, is_changed: bool) -> None:
        if is_changed:
            self._archive.refresh()
            self._finder.refresh()
            self._requested = None
            self._finder.request_sessions(self._query)
        self._app.invalidate()

    def _accept_answer(self, answer: Answer | Exception) -> None:
        if isinstance(answer, Exception):
            if self._app.is_running:
                self._app.exit(exception=answer)
            return
        if isinstance(answer, Preview):
            if answer.request == self._requested:
                self._preview, self._preview_top = answer, 0
        elif answer.query == self._query:
            self._answered = answer.query
            is_same = replace(answer.query, limit=0) == replace(
                self._found.query, limit=0
            )
            if answer.is_invalid and not self._found.is_pending:
                # Half a field: what was found before stays until it is complete.
                self._found = replace(self._found, note=answer.note)
            else:
                self._selected = self._find_again(answer) if is_same else 0
                self._found = answer
                if self._is_last_wanted:
                    self._selected = max(len(answer.rows) - 1, 0)
                    self._is_last_wanted = False
            action, self._waiting_action = self._waiting_action, ""
            if action:
                self._choose(action)
            self._app.stop_postponing()
        self._app.invalidate()

    def _find_again(self, answer: FoundSessions) -> int:
        """Return where the selected session is in a newer answer.

        The first row stays selected: a session that is new has become the newest.
        """
        row = self._current
        if row is None or self._selected == 0:
            return 0
        ids = [one.summary.id for one in answer.rows]
        return ids.index(row.summary.id) if row.summary.id in ids else 0

    # What keys and the mouse do.

    def _make_bindings(self) -> KeyBindings:
        keys = KeyBindings()
        in_list = has_focus(self._list_window)
        in_query = has_focus(self._input_window)
        is_vi = Condition(lambda: self._options.is_vi)

        def bind(names: Sequence[str], action: str, **options: object) -> None:
            def run(_event: KeyPressEvent) -> None:
                self.act(action)

            for name in names:
                keys.add(*name.split(), **options)(run)  # type: ignore[arg-type]

        bind(["enter"], self._options.action, eager=True)
        bind(["c-c", "c-g", "<sigint>"], "quit", eager=True)
        bind(["escape"], "quit", filter=~is_vi | in_list)
        bind(["q"], "quit", filter=in_list | (is_vi & vi_navigation_mode))
        bind(["tab"], "focus")
        bind(["/", "i"], "focus", filter=in_list)
        bind(["up", "c-p"], "up")
        bind(["down", "c-n"], "down")
        vi_moves = in_list | (is_vi & vi_navigation_mode)
        bind(["k"], "up", filter=vi_moves)
        bind(["j"], "down", filter=vi_moves)
        bind(["g", "home"], "first", filter=in_list)
        bind(["G", "end"], "last", filter=in_list)
        bind(["pageup"], "page-up")
        bind(["pagedown"], "page-down")
        bind(["s-up", "escape p"], "preview-up")
        bind(["s-down", "escape n"], "preview-down")
        bind(["K"], "preview-up", filter=in_list)
        bind(["J", "space"], "preview-down", filter=in_list)
        bind(["c-r"], "resume", eager=True)
        bind(["c-o"], "open", eager=True)
        bind(["c-s"], "star", eager=True)
        bind(["c-t"], "scope", eager=True)
        for label in LIST_KEYS:
            if label.action not in {"focus", "quit"}:
                bind([label.key], label.action, filter=in_list)
        keys.add("c-d", filter=in_query)(self._delete_or_quit)
        keys.add("c-z")(lambda event: event.app.suspend_to_background())
        keys.add("c-l")(lambda event: event.app.renderer.clear())
        return keys

    def _delete_or_quit(self, _event: KeyPressEvent) -> None:
        if self._buffer.text:
            self._buffer.delete()
        else:
            self.act("quit")

    def _clicked_key(self, action: str, event: MouseEvent) -> NotImplementedOrNone:
        if event.event_type is not MouseEventType.MOUSE_UP:
            return NotImplemented
        self.act(action)
        return None

    def act(self, action: str) -> None:
        """Do what a key or a click means."""
        steps: dict[str, Callable[[], None]] = {
            "quit": partial(self._app.exit, result=None),
            "focus": self._switch_focus,
            "up": partial(self.move, -1),
            "down": partial(self.move, 1),
            "page-up": partial(self.move, -self._page()),
            "page-down": partial(self.move, self._page()),
            "first": partial(self.move, -len(self._found.rows)),
            "last": self._select_last,
            "preview-up": partial(self.scroll_preview, -_WHEEL_LINES),
            "preview-down": partial(self.scroll_preview, _WHEEL_LINES),
            "star": self._toggle_star,
            "copy": self._copy_id,
            "scope": self._toggle_scope,
            "sort": self._change_sort,
            "agents": self._toggle_agents,
        }
        if action in steps:
            steps[action]()
        elif action == self._options.action or self._options.allows_actions:
            self._choose(action)

    def _page(self) -> int:
        info = self._list_window.render_info
        return max(info.window_height - 1, 1) if info else 1

    def move(self, count: int) -> None:
        """Select another row; more are looked up at the end of the list."""
        last = len(self._found.rows) - 1
        self._selected = max(min(self._selected + count, last), 0)
        self._status = ""
        if self._selected >= last and len(self._found.rows) < self._found.count:
            query = self._found.query
            if query == self._query and query.limit <= len(self._found.rows):
                self._search(replace(query, limit=query.limit * 2))

    def _select_last(self) -> None:
        """Select the last row, after looking up all of them."""
        query, count = self._found.query, self._found.count
        if len(self._found.rows) < count and query == self._query:
            self._search(replace(query, limit=count))
            self._is_last_wanted = True
        else:
            self.move(len(self._found.rows))

    def select(self, line: int) -> None:
        """Select the row that was clicked; a second click chooses it."""
        row = self._top + line
        if row >= len(self._found.rows):
            return
        if row == self._selected:
            self._choose(self._options.action)
        self._selected = row

    def scroll_preview(self, count: int) -> None:
        self._preview_top = max(self._preview_top + count, 0)

    def _switch_focus(self) -> None:
        layout = self._app.layout
        is_list = layout.has_focus(self._list_window)
        layout.focus(self._input_window if is_list else self._list_window)

    def _choose(self, action: str) -> None:
        if self._answered != self._query:
            # What is on the screen is not what was typed.
            self._waiting_action = action
            return
        row = self._current
        if row is None or self._app.future is None or self._app.future.done():
            return
        text = self._local_finder.find_text(self._found.query)
        self._app.exit(result=PickedSession(action, str(row.summary.id), text))

    def _toggle_star(self) -> None:
        row = self._current
        if row is None:
            return
        is_starred = not row.summary.is_starred

        def change(old: Annotations) -> Annotations:
            return replace(old, is_starred=is_starred)

        self._archive.annotate([row.summary.id], change)
        rows = list(self._found.rows)
        rows[self._selected] = with_star(row, is_starred=is_starred)
        self._found = replace(self._found, rows=tuple(rows))
        self._status = "starred" if is_starred else "star removed"
        self._requested = None
        self._finder.refresh()

    def _copy_id(self) -> None:
        row = self._current
        if row is not None:
            copy_text(str(row.summary.id), self._output.write_raw)
            self._output.flush()
            self._status = f"copied {row.summary.id}"

    def _toggle_scope(self) -> None:
        if self._options.directory is None:
            self._status = "the current directory no longer exists"
            return
        is_limited = self._query.directory is not None
        directory = None if is_limited else self._options.directory
        self._search(replace(self._query, directory=directory, limit=PAGE_SIZE))

    def _change_sort(self) -> None:
        sorts = _SORTS if self._query.text else _SORTS[1:]
        at = sorts.index(self._query.sort) if self._query.sort in sorts else 0
        sort = sorts[(at + 1) % len(sorts)]
        self._search(replace(self._query, sort=sort, limit=PAGE_SIZE))

    def _toggle_agents(self) -> None:
        include = not self._query.include_agents
        self._search(replace(self._query, include_agents=include, limit=PAGE_SIZE))


class _LinesControl(UIControl):
    """Lines that are made for the size of their window; the wheel scrolls them."""

    def __init__(
        self,
        make_lines: Callable[[int, int], list[Fragments]],
        scroll: Callable[[int], None],
        click: Callable[[int], None] | None = None,
    ) -> None:
        self._make_lines = make_lines
        self._scroll = scroll
        self._click = click

    def is_focusable(self) -> bool:
        return self._click is not None

    def create_content(self, width: int, height: int) -> UIContent:
        lines = self._make_lines(width, height)
        return UIContent(
            get_line=lambda number: lines[number],  # type: ignore[arg-type,return-value]
            line_count=len(lines),
            cursor_position=Point(0, 0),
            show_cursor=False,
        )

    def mouse_handler(self, mouse_event: MouseEvent) -> NotImplementedOrNone:
        kind = mouse_event.event_type
        if kind is MouseEventType.SCROLL_UP:
            self._scroll(-_WHEEL_LINES)
        elif kind is MouseEventType.SCROLL_DOWN:
            self._scroll(_WHEEL_LINES)
        elif kind is MouseEventType.MOUSE_UP and self._click is not None:
            self._click(mouse_event.position.y)
        else:
            return NotImplemented
        return None
