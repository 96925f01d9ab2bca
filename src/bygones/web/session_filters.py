"""The filters and the order of session lists, as query parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta, tzinfo

from msgspec import Struct

from bygones.archive import Archive
from bygones.errors import BadRequest
from bygones.model.base import SessionId
from bygones.model.query import (
    FieldTerm,
    FieldValue,
    Flag,
    Or,
    Prefix,
    Query,
    Term,
    TimeRange,
    Word,
)
from bygones.model.reports import NANOS_PER_DOLLAR
from bygones.model.summary import SessionSummary
from bygones.model.usage import Cost
from bygones.query.parser import and_terms, parse_query
from bygones.query.times import ReferenceTime, parse_period
from bygones.render.numbers import short_model_name
from bygones.web.context import RequestContext

_MIN_DATETIME = datetime.min.replace(tzinfo=UTC)
_MARKUP = "*_`# \t\n"
"""What titles may start with that lists do not show."""
Costs = Mapping[SessionId, Cost]
SortKey = Callable[[SessionSummary, Costs], str | float | datetime]


def session_time(summary: SessionSummary) -> datetime | None:
    """Return the time by which a session is listed."""
    return summary.ended_at or summary.started_at


def session_duration(summary: SessionSummary) -> timedelta:
    if summary.started_at is None or summary.ended_at is None:
        return timedelta(0)
    return max(summary.ended_at - summary.started_at, timedelta(0))


def cost_nanos(summary: SessionSummary, costs: Costs) -> int:
    cost = costs.get(summary.id)
    return (cost.nano_usd or 0) if cost else 0


def project_location(summary: SessionSummary) -> str:
    """Return a session's project, or the folder of its transcript."""
    return summary.project or next(iter(summary.project_keys), "")


def project_name(summary: SessionSummary) -> str:
    """Return the last part of the project's path."""
    path = project_location(summary)
    return path.replace("\\", "/").rstrip("/").rpartition("/")[2] or path


SORT_KEYS: dict[str, SortKey] = {
    "when": lambda one, _: session_time(one) or _MIN_DATETIME,
    "title": lambda one, _: one.title.text.lstrip(_MARKUP).casefold() or one.id,
    "project": lambda one, _: project_name(one).casefold(),
    "model": lambda one, _: short_model_name(one.models[0]) if one.models else "",
    "prompts": lambda one, _: one.prompt_count,
    "branches": lambda one, _: one.branch_count,
    "agents": lambda one, _: one.agent_count,
    "duration": lambda one, _: session_duration(one).total_seconds(),
    "tokens": lambda one, _: one.usage.total,
    "cost": cost_nanos,
}
"""What lists can be sorted by; `sort=-cost` is in descending order."""
DEFAULT_SORT = "-when"
_EMPTY_CELLS = ("", 0)


class SessionFilters(Struct, frozen=True, kw_only=True):
    """Which sessions a list shows, and in which order."""

    project: str = ""
    model: str = ""
    tool: str = ""
    title_text: str = ""
    query_text: str = ""
    """A query in the language of searches."""
    day: date | None = None
    since: date | None = None
    until: date | None = None
    max_age_days: int = 0
    tag: str = ""
    is_starred: bool = False
    has_errors: bool = False
    min_cost: float = 0.0
    """In dollars."""
    include_empty: bool = False
    sort: str = DEFAULT_SORT

    @classmethod
    def from_request(cls, context: RequestContext) -> SessionFilters:
        sort = context.query_param("sort", 20) or DEFAULT_SORT
        if sort.removeprefix("-") not in SORT_KEYS:
            raise BadRequest(f"sort must be one of {', '.join(SORT_KEYS)}")
        return cls(
            project=context.query_param("project"),
            model=context.query_param("model"),
            tool=context.query_param("tool"),
            title_text=context.query_param("text"),
            query_text=context.query_param("q"),
            day=context.query_date("on"),
            since=context.query_date("since"),
            until=context.query_date("until"),
            max_age_days=context.query_int("days", 0, 0, 10_000),
            tag=context.query_param("tag", 100),
            is_starred=context.query_flag("starred"),
            has_errors=context.query_flag("errors"),
            min_cost=context.query_number("cost"),
            include_empty=context.query_flag("all"),
            sort=sort,
        )

    @property
    def filter_params(self) -> dict[str, object]:
        return {
            "project": self.project,
            "model": self.model,
            "tool": self.tool,
            "text": self.title_text,
            "q": self.query_text,
            "on": self.day.isoformat() if self.day else "",
            "since": self.since.isoformat() if self.since else "",
            "until": self.until.isoformat() if self.until else "",
            "days": self.max_age_days,
            "tag": self.tag,
            "starred": "1" if self.is_starred else "",
            "errors": "1" if self.has_errors else "",
            "cost": f"{self.min_cost:g}" if self.min_cost else "",
            "all": "1" if self.include_empty else "",
        }

    @property
    def query_params(self) -> dict[str, object]:
        sort = "" if self.sort == DEFAULT_SORT else self.sort
        return {**self.filter_params, "sort": sort}

    @property
    def is_filtered(self) -> bool:
        return any(self.filter_params.values())

    @property
    def needs_costs(self) -> bool:
        return bool(self.min_cost) or self.sort.removeprefix("-") == "cost"

    def queries(self, now: datetime, timezone: tzinfo) -> Iterator[Query]:
        """Yield the queries that select these sessions; each is about a whole session."""
        if self.query_text:
            yield parse_query(self.query_text, now=now, zone=timezone)
        if self.tool:
            yield Query(FieldValue("tool", self.tool))
        if self.has_errors:
            yield Query(FieldValue("is", Flag.ERROR))
        terms: list[Term] = list(_title_terms(self.title_text))
        if self.model:
            terms.append(FieldValue("model", self.model))
        if self.tag:
            terms.append(FieldValue("tag", self.tag))
        if self.is_starred:
            terms.append(FieldValue("is", Flag.STARRED))
        terms += self._periods(now, timezone)
        if terms or self.project:
            yield Query(and_terms(terms))

    def _periods(self, now: datetime, timezone: tzinfo) -> Iterator[TimeRange]:
        """Yield the times in which sessions have to have been active."""
        reference = ReferenceTime(now, timezone)
        after_last = self.until + timedelta(days=1) if self.until else None
        days = (("on", self.day), ("after", self.since), ("before", after_last))
        for field, day in days:
            period = parse_period(field, str(day), reference) if day else None
            if period:
                yield period
        if self.max_age_days:
            yield TimeRange(start=now - timedelta(days=self.max_age_days))

    def select(
        self, context: RequestContext, summaries: Sequence[SessionSummary]
    ) -> Sequence[SessionSummary]:
        """Return the sessions to show, out of all, in their order."""
        selected = [
            summary
            for summary in summaries
            if self.include_empty or not summary.is_empty
        ]
        with context.pool.archive() as archive:
            for query in self.queries(context.now, context.zone):
                selected = list(
                    archive.select(
                        query,
                        project=self.project or None,
                        include_empty=self.include_empty,
                        summaries=selected,
                    ).sessions
                )
        costs = load_all_costs(context) if self.needs_costs else {}
        if self.min_cost:
            least = self.min_cost * NANOS_PER_DOLLAR
            selected = [one for one in selected if cost_nanos(one, costs) >= least]
        if self.sort != DEFAULT_SORT:
            key = SORT_KEYS[self.sort.removeprefix("-")]
            is_descending = self.sort.startswith("-")
            selected.sort(key=lambda one: key(one, costs), reverse=is_descending)
            # Those whose cell is empty come last in both orders.
            selected.sort(key=lambda one: key(one, costs) in _EMPTY_CELLS)
        return selected


def load_all_costs(context: RequestContext) -> Costs:
    """Return the costs of all sessions, from the cache if possible."""
    prices = context.app_state.prices

    def load(archive: Archive) -> Costs:
        return archive.costs(archive.sessions(include_empty=True), prices)

    return context.pool.cached("costs", load)


def _title_terms(text: str) -> Iterator[Term]:
    """Yield a term for each word of a title; the last may still be being typed."""
    *whole, last = text.split() or [""]
    for word in whole:
        yield FieldTerm("title", Word(word))
    if last:
        yield Or((FieldTerm("title", Word(last)), FieldTerm("title", Prefix(last))))
