"""The views that SQL, Arrow and Parquet show, described once.

Names and meanings of columns are stable: within one `VIEWS_VERSION` columns are only
added, at the end of their view.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from bygones.store.fact_encoding import (
    HAS_RESULT,
    IS_ERROR,
    IS_INTERRUPTED,
    IS_STEERING,
    IS_STOPPED,
)

VIEWS_VERSION = 1
ViewName = Literal[
    "sessions",
    "messages",
    "tool_calls",
    "file_changes",
    "usage",
    "prompts",
    "branches",
    "agents",
    "commits",
    "problems",
]
ColumnKind = Literal["text", "integer", "real", "boolean", "timestamp", "json"]


class ViewColumn(NamedTuple):
    """A column of a view."""

    name: str
    kind: ColumnKind
    sql: str
    """The expression that computes it."""
    description: str
    is_redacted: bool = False
    """Whether the expression may contain secrets or personal data."""
    arguments: tuple[str, ...] = ()
    """If it is read from the archive, which takes longer: what names it there."""
    helpers: tuple[str, ...] = ()
    """Helper tables that only this column needs."""

    @property
    def is_loaded(self) -> bool:
        """Whether it is read from the archive."""
        return bool(self.arguments)

    def expression(self, *, redact: bool, raw_times: bool = False) -> str:
        """Return the expression: redacted if it has to be, a time as text.

        `raw_times` are milliseconds since 1970.
        """
        if self.is_redacted and redact:
            function = "redacted_json" if self.kind == "json" else "redacted"
            return f"{function}({self.sql})"
        if self.kind == "timestamp" and not raw_times:
            time = f"{self.sql} / 1000.0, 'unixepoch'"
            return f"strftime('%Y-%m-%dT%H:%M:%fZ', {time})"
        return self.sql


class View(NamedTuple):
    """A view, and the tables that it is made of."""

    name: ViewName
    description: str
    columns: tuple[ViewColumn, ...]
    source: str
    """What follows FROM; `{name}` is a helper table."""
    helpers: tuple[str, ...] = ()
    order: str = ""
    """The order in which conversations are read."""

    @property
    def time_column(self) -> str | None:
        """The first column with a time."""
        times = (one.name for one in self.columns if one.kind == "timestamp")
        return next(times, None)

    def build_sql(self, *, redact: bool) -> str:
        """Return the statement of the view."""
        columns = ", ".join(
            f"{one.expression(redact=redact)} AS {one.name}" for one in self.columns
        )
        return f"SELECT {columns} FROM {self.source}"  # noqa: S608 (our names)

    def build_export_sql(self) -> str:
        """Return a statement for all rows, in the order in which they are stored.

        Times are milliseconds, and nothing is redacted. What is read from the archive is
        null; the values that name it follow as columns of their own, `argument_1` and so
        on.
        """
        columns = [
            f"{'NULL' if one.is_loaded else one.expression(redact=False, raw_times=True)}"
            f" AS {one.name}"
            for one in self.columns
        ]
        columns += (
            f"{argument} AS argument_{number}"
            for number, argument in enumerate(self.arguments, 1)
        )
        order = f" ORDER BY {self.order}" if self.order else ""
        return f"SELECT {', '.join(columns)} FROM {self.source}{order}"  # noqa: S608 (our names)

    @property
    def arguments(self) -> tuple[str, ...]:
        """What names the contents of all columns that are read from the archive."""
        return tuple(
            dict.fromkeys(value for one in self.columns for value in one.arguments)
        )

    @property
    def column_helpers(self) -> Mapping[str, tuple[str, ...]]:
        """The helpers of columns that need their own."""
        return {one.name: one.helpers for one in self.columns if one.helpers}


def _text(
    name: str, sql: str, description: str, *, is_redacted: bool = False
) -> ViewColumn:
    return ViewColumn(name, "text", sql, description, is_redacted)


def _integer(name: str, sql: str, description: str) -> ViewColumn:
    return ViewColumn(name, "integer", sql, description)


def _flag(name: str, sql: str, description: str) -> ViewColumn:
    return ViewColumn(name, "boolean", sql, description)


def _json(name: str, sql: str, description: str) -> ViewColumn:
    return ViewColumn(name, "json", sql, description, is_redacted=True)


def _loaded(
    name: str, kind: ColumnKind, call: tuple[str, ...], description: str
) -> ViewColumn:
    """Return a column that a function reads from the archive."""
    function, *arguments = call
    sql = f"{function}({', '.join(arguments)})"
    return ViewColumn(name, kind, sql, description, arguments=tuple(arguments))


def _time(name: str, milliseconds: str, description: str) -> ViewColumn:
    return ViewColumn(name, "timestamp", milliseconds, description)


_COST = (
    "(CASE WHEN r.payer IS NOT NULL THEN"
    " (u.input * iif(u.input + u.cache_write_5m + u.cache_write_1h + u.cache_read"
    " > r.threshold, r.input_long, r.input)"
    " + u.output * iif(u.input + u.cache_write_5m + u.cache_write_1h + u.cache_read"
    " > r.threshold, r.output_long, r.output)"
    " + iif(u.cache_write_5m, u.cache_write_5m * iif(u.input + u.cache_write_5m"
    " + u.cache_write_1h + u.cache_read > r.threshold, r.write_5m_long, r.write_5m), 0)"
    " + iif(u.cache_write_1h, u.cache_write_1h * iif(u.input + u.cache_write_5m"
    " + u.cache_write_1h + u.cache_read > r.threshold, r.write_1h_long, r.write_1h), 0)"
    " + iif(u.cache_read, u.cache_read * iif(u.input + u.cache_write_5m"
    " + u.cache_write_1h + u.cache_read > r.threshold, r.read_long, r.read), 0))"
    " * r.factor + u.web_searches * r.search END) / 1e12"
)
"""Dollars of an answer: rates are picodollars, and are null if they are unknown."""
_RATE = (
    "LEFT JOIN {rate} AS r ON r.payer = u.payer"
    " AND ifnull(u.time_ms, 0) >= r.since_ms AND ifnull(u.time_ms, 0) < r.until_ms"
)
_PAID = f"main.usage AS u JOIN payer AS p ON p.number = u.payer {_RATE}"
_TOTAL = "u.input + u.output + u.cache_write_5m + u.cache_write_1h + u.cache_read"


def _usage_sums(condition: str) -> tuple[ViewColumn, ...]:
    """Return columns with the sums of the answers that a condition selects."""
    source = (
        f"FROM main.usage AS u JOIN payer AS p ON p.number = u.payer WHERE {condition}"
    )
    counted = (
        ("input_tokens", "u.input", "Input tokens that were not cached."),
        ("output_tokens", "u.output", "Output tokens."),
        ("cache_write_5m_tokens", "u.cache_write_5m", "Tokens cached for 5 minutes."),
        ("cache_write_1h_tokens", "u.cache_write_1h", "Tokens cached for an hour."),
        ("cache_read_tokens", "u.cache_read", "Tokens read from the cache."),
        ("total_tokens", _TOTAL, "All tokens."),
    )
    cost = (
        f"(SELECT sum({_COST}) FROM main.usage AS u JOIN payer AS p ON p.number = u.payer"  # noqa: S608 (our names)
        f" {_RATE} WHERE {condition})"
    )
    return (
        *(
            _integer(name, f"(SELECT ifnull(sum({sql}), 0) {source})", text)
            for name, sql, text in counted
        ),
        ViewColumn(
            "cost_usd",
            "real",
            cost,
            "Cost in dollars of replies with a known price; each reply counts once.",
        ),
    )


_SESSION_ID = _text("session_id", "s.id", "The session.")
_PROJECT = _text(
    "project",
    "o.project",
    "Directory in which the session was started.",
    is_redacted=True,
)
_SESSION_OF = "LEFT JOIN session_id AS s ON s.number"
_PROJECT_OF = "LEFT JOIN session AS o ON o.number"


def _place(table: str) -> tuple[ViewColumn, ...]:
    return (
        _SESSION_ID,
        _text(
            "agent_id",
            f"nullif({table}.agent, '')",
            "Agent run; null for the session itself.",
        ),
        _integer("branch", f"{table}.branch + 1", "Branch; 1 is the live one."),
    )


def _is_abandoned(table: str) -> ViewColumn:
    is_of_other_session = (
        f"EXISTS (SELECT 1 FROM branch AS x WHERE x.session = {table}.session"  # noqa: S608 (our names)
        f" AND x.agent = {table}.agent AND x.branch = {table}.branch"
        " AND x.other_session IS NOT NULL)"
    )
    return _flag(
        "is_abandoned",
        f"{table}.branch > 0 AND NOT {is_of_other_session}",
        "Whether it is only on an abandoned branch.",
    )


_SESSIONS = View(
    name="sessions",
    description="Each session once, also those without messages.",
    source="{session} AS h",
    helpers=("session", "rate"),
    columns=(
        _text("session_id", "h.id", "The session."),
        _text(
            "title",
            "h.title",
            "Title, or the start of the first prompt.",
            is_redacted=True,
        ),
        _text("title_kind", "h.title_kind", "Where the title comes from."),
        _text(
            "project",
            "h.project",
            "Directory in which it was started.",
            is_redacted=True,
        ),
        _time("started_at", "h.started_ms", "Time of the first record, in UTC."),
        _time("ended_at", "h.ended_ms", "Time of the last record, in UTC."),
        _integer("prompt_count", "h.prompt_count", "Prompts on the live branch."),
        _integer(
            "message_count",
            "h.message_count",
            "Prompts and replies on the live branch.",
        ),
        _integer("agent_count", "h.agent_count", "Agent runs at any depth."),
        _integer("branch_count", "h.branch_count", "Branches, with the live one."),
        _json("models", "h.models", "Models that replied."),
        _json("versions", "h.versions", "Versions of Claude Code."),
        _json("git_branches", "h.git_branches", "Git branches that were checked out."),
        _json("entrypoints", "h.entrypoints", "Programs that started it."),
        _json("flags", "h.flags", "Properties, such as `compacted`."),
        _json("tags", "h.tags", "Your tags."),
        _text("note", "h.note", "Your note.", is_redacted=True),
        _flag("is_starred", "h.is_starred", "Whether you starred it."),
        _flag("is_empty", "h.is_empty", "Whether it has neither a prompt nor a reply."),
        _integer("problem_count", "h.problem_count", "Problems in its files."),
        _integer("source_bytes", "h.source_bytes", "Size of its files."),
        *_usage_sums("p.session = h.number"),
    ),
)
_MESSAGE_ARGUMENTS = (
    *("m.session", "m.agent", "m.branch", "m.number"),
    *("m.id", "m.role", "m.origin", "m.head", "m.records"),
)
_CALL_ARGUMENTS = (
    *("c.session", "c.agent", "c.branch", "c.message", "c.position", "c.flags"),
    *("c.call_key", "c.call_block", "c.result_key", "c.result_block"),
)
_MESSAGES = View(
    name="messages",
    description=(
        "Each message once, on the branch where it was written. A session that"
        " continues another one repeats its messages."
    ),
    source=f"message AS m {_SESSION_OF} = m.session {_PROJECT_OF} = m.session",
    order="m.session, m.agent, m.branch, m.number",
    columns=(
        _text(
            "message_id",
            "record_id(m.id)",
            "The message: the uuid of its first record.",
        ),
        *_place("m"),
        _integer("turn", "m.turn + 1", "Turn on the branch."),
        _integer("number", "m.number + 1", "Position on the branch."),
        _text("role", "m.role", "`user`, `assistant` or `system`."),
        _text(
            "origin",
            "m.origin",
            "Who produced a user message, such as `person` or `command`.",
        ),
        _time("sent_at", "m.time_ms", "When it was sent, in UTC."),
        _text("model", "m.model", "Model that replied."),
        _flag("is_error", f"m.flags & {IS_ERROR} > 0", "Whether it reports an error."),
        _flag(
            "is_steering",
            f"m.flags & {IS_STEERING} > 0",
            "Whether it was typed while Claude worked.",
        ),
        _is_abandoned("m"),
        _PROJECT,
        _loaded(
            "text",
            "text",
            ("message_text", *_MESSAGE_ARGUMENTS),
            "What was typed, what Claude replied, or what a notice says.",
        ),
        _loaded(
            "thinking",
            "text",
            ("message_thinking", *_MESSAGE_ARGUMENTS),
            "Claude's reasoning, if it is recorded.",
        ),
    ),
)
_TOOL_CALLS = View(
    name="tool_calls",
    description="Each tool call once, with those of agents.",
    source=(
        f"tool_call AS c {_SESSION_OF} = c.session {_PROJECT_OF} = c.session"
        " LEFT JOIN message AS m ON m.session = c.session AND m.agent = c.agent"
        " AND m.branch = c.branch AND m.number = c.message"
    ),
    order="c.session, c.agent, c.branch, c.message, c.position",
    columns=(
        _text("tool_use_id", "c.id", "The call."),
        _text("message_id", "record_id(m.id)", "The message that made it."),
        *_place("c"),
        _integer("turn", "c.turn + 1", "Turn on the branch."),
        ViewColumn("name", "text", "c.name", "Tool.", is_redacted=True),
        _text(
            "command",
            "c.command",
            "What a shell command runs, such as `npm test`.",
            is_redacted=True,
        ),
        _time("called_at", "c.time_ms", "When it was called, in UTC."),
        _integer("duration_ms", "c.duration_ms", "Milliseconds until the result."),
        _flag(
            "has_result", f"c.flags & {HAS_RESULT} > 0", "Whether there is a result."
        ),
        _flag(
            "is_failed", f"c.flags & {IS_ERROR} > 0", "Whether the result is an error."
        ),
        _flag(
            "is_interrupted",
            f"c.flags & {IS_INTERRUPTED | IS_STOPPED} > 0",
            "Whether you interrupted, stopped or refused it.",
        ),
        _integer("result_bytes", "c.result_bytes", "Size of the result."),
        _is_abandoned("c"),
        _PROJECT,
        _loaded("input", "json", ("call_input", *_CALL_ARGUMENTS), "The input."),
        _loaded(
            "output", "text", ("call_output", *_CALL_ARGUMENTS), "The result as text."
        ),
    ),
)
_FILE_CHANGES = View(
    name="file_changes",
    description="Each change of a file by a tool call.",
    source=f"edit AS e {_SESSION_OF} = e.session {_PROJECT_OF} = e.session",
    columns=(
        _text("path", "e.path", "The file.", is_redacted=True),
        _SESSION_ID,
        _text("agent_id", "e.agent", "Agent run; null for the session itself."),
        _integer("branch", "e.branch + 1", "Branch; 1 is the live one."),
        _text("tool_name", "e.tool", "Tool that changed it.", is_redacted=True),
        _time("edited_at", "e.time_ms", "When it was changed, in UTC."),
        _integer("added_lines", "e.added", "Lines added."),
        _integer("removed_lines", "e.removed", "Lines removed."),
        _flag("is_new_file", "e.is_new", "Whether the file did not exist."),
        _flag("is_deleted", "e.is_deleted", "Whether it was deleted."),
        _flag(
            "has_diff",
            "e.has_diff",
            "Whether the lines are recorded; if not, both counts are 0.",
        ),
        _PROJECT,
    ),
)
_USAGE = View(
    name="usage",
    description=(
        "Tokens and cost of each reply once, with those of agents: the rows that"
        " `bygones usage` sums. A reply that several sessions contain belongs to the"
        " oldest."
    ),
    source=(f"{_PAID} {_SESSION_OF} = p.session {_PROJECT_OF} = p.session"),
    helpers=("rate",),
    columns=(
        _SESSION_ID,
        _text("agent_id", "p.agent", "Agent run; null for the session itself."),
        _text("agent_type", "p.agent_type", "Type of the agent."),
        _text("model", "p.model", "Model that replied."),
        _text(
            "terms",
            "nullif(p.terms, '')",
            "Terms that change the price, such as `batch`.",
        ),
        _text("entrypoint", "p.entrypoint", "Program that requested the reply."),
        _time("sent_at", "u.time_ms", "When it was sent, in UTC."),
        _integer("branch", "abs(u.branch) + 1", "Branch; 1 is the live one."),
        _flag(
            "is_abandoned", "u.branch > 0", "Whether it is only on an abandoned branch."
        ),
        _integer("input_tokens", "u.input", "Input tokens that were not cached."),
        _integer("output_tokens", "u.output", "Output tokens."),
        _integer(
            "cache_write_5m_tokens", "u.cache_write_5m", "Tokens cached for 5 minutes."
        ),
        _integer(
            "cache_write_1h_tokens", "u.cache_write_1h", "Tokens cached for an hour."
        ),
        _integer("cache_read_tokens", "u.cache_read", "Tokens read from the cache."),
        _integer("total_tokens", _TOTAL, "All tokens."),
        _integer("web_search_count", "u.web_searches", "Web searches."),
        _integer(
            "estimated_output_tokens",
            "max(u.estimated_output - u.output, 0)",
            "Output tokens that were not recorded, estimated from the text.",
        ),
        ViewColumn(
            "cost_usd", "real", _COST, "Cost in dollars; null if a price is unknown."
        ),
        _PROJECT,
    ),
)
_PROMPTS = View(
    name="prompts",
    description="Each prompt once, in the oldest session that contains it.",
    source=(
        "prompt AS q JOIN session AS o ON o.number = q.session"  # noqa: S608 (our names)
        f" {_SESSION_OF} = q.session WHERE q.rowid = (SELECT f.rowid FROM prompt AS f"
        " JOIN session AS t ON t.number = f.session WHERE f.record = q.record"
        " AND f.session IN (SELECT number FROM session WHERE family = o.family)"
        " ORDER BY t.started_ms, f.session LIMIT 1)"
    ),
    order="q.session",
    columns=(
        _text("message_id", "portable_id(q.record)", "The message."),
        _SESSION_ID,
        _integer("branch", "q.branch + 1", "Branch; 1 is the live one."),
        _flag(
            "is_abandoned",
            "q.branch > 0 AND q.other_session IS NULL",
            "Whether it is only on an abandoned branch.",
        ),
        _time("sent_at", "q.time_ms", "When it was sent, in UTC."),
        _PROJECT,
        _loaded(
            "text",
            "text",
            ("prompt_text", "q.session", "q.record", "q.text_head"),
            "What was typed.",
        ),
    ),
)
_BRANCHES = View(
    name="branches",
    description="Each branch of a session, or of an agent run.",
    source=f"branch AS b {_SESSION_OF} = b.session {_PROJECT_OF} = b.session",
    columns=(
        *_place("b"),
        _flag("is_live", "b.branch = 0", "Whether it is the live branch."),
        _text("leaf_id", "record_id(b.leaf)", "Its last record."),
        _integer("parent_branch", "b.parent + 1", "Branch that it was forked from."),
        _integer(
            "message_count", "b.message_count", "Messages from the root to the leaf."
        ),
        _integer(
            "shared_count", "b.shared_count", "How many of them its parent has, too."
        ),
        _integer(
            "prompt_count", "b.prompt_count", "Prompts from the root to the leaf."
        ),
        _integer(
            "tool_call_count",
            "b.tool_call_count",
            "Tool calls from the root to the leaf.",
        ),
        _text("title", "b.title", "Title, if it has its own.", is_redacted=True),
        _PROJECT,
    ),
)
_AGENTS = View(
    name="agents",
    description="Each agent run.",
    source=(
        "agent_detail AS a LEFT JOIN agent_run AS n ON n.session = a.session"
        f" AND n.agent = a.agent {_SESSION_OF} = a.session {_PROJECT_OF} = a.session"
    ),
    helpers=("rate",),
    columns=(
        _text("agent_id", "a.agent", "The agent run."),
        _SESSION_ID,
        _text("agent_type", "n.agent_type", "Type of the agent.", is_redacted=True),
        _text(
            "kind", "a.kind", "`task`, or `warm-up` and `replay`, which are not shown."
        ),
        _text("status", "a.status", "How it ended."),
        _text(
            "description", "a.description", "What it was asked for.", is_redacted=True
        ),
        _text("workflow", "a.workflow", "Workflow that started it.", is_redacted=True),
        _flag("is_background", "a.is_background", "Whether it ran in the background."),
        _integer("depth", "a.depth", "1 if the session started it."),
        _time("started_at", "a.started_ms", "Time of its first record, in UTC."),
        _time("ended_at", "a.ended_ms", "Time of its last record, in UTC."),
        _integer("duration_ms", "a.duration_ms", "Milliseconds that it ran."),
        _integer("tool_call_count", "a.tool_call_count", "Its tool calls."),
        _text("tool_use_id", "a.call", "Call that started it."),
        *_usage_sums("p.session = a.session AND p.agent = a.agent"),
        _PROJECT,
    ),
)
_COMMITS = View(
    name="commits",
    description="Commits and pull requests that shell commands made; read from the archive.",
    source="{commit} AS k",
    helpers=("commit",),
    columns=(
        _text("sha", "k.sha", "Hash, maybe shortened; null for a pull request."),
        _text("kind", "k.kind", "`commit`, `merge` and so on, or `pull_request`."),
        _text("summary", "k.summary", "First line of its message."),
        _text("git_branch", "k.git_branch", "Git branch."),
        _text("url", "k.url", "Address of a pull request."),
        _text("session_id", "k.session_id", "The session."),
        _integer("turn", "k.turn", "Turn on the branch."),
        _integer("branch", "k.branch", "Branch; 1 is the live one."),
        _time("made_at", "k.made_ms", "When it was made, in UTC."),
    ),
)
_PROBLEMS = View(
    name="problems",
    description="What is odd in the files of sessions; read from the archive.",
    source="{problem} AS x",
    helpers=("problem",),
    columns=(
        _text("session_id", "x.session_id", "The session."),
        _text("kind", "x.kind", "What is odd."),
        _text("detail", "x.detail", "More about it."),
        _integer("count", "x.count", "How often it was found."),
        _text("source", "x.source", "File, relative to its home."),
        _integer("offset", "x.offset", "First byte."),
        _integer("length", "x.length", "Number of bytes."),
    ),
)
VIEWS: Sequence[View] = (
    _SESSIONS,
    _MESSAGES,
    _TOOL_CALLS,
    _FILE_CHANGES,
    _USAGE,
    _PROMPTS,
    _BRANCHES,
    _AGENTS,
    _COMMITS,
    _PROBLEMS,
)
VIEW_NAMES: Sequence[ViewName] = tuple(view.name for view in VIEWS)


def find_view(name: str) -> View | None:
    """Return a view by its name."""
    return next((view for view in VIEWS if view.name == name), None)
