"""Replay events of a file into versions, and compare them with what was seen.

Every recorded original, read and backup is compared with the replayed content. A
difference is a change from outside: it becomes a version of its own, with the interval
in which it happened and its probable cause.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from enum import StrEnum
from operator import itemgetter

from msgspec import Struct, structs

from bygones.files.diff import (
    LineChange,
    apply_changes,
    changes_between,
    diff_texts,
    locate_replacement,
)
from bygones.files.events import (
    EventKind,
    FileEvent,
    Place,
    PlacedCall,
    Replacement,
    touched_paths,
)
from bygones.files.paths import file_name
from bygones.model.base import ToolUseId
from bygones.model.outcomes import PatchHunk

KEYFRAME_INTERVAL = 64
"""Every so many versions the whole text is stored; others are lists of changes."""
_MIN_CAPPED = 1000
"""Recorded originals may be cut, but none that is shorter than this."""


LoadBases = Callable[[str, datetime | None], Iterable[str]]
"""Returns contents that a file may have had at a time."""


class VersionKind(StrEnum):
    """How a version came about."""

    SEEN = "seen"
    """The first content that is known; nothing tells who wrote it."""
    CLAUDE = "claude"
    COMMAND = "command"
    """A command of Claude changed the file, and this is recorded."""
    OUTSIDE = "outside"
    """The file changed without a record of the change."""


class Cause(StrEnum):
    """What probably made a change that is not recorded."""

    COMMAND = "command"
    FORMATTER = "formatter"
    """A hook or a formatter, right after an edit."""
    SESSION = "session"
    """Another session."""
    BRANCH = "branch"
    """An abandoned branch of the same session: a rewind that kept the files."""
    USER = "user"
    """The user, or a program outside of Claude Code."""


class Version(Struct, frozen=True, kw_only=True):
    """One version of a file."""

    number: int
    path: str
    kind: VersionKind
    place: Place
    """Where it was made, or for a change from outside where it was noticed."""
    time: datetime | None = None
    since: datetime | None = None
    """The earliest time at which a change from outside can have happened."""
    cause: Cause | None = None
    command: str = ""
    """The command that made it, or that probably did."""
    suspect: Place | None = None
    """Where the command ran that probably made it."""
    suspected_at: datetime | None = None
    """When that command was started."""
    exists: bool = True
    is_known: bool = True
    """Whether the content is known."""
    is_exact: bool = True
    """Whether the whole content was recorded; otherwise a part of it is inferred."""
    is_base_known: bool = True
    """Whether the content before it is known."""
    changes: tuple[LineChange, ...] = ()
    """From the version before it; from an empty text if that is not known."""
    is_rewritten: bool = False
    """Whether `changes` start from an empty text."""
    added_lines: tuple[str, ...] = ()
    """Lines that it is known to have added, if its content is not known."""
    proposed: str | None = None
    """What Claude proposed, if the user changed it before it was accepted."""


class _Suspicion(Struct, frozen=True):
    """What probably made a change that is not recorded."""

    cause: Cause
    command: str = ""
    place: Place | None = None
    time: datetime | None = None


def _suspect_command(placed: PlacedCall) -> _Suspicion:
    started_at = placed.call.called_at or placed.time
    return _Suspicion(Cause.COMMAND, placed.command, placed.place, started_at)


class CheckResult(StrEnum):
    """Result of a comparison of the replayed content with a recorded one."""

    SAME = "same"
    DIFFERENT = "different"
    UNKNOWN = "unknown"
    """There was nothing to compare with."""


class CheckSubject(StrEnum):
    """What the replayed content was compared with."""

    ORIGINAL = "original"
    """The recorded content before a change."""
    PATCH = "patch"
    """What a change replaced, where nothing else is recorded."""
    READ = "read"
    PART = "part"
    BACKUP = "backup"


class Check(Struct, frozen=True, kw_only=True):
    """A comparison of the replayed content with a recorded one."""

    path: str
    subject: CheckSubject
    result: CheckResult
    place: Place
    version: int
    """The number of the version that the file has after it."""


class Replay:
    """The versions of one file.

    ``commands`` are shell commands that may have changed it, and ``other_texts`` says
    which other branch or session is known to have had a text. ``load_bases`` returns
    contents that the file may have had before an edit, likely ones first.
    """

    def __init__(
        self,
        commands: Sequence[PlacedCall] = (),
        other_texts: Callable[[str], Cause | None] = lambda _: None,
        load_bases: LoadBases = lambda _path, _time: (),
    ) -> None:
        self.versions: list[Version] = []
        self.checks: list[Check] = []
        self._commands = commands
        self._other_texts = other_texts
        self._load_bases = load_bases
        self._keyframes: dict[int, str] = {}
        self._text: str | None = None
        """The last known content, also of a file that was deleted since."""
        self._lines: list[str] | None = None
        """Its lines, if they are known: splitting takes longer than a change."""
        self._exists: bool | None = None
        self._is_current = False
        """Whether the content, or that the file does not exist, is known."""
        self._verified_at: datetime | None = None
        self._last_event: FileEvent | None = None
        self._risky_calls: dict[str, list[tuple[datetime, ToolUseId]]] = {}
        """Commands that may change a file with this name."""

    def add(self, events: Iterable[FileEvent]) -> None:
        """Replay events in order."""
        for event in events:
            if event.kind is EventKind.READ:
                self._check_whole(event, CheckSubject.READ, event.text)
            elif event.kind is EventKind.BACKUP:
                self._check_whole(
                    event, CheckSubject.BACKUP, event.text, is_absent=event.is_absent
                )
            elif event.kind is EventKind.PART:
                self._check_part(event)
            else:
                self._replay_change(event)
            if self._is_current and (not self.versions or self.versions[-1].is_exact):
                self._verified_at = event.time or self._verified_at
                self._last_event = event

    def text(self, number: int) -> str | None:
        """Return the content of a version; none if it is unknown or does not exist."""
        version = self.versions[number]
        if not version.is_known or not version.exists:
            return None
        first = number
        while first not in self._keyframes:
            first -= 1
        lines = self._keyframes[first].split("\n")
        for later in self.versions[first + 1 : number + 1]:
            apply_changes(lines, later.changes)
        return "\n".join(lines)

    @property
    def _current_text(self) -> str | None:
        return self._text if self._is_current and self._exists else None

    def _replay_change(self, event: FileEvent) -> None:
        if event.kind is EventKind.SHELL:
            self._replay_shell(event)
        elif event.kind is EventKind.SNAPSHOT:
            self._replay_snapshot(event)
        elif event.kind is EventKind.WRITE:
            is_new = self._check_before(event)
            self._append(event, VersionKind.CLAUDE, event.text or "", is_fresh=is_new)
        elif event.kind is EventKind.EDIT:
            self._check_before(event)
            self._replay_edit(event)
        elif event.kind is EventKind.MOVE and self._current_text is not None:
            text = None if event.is_absent else self._text
            self._append(event, VersionKind.COMMAND, text, is_exact=False)
        elif event.kind is EventKind.MOVE and not event.is_absent and self.versions:
            self._add_unknown(event, VersionKind.COMMAND)  # of the other path

    def _check_before(self, event: FileEvent) -> bool:
        """Compare the recorded content before a change; return whether it is none."""
        if event.before is not None:
            if self._is_capped(event.before):
                self._note(event, CheckSubject.ORIGINAL, CheckResult.SAME)
            else:
                self._check_whole(event, CheckSubject.ORIGINAL, event.before)
            return False
        if not event.is_new:
            return False
        if self._exists and self._is_current:
            self._add_outside(event, None)
        self._exists, self._is_current = False, True
        return True

    def _is_capped(self, before: str) -> bool:
        """Whether a recorded original is only the start of the known content."""
        text = self._current_text
        return (
            text is not None
            and _MIN_CAPPED <= len(before) < len(text)
            and text.startswith(before)
        )

    def _find_base(self, event: FileEvent) -> None:
        """Look for the content before an edit among those that git has."""
        if self._is_current or not (event.hunks or event.replacements):
            return
        for text in self._load_bases(event.path, event.time):
            if edit_changes(text, event.replacements, event.hunks) is not None:
                kind = VersionKind.SEEN
                if self._text is not None:
                    kind = VersionKind.OUTSIDE
                self._append(event, kind, text, is_exact=False)
                return

    def _replay_edit(self, event: FileEvent) -> None:
        self._find_base(event)
        base = self._current_text
        if base is None:
            new = [r.new for r in event.replacements if not r.old]
            if new and len(new) == len(event.replacements) and not event.hunks:
                # An empty text to replace creates the file.
                self._append(event, VersionKind.CLAUDE, "".join(new), is_fresh=True)
            else:
                self._add_unknown(event, VersionKind.CLAUDE)
            return
        changes = edit_changes(base, event.replacements, event.hunks)
        if changes is None:
            # The file had changed, and the rest of its content is not recorded.
            self._note(event, CheckSubject.PATCH, CheckResult.DIFFERENT)
            self._add_unknown(event, VersionKind.CLAUDE)
        else:
            # Without the replaced text, only the lines of the patch are compared.
            is_exact = all(r.old in base for r in event.replacements[:1])
            if event.before is None:
                is_same = _is_patch_of(base, event.hunks)
                result = CheckResult.SAME if is_same else CheckResult.DIFFERENT
                self._note(event, CheckSubject.PATCH, result)
                is_exact = is_exact and is_same and not self._has_doubts(event)
            self._add_changes(event, VersionKind.CLAUDE, changes, is_exact=is_exact)

    def _has_doubts(self, event: FileEvent) -> bool:
        """Whether a command may have changed the file since its content was seen."""
        name = file_name(event.path)
        if name not in self._risky_calls:
            self._risky_calls[name] = sorted(
                (command.time, command.call.id)
                for command in self._commands
                if command.time is not None and is_suspect(command, name)
            )
        if self._verified_at is None or event.time is None or not self._last_event:
            return False
        risky = self._risky_calls[name]
        first = bisect_right(risky, self._verified_at, key=itemgetter(0))
        stop = bisect_right(risky, event.time, key=itemgetter(0))
        # A hook looks at the files before the result of the command is recorded.
        known = {self._last_event.place.call_id, event.place.call_id}
        return any(call not in known for _, call in risky[first:stop])

    def _replay_shell(self, event: FileEvent) -> None:
        if event.hunks and not event.is_new and not event.is_absent:
            self._find_base(event)
        base = self._current_text
        if event.is_absent:
            self._append(event, VersionKind.COMMAND, None)
        elif event.is_new and event.hunks:
            text = _added_text(event.hunks)
            if text == base and self.versions[-1].place.call_id == event.place.call_id:
                self._confirm(event, CheckSubject.PATCH)  # moved by this command
                return
            self._exists, self._is_current = False, True
            self._append(event, VersionKind.COMMAND, text, is_fresh=True)
        elif base is None or not event.hunks:
            self._add_unknown(event, VersionKind.COMMAND)
        elif (changes := hunk_changes(base, event.hunks)) is None:
            self._note(event, CheckSubject.PATCH, CheckResult.DIFFERENT)
            self._add_unknown(event, VersionKind.COMMAND)
        else:
            self._note(event, CheckSubject.PATCH, CheckResult.SAME)
            is_exact = not self._has_doubts(event)
            self._add_changes(event, VersionKind.COMMAND, changes, is_exact=is_exact)

    def _replay_snapshot(self, event: FileEvent) -> None:
        """Use the content right after a command; what is recorded of it comes first."""
        if event.text is None and not event.is_absent:
            return  # binary
        has_base = self._is_current
        is_same = event.is_absent is not self._exists and (
            event.is_absent or event.text == self._text
        )
        if has_base and is_same:
            self._confirm(event, CheckSubject.BACKUP)
            return
        if not has_base:
            self._check_before(event)
        if self._is_current:
            self._append(event, VersionKind.COMMAND, event.text)
        else:
            self._learn(event, event.text)

    def _check_whole(
        self,
        event: FileEvent,
        subject: CheckSubject,
        text: str | None,
        *,
        is_absent: bool = False,
    ) -> None:
        if text is None and not is_absent:
            return  # binary
        if not self._is_current:
            self._note(event, subject, CheckResult.UNKNOWN)
            self._learn(event, text)
        elif is_absent is not self._exists and (is_absent or text == self._text):
            self._confirm(event, subject)
        else:
            self._note(event, subject, CheckResult.DIFFERENT)
            self._add_outside(event, text)

    def _learn(self, event: FileEvent, text: str | None) -> None:
        """Use content that was seen while the content was unknown."""
        last = self.versions[-1] if self.versions else None
        if last is None or self._text is None:
            self._append(event, VersionKind.SEEN, text)
        elif (
            last.kind is VersionKind.COMMAND
            and last.is_base_known
            and not last.added_lines
        ):
            # What was seen is what the command made of the file.
            self._append(event, last.kind, text, like=last)
        else:
            self._add_outside(event, text)

    def _check_part(self, event: FileEvent) -> None:
        text, seen = self._current_text, (event.text or "").split("\n")
        if text is None:
            self._note(event, CheckSubject.PART, CheckResult.UNKNOWN)
            return
        lines = text.split("\n")
        first = event.first_line - 1
        total = event.total_lines
        known = lines[first : first + len(seen)]
        # The last line may be cut, and a final newline may be left out.
        is_same = known[: len(seen) - 1] == seen[:-1] and (
            seen[-1] == "" or known[len(seen) - 1 :] in ([], [seen[-1]])
        )
        is_same = is_same and (total is None or total in {len(lines), len(lines) - 1})
        if is_same or event.text == "":
            self._note(event, CheckSubject.PART, CheckResult.SAME)
            return
        self._note(event, CheckSubject.PART, CheckResult.DIFFERENT)
        grown = (total - len(lines)) if total is not None else 0
        stop = max(first + len(seen) - grown, first)
        # Assume that the lines before and after the part are the same.
        changed = [*lines[:first], *seen, *lines[stop:]]
        self._add_outside(event, "\n".join(changed), is_exact=False)

    def _confirm(self, event: FileEvent, subject: CheckSubject) -> None:
        """Note that the whole content was seen; what was inferred is now recorded."""
        self._note(event, subject, CheckResult.SAME)
        if self.versions and not self.versions[-1].is_exact:
            self.versions[-1] = structs.replace(self.versions[-1], is_exact=True)

    def _note(
        self, event: FileEvent, subject: CheckSubject, result: CheckResult
    ) -> None:
        self.checks.append(
            Check(
                path=event.path,
                subject=subject,
                result=result,
                place=event.place,
                version=len(self.versions) - 1,
            )
        )

    def _add_unknown(self, event: FileEvent, kind: VersionKind) -> None:
        """Add a version of which only the added lines are known."""
        added = [
            line[1:]
            for hunk in event.hunks
            for line in hunk.lines
            if line.startswith("+")
        ]
        if not event.hunks:
            added = [line for r in event.replacements for line in r.new.split("\n")]
        self._append(
            event, kind, None, is_known=False, added_lines=tuple(filter(None, added))
        )

    def _add_outside(
        self, event: FileEvent, text: str | None, *, is_exact: bool = True
    ) -> None:
        suspicion = self._find_cause(event, text)
        self._append(
            event, VersionKind.OUTSIDE, text, suspicion=suspicion, is_exact=is_exact
        )

    def _add_changes(
        self,
        event: FileEvent,
        kind: VersionKind,
        changes: tuple[LineChange, ...],
        *,
        is_exact: bool = True,
    ) -> None:
        lines = self._lines or (self._text or "").split("\n")
        apply_changes(lines, changes)
        self._append(event, kind, "\n".join(lines), changes=changes, is_exact=is_exact)
        self._lines = lines

    def _append(  # noqa: PLR0913 (all but three by name and optional)
        self,
        event: FileEvent,
        kind: VersionKind,
        text: str | None,
        *,
        is_fresh: bool = False,
        is_known: bool = True,
        is_exact: bool = True,
        changes: tuple[LineChange, ...] | None = None,
        added_lines: tuple[str, ...] = (),
        suspicion: _Suspicion | None = None,
        like: Version | None = None,
    ) -> None:
        """Add a version; without a text the file is deleted, or its content unknown.

        `is_fresh` means that nothing of the text comes from the version before it.
        """
        number, base = len(self.versions), None if is_fresh else self._text
        if changes is not None:
            is_exact = is_exact and self.versions[-1].is_exact
        elif text is not None:
            changes = diff_texts(base or "", text)
        self.versions.append(
            Version(
                number=number,
                path=event.path,
                kind=kind,
                place=like.place if like else event.place,
                time=like.time if like else event.time,
                since=self._verified_at if kind is VersionKind.OUTSIDE else None,
                cause=suspicion.cause if suspicion else None,
                command=(suspicion.command if suspicion else "")
                or (like.command if like else event.command),
                suspect=suspicion.place if suspicion else None,
                suspected_at=suspicion.time if suspicion else None,
                exists=text is not None or not is_known,
                is_known=is_known,
                is_exact=is_exact and "\ufffd" not in (text or ""),
                is_base_known=self._is_current,
                changes=changes or (),
                is_rewritten=text is not None and base is None,
                added_lines=added_lines,
                proposed=event.proposed,
            )
        )
        if text is not None:
            if base is None or number % KEYFRAME_INTERVAL == 0:
                self._keyframes[number] = text
            self._text, self._lines = text, None
        self._exists, self._is_current = text is not None or not is_known, is_known

    def _find_cause(self, event: FileEvent, text: str | None) -> _Suspicion:
        """Return what probably changed the file since it was last verified."""
        previous = self.versions[-1]
        if previous.kind is VersionKind.OUTSIDE and not previous.is_exact:
            # Only a part of that change had been seen.
            return _Suspicion(
                previous.cause or Cause.USER,
                previous.command,
                previous.suspect,
                previous.suspected_at,
            )
        start, stop = self._verified_at, event.time
        between = [
            command
            for command in self._commands
            if command.time is not None
            and (start is None or command.time >= start)
            and (stop is None or command.time <= stop)
        ]
        name = file_name(event.path)
        between.sort(
            key=lambda command: command.time.timestamp() if command.time else 0
        )
        for command in reversed(between):
            if is_suspect(command, name):
                return _suspect_command(command)
        if text is not None and (cause := self._other_texts(text)):
            return _Suspicion(cause)
        last = self._last_event
        is_same_turn = (
            last is not None
            and last.place.session_id == event.place.session_id
            and last.place.turn_number == event.place.turn_number
        )
        if is_same_turn and between:
            return _suspect_command(between[-1])
        if is_same_turn and last and last.kind in {EventKind.EDIT, EventKind.WRITE}:
            return _Suspicion(Cause.FORMATTER)
        return _Suspicion(Cause.USER)


_TREE_CHANGE = re.compile(
    r"\bgit\s+(?:\S+\s+)*?(?:checkout|restore|reset|stash|pull|merge|rebase|cherry-pick"
    r"|revert|switch|apply|am|clean)\b"
    r"|\b(?:prettier|black|ruff|isort|autopep8|yapf|gofmt|goimports|rustfmt|clang-format"
    r"|biome|eslint|stylelint|dprint|standardrb|rubocop|swiftformat|ktlint|spotless\w*"
    r"|pre-commit)\b"
    r"|\bcargo\s+(?:fmt|fix)|\bmix\s+format|\bgo\s+(?:fmt|generate)|\bterraform\s+fmt"
    r"|\b(?:npm|pnpm|yarn|bun|just|make)\s+(?:run\s+)?[\w:-]*(?:format|fmt|lint|fix|gen)"
    r"|\bsed\s+(?:-\w+\s+)*-i|\bperl\s+-\w*i|\bpatch\b|\brsync\b"
)


def changes_tree(command: str) -> bool:
    """Whether a command is of a kind that changes files which it does not name."""
    return _TREE_CHANGE.search(command) is not None


_READING_PROGRAM = re.compile(
    r"(?:\S*/)?(?:cat|head|tail|less|more|bat|e?grep|rg|ag|ack|ls|ll|tree|wc|stat|file"
    r"|find|fd|diff|cmp|md5sum|sha256sum|pytest|tox|jest|vitest|mypy|pyright|tsc|cd|pwd"
    r"|echo|export|source|test|\[|which|type|true|false|sleep|sort|uniq|cut|jq|hexdump|xxd"
    r"|od|du)(?:\s|$)"
)
_READING_SUBCOMMANDS = re.compile(
    r"git\s+(?:-\S+\s+)*(?:add|commit|status|diff|log|show|blame|grep|push|fetch|ls-files"
    r"|mv)"
    r"|python3?\s+-m\s+(?:pytest|mypy|unittest)|(?:npm|yarn|pnpm)\s+(?:run\s+)?test"
    r"|(?:cargo|go|mix)\s+(?:test|check|build|vet)|node\s+--check"
)
_COMMAND_SEPARATOR = re.compile(r"&&|\|\||[;|\n]")
_REDIRECTION = re.compile(r"(?<!2)>{1,2}(?!&|\s*/dev/null)")


def is_suspect(placed: PlacedCall, name: str) -> bool:
    """Whether a command probably changed a file with a name without a record of it.

    Of a command that is recorded with the files that it changed, only a file that it
    names is doubtful: git ignores some.
    """
    if touched_paths(placed.call):
        return _may_change_named(placed.command, name)
    return may_change(placed.command, name)


def may_change(command: str, name: str) -> bool:
    """Whether a command probably changed a file: it names it, or changes many files."""
    return changes_tree(command) or _may_change_named(command, name)


def _may_change_named(command: str, name: str) -> bool:
    """Whether a command names a file, and does not only read or rename it."""
    if not re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", command, re.IGNORECASE):
        return False
    for part in _COMMAND_SEPARATOR.split(command):
        bare = part.strip()
        is_reading = (
            not bare
            or _READING_PROGRAM.match(bare) is not None
            or _READING_SUBCOMMANDS.match(bare) is not None
        )
        if not is_reading or _REDIRECTION.search(part):
            return True
    return False


def edit_changes(
    base: str, replacements: Sequence[Replacement], hunks: Sequence[PatchHunk]
) -> tuple[LineChange, ...] | None:
    """Return the changes of an edit; none if it does not apply to a text."""
    if len(replacements) == 1 and not replacements[0].is_for_all:
        found = _replace_once(base, replacements[0], hunks)
        if found is not None:
            return found
    elif replacements and (text := _replace_all(base, replacements)) is not None:
        return diff_texts(base, text)
    return hunk_changes(base, hunks) if hunks else None


def _replace_once(
    base: str, replacement: Replacement, hunks: Sequence[PatchHunk]
) -> tuple[LineChange, ...] | None:
    """Replace a text that occurs once, or where the patch says."""
    old, new = replacement.old, replacement.new
    offset = base.find(old) if old else -1
    if offset < 0:
        return None
    if base.find(old, offset + 1) >= 0:
        return hunk_changes(base, hunks) if hunks else None
    return locate_replacement(
        base, offset, _removed_length(base, offset, old, new), new
    )


def _removed_length(base: str, offset: int, old: str, new: str) -> int:
    """Return how much is removed: a deleted line goes with its newline."""
    end = offset + len(old)
    if not new and not old.endswith("\n") and base[end : end + 1] == "\n":
        return len(old) + 1
    return len(old)


def _replace_all(base: str, replacements: Sequence[Replacement]) -> str | None:
    text = base
    for replacement in replacements:
        old, new = replacement.old, replacement.new
        if not old or old not in text:
            return None
        if not new and not old.endswith("\n") and f"{old}\n" in text:
            old = f"{old}\n"
        text = text.replace(old, new, -1 if replacement.is_for_all else 1)
    return text


def hunk_changes(
    base: str, hunks: Sequence[PatchHunk]
) -> tuple[LineChange, ...] | None:
    """Return the changes of a patch; none if it does not apply exactly."""
    lines = base.split("\n")
    changes: list[LineChange] = []
    for hunk in hunks:
        old, new = _hunk_sides(hunk)
        start = max(hunk.old_start - 1, 0)
        if not old and hunk.old_start > 1:
            start = hunk.old_start  # lines are added after this one
        if lines[start : start + len(old)] != old:
            return None
        changes += changes_between(old, new, start)
    return tuple(changes)


def _is_patch_of(base: str, hunks: Sequence[PatchHunk]) -> bool:
    """Whether a patch may be of a text; spaces are recorded differently than they are."""
    lines = base.split("\n")
    for hunk in hunks:
        old, _ = _hunk_sides(hunk)
        start = max(hunk.old_start - 1, 0)
        found = lines[start : start + len(old)]
        if old and list(map(str.split, found)) != list(map(str.split, old)):
            return False
    return True


def _hunk_sides(hunk: PatchHunk) -> tuple[list[str], list[str]]:
    """Return the lines of a hunk before and after."""
    old: list[str] = []
    new: list[str] = []
    unfinished = set()
    last_mark = " "
    for line in hunk.lines:
        mark = line[:1] or " "
        if mark == "\\":  # "No newline at end of file", about the line before
            unfinished |= {"-", "+"} if last_mark == " " else {last_mark}
        if mark in {" ", "-"}:
            old.append(line[1:])
        if mark in {" ", "+"}:
            new.append(line[1:])
        last_mark = mark
    if unfinished:
        old += [] if "-" in unfinished else [""]
        new += [] if "+" in unfinished else [""]
    return old, new


def _added_text(hunks: Sequence[PatchHunk]) -> str:
    """Return the content of a new file; it ends with a newline unless that is noted."""
    lines = [line for hunk in hunks for line in hunk.lines]
    text = "\n".join(line[1:] for line in lines if line[:1] == "+")
    is_cut = bool(lines) and lines[-1].startswith("\\")
    return text if is_cut or not text else f"{text}\n"
