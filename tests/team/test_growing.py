"""A session that grows on a hub has the same rows as one that is derived at once."""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from bygones.archive import Archive
from bygones.ingest import derive
from bygones.ingest import growing as local_growing
from bygones.model.base import AgentId, ProjectKey, SessionId, SourceKind
from bygones.store.compression import compress
from bygones.store.derived_tables import decode_summary
from bygones.store.schema import TEAM_TABLES
from bygones.team import growing, worker
from bygones.team.contract import (
    AccessScope,
    BlobStore,
    ProjectRule,
    RemoteSource,
    SourceFragment,
    SourceUpdate,
    StoredSpan,
)
from bygones.team.growing import HubFiles
from bygones.team.stores.base import SqlStore, TeamStore
from bygones.team.worker import (
    DeriveSelection,
    FailedFamilies,
    derive_all,
    derive_pending,
)
from tests.build import PROJECT, SESSION
from tests.faults.sizes import seeded, sized
from tests.properties.growing import Lines, cut_lines, write_files, write_steps

StoreAndBlobs = tuple[TeamStore, BlobStore]
_NEVER = 1 << 60
_ME = AccessScope(person="ann")


@pytest.fixture
def make_store(
    engine: Callable[[], StoreAndBlobs],
) -> Iterator[Callable[[], StoreAndBlobs]]:
    """Return a function that makes an empty store; all are closed at the end."""
    stores: list[TeamStore] = []

    def make() -> StoreAndBlobs:
        store, blobs = engine()
        store.prepare()
        stores.append(store)
        return store, blobs

    yield make
    for store in stores:
        store.close()


@pytest.fixture
def outcomes(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Divide short sessions too, and count which ones continue from settled parts."""
    counts: Counter[str] = Counter()

    def count(files: HubFiles, max_bytes: int | None = None) -> bool:
        is_grown = growing.grow_session(files, max_bytes)
        counts["grown" if is_grown else "derived again"] += 1
        return is_grown

    monkeypatch.setattr(worker, "grow_session", count)
    monkeypatch.setattr(growing, "MIN_OPEN_NODES", 4)
    monkeypatch.setattr(derive, "MIN_DIVIDED_NODES", 4)
    monkeypatch.setattr(derive, "CUT_MARGIN", 1)
    return counts


class Uploader:
    """Uploads files that grow, as a hub receives them."""

    def __init__(self, store: TeamStore, blobs: BlobStore) -> None:
        self.store = store
        self._blobs = blobs
        self._stored: Counter[str] = Counter()
        self._rest: dict[str, bytes] = {}

    def append(self, lines: Lines) -> None:
        """Upload lines, without deriving them."""
        added: dict[str, bytes] = {}
        for path, raw in lines:
            added[path] = added.get(path, b"") + raw
        for path, raw in added.items():
            self._upload(path, self._rest.get(path, b"") + raw)

    def _upload(self, path: str, raw: bytes) -> None:
        is_transcript = path.endswith(".jsonl")
        end = raw.rfind(b"\n") + 1 if is_transcript else len(raw)
        offset, whole = self._stored[path], raw[:end]
        self._rest[path] = raw[end:]
        self._stored[path] += end
        span = StoredSpan(
            offset=offset,
            length=end,
            client_offset=offset + end,
            sha256=hashlib.sha256(whole).digest(),
            address=self._blobs.put(whole),
        )
        fragment = SourceFragment(
            offset=offset + end,
            fingerprint=hashlib.sha256(raw[end:]).digest(),
            frame=compress(raw[end:]),
        )
        self.store.put(
            SourceUpdate(
                source=_remote(path),
                spans=(span,) if end else (),
                fragment=fragment if raw[end:] else None,
            )
        )

    def derive(self) -> None:
        derive_all(self.store, self._blobs)

    def open_archive(self) -> Archive:
        return Archive.from_store(self.store.open_reader(_ME, self._blobs))


def _remote(path: str) -> RemoteSource:
    stem = Path(path).stem
    kind = SourceKind.SESSION
    if "/subagents/" in path:
        kind = SourceKind.AGENT if path.endswith(".jsonl") else SourceKind.SIDECAR
    return RemoteSource(
        person="ann",
        machine="m",
        home="/h",
        path=path,
        kind=kind,
        project=ProjectKey(PROJECT),
        session=SessionId(SESSION),
        agent=AgentId(stem.removeprefix("agent-").removesuffix(".meta"))
        if kind is not SourceKind.SESSION
        else None,
        mtime_ns=1,
    )


def comparable_rows(store: TeamStore) -> dict[str, object]:
    """Return what readers see of a session, without numbers that may differ."""
    assert isinstance(store, SqlStore)
    db = store._db

    def rows(table: str, *columns: str) -> list[tuple[Any, ...]]:
        source = db.visible_rows(table)
        owners = [row[0] for row in db.rows("SELECT owner FROM owner", {})]
        names = ", ".join(f"t.{column}" for column in columns)
        sql = f"SELECT {names} FROM {source} AS t"  # noqa: S608 (our names)
        found = db.rows(sql, {"owners": owners})
        return [tuple(row) for row in found]

    found: dict[str, Any] = {}
    for name, table in TEAM_TABLES.items():
        columns = [c.name for c in table.team_columns if c.name != "position"]
        if name.startswith("settled") or name in {
            "session",
            "record",
            "payer",
            "usage",
        }:
            continue
        found[name] = Counter(map(repr, rows(name, *columns)))
    places = {
        number: place
        for number, *place in rows("record", "record", "key", "source", "start")
    }
    columns = [c.name for c in TEAM_TABLES["record"].team_columns]
    found["record"] = Counter(map(repr, rows("record", *columns[1:])))
    assert len(places) == sum(found["record"].values())
    texts = rows("text", "record", "kind", "length")
    found["text"] = Counter(repr((places[r], k, n)) for r, k, n in texts)
    assert len({row[0] for row in rows("text", "text")}) == len(texts)
    payers = {
        number: payer
        for number, *payer in rows(
            *("payer", "payer", "agent", "agent_type", "model", "terms", "entrypoint")
        )
    }
    columns = [c.name for c in TEAM_TABLES["usage"].team_columns]
    usage = rows("usage", *columns)
    found["usage"] = Counter(repr((payers[p], *row)) for p, *row in usage)
    columns = [c.name for c in TEAM_TABLES["session"].team_columns]
    found["session"] = sorted(
        repr((*row[:-1], replace(decode_summary(bytes(row[-1])), project_paths=())))
        for row in rows("session", *columns)
    )
    if store.__class__.__name__ == "PostgresStore":
        found["term"] = db.rows("SELECT term, texts FROM term ORDER BY 1", {})
        stats = db.rows("SELECT sum(texts)::int, sum(terms)::int FROM owner_stats", {})
        found["stats"] = stats
        words = db.rows(
            "SELECT word, kind, sum(texts)::int FROM session_word GROUP BY 1, 2"
            " ORDER BY 1, 2",
            {},
        )
        found["word"] = words
    return found


def differing_tables(
    uploader: Uploader,
    lines: Lines,
    make_store: Callable[[], StoreAndBlobs],
    monkeypatch: pytest.MonkeyPatch,
) -> list[str]:
    """Return the tables that differ from those of the session derived at once."""
    whole = Uploader(*make_store())
    whole.append(lines)
    with monkeypatch.context() as patched:
        patched.setattr(derive, "MIN_DIVIDED_NODES", _NEVER)
        patched.setattr(growing, "PART_BYTES", _NEVER)
        whole.derive()
    own, expected = comparable_rows(uploader.store), comparable_rows(whole.store)
    return [table for table, rows in expected.items() if own[table] != rows]


def grow_and_compare(
    seed: int,
    steps: int,
    make_store: Callable[[], StoreAndBlobs],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    uploader = Uploader(*make_store())
    lines = write_files(seed, steps)
    for part in cut_lines(lines, seed):
        uploader.append(part)
        uploader.derive()

    assert differing_tables(uploader, lines, make_store, monkeypatch) == [], seed


@pytest.mark.full_on_clickhouse
def test_growing_in_any_steps_gives_the_rows_of_the_whole(
    outcomes: Counter[str],
    make_store: Callable[[], StoreAndBlobs],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for seed in range(seeded(4), seeded(4) + sized(2, 100, 1_000)):
        grow_and_compare(seed, (20, 40, 80, 150)[seed % 4], make_store, monkeypatch)

    assert outcomes["grown"]


@pytest.mark.full
def test_growing_in_many_more_steps_gives_the_rows_of_the_whole(
    outcomes: Counter[str],
    make_store: Callable[[], StoreAndBlobs],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for seed in range(700, 708):
        grow_and_compare(seed, (20, 40, 80, 150)[seed % 4], make_store, monkeypatch)

    assert outcomes["grown"] > 3
    assert outcomes["derived again"]


_LINES = write_steps(*("prompt", "answer", "agent", "call", "call") * 6)


def test_append_writes_only_the_last_part(
    outcomes: Counter[str], make_store: Callable[[], StoreAndBlobs]
) -> None:
    uploader = Uploader(*make_store())
    uploader.append(_LINES[:-1])
    uploader.derive()
    store = uploader.store
    assert isinstance(store, SqlStore)
    sql = "SELECT DISTINCT part FROM record"
    before = {row[0] for row in store._db.rows(sql, {})}

    uploader.append(_LINES[-1:])
    uploader.derive()

    after = {row[0] for row in store._db.rows(sql, {})}
    assert outcomes == {"derived again": 1, "grown": 1}
    assert len(before & after) >= len(before) - 1


@pytest.mark.full_on_clickhouse
def test_readers_see_what_was_appended(
    outcomes: Counter[str], make_store: Callable[[], StoreAndBlobs]
) -> None:
    uploader = Uploader(*make_store())
    uploader.append(_LINES[:-24])
    uploader.derive()
    counts: list[tuple[int, int]] = []
    with uploader.open_archive() as archive:
        for start in range(-24, 0, 8):
            (session,) = archive.sessions()
            matches = archive.search("prompt").session_count
            counts.append((session.message_count, matches))
            messages = archive.session(SESSION).live_branch.messages
            assert len(messages) == session.message_count
            uploader.append(_LINES[start : start + 8 or None])
            uploader.derive()
            archive.refresh()

    assert outcomes["grown"]
    assert counts == sorted(set(counts))


@pytest.mark.full_on_clickhouse
def test_session_is_derived_again_if_others_may_see_it(
    outcomes: Counter[str],
    make_store: Callable[[], StoreAndBlobs],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    uploader = Uploader(*make_store())
    uploader.append(_LINES[:-8])
    uploader.derive()
    # A rule that was made while the hub did not run: it applies from now on.
    with monkeypatch.context() as patched:
        patched.setattr(uploader.store, "_apply_rule", lambda _: 0)
        uploader.store.limit_project("/", ProjectRule(people=("ben",)))

    uploader.append(_LINES[-8:-4])
    uploader.derive()
    uploader.append(_LINES[-4:])
    uploader.derive()

    assert outcomes["derived again"] == 2
    assert differing_tables(uploader, _LINES, make_store, monkeypatch) == []


_MODEST_STEPS = (
    *("prompt", "answer", "call", "parallel_calls", "metadata") * 3,
    *("agent", "interruption", "compaction", "open_call", "late_result"),
)


def derive_in_parts_and_compare(
    lines: Lines,
    make_store: Callable[[], StoreAndBlobs],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    uploader = Uploader(*make_store())
    for start in range(0, len(lines), 20):  # several spans
        uploader.append(lines[start : start + 20])
    uploader.derive()

    assert differing_tables(uploader, lines, make_store, monkeypatch) == []


def test_end_of_a_long_session_does_not_wait_for_another_process(
    make_store: Callable[[], StoreAndBlobs], outcomes: Counter[str]
) -> None:
    lines = write_steps(*["prompt", "answer"] * 40)
    store, blobs = make_store()
    uploader = Uploader(store, blobs)
    left = FailedFamilies()
    size = sum(len(raw) for _, raw in lines)
    quick = DeriveSelection(max_bytes=size // 2)
    uploader.append(lines[:-4])
    uploader.derive()
    outcomes.clear()

    uploader.append(lines[-4:])
    written = derive_pending(store, blobs, left, selection=quick)

    assert (written, outcomes, len(left)) == (1, {"grown": 1}, 0)
    assert store.pending_sources() == []
    assert derive_pending(store, blobs, left, selection=quick) == 0

    uploader.append(lines)  # more than the limit
    assert derive_pending(store, blobs, left, selection=quick) == 0
    assert len(left) == 1


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Derive short sessions in parts too, and count how often that is possible."""
    counts: Counter[str] = Counter()

    def count(files: HubFiles, on_part: Callable[[], None]) -> bool:
        is_done = growing.derive_in_parts(files, on_part)
        counts["in parts" if is_done else "whole"] += 1
        return is_done

    monkeypatch.setattr(worker, "derive_in_parts", count)
    monkeypatch.setattr(growing, "PART_BYTES", 12_000)
    monkeypatch.setattr("bygones.team.derive._BLOCK_BYTES", 2_000)
    monkeypatch.setattr(growing, "NODES_PER_PART", 24)
    monkeypatch.setattr(local_growing, "_LARGER_PARTS", 2)
    monkeypatch.setattr(derive, "MIN_DIVIDED_NODES", 4)
    monkeypatch.setattr(derive, "CUT_MARGIN", 1)
    return counts


@pytest.mark.full_on_clickhouse
def test_deriving_in_parts_gives_the_rows_of_the_whole(
    parts: Counter[str],
    make_store: Callable[[], StoreAndBlobs],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for seed in range(seeded(4), seeded(4) + sized(1, 100, 1_000)):
        chosen = random.Random(seed).choices(_MODEST_STEPS, k=80)  # noqa: S311 (not for secrets)
        derive_in_parts_and_compare(write_steps(*chosen), make_store, monkeypatch)

    assert parts["in parts"]


@pytest.mark.full
def test_deriving_many_more_in_parts_gives_the_rows_of_the_whole(
    parts: Counter[str],
    make_store: Callable[[], StoreAndBlobs],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for seed in range(700, 704):
        chosen = random.Random(seed).choices(_MODEST_STEPS, k=200)  # noqa: S311 (not for secrets)
        derive_in_parts_and_compare(write_steps(*chosen), make_store, monkeypatch)
        derive_in_parts_and_compare(write_files(seed, 60), make_store, monkeypatch)

    assert parts["in parts"]
