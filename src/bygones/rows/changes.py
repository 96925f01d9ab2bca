"""Changes of files, gathered by file and session."""

from __future__ import annotations

from collections.abc import Sequence

from bygones.model.finds import FoundEdit
from bygones.rows.archive import ChangedRow

__all__ = ["gathered"]


def gathered(edits: Sequence[FoundEdit]) -> list[ChangedRow]:
    """Return a row for each file and session, the newest change last."""
    groups: dict[tuple[str, str], list[FoundEdit]] = {}
    for edit in edits:
        groups.setdefault((edit.path, edit.session), []).append(edit)
    return [
        ChangedRow(
            path=path,
            session=some[0].session,
            changes=len(some),
            added=sum(edit.added for edit in some),
            removed=sum(edit.removed for edit in some),
            is_new=any(edit.is_new for edit in some),
            first=some[0].time,
            last=some[-1].time,
        )
        for (path, _), some in groups.items()
    ]
