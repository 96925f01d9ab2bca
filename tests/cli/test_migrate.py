"""``bygones migrate``: everything arrives, and is answered as before."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from bygones.cli.commands.migrate import migrate
from bygones.team.access import migrate_store
from bygones.team.contract import BlobStore, ErasureSelector, SourceUpdate
from bygones.team.stores.base import TeamStore
from bygones.team.worker import derive_all
from tests.team.engines import open_engine
from tests.team.homes import PEOPLE, People, upload_homes

StoreAndBlobs = tuple[TeamStore, BlobStore]
CASES = Path(__file__).resolve().parents[1] / "cases"


@pytest.fixture(scope="module")
def two_stores(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[StoreAndBlobs, StoreAndBlobs]]:
    homes = [CASES / name / "input" for name in ("linear", "file_edits", "images")]
    people = People(homes, tmp_path_factory.mktemp("people"))
    with open_engine("postgresql") as make:
        old, new = make(), make()
        for person in PEOPLE:
            upload_homes(*old, person, people.homes[person])
        derive_all(*old)
        yield old, new
        old[0].close()
        new[0].close()


def test_all_updates_are_copied_once(
    two_stores: tuple[StoreAndBlobs, StoreAndBlobs],
) -> None:
    (old, _), (new, objects) = two_stores
    old.set_note("token", "ann", b"hash")
    old.hold(ErasureSelector(person="ann"), reason="a dispute")

    moved = migrate_store(old, new)

    def export_updates(store: TeamStore) -> list[SourceUpdate]:
        return sorted(store.export_updates(), key=lambda batch: batch.source.id)

    assert export_updates(new) == export_updates(old)
    assert moved.sessions > 0
    assert new.list_notes("token") == {"ann": b"hash"}
    assert new.holds() == old.holds()
    assert objects.get(export_updates(new)[0].spans[0].address)
    assert migrate_store(old, new).sessions == 0


def test_answers_are_compared(
    two_stores: tuple[StoreAndBlobs, StoreAndBlobs], tmp_path: Path
) -> None:
    (old, _), (new, _) = two_stores
    queries = tmp_path / "queries"
    queries.write_text("hello\n\nfix\n", "utf-8")
    words = ["--from", old._address, "--to", new._address]  # type: ignore[attr-defined]

    result = CliRunner().invoke(migrate, [*words, "--queries", str(queries)])

    assert result.exit_code == 0, result.output
    assert "2 of 2 queries have the same results" in result.output


def test_database_is_not_copied_to_itself() -> None:
    address = "postgresql:///hub"
    completed = CliRunner().invoke(migrate, ["--from", address, "--to", address])

    assert completed.exit_code != 0
    assert "name the same database" in completed.output
