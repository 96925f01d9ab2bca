"""Moving what Claude Code stores about a project, and moving it back."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from bygones.archive import Archive
from bygones.errors import PathUnusable
from bygones.maintenance.move import MOVES_FOLDER, move_project, plan_move, undo_move
from bygones.sources.layout import TEMP_FILE_PREFIX
from tests.build import Home, prompt, reply, session_id, thread

FIRST, BELOW, OTHER, SIBLING = map(session_id, range(1, 5))
OLD, NEW = "/work/shop", "/work/store"


def write_session(home: Home, id_: str, cwd: str, project: str) -> None:
    history = {
        "type": "file-history-delta",
        "trackingPath": "a.txt",
        "backup": {"backupFileName": "h@v1", "realParentDir": cwd},
    }
    records = thread(prompt(f"in {cwd}"), reply("done"))
    rows = [{**record, "cwd": cwd} for record in records]
    home.session(id_, [*rows, history], project=project)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return a home with a project, one below it, and two that stay."""
    home = Home(tmp_path / "home")
    write_session(home, FIRST, OLD, "-work-shop")
    write_session(home, BELOW, f"{OLD}/api", "-work-shop-api")
    # The same key as a directory below the project, and a similar name.
    write_session(home, OTHER, "/work/shop-api", "-work-shop-api")
    write_session(home, SIBLING, "/work/shopping", "-work-shopping")
    home.agent(FIRST, "a1", [{**prompt("look"), "cwd": OLD}], project="-work-shop")
    memory = home.path / "projects" / "-work-shop" / "memory" / "MEMORY.md"
    memory.parent.mkdir()
    memory.write_text("remember\n")
    projects = (OLD, f"{OLD}/api", "/work/shopping")
    lines = [json.dumps({"display": "hi", "project": name}) for name in projects]
    (home.path / "history.jsonl").write_text("".join(f"{line}\n" for line in lines))
    return home.path


def read_all(home: Path) -> dict[str, bytes]:
    return {
        path.relative_to(home).as_posix(): path.read_bytes()
        for path in home.rglob("*")
        if path.is_file()
    }


def names(home: Path) -> list[str]:
    return sorted(name for name in read_all(home) if not name.startswith("."))


def test_project_and_those_below_it_are_moved(home: Path) -> None:
    plan = plan_move(home, OLD, NEW)
    move_project(plan)

    assert plan.session_count == 2
    assert names(home) == [
        "history.jsonl",
        f"projects/-work-shop-api/{OTHER}.jsonl",
        f"projects/-work-shopping/{SIBLING}.jsonl",
        f"projects/-work-store-api/{BELOW}.jsonl",
        f"projects/-work-store/{FIRST}.jsonl",
        f"projects/-work-store/{FIRST}/subagents/agent-a1.jsonl",
        "projects/-work-store/memory/MEMORY.md",
    ]
    text = (home / f"projects/-work-store-api/{BELOW}.jsonl").read_text()
    assert OLD not in text.replace(f"in {OLD}/api", "")
    assert '"realParentDir":"/work/store/api"' in text.replace('": "', '":"')
    history = map(json.loads, (home / "history.jsonl").read_text().splitlines())
    assert [line["project"] for line in history] == [
        NEW,
        f"{NEW}/api",
        "/work/shopping",
    ]
    assert plan_move(home, OLD, NEW).files == ()


@pytest.mark.parametrize(
    ("recorded", "is_moved"), [("/Users/Ann/Shop", True), ("/home/Ann/Shop", False)]
)
def test_spelling_of_the_old_name_matters_only_where_case_does(
    recorded: str, *, is_moved: bool, tmp_path: Path
) -> None:
    home = Home(tmp_path / "home")
    write_session(home, FIRST, recorded, recorded.replace("/", "-"))

    plan = plan_move(home.path, recorded.lower().replace("/users", "/Users"), NEW)

    targets = [file.target for file in plan.files]
    assert targets == ([f"projects/-work-store/{FIRST}.jsonl"] if is_moved else [])
    same = plan_move(home.path, recorded.swapcase(), recorded)
    assert same.files == ()


def test_undone_move_leaves_the_same_bytes(home: Path) -> None:
    before = read_all(home)
    move_project(plan_move(home, OLD, NEW))

    assert undo_move(home)

    assert read_all(home) == before
    assert undo_move(home) is None


def test_undo_keeps_what_was_added_since(home: Path) -> None:
    before = read_all(home)
    move_project(plan_move(home, OLD, NEW))
    added = json.dumps({"type": "user", "cwd": NEW}, separators=(",", ":")) + "\n"
    prompt_line = json.dumps({"display": "new", "project": NEW}) + "\n"
    with (home / f"projects/-work-store/{FIRST}.jsonl").open("a") as file:
        file.write(added)
    with (home / "history.jsonl").open("a") as file:
        file.write(prompt_line)

    undo_move(home)

    name = f"projects/-work-shop/{FIRST}.jsonl"
    after = read_all(home)
    assert after[name] == before[name] + added.replace(NEW, OLD).encode()
    assert after["history.jsonl"].startswith(before["history.jsonl"])
    assert json.loads(after["history.jsonl"].splitlines()[-1])["project"] == OLD


def test_file_in_the_way_stops_the_move_before_it_starts(home: Path) -> None:
    path = home / f"projects/-work-store/{FIRST}.jsonl"
    path.parent.mkdir()
    path.write_text("mine\n")
    before = read_all(home)

    with pytest.raises(PathUnusable, match="other content"):
        move_project(plan_move(home, OLD, NEW))

    assert read_all(home) == before


class Killed(BaseException):
    """Ends a move as a kill does."""


STEPS = ("link", "rename", "replace")


def kill_at(monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    """Let a number of changes of the file system work, and then kill."""
    left = [step]

    def limit(function: Callable[..., object]) -> Callable[..., object]:
        def wrapper(*arguments: object, **options: object) -> object:
            if not left[0]:
                raise Killed
            left[0] -= 1
            return function(*arguments, **options)

        return wrapper

    for name in STEPS:
        monkeypatch.setattr(os, name, limit(getattr(os, name)))


@pytest.mark.parametrize("then", ["undo", "continue"])
def test_interrupted_move_can_be_undone_or_continued(
    home: Path, tmp_path: Path, then: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = read_all(home)
    whole = tmp_path / "whole"
    shutil.copytree(home, whole)
    move_project(plan_move(whole, OLD, NEW))
    expected = {n: b for n, b in read_all(whole).items() if not n.startswith(".")}
    for step in range(60):
        copy = tmp_path / f"home-{step}"
        shutil.copytree(home, copy)
        with monkeypatch.context() as patched:
            kill_at(patched, step)
            try:
                move_project(plan_move(copy, OLD, NEW))
                break
            except Killed:
                pass
        if then == "continue":
            move_project(plan_move(copy, OLD, NEW))
            after = {n: b for n, b in read_all(copy).items() if n[0] != "."}
            assert after == expected, step
        if (copy / MOVES_FOLDER).exists():
            undo_move(copy)
        left = {n: b for n, b in read_all(copy).items() if ".part" not in n}
        left = {n: b for n, b in left.items() if not n.startswith(MOVES_FOLDER)}
        assert left == before, step

    assert step > 10


@pytest.mark.skipif(os.name == "nt", reason="files in use can't be recognized there")
@pytest.mark.parametrize("then", ["undo", "continue"])
def test_file_that_a_killed_move_was_writing_is_removed(home: Path, then: str) -> None:
    before = read_all(home)
    plan = plan_move(home, OLD, NEW)
    target = (home / plan.files[0].target).parent
    if then == "undo":
        move_project(plan)
    target.mkdir(parents=True, exist_ok=True)
    leftover = target / f"{TEMP_FILE_PREFIX}{'0' * 16}"
    leftover.write_text("half a record", "utf-8")

    if then == "continue":
        move_project(plan)
        assert not leftover.exists()
    undo_move(home)

    assert read_all(home) == before


def test_interrupted_undo_can_be_repeated(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = read_all(home)
    move_project(plan_move(home, OLD, NEW))
    for step in range(60):
        copy = tmp_path / f"home-{step}"
        shutil.copytree(home, copy)
        with monkeypatch.context() as patched:
            kill_at(patched, step)
            try:
                undo_move(copy)
                break
            except Killed:
                pass
        undo_move(copy)
        left = {n: b for n, b in read_all(copy).items() if ".part" not in n}
        assert left == before, step

    assert step > 3
    assert read_all(copy) == before


def test_archive_lists_moved_sessions_in_the_new_directory(
    home: Path, tmp_path: Path
) -> None:
    Archive.ingest(tmp_path / "archive", [home])
    move_project(plan_move(home, OLD, NEW))
    Archive.ingest(tmp_path / "archive", [home])

    with Archive.open(tmp_path / "archive") as archive:
        projects = {summary.id: summary.project for summary in archive.sessions()}

    assert projects == {
        FIRST: NEW,
        BELOW: f"{NEW}/api",
        OTHER: "/work/shop-api",
        SIBLING: "/work/shopping",
    }
