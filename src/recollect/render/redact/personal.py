"""What tells who somebody is: home folders, login names, addresses."""

from __future__ import annotations

import re
from collections.abc import Iterable

__all__ = ["ADDRESS", "HOME", "KEYED_HOME", "is_nobody", "names_in", "names_pattern"]

_LETTERS = "A-Za-z0-9\u00c0-\u1fff\u3040-\ud7ff"
"""Letters of all scripts, as far as both engines know them by the same ranges."""
_LOGIN = rf"[{_LETTERS}._-]{{1,64}}"
_SPACED = rf"{_LOGIN}(?: {_LOGIN}){{1,3}}[\\/]"
"""A name of several words, which only the end of the folder's name tells from text."""
HOME = (
    rf"(?:/(?:var/)?home/|/Users/)({_LOGIN})"
    r"|(?:/mnt/[a-z]/Users/|/[a-z]/Users/|\b[A-Za-z]:[\\/]{1,4}Users[\\/]{1,4})"
    rf"({_SPACED}|{_LOGIN})"
)
"""The folder of a user; a group is the login name, maybe with what ends the folder."""
KEYED_HOME = r"(?:^|[\s/\"'`])-(?:home|Users)-([A-Za-z0-9]{1,64})"
"""The same inside of a project's key, in which every sign that is no letter is lost."""
ADDRESS = (
    rf"[{_LETTERS}_][{_LETTERS}._%+-]{{0,63}}@"
    rf"(?:[{_LETTERS}-]{{1,63}}\.)+([A-Za-z]{{2,24}})\b"
)
"""A mail address; the group is the last part of the domain."""

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
_SHORTEST = 3
_home = re.compile(HOME)


def is_nobody(address: str, ending: str) -> bool:
    """Whether an address is nobody's: a file, a service, an example."""
    return ending.lower() in _FILES or _NOBODY.search(address) is not None


def names_in(paths: Iterable[str]) -> frozenset[str]:
    """Return the login names that paths give away."""
    found = (
        (found[1] or found[2]).rstrip("\\/")
        for path in paths
        for found in _home.finditer(path)
    )
    return frozenset(name for name in found if is_telling(name))


def is_telling(name: str) -> bool:
    """Whether a name says who somebody is, and is no word besides."""
    return len(name) >= _SHORTEST and name.lower() not in _ANYBODY


def names_pattern(names: Iterable[str]) -> str:
    """Return a pattern for these names where they stand alone, the longest first."""
    ordered = sorted((name for name in names if is_telling(name)), key=len)
    return "|".join(re.escape(name) for name in reversed(ordered))
