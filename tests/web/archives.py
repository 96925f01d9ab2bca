"""An archive with sessions of every kind, and the time at which it is viewed."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from bygones.archive import Archive
from tests.build import (
    Home,
    meta,
    prompt,
    reply,
    session_id,
    text,
    thinking,
    thread,
    title,
    tool_result,
    tool_use,
)

__all__ = [
    "AGENT",
    "EDITED",
    "EDITED_PATH",
    "LONG",
    "LONG_TURNS",
    "LOUD",
    "PLAIN",
    "REWOUND",
    "WebArchive",
    "build_archive",
]

PLAIN, LONG, REWOUND, AGENT, EDITED, LOUD = map(session_id, range(1, 7))
EDITED_PATH = "/work/demo/words.txt"
LONG_TURNS = 60


class WebArchive(NamedTuple):
    """A home, its archive, and the time at which it is viewed."""

    home: Home
    folder: Path
    now: datetime = datetime(2026, 1, 5, 12, tzinfo=UTC)


def build_archive(place: Path) -> WebArchive:
    """Return an archive with a plain, a long, a rewound session and one with agents."""
    home = Home(place / ".claude")
    home.session(
        PLAIN,
        [
            *thread(
                prompt("Please count the lines"),
                reply([thinking("Counting"), text("Let me *look*.")]),
                reply([tool_use("Bash", command="wc -l")]),
                tool_result("toolu_1", "3"),
                reply("Three lines."),
            ),
            title("Counting lines", custom=True),
        ],
    )
    turns = []
    for number in range(LONG_TURNS):
        query = prompt(f"Question number {number}", cwd="/work/other")
        turns += [query, reply(f"Answer {number}", cwd="/work/other")]
    home.session(LONG, thread(*turns, start=60), project="-work-other")
    forked = thread(prompt("First way", uuid="p1"), reply("One", uuid="r1"), start=120)
    other = thread(prompt("Second way", uuid="p2"), reply("Two", uuid="r2"), start=130)
    home.session(REWOUND, [*forked, *other])
    home.session(
        AGENT,
        thread(
            prompt("Have a look around"),
            reply([tool_use("Task", id="toolu_9", description="Explore")]),
            tool_result("toolu_9", "Found it", toolUseResult={"agentId": "a1"}),
            reply("Done."),
            start=180,
        ),
    )
    change = {"old_string": "old words", "new_string": "new words"}
    edited = thread(
        prompt("Change the words"),
        reply([tool_use("Edit", id="toolu_5", file_path=EDITED_PATH, **change)]),
        tool_result("toolu_5", "done"),
        meta("odd-new-kind", sessionId=EDITED),
        start=240,
    )
    path = home.session(EDITED, edited)
    with path.open("ab") as file:
        file.write(b"not json at all\n")
    _add_loud(home)
    home.agent(AGENT, "a1", thread(prompt("Look around"), reply("Nothing odd.")))
    folder = place / "archive"
    Archive.ingest(folder, [home.path])
    return WebArchive(home, folder)


def _add_loud(home: Home) -> None:
    """Add a session with a long output and a long change."""
    much = "\n".join(f"line {number} of many" for number in range(10_000))
    changed = "\n".join(f"new {number} words" for number in range(1_000))
    home.session(
        LOUD,
        thread(
            prompt("Show me everything", cwd="/work/other"),
            reply(
                [
                    tool_use("Bash", id="toolu_6", command="cat all"),
                    tool_use("Write", id="toolu_7", file_path="/x", content=changed),
                ]
            ),
            tool_result("toolu_6", much),
            tool_result("toolu_7", "done"),
            start=300,
        ),
        project="-work-other",
    )
