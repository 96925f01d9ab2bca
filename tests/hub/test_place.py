"""What a hub derives in passing lies in a place of its own, and nowhere afterwards."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from bygones.team.admin import scratch_directory

DEAD = 2**22 + 1
"""A number that no process has."""


@pytest.mark.skipif(os.name == "nt", reason="nobody can be asked whether they live")
def test_what_a_hub_that_died_left_is_removed_and_what_lives_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    left = tmp_path / f"bygones-hub-{DEAD}-x"
    alive = tmp_path / f"bygones-hub-{os.getppid()}-x"
    for folder in (left, alive):
        folder.mkdir()
        (folder / "archive.db").write_text("canary")

    with scratch_directory() as own:
        assert not left.exists()
        assert (alive / "archive.db").exists()
        with tempfile.NamedTemporaryFile(delete=False) as file:
            file.write(b"canary")
            assert Path(file.name).parent == own

    assert not own.exists()
    assert tempfile.gettempdir() == str(tmp_path)
