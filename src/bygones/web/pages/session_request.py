"""The branch and the message that a request is about, and how messages are rendered."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from bygones.errors import NotInArchive
from bygones.model.base import RecordId
from bygones.model.summary import SessionSummary
from bygones.render.html.session import HtmlOptions
from bygones.usage.costs import SessionCosts
from bygones.usage.message_costs import make_message_pricer
from bygones.web.context import RequestContext
from bygones.web.conversation_view import (
    WINDOW_SIZE,
    ConversationView,
    open_view,
)
from bygones.web.layout import (
    build_url,
)
from bygones.web.pool import OpenSession

_MAX_OUTPUT_CHARS = 4_000
"""Characters of the folded part of an output that a window contains."""


@contextmanager
def requested_view(
    context: RequestContext, summary: SessionSummary | None = None
) -> Iterator[ConversationView]:
    """Open the branch that a request is about."""
    branch = context.query_int("branch", 0)
    with context.pool.session(context.path_param("id"), summary) as open_session:
        try:
            view = open_view(open_session, context.agent, branch)
        except NotInArchive:
            if not context.query_param("at"):
                raise
            view = open_view(open_session, "", 0)  # the record may be elsewhere
        yield view


def requested_message(context: RequestContext, view: ConversationView) -> int:
    """Return the number of the message that a request is about."""
    name = context.query_param("at", 200)
    if name:
        number = view.find_message(name)
        if number is None:
            raise NotInArchive("record", name)
        return number
    return min(context.query_int("from", 0), max(view.message_count - 1, 0))


def session_costs(
    context: RequestContext, open_session: OpenSession
) -> SessionCosts | None:
    """Return the costs of a session and its agents, from the cache if possible."""
    costs, prices = open_session.cache.get("costs"), context.app_state.prices
    if not isinstance(costs, SessionCosts) and prices is not None:
        costs = open_session.cache["costs"] = open_session.archive.session_costs(
            open_session.summary.id, prices
        )
    return costs if isinstance(costs, SessionCosts) else None


def html_options(context: RequestContext, view: ConversationView) -> HtmlOptions:
    session, prices = view.facts, context.app_state.prices
    costs = session_costs(context, view.open_session)
    return HtmlOptions(
        zone=None,
        message_pricer=make_message_pricer(prices) if prices is not None else None,
        agent_costs=costs.by_agent if costs else {},
        agent_url=build_url("session", session.id, "agent", ""),
        branch_url=view.url(branch=0) + "?branch=",
        file_url=build_url("file", branch=_branch_name(view)),
        max_folded_chars=_MAX_OUTPUT_CHARS,
        following_prompt=partial(following_prompt, view),
    )


def following_prompt(view: ConversationView, branch: int, record: RecordId) -> str:
    """Return the beginning of the first prompt of a branch after a record."""
    other = open_view(view.open_session, view.facts.agent_id or "", branch)
    at = other.find_message(record)
    if at is None:
        return ""
    messages = other.load_window(at + 1, at + 1 + WINDOW_SIZE).messages
    return next((one.preview for one in messages if one.is_prompt), "")


def _branch_name(view: ConversationView) -> str:
    """Return the abandoned branch that is shown, as the page of a file names it."""
    number = 0 if view.facts.agent_id else view.branch.number
    return f"{view.facts.id}:{number + 1}" if number else ""


def other_views(view: ConversationView) -> Iterator[ConversationView]:
    """Yield the other branches of a session and its agent runs."""
    conversation = view.open_session.conversation()
    keys = [("", branch.number) for branch in conversation.facts.branches]
    keys += [(run, 0) for run in conversation.agent_ids]
    for key in keys:
        if key != (view.facts.agent_id or "", view.branch.number):
            yield open_view(view.open_session, *key)
