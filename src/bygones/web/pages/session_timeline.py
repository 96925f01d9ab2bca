"""The timeline of a session: context, cost, errors, compactions and agents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from html import escape

from msgspec import Struct
from starlette.responses import Response

from bygones.model.sessions import Message
from bygones.render.html.markup import (
    EMPTY_HTML,
    Html,
    escape_line,
    join_html,
    make_element_id,
    tag,
)
from bygones.render.numbers import (
    MessagePricer,
    format_tokens,
    format_usd,
    pluralize,
)
from bygones.usage.message_costs import make_message_pricer
from bygones.web.context import RequestContext
from bygones.web.conversation_view import ConversationView
from bygones.web.layout import html_response
from bygones.web.pages.session_request import requested_view

_MAX_BUCKETS = 160
_WIDTH, _HEIGHT = 1000, 64
_MARK_HEIGHT = 10
"""Room for errors, compactions and agents above the context."""
_COST_HEIGHT = 14
"""Room for costs below it."""
MIN_MESSAGES = 3
"""A shorter session has no timeline."""


class _Bucket(Struct):
    """Some consecutive messages, drawn as one column."""

    first: int
    anchor: str
    sent_at: datetime | None = None
    context: int = 0
    cost: int = 0
    prompts: int = 0
    errors: int = 0
    compactions: int = 0
    agents: int = 0

    def add(self, message: Message, pricer: MessagePricer | None) -> None:
        self.sent_at = self.sent_at or message.sent_at
        self.prompts += message.is_prompt
        self.compactions += message.compaction is not None
        self.errors += message.is_error + sum(c.is_error for c in message.tool_calls)
        self.agents += sum(
            run.kind.is_shown for call in message.tool_calls for run in call.agents
        )
        if message.usage is not None:
            self.context = max(self.context, message.usage.context)
            self.cost += (pricer((message,)) or 0) if pricer else 0


def session_timeline(context: RequestContext) -> Response:
    """Return the timeline of a branch; each column is a link to its messages."""
    prices = context.app_state.prices
    pricer = make_message_pricer(prices) if prices is not None else None
    with requested_view(context) as view:
        if view.message_count < MIN_MESSAGES:
            return html_response(EMPTY_HTML)
        size = -(-view.message_count // _MAX_BUCKETS)
        buckets = list(_fill_buckets(view.iter_messages(), size, pricer))
        return html_response(_render(view, buckets, size))


def _fill_buckets(
    messages: Iterable[tuple[int, Message]], size: int, pricer: MessagePricer | None
) -> Iterator[_Bucket]:
    bucket: _Bucket | None = None
    for number, message in messages:
        if bucket is None or number >= bucket.first + size:
            if bucket is not None:
                yield bucket
            bucket = _Bucket(number, make_element_id("m", message.id))
        bucket.add(message, pricer)
    if bucket is not None:
        yield bucket


def _render(view: ConversationView, buckets: list[_Bucket], size: int) -> Html:
    width = _WIDTH / len(buckets)
    top_context = max((bucket.context for bucket in buckets), default=0) or 1
    top_cost = max((bucket.cost for bucket in buckets), default=0) or 1
    base = _HEIGHT - _COST_HEIGHT
    room = base - _MARK_HEIGHT
    parts = [_context_path(buckets, width, room / top_context, base)]
    for at, bucket in enumerate(buckets):
        x = at * width
        if bucket.cost:
            height = max(bucket.cost / top_cost * (_COST_HEIGHT - 2), 1)
            parts.append(
                f'<rect class="cost" x="{x:.1f}" y="{base + 1}" '
                f'width="{max(width - 0.6, 0.6):.1f}" height="{height:.1f}"/>'
            )
        parts += _marks(bucket, x + width / 2, base)
    parts += (
        f'<a href="{escape(view.url(at=bucket.anchor))}" data-at="{bucket.first}" '
        f'data-anchor="{bucket.anchor}" tabindex="-1"><rect class="target" '
        f'x="{at * width:.1f}" y="0" width="{width:.2f}" height="{_HEIGHT}">'
        f"<title>{escape_line(_describe(bucket, size, view.message_count))}</title>"
        "</rect></a>"
        for at, bucket in enumerate(buckets)
    )
    svg = Html(
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" preserveAspectRatio="none" '
        f'role="group" aria-label="Timeline">{"".join(parts)}'
        f'<path class="here" d="M0 0V{_HEIGHT}"/></svg>'
    )
    return join_html((svg, _caption(buckets, top_context)))


def _context_path(
    buckets: list[_Bucket], width: float, scale: float, base: float
) -> str:
    """Return the size of the context as an area."""
    points = []
    context = 0
    for at, bucket in enumerate(buckets):
        # Prompts have no size of their own: the context is that of before.
        context = bucket.context or context
        y = base - context * scale
        points.append(f"L{at * width:.1f} {y:.1f}L{(at + 1) * width:.1f} {y:.1f}")
    return f'<path class="context" d="M0 {base}{"".join(points)}L{_WIDTH} {base}Z"/>'


def _marks(bucket: _Bucket, x: float, base: float) -> Iterator[str]:
    if bucket.compactions:
        yield f'<path class="compaction" d="M{x:.1f} 0V{base}"/>'
    if bucket.prompts:
        yield f'<path class="prompt-mark" d="M{x:.1f} {base - 3}V{base + 3}"/>'
    if bucket.agents:
        yield f'<path class="agent-mark" d="M{x:.1f} 1V{_MARK_HEIGHT - 2}"/>'
    if bucket.errors:
        yield f'<path class="error-mark" d="M{x:.1f} 1V{_MARK_HEIGHT - 2}"/>'


def _describe(bucket: _Bucket, size: int, count: int) -> str:
    last = min(bucket.first + size, count)
    number = f"message {last:,}"
    if size > 1:
        number = f"messages {bucket.first + 1:,} to {last:,}"
    time = bucket.sent_at.astimezone() if bucket.sent_at else None
    facts = (
        f"{time:%Y-%m-%d %H:%M}" if time else "",
        number,
        f"{format_tokens(bucket.context)} context" if bucket.context else "",
        format_usd(bucket.cost) if bucket.cost else "",
        pluralize(bucket.errors, "error") if bucket.errors else "",
        pluralize(bucket.agents, "agent") if bucket.agents else "",
        "compacted" if bucket.compactions else "",
    )
    return " · ".join(filter(None, facts))


def _caption(buckets: list[_Bucket], top_context: int) -> Html:
    """Return first and last time, the largest context and what the colors mean."""
    times = [bucket.sent_at.astimezone() for bucket in buckets if bucket.sent_at]
    first, last = (times[0], times[-1]) if times else (None, None)
    end = ""
    if first and last:
        pattern = "%H:%M" if first.date() == last.date() else "%m-%d %H:%M"
        end = f"{last:{pattern}}"
    keys = (
        ("context", f"context, up to {format_tokens(top_context)}", True),
        ("cost", "cost", any(bucket.cost for bucket in buckets)),
        ("error-mark", "error", any(bucket.errors for bucket in buckets)),
        ("agent-mark", "agent", any(bucket.agents for bucket in buckets)),
        ("compaction", "compaction", any(bucket.compactions for bucket in buckets)),
    )
    legend = join_html(
        tag("span", escape_line(label), kind=f"key {name}")
        for name, label, is_used in keys
        if is_used
    )
    start = f"{first:%Y-%m-%d %H:%M}" if first else ""
    return tag(
        "p",
        join_html(
            (
                tag("span", escape_line(start)),
                tag("span", legend, kind="keys-line"),
                tag("span", escape_line(end)),
            )
        ),
        kind="timeline-caption",
    )
