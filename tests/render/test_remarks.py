"""What is said about an answer."""

from __future__ import annotations

from bygones.model.hits import Bound, Found, Repair
from bygones.render.remarks import remarks


def test_what_stands_nowhere_is_told_in_brief() -> None:
    found = Found(missing=("a" * 500,), repairs=(Repair("teh", "the"),))

    nowhere, missing = remarks(found)

    assert nowhere == "teh stands nowhere; looked for the"
    assert len(missing) < 120


def test_a_whole_answer_needs_no_remark() -> None:
    assert list(remarks(Found(total=3))) == []


def test_a_number_says_how_sure_it_is() -> None:
    assert Bound.EXACT.before("3 hits") == "3 hits"
    assert Bound.AT_MOST.before("3 hits") == "at most 3 hits"
