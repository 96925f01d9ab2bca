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
CREATE INDEX said_tsv ON said USING gin (tsv) WITH (fastupdate = off);
CREATE INDEX said_number ON said (number);

-- Terms, and how many texts of a holder have each.
CREATE TABLE word (
    holder      integer NOT NULL,
    term        text COLLATE "C" NOT NULL,
    texts       bigint NOT NULL,
    PRIMARY KEY (term, holder)
);

CREATE TABLE total (
    holder      integer PRIMARY KEY,
    texts       bigint NOT NULL,
    terms       bigint NOT NULL
);

-- Whom the connection may see, by what was set on it: nobody, if nothing was.
CREATE FUNCTION visible() RETURNS integer[] LANGUAGE sql STABLE AS $$
    SELECT string_to_array(nullif(current_setting('recollect.holders', true), ''), ',')
        ::integer[]
$$;

-- Row security hides the index of terms, as its operator may tell what it has seen. So
-- texts are looked for by a function that has its owner's rights and the same limit.
CREATE FUNCTION matching(asked tsquery)
RETURNS TABLE (number bigint, text integer, kind smallint, record integer)
LANGUAGE sql STABLE SECURITY DEFINER ROWS 1000 SET search_path = recollect, pg_temp AS $$
    SELECT s.number, s.text, s.kind, s.record FROM said AS s
     WHERE s.tsv @@ asked AND s.holder = ANY (visible())
$$;
