"""The page of the query language, from its one table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from bygones.query.fields import (
    FIELDS,
    SYNTAX_FORMS,
    TIME_FORMS,
    QueryField,
    SyntaxForm,
)
from bygones.query.parser import MAX_DEPTH, MAX_LENGTH

__all__ = ["query_page"]

_INTRODUCTION = """\
# Queries

What is typed is looked for in what was said: in prompts, answers, thinking, calls,
results and titles. Ids, branches, directories and times never match a word; they have
fields. Upper and lower case are the same everywhere, except in `OR`.
"""
_READING = f"""\
## How a query is read

- Phrases, fields and what is excluded must all hold. Of plain words one must be there;
  sessions that have more of them are better, and up to three words come first.
- `OR` joins the two things beside it and nothing further: `a b OR c` is `a (b OR c)`.
- What is pasted is read as words where it can be: a quotation mark or parenthesis
  without its other half, `std::vector`, `http://example.org`, `--flag`, a name before a
  colon that is no field. A note says so where something else may have been meant. Among
  more than five words a letter behind a dash, as in `git push -u`, is a word too.
- A parenthesis or a quotation mark inside a word is part of the word, as in `main()`.
- A regular expression stands between slashes, with a space or nothing behind it; a path
  has slashes inside and is a word. It cannot look ahead or behind, nor refer back.
- A value that a field cannot have, a time that is none, a field without a value and a
  wrong regular expression are errors, and the place is pointed at.
- A query has at most {MAX_LENGTH:,} characters, and groups stand at most {MAX_DEPTH}
  deep.
"""
_COMPARING = """\
How a value is compared: *words* are searched like other text; *part of it* is any piece
of the whole, and with `*` it is whole parts of a path up to its end (`*.py`, `src/*`);
a *name* is the whole of it, and with `*` what fits.
"""
_TIMES = """\
`before:` means before the beginning of what is named, `after:` since then, `on:` within
it. Days begin at midnight where the reader is, weeks on Monday.
"""


def query_page() -> str:
    """Return the page: forms, how they are read, fields and times."""
    return "\n".join(
        [
            _INTRODUCTION,
            "## What to type\n",
            *_table(SYNTAX_FORMS),
            "",
            _READING,
            "## Fields\n",
            "| field | meaning | value | example |",
            "|---|---|---|---|",
            *map(_row, FIELDS),
            "",
            _COMPARING,
            "## Times\n",
            *_table(TIME_FORMS),
            "",
            _TIMES,
        ]
    )


def _table(forms: Iterable[SyntaxForm]) -> Iterator[str]:
    yield "| form | meaning | example |"
    yield "|---|---|---|"
    for form in forms:
        yield f"| {_code(form.syntax)} | {form.meaning} | {_code(form.example)} |"


def _row(field: QueryField) -> str:
    value = ", ".join(map(_code, field.choices)) or field.value_type.value
    name, example = _code(f"{field.name}:"), _code(field.example)
    return f"| {name} | {field.meaning} | {value} | {example} |"


def _code(text: str) -> str:
    # A bar ends a cell even in code, unless a backslash stands before it.
    return f"`{text}`".replace("|", "\\|")
