"""A query as a tree: what a search text asks for, however it was typed.

The tree is in normal form, so that equal questions are equal values: an ``And`` or
``Or`` has at least two terms and none of its own kind, a ``Not`` holds no ``Not``,
times are resolved, and the plain words of a conjunction stand together, in the
order in which they were typed, as the first of its terms.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from msgspec import Struct


class Part(StrEnum):
    """What a text is: the values of ``in:``, and titles."""

    PROMPT = "prompt"
    REPLY = "reply"
    THINKING = "thinking"
    TOOL = "tool"
    RESULT = "result"
    TITLE = "title"
    OTHER = "other"
    """What Claude Code put in: digests of compactions, notices, output of commands."""


class Flag(StrEnum):
    """What can be said of a session or a message: the values of ``is:``."""

    ERROR = "error"
    AGENT = "agent"
    REWOUND = "rewound"
    INTERRUPTED = "interrupted"
    COMPACTED = "compacted"
    STARRED = "starred"
    EMPTY = "empty"
    """A session without a prompt or an answer."""


class HasValue(StrEnum):
    """What a message can hold besides text: the values of ``has:``."""

    IMAGE = "image"
    EDIT = "edit"
    THINKING = "thinking"


class Words(Struct, frozen=True, tag="words"):
    """Plain words in the order in which they were typed; all are meant.

    These are the words that a search may relax when they read like a sentence.
    """

    words: tuple[str, ...]


class Word(Struct, frozen=True, tag="word"):
    """One plain word behind a field's name."""

    text: str


class Phrase(Struct, frozen=True, tag="phrase"):
    """Words that stand next to each other, in this order."""

    text: str


class Prefix(Struct, frozen=True, tag="prefix"):
    """The beginning of a word."""

    text: str


class Regex(Struct, frozen=True, tag="regex"):
    """A regular expression over the text; upper and lower case are the same."""

    pattern: str


class FieldTerm(Struct, frozen=True, tag="scoped"):
    """Words that are looked for in one field's text."""

    field: str
    term: Word | Phrase | Prefix


class FieldValue(Struct, frozen=True, tag="fact"):
    """A field that must have this value; ``*`` stands for any characters."""

    field: str
    value: str


class TimeRange(Struct, frozen=True, tag="period"):
    """A time from ``start`` on and before ``end``, both in UTC; one may be open."""

    start: datetime | None = None
    end: datetime | None = None


class Not(Struct, frozen=True, tag="not"):
    """What must not be."""

    term: Term


class And(Struct, frozen=True, tag="and"):
    """What must all be; plain words first."""

    terms: tuple[Term, ...]


class Or(Struct, frozen=True, tag="or"):
    """What must be in one way at least."""

    terms: tuple[Term, ...]


Term = (
    Words
    | Phrase
    | Prefix
    | Regex
    | FieldTerm
    | FieldValue
    | TimeRange
    | Not
    | And
    | Or
)


class QueryNoteKind(StrEnum):
    """In what way a query was read other than it may have been meant."""

    UNMATCHED_QUOTE = "quote"
    """A quotation mark without its other half."""
    UNMATCHED_PARENTHESIS = "parenthesis"
    """A parenthesis without its other half."""
    UNKNOWN_FIELD = "no-field"
    """A colon behind a name that is no field."""
    DANGLING_OPERATOR = "operator"
    """A sign or a word that would join or exclude, with nothing to act on."""
    MISPLACED_STAR = "star"
    """A star that is not the end of a word."""
    MIXED_OPERATORS = "mixed"
    """``AND`` and ``OR`` side by side, without parentheses."""
    EMPTY_QUOTES = "empty"
    """Quotation marks with nothing between them."""


class QueryNote(Struct, frozen=True, kw_only=True):
    """Something in a query that was read as words, or left out, and where it is."""

    kind: QueryNoteKind
    offset: int
    length: int
    message: str
    """A sentence for the person who typed the query."""
    suggestion: str = ""
    """What to type instead, where that can be told."""


class Query(Struct, frozen=True):
    """A search text, read."""

    root: Term | None
    """Nothing asks for everything."""
    notes: tuple[QueryNote, ...] = ()

    @property
    def plain_words(self) -> tuple[str, ...]:
        """The plain words that are asked for besides all else, in order."""
        first = self.root.terms[0] if isinstance(self.root, And) else self.root
        return first.words if isinstance(first, Words) else ()

    @property
    def conditions(self) -> tuple[Term, ...]:
        """All that is asked for besides the sentence."""
        if self.root is None:
            return ()
        terms = self.root.terms if isinstance(self.root, And) else (self.root,)
        return tuple(term for term in terms if not isinstance(term, Words))


KINDS_PER_SESSION = 16
"""A bucket is the session's number times this, plus the kind of text."""
_PART_BY_KIND: tuple[Part, ...] = (*Part, Part.RESULT)
"""The part of a text by its kind; the last kind is a result that is an error."""
_ERROR_KIND = len(Part)
_AGENT_BIT = 8
KIND_TO_PART = tuple(
    _PART_BY_KIND[kind % _AGENT_BIT] for kind in range(KINDS_PER_SESSION)
)
"""The part of a text, by its kind."""
_KIND_BY_PART = {part: code for code, part in enumerate(Part)}


def pack_text_key(
    session_number: int, part: Part, is_error: bool = False, is_agent: bool = False
) -> int:
    """Return the bucket of a text."""
    kind = _ERROR_KIND if is_error else _KIND_BY_PART[part]
    return session_number * KINDS_PER_SESSION + kind + (_AGENT_BIT if is_agent else 0)


def text_key_session(text_key: int) -> int:
    """Return the number of the session that a text is of."""
    return text_key // KINDS_PER_SESSION


def text_key_part(text_key: int) -> Part:
    """Return the part that a text is of."""
    return _PART_BY_KIND[text_key % _AGENT_BIT]


def text_key_is_error(text_key: int) -> bool:
    """Whether a text is a result that is an error."""
    return text_key % _AGENT_BIT == _ERROR_KIND


def text_key_is_agent(text_key: int) -> bool:
    """Whether a text was said in an agent run."""
    return bool(text_key & _AGENT_BIT)
