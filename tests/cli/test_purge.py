"""``bygones purge``: no byte is left behind, and nothing comes back."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
import zstandard

from bygones import Archive
from bygones.cli.main import main
from bygones.errors import ExitCode
from tests.build import Home, prompt, reply, session_id, thread
from tests.cli.terminals import Terminal, run_piped

FIRST, SECOND = session_id(1), session_id(2)
GONE = "77aa0000-0000-4000-8000-000000000009"
SECRET = "xyzzy-plugh-4711"  # noqa: S105 (no password)


@pytest.fixture
def archive(sample_home: Home) -> Path:
    """Return an archive of sessions of which one holds a secret."""
    records = thread(prompt(f"The word is {SECRET}"), reply(f"{SECRET}, then"))
    sample_home.session(session_id(5), records, project="-work-secret")
    assert main(["ingest", "--quiet"]) == ExitCode.SUCCESS
    return sample_home.path.parent / "archive"


def session_ids(folder: Path) -> set[str]:
    with Archive.open(folder) as opened:
        return {one.id for one in opened.sessions(include_empty=True)}


def files_containing(folder: Path, word: str) -> list[str]:
    """Return the files below a folder in which a word is, compressed or not."""
    found = []
    for path in folder.rglob("*"):
        if not path.is_file():
            continue
        raw = path.read_bytes()
        pieces = [raw]
        at = raw.find(zstandard.FRAME_HEADER)
        while at >= 0:
            unpack = zstandard.ZstdDecompressor().decompressobj()
            with suppress(zstandard.ZstdError):  # some other bytes that look so
                pieces.append(unpack.decompress(raw[at:]))
            at = raw.find(zstandard.FRAME_HEADER, at + 1)
        if any(word.encode() in piece for piece in pieces):
            found.append(path.name)
    return found


def test_last_is_the_newest_session(
    archive: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["purge", "last", "--yes"]) == ExitCode.SUCCESS

    assert SECOND[:8] in capsys.readouterr().out
    assert session_ids(archive) == {FIRST, session_id(5)}


def test_purge_leaves_no_byte_of_a_session(
    archive: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert files_containing(archive, SECRET)

    assert main(["purge", session_id(5), "--yes"]) == ExitCode.SUCCESS

    assert files_containing(archive, SECRET) == []
    assert session_ids(archive) == {FIRST, SECOND}
    assert "1 session: 1 file, " in capsys.readouterr().out
    assert main(["verify", "--deep", "-q"]) == ExitCode.SUCCESS


def test_purged_session_is_not_imported_again_from_any_home(
    archive: Path, sample_home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["purge", session_id(5), "--yes"])
    folder = sample_home.path / "projects" / "-work-secret"
    shutil.copytree(folder, sample_home.path / "projects" / "-moved")
    shutil.copy(folder / f"{session_id(5)}.jsonl", folder / "a-copy.jsonl")
    with (folder / f"{session_id(5)}.jsonl").open("ab") as file:
        file.write(b'{"type":"user"}\n')
    capsys.readouterr()

    assert main(["ingest"]) == ExitCode.SUCCESS

    assert "3 skipped (purged earlier)" in capsys.readouterr().out
    assert files_containing(archive, SECRET) == []
    assert session_ids(archive) == {FIRST, SECOND}


def test_purge_removes_all_files_of_a_session(archive: Path) -> None:
    assert main(["purge", FIRST, "--yes"]) == ExitCode.SUCCESS

    with Archive.open(archive) as opened:
        assert [kept.path for kept in opened.sources() if FIRST in kept.path] == []
        assert len(opened.sources()) == 3


def test_a_file_that_mentions_a_purged_session_is_reported(
    archive: Path, capsys: pytest.CaptureFixture[str], sample_home: Home
) -> None:
    history_entry = {"display": SECRET, "sessionId": session_id(5)}
    sample_home.history(["Please count the lines", history_entry])
    main(["ingest", "-q"])

    main(["purge", session_id(5), "--dry-run"])
    assert "history.jsonl mentions them and is kept" in capsys.readouterr().err

    assert main(["purge", session_id(5), "--mentions", "-y"]) == ExitCode.SUCCESS
    assert files_containing(archive, SECRET) == []


@pytest.mark.parametrize("length", [36, 8])
def test_mention_can_be_erased_after_its_session(
    archive: Path, capsys: pytest.CaptureFixture[str], sample_home: Home, length: int
) -> None:
    sample_home.session(GONE, thread(prompt("Erased"), start=20))
    history_entry = {"display": SECRET, "sessionId": GONE}
    other = {"display": "stays out of it", "sessionId": session_id(4)}
    sample_home.history([history_entry, other])
    main(["ingest", "-q"])
    main(["purge", GONE, "-y"])
    main(["purge", session_id(5), "-y"])
    assert files_containing(archive, SECRET)
    capsys.readouterr()

    name = GONE[:length]
    assert main(["purge", name, "--mentions", "--yes"]) == ExitCode.SUCCESS

    assert "already erased\n0 sessions: 1 file, " in capsys.readouterr().out
    assert files_containing(archive, SECRET) == []
    assert files_containing(archive, GONE) == []


def test_a_session_that_only_the_history_knows_is_purged_with_its_mentions(
    archive: Path, sample_home: Home
) -> None:
    sample_home.history([{"display": "stays", "sessionId": session_id(4)}])
    main(["ingest", "-q"])

    words = ["purge", session_id(4), "--mentions", "-y"]
    assert main(words) == ExitCode.SUCCESS
    assert files_containing(archive, session_id(4)) == []


def test_ambiguous_prefix_of_purged_sessions_is_rejected(
    archive: Path, capsys: pytest.CaptureFixture[str], sample_home: Home
) -> None:
    ids = (GONE, GONE.replace("-4", "-5"))
    for id_ in ids:
        sample_home.session(id_, thread(prompt("Erased"), start=20))
    sample_home.history([{"display": "x", "sessionId": id_} for id_ in ids])
    main(["ingest", "-q"])
    main(["purge", *ids, "-y"])

    assert main(["purge", GONE[:8], "--mentions", "-y"]) == ExitCode.USAGE_ERROR

    stderr = capsys.readouterr().err
    assert "matches 2 sessions" in stderr
    assert all(f"\n  {id_}\n" in stderr for id_ in ids)
    assert files_containing(archive, GONE)


STOP = """
import os, signal, sys
from bygones.cli.main import main
from bygones.store.{module} import {owner}
assert hasattr({owner}, "{step}")
{owner}.{step} = lambda *_: os.kill(os.getpid(), signal.SIG{signal_name})
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.skipif(os.name == "nt", reason="no such signals there")
@pytest.mark.parametrize(
    ("step", "signal_name", "words"),
    [
        ("erase_source", "KILL", [GONE[:8]]),
        pytest.param("vacuum", "KILL", [GONE[:8]], marks=pytest.mark.full),
        ("checkpoint_wal", "INT", [GONE]),
        pytest.param("begin_index_build", "INT", [GONE[:8]], marks=pytest.mark.full),
        ("begin_index_build", "KILL", ["--project", "secret"]),
    ],
)
def test_stopped_purge_asks_to_be_repeated(
    archive: Path, sample_home: Home, words: list[str], *, step: str, signal_name: str
) -> None:
    records = thread(prompt(SECRET, cwd="/work/secret"), reply(f"{SECRET}, then"))
    sample_home.session(GONE, records, project="-work-secret")
    main(["purge", session_id(5), "-y"])
    main(["ingest", "-q"])
    is_of_index = step == "begin_index_build"
    owner = (
        ("archive_dir", "ArchiveDir") if is_of_index else ("archive_db", "ArchiveDB")
    )
    code = STOP.format(
        module=owner[0], owner=owner[1], step=step, signal_name=signal_name
    )
    command = ("purge", *words, "--yes")
    stopped = subprocess.run(
        [sys.executable, "-c", code, *command],
        capture_output=True,
        text=True,
        check=False,
    )
    is_reported = (
        "interrupted: " in stopped.stderr
        and "run the same command again" in stopped.stderr
    )
    assert is_reported or signal_name == "KILL"
    assert stopped.returncode in {-9, ExitCode.INTERRUPTED}

    done = run_piped(*command)

    assert (done.returncode, done.stderr.count("error")) == (ExitCode.SUCCESS, 0)
    assert files_containing(archive, SECRET) == files_containing(archive, GONE) == []
    assert session_ids(archive) == {FIRST, SECOND}
    assert main(["verify", "--deep", "-q"]) == ExitCode.SUCCESS
    assert run_piped("purge", "--before", "1999-01-01", "-y").stderr == ""


def test_reading_after_an_interrupted_purge_names_the_purge(
    archive: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = STOP.format(
        module="archive_dir",
        owner="ArchiveDir",
        step="begin_index_build",
        signal_name="KILL",
    )
    words = ("purge", FIRST, "--yes")
    subprocess.run([sys.executable, "-c", code, *words], check=False)
    capsys.readouterr()

    assert main(["list", "--archive", str(archive)]) == ExitCode.FAILURE
    stderr = capsys.readouterr().err
    assert "was interrupted, so there is no index" in stderr
    assert "run the same `bygones purge` again" in stderr

    assert main(["list"]) == ExitCode.SUCCESS
    stderr = capsys.readouterr().err
    assert "note: a purge was interrupted; run it again" in stderr


def test_repeated_purge_changes_nothing(
    archive: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["purge", FIRST, "--yes"]) == ExitCode.SUCCESS
    capsys.readouterr()

    assert main(["purge", FIRST]) == ExitCode.SUCCESS

    assert f"{FIRST[:8]}  already erased\n" in capsys.readouterr().out
    assert session_ids(archive) == {SECOND, session_id(5)}


def test_purge_after_a_system_error_asks_to_be_repeated(
    archive: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("bygones.store.archive_db.ArchiveDB.erase_source", refuse)
        assert main(["purge", session_id(5), "-y"]) == ExitCode.FAILURE
    assert "try again" in capsys.readouterr().err

    assert main(["purge", session_id(5), "-y"]) == ExitCode.SUCCESS
    assert files_containing(archive, SECRET) == []
    assert session_ids(archive) == {FIRST, SECOND}


def test_a_project_can_be_purged(archive: Path, home_dir: Path) -> None:
    other = Home(home_dir / ".claude")
    records = thread(prompt("Elsewhere", cwd="/work/secret"), start=9)
    other.session(session_id(6), records, project="-work-elsewhere")
    main(["ingest", "-q"])

    assert main(["purge", "--project", "secret", "-y"]) == ExitCode.SUCCESS
    assert session_ids(archive) == {FIRST, SECOND, session_id(5)}


def test_sessions_before_a_day_can_be_purged(
    archive: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["purge", "--before", "2026-01-05", "-y"]) == ExitCode.SUCCESS
    assert "0 sessions" in capsys.readouterr().out
    assert len(session_ids(archive)) == 3

    assert main(["purge", "--before", "2026-01-05T09:30:00", "-y"]) == ExitCode.SUCCESS
    assert session_ids(archive) == {SECOND}


def test_session_without_timestamps_is_dated_by_its_file(
    sample_home: Home, archive: Path
) -> None:
    named = {"type": "summary", "summary": "A private title", "leafUuid": "none"}
    path = sample_home.session(session_id(6), [named])
    os.utime(path, (1_700_000_000, 1_700_000_000))
    main(["ingest", "-q"])

    assert main(["purge", "--before", "2023-11-14", "-y"]) == ExitCode.SUCCESS
    assert session_id(6) in session_ids(archive)
    assert main(["purge", "--before", "2023-11-16", "-y"]) == ExitCode.SUCCESS
    assert session_id(6) not in session_ids(archive)


def test_saved_search_results_do_not_name_purged_sessions(
    archive: Path, home_dir: Path
) -> None:
    assert main(["search", SECRET]) == ExitCode.SUCCESS
    (remembered,) = home_dir.rglob("last-search.json")
    assert session_id(5) in remembered.read_text()

    assert main(["purge", session_id(5), "-y"]) == ExitCode.SUCCESS
    assert session_id(5) not in session_ids(archive)
    assert not remembered.exists()


def test_invalid_time_is_a_usage_error(
    archive: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["purge", "--before", "soon", "-n"]

    assert main(words) == ExitCode.USAGE_ERROR

    assert "'soon' is not a time" in capsys.readouterr().err
    assert len(session_ids(archive)) == 3


def test_sessions_that_share_records_are_named(
    sample_home: Home, archive: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records = thread(prompt(f"The word is {SECRET}"), reply(f"{SECRET}, then"))
    more = [*records, prompt("Go on", parent=records[-1]["uuid"])]
    sample_home.session("77770000-0000-4000-8000-000000000007", more)
    main(["ingest", "-q"])

    main(["purge", session_id(5), "-n"])

    assert "share records with these are kept: 77770000" in capsys.readouterr().err
    assert len(session_ids(archive)) == 4


def test_there_is_no_confirmation_in_a_pipe(archive: Path) -> None:
    done = run_piped("purge", FIRST, given="y\n")

    assert done.returncode == ExitCode.USAGE_ERROR
    assert "use --yes" in done.stderr
    assert FIRST in session_ids(archive)


def test_confirmed_purge_is_done_even_if_its_output_is_not_read(archive: Path) -> None:
    words = [sys.executable, "-m", "bygones", "purge", FIRST, "--yes"]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.close()

    assert FIRST not in session_ids(archive)


@pytest.mark.skipif(os.name == "nt", reason="no pseudo-terminals there")
@pytest.mark.parametrize(("answer", "is_left"), [("n", True), ("y", False)])
def test_purge_asks_for_confirmation_on_a_terminal(
    archive: Path, answer: str, *, is_left: bool
) -> None:
    screen = Terminal("purge", FIRST)
    screen.read_until(lambda shown: "[y/N]" in shown)

    screen.type(f"{answer}\n")
    code = screen.end()

    assert code == (ExitCode.INTERRUPTED if is_left else ExitCode.SUCCESS)
    assert (FIRST in session_ids(archive)) is is_left


def test_json_output(archive: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["purge", FIRST, "--json", "--dry-run"]) == ExitCode.SUCCESS

    *rows, done = map(json.loads, capsys.readouterr().out.splitlines())
    assert done["type"] == "purge"
    assert len(rows) == done["file_count"] == 7
    assert done["is_dry_run"] is True
    assert FIRST in session_ids(archive)


@pytest.mark.parametrize("words", [[], ["x", "--project", "y"], ["x", "--before", "z"]])
@pytest.mark.usefixtures("archive")
def test_contradictory_options_are_a_usage_error(words: list[str]) -> None:
    assert main(["purge", *words, "-y"]) == ExitCode.USAGE_ERROR


@pytest.mark.parametrize("name", ["5", "5e5", "1"])
def test_number_of_a_search_result_is_not_purged(
    name: str, archive: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["search", SECRET, "--quiet"]) == ExitCode.SUCCESS
    before = session_ids(archive)

    assert main(["purge", name, "--yes"]) == ExitCode.USAGE_ERROR

    assert "at least 4 characters" in capsys.readouterr().err
    assert session_ids(archive) == before
