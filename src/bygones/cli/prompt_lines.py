"""Prompts: which of them a query wants, and how they are set."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bygones.cli.rows import TypedRow
from bygones.cli.terminal import fit_right
from bygones.model.parts import Role
from bygones.model.query import Part, Query
from bygones.query import Subject, matches
from bygones.render.safe import safe, safe_line
from bygones.render.widths import wrap

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from bygones.archive import Archive
    from bygones.cli.screen import Screen
    from bygones.model.finds import FoundPrompt
    from bygones.model.ids import SessionId
    from bygones.model.listing import Listed

__all__ = ["found_prompts", "prompt_lines", "typed_row"]


def found_prompts(
    archive: Archive, lines: Mapping[SessionId, Listed], wanted: Query
) -> Iterator[FoundPrompt]:
    """Yield the prompts of some sessions that a query wants, newest first."""
    found = (one for one in archive.prompts() if one.session in lines)
    if wanted.root is None:
        yield from found
        return
    from bygones.store.search import stem_of  # noqa: PLC0415 (brings the engine)
    from bygones.store.words import terms_of  # noqa: PLC0415

    for prompt in found:
        if matches(wanted, _subject(prompt, lines[prompt.session]), terms_of, stem_of):
            yield prompt


def _subject(prompt: FoundPrompt, line: Listed) -> Subject:
    return Subject(
        session=prompt.session,
        project=line.project,
        title=line.title.text,
        models=line.models,
        git_branches=line.git_branches,
        entrypoints=line.entrypoints,
        tags=line.tags,
        started=line.started,
        role=Role.USER,
        part=Part.PROMPT,
        is_rewound=prompt.branch != 0,
        time=prompt.time,
        text=prompt.text,
    )


def typed_row(prompt: FoundPrompt, line: Listed) -> TypedRow:
    """Return a prompt as programs get it."""
    return TypedRow(
        id=prompt.id,
        session=prompt.session,
        project=line.project,
        time=prompt.time,
        branch=prompt.branch,
        text=prompt.text,
    )


def prompt_lines(
    prompt: FoundPrompt, screen: Screen, *, full: bool, times: int = 0
) -> Iterator[str]:
    """Yield a prompt whole, or its beginning on one line; times take so much."""
    name = safe_line(prompt.session)[:8]
    left = "  (rewound)" if prompt.branch else ""
    when = screen.when(prompt.time).ljust(0 if full else times)
    head = f"{screen.paint.place(name)}  {when}{left}"
    if full:
        yield screen.paint.faint(head) if not screen.paint.coloured else head
        for line in safe(prompt.text).splitlines():
            room = screen.room - 2 if screen.room else None
            yield from (f"  {part}" for part in (wrap(line, room) if room else [line]))
        yield ""
        return
    text = safe_line(prompt.text)
    if screen.room is not None:
        plain_head = f"{name}  {when}{left}  "
        text = fit_right(text, max(screen.room - len(plain_head), 20))
    yield f"{head}  {text}"
