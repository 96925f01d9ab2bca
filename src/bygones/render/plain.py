"""A session as text for people: rows of styled spans, wrapped or not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, tzinfo

from msgspec import Struct

from bygones.model.blocks import Block, Text, Thinking
from bygones.model.sessions import AgentRun, Role, Session, ToolCall, Turn
from bygones.model.texts import Origin
from bygones.render.details import answered, given
from bygones.render.figures import clock, lasting, tokens
from bygones.render.heads import agent_facts, fork_words, heading, listed
from bygones.render.heard import Heard, cut, heard
from bygones.render.lines import call_rows
from bygones.render.prose import prose
from bygones.render.safe import safe_line
from bygones.render.spans import Row, Span, Style, row, text_of
from bygones.render.tools import CallLines
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
from bygones.render.widths import width, wrap
from bygones.render.words import Teller, as_it_stands, block_note

__all__ = ["Page", "plain", "rows"]

_WIDEST = 100
"""Columns beyond which prose is not set, however wide the terminal."""
_AGENT_LINES = 3
_DEEPEST = 6
"""Bars that stand before a line at most."""


class Page(Struct, frozen=True, kw_only=True):
    """For whom the text is set."""

    width: int | None = None
    """Columns of the terminal; ``None`` for a pipe, where nothing is wrapped."""
    zone: tzinfo | None = UTC
    """Of the times; ``None`` for that of the machine."""
    teller: Teller = as_it_stands


def plain(session: Session, view: View | None = None, page: Page | None = None) -> str:
    """Return a session as one text, 80 columns wide and in UTC unless told else."""
    chosen = page or Page(width=80)
    texts = (text_of(spans) for spans in rows(session, view or View(), chosen))
    return "".join(f"{text}\n" for text in texts)


def rows(session: Session, view: View, page: Page) -> Iterator[Row]:
    """Yield the lines of a session as it is walked, step by step."""
    setter = _Setter(session, view, page)
    for step in walk(session, view):
        yield from setter.set(step)
    yield from setter.flush()


class _Setter:
    """Sets one session; remembers what stands above the next line."""

    def __init__(self, session: Session, view: View, page: Page) -> None:
        self._session = session
        self._view = view
        self._page = page
        self._lines = CallLines(session.project)
        self._bars: list[Span] = []
        self._above = ""
        self._day: datetime | None = None
        self._failures = 0

    def set(self, step: Step) -> Iterator[Row]:
        if isinstance(step, Said) and step.message.notice == "api_error":
            self._failures += 1
            return
        yield from self.flush()
        match step:
            case Said() | BlockMet() | Called():
                yield from self._content(step)
            case Start():
                yield from self._put("head", self._head(step))
            case TurnStart():
                # An agent's head has told already what its first turn would.
                if self._above or not self._is_agent:
                    yield from self._put("turn", self._turn(step.turn))
            case AgentMet():
                yield from self._agent(step)
            case Forked():
                yield from self._fork(step)
            case AgentEnd() | LeftEnd():
                yield from self._close()
            case Orphans():
                told = "Agents that no call here is known to have started"
                yield from self._put("head", [row(Span(told, Style.HEADING))])

    def flush(self) -> Iterator[Row]:
        """Yield what was held back: failures in a row are told once."""
        if self._failures:
            times = f" {self._failures} times in a row" if self._failures > 1 else ""
            failed = row(Span(f"• the API failed{times}", Style.ALERT))
            self._failures = 0
            yield from self._put("notice", [failed], is_close=True)

    def _content(self, step: Said | BlockMet | Called) -> Iterator[Row]:
        match step:
            case Said(message=message):
                if message.role is not Role.ASSISTANT:
                    is_news = message.origin is Origin.NOTIFICATION
                    kind = "notice" if is_news else "heard"
                    found = heard(message, self._heard)
                    yield from self._put(kind, found, is_close=is_news)
            case BlockMet(message=message, block=block):
                yield from self._block(block, is_error=message.is_error)
            case Called(call=call):
                found = self._call(call)
                yield from self._put("call", found, is_close=not self._view.tools)

    @property
    def _is_agent(self) -> bool:
        """Whether the next line is an agent's."""
        return bool(self._bars) and self._bars[-1].style is Style.AGENT

    @property
    def _room(self) -> int | None:
        """Columns that are left for a line."""
        if self._page.width is None:
            return None
        bars = sum(width(bar.text) for bar in self._bars[:_DEEPEST])
        return max(self._page.width - bars, 20)

    @property
    def _heard(self) -> Heard:
        return Heard(
            room=_limited(self._room),
            teller=self._page.teller,
            is_full=self._view.tools,
        )

    def _put(
        self, kind: str, lines: Iterable[Row], *, is_close: bool = False
    ) -> Iterator[Row]:
        """Yield lines behind their bars, parted from what is above them.

        Those that are close stand right below lines of their own kind.
        """
        bars = tuple(self._bars[:_DEEPEST])
        gap = bool(self._above) and not (is_close and self._above == kind)
        for spans in lines:
            if gap:
                yield bars
                gap = False
            yield bars + spans
            self._above = kind

    def _head(self, start: Start) -> Iterator[Row]:
        yield from heading(start.session, start.branch, self._page.zone, self._room)
        if start.turns:
            yield row(Span(start.turns, Style.FACT))

    def _turn(self, turn: Turn) -> Iterator[Row]:
        time = next((m.time for m in turn.messages if m.time), None)
        facts = []
        if time is not None:
            facts.append(clock(time, self._page.zone, self._day))
            self._day = time
        if turn.duration:
            facts.append(lasting(turn.duration))
        if turn.usage.total:
            facts.append(f"{tokens(turn.usage.total)} tokens")
        room = _limited(self._room) or 60
        line = f"── {' · '.join(facts)} " if facts else ""
        yield row(Span(line + "─" * max(3, room - width(line)), Style.FACT))

    def _block(self, block: Block, *, is_error: bool) -> Iterator[Row]:
        room = _limited(self._room)
        if isinstance(block, Text):
            style = Style.ALERT if is_error else Style.PLAIN
            found = prose((block.text or "").strip("\n"), room, style)
        elif isinstance(block, Thinking):
            if not self._view.thinking:
                return
            found = prose((block.thinking or "").strip("\n"), room, Style.THINKING)
        else:
            note = safe_line(block_note(block))
            found = iter([Span(note, Style.FACT)] if note else [])
        lines = [row(span) for span in found]
        if any(span.text for spans in lines for span in spans):
            yield from self._put("text", lines)

    def _call(self, call: ToolCall) -> Iterator[Row]:
        yield from call_rows(self._lines.line(call), self._room)
        if self._view.tools:
            for span in given(call):
                yield row(Span("    ┆ ", Style.FACT), span)
            for span in answered(call):
                yield row(Span("    │ ", Style.FACT), span)

    def _agent(self, step: AgentMet) -> Iterator[Row]:
        run = step.run
        if step.is_again:
            told = f"goes on with agent {safe_line(run.id)}"
            yield from self._put("call", [_below(told)], is_close=True)
            return
        lines = list(self._agent_head(step))
        if not step.is_whole:
            lines.extend(self._last_words(run))
        yield from self._put("call", lines, is_close=True)
        if step.is_whole:
            self._bars.append(Span("  │ ", Style.AGENT))
            self._above = ""

    def _agent_head(self, step: AgentMet) -> Iterator[Row]:
        run = step.run
        facts = agent_facts(run)
        name = ": ".join(filter(None, (run.type, run.description))) or run.id
        if step.call is None:
            yield row("  ", Span("Agent ", Style.TOOL), safe_line(name))
        elif len(step.call.agents) > 1:
            # One agent is named by its call's line; of several, each needs its own.
            facts = [name, *facts]
        room = self._room - 4 if self._room else None
        mark = "  ╰ "
        for line in listed(facts, room):
            yield row(Span(mark, Style.FACT), Span(line, Style.AGENT))
            mark = "    "

    def _last_words(self, run: AgentRun) -> Iterator[Row]:
        """Yield the beginning of an agent's final answer."""
        words = _final_text(run)
        if words:
            room = self._room - 2 if self._room else None
            how = Heard(room=_limited(room), teller=self._page.teller)
            for spans in cut(words, how, "--agents shows all", most=_AGENT_LINES):
                yield row("  ", *spans)

    def _fork(self, step: Forked) -> Iterator[Row]:
        branch = step.branch
        words = fork_words(branch)
        if step.is_whole:
            told = f"╭ rewound, branch {branch.number}: {words}"
        elif branch.is_live:
            told = f"╰ the live branch goes on from here: {words}"
        else:
            where = f"--branch {branch.number}" if not self._bars else "--all"
            told = f"╰ rewound: {words} — show with {where}"
        yield from self._put("fork", self._fork_rows(told))
        if step.is_whole:
            self._bars.append(Span("│ ", Style.FORK))
            self._above = ""

    def _fork_rows(self, told: str) -> Iterator[Row]:
        room = _limited(self._room)
        hang = "│ " if told.startswith("╭") else "  "
        for line in [told] if room is None else wrap(told, room, hang=hang):
            yield row(Span(line, Style.FORK))

    def _close(self) -> Iterator[Row]:
        bar = self._bars.pop()
        sign = bar.text.replace("│", "╰")
        bars = tuple(self._bars[:_DEEPEST])
        yield (*bars, Span(f"{sign.rstrip()}──", bar.style))
        self._above = "end"


def _limited(room: int | None) -> int | None:
    return None if room is None else min(room, _WIDEST)


def _below(words: str) -> Row:
    return row(Span(f"  ╰ {words}", Style.FACT))


def _final_text(run: AgentRun) -> str:
    for turn in reversed(run.live.turns):
        for message in reversed(turn.messages):
            if message.role is not Role.ASSISTANT:
                continue
            texts = [b.text for b in message.blocks if isinstance(b, Text) and b.text]
            if texts:
                lines = "\n".join(texts).splitlines()
                return "\n".join(line for line in lines if line.strip(" -*_=#"))
    return ""
