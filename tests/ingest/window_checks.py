"""Compares windows of an archive with slices of its sessions."""

from __future__ import annotations

from collections.abc import Iterator

from bygones.archive import Archive
from bygones.model.assembled import AssembledConversation
from bygones.model.conversations import Conversation
from bygones.model.sessions import Session, list_called_agents

__all__ = ["check", "iter_conversations"]

SIZES = (1, 3, 16)


def iter_conversations(
    archive: Archive, session: Session
) -> Iterator[tuple[Conversation, AssembledConversation]]:
    """Yield every conversation of a session, stored and assembled."""
    for agent in ("", *(run.id for run in list_called_agents(session))):
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
            assert [one.id for one in conversation.sources] == [
                one.id for one in cut.sources
            ]
            for branch in cut.facts.branches:
                whole = list(cut.messages(branch.number))
                assert list(conversation.messages(branch.number)) == whole
                assert len(whole) == branch.message_count
                assert conversation.turns(branch.number) == cut.turns(branch.number)
                assert list(conversation.prompts(branch.number)) == list(
                    cut.prompts(branch.number)
                )
                for size in sizes:
                    for start in range(0, branch.message_count + 1, size):
                        window_range = (branch.number, start, start + size)
                        assert conversation.window(*window_range) == cut.window(
                            *window_range
                        )
                        count += 1
    return count
