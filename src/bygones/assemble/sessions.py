"""Where the parts meet: transcripts in, sessions out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from msgspec import structs

from bygones.assemble.dedupe import in_order
from bygones.assemble.edits import edits_of
from bygones.assemble.gather import (
    Gathered,
    accounts,
    first_time,
    gather,
    mixed,
    relate,
)
from bygones.assemble.lineage import families
from bygones.assemble.projects import project_of
from bygones.assemble.talks import Lent, Talk, Talks, flat, last_time
from bygones.assemble.titles import Summaries, summaries_of, tags_of, title_of
from bygones.assemble.usage import claim_of, settle
from bygones.model.ids import SessionId
from bygones.model.nodes import Transcript
from bygones.model.problems import Problem
from bygones.model.sessions import AgentRun, Branch, Loader, Message, Role, Session
from bygones.model.sources import SourceKind
from bygones.model.usage import Usage

__all__ = ["assemble", "begin"]

T = TypeVar("T", bound=str)


def assemble(
    transcripts: Iterable[Transcript],
    loader: Loader,
    summaries: Summaries | None = None,
    paid: set[str] | None = None,
) -> tuple[Session, ...]:
    """Return the sessions of transcripts, oldest first.

    Give it all files of a project: summaries, copies and agents of one session may
    stand in another's file. Who knows the summaries of other files hands them in, and
    needs to give only sessions that share records or answers. Answers in ``paid`` were
    counted elsewhere and cost nothing here; those of these sessions are added to it.
    """
    ordered = in_order(transcripts)
    gathered = gather(ordered)
    summaries = summaries if summaries is not None else summaries_of(ordered)
    ledger = settle(accounts(gathered), paid or frozenset())
    if paid is not None:
        paid.update(ledger.owner)
    related = relate(gathered)
    kin = families({one.id: one.nodes for one in gathered})
    lent: dict[SessionId, Lent] = {}
    sessions = []
    for one in gathered:
        own = lent.setdefault(kin[one.id], Lent())
        talks = Talks(one, ledger, loader)
        runs = talks.agents()
        talk = talks.own(runs, own)
        session = _session(one, talk, runs, summaries, loader=loader)
        sessions.append(structs.replace(session, lineage=related[one.id]))
        own.add(runs)
    return tuple(sessions)


def begin(
    transcript: Transcript, loader: Loader
) -> tuple[SessionId, Sequence[Message]]:
    """Return the session of a file, and its messages as far as these nodes tell them.

    For the beginning of a file, its nodes in order: all else of a session is not made.
    """
    (one,) = gather((transcript,))
    talks = Talks(one, settle(accounts((one,)), frozenset()), loader)
    return one.id, talks.own(talks.agents(), Lent()).branches[0].messages


def _session(
    one: Gathered,
    talk: Talk,
    runs: tuple[AgentRun, ...],
    summaries: Summaries,
    *,
    loader: Loader,
) -> Session:
    branches = tuple(_titled(branch, summaries) for branch in talk.branches)
    # Where a session's own file is gone, its agents tell what there is to tell.
    nodes = talk.nodes or [node for agent in one.agents for node in agent.nodes]
    named = [n.uuid for n in nodes if n.uuid and n.uuid in summaries.texts]
    shown = [run for run in flat(runs) if run.kind.is_shown]
    edits = list(edits_of(branches))
    for run in shown:
        edits.extend(edits_of(run.branches, run.id))
    claim, claimed = claim_of(nodes)
    return Session(
        id=one.id,
        title=title_of(one.id, nodes, summaries),
        project=project_of(nodes),
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
        spends=(*talk.spends, *(s for run in shown for s in run.spends)),
        claim=claim,
        claimed=claimed,
        snapshots=tuple(n.position for n in nodes if n.kind.startswith("file-history")),
        problems=(*_file_problems(one), *talk.problems),
        hidden=talk.hidden,
        sources=tuple(t.source for t in one.transcripts),
        is_empty=not any(map(_says_something, (*branches, *_shown(runs)))),
        loader=loader,
    )


def _file_problems(one: Gathered) -> Iterable[Problem]:
    for transcript in one.transcripts:
        yield from transcript.problems
        if transcript.source.kind is SourceKind.SESSION:
            yield from mixed(transcript, one.id)


def _shown(runs: Iterable[AgentRun]) -> Iterable[Branch]:
    return (run.live for run in runs if run.kind.is_shown)


def _says_something(branch: Branch) -> bool:
    messages = (message for turn in branch.own for message in turn.messages)
    return any(m.is_prompt or m.role is Role.ASSISTANT for m in messages)


def _distinct(values: Iterable[T | None]) -> tuple[T, ...]:
    return tuple(value for value in dict.fromkeys(values) if value)


def _titled(branch: Branch, summaries: Summaries) -> Branch:
    """Give a branch the title that a summary gave to its latest record."""
    if not summaries.texts:
        return branch
    title = None
    for turn in branch.own:
        for message in turn.messages:
            for piece in message.pieces:
                title = summaries.texts.get(piece.record, title)
    return structs.replace(branch, title=title) if title else branch
