-- What people uploaded: the only rows that cannot be derived again.

-- A person, and the teams that may see what this person shares with them.
CREATE TABLE owner (
    owner           integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    person          text COLLATE "C" NOT NULL,
    teams           text[] NOT NULL,
    UNIQUE (person, teams)
);

-- A source is pending while derived_revision < revision. The fragment is its last line,
-- if no newline ends it; the client recognizes it by the fingerprint.
CREATE TABLE source (
    number          bigint PRIMARY KEY,
    owner           integer NOT NULL REFERENCES owner,
    person          text COLLATE "C" NOT NULL,
    machine         text COLLATE "C" NOT NULL,
    home            text COLLATE "C" NOT NULL,
    path            text COLLATE "C" NOT NULL,
    id              text COLLATE "C" NOT NULL,
    kind            text NOT NULL,
    project         text COLLATE "C",
    session         text COLLATE "C",
    agent           text COLLATE "C",
    mtime_ns        bigint NOT NULL,
    generation      integer NOT NULL DEFAULT 0,
    stored_bytes    bigint NOT NULL DEFAULT 0,
    client_offset   bigint NOT NULL DEFAULT 0,
    revision        bigint NOT NULL DEFAULT 0,
    derived_revision bigint NOT NULL DEFAULT 0,
    pending_since   timestamptz NOT NULL DEFAULT now(),
    fingerprint     bytea NOT NULL DEFAULT '',
    fragment        bytea NOT NULL DEFAULT ''
);
CREATE INDEX source_person ON source (person, machine);
CREATE INDEX source_path ON source (path);
CREATE INDEX source_id ON source (id);
CREATE INDEX source_session ON source (session);
CREATE INDEX source_pending ON source (pending_since) WHERE derived_revision < revision;

CREATE TABLE span (
    number          bigint NOT NULL,
    owner           integer NOT NULL,
    generation      integer NOT NULL,
    start           bigint NOT NULL,
    stop            bigint NOT NULL,
    client_offset   bigint NOT NULL,
    sha256          bytea NOT NULL,
    address         text NOT NULL,
    PRIMARY KEY (number, generation, start)
);
CREATE INDEX span_address ON span (address);

-- Blobs, for teams without another blob store.
CREATE TABLE object (
    address         text PRIMARY KEY,
    frame           bytea NOT NULL
);
ALTER TABLE object ALTER COLUMN frame SET STORAGE EXTERNAL;

-- What is rejected, what must not be erased, and which blobs must still be removed.
CREATE TABLE tombstone (hash bytea PRIMARY KEY, erased_at timestamptz NOT NULL);
CREATE TABLE hold (selector text PRIMARY KEY, reason text NOT NULL);
CREATE TABLE orphaned_blob (address text PRIMARY KEY);

-- What a hub stores for itself, such as tokens.
CREATE TABLE note (
    kind            text NOT NULL,
    key             text NOT NULL,
    value           bytea NOT NULL,
    PRIMARY KEY (kind, key)
);
