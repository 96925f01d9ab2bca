"""What tells who somebody is: home folders, login names, addresses."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache

_LETTERS = "A-Za-z0-9\u00c0-\u1fff\u3040-\ud7ff"
"""Letters of all scripts, as far as both engines know them by the same ranges."""
_LOGIN = rf"[{_LETTERS}._-]{{1,64}}"
_SPACED_LOGIN = rf"{_LOGIN}(?: {_LOGIN}){{1,3}}[\\/]"
"""A name of several words, which only the end of the folder's name tells from text."""
_CAPITAL = "[A-Z\u00c0-\u00de]"
_NAME_PARTICLE = "(?:v[ao]n|de[rnls]?|d[aiou]s?|l[ae]|te[rn]|zu|el|al|bin)"
"""Words inside of a name that have no capital."""
_FULL_NAME = (
    rf"{_CAPITAL}{_LOGIN}(?: {_NAME_PARTICLE}){{0,2}}(?: {_CAPITAL}{_LOGIN}){{1,3}}"
    r"(?:[/\\\"'`\n]|$)"
)
"""The same where a blank mostly ends the path: a name with capitals, and its end."""
_ESCAPED_LOGIN = rf"{_LOGIN}(?:(?:\\{{1,4}} |%20){_LOGIN}){{1,3}}"
"""The same where a shell or an address says that the blank is part of it."""
HOME_PATTERN = (
    rf"(?:/(?:var/)?home/|/Users/)(?:{_FULL_NAME}|{_ESCAPED_LOGIN}|{_LOGIN})"
    r"|(?:/mnt/[a-z]/Users/|/[a-z]/Users/|\b[A-Za-z]:[\\/]{1,4}Users[\\/]{1,4})"
    rf"(?:{_SPACED_LOGIN}|{_FULL_NAME}|{_LOGIN}(?:%20{_LOGIN}){{0,3}})"
)
"""The folder of a user, maybe with what ends it behind a name of several words."""
PROJECT_KEY_PATTERN = (
    r"(?:^|[ \t\n\f\r/\"'`])-(?:home|Users)-"
    r"([A-Z][A-Za-z0-9]{1,63}(?:-[A-Z][A-Za-z0-9]{1,63}){1,3}|[A-Za-z0-9]{1,64})"
)
"""The same inside of a project's key, in which every sign that is no letter is lost.

Several words with capitals are a name, up to a folder that many homes have.
"""
EMAIL_PATTERN = (
    rf"[{_LETTERS}_][{_LETTERS}._%+-]{{0,63}}(?:@|%40)"
    rf"(?:[{_LETTERS}-]{{1,63}}\.)+[A-Za-z]{{2,24}}\b"
)
"""A mail address, also as part of another address."""

_FILE_EXTENSION_LIST = """
js ts jsx tsx mjs cjs py rs go rb md json toml yaml yml lock png jpg jpeg gif svg webp
css html sh service socket target timer mount so dll whl tgz zip map vue
"""
_FILE_EXTENSIONS = frozenset(_FILE_EXTENSION_LIST.split())
"""Endings of files: ``icon@2x.png`` and ``unit@1.service`` are no addresses."""
_IMPERSONAL_EMAIL = re.compile(
    r"(?i)^(?:git|hg|svn|noreply|no-reply|donotreply)@"
    r"|@(?:[a-z0-9-]+\.)*example\.(?:com|org|net)$"
    r"|\.(?:test|example|invalid|localhost)$"
)
_COMMON_LOGIN_LIST = """
user users root admin administrator dev developer developers ubuntu debian ec2-user
runner node app work home test tests demo docker vscode vagrant codespace public shared
default guest me you name username linuxbrew nobody claude code src project projects
repo build data main local tmp opt var usr bin lib etc git python java web server client
api docs
"""
_COMMON_LOGINS = frozenset(_COMMON_LOGIN_LIST.split())
"""Names that many share, and that are words besides."""
_COMMON_FOLDER_LIST = """
applications code desktop dev developer development documents downloads dropbox git
github library movies music onedrive pictures projects public repos sites source src
work workspace
"""
_COMMON_FOLDERS = frozenset(_COMMON_FOLDER_LIST.split())
"""Folders in a home that are no part of a name."""
_ESCAPED_SPACE = re.compile(r"\\+ |%20")
_MIN_LOGIN_LENGTH = 3
_HOME_LOGIN = rf"[\\/](?:home|Users)[\\/]{{1,4}}({_LOGIN}(?: {_LOGIN}){{0,3}})"
_LETTER_CLASS = re.compile(rf"\[{re.escape(_LETTERS)}([^]]*)\]")
_NON_ASCII_LETTER = r"(?![\u2000-\u303f\ud800-\U0010ffff])[^\x00-\xbf]"
"""The letters of ``_LETTERS`` that are not plain, in words that compile fast."""


@cache
def compile_pattern(pattern: str) -> re.Pattern[str]:
    """Return what finds a pattern of this module."""
    written = _LETTER_CLASS.sub(
        lambda found: f"(?:[A-Za-z0-9{found[1]}]|{_NON_ASCII_LETTER})", pattern
    )
    # The ends of words are those of the engine that looks for everything else.
    return re.compile(written, re.ASCII)


def is_impersonal_email(address: str) -> bool:
    """Whether an address is nobody's: a file, a service, an example."""
    address = address.replace("%40", "@")
    ending = address.rpartition(".")[2]
    return (
        ending.lower() in _FILE_EXTENSIONS
        or _IMPERSONAL_EMAIL.search(address) is not None
    )


def login_names_in(folders: Iterable[str]) -> frozenset[str]:
    """Return the login names that folders give away.

    A folder is a whole path: what is behind a blank belongs to it.
    """
    plain = (_ESCAPED_SPACE.sub(" ", folder) for folder in folders)
    place = compile_pattern(_HOME_LOGIN)
    found = (match[1] for folder in plain for match in place.finditer(folder))
    ended = (name.rstrip("._-") for name in found)
    return frozenset(name for name in ended if is_identifying(name))


def is_identifying(name: str) -> bool:
    """Whether a name says who somebody is, and is no word besides."""
    return len(name) >= _MIN_LOGIN_LENGTH and name.lower() not in _COMMON_LOGINS


def login_from_project_key(words: str) -> str:
    """Return the login name that words in a project's key begin with."""
    first, *others = words.split("-")
    known = [first]
    for word in others:
        if word.lower() in _COMMON_FOLDERS:
            break
        known.append(word)
    return "-".join(known)


def name_spellings(name: str) -> tuple[str, ...]:
    """Return a name as it is written in texts, in addresses and in projects' keys."""
    if " " not in name:
        return (name,)
    return name, name.replace(" ", "%20"), name.replace(" ", "-")


_OFFSETS_BEFORE_USERS = (7, 6, 5, 4, 3, 1)
"""How far before ``Users`` a home may begin, the farthest first."""
_MAX_LOCAL_PART = 64
"""Signs before the @ of an address."""


def find_homes(text: str) -> Iterator[tuple[int, int]]:
    """Yield where home folders stand."""
    fits = compile_pattern(HOME_PATTERN).match
    end = 0
    for at in _find_all(text, "/home/", "Users"):
        if text[at] == "/":
            starts = [at - 4, at] if text.startswith("/var", max(at - 4, 0)) else [at]
        else:
            starts = [at - before for before in _OFFSETS_BEFORE_USERS]
        for start in starts:
            found = fits(text, start) if start >= end else None
            if found is not None and found.end() > at:
                end = found.end()
                yield start, end
                break


def find_project_key_logins(text: str) -> Iterator[tuple[int, int]]:
    """Yield where the names of home folders stand in projects' keys."""
    fits = compile_pattern(PROJECT_KEY_PATTERN).match
    for at in _find_all(text, "-home-", "-Users-"):
        found = fits(text, max(at - 1, 0))
        if found is not None:
            yield found.span(1)


def find_emails(text: str) -> Iterator[tuple[int, int]]:
    """Yield where mail addresses stand."""
    whole, local, domain = _email_patterns()
    end = 0
    for at in _find_all(text, "@", "%40"):
        # Most signs of one are none: what is behind says so at once.
        if at <= end or not domain.match(text, at + (1 if text[at] == "@" else 3)):
            continue
        first = max(end, at - _MAX_LOCAL_PART)
        name = local.search(text[first:at])
        found = whole.match(text, first + name.start()) if name is not None else None
        if found is not None:
            end = found.end()
            yield found.span()


@cache
def _email_patterns() -> tuple[re.Pattern[str], ...]:
    """Return what fits an address, what is before its @ and what is behind."""
    local, _, domain = EMAIL_PATTERN.partition("(?:@|%40)")
    return (
        compile_pattern(EMAIL_PATTERN),
        compile_pattern(rf"{local}\Z"),
        compile_pattern(domain),
    )


def _find_all(text: str, *words: str) -> list[int]:
    """Return where any of some words stands, in order."""
    found = []
    for word in words:
        at = text.find(word)
        while at >= 0:
            found.append(at)
            at = text.find(word, at + 1)
    return sorted(found) if len(words) > 1 else found
