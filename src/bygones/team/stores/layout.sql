-- Tables and functions of text search. All of it is derived from what was uploaded.

-- One row per text. The terms of a long text are split into pieces, one row each.
-- Vectors are stored outside of the row, so that counting reads small rows only.
CREATE TABLE text (
    owner       integer NOT NULL,
    number      bigint NOT NULL,
    part        bigint NOT NULL,
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

-- The number of texts of an owner that contain a term. Forms of a word share a stem.
CREATE TABLE term (
    owner       integer NOT NULL,
    term        text COLLATE "C" NOT NULL,
    stem        text COLLATE "C",
    texts       bigint NOT NULL,
    PRIMARY KEY (term, owner)
);
CREATE INDEX term_stem ON term (stem) WHERE stem IS NOT NULL;
CREATE INDEX term_unused ON term (texts) WHERE texts <= 0;

-- The number of texts in a part of a session that contain a word, by kind of text. Most
-- sessions have one part; long ones have several. A word is the stem
-- that its forms share, or '=' and a term that has no other forms. Sessions are ranked by
-- these counts; the index contains them, so that the rows are not read. The records and
-- lengths of the texts are read for the best sessions only.
CREATE TABLE session_word (
    owner       integer NOT NULL,
    number      bigint NOT NULL,
    part        bigint NOT NULL,
    word        text COLLATE "C" NOT NULL,
    kind        smallint NOT NULL,
    texts       integer NOT NULL,
    records     integer[] NOT NULL,
    lengths     integer[] NOT NULL
);
CREATE INDEX session_word_word ON session_word (word, number)
    INCLUDE (kind, texts, owner);
CREATE INDEX session_word_number ON session_word (number, part);

-- The version grows with every change to the sessions of an owner.
CREATE TABLE owner_stats (
    owner       integer PRIMARY KEY,
    texts       bigint NOT NULL,
    terms       bigint NOT NULL,
    version     bigint NOT NULL
);

-- The owners whose rows this connection may see: none unless set.
CREATE FUNCTION visible() RETURNS integer[] LANGUAGE sql STABLE AS $$
    SELECT string_to_array(nullif(current_setting('bygones.owners', true), ''), ',')
        ::integer[]
$$;

-- The owners that a person may see, with their statistics. Nothing else is readable of
-- owners other than those set on the connection.
CREATE FUNCTION visible_owners(who text, member_of text[], is_auditor boolean)
RETURNS TABLE (owner integer, texts bigint, terms bigint, version bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = bygones, pg_temp AS $$
    SELECT o.owner, coalesce(s.texts, 0), coalesce(s.terms, 0), coalesce(s.version, 0)
      FROM owner AS o LEFT JOIN owner_stats AS s USING (owner)
     WHERE is_auditor OR o.person = who OR (o.teams && member_of AND NOT EXISTS (
           SELECT FROM note AS n
            WHERE n.kind = 'project-rule' AND n.key = ANY (o.projects)
              AND NOT (convert_from(n.value, 'UTF8')::jsonb -> 'people' ? who
                    OR convert_from(n.value, 'UTF8')::jsonb -> 'teams' ?| member_of)))
     ORDER BY o.owner
$$;

-- Row security would keep the planner from using the GIN index, because the operator @@
-- is not leakproof. These functions run with the rights of their creator and filter by owner
-- themselves. A sequential scan would read all vectors, which the planner does not know.
-- Which index is best depends on the words and sessions, so no plan is used twice.

-- Texts that match a query, each once: a long one by its first matching piece.
CREATE FUNCTION matching(query tsquery, sessions bigint[] DEFAULT NULL)
RETURNS TABLE (number bigint, text integer, kind smallint, record integer)
LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 1000
SET search_path = bygones, pg_temp SET enable_seqscan = off SET work_mem = '64MB'
SET plan_cache_mode = force_custom_plan
AS $$
#variable_conflict use_column
BEGIN
    IF sessions IS NULL THEN
        RETURN QUERY
        SELECT t.number, t.text, t.kind, t.record FROM text AS t
         WHERE t.terms @@ query AND t.owner = ANY ((SELECT visible())::integer[])
           AND (t.piece = 0 OR NOT EXISTS (
                SELECT 1 FROM text AS earlier
                 WHERE earlier.number = t.number AND earlier.text = t.text
                   AND earlier.piece < t.piece AND earlier.terms @@ query));
    ELSE
        RETURN QUERY
        SELECT t.number, t.text, t.kind, t.record FROM text AS t
         WHERE t.number = ANY (sessions)
           AND t.terms @@ query AND t.owner = ANY ((SELECT visible())::integer[])
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
SET plan_cache_mode = force_custom_plan
AS $$
#variable_conflict use_column
BEGIN
    IF sessions IS NULL THEN
        RETURN QUERY
        SELECT t.number, t.kind, count(*) FROM text AS t
         WHERE t.terms @@ query AND t.owner = ANY ((SELECT visible())::integer[])
           AND (t.piece = 0 OR NOT EXISTS (
                SELECT 1 FROM text AS earlier
                 WHERE earlier.number = t.number AND earlier.text = t.text
                   AND earlier.piece < t.piece AND earlier.terms @@ query))
         GROUP BY t.number, t.kind;
    ELSE
        RETURN QUERY
        SELECT t.number, t.kind, count(*) FROM text AS t
         WHERE t.number = ANY (sessions)
           AND t.terms @@ query AND t.owner = ANY ((SELECT visible())::integer[])
           AND (t.piece = 0 OR NOT EXISTS (
                SELECT 1 FROM text AS earlier
                 WHERE earlier.number = t.number AND earlier.text = t.text
                   AND earlier.piece < t.piece AND earlier.terms @@ query))
         GROUP BY t.number, t.kind;
    END IF;
END
$$;

-- Where some terms are in the texts of sessions. For frequent terms the texts of the
-- sessions are read, because the GIN index would return many more; ``frequency`` is the
-- number of texts that have one of the terms. Vectors are reduced to the terms first:
-- expanding whole vectors takes three times as long.
CREATE FUNCTION term_positions(
    wanted text[], query tsquery, sessions bigint[], frequency bigint)
RETURNS TABLE (number bigint, text integer, piece integer, record integer,
               kind smallint, length integer, term text, positions smallint[])
LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 1000
SET search_path = bygones, pg_temp SET enable_seqscan = off SET work_mem = '64MB'
SET plan_cache_mode = force_custom_plan
AS $$
#variable_conflict use_column
DECLARE
    is_frequent boolean := frequency > 8 * (
        SELECT count(*) FROM text AS t WHERE t.number = ANY (sessions));
BEGIN
    RETURN QUERY
    SELECT t.number, t.text, t.piece, t.record, t.kind, t.length, u.lexeme, u.positions
      FROM text AS t CROSS JOIN LATERAL unnest(
           ts_delete(t.terms, tsvector_to_array(ts_delete(t.terms, wanted)))) AS u
     WHERE t.number = ANY (sessions)
       AND t.owner = ANY ((SELECT visible())::integer[])
       AND (is_frequent OR t.terms @@ query)
       AND (t.terms @@ query) IS TRUE  -- no index has this expression
     ORDER BY t.number, t.text, t.piece;
END
$$;
