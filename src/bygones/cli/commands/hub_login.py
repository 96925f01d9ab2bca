"""`bygones hub login` and `logout`: get a token of a hub, and keep it private."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from bygones.credentials import remove_hub_token, store_hub_token
from bygones.errors import HubRejected, SignInFailed
from bygones.render.text.primitives import sanitize_name


@click.command("login")
@click.argument("url")
@click.option("--token", is_flag=True, help="Ask for a token instead of signing in.")
def login(*, url: str, token: bool) -> None:
    r"""Sign in to a hub, and store its token for this user.

    \b
    bygones hub login https://hub.example.com
    bygones list --archive https://hub.example.com

    If the hub has a provider, you enter a code on its page, on this or another device.
    Otherwise you are asked for a token. It is stored in a file that only you can read.
    """
    from bygones.team.connection import HubConnection

    address = url.rstrip("/")
    secret = "" if token else _sign_in(HubConnection(address, "none", max_attempts=2))
    if not secret:
        secret = click.prompt("token", hide_input=True).strip()
    HubConnection(address, secret, max_attempts=2).request("GET", "/api/projects")
    path = store_hub_token(address, secret, environ=os.environ, user_home=Path.home())
    sys.stderr.write(f"stored the token in {sanitize_name(str(path))}\n")


@click.command("logout")
@click.argument("url")
def logout(*, url: str) -> None:
    r"""Forget the token of a hub on this machine.

    \b
    bygones hub logout https://hub.example.com

    It stays valid until it expires; `bygones hub token revoke` ends it.
    """
    is_removed = remove_hub_token(url.rstrip("/"), os.environ, Path.home())
    sys.stderr.write("removed the token\n" if is_removed else "there was no token\n")


def _sign_in(connection: Any, sleep: Callable[[float], None] = time.sleep) -> str:  # noqa: ANN401 (imported late)
    """Return a token for a person who enters a code; empty if the hub has no provider."""
    import msgspec

    def ask(path: str, body: bytes) -> Mapping[str, Any]:
        raw = connection.request("POST", path, body)
        return msgspec.json.decode(raw, type=dict[str, Any])

    try:
        code = ask("/oidc/device", b"{}")
    except HubRejected as error:
        if "no sign-in" in error.reason:
            return ""
        raise
    place = code.get("verification_uri_complete") or code["verification_uri"]
    sys.stderr.write(
        f"open {sanitize_name(str(place))}\n"
        f"and check the code {sanitize_name(str(code['user_code']))}\n"
    )
    deadline = time.monotonic() + float(code["expires_in"])
    wanted = msgspec.json.encode({"device_code": code["device_code"]})
    while time.monotonic() < deadline:
        sleep(float(code.get("interval", 5)))
        answer = ask("/oidc/device/token", wanted)
        if answer.get("status") == "complete":
            sys.stderr.write(f"signed in as {sanitize_name(str(answer['person']))}\n")
            return str(answer["token"])
    raise SignInFailed("the code has expired")
