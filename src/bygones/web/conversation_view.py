"""One branch of a conversation for the web interface: windows, positions and an outline.

Computed values are cached with the open session. Images are loaded one by one: the
renderer embeds them as data URLs, for exported pages; here each of them becomes a URL
that contains its hash, so that browsers can keep it. The media type comes from the first
bytes; data of an unknown type is only named.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from functools import partial
from hashlib import blake2b
from html import escape
from typing import NamedTuple

from msgspec import Struct, structs

from bygones.archive import Archive
from bygones.errors import NotInArchive
from bygones.model.base import Position
from bygones.model.conversations import (
    BranchSummary,
    Conversation,
    ConversationHeader,
    MessageWindow,
)
from bygones.model.nodes import ChangedFile
from bygones.model.sessions import AgentRun, Message, ToolCall, Turn, walk_agents
from bygones.render.html.markup import Html, make_element_id
from bygones.render.html.session import (
    HtmlFragment,
    HtmlOptions,
    render_steps,
    render_window_fragments,
)
from bygones.render.html.tool_calls import detect_image_type
from bygones.render.numbers import pluralize
from bygones.render.walk import MessageStep, TurnStart, WalkStep, walk_window
from bygones.web.layout import conversation_url
from bygones.web.pool import OpenSession

MAX_ASSEMBLED_MESSAGES = 20_000
"""Sessions with more messages are not assembled as a whole."""
WINDOW_SIZE = 16
"""Messages that a page loads at once."""
MAX_FIRST_MESSAGES = 8
"""Messages that a page contains at most; scripts load the others."""
MAX_PRICED_MESSAGES = 4_096
"""A page does not show the cost of a turn with more messages after its first ones."""
SCREEN_CHARS = 2_600
"""Characters of HTML that fill a screen, without what is folded."""
_LINE_CHARS = 150
"""Characters of HTML for which a line is high enough, such as that of a folded call."""
_FOLDED = re.compile(r'<details class="[^"]*"(?: id="[^"]*")?>')
_MAX_LABEL = 160
_BATCH_SIZE = 256
"""Messages that are read at once if more than a window is needed."""
_MAX_CACHED_WINDOWS = 160
_ANCHOR = re.compile(r"[mca]-(.+)", re.DOTALL)
_HASHED_ANCHOR = re.compile(r"[mca]-[0-9a-f]{24}")


class OutlineEntryKind(StrEnum):
    PROMPT = "prompt"
    AGENT = "agent"
    COMPACTION = "compaction"
    EDIT = "edit"
    ERROR = "error"


class OutlineEntry(Struct, frozen=True):
    kind: OutlineEntryKind
    message_number: int
    anchor: str
    text: str


class ConversationView:
    """One branch of a session, or of an agent run in it."""

    def __init__(
        self, open_session: OpenSession, conversation: Conversation, branch: int
    ) -> None:
        self.open_session = open_session
        self.facts: ConversationHeader = conversation.facts
        summary = self.facts.find_branch(branch)
        if summary is None:
            raise NotInArchive("branch", str(branch))
        self.branch: BranchSummary = summary
        self.conversation = conversation
        self._message_numbers: dict[str, int] | None = None
        self._outline: tuple[OutlineEntry, ...] | None = None
        self._record_locations: dict[int, tuple[int, str]] | None = None
        self._own_record_locations: dict[int, tuple[int, str]] | None = None
        self._window_cache: dict[int, Html] = {}

    @property
    def message_count(self) -> int:
        return self.branch.message_count

    def load_window(self, start: int, stop: int) -> MessageWindow:
        return self.conversation.window(self.branch.number, start, stop)

    def iter_windows(self) -> Iterator[MessageWindow]:
        """Yield all messages in windows."""
        for start in range(0, max(self.message_count, 1), _BATCH_SIZE):
            yield self.load_window(start, start + _BATCH_SIZE)

    def iter_messages(self) -> Iterator[tuple[int, Message]]:
        """Yield all messages with their numbers."""
        return iter(self.conversation.messages(self.branch.number))

    def iter_turns(self) -> Iterator[Turn]:
        """Yield the turns, complete with all their messages."""
        last: Turn | None = None
        for window in self.iter_windows():
            for at, turn in enumerate(window.turns):
                if last is not None and window.is_first_turn_partial and not at:
                    messages = (*last.messages, *turn.messages)
                    last = structs.replace(last, messages=messages)
                    continue
                if last is not None:
                    yield last
                last = turn
        if last is not None:
            yield last

    def message(self, number: int) -> Message:
        for message in self.load_window(number, number + 1).messages:
            return message
        raise NotInArchive("message", str(number))

    def render(self, start: int, stop: int, options: HtmlOptions) -> Html:
        """Return messages as HTML."""
        window = self.load_window(start, stop)
        options = self._options_for(window, options)
        fragments = render_window_fragments(window, options)
        return Html("".join(self._link_images(fragments)))

    def iter_images(self, number: int) -> Iterator[EmbeddedImage]:
        """Yield the images of a message."""
        window = self.load_window(number, number + 1)
        for fragment in render_window_fragments(window, HtmlOptions()):
            yield from iter_embedded_images(fragment.html)

    def _link_images(self, fragments: Iterable[HtmlFragment]) -> Iterator[Html]:
        """Yield HTML in which embedded images are replaced by URLs."""
        anchor = ""

        def image_url(name: str) -> str:
            return self.url("picture", name, at=anchor)

        for fragment in fragments:
            anchor = fragment.message_anchor or anchor
            yield link_images(fragment.html, image_url)

    def url(self, *rest: str, **query: object) -> str:
        """Return the URL of this branch, or one below it."""
        query = {"branch": self.branch.number, **query}
        facts = self.facts
        return conversation_url(facts.id, *rest, agent=facts.agent_id, **query)

    def render_first(
        self, start: int, stop: int, options: HtmlOptions
    ) -> tuple[Html, int]:
        """Return as many messages as fill a screen, and the number after the last."""
        window = self.load_window(start, min(stop, start + MAX_FIRST_MESSAGES))
        screen = _ScreenBudget(walk_window(window))
        options = self._options_for(window, options)
        fragments = render_steps(screen.take_steps(), window.header.project, options)
        for html in self._link_images(fragments):
            screen.add(html)
        return Html("".join(screen.fragments)), screen.message_count + start

    def _options_for(self, window: MessageWindow, options: HtmlOptions) -> HtmlOptions:
        """Return options with the time before a window and the messages after it.

        A turn that starts in the window is shown with the cost of the whole turn.
        """
        if window.start:
            previous = self.load_window(window.start - 1, window.start).messages
            time = next((message.sent_at for message in previous), None)
            options = structs.replace(options, previous_time=time)
        if options.message_pricer and window.turns:
            read = partial(self._read_rest_of_turn, window)
            options = structs.replace(options, read_unshown=read)
        return options

    def _read_rest_of_turn(
        self, window: MessageWindow, turn: int
    ) -> Sequence[Message] | None:
        """Read what follows a window in a turn, which is empty but for its last turn."""
        if turn != window.turns[-1].number:
            return ()
        return self.conversation.rest_of_turn(window, MAX_PRICED_MESSAGES)

    def iter_edits(self, path: str) -> Iterator[tuple[ToolCall, ChangedFile]]:
        """Yield the changes of a file, without those of the parent branch."""
        for at, message in self.conversation.messages(self.branch.number, [path]):
            if at >= self.branch.shared_count:
                calls = message.tool_calls
                yield from (
                    (call, file)
                    for call in calls
                    for file in call.changed_files
                    if file.path == path
                )

    def iter_agent_runs(self) -> Iterator[AgentRun]:
        """Yield the agent runs that were called here, and those below them."""
        runs = [
            run
            for branch in self.facts.branches
            for _, message in self.conversation.messages(branch.number, own=True)
            for call in message.tool_calls
            for run in call.agents
        ]
        return walk_agents([*runs, *self.facts.orphan_agents])

    def render_window(self, number: int, options: HtmlOptions) -> Html:
        """Return a window as HTML, from the cache if possible."""
        html = self._window_cache.get(number)
        if html is None:
            start = number * WINDOW_SIZE
            html = self.render(start, start + WINDOW_SIZE, options)
            if len(self._window_cache) >= _MAX_CACHED_WINDOWS:
                self._window_cache.clear()
            self._window_cache[number] = html
        return html

    def find_message(self, name: str) -> int | None:
        """Return the number of the message that contains a record, anchor, call or agent."""
        if self._message_numbers is not None:
            return self._message_numbers.get(name)
        anchor = _ANCHOR.fullmatch(name)
        names = [anchor[1], name] if anchor else [name]
        candidates = self.conversation.messages(self.branch.number, names)
        number = dict(_iter_message_numbers(candidates)).get(name)
        if number is None and _HASHED_ANCHOR.fullmatch(name):
            return self.message_numbers.get(name)  # the anchor does not contain the id
        return number

    def has_anchor(self, name: str) -> bool:
        """Return whether a message, call or agent run of this branch has an anchor."""
        number = self.find_message(name) if _ANCHOR.fullmatch(name) else None
        if number is None:
            return False
        message = self.message(number)
        runs = [run for call in message.tool_calls for run in call.agents]
        return name in {
            make_element_id("m", message.id),
            *(make_element_id("c", call.id) for call in message.tool_calls),
            *(make_element_id("a", run.id) for run in runs),
        }

    @property
    def message_numbers(self) -> dict[str, int]:
        """The number of the message that contains a record, anchor, call or agent."""
        if self._message_numbers is None:
            self._message_numbers = dict(
                _iter_message_numbers(self.conversation.messages(self.branch.number))
            )
        return self._message_numbers

    @property
    def message_positions(self) -> list[tuple[int, Position]]:
        """Where the messages start, with their numbers."""
        return [
            (number, message.record_refs[0].position)
            for number, message in self.conversation.messages(self.branch.number)
            if message.record_refs
        ]

    @property
    def record_locations(self) -> dict[int, tuple[int, str]]:
        """Number and anchor of the message that contains a record, by record number."""
        if self._record_locations is None:
            self._record_locations = dict(
                _iter_record_locations(self.conversation.messages(self.branch.number))
            )
        return self._record_locations

    @property
    def own_record_locations(self) -> dict[int, tuple[int, str]]:
        """`record_locations`, without messages shared with the parent branch."""
        start = self.branch.shared_count
        if not start:
            return self.record_locations
        if self._own_record_locations is None:
            own = enumerate(self.load_window(start, self.message_count).messages, start)
            self._own_record_locations = dict(_iter_record_locations(own))
        return self._own_record_locations

    def outline(self, start: int = 0) -> Sequence[OutlineEntry]:
        """Return the outline, starting at a message."""
        if start:
            messages = enumerate(
                self.load_window(start, self.message_count).messages, start
            )
            return tuple(_iter_outline(messages))
        if self._outline is None:
            self._outline = tuple(
                _iter_outline(self.conversation.messages(self.branch.number))
            )
        return self._outline


class _ScreenBudget:
    """Takes rendering steps until their HTML fills a screen."""

    def __init__(self, steps: Iterable[WalkStep]) -> None:
        self._steps = steps
        self._chars = 0
        self.fragments: list[Html] = []
        self.message_count = 0

    def add(self, html: Html) -> None:
        self.fragments.append(html)
        is_folded = _FOLDED.match(html) is not None
        self._chars += min(len(html), _LINE_CHARS) if is_folded else len(html)

    def take_steps(self) -> Iterator[WalkStep]:
        """Yield steps up to a message or turn for which there is no room."""
        is_turn_started = False
        for step in self._steps:
            if (
                isinstance(step, MessageStep | TurnStart)
                and not is_turn_started
                and self._is_full()
            ):
                return
            is_turn_started = isinstance(step, TurnStart)
            self.message_count += isinstance(step, MessageStep)
            yield step

    def _is_full(self) -> bool:
        return self.message_count >= MAX_FIRST_MESSAGES or (
            self.message_count > 1 and self._chars > SCREEN_CHARS
        )


def open_view(open_session: OpenSession, agent: str, branch: int) -> ConversationView:
    """Return a branch of a session, or of one of its agent runs, from the cache."""
    key = f"{agent} {branch}"
    view = open_session.cache.get(key)
    if not isinstance(view, ConversationView):
        agent_id = _resolve_agent_run(open_session, agent) if agent else ""
        conversation = open_session.conversation(agent_id)
        view = ConversationView(open_session, conversation, branch)
        open_session.cache[key] = view
    return view


def _resolve_agent_run(open_session: OpenSession, name: str) -> str:
    """Return the id of an agent run that is named by its id or its anchor."""
    for run in open_session.conversation().agent_ids:
        if name in {run, make_element_id("a", run)}:
            return run
    raise NotInArchive("agent", name)


def agent_title(run: AgentRun) -> str:
    return ": ".join(filter(None, (run.agent_type, run.description))) or run.id


def _iter_message_numbers(
    messages: Iterable[tuple[int, Message]],
) -> Iterator[tuple[str, int]]:
    for number, message in messages:
        yield make_element_id("m", message.id), number
        for record in message.record_ids:
            yield record, number
            yield make_element_id("m", record), number
        for call in message.tool_calls:
            yield make_element_id("c", call.id), number
            for run in call.agents:
                yield make_element_id("a", run.id), number
                yield run.id, number


def _iter_record_locations(
    messages: Iterable[tuple[int, Message]],
) -> Iterator[tuple[int, tuple[int, str]]]:
    for number, message in messages:
        location = (number, make_element_id("m", message.id))
        for record in message.record_ids:
            yield Archive.record_number(record), location


def _iter_outline(messages: Iterable[tuple[int, Message]]) -> Iterator[OutlineEntry]:
    for number, message in messages:
        anchor = make_element_id("m", message.id)
        if message.is_prompt:
            yield OutlineEntry(
                OutlineEntryKind.PROMPT, number, anchor, message.preview[:_MAX_LABEL]
            )
        if message.compaction is not None:
            yield OutlineEntry(OutlineEntryKind.COMPACTION, number, anchor, "compacted")
        if message.is_error:
            yield OutlineEntry(
                OutlineEntryKind.ERROR, number, anchor, message.preview[:_MAX_LABEL]
            )
        for call in message.tool_calls:
            call_anchor = make_element_id("c", call.id)
            for run in call.agents:
                if run.kind.is_shown:
                    agent_anchor = make_element_id("a", run.id)
                    title = agent_title(run)[:_MAX_LABEL]
                    yield OutlineEntry(
                        OutlineEntryKind.AGENT, number, agent_anchor, title
                    )
            files = call.changed_files
            if call.is_error:
                text = f"{call.name} {call.label}"[:_MAX_LABEL]
                yield OutlineEntry(OutlineEntryKind.ERROR, number, call_anchor, text)
            elif files:
                text = _change_label(files)
                yield OutlineEntry(OutlineEntryKind.EDIT, number, call_anchor, text)


def _change_label(files: Sequence[ChangedFile]) -> str:
    name = pluralize(len(files), "file")
    if len(files) == 1:
        name = files[0].path.replace("\\", "/").rpartition("/")[2]
    added = sum(file.added_lines for file in files)
    removed = sum(file.removed_lines for file in files)
    return f"{name} +{added} \N{MINUS SIGN}{removed}"


_DATA_URL_IMAGE = re.compile(
    r'<img src="data:image/[a-z]+;base64,([A-Za-z0-9+/]+={0,2})"'
)
"""Matches only tags of the renderer, as ``<`` is escaped in all other text."""
_IMAGE_TAG = re.compile(rf'{_DATA_URL_IMAGE.pattern}( alt="([^"]*)"[^>]*>)')
_HEADER_CHARS = 64 * 1024
"""Base64 characters that contain the size of an image."""
_JPEG_FRAME = re.compile(
    rb"\xff[\xc0-\xc3\xc5-\xc7\xc9-\xcb\xcd-\xcf]..\x08(..)(..)", re.DOTALL
)
"""The frame header of a JPEG, with height and width."""


class EmbeddedImage(NamedTuple):
    name: str
    media_type: str
    content: bytes


def link_images(html: Html, url_for: Callable[[str], str]) -> Html:
    """Replace the data URLs of images by the URLs that `url_for` returns."""

    def replace(match: re.Match[str]) -> str:
        head = _decode_base64(match[1][:_HEADER_CHARS])
        if not detect_image_type(head):
            return f'<p class="note">{match[3]}</p>'
        size = _image_size(head)
        attributes = f' width="{size[0]}" height="{size[1]}"' if size else ""
        url = escape(url_for(_image_name(match[1])))
        image = f'<img src="{url}"{attributes}{match[2]}'
        return f'<a class="picture-link" href="{url}">{image}</a>'

    return Html(_IMAGE_TAG.sub(replace, html)) if "<img " in html else html


def iter_embedded_images(html: Html) -> Iterator[EmbeddedImage]:
    for base64_text in _DATA_URL_IMAGE.findall(html):
        content = _decode_base64(base64_text)
        media_type = detect_image_type(content)
        if media_type:
            yield EmbeddedImage(_image_name(base64_text), media_type, content)


def _image_name(base64_text: str) -> str:
    return blake2b(base64_text.encode(), digest_size=16).hexdigest()


def _decode_base64(base64_text: str) -> bytes:
    try:
        return b64decode(base64_text[: len(base64_text) // 4 * 4])
    except ValueError:
        return b""


def _image_size(head: bytes) -> tuple[int, int] | None:
    """Return width and height of a PNG, GIF or JPEG."""
    media_type = detect_image_type(head)
    if media_type == "image/png":
        width, height = head[16:20], head[20:24]
    elif media_type == "image/gif":
        width, height = head[7:5:-1], head[9:7:-1]
    elif media_type == "image/jpeg" and (match := _JPEG_FRAME.search(head)):
        height, width = match.groups()
    else:
        return None
    size = int.from_bytes(width, "big"), int.from_bytes(height, "big")
    return size if all(size) else None
