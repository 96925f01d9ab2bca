"""A connection to a hub: HTTP with a token, and with retries."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable
from http.client import (
    HTTPConnection,
    HTTPException,
    HTTPResponse,
    HTTPSConnection,
    IncompleteRead,
)
from importlib.metadata import version
from ipaddress import ip_address
from urllib.parse import SplitResult, urlsplit

from bygones.errors import HubRejected, HubUnreachable, InvalidHubAddress

VERSION = version("bygones")
MAX_ATTEMPTS = 6
_TIMEOUT = 120.0
"""Seconds to wait for a response."""
_FIRST_DELAY = 0.5
"""Seconds before the second attempt; the delay doubles with each further one."""
_MAX_DELAY = 30.0
_RETRY_STATUSES = frozenset({429, 500, 502, 503, 504})
_MAX_RESPONSE_BYTES = 256 * 1024 * 1024
_MIN_BYTES_PER_SECOND = 4096
"""Of a response after `_TIMEOUT`; a hub that sends less would never be left."""


class HubConnection:
    """A connection to one hub with one token.

    Requests without a response are repeated: all of them are idempotent.
    """

    def __init__(
        self,
        address: str,
        token: str,
        *,
        max_attempts: int = MAX_ATTEMPTS,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.address = address.rstrip("/")
        self._token = token
        self._max_attempts = max_attempts
        self._sleep = sleep
        self._url = parse_hub_url(self.address)
        self._connection: HTTPConnection | None = None

    def close(self) -> None:
        """Close the connection; the next request opens a new one."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def request(self, method: str, path: str, body: bytes = b"") -> bytes:
        """Return the body of the response.

        :raises HubRejected: if the hub rejects the request.
        :raises HubUnreachable: if there is no response after several attempts.
        """
        reason = ""
        wait = 0.0
        for number in range(self._max_attempts):
            if number:
                delay = _FIRST_DELAY * 2 ** (number - 1)
                self._sleep(min(max(delay, wait), _MAX_DELAY))
            try:
                response, content = self._send_once(method, path, body)
            except (OSError, HTTPException) as error:
                self.close()
                reason = (
                    getattr(error, "strerror", "") or str(error) or type(error).__name__
                )
                continue
            if response.status == 200:  # noqa: PLR2004 (OK)
                return content
            reason = _error_message(response, content)
            if response.status not in _RETRY_STATUSES:
                raise HubRejected(self.address, reason)
            after = response.headers.get("retry-after", "")
            wait = float(after) if after.isdecimal() else 0.0
        raise HubUnreachable(self.address, reason)

    def _send_once(
        self, method: str, path: str, body: bytes
    ) -> tuple[HTTPResponse, bytes]:
        connection = self._connection = self._connection or self._connect()
        headers = {
            "Authorization": f"Bearer {self._token}",
            "Content-Type": "application/octet-stream",
            "User-Agent": f"bygones/{VERSION}",
        }
        connection.request(method, f"{self._url.path}{path}", body or None, headers)
        response = connection.getresponse()
        content = _read_body(response)
        if response.will_close:
            self.close()
        return response, content

    def _connect(self) -> HTTPConnection:
        host, port = self._url.hostname or "", self._url.port
        if self._url.scheme == "https":
            context = ssl.create_default_context()
            return HTTPSConnection(host, port, timeout=_TIMEOUT, context=context)
        return HTTPConnection(host, port, timeout=_TIMEOUT)


def _read_body(response: HTTPResponse) -> bytes:
    """Return the body; raise if it is too long, or if it comes too slowly."""
    start = time.monotonic()
    parts: list[bytes] = []
    size = 0
    while part := response.read1(1 << 16):
        parts.append(part)
        size += len(part)
        if size > _MAX_RESPONSE_BYTES:
            raise HTTPException(f"it sent more than {_MAX_RESPONSE_BYTES >> 20} MB")
        if time.monotonic() - start > _TIMEOUT + size / _MIN_BYTES_PER_SECOND:
            raise TimeoutError("the response came too slowly")
    if response.length:
        raise IncompleteRead(b"", response.length)
    response.close()  # the connection can be used again
    return b"".join(parts)


def parse_hub_url(url: str) -> SplitResult:
    """Split a URL; raise if others could read what is sent there."""
    invalid = InvalidHubAddress(url, "not a URL with https")
    try:
        parts = urlsplit(url)
        is_complete = parts.port != 0 and parts.hostname
    except ValueError:
        raise invalid from None
    if not is_complete or parts.scheme not in {"http", "https"}:
        raise invalid
    if parts.scheme == "http" and not _is_loopback_host(parts.hostname or ""):
        raise InvalidHubAddress(url, "http is not encrypted")
    return parts


def _is_loopback_host(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _error_message(response: HTTPResponse, body: bytes) -> str:
    """Return a short line of text; only the status if it is a page, as of a proxy."""
    text = body[:300].decode("utf-8", "replace").strip()
    is_text = response.headers.get_content_type() == "text/plain"
    if is_text and text and text.isprintable():
        return text
    return f"HTTP status {response.status}"
