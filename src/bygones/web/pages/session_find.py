"""Find words in one session."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import msgspec
from starlette.responses import (
    Response,
)

from bygones.model.summary import MatchPositions
from bygones.render.headers import (
    branch_label,
)
from bygones.render.text.primitives import sanitize_line
from bygones.web.context import RequestContext
from bygones.web.conversation_view import (
    ConversationView,
)
from bygones.web.pages.session_request import other_views, requested_view

_MAX_LABEL = 60


_SEVERAL_WORDS = re.compile(r"[^\W_]+(?: +[^\W_]+)+")


_OtherMatches = tuple[str, int, str]
"""Matches on another branch or in an agent: its label, their count, and a URL."""


def find_in_session(context: RequestContext) -> Response:
    """Return the messages of a conversation that match a query, in order, as JSON.

    It also counts the matches on other branches and in agents, and contains the index
    terms that matched, so that the page can highlight them.
    """
    query_text = context.query_param("q")
    with requested_view(context) as view:
        positions = MatchPositions()
        if query_text:
            positions = _match_positions(context, query_text, view)
        result = {
            "places": _matched_messages(
                view.record_locations, positions.record_numbers
            ),
            "others": list(_matches_elsewhere(view, positions, query_text)),
            "is_partial": positions.is_partial,
            "runs": positions.runs,
            "prefixes": positions.prefixes,
        }
    return Response(msgspec.json.encode(result), media_type="application/json")


def _match_positions(
    context: RequestContext, query_text: str, view: ConversationView
) -> MatchPositions:
    """Search for several words as a phrase first, then separately.

    A phrase that the message `at` does not contain is not what was searched for.
    """
    target = context.query_param("at", 200)
    queries = [query_text]
    if _SEVERAL_WORDS.fullmatch(query_text):
        queries.insert(0, f'"{query_text}"')
    positions = MatchPositions()
    with context.pool.archive() as archive:
        for text in queries:
            query = context.parse_query(text)
            positions = archive.match_positions(query, view.facts.id)
            records = positions.record_numbers
            places = _matched_messages(view.record_locations, records) if target else []
            if records and (not target or target in {anchor for _, anchor in places}):
                break
    return positions


def _matched_messages(
    locations: Mapping[int, tuple[int, str]], records: frozenset[int]
) -> list[tuple[int, str]]:
    """Return number and anchor of the messages that contain records."""
    return sorted({locations[number] for number in locations.keys() & records})


def _matches_elsewhere(
    view: ConversationView, positions: MatchPositions, query_text: str
) -> Iterator[_OtherMatches]:
    """Yield the other branches and the agents of a session that have matches.

    Messages that branches share count for the parent branch.
    """
    remaining = positions.record_numbers - view.record_locations.keys()
    if not remaining:
        return
    for other in other_views(view):
        matches = _matched_messages(other.own_record_locations, remaining)
        remaining -= other.own_record_locations.keys()
        if matches:
            url = other.url(at=matches[0][1], find=query_text)
            yield _branch_label(other), len(matches), url
        if not remaining:
            return


def _branch_label(view: ConversationView) -> str:
    if view.facts.agent_id:
        return sanitize_line(view.facts.title.text)[:_MAX_LABEL]
    branch = view.branch
    if branch.is_live:
        return "the live branch"
    preview = sanitize_line(branch.preview)[:_MAX_LABEL]
    label = f"{branch_label(branch)}: {preview}"
    return label.rstrip(": ")
