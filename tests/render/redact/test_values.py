"""Sessions of which nothing secret can be read."""

from __future__ import annotations

import json
from pathlib import Path

from bygones.model.sessions import Session
from bygones.parse import read_text
from bygones.reading import read
from bygones.render.encode import encoded
from bygones.render.json import json_rows
from bygones.render.plain import Page, plain
from bygones.render.redact import Finds, Redactor, redacted
from bygones.render.walk import View
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
VIEW = View(branches=True, agents=True, thinking=True, tools=True)


def secretive(folder: Path) -> Session:
    """A session that holds a secret in every place that is shown."""
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


def shown(session: Session) -> str:
    rows = "".join(map(encoded, json_rows(session, VIEW, read_text)))
    return rows + plain(session, VIEW, Page(width=None, teller=read_text))


def test_a_secret_is_shown_nowhere(tmp_path: Path) -> None:
    session = secretive(tmp_path)
    assert KEY in shown(session)
    assert "/home/ada" in shown(session)

    told = shown(redacted(session, Redactor()))

    assert KEY not in told
    assert "/home/ada" not in told
    assert "[redacted github-token]" in told


def test_the_names_in_a_sessions_directories_are_hidden(tmp_path: Path) -> None:
    session = redacted(secretive(tmp_path), Redactor())

    assert session.title.text == "About [redacted github-token] of [redacted user]"
    assert session.project == "~/work"


def test_ids_places_and_shared_values_stay(tmp_path: Path) -> None:
    session = secretive(tmp_path)

    told = redacted(session, Redactor())

    assert told.id == session.id
    assert [m.id for m in told.live.messages] == [m.id for m in session.live.messages]
    assert told.live is told.branches[0]


def test_what_was_hidden_is_told_once_a_record(tmp_path: Path) -> None:
    finds = Finds()
    session = redacted(secretive(tmp_path), Redactor(), finds)

    shown(session)
    first = finds.counts()
    shown(session)

    assert finds.counts() == first
    assert first["github-token"] >= 7
    for position, found in finds.records.items():
        assert KEY.encode() in session_raw(position.source, position.offset) or found


def test_it_is_told_which_text_held_what_was_hidden(tmp_path: Path) -> None:
    records = thread(
        prompt(f"Use {KEY}"),
        reply([tool_use("Agent", prompt=f"Use {KEY} too"), text("done")]),
        tool_result("toolu_1", f"Read of {KEY}", outcome={"agentId": "a1"}),
    )
    home = Home(tmp_path)
    home.session(SESSION, records)
    inside = [tool_use("Bash", command="cat /home/ada/x")]
    home.agent(SESSION, "a1", thread(prompt("Look"), reply(inside)))
    (session,) = read(tmp_path)
    finds = Finds()

    shown(redacted(session, Redactor(), finds))

    told = [one for found in finds.records.values() for one in found]
    assert sorted((one.kind, one.within) for one in told) == [
        ("github-token", ".content[0].content"),
        ("github-token", ".content[0].input.prompt"),
        ("github-token", ".content[0].text"),
        ("home", ".content[0].input.command"),
    ]


def session_raw(source: str, offset: int) -> bytes:
    return Path(source).read_bytes()[offset:].partition(b"\n")[0]


def test_pictures_are_left_alone(tmp_path: Path) -> None:
    Home(tmp_path).session(SESSION, thread(prompt([image("QUtJQQ==")])))
    session = session_of(tmp_path, thread(prompt([image("QUtJQQ==")])))

    (block,) = redacted(session, Redactor()).live.messages[0].blocks

    assert "QUtJQQ==" in json.dumps(repr(block))
