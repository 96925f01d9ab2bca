"""Access tokens, and opening a team store by its URL."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterator
from datetime import datetime
from hashlib import sha256
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlencode, urlsplit

import msgspec
from msgspec import Struct, structs

from bygones.errors import InvalidAccountName, InvalidStoreURL, MissingDependency
from bygones.team.contract import AccessRole, AccessScope, BlobStore
from bygones.team.stores.base import TeamStore

TOKEN_PREFIX = "rcl_"  # noqa: S105 (not a secret)
"""How tokens start, so that people and redaction rules recognize them."""
_NOTE_KIND = "token"
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

    def issue(
        self,
        person: str,
        *,
        teams: tuple[str, ...] = (),
        role: AccessRole = AccessRole.OWN,
        label: str = "",
        now: datetime,
    ) -> tuple[str, AccessToken]:
        """Return a new token, which cannot be shown again, and what is stored about it.

        :raises InvalidAccountName: if a name is not valid.
        """
        for name in (person, *teams):
            if not _VALID_NAME.fullmatch(name):
                raise InvalidAccountName(name)
        secret = TOKEN_PREFIX + secrets.token_urlsafe(32)
        digest = _hash_secret(secret)
        token = AccessToken(
            id=digest[:_ID_LENGTH],
            person=person,
            teams=tuple(sorted(set(teams))),
            role=role,
            label=label,
            created_at=now,
        )
        self._notes.set_note(_NOTE_KIND, digest, msgspec.json.encode(token))
        return secret, token

    def authenticate(self, secret: str) -> AccessToken | None:
        """Return a token by its secret; ``None`` if it is unknown or revoked."""
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
        return token if token is not None and token.revoked_at is None else None

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


def _hash_secret(secret: str) -> str:
    # Tokens have 256 random bits and cannot be guessed, so a fast hash is enough.
    return sha256(secret.encode("utf-8", "replace")).hexdigest()


if TYPE_CHECKING:
    from bygones.store.protocols import StoreReader


BLOB_STORE_NOTE = ("hub", "raw")
"""The note with the URL of the hub's blob store."""
_OWN_PARAMETERS = ("person", "teams", "role", "raw")


def open_store(url: str) -> TeamStore:
    """Open the store at a URL, without changing its schema."""
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
    raise InvalidStoreURL(f"{scheme}: is no engine that is known")


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
    """Return the scope that a URL names."""
    _, own = _split_url(url)
    if not own.get("person"):
        raise InvalidStoreURL("it does not say who asks: add ?person=…")
    teams = tuple(team for team in own.get("teams", "").split(",") if team)
    try:
        role = AccessRole(own.get("role", AccessRole.TEAM if teams else AccessRole.OWN))
    except ValueError as error:
        raise InvalidStoreURL("role is own, team or auditor") from error
    return AccessScope(person=own["person"], teams=teams, role=role)


def _split_url(url: str) -> tuple[str, dict[str, str]]:
    """Split a URL into that of the database, and our own parameters."""
    split = urlsplit(_normalize_url(url))
    parameters = parse_qsl(split.query, keep_blank_values=True)
    others = urlencode([pair for pair in parameters if pair[0] not in _OWN_PARAMETERS])
    own = {key: value for key, value in parameters if key in _OWN_PARAMETERS}
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
