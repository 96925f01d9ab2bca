"""A session at a glance: its turns with their calls, edits, agents and branches."""

from __future__ import annotations

from collections.abc import Iterator

from bygones.mcp.naming import Way
from bygones.mcp.quoting import Quoted
from bygones.mcp.telling import first_line
from bygones.model.ids import RecordId
from bygones.model.sessions import Branch, FileEdit, Session, Turn
from bygones.render.figures import lasting, several, span
from bygones.render.heads import agent_facts
from bygones.render.safe import safe_line

__all__ = ["outline_rows"]

_PROMPT = 160
_FILES = 4


def outline_rows(session: Session, number: int) -> Iterator[Quoted]:
    """Yield the head of a session, the turns of a branch, then what is beside."""
    branch = next(one for one in session.branches if one.number == number)
    outline = _Outline(session, branch)
    yield Quoted("", _head(session))
    names = Way(branch.messages).names
    at = 0
    for turn in branch.turns:
        yield Quoted("", outline.turn(turn, names.name(at) if turn.messages else ""))
        at += len(turn.messages)
    for other in session.branches:
        if other is not branch:
            yield Quoted("", _beside(other))
    for run in session.agents:
        if not run.calls and run.kind.is_shown:
            facts = ", ".join(filter(None, agent_facts(run)))
            yield Quoted("", f"agent {safe_line(run.id)}, called by nobody: {facts}\n")


class _Outline:
    """Tells turns, knowing what of the session belongs to each."""

    def __init__(self, session: Session, branch: Branch) -> None:
        self._edits: dict[RecordId, list[FileEdit]] = {}
        for edit in session.edits:
            self._edits.setdefault(edit.message, []).append(edit)
        self._forks: dict[RecordId, list[int]] = {}
        for other in session.branches:
            if other is not branch and other.fork is not None:
                self._forks.setdefault(other.fork, []).append(other.number)

    def turn(self, turn: Turn, name: str) -> str:
        first = turn.messages[0].time if turn.messages else None
        when = f"{first:%m-%d %H:%M}" if first else ""
        head = " ".join(filter(None, (f"t{turn.number}", name and f"#{name}", when)))
        words = first_line(turn.prompt.head, _PROMPT) if turn.prompt else "(no prompt)"
        told = "; ".join(safe_line(fact) for fact in self._facts(turn) if fact)
        return f"{head}: {words}\n" + (f"  {told}\n" if told else "")

    def _facts(self, turn: Turn) -> Iterator[str]:
        calls = turn.calls
        failed = sum(1 for call in calls if call.is_error)
        yield several(len(calls), "call") if calls else ""
        yield f"{failed} failed" if failed else ""
        yield lasting(turn.duration) if turn.duration is not None else ""
        yield _edited([e for m in turn.messages for e in self._edits.get(m.id, ())])
        for call in calls:
            for run in call.agents:
                if run.kind.is_shown:
                    name = ": ".join(filter(None, (run.type, run.description)))
                    yield f"agent {run.id} ({first_line(name, 80)}) {run.status}"
        if self._forks:
            records = [record for m in turn.messages for record in m.records]
            for number in sorted(n for r in records for n in self._forks.get(r, ())):
                yield f"branch {number} leaves here"
        yield "compacted" if any(m.compaction for m in turn.messages) else ""


def _head(session: Session) -> str:
    times = ""
    if session.started is not None and session.ended is not None:
        times = span(session.started, session.ended, session.started.tzinfo)
    facts = [
        session.id,
        times,
        session.project or "",
        ", ".join(name for name in session.git_branches if name != "HEAD"),
        ", ".join(session.models),
        *(f"{one.kind} {one.session[:8]}" for one in session.lineage),
        session.title.text,
    ]
    return " · ".join(safe_line(fact) for fact in facts if fact) + "\n"


def _edited(edits: list[FileEdit]) -> str:
    files: dict[str, tuple[int, int]] = {}
    for edit in edits:
        added, removed = files.get(edit.path, (0, 0))
        files[edit.path] = (added + edit.added, removed + edit.removed)
    told = [
        f"{path} +{added} -{removed}" if added or removed else path
        for path, (added, removed) in list(files.items())[:_FILES]
    ]
    if len(files) > _FILES:
        told.append(f"{len(files) - _FILES} files more")
    return f"edited {', '.join(told)}" if told else ""


def _beside(branch: Branch) -> str:
    kind = "live" if branch.is_live else "rewound"
    prompts = branch.prompts
    words = first_line(prompts[0].head, _PROMPT) if prompts else ""
    counted = several(len(prompts), "prompt")
    return f"branch {branch.number}, {kind}: {counted}; begins: {words}\n"
