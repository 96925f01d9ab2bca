"""The text of messages, and descriptions of what is not text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from bygones.model.nodes import Origin, UserText, parse_user_text
from bygones.model.records import (
    SYSTEM_SUBTYPES,
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
from bygones.model.summary import RecordRef, Role
from bygones.render.numbers import format_bytes, format_tokens, pluralize
from bygones.render.text.primitives import sanitize

TextParser = Callable[[str], UserText]
"""Separates what a person typed in a user message: `parse_user_text`."""

INTERRUPTED = "✗ interrupted by the user"
CONTINUATION = "continues after a compaction"
_ATTACHMENT_LABELS = {
    "hook_blocking_error": "blocked by a hook",
    "hook_non_blocking_error": "hook failed",
    "structured_output": "structured output",
}
_DISPLAYED_ORIGINS = frozenset(
    (
        *(Origin.PERSON, Origin.CALLER, Origin.COMMAND, Origin.COMMAND_OUTPUT),
        *(Origin.SHELL, Origin.SHELL_OUTPUT, Origin.MEMORY, Origin.INTERRUPT),
        *(Origin.COMPACTION, Origin.NOTIFICATION, Origin.TEAMMATE, Origin.TOOL),
    )
)
"""Origins that have a display of their own; other messages are notices."""
_NO_CONTENT = "(no content)"


def parse_as_typed(text: str) -> UserText:
    """Treat a text as typed by a person."""
    return UserText(Origin.PERSON, typed_text=text, output=text)


def prompt_text(message: Message, text_parser: TextParser) -> str:
    """Return exactly what a person, or the caller of an agent, typed."""
    if message.has_whole_preview:
        return message.preview
    parsed = [text_parser(text) for text in _texts(message.blocks)]
    typed = "\n".join(text.typed_text for text in parsed if text.typed_text)
    # The end of a preview that was cut is redacted unlike the whole text.
    is_same = message.is_preview_cut or typed.startswith(message.preview)
    return typed if typed and is_same else message.preview


def system_text(message: Message, text_parser: TextParser) -> str:
    """Return the text of any other message that is not an answer."""
    if message.has_whole_preview and message.preview:
        return message.preview
    parsed = [text_parser(text) for text in _texts(message.blocks)]
    joined = "\n".join(text.output or text.typed_text for text in parsed).strip()
    return joined or message.preview or "\n".join(_texts(message.blocks))


def full_text(message: Message, text_parser: TextParser = parse_user_text) -> str:
    """Return what was typed, what Claude replied, or what a notice says."""
    if message.is_prompt:
        return prompt_text(message, text_parser)
    if message.role is not Role.ASSISTANT:
        return system_text(message, text_parser)
    return "\n".join(_texts(message.blocks))


def attached_texts(message: Message, text_parser: TextParser) -> tuple[str, str]:
    """Return the output of a command, and the text that it expanded to.

    For a compaction, the second text is its summary.
    """
    output, expansion = [], []
    for ref in message.attached_refs:
        for text in _texts(_referenced_blocks(message, ref)):
            parsed = text_parser(text)
            if parsed.origin in {Origin.COMMAND_OUTPUT, Origin.SHELL_OUTPUT}:
                output.append("" if parsed.output == _NO_CONTENT else parsed.output)
            elif parsed.origin in {Origin.PERSON, Origin.CALLER}:
                expansion.append(parsed.typed_text)
            elif parsed.origin is Origin.COMPACTION:
                expansion.append(text)
    return "\n".join(filter(None, output)), "\n".join(filter(None, expansion))


def _referenced_blocks(message: Message, ref: RecordRef) -> Iterator[Block]:
    blocks = message.loader.load_blocks(ref.position)
    yield from (blocks[at] for at in ref.block_indexes if at < len(blocks))


def _texts(blocks: Iterable[Block]) -> Iterator[str]:
    yield from (
        block.text for block in blocks if isinstance(block, TextBlock) and block.text
    )


def result_text(result: ToolResultBlock | None) -> str:
    """Return the result of a tool as text; images become descriptions."""
    content = result.content if result else None
    if content is None or isinstance(content, str):
        return content or ""
    parts = (b.text if isinstance(b, TextBlock) else describe_block(b) for b in content)
    return "\n".join(part for part in parts if part)


def describe_block(block: Block) -> str:
    """Describe a block that is not text; empty for blocks that are shown elsewhere."""
    match block:
        case ImageBlock(source=source):
            media_type = (source.media_type if source else None) or "image"
            data = (source.data if source else None) or ""
            size = len(data) * 3 // 4 - data[-4:].count("=")
            description = f"{media_type}, {format_bytes(size)}" if size else media_type
        case DocumentBlock():
            description = f"document {block.title or ''}"
        case SearchResultBlock():
            description = f"search result {block.title or ''} {block.source or ''}"
        case ToolReferenceBlock():
            description = f"tool {block.tool_name or ''}"
        case ToolUseBlock():
            description = f"call to {block.name or 'an unknown tool'}"
        case UnknownBlock():
            description = f"unknown block {block.type}"
        case _:
            description = _describe_rare_block(block)
    line = sanitize(description.strip(), newlines="space")
    return f"[{line}]" if description else ""


def _describe_rare_block(block: Block) -> str:
    match block:
        case ContainerUploadBlock():
            return f"uploaded {block.file_id or ''}"
        case CompactionBlock():
            return "earlier context, summarized by the API"
        case FallbackBlock():
            return f"another model continued{_reason_suffix(block.trigger)}"
        case ToolChangeBlock():
            change = "added" if block.type == "tool_addition" else "removed"
            return f"tool {block.tool_name or ''} {change}"
        case McpToolListingBlock():
            return f"tools of {block.server_name or 'a server'}"
        case _:
            return ""


def _reason_suffix(trigger: str | None) -> str:
    return f": {trigger}" if trigger else ""


def display_origin(message: Message) -> Origin:
    """Return the origin that decides how a message is shown."""
    origin = message.origin or Origin.HARNESS
    if message.command is not None and origin not in _DISPLAYED_ORIGINS:
        return Origin.COMMAND
    return origin


def describe_notification(message: Message, text_parser: TextParser) -> str:
    """Describe what happened to a background task, on one line."""
    notification = message.notification
    summary = notification.summary if notification else ""
    line = sanitize(summary or system_text(message, text_parser), newlines="space")
    if not line and notification is not None:
        return sanitize(
            f"task {notification.task_id} {notification.status}", newlines="space"
        )
    return line


def describe_orphan_result(message: Message) -> str:
    """Describe a tool result that belongs to no known call."""
    preview = sanitize(message.preview, newlines="space")
    return f"• tool result without a known call{': ' if preview else ''}{preview}"


def describe_expansion(expansion: str) -> str:
    """Describe the size of the text that a command expanded to."""
    return f"expanded to {pluralize(len(expansion.splitlines()), 'line')}"


def describe_compaction(message: Message) -> str:
    """Describe who compacted a conversation, and how many tokens that saved."""
    facts = message.compaction
    triggers = {"auto": "automatically", "manual": "by the user"}
    words = ["compacted"]
    if facts is not None and facts.trigger:
        words.append(
            triggers.get(
                facts.trigger, f"({sanitize(facts.trigger, newlines='space')})"
            )
        )
    if facts is not None and facts.tokens_before is not None:
        after = (
            f" → {format_tokens(facts.tokens_after)}"
            if facts.tokens_after is not None
            else ""
        )
        words.append(f"· {format_tokens(facts.tokens_before)}{after} tokens")
    return " ".join(words)


def describe_notice(message: Message, text_parser: TextParser) -> tuple[str, bool]:
    """Return a notice on one line, and whether it reports a failure."""
    subtype = message.system_subtype or ""
    known = SYSTEM_SUBTYPES.get(subtype)
    name = known.label if known else _ATTACHMENT_LABELS.get(subtype)
    if name is None:
        name = subtype.replace("_", " ")
    is_failure = message.is_error or "error" in subtype
    parts = (
        sanitize(name, newlines="space"),
        sanitize(system_text(message, text_parser), newlines="space"),
    )
    return ": ".join(filter(None, parts)), is_failure
