"""Windows: some messages of a branch by their number, and what is told of the rest.

A window is what a page shows at once. It is the same whether it was cut out of a whole
session here, or read from the index without assembling one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import accumulate

from msgspec import Struct, structs

from bygones.model.ids import AgentId, RecordId, SessionId
from bygones.model.parts import Lineage, Title
from bygones.model.sessions import (
    AgentRun,
    Branch,
    Message,
    Role,
    Session,
    ToolCall,
    Turn,
)
from bygones.model.usage import Usage

__all__ = [
    "OPENING",
    "BranchFacts",
    "SessionFacts",
    "Window",
    "as_session",
    "briefly",
    "facts_of",
    "in_brief",
    "own_messages",
    "weight_of",
    "window_of",
]

OPENING = 6
"""Messages that a page shows first, at most."""


class BranchFacts(Struct, frozen=True, kw_only=True, gc=False, array_like=True):
    """What is told of a branch without its messages."""

    id: RecordId
    number: int
    is_live: bool
    parent: int | None = None
    total: int = 0
    """Messages from the root to the leaf."""
    shared: int = 0
    """How many of them, the first ones, it shares with the branch that it left."""
    last_shared: RecordId | None = None
    prompts: int = 0
    """From the root to the leaf."""
    calls: int = 0
    own_prompts: int = 0
    quote: str = ""
    """How the first prompt of its own begins."""
    usage: Usage
    """Of its own turns."""


class SessionFacts(Struct, frozen=True, kw_only=True, array_like=True):
    """What is told of a session, or of an agent run in it, without its messages."""

    id: SessionId
    agent: AgentId | None = None
    title: Title
    project: str | None = None
    git_branches: tuple[str, ...] = ()
    versions: tuple[str, ...] = ()
    entrypoints: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    started: datetime | None = None
    ended: datetime | None = None
    usage: Usage
    """With that of agents."""
    lineage: tuple[Lineage, ...] = ()
    agents: int = 0
    """Runs that did something, at any depth."""
    problems: int = 0
    files: int = 0
    """How many files were changed."""
    branches: tuple[BranchFacts, ...]
    orphans: tuple[AgentRun, ...] = ()
    """Runs that no call is known to have started, in brief."""

    def branch(self, number: int) -> BranchFacts | None:
        """Return a branch by its number."""
        return next((one for one in self.branches if one.number == number), None)


class Window(Struct, frozen=True, kw_only=True):
    """Messages of a branch, by their numbers, in the turns that they are of.

    A turn that began before has no prompt here, and its usage is that of all of it.
    """

    facts: SessionFacts
    branch: int
    start: int
    turns: tuple[Turn, ...]
    is_begun: bool = False
    """Whether its first turn began before it."""

    @property
    def messages(self) -> tuple[Message, ...]:
        """Its messages in order."""
        return tuple(message for turn in self.turns for message in turn.messages)

    @property
    def stop(self) -> int:
        """The number behind that of its last message."""
        return self.start + sum(len(turn.messages) for turn in self.turns)


def facts_of(session: Session, agent: AgentId | None = None) -> SessionFacts:
    """Return what is told of a session, or of a run that was made one."""
    return SessionFacts(
        id=session.id,
        agent=agent,
        title=session.title,
        project=session.project,
        git_branches=session.git_branches,
        versions=session.versions,
        entrypoints=session.entrypoints,
        models=session.models,
        started=session.started,
        ended=session.ended,
        usage=session.total,
        lineage=session.lineage,
        agents=sum(1 for run in session.all_agents if run.kind.is_shown),
        problems=len(session.problems),
        files=len({edit.path for edit in session.edits}),
        branches=tuple(_branch_facts(session.branches)),
        orphans=tuple(
            briefly(run)
            for run in session.agents
            if not run.calls and run.kind.is_shown
        ),
    )


def _branch_facts(branches: Sequence[Branch]) -> Iterator[BranchFacts]:
    paths = {branch.number: _Path(branch) for branch in branches}
    for branch in branches:
        path = paths[branch.number]
        prompts, calls = path.count(paths)
        yield BranchFacts(
            id=branch.id,
            number=branch.number,
            is_live=branch.is_live,
            parent=branch.parent,
            total=path.total,
            shared=path.shared,
            last_shared=_last_shared(branch, len(path.own)),
            prompts=prompts,
            calls=calls,
            own_prompts=path.prompts[-1],
            quote=next((m.head for m in path.own if m.is_prompt), ""),
            usage=branch.usage,
        )


class _Path:
    """A branch, and how many prompts and calls are above each message of its own."""

    def __init__(self, branch: Branch) -> None:
        self.parent = branch.parent
        self.own = own_messages(branch)
        self.total = sum(len(turn.messages) for turn in branch.turns)
        self.shared = self.total - len(self.own)
        self.prompts = [0, *accumulate(int(m.is_prompt) for m in self.own)]
        self.calls = [0, *accumulate(len(m.calls) for m in self.own)]

    def count(self, paths: Mapping[int, _Path]) -> tuple[int, int]:
        """Return the prompts and calls of the whole path, without walking it."""
        path: _Path | None = self
        until, prompts, calls = self.total, 0, 0
        while path is not None and until:
            if until > path.shared:
                prompts += path.prompts[until - path.shared]
                calls += path.calls[until - path.shared]
                until = path.shared
            path = paths.get(path.parent) if path.parent is not None else None
        return prompts, calls


def _last_shared(branch: Branch, own: int) -> RecordId | None:
    """Return the last message before those of a branch's own."""
    for turn in reversed(branch.turns):
        if own < len(turn.messages):
            return turn.messages[-1 - own].id
        own -= len(turn.messages)
    return None


def own_messages(branch: Branch) -> list[Message]:
    """Return the messages of a branch that it shares with none before it."""
    return [message for turn in branch.own for message in turn.messages]


def window_of(
    session: Session, facts: SessionFacts, asked: tuple[int, int, int]
) -> Window:
    """Return messages: of which branch, the first, and the one behind the last."""
    number, start, stop = asked
    branch = next(one for one in session.branches if one.number == number)
    turns = []
    is_begun = False
    before = 0
    for turn in branch.turns:
        first, last = max(start - before, 0), stop - before
        before += len(turn.messages)
        if last <= 0:
            break
        messages = turn.messages[first:last]
        if not messages:
            continue
        is_begun |= bool(first)
        turns.append(
            structs.replace(
                turn,
                prompt=None if first else turn.prompt and in_brief(turn.prompt),
                messages=tuple(map(in_brief, messages)),
            )
        )
    return Window(
        facts=facts,
        branch=number,
        start=start,
        turns=tuple(turns),
        is_begun=is_begun,
    )


_UNSAID = Branch(
    id=RecordId(""), number=0, is_live=True, turns=(), own=(), usage=Usage()
)


def briefly(run: AgentRun) -> AgentRun:
    """Return an agent run without what was said in it."""
    return _silent(run, tuple(_silent(inner, ()) for inner in run.agents))


def _silent(run: AgentRun, agents: tuple[AgentRun, ...]) -> AgentRun:
    return structs.replace(
        run,
        live=_UNSAID,
        branches=(),
        agents=agents,
        problems=(),
        hidden=(),
        source=None,
        spends=(),
    )


def in_brief(message: Message) -> Message:
    """Return a message as windows have it.

    Its calls have agent runs without what was said in them, and an answer says how it
    begins only if it is an error: whoever shows it opens all of it.
    """
    has_agents = any(call.agents for call in message.calls)
    is_cut = message.role is Role.ASSISTANT and message.head and not message.is_error
    if not has_agents and not is_cut:
        return message
    calls = message.calls
    if has_agents:
        calls = tuple(map(_with_brief_agents, calls))
    return structs.replace(message, head="" if is_cut else message.head, calls=calls)


def _with_brief_agents(call: ToolCall) -> ToolCall:
    if not call.agents:
        return call
    return structs.replace(call, agents=tuple(map(briefly, call.agents)))


def weight_of(session: Session) -> int:
    """Return how many messages a session has, on all branches and in all agents."""
    branches = [
        *session.branches,
        *(b for run in session.all_agents for b in run.branches),
    ]
    return sum(len(turn.messages) for branch in branches for turn in branch.own)


def as_session(session: Session, run: AgentRun) -> Session:
    """Return an agent run as if it were a session, to be read in the same way."""
    called = ": ".join(filter(None, (run.type, run.description))) or run.id
    return structs.replace(
        session,
        title=structs.replace(session.title, text=called),
        live=run.live,
        branches=run.branches,
        agents=run.agents,
        started=run.started,
        ended=run.ended,
        usage=run.usage,
        edits=(),
        lineage=(),
        problems=run.problems,
    )
