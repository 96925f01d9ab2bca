"""Compares windows of an archive with slices of its sessions."""

from __future__ import annotations

from collections.abc import Iterator

from bygones.archive import Archive
from bygones.ingest.conversations import AssembledConversation
from bygones.model.conversations import Conversation
from bygones.model.sessions import Session

__all__ = ["check", "iter_conversations"]

SIZES = (1, 3, 16)


def iter_conversations(
    archive: Archive, session: Session
) -> Iterator[tuple[Conversation, AssembledConversation]]:
    """Yield every conversation of a session, stored and assembled."""
    for agent in ("", *(run.id for run in session.all_agents)):
        yield (
            archive.conversation(session.id, agent),
            AssembledConversation(session, agent),
        )


def check(archive: Archive, sizes: tuple[int, ...] = SIZES, step: int = 1) -> int:
    """Compare all windows of every session or every nth; return their number."""
    count = 0
    for listed in list(archive.sessions(include_empty=True))[::step]:
        session = archive.session(listed.id)
        for conversation, cut in iter_conversations(archive, session):
            assert conversation.facts == cut.facts
            assert sorted(conversation.agent_ids) == sorted(cut.agent_ids)
            for branch in cut.facts.branches:
                whole = list(cut.messages(branch.number))
                assert list(conversation.messages(branch.number)) == whole
                assert len(whole) == branch.message_count
                for size in sizes:
                    for start in range(0, branch.message_count + 1, size):
                        window_range = (branch.number, start, start + size)
                        assert conversation.window(*window_range) == cut.window(
                            *window_range
                        )
                        count += 1
    return count
