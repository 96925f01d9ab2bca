"""Read the rows of a team store within a scope: sessions, search facts and usage."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from heapq import nlargest
from typing import NamedTuple

import msgspec
from msgspec import Struct

from bygones.model.base import AgentId, RecordId, SessionId
from bygones.model.path_case import path_ends_with
from bygones.model.query import And, FieldTerm, FieldValue, Not, Or, Term, TimeRange
from bygones.model.summary import IndexedEdit, MessageUsage, SessionSummary, Title
from bygones.model.usage import QUARTER_HOUR_SECONDS, ReportedCost
from bygones.store.derived_tables import decode_by_end_time
from bygones.store.encoding import (
    TextLengths,
    id_key,
    id_key_range,
    split_titles,
    to_milliseconds,
)
from bygones.store.local_reader import edit_from_row, from_milliseconds
from bygones.store.protocols import PromptRow, RecordLocation
from bygones.store.usage_tables import (
    WARM_UP_SQL,
    Payer,
    RowFilter,
    ToolContextSum,
    UsageDivision,
    UsageSum,
    UtcOffsets,
    decode_warm_ups,
)
from bygones.team.contract import ScopedDatabase, pack_key, unpack_key
from bygones.team.projects import TeamProjects, decode_identity

_LAST_CHARACTER = "\U0010ffff"
_QUERY_BATCH = 5000


class TeamSessionReader:
    """The rows of sessions."""

    def __init__(
        self,
        database: ScopedDatabase,
        projects: TeamProjects,
        prefetch: Callable[[Iterable[int]], None],
    ) -> None:
        self._database = database
        self._projects = projects
        self._prefetch = prefetch
        """Called with sources that will be read."""
        self._family_sources: dict[int, list[int]] = {}
        """Sources by session, for the family that was loaded last."""

    def iter_summaries(
        self, *, include_empty: bool = False
    ) -> Iterator[SessionSummary]:
        sql = "SELECT ended_ms, summary FROM {session} AS s"
        if not include_empty:
            sql += " WHERE is_empty = 0"
        order = " ORDER BY ended_ms DESC NULLS LAST, number"
        rows = self._database.rows(sql + order)
        return map(self._projects.apply, decode_by_end_time(rows))

    def session_number(self, session: SessionId) -> int | None:
        sql = "SELECT number FROM {session} AS s WHERE session = %(session)s"
        row = self._database.first_row(
            f"{sql} ORDER BY number LIMIT 1", session=session
        )
        return row[0] if row else None

    def family_members(self, number: int) -> list[int]:
        rows = self._database.rows(
            "SELECT s.number, b.source FROM {session} AS s JOIN {session_source} AS b"
            " ON b.number = s.number WHERE s.family IN"
            " (SELECT family FROM {session} AS t WHERE number = %(number)s)"
            " ORDER BY s.number, b.source",
            number=number,
        )
        self._family_sources = {}
        for member, source in rows:
            self._family_sources.setdefault(member, []).append(source)
        self._prefetch({source for _, source in rows})
        return list(self._family_sources)

    def session_sources(self, session: int) -> list[int]:
        if session in self._family_sources:
            return self._family_sources[session]
        sql = "SELECT source FROM {session_source} AS b WHERE number = %(number)s"
        rows = self._database.rows(f"{sql} ORDER BY source", number=session)
        return [row[0] for row in rows]

    def leaf_titles(self, sessions: Iterable[int]) -> list[tuple[RecordId, str, int]]:
        among = self._database.db.in_list("number", "numbers")
        return self._database.rows(
            "SELECT t.leaf, t.title, t.source FROM {leaf_title} AS t WHERE t.leaf_key IN"  # noqa: S608 (constants)
            f" (SELECT key FROM {{record}} AS r WHERE {among})"
            " ORDER BY t.source, t.start",
            numbers=list(sessions),
        )


class TeamLookup:
    """Finds sessions and records by parts of their ids."""

    def __init__(self, database: ScopedDatabase, projects: TeamProjects) -> None:
        self._database = database
        self._projects = projects

    def load_summary(self, number: int) -> SessionSummary | None:
        sql = "SELECT summary FROM {session} AS s WHERE number = %(number)s"
        row = self._database.first_row(sql, number=number)
        return self._projects.decode(row[0]) if row else None

    def find_sessions(self, prefix: str, limit: int) -> list[SessionSummary]:
        """Return sessions whose id starts with a prefix, or has exactly this value."""
        sql = "SELECT session, summary FROM {session} AS s WHERE session "
        exact = self._database.rows(f"{sql} = %(name)s ORDER BY number", name=prefix)
        rows = exact or self._database.rows(
            f"{sql} >= %(name)s AND session < %(last)s ORDER BY number LIMIT %(most)s",
            name=prefix,
            last=prefix + _LAST_CHARACTER,
            most=limit,
        )
        # Two people may have uploaded the same session: the first one counts.
        blobs = dict(reversed(rows)).values()
        return [self._projects.decode(blob) for blob in blobs][::-1]

    def numbered_summaries(self) -> Iterator[tuple[int, SessionSummary]]:
        sql = "SELECT number, summary FROM {session} AS s"
        for number, blob in self._database.rows(sql):
            yield number, self._projects.decode(blob)

    def session_ids(self) -> list[str]:
        return [
            row[0] for row in self._database.rows("SELECT session FROM {session} s")
        ]

    def find_records(self, prefix: str, limit: int) -> list[RecordLocation]:
        """Return records whose id may start with a prefix, the oldest first."""
        low = high = id_key(prefix)
        rows = self._records_between(low, high, limit)
        bounds = id_key_range(prefix)
        if not rows and bounds is not None:
            rows = self._records_between(*bounds, limit)
        return rows

    def _records_between(self, low: int, high: int, most: int) -> list[RecordLocation]:
        rows = self._database.rows(
            "SELECT r.number, r.key, r.source, r.start, r.length FROM {record} AS r"
            " JOIN {session} AS s ON s.number = r.number"
            " WHERE r.key IN (SELECT DISTINCT key FROM {record} AS q"
            " WHERE key >= %(low)s AND key <= %(high)s ORDER BY key LIMIT %(most)s)"
            " ORDER BY s.started_ms ASC NULLS LAST, r.number, r.source, r.start",
            low=low,
            high=high,
            most=most,
        )
        return [RecordLocation(*row) for row in rows]

    def drift(self) -> Iterator[tuple[str, str, str, int]]:
        """Yield unknown types: kind, name, version and count."""
        rows = self._database.rows(
            "SELECT kind, name, version, CAST(sum(count) AS bigint) FROM {drift} AS d"
            " GROUP BY kind, name, version ORDER BY kind, name, version"
        )
        yield from (tuple(row) for row in rows)


class TeamEditReader:
    """Edits of files."""

    _SQL = (
        "SELECT e.path, s.session, e.branch, e.agent, e.time_ms, e.added, e.removed,"
        " e.is_new, e.is_deleted, e.has_diff, e.tool"
        " FROM {edit} AS e JOIN {session} AS s ON s.number = e.number WHERE "
    )
    _ORDER = " ORDER BY e.time_ms ASC NULLS FIRST, e.number, e.position"

    def __init__(self, database: ScopedDatabase) -> None:
        self._database = database

    def edits_in_session(self, session: SessionId) -> list[IndexedEdit]:
        sql = f"{self._SQL} s.session = %(session)s{self._ORDER}"
        return [edit_from_row(row) for row in self._database.rows(sql, session=session)]

    def edits_under(self, path: str) -> list[IndexedEdit]:
        """Return the edits of a file, or of all files in a folder, oldest first."""
        folder = path.rstrip("/\\") + ("\\" if "\\" in path else "/")
        sql = (
            f"{self._SQL} (e.path = %(path)s OR (e.path >= %(folder)s"
            f" AND e.path < %(last)s)){self._ORDER}"
        )
        rows = self._database.rows(
            sql, path=path, folder=folder, last=folder + _LAST_CHARACTER
        )
        return [edit_from_row(row) for row in rows]

    def edits_with_suffix(self, suffix: str) -> list[IndexedEdit]:
        # Compared in Python: databases differ in how they count characters.
        rows = self._database.rows("SELECT DISTINCT path FROM {edit} AS e")
        paths = [row[0] for row in rows if path_ends_with(row[0], suffix)]
        among = self._database.db.in_list("e.path", "paths")
        found: list[IndexedEdit] = []
        for start in range(0, len(paths), _QUERY_BATCH):
            some = paths[start : start + _QUERY_BATCH]
            sql = f"{self._SQL} {among}{self._ORDER}"
            found += [
                edit_from_row(row) for row in self._database.rows(sql, paths=some)
            ]
        return found


class TeamPromptReader:
    """Prompts of all sessions."""

    def __init__(self, database: ScopedDatabase) -> None:
        self._database = database

    def newest_first(self) -> Iterator[PromptRow]:
        """Yield prompts; one that several sessions share only for the oldest session."""
        rows = self._database.rows(
            "SELECT s.family, p.record, s.session, p.time_ms, p.branch, p.text_head,"
            " p.other_session"
            " FROM {prompt} AS p JOIN {session} AS s ON s.number = p.number"
            " ORDER BY s.started_ms ASC NULLS FIRST, p.number, p.position"
        )
        first: dict[tuple[int, str], PromptRow] = {}
        for family, record, session, time_ms, *rest in rows:
            row = PromptRow(session, record, from_milliseconds(time_ms), *rest)
            first.setdefault((family, record), row)
        oldest = datetime.min.replace(tzinfo=UTC)
        found = sorted(first.values(), key=lambda row: row.time or oldest)
        yield from reversed(found)


_NEIGHBORS = 200
"""Records before and after a requested one that are loaded with it."""
_MAX_CACHED_RECORDS = 5_000
"""Record locations that are cached between pages of a search."""


class RecordStart(NamedTuple):
    """The source and offset of a record that will be read."""

    source: int
    start: int


class _SessionFacts(NamedTuple):
    """What a search needs about every session."""

    part: int
    family: int
    ended_ms: int
    title: str
    lengths: bytes


class TeamSearchFacts:
    """What a search needs about sessions and records besides their texts."""

    def __init__(
        self,
        database: ScopedDatabase,
        projects: TeamProjects,
        prefetch: Callable[[Sequence[RecordStart]], None],
    ) -> None:
        self._database = database
        self._projects = projects
        self._prefetch = prefetch
        """Called with records that will be read."""
        self._session_facts: dict[int, _SessionFacts] = {}
        self._is_stale = True
        self._clear_cache()

    def _clear_cache(self) -> None:
        self._locations: dict[int, RecordLocation] = {}
        self._records_by_uuid: dict[tuple[int, int], int] = {}
        """Records by session and key."""
        self._summaries: dict[int, SessionSummary] = {}
        self._abandoned: dict[int, set[int]] = {}
        self._agent_types: dict[int, dict[str, str | None]] = {}

    def mark_stale(self) -> None:
        """Load what has changed before the next search."""
        self._is_stale = True

    @property
    def session_facts(self) -> dict[int, _SessionFacts]:
        """Facts about all sessions; only those that have changed are loaded."""
        if self._is_stale:
            self._clear_cache()
            # The last part of a session that has grown has another number.
            rows = self._database.rows("SELECT number, part FROM {session} AS s")
            current = dict(rows)
            facts = {
                number: one
                for number, one in self._session_facts.items()
                if current.get(number) == one.part
            }
            new = list(current.keys() - facts.keys())
            sql = (
                "SELECT number, part, family, coalesce(ended_ms, 0), title, text_lengths"
                " FROM {session} AS s"
            )
            if new and facts:
                sql += f" WHERE {self._database.db.in_list('number', 'numbers')}"
            for number, *columns in (
                self._database.rows(sql, numbers=new) if new else ()
            ):
                facts[number] = _SessionFacts(*columns)
            self._session_facts = facts
            self._is_stale = False
        return self._session_facts

    def text_lengths(self) -> dict[int, tuple[int, ...]]:
        lines = self.session_facts
        return {
            number: TextLengths.unpack_counts(one.lengths)
            for number, one in lines.items()
        }

    def time_ranges(self) -> dict[int, tuple[int, int]]:
        """Return the first and last time of each session's records; 0 if unknown."""
        read = (
            (number, TextLengths(one.lengths))
            for number, one in self.session_facts.items()
        )
        return {number: (one.first_ms, one.last_ms) for number, one in read}

    def end_times(self) -> dict[int, int]:
        """Return the end of each session in milliseconds; 0 if unknown."""
        return {number: one.ended_ms for number, one in self.session_facts.items()}

    def newest_sessions(self, limit: int) -> list[int]:
        """Return the sessions that ended last."""
        facts = self.session_facts
        return nlargest(
            limit, facts, key=lambda number: (facts[number].ended_ms, number)
        )

    def given_titles(self) -> list[tuple[int, str]]:
        lines = self.session_facts.items()
        return split_titles((number, one.title) for number, one in lines if one.title)

    def tool_names(self) -> list[str]:
        rows = self._database.rows("SELECT DISTINCT tool FROM {tool_context} AS e")
        return [row[0] for row in rows]

    def sessions_calling(self, tool: str) -> set[int]:
        sql = "SELECT DISTINCT number FROM {tool_context} AS e WHERE tool = %(tool)s"
        return {row[0] for row in self._database.rows(sql, tool=tool)}

    def families(self) -> dict[int, int]:
        sizes: dict[int, int] = {}
        for one in self.session_facts.values():
            sizes[one.family] = sizes.get(one.family, 0) + 1
        lines = self.session_facts.items()
        return {number: one.family for number, one in lines if sizes[one.family] > 1}

    def prefetch(self, sessions: Sequence[int], records: Sequence[int]) -> None:
        """Load what will be needed of sessions and records, and their bytes."""
        self._load_sessions([one for one in sessions if one not in self._abandoned])
        new = [record for record in records if record not in self._locations]
        if len(self._locations) > _MAX_CACHED_RECORDS:
            self._locations.clear()
            self._records_by_uuid.clear()
            new = list(records)
        self._load_locations(new)
        places = (self._locations.get(record) for record in records)
        self._prefetch([RecordStart(one.source, one.offset) for one in places if one])

    def _load_sessions(self, sessions: Sequence[int]) -> None:
        if not sessions:
            return
        among = self._database.db.in_list("number", "numbers")
        rows = self._database.rows(
            f"SELECT number, summary, 0 AS record_key, '' AS agent, '' AS agent_type, 0 AS what"  # noqa: S608 (constants)
            f" FROM {{session}} AS s WHERE {among} UNION ALL"
            " SELECT number, NULL, record_key, '', '', 1"
            f" FROM {{abandoned_record}} AS a WHERE {among} UNION ALL"
            " SELECT number, NULL, 0, agent, agent_type, 2"
            f" FROM {{agent_run}} AS r WHERE {among}",
            numbers=list(sessions),
        )
        for number in sessions:
            self._abandoned[number] = set()
            self._agent_types[number] = {}
        for number, blob, key, agent, kind, what in rows:
            if what == 0:
                self._summaries[number] = self._projects.decode(blob)
            elif what == 1:
                self._abandoned[number].add(key)
            else:
                self._agent_types[number][agent] = kind

    def load_summary(self, number: int) -> SessionSummary | None:
        if number not in self._abandoned:
            self._load_sessions([number])
        return self._summaries.get(number)

    def numbered_summaries(self) -> Iterator[tuple[int, SessionSummary]]:
        for number, blob in self._database.rows(
            "SELECT number, summary FROM {session} s"
        ):
            yield number, self._projects.decode(blob)

    def abandoned_keys(self, session: int) -> set[int]:
        """Return the keys of records on abandoned branches."""
        if session not in self._abandoned:
            self._load_sessions([session])
        return self._abandoned[session]

    def agent_type(self, session: int, agent: str) -> str | None:
        if session not in self._agent_types:
            self._load_sessions([session])
        return self._agent_types[session].get(agent)

    def abandoned_records(self) -> list[int]:
        rows = self._database.rows(
            "SELECT r.number, r.record FROM {record} AS r JOIN {abandoned_record} AS w"
            " ON w.number = r.number AND w.record_key = r.key"
        )
        return [pack_key(*row) for row in rows]

    def record_location(self, record: int) -> RecordLocation | None:
        if record not in self._locations:
            session, within = unpack_key(record)
            self._query_locations(
                "number = %(number)s AND record >= %(low)s AND record <= %(high)s",
                number=session,
                low=within - _NEIGHBORS,
                high=within + _NEIGHBORS,
            )
        return self._locations.get(record)

    def _load_locations(self, records: Sequence[int]) -> None:
        if records:
            pairs = sorted(map(unpack_key, records))
            # Not all databases use an index for pairs of columns.
            among = self._database.db.in_list("number", "numbers")
            is_listed = self._database.db.pair_in_list("number, record", "records")
            where = f"{among} AND {is_listed}"
            numbers = sorted({number for number, _ in pairs})
            self._query_locations(where, numbers=numbers, records=pairs)

    def _query_locations(self, where: str, **values: object) -> None:
        sql = (
            "SELECT number, record, number, key, source, start, length"
            " FROM {record} AS r"
        )
        for number, record, *place in self._database.rows(
            f"{sql} WHERE {where}", **values
        ):
            found = self._locations[pack_key(number, record)] = RecordLocation(*place)
            self._records_by_uuid.setdefault((number, found.key), record)

    def find_record(self, session: int, key: int) -> int | None:
        known = self._records_by_uuid.get((session, key))
        if known is not None:
            return pack_key(session, known)
        row = self._database.first_row(
            "SELECT record FROM {record} AS r"
            " WHERE number = %(number)s AND key = %(key)s ORDER BY record LIMIT 1",
            number=session,
            key=key,
        )
        return pack_key(session, row[0]) if row else None

    def record_keys(self, records: Iterable[int]) -> dict[int, int]:
        """Return the keys of records; copies of a record have the same."""
        wanted = list(records)
        known = self._locations
        self._load_locations([record for record in wanted if record not in known])
        return {record: known[record].key for record in wanted if record in known}


_decode_claim = msgspec.msgpack.Decoder(ReportedCost).decode
_CONTEXT_TOKENS = "(e.input + e.cache_write_5m + e.cache_write_1h + e.cache_read)"
_COUNTED_COLUMNS = (
    *("input", "output", "cache_write_5m", "cache_write_1h", "cache_read"),
    "web_searches",
)
_COUNTED_SUMS = ", ".join(f"CAST(sum(e.{name}) AS bigint)" for name in _COUNTED_COLUMNS)
_GUESSED_SUM = "CAST(sum(greatest(e.estimated_output - e.output, 0)) AS bigint)"


class _TitleFields(Struct, frozen=True, gc=False, array_like=True):
    """The first fields of a summary; the others are not decoded."""

    id: SessionId
    title: Title


_decode_title = msgspec.msgpack.Decoder(_TitleFields).decode


class TeamUsageReader:
    """Tokens, costs and tool results."""

    def __init__(self, database: ScopedDatabase, projects: TeamProjects) -> None:
        self._database = database
        self._projects = projects

    def load_payers(self, sessions: Iterable[int] | None = None) -> list[Payer]:
        sql = (
            "SELECT number, payer, agent, agent_type, model, terms, entrypoint"
            " FROM {payer} AS p"
        )
        if sessions is None:
            rows = self._database.rows(sql)
        else:
            among = self._database.db.in_list("number", "numbers")
            numbers = [*sessions, 0]
            rows = self._database.rows(f"{sql} WHERE {among}", numbers=numbers)
        return [
            Payer(
                pack_key(number, payer),
                number,
                AgentId(agent) if agent is not None else None,
                kind,
                model,
                tuple(terms.split()),
                entrypoint,
            )
            for number, payer, agent, kind, model, terms, entrypoint in rows
        ]

    def session_projects(self) -> dict[int, tuple[SessionId, str | None]]:
        rows = self._database.rows(
            "SELECT number, session, project, identity FROM {session} AS s"
        )
        main_path = self._projects.main_path
        return {
            number: (SessionId(session), main_path(project, decode_identity(identity)))
            for number, session, project, identity in rows
        }

    def session_people(self) -> dict[int, str]:
        rows = self._database.rows("SELECT number, summary FROM {session} AS s")
        return {number: self._projects.decode(blob).person for number, blob in rows}

    def reported_costs(self) -> list[tuple[int, ReportedCost]]:
        rows = self._database.rows("SELECT number, cost FROM {reported_cost} AS c")
        return [(row[0], _decode_claim(row[1])) for row in rows]

    def warm_up_usages(self) -> list[tuple[int, MessageUsage]]:
        return decode_warm_ups(self._database.rows(f"SELECT number, {WARM_UP_SQL}"))

    def time_range(self) -> tuple[int, int] | None:
        row = self._database.first_row(
            "SELECT min(started_ms), max(ended_ms) FROM {session} AS s"
        )
        return (row[0], row[1]) if row and None not in row else None

    def session_titles(self) -> dict[SessionId, str]:
        rows = self._database.rows("SELECT session, summary FROM {session} AS s")
        return {SessionId(name): _decode_title(blob).title.text for name, blob in rows}

    def sum_usage(
        self,
        division: UsageDivision,
        *,
        where: Term | None = None,
        row_filter: Callable[[FieldValue | FieldTerm], RowFilter],
    ) -> Iterator[UsageSum]:
        """Yield sums of tokens, separated by everything that prices depend on."""
        limits = _UsageFilter(self._database, row_filter, "e.time_ms")
        slot = (
            self._database.db.integer_division(
                _local_time_sql("e.time_ms", division.utc_offsets), division.slot_ms
            )
            if division.slot_ms
            else "NULL"
        )
        parts = [
            "e.number",
            "e.payer",
            slot,
            _sum_flags_sql(
                f"{_CONTEXT_TOKENS} > {step:d}" for step in division.context_steps
            ),
            _sum_flags_sql(f"e.time_ms >= {age:d}" for age in division.price_changes),
            _flag_sql("e.branch > 0") if division.by_branch else "0",
        ]
        keys = [
            str(at) for at, part in enumerate(parts, 1) if part not in {"NULL", "0"}
        ]
        sql = (
            f"SELECT {', '.join(parts)}, count(*), {_COUNTED_SUMS}, {_GUESSED_SUM},"  # noqa: S608 (constants)
            " min(e.time_ms), max(e.time_ms) FROM {usage} AS e"
        )
        if division.only_reported:
            sql += " JOIN {reported_cost} AS c ON c.number = e.number"
        conditions = [limits.condition(where)] if where is not None else []
        conditions += ["e.time_ms <= c.until_ms"] if division.only_reported else []
        sql += f" WHERE {' AND '.join(conditions)}" if conditions else ""
        for row in self._database.rows(
            f"{sql} GROUP BY {', '.join(keys)}", **limits.values
        ):
            number, payer, slot_of, step, age, abandoned, answers = row[:7]
            guessed, first, last = row[13:]
            yield UsageSum(
                payer=pack_key(number, payer),
                slot=slot_of,
                context_step=step,
                price_period=age,
                abandoned=abandoned,
                answers=answers,
                token_counts=tuple(row[7:13]),
                estimated_output=guessed,
                first_ms=first,
                last_ms=last,
            )

    def session_tools(self) -> list[tuple[int, str]]:
        rows = self._database.rows(
            "SELECT DISTINCT number, tool FROM {tool_context} AS e"
        )
        return [(number, tool) for number, tool in rows]

    def sum_tool_context(
        self,
        *,
        where: Term | None,
        row_filter: Callable[[FieldValue | FieldTerm], RowFilter],
    ) -> list[ToolContextSum]:
        limits = _UsageFilter(
            self._database,
            row_filter,
            f"(e.quarter_hour * {QUARTER_HOUR_SECONDS * 1000})",
        )
        sql = (
            "SELECT tool, CAST(sum(calls) AS bigint), CAST(sum(result_bytes) AS bigint)"
            " FROM {tool_context} AS e"
        )
        if where is not None:
            sql += f" WHERE {limits.condition(where)}"
        rows = self._database.rows(f"{sql} GROUP BY tool", **limits.values)
        return [ToolContextSum(*row) for row in rows]


class _UsageFilter:
    """Compiles a query to a condition, and collects its values."""

    def __init__(
        self,
        database: ScopedDatabase,
        among: Callable[[FieldValue | FieldTerm], RowFilter],
        time: str,
    ) -> None:
        self._db = database.db
        self._among = among
        self._time = time
        self.values: dict[str, object] = {}

    def condition(self, term: Term) -> str:
        if isinstance(term, And | Or):
            joint = " AND " if isinstance(term, And) else " OR "
            return f"({joint.join(map(self.condition, term.terms))})"
        if isinstance(term, Not):
            return f"NOT {self.condition(term.term)}"
        if isinstance(term, TimeRange):
            sides = [
                f"coalesce({self._time} {operator} {to_milliseconds(moment):d}, false)"
                for moment, operator in ((term.start, ">="), (term.end, "<"))
                if moment is not None
            ]
            return f"({' AND '.join(sides) or 'true'})"
        if isinstance(term, FieldValue | FieldTerm):
            return self._in_values(self._among(term))
        raise TypeError(term)

    def _in_values(self, found: RowFilter) -> str:
        if found.column == "is_abandoned":
            return f"({_flag_sql('e.branch > 0')} IN ({_number_list(found.values)}))"
        if not found.values:
            return "(1 = 0)"
        key = f"chosen{len(self.values)}"
        if found.column == "session":
            self.values[key] = sorted(found.values)
            return f"({self._db.in_list('e.number', key)})"
        self.values[key] = [unpack_key(number) for number in sorted(found.values)]
        return f"({self._db.pair_in_list('e.number, e.payer', key)})"


def _number_list(values: frozenset[int]) -> str:
    return ", ".join(str(int(value)) for value in sorted(values)) or "-1"


def _flag_sql(condition: str) -> str:
    return f"CASE WHEN {condition} THEN 1 ELSE 0 END"


def _sum_flags_sql(conditions: Iterator[str]) -> str:
    return " + ".join(map(_flag_sql, conditions)) or "0"


def _local_time_sql(time: str, clock: UtcOffsets | None) -> str:
    """Return local time as milliseconds since 1970."""
    if clock is None or not (clock.transitions or clock.final_offset):
        return time
    if not clock.transitions:
        return f"({time} + {clock.final_offset:d})"
    whens = " ".join(f"WHEN {time} < {t:d} THEN {o:d}" for t, o in clock.transitions)
    return f"({time} + CASE {whens} ELSE {clock.final_offset:d} END)"
