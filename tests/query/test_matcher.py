"""Matching texts, for each field and each operator."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bygones.model.base import AgentId, SessionId
from bygones.model.query import Flag, HasValue, Part, Query, Regex, Term
from bygones.model.summary import Role, SessionSummary, Title, TitleKind
from bygones.model.usage import Usage
from bygones.query.fields import FIELDS, QueryField, SearchableText
from bygones.query.matcher import matches_text
from bygones.query.parser import and_terms, negate_term, or_terms
from tests.query.parsing import read
from tests.query.trees import terms

SUBJECT = SearchableText(
    session=SessionSummary(
        id=SessionId("0F3C9A11-aaaa"),
        project="/home/ada/Work/bygones",
        title=Title("Fix the flaky login test", TitleKind.CUSTOM),
        models=("claude-opus-4-5", "claude-haiku-4-5"),
        git_branches=("main", "feature/Login"),
        entrypoints=("claude-vscode",),
        tags=("release",),
        started_at=datetime(2025, 12, 1, 8, tzinfo=UTC),
        flags=(Flag.COMPACTED,),
        usage=Usage(),
    ),
    role=Role.ASSISTANT,
    part=Part.TOOL,
    tool_names=("Bash",),
    paths=("/home/ada/Work/bygones/src/auth.go", "C:\\notes\\todo.md"),
    commands=("git rebase --interactive main", "ls"),
    agent_id=AgentId("a17"),
    agent_type="Explore",
    is_abandoned=True,
    is_error=True,
    sent_at=datetime(2025, 12, 3, 9, tzinfo=UTC),
    has=frozenset({HasValue.EDIT}),
    text="Connection reset by peer: ENOENT in std::vector, retried twice",
)
BARE_SESSION = SessionSummary(
    id=SessionId("b"), title=Title("", TitleKind.ID), usage=Usage()
)
PLAIN = SearchableText(session=BARE_SESSION, part=Part.PROMPT, text="hello")


def analyze(text: str) -> Sequence[str]:
    return re.findall(r"\w+", text.casefold())


def finds(text: str, subject: SearchableText = SUBJECT) -> bool:
    return matches_text(read(text), subject, analyze)


@pytest.mark.parametrize(
    "text",
    [
        *("", "reset", "RESET Connection", "std::vector", "vector in", "- * &&"),
        *('"reset by peer"', '"in std::vector"', "ret*", "std::vec*", "ENO*"),
        *("-missing", "-missing*", '-"peer by"', "-(reset missing)", "-(-reset)"),
        *("reset OR missing", "missing OR reset", "missing OR -missing"),
        *("(missing OR reset) (peer OR gone) -(twice hello)", "reset -"),
        *(r"/E[A-Z]+T\b/", "/reset.*peer/", "-/^reset/", "/(?-i:ENOENT)/"),
        *("project:bygones", "project:work/BYGONES", "project:by*es", "project:*"),
        *("project:Work/*", "tool:bash", "tool:B*", "tool:(Edit OR Bash)", "-tool:Ba"),
        *("file:auth", "file:src/auth.go", "file:*.go", "file:src/*.go", "-file:*.g"),
        *("file:notes/todo", r"file:C:\notes", "file:auth.*", "-file:uth.*"),
        *("cmd:rebase", 'cmd:"git rebase"', "cmd:inter*", "cmd:ls", "-cmd:commit"),
        *("model:opus", "model:haiku", "-model:sonnet", "branch:abandoned"),
        *("git:main", "git:feature/*", "git:FEATURE/login", "-git:mai", "-git:feature"),
        *("entrypoint:claude-vscode", "entrypoint:claude-*", "-entrypoint:cli"),
        *("role:assistant", "-role:user", "agent:explore", "agent:a17", "agent:*"),
        *("is:error", "is:agent", "is:abandoned", "is:compacted", "-is:interrupted"),
        *(
            "has:edit",
            "-has:image",
            "-has:thinking",
            "title:flaky",
            "title:(fix login)",
        ),
        *('title:"flaky login"', "title:log*", "-title:reset", "-title:(fix bug)"),
        *("session:0f3c", "session:0f3c*", "-session:3c9a", "tag:release", "-tag:rel"),
        *("before:2025-12-04", "-before:2025-12-03", "after:2025-12-03", "after:8d"),
        *("on:2025-12-03", "on:2025-12", "on:2025-12-01..2025-12-03", "-on:today"),
        *("in:tool", "-in:prompt", "in:(tool OR reply)", "reset in:tool is:error"),
        *("title:-", "-title:- reset", "after:last week"),
    ],
)
def test_text_matches(text: str) -> None:
    assert finds(text)


@pytest.mark.parametrize(
    "text",
    [
        *("missing", "reset missing", '"peer reset"', "res", "set*", "std::vex*"),
        *("-reset", "-ret*", '-"by peer"', "-(reset peer)", "missing OR gone"),
        *("/^reset/", "-/reset/", "/(?-i:enoent)/", "rebase", "flaky", "bygones"),
        *("0F3C9A11", "main", "opus", "2025", "Bash"),
        *("project:other", "tool:Edit", "tool:as", "file:auth.py", "cmd:commit"),
        *("file:uth.*", "model:sonnet", "branch:live", "git:mai", "role:user"),
        *("agent:Plan", "is:interrupted", "has:image", "title:reset", "session:3c9a"),
        *("tag:rel", "before:2025-12-03", "after:2025-12-04", "on:2025-12-04"),
        *("in:prompt", "-is:error", "reset in:result", "title:(fix bug)", "- missing"),
    ],
)
def test_text_does_not_match(text: str) -> None:
    assert not finds(text)


@pytest.mark.parametrize("field", FIELDS, ids=lambda field: field.name)
def test_text_without_fields_matches_no_field(field: QueryField) -> None:
    bare = SearchableText(session=BARE_SESSION, part=Part.TITLE)

    assert finds(field.example, bare) == (field.example == "branch:live")


def test_text_without_a_time_has_that_of_its_session() -> None:
    timeless = msgspec.structs.replace(SUBJECT, sent_at=None)

    assert finds("on:2025-12-01", timeless)
    assert not finds("on:2025-12-01", SUBJECT)


def test_fields_of_the_session_match_each_of_its_texts() -> None:
    assert not finds("is:compacted", PLAIN)
    compacted = msgspec.structs.replace(BARE_SESSION, flags=(Flag.COMPACTED,))
    assert finds("is:compacted", msgspec.structs.replace(PLAIN, session=compacted))


def test_query_of_punctuation_matches_everything() -> None:
    assert finds("&& || - -- *", PLAIN)
    assert not finds("&& || gone", PLAIN)
    assert finds("(&& OR hello)", PLAIN)
    assert not finds("(&& OR gone)", PLAIN)


def subject_of(words: list[str]) -> SearchableText:
    return msgspec.structs.replace(SUBJECT, text=" ".join(words))


texts = st.lists(st.sampled_from(["a", "b", "ab", "1", "é", "日", "(", "-"])).map(
    subject_of
)


def holds(term: Term | None, subject: SearchableText) -> bool:
    return matches_text(Query(term), subject, lambda text: text.casefold().split())


@given(terms, terms, texts)
def test_operators_follow_boolean_logic(
    a: Term, b: Term, subject: SearchableText
) -> None:
    is_a, is_b = holds(a, subject), holds(b, subject)

    assert holds(and_terms([a, b]), subject) == (is_a and is_b)
    assert holds(or_terms([a, b]), subject) == (is_a or is_b)
    assert holds(negate_term(a), subject) != is_a
    assert holds(negate_term(negate_term(a)), subject) == is_a


@given(st.lists(st.sampled_from(["ab", "cd", "e", "日本", "é1"]), min_size=1))
def test_each_word_of_a_text_matches_it(words: list[str]) -> None:
    subject = subject_of(words)

    assert all(finds(word, subject) for word in words)
    assert all(finds(f"{word[0]}*", subject) for word in words)
    assert finds('"' + " ".join(words) + '"', subject)
    assert not any(finds(f"-{word}", subject) for word in words)


def test_regular_expression_matches_the_original_text() -> None:
    assert matches_text(Query(Regex(r"peer: \w+")), SUBJECT, analyze)
