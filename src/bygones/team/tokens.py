"""Tokens: who somebody is, by a secret of which only the hash is kept."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterator
from datetime import datetime
from hashlib import sha256
from typing import Protocol

import msgspec
from msgspec import Struct, structs

from bygones.errors import TokenRefused
from bygones.team.contract import Role, Scope

__all__ = ["PREFIX", "Notes", "Token", "Tokens"]

PREFIX = "rcl_"
"""How a token begins: whoever finds one knows what it opens, and so does our mask."""
_KIND = "token"
_NAME = re.compile(r"[a-z0-9][a-z0-9._@+-]{0,63}")
_SHOWN = 12
_KEPT = 5.0
"""Seconds for which a token is believed without asking again."""
_MOST_KEPT = 10_000


class Notes(Protocol):
    """Where tokens are kept: any team store."""

    def note(self, kind: str, key: str) -> bytes | None:
        """Return a note."""
        ...

    def notes(self, kind: str) -> dict[str, bytes]:
        """Return all notes of a kind."""
        ...

    def set_note(self, kind: str, key: str, value: bytes | None) -> None:
        """Keep a note, or forget it."""
        ...


class Token(Struct, frozen=True, kw_only=True):
    """What is kept of a token: whose it is, and what that person may see."""

    id: str
    """The beginning of its hash."""
    person: str
    teams: tuple[str, ...] = ()
    role: Role = Role.OWN
    label: str = ""
    """What it is for, such as a machine."""
    made: datetime
    revoked: datetime | None = None

    @property
    def scope(self) -> Scope:
        """Who asks with it."""
        return Scope(person=self.person, teams=self.teams, role=self.role)


_tokens = msgspec.json.Decoder(Token)


class Tokens:
    """Issues tokens, knows them again, and revokes them."""

    def __init__(self, notes: Notes, clock: Callable[[], float] = lambda: 0.0) -> None:
        self._notes = notes
        self._clock = clock
        self._known: dict[str, tuple[float, Token | None]] = {}

    def issue(
        self,
        person: str,
        *,
        teams: tuple[str, ...] = (),
        role: Role = Role.OWN,
        label: str = "",
        now: datetime,
    ) -> tuple[str, Token]:
        """Return a new token, which nobody can be told again, and what is kept of it.

        :raises TokenRefused: if a name cannot be one.
        """
        for name in (person, *teams):
            if not _NAME.fullmatch(name):
                raise TokenRefused(name)
        secret = PREFIX + secrets.token_urlsafe(32)
        sign = _sign(secret)
        token = Token(
            id=sign[:_SHOWN],
            person=person,
            teams=tuple(sorted(set(teams))),
            role=role,
            label=label,
            made=now,
        )
        self._notes.set_note(_KIND, sign, msgspec.json.encode(token))
        return secret, token

    def known(self, secret: str) -> Token | None:
        """Return whose a token is; ``None`` for one that is wrong or revoked."""
        if not secret.startswith(PREFIX):
            return None
        sign = _sign(secret)
        now = self._clock()
        found = self._known.get(sign)
        if found is None or now - found[0] >= _KEPT:
            raw = self._notes.note(_KIND, sign)
            if len(self._known) >= _MOST_KEPT:
                self._known.clear()
            found = self._known[sign] = (now, _tokens.decode(raw) if raw else None)
        token = found[1]
        return token if token is not None and token.revoked is None else None

    def all(self) -> Iterator[Token]:
        """Yield what is kept of tokens, the oldest first."""
        kept = map(_tokens.decode, self._notes.notes(_KIND).values())
        yield from sorted(kept, key=lambda token: (token.made, token.id))

    def revoke(self, name: str, now: datetime) -> list[Token]:
        """Revoke a token by its id, or all of a person; return which those were."""
        revoked = []
        for sign, raw in self._notes.notes(_KIND).items():
            token = _tokens.decode(raw)
            if token.revoked is None and name in {token.id, token.person}:
                token = structs.replace(token, revoked=now)
                self._notes.set_note(_KIND, sign, msgspec.json.encode(token))
                revoked.append(token)
        self._known.clear()
        return revoked


def _sign(secret: str) -> str:
    # A token is drawn from 2**256: it cannot be guessed, so a quick hash is enough.
    return sha256(secret.encode("utf-8", "replace")).hexdigest()
