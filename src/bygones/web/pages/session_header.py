"""The header of a session page: title, facts, branches and actions."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from functools import cache
from html import escape
from itertools import zip_longest
from pathlib import Path

from starlette.responses import Response

from bygones.config import ARCHIVE_ENV, resolve_archive_location
from bygones.model.base import SessionId, encode_path
from bygones.model.conversations import BranchSummary
from bygones.model.summary import SessionSummary
from bygones.model.usage import Cost, sum_costs
from bygones.render.headers import (
    branch_label,
    session_header_facts,
)
from bygones.render.html.markup import (
    EMPTY_HTML,
    Html,
    escape_line,
    format_inline,
    join_html,
    tag,
)
from bygones.render.numbers import (
    format_cost,
    pluralize,
    short_model_name,
)
from bygones.render.text.primitives import sanitize, sanitize_line, truncate_end
from bygones.web.context import RequestContext
from bygones.web.conversation_view import (
    ConversationView,
)
from bygones.web.icons import icon
from bygones.web.layout import (
    build_url,
    conversation_url,
    html_response,
    is_running,
    link,
    short_path,
)
from bygones.web.pages.session_request import (
    following_prompt,
    requested_view,
    session_costs,
)

_MAX_LABEL = 60


_FACT_LABELS = ("Where", "When", "With", "Content", "Usage", "Session")
"""Labels of the lists of facts that `session_header_facts` returns."""


def session_header(context: RequestContext, view: ConversationView) -> Html:
    session, summary = view.facts, view.open_session.summary
    parent_link = EMPTY_HTML
    if session.agent_id:
        url = conversation_url(session.id, at=session.agent_id)
        parent = link(url, escape_line(summary.title.text))
        parent_link = tag("p", join_html((escape_line("Agent of "), parent)), kind="up")
    badge = EMPTY_HTML
    if is_running(summary, context.now):
        badge = tag("span", escape_line("running"), kind="running")
    cost = _total_cost(context, view)
    facts = session_header_facts(session, view.branch, None, cost)
    text = session.title.text or session.id
    shown = format_inline(escape_line(text))
    title = tag("span", shown, kind="title", title=sanitize_line(text))
    return tag(
        "header",
        join_html(
            (
                parent_link,
                tag("h1", join_html((title, badge))),
                _essentials(view, facts, cost),
                _branch_list(view),
                _action_bar(context.pool.folder, view, _render_facts(facts)),
            )
        ),
        kind="top",
    )


def header_part(context: RequestContext) -> Response:
    """Return the header, so that the page of a growing session stays current."""
    with requested_view(context) as view:
        return html_response(session_header(context, view))


def _essentials(
    view: ConversationView, facts: Sequence[Sequence[str]], cost: Cost | None
) -> Html:
    """Return a line with what one wants to know first; the rest is in the details."""
    where, when, _, counts, usage, *_ = facts
    *person, project, branch = where
    models = dict.fromkeys(short_model_name(name) for name in view.facts.models)
    line = (
        *person,
        short_path(project),
        branch,
        *when,
        ", ".join(models),
        counts[0],
        *usage[:1],
        format_cost(cost) if usage else "",
    )
    return tag("p", _fact_line(line), kind="essentials")


def _render_facts(facts: Sequence[Sequence[str]]) -> Html:
    """Return the facts about a session, one labeled line each."""
    lines = [
        tag(
            "div",
            join_html((tag("dt", escape_line(label)), tag("dd", values))),
            kind=f"f-{label.lower()}",
        )
        for label, values in zip_longest(
            _FACT_LABELS, map(_fact_line, facts), fillvalue=EMPTY_HTML
        )
        if values
    ]
    return tag("dl", join_html(lines), kind="session-facts")


def _fact_line(facts: Sequence[str]) -> Html:
    shown = (fact.removeprefix("session ") for fact in facts if fact)
    return join_html(
        (tag("span", escape_line(fact), kind="fact") for fact in shown), " "
    )


def _total_cost(context: RequestContext, view: ConversationView) -> Cost | None:
    """Return the cost of a session, or of an agent run with those below it."""
    costs, facts = session_costs(context, view.open_session), view.facts
    if costs is None:
        return None
    if facts.agent_id is None:
        return costs.total
    children = [run.id for run in view.iter_agent_runs()] if facts.agent_count else []
    return sum_costs(map(costs.by_agent.get, (facts.agent_id, *children)))


def _branch_list(view: ConversationView) -> Html:
    branches = view.facts.branches
    if len(branches) == 1:
        return EMPTY_HTML
    items = []
    for branch in branches:
        name = "live branch" if branch.is_live else branch_label(branch)
        preview = truncate_end(_branch_preview(view, branch), _MAX_LABEL)
        branch_link = tag(
            "a",
            escape_line(f"{name}: {preview}" if preview else name),
            href=view.url(branch=branch.number),
            aria_current="page" if branch.number == view.branch.number else "",
        )
        compare = EMPTY_HTML
        if branch.number != view.branch.number and not view.facts.agent_id:
            url = conversation_url(
                view.facts.id,
                "compare",
                left=view.branch.number,
                right=str(branch.number),
            )
            label = join_html((icon("compare"), escape_line("Compare")))
            compare = link(url, label, "compare-link")
        items.append(tag("li", join_html((branch_link, compare), " ")))
    count = escape_line(pluralize(len(branches), "branch", "branches"))
    return Html(
        f'<details class="branches"><summary>{count}</summary>'
        f"<ul>{join_html(items)}</ul></details>"
    )


def _branch_preview(view: ConversationView, branch: BranchSummary) -> str:
    """Return the first prompt after a fork, for the live branch after its first one."""
    children = [
        other
        for other in view.facts.branches
        if other.parent_number == branch.number and other.last_shared_id
    ]
    preview = branch.preview
    if branch.is_live and children:
        fork = min(children, key=lambda child: child.shared_count).last_shared_id
        preview = following_prompt(view, branch.number, fork) if fork else ""
    return sanitize_line(preview)


def _resume_button(folder: Path, session_id: SessionId) -> Html:
    """Return the button for a command that continues a session, wherever it is.

    `bygones resume` restores the transcript if it was deleted, and selects its home.
    """
    archive = [] if _is_default(folder) else ["--archive", encode_path(folder)]
    command = shlex.join(["bygones", "resume", session_id, "--run", *archive])
    text = escape(sanitize_line(command))
    return Html(
        f'<button type="button" data-copy="{text}" title="{text}" '
        f'aria-label="Copy resume command">{icon("terminal")}Resume</button>'
    )


@cache
def _is_default(folder: Path) -> bool:
    """Whether commands use an archive if they are started without the environment."""
    environ = {name: os.environ[name] for name in os.environ if name != ARCHIVE_ENV}
    return folder == resolve_archive_location(None, environ, Path.home())


def _action_bar(folder: Path | None, view: ConversationView, facts: Html) -> Html:
    """Return the buttons and links of a session; an agent run has only some.

    `folder` is the archive's, if it is on this machine. The details contain the facts.
    """
    session, summary = view.facts, view.open_session.summary
    find_buttons = (
        f'<button type="button" data-act="find">{icon("find")}Find</button>'
        '<button type="button" data-act="outline" class="only-narrow" '
        f'aria-expanded="false">{icon("outline")}Outline</button>'
    )
    if session.agent_id:
        return Html(f'<div class="actions">{find_buttons}{_details(facts)}</div>')
    resume = _resume_button(folder, session.id) if folder is not None else EMPTY_HTML
    starred = "true" if summary.is_starred else "false"
    changed = pluralize(session.file_count, "changed file")
    files = link(
        build_url("files", session=session.id),
        join_html((icon("file"), escape_line(changed))),
        "button",
    )
    map_link = link(
        conversation_url(session.id, "map"),
        join_html((icon("map"), escape_line("Map"))),
        "button",
    )
    share_link = link(
        build_url("share", session=session.id, branch=view.branch.number),
        join_html((icon("share"), escape_line("Export"))),
        "button",
    )
    return Html(
        '<div class="actions">'
        f'<button type="button" class="star" data-act="star" aria-pressed="{starred}">'
        f"{icon('star')}Star</button>"
        f"{find_buttons}{resume}"
        f'<button type="button" data-act="copy" '
        f'data-from="{escape(view.url("markdown"))}" aria-label="Copy as Markdown">'
        f"{icon('copy')}Markdown</button>"
        f"{share_link if folder is not None else ''}{map_link}"
        f"{files if session.file_count else ''}"
        f"{_details(facts, summary)}</div>"
    )


def _details(facts: Html, summary: SessionSummary | None = None) -> Html:
    """Return all facts, tags and note; unfolded if there are tags or a note."""
    form = _annotation_form(summary) if summary is not None else EMPTY_HTML
    is_open = summary is not None and bool(summary.tags or summary.note)
    return Html(
        f'<details class="session-details"{" open" if is_open else ""}>'
        f"<summary>{icon('info')}Details</summary>{facts}{form}</details>"
    )


def _annotation_form(summary: SessionSummary) -> Html:
    tags = escape(" ".join(sanitize_line(name) for name in summary.tags))
    return Html(
        '<form class="annotations" id="annotations">'
        '<label><span class="visually-hidden">Tags</span><input type="text" name="tags" '
        f'placeholder="Tags" value="{tags}" maxlength="500"></label>'
        '<label><span class="visually-hidden">Note</span><input type="text" name="note" '
        f'placeholder="Note" value="{escape(sanitize(summary.note))}" '
        'maxlength="4000"></label></form>'
    )
