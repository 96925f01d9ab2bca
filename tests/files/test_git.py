"""Repositories of others are read without running what they configure."""

from __future__ import annotations

import os
from pathlib import Path
from time import monotonic

import pytest

from bygones.files.checkout import check_out_folder
from bygones.files.copies import plan_copies, write_copies
from bygones.files.git import find_repository
from bygones.files.history import FileAt
from bygones.files.paths import belongs_to_git
from tests.files.test_git_blame import Workshop


def test_git_runs_nothing_that_a_repository_configures(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path, 1)
    workshop.path.write_text("a\n", "utf-8")
    (workshop.root / ".gitattributes").write_text(
        "*.py diff=evil filter=evil\n", "utf-8"
    )
    workshop.commit()
    mark = tmp_path / "executed"
    names = (
        *("core.fsmonitor", "diff.external", "diff.evil.textconv"),
        *("filter.evil.clean", "filter.evil.smudge", "filter.evil.process"),
    )
    for name in names:
        workshop.git("config", name, f"touch {mark}; cat")
    workshop.git("config", "filter.evil.required", "true")
    workshop.path.write_text("a\nb\n", "utf-8")
    repository = find_repository(workshop.path)
    assert repository is not None

    assert len(repository.blame(workshop.path)) == 2
    assert repository.added_lines("HEAD") != {}
    assert repository.run("worktree", "add", "--detach", str(tmp_path / "tree"), "HEAD")
    assert not mark.exists()


@pytest.mark.parametrize("url", ["ext::sh -c touch% {mark}", "ssh://a/b"])
def test_git_does_not_complete_a_partial_clone(tmp_path: Path, url: str) -> None:
    workshop = Workshop(tmp_path, 1)
    workshop.path.write_text("a\n", "utf-8")
    workshop.commit()
    mark = tmp_path / "executed"
    blob = workshop.git("rev-parse", "HEAD:src/app.py").strip()
    (workshop.root / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    settings = {
        "core.repositoryFormatVersion": "1",
        "core.sshCommand": f"touch {mark};",
        "extensions.partialClone": "origin",
        "protocol.ext.allow": "always",
        "protocol.ssh.allow": "always",
        "remote.origin.promisor": "true",
        "remote.origin.url": url.format(mark=mark),
    }
    for name, value in settings.items():
        workshop.git("config", name, value)
    repository = find_repository(workshop.path)
    assert repository is not None

    assert repository.show_file("HEAD", "src/app.py") is None
    repository.blame(workshop.path)
    assert not mark.exists()


def test_filters_of_the_user_stay_in_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "user").mkdir()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "user"))
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    workshop = Workshop(tmp_path, 1)
    mark = tmp_path / "executed"
    own = f'[filter "own"]\n\tclean = "touch {mark}; cat"\n'
    (tmp_path / "user" / ".gitconfig").write_text(own, "utf-8")
    workshop.path.write_text("a\n", "utf-8")
    workshop.commit()
    (workshop.root / ".gitattributes").write_text("*.py filter=own\n", "utf-8")
    workshop.git("config", "filter.own.clean", "false")
    workshop.path.write_text("a\nb\n", "utf-8")
    repository = find_repository(workshop.path)
    assert repository is not None

    assert len(repository.blame(workshop.path)) == 2
    assert mark.exists()


@pytest.mark.parametrize(
    "name", ["blame.ignoreRevsFile", "mailmap.file", "diff.orderFile"]
)
def test_git_reads_no_endless_file(tmp_path: Path, name: str) -> None:
    workshop = Workshop(tmp_path, 1)
    workshop.path.write_text("a\n", "utf-8")
    workshop.commit()
    os.mkfifo(workshop.root / "pipe")
    workshop.git("config", name, str(workshop.root / "pipe"))
    repository = find_repository(workshop.path)
    assert repository is not None
    start = monotonic()

    repository.blame(workshop.path)
    assert repository.added_lines("HEAD") != {}
    assert monotonic() - start < 10


HOSTILE_NAMES = (
    ".git",
    ".git/config",
    "sub/.git/hooks/post-checkout",
    ".GIT/config",
    "git~1/config",
    "sub/.git./config",
)


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_nothing_is_written_where_git_looks_for_settings(
    tmp_path: Path, name: str
) -> None:
    file = FileAt(path=f"/srv/app/{name}", text="[core]\n", version=None)

    (copy,) = plan_copies([file], tmp_path / "copies", "/srv/app")
    write_copies([copy])
    checkout = check_out_folder([file], "/srv/app", tmp_path / "checkout")

    assert not belongs_to_git("/".join(copy.parts))
    assert "dot-git" in copy.parts
    assert checkout.written == ()
    assert checkout.outside == (file.path,)


@pytest.mark.parametrize("name", [".gitignore", ".github/a.yml", "a.git/b", "git/c"])
def test_other_names_are_written(tmp_path: Path, name: str) -> None:
    file = FileAt(path=f"/srv/app/{name}", text="a\n", version=None)

    checkout = check_out_folder([file], "/srv/app", tmp_path / "checkout")

    assert checkout.written == (name,)
    assert (tmp_path / "checkout" / name).read_text("utf-8") == "a\n"
