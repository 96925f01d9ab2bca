"""Files whose unfinished last line is rewritten after it was compared, before it is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from bygones.ingest import importer
from bygones.model.base import Problem, SourceFile, decode_path
from bygones.sources.lines import read_line_blocks
from tests.faults.mutations import Patch

__all__ = ["assert_acknowledged", "race", "rewrite_last_line"]


def rewrite_last_line(path: Path, *, truncate: bool = False) -> None:
    """Change the unfinished last line of a file in place, or remove it."""
    raw = path.read_bytes()
    start = raw.rfind(b"\n") + 1
    if start == len(raw):
        return
    with path.open("r+b") as file:
        if truncate:
            file.truncate(start)
        else:
            file.seek(start)
            file.write(b"#" + raw[start + 1 : -1] + b"~")


def race(patch: Patch, *, truncate: bool = False) -> None:
    """Rewrite the last line of every known file that changed, just before it is read."""

    def read(
        source: SourceFile, *, target_size: int, start: int = 0
    ) -> Iterator[tuple[int, bytes] | Problem]:
        if start:
            rewrite_last_line(Path(decode_path(source.id)), truncate=truncate)
        return read_line_blocks(source, target_size=target_size, start=start)

    patch(importer, "read_line_blocks", read)


def assert_acknowledged(
    acknowledged: Mapping[str, list[bytes]], stored: Mapping[str, list[bytes]]
) -> None:
    """Assert that every version that was stored once is still there."""
    everything = [raw for generations in stored.values() for raw in generations]
    for generations in acknowledged.values():
        for raw in generations:
            assert any(one.startswith(raw) for one in everything)
