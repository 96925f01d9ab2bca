"""What attachments say to a reader."""

from __future__ import annotations

import msgspec
from msgspec import Raw, Struct

from bygones.model.attachments import (
    Attachment,
    HookReport,
    QueuedCommand,
    StructuredOutput,
)
from bygones.parse.salvage import sound_text
from bygones.parse.texts import text_of_content

__all__ = ["text_of_attachment"]


def text_of_attachment(attachment: Attachment) -> str:
    """Return the text of an attachment, or nothing where it has none to show."""
    match attachment:
        case QueuedCommand():
            return text_of_content(attachment.prompt)
        case HookReport():
            told = (attachment.blocking_error, attachment.content)
            parts = [*map(_words, told), attachment.stderr, attachment.stdout]
            return "\n".join(part for part in parts if part)
        case StructuredOutput():
            return _words(attachment.content) or _words(attachment.output)
        case _:
            return ""


class _Blocking(Struct, frozen=True, gc=False, rename="camel"):
    blocking_error: str


def _words(raw: Raw) -> str:
    """Return a text as it is, and any other value as JSON."""
    content = sound_text(bytes(raw))
    try:
        told = _decode(content)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return content.decode("utf-8", "replace")
    return told if isinstance(told, str) else told.blocking_error


_decode = msgspec.json.Decoder(_Blocking | str).decode
