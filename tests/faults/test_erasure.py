"""Purging: after ``bygones purge`` no byte of a session is left anywhere.

Canaries are planted wherever a session leaves bytes: in its files, in the archive and
its index, in annotations, in the last search results, in the status line. The home is
not purged; everything else below the user's folder is searched.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from bygones.cli.main import main
from bygones.store.archive_dir import ArchiveDir
from tests.build import (
    Home,
    image,
    jsonl,
    prompt,
    reply,
    session_id,
    summary,
    text,
    thinking,
    thread,
    title,
    tool_result,
    tool_use,
)
from tests.faults.mutations import Patch, delete_rows_only, leave_text_index
from tests.faults.sizes import reached, seeded, sized
from tests.faults.traces import iter_contents

ROUNDS = sized(3, 60, 400)
ONE, OTHER = session_id(1), session_id(2)
CANARIES = 10


class UserFolder:
    """A user's folder with a growing home, and an archive of it."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.random = Random(seeded(seed))  # noqa: S311 (the same every time)
        self.home = Home(folder / ".claude")
        self.canaries = [
            f"canary{self.random.randbytes(12).hex()}" for _ in range(CANARIES)
        ]
        self._count = 0

    def next_canary(self) -> str:
        """Return the next canary, with random text."""
        self._count += 1
        filler = self.random.randbytes(self.random.choice([0, 40, 3000])).hex()
        return f"{self.canaries[self._count % CANARIES]} {filler}"

    def grow(self) -> None:
        """Append to both sessions, in some of the places where text can occur."""
        places: list[Callable[[], object]] = [
            lambda: self.append(prompt(self.next_canary())),
            lambda: self.append(
                reply([thinking(self.next_canary()), text(self.next_canary())])
            ),
            lambda: self.append(reply([tool_use("Bash", command=self.next_canary())])),
            lambda: self.append(tool_result("toolu_1", self.next_canary())),
            lambda: self.append(
                summary(self.next_canary(), "x"), title(self.next_canary())
            ),
            lambda: self.append(prompt([image(self.next_canary())])),
            lambda: self.home.tool_result(
                ONE, f"{self._count}.txt", self.next_canary()
            ),
            lambda: self.home.backup(
                ONE, f"{self._count:016}@v1", self.next_canary().encode()
            ),
            lambda: self.home.agent(
                ONE,
                f"abc{self._count:04}",
                [prompt(self.next_canary())],
                meta={"x": self.next_canary()},
            ),
            self.rewrite,
            self.leave_unfinished,
        ]
        for write in self.random.sample(places, self.random.randint(3, len(places))):
            write()
        self.append(prompt(f"stays {self._count}"), session=OTHER)

    def path(self, session: str = ONE) -> Path:
        path = self.home.path / "projects" / "-work-demo" / f"{session}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def append(self, *records: dict[str, object], session: str = ONE) -> None:
        with self.path(session).open("ab") as file:
            file.write(jsonl(one | {"sessionId": session} for one in thread(*records)))

    def rewrite(self) -> None:
        """Rewrite the file; its content becomes an older generation."""
        self.path().write_bytes(b"")
        self.append(prompt(self.next_canary()))

    def leave_unfinished(self) -> None:
        with self.path().open("ab") as file:
            file.write(b'{"type":"user","half":"' + self.next_canary().encode() + b"\n")
            file.write(b'{"type":"user","half":"' + self.next_canary().encode())

    def find_canaries(self) -> list[tuple[str, str]]:
        """Return the canaries that exist outside the home, and their files."""
        return sorted(
            {
                (canary, name)
                for top in self.folder.iterdir()
                if top != self.home.path
                for name, found in iter_contents(top)
                for canary in self.canaries
                if canary.encode() in found
            }
        )


@pytest.fixture
def user(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> UserFolder:
    for name in ("DATA", "CONFIG", "STATE", "CACHE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / ".claude"))
    monkeypatch.setenv("BYGONES_ARCHIVE", str(tmp_path / "data" / "archive"))
    monkeypatch.chdir(tmp_path)
    return UserFolder(tmp_path, getattr(request, "param", 0))


def use_everything(user: UserFolder) -> None:
    """Use everything that stores text: archive, index, notes, search, status line."""
    for _ in range(user.random.randint(1, 3)):
        user.grow()
        assert main(["ingest", "-q"]) == 0
    user.append(title(user.canaries[0], custom=True))
    same = thread(prompt(user.canaries[0]), reply("stays too"))
    user.append(*same, session=session_id(3))
    assert main(["ingest", "-q"]) == 0
    assert main(["note", ONE, user.canaries[1]]) == 0
    assert main(["tag", ONE, user.canaries[2]]) == 0
    assert main(["search", user.canaries[0]]) == 0
    about = json.dumps({"cwd": "/work/demo", "session_id": session_id(3)})
    assert main(["statusline", "--now", about]) == 0


def assert_erased(user: UserFolder) -> None:
    """Purge a session, and search for its canaries everywhere."""
    with ArchiveDir(user.folder / "data" / "archive") as reader:
        assert reader.index is not None
        assert main(["purge", ONE, session_id(3), "--yes"]) == 0
    assert user.find_canaries() == []
    assert main(["ingest", "-q"]) == 0
    assert user.find_canaries() == []


@pytest.mark.parametrize("user", range(ROUNDS), indirect=True)
def test_after_a_purge_no_canary_is_left(user: UserFolder) -> None:
    use_everything(user)
    assert {canary for canary, _ in user.find_canaries()} >= set(user.canaries[:3])

    assert_erased(user)

    assert main(["verify", "--deep"]) == 0
    assert main(["list", OTHER]) == 0
    reached("marked texts purged, none found afterwards", CANARIES)


@pytest.mark.parametrize("mutation", [delete_rows_only, leave_text_index])
@pytest.mark.full
def test_an_archive_that_only_forgets_is_caught(
    mutation: Callable[[Patch], None], user: UserFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutation(monkeypatch.setattr)
    use_everything(user)

    with pytest.raises(AssertionError):
        assert_erased(user)
    assert user.find_canaries()
