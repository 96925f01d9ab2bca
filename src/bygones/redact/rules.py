"""The rules for secrets, loaded from rules.toml, and the validators they name."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache, lru_cache
from pathlib import Path

import msgspec
from msgspec import Struct

_PLACEHOLDER = re.compile(
    r"(?i)example|placeholder|redacted|your[-_]|x{4,}|\*{4,}|changeme|dummy|foobar"
    r"|\d*1234567890\d*|abcdefgh[a-z]*|process\.env|os\.environ|\.\.\."
)
_WHITESPACE = re.compile(r"\s")
_MIN_REAL_LENGTH = 16
"""Random characters next to a placeholder word that make a value a secret anyway."""
_SHORT_X_RUN = re.compile(r"(?i)(?<!x)x{4,6}(?!x)")
_COMMON_VALUES = frozenset(
    (
        *("password", "passwd", "passphrase", "passwort", "pass", "secret", "token"),
        *("postgres", "mysql", "test", "user", "root", "admin", "guest"),
        *("true", "false", "null", "none", "undefined", "required", "optional"),
        *("string", "text", "varchar", "number", "boolean", "hidden", "input"),
    )
)
_MIN_DISTINCT_CHARS = 5
_MIN_MIXED_LENGTH = 8
_REFERENCE = re.compile(
    r"\$(?:\w+$|[A-Z_{(])|<|\{|\[|%\w+%|%[sd({]|#\{|[A-Za-z_][\w.:]*[(\[<]|!"
    r"|f?\\*[\"'`]|\d{2,5}:\d{2,5}(?:/\w{3,4})?$|\.[*+][^=]*$"
    r"|arn:aws|(?:required|nullable|sometimes|string)\|"
)
"""A variable, template field, call, type, expression, name or rule, or two ports."""
_PUNCTUATION = frozenset("!@#$%^&*?~+|")
_PATH_LIKE = re.compile(
    r"\w*://|[~.]{0,2}/|[A-Za-z]:\\|@/|[\w./-]+/[\w.-]+\.[a-z]{1,5}(?::\d+)?$"
)
_PASSWORD_FIELD = re.compile(r"(?i)\w*(?:password|passwd|passphrase)")
_ONE_WORD = re.compile(r"\S{5,128}")
_PASSPHRASE_WORD = re.compile(r"[^\W_]{2,16}[!?$%&*+-]?")
_MIN_PASSPHRASE_WORDS = 3
_SENTENCE_WORDS_TEXT = """
the an of to in on at is are was be been has have had must should may can could will
would not no and or but if for from with without by as it its this that these those your
you my our we their they he she his her who what when where which how why field value
type text name user username login key secret token string hash hashed enter set use get
new old current default change reset confirm invalid incorrect wrong required optional
least minimum maximum characters letters digits please choose der die das den dem ein
eine ist und oder nicht mit von zu im am auf le les un une est et ou pas de du des dans
pour el los las una es con por para
"""
_SENTENCE_WORDS = frozenset(_SENTENCE_WORDS_TEXT.split())
"""Words of sentences and labels; a passphrase contains none of them."""
WORD_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
"""Words and numbers in an identifier."""
_SECOND_LETTERS = {
    "a": "bcdgilmnprstuy",
    "b": "aeilosu",
    "c": "acehiklortu",
    "d": "adeiorsu",
    "e": "acdefglmnpqrstvx",
    "f": "aefior",
    "g": "ehirs",
    "h": "aeiot",
    "i": "abcdefglmnoprstvz",
    "k": "ei",
    "l": "adeilostuy",
    "m": "aeiops",
    "n": "acdefgiostuv",
    "o": "bcdglmnoprstuvw",
    "p": "aeiloprst",
    "q": "u",
    "r": "acdegilmnorstuy",
    "s": "acehilopstu",
    "t": "acehilorstuy",
    "u": "belmnprst",
    "v": "aei",
    "w": "aei",
    "x": "t",
    "y": "p",
    "z": "e",
}
_COMMON_PAIRS = frozenset(
    first + second for first, seconds in _SECOND_LETTERS.items() for second in seconds
)
"""Pairs of letters in words: 87 % of those in identifiers, 30 % of random ones."""
_MIN_COMMON = 0.6
_MIN_WORD_LENGTH = 4
_MIN_RANDOM_LENGTH = 8
_MAX_RANDOM_LENGTH = 400
"""Longer values are usually encoded content, not secrets."""
_MAX_MEAN_PART = 2.9
"""Random letters and digits alternate more often than the parts of identifiers."""
_MAX_WORD_SHARE = 0.45
_TOKEN_NAME = re.compile(r"(?:[A-Za-z]{2,12}[_$-])+")
"""What precedes the random part of a token, such as ``live_apikey_``."""
_MIN_ONE_CASE_LENGTH = 20
_MIN_PARTS = 4
_UUID = re.compile(r"(?i)[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")
_HEX_VALUE = re.compile(r"(?:0x)?[0-9a-f-]*|(?:0x)?[0-9A-F-]*")
"""Checksums and ids look like this; only their context shows a secret."""
_KNOWN_ID = re.compile(
    r"(?:toolu|srvtoolu|msg|req|call|resp|run|evt|file|step|thread|asst|batch|chatcmpl"
    r"|container|session|agent|pk|sha\d+|compl|cmpl|gen|org|proj|user|wrkspc)[_-]"
    r"|0[0-9A-HJKMNP-TV-Z]{25}$|[a-z][a-z0-9-]*-[0-9a-f]{8,10}-[a-z0-9]{5}$"
)
"""Ids in transcripts, such as those of messages and tool calls; ULIDs; names of pods."""
_DISTANCE = 60
"""How far before a value the word is that makes it a secret."""
_LABEL_SUFFIX = re.compile(r"(?i)[-_](?:secret|key|token|password)$")
"""The end of made-up values such as ``my-api-key``."""
_ALGORITHM = (
    r"(?:sha|md|base|utf|aes|rsa|scram|blake|argon|pbkdf|x?chacha|salsa|poly|curve)"
    r"-?\d{1,5}[a-z-]*|(?:ed|x|hs|rs|es|ps|secp)\d{2,5}(?:[kr]1)?"
    r"|hmac|ecdhe?|ecdsa|sha|aes|rsa|gcm|cbc|ctr"
)
"""The name of an encoding or a hash, which prose also mentions."""
_DURATION = (
    r"(?:\d+(?:\.\d+)?(?:[nuµm]?s|secs?|m|mins?|h|hrs?|d|days?|w|wks?|mo|y|yrs?))+"
)
_TIME = (
    rf"p(?:\d+[ymwd])*(?:t(?:\d+[hms])+)?|{_DURATION}"
    r"|\d{4}-?\d\d-?\d\dt[\d:.]{2,15}(?:z|[+-]\d\d:?\d\d)?"
)
_REGION = r"[a-z]{2}(?:-gov|-iso)?-(?:north|south|east|west|central){1,2}-?\d[a-f]?"
_ORDINARY_TERM = re.compile(
    rf"(?i)(?:(?:{_ALGORITHM})(?:[-_/+](?:{_ALGORITHM}))*|{_TIME}|{_REGION})[,.;:)\]]*"
)
"""Algorithms, durations, times and regions have letters and digits, as tokens have."""
_ATTRIBUTE_ACCESS = re.compile(
    r"[A-Za-z_]{1,30}(?:(?:\.|::|->)[A-Za-z_]\w{0,30})+[,;)]*$"
)

_DOTTED_WORDS = re.compile(r"(?=.*[A-Z][a-z])[A-Za-z]+(?:\.[A-Za-z]+)+\d{1,4}")


def is_placeholder(value: str) -> bool:
    """Whether a value only marks the place of a secret."""
    lowered = value.lower()
    return (
        len(set(lowered)) < _MIN_DISTINCT_CHARS
        or lowered in _COMMON_VALUES
        or _REFERENCE.match(value) is not None
        or (
            _PLACEHOLDER.search(value) is not None
            and not _is_real_despite_placeholder(value)
        )
    )


def _is_real_despite_placeholder(value: str) -> bool:
    """Whether a value is a secret although it contains a placeholder word."""
    if _WHITESPACE.search(value):
        return False
    rest = re.findall(r"[A-Za-z0-9]+", _PLACEHOLDER.sub(" ", value))
    if any(
        len(part) >= _MIN_REAL_LENGTH and not part.isalpha() and not part.isdigit()
        for part in rest
    ):
        return True
    # A real token may contain a few x by chance; a placeholder has little else.
    without_x = _SHORT_X_RUN.sub("", value)
    return (
        len(set(without_x)) >= _MIN_REAL_LENGTH
        and _PLACEHOLDER.search(without_x) is None
    )


def is_password_field(name: str, value: str) -> bool:
    """Whether the name of a field is enough to treat its value as a password."""
    return (
        _PASSWORD_FIELD.fullmatch(name) is not None
        and _ONE_WORD.fullmatch(value) is not None
        and not is_placeholder(value)
    )


def is_passphrase(value: str) -> bool:
    """Whether several words are a passphrase and not a sentence, a label or code."""
    words = value.lower().split()
    return (
        len(set(words)) >= _MIN_PASSPHRASE_WORDS
        and all(map(_PASSPHRASE_WORD.fullmatch, words))
        and _SENTENCE_WORDS.isdisjoint(words)
        and not any(map(_PASSWORD_FIELD.match, words))
    )


def is_mixed_value(value: str) -> bool:
    """Whether a value mixes letters with digits or punctuation as tokens do."""
    if (
        _PATH_LIKE.match(value)
        or _ATTRIBUTE_ACCESS.match(value)
        or _LABEL_SUFFIX.search(value)
        or _ORDINARY_TERM.fullmatch(value)
    ):
        return False
    longest = max(value.split(), key=len, default="").rstrip(",.;)]}")
    if len(longest) < _MIN_MIXED_LENGTH:
        return False
    has_letter = any(char.isalpha() for char in longest)
    has_digit = any(char.isdigit() for char in longest)
    return has_letter and (
        has_digit or not _PUNCTUATION.isdisjoint(longest) or is_random(longest)
    )


def is_mixed_literal(value: str) -> bool:
    """Whether a value is mixed that cannot be code, because it is quoted or an option.

    ``Kettle.Drum7`` may be an attribute in code, but not there.
    """
    return is_mixed_value(value) or (
        len(value) >= _MIN_MIXED_LENGTH and _DOTTED_WORDS.fullmatch(value) is not None
    )


def is_random(value: str) -> bool:
    """Whether a value consists of random characters and not of words and numbers."""
    # Most values are short, or checksums, which stay hexadecimal without their ids.
    return (
        _MIN_RANDOM_LENGTH <= len(value) <= _MAX_RANDOM_LENGTH
        and not _HEX_VALUE.fullmatch(value)
        and not _KNOWN_ID.match(value)
        and _has_random_parts(value)
    )


@lru_cache(maxsize=4096)
def _has_random_parts(value: str) -> bool:
    value = _TOKEN_NAME.sub("", _UUID.sub("", value))
    if _HEX_VALUE.fullmatch(value) or _ORDINARY_TERM.fullmatch(value):
        return False
    parts = WORD_PART.findall(value)
    length = sum(map(len, parts))
    if length < _MIN_RANDOM_LENGTH:
        return False
    words = sum(len(part) for part in parts if _is_word(part))
    if length < _MAX_MEAN_PART * len(parts):
        return words <= _MAX_WORD_SHARE * length
    # Letters of one case, as in base32.
    return (
        words == 0
        and value.isalnum()
        and length >= _MIN_ONE_CASE_LENGTH
        and len(parts) > _MIN_PARTS
    )


def _is_word(part: str) -> bool:
    """Whether a run of letters is made of pairs that are common in words."""
    if len(part) < _MIN_WORD_LENGTH or part.isdigit():
        return False
    lowered = part.lower()
    pairs = [lowered[at : at + 2] for at in range(len(part) - 1)]
    return sum(pair in _COMMON_PAIRS for pair in pairs) >= _MIN_COMMON * len(pairs)


TOKEN_START = (
    r"(?:\b|_|\\[abefnrtv0]|\\u[0-9a-fA-F]{4}|\\x[0-9a-fA-F]{2}|%[0-9a-fA-F]{2}"
    r"|\[[0-9;]{0,10}m)"
)
"""Where a token may start: at a word boundary, or after an escape or color sequence.

Text that was encoded as JSON or as part of a URL contains such escapes.
"""
_RULES_FILE = Path(__file__).with_name("rules.toml")
_FRAGMENT = re.compile(r"\{([a-z_]+)\}")
_LEADING_BOUNDARY = re.compile(r"(\(\?\w+\))?\\b")
_CAPTURING_GROUP = re.compile(r"(?:^|[^\\])(?:\\\\)*\((?!\?)")


class Rule(Struct, frozen=True):
    """One pattern that recognizes a kind of secret."""

    id: str
    pattern: str
    validator: str = ""
    """What else a match has to be, such as "mixed", or anything ("")."""
    prefilter: str = ""
    split_prefix: str = ""
    near: str = ""
    not_after: str = ""
    distance: int = 0
    is_title: bool = False


class RuleDefinition(Struct, frozen=True, forbid_unknown_fields=True):
    """An entry of rules.toml; the header of that file explains the fields."""

    id: str
    examples: tuple[str, ...]
    counterexamples: tuple[str, ...]
    gitleaks_id: str = ""
    patterns: tuple[str, ...] = ()
    mixed_patterns: tuple[str, ...] = ()
    literal_patterns: tuple[str, ...] = ()
    passphrase_patterns: tuple[str, ...] = ()
    random_patterns: tuple[str, ...] = ()
    prefilter: str = ""
    split_prefix: str = ""
    near: str = ""
    not_after: str = ""
    distance: int = _DISTANCE
    is_title: bool = False


class _RulesFile(Struct, frozen=True, forbid_unknown_fields=True):
    fragments: dict[str, str]
    rules: tuple[RuleDefinition, ...]


@cache
def load_rule_definitions() -> tuple[RuleDefinition, ...]:
    return _load_file().rules


@cache
def load_rules() -> tuple[Rule, ...]:
    file = _load_file()
    return tuple(
        Rule(
            definition.id,
            _allow_escape_before(_expand(pattern, file.fragments)),
            validator=validator,
            prefilter=_expand(definition.prefilter, file.fragments),
            split_prefix=definition.split_prefix,
            near=_expand(definition.near, file.fragments),
            not_after=_expand(definition.not_after, file.fragments),
            distance=definition.distance,
            is_title=definition.is_title,
        )
        for definition in file.rules
        for validator, patterns in (
            ("", definition.patterns),
            ("mixed", definition.mixed_patterns),
            ("literal", definition.literal_patterns),
            ("passphrase", definition.passphrase_patterns),
            ("random", definition.random_patterns),
        )
        for pattern in patterns
    )


@cache
def secret_field_pattern() -> re.Pattern[str]:
    """Match the name of a field that holds a secret."""
    return re.compile(expand("(?i)(?:{password_word}|{secret_word})$"))


def expand(pattern: str) -> str:
    """Insert the fragments of rules.toml into an expression."""
    return _expand(pattern, _load_file().fragments)


@cache
def _load_file() -> _RulesFile:
    content = tomllib.loads(_RULES_FILE.read_text("utf-8"))
    return msgspec.convert(content, _RulesFile)


def _expand(pattern: str, fragments: Mapping[str, str]) -> str:
    return _FRAGMENT.sub(lambda name: _expand(fragments[name[1]], fragments), pattern)


def _allow_escape_before(pattern: str) -> str:
    """Let a pattern that starts at a word boundary also match after an escape."""
    boundary = _LEADING_BOUNDARY.match(pattern)
    if boundary is None:
        return pattern
    rest = pattern[boundary.end() :]
    group = rest if _CAPTURING_GROUP.search(rest) else f"({rest})"
    return f"{boundary[1] or ''}{TOKEN_START}{group}"
