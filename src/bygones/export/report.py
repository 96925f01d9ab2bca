"""Report what was redacted, so that a person can check it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import msgspec
from msgspec import Struct

from bygones.model.base import SessionId
from bygones.redact.session import RedactionLog
from bygones.render.numbers import pluralize

_PERSONAL_LABELS = {
    "home": ("home folder", ""),
    "user": ("user name", ""),
    "email": ("mail address", "mail addresses"),
}


class RedactionReportRow(Struct, frozen=True, kw_only=True):
    """One redaction."""

    session: SessionId
    source: str
    """Path of the transcript."""
    offset: int
    """Byte offset of the line."""
    text: str
    """Path of the text in its record, such as ``content[0].input.command``."""
    kind: str
    start: int
    """Offset in that text, in characters."""
    end: int


class RedactionReport:
    """Collects the redactions in all exported sessions."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.private_records = 0
        self.rows: list[RedactionReportRow] = []

    def add(
        self, session: SessionId, log: RedactionLog, *, keep_details: bool = False
    ) -> None:
        """Add the redactions in a session; ``keep_details`` keeps a row for each."""
        self.counts.update(log.count_by_kind())
        self.private_records += log.private_records
        if keep_details:
            self.rows.extend(_report_rows(session, log))

    def to_jsonl(self) -> bytes:
        """Return one JSON line for each redaction."""
        return b"".join(msgspec.json.encode(row) + b"\n" for row in self.rows)

    def summary(self) -> str:
        """Return the counts as a sentence; empty if nothing was redacted."""
        parts = [
            pluralize(count, *_PERSONAL_LABELS.get(kind, (kind, "")))
            for kind, count in self.counts.most_common()
        ]
        if self.private_records:
            parts.append(pluralize(self.private_records, "private record"))
        return f"hidden: {', '.join(parts)}" if parts else ""


def _report_rows(session: SessionId, log: RedactionLog) -> Iterator[RedactionReportRow]:
    for position, redactions in log.records.items():
        for redaction in redactions:
            yield RedactionReportRow(
                session=session,
                source=position.source_id,
                offset=position.offset,
                text=redaction.path.removeprefix("."),
                kind=redaction.kind,
                start=redaction.start,
                end=redaction.end,
            )
