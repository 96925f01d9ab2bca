"""The page that describes the views of SQL, Arrow and Parquet."""

from __future__ import annotations

from collections.abc import Iterator

from bygones.data.views import VIEWS, VIEWS_VERSION, View

__all__ = ["views_page"]

_INTRODUCTION = f"""\
The views of [`bygones sql`](../guide/sql.md), version {VIEWS_VERSION}. Names and meanings
of columns stay the same within a version; columns may be added at the end of a view.

Timestamps are texts in UTC, such as `2026-01-31T12:00:00.000Z`; booleans are 0 or 1; JSON
columns contain an array or an object. Columns marked with * are read from the archive
when a query uses them."""


def views_page() -> str:
    """Return the page of all views and their columns."""
    lines = [
        "# Views",
        "",
        _INTRODUCTION,
        "",
        *(line for view in VIEWS for line in _view_lines(view)),
    ]
    return "\n".join(lines)


def _view_lines(view: View) -> Iterator[str]:
    yield f"## `{view.name}`\n"
    yield f"{view.description}\n"
    yield "| column | type | |"
    yield "|---|---|---|"
    for column in view.columns:
        mark = " *" if column.is_loaded else ""
        yield f"| `{column.name}`{mark} | {column.kind} | {column.description} |"
    yield ""
