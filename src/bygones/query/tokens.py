"""Cuts a query into tokens; what can be read as words is read as words."""

from __future__ import annotations

import re
from enum import Enum, auto
from unicodedata import category

from msgspec import Struct

from bygones.errors import FieldEmpty, Place, RegexRefused
from bygones.model.query import NoteKind
from bygones.query.fields import BY_NAME, Field, Value
from bygones.query.notes import Notes

__all__ = ["Kind", "Token", "empty", "says_something", "tokens"]

_SPACE = re.compile(r"\s*")
_QUOTE = re.compile('["“”„]')
_NAME = re.compile(r"([A-Za-z][A-Za-z_-]{0,30}):")
_STARRED = re.compile(r"[^*]*\*")
_LEADING = re.compile(r"[^\w]*")
_SPOKEN_TIME = re.compile(
    r"(?:last|this)\s+(?:week|month|year)(?=[\s)]|$)", re.IGNORECASE
)
# A path or a comment has a slash inside, a star behind the first or a space there.
_REGEX = re.compile(r"/(?![\s*])((?:[^/\\]|\\.)+)(?<!\s)/(?=[\s)]|$)", re.DOTALL)


_NO_VALUE = "/:\\"
"""Behind a colon: an address, a name in a namespace, a path."""
_TYPED = 5
"""Words of a query that was likely typed; a line that is pasted has more."""


class Kind(Enum):
    """What a token is."""

    WORD = auto()
    PREFIX = auto()
    PHRASE = auto()
    REGEX = auto()
    FIELD = auto()
    NOT = auto()
    OR = auto()
    AND = auto()
    OPEN = auto()
    CLOSE = auto()


class Token(Struct, frozen=True, gc=False):
    """A piece of a query, what it says, and where it stands."""

    kind: Kind
    text: str
    at: int
    length: int


def tokens(text: str, notes: Notes) -> list[Token]:
    """Return the tokens of a query, in order.

    Parentheses may lack their other half, and operators something to act on; a
    field is followed by a token or an ``OPEN`` that lacks its other half.
    """
    return _Cutter(text, notes).cut()


def empty(text: str, at: int, field: Field) -> FieldEmpty:
    """Return the error that the field at this place has no value."""
    place = Place(text, at, len(field.name) + 1)
    return FieldEmpty(place, field=field.name, example=field.example)


def says_something(text: str) -> bool:
    """Whether there is a letter, a digit or a picture in it."""
    return any(sign.isalnum() or category(sign) == "So" for sign in text)


class _Cutter:
    def __init__(self, text: str, notes: Notes) -> None:
        self.text = text
        self.is_pasted = len(text.split()) > _TYPED
        self.notes = notes
        self.found: list[Token] = []
        self.scopes: list[Field | None] = []
        """For each open parenthesis, the field whose values stand in it."""

    def cut(self) -> list[Token]:
        at = self._behind_space(0)
        while at < len(self.text):
            at = self._behind_space(self._step(at))
        return self.found

    def _behind_space(self, at: int) -> int:
        found = _SPACE.match(self.text, at)
        return found.end() if found else at

    @property
    def last(self) -> Kind | None:
        return self.found[-1].kind if self.found else None

    @property
    def scope(self) -> Field | None:
        if self.found and self.found[-1].kind is Kind.FIELD:
            return BY_NAME[self.found[-1].text]
        return self.scopes[-1] if self.scopes else None

    def _add(self, kind: Kind, text: str, at: int, end: int) -> int:
        self.found.append(Token(kind, text, at, end - at))
        return end

    def _step(self, at: int) -> int:
        sign = self.text[at]
        if sign == "(":
            self.scopes.append(self.scope)
            return self._add(Kind.OPEN, sign, at, at + 1)
        if sign == ")":
            del self.scopes[-1:]
            return self._add(Kind.CLOSE, sign, at, at + 1)
        if _QUOTE.match(sign):
            return self._phrase(at)
        if sign == "\\":
            end = self._word_end(at + 1)
            return self._add(Kind.WORD, self.text[at + 1 : end] or sign, at, end)
        if sign == "-" and self.last is not Kind.FIELD and self._excludes(at + 1):
            return self._add(Kind.NOT, sign, at, at + 1)
        return self._named(at) or self._regex(at) or self._word(at)

    def _phrase(self, at: int) -> int:
        closing = _QUOTE.search(self.text, at + 1)
        if closing is None:
            sentence = "a quotation mark without its other half is left out"
            self.notes.add(NoteKind.QUOTE, at, 1, sentence)
            return at + 1
        inside = " ".join(self.text[at + 1 : closing.start()].split())
        if not inside and self.scope is None:
            sentence = "quotation marks with nothing between them are left out"
            self.notes.add(NoteKind.EMPTY, at, closing.end() - at, sentence)
        return self._add(Kind.PHRASE, inside, at, closing.end())

    def _excludes(self, at: int) -> bool:
        """Whether a dash before this place excludes what stands there."""
        following = self.text[at : at + 1]
        if following == "(" or _QUOTE.match(following):
            return True
        if following == "-":
            return False
        word = self.text[at : self._word_end(at)]
        if self.is_pasted and len(word) == 1:
            # Few exclude a letter; in a line that was pasted it is an option.
            return False
        if says_something(word):
            return True
        return self.scope is None and bool(_REGEX.match(self.text, at))

    def _named(self, at: int) -> int | None:
        """Read a field's name, and a time of two words behind it."""
        if self.scope is not None:
            spoken = _SPOKEN_TIME.match(self.text, at)
            if spoken and self.last is Kind.FIELD and self.scope.value is Value.TIME:
                words = " ".join(spoken[0].split())
                return self._add(Kind.PHRASE, words, at, spoken.end())
            return None
        found = _NAME.match(self.text, at)
        if found is None:
            return None
        field = BY_NAME.get(found[1])
        # An address or a name in a namespace is no field, whatever it begins with.
        if field is None or self.text.startswith(("//", ":"), found.end()):
            behind = self.text[found.end() : found.end() + 1]
            if behind.strip() and behind not in _NO_VALUE:
                self.notes.add_no_field(at, found[1], is_pasted=self.is_pasted)
            return None
        following = self.text[found.end() : found.end() + 1]
        if not following.strip() or following == ")":
            raise empty(self.text, at, field)
        return self._add(Kind.FIELD, field.name, at, found.end())

    def _regex(self, at: int) -> int | None:
        if self.scope is not None:
            return None
        found = _REGEX.match(self.text, at)
        if found is None:
            return None
        from bygones.query.regexes import fault_of  # noqa: PLC0415 (most ask not)

        if fault := fault_of(found[1]):
            place = Place(self.text, found.start(1) + fault.at, fault.length)
            raise RegexRefused(place, detail=fault.detail)
        return self._add(Kind.REGEX, found[1], at, found.end())

    def _word(self, at: int) -> int:
        end = self._word_end(at)
        word = self.text[at:end]
        scope = self.scope
        if self.last not in {Kind.FIELD, Kind.NOT} and word in {"OR", "AND"}:
            return self._add(Kind[word], word, at, end)
        if scope is None or scope.is_text:
            stem = _stem(word)
            if stem:
                return self._add(Kind.PREFIX, stem, at, end)
        if scope is None:
            self._remark(word, at)
        return self._add(Kind.WORD, word, at, end)

    def _remark(self, word: str, at: int) -> None:
        if word == "NOT":
            sentence = "NOT is read as a word; to exclude, put - before a word"
            self.notes.add(NoteKind.OPERATOR, at, 3, sentence)
        elif word == "-":
            sentence = "a - with a space behind it is read as a word"
            self.notes.add(NoteKind.OPERATOR, at, 1, sentence)
        elif "*" in word:
            sentence = "a * counts at the end of a word only"
            self.notes.add(NoteKind.STAR, at + word.index("*"), 1, sentence)

    def _word_end(self, at: int) -> int:
        """Return where a word ends: at a space, or a ``)`` that it did not open."""
        depth = 0
        for end in range(at, len(self.text)):
            sign = self.text[end]
            if sign.isspace() or (sign == ")" and not depth):
                return end
            depth += (sign == "(") - (sign == ")")
        return len(self.text)


def _stem(word: str) -> str:
    """Return what a word with a star behind it begins with, or nothing."""
    if not _STARRED.fullmatch(word):
        return ""
    stem = _LEADING.sub("", word[:-1], count=1)
    signs = word[: -1 - len(stem)]
    named = _NAME.match(stem)
    # Without the signs before it, it might read as a field or end a group.
    if "(" in signs or (named and named[1] in BY_NAME):
        return ""
    return stem if says_something(stem) else ""
