"""What is read of an archive is of one moment, whoever writes meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from recollect.ingest.report import Silence
from recollect.upkeep import plan_restore, restore, verify
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
