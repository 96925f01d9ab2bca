"""Who wrote each line of files that the real client changed."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from bygones.archive import Archive
from bygones.files.library import FileLibrary
from bygones.files.replay import CheckResult, CheckSubject
from tests.client.recording import Recording, read_lines

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs POSIX")


def wrong_lines(library: FileLibrary, path: Path) -> list[str]:
    """Return the lines whose origin is not what they say, with the origin."""
    found = []
    for line in library.blame(path).lines:
        who, _, turn = re.sub(".*# ", "", line.text).partition(" ")
        origin = line.origin
        number = str(origin.place.turn_number + 1) if turn and origin.place else ""
        if (origin.kind, number) != (who, turn):
            found.append(f"{line.text}: {origin.kind} {number}")
    return found


@pytest.mark.req("FV4")
@pytest.mark.parametrize("scenario", ["file_versions"], indirect=True)
def test_every_line_has_its_true_origin(recording: Recording, tmp_path: Path) -> None:
    Archive.ingest(tmp_path / "archive", [recording.home])
    with Archive.open(tmp_path / "archive") as archive:
        library = archive.file_library.with_git()
        main = wrong_lines(library, recording.work / "main.py")
        notes = wrong_lines(library, recording.work / "notes.txt")
        checks = library.open(str(recording.work / "app.py")).history.checks

    assert main == []
    assert notes == []
    # What the person changed was noticed once, before the next command.
    different = [c for c in checks if c.result is CheckResult.DIFFERENT]
    assert [(c.subject, c.place.turn_number) for c in different] == [
        (CheckSubject.BACKUP, 1)
    ]


@pytest.mark.full
@pytest.mark.req("FV4")
@pytest.mark.parametrize("scenario", ["file_branches"], indirect=True)
def test_no_line_has_its_origin_in_a_branch_that_was_rewound(
    recording: Recording, tmp_path: Path
) -> None:
    Archive.ingest(tmp_path / "archive", [recording.home])
    (id_,) = recording.session_ids()
    path = recording.work / "app.py"
    with Archive.open(tmp_path / "archive") as archive:
        wrong = wrong_lines(archive.file_library, path)
        file = archive.file(str(path))
        texts = {branch: file.at(id_, branch=branch).text or "" for branch in range(3)}

    assert wrong == []
    assert texts[0] == path.read_text()
    names = {
        branch: [line.partition(" ")[0] for line in text.splitlines()]
        for branch, text in texts.items()
    }
    assert names[1] == ["first", "upper", "wrong", "last"]
    assert names[2] == ["first", "upper", "lower", "forgotten", "last"]


@pytest.mark.parametrize("scenario", ["file_versions"], indirect=True)
def test_checkpoints_name_the_calls_of_the_transcript(recording: Recording) -> None:
    (id_,) = recording.session_ids()
    (transcript,) = recording.transcripts()
    text = transcript.read_text("utf-8")
    log = read_lines(recording.home / "bygones-checkpoints" / id_ / "log.jsonl")

    assert [entry["event"] for entry in log if not entry["call_id"]] == []
    assert all(f'"id":"{entry["call_id"]}"' in text for entry in log)
    changed = {
        Path(file["path"]).name
        for entry in log
        for file in entry["files"]
        if file["during"]
    }
    assert changed == {"app.py", "notes.txt"}
