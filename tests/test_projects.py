"""Clones, worktrees and former names of a directory are one project."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest
from msgspec import Raw

from bygones.archive import Archive
from bygones.cli.main import main
from bygones.errors import ExitCode
from bygones.model.base import SessionId
from bygones.model.nodes import GitOutput
from bygones.model.projects import (
    ClueKind,
    ProjectDirectories,
    RepositoryClue,
    RepositoryFacts,
    infer_repositories,
)
from bygones.parse.shell_edits import find_git_output
from bygones.sources.layout import project_key
from bygones.sources.repositories import read_directory
from bygones.store.archive_db import ArchiveDB
from tests.build import (
    Home,
    meta,
    prompt,
    reply,
    session_id,
    thread,
    tool_result,
    tool_use,
)

REMOTE = "https://ann:secret@GitHub.com/ann/shop.git"
NAMES = ("shop", "clone", "tree", "api", "other")
IDS = dict(zip(NAMES, map(session_id, range(1, 6)), strict=True))


def git(*arguments: str, cwd: Path) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    command = ["git", *identity, "-c", "init.defaultBranch=main", *arguments]
    subprocess.run(command, cwd=cwd, check=True, capture_output=True)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """Return a folder with a repository, a clone, a worktree and a plain directory."""
    work = Path(os.path.realpath(tmp_path / "work"))
    for name in ("shop/api", "other"):
        (work / name).mkdir(parents=True)
    git("init", "-q", cwd=work / "shop")
    git("remote", "add", "origin", REMOTE, cwd=work / "shop")
    git("commit", "-q", "--allow-empty", "-m", "start", cwd=work / "shop")
    git("clone", "-q", str(work / "shop"), str(work / "clone"), cwd=work)
    git("worktree", "add", "-q", str(work / "tree"), cwd=work / "shop")
    return work


def write_sessions(work: Path, home: Home) -> None:
    for name, id_ in IDS.items():
        path = str(work / ("shop/api" if name == "api" else name))
        records = thread(
            prompt(f"hello in {name}", uuid=f"p-{name}"),
            reply("yes", uuid=f"r-{name}", message_id=f"m-{name}"),
        )
        rows = [{**record, "cwd": path} for record in records]
        home.session(id_, rows, project=project_key(path))


@pytest.fixture
def folder(work: Path, tmp_path: Path) -> Path:
    home = Home(tmp_path / "home" / ".claude")
    write_sessions(work, home)
    Archive.ingest(tmp_path / "archive", [home.path])
    return tmp_path / "archive"


def selected(archive: Archive, query: str) -> set[str]:
    ids = {session.id for session in archive.sessions(query)}
    return {name for name, id_ in IDS.items() if id_ in ids}


@pytest.mark.req("GO2")
def test_directories_of_a_repository_are_one_project(folder: Path, work: Path) -> None:
    with Archive.open(folder) as archive:
        projects = {project.path: project for project in archive.projects()}
        assert set(projects) == {f"{work}/{n}" for n in ("shop", "shop/api", "other")}
        shop = projects[f"{work}/shop"]
        assert set(shop.other_paths) == {f"{work}/clone", f"{work}/tree"}
        assert {IDS[n] for n in ("shop", "clone", "tree")} == set(shop.session_ids)
        assert archive.project("clone").path == f"{work}/shop"
        one = {"shop", "clone", "tree"}
        assert selected(archive, "project:clone") == one
        assert selected(archive, f"project:{work}/tree hello") == one
        assert selected(archive, f"project:{work}/shop") == {*one, "api"}
        assert selected(archive, f"project:{work}/other") == {"other"}
        found = archive.search("hello project:clone").sessions
        assert {match.summary.id for match in found} == {IDS[name] for name in one}
        rows = {row.key: row for row in archive.usage("project").rows}
        assert set(rows) == set(projects)


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        (("/Users/Ann/Shop", "/users/ann/shop"), "/Users/Ann/Shop"),
        (("/Users/ann/shop", "/Users/ann/Shop"), "/Users/ann/Shop"),
        (("C:\\Work\\Shop", "c:\\work\\shop"), "C:\\Work\\Shop"),
        (("/home/ann/Shop", "/home/ann/shop"), None),
        (("/users/ann/Shop", "/users/ann/shop"), None),
    ],
)
def test_spellings_of_a_directory_are_one_project_where_case_is_ignored(
    paths: tuple[str, str], expected: str | None, tmp_path: Path
) -> None:
    home = Home(tmp_path / "home" / ".claude")
    for number, path in enumerate(paths):
        records = thread(
            prompt(f"hello {number}", uuid=f"p{number}"),
            reply("yes", uuid=f"r{number}", message_id=f"m{number}"),
        )
        rows = [{**record, "cwd": path} for record in records]
        home.session(session_id(number), rows, project=project_key(path) + str(number))
    Archive.ingest(tmp_path / "archive", [home.path])

    with Archive.open(tmp_path / "archive") as archive:
        projects = [project.path for project in archive.projects()]
        assert set(projects) == ({expected} if expected else set(paths))
        counts = [len(list(archive.sessions(f"project:{path}"))) for path in paths]
        assert counts == ([2, 2] if expected else [1, 1])


def test_projects_stay_the_same_after_directories_are_gone(
    folder: Path, work: Path
) -> None:
    shutil.rmtree(work)

    Archive.rebuild(folder)

    with Archive.open(folder) as archive:
        assert selected(archive, "project:clone") == {"shop", "clone", "tree"}


def test_new_clone_belongs_to_the_project_before_its_first_session(
    folder: Path, work: Path
) -> None:
    git("clone", "-q", str(work / "clone"), str(work / "fresh"), cwd=work)

    with Archive.open(folder) as archive:
        project = archive.project_at(work / "fresh")
        assert project is not None
        assert project.path == f"{work}/shop"
        deleted = archive.project_at(work / "shop" / ".claude" / "worktrees" / "x")
        assert deleted is not None
        assert deleted.path == f"{work}/shop"


def test_password_of_a_remote_is_not_stored(folder: Path, work: Path) -> None:
    facts = read_directory(str(work / "shop"))
    assert facts is not None
    assert facts.repository == "github.com/ann/shop"
    assert b"secret" not in (folder / "archive.db").read_bytes()


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("git@github.com:ann/shop.git", "github.com/ann/shop"),
        ("ssh://git@github.com:22/ann/shop/", "github.com/ann/shop"),
        ("https://github.com/ann/shop", "github.com/ann/shop"),
        ("git://Example.org/x.git", "example.org/x"),
        ("/nowhere/shop", "file:/nowhere/shop"),
    ],
)
def test_addresses_of_a_repository_have_one_name(
    url: str, name: str, tmp_path: Path
) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config").write_text(
        f'[core]\n\turl = wrong\n[remote "origin"]\n\turl = {url}\n'
    )

    facts = read_directory(str(tmp_path))

    assert facts == RepositoryFacts(name)


def test_odd_git_folders_are_no_repository(tmp_path: Path) -> None:
    places = [tmp_path / str(number) for number in range(4)]
    for folder in places:
        folder.mkdir()
    os.mkfifo(places[0] / ".git")
    (places[1] / ".git").write_text("gitdir: \0")
    (places[2] / ".git").write_bytes(b"\xff\x00")
    (places[3] / ".git").symlink_to(places[3] / ".git")

    assert [read_directory(str(folder)) for folder in places] == [RepositoryFacts()] * 4
    assert read_directory(str(tmp_path / "missing")) is None


def test_purge_removes_what_is_known_about_a_directory(
    folder: Path, work: Path
) -> None:
    with Archive.open(folder) as archive:
        ids = [SessionId(IDS["clone"])]
        archive.purge(archive.sources(sessions=ids), sessions=ids)

    archive_db = ArchiveDB(folder)
    rows = {row[0] for row in archive_db.db.execute("SELECT session FROM annotation")}
    archive_db.close()
    assert rows == {f"{work}/{name}" for name in ("shop", "shop/api", "tree", "other")}


def test_moved_project_has_both_names(  # noqa: PLR0917 (fixtures)
    folder: Path,
    work: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("BYGONES_ARCHIVE", str(folder))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    (work / "other").rename(work / "renamed")
    names = [str(work / name) for name in ("other", "renamed")]
    assert main(["move", *names, "--yes"]) == ExitCode.SUCCESS
    capsys.readouterr()

    assert main(["list", "--project", names[0], "--json"]) == ExitCode.SUCCESS
    (row,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert (row["session_id"], row["project"]) == (IDS["other"], names[1])
    with Archive.open(folder) as archive:
        assert selected(archive, "project:other") == {"other"}
        assert archive.project("other").path == names[1]
    assert main(["move", "--undo"]) == ExitCode.SUCCESS
    assert main(["list", "--json"]) == ExitCode.SUCCESS
    with Archive.open(folder) as archive:
        assert archive.project("other").path == names[0]
        assert selected(archive, "project:renamed") == set()


def test_names_of_directories_follow_moves_and_worktrees() -> None:
    known = ProjectDirectories({}, {"/a": "/b", "/b": "/c"})

    assert known.paths("/a/x") == ("/c/x", "/b/x", "/a/x")
    assert known.paths("/c") == ("/c", "/b", "/a")
    assert known.paths("/ab") == ("/ab",)
    tree = "/c/.claude/worktrees/one/api"
    assert known.paths(tree)[0] == "/c/api"
    # A cycle, which two machines may make, ends.
    assert ProjectDirectories({}, {"/a": "/b", "/b": "/a"}).paths("/a")


ROOT = "[main (root-commit) 1a2b3c4] start\n 1 file changed"


def recorded(directory: str, name: str, *stdout: str) -> list[object]:
    """Return the records of a session in which git printed something."""
    rows: list[dict[str, object]] = [prompt(f"hello in {name}", uuid=f"p-{name}")]
    for number, output in enumerate(stdout):
        call = f"toolu_{name}_{number}"
        use = tool_use("Bash", id=call, command="git")
        rows.append(reply([use], uuid=f"c-{call}", message_id=f"m-{call}"))
        outcome = {"stdout": output, "stderr": ""}
        rows.append(tool_result(call, output, uuid=f"r-{call}", outcome=outcome))
    rows.append(reply("yes", uuid=f"r-{name}", message_id=f"m-{name}"))
    return [{**row, "cwd": directory, "gitBranch": "main"} for row in thread(*rows)]


def projects_of(tmp_path: Path, *sessions: list[object]) -> dict[str, set[str]]:
    """Return the other paths of each project, for sessions of directories long gone."""
    home = Home(tmp_path / "home" / ".claude")
    for number, records in enumerate(sessions, 1):
        home.session(session_id(number), records, project=f"-p{number}")
    Archive.ingest(tmp_path / "archive", [home.path])
    with Archive.open(tmp_path / "archive") as archive:
        return {str(one.path): set(one.other_paths) for one in archive.projects()}


@pytest.mark.req("GO2")
def test_remotes_that_git_printed_join_directories(tmp_path: Path) -> None:
    pushed = "To github.com:ann/shop.git\n   1a2b3c4..5d6e7f8  main -> main"
    listed = "origin\thttps://github.com/ann/shop.git (fetch)\nup\tx (push)"

    found = projects_of(
        tmp_path,
        recorded("/gone/shop", "a", pushed),
        recorded("/gone/shop-2", "b", listed),
        recorded("/gone/shop-2/api", "c", "nothing"),
        recorded("/gone/notes", "d", pushed),
        recorded("/gone/shopping", "e", pushed),
    )

    assert found == {
        "/gone/shop": {"/gone/shop-2"},
        "/gone/shop-2/api": set(),
        "/gone/notes": set(),
        "/gone/shopping": set(),
    }


@pytest.mark.req("GO2")
def test_pull_requests_join_directories(tmp_path: Path) -> None:
    link = meta("pr-link", prUrl="https://github.com/ann/shop/pull/3", prNumber=3)

    found = projects_of(
        tmp_path,
        [*recorded("/gone/shop", "a"), link],
        [*recorded("/else/shop", "b"), link],
        recorded("/other/shop", "c"),
    )

    assert found == {"/else/shop": {"/gone/shop"}, "/other/shop": set()}


@pytest.mark.req("GO2")
def test_first_commit_joins_a_directory_that_was_moved_without_us(
    tmp_path: Path,
) -> None:
    new = Path(os.path.realpath(tmp_path)) / "renamed"
    new.mkdir()
    git("init", "-q", cwd=new)
    git("commit", "-q", "--allow-empty", "-m", "start", cwd=new)
    command = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.check_output(command, cwd=new, text=True).strip()

    found = projects_of(
        tmp_path,
        recorded("/gone/old", "a", f"[main (root-commit) {commit}] start\n"),
        recorded(str(new), "b"),
        recorded("/gone/x", "c", "[main (root-commit) 0000000] other\n"),
    )

    assert found == {str(new): {"/gone/old"}, "/gone/x": set()}


@pytest.mark.req("GO2")
def test_worktrees_named_in_records_belong_to_their_repository(tmp_path: Path) -> None:
    state = {"originalCwd": "/gone/shop", "worktreePath": "/trees/fix"}
    entered = meta("worktree-state", worktreeSession=state)

    found = projects_of(
        tmp_path,
        [*recorded("/trees/fix", "a"), entered],
        recorded("/trees/fix/api", "b"),
        recorded("/trees/fix", "c"),
    )

    assert found == {"/gone/shop": {"/trees/fix"}, "/gone/shop/api": {"/trees/fix/api"}}


def test_directory_in_a_clone_is_a_project_of_its_own() -> None:
    clues = [RepositoryClue("/src/app", ClueKind.REMOTE, "github.com/ann/app")]

    inferred = infer_repositories(clues, ["/src/app/web", "/src/other"])

    facts = RepositoryFacts("github.com/ann/app", "web")
    assert inferred.facts == {"/src/app/web": facts}
    assert ProjectDirectories(inferred=inferred).facts("/src/app/web") == facts


def test_fork_and_its_origin_are_one_repository() -> None:
    remotes = ("github.com/ann/app", "github.com/up/app")
    clues = [RepositoryClue("/a/app", ClueKind.REMOTE, name) for name in remotes]
    clues += [RepositoryClue("/b/app", ClueKind.REMOTE, "github.com/up/app")]

    inferred = infer_repositories(clues, ["/a/app", "/b/app"])

    facts = {"/disk": RepositoryFacts("github.com/up/app")}
    directories = ProjectDirectories(facts, inferred=inferred)
    assert directories.paths("/b/app") == ("/disk", "/a/app", "/b/app")


@pytest.mark.parametrize(
    ("output", "found"),
    [
        ("To C:\\repo\n -> ", None),
        ("To /tmp/x.git\n * [new branch] main -> main\n", None),
        ("To https://[bad/x.git\n main -> main\n", None),
        ("we go To github.com:a/b.git\n main -> main", None),
        ("To ssh://git@Host.x:22/a/b.git\r\n main -> main", GitOutput(("host.x/a/b",))),
        (
            f"Initialized empty Git repository in /w/é x/.git/\n{ROOT}",
            GitOutput((), "1a2b3c4", "/w/é x"),
        ),
    ],
)
def test_output_of_git_is_read_with_care(output: str, found: GitOutput | None) -> None:
    assert find_git_output(Raw(msgspec.json.encode(output))) == found
