"""What a search asks of words, whatever keeps them: a folder or a team's store."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from bygones.store.search import Text

__all__ = ["Asked", "Engine"]

Asked = Any
"""A question to an engine; only the engine that made it knows what it is."""


class Engine(Protocol):
    """Which texts have some words, and which words there are."""

    @property
    def size(self) -> int:
        """How many texts there are."""
        ...

    def frequency(self, term: str) -> int:
        """Return how many texts have a term."""
        ...

    def forms(self, term: str) -> tuple[str, ...]:
        """Return the terms that are forms of one, itself first."""
        ...

    def corrected(self, term: str) -> str | None:
        """Return the term that is likely meant by one which is not there."""
        ...

    def everything(self) -> Asked:
        """Ask for all texts."""
        ...

    def nothing(self) -> Asked:
        """Ask for no text."""
        ...

    def term(self, terms: Sequence[str]) -> Asked:
        """Ask for texts that have one of some terms."""
        ...

    def run(self, terms: Sequence[str]) -> Asked:
        """Ask for texts in which terms stand one right behind the other."""
        ...

    def beginning(self, terms: Sequence[str]) -> Asked:
        """Ask for texts in which terms stand in a row, the last of them begun only."""
        ...

    def each_beginning(self, terms: Sequence[str]) -> tuple[Asked, ...]:
        """Ask the same in parts."""
        ...

    def is_whole(self, terms: Sequence[str]) -> bool:
        """Whether :meth:`beginning` asks for all there is."""
        ...

    def containing(self, piece: str) -> Asked:
        """Ask for texts with a term that has a piece somewhere in it."""
        ...

    def of_sessions(self, sessions: Iterable[int]) -> Asked:
        """Ask for the texts of some sessions."""
        ...

    def of_records(self, records: Sequence[int]) -> Asked:
        """Ask for the texts of some records."""
        ...

    def of_kinds(self, session: int, kinds: Iterable[int]) -> Asked:
        """Ask for the texts of a session that are of some kinds."""
        ...

    def unscored(self, asked: Asked) -> Asked:
        """Ask the same without adding to any score."""
        ...

    def any_of(self, asked: Sequence[Asked]) -> Asked:
        """Ask for what one question at least finds."""
        ...

    def all_of(self, asked: Sequence[Asked]) -> Asked:
        """Ask for what all questions find."""
        ...

    def without(self, asked: Asked) -> Asked:
        """Ask for what a question does not find."""
        ...

    def counts(self, asked: Asked) -> dict[int, int]:
        """Return how many texts are found, by their bucket."""
        ...

    def texts(self, asked: Asked, limit: int) -> tuple[int, list[Text]]:
        """Return how many texts are found, and those that fit best, best first."""
        ...

    def each_counts(self, asked: Sequence[Asked]) -> list[dict[int, int]]:
        """Return the counts of several questions, which cost less if asked at once."""
        ...

    def each_texts(
        self, asked: Sequence[Asked], limit: int
    ) -> list[tuple[int, list[Text]]]:
        """Return the texts of several questions, which cost less if asked at once."""
        ...

    def buckets(self, asked: Asked, most: int) -> tuple[int, dict[int, int]]:
        """Return how many texts are found, and where the best of them lie.

        So many at least are looked at, if there are, and counted by their bucket.
        """
        ...

    def expect(self, words: Iterable[str], others: Iterable[str] = ()) -> None:
        """Be told of terms that will be asked for, and of others to be counted only."""
        ...

    def terms_of(self, text: str) -> list[str]:
        """Return the terms of a text, as the index has them."""
        ...
