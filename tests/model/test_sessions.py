"""Remainders of turns."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from bygones.model.conversations import (
    ModelUsage,
    TurnRemainder,
    collect_remainder,
    merge_by_model,
)
from bygones.model.sessions import walk_agents
from bygones.model.usage import Usage
from tests.render.stories import STORIES


def paid(model: str, tokens: int, hour: int | None) -> ModelUsage:
    time = None if hour is None else datetime(2026, 1, 1, hour, tzinfo=UTC)
    usage = Usage(input=tokens)
    return ModelUsage(
        model=model,
        usage=usage,
        min_context=tokens,
        max_context=tokens,
        first_at=time,
        last_at=time,
    )


def test_usages_of_a_model_are_merged_with_their_ranges() -> None:
    rest = TurnRemainder((paid("a", 5, 3), paid("b", 7, 4), paid("a", 9, 1)))

    item, other = merge_by_model(rest).usages

    assert (item.model, item.usage.total, item.min_context, item.max_context) == (
        "a",
        14,
        5,
        9,
    )
    assert item.first_at is not None
    assert item.last_at is not None
    assert (item.first_at.hour, item.last_at.hour) == (1, 3)
    assert other == paid("b", 7, 4)


def test_usages_without_a_time_are_merged_separately() -> None:
    rest = TurnRemainder((paid("a", 5, 3), paid("a", 7, None)))

    assert merge_by_model(rest) == rest


def test_agents_are_listed_once_with_nested_ones(tmp_path: Path) -> None:
    session = STORIES["called"](tmp_path)

    rest = collect_remainder(session.live_branch.messages)

    called = [run for run in session.agents if run.call_ids]
    assert sorted(rest.agent_ids) == sorted(run.id for run in walk_agents(called))
    spent = sum(m.usage.total for m in session.live_branch.messages if m.usage)
    assert sum(item.usage.total for item in rest.usages) == spent
