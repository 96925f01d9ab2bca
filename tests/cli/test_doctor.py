"""What is where, and what will be lost when."""

from __future__ import annotations

import json
import os
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from bygones.archive import Archive
from bygones.cli.commands.demo import write_demo_home
from bygones.cli.main import main
from bygones.errors import ExitCode
from bygones.render.text.primitives import display_width
from bygones.store.archive_db import begin_purge
from bygones.store.archive_dir import ArchiveDir
from bygones.store.connect import writer_lock
from tests.build import Home, prompt, session, session_id
from tests.cli.terminals import Terminal


@pytest.fixture
def imported_home(home_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an imported sample home of today."""
    home = write_demo_home(home_dir, datetime.now(UTC))
    monkeypatch.setenv("BYGONES_HOME", str(home))
    Archive.ingest(home_dir / "archive", [home])
    return home


def doctor_rows(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    assert main(["doctor", "--json"]) in {ExitCode.SUCCESS, ExitCode.FAILURE}
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def doctor_output(
    capsys: pytest.CaptureFixture[str],
    *words: str,
    code: ExitCode = ExitCode.SUCCESS,
) -> str:
    assert main(["doctor", *words]) == code
    return capsys.readouterr().out


@pytest.mark.usefixtures("imported_home")
def test_days_until_claude_code_deletes_are_shown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = doctor_rows(capsys)

    going = [row["days_left"] for row in found if row["type"] == "expiring_session"]
    assert going == [4, 20, 27, 28, 29]
    text = doctor_output(capsys)
    assert "1 session within 7 days, 5 in total" in text
    assert "145b06d7  in 4 days" in text
    assert '"cleanupPeriodDays": 3650  in ~/claude-home/settings.json' in text


def test_only_the_cleanup_setting_is_read(
    imported_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = '{"cleanupPeriodDays": 90, "env": {"TOKEN": "s3cret"}}'
    (imported_home / "settings.json").write_text(settings)

    (row,) = (row for row in doctor_rows(capsys) if row["type"] == "retention")

    assert (row["days"], row["is_configured"]) == (90, True)
    assert "s3cret" not in doctor_output(capsys)
    assert (imported_home / "settings.json").read_text() == settings


@pytest.mark.parametrize("text", ["{", "[]", '{"cleanupPeriodDays": "x"}', ""])
def test_invalid_cleanup_settings_are_ignored(
    text: str, imported_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (imported_home / "settings.json").write_text(text)

    (row,) = (row for row in doctor_rows(capsys) if row["type"] == "retention")

    assert (row["days"], row["is_configured"]) == (30, False)


def test_settings_that_are_a_pipe_are_not_opened(
    imported_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (imported_home / "settings.json").unlink(missing_ok=True)
    os.mkfifo(imported_home / "settings.json")

    (row,) = (row for row in doctor_rows(capsys) if row["type"] == "retention")

    assert (row["days"], row["is_configured"]) == (30, False)


def test_overdue_sessions_are_deleted_at_the_next_run(
    imported_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = next(imported_home.glob("projects/*-notes/*.jsonl"))
    old = (datetime.now(UTC) - timedelta(days=40)).timestamp()
    os.utime(path, (old, old))

    assert "at its next run" in doctor_output(capsys)


def test_deleted_sessions_are_counted_separately(
    imported_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    next(imported_home.glob("projects/*-notes/*.jsonl")).unlink()

    found = doctor_rows(capsys)

    assert found[0]["gone_file_count"] == 1
    assert len([row for row in found if row["type"] == "expiring_session"]) == 4


@pytest.mark.skipif(os.name == "nt", reason="there are no such bits there")
@pytest.mark.usefixtures("imported_home")
def test_an_archive_that_other_users_can_read_is_reported(
    home_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "others" not in doctor_output(capsys)

    (home_dir / "archive").chmod(0o755)

    text = doctor_output(capsys, code=ExitCode.FAILURE)
    assert text.startswith("1 thing needs your attention\n")
    assert "✗ other users can read the archive: chmod -R go= '~/archive'" in text
    quiet = doctor_output(capsys, "--quiet", code=ExitCode.FAILURE)
    assert len(quiet.splitlines()) == 2
    (home_dir / "archive").chmod(0o700)
    assert doctor_output(capsys, "--quiet") == ""
    assert doctor_output(capsys).startswith("All is well\n")


@pytest.mark.usefixtures("imported_home")
def test_new_transcripts_are_reported(
    imported_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    next(imported_home.glob("projects/*-notes/*.jsonl")).unlink()

    text = doctor_output(capsys, "--no-ingest", code=ExitCode.FAILURE)
    assert "✗ there are new transcripts: bygones ingest" in text


def test_archive_without_homes_is_checked(
    imported_home: Path,
    home_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv("BYGONES_HOME")
    imported_home.rename(home_dir / "elsewhere")

    output = doctor_output(capsys)
    assert "no Claude Code home was found: use --home PATH" in output
    assert "new transcripts" not in output


@pytest.mark.usefixtures("demo_home")
@pytest.mark.skipif(os.name == "nt", reason="no pseudo-terminals there")
@pytest.mark.parametrize("color", ["always", "never"])
def test_narrow_terminal_wraps_important_texts(color: str) -> None:
    terminal = Terminal("doctor", "--color", color, columns=60)

    assert terminal.end() == ExitCode.SUCCESS
    text = re.sub(r"\x1b\[[0-9;]*m", "", terminal.shown)
    assert "settings.json" in text
    assert "keep them longer, set" in " ".join(text.split())
    assert all(display_width(line) <= 60 or "/" in line for line in text.splitlines())


WRONG = {
    "BYGONES_SETTINGS=color.toml": "color.toml is invalid: color must be",
    "BYGONES_SETTINGS=broken.toml": "broken.toml is invalid: ",
    "BYGONES_SETTINGS=gone.toml": "gone.toml does not exist",
    "BYGONES_ISO=maybe": "BYGONES_ISO is invalid: iso must be",
    "BYGONES_HOMES=x": "BYGONES_HOMES is not a variable of Bygones; did you mean BYGONES_HOME?",
    "BYGONES_HOME=/gone": "/gone does not exist, but is configured as a home",
}


@pytest.mark.usefixtures("imported_home")
@pytest.mark.parametrize("variable", WRONG)
def test_invalid_settings_are_reported_and_ignored(
    variable: str,
    home_dir: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (home_dir / "color.toml").write_text("color = 3")
    (home_dir / "broken.toml").write_text("= broken")
    monkeypatch.setenv(*variable.split("="))
    complaint = WRONG[variable]

    assert complaint in doctor_output(capsys, code=ExitCode.FAILURE)
    assert main(["doctor", "--json"]) == ExitCode.FAILURE
    row = json.loads(capsys.readouterr().out.splitlines()[0])
    assert complaint in row["settings_errors"][0]


@pytest.mark.usefixtures("imported_home")
def test_settings_apply_again_after_doctor(
    home_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home_dir / "mine.toml").write_text("color = 3")
    monkeypatch.setenv("BYGONES_SETTINGS", str(home_dir / "mine.toml"))

    assert main(["doctor"]) == ExitCode.FAILURE
    assert os.environ["BYGONES_SETTINGS"] == str(home_dir / "mine.toml")
    assert main(["list"]) == ExitCode.USAGE_ERROR


@pytest.mark.usefixtures("imported_home")
def test_an_interrupted_purge_is_reported(
    home_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with (
        writer_lock(home_dir / "archive"),
        ArchiveDir(home_dir / "archive", write=True) as opened,
    ):
        begin_purge(opened.byte_store.db, [])

    assert "a purge was interrupted: run it again" in doctor_output(
        capsys, code=ExitCode.FAILURE
    )


def test_without_an_archive_homes_are_listed_and_none_is_created(
    sample_home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    output = doctor_output(capsys, code=ExitCode.FAILURE)
    assert "✗ there is no archive: bygones ingest" in output
    assert "Claude Code deletes after 30 days" in output
    assert "none is in the archive" in output
    assert session_id(1)[:8] in output
    assert main(["list", "--no-ingest"]) == ExitCode.NO_ARCHIVE
    assert sample_home.path.is_dir()


@pytest.mark.usefixtures("imported_home")
def test_the_last_verification_is_shown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert "the archive was not verified yet: bygones verify" in doctor_output(capsys)

    assert main(["verify", "--quiet"]) == ExitCode.SUCCESS

    (row,) = (one for one in doctor_rows(capsys) if one["type"] == "doctor")
    verified = row["last_verification"]
    assert isinstance(verified, dict)
    assert verified["is_intact"]
    assert re.search(r"verified 20\S+: no damage in \d+ files", doctor_output(capsys))


@pytest.mark.req("E1")
def test_every_problem_is_listed_with_file_and_line(
    home_dir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home = Home(home_dir / "torn")
    name = session_id(7)
    records = [*session("p1", "a1<p1"), prompt("Lost", uuid="p2", parent="gone")]
    path = home.session(name, records)
    path.write_bytes(path.read_bytes() + b"\n\n{torn\n")
    home.agent(
        name, "a7", [prompt("Look", uuid="q1", parent="nowhere", isSidechain=True)]
    )
    monkeypatch.setenv("BYGONES_HOME", str(home.path))

    Archive.ingest(home_dir / "archive", [home.path])

    assert main(["doctor", "--problems", "--json"]) == ExitCode.SUCCESS
    listed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    found = {(row["kind"], row["line"], row["count"]) for row in listed}
    assert found == {
        ("ghost", 3, 1),
        ("blank", 4, 2),
        ("not-json", 6, 1),
        ("ghost", 1, 1),
    }
    total = sum(row["count"] for row in listed)
    assert doctor_rows(capsys)[0]["problem_count"] == total
    problems = f"· {total} problems in the transcripts of 1 session"
    assert f"{problems}: bygones doctor --problems" in doctor_output(capsys)
    assert main(["list", "--json"]) == ExitCode.SUCCESS
    assert json.loads(capsys.readouterr().out)["problem_count"] == total
    assert main(["doctor", "--problems"]) == ExitCode.SUCCESS
    assert f"{name}.jsonl:3: ghost: gone" in capsys.readouterr().out


@pytest.mark.usefixtures("imported_home")
def test_invalid_settings_file_is_named(
    home_dir: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (home_dir / "broken.toml").write_text("= broken")
    monkeypatch.setenv("BYGONES_SETTINGS", "broken.toml")

    text = doctor_output(capsys, code=ExitCode.FAILURE)
    assert re.search(r"settings: \S*broken\.toml\n", text)
