"""Runs the harnesses at length, and writes down what they reached.

``python -m tests.faults.torture`` runs all of them in the nightly size; names choose
some, ``--size release`` takes longer still. What is too long for one sitting is cut
into parts: ``--part 1`` and so on try what no other part tries, and their figures are
added up. A row of ``docs/reliability.md`` tells only of runs that found nothing, by
which command, and since when; of parts from several days, the day of the first.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from tests.faults.sizes import SIZES

__all__ = ["FIGURES", "HARNESSES", "PAGE", "Harness", "main", "page", "row_with"]

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reliability.md"
FIGURES = Path(__file__).with_name("figures.json")
"""What was reached, by harness; the page is written from it."""
_MARK = "| harness | property | reached | command | date |\n|---|---|---|---|---|\n"


class Harness(NamedTuple):
    """A name, the property that is tried, and where."""

    name: str
    property: str
    where: tuple[str, ...]
    given: str = ""
    """What the longest run is told besides, in words of a shell."""


HARNESSES = (
    Harness(
        "kill",
        "Killed at any moment, nothing is lost and nothing comes twice.",
        ("tests/faults/test_kill.py",),
    ),
    Harness(
        "power",
        "Without power, what was acknowledged is there, and nothing is corrupt.",
        ("tests/faults/test_power.py", "tests/faults/test_tearing.py"),
    ),
    Harness(
        "failing",
        "A call that fails, a full disk: a sentence, and the next run makes it good.",
        ("tests/faults/test_failing.py",),
    ),
    Harness(
        "motion",
        "Files in motion: every byte that was there at a look is archived, once.",
        ("tests/properties/test_changing_sources.py",),
    ),
    Harness(
        "live",
        "Written while it is watched: whole lines, all of them, and soon.",
        ("tests/faults/test_live.py",),
    ),
    Harness(
        "rot",
        "A bit that flips is found, and costs the chunk that it is in.",
        ("tests/maintenance/test_damage.py",),
    ),
    Harness(
        "size",
        "A line of any length, sessions without number: kept, found, and quick.",
        ("tests/faults/test_size.py",),
    ),
    Harness(
        "load",
        "Eight read and four write: no error is heard, and reading stays quick.",
        ("tests/faults/test_load.py",),
        "BYGONES_LOAD_HOME=HOME ",
    ),
    Harness(
        "places",
        "Readers that fork, media that nobody may write to: the archive answers.",
        ("tests/faults/test_places.py",),
    ),
    Harness(
        "lasting",
        "Without its sources, as a backup, of another version: the archive answers.",
        ("tests/faults/test_lasting.py",),
    ),
    Harness(
        "clock",
        "Whatever the clock says, and the times of files: the same is kept and found.",
        ("tests/faults/test_clock.py",),
    ),
    Harness(
        "erasure",
        "What was purged is nowhere any more, in no byte of ours.",
        ("tests/faults/test_erasure.py",),
    ),
    Harness(
        "fuzz",
        "Hostile bytes raise nothing but our errors.",
        ("tests/faults/test_fuzzing.py",),
    ),
    Harness(
        "scripts",
        "Nothing of a transcript runs in a browser, and nothing leaves it.",
        (
            "tests/browser/test_hostile.py",
            "tests/browser/test_hostile_lists.py",
            "tests/browser/test_hostile_site.py",
        ),
    ),
    Harness(
        "hub",
        "Engine, hub or pusher killed: nothing is lost, nothing comes twice.",
        ("tests/hub/test_killing.py",),
    ),
    Harness(
        "doors",
        "No name leads out, nobody gets in: every route, every command, every tool.",
        (
            "tests/faults/test_doors.py",
            "tests/faults/test_entrance.py",
            "tests/web/test_security.py",
            "tests/hub/test_names.py",
        ),
    ),
)


def main(words: list[str]) -> int:
    """Run what is asked for; return 0 if nothing was found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", choices=[*(h.name for h in HARNESSES), []])
    parser.add_argument("--size", choices=SIZES, default="nightly")
    parser.add_argument("--part", type=int, default=0)
    parser.add_argument("--jobs", default="2")
    asked = parser.parse_args(words)
    failed = False
    for harness in HARNESSES:
        if asked.names and harness.name not in asked.names:
            continue
        figures = run(harness, asked.size, asked.part, asked.jobs)
        if figures is None:
            failed = True
            continue
        known = json.loads(FIGURES.read_text("utf-8"))
        before = known.get(harness.name)
        known[harness.name] = row_with(before, asked.part, figures, asked.size)
        FIGURES.write_text(json.dumps(known, indent=1) + "\n", "utf-8")
        PAGE.write_text(page(PAGE.read_text("utf-8"), known), "utf-8")
    return int(failed)


def row_with(
    row: Mapping[str, Any] | None, part: int, figures: Mapping[str, int], size: str
) -> dict[str, Any]:
    """Return what is known of a harness once a part of a run has told its figures."""
    before = row if part and row is not None and row["size"] == size else None
    parts = {**(before["parts"] if before else {}), str(part): dict(figures)}
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    day = min(before["day"], today) if before else today
    return {"size": size, "day": day, "parts": parts}


def run(harness: Harness, size: str, part: int, jobs: str) -> Counter[str] | None:
    """Run one harness; return what it reached, or ``None`` if it found something."""
    with tempfile.TemporaryDirectory() as folder:
        figures = Path(folder) / "figures"
        figures.touch()
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-n", jobs, *harness.where],
            cwd=ROOT,
            env={
                **os.environ,
                "BYGONES_SIZE": size,
                "BYGONES_PART": str(part),
                "BYGONES_FIGURES": str(figures),
            },
            check=False,
        )
        found: Counter[str] = Counter()
        for line in figures.read_text("utf-8").splitlines():
            what, count = json.loads(line)
            found[what] += count
    return found if done.returncode == 0 else None


def told(row: Mapping[str, Any]) -> str:
    """Return the figures of all parts as words."""
    figures: Counter[str] = Counter()
    for part in row["parts"].values():
        figures.update(part)
    return "; ".join(f"{count:,} {what}" for what, count in figures.items())


def command(harness: Harness, row: Mapping[str, Any]) -> str:
    """Return what was run for a row; of its parts, each in its turn."""
    parts = " and ".join(f"`--part {part}`" for part in row["parts"] if part != "0")
    given = harness.given if row["size"] == SIZES[-1] else ""
    words = f"`{given}just torture {harness.name} --size {row['size']}`"
    if not parts:
        return words
    return f"{words}, then {parts}" if "0" in row["parts"] else f"{words}, {parts}"


def page(text: str, rows: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the page with a row for each harness that ran."""
    head, _, rest = text.partition(_MARK)
    _, _, tail = rest.partition("\n\n")
    lines = "\n".join(
        f"| `{harness.name}` | {harness.property} | {told(row)}"
        f" | {command(harness, row)} | {row['day']} |"
        for harness in HARNESSES
        if (row := rows.get(harness.name))
    )
    return f"{head}{_MARK}{lines}\n\n{tail}".rstrip() + "\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
