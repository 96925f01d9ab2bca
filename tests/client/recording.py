"""Plays scenarios and loads what they leave behind.

    python -m tests.client.recording --out FOLDER [NAME...]

A scenario is played in a process of its own, in a network namespace that has only a
loopback interface; where namespaces are not permitted, on the machine's loopback. It
leaves a folder with `home`, `work`, `requests.jsonl` (what the model was sent and
answered) and `actions.jsonl` (what was done).
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path

from tests.client.driver import ClaudeCode
from tests.client.install import PINNED_VERSION, install_client
from tests.client.isolation import enable_loopback, run_isolated
from tests.client.messages_api import Json, MessagesApi, Script, say
from tests.client.scenario import load_scenarios

FOLLOW_UP = "one more question after that"
_RESUME_LOG = "resumed.jsonl"
_COMPLETE = "complete"


@dataclass(frozen=True)
class Recording:
    """The folder that a played scenario leaves."""

    folder: Path

    def is_complete(self) -> bool:
        """Whether the scenario was played to its end."""
        return (self.folder / _COMPLETE).exists()

    @property
    def home(self) -> Path:
        return self.folder / "home" / ".claude"

    @property
    def work(self) -> Path:
        return self.folder / "work"

    def requests(self, name: str = "requests.jsonl") -> list[Json]:
        """Return every request to the stub, with its answer."""
        return [entry for entry in read_lines(self.folder / name) if "request" in entry]

    def transcripts(self) -> list[Path]:
        """Return all files of records, those of agents too."""
        return sorted((self.home / "projects").rglob("*.jsonl"))

    def session_ids(self) -> list[str]:
        """Return the ids of the sessions, oldest first."""
        files = (self.home / "projects").glob("*/*.jsonl")
        return [path.stem for path in sorted(files, key=_first_time)]

    def recorded_ids(self) -> set[str]:
        """Return the ids of the answers that are in a transcript."""
        messages = [
            record.get("message", {})
            for path in self.transcripts()
            for record in read_lines(path)
        ]
        return {message["id"] for message in messages if "id" in message}


def read_lines(path: Path) -> list[Json]:
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def _first_time(path: Path) -> str:
    # A fork starts with copies of older records, but has its own requests.
    times = [
        record["timestamp"]
        for record in read_lines(path)
        if record.get("sessionId") == path.stem and "forkedFrom" not in record
        if record.get("timestamp")
    ]
    return min(times, default="")


def play_apart(name: str, folder: Path, *, version: str = PINNED_VERSION) -> None:
    """Play a scenario into a folder, in a process of its own.

    Raises `RuntimeError` with the output of the process if it fails.
    """
    _run_apart("--play", folder, [name], version)


def resume_apart(
    recording: Recording, session_ids: list[str], *, cwd: Path | None = None
) -> list[list[Json]]:
    """Resume sessions with a follow-up and return the messages that were sent."""
    log = recording.folder / _RESUME_LOG
    log.unlink(missing_ok=True)
    _run_apart("--resume", recording.folder, session_ids, PINNED_VERSION, cwd=cwd)
    sent = [
        entry["request"]["messages"]
        for entry in recording.requests(_RESUME_LOG)
        if entry["phrase"] == FOLLOW_UP
    ]
    if len(sent) != len(session_ids):
        raise RuntimeError(f"{len(sent)} of {len(session_ids)} sessions were resumed")
    return sent


def rewind_apart(
    recording: Recording, session_id: str, prompts_back: int, *, cwd: Path
) -> None:
    """Resume a session in a terminal, and restore the code before a prompt."""
    names = [session_id, str(prompts_back)]
    _run_apart("--rewind", recording.folder, names, PINNED_VERSION, cwd=cwd)


def _run_apart(
    task: str,
    folder: Path,
    names: list[str],
    version: str,
    *,
    cwd: Path | None = None,
) -> None:
    options = ["--out", str(folder), "--version", version]
    options += ["--cwd", str(cwd)] if cwd else []
    run_isolated("tests.client.recording", task, *options, *names)


def _play(name: str, folder: Path, program: Path) -> None:
    scenario = load_scenarios()[name]
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with _serve(scenario.script, folder, "requests.jsonl") as api:
        scenario.play(ClaudeCode(folder, program, api.port))
    (folder / _COMPLETE).touch()


def _resume(
    session_ids: list[str], folder: Path, program: Path, cwd: Path | None
) -> None:
    with _serve({FOLLOW_UP: [say("That is all.")]}, folder, _RESUME_LOG) as api:
        client = ClaudeCode(folder, program, api.port)
        for session_id in session_ids:
            client.ask(FOLLOW_UP, "--resume", session_id, cwd=cwd)


def _rewind(names: list[str], folder: Path, program: Path, cwd: Path) -> None:
    session_id, prompts_back = names
    with _serve({}, folder, _RESUME_LOG) as api:
        client = ClaudeCode(folder, program, api.port)
        client.trust(cwd)
        options = ("--resume", session_id, "--permission-mode", "acceptEdits")
        with client.terminal(*options, cwd=cwd) as terminal:
            terminal.pause(1)
            terminal.rewind(int(prompts_back), "Restore code")
            terminal.clear_input()


def _serve(script: Script, folder: Path, log: str) -> MessagesApi:
    placeholders = {"{work}": str(folder / "work"), "{home}": str(folder / "home")}
    return MessagesApi(script, folder / log, placeholders)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all")
    parser.add_argument("--out", type=Path, required=True, help="for the recordings")
    parser.add_argument("--version", default=PINNED_VERSION, help="of Claude Code")
    parser.add_argument("--play", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--resume", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--rewind", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--cwd", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    out: Path = options.out.resolve()
    if not (options.play or options.resume or options.rewind):
        return _play_all(options.names or list(load_scenarios()), out, options.version)
    enable_loopback()
    program = install_client(options.version)
    if options.play:
        (name,) = options.names
        _play(name, out, program)
    elif options.resume:
        _resume(options.names, out, program, options.cwd)
    else:
        _rewind(options.names, out, program, options.cwd)
    return 0


def _play_all(names: list[str], out: Path, version: str) -> int:
    failures = 0
    for name in names:
        try:
            play_apart(name, out / name, version=version)
            sys.stdout.write(f"{name}: {out / name}\n")
        except RuntimeError:
            failures += 1
            traceback.print_exc()
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
