"""What tells who somebody is: home folders, login names, addresses."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

__all__ = [
    "ADDRESS",
    "HOME",
    "KEYED_HOME",
    "compiled",
    "is_nobody",
    "is_telling",
    "login_in_key",
    "names_in",
    "spellings",
]

_LETTERS = "A-Za-z0-9\u00c0-\u1fff\u3040-\ud7ff"
"""Letters of all scripts, as far as both engines know them by the same ranges."""
_LOGIN = rf"[{_LETTERS}._-]{{1,64}}"
_SPACED = rf"{_LOGIN}(?: {_LOGIN}){{1,3}}[\\/]"
"""A name of several words, which only the end of the folder's name tells from text."""
_CAPITAL = "[A-Z\u00c0-\u00de]"
_BETWEEN = "(?:v[ao]n|de[rnls]?|d[aiou]s?|l[ae]|te[rn]|zu|el|al|bin)"
"""Words inside of a name that have no capital."""
_FULL = (
    rf"{_CAPITAL}{_LOGIN}(?: {_BETWEEN}){{0,2}}(?: {_CAPITAL}{_LOGIN}){{1,3}}"
    r"(?:[/\\\"'`\n]|$)"
)
"""The same where a blank mostly ends the path: a name with capitals, and its end."""
_ESCAPED = rf"{_LOGIN}(?:(?:\\{{1,4}} |%20){_LOGIN}){{1,3}}"
"""The same where a shell or an address says that the blank is part of it."""
HOME = (
    rf"(?:/(?:var/)?home/|/Users/)(?:{_FULL}|{_ESCAPED}|{_LOGIN})"
    r"|(?:/mnt/[a-z]/Users/|/[a-z]/Users/|\b[A-Za-z]:[\\/]{1,4}Users[\\/]{1,4})"
    rf"(?:{_SPACED}|{_FULL}|{_LOGIN}(?:%20{_LOGIN}){{0,3}})"
)
"""The folder of a user, maybe with what ends it behind a name of several words."""
KEYED_HOME = (
    r"(?:^|[ \t\n\f\r/\"'`])-(?:home|Users)-"
    r"([A-Z][A-Za-z0-9]{1,63}(?:-[A-Z][A-Za-z0-9]{1,63}){1,3}|[A-Za-z0-9]{1,64})"
)
"""The same inside of a project's key, in which every sign that is no letter is lost.

Several words with capitals are a name, up to a folder that many homes have.
"""
ADDRESS = (
    rf"[{_LETTERS}_][{_LETTERS}._%+-]{{0,63}}(?:@|%40)"
    rf"(?:[{_LETTERS}-]{{1,63}}\.)+[A-Za-z]{{2,24}}\b"
)
"""A mail address, also as part of another address."""

_ENDINGS = """
js ts jsx tsx mjs cjs py rs go rb md json toml yaml yml lock png jpg jpeg gif svg webp
css html sh service socket target timer mount so dll whl tgz zip map vue
"""
_FILES = frozenset(_ENDINGS.split())
"""Endings of files: ``icon@2x.png`` and ``unit@1.service`` are no addresses."""
_NOBODY = re.compile(
    r"(?i)^(?:git|hg|svn|noreply|no-reply|donotreply)@"
    r"|@(?:[a-z0-9-]+\.)*example\.(?:com|org|net)$"
    r"|\.(?:test|example|invalid|localhost)$"
)
_WORDS = """
user users root admin administrator dev developer developers ubuntu debian ec2-user
runner node app work home test tests demo docker vscode vagrant codespace public shared
default guest me you name username linuxbrew nobody claude code src project projects
repo build data main local tmp opt var usr bin lib etc git python java web server client
api docs
"""
_ANYBODY = frozenset(_WORDS.split())
"""Names that many share, and that are words besides."""
_FOLDERS = """
applications code desktop dev developer development documents downloads dropbox git
github library movies music onedrive pictures projects public repos sites source src
work workspace
"""
_USUAL = frozenset(_FOLDERS.split())
"""Folders in a home that are no part of a name."""
_BLANK = re.compile(r"\\+ |%20")
_SHORTEST = 3
_PLACE = rf"[\\/](?:home|Users)[\\/]{{1,4}}({_LOGIN}(?: {_LOGIN}){{0,3}})"
_CLASS = re.compile(rf"\[{re.escape(_LETTERS)}([^]]*)\]")
_OTHER = r"(?![\u2000-\u303f\ud800-\U0010ffff])[^\x00-\xbf]"
"""The letters of ``_LETTERS`` that are not plain, in words that compile fast."""


@cache
def compiled(pattern: str) -> re.Pattern[str]:
    """Return what finds a pattern of this module."""
    written = _CLASS.sub(lambda found: f"(?:[A-Za-z0-9{found[1]}]|{_OTHER})", pattern)
    # The ends of words are those of the engine that looks for everything else.
    return re.compile(written, re.ASCII)


def is_nobody(address: str) -> bool:
    """Whether an address is nobody's: a file, a service, an example."""
    address = address.replace("%40", "@")
    ending = address.rpartition(".")[2]
    return ending.lower() in _FILES or _NOBODY.search(address) is not None


def names_in(folders: Iterable[str]) -> frozenset[str]:
    """Return the login names that folders give away.

    A folder is a whole path: what is behind a blank belongs to it.
    """
    plain = (_BLANK.sub(" ", folder) for folder in folders)
    place = compiled(_PLACE)
    found = (match[1] for folder in plain for match in place.finditer(folder))
    ended = (name.rstrip("._-") for name in found)
    return frozenset(name for name in ended if is_telling(name))


def is_telling(name: str) -> bool:
    """Whether a name says who somebody is, and is no word besides."""
    return len(name) >= _SHORTEST and name.lower() not in _ANYBODY


def login_in_key(words: str) -> str:
    """Return the login name that words in a project's key begin with."""
    first, *others = words.split("-")
    known = [first]
    for word in others:
        if word.lower() in _USUAL:
            break
        known.append(word)
    return "-".join(known)


def spellings(name: str) -> tuple[str, ...]:
    """Return a name as it is written in texts, in addresses and in projects' keys."""
    if " " not in name:
        return (name,)
    return name, name.replace(" ", "%20"), name.replace(" ", "-")
