"""Failed tool calls by project and command, with the fixes that followed."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from bygones.data.texts import ContentLoader
from bygones.errors import BygonesError
from bygones.model.base import RecordId, SessionId
from bygones.model.reports import CallPlace, FailureFix, FailureRow
from bygones.render.tool_detail import output_text
from bygones.store.connect import fetch_all, fetch_one
from bygones.store.fact_encoding import (
    HAS_RESULT,
    IS_DENIED,
    IS_ERROR,
    IS_INTERRUPTED,
    IS_STOPPED,
    decode_id,
)

if TYPE_CHECKING:
    from bygones.model.sessions import ToolCall
    from bygones.model.summary import Loader
    from bygones.store.local_reader import LocalReader

_SHELL = "Bash"
_EDITING_TOOLS = frozenset({"Edit", "MultiEdit", "NotebookEdit", "Write"})
_NOTE_TAKING_TOOLS = frozenset(
    {"AskUserQuestion", "TaskCreate", "TaskUpdate", "TodoRead", "TodoWrite"}
)
"""Tools that cannot be what fixed a failure."""
_REFUSED = IS_INTERRUPTED | IS_STOPPED | IS_DENIED
_EXAMPLES = 3
"""Failures of a group whose fixes are looked up."""
_MAX_CANDIDATES = 10
"""Later calls of the same tool that are compared with the file of a failed one."""
_MAX_LINE = 300
_LABEL_FIELDS = [
    "command",
    "file_path",
    "notebook_path",
    "path",
    "pattern",
    "query",
    "url",
    "skill",
    "description",
]
_PATH_FIELDS = ("file_path", "notebook_path", "path", "url")
_NOISE = re.compile(r"</?[a-z_]+>|^Error: Exit code \d+$|^Exit code \d+$", re.MULTILINE)


class CallFacts(NamedTuple):
    """A row of the table of tool calls."""

    session: int
    agent: str
    branch: int
    message: int
    position: int
    flags: int
    call_key: int
    call_block: int
    result_key: int | None
    result_block: int
    turn: int
    id: str
    name: str
    command: str | None
    time_ms: int | None

    @property
    def is_failure(self) -> bool:
        """Whether it failed; a call that was refused or stopped did not."""
        return self.flags & (IS_ERROR | _REFUSED) == IS_ERROR

    @property
    def is_success(self) -> bool:
        return self.flags & (HAS_RESULT | IS_ERROR | _REFUSED) == HAS_RESULT


class Failure(NamedTuple):
    """A failed call, and the calls of its branch after it."""

    call: CallFacts
    branch: Sequence[CallFacts]
    at: int
    fixed_at: int | None
    """Where the same command or tool succeeded next, in a later message."""


class FailureGroup(NamedTuple):
    """Failures of a command or tool in a project, oldest first."""

    project: str | None
    tool_name: str
    command: str | None
    failures: Sequence[Failure]


def group_failures(
    calls: Iterable[CallFacts], projects: Mapping[int, str | None]
) -> list[FailureGroup]:
    """Return the groups, those with the most failures first.

    `calls` are sorted by session, agent, branch and number. A call that several
    sessions contain, because one continues another, counts once.
    """
    groups: dict[tuple[str | None, str, str | None], list[Failure]] = defaultdict(list)
    seen: set[str] = set()
    for (session, *_), found in groupby(calls, key=lambda call: call[:3]):
        for failure in _find_failures(list(found)):
            call = failure.call
            if call.id not in seen:
                groups[projects.get(session), call.name, call.command].append(failure)
            seen.update([call.id] if call.id else [])
    result = [
        FailureGroup(*key, sorted(failures, key=_time))
        for key, failures in groups.items()
    ]
    return sorted(
        result,
        key=lambda one: (len(one.failures), _time(one.failures[-1])),
        reverse=True,
    )


def _time(failure: Failure) -> int:
    return failure.call.time_ms or 0


def _find_failures(branch: list[CallFacts]) -> Iterator[Failure]:
    """Yield the failures on a branch, the last one first."""
    later: dict[tuple[str, str | None], int] = {}
    same_message: dict[tuple[str, str | None], int] = {}
    message = -1
    for at in range(len(branch) - 1, -1, -1):
        call = branch[at]
        if call.message != message:
            # A call of the same message ran at the same time, so it fixed nothing.
            later |= same_message
            same_message, message = {}, call.message
        if call.is_success:
            same_message[call.name, call.command] = at
        elif call.is_failure:
            yield Failure(call, branch, at, later.get((call.name, call.command)))


def load_failures(
    reader: LocalReader, loader: Loader, selected: Mapping[int, str | None]
) -> Iterator[FailureRow]:
    """Yield the failures in sessions, given by number with their projects.

    Texts are loaded for the rows that are read.
    """
    db = reader.sessions.index.db
    sql = (
        "SELECT session, agent, branch, message, position, flags, call_key, call_block,"  # noqa: S608 (numbers)
        " result_key, result_block, turn, id, name, command, time_ms FROM tool_call"
        " WHERE session IN (SELECT session FROM tool_call"
        f" WHERE flags & {IS_ERROR | _REFUSED} = {IS_ERROR})"
        " ORDER BY session, agent, branch, message, position"
    )
    rows = (CallFacts._make(row) for row in fetch_all(db, sql) if row[0] in selected)
    describe = _Describer(reader, loader).describe
    yield from map(describe, group_failures(rows, selected))


class _Describer:
    """Loads the texts of groups."""

    def __init__(self, reader: LocalReader, loader: Loader) -> None:
        self._db = reader.sessions.index.db
        self._texts = ContentLoader(reader, loader, None)

    def describe(self, group: FailureGroup) -> FailureRow:
        failures = group.failures
        shown, fix = self._find_fix(group)
        return FailureRow(
            project=group.project,
            tool_name=group.tool_name,
            command=group.command,
            failure_count=len(failures),
            fixed_count=sum(one.fixed_at is not None for one in failures)
            if group.tool_name == _SHELL
            else None,
            session_count=len({one.call.session for one in failures}),
            last_at=_to_time(failures[-1].call.time_ms),
            place=self._place(shown.call),
            label=self._load(shown.call, _label),
            error=self._load(shown.call, _error),
            fix=fix,
        )

    def _find_fix(self, group: FailureGroup) -> tuple[Failure, FailureFix | None]:
        fixed = [one for one in reversed(group.failures) if one.fixed_at is not None]
        for failure in fixed[:_EXAMPLES]:
            at = self._fixed_at(failure)
            if at is not None:
                return failure, self._describe_fix(failure, at)
        return group.failures[-1], None

    def _fixed_at(self, failure: Failure) -> int | None:
        """Return where the command succeeded, or the tool with the same file."""
        call, branch, _, fixed_at = failure
        if call.name == _SHELL or fixed_at is None:
            return fixed_at
        path = self._load(call, _path)
        if not path:
            return None if path is None else fixed_at
        candidates = (
            at
            for at in range(fixed_at, len(branch))
            if branch[at].name == call.name and branch[at].is_success
        )
        for _, at in zip(range(_MAX_CANDIDATES), candidates, strict=False):
            if self._load(branch[at], _path) == path:
                return at
        return None

    def _describe_fix(self, failure: Failure, at: int) -> FailureFix:
        between = [
            one
            for one in failure.branch[failure.at + 1 : at]
            if one.is_success and one.name not in _NOTE_TAKING_TOOLS
        ]
        step = _last(between, lambda one: one.name in _EDITING_TOOLS)
        step = step or _last(between, lambda one: one.name == _SHELL)
        if failure.call.name != _SHELL or step is None:
            step = _last(between, lambda _: True)
        fixed = failure.branch[at]
        return FailureFix(
            place=self._place(fixed),
            label=self._load(fixed, _label),
            step_tool=step.name if step else None,
            step_label=self._load(step, _label) if step else "",
        )

    def _load(
        self, facts: CallFacts, get_text: Callable[[ToolCall], str | None]
    ) -> str | None:
        """Return a text of a call; none if it cannot be loaded."""
        try:
            call = self._texts.call(*facts[:10])
            return get_text(call) if call is not None else None
        except (BygonesError, OSError, MemoryError):
            raise
        except Exception:  # noqa: BLE001 (the other texts are shown)
            return None

    def _place(self, call: CallFacts) -> CallPlace:
        sql = (
            "SELECT s.id, m.id FROM session_id AS s LEFT JOIN message AS m"
            " ON m.session = s.number AND m.agent = ? AND m.branch = ? AND m.number = ?"
            " WHERE s.number = ?"
        )
        values = (call.agent, call.branch, call.message, call.session)
        row = fetch_one(self._db, sql, values) or ("", None)
        return CallPlace(
            session_id=SessionId(row[0]),
            agent_id=call.agent or None,
            branch_number=call.branch,
            turn_number=call.turn,
            record_id=RecordId(decode_id(row[1]) if row[1] else ""),
            called_at=_to_time(call.time_ms),
        )


def _to_time(milliseconds: int | None) -> datetime | None:
    if milliseconds is None:
        return None
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def _last(
    calls: Sequence[CallFacts], is_wanted: Callable[[CallFacts], bool]
) -> CallFacts | None:
    return next(filter(is_wanted, reversed(calls)), None)


def _input_text(call: ToolCall, names: Sequence[str]) -> str | None:
    """Return the first text in some fields of the input; none if that is damaged."""
    if call.tool_use is None:
        return None
    found = map(call.input.get, names)
    return next((one for one in found if isinstance(one, str) and one), "")


def _path(call: ToolCall) -> str | None:
    return _input_text(call, _PATH_FIELDS)


def _label(call: ToolCall) -> str | None:
    """Return the first line of the command, or the file or text of a call."""
    text = _input_text(call, _LABEL_FIELDS)
    return text and text.strip().partition("\n")[0][:_MAX_LINE]


def _error(call: ToolCall) -> str | None:
    """Return the first line of the result; none if that is damaged."""
    text = output_text(call)
    return first_line(text) if text or call.result is not None else None


def first_line(error: str) -> str:
    """Return the first line of an error that says something, if there is one.

    Of a Python traceback that is its last line.
    """
    lines = [line.strip() for line in _NOISE.sub("", error).splitlines()]
    # Frames around a message say nothing.
    said = [line for line in lines if any(map(str.isalnum, line))]
    said = said or [error.strip().partition("\n")[0]]
    return said[-1 if said[0].startswith("Traceback (") else 0][:_MAX_LINE]
