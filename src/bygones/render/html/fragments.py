"""A session as pieces of a page, made while it is walked.

Pieces behind each other are whole markup. Those that begin a message at the top level
say so, and a page may be cut before them. Nothing is held but the message at hand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime, tzinfo

from msgspec import Struct

from bygones.model.blocks import Block, Text, Thinking
from bygones.model.ids import AgentId, RecordId
from bygones.model.rest import Paid, Rest
from bygones.model.sessions import Branch, Message, Role, Session, Turn
from bygones.model.usage import Cost
from bygones.model.windows import BranchFacts, Window
from bygones.render.drawing import Pricer
from bygones.render.figures import (
    Coster,
    clock,
    lasting,
    several,
    tokens,
)
from bygones.render.heads import agent_facts, fork_words
from bygones.render.html.bill import Bill
from bygones.render.html.calls import call_html
from bygones.render.html.heard import told
from bygones.render.html.markup import (
    NOTHING,
    Html,
    anchor,
    facts,
    fold,
    tag,
    text,
    words,
)
from bygones.render.html.outputs import MOST, picture
from bygones.render.html.prose import prose, typed
from bygones.render.tools import CallLines, CallState
from bygones.render.walk import (
    AgentEnd,
    AgentMet,
    BlockMet,
    Called,
    Forked,
    LeftEnd,
    Orphans,
    Said,
    Start,
    Step,
    TurnStart,
    View,
    walk,
)
from bygones.render.windows import Beside, walk_window
from bygones.render.words import Teller, as_it_stands

__all__ = [
    "WHOLE",
    "Fragment",
    "Setting",
    "fragments",
    "fragments_of",
    "window_fragments",
]

WHOLE = View(branches=True, agents=True, thinking=True, tools=True)
"""Everything: it folds away on a page."""


def _is_one(paid: Paid) -> bool:
    """Whether that was the price of one answer."""
    return paid.least == paid.most and paid.first == paid.last


class Setting(Struct, frozen=True, kw_only=True):
    """For whom pieces are made."""

    zone: tzinfo | None = UTC
    """Of the times; ``None`` for that of the machine."""
    teller: Teller = as_it_stands
    cost: Coster | None = None
    """What tells the cost of turns and agents."""
    pricer: Pricer | None = None
    """What tells the cost of a whole session."""
    runs: Mapping[AgentId, Cost] = {}
    """What agents cost whose answers are not at hand."""
    rest: Mapping[int, Rest] = {}
    """What else was said in turns, by their numbers: they cost all of it."""
    is_even: Callable[[Paid], bool] = _is_one
    """Whether one price holds for what is told as a sum."""
    agents: str = ""
    """The address below which an agent that is told in brief has its page."""
    branches: str = ""
    """The address at whose end the number of a branch leads to that branch."""
    since: datetime | None = None
    """When the message before the first was said: its day need not be told again."""
    most: int = MOST
    """Signs of what folds that a page holds; more it has to ask for."""


class Fragment(Struct, frozen=True):
    """A piece of a page."""

    html: Html
    message: str = ""
    """The anchor of the message at the top level that begins with this piece."""
    turn: int | None = None
    """The number of the turn at the top level that begins with this piece."""


def fragments(
    session: Session, view: View = WHOLE, setting: Setting | None = None
) -> Iterator[Fragment]:
    """Yield a session, or the turns of it that the view asks for, piece by piece."""
    return fragments_of(walk(session, view), session.project, setting or Setting())


def window_fragments(window: Window, setting: Setting) -> Iterator[Fragment]:
    """Yield a window piece by piece, as :func:`fragments` would yield its messages."""
    return fragments_of(walk_window(window), window.facts.project, setting)


def fragments_of(
    steps: Iterable[Step | Beside], project: str | None, setting: Setting
) -> Iterator[Fragment]:
    """Yield what steps through a session say, piece by piece."""
    setter = _Setter(project, setting)
    for step in steps:
        yield from setter.set(step)
    yield from setter.end()


class _Setter:
    """Sets one session; remembers which elements are open."""

    def __init__(self, project: str | None, setting: Setting) -> None:
        self._setting = setting
        self._bill = Bill(setting.cost, setting.runs, setting.rest)
        self._lines = CallLines(project)
        self._open: list[str] = []
        """Ends of the elements that are open, the innermost last."""
        self._depth = 0
        """How many agents and branches the next message is inside of."""
        self._met: set[str] = set()
        """Agents whose runs were shown or named."""
        self._failures = 0
        self._day = setting.since

    def set(self, step: Step | Beside) -> Iterator[Fragment]:
        if isinstance(step, Said) and step.message.notice == "api_error":
            self._failures += 1
            return
        yield from self._parted(step)
        match step:
            case Said() | BlockMet() | Called():
                yield from self._content(step)
            case TurnStart():
                yield self._turn(step.turn)
            case AgentMet():
                yield Fragment(self._agent(step))
            case Forked():
                yield Fragment(self._fork(step))
            case Beside():
                yield Fragment(self._left(step.branch, step.after))
            case AgentEnd() | LeftEnd():
                yield Fragment(self._ended())
            case Orphans():
                heading = words("Agents that no call here is known to have started")
                yield Fragment(tag("h2", heading, kind="mark"))
            case Start():
                pass

    def _parted(self, step: Step | Beside) -> Iterator[Fragment]:
        """Yield what has to come before a step: the end of the message above it."""
        is_inside = isinstance(step, BlockMet | Called) or (
            isinstance(step, AgentMet) and step.call is not None
        )
        if not is_inside:
            yield from self._close()
        if self._failures:
            yield from self._failed()

    def _content(self, step: Said | BlockMet | Called) -> Iterator[Fragment]:
        match step:
            case Said():
                yield from self._said(step)
            case BlockMet():
                yield Fragment(_block(step.block, is_error=step.message.is_error))
            case Called(call=call):
                line = self._lines.line(call)
                runs = [run.id for run in call.agents if run.kind.is_shown]
                is_alone = len(runs) == 1 and line.state is CallState.DONE
                # What follows tells all that the line of a single agent would.
                if not is_alone or runs[0] in self._met:
                    most = self._setting.most
                    made = call_html(call, line, is_followed=bool(runs), most=most)
                    yield Fragment(made)
                self._met.update(runs)

    def end(self) -> Iterator[Fragment]:
        """Yield what is left: failures that were held back, ends of elements."""
        yield from self._close()
        if self._failures:
            yield from self._failed()

    def _failed(self) -> Iterator[Fragment]:
        times = f" {self._failures} times in a row" if self._failures > 1 else ""
        self._failures = 0
        line = words(f"• the API failed{times}")
        yield Fragment(tag("div", line, kind="notice bad"))

    def _close(self) -> Iterator[Fragment]:
        """Yield the end of the message that is open at this depth, if one is."""
        if self._open and self._open[-1] == _ARTICLE_END:
            yield Fragment(Html(self._open.pop()))

    def _ended(self) -> Html:
        """Return the end of an agent or a branch."""
        self._depth -= 1
        return Html(self._open.pop())

    def _turn(self, turn: Turn) -> Fragment:
        time = next((m.time for m in turn.messages if m.time), None)
        parts = []
        if time is not None:
            parts.append(clock(time, self._setting.zone, self._day))
            self._day = time
        parts.append(lasting(turn.duration) if turn.duration else "")
        parts.append(f"{tokens(turn.usage.total)} tokens" if turn.usage.total else "")
        parts.append(self._bill.turn(turn))
        line = facts(parts)
        if self._depth:
            return Fragment(tag("p", line, kind="turn"))
        id_ = f"t-{turn.number}"
        link = f'<a href="#{id_}">{line or "…"}</a>'
        told = f'<h2 class="turn" id="{id_}">{link}</h2>'
        return Fragment(Html(told), turn=turn.number)

    def _said(self, step: Said) -> Iterator[Fragment]:
        message = step.message
        id_ = anchor("m", message.id)
        top = "" if self._depth else id_
        if message.role is not Role.ASSISTANT:
            heard = told(message, self._setting.teller)
            if heard is not None:
                head = self._head(message, heard.who, id_) if heard.who else NOTHING
                shown = Html(
                    f'<article class="{heard.kind}" id="{id_}">'
                    f"{head}{heard.html}</article>"
                )
                yield Fragment(shown, top)
            return
        self._open.append(_ARTICLE_END)
        bad = " bad" if message.is_error else ""
        head = self._head(message, "Claude", id_)
        shown = Html(f'<article class="answer{bad}" id="{id_}">{head}')
        yield Fragment(shown, top)

    def _head(self, message: Message, who: str, id_: str) -> Html:
        time = message.time
        stamp = NOTHING
        if time is not None:
            zone = self._setting.zone
            when = time if time.tzinfo is zone else time.astimezone(zone)
            stamp = Html(
                f'<time datetime="{time.isoformat()}">'
                f"{when.hour:02}:{when.minute:02}</time>"
            )
        return Html(
            f"<header><b>{words(who)}</b> "
            f'<a href="#{id_}">{stamp or "link"}</a></header>'
        )

    def _agent(self, step: AgentMet) -> Html:
        run = step.run
        if step.is_again:
            return tag("p", words(f"goes on with agent {run.id}"), kind="note")
        name = ": ".join(filter(None, (run.type, run.description))) or run.id
        id_ = anchor("a", run.id)
        called = tag("b", words(name))
        if self._setting.agents and not step.is_whole:
            called = tag("a", called, href=f"{self._setting.agents}{id_}")
        went = facts([*agent_facts(run), self._bill.run(run)])
        told = f"{called} " + tag("span", went, kind="facts")
        if not step.is_whole:
            return Html(f'<p class="agent" id="{id_}">{told}</p>')
        self._open.append("</div></details>")
        self._depth += 1
        return Html(f'<details class="agent" id="{id_}"><summary>{told}</summary><div>')

    def _fork(self, step: Forked) -> Html:
        if not step.is_whole:
            return self._left(step.branch)
        self._open.append("</div></fieldset>")
        self._depth += 1
        return _switch(step.branch, fork_words(step.branch))

    def _left(
        self, branch: Branch | BranchFacts, after: RecordId | None = None
    ) -> Html:
        """Return the line that leads to a branch which goes another way from here."""
        way = "The live branch goes on" if branch.is_live else "Rewound"
        line = words(f"{way} from here: {fork_words(branch)}")
        if self._setting.branches:
            fork = f"&at={anchor('m', after)}" if after is not None else ""
            to = f"{self._setting.branches}{branch.number}{fork}"
            line = tag("a", line, href=to)
        return Html(f'<p class="mark fork">{line}</p>')


_ARTICLE_END = "</article>"


def _switch(branch: Branch, told: str) -> Html:
    """Return the beginning of a branch that shows when it is chosen, without script."""
    id_ = anchor("b", branch.id)
    live = "the live branch goes on below"
    return Html(
        f'<fieldset class="fork" id="{id_}">'
        f"<legend>A rewind</legend>"
        f'<label><input type="radio" name="{id_}" checked> {words(live)}</label>'
        f'<label><input type="radio" name="{id_}" class="other"> '
        f"{words(f'branch {branch.number}, left behind: {told}')}</label>"
        '<div class="branch">'
    )


def _block(block: Block, *, is_error: bool) -> Html:
    if isinstance(block, Text):
        said = (block.text or "").strip("\n")
        if not said.strip():
            return NOTHING
        return tag("p", text(said), kind="bad") if is_error else prose(said)
    if isinstance(block, Thinking):
        thought = (block.thinking or "").strip("\n")
        if not thought.strip():
            return NOTHING
        count = several(len(thought.splitlines()), "line")
        return fold(words(f"Thought, {count}"), typed(thought), "thought")
    return picture(block)
