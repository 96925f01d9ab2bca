"""From a session to its line in a list."""

from __future__ import annotations

from recollect.model.listing import Listed
from recollect.model.sessions import Session

__all__ = ["listed"]


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
        size=sum(source.size for source in session.sources),
        is_empty=session.is_empty,
    )
