"""Origins and files as JSON objects and as words."""

from __future__ import annotations

from bygones.files.blame import BlamedLine
from bygones.files.events import Place
from bygones.files.history import FileAt
from bygones.files.origins import Certainty, LineOrigin, OriginKind
from bygones.schema.files import BlameLineObject, FileAtObject

_WORDS = {
    OriginKind.CLAUDE: "claude",
    OriginKind.MODIFIED: "modified",
    OriginKind.USER: "user",
    OriginKind.COMMAND: "command",
    OriginKind.BEFORE: "before",
    OriginKind.UNKNOWN: "unknown",
}


def origin_label(origin: LineOrigin) -> str:
    """Return who wrote a line in one word; a question mark means that it is inferred."""
    word = _WORDS[origin.kind]
    if origin.kind is OriginKind.CLAUDE and origin.place and origin.place.agent_id:
        word = "agent"
    return f"{word}?" if origin.certainty is Certainty.LIKELY else word


def turn_label(session_id: str, turn_number: int, branch_number: int) -> str:
    """Return the name of a turn as `cat`, `diff` and `blame` accept it."""
    branch = f"~{branch_number + 1}" if branch_number else ""
    return f"{session_id[:8]}:{turn_number + 1}{branch}"


def place_label(place: Place) -> str:
    """Return the name of the turn in which something happened."""
    return turn_label(place.session_id, place.turn_number, place.branch_number)


def blame_line_object(
    path: str, line: BlamedLine, prompt: str | None = None
) -> BlameLineObject:
    """Return a line with its origin as a JSON object."""
    origin = line.origin
    place = origin.place
    return BlameLineObject(
        path=path,
        line=line.number,
        text=line.text,
        origin=origin.kind,
        certainty=origin.certainty,
        session_id=place.session_id if place else None,
        turn_number=place.turn_number + 1 if place else None,
        branch_number=place.branch_number + 1 if place else None,
        agent_id=place.agent_id if place else None,
        message_id=place.message_id if place else None,
        tool_call_id=place.call_id if place else None,
        changed_at=origin.time,
        command=origin.command or None,
        cause=origin.cause,
        commit=origin.commit or None,
        prompt=prompt or None,
    )


def file_at_object(file: FileAt, written_path: str | None = None) -> FileAtObject:
    """Return a file at a moment as a JSON object."""
    version = file.version
    place = version.place if version else None
    return FileAtObject(
        path=file.path,
        session_id=place.session_id if place else None,
        turn_number=place.turn_number + 1 if place else None,
        branch_number=place.branch_number + 1 if place else None,
        changed_at=version.time if version else None,
        exists=file.exists,
        is_certain=file.is_certain,
        content=file.text,
        possible_changes=tuple(doubt.command for doubt in file.doubts),
        written_path=written_path,
    )
