"""Content blocks: the parts of a message, by what they hold."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Raw, Struct

from bygones.model.ids import ToolUseId
from bygones.model.wire import CALLS

__all__ = [
    "BLOCKS",
    "Block",
    "CompactionBlock",
    "ContainerUpload",
    "Document",
    "FallbackBlock",
    "Image",
    "McpToolListing",
    "MediaSource",
    "RedactedThinking",
    "SearchResult",
    "ServerResult",
    "Text",
    "Thinking",
    "ToolChange",
    "ToolReference",
    "ToolResult",
    "ToolUse",
    "UnknownBlock",
]


class Text(Struct, frozen=True, kw_only=True):
    """Words of a person, of Claude, or of the harness."""

    types: ClassVar[tuple[str, ...]] = ("text",)

    text: str | None = None
    citations: Raw = Raw()


class Thinking(Struct, frozen=True, kw_only=True):
    """Claude's reasoning; the text is empty in most records of 2.1.x."""

    types: ClassVar[tuple[str, ...]] = ("thinking",)

    thinking: str | None = None
    signature: str | None = None


class RedactedThinking(Struct, frozen=True, kw_only=True):
    """Reasoning that the API returned encrypted."""

    types: ClassVar[tuple[str, ...]] = ("redacted_thinking",)

    data: str | None = None


class ToolUse(Struct, frozen=True, kw_only=True):
    """A call of a tool, on this machine, on the API's side or of an MCP server.

    ``input`` is the raw JSON: an object normally, anything in a malformed call.
    """

    types: ClassVar[tuple[str, ...]] = CALLS

    type: str = "tool_use"
    id: ToolUseId | None = None
    name: str | None = None
    input: Raw = Raw()
    caller: Raw = Raw()
    toolset_name: str | None = None
    server_name: str | None = None


class ToolResult(
    Struct, frozen=True, kw_only=True, rename={"outcome": "toolUseResult"}
):
    """What a tool answered; ``content`` is text, blocks, or nothing."""

    types: ClassVar[tuple[str, ...]] = ("tool_result", "mcp_tool_result")

    tool_use_id: ToolUseId | None = None
    content: str | tuple[Block, ...] | None = None
    is_error: bool | None = None
    outcome: Raw = Raw()
    """The structured result, where a writer put it here and not at the record."""


class ServerResult(Struct, frozen=True, kw_only=True):
    """What a tool on the API's side answered, inside the assistant's message."""

    types: ClassVar[tuple[str, ...]] = (
        "web_search_tool_result",
        "web_fetch_tool_result",
        "code_execution_tool_result",
        "bash_code_execution_tool_result",
        "text_editor_code_execution_tool_result",
        "tool_search_tool_result",
        "advisor_tool_result",
    )

    type: str
    tool_use_id: ToolUseId | None = None
    content: Raw = Raw()


class MediaSource(Struct, frozen=True, kw_only=True):
    """Where an image or a document comes from; ``data`` is base64 or text."""

    type: str | None = None
    media_type: str | None = None
    data: str | None = None
    url: str | None = None
    file_id: str | None = None
    content: Raw = Raw()


class Image(Struct, frozen=True, kw_only=True):
    """A picture, pasted or returned by a tool."""

    types: ClassVar[tuple[str, ...]] = ("image",)

    source: MediaSource | None = None


class Document(Struct, frozen=True, kw_only=True):
    """A PDF or a text handed over whole."""

    types: ClassVar[tuple[str, ...]] = ("document",)

    source: MediaSource | None = None
    title: str | None = None
    context: str | None = None


class SearchResult(Struct, frozen=True, kw_only=True):
    """One found page with its text."""

    types: ClassVar[tuple[str, ...]] = ("search_result",)

    source: str | None = None
    title: str | None = None
    content: Raw = Raw()


class ToolReference(Struct, frozen=True, kw_only=True):
    """A tool that a search for tools found."""

    types: ClassVar[tuple[str, ...]] = ("tool_reference",)

    tool_name: str | None = None


class ContainerUpload(Struct, frozen=True, kw_only=True):
    """A file that was put into the API's container."""

    types: ClassVar[tuple[str, ...]] = ("container_upload",)

    file_id: str | None = None


class CompactionBlock(Struct, frozen=True, kw_only=True):
    """A digest that the API itself made of earlier context."""

    types: ClassVar[tuple[str, ...]] = ("compaction",)

    content: str | None = None
    encrypted_content: str | None = None


class FallbackBlock(Struct, frozen=True, kw_only=True, rename={"origin": "from"}):
    """A change to another model inside one answer."""

    types: ClassVar[tuple[str, ...]] = ("fallback",)

    origin: Raw = Raw()
    to: Raw = Raw()
    trigger: str | None = None


class ToolChange(Struct, frozen=True, kw_only=True):
    """Tools that came or went while the answer was made."""

    types: ClassVar[tuple[str, ...]] = ("tool_addition", "tool_removal")

    type: str
    tool_name: str | None = None


class McpToolListing(Struct, frozen=True, kw_only=True):
    """The tools that an MCP server offers."""

    types: ClassVar[tuple[str, ...]] = ("mcp_tool_listing",)

    server_name: str | None = None
    tools: Raw = Raw()


class UnknownBlock(Struct, frozen=True):
    """A block of a type this version does not know, kept as it was written.

    What is no object in a content list (null, a number) is one too; its type is empty.
    """

    type: str
    raw: bytes


Block = (
    Text
    | Thinking
    | RedactedThinking
    | ToolUse
    | ToolResult
    | ServerResult
    | Image
    | Document
    | SearchResult
    | ToolReference
    | ContainerUpload
    | CompactionBlock
    | FallbackBlock
    | ToolChange
    | McpToolListing
    | UnknownBlock
)

BLOCKS: dict[str, type[Struct]] = {
    name: kind
    for kind in (
        Text,
        Thinking,
        RedactedThinking,
        ToolUse,
        ToolResult,
        ServerResult,
        Image,
        Document,
        SearchResult,
        ToolReference,
        ContainerUpload,
        CompactionBlock,
        FallbackBlock,
        ToolChange,
        McpToolListing,
    )
    for name in kind.types
}
"""The struct of each block type by the name it has in a transcript."""
