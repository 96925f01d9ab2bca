"""Tokens of hubs: from the environment, the settings, or a private file per hub."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from bygones.config import TOKEN_ENV, find_settings_file, load_settings
from bygones.errors import HubTokenExposed

_PRIVATE_MODE = 0o600
_OTHERS = 0o077


def find_hub_token(
    address: str,
    environ: Mapping[str, str],
    user_home: Path,
    platform: str = sys.platform,
) -> str:
    """Return the token for a hub; empty if there is none.

    Raises `HubTokenExposed` if other users can read the file that it is in.
    """
    if given := environ.get(TOKEN_ENV, "").strip():
        return given
    push = load_settings(environ, user_home, platform).push
    if push.token and push.hub.rstrip("/") == address.rstrip("/"):
        check_private(find_settings_file(environ, user_home, platform))
        return push.token
    path = _token_file(address, environ, user_home, platform)
    if not path.is_file():
        return ""
    check_private(path)
    return path.read_text("utf-8").strip()


def store_hub_token(
    address: str,
    secret: str,
    *,
    environ: Mapping[str, str],
    user_home: Path,
    platform: str = sys.platform,
) -> Path:
    """Store the token for a hub in a file that only this user can read."""
    path = _token_file(address, environ, user_home, platform)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_suffix(".new")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    descriptor = os.open(draft, flags, _PRIVATE_MODE)
    with open(descriptor, "wb") as file:  # noqa: PTH123 (a descriptor)
        if hasattr(os, "fchmod"):
            os.fchmod(descriptor, _PRIVATE_MODE)
        file.write(f"{secret}\n".encode())
    draft.replace(path)
    return path


def remove_hub_token(
    address: str,
    environ: Mapping[str, str],
    user_home: Path,
    platform: str = sys.platform,
) -> bool:
    """Remove the stored token of a hub; return whether there was one."""
    path = _token_file(address, environ, user_home, platform)
    is_stored = path.is_file()
    path.unlink(missing_ok=True)
    return is_stored


def check_private(path: Path) -> None:
    """Raise `HubTokenExposed` if other users can read a file."""
    if os.name == "posix" and path.exists() and path.stat().st_mode & _OTHERS:
        raise HubTokenExposed(path)


def _token_file(
    address: str, environ: Mapping[str, str], user_home: Path, platform: str
) -> Path:
    name = re.sub(r"[^A-Za-z0-9.-]+", "_", address.partition("://")[2].rstrip("/"))
    settings = find_settings_file(environ, user_home, platform)
    return settings.parent / "hubs" / f"{name}.token"
