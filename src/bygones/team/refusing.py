"""What does not fit what is there, and what was erased: the same for all stores."""

from __future__ import annotations

from collections.abc import Sequence

from bygones.errors import BatchRefused
from bygones.store.press import digest
from bygones.team.contract import Sent, Span

__all__ = ["check_spans", "signs_of"]


def signs_of(sent: Sent) -> tuple[bytes, ...]:
    """Return the hashes by which an erased source is known when it comes again.

    One is that of its place; another that of its session, wherever it comes from.
    """
    told = [f"source {sent.number}"]
    if sent.session is not None:
        told.append(f"session {sent.person} {sent.session}")
    return tuple(digest(one.encode("utf-8", "replace")) for one in told)


def check_spans(
    name: str, spans: Sequence[Span], known: Sequence[Span], upto: int
) -> list[Span]:
    """Return the spans that are new; refuse such as do not fit."""
    there = {span.offset: span for span in known}
    new: list[Span] = []
    for span in spans:
        same = there.get(span.offset)
        if same is not None:
            if (same.length, same.sha256) != (span.length, span.sha256):
                raise BatchRefused(name, "other bytes are there")
        elif span.offset != upto:
            raise BatchRefused(name, f"{upto} bytes are there")
        else:
            new.append(span)
            upto += span.length
    return new
