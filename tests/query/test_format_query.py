"""A formatted query parses to the same tree."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import example, given, settings

from bygones.errors import QueryError
from bygones.model.query import Query, Term
from bygones.query.parser import MAX_LENGTH, apply_to_results, format_query
from tests.assemble.helpers import steps
from tests.query.parsing import read, tree
from tests.query.trees import query_texts, terms


def outcome(text: str) -> Query | QueryError:
    try:
        return read(text)
    except QueryError as error:
        return error


@given(terms)
@settings(max_examples=3 * settings().max_examples)
def test_formatted_tree_parses_to_itself(term: Term) -> None:
    # The parser lets fields of a call refer to its result beside is:error.
    assert tree(format_query(term)) == apply_to_results(term)


@given(query_texts)
@example('(((((-" - )))))')
@example("(a foo(")
@example("/a b/c /d")
@settings(max_examples=4 * settings().max_examples)
def test_formatting_any_query_is_stable(text: str) -> None:
    query = outcome(text)
    if isinstance(query, QueryError):
        assert query.text
        return

    written = format_query(query.root)
    assert tree(written) == query.root
    assert format_query(tree(written)) == written
    for note in query.notes:
        assert text[note.offset : note.offset + note.length]


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("", ""),
        ("project:x  fix   bug", "fix bug project:x"),
        ("tool:(Bash OR Edit)", "tool:Bash OR tool:Edit"),
        ("(a b) OR c", "(a b) OR c"),
        ("a AND (b OR c)", "a b OR c"),
        ("-(a OR b)", "-(a OR b)"),
        ("-(--force)", "-\\--force"),
        ("-(--x:y)", "-\\--x:y"),
        ("a - b - c -(/d/)", "a - b - c -(/d/)"),
        ("(f( ) OR (x g( )", "f( OR (x g( )"),
        ("\\OR \\/a/ \\-x -> --y", "\\OR \\/a/ \\-x -> --y"),
        ("/usr/bin /", "/usr/bin /"),
        ('file:"a b" file:"(x" file:\\"y', 'file:"a b" file:"(x" file:\\"y'),
        ("cmd:\\\\x", "cmd:\\\\x"),
        ("after:yesterday", "after:2025-12-09T00:00:00Z"),
        ("before:2025", "before:2025-01-01T00:00:00Z"),
        ("on:today", "on:2025-12-10T00:00:00Z..2025-12-11T00:00:00Z"),
    ],
)
def test_query_is_formatted_without_needless_quotes(text: str, written: str) -> None:
    assert format_query(tree(text)) == written


HARD = (
    *("( ", "-( ", "(a", ") ", '" ', '"a', '""', "/x ", "/[", "/a /\\", "a\\/ /"),
    *("\\", "-", "* ", "f(", "a:b ", "abcdefghij:b ", "OR ", "a OR ", "AND ", "🎉 "),
    *("title:(a ", "on:last week ", "x* ", "((a) ", "\n", "NOT ", "is:error "),
)


def read_and_written(text: str) -> None:
    with suppress(QueryError):
        format_query(read(text).root)


@pytest.mark.parametrize("unit", HARD)
def test_parsing_takes_linear_time(unit: str) -> None:
    times = MAX_LENGTH // len(unit) // 5

    few = steps(lambda: read_and_written(unit * times))
    many = steps(lambda: read_and_written(unit * times * 5))

    assert many < 6 * few
