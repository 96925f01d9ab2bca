"""Reports what a version of Claude Code writes that we do not know yet.

    python -m tests.client.news [--version VERSION] [--prices] [NAME...]

Plays the scenarios with that version, by default the newest one, and compares the result
with what the code knows (as `inspect` does) and with `known_names.json`: the names of all
fields and tools of the last version that was looked at. `--accept` rewrites that file.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from bygones.inspection import inspect_transcripts
from bygones.model.outcomes import find_outcome_type
from bygones.model.reports import DriftKind
from tests.client.install import find_newest_version, install_client
from tests.client.messages_api import Json
from tests.client.prices import compare_prices
from tests.client.recording import Recording, play_apart, read_lines
from tests.client.scenario import load_scenarios

KNOWN_NAMES = Path(__file__).with_name("known_names.json")
_FIELD_NAME = re.compile(r"[A-Za-z_]\w{0,40}")
_OPEN_MAPPINGS = frozenset({"trackedFileBackups", "modelUsage"})
"""Objects whose keys are paths or models, not field names."""
_PRIVATE = frozenset({"api-request-shape", "api-request-blob"})
"""Records with prompts and tool definitions of the vendor."""

Names = dict[str, set[str]]
"""Field names by the place that they were found in."""


def collect_names(recording: Recording) -> Names:
    """Return the names of all fields in a recording's records, sidecars and tools."""
    names: Names = {}
    for path in recording.transcripts():
        _add_records(names, read_lines(path))
    for sidecar in (recording.home / "projects").rglob("*.meta.json"):
        _add_object(names, "meta.json", json.loads(sidecar.read_text("utf-8")))
    for entry in recording.requests():
        for definition in entry["request"].get("tools", ()):
            _add_tool(names, definition)
    return names


def _add_records(names: Names, records: Iterable[Json]) -> None:
    tools: dict[str, str] = {}
    for record in records:
        blocks = record.get("message", {}).get("content", ())
        calls = [block for block in blocks if isinstance(block, dict)]
        tools |= {call["id"]: call["name"] for call in calls if "name" in call}
        result = record.pop("toolUseResult", None)
        if isinstance(result, dict):
            tool = next((tools.get(c.get("tool_use_id", ""), "") for c in calls), "")
            _add_result(names, tool, result)
        for call in calls:
            call.pop("input", None)
        is_private = record["type"] in _PRIVATE
        fields = dict.fromkeys(record) if is_private else record
        _add_object(names, _record_place(record), fields)


def _record_place(record: Json) -> str:
    subtype = record.get("subtype") or (record.get("attachment") or {}).get("type")
    return f"{record['type']} {subtype}" if subtype else str(record["type"])


def _add_result(names: Names, tool: str, result: Json) -> None:
    place = f"result of {'an MCP tool' if tool.startswith('mcp__') else tool}"
    if find_outcome_type(result) is None:
        names.setdefault("results that are not decoded", set()).add(tool)
    _add_object(names, place, result)


def _add_tool(names: Names, definition: Json) -> None:
    name = definition["name"]
    if not name.startswith("mcp__"):
        names.setdefault("tools", set()).add(name)
        properties = definition.get("input_schema", {}).get("properties", {})
        names.setdefault(f"input of {name}", set()).update(properties)


def _add_object(names: Names, place: str, value: Json) -> None:
    names.setdefault(place, set()).update(_list_paths(value, ""))


def _list_paths(value: object, path: str) -> Iterator[str]:
    if isinstance(value, list):
        for item in value:
            yield from _list_paths(item, path)
    if not isinstance(value, dict):
        return
    is_open = path.rpartition(".")[2] in _OPEN_MAPPINGS
    for key, item in value.items():
        name = "*" if is_open or not _FIELD_NAME.fullmatch(key) else key
        below = f"{path}.{name}" if path else name
        yield below
        yield from _list_paths(item, below)


def describe_news(names: Names, known: Mapping[str, Iterable[str]]) -> Iterator[str]:
    """Yield a line for each place with names that are not known."""
    for place in sorted(names):
        new = sorted(names[place] - set(known.get(place, ())))
        if place not in known:
            yield f"new: {place}: {', '.join(new)}"
        elif new:
            yield f"{place}: {', '.join(new)}"


def describe_drift(homes: Iterable[Path]) -> Iterator[str]:
    """Yield a line for each name that `inspect` does not know."""
    for row in inspect_transcripts(homes).drift:
        if row.kind is not DriftKind.VERSION:
            yield f"unknown to the code: {row.kind} {row.name} ({row.records} records)"


def play(version: str, chosen: Iterable[str], folder: Path) -> Iterator[Recording]:
    """Play scenarios with a version, and yield the recordings of those that worked."""
    for name in chosen:
        recording = Recording(folder / name)
        try:
            if not recording.is_complete():
                play_apart(name, recording.folder, version=version)
        except RuntimeError as error:
            reason = str(error).strip().splitlines() or [""]
            sys.stdout.write(f"{name}: cannot be played: {reason[-1]}\n")
        else:
            yield recording


def report(version: str, recordings: list[Recording], *, accept: bool) -> None:
    names: Names = {}
    for recording in recordings:
        for place, found in collect_names(recording).items():
            names.setdefault(place, set()).update(found)
    known = json.loads(KNOWN_NAMES.read_text("utf-8"))
    lines = [
        *describe_drift(recording.home for recording in recordings),
        *describe_news(names, known["names"]),
    ]
    for line in lines or [f"nothing is new since {known['version']}"]:
        sys.stdout.write(f"{line}\n")
    if accept:
        for place, found in known["names"].items():
            names.setdefault(place, set()).update(found)
        KNOWN_NAMES.write_text(_format_names(version, names), "utf-8")


def _format_names(version: str, names: Names) -> str:
    """Return the list as JSON with one line for each place."""
    lines = [
        f"  {json.dumps(place)}: {json.dumps(sorted(names[place]))}"
        for place in sorted(names)
    ]
    places = ",\n".join(lines)
    return f'{{\n "version": {json.dumps(version)},\n "names": {{\n{places}\n }}\n}}\n'


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all")
    parser.add_argument("--version", default="latest", help="default: latest")
    parser.add_argument("--out", type=Path, help="keep the recordings, use them again")
    parser.add_argument("--prices", action="store_true", help="measure prices as well")
    parser.add_argument("--accept", action="store_true", help="rewrite the known names")
    options = parser.parse_args()
    version = options.version
    if version == "latest":
        version = find_newest_version()
    sys.stdout.write(f"Claude Code {version}\n")
    install_client(version)  # scenarios are played without a network
    with tempfile.TemporaryDirectory() as folder:
        out = (options.out or Path(folder)).resolve()
        chosen = options.names or list(load_scenarios())
        recordings = list(play(version, chosen, out))
        report(version, recordings, accept=options.accept)
    if options.prices:
        for line in compare_prices(version, []):
            sys.stdout.write(f"price: {line}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
