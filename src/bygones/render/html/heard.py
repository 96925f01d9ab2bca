"""Messages that are no answers: prompts, commands, notices, news."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from bygones.model.sessions import Message
from bygones.model.texts import Origin
from bygones.render.figures import several
from bygones.render.heard import (
    compaction_words,
    kind_of,
    news_words,
    notice_words,
)
from bygones.render.html.markup import NOTHING, Html, fold, joined, tag, text, words
from bygones.render.html.outputs import output, pictures
from bygones.render.html.prose import prose, typed
from bygones.render.words import Teller, attached, said
from bygones.render.words import typed as typed_words

__all__ = ["Told", "told"]

_CALLER_LINES = 12
"""Lines of what was asked of an agent beyond which they fold."""


class Told(Struct, frozen=True):
    """A message as markup: what it is, who made it, what it says."""

    kind: str
    """Its class: prompt, command, notice and so on."""
    who: str
    html: Html


def told(message: Message, teller: Teller) -> Told | None:
    """Return a message that is no answer; ``None`` if it says nothing."""
    if message.compaction is not None:
        return _compaction(message, teller)
    return _MAKERS.get(kind_of(message), _notice)(message, teller)


def _prompt(message: Message, teller: Teller) -> Told:
    shown = joined((typed(typed_words(message, teller)), pictures(message.blocks)))
    who = "You, while Claude was at work" if message.is_steering else "You"
    return Told("prompt", who, shown)


def _caller(message: Message, teller: Teller) -> Told:
    asked = typed_words(message, teller)
    shown = typed(asked)
    count = asked.count("\n") + 1
    if count > _CALLER_LINES:
        shown = fold(words(f"The task, {several(count, 'line')}"), shown, "more")
    return Told("prompt caller", "Task", shown)


def _command(message: Message, teller: Teller) -> Told:
    command = message.command
    name = command.name if command else message.head
    args = command.args if command else ""
    line = joined((tag("code", words(name)), text(args)), " ")
    shown = tag("div", line, kind="typed")
    return Told("prompt command", "You", joined((shown, _attached(message, teller))))


def _attached(message: Message, teller: Teller) -> Html:
    printed, meant = attached(message, teller)
    stood = NOTHING
    if meant.strip():
        count = several(len(meant.splitlines()), "line")
        stood = fold(words(f"It put {count} before Claude"), typed(meant), "more")
    return joined((output(printed), stood))


def _shell(message: Message, teller: Teller) -> Told:
    line = tag("pre", text(f"! {said(message, teller)}"), kind="command")
    return Told("prompt command", "You", joined((line, _attached(message, teller))))


def _memory(message: Message, teller: Teller) -> Told:
    return Told("prompt command", "You", typed(f"# {said(message, teller)}"))


def _output(message: Message, teller: Teller) -> Told:
    return Told("notice", "", output(said(message, teller)))


def _interrupt(_message: Message, _teller: Teller) -> Told:
    return Told("notice bad", "", words("✗ interrupted by the user"))


def _news(message: Message, teller: Teller) -> Told:
    return Told("notice", "", words(f"• {news_words(message, teller)}"))


def _teammate(message: Message, teller: Teller) -> Told:
    return Told("notice", "A teammate", output(said(message, teller)))


def _lost(message: Message, _teller: Teller) -> Told:
    head = f": {message.head}" if message.head else ""
    return Told("notice", "", words(f"• a result that answers no known call{head}"))


def _digest(message: Message, teller: Teller) -> Told:
    told = prose(said(message, teller))
    return Told("mark", "", fold(words("goes on after a compaction"), told, "more"))


def _compaction(message: Message, teller: Teller) -> Told:
    line = words(compaction_words(message))
    _, digest = attached(message, teller)
    return Told("mark", "", fold(line, prose(digest), "more") if digest else line)


def _notice(message: Message, teller: Teller) -> Told | None:
    line, is_bad = notice_words(message, teller)
    if not line:
        return None
    return Told("notice bad" if is_bad else "notice", "", words(f"• {line}"))


_MAKERS: dict[Origin, Callable[[Message, Teller], Told | None]] = {
    Origin.PERSON: _prompt,
    Origin.CALLER: _caller,
    Origin.COMMAND: _command,
    Origin.COMMAND_OUTPUT: _output,
    Origin.SHELL: _shell,
    Origin.SHELL_OUTPUT: _output,
    Origin.MEMORY: _memory,
    Origin.INTERRUPT: _interrupt,
    Origin.COMPACTION: _digest,
    Origin.NOTIFICATION: _news,
    Origin.TEAMMATE: _teammate,
    Origin.TOOL: _lost,
}
