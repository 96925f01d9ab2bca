"""The rules by which ccusage 20 reads and counts.

They follow its public source and were checked with version 20.0.24; other versions differ
in details. Its reports have only totals; these rules break them down to messages. The
correct rules are in ``bygones.assemble.usage``, not here.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

__all__ = [
    "NONE",
    "Booked",
    "Counts",
    "Row",
    "kept",
    "plus",
    "predict",
    "rank",
    "rows_of",
]

Counts = tuple[int, int, int, int]
"""Input, output, cache write, cache read."""
NONE: Counts = (0, 0, 0, 0)


@dataclass(frozen=True)
class Row:
    """What one record says about the usage of a message."""

    place: str
    """The session that ccusage books the record's file to."""
    group: str
    """The message's id, or that of a record without one."""
    message: str | None
    request: str | None
    session: str
    time: str
    model: str | None
    is_sidechain: bool
    is_client: bool
    speed: str | None
    flat: Counts
    split: int | None
    advisors: tuple[tuple[str, Counts], ...]
    asides: tuple[Counts, ...]
    """What the API did on the side, as we count it: advisors and compactions."""
    unread: bool

    @property
    def theirs(self) -> Counts:
        """The counts with the cache writes that ccusage takes."""
        write = self.flat[2] if self.split is None else self.split
        return (self.flat[0], self.flat[1], write, self.flat[3])

    @property
    def ours(self) -> Counts:
        """The counts with the cache writes that we take."""
        return (*self.flat[:2], max(self.flat[2], self.split or 0), self.flat[3])

    @property
    def context(self) -> int:
        """How much the model had before it, as the record tells."""
        return sum(self.ours) - self.ours[1]


@dataclass
class Booked:
    """The counts of one message on one side: sum, sessions and models."""

    lines: list[tuple[str, str, Counts]] = field(default_factory=list)
    """Session, model and counts of each part."""
    counts: Counts = NONE
    keys: Counter[str] = field(default_factory=Counter)
    """How often each answer under this id was counted; on our side only."""

    def add(self, counts: Counts, session: str, model: str | None) -> None:
        """Book some counts to a session and a model."""
        self.counts = plus(self.counts, counts)
        self.lines.append((session, model or "-", counts))

    @property
    def sessions(self) -> set[str]:
        """The sessions that pay."""
        return {session for session, _, counts in self.lines if any(counts)}

    @property
    def models(self) -> set[str]:
        """The models that are paid for."""
        return {model for _, model, counts in self.lines if any(counts)}


def plus(one: Counts, other: Counts) -> Counts:
    """Return the sum, field by field."""
    return (
        one[0] + other[0],
        one[1] + other[1],
        one[2] + other[2],
        one[3] + other[3],
    )


# What the files say


def rows_of(home: Path) -> dict[str, list[Row]]:
    """Return every record with usage by message, in the order ccusage reads them."""
    found: dict[str, list[Row]] = defaultdict(list)
    projects = home / "projects" if (home / "projects").is_dir() else home
    for path in sorted(projects.rglob("*.jsonl"), key=str):
        place = place_of(path.relative_to(projects).parts)
        with path.open("rb") as lines:
            for number, line in enumerate(lines):
                if b'"usage"' in line:
                    for row in rows_in(line, place, f"{path}:{number}"):
                        found[row.group].append(row)
    return found


def place_of(parts: Sequence[str]) -> str:
    """Return the session that ccusage reads out of a path below ``projects``."""
    *folders, name = parts
    if len(folders) == 1:
        return name.removesuffix(".jsonl")
    if len(folders) > 2 and folders[-1] == "subagents":  # noqa: PLR2004 (project, session, subagents)
        return folders[-2]
    return folders[-1] if folders else "unknown"


def rows_in(line: bytes, place: str, where: str) -> Iterator[Row]:
    """Yield the rows of a line; a broken line may hold several records."""
    try:
        records, is_whole = [json.loads(line)], True
    except ValueError:
        records, is_whole = list(pieces(line.decode("utf-8", "replace"))), False
    for record in records:
        message = record.get("message") if isinstance(record, dict) else None
        usage = message.get("usage") if isinstance(message, dict) else None
        if isinstance(message, dict) and isinstance(usage, dict):
            is_read = is_whole and is_taken(line, record, message, usage)
            yield row_of(record, message, place, where=where, unread=not is_read)


def pieces(text: str) -> Iterator[Any]:
    """Yield the records that are whole within a broken line."""
    decoder = json.JSONDecoder()
    start = text.find("{")
    while start >= 0:
        try:
            record, start = decoder.raw_decode(text, start)
            if "sessionId" in record:  # else it is only a part of one
                yield record
        except ValueError:
            start += 1
        start = text.find('{"', start)


def row_of(
    record: dict[str, Any],
    message: dict[str, Any],
    place: str,
    *,
    where: str,
    unread: bool,
) -> Row:
    """Return the row of one record."""
    usage = message["usage"]
    split = usage.get("cache_creation")
    identity = word(message.get("id"))
    request = word(record.get("requestId"))
    alone = request or word(record.get("uuid")) or where
    return Row(
        place=place,
        group=identity or f"record {alone}",
        message=identity,
        request=request,
        session=word(record.get("sessionId")) or place,
        time=str(record.get("timestamp")),
        model=word(message.get("model")),
        is_sidechain=record.get("isSidechain") is True,
        is_client=message.get("model") == "<synthetic>"
        or record.get("isApiErrorMessage") is True,
        speed=word(usage.get("speed")),
        flat=flat_counts(usage),
        split=sum(map(whole, split.values())) if isinstance(split, dict) else None,
        advisors=tuple(advisors(usage)),
        asides=tuple(asides(usage)),
        unread=unread,
    )


def advisors(usage: dict[str, Any]) -> Iterator[tuple[str, Counts]]:
    """Yield model and counts of the advisors that a message asked."""
    rounds = usage.get("iterations")
    for turn in rounds if isinstance(rounds, list) else ():
        if isinstance(turn, dict) and turn.get("type") == "advisor_message":
            model = word(turn.get("model"))
            if model:
                yield model, flat_counts(turn)


def asides(usage: dict[str, Any]) -> Iterator[Counts]:
    """Yield the counts of all that was called for a message and is in no sum."""
    rounds = usage.get("iterations")
    for turn in rounds if isinstance(rounds, list) else ():
        if isinstance(turn, dict) and turn.get("type") in _ASIDE:
            split = turn.get("cache_creation")
            parts = sum(map(whole, split.values())) if isinstance(split, dict) else 0
            first, second, write, read = flat_counts(turn)
            yield first, second, max(write, parts), read


_ASIDE = {"advisor_message", "compaction"}


def flat_counts(usage: dict[str, Any]) -> Counts:
    """Return the four counts as they stand, none of them negative."""
    return (
        whole(usage.get("input_tokens")),
        whole(usage.get("output_tokens")),
        whole(usage.get("cache_creation_input_tokens")),
        whole(usage.get("cache_read_input_tokens")),
    )


def whole(value: object) -> int:
    """Return a count, or none for anything else."""
    return max(int(value), 0) if isinstance(value, int | float) else 0


def word(value: object) -> str | None:
    """Return a text that says something."""
    return value if isinstance(value, str) and value else None


# What ccusage makes of it

_NULL = re.compile(
    rb'"(id|cwd|speed|costUSD|version|sessionId|requestId|isApiErrorMessage'
    rb'|cache_read_input_tokens|cache_creation_input_tokens)":null'
)
_VERSION = re.compile(r"\d+\.\d+\.\d")


def is_taken(
    line: bytes,
    record: dict[str, Any],
    message: dict[str, Any],
    usage: dict[str, Any],
) -> bool:
    """Return whether ccusage reads a line: it wants it compact and complete."""
    if b'"usage":{' not in line or _NULL.search(line):
        return False
    rounds = usage.get("iterations")
    unnamed = sum(
        isinstance(turn, dict) and "model" in turn and turn["model"] is None
        for turn in (rounds if isinstance(rounds, list) else ())
    )
    texts = (record.get("sessionId"), record.get("requestId"))
    return (
        line.count(b'"model":null') == unnamed
        and all(
            text != "" for text in (*texts, message.get("id"), message.get("model"))
        )
        and _VERSION.match(record.get("version") or "0.0.0") is not None
        and is_time(record.get("timestamp"))
        and usage.get("speed", "fast") in {"standard", "fast"}
        and are_counts(usage)
    )


def is_time(value: object) -> bool:
    """Return whether a value is a time as records give it."""
    try:
        return isinstance(value, str) and bool(datetime.fromisoformat(value))
    except ValueError:
        return False


def are_counts(usage: dict[str, Any]) -> bool:
    """Return whether the counts are there, and are what counts are."""
    split = usage.get("cache_creation") or {}
    wanted = [usage.get("input_tokens"), usage.get("output_tokens")]
    others = [
        usage.get("cache_creation_input_tokens", 0),
        usage.get("cache_read_input_tokens", 0),
    ]
    return isinstance(split, dict) and all(
        type(count) is int and count >= 0
        for count in (*wanted, *others, *split.values())
    )


def kept(rows: Iterable[Row]) -> list[Row]:
    """Return the records of one message that ccusage counts.

    Records with one id and request are one, as are those with one id and session
    without a request; a sidechain's record and a main one also if told at one time.
    """
    found: list[Row] = []
    for row in rows:
        twins = (n for n, other in enumerate(found) if is_same(row, other))
        number = next(twins, None) if row.message else None
        if number is None:
            number = next((n for n, o in enumerate(found) if is_replay(row, o)), None)
        if number is None:
            found.append(row)
        elif rank(row) > rank(found[number]):
            found[number] = row
    return found


def is_same(row: Row, other: Row) -> bool:
    """Return whether two records of one message have the same request."""
    if row.request or other.request:
        return row.request == other.request
    return row.session == other.session


def is_replay(row: Row, other: Row) -> bool:
    """Return whether one of two records of a message repeats the other aside."""
    told = row.session == other.session and row.time == other.time
    return bool(row.message) and told and (row.is_sidechain or other.is_sidechain)


def rank(row: Row) -> tuple[bool, int, bool]:
    """Return by what ccusage prefers a record."""
    return (not row.is_sidechain, sum(row.theirs), row.speed is not None)


def predict(groups: dict[str, list[Row]]) -> dict[str, Booked]:
    """Return what ccusage should count for each message."""
    found = {}
    for group, rows in groups.items():
        booked = Booked()
        for row in kept(r for r in rows if not r.unread):
            fast = "-fast" if row.speed == "fast" else ""
            model = None if row.model == "<synthetic>" else f"{row.model}{fast}"
            booked.add(row.theirs, row.place, model)
            for name, counts in row.advisors:
                booked.add(counts, row.place, name)
        if booked.lines:
            found[group] = booked
    return found
