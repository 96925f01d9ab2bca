"""Differences between copies of an archive."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from bygones.maintenance.backup import ArchiveDiff, backup, diff_archives
from bygones.maintenance.purge import purge
from bygones.model.base import SessionId
from bygones.model.summary import Annotations
from bygones.store.annotations import annotate
from bygones.store.archive_db import ArchiveDB
from tests.build import session, session_id
from tests.store.sandbox import Sandbox

ONE, TWO = session_id(1), session_id(2)


def diff_both_ways(one: Path, other: Path) -> tuple[ArchiveDiff, ArchiveDiff]:
    """Return the differences in both directions."""
    with closing(ArchiveDB(one)) as mine, closing(ArchiveDB(other)) as theirs:
        return diff_archives(theirs, mine), diff_archives(mine, theirs)


def copy(sandbox: Sandbox, folder: Path) -> Path:
    with sandbox.open_dir() as archive_dir:
        backup(archive_dir, folder)
    return folder


def test_copies_have_no_difference(tmp_path: Path) -> None:
    sandbox = Sandbox(tmp_path)
    sandbox.home.session(ONE, session("a", "b<a"))
    sandbox.ingest()

    other = copy(sandbox, tmp_path / "copy")

    assert diff_both_ways(sandbox.archive, other) == (ArchiveDiff(), ArchiveDiff())
    assert not ArchiveDiff()


def test_both_archives_may_lack_something(tmp_path: Path) -> None:
    sandbox = Sandbox(tmp_path)
    sandbox.home.session(ONE, session("a", "b<a"))
    sandbox.ingest()
    other = copy(sandbox, tmp_path / "copy")
    sandbox.home.session(TWO, session("c"))
    sandbox.ingest()
    annotations = Annotations(tags=("x",), note="y", is_starred=True)
    annotate(other, [SessionId(ONE)], lambda _: annotations)

    assert diff_both_ways(sandbox.archive, other) == (
        ArchiveDiff(files=1),
        ArchiveDiff(annotations=3),
    )


def test_file_imported_into_both_archives_is_not_missing(
    tmp_path: Path,
) -> None:
    sandbox = Sandbox(tmp_path)
    sandbox.home.session(ONE, session("a", "b<a"))
    sandbox.ingest()
    other = Sandbox(tmp_path)
    other.archive = copy(sandbox, tmp_path / "copy")
    for one, ids in ((sandbox, (3, 4)), (other, (4, 3))):
        for number in ids:  # so that they are counted otherwise
            one.home.session(session_id(number), session(f"n{number}"))
            folder = one.home.path / "projects"
            one.ingest(next(folder.rglob(f"{session_id(number)}.jsonl")))

    assert diff_both_ways(sandbox.archive, other.archive) == (
        ArchiveDiff(),
        ArchiveDiff(),
    )


def test_purged_session_is_only_missing_in_the_other_archive(tmp_path: Path) -> None:
    sandbox = Sandbox(tmp_path)
    sandbox.home.session(ONE, session("a", "b<a"))
    sandbox.home.session(TWO, session("c"))
    sandbox.ingest()
    annotate(sandbox.archive, [SessionId(ONE)], lambda _: Annotations(note="n"))
    other = copy(sandbox, tmp_path / "copy")
    gone = [source for source in sandbox.sources().values() if source.session == ONE]

    purge(sandbox.archive, gone, sessions=[SessionId(ONE)])

    assert diff_both_ways(sandbox.archive, other) == (
        ArchiveDiff(purges=2),
        ArchiveDiff(),
    )


def test_annotation_that_was_added_again_is_newer(
    tmp_path: Path,
) -> None:
    sandbox = Sandbox(tmp_path)
    sandbox.home.session(ONE, session("a", "b<a"))
    sandbox.ingest()
    annotations, other = Annotations(note="n"), tmp_path / "copy"
    annotate(sandbox.archive, [SessionId(ONE)], lambda _: annotations)
    copy(sandbox, other)

    annotate(sandbox.archive, [SessionId(ONE)], lambda _: Annotations())
    assert diff_both_ways(sandbox.archive, other) == (
        ArchiveDiff(annotations=1),
        ArchiveDiff(),
    )
    annotate(other, [SessionId(ONE)], lambda _: Annotations())
    annotate(other, [SessionId(ONE)], lambda _: annotations)
    assert diff_both_ways(sandbox.archive, other) == (
        ArchiveDiff(),
        ArchiveDiff(annotations=1),
    )
