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

Words are searched in prompts, replies, thinking, tool calls, tool results and titles.
Ids, branches, directories and times are not text; use fields for them. Case is ignored
everywhere except in `OR`.
"""
_READING = f"""\
## How a query is interpreted

- Phrases, fields and exclusions must all match. Of the plain words, at least one must
  match; sessions that match more rank higher, and with up to three words they come first.
- `OR` joins only the terms next to it: `a b OR c` means `a (b OR c)`.
- Pasted text is searched as words where possible: an unbalanced quotation mark or
  parenthesis, `std::vector`, `http://example.org`, `--flag`, a name before a colon that
  is not a field, a field with a space after the colon. If you may have meant something
  else, a note says so. In a query of more than five words, a dash only excludes words that
  start with three letters, prefixes, quoted text, groups and fields: `-u`, `-23` and
  `-rw-r--r--` are words too. `-\\23` excludes the text 23 there.
- A parenthesis or quotation mark inside a word is part of the word, as in `main()`.
- A regular expression is between slashes, followed by a space or the end of the query. A
  path contains slashes and is a word. Lookaround and backreferences are not supported.
- An invalid value or time, a field without a value and an invalid regular expression are
  errors; the message says at which character.
- A query has at most {MAX_LENGTH:,} characters, and groups are nested at most
  {MAX_DEPTH} deep.
"""
_COMPARING = """\
How values are compared: *words* are searched like other text. *part of it* matches any
part of the value; with `*` it matches whole path components up to the end (`*.py`,
`src/*`). A *name* must match completely, unless it contains `*`.
"""
_TIMES = """\
`before:` means before the start of the given period, `after:` since its start, `on:`
within it. Days start at midnight local time, weeks on Monday.
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
