"""What answers agents for this user: the archive, with what they want hidden hidden."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from bygones.cli.asked import Asked, here
from bygones.cli.terminal import plain
from bygones.errors import BygonesError
from bygones.mcp.recall import Caller, Recall
from bygones.render.redact import Redactor
from bygones.settings import hidden_by_user

if TYPE_CHECKING:
    from bygones.archive import Archive

__all__ = ["recall_for"]


def recall_for(asked: Asked) -> Recall:
    """Return what answers; where settings are broken, all that it says is why.

    What they would have hidden is not known then. A client shows nobody how a server
    ended, so it goes on.
    """
    try:
        own = hidden_by_user(os.environ, Path.home())
        redactor = Redactor(names=own.names, patterns=own.patterns.items())
        return Recall(asked.folder, _caller(), redactor=redactor)
    except BygonesError as error:
        refused = error

    def refuse() -> Archive:
        raise refused.with_traceback(None)

    sys.stderr.write(f"{plain(f'error: {refused}')}\n")
    return Recall(Path(), _caller(), refuse)


def _caller() -> Caller:
    return Caller(
        directory=Path(os.environ.get("CLAUDE_PROJECT_DIR") or here() or os.sep),
        session=os.environ.get("CLAUDE_CODE_SESSION_ID") or None,
        clock=lambda: datetime.now(tz=UTC),  # noqa: TID251 (a face)
        zone=datetime.now(tz=UTC).astimezone().tzinfo or UTC,  # noqa: TID251 (a face)
    )
