"""Costs that Claude Code reported, compared with computed ones."""

from __future__ import annotations

from tests.build import Written, meta, prompt, session_id, thread
from tests.usage.usage_archive import SONNET, UsageArchive, answer

FIRST = session_id(1)


def cost_state(dollars: float, **models: tuple[float, int]) -> Written:
    model_usage = {
        name.replace("_", "-"): {"costUSD": cost, "outputTokens": tokens}
        for name, (cost, tokens) in models.items()
    }
    return meta("cost-state", totalCostUSD=dollars, modelUsage=model_usage)


def test_equal_costs_have_no_difference(usage_archive: UsageArchive) -> None:
    state = cost_state(0.015, **{SONNET: (0.015, 1000)})
    usage_archive.home.session(
        FIRST, [*thread(prompt("go"), answer(1, output=1000)), state]
    )

    claim = usage_archive.usage().reported_cost

    assert claim is not None
    assert (claim.session_count, claim.reported_cost, claim.computed_cost) == (
        1,
        15_000_000,
        15_000_000,
    )
    assert (
        claim.unrecorded_cost,
        claim.token_difference,
        claim.price_difference,
        claim.unexplained_difference,
    ) == (0, 0, 0, 0)


def test_difference_is_split_by_reason(usage_archive: UsageArchive) -> None:
    opus, other = "claude-opus-4-5", "claude-opus-4-1"
    records = thread(
        prompt("go"),
        answer(1, output=1000),
        answer(2, model=opus, output=100),
        answer(3, model=other, output=10),
    )
    state = cost_state(
        1.0,
        **{
            "claude-sonnet-4-5[1m]": (0.016, 1000),
            opus: (0.0035, 140),
            "claude-haiku-4-5": (0.9, 5),
        },
    )
    usage_archive.home.session(FIRST, [*records, state])

    claim = usage_archive.usage("model").reported_cost

    assert claim is not None
    assert claim.reported_cost == 10**9
    assert claim.computed_cost == 15_000_000 + 2_500_000 + 750_000
    assert (claim.unrecorded_cost, claim.unrecorded_models) == (
        900_000_000,
        ("claude-haiku-4-5",),
    )
    assert claim.token_difference == 1_000_000
    assert claim.price_difference == 1_000_000
    reasons = (
        claim.unrecorded_cost
        + claim.token_difference
        + claim.price_difference
        + claim.unexplained_difference
    )
    assert reasons == claim.reported_cost - claim.computed_cost


def test_last_reported_cost_counts_up_to_its_time(usage_archive: UsageArchive) -> None:
    early = cost_state(0.001, **{SONNET: (0.001, 10)})
    last = cost_state(0.015, **{SONNET: (0.015, 1000)})
    records = thread(prompt("go"), answer(1, output=1000))
    later = thread(prompt("on"), answer(2, output=77), start=600)
    usage_archive.home.session(FIRST, [*records, early, last, *later])

    claim = usage_archive.usage().reported_cost

    assert claim is not None
    assert (claim.reported_cost, claim.computed_cost) == (15_000_000, 15_000_000)


def test_parts_of_sessions_have_no_reported_cost(usage_archive: UsageArchive) -> None:
    state = cost_state(0.015, **{SONNET: (0.015, 1000)})
    usage_archive.home.session(
        FIRST, [*thread(prompt("go"), answer(1, output=1000)), state]
    )

    assert usage_archive.usage(query="project:demo").reported_cost is not None
    assert usage_archive.usage(query="project:nowhere").reported_cost is None
    assert usage_archive.usage(query="after:2020").reported_cost is None
    assert usage_archive.usage(query="model:sonnet").reported_cost is None


def test_sessions_without_a_reported_cost_are_not_compared(
    usage_archive: UsageArchive,
) -> None:
    odd = meta("cost-state", totalCostUSD="much")
    usage_archive.home.session(
        FIRST, [*thread(prompt("go"), answer(1, output=10)), odd]
    )

    assert usage_archive.usage().reported_cost is None
