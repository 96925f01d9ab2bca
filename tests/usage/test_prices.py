"""Prices, model names, and a user's price file."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

import bygones.usage.prices
from bygones.errors import InvalidPrices
from bygones.usage.prices import (
    PICOS_PER_DOLLAR,
    Prices,
    load_prices,
    normalize_model_name,
)

MILLION = (10**6,) * 5


def rates(
    model: str, *, is_long: bool = False, prices: Prices | None = None
) -> list[str]:
    """Return dollars for a million tokens of each kind, by the newest price."""
    (*_, price) = (prices or load_prices()).for_model(model)
    found = price.rates_for(is_long_context=is_long)
    assert found is not None
    return [
        f"{rate * 10**6 / PICOS_PER_DOLLAR:g}"
        for rate in found.per_token
        if rate is not None
    ]


@pytest.mark.req("U2")
@pytest.mark.parametrize(
    ("model", "told"),
    [
        ("claude-opus-5-5", "4 20 5 8 0.2"),
        ("claude-opus-5", "5 25 6.25 10 0.5"),
        ("claude-opus-4-1-20250805", "15 75 18.75 30 1.5"),
        ("claude-opus-4-20250514", "15 75 18.75 30 1.5"),
        ("claude-sonnet-5-5", "2 10 2.5 4 0.1"),
        ("claude-sonnet-4-5-20250929", "3 15 3.75 6 0.3"),
        ("claude-3-5-haiku-20241022", "0.8 4 1 1.6 0.08"),
        ("claude-haiku-5-5", "0.1 0.5 0.125 0.2 0.01"),
        ("claude-fable-5-2", "8 40 10 16 0.2"),
        ("claude-mythos-5-2", "8 40 10 16 0.2"),
        ("claude-fable-5-1", "10 50 12.5 20 0.25"),
        ("claude-3-sonnet-20240229", "3 15"),
    ],
)
def test_table_has_the_prices_of_models(model: str, told: str) -> None:
    assert " ".join(rates(model)) == told


def test_every_price_has_a_source_and_the_day_it_was_checked() -> None:
    path = Path(bygones.usage.prices.__file__).with_name("prices.toml")
    table = tomllib.loads(path.read_text("utf-8"))

    assert {row["source"] for row in table["price"]} == set(table["sources"])
    assert max(row["checked"] for row in table["price"]) == table["date"]


@pytest.mark.parametrize(
    ("model", "term", "factor"),
    [
        ("claude-fable-5-2", "fast", (2, 1)),
        ("claude-opus-4-7", "fast", (6, 1)),
        ("claude-opus-4-5", "us", (11, 10)),
        ("claude-haiku-4-5", "us", (11, 10)),
        ("claude-3-5-haiku", "us", (11, 10)),
    ],
)
def test_fast_mode_and_regions_multiply_prices(
    model: str, term: str, factor: tuple[int, int]
) -> None:
    (*_, price) = load_prices().for_model(model)

    rates_with_term = price.rates_for((term,))

    assert rates_with_term is not None
    assert rates_with_term.multiplier == factor
    assert price.rates_for(("eu",)) is None


def test_long_context_has_its_own_rates() -> None:
    (price,) = load_prices().for_model("claude-haiku-5-5")

    assert price.long_context_threshold == 100_000
    assert rates("claude-haiku-5-5", is_long=True) == [
        "0.5",
        "2.5",
        "0.625",
        "1",
        "0.05",
    ]
    assert price.long_context is not None
    assert price.long_context.compute_cost(MILLION) == round(4.675 * PICOS_PER_DOLLAR)


@pytest.mark.req("U2")
@pytest.mark.parametrize(
    ("model", "normal"),
    [
        ("claude-opus-4-5-20251101", "claude-opus-4-5"),
        ("claude-opus-4-5[1m]", "claude-opus-4-5"),
        ("claude-opus-4.5", "claude-opus-4-5"),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "claude-sonnet-4-5"),
        ("global.anthropic.claude-opus-4-6-v1", "claude-opus-4-6"),
        ("anthropic/claude-sonnet-4", "claude-sonnet-4"),
        ("vertex_ai/claude-sonnet-4-5@20250929", "claude-sonnet-4-5"),
        ("bedrock/eu.anthropic.claude-haiku-4-5-20251001-v1:0", "claude-haiku-4-5"),
        ("claude-3-5-sonnet-latest", "claude-sonnet-3-5"),
        ("claude-3-opus-20240229", "claude-opus-3"),
        ("claude-opus-4-0", "claude-opus-4"),
        ("Claude-Opus-4-1", "claude-opus-4-1"),
        ("glm-4.6", "glm-4-6"),
        ("gpt-5", "gpt-5"),
    ],
)
def test_model_is_found_under_all_its_names(model: str, normal: str) -> None:
    assert normalize_model_name(model) == normal


@pytest.mark.req("U2")
@pytest.mark.parametrize(
    "model",
    [
        "claude-opus-9",
        "claude-opus-4-1-turbo",
        "glm-4.6",
        "gpt-5",
        "<synthetic>",
        "",
        None,
    ],
)
def test_unknown_model_is_not_in_the_table(model: str | None) -> None:
    assert load_prices().for_model(model) == ()


OWN = """
[terms]
priority = 1.5

[[price]]
models = ["claude-opus-4-6", "glm-4.6"]
input = 1
output = 2.5

[[price]]
models = ["glm-4.6"]
from = 2026-02-01
input = 0.4
output = 2
"""


@pytest.mark.req("U2")
def test_user_file_overrides_the_models_that_it_names(
    tmp_path: Path,
) -> None:
    own = tmp_path / "prices.toml"
    own.write_text(OWN)

    prices = load_prices(own)

    assert len(prices.for_model("claude-opus-4-6")) == 1
    assert rates("claude-opus-4-6", prices=prices) == ["1", "2.5"]
    assert [price.standard.per_token[0] for price in prices.for_model("glm-4.6")] == [
        1_000_000,
        400_000,
    ]
    assert rates("claude-opus-5", prices=prices) == ["5", "25", "6.25", "10", "0.5"]
    (opus,) = prices.for_model("claude-opus-5")
    rates_with_priority = opus.rates_for(("priority",))
    assert rates_with_priority is not None
    assert rates_with_priority.compute_cost((2,)) == 15_000_000
    assert opus.rates_for(("unheard-of",)) is None


def test_built_in_table_is_dated() -> None:
    assert load_prices().date is not None


def test_missing_user_file_changes_nothing(tmp_path: Path) -> None:
    assert load_prices(tmp_path / "prices.toml").for_model("claude-opus-5")


@pytest.mark.parametrize(
    "text",
    [
        "[[price]\n",
        '[[price]]\nmodels = ["a"]\ninput = 1\n',
        '[[price]]\nmodels = ["a"]\ninput = "a"\noutput = 1\n',
        '[[price]]\nmodels = ["a"]\ninput = -1\noutput = 1\n',
        '[[price]]\nmodels = ["a"]\ninput = nan\noutput = 1\n',
        '[[price]]\nmodels = ["a"]\ninput = inf\noutput = 1\n',
        '[[price]]\nmodels = ["a"]\ninput = 1\noutput = 1\ncache = 1\n',
        "search = 1e9\n",
        "\xff",
    ],
)
def test_invalid_user_file_raises_with_its_path(tmp_path: Path, text: str) -> None:
    own = tmp_path / "prices.toml"
    own.write_bytes(text.encode("latin-1"))

    with pytest.raises(
        InvalidPrices, match=r"prices\.toml is not a valid price file: "
    ):
        load_prices(own)


def test_tokens_without_a_rate_have_no_cost() -> None:
    (price,) = load_prices().for_model("claude-3-sonnet")

    assert price.standard.compute_cost((1,)) == 3_000_000
    assert price.standard.compute_cost((0, 0, 0, 0, 1)) is None
