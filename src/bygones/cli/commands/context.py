"""`bygones context`: what the model was sent at a turn."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import msgspec

from bygones.cli.context import (
    CommonOptions,
    archive_options,
    color_option,
    complete_sessions,
    json_option,
)
from bygones.cli.file_names import parse_turn_name
from bygones.cli.open_archive import open_current
from bygones.cli.output import Console, print_objects
from bygones.cli.resolve import choose_branch, load_named_session
from bygones.render.headers import request_facts, sent_block_labels
from bygones.render.numbers import pluralize
from bygones.render.text.primitives import sanitize_name, sanitized_lines
from bygones.schema.commands import RequestObject

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bygones.model.reports import (
        LeftOutMessage,
        ModelRequest,
        SentMessage,
        TurnRequests,
    )
    from bygones.model.sessions import AgentRun, Branch, Session
    from bygones.model.summary import IndexedRecord


__all__ = ["context"]

_MAX_LEFT_OUT = 5


@click.command("context")
@click.argument(
    "name", metavar="SESSION[:TURN]", default="last", shell_complete=complete_sessions
)
@click.option(
    "--request",
    "number",
    type=click.IntRange(min=1),
    show_default="the last one",
    help="Number of the request in the turn.",
)
@click.option(
    "--branch",
    metavar="BRANCH",
    help="Branch of the turn: its number, or the id of a record on it.",
)
@click.option("--agent", metavar="ID", help="Show a turn of this agent run.")
@click.option("--full", is_flag=True, help="Print everything in full.")
@archive_options
@json_option
@color_option
def context(  # noqa: PLR0913 (the options of the command)
    *,
    name: str,
    number: int | None,
    branch: str | None,
    agent: str | None,
    full: bool,
    options: CommonOptions,
    as_json: bool,
    color: str,
) -> None:
    r"""Show what Claude was sent at a turn.

    \b
    bygones context last
    bygones context 5e551000:3 --full
    bygones context 5e551000:3 --request 1 --json

    This is the whole request: system prompt, tools, messages, cache breakpoints and
    effort, compared with the previous turn: + marks a new message, - a dropped one. Recent
    versions of Claude Code record every request; for older ones, the messages are derived
    from the conversation.

    SESSION is an id or its first characters, "last", the id of a record, or a result
    number of the last search. TURN counts from 1 (default: the last turn).

    The output contains private text, such as CLAUDE.md. It is never exported or pushed.
    """
    console = Console.for_stdout(color)
    session_name, turn_number, branch_name = parse_turn_name(name)
    branch = branch_name or branch
    with open_current(options) as archive:
        session, record = load_named_session(archive, session_name)
        run = _find_agent(session, agent) if agent else None
        branch_number = (
            0 if run else choose_branch(session, branch, record.id if record else None)
        )
        branches = (run or session).branches
        chosen = next(one for one in branches if one.number == branch_number)
        turn = archive.turn_requests(
            session,
            _choose_turn(chosen, turn_number, record),
            branch_number=branch_number,
            agent=run,
        )
        index = _choose_request(turn, number)
        if as_json:
            print_objects([RequestObject.from_request(session.id, turn, index)])
            return
        lines = _RequestText(console, turn, index, is_full=full).lines(session)
        console.print_lines(lines)


def _find_agent(session: Session, prefix: str) -> AgentRun:
    found = [run for run in session.all_agents if run.id.startswith(prefix)]
    if len(found) == 1:
        return found[0]
    known = ", ".join(run.id for run in session.all_agents) or "none"
    raise click.UsageError(
        f"no single agent of this session starts with {prefix!r}; its agents: {known}"
    )


def _choose_turn(
    branch: Branch, number: int | None, record: IndexedRecord | None
) -> int:
    count = len(branch.turns)
    if number is None and record is not None:
        for index, turn in enumerate(branch.turns):
            if any(record.id in message.record_ids for message in turn.messages):
                return index
    if not 1 <= (number or count) <= count:
        turns = pluralize(count, "turn")
        raise click.UsageError(f"there is no turn {number}: the branch has {turns}")
    return (number or count) - 1


def _choose_request(turn: TurnRequests, number: int | None) -> int:
    count = len(turn.requests)
    if not 1 <= (number or count) <= count:
        requests = pluralize(count, "request")
        raise click.UsageError(
            f"there is no request {number or 1}: the turn has {requests}"
        )
    return (number or count) - 1


class _RequestText:
    """Renders a request as lines of text."""

    def __init__(
        self, console: Console, turn: TurnRequests, index: int, *, is_full: bool
    ) -> None:
        self.console = console
        self.turn = turn
        self.index = index
        self.request: ModelRequest = turn.requests[index]
        self.is_full = is_full

    def lines(self, session: Session) -> Iterator[str]:
        turn = self.turn
        yield from self._field("session", f"{session.id}  {session.title.text}")
        for label, text in request_facts(turn, self.index, self.console.zone):
            yield from self._field(label, text)
        yield from self._left_out_lines(turn.left_out[self.index])
        if self.is_full:
            yield from self._shape_lines()
        yield ""
        yield from self._message_lines()

    def _field(self, label: str, text: str) -> Iterator[str]:
        if text:
            line = f"{label:<10}{sanitize_name(text)}"
            yield from self.console.wrap(line, indent=" " * 10)

    def _left_out_lines(self, left_out: tuple[LeftOutMessage, ...]) -> Iterator[str]:
        shown = left_out if self.is_full else left_out[:_MAX_LEFT_OUT]
        for message in shown:
            preview = sanitize_name(message.preview)
            yield self.console.truncate(
                f"          {message.role}  {message.reason}: {preview}"
            )
        if len(left_out) > len(shown):
            yield f"          and {len(left_out) - len(shown):,} more"

    def _shape_lines(self) -> Iterator[str]:
        for number, text in enumerate(self.request.system):
            yield ""
            yield f"system prompt, block {number + 1}"
            yield from _indent(text)
        for tool in self.request.tools:
            yield ""
            yield f"tool {sanitize_name(tool.name)}"
            yield from _indent(tool.description)
            schema = tool.definition.get("input_schema")
            if schema is not None:
                yield from _indent(msgspec.json.encode(schema).decode())

    def _message_lines(self) -> Iterator[str]:
        shared = self.turn.count_shared(self.request)
        messages = self.request.messages
        for number, message in enumerate(messages[:shared]):
            yield from self._one_message(" ", number, message)
        for message in self.turn.dropped_messages(self.request):
            yield from self._one_message("-", None, message)
        mark = "+" if self.turn.previous else " "
        for number, message in enumerate(messages[shared:], shared):
            yield from self._one_message(mark, number, message)

    def _one_message(
        self, mark: str, number: int | None, message: SentMessage
    ) -> Iterator[str]:
        place = "" if number is None else str(number + 1)
        head = f"{mark} {place:>4}  {message.role or 'unknown':<10}"
        if message.role is None:
            short = sanitize_name(message.hash[:16])
            yield self.console.truncate(f"{head}not in the transcript: {short}")
            return
        if message.other_fields:
            fields = msgspec.json.encode(message.other_fields).decode()
            yield self.console.truncate(f"{head}{sanitize_name(fields)}")
            head = " " * len(head)
        elif not message.blocks:
            yield f"{head}empty"
        for block in message.blocks:
            label = sent_block_labels(block)
            label = f"[{sanitize_name(label)}] " if label else ""
            if self.is_full:
                yield f"{head}{label}".rstrip()
                yield from _indent(block.text)
            else:
                text = " ".join(block.text[:400].split())
                size = f"  ({len(block.text):,} characters)"
                rest = size if len(block.text) > 200 else ""  # noqa: PLR2004
                line = sanitize_name(f"{head}{label}{text[:200]}")
                yield self.console.truncate(line + rest)
            head = " " * len(head)


def _indent(text: str) -> Iterator[str]:
    for line in sanitized_lines(text):
        yield f"    {line}".rstrip()
