"""What was hidden, told so that a person can check it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import msgspec
from msgspec import Struct

from bygones.model.base import SessionId
from bygones.redact.session import RedactionLog
from bygones.render.numbers import pluralize

__all__ = ["RedactionReport", "RedactionReportRow"]

_PERSONAL_LABELS = {
    "home": ("home folder", ""),
    "user": ("user name", ""),
    "email": ("mail address", "mail addresses"),
}


class RedactionReportRow(Struct, frozen=True, kw_only=True):
    """One replacement: what kind of thing it was, and where it stood."""

    session: SessionId
    source: str
    """The file of the home."""
    offset: int
    """Where the line begins."""
    text: str
    """The text of the record that held it, such as ``content[0].input.command``."""
    kind: str
    start: int
    """Where it stood in that text, in signs."""
    end: int


class RedactionReport:
    """Adds up what was hidden in one session after the other."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.private_records = 0
        self.rows: list[RedactionReportRow] = []

    def add(
        self, session: SessionId, log: RedactionLog, *, keep_details: bool = False
    ) -> None:
        """Take in what was found in a session; ``keep`` the places for a report."""
        self.counts.update(log.count_by_kind())
        self.private_records += log.private_records
        if keep_details:
            self.rows.extend(_report_rows(session, log))

    def to_jsonl(self) -> bytes:
        """Return the report: a line of JSON for each replacement."""
        return b"".join(msgspec.json.encode(row) + b"\n" for row in self.rows)

    def summary(self) -> str:
        """Return what was hidden in words; nothing if nothing was."""
        parts = [
            pluralize(count, *_PERSONAL_LABELS.get(kind, (kind, "")))
            for kind, count in self.counts.most_common()
        ]
        if self.private_records:
            parts.append(pluralize(self.private_records, "private record"))
        return f"hidden: {', '.join(parts)}" if parts else ""


def _report_rows(session: SessionId, log: RedactionLog) -> Iterator[RedactionReportRow]:
    for position, found in log.records.items():
        for one in found:
            yield RedactionReportRow(
                session=session,
                source=position.source_id,
                offset=position.offset,
                text=one.path.removeprefix("."),
                kind=one.kind,
                start=one.start,
                end=one.end,
            )
