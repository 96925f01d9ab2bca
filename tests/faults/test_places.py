"""Readers that fork, and media that nobody may write to: the archive answers there."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from recollect.archive import Archive
from recollect.ingest import ingest
from recollect.model.blocks import Text
from recollect.model.query import Query, Words
from tests.build import prompt, reply, session_id, thread
from tests.faults.sizes import reached, sized
from tests.store.keeping import Keeping

CHILDREN = sized(4, 100, 1_000)
FORKING = """
import os, sys
from recollect.archive import Archive
from recollect.model.query import Query, Words

def ask():
    with Archive.open(sys.argv[1]) as archive:
        found = archive.search(Query(Words(("words",)))).total
        return len(list(archive.sessions())), found

with Archive.open(sys.argv[1]) as mine:
    before = len(list(mine.sessions()))
    for _ in range(int(sys.argv[2])):
        child = os.fork()
        if not child:
            os._exit(ask() != (3, 3))
        _, status = os.waitpid(child, 0)
        assert not status, status
        assert len(list(mine.sessions())) == before == 3
"""

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="it forks, and mounts"
)


@pytest.fixture
def keeping(tmp_path: Path) -> Keeping:
    keeping = Keeping(tmp_path)
    for number in range(1, 4):
        told = thread(prompt(f"words {number}"), reply("an answer"))
        keeping.home.session(session_id(number), told)
    keeping.ingest()
    return keeping


@pytest.fixture
def fixed(keeping: Keeping) -> Iterator[Path]:
    """Give the archive as on a medium that nobody can write to."""
    place = keeping.folder / "fixed"
    place.mkdir()
    words = ["mount", "--bind", str(keeping.archive), str(place)]
    if (
        os.geteuid()
        or subprocess.run(words, capture_output=True, check=False).returncode
    ):
        pytest.skip("only root can mount")
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", str(place)], check=True)
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def test_children_of_a_reader_read_for_themselves(keeping: Keeping) -> None:
    words = [sys.executable, "-c", FORKING, str(keeping.archive), str(CHILDREN)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    keeping.home.session(session_id(4), thread(prompt("words 4"), reply("more")))
    assert keeping.ingest().new == 1
    reached("children that read beside the one that they come from", CHILDREN)


def test_an_archive_that_nobody_can_write_to_is_read(
    keeping: Keeping, fixed: Path
) -> None:
    with Archive.open(keeping.archive) as archive:
        listed = list(archive.sessions())
    with pytest.raises(OSError, match="Read-only"):
        (fixed / "anything").touch()

    with Archive.open(fixed) as archive:
        assert list(archive.sessions()) == listed
        assert archive.search(Query(Words(("words",)))).total == 3
        (said,) = archive.session(session_id(1)).live.messages[0].blocks
        assert said == Text(text="words 1")
    with pytest.raises(OSError, match="Read-only"):
        ingest(fixed, [keeping.home.path])
    reached("archives read where nobody can write", 1)
