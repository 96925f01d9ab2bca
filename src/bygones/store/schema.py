"""The tables of the index, described once.

`index.db` is created from these values, rows are inserted and deleted with the
statements they generate, `verify --deep` compares the columns they list, and team
stores create their own tables from `Table.team_columns`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Literal, NamedTuple

from msgspec import Struct

ColumnType = Literal["INTEGER", "TEXT", "BLOB"]


class Column(NamedTuple):
    name: str
    type: ColumnType
    is_nullable: bool = False
    references: Literal["", "session", "payer"] = ""
    """What the number in this column identifies, if it is another row."""
    is_local: bool = False
    """Whether the value has a meaning in this index only, such as a row number."""


class Index(NamedTuple):
    columns: tuple[str, ...]
    where: str = ""
    is_deferred: bool = False
    """Whether it is created after the first import, which is cheaper for big tables."""


class Table(Struct, frozen=True, kw_only=True):
    name: str
    columns: tuple[Column, ...]
    primary_key: tuple[str, ...] = ()
    has_rowid: bool = True
    unique: str = ""
    """A column, besides the primary key, whose values are unique."""
    indexes: tuple[Index, ...] = ()
    team_columns: tuple[Column, ...] = ()
    """The columns in team stores, without owner and session, which all tables have."""

    @property
    def ddl(self) -> str:
        """The statement that creates the table."""
        parts = [self._column_ddl(column) for column in self.columns]
        if len(self.primary_key) > 1:
            parts.append(f"PRIMARY KEY ({', '.join(self.primary_key)})")
        options = "STRICT" if self.has_rowid else "STRICT, WITHOUT ROWID"
        return f"CREATE TABLE {self.name} ({', '.join(parts)}) {options}"

    def _column_ddl(self, column: Column) -> str:
        parts = [column.name, column.type]
        if self.primary_key == (column.name,):
            parts.append("PRIMARY KEY")
        elif not column.is_nullable:
            parts.append("NOT NULL")
        if self.unique == column.name:
            parts.append("UNIQUE")
        return " ".join(parts)

    def index_ddl(self, *, is_deferred: bool) -> Iterator[str]:
        """Yield the statements that create the indexes."""
        for index in self.indexes:
            if index.is_deferred == is_deferred:
                name = f"{self.name}_{index.columns[0]}"
                where = f" WHERE {index.where}" if index.where else ""
                columns = ", ".join(index.columns)
                yield f"CREATE INDEX {name} ON {self.name} ({columns}){where}"

    def insert_sql(self, conflict: Literal["", "IGNORE", "REPLACE"] = "") -> str:
        """Return the statement that inserts a row with a value for each column."""
        return _insert_sql(self.name, len(self.columns), conflict)

    def delete_sql(self, column: str) -> str:
        """Return the statement that deletes the rows with a value in a column."""
        return f"DELETE FROM {self.name} WHERE {column} = ?"  # noqa: S608 (our names)

    @property
    def session_column(self) -> str | None:
        """The column with the number of the session that a row belongs to."""
        for column in self.columns:
            if column.references == "session":
                return column.name
        return None

    @property
    def comparison_sql(self) -> str:
        """The query for all rows, without numbers that differ between equal indexes."""
        found: list[str] = []
        joins = ""
        for column in self.columns:
            name = f"{self.name}.{column.name}"
            if column.references == "session":
                joins += f" LEFT JOIN session_id AS s ON s.number = {name}"
                found.append("s.id")
            elif column.references == "payer":
                joins += (
                    f" JOIN payer AS p ON p.number = {name}"
                    " JOIN session_id AS s ON s.number = p.session"
                )
                found += ["s.id", *(f"p.{one}" for one in _PAYER_FACTS)]
            elif not column.is_local:
                found.append(name)
        return f"SELECT {', '.join(found)} FROM {self.name}{joins}"  # noqa: S608 (our names)


@cache
def _insert_sql(table: str, column_count: int, conflict: str) -> str:
    action = f"INSERT OR {conflict}" if conflict else "INSERT"
    values = ", ".join("?" * column_count)
    return f"{action} INTO {table} VALUES ({values})"


def _integer(name: str, *, is_nullable: bool = False, is_local: bool = False) -> Column:
    return Column(name, "INTEGER", is_nullable, is_local=is_local)


def _text(name: str, *, is_nullable: bool = False) -> Column:
    return Column(name, "TEXT", is_nullable)


def _blob(name: str) -> Column:
    return Column(name, "BLOB")


def _session(name: str = "session", *, is_nullable: bool = False) -> Column:
    return Column(name, "INTEGER", is_nullable, references="session")


def _team_columns(columns: tuple[Column, ...], *first: Column) -> tuple[Column, ...]:
    """Return the columns of a team store's table: `first`, then all that are shared."""
    return first + tuple(
        column
        for column in columns
        if not column.is_local and column.references != "session"
    )


_POSITION = _integer("position")
"""The order of a session's rows, where it matters."""

META = Table(
    name="meta",
    columns=(_text("key"), _text("value")),
    primary_key=("key",),
    has_rowid=False,
)
# Millions of rows refer to a session, so it gets a number.
SESSION_ID = Table(
    name="session_id",
    columns=(_integer("number"), _text("id")),
    primary_key=("number",),
    unique="id",
)
# How many bytes of each source are indexed, and which session it belongs to. The
# checksum changes when the archive learns something about a source that doesn't grow.
SOURCE_STATE = Table(
    name="source_state",
    columns=(
        _integer("source"),
        _integer("generation"),
        _integer("indexed_bytes"),
        _session(is_nullable=True),
        _integer("state_checksum", is_local=True),
    ),
    primary_key=("source",),
    indexes=(Index(("session",)),),
)
# The record nodes of a part of a source, encoded and compressed.
NODE_PAGE = Table(
    name="node_page",
    columns=(
        _integer("source"),
        _integer("start"),
        _integer("node_count"),
        _integer("limited_count"),
        _blob("frame"),
    ),
    primary_key=("source", "start"),
)
# Every record that has an id, and where it is. Ids are stored as 63-bit keys (see
# encoding.id_key). The records of one reply share its message key.
_RECORD_COLUMNS = (
    _integer("id", is_local=True),
    _integer("key"),
    _integer("message_key", is_nullable=True),
    _session(),
    _integer("source"),
    _integer("start"),
    _integer("length"),
)
RECORD = Table(
    name="record",
    columns=_RECORD_COLUMNS,
    primary_key=("id",),
    indexes=(
        Index(("key",), is_deferred=True),
        Index(("message_key",), "message_key IS NOT NULL", is_deferred=True),
        Index(("source",), is_deferred=True),
    ),
    team_columns=_team_columns(_RECORD_COLUMNS, _integer("record")),
)
# All records of a source belong to one session, so an index of sessions would only take
# space.
IN_SESSION = "source IN (SELECT source FROM source_state WHERE session = ?)"
# Documents and characters of each part (see encoding.TextLengths).
TEXT_LENGTH = Table(
    name="text_length",
    columns=(_integer("source"), _blob("lengths")),
    primary_key=("source",),
)
# Records whose text must still be removed from the text index.
TEXT_DELETION = Table(
    name="text_deletion", columns=(_integer("record"),), primary_key=("record",)
)
_PROBLEM_COLUMNS = (
    _integer("source"),
    _integer("start"),
    _integer("length"),
    _text("kind"),
    _text("detail"),
    _integer("count"),
)
PROBLEM = Table(
    name="problem",
    columns=_PROBLEM_COLUMNS,
    indexes=(Index(("source",)),),
    team_columns=_team_columns(_PROBLEM_COLUMNS, _POSITION),
)
# Types, subtypes and fields that this version doesn't know.
_DRIFT_COLUMNS = (
    _integer("source"),
    _text("kind"),
    _text("name"),
    _text("version"),
    _integer("count"),
)
DRIFT = Table(
    name="drift",
    columns=_DRIFT_COLUMNS,
    primary_key=("source", "kind", "name", "version"),
    has_rowid=False,
    team_columns=_team_columns(_DRIFT_COLUMNS),
)
# Titles that a source gives to the leaf of a branch, which may be in another source.
_LEAF_TITLE_COLUMNS = (
    _integer("leaf_key"),
    _integer("source"),
    _integer("start"),
    _text("leaf"),
    _text("title"),
)
LEAF_TITLE = Table(
    name="leaf_title",
    columns=_LEAF_TITLE_COLUMNS,
    primary_key=("leaf_key", "source", "start"),
    has_rowid=False,
    indexes=(Index(("source",)),),
    team_columns=_team_columns(_LEAF_TITLE_COLUMNS),
)
# Sessions that must be derived again before they are shown.
DIRTY_SESSION = Table(
    name="dirty_session", columns=(_integer("session"),), primary_key=("session",)
)
# What a list of sessions shows. Sessions that share records or replies are one family
# and are derived together. The title is stored for search, if it was given explicitly:
# the words of a prompt would count twice. The index of families covers everything that
# a search needs to know about all sessions, on a quarter of the pages.
_SESSION_COLUMNS = (
    _session("number"),
    _integer("family", is_local=True),
    _text("project", is_nullable=True),
    _integer("started_ms", is_nullable=True),
    _integer("ended_ms", is_nullable=True),
    _integer("is_empty"),
    _text("title"),
    _blob("text_lengths"),
    _blob("summary"),
)
SESSION = Table(
    name="session",
    columns=_SESSION_COLUMNS,
    primary_key=("number",),
    indexes=(
        Index(("family", "ended_ms", "title", "text_lengths")),
        Index(("ended_ms",)),
        Index(("project", "ended_ms")),
    ),
    team_columns=_team_columns(
        _SESSION_COLUMNS, _text("session"), _text("repository"), _text("identity")
    ),
)
# Who uses tokens: a session or one of its agent runs, with a model and its terms.
_PAYER_FACTS = ("agent", "agent_type", "model", "terms", "entrypoint")
_PAYER_COLUMNS = (
    _integer("number", is_local=True),
    _session(),
    _text("agent", is_nullable=True),
    _text("agent_type", is_nullable=True),
    _text("model", is_nullable=True),
    _text("terms"),
    _text("entrypoint", is_nullable=True),
)
PAYER = Table(
    name="payer",
    columns=_PAYER_COLUMNS,
    primary_key=("number",),
    indexes=(Index(("session",)),),
    team_columns=_team_columns(_PAYER_COLUMNS, _integer("payer")),
)
_PAYER_NUMBER = Column("payer", "INTEGER", references="payer")
_TOKEN_COUNTS = (
    _integer("input"),
    _integer("output"),
    _integer("cache_write_5m"),
    _integer("cache_write_1h"),
    _integer("cache_read"),
    _integer("web_searches"),
)
# The tokens of every answer, and who used them. A negative branch is that of another
# session inside the file.
_USAGE_COLUMNS = (
    _PAYER_NUMBER,
    _integer("record_key"),
    _integer("time_ms", is_nullable=True),
    _integer("branch"),
    *_TOKEN_COUNTS,
    _integer("estimated_output"),
)
USAGE = Table(
    name="usage",
    columns=_USAGE_COLUMNS,
    indexes=(Index(("payer",)),),
    team_columns=_team_columns(_USAGE_COLUMNS),
)
# The same, summed by quarter hour and by 100,000 tokens of context.
USAGE_15MIN = Table(
    name="usage_15min",
    columns=(
        _PAYER_NUMBER,
        _integer("quarter_hour", is_nullable=True),
        _integer("context_step"),
        _integer("is_abandoned"),
        _integer("answers"),
        *_TOKEN_COUNTS,
        _integer("unrecorded_output"),
        _integer("first_ms", is_nullable=True),
        _integer("last_ms", is_nullable=True),
    ),
    indexes=(Index(("payer",)),),
)
# What the results of tools add to contexts, by quarter hour.
_TOOL_CONTEXT_COLUMNS = (
    _session(),
    _text("tool"),
    _integer("quarter_hour", is_nullable=True),
    _integer("calls"),
    _integer("result_bytes"),
)
TOOL_CONTEXT = Table(
    name="tool_context",
    columns=_TOOL_CONTEXT_COLUMNS,
    indexes=(Index(("session",)),),
    team_columns=_team_columns(_TOOL_CONTEXT_COLUMNS),
)
# What Claude Code itself reports that a session cost, and until when.
_REPORTED_COST_COLUMNS = (
    _session(),
    _integer("until_ms", is_nullable=True),
    _blob("cost"),
)
REPORTED_COST = Table(
    name="reported_cost",
    columns=_REPORTED_COST_COLUMNS,
    primary_key=("session",),
    team_columns=_team_columns(_REPORTED_COST_COLUMNS),
)
_EDIT_COLUMNS = (
    _session(),
    _text("path"),
    _integer("record_key"),
    _integer("branch"),
    _text("agent", is_nullable=True),
    _integer("time_ms", is_nullable=True),
    _integer("added"),
    _integer("removed"),
    _integer("is_new"),
    _integer("is_deleted"),
    _integer("has_diff"),
    _text("tool"),
)
EDIT = Table(
    name="edit",
    columns=_EDIT_COLUMNS,
    indexes=(Index(("session",)), Index(("path", "session"))),
    team_columns=_team_columns(_EDIT_COLUMNS, _POSITION),
)
# What records say about the repository of a directory; "" is that of the project.
REPOSITORY_CLUE = Table(
    name="repository_clue",
    columns=(_session(), _text("directory"), _text("kind"), _text("value")),
    primary_key=("session", "directory", "kind", "value"),
    has_rowid=False,
)
# Records on branches that were abandoned.
_ABANDONED_RECORD_COLUMNS = (_session(), _integer("record_key"))
ABANDONED_RECORD = Table(
    name="abandoned_record",
    columns=_ABANDONED_RECORD_COLUMNS,
    primary_key=("session", "record_key"),
    has_rowid=False,
    team_columns=_team_columns(_ABANDONED_RECORD_COLUMNS),
)
_AGENT_RUN_COLUMNS = (
    _session(),
    _text("agent"),
    _text("agent_type", is_nullable=True),
    _blob("warm_up_usage"),
)
AGENT_RUN = Table(
    name="agent_run",
    columns=_AGENT_RUN_COLUMNS,
    primary_key=("session", "agent"),
    has_rowid=False,
    team_columns=_team_columns(_AGENT_RUN_COLUMNS),
)
# How each prompt of a user starts; a copy in another session has its own row.
_PROMPT_COLUMNS = (
    _session(),
    _text("record"),
    _integer("time_ms", is_nullable=True),
    _integer("branch"),
    _text("text_head"),
    _text("other_session", is_nullable=True),
)
PROMPT = Table(
    name="prompt",
    columns=_PROMPT_COLUMNS,
    indexes=(Index(("session", "record")),),
    team_columns=_team_columns(_PROMPT_COLUMNS, _POSITION),
)
# Messages, tool calls, branches and agent runs without their texts: `records` names the
# records of a message, `head` is how a text starts that isn't a prompt of the session.
# An empty agent is the session itself.
_PLACE = (_session(), _text("agent"), _integer("branch"))
MESSAGE = Table(
    name="message",
    columns=(
        *_PLACE,
        _integer("number"),
        _integer("turn"),
        _blob("id"),
        _text("role"),
        _text("origin", is_nullable=True),
        _integer("time_ms", is_nullable=True),
        _text("model", is_nullable=True),
        _integer("flags"),
        _text("head", is_nullable=True),
        _blob("records"),
    ),
    primary_key=("session", "agent", "branch", "number"),
    has_rowid=False,
)
TOOL_CALL = Table(
    name="tool_call",
    columns=(
        *_PLACE,
        _integer("message"),
        _integer("position"),
        _integer("turn"),
        _text("id"),
        _text("name"),
        _integer("time_ms", is_nullable=True),
        _integer("duration_ms", is_nullable=True),
        _integer("flags"),
        _integer("result_bytes"),
        _integer("call_key"),
        _integer("call_block"),
        _integer("result_key", is_nullable=True),
        _integer("result_block"),
        _text("command", is_nullable=True),
    ),
    primary_key=("session", "agent", "branch", "message", "position"),
    has_rowid=False,
)
BRANCH = Table(
    name="branch",
    columns=(
        *_PLACE,
        _blob("leaf"),
        _integer("parent", is_nullable=True),
        _integer("message_count"),
        _integer("shared_count"),
        _integer("prompt_count"),
        _integer("own_prompt_count"),
        _integer("tool_call_count"),
        _text("title", is_nullable=True),
        _text("other_session", is_nullable=True),
    ),
    primary_key=("session", "agent", "branch"),
    has_rowid=False,
)
AGENT_DETAIL = Table(
    name="agent_detail",
    columns=(
        _session(),
        _text("agent"),
        _text("kind"),
        _text("status"),
        _text("description", is_nullable=True),
        _text("workflow", is_nullable=True),
        _integer("is_background"),
        _integer("depth"),
        _integer("started_ms", is_nullable=True),
        _integer("ended_ms", is_nullable=True),
        _integer("duration_ms", is_nullable=True),
        _integer("tool_call_count"),
        _text("call", is_nullable=True),
    ),
    primary_key=("session", "agent"),
    has_rowid=False,
)
# Assembled conversations: facts about a session or one of its agent runs, and the turns
# and blocks of messages that each branch adds. Without a rowid, facts of more than 1 kB
# would need a page of their own.
CONVERSATION = Table(
    name="conversation",
    columns=(_session(), _text("agent"), _blob("facts")),
    primary_key=("session", "agent"),
)
MESSAGE_BLOCK = Table(
    name="message_block",
    columns=(
        _session(),
        _text("agent"),
        _integer("branch"),
        _integer("start"),
        _blob("frame"),
    ),
    primary_key=("session", "agent", "branch", "start"),
)
TURN = Table(
    name="turn",
    columns=(
        _session(),
        _text("agent"),
        _integer("branch"),
        _integer("start"),
        _blob("facts"),
    ),
    primary_key=("session", "agent", "branch", "start"),
    has_rowid=False,
)
# How much of a long session is settled: rows derived from records before that place stay
# when the session grows (see ingest.derive).
SETTLED_PART = Table(
    name="settled_part",
    columns=(_session(), _blob("bounds"), _blob("facts")),
    primary_key=("session",),
    team_columns=(_blob("facts"),),
)
# Calls, agents and replies that settled records name, as keys.
SETTLED_KEY = Table(
    name="settled_key",
    columns=(_session(), _integer("key")),
    primary_key=("session", "key"),
    has_rowid=False,
    team_columns=(_integer("key"),),
)
# The sources of a session; `source_state` has them in a local index.
SESSION_SOURCE = Table(
    name="session_source",
    columns=(_session(), _integer("source")),
    team_columns=(_integer("source"),),
)

SOURCE_TABLES = (NODE_PAGE, RECORD, TEXT_LENGTH, PROBLEM, DRIFT, LEAF_TITLE)
"""Tables with rows that are made from one source."""
USAGE_TABLES = (USAGE, USAGE_15MIN)
"""Tables with rows that belong to a payer."""
SESSION_TABLES = (
    SESSION,
    PAYER,
    TOOL_CONTEXT,
    REPORTED_COST,
    EDIT,
    REPOSITORY_CLUE,
    ABANDONED_RECORD,
    AGENT_RUN,
    PROMPT,
    MESSAGE,
    TOOL_CALL,
    BRANCH,
    AGENT_DETAIL,
    CONVERSATION,
    TURN,
    MESSAGE_BLOCK,
    SETTLED_PART,
    SETTLED_KEY,
)
"""Tables with rows that are derived from one session."""
INDEX_TABLES = (
    META,
    SESSION_ID,
    SOURCE_STATE,
    TEXT_DELETION,
    DIRTY_SESSION,
    *SOURCE_TABLES,
    *SESSION_TABLES,
    *USAGE_TABLES,
)
"""All tables of `index.db`."""
COMPARED_TABLES = (
    SOURCE_STATE,
    *(table for table in SOURCE_TABLES if table is not NODE_PAGE),
    *(table for table in SESSION_TABLES if table not in (SETTLED_PART, SETTLED_KEY)),
    *USAGE_TABLES,
)
"""Tables that a rebuilt index must have in common with one that was updated.

Node pages are compared by their nodes: they may be divided otherwise, and so may the
settled part of a session.
"""
TEAM_TABLES = {
    table.name: table
    for table in (
        SESSION,
        SESSION_SOURCE,
        RECORD,
        EDIT,
        PROMPT,
        ABANDONED_RECORD,
        AGENT_RUN,
        PAYER,
        USAGE,
        TOOL_CONTEXT,
        REPORTED_COST,
        PROBLEM,
        DRIFT,
        LEAF_TITLE,
        SETTLED_PART,
        SETTLED_KEY,
    )
}
"""Tables that team stores hold too, with `Table.team_columns`."""


def index_schema() -> str:
    """Return the statements that create an empty index."""
    statements = [
        statement
        for table in INDEX_TABLES
        for statement in (table.ddl, *table.index_ddl(is_deferred=False))
    ]
    return ";\n".join(statements)


def deferred_indexes() -> str:
    """Return the statements that create the indexes left out by `index_schema`."""
    statements = [
        statement
        for table in INDEX_TABLES
        for statement in table.index_ddl(is_deferred=True)
    ]
    return ";\n".join(statements)
