"""Runs modules of the tests in a network namespace that has only a loopback interface."""

from __future__ import annotations

import shutil
import socket
import struct
import subprocess
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1


@cache
def _namespace_command() -> tuple[str, ...]:
    """Return the start of a command that runs in a namespace; empty if not permitted."""
    command = ("unshare", "--map-root-user", "--net")
    if shutil.which("unshare") is None:
        return ()
    done = subprocess.run([*command, "true"], check=False, capture_output=True)
    return command if done.returncode == 0 else ()


def run_isolated(module: str, *arguments: str, seconds: float = 600) -> str:
    """Run a module and return its output; without namespaces on the usual loopback.

    Raises `RuntimeError` with the output if it fails.
    """
    done = subprocess.run(
        [*_namespace_command(), sys.executable, "-m", module, *arguments],
        check=False,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=seconds,
    )
    if done.returncode:
        raise RuntimeError(f"{module} {arguments} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def enable_loopback() -> None:
    """Bring up the loopback interface, which is down in a new namespace."""
    if sys.platform != "linux":
        return
    import fcntl

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = struct.pack("16sH14x", b"lo", 0)
        answer = fcntl.ioctl(control, _SIOCGIFFLAGS, request)
        (flags,) = struct.unpack_from("H", answer, 16)
        if not flags & _IFF_UP:
            changed = struct.pack("16sH14x", b"lo", flags | _IFF_UP)
            fcntl.ioctl(control, _SIOCSIFFLAGS, changed)
