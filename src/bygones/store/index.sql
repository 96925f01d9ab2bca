-- Conclusions drawn from the archive. Everything here can be thrown away.

CREATE TABLE stamp (
    key         TEXT PRIMARY KEY,
    value       TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Sessions by number, because millions of rows name one.
CREATE TABLE name (
    number      INTEGER PRIMARY KEY,
    session     TEXT NOT NULL UNIQUE
) STRICT;

-- Up to where each source of the archive has been seen, the session it is of, and by
-- which sign the archive knew it then: it may be moved or touched and grow no longer.
CREATE TABLE seen (
    source      INTEGER PRIMARY KEY,
    generation  INTEGER NOT NULL,
    upto        INTEGER NOT NULL,
    session     INTEGER,
    sign        INTEGER NOT NULL
) STRICT;
CREATE INDEX seen_session ON seen (session);

-- Nodes of a stretch of a source, packed and compressed.
CREATE TABLE page (
    source      INTEGER NOT NULL,
    start       INTEGER NOT NULL,
    nodes       INTEGER NOT NULL,
    frame       BLOB NOT NULL,
    PRIMARY KEY (source, start)
) STRICT;

-- Every record that has an id, and where it stands. Ids are kept as numbers: half of
-- a uuid and a checksum, or a hash. An answer's pieces share the number of its message.
CREATE TABLE record (
    id          INTEGER PRIMARY KEY,
    uuid        INTEGER NOT NULL,
    message     INTEGER,
    session     INTEGER NOT NULL,
    source      INTEGER NOT NULL,
    offset      INTEGER NOT NULL,
    length      INTEGER NOT NULL
) STRICT;

-- How much a source says: documents and characters, for each part.
CREATE TABLE said (
    source      INTEGER PRIMARY KEY,
    lengths     BLOB NOT NULL
) STRICT;

-- Records whose words must still be taken out of the text index.
CREATE TABLE unsaid (
    record      INTEGER PRIMARY KEY
) STRICT;

CREATE TABLE problem (
    source      INTEGER NOT NULL,
    offset      INTEGER NOT NULL,
    length      INTEGER NOT NULL,
    kind        TEXT NOT NULL,
    detail      TEXT NOT NULL
) STRICT;
CREATE INDEX problem_source ON problem (source);

-- Types, subtypes and fields that this version knows nothing of.
CREATE TABLE drift (
    source      INTEGER NOT NULL,
    what        TEXT NOT NULL,
    name        TEXT NOT NULL,
    version     TEXT NOT NULL,
    count       INTEGER NOT NULL,
    PRIMARY KEY (source, what, name, version)
) STRICT, WITHOUT ROWID;

-- Titles of leaves, wherever they stand.
CREATE TABLE summary (
    leaf        INTEGER NOT NULL,
    source      INTEGER NOT NULL,
    offset      INTEGER NOT NULL,
    record      TEXT NOT NULL,
    text        TEXT NOT NULL,
    PRIMARY KEY (leaf, source, offset)
) STRICT, WITHOUT ROWID;
CREATE INDEX summary_source ON summary (source);

-- Sessions that must be derived anew before they are shown.
CREATE TABLE dirty (
    session     INTEGER PRIMARY KEY
) STRICT;

-- What a list of sessions shows; the rest is assembled from the nodes. Sessions that
-- share records or answers are one family and are derived together.
CREATE TABLE session (
    number      INTEGER PRIMARY KEY,
    family      INTEGER NOT NULL,
    project     TEXT,
    started_ms  INTEGER,
    ended_ms    INTEGER,
    is_empty    INTEGER NOT NULL,
    title       TEXT NOT NULL,
    lengths     BLOB NOT NULL,
    listed      BLOB NOT NULL
) STRICT;
-- Its title is there to be searched, if it was given one: else the words of a prompt
-- would count twice. Lengths are those of its sources. The index of families has all
-- that a search must know of every session, on a quarter of the pages.
CREATE INDEX session_family ON session (family, ended_ms, title, lengths);
CREATE INDEX session_ended ON session (ended_ms);
CREATE INDEX session_project ON session (project, ended_ms);

-- Who spends, and on what: a session or one of its agents, a model and its terms.
CREATE TABLE purse (
    number      INTEGER PRIMARY KEY,
    session     INTEGER NOT NULL,
    agent       TEXT,
    agent_type  TEXT,
    model       TEXT,
    terms       TEXT NOT NULL,
    entrypoint  TEXT
) STRICT;
CREATE INDEX purse_session ON purse (session);

-- The tokens of every answer, and the purse that paid for it.
CREATE TABLE spend (
    purse       INTEGER NOT NULL,
    record      INTEGER NOT NULL,
    time_ms     INTEGER,
    branch      INTEGER NOT NULL,
    input       INTEGER NOT NULL,
    output      INTEGER NOT NULL,
    write_5m    INTEGER NOT NULL,
    write_1h    INTEGER NOT NULL,
    read        INTEGER NOT NULL,
    searches    INTEGER NOT NULL,
    estimate    INTEGER NOT NULL
) STRICT;
CREATE INDEX spend_purse ON spend (purse);

-- The same, summed by quarter of an hour and by hundred thousand tokens of context.
CREATE TABLE spell (
    purse       INTEGER NOT NULL,
    quarter     INTEGER,
    step        INTEGER NOT NULL,
    rewound     INTEGER NOT NULL,
    answers     INTEGER NOT NULL,
    input       INTEGER NOT NULL,
    output      INTEGER NOT NULL,
    write_5m    INTEGER NOT NULL,
    write_1h    INTEGER NOT NULL,
    read        INTEGER NOT NULL,
    searches    INTEGER NOT NULL,
    guessed     INTEGER NOT NULL,
    first_ms    INTEGER,
    last_ms     INTEGER
) STRICT;
CREATE INDEX spell_purse ON spell (purse);

-- What tools put into contexts, by quarter of an hour.
CREATE TABLE fill (
    session     INTEGER NOT NULL,
    tool        TEXT NOT NULL,
    quarter     INTEGER,
    calls       INTEGER NOT NULL,
    size        INTEGER NOT NULL
) STRICT;
CREATE INDEX fill_session ON fill (session);

-- What Claude Code itself says that a session has cost, and up to when.
CREATE TABLE claim (
    session     INTEGER PRIMARY KEY,
    upto_ms     INTEGER,
    claim       BLOB NOT NULL
) STRICT;

CREATE TABLE edit (
    session     INTEGER NOT NULL,
    path        TEXT NOT NULL,
    record      INTEGER NOT NULL,
    branch      INTEGER NOT NULL,
    agent       TEXT,
    time_ms     INTEGER,
    added       INTEGER NOT NULL,
    removed     INTEGER NOT NULL,
    is_new      INTEGER NOT NULL
) STRICT;
CREATE INDEX edit_session ON edit (session);
CREATE INDEX edit_path ON edit (path);

-- Records that stand on branches which were left.
CREATE TABLE rewound (
    record      INTEGER NOT NULL,
    session     INTEGER NOT NULL,
    PRIMARY KEY (session, record)
) STRICT, WITHOUT ROWID;

-- Agent runs: what they are, and the file that has them, if one has.
CREATE TABLE run (
    session     INTEGER NOT NULL,
    agent       TEXT NOT NULL,
    type        TEXT,
    PRIMARY KEY (session, agent)
) STRICT, WITHOUT ROWID;

-- What a person typed, how it begins; a copy in another session is a row of its own.
CREATE TABLE prompt (
    session     INTEGER NOT NULL,
    record      TEXT NOT NULL,
    time_ms     INTEGER,
    branch      INTEGER NOT NULL,
    head        TEXT NOT NULL
) STRICT;
CREATE INDEX prompt_session ON prompt (session);

-- Conversations as they were assembled, to be shown without assembling them: facts of a
-- session or of one of its agents, and messages of each branch's own, packed.
CREATE TABLE talk (
    session     INTEGER NOT NULL,
    agent       TEXT NOT NULL,
    facts       BLOB NOT NULL,
    PRIMARY KEY (session, agent)
) STRICT, WITHOUT ROWID;
CREATE TABLE reel (
    session     INTEGER NOT NULL,
    agent       TEXT NOT NULL,
    branch      INTEGER NOT NULL,
    start       INTEGER NOT NULL,
    frame       BLOB NOT NULL,
    PRIMARY KEY (session, agent, branch, start)
) STRICT;

-- How short sessions begin, to be shown before they are assembled.
CREATE TABLE opening (
    session     INTEGER PRIMARY KEY,
    opening     BLOB NOT NULL
) STRICT;
