"""Forged, foreign and old ID tokens are rejected."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import jwt
import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from bygones.errors import InvalidHubAddress, SignInFailed
from bygones.hub import oidc
from bygones.hub.id_tokens import IdTokenVerifier
from bygones.hub.oidc import OidcClient, OidcConfig
from bygones.team.access import TokenStore
from tests.team.memory import MemoryStore

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
ISSUER = "https://login.example.com"
RSA_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER_RSA_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())
CLAIMS = {
    "iss": ISSUER,
    "aud": "hub",
    "sub": "1",
    "email": "ann@example.com",
    "nonce": "n1",
    "iat": NOW.timestamp(),
    "exp": (NOW + timedelta(minutes=5)).timestamp(),
}


def published(**changes: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    keys = {
        "r1": json.loads(RSAAlgorithm.to_jwk(RSA_KEY.public_key())),
        "e1": json.loads(ECAlgorithm.to_jwk(EC_KEY.public_key())),
    }
    return {
        name: {"kid": name, **key, **changes.get(name, {})}
        for name, key in keys.items()
    }


class Provider:
    """Publishes keys, and counts how often they are fetched."""

    def __init__(self) -> None:
        self.keys = published()
        self.fetched = 0

    def fetch(self) -> bytes:
        self.fetched += 1
        return json.dumps({"keys": list(self.keys.values())}).encode()


@pytest.fixture
def provider() -> Provider:
    return Provider()


@pytest.fixture
def verifier(provider: Provider) -> IdTokenVerifier:
    return IdTokenVerifier(ISSUER, "hub", lambda: NOW, provider.fetch)


def signed(
    claims: Mapping[str, Any] | None = None,
    *,
    key: Any = RSA_KEY,  # noqa: ANN401 (of any algorithm)
    algorithm: str = "RS256",
    kid: str | None = "r1",
) -> str:
    headers = {"kid": kid} if kid else None
    return jwt.encode({**CLAIMS, **(claims or {})}, key, algorithm, headers=headers)


@pytest.mark.parametrize(
    "token",
    [
        signed(),
        signed(kid=None),
        signed(algorithm="PS256"),
        signed(key=EC_KEY, algorithm="ES256", kid="e1"),
        signed({"aud": ["hub", "other"], "azp": "hub"}),
        signed({"exp": (NOW - timedelta(seconds=30)).timestamp()}),
    ],
    ids=["rsa", "no kid", "pss", "ec", "two audiences", "slow clock"],
)
def test_valid_token_is_accepted(verifier: IdTokenVerifier, token: str) -> None:
    assert verifier.verify(token, "n1")["email"] == "ann@example.com"


def _part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def _confused() -> str:
    """Return a token whose HMAC key is the public key."""
    public = RSA_KEY.public_key().public_bytes(
        Encoding.PEM, PublicFormat.SubjectPublicKeyInfo
    )
    head = f"{_part({'alg': 'HS256', 'kid': 'r1'})}.{_part(CLAIMS)}"
    mac = hmac.new(public, head.encode(), hashlib.sha256).digest()
    return f"{head}.{base64.urlsafe_b64encode(mac).rstrip(b'=').decode()}"


def _changed() -> str:
    head, _, signature = signed().split(".")
    return f"{head}.{_part({**CLAIMS, 'email': 'boss@example.com'})}.{signature}"


FORGED = {
    "alg none": f"{_part({'alg': 'none'})}.{_part(CLAIMS)}.",
    "alg None": f"{_part({'alg': 'None', 'kid': 'r1'})}.{_part(CLAIMS)}.",
    "hmac with the public key": _confused(),
    "other key": signed(key=OTHER_RSA_KEY),
    "unknown key": signed(key=OTHER_RSA_KEY, kid="r2"),
    "other key without name": signed(key=OTHER_RSA_KEY, kid=None),
    "changed claims": _changed(),
    "no signature": signed().rpartition(".")[0] + ".",
    "key of another kind": signed(kid="e1"),
    "own key in the header": jwt.encode(
        CLAIMS,
        OTHER_RSA_KEY,
        "RS256",
        headers={"jwk": json.loads(RSAAlgorithm.to_jwk(OTHER_RSA_KEY.public_key()))},
    ),
    "other audience": signed({"aud": "mail"}),
    "several audiences": signed({"aud": ["mail", "hub"]}),
    "other party": signed({"azp": "mail"}),
    "other issuer": signed({"iss": "https://evil.example.com"}),
    "issuer as a prefix": signed({"iss": f"{ISSUER}.evil.com"}),
    "expired": signed({"exp": (NOW - timedelta(minutes=2)).timestamp()}),
    "no expiry": signed({"exp": None}),
    "from the future": signed({"iat": (NOW + timedelta(hours=1)).timestamp()}),
    "nonce of another sign-in": signed({"nonce": "n0"}),
    "no nonce": signed({"nonce": ""}),
    "garbage": "garbage",
    "empty": "",
}


@pytest.mark.parametrize("token", FORGED.values(), ids=FORGED)
def test_forged_token_is_rejected(verifier: IdTokenVerifier, token: str) -> None:
    with pytest.raises(SignInFailed):
        verifier.verify(token, "n1")


def test_symmetric_and_encryption_keys_are_not_used(
    verifier: IdTokenVerifier, provider: Provider
) -> None:
    secret = base64.urlsafe_b64encode(b"k" * 32).decode()
    provider.keys = {
        "o": {"kty": "oct", "k": secret, "kid": "r1"},
        **published(r1={"use": "enc"}),
    }

    for token in (signed(), signed(key=b"k" * 32, algorithm="HS256")):
        with pytest.raises(SignInFailed):
            verifier.verify(token, "n1")


def test_new_key_is_fetched_and_unknown_ones_not_more_than_once_a_minute(
    provider: Provider,
) -> None:
    now = [NOW]
    verifier = IdTokenVerifier(ISSUER, "hub", lambda: now[0], provider.fetch)
    verifier.verify(signed(), "n1")
    for _ in range(5):
        with pytest.raises(SignInFailed):
            verifier.verify(signed(key=OTHER_RSA_KEY, kid="r2"), "n1")
    assert provider.fetched == 1
    public = json.loads(RSAAlgorithm.to_jwk(OTHER_RSA_KEY.public_key()))
    provider.keys["r2"] = {"kid": "r2", **public}
    now[0] += timedelta(minutes=1)

    assert verifier.verify(signed(key=OTHER_RSA_KEY, kid="r2"), "n1")
    assert provider.fetched == 2
    del provider.keys["r1"]  # revoked
    now[0] += timedelta(hours=1)
    with pytest.raises(SignInFailed):
        verifier.verify(signed({"exp": now[0].timestamp()}), "n1")


@pytest.fixture
def client(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> tuple[OidcClient, list[str]]:
    """Return a client of a provider that returns the ID token in the list."""
    tokens: list[str] = []
    names = ("authorization_endpoint", "token_endpoint", "jwks_uri")
    found = {name: f"{ISSUER}/{name}" for name in names}

    def get(url: str) -> bytes:
        if url.endswith("openid-configuration"):
            return json.dumps({"issuer": ISSUER, **found}).encode()
        return provider.fetch()

    def post(_url: str, _form: object) -> tuple[int, bytes]:
        return 200, json.dumps({"id_token": tokens[-1]}).encode()

    monkeypatch.setattr(oidc, "_get", get)
    monkeypatch.setattr(oidc, "_post", post)
    config = OidcConfig(
        issuer=ISSUER, client_id="hub", base_url="https://hub.example.com"
    )
    return OidcClient(config, TokenStore(MemoryStore()), lambda: NOW), tokens


def test_sign_in_ends_once_and_only_with_its_own_token(
    client: tuple[OidcClient, list[str]],
) -> None:
    signing_in, tokens = client
    _, cookie = signing_in.start()
    own = json.loads(base64.urlsafe_b64decode(cookie))
    tokens.append(signed())  # a valid one, of another sign-in
    with pytest.raises(SignInFailed, match="another sign-in"):
        signing_in.finish("code", own["state"], cookie)
    _, cookie = signing_in.start()
    own = json.loads(base64.urlsafe_b64decode(cookie))
    tokens.append(signed({"nonce": own["nonce"]}))

    _, token = signing_in.finish("code", own["state"], cookie)

    assert token.person == "ann@example.com"
    with pytest.raises(SignInFailed, match="has ended"):
        signing_in.finish("code", own["state"], cookie)


def test_made_up_sign_ins_do_not_prevent_others(
    client: tuple[OidcClient, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Anyone can send a state with a cookie that contains it."""
    monkeypatch.setattr(oidc, "_MAX_USED_STATES", 2)
    signing_in, tokens = client
    tokens.append(signed())
    for number in range(3):
        state = {"state": f"s{number}", "nonce": "", "verifier": ""}
        cookie = base64.urlsafe_b64encode(json.dumps(state).encode()).decode()
        with pytest.raises(SignInFailed):
            signing_in.finish("code", f"s{number}", cookie)
    _, cookie = signing_in.start()
    own = json.loads(base64.urlsafe_b64decode(cookie))
    tokens.append(signed({"nonce": own["nonce"]}))

    assert signing_in.finish("code", own["state"], cookie)


def test_made_up_cookie_without_a_nonce_is_rejected(
    client: tuple[OidcClient, list[str]],
) -> None:
    signing_in, tokens = client
    state = {"state": "s", "nonce": "", "verifier": ""}
    cookie = base64.urlsafe_b64encode(json.dumps(state).encode()).decode()
    for nonce in ("n1", ""):
        tokens.append(signed({"nonce": nonce}))
        with pytest.raises(SignInFailed, match="another sign-in"):
            signing_in.finish("code", "s", cookie)


def test_state_in_another_script_is_rejected(
    client: tuple[OidcClient, list[str]],
) -> None:
    signing_in, _ = client
    _, cookie = signing_in.start()

    with pytest.raises(SignInFailed, match="did not start"):
        signing_in.finish("code", "état", cookie)


@pytest.mark.parametrize(
    ("claim", "teams"),
    [("shop", ("shop",)), (["Shop", 7], ("shop",)), (7, ()), (True, ()), (None, ())],
)
def test_only_texts_are_groups(
    client: tuple[OidcClient, list[str]], claim: object, teams: tuple[str, ...]
) -> None:
    signing_in, tokens = client
    _, cookie = signing_in.start()
    own = json.loads(base64.urlsafe_b64decode(cookie))
    tokens.append(signed({"nonce": own["nonce"], "groups": claim}))

    assert signing_in.finish("code", own["state"], cookie)[1].teams == teams


@pytest.mark.parametrize("claim", [False, "false"])
def test_email_that_is_not_verified_is_rejected(
    client: tuple[OidcClient, list[str]], claim: object
) -> None:
    signing_in, tokens = client
    _, cookie = signing_in.start()
    own = json.loads(base64.urlsafe_b64decode(cookie))
    tokens.append(signed({"nonce": own["nonce"], "email_verified": claim}))

    with pytest.raises(SignInFailed, match="not verified"):
        signing_in.finish("code", own["state"], cookie)


def test_invalid_addresses_are_reported_at_the_start() -> None:
    for issuer, base_url in (
        (ISSUER, "hub.example.com"),
        ("http://login.example", "https://hub.example.com"),
    ):
        config = OidcConfig(issuer=issuer, client_id="hub", base_url=base_url)
        with pytest.raises(InvalidHubAddress):
            OidcClient(config, TokenStore(MemoryStore()), lambda: NOW)


def test_misspelled_setting_is_rejected() -> None:
    text = 'issuer = "a"\nclient_id = "b"\nbase_url = "c"\nauditors_group = "d"'

    with pytest.raises(msgspec.ValidationError, match="auditors_group"):
        msgspec.toml.decode(text, type=OidcConfig)


def test_provider_that_cannot_be_asked_is_a_failed_sign_in() -> None:
    with pytest.raises(SignInFailed, match="cannot be reached: Connection refused"):
        oidc._get("http://127.0.0.1:1/keys")
    with pytest.raises(SignInFailed, match=r"login.example/keys': http is not"):
        oidc._get("http://login.example/keys")
