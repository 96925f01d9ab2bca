"""The invented home: a web shop and some notes, with all that a session can have."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

from bygones.cli.demo_scribe import Scribe

__all__ = ["write_home"]

_RETRY = """\
def charge(order: Order) -> Receipt:
    for attempt in range(3):
        try:
            return gateway.charge(order.total, order.card)
        except GatewayTimeout:
            time.sleep(1)
    raise PaymentFailed(order.id)
"""
_BACKOFF = """\
def charge(order: Order) -> Receipt:
    key = f"{order.id}:{order.total}"
    for delay in (0.5, 1, 2, 4):
        try:
            return gateway.charge(order.total, order.card, idempotency_key=key)
        except GatewayTimeout:
            time.sleep(delay + random.random() / 2)
    raise PaymentFailed(order.id)
"""
_BEFORE = """\
def charge(order: Order) -> Receipt:
    return gateway.charge(order.total, order.card)
"""
_SMALL_MODEL = "claude-haiku-4-5-20251001"
_SCOUTS = (
    (
        "a1b2c3d",
        "Look at the fixtures",
        "`catalog` is built anew for each of 412 tests; it takes 1.1 s.",
    ),
    (
        "e4f5a6b",
        "Look for network calls",
        "No test opens a socket; `requests` is mocked everywhere.",
    ),
)


def write_home(folder: Path, now: datetime) -> Path:
    """Write the home and its projects below a folder; return the home."""
    home = folder / "claude-home"
    shop, notes = folder / "shop", folder / "notes"
    for project in (shop, notes):
        project.mkdir(parents=True, exist_ok=True)
    _old_question(home, notes, now - timedelta(days=26))
    _static_pages(home, notes, now - timedelta(days=9, hours=3))
    _umlauts(home, notes, now - timedelta(days=2, hours=1))
    _slow_tests(home, shop, now - timedelta(days=1, hours=4))
    _retry(home, shop, now - timedelta(hours=2))
    return home


def _retry(home: Path, shop: Path, begun: datetime) -> None:
    """Write a session that was rewound: the first way was the wrong one."""
    said = Scribe("retry", shop, begun)
    said.prompt(
        "Payments fail now and then with a gateway timeout. Make checkout retry."
    )
    said.bash(
        "rg -n 'gateway.charge' src",
        "src/checkout.py:41:    return gateway.charge(order.total, order.card)",
        words="I will look at where the gateway is called.",
    )
    fork = said.answer("There is one call, in `charge`. It has no retry at all.")
    said.prompt("Retry three times, a second apart.")
    said.edit("src/checkout.py", _BEFORE, _RETRY, line=40)
    said.bash(
        "pytest -q tests/test_checkout.py",
        "FAILED tests/test_checkout.py::test_a_card_is_charged_once\n"
        "AssertionError: charged twice\n1 failed, 11 passed in 2.31s",
        is_error=True,
    )
    said.answer(
        "A timeout does not mean that nothing was charged: the second attempt charged "
        "the card again. A plain retry is not safe here."
    )
    said.rewind(fork)
    said.prompt(
        "Retry with exponential backoff and an idempotency key, so that nobody is "
        "charged twice.",
        minutes=3,
    )
    said.edit(
        "src/checkout.py",
        _BEFORE,
        _BACKOFF,
        line=40,
        words="The gateway takes an `idempotency_key`; with it a retry is safe.",
    )
    said.bash("pytest -q tests/test_checkout.py", "12 passed in 2.28s")
    said.answer(
        "Done. `charge` now waits 0.5, 1, 2 and 4 seconds, each with some jitter, and "
        "sends the same key every time, so the gateway charges once.\n\n"
        "- the key is the order's id and total\n"
        "- after the fourth timeout `PaymentFailed` is raised, as before"
    )
    said.prompt("Write a test for the jitter, please.")
    said.write(
        "tests/test_backoff.py",
        "def test_no_two_clients_wait_the_same_time(clock: Clock) -> None:\n"
        "    assert len({waits(seed) for seed in range(20)}) == 20\n",
    )
    said.bash("pytest -q tests/test_backoff.py", "1 passed in 0.12s")
    said.answer("The test is there, and passes.")
    said.title("Make checkout retry without charging twice")
    said.save(home)


def _slow_tests(home: Path, shop: Path, begun: datetime) -> None:
    """Write a session that sent agents out."""
    said = Scribe("slow tests", shop, begun, model="claude-opus-4-5-20251101")
    said.prompt(
        "Why do the tests take nine minutes? Find the cause before you change it."
    )
    said.answer(
        {
            "type": "thinking",
            "thinking": "Two suspects: fixtures and the network.",
            "signature": "",
        },
        "I will have the fixtures and the network calls looked at side by side.",
    )
    for scout in _SCOUTS:
        _send(said, home, shop, scout)
    said.answer("The fixture `catalog` is the cause: 412 times 1.1 seconds.")
    said.prompt("Make it a session fixture then.")
    said.edit(
        "tests/conftest.py",
        "@pytest.fixture\n",
        '@pytest.fixture(scope="session")\n',
        line=12,
    )
    said.bash("pytest -q", "412 passed in 61.40s")
    said.answer("From nine minutes to one: the catalog is built once.")
    said.save(home)


def _send(said: Scribe, home: Path, shop: Path, scout: tuple[str, str, str]) -> None:
    """Write a call that starts an agent, and what the agent did."""
    agent, task, found = scout
    report = {
        "status": "completed",
        "agentId": agent,
        "totalDurationMs": 48_000,
        "totalTokens": 31_000,
        "totalToolUseCount": 2,
        "content": [{"type": "text", "text": found}],
    }
    order = f"{task}. Change nothing."
    given = {"description": task, "prompt": order, "subagent_type": "Explore"}
    call = said.call("Task", given, found, report, seconds=50)
    begun = said.time - timedelta(seconds=48)
    own = Scribe("slow tests", shop, begun, model=_SMALL_MODEL, agent=agent)
    own.prompt(order, minutes=0)
    own.bash("pytest --durations=5 -q", "1.12s setup    tests/test_cart.py")
    own.answer(found, seconds=20)
    own.save(home, call=call, task=task)


def _static_pages(home: Path, notes: Path, begun: datetime) -> None:
    """Write a session that outgrew its context."""
    said = Scribe("static pages", notes, begun)
    said.prompt("Move the notes from the database to Markdown files, one a note.")
    said.write(
        "export.py", "for note in db.notes():\n    path(note).write_text(note.body)\n"
    )
    said.bash("python export.py && ls pages | wc -l", "231")
    said.answer("All 231 notes are files now.")
    said.prompt("And the tags?", minutes=4)
    said.edit(
        "export.py",
        "write_text(note.body)",
        "write_text(head(note) + note.body)",
        line=2,
    )
    said.answer("Tags stand at the top of each file.")
    said.compact(
        "This session is being continued from a previous conversation that ran out of "
        "context. 231 notes were exported to Markdown, tags at their top."
    )
    said.prompt("Now build an index page by tag.", minutes=2)
    said.write("index.py", "pages = group(read_all(), by='tag')\n")
    said.bash("python index.py", "42 tags, 231 notes")
    said.answer("`index.html` lists 42 tags.")
    said.title("Move the notes to Markdown")
    said.save(home)


def _umlauts(home: Path, notes: Path, begun: datetime) -> None:
    said = Scribe("umlauts", notes, begun)
    said.prompt("日本語のノートが文字化けします。直してください。")
    said.edit(
        "export.py", 'open(path, "w")', 'open(path, "w", encoding="utf-8")', line=7
    )
    said.answer("エンコーディングを UTF-8 に指定しました。文字化けは直っています。")
    said.save(home)


def _old_question(home: Path, notes: Path, begun: datetime) -> None:
    said = Scribe("old question", notes, begun)
    said.prompt("What is the difference between rsync -a and cp -r?")
    said.answer(
        "`rsync -a` keeps times, owners, permissions and links, and copies only what "
        "differs; `cp -r` copies contents and makes everything new."
    )
    said.save(home)
