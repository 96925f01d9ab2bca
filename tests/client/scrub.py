"""Turns a recording into the input of a golden case, without the vendor's texts.

    python -m tests.client.scrub RECORDING tests/cases/recorded_NAME

Keeps the tree of records and what the scenario says. Prompts, tool definitions and lists
of the client are dropped, ids and times are replaced by plain ones.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.client.messages_api import Json
from tests.client.recording import Recording, read_lines

_DROPPED_TYPES = frozenset(
    {
        "api-request",
        "api-request-blob",
        "api-request-shape",
        "atis-latch",
        "mode",
        "permission-mode",
        "tools-used",
    }
)
_KEPT_ATTACHMENTS = frozenset(
    {
        "date",
        "edited_text_file",
        "hook_non_blocking_error",
        "queued_command",
    }
)
"""Attachments of which more than the type is kept."""
_DROPPED_FIELDS = frozenset({"rendered", "requestRef", "requestId", "session_id"})
_ID = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
    r"|(?P<prefix>msg|toolu|srvtoolu|req)_[0-9A-Za-z]{10,}|(?<=agent-)a[0-9a-f]{16}"
    r"|(?<![0-9a-f])a[0-9a-f]{16}(?![0-9a-f])"
)
_NIL = "00000000-0000-0000-0000-000000000000"
_TIME = re.compile(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
_START = datetime(2026, 1, 5, 9, tzinfo=UTC)


class Scrubber:
    """Replaces ids, times and paths, the same ones in all files of a recording."""

    def __init__(self, recording: Recording) -> None:
        self._paths = {
            str(recording.work): "/work/demo",
            str(recording.folder / "home"): "/home/demo",
            _project_key(recording.work): "-work-demo",
        }
        self._ids = {_NIL: _NIL}
        texts = [path.read_text("utf-8") for path in recording.transcripts()]
        times = sorted({time for text in texts for time in _TIME.findall(text)})
        first = datetime.fromisoformat(times[0])
        self._times = {time: _START + _elapsed(time, first) for time in times}

    def text(self, text: str) -> str:
        """Return a text with plain ids, times and paths."""
        for old, new in self._paths.items():
            text = text.replace(old, new)
        text = _TIME.sub(lambda match: _format(self._times[match[0]]), text)
        return _ID.sub(self._replace_id, text)

    def _replace_id(self, match: re.Match[str]) -> str:
        number = len(self._ids)
        if match[0] not in self._ids:
            if match["prefix"]:
                plain = f"{match['prefix']}_{number:020}"
            elif match[0].startswith("a") and "-" not in match[0]:
                plain = f"a{number:016x}"
            else:
                plain = f"00000000-0000-4000-8000-{number:012}"
            self._ids[match[0]] = plain
        return self._ids[match[0]]

    def record(self, record: Json) -> Json | None:
        """Return what is kept of a record."""
        if record["type"] in _DROPPED_TYPES:
            return None
        result = {key: record[key] for key in record if key not in _DROPPED_FIELDS}
        if record["type"] == "attachment":
            result["attachment"] = _shorten_attachment(record["attachment"])
        if record["type"] == "system" and record.get("subtype") == "informational":
            result["content"] = "A notice of the client."
        if record.get("isCompactSummary"):
            result["message"] = {"role": "user", "content": "What was said so far."}
        scrubbed: Json = json.loads(self.text(json.dumps(result, ensure_ascii=False)))
        return scrubbed


def _shorten_attachment(attachment: Json) -> dict[str, Any]:
    if attachment["type"] in _KEPT_ATTACHMENTS:
        return attachment
    return {"type": attachment["type"]}


def _project_key(path: Path) -> str:
    return re.sub(r"[^0-9A-Za-z]", "-", str(path))


def _elapsed(time: str, first: datetime) -> timedelta:
    return datetime.fromisoformat(time) - first


def _format(time: datetime) -> str:
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def scrub(recording: Recording, case: Path) -> None:
    """Write the input of a case."""
    shutil.rmtree(case / "input", ignore_errors=True)
    scrubber = Scrubber(recording)
    files = sorted(path for path in recording.home.glob("projects/**/*.*"))
    for path in filter(Path.is_file, files):
        if path.suffix not in {".jsonl", ".json"} or path.name == "history.jsonl":
            continue
        name = scrubber.text(path.relative_to(recording.home).as_posix())
        target = case / "input" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".json":
            target.write_text(scrubber.text(path.read_text("utf-8")), "utf-8")
            continue
        records = map(scrubber.record, read_lines(path))
        lines = [json.dumps(one, ensure_ascii=False) for one in records if one]
        target.write_text("".join(f"{line}\n" for line in lines), "utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("recording", type=Path, metavar="RECORDING")
    parser.add_argument("case", type=Path, metavar="CASE")
    options = parser.parse_args()
    scrub(Recording(options.recording.resolve()), options.case)
    return 0


if __name__ == "__main__":
    sys.exit(main())
