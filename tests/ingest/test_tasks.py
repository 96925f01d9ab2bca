"""Whatever is done in another process is what this one would have done."""

from __future__ import annotations

from pathlib import Path

import pytest

from bygones.ingest.loading import gather_family, load_family
from bygones.ingest.tasks import DERIVING
from bygones.model.parts import Loader
from bygones.store.derived import Derived
from tests.cases.make import CASES, copied, stories
from tests.store.keeping import Keeping


@pytest.mark.parametrize("name", sorted(stories()))
def test_a_family_is_derived_from_bytes_as_from_values(
    name: str, tmp_path: Path
) -> None:
    keeping = Keeping(tmp_path)
    keeping.ingest(copied(CASES / name, tmp_path / "case"))
    with keeping.vault() as vault:
        assert vault.index is not None
        derived = Derived(vault.index)
        numbers = [derived.number_of(line.id) or 0 for line in derived.listed()]
        for family in {tuple(derived.family_of(number)) for number in numbers}:
            gathered = gather_family(vault, derived, family, pages=vault.index.frames)
            sheets = DERIVING.deed(gathered)

            assert DERIVING.told(DERIVING.answer(DERIVING.question(gathered))) == sheets
            assert gathered.sessions(Loader()) == load_family(
                vault, derived, family, Loader()
            )
            assert [sheet.session for sheet in sheets] == [
                session.id for session in gathered.sessions(Loader())
            ]
