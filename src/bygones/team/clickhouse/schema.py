"""The schema: what was sent lasts, what is derived is made anew.

Nothing is updated. A source is written again with a higher revision, and the highest
counts; a session gets a new number whenever it is derived, and its old one is dead.
"""

from __future__ import annotations

from zlib import crc32

from bygones.store.harvest import TABLES
from bygones.store.index import DERIVING_VERSION
from bygones.team.clickhouse.connect import ClickHouse
from bygones.team.database import columns_of

__all__ = ["DERIVED", "prepare"]

DERIVED = (*TABLES, "said", "post")
"""Tables whose rows are of a session that was derived."""
_SOON = "SETTINGS old_parts_lifetime = 1"
"""What was erased must not lie about in parts that nobody reads."""
_LASTING = {
    "holder": "holder Int64, person String, teams Array(String)",
    "source": "number Int64, holder Int64, person String, machine String, home String,"
    " path String, id String, kind String, project Nullable(String),"
    " session Nullable(String), agent Nullable(String), mtime_ns Int64,"
    " generation Int64, upto Int64, origin Int64, revision Int64, mark String,"
    " fragment String",
    "cleaned": "number Int64, clean Int64",
    "span": "number Int64, holder Int64, generation Int64, start Int64, stop Int64,"
    " origin Int64, sha256 String, address String, revision Int64",
    "object": "address String, frame String",
    "tombstone": "sign String, erased DateTime64(6, 'UTC')",
    "hold": "selector String, reason String, is_over UInt8, revision Int64",
    "stray": "address String, is_over UInt8, revision Int64",
    "note": "kind String, key String, value String, is_over UInt8, revision Int64",
    "stamp": "key String, value String, revision Int64",
}
_LATER = (("source", "mark String"), ("source", "fragment String"))
"""Columns that a table of an older version has not."""
_ENGINES = {
    "holder": "ReplacingMergeTree ORDER BY holder",
    "source": "ReplacingMergeTree(revision) ORDER BY number",
    "cleaned": "ReplacingMergeTree(clean) ORDER BY number",
    "span": "ReplacingMergeTree(revision) ORDER BY (number, generation, start)",
    "object": "ReplacingMergeTree ORDER BY address",
    "tombstone": "ReplacingMergeTree ORDER BY sign",
    "hold": "ReplacingMergeTree(revision) ORDER BY selector",
    "stray": "ReplacingMergeTree(revision) ORDER BY address",
    "note": "ReplacingMergeTree(revision) ORDER BY (kind, key)",
    "stamp": "ReplacingMergeTree(revision) ORDER BY key",
}
_ORDER = {
    "session": "holder, session, number",
    "record": "number, record",
    "edit": "path, number, place",
    "summary": "leaf, number",
    "booked": "source, number",
}
_INDEXES = {
    "record": ", INDEX by_uuid uuid TYPE bloom_filter GRANULARITY 1"
    ", INDEX by_message message TYPE bloom_filter GRANULARITY 1",
}
"""Records are opened by session, and seldom looked for by their ids."""
_WORDS = {
    "said": "text UInt32, record UInt32, kind UInt8, length UInt32",
    "post": "term String CODEC(ZSTD(1)), text UInt32 CODEC(Delta, ZSTD(1)),"
    " record UInt32 CODEC(Delta, ZSTD(1)), kind UInt8 CODEC(ZSTD(1)),"
    " length UInt32 CODEC(ZSTD(1)),"
    " places Array(UInt32) CODEC(ZSTD(1))",
}


def prepare(db: ClickHouse) -> None:
    """Make the schema; what was derived by another version is derived anew."""
    for table, columns in _LASTING.items():
        db.execute(
            f"CREATE TABLE IF NOT EXISTS {table} ({columns})"
            f" ENGINE = {_ENGINES[table]} {_SOON}"
        )
    for table, column in _LATER:
        db.execute(f"ALTER TABLE {table} ADD COLUMN IF NOT EXISTS {column}")
    stamp = (
        f"{crc32(f'{TABLES}{_WORDS}{_ORDER}{_INDEXES}{DERIVING_VERSION}'.encode()):08x}"
    )
    found = db.rows("SELECT value FROM stamp FINAL WHERE key = 'derived'", {})
    if not found or found[0][0] != stamp:
        _derive_anew(db)
        sql = "INSERT INTO stamp SELECT 'derived', %(stamp)s, toUnixTimestamp(now())"
        db.execute(sql, {"stamp": stamp})


def _derive_anew(db: ClickHouse) -> None:
    for table in (*DERIVED, "dead"):
        db.execute(f"DROP TABLE IF EXISTS {table} SYNC")
    for table in TABLES:
        db.execute(_table(table))
    owned = "holder Int64, number Int64 CODEC(Delta, ZSTD(1))"
    for table, order in (("said", "number, text"), ("post", "term, number, text")):
        db.execute(
            f"CREATE TABLE {table} ({owned}, {_WORDS[table]})"
            f" ENGINE = MergeTree ORDER BY ({order}) {_SOON}"
        )
    db.execute("CREATE TABLE dead (number Int64) ENGINE = MergeTree ORDER BY number")
    db.execute("TRUNCATE TABLE cleaned")


def _table(table: str) -> str:
    columns = ["holder Int64", "number Int64"]
    if table == "session":
        columns.append("family Int64")
    for column in columns_of(table):
        kind = "Int64" if column.is_number else "String"
        columns.append(
            f"{column.name} {f'Nullable({kind})' if column.may_miss else kind}"
        )
    order = _ORDER.get(table, "number")
    return (
        f"CREATE TABLE {table} ({', '.join(columns)}{_INDEXES.get(table, '')})"
        f" ENGINE = MergeTree ORDER BY ({order}) {_SOON}"
    )
