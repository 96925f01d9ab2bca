"""Losses that the user accepts: recorded, reported, and recovered if a copy turns up."""

from __future__ import annotations

import re
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from bygones.archive import Archive
from bygones.cli.main import main
from bygones.errors import BackupNewer, ExitCode
from bygones.maintenance.repair import accept_losses, repair_archive
from bygones.maintenance.verify import rebuild, verify
from bygones.model.sessions import Session
from tests.build import prompt, session_id, thread
from tests.store.sandbox import Sandbox, differing_tables

NAME = f"{session_id(1)}.jsonl"


@pytest.fixture
def sandbox(tmp_path: Path) -> Sandbox:
    """Return an archive whose files are gone; a backup and the files are beside it."""
    sandbox = Sandbox(tmp_path)
    words = (prompt(f"number{number} " + "x" * 1900) for number in range(700))
    path = sandbox.home.session(session_id(1), thread(*words))
    with path.open("ab") as file:
        file.write(b'{"type":"user","unfinished')
    sandbox.home.session(session_id(2), thread(prompt("another one")))
    sandbox.ingest()
    shutil.copytree(sandbox.archive, tmp_path / "backup")
    sandbox.home.path.rename(tmp_path / "away")
    sandbox.home.path.mkdir()
    return sandbox


def backup_of(sandbox: Sandbox) -> Sandbox:
    backup = Sandbox(sandbox.folder)
    backup.archive = sandbox.folder / "backup"
    return backup


def change(sandbox: Sandbox, sql: str) -> None:
    with closing(sqlite3.connect(sandbox.archive / "archive.db")) as db, db:
        db.execute(sql)


WAYS = {
    "frame": "UPDATE chunk SET frame = substr(frame, 1, 999) WHERE id = 2",
    "row": "DELETE FROM chunk WHERE id = 2",
    "end": "DELETE FROM chunk WHERE source = 1 AND start > 0",
    "start": "DELETE FROM chunk WHERE source = 1 AND start = 0",
    "all": "DELETE FROM chunk WHERE source = 1",
    "row of an unfinished line": "DELETE FROM fragment WHERE source = 1",
    "unfinished line": "UPDATE fragment SET frame = x'00' WHERE source = 1",
}
FEW = ("frame", "row", "unfinished line", "row of an unfinished line")


def lose(sandbox: Sandbox, way: str) -> None:
    """Damage the archive, and accept it."""
    change(sandbox, WAYS[way])
    lost = repair_archive(sandbox.archive).lost
    assert lost
    accept_losses(sandbox.archive, lost)


@pytest.mark.parametrize("way", WAYS)
def test_accepted_loss_is_not_damage_but_is_still_reported(
    sandbox: Sandbox, way: str
) -> None:
    change(sandbox, WAYS[way])
    damaged = verify(sandbox.archive)
    lost = repair_archive(sandbox.archive).lost

    accepted = accept_losses(sandbox.archive, lost).accepted

    found = verify(sandbox.archive, deep=True)
    assert not damaged.is_intact
    assert (found.is_intact, found.is_index_compared) == (True, True)
    places = [(part.start, part.stop) for part in accepted]
    assert places == [(one.start, one.stop) for one in found.accepted]
    assert places == [(part.start, part.stop) for part in lost]
    assert (found.sources, found.intact_sources) == (2, 1)
    again = repair_archive(sandbox.archive)
    assert (again.lost, again.recovered, again.accepted) == ([], [], accepted)
    assert differing_tables(sandbox) == []


@pytest.mark.parametrize("way", WAYS)
def test_accepted_loss_is_recovered_from_a_backup(sandbox: Sandbox, way: str) -> None:
    lose(sandbox, way)

    result = repair_archive(sandbox.archive, others=[backup_of(sandbox).archive])

    found = verify(sandbox.archive, deep=True)
    assert result.recovered
    assert (result.lost, result.accepted) == ([], [])
    assert (found.is_intact, found.accepted) == (True, [])
    assert sandbox.bytes() == backup_of(sandbox).bytes()


@pytest.mark.parametrize(
    ("way", "rewritten"),
    [
        ("row", (b"xxx", b"yyy")),
        ("end", (b"xxx", b"yyy")),
        ("start", (b"xxx", b"yyy")),
        ("row of an unfinished line", (b"xxx", b"yyy")),
        ("row", (b"unfinished", b"UNFINISHED")),
    ],
)
def test_bytes_of_another_version_are_not_recovered(
    sandbox: Sandbox, tmp_path: Path, way: str, rewritten: tuple[bytes, bytes]
) -> None:
    """A backup has another version of the file, of the same length."""
    path = next((sandbox.folder / "away").rglob(NAME))
    raw = path.read_bytes()
    path.write_bytes(raw.replace(*rewritten))
    other = Sandbox(tmp_path / "other")
    sandbox.home.path.rmdir()
    (sandbox.folder / "away").rename(sandbox.home.path)
    other.home = sandbox.home
    other.ingest()
    sandbox.home.path.rename(sandbox.folder / "away")
    lose(sandbox, way)
    chunks = sandbox.rows("SELECT source, generation, start, hash FROM chunk")

    result = repair_archive(sandbox.archive, others=[other.archive])

    assert (result.recovered, len(result.accepted)) == ([], 1)
    assert sandbox.rows("SELECT source, generation, start, hash FROM chunk") == chunks


def test_accepted_loss_is_recovered_from_the_file_if_it_comes_back(
    sandbox: Sandbox,
) -> None:
    lose(sandbox, "frame")
    sandbox.home.path.rmdir()
    (sandbox.folder / "away").rename(sandbox.home.path)

    result = repair_archive(sandbox.archive)

    assert result.recovered
    assert result.accepted == []
    assert verify(sandbox.archive).accepted == []


@pytest.mark.parametrize("way", FEW)
def test_nothing_is_deleted_if_a_loss_is_accepted(sandbox: Sandbox, way: str) -> None:
    change(sandbox, WAYS[way])
    sql = "SELECT hash, frame FROM {} ORDER BY hash"
    before = [*sandbox.rows(sql.format("chunk")), *sandbox.rows(sql.format("fragment"))]

    accept_losses(sandbox.archive, repair_archive(sandbox.archive).lost)

    after = [*sandbox.rows(sql.format("chunk")), *sandbox.rows(sql.format("fragment"))]
    for digest, frame in before:
        assert isinstance(frame, bytes)
        assert any(
            digest == one and isinstance(kept, bytes) and kept.endswith(frame)
            for one, kept in after
        )


def test_only_what_was_shown_is_accepted(sandbox: Sandbox) -> None:
    change(sandbox, WAYS["frame"])
    lost = repair_archive(sandbox.archive).lost
    change(sandbox, WAYS["unfinished line"])

    accepted = accept_losses(sandbox.archive, lost).accepted

    assert [part.start for part in accepted] == [part.start for part in lost]
    found = verify(sandbox.archive)
    assert (len(found.accepted), len(found.damages)) == (len(lost), 1)


@pytest.mark.parametrize("is_accepted", [False, True])
@pytest.mark.parametrize("way", ["frame", "row", "end", "start"])
def test_session_says_where_bytes_are_lost_and_shows_all_others(
    sandbox: Sandbox, way: str, *, is_accepted: bool
) -> None:
    if is_accepted:
        lose(sandbox, way)
    else:
        change(sandbox, WAYS[way])
        rebuild(sandbox.archive)

    found = verify(sandbox.archive)
    with Archive.open(sandbox.archive) as archive:
        mine = archive.session(session_id(1))
        shown = texts(mine)
    with Archive.open(backup_of(sandbox).archive) as archive:
        intact = texts(archive.session(session_id(1)))
    kind = "lost" if is_accepted else "damaged"
    where = [one.position for one in mine.problems if one.kind == kind]
    parts = found.accepted if is_accepted else [*found.damages, *found.gaps]
    lost = [range(part.start, part.stop) for part in parts]
    assert [range(one.offset, one.offset + one.length) for one in where] == lost
    kept = [at for at in intact if not any(at in one for one in lost)]
    assert [*shown] == kept
    assert all(shown[at] == intact[at] for at in kept)
    assert 0 < len(shown) < len(intact)


def texts(session: Session) -> dict[int, str]:
    """Return the text of each message, by the offset of its first record."""
    return {
        message.record_refs[0].position.offset: message.text
        for branch in session.branches
        for message in branch.messages
    }


def run(sandbox: Sandbox, *arguments: str) -> int:
    return main([*arguments, "--archive", str(sandbox.archive)])


@pytest.mark.parametrize(("way", "code"), [("row", 0), ("frame", 13)])
def test_session_is_purged_unless_damaged_bytes_may_mention_it(
    tmp_path: Path, way: str, code: int
) -> None:
    sandbox = Sandbox(tmp_path)
    sandbox.home.session(session_id(1), thread(prompt("hello")))
    history = sandbox.home.path / "history.jsonl"
    history.write_text('{"display":"x","timestamp":1,"project":"/p"}\n', "utf-8")
    sandbox.ingest()
    history.unlink()
    ways = {"row": "DELETE FROM chunk", "frame": "UPDATE chunk SET frame = x'00'"}
    where = "(SELECT id FROM source WHERE path = 'history.jsonl')"
    change(sandbox, f"{ways[way]} WHERE source = {where}")

    assert run(sandbox, "purge", session_id(1), "--yes") == code


def test_accepted_loss_without_bytes_does_not_prevent_a_purge(tmp_path: Path) -> None:
    sandbox = Sandbox(tmp_path)
    sandbox.home.session(session_id(1), thread(prompt("hello")))
    history = sandbox.home.path / "history.jsonl"
    history.write_text('{"display":"x","timestamp":1,"project":"/p"}\n', "utf-8")
    sandbox.ingest()
    history.unlink()
    change(
        sandbox,
        "DELETE FROM chunk WHERE source ="
        " (SELECT id FROM source WHERE path = 'history.jsonl')",
    )
    assert run(sandbox, "repair", "--accept-loss", "--yes") == 0

    assert run(sandbox, "purge", session_id(1), "--yes") == 0


def test_verify_succeeds_after_a_loss_and_says_how_much_was_accepted(
    sandbox: Sandbox, capsys: pytest.CaptureFixture[str]
) -> None:
    change(sandbox, WAYS["row"])
    damaged = run(sandbox, "verify")
    hint = capsys.readouterr().err
    asked = run(sandbox, "repair", "--accept-loss")
    question = capsys.readouterr()
    still = run(sandbox, "verify")
    capsys.readouterr()
    accepted = run(sandbox, "repair", "--accept-loss", "--yes")
    said = capsys.readouterr().out
    intact = run(sandbox, "verify")

    assert (damaged, asked, still) == (13, ExitCode.USAGE_ERROR, 13)
    assert (accepted, intact) == (0, 0)
    assert "`bygones repair --accept-loss`" in hint
    assert f"{NAME}: bytes " in question.out
    assert "use --yes" in question.err
    assert "accepted as lost: 1 range, " in said
    out = capsys.readouterr().out
    assert re.fullmatch(
        r"intact: 1 of 2 files, .*\naccepted as lost: 1 range, [0-9.]+ [kM]B, on \d{4}-\d\d-\d\d\n",
        out,
    )


def test_json_lists_what_was_accepted(
    sandbox: Sandbox, capsys: pytest.CaptureFixture[str]
) -> None:
    change(sandbox, WAYS["end"])
    repaired = run(sandbox, "repair", "--accept-loss", "--yes", "--json")
    first = list(map(msgspec.json.decode, capsys.readouterr().out.splitlines()))
    verified = run(sandbox, "verify", "--json")
    second = list(map(msgspec.json.decode, capsys.readouterr().out.splitlines()))

    assert (repaired, verified) == (0, 0)
    assert first[0]["session_id"] == session_id(1)
    assert first[0]["accepted_at"] == second[0]["accepted_at"] is not None
    size = second[0]["end"] - second[0]["start"]
    for result in (first[-1], second[-1]):
        assert (result["accepted_count"], result["accepted_bytes"]) == (1, size)
    assert (second[-1]["damage_count"], second[-1]["is_intact"]) == (0, True)


@pytest.mark.parametrize("way", ["row", "unfinished line"])
def test_commands_work_with_what_is_left(
    sandbox: Sandbox, capsys: pytest.CaptureFixture[str], way: str, tmp_path: Path
) -> None:
    lose(sandbox, way)
    home = ["--home", str(sandbox.home.path)]
    out = str(tmp_path / "out")
    number = "number699" if way == "row" else "number300"

    assert run(sandbox, "rebuild") == 0
    assert run(sandbox, "ingest", *home) == 0
    assert run(sandbox, "list", *home) == 0
    assert run(sandbox, "search", number, *home) == 0
    assert session_id(1)[:8] in capsys.readouterr().out
    assert run(sandbox, "show", session_id(1), "--no-ingest") == 0
    assert number in capsys.readouterr().out
    assert run(sandbox, "export", session_id(1), "--to", f"{out}.md") == 0
    assert number in Path(f"{out}.md").read_text("utf-8")
    assert run(sandbox, "backup", f"{out}-backup") == 0
    assert run(sandbox, "backup", f"{out}-backup") == 0
    copy = verify(tmp_path / "out-backup")
    assert (copy.is_intact, len(copy.accepted)) == (True, 1)
    capsys.readouterr()
    assert run(sandbox, "restore", "--all", "--to", out) == 13
    assert NAME in capsys.readouterr().err
    assert [path.name for path in Path(out).rglob("*.jsonl")] == [
        f"{session_id(2)}.jsonl"
    ]
    assert run(sandbox, "purge", session_id(1), "--yes") == 0
    assert verify(sandbox.archive, deep=True).accepted == []


@pytest.mark.parametrize("is_accepted", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_file_with_lost_bytes_is_not_restored_but_reported(
    sandbox: Sandbox, capsys: pytest.CaptureFixture[str], way: str, *, is_accepted: bool
) -> None:
    lose(sandbox, way) if is_accepted else change(sandbox, WAYS[way])
    out = sandbox.folder / "out"

    code = run(sandbox, "restore", "--all", "--to", str(out))

    assert code == 13
    assert NAME in capsys.readouterr().err
    assert [path.name for path in out.rglob("*.jsonl")] == [f"{session_id(2)}.jsonl"]


@pytest.mark.parametrize("command", ["resume", "fork"])
def test_session_with_lost_bytes_is_named_when_it_cannot_be_continued(
    sandbox: Sandbox, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    lose(sandbox, FEW[0])
    capsys.readouterr()

    assert run(sandbox, command, session_id(1)) == ExitCode.ARCHIVE_DAMAGED

    error = capsys.readouterr().err
    assert f"archive.db are lost: session {session_id(1)}: " in error


@pytest.mark.parametrize("way", FEW)
def test_archive_with_a_loss_does_not_replace_a_backup_without_it(
    sandbox: Sandbox, way: str
) -> None:
    before = backup_of(sandbox).bytes()
    lose(sandbox, way)

    with Archive.open(sandbox.archive) as archive, pytest.raises(BackupNewer):
        archive.backup(backup_of(sandbox).archive)

    assert backup_of(sandbox).bytes() == before


@pytest.mark.parametrize("way", FEW)
def test_accepted_loss_is_kept_if_the_database_is_written_again(
    sandbox: Sandbox, way: str
) -> None:
    lose(sandbox, way)
    before = verify(sandbox.archive).accepted
    path = sandbox.archive / "archive.db"
    raw = path.read_bytes()
    path.write_bytes(b"x" * 100 + raw[100:])

    result = repair_archive(sandbox.archive)

    assert result.damaged_copy is not None
    assert result.lost == []
    assert verify(sandbox.archive).accepted == before


@pytest.mark.parametrize("way", FEW)
def test_lost_bytes_are_not_synced_and_do_not_harm_the_other_archive(
    sandbox: Sandbox, capsys: pytest.CaptureFixture[str], way: str, tmp_path: Path
) -> None:
    lose(sandbox, way)
    backup = backup_of(sandbox)
    before = backup.bytes()
    mine = sandbox.rows("SELECT source, generation, start, hash, frame FROM chunk")

    run(sandbox, "sync", str(backup.archive))
    run(sandbox, "sync", str(tmp_path / "folder"), "--create")

    assert "internal error" not in capsys.readouterr().err
    assert before.items() <= backup.bytes().items()
    assert verify(backup.archive).is_intact
    after = sandbox.rows("SELECT source, generation, start, hash, frame FROM chunk")
    assert {*mine} <= {*after}
    assert verify(sandbox.archive).is_intact


@pytest.mark.parametrize("options", [[], ["--quiet"]])
def test_repair_says_what_it_accepted_whenever_it_says_what_is_damaged(
    sandbox: Sandbox, capsys: pytest.CaptureFixture[str], options: list[str]
) -> None:
    change(sandbox, WAYS["row"])

    first = run(sandbox, "repair", "--accept-loss", "--yes", *options)
    said = capsys.readouterr().out
    again = run(sandbox, "repair")

    assert (first, again) == (0, 0)
    assert said.count("still damaged: ") == said.count("accepted as lost: 1 ") == 1
    out = capsys.readouterr().out
    assert out.startswith("nothing to repair: everything else is intact\naccepted as")


def test_what_could_not_be_accepted_is_still_damaged(
    sandbox: Sandbox,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    change(sandbox, WAYS["row"])
    with monkeypatch.context() as patch:
        patch.setattr("bygones.maintenance.repair.accept_loss", lambda *_: None)
        code = run(sandbox, "repair", "--accept-loss", "--yes", "--json")

    *_, result = map(msgspec.json.decode, capsys.readouterr().out.splitlines())
    assert code == ExitCode.ARCHIVE_DAMAGED
    assert (result["lost_count"], result["accepted_count"]) == (1, 0)
