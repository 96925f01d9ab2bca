"""A conversation as it is read: messages in windows, places by id, an outline.

Worked out once for an open session and kept with it; nothing here opens a text.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

from msgspec import Struct, structs

from recollect.errors import NotArchived
from recollect.model.sessions import AgentRun, Branch, Message, Session
from recollect.render.html import Setting, fragments
from recollect.render.html.markup import Html, anchor
from recollect.render.walk import View
from recollect.web.readers import OpenSession

__all__ = ["WINDOW", "Mark", "MarkKind", "Reading", "reading_of"]

WINDOW = 16
"""Messages that are loaded at once."""
_WORDS = 160


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

    def __init__(self, held: OpenSession, session: Session, branch: Branch) -> None:
        self.held = held
        self.session = session
        self.branch = branch
        self.messages = branch.messages
        self._places: dict[str, int] | None = None
        self._marks: tuple[Mark, ...] | None = None
        self._windows: dict[int, Html] = {}

    @property
    def total(self) -> int:
        """How many messages there are."""
        return len(self.messages)

    def window(self, number: int, setting: Setting) -> Html:
        """Return a window as markup; it is made once, but for the last that grows."""
        made = self._windows.get(number)
        if made is None:
            view = View(
                branch=self.branch.number,
                start=number * WINDOW,
                stop=(number + 1) * WINDOW,
                thinking=True,
                tools=True,
            )
            pieces = fragments(self.session, view, setting)
            made = Html("".join(piece.html for piece in pieces))
            if len(self._windows) >= _KEPT:
                self._windows.clear()
            self._windows[number] = made
        return made

    def place(self, name: str) -> int | None:
        """Return which message has a record, an anchor, a call or an agent."""
        if self._places is None:
            self._places = dict(_places(self.messages))
        return self._places.get(name)

    @property
    def marks(self) -> tuple[Mark, ...]:
        """The outline."""
        if self._marks is None:
            self._marks = tuple(_marks(self.session, self.messages))
        return self._marks


_KEPT = 160
"""Windows whose markup is kept."""


def reading_of(held: OpenSession, agent: str, branch: int) -> Reading:
    """Return a branch of a session or of one of its agents, ready to be read."""
    name = f"{agent} {branch}"
    found = held.notes.get(name)
    if isinstance(found, Reading):
        return found
    session = _as_session(held.session, agent) if agent else held.session
    for one in session.branches:
        if one.number == branch:
            made = held.notes[name] = Reading(held, session, one)
            return made
    raise NotArchived("branch", str(branch))


def _as_session(session: Session, name: str) -> Session:
    """Return an agent run as if it were a session, to be read in the same way."""
    for run in session.all_agents:
        if name in {run.id, anchor("a", run.id)}:
            return structs.replace(
                session,
                title=structs.replace(session.title, text=agent_title(run)),
                live=run.live,
                branches=run.branches,
                agents=run.agents,
                started=run.started,
                ended=run.ended,
                usage=run.usage,
                edits=(),
                lineage=(),
                problems=run.problems,
            )
    raise NotArchived("agent", name)


def agent_title(run: AgentRun) -> str:
    """Return what an agent run is called."""
    return ": ".join(filter(None, (run.type, run.description))) or run.id


def _places(messages: tuple[Message, ...]) -> Iterator[tuple[str, int]]:
    for at, message in enumerate(messages):
        yield anchor("m", message.id), at
        for record in message.records:
            yield record, at
            yield anchor("m", record), at
        for call in message.calls:
            yield anchor("c", call.id), at
            for run in call.agents:
                yield anchor("a", run.id), at
                yield run.id, at


def _marks(session: Session, messages: tuple[Message, ...]) -> Iterator[Mark]:
    edited = {edit.call.id: edit for edit in session.edits}
    for at, message in enumerate(messages):
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
            if call.is_error:
                told = f"{call.name} {call.note}"[:_WORDS]
                yield Mark(MarkKind.ERROR, at, there, told)
            elif call.id in edited:
                edit = edited[call.id]
                name = edit.path.replace("\\", "/").rpartition("/")[2]
                told = f"{name} +{edit.added} \N{MINUS SIGN}{edit.removed}"
                yield Mark(MarkKind.EDIT, at, there, told)
