"""What the query language can do, told from its table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import wrap

from msgspec import Struct

from bygones.query.fields import FIELDS, FORMS, TIMES, Field

__all__ = ["Hint", "help_text", "hints"]

_MARGIN = 2


class Hint(Struct, frozen=True):
    """Something that can be typed into a query."""

    insert: str
    """What to put into the query; a value is still to come behind a colon."""
    meaning: str
    example: str
    choices: tuple[str, ...] = ()
    """All values that there are, for a field that has only a few."""


def hints() -> tuple[Hint, ...]:
    """Return the forms, then the fields, in the table's order."""
    forms = [Hint(form.form, form.meaning, form.example) for form in FORMS]
    fields = [
        Hint(f"{field.name}:", field.meaning, field.example, field.choices)
        for field in FIELDS
    ]
    return (*forms, *fields)


def help_text(width: int = 80) -> str:
    """Return the whole language on a page of this many columns."""
    forms = [(form.form, form.meaning, form.example) for form in FORMS]
    fields = [(f"{field.name}:", _meaning(field), field.example) for field in FIELDS]
    times = [(form.form, form.meaning, form.example) for form in TIMES]
    return "\n".join(
        [
            *_section("What to type", forms, width),
            *_section("Fields", fields, width),
            *_section("Times, for before: after: on:", times, width),
        ]
    )


def _meaning(field: Field) -> str:
    choices = f": {', '.join(field.choices)}" if field.choices else ""
    return field.meaning + choices


def _section(
    title: str, rows: Sequence[tuple[str, str, str]], width: int
) -> Iterator[str]:
    yield f"{title}\n"
    column = max(len(name) for name, _, _ in rows) + 2 * _MARGIN
    room = max(width - column, 20)
    for name, meaning, example in rows:
        first, *more = (*wrap(meaning, room), *wrap(f"e.g. {example}", room))
        yield f"{' ' * _MARGIN}{name}".ljust(column) + first
        for line in more:
            yield " " * column + line
    yield ""
