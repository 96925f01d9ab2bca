"""What the actions of a message show: its record, its request, its Markdown, a fork."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

import msgspec
from starlette.responses import (
    PlainTextResponse,
    Response,
)

from bygones.errors import NotInArchive
from bygones.model.reports import SentMessage, TurnRequests
from bygones.model.sessions import Branch, Message
from bygones.render.headers import (
    request_facts,
    sent_block_labels,
)
from bygones.render.html.markup import (
    Html,
    escape_line,
    escape_text,
    join_html,
    render_details,
    tag,
)
from bygones.render.markdown import (
    render_session_markdown,
    render_window_markdown,
)
from bygones.render.numbers import (
    pluralize,
)
from bygones.render.step_renderer import RenderOptions
from bygones.render.text.primitives import sanitize
from bygones.render.tool_detail import format_json
from bygones.render.walk import SessionView
from bygones.web.context import RequestContext
from bygones.web.layout import (
    html_response,
)
from bygones.web.pages.session_request import requested_message, requested_view

_MAX_LABEL = 60


_MAX_RAW_BYTES = 2_000_000


def raw_records(context: RequestContext) -> Response:
    """Return the records of a message as they are in the archive."""
    with requested_view(context) as view:
        message = view.message(requested_message(context, view))
        parts = list(_record_texts(message))
    return PlainTextResponse("\n\n".join(parts).encode("utf-8", "backslashreplace"))


def sent_messages(context: RequestContext) -> Response:
    """Return what the model was sent for a message, only on the owner's machine."""
    if context.pool.folder is None:
        raise NotInArchive("request", context.path_param("id"))
    with requested_view(context) as view:
        message = view.message(requested_message(context, view))
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
        message = view.message(requested_message(context, view))
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
        labels = sent_block_labels(block)
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
            at = requested_message(context, view)
            window = view.load_window(at, at + 1)
            text = "".join(render_window_markdown(window, options))
        else:
            shown = SessionView(branch=view.branch.number, include_tools=True)
            text = "".join(render_session_markdown(view.conversation, shown, options))
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
