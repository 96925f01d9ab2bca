"""Open team stores by URL, manage access tokens, and administer a hub."""

from __future__ import annotations

import random
import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlencode, urlsplit

import msgspec
from msgspec import Struct, structs
from msgspec.structs import replace

from bygones.errors import (
    HubVersionDiffers,
    InvalidAccountName,
    InvalidStoreURL,
    MissingDependency,
    RawStoreIncomplete,
)
from bygones.model.projects import name_remote
from bygones.team.blobs import ExternalBlobStore, open_blob_store
from bygones.team.contract import (
    REBUILD_NOTE,
    AccessRole,
    AccessScope,
    BlobStore,
    ErasureReceipt,
    ErasureSelector,
)
from bygones.team.stores.base import TeamStore
from bygones.team.worker import derive_all

TOKEN_PREFIX = "byg_"  # noqa: S105 (not a secret)
"""How tokens start, so that people and redaction rules recognize them."""
_NOTE_KIND = "token"
_USE_KIND = "token-use"
_USE_INTERVAL = timedelta(minutes=10)
_VALID_NAME = re.compile(r"[a-z0-9][a-z0-9._@+-]{0,63}")
_ID_LENGTH = 12
_CACHE_SECONDS = 5.0
"""Seconds for which a token is cached."""
_MAX_CACHED = 10_000


class AccessToken(Struct, frozen=True, kw_only=True):
    """What is stored about a token: its owner, and what this person may see."""

    id: str
    """The start of its hash."""
    person: str
    teams: tuple[str, ...] = ()
    role: AccessRole = AccessRole.OWN
    label: str = ""
    """What it is for, such as a machine."""
    created_at: datetime
    revoked_at: datetime | None = None
    expires_at: datetime | None = None

    def is_valid_at(self, now: datetime) -> bool:
        """Whether it is neither revoked nor expired."""
        is_expired = self.expires_at is not None and self.expires_at <= now
        return self.revoked_at is None and not is_expired

    @property
    def scope(self) -> AccessScope:
        return AccessScope(person=self.person, teams=self.teams, role=self.role)


_token_decoder = msgspec.json.Decoder(AccessToken)


class TokenStore:
    """Issues, authenticates and revokes tokens. Only their hashes are stored."""

    def __init__(
        self, notes: TeamStore, clock: Callable[[], float] = lambda: 0.0
    ) -> None:
        self._notes = notes
        self._clock = clock
        self._cache: dict[str, tuple[float, AccessToken | None]] = {}
        self._noted_uses: dict[str, datetime] = {}

    def issue(  # noqa: PLR0913 (most by name)
        self,
        person: str,
        *,
        teams: tuple[str, ...] = (),
        role: AccessRole = AccessRole.OWN,
        label: str = "",
        now: datetime,
        expires_at: datetime | None = None,
    ) -> tuple[str, AccessToken]:
        """Return a new token, which cannot be shown again, and what is stored about it.

        :raises InvalidAccountName: if a name is not valid.
        """
        for name in (person, *teams):
            check_account_name(name)
        secret = TOKEN_PREFIX + secrets.token_urlsafe(32)
        digest = _hash_secret(secret)
        token = AccessToken(
            id=digest[:_ID_LENGTH],
            person=person,
            teams=tuple(sorted(set(teams))),
            role=role,
            label=label,
            created_at=now,
            expires_at=expires_at,
        )
        self._notes.set_note(_NOTE_KIND, digest, msgspec.json.encode(token))
        return secret, token

    def authenticate(
        self, secret: str, at: datetime | None = None
    ) -> AccessToken | None:
        """Return a token by its secret; ``None`` if it is unknown, revoked or expired.

        Its use at a time is noted, at most every ten minutes.
        """
        if not secret.startswith(TOKEN_PREFIX):
            return None
        digest = _hash_secret(secret)
        now = self._clock()
        cached = self._cache.get(digest)
        if cached is None or now - cached[0] >= _CACHE_SECONDS:
            raw = self._notes.get_note(_NOTE_KIND, digest)
            if len(self._cache) >= _MAX_CACHED:
                self._cache.clear()
            cached = (now, _token_decoder.decode(raw) if raw else None)
            self._cache[digest] = cached
        token = cached[1]
        if token is None or not token.is_valid_at(at or token.created_at):
            return None
        if at is not None:
            self._note_use(digest, at)
        return token

    def _note_use(self, digest: str, at: datetime) -> None:
        noted = self._noted_uses.get(digest)
        if noted is not None and at - noted < _USE_INTERVAL:
            return
        if len(self._noted_uses) >= _MAX_CACHED:
            self._noted_uses.clear()
        self._noted_uses[digest] = at
        self._notes.set_note(_USE_KIND, digest[:_ID_LENGTH], at.isoformat().encode())

    def last_uses(self) -> dict[str, datetime]:
        """Return when tokens were used last, by their ids."""
        notes = self._notes.list_notes(_USE_KIND)
        return {id_: datetime.fromisoformat(raw.decode()) for id_, raw in notes.items()}

    def list_tokens(self) -> Iterator[AccessToken]:
        """Yield all tokens, the oldest first."""
        notes = self._notes.list_notes(_NOTE_KIND)
        tokens = map(_token_decoder.decode, notes.values())
        yield from sorted(tokens, key=lambda token: (token.created_at, token.id))

    def revoke(self, name: str, now: datetime) -> list[AccessToken]:
        """Revoke a token by its id, or all tokens of a person; return them."""
        revoked = []
        for digest, raw in self._notes.list_notes(_NOTE_KIND).items():
            token = _token_decoder.decode(raw)
            if token.revoked_at is None and name in {token.id, token.person}:
                token = structs.replace(token, revoked_at=now)
                self._notes.set_note(_NOTE_KIND, digest, msgspec.json.encode(token))
                revoked.append(token)
        self._cache.clear()
        return revoked


def repository_name(address: str) -> str:
    """Return the name of a repository by its address; empty if it is not one."""
    return name_remote(address)


def check_account_name(name: str) -> None:
    """Raise ``InvalidAccountName`` if this cannot be a person or a team."""
    if not _VALID_NAME.fullmatch(name):
        raise InvalidAccountName(name)


def _hash_secret(secret: str) -> str:
    # Tokens have 256 random bits and cannot be guessed, so a fast hash is enough.
    return sha256(secret.encode("utf-8", "replace")).hexdigest()


_EVENT_KIND = "audit"


class AuditEvent(Struct, frozen=True, kw_only=True):
    """What an administrator or a sign-in changed on a hub."""

    at: datetime
    action: str
    """Such as ``token-new``, ``token-revoke``, ``erase`` or ``hold``."""
    person: str = ""
    """Whom it is about."""
    detail: str = ""
    by: str = ""
    """The account that ran the command."""


def record_event(store: TeamStore, event: AuditEvent) -> None:
    """Store an event; events are never changed."""
    key = f"{event.at.isoformat()} {secrets.token_hex(4)}"
    store.set_note(_EVENT_KIND, key, msgspec.json.encode(event))


def list_events(store: TeamStore) -> list[AuditEvent]:
    """Return all events, the oldest first."""
    notes = store.list_notes(_EVENT_KIND)
    return [msgspec.json.decode(notes[key], type=AuditEvent) for key in sorted(notes)]


if TYPE_CHECKING:
    from bygones.store.protocols import StoreReader


BLOB_STORE_NOTE = ("hub", "raw")
"""The note with the URL of the hub's blob store."""
_OWN_PARAMETERS = ("person", "teams", "role", "raw")


def open_store(url: str) -> TeamStore:
    """Open the store at a URL, without changing its schema."""
    if ":" not in url:
        raise InvalidStoreURL(
            f"{url!r} does not start with postgresql:// or clickhouse://"
        )
    plain, _ = _split_url(url)
    scheme = plain.partition(":")[0]
    if scheme in {"postgresql", "postgres"}:
        try:
            from bygones.team.stores.postgres import PostgresStore
        except ImportError as error:
            raise MissingDependency(error.name or "psycopg") from error
        return PostgresStore(plain)
    if scheme in {"clickhouse", "chdb"}:
        try:
            from bygones.team.stores.clickhouse import ClickHouseStore
        except ImportError as error:
            raise MissingDependency(error.name or "clickhouse-connect") from error
        return ClickHouseStore(plain)
    raise InvalidStoreURL(f"{scheme!r} is not a supported database")


def open_reader(url: str) -> StoreReader:
    """Open the store at a URL for reading, within the scope that the URL names."""
    scope = parse_scope(url)
    _, own = _split_url(url)
    store = open_store(url)
    try:
        blobs = open_blob_store_of(store, own.get("raw"))
        reader = store.open_reader(scope, blobs)
    except BaseException:
        store.close()
        raise
    reader.call_on_close(store.close)
    return reader


def parse_scope(url: str) -> AccessScope:
    """Return the scope that a URL names.

    It has to be complete: a scope that shows less than expected looks like lost data.

    :raises InvalidStoreURL: if a parameter is missing, unknown or contradicts another.
    """
    _, own = _split_url(url)
    person = own.get("person", "")
    if not person:
        raise InvalidStoreURL("it names no person: add ?person=…")
    teams = tuple(team for team in own.get("teams", "").split(",") if team)
    for name in (person, *teams):
        if not _VALID_NAME.fullmatch(name):
            raise InvalidStoreURL(f"{name!r} is not the name of a person or a team")
    if "role" not in own and not teams:
        raise InvalidStoreURL(
            f"it does not say what {person} may see: add teams=… or role=own"
        )
    try:
        role = AccessRole(own.get("role", AccessRole.TEAM))
    except ValueError as error:
        raise InvalidStoreURL("role must be own, team or auditor") from error
    if role is AccessRole.TEAM and not teams:
        raise InvalidStoreURL("role=team needs teams=…")
    if role is AccessRole.OWN and teams:
        raise InvalidStoreURL("role=own contradicts teams=…")
    return AccessScope(person=person, teams=teams, role=role)


def _split_url(url: str) -> tuple[str, dict[str, str]]:
    """Split a URL into that of the database, and our own parameters."""
    split = urlsplit(_normalize_url(url))
    parameters = parse_qsl(split.query, keep_blank_values=True)
    others = urlencode([pair for pair in parameters if pair[0] not in _OWN_PARAMETERS])
    own = {key: value for key, value in parameters if key in _OWN_PARAMETERS}
    if len(own) < sum(key in _OWN_PARAMETERS for key, _ in parameters):
        raise InvalidStoreURL("a parameter is given twice")
    plain = f"{split.scheme}://{split.netloc}{split.path}"
    return f"{plain}?{others}" if others else plain, own


def _normalize_url(url: str) -> str:
    """Restore the slashes of a URL that was passed as a path, which has only one.

    A URL without a host has three: ``postgresql:///database`` is on this machine.
    """
    scheme, _, rest = url.partition(":/")
    if rest.startswith("/"):
        return url
    is_local = scheme == "chdb" or "/" not in rest.partition("?")[0]
    return (
        f"{scheme}:///{rest}" if is_local and rest[:1] != "?" else f"{scheme}://{rest}"
    )


def open_blob_store_of(store: TeamStore, blobs_url: str | None = None) -> BlobStore:
    """Open the blob store of a team store; by default the one in its database."""
    note = store.get_note(*BLOB_STORE_NOTE)
    url = blobs_url or (note.decode() if note else None)
    if url is None:
        return store.database_blobs()
    from bygones.team.blobs import open_blob_store

    return open_blob_store(url)


@contextmanager
def open_hub_stores(
    store_url: str, blobs_url: str, *, replaces_index: bool = False
) -> Iterator[tuple[TeamStore, ExternalBlobStore]]:
    """Open a team store, creating or repairing its schema, and a blob store.

    :raises HubVersionDiffers: if the index of a running hub would have to be dropped,
        unless it may be replaced.
    """
    blobs = open_blob_store(blobs_url)
    store = open_store(store_url)
    try:
        if not replaces_index and store.has_other_index():
            raise HubVersionDiffers
        store.prepare()
        if store.get_note(*BLOB_STORE_NOTE) is None:
            record_blob_store(store, blobs_url)
        yield store, blobs
    finally:
        store.close()


def record_blob_store(store: TeamStore, blobs_url: str) -> None:
    """Note where the blobs are, so that readers need only the URL of the store."""
    store.set_note(*BLOB_STORE_NOTE, _absolute_url(blobs_url).encode())


def _absolute_url(url: str) -> str:
    return url if "://" in url else str(Path(url).absolute())


class MigrationReport(Struct, frozen=True):
    """What a migration copied."""

    sources: int
    bytes: int
    sessions: int


def migrate_store(
    source: TeamStore,
    target: TeamStore,
    on_progress: Callable[[int], None] = lambda _: None,
) -> MigrationReport:
    """Copy what is missing from one store to another; can be interrupted and repeated.

    Blobs are copied only if they are in the database. Tombstones, notes and holds are
    copied too, and what was erased since the last migration is erased in the target.
    ``on_progress`` is called with the number of bytes of each source.
    """
    target.prepare()
    _copy_erasures(source, target)
    for selector, reason in source.holds():
        target.hold(selector, reason=reason)
    for kind in source.note_kinds():
        for key, value in source.list_notes(kind).items():
            if (kind, key) != REBUILD_NOTE:
                target.set_note(kind, key, value)
    copy_blob = _blob_copier(source, target)
    sources = total = 0
    for update in source.export_updates():
        if not update.spans and update.fragment is None:
            continue  # its upload was rejected, or is only starting
        spans = tuple(replace(s, address=copy_blob(s.address)) for s in update.spans)
        target.put(replace(update, spans=spans))
        size = sum(span.length for span in spans)
        sources, total = sources + 1, total + size
        on_progress(size)
    sessions = derive_all(target, open_blob_store_of(target))
    return MigrationReport(sources, total, sessions)


def _copy_erasures(source: TeamStore, target: TeamStore) -> None:
    tombstones = list(source.tombstones())
    target.add_tombstones(tombstones)
    sources = {one.source.number: one.source for one in target.export_updates()}
    erased = [sources[n] for n in target.find_erased(list(sources.values()))]
    if not erased:
        return
    now = max(one.erased_at for one in tombstones)
    for person, session in {(one.person, one.session) for one in erased}:
        if session is not None:
            target.erase(ErasureSelector(person=person, session=session), now=now)


def _blob_copier(source: TeamStore, target: TeamStore) -> Callable[[str], str]:
    if source.get_note(*BLOB_STORE_NOTE) is not None:
        return lambda address: address
    before, after = source.database_blobs(), target.database_blobs()
    return cache(lambda address: after.put(before.get(address)))


def erase(
    store: TeamStore,
    blobs: ExternalBlobStore,
    selector: ErasureSelector,
    *,
    now: datetime,
) -> ErasureReceipt:
    """Erase matching sessions with all their rows and blobs; return a receipt.

    If everything of a person is erased, their tokens are revoked.

    :raises RawStoreIncomplete: if this is not the blob store of the store.
    """
    used = store.blob_addresses()
    if used and set(used).isdisjoint(blobs.addresses()):
        raise RawStoreIncomplete(used[0], len(used))
    if selector.person and selector == ErasureSelector(person=selector.person):
        TokenStore(store).revoke(selector.person, now)
    receipt = store.erase(selector, now=now)
    remove_orphaned_blobs(store, blobs)
    return receipt


def remove_orphaned_blobs(store: TeamStore, blobs: ExternalBlobStore) -> int:
    """Remove all blobs that belong to no source; return how many there were.

    These are left by erasures, and by hubs that were killed before the store knew about
    their blobs. A source is added to the store before its first blob is written. So a
    blob is unused if it was listed before the sources, and its source isn't among them.
    """
    orphaned = list(store.orphaned_blobs())
    addresses = list(blobs.addresses())
    used = {
        blobs.source_prefix(update.source.person, update.source.id)
        for update in store.export_updates()
    }
    unused = [one for one in addresses if f"{one.rpartition('/')[0]}/" not in used]
    removed = {*orphaned, *unused}
    blobs.remove(removed)
    store.forget_orphaned_blobs(orphaned)
    return len(removed)


_MAX_CHECKED_BLOBS = 200_000
_SAMPLED_BLOBS = 1_000


def check_blobs(store: TeamStore, blobs: ExternalBlobStore) -> tuple[str, ...]:
    """Return addresses that the store refers to, and that the blob store lacks.

    Of very many addresses only some are checked, chosen at random.
    """
    wanted = store.blob_addresses()
    if len(wanted) <= _MAX_CHECKED_BLOBS:
        return tuple(sorted(set(wanted).difference(blobs.addresses())))
    sample = random.SystemRandom().sample(wanted, _SAMPLED_BLOBS)
    return tuple(sorted(set(sample).difference(blobs.get_frames(sample))))
