"""What a session is called, by precedence."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from bygones.model.ids import RecordId, SessionId
from bygones.model.nodes import Node, TitleFacts, Transcript
from bygones.model.sessions import Title, TitleKind
from bygones.model.texts import Origin

__all__ = ["TITLE_LIMIT", "Summaries", "summaries_of", "tags_of", "title_of"]

TITLE_LIMIT = 200
"""Signs of a prompt that name a session."""
_GIVEN_LIMIT = 2_000
"""Signs of a title that somebody gave: more than anybody gives."""

_SPACE = re.compile(r"\s+")
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class Summaries(Struct, frozen=True):
    """The text that names each leaf, gathered from all files of a project."""

    texts: Mapping[RecordId, str]


def summaries_of(transcripts: Iterable[Transcript]) -> Summaries:
    """Return what summaries call their leaves; the newest file has the last word."""
    newest = sorted(transcripts, key=lambda t: (t.source.mtime_ns, t.source.id))
    texts: dict[RecordId, str] = {}
    for transcript in newest:
        for node in transcript.nodes:
            facts = node.extra
            if node.kind == "summary" and isinstance(facts, TitleFacts) and facts.leaf:
                texts[facts.leaf] = facts.text
    return Summaries(texts)


def title_of(session: SessionId, nodes: Sequence[Node], summaries: Summaries) -> Title:
    """Return a session's title, and where it comes from."""
    for kind, text in _candidates(nodes, summaries):
        cleaned = _clean(text, _GIVEN_LIMIT if kind.is_given else TITLE_LIMIT)
        if cleaned:
            return Title(cleaned, kind)
    return Title(session, TitleKind.ID)


def _candidates(
    nodes: Sequence[Node], summaries: Summaries
) -> Iterable[tuple[TitleKind, str]]:
    told = [node for node in nodes if node.extra is not None]
    yield TitleKind.CUSTOM, _last(told, "custom-title")
    yield TitleKind.GENERATED, _last(told, "ai-title")
    if not any(node.team for node in nodes):
        yield TitleKind.AGENT_NAME, _last(told, "agent-name")
    yield TitleKind.SUMMARY, _last_topic(nodes, summaries)
    yield TitleKind.PROMPT, _first(nodes, {Origin.PERSON, Origin.CALLER})
    yield TitleKind.COMMAND, _first(nodes, {Origin.COMMAND})
    yield TitleKind.LAST_PROMPT, _last(told, "last-prompt")
    yield TitleKind.SLUG, next((n.slug for n in reversed(nodes) if n.slug), "")


def _last_topic(nodes: Sequence[Node], summaries: Summaries) -> str:
    """Return the summary of the latest leaf, unless that is an error, no answer."""
    if not summaries.texts:
        return ""
    told = (summaries.texts.get(n.uuid, "") for n in reversed(nodes) if n.uuid)
    return next((text for text in told if text and not text.startswith(_ERRORS)), "")


_ERRORS = (
    "API Error",
    "Invalid API key",
    "Request timed out",
    "Credit balance is too low",
    "Claude AI usage limit reached",
    "Claude usage limit reached",
)


def _first(nodes: Iterable[Node], origins: set[Origin]) -> str:
    kinds = {"user", "system", "attachment"}
    heads = (n.head for n in nodes if n.origin in origins and n.kind in kinds)
    return next((head for head in heads if head.strip()), "")


def _last(nodes: Sequence[Node], kind: str) -> str:
    for node in reversed(nodes):
        if node.kind == kind and isinstance(node.extra, TitleFacts) and node.extra.text:
            return node.extra.text
    return ""


def _clean(text: str, limit: int) -> str:
    """Return a title on one line, without control characters, cut if long."""
    line = _SPACE.sub(" ", _CONTROL.sub("", text)).strip()
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def tags_of(nodes: Sequence[Node]) -> tuple[str, ...]:
    """Return the session's label; an empty one takes the earlier away."""
    tags = [
        n.extra.text
        for n in nodes
        if n.kind == "tag" and isinstance(n.extra, TitleFacts)
    ]
    return (tags[-1],) if tags and tags[-1] else ()
