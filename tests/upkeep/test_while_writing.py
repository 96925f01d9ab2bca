"""What is read of an archive is of one moment, whoever writes meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from recollect.ingest.opening import ChunkLoader
from recollect.ingest.report import Silence
from recollect.model.ids import Position, SourceId
from recollect.store.chunks import Chunks
from recollect.upkeep import Standing, plan_restore, restore, verify
from tests.build import jsonl, session, session_id
from tests.store.keeping import Keeping


class _Meanwhile(Silence):
    """Lets something happen whenever some work is done."""

    def __init__(self, happen: Callable[[], object]) -> None:
        self.happen = happen

    def advance(self, amount: int) -> None:  # noqa: ARG002
        self.happen()


def _grown(keeping: Keeping, path: Path) -> Callable[[], None]:
    def grow() -> None:
        with path.open("ab") as file:
            file.write(jsonl(session("c")))
        keeping.ingest()

    return grow


def test_a_file_that_grows_while_it_is_verified_is_sound(tmp_path: Path) -> None:
    keeping = Keeping(tmp_path)
    path = keeping.home.session(session_id(1), session("a", "b<a"))
    keeping.ingest()
    verdict = verify(keeping.archive, progress=_Meanwhile(_grown(keeping, path)))
    assert verdict.is_sound


def test_a_line_finished_while_a_file_is_restored_tears_nothing(
    tmp_path: Path,
) -> None:
    keeping = Keeping(tmp_path)
    path = keeping.home.session(session_id(1), session("a", "b<a"))
    with path.open("ab") as file:
        file.write(b'{"type": "user", ')
    keeping.ingest()
    before = path.read_bytes()
    with keeping.vault() as vault:
        plans = plan_restore(vault, vault.chunks.sources(), to=tmp_path / "to")

        def finish(line: bytes) -> bytes:
            if path.read_bytes() == before:
                with path.open("ab") as file:
                    file.write(b'"uuid": "x"}\n{"half')
                keeping.ingest()
            return line

        restore(vault, plans, rewrite=finish)
    assert Path(plans[0].path).read_bytes() == before


def _meanwhile(
    monkeypatch: pytest.MonkeyPatch, name: str, happen: Callable[[], object]
) -> None:
    """Have something happen once, after the archive was asked for something."""
    inner = getattr(Chunks, name)
    due = [happen]

    def asked(self: Chunks, *words: object) -> object:
        found = inner(self, *words)
        if due:
            due.pop()()
        return found

    monkeypatch.setattr(Chunks, name, asked)


def test_a_line_finished_while_it_is_opened_is_still_that_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeping = Keeping(tmp_path)
    path = keeping.home.session(session_id(1), session("a", "b<a"))
    whole, half = path.stat().st_size, jsonl(session("c"))[:-1]
    with path.open("ab") as file:
        file.write(half)
    keeping.ingest()

    def finish() -> None:
        with path.open("ab") as file:
            file.write(b"\n{")
        keeping.ingest()

    with keeping.vault() as vault:
        _meanwhile(monkeypatch, "named", finish)
        place = Position(SourceId(str(path)), 0, whole, len(half))
        raw = ChunkLoader(vault).raw(place)

    assert raw == half


def test_a_file_that_grows_while_it_is_compared_is_still_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeping = Keeping(tmp_path)
    path = keeping.home.session(session_id(1), session("a", "b<a"))
    keeping.ingest()
    before = path.read_bytes()
    to = tmp_path / "to" / path.relative_to(keeping.home.path)
    to.parent.mkdir(parents=True)
    to.write_bytes(before)

    with keeping.vault() as vault:
        sources = list(vault.chunks.sources())
        _meanwhile(monkeypatch, "source", _grown(keeping, path))
        (plan,) = plan_restore(vault, sources, to=tmp_path / "to")

    assert path.read_bytes() != before
    assert plan.state is Standing.SAME
