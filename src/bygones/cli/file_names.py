"""Names of files at a turn: FILE, SESSION:TURN~BRANCH and FILE@SESSION:TURN~BRANCH."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from bygones.cli.context import LAST
from bygones.cli.output import display_path
from bygones.cli.resolve import choose_branch, load_named_session
from bygones.files.report import turn_label
from bygones.render.numbers import pluralize
from bygones.render.text.primitives import sanitize_name

if TYPE_CHECKING:
    from bygones.archive import Archive
    from bygones.files.library import ArchivedFile
    from bygones.model.base import SessionId
    from bygones.model.sessions import Branch, Session


class TurnName(NamedTuple):
    """A session, a turn and a branch of it, as they were named; turns count from 1."""

    session: str
    turn: int | None = None
    branch: str | None = None


class ChosenTurn(NamedTuple):
    """A turn of a branch; none means the end of the branch."""

    session: Session
    branch: Branch
    turn: int | None
    """Counted from 0."""

    @property
    def label(self) -> str:
        number = len(self.branch.turns) - 1 if self.turn is None else self.turn
        return turn_label(self.session.id, number, self.branch.number)


def parse_turn_name(name: str) -> TurnName:
    """Return what `SESSION[:TURN][~BRANCH]` names."""
    name, tilde, branch = name.partition("~")
    if tilde and not branch:
        raise click.UsageError("name a branch after ~, such as last:2~2")
    session, colon, turn = name.rpartition(":")
    if not colon:
        return TurnName(name or LAST, branch=branch or None)
    if not turn.isdecimal() or int(turn) < 1:
        raise click.UsageError(
            f"{turn!r} is not the number of a turn; write SESSION:TURN, such as last:2"
        )
    return TurnName(session or LAST, int(turn), branch or None)


def split_file_name(name: str) -> tuple[str, TurnName | None]:
    """Return the path and the turn of `FILE[@SESSION[:TURN][~BRANCH]]`."""
    path, at, turn = name.rpartition("@")
    # A path may contain @ as well, such as logo@2x.svg.
    if not at or not turn or not looks_like_session(turn) or os.path.lexists(name):
        return name, None
    return path, parse_turn_name(turn)


def looks_like_session(name: str) -> bool:
    """Whether a name may be a session: an id, `last` or a result number."""
    first = re.split("[:~]", name, maxsplit=1)[0]
    is_path = "/" in name or "\\" in name
    return not is_path and ("." not in first or first.replace(".", "").isdecimal())


def choose_turn(
    archive: Archive, name: TurnName, branch_name: str | None = None
) -> ChosenTurn:
    """Load the session of a name, and check that the branch has the turn.

    A branch in the name counts more than `branch_name`.
    """
    session, record = load_named_session(archive, name.session)
    number = choose_branch(
        session, name.branch or branch_name, record.id if record else None
    )
    branch = next(b for b in session.branches if b.number == number)
    count = len(branch.turns)
    if name.turn is not None and name.turn > count:
        turns = pluralize(count, "turn")
        raise click.UsageError(f"there is no turn {name.turn}: the branch has {turns}")
    return ChosenTurn(session, branch, None if name.turn is None else name.turn - 1)


def reject_folder(path: Path) -> None:
    """Raise an error if a path is a folder."""
    if path.is_dir():
        name = sanitize_name(display_path(path))
        raise click.UsageError(f"{name} is a folder; `bygones files {name}` lists it")


def open_file(
    archive: Archive, name: str, turn: ChosenTurn | None = None
) -> ArchivedFile:
    """Open a file by its path, relative to the current directory, or its end.

    If its project was moved, it is opened under the name that the session of a turn used.
    """
    if not name.strip():
        raise click.UsageError("the path is empty")
    whole = os.path.normpath(Path(name).expanduser().absolute())
    library = archive.file_library.with_git()
    return library.open(name, whole, turn.session.id if turn else None)


def last_model(archive: Archive, session_id: SessionId) -> str | None:
    """Return the model that a session used last."""
    models = archive.session_summary(session_id).models
    return models[-1] if models else None
