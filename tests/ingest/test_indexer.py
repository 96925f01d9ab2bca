"""The index follows the archive, also after an interruption."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from bygones.archive import Archive
from bygones.ingest.indexer import Indexer
from bygones.maintenance.verify import verify
from bygones.model.base import SessionId
from tests.build import (
    compact,
    jsonl,
    prompt,
    reply,
    session_id,
    system,
    thread,
    tool_result,
)
from tests.store.sandbox import Sandbox, differing_tables


def moved(path: Path) -> None:
    path.rename(path.with_name(f"{session_id(2)}.jsonl"))


def touched(path: Path) -> None:
    os.utime(path, (1, 1))


def written_half(path: Path) -> None:
    with path.open("ab") as file:
        file.write(jsonl([prompt("a whole record, and no newline yet")])[:-1])


@pytest.mark.parametrize("change", [moved, touched, written_half])
def test_index_catches_up_with_the_archive(
    tmp_path: Path, change: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox = Sandbox(tmp_path)
    path = sandbox.home.session(session_id(1), thread(prompt("one"), prompt("two")))
    sandbox.ingest()
    change(path)

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Indexer, "commit", interrupted)
        with pytest.raises(KeyboardInterrupt):
            sandbox.ingest()
    assert not verify(sandbox.archive).is_index_current
    sandbox.ingest()

    assert differing_tables(sandbox) == []
    assert verify(sandbox.archive).is_index_current


@pytest.mark.parametrize(
    "count", [10**12, 10**17, 10**20, 10**400, -1, -(10**30), -(10**400)]
)
def test_implausible_token_count_only_affects_itself(
    count: int, tmp_path: Path
) -> None:
    sandbox = Sandbox(tmp_path)
    records = thread(
        prompt("count"),
        reply("so many", usage={"input_tokens": 7, "output_tokens": count}),
        tool_result(
            "toolu_1", "done", outcome={"totalTokens": count, "totalDurationMs": count}
        ),
        system("turn_duration", durationMs=count),
        compact("a", tokens=count),
    )
    sandbox.home.session(session_id(1), records)

    sandbox.ingest()

    with Archive(sandbox.archive) as archive:
        (listed,) = archive.sessions()
        session = archive.session(SessionId(session_id(1)))
    assert (listed.usage.input, listed.usage.output) == (7, 0)
    assert session.usage.output == 0
