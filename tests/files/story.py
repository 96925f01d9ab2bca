"""A home in which Claude works on files, written call by call."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher
from pathlib import Path

from bygones.files.history import BranchLog, FileHistory
from bygones.files.paths import path_key
from bygones.model.base import SessionId
from bygones.model.sessions import Session
from bygones.reader import read_sessions
from tests.build import (
    CWD,
    SESSION,
    Home,
    Written,
    moment,
    prompt,
    reply,
    tool_result,
    tool_use,
)

FILE = f"{CWD}/a.py"


def hunks(old: str, new: str) -> list[Written]:
    """Return a patch as Claude Code records it: three lines of context."""
    before, after = old.split("\n"), new.split("\n")
    found = []
    for group in SequenceMatcher(None, before, after, False).get_grouped_opcodes(3):
        lines: list[str] = []
        for tag, a, b, c, d in group:
            if tag == "equal":
                lines += (f" {line}" for line in before[a:b])
            else:
                lines += (f"-{line}" for line in before[a:b])
                lines += (f"+{line}" for line in after[c:d])
        first, last = group[0], group[-1]
        found.append(
            {
                "oldStart": first[1] + 1,
                "oldLines": last[2] - first[1],
                "newStart": first[3] + 1,
                "newLines": last[4] - first[3],
                "lines": lines,
            }
        )
    return found


class Story:
    """The records of a session; every call is answered at once.

    Each method returns the id of its last record, so that a rewind can name it.
    """

    def __init__(self, session: str = SESSION, name: str = "") -> None:
        self.session = session
        self.records: list[Written] = []
        self.seconds = 0.0
        self.step = 1.0
        self._name = name
        self._parent: str | None = None

    def _add(self, record: Written) -> str:
        self.seconds += self.step
        number = len(self.records)
        uuid = f"{self._name}u{number}"
        record |= {"uuid": uuid, "parentUuid": self._parent}
        record["timestamp"] = moment(self.seconds)
        self.records.append(record)
        self._parent = uuid
        return uuid

    def say(self, words: str) -> str:
        return self._add(prompt(words))

    def rewind(self, record: str | None) -> None:
        """Continue after a record."""
        self._parent = record

    def call(
        self,
        tool: str,
        outcome: object = None,
        *,
        is_error: bool = False,
        **given: object,
    ) -> str:
        call_id = f"toolu_{self._name}{len(self.records)}"
        self._add(reply([tool_use(tool, id=call_id, **given)]))
        return self._add(
            tool_result(call_id, "done", outcome=outcome, is_error=is_error or None)
        )

    def write(self, text: str, before: str | None = None, path: str = FILE) -> str:
        outcome = {
            "type": "create" if before is None else "update",
            "filePath": path,
            "content": text,
            "structuredPatch": [] if before is None else hunks(before, text),
            "originalFile": before,
        }
        return self.call("Write", outcome, file_path=path, content=text)

    def edit(
        self, old: str, new: str, before: str | None, path: str = FILE, **fields: object
    ) -> str:
        is_for_all = bool(fields.get("replaceAll"))
        outcome = {
            "filePath": path,
            "oldString": old,
            "newString": new,
            "originalFile": before,
            "structuredPatch": []
            if before is None
            else hunks(before, before.replace(old, new, -1 if is_for_all else 1)),
            "userModified": False,
            "replaceAll": False,
        }
        return self.call(
            "Edit",
            outcome | fields,
            file_path=path,
            old_string=old,
            new_string=new,
            replace_all=is_for_all,
        )

    def read(self, text: str, path: str = FILE, first: int = 1, total: int = 0) -> str:
        count = text.count("\n") + 1
        file = {
            "filePath": path,
            "content": text,
            "numLines": count,
            "startLine": first,
            "totalLines": total or count,
        }
        return self.call("Read", {"type": "text", "file": file}, file_path=path)

    def bash(self, command: str, files: Sequence[Written] = (), **more: object) -> str:
        outcome: dict[str, object] = {"stdout": "", "stderr": "", "interrupted": False}
        changed = [*(file["filePath"] for file in files), *more.pop("others", ())]  # type: ignore[misc]
        if changed:
            outcome["bashEditDiff"] = {
                "files": list(files),
                "moreFiles": 0,
                "changedFiles": changed,
            }
        return self.call("Bash", outcome | more, command=command)

    def write_to(self, home: Home) -> None:
        home.session(self.session, self.records)


def load(folder: Path, *stories: Story) -> Session:
    """Return the session of the last story."""
    home = Home(folder)
    for story in stories:
        story.write_to(home)
    wanted = stories[-1].session
    return next(s for s in read_sessions(folder) if s.id == wanted)


def history(
    folder: Path, *stories: Story, path: str = FILE, branch: int = 0
) -> FileHistory:
    """Return the history of a file in the sessions of stories, told by their backups."""
    load(folder, *stories)
    ids = [story.session for story in stories]

    def load_backup(session: SessionId, name: str) -> bytes | None:
        backup = folder / "file-history" / session / name
        return backup.read_bytes() if backup.exists() else None

    logs = [
        BranchLog(session, session.branches[branch], load_backup=load_backup)
        for session in read_sessions(folder)
        if session.id in ids
    ]
    return FileHistory(path, path_key(path, CWD), logs)
