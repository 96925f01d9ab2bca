"""Facts about sessions, agents and branches, and notes on searches and checks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import tzinfo
from typing import TYPE_CHECKING

from msgspec import structs

from bygones.model.query import Part
from bygones.model.summary import Excerpt, Hit, SearchResults
from bygones.model.usage import Cost, Usage
from bygones.render.numbers import (
    format_bytes,
    format_cost,
    format_duration,
    format_time,
    format_time_range,
    format_tokens,
    pluralize,
    version_order,
)
from bygones.render.text.primitives import (
    SpanStyle,
    StyledLine,
    StyledSpan,
    display_width,
    sanitize,
    sanitize_line,
    styled_line,
    truncate_end,
)

if TYPE_CHECKING:  # `search` needs the notes below, but not what sessions are made of
    from bygones.model.conversations import BranchSummary, ConversationHeader
    from bygones.model.reports import (
        LastVerification,
        SentBlock,
        TurnRequests,
    )
    from bygones.model.sessions import AgentRun, Branch
    from bygones.render.walk import BranchRest

_MAX_NAMES = 3
"""Names that are listed; further ones are counted."""
_QUOTE_WIDTH = 40


def render_header(
    header: ConversationHeader,
    branch: BranchSummary,
    zone: tzinfo | None,
    max_width: int | None,
    *,
    cost: Cost | None = None,
) -> Iterator[StyledLine]:
    """Yield the title and the facts above a session; ``cost`` is shown if given."""
    title = sanitize(header.title.text, newlines="space") or header.id
    yield styled_line(
        StyledSpan(
            title if max_width is None else truncate_end(title, max_width),
            SpanStyle.TITLE,
        )
    )
    for facts in session_header_facts(header, branch, zone, cost):
        for line in wrap_facts(facts, max_width):
            yield styled_line(StyledSpan(line, SpanStyle.META))


def _summary_fact(count: int) -> str:
    return pluralize(count, "summary", "summaries") if count > 1 else ""


def _empty_facts(session: ConversationHeader) -> Iterator[list[str]]:
    """Yield what an empty session consists of, one list per line."""
    if session.empty_reason is None:
        return
    yield [f"no prompts or replies: {session.empty_reason}"]
    for summary in session.other_summaries:
        yield [f"summary up to {summary.leaf_id[:8]}: {summary.text}"]


def session_header_facts(
    session: ConversationHeader,
    branch: BranchSummary,
    zone: tzinfo | None,
    cost: Cost | None = None,
) -> tuple[list[str], ...]:
    """Return the facts above a session, one list per line; facts may be empty."""
    others = len(session.branches) - 1
    counts = [
        *_count_facts(
            branch.prompt_count, branch.tool_call_count, session.agent_count, others
        ),
        *_branch_facts(branch, session.problem_count),
        _summary_fact(len(session.summaries)),
    ]
    facts = _header_facts(session, counts, _usage_facts(session.usage, cost), zone)
    return (*facts, *_empty_facts(session))


def _header_facts(
    session: ConversationHeader,
    counts: list[str],
    usage: list[str],
    zone: tzinfo | None,
) -> tuple[list[str], ...]:
    return (
        _location_facts(session),
        _time_facts(session, zone),
        _software_facts(session),
        counts,
        usage,
        _lineage_facts(session),
    )


def _location_facts(session: ConversationHeader) -> list[str]:
    branches = [name for name in session.git_branches if name != "HEAD"]
    git = f"git {_abbreviate_list(branches)}" if branches else ""
    return [session.person, session.project or "", git]


def _time_facts(session: ConversationHeader, zone: tzinfo | None) -> list[str]:
    if session.started_at is None or session.ended_at is None:
        return []
    duration = session.ended_at - session.started_at
    return [
        format_time_range(session.started_at, session.ended_at, zone),
        format_duration(duration) if duration else "",
    ]


def _software_facts(session: ConversationHeader) -> list[str]:
    versions = sorted(session.versions, key=version_order)
    version_range = " to ".join(dict.fromkeys((*versions[:1], *versions[-1:])))
    return [
        _abbreviate_list(session.models),
        f"Claude Code {version_range}" if versions else "",
        _abbreviate_list([name for name in session.entrypoints if name != "cli"]),
    ]


def _count_facts(prompts: int, calls: int, agents: int, others: int) -> list[str]:
    return [
        pluralize(prompts, "prompt"),
        pluralize(calls, "call"),
        pluralize(agents, "agent") if agents else "",
        pluralize(others, "other branch", "other branches") if others else "",
    ]


def _branch_facts(branch: BranchSummary, problems: int) -> list[str]:
    return [
        "" if branch.is_live else branch_label(branch),
        pluralize(problems, "problem") if problems else "",
    ]


def _usage_facts(usage: Usage, cost: Cost | None) -> list[str]:
    if not usage.total:
        return []
    return [
        f"{format_tokens(usage.total)} tokens",
        f"{format_tokens(usage.input)} input",
        f"{format_tokens(usage.cache_write)} cache write" if usage.cache_write else "",
        f"{format_tokens(usage.cache_read)} cache read" if usage.cache_read else "",
        f"{format_tokens(usage.output)} output",
        format_cost(cost),
    ]


def _lineage_facts(session: ConversationHeader) -> list[str]:
    relatives = [
        f"{link.kind.replace('-', ' ')} {link.session_id[:8]}"
        for link in session.lineage
    ]
    return [f"session {session.id}", *relatives]


def _abbreviate_list(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return ", ".join(names[:_MAX_NAMES]) + more


def wrap_facts(facts: Sequence[str], max_width: int | None) -> Iterator[str]:
    """Yield facts separated by dots, on as many lines as they need."""
    line = ""
    for fact in (sanitize(fact, newlines="space") for fact in facts):
        if not fact:
            continue
        longer = f"{line} · {fact}" if line else fact
        if max_width is not None and display_width(longer) > max_width and line:
            yield line
            longer = fact
        line = longer
    if line:
        yield line


def agent_name(run: AgentRun) -> str:
    """Return the type and the task of an agent, or its id if both are unknown."""
    return ": ".join(filter(None, (run.agent_type, run.description))) or run.id


def agent_facts(run: AgentRun) -> list[str]:
    return [
        run.status,
        "in the background" if run.is_background else "",
        format_duration(run.duration) if run.duration is not None else "",
        pluralize(run.tool_call_count, "call"),
        f"{format_tokens(run.usage.total)} tokens" if run.usage.total else "",
        pluralize(len(run.agents), "agent") if run.agents else "",
        "in part: its file is gone" if run.is_partial else "",
    ]


def branch_label(branch: Branch | BranchSummary) -> str:
    """Return the name of a branch that is not live."""
    if branch.session_id is None:
        return f"abandoned branch {branch.number + 1}"
    name = sanitize(branch.session_id, newlines="space")
    return f"session {name} on branch {branch.number + 1}"


def describe_branch(branch: BranchSummary, rest: BranchRest | None = None) -> str:
    """Describe a branch by its number of prompts, its first prompt and its tokens.

    ``rest`` is the part to describe; by default, the branch's own turns.
    """
    count, preview, tokens = (
        (rest.prompt_count, rest.preview, rest.tokens)
        if rest is not None
        else (branch.own_prompt_count, branch.preview, branch.usage.total)
    )
    quote = truncate_end(sanitize(preview, newlines="space"), _QUOTE_WIDTH)
    title = sanitize(branch.title or "", newlines="space")
    facts = [
        f"summary “{title}”" if title else "",
        pluralize(count, "prompt") + (f" (“{quote}”)" if quote else ""),
        f"{format_tokens(tokens)} tokens" if tokens else "",
    ]
    return ", ".join(filter(None, facts))


_MAX_TERM_LENGTH = 40
"""Longer words are cut off; pasted text may have any length."""


PART_LABELS = {
    Part.PROMPT: "you",
    Part.REPLY: "Claude",
    Part.THINKING: "thinking",
    Part.TOOL: "call",
    Part.RESULT: "result",
    Part.TITLE: "title",
    Part.OTHER: "Claude Code",
}


def hit_label(hit: Hit) -> str:
    """Return who or what a hit is from, and where, on one line."""
    name = "error" if hit.is_error else PART_LABELS[hit.part]
    labels = [" ".join(hit.tool_names) or name]
    if hit.agent_id is not None:
        labels.append(f"agent {hit.agent_type or hit.agent_id}".strip())
    if hit.is_abandoned:
        labels.append("abandoned branch")
    return sanitize_line(", ".join(labels)) + ":"


def hit_excerpt(hit: Hit) -> Excerpt:
    """Return the excerpt of a hit without the name of a tool, which its label shows."""
    excerpt = hit.excerpt
    start = len(" ".join(hit.tool_names)) + 1
    if (
        not hit.tool_names
        or not excerpt.text.startswith(" ".join((*hit.tool_names, "")))
        or any(begin < start for begin, _ in excerpt.highlights)
    ):
        return excerpt
    return structs.replace(
        excerpt,
        text=excerpt.text[start:],
        highlights=tuple((a - start, b - start) for a, b in excerpt.highlights),
    )


def search_notes(results: SearchResults) -> Iterator[str]:
    """Yield how a query was interpreted, and what was not found or not searched."""
    for note in results.notes:
        yield note.message
    if results.is_empty_query:
        yield "the query is empty; these are the newest sessions"
    if results.named_id:
        id_ = results.named_id
        yield f"{id_} is an id, which is not searched; `bygones show {id_}` shows it"
    if results.is_phrase_relaxed:
        yield "no match for the quoted phrase; searched for its words instead"
    for correction in results.corrections:
        original = _truncate_term(correction.original)
        corrected = _truncate_term(correction.corrected)
        yield f"no match for {original}; searched for {corrected} instead"
    if results.missing_words and not results.named_id:
        words = ", ".join(map(_truncate_term, results.missing_words))
        yield f"no match for {words}"
    if results.is_partly_unmatched:
        yield (
            "only the first 500 characters of a tool's result are searched, the last 1,000"
            " if it failed, and of its input the first 200, with complete paths and"
            " commands"
        )
    if results.is_partial:
        yield "too many matches to check all of them; narrow the query"


def _truncate_term(word: str) -> str:
    return word if len(word) <= _MAX_TERM_LENGTH else f"{word[: _MAX_TERM_LENGTH - 1]}…"


def describe_verification(verification: LastVerification | None, when: str) -> str:
    """Describe the result of the last verification; ``when`` is how long ago it was."""
    if verification is None:
        return "not yet; run `bygones verify`"
    deep = "; index checked" if verification.is_deep else ""
    files = pluralize(verification.source_count, "file")
    scope = f"{files}, {format_bytes(verification.verified_bytes)}"
    if not verification.is_intact:
        places = pluralize(max(verification.damage_count, 1), "place")
        return f"{when}: damage in {places} ({scope}); run `bygones verify`"
    lost = (
        f"; {format_bytes(verification.accepted_bytes)} accepted as lost"
        if verification.accepted_bytes
        else ""
    )
    since = (
        f"; {format_bytes(verification.unverified_bytes)} added since"
        if verification.unverified_bytes
        else ""
    )
    return f"{when}: no damage in {scope}{deep}{lost}{since}"


_DERIVED_NOTE = (
    "derived from the conversation: this transcript does not record requests, so the"
    " system prompt, tools and injected text are unknown"
)


def request_facts(
    turn: TurnRequests, index: int, zone: tzinfo | None
) -> Iterator[tuple[str, str]]:
    """Yield labels and texts about a request of a turn."""
    request = turn.requests[index]
    count = f"request {index + 1} of {len(turn.requests)}"
    yield "turn", f"{turn.turn_number + 1} of {turn.turn_count}, {count}"
    yield "prompt", turn.prompt
    if request.is_derived:
        yield "note", _DERIVED_NOTE
    details = (
        format_time(request.sent_at, zone) if request.sent_at else "",
        request.model or "",
        f"effort {request.effort}" if request.effort else "",
        f"at most {request.max_tokens:,} tokens" if request.max_tokens else "",
    )
    yield "request", " · ".join(filter(None, details))
    if request.has_shape:
        size = sum(map(len, request.system))
        blocks = pluralize(len(request.system), "block")
        yield "system", f"{blocks}, {size:,} characters"
        names = ", ".join(tool.name for tool in request.tools)
        yield "tools", f"{len(request.tools)}: {names}"
    elif not request.is_derived:
        yield "system", "not in the transcript"
    yield "cached to", ", ".join(request.cache_breakpoints)
    yield "messages", _request_difference(turn, index)
    reasons = [message.reason for message in turn.left_out[index]]
    counts = (f"{reasons.count(one):,} {one}" for one in dict.fromkeys(reasons))
    yield "left out", ", ".join(counts)


def _request_difference(turn: TurnRequests, index: int) -> str:
    request, previous = turn.requests[index], turn.previous
    count = f"{len(request.messages):,}"
    if request.base_id:
        count += f" ({request.kept_count:,} kept from the previous request)"
    if previous is None:
        return f"{count}; this is the first turn"
    shared = turn.count_shared(request)
    dropped = len(turn.dropped_messages(request))
    new = len(request.messages) - shared
    text = (
        f"{count}; compared with the previous turn: {shared:,} unchanged, {new:,} new"
    )
    text += f", {dropped:,} dropped" if dropped else ""
    if request.system != previous.system:
        text += "; the system prompt changed"
    old = {tool.name for tool in previous.tools}
    now = {tool.name for tool in request.tools}
    text += f"; new tools: {', '.join(sorted(now - old))}" if now - old else ""
    text += f"; removed tools: {', '.join(sorted(old - now))}" if old - now else ""
    if request.effort != previous.effort:
        text += f"; effort was {previous.effort}"
    return text


def sent_block_labels(block: SentBlock) -> str:
    """Return what is special about a block of a request; empty for plain text."""
    labels = (
        block.kind if block.kind != "text" else "",
        "summary" if block.is_summary else "",
        block.origin.value if block.origin != "transcript" else "",
        "cached to here" if block.is_cache_breakpoint else "",
    )
    return ", ".join(filter(None, labels))
