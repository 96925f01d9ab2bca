"""Text to tree: what each way of writing means."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bygones.errors import (
    FieldEmpty,
    QueryError,
    QueryTooDeep,
    QueryTooLong,
    RegexRefused,
    TimeUnreadable,
    ValueUnknown,
)
from bygones.model.query import (
    And,
    Fact,
    Not,
    NoteKind,
    Or,
    Period,
    Phrase,
    Prefix,
    Regex,
    Scoped,
    Term,
    Word,
    Words,
)
from bygones.query import (
    BY_NAME,
    FIELDS,
    FORMS,
    MAX_DEPTH,
    MAX_LENGTH,
    TIMES,
    Field,
    Value,
)
from bygones.query.regexes import fault_of, searcher
from tests.query.reading import read, remarks, tree


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
    ("-tool:Bash", Not(Fact("tool", "Bash"))),
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
    ("fix project:x bug", And((w("fix", "bug"), Fact("project", "x")))),
    ('project:"my notes"', Fact("project", "my notes")),
    ("file:*.py", Fact("file", "*.py")),
    ("file:/usr/lib/", Fact("file", "/usr/lib/")),
    (r"file:C:\x", Fact("file", r"C:\x")),
    ("tool:mcp__*", Fact("tool", "mcp__*")),
    ("tool:a is:error", And((Fact("answers", "a"), Fact("is", "error")))),
    ("in:result -tool:a", And((Fact("in", "result"), Not(Fact("answers", "a"))))),
    ("tool:a OR is:error", Or((Fact("tool", "a"), Fact("is", "error")))),
    ("agent:*", Fact("agent", "*")),
    ("tool:-x", Fact("tool", "-x")),
    ("tool:(a OR b)", Or((Fact("tool", "a"), Fact("tool", "b")))),
    ("tool:(a -b)", And((Fact("tool", "a"), Not(Fact("tool", "b"))))),
    ("tool:(/a/ is:b)", And((Fact("tool", "/a/"), Fact("tool", "is:b")))),
    ("-is:(error agent)", Not(And((Fact("is", "error"), Fact("is", "agent"))))),
    ("is:ERROR", Fact("is", "error")),
    ("title:fix", Scoped("title", Word("fix"))),
    ('title:"fix it"', Scoped("title", Phrase("fix it"))),
    ("cmd:reb*", Scoped("cmd", Prefix("reb"))),
    (
        'title:((a) OR "b c")',
        Or((Scoped("title", Word("a")), Scoped("title", Phrase("b c")))),
    ),
    ("after:2025-12-01", Period(start=datetime(2025, 12, 1, tzinfo=UTC))),
    ("before:last-month", Period(end=datetime(2025, 11, 1, tzinfo=UTC))),
    (
        "after:last week x",
        And((w("x"), Period(start=datetime(2025, 12, 1, tzinfo=UTC)))),
    ),
    ("\\OR", w("OR")),
    ("\\-a \\is:b \\", w("-a", "is:b", "\\")),
    ("title:\\-a", Scoped("title", Word("-a"))),
]


@pytest.mark.parametrize(("text", "expected"), TREES, ids=[text for text, _ in TREES])
def test_a_text_means_its_tree(text: str, expected: Term | None) -> None:
    query = read(text)

    assert query.root == expected
    assert query.notes == ()


PASTED: list[tuple[str, Term | None, list[tuple[NoteKind, str]]]] = [
    ('"open mark', w("open", "mark"), [(NoteKind.QUOTE, '"')]),
    ('"', None, [(NoteKind.QUOTE, '"')]),
    ('a ""', w("a"), [(NoteKind.EMPTY, '""')]),
    ('-"" a', w("a"), [(NoteKind.EMPTY, '""')]),
    ("(a", w("a"), [(NoteKind.PARENTHESIS, "(")]),
    ("a)) b", w("a", "b"), [(NoteKind.PARENTHESIS, ")")]),
    ("-( a", Not(w("a")), [(NoteKind.PARENTHESIS, "(")]),
    ("-(", None, [(NoteKind.PARENTHESIS, "(")]),
    ('-" -', None, [(NoteKind.QUOTE, '"'), (NoteKind.OPERATOR, "-")]),
    ("tool:( x", Fact("tool", "x"), [(NoteKind.PARENTHESIS, "(")]),
    ("f(a, b)", w("f(a,", "b"), [(NoteKind.PARENTHESIS, ")")]),
    ("main() f(x).y", w("main()", "f(x).y"), []),
    ("std::vector", w("std::vector"), []),
    (r"C:\path", w(r"C:\path"), []),
    ("http://x/y", w("http://x/y"), []),
    ("file:///etc", w("file:///etc"), []),
    ("model::User", w("model::User"), []),
    ("a:b", w("a:b"), [(NoteKind.NO_FIELD, "a:")]),
    (
        "tar: -u as an option of tar",
        w(*["tar:", "-u", "as", "an", "option", "of", "tar"]),
        [],
    ),
    ("tar -u", And((w("tar"), Not(w("u")))), []),
    ("Error: no", w("Error:", "no"), []),
    ("a.py:3: E501 so it is x:y", w("a.py:3:", "E501", "so", "it", "is", "x:y"), []),
    ("a - b", w("a", "-", "b"), [(NoteKind.OPERATOR, "-")]),
    ("a -> b", w("a", "->", "b"), []),
    ("rm --force", w("rm", "--force"), []),
    ("*", w("*"), [(NoteKind.STAR, "*")]),
    ("a*b", w("a*b"), [(NoteKind.STAR, "*")]),
    ("**bold**", w("**bold**"), [(NoteKind.STAR, "*")]),
    ("/tool:x*", w("/tool:x*"), [(NoteKind.STAR, "*")]),
    ("&(x)y*", w("&(x)y*"), [(NoteKind.STAR, "*")]),
    ("AND", w("AND"), [(NoteKind.OPERATOR, "AND")]),
    ("OR a", w("OR", "a"), [(NoteKind.OPERATOR, "OR")]),
    ("(a OR) b", w("a", "OR", "b"), [(NoteKind.OPERATOR, "OR")]),
    ("NOT a", w("NOT", "a"), [(NoteKind.OPERATOR, "NOT")]),
    ("/usr/bin/env x/", w("/usr/bin/env", "x/"), []),
    ("a / b / c", w("a", "/", "b", "/", "c"), []),
    ("/* a comment */", w("/*", "a", "comment", "*/"), [(NoteKind.STAR, "*")]),
    ('{"a":"b"}', w('{"a":"b"}'), []),
    (
        "a AND b OR c",
        And((w("a"), Or((w("b"), w("c"))))),
        [(NoteKind.MIXED, "OR")],
    ),
    ("(a AND b) OR c", Or((w("a", "b"), w("c"))), []),
]


@pytest.mark.parametrize(
    ("text", "expected", "notes"), PASTED, ids=[text for text, _, _ in PASTED]
)
def test_what_is_pasted_is_read_as_words_with_a_note(
    text: str, expected: Term | None, notes: list[tuple[NoteKind, str]]
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
def test_a_name_close_to_a_field_suggests_it(text: str, suggestion: str) -> None:
    (note,) = read(text).notes

    assert note.suggestion == suggestion
    assert suggestion in note.text


def test_notes_are_few_and_said_once_in_the_order_of_their_places() -> None:
    names = "porject projct toool fiel fille modell brnch titel sesion befor aftr rol"
    notes = read(" ".join(f"{name}:b - *" for name in names.split())).notes

    assert len(notes) == 10
    assert len({note.text for note in notes}) == 10
    assert [note.at for note in notes] == sorted(note.at for note in notes)


def test_a_sentence_is_known_apart_from_its_conditions() -> None:
    query = read("why does tool:Bash the -docker build fail")

    assert query.sentence == ("why", "does", "the", "build", "fail")
    assert query.conditions == (Fact("tool", "Bash"), Not(w("docker")))


@pytest.mark.parametrize(
    ("text", "sentence", "conditions"),
    [
        ("", (), ()),
        ("a b", ("a", "b"), ()),
        ("tool:x", (), (Fact("tool", "x"),)),
        ('"a" b*', (), (Phrase("a"), Prefix("b"))),
    ],
)
def test_a_query_may_have_no_sentence_or_nothing_else(
    text: str, sentence: tuple[str, ...], conditions: tuple[Term, ...]
) -> None:
    query = read(text)

    assert (query.sentence, query.conditions) == (sentence, conditions)


EXAMPLES = [row.example for row in (*FORMS, *FIELDS, *TIMES)]


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_example_of_the_table_is_read_as_meant(example: str) -> None:
    query = read(example)

    assert query.root is not None
    assert query.notes == ()


@pytest.mark.parametrize("field", FIELDS, ids=lambda field: field.name)
def test_a_field_is_shown_by_its_own_example(field: Field) -> None:
    assert f"{field.name}:" in field.example
    assert bool(field.choices) == (field.value is Value.CHOICE)
    assert field.other in {"", *BY_NAME}


def test_a_field_has_one_name() -> None:
    names = [name for field in FIELDS for name in (field.name, *field.also)]

    assert len(names) == len(set(names))


MISTAKES: list[tuple[str, type[QueryError], str]] = [
    ("a is:wrong b", ValueUnknown, "wrong"),
    ("is:(error OR worng)", ValueUnknown, "worng"),
    ("is:error|agent", ValueUnknown, "error|agent"),
    ("branch:main", ValueUnknown, "main"),
    ("x before:soon", TimeUnreadable, "soon"),
    ("on:2025-13", TimeUnreadable, "2025-13"),
    ("on:(today OR never)", TimeUnreadable, "never"),
    ('on:"next week" x', TimeUnreadable, '"next week"'),
    ("x project: y", FieldEmpty, "project:"),
    ("x project:", FieldEmpty, "project:"),
    ("(x project:)", FieldEmpty, "project:"),
    ('project:"" y', FieldEmpty, "project:"),
    ('project:" "', FieldEmpty, "project:"),
    ("project:()", FieldEmpty, "project:"),
    ('x project:("")', FieldEmpty, "project:"),
    ('project:"', FieldEmpty, "project:"),
    ("project:(", FieldEmpty, "project:"),
    ("a /b(c/", RegexRefused, "("),
    ("/[z-a]/", RegexRefused, "z"),
    (r"/(a)\1/", RegexRefused, r"\1"),
    ("/(?=a)/", RegexRefused, "(?="),
    ("/(?<!a)b/", RegexRefused, "(?<!"),
    ("/(?P<n>a)(?P=n)/", RegexRefused, "(?P="),
    ("/(?>a)/", RegexRefused, "(?>"),
    ("/a++/", RegexRefused, "++"),
    ("/a{2}+/", RegexRefused, "{2}+"),
    ("/a{1001}/", RegexRefused, "{1001}"),
    ("/a{1,99999}/", RegexRefused, "{1,99999}"),
]


@pytest.mark.parametrize(
    ("text", "error", "found"), MISTAKES, ids=[text for text, _, _ in MISTAKES]
)
def test_a_mistake_is_pointed_at(
    text: str, error: type[QueryError], found: str
) -> None:
    with pytest.raises(QueryError) as raised:
        read(text)

    assert type(raised.value) is error
    assert raised.value.found == found
    shown, marks = raised.value.pointed.split("\n")
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
def test_an_unknown_value_is_answered_with_what_may_be_meant(
    text: str, meant: str
) -> None:
    with pytest.raises(ValueUnknown) as raised:
        read(text)

    assert raised.value.meant == meant
    assert meant in str(raised.value)


@pytest.mark.parametrize(
    "pattern",
    ["(a+)+$", "(a|aa)+$", "(?:a*b*)*c", "(?:x.*){30}", ".*.*.*x", "(a?){50}"],
)
def test_a_regular_expression_that_never_ends_is_refused(pattern: str) -> None:
    with pytest.raises(RegexRefused, match="unlimited time"):
        read(f"/{pattern}/")


@pytest.mark.parametrize(
    "pattern", ["(a|b)+c", "(foo|bar)*", "a.*b.*c", r"(\w\.){3}", "(?:ab)+", "a?b?c?d?"]
)
def test_a_regular_expression_that_ends_is_taken(pattern: str) -> None:
    assert read(f"/{pattern}/").root == Regex(pattern)


@pytest.mark.parametrize("pattern", ["()" * 51, "a" * 1001])
def test_a_regular_expression_has_a_size(pattern: str) -> None:
    with pytest.raises(RegexRefused):
        read(f"/{pattern}/")


@pytest.mark.parametrize("pattern", ["[[a]", r"[\]1]\d\.", "(?i)a", "a{2,}", "[(?=]"])
def test_what_only_looks_wrong_in_a_regular_expression_is_right(pattern: str) -> None:
    assert tree(f"/{pattern}/") == Regex(pattern)


@given(st.text("ab1()[]{}?*+|\\\\^$.,-:<=!>#Pidx&~é", min_size=1, max_size=12))
@settings(max_examples=300)
def test_any_regular_expression_is_taken_or_refused_at_a_place(pattern: str) -> None:
    fault = fault_of(pattern)

    if fault is None:
        searcher(pattern)
    else:
        assert pattern[fault.at : fault.at + fault.length]


def test_ten_thousand_characters_are_read_and_no_more() -> None:
    assert len(read("ab " * (MAX_LENGTH // 3)).sentence) == MAX_LENGTH // 3

    with pytest.raises(QueryTooLong) as raised:
        read("a" * (MAX_LENGTH + 1))
    assert (raised.value.at, raised.value.length) == (MAX_LENGTH, 1)


def test_groups_may_stand_in_groups_up_to_a_limit() -> None:
    assert tree("(" * MAX_DEPTH + "a" + ")" * MAX_DEPTH) == w("a")

    with pytest.raises(QueryTooDeep) as raised:
        read("(" * (MAX_DEPTH + 1) + "a" + ")" * (MAX_DEPTH + 1))
    assert raised.value.at == MAX_DEPTH
