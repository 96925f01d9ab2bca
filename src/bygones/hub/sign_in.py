"""The routes of a hub with which people sign in at a provider."""

from __future__ import annotations

from collections.abc import Callable

import anyio.to_thread
import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bygones.errors import BygonesError, SignInFailed
from bygones.hub.monitoring import AccessLog
from bygones.hub.oidc import (
    CALLBACK_PATH,
    DEVICE_PATH,
    DEVICE_TOKEN_PATH,
    START_PATH,
    STATE_COOKIE,
    STATE_SECONDS,
    OidcClient,
)
from bygones.model.base import DECODE_ERRORS
from bygones.web.security import error_response, is_loopback

SIGN_IN_PATHS = frozenset({START_PATH, CALLBACK_PATH, DEVICE_PATH, DEVICE_TOKEN_PATH})


class _DeviceRequest(msgspec.Struct):
    device_code: str


class SignInRoutes:
    """Answers requests of browsers and of ``bygones hub login``."""

    def __init__(
        self,
        client: OidcClient | None,
        log: AccessLog,
        set_cookie: Callable[[str, str], Response],
    ) -> None:
        self._client = client
        self._log = log
        self._set_cookie = set_cookie

    @property
    def is_enabled(self) -> bool:
        return self._client is not None

    def routes(self) -> list[Route]:
        return [
            Route(START_PATH, self._start, methods=["GET"]),
            Route(CALLBACK_PATH, self._finish, methods=["GET"]),
            Route(DEVICE_PATH, self._start_device, methods=["POST"]),
            Route(DEVICE_TOKEN_PATH, self._finish_device, methods=["POST"]),
        ]

    async def _start(self, request: Request) -> Response:
        client = self._client
        if client is None:
            return error_response(404, "This hub has no sign-in provider; use a token.")
        try:
            url, cookie = await anyio.to_thread.run_sync(client.start)
        except SignInFailed as error:
            return error_response(502, str(error))
        host = request.headers["host"].rpartition(":")[0] or request.headers["host"]
        secure = "" if is_loopback(host) else "; Secure"
        # The provider sends the browser back, so the cookie must come with it.
        flags = f"HttpOnly; SameSite=Lax; Path=/oidc; Max-Age={STATE_SECONDS}{secure}"
        headers = {"Location": url, "Set-Cookie": f"{STATE_COOKIE}={cookie}; {flags}"}
        return Response(status_code=303, headers=headers)

    async def _finish(self, request: Request) -> Response:
        client = self._client
        if client is None:
            return error_response(404, "This hub has no sign-in provider; use a token.")
        query = request.query_params
        cookie = request.cookies.get(STATE_COOKIE, "")
        try:
            secret, token = await anyio.to_thread.run_sync(
                client.finish, query.get("code", ""), query.get("state", ""), cookie
            )
        except SignInFailed as error:
            self._log.write(event="sign-in", status=403)
            return error_response(403, str(error))
        except BygonesError as error:
            return error_response(503, str(error), {"Retry-After": "2"})
        self._log.write(
            event="sign-in", person=token.person, token=token.id, status=200
        )
        return self._set_cookie(secret, request.headers["host"])

    async def _start_device(self, _request: Request) -> Response:
        client = self._client
        if client is None:
            return error_response(404, "This hub has no sign-in provider; use a token.")
        try:
            code = await anyio.to_thread.run_sync(client.start_device)
        except SignInFailed as error:
            return error_response(403, str(error))
        return _json_response(code)

    async def _finish_device(self, request: Request) -> Response:
        client = self._client
        if client is None:
            return error_response(404, "This hub has no sign-in provider; use a token.")
        try:
            asked = msgspec.json.decode(await request.body(), type=_DeviceRequest)
            answer = await anyio.to_thread.run_sync(
                client.finish_device, asked.device_code
            )
        except DECODE_ERRORS:
            return error_response(400, "A device_code is required.")
        except SignInFailed as error:
            return error_response(403, str(error))
        except BygonesError as error:
            return error_response(503, str(error), {"Retry-After": "2"})
        if answer.person:
            self._log.write(event="sign-in", person=answer.person, status=200)
        return _json_response(answer)


def _json_response(value: msgspec.Struct) -> Response:
    return Response(msgspec.json.encode(value), media_type="application/json")
