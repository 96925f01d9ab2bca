"""Decompression bombs: a hub limits its memory and continues to serve other people.

The hub and its database are real processes. Bombs are sent as one request that
is too large, and as many requests within the limits.
"""

from __future__ import annotations

import http.client
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from bygones.archive import Archive
from bygones.store.compression import compress_and_hash
from bygones.team.access import TokenStore, open_reader, open_store
from bygones.team.contract import UploadChunk, encode_message
from tests.build import jsonl, prompt, session_id, thread
from tests.faults.sizes import reached, sized
from tests.hub.sending import KEY, NOW, PROJECT
from tests.hub.test_killing import HubCluster, run_cluster
from tests.hub.test_uploads import change_chunk, make_request

pytestmark = pytest.mark.full

MB = 1 << 20
MAX_HUB_MB = 1_200
"""What the hub and the process that derives may take together."""
WAIT = 180.0
FRAME_MB = 64
NEWLINES = b"\n" * FRAME_MB * MB


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[HubCluster]:
    with run_cluster(tmp_path, str(tmp_path / "raw")) as cluster:
        yield cluster


def send(
    cluster: HubCluster, body: bytes, *, path: str = "/push", chunked: bool = False
) -> int:
    """Send a request; return the status."""
    headers = {"Authorization": f"Bearer {cluster.token}"}
    connection = http.client.HTTPConnection("127.0.0.1", cluster.port, timeout=WAIT)
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


def health(cluster: HubCluster) -> str:
    connection = http.client.HTTPConnection("127.0.0.1", cluster.port, timeout=WAIT)
    with closing(connection):
        connection.request("GET", "/health")
        return connection.getresponse().read().decode()


def wait_until_served(cluster: HubCluster) -> None:
    for _ in range(600):
        try:
            health(cluster)
        except OSError:
            time.sleep(0.1)
        else:
            return


def tree_mb(root: int) -> float:
    """Return the resident memory of a process and its descendants."""
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
        change_chunk(
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
    return change_chunk(
        path=f"projects/-work/{name}.jsonl",
        session=name,
        frame=frame,
        length=len(raw),
        sha256=sha256,
        client_offset=len(raw),
    )


def assert_others_are_served(cluster: HubCluster) -> None:
    """Push a normal session, and wait until it can be found."""
    records = thread(prompt("rhubarb", cwd=PROJECT, sessionId=session_id(1)))
    path = cluster.home.path / "projects" / KEY / f"{session_id(1)}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(jsonl(records))
    Archive.ingest(cluster.folder, [cluster.home.path])
    cluster.push().join()
    deadline = time.monotonic() + WAIT
    address = f"{cluster.engine.address}?person=ann&teams=shop"
    while time.monotonic() < deadline:
        with Archive.from_store(open_reader(address)) as archive:
            if archive.search("rhubarb").session_count:
                return
        time.sleep(0.5)
    raise AssertionError(health(cluster))


def test_bombs_do_not_fill_the_memory_of_a_hub_or_delay_others(
    cluster: HubCluster,
) -> None:
    wait_until_served(cluster)
    bomb = encode_message(make_request(*newlines(60)))
    assert len(bomb) < 200_000
    deep = b"[" * 4_000_000 + b"\n" + b'{"type":' * 500_000 + b"\n"
    many = [lines_of(b"{}\n", f"small-{number}") for number in range(5_000)]

    assert send(cluster, bomb) == 413
    for number in range(0, sized(6, 15, 54), 3):
        assert send(cluster, encode_message(make_request(*newlines(3, number)))) == 200
        reached("MB of newlines sent to a hub within its limits", 3 * FRAME_MB)
    assert send(cluster, encode_message(make_request(lines_of(deep, "deep")))) == 200
    assert send(cluster, encode_message(make_request(*many))) == 200

    assert_others_are_served(cluster)
    used = tree_mb(cluster.hub.pid or 0)
    assert used < MAX_HUB_MB
    reached("memory of a hub with bombs, peak MB", round(used))
    cluster.kill("hub")
    wait_until_served(cluster)
    assert_others_are_served(cluster)


def long_session(name: str, first: int) -> Iterator[bytes]:
    """Yield encoded requests with a session that takes much longer than a short one."""
    offset = 0
    for part in range(sized(8, 24, 24)):
        records = [
            prompt(f"walrus {number} " + "otter " * 1_000, sessionId=name)
            for number in range(part * 1_000, part * 1_000 + 1_000)
        ]
        raw = jsonl(thread(*records, start=first + part * 1_000))
        stop = offset + len(raw)
        chunk = lines_of(raw, name)
        chunk = replace(chunk, offset=offset, client_offset=stop)
        yield encode_message(make_request(chunk))
        offset = stop


def test_long_sessions_do_not_delay_those_of_others(cluster: HubCluster) -> None:
    wait_until_served(cluster)
    store = open_store(cluster.engine.address)
    own_token = cluster.token
    cluster.token, _ = TokenStore(store).issue("zoe", teams=("shop",), now=NOW)
    for number in (1, 2):
        for body in long_session(session_id(number), number * 100_000):
            assert send(cluster, body) == 200
    cluster.token = own_token

    assert_others_are_served(cluster)

    # What came first is not finished yet.
    assert {one.person for one in store.pending_sources()} == {"zoe"}
    deadline = time.monotonic() + WAIT
    while store.pending_sources() and time.monotonic() < deadline:
        time.sleep(0.2)
    assert store.pending_sources() == []
    store.close()
    with Archive.from_store(
        open_reader(f"{cluster.engine.address}?person=zoe&teams=shop")
    ) as archive:
        own = [one for one in archive.sessions() if one.person == "zoe"]
        assert len({one.message_count for one in own}) == 1
        assert len(own) == 2


def test_chunked_bodies_that_are_too_long_get_413(cluster: HubCluster) -> None:
    wait_until_served(cluster)
    for path, size in (("/push", 40 * MB), ("/enter", MB)):
        assert send(cluster, b"x" * size, path=path, chunked=True) == 413
    assert tree_mb(cluster.hub.pid or 0) < MAX_HUB_MB / 2
