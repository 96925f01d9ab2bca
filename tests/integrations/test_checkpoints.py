"""The hooks that store what shell commands change, run as Claude Code runs them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path

import pytest

from bygones.archive import Archive
from bygones.files.origins import Certainty, OriginKind
from bygones.files.replay import VersionKind
from bygones.integrations import claude_code
from bygones.model.base import SessionId
from tests.build import Home, moment, session_id
from tests.files.story import Story
from tests.mcp.client import ToolClient

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs sh")
SCRIPT = Path(claude_code.__file__).with_name("checkpoint.sh")


class Workbench:
    """A repository in which a session runs commands, with our hooks around them."""

    def __init__(self, folder: Path, *, is_repository: bool = True) -> None:
        self.root = folder / "project"
        self.root.mkdir()
        self.home = Home(folder / ".claude")
        self.story = Story(session_id(1))
        self.story.step = 0.001
        self.environ = os.environ | {
            "HOME": str(folder),
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
        }
        if is_repository:
            self.git("init", "-q")

    def git(self, *arguments: str) -> None:
        options = ("-c", "user.name=a", "-c", "user.email=a@b.c")
        subprocess.run(
            ["git", *options, *arguments], cwd=self.root, env=self.environ, check=True
        )

    def write(self, name: str, text: str) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        return path

    def hook(self, event: str, tool: str, call: str, **given: object) -> None:
        transcript = self.home.path / "projects" / "key" / f"{self.story.session}.jsonl"
        fields = {
            "session_id": self.story.session,
            "transcript_path": str(transcript),
            "cwd": str(self.root),
            "hook_event_name": "PreToolUse" if event == "pre" else "PostToolUse",
            "tool_name": tool,
            "tool_input": given,
            "tool_use_id": call,
        }
        if event == "post":
            fields["tool_response"] = {"stdout": 'x" \\ \n' * 9_000}
        done = subprocess.run(
            ["sh", str(SCRIPT), event, sys.executable],
            input=json.dumps(fields, separators=(",", ":")).encode(),
            env=self.environ,
            capture_output=True,
            check=False,
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")

    def now(self) -> None:
        """Let the clock of the transcript agree with that of the hooks."""
        start = datetime.fromisoformat(moment(0))
        self.story.seconds = time.time() - start.timestamp()

    def bash(self, command: str) -> None:
        """Run a command as Claude does, with hooks around it; record no patch of it."""
        call = f"toolu_{len(self.story.records)}"
        self.hook("pre", "Bash", call, command=command)
        time.sleep(0.02)  # longer than a tick of the file system's clock
        subprocess.run(
            ["sh", "-c", command], cwd=self.root, env=self.environ, check=True
        )
        self.hook("post", "Bash", call, command=command)
        self.now()
        self.story.bash(command)

    def log(self) -> list[dict[str, object]]:
        folder = self.home.path / "bygones-checkpoints" / self.story.session
        path = folder / "log.jsonl"
        lines = path.read_text("utf-8").splitlines() if path.exists() else []
        return [json.loads(line) for line in lines]

    def ingest(self, folder: Path) -> Path:
        for record in self.story.records:
            record["cwd"] = str(self.root)
        self.story.write_to(self.home)
        Archive.ingest(folder, [self.home.path])
        return folder


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    return Workbench(tmp_path)


def test_changes_of_a_command_are_stored_and_used(
    bench: Workbench, tmp_path: Path
) -> None:
    path = bench.write("app.py", "one\ntwo\nthree\n")
    bench.git("add", ".")
    bench.git("commit", "-qm", "x")
    bench.story.say("Change it")
    bench.now()
    bench.story.read("one\ntwo\nthree\n", path=str(path))
    bench.bash("ls")
    assert bench.log() == []
    bench.bash("python3 -c \"open('app.py','w').write('one\\n2\\nthree\\n')\"")
    bench.story.edit("one", "1", None, path=str(path))
    path.write_text("1\n2\nthree\n", "utf-8")
    path.write_text("1\n2\nthree\nmine\n", "utf-8")  # you, in between
    bench.now()
    bench.story.say("More")
    bench.bash("sed -i s/three/3/ app.py")

    folder = bench.ingest(tmp_path / "archive")

    with Archive.open(folder) as archive:
        file = archive.file(str(path))
        assert file.text() == "1\n2\n3\nmine\n"
        # The result of the command is recorded after the hook, and raises no doubt.
        assert file.history.last.is_certain
        origins = [(line, o.kind, o.certainty) for line, o in file.blame()]
        kinds = [version.kind for version in file.versions]
    assert origins == [
        ("1", OriginKind.CLAUDE, Certainty.CERTAIN),
        ("2", OriginKind.COMMAND, Certainty.CERTAIN),
        ("3", OriginKind.COMMAND, Certainty.CERTAIN),
        ("mine", OriginKind.USER, Certainty.LIKELY),
    ]
    assert kinds.count(VersionKind.COMMAND) == 2


def test_a_file_that_only_a_checkpoint_shows_is_listed_before_it_was_created(
    bench: Workbench, tmp_path: Path
) -> None:
    bench.story.say("Look")
    bench.bash("ls")
    bench.story.say("Create")
    bench.bash("echo x > new.txt")

    with Archive.open(bench.ingest(tmp_path / "archive")) as archive:
        session = SessionId(bench.story.session)
        files = archive.file_library.files_at(session, 1, is_before=True)
    assert [(Path(f.path).name, f.exists) for f in files] == [("new.txt", False)]


def test_what_git_had_of_an_unchanged_file_is_the_content_before(
    bench: Workbench,
) -> None:
    bench.write("a.py", "a\nb\n")
    bench.write("gone.py", "x\n")
    bench.git("add", ".")
    bench.git("commit", "-qm", "x")

    bench.bash("sed -i s/a/A/ a.py; rm gone.py; mkdir d; echo new > d/new.py")

    (checkpoint,) = bench.log()
    files = {Path(str(f["path"])).name: f for f in checkpoint["files"]}  # type: ignore[attr-defined]
    folder = bench.home.path / "bygones-checkpoints" / bench.story.session
    assert (folder / files["a.py"]["before"]).read_text() == "a\nb\n"
    assert (folder / files["a.py"]["hash"]).read_text() == "A\nb\n"
    assert files["new.py"]["before"] == ""
    assert files["gone.py"]["hash"] == ""
    assert (folder / files["gone.py"]["before"]).read_text() == "x\n"
    assert (folder / "log.jsonl").stat().st_mode & 0o077 == 0


def test_contents_are_bounded_and_stored_once(bench: Workbench) -> None:
    bench.bash(
        "printf 'a\\0b' > binary; head -c 2000000 /dev/zero | tr '\\0' x > large"
    )
    bench.bash("echo same > one; echo same > two; ln -s /etc/passwd link; mkfifo pipe")

    first, second = bench.log()
    assert [f["hash"] for f in first["files"]] == [None, None]  # type: ignore[attr-defined]
    assert len({f["hash"] for f in second["files"]}) == 1  # type: ignore[attr-defined]
    folder = bench.home.path / "bygones-checkpoints" / bench.story.session
    stored = [p for p in folder.iterdir() if len(p.name) == 64]
    assert len(stored) == 1


def test_files_that_claude_edited_are_watched_without_a_repository(
    tmp_path: Path,
) -> None:
    bench = Workbench(tmp_path, is_repository=False)
    path = bench.write("a.py", "a\n")
    bench.write("other.py", "o\n")
    bench.hook("post", "Edit", "toolu_e", file_path=str(path), old_string="b")

    bench.bash("true")
    bench.bash("echo c > a.py; echo c > other.py")

    seen, changed = bench.log()
    assert [f["during"] for f in seen["files"]] == [False]  # type: ignore[attr-defined]
    assert [f["path"] for f in changed["files"]] == [str(path)]  # type: ignore[attr-defined]


def test_a_repository_that_contains_the_home_directory_is_left_out(
    tmp_path: Path,
) -> None:
    bench = Workbench(tmp_path, is_repository=False)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)

    bench.bash("echo private > secret.txt")

    assert bench.log() == []


@pytest.mark.parametrize(
    "raw", [b"", b"{", b'{"session_id":"../x","transcript_path":"/a/projects/b"}']
)
def test_odd_input_is_ignored(raw: bytes, bench: Workbench) -> None:
    done = subprocess.run(
        ["sh", str(SCRIPT), "post", sys.executable],
        input=raw,
        env=bench.environ,
        capture_output=True,
        check=False,
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert not (bench.home.path / "bygones-checkpoints").exists()


@pytest.mark.req("FV6")
def test_purging_a_session_erases_its_checkpoints(
    bench: Workbench, tmp_path: Path
) -> None:
    bench.story.say("Do it")
    bench.bash("echo unusual-secret-content > a.txt")
    folder = bench.ingest(tmp_path / "archive")
    with Archive.open(folder) as archive:
        ids = [archive.session_summary(bench.story.session).id]
        own = [s for s in archive.sources(sessions=ids) if s.kind == "checkpoint"]
        assert len(own) == 2
        archive.purge(archive.sources(sessions=ids), sessions=ids)

    raw = b"".join(p.read_bytes() for p in folder.rglob("*") if p.is_file())
    assert b"unusual-secret-content" not in raw
    with Archive.open(folder) as archive:
        assert archive.sources() == []


@pytest.mark.req("FV6")
def test_files_that_only_checkpoints_know_are_listed_and_have_a_history(
    bench: Workbench, tmp_path: Path
) -> None:
    bench.story.say("Make it")
    bench.now()
    bench.bash("printf 'one\\ntwo\\n' > made.txt")
    fork = str(bench.story.records[-1]["uuid"])
    bench.story.say("Try")
    bench.bash("echo tried > tried.txt")
    bench.story.rewind(fork)
    bench.story.say("Again")
    bench.bash("rm tried.txt; echo three >> made.txt")
    path = str(bench.root / "made.txt")

    folder = bench.ingest(tmp_path / "archive")

    with Archive.open(folder) as archive:
        edits = archive.edits(session=bench.story.session)
        found = [(Path(e.path).name, e.branch_number, e.is_deleted) for e in edits]
        assert found == [
            ("made.txt", 0, False),
            ("tried.txt", 1, False),
            ("made.txt", 0, False),
            ("tried.txt", 0, True),
        ]
        assert [e.path for e in archive.edits(path="made.txt")] == [path] * 2
        assert archive.file("made.txt").text() == "one\ntwo\nthree\n"
        blame = archive.file_library.blame(Path(path))
        kinds = [(line.origin.kind, line.origin.certainty) for line in blame.lines]
        assert kinds == [(OriginKind.COMMAND, Certainty.CERTAIN)] * 3
        assert archive.file("tried.txt").text() is None


@pytest.mark.req("FV6")
def test_secrets_in_checkpoints_are_masked_for_agents(
    bench: Workbench, tmp_path: Path
) -> None:
    secret = "ghp_" + "a1B2" * 9
    bench.story.say("Make it")
    bench.now()
    bench.bash(f"echo token={secret} > .env")
    path, session = str(bench.root / ".env"), bench.story.session
    bench.ingest(tmp_path / "archive")
    client = ToolClient(tmp_path)

    for answer in (
        client.ask("file_at", path=path, session=session),
        client.ask("blame", path=path, line=1),
    ):
        assert "token=" in answer or "line 1 · command" in answer
        assert secret not in answer
