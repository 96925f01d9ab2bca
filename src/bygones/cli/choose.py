"""Which session and which branch somebody means."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from difflib import get_close_matches

import click
from msgspec import Struct

from bygones.cli.terminal import fit_right, plain
from bygones.model.sessions import Session
from bygones.render.window import place_of

__all__ = ["check_around", "chosen_branch", "chosen_session"]

_LONGEST_AGO = datetime.min.replace(tzinfo=UTC)
_TOLD = 5
"""Sessions that a hint names."""
_TITLE = 50


class _Known(Struct, frozen=True):
    """What is kept of a session that is not shown."""

    rank: tuple[bool, datetime]
    id: str
    title: str

    def __str__(self) -> str:
        return f"{self.id[:8]} ({fit_right(plain(self.title), _TITLE)})"


def chosen_session(sessions: Iterable[Session], wanted: str | None) -> Session:
    """Return the session with this id or beginning of one, else the newest.

    Only one session is held at a time. Who names none is told what else there is.
    """
    known: list[_Known] = []
    fitting: list[_Known] = []
    best: tuple[tuple[bool, bool, datetime], Session] | None = None
    for session in sessions:
        newest = (not session.is_empty, session.ended or _LONGEST_AGO)
        one = _Known(newest, session.id, session.title.text)
        known.append(one)
        if wanted is not None and not session.id.startswith(wanted):
            continue
        fitting.append(one)
        rank = (session.id == wanted, *newest)
        if best is None or rank > best[0]:
            best = (rank, session)
    if best is None:
        raise click.UsageError(_missing(known, wanted or ""))
    is_exact = best[0][0]
    if wanted is not None and len(fitting) > 1 and not is_exact:
        raise click.UsageError(
            f"{len(fitting)} sessions begin with {wanted!r}: {_told(fitting)}"
        )
    if wanted is None and len(known) > 1:
        others = [one for one in known if one.id != best[1].id]
        sys.stderr.write(
            f"hint: the newest of {len(known):,} sessions; name another by its id: "
            f"{_told(others)}\n"
        )
    return best[1]


def _missing(known: Sequence[_Known], wanted: str) -> str:
    beginnings = {one.id[: len(wanted)]: one for one in known}
    close = get_close_matches(wanted, beginnings, n=_TOLD, cutoff=0.6)
    if close:
        meant = ", ".join(str(beginnings[name]) for name in close)
        return f"no session begins with {wanted!r}; did you mean {meant}?"
    return f"no session begins with {wanted!r}; there are {_told(known)}"


def _told(known: Sequence[_Known]) -> str:
    newest = sorted(known, key=lambda one: one.rank, reverse=True)
    rest = len(newest) - _TOLD
    more = f" and {rest:,} more" if rest > 0 else ""
    return ", ".join(map(str, newest[:_TOLD])) + more


def chosen_branch(
    session: Session, wanted: str | None, record: str | None = None
) -> int:
    """Return the number of the branch with this number, leaf or record on it.

    Where none is wanted it is the one that shows a record, else the live one.
    """
    if not wanted and record is not None:
        return _branch_showing(session, record)
    if wanted is None:
        return 0
    return _branch_named(session, wanted)


def check_around(session: Session, number: int, record: str) -> None:
    """Refuse a record that the branch which was chosen does not show."""
    if place_of(session, number, {record}) is None:
        where = _branch_showing(session, record)
        raise click.UsageError(f"{record!r} is not on branch {number}, but on {where}")


def _branch_named(session: Session, wanted: str) -> int:
    numbers = {str(branch.number): branch.number for branch in session.branches}
    if wanted in numbers:
        return numbers[wanted]
    exact = session.branch(wanted)
    if exact is not None:
        return exact.number
    found = [b.number for b in session.branches if wanted and b.id.startswith(wanted)]
    if len(found) == 1:
        return found[0]
    told = ", ".join(
        f"{branch.number} ({_branch_words(branch.prompts[0].head)})"
        if branch.prompts
        else f"{branch.number}"
        for branch in session.branches[:_TOLD]
    )
    rest = len(session.branches) - _TOLD
    more = f" and {rest:,} more" if rest > 0 else ""
    raise click.UsageError(f"no branch {wanted!r}; there are {told}{more}")


def _branch_showing(session: Session, record: str) -> int:
    exact = session.branch(record)
    if exact is not None:
        return exact.number
    for branch in session.branches:
        if place_of(session, branch.number, {record}) is not None:
            return branch.number
    raise click.UsageError(f"no branch of this session has a record {record!r}")


def _branch_words(head: str) -> str:
    return fit_right(plain(head), _TITLE)
