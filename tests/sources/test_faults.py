"""Missing, inaccessible and special files become problems, never exceptions."""

from __future__ import annotations

import errno
import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Self

import pytest

from bygones.model.base import Position, Problem, SourceFile, SourceId
from bygones.sources.fingerprint import detect_change, fingerprint_bytes
from bygones.sources.lines import read_at, read_lines
from bygones.sources.walk import discover_sources
from tests.sources.trees import UUID, create_files, found, problems

pytestmark = pytest.mark.req("F2")

POSIX = pytest.mark.skipif(os.name != "posix", reason="the system has no such thing")
MARK = fingerprint_bytes(head=b"", tail=b"", unfinished=b"", offset=0)


def first(source: SourceId) -> object:
    return next(read_lines(source))


ASKING: list[Callable[[SourceId], object]] = [
    first,
    lambda source: read_at(Position(source, 0, 0, 1)),
    lambda source: detect_change(source, MARK),
]
every_question = pytest.mark.parametrize("ask", ASKING)


def kind_of(answer: object) -> str:
    assert isinstance(answer, Problem)
    return answer.kind


@pytest.mark.req("E1")
@every_question
def test_file_removed_after_the_walk_has_vanished(
    tmp_path: Path, ask: Callable[[SourceId], object]
) -> None:
    create_files(tmp_path, "a.jsonl")
    source = found(tmp_path)["a.jsonl"].id
    (tmp_path / "a.jsonl").unlink()

    assert kind_of(ask(source)) == "vanished"


@every_question
def test_folder_named_like_a_transcript_is_not_a_file(
    tmp_path: Path, ask: Callable[[SourceId], object]
) -> None:
    (tmp_path / "a.jsonl").mkdir()
    create_files(tmp_path, "b.jsonl")

    assert problems(tmp_path) == {"a.jsonl": "not-a-file"}
    assert kind_of(ask(SourceId(f"{tmp_path}/a.jsonl"))) == "not-a-file"


def test_folder_named_like_a_transcript_is_walked(tmp_path: Path) -> None:
    create_files(tmp_path, "a.jsonl/b.jsonl")

    _, source = discover_sources(tmp_path)

    assert isinstance(source, SourceFile)
    assert source.relative_path == "a.jsonl/b.jsonl"


@POSIX
@every_question
def test_pipe_is_not_a_file_and_does_not_block(
    tmp_path: Path, ask: Callable[[SourceId], object]
) -> None:
    os.mkfifo(tmp_path / "a.jsonl")

    assert problems(tmp_path) == {"a.jsonl": "not-a-file"}
    assert problems(tmp_path / "a.jsonl") == {"a.jsonl": "not-a-file"}
    assert kind_of(ask(SourceId(f"{tmp_path}/a.jsonl"))) == "not-a-file"


@POSIX
@every_question
def test_socket_and_device_are_not_files(
    tmp_path: Path,
    ask: Callable[[SourceId], object],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)  # the name of a socket must be short
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("a.jsonl")

        assert problems(tmp_path) == {"a.jsonl": "not-a-file"}
        assert kind_of(ask(SourceId(f"{tmp_path}/a.jsonl"))) == "not-a-file"
        assert kind_of(ask(SourceId("/dev/zero"))) == "not-a-file"


@POSIX
@every_question
def test_symlink_that_replaced_a_file_is_not_followed(
    tmp_path: Path, ask: Callable[[SourceId], object]
) -> None:
    create_files(tmp_path, "home/a.jsonl", "secret")
    source = found(tmp_path / "home")["a.jsonl"].id
    (tmp_path / "home" / "a.jsonl").unlink()
    (tmp_path / "home" / "a.jsonl").symlink_to(tmp_path / "secret")

    assert kind_of(ask(source)) == "link-out"


@every_question
def test_impossible_path_is_unreadable(
    ask: Callable[[SourceId], object],
) -> None:
    assert kind_of(ask(SourceId("/a\0b"))) == "unreadable"
    assert kind_of(ask(SourceId("/a\ud800b"))) == "unreadable"
    assert kind_of(ask(SourceId("/" + "x" * 5000))) == "unreadable"


@POSIX
@every_question
def test_file_without_permission_is_unreadable(
    tmp_path: Path,
    ask: Callable[[SourceId], object],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    create_files(tmp_path, "a.jsonl")
    source = found(tmp_path)["a.jsonl"].id
    monkeypatch.setattr(os, "open", refuse)

    assert kind_of(ask(source)) == "unreadable"


@pytest.mark.parametrize("ask", [ask for ask in ASKING if ask not in ASKING[2:4]])
def test_failing_disk_makes_a_file_unreadable(
    tmp_path: Path,
    ask: Callable[[SourceId], object],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    create_files(tmp_path, "a.jsonl")
    source = found(tmp_path)["a.jsonl"].id
    monkeypatch.setattr(os, "read", fail)

    assert kind_of(ask(source)) == "unreadable"


@POSIX
@pytest.mark.skipif(
    hasattr(os, "geteuid") and os.geteuid() == 0, reason="nothing is closed to root"
)
def test_folder_and_file_without_permission_are_unreadable(tmp_path: Path) -> None:
    create_files(tmp_path, "closed/a.jsonl", "b.jsonl")
    (tmp_path / "closed").chmod(0)
    (tmp_path / "b.jsonl").chmod(0)

    seen = problems(tmp_path)
    answer = first(SourceId(f"{tmp_path}/b.jsonl"))
    (tmp_path / "closed").chmod(0o700)

    assert seen == {"closed": "unreadable"}
    assert kind_of(answer) == "unreadable"


def test_folder_that_cannot_be_listed_does_not_stop_the_walk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_files(tmp_path, "a/x.jsonl", "b/x.jsonl", "c/x.jsonl")
    scan = os.scandir

    def refuse(path: str) -> object:
        if path.endswith("b"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return scan(path)

    monkeypatch.setattr(os, "scandir", refuse)

    seen = list(discover_sources(tmp_path))

    assert [item.kind for item in seen] == ["session", "unreadable", "session"]


@pytest.mark.req("E1")
def test_folder_may_vanish_during_the_walk(tmp_path: Path) -> None:
    create_files(tmp_path, "a.jsonl", "b/x.jsonl", "c/x.jsonl")

    walk = discover_sources(tmp_path)
    next(walk)
    shutil.rmtree(tmp_path / "b")
    rest = list(walk)

    assert [item.kind for item in rest] == ["vanished", "session"]


@pytest.mark.req("E1")
def test_file_may_vanish_during_the_walk(tmp_path: Path) -> None:
    create_files(tmp_path, "a.jsonl", "b.jsonl", "c.jsonl")

    walk = discover_sources(tmp_path)
    next(walk)
    (tmp_path / "b.jsonl").unlink()
    rest = list(walk)

    assert [item.kind for item in rest] == ["vanished", "session"]


def test_missing_path_has_vanished(tmp_path: Path) -> None:
    assert problems(tmp_path / "none") == {"none": "vanished"}
    assert problems(Path("/a\0b")) == {"a\0b": "unreadable"}


@pytest.mark.parametrize(
    "name", [".credentials.json", "settings.local.json", ".claude.json", "1.ab.key"]
)
def test_file_with_secrets_is_rejected_even_by_name(tmp_path: Path, name: str) -> None:
    create_files(tmp_path, name)

    assert problems(tmp_path / name) == {name: "unreadable"}


@POSIX
@pytest.mark.req("E1")
def test_symlinks_out_of_the_home_are_not_followed(tmp_path: Path) -> None:
    create_files(
        tmp_path, "other/x.jsonl", "home/a.jsonl", f"home/{UUID}/tool-results/b.txt"
    )
    (tmp_path / "home" / "file.jsonl").symlink_to(tmp_path / "other" / "x.jsonl")
    (tmp_path / "home" / "folder").symlink_to(tmp_path / "other")
    (tmp_path / "home" / "notes.txt").symlink_to(tmp_path / "other" / "x.jsonl")
    (tmp_path / "home" / "up").symlink_to("..")
    results = tmp_path / "home" / UUID / "tool-results"
    (results / "c.txt").symlink_to(tmp_path / "other" / "x.jsonl")

    assert problems(tmp_path / "home") == {
        "c.txt": "link-out",
        "file.jsonl": "link-out",
        "folder": "link-out",
        "up": "link-out",
    }


@POSIX
def test_sibling_with_the_same_prefix_is_outside(tmp_path: Path) -> None:
    create_files(tmp_path, "home/a.jsonl", "home2/x.jsonl")
    (tmp_path / "home" / "b.jsonl").symlink_to(tmp_path / "home2" / "x.jsonl")

    assert problems(tmp_path / "home") == {"b.jsonl": "link-out"}


@POSIX
def test_symlinks_inside_the_home_are_not_walked_twice(tmp_path: Path) -> None:
    home = create_files(tmp_path, "a/x.jsonl", "b/y.jsonl")
    (home / "a" / "z.jsonl").symlink_to("x.jsonl")
    (home / "c").symlink_to("a")
    (home / "a" / "self").symlink_to(home)

    assert set(found(home)) == {"a/x.jsonl", "b/y.jsonl"}


@POSIX
def test_symlink_to_an_ignored_part_of_the_home_is_a_problem(
    tmp_path: Path,
) -> None:
    home = create_files(
        tmp_path / ".claude",
        ".credentials.json",
        "old/-p/x.jsonl",
        "projects/-p/a.jsonl",
    )
    (home / "projects" / "-p" / "b.jsonl").symlink_to(home / ".credentials.json")
    (home / "projects" / "-q").symlink_to(home / "old")
    (home / "projects" / "-r").symlink_to(home / "old" / "-p")

    assert problems(home) == {
        "b.jsonl": "link-out",
        "-q": "link-out",
        "-r": "link-out",
    }


@POSIX
@pytest.mark.req("E1")
def test_broken_and_circular_symlinks_are_problems(tmp_path: Path) -> None:
    home = create_files(tmp_path, "a.jsonl")
    (home / "gone.jsonl").symlink_to("nothing")
    (home / "loop.jsonl").symlink_to("loop.jsonl")
    (home / "ping").symlink_to("pong")
    (home / "pong").symlink_to("ping")

    assert problems(home) == {"gone.jsonl": "vanished", "loop.jsonl": "unreadable"}
    assert problems(home / "loop.jsonl") == {"loop.jsonl": "unreadable"}


@POSIX
def test_broken_symlink_as_projects_is_a_problem(tmp_path: Path) -> None:
    home = create_files(tmp_path / ".claude", "history.jsonl")
    (home / "projects").symlink_to("nothing")

    assert problems(home) == {"projects": "vanished"}


@POSIX
def test_walked_folder_and_file_may_be_symlinks(tmp_path: Path) -> None:
    create_files(tmp_path, "real/.claude/projects/-p/a.jsonl")
    (tmp_path / "link").symlink_to("real/.claude")
    (tmp_path / "file").symlink_to("real/.claude/projects/-p/a.jsonl")

    (source,) = discover_sources(tmp_path / "file")

    assert set(found(tmp_path / "link")) == {"projects/-p/a.jsonl"}
    assert isinstance(source, SourceFile)
    assert source.project_key == "-p"
    assert len(list(read_lines(source))) == 1


def test_file_system_without_types_makes_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Mute:
        name = "a.jsonl"
        path = "a.jsonl"

        def is_symlink(self) -> bool:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

        def is_dir(self, *, follow_symlinks: bool = True) -> bool:
            raise OSError(errno.EIO, os.strerror(errno.EIO), follow_symlinks)

    class Listing(list[Mute]):
        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None: ...

    monkeypatch.setattr(os, "scandir", lambda _: Listing([Mute()]))

    assert problems(tmp_path) == {"a.jsonl": "unreadable"}
