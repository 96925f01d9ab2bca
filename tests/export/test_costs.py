"""What messages cost."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec import structs

from bygones.export import coster, made
from bygones.export.costs import is_even
from bygones.export.making import Making
from bygones.model.rest import Paid, rest_of, summed
from bygones.model.usage import Usage
from bygones.prices import load_prices
from bygones.render.redact import Finds
from tests.build import prompt, reply, thread
from tests.render.shared import session_of


def test_messages_are_priced_by_their_model(tmp_path: Path) -> None:
    session = session_of(tmp_path, thread(prompt("a"), reply("b")))

    # 10 in, 200 written for five minutes, 3,000 read again, 40 out, of Sonnet.
    wanted = 10 * 3000 + 200 * 3750 + 3000 * 300 + 40 * 15000
    assert coster(load_prices())(session.live.messages) == wanted


def test_a_model_that_nobody_knows_has_no_price(tmp_path: Path) -> None:
    session = session_of(tmp_path, thread(prompt("a"), reply("b", model="nobody-1")))

    assert coster(load_prices())(session.live.messages) is None


def test_a_page_tells_the_cost_of_a_turn(tmp_path: Path) -> None:
    session = session_of(tmp_path, thread(prompt("a"), reply("b")))
    making = Making(cost=lambda _: 1_234_000_000)

    assert "· $1.23" in "".join(made(session, making, Finds()))


def test_a_sum_costs_what_its_messages_do(tmp_path: Path) -> None:
    said = thread(prompt("a"), reply("b"), reply("c"), reply("d"))
    messages = session_of(tmp_path, said).live.messages
    cost = coster(load_prices())

    told = summed(rest_of(messages)).paid

    assert len(told) == 1
    assert is_even(load_prices(), told[0])
    assert cost(told) == cost(messages)


@pytest.mark.parametrize(
    ("least", "most", "wanted"),
    [
        (100_000, 200_000, True),
        (100_000, 200_001, False),
        (200_000, 200_001, False),
        (200_001, 300_000, True),
    ],
)
def test_a_sum_is_even_where_one_price_holds_for_its_contexts(
    least: int, most: int, wanted: bool
) -> None:
    prices = load_prices()
    (*_, price) = prices.of("claude-sonnet-4-5")
    assert price.above == 200_000

    paid = Paid(model="claude-sonnet-4-5", usage=Usage(input=1), least=least, most=most)

    assert is_even(prices, paid) is wanted
    assert is_even(prices, structs.replace(paid, model="nobody-1"))


def test_a_sum_is_not_even_where_the_price_changed_meanwhile(tmp_path: Path) -> None:
    own = tmp_path / "prices.toml"
    own.write_text(
        """
[[price]]
models = ["glm-4.6"]
input = 1
output = 2

[[price]]
models = ["glm-4.6"]
from = 2026-02-01
input = 2
output = 4
""",
        "utf-8",
    )
    prices = load_prices(own)
    before, after = (datetime(2026, month, 1, tzinfo=UTC) for month in (1, 3))
    paid = Paid(model="glm-4.6", usage=Usage(input=1), least=1, most=1)

    assert not is_even(prices, structs.replace(paid, first=before, last=after))
    assert is_even(prices, structs.replace(paid, first=after, last=after))
    assert is_even(prices, structs.replace(paid, first=before, last=before))
