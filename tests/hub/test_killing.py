"""Processes are killed while sessions are pushed; nothing is lost or stored twice.

The engine, the hub and the pusher are real programs and die by SIGKILL. What must be
there in the end is read from the home's own files.
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
from tests.faults.traces import opened
from tests.hub.killing import Child, free_port, push_all, serve
from tests.hub.sending import KEY, NOW, PROJECT
from tests.team.buckets import bucket
from tests.team.servers import Postgres, missing, postgres

pytestmark = pytest.mark.full

KILLS = sized(9, 120, 600)
LONG = 60.0
_UNENDED = 0.3
"""How many last lines have no newline."""
VICTIMS = ("engine", "hub", "pusher")


class Scene:
    """A home that grows, and all that stands between it and an answer."""

    def __init__(
        self, place: Path, engine: Postgres, raw: str, mutation: str = ""
    ) -> None:
        self.random = Random(seeded(7))  # noqa: S311 (repeatable, not secret)
        self.mutation = mutation
        self.home = Home(place / ".claude")
        self.ended: dict[str, bytes] = {}
        """What a file lacks to end with a whole line."""
        self.folder = place / "archive"
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
        """Let some sessions go on, and one begin now and then."""
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
            is_cut = self.random.random() < _UNENDED
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
        """Kill a process, and start those that must run."""
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
        """Wait until a push ends, or until the hub refused to start."""
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
def staged(place: Path, raw: str, mutation: str = "") -> Iterator[Scene]:
    if why := missing():
        pytest.skip(f"PostgreSQL is NOT tried: {why}")
    with postgres() as engine:
        scene = Scene(place, engine, raw, mutation)
        try:
            yield scene
        finally:
            scene.close()


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with staged(tmp_path, str(tmp_path / "raw")) as scene:
        yield scene


@pytest.fixture
def in_bucket(tmp_path: Path) -> Iterator[Scene]:
    with bucket() as raw, staged(tmp_path, raw) as scene:
        yield scene


def uuids(raw: bytes) -> Counter[str]:
    return Counter(json.loads(line)["uuid"] for line in raw.splitlines())


def written(home: Home) -> Counter[str]:
    """Return every record of the home's own files."""
    return sum((uuids(p.read_bytes()) for p in home.path.rglob("*.jsonl")), Counter())


def kept(store: TeamStore, objects: ExternalBlobStore) -> Counter[str]:
    """Return every record of which the hub has the bytes."""
    found: Counter[str] = Counter()
    for batch in store.export_updates():
        for span in batch.spans:
            found += uuids(objects.get(span.address))
        if batch.fragment:
            found += uuids(decompress(batch.fragment.frame))
    return found


def wait_until_derived(store: TeamStore) -> None:
    begun = time.monotonic()
    while store.pending_sources():
        assert time.monotonic() - begun < LONG, "nobody derives"
        time.sleep(0.1)


def suffer(scene: Scene, kills: int, victims: Sequence[str]) -> None:
    """Kill processes again and again during pushes, and push to the end."""
    for number in range(kills):
        scene.grow(number)
        scene.pusher = scene.push()
        time.sleep(scene.random.uniform(0, 0.5))
        scene.kill(scene.random.choice(victims))
        scene.wait()
        scene.pusher.kill()
    scene.pusher = scene.push()
    scene.wait()


def test_killed_processes_lose_or_double_nothing(scene: Scene) -> None:
    suffer(scene, KILLS, VICTIMS)
    assert scene.pusher is not None
    assert scene.pusher.exitcode == 0

    store, objects = open_store(scene.engine.address), open_blob_store(scene.raw)
    wait_until_derived(store)
    with (
        Archive.open(scene.folder) as here,
        Archive.from_store(
            store.open_reader(AccessScope(person="ann"), objects)
        ) as there,
    ):
        assert kept(store, objects) == written(scene.home)
        own = {one.id: (one.message_count, one.prompt_count) for one in here.sessions()}
        assert own == {
            one.id: (one.message_count, one.prompt_count) for one in there.sessions()
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
    with staged(tmp_path, raw, mutation="held_back") as scene:
        suffer(scene, 2, ["hub"])
        store = open_store(scene.engine.address)
        with pytest.raises(ArchiveDamaged, match="is missing"):
            kept(store, open_blob_store(raw))
        store.close()


def test_an_erased_canary_is_in_no_byte_of_engine_or_raw_store(
    in_bucket: Scene,
) -> None:
    scene = in_bucket
    canary = "zwitscherling"
    scene.grow(0)
    for number in (40, 41):
        name = session_id(number)
        said = prompt(f"{canary} {canary}{number}", cwd=PROJECT, sessionId=name)
        scene.home.session(name, thread(said, reply(canary, cwd=PROJECT)), project=KEY)
    path = scene.home.path / "projects" / KEY / f"{session_id(40)}.jsonl"
    path.write_bytes(path.read_bytes().removesuffix(b"\n"))
    Archive.ingest(scene.folder, [scene.home.path])
    scene.pusher = scene.push()
    scene.pusher.join(LONG)
    store, objects = open_store(scene.engine.address), open_blob_store(scene.raw)
    wait_until_derived(store)
    data = scene.engine.folder / "data"
    assert in_files(data, canary)
    assert len(rows := in_rows(scene.engine.address, canary)) > 3
    assert any("source" in name for name in rows)  # a last line without a newline

    for number in (40, 41):
        erase(
            store,
            objects,
            ErasureSelector(session=SessionId(session_id(number))),
            now=NOW,
        )
    scene.push().join(LONG)
    wait_until_derived(store)
    store.close()

    vacuum(scene.engine.address)
    left = {*objects.addresses()}
    assert left
    assert not any(canary.encode() in objects.get(one) for one in left)
    assert in_rows(scene.engine.address, canary) == []
    assert in_files(data / "base", canary) == []


def in_rows(address: str, word: str) -> list[str]:
    """Return our tables of which a row holds a word, also where it is packed."""
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
                for piece in held(value)
            )
        ]


def held(value: object) -> Iterator[bytes]:
    """Yield all bytes of a value, opened where they are pressed."""
    raw = value if isinstance(value, bytes) else str(value).encode()
    yield raw
    yield from opened(raw)


def vacuum(address: str) -> None:
    import psycopg

    with psycopg.connect(address, autocommit=True) as db:
        db.execute("VACUUM FULL")
        db.execute("CHECKPOINT")


def in_files(folder: Path, word: str) -> list[Path]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return [path for path in files if word.encode() in path.read_bytes()]
