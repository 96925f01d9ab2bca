"""Login names that are also words of Claude Code or Bygones."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from bygones.model.base import PROBLEM_KINDS
from bygones.model.metadata import ATTACHMENTS_BY_TYPE, RECORDS_BY_TYPE
from bygones.model.nodes import parse_user_text
from bygones.model.records import BLOCKS_BY_TYPE
from bygones.reader import read_sessions
from bygones.redact.engine import Redactor
from bygones.redact.json import redact_line, remove_private
from bygones.redact.session import redact_session
from bygones.render.walk import SHOW_ALL
from bygones.schema.sessions import session_objects
from tests.build import SESSION, Home, prompt, reply, thread, tool_result, tool_use
from tests.cases.make import CASES

WORDS = {
    *(word for kind in PROBLEM_KINDS for word in (kind, *kind.split("-"))),
    *RECORDS_BY_TYPE,
    *ATTACHMENTS_BY_TYPE,
    *BLOCKS_BY_TYPE,
    *("bash", "read", "edit", "tool", "result", "opus", "sonnet", "cafe", "message"),
    *("content", "uuid", "parentuuid", "sessionid", "input", "text", "name", "id"),
}
REDACTOR = Redactor(names=WORDS)


@pytest.mark.parametrize("login", sorted(PROBLEM_KINDS))
def test_login_with_the_name_of_a_problem_is_redacted(
    login: str, tmp_path: Path
) -> None:
    first = prompt(f"I am {login}") | {
        "cwd": f"/home/{login}/x",
        "parentUuid": "00000000-0000-4000-8000-00000000dead",
    }
    Home(tmp_path).session(SESSION, thread(first, reply("Hello")))
    (session,) = read_sessions(tmp_path)
    assert [problem.kind for problem in session.problems] == ["ghost"]

    redacted = redact_session(session, Redactor())

    assert [problem.kind for problem in redacted.problems] == ["ghost"]
    assert login not in redacted.live_branch.messages[0].preview


def test_no_session_changes_its_kinds() -> None:
    changed = []
    for session in (found for case in cases() for found in read_sessions(case)):
        redacted = redact_session(session, REDACTOR)
        list(session_objects(redacted, SHOW_ALL, parse_user_text))
        tools, redacted_tools = (
            [call.name for message in one.messages for call in message.tool_calls]
            for one in (session.live_branch, redacted.live_branch)
        )
        if (tools, session.models, [one.kind for one in session.problems]) != (
            redacted_tools,
            redacted.models,
            [one.kind for one in redacted.problems],
        ):
            changed.append(session.id)
    assert changed == []


def test_redacted_lines_have_the_same_fields_kinds_and_ids() -> None:
    changed = []
    for path in (file for case in cases() for file in case.rglob("*.jsonl")):
        for line in path.read_bytes().splitlines():
            try:
                before = json.loads(remove_private(line) or b"null")
            except ValueError:
                continue
            redacted, _ = redact_line(line, REDACTOR)
            if not isinstance(before, dict):
                continue  # not a record
            if redacted and outline(before) != outline(json.loads(redacted)):
                changed.append(line[:200])
    assert changed == []


def test_login_in_the_name_of_an_mcp_server_is_redacted() -> None:
    call = tool_use("mcp__ada__read", id="t1")
    records = thread(prompt("x"), reply([call]), tool_result("t1", "ok"))
    raw = json.dumps(records[1]).encode()

    redacted, _ = redact_line(raw, Redactor(names=["ada"]))

    assert b"mcp__[redacted user]__read" in (redacted or b"")


def test_fields_that_become_equal_are_kept(tmp_path: Path) -> None:
    backups = {
        f"/home/{name}/x.py": {"backupFileName": name, "version": 1}
        for name in ("ada", "bob")
    }
    snapshot = {
        "type": "file-history-snapshot",
        "messageId": "m1",
        "snapshot": {"messageId": "m1", "trackedFileBackups": backups},
    }
    Home(tmp_path).session(SESSION, [*thread(prompt("x"), reply("y")), snapshot])
    (session,) = read_sessions(tmp_path)
    before = session.file_versions

    after = redact_session(session, Redactor()).file_versions

    assert len(after) == len(before) == 2


def cases() -> Iterator[Path]:
    return (path for path in CASES.glob("*/input") if path.is_dir())


def outline(value: object) -> object:
    """Return names of fields, kinds and ids, without texts."""
    if isinstance(value, list):
        return [outline(item) for item in value]
    if not isinstance(value, dict):
        return None
    return {
        name: item
        if name in {"type", "role", "subtype", "model", "uuid", "parentUuid", "id"}
        else outline(item)
        for name, item in value.items()
        if "/" not in name
    }
