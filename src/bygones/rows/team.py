"""The rows that commands of a hub give as JSON."""

from __future__ import annotations

from datetime import datetime

from bygones.model.ids import SessionId
from bygones.rows.archive import Row
from bygones.team.contract import Receipt, Role
from bygones.team.tokens import Token

__all__ = ["ROWS", "ErasedRow", "TokenRow"]


class TokenRow(Row, frozen=True, kw_only=True, tag="token"):
    """A token of a hub; itself it is nowhere."""

    id: str
    person: str
    teams: tuple[str, ...]
    role: Role
    label: str
    made: datetime
    revoked: datetime | None = None

    @classmethod
    def of(cls, token: Token) -> TokenRow:
        """Return what is kept of a token."""
        return cls(
            id=token.id,
            person=token.person,
            teams=token.teams,
            role=token.role,
            label=token.label,
            made=token.made,
            revoked=token.revoked,
        )


class ErasedRow(Row, frozen=True, kw_only=True, tag="erased"):
    """The receipt of an erasure."""

    erased: datetime
    person: str | None = None
    """What was named; all of it had to fit."""
    session: SessionId | None = None
    project: str | None = None
    before: datetime | None = None
    sessions: tuple[SessionId, ...]
    """Those that are gone."""
    files: int
    rows: int
    objects: int
    """In the raw store."""
    held: tuple[SessionId, ...]
    """Those that were held, and are still there."""

    @classmethod
    def of(cls, receipt: Receipt, moment: datetime) -> ErasedRow:
        """Return the receipt of an erasure at a moment."""
        named = receipt.selector
        return cls(
            erased=moment,
            person=named.person,
            session=named.session,
            project=named.project,
            before=named.before,
            sessions=receipt.sessions,
            files=receipt.sources,
            rows=receipt.rows,
            objects=len(receipt.addresses),
            held=receipt.held,
        )


ROWS = (TokenRow, ErasedRow)
