"""`to_dict`: values of the library as the dicts that their JSON decodes to."""

from __future__ import annotations

from typing import Any

from bygones.assemble.summary import summarize_session
from bygones.model.sessions import Session
from bygones.model.summary import IndexedPrompt, Project, SessionMatch, SessionSummary
from bygones.model.usage import Cost
from bygones.schema.encoding import JsonObject, encode_object_as_dict
from bygones.schema.summaries import (
    MatchObject,
    ProjectObject,
    PromptObject,
    SessionObject,
)

Convertible = Session | SessionSummary | Project | IndexedPrompt | SessionMatch


def to_dict(value: Convertible, *, cost: Cost | None = None) -> dict[str, Any]:
    """Return a value as the dict that `--json` prints for it.

    `cost` is the cost of a session, as `Archive.costs` returns it.
    """
    return encode_object_as_dict(_to_object(value, cost))


def _to_object(value: Convertible, cost: Cost | None) -> JsonObject:
    match value:
        case Session():
            return SessionObject.from_summary(summarize_session(value), cost)
        case SessionSummary():
            return SessionObject.from_summary(value, cost)
        case Project():
            return ProjectObject.from_project(value)
        case IndexedPrompt():
            return PromptObject.from_prompt(value, None)
        case SessionMatch():
            return MatchObject.from_match(1, value)
