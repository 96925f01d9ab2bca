"""The lines above the rest: of a session, an agent run, a branch beside the way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import tzinfo

from bygones.model.sessions import AgentRun, Branch, Session
from bygones.model.usage import Cost, Usage
from bygones.model.windows import BranchFacts, SessionFacts
from bygones.render.figures import lasting, price, several, span, tokens
from bygones.render.safe import safe_line
from bygones.render.spans import Row, Span, Style, row
from bygones.render.widths import fit_right, width

__all__ = [
    "agent_facts",
    "fork_words",
    "heading",
    "listed",
    "session_facts",
    "window_facts",
]

_MOST = 3
"""Names of one kind that are told; the others are counted."""
_QUOTE = 40
"""Columns of a prompt that is quoted to tell a branch from others."""


def heading(
    session: Session,
    branch: Branch,
    zone: tzinfo | None,
    room: int | None,
    *,
    cost: Cost | None = None,
) -> Iterator[Row]:
    """Yield what one wants to know of a session before reading it.

    What all of it cost is told where somebody asked for that.
    """
    title = safe_line(session.title.text) or session.id
    yield row(Span(title if room is None else fit_right(title, room), Style.TITLE))
    for facts in session_facts(session, branch, zone, cost):
        for line in listed(facts, room):
            yield row(Span(line, Style.FACT))


def session_facts(
    session: Session, branch: Branch, zone: tzinfo | None, cost: Cost | None = None
) -> tuple[list[str], ...]:
    """Return what is told above a session, line by line; empty facts are left out."""
    prompts = sum(1 for message in branch.messages if message.is_prompt)
    calls = sum(len(message.calls) for message in branch.messages)
    agents = sum(1 for run in session.all_agents if run.kind.is_shown)
    others = len(session.branches) - 1
    counts = [
        *_counts(prompts, calls, agents, others),
        *_which(branch, len(session.problems)),
    ]
    return _facts(session, counts, _spent(session.total, cost), zone)


def window_facts(
    told: SessionFacts,
    branch: BranchFacts,
    zone: tzinfo | None,
    cost: Cost | None = None,
) -> tuple[list[str], ...]:
    """Return the same where a session is read by windows."""
    others = len(told.branches) - 1
    counts = [
        *_counts(branch.prompts, branch.calls, told.agents, others),
        *_which(branch, told.problems),
    ]
    return _facts(told, counts, _spent(told.usage, cost), zone)


def _facts(
    session: Session | SessionFacts,
    counts: list[str],
    spent: list[str],
    zone: tzinfo | None,
) -> tuple[list[str], ...]:
    return (
        _place(session),
        _time(session, zone),
        _makers(session),
        counts,
        spent,
        _relations(session),
    )


def _place(session: Session | SessionFacts) -> list[str]:
    where = [session.project or ""]
    branches = [name for name in session.git_branches if name != "HEAD"]
    return [*where, f"git {_some(branches)}" if branches else ""]


def _time(session: Session | SessionFacts, zone: tzinfo | None) -> list[str]:
    if session.started is None or session.ended is None:
        return []
    lasted = session.ended - session.started
    return [span(session.started, session.ended, zone), lasting(lasted)]


def _makers(session: Session | SessionFacts) -> list[str]:
    versions = session.versions
    spoken = versions[0] if len(versions) == 1 else " to ".join(_ends(versions))
    return [
        _some(session.models),
        f"Claude Code {spoken}" if versions else "",
        _some([name for name in session.entrypoints if name != "cli"]),
    ]


def _ends(versions: Sequence[str]) -> list[str]:
    return [versions[0], versions[-1]] if versions else []


def _counts(prompts: int, calls: int, agents: int, others: int) -> list[str]:
    return [
        several(prompts, "prompt"),
        several(calls, "call"),
        several(agents, "agent") if agents else "",
        several(others, "other branch", "other branches") if others else "",
    ]


def _which(branch: Branch | BranchFacts, problems: int) -> list[str]:
    return [
        "" if branch.is_live else f"branch {branch.number}",
        several(problems, "problem") if problems else "",
    ]


def _spent(usage: Usage, cost: Cost | None) -> list[str]:
    if not usage.total:
        return []
    return [
        f"{tokens(usage.total)} tokens",
        f"{tokens(usage.input + usage.cache_write)} in",
        f"{tokens(usage.cache_read)} read again",
        f"{tokens(usage.output)} out",
        price(cost),
    ]


def _relations(session: Session | SessionFacts) -> list[str]:
    told = [
        f"{one.kind.replace('-', ' ')} {one.session[:8]}" for one in session.lineage
    ]
    return [f"session {session.id}", *told]


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
    return ", ".join(names[:_MOST]) + more


def listed(facts: Sequence[str], room: int | None) -> Iterator[str]:
    """Yield facts behind each other, on as many lines as they need."""
    line = ""
    for fact in facts:
        told = safe_line(fact)
        if not told:
            continue
        longer = f"{line} · {told}" if line else told
        if room is not None and width(longer) > room and line:
            yield line
            longer = told
        line = longer
    if line:
        yield line


def agent_facts(run: AgentRun) -> list[str]:
    """Return how an agent run went, in a few words each."""
    return [
        run.status,
        "in the background" if run.is_background else "",
        lasting(run.duration) if run.duration is not None else "",
        several(run.tool_count, "call"),
        f"{tokens(run.usage.total)} tokens" if run.usage.total else "",
        several(len(run.agents), "agent") if run.agents else "",
    ]


def fork_words(branch: Branch | BranchFacts) -> str:
    """Return what a branch beside the way is."""
    if isinstance(branch, BranchFacts):
        count, quote = branch.own_prompts, branch.quote
    else:
        prompts = branch.prompts
        count, quote = len(prompts), prompts[0].head if prompts else ""
    head = fit_right(safe_line(quote), _QUOTE)
    facts = [
        several(count, "prompt") + (f" (“{head}”)" if head else ""),
        f"{tokens(branch.usage.total)} tokens" if branch.usage.total else "",
    ]
    return ", ".join(filter(None, facts))
