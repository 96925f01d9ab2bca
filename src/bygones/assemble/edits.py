"""What a session changed: one edit a call."""

from __future__ import annotations

from collections.abc import Iterable

from bygones.model.ids import AgentId
from bygones.model.sessions import Branch, FileEdit, ToolCall

__all__ = ["EDITING_TOOLS", "edited_path", "edits_of"]

EDITING_TOOLS = frozenset({"Edit", "Write", "MultiEdit", "NotebookEdit"})


def edits_of(
    branches: Iterable[Branch], agent: AgentId | None = None
) -> tuple[FileEdit, ...]:
    """Return the changes that calls made, each branch's own, in order."""
    found = []
    for branch in branches:
        for turn in branch.own:
            for message in turn.messages:
                for call in message.calls:
                    path = edited_path(call)
                    if path is None:
                        continue
                    facts = call.facts
                    found.append(
                        FileEdit(
                            path=path,
                            call=call,
                            message=message.id,
                            turn=turn.number,
                            branch=branch.number,
                            agent=agent,
                            time=call.answer_time or call.time,
                            added=facts.added if facts else 0,
                            removed=facts.removed if facts else 0,
                            is_new=bool(facts and facts.is_new),
                            has_patch=bool(facts and facts.has_patch),
                        )
                    )
    return tuple(found)


def edited_path(call: ToolCall) -> str | None:
    """Return the file that a call changed.

    A call that failed, was refused or has no answer yet changed nothing.
    """
    if call.name not in EDITING_TOOLS or call.is_error or not call.is_answered:
        return None
    return (call.facts.path if call.facts else None) or call.path or None
