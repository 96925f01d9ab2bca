"""What messages say: the words of a side, told apart from what was put around them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from bygones.model.blocks import (
    Block,
    CompactionBlock,
    ContainerUpload,
    Document,
    FallbackBlock,
    Image,
    McpToolListing,
    SearchResult,
    Text,
    ToolChange,
    ToolReference,
    ToolResult,
    ToolUse,
    UnknownBlock,
)
from bygones.model.nodes import HEAD_LIMIT
from bygones.model.sessions import Message, Piece
from bygones.model.texts import Origin, Told
from bygones.render.figures import size

__all__ = [
    "Teller",
    "as_it_stands",
    "attached",
    "block_note",
    "result_text",
    "said",
    "typed",
]

Teller = Callable[[str], Told]
"""Tells what a user text is and what in it a person typed: ``parse.read_text``."""


_NOTHING = "(no content)"


def as_it_stands(text: str) -> Told:
    """Take a text for what a person typed, whole."""
    return Told(Origin.PERSON, typed=text, output=text)


def typed(message: Message, teller: Teller) -> str:
    """Return what a person or a caller typed, exactly."""
    if len(message.head) < HEAD_LIMIT:
        return message.head
    tolds = [teller(text) for text in _texts(message.blocks)]
    words = "\n".join(told.typed for told in tolds if told.typed)
    return words if words.startswith(message.head) else message.head


def said(message: Message, teller: Teller) -> str:
    """Return what any other message of the user's side or the system says."""
    if len(message.head) < HEAD_LIMIT and message.head:
        return message.head
    tolds = [teller(text) for text in _texts(message.blocks)]
    words = "\n".join(told.output or told.typed for told in tolds).strip()
    return words or message.head or "\n".join(_texts(message.blocks))


def attached(message: Message, teller: Teller) -> tuple[str, str]:
    """Return what a command printed, and what it stood for.

    A compaction's digest is what it stands for.
    """
    printed, meant = [], []
    for piece in message.attached:
        for text in _texts(_blocks(message, piece)):
            told = teller(text)
            if told.origin in {Origin.COMMAND_OUTPUT, Origin.SHELL_OUTPUT}:
                printed.append("" if told.output == _NOTHING else told.output)
            elif told.origin in {Origin.PERSON, Origin.CALLER}:
                meant.append(told.typed)
            elif told.origin is Origin.COMPACTION:
                meant.append(text)
    return "\n".join(filter(None, printed)), "\n".join(filter(None, meant))


def _blocks(message: Message, piece: Piece) -> Iterator[Block]:
    blocks = message.loader.blocks(piece.position)
    yield from (blocks[at] for at in piece.blocks if at < len(blocks))


def _texts(blocks: Iterable[Block]) -> Iterator[str]:
    yield from (
        block.text for block in blocks if isinstance(block, Text) and block.text
    )


def result_text(result: ToolResult | None) -> str:
    """Return what a tool answered, pictures and the like as notes."""
    content = result.content if result else None
    if content is None or isinstance(content, str):
        return content or ""
    parts = (b.text if isinstance(b, Text) else block_note(b) for b in content)
    return "\n".join(part for part in parts if part)


def block_note(block: Block) -> str:
    """Return a few words for a block that is no text; none for what shows elsewhere."""
    match block:
        case Image(source=source):
            kind = (source.media_type if source else None) or "image"
            coded = (source.data if source else None) or ""
            bulk = len(coded) * 3 // 4 - coded[-4:].count("=")
            words = f"{kind}, {size(bulk)}" if bulk else kind
        case Document():
            words = f"document {block.title or ''}"
        case SearchResult():
            words = f"found {block.title or ''} {block.source or ''}"
        case ToolReference():
            words = f"tool {block.tool_name or ''}"
        case ToolUse():
            words = f"call of {block.name or 'no tool'}"
        case UnknownBlock():
            words = f"unknown block {block.type}"
        case _:
            words = _rare_note(block)
    return f"[{words.strip()}]" if words else ""


def _rare_note(block: Block) -> str:
    match block:
        case ContainerUpload():
            return f"uploaded {block.file_id or ''}"
        case CompactionBlock():
            return "earlier context, digested by the API"
        case FallbackBlock():
            return f"another model went on{_because(block.trigger)}"
        case ToolChange():
            change = "came" if block.type == "tool_addition" else "went"
            return f"tool {block.tool_name or ''} {change}"
        case McpToolListing():
            return f"tools of {block.server_name or 'a server'}"
        case _:
            return ""


def _because(trigger: str | None) -> str:
    return f": {trigger}" if trigger else ""
