"""Questions about texts as conditions in SQL, which both engines understand."""

from __future__ import annotations

from collections.abc import Callable

from bygones.team.asking import (
    All,
    Any,
    Every,
    Kinds,
    Level,
    Match,
    Nothing,
    Question,
    Records,
    Sessions,
    Unscored,
    Without,
)
from bygones.team.database import Database

__all__ = ["Condition", "widest"]


def widest(asked: Question) -> tuple[Match | None, Question | None]:
    """Return a match that all texts have to fit, and what else they have to."""
    if isinstance(asked, Match):
        return asked, None
    if isinstance(asked, Unscored | Level):
        return widest(asked.asked)
    if isinstance(asked, All):
        for at, part in enumerate(asked.asked):
            found, rest = widest(part)
            if found is not None:
                others = (*asked.asked[:at], *asked.asked[at + 1 :])
                others += (rest,) if rest is not None else ()
                return found, All(others) if others else None
    return None, asked


class Condition:
    """Turns a question into a condition on texts ``t``.

    ``matching`` makes of a match the texts that fit, to be selected from; it is given
    the function that adds a value, and returns its place in the statement.
    """

    def __init__(
        self, db: Database, matching: Callable[[Match, Callable[[object], str]], str]
    ) -> None:
        self._db = db
        self._matching = matching
        self.values: dict[str, object] = {}

    def matching(self, asked: Match) -> str:
        """Return the texts that fit a match, to be selected from."""
        return self._matching(asked, self._add)

    def of(self, asked: Question) -> str:
        """Return the condition that a text answers a question."""
        if isinstance(asked, Match):
            found = self.matching(asked)
            return f"(t.number, t.text) IN (SELECT number, text FROM {found} AS m)"  # noqa: S608 (our names)
        if isinstance(asked, Any | All):
            joint = " OR " if isinstance(asked, Any) else " AND "
            return f"({joint.join(map(self.of, asked.asked))})"
        if isinstance(asked, Unscored | Level | Without):
            sign = "NOT " if isinstance(asked, Without) else ""
            return sign + self.of(asked.asked)
        return self._fact(asked)

    def _fact(self, asked: Every | Nothing | Sessions | Records | Kinds) -> str:
        if isinstance(asked, Sessions):
            return f"({self._db.among('t.number', self._key(list(asked.numbers)))})"
        if isinstance(asked, Kinds):
            kinds = self._db.among("t.kind", self._key(list(asked.kinds)))
            return f"(t.number = {self._add(asked.session)} AND {kinds})"
        if isinstance(asked, Records):
            pairs = self._key(sorted(asked.pairs))
            return f"({self._db.pairs('t.number, t.record', pairs)})"
        return "(1 = 1)" if isinstance(asked, Every) else "(1 = 0)"

    def _add(self, value: object) -> str:
        return f"%({self._key(value)})s"

    def _key(self, value: object) -> str:
        key = f"v{len(self.values)}"
        self.values[key] = value
        return key
