"""Write what the hooks of proactive recall need: one small file per project."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from bygones.archive import Archive
from bygones.errors import BygonesError
from bygones.files.blame import BlamedLine
from bygones.files.events import Place
from bygones.files.origins import Certainty, OriginKind, is_telling
from bygones.integrations.recall_hook import (
    MAX_FILE_BYTES,
    error_signatures,
    line_key,
    lines_file,
    program_of,
    project_file,
    words_of,
)
from bygones.model.base import SessionId
from bygones.model.records import TextBlock
from bygones.model.sessions import Message, Session, ToolCall
from bygones.model.summary import Role, SessionSummary
from bygones.render.text.primitives import sanitize_line
from bygones.store.archive_dir import RECALL_FOLDER

MAX_SESSIONS = 200
"""The newest sessions of a project that are looked at."""
_MAX_STEPS = 4
"""Calls between a failure and the same command's success."""
_MAX_TEXT = 160
_MAX_FILES = 40
"""Files of a project whose lines are looked at, those that were changed last."""
_START_SESSIONS = 3
_FORMAT = "format 3"
"""Written with the state of a file: another format is replaced."""
_OFFER_DAYS = 14


class _ToolStep(NamedTuple):
    """A call of a tool with its result."""

    command: str
    """Empty for an edit."""
    is_error: bool
    output: str
    record: str


def folder_of(archive_folder: Path) -> Path:
    """Return the folder of recall, which need not exist."""
    return archive_folder / RECALL_FOLDER


def is_enabled(archive_folder: Path) -> bool:
    """Whether recall was added: then its folder exists."""
    return (archive_folder / RECALL_FOLDER).is_dir()


def enable(archive_folder: Path) -> Path:
    """Create the folder of recall."""
    folder = archive_folder / RECALL_FOLDER
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def update_recall(archive_folder: Path, redact: Callable[[str], str]) -> int:
    """Write the files of all projects with new sessions; return how many."""
    folder = enable(archive_folder)
    _remove_old_offers(folder)
    written = 0
    with Archive.open(archive_folder) as archive:
        by_project: dict[str, list[SessionSummary]] = {}
        for summary in archive.sessions():
            if summary.project:
                by_project.setdefault(summary.project, []).append(summary)
        for project, summaries in by_project.items():
            newest = summaries[:MAX_SESSIONS]
            path = Path(project_file(str(folder), project))
            state = [f"{one.id} {one.ended_at} {one.message_count}" for one in newest]
            state.append(_FORMAT)
            if _read_state(path) == state:
                continue
            data = build_project(archive, newest, redact)
            _write(path, data | {"state": state})
            _write_lines(archive, newest, folder, redact)
            written += 1
    return written


def build_project(
    archive: Archive,
    summaries: Sequence[SessionSummary],
    redact: Callable[[str], str],
) -> dict[str, Any]:
    """Return what the hooks know of a project, from its sessions, newest first."""
    prompts: list[dict[str, str]] = []
    terms: dict[str, list[int]] = {}
    failures: dict[str, dict[str, str]] = {}
    start: list[dict[str, object]] = []
    for summary in summaries:
        session = archive.session(summary.id)
        if len(start) < _START_SESSIONS:
            start.append(_start_entry(session, redact))
        for key, entry in _find_fixes(session, redact):
            failures.setdefault(key, entry)
        for entry, words in _find_prompts(session, redact):
            for word in words:
                terms.setdefault(word, []).append(len(prompts))
            prompts.append(entry)
    return {"start": start, "failures": failures, "prompts": prompts, "terms": terms}


def _start_entry(session: Session, redact: Callable[[str], str]) -> dict[str, object]:
    """Return how a session ended, for the start of the next one."""
    messages = session.live_branch.messages
    spoken = [m for m in messages if m.preview and m.command is None]
    last = spoken[-1] if spoken else None
    is_open = last is not None and last.role is Role.USER
    said = last.preview if last is not None and is_open else _first_line(last)
    return {
        "at": session.id[:8],
        "day": f"{session.ended_at:%d %b}" if session.ended_at else "",
        "title": _short(redact(session.title.text), 70),
        "said": _short(redact(said), 70),
        "is_open": is_open,
    }


def _find_prompts(
    session: Session, redact: Callable[[str], str]
) -> Iterator[tuple[dict[str, str], set[str]]]:
    for turn in session.live_branch.turns:
        if turn.prompt is None or turn.prompt.command is not None:
            continue
        text = turn.prompt.preview
        words = words_of(text)
        if len(words) < 3:  # noqa: PLR2004 (too short to be recognized)
            continue
        last = turn.messages[-1] if turn.messages else None
        reply = _first_line(last) if last is not turn.prompt else ""
        yield (
            {
                "at": f"{session.id[:8]} #{turn.prompt.id[:8]}",
                "day": f"{turn.prompt.sent_at:%d %b}" if turn.prompt.sent_at else "",
                "text": _short(redact(text), 100),
                "reply": _short(redact(reply), 100),
            },
            words,
        )


def _find_fixes(
    session: Session, redact: Callable[[str], str]
) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield failures of commands that worked later, with the command in between.

    Only one step may be in between besides looking at files: it is what helped. An edit
    is not offered: the same error in another place needs another edit.
    """
    steps = list(_bash_and_edit_steps(session))
    for at, failed in enumerate(steps):
        if not failed.is_error or not failed.command:
            continue
        between: list[_ToolStep] = []
        for later in steps[at + 1 : at + 2 + _MAX_STEPS]:
            if later.command == failed.command:
                if not later.is_error and len(between) == 1 and between[0].command:
                    yield from _fix_entries(session, failed, between[0], redact)
                break
            if not later.is_error:
                between.append(later)


def _fix_entries(
    session: Session, failed: _ToolStep, fix: _ToolStep, redact: Callable[[str], str]
) -> Iterator[tuple[str, dict[str, str]]]:
    when = session.ended_at
    for signature in error_signatures(failed.output):
        yield (
            f"{program_of(failed.command)}\n{signature}",
            {
                "at": f"{session.id[:8]} #{fix.record[:8]}",
                "day": f"{when:%d %b}" if when else "",
                "fix": _short(redact(fix.command), _MAX_TEXT),
            },
        )


def _bash_and_edit_steps(session: Session) -> Iterator[_ToolStep]:
    for message in session.live_branch.messages:
        for call in message.tool_calls:
            is_shell = call.name == "Bash"
            if not is_shell and call.name not in {"Edit", "Write", "MultiEdit"}:
                continue
            command = call.label if is_shell else ""
            output = _result_text(call) if call.is_error else ""
            yield _ToolStep(command.strip(), call.is_error, output, message.id)


def _result_text(call: ToolCall) -> str:
    content = call.result.content if call.result is not None else ""
    if isinstance(content, str):
        return content
    texts = (one.text for one in content or () if isinstance(one, TextBlock))
    return "\n".join(filter(None, texts))


def _first_line(message: Message | None) -> str:
    text = message.preview if message is not None else ""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        return ""
    return f"{lines[0]} …" if len(lines) > 1 else lines[0]


def _short(text: str, length: int) -> str:
    plain = sanitize_line(" ".join(text.split()))
    return plain if len(plain) <= length else plain[: length - 1] + "…"


def _write_lines(
    archive: Archive,
    summaries: Sequence[SessionSummary],
    folder: Path,
    redact: Callable[[str], str],
) -> None:
    """Write which prompts are behind the lines of files that were changed last."""
    library = archive.file_library
    prompts: dict[tuple[SessionId, int, int], str] = {}

    def find_prompt(place: Place) -> str:
        key = (place.session_id, place.branch_number, place.turn_number)
        if key not in prompts:
            prompts[key] = _short(redact(library.prompt(place)), _MAX_TEXT)
        return prompts[key]

    for name, session in _last_edits(archive, summaries).items():
        path = Path(name)
        target = Path(lines_file(str(folder), name))
        try:
            found = path.stat()
            state = f"{session} {found.st_mtime_ns}"
            if found.st_size > MAX_FILE_BYTES or _read_state(target) == [state]:
                continue
            blamed = library.blame(path).lines
        except (OSError, BygonesError):
            target.unlink(missing_ok=True)
            continue
        _write(target, build_lines(blamed, find_prompt) | {"state": [state]})


def _last_edits(
    archive: Archive, summaries: Sequence[SessionSummary]
) -> dict[str, str]:
    """Return the files that were changed last, with the session that did."""
    found: dict[str, str] = {}
    for summary in summaries:
        for edit in archive.edits(session=summary.id):
            if edit.path not in found and Path(edit.path).is_absolute():
                found[edit.path] = f"{summary.id} {summary.ended_at}"
            if len(found) >= _MAX_FILES:
                return found
    return found


def build_lines(
    blamed: Iterable[BlamedLine], find_prompt: Callable[[Place], str]
) -> dict[str, Any]:
    """Return the prompts behind lines whose origin is certain.

    A line that two prompts have written, in two places, is left out.
    """
    prompts: list[dict[str, str]] = []
    numbers: dict[str, int] = {}
    lines: dict[str, int | None] = {}
    for one in blamed:
        if not is_telling(one.text):
            continue
        origin, key, number = one.origin, line_key(one.text), None
        is_certain = origin.certainty is Certainty.CERTAIN
        if origin.kind is OriginKind.CLAUDE and is_certain and origin.place:
            record = origin.place.message_id or ""
            at = f"{origin.place.session_id[:8]} #{record[:8]}"
            text = find_prompt(origin.place)
            if text and at not in numbers:
                numbers[at] = len(prompts)
                day = f"{origin.time:%d %b}" if origin.time else ""
                prompts.append({"at": at, "day": day, "text": text})
            number = numbers.get(at)
        lines[key] = number if lines.get(key, number) == number else None
    known = {key: number for key, number in lines.items() if number is not None}
    return {"prompts": prompts, "lines": known}


class _RecallFile(msgspec.Struct):
    """Which sessions a file was written from."""

    state: list[str]


def _read_state(path: Path) -> object:
    try:
        return msgspec.json.decode(path.read_bytes(), type=_RecallFile).state
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return None


def _write(path: Path, data: dict[str, Any]) -> None:
    draft = path.with_suffix(".new")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    with open(os.open(draft, flags, 0o600), "wb") as file:  # noqa: PTH123 (a descriptor)
        file.write(msgspec.json.encode(data))
    draft.replace(path)


def _remove_old_offers(folder: Path) -> None:
    limit = time.time() - _OFFER_DAYS * 86_400
    for path in folder.glob("offered-*.txt"):
        if path.stat().st_mtime < limit:
            path.unlink(missing_ok=True)
