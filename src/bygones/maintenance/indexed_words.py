"""Compare the words of two text indexes, whose records have different numbers."""

from __future__ import annotations

from bygones.model.query import KINDS_PER_SESSION
from bygones.store.archive_dir import ArchiveDir, load_locations, load_session_ids
from bygones.store.tantivy_engine import TantivyEngine

_SAMPLED_TERMS = 300
_MAX_SAMPLED_TEXTS = 2000


class IndexedWords:
    """The words of all texts and blocks of an open index, as they are now."""

    def __init__(self, archive_dir: ArchiveDir) -> None:
        index = archive_dir.index
        if index is None:
            raise archive_dir.index_missing_error()
        self._engine = TantivyEngine(archive_dir.text_index)
        self._session_ids = load_session_ids(index)
        self._locations = load_locations(index)

    def differences(self, rebuilt: IndexedWords) -> list[str]:
        """Return which parts differ from those of an index without deleted texts.

        All words are compared by the number of their texts. Where they are is compared
        for some words, spread over all.
        """
        expected = dict(rebuilt._engine.terms_with_prefix(""))
        sample = sorted(expected)[:: len(expected) // _SAMPLED_TERMS + 1]
        is_same = {
            "the words of texts": self._has_same_counts(expected)
            and all(
                self._texts_with(term) == rebuilt._texts_with(term)
                for term in sample
                if expected[term] <= _MAX_SAMPLED_TEXTS
            ),
            "the words of sessions": self._has_same_block_terms(rebuilt)
            and all(
                self._sessions_with(term) == rebuilt._sessions_with(term)
                for term in sample
            ),
        }
        return [part for part, same in is_same.items() if not same]

    def _has_same_counts(self, expected: dict[str, int]) -> bool:
        """Whether each term is in as many texts; the index counts deleted ones too."""
        found = dict(self._engine.terms_with_prefix(""))
        return all(
            found.get(term, 0) == expected.get(term, 0)
            or self._count_texts(term) == expected.get(term, 0)
            for term in found.keys() | expected
        )

    def _has_same_block_terms(self, rebuilt: IndexedWords) -> bool:
        found = {*self._engine.block_terms()}
        expected = {*rebuilt._engine.block_terms()}
        deleted = found - expected
        return found >= expected and not any(map(self._sessions_with, deleted))

    def _count_texts(self, term: str) -> int:
        return self._engine.search(self._engine.match_terms([term]), 1)[0]

    def _texts_with(self, term: str) -> set[tuple[object, int]]:
        query = self._engine.match_terms([term])
        count, _ = self._engine.search(query, 1)
        _, texts = self._engine.search(query, max(count, 1))
        return {
            (self._locations.get(text.record), text.text_key % KINDS_PER_SESSION)
            for text in texts
        }

    def _sessions_with(self, term: str) -> set[str | None]:
        sessions = self._engine.sessions_with([term])
        return {self._session_ids.get(session) for session in sessions}
