"""Messages as text for agents: who, when, what, and a line for each call."""

from __future__ import annotations

from collections.abc import Iterator

from bygones.mcp.naming import Way
from bygones.mcp.quoting import Quoted
from bygones.model.blocks import Text, Thinking
from bygones.model.sessions import Message, Role, Session, ToolCall
from bygones.model.texts import Origin
from bygones.parse import read_text
from bygones.render.details import answered, given
from bygones.render.heads import agent_facts
from bygones.render.heard import Heard, heard
from bygones.render.lines import call_rows
from bygones.render.safe import safe, safe_line
from bygones.render.spans import text_of
from bygones.render.tools import CallLines
from bygones.render.words import block_note, typed

__all__ = ["Teller", "first_line", "is_ours"]

_OURS = "bygones__"
"""What a tool's name holds where an agent called us."""


_SAID = "| "
"""Before every line that somebody said: only what begins without it is ours."""
_THOUGHT = "~ "
"""Before every line that Claude thought."""


def _marked(text: str, mark: str) -> list[str]:
    """Return the lines of a text, each behind a mark that it cannot take away."""
    told = safe(text).strip("\n")
    return [mark + line for line in told.split("\n")] if told else []


def is_ours(tool: str) -> bool:
    """Whether a call asked for what was recalled before; its output is no history."""
    return tool.startswith("mcp__") and _OURS in tool


def first_line(text: str, most: int) -> str:
    """Return the beginning of a text on one line, and whether there is more."""
    line = safe_line(text[: most * 4])
    return line if len(line) <= most else line[: most - 1].rstrip() + "…"


class _Lines(CallLines):
    """Lines about calls that do not depend on the calls before them."""

    def share(self) -> str:
        """Return nothing: a slice does not know of the tasks before it."""
        return ""


class Teller:
    """Tells the messages of one way, each by itself."""

    def __init__(self, session: Session, way: Way, detail: str) -> None:
        self._way = way
        self._lines = _Lines(session.project)
        self._detail = detail
        self._heard = Heard(room=None, teller=read_text, is_full=detail == "full")

    def rows(self, start: int) -> Iterator[Quoted]:
        """Yield the messages from one on, without those that say nothing."""
        for number in range(start, len(self._way.messages)):
            text = self._text(number)
            if text:
                yield Quoted(self._way.names.name(number), text)

    def _text(self, number: int) -> str:
        message = self._way.messages[number]
        who, parts = self._told(message)
        rows = [row for part in parts for row in part]
        if not rows:
            return ""
        name = f"#{self._way.names.name(number)}"
        head = " ".join(filter(None, [name, self._when(number), who]))
        if len(rows) == 1 and rows[0].startswith(_SAID):
            return f"{head}: {rows[0].removeprefix(_SAID)}\n"
        return "\n".join([f"{head}:", *rows]) + "\n"

    def _when(self, number: int) -> str:
        """Return the time of day, with the day where it is not that of the last."""
        time = self._way.messages[number].time
        if time is None:
            return ""
        before = self._way.messages[number - 1].time if number else None
        is_same = before is not None and before.date() == time.date()
        return f"{time:%H:%M}" if is_same else f"{time:%Y-%m-%d %H:%M}"

    def _told(self, message: Message) -> tuple[str, list[list[str]]]:
        if message.role is Role.ASSISTANT:
            return "Claude", list(self._answer(message))
        if message.is_prompt:
            who = "prompt"
            if message.origin is Origin.CALLER:
                who = "caller"
            elif message.is_steering:
                who = "prompt while Claude worked"
            notes = [block_note(b) for b in message.blocks if not isinstance(b, Text)]
            notes = [f"  {note}" for note in notes if note]
            return who, [_marked(typed(message, read_text), _SAID), notes]
        if self._detail == "talk" and message.compaction is None:
            return "", []
        lines = (text_of(row) for row in heard(message, self._heard))
        told = "\n".join(lines)
        return str(message.origin or "notice"), [_marked(told, _SAID)]

    def _answer(self, message: Message) -> Iterator[list[str]]:
        for block in message.blocks:
            if isinstance(block, Text):
                yield _marked(block.text or "", _SAID)
            elif isinstance(block, Thinking) and self._detail == "full":
                yield _marked(block.thinking or "", _THOUGHT)
        if self._detail != "talk":
            for call in message.calls:
                yield list(self._call(call))

    def _call(self, call: ToolCall) -> Iterator[str]:
        for row in call_rows(self._lines.line(call), None):
            yield text_of(row)
        if self._detail == "full":
            if is_ours(call.name):
                yield "    (recalled history: left out)"
            else:
                yield from (f"    > {span.text}" for span in given(call))
                yield from (f"    | {span.text}" for span in answered(call))
        for run in call.agents:
            if run.kind.is_shown:
                facts = ", ".join(filter(None, agent_facts(run)))
                yield f"    agent {safe_line(run.id)}: {safe_line(facts)}"
