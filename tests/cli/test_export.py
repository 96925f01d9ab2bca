"""``bygones export``."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from bygones.cli.main import main
from bygones.errors import ExitCode
from tests.build import Home, prompt, reply, session_id, thread, title
from tests.export.shared import damage_session

KEY = "gh" + "p_" + "a1B2c3D4e5F6" * 3
FIRST = session_id(1)


@pytest.fixture
def archived_home(sample_home: Home) -> Path:
    """Return the directory of a user whose home was archived and then deleted."""
    records = thread(
        *(r for n in range(3) for r in (prompt(f"ask {n} {KEY}"), reply(f"say {n}")))
    )
    sample_home.session(session_id(3), records)
    assert main(["ingest", "--quiet"]) == ExitCode.SUCCESS
    shutil.rmtree(sample_home.path)
    return sample_home.path.parent


def run_export(*arguments: str) -> None:
    assert main(["export", *arguments, "--no-ingest"]) == ExitCode.SUCCESS


def test_export_writes_a_file_and_prints_its_name(
    archived_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_export(session_id(3))

    captured = capsys.readouterr()
    assert captured.out == f"{session_id(3)}.html\n"
    assert "redacted: " in captured.err
    assert "3 github-tokens" in captured.err
    page = (archived_home / f"{session_id(3)}.html").read_text("utf-8")
    assert "ask 2" in page
    assert KEY not in page


@pytest.mark.parametrize(
    ("form", "suffix"), [("markdown", "md"), ("text", "txt"), ("json", "json")]
)
def test_formats_have_their_suffixes(
    form: str, suffix: str, archived_home: Path
) -> None:
    run_export(FIRST, "--format", form)

    assert "Three." in (archived_home / f"{FIRST}.{suffix}").read_text("utf-8")


def test_raw_export_has_the_original_lines(
    sample_home: Home, home_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["ingest", "--quiet"]) == ExitCode.SUCCESS
    run_export(FIRST, *("--format", "jsonl", "-o", "talk.jsonl", "--no-redact"))

    captured = capsys.readouterr()
    (source,) = sample_home.path.rglob(f"{FIRST}.jsonl")
    assert (home_dir / "talk.jsonl").read_bytes() == source.read_bytes()
    assert "nothing was redacted" in captured.err
    assert captured.out.splitlines() == [
        *("talk.jsonl", str(Path("talk/subagents/agent-a1.jsonl")))
    ]


@pytest.mark.parametrize(
    "arguments",
    [
        ("--private",),
        ("--private", "--no-redact"),
        ("--private", "--format", "jsonl"),
        ("--second-opinion", "--no-redact"),
    ],
)
@pytest.mark.usefixtures("archived_home")
def test_incompatible_options_are_rejected(arguments: tuple[str, ...]) -> None:
    assert main(["export", FIRST, *arguments]) == ExitCode.USAGE_ERROR


@pytest.mark.usefixtures("archived_home")
def test_secret_scanner_can_stop_an_export(
    home_dir: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    program = tmp_path / "gitleaks"
    report = '[{"RuleID": "odd", "StartLine": 1, "File": "0.txt"}]'
    program.write_text(f"#!/bin/sh\necho '{report}'\n", "utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))

    assert main(["export", FIRST, "-o", "x.html", "--second-opinion"]) == 1

    err = capsys.readouterr().err
    assert f"odd: session {FIRST}" in err
    assert "possible secrets in 1 place: odd" in err
    assert not (home_dir / "x.html").exists()


@pytest.mark.usefixtures("archived_home")
@pytest.mark.parametrize(
    ("turns", "wanted"), [("2", [1]), ("2-3", [1, 2]), ("2-", [1, 2]), ("1-1", [0])]
)
def test_turns_can_be_selected(
    turns: str, wanted: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    run_export(session_id(3), "--format", "markdown", "-o", "-", "--turns", turns)

    stdout = capsys.readouterr().out
    assert [n for n in range(3) if f"say {n}" in stdout] == wanted


@pytest.mark.parametrize("form", ["html", "markdown", "text"])
@pytest.mark.usefixtures("archived_home")
def test_an_export_of_some_turns_says_so(
    form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for turns, note in (("2", "only turn 2 of 3"), ("2-9", "only turns 2 to 3 of 3")):
        run_export(session_id(3), "--turns", turns, "--format", form, "-o", "-")
        assert note in capsys.readouterr().out
    run_export(session_id(3), "--turns", "1-3", "--format", form, "-o", "-")
    assert "only turn" not in capsys.readouterr().out


@pytest.mark.usefixtures("archived_home")
@pytest.mark.parametrize("turns", ["0", "x", "3-2", "-2", "1-x"])
def test_invalid_turns_are_rejected(
    turns: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["export", FIRST, f"--turns={turns}", "--no-ingest"]

    assert main(arguments) == ExitCode.USAGE_ERROR
    assert "is not a range of turns" in capsys.readouterr().err


@pytest.mark.parametrize("turns", ["99-100", "99-", "99", "4"])
def test_turns_outside_of_the_session_are_rejected(
    turns: str, archived_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [
        "export",
        session_id(3),
        f"--turns={turns}",
        "-o",
        "x.md",
        "--no-ingest",
    ]

    assert main([*arguments, "--format", "markdown"]) == ExitCode.USAGE_ERROR
    assert "the branch has 3 turns" in capsys.readouterr().err
    assert not (archived_home / "x.md").exists()
    assert not Path("x.md").exists()


def test_a_project_becomes_a_folder(
    archived_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_export("/work/demo", "--to", "site")

    captured = capsys.readouterr()
    assert captured.out == f"{Path('site/index.html')}\n"
    assert "wrote 3 sessions" in captured.err
    assert (archived_home / "site" / "sessions" / f"{FIRST}.html").exists()


def test_second_export_writes_only_changed_sessions(
    archived_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_export("--all", "--to", "site")
    first = capsys.readouterr().err
    run_export("--all", "--to", "site")

    assert "wrote 3 session" in first
    assert "wrote 0 sessions (0 B) to site; 3 unchanged" in capsys.readouterr().err
    assert (archived_home / "site" / "index.html").exists()


def test_files_of_an_unredacted_export_are_reported(
    archived_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site = archived_home / "site"
    run_export("--all", "--no-redact", "--to", "site")
    assert KEY in (site / "index.html").read_text("utf-8")
    capsys.readouterr()

    run_export(FIRST, "--to", "site/")

    note = capsys.readouterr().err.splitlines()[-1]
    assert note == (
        "note: 2 files in the folder may not be redacted; check or delete them before you"
        f" share the folder: the first is site/sessions/{session_id(2)}.html"
    )
    assert KEY not in (site / "index.html").read_text("utf-8")
    run_export(FIRST, "--to", "site/", "--json")
    result = json.loads(capsys.readouterr().out)
    names = [Path(path).name for path in result["unredacted_files"]]
    assert names == [f"{session_id(2)}.html", f"{session_id(3)}.html"]
    run_export("--all", "--to", "site")
    assert "note" not in capsys.readouterr().err


def test_page_that_a_single_export_overwrote_is_reported_and_replaced(
    archived_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_export("--all", "--to", "site")
    page = f"site/sessions/{session_id(3)}.html"
    run_export(session_id(3), "--no-redact", "--to", page)
    assert KEY in (archived_home / page).read_text("utf-8")
    capsys.readouterr()

    run_export(FIRST, "--to", "site/")

    note = capsys.readouterr().err.splitlines()[-1]
    assert note == (
        "note: 1 file in the folder may not be redacted; check or delete it before you"
        f" share the folder: {page}"
    )
    run_export("--all", "--to", "site")
    assert "wrote 1 session (" in capsys.readouterr().err
    assert KEY not in (archived_home / page).read_text("utf-8")


@pytest.mark.parametrize("form", ["html", "markdown", "json", "jsonl"])
def test_damaged_texts_are_reported(
    form: str, archived_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damaged = session_id(3)
    damage_session(archived_home / "archive", damaged)
    command = ["export", "--format", form, "--no-ingest", "--to", "site"]

    codes = [main([*command, "--all"]), main([*command, "--all", "--json"])]

    assert codes == [ExitCode.FAILURE] * 2
    captured = capsys.readouterr()
    what = "1 session could not be exported"
    if form != "jsonl":
        what = "texts of 1 session are missing"
    assert f"{what}; the first is {damaged}: " in captured.err
    result = json.loads(captured.out.splitlines()[-1])
    assert result["failed_sessions"] == [damaged]
    assert (result["session_count"], result["unchanged_count"]) == (
        (0, 2) if form == "jsonl" else (1, 2)
    )
    assert main(["export", damaged, "--format", form, "--no-ingest"])
    assert main(["export", FIRST, "--format", form, "--no-ingest"]) == ExitCode.SUCCESS


def test_skipped_sessions_are_counted(
    sample_home: Home, home_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sample_home.session(session_id(7), [title("Opened and closed")])
    assert main(["ingest", "--quiet"]) == ExitCode.SUCCESS

    for arguments in (("--all",), ("--from", str(sample_home.path))):
        run_export(*arguments, "--to", "site")
        stderr = capsys.readouterr().err
        assert "1 session without messages skipped" in stderr
    run_export("--all", "--to", "site", "--json")
    assert json.loads(capsys.readouterr().out.splitlines()[0])["empty_count"] == 1

    run_export("--all", "--to", "lines", "--format", "jsonl")

    stderr = capsys.readouterr().err
    assert "left out" not in stderr
    assert "files that are not transcripts" in stderr
    assert (home_dir / "lines" / "sessions" / f"{session_id(7)}.jsonl").is_file()


@pytest.mark.usefixtures("archived_home")
def test_since_exports_only_recent_sessions(capsys: pytest.CaptureFixture[str]) -> None:
    run_export("--all", "--to", "site", "--since", "2026-01-05T09:30")

    assert "wrote 1 session" in capsys.readouterr().err


def test_query_selects_exported_sessions(
    archived_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_export("--search", "count the lines", "--to", "site")

    assert "wrote 1 session" in capsys.readouterr().err
    assert (archived_home / "site" / "sessions" / f"{FIRST}.html").exists()


def test_files_are_read_without_an_archive(
    sample_home: Home, home_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_export("--from", str(sample_home.path), "--to", "site")
    run_export(FIRST, "--from", str(sample_home.path), "-o", "one.html")

    assert (home_dir / "site" / "index.html").exists()
    assert "Three." in (home_dir / "one.html").read_text("utf-8")
    assert not (home_dir / "archive").exists()
    assert "wrote 2 session" in capsys.readouterr().err


def test_ambiguous_prefix_is_rejected(
    sample_home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["export", FIRST[:20], "--from", str(sample_home.path)]

    assert main(arguments) == ExitCode.USAGE_ERROR
    assert "several sessions start with" in capsys.readouterr().err


def test_report_lists_every_redaction(archived_home: Path) -> None:
    run_export(session_id(3), "--report", "hidden.jsonl")

    rows = [
        json.loads(line)
        for line in (archived_home / "hidden.jsonl").read_text("utf-8").splitlines()
    ]
    assert [row["kind"] for row in rows].count("github-token") == 3
    assert all(row["source"].endswith(f"{session_id(3)}.jsonl") for row in rows)


def test_patterns_of_the_settings_are_redacted(
    archived_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = archived_home / "settings.toml"
    settings.write_text("[redact]\nnames = ['Three']\npatterns = {verb = 'count'}\n")
    monkeypatch.setenv("BYGONES_SETTINGS", str(settings))

    run_export(FIRST, "--format", "text", "-o", "page.txt")

    page = (archived_home / "page.txt").read_text("utf-8")
    assert "Please [redacted verb] the lines" in page
    assert "[redacted user]." in page


@pytest.mark.usefixtures("archived_home")
@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--all", FIRST],
        ["--all", "-o", "-"],
        ["--all", "--turns", "1"],
        ["--all", "--since", "whenever"],
        ["--all", "--since", "2030-01-01"],
        ["none-such"],
        ["x", "--from", "."],
        ["--all", "-o", "page.html"],
        ["x", "--search", "y"],
    ],
    ids=" ".join,
)
def test_meaningless_options_are_rejected(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["export", *arguments, "--no-ingest"])

    assert code in {ExitCode.USAGE_ERROR, ExitCode.FAILURE}
    assert capsys.readouterr().err.startswith("error: ")


@pytest.mark.usefixtures("archived_home")
@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--search", "zzqqx"], "no sessions match 'zzqqx'"),
        (["--all", "--since", "2030-01-01"], "no session ended since 2030-01-01"),
    ],
)
def test_an_export_without_sessions_gives_the_reason(
    arguments: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", *arguments, "--no-ingest"]) == ExitCode.USAGE_ERROR

    assert f"error: {why}; nothing was exported" in capsys.readouterr().err


def test_json_reports_files_and_redactions(
    archived_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_export(session_id(3), "--json", "--report", "hidden.jsonl")

    captured = capsys.readouterr()
    (row,) = map(json.loads, captured.out.splitlines())
    assert captured.err == ""
    assert row["type"] == "export"
    assert row["files"] == [row["path"]] == [f"{session_id(3)}.html"]
    assert row["written_bytes"] == (archived_home / row["path"]).stat().st_size
    assert row["is_redacted"]
    assert row["redactions"]["github-token"] == 3
    assert row["report_path"] == "hidden.jsonl"


@pytest.mark.usefixtures("archived_home")
def test_json_names_the_folder(capsys: pytest.CaptureFixture[str]) -> None:
    run_export("--all", "--json", "--to", "site")
    (first,) = map(json.loads, capsys.readouterr().out.splitlines())
    run_export("--all", "--json", "--to", "site")
    (again,) = map(json.loads, capsys.readouterr().out.splitlines())

    assert first["path"] == str(Path("site/index.html"))
    assert (
        first["session_count"],
        again["session_count"],
        again["unchanged_count"],
    ) == (3, 0, 3)
    arguments = ["export", FIRST, "-o", "-", "--json"]
    assert main(arguments) == ExitCode.USAGE_ERROR


@pytest.mark.usefixtures("archived_home")
def test_a_slash_at_the_end_names_a_folder(archived_home: Path) -> None:
    run_export(FIRST, "--to", "new/")

    assert (archived_home / "new" / "index.html").is_file()


def test_unknown_format_lists_formats_with_their_aliases(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["export", "last", "--format", "pdf"]) == ExitCode.USAGE_ERROR
    assert "markdown (or md)" in capsys.readouterr().err
