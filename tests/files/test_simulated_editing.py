"""Random editing of one file by several sessions, users and commands, with a known truth.

The simulation shares no code with the product: it keeps the lines of a file with their
authors, and writes what Claude Code would have recorded. Every line is unique, so there
is only one right answer.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import NamedTuple

import pytest

from bygones.files.history import BranchLog, FileHistory
from bygones.files.library import ArchivedFile
from bygones.files.origins import Certainty, OriginKind
from bygones.files.paths import path_key
from bygones.model.base import SessionId
from bygones.model.sessions import Session
from bygones.reader import read_sessions
from tests.build import CWD, Home, session_id
from tests.files.story import FILE, Story, hunks

CLAUDE, USER, COMMAND, BEFORE = "claude", "user", "command", "before"
RENAMED = f"{CWD}/b ä.py"
WORDS = (
    "value",
    "naïve",
    "名前",
    "→",
    "tab\there",
    "'quoted'",
    "a  b",
    "\\n",
    "%s",
    "🙂",
)


class Line(NamedTuple):
    """A line of the simulated file, and who wrote it."""

    text: str
    author: str
    place: tuple[str, int] | None = None
    """Session and turn."""


class Moment(NamedTuple):
    """What the file contained after a turn."""

    session: str
    turn: int
    path: str
    text: str | None
    is_seen: bool
    """Whether everything that was changed was seen since."""


class Simulation:
    """A file that several sessions change in turns."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311 (a simulation)
        self.count = 0
        self.has_final_newline = self.random.random() < 0.8
        self.lines: list[Line] | None = None
        self.path = FILE
        self.is_seen = True
        self.clock = 0.0
        count = self.random.choice((1, 2, 3))
        self.stories = [Story(session_id(n), f"s{n}_") for n in range(count)]
        self.turns = dict.fromkeys((story.session for story in self.stories), -1)
        self.moments: list[Moment] = []
        self.abandoned: set[str] = set()
        """Lines that only an abandoned branch wrote."""

    @property
    def text(self) -> str | None:
        if self.lines is None:
            return None
        end = "\n" if self.has_final_newline and self.lines else ""
        return "\n".join(line.text for line in self.lines) + end

    def new_line(self, author: str, place: tuple[str, int] | None = None) -> Line:
        self.count += 1
        word = self.random.choice(WORDS)
        indent = " " * self.random.choice((0, 0, 4, 8))
        return Line(f"{indent}{word} number {self.count} by {author}", author, place)

    def new_lines(
        self, author: str, place: tuple[str, int] | None = None
    ) -> list[Line]:
        return [self.new_line(author, place) for _ in range(self.random.randint(1, 5))]

    def run(self, steps: int) -> None:
        if self.random.random() < 0.5:
            self.lines = [self.new_line(BEFORE) for _ in range(12)]
        for _ in range(steps):
            self.play_turn(self.random.choice(self.stories))
        story = self.stories[-1]
        self.start_turn(story, "Look")
        if self.text is not None:
            story.read(self.text, self.path)
        self.end_turn(story)

    def start_turn(self, story: Story, words: str) -> tuple[str, int]:
        story.seconds = self.clock + 10
        self.turns[story.session] += 1
        story.say(f"{words} {self.turns[story.session]}")
        return story.session, self.turns[story.session]

    def end_turn(self, story: Story) -> None:
        self.clock = story.seconds
        turn = self.turns[story.session]
        self.moments.append(
            Moment(story.session, turn, self.path, self.text, self.is_seen)
        )

    def play_turn(self, story: Story) -> None:
        if self.random.random() < 0.15:
            self.edit_by_hand()
        if self.random.random() < 0.12 and self.turns[story.session] >= 0:
            self.abandon(story)
        place = self.start_turn(story, "Please change it")
        for _ in range(self.random.randint(1, 3)):
            self.act(story, place)
        self.end_turn(story)

    def act(self, story: Story, place: tuple[str, int]) -> None:
        if self.lines is None or self.random.random() < 0.08:
            self.write(story, place)
            return
        actions = [self.edit] * 6 + [
            self.multi_edit,
            self.replace_all,
            self.run_recorded_command,
            self.run_unrecorded_command,
            self.fail,
            self.look,
            self.rename,
            self.delete,
            self.empty,
        ]
        self.random.choice(actions)(story, place)

    def write(self, story: Story, place: tuple[str, int]) -> None:
        before = self.text
        kept = [line for line in self.lines or () if self.random.random() < 0.7]
        at = self.random.randint(0, len(kept))
        self.lines = [*kept[:at], *self.new_lines(CLAUDE, place), *kept[at:]]
        assert self.text is not None
        story.write(self.text, before, self.path)
        self.is_seen = True

    def choose_range(self) -> tuple[int, int]:
        assert self.lines
        start = self.random.randrange(len(self.lines))
        return start, min(start + self.random.randint(1, 3), len(self.lines))

    def known(self, text: str | None) -> str | None:
        """Return the original as it is recorded: newer versions leave it out."""
        return text if self.random.random() < 0.7 else None

    def edit(self, story: Story, place: tuple[str, int]) -> None:
        if not self.lines:
            return
        before = self.text
        start, stop = self.choose_range()
        old = "\n".join(line.text for line in self.lines[start:stop])
        added = self.new_lines(CLAUDE, place)
        new = "\n".join(line.text for line in added)
        self.lines[start:stop] = added
        patch = hunks(before or "", self.text or "")
        story.edit(old, new, self.known(before), self.path, structuredPatch=patch)

    def multi_edit(self, story: Story, place: tuple[str, int]) -> None:
        if not self.lines:
            return
        before = self.text
        edits = []
        for _ in range(self.random.randint(1, 3)):
            start, stop = self.choose_range()
            old = "\n".join(line.text for line in self.lines[start:stop])
            added = self.new_lines(CLAUDE, place)
            self.lines[start:stop] = added
            new = "\n".join(line.text for line in added)
            edits.append({"old_string": old, "new_string": new})
        outcome = {
            "filePath": self.path,
            "edits": edits,
            "originalFileContents": before,
            "structuredPatch": hunks(before or "", self.text or ""),
        }
        story.call("MultiEdit", outcome, file_path=self.path, edits=edits)

    def replace_all(self, story: Story, place: tuple[str, int]) -> None:
        if not self.lines:
            return
        before = self.text
        self.count += 1
        old, new = "number", f"NUMBER{self.count}"
        if not any(old in line.text for line in self.lines):
            return
        self.lines = [
            Line(line.text.replace(old, new), CLAUDE, place)
            if old in line.text
            else line
            for line in self.lines
        ]
        patch = hunks(before or "", self.text or "")
        story.edit(old, new, before, self.path, replaceAll=True, structuredPatch=patch)

    def change(self, author: str, place: tuple[str, int] | None = None) -> None:
        assert self.lines is not None
        at = self.random.randint(0, len(self.lines))
        stop = min(at + self.random.randint(0, 2), len(self.lines))
        self.lines[at:stop] = self.new_lines(author, place)

    def edit_by_hand(self) -> None:
        if self.lines is not None:
            self.change(USER)
            self.is_seen = False

    def run_recorded_command(self, story: Story, place: tuple[str, int]) -> None:
        before = self.text or ""
        if not before.endswith("\n"):
            return
        self.change(COMMAND, place)
        after = self.text or ""
        file = {"filePath": self.path, "hunks": hunks(before[:-1], after[:-1])}
        story.bash("./generate", [file])

    def run_unrecorded_command(self, story: Story, place: tuple[str, int]) -> None:
        self.change(COMMAND, place)
        story.bash(f"sed -i s/x/y/ {self.path}")

    def fail(self, story: Story, place: tuple[str, int]) -> None:
        line = self.new_line(CLAUDE, place)
        story.call("Write", is_error=True, file_path=self.path, content=line.text)

    def look(self, story: Story, _place: tuple[str, int]) -> None:
        story.read(self.text or "", self.path)
        self.is_seen = True

    def rename(self, story: Story, _place: tuple[str, int]) -> None:
        new = RENAMED if self.path == FILE else FILE
        story.bash(f'mv "{self.path}" "{new}"')
        self.path = new

    def delete(self, story: Story, _place: tuple[str, int]) -> None:
        self.lines = None
        gone = {"filePath": self.path, "hunks": [], "deleted": True}
        story.bash(f'rm "{self.path}"', [gone])

    def empty(self, story: Story, _place: tuple[str, int]) -> None:
        before, self.lines = self.text, []
        story.write("", before, self.path)

    def abandon(self, story: Story) -> None:
        """Play a turn, and go back to before it; the files are restored."""
        state = self.lines, self.path, self.is_seen, self.turns[story.session]
        parent = story.records[-1]["uuid"]
        lines = None if self.lines is None else list(self.lines)
        self.lines = lines
        known = {line.text for line in lines or ()}
        place = self.start_turn(story, "Try another way and")
        for _ in range(2):
            self.act(story, place)
            self.abandoned |= {line.text for line in self.lines or ()} - known
        self.clock = story.seconds
        self.lines, self.path, self.is_seen, self.turns[story.session] = state
        if self.lines is not None:
            self.lines = list(self.lines)
        story.rewind(str(parent))


class Library:
    """What an archived file needs of an archive."""

    def __init__(self, sessions: Sequence[Session]) -> None:
        self.sessions = {session.id: session for session in sessions}

    def sessions_of(self, _key: str) -> list[SessionId]:
        return list(self.sessions)

    def session_id(self, name: str) -> SessionId:
        return SessionId(name)

    def check_turn(self, session_id: SessionId, branch: int, turn: int | None) -> None:
        pass

    def log(
        self,
        session_id: SessionId,
        *,
        branch: int = 0,
        stop_turn: int | None = None,
        stop_time: float | None = None,
    ) -> BranchLog:
        session = self.sessions[session_id]
        return BranchLog(
            session, session.branches[branch], stop_turn=stop_turn, stop_time=stop_time
        )

    def read_transaction(self) -> nullcontext[None]:
        return nullcontext()

    def load_bases(self, _path: str, _time: object) -> Sequence[str]:
        return ()


def simulate(folder: Path, seed: int) -> tuple[Simulation, Library]:
    simulation = Simulation(seed)
    simulation.run(simulation.random.randint(2, 14))
    home = Home(folder / str(seed))
    for story in simulation.stories:
        if story.records:
            story.write_to(home)
    return simulation, Library(list(read_sessions(home.path)))


def check_moments(simulation: Simulation, library: Library) -> list[str]:
    """Return what is claimed to be certain and is wrong."""
    wrong = []
    for moment in simulation.moments:
        file = ArchivedFile(library, moment.path)  # type: ignore[arg-type]
        found = file.at(moment.session, moment.turn)
        if moment.is_seen and found.is_certain and found.text != moment.text:
            wrong.append(f"{moment.session[-4:]}:{moment.turn}")
    return wrong


def check_origins(simulation: Simulation, history: FileHistory) -> list[str]:
    """Return the lines with a wrong origin."""
    wrong = []
    for line, origin in zip(simulation.lines or (), history.origins(), strict=False):
        if origin.kind not in {OriginKind.CLAUDE, OriginKind.MODIFIED}:
            is_wrong = origin.kind is OriginKind.BEFORE and line.author == CLAUDE
            if is_wrong and origin.certainty is Certainty.CERTAIN:
                wrong.append(f"{line}: {origin.kind}")
            continue
        if origin.kind is OriginKind.MODIFIED and line.author in {USER, COMMAND}:
            continue  # it replaced a similar line
        place = origin.place
        claimed = (str(place.session_id), place.turn_number) if place else None
        if claimed != line.place or line.author != CLAUDE:
            wrong.append(f"{line}: {origin.kind} {origin.certainty} {claimed}")
    return wrong


@pytest.mark.parametrize(
    "seeds",
    [
        pytest.param(range(25), id="few"),
        pytest.param(range(1000, 1600), id="many", marks=pytest.mark.full),
    ],
)
def test_what_is_claimed_about_a_file_is_true(tmp_path: Path, seeds: range) -> None:
    wrong: dict[int, list[str]] = {}
    claimed = total = 0
    for seed in seeds:
        simulation, library = simulate(tmp_path, seed)
        found = check_moments(simulation, library)
        file = ArchivedFile(library, simulation.path)  # type: ignore[arg-type]
        assert path_key(file.path) == path_key(simulation.path)
        if simulation.text is not None:
            history = file.history
            if history.text() != simulation.text:
                found.append("last text")
            else:
                found += check_origins(simulation, history)
                origins = history.origins()[: len(simulation.lines or ())]
                total += len(origins)
                claimed += sum(one.kind is OriginKind.CLAUDE for one in origins)
        if found:
            wrong[seed] = found
    assert wrong == {}
    assert claimed > total / 3
