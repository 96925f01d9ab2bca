"""Tasks give the same result in another process."""

from __future__ import annotations

import pytest

from bygones.ingest.loading import gather_family, load_family
from bygones.ingest.workers import DERIVE_TASK
from bygones.model.summary import Loader
from bygones.store.archive_dir import ArchiveDir
from bygones.store.derived_tables import DerivedTables
from tests.cases.archives import CaseArchives
from tests.cases.make import stories


@pytest.mark.parametrize("name", sorted(stories()))
def test_encoded_family_is_derived_like_values(
    name: str, case_archives: CaseArchives
) -> None:
    with ArchiveDir(case_archives.archive(name), write=False) as archive_dir:
        assert archive_dir.index is not None
        derived = DerivedTables(archive_dir.index)
        numbers = [
            derived.session_number(line.id) or 0 for line in derived.iter_summaries()
        ]
        for family in {tuple(derived.family_members(number)) for number in numbers}:
            gathered = gather_family(
                archive_dir,
                derived,
                family,
                page_frames=archive_dir.index.load_node_frames,
            )
            sheets = DERIVE_TASK.func(gathered)

            assert (
                DERIVE_TASK.decode_result(
                    DERIVE_TASK.run_encoded(*DERIVE_TASK.encode_argument(gathered))
                )
                == sheets
            )
            assert gathered.assemble_sessions(Loader()) == load_family(
                archive_dir, derived, family, Loader()
            )
            assert [sheet.rows.session for sheet in sheets] == [
                session.id for session in gathered.assemble_sessions(Loader())
            ]
