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
def two(
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


def test_all_that_was_sent_arrives_and_once(
    two: tuple[StoreAndBlobs, StoreAndBlobs],
) -> None:
    (old, _), (new, objects) = two
    old.set_note("token", "ann", b"hash")
    old.hold(ErasureSelector(person="ann"), reason="a dispute")

    moved = migrate_store(old, new)

    def sent(store: TeamStore) -> list[SourceUpdate]:
        return sorted(store.export_updates(), key=lambda batch: batch.source.id)

    assert sent(new) == sent(old)
    assert moved.sessions > 0
    assert new.list_notes("token") == {"ann": b"hash"}
    assert new.holds() == old.holds()
    assert objects.get(sent(new)[0].spans[0].address)
    assert migrate_store(old, new).sessions == 0


def test_answers_are_compared(
    two: tuple[StoreAndBlobs, StoreAndBlobs], tmp_path: Path
) -> None:
    (old, _), (new, _) = two
    queries = tmp_path / "queries"
    queries.write_text("hello\n\nfix\n", "utf-8")
    words = ["--from", old._address, "--to", new._address]  # type: ignore[attr-defined]

    told = CliRunner().invoke(migrate, [*words, "--queries", str(queries)])

    assert told.exit_code == 0, told.output
    assert "2 of 2 queries have the same results" in told.output
