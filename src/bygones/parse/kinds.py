"""The types of records by their names in a transcript."""

from __future__ import annotations

from bygones.model.attachments import AttachmentRecord
from bygones.model.metadata import METADATA, MetadataRecord
from bygones.model.records import (
    AssistantRecord,
    Envelope,
    HookContextRecord,
    ProgressRecord,
    SystemRecord,
    UnknownRecord,
    UserRecord,
)

__all__ = ["RECORDS", "Record"]

Record = Envelope | MetadataRecord | UnknownRecord
"""What one line says: a record of the tree, metadata, or unknown."""

RECORDS: dict[str, type[Envelope | MetadataRecord]] = {
    "user": UserRecord,
    "assistant": AssistantRecord,
    "system": SystemRecord,
    "attachment": AttachmentRecord,
    "progress": ProgressRecord,
    "saved_hook_context": HookContextRecord,
    **METADATA,
}
"""The struct of each record type by the name it has in a transcript."""
