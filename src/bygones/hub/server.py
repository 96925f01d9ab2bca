"""The hub's HTTP server: puts routes, middleware and the indexing thread together."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from msgspec import Struct

from bygones.hub.login_form import set_token_cookie
from bygones.hub.middleware import HubSecurityMiddleware, RequestObserver, utc_now
from bygones.hub.monitoring import AccessLog, Metrics
from bygones.hub.oidc import OidcClient, OidcConfig
from bygones.hub.routes import HubStatus, create_hub_app
from bygones.hub.sign_in import SignInRoutes
from bygones.hub.tenants import OpenReader, Tenants
from bygones.hub.uploads import UploadHandler, UploadLimits
from bygones.runtime import bind_socket
from bygones.team.access import TokenStore
from bygones.team.blobs import ExternalBlobStore
from bygones.team.stores.base import TeamStore
from bygones.team.worker import Derive, IndexWorker
from bygones.usage.prices import Prices
from bygones.web.server import create_server, warm_up

_SWITCH_INTERVAL = 0.0005
"""Seconds after which a thread yields to another."""


class HubConfig(Struct, frozen=True, kw_only=True):
    """Where a hub listens, and the host names that it accepts."""

    host: str = "127.0.0.1"
    port: int = 0
    """Zero for any free port."""
    hostnames: tuple[str, ...] = ()
    """Accepted values of ``Host``, besides the address."""
    prices: Prices | None = None
    upload_limits: UploadLimits = UploadLimits()
    max_requests: int = 0
    """Requests of a person per minute, without uploads; zero for any number."""
    log_file: Path | None = None
    oidc: OidcConfig | None = None


class HubServer:
    """The HTTP server of a hub. It has no state: several hubs may share the stores.

    ``store`` receives uploads and ``notes`` contains the tokens. They have separate
    connections, so that neither waits for the other.
    """

    def __init__(  # noqa: PLR0913 (most by name)
        self,
        store: TeamStore,
        blobs: ExternalBlobStore,
        config: HubConfig,
        *,
        open_reader: OpenReader,
        derive: Derive,
        notes: TeamStore,
        derive_long: Derive | None = None,
        stop_deriving: Callable[[], None] = lambda: None,
        describe_failures: Callable[[], str] = str,
        on_warning: Callable[[str], None] = lambda _warning: None,
    ) -> None:
        self._socket = bind_socket(config.host, config.port)
        self.port = int(self._socket.getsockname()[1])
        shown = f"[{config.host}]" if ":" in config.host else config.host
        self.address = f"http://{shown}:{self.port}"
        tokens = TokenStore(notes, time.monotonic)
        metrics = Metrics()
        log = AccessLog(config.log_file, metrics=metrics, on_warning=on_warning)
        tenants = Tenants(open_reader, config.prices, log)
        self.worker = IndexWorker(
            derive_long or derive,
            tenants.refresh,
            describe_failures=describe_failures,
            on_warning=on_warning,
            stop_deriving=stop_deriving,
        )
        if derive_long is not None:
            self.worker = self.worker.as_follower_of(derive)
        uploads = UploadHandler(store, blobs, config.upload_limits)
        oidc = OidcClient(config.oidc, tokens, utc_now) if config.oidc else None
        observer = RequestObserver(log, metrics, config.max_requests)
        status = HubStatus(
            notes,
            blobs,
            open_reader=open_reader,
            worker=self.worker,
            metrics=metrics,
        )
        app = create_hub_app(
            uploads,
            tokens,
            tenants,
            worker=self.worker,
            status=status,
            sign_in=SignInRoutes(oidc, log, set_token_cookie),
        )
        secured = HubSecurityMiddleware(
            app,
            tokens,
            host=config.host,
            port=self.port,
            hostnames=_with_port(config.hostnames, self.port),
            observer=observer,
        )
        self._server = create_server(secured, tenants.disconnect_listeners)

    def run(self) -> None:
        """Serve until Ctrl-C, or until :meth:`stop`."""
        warm_up()
        # Threads that waited for the database should continue at once.
        before = sys.getswitchinterval()
        sys.setswitchinterval(_SWITCH_INTERVAL)
        try:
            self._server.run(sockets=[self._socket])
        finally:
            sys.setswitchinterval(before)
            self._socket.close()

    def stop(self) -> None:
        """Stop serving, from any thread."""
        self._server.should_exit = True

    @property
    def is_started(self) -> bool:
        return self._server.started


def _with_port(hostnames: Iterable[str], port: int) -> set[str]:
    """Return names of hosts, without and with a port."""
    return {*hostnames, *(f"{name}:{port}" for name in hostnames)}
