"""Messages that are no answers: prompts, commands, notices, news."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import Struct

from bygones.model.blocks import Text
from bygones.model.sessions import Message
from bygones.model.texts import Origin
from bygones.render.figures import several, tokens
from bygones.render.prose import prose, unwrapped
from bygones.render.safe import safe_line
from bygones.render.spans import Row, Span, Style, row
from bygones.render.widths import fit_right
from bygones.render.words import Teller, attached, block_note, said, typed

__all__ = [
    "Heard",
    "compaction_words",
    "cut",
    "heard",
    "kind_of",
    "news_words",
    "notice_words",
]

_OUTPUT_LINES = 8
_NOTICES = {
    "hook_blocking_error": "a hook stopped this",
    "hook_non_blocking_error": "a hook failed",
    "structured_output": "an answer in the form that was asked for",
    "agents_killed": "the agents were stopped",
    "model_refusal_fallback": "the model declined; another one answered",
    "model_refusal_no_fallback": "the model declined",
    "model_consent_fallback": "another model went on",
    "scheduled_task_fire": "a scheduled task began",
}


class Heard(Struct, frozen=True, kw_only=True):
    """How messages are set: in which room, and how much of them."""

    room: int | None
    teller: Teller
    is_full: bool = False
    """Whether outputs are shown whole."""


def heard(message: Message, how: Heard) -> Iterator[Row]:
    """Yield the lines of a message that is no answer."""
    if message.compaction is not None:
        return _compaction(message, how)
    return _MAKERS.get(kind_of(message), _notice)(message, how)


def kind_of(message: Message) -> Origin:
    """Return as whose message one is shown."""
    origin = message.origin or Origin.HARNESS
    if message.command is not None and origin not in _MAKERS:
        return Origin.COMMAND
    return origin


def _prompt(message: Message, how: Heard) -> Iterator[Row]:
    if message.is_steering:
        yield row(Span("while Claude was at work:", Style.FACT))
    text = typed(message, how.teller)
    notes = [] if message.is_steering else list(_notes(message))
    yield from _marked("\n".join(filter(None, (text, *notes))), how)


def _notes(message: Message) -> Iterator[str]:
    """Yield notes on pictures and the like that came with a prompt."""
    for block in message.blocks:
        if not isinstance(block, Text):
            yield block_note(block)


def _marked(text: str, how: Heard) -> Iterator[Row]:
    room = how.room - 2 if how.room is not None else None
    for line in prose(text.strip("\n"), room, Style.PROMPT):
        yield row(Span("▌ ", Style.PROMPT), Span(line.text, Style.PROMPT))


def _command(message: Message, how: Heard) -> Iterator[Row]:
    command = message.command
    words = f"{command.name} {command.args}".strip() if command else message.head
    yield from _marked(words, how)
    yield from _attached(message, how)


def _attached(message: Message, how: Heard) -> Iterator[Row]:
    printed, meant = attached(message, how.teller)
    if printed.strip():
        yield from cut(printed, how, "--tools shows all")
    if meant.strip():
        if how.is_full:
            yield from _lines(meant)
        else:
            count = several(len(meant.splitlines()), "line")
            told = f"it put {count} before Claude; --tools shows all"
            yield row("  ", Span(told, Style.FACT))


def _shell(message: Message, how: Heard) -> Iterator[Row]:
    yield from _marked(f"! {said(message, how.teller)}", how)
    yield from _attached(message, how)


def _memory(message: Message, how: Heard) -> Iterator[Row]:
    yield from _marked(f"# {said(message, how.teller)}", how)


def _output(message: Message, how: Heard) -> Iterator[Row]:
    yield from cut(said(message, how.teller), how, "--tools shows all")


def _interrupt(_message: Message, _how: Heard) -> Iterator[Row]:
    yield row(Span("✗ interrupted by the user", Style.ALERT))


def _news(message: Message, how: Heard) -> Iterator[Row]:
    yield from _dim(f"• {news_words(message, how.teller)}", how)


def news_words(message: Message, teller: Teller) -> str:
    """Return what became of a task in the background, on one line."""
    news = message.notification
    words = safe_line((news.summary if news else "") or said(message, teller))
    if not words and news is not None:
        words = safe_line(f"task {news.task} {news.status}")
    return words


def _teammate(message: Message, how: Heard) -> Iterator[Row]:
    yield row(Span("• from a teammate:", Style.FACT))
    yield from cut(said(message, how.teller), how, "--tools shows all")


def _lost(message: Message, how: Heard) -> Iterator[Row]:
    words = safe_line(message.head)
    told = f"• a result that answers no known call{': ' if words else ''}{words}"
    yield from _dim(told, how)


def _digest(message: Message, how: Heard) -> Iterator[Row]:
    yield row(Span("── goes on after a compaction ──", Style.FACT))
    if how.is_full:
        yield from _lines(said(message, how.teller))


def compaction_words(message: Message) -> str:
    """Return who compacted a conversation, and what that saved."""
    facts = message.compaction
    trigger = {"auto": "automatically", "manual": "by the user"}
    words = ["compacted"]
    if facts is not None and facts.trigger:
        words.append(trigger.get(facts.trigger, f"({safe_line(facts.trigger)})"))
    if facts is not None and facts.before is not None:
        after = f" → {tokens(facts.after)}" if facts.after is not None else ""
        words.append(f"· {tokens(facts.before)}{after} tokens")
    return " ".join(words)


def _compaction(message: Message, how: Heard) -> Iterator[Row]:
    yield row(Span(f"── {compaction_words(message)} ──", Style.FORK))
    _, digest = attached(message, how.teller)
    if digest and how.is_full:
        yield from _lines(digest)
    elif digest:
        count = several(len(digest.splitlines()), "line")
        yield row("  ", Span(f"a digest of {count}; --tools shows it", Style.FACT))


def _notice(message: Message, how: Heard) -> Iterator[Row]:
    told, is_bad = notice_words(message, how.teller)
    if told:
        style = Style.ALERT if is_bad else Style.FACT
        for line in prose(f"• {told}", how.room, style):
            yield row(line)


def notice_words(message: Message, teller: Teller) -> tuple[str, bool]:
    """Return what a notice says on one line, and whether it is about a failure."""
    name = _NOTICES.get(message.notice or "", (message.notice or "").replace("_", " "))
    if message.notice in {"away_summary", "informational"}:
        name = ""
    is_bad = message.is_error or "error" in (message.notice or "")
    words = (safe_line(name), safe_line(said(message, teller)))
    return ": ".join(filter(None, words)), is_bad


def _dim(words: str, how: Heard) -> Iterator[Row]:
    told = words if how.room is None else fit_right(words, how.room)
    yield row(Span(told, Style.FACT))


def _lines(text: str) -> Iterator[Row]:
    for line in unwrapped(text.strip("\n")):
        yield row("  ", Span(line, Style.OUTPUT))


def cut(text: str, how: Heard, hint: str, most: int = _OUTPUT_LINES) -> Iterator[Row]:
    """Yield the first lines of an output, and how many more there are."""
    lines = list(unwrapped(text.strip("\n"), is_wide=how.room is None))
    shown = lines if how.is_full or len(lines) <= most + 1 else lines[:most]
    for line in shown:
        told = line if how.room is None else fit_right(line, how.room - 2)
        yield row("  ", Span(line if how.is_full else told, Style.OUTPUT))
    if len(shown) < len(lines):
        rest = several(len(lines) - len(shown), "more line")
        yield row("  ", Span(f"… {rest}; {hint}", Style.FACT))


_MAKERS: dict[Origin, Callable[[Message, Heard], Iterator[Row]]] = {
    Origin.PERSON: _prompt,
    Origin.CALLER: _prompt,
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
