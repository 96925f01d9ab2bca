"""Parsing queries."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bygones.errors import (
    InvalidFieldValue,
    InvalidRegex,
    InvalidTime,
    MissingFieldValue,
    QueryError,
    QueryTooDeep,
    QueryTooLong,
)
from bygones.model.query import (
    And,
    FieldTerm,
    FieldValue,
    Not,
    Or,
    Phrase,
    Prefix,
    QueryNoteKind,
    Regex,
    Term,
    TimeRange,
    Word,
    Words,
)
from bygones.query.fields import (
    FIELDS,
    FIELDS_BY_NAME,
    SYNTAX_FORMS,
    TIME_FORMS,
    FieldType,
    QueryField,
)
from bygones.query.parser import MAX_DEPTH, MAX_LENGTH
from bygones.query.regex import check_regex, compile_regex
from tests.query.parsing import read, remarks, tree


def w(*words: str) -> Words:
    return Words(words)


TREES: list[tuple[str, Term | None]] = [
    ("", None),
    ("  \n ", None),
    ("()", None),
    ("word", w("word")),
    ("fix the  flaky test", w("fix", "the", "flaky", "test")),
    ('"a  phrase"', Phrase("a phrase")),
    ("“curly marks”", Phrase("curly marks")),
    ('"a"b', And((w("b"), Phrase("a")))),
    ("begin*", Prefix("begin")),
    ("--fl* /usr* 日本*", And((Prefix("fl"), Prefix("usr"), Prefix("日本")))),
    ("-not", Not(w("not"))),
    ('-"a b"', Not(Phrase("a b"))),
    ("-(a b)", Not(w("a", "b"))),
    ("-(-a)", w("a")),
    ("-tool:Bash", Not(FieldValue("tool", "Bash"))),
    ("-/x+/", Not(Regex("x+"))),
    ("-/->/", Not(Regex("->"))),
    ("-begin*", Not(Prefix("begin"))),
    ("-🎉", Not(w("🎉"))),
    ("-OR", Not(w("OR"))),
    ("a OR b", Or((w("a"), w("b")))),
    ("a OR b OR c", Or((w("a"), w("b"), w("c")))),
    ("a OR (b OR c)", Or((w("a"), w("b"), w("c")))),
    ("a OR ()", w("a")),
    ("a b OR c d", And((w("a", "d"), Or((w("b"), w("c")))))),
    ("(a b) OR c", Or((w("a", "b"), w("c")))),
    ("a OR -b", Or((w("a"), Not(w("b"))))),
    ("a AND b", w("a", "b")),
    ("a or b | c", w("a", "or", "b", "|", "c")),
    ("a (b (c))", w("a", "b", "c")),
    ("/a.*b/", Regex("a.*b")),
    ("/two words/ x", And((w("x"), Regex("two words")))),
    (r"(/a\/b/)", Regex(r"a\/b")),
    ("fix project:x bug", And((w("fix", "bug"), FieldValue("project", "x")))),
    ('project:"my notes"', FieldValue("project", "my notes")),
    ("file:*.py", FieldValue("file", "*.py")),
    ("file:/usr/lib/", FieldValue("file", "/usr/lib/")),
    (r"file:C:\x", FieldValue("file", r"C:\x")),
    ("tool:mcp__*", FieldValue("tool", "mcp__*")),
    ("tool:a is:error", And((FieldValue("result-of", "a"), FieldValue("is", "error")))),
    (
        "in:result -tool:a",
        And((FieldValue("in", "result"), Not(FieldValue("result-of", "a")))),
    ),
    ("tool:a OR is:error", Or((FieldValue("tool", "a"), FieldValue("is", "error")))),
    ("agent:*", FieldValue("agent", "*")),
    ("tool:-x", FieldValue("tool", "-x")),
    ("tool:(a OR b)", Or((FieldValue("tool", "a"), FieldValue("tool", "b")))),
    ("tool:(a -b)", And((FieldValue("tool", "a"), Not(FieldValue("tool", "b"))))),
    ("tool:(/a/ is:b)", And((FieldValue("tool", "/a/"), FieldValue("tool", "is:b")))),
    (
        "-is:(error agent)",
        Not(And((FieldValue("is", "error"), FieldValue("is", "agent")))),
    ),
    ("is:ERROR", FieldValue("is", "error")),
    ("title:fix", FieldTerm("title", Word("fix"))),
    ('title:"fix it"', FieldTerm("title", Phrase("fix it"))),
    ("cmd:reb*", FieldTerm("cmd", Prefix("reb"))),
    (
        'title:((a) OR "b c")',
        Or((FieldTerm("title", Word("a")), FieldTerm("title", Phrase("b c")))),
    ),
    ("after:2025-12-01", TimeRange(start=datetime(2025, 12, 1, tzinfo=UTC))),
    ("before:last-month", TimeRange(end=datetime(2025, 11, 1, tzinfo=UTC))),
    (
        "after:last week x",
        And((w("x"), TimeRange(start=datetime(2025, 12, 1, tzinfo=UTC)))),
    ),
    ("\\OR", w("OR")),
    ("\\-a \\is:b \\", w("-a", "is:b", "\\")),
    ("title:\\-a", FieldTerm("title", Word("-a"))),
]


@pytest.mark.parametrize(("text", "expected"), TREES, ids=[text for text, _ in TREES])
def test_text_parses_to_its_tree(text: str, expected: Term | None) -> None:
    query = read(text)

    assert query.root == expected
    assert query.notes == ()


PASTED: list[tuple[str, Term | None, list[tuple[QueryNoteKind, str]]]] = [
    ('"open mark', w("open", "mark"), [(QueryNoteKind.UNMATCHED_QUOTE, '"')]),
    ('"', None, [(QueryNoteKind.UNMATCHED_QUOTE, '"')]),
    ('a ""', w("a"), [(QueryNoteKind.EMPTY_QUOTES, '""')]),
    ('-"" a', w("a"), [(QueryNoteKind.EMPTY_QUOTES, '""')]),
    ("(a", w("a"), [(QueryNoteKind.UNMATCHED_PARENTHESIS, "(")]),
    ("a)) b", w("a", "b"), [(QueryNoteKind.UNMATCHED_PARENTHESIS, ")")]),
    ("-( a", Not(w("a")), [(QueryNoteKind.UNMATCHED_PARENTHESIS, "(")]),
    ("-(", None, [(QueryNoteKind.UNMATCHED_PARENTHESIS, "(")]),
    (
        '-" -',
        None,
        [(QueryNoteKind.UNMATCHED_QUOTE, '"'), (QueryNoteKind.DANGLING_OPERATOR, "-")],
    ),
    ("tool:( x", FieldValue("tool", "x"), [(QueryNoteKind.UNMATCHED_PARENTHESIS, "(")]),
    ("f(a, b)", w("f(a,", "b"), [(QueryNoteKind.UNMATCHED_PARENTHESIS, ")")]),
    ("main() f(x).y", w("main()", "f(x).y"), []),
    ("std::vector", w("std::vector"), []),
    (r"C:\path", w(r"C:\path"), []),
    ("http://x/y", w("http://x/y"), []),
    ("file:///etc", w("file:///etc"), []),
    ("model::User", w("model::User"), []),
    ("a:b", w("a:b"), [(QueryNoteKind.UNKNOWN_FIELD, "a:")]),
    (
        "x project: y",
        w("x", "project:", "y"),
        [(QueryNoteKind.SPACED_FIELD, "project:")],
    ),
    (
        "which tool: all lines in this file:",
        w(*["which", "tool:", "all", "lines", "in", "this", "file:"]),
        [],
    ),
    (
        "tar: -u as an option of tar",
        w(*["tar:", "-u", "as", "an", "option", "of", "tar"]),
        [],
    ),
    (
        "ls -la x | tail -23 -rw-r--r-- 1",
        w(*["ls", "-la", "x", "|", "tail", "-23", "-rw-r--r--", "1"]),
        [],
    ),
    (
        "a b c d e -f* -\\23 -tool:Bash -red",
        And(
            (
                w("a", "b", "c", "d", "e"),
                Not(Prefix("f")),
                Not(w("23")),
                Not(FieldValue("tool", "Bash")),
                Not(w("red")),
            )
        ),
        [],
    ),
    ("tail -23", And((w("tail"), Not(w("23")))), []),
    ("tar -u", And((w("tar"), Not(w("u")))), []),
    ("Error: no", w("Error:", "no"), []),
    ("a.py:3: E501 so it is x:y", w("a.py:3:", "E501", "so", "it", "is", "x:y"), []),
    ("a - b", w("a", "-", "b"), [(QueryNoteKind.DANGLING_OPERATOR, "-")]),
    ("a -> b", w("a", "->", "b"), []),
    ("rm --force", w("rm", "--force"), []),
    ("*", w("*"), [(QueryNoteKind.MISPLACED_STAR, "*")]),
    ("a*b", w("a*b"), [(QueryNoteKind.MISPLACED_STAR, "*")]),
    ("**bold**", w("**bold**"), [(QueryNoteKind.MISPLACED_STAR, "*")]),
    ("/tool:x*", w("/tool:x*"), [(QueryNoteKind.MISPLACED_STAR, "*")]),
    ("&(x)y*", w("&(x)y*"), [(QueryNoteKind.MISPLACED_STAR, "*")]),
    ("AND", w("AND"), [(QueryNoteKind.DANGLING_OPERATOR, "AND")]),
    ("OR a", w("OR", "a"), [(QueryNoteKind.DANGLING_OPERATOR, "OR")]),
    ("(a OR) b", w("a", "OR", "b"), [(QueryNoteKind.DANGLING_OPERATOR, "OR")]),
    ("NOT a", w("NOT", "a"), [(QueryNoteKind.DANGLING_OPERATOR, "NOT")]),
    ("/usr/bin/env x/", w("/usr/bin/env", "x/"), []),
    ("a / b / c", w("a", "/", "b", "/", "c"), []),
    (
        "/* a comment */",
        w("/*", "a", "comment", "*/"),
        [(QueryNoteKind.MISPLACED_STAR, "*")],
    ),
    ('{"a":"b"}', w('{"a":"b"}'), []),
    (
        "a AND b OR c",
        And((w("a"), Or((w("b"), w("c"))))),
        [(QueryNoteKind.MIXED_OPERATORS, "OR")],
    ),
    ("(a AND b) OR c", Or((w("a", "b"), w("c"))), []),
]


@pytest.mark.parametrize(
    ("text", "expected", "notes"), PASTED, ids=[text for text, _, _ in PASTED]
)
def test_pasted_text_is_read_as_words_with_a_note(
    text: str, expected: Term | None, notes: list[tuple[QueryNoteKind, str]]
) -> None:
    assert tree(text) == expected
    assert remarks(text) == notes


@pytest.mark.parametrize(
    ("text", "suggestion"),
    [
        ("porject:x", "project:"),
        ("Project:x", "project:"),
        ("path:x", "file:"),
        ("since:2d", "after:"),
        ("zzz:x", ""),
    ],
)
def test_name_close_to_a_field_suggests_it(text: str, suggestion: str) -> None:
    (note,) = read(text).notes

    assert note.suggestion == suggestion
    assert suggestion in note.message


def test_notes_are_limited_unique_and_sorted() -> None:
    names = "porject projct toool fiel fille modell brnch titel sesion befor aftr rol"
    notes = read(" ".join(f"{name}:b - *" for name in names.split())).notes

    assert len(notes) == 10
    assert len({note.message for note in notes}) == 10
    assert [note.offset for note in notes] == sorted(note.offset for note in notes)


def test_plain_words_are_separate_from_conditions() -> None:
    query = read("why does tool:Bash the -docker build fail")

    assert query.plain_words == ("why", "does", "the", "build", "fail")
    assert query.conditions == (FieldValue("tool", "Bash"), Not(w("docker")))


@pytest.mark.parametrize(
    ("text", "sentence", "conditions"),
    [
        ("", (), ()),
        ("a b", ("a", "b"), ()),
        ("tool:x", (), (FieldValue("tool", "x"),)),
        ('"a" b*', (), (Phrase("a"), Prefix("b"))),
    ],
)
def test_query_may_lack_words_or_conditions(
    text: str, sentence: tuple[str, ...], conditions: tuple[Term, ...]
) -> None:
    query = read(text)

    assert (query.plain_words, query.conditions) == (sentence, conditions)


EXAMPLES = [row.example for row in (*SYNTAX_FORMS, *FIELDS, *TIME_FORMS)]


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_example_of_the_tables_is_valid(example: str) -> None:
    query = read(example)

    assert query.root is not None
    assert query.notes == ()


@pytest.mark.parametrize("field", FIELDS, ids=lambda field: field.name)
def test_example_of_a_field_uses_it(field: QueryField) -> None:
    assert f"{field.name}:" in field.example
    assert bool(field.choices) == (field.value_type is FieldType.CHOICE)
    assert field.fallback_field in {"", *FIELDS_BY_NAME}


def test_field_names_are_unique() -> None:
    names = [name for field in FIELDS for name in (field.name, *field.mistaken_names)]

    assert len(names) == len(set(names))


MISTAKES: list[tuple[str, type[QueryError], str]] = [
    ("a is:wrong b", InvalidFieldValue, "wrong"),
    ("is:(error OR worng)", InvalidFieldValue, "worng"),
    ("is:error|agent", InvalidFieldValue, "error|agent"),
    ("branch:main", InvalidFieldValue, "main"),
    ("x before:soon", InvalidTime, "soon"),
    ("on:2025-13", InvalidTime, "2025-13"),
    ("on:(today OR never)", InvalidTime, "never"),
    ('on:"next week" x', InvalidTime, '"next week"'),
    ("x project:", MissingFieldValue, "project:"),
    ("(x project:)", MissingFieldValue, "project:"),
    ('project:"" y', MissingFieldValue, "project:"),
    ('project:" "', MissingFieldValue, "project:"),
    ("project:()", MissingFieldValue, "project:"),
    ('x project:("")', MissingFieldValue, "project:"),
    ('project:"', MissingFieldValue, "project:"),
    ("project:(", MissingFieldValue, "project:"),
    ("a /b(c/", InvalidRegex, "("),
    ("/[z-a]/", InvalidRegex, "z"),
    (r"/(a)\1/", InvalidRegex, r"\1"),
    ("/(?=a)/", InvalidRegex, "(?="),
    ("/(?<!a)b/", InvalidRegex, "(?<!"),
    ("/(?P<n>a)(?P=n)/", InvalidRegex, "(?P="),
    ("/(?>a)/", InvalidRegex, "(?>"),
    ("/a++/", InvalidRegex, "++"),
    ("/a{2}+/", InvalidRegex, "{2}+"),
    ("/a{1001}/", InvalidRegex, "{1001}"),
    ("/a{1,99999}/", InvalidRegex, "{1,99999}"),
]


@pytest.mark.parametrize(
    ("text", "error", "found"), MISTAKES, ids=[text for text, _, _ in MISTAKES]
)
def test_errors_have_a_position(text: str, error: type[QueryError], found: str) -> None:
    with pytest.raises(QueryError) as raised:
        read(text)

    assert type(raised.value) is error
    assert raised.value.text == found
    shown, marks = raised.value.marked_excerpt.split("\n")
    assert shown[marks.index("^") : len(marks)] == found


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("is:eror", "is:error"),
        ("is:image", "has:image"),
        ("branch:main", "git:main"),
        ("role:x", ""),
    ],
)
def test_unknown_value_suggests_a_known_one(text: str, meant: str) -> None:
    with pytest.raises(InvalidFieldValue) as raised:
        read(text)

    assert raised.value.suggestion == meant
    assert meant in str(raised.value)


@pytest.mark.parametrize(
    "pattern",
    ["(a+)+$", "(a|aa)+$", "(?:a*b*)*c", "(?:x.*){30}", ".*.*.*x", "(a?){50}"],
)
def test_catastrophic_regular_expression_is_rejected(pattern: str) -> None:
    with pytest.raises(InvalidRegex, match="unlimited time"):
        read(f"/{pattern}/")


@pytest.mark.parametrize(
    "pattern", ["(a|b)+c", "(foo|bar)*", "a.*b.*c", r"(\w\.){3}", "(?:ab)+", "a?b?c?d?"]
)
def test_linear_regular_expression_is_accepted(pattern: str) -> None:
    assert read(f"/{pattern}/").root == Regex(pattern)


@pytest.mark.parametrize("pattern", ["()" * 51, "a" * 1001])
def test_regular_expression_has_a_maximum_size(pattern: str) -> None:
    with pytest.raises(InvalidRegex):
        read(f"/{pattern}/")


@pytest.mark.parametrize("pattern", ["[[a]", r"[\]1]\d\.", "(?i)a", "a{2,}", "[(?=]"])
def test_escaped_syntax_in_a_regular_expression_is_accepted(pattern: str) -> None:
    assert tree(f"/{pattern}/") == Regex(pattern)


@given(st.text("ab1()[]{}?*+|\\\\^$.,-:<=!>#Pidx&~é", min_size=1, max_size=12))
@settings(max_examples=4 * settings().max_examples)
def test_any_regular_expression_is_accepted_or_rejected_with_a_position(
    pattern: str,
) -> None:
    fault = check_regex(pattern)

    if fault is None:
        compile_regex(pattern)
    else:
        assert pattern[fault.start : fault.start + fault.length]


def test_query_has_a_maximum_length() -> None:
    assert len(read("ab " * (MAX_LENGTH // 3)).plain_words) == MAX_LENGTH // 3

    with pytest.raises(QueryTooLong) as raised:
        read("a" * (MAX_LENGTH + 1))
    assert (raised.value.span.offset, raised.value.span.length) == (MAX_LENGTH, 1)


def test_groups_have_a_maximum_depth() -> None:
    assert tree("(" * MAX_DEPTH + "a" + ")" * MAX_DEPTH) == w("a")

    with pytest.raises(QueryTooDeep) as raised:
        read("(" * (MAX_DEPTH + 1) + "a" + ")" * (MAX_DEPTH + 1))
    assert raised.value.span.offset == MAX_DEPTH
