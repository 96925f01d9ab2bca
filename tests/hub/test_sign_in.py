"""Requests to the sign-in routes of a hub that are not valid."""

from __future__ import annotations

from unittest.mock import Mock

from starlette.applications import Starlette
from starlette.testclient import TestClient

from bygones.hub.login_form import set_token_cookie
from bygones.hub.monitoring import AccessLog
from bygones.hub.oidc import DEVICE_TOKEN_PATH, OidcClient
from bygones.hub.sign_in import SignInRoutes


def test_deeply_nested_request_for_a_token_gets_400() -> None:
    routes = SignInRoutes(Mock(OidcClient), AccessLog(), set_token_cookie).routes()
    nested = b'{"device_code": "x", "unknown": ' + b"[" * 60_000

    with TestClient(Starlette(routes=routes)) as client:
        assert client.post(DEVICE_TOKEN_PATH, content=nested).status_code == 400
