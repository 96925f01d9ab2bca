"""Claude Code's own total beside ours: how far apart they are, and why."""

from __future__ import annotations

from tests.build import Written, meta, prompt, session_id, thread
from tests.usage.asking import SONNET, Asking, answer

FIRST = session_id(1)


def cost_state(dollars: float, **models: tuple[float, int]) -> Written:
    told = {
        name.replace("_", "-"): {"costUSD": cost, "outputTokens": tokens}
        for name, (cost, tokens) in models.items()
    }
    return meta("cost-state", totalCostUSD=dollars, modelUsage=told)


def test_equal_costs_have_no_difference(asking: Asking) -> None:
    state = cost_state(0.015, **{SONNET: (0.015, 1000)})
    asking.home.session(FIRST, [*thread(prompt("go"), answer(1, output=1000)), state])

    claim = asking.usage().reported_cost

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


def test_difference_is_split_by_reason(asking: Asking) -> None:
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
    asking.home.session(FIRST, [*records, state])

    claim = asking.usage("model").reported_cost

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


def test_last_reported_cost_counts_up_to_its_time(asking: Asking) -> None:
    early = cost_state(0.001, **{SONNET: (0.001, 10)})
    last = cost_state(0.015, **{SONNET: (0.015, 1000)})
    records = thread(prompt("go"), answer(1, output=1000))
    later = thread(prompt("on"), answer(2, output=77), start=600)
    asking.home.session(FIRST, [*records, early, last, *later])

    claim = asking.usage().reported_cost

    assert claim is not None
    assert (claim.reported_cost, claim.computed_cost) == (15_000_000, 15_000_000)


def test_parts_of_sessions_have_no_reported_cost(asking: Asking) -> None:
    state = cost_state(0.015, **{SONNET: (0.015, 1000)})
    asking.home.session(FIRST, [*thread(prompt("go"), answer(1, output=1000)), state])

    assert asking.usage(query="project:demo").reported_cost is not None
    assert asking.usage(query="project:nowhere").reported_cost is None
    assert asking.usage(query="after:2020").reported_cost is None
    assert asking.usage(query="model:sonnet").reported_cost is None


def test_sessions_without_a_reported_cost_are_not_compared(asking: Asking) -> None:
    odd = meta("cost-state", totalCostUSD="much")
    asking.home.session(FIRST, [*thread(prompt("go"), answer(1, output=10)), odd])

    assert asking.usage().reported_cost is None
