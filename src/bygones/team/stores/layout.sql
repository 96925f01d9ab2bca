-- What readers and the search need beside the rows of sessions; all of it is derived.

-- Texts by their terms: a long one in several pieces.
CREATE TABLE said (
    holder      integer NOT NULL,
    number      bigint NOT NULL,
    text        integer NOT NULL,
    piece       integer NOT NULL,
    record      integer NOT NULL,
    kind        smallint NOT NULL,
    length      integer NOT NULL,
    tsv         tsvector NOT NULL
);
CREATE INDEX said_tsv ON said USING gin (tsv) WITH (gin_pending_list_limit = 8192);
CREATE INDEX said_number ON said (number, text);
CREATE INDEX said_long ON said (number, text) WHERE piece > 0;

-- Terms with the group of their forms, and how many texts of a holder have each.
CREATE TABLE word (
    holder      integer NOT NULL,
    term        text COLLATE "C" NOT NULL,
    forms       text COLLATE "C" NOT NULL,
    texts       bigint NOT NULL,
    PRIMARY KEY (term, holder)
);
CREATE INDEX word_forms ON word (forms);
CREATE INDEX word_gone ON word (texts) WHERE texts <= 0;

-- The version grows with everything that is written for a holder.
CREATE TABLE total (
    holder      integer PRIMARY KEY,
    texts       bigint NOT NULL,
    terms       bigint NOT NULL,
    version     bigint NOT NULL
);

-- How many texts of which sessions have a form of a group: packed by the segment, that
-- is, for sessions which were written together. Small segments are joined to larger
-- ones; what they say of sessions that are no more is passed over.
CREATE TABLE post (
    holder      integer NOT NULL,
    segment     bigint NOT NULL,
    forms       text COLLATE "C" NOT NULL,
    packed      bytea NOT NULL
);
CREATE INDEX post_forms ON post (forms, holder);
CREATE INDEX post_segment ON post (segment);

CREATE TABLE segment (
    segment     bigint PRIMARY KEY,
    holder      integer NOT NULL,
    level       integer NOT NULL,
    size        integer NOT NULL,
    dead        integer NOT NULL DEFAULT 0
);
CREATE INDEX segment_holder ON segment (holder, level);

CREATE TABLE filed (
    number      bigint PRIMARY KEY,
    segment     bigint NOT NULL
);
CREATE INDEX filed_segment ON filed (segment);

-- Where terms stand in the texts of a session: slot 0 has the facts of its texts, a list
-- of each, the others the terms, dealt to them by a checksum: their names, how many texts
-- have each, how long what is told of each is, then all of that: places, counted through
-- all texts.
CREATE TABLE stand (
    holder      integer NOT NULL,
    number      bigint NOT NULL,
    slot        integer NOT NULL,
    slots       integer NOT NULL,
    packed      bytea NOT NULL,
    PRIMARY KEY (number, slot)
);
ALTER TABLE stand ALTER COLUMN packed SET STORAGE EXTERNAL;

-- Whom the connection may see, by what was set on it: nobody, if nothing was.
CREATE FUNCTION visible() RETURNS integer[] LANGUAGE sql STABLE AS $$
    SELECT string_to_array(nullif(current_setting('bygones.holders', true), ''), ',')
        ::integer[]
$$;

-- Whom somebody sees, how much there is of each, and when that changed: the one thing
-- that is told of holders beyond those that are set on the connection.
CREATE FUNCTION standing(who text, named text[], is_everybody boolean)
RETURNS TABLE (holder integer, texts bigint, terms bigint, version bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = bygones, pg_temp AS $$
    SELECT h.holder, coalesce(t.texts, 0), coalesce(t.terms, 0), coalesce(t.version, 0)
      FROM holder AS h LEFT JOIN total AS t USING (holder)
     WHERE is_everybody OR h.person = who OR h.teams && named
     ORDER BY h.holder
$$;

-- Row security hides the index of terms, as its operator may tell what it has seen. So
-- texts are looked for by a function that has its owner's rights and the same limit.
CREATE FUNCTION matching(asked tsquery)
RETURNS TABLE (number bigint, text integer, kind smallint, record integer)
LANGUAGE sql STABLE SECURITY DEFINER ROWS 1000 SET search_path = bygones, pg_temp AS $$
    SELECT s.number, s.text, s.kind, s.record FROM said AS s
     WHERE s.tsv @@ asked AND s.holder = ANY (visible())
$$;

-- Texts that fit two questions, each once; few should fit the other. The index finds
-- pieces that fit both; of a long text one piece may fit the one, and one the other.
CREATE FUNCTION matching_both(one tsquery, other tsquery)
RETURNS TABLE (number bigint, text integer, kind smallint, record integer)
LANGUAGE sql STABLE SECURITY DEFINER ROWS 1000 SET search_path = bygones, pg_temp AS $$
    SELECT s.number, s.text, s.kind, s.record FROM said AS s
     WHERE s.tsv @@ (one && other) AND s.holder = ANY (visible())
    UNION
    SELECT s.number, s.text, s.kind, s.record FROM said AS s
     WHERE s.tsv @@ other AND s.holder = ANY (visible())
       AND EXISTS (SELECT 1 FROM said AS l
                    WHERE l.number = s.number AND l.text = s.text AND l.piece > 0)
       AND EXISTS (SELECT 1 FROM said AS m
                    WHERE m.number = s.number AND m.text = s.text AND m.tsv @@ one)
$$;
