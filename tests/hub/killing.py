"""Starts hubs and pushes in processes that tests kill."""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import time
from contextlib import suppress
from importlib import import_module
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path

from bygones.cli.main import main
from bygones.errors import HubUnreachable
from bygones.hub.client import HubClient, push
from bygones.redact.engine import Redactor

__all__ = ["Child", "context", "free_port", "push_all", "serve"]

# Modules are imported once, in the fork server.
for _name in ("hub.server", "cli.commands.hub", "team.worker", "team.stores.postgres"):
    with suppress(ImportError):
        import_module(f"bygones.{_name}")

Child = ForkServerProcess


def context() -> ForkServerContext:
    """Return a fork server context that has the modules loaded."""
    forkserver = multiprocessing.get_context("forkserver")
    forkserver.set_forkserver_preload(["tests.hub.killing"])
    return forkserver


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def serve(store: str, raw: str, port: int, mutation: str = "") -> Child:
    """Start a hub, with a mutation if one is named; it accepts requests a moment later."""
    arguments = ["hub", "serve", "--store", store, "--raw", raw, "--port", str(port)]
    process_args = (arguments, mutation, dict(os.environ))
    child = context().Process(target=_serve, args=process_args, daemon=True)
    child.start()
    return child


def _serve(arguments: list[str], mutation: str, environment: dict[str, str]) -> None:
    os.environ.update(environment)
    if mutation:
        patch = import_module("tests.faults.mutations").patch
        getattr(import_module("tests.faults.careless"), mutation)(patch)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    # A hub exits if the database is down; restart it, as a supervisor does.
    while main(arguments):
        time.sleep(0.1)


def push_all(folder: Path, project: str, address: str, token: str) -> Child:
    """Start a push; it ends when the hub has everything."""
    child = context().Process(
        target=_push, args=(folder, project, address, token), daemon=True
    )
    child.start()
    return child


def _push(folder: Path, project: str, address: str, token: str) -> None:
    while True:
        with (
            suppress(HubUnreachable),
            HubClient(address, token, max_attempts=2) as client,
        ):
            push(folder, [project], redactor=Redactor(), transport=client)
            return
        time.sleep(0.05)
