"""What turns and agents cost, by themselves and with the agents they called."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, tzinfo

from msgspec import Struct

from bygones.model.base import AgentId, RecordId
from bygones.model.nodes import Origin
from bygones.model.records import Block, TextBlock, ThinkingBlock
from bygones.model.sessions import (
    AgentRun,
    Branch,
    BranchSummary,
    Message,
    MessageWindow,
    ModelUsage,
    Session,
    Turn,
    TurnRemainder,
    list_started_agents,
    walk_agents,
)
from bygones.model.summary import Role
from bygones.model.usage import Cost, sum_costs
from bygones.render.headers import agent_facts, describe_branch
from bygones.render.html.markdown_html import render_markdown, render_preformatted
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
from bygones.render.html.tool_calls import (
    MAX_OUTPUT_CHARS,
    render_media,
    render_media_blocks,
    render_output,
    render_tool_call,
)
from bygones.render.message_text import (
    TextParser,
    attached_texts,
    describe_compaction,
    describe_notice,
    describe_notification,
    display_origin,
    parse_as_typed,
    system_text,
)
from bygones.render.message_text import prompt_text as typed_words
from bygones.render.numbers import (
    MessagePricer,
    format_cost,
    format_duration,
    format_time,
    format_tokens,
    pluralize,
)
from bygones.render.session_tree import UsagePricer
from bygones.render.tool_line import ToolCallFormatter, ToolCallState
from bygones.render.walk import (
    AgentEnd,
    AgentStep,
    BlockStep,
    BranchEnd,
    BranchLink,
    BranchStep,
    MessageStep,
    OrphanAgents,
    SessionStart,
    SessionView,
    ToolCallStep,
    TurnStart,
    WalkStep,
    walk_session,
    walk_window,
)


class CostLabels(Struct, frozen=True):
    """Tells what something cost, in words; nothing where nobody knows prices."""

    message_pricer: MessagePricer | None
    agent_costs: Mapping[AgentId, Cost]
    """What agents cost whose answers are not at hand."""
    unshown_usage: Mapping[int, TurnRemainder]
    """What else was said in turns, by their numbers, that is not shown here."""

    def turn_label(self, turn: Turn) -> str:
        """Return what a turn cost; an agent counts where it was first called."""
        rest = self.unshown_usage.get(turn.number, TurnRemainder())
        own = self._cost((*turn.messages, *rest.usages))
        below = {
            run.id: self.agent_cost(run)
            for run in walk_agents(list_started_agents(turn.messages))
        }
        below |= {
            name: self.agent_costs.get(name) or self._cost(())
            for name in rest.agent_ids
            if name not in below
        }
        return _format_costs(own, list(below.values()))

    def agent_label(self, run: AgentRun) -> str:
        """Return what an agent run cost, and with those runs below it that it names."""
        return _format_costs(
            self.agent_cost(run),
            [self.agent_cost(one) for one in walk_agents(run.agents)],
        )

    def agent_cost(self, run: AgentRun) -> Cost | None:
        """Return what an agent run cost by itself."""
        return self.agent_costs.get(run.id) or self._cost(run.live_branch.messages)

    def _cost(self, messages: Iterable[Message | ModelUsage]) -> Cost | None:
        nanos = self.message_pricer(messages) if self.message_pricer else None
        return None if nanos is None else Cost(nano_usd=nanos)


def _format_costs(own: Cost | None, below: Sequence[Cost | None]) -> str:
    told = format_cost(own) if own and (own.nano_usd or own.nano_usd is None) else ""
    if not any(cost and (cost.nano_usd or cost.unpriced_tokens) for cost in below):
        return told
    whom = pluralize(len(below), "agent")
    return f"{told or '$0.00'}, {format_cost(sum_costs([own, *below]))} with {whom}"


_MAX_TASK_LINES = 12
"""Lines of what was asked of an agent beyond which they fold."""


class SystemMessageHtml(Struct, frozen=True):
    """A message as markup: what it is, who made it, what it says."""

    css_class: str
    """Its class: prompt, command, notice and so on."""
    author: str
    html: Html


def render_system_message(
    message: Message, text_parser: TextParser
) -> SystemMessageHtml | None:
    """Return a message that is no answer; ``None`` if it says nothing."""
    if message.compaction is not None:
        return _render_compaction(message, text_parser)
    return _RENDERERS.get(display_origin(message), _render_notice)(message, text_parser)


def _render_prompt(message: Message, text_parser: TextParser) -> SystemMessageHtml:
    shown = join_html(
        (
            render_preformatted(typed_words(message, text_parser)),
            render_media_blocks(message.blocks),
        )
    )
    who = "You, while Claude was at work" if message.is_steering else "You"
    return SystemMessageHtml("prompt", who, shown)


def _render_agent_task(message: Message, text_parser: TextParser) -> SystemMessageHtml:
    asked = typed_words(message, text_parser)
    shown = render_preformatted(asked)
    count = asked.count("\n") + 1
    if count > _MAX_TASK_LINES:
        shown = render_details(
            escape_line(f"The task, {pluralize(count, 'line')}"), shown, "more"
        )
    return SystemMessageHtml("prompt caller", "Task", shown)


def _render_command(message: Message, text_parser: TextParser) -> SystemMessageHtml:
    command = message.command
    name = command.name if command else message.preview
    args = command.args if command else ""
    line = join_html((tag("code", escape_line(name)), escape_text(args)), " ")
    shown = tag("div", line, kind="typed")
    return SystemMessageHtml(
        "prompt command",
        "You",
        join_html((shown, _render_attached(message, text_parser))),
    )


def _render_attached(message: Message, text_parser: TextParser) -> Html:
    printed, meant = attached_texts(message, text_parser)
    stood = EMPTY_HTML
    if meant.strip():
        count = pluralize(len(meant.splitlines()), "line")
        stood = render_details(
            escape_line(f"It put {count} before Claude"),
            render_preformatted(meant),
            "more",
        )
    return join_html((render_output(printed), stood))


def _render_shell(message: Message, text_parser: TextParser) -> SystemMessageHtml:
    line = tag(
        "pre", escape_text(f"! {system_text(message, text_parser)}"), kind="command"
    )
    return SystemMessageHtml(
        "prompt command",
        "You",
        join_html((line, _render_attached(message, text_parser))),
    )


def _render_memory(message: Message, text_parser: TextParser) -> SystemMessageHtml:
    return SystemMessageHtml(
        "prompt command",
        "You",
        render_preformatted(f"# {system_text(message, text_parser)}"),
    )


def _render_command_output(
    message: Message, text_parser: TextParser
) -> SystemMessageHtml:
    return SystemMessageHtml(
        "notice", "", render_output(system_text(message, text_parser))
    )


def _render_interrupt(_message: Message, _teller: TextParser) -> SystemMessageHtml:
    return SystemMessageHtml("notice bad", "", escape_line("✗ interrupted by the user"))


def _render_notification(
    message: Message, text_parser: TextParser
) -> SystemMessageHtml:
    return SystemMessageHtml(
        "notice", "", escape_line(f"• {describe_notification(message, text_parser)}")
    )


def _render_teammate(message: Message, text_parser: TextParser) -> SystemMessageHtml:
    return SystemMessageHtml(
        "notice", "A teammate", render_output(system_text(message, text_parser))
    )


def _render_orphan_result(message: Message, _teller: TextParser) -> SystemMessageHtml:
    head = f": {message.preview}" if message.preview else ""
    return SystemMessageHtml(
        "notice", "", escape_line(f"• a result that answers no known call{head}")
    )


def _render_continuation(
    message: Message, text_parser: TextParser
) -> SystemMessageHtml:
    told = render_markdown(system_text(message, text_parser))
    return SystemMessageHtml(
        "mark",
        "",
        render_details(escape_line("goes on after a compaction"), told, "more"),
    )


def _render_compaction(message: Message, text_parser: TextParser) -> SystemMessageHtml:
    line = escape_line(describe_compaction(message))
    _, digest = attached_texts(message, text_parser)
    return SystemMessageHtml(
        "mark",
        "",
        render_details(line, render_markdown(digest), "more") if digest else line,
    )


def _render_notice(
    message: Message, text_parser: TextParser
) -> SystemMessageHtml | None:
    line, is_bad = describe_notice(message, text_parser)
    if not line:
        return None
    return SystemMessageHtml(
        "notice bad" if is_bad else "notice", "", escape_line(f"• {line}")
    )


_RENDERERS: dict[Origin, Callable[[Message, TextParser], SystemMessageHtml | None]] = {
    Origin.PERSON: _render_prompt,
    Origin.CALLER: _render_agent_task,
    Origin.COMMAND: _render_command,
    Origin.COMMAND_OUTPUT: _render_command_output,
    Origin.SHELL: _render_shell,
    Origin.SHELL_OUTPUT: _render_command_output,
    Origin.MEMORY: _render_memory,
    Origin.INTERRUPT: _render_interrupt,
    Origin.COMPACTION: _render_continuation,
    Origin.NOTIFICATION: _render_notification,
    Origin.TEAMMATE: _render_teammate,
    Origin.TOOL: _render_orphan_result,
}


SHOW_ALL = SessionView(
    include_branches=True,
    include_agents=True,
    include_thinking=True,
    include_tools=True,
)
"""Everything: it folds away on a page."""


def _is_single_answer(paid: ModelUsage) -> bool:
    """Whether that was the price of one answer."""
    return paid.min_context == paid.max_context and paid.first_at == paid.last_at


class HtmlOptions(Struct, frozen=True, kw_only=True):
    """For whom pieces are made."""

    zone: tzinfo | None = UTC
    """Of the times; ``None`` for that of the machine."""
    text_parser: TextParser = parse_as_typed
    message_pricer: MessagePricer | None = None
    """What tells the cost of turns and agents."""
    usage_pricer: UsagePricer | None = None
    """What tells the cost of a whole session."""
    agent_costs: Mapping[AgentId, Cost] = {}
    """What agents cost whose answers are not at hand."""
    unshown_usage: Mapping[int, TurnRemainder] = {}
    """What else was said in turns, by their numbers: they cost all of it."""
    has_single_price: Callable[[ModelUsage], bool] = _is_single_answer
    """Whether one price holds for what is told as a sum."""
    agent_url: str = ""
    """The address below which an agent that is told in brief has its page."""
    branch_url: str = ""
    """The address at whose end the number of a branch leads to that branch."""
    previous_time: datetime | None = None
    """When the message before the first was said: its day need not be told again."""
    max_folded_chars: int = MAX_OUTPUT_CHARS
    """Signs of what folds that a page holds; more it has to ask for."""


class HtmlFragment(Struct, frozen=True):
    """A piece of a page."""

    html: Html
    message_anchor: str = ""
    """The anchor of the message at the top level that begins with this piece."""
    turn_number: int | None = None
    """The number of the turn at the top level that begins with this piece."""


def render_fragments(
    session: Session, view: SessionView = SHOW_ALL, options: HtmlOptions | None = None
) -> Iterator[HtmlFragment]:
    """Yield a session, or the turns of it that the view asks for, piece by piece."""
    return render_steps(
        walk_session(session, view), session.project, options or HtmlOptions()
    )


def render_window_fragments(
    window: MessageWindow, options: HtmlOptions
) -> Iterator[HtmlFragment]:
    """Yield a window piece by piece, as :func:`fragments` would yield its messages."""
    return render_steps(walk_window(window), window.header.project, options)


def render_steps(
    steps: Iterable[WalkStep | BranchLink], project: str | None, options: HtmlOptions
) -> Iterator[HtmlFragment]:
    """Yield what steps through a session say, piece by piece."""
    setter = _HtmlRenderer(project, options)
    for step in steps:
        yield from setter.render_step(step)
    yield from setter.finish()


class _HtmlRenderer:
    """Sets one session; remembers which elements are open."""

    def __init__(self, project: str | None, options: HtmlOptions) -> None:
        self._options = options
        self._cost_labels = CostLabels(
            options.message_pricer, options.agent_costs, options.unshown_usage
        )
        self._call_formatter = ToolCallFormatter(project)
        self._open_elements: list[str] = []
        """Ends of the elements that are open, the innermost last."""
        self._depth = 0
        """How many agents and branches the next message is inside of."""
        self._seen_agents: set[str] = set()
        """Agents whose runs were shown or named."""
        self._api_failures = 0
        self._last_time = options.previous_time

    def render_step(self, step: WalkStep | BranchLink) -> Iterator[HtmlFragment]:
        if isinstance(step, MessageStep) and step.message.system_subtype == "api_error":
            self._api_failures += 1
            return
        yield from self._close_before(step)
        match step:
            case MessageStep() | BlockStep() | ToolCallStep():
                yield from self._render_content(step)
            case TurnStart():
                yield self._render_turn(step.turn)
            case AgentStep():
                yield HtmlFragment(self._render_agent(step))
            case BranchStep():
                yield HtmlFragment(self._render_fork(step))
            case BranchLink():
                yield HtmlFragment(
                    self._render_branch_link(step.branch, step.last_shared)
                )
            case AgentEnd() | BranchEnd():
                yield HtmlFragment(self._close_nested())
            case OrphanAgents():
                heading = escape_line(
                    "Agents that no call here is known to have started"
                )
                yield HtmlFragment(tag("h2", heading, kind="mark"))
            case SessionStart():
                pass

    def _close_before(self, step: WalkStep | BranchLink) -> Iterator[HtmlFragment]:
        """Yield what has to come before a step: the end of the message above it."""
        is_inside = isinstance(step, BlockStep | ToolCallStep) or (
            isinstance(step, AgentStep) and step.call is not None
        )
        if not is_inside:
            yield from self._close_message()
        if self._api_failures:
            yield from self._render_api_failures()

    def _render_content(
        self, step: MessageStep | BlockStep | ToolCallStep
    ) -> Iterator[HtmlFragment]:
        match step:
            case MessageStep():
                yield from self._render_message(step)
            case BlockStep():
                yield HtmlFragment(
                    _render_block(step.block, is_error=step.message.is_error)
                )
            case ToolCallStep(call=call):
                line = self._call_formatter.format_call(call)
                runs = [run.id for run in call.agents if run.kind.is_shown]
                is_alone = len(runs) == 1 and line.state is ToolCallState.DONE
                # What follows tells all that the line of a single agent would.
                if not is_alone or runs[0] in self._seen_agents:
                    most = self._options.max_folded_chars
                    made = render_tool_call(
                        call, line, has_agent_below=bool(runs), max_chars=most
                    )
                    yield HtmlFragment(made)
                self._seen_agents.update(runs)

    def finish(self) -> Iterator[HtmlFragment]:
        """Yield what is left: failures that were held back, ends of elements."""
        yield from self._close_message()
        if self._api_failures:
            yield from self._render_api_failures()

    def _render_api_failures(self) -> Iterator[HtmlFragment]:
        times = (
            f" {self._api_failures} times in a row" if self._api_failures > 1 else ""
        )
        self._api_failures = 0
        line = escape_line(f"• the API failed{times}")
        yield HtmlFragment(tag("div", line, kind="notice bad"))

    def _close_message(self) -> Iterator[HtmlFragment]:
        """Yield the end of the message that is open at this depth, if one is."""
        if self._open_elements and self._open_elements[-1] == _ARTICLE_END:
            yield HtmlFragment(Html(self._open_elements.pop()))

    def _close_nested(self) -> Html:
        """Return the end of an agent or a branch."""
        self._depth -= 1
        return Html(self._open_elements.pop())

    def _render_turn(self, turn: Turn) -> HtmlFragment:
        time = next((m.sent_at for m in turn.messages if m.sent_at), None)
        parts = []
        if time is not None:
            parts.append(format_time(time, self._options.zone, self._last_time))
            self._last_time = time
        parts.append(format_duration(turn.duration) if turn.duration else "")
        parts.append(
            f"{format_tokens(turn.usage.total)} tokens" if turn.usage.total else ""
        )
        parts.append(self._cost_labels.turn_label(turn))
        line = render_facts(parts)
        if self._depth:
            return HtmlFragment(tag("p", line, kind="turn"))
        id_ = f"t-{turn.number}"
        link = f'<a href="#{id_}">{line or "…"}</a>'
        told = f'<h2 class="turn" id="{id_}">{link}</h2>'
        return HtmlFragment(Html(told), turn_number=turn.number)

    def _render_message(self, step: MessageStep) -> Iterator[HtmlFragment]:
        message = step.message
        id_ = make_element_id("m", message.id)
        top = "" if self._depth else id_
        if message.role is not Role.ASSISTANT:
            heard = render_system_message(message, self._options.text_parser)
            if heard is not None:
                head = (
                    self._render_message_header(message, heard.author, id_)
                    if heard.author
                    else EMPTY_HTML
                )
                shown = Html(
                    f'<article class="{heard.css_class}" id="{id_}">'
                    f"{head}{heard.html}</article>"
                )
                yield HtmlFragment(shown, top)
            return
        self._open_elements.append(_ARTICLE_END)
        bad = " bad" if message.is_error else ""
        head = self._render_message_header(message, "Claude", id_)
        shown = Html(f'<article class="answer{bad}" id="{id_}">{head}')
        yield HtmlFragment(shown, top)

    def _render_message_header(self, message: Message, author: str, id_: str) -> Html:
        time = message.sent_at
        stamp = EMPTY_HTML
        if time is not None:
            zone = self._options.zone
            when = time if time.tzinfo is zone else time.astimezone(zone)
            stamp = Html(
                f'<time datetime="{time.isoformat()}">'
                f"{when.hour:02}:{when.minute:02}</time>"
            )
        return Html(
            f"<header><b>{escape_line(author)}</b> "
            f'<a href="#{id_}">{stamp or "link"}</a></header>'
        )

    def _render_agent(self, step: AgentStep) -> Html:
        run = step.run
        if step.is_resumed:
            return tag("p", escape_line(f"goes on with agent {run.id}"), kind="note")
        name = ": ".join(filter(None, (run.agent_type, run.description))) or run.id
        id_ = make_element_id("a", run.id)
        called = tag("b", escape_line(name))
        if self._options.agent_url and not step.is_expanded:
            called = tag("a", called, href=f"{self._options.agent_url}{id_}")
        went = render_facts([*agent_facts(run), self._cost_labels.agent_label(run)])
        told = f"{called} " + tag("span", went, kind="facts")
        if not step.is_expanded:
            return Html(f'<p class="agent" id="{id_}">{told}</p>')
        self._open_elements.append("</div></details>")
        self._depth += 1
        return Html(f'<details class="agent" id="{id_}"><summary>{told}</summary><div>')

    def _render_fork(self, step: BranchStep) -> Html:
        if not step.is_expanded:
            return self._render_branch_link(step.branch)
        self._open_elements.append("</div></fieldset>")
        self._depth += 1
        return _render_branch_switch(step.branch, describe_branch(step.branch))

    def _render_branch_link(
        self, branch: Branch | BranchSummary, after: RecordId | None = None
    ) -> Html:
        """Return the line that leads to a branch which goes another way from here."""
        way = "The live branch goes on" if branch.is_live else "Rewound"
        line = escape_line(f"{way} from here: {describe_branch(branch)}")
        if self._options.branch_url:
            fork = f"&at={make_element_id('m', after)}" if after is not None else ""
            to = f"{self._options.branch_url}{branch.number}{fork}"
            line = tag("a", line, href=to)
        return Html(f'<p class="mark fork">{line}</p>')


_ARTICLE_END = "</article>"


def _render_branch_switch(branch: Branch, label: str) -> Html:
    """Return the beginning of a branch that shows when it is chosen, without script."""
    id_ = make_element_id("b", branch.id)
    live = "the live branch goes on below"
    return Html(
        f'<fieldset class="fork" id="{id_}">'
        f"<legend>A rewind</legend>"
        f'<label><input type="radio" name="{id_}" checked> {escape_line(live)}</label>'
        f'<label><input type="radio" name="{id_}" class="other"> '
        f"{escape_line(f'branch {branch.number}, left behind: {label}')}</label>"
        '<div class="branch">'
    )


def _render_block(block: Block, *, is_error: bool) -> Html:
    if isinstance(block, TextBlock):
        said = (block.text or "").strip("\n")
        if not said.strip():
            return EMPTY_HTML
        return (
            tag("p", escape_text(said), kind="bad")
            if is_error
            else render_markdown(said)
        )
    if isinstance(block, ThinkingBlock):
        thought = (block.thinking or "").strip("\n")
        if not thought.strip():
            return EMPTY_HTML
        count = pluralize(len(thought.splitlines()), "line")
        return render_details(
            escape_line(f"Thought, {count}"), render_preformatted(thought), "thought"
        )
    return render_media(block)
