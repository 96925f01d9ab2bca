"""What messages say: the words of a side, told apart from what was put around them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from msgspec import Struct

from bygones.model.nodes import PREVIEW_LIMIT, Origin, UserText
from bygones.model.records import (
    Block,
    CompactionBlock,
    ContainerUploadBlock,
    DocumentBlock,
    FallbackBlock,
    ImageBlock,
    McpToolListingBlock,
    SearchResultBlock,
    TextBlock,
    ToolChangeBlock,
    ToolReferenceBlock,
    ToolResultBlock,
    ToolUseBlock,
    UnknownBlock,
)
from bygones.model.sessions import Message
from bygones.model.summary import RecordRef
from bygones.render.numbers import format_bytes, format_tokens, pluralize
from bygones.render.text.primitives import (
    SpanStyle,
    StyledLine,
    StyledSpan,
    sanitize_line,
    sanitized_lines,
    styled_line,
    truncate_end,
    wrap_markdown,
)

TextParser = Callable[[str], UserText]
"""Tells what a user text is and what in it a person typed: ``parse.read_text``."""


_NO_CONTENT = "(no content)"


def parse_as_typed(text: str) -> UserText:
    """Take a text for what a person typed, whole."""
    return UserText(Origin.PERSON, typed_text=text, output=text)


def prompt_text(message: Message, text_parser: TextParser) -> str:
    """Return what a person or a caller typed, exactly."""
    if len(message.preview) < PREVIEW_LIMIT:
        return message.preview
    tolds = [text_parser(text) for text in _texts(message.blocks)]
    words = "\n".join(told.typed_text for told in tolds if told.typed_text)
    return words if words.startswith(message.preview) else message.preview


def system_text(message: Message, text_parser: TextParser) -> str:
    """Return what any other message of the user's side or the system says."""
    if len(message.preview) < PREVIEW_LIMIT and message.preview:
        return message.preview
    tolds = [text_parser(text) for text in _texts(message.blocks)]
    words = "\n".join(told.output or told.typed_text for told in tolds).strip()
    return words or message.preview or "\n".join(_texts(message.blocks))


def attached_texts(message: Message, text_parser: TextParser) -> tuple[str, str]:
    """Return what a command printed, and what it stood for.

    A compaction's digest is what it stands for.
    """
    printed, meant = [], []
    for piece in message.attached_refs:
        for text in _texts(_piece_blocks(message, piece)):
            told = text_parser(text)
            if told.origin in {Origin.COMMAND_OUTPUT, Origin.SHELL_OUTPUT}:
                printed.append("" if told.output == _NO_CONTENT else told.output)
            elif told.origin in {Origin.PERSON, Origin.CALLER}:
                meant.append(told.typed_text)
            elif told.origin is Origin.COMPACTION:
                meant.append(text)
    return "\n".join(filter(None, printed)), "\n".join(filter(None, meant))


def _piece_blocks(message: Message, piece: RecordRef) -> Iterator[Block]:
    blocks = message.loader.load_blocks(piece.position)
    yield from (blocks[at] for at in piece.block_indexes if at < len(blocks))


def _texts(blocks: Iterable[Block]) -> Iterator[str]:
    yield from (
        block.text for block in blocks if isinstance(block, TextBlock) and block.text
    )


def result_text(result: ToolResultBlock | None) -> str:
    """Return what a tool answered, pictures and the like as notes."""
    content = result.content if result else None
    if content is None or isinstance(content, str):
        return content or ""
    parts = (b.text if isinstance(b, TextBlock) else describe_block(b) for b in content)
    return "\n".join(part for part in parts if part)


def describe_block(block: Block) -> str:
    """Return a few words for a block that is no text; none for what shows elsewhere."""
    match block:
        case ImageBlock(source=source):
            kind = (source.media_type if source else None) or "image"
            coded = (source.data if source else None) or ""
            bulk = len(coded) * 3 // 4 - coded[-4:].count("=")
            words = f"{kind}, {format_bytes(bulk)}" if bulk else kind
        case DocumentBlock():
            words = f"document {block.title or ''}"
        case SearchResultBlock():
            words = f"found {block.title or ''} {block.source or ''}"
        case ToolReferenceBlock():
            words = f"tool {block.tool_name or ''}"
        case ToolUseBlock():
            words = f"call of {block.name or 'no tool'}"
        case UnknownBlock():
            words = f"unknown block {block.type}"
        case _:
            words = _describe_rare_block(block)
    return f"[{words.strip()}]" if words else ""


def _describe_rare_block(block: Block) -> str:
    match block:
        case ContainerUploadBlock():
            return f"uploaded {block.file_id or ''}"
        case CompactionBlock():
            return "earlier context, digested by the API"
        case FallbackBlock():
            return f"another model went on{_reason_suffix(block.trigger)}"
        case ToolChangeBlock():
            change = "came" if block.type == "tool_addition" else "went"
            return f"tool {block.tool_name or ''} {change}"
        case McpToolListingBlock():
            return f"tools of {block.server_name or 'a server'}"
        case _:
            return ""


def _reason_suffix(trigger: str | None) -> str:
    return f": {trigger}" if trigger else ""


_MAX_OUTPUT_LINES = 8
_NOTICE_LABELS = {
    "hook_blocking_error": "a hook stopped this",
    "hook_non_blocking_error": "a hook failed",
    "structured_output": "an answer in the form that was asked for",
    "agents_killed": "the agents were stopped",
    "model_refusal_fallback": "the model declined; another one answered",
    "model_refusal_no_fallback": "the model declined",
    "model_consent_fallback": "another model went on",
    "scheduled_task_fire": "a scheduled task began",
}


class MessageLayout(Struct, frozen=True, kw_only=True):
    """How messages are set: in which room, and how much of them."""

    max_width: int | None
    text_parser: TextParser
    is_full: bool = False
    """Whether outputs are shown whole."""


def render_system_message(
    message: Message, layout: MessageLayout
) -> Iterator[StyledLine]:
    """Yield the lines of a message that is no answer."""
    if message.compaction is not None:
        return _render_compaction(message, layout)
    return _RENDERERS.get(display_origin(message), _render_notice)(message, layout)


def display_origin(message: Message) -> Origin:
    """Return as whose message one is shown."""
    origin = message.origin or Origin.HARNESS
    if message.command is not None and origin not in _RENDERERS:
        return Origin.COMMAND
    return origin


def _render_prompt(message: Message, layout: MessageLayout) -> Iterator[StyledLine]:
    if message.is_steering:
        yield styled_line(StyledSpan("while Claude was at work:", SpanStyle.META))
    text = prompt_text(message, layout.text_parser)
    notes = [] if message.is_steering else list(_attachment_notes(message))
    yield from _render_with_bar("\n".join(filter(None, (text, *notes))), layout)


def _attachment_notes(message: Message) -> Iterator[str]:
    """Yield notes on pictures and the like that came with a prompt."""
    for block in message.blocks:
        if not isinstance(block, TextBlock):
            yield describe_block(block)


def _render_with_bar(text: str, layout: MessageLayout) -> Iterator[StyledLine]:
    room = layout.max_width - 2 if layout.max_width is not None else None
    for line in wrap_markdown(text.strip("\n"), room, SpanStyle.PROMPT):
        yield styled_line(
            StyledSpan("▌ ", SpanStyle.PROMPT), StyledSpan(line.text, SpanStyle.PROMPT)
        )


def _render_command(message: Message, layout: MessageLayout) -> Iterator[StyledLine]:
    command = message.command
    words = f"{command.name} {command.args}".strip() if command else message.preview
    yield from _render_with_bar(words, layout)
    yield from _render_attached(message, layout)


def _render_attached(message: Message, layout: MessageLayout) -> Iterator[StyledLine]:
    printed, meant = attached_texts(message, layout.text_parser)
    if printed.strip():
        yield from render_truncated(printed, layout, "--tools shows all")
    if meant.strip():
        if layout.is_full:
            yield from _render_output_lines(meant)
        else:
            count = pluralize(len(meant.splitlines()), "line")
            told = f"it put {count} before Claude; --tools shows all"
            yield styled_line("  ", StyledSpan(told, SpanStyle.META))


def _render_shell(message: Message, layout: MessageLayout) -> Iterator[StyledLine]:
    yield from _render_with_bar(f"! {system_text(message, layout.text_parser)}", layout)
    yield from _render_attached(message, layout)


def _render_memory(message: Message, layout: MessageLayout) -> Iterator[StyledLine]:
    yield from _render_with_bar(f"# {system_text(message, layout.text_parser)}", layout)


def _render_command_output(
    message: Message, layout: MessageLayout
) -> Iterator[StyledLine]:
    yield from render_truncated(
        system_text(message, layout.text_parser), layout, "--tools shows all"
    )


def _render_interrupt(_message: Message, _how: MessageLayout) -> Iterator[StyledLine]:
    yield styled_line(StyledSpan("✗ interrupted by the user", SpanStyle.WARNING))


def _render_notification(
    message: Message, layout: MessageLayout
) -> Iterator[StyledLine]:
    yield from _render_muted(
        f"• {describe_notification(message, layout.text_parser)}", layout
    )


def describe_notification(message: Message, text_parser: TextParser) -> str:
    """Return what became of a task in the background, on one line."""
    news = message.notification
    words = sanitize_line(
        (news.summary if news else "") or system_text(message, text_parser)
    )
    if not words and news is not None:
        words = sanitize_line(f"task {news.task_id} {news.status}")
    return words


def _render_teammate(message: Message, layout: MessageLayout) -> Iterator[StyledLine]:
    yield styled_line(StyledSpan("• from a teammate:", SpanStyle.META))
    yield from render_truncated(
        system_text(message, layout.text_parser), layout, "--tools shows all"
    )


def _render_orphan_result(
    message: Message, layout: MessageLayout
) -> Iterator[StyledLine]:
    words = sanitize_line(message.preview)
    told = f"• a result that answers no known call{': ' if words else ''}{words}"
    yield from _render_muted(told, layout)


def _render_continuation(
    message: Message, layout: MessageLayout
) -> Iterator[StyledLine]:
    yield styled_line(StyledSpan("── goes on after a compaction ──", SpanStyle.META))
    if layout.is_full:
        yield from _render_output_lines(system_text(message, layout.text_parser))


def describe_compaction(message: Message) -> str:
    """Return who compacted a conversation, and what that saved."""
    facts = message.compaction
    trigger = {"auto": "automatically", "manual": "by the user"}
    words = ["compacted"]
    if facts is not None and facts.trigger:
        words.append(trigger.get(facts.trigger, f"({sanitize_line(facts.trigger)})"))
    if facts is not None and facts.tokens_before is not None:
        after = (
            f" → {format_tokens(facts.tokens_after)}"
            if facts.tokens_after is not None
            else ""
        )
        words.append(f"· {format_tokens(facts.tokens_before)}{after} tokens")
    return " ".join(words)


def _render_compaction(message: Message, layout: MessageLayout) -> Iterator[StyledLine]:
    yield styled_line(
        StyledSpan(f"── {describe_compaction(message)} ──", SpanStyle.FORK)
    )
    _, digest = attached_texts(message, layout.text_parser)
    if digest and layout.is_full:
        yield from _render_output_lines(digest)
    elif digest:
        count = pluralize(len(digest.splitlines()), "line")
        yield styled_line(
            "  ", StyledSpan(f"a digest of {count}; --tools shows it", SpanStyle.META)
        )


def _render_notice(message: Message, layout: MessageLayout) -> Iterator[StyledLine]:
    told, is_bad = describe_notice(message, layout.text_parser)
    if told:
        style = SpanStyle.WARNING if is_bad else SpanStyle.META
        for line in wrap_markdown(f"• {told}", layout.max_width, style):
            yield styled_line(line)


def describe_notice(message: Message, text_parser: TextParser) -> tuple[str, bool]:
    """Return what a notice says on one line, and whether it is about a failure."""
    name = _NOTICE_LABELS.get(
        message.system_subtype or "", (message.system_subtype or "").replace("_", " ")
    )
    if message.system_subtype in {"away_summary", "informational"}:
        name = ""
    is_bad = message.is_error or "error" in (message.system_subtype or "")
    words = (sanitize_line(name), sanitize_line(system_text(message, text_parser)))
    return ": ".join(filter(None, words)), is_bad


def _render_muted(text: str, layout: MessageLayout) -> Iterator[StyledLine]:
    told = text if layout.max_width is None else truncate_end(text, layout.max_width)
    yield styled_line(StyledSpan(told, SpanStyle.META))


def _render_output_lines(text: str) -> Iterator[StyledLine]:
    for line in sanitized_lines(text.strip("\n")):
        yield styled_line("  ", StyledSpan(line, SpanStyle.OUTPUT))


def render_truncated(
    text: str, layout: MessageLayout, hint: str, max_lines: int = _MAX_OUTPUT_LINES
) -> Iterator[StyledLine]:
    """Yield the first lines of an output, and how many more there are."""
    lines = list(sanitized_lines(text.strip("\n"), keep_tabs=layout.max_width is None))
    shown = (
        lines if layout.is_full or len(lines) <= max_lines + 1 else lines[:max_lines]
    )
    for line in shown:
        told = (
            line
            if layout.max_width is None
            else truncate_end(line, layout.max_width - 2)
        )
        yield styled_line(
            "  ", StyledSpan(line if layout.is_full else told, SpanStyle.OUTPUT)
        )
    if len(shown) < len(lines):
        rest = pluralize(len(lines) - len(shown), "more line")
        yield styled_line("  ", StyledSpan(f"… {rest}; {hint}", SpanStyle.META))


_RENDERERS: dict[Origin, Callable[[Message, MessageLayout], Iterator[StyledLine]]] = {
    Origin.PERSON: _render_prompt,
    Origin.CALLER: _render_prompt,
    Origin.COMMAND: _render_command,
    Origin.COMMAND_OUTPUT: _render_command_output,
    Origin.SHELL: _render_shell,
    Origin.SHELL_OUTPUT: _render_command_output,
    Origin.MEMORY: _render_memory,
    Origin.INTERRUPT: _render_interrupt,
    Origin.COMPACTION: _render_continuation,
    Origin.NOTIFICATION: _render_notification,
    Origin.TEAMMATE: _render_teammate,
    Origin.TOOL: _render_orphan_result,
}
