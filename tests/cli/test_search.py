"""``bygones search``, and what is done with what it found."""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from bygones.cli.main import main
from bygones.errors import ExitCode
from tests.build import (
    Home,
    prompt,
    reply,
    session_id,
    thread,
    title,
    tool_result,
    tool_use,
)
from tests.cli.terminals import Terminal, run_piped

HERE = Path(__file__).parent
on_terminals = pytest.mark.skipif(os.name == "nt", reason="no pseudo-terminals there")
HOSTILE = "walrus \x1b]0;owned\x07\x1b[2J\u202eevil\r\nline"


@pytest.fixture(autouse=True)
def _import_home(sample_home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    sample_home.session(
        session_id(3),
        [
            *thread(
                prompt("Count the walruses, please"),
                reply([tool_use("Bash", command="count --walrus")]),
                prompt(HOSTILE),
                start=7200,
            ),
            title("Walruses", custom=True),
        ],
        project="-work-zoo",
    )
    assert main(["ingest", "--quiet"]) == ExitCode.SUCCESS


def search_output(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[str, str]:
    assert main(["search", *words]) == ExitCode.SUCCESS
    captured = capsys.readouterr()
    return captured.out, captured.err


def test_a_pipe_gets_sessions_with_their_hits(
    capsys: pytest.CaptureFixture[str], golden: Callable[[Path, str], None]
) -> None:
    golden(HERE / "search.txt", search_output(capsys, "count walrus lines")[0])


@on_terminals
def test_a_terminal_gets_lines_that_fit_and_colors() -> None:
    terminal = Terminal("search", "count", "the", "walruses", columns=50)

    assert terminal.end() == ExitCode.SUCCESS
    assert b"\x1b[1;33mwalruses\x1b[0m" in terminal.raw
    assert max(map(len, terminal.shown.splitlines())) <= 50
    assert "1 " in terminal.shown
    assert "ago" in terminal.shown


@on_terminals
def test_search_results_cannot_send_control_sequences() -> None:
    terminal = Terminal("search", "walrus", "evil")

    assert terminal.end() == ExitCode.SUCCESS
    assert b"\x1b]0" not in terminal.raw
    assert b"\x1b[2J" not in terminal.raw
    assert "\u202e" not in terminal.shown
    assert "evil" in terminal.shown


def test_json_output(capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = search_output(capsys, "--json", "walurs", "-lines")
    answer, found = map(json.loads, out.splitlines())

    assert (answer["type"], found["type"]) == ("search", "match")
    assert answer["corrections"] == [{"original": "walurs", "corrected": "walrus"}]
    assert (answer["session_count"], answer["words"]) == (1, ["walrus"])
    assert (found["number"], found["session_id"]) == (1, session_id(3))
    assert [hit["number"] for hit in found["hits"]] == [1, 2][: len(found["hits"])]
    excerpt = found["hits"][0]["excerpt"]
    mark = excerpt["highlights"][0]
    assert excerpt["text"][mark["start"] : mark["end"]].lower().startswith("walrus")
    assert {hit["part"] for hit in found["hits"]} <= {"prompt", "tool"}


def test_notes_about_a_search_go_to_stderr(
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, errors = search_output(capsys, "walurs", "zzyzx", "color:red")

    assert "no match for walurs; searched for walrus" in errors
    assert "no match for zzyzx" in errors
    assert "unknown field color:" in errors


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_search_without_a_match_exits_like_grep(
    options: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["search", "zzyzx", *options]) == ExitCode.FAILURE
    assert options or capsys.readouterr().err.endswith("no sessions found\n")


def test_numbers_continue_on_the_next_page(capsys: pytest.CaptureFixture[str]) -> None:
    first, errors = search_output(capsys, "-n", "1", "count")
    second, _ = search_output(capsys, "-n1", "--page", "2", "count")

    assert "1 to 1 of 2 sessions; --page 2 shows more" in errors
    assert first.startswith(" 1  ")
    assert second.startswith(" 2  ")
    assert main(["search", "--page", "3", "-n", "1", "count"]) == ExitCode.FAILURE
    assert capsys.readouterr().err == "no more sessions\n"


@pytest.mark.parametrize("word", ["-please", "-number", "-hits", "-n5x", "-null"])
def test_dash_excludes_a_word(capsys: pytest.CaptureFixture[str], word: str) -> None:
    out, _ = search_output(capsys, "walrus", word)

    assert ("Count the" in out) == (word != "-please")


def test_show_accepts_numbers_of_the_last_search(
    capsys: pytest.CaptureFixture[str], home_dir: Path
) -> None:
    search_output(capsys, "walrus")

    for words in (["show", "1"], ["show", "1.2"], ["show", "1.0"]):
        assert main(words) == ExitCode.SUCCESS
        assert capsys.readouterr().out.startswith("Walruses\n")
    assert main(["open", "2"]) == ExitCode.USAGE_ERROR
    assert (
        "there is no result 2: the last search had only result 1"
        in capsys.readouterr().err
    )
    kept = home_dir / ".local" / "state" / "bygones" / "last-search.json"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600 or os.name == "nt"
    # The query is saved, because `show` highlights it, but nothing that was found.
    assert b"walruses" not in kept.read_bytes().lower()


def test_a_hit_is_shown_with_its_context(
    capsys: pytest.CaptureFixture[str], sample_home: Home
) -> None:
    records = [prompt(f"Step {number} of many") for number in range(60)]
    records[40] = prompt("Here comes the pelican")
    records[42] = reply([tool_use("Bash", id="toolu_p", command="ls pelicans")])
    records[43] = tool_result("toolu_p", "a flock of storks")
    sample_home.session(session_id(8), thread(*records))
    out, _ = search_output(capsys, "pelican")

    assert "Bash: ls «pelicans»" in out
    pages = []
    for number in ("1.1", "1.2"):
        assert main(["show", number]) == ExitCode.SUCCESS
        pages.append(capsys.readouterr().out)
    assert all("Here comes the pelican" in page for page in pages)
    assert not any("Step 20 of" in page or "Step 59 of" in page for page in pages)
    # What a call gave back is shown where the call is the hit.
    assert ["flock of storks" in page for page in pages].count(True) == 1


def test_a_hit_in_an_agent_of_an_old_version_is_shown_there(
    capsys: pytest.CaptureFixture[str], sample_home: Home
) -> None:
    agent = {"isSidechain": True}
    records = [
        *thread(
            prompt("Look around", uuid="p"),
            reply([tool_use("Task", id="toolu_t", prompt="Find birds")], uuid="r"),
        ),
        prompt("Find birds", uuid="x1", parent=None) | agent,
        reply("I will look for a pelican first", uuid="x2", parent="x1") | agent,
        reply("All seen", uuid="x3", parent="x2") | agent,
        tool_result("toolu_t", "All seen", uuid="done", parent="r"),
    ]
    sample_home.session(session_id(8), records)
    search_output(capsys, "pelican")

    assert main(["show", "1.1"]) == ExitCode.SUCCESS
    assert "I will look for a pelican first" in capsys.readouterr().out


def test_a_hit_in_an_agent_without_a_known_call_is_shown_in_its_run(
    capsys: pytest.CaptureFixture[str], sample_home: Home
) -> None:
    log = "nothing happened\n" * 2_000
    sample_home.session(session_id(8), thread(prompt("Look around"), reply("Done")))
    records = thread(
        prompt("Find birds"),
        reply([tool_use("Bash", command="find birds")]),
        tool_result("toolu_1", f"{log}panic: a pelican was seen", is_error=True),
        reply("All seen"),
    )
    sample_home.agent(session_id(8), "a1b2c3d", records, meta={"agentType": "Explore"})
    out, _ = search_output(capsys, "pelican")

    assert "panic: a «pelican» was seen" in out
    assert main(["show", "1.1"]) == ExitCode.SUCCESS
    assert "panic: a pelican was seen" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["show", "open"])
@pytest.mark.parametrize(
    ("number", "sentence"),
    [
        ("1.99", "there is no result 1.99: result 1 has 2 hits"),
        ("99", "there is no result 99: the last search had only result 1"),
        ("99.1", "there is no result 99.1: the last search had only result 1"),
    ],
)
def test_an_unknown_result_number_lists_the_known_ones(
    capsys: pytest.CaptureFixture[str], command: str, number: str, sentence: str
) -> None:
    search_output(capsys, "walrus")

    assert main([command, number]) == ExitCode.USAGE_ERROR
    assert sentence in capsys.readouterr().err


def test_no_hits_are_shown_if_none_are_wanted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    out, _ = search_output(capsys, "--hits", "0", "walrus")

    assert len(out.splitlines()) == 2


@pytest.mark.parametrize("text", ["", "🎉", "?! …"])
def test_empty_query_is_noted(capsys: pytest.CaptureFixture[str], text: str) -> None:
    _, errors = search_output(capsys, text)

    assert "the query is empty; these are the newest" in errors


def test_words_without_a_match_are_truncated(
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, errors = search_output(capsys, "walrus", "x" * 5000)

    assert "no match for xxx" in errors
    assert len(errors) < 300


def test_search_works_if_its_results_cannot_be_saved(
    capsys: pytest.CaptureFixture[str], home_dir: Path
) -> None:
    (home_dir / ".local").write_text("in the way")

    assert "Walruses" in search_output(capsys, "walrus")[0]
    assert main(["open", "1"]) == ExitCode.USAGE_ERROR
    error = "there is no result 1: no results of a search are saved"
    assert error in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["zebra"], "the last search had no results\n"),
        (["--page", "9", "walrus"], "the last search had no results from 81 on\n"),
        (["walrus", "--archive", "other"], "the last search was in another archive, "),
    ],
)
def test_numbers_say_why_the_last_search_has_no_results(
    capsys: pytest.CaptureFixture[str],
    home_dir: Path,
    options: list[str],
    reason: str,
) -> None:
    shutil.copytree(home_dir / "archive", home_dir / "other")
    main(["search", *options])
    capsys.readouterr()

    assert main(["show", "1"]) == ExitCode.USAGE_ERROR

    assert f"there is no result 1: {reason}" in capsys.readouterr().err


def test_an_error_points_at_its_place(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["search", "walrus is:errr"]) == ExitCode.USAGE_ERROR
    errors = capsys.readouterr().err

    assert "did you mean is:error" in errors
    assert errors.endswith("    walrus is:errr\n              ^^^^\n")


def test_explain_shows_the_score(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        "walrus 100%: you 2, call 1, title 1"
        in search_output(capsys, "--explain", "walrus")[0]
    )
    assert "100%" not in search_output(capsys, "walrus")[0]


def test_syntax_prints_the_query_language(capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = search_output(capsys, "--syntax")

    assert "project:" in out
    assert '"a phrase"' in out


def test_missing_archive_is_reported(home_dir: Path) -> None:
    ended = run_piped("search", "x", "--archive", home_dir / "nowhere")

    assert ended.returncode == ExitCode.NO_ARCHIVE
    assert "ingest" in ended.stderr
