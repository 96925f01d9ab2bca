"""Processes are killed while sessions are pushed; nothing is lost or stored twice.

The database, the hub and the push are real processes, which are killed with SIGKILL. The
expected records are read from the home's files.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

from bygones.archive import Archive
from bygones.errors import ArchiveDamaged
from bygones.model.base import SessionId
from bygones.store.compression import decompress
from bygones.team.access import TokenStore, erase, open_store
from bygones.team.blobs import ExternalBlobStore, open_blob_store
from bygones.team.contract import AccessScope, ErasureSelector
from bygones.team.stores.base import TeamStore
from tests.build import Home, jsonl, prompt, reply, session_id, thread
from tests.faults.sizes import reached, seeded, sized
from tests.faults.traces import decompress_frames
from tests.hub.killing import Child, free_port, push_all, serve
from tests.hub.sending import KEY, NOW, PROJECT
from tests.team.buckets import bucket
from tests.team.servers import Postgres, missing_postgres, postgres

pytestmark = pytest.mark.full

KILLS = sized(9, 120, 600)
LONG = 60.0
_UNFINISHED_SHARE = 0.3
"""The share of appends without a final newline."""
VICTIMS = ("engine", "hub", "pusher")


class HubCluster:
    """A home that grows, a database, a hub, and a push to it."""

    def __init__(
        self, folder: Path, engine: Postgres, raw: str, mutation: str = ""
    ) -> None:
        self.random = Random(seeded(7))  # noqa: S311 (repeatable, not secret)
        self.mutation = mutation
        self.home = Home(folder / ".claude")
        self.ended: dict[str, bytes] = {}
        """The missing end of each file's last line."""
        self.folder = folder / "archive"
        self.raw = raw
        self.engine = engine
        self.port = free_port()
        store = open_store(engine.address)
        store.prepare()
        self.token, _ = TokenStore(store).issue("ann", teams=("shop",), now=NOW)
        store.close()
        self.hub = self.serve()
        self.pusher: Child | None = None

    def serve(self) -> Child:
        return serve(self.engine.address, self.raw, self.port, self.mutation)

    def grow(self, number: int) -> None:
        """Append to some sessions, and sometimes start a new one."""
        for _ in range(self.random.randint(1, 3)):
            name = session_id(self.random.randrange(8))
            path = self.home.path / "projects" / KEY / f"{name}.jsonl"
            path.parent.mkdir(parents=True, exist_ok=True)
            words = " ".join(str(self.random.random()) for _ in range(200))
            records = thread(
                prompt(f"{number} {words}", cwd=PROJECT, sessionId=name),
                reply(words, cwd=PROJECT, sessionId=name),
                start=number * 10,
            )
            raw = jsonl(records)
            is_cut = self.random.random() < _UNFINISHED_SHARE
            with path.open("ab") as file:
                file.write(self.ended.pop(name, b""))
                file.write(raw.removesuffix(b"\n") if is_cut else raw)
            if is_cut:
                self.ended[name] = b"\n"
        Archive.ingest(self.folder, [self.home.path])

    def push(self) -> Child:
        address = f"http://127.0.0.1:{self.port}"
        return push_all(self.folder, PROJECT, address, self.token)

    def kill(self, victim: str) -> None:
        """Kill a process, and restart the database and the hub."""
        if victim == "engine":
            self.engine.kill()
            self.engine.start()
        elif victim == "hub":
            self.hub.kill()
            self.hub.join()
            self.hub = self.serve()
        elif self.pusher is not None:
            self.pusher.kill()
            self.pusher.join()

    def wait(self) -> None:
        """Wait until the push ends, or until the hub fails to start."""
        ends = time.monotonic() + LONG
        while time.monotonic() < ends and self.hub.is_alive():
            if self.pusher is None or not self.pusher.is_alive():
                return
            self.pusher.join(0.2)

    def close(self) -> None:
        for child in (self.hub, self.pusher):
            if child is not None:
                child.kill()
                child.join()


@contextmanager
def run_cluster(folder: Path, raw: str, mutation: str = "") -> Iterator[HubCluster]:
    if why := missing_postgres():
        pytest.skip(f"PostgreSQL is NOT tried: {why}")
    with postgres() as engine:
        cluster = HubCluster(folder, engine, raw, mutation)
        try:
            yield cluster
        finally:
            cluster.close()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[HubCluster]:
    with run_cluster(tmp_path, str(tmp_path / "raw")) as cluster:
        yield cluster


@pytest.fixture
def bucket_cluster(tmp_path: Path) -> Iterator[HubCluster]:
    with bucket() as raw, run_cluster(tmp_path, raw) as cluster:
        yield cluster


def uuids(raw: bytes) -> Counter[str]:
    return Counter(json.loads(line)["uuid"] for line in raw.splitlines())


def home_records(home: Home) -> Counter[str]:
    """Count the ids of all records in the home."""
    return sum((uuids(p.read_bytes()) for p in home.path.rglob("*.jsonl")), Counter())


def stored_records(store: TeamStore, objects: ExternalBlobStore) -> Counter[str]:
    """Count the ids of all records that the hub has stored."""
    found: Counter[str] = Counter()
    for batch in store.export_updates():
        for span in batch.spans:
            found += uuids(objects.get(span.address))
        if batch.fragment:
            found += uuids(decompress(batch.fragment.frame))
    return found


def wait_until_derived(store: TeamStore) -> None:
    started = time.monotonic()
    while store.pending_sources():
        assert time.monotonic() - started < LONG, "sessions are not derived"
        time.sleep(0.1)


def kill_during_pushes(cluster: HubCluster, kills: int, victims: Sequence[str]) -> None:
    """Kill processes repeatedly during pushes, and complete the last push."""
    for number in range(kills):
        cluster.grow(number)
        cluster.pusher = cluster.push()
        time.sleep(cluster.random.uniform(0, 0.5))
        cluster.kill(cluster.random.choice(victims))
        cluster.wait()
        cluster.pusher.kill()
    cluster.pusher = cluster.push()
    cluster.wait()


def test_killed_processes_lose_or_double_nothing(cluster: HubCluster) -> None:
    kill_during_pushes(cluster, KILLS, VICTIMS)
    assert cluster.pusher is not None
    assert cluster.pusher.exitcode == 0

    store, objects = open_store(cluster.engine.address), open_blob_store(cluster.raw)
    wait_until_derived(store)
    with (
        Archive.open(cluster.folder) as local,
        Archive.from_store(
            store.open_reader(AccessScope(person="ann"), objects)
        ) as shared,
    ):
        assert stored_records(store, objects) == home_records(cluster.home)
        counts = {
            one.id: (one.message_count, one.prompt_count) for one in local.sessions()
        }
        assert counts == {
            one.id: (one.message_count, one.prompt_count) for one in shared.sessions()
        }
    with Archive.from_store(
        store.open_reader(AccessScope(person="ben"), objects)
    ) as nobody:
        assert list(nobody.sessions()) == []
    assert store.verify().faults == ()
    store.close()
    reached("kills of database, hub or client during pushes", KILLS)


def test_harness_catches_a_hub_that_acknowledges_too_early(
    tmp_path: Path,
) -> None:
    raw = str(tmp_path / "raw")
    with run_cluster(tmp_path, raw, mutation="delay_writes") as cluster:
        kill_during_pushes(cluster, 2, ["hub"])
        store = open_store(cluster.engine.address)
        with pytest.raises(ArchiveDamaged, match="is missing"):
            stored_records(store, open_blob_store(raw))
        store.close()


def test_an_erased_canary_is_in_no_byte_of_engine_or_raw_store(
    bucket_cluster: HubCluster,
) -> None:
    cluster = bucket_cluster
    canary = "zwitscherling"
    cluster.grow(0)
    for number in (40, 41):
        name = session_id(number)
        first_prompt = prompt(f"{canary} {canary}{number}", cwd=PROJECT, sessionId=name)
        cluster.home.session(
            name, thread(first_prompt, reply(canary, cwd=PROJECT)), project=KEY
        )
    path = cluster.home.path / "projects" / KEY / f"{session_id(40)}.jsonl"
    path.write_bytes(path.read_bytes().removesuffix(b"\n"))
    Archive.ingest(cluster.folder, [cluster.home.path])
    cluster.pusher = cluster.push()
    cluster.pusher.join(LONG)
    store, objects = open_store(cluster.engine.address), open_blob_store(cluster.raw)
    wait_until_derived(store)
    data = cluster.engine.folder / "data"
    assert files_with(data, canary)
    assert len(rows := tables_with(cluster.engine.address, canary)) > 3
    assert any("source" in name for name in rows)  # a last line without a newline

    for number in (40, 41):
        erase(
            store,
            objects,
            ErasureSelector(session=SessionId(session_id(number))),
            now=NOW,
        )
    cluster.push().join(LONG)
    wait_until_derived(store)
    store.close()

    vacuum(cluster.engine.address)
    left = {*objects.addresses()}
    assert left
    assert not any(canary.encode() in objects.get(one) for one in left)
    assert tables_with(cluster.engine.address, canary) == []
    assert files_with(data / "base", canary) == []


def tables_with(address: str, word: str) -> list[str]:
    """Return the tables that contain a word, also in compressed form."""
    import psycopg

    with psycopg.connect(address) as db:
        tables = db.execute(
            "SELECT format('%I.%I', schemaname, tablename) FROM pg_tables"
            " WHERE schemaname NOT IN ('pg_catalog', 'information_schema')"
        ).fetchall()
        assert len(tables) > 5
        return [
            name
            for (name,) in tables
            if any(
                word.encode() in piece.lower()
                for row in db.execute(f"SELECT * FROM {name}".encode())  # noqa: S608 (the engine's own names)
                for value in row
                for piece in byte_forms(value)
            )
        ]


def byte_forms(value: object) -> Iterator[bytes]:
    """Yield the bytes of a value, and their decompressed forms."""
    raw = value if isinstance(value, bytes) else str(value).encode()
    yield raw
    yield from decompress_frames(raw)


def vacuum(address: str) -> None:
    import psycopg

    with psycopg.connect(address, autocommit=True) as db:
        db.execute("VACUUM FULL")
        db.execute("CHECKPOINT")


def files_with(folder: Path, word: str) -> list[Path]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return [path for path in files if word.encode() in path.read_bytes()]
