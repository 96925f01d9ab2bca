"""Commands behind which a query may stand, in which ``-word`` excludes a word."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["QueryCommand", "typed_words"]

_EXCLUDED = re.compile(r"-(?!n[0-9]+$)[^-]{2,}")
_HIDE = "\0"


class QueryCommand(click.Command):
    """A command in which ``-word`` is a word that is excluded, not options."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Hide such words from whoever looks for options."""
        asking = {
            name
            for param in self.params
            if isinstance(param, click.Option) and not param.is_flag
            for name in param.opts
        }
        hidden = [
            _HIDE + word if _EXCLUDED.match(word) and before not in asking else word
            for before, word in zip(["", *args], args, strict=False)
        ]
        return super().parse_args(ctx, hidden)


def typed_words(words: Iterable[str]) -> tuple[str, ...]:
    """Return the words of a query as they were typed."""
    return tuple(word.removeprefix(_HIDE) for word in words)
