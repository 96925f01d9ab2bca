"""Blame of a file with 1,000 edits in 50 sessions, in an archive that contains much else.

    python -m benchmarks.bench_blame ARCHIVE [HOME]

Imports the home, if there is one, and the sessions into the archive, and measures CPU
time of `bygones blame`, of the same in a running process, and of the page of the file.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from urllib.parse import urlencode

from starlette.requests import Request

from bygones.archive import Archive
from bygones.web.context import AppState, RequestContext
from bygones.web.live import EventBroadcaster
from bygones.web.pages.file_versions import file_page
from bygones.web.pool import ArchivePool
from tests.build import Home, session_id
from tests.files.story import Story

SESSIONS = 50
EDITS = 20
LINES = 600
ROUNDS = 5


def write_home(folder: Path, path: Path) -> Path:
    """Write the transcripts and the file, and return the home."""
    home = Home(folder)
    text = "".join(f"value_{number} = {number}  # a line\n" for number in range(LINES))
    for session in range(SESSIONS):
        story = Story(session_id(session), name=f"b{session}_")
        story.seconds = session * 86_400
        for edit in range(EDITS):
            number = (session * 37 + edit * 11) % LINES
            story.say(f"Change value {number}")
            old = text.split("\n")[number]
            new = f"value_{number} = {session}  # edit {session}.{edit}"
            patch = {
                "oldStart": number + 1,
                "oldLines": 1,
                "newStart": number + 1,
                "newLines": 1,
                "lines": [f"-{old}", f"+{new}"],
            }
            outcome = {
                "filePath": str(path),
                "oldString": old,
                "newString": new,
                "originalFile": text,
                "structuredPatch": [patch],
            }
            story.call(
                "Edit", outcome, file_path=str(path), old_string=old, new_string=new
            )
            text = text.replace(old, new)
        story.write_to(home)
    path.write_text(text, "utf-8")
    return home.path


def measure(name: str, action: Callable[[], object], *, in_child: bool = False) -> None:
    """Print the median CPU time of an action, and that of its first run."""
    times = []
    for _ in range(ROUNDS):
        child, own = getrusage(RUSAGE_CHILDREN), time.process_time()
        action()
        after = getrusage(RUSAGE_CHILDREN)
        spent = after.ru_utime + after.ru_stime - child.ru_utime - child.ru_stime
        times.append(spent if in_child else time.process_time() - own)
    print(
        f"{name:40} first {times[0]:6.3f} s   median {statistics.median(times):6.3f} s"
    )


def make_request(archive: Path, path: Path) -> RequestContext:
    """Return a request for the page of a file that has not been viewed yet."""
    state = AppState(pool=ArchivePool(archive), broadcaster=EventBroadcaster())
    query = urlencode({"path": str(path)}).encode()
    scope = {"type": "http", "path": "/file", "query_string": query, "headers": []}
    return RequestContext(
        request=Request(scope), app_state=state, now=datetime.now(UTC)
    )


def main() -> None:
    """Run the benchmark."""
    archive, homes = Path(sys.argv[1]), [Path(name) for name in sys.argv[2:]]
    folder = archive.with_name(f"{archive.name}-project")
    path = Path(folder, "project", "hot.py")
    path.parent.mkdir(parents=True, exist_ok=True)
    home = write_home(folder / "home", path)
    Archive.ingest(archive, [*homes, home])
    command = [sys.executable, "-m", "bygones", "blame", str(path), "--color=never"]
    command += ["--archive", str(archive), "--no-ingest"]

    def run() -> None:
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    def blame() -> None:
        with Archive.open(archive) as opened:
            opened.file_library.with_git().blame(path)

    measure("bygones blame (command)", run, in_child=True)
    measure("blame in a running process", blame)
    contexts = [make_request(archive, path) for _ in range(ROUNDS)]
    # The first one also loads what highlights the language.
    measure("page of the file, first view", lambda: file_page(contexts.pop()))
    context = make_request(archive, path)
    measure("page of the file, viewed again", lambda: file_page(context))


if __name__ == "__main__":
    main()
