"""Tool calls: a line for each, and behind it what was given and what came back."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import Raw, Struct

from bygones.model.blocks import Text
from bygones.model.changes import hunks_of
from bygones.model.sessions import ToolCall
from bygones.model.tools import (
    TOOL_NAMES,
    BashOutcome,
    PlanOutcome,
    QuestionOutcome,
    TaskOutcome,
    TodoOutcome,
    WebFetchOutcome,
    WebSearchOutcome,
)
from bygones.render.details import pretty
from bygones.render.figures import several
from bygones.render.html.diff import diff
from bygones.render.html.markup import NOTHING, Html, anchor, joined, tag, text, words
from bygones.render.html.outputs import MOST, output, picture, result, unheld
from bygones.render.html.prose import prose
from bygones.render.inputs import Answers, Task, decoded, input_of
from bygones.render.tools import CallLine, CallState

__all__ = ["call_html"]

_SEEN = 100
"""Signs of a command that its line shows whole."""
_LONG_WORDS = 12_000
"""Signs of what an agent said that are shown as text; more is cut as outputs are."""
_SHORT_DIFF = 60
"""Lines of a diff that is open from the beginning."""
_STATES = {
    CallState.FAILED: "failed",
    CallState.INTERRUPTED: "interrupted",
    CallState.REFUSED: "refused",
    CallState.WAITING: "no result",
}


class Body(Struct, frozen=True):
    """What stands behind a call's line."""

    html: Html
    is_open: bool = False


def call_html(
    call: ToolCall, line: CallLine, *, is_followed: bool = False, most: int = MOST
) -> Html:
    """Return a call; ``is_followed`` if the agent that it started is shown behind.

    Of what folds at the end of an output, the page holds ``most`` signs.
    """
    name = TOOL_NAMES.get(call.name, call.name)
    body = Body(NOTHING) if is_followed else _BODIES.get(name, _any)(call, most)
    bad = "" if line.state in {CallState.DONE, CallState.WAITING} else " bad"
    id_ = anchor("c", call.id)
    summary = _summary(line)
    if not body.html:
        return tag("div", summary, kind=f"call{bad}", id=id_)
    state = " open" if body.is_open else ""
    return Html(
        f'<details class="call{bad}" id="{id_}"{state}><summary>{summary}</summary>'
        f"{body.html}</details>"
    )


def _summary(line: CallLine) -> Html:
    facts = list(line.facts)
    state = _STATES.get(line.state, "")
    if state and not any(fact.startswith("exit ") for fact in facts):
        facts.insert(0, state)
    counts = [
        tag("span", Html(f"+{line.added}"), kind="added") if line.added else NOTHING,
        tag("span", Html(f"\N{MINUS SIGN}{line.removed}"), kind="removed")
        if line.removed
        else NOTHING,
    ]
    told = joined((words(fact) for fact in facts), " · ")
    parts = [
        tag("b", words(line.name)),
        tag("code", words(_short(line.subject))) if line.subject else NOTHING,
        *counts,
        tag("span", told, kind="facts") if told else NOTHING,
        tag("span", words(line.trouble), kind="trouble") if line.trouble else NOTHING,
    ]
    return joined(parts, " ")


def _short(subject: str) -> str:
    return subject if len(subject) <= 2 * _SEEN else f"{subject[: 2 * _SEEN]}…"


def _answer(call: ToolCall, most: int) -> Html:
    kind = "output error" if call.is_error else "output"
    return result(call.result, call.stored_output, kind, most)


def _bash(call: ToolCall, most: int) -> Body:
    command = input_of(call).command or call.note
    shown = NOTHING
    if "\n" in command or len(command) > _SEEN:
        shown = tag("pre", text(command), kind="command")
    answer = _answer(call, most)
    outcome = None if answer else call.outcome
    if isinstance(outcome, BashOutcome):
        answer = output(f"{outcome.stdout or ''}\n{outcome.stderr or ''}", most=most)
    return Body(joined((shown, answer)))


def _edit(call: ToolCall, most: int) -> Body:
    hunks = hunks_of(call.outcome, call.input)
    lines = sum(len(hunk.lines) for hunk in hunks)
    trouble = _answer(call, most) if call.is_error else NOTHING
    if lines <= _SHORT_DIFF:
        return Body(joined((diff(hunks), trouble)), is_open=not call.is_error)
    size = sum(len(line) for hunk in hunks for line in hunk.lines)
    if size > most < MOST:
        return Body(joined((trouble, unheld(f"Show {several(lines, 'line')}"))))
    return Body(joined((trouble, diff(hunks))))


def _found(call: ToolCall, most: int) -> Body:
    return Body(_answer(call, most))


def _todo(call: ToolCall, _most: int) -> Body:
    outcome = call.outcome
    tasks = None
    if isinstance(outcome, TodoOutcome):
        tasks = decoded(outcome.new_todos, list[Task])
    return _checklist(tasks or input_of(call).todos or [])


def _tasks(call: ToolCall, most: int) -> Body:
    outcome = call.outcome
    tasks = None
    if isinstance(outcome, TaskOutcome):
        tasks = decoded(outcome.tasks, list[Task])
    return _checklist(tasks) if tasks else _any(call, most)


def _checklist(tasks: list[Task]) -> Body:
    signs = {"completed": "☑", "in_progress": "◐"}
    lines = (
        tag(
            "li",
            words(f"{signs.get(one.status or '', '☐')} {one.content or one.subject}"),
            kind="done" if one.status == "completed" else "",
        )
        for one in tasks
    )
    return Body(tag("ul", joined(lines), kind="tasks"), is_open=True)


def _task_line(_call: ToolCall, _most: int) -> Body:
    return Body(NOTHING)


def _plan(call: ToolCall, most: int) -> Body:
    outcome = call.outcome
    plan = outcome.plan if isinstance(outcome, PlanOutcome) else None
    plan = plan or input_of(call).plan or ""
    shown = tag("div", prose(plan), kind="plan") if plan else NOTHING
    trouble = _answer(call, most) if call.is_error else NOTHING
    return Body(joined((shown, trouble)), is_open=True)


class _Option(Struct, frozen=True):
    label: str | None = None
    description: str | None = None


class _Asked(Struct, frozen=True):
    question: str | None = None
    header: str | None = None
    options: list[_Option] = []


class _AskedAll(Struct, frozen=True):
    questions: list[_Asked] = []


def _questions(call: ToolCall, most: int) -> Body:
    outcome = call.outcome
    asked = decoded(call.input, _AskedAll)
    answers: Answers = {}
    if isinstance(outcome, QuestionOutcome):
        answers = decoded(outcome.answers, Answers) or {}
    found = asked.questions if asked else []
    is_told = len(found) == 1
    parts = [_question(one, answers, is_told=is_told) for one in found]
    trouble = _answer(call, most) if call.is_error or not parts else NOTHING
    return Body(joined((*parts, trouble)), is_open=True)


def _question(asked: _Asked, answers: Answers, *, is_told: bool) -> Html:
    """Return a question with what was chosen; ``is_told`` if its line says it."""
    told = asked.question or asked.header or ""
    answer = answers.get(told)
    chosen = answer if isinstance(answer, list) else [answer] if answer else []
    labels = [option.label or "" for option in asked.options]
    lines = [
        tag(
            "li",
            joined(
                (
                    words(f"{'◉' if label in chosen else '○'} {label}"),
                    tag("small", words(option.description or "")),
                ),
                " ",
            ),
            kind="chosen" if label in chosen else "",
        )
        for label, option in zip(labels, asked.options, strict=True)
    ]
    lines += [
        tag("li", words(f"◉ {own}"), kind="chosen")
        for own in chosen
        if own not in labels
    ]
    asking = NOTHING if is_told else tag("p", words(told))
    return joined((asking, tag("ul", joined(lines), kind="tasks")))


def _fetch(call: ToolCall, most: int) -> Body:
    outcome = call.outcome
    if isinstance(outcome, WebFetchOutcome) and outcome.result:
        return Body(prose(outcome.result))
    return Body(_answer(call, most))


class _Hit(Struct, frozen=True):
    title: str | None = None
    url: str | None = None


class _Hits(Struct, frozen=True):
    content: list[_Hit] | None = None
    title: str | None = None
    url: str | None = None


def _web_search(call: ToolCall, most: int) -> Body:
    outcome = call.outcome
    lines = []
    if isinstance(outcome, WebSearchOutcome):
        lines = [_page(hit) for hit in _hits(outcome.results) if hit.url]
    if not lines:
        return Body(_answer(call, most))
    return Body(tag("ul", joined(lines), kind="pages"))


def _hits(results: Raw) -> Iterator[_Hit]:
    for found in decoded(results, list[Raw]) or ():
        inner = decoded(found, _Hits)
        if inner is not None:
            yield from inner.content or ()
            yield _Hit(inner.title, inner.url)


def _page(hit: _Hit) -> Html:
    url = hit.url or ""
    title = words(hit.title or url)
    if not url.lower().startswith(("https://", "http://")):
        return tag("li", title)
    return tag("li", tag("a", title, href=url, rel="noopener noreferrer nofollow"))


def _agent(call: ToolCall, most: int) -> Body:
    given = decoded(call.input, _Given)
    prompt = given.prompt if given and given.prompt else ""
    asked = (
        tag("div", _said(prompt, "command", most), kind="plan") if prompt else NOTHING
    )
    content = call.result.content if call.result else None
    if call.is_error or call.stored_output is not None or content is None:
        return Body(joined((asked, _answer(call, most))))
    blocks = (Text(text=content),) if isinstance(content, str) else content
    told = (
        _said(block.text or "", "output", most)
        if isinstance(block, Text)
        else picture(block)
        for block in blocks
    )
    return Body(joined((asked, *told)))


def _said(words: str, kind: str, most: int) -> Html:
    """Return what was said to an agent or by one; what is long folds as it stands."""
    if not words.strip() or len(words) > min(most, _LONG_WORDS):
        return output(words, kind, most)
    return prose(words)


class _Given(Struct, frozen=True):
    prompt: str | None = None


def _any(call: ToolCall, most: int) -> Body:
    shown = pretty(bytes(call.input))
    given = output(shown, "command", most) if shown else NOTHING
    return Body(joined((given, _answer(call, most))))


_BODIES: dict[str, Callable[[ToolCall, int], Body]] = {
    "Bash": _bash,
    "PowerShell": _bash,
    "Read": _found,
    "Grep": _found,
    "Glob": _found,
    "LS": _found,
    "Edit": _edit,
    "MultiEdit": _edit,
    "Write": _edit,
    "NotebookEdit": _edit,
    "TodoWrite": _todo,
    "TaskList": _tasks,
    "TaskUpdate": _task_line,
    "ExitPlanMode": _plan,
    "AskUserQuestion": _questions,
    "WebFetch": _fetch,
    "WebSearch": _web_search,
    "Agent": _agent,
}
"""Who makes what stands behind a call's line; another tool shows all it has."""
