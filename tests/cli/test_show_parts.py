"""`show` at a record, an agent run alone, and parts of a session for copying."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest

from bygones.archive import Archive
from bygones.cli.main import main
from bygones.errors import ExitCode
from tests.build import (
    Home,
    progress,
    prompt,
    reply,
    session_id,
    thread,
    title,
    tool_result,
    tool_use,
)
from tests.cli.terminals import Screen, run_piped

SESSION = session_id(1)
FILLER = [f"Paragraph {number} of the answer." for number in range(60)]


@pytest.fixture
def home(home_dir: Path) -> Home:
    home = Home(home_dir / ".claude")
    answer = "Use **this**:\n\n```python\nprint('walrus')\n```\n\nor\n\n```sh\nls\x1b[2J\n```"
    lines = thread(
        prompt("Start"),
        reply("\n\n".join(FILLER)),
        prompt("Ask an agent"),
        reply([tool_use("Task", prompt="Look", description="Look for it")]),
        tool_result("toolu_1", "done", toolUseResult={"agentId": "abcdef0123"}),
        reply(answer),
    )
    home.session(SESSION, [*lines, title("Some title", custom=True)])
    run = thread(prompt("Look"), reply("Nothing yet."), reply("An ocelot is here."))
    home.agent(SESSION, "abcdef0123", run, meta={"agentType": "Explore"})
    Archive.ingest(home_dir / "archive", [home.path])
    return home


def show_output(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["show", *words]) == ExitCode.SUCCESS
    return capsys.readouterr().out


@pytest.mark.usefixtures("home")
def test_an_agent_run_is_shown_alone_by_the_id_that_tree_prints(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["tree", "last"]) == ExitCode.SUCCESS
    line = next(x for x in capsys.readouterr().out.splitlines() if "◆" in x)
    agent = line.split("◆ ")[1].split()[0]
    assert agent == "abcdef01"

    out = show_output(capsys, f"{SESSION[:8]}/{agent}")
    assert "An ocelot is here." in out
    assert "Paragraph" not in out
    raw = show_output(capsys, f"{SESSION[:8]}/{agent}", "--raw")
    assert len(raw.splitlines()) == 3  # and not the title of the session
    assert main(["show", f"{SESSION[:8]}/nothere"]) == ExitCode.USAGE_ERROR
    assert "agent" in capsys.readouterr().err
    assert main(["show", "nosuch/abc"]) == ExitCode.USAGE_ERROR
    assert "nosuch/abc" in capsys.readouterr().err


@pytest.mark.usefixtures("home")
def test_color_always_renders_markdown_for_the_width_of_a_preview(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "50")
    assert "Use **this**:" in show_output(capsys, "last")
    out = show_output(capsys, "last", "--color", "always")
    assert "Use \x1b[1mthis\x1b[0m:" in out
    plain = re.sub(r"\x1b\[[0-9;]*m", "", out)
    assert max(map(len, plain.splitlines())) <= 50


def test_a_record_of_an_agent_shows_its_run(
    home: Home, home_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    del home
    with Archive.open(home_dir / "archive") as archive:
        (hit,) = archive.search("ocelot").sessions[0].hits
    out = show_output(capsys, str(hit.record_id))
    assert "An ocelot is here." in out
    assert "Paragraph" not in out
    assert main(["search", "ocelot"]) == ExitCode.SUCCESS
    capsys.readouterr()
    hit_out = show_output(capsys, "1.1", "--color", "always")
    assert "An \x1b[30;43mocelot\x1b[0m is here." in hit_out
    assert "Ask an agent" in hit_out  # in its session


@pytest.mark.skipif(os.name == "nt", reason="terminals are others there")
@pytest.mark.skipif(shutil.which("less") is None, reason="less is not installed")
@pytest.mark.usefixtures("home")
def test_the_pager_starts_at_the_hit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BYGONES_PAGER", "less")
    assert run_piped("search", "paragraph 40").returncode == ExitCode.SUCCESS
    for words in (["1.1"], ["last", "--find", "ocelot"]):
        screen = Screen("show", *words, columns=70, rows=20)
        text = screen.wait_for("Paragraph 40" if words == ["1.1"] else "An ocelot")
        assert "Start" not in text
        screen.type("q")
        assert screen.end() == ExitCode.SUCCESS


@pytest.mark.skipif(os.name == "nt", reason="terminals are others there")
@pytest.mark.skipif(shutil.which("less") is None, reason="less is not installed")
def test_the_pager_starts_at_the_message_of_a_record_that_is_not_shown(
    home_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BYGONES_PAGER", "less")
    home = Home(home_dir / ".claude")
    hidden = "abad1dea-0000-4000-8000-000000000001"
    lines = thread(
        prompt("Start"),
        reply("\n\n".join(FILLER)),
        reply([tool_use("Bash", command="make everything")]),
        progress("hook_progress", uuid=hidden),
        tool_result("toolu_1", "done"),
        reply("\n\n".join(FILLER)),
    )
    home.session(SESSION, lines)
    Archive.ingest(home_dir / "archive", [home.path])

    screen = Screen("show", hidden, columns=70, rows=20)

    text = screen.wait_for("make everything")
    assert "Start" not in text
    screen.type("q")
    assert screen.end() == ExitCode.SUCCESS


@pytest.mark.usefixtures("home")
def test_parts_of_a_session_are_printed_alone(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert show_output(capsys, "last", "--last-reply").startswith("Use **this**:\n")
    assert show_output(capsys, "last", "--last-answer").startswith("Use **this**:\n")
    assert show_output(capsys, "last", "--code", "1") == "print('walrus')\n"
    assert run_piped("show", "last", "--code", "-1").stdout == "ls\x1b[2J\n"
    assert main(["show", "last", "--code", "3"]) == ExitCode.USAGE_ERROR
    assert "the reply has 2 code blocks" in capsys.readouterr().err


@pytest.mark.usefixtures("demo_home")
def test_the_diff_of_a_session_can_be_applied(
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = show_output(capsys, "last", "--diff")
    assert "+    raise PaymentFailed(order.id)" in out
    assert "-    return gateway.charge(order.total, order.card)" in out
    other = show_output(capsys, "last", "--diff", "--branch", "2")
    assert "+    for attempt in range(3):" in other


@pytest.mark.skipif(os.name == "nt", reason="terminals are others there")
@pytest.mark.usefixtures("home")
def test_markdown_is_rendered_on_a_terminal_and_raw_in_a_pipe() -> None:
    screen = Screen("show", "last", columns=70, rows=200)
    assert screen.end() == ExitCode.SUCCESS
    text = screen.text
    assert "Use this:" in text
    assert "\n  print('walrus')" in text
    assert "```" not in text
    assert r"ls\x1b[2J" in text
    assert "\x1b[2J" not in screen.raw.decode()
    raw = run_piped("show", "last").stdout
    assert "Use **this**:" in raw
    assert "```python" in raw
