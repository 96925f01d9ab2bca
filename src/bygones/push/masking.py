"""Masking: what leaves a machine, without what must not, and a count of that."""

from __future__ import annotations

from collections import Counter

from bygones.render.redact import Redactor, redacted_line

__all__ = ["Mask"]


class Mask:
    """Hides secrets and persons in lines and names; knows private records."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self.found: Counter[str] = Counter()
        """What was hidden, by its kind."""
        self.private = 0
        """Records that were left out whole."""

    def text(self, raw: bytes) -> bytes:
        """Return one line or one whole file masked; nothing if it is private."""
        if not raw.strip():
            return b""
        told, found = redacted_line(raw, self._redactor)
        self.found.update(one.kind for one in found)
        if told is None:
            self.private += 1
        return told or b""

    def directory(self, text: str) -> str:
        """Return a directory as the hub will know it."""
        return self._redactor.told(text)[0]

    def name(self, text: str) -> str:
        """Return a path or an id without names of persons."""
        told, found = self._redactor.told(text)
        for one in found:
            told = told.replace(one.instead, one.kind, 1)
        return told
