"""Where the parts meet: transcripts in, sessions out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from msgspec import structs

from recollect.assemble.dedupe import in_order
from recollect.assemble.edits import edits_of
from recollect.assemble.gather import Gathered, accounts, first_time, gather, relate
from recollect.assemble.projects import project_of
from recollect.assemble.talks import Talks, flat, last_time
from recollect.assemble.titles import Summaries, summaries_of, tags_of, title_of
from recollect.assemble.usage import settle
from recollect.model.nodes import Transcript
from recollect.model.sessions import Branch, Lineage, Loader, Session
from recollect.model.usage import Usage

__all__ = ["assemble"]

T = TypeVar("T", bound=str)


def assemble(transcripts: Iterable[Transcript], loader: Loader) -> tuple[Session, ...]:
    """Return the sessions of transcripts, oldest first.

    Give it all files of a project: summaries, copies and agents of one session may
    stand in another's file.
    """
    ordered = in_order(transcripts)
    gathered = gather(ordered)
    summaries = summaries_of(ordered)
    ledger = settle(accounts(gathered))
    related = relate(gathered)
    return tuple(
        _session(one, Talks(one, ledger, loader), summaries, related.get(one.id, ()))
        for one in gathered
    )


def _session(
    one: Gathered,
    talks: Talks,
    summaries: Summaries,
    lineage: tuple[Lineage, ...],
) -> Session:
    runs = talks.agents()
    talk = talks.own(runs)
    branches = tuple(_titled(branch, summaries) for branch in talk.branches)
    nodes = talk.nodes
    named = [n.uuid for n in nodes if n.uuid and n.uuid in summaries.texts]
    edits = list(edits_of(branches))
    for run in flat(runs):
        edits.extend(edits_of(run.branches, run.id))
    return Session(
        id=one.id,
        title=title_of(one.id, nodes, summaries),
        project=project_of(nodes)
        or project_of([n for a in one.agents for n in a.nodes]),
        keys=_distinct(t.source.project for t in one.transcripts),
        directories=_distinct(node.cwd for node in nodes),
        git_branches=_distinct(node.git_branch for node in nodes),
        versions=_distinct(node.version for node in nodes),
        entrypoints=_distinct(node.entrypoint for node in nodes),
        models=_distinct(spend.model for spend in talk.spends),
        slug=next((node.slug for node in reversed(nodes) if node.slug), None),
        tags=tags_of(nodes),
        started=first_time(nodes),
        ended=last_time(nodes),
        live=branches[0],
        branches=branches,
        agents=runs,
        endpoints=_distinct((*talk.leaves, *named)),
        edits=tuple(edits),
        usage=sum((spend.usage for spend in talk.spends), Usage()),
        spends=(*talk.spends, *(s for run in flat(runs) for s in run.spends)),
        snapshots=tuple(n.position for n in nodes if n.kind.startswith("file-history")),
        lineage=lineage,
        problems=(*(p for t in one.transcripts for p in t.problems), *talk.problems),
        hidden=talk.hidden,
        sources=tuple(t.source for t in one.transcripts),
        is_empty=not any(branch.turns for branch in branches),
    )


def _distinct(values: Iterable[T | None]) -> tuple[T, ...]:
    return tuple(dict.fromkeys(value for value in values if value))


def _titled(branch: Branch, summaries: Summaries) -> Branch:
    """Give a branch the title that a summary gave to its latest record."""
    title = None
    for turn in branch.own:
        for message in turn.messages:
            for piece in message.pieces:
                title = summaries.texts.get(piece.record, title)
    return structs.replace(branch, title=title) if title else branch
