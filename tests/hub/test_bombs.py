"""Uploads that are small and expand: a live hub stays small and serves everyone else.

The hub and its database are real processes. What expands is sent as one request, which
is too large, and as many that are each within the limits.
"""

from __future__ import annotations

import http.client
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from bygones.archive import Archive
from bygones.store.compression import compress_and_hash
from bygones.team.access import open_reader
from bygones.team.contract import UploadChunk, encode_message
from tests.build import jsonl, prompt, session_id, thread
from tests.faults.sizes import reached, sized
from tests.hub.sending import KEY, PROJECT
from tests.hub.test_killing import Scene, staged
from tests.hub.test_uploads import other, parcel

pytestmark = pytest.mark.full

MB = 1 << 20
MAX_HUB_MB = 1_200
"""What the hub and the process that derives may take together."""
WAIT = 180.0
FRAME_MB = 64
NEWLINES = b"\n" * FRAME_MB * MB


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with staged(tmp_path, str(tmp_path / "raw")) as scene:
        yield scene


def send(
    scene: Scene, body: bytes, *, path: str = "/push", chunked: bool = False
) -> int:
    """Send a request; return the status."""
    headers = {"Authorization": f"Bearer {scene.token}"}
    connection = http.client.HTTPConnection("127.0.0.1", scene.port, timeout=WAIT)
    parts = (body[at : at + MB] for at in range(0, len(body), MB))
    try:
        connection.request(
            "POST", path, parts if chunked else body, headers, encode_chunked=chunked
        )
        return connection.getresponse().status
    except (BrokenPipeError, ConnectionResetError):
        # The server answered and closed before it had read everything.
        return connection.getresponse().status
    finally:
        connection.close()


def health(scene: Scene) -> str:
    connection = http.client.HTTPConnection("127.0.0.1", scene.port, timeout=WAIT)
    with closing(connection):
        connection.request("GET", "/health")
        return connection.getresponse().read().decode()


def wait_until_served(scene: Scene) -> None:
    for _ in range(600):
        try:
            health(scene)
        except OSError:
            time.sleep(0.1)
        else:
            return


def tree_mb(root: int) -> float:
    """Return the resident memory of a process and all below it."""
    parents: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text("utf-8").rpartition(")")[2].split()
        except OSError:
            continue
        parents.setdefault(int(fields[1]), []).append(int(path.parent.name))
    total, pending = 0.0, [root]
    while pending:
        process = pending.pop()
        pending += parents.get(process, [])
        try:
            status = Path(f"/proc/{process}/status").read_text("utf-8")
        except OSError:
            continue
        for line in status.splitlines():
            if line.startswith("VmHWM"):
                total += int(line.split()[1]) / 1024
    return total


def newlines(count: int, first: int = 0) -> list[UploadChunk]:
    sha256, frame = compress_and_hash(NEWLINES)
    return [
        other(
            frame=frame,
            length=len(NEWLINES),
            sha256=sha256,
            offset=number * len(NEWLINES),
            client_offset=(number + 1) * len(NEWLINES),
        )
        for number in range(first, first + count)
    ]


def lines_of(raw: bytes, name: str) -> UploadChunk:
    sha256, frame = compress_and_hash(raw)
    return other(
        path=f"projects/-work/{name}.jsonl",
        session=name,
        frame=frame,
        length=len(raw),
        sha256=sha256,
        client_offset=len(raw),
    )


def assert_others_are_served(scene: Scene) -> None:
    """Push an honest session, and wait until it can be found."""
    records = thread(prompt("rhubarb", cwd=PROJECT, sessionId=session_id(1)))
    path = scene.home.path / "projects" / KEY / f"{session_id(1)}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(jsonl(records))
    Archive.ingest(scene.folder, [scene.home.path])
    scene.push().join()
    deadline = time.monotonic() + WAIT
    address = f"{scene.engine.address}?person=ann&teams=shop"
    while time.monotonic() < deadline:
        with Archive.from_store(open_reader(address)) as archive:
            if archive.search("rhubarb").session_count:
                return
        time.sleep(0.5)
    raise AssertionError(health(scene))


def test_bombs_do_not_fill_the_memory_of_a_hub_or_delay_others(scene: Scene) -> None:
    wait_until_served(scene)
    bomb = encode_message(parcel(*newlines(60)))
    assert len(bomb) < 200_000
    deep = b"[" * 4_000_000 + b"\n" + b'{"type":' * 500_000 + b"\n"
    many = [lines_of(b"{}\n", f"small-{number}") for number in range(5_000)]

    assert send(scene, bomb) == 413
    for number in range(0, sized(6, 15, 54), 3):
        assert send(scene, encode_message(parcel(*newlines(3, number)))) == 200
        reached("MB of newlines sent to a hub within its limits", 3 * FRAME_MB)
    assert send(scene, encode_message(parcel(lines_of(deep, "deep")))) == 200
    assert send(scene, encode_message(parcel(*many))) == 200

    assert_others_are_served(scene)
    used = tree_mb(scene.hub.pid or 0)
    assert used < MAX_HUB_MB
    reached("memory of a hub with bombs, peak MB", round(used))
    scene.kill("hub")
    wait_until_served(scene)
    assert_others_are_served(scene)


def test_chunked_bodies_that_are_too_long_get_413(scene: Scene) -> None:
    wait_until_served(scene)
    for path, size in (("/push", 40 * MB), ("/enter", MB)):
        assert send(scene, b"x" * size, path=path, chunked=True) == 413
    assert tree_mb(scene.hub.pid or 0) < MAX_HUB_MB / 2
