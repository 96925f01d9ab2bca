"""What messages cost."""

from __future__ import annotations

from pathlib import Path

from recollect.export import coster, made
from recollect.export.making import Making
from recollect.prices import load_prices
from recollect.render.redact import Finds
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
