"""Prompts, commands and notices as styled lines."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from bygones.model.records import TextBlock
from bygones.model.sessions import Message
from bygones.render.message_text import (
    CONTINUATION,
    INTERRUPTED,
    TextParser,
    attached_texts,
    describe_block,
    describe_compaction,
    describe_expansion,
    describe_notice,
    describe_notification,
    describe_orphan_result,
    prompt_text,
    system_text,
)
from bygones.render.numbers import pluralize
from bygones.render.step_renderer import SystemMessageRenderer
from bygones.render.text.primitives import (
    SpanStyle,
    StyledLine,
    StyledSpan,
    sanitized_lines,
    styled_line,
    truncate_end,
    wrap_markdown,
)

_MAX_OUTPUT_LINES = 8
_SHOW_ALL_HINT = "--tools shows all"


class MessageLayout(Struct, frozen=True, kw_only=True):
    max_width: int | None
    text_parser: TextParser
    is_full: bool = False
    """Whether outputs are shown completely."""


class TextSystemMessages(SystemMessageRenderer[Iterator[StyledLine]]):
    def __init__(self, layout: MessageLayout) -> None:
        self._layout = layout

    def prompt(self, message: Message) -> Iterator[StyledLine]:
        notes: list[str] = []
        if message.is_steering:
            yield styled_line(StyledSpan("while Claude was at work:", SpanStyle.META))
        else:
            notes = [
                describe_block(block)
                for block in message.blocks
                if not isinstance(block, TextBlock)
            ]
        text = prompt_text(message, self._layout.text_parser)
        yield from self._render_typed("\n".join(filter(None, (text, *notes))))

    def agent_task(self, message: Message) -> Iterator[StyledLine]:
        return self.prompt(message)

    def command(self, message: Message) -> Iterator[StyledLine]:
        command = message.command
        typed = f"{command.name} {command.args}".strip() if command else message.preview
        yield from self._render_typed(typed)
        yield from self._render_attached(message)

    def shell(self, message: Message) -> Iterator[StyledLine]:
        yield from self._render_typed(f"! {self._system_text(message)}")
        yield from self._render_attached(message)

    def memory(self, message: Message) -> Iterator[StyledLine]:
        yield from self._render_typed(f"# {self._system_text(message)}")

    def command_output(self, message: Message) -> Iterator[StyledLine]:
        yield from self._render_truncated(self._system_text(message))

    def interrupt(self, _message: Message) -> Iterator[StyledLine]:
        yield styled_line(StyledSpan(INTERRUPTED, SpanStyle.WARNING))

    def compaction(self, message: Message) -> Iterator[StyledLine]:
        line = f"── {describe_compaction(message)} ──"
        yield styled_line(StyledSpan(line, SpanStyle.FORK))
        _, summary = attached_texts(message, self._layout.text_parser)
        if summary and self._layout.is_full:
            yield from _render_output_lines(summary)
        elif summary:
            count = pluralize(len(summary.splitlines()), "line")
            note = f"a digest of {count}; --tools shows it"
            yield styled_line("  ", StyledSpan(note, SpanStyle.META))

    def continuation(self, message: Message) -> Iterator[StyledLine]:
        yield styled_line(StyledSpan(f"── {CONTINUATION} ──", SpanStyle.META))
        if self._layout.is_full:
            yield from _render_output_lines(self._system_text(message))

    def notification(self, message: Message) -> Iterator[StyledLine]:
        text = describe_notification(message, self._layout.text_parser)
        yield self._render_muted(f"• {text}")

    def teammate(self, message: Message) -> Iterator[StyledLine]:
        yield styled_line(StyledSpan("• from a teammate:", SpanStyle.META))
        yield from self._render_truncated(self._system_text(message))

    def orphan_result(self, message: Message) -> Iterator[StyledLine]:
        yield self._render_muted(describe_orphan_result(message))

    def notice(self, message: Message) -> Iterator[StyledLine]:
        text, is_failure = describe_notice(message, self._layout.text_parser)
        if text:
            style = SpanStyle.WARNING if is_failure else SpanStyle.META
            for line in wrap_markdown(f"• {text}", self._layout.max_width, style):
                yield styled_line(line)

    def _system_text(self, message: Message) -> str:
        return system_text(message, self._layout.text_parser)

    def _render_typed(self, text: str) -> Iterator[StyledLine]:
        max_width = self._layout.max_width
        width = max_width - 2 if max_width is not None else None
        for line in wrap_markdown(text.strip("\n"), width, SpanStyle.PROMPT):
            yield styled_line(
                StyledSpan("▌ ", SpanStyle.PROMPT),
                StyledSpan(line.text, SpanStyle.PROMPT),
            )

    def _render_attached(self, message: Message) -> Iterator[StyledLine]:
        output, expansion = attached_texts(message, self._layout.text_parser)
        if output.strip():
            yield from self._render_truncated(output)
        if not expansion.strip():
            return
        if self._layout.is_full:
            yield from _render_output_lines(expansion)
        else:
            note = f"{describe_expansion(expansion)}; {_SHOW_ALL_HINT}"
            yield styled_line("  ", StyledSpan(note, SpanStyle.META))

    def _render_truncated(self, text: str) -> Iterator[StyledLine]:
        return render_truncated(text, self._layout, _SHOW_ALL_HINT)

    def _render_muted(self, text: str) -> StyledLine:
        max_width = self._layout.max_width
        if max_width is not None:
            text = truncate_end(text, max_width)
        return styled_line(StyledSpan(text, SpanStyle.META))


def _render_output_lines(text: str) -> Iterator[StyledLine]:
    for line in sanitized_lines(text.strip("\n")):
        yield styled_line("  ", StyledSpan(line, SpanStyle.OUTPUT))


def render_truncated(
    text: str, layout: MessageLayout, hint: str, max_lines: int = _MAX_OUTPUT_LINES
) -> Iterator[StyledLine]:
    """Yield the first lines of an output, and how many more there are."""
    max_width = layout.max_width
    lines = list(sanitized_lines(text.strip("\n"), keep_tabs=max_width is None))
    is_complete = layout.is_full or len(lines) <= max_lines + 1
    shown = lines if is_complete else lines[:max_lines]
    for line in shown:
        text = line
        if max_width is not None and not layout.is_full:
            text = truncate_end(line, max_width - 2)
        yield styled_line("  ", StyledSpan(text, SpanStyle.OUTPUT))
    if len(shown) < len(lines):
        rest = pluralize(len(lines) - len(shown), "more line")
        yield styled_line("  ", StyledSpan(f"… {rest}; {hint}", SpanStyle.META))
