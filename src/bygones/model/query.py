"""A parsed query, as a tree in normal form: equal queries are equal values.

An `And` or `Or` has at least two terms and none of its own type, a `Not` contains no
`Not`, times are resolved, and the plain words of an `And` are its first term, in the
order in which they were typed.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from msgspec import Struct


class Part(StrEnum):
    """The part of a session that a text belongs to; the values of `in:`."""

    PROMPT = "prompt"
    REPLY = "reply"
    THINKING = "thinking"
    TOOL = "tool"
    RESULT = "result"
    TITLE = "title"
    OTHER = "other"
    """Added by Claude Code: summaries of compactions, notices, command output."""


class Flag(StrEnum):
    """Properties of a session or a message; the values of `is:`."""

    ERROR = "error"
    AGENT = "agent"
    ABANDONED = "abandoned"
    INTERRUPTED = "interrupted"
    COMPACTED = "compacted"
    STARRED = "starred"
    EMPTY = "empty"
    """A session without a prompt or a reply."""
    HIDDEN = "hidden"
    """In a warm-up or a replay of an agent, which are not shown."""
    PROMPTS_ONLY = "prompts-only"
    """A session that was deleted before it was archived; the history has its prompts."""


MAIN_AGENT = "main"
"""The value of `agent:` for what is outside of agent runs."""


class HasValue(StrEnum):
    """Content of a message besides text; the values of `has:`."""

    IMAGE = "image"
    EDIT = "edit"
    THINKING = "thinking"


class Words(Struct, frozen=True, tag="words"):
    """Plain words in the order in which they were typed.

    All of them should match, but a search may relax that for a long list of words.
    """

    words: tuple[str, ...]


class Word(Struct, frozen=True, tag="word"):
    """One plain word after a field name."""

    text: str


class Phrase(Struct, frozen=True, tag="phrase"):
    """Adjacent words in this order."""

    text: str


class Prefix(Struct, frozen=True, tag="prefix"):
    """The beginning of a word."""

    text: str


class Regex(Struct, frozen=True, tag="regex"):
    """A case-insensitive regular expression."""

    pattern: str


class FieldTerm(Struct, frozen=True, tag="scoped"):
    """A term that must match in the text of one field."""

    field: str
    term: Word | Phrase | Prefix


class FieldValue(Struct, frozen=True, tag="fact"):
    """A field must have this value; `*` matches any characters."""

    field: str
    value: str


class TimeRange(Struct, frozen=True, tag="period"):
    """A time from `start` to before `end`, in UTC; one of them may be open."""

    start: datetime | None = None
    end: datetime | None = None


class Not(Struct, frozen=True, tag="not"):
    term: Term


class And(Struct, frozen=True, tag="and"):
    """All terms must match; plain words come first."""

    terms: tuple[Term, ...]


class Or(Struct, frozen=True, tag="or"):
    """At least one term must match."""

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


class Exclusion(Struct, frozen=True):
    """What is left out of search results, without an effect on the order of the rest."""

    session_id: str | None = None
    """A session."""
    result_phrase: str = ""
    """A phrase: results of tools that contain it are left out."""

    @property
    def conditions(self) -> tuple[Term, ...]:
        """The same as terms of a query."""
        terms: list[Term] = []
        if self.result_phrase:
            result = FieldValue("in", Part.RESULT)
            terms.append(Not(And((result, Phrase(self.result_phrase)))))
        if self.session_id is not None:
            terms.append(Not(FieldValue("session", self.session_id)))
        return tuple(terms)


class QueryNoteKind(StrEnum):
    """How the parser had to guess the meaning of a query."""

    UNMATCHED_QUOTE = "quote"
    """A quotation mark without a closing one."""
    UNMATCHED_PARENTHESIS = "parenthesis"
    """A parenthesis without its counterpart."""
    UNKNOWN_FIELD = "no-field"
    """A colon after a name that is not a field."""
    SPACED_FIELD = "space"
    """A space after the colon of a field."""
    DANGLING_OPERATOR = "operator"
    """An operator without an operand."""
    MISPLACED_STAR = "star"
    """A star that is not at the end of a word."""
    MIXED_OPERATORS = "mixed"
    """`AND` and `OR` without parentheses."""
    EMPTY_QUOTES = "empty"
    """Quotation marks without content."""


class QueryNote(Struct, frozen=True, kw_only=True):
    """A part of a query that was searched as text, or ignored."""

    kind: QueryNoteKind
    offset: int
    length: int
    message: str
    """An explanation for the user."""
    suggestion: str = ""
    """What to type instead, if known."""


class Query(Struct, frozen=True):
    """A parsed query."""

    root: Term | None
    """`None` matches everything."""
    notes: tuple[QueryNote, ...] = ()

    @property
    def plain_words(self) -> tuple[str, ...]:
        """The plain words, in order."""
        first = self.root.terms[0] if isinstance(self.root, And) else self.root
        return first.words if isinstance(first, Words) else ()

    @property
    def conditions(self) -> tuple[Term, ...]:
        """All terms except the plain words."""
        if self.root is None:
            return ()
        terms = self.root.terms if isinstance(self.root, And) else (self.root,)
        return tuple(term for term in terms if not isinstance(term, Words))


KINDS_PER_SESSION = 16
"""A text key is the session's number times this, plus the kind of text."""
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
    """Return the key of a text: session, part and flags in one integer."""
    kind = _ERROR_KIND if is_error else _KIND_BY_PART[part]
    return session_number * KINDS_PER_SESSION + kind + (_AGENT_BIT if is_agent else 0)


def text_key_session(text_key: int) -> int:
    return text_key // KINDS_PER_SESSION


def text_key_part(text_key: int) -> Part:
    return _PART_BY_KIND[text_key % _AGENT_BIT]


def text_key_is_error(text_key: int) -> bool:
    return text_key % _AGENT_BIT == _ERROR_KIND
