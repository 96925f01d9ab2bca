-- Tables and functions of text search. All of it is derived from what was uploaded.

-- One row per text. The terms of a long text are split into pieces, one row each.
-- Vectors are stored outside of the row, so that counting reads small rows only.
CREATE TABLE text (
    holder      integer NOT NULL,
    number      bigint NOT NULL,
    text        integer NOT NULL,
    piece       integer NOT NULL,
    record      integer NOT NULL,
    kind        smallint NOT NULL,
    length      integer NOT NULL,
    terms       tsvector NOT NULL
) WITH (toast_tuple_target = 128);
ALTER TABLE text ALTER COLUMN terms SET STORAGE EXTERNAL;
CREATE INDEX text_terms ON text USING gin (terms) WITH (gin_pending_list_limit = 8192);
CREATE INDEX text_number ON text (number, text, piece);

-- The number of texts of a holder that contain a term. Forms of a word share a stem.
CREATE TABLE term (
    holder      integer NOT NULL,
    term        text COLLATE "C" NOT NULL,
    stem        text COLLATE "C",
    texts       bigint NOT NULL,
    PRIMARY KEY (term, holder)
);
CREATE INDEX term_stem ON term (stem) WHERE stem IS NOT NULL;
CREATE INDEX term_unused ON term (texts) WHERE texts <= 0;

-- The version grows with every change to the sessions of a holder.
CREATE TABLE holder_stats (
    holder      integer PRIMARY KEY,
    texts       bigint NOT NULL,
    terms       bigint NOT NULL,
    version     bigint NOT NULL
);

-- The holders whose rows this connection may see: none unless set.
CREATE FUNCTION visible() RETURNS integer[] LANGUAGE sql STABLE AS $$
    SELECT string_to_array(nullif(current_setting('bygones.holders', true), ''), ',')
        ::integer[]
$$;

-- The holders that a person may see, with their statistics. Nothing else is readable of
-- holders other than those set on the connection.
CREATE FUNCTION visible_holders(who text, member_of text[], is_auditor boolean)
RETURNS TABLE (holder integer, texts bigint, terms bigint, version bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = bygones, pg_temp AS $$
    SELECT h.holder, coalesce(s.texts, 0), coalesce(s.terms, 0), coalesce(s.version, 0)
      FROM holder AS h LEFT JOIN holder_stats AS s USING (holder)
     WHERE is_auditor OR h.person = who OR h.teams && member_of
     ORDER BY h.holder
$$;

-- A vector with only some of its terms. Expanding whole vectors takes three times as long.
CREATE FUNCTION keep_terms(vector tsvector, kept text[]) RETURNS tsvector
LANGUAGE sql IMMUTABLE AS $$
    SELECT ts_delete(vector, tsvector_to_array(ts_delete(vector, kept)))
$$;

-- Row security would keep the planner from using the GIN index, because the operator @@
-- is not leakproof. These functions run with their owner's rights and filter by holder
-- themselves. A sequential scan would read all vectors, which the planner does not know.

-- Texts that match a query, each once: a long one by its first matching piece.
CREATE FUNCTION matching(query tsquery, sessions bigint[] DEFAULT NULL)
RETURNS TABLE (number bigint, text integer, kind smallint, record integer)
LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 1000
SET search_path = bygones, pg_temp SET enable_seqscan = off SET work_mem = '64MB'
AS $$
#variable_conflict use_column
BEGIN
    IF sessions IS NULL THEN
        RETURN QUERY
        SELECT t.number, t.text, t.kind, t.record FROM text AS t
         WHERE t.terms @@ query AND t.holder = ANY ((SELECT visible())::integer[])
           AND (t.piece = 0 OR NOT EXISTS (
                SELECT 1 FROM text AS earlier
                 WHERE earlier.number = t.number AND earlier.text = t.text
                   AND earlier.piece < t.piece AND earlier.terms @@ query));
    ELSE
        RETURN QUERY
        SELECT t.number, t.text, t.kind, t.record FROM text AS t
         WHERE t.number = ANY (sessions)
           AND t.terms @@ query AND t.holder = ANY ((SELECT visible())::integer[])
           AND (t.piece = 0 OR NOT EXISTS (
                SELECT 1 FROM text AS earlier
                 WHERE earlier.number = t.number AND earlier.text = t.text
                   AND earlier.piece < t.piece AND earlier.terms @@ query));
    END IF;
END
$$;

-- The number of matching texts by session and kind.
CREATE FUNCTION count_matching(query tsquery, sessions bigint[] DEFAULT NULL)
RETURNS TABLE (number bigint, kind smallint, texts bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 1000
SET search_path = bygones, pg_temp SET enable_seqscan = off SET work_mem = '64MB'
AS $$
#variable_conflict use_column
BEGIN
    IF sessions IS NULL THEN
        RETURN QUERY
        SELECT t.number, t.kind, count(*) FROM text AS t
         WHERE t.terms @@ query AND t.holder = ANY ((SELECT visible())::integer[])
           AND (t.piece = 0 OR NOT EXISTS (
                SELECT 1 FROM text AS earlier
                 WHERE earlier.number = t.number AND earlier.text = t.text
                   AND earlier.piece < t.piece AND earlier.terms @@ query))
         GROUP BY t.number, t.kind;
    ELSE
        RETURN QUERY
        SELECT t.number, t.kind, count(*) FROM text AS t
         WHERE t.number = ANY (sessions)
           AND t.terms @@ query AND t.holder = ANY ((SELECT visible())::integer[])
           AND (t.piece = 0 OR NOT EXISTS (
                SELECT 1 FROM text AS earlier
                 WHERE earlier.number = t.number AND earlier.text = t.text
                   AND earlier.piece < t.piece AND earlier.terms @@ query))
         GROUP BY t.number, t.kind;
    END IF;
END
$$;
