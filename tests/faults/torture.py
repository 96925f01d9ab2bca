"""Runs the harnesses at length, and writes down what they reached.

``python -m tests.faults.torture`` runs all of them in the nightly size; names choose
some, ``--size release`` takes longer still. A row of ``docs/reliability.md`` is
written only for a harness that ran and found nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from tests.faults.sizes import SIZES

__all__ = ["HARNESSES", "Harness", "main", "page"]

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reliability.md"
_MARK = "| harness | property | reached | size | date |\n|---|---|---|---|---|\n"


class Harness(NamedTuple):
    """A name, the property that is tried, and where."""

    name: str
    property: str
    where: tuple[str, ...]


HARNESSES = (
    Harness(
        "kill",
        "Killed at any moment, nothing is lost and nothing comes twice.",
        ("tests/faults/test_kill.py",),
    ),
    Harness(
        "power",
        "Without power, what was acknowledged is there, and nothing is corrupt.",
        ("tests/faults/test_power.py",),
    ),
    Harness(
        "failing",
        "A call that fails, a full disk: a sentence, and the next run makes it good.",
        ("tests/faults/test_failing.py",),
    ),
    Harness(
        "motion",
        "Files in motion: every byte that was there at a look is archived.",
        ("tests/properties/test_sources_machine.py",),
    ),
    Harness(
        "rot",
        "A bit that flips is found, and costs the chunk that it is in.",
        ("tests/upkeep/test_rot.py",),
    ),
    Harness(
        "fuzz",
        "Hostile bytes raise nothing but our errors.",
        ("tests/faults/test_fuzzing.py",),
    ),
    Harness(
        "doors",
        "No name leads out, and nobody gets in: every route, every command.",
        ("tests/faults/test_doors.py", "tests/web/test_gate.py"),
    ),
)


def main(words: list[str]) -> int:
    """Run what is asked for; return 0 if nothing was found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", choices=[*(h.name for h in HARNESSES), []])
    parser.add_argument("--size", choices=SIZES, default="nightly")
    asked = parser.parse_args(words)
    failed = False
    for harness in HARNESSES:
        if asked.names and harness.name not in asked.names:
            continue
        figures = run(harness, asked.size)
        if figures is None:
            failed = True
            continue
        row = f"{told(figures)} | {asked.size} | {datetime.now(UTC):%Y-%m-%d}"
        PAGE.write_text(page(PAGE.read_text("utf-8"), harness, row), "utf-8")
    return int(failed)


def run(harness: Harness, size: str) -> Counter[str] | None:
    """Run one harness; return what it reached, or ``None`` if it found something."""
    with tempfile.TemporaryDirectory() as folder:
        figures = Path(folder) / "figures"
        figures.touch()
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-n", "2", *harness.where],
            cwd=ROOT,
            env={
                **os.environ,
                "RECOLLECT_SIZE": size,
                "RECOLLECT_FIGURES": str(figures),
            },
            check=False,
        )
        found: Counter[str] = Counter()
        for line in figures.read_text("utf-8").splitlines():
            what, count = json.loads(line)
            found[what] += count
    return found if done.returncode == 0 else None


def told(figures: Counter[str]) -> str:
    """Return figures as words."""
    return ", ".join(f"{count:,} {what}" for what, count in figures.items())


def page(text: str, harness: Harness, row: str) -> str:
    """Return the page with the row of a harness, in place of its older one."""
    head, _, rest = text.partition(_MARK)
    table, _, tail = rest.partition("\n\n")
    rows = dict(re.findall(r"^\| `([\w-]+)` \| (.*) \|$", table, re.MULTILINE))
    rows[harness.name] = f"{harness.property} | {row}"
    order = [one.name for one in HARNESSES if one.name in rows]
    lines = "\n".join(f"| `{name}` | {rows[name]} |" for name in order)
    return f"{head}{_MARK}{lines}\n\n{tail}".rstrip() + "\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
