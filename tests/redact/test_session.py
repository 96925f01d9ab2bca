"""Redacting whole sessions."""

from __future__ import annotations

import json
from pathlib import Path

from bygones.model.nodes import parse_user_text
from bygones.model.sessions import Session
from bygones.reader import read_sessions
from bygones.redact.engine import Redactor
from bygones.redact.json import redact_line
from bygones.redact.session import RedactionLog, redact_session
from bygones.render.text.session import TextOptions, render_text
from bygones.render.walk import SessionView
from bygones.schema.encoding import encode_object
from bygones.schema.sessions import session_objects
from tests.build import (
    SESSION,
    Home,
    image,
    prompt,
    reply,
    text,
    thinking,
    thread,
    title,
    tool_result,
    tool_use,
)
from tests.render.shared import session_of

KEY = "gh" + "p_" + "a1B2c3D4e5F6" * 3
VIEW = SessionView(
    include_branches=True,
    include_agents=True,
    include_thinking=True,
    include_tools=True,
)


def session_with_secrets(folder: Path) -> Session:
    """Return a session with a secret in every place that is render_all."""
    return session_of(
        folder,
        [
            *thread(
                prompt(f"use {KEY} " + "and " * 100 + KEY) | {"cwd": "/home/ada/work"},
                reply(
                    [
                        thinking(f"so {KEY}"),
                        text(f"I use {KEY}"),
                        tool_use("Bash", id="t1", command=f"curl -H {KEY}"),
                        tool_use("mcp__x__y", id="t2", deep={"list": [{"k": KEY}]}),
                        tool_use("Edit", id="t3", file_path=f"/home/ada/{KEY}.py"),
                    ]
                ),
                tool_result("t1", f"got {KEY}", outcome={"stdout": KEY, "stderr": ""}),
                tool_result("t2", [text(KEY)], outcome={"anything": {"at": [KEY]}}),
                tool_result(
                    "t3",
                    "ok",
                    outcome={
                        "filePath": "/home/ada/x.py",
                        "structuredPatch": [{"lines": [f"-{KEY}", "+x"]}],
                    },
                ),
            ),
            title(f"About {KEY} of ada"),
        ],
    )


def render_all(session: Session) -> str:
    rows = "".join(map(encode_object, session_objects(session, VIEW, parse_user_text)))
    return rows + render_text(
        session, VIEW, TextOptions(width=None, text_parser=parse_user_text)
    )


def test_no_renderer_shows_a_redacted_secret(tmp_path: Path) -> None:
    session = session_with_secrets(tmp_path)
    assert KEY in render_all(session)
    assert "/home/ada" in render_all(session)

    redacted = render_all(redact_session(session, Redactor()))

    assert KEY not in redacted
    assert "/home/ada" not in redacted
    assert "[redacted github-token]" in redacted


def test_login_names_in_directories_are_redacted(tmp_path: Path) -> None:
    session = redact_session(session_with_secrets(tmp_path), Redactor())

    assert session.title.text == "About [redacted github-token] of [redacted user]"
    assert session.project == "~/work"


def test_ids_and_shared_objects_are_kept(tmp_path: Path) -> None:
    session = session_with_secrets(tmp_path)

    redacted = redact_session(session, Redactor())

    assert redacted.id == session.id
    assert [m.id for m in redacted.live_branch.messages] == [
        m.id for m in session.live_branch.messages
    ]
    assert redacted.live_branch is redacted.branches[0]


def test_redactions_are_counted_once_per_record(tmp_path: Path) -> None:
    log = RedactionLog()
    session = redact_session(session_with_secrets(tmp_path), Redactor(), log)

    render_all(session)
    first = log.count_by_kind()
    render_all(session)

    assert log.count_by_kind() == first
    assert first["github-token"] >= 7
    for position, redactions in log.records.items():
        raw = session_raw(position.source_id, position.offset)
        assert KEY.encode() in raw or redactions


def test_redactions_have_the_path_of_their_text(tmp_path: Path) -> None:
    records = thread(
        prompt(f"Use {KEY}"),
        reply([tool_use("Agent", prompt=f"Use {KEY} too"), text("done")]),
        tool_result("toolu_1", f"Read of {KEY}", outcome={"agentId": "a1"}),
    )
    home = Home(tmp_path)
    home.session(SESSION, records)
    inside = [tool_use("Bash", command="cat /home/ada/x")]
    home.agent(SESSION, "a1", thread(prompt("Look"), reply(inside)))
    (session,) = read_sessions(tmp_path)
    log = RedactionLog()

    render_all(redact_session(session, Redactor(), log))

    redactions = [item for record in log.records.values() for item in record]
    assert sorted((item.kind, item.path) for item in redactions) == [
        ("github-token", ".content[0].content"),
        ("github-token", ".content[0].input.prompt"),
        ("github-token", ".content[0].text"),
        ("home", ".content[0].input.command"),
    ]


def session_raw(source: str, offset: int) -> bytes:
    return Path(source).read_bytes()[offset:].partition(b"\n")[0]


def test_images_are_unchanged(tmp_path: Path) -> None:
    Home(tmp_path).session(SESSION, thread(prompt([image("QUtJQQ==")])))
    session = session_of(tmp_path, thread(prompt([image("QUtJQQ==")])))

    (block,) = redact_session(session, Redactor()).live_branch.messages[0].blocks

    assert "QUtJQQ==" in json.dumps(repr(block))


def test_private_key_in_a_diff_is_redacted(tmp_path: Path) -> None:
    body = [f"{number}Qx7" * 16 for number in range(4)]
    label = "RSA PRIVATE " + "KEY-----"
    key = [f"-----BEGIN {label}", *body, f"-----END {label}"]
    hunks = [{"newStart": 1, "lines": [" kept", *(f"+{part}" for part in key)]}]
    diff = {"files": [{"filePath": "/k", "hunks": hunks}], "changedFiles": ["/k"]}
    outcomes = {
        "Bash": {"stdout": "", "bashEditDiff": diff},
        "Edit": {"filePath": "/k", "structuredPatch": hunks},
    }
    records = [prompt("Go")]
    for name, outcome in outcomes.items():
        records += [
            reply([tool_use(name, id=name, command="cp")]),
            tool_result(name, "ok", outcome=outcome),
        ]
    session = session_of(tmp_path, thread(*records))
    lines = [
        redact_line(session.loader.read_raw(call.result_position), Redactor())[0]
        for call in session.live_branch.turns[0].tool_calls
        if call.result_position
    ]

    shown = render_text(redact_session(session, Redactor()), VIEW)

    for text_ in (shown, *(str(line) for line in lines)):
        assert not [part for part in body if part in text_]
        assert "+[redacted private-key]" in text_
        assert " kept" in text_
