"""Variants of a word, and stop words.

``parse transcript``, ``parse_transcript`` and ``parseTranscript`` mean the same, but the
index has them as different terms: a query searches for all of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from difflib import get_close_matches
from enum import Enum, auto
from functools import lru_cache
from unicodedata import category

from msgspec import Struct

from bygones.errors import InvalidRegex, MissingFieldValue, QuerySpan
from bygones.model.query import QueryNote, QueryNoteKind
from bygones.query.fields import FIELDS, FIELDS_BY_NAME, FieldType, QueryField
from bygones.query.regex import check_regex

Analyzer = Callable[[str], Sequence[str]]
"""Splits a text into the terms that are compared, in the order of the text."""
TermRun = tuple[str, ...]
"""Consecutive terms."""

STOP_WORDS = frozenset(
    (
        *("a", "about", "all", "also", "an", "and", "any", "are", "as", "at", "be"),
        *("been", "being", "but", "by", "can", "could", "did", "do", "does", "for"),
        *("from", "had", "has", "have", "how", "i", "if", "in", "into", "is", "it"),
        *("its", "just", "me", "my", "no", "not", "of", "on", "or", "our", "so"),
        *("some", "than", "that", "the", "then", "there", "these", "this", "those"),
        *("to", "us", "was", "we", "were", "what", "when", "where", "which", "who"),
        *("why", "will", "with", "would", "you", "your"),
    )
)
"""Words that say nothing about the topic of a text."""

_CAMEL_CASE_PART = re.compile(
    r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W_]+?(?=[A-Z]|\b|_)"
)
_CAMEL_CASE = re.compile(r"[a-z][A-Z]|[A-Z]{2}[a-z]")
_POSSESSIVE = re.compile(r"(?<=\w)['\u2019]s$")
_JOINED_WORD = re.compile(r"[^\W_]+(?:[_-]+[^\W_]+)+")


_ALTERNATIVES = re.compile(r"[^\W\d_]{2,}(?:/[^\W\d_]{2,}){1,2}")


class WordVariants(Struct, frozen=True):
    """A word as it was typed, and the runs of terms as which it may be written.

    The first run is the word itself. A run of one term includes its other forms.
    """

    word: str
    runs: tuple[TermRun, ...]


def expand_word(word: str, analyzer: Analyzer) -> WordVariants | None:
    """Return the variants of a word; none if it has no terms."""
    word = _POSSESSIVE.sub("", word)
    terms = tuple(analyzer(word))
    if not terms:
        return None
    runs = {terms: None}
    if _CAMEL_CASE.search(word):
        runs[tuple(analyzer(" ".join(_CAMEL_CASE_PART.findall(word))))] = None
    if len(terms) > 1 and _JOINED_WORD.fullmatch(word.strip("_-")):
        runs[tuple(analyzer("".join(terms)))] = None
    return WordVariants(word, tuple(run for run in runs if run))


def expand_words(
    words: Sequence[str], analyzer: Analyzer
) -> tuple[WordVariants | None, ...]:
    """Return the variants of consecutive words.

    Two neighbors may be written as one word, which is then a variant of both.
    """
    variants = [expand_word(word, analyzer) for word in words]
    return tuple(
        one and WordVariants(one.word, (*one.runs, *_neighbor_runs(variants, index)))
        for index, one in enumerate(variants)
    )


def _neighbor_runs(
    variants: Sequence[WordVariants | None], index: int
) -> Iterator[TermRun]:
    for first, second in ((index - 1, index), (index, index + 1)):
        if first < 0 or second >= len(variants):
            continue
        pair = variants[first], variants[second]
        terms = [one.runs[0][0] for one in pair if one and len(one.runs[0]) == 1]
        if len(terms) == len(pair) and all(map(_is_joinable, terms)):
            yield ("".join(terms),)


def _is_joinable(term: str) -> bool:
    return len(term) > 1 and term.isalpha() and term not in STOP_WORDS


def split_alternatives(word: str) -> tuple[str, ...]:
    """Return the words of ``login/logout``, which need not be next to each other."""
    if not _ALTERNATIVES.fullmatch(word):
        return ()
    return tuple(part for part in word.split("/") if part.lower() not in STOP_WORDS)


def drop_stop_words(words: Sequence[str]) -> tuple[str, ...]:
    """Return the words of a query without stop words and duplicates.

    If there are only stop words, they stay.
    """
    unique = dict.fromkeys(words)
    significant = tuple(word for word in unique if word.lower() not in STOP_WORDS)
    return significant or tuple(unique)


MAX_NOTES = 10
"""More would not be read, and pasted text could produce thousands."""

_INTENDED_FIELDS = {
    name: field.name for field in FIELDS for name in (field.name, *field.mistaken_names)
}


class NoteCollector:
    """Collects notes about one query, each message once."""

    def __init__(self) -> None:
        self._notes: dict[str, QueryNote] = {}

    @property
    def sorted_notes(self) -> tuple[QueryNote, ...]:
        """The notes in the order of their offsets."""
        return tuple(sorted(self._notes.values(), key=lambda note: note.offset))

    def add(self, kind: QueryNoteKind, start: int, length: int, text: str) -> None:
        """Add a note, unless there are enough."""
        self._append(QueryNote(kind=kind, offset=start, length=length, message=text))

    def add_unknown_field(self, start: int, name: str, *, is_pasted: bool) -> None:
        """Add a note that ``name:`` is not a field, with the one that may be meant.

        Pasted text has colons of all kinds: there only names close to a field count.
        """
        if len(self._notes) >= MAX_NOTES:
            return
        close = suggest_field(name)
        if is_pasted and close is None:
            return
        self._append(
            QueryNote(
                kind=QueryNoteKind.UNKNOWN_FIELD,
                offset=start,
                length=len(name) + 1,
                message=f"unknown field {name}:; searching for it as text"
                + (f"; did you mean {close}:?" if close else ""),
                suggestion=f"{close}:" if close else "",
            )
        )

    def add_spaced_field(self, start: int, field: QueryField) -> None:
        """Add a note that a field's name before a space is a word."""
        message = (
            f"searching for the word {field.name}, because a space follows;"
            f" write a filter like {field.example}"
        )
        self.add(QueryNoteKind.SPACED_FIELD, start, len(field.name) + 1, message)

    def _append(self, note: QueryNote) -> None:
        if len(self._notes) < MAX_NOTES:
            self._notes.setdefault(note.message, note)


@lru_cache(maxsize=64)
def suggest_field(name: str) -> str | None:
    """Return the field that is most likely meant by an unknown name."""
    name = name.casefold()
    close = get_close_matches(name, _INTENDED_FIELDS, n=1, cutoff=0.75)
    return _INTENDED_FIELDS[close[0]] if close else None


def suggest_value(field: QueryField, value: str) -> str:
    """Return a replacement for a value that a field does not have, or an empty text."""
    for other in FIELDS:
        if value in other.choices:
            return f"{other.name}:{value}"
    close = get_close_matches(value, field.choices, n=1)
    if close:
        return f"{field.name}:{close[0]}"
    return f"{field.fallback_field}:{value}" if field.fallback_field else ""


_SPACE = re.compile(r"\s*")
_QUOTE = re.compile('["“”„]')
_FIELD_NAME = re.compile(r"([A-Za-z][A-Za-z_-]{0,30}):")
_STARRED = re.compile(r"[^*]*\*")
_LEADING_PUNCTUATION = re.compile(r"[^\w]*")
_SPOKEN_TIME = re.compile(
    r"(?:last|this)\s+(?:week|month|year)(?=[\s)]|$)", re.IGNORECASE
)
# Other than a path or a comment: no space or star after the first slash.
_REGEX = re.compile(r"/(?![\s*])((?:[^/\\]|\\.)+)(?<!\s)/(?=[\s)]|$)", re.DOTALL)


_NON_VALUE_CHARS = "/:\\"
"""After a colon: a URL, a name in a namespace, a path."""
_MAX_TYPED_WORDS = 5
"""Words of a query that was typed; a pasted line has more."""
_EXCLUDABLE_WORD = re.compile(
    r"[^\W\d_]{3}[\w./]*|[^*]+\*|\\.+|[A-Za-z_-]+:.+", re.DOTALL
)
"""What a dash excludes in a pasted line: a word, a prefix, an escaped text, a field."""


class TokenKind(Enum):
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


class QueryToken(Struct, frozen=True, gc=False):
    """A token of a query, with its position in the text."""

    kind: TokenKind
    text: str
    start: int
    length: int


def tokenize(text: str, notes: NoteCollector) -> list[QueryToken]:
    """Return the tokens of a query, in order.

    Parentheses may be unbalanced and operators may lack operands; a field is followed
    by a token, or by an ``OPEN`` that may be unbalanced.
    """
    return _Tokenizer(text, notes).tokenize()


def empty_field_error(text: str, start: int, field: QueryField) -> MissingFieldValue:
    """Return the error for a field without a value."""
    span = QuerySpan(text, start, len(field.name) + 1)
    return MissingFieldValue(span, field=field.name, example=field.example)


def can_be_excluded(word: str) -> bool:
    """Whether a word after a dash may be excluded, however long the query is."""
    return _EXCLUDABLE_WORD.fullmatch(word) is not None


def has_word_characters(text: str) -> bool:
    """Whether a text has a letter, a digit or a symbol such as an emoji."""
    return any(char.isalnum() or category(char) == "So" for char in text)


class _Tokenizer:
    def __init__(self, text: str, notes: NoteCollector) -> None:
        self.text = text
        self.is_pasted = len(text.split()) > _MAX_TYPED_WORDS
        self.notes = notes
        self.tokens: list[QueryToken] = []
        self.field_stack: list[QueryField | None] = []
        """For each open parenthesis, the field whose values are inside."""

    def tokenize(self) -> list[QueryToken]:
        at = self._skip_space(0)
        while at < len(self.text):
            at = self._skip_space(self._read_token(at))
        return self.tokens

    def _skip_space(self, at: int) -> int:
        found = _SPACE.match(self.text, at)
        return found.end() if found else at

    @property
    def last_kind(self) -> TokenKind | None:
        return self.tokens[-1].kind if self.tokens else None

    @property
    def current_field(self) -> QueryField | None:
        if self.tokens and self.tokens[-1].kind is TokenKind.FIELD:
            return FIELDS_BY_NAME[self.tokens[-1].text]
        return self.field_stack[-1] if self.field_stack else None

    def _add(self, kind: TokenKind, text: str, at: int, end: int) -> int:
        self.tokens.append(QueryToken(kind, text, at, end - at))
        return end

    def _read_token(self, at: int) -> int:
        char = self.text[at]
        if char == "(":
            self.field_stack.append(self.current_field)
            return self._add(TokenKind.OPEN, char, at, at + 1)
        if char == ")":
            del self.field_stack[-1:]
            return self._add(TokenKind.CLOSE, char, at, at + 1)
        if _QUOTE.match(char):
            return self._read_phrase(at)
        if char == "\\":
            end = self._find_word_end(at + 1)
            return self._add(TokenKind.WORD, self.text[at + 1 : end] or char, at, end)
        if (
            char == "-"
            and self.last_kind is not TokenKind.FIELD
            and self._is_exclusion(at + 1)
        ):
            return self._add(TokenKind.NOT, char, at, at + 1)
        return self._read_field(at) or self._read_regex(at) or self._read_word(at)

    def _read_phrase(self, at: int) -> int:
        closing = _QUOTE.search(self.text, at + 1)
        if closing is None:
            sentence = "ignored an unmatched quotation mark"
            self.notes.add(QueryNoteKind.UNMATCHED_QUOTE, at, 1, sentence)
            return at + 1
        inside = " ".join(self.text[at + 1 : closing.start()].split())
        if not inside and self.current_field is None:
            sentence = "ignored an empty pair of quotation marks"
            self.notes.add(QueryNoteKind.EMPTY_QUOTES, at, closing.end() - at, sentence)
        return self._add(TokenKind.PHRASE, inside, at, closing.end())

    def _is_exclusion(self, at: int) -> bool:
        """Whether a dash before this offset excludes what follows."""
        following = self.text[at : at + 1]
        if following == "(" or _QUOTE.match(following):
            return True
        if following == "-":
            return False
        word = self.text[at : self._find_word_end(at)]
        if self.is_pasted and not can_be_excluded(word):
            # In a pasted line it is an option, a range or the mode of a file.
            return False
        if has_word_characters(word):
            return True
        return self.current_field is None and bool(_REGEX.match(self.text, at))

    def _read_field(self, at: int) -> int | None:
        """Read a field's name, or a time of two words after one."""
        if self.current_field is not None:
            spoken = _SPOKEN_TIME.match(self.text, at)
            if (
                spoken
                and self.last_kind is TokenKind.FIELD
                and self.current_field.value_type is FieldType.TIME
            ):
                words = " ".join(spoken[0].split())
                return self._add(TokenKind.PHRASE, words, at, spoken.end())
            return None
        found = _FIELD_NAME.match(self.text, at)
        if found is None:
            return None
        field = FIELDS_BY_NAME.get(found[1])
        # A URL or a name in a namespace is not a field, whatever it starts with.
        if field is None or self.text.startswith(("//", ":"), found.end()):
            following = self.text[found.end() : found.end() + 1]
            if following.strip() and following not in _NON_VALUE_CHARS:
                self.notes.add_unknown_field(at, found[1], is_pasted=self.is_pasted)
            return None
        rest = self.text[found.end() :]
        if rest[:1].strip() and rest[0] != ")":
            return self._add(TokenKind.FIELD, field.name, at, found.end())
        if not self.is_pasted:
            if not rest.strip() or rest[0] == ")":
                raise empty_field_error(self.text, at, field)
            self.notes.add_spaced_field(at, field)
        return None

    def _read_regex(self, at: int) -> int | None:
        if self.current_field is not None:
            return None
        found = _REGEX.match(self.text, at)
        if found is None:
            return None
        if problem := check_regex(found[1]):
            start = found.start(1) + problem.start
            span = QuerySpan(self.text, start, problem.length)
            raise InvalidRegex(span, detail=problem.detail)
        return self._add(TokenKind.REGEX, found[1], at, found.end())

    def _read_word(self, at: int) -> int:
        end = self._find_word_end(at)
        word = self.text[at:end]
        scope = self.current_field
        if self.last_kind not in {TokenKind.FIELD, TokenKind.NOT} and word in {
            "OR",
            "AND",
        }:
            return self._add(TokenKind[word], word, at, end)
        if scope is None or scope.is_text:
            stem = _strip_star(word)
            if stem:
                return self._add(TokenKind.PREFIX, stem, at, end)
        if scope is None:
            self._note_word(word, at)
        return self._add(TokenKind.WORD, word, at, end)

    def _note_word(self, word: str, at: int) -> None:
        if word == "NOT":
            sentence = "searching for the word NOT; to exclude a word, put - before it"
            self.notes.add(QueryNoteKind.DANGLING_OPERATOR, at, 3, sentence)
        elif word == "-":
            sentence = "ignored a - that is followed by a space"
            self.notes.add(QueryNoteKind.DANGLING_OPERATOR, at, 1, sentence)
        elif "*" in word:
            sentence = "* only works at the end of a word"
            self.notes.add(
                QueryNoteKind.MISPLACED_STAR, at + word.index("*"), 1, sentence
            )

    def _find_word_end(self, at: int) -> int:
        """Return the end of a word: a space, or a ``)`` that it did not open."""
        depth = 0
        for end in range(at, len(self.text)):
            char = self.text[end]
            if char.isspace() or (char == ")" and not depth):
                return end
            depth += (char == "(") - (char == ")")
        return len(self.text)


def _strip_star(word: str) -> str:
    """Return a word without the star at its end; empty if it has none."""
    if not _STARRED.fullmatch(word):
        return ""
    stem = _LEADING_PUNCTUATION.sub("", word[:-1], count=1)
    punctuation = word[: -1 - len(stem)]
    field = _FIELD_NAME.match(stem)
    # Without the punctuation it could be read as a field, or close a group.
    if "(" in punctuation or (field and field[1] in FIELDS_BY_NAME):
        return ""
    return stem if has_word_characters(stem) else ""
