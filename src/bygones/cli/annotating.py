"""What ``tag``, ``note`` and ``star`` have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from bygones.cli.naming import session_line
from bygones.cli.rows import AnnotationRow, BeginRow, print_row
from bygones.model.annotations import Annotations
from bygones.render.safe import safe_line

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bygones.cli.options import Asked
    from bygones.model.listing import Listed

__all__ = ["annotated", "show_annotations"]

_SHORT = 8


def annotated(
    asked: Asked,
    names: Sequence[str],
    change: Callable[[Annotations], Annotations] | None,
) -> Mapping[str, tuple[Listed, Annotations]]:
    """Change what sessions are annotated with, if asked to; return what it is."""
    with asked.current() as archive:
        found = [session_line(archive, name) for name in names]
        lines = {one.id: one for one in found}
        told = archive.annotate(lines, change) if change else archive.annotations()
    return {id_: (one, told.get(id_, Annotations())) for id_, one in lines.items()}


def show_annotations(
    command: str,
    asked: Asked,
    found: Mapping[str, tuple[Listed, Annotations]],
    *,
    as_json: bool,
) -> None:
    """Print sessions with what they are annotated with."""
    if as_json:
        print_row(BeginRow.of(command, asked.folder))
    for one, told in found.values():
        if as_json:
            row = AnnotationRow(
                session=one.id,
                tags=told.tags,
                note=told.note,
                is_starred=told.is_starred,
            )
            print_row(row)
        elif not asked.quiet:
            _show(one, told)


def _show(one: Listed, told: Annotations) -> None:
    star = "★ " if told.is_starred else ""
    tags = "".join(f" #{safe_line(tag)}" for tag in told.tags)
    title = safe_line(one.title.text)
    click.echo(f"{safe_line(one.id)[:_SHORT]}  {star}{title}{tags}")
    for line in told.note.splitlines():
        click.echo(f"{'':{_SHORT}}  {safe_line(line)}")
