"""Listening sockets of the local servers."""

from __future__ import annotations

import socket

from bygones.errors import SystemFailure

BACKLOG = 512
"""Connections that may wait to be accepted."""


def bind_socket(host: str, port: int) -> socket.socket:
    """Return a socket that listens at an address; port 0 chooses a free one.

    Connections that arrive before the server accepts them wait in the backlog.

    Raises `SystemFailure` if the address cannot be used.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    # Accepted connections inherit this. With Nagle's algorithm, a short response waits
    # 40 ms for an acknowledgement.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        reason = (error.strerror or str(error)).lower()
        raise SystemFailure(f"{host} port {port}: {reason}") from error
    return listener
