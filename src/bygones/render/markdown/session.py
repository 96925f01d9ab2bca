"""A session as Markdown, for repositories and editors, made while it is walked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, tzinfo

from msgspec import Struct

from bygones.model.blocks import Block, Text, Thinking
from bygones.model.changes import hunks_of
from bygones.model.sessions import AgentRun, Message, Role, Session, ToolCall, Turn
from bygones.model.texts import Origin
from bygones.model.tools import TOOL_NAMES
from bygones.model.windows import SessionFacts, Window
from bygones.render.details import output_text, pretty
from bygones.render.figures import clock, lasting, several, tokens
from bygones.render.heads import (
    agent_facts,
    fork_words,
    session_facts,
    window_facts,
)
from bygones.render.heard import (
    compaction_words,
    kind_of,
    news_words,
    notice_words,
)
from bygones.render.inputs import Task, input_of
from bygones.render.markdown.text import (
    code,
    fenced,
    neutral,
    plain,
    quoted,
    summary,
)
from bygones.render.tools import CallLine, CallLines, CallState
from bygones.render.walk import (
    AgentEnd,
    AgentMet,
    BlockMet,
    Called,
    Forked,
    LeftEnd,
    Orphans,
    Said,
    Start,
    Step,
    TurnStart,
    View,
    walk,
)
from bygones.render.windows import Beside, walk_window
from bygones.render.words import (
    Teller,
    as_it_stands,
    attached,
    block_note,
    said,
    typed,
)

__all__ = ["Sheet", "branch_markdown", "markdown", "window_markdown"]

_LINES = 40
"""Lines of an output that are shown."""
_SIGNS = 4_000
_EDITS = {"Edit", "Write", "MultiEdit", "NotebookEdit"}
_ANSWERED = {CallState.DONE, CallState.WAITING}


class Sheet(Struct, frozen=True, kw_only=True):
    """For whom Markdown is made."""

    zone: tzinfo | None = UTC
    teller: Teller = as_it_stands


def markdown(
    session: Session, view: View | None = None, sheet: Sheet | None = None
) -> Iterator[str]:
    """Yield a session as Markdown, piece by piece; calls fold where a viewer can."""
    view, sheet = view or View(), sheet or Sheet()
    setter = _Setter(session.project, view, sheet)
    for step in walk(session, view):
        yield from (f"{part}\n\n" for part in setter.set(step) if part)


def window_markdown(window: Window, sheet: Sheet | None = None) -> Iterator[str]:
    """Yield the messages of a window as Markdown, and nothing around them."""
    view = View(thinking=False, tools=True)
    setter = _Setter(window.facts.project, view, sheet or Sheet())
    for step in walk_window(window):
        if isinstance(step, Said | BlockMet | Called | AgentMet):
            yield from (f"{part}\n\n" for part in setter.set(step) if part)


def branch_markdown(
    windows: Iterable[Window], sheet: Sheet | None = None
) -> Iterator[str]:
    """Yield a branch as :func:`markdown` would, of all its windows in their order."""
    sheet = sheet or Sheet()
    seen: set[str] = set()
    setter: _Setter | None = None
    for window in windows:
        if setter is None:
            setter = _Setter(window.facts.project, View(tools=True), sheet)
            yield from (f"{part}\n\n" for part in setter.window_head(window))
        for step in walk_window(window, seen):
            yield from (f"{part}\n\n" for part in setter.set(step) if part)


class _Setter:
    """Sets one session."""

    def __init__(self, project: str | None, view: View, sheet: Sheet) -> None:
        self._view = view
        self._sheet = sheet
        self._lines = CallLines(project)
        self._day: datetime | None = None
        self._failures = 0

    def set(self, step: Step | Beside) -> Iterator[str]:
        if isinstance(step, Said) and step.message.notice == "api_error":
            self._failures += 1
            return
        if self._failures:
            times = f" {self._failures} times in a row" if self._failures > 1 else ""
            self._failures = 0
            yield f"*• the API failed{times}*"
        match step:
            case Said() | BlockMet() | Called():
                yield from self._content(step)
            case Start():
                yield from self._head(step)
            case TurnStart():
                yield self._turn(step.turn)
            case AgentMet():
                yield self._agent(step)
            case Forked() | LeftEnd() | Beside():
                yield _branch(step)
            case AgentEnd():
                yield "</details>"
            case Orphans():
                yield "## Agents that no call here is known to have started"

    def _content(self, step: Said | BlockMet | Called) -> Iterator[str]:
        match step:
            case Said(message=message):
                if message.role is Role.ASSISTANT:
                    return
                yield from self._heard(message)
            case BlockMet(block=block):
                yield self._block(block)
            case Called(call=call):
                yield from self._call(call)

    def _head(self, step: Start) -> Iterator[str]:
        told = session_facts(step.session, step.branch, self._sheet.zone)
        yield from _headed(step.session, (*told, [step.turns]))

    def window_head(self, window: Window) -> Iterator[str]:
        branch = window.facts.branch(window.branch)
        if branch is not None:
            told = window_facts(window.facts, branch, self._sheet.zone)
            yield from _headed(window.facts, told)

    def _turn(self, turn: Turn) -> str:
        time = next((m.time for m in turn.messages if m.time), None)
        facts = []
        if time is not None:
            facts.append(clock(time, self._sheet.zone, self._day))
            self._day = time
        facts.append(lasting(turn.duration) if turn.duration else "")
        facts.append(f"{tokens(turn.usage.total)} tokens" if turn.usage.total else "")
        return f"---\n\n*{' · '.join(filter(None, facts)) or '…'}*"

    def _heard(self, message: Message) -> Iterator[str]:
        teller = self._sheet.teller
        kind = kind_of(message)
        if message.compaction is not None:
            yield f"**{plain(compaction_words(message))}**"
        elif kind in {Origin.PERSON, Origin.CALLER}:
            others = (block for block in message.blocks if not isinstance(block, Text))
            yield quoted(typed(message, teller) or "…")
            yield "\n".join(filter(None, (plain(block_note(b)) for b in others)))
        elif kind in _TYPED:
            yield from self._command(message, _TYPED[kind])
        elif kind in {Origin.COMMAND_OUTPUT, Origin.SHELL_OUTPUT, Origin.TEAMMATE}:
            yield _cut(said(message, teller))
        elif kind is Origin.INTERRUPT:
            yield "*✗ interrupted by the user*"
        elif kind is Origin.NOTIFICATION:
            yield f"*• {plain(news_words(message, teller))}*"
        elif kind is Origin.COMPACTION:
            yield "*goes on after a compaction*"
        else:
            told, _ = notice_words(message, teller)
            yield f"*• {plain(told)}*" if told else ""

    def _command(self, message: Message, sign: str) -> Iterator[str]:
        command = message.command
        words = said(message, self._sheet.teller)
        if command is not None:
            words = f"{command.name} {command.args}".strip()
        yield f"> {code(f'{sign}{words}')}"
        printed, meant = attached(message, self._sheet.teller)
        yield _cut(printed)
        if meant.strip():
            count = several(len(meant.splitlines()), "line")
            yield f"*it put {count} before Claude*"

    def _block(self, block: Block) -> str:
        if isinstance(block, Text):
            return neutral(block.text or "")
        if isinstance(block, Thinking):
            thought = (block.thinking or "").strip()
            if not self._view.thinking or not thought:
                return ""
            return _folded("Thought", quoted(thought))
        return plain(block_note(block))

    def _call(self, call: ToolCall) -> Iterator[str]:
        line = self._lines.line(call)
        runs = [run.id for run in call.agents if run.kind.is_shown]
        told = _told(line)
        body = "" if runs or not self._view.tools else _body(call)
        yield _folded(told, body) if body else f"- {_line(line)}"

    def _agent(self, step: AgentMet) -> str:
        run = step.run
        if step.is_again:
            return f"*goes on with agent {plain(run.id)}*"
        told = _agent_words(run)
        if not step.is_whole:
            return f"- {plain(told)}"
        return f"<details><summary>{summary(told)}</summary>"


_TYPED = {Origin.COMMAND: "", Origin.SHELL: "! ", Origin.MEMORY: "# "}


def _headed(
    session: Session | SessionFacts, told: Iterable[Iterable[str]]
) -> Iterator[str]:
    yield f"# {plain(session.title.text) or plain(session.id)}"
    lines = (" · ".join(plain(fact) for fact in facts if fact) for facts in told)
    yield "\n".join(f"- {line}" for line in lines if line)


def _branch(step: Forked | LeftEnd | Beside) -> str:
    branch = step.branch
    if isinstance(step, LeftEnd):
        return f"**Branch {branch.number} ends here.**"
    way = "The live branch" if branch.is_live else f"Rewound, branch {branch.number}"
    return f"**{way}:** {plain(fork_words(branch))}"


def _agent_words(run: AgentRun) -> str:
    name = ": ".join(filter(None, (run.type, run.description))) or run.id
    return f"Agent {name} ({' · '.join(filter(None, agent_facts(run)))})"


def _line(line: CallLine) -> str:
    told = [f"**{plain(line.name)}**", code(line.subject)]
    return " ".join(filter(None, (*told, plain(_facts(line)))))


def _told(line: CallLine) -> str:
    return " ".join(filter(None, (line.name, line.subject, _facts(line))))


def _facts(line: CallLine) -> str:
    facts = [*line.facts]
    if line.added or line.removed:
        facts.insert(0, f"+{line.added} \N{MINUS SIGN}{line.removed}")
    if line.state not in _ANSWERED:
        facts.insert(0, line.state.value)
    told = f"({' · '.join(facts)})" if facts else ""
    return f"{told}: {line.trouble}" if line.trouble else told


def _folded(told: str, body: str) -> str:
    return f"<details><summary>{summary(told)}</summary>\n\n{body}\n\n</details>"


def _body(call: ToolCall) -> str:
    name = TOOL_NAMES.get(call.name, call.name)
    fields = input_of(call)
    parts = []
    if name in _EDITS:
        hunks = hunks_of(call.outcome, call.input)
        lines = (line for hunk in hunks for line in hunk.lines)
        parts.append(_cut("\n".join(lines), "diff"))
        if not call.is_error:
            return parts[0]
    elif name in {"Bash", "PowerShell"} and fields.command:
        parts.append(_cut(fields.command, "sh"))
    elif fields.todos and not call.is_error:
        return _checklist(fields.todos)
    elif name == "ExitPlanMode" and fields.plan:
        parts.append(neutral(fields.plan))
    elif name not in {"Read", "Glob", "Grep"}:
        parts.append(_cut(pretty(bytes(call.input)), "json"))
    parts.append(_cut(output_text(call)))
    return "\n\n".join(filter(None, parts))


def _checklist(tasks: Sequence[Task]) -> str:
    return "\n".join(
        f"- [{'x' if one.status == 'completed' else ' '}] "
        f"{plain(one.content or one.subject or '')}"
        for one in tasks
    )


def _cut(text: str, language: str = "") -> str:
    text = text.strip("\n")
    if not text.strip():
        return ""
    lines = text.split("\n")
    shown = "\n".join(lines[:_LINES])[:_SIGNS]
    if len(shown) == len(text):
        return fenced(text, language).rstrip("\n")
    rest = len(text) - len(shown)
    return f"{fenced(shown, language)}\n*… {rest:,} more signs*"
