"""Costs of messages in memory."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec import structs

from bygones.export.formats import ExportOptions, render_session
from bygones.model.conversations import ModelUsage, collect_remainder, merge_by_model
from bygones.model.usage import Usage
from bygones.redact.session import RedactionLog
from bygones.usage.message_costs import has_single_price, make_message_pricer
from bygones.usage.prices import load_prices
from tests.build import prompt, reply, thread
from tests.render.shared import session_of


def test_messages_are_priced_by_their_model(tmp_path: Path) -> None:
    session = session_of(tmp_path, thread(prompt("a"), reply("b")))

    # 10 in, 200 written for five minutes, 3,000 read again, 40 out, of Sonnet.
    wanted = 10 * 3000 + 200 * 3750 + 3000 * 300 + 40 * 15000
    assert make_message_pricer(load_prices())(session.live_branch.messages) == wanted


def test_unknown_model_has_no_price(tmp_path: Path) -> None:
    session = session_of(tmp_path, thread(prompt("a"), reply("b", model="nobody-1")))

    assert make_message_pricer(load_prices())(session.live_branch.messages) is None


def test_html_shows_the_cost_of_a_turn(tmp_path: Path) -> None:
    session = session_of(tmp_path, thread(prompt("a"), reply("b")))
    making = ExportOptions(message_pricer=lambda _: 1_234_000_000)

    assert "· $1.23" in "".join(render_session(session, making, RedactionLog()))


def test_sum_costs_as_much_as_its_messages(tmp_path: Path) -> None:
    said = thread(prompt("a"), reply("b"), reply("c"), reply("d"))
    messages = session_of(tmp_path, said).live_branch.messages
    cost = make_message_pricer(load_prices())

    usages = merge_by_model(collect_remainder(messages)).usages

    assert len(usages) == 1
    assert has_single_price(load_prices(), usages[0])
    assert cost(usages) == cost(messages)


@pytest.mark.parametrize(
    ("least", "most", "wanted"),
    [
        (100_000, 200_000, True),
        (100_000, 200_001, False),
        (200_000, 200_001, False),
        (200_001, 300_000, True),
    ],
)
def test_sum_has_a_single_price_if_one_price_covers_its_contexts(
    least: int, most: int, wanted: bool
) -> None:
    prices = load_prices()
    (*_, price) = prices.for_model("claude-sonnet-4-5")
    assert price.long_context_threshold == 200_000

    paid = ModelUsage(
        model="claude-sonnet-4-5",
        usage=Usage(input=1),
        min_context=least,
        max_context=most,
    )

    assert has_single_price(prices, paid) is wanted
    assert has_single_price(prices, structs.replace(paid, model="nobody-1"))


def test_sum_has_no_single_price_if_the_price_changed(tmp_path: Path) -> None:
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
    paid = ModelUsage(
        model="glm-4.6", usage=Usage(input=1), min_context=1, max_context=1
    )

    assert not has_single_price(
        prices, structs.replace(paid, first_at=before, last_at=after)
    )
    assert has_single_price(
        prices, structs.replace(paid, first_at=after, last_at=after)
    )
    assert has_single_price(
        prices, structs.replace(paid, first_at=before, last_at=before)
    )
