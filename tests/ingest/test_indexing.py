"""The index is told of all that the archive learnt, also after an interruption."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from recollect.ingest.indexing import Indexer
from recollect.upkeep import verify
from tests.build import jsonl, prompt, session_id, thread
from tests.store.keeping import Keeping, unlike_rebuilt


def moved(path: Path) -> None:
    path.rename(path.with_name(f"{session_id(2)}.jsonl"))


def touched(path: Path) -> None:
    os.utime(path, (1, 1))


def written_half(path: Path) -> None:
    with path.open("ab") as file:
        file.write(jsonl([prompt("a whole record, and no newline yet")])[:-1])


@pytest.mark.parametrize("change", [moved, touched, written_half])
def test_what_is_committed_to_the_archive_alone_comes_into_the_index_later(
    tmp_path: Path, change: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    keeping = Keeping(tmp_path)
    path = keeping.home.session(session_id(1), thread(prompt("one"), prompt("two")))
    keeping.ingest()
    change(path)

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Indexer, "commit", interrupted)
        with pytest.raises(KeyboardInterrupt):
            keeping.ingest()
    assert not verify(keeping.archive).is_level
    keeping.ingest()

    assert unlike_rebuilt(keeping) == []
    assert verify(keeping.archive).is_level
