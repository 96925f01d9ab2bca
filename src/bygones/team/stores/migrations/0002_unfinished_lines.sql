-- The last line of a source, where no newline ends it: replaced by what comes behind.
ALTER TABLE source
    ADD COLUMN mark     bytea NOT NULL DEFAULT '',
    ADD COLUMN fragment bytea NOT NULL DEFAULT '';
