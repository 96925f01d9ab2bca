"""Two branches of a session side by side, from where they separate."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape
from itertools import islice

from starlette.responses import Response

from bygones.model.summary import SessionSummary
from bygones.render.headers import branch_label
from bygones.render.html.markup import Html, escape_line, join_html, tag
from bygones.render.numbers import pluralize
from bygones.web.context import RequestContext
from bygones.web.conversation_view import ConversationView, open_view
from bygones.web.layout import (
    PageMeta,
    conversation_url,
    empty_message,
    link,
    render_page,
    select_field,
    session_link,
)
from bygones.web.pages.session_request import html_options

_MAX_MESSAGES = 60
"""Messages of each branch that a page shows."""


def compare_page(context: RequestContext) -> Response:
    """Return the messages of two branches after the last one that both have."""
    left, right = context.query_int("left", 0), context.query_int("right", 1)
    summary = context.pool.session_summary(context.path_param("id"))
    if summary.branch_count <= 1:
        return _single_branch_page(summary)
    with context.pool.session(summary.id) as open_session:
        views = [open_view(open_session, "", number) for number in (left, right)]
        fork = _count_shared(*views)
        columns = [_column(context, view, fork) for view in views]
        form = _form(views)
    title = summary.title.text or summary.id
    shared = f"The first {pluralize(fork, 'message')} are the same in both branches."
    main = (
        tag("h1", escape_line("Compare branches")),
        tag("p", session_link(summary)),
        form,
        tag(
            "p", escape_line(shared if fork else "They share no message."), kind="note"
        ),
        tag("div", join_html(columns), kind="side-by-side"),
    )
    page = PageMeta(
        title=f"Branches: {title}",
        nav="/",
        css_class="compare",
        styles=("session.css",),
    )
    return render_page(page, main)


def _single_branch_page(summary: SessionSummary) -> Response:
    title = summary.title.text or summary.id
    main = (
        tag("h1", escape_line("Compare branches")),
        tag("p", session_link(summary)),
        empty_message("This session has only one branch."),
    )
    page = PageMeta(title=f"Branches: {title}", nav="/")
    return render_page(page, main)


def _count_shared(left: ConversationView, right: ConversationView) -> int:
    """Return how many messages two branches have in common at their start."""
    pairs = zip(left.iter_messages(), right.iter_messages(), strict=False)
    count = 0
    for (_, one), (_, other) in pairs:
        if one.id != other.id:
            break
        count += 1
    return count


def branch_name(view: ConversationView) -> str:
    return "live branch" if view.branch.is_live else branch_label(view.branch)


def _column(context: RequestContext, view: ConversationView, fork: int) -> Html:
    stop = min(view.message_count, fork + _MAX_MESSAGES)
    messages = _rename_turns(
        view.render(fork, stop, html_options(context, view)), view.branch.number
    )
    name = branch_name(view)
    heading = tag("h2", link(view.url(), escape_line(name[:1].upper() + name[1:])))
    facts = tag("p", escape_line(" · ".join(_facts(view, fork))), kind="note")
    parts = [heading, facts, messages]
    if stop < view.message_count:
        url = view.url(**{"from": stop})
        rest = pluralize(view.message_count - stop, "more message")
        parts.append(tag("p", link(url, escape_line(rest))))
    return tag("section", join_html(parts), aria_label=name)


_TURN_HEADING = re.compile(r'<h2 class="turn" id="(t-\d+)"><a href="#t-\d+">')
"""Matches only tags of the renderer, as ``<`` is escaped in all other text."""


def _rename_turns(messages: Html, branch: int) -> Html:
    """Give the turns of a branch anchors that the other branch does not have."""
    renamed = rf'<h2 class="turn" id="b{branch}-\1"><a href="#b{branch}-\1">'
    return Html(_TURN_HEADING.sub(renamed, messages))


def _facts(view: ConversationView, fork: int) -> Iterator[str]:
    yield pluralize(view.message_count - fork, "message")
    shared = sum(message.is_prompt for _, message in islice(view.iter_messages(), fork))
    yield pluralize(view.branch.prompt_count - shared, "prompt")


def _form(views: list[ConversationView]) -> Html:
    """Return the choice of branches."""
    choices = [
        (str(branch.number), "live branch" if branch.is_live else branch_label(branch))
        for branch in views[0].facts.branches
    ]
    fields = "".join(
        select_field(name, "", choices, str(view.branch.number))
        for name, view in zip(("left", "right"), views, strict=True)
    )
    url = conversation_url(views[0].facts.id, "compare")
    return Html(
        f'<form class="filters" action="{escape(url)}">{fields}'
        '<button type="submit">Compare</button></form>'
    )
