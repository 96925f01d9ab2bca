"""Costs of messages in memory."""

from __future__ import annotations

from pathlib import Path

from bygones.export.formats import ExportOptions, render_session
from bygones.redact.session import RedactionLog
from bygones.usage.message_costs import make_message_pricer
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
