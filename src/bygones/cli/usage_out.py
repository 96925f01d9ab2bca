"""Usage for programs: one JSON object a line, or a table for spreadsheets."""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from msgspec import structs

from bygones.cli.rows import BeginRow, print_row
from bygones.model.reports import (
    NANOS,
    ContextReport,
    ContextRow,
    ToolRow,
    UsageReport,
    UsageRow,
)
from bygones.render.encode import encoded
from bygones.render.safe import safe_line

__all__ = ["print_csv", "print_json"]

_MONEY = frozenset({"cost", "estimated_cost", "cost_per_hour", "projected_cost"})


Rows = Sequence[UsageRow | ToolRow | ContextRow]


def print_json(report: UsageReport | ContextReport, rows: Rows, folder: Path) -> None:
    """Print some rows, and behind them the report without its rows."""
    print_row(BeginRow.of("usage", folder))
    for row in (*rows, structs.replace(report, rows=())):
        sys.stdout.write(f"{encoded(row)}\n")


def print_csv(rows: Rows) -> None:
    """Print a heading and the rows; money is in dollars, to its last digit."""
    if not rows:
        return
    flat = [_flat(row) for row in rows]
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(flat[0])
    for cells in flat:
        writer.writerow([_cell(name, value) for name, value in cells.items()])


def _flat(row: UsageRow | ToolRow | ContextRow) -> dict[str, object]:
    """Return a row's columns; what a block of five hours has more stands behind."""
    cells = structs.asdict(row)
    block = cells.pop("block", None)
    return cells | (structs.asdict(block) if block is not None else {})


def _cell(name: str, value: object) -> str:
    if value is None:
        return ""
    if name in _MONEY and isinstance(value, int):
        return f"{value // NANOS}.{value % NANOS:09}"
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    text = " ".join(value) if isinstance(value, tuple) else str(value)
    # A spreadsheet must not take what a transcript says for a formula.
    return f"'{text}" if text[:1] in {"=", "+", "-", "@"} else safe_line(text)
