"""The prompt library: everything that was typed, to find and use again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import islice

from msgspec import Struct
from starlette.responses import Response

from bygones.archive import Archive
from bygones.model.base import SessionId
from bygones.model.summary import IndexedPrompt, SessionSummary
from bygones.render.html.markdown_html import render_prompt
from bygones.render.html.markup import (
    EMPTY_HTML,
    Html,
    escape_line,
    format_inline,
    join_html,
    tag,
)
from bygones.render.numbers import pluralize
from bygones.render.text.primitives import sanitize
from bygones.web.context import RequestContext
from bygones.web.icons import icon
from bygones.web.layout import (
    PageMeta,
    build_url,
    conversation_url,
    empty_message,
    link,
    pager,
    render_page,
    select_field,
    short_path,
    time_tag,
    top_choices,
)

_PAGE_SIZE = 40
_MAX_COPIED_CHARS = 20_000
"""Longer prompts are copied from their session."""
_MAX_SHORT_CHARS, _MAX_SHORT_LINES = 80, 2
"""Shorter prompts are shown as a whole, also on a phone."""
_MIN_USES = 2
_SORTS = (("", "Newest"), ("used", "Most used"))


class _PromptUse(Struct, frozen=True):
    prompt: IndexedPrompt
    uses: int = 1


def prompts_page(context: RequestContext) -> Response:
    text, project = context.query_param("q"), context.query_param("project")
    sort = context.query_param("sort", 10)
    page = context.query_int("page", 1, 1, 10_000)
    summaries = {summary.id: summary for summary in context.pool.summaries()}
    start = (page - 1) * _PAGE_SIZE
    found = _find_prompts(
        context, text, project, sort=sort, limit=start + _PAGE_SIZE + 1
    )
    shown = found[start : start + _PAGE_SIZE]
    has_more = len(found) > start + _PAGE_SIZE
    params = {"q": text, "project": project, "sort": sort}
    main = (
        tag("h1", escape_line("Prompts")),
        _form(text, project, sort, list(summaries.values())),
        tag("ol", join_html(_items(context, shown, summaries)), kind="prompts")
        if shown
        else empty_message(
            "No prompts match." if text or project or sort else "No prompts yet."
        ),
        pager(
            ("← Newer", build_url("prompts", **params, page=page - 1) if start else ""),
            f"{start + 1:,} to {start + len(shown):,}",
            (
                "Older →",
                build_url("prompts", **params, page=page + 1) if has_more else "",
            ),
            label="Prompts",
        ),
    )
    meta = PageMeta(title="Prompts", nav="/prompts", css_class="plain")
    return render_page(meta, main)


def _find_prompts(
    context: RequestContext, text: str, project: str, *, sort: str, limit: int
) -> Sequence[_PromptUse]:
    """Return prompts, newest first or, if repeated, most used first."""
    query = context.parse_query(text) if text else None

    def load(archive: Archive) -> tuple[_PromptUse, ...]:
        return tuple(_repeated(archive.prompts(query, project=project or None)))

    if sort == "used":
        key = f"repeated prompts {project} {text}"
        return context.pool.cached(key, load)
    with context.pool.archive() as archive:
        prompts = archive.prompts(query, project=project or None)
        return [_PromptUse(prompt) for prompt in islice(prompts, limit)]


def _repeated(prompts: Iterator[IndexedPrompt]) -> Iterator[_PromptUse]:
    """Yield the newest of equal prompts that were used more than once."""
    newest: dict[str, IndexedPrompt] = {}
    counts: Counter[str] = Counter()
    for prompt in prompts:
        if prompt.is_text_cut:
            continue  # different prompts may start with the same words
        words = " ".join(prompt.text.split()).casefold()
        newest.setdefault(words, prompt)
        counts[words] += 1
    for words, count in counts.most_common():
        if count >= _MIN_USES:
            yield _PromptUse(newest[words], count)


def _form(
    text: str, project: str, sort: str, summaries: Sequence[SessionSummary]
) -> Html:
    projects = Counter(one.project_path for one in summaries if one.project_path)
    return Html(
        '<form class="filters" action="/prompts" data-live>'
        '<input type="search" name="q" placeholder="Words, or fields such as after:2w" '
        f'aria-label="Filter prompts" value="{escape(text)}">'
        f"{select_field('project', 'All projects', top_choices(projects), project)}"
        f"{select_field('sort', '', _SORTS, sort)}"
        '<button type="submit" class="hidden-with-script">Filter</button></form>'
    )


def _items(
    context: RequestContext,
    prompts: Sequence[_PromptUse],
    summaries: Mapping[SessionId, SessionSummary],
) -> Iterator[Html]:
    for use in prompts:
        prompt = use.prompt
        summary = summaries.get(prompt.session_id)
        project = short_path(summary.project or "") if summary else ""
        title = summary.title.text if summary else prompt.session_id
        facts = [
            time_tag(prompt.sent_at, context.now),
            escape_line(project),
            link(
                conversation_url(prompt.session_id, at=prompt.id),
                format_inline(escape_line(title or prompt.session_id)),
            ),
            escape_line(f"used {pluralize(use.uses, 'time')}")
            if use.uses > 1
            else EMPTY_HTML,
            escape_line("the rest could not be loaded")
            if prompt.is_text_cut
            else EMPTY_HTML,
            escape_line("abandoned branch") if prompt.is_abandoned else EMPTY_HTML,
            escape_line(f"session {prompt.other_session_id[:8]} in the same file")
            if prompt.other_session_id
            else EMPTY_HTML,
        ]
        yield tag(
            "li",
            join_html(
                (
                    _render_text(prompt.text.strip()),
                    _copy_button(prompt.text),
                    tag("p", join_html(facts, " · "), kind="note"),
                )
            ),
        )


def _render_text(text: str) -> Html:
    """Return a prompt; one that may need more room than it has is scrolled with keys."""
    is_long = len(text) > _MAX_SHORT_CHARS or text.count("\n") > _MAX_SHORT_LINES
    attributes = {"tabindex": "0", "role": "group", "aria_label": "Prompt"}
    return tag(
        "div",
        render_prompt(text),
        kind="prompt-text",
        **(attributes if is_long else {}),
    )


def _copy_button(text: str) -> Html:
    if len(text) > _MAX_COPIED_CHARS:
        return EMPTY_HTML
    return Html(
        '<button type="button" class="copy" title="Copy prompt" '
        f'aria-label="Copy prompt" data-copy="{escape(sanitize(text))}">'
        f"{icon('copy')}</button>"
    )
