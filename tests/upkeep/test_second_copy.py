"""Backups of archives that are not whole, and archives that nobody may write to."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from recollect.archive import Archive
from recollect.errors import ArchiveDamaged
from recollect.store.chunks import ARCHIVE_FILE
from recollect.upkeep.backup import backup
from tests.build import SESSION, prompt, reply, thread
from tests.store.keeping import Keeping


def kept(folder: Path) -> Keeping:
    keeping = Keeping(folder)
    keeping.home.session(SESSION, thread(prompt("Mend the pump"), reply("Done.")))
    keeping.ingest()
    return keeping


def damage(keeping: Keeping) -> None:
    db = apsw.Connection(str(keeping.archive / ARCHIVE_FILE))
    with db:
        db.execute("UPDATE chunk SET frame = zeroblob(9)")
    db.close()


def test_a_damaged_archive_does_not_replace_a_good_backup(tmp_path: Path) -> None:
    keeping = kept(tmp_path)
    good = tmp_path / "good"
    with keeping.vault() as vault:
        backup(vault, good)
    before = (good / ARCHIVE_FILE).read_bytes()
    damage(keeping)

    with (
        keeping.vault() as vault,
        pytest.raises(ArchiveDamaged, match=r"\b1 chunk; .* left alone"),
    ):
        backup(vault, good)

    assert (good / ARCHIVE_FILE).read_bytes() == before


def test_what_is_left_of_a_damaged_archive_is_copied_and_said(tmp_path: Path) -> None:
    keeping = kept(tmp_path)
    damage(keeping)

    with keeping.vault() as vault, pytest.raises(ArchiveDamaged, match="same damage"):
        backup(vault, tmp_path / "first")

    assert (tmp_path / "first" / ARCHIVE_FILE).exists()


def test_an_archive_that_nobody_may_write_to_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeping = kept(tmp_path)
    opened: list[str] = []
    connect = apsw.Connection

    def on_a_fixed_medium(name: str, flags: int = 0) -> apsw.Connection:
        opened.append(name)
        if "immutable" not in name:
            raise apsw.CantOpenError(name)
        return connect(name, flags=flags)

    monkeypatch.setattr("recollect.store.connect.apsw.Connection", on_a_fixed_medium)

    with Archive.open(keeping.archive) as archive:
        assert [listed.id for listed in archive.sessions()] == [SESSION]
    assert any("immutable" in name for name in opened)
