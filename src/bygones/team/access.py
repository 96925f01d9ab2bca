"""Access tokens, of which only the hash is kept, and opening a team store by URL."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterator
from datetime import datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Protocol
from urllib.parse import parse_qsl, urlencode, urlsplit

import msgspec
from msgspec import Struct, structs

from bygones.errors import InvalidAccountName, InvalidStoreURL, MissingDependency
from bygones.team.contract import AccessRole, AccessScope, BlobStore
from bygones.team.stores.base import TeamStore

TOKEN_PREFIX = "rcl_"  # noqa: S105 (not a secret)
"""How a token begins: whoever finds one knows what it opens, and so does our mask."""
_NOTE_KIND = "token"
_VALID_NAME = re.compile(r"[a-z0-9][a-z0-9._@+-]{0,63}")
_ID_LENGTH = 12
_CACHE_SECONDS = 5.0
"""Seconds for which a token is believed without asking again."""
_MAX_CACHED = 10_000


class NoteStore(Protocol):
    """Where tokens are kept: any team store."""

    def get_note(self, kind: str, key: str) -> bytes | None:
        """Return a note."""
        ...

    def list_notes(self, kind: str) -> dict[str, bytes]:
        """Return all notes of a kind."""
        ...

    def set_note(self, kind: str, key: str, value: bytes | None) -> None:
        """Keep a note, or forget it."""
        ...


class AccessToken(Struct, frozen=True, kw_only=True):
    """What is kept of a token: whose it is, and what that person may see."""

    id: str
    """The beginning of its hash."""
    person: str
    teams: tuple[str, ...] = ()
    role: AccessRole = AccessRole.OWN
    label: str = ""
    """What it is for, such as a machine."""
    created_at: datetime
    revoked_at: datetime | None = None

    @property
    def scope(self) -> AccessScope:
        """Who asks with it."""
        return AccessScope(person=self.person, teams=self.teams, role=self.role)


_token_decoder = msgspec.json.Decoder(AccessToken)


class TokenStore:
    """Issues tokens, knows them again, and revokes them."""

    def __init__(
        self, notes: NoteStore, clock: Callable[[], float] = lambda: 0.0
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
        """Return a new token, which nobody can be told again, and what is kept of it.

        :raises TokenRefused: if a name cannot be one.
        """
        for name in (person, *teams):
            if not _VALID_NAME.fullmatch(name):
                raise InvalidAccountName(name)
        secret = TOKEN_PREFIX + secrets.token_urlsafe(32)
        sign = _hash_secret(secret)
        token = AccessToken(
            id=sign[:_ID_LENGTH],
            person=person,
            teams=tuple(sorted(set(teams))),
            role=role,
            label=label,
            created_at=now,
        )
        self._notes.set_note(_NOTE_KIND, sign, msgspec.json.encode(token))
        return secret, token

    def authenticate(self, secret: str) -> AccessToken | None:
        """Return whose a token is; ``None`` for one that is wrong or revoked."""
        if not secret.startswith(TOKEN_PREFIX):
            return None
        sign = _hash_secret(secret)
        now = self._clock()
        found = self._cache.get(sign)
        if found is None or now - found[0] >= _CACHE_SECONDS:
            raw = self._notes.get_note(_NOTE_KIND, sign)
            if len(self._cache) >= _MAX_CACHED:
                self._cache.clear()
            found = self._cache[sign] = (
                now,
                _token_decoder.decode(raw) if raw else None,
            )
        token = found[1]
        return token if token is not None and token.revoked_at is None else None

    def list_tokens(self) -> Iterator[AccessToken]:
        """Yield what is kept of tokens, the oldest first."""
        kept = map(_token_decoder.decode, self._notes.list_notes(_NOTE_KIND).values())
        yield from sorted(kept, key=lambda token: (token.created_at, token.id))

    def revoke(self, name: str, now: datetime) -> list[AccessToken]:
        """Revoke a token by its id, or all of a person; return which those were."""
        revoked = []
        for sign, raw in self._notes.list_notes(_NOTE_KIND).items():
            token = _token_decoder.decode(raw)
            if token.revoked_at is None and name in {token.id, token.person}:
                token = structs.replace(token, revoked_at=now)
                self._notes.set_note(_NOTE_KIND, sign, msgspec.json.encode(token))
                revoked.append(token)
        self._cache.clear()
        return revoked


def _hash_secret(secret: str) -> str:
    # A token is drawn from 2**256: it cannot be guessed, so a quick hash is enough.
    return sha256(secret.encode("utf-8", "replace")).hexdigest()


if TYPE_CHECKING:
    from bygones.store.protocols import StoreReader


BLOB_STORE_NOTE = ("hub", "raw")
"""The note under which a hub keeps where its blob store is."""
_OWN_PARAMETERS = ("person", "teams", "role", "raw")


def open_store(url: str) -> TeamStore:
    """Return the store at an address; its schema is not touched."""
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
    """Return what an address lets somebody read."""
    scope = parse_scope(url)
    _, ours = _split_url(url)
    store = open_store(url)
    try:
        objects = open_blob_store_of(store, ours.get("raw"))
        shelf = store.open_reader(scope, objects)
    except BaseException:
        store.close()
        raise
    shelf.call_on_close(store.close)
    return shelf


def parse_scope(url: str) -> AccessScope:
    """Return who asks, as an address says it."""
    _, ours = _split_url(url)
    if not ours.get("person"):
        raise InvalidStoreURL("it does not say who asks: add ?person=…")
    teams = tuple(team for team in ours.get("teams", "").split(",") if team)
    try:
        role = AccessRole(
            ours.get("role", AccessRole.TEAM if teams else AccessRole.OWN)
        )
    except ValueError as error:
        raise InvalidStoreURL("role is own, team or auditor") from error
    return AccessScope(person=ours["person"], teams=teams, role=role)


def _split_url(url: str) -> tuple[str, dict[str, str]]:
    """Return an address as the engine knows it, and what is ours of it."""
    split = urlsplit(_normalize_url(url))
    given = parse_qsl(split.query, keep_blank_values=True)
    theirs = urlencode(
        [(key, value) for key, value in given if key not in _OWN_PARAMETERS]
    )
    ours = {key: value for key, value in given if key in _OWN_PARAMETERS}
    plain = f"{split.scheme}://{split.netloc}{split.path}"
    return plain + f"?{theirs}" * bool(theirs), ours


def _normalize_url(url: str) -> str:
    """Return an address that may have come as a path, which has one slash only.

    What names no server has a third one: ``postgresql:///database`` is on this machine.
    """
    scheme, _, rest = url.partition(":/")
    if rest.startswith("/"):
        return url
    is_here = scheme == "chdb" or "/" not in rest.partition("?")[0]
    return (
        f"{scheme}:///{rest}" if is_here and rest[:1] != "?" else f"{scheme}://{rest}"
    )


def open_blob_store_of(store: TeamStore, blobs_url: str | None = None) -> BlobStore:
    """Return the blob store that a store stands on, or its own."""
    noted = store.get_note(*BLOB_STORE_NOTE)
    place = blobs_url or (noted.decode() if noted else None)
    if place is None:
        return store.database_blobs()
    from bygones.team.blobs import open_blob_store

    return open_blob_store(place)
