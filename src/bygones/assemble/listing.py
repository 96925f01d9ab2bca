"""From a session to its line in a list."""

from __future__ import annotations

from collections.abc import Iterator

from bygones.model.listing import Listed
from bygones.model.query import Flag
from bygones.model.sessions import Session
from bygones.model.texts import Origin

__all__ = ["listed"]


def _flags(session: Session) -> Iterator[Flag]:
    messages = session.live.messages
    if any(
        message.origin is Origin.INTERRUPT
        or any(call.is_interrupted for call in message.calls)
        for message in messages
    ):
        yield Flag.INTERRUPTED
    if any(message.compaction for message in messages):
        yield Flag.COMPACTED


def listed(session: Session) -> Listed:
    """Return what lists show of a session."""
    agents = [agent for agent in session.all_agents if agent.kind.is_shown]
    models = (spend.model for spend in session.spends if spend.model)
    return Listed(
        id=session.id,
        title=session.title,
        project=session.project,
        keys=session.keys,
        started=session.started,
        ended=session.ended,
        prompts=len(session.prompts),
        messages=session.message_count,
        agents=len(agents),
        branches=len(session.branches),
        models=tuple(dict.fromkeys(models)),
        versions=session.versions,
        git_branches=session.git_branches,
        entrypoints=session.entrypoints,
        tags=session.tags,
        usage=session.total,
        lineage=session.lineage,
        problems=len(session.problems),
        flags=tuple(_flags(session)),
        size=sum(source.size for source in session.sources),
        is_empty=session.is_empty,
    )
