"""From a session to its line in a list."""

from __future__ import annotations

import pytest

from bygones.assemble import listed, projects_of
from tests.assemble.making import only
from tests.build import session


@pytest.mark.req("L2")
def test_a_line_says_what_its_session_does() -> None:
    told = only(session("a", "b<a", "c<b", "d<b", "e<d"))
    line = listed(told)

    assert (line.prompts, line.messages, line.branches) == (2, 4, 2)
    assert (line.title, line.usage, line.agents) == (told.title, told.total, 0)
    assert line.models == told.models
    assert projects_of([line]) == projects_of([told])
