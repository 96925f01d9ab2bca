"""Run the fault harnesses at length, and write their results to the reliability page.

``python -m tests.faults.torture`` runs all of them in the nightly size; names select
some, ``--size release`` takes longer. At the end it prints a table in Markdown with what
was run, on which commit, and for how long. A long run can be split into parts: ``--part 1``
and so on use other seeds, and their figures are added up. ``docs/reliability.md`` lists
only runs that found nothing, with command, date and commit; of parts from several days,
the date of the first.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from tests.faults.sizes import SIZES

__all__ = [
    "FIGURES",
    "HARNESSES",
    "PAGE",
    "Harness",
    "command",
    "main",
    "page",
    "row_with",
    "total_figures",
]

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reliability.md"
FIGURES = Path(__file__).with_name("figures.json")
"""The results by harness, from which the tables of the page are written."""
_MAX_TEST_SECONDS = 3 * 3600
"""Of one test; on a busy machine, tests at length take longer than all others may."""
_HARNESS_HEADER = (
    "| harness | what must hold | last run | date | commit |\n|---|---|---|---|---|\n"
)
_SUMMARY_HEADER = (
    "\n| harness | size | result | time | commit | tried |\n"
    "|---|---|---|---:|---|---|\n"
)
_FIGURES_HEADER = "| harness | tried or measured | result |\n|---|---|---:|\n"


class Harness(NamedTuple):
    """A fault harness: its name, what must hold, and its test files."""

    name: str
    property: str
    test_files: tuple[str, ...]
    variables: str = ""
    """Environment variables of the longest run, as in a shell."""


HARNESSES = (
    Harness(
        "kill",
        "A command that is killed at any moment loses nothing and stores nothing twice.",
        ("tests/faults/test_kill.py",),
    ),
    Harness(
        "power",
        "After a power cut, committed data is there and nothing is corrupt.",
        ("tests/faults/test_power.py", "tests/faults/test_tearing.py"),
    ),
    Harness(
        "failing",
        "A failed system call or a full disk is reported, and the next run recovers.",
        ("tests/faults/test_failing.py",),
    ),
    Harness(
        "motion",
        "Every byte that an import could see is stored once, however files change.",
        ("tests/properties/test_changing_sources.py",),
    ),
    Harness(
        "live",
        "`watch` stores every complete line while files are written, within two seconds.",
        ("tests/faults/test_live.py",),
    ),
    Harness(
        "rot",
        "A flipped bit is detected and affects only its chunk; no search is wrong.",
        (
            "tests/maintenance/test_damage.py",
            "tests/maintenance/test_index_damage.py",
            "tests/maintenance/test_repair.py",
        ),
    ),
    Harness(
        "size",
        "Very long lines and very many sessions are stored, found and listed quickly.",
        ("tests/faults/test_size.py",),
    ),
    Harness(
        "junk",
        "A file of junk costs at most a small multiple of its size.",
        ("tests/faults/test_junk.py",),
    ),
    Harness(
        "cost",
        "Twice as many records cost about twice as much, whatever their shape.",
        ("tests/faults/test_cost.py",),
    ),
    Harness(
        "load",
        "Eight readers and four writers see no errors, and reading stays fast.",
        ("tests/faults/test_load.py",),
        "BYGONES_LOAD_HOME=HOME ",
    ),
    Harness(
        "places",
        "Forked processes can read, and archives on read-only media can be read.",
        ("tests/faults/test_places.py",),
    ),
    Harness(
        "lasting",
        "The archive outlives its sources, backups are complete, other versions are safe.",
        ("tests/faults/test_lasting.py",),
    ),
    Harness(
        "clock",
        "Wrong clocks and odd file times change nothing in what is stored and found.",
        ("tests/faults/test_clock.py",),
    ),
    Harness(
        "erasure",
        "Purged data is in no file of the archive.",
        ("tests/faults/test_erasure.py",),
    ),
    Harness(
        "fuzz",
        "Hostile input raises only documented errors.",
        ("tests/faults/test_fuzzing.py",),
    ),
    Harness(
        "scripts",
        "No content of a transcript runs in the browser or causes a request.",
        (
            "tests/browser/test_hostile.py",
            "tests/browser/test_hostile_lists.py",
            "tests/browser/test_hostile_site.py",
        ),
    ),
    Harness(
        "hub",
        "Killing database, hub or client loses nothing; uploads that expand do no harm.",
        ("tests/hub/test_killing.py", "tests/hub/test_bombs.py"),
    ),
    Harness(
        "doors",
        "No route, command or tool reads outside its data or answers without a login.",
        (
            "tests/faults/test_doors.py",
            "tests/faults/test_entrance.py",
            "tests/web/test_security.py",
            "tests/hub/test_names.py",
        ),
    ),
)


def main(arguments: list[str]) -> int:
    """Run the selected harnesses; return 0 if all of them passed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", choices=[*(h.name for h in HARNESSES), []])
    parser.add_argument("--size", choices=SIZES, default="nightly")
    parser.add_argument("--part", type=int, default=0)
    parser.add_argument("--jobs", default="2")
    options = parser.parse_args(arguments)
    summary: list[str] = []
    failed = False
    for harness in HARNESSES:
        if options.names and harness.name not in options.names:
            continue
        commit, started = current_commit(), time.monotonic()
        figures = run(harness, options.size, options.part, options.jobs)
        seconds = round(time.monotonic() - started)
        summary.append(
            summary_row(harness, options.size, figures, commit=commit, seconds=seconds)
        )
        sys.stdout.write(_SUMMARY_HEADER + "\n".join(summary) + "\n")
        if figures is None:
            failed = True
            continue
        known = json.loads(FIGURES.read_text("utf-8"))
        before = known.get(harness.name)
        row = row_with(before, options.part, figures, options.size)
        known[harness.name] = {"commit": commit, **row}
        FIGURES.write_text(json.dumps(known, indent=1) + "\n", "utf-8")
        PAGE.write_text(page(PAGE.read_text("utf-8"), known), "utf-8")
    return int(failed)


def summary_row(
    harness: Harness,
    size: str,
    figures: Mapping[str, int] | None,
    *,
    commit: str,
    seconds: int,
) -> str:
    """Return the row of one run in the table that is printed."""
    result = "**failed**" if figures is None else "passed"
    tried = "; ".join(f"{count:,} {what}" for what, count in (figures or {}).items())
    return (
        f"| `{harness.name}` | {size} | {result} | {seconds:,} s | {commit} | {tried} |"
    )


def row_with(
    row: Mapping[str, Any] | None, part: int, figures: Mapping[str, int], size: str
) -> dict[str, Any]:
    """Add the figures of a part of a run to the results of a harness."""
    before = row if part and row is not None and row["size"] == size else None
    parts = {**(before["parts"] if before else {}), str(part): dict(figures)}
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    day = min(before["day"], today) if before else today
    first = {"commit": before["commit"]} if before and "commit" in before else {}
    return {"size": size, "day": day, **first, "parts": parts}


def current_commit() -> str:
    """Return the commit that is tested; a star marks changes that are not committed."""
    git = ["git", "-C", str(ROOT)]
    done = subprocess.run(
        [*git, "rev-parse", "--short=10", "HEAD"], stdout=-1, check=False
    )
    changed = subprocess.run(
        [*git, "diff", "--quiet", "HEAD", "--", "src"], check=False
    )
    return done.stdout.decode().strip() + "*" * bool(changed.returncode)


def run(harness: Harness, size: str, part: int, jobs: str) -> Counter[str] | None:
    """Run one harness; return its figures, or ``None`` if it failed."""
    with tempfile.TemporaryDirectory() as folder:
        figures = Path(folder) / "figures"
        figures.touch()
        process = subprocess.run(
            [
                *(sys.executable, "-m", "pytest", "--full", "-q", "-n", jobs),
                f"--timeout={_MAX_TEST_SECONDS}",
                *harness.test_files,
            ],
            cwd=ROOT,
            env={
                **os.environ,
                "BYGONES_SIZE": size,
                "BYGONES_PART": str(part),
                "BYGONES_FIGURES": str(figures),
            },
            check=False,
        )
        figures_found: Counter[str] = Counter()
        for line in figures.read_text("utf-8").splitlines():
            what, count = json.loads(line)
            figures_found[what] += count
    return figures_found if process.returncode == 0 else None


def total_figures(row: Mapping[str, Any]) -> dict[str, int]:
    """Return the sums over all parts, sorted by what was tried."""
    figures: Counter[str] = Counter()
    for part in row["parts"].values():
        figures.update(part)
    return dict(sorted(figures.items()))


def command(harness: Harness, row: Mapping[str, Any]) -> str:
    """Return the command of a run, and its parts."""
    parts = " and ".join(f"`--part {part}`" for part in row["parts"] if part != "0")
    variables = harness.variables if row["size"] == SIZES[-1] else ""
    line = f"`{variables}just torture {harness.name} --size {row['size']}`"
    if not parts:
        return line
    return f"{line}, then {parts}" if "0" in row["parts"] else f"{line}, {parts}"


def page(text: str, rows: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the page with the results of all harnesses that ran."""
    ran = [
        (harness, rows[harness.name]) for harness in HARNESSES if harness.name in rows
    ]
    harnesses = (
        f"| `{harness.name}` | {harness.property} | {command(harness, row)}"
        f" | {row['day']} | {row.get('commit', 'not recorded')} |"
        for harness, row in ran
    )
    figures = (
        f"| {f'`{harness.name}`' if not number else ''} | {what} | {count:,} |"
        for harness, row in ran
        for number, (what, count) in enumerate(total_figures(row).items())
    )
    text = _replace_table(text, _HARNESS_HEADER, harnesses)
    return _replace_table(text, _FIGURES_HEADER, figures)


def _replace_table(text: str, header: str, lines: Iterable[str]) -> str:
    before, _, rest = text.partition(header)
    after = re.sub(r"\A(?:\|.*\n)+", "", rest)
    return "".join([before, header, *(f"{line}\n" for line in lines), after])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
