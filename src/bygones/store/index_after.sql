-- Indexes that are cheaper to make after the first filling than along with it.

CREATE INDEX record_uuid ON record (uuid);
CREATE INDEX record_message ON record (message) WHERE message IS NOT NULL;
CREATE INDEX record_source ON record (source);
CREATE INDEX record_session ON record (session);
