-- Every byte that Claude Code wrote, by source and generation. Nothing here is derived,
-- so nothing here can be rebuilt; it is only ever migrated.

CREATE TABLE identity (
    archive     TEXT NOT NULL,
    created_ns  INTEGER NOT NULL
) STRICT;

-- A file of a home. It keeps its number when it is moved, and its row when it is gone.
CREATE TABLE source (
    id          INTEGER PRIMARY KEY,
    home        TEXT NOT NULL,
    path        TEXT NOT NULL,
    kind        TEXT NOT NULL,
    project     TEXT,
    session     TEXT,
    agent       TEXT,
    generation  INTEGER NOT NULL,
    gone_ns     INTEGER,
    UNIQUE (home, path)
) STRICT;

-- How much of a generation of a source is stored (`kept`), with fingerprints of its bytes
-- and the state of its file.
CREATE TABLE generation (
    source      INTEGER NOT NULL REFERENCES source (id),
    generation  INTEGER NOT NULL,
    kept        INTEGER NOT NULL,
    size        INTEGER NOT NULL,
    mtime_ns    INTEGER NOT NULL,
    ctime_ns    INTEGER NOT NULL,
    inode       INTEGER NOT NULL,
    head        BLOB NOT NULL,
    tail        BLOB NOT NULL,
    rest        BLOB NOT NULL,
    PRIMARY KEY (source, generation)
) STRICT, WITHOUT ROWID;

-- Bytes from start to stop, compressed, and the hash of the bytes themselves.
CREATE TABLE chunk (
    id          INTEGER PRIMARY KEY,
    source      INTEGER NOT NULL REFERENCES source (id),
    generation  INTEGER NOT NULL,
    start       INTEGER NOT NULL,
    stop        INTEGER NOT NULL,
    hash        BLOB NOT NULL,
    frame       BLOB NOT NULL,
    UNIQUE (source, generation, start)
) STRICT;

-- An unfinished last line: replaced when it grows, deleted when it is finished.
CREATE TABLE fragment (
    source      INTEGER NOT NULL REFERENCES source (id),
    generation  INTEGER NOT NULL,
    start       INTEGER NOT NULL,
    hash        BLOB NOT NULL,
    frame       BLOB NOT NULL,
    PRIMARY KEY (source, generation)
) STRICT;

-- What users add to sessions: the only data here that is not in a transcript.
CREATE TABLE annotation (
    session     TEXT NOT NULL,
    kind        TEXT NOT NULL,
    value       TEXT NOT NULL,
    added_ns    INTEGER NOT NULL,
    PRIMARY KEY (session, kind, value)
) STRICT, WITHOUT ROWID;

-- What was purged and must not be imported again: hashes of paths and ids, no content.
CREATE TABLE purged (
    hash        BLOB PRIMARY KEY,
    purged_ns   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
