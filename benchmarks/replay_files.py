"""Replay the files of transcripts and print every difference from what was recorded.

``python -m benchmarks.replay_files FOLDER…`` reads Claude Code homes or folders of
transcripts, replays every changed file of every session, and compares the result with
each recorded original, read and backup.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from bygones.files.history import BranchLog, FileHistory
from bygones.files.replay import Check, CheckResult, CheckSubject, VersionKind
from bygones.reader import read_sessions


def replay_folder(folder: Path) -> Iterator[FileHistory]:
    """Yield the history of each file that a session changed."""
    for session in read_sessions(folder):
        log = BranchLog(session, session.live_branch)
        for key, path in log.changed_paths().items():
            yield FileHistory(path, key, [log])


def _describe(history: FileHistory, check: Check) -> str:
    place = check.place
    where = f"{place.session_id[:8]}:{place.turn_number + 1} {history.path}"
    following = history.versions[check.version + 1 : check.version + 2]
    for version in following:
        if version.kind is VersionKind.OUTSIDE:
            cause = f"{version.cause} {version.command[:60]!r}"
            return f"{where}: {check.subject} differs; {cause}, since {version.since}"
    return f"{where}: {check.subject} differs"


def main(folders: list[Path]) -> None:
    """Print the differences and the totals."""
    counts: Counter[tuple[CheckSubject, CheckResult]] = Counter()
    files = versions = 0
    start = time.process_time()
    for folder in folders:
        for history in replay_folder(folder):
            files += 1
            versions += len(history.versions)
            for check in history.checks:
                counts[check.subject, check.result] += 1
                if check.result is CheckResult.DIFFERENT:
                    print(_describe(history, check))
    seconds = time.process_time() - start
    print(f"\n{files} files, {versions} versions, {seconds:.1f} s")
    for subject in CheckSubject:
        same = counts[subject, CheckResult.SAME]
        compared = same + counts[subject, CheckResult.DIFFERENT]
        first = counts[subject, CheckResult.UNKNOWN]
        share = f"{100 * same / compared:.1f} %" if compared else "-"
        print(f"{subject:9} {same:5} of {compared:5} same  {share:8} ({first} first)")


if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]])
