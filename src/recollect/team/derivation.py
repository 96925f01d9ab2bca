"""What is derived of sessions, in rows that any engine can hold.

Numbers of sessions and texts are given by the store; here rows name a session by the
struct they are in, and a record by the number of its id.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct

from recollect.model.ids import SessionId
from recollect.team.contract import Touched

__all__ = [
    "Derivation",
    "EditRow",
    "FillRow",
    "PromptRow",
    "PurseRow",
    "RecordRow",
    "RunRow",
    "SessionRows",
    "SpendRow",
    "TextRow",
]


class RecordRow(NamedTuple):
    """A record, and where it stands."""

    uuid: int
    message: int | None
    source: int
    offset: int
    length: int


class TextRow(NamedTuple):
    """What a record says in one part: terms in their order, by our analyser."""

    record: int
    """The place of its record among those of the session."""
    kind: int
    """As in buckets."""
    terms: list[str]


class EditRow(NamedTuple):
    """A change of a file."""

    path: str
    record: int
    branch: int
    agent: str | None
    time_ms: int | None
    added: int
    removed: int
    is_new: bool


class PromptRow(NamedTuple):
    """What a person typed, as it begins."""

    record: str
    time_ms: int | None
    branch: int
    head: str


class RunRow(NamedTuple):
    """An agent run."""

    agent: str
    type: str | None


class PurseRow(NamedTuple):
    """Who spends, and on what."""

    agent: str | None
    agent_type: str | None
    model: str | None
    terms: str
    entrypoint: str | None


class SpendRow(NamedTuple):
    """The tokens of an answer."""

    purse: int
    """The place of its purse among those of the session."""
    record: int
    time_ms: int | None
    branch: int
    input: int
    output: int
    write_5m: int
    write_1h: int
    read: int
    searches: int
    estimate: int


class FillRow(NamedTuple):
    """What a tool put into contexts in a quarter of an hour."""

    tool: str
    quarter: int | None
    calls: int
    size: int


class SessionRows(Struct, frozen=True, kw_only=True):
    """All that is derived of one session."""

    session: SessionId
    project: str | None
    started_ms: int | None
    ended_ms: int | None
    is_empty: bool
    title: str
    lengths: bytes
    listed: bytes
    sources: tuple[int, ...]
    records: list[RecordRow]
    texts: list[TextRow]
    edits: list[EditRow]
    prompts: list[PromptRow]
    rewound: list[int]
    runs: list[RunRow]
    purses: list[PurseRow]
    spends: list[SpendRow]
    fills: list[FillRow]
    claim: tuple[int | None, bytes] | None


class Derivation(Struct, frozen=True, kw_only=True):
    """Families of a person's sessions, derived together."""

    person: str
    touched: tuple[Touched, ...]
    """What these sessions were derived from; clean once they are written."""
    families: tuple[tuple[SessionRows, ...], ...]
