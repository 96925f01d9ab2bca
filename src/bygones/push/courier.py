"""The courier: carries parcels to a hub over HTTP, again and again if need be."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from ipaddress import ip_address
from typing import Protocol, Self
from urllib.parse import SplitResult, urlsplit

from msgspec import MsgspecError

from bygones import __version__
from bygones.errors import HubRefused, HubUnreachable
from bygones.push.wire import ACKS, PUSH, Answer, Parcel, pack, unpack_answer

__all__ = ["Carrying", "Courier"]

_WAIT = 120.0
"""Seconds for an answer."""
_TRIES = 6
_PAUSE = 0.5
"""Seconds before the second try; each further one waits twice as long."""
_LONGEST_PAUSE = 30.0
_LATER = frozenset({429, 500, 502, 503, 504})
_LARGEST = 256 * 1024 * 1024
"""Bytes of an answer."""


class Carrying(Protocol):
    """Whoever takes parcels to a hub."""

    def known(self, machine: str) -> Answer:
        """Return up to where the hub has each source of a machine."""
        ...

    def send(self, parcel: Parcel) -> Answer:
        """Bring a parcel, and return up to where the hub has its sources now."""
        ...


class Courier:
    """Talks to one hub with one token.

    A request that nobody answered is made again: whatever came of it, twice is once.
    """

    def __init__(
        self,
        address: str,
        token: str,
        *,
        tries: int = _TRIES,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.address = address.rstrip("/")
        self._token = token
        self._tries = tries
        self._sleep = sleep
        self._parts = _checked(self.address)
        self._line: HTTPConnection | None = None

    def known(self, machine: str) -> Answer:
        """Return up to where the hub has each source of a machine."""
        return self._asked("GET", f"{ACKS}?machine={machine}")

    def send(self, parcel: Parcel) -> Answer:
        """Bring a parcel, and return up to where the hub has its sources now."""
        return self._asked("POST", PUSH, pack(parcel))

    def __enter__(self) -> Self:
        """Use it as a context."""
        return self

    def __exit__(self, *_: object) -> None:
        """Hang up."""
        self.close()

    def close(self) -> None:
        """Hang up; the next request dials again."""
        if self._line is not None:
            self._line.close()
        self._line = None

    def _asked(self, method: str, path: str, body: bytes = b"") -> Answer:
        reason = ""
        for number in range(self._tries):
            if number:
                self._sleep(min(_PAUSE * 2 ** (number - 1), _LONGEST_PAUSE))
            try:
                status, told = self._once(method, path, body)
            except (OSError, HTTPException) as error:
                self.close()
                reason = str(error) or type(error).__name__
                continue
            if status == 200:  # noqa: PLR2004 (as everybody knows it)
                try:
                    return unpack_answer(told)
                except MsgspecError as error:
                    raise HubRefused(self.address, "it is no hub") from error
            reason = _sentence(told) or f"it answered {status}"
            if status not in _LATER:
                raise HubRefused(self.address, reason)
        raise HubUnreachable(self.address, reason)

    def _once(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        line = self._line = self._line or self._dialled()
        headers = {
            "Authorization": f"Bearer {self._token}",
            "Content-Type": "application/octet-stream",
            "User-Agent": f"bygones/{__version__}",
        }
        line.request(method, f"{self._parts.path}{path}", body or None, headers)
        answer = line.getresponse()
        told = answer.read(_LARGEST)
        if answer.will_close:
            self.close()
        return answer.status, told

    def _dialled(self) -> HTTPConnection:
        host, port = self._parts.hostname or "", self._parts.port
        if self._parts.scheme == "https":
            safe = ssl.create_default_context()
            return HTTPSConnection(host, port, timeout=_WAIT, context=safe)
        return HTTPConnection(host, port, timeout=_WAIT)


def _checked(address: str) -> SplitResult:
    """Return an address in parts; raise if others on the way could read along."""
    no_address = HubRefused(address, "no address; https://hub.example.com is one")
    try:
        parts = urlsplit(address)
        is_whole = parts.port != 0 and parts.hostname
    except ValueError:
        raise no_address from None
    if not is_whole or parts.scheme not in {"http", "https"}:
        raise no_address
    if parts.scheme == "http" and not _is_here(parts.hostname or ""):
        raise HubRefused(address, "over http everybody on the way can read; use https")
    return parts


def _is_here(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _sentence(told: bytes) -> str:
    """Return what a hub says of a failure: a short line of text, or nothing."""
    text = told[:300].decode("utf-8", "replace").strip()
    return text if text.isprintable() else ""
