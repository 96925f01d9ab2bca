"""The sources that a walk finds."""

from __future__ import annotations

import inspect
import os
import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from bygones.model.base import SourceFile
from bygones.sources.walk import discover_sources
from tests.sources.trees import UUID, create_files, found, kinds

OTHER = "0a1b2c3d-0000-4000-8000-000000000002"
RUN = f"{UUID}/subagents/workflows/wf_0a1b2c3d-0a1"

HOME = {
    "history.jsonl": "history",
    f"file-history/{UUID}/0123456789abcdef@v1": "file-history",
    f"file-history/{UUID}/more/0123456789abcdef@v2": "file-history",
    "plans/quiet-river.md": "plan",
    f"tasks/{UUID}/1.json": "task",
    "tasks/team/1.json": "task",
    f"todos/{UUID}-agent-{UUID}.json": "todo",
    f"projects/-p/{UUID}.jsonl": "session",
    f"projects/-p/{UUID}.jsonl.backup": "sidecar",
    "projects/-p/sessions-index.json": "sidecar",
    "projects/-p/agent-0a1b2c3.jsonl": "agent",
    "projects/-p/agent-0a1b2c3d.jsonl": "agent",
    f"projects/-p/{UUID}/custom-title.json": "sidecar",
    f"projects/-p/{UUID}/subagents/agent-a0123456789abcdef.jsonl": "agent",
    f"projects/-p/{UUID}/subagents/agent-a0123456789abcdef.meta.json": "sidecar",
    f"projects/-p/{UUID}/subagents/agent-acompact-0a1b2c.jsonl": "agent",
    f"projects/-p/{RUN}/agent-a1.jsonl": "agent",
    f"projects/-p/{RUN}/journal.jsonl": "journal",
    f"projects/-p/{UUID}/tool-results/toolu_1.txt": "tool-result",
    f"projects/-p/{UUID}/tool-results/toolu_2.json": "tool-result",
    f"projects/-p/{UUID}/workflows/wf_0a1b2c3d-0a1.json": "workflow",
    f"projects/-p/{UUID}/workflows/scripts/x-wf_0a1b2c3d-0a1.js": "workflow",
}

NEVER = (
    ".claude.json",
    ".credentials.json",
    "settings.json",
    "settings.local.json",
    "sessions/1.json",
    "sessions/1.0a1b.key",
    "plugins/x/fixture.jsonl",
    "debug/x.jsonl",
    "tasks/team/.lock",
    "tasks/team/list.lock",
    "todos/notes.txt",
    "plans/draft.txt",
    "projects/-p/memory/MEMORY.md",
    f"projects/-p/._{UUID}.jsonl",
    f"projects/-p/{UUID}/tool-results/.DS_Store",
)


@pytest.mark.req("F1", "F2")
def test_each_file_of_a_home_has_its_kind_and_others_are_ignored(
    tmp_path: Path,
) -> None:
    home = create_files(tmp_path / "home", *HOME, *NEVER)

    assert kinds(home) == HOME


@pytest.mark.req("F2")
def test_unknown_folders_of_a_home_are_not_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = create_files(tmp_path / ".claude", *HOME, *NEVER)
    listed: list[str] = []
    scan = os.scandir

    def note(path: str) -> Iterator[os.DirEntry[str]]:
        listed.append(path)
        return scan(path)

    monkeypatch.setattr(os, "scandir", note)

    list(discover_sources(home))

    assert listed
    assert not [path for path in listed if "sessions" in path or "plugins" in path]


@pytest.mark.req("F2")
def test_source_has_its_home_and_relative_path(tmp_path: Path) -> None:
    home = create_files(
        tmp_path / ".claude", f"projects/-p/{UUID}.jsonl", text="{}\n{}\n"
    )
    file = home / "projects" / "-p" / f"{UUID}.jsonl"
    os.utime(file, ns=(5, 1_700_000_000_123_456_789))

    (source,) = discover_sources(home)

    assert isinstance(source, SourceFile)
    assert source.id == file.as_posix()
    assert source.home == home.as_posix()
    assert source.relative_path == f"projects/-p/{UUID}.jsonl"
    assert (source.size, source.mtime_ns) == (6, file.stat().st_mtime_ns)
    assert source.project_key == "-p"


@pytest.mark.req("F2")
def test_source_has_its_session_and_agent(tmp_path: Path) -> None:
    sources = found(create_files(tmp_path / "home", *HOME))

    names = {
        path.removeprefix("projects/-p/"): (source.session_id, source.agent_id)
        for path, source in sources.items()
    }

    deep = f"{UUID}/subagents/agent-a0123456789abcdef"
    assert names[f"{UUID}.jsonl"] == (UUID, None)
    assert names[f"{UUID}.jsonl.backup"] == (UUID, None)
    assert names["agent-0a1b2c3.jsonl"] == (None, "0a1b2c3")
    assert names[f"{deep}.jsonl"] == (UUID, "a0123456789abcdef")
    assert names[f"{deep}.meta.json"] == (UUID, "a0123456789abcdef")
    assert names[f"{UUID}/subagents/agent-acompact-0a1b2c.jsonl"] == (
        UUID,
        "acompact-0a1b2c",
    )
    assert names[f"{RUN}/agent-a1.jsonl"] == (UUID, "a1")
    assert names[f"{RUN}/journal.jsonl"] == (UUID, None)
    assert names[f"{UUID}/tool-results/toolu_1.txt"] == (UUID, None)
    assert names[f"file-history/{UUID}/0123456789abcdef@v1"] == (UUID, None)
    assert names[f"file-history/{UUID}/more/0123456789abcdef@v2"] == (UUID, None)
    assert names[f"todos/{UUID}-agent-{UUID}.json"] == (UUID, UUID)
    assert names[f"tasks/{UUID}/1.json"] == (UUID, None)
    assert names["tasks/team/1.json"] == (None, None)


@pytest.mark.req("F1")
@pytest.mark.parametrize(
    "start",
    ["", "projects", "projects/-p", f"projects/-p/{UUID}", f"projects/-p/{RUN}"],
)
def test_source_is_the_same_wherever_the_walk_starts(
    tmp_path: Path, start: str
) -> None:
    home = create_files(tmp_path / "home", *HOME)
    whole = {source.id: source for source in found(home).values()}

    part = found(home / start)

    assert part
    for source in part.values():
        same = whole[source.id]
        assert (
            source.kind,
            source.project_key,
            source.session_id,
            source.agent_id,
        ) == (
            same.kind,
            same.project_key,
            same.session_id,
            same.agent_id,
        )


@pytest.mark.req("F1")
@pytest.mark.parametrize("name", HOME)
def test_single_file_has_the_kind_of_its_path(tmp_path: Path, name: str) -> None:
    home = create_files(tmp_path / "home", *HOME)

    (source,) = discover_sources(home / name)

    assert isinstance(source, SourceFile)
    assert source.kind == HOME[name]
    assert source.home == (home / name).parent.as_posix()
    assert source.relative_path == (home / name).name


@pytest.mark.req("F1")
def test_single_file_of_any_name_is_a_session(tmp_path: Path) -> None:
    create_files(tmp_path, "notes.txt")

    assert kinds(tmp_path) == {}
    assert kinds(tmp_path / "notes.txt") == {"notes.txt": "session"}


@pytest.mark.req("F1")
def test_transcripts_outside_a_home_are_found_at_any_depth(tmp_path: Path) -> None:
    create_files(
        tmp_path,
        "transcript.jsonl",
        "README.md",
        "a/b/c/full.jsonl",
        "a/agent-a b.jsonl",
        "episode/subagents/agent-a1.jsonl",
        "episode.jsonl",
        "deep/subagents/other.jsonl",
    )

    sources = found(tmp_path)

    assert {
        path: (s.kind, s.session_id, s.agent_id) for path, s in sources.items()
    } == {
        "transcript.jsonl": ("session", "transcript", None),
        "a/b/c/full.jsonl": ("session", "full", None),
        "a/agent-a b.jsonl": ("agent", None, None),
        "episode/subagents/agent-a1.jsonl": ("agent", "episode", "a1"),
        "episode.jsonl": ("session", "episode", None),
        "deep/subagents/other.jsonl": ("agent", None, None),
    }


@pytest.mark.req("F1")
def test_copied_homes_are_found_below_a_folder(
    tmp_path: Path,
) -> None:
    create_files(
        tmp_path,
        f"laptop/.claude/projects/C--work-demo/{UUID}.jsonl",
        "laptop/.claude/settings.json",
        "laptop/.claude/debug/x.jsonl",
        f"wsl/copy/projects/-mnt-c-x/{OTHER}.jsonl",
        "wsl/copy/history.jsonl",
        "wsl/copy/plugins/x.jsonl",
    )

    sources = found(tmp_path)

    assert {path: s.project_key for path, s in sources.items()} == {
        f"laptop/.claude/projects/C--work-demo/{UUID}.jsonl": "C--work-demo",
        "wsl/copy/history.jsonl": None,
        f"wsl/copy/projects/-mnt-c-x/{OTHER}.jsonl": "-mnt-c-x",
    }


@pytest.mark.req("F1")
def test_folder_named_projects_is_not_a_home(tmp_path: Path) -> None:
    create_files(tmp_path, "projects/mine/a.jsonl", "more/b.jsonl", "history.txt")

    assert set(found(tmp_path)) == {"projects/mine/a.jsonl", "more/b.jsonl"}


@pytest.mark.req("F1")
def test_path_with_dots_gives_the_same_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_files(tmp_path, "a/x.jsonl", "b/y")
    monkeypatch.chdir(tmp_path / "b")

    for path in ("../a", "../a/./x.jsonl", "../b/../a"):
        (source,) = discover_sources(Path(path))

        assert isinstance(source, SourceFile)
        assert source.id == (tmp_path / "a" / "x.jsonl").as_posix()


@pytest.mark.req("F1")
def test_relative_path_gives_the_same_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_files(tmp_path, "a/x.jsonl")
    monkeypatch.chdir(tmp_path)

    (source,) = discover_sources(Path())

    assert isinstance(source, SourceFile)
    assert source.id == (tmp_path / "a" / "x.jsonl").as_posix()
    assert source.relative_path == "a/x.jsonl"


@pytest.mark.req("F2")
def test_order_depends_on_names_only(tmp_path: Path) -> None:
    names = ["b.jsonl", "c/z.jsonl", "a.jsonl", "c.jsonl", "b/y.jsonl", "B.jsonl"]

    forth = list(found(create_files(tmp_path / "forth", *names)))
    back = list(found(create_files(tmp_path / "back", *reversed(names))))

    assert forth == back
    assert forth == [
        "B.jsonl",
        "a.jsonl",
        "b.jsonl",
        "c.jsonl",
        "b/y.jsonl",
        "c/z.jsonl",
    ]


@pytest.mark.req("F2")
def test_walk_does_not_open_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = create_files(tmp_path / ".claude", *HOME)
    monkeypatch.setattr(os, "open", None)
    monkeypatch.setattr("builtins.open", None)

    assert len(list(discover_sources(home))) == len(HOME)


@pytest.mark.req("F2")
def test_walk_is_lazy(tmp_path: Path) -> None:
    create_files(tmp_path, "a.jsonl", "b/c.jsonl")

    walk = discover_sources(tmp_path)
    next(walk)
    create_files(tmp_path, "b/a.jsonl")

    assert [item.relative_path for item in walk if isinstance(item, SourceFile)] == [
        "b/a.jsonl",
        "b/c.jsonl",
    ]


@pytest.mark.req("E3")
def test_walk_is_deeper_than_the_recursion_limit(tmp_path: Path) -> None:
    deep = "d/" * 300 + "bottom.jsonl"
    create_files(tmp_path, deep)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + 150)

    try:
        paths = [
            item.relative_path
            for item in discover_sources(tmp_path)
            if isinstance(item, SourceFile)
        ]
    finally:
        sys.setrecursionlimit(limit)

    assert paths == [deep]


@pytest.mark.req("E3")
def test_many_files_are_walked_with_little_memory(tmp_path: Path) -> None:
    for number in range(50):
        create_files(
            tmp_path, *(f"projects/-p{number}/{n:036}.jsonl" for n in range(100))
        )
    tracemalloc.start()

    count = sum(1 for _ in discover_sources(tmp_path))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert count == 5000
    assert peak < 500_000
