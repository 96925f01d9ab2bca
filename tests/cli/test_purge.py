"""``recollect purge``: no byte is left behind, and nothing comes back."""

from __future__ import annotations

import json
import os
import shutil
from contextlib import suppress
from pathlib import Path

import pytest
import zstandard

from recollect import Archive
from recollect.cli import main
from recollect.errors import ExitCode
from tests.build import Home, prompt, reply, session_id, thread
from tests.cli.terminals import Terminal, piped

FIRST, SECOND = session_id(1), session_id(2)
SECRET = "xyzzy-plugh-4711"  # noqa: S105 (no password)


@pytest.fixture
def archive(kept_home: Home) -> Path:
    """Return an archive of sessions of which one holds a secret."""
    records = thread(prompt(f"The word is {SECRET}"), reply(f"{SECRET}, then"))
    kept_home.session(session_id(5), records, project="-work-secret")
    assert main(["ingest", "--quiet"]) == ExitCode.DONE
    return kept_home.path.parent / "archive"


def sessions(folder: Path) -> set[str]:
    with Archive.open(folder) as opened:
        return {one.id for one in opened.sessions(empty=True)}


def traces(folder: Path, word: str) -> list[str]:
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
    assert main(["purge", "last", "--yes"]) == ExitCode.DONE

    assert SECOND[:8] in capsys.readouterr().out
    assert sessions(archive) == {FIRST, session_id(5)}


def test_no_byte_is_left_behind(
    archive: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert traces(archive, SECRET)

    assert main(["purge", session_id(5), "--yes"]) == ExitCode.DONE

    assert traces(archive, SECRET) == []
    assert sessions(archive) == {FIRST, SECOND}
    assert "1 session: 1 file, " in capsys.readouterr().out
    assert main(["verify", "--deep", "-q"]) == ExitCode.DONE


def test_what_was_purged_is_refused_wherever_it_comes_from(
    archive: Path, kept_home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["purge", session_id(5), "--yes"])
    folder = kept_home.path / "projects" / "-work-secret"
    shutil.copytree(folder, kept_home.path / "projects" / "-moved")
    with (folder / f"{session_id(5)}.jsonl").open("ab") as file:
        file.write(b'{"type":"user"}\n')
    capsys.readouterr()

    assert main(["ingest"]) == ExitCode.DONE

    assert "2 purged before and refused" in capsys.readouterr().out
    assert traces(archive, SECRET) == []
    assert sessions(archive) == {FIRST, SECOND}


def test_all_that_belongs_to_a_session_goes(archive: Path) -> None:
    assert main(["purge", FIRST, "--yes"]) == ExitCode.DONE

    with Archive.open(archive) as opened:
        assert [kept.path for kept in opened.sources() if FIRST in kept.path] == []
        assert len(opened.sources()) == 3


def test_a_file_that_names_a_purged_session_is_told_of(
    archive: Path, capsys: pytest.CaptureFixture[str], kept_home: Home
) -> None:
    typed = {"display": SECRET, "sessionId": session_id(5)}
    kept_home.history(["Please count the lines", typed])
    main(["ingest", "-q"])

    main(["purge", session_id(5), "--dry-run"])
    assert "history.jsonl names them and stays" in capsys.readouterr().err

    assert main(["purge", session_id(5), "--mentions", "-y"]) == ExitCode.DONE
    assert traces(archive, SECRET) == []


def test_a_purge_that_the_system_stopped_is_asked_for_again(
    archive: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("recollect.store.chunks.Chunks.erase", refuse)
        assert main(["purge", session_id(5), "-y"]) == ExitCode.FAILED
    assert "run it again" in capsys.readouterr().err

    assert main(["purge", session_id(5), "-y"]) == ExitCode.DONE
    assert traces(archive, SECRET) == []
    assert sessions(archive) == {FIRST, SECOND}


def test_a_project_can_be_purged(archive: Path, place: Path) -> None:
    other = Home(place / ".claude")
    records = thread(prompt("Elsewhere", cwd="/work/secret"), start=9)
    other.session(session_id(6), records, project="-work-elsewhere")
    main(["ingest", "-q"])

    assert main(["purge", "--project", "secret", "-y"]) == ExitCode.DONE
    assert sessions(archive) == {FIRST, SECOND, session_id(5)}


def test_what_ended_before_a_day_can_be_purged(
    archive: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["purge", "--before", "2026-01-05", "-y"]) == ExitCode.DONE
    assert "0 sessions" in capsys.readouterr().out
    assert len(sessions(archive)) == 3

    assert main(["purge", "--before", "2026-01-05T09:30:00", "-y"]) == ExitCode.DONE
    assert sessions(archive) == {SECOND}


def test_kin_that_share_records_are_named(
    kept_home: Home, archive: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records = thread(prompt(f"The word is {SECRET}"), reply(f"{SECRET}, then"))
    more = [*records, prompt("Go on", parent=records[-1]["uuid"])]
    kept_home.session("77770000-0000-4000-8000-000000000007", more)
    main(["ingest", "-q"])

    main(["purge", session_id(5), "-n"])

    assert "share records with them stay: 77770000" in capsys.readouterr().err
    assert len(sessions(archive)) == 4


def test_nobody_is_asked_in_a_pipe(archive: Path) -> None:
    done = piped("purge", FIRST, given="y\n")

    assert done.returncode == ExitCode.ASKED_WRONGLY
    assert "give --yes" in done.stderr
    assert FIRST in sessions(archive)


@pytest.mark.skipif(os.name == "nt", reason="no pseudo-terminals there")
@pytest.mark.parametrize(("answer", "is_left"), [("n", True), ("y", False)])
def test_a_person_is_asked_first(archive: Path, answer: str, *, is_left: bool) -> None:
    screen = Terminal("purge", FIRST)
    screen.read_until(lambda shown: "[y/N]" in shown)

    screen.type(f"{answer}\n")
    code = screen.end()

    assert code == (ExitCode.INTERRUPTED if is_left else ExitCode.DONE)
    assert (FIRST in sessions(archive)) is is_left


def test_programs_get_rows(archive: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["purge", FIRST, "--json", "--dry-run"]) == ExitCode.DONE

    begin, *rows, done = map(json.loads, capsys.readouterr().out.splitlines())
    assert begin["command"] == "purge"
    assert len(rows) == done["files"] == 7
    assert done["is_dry_run"] is True
    assert FIRST in sessions(archive)


@pytest.mark.parametrize("words", [[], ["x", "--project", "y"], ["x", "--before", "z"]])
@pytest.mark.usefixtures("archive")
def test_a_contradiction_is_asked_wrongly(words: list[str]) -> None:
    assert main(["purge", *words, "-y"]) == ExitCode.ASKED_WRONGLY
