"""How `bygones open` recognizes the server whose link it has, without sending the key."""

from __future__ import annotations

import hmac


def prove_key(key: str, challenge: str) -> str:
    """Return what only a server with a key can answer to a challenge."""
    return hmac.new(key.encode(), challenge.encode(), "sha256").hexdigest()
