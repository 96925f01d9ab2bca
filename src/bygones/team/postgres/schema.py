"""The schema: what was sent is migrated, what is derived is made anew."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from zlib import crc32

from bygones.errors import ArchiveTooNew, StoreError
from bygones.store.harvest import TABLES
from bygones.store.index import DERIVING_VERSION
from bygones.team.database import columns_of
from bygones.team.postgres.connect import READER, Postgres

__all__ = ["prepare", "steps"]

_HERE = Path(__file__).parent
_INDEXES = (
    "session USING hash (session)",
    "session (family)",
    "session (ended_ms)",
    "booked (source)",
    "record (number, record)",
    "record (uuid)",
    "record (message) WHERE message IS NOT NULL",
    "edit (path)",
    "summary (leaf)",
    "problem (source)",
)
_WORDS = ("said", "word", "total", "post", "segment", "filed", "stand")
_SEEN = ("holder", "source", "span", "said", "word", "total", "post", "stand")
"""Tables that readers see, besides those of sessions."""
_FUNCTIONS = (
    "matching(tsquery)",
    "matching_both(tsquery, tsquery)",
    "standing(text, text[], boolean)",
)
"""What readers may ask for with the rights of whoever made it."""


def steps() -> Iterator[tuple[int, str]]:
    """Yield the numbers and texts of all steps, in order."""
    for path in sorted((_HERE / "migrations").glob("*.sql")):
        yield int(path.name[:4]), path.read_text("utf-8")


def prepare(db: Postgres) -> None:
    """Make or migrate the schema; whoever comes at the same time waits."""
    with db.at_once():
        db.execute("SELECT pg_advisory_xact_lock(7325662)")
        db.execute("CREATE SCHEMA IF NOT EXISTS bygones")
        db.execute("SET LOCAL search_path = bygones, public")
        db.execute(
            "CREATE TABLE IF NOT EXISTS stamp (key text PRIMARY KEY, value text)"
        )
        _migrate(db)
        stamp = _stamp()
        if _stamped(db, "derived") != stamp:
            _derive_anew(db)
            _set_stamp(db, "derived", stamp)


def _migrate(db: Postgres) -> None:
    found = int(_stamped(db, "version") or 0)
    latest = max(number for number, _ in steps())
    if found > latest:
        raise ArchiveTooNew(Path("the team's store"), found=found, known=latest)
    for number, sql in steps():
        if number > found:
            db.execute(sql)
            _set_stamp(db, "version", str(number))


def _derive_anew(db: Postgres) -> None:
    """Make the derived tables anew, and have everything derived again."""
    for table in (*TABLES, *_WORDS):
        db.execute(f"DROP TABLE IF EXISTS {table} CASCADE")
    for function in (*_FUNCTIONS, "visible()"):
        db.execute(f"DROP FUNCTION IF EXISTS {function} CASCADE")
    for table in TABLES:
        db.execute(_table(table))
        if table not in {"session", "record"}:
            db.execute(f"CREATE INDEX ON {table} (number)")
    for place in _INDEXES:
        db.execute(f"CREATE INDEX ON {place}")
    db.execute((_HERE / "layout.sql").read_text("utf-8"))
    _secure(db)
    db.execute("UPDATE source SET revision = revision + 1, clean = 0")


def _table(table: str) -> str:
    columns = ["holder integer NOT NULL", "number bigint NOT NULL"]
    if table == "session":
        columns[1] = "number bigint PRIMARY KEY"
        columns.append("family bigint NOT NULL")
    for column in columns_of(table):
        kind = 'text COLLATE "C"'
        kind = "bigint" if column.is_number else "bytea" if column.is_bytes else kind
        columns.append(f"{column.name} {kind}{'' if column.may_miss else ' NOT NULL'}")
    return f"CREATE TABLE {table} ({', '.join(columns)})"


def _secure(db: Postgres) -> None:
    """Let readers see rows of those holders only that are set on their connection."""
    _make_reader(db)
    db.execute(f"GRANT USAGE ON SCHEMA bygones TO {READER}")
    for table in (*TABLES, *_SEEN):
        db.execute(f"GRANT SELECT ON {table} TO {READER}")
        db.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
        db.execute(f"DROP POLICY IF EXISTS seen ON {table}")
        db.execute(
            f"CREATE POLICY seen ON {table} FOR SELECT TO {READER}"
            " USING (holder = ANY ((SELECT visible())::integer[]))"
        )
    for function in _FUNCTIONS:
        db.execute(f"REVOKE ALL ON FUNCTION {function} FROM PUBLIC")
        db.execute(f"GRANT EXECUTE ON FUNCTION {function} TO {READER}")


def _make_reader(db: Postgres) -> None:
    """Make the role of readers, or take the one that somebody has made."""
    found = db.rows(
        "SELECT pg_has_role(current_user, oid, 'MEMBER') FROM pg_roles"
        " WHERE rolname = %(reader)s",
        {"reader": READER},
    )
    if found and found[0][0]:
        return
    if not found:
        rows = db.rows(
            "SELECT rolsuper OR rolcreaterole FROM pg_roles"
            " WHERE rolname = current_user",
            {},
        )
        if not rows[0][0]:
            raise StoreError(
                "its user may not make roles; have somebody who may do this once:"
                f" CREATE ROLE {READER}; GRANT {READER} TO …"
            )
        db.execute(
            f"DO $$ BEGIN CREATE ROLE {READER} NOLOGIN;"
            " EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$"
        )
    db.execute(f"GRANT {READER} TO CURRENT_USER")


def _stamp() -> str:
    layout = (_HERE / "layout.sql").read_text("utf-8")
    return f"{crc32(f'{TABLES}{_INDEXES}{layout}{DERIVING_VERSION}'.encode()):08x}"


def _stamped(db: Postgres, key: str) -> str | None:
    rows = db.rows("SELECT value FROM stamp WHERE key = %(key)s", {"key": key})
    return rows[0][0] if rows else None


def _set_stamp(db: Postgres, key: str, value: str) -> None:
    db.execute(
        "INSERT INTO stamp VALUES (%(key)s, %(value)s)"
        " ON CONFLICT (key) DO UPDATE SET value = excluded.value",
        {"key": key, "value": value},
    )
