"""Session summaries."""

from __future__ import annotations

import pytest

from bygones.assemble.summary import group_into_projects, summarize_session
from tests.assemble.helpers import only
from tests.build import session


@pytest.mark.req("L2")
def test_summary_agrees_with_its_session() -> None:
    actual = only(session("a", "b<a", "c<b", "d<b", "e<d"))
    line = summarize_session(actual)

    assert (line.prompt_count, line.message_count, line.branch_count) == (2, 4, 2)
    assert (line.title, line.usage, line.agent_count) == (
        actual.title,
        actual.total_usage,
        0,
    )
    assert line.models == actual.models
    assert group_into_projects([line]) == group_into_projects([actual])
