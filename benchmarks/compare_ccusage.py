"""Compare token counts with ccusage, down to the message.

    python -m benchmarks.compare_ccusage HOME [--brief] -- COMMAND...

``COMMAND`` starts ccusage 20, for example ``npx ccusage@20``. Its session report has only
totals, so ``benchmarks/ccusage_rules.py`` predicts it message by message, and the
prediction is checked against the report, per session and model. For each message whose
counts differ, steps lead from ccusage's figure to ours; a step that changes the figure is
a reason. ``docs/concepts/usage.md`` explains the reasons. The exit code is 0 if every
difference is explained.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.ccusage_rules import (
    NONE,
    Booked,
    Counts,
    Row,
    kept,
    plus,
    predict,
    rank,
    rows_of,
)
from bygones.reader import read_sessions

__all__ = ["main"]

_UNIQUE = re.compile(r"[0-9A-Za-z]{16}|[0-9a-f]{8}-[0-9a-f]{4}-")
"""In ids that are never given to two answers."""

EXPLAINED = {
    "advisor": "ccusage counts no compactions on the side, and advisors by record",
    "synthetic": "ccusage counts what the client wrote itself, or an error",
    "unread": "ccusage skips a line that we read",
    "split": "cache writes: ccusage takes the split, we the larger of split and sum",
    "requests": "ccusage counts one message id several times",
    "sidechain": "ccusage prefers the main conversation's record to a larger one",
    "fields": "ccusage takes one record whole, we the larger of each field",
    "agent": "ccusage makes an agent's file a session of its own",
    "progress": "we count agents of which only progress records are left",
    "quiet": "we leave out what warm-ups and replays spend; ccusage counts it",
    "copies": "ccusage counts it for another of the sessions that contain the message",
    "speed": "ccusage lists a model in fast mode separately",
    "models": "records of one message name several models",
}
UNEXPLAINED = {
    "twice": "we count a message in several projects",
    "unpredicted": "ccusage's total does not follow from its rules",
    "unknown": "no known reason explains the difference",
}


# From their figure to ours


def reasons(rows: Sequence[Row], theirs: Booked, ours: Booked) -> list[str]:
    """Return the steps that lead from ccusage's counts of a message to ours."""
    spent = [row for row in rows if not row.is_client]
    more = aside(spent)
    if theirs.counts == ours.counts == plus(merged(spent), more):
        return []
    steps: list[tuple[str, Callable[[], Counts]]] = [
        ("advisor", lambda: told(kept(r for r in rows if not r.unread))),
        ("synthetic", lambda: told(kept(r for r in spent if not r.unread))),
        ("unread", lambda: told(kept(spent))),
        ("split", lambda: told(kept(map(as_ours, spent)))),
        ("requests", lambda: told(best(spent, by_side=True))),
        ("sidechain", lambda: told(best(spent, by_side=False))),
        ("fields", lambda: merged(spent)),
    ]
    found = []
    counts = theirs.counts
    for name, step in steps:
        after = plus(step(), more)
        if after != counts:
            found.append(name)
        counts = after
    if counts != ours.counts:
        found.append("unknown")
    return found


def aside(rows: Sequence[Row]) -> Counts:
    """Return what was called for the answers of a message; the longest list has all."""
    total = NONE
    for group in answers(rows) if rows else ():
        for counts in max((row.asides for row in group), key=len):
            total = plus(total, counts)
    return total


def as_ours(row: Row) -> Row:
    """Return a row with the cache writes that we take."""
    return replace(row, flat=row.ours, split=None)


def told(rows: Iterable[Row]) -> Counts:
    """Return the sum of some records, as ccusage reads them."""
    total = NONE
    for row in rows:
        total = plus(total, row.theirs)
    return total


def largest(rows: Iterable[Counts]) -> Counts:
    """Return the larger of each field."""
    first, second, third, fourth = zip(*rows, strict=True)
    return (max(first), max(second), max(third), max(fourth))


def answers(rows: Sequence[Row]) -> list[list[Row]]:
    """Return the records of each answer: one, unless a gateway reuses its id."""
    requests = {row.request for row in rows if row.request}
    contexts = {row.context for row in rows if row.context}
    found: dict[object, list[Row]] = defaultdict(list)
    for row in rows:
        mark: object = None
        if row.message and not _UNIQUE.search(row.message):
            if len(requests) > 1:
                mark = row.request
            elif not requests and len(contexts) > 1:
                mark = row.context
        found[mark].append(row)
    return list(found.values())


def best(rows: Sequence[Row], *, by_side: bool) -> list[Row]:
    """Return the largest record of each answer, perhaps of the main side first."""
    groups = answers([as_ours(row) for row in rows])
    return [max(group, key=lambda row: rank(row)[not by_side :]) for group in groups]


def merged(rows: Sequence[Row]) -> Counts:
    """Return the sum of answers, of each the larger of each field."""
    total = NONE
    for group in answers(rows):
        total = plus(total, largest(row.ours for row in group))
    return total


def bookings(
    rows: Sequence[Row], theirs: Booked, ours: Booked, sessions: set[str]
) -> list[str]:
    """Return why a message is booked to other sessions or models."""
    found = []
    if theirs.sessions != ours.sessions and theirs.sessions and ours.sessions:
        # An agent's file may name several sessions; ours is one of them.
        holders = {row.place for row in rows} | {row.session for row in rows}
        is_copy = theirs.sessions <= sessions
        is_odd = is_copy and not ours.sessions <= holders
        found.append("unknown" if is_odd else "copies" if is_copy else "agent")
    if theirs.models != ours.models and theirs.models and ours.models:
        plain = {model.removesuffix("-fast") for model in theirs.models}
        named = {row.model for row in rows}
        reason = "speed" if plain == ours.models else "models"
        found.append(reason if ours.models <= named else "unknown")
    return found


# Both sides


def count_theirs(command: Sequence[str], home: Path) -> tuple[list[Any], float]:
    """Return the sessions of ccusage's report, and the CPU seconds it took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as nowhere:
        run = subprocess.run(
            [*command, "claude", "session", "--json", "--offline"],
            env=os.environ
            | {"CLAUDE_CONFIG_DIR": str(home), "XDG_CONFIG_HOME": nowhere},
            capture_output=True,
            check=True,
        )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return json.loads(run.stdout)["sessions"], seconds


class Ours(NamedTuple):
    """Our side: counts by message, sessions, and what it took."""

    booked: dict[str, Booked]
    sessions: set[str]
    quiet: set[str]
    """Messages that only warm-ups and replays spend on."""
    agents: set[str]
    """Messages that agents spent on."""
    seconds: float


def count_ours(home: Path) -> Ours:
    """Return what we count in a home."""
    before = time.process_time()
    found: dict[str, Booked] = defaultdict(Booked)
    sessions: set[str] = set()
    quiet: set[str] = set()
    agents: set[str] = set()
    for session in read_sessions(home):
        sessions.add(session.id)
        for agent in session.all_agents:
            if not agent.kind.is_shown:
                quiet.update(group_of(spend.key) for spend in agent.message_usages)
        for spend in session.message_usages:
            told = spend.usage
            group = group_of(spend.key)
            if spend.agent_id is not None:
                agents.add(group)
            counts = (told.input, told.output, told.cache_write, told.cache_read)
            found[group].add(counts, session.id, spend.model)
            found[group].keys[spend.key] += 1
    seconds = time.process_time() - before
    return Ours(found, sessions, quiet - set(found), agents, seconds)


def group_of(key: str) -> str:
    """Return the message that a key is of."""
    return key if key.startswith("record ") else key.partition(" ")[0]


Sums = dict[tuple[str, str], Counts]
"""Counts by ``session`` or ``model`` and its name."""


def sums_of(booked: Iterable[Booked]) -> Sums:
    """Return what is booked, by session and by model."""
    found: Sums = defaultdict(lambda: NONE)
    for one in booked:
        for session, model, counts in one.lines:
            found["session", session] = plus(found["session", session], counts)
            found["model", model] = plus(found["model", model], counts)
    return found


def reported(sessions: Iterable[Any]) -> Sums:
    """Return what ccusage reports, by session and by model."""
    found: Sums = defaultdict(lambda: NONE)
    for session in sessions:
        told = [("session", session["sessionId"], session)]
        told += [("model", m["modelName"], m) for m in session["modelBreakdowns"]]
        for kind, name, counts in told:
            found[kind, name] = plus(
                found[kind, name],
                (
                    counts["inputTokens"],
                    counts["outputTokens"],
                    counts["cacheCreationTokens"],
                    counts["cacheReadTokens"],
                ),
            )
    return found


def differences(
    groups: dict[str, list[Row]],
    theirs: dict[str, Booked],
    ours: Ours,
) -> dict[str, list[str]]:
    """Return the reasons for each message that the two do not count alike."""
    found = {}
    for group in {**groups, **ours.booked}:
        rows = groups.get(group, [])
        their, our = theirs.get(group, Booked()), ours.booked.get(group, Booked())
        if group in ours.quiet:
            found[group] = ["quiet"]
            continue
        if not rows and group in ours.agents:
            found[group] = ["progress"]
            continue
        why = reasons(rows, their, our)
        if max(our.keys.values(), default=1) > 1:
            why = ["twice"]
        if not {"advisor", "unread", "twice"} & set(why):
            why += bookings(rows, their, our, ours.sessions)
        if why:
            found[group] = why
    return found


def show(kind: str, theirs: Sums, ours: Sums, *, brief: bool) -> None:
    """Print both sides' counts by session or by model."""
    heads = zip((22, 22, 26, 28), ("input", "output", "write", "read"), strict=True)
    print(f"\n{kind:38}", *(f"{head:>{width}}" for width, head in heads))
    names = sorted({name for k, name in (*theirs, *ours) if k == kind})
    for name in names:
        pair = (theirs.get((kind, name), NONE), ours.get((kind, name), NONE))
        if pair[0] != pair[1] or not brief:
            columns = zip((10, 10, 12, 13), *pair, strict=True)
            cells = "".join(f" {a:>{w},} {b:>{w + 1},}" for w, a, b in columns)
            print(f"{name:38}{cells} {'' if pair[0] == pair[1] else '*'}")


def main(arguments: Sequence[str]) -> int:
    """Compare, print, and return 0 if every difference is explained."""
    parser = argparse.ArgumentParser(description="Compare token counts with ccusage.")
    parser.add_argument("home", type=Path)
    parser.add_argument("command", nargs="+", help="starts ccusage; after --")
    parser.add_argument("--brief", action="store_true", help="no sessions or messages")
    chosen = parser.parse_args(arguments)
    report, their_seconds = count_theirs(chosen.command, chosen.home)
    ours = count_ours(chosen.home)
    groups = rows_of(chosen.home)
    theirs = predict(groups)
    found = differences(groups, theirs, ours)
    told, predicted, counted = (
        reported(report),
        sums_of(theirs.values()),
        sums_of(ours.booked.values()),
    )
    print("left: ccusage, right: bygones; * differs")
    show("model", told, counted, brief=False)
    if not chosen.brief:
        show("session", told, counted, brief=False)
        for group, why in found.items():
            pair = (theirs.get(group, Booked()), ours.booked.get(group, Booked()))
            print(group, " ".join(why), pair[0].counts, pair[1].counts, sep="  ")
    tally = Counter(reason for why in found.values() for reason in why)
    names = {*told, *predicted}
    missed = [
        n for n in names if told.get(n, NONE) != predicted.get(n, NONE) and n[1] != "-"
    ]
    tally["unpredicted"] += len(missed)
    counts = f"{len(theirs):,} {len(ours.booked):,}"
    print(f"\nmessages: {counts}; different: {len(found):,}")
    for reason, number in (+tally).most_common():
        print(f"{number:9,} {reason:11} {(EXPLAINED | UNEXPLAINED)[reason]}")
    print(*(f"unpredicted: {' '.join(n)}" for n in missed), sep="\n")
    print(f"CPU seconds: {their_seconds:.2f} {ours.seconds:.2f}")
    return int(any(tally[reason] for reason in UNEXPLAINED))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
