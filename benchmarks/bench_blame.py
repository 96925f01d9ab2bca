"""Blame of a file with 1,000 edits in 50 sessions, in an archive that contains much else.

    python -m benchmarks.bench_blame ARCHIVE [HOME]

Imports the home, if there is one, and the sessions into the archive, and measures CPU
time of `bygones blame`, of the same in a running process, and of the page of the file.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from urllib.parse import urlencode

from starlette.requests import Request

from bygones.archive import Archive
from bygones.web.context import AppState, RequestContext
from bygones.web.live import EventBroadcaster
from bygones.web.pages.file_versions import file_page
from bygones.web.pool import ArchivePool

SESSIONS = 50
EDITS = 20
LINES = 600
ROUNDS = 5


def write_home(home: Path, path: Path) -> str:
    """Write the transcripts, and return the last content of the file."""
    text = "".join(f"value_{number} = {number}  # a line\n" for number in range(LINES))
    start = datetime(2026, 1, 1, tzinfo=UTC)
    for session in range(SESSIONS):
        id_ = f"b1a3e000-0000-4000-8000-{session:012}"
        records: list[dict[str, object]] = []
        for edit in range(EDITS):
            at = start + timedelta(days=session, minutes=edit)
            number = (session * 37 + edit * 11) % LINES
            lines = text.split("\n")
            old = lines[number]
            lines[number] = f"value_{number} = {session}  # edit {session}.{edit}"
            new, after = lines[number], "\n".join(lines)
            names = [f"{session}-{edit}-{kind}" for kind in "pcr"]
            parent = records[-1]["uuid"] if records else None
            shared = {
                "sessionId": id_,
                "cwd": str(path.parent),
                "version": "2.1.325",
                "timestamp": at.isoformat(),
            }
            call = {
                "type": "tool_use",
                "id": f"toolu_{names[1]}",
                "name": "Edit",
                "input": {
                    "file_path": str(path),
                    "old_string": old,
                    "new_string": new,
                },
            }
            result = {"type": "tool_result", "tool_use_id": call["id"], "content": "ok"}
            outcome = {
                "filePath": str(path),
                "oldString": old,
                "newString": new,
                "originalFile": text,
                "structuredPatch": [
                    {
                        "oldStart": number + 1,
                        "oldLines": 1,
                        "newStart": number + 1,
                        "newLines": 1,
                        "lines": [f"-{old}", f"+{new}"],
                    }
                ],
            }
            rows: list[tuple[str, object, dict[str, object]]] = [
                ("user", f"Change value {number}", {}),
                ("assistant", [call], {}),
                ("user", [result], {"toolUseResult": outcome}),
            ]
            for name, (role, content, more) in zip(names, rows, strict=True):
                message = {"role": role, "content": content}
                if role == "assistant":
                    message |= {"id": f"msg_{name}", "model": "claude-opus-4-5"}
                fields = {"type": role, "uuid": name, "parentUuid": parent}
                records.append(fields | {"message": message} | shared | more)
                parent = name
            text = after
        target = home / "projects" / "-bench" / f"{id_}.jsonl"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text("".join(json.dumps(r) + "\n" for r in records), "utf-8")
    path.write_text(text, "utf-8")
    return text


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


def main() -> None:
    """Run the benchmark."""
    archive, homes = Path(sys.argv[1]), [Path(name) for name in sys.argv[2:]]
    folder = archive.with_name(f"{archive.name}-project")
    path = Path(folder, "project", "hot.py")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_home(Path(folder, "home", ".claude"), path)
    Archive.ingest(archive, [*homes, Path(folder, "home", ".claude")])
    command = [sys.executable, "-m", "bygones", "blame", str(path), "--color=never"]
    command += ["--archive", str(archive), "--no-ingest"]

    def run() -> None:
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    def blame() -> None:
        with Archive.open(archive) as opened:
            opened.file_library.with_git().blame(path)

    measure("bygones blame (command)", run, in_child=True)
    measure("blame in a running process", blame)
    state = AppState(pool=ArchivePool(archive), broadcaster=EventBroadcaster())
    query = urlencode({"path": str(path)}).encode()
    scope = {"type": "http", "path": "/file", "query_string": query, "headers": []}
    context = RequestContext(
        request=Request(scope), app_state=state, now=datetime.now(UTC)
    )
    measure("page of the file", lambda: file_page(context))


if __name__ == "__main__":
    main()
