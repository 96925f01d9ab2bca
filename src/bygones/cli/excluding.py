"""Commands behind which a query may stand, in which ``-word`` excludes a word."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["QueryCommand", "typed_words"]

_EXCLUDED = re.compile(r"-(?!n[0-9]+$)[^-]{2,}")
_SLIP = re.compile(r"-(?:[qv]{2,}|[qv]*n=.*|[qv]+n[0-9]*)")
"""Options of one letter that nobody means as a word: together, or with a sign."""
_HIDE = "\0"


class QueryCommand(click.Command):
    """A command in which ``-word`` is a word that is excluded, not options."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Hide such words from whoever looks for options.

        Options of one letter get their long names: click takes them for slips at
        first, and looks for what was meant.
        """
        _refuse_slips(ctx, args)
        options = [param for param in self.params if isinstance(param, click.Option)]
        asking = {name for one in options if not one.is_flag for name in one.opts}
        long = {name: one.opts[-1] for one in options for name in one.opts}
        read = [
            word
            if before in asking
            else _HIDE + word
            if _EXCLUDED.match(word)
            else long.get(word, word)
            for before, word in zip(["", *args], args, strict=False)
        ]
        return super().parse_args(ctx, read)


def _refuse_slips(context: click.Context, words: list[str]) -> None:
    for word in words[: words.index("--")] if "--" in words else words:
        if _SLIP.fullmatch(word):
            told = "-n takes its number behind a blank, -q and -v stand alone"
            raise click.UsageError(f"{word} is no word to exclude: {told}", context)


def typed_words(words: Iterable[str]) -> tuple[str, ...]:
    """Return the words of a query as they were typed."""
    return tuple(word.removeprefix(_HIDE) for word in words)
