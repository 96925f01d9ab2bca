"""The library as the guide shows it: short names, short texts, our own errors."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw

import bygones
from bygones import Archive, read_sessions
from bygones.errors import ArchiveClosed, BygonesError, NotInArchive, UnknownGrouping
from bygones.model.outcomes import BashOutcome
from bygones.model.records import (
    ImageBlock,
    MediaSource,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from bygones.schema.registry import json_schema
from tests.build import (
    Home,
    moment,
    prompt,
    reply,
    session_id,
    thread,
    tool_result,
    tool_use,
)

HOSTILE = "<script>alert(1)</script>"
LONG = "long " * 100_000


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """Return a home with two sessions, in the place of the user's own."""
    shop = tmp_path / "shop"
    shop.mkdir()
    home = Home(tmp_path / ".claude")
    edit = {"filePath": str(shop / "a.py"), "structuredPatch": []}
    home.session(
        session_id(1),
        thread(
            prompt(f"fix the flaky login test {HOSTILE}", cwd=str(shop)),
            reply([tool_use("Bash", id="t1", command="pytest")], cwd=str(shop)),
            tool_result("t1", "1 failed", is_error=True, cwd=str(shop)),
            reply(
                [tool_use("Write", id="t2", file_path=str(shop / "a.py"), content="x")],
                cwd=str(shop),
            ),
            tool_result("t2", "written", outcome=edit, cwd=str(shop)),
            reply(f"It waits now. {LONG}", cwd=str(shop)),
        ),
    )
    home.session(
        session_id(2),
        thread(prompt("another question", timestamp=moment(90_000)), start=90_000),
    )
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in (
        "BYGONES_ARCHIVE",
        "BYGONES_HOME",
        "XDG_DATA_HOME",
        "CLAUDE_CONFIG_DIR",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(shop)
    Archive.ingest(Path("~/.local/share/bygones").expanduser(), [home.path])
    return home


@pytest.mark.req("DA1")
@pytest.mark.usefixtures("home")
def test_the_example_of_the_guide_runs(capsys: pytest.CaptureFixture[str]) -> None:
    with Archive.open() as archive:
        projects = [summary.project for summary in archive.sessions("project:.")]
        for match in archive.search("flaky login test", limit=5):
            print(match.title, match.hits[0].excerpt)  # noqa: T201 (as in the guide)
        session = archive.session(session_id(1))
        message = session.messages[-1]
        call, other = session.tool_calls
        rows = archive.usage(by="day").to_dicts()
        report = archive.ingest()

        assert projects == [str(Path.cwd())]
        assert capsys.readouterr().out.startswith("fix the flaky login test")
        assert message.text == f"It waits now. {LONG}"
        assert (call.input["command"], call.output, call.failed) == (
            "pytest",
            "1 failed",
            True,
        )
        assert not other.failed
        assert [edit.path for edit in session.edits] == [str(Path.cwd() / "a.py")]
        assert session.agents == ()
        assert session.cost_usd == pytest.approx(sum(row["cost_usd"] for row in rows))
        assert rows[0]["type"] == "usage"
        assert not report.problems


@pytest.mark.usefixtures("home")
def test_a_session_has_several_names() -> None:
    with Archive.open() as archive:
        newest = archive.session("last")
        record = archive.session(session_id(1)).messages[2].id

        assert newest.id == session_id(2)
        assert archive.session(record).id == session_id(1)
        assert archive.session(session_id(2)[:36]).id == session_id(2)
        assert archive.session(next(archive.sessions())).id == session_id(2)
        for name in ("last", session_id(2)[:36], next(archive.sessions())):
            assert archive.conversation(name).facts.id == session_id(2)
        assert archive.conversation(record).facts.id == session_id(1)
        with pytest.raises(NotInArchive):
            archive.session("5e551000-0000-4000-8000-00000000ffff")


def test_an_open_archive_imports_what_is_new(home: Home) -> None:
    with Archive.open() as archive:
        home.session(session_id(3), thread(prompt("something new")))
        archive.ingest()

        assert archive.session(session_id(3)).messages[0].text == "something new"


@pytest.mark.usefixtures("home")
def test_values_are_short_in_a_shell() -> None:
    with Archive.open() as archive:
        session = archive.session(session_id(1))
        output = (
            archive,
            session,
            session.live_branch,
            session.live_branch.turns[0],
            *session.messages,
            *session.tool_calls,
            archive.search("flaky"),
            archive.search("flaky")[0],
            next(archive.sessions()),
            archive.search("flaky")[0].hits[0],
            archive.projects()[0],
            next(archive.prompts()),
            archive.usage(),
            archive.sql("SELECT * FROM messages"),
            *(block for message in session.messages for block in message.blocks),
            *(call.outcome for call in session.tool_calls if call.outcome),
            *(call.result for call in session.tool_calls),
            archive.ingest(is_thorough=True),
            archive.context(session_id(1)),
            archive.conversation(session_id(1)).window(0, 0, 9),
        )
        for value in output:
            assert len(repr(value)) < 300, value
            assert type(value).__name__ in repr(value)


def test_parts_of_messages_show_the_start_and_end_of_long_texts() -> None:
    image = MediaSource(type="base64", media_type="image/png", data=LONG)
    result = ToolResultBlock(content=(TextBlock(text="ok"), ImageBlock(source=image)))
    outcome = BashOutcome(stdout=LONG, stderr="")
    call = ToolUseBlock(name="Bash", input=Raw(b'{"command":"ls"}'))

    assert "TextBlock(text='ok'), ImageBlock(" in repr(result)
    assert repr(outcome).startswith("BashOutcome(stdout='long long")
    assert repr(call) == (
        """ToolUseBlock(type='tool_use', name='Bash', input=b'{"command":"ls"}')"""
    )
    assert all(len(repr(value)) < 300 for value in (image, result, outcome))


@pytest.mark.usefixtures("home")
def test_notebooks_show_escaped_tables() -> None:
    with Archive.open() as archive:
        session = archive.session(session_id(1))
        for value in (
            session,
            session.messages[0],
            archive.search("flaky"),
            archive.usage("session"),
            archive.sql("SELECT text AS '<b>' FROM prompts"),
        ):
            output = value._repr_html_()
            assert output.startswith("<table>")
            assert "<script>" not in output
            assert "<b>" not in output
        assert "&lt;script&gt;" in session._repr_html_()
        assert len(session._repr_html_()) < 20_000
        assert re.search(
            r"<td>\d{4}-\d\d-\d\d \d\d:\d\d UTC</td>", session._repr_html_()
        )


@pytest.mark.req("DA1")
@pytest.mark.usefixtures("home")
def test_dicts_are_the_json_of_the_commands() -> None:
    def check(value: dict[str, Any]) -> None:
        schema = json_schema(value["type"])
        own = schema["$defs"][schema["$ref"].rpartition("/")[2]]
        assert value.keys() <= own["properties"].keys()
        assert set(own["required"]) <= value.keys()
        json.dumps(value)

    with Archive.open() as archive:
        session = archive.session(session_id(1))
        check(session.to_dict())
        check(session.tool_calls[0].to_dict())
        check(next(archive.sessions()).to_dict())
        check(archive.usage().to_dict())
        check(archive.projects()[0].to_dict())
        check(next(archive.prompts()).to_dict())
        objects = [one for one in session.to_dicts() if one["type"] == "message"]
        for message in session.messages:
            found = message.to_dict()
            assert "turn" not in found
            assert any(found.items() <= one.items() for one in objects)
        objects = session.to_dicts()
        objects += archive.search("flaky").to_dicts()
        for value in objects:
            check(value)
        assert session.to_dict()["cost_usd"] == session.cost_usd
        assert {one["type"] for one in session.to_dicts()} >= {"session", "message"}


@pytest.mark.usefixtures("home")
def test_a_closed_archive_raises_our_error() -> None:
    archive = Archive.open()
    session = archive.session(session_id(1))
    summaries = archive.sessions()
    next(summaries)
    archive.search("flaky")
    conversation = archive.conversation(session_id(1))
    archive.close()
    archive.close()

    for use in (
        lambda: list(archive.sessions()),
        lambda: next(summaries),
        lambda: archive.search("flaky"),
        lambda: archive.session("last"),
        archive.usage,
        lambda: archive.sql("SELECT 1"),
        archive.projects,
        lambda: list(archive.prompts()),
        archive.ingest,
        archive.annotations,
        lambda: archive.record(session.messages[0].id),
        archive.edits,
        lambda: session.messages[-1].blocks,
        lambda: session.tool_calls[0].output,
        lambda: conversation.window(0, 0, 3),
        lambda: conversation.agent_ids,
    ):
        with pytest.raises(ArchiveClosed):
            use()
    assert "closed" in repr(archive)


def test_public_names_exist_and_are_documented() -> None:
    for name in bygones.__all__:
        value = getattr(bygones, name)
        assert name.startswith("__") or value.__doc__
    assert (Path(bygones.__file__).parent / "py.typed").exists()


def test_transcripts_are_read_without_an_archive(home: Home) -> None:
    session = next(one for one in read_sessions(home.path) if one.tool_calls)

    assert session.tool_calls[0].input == {"command": "pytest"}
    assert session.cost_usd is not None


@pytest.mark.usefixtures("home")
def test_days_of_usage_are_those_of_this_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def read_days(timezone: str) -> tuple[set[str], set[str]]:
        with monkeypatch.context() as changed, Archive.open() as archive:
            changed.setenv("TZ", timezone)
            time.tzset()
            cells = archive.usage_series().cells
            days = {row.key for row in archive.usage(by="day").rows}
            return days, {cell.day for cell in cells}

    try:
        east, west = read_days("EAST-14"), read_days("WEST+11")
    finally:
        time.tzset()

    assert east == ({"2026-01-05"}, {"2026-01-05"})
    assert west == ({"2026-01-04"}, {"2026-01-04"})


@pytest.mark.parametrize("value", [5, None, "text"])
def test_a_value_without_json_is_a_type_error(value: object) -> None:
    with pytest.raises(TypeError, match="no JSON object"):
        bygones.to_dict(value)


@pytest.mark.usefixtures("home")
def test_a_function_converts_what_methods_do() -> None:
    with Archive.open() as archive:
        session = archive.session(session_id(1))
        for value in (session, session.messages[0], session.tool_calls[0]):
            assert bygones.to_dict(value) == value.to_dict()


@pytest.mark.usefixtures("home")
def test_an_unknown_grouping_is_our_error() -> None:
    with Archive.open() as archive, pytest.raises(UnknownGrouping, match="'moon'"):
        archive.usage(by="moon")


def test_missing_archive_is_our_error(tmp_path: Path) -> None:
    with pytest.raises(BygonesError):
        Archive.open(tmp_path / "nothing")
