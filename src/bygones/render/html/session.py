"""Render a session as HTML fragments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain

from msgspec import Struct

from bygones.model.assembled import as_conversation
from bygones.model.base import AgentId, RecordId
from bygones.model.conversations import (
    BranchSummary,
    Conversation,
    MessageWindow,
)
from bygones.model.records import Block, TextBlock, ThinkingBlock
from bygones.model.sessions import (
    AgentRun,
    Message,
    Session,
    ToolCall,
    list_started_agents,
    walk_agents,
)
from bygones.model.summary import Role
from bygones.model.usage import Cost, sum_costs
from bygones.render.headers import (
    agent_facts,
    agent_name,
    branch_label,
    describe_branch,
)
from bygones.render.html.markdown_html import (
    render_markdown,
    render_preformatted,
    render_prompt,
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
from bygones.render.html.tool_calls import (
    MAX_OUTPUT_CHARS,
    ToolCallOptions,
    render_media,
    render_media_blocks,
    render_output,
    render_tool_call,
)
from bygones.render.message_text import (
    CONTINUATION,
    INTERRUPTED,
    TextParser,
    attached_texts,
    describe_compaction,
    describe_expansion,
    describe_notice,
    describe_notification,
    describe_orphan_result,
    prompt_text,
    system_text,
)
from bygones.render.numbers import MessagePricer, format_cost, pluralize
from bygones.render.step_renderer import (
    RenderOptions,
    StepRenderer,
    SystemMessageRenderer,
)
from bygones.render.text.primitives import sanitize, truncate_end
from bygones.render.tool_line import ToolCallState
from bygones.render.walk import (
    SHOW_ALL,
    AgentStep,
    BlockStep,
    BranchStep,
    SessionView,
    ToolCallStep,
    TurnStart,
    WalkStep,
    walk_session,
    walk_window,
)

_ARTICLE_END = "</article>"
_QUOTE_WIDTH = 60
"""Characters of a prompt that a link to a branch quotes."""
_MAX_TASK_LINES = 12
"""A longer task of an agent is folded."""


class CostLabels:
    """Formats the costs of turns and agents; empty if prices are unknown."""

    def __init__(self, options: HtmlOptions, conversation: Conversation | None) -> None:
        self._pricer = options.message_pricer
        self._agent_costs: dict[AgentId, Cost | None] = {**options.agent_costs}
        self._read_unshown = options.read_unshown
        self._conversation = conversation
        self._inner_runs: dict[AgentId, tuple[AgentRun, ...]] = {}
        """Agents below an agent whose own agents are known."""

    def turn_label(self, step: TurnStart) -> str:
        """Return the cost of a turn; an agent counts where it was first called."""
        if self._pricer is None:
            return ""
        rest = self._read_unshown(step.turn.number)
        if rest is None:
            return ""
        started: list[AgentRun] = []

        def read_messages() -> Iterator[Message]:
            for message in chain(step.read_messages(), rest):
                started.extend(list_started_agents([message]))
                yield message

        own = self._cost(read_messages())
        agent_costs = {
            run.id: self._agent_cost(run)
            for run in walk_agents(started, self._agents_below)
        }
        return _format_costs(own, list(agent_costs.values()))

    def agent_label(self, run: AgentRun) -> str:
        """Return the cost of an agent run, alone and with the agents below it."""
        return _format_costs(
            self._agent_cost(run),
            [
                self._agent_cost(below)
                for below in walk_agents(self._agents_below(run), self._agents_below)
            ],
        )

    def _agents_below(self, run: AgentRun) -> Sequence[AgentRun]:
        """Return the agents of a run, with those below them."""
        if self._conversation is None or not run.agents:
            return run.agents
        if run.id not in self._inner_runs:
            # The run itself has them without those below.
            agent = self._conversation.agent(run.id)
            known = {
                inner.id: inner
                for branch in agent.facts.branches
                for _, message in agent.messages(branch.number)
                for call in message.tool_calls
                for inner in call.agents
            }
            self._inner_runs[run.id] = tuple(
                known.get(inner.id, inner) for inner in run.agents
            )
        return self._inner_runs[run.id]

    def _agent_cost(self, run: AgentRun) -> Cost | None:
        """Return the cost of an agent run without the agents below it."""
        is_known = self._pricer is None or run.id in self._agent_costs
        if not is_known and self._conversation is not None:
            agent = self._conversation.agent(run.id)
            live = next(branch for branch in agent.facts.branches if branch.is_live)
            messages = (message for _, message in agent.messages(live.number))
            self._agent_costs[run.id] = self._cost(messages)
        return self._agent_costs.get(run.id) or self._cost(())

    def _cost(self, messages: Iterable[Message]) -> Cost | None:
        nano_usd = self._pricer(messages) if self._pricer else None
        return None if nano_usd is None else Cost(nano_usd=nano_usd)


def _format_costs(own: Cost | None, agents: Sequence[Cost | None]) -> str:
    label = format_cost(own) if own and (own.nano_usd or own.nano_usd is None) else ""
    if not any(cost and (cost.nano_usd or cost.unpriced_tokens) for cost in agents):
        return label
    total = format_cost(sum_costs([own, *agents]))
    return f"{label or '$0.00'}, {total} with {pluralize(len(agents), 'agent')}"


class SystemMessageHtml(Struct, frozen=True):
    css_class: str
    author: str
    html: Html


class HtmlSystemMessages(SystemMessageRenderer[SystemMessageHtml | None]):
    """Renders messages that are not answers; ``None`` if there is nothing to show."""

    def __init__(self, text_parser: TextParser, *, has_colors: bool = True) -> None:
        self._text_parser = text_parser
        self._has_colors = has_colors

    def prompt(self, message: Message) -> SystemMessageHtml:
        text = render_prompt(
            prompt_text(message, self._text_parser), has_colors=self._has_colors
        )
        author = "You, while Claude was working" if message.is_steering else "You"
        return SystemMessageHtml(
            "prompt", author, join_html((text, render_media_blocks(message.blocks)))
        )

    def agent_task(self, message: Message) -> SystemMessageHtml:
        task = prompt_text(message, self._text_parser)
        html = render_preformatted(task)
        line_count = task.count("\n") + 1
        if line_count > _MAX_TASK_LINES:
            summary = escape_line(f"Task, {pluralize(line_count, 'line')}")
            html = render_details(summary, html, "more")
        return SystemMessageHtml("prompt caller", "Task", html)

    def command(self, message: Message) -> SystemMessageHtml:
        command = message.command
        name = command.name if command else message.preview
        args = command.args if command else ""
        line = join_html((tag("code", escape_line(name)), escape_text(args)), " ")
        return self._command_message(message, tag("div", line, kind="typed"))

    def shell(self, message: Message) -> SystemMessageHtml:
        line = escape_text(f"! {self._system_text(message)}")
        return self._command_message(message, tag("pre", line, kind="command"))

    def _command_message(self, message: Message, line: Html) -> SystemMessageHtml:
        output, expansion = attached_texts(message, self._text_parser)
        parts = [line, render_output(output)]
        if expansion.strip():
            label = describe_expansion(expansion)
            summary = escape_line(f"{label[0].upper()}{label[1:]}")
            parts.append(
                render_details(summary, render_preformatted(expansion), "more")
            )
        return SystemMessageHtml("prompt command", "You", join_html(parts))

    def memory(self, message: Message) -> SystemMessageHtml:
        html = render_preformatted(f"# {self._system_text(message)}")
        return SystemMessageHtml("prompt command", "You", html)

    def command_output(self, message: Message) -> SystemMessageHtml:
        return SystemMessageHtml(
            "notice", "", render_output(self._system_text(message))
        )

    def interrupt(self, _message: Message) -> SystemMessageHtml:
        return SystemMessageHtml("notice bad", "", escape_line(INTERRUPTED))

    def compaction(self, message: Message) -> SystemMessageHtml:
        html = escape_line(describe_compaction(message))
        _, summary = attached_texts(message, self._text_parser)
        if summary:
            html = render_details(html, self._render_markdown(summary), "more")
        return SystemMessageHtml("mark", "", html)

    def continuation(self, message: Message) -> SystemMessageHtml:
        text = self._render_markdown(self._system_text(message))
        html = render_details(escape_line(CONTINUATION), text, "more")
        return SystemMessageHtml("mark", "", html)

    def _render_markdown(self, text: str) -> Html:
        return render_markdown(text, has_colors=self._has_colors)

    def notification(self, message: Message) -> SystemMessageHtml:
        text = describe_notification(message, self._text_parser)
        return SystemMessageHtml("notice", "", escape_line(f"• {text}"))

    def teammate(self, message: Message) -> SystemMessageHtml:
        html = render_output(self._system_text(message))
        return SystemMessageHtml("notice", "A teammate", html)

    def orphan_result(self, message: Message) -> SystemMessageHtml:
        html = escape_line(describe_orphan_result(message))
        return SystemMessageHtml("notice", "", html)

    def notice(self, message: Message) -> SystemMessageHtml | None:
        text, is_failure = describe_notice(message, self._text_parser)
        if not text:
            return None
        css_class = "notice bad" if is_failure else "notice"
        return SystemMessageHtml(css_class, "", escape_line(f"• {text}"))

    def _system_text(self, message: Message) -> str:
        return system_text(message, self._text_parser)


def _no_messages(_turn: int) -> Sequence[Message]:
    return ()


class HtmlOptions(RenderOptions, frozen=True, kw_only=True):
    message_pricer: MessagePricer | None = None
    """Computes the costs of turns and agents."""
    cost: Cost | None = None
    """The cost of the session, for its header."""
    agent_costs: Mapping[AgentId, Cost] = {}
    """Costs of agents whose messages are not loaded."""
    read_unshown: Callable[[int], Sequence[Message] | None] = _no_messages
    """Reads the messages of a turn, by its number, that are not shown; `None` if too many."""
    agent_url: str = ""
    """Prefix of the page of an agent that is not expanded."""
    branch_url: str = ""
    """URL of a branch without its number at the end."""
    following_prompt: Callable[[int, RecordId], str] | None = None
    """Returns the first prompt of a branch after a record, for links to a parent."""
    file_url: str = ""
    """URL of the page of a file, to which its path and a call are added."""
    previous_time: datetime | None = None
    """Time of the message before the first one, whose date is not repeated."""
    max_folded_chars: int = MAX_OUTPUT_CHARS
    """Longer folded content is not part of the page; a script requests it."""
    has_colors: bool = True
    """Whether code is highlighted; otherwise a script requests the colors."""


class HtmlFragment(Struct, frozen=True):
    """A part of a page."""

    html: Html
    message_anchor: str = ""
    """Anchor of the top-level message that starts here."""
    turn_number: int | None = None
    """Number of the top-level turn that starts here."""
    prompt: Message | None = None
    """The top-level prompt that starts here."""


def render_fragments(
    source: Session | Conversation,
    view: SessionView = SHOW_ALL,
    options: HtmlOptions | None = None,
) -> Iterator[HtmlFragment]:
    """Yield the HTML of a session, or of the turns that the view selects."""
    conversation = as_conversation(source)
    renderer = _HtmlRenderer(
        conversation.facts.project, options or HtmlOptions(), conversation
    )
    return renderer.render(walk_session(conversation, view))


def render_window_fragments(
    window: MessageWindow, options: HtmlOptions
) -> Iterator[HtmlFragment]:
    """Yield the messages of a window as `render_fragments` does."""
    return render_steps(walk_window(window), window.header.project, options)


def render_steps(
    steps: Iterable[WalkStep], project: str | None, options: HtmlOptions
) -> Iterator[HtmlFragment]:
    return _HtmlRenderer(project, options).render(steps)


class _HtmlRenderer(StepRenderer[HtmlFragment]):
    def __init__(
        self,
        project: str | None,
        options: HtmlOptions,
        conversation: Conversation | None = None,
    ) -> None:
        super().__init__(project, options, options.previous_time)
        self._options = options
        self._system_messages = HtmlSystemMessages(
            options.text_parser, has_colors=options.has_colors
        )
        self._cost_labels = CostLabels(options, conversation)
        self._end_tags: list[str] = []
        """End tags of the open elements, the innermost last."""
        self._depth = 0
        """Number of agents and branches around the next message."""
        self._seen_agents: set[str] = set()

    def render(self, steps: Iterable[WalkStep]) -> Iterator[HtmlFragment]:
        for step in steps:
            yield from self.render_step(step)
        yield from self.finish()

    def _before_step(self, step: WalkStep) -> Iterator[HtmlFragment]:
        is_part_of_message = isinstance(step, BlockStep | ToolCallStep) or (
            isinstance(step, AgentStep) and step.call is not None
        )
        if not is_part_of_message:
            yield from self._close_message()

    def finish(self) -> Iterator[HtmlFragment]:
        yield from self._close_message()
        yield from super().finish()

    def _close_message(self) -> Iterator[HtmlFragment]:
        if self._end_tags and self._end_tags[-1] == _ARTICLE_END:
            yield HtmlFragment(Html(self._end_tags.pop()))

    def _render_failure(self, text: str) -> Iterator[HtmlFragment]:
        yield HtmlFragment(tag("div", escape_line(text), kind="notice bad"))

    def _render_heading(self, text: str) -> Iterator[HtmlFragment]:
        yield HtmlFragment(tag("h2", escape_line(text), kind="mark"))

    def _render_turn(self, step: TurnStart) -> Iterator[HtmlFragment]:
        turn = step.turn
        facts = self._turn_facts(turn)
        line = render_facts([*facts, self._cost_labels.turn_label(step)])
        if self._depth:
            yield HtmlFragment(tag("p", line, kind="turn"))
            return
        id_ = f"t-{turn.number}"
        link = f'<a href="#{id_}">{line or "…"}</a>'
        heading = Html(f'<h2 class="turn" id="{id_}">{link}</h2>')
        yield HtmlFragment(heading, turn_number=turn.number)

    def _render_message(self, message: Message) -> Iterator[HtmlFragment]:
        id_ = make_element_id("m", message.id)
        anchor = "" if self._depth else id_
        if message.role is Role.ASSISTANT:
            self._end_tags.append(_ARTICLE_END)
            bad = " bad" if message.is_error else ""
            header = self._render_message_header(message, "Claude", id_)
            html = f'<article class="answer{bad}" id="{id_}">{header}'
            yield HtmlFragment(Html(html), anchor)
            return
        content = self._system_messages.render(message)
        if content is None:
            return
        header = EMPTY_HTML
        if content.author:
            header = self._render_message_header(message, content.author, id_)
        html = (
            f'<article class="{content.css_class}" id="{id_}">'
            f"{header}{content.html}</article>"
        )
        prompt = message if anchor and message.is_prompt else None
        yield HtmlFragment(Html(html), anchor, prompt=prompt)

    def _render_message_header(self, message: Message, author: str, id_: str) -> Html:
        time = message.sent_at
        stamp = EMPTY_HTML
        if time is not None:
            local = time if time.tzinfo is self._zone else time.astimezone(self._zone)
            stamp = Html(
                f'<time datetime="{time.isoformat()}">'
                f"{local.hour:02}:{local.minute:02}</time>"
            )
        return Html(
            f"<header><b>{escape_line(author)}</b> "
            f'<a href="#{id_}">{stamp or "link"}</a></header>'
        )

    def _render_block(self, block: Block, *, is_error: bool) -> Iterator[HtmlFragment]:
        has_colors = self._options.has_colors
        yield HtmlFragment(
            _render_block(block, is_error=is_error, has_colors=has_colors)
        )

    def _render_call(self, call: ToolCall) -> Iterator[HtmlFragment]:
        line = self._call_formatter.format_call(call)
        agent_ids = [run.id for run in call.agents if run.kind.is_shown]
        # The agent that follows shows everything that the line of its call would.
        is_redundant = (
            len(agent_ids) == 1
            and line.state is ToolCallState.DONE
            and agent_ids[0] not in self._seen_agents
        )
        if not is_redundant:
            options = ToolCallOptions(
                has_agent_below=bool(agent_ids),
                max_chars=self._options.max_folded_chars,
                file_url=self._options.file_url,
                has_colors=self._options.has_colors,
            )
            yield HtmlFragment(render_tool_call(call, line, options))
        self._seen_agents.update(agent_ids)

    def _render_agent(self, step: AgentStep) -> Iterator[HtmlFragment]:
        run = step.run
        if step.is_resumed:
            note = escape_line(f"continues agent {run.id}")
            yield HtmlFragment(tag("p", note, kind="note"))
            return
        id_ = make_element_id("a", run.id)
        name = tag("b", escape_line(agent_name(run)))
        if self._options.agent_url and not step.is_expanded:
            name = tag("a", name, href=f"{self._options.agent_url}{id_}")
        facts = render_facts([*agent_facts(run), self._cost_labels.agent_label(run)])
        summary = f"{name} " + tag("span", facts, kind="facts")
        if step.is_expanded:
            self._open_nested("</div></details>")
            html = (
                f'<details class="agent" id="{id_}"><summary>{summary}</summary><div>'
            )
        else:
            html = f'<p class="agent" id="{id_}">{summary}</p>'
        yield HtmlFragment(Html(html))

    def _render_agent_end(self) -> Iterator[HtmlFragment]:
        yield self._close_nested()

    def _render_branch(self, step: BranchStep) -> Iterator[HtmlFragment]:
        if step.is_expanded:
            self._open_nested("</div></fieldset>")
            description = describe_branch(step.branch)
            yield HtmlFragment(_render_branch_switch(step.branch, description))
            return
        # The summary of a parent counts what is before the fork, too.
        description = (
            self._describe_parent(step)
            if step.is_parent
            else describe_branch(step.branch)
        )
        yield self._link_to_branch(step.branch, description, step.last_shared)

    def _describe_parent(self, step: BranchStep) -> str:
        find_prompt = self._options.following_prompt
        if find_prompt is None or step.last_shared is None:
            return ""
        prompt = sanitize(
            find_prompt(step.branch.number, step.last_shared), newlines="space"
        )
        return f"“{truncate_end(prompt, _QUOTE_WIDTH)}”" if prompt else ""

    def _render_branch_end(self, _branch: BranchSummary) -> Iterator[HtmlFragment]:
        yield self._close_nested()

    def _open_nested(self, end_tags: str) -> None:
        self._end_tags.append(end_tags)
        self._depth += 1

    def _close_nested(self) -> HtmlFragment:
        self._depth -= 1
        return HtmlFragment(Html(self._end_tags.pop()))

    def _link_to_branch(
        self,
        branch: BranchSummary,
        description: str,
        last_shared: RecordId | None = None,
    ) -> HtmlFragment:
        """Render the link to a branch that forks here."""
        if branch.is_live:
            label = "The live branch continues"
        elif branch.session_id:
            label = branch_label(branch)
        else:
            label = "Abandoned branch"
        line = escape_line(f"{label} from here" + (description and f": {description}"))
        if self._options.branch_url:
            fork = (
                f"&at={make_element_id('m', last_shared)}"
                if last_shared is not None
                else ""
            )
            url = f"{self._options.branch_url}{branch.number}{fork}"
            line = tag("a", line, href=url)
        return HtmlFragment(Html(f'<p class="mark fork">{line}</p>'))


def _render_branch_switch(branch: BranchSummary, label: str) -> Html:
    """Render the start of a branch that radio buttons show or hide without script."""
    id_ = make_element_id("b", branch.id)
    live_label = "the live branch continues below"
    other_label = f"{branch_label(branch)}: {label}"
    return Html(
        f'<fieldset class="fork" id="{id_}">'
        f"<legend>{'Another session' if branch.session_id else 'Rewind'}</legend>"
        f'<label><input type="radio" name="{id_}" checked> '
        f"{escape_line(live_label)}</label>"
        f'<label><input type="radio" name="{id_}" class="other"> '
        f"{escape_line(other_label)}</label>"
        '<div class="branch">'
    )


def _render_block(block: Block, *, is_error: bool, has_colors: bool) -> Html:
    if isinstance(block, TextBlock):
        text = (block.text or "").strip("\n")
        if not text.strip():
            return EMPTY_HTML
        return (
            tag("p", escape_text(text), kind="bad")
            if is_error
            else render_markdown(text, has_colors=has_colors)
        )
    if isinstance(block, ThinkingBlock):
        thinking = (block.thinking or "").strip("\n")
        if not thinking.strip():
            return EMPTY_HTML
        summary = f"Thinking, {pluralize(len(thinking.splitlines()), 'line')}"
        return render_details(
            escape_line(summary), render_preformatted(thinking), "thought"
        )
    return render_media(block)
