"""An ingestion that is stopped goes on where it was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from recollect.sources import read_stretches
from tests.build import prompt, session_id
from tests.store.keeping import Keeping, unlike_rebuilt


def test_what_was_read_before_an_interruption_is_kept_after_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recollect.ingest.run.PATIENCE", 0.0)
    keeping = Keeping(tmp_path)
    first = keeping.home.session(session_id(1), [prompt("a")]).read_bytes()
    keeping.home.session(session_id(2), [prompt("b")])
    begun: list[object] = []

    def interrupted(*words: Any, **more: Any) -> object:  # noqa: ANN401 (handed through)
        if begun:
            raise KeyboardInterrupt
        begun.append(words)
        return read_stretches(*words, **more)

    monkeypatch.setattr("recollect.ingest.run.read_stretches", interrupted)
    with pytest.raises(KeyboardInterrupt):
        keeping.ingest()
    monkeypatch.undo()

    assert list(keeping.bytes().values()) == [[first]]
    assert keeping.ingest().new == 1
    assert unlike_rebuilt(keeping) == []
