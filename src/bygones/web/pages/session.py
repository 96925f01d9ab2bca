"""The page of a session or of an agent run, and the parts that its script loads."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from html import escape
from itertools import islice
from pathlib import Path

import msgspec
from msgspec import structs
from starlette.responses import (
    HTMLResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
)

from bygones.archive import Archive
from bygones.config import ARCHIVE_ENV, resolve_archive_location
from bygones.errors import BygonesError, NotInArchive
from bygones.model.base import SessionId, encode_path
from bygones.model.reports import SentMessage, TurnRequests
from bygones.model.sessions import Branch, Message
from bygones.model.summary import MatchPositions, SessionSummary
from bygones.model.usage import Cost, sum_costs
from bygones.render.headers import (
    branch_label,
    request_facts,
    sent_block_labels,
    window_header_facts,
)
from bygones.render.html.markup import (
    EMPTY_HTML,
    Html,
    escape_line,
    escape_text,
    join_html,
    make_element_id,
    render_details,
    render_facts,
    tag,
)
from bygones.render.html.session import HtmlOptions
from bygones.render.html.tool_calls import MAX_OUTPUT_CHARS
from bygones.render.markdown import (
    render_branch_markdown,
    render_window_markdown,
)
from bygones.render.numbers import (
    format_cost,
    format_duration,
    format_tokens,
    pluralize,
)
from bygones.render.session_tree import (
    TreeLine,
    TreeLineKind,
    iter_branch_tree_lines,
    iter_tree_lines,
)
from bygones.render.text.primitives import sanitize, sanitize_line
from bygones.render.tool_detail import format_json
from bygones.render.walk import RenderOptions
from bygones.usage.costs import SessionCosts
from bygones.usage.message_costs import has_single_price, make_message_pricer
from bygones.web.context import RequestContext
from bygones.web.conversation_view import (
    MAX_ASSEMBLED_MESSAGES,
    WINDOW_SIZE,
    ConversationView,
    open_view,
)
from bygones.web.layout import (
    RUNNING_TIMEOUT,
    PageMeta,
    build_url,
    conversation_url,
    html_response,
    is_running,
    link,
    pager,
    render_page,
)
from bygones.web.marking import (
    HIT_MARK,
    FindSpans,
    excerpt_of_values,
    mark_words,
)
from bygones.web.pool import OpenSession

_HTTP_OK = 200
_MAX_LABEL = 60
_MAX_RAW_BYTES = 2_000_000
_MAX_OUTPUT_CHARS = 4_000
"""Characters of the folded part of an output that a window contains."""
_MAX_HIT_CHARS = 200_000
"""The same for the message of a search result."""


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


def _session_costs(
    context: RequestContext, open_session: OpenSession
) -> SessionCosts | None:
    """Return the costs of a session and its agents, from the cache if possible."""
    costs, prices = open_session.cache.get("costs"), context.app_state.prices
    if not isinstance(costs, SessionCosts) and prices is not None:
        costs = open_session.cache["costs"] = open_session.archive.session_costs(
            open_session.summary.id, prices
        )
    return costs if isinstance(costs, SessionCosts) else None


def _html_options(context: RequestContext, view: ConversationView) -> HtmlOptions:
    session, prices = view.facts, context.app_state.prices
    costs = _session_costs(context, view.open_session)
    return HtmlOptions(
        zone=None,
        message_pricer=make_message_pricer(prices) if prices is not None else None,
        has_single_price=partial(has_single_price, prices)
        if prices is not None
        else bool,
        agent_costs=costs.by_agent if costs else {},
        agent_url=build_url("session", session.id, "agent", ""),
        branch_url=view.url(branch=0) + "?branch=",
        max_folded_chars=_MAX_OUTPUT_CHARS,
    )


def session_page(context: RequestContext) -> Response:
    """Return the page with the requested window; it is cached until it changes."""
    key = f"{context.request.url.path}?{context.request.url.query}"
    summary = context.pool.session_summary(context.path_param("id"))
    version = (summary, is_running(summary, context.now))
    content = context.pool.cached_page(key, version)
    if content is not None:
        return HTMLResponse(content)
    response = _render_session_page(context, summary)
    if response.status_code == _HTTP_OK:
        context.pool.cache_page(key, version, bytes(response.body))
    return response


def _render_session_page(context: RequestContext, summary: SessionSummary) -> Response:
    with requested_view(context, summary) as view:
        session, branch = view.facts, view.branch
        redirect_url = _target_url(context, view)
        if redirect_url:
            return RedirectResponse(redirect_url, 303)
        at = _requested_message(context, view)
        end = min((at // WINDOW_SIZE + 1) * WINDOW_SIZE, view.message_count)
        options = _html_options(context, view)
        is_hit = bool(context.query_param("find") and context.query_param("at"))
        if is_hit:
            # The matched words may be in a part that is loaded later otherwise.
            options = structs.replace(options, max_folded_chars=_MAX_HIT_CHARS)
        if context.query_flag("whole"):
            messages, stop = view.render(at, end, options), end
        else:
            messages, stop = view.render_first(at, end, options)
        if is_hit:
            messages = _mark_hit(context, view, at, messages)
        window = tag(
            "section",
            messages,
            kind="window",
            data_window=str(at // WINDOW_SIZE),
            data_from=str(at),
            data_until=str(stop),
        )
        header = _session_header(context, view)
        body = Html(
            f'<div class="conversation" id="conversation" '
            f'data-session="{escape(session.id)}" '
            f'data-own="{escape(view.url(branch=0))}" '
            f'data-branch="{branch.number}" data-total="{view.message_count}" '
            f'data-size="{WINDOW_SIZE}" data-sent="{int(bool(context.pool.folder))}" '
            f'data-running="{RUNNING_TIMEOUT.seconds}">'
            f"{window}</div>{_message_pager(view, at, stop)}"
        )
    page = PageMeta(
        title=session.title.text or session.id,
        nav="/",
        css_class="reading",
        scripts=("session.js",),
    )
    return render_page(
        page,
        (_OUTLINE_SIDEBAR, Html('<div class="column">'), header, body, Html("</div>")),
    )


_ARTICLE_ID = re.compile(r'<article [^>]*?\bid="([^"]+)"')


def _target_url(context: RequestContext, view: ConversationView) -> str:
    """Return the URL of the message that contains a record, with its anchor.

    Empty if the request names an anchor of this branch. The message may be on another
    branch or in an agent run. For a record that is not shown, it is the message before.
    """
    name = context.query_param("at", 200)
    if not name or view.has_anchor(name):
        return ""
    for candidate in (view, *_other_views(view)):
        number = candidate.find_message(name)
        if number is not None:
            break
    else:
        candidate, number = _find_near_record(context, view, name)
    options = _html_options(context, candidate)
    anchor = _shown_anchor(candidate, number, name, options)
    query_text = context.query_param("find")
    query = {"find": query_text, "hit": name} if query_text else {}
    url = candidate.url(at=anchor, **query)
    return f"{url}#{anchor}"


def _shown_anchor(
    view: ConversationView, number: int, name: str, options: HtmlOptions
) -> str:
    """Return the anchor of a message, or of the next one that is shown."""
    agent_anchor = make_element_id("a", name)
    for at in range(number, min(number + WINDOW_SIZE, view.message_count)):
        html = view.render(at, at + 1, options)
        if f'id="{agent_anchor}"' in html:
            return agent_anchor
        article = _ARTICLE_ID.search(html)
        if article is not None:
            return article[1]
    return make_element_id("m", view.message(number).id)


def _find_near_record(
    context: RequestContext, view: ConversationView, name: str
) -> tuple[ConversationView, int]:
    """Return the last message before a record that no message contains.

    A record without an id is named by its offset in the file.
    """
    is_offset = re.fullmatch(r"@[0-9]{1,15}", name)
    offsets: dict[str, int] = {}
    if not is_offset:
        with context.pool.archive() as archive:
            record = archive.record(name)
        positions = (record.position, *record.copy_positions)
        offsets = {position.source_id: position.offset for position in positions}
    for candidate in (view, *_other_views(view)):
        starts = candidate.message_positions
        if is_offset and starts:
            offsets = {starts[0][1].source_id: int(name[1:])}
        before = [
            number
            for number, position in starts
            if position.offset <= offsets.get(position.source_id, -1)
        ]
        if before:
            return candidate, before[-1]
    return view, 0


def _mark_hit(
    context: RequestContext, view: ConversationView, at: int, messages: Html
) -> Html:
    """Mark the words of a query in the first message of a page."""
    record = context.query_param("hit", 200)
    with context.pool.archive() as archive:
        query = context.parse_query(context.query_param("find"))
        positions = archive.match_positions(query, view.facts.id)
    find_spans = partial(Archive.find_words, positions=positions)
    calls = view.message(at).tool_calls if view.message_count else ()
    ids = {
        make_element_id("c", call.id)
        for call in calls
        if record and record in {call.record_id, call.result_record_id}
    }
    start = messages.find("<article ")
    stop = messages.find("</article>", start)
    if min(start, stop) < 0:
        return messages
    marked = mark_words(Html(messages[start:stop]), find_spans, ids)
    note = EMPTY_HTML
    if HIT_MARK not in marked:
        note = _unshown_match(context, record, find_spans)
    return Html(f"{messages[:start]}{marked}{note}{messages[stop:]}")


def _unshown_match(context: RequestContext, record: str, find_spans: FindSpans) -> Html:
    """Return a match in a part of a record that the page does not show."""
    excerpt = EMPTY_HTML
    with suppress(BygonesError, msgspec.DecodeError), context.pool.archive() as archive:
        raw = archive.record(record).raw
        excerpt = excerpt_of_values(msgspec.json.decode(raw), find_spans)
    if not excerpt:
        return EMPTY_HTML
    label = escape_line("Matches in a part that is not shown: ")
    return tag("p", join_html((label, excerpt)), kind="note")


def _other_views(view: ConversationView) -> Iterator[ConversationView]:
    """Yield the other branches of a session and its agent runs."""
    conversation = view.open_session.conversation()
    keys = [("", branch.number) for branch in conversation.facts.branches]
    keys += [(run, 0) for run in conversation.agent_ids]
    for key in keys:
        if key != (view.facts.agent_id or "", view.branch.number):
            yield open_view(view.open_session, *key)


def _requested_message(context: RequestContext, view: ConversationView) -> int:
    """Return the number of the message that a request is about."""
    name = context.query_param("at", 200)
    if name:
        number = view.find_message(name)
        if number is None:
            raise NotInArchive("record", name)
        return number
    return min(context.query_int("from", 0), max(view.message_count - 1, 0))


def message_window(context: RequestContext) -> Response:
    """Return one window, or a part of it."""
    with requested_view(context) as view:
        at = _requested_message(context, view)
        number = at // WINDOW_SIZE
        options = _html_options(context, view)
        low, high = number * WINDOW_SIZE, (number + 1) * WINDOW_SIZE
        start = at if context.query_param("until") else low
        stop = min(context.query_int("until", high), high)
        if (start, stop) == (low, high):
            html = view.render_window(number, options)
        else:
            html = view.render(start, stop, options)
        headers = {
            "X-Total": str(view.message_count),
            "X-Window": str(number),
            "X-Messages": str(view.open_session.summary.message_count),
        }
    return html_response(html, headers)


def full_message(context: RequestContext) -> Response:
    """Return one message with the complete output of its tools."""
    with requested_view(context) as view:
        at = _requested_message(context, view)
        options = structs.replace(
            _html_options(context, view), max_folded_chars=MAX_OUTPUT_CHARS
        )
        html = view.render(at, at + 1, options)
    return html_response(html)


def message_image(context: RequestContext) -> Response:
    """Return an image of a message; its URL contains a hash, so browsers keep it."""
    name = context.path_param("name")
    with requested_view(context) as view:
        for image in view.iter_images(_requested_message(context, view)):
            if image.name == name:
                headers = {"Cache-Control": "private, max-age=31536000, immutable"}
                return Response(image.content, 200, headers, image.media_type)
    raise NotInArchive("picture", name)


def session_outline(context: RequestContext) -> Response:
    """Return the outline as JSON: kind, message number, anchor and text."""
    with requested_view(context) as view:
        start = min(context.query_int("from", 0), view.message_count)
        entries = [
            (entry.kind, entry.message_number, entry.anchor, sanitize(entry.text))
            for entry in view.outline(start)
        ]
    return Response(msgspec.json.encode(entries), media_type="application/json")


def raw_records(context: RequestContext) -> Response:
    """Return the records of a message as they are in the archive."""
    with requested_view(context) as view:
        message = view.message(_requested_message(context, view))
        parts = list(_record_texts(message))
    return PlainTextResponse("\n\n".join(parts).encode("utf-8", "backslashreplace"))


def sent_messages(context: RequestContext) -> Response:
    """Return what the model was sent for a message, only on the owner's machine."""
    if context.pool.folder is None:
        raise NotInArchive("request", context.path_param("id"))
    with requested_view(context) as view:
        message = view.message(_requested_message(context, view))
        session = view.open_session.session
        agent = next((a for a in session.all_agents if a.id == context.agent), None)
        number = _find_turn((agent or session).branches, view.branch.number, message)
        requests = view.open_session.archive.turn_requests(
            session, number, branch_number=view.branch.number, agent=agent
        )
        return html_response(_sent_html(requests, message))


def _find_turn(branches: Sequence[Branch], branch_number: int, message: Message) -> int:
    """Return the number of the turn with a message, from 0, on a branch."""
    branch = next(one for one in branches if one.number == branch_number)
    for number, turn in enumerate(branch.turns):
        if any(message.id == one.id for one in turn.messages):
            return number
    raise NotInArchive("turn", message.id)


def fork_commands(context: RequestContext) -> Response:
    """Return the commands that continue a session from a prompt, for the owner."""
    if context.pool.folder is None or context.agent:
        raise NotInArchive("session", context.path_param("id"))
    with requested_view(context) as view:
        message = view.message(_requested_message(context, view))
        session = view.open_session.session
        branch = view.branch.number
        number = _find_turn(session.branches, branch, message)
    command = ["bygones", "fork", f"{session.id}:{number + 1}"]
    command += ["--branch", str(branch + 1)] if branch else []
    points: list[tuple[str, list[str]]] = [("After this turn:", ["--through"])]
    if number:
        points.insert(0, ("Before this prompt:", []))
    return html_response(
        join_html(
            part
            for label, options in points
            for part in (
                tag("p", escape_line(label)),
                tag("pre", escape_line(shlex.join([*command, *options, "--run"]))),
            )
        )
    )


def _sent_html(turn: TurnRequests, message: Message) -> Html:
    """Return the request that a message answers, or the first one of its turn."""
    if not turn.requests:
        return tag("p", escape_line("Nothing was sent in this turn."))
    index = next(
        (
            number
            for number, request in enumerate(turn.requests)
            if not message.record_ids.isdisjoint(request.answer_ids)
        ),
        0,
    )
    request = turn.requests[index]
    facts = (
        tag("p", escape_line(f"{label}: {text}"), kind="note")
        for label, text in request_facts(turn, index, None)
        if text
    )
    system = (
        render_details(
            escape_line(f"system prompt, block {number}"),
            tag("pre", escape_text(text)),
        )
        for number, text in enumerate(request.system, 1)
    )
    tools = (
        render_details(
            escape_line(f"tool {tool.name}"), tag("pre", escape_text(tool.description))
        )
        for tool in request.tools
    )
    shared = turn.count_shared(request)
    marks = [("", one) for one in request.messages[:shared]]
    marks += [("dropped: ", one) for one in turn.dropped_messages(request)]
    new = "new: " if turn.previous else ""
    marks += [(new, one) for one in request.messages[shared:]]
    messages = (_sent_message_html(mark, one) for mark, one in marks)
    return join_html((*facts, *system, *tools, *messages))


def _sent_message_html(mark: str, message: SentMessage) -> Html:
    role = message.role or "not in the transcript"
    if not message.blocks:
        fields = msgspec.json.encode(message.other_fields).decode()
        text = f"{mark}{role} {fields if message.other_fields else ''}"
        return tag("p", escape_line(text))
    parts = []
    for block in message.blocks:
        labels = sent_block_labels(message, block)
        title = f"{mark}{role}{f' ({labels})' if labels else ''}"
        preview = " ".join(block.text[:_MAX_LABEL].split())
        summary = join_html((tag("b", escape_line(title)), escape_line(preview)), " ")
        parts.append(render_details(summary, tag("pre", escape_text(block.text))))
    return join_html(parts)


def session_markdown(context: RequestContext) -> Response:
    """Return a message, or the whole branch, as Markdown."""
    with requested_view(context) as view:
        options = RenderOptions(zone=None)
        if context.query_param("at") or context.query_param("from"):
            at = _requested_message(context, view)
            window = view.load_window(at, at + 1)
            text = "".join(render_window_markdown(window, options))
        else:
            text = "".join(render_branch_markdown(view.iter_windows(), options))
    content = text.encode("utf-8", "backslashreplace")
    return PlainTextResponse(content, media_type="text/markdown")


def _record_texts(message: Message) -> Iterator[str]:
    positions = {ref.position for ref in (*message.record_refs, *message.attached_refs)}
    for call in message.tool_calls:
        positions |= {ref.position for ref in call.attached_refs}
        positions |= {call.result_position} if call.result_position else set()
    for position in sorted(positions, key=lambda p: (p.source_id, p.offset)):
        line = message.loader.read_raw(position)
        heading = f"# {position.source_id}, byte {position.offset}"
        if len(line) > _MAX_RAW_BYTES:
            yield f"{heading}: {pluralize(len(line), 'byte')}, too long to show"
        else:
            text = format_json(line) or line.decode("utf-8", "replace")
            yield f"{heading}\n{sanitize(text)}"


def _session_header(context: RequestContext, view: ConversationView) -> Html:
    session, summary = view.facts, view.open_session.summary
    facts = window_header_facts(session, view.branch, None, _total_cost(context, view))
    pairs = (facts[at] + facts[at + 1] for at in range(0, len(facts), 2))
    lines = [
        tag("p", join_html(map(_fact_span, pair), " · ")) for pair in pairs if any(pair)
    ]
    parent_link = EMPTY_HTML
    if session.agent_id:
        url = conversation_url(session.id, at=session.agent_id)
        parent = link(url, escape_line(summary.title.text))
        parent_link = tag("p", join_html((escape_line("Agent of "), parent)), kind="up")
    badge = EMPTY_HTML
    if is_running(summary, context.now):
        badge = tag("span", escape_line("running"), kind="running")
    title = escape_line(session.title.text) or escape_line(session.id)
    return tag(
        "header",
        join_html(
            (
                parent_link,
                tag("h1", join_html((title, badge))),
                *lines,
                _branch_list(view),
                _action_bar(context.pool.folder, view),
            )
        ),
        kind="top",
    )


def _fact_span(fact: str) -> Html:
    return tag("span", escape_line(fact), kind="fact") if fact else EMPTY_HTML


def _total_cost(context: RequestContext, view: ConversationView) -> Cost | None:
    """Return the cost of a session, or of an agent run with those below it."""
    costs, facts = _session_costs(context, view.open_session), view.facts
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
        preview = branch.preview[:_MAX_LABEL]
        branch_link = tag(
            "a",
            escape_line(f"{name}: {preview}" if preview else name),
            href=view.url(branch=branch.number),
            aria_current="page" if branch.number == view.branch.number else "",
        )
        items.append(tag("li", branch_link))
    count = escape_line(pluralize(len(branches), "branch", "branches"))
    return Html(
        f'<details class="branches"><summary>{count}</summary>'
        f"<ul>{join_html(items)}</ul></details>"
    )


def _resume_button(folder: Path, session_id: SessionId) -> Html:
    """Return the button for a command that continues a session, wherever it is.

    `bygones resume` restores the transcript if it was deleted, and selects its home.
    """
    environ = {name: os.environ[name] for name in os.environ if name != ARCHIVE_ENV}
    is_default = folder == resolve_archive_location(None, environ, Path.home())
    archive = [] if is_default else ["--archive", encode_path(folder)]
    command = shlex.join(["bygones", "resume", session_id, "--run", *archive])
    text = escape(sanitize_line(command))
    return Html(
        f'<button type="button" data-copy="{text}" title="{text}">'
        "Copy resume command</button>"
    )


def _action_bar(folder: Path | None, view: ConversationView) -> Html:
    """Return the buttons and links of a session; an agent run has only some.

    `folder` is the archive's, if it is on this machine.
    """
    session, summary = view.facts, view.open_session.summary
    find_buttons = (
        '<button type="button" data-act="find">Find <kbd>f</kbd></button>'
        '<button type="button" data-act="outline" class="only-narrow">Outline</button>'
    )
    if session.agent_id:
        return Html(f'<div class="actions">{find_buttons}</div>')
    resume = _resume_button(folder, session.id) if folder is not None else EMPTY_HTML
    starred = "true" if summary.is_starred else "false"
    changed = pluralize(session.file_count, "changed file")
    files = link(build_url("files", session=session.id), escape_line(changed))
    map_link = link(conversation_url(session.id, "map"), escape_line("Map"))
    return Html(
        '<div class="actions">'
        f'<button type="button" class="star" data-act="star" aria-pressed="{starred}">'
        "★ Star</button>"
        f"{find_buttons}{resume}"
        f'<button type="button" data-act="copy" '
        f'data-from="{escape(view.url("markdown"))}">'
        f"Copy as Markdown</button>{map_link}{files if session.file_count else ''}"
        f"{_annotation_form(summary)}</div>"
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


_OUTLINE_SIDEBAR = Html(
    '<aside class="outline" aria-label="Outline">'
    '<div class="outline-filters" role="group" aria-label="Outline filters"></div>'
    '<ol id="outline" tabindex="0" aria-label="Outline of the session"></ol>'
    "</aside>"
)


def _message_pager(view: ConversationView, at: int, stop: int) -> Html:
    """Return links to the windows before and after, for browsers without scripts."""

    def window_url(start: int) -> str:
        return view.url(**{"from": start, "whole": 1})

    previous = max(at - WINDOW_SIZE, 0) // WINDOW_SIZE * WINDOW_SIZE
    return pager(
        ("← Earlier", window_url(previous) if at else ""),
        f"{at + 1} to {stop} of {view.message_count}",
        ("Later →", window_url(stop) if stop < view.message_count else ""),
        label="Messages",
    )


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
    for other in _other_views(view):
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


_PAGE_SIZE = 5000
_MAX_DEPTH = 8


def session_map_page(context: RequestContext) -> Response:
    """Return the map; every line is a link.

    Of a very long session, only the shown part of the live branch is read.
    """
    with context.pool.session(context.path_param("id")) as open_session:
        summary = open_session.summary
        is_long = summary.message_count > MAX_ASSEMBLED_MESSAGES
        if is_long:
            lines = _live_branch_lines(open_session)
        else:
            lines = _session_lines(context, open_session)
        start = context.query_int("from", 0) // _PAGE_SIZE * _PAGE_SIZE
        items = [
            _map_item(summary.id, line)
            for line in islice(lines, start, start + _PAGE_SIZE)
        ]
        has_more = next(lines, None) is not None
    back = link(conversation_url(summary.id), escape_line(summary.title.text))
    note = (
        f"This session has {pluralize(summary.message_count, 'message')}. Its map shows "
        "the live branch and a line for each abandoned branch, without costs."
    )
    main = (
        tag("h1", escape_line("Session map")),
        tag("p", back),
        tag("p", escape_line(note), kind="note") if is_long else EMPTY_HTML,
        tag("ol", join_html(items), kind="map"),
        _map_pager(summary.id, start, len(items), has_more=has_more),
    )
    page = PageMeta(title=f"Map: {summary.title.text}", nav="/", css_class="wide")
    return render_page(page, main)


def _map_pager(session: SessionId, start: int, count: int, *, has_more: bool) -> Html:
    def part_url(first: int) -> str:
        query: dict[str, object] = {"from": first}
        return build_url("session", session, "map", **query)

    return pager(
        ("← Earlier", part_url(start - _PAGE_SIZE) if start else ""),
        f"lines {start + 1:,} to {start + count:,}",
        ("Later →", part_url(start + _PAGE_SIZE) if has_more else ""),
        label="Lines",
    )


def _session_lines(
    context: RequestContext, open_session: OpenSession
) -> Iterator[TreeLine]:
    prices = context.app_state.prices
    return iter_tree_lines(
        open_session.session, prices.compute_cost if prices else None
    )


def _live_branch_lines(open_session: OpenSession) -> Iterator[TreeLine]:
    view = open_view(open_session, "", 0)
    return iter_branch_tree_lines(view.facts, view.iter_turns())


def _map_item(session: SessionId, line: TreeLine) -> Html:
    facts = [
        pluralize(line.calls, "call") if line.calls else "",
        f"{pluralize(line.changed_files, 'file')} changed"
        if line.changed_files
        else "",
        format_duration(line.duration) if line.duration else "",
        f"{format_tokens(line.usage.total)} tokens" if line.usage.total else "",
        format_cost(line.cost) if line.usage.total else "",
    ]
    name = line.text or str(line.kind)
    if line.kind is TreeLineKind.BRANCH:
        name = f"{line.name}: {name}"
    elif line.kind is TreeLineKind.OTHER:
        name = f"elsewhere: {name}"
    inner = join_html(
        (
            link(_line_url(session, line), escape_line(name)),
            tag("span", render_facts(facts), kind="note"),
        ),
        " ",
    )
    return tag("li", inner, kind=f"k-{line.kind} d{min(line.depth, _MAX_DEPTH)}")


def _line_url(session: SessionId, line: TreeLine) -> str:
    if line.agent is not None:
        return conversation_url(session, agent=line.agent)
    if line.kind is TreeLineKind.BRANCH or line.record is None:
        return conversation_url(session, branch=line.branch)
    anchor = make_element_id("m", line.record)
    return conversation_url(session, branch=line.branch, at=anchor)
