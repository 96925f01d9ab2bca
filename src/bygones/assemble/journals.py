"""Workflows' journals: what they call their agents, and how far those came."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from bygones.model.ids import AgentId
from bygones.model.nodes import JournalFacts, Node
from bygones.model.sessions import AgentStatus

__all__ = ["Steps", "label_in", "status_in", "steps_of"]

Steps = Mapping[AgentId, tuple[Node, ...]]
"""What a journal says of each of its agents, in order."""

_ENDS = {"result": AgentStatus.COMPLETED, "failed": AgentStatus.FAILED}


def steps_of(nodes: Iterable[Node]) -> Steps:
    """Return what the records of a journal say of each agent that they name."""
    found: dict[AgentId, list[Node]] = {}
    for node in nodes:
        if isinstance(node.extra, JournalFacts) and node.extra.agent:
            found.setdefault(node.extra.agent, []).append(node)
    return {agent: tuple(steps) for agent, steps in found.items()}


def label_in(steps: Sequence[Node]) -> str | None:
    """Return what an agent's steps call it; the last name counts."""
    facts = (step.extra for step in reversed(steps))
    return next(
        (f.label for f in facts if isinstance(f, JournalFacts) and f.label), None
    )


def status_in(steps: Sequence[Node]) -> AgentStatus | None:
    """Return how an agent ended by its steps: it runs while none tells of an end."""
    ends = (_ENDS[step.kind] for step in reversed(steps) if step.kind in _ENDS)
    return next(ends, AgentStatus.RUNNING) if steps else None
