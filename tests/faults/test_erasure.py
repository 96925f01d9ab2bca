"""Erased for good: after ``bygones purge`` no byte of it is left anywhere.

Canaries are planted wherever a session leaves bytes: in its files, in the archive and
its index, in annotations, in what was found last, in the status line. The home is not
ours to erase; everything else below the user's folder is looked through.
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
from tests.faults.traces import pieces

ROUNDS = sized(3, 60, 400)
ONE, OTHER = session_id(1), session_id(2)
CANARIES = 10


class Place:
    """A user with a home that grows, and an archive of it."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.random = Random(seeded(seed))  # noqa: S311 (the same every time)
        self.home = Home(folder / ".claude")
        self.birds = [
            f"canary{self.random.randbytes(12).hex()}" for _ in range(CANARIES)
        ]
        self._at = 0

    def bird(self) -> str:
        """Return the next canary, in words that differ."""
        self._at += 1
        filler = self.random.randbytes(self.random.choice([0, 40, 3000])).hex()
        return f"{self.birds[self._at % CANARIES]} {filler}"

    def grow(self) -> None:
        """Write more of both sessions, in some of the places where text can stand."""
        places: list[Callable[[], object]] = [
            lambda: self.say(prompt(self.bird())),
            lambda: self.say(reply([thinking(self.bird()), text(self.bird())])),
            lambda: self.say(reply([tool_use("Bash", command=self.bird())])),
            lambda: self.say(tool_result("toolu_1", self.bird())),
            lambda: self.say(summary(self.bird(), "x"), title(self.bird())),
            lambda: self.say(prompt([image(self.bird())])),
            lambda: self.home.tool_result(ONE, f"{self._at}.txt", self.bird()),
            lambda: self.home.backup(ONE, f"{self._at:016}@v1", self.bird().encode()),
            lambda: self.home.agent(
                ONE, f"abc{self._at:04}", [prompt(self.bird())], meta={"x": self.bird()}
            ),
            self.rewrite,
            self.leave_unfinished,
        ]
        for place in self.random.sample(places, self.random.randint(3, len(places))):
            place()
        self.say(prompt(f"stays {self._at}"), session=OTHER)

    def path(self, session: str = ONE) -> Path:
        path = self.home.path / "projects" / "-work-demo" / f"{session}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def say(self, *records: dict[str, object], session: str = ONE) -> None:
        with self.path(session).open("ab") as file:
            file.write(jsonl(one | {"sessionId": session} for one in thread(*records)))

    def rewrite(self) -> None:
        """Rewrite the file; its content becomes an older generation."""
        self.path().write_bytes(b"")
        self.say(prompt(self.bird()))

    def leave_unfinished(self) -> None:
        with self.path().open("ab") as file:
            file.write(b'{"type":"user","half":"' + self.bird().encode() + b"\n")
            file.write(b'{"type":"user","half":"' + self.bird().encode())

    def left(self) -> list[tuple[str, str]]:
        """Return where canaries still are, outside of the home."""
        return sorted(
            {
                (bird, name)
                for top in self.folder.iterdir()
                if top != self.home.path
                for name, found in pieces(top)
                for bird in self.birds
                if bird.encode() in found
            }
        )


@pytest.fixture
def place(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Place:
    for name in ("DATA", "CONFIG", "STATE", "CACHE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / ".claude"))
    monkeypatch.setenv("BYGONES_ARCHIVE", str(tmp_path / "data" / "archive"))
    monkeypatch.chdir(tmp_path)
    return Place(tmp_path, getattr(request, "param", 0))


def live(place: Place) -> None:
    """Use all that leaves something behind: archive, index, notes, finds, lines."""
    for _ in range(place.random.randint(1, 3)):
        place.grow()
        assert main(["ingest", "-q"]) == 0
    place.say(title(place.birds[0], custom=True))
    same = thread(prompt(place.birds[0]), reply("stays too"))
    place.say(*same, session=session_id(3))
    assert main(["ingest", "-q"]) == 0
    assert main(["note", ONE, place.birds[1]]) == 0
    assert main(["tag", ONE, place.birds[2]]) == 0
    assert main(["search", place.birds[0]]) == 0
    about = json.dumps({"cwd": "/work/demo", "session_id": session_id(3)})
    assert main(["statusline", "--now", about]) == 0


def assert_erased(place: Place) -> None:
    """Purge a session, and look for it everywhere."""
    with ArchiveDir(place.folder / "data" / "archive") as reader:
        assert reader.index is not None
        assert main(["purge", ONE, session_id(3), "--yes"]) == 0
    assert place.left() == []
    assert main(["ingest", "-q"]) == 0
    assert place.left() == []


@pytest.mark.parametrize("place", range(ROUNDS), indirect=True)
def test_after_a_purge_no_canary_is_left(place: Place) -> None:
    live(place)
    assert {bird for bird, _ in place.left()} >= set(place.birds[:3])

    assert_erased(place)

    assert main(["verify", "--deep"]) == 0
    assert main(["list", OTHER]) == 0
    reached("marked texts purged, none found afterwards", CANARIES)


@pytest.mark.parametrize("mutation", [delete_rows_only, leave_text_index])
@pytest.mark.full
def test_an_archive_that_only_forgets_is_caught(
    mutation: Callable[[Patch], None], place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutation(monkeypatch.setattr)
    live(place)

    with pytest.raises(AssertionError):
        assert_erased(place)
    assert place.left()
