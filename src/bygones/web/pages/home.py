"""The home page: what was worked on, day by day, and what is running now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from html import escape

from msgspec import Struct
from msgspec.structs import force_setattr
from starlette.responses import HTMLResponse, Response

from bygones.archive import Archive
from bygones.model.ids import SessionId
from bygones.model.listing import Listed
from bygones.model.reports import NANOS, UsageReport, UsageRow
from bygones.render.figures import lasting, money, several, tokens
from bygones.render.html.markup import NOTHING, Html, facts, joined, tag, words
from bygones.web.charts import bars, heat_map
from bygones.web.frame import Frame, address, empty, framed, link, stamp
from bygones.web.visit import Visit

__all__ = ["RUNNING", "Filters", "home", "is_running", "more", "session_line"]

_PAGE = 60
RUNNING = timedelta(minutes=5)
"""How long a session is running after something was said in it."""
_CHOICES = 200
_SHARED = (
    "project",
    "keys",
    "models",
    "versions",
    "git_branches",
    "entrypoints",
    "tags",
    "lineage",
    "flags",
    "note",
)
"""What is the same in the lines of many sessions."""


class Filters(Struct, frozen=True, kw_only=True):
    """Which sessions are shown; every state is an address."""

    project: str = ""
    model: str = ""
    tool: str = ""
    text: str = ""
    on: date | None = None
    days: int = 0
    all: bool = False

    @classmethod
    def of(cls, visit: Visit) -> Filters:
        """Return what an address asks for."""
        return cls(
            project=visit.text("project"),
            model=visit.text("model"),
            tool=visit.text("tool"),
            text=visit.text("text"),
            on=visit.day("on"),
            days=visit.number("days", 0, 0, 10_000),
            all=visit.flag("all"),
        )

    @property
    def asked(self) -> dict[str, object]:
        """The values as they stand in an address."""
        return {
            "project": self.project,
            "model": self.model,
            "tool": self.tool,
            "text": self.text,
            "on": self.on.isoformat() if self.on else "",
            "days": self.days,
            "all": "1" if self.all else "",
        }

    def fits(self, one: Listed, now: datetime) -> bool:
        """Whether a session is shown."""
        if self.project and not _is_in(one.project, self.project):
            return False
        if self.model and not any(self.model in model for model in one.models):
            return False
        if self.text and self.text.casefold() not in one.title.text.casefold():
            return False
        if self.on and not _is_on(one, self.on):
            return False
        if self.days:
            ended = one.ended or one.started
            return ended is not None and now - ended < timedelta(days=self.days)
        return True


def _is_in(path: str | None, folder: str) -> bool:
    return path is not None and (path == folder or path.startswith(f"{folder}/"))


def _is_on(one: Listed, day: date) -> bool:
    first, last = one.started or one.ended, one.ended or one.started
    if first is None or last is None:
        return False
    return first.astimezone().date() <= day <= last.astimezone().date()


def home(visit: Visit) -> Response:
    """Answer with the home page."""
    filters = Filters.of(visit)
    is_plain = not any(filters.asked.values())
    overview = _overview(visit) if is_plain else NOTHING
    callers = _callers(visit)
    # Last, as nothing is waited for any more: all of them take much memory.
    known = visit.readers.told("sessions", everything)
    sessions = _chosen(visit, filters, known)
    parts = [tag("h1", words("Sessions"), kind="unseen")]
    if is_plain:
        parts += [_running(visit, sessions), overview]
    parts += [
        _form(filters, known, callers),
        _timeline(visit, filters, sessions, 0),
    ]
    frame = Frame(title="Sessions", way="/", kind="home")
    return framed(frame, parts)


def more(visit: Visit) -> Response:
    """Answer with further sessions, and nothing around them."""
    filters = Filters.of(visit)
    offset = visit.number("offset", 0)
    known = visit.readers.told("sessions", everything)
    made = _timeline(visit, filters, _chosen(visit, filters, known), offset)
    return HTMLResponse(made.encode("utf-8", "backslashreplace"))


def everything(archive: Archive) -> tuple[Listed, ...]:
    """Return the line of every session, newest first.

    What several of them say is there once: that is half of the memory they take.
    """
    said: dict[object, object] = {}
    found = []
    for one in archive.sessions(empty=True):
        for name in _SHARED:
            value = getattr(one, name)
            force_setattr(one, name, said.setdefault(value, value))
        found.append(one)
    return tuple(found)


def _chosen(visit: Visit, filters: Filters, known: Iterable[Listed]) -> list[Listed]:
    called = _callers(visit).get(filters.tool, frozenset()) if filters.tool else None
    return [
        one
        for one in known
        if (filters.all or not one.is_empty)
        and (called is None or one.id in called)
        and filters.fits(one, visit.now)
    ]


def _callers(visit: Visit) -> dict[str, frozenset[SessionId]]:
    return visit.readers.told("tools", Archive.tools)


def _running(visit: Visit, sessions: Sequence[Listed]) -> Html:
    now = [one for one in sessions if is_running(one, visit.now)]
    hidden = "" if now else " hidden"
    lines = joined(session_line(one, visit.now) for one in now)
    return Html(
        f'<section class="now" id="now"{hidden}><h2>Running now</h2>'
        f'<ul class="sessions">{lines}</ul></section>'
    )


def is_running(one: Listed, now: datetime) -> bool:
    """Whether something was said in a session a moment ago."""
    return one.ended is not None and timedelta(0) <= now - one.ended < RUNNING


def _overview(visit: Visit) -> Html:
    now, prices = visit.now, visit.house.prices

    def days(archive: Archive) -> UsageReport:
        return archive.usage("day", zone=visit.zone, now=now, prices=prices)

    def models(archive: Archive) -> UsageReport:
        return archive.usage("model", now=now, prices=prices)

    by_day = visit.readers.told("usage by day", days)
    rows = [row for row in by_day.rows if isinstance(row, UsageRow)]
    counts = {date.fromisoformat(row.key): row.answers for row in rows if row.key}
    if not counts:
        return NOTHING
    last = min(now.astimezone().date(), _latest(counts))
    by_model = visit.readers.told("usage by model", models)
    return Html(
        '<div class="overview"><section><h2>Activity</h2>'
        f"{heat_map(counts, last)}</section><section><h2>Cost by model</h2>"
        f"{_costs(by_model)}</section></div>"
    )


def _latest(counts: dict[date, int]) -> date:
    """Return the last day to draw: today, unless everything is long ago."""
    return max(counts) + timedelta(days=60)


def _costs(report: UsageReport) -> Html:
    shares = [
        (row.key or "unknown", (row.cost or 0) / NANOS, dollars(row.cost))
        for row in report.rows
        if isinstance(row, UsageRow)
    ]
    shares.sort(key=lambda share: -share[1])
    total = tag(
        "p",
        joined(
            (
                tag("b", words(dollars(report.total.cost))),
                words("at the prices of the API,"),
                link("/usage", words(f"{tokens(report.total.tokens)} tokens")),
            ),
            " ",
        ),
        kind="note",
    )
    return joined((bars(shares[:6], label="Cost by model"), total))


def dollars(cost: int | None) -> str:
    """Return an amount of money; a dash where it is not known."""
    if cost is None:
        return "\N{EN DASH}"
    amount = cost / NANOS
    return f"${amount:,.0f}" if amount >= 100 else money(cost)  # noqa: PLR2004


def _form(
    filters: Filters,
    known: Sequence[Listed],
    callers: Mapping[str, frozenset[SessionId]],
) -> Html:
    projects = Counter(one.project for one in known if one.project)
    models = Counter(model for one in known for model in one.models)
    tools = Counter({tool: len(ids) for tool, ids in callers.items()})
    spans = (("0", "any time"), ("1", "a day"), ("7", "a week"), ("30", "a month"))
    on = NOTHING
    if filters.on:
        kept = {**filters.asked, "on": ""}
        on = link(
            address(**kept),
            words(f"on {filters.on:%d %B %Y} \N{MULTIPLICATION SIGN}"),
            "chip",
        )
    return Html(
        '<form class="filters" action="/" data-live>'
        '<input type="search" name="text" placeholder="Filter by title" '
        f'aria-label="Filter by title" value="{escape(filters.text)}">'
        f"{_select('project', 'All projects', _most(projects), filters.project)}"
        f"{_select('model', 'All models', _most(models), filters.model)}"
        f"{_select('tool', 'All tools', _most(tools), filters.tool)}"
        f"{_select('days', '', spans, str(filters.days))}"
        f'{on}<button type="submit" class="unseen-with-script">Filter</button></form>'
    )


def _most(counts: Counter[str]) -> list[tuple[str, str]]:
    return [
        (name, f"{short(name)} ({count:,})")
        for name, count in counts.most_common(_CHOICES)
    ]


def short(path: str) -> str:
    """Return the last two parts of a path."""
    parts = path.replace("\\", "/").rstrip("/").split("/")
    return "/".join(parts[-2:])


def _select(
    name: str, nothing: str, choices: Sequence[tuple[str, str]], chosen: str
) -> Html:
    options = [("", nothing)] if nothing else []
    if chosen and chosen not in dict(choices):
        options.append((chosen, chosen))
    made = "".join(
        f'<option value="{escape(value)}"{" selected" if value == chosen else ""}>'
        f"{words(told)}</option>"
        for value, told in (*options, *choices)
    )
    label = name.capitalize()
    return Html(f'<select name="{name}" aria-label="{label}">{made}</select>')


def _timeline(
    visit: Visit, filters: Filters, sessions: Sequence[Listed], offset: int
) -> Html:
    if not sessions:
        return empty("No session fits.", tag("p", link("/", words("Show all"))))
    shown = sessions[offset : offset + _PAGE]
    before = sessions[offset - 1] if 0 < offset <= len(sessions) else None
    parts = list(_days(shown, before, visit.now))
    rest = len(sessions) - offset - len(shown)
    if rest > 0:
        to = address("more", **filters.asked, offset=offset + _PAGE)
        told = f"{several(rest, 'older session')}"
        parts.append(
            Html(f'<p class="older"><a href="{escape(to)}" data-more>{told}</a></p>')
        )
    if offset:
        return joined(parts)
    return tag("div", joined(parts), kind="timeline", id="timeline")


def _days(
    sessions: Sequence[Listed], before: Listed | None, now: datetime
) -> Iterator[Html]:
    """Yield sessions below the day on which they ended."""
    day = _day(before) if before else None
    lines: list[Html] = []
    for one in sessions:
        if _day(one) != day or not lines:
            if lines:
                yield tag("ul", joined(lines), kind="sessions")
            if _day(one) != day:
                day = _day(one)
                yield tag("h2", words(_day_words(day, now)), kind="day")
            lines = []
        lines.append(session_line(one, now))
    if lines:
        yield tag("ul", joined(lines), kind="sessions")


def _day(one: Listed) -> date | None:
    time = one.ended or one.started
    return time.astimezone().date() if time else None


def _day_words(day: date | None, now: datetime) -> str:
    if day is None:
        return "Without a date"
    today = now.astimezone().date()
    names = {0: "Today", 1: "Yesterday"}
    told = names.get((today - day).days, f"{day:%A}")
    year = "" if day.year == today.year else f" {day.year}"
    return f"{told}, {day.day} {day:%B}{year}"


def session_line(one: Listed, now: datetime, note: Html = NOTHING) -> Html:
    """Return a session in a list: its title, and what one chooses by."""
    title = words(one.title.text) or words(one.id)
    lasted = ""
    if one.started and one.ended and one.ended > one.started:
        lasted = lasting(one.ended - one.started)
    told = [
        short(one.project) if one.project else "",
        several(one.prompts, "prompt"),
        several(one.messages, "message"),
        several(one.agents, "agent") if one.agents else "",
        several(one.branches, "branch", "branches") if one.branches > 1 else "",
        lasted,
        f"{tokens(one.usage.total)} tokens" if one.usage.total else "",
        several(one.problems, "problem") if one.problems else "",
    ]
    return Html(
        f'<li data-session="{escape(one.id)}">'
        f"{link(address('session', one.id), title)} {_added(one, now)}"
        f'<span class="when">{stamp(one.ended or one.started, now)}</span>'
        f"<p>{facts(told)}</p>{note}</li>"
    )


def _added(one: Listed, now: datetime) -> Html:
    """Return what stands beside a session: that it runs, a star, tags and a note."""
    parts = [tag("span", words(name), kind="chip") for name in one.tags]
    if one.is_starred:
        star = Html(
            '<span aria-hidden="true">★</span><span class="unseen">starred</span>'
        )
        parts.insert(0, tag("span", star, kind="starred"))
    if one.note:
        parts.append(tag("span", words(one.note[:_NOTE]), kind="noted"))
    if is_running(one, now):
        parts.insert(0, tag("span", words("running"), kind="running"))
    return tag("span", joined(parts), kind="added-by") if parts else NOTHING


_NOTE = 120
"""Signs of a note that a list shows."""
