"""Copy the sessions of a team store inside the database, up to a million records.

Every session is copied as another one, with everything that a search reads of it.
"""

from __future__ import annotations

from typing import Any

import psycopg

__all__ = ["multiply_ours", "multiply_theirs"]

_STEP = 1 << 50
"""Between the number of a session and that of its copy."""
_OURS = (
    "session",
    "session_source",
    "record",
    "abandoned_record",
    "agent_run",
    "text",
    "session_word",
)
Db = psycopg.Connection[Any]


def multiply_ours(db: Db, times: int) -> None:
    """Copy our rows so often that there are so many times as many."""
    db.execute("SET search_path = bygones")
    if times < 2:  # noqa: PLR2004 (nothing to do)
        return
    indexes = db.execute(
        "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'bygones'"
        " AND tablename IN ('text', 'session_word')"
    ).fetchall()
    for name, _ in indexes:
        db.execute(f"DROP INDEX {name}".encode())
    for table in _OURS:
        columns = _columns(db, "bygones", table)
        changed = {
            "number": f"number + {_STEP} * t",
            "family": f"family + {_STEP} * t",
            "session": "left(session, 30) || lpad(t::text, 6, '0')",
        }
        kept = ", ".join(changed.get(name, name) for name in columns)
        db.execute(
            f"INSERT INTO {table} ({', '.join(columns)}) SELECT {kept}"  # noqa: S608 (our names)
            f" FROM {table}, generate_series(1, {times - 1:d}) AS t".encode()
        )
    db.execute("UPDATE term SET texts = texts * %s", (times,))
    db.execute(
        "UPDATE owner_stats SET texts = texts * %s, terms = terms * %s", (times,) * 2
    )
    db.execute("SET maintenance_work_mem = '512MB'")
    for _, made in indexes:
        db.execute(str(made).encode())
    db.execute("VACUUM ANALYZE")


def multiply_theirs(db: Db, times: int) -> None:
    """Copy the peer's rows as often."""
    db.execute("SET search_path = agentsview")
    if times < 2:  # noqa: PLR2004 (nothing to do)
        return
    indexes = db.execute(
        "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'agentsview'"
        " AND indexdef LIKE '%trgm%'"
    ).fetchall()
    for name, _ in indexes:
        db.execute(f"DROP INDEX {name}".encode())
    for table in ("sessions", "messages", "tool_calls", "tool_result_events"):
        columns = _columns(db, "agentsview", table)
        own = [name for name in columns if name != "id" or table == "sessions"]
        changed = {"session_id": "session_id || '-' || t", "id": "id || '-' || t"}
        kept = ", ".join(changed.get(name, f'"{name}"') for name in own)
        named = ", ".join(f'"{name}"' for name in own)
        db.execute(
            f"INSERT INTO {table} ({named}) SELECT {kept}"  # noqa: S608 (our names)
            f" FROM {table}, generate_series(1, {times - 1:d}) AS t".encode()
        )
    db.execute("SET maintenance_work_mem = '512MB'")
    for _, made in indexes:
        db.execute(str(made).encode())
    db.execute("VACUUM ANALYZE")


def _columns(db: Db, schema: str, table: str) -> list[str]:
    rows = db.execute(
        "SELECT column_name FROM information_schema.columns WHERE table_schema = %s"
        " AND table_name = %s AND is_generated = 'NEVER' ORDER BY ordinal_position",
        (schema, table),
    )
    return [row[0] for row in rows]
