"""Print a part of a session alone, so that it can be copied or piped."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from bygones.errors import NotInArchive
from bygones.model.records import TextBlock
from bygones.model.summary import Role
from bygones.render.locate import contains_record
from bygones.render.numbers import pluralize
from bygones.render.text.markdown_text import find_code_blocks
from bygones.render.text.primitives import sanitize

if TYPE_CHECKING:
    from bygones.model.sessions import Branch, Message


def reply_text(branch: Branch, record: str | None) -> str:
    """Return the text of the last reply, or of the message with a record."""
    messages = (m for turn in reversed(branch.turns) for m in reversed(turn.messages))
    for message in messages:
        is_named = record is not None and contains_record(message, {record})
        is_reply = record is None and message.role is Role.ASSISTANT
        text = _text(message) if is_named or is_reply else ""
        if text:
            return text
    raise NotInArchive("reply with text", record or "last")


def _text(message: Message) -> str:
    blocks = (b.text for b in message.blocks if isinstance(b, TextBlock) and b.text)
    return "\n\n".join(blocks)


def code_block(text: str, number: int) -> str:
    """Return a code block of a reply; they count from 1, and from -1 backwards."""
    blocks = find_code_blocks(text)
    if not 1 <= abs(number) <= len(blocks):
        has = pluralize(len(blocks), "code block") if blocks else "no code blocks"
        raise click.UsageError(f"there is no code block {number}: the reply has {has}")
    return blocks[number - 1 if number > 0 else number]


def print_text(text: str, *, is_terminal: bool) -> None:
    """Print a text: exactly in a pipe, without control characters on a terminal."""
    end = "" if text.endswith("\n") else "\n"
    if is_terminal or not hasattr(sys.stdout, "buffer"):
        sys.stdout.write(sanitize(text) + end)
        return
    sys.stdout.flush()
    sys.stdout.buffer.write((text + end).encode("utf-8", "surrogatepass"))
