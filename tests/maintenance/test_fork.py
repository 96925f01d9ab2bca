"""A fork continues a session from any point: it reads as the path to that point."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from msgspec.json import encode

from bygones.archive import Archive
from bygones.errors import NothingToFork
from bygones.maintenance.fork import ForkOptions
from bygones.maintenance.fork_path import find_end
from bygones.model.sessions import Message, Session
from bygones.model.summary import LineageKind, Role
from bygones.reader import read_sessions
from tests import build, strategies
from tests.build import SESSION, Home, meta, prompt, reply, thread, tool_use
from tests.cases.archives import CaseArchives
from tests.cases.make import stories
from tests.faults.sizes import sized
from tests.properties.growing import write_files

Golden = Callable[[Path, str], None]
GOLDEN = Path(__file__).with_name("forks.txt")
PROJECT = "/work/demo"


def describe(message: Message) -> tuple[object, ...]:
    """Return the content of a message without its position."""
    calls = [
        (call.id, call.name, call.label, bytes(call.raw_input), encode(call.result))
        for call in message.tool_calls
    ]
    agents = [
        describe(inner)
        for call in message.tool_calls
        for run in call.agents
        for inner in run.live_branch.messages
    ]
    return (
        message.role,
        message.origin,
        message.preview,
        list(map(encode, message.blocks)),
        calls,
        agents,
        message.command,
        message.compaction,
    )


def join_replies(described: Iterable[tuple[Any, ...]]) -> Iterator[list[Any]]:
    """Join consecutive replies: a branch may start between the records of one."""
    for role, group in groupby(described, itemgetter(0)):
        messages = list(group)
        if role is not Role.ASSISTANT:
            yield messages
            continue
        for field in range(3, 6):  # blocks, calls and agents
            yield [item for message in messages for item in message[field]]


def read_fork(home: Path, id_: str) -> Session:
    (session,) = [one for one in read_sessions(home) if one.id == id_]
    return session


class Point(NamedTuple):
    """A point on a branch that a fork may end at."""

    branch: int
    turn: int | None
    through: bool


def points(session: Session) -> Iterator[Point]:
    for branch in session.branches:
        yield Point(branch.number, None, through=False)
        for turn in range(1, len(branch.turns) + 1):
            yield Point(branch.number, turn, through=False)
            yield Point(branch.number, turn, through=True)


def find_differences(archive: Archive, name: str, folder: Path) -> Iterator[str]:
    """Fork a session at all points and yield those at which it reads differently."""
    session = archive.session(name)
    branches = {branch.number: branch for branch in session.branches}
    for number, point in enumerate(points(session)):
        branch = branches[point.branch]
        end = find_end(branch, point.turn, through=point.through)
        expected = [describe(message) for message in branch.messages[:end]]
        home = folder / f"{session.id}-{number}"
        try:
            fork = archive.fork(name, home=home, **point._asdict())
        except NothingToFork:
            if expected:
                yield f"{point}: nothing was written"
            continue
        copy = read_fork(home, fork.session_id)
        found = [describe(message) for message in copy.live_branch.messages]
        if list(join_replies(found)) != list(join_replies(expected)):
            yield f"{point}: the messages differ"
        if len(copy.branches) > 1 or fork.message_count != len(expected):
            yield f"{point}: there is more than the path"


QUICK = ("compaction_relinks", "rewind_twice")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name in QUICK else [pytest.mark.full])
        for name in sorted(stories())
    ],
)
def test_fork_reads_as_the_path_that_it_was_made_from(
    name: str, case_archives: CaseArchives, tmp_path: Path
) -> None:
    with Archive.open(case_archives.archive(name)) as archive:
        differences = {
            summary.id: list(find_differences(archive, summary.id, tmp_path))
            for summary in archive.sessions(include_empty=True)
        }

    assert {id_: found for id_, found in differences.items() if found} == {}


@pytest.mark.req("GO1")
@settings(max_examples=sized(4, 40, 1_000))
@given(strategies.trees(max_size=7))
def test_fork_of_any_tree_reads_as_its_path(tree: list[tuple[str, str | None]]) -> None:
    nodes = [name if parent is None else f"{name}<{parent}" for name, parent in tree]
    with tempfile.TemporaryDirectory() as folder:
        folder_path = Path(folder)
        Home(folder_path / "home").session(SESSION, build.session(*nodes))
        Archive.ingest(folder_path / "archive", [folder_path / "home"])
        with Archive.open(folder_path / "archive") as archive:
            assert list(find_differences(archive, SESSION, folder_path / "forks")) == []


@pytest.mark.req("GO1")
@pytest.mark.parametrize(
    ("seeds", "steps"),
    [
        pytest.param(range(2), 8, id="few"),
        pytest.param(range(100, 300), 14, id="many", marks=pytest.mark.full),
    ],
)
def test_fork_of_any_session_reads_as_its_path(
    tmp_path: Path, seeds: range, steps: int
) -> None:
    differences = {}
    for seed in seeds:
        folder_path = tmp_path / str(seed)
        for name, line in write_files(seed, steps):
            path = folder_path / "home" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("ab") as file:
                file.write(line.rstrip(b"\n") + b"\n")
        Archive.ingest(folder_path / "archive", [folder_path / "home"])
        with Archive.open(folder_path / "archive") as archive:
            found = list(find_differences(archive, SESSION, folder_path / "forks"))
        if found:
            differences[seed] = found
        shutil.rmtree(folder_path)

    assert differences == {}


def test_record_before_its_parent_keeps_its_place(tmp_path: Path) -> None:
    Home(tmp_path / "home").session(SESSION, build.session("r1<r0", "r0"))
    Archive.ingest(tmp_path / "archive", [tmp_path / "home"])
    with Archive.open(tmp_path / "archive") as archive:
        assert list(find_differences(archive, SESSION, tmp_path / "forks")) == []


KINDS: dict[str, tuple[str, ForkOptions]] = {
    "the end": ("linear", {}),
    "before a turn": ("linear", {"turn": 2}),
    "after a turn": ("linear", {"turn": 1, "through": True}),
    "an abandoned branch": ("rewind_twice", {"branch": 2}),
    "in the middle of an abandoned branch": ("rewind_twice", {"branch": 3, "turn": 3}),
    "after a rewind to the start": ("recorded_rewind_to_start", {}),
    "before a compaction": ("compaction", {"before_compaction": True}),
    "after a compaction": ("compaction", {"turn": 3}),
    "after a compaction that repeats records": ("compaction_relinks", {}),
    "after a compaction that lists records": ("compaction_lists", {"turn": 3}),
    "summarized from here": ("recorded_summarized_from_here", {"turn": 5}),
    "summarized up to here": ("recorded_summarized_up_to_here", {"turn": 5}),
    "before an automatic compaction": (
        "recorded_automatic_compaction",
        {"before_compaction": True},
    ),
    "a rewind across a compaction": (
        "recorded_rewinds_around_compactions",
        {"turn": 3},
    ),
    "the compaction that was rewound": (
        "recorded_rewinds_around_compactions",
        {"branch": 2},
    ),
    "parallel calls": ("parallel_fan_out", {"turn": 2}),
    "an interrupted call": ("recorded_interrupts", {"turn": 4}),
    "agents": ("agents_nested", {}),
    "agents in the same file": ("agents_inline", {}),
    "a text that was only in the queue": ("queue_text", {}),
    "a prompt that waited": ("queued_prompt_on_stale_parent", {}),
    "records without ids": ("without_ids", {}),
    "a missing parent": ("dangling_parents", {}),
    "a fork": ("recorded_forks", {}),
    "a session in several files": ("resumed_by_copy", {}),
    "long outputs": ("persisted_output", {}),
    "shell edits": ("recorded_shell_edits", {}),
    "another directory": ("file_edits", {"directory": "/work/elsewhere"}),
}


def outline(path: Path, new_id: str) -> Iterator[str]:
    """Yield a line for each record of a fork: its type, id, parent and directory."""
    for line in path.read_text("utf-8").splitlines():
        record = json.loads(line)
        names = [record["type"], record.get("subtype", "")]
        names += [record["attachment"]["type"]] if "attachment" in record else []
        ids = [str(record[name]) for name in ("uuid", "parentUuid") if name in record]
        ids += [record["leafUuid"]] if "leafUuid" in record else []
        title = record.get("customTitle", "")
        other = "" if record.get("sessionId", new_id) == new_id else "another session"
        texts = (*names, " < ".join(id_[-12:] for id_ in ids), title, other)
        yield "  " + " ".join(filter(None, texts))


@pytest.mark.full
def test_every_kind_of_fork_is_written_as_expected(
    case_archives: CaseArchives, tmp_path: Path, golden: Golden
) -> None:
    lines: list[str] = []
    for number, (kind, (name, options)) in enumerate(KINDS.items()):
        home = tmp_path / str(number)
        with Archive.open(case_archives.archive(name)) as archive:
            # The newest one, which is the fork where there are several.
            session = max(archive.sessions(), key=lambda one: (len(one.id), one.id))
            where: ForkOptions = {"home": home, **options}
            fork = archive.fork(session.id, **where)
        lines += [f"{kind} ({name})", *outline(Path(fork.path), fork.session_id)]
        others = sorted(path for path in home.rglob("*") if path.is_file())
        for path in others:
            if str(path) != fork.path:
                relative = path.relative_to(home).as_posix()
                lines.append("  + " + relative.replace(fork.session_id, "ID"))
        lines.append("")

    golden(GOLDEN, "\n".join(lines))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an archive with an agent, file history and requests; the home is gone."""
    folder_path = tmp_path_factory.mktemp("forks")
    home = Home(folder_path / "home")
    home.session(SESSION, list(conversation_records()))
    home.agent(SESSION, "a1", thread(prompt("look", isSidechain=True), reply("seen")))
    backups = home.path / "file-history" / SESSION
    backups.mkdir(parents=True)
    for name in ("h@v1", "h@v2", "h@v3"):
        (backups / name).write_text(f"{name}\n")
    Archive.ingest(folder_path / "archive", [home.path])
    shutil.rmtree(home.path)
    return folder_path / "archive"


@pytest.fixture
def archive(folder: Path) -> Iterator[Archive]:
    with Archive.open(folder) as opened:
        yield opened


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def snapshot(prompt_id: str, name: str) -> dict[str, Any]:
    backup = {"backupFileName": name, "version": 1, "realParentDir": f"{PROJECT}/src"}
    state = {"messageId": prompt_id, "trackedFileBackups": {"src/a.txt": backup}}
    return {
        "type": "file-history-snapshot",
        "messageId": prompt_id,
        "snapshot": state,
        "isSnapshotUpdate": False,
    }


def conversation_records() -> Iterator[dict[str, Any]]:
    first = prompt("one", uuid="p1", cwd=PROJECT)
    call = tool_use("Agent", description="look", prompt="look")
    yield snapshot("p1", "h@v1")
    yield from thread(first, reply([call], uuid="a1"), reply("done", uuid="a2"))
    yield meta("cost-state", totalCostUSD=1.5)
    yield meta("api-request", id="r1")
    yield meta("queue-operation", operation="dequeue")
    yield snapshot("p2", "h@v2")
    yield from thread(
        prompt("two", uuid="p2", parent="a2", cwd=f"{PROJECT}/src"),
        reply("done", uuid="a3"),
        start=10,
    )
    yield snapshot("p3", "h@v3")
    yield from thread(prompt("three", uuid="p3", parent="a3"), start=20)


def read(path: str | Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def test_fork_has_its_own_id_title_and_leaf(archive: Archive, home: Path) -> None:
    fork = archive.fork(SESSION, turn=2, home=home)

    records = read(fork.path)
    tree = [record for record in records if "uuid" in record]
    assert Path(fork.path).stem == fork.session_id != SESSION
    assert {record["sessionId"] for record in tree} == {fork.session_id}
    assert tree[0]["forkedFrom"] == {"sessionId": SESSION, "messageUuid": "p1"}
    assert [record["type"] for record in records[-2:]] == [
        "custom-title",
        "last-prompt",
    ]
    assert records[-1]["leafUuid"] == "a2"
    types = {record["type"] for record in records}
    assert types.isdisjoint({"cost-state", "api-request", "queue-operation"})


def test_fork_has_the_backups_of_its_prompts(archive: Archive, home: Path) -> None:
    fork = archive.fork(SESSION, turn=3, directory="/work/new", home=home)

    backups = home / "file-history" / fork.session_id
    assert sorted(path.name for path in backups.iterdir()) == ["h@v1", "h@v2"]
    text = Path(fork.path).read_text()
    assert "/work/demo" not in text
    assert '"realParentDir":"/work/new/src"' in text
    assert '"cwd":"/work/new/src"' in text
    assert "-work-new" in fork.path


def test_fork_of_a_deleted_session_has_all_messages_and_agents(
    archive: Archive, home: Path
) -> None:
    fork = archive.fork(SESSION, home=home)

    copy = read_fork(home, fork.session_id)
    original = archive.session(SESSION)
    assert list(map(describe, copy.live_branch.messages)) == list(
        map(describe, original.live_branch.messages)
    )
    assert [run.id for run in copy.agents] == ["a1"]
    (lineage,) = copy.lineage
    assert (lineage.kind, lineage.session_id) == (LineageKind.FORKED_FROM, SESSION)


def test_fork_of_a_fork_ends_before_its_turn(
    archive: Archive, home: Path, tmp_path: Path
) -> None:
    first = archive.fork(SESSION, turn=3, home=home)
    Archive.ingest(tmp_path / "archive", [home])

    with Archive.open(tmp_path / "archive") as opened:
        second = opened.fork(first.session_id, turn=2, home=home)
    sessions = {session.id: session for session in read_sessions(home)}

    assert [m.preview for m in sessions[second.session_id].live_branch.messages] == [
        "one",
        "",
        "done",
    ]
    kinds = {lineage.kind for lineage in sessions[second.session_id].lineage}
    assert kinds == {LineageKind.FORKED_FROM}


def test_nothing_before_the_first_prompt_can_be_continued(
    archive: Archive, home: Path
) -> None:
    with pytest.raises(NothingToFork):
        archive.fork(SESSION, turn=1, home=home)


class Killed(BaseException):
    """Ends a fork as a kill does, at a chosen step."""


def kill_after(
    steps: int,
    function: Callable[..., None],
    error: type[BaseException] = Killed,
) -> Callable[..., None]:
    """Return a function that works a number of times, and then kills or fails."""
    left = [steps]

    def wrapper(*arguments: object, **options: object) -> None:
        if not left[0]:
            raise error("stopped")
        left[0] -= 1
        function(*arguments, **options)

    return wrapper


STEPS = ("link", "rename", "mkdir", "fsync")
"""System calls that change what is found in the home, or make it durable."""


@pytest.mark.parametrize("call", STEPS)
def test_killed_fork_leaves_no_part_of_a_session(
    call: str, archive: Archive, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = archive.session(SESSION)
    expected = list(map(describe, original.live_branch.messages))
    real = getattr(os, call)
    removed = shutil.rmtree
    for step in range(40):
        with monkeypatch.context() as patched:
            # Nothing is cleaned up after a kill.
            patched.setattr(os, call, kill_after(step, real))
            try:
                archive.fork(SESSION, home=home)
                break
            except Killed:
                pass
        found = list((home / "projects").glob("*/*.jsonl"))
        # A session that Claude Code can find is complete with agents and backups.
        for path in found:
            assert path.with_suffix("").is_dir(), (call, step)
            assert len(list((home / "file-history" / path.stem).iterdir())) == 3
            path.unlink()
            removed(path.with_suffix(""))
            removed(home / "file-history" / path.stem)
    else:
        pytest.fail("the fork was never written")

    (session,) = read_sessions(home)
    assert step >= (1 if call == "rename" else 5)
    assert list(map(describe, session.live_branch.messages)) == expected
    assert [run.id for run in session.agents] == ["a1"]
    # The last fork removed what the killed ones had left.
    assert list(home.glob(".*")) == []
    assert [path.name for path in (home / "file-history").iterdir()] == [session.id]


def test_failed_fork_is_removed_whole(
    archive: Archive, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "rename", kill_after(0, os.rename, OSError))

    with pytest.raises(OSError, match="stopped"):
        archive.fork(SESSION, home=home)

    assert [path for path in home.rglob("*") if path.is_file()] == []
    assert list(home.glob(".*")) == []


def test_existing_file_is_never_replaced(
    archive: Archive, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fork = archive.fork(SESSION, turn=3, home=home)
    Path(fork.path).write_text("mine\n")
    monkeypatch.setattr(uuid, "uuid4", lambda: fork.session_id)
    shutil.rmtree(home / "file-history")
    shutil.rmtree(Path(fork.path).with_suffix(""))

    with pytest.raises(FileExistsError):
        archive.fork(SESSION, turn=3, home=home)

    assert Path(fork.path).read_text() == "mine\n"
    assert not list(home.glob(".*"))
