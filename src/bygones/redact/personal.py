"""Find personal data: home folders, login names, email addresses."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache

_LETTERS = "A-Za-z0-9\u00c0-\u1fff\u3040-\ud7ff"
"""Letters of all scripts, as ranges that RE2 and `re` both support."""
_LOGIN = rf"(?:[{_LETTERS}._-]|%[89A-Fa-f][0-9A-Fa-f]|\\{{1,4}}u[0-9a-f]{{4}}){{1,64}}"
"""A login name; letters of other scripts may be encoded for a URL or as JSON."""
_SPACED_LOGIN = rf"{_LOGIN}(?: {_LOGIN}){{1,3}}[\\/]"
"""A name with spaces, recognizable only by the separator after it."""
_CAPITAL = "[A-Z\u00c0-\u00de]"
_NAME_PARTICLE = "(?:v[ao]n|de[rnls]?|d[aiou]s?|l[ae]|te[rn]|zu|el|al|bin)"
"""Lower-case words inside a name."""
_FULL_NAME = (
    rf"{_CAPITAL}{_LOGIN}(?: {_NAME_PARTICLE}){{0,2}}(?: {_CAPITAL}{_LOGIN}){{1,3}}"
    r"(?:[/\\\"'`\n]|$)"
)
"""A name with spaces where a space usually ends the path: capitals, and its end."""
_ESCAPED_LOGIN = rf"{_LOGIN}(?:(?:\\{{1,4}} |%20){_LOGIN}){{1,3}}"
"""A name with spaces that are escaped for a shell or a URL."""
HOME_PATTERN = (
    rf"(?:/(?:var/)?home/|/Users/)(?:{_FULL_NAME}|{_ESCAPED_LOGIN}|{_LOGIN})"
    r"|(?:/mnt/[a-z]/Users/|/[a-z]/Users/"
    r"|\b[A-Za-z]:[\\/]{1,4}(?:Users|USERS|users)[\\/]{1,4}"
    r"|\bwsl(?:\$|\.localhost)[\\/]{1,4}[A-Za-z0-9._-]{1,64}[\\/]{1,4}home[\\/]{1,4})"
    rf"(?:{_SPACED_LOGIN}|{_FULL_NAME}|{_LOGIN}(?:%20{_LOGIN}){{0,3}})"
)
"""A home folder. After a name with spaces, the match includes the next character."""
PROJECT_KEY_PATTERN = (
    r"(?:^|[ \t\n\f\r/\"'`])-(?:home|Users)-"
    r"([A-Z][A-Za-z0-9]{1,63}(?:-[A-Z][A-Za-z0-9]{1,63}){1,3}|[A-Za-z0-9]{1,64})"
)
"""A home folder in a project key, where every other character became a dash.

Several capitalized words are a name, up to a common folder such as ``Documents``.
"""
EMAIL_PATTERN = (
    rf"[{_LETTERS}_][{_LETTERS}._%+-]{{0,63}}(?:@|%40)"
    rf"(?:[{_LETTERS}-]{{1,63}}\.)+[A-Za-z]{{2,24}}\b"
)
"""An email address, also percent-encoded in a URL."""

_FILE_EXTENSIONS_TEXT = """
js ts jsx tsx mjs cjs py rs go rb md json toml yaml yml lock png jpg jpeg gif svg webp
css html sh service socket target timer mount so dll whl tgz zip map vue
"""
_FILE_EXTENSIONS = frozenset(_FILE_EXTENSIONS_TEXT.split())
"""``icon@2x.png`` and ``unit@1.service`` are not email addresses."""
_IMPERSONAL_EMAIL = re.compile(
    r"(?i)^(?:git|hg|svn|noreply|no-reply|donotreply)@"
    r"|@(?:[a-z0-9-]+\.)*example\.(?:com|org|net)$"
    r"|\.(?:test|example|invalid|localhost)$"
)
_COMMON_LOGINS_TEXT = """
user users root admin administrator dev developer developers ubuntu debian ec2-user
runner node app work home test tests demo docker vscode vagrant codespace public shared
default guest me you name username linuxbrew nobody claude code src project projects
repo build data main local tmp opt var usr bin lib etc git python java web server client
api docs
"""
_COMMON_LOGINS = frozenset(_COMMON_LOGINS_TEXT.split())
"""Login names that do not identify a person."""
_COMMON_FOLDERS_TEXT = """
applications code desktop dev developer development documents downloads dropbox git
github library movies music onedrive pictures projects public repos sites source src
work workspace
"""
_COMMON_FOLDERS = frozenset(_COMMON_FOLDERS_TEXT.split())
"""Folders in a home that are not part of a name."""
_ESCAPED_SPACE = re.compile(r"\\+ |%20")
_MIN_LOGIN_LENGTH = 3
_HOME_LOGIN = rf"[\\/](?:home|Users)[\\/]{{1,4}}({_LOGIN}(?: {_LOGIN}){{0,3}})"
_LETTER_CLASS = re.compile(rf"\[{re.escape(_LETTERS)}([^]]*)\]")
_NON_ASCII_LETTER = r"(?![\u2000-\u303f\ud800-\U0010ffff])[^\x00-\xbf]"
"""The non-ASCII letters of ``_LETTERS``, written so that they compile fast."""


@cache
def compile_pattern(pattern: str) -> re.Pattern[str]:
    expanded = _LETTER_CLASS.sub(
        lambda match: f"(?:[A-Za-z0-9{match[1]}]|{_NON_ASCII_LETTER})", pattern
    )
    # With ASCII, word boundaries are those of RE2.
    return re.compile(expanded, re.ASCII)


def is_impersonal_email(address: str) -> bool:
    """Whether an address belongs to a file, a service or an example."""
    address = address.replace("%40", "@")
    extension = address.rpartition(".")[2]
    return (
        extension.lower() in _FILE_EXTENSIONS
        or _IMPERSONAL_EMAIL.search(address) is not None
    )


def login_names_in(folders: Iterable[str]) -> frozenset[str]:
    """Return the login names that appear in paths of folders."""
    unescaped = (_ESCAPED_SPACE.sub(" ", folder) for folder in folders)
    pattern = compile_pattern(_HOME_LOGIN)
    matches = (match[1] for folder in unescaped for match in pattern.finditer(folder))
    names = (name.rstrip("._-") for name in matches)
    return frozenset(name for name in names if may_identify(name))


def is_identifying(name: str) -> bool:
    """Whether a name identifies a person wherever it is, and is not a common word."""
    # Two letters of other scripts are a whole name.
    least = _MIN_LOGIN_LENGTH if name.isascii() else _MIN_LOGIN_LENGTH - 1
    return len(name) >= least and may_identify(name)


def may_identify(name: str) -> bool:
    """Whether a name identifies a person where an account is meant."""
    return bool(name) and name.lower() not in _COMMON_LOGINS


def login_from_project_key(words: str) -> str:
    """Return the login name at the start of the words of a project key."""
    first, *others = words.split("-")
    name = [first]
    for word in others:
        if word.lower() in _COMMON_FOLDERS:
            break
        name.append(word)
    return "-".join(name)


def name_spellings(name: str) -> tuple[str, ...]:
    """Return a name as it is spelled in text, URLs and project keys."""
    if " " not in name:
        return (name,)
    return name, name.replace(" ", "%20"), name.replace(" ", "-")


_OFFSETS_BEFORE_USERS = (7, 6, 5, 4, 3, 1)
"""How far before ``Users`` a home folder may start, the farthest first."""
_MAX_LOCAL_PART = 64


HOME_WORDS = ("/home/", "Users", "USERS", "users", "wsl")
"""A text without one of these contains no home folder."""


def find_homes(text: str) -> Iterator[tuple[int, int]]:
    match_home = compile_pattern(HOME_PATTERN).match
    end = 0
    for at in _find_all(text, *HOME_WORDS):
        if text[at] == "/":
            starts = [at - 4, at] if text.startswith("/var", max(at - 4, 0)) else [at]
        elif text[at] == "w":
            starts = [at]
        else:
            starts = [at - before for before in _OFFSETS_BEFORE_USERS]
        for start in starts:
            match = match_home(text, start) if start >= end else None
            if match is not None and match.end() > at:
                end = match.end()
                yield start, end
                break


def find_project_key_logins(text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of login names in project keys."""
    match_key = compile_pattern(PROJECT_KEY_PATTERN).match
    for at in _find_all(text, "-home-", "-Users-"):
        match = match_key(text, max(at - 1, 0))
        if match is not None:
            yield match.span(1)


def find_emails(text: str) -> Iterator[tuple[int, int]]:
    address, local, domain = _email_patterns()
    end = 0
    for at in _find_all(text, "@", "%40"):
        # Most @ are not part of an address. The domain after it shows that at once.
        if at <= end or not domain.match(text, at + (1 if text[at] == "@" else 3)):
            continue
        first = max(end, at - _MAX_LOCAL_PART)
        name = local.search(text[first:at])
        match = address.match(text, first + name.start()) if name is not None else None
        if match is not None:
            end = match.end()
            yield match.span()


@cache
def _email_patterns() -> tuple[re.Pattern[str], ...]:
    """Return patterns for a whole address, its local part and its domain."""
    local, _, domain = EMAIL_PATTERN.partition("(?:@|%40)")
    return (
        compile_pattern(EMAIL_PATTERN),
        compile_pattern(rf"{local}\Z"),
        compile_pattern(domain),
    )


def _find_all(text: str, *words: str) -> list[int]:
    offsets = []
    for word in words:
        at = text.find(word)
        while at >= 0:
            offsets.append(at)
            at = text.find(word, at + 1)
    return sorted(offsets) if len(words) > 1 else offsets
