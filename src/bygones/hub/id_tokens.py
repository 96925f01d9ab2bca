"""Check ID tokens of a provider: their signature, and what they claim.

The checks are those of OpenID Connect Core, 3.1.3.7. Only signatures with a public key
are accepted: ``none`` and HMAC, whose key a client could know, are not.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from datetime import datetime
from typing import Any

import jwt
import msgspec
from jwt.types import Options

from bygones.errors import SignInFailed

_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "ES256", "ES384")
_KEY_TYPES = frozenset({"RSA", "EC"})
_CLOCK_SKEW = 60
_REFRESH_SECONDS = 60
"""How often keys are fetched again, if a token names one that is unknown."""
_MAX_AGE_SECONDS = 3600
"""How long keys are used before they are fetched again: one may be revoked."""
_UNCHECKED: Options = {
    "verify_exp": False,
    "verify_nbf": False,
    "verify_iat": False,
    "verify_aud": False,
    "verify_iss": False,
    "verify_sub": False,
    "verify_jti": False,
}
"""Claims are checked here, by the hub's clock and with its messages."""


class _KeySet(msgspec.Struct, frozen=True):
    keys: list[dict[str, Any]]


class IdTokenVerifier:
    """Checks ID tokens with the keys that a provider publishes."""

    def __init__(
        self,
        issuer: str,
        client_id: str,
        clock: Callable[[], datetime],
        fetch_keys: Callable[[], bytes],
    ) -> None:
        self._issuer = issuer.rstrip("/")
        self._client_id = client_id
        self._clock = clock
        self._fetch_keys = fetch_keys
        self._keys: list[jwt.PyJWK] = []
        self._fetched_at: float | None = None

    def verify(self, token: str, nonce: str | None = None) -> dict[str, Any]:
        """Return the claims of a token.

        ``nonce`` is what a browser has sent; ``None`` for the device flow.

        :raises SignInFailed: if it is not valid, or not for this sign-in.
        """
        claims = self._verify_signature(token)
        now = self._clock().timestamp()
        audience = claims.get("aud")
        audiences = audience if isinstance(audience, list) else [audience]
        if str(claims.get("iss", "")).rstrip("/") != self._issuer:
            raise SignInFailed("the ID token is from another issuer")
        if self._client_id not in audiences:
            raise SignInFailed("the ID token is for another client")
        if claims.get("azp", self._client_id) != self._client_id or (
            len(audiences) > 1 and "azp" not in claims
        ):
            raise SignInFailed("the ID token is for another client")
        if _number(claims.get("exp")) + _CLOCK_SKEW < now:
            raise SignInFailed("the ID token has expired")
        if _number(claims.get("iat"), now) - _CLOCK_SKEW > now:
            raise SignInFailed("the ID token is from the future; check the clocks")
        known = str(claims.get("nonce", ""))
        if nonce is not None and not (
            nonce and secrets.compare_digest(known.encode(), nonce.encode())
        ):
            raise SignInFailed("the ID token belongs to another sign-in")
        return claims

    def _verify_signature(self, token: str) -> dict[str, Any]:
        try:
            header = jwt.get_unverified_header(token)
        except jwt.PyJWTError:
            raise SignInFailed("the ID token cannot be read") from None
        algorithm = header.get("alg")
        if algorithm not in _ALGORITHMS:
            raise SignInFailed("the ID token is not signed with a public key")
        for key in self._find_keys(header.get("kid"), algorithm):
            try:
                claims: dict[str, Any] = jwt.decode(
                    token, key, algorithms=[algorithm], options=_UNCHECKED
                )
            except jwt.PyJWTError:
                continue
            return claims
        raise SignInFailed("the signature of the ID token is not valid")

    def _find_keys(self, name: object, algorithm: str) -> list[jwt.PyJWK]:
        """Return the keys that may have signed a token; new ones are fetched."""
        now = self._clock().timestamp()
        age = now - self._fetched_at if self._fetched_at is not None else None
        found = self._matching(name, algorithm)
        limit = _MAX_AGE_SECONDS if found else _REFRESH_SECONDS
        if age is None or age < 0 or age >= limit:
            self._keys = _load_keys(self._fetch_keys())
            self._fetched_at = now
            found = self._matching(name, algorithm)
        return found

    def _matching(self, name: object, algorithm: str) -> list[jwt.PyJWK]:
        return [
            key
            for key in self._keys
            if name in {None, key.key_id} and _can_verify(key, algorithm)
        ]


def _can_verify(key: jwt.PyJWK, algorithm: str) -> bool:
    """Whether a key is for an algorithm; one that names none takes its family."""
    return key.algorithm_name == algorithm


def _load_keys(raw: bytes) -> list[jwt.PyJWK]:
    try:
        listed = msgspec.json.decode(raw, type=_KeySet).keys
    except msgspec.MsgspecError:
        raise SignInFailed("the keys of the provider cannot be read") from None
    found: list[jwt.PyJWK] = []
    for one in listed:
        if one.get("kty") not in _KEY_TYPES or one.get("use", "sig") != "sig":
            continue
        names = (one["alg"],) if "alg" in one else _ALGORITHMS
        for algorithm in names:
            try:
                found.append(jwt.PyJWK(one, algorithm=algorithm))
            except (jwt.PyJWTError, ValueError, TypeError, KeyError):
                continue  # of another family, or damaged
    return found


def _number(value: object, default: float = 0.0) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number else default  # type: ignore[arg-type]
