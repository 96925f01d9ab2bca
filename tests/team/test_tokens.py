"""A token says who somebody is; only its hash is kept."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from bygones.errors import TokenRefused
from bygones.render.redact import Redactor
from bygones.team.contract import Role, Scope
from bygones.team.tokens import Tokens
from tests.team.fake import MemoryStore

NOW = datetime(2026, 11, 15, tzinfo=UTC)


def test_a_token_is_known_again_and_stands_nowhere() -> None:
    store = MemoryStore()
    secret, token = Tokens(store).issue(
        "ann", teams=("shop", "api"), role=Role.TEAM, label="laptop", now=NOW
    )

    found = Tokens(store).known(secret)

    assert found == token
    assert found is not None
    assert found.scope == Scope(person="ann", teams=("api", "shop"), role=Role.TEAM)
    assert secret.encode() not in repr(store.notes("token")).encode()


@pytest.mark.parametrize("secret", ["", "rcl_", "rcl_wrong", "x" * 5000, "rcl_\udcff"])
def test_what_is_no_token_is_nobody(secret: str) -> None:
    store = MemoryStore()
    Tokens(store).issue("ann", now=NOW)

    assert Tokens(store).known(secret) is None


def test_a_revoked_token_is_nobody_after_a_moment_everywhere() -> None:
    store = MemoryStore()
    clock = [0.0]
    tokens = Tokens(store, lambda: clock[0])
    first, token = tokens.issue("ann", now=NOW)
    second, _ = tokens.issue("ann", now=NOW)
    assert tokens.known(first) is not None

    Tokens(store).revoke(token.id, NOW)

    assert tokens.known(second) is not None
    clock[0] = 5.0
    assert tokens.known(first) is None
    assert [one.revoked is None for one in tokens.all()].count(True) == 1
    assert len(tokens.revoke("ann", NOW)) == 1
    assert tokens.known(second) is None


@pytest.mark.parametrize("name", ["", "Ann", "a/b", "..", ".a", "a b", "a" * 65, "a\n"])
def test_a_name_that_could_lead_elsewhere_is_refused(name: str) -> None:
    with pytest.raises(TokenRefused):
        Tokens(MemoryStore()).issue(name, now=NOW)
    with pytest.raises(TokenRefused):
        Tokens(MemoryStore()).issue("ann", teams=(name,), now=NOW)


def test_a_token_in_a_transcript_is_masked() -> None:
    secret, _ = Tokens(MemoryStore()).issue("ann", now=NOW)

    assert secret not in Redactor().text(f"export X={secret} and {secret}")
