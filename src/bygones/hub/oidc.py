"""Sign in with OpenID Connect: in the browser, or with a code on the command line.

The hub is the client of the provider. It gets the ID token from the provider's token
endpoint, and checks its signature. After that, the person has a token of the hub, which
expires.
"""

from __future__ import annotations

import hashlib
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import msgspec
from msgspec import Struct

from bygones.errors import (
    InvalidAccountName,
    InvalidHubAddress,
    MissingDependency,
    SignInFailed,
)
from bygones.team.access import AccessToken, TokenStore
from bygones.team.connection import parse_hub_url
from bygones.team.contract import AccessRole

START_PATH = "/oidc/start"
CALLBACK_PATH = "/oidc/callback"
DEVICE_PATH = "/oidc/device"
DEVICE_TOKEN_PATH = "/oidc/device/token"  # noqa: S105 (a path)
STATE_COOKIE = "bygones-oidc"
STATE_SECONDS = 600
_TIMEOUT = 10.0
_MAX_ANSWER_BYTES = 1024 * 1024
_DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
_PENDING = frozenset({"authorization_pending", "slow_down"})
_MAX_USED_STATES = 10_000


class OidcConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The provider, and what its claims mean for a hub."""

    issuer: str
    client_id: str
    client_secret: str = ""
    base_url: str
    """The public address of the hub, to which the provider sends people back."""
    person_claim: str = "email"
    groups_claim: str = "groups"
    teams_by_group: Mapping[str, str] = {}
    """If empty, groups are teams of the same name."""
    auditor_group: str = ""
    token_hours: int = 12
    """How long a sign-in lasts."""


class SignInState(Struct, frozen=True):
    """What a browser keeps between the start of a sign-in and its end."""

    state: str
    nonce: str
    verifier: str


class DeviceCode(Struct, frozen=True):
    """What a person enters on another device, from the provider."""

    device_code: str
    user_code: str
    verification_uri: str
    expires_in: int
    verification_uri_complete: str = ""
    interval: int = 5


class DeviceAnswer(Struct, frozen=True):
    """Whether a person has signed in with a code; then their token."""

    status: str
    token: str = ""
    person: str = ""


class _Discovery(Struct, frozen=True):
    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    device_authorization_endpoint: str = ""


class _TokenAnswer(Struct, frozen=True):
    id_token: str = ""
    error: str = ""


class OidcClient:
    """Lets people sign in with a provider, and issues tokens of the hub to them."""

    def __init__(
        self, config: OidcConfig, tokens: TokenStore, clock: Callable[[], datetime]
    ) -> None:
        self._config = config
        self._tokens = tokens
        self._clock = clock
        self._discovered: _Discovery | None = None
        for url in (config.issuer, config.base_url):
            parse_hub_url(url)
        try:
            from bygones.hub.id_tokens import IdTokenVerifier
        except ImportError as error:
            raise MissingDependency(error.name or "pyjwt") from error
        self._verifier = IdTokenVerifier(
            config.issuer,
            config.client_id,
            clock,
            lambda: _get(self._discover().jwks_uri),
        )
        self._used_states: dict[str, datetime] = {}
        """States of sign-ins that have ended: none is used twice."""

    @property
    def redirect_url(self) -> str:
        return f"{self._config.base_url.rstrip('/')}{CALLBACK_PATH}"

    def start(self) -> tuple[str, str]:
        """Return the address of the provider's page, and the cookie to set before."""
        state = SignInState(*(secrets.token_urlsafe(32) for _ in range(3)))
        challenge = hashlib.sha256(state.verifier.encode()).digest()
        query = {
            "response_type": "code",
            "client_id": self._config.client_id,
            "redirect_uri": self.redirect_url,
            "scope": f"openid profile email {self._config.groups_claim}",
            "state": state.state,
            "nonce": state.nonce,
            "code_challenge": urlsafe_b64encode(challenge).rstrip(b"=").decode(),
            "code_challenge_method": "S256",
        }
        cookie = urlsafe_b64encode(msgspec.json.encode(state)).decode()
        return f"{self._discover().authorization_endpoint}?{urlencode(query)}", cookie

    def finish(self, code: str, state: str, cookie: str) -> tuple[str, AccessToken]:
        """Return a token of the hub for the person who comes back from the provider."""
        try:
            known = msgspec.json.decode(urlsafe_b64decode(cookie), type=SignInState)
        except (ValueError, msgspec.MsgspecError):
            raise SignInFailed("this browser did not start the sign-in") from None
        is_same = secrets.compare_digest(state.encode(), known.state.encode())
        if not code or not is_same:
            raise SignInFailed("this browser did not start the sign-in")
        if state in self._used_states:
            raise SignInFailed("this sign-in has ended; start again")
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self.redirect_url,
            "code_verifier": known.verifier,
        }
        claims = self._verifier.verify(self._ask_token(form).id_token, known.nonce)
        self._use_state(state)
        return self._issue(claims)

    def _use_state(self, state: str) -> None:
        """Remember a state that the provider has confirmed.

        Anyone can make up others; they must not fill the memory.
        """
        now = self._clock()
        oldest = now - timedelta(seconds=2 * STATE_SECONDS)
        used = {one: at for one, at in self._used_states.items() if at > oldest}
        if state in used or len(used) >= _MAX_USED_STATES:
            raise SignInFailed("this sign-in has ended; start again")
        self._used_states = {**used, state: now}

    def start_device(self) -> DeviceCode:
        """Return a code that a person enters on a page of the provider."""
        url = self._discover().device_authorization_endpoint
        if not url:
            raise SignInFailed("the provider has no device flow")
        scope = f"openid profile email {self._config.groups_claim}"
        raw = _post(url, self._authenticated({"scope": scope}))[1]
        try:
            return msgspec.json.decode(raw, type=DeviceCode)
        except msgspec.MsgspecError:
            raise SignInFailed("the provider rejects the device flow") from None

    def finish_device(self, device_code: str) -> DeviceAnswer:
        """Return the token of the person, if they have entered the code."""
        answer = self._ask_token(
            {"grant_type": _DEVICE_GRANT, "device_code": device_code}, allowed=_PENDING
        )
        if answer.error:
            return DeviceAnswer("pending")
        secret, token = self._issue(self._verifier.verify(answer.id_token))
        return DeviceAnswer("complete", secret, token.person)

    def _discover(self) -> _Discovery:
        if self._discovered is None:
            issuer = self._config.issuer.rstrip("/")
            raw = _get(f"{issuer}/.well-known/openid-configuration")
            try:
                found = msgspec.json.decode(raw, type=_Discovery)
            except msgspec.MsgspecError:
                raise SignInFailed("the provider cannot be discovered") from None
            if found.issuer.rstrip("/") != issuer:
                raise SignInFailed("the provider names another issuer")
            self._discovered = found
        return self._discovered

    def _authenticated(self, form: dict[str, str]) -> dict[str, str]:
        form["client_id"] = self._config.client_id
        if self._config.client_secret:
            form["client_secret"] = self._config.client_secret
        return form

    def _ask_token(
        self, form: dict[str, str], allowed: frozenset[str] = frozenset()
    ) -> _TokenAnswer:
        raw = _post(self._discover().token_endpoint, self._authenticated(form))[1]
        try:
            answer = msgspec.json.decode(raw, type=_TokenAnswer)
        except msgspec.MsgspecError:
            raise SignInFailed("the provider's answer cannot be read") from None
        if answer.error and answer.error not in allowed:
            raise SignInFailed(f"the provider says {answer.error[:60]}")
        return answer

    def _issue(self, claims: Mapping[str, Any]) -> tuple[str, AccessToken]:
        config = self._config
        person = claims.get(config.person_claim)
        if not isinstance(person, str) or not person:
            raise SignInFailed(f"the ID token has no {config.person_claim}")
        is_unverified = claims.get("email_verified") in (False, "false")
        if config.person_claim == "email" and is_unverified:
            raise SignInFailed("the email address is not verified")
        listed = claims.get(config.groups_claim)
        if isinstance(listed, str):
            listed = [listed]
        groups = (
            [one for one in listed if isinstance(one, str)]
            if isinstance(listed, list)
            else []
        )
        if config.teams_by_group:
            known = config.teams_by_group
            teams = {known[group] for group in groups if group in known}
        else:
            teams = {group.lower() for group in groups}
        role = AccessRole.TEAM
        if config.auditor_group and config.auditor_group in groups:
            role = AccessRole.AUDITOR
        now = self._clock()
        try:
            return self._tokens.issue(
                person.lower(),
                teams=tuple(teams),
                role=role,
                label="signed in",
                now=now,
                expires_at=now + timedelta(hours=config.token_hours),
            )
        except InvalidAccountName as error:
            raise SignInFailed(str(error)) from None


def _get(url: str) -> bytes:
    return _send(Request(url, headers={"Accept": "application/json"}))[1]  # noqa: S310 (from the configuration)


def _post(url: str, form: Mapping[str, str]) -> tuple[int, bytes]:
    headers = {"Accept": "application/json"}
    return _send(Request(url, urlencode(form).encode(), headers))  # noqa: S310 (as above)


def _send(request: Request) -> tuple[int, bytes]:
    try:
        parse_hub_url(request.full_url)
        with urlopen(request, timeout=_TIMEOUT) as response:  # noqa: S310 (http or https)
            return response.status, response.read(_MAX_ANSWER_BYTES)
    except HTTPError as error:
        return error.code, error.read(_MAX_ANSWER_BYTES)
    except InvalidHubAddress as error:
        raise SignInFailed(f"the provider named an {error}") from None
    except OSError as error:
        reason = error.reason if isinstance(error, URLError) else error
        text = getattr(reason, "strerror", None) or str(reason)
        raise SignInFailed(f"the provider cannot be reached: {text}") from None
