"""A conversation as it is read: messages in windows, places by id, an outline.

What is worked out is kept with the session as long as that stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum

from msgspec import Struct, structs

from bygones.archive import Archive
from bygones.errors import NotInArchive
from bygones.model.sessions import (
    PREVIEW_MESSAGES,
    AgentRun,
    BranchSummary,
    Conversation,
    ConversationHeader,
    Message,
    MessageWindow,
    ToolCall,
    Turn,
    walk_agents,
)
from bygones.render.html.markup import Html, make_element_id
from bygones.render.html.session import (
    HtmlFragment,
    HtmlOptions,
    render_steps,
    render_window_fragments,
)
from bygones.render.walk import (
    BranchLink,
    MessageStep,
    TurnStart,
    WalkStep,
    walk_window,
)
from bygones.web.images import EmbeddedImage, iter_embedded_images, link_images
from bygones.web.layout import build_url
from bygones.web.pool import OpenSession

__all__ = [
    "MAX_ASSEMBLED_MESSAGES",
    "MAX_FIRST_MESSAGES",
    "WINDOW_SIZE",
    "ConversationView",
    "OutlineEntry",
    "OutlineEntryKind",
    "open_view",
]

MAX_ASSEMBLED_MESSAGES = 20_000
"""Messages of a session beyond which it is not assembled to draw its map."""
WINDOW_SIZE = 16
"""Messages that are loaded at once."""
MAX_FIRST_MESSAGES = PREVIEW_MESSAGES
"""Messages with which a page comes at most: those that are seen at once."""
SCREEN_CHARS = 6_000
"""Signs of markup that fill a screen."""
_MAX_LABEL = 160
_BATCH_SIZE = 256
"""Messages that are read at once where more than a window is wanted."""
_MAX_CACHED_WINDOWS = 160
"""Windows whose markup is kept."""
_ANCHOR = re.compile(r"[mca]-(.+)", re.DOTALL)
_HASHED_ANCHOR = re.compile(r"[mca]-[0-9a-f]{24}")


class OutlineEntryKind(StrEnum):
    """What a line of the outline leads to."""

    PROMPT = "prompt"
    AGENT = "agent"
    COMPACTION = "compaction"
    EDIT = "edit"
    ERROR = "error"


class OutlineEntry(Struct, frozen=True):
    """A line of the outline."""

    kind: OutlineEntryKind
    message_number: int
    """The number of the message that it is in."""
    anchor: str
    text: str


class ConversationView:
    """One branch of a session, or of an agent run in it."""

    def __init__(
        self, open_session: OpenSession, conversation: Conversation, branch: int
    ) -> None:
        self.open_session = open_session
        self.facts: ConversationHeader = conversation.facts
        found = self.facts.find_branch(branch)
        if found is None:
            raise NotInArchive("branch", str(branch))
        self.branch: BranchSummary = found
        self._conversation = conversation
        self._message_numbers: dict[str, int] | None = None
        self._outline: tuple[OutlineEntry, ...] | None = None
        self._record_locations: dict[int, tuple[int, str]] | None = None
        self._own_record_locations: dict[int, tuple[int, str]] | None = None
        self._window_cache: dict[int, Html] = {}

    @property
    def message_count(self) -> int:
        """How many messages there are."""
        return self.branch.message_count

    def load_window(self, start: int, stop: int) -> MessageWindow:
        """Return the messages from one number up to another."""
        return self._conversation.window(self.branch.number, start, stop)

    def iter_windows(self) -> Iterator[MessageWindow]:
        """Yield all messages, some at a time."""
        for start in range(0, max(self.message_count, 1), _BATCH_SIZE):
            yield self.load_window(start, start + _BATCH_SIZE)

    def iter_turns(self) -> Iterator[Turn]:
        """Yield the turns, each with all its messages."""
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
        """Return a message by its number."""
        for message in self.load_window(number, number + 1).messages:
            return message
        raise NotInArchive("message", str(number))

    def render(self, start: int, stop: int, setting: HtmlOptions) -> Html:
        """Return messages as markup."""
        window = self.load_window(start, stop)
        pieces = render_window_fragments(window, self._setting_for(window, setting))
        return Html("".join(self._link_images(pieces)))

    def iter_images(self, number: int) -> Iterator[EmbeddedImage]:
        """Yield the pictures of a message."""
        window = self.load_window(number, number + 1)
        for piece in render_window_fragments(window, HtmlOptions()):
            yield from iter_embedded_images(piece.html)

    def _link_images(self, fragments: Iterable[HtmlFragment]) -> Iterator[Html]:
        """Yield markup without its pictures, each of which has an address."""
        agent = self.facts.agent_id
        own = ("session", self.facts.id, *(("agent", agent) if agent else ()))
        place = ""

        def to(name: str) -> str:
            branch = self.branch.number
            return build_url(*own, "picture", name, branch=branch, at=place)

        for piece in fragments:
            place = piece.message_anchor or place
            yield link_images(piece.html, to)

    def render_first(
        self, start: int, stop: int, setting: HtmlOptions
    ) -> tuple[Html, int]:
        """Return as many messages as fill a screen, and the number behind the last."""
        window = self.load_window(start, min(stop, start + MAX_FIRST_MESSAGES))
        seen = _ScreenBudget(walk_window(window))
        setting = self._setting_for(window, setting)
        pieces = render_steps(seen.take_steps(), window.header.project, setting)
        for made in self._link_images(pieces):
            seen.add(made)
        return Html("".join(seen.fragments)), seen.message_count + start

    def _setting_for(self, window: MessageWindow, setting: HtmlOptions) -> HtmlOptions:
        """Return a setting that knows the day before a window, and what is behind.

        A turn that begins in the window costs all of it.
        """
        if window.start:
            before = self.load_window(window.start - 1, window.start).messages
            time = next((message.sent_at for message in before), None)
            setting = structs.replace(setting, previous_time=time)
        if setting.message_pricer and window.turns:
            rest = self._conversation.rest_of_turn(window, setting.has_single_price)
            told = {window.turns[-1].number: rest}
            setting = structs.replace(setting, unshown_usage=told)
        return setting

    def iter_edits(self, path: str) -> Iterator[ToolCall]:
        """Yield the calls that changed a file, those of the branch's own."""
        for at, message in self._conversation.messages(self.branch.number, [path]):
            if at >= self.branch.shared_count:
                calls = message.tool_calls
                yield from (call for call in calls if call.edited_path == path)

    def iter_agent_runs(self) -> Iterator[AgentRun]:
        """Yield the runs that were called here, and those below them."""
        called = [
            run
            for branch in self.facts.branches
            for _, message in self._conversation.messages(branch.number)
            for call in message.tool_calls
            for run in call.agents
        ]
        return walk_agents([*called, *self.facts.orphan_agents])

    def render_window(self, number: int, setting: HtmlOptions) -> Html:
        """Return a window as markup, which is made once."""
        made = self._window_cache.get(number)
        if made is None:
            made = self.render(
                number * WINDOW_SIZE, (number + 1) * WINDOW_SIZE, setting
            )
            if len(self._window_cache) >= _MAX_CACHED_WINDOWS:
                self._window_cache.clear()
            self._window_cache[number] = made
        return made

    def find_message(self, name: str) -> int | None:
        """Return which message has a record, an anchor, a call or an agent."""
        if self._message_numbers is not None:
            return self._message_numbers.get(name)
        inner = _ANCHOR.fullmatch(name)
        names = [inner[1], name] if inner else [name]
        near = self._conversation.messages(self.branch.number, names)
        found = dict(_iter_message_numbers(near)).get(name)
        if found is None and _HASHED_ANCHOR.fullmatch(name):
            return self.message_numbers.get(name)  # an anchor that does not say its id
        return found

    @property
    def message_numbers(self) -> dict[str, int]:
        """Which message has what, by records, anchors, calls and agents."""
        if self._message_numbers is None:
            self._message_numbers = dict(
                _iter_message_numbers(self._conversation.messages(self.branch.number))
            )
        return self._message_numbers

    @property
    def record_locations(self) -> dict[int, tuple[int, str]]:
        """Which message has a record, and its anchor, by the number of the record."""
        if self._record_locations is None:
            self._record_locations = dict(
                _iter_record_locations(self._conversation.messages(self.branch.number))
            )
        return self._record_locations

    @property
    def own_record_locations(self) -> dict[int, tuple[int, str]]:
        """The same of those messages that it does not share with the branch it left."""
        start = self.branch.shared_count
        if not start:
            return self.record_locations
        if self._own_record_locations is None:
            own = enumerate(self.load_window(start, self.message_count).messages, start)
            self._own_record_locations = dict(_iter_record_locations(own))
        return self._own_record_locations

    def outline(self, start: int = 0) -> Sequence[OutlineEntry]:
        """Return the outline, from a message on."""
        if start:
            messages = enumerate(
                self.load_window(start, self.message_count).messages, start
            )
            return tuple(_iter_outline(messages))
        if self._outline is None:
            self._outline = tuple(
                _iter_outline(self._conversation.messages(self.branch.number))
            )
        return self._outline


class _ScreenBudget:
    """Takes steps until what came of them fills a screen."""

    def __init__(self, steps: Iterable[WalkStep | BranchLink]) -> None:
        self._steps = steps
        self._chars = 0
        self.fragments: list[Html] = []
        self.message_count = 0
        """Messages that were taken."""

    def add(self, html: Html) -> None:
        """Note what came of the last step."""
        self.fragments.append(html)
        self._chars += len(html)

    def take_steps(self) -> Iterator[WalkStep | BranchLink]:
        """Yield steps, up to a message or a turn for which there is no room."""
        is_begun = False
        for step in self._steps:
            if (
                isinstance(step, MessageStep | TurnStart)
                and not is_begun
                and self._is_full()
            ):
                return
            is_begun = isinstance(step, TurnStart)
            self.message_count += isinstance(step, MessageStep)
            yield step

    def _is_full(self) -> bool:
        return self.message_count >= MAX_FIRST_MESSAGES or (
            self.message_count > 1 and self._chars > SCREEN_CHARS
        )


def open_view(open_session: OpenSession, agent: str, branch: int) -> ConversationView:
    """Return a branch of a session or of one of its agents, ready to be read."""
    name = f"{agent} {branch}"
    found = open_session.cache.get(name)
    if not isinstance(found, ConversationView):
        talk = open_session.conversation(
            _resolve_agent_run(open_session, agent) if agent else ""
        )
        found = open_session.cache[name] = ConversationView(open_session, talk, branch)
    return found


def _resolve_agent_run(open_session: OpenSession, name: str) -> str:
    """Return the agent run that is meant by its id or its anchor."""
    for run in open_session.conversation().agent_ids:
        if name in {run, make_element_id("a", run)}:
            return run
    raise NotInArchive("agent", name)


def agent_title(run: AgentRun) -> str:
    """Return what an agent run is called."""
    return ": ".join(filter(None, (run.agent_type, run.description))) or run.id


def _iter_message_numbers(
    messages: Iterable[tuple[int, Message]],
) -> Iterator[tuple[str, int]]:
    for at, message in messages:
        yield make_element_id("m", message.id), at
        for record in message.record_ids:
            yield record, at
            yield make_element_id("m", record), at
        for call in message.tool_calls:
            yield make_element_id("c", call.id), at
            for run in call.agents:
                yield make_element_id("a", run.id), at
                yield run.id, at


def _iter_record_locations(
    messages: Iterable[tuple[int, Message]],
) -> Iterator[tuple[int, tuple[int, str]]]:
    """Yield the numbers of records' ids, with the message that each is of."""
    for at, message in messages:
        place = (at, make_element_id("m", message.id))
        for record in message.record_ids:
            yield Archive.record_number(record), place


def _iter_outline(messages: Iterable[tuple[int, Message]]) -> Iterator[OutlineEntry]:
    for at, message in messages:
        place = make_element_id("m", message.id)
        if message.is_prompt:
            yield OutlineEntry(
                OutlineEntryKind.PROMPT, at, place, message.preview[:_MAX_LABEL]
            )
        if message.compaction is not None:
            yield OutlineEntry(OutlineEntryKind.COMPACTION, at, place, "compacted")
        if message.is_error:
            yield OutlineEntry(
                OutlineEntryKind.ERROR, at, place, message.preview[:_MAX_LABEL]
            )
        for call in message.tool_calls:
            there = make_element_id("c", call.id)
            for run in call.agents:
                if run.kind.is_shown:
                    title = agent_title(run)[:_MAX_LABEL]
                    yield OutlineEntry(
                        OutlineEntryKind.AGENT, at, make_element_id("a", run.id), title
                    )
            path = call.edited_path
            if call.is_error:
                told = f"{call.name} {call.label}"[:_MAX_LABEL]
                yield OutlineEntry(OutlineEntryKind.ERROR, at, there, told)
            elif path:
                name = path.replace("\\", "/").rpartition("/")[2]
                added, removed = (
                    (call.result_facts.added_lines, call.result_facts.removed_lines)
                    if call.result_facts
                    else (0, 0)
                )
                told = f"{name} +{added} \N{MINUS SIGN}{removed}"
                yield OutlineEntry(OutlineEntryKind.EDIT, at, there, told)
