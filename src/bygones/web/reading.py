"""A conversation as it is read: messages in windows, places by id, an outline.

What is worked out is kept with the session as long as that stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum

from msgspec import Struct, structs

from bygones.assemble.edits import edited_path
from bygones.errors import NotArchived
from bygones.ingest.windows import Conversation
from bygones.model.rest import each_run
from bygones.model.sessions import AgentRun, Message, ToolCall, Turn
from bygones.model.windows import OPENING, BranchFacts, SessionFacts, Window
from bygones.render.html import Fragment, Setting, window_fragments
from bygones.render.html.fragments import fragments_of
from bygones.render.html.markup import Html, anchor
from bygones.render.walk import Said, Step, TurnStart
from bygones.render.windows import Beside, walk_window
from bygones.search import Standing
from bygones.web.frame import address
from bygones.web.pictures import Picture, linked, pictures_in
from bygones.web.readers import OpenSession

__all__ = ["FIRST", "LONGEST", "WINDOW", "Mark", "MarkKind", "Reading", "reading_of"]

LONGEST = 20_000
"""Messages of a session beyond which it is not assembled to draw its map."""
WINDOW = 16
"""Messages that are loaded at once."""
FIRST = OPENING
"""Messages with which a page comes at most: those that are seen at once."""
SCREEN = 6_000
"""Signs of markup that fill a screen."""
_WORDS = 160
_FURTHER = 256
"""Messages that are read at once where more than a window is wanted."""
_KEPT = 160
"""Windows whose markup is kept."""
_PREFIXED = re.compile(r"[mca]-(.+)", re.DOTALL)
_HASHED = re.compile(r"[mca]-[0-9a-f]{24}")


class MarkKind(StrEnum):
    """What a line of the outline leads to."""

    PROMPT = "prompt"
    AGENT = "agent"
    COMPACTION = "compaction"
    EDIT = "edit"
    ERROR = "error"


class Mark(Struct, frozen=True):
    """A line of the outline."""

    kind: MarkKind
    at: int
    """The number of the message that it is in."""
    anchor: str
    text: str


class Reading:
    """One branch of a session, or of an agent run in it."""

    def __init__(self, held: OpenSession, talk: Conversation, branch: int) -> None:
        self.held = held
        self.facts: SessionFacts = talk.facts
        found = self.facts.branch(branch)
        if found is None:
            raise NotArchived("branch", str(branch))
        self.branch: BranchFacts = found
        self._talk = talk
        self._places: dict[str, int] | None = None
        self._marks: tuple[Mark, ...] | None = None
        self._numbers: dict[int, tuple[int, str]] | None = None
        self._own_numbers: dict[int, tuple[int, str]] | None = None
        self._windows: dict[int, Html] = {}

    @property
    def total(self) -> int:
        """How many messages there are."""
        return self.branch.total

    def some(self, start: int, stop: int) -> Window:
        """Return the messages from one number up to another."""
        return self._talk.window(self.branch.number, start, stop)

    def windows(self) -> Iterator[Window]:
        """Yield all messages, some at a time."""
        for start in range(0, max(self.total, 1), _FURTHER):
            yield self.some(start, start + _FURTHER)

    def turns(self) -> Iterator[Turn]:
        """Yield the turns, each with all its messages."""
        last: Turn | None = None
        for window in self.windows():
            for at, turn in enumerate(window.turns):
                if last is not None and window.is_begun and not at:
                    messages = (*last.messages, *turn.messages)
                    last = structs.replace(last, messages=messages)
                    continue
                if last is not None:
                    yield last
                last = turn
        if last is not None:
            yield last

    def message(self, at: int) -> Message:
        """Return a message by its number."""
        for message in self.some(at, at + 1).messages:
            return message
        raise NotArchived("message", str(at))

    def drawn(self, start: int, stop: int, setting: Setting) -> Html:
        """Return messages as markup."""
        window = self.some(start, stop)
        pieces = window_fragments(window, self._suited(window, setting))
        return Html("".join(self._shown(pieces)))

    def pictures(self, at: int) -> Iterator[Picture]:
        """Yield the pictures of a message."""
        window = self.some(at, at + 1)
        for piece in window_fragments(window, Setting()):
            yield from pictures_in(piece.html)

    def _shown(self, pieces: Iterable[Fragment]) -> Iterator[Html]:
        """Yield markup without its pictures, each of which has an address."""
        agent = self.facts.agent
        own = ("session", self.facts.id, *(("agent", agent) if agent else ()))
        place = ""

        def to(name: str) -> str:
            branch = self.branch.number
            return address(*own, "picture", name, branch=branch, at=place)

        for piece in pieces:
            place = piece.message or place
            yield linked(piece.html, to)

    def first(self, start: int, stop: int, setting: Setting) -> tuple[Html, int]:
        """Return as many messages as fill a screen, and the number behind the last."""
        window = self.some(start, min(stop, start + FIRST))
        seen = _Screen(walk_window(window))
        setting = self._suited(window, setting)
        pieces = fragments_of(seen.steps(), window.facts.project, setting)
        for made in self._shown(pieces):
            seen.add(made)
        return Html("".join(seen.parts)), seen.count + start

    def _suited(self, window: Window, setting: Setting) -> Setting:
        """Return a setting that knows the day before a window, and what is behind.

        A turn that begins in the window costs all of it.
        """
        if window.start:
            before = self.some(window.start - 1, window.start).messages
            time = next((message.time for message in before), None)
            setting = structs.replace(setting, since=time)
        if setting.cost and window.turns:
            rest = self._talk.rest(window, setting.is_even)
            told = {window.turns[-1].number: rest}
            setting = structs.replace(setting, rest=told)
        return setting

    def edits(self, path: str) -> Iterator[ToolCall]:
        """Yield the calls that changed a file, those of the branch's own."""
        for at, message in self._talk.messages(self.branch.number, [path]):
            if at >= self.branch.shared:
                calls = message.calls
                yield from (call for call in calls if edited_path(call) == path)

    def agents(self) -> Iterator[AgentRun]:
        """Yield the runs that were called here, and those below them."""
        called = [
            run
            for branch in self.facts.branches
            for _, message in self._talk.messages(branch.number)
            for call in message.calls
            for run in call.agents
        ]
        return each_run([*called, *self.facts.orphans])

    def window(self, number: int, setting: Setting) -> Html:
        """Return a window as markup, which is made once."""
        made = self._windows.get(number)
        if made is None:
            made = self.drawn(number * WINDOW, (number + 1) * WINDOW, setting)
            if len(self._windows) >= _KEPT:
                self._windows.clear()
            self._windows[number] = made
        return made

    def place(self, name: str) -> int | None:
        """Return which message has a record, an anchor, a call or an agent."""
        if self._places is not None:
            return self._places.get(name)
        inner = _PREFIXED.fullmatch(name)
        names = [inner[1], name] if inner else [name]
        near = self._talk.messages(self.branch.number, names)
        found = dict(_places(near)).get(name)
        if found is None and _HASHED.fullmatch(name):
            return self.places.get(name)  # an anchor that does not say its id
        return found

    @property
    def places(self) -> dict[str, int]:
        """Which message has what, by records, anchors, calls and agents."""
        if self._places is None:
            self._places = dict(_places(self._talk.messages(self.branch.number)))
        return self._places

    @property
    def numbers(self) -> dict[int, tuple[int, str]]:
        """Which message has a record, and its anchor, by the number of the record."""
        if self._numbers is None:
            self._numbers = dict(_numbers(self._talk.messages(self.branch.number)))
        return self._numbers

    @property
    def own_numbers(self) -> dict[int, tuple[int, str]]:
        """The same of those messages that it does not share with the branch it left."""
        start = self.branch.shared
        if not start:
            return self.numbers
        if self._own_numbers is None:
            own = enumerate(self.some(start, self.total).messages, start)
            self._own_numbers = dict(_numbers(own))
        return self._own_numbers

    def marks(self, start: int = 0) -> Sequence[Mark]:
        """Return the outline, from a message on."""
        if start:
            messages = enumerate(self.some(start, self.total).messages, start)
            return tuple(_marks(messages))
        if self._marks is None:
            self._marks = tuple(_marks(self._talk.messages(self.branch.number)))
        return self._marks


class _Screen:
    """Takes steps until what came of them fills a screen."""

    def __init__(self, steps: Iterable[Step | Beside]) -> None:
        self._steps = steps
        self._size = 0
        self.parts: list[Html] = []
        self.count = 0
        """Messages that were taken."""

    def add(self, made: Html) -> None:
        """Note what came of the last step."""
        self.parts.append(made)
        self._size += len(made)

    def steps(self) -> Iterator[Step | Beside]:
        """Yield steps, up to a message or a turn for which there is no room."""
        is_begun = False
        for step in self._steps:
            if isinstance(step, Said | TurnStart) and not is_begun and self._is_full():
                return
            is_begun = isinstance(step, TurnStart)
            self.count += isinstance(step, Said)
            yield step

    def _is_full(self) -> bool:
        return self.count >= FIRST or (self.count > 1 and self._size > SCREEN)


def reading_of(held: OpenSession, agent: str, branch: int) -> Reading:
    """Return a branch of a session or of one of its agents, ready to be read."""
    name = f"{agent} {branch}"
    found = held.notes.get(name)
    if not isinstance(found, Reading):
        talk = held.conversation(_run(held, agent) if agent else "")
        found = held.notes[name] = Reading(held, talk, branch)
    return found


def _run(held: OpenSession, name: str) -> str:
    """Return the agent run that is meant by its id or its anchor."""
    for run in held.conversation().runs:
        if name in {run, anchor("a", run)}:
            return run
    raise NotArchived("agent", name)


def agent_title(run: AgentRun) -> str:
    """Return what an agent run is called."""
    return ": ".join(filter(None, (run.type, run.description))) or run.id


def _places(messages: Iterable[tuple[int, Message]]) -> Iterator[tuple[str, int]]:
    for at, message in messages:
        yield anchor("m", message.id), at
        for record in message.records:
            yield record, at
            yield anchor("m", record), at
        for call in message.calls:
            yield anchor("c", call.id), at
            for run in call.agents:
                yield anchor("a", run.id), at
                yield run.id, at


def _numbers(
    messages: Iterable[tuple[int, Message]],
) -> Iterator[tuple[int, tuple[int, str]]]:
    """Yield the numbers of records' ids, with the message that each is of."""
    for at, message in messages:
        place = (at, anchor("m", message.id))
        for record in message.records:
            yield Standing.number(record), place


def _marks(messages: Iterable[tuple[int, Message]]) -> Iterator[Mark]:
    for at, message in messages:
        place = anchor("m", message.id)
        if message.is_prompt:
            yield Mark(MarkKind.PROMPT, at, place, message.head[:_WORDS])
        if message.compaction is not None:
            yield Mark(MarkKind.COMPACTION, at, place, "compacted")
        if message.is_error:
            yield Mark(MarkKind.ERROR, at, place, message.head[:_WORDS])
        for call in message.calls:
            there = anchor("c", call.id)
            for run in call.agents:
                if run.kind.is_shown:
                    title = agent_title(run)[:_WORDS]
                    yield Mark(MarkKind.AGENT, at, anchor("a", run.id), title)
            path = edited_path(call)
            if call.is_error:
                told = f"{call.name} {call.note}"[:_WORDS]
                yield Mark(MarkKind.ERROR, at, there, told)
            elif path:
                name = path.replace("\\", "/").rpartition("/")[2]
                added, removed = (
                    (call.facts.added, call.facts.removed) if call.facts else (0, 0)
                )
                told = f"{name} +{added} \N{MINUS SIGN}{removed}"
                yield Mark(MarkKind.EDIT, at, there, told)
