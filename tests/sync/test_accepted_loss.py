"""A sync after a loss was accepted: what is intact still reaches the other archive."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from bygones.cli.main import main
from bygones.maintenance.repair import accept_losses, repair_archive
from bygones.maintenance.verify import verify
from tests.build import prompt, session_id, thread
from tests.maintenance.test_wrong_offsets import change
from tests.store.sandbox import Sandbox, differing_tables

WAYS = {
    "frame": "UPDATE chunk SET frame = x'00' WHERE id = 1",
    "row": "DELETE FROM chunk WHERE id = 1",
    "last frame": "UPDATE chunk SET frame = x'00' WHERE id = 2",
    "unfinished line": "UPDATE fragment SET frame = x'00'",
    "row of an unfinished line": "DELETE FROM fragment",
}
SOURCES = "SELECT path, generation, kept FROM source JOIN generation USING (generation)"
CHUNKS = "SELECT generation, start, stop, hash FROM chunk ORDER BY source, 1, 2"


@pytest.fixture
def sandbox(tmp_path: Path) -> Sandbox:
    """Return an archive of one file, whose copy beside it is another machine's."""
    sandbox = Sandbox(tmp_path)
    words = (prompt(f"number{number} " + "x" * 1900) for number in range(300))
    path = sandbox.home.session(session_id(1), thread(*words))
    with path.open("ab") as file:
        file.write(b'{"type":"summary","summary":"unfini')
    sandbox.ingest()
    shutil.copytree(sandbox.archive, tmp_path / "peer")
    return sandbox


def peer_of(sandbox: Sandbox) -> Sandbox:
    peer = Sandbox(sandbox.folder)
    peer.home, peer.archive = sandbox.home, sandbox.folder / "peer"
    return peer


def lose(sandbox: Sandbox, way: str) -> None:
    """Accept a loss here, while the files are away."""
    away = sandbox.folder / "away"
    if sandbox.home.path.exists():
        sandbox.home.path.rename(away)
    change(sandbox, WAYS[way])
    lost = repair_archive(sandbox.archive).lost
    assert lost
    accept_losses(sandbox.archive, lost)


def sync(sandbox: Sandbox, target: Path, *options: str) -> None:
    arguments = ["sync", str(target), *options, "--archive", str(sandbox.archive)]
    assert main(arguments) == 0


@pytest.mark.parametrize("way", WAYS)
def test_what_an_intact_machine_adds_is_received_after_a_loss(
    sandbox: Sandbox, capsys: pytest.CaptureFixture[str], way: str
) -> None:
    peer = peer_of(sandbox)
    path = next(sandbox.home.path.rglob("*.jsonl"))
    with path.open("ab") as file:
        file.write(b'shed"}\n')
    peer.ingest()
    before = peer.rows(CHUNKS)
    lose(sandbox, way)

    sync(sandbox, peer.archive)
    first = capsys.readouterr().out
    sync(sandbox, peer.archive)

    assert "received 1 session" in first
    assert "verify" not in first
    assert "received nothing" in capsys.readouterr().out
    ends = "SELECT kept, size FROM generation"
    assert sandbox.rows(ends) == peer.rows(ends)
    assert peer.rows(CHUNKS) == before
    assert verify(sandbox.archive, deep=True).is_intact
    assert differing_tables(sandbox) == []


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("is_folder", [False, True])
def test_lost_bytes_do_not_end_the_transfer_of_newer_versions(
    sandbox: Sandbox, way: str, tmp_path: Path, *, is_folder: bool
) -> None:
    path = next(sandbox.home.path.rglob("*.jsonl"))
    path.write_bytes(path.read_bytes().replace(b"number", b"NUMBER"))
    sandbox.ingest()
    change(sandbox, "DELETE FROM fragment WHERE generation = 1")
    change(sandbox, "UPDATE generation SET size = kept WHERE generation = 1")
    lose(sandbox, way)
    new = Sandbox(tmp_path / "new")
    new.ingest()
    target = sandbox.archive
    if is_folder:
        target = tmp_path / "shared"
        sync(sandbox, target, "--create")

    for _ in range(2):
        sync(new, target)

    newest = "SELECT start, stop, hash FROM chunk WHERE generation = 1 ORDER BY start"
    assert new.rows(newest) == sandbox.rows(newest) != []
    for one in (new, sandbox):
        assert len(one.rows("SELECT id FROM source")) == 1
        assert verify(one.archive, deep=True).is_intact


@pytest.mark.parametrize("way", WAYS)
def test_recovered_bytes_of_an_older_version_are_received(
    sandbox: Sandbox, way: str, tmp_path: Path
) -> None:
    path = next(sandbox.home.path.rglob("*.jsonl"))
    path.write_bytes(path.read_bytes().replace(b"number", b"NUMBER"))
    sandbox.ingest()
    shutil.copytree(sandbox.archive, tmp_path / "old")
    lose(sandbox, way)
    new = Sandbox(tmp_path / "new")
    new.ingest()
    sync(new, sandbox.archive)

    assert repair_archive(sandbox.archive, others=[tmp_path / "old"]).recovered
    sync(new, sandbox.archive)

    assert new.rows(CHUNKS) == sandbox.rows(CHUNKS)
    assert verify(new.archive, deep=True).is_intact
    assert differing_tables(new) == []
