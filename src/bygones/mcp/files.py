"""The history of a file: which sessions changed it, what was asked, what was said."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from bygones.archive import Archive
from bygones.mcp.naming import plain_id, short_session
from bygones.mcp.quoting import Quoted
from bygones.mcp.telling import first_line
from bygones.model.finds import FoundEdit
from bygones.model.ids import RecordId, SessionId
from bygones.model.sessions import FileEdit, Message, Session, Turn
from bygones.render.safe import safe_line

__all__ = ["file_rows", "newest_first"]

_PROMPT = 200
_SAID = 160


def newest_first(
    edits: Sequence[FoundEdit], caller: str | None
) -> dict[SessionId, set[str]]:
    """Return the sessions that made changes, newest first, and what they changed."""
    found: dict[SessionId, set[str]] = {}
    for edit in reversed(edits):
        if edit.session != caller:
            found.setdefault(edit.session, set()).add(edit.path)
    return found


def file_rows(
    archive: Archive,
    sessions: Mapping[SessionId, set[str]],
    opened: Callable[[Session], Session],
) -> Iterator[Quoted]:
    """Yield a row a session; ``opened`` hides what must not be told."""
    for id_, paths in sessions.items():
        raw = archive.session(id_)
        session = opened(raw)
        edits = [
            told
            for edit, told in zip(raw.edits, session.edits, strict=True)
            if edit.path in paths
        ]
        name = short_session(archive, archive.listed(id_))
        title = first_line(session.title.text, _PROMPT)
        yield Quoted("", f"{name} · {title}\n{''.join(_changes(session, edits))}")


def _changes(session: Session, edits: Sequence[FileEdit]) -> Iterator[str]:
    """Yield the changes of each turn together, with its prompt."""
    turns, messages = _turns(session)
    groups: dict[tuple[int, int, str | None], list[FileEdit]] = {}
    for edit in edits:
        groups.setdefault((edit.branch, edit.turn, edit.agent), []).append(edit)
    live = session.live.number
    for (branch, _, agent), group in groups.items():
        first = group[0]
        turn = turns.get(first.message)
        if turn is not None and turn.prompt is not None:
            yield f"  asked: {first_line(turn.prompt.head, _PROMPT)}\n"
        for edit in group:
            said = messages.get(edit.message)
            words = first_line(said.head, _SAID) if said else ""
            yield f"  {_change(edit)}{_where(branch, live, agent)}" + (
                f": {words}\n" if words else "\n"
            )


def _change(edit: FileEdit) -> str:
    facts = [
        f"#{plain_id(edit.message)}",
        f"{edit.time:%Y-%m-%d %H:%M}" if edit.time else "",
        "made" if edit.is_new else "changed",
        safe_line(edit.path),
        f"+{edit.added} -{edit.removed}" if edit.added or edit.removed else "",
        "(failed)" if edit.call.is_error else "",
    ]
    return " ".join(filter(None, facts))


def _where(branch: int, live: int, agent: str | None) -> str:
    if agent is not None:
        return f", by agent {safe_line(agent)}"
    return "" if branch == live else f", rewound branch {branch}"


def _turns(
    session: Session,
) -> tuple[dict[RecordId, Turn], dict[RecordId, Message]]:
    turns: dict[RecordId, Turn] = {}
    messages: dict[RecordId, Message] = {}
    ways = [branch.turns for branch in session.branches]
    ways += [run.live.turns for run in session.all_agents]
    for way in ways:
        for turn in way:
            for message in turn.messages:
                turns.setdefault(message.id, turn)
                messages.setdefault(message.id, message)
    return turns, messages
