"""What commands do if one session cannot be indexed: everything else, and say so."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from shutil import rmtree

import pytest

from bygones.archive import Archive
from bygones.assemble.sessions import assemble_sessions
from bygones.cli.commands.watch import _ChangePrinter as ChangePrinter
from bygones.cli.main import main
from bygones.errors import ExitCode
from bygones.ingest import derive
from bygones.integrations import recall_index
from bygones.model.base import SessionId
from tests.build import Home, prompt, reply, session_id, thread

BAD, GOOD, OTHER = map(session_id, (1, 2, 3))
NOTE = "note: 1 session could not be indexed; the first is "


@pytest.fixture
def home(home_dir: Path) -> Home:
    home = Home(home_dir / ".claude")
    for id_ in (BAD, GOOD, OTHER):
        number = id_[-4:]
        records = thread(prompt(f"Question {number}"), reply(f"Answer {number}"))
        home.session(id_, records)
    return home


@pytest.fixture
def with_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let assembling a session fail."""
    original = assemble_sessions

    def assemble(*arguments: object) -> object:
        if BAD in repr(arguments):
            raise ValueError("unexpected")
        return original(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(derive, "assemble_sessions", assemble)


@pytest.fixture
def archive(home: Home, capsys: pytest.CaptureFixture[str]) -> Path:
    """Return an archive that was made before the failure."""
    assert main(["ingest"]) == ExitCode.SUCCESS
    capsys.readouterr()
    return home.path.parent / "archive"


@pytest.fixture
def failing_archive(archive: Path, request: pytest.FixtureRequest) -> Path:
    request.getfixturevalue("with_failure")
    return archive


def shown_sessions(archive: Path) -> set[str]:
    with Archive.open(archive) as opened:
        return {one.id for one in opened.sessions()}


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(list(words))
    return code, *capsys.readouterr()


@pytest.mark.usefixtures("home", "with_failure")
def test_first_command_creates_the_archive_and_shows_the_others(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, out, err = run(capsys, "list", "--quiet")

    assert code == ExitCode.SUCCESS
    assert f"Question {GOOD[-4:]}" in out
    assert NOTE in err


@pytest.mark.usefixtures("home", "with_failure")
def test_ingest_and_rebuild_print_their_report_and_fail(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for words, report in (("ingest", "2 sessions in "), ("rebuild", "rebuilt: 2 ")):
        code, out, err = run(capsys, words)

        assert code == ExitCode.FAILURE
        assert report in out
        assert "1 session could not be indexed" in err


def test_library_reports_the_failure_and_shows_the_others(
    home: Home, home_dir: Path, request: pytest.FixtureRequest
) -> None:
    home.session(session_id(4), thread(prompt("before"), reply("the failure")))
    path = home_dir / "archive"
    Archive.ingest(path, [home.path / "projects" / "-work-demo" / f"{GOOD}.jsonl"])
    request.getfixturevalue("with_failure")
    with Archive.open(path) as opened:
        report = opened.ingest([home.path])

        assert report.failure is not None
        assert len(list(opened.sessions())) == 3


def test_purge_of_another_session_is_finished(
    failing_archive: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, "purge", GOOD, "--yes")

    assert code == ExitCode.SUCCESS
    assert "erased 1 session" in out
    assert NOTE in err
    assert shown_sessions(failing_archive) == {OTHER}
    with Archive.open(failing_archive) as opened:
        assert not opened.purge_pending


def test_accepted_loss_is_printed(
    failing_archive: Path, home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    with closing(sqlite3.connect(failing_archive / "archive.db")) as db, db:
        db.execute("UPDATE chunk SET frame = substr(frame, 1, 9) WHERE id = 2")
    rmtree(home.path)

    code, out, err = run(capsys, "repair", "--accept-loss", "--yes")

    assert code == ExitCode.SUCCESS
    assert "accepted as lost: 1 range" in out
    assert NOTE in err


def test_repair_of_a_missing_index_says_that_it_was_rebuilt(
    failing_archive: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rmtree(failing_archive / "index")

    code, out, err = run(capsys, "repair")

    assert code == ExitCode.SUCCESS
    assert "rebuilt: the index" in out
    assert NOTE in err
    assert shown_sessions(failing_archive) == {GOOD, OTHER}


def test_command_that_builds_a_missing_index_continues(
    failing_archive: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rmtree(failing_archive / "index")

    code, _, err = run(capsys, "purge", GOOD, "--dry-run")

    assert code == ExitCode.SUCCESS
    assert NOTE in err


def test_sync_sends_and_receives_everything(
    failing_archive: Path, home_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other_home = Home(home_dir / "other-home")
    other_home.session(session_id(5), thread(prompt("elsewhere"), reply("yes")))
    other = home_dir / "other"
    Archive.ingest(other, [other_home.path])
    assert main(["tag", session_id(5), "kept", "--archive", str(other)]) == 0
    capsys.readouterr()

    code, out, err = run(capsys, "sync", str(other), "--no-ingest")

    assert code == ExitCode.SUCCESS
    assert "sent 3 sessions" in out
    assert f"on {other}: 1 session could not be indexed" in err.replace(
        "~", str(home_dir)
    )
    assert shown_sessions(other) == {GOOD, OTHER, session_id(5)}
    with Archive.open(failing_archive) as opened:
        assert opened.annotations()[SessionId(session_id(5))].tags == ("kept",)


@pytest.mark.usefixtures("home", "with_failure")
def test_background_import_updates_recall(
    home_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recall = recall_index.enable(home_dir / "archive")

    code, _, err = run(capsys, "hook", "--now")

    assert code == ExitCode.SUCCESS
    assert NOTE in err
    assert list(recall.glob("*.json"))


@pytest.mark.usefixtures("failing_archive")
def test_deep_verification_says_why_the_index_cannot_be_compared(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, out, err = run(capsys, "verify", "--deep")

    assert code == ExitCode.FAILURE
    assert out.startswith("intact: 3 files")
    assert "1 session could not be indexed" in err


@pytest.mark.usefixtures("home", "with_failure")
def test_verification_of_an_incomplete_index_names_the_command_that_explains_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["ingest"])
    capsys.readouterr()

    code, _, err = run(capsys, "verify")

    assert code == ExitCode.SUCCESS
    assert "`bygones ingest` updates it, or reports what cannot be indexed" in err


@pytest.mark.usefixtures("with_failure")
def test_session_that_is_not_indexed_can_be_restored_by_its_id(
    home: Home, home_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home.agent(BAD, "a1", thread(prompt("Look around"), reply("Done")), meta={})
    original = next(home.path.glob(f"projects/*/{BAD}.jsonl"))
    main(["ingest"])
    capsys.readouterr()

    code, _, _ = run(capsys, "restore", BAD[:-1] + "1", "--to", "restored")

    assert code == ExitCode.SUCCESS
    restored = home_dir / "restored" / original.relative_to(home.path)
    assert restored.read_bytes() == original.read_bytes()
    assert list(restored.with_suffix("").glob("subagents/*.jsonl"))
    assert not list((home_dir / "restored").rglob(f"{GOOD}.jsonl"))
    assert run(capsys, "restore", session_id(9), "--to", "no")[0] != ExitCode.SUCCESS


@pytest.mark.usefixtures("home", "with_failure")
def test_session_that_is_not_indexed_can_be_purged_by_its_id(
    home_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["ingest"])
    capsys.readouterr()

    code, out, err = run(capsys, "purge", BAD, "--yes")

    assert code == ExitCode.SUCCESS
    assert f"{BAD}  not indexed" in out
    assert "1 session: 1 file, " in out
    assert "erased 1 session" in out
    assert err == ""
    assert run(capsys, "ingest")[0] == ExitCode.SUCCESS
    assert shown_sessions(home_dir / "archive") == {GOOD, OTHER}
    assert "already erased" in run(capsys, "purge", BAD, "--yes")[1]
    with Archive.open(home_dir / "archive") as opened:
        assert not [one for one in opened.sources() if BAD in one.id]


@pytest.mark.usefixtures("home", "with_failure")
def test_prefix_of_one_that_is_not_indexed_too_is_ambiguous(
    home_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["ingest"])
    assert main(["purge", OTHER, "--yes"]) == ExitCode.SUCCESS
    capsys.readouterr()

    for command in (("purge", "--yes"), ("restore", "--to", "restored")):
        code, _, err = run(capsys, command[0], GOOD[:-1], *command[1:])
        assert code == ExitCode.USAGE_ERROR
        assert GOOD in err
        assert BAD in err
    assert shown_sessions(home_dir / "archive") == {GOOD}
    assert run(capsys, "restore", GOOD, "--to", "restored")[0] == ExitCode.SUCCESS


@pytest.mark.usefixtures("home", "with_failure")
def test_selecting_by_project_names_sessions_that_are_not_indexed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["ingest"])
    note = "note: 1 session could not be indexed and may be left out; name them by id"
    capsys.readouterr()

    assert note in run(capsys, "purge", "--before", "2099-01-01", "--dry-run")[2]
    assert note in run(capsys, "restore", "demo", "--to", "restored")[2]


@pytest.mark.usefixtures("home", "with_failure")
def test_doctor_counts_sessions_that_are_not_indexed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["ingest"])
    capsys.readouterr()

    code, out, _ = run(capsys, "doctor", "--quiet")

    assert code == ExitCode.FAILURE
    assert "1 session not indexed: bygones ingest indexes them, or reports" in out
    assert "new transcripts" not in out


@pytest.mark.usefixtures("archive")
def test_name_of_a_file_whose_records_have_another_session_is_not_a_session(
    home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    copied = thread(prompt("Of another"), reply("Session"))
    path = home.session(session_id(5), copied)
    path.rename(path.with_name("copied-notes.jsonl"))
    main(["ingest"])
    capsys.readouterr()

    code, _, err = run(capsys, "restore", "copied-notes", "--to", "restored")

    assert code == ExitCode.USAGE_ERROR
    assert "no session or project 'copied-notes'" in err


def test_watch_names_a_session_that_is_not_indexed_once(
    failing_archive: Path, home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    home.session(session_id(4), thread(prompt("new"), reply("session")))
    printer = ChangePrinter(failing_archive, as_json=False, quiet=True)
    home.session(BAD, thread(prompt("changed"), reply("differently")))
    report = Archive.ingest(failing_archive, [home.path])

    printer.print_changes(report)
    printer.print_changes(report)

    assert capsys.readouterr().err.count(NOTE) == 1
