"""The rest of a turn, as far as it is told of."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from bygones.model.rest import Paid, Rest, each_run, rest_of, summed
from bygones.model.usage import Usage
from tests.render.stories import STORIES


def paid(model: str, tokens: int, hour: int | None) -> Paid:
    time = None if hour is None else datetime(2026, 1, 1, hour, tzinfo=UTC)
    usage = Usage(input=tokens)
    return Paid(
        model=model, usage=usage, least=tokens, most=tokens, first=time, last=time
    )


def test_answers_of_a_model_are_summed_and_their_bounds_kept() -> None:
    rest = Rest((paid("a", 5, 3), paid("b", 7, 4), paid("a", 9, 1)))

    one, other = summed(rest).paid

    assert (one.model, one.usage.total, one.least, one.most) == ("a", 14, 5, 9)
    assert one.first is not None
    assert one.last is not None
    assert (one.first.hour, one.last.hour) == (1, 3)
    assert other == paid("b", 7, 4)


def test_what_has_no_time_is_summed_by_itself() -> None:
    rest = Rest((paid("a", 5, 3), paid("a", 7, None)))

    assert summed(rest) == rest


def test_agents_are_told_once_with_those_below_them(tmp_path: Path) -> None:
    session = STORIES["called"](tmp_path)

    rest = rest_of(session.live.messages)

    called = [run for run in session.agents if run.calls]
    assert sorted(rest.runs) == sorted(run.id for run in each_run(called))
    spent = sum(m.usage.total for m in session.live.messages if m.usage)
    assert sum(one.usage.total for one in rest.paid) == spent
