"""Matching session summaries."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from bygones.model.base import SessionId
from bygones.model.query import Flag
from bygones.model.summary import SessionSummary, Title, TitleKind
from bygones.model.usage import Usage
from bygones.query.matcher import is_session_query, matches_session
from tests.query.parsing import read, tree

LISTED = SessionSummary(
    id=SessionId("5e551000"),
    title=Title("Mend the flaky test", TitleKind.CUSTOM),
    project="/work/demo",
    started_at=datetime(2025, 12, 1, 23, tzinfo=UTC),
    ended_at=datetime(2025, 12, 4, 1, tzinfo=UTC),
    models=("claude-opus-4-5",),
    git_branches=("main",),
    entrypoints=("sdk-py",),
    flags=(Flag.COMPACTED,),
    tags=("release",),
    usage=Usage(),
)


def words(text: str) -> list[str]:
    return text.lower().split()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "project:demo",
        "model:opus git:main",
        "title:flaky",
        "tag:release session:5e55",
        "on:2025-12-02",  # in the middle, though there may be no message then
        "after:2025-12-04",
        "before:2025-12-02",
        "-on:2025-12-05",
        "project:other OR tag:release",
        "is:compacted entrypoint:sdk-*",
    ],
)
def test_session_matches(text: str) -> None:
    assert is_session_query(tree(text))
    assert matches_session(read(text), LISTED, words)


@pytest.mark.parametrize(
    "text",
    [
        "project:other",
        "-tag:release",
        "on:2025-12-05",
        "after:2025-12-05",
        "before:2025-12-01",
        "title:slow",
        "model:opus tag:none",
        "is:interrupted",
        "entrypoint:cli",
    ],
)
def test_session_does_not_match(text: str) -> None:
    assert not matches_session(read(text), LISTED, words)


@pytest.mark.parametrize(
    "text", ["flaky", "tool:Bash", "file:a.py", "is:error", "/x/", "tag:a OR in:prompt"]
)
def test_conditions_on_texts_need_more_than_a_summary(text: str) -> None:
    assert not is_session_query(tree(text))


def test_session_without_times_overlaps_no_range() -> None:
    timeless = SessionSummary(id=LISTED.id, title=LISTED.title, usage=Usage())

    assert not matches_session(read("after:2000"), timeless, words)
