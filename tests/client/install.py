"""Installs Claude Code from npm into a cache outside of the tree."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PINNED_VERSION = "2.1.327"
_PACKAGE = "@anthropic-ai/claude-code"
_NPM_OPTIONS = ("--no-audit", "--no-fund", "--fetch-retries=0", "--fetch-timeout=30000")
_INSTALL_SECONDS = 240
_PROGRAM = "node_modules/.bin/claude"


class ClientUnavailable(Exception):
    """Claude Code cannot be installed or run on this machine."""


def install_client(version: str = PINNED_VERSION) -> Path:
    """Return the program of a version, which is installed if it is missing.

    Raises `ClientUnavailable` without npm, without a network, and on Windows.
    """
    if sys.platform == "win32":
        raise ClientUnavailable("the tests of the client need POSIX")
    folder = cache_folder() / f"claude-code-{version}"
    with hold_lock(folder.with_name(f"{folder.name}.lock")):
        if not folder.exists():
            _install(version, folder)
    return folder / _PROGRAM


def find_newest_version() -> str:
    """Return the version that npm calls the latest."""
    return _npm("view", _PACKAGE, "version").strip()


def cache_folder() -> Path:
    """Return the folder for what the tests install, outside of the tree."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "bygones-tests"


def _install(version: str, folder: Path) -> None:
    partial = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    # Without a package.json of its own, npm would look for one in parent folders.
    (partial / "package.json").write_text("{}")
    _npm("install", "--prefix", str(partial), f"{_PACKAGE}@{version}")
    try:
        reported = _run([str(partial / _PROGRAM), "--version"], seconds=60)
    except (OSError, subprocess.SubprocessError) as error:
        raise ClientUnavailable(f"it does not run: {error}") from error
    if not reported.startswith(version):
        raise ClientUnavailable(f"npm installed {reported.strip()!r}")
    partial.rename(folder)


def _npm(*arguments: str) -> str:
    npm = shutil.which("npm")
    if npm is None:
        raise ClientUnavailable("npm is not installed")
    try:
        return _run([npm, *arguments, *_NPM_OPTIONS], seconds=_INSTALL_SECONDS)
    except subprocess.CalledProcessError as error:
        lines = error.stderr.strip().splitlines()
        reason = next((line for line in lines if "error" in line), "npm failed")
        raise ClientUnavailable(f"npm cannot install it: {reason}") from error
    except (OSError, subprocess.SubprocessError) as error:
        raise ClientUnavailable(f"npm cannot install it: {error}") from error


def _run(command: list[str], *, seconds: float) -> str:
    done = subprocess.run(
        command,
        check=True,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=seconds,
    )
    return done.stdout


@contextmanager
def hold_lock(path: Path) -> Iterator[None]:
    """Hold a lock that other processes of the test run respect."""
    import fcntl

    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
