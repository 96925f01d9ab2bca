"""Prompts: which of them a query wants, and how they are set."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recollect.cli.rows import TypedRow
from recollect.cli.terminal import fit_right
from recollect.model.parts import Role
from recollect.model.query import Part, Query
from recollect.query import Subject, matches
from recollect.render.safe import safe, safe_line
from recollect.render.widths import wrap

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from recollect.archive import Archive
    from recollect.cli.screen import Screen
    from recollect.model.finds import FoundPrompt
    from recollect.model.ids import SessionId
    from recollect.model.listing import Listed

__all__ = ["found_prompts", "prompt_lines", "typed_row"]


def found_prompts(
    archive: Archive, lines: Mapping[SessionId, Listed], wanted: Query
) -> Iterator[FoundPrompt]:
    """Yield the prompts that a query wants, newest first."""
    if wanted.root is None:
        yield from archive.prompts()
        return
    from recollect.store.search import stem_of  # noqa: PLC0415 (brings the engine)
    from recollect.store.words import terms_of  # noqa: PLC0415

    for prompt in archive.prompts():
        subject = _subject(prompt, lines.get(prompt.session))
        if matches(wanted, subject, terms_of, stem_of):
            yield prompt


def _subject(prompt: FoundPrompt, line: Listed | None) -> Subject:
    return Subject(
        session=prompt.session,
        project=line.project if line else None,
        title=line.title.text if line else "",
        models=line.models if line else (),
        git_branches=line.git_branches if line else (),
        entrypoints=line.entrypoints if line else (),
        tags=line.tags if line else (),
        started=line.started if line else None,
        role=Role.USER,
        part=Part.PROMPT,
        is_rewound=prompt.branch != 0,
        time=prompt.time,
        text=prompt.text,
    )


def typed_row(prompt: FoundPrompt, line: Listed | None) -> TypedRow:
    """Return a prompt as programs get it."""
    return TypedRow(
        id=prompt.id,
        session=prompt.session,
        project=line.project if line else None,
        time=prompt.time,
        branch=prompt.branch,
        text=prompt.text,
    )


def prompt_lines(prompt: FoundPrompt, screen: Screen, *, full: bool) -> Iterator[str]:
    """Yield a prompt whole, or its beginning on one line."""
    name = safe_line(prompt.session)[:8]
    left = "  (rewound)" if prompt.branch else ""
    head = f"{screen.paint.place(name)}  {screen.when(prompt.time)}{left}"
    if full:
        yield screen.paint.faint(head) if not screen.paint.coloured else head
        for line in safe(prompt.text).splitlines():
            room = screen.room - 2 if screen.room else None
            yield from (f"  {part}" for part in (wrap(line, room) if room else [line]))
        yield ""
        return
    text = safe_line(prompt.text)
    if screen.room is not None:
        plain_head = f"{name}  {screen.when(prompt.time)}{left}  "
        text = fit_right(text, max(screen.room - len(plain_head), 20))
    yield f"{head}  {text}"
