"""What lists of an exported folder say of a session."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from bygones.model.sessions import Session
from bygones.render.figures import clock, several, tokens
from bygones.render.safe import safe_line

__all__ = ["Row", "row_of"]

_WORDS = 2_000
"""Signs of what was typed that can be found by words."""


class Row(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A session in a list; redacted as the session is."""

    page: str
    title: str
    project: str = ""
    started: datetime | None = None
    ended: datetime | None = None
    prompts: int = 0
    tokens: int = 0
    words: str = ""
    """The beginnings of what was typed."""

    @property
    def facts(self) -> tuple[str, ...]:
        """What is told below the title."""
        return (
            self.project,
            clock(self.started, self.started.tzinfo) if self.started else "",
            several(self.prompts, "prompt"),
            f"{tokens(self.tokens)} tokens" if self.tokens else "",
        )


def row_of(session: Session, page: str) -> Row:
    """Return what a list says of a session whose page this is."""
    prompts = session.prompts
    typed = "\n".join(safe_line(prompt.head) for prompt in prompts)
    return Row(
        page=page,
        title=safe_line(session.title.text) or session.id,
        project=safe_line(session.project or ""),
        started=session.started,
        ended=session.ended,
        prompts=len(prompts),
        tokens=session.total.total,
        words=typed[:_WORDS],
    )
