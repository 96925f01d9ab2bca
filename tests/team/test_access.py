"""A token identifies a person; only its hash is stored."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from bygones.errors import InvalidAccountName
from bygones.redact.engine import Redactor
from bygones.team.access import TokenStore
from bygones.team.contract import AccessRole, AccessScope
from tests.team.memory import MemoryStore

NOW = datetime(2026, 11, 15, tzinfo=UTC)


def test_issued_token_is_recognized_and_stored_only_as_hash() -> None:
    store = MemoryStore()
    secret, token = TokenStore(store).issue(
        "ann", teams=("shop", "api"), role=AccessRole.TEAM, label="laptop", now=NOW
    )

    found = TokenStore(store).authenticate(secret)

    assert found == token
    assert found is not None
    assert found.scope == AccessScope(
        person="ann", teams=("api", "shop"), role=AccessRole.TEAM
    )
    assert secret.encode() not in repr(store.list_notes("token")).encode()


@pytest.mark.parametrize("secret", ["", "byg_", "byg_wrong", "x" * 5000, "byg_\udcff"])
def test_invalid_token_is_rejected(secret: str) -> None:
    store = MemoryStore()
    TokenStore(store).issue("ann", now=NOW)

    assert TokenStore(store).authenticate(secret) is None


def test_revoked_token_is_rejected_everywhere_after_the_cache_expires() -> None:
    store = MemoryStore()
    clock = [0.0]
    tokens = TokenStore(store, lambda: clock[0])
    first, token = tokens.issue("ann", now=NOW)
    second, _ = tokens.issue("ann", now=NOW)
    assert tokens.authenticate(first) is not None

    TokenStore(store).revoke(token.id, NOW)

    assert tokens.authenticate(second) is not None
    clock[0] = 5.0
    assert tokens.authenticate(first) is None
    assert [one.revoked_at is None for one in tokens.list_tokens()].count(True) == 1
    assert len(tokens.revoke("ann", NOW)) == 1
    assert tokens.authenticate(second) is None


@pytest.mark.parametrize("name", ["", "Ann", "a/b", "..", ".a", "a b", "a" * 65, "a\n"])
def test_account_name_with_path_characters_is_rejected(name: str) -> None:
    with pytest.raises(InvalidAccountName):
        TokenStore(MemoryStore()).issue(name, now=NOW)
    with pytest.raises(InvalidAccountName):
        TokenStore(MemoryStore()).issue("ann", teams=(name,), now=NOW)


def test_token_in_a_transcript_is_redacted() -> None:
    secret, _ = TokenStore(MemoryStore()).issue("ann", now=NOW)

    assert secret not in Redactor().redact_text(f"export X={secret} and {secret}")
