"""Files of a home change in any way: everything that was scanned is stored once.

The expected content comes from plain copies of the files, made at each ingestion.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import find, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.faults.mutations import MUTATIONS
from tests.faults.racing import assert_acknowledged, race
from tests.faults.sizes import reached, sized
from tests.properties.homes import NAMES, SCRATCH, lines
from tests.properties.stored_bytes import assert_archived_once, rows_of
from tests.store.sandbox import (
    Sandbox,
    differing_tables,
    overwrite_keeping_times,
    settle,
)

TRANSCRIPTS = tuple(name for name in NAMES if name.endswith(".jsonl"))
LARGE = b'{"type":"user","filler":"' + b"x" * 6000 + b'"}\n'
"""With two of these, the middle of a file is in neither compared end."""
ELSEWHERE = b'{"type":"user","from":"elsewhere"}\n'
"""Content outside the home, which no link may bring into the archive."""
STEPS = 30
"""The minimum number of steps of a sequence."""
EVERY = 10
"""Steps after which the home is ingested in any case."""

names = st.sampled_from(TRANSCRIPTS)
raws = st.lists(lines(), min_size=1, max_size=3).map(
    lambda lines_: b"".join(one + b"\n" for one in lines_)
)


class Sources(RuleBasedStateMachine):
    """Files that are appended to, truncated, rewritten, replaced, moved and deleted."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(dir=SCRATCH))
        self.sandbox = Sandbox(self.folder)
        (self.sandbox.home.path / "projects").mkdir()
        self.seen: set[bytes] = set()
        """The contents that any file had at any ingestion."""
        self.links: set[str] = set()
        """Links out of the home that were made since the last ingestion."""
        self.acknowledged: dict[str, list[bytes]] = {}
        """What the archive contained after the last ingestion."""
        self.is_new = False
        self.steps = -1  # the invariant is also checked before the first step
        self.ingest_count = 0
        self.age = 0

    def teardown(self) -> None:
        if self.steps >= STEPS and self.ingest_count >= STEPS // EVERY:
            reached("sequences of at least 30 changes", 1)
            reached(
                "sequences of at least 30 changes: ingests in them", self.ingest_count
            )
        else:
            reached("shorter sequences", 1)
        shutil.rmtree(self.folder, ignore_errors=True)

    def path(self, name: str) -> Path:
        path = self.sandbox.home.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def files(self) -> list[Path]:
        return [path for path in self.sandbox.home.path.rglob("*") if path.is_file()]

    def regular_files(self) -> list[Path]:
        """Return the files that are not links."""
        return [path for path in self.files() if not path.is_symlink()]

    def choose_file(self, data: st.DataObject) -> Path:
        return data.draw(st.sampled_from(sorted(self.regular_files())))

    @rule(name=names, raw=raws, data=st.data())
    def append(self, name: str, raw: bytes, data: st.DataObject) -> None:
        """Append bytes, perhaps not up to the end of a line or character."""
        cut = data.draw(st.integers(0, len(raw)))
        with self.path(name).open("ab") as file:
            file.write(raw[:cut])

    @rule(name=names)
    def append_much(self, name: str) -> None:
        with self.path(name).open("ab") as file:
            file.write(LARGE)

    @precondition(lambda self: self.regular_files())
    @rule(data=st.data())
    def end_the_line(self, data: st.DataObject) -> None:
        with self.choose_file(data).open("ab") as file:
            file.write(b"\n")

    @precondition(lambda self: self.regular_files())
    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        path = self.choose_file(data)
        os.truncate(path, data.draw(st.integers(0, path.stat().st_size)))

    @precondition(lambda self: self.regular_files())
    @rule(data=st.data())
    def rewrite_in_place(self, data: st.DataObject) -> None:
        """Change one byte, and keep size and time."""
        path = self.choose_file(data)
        raw = path.read_bytes()
        if raw:
            at = data.draw(st.integers(0, len(raw) - 1))
            overwrite_keeping_times(
                path, raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :]
            )

    @precondition(lambda self: self.regular_files())
    @rule(raw=raws, data=st.data())
    def replace(self, raw: bytes, data: st.DataObject) -> None:
        """Replace a file by another with a rename."""
        path = self.choose_file(data)
        before = path.read_bytes()
        temp_path = path.with_name("beside.tmp")
        temp_path.write_bytes(
            raw + before if data.draw(st.booleans()) else before + raw
        )
        temp_path.replace(path)

    @precondition(lambda self: self.regular_files())
    @rule(name=names, data=st.data())
    def rename(self, name: str, data: st.DataObject) -> None:
        self.choose_file(data).rename(self.path(name))

    @precondition(lambda self: self.regular_files())
    @rule(name=names, data=st.data())
    def copy(self, name: str, data: st.DataObject) -> None:
        path = self.choose_file(data)
        if not self.path(name).exists() or not self.path(name).samefile(path):
            shutil.copy2(path, self.path(name))

    @precondition(lambda self: self.regular_files())
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        self.choose_file(data).unlink()

    @precondition(lambda self: self.regular_files())
    @rule(name=names, raw=raws, data=st.data())
    def reuse_an_inode(self, name: str, raw: bytes, data: st.DataObject) -> None:
        """Create another file with the inode of a deleted one."""
        path = self.choose_file(data)
        content = raw + path.read_bytes()
        path.rename(self.path(name))
        with self.path(name).open("r+b") as file:
            file.write(content)

    @precondition(lambda self: self.regular_files())
    @rule(name=names, data=st.data())
    def link(self, name: str, data: st.DataObject) -> None:
        """Give a file a second name, by a hard or symbolic link."""
        path, other = self.choose_file(data), self.path(name)
        if not os.path.lexists(other):
            if data.draw(st.booleans()):
                os.link(path, other)
            else:
                other.symlink_to(os.path.relpath(path, other.parent))

    @precondition(lambda self: self.regular_files())
    @rule(data=st.data())
    def replace_by_a_link_out(self, data: st.DataObject) -> None:
        """Replace a file by a link to a file outside the home."""
        path = self.choose_file(data)
        path.unlink()
        path.symlink_to(self.elsewhere() / "elsewhere.jsonl")
        self.links.add(str(path.relative_to(self.sandbox.home.path)))

    def elsewhere(self) -> Path:
        folder = self.folder / "elsewhere"
        folder.mkdir(exist_ok=True)
        (folder / "elsewhere.jsonl").write_bytes(ELSEWHERE)
        return folder

    @rule()
    def link_to_a_folder_elsewhere(self) -> None:
        """Make a project a link to a folder outside the home."""
        path = self.sandbox.home.path / "projects" / "-work-elsewhere"
        if not path.is_symlink():
            path.symlink_to(self.elsewhere())
            self.links.add("projects/-work-elsewhere")

    @rule(name=names, pieces=st.lists(raws, min_size=2, max_size=4), data=st.data())
    def two_writers(self, name: str, pieces: list[bytes], data: st.DataObject) -> None:
        """Append with two writers in turn, with ingestions in between."""
        path = self.path(name)
        with path.open("ab", buffering=0) as one, path.open("ab", buffering=0) as two:
            for number, raw in enumerate(pieces):
                cut = data.draw(st.integers(0, len(raw)))
                (two if number % 2 else one).write(raw[:cut])
                if data.draw(st.booleans()):
                    self.ingest_home()

    @rule(name=names, raw=raws, truncate=st.booleans())
    def rewrite_before_reading(self, name: str, raw: bytes, *, truncate: bool) -> None:
        """Rewrite an acknowledged unfinished line after the next ingestion compared it."""
        path = self.path(name)
        if path.is_symlink():
            return
        with path.open("ab") as file:
            file.write(raw + b'{"half')
        self.ingest_home()
        with path.open("ab") as file:
            file.write(b" a line")
        with pytest.MonkeyPatch.context() as patch:
            race(patch.setattr, truncate=truncate)
            self.ingest_and_compare()

    @rule()
    def move_the_home(self) -> None:
        other = self.folder / f"home-{len(self.seen)}"
        if not other.exists():
            self.sandbox.home.path.rename(other)
            self.sandbox.home.path = other

    @rule()
    def time_passes(self) -> None:
        """Make the times of folders old enough to be reliable."""
        self.age += 1
        settle(self.sandbox.home.path, self.age)

    @rule()
    def ingest_home(self) -> None:
        home = self.sandbox.home.path.resolve()
        files = [path for path in self.files() if path.resolve().is_relative_to(home)]
        self.seen |= {path.read_bytes() for path in files}
        self.ingest_and_compare()

    def ingest_and_compare(self) -> None:
        home = self.sandbox.home.path.resolve()
        before = rows_of(self.sandbox)
        report = self.sandbox.ingest()
        assert_archived_once(self.sandbox, before, self.regular_files())
        reported = {
            one.position.source_id for one in report.problems if one.kind == "link-out"
        }
        copies = {home / name for name in self.links if (home / name).is_symlink()}
        assert {str(path) for path in copies if is_out(path, home)} <= reported
        stored = self.sandbox.bytes()
        assert_acknowledged(self.acknowledged, stored)
        self.acknowledged = stored
        self.links.clear()
        self.is_new = True
        self.ingest_count += 1

    @invariant()
    def archive_has_everything_seen(self) -> None:
        """Ingest if it is due, then compare the archive with the copies."""
        self.steps += 1
        if self.steps and not self.steps % EVERY:
            self.ingest_home()
        if self.is_new:
            self.is_new = False
            self.assert_every_byte_is_stored()
            assert differing_tables(self.sandbox) == []

    def assert_every_byte_is_stored(self) -> None:
        stored = self.sandbox.bytes()
        everything = {raw for generations in stored.values() for raw in generations}
        for raw in self.seen:
            assert any(one.startswith(raw) for one in everything)
        assert not [raw for raw in everything if ELSEWHERE in raw]


def is_out(path: Path, home: Path) -> bool:
    return not path.resolve().is_relative_to(home)


@pytest.mark.parametrize("number", range(2), ids=["one", "other"])
def test_no_byte_is_lost_while_files_change(number: int) -> None:
    """Runs twice, so that two workers share the examples."""
    many = settings(
        max_examples=sized((6, 2)[number], 525, 5_000),
        stateful_step_count=sized(20, 32, 50),
        deadline=None,
    )
    least = sized(0, STEPS, STEPS)
    run_state_machine_as_test(Sources, settings=many, _min_steps=least)


class _Simplest(st.DataObject):
    """Draws the simplest values, to drive the state machine by hand."""

    def __init__(self) -> None:
        """Do nothing."""

    def draw(self, strategy: st.SearchStrategy[Any], label: object = None) -> Any:  # noqa: ANN401, ARG002
        return find(strategy, lambda _: True)


def test_trusting_sizes_and_times_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    MUTATIONS["trust_file_times"](monkeypatch.setattr)
    machine = Sources()
    machine.append_much(TRANSCRIPTS[0])
    machine.ingest_home()
    machine.rewrite_in_place(_Simplest())

    with pytest.raises(AssertionError):
        machine.ingest_home()


def test_forgetting_a_line_rewritten_before_it_is_read_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    MUTATIONS["skip_fragment_check"](monkeypatch.setattr)
    machine = Sources()

    with pytest.raises(AssertionError):
        machine.rewrite_before_reading(TRANSCRIPTS[0], LARGE, truncate=True)


def test_not_recognizing_moved_files_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    MUTATIONS["ignore_moves"](monkeypatch.setattr)
    machine = Sources()
    machine.append_much(TRANSCRIPTS[0])
    machine.ingest_home()
    machine.rename(TRANSCRIPTS[1], _Simplest())

    with pytest.raises(AssertionError):
        machine.ingest_home()


def test_new_generation_for_every_line_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    MUTATIONS["always_start_generation"](monkeypatch.setattr)
    machine = Sources()
    machine.append_much(TRANSCRIPTS[0])
    machine.ingest_home()
    machine.append_much(TRANSCRIPTS[0])

    with pytest.raises(AssertionError):
        machine.ingest_home()


def test_following_links_out_of_a_home_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    MUTATIONS["follow_links"](monkeypatch.setattr)
    machine = Sources()
    machine.append_much(TRANSCRIPTS[0])
    machine.ingest_home()
    machine.replace_by_a_link_out(_Simplest())

    with pytest.raises(AssertionError):
        machine.ingest_home()
