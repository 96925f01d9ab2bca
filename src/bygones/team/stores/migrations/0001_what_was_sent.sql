-- What people sent: the only rows here that cannot be derived again.
CREATE TABLE holder (
    holder      integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    person      text COLLATE "C" NOT NULL,
    teams       text[] NOT NULL,
    UNIQUE (person, teams)
);

CREATE TABLE source (
    number      bigint PRIMARY KEY,
    holder      integer NOT NULL REFERENCES holder,
    person      text COLLATE "C" NOT NULL,
    machine     text COLLATE "C" NOT NULL,
    home        text COLLATE "C" NOT NULL,
    path        text COLLATE "C" NOT NULL,
    id          text COLLATE "C" NOT NULL,
    kind        text NOT NULL,
    project     text COLLATE "C",
    session     text COLLATE "C",
    agent       text COLLATE "C",
    mtime_ns    bigint NOT NULL,
    generation  integer NOT NULL DEFAULT 0,
    upto        bigint NOT NULL DEFAULT 0,
    origin      bigint NOT NULL DEFAULT 0,
    revision    bigint NOT NULL DEFAULT 0,
    clean       bigint NOT NULL DEFAULT 0,
    waits       timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX source_person ON source (person, machine);
CREATE INDEX source_path ON source (path);
CREATE INDEX source_id ON source (id);
CREATE INDEX source_touched ON source (waits) WHERE clean < revision;

CREATE TABLE span (
    number      bigint NOT NULL,
    holder      integer NOT NULL,
    generation  integer NOT NULL,
    start       bigint NOT NULL,
    stop        bigint NOT NULL,
    origin      bigint NOT NULL,
    sha256      bytea NOT NULL,
    address     text NOT NULL,
    PRIMARY KEY (number, generation, start)
);
CREATE INDEX span_address ON span (address);

-- Bytes, where no other raw store was named.
CREATE TABLE object (
    address     text PRIMARY KEY,
    frame       bytea NOT NULL
);
ALTER TABLE object ALTER COLUMN frame SET STORAGE EXTERNAL;

-- What is refused, what may not be erased, and which objects are still to be removed.
CREATE TABLE tombstone (sign bytea PRIMARY KEY, erased timestamptz NOT NULL);
CREATE TABLE hold (selector text PRIMARY KEY, reason text NOT NULL);
CREATE TABLE stray (address text PRIMARY KEY);

-- What a hub keeps for itself.
CREATE TABLE note (
    kind        text NOT NULL,
    key         text NOT NULL,
    value       bytea NOT NULL,
    PRIMARY KEY (kind, key)
);
