"""What a person picks in a client: prompts to send, sessions to attach."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from bygones.errors import BygonesError
from bygones.mcp.asking import OutlineAsked
from bygones.mcp.recall import Recall

__all__ = [
    "PROMPTS",
    "TEMPLATES",
    "Prompt",
    "prompt_listing",
    "prompt_text",
    "resource_listing",
    "resource_text",
]

_ADDRESS = "bygones://session/"
_OUTLINE_BYTES = 12_000
TEMPLATES = (
    {
        "uriTemplate": _ADDRESS + "{session}",
        "name": "session",
        "title": "An earlier session",
        "description": "The outline of a session, by its id or the beginning of it.",
        "mimeType": "text/plain",
    },
)


class Prompt(NamedTuple):
    """Words that a person sends with one pick; the argument stands in the braces."""

    name: str
    title: str
    description: str
    argument: str
    meaning: str
    words: str


PROMPTS = (
    Prompt(
        "recall",
        "Have we done this before?",
        "Looks a question up in earlier sessions, and answers with citations.",
        "question",
        "what to look up",
        "Use Bygones to find out whether earlier sessions answer this. Answer from"
        " them alone, citing session and #record for every claim; say so if nothing is"
        " found: {}",
    ),
    Prompt(
        "resume",
        "Go on where a session ended",
        "Reads how an earlier session ended, and sums up what is left to do.",
        "session",
        "the id of the session, or what it was about",
        "Use Bygones to find this session, read its outline and its end, and sum up"
        " what was decided, what was changed and what is left to do, citing #records."
        " Then wait. The session: {}",
    ),
)


def prompt_listing() -> list[dict[str, Any]]:
    """Return the prompts as clients are told of them."""
    return [
        {
            "name": prompt.name,
            "title": prompt.title,
            "description": prompt.description,
            "arguments": [
                {
                    "name": prompt.argument,
                    "description": prompt.meaning,
                    "required": True,
                }
            ],
        }
        for prompt in PROMPTS
    ]


def prompt_text(name: str, arguments: Mapping[str, object]) -> str | None:
    """Return the words of a prompt; none where it or its argument is missing."""
    for prompt in PROMPTS:
        given = arguments.get(prompt.argument)
        if prompt.name == name and isinstance(given, str):
            return prompt.words.format(given)
    return None


def resource_listing(recall: Recall) -> Sequence[dict[str, Any]]:
    """Return the newest sessions of this project; no word out of them is in it."""
    try:
        newest = recall.newest(20)
    except BygonesError:
        return []
    return [
        {
            "uri": _ADDRESS + session,
            "name": f"session {session}",
            "title": f"Session of {when}, {prompts}",
            "mimeType": "text/plain",
        }
        for session, when, prompts in newest
    ]


def resource_text(recall: Recall, address: str) -> str | None:
    """Return the outline of the session at an address; none if it is no address."""
    session = address.removeprefix(_ADDRESS)
    if session == address or not session:
        return None
    return recall.outline(OutlineAsked(session=session, max_bytes=_OUTLINE_BYTES))
